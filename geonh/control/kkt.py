r"""Newton's method on the conditions of the first order of min J(z) under c(z) = 0,

    [[∇²(J + λᵀc), c'ᵀ], [c', 0]] (δz, δλ) = −(∇J + c'ᵀλ, c),

sparse, about nodes that move along: g_k ← g_k exp(η_k), and onto φ = 0. λ is that of least squares at each iterate. A
step is halved until the next one, by the same matrix, is shorter (the natural monotonicity test, which does not depend
on how rows are scaled). It may end at a saddle, which is left along the direction of least curvature.

Sources: Nocedal, Wright, *Numerical Optimization* (2006), §18.1; Deuflhard, *Newton Methods for Nonlinear Problems*
(2011), §3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from geonh.control.transcription import Motion, Transcription, steps_of

HALVINGS = 12
"""A step of Newton's method is halved at most so often."""
EXCHANGES = 20
"""Controls are put to their bounds, or let off, so often at most."""
SADDLES = 6
"""So many saddles are left at most."""
DOWNHILL = 50
"""Steps down from a saddle, at most."""
SETTLED = 1e-9
"""A residual of the KKT equations below this, relative to their terms, is zero."""


class Extremal(NamedTuple):
    """Where Newton's method ended, and how well."""

    motion: Motion
    multipliers: np.ndarray
    cost: float
    residual: float
    optimality: float
    iterations: int

    @property
    def solved(self) -> bool:
        """Whether it is a solution."""
        return self.residual < SETTLED and self.optimality < 1e3 * SETTLED


def extremal(
    problem: Transcription, motion: Motion, multipliers: np.ndarray | None, held: np.ndarray, max_iterations: int
) -> Extremal:
    """Newton's method from a motion, in the unknowns that are not held."""
    own = np.flatnonzero(~held)

    def parts(motion: Motion) -> tuple:
        c, A = problem.jacobian(motion)
        price, slope, bend = problem.price(motion)
        return c, A[:, own], price, slope[own], bend[own][:, own]

    def left(made: tuple, lam: np.ndarray) -> tuple[np.ndarray, float, float]:
        c, A, _, slope, _ = made
        rest = slope + A.T @ lam
        size = 1e-12 + np.abs(slope).max(initial=0.0) + abs(A.T).dot(np.abs(lam)).max(initial=0.0)
        return np.concatenate([rest, c]), float(np.abs(c).max()), float(np.abs(rest).max(initial=0.0) / size)

    made = parts(motion)
    lam = _least_squares(made[1], made[3]) if multipliers is None else multipliers
    rest, residual, optimality = left(made, lam)
    scale = 1.0 + float(np.abs(problem.asked.xi_start).max()) + _speed(problem, motion)
    iteration, n = 0, len(own)
    while iteration < max_iterations and not (residual < SETTLED * 1e-4 * scale and optimality < SETTLED):
        H = made[4] + problem.bending(motion, lam)[own][:, own]
        solve = _saddle(H, made[1])
        step, whole = solve(-rest), np.zeros(problem.size)
        for halved in range(HALVINGS):
            part = 0.5**halved
            whole[own] = part * step[:n]
            trial = problem.brought(problem.moved(motion, whole))
            if not (trial.span > 0):
                continue
            new = parts(trial)
            new_lam = _least_squares(new[1], new[3])
            found = left(new, new_lam)
            if np.linalg.norm(solve(-found[0])[:n]) <= (1 - part / 2) * np.linalg.norm(step[:n]):
                break
        else:
            break
        iteration += 1
        motion, lam, made, (rest, residual, optimality) = trial, new_lam, new, found
    return Extremal(motion, lam, made[2], residual / scale, optimality, iteration)


def restored(problem: Transcription, motion: Motion) -> Motion:
    """A motion nearby that satisfies the discrete equations, by shortest steps."""
    for _ in range(30):
        c, A = problem.jacobian(motion)
        step = _saddle(scipy.sparse.identity(problem.size), A)(np.append(np.zeros(problem.size), -c))[: problem.size]
        for halved in range(HALVINGS):
            trial = problem.brought(problem.moved(motion, 0.5**halved * step))
            if trial.span > 0 and np.linalg.norm(problem.equations(trial)) < np.linalg.norm(c):
                break
        else:
            return motion
        motion = trial
        if np.abs(step).max() < 1e-6:
            return motion
    return motion


def descended(problem: Transcription, made: Extremal, held: np.ndarray, max_iterations: int) -> tuple[float, Extremal]:
    """From saddles down: the least curvature, and the solution where it is not negative, as far as one is found."""
    own = np.flatnonzero(~held)
    for _ in range(SADDLES):
        values, ways, _ = _curvatures(problem, made.motion, made.multipliers, own)
        if not len(values):
            return 0.0, made
        if values[0] >= -SETTLED * np.abs(values).max() or held.any():
            break
        way, lower = ways[:, 0] / np.abs(ways[:, 0]).max(), []
        for side in (0.3, -0.3):
            low = _downhill(problem, problem.moved(made.motion, side * way))
            found = extremal(problem, low, None, held, max_iterations)
            if found.solved and found.cost < made.cost - SETTLED * abs(made.cost):
                lower.append(found)
        if not lower:
            break
        made = min(lower, key=lambda found: found.cost)
    return float(values[0]), made


def _curvatures(problem: Transcription, motion: Motion, lam: np.ndarray | None, own: np.ndarray) -> tuple:
    """Curvatures of the cost among neighbours that satisfy the equations, rising, where to, and the slopes there."""
    A = problem.jacobian(motion)[1][:, own]
    _, slope, bend = problem.price(motion)
    lam = _least_squares(A, slope[own]) if lam is None else lam
    Q, R, _ = scipy.linalg.qr(A.T.toarray(), pivoting=True)
    sizes = np.abs(np.diag(R))
    basis = Q[:, int(np.sum(sizes > 1e-12 * sizes.max(initial=0.0))) :]  # of the kernel of c'
    values, vectors = scipy.linalg.eigh(basis.T @ ((bend + problem.bending(motion, lam))[own][:, own] @ basis))
    ways = np.zeros((problem.size, len(values)))
    ways[own] = basis @ vectors
    return values, ways, slope @ ways


def _downhill(problem: Transcription, motion: Motion) -> Motion:
    """From a motion down to where all curvatures are positive: Newton's steps, each way down by its size."""
    motion = restored(problem, motion)
    for _ in range(DOWNHILL):
        price = problem.price(motion)[0]
        values, ways, slopes = _curvatures(problem, motion, None, np.arange(problem.size))
        sizes = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
        gain = slopes @ (slopes / sizes)
        if values[0] > 0:
            break
        for halved in range(HALVINGS):
            part = 0.5**halved
            trial = restored(problem, problem.moved(motion, -part * ways @ (slopes / sizes)))
            if trial.span > 0 and problem.price(trial)[0] < price - 1e-4 * part * gain:
                break
        else:
            break
        motion = trial
    return motion


def within(
    problem: Transcription, motion: Motion, limits: tuple[np.ndarray, np.ndarray], max_iterations: int
) -> tuple[Extremal, np.ndarray]:
    """Newton's method with the controls that are at a bound held there, until none wants to leave it, nor to cross."""
    columns = problem.columns[1]
    near = np.where(np.isfinite(limits[1] - limits[0]), 1e-7 * (limits[1] - limits[0]), 1e-9)
    low, high = motion.u <= limits[0] + near, motion.u >= limits[1] - near
    for _ in range(EXCHANGES):
        motion = motion._replace(u=np.where(low, limits[0], np.where(high, limits[1], motion.u)))
        held = np.zeros(problem.size, bool)
        held[columns[low | high]] = True
        made = extremal(problem, motion, None, held, max_iterations)
        motion = made.motion
        pull = (problem.price(motion)[1] + problem.jacobian(motion)[1].T @ made.multipliers)[columns]
        rounding = SETTLED * (1.0 + np.abs(pull).max())
        stay_low, stay_high = low & (pull > -rounding), high & (pull < rounding)
        new_low, new_high = stay_low | (motion.u < limits[0] - near), stay_high | (motion.u > limits[1] + near)
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return made, held
        low, high = new_low, new_high
    raise RuntimeError(f"no optimal control of {problem.system.name} within the bounds found; another guess may do")


def _saddle(H: Any, A: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Solutions of the saddle system with the blocks H and A, for any right side; not numbers where it is singular."""
    try:
        solve = scipy.sparse.linalg.splu(scipy.sparse.bmat([[H, A.T], [A, None]], format="csc")).solve
    except RuntimeError:
        return lambda right: np.full(len(right), np.nan)
    return lambda right: solve(right) if np.all(np.isfinite(right)) else np.full(len(right), np.nan)


def _least_squares(A: Any, slope: np.ndarray) -> np.ndarray:
    """λ of the least |∇J + c'ᵀλ|."""
    right = np.append(-slope, np.zeros(A.shape[0]))
    return _saddle(scipy.sparse.identity(len(slope)), A)(right)[len(slope) :]


def _speed(problem: Transcription, motion: Motion) -> float:
    low, high = (jax.tree.map(lambda a, part=part: a[part], motion.g) for part in (slice(0, -1), slice(1, None)))
    return float(np.abs(steps_of(problem.system, low, high)).max() * problem.n_steps / motion.span)

r"""Newton's method on the KKT conditions of min J(z) under c(z) = 0,

    [[∇²(J + λᵀc), c'ᵀ], [c', 0]] (δz, δλ) = −(∇J + c'ᵀλ, c),

sparse, in charts about nodes updated by g_k ← g_k exp(η_k), and onto φ = 0. λ are the least-squares multipliers at each
iterate. A step is halved until the next simplified Newton step is shorter (the natural monotonicity test, invariant
under scaling of the rows). It may converge to a saddle, which ``descent.py`` leaves.

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
"""Maximum number of halvings of a Newton step."""
EXCHANGES = 20
"""Maximum number of changes of the active set of bounds."""
SETTLED = 1e-9
"""Residual of the KKT equations, relative to their terms, below which it counts as zero."""


class Extremal(NamedTuple):
    """Last iterate of Newton's method, with its residuals."""

    motion: Motion
    multipliers: np.ndarray
    cost: float
    residual: float
    optimality: float
    iterations: int

    @property
    def solved(self) -> bool:
        """True if it is a solution."""
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
        solve = saddle(H, made[1])
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


def within(
    problem: Transcription, motion: Motion, limits: tuple[np.ndarray, np.ndarray], max_iterations: int
) -> tuple[Extremal, np.ndarray]:
    """Newton's method with an active set: controls at a bound are held there until none leaves and none crosses."""
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
    return made._replace(optimality=np.inf), held


def saddle(H: Any, A: Any, corner: Any = None) -> Callable[[np.ndarray], np.ndarray]:
    """Solver of [[H, Aᵀ], [A, −corner]] for any right side; returns NaN where the matrix is singular."""
    try:
        solve = scipy.sparse.linalg.splu(
            scipy.sparse.bmat([[H, A.T], [A, None if corner is None else -corner]], format="csc")
        ).solve
    except RuntimeError:
        return lambda right: np.full(len(right), np.nan)
    return lambda right: solve(right) if np.all(np.isfinite(right)) else np.full(len(right), np.nan)


def _least_squares(A: Any, slope: np.ndarray) -> np.ndarray:
    """Least-squares multipliers, λ of the least |∇J + c'ᵀλ|."""
    right = np.append(-slope, np.zeros(A.shape[0]))
    return saddle(scipy.sparse.identity(len(slope)), A)(right)[len(slope) :]


def _speed(problem: Transcription, motion: Motion) -> float:
    low, high = (jax.tree.map(lambda a, part=part: a[part], motion.g) for part in (slice(0, -1), slice(1, None)))
    return float(np.abs(steps_of(problem.system, low, high)).max() * problem.n_steps / motion.span)

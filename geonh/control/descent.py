r"""Globalisation: feasibility restoration from any guess, descent along the constraints, and escape from saddles.

Feasibility c(z) = 0 is restored by the Levenberg–Marquardt method,

    δz = −c'ᵀ(c'c'ᵀ + μ)⁻¹c,

which does not need c' to have full rank: along a straight path sideways, where parking is impossible to first order,
c' is rank deficient. Where |c|² is stationary at a guess, because of its symmetry, the guess is perturbed. Then each
step descends in the kernel of c', by Newton's method with the absolute values of the curvatures, and is restored onto
c = 0. This is dense algebra, and so a fallback where Newton's method of ``kkt.py`` fails.

Sources: Nocedal, Wright, *Numerical Optimization* (2006), §10.3, §15.6, §18.2; Nielsen, *Damping parameter in
Marquardt's method*, IMM-REP-1999-05, Technical University of Denmark (1999).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from geonh.control.kkt import HALVINGS, SETTLED, Extremal, saddle
from geonh.control.transcription import Motion, Transcription

RESTORING = 60
"""Maximum number of feasibility restoration steps."""
SADDLES = 6
"""Maximum number of saddle escapes."""
DOWNHILL = 50
"""Maximum number of descent steps."""
BENDS = 4
"""Maximum number of perturbed guesses."""
NEAR = 1e-4
"""Predicted decrease, relative to the cost, below which Newton's method of ``kkt.py`` takes over."""


def restored(problem: Transcription, motion: Motion) -> Motion:
    """Motion nearby that satisfies the discrete equations, as far as there is one."""
    c, A = problem.jacobian(motion)
    mu, growth = 1e-3, 2.0
    for _ in range(RESTORING):
        solve = saddle(scipy.sparse.identity(problem.size), A, mu * scipy.sparse.identity(len(c)))
        step = solve(np.append(np.zeros(problem.size), -c))[: problem.size]
        trial = problem.brought(problem.moved(motion, step))
        gain = c @ c - np.sum(problem.equations(trial) ** 2) if trial.span > 0 else -np.inf
        if gain > 0:
            promised = c @ c - np.sum((c + A @ step) ** 2)
            motion, growth = trial, 2.0
            mu *= max(1 / 3, 1 - (2 * gain / max(promised, gain) - 1) ** 3)
            c, A = problem.jacobian(motion)
        else:
            mu, growth = mu * growth, 2 * growth
        if np.abs(c).max() < SETTLED or not mu < 1e12:
            break
    return motion


def feasible(problem: Transcription, guess: Motion) -> Motion:
    """Motion that satisfies the equations, from a guess or from perturbations of it."""
    random = np.random.default_rng(0)
    motion = restored(problem, guess)
    for _ in range(BENDS):
        if problem.residual(motion) < NEAR:
            break
        motion = restored(problem, _bent(problem, guess, random))
    return motion


def _bent(problem: Transcription, motion: Motion, random: np.random.Generator) -> Motion:
    """Perturb the inner nodes by three slow waves, of a third of a radian or metre."""
    eta = problem.columns[0]
    waves = np.sin(np.pi * np.outer(np.linspace(0, 1, len(eta)), [1, 2, 3])) / [1, 2, 3]
    z = np.zeros(problem.size + 1)
    z[eta] = waves @ random.normal(scale=0.3, size=(3, eta.shape[1]))
    return problem.brought(problem.moved(motion, z[:-1]))


class Found(NamedTuple):
    """Extremal, mask of the controls at their bounds, and iterations of the solver that ran before."""

    made: Extremal
    held: np.ndarray
    before: int


def descended(problem: Transcription, at: Found, search: Callable[[Motion], Found]) -> tuple[float, Found]:
    """Escape from saddles: the least curvature, and the solution where it is not negative, as far as ``search``
    converges from motions on both sides of a saddle."""
    for _ in range(SADDLES):
        made = at.made
        values, ways, _ = _curvatures(problem, made.motion, made.multipliers, np.flatnonzero(~at.held))
        if not len(values):
            return 0.0, at
        if values[0] >= -SETTLED * np.abs(values).max():
            break
        way = ways[:, 0] / np.abs(ways[:, 0]).max()
        both = [search(problem.moved(made.motion, side * way)) for side in (0.3, -0.3)]
        lower = [f for f in both if f.made.solved and f.made.cost < made.cost - SETTLED * abs(made.cost)]
        if not lower:
            break
        best = min(lower, key=lambda found: found.made.cost)
        at = best._replace(before=at.before + sum(found.before for found in both))
    least = float(values[0])
    return (least if least < -SETTLED * np.abs(values).max() else max(least, 0.0)), at


def downhill(problem: Transcription, motion: Motion) -> Motion:
    """Descend from a feasible motion to near a local minimum of the cost on c = 0: Newton's steps with the absolute
    values of the curvatures."""
    for _ in range(DOWNHILL):
        price = problem.price(motion)[0]
        values, ways, slopes = _curvatures(problem, motion, None, np.arange(problem.size))
        if not np.any(values):
            break
        sizes = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
        step, gain = ways @ (slopes / sizes), slopes @ (slopes / sizes)
        if values[0] > 0 and gain < NEAR * abs(price):
            break
        for halved in range(HALVINGS):
            part = 0.5**halved
            trial = restored(problem, problem.moved(motion, -part * step))
            if trial.span > 0 and problem.price(trial)[0] < price - 1e-4 * part * gain:
                break
        else:
            break
        motion = trial
    return motion


def _curvatures(problem: Transcription, motion: Motion, lam: np.ndarray | None, own: np.ndarray) -> tuple:
    """Eigenvalues of the reduced Hessian, in increasing order, eigenvectors, and the gradient along these."""
    rows = problem.jacobian(motion)[1][:, own].T.toarray()
    _, slope, bend = problem.price(motion)
    lam = scipy.linalg.lstsq(rows, -slope[own])[0] if lam is None else lam
    Q, R, _ = scipy.linalg.qr(rows, pivoting=True)
    sizes = np.abs(np.diag(R))
    basis = Q[:, int(np.sum(sizes > 1e-12 * sizes.max(initial=0.0))) :]  # of the kernel of c'
    values, vectors = scipy.linalg.eigh(basis.T @ ((bend + problem.bending(motion, lam))[own][:, own] @ basis))
    ways = np.zeros((problem.size, len(values)))
    ways[own] = basis @ vectors
    return values, ways, slope @ ways

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

from geonh.control.kkt import HALVINGS, SETTLED, Extremal, kkt_solver
from geonh.control.transcription import DiscreteMotion, Transcription

RESTORATION_STEPS = 60
"""Maximum number of feasibility restoration steps."""
SADDLES = 6
"""Maximum number of saddle escapes."""
DESCENT_STEPS = 50
"""Maximum number of descent steps."""
PERTURBED_GUESSES = 4
"""Maximum number of perturbed guesses."""
NEAR = 1e-4
"""Predicted decrease, relative to the cost, below which Newton's method of ``kkt.py`` takes over."""


def levenberg_marquardt(problem: Transcription, motion: DiscreteMotion) -> DiscreteMotion:
    """Motion nearby that satisfies the discrete equations, as far as there is one."""
    c, A = problem.jacobian(motion)
    damping, growth = 1e-3, 2.0
    for _ in range(RESTORATION_STEPS):
        solve = kkt_solver(scipy.sparse.identity(problem.size), A, damping * scipy.sparse.identity(len(c)))
        step = solve(np.append(np.zeros(problem.size), -c))[: problem.size]
        trial = problem.projected(problem.moved(motion, step))
        if trial.span > 0 and (decrease := c @ c - np.sum(problem.equations(trial) ** 2)) > 0:
            predicted = c @ c - np.sum((c + A @ step) ** 2)
            motion, growth = trial, 2.0
            damping *= max(1 / 3, 1 - (2 * decrease / max(predicted, decrease) - 1) ** 3)
            c, A = problem.jacobian(motion)
        else:
            damping, growth = damping * growth, 2 * growth
        if np.abs(c).max() < SETTLED or not damping < 1e12:
            break
    return motion


def restore_feasibility(problem: Transcription, guess: DiscreteMotion) -> DiscreteMotion:
    """Motion that satisfies the equations, from a guess or from perturbations of it."""
    random = np.random.default_rng(0)
    motion = levenberg_marquardt(problem, guess)
    for _ in range(PERTURBED_GUESSES):
        if problem.residual(motion) < NEAR:
            break
        motion = levenberg_marquardt(problem, _perturbed(problem, guess, random))
    return motion


def _perturbed(problem: Transcription, motion: DiscreteMotion, random: np.random.Generator) -> DiscreteMotion:
    """Perturb the inner nodes by three slow waves, of a third of a radian or metre."""
    eta = problem.columns.eta
    waves = np.sin(np.pi * np.outer(np.linspace(0, 1, len(eta)), [1, 2, 3])) / [1, 2, 3]
    z = np.zeros(problem.size + 1)  # the last entry takes what is not an unknown
    z[eta] = waves @ random.normal(scale=0.3, size=(3, eta.shape[1]))
    return problem.projected(problem.moved(motion, z[:-1]))


class SearchResult(NamedTuple):
    """Result of a search: the last iterate, the mask of the unknowns at their bounds, and the iterations of the solver
    that ran before Newton's method."""

    extremal: Extremal
    at_bound: np.ndarray
    solver_iterations: int


class ReducedHessian(NamedTuple):
    """Hessian of the Lagrangian on the kernel of c': its eigenvalues, in increasing order, its eigenvectors among all
    unknowns, in columns, and the gradient of the cost along these."""

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    gradient: np.ndarray

    @property
    def size(self) -> float:
        """Largest absolute value of an eigenvalue."""
        return np.abs(self.eigenvalues).max()


def escape_saddles(
    problem: Transcription, result: SearchResult, search: Callable[[DiscreteMotion], SearchResult]
) -> tuple[float, SearchResult]:
    """Escape from saddles: the least curvature, and the solution where it is not negative, as far as ``search``
    converges from motions on both sides of a saddle."""
    for _ in range(SADDLES):
        extremal = result.extremal
        hessian = _reduced_hessian(problem, extremal.motion, extremal.multipliers, np.flatnonzero(~result.at_bound))
        if not len(hessian.eigenvalues):
            return 0.0, result
        if hessian.eigenvalues[0] >= -SETTLED * hessian.size:
            break
        direction = hessian.eigenvectors[:, 0] / np.abs(hessian.eigenvectors[:, 0]).max()
        sides = [search(problem.moved(extremal.motion, side * direction)) for side in (0.3, -0.3)]
        below = extremal.cost - SETTLED * abs(extremal.cost)
        lower = [one for one in sides if one.extremal.solved and one.extremal.cost < below]
        if not lower:
            break
        best = min(lower, key=lambda one: one.extremal.cost)
        result = best._replace(solver_iterations=result.solver_iterations + sum(one.solver_iterations for one in sides))
    least = float(hessian.eigenvalues[0])
    return (least if least < -SETTLED * hessian.size else max(least, 0.0)), result


def descend(problem: Transcription, motion: DiscreteMotion) -> DiscreteMotion:
    """Descend from a feasible motion to near a local minimum of the cost on c = 0: Newton's steps with the absolute
    values of the curvatures."""
    for _ in range(DESCENT_STEPS):
        cost = problem.cost(motion).value
        hessian = _reduced_hessian(problem, motion, None, np.arange(problem.size))
        slopes = hessian.gradient
        if not np.any(hessian.eigenvalues):
            break
        curvatures = np.maximum(np.abs(hessian.eigenvalues), 1e-6 * hessian.size)
        step, decrease = hessian.eigenvectors @ (slopes / curvatures), slopes @ (slopes / curvatures)
        if hessian.eigenvalues[0] > 0 and decrease < NEAR * abs(cost):
            break
        trial = _line_search(problem, motion, step, cost, decrease)
        if trial is None:
            break
        motion = trial
    return motion


def _line_search(
    problem: Transcription, motion: DiscreteMotion, step: np.ndarray, cost: float, decrease: float
) -> DiscreteMotion | None:
    """Restored motion after the longest step that lowers the cost enough, by Armijo's rule; None if none does."""
    for halvings in range(HALVINGS):
        length = 0.5**halvings
        trial = levenberg_marquardt(problem, problem.moved(motion, -length * step))
        if trial.span > 0 and problem.cost(trial).value < cost - 1e-4 * length * decrease:
            return trial
    return None


def _reduced_hessian(
    problem: Transcription, motion: DiscreteMotion, multipliers: np.ndarray | None, free: np.ndarray
) -> ReducedHessian:
    """Reduced Hessian in the free unknowns; with the least-squares multipliers where none are given."""
    rows = problem.jacobian(motion)[1][:, free].T.toarray()
    _, gradient, hessian = problem.cost(motion)
    if multipliers is None:
        multipliers = scipy.linalg.lstsq(rows, -gradient[free])[0]
    Q, R, _ = scipy.linalg.qr(rows, pivoting=True)
    sizes = np.abs(np.diag(R))
    kernel = Q[:, int(np.sum(sizes > 1e-12 * sizes.max(initial=0.0))) :]
    lagrangian = (hessian + problem.equations_hessian(motion, multipliers))[free][:, free]
    values, vectors = scipy.linalg.eigh(kernel.T @ (lagrangian @ kernel))
    eigenvectors = np.zeros((problem.size, len(values)))
    eigenvectors[free] = kernel @ vectors
    return ReducedHessian(values, eigenvectors, gradient @ eigenvectors)

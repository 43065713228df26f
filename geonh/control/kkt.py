r"""Newton's method on the KKT conditions of min J(z) under c(z) = 0,

    [[∇²(J + λᵀc), c'ᵀ], [c', 0]] (δz, δλ) = −(∇J + c'ᵀλ, c),

sparse, in charts about nodes updated by g_k ← g_k exp(η_k), and onto φ = 0. λ are the least-squares multipliers at each
iterate. A step is halved until the next simplified Newton step is shorter (the natural monotonicity test, invariant
under scaling of the rows). It may converge to a saddle, from which ``descent.py`` escapes.

Sources: Nocedal, Wright, *Numerical Optimization* (2006), §18.1; Deuflhard, *Newton Methods for Nonlinear Problems*
(2011), §3.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy
from scipy.sparse.csgraph import structural_rank

from geonh.control.steering import Bounds
from geonh.control.step_equations import steps_of
from geonh.control.transcription import DiscreteMotion, Transcription

HALVINGS = 12
"""Maximum number of halvings of a Newton step."""
ACTIVE_SETS = 20
"""Maximum number of changes of the active set of bounds."""
SETTLED = 1e-9
"""Residual of the KKT equations, relative to their terms, below which it counts as zero."""


class Extremal(NamedTuple):
    """Last iterate of Newton's method, with its residuals; a solution if the active set of bounds does not change."""

    motion: DiscreteMotion
    multipliers: np.ndarray
    cost: float
    residual: float
    optimality: float
    iterations: int
    active_set_changes: bool = False

    @property
    def solved(self) -> bool:
        """True if it is a solution."""
        return self.residual < SETTLED and self.optimality < 1e3 * SETTLED and not self.active_set_changes


class _Iterate(NamedTuple):
    """Motion and multipliers, with the terms of the KKT equations in the free unknowns: c, c', J, ∇J and ∇²J."""

    motion: DiscreteMotion
    multipliers: np.ndarray
    equations: np.ndarray
    jacobian: Any
    cost: float
    gradient: np.ndarray
    hessian: Any

    @property
    def stationarity(self) -> np.ndarray:
        """∇J + c'ᵀλ."""
        return self.gradient + self.jacobian.T @ self.multipliers

    @property
    def kkt_residual(self) -> np.ndarray:
        """(∇J + c'ᵀλ, c)."""
        return np.concatenate([self.stationarity, self.equations])

    @property
    def feasibility(self) -> float:
        """Largest entry of c."""
        return float(np.abs(self.equations).max())

    @property
    def optimality(self) -> float:
        """Largest entry of ∇J + c'ᵀλ, relative to its terms."""
        gradient = np.abs(self.gradient).max(initial=0.0)
        forces = abs(self.jacobian.T).dot(np.abs(self.multipliers)).max(initial=0.0)
        return float(np.abs(self.stationarity).max(initial=0.0) / (1e-12 + gradient + forces))

    def converged(self, scale: float) -> bool:
        """True if both residuals are zero to rounding."""
        return self.feasibility < SETTLED * 1e-4 * scale and self.optimality < SETTLED


def solve_kkt(
    problem: Transcription,
    motion: DiscreteMotion,
    multipliers: np.ndarray | None,
    at_bound: np.ndarray,
    max_iterations: int,
) -> Extremal:
    """Newton's method from a motion, in the unknowns that are not at a bound."""
    free = np.flatnonzero(~at_bound)
    iterate = _iterate(problem, motion, free, multipliers)
    scale = 1.0 + float(np.abs(problem.steering.xi_start).max()) + _speed(problem, motion)
    iterations = 0
    while iterations < max_iterations and not iterate.converged(scale):
        following = _newton_step(problem, iterate, free)
        if following is None:
            break
        iterations, iterate = iterations + 1, following
    feasibility = iterate.feasibility / scale
    return Extremal(iterate.motion, iterate.multipliers, iterate.cost, feasibility, iterate.optimality, iterations)


def _iterate(
    problem: Transcription, motion: DiscreteMotion, free: np.ndarray, multipliers: np.ndarray | None = None
) -> _Iterate:
    """Iterate at a motion, with the least-squares multipliers where none are given."""
    equations, jacobian = problem.jacobian(motion)
    cost, gradient, hessian = problem.cost(motion)
    jacobian, gradient, hessian = jacobian[:, free], gradient[free], hessian[free][:, free]
    if multipliers is None:
        multipliers = _least_squares(jacobian, gradient)
    return _Iterate(motion, multipliers, equations, jacobian, cost, gradient, hessian)


def _newton_step(problem: Transcription, iterate: _Iterate, free: np.ndarray) -> _Iterate | None:
    """Next iterate, by the longest step that passes the natural monotonicity test; None if even the shortest fails."""
    n = len(free)
    curvature = problem.equations_hessian(iterate.motion, iterate.multipliers)[free][:, free]
    solve = kkt_solver(iterate.hessian + curvature, iterate.jacobian)
    step = solve(-iterate.kkt_residual)[:n]
    for halvings in range(HALVINGS):
        length = 0.5**halvings
        z = np.zeros(problem.size)
        z[free] = length * step
        motion = problem.projected(problem.moved(iterate.motion, z))
        if not motion.span > 0:
            continue
        trial = _iterate(problem, motion, free)
        simplified = solve(-trial.kkt_residual)[:n]
        if np.linalg.norm(simplified) <= (1 - length / 2) * np.linalg.norm(step):
            return trial
    return None


class ActiveSet(NamedTuple):
    """Masks of the controls fixed at their lower and at their upper bound, shape=[K + 1, n_u] each."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def either(self) -> np.ndarray:
        """Controls fixed at a bound."""
        return self.lower | self.upper

    def equals(self, other: ActiveSet) -> bool:
        """True if the same controls are at their bounds."""
        return np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper)


def solve_kkt_within(
    problem: Transcription, motion: DiscreteMotion, bounds: Bounds, max_iterations: int
) -> tuple[Extremal, np.ndarray]:
    """Newton's method with an active set: controls at a bound are fixed there, until the set no longer changes.

    Returns the last iterate, and the mask of the unknowns at their bounds.
    """
    columns, width = problem.columns.u, bounds.upper - bounds.lower
    tolerance = np.where(np.isfinite(width), 1e-7 * width, 1e-9)
    active = ActiveSet(motion.u <= bounds.lower + tolerance, motion.u >= bounds.upper - tolerance)
    for _ in range(ACTIVE_SETS):
        u = np.where(active.lower, bounds.lower, np.where(active.upper, bounds.upper, motion.u))
        at_bound = np.zeros(problem.size, bool)
        at_bound[columns[active.either]] = True
        last = solve_kkt(problem, motion._replace(u=u), None, at_bound, max_iterations)
        motion = last.motion
        following = _updated_active_set(problem, last, active, bounds, tolerance)
        if following.equals(active):
            return last, at_bound
        active = following
    return last._replace(active_set_changes=True), at_bound


def _updated_active_set(
    problem: Transcription, last: Extremal, active: ActiveSet, bounds: Bounds, tolerance: np.ndarray
) -> ActiveSet:
    """Active set without the controls that the Lagrangian pulls inwards, and with those beyond a bound."""
    motion = last.motion
    lagrangian = problem.cost(motion).gradient + problem.jacobian(motion)[1].T @ last.multipliers
    slope = lagrangian[problem.columns.u]
    rounding = SETTLED * (1.0 + np.abs(slope).max())
    stay = ActiveSet(active.lower & (slope > -rounding), active.upper & (slope < rounding))
    return ActiveSet(
        stay.lower | (motion.u < bounds.lower - tolerance), stay.upper | (motion.u > bounds.upper + tolerance)
    )


def kkt_solver(H: Any, A: Any, corner: Any = None) -> Callable[[np.ndarray], np.ndarray]:
    """Solver of [[H, Aᵀ], [A, −corner]] for any right side; returns NaN where the matrix is singular or not finite.

    SuperLU reads beyond its arrays where no permutation of the rows has a diagonal without zeros, or an entry is nan.
    """
    matrix = scipy.sparse.bmat([[H, A.T], [A, None if corner is None else -corner]], format="csc")
    matrix.eliminate_zeros()
    factors = None
    if np.all(np.isfinite(matrix.data)) and structural_rank(matrix) == matrix.shape[0]:
        with contextlib.suppress(RuntimeError):  # an exactly singular matrix
            factors = scipy.sparse.linalg.splu(matrix)

    def solve(right: np.ndarray) -> np.ndarray:
        if factors is None or not np.all(np.isfinite(right)):
            return np.full(len(right), np.nan)
        return factors.solve(right)

    return solve


def _least_squares(A: Any, slope: np.ndarray) -> np.ndarray:
    """Least-squares multipliers, λ of the least |∇J + c'ᵀλ|."""
    right = np.append(-slope, np.zeros(A.shape[0]))
    return kkt_solver(scipy.sparse.identity(len(slope)), A)(right)[len(slope) :]


def _speed(problem: Transcription, motion: DiscreteMotion) -> float:
    low, high = (jax.tree.map(lambda a, part=part: a[part], motion.g) for part in (slice(0, -1), slice(1, None)))
    return float(np.abs(steps_of(problem.system, low, high)).max() * problem.n_steps / motion.span)

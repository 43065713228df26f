r"""Conditions at the end that others imply, by momenta that no control changes.

Of the linearised motion the states δ_{k+1} = A_kδ_k + B⁻_kδu_k + B⁺_kδu_{k+1} follow from the controls, and so do the
conditions at the end, R δ_K = S (δu_0, …, δu_K). Where yᵀS = 0, no control changes the combination yᵀR δ_K to first
order: it is a conserved momentum, such as the spin of a ball on a plate, or the motion is singular. Steps conserve it
up to their errors, so that S has a small singular value in place of zero, and an optimum would reach the end by these
errors, at a cost of its own. So one condition for each such combination is left out, and where the motion that is found
without it meets it up to the error of its steps, it is redundant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from geonh.control.interior_point import GIVEN_UP, InteriorPoint, Iterate, Outcome
from geonh.control.ipopt import solve_by_ipopt
from geonh.control.resolution import steps_error
from geonh.control.transcription import DiscreteMotion, Transcription

UNCHANGED = 1e-4
"""Singular value of the conditions at the end, relative to the largest, below which no control changes them."""
WARM = 1e-6
"""Barrier parameter of a warm start."""


class Reduced(NamedTuple):
    """Problem without conditions at the end that others imply, and these, rows of the end's equations."""

    problem: Transcription
    rows: tuple[int, ...]


class Attempts:
    """Solutions of a problem, from one guess and another; without conditions at the end that others imply, if any.

    Parameters
    ----------
    problem : Transcription
    max_iterations : int
        Of the solver, for each guess.
    solver : str
        "geonh" or "ipopt".

    Attributes
    ----------
    problem : Transcription
        Without redundant conditions, once these are known.
    redundant : tuple of int
        Rows of the end's equations that are left out.
    """

    def __init__(self, problem: Transcription, max_iterations: int, solver: str) -> None:
        self.problem = problem
        self.redundant: tuple[int, ...] = ()
        self._needed: set[tuple[int, ...]] = set()
        self._whole, self._max_iterations, self._solver = problem, max_iterations, solver

    def solve(self, motion: DiscreteMotion, warm: Iterate | None = None) -> Outcome:
        """Search for a local minimum from a motion, or from all of an iterate."""
        if self.redundant:
            return self._solved(self.problem, motion, warm)
        outcome = self._solved(self._whole, motion, warm, self._is_suspect)
        given_up = outcome.reason.startswith(GIVEN_UP)
        problem, rows = reduced(self._whole, outcome.iterate.motion)
        if rows and rows not in self._needed:
            other = self._solved(problem, outcome.iterate.motion if outcome.solved else motion)
            if other.solved and _is_met(self._whole, other.iterate.motion, rows):
                self.problem, self.redundant = problem, rows
                return other
            if other.solved or given_up:
                self._needed.add(rows)
        return self._solved(self._whole, motion, warm) if given_up else outcome

    def _is_suspect(self, motion: DiscreteMotion) -> bool:
        """True if conditions at the end seem redundant about a motion."""
        rows = _unchanged(self._whole, motion)
        return bool(rows) and rows not in self._needed

    def _solved(
        self,
        problem: Transcription,
        motion: DiscreteMotion,
        warm: Iterate | None = None,
        is_suspect: Callable[[DiscreteMotion], bool] | None = None,
    ) -> Outcome:
        if self._solver == "ipopt":
            return solve_by_ipopt(problem, motion, self._max_iterations)
        method = InteriorPoint(problem, self._max_iterations, is_suspect)
        return method.solve(motion) if warm is None else method.solve(motion, warm, WARM)

    def violations(self, motion: DiscreteMotion) -> tuple[float, ...]:
        """Violations of the redundant conditions by a motion."""
        return _violations(self._whole, motion, self.redundant)


def reduced(problem: Transcription, motion: DiscreteMotion) -> Reduced:
    """Problem without conditions at the end that no control changes about a motion; they become rows of zeros."""
    rows = _unchanged(problem, motion)
    conditions, steering = problem.steering.conditions, problem.steering
    of_points = len(conditions.end_rows)
    end_rows, xi_rows = np.array(conditions.end_rows), np.array(conditions.xi_rows)
    for row in rows:
        (end_rows if row < of_points else xi_rows)[row - of_points * (row >= of_points)] = 0.0
    steering = steering._replace(conditions=conditions._replace(end_rows=end_rows, xi_rows=xi_rows))
    return Reduced(replace(problem, steering=steering), rows)


def _violations(problem: Transcription, motion: DiscreteMotion, rows: tuple[int, ...]) -> tuple[float, ...]:
    """Violations of some of the conditions at the end by a motion."""
    end = problem.split(problem.values(motion).equations, problem.shapes.equations).end[0]
    return tuple(np.abs(end[list(rows)]).tolist())


def _is_met(problem: Transcription, motion: DiscreteMotion, rows: tuple[int, ...]) -> bool:
    """True if a motion meets some conditions at the end, up to the error of its steps."""
    size = np.abs(motion.xi).max() * max(motion.span, 1.0)
    return max(_violations(problem, motion, rows)) <= steps_error(problem, motion) * size


def _unchanged(problem: Transcription, motion: DiscreteMotion) -> tuple[int, ...]:
    """Rows of conditions on the point and the velocity at the end, one for each combination that no control changes."""
    K, m, n_u, n_states = problem.n_steps, problem.width, problem.steering.n_controls, 2 * problem.system.group.dim
    conditions = problem.steering.conditions
    count = len(conditions.end_rows) + len(conditions.xi_rows)
    if not count or problem.steering.start_is_given is not None:
        return ()
    of_controls = np.zeros((n_states, (K + 1) * n_u))
    for k, e in enumerate(problem.transitions(motion)):
        right = np.hstack([e[:, :m], e[:, m + n_states : 2 * m]])
        try:
            A, B = np.split(-np.linalg.solve(e[:, m : m + n_states], right), [n_states], axis=1)
        except np.linalg.LinAlgError:
            return ()
        of_controls = A @ of_controls
        of_controls[:, k * n_u : (k + 2) * n_u] += B
    zero = np.zeros(K * problem.shapes.equations.intervals + problem.shapes.equations.end)
    at = problem.linearised(motion, zero, np.zeros(len(problem.bounds.lower)), 0.0)
    S = at.equations.blocks.end[0][:count, :n_states] @ of_controls
    if not np.isfinite(S).all():
        return ()
    left, singular, _ = np.linalg.svd(S)
    small = np.append(singular, np.zeros(count - len(singular))) <= UNCHANGED * singular[0]
    if not small.any() or small.all():
        return ()
    pivots = scipy.linalg.qr(left[:, small].T, mode="r", pivoting=True)[1]
    return tuple(sorted(pivots[: int(small.sum())].tolist()))

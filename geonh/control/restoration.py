"""Feasibility restoration: motions with less and less violation of the equations and the inequalities.

Σ|e|² + Σ|c − s|² is reduced by the Levenberg–Marquardt method, which needs no Jacobian of full rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from geonh.control.block_kkt import Factors
from geonh.control.interval import Values
from geonh.control.linearisation import Linearisation, Parts
from geonh.control.slacks import SlackBounds
from geonh.control.transcription import DiscreteMotion, Transcription

INSIDE = 1e-3
"""Distance of slacks from their bounds, relative to these, after a restoration."""


def condensed(problem: Transcription, at: Linearisation, weights: np.ndarray) -> Parts:
    """Hessian with those of the barriers, CᵀΣC."""
    split = problem.split(weights, problem.shapes.inequalities)
    parts = zip(at.hessian, at.inequalities.blocks, split, strict=True)
    return Parts(*(h + np.matmul(c.transpose(0, 2, 1) * w[:, None, :], c) for h, c, w in parts))


class FeasibilitySearch:
    """The search for one transcription; ``iterations`` counts on, up to ``max_iterations``."""

    def __init__(self, problem: Transcription, bounds: SlackBounds, iterations: int, max_iterations: int) -> None:
        self.problem, self.bounds = problem, bounds
        self.iterations, self.max_iterations = iterations, max_iterations

    def motions(self, motion: DiscreteMotion, slack: float) -> Iterator[tuple[DiscreteMotion, Linearisation]]:
        """Motions with less and less Σ|e|² + Σ|c − s|², until that is stationary.

        ``slack`` is the weight of conditions at the end and of inequalities relative to the equations of motion.
        """
        problem, damping, growth = self.problem, 1e-4, 2.0
        n_inner = problem.n_steps * problem.shapes.equations.intervals
        n_equations = n_inner + problem.shapes.equations.end
        weights = np.where(np.arange(n_equations) < n_inner, 1.0, slack)

        def size(values: Values) -> float:
            e, c = values.equations, self._outside(values.inequalities)
            return float(weights @ e**2 + slack * (c @ c))

        def linearised(motion: DiscreteMotion) -> Linearisation:
            return problem.linearised(motion, np.zeros(n_equations), np.zeros(len(self.bounds.lower)), 0.0)

        at = linearised(motion)
        yield motion, at
        while self.iterations < self.max_iterations and damping < 1e10:
            self.iterations += 1
            e, c = at.values.equations, self._outside(at.values.inequalities)
            zero = at._replace(hessian=Parts(*(np.zeros_like(h) for h in at.hessian)))
            hessian = condensed(problem, zero, slack * (c != 0))
            factors = Factors(hessian, at.equations.blocks, problem.given, shift=damping, corner=1 / weights)
            if factors.is_singular:
                break
            step = factors.solve(np.append(-slack * at.inequalities.weighted(c), -e))[: problem.size]
            if not np.isfinite(step).all():
                break
            before, after = size(at.values), size(problem.values(motion, step))
            if after < before:
                left = e + at.equations.along(step), (c + at.inequalities.along(step)) * (c != 0)
                predicted = before - weights @ left[0] ** 2 - slack * (left[1] @ left[1])
                damping *= max(1 / 3, 1 - (2 * (before - after) / max(predicted, before - after) - 1) ** 3)
                growth, motion = 2.0, problem.moved(motion, step)
                at = linearised(motion)
                yield motion, at
                if before - after < 1e-8 * before:
                    break
            else:
                damping, growth = damping * growth, 2 * growth

    def _outside(self, values: np.ndarray) -> np.ndarray:
        """Signed distances of values of the inequalities from the interior of their bounds."""
        return values - self.bounds.interior(values, INSIDE)

r"""A transcription as a nonlinear program in one chart: nodes g_k exp(η_k) about those of a guess.

The derivatives of a transcription are by perturbations ζ of the nodes of a motion itself. In the chart they follow from
exp(−η)exp(η + δ) = exp(ζ), ζ = Aδ + ½(∂_δA)δ + O(δ³) with A = dexp(−η): a gradient γ becomes Aᵀγ, a Hessian H

    AᵀHA + ½(C + Cᵀ),   C = ∂(Aᵀγ)/∂η.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import scipy
from jax import Array

from geonh.control.nlp import NonlinearProgram, minimise
from geonh.control.steering import Bounds
from geonh.control.transcription import FIXED, CostDerivatives, DiscreteMotion, Transcription
from geonh.engine import mapped
from geonh.mechanics.system import System

ITERATIONS = 200
"""Maximum number of iterations of a solver that runs before Newton's method."""


class ChartPoint:
    """Motion at unknowns z = (η, u, T) about a guess, and its derivatives, each computed when it is first read."""

    def __init__(self, problem: Transcription, guess: DiscreteMotion, z: np.ndarray) -> None:
        self.problem, self.z = problem, z
        self.motion = problem.moved(guess, z)

    @functools.cached_property
    def cost(self) -> CostDerivatives:
        """J and its derivatives by perturbations of the motion."""
        return self.problem.cost(self.motion)

    @functools.cached_property
    def jacobian(self) -> Any:
        """c' by perturbations of the motion, sparse, shape=[n_equations, size]."""
        return self.problem.jacobian(self.motion)[1]

    @functools.cached_property
    def tangent(self) -> Any:
        """A of all nodes, with ones for controls and span, sparse, shape=[size, size]."""
        eta = self.problem.columns.eta
        rest = np.ones(self.problem.size)
        rest[eta[eta != FIXED]] = 0.0
        blocks = mapped(_dexp, self.problem.system, self._nodes(self.z))
        return self._block_diagonal(blocks) + scipy.sparse.diags(rest, format="csr")

    def hessian(self, multipliers: np.ndarray, factor: float) -> Any:
        """∇²(factor·J + λᵀc) in the chart, sparse, shape=[size, size]."""
        gradient = factor * self.cost.gradient + self.jacobian.T @ multipliers
        hessian = factor * self.cost.hessian + self.problem.equations_hessian(self.motion, multipliers)
        C = mapped(_dexp_slope, self.problem.system, (self._nodes(self.z), self._nodes(gradient)))
        return self.tangent.T @ hessian @ self.tangent + self._block_diagonal((C + C.transpose(0, 2, 1)) / 2)

    def _nodes(self, z: np.ndarray) -> np.ndarray:
        """Entries of the nodes, shape=[K + 1, n]; zero where a component is not an unknown."""
        return np.append(z, 0.0)[self.problem.columns.eta]

    def _block_diagonal(self, blocks: np.ndarray) -> Any:
        """Sparse matrix of one block for each node, shape=[K + 1, n, n]."""
        eta, size = self.problem.columns.eta, self.problem.size
        i, j = (np.broadcast_to(part, blocks.shape) for part in (eta[:, :, None], eta[:, None, :]))
        free = (i != FIXED) & (j != FIXED)
        return scipy.sparse.csr_matrix((blocks[free], (i[free], j[free])), (size, size))


def minimise_in_chart(
    problem: Transcription, guess: DiscreteMotion, bounds: Bounds, solver: str
) -> tuple[DiscreteMotion, int]:
    """Last iterate of a solver in the chart about a guess, and its iterations; Newton's method detects a failure."""
    columns = problem.columns
    low, high = np.full(problem.size, -np.inf), np.full(problem.size, np.inf)
    low[columns.u], high[columns.u] = bounds.lower - guess.u, bounds.upper - guess.u
    if problem.free_span:
        low[columns.span] = -0.9 * guess.span
    scale = max(abs(problem.cost(guess).value), 1.0)

    @functools.lru_cache(maxsize=2)
    def point(z: bytes) -> ChartPoint:
        return ChartPoint(problem, guess, np.frombuffer(z))

    def at(z: np.ndarray) -> ChartPoint:
        return point(z.tobytes())

    program = NonlinearProgram(
        value=lambda z: at(z).cost.value / scale,
        gradient=lambda z: at(z).tangent.T @ at(z).cost.gradient / scale,
        equations=lambda z: problem.equations(at(z).motion),
        jacobian=lambda z: at(z).jacobian @ at(z).tangent,
        low=low,
        high=high,
        hessian=lambda z, multipliers, factor: at(z).hessian(multipliers, factor / scale),
        pattern=problem.coupled,
    )
    z, iterations = minimise(program, np.zeros(problem.size), solver, ITERATIONS)
    return at(z).motion, iterations


def _dexp(system: System, eta: Array) -> Array:
    return system.group.dexp(-eta)


def _dexp_slope(system: System, node: tuple[Array, Array]) -> Array:
    """C of a node and a covector γ."""
    eta, covector = node
    return jax.jacfwd(lambda at: covector @ system.group.dexp(-at))(eta)

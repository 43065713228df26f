r"""Direct transcription: the equations of the symmetric projection, for all nodes of a motion at once.

Unknown are the nodes g₀ … g_K and the controls u₀ … u_K alone, with ζ_k = τ⁻¹(g_k⁻¹g_{k+1}) and h = T/K. The momentum
p̃_k on the constraint is that with which the step from g_{k−1} arrives, so no momentum and no multiplier is unknown, and
the n equations of the step from g_k,

    F⁻(x_k, ζ_k) − p̃_k − (h/2)f_k − N(x_k)ᵀU_kᵀκ₁ = 0,

involve three nodes and two controls. With constraints φ(t, x) = 0 on positions they are projected modulo the rows
G(x_k), and φ(t_{k+1}, x_{k+1}) = 0 replaces the remainder: n equations again, and no multiplier. A solution is a
run of ``SymmetricProjection`` under the controls at its nodes. Forces may depend on the velocity, everything on the
time. Each node is moved by g_k exp(η_k): derivatives are exact, of the first and second order by forward mode in
machine code, and sparse.

The last node is given, and with it φ, as far as its free components do not change φ: there φ = 0 would be imposed
twice by the last step, so its equations along those rows of φ are left out.

Source: Leyendecker, Ober-Blöbaum, Marsden, Ortiz, *Optim. Control Appl. Meth.* 31 (2010) 505 (DMOC).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from geonh.control.steering import SteeringProblem, orthogonal_complement
from geonh.control.step_equations import (
    CostNode,
    CostTerms,
    Step,
    StepEquations,
    StepValues,
    cost_term,
    moved,
    projected,
    step_derivative,
    step_second_derivative,
    step_values,
)
from geonh.engine import computed, mapped
from geonh.groups.base import Point
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System

FIXED = -1
"""Column of a component that is not an unknown: it selects the zero appended to a vector of unknowns."""


class DiscreteMotion(NamedTuple):
    """Nodes, shape of a point with an axis of length K + 1, controls, shape=[K + 1, n_u], and the span T."""

    g: Point
    u: np.ndarray
    span: float


class Columns(NamedTuple):
    """Places among the unknowns of η_k, shape=[K + 1, n], of u_k, shape=[K + 1, n_u], and of T; FIXED if given."""

    eta: np.ndarray
    u: np.ndarray
    span: int


class ImposedEquations(NamedTuple):
    """The equations imposed on (all steps, ξ_K), shape=[(K + 1)n]: sparse rows, and their values."""

    rows: Any
    values: np.ndarray


class CostDerivatives(NamedTuple):
    """J, its gradient, shape=[size], and its second derivative, sparse, shape=[size, size]."""

    value: float
    gradient: np.ndarray
    hessian: Any


@dataclass(frozen=True)
class Transcription:
    """Discrete equations and unknowns of an optimal control problem.

    Attributes
    ----------
    system, method : System, SymmetricProjection
    steering : SteeringProblem
        Boundary conditions, free components of the last node, and the cost.
    free_span : bool
        True if T is unknown.
    n_steps : int
        K.
    """

    system: System
    method: SymmetricProjection
    steering: SteeringProblem
    free_span: bool
    n_steps: int

    # --- the unknowns --------------------------------------------------------------------------------------
    @property
    def columns(self) -> Columns:
        """Places of all components among the unknowns."""
        K, n, n_u, free = self.n_steps, self.system.group.dim, self.steering.n_controls, self.steering.free
        eta = np.full((K + 1, n), FIXED)
        eta[1:K] = np.arange((K - 1) * n).reshape(K - 1, n)
        eta[K, list(free)] = (K - 1) * n + np.arange(len(free))
        begin = (K - 1) * n + len(free)
        u = begin + np.arange((K + 1) * n_u).reshape(K + 1, n_u)
        return Columns(eta, u, begin + (K + 1) * n_u if self.free_span else FIXED)

    @property
    def size(self) -> int:
        """Number of unknowns."""
        n_nodes = (self.n_steps - 1) * self.system.group.dim + len(self.steering.free)
        return n_nodes + (self.n_steps + 1) * self.steering.n_controls + self.free_span

    def moved(self, motion: DiscreteMotion, z: np.ndarray) -> DiscreteMotion:
        """Update g_k exp(η_k), u + δu, T + δT."""
        columns, padded = self.columns, np.append(z, 0.0)
        g = mapped(moved, self.system, (motion.g, padded[columns.eta]))
        return DiscreteMotion(g, motion.u + padded[columns.u], motion.span + float(padded[columns.span]))

    def projected(self, motion: DiscreteMotion) -> DiscreteMotion:
        """Project the inner nodes onto φ = 0 along its normals, where the projection exists."""
        if self.system.holonomic is None:
            return motion
        times = self.steering.t0 + motion.span / self.n_steps * np.arange(self.n_steps + 1)
        projections, exists = mapped(projected, self.system, (motion.g, times))
        exists[[0, -1]] = False
        g = jax.tree.map(lambda a, b: np.where(exists.reshape(-1, *[1] * (a.ndim - 1)), a, b), projections, motion.g)
        return motion._replace(g=g)

    # --- equations and cost --------------------------------------------------------------------------------
    @functools.cached_property
    def _imposed(self) -> ImposedEquations:
        """All equations, but those of the last step along φ where its end is given."""
        problem, n = self.steering, self.system.group.dim
        G = problem.end_rows.G
        changes = G[:, list(problem.free)]  # of φ by what is free at the end
        if self.free_span:
            changes = np.concatenate([changes, problem.end_rows.phi_rate[:, None]], axis=1)
        last = orthogonal_complement(orthogonal_complement(changes.T) @ G)
        inner = scipy.sparse.identity((self.n_steps - 1) * n)
        rows = scipy.sparse.block_diag([inner, last, problem.end_velocities], "csr")
        return ImposedEquations(rows, rows @ np.concatenate([np.zeros(self.n_steps * n), problem.xi_end]))

    @property
    def n_equations(self) -> int:
        """Number of equations."""
        return len(self._imposed.values)

    def _step_columns(self) -> np.ndarray:
        """Columns of the unknowns of each step, (η_{k−1}, η_k, η_{k+1}, u_k, u_{k+1}, T), shape=[K, 3n + 2n_u + 1]."""
        eta, u, span = self.columns
        K = self.n_steps
        before = np.concatenate([np.full_like(eta[:1], FIXED), eta[: K - 1]])
        return np.concatenate([before, eta[:K], eta[1:], u[:K], u[1:], np.full((K, 1), span)], axis=1)

    @functools.cached_property
    def coupled(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns, in the lower triangle, of second derivatives that are not zero: unknowns of one step."""
        local = self._step_columns()
        steps, _ = np.nonzero(local != FIXED)
        entries = np.ones(len(steps)), (steps, local[local != FIXED])
        steps_of_unknowns = scipy.sparse.csr_matrix(entries, (self.n_steps, self.size))
        return scipy.sparse.tril(steps_of_unknowns.T @ steps_of_unknowns).nonzero()

    def _steps(self, motion: DiscreteMotion) -> Step:
        """Data of all steps, with a first axis of length K; g₋₁ continues the motion backwards with ξ₀."""
        K = self.n_steps
        h = motion.span / K
        back = computed(moved, self.system, (jax.tree.map(lambda a: a[0], motion.g), -h * self.steering.xi_start))
        nodes = jax.tree.map(lambda a, b: np.concatenate([b[None], a]), motion.g, back)
        before, here, after = (jax.tree.map(lambda a, i=i: a[i : i + K], nodes) for i in range(3))
        return Step(before, here, after, motion.u[:K], motion.u[1:], np.full(K, motion.span), np.arange(K, dtype=float))

    @property
    def _step_equations(self) -> StepEquations:
        problem = self.steering
        return StepEquations(
            self.system, self.method, problem.xi_start, np.float64(problem.t0), np.float64(self.n_steps)
        )

    def equations(self, motion: DiscreteMotion) -> np.ndarray:
        """Residual of the imposed equations, shape=[n_equations]."""
        return self._residuals(motion)[0]

    def residual(self, motion: DiscreteMotion) -> float:
        """Largest entry of the residual of all equations, including the redundant ones that are left out."""
        return max(float(np.abs(part).max(initial=0.0)) for part in self._residuals(motion))

    def _residuals(self, motion: DiscreteMotion) -> tuple[np.ndarray, np.ndarray]:
        """Residual of the imposed equations, and of those of all steps."""
        steps = mapped(step_values, self._step_equations, self._steps(motion))
        imposed = self._imposed
        return imposed.rows @ np.append(steps.residual, steps.xi_after[-1]) - imposed.values, steps.residual

    def jacobian(self, motion: DiscreteMotion) -> tuple[np.ndarray, Any]:
        """Equations and their Jacobian, a sparse matrix of shape=[n_equations, size]."""
        local, K, n = self._step_columns(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        steps = jax.tree.map(lambda a: np.repeat(a, N, axis=0), self._steps(motion))
        directions = np.tile(np.eye(N), (K, 1))
        values, derivative = mapped(step_derivative, self._step_equations, (steps, directions))
        slopes = np.concatenate([derivative.residual, derivative.xi_after[-N:]]).reshape(K + 1, N, n).transpose(0, 2, 1)
        j = np.concatenate([local, local[-1:]])[:, None, :] + np.zeros((1, n, 1), int)
        i = np.arange((K + 1) * n).reshape(K + 1, n, 1) + np.zeros((1, 1, N), int)
        free = j != FIXED
        all_columns = scipy.sparse.csr_matrix((slopes[free], (i[free], j[free])), ((K + 1) * n, self.size))
        imposed = self._imposed
        equations = imposed.rows @ np.append(values.residual[::N], values.xi_after[-1]) - imposed.values
        return equations, imposed.rows @ all_columns

    def equations_hessian(self, motion: DiscreteMotion, multipliers: np.ndarray) -> Any:
        """Second derivative of the equations, contracted with multipliers: sparse, shape=[size, size]."""
        local, K, n = self._step_columns(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        a, b = np.triu_indices(N)
        steps = jax.tree.map(lambda x: np.repeat(x, len(a), axis=0), self._steps(motion))
        weights, one = (self._imposed.rows.T @ multipliers).reshape(K + 1, n), np.eye(N)
        xi_weights = np.zeros((K, n))
        xi_weights[-1] = weights[K]
        directions = np.tile(one[a], (K, 1)), np.tile(one[b], (K, 1))
        both = StepValues(*(np.repeat(part, len(a), axis=0) for part in (weights[:K], xi_weights)))
        data = mapped(step_second_derivative, self._step_equations, (steps, *directions, both)).reshape(K, -1)
        return self._symmetric(data, local[:, a], local[:, b])

    def cost(self, motion: DiscreteMotion) -> CostDerivatives:
        """J = hΣw_k c(t_k, g_k, u_k), w = ½ at the ends, and its derivatives."""
        eta, u, span = self.columns
        K = self.n_steps
        local = np.concatenate([eta, u, np.full((K + 1, 1), span)], axis=1)
        weights = np.ones(K + 1)
        weights[[0, -1]] = 0.5
        nodes = CostNode(motion.g, motion.u, np.full(K + 1, motion.span), np.arange(K + 1.0), weights)
        terms = CostTerms(self.system, self.steering.cost, np.float64(self.steering.t0), np.float64(K))
        at_nodes = mapped(cost_term, terms, nodes)
        gradient = np.zeros(self.size + 1)
        np.add.at(gradient, local, at_nodes.gradient)
        N = local.shape[1]
        a, b = np.triu_indices(N)
        hessian = self._symmetric(at_nodes.hessian[:, a, b], local[:, a], local[:, b])
        return CostDerivatives(float(at_nodes.value.sum()), gradient[:-1], hessian)

    def _symmetric(self, data: np.ndarray, i: np.ndarray, j: np.ndarray) -> Any:
        """Sparse matrix from the upper triangles of symmetric blocks; several entries of one place are added."""
        free = (i != FIXED) & (j != FIXED)
        upper = scipy.sparse.csr_matrix((data[free], (i[free], j[free])), (self.size, self.size))
        off = (np.broadcast_to(i, data.shape) != np.broadcast_to(j, data.shape)) & free
        return upper + scipy.sparse.csr_matrix((data[off], (j[off], i[off])), (self.size, self.size))

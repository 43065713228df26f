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
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.control.asked import Asked, across
from geonh.engine.compiled import computed, mapped
from geonh.geometry.field import evaluated
from geonh.groups.base import Point
from geonh.integrators.node import Clock, State
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System


class Motion(NamedTuple):
    """Nodes, shape of a point with an axis of length K + 1, controls, shape=[K + 1, n_u], and the span T."""

    g: Point
    u: np.ndarray
    span: float


@dataclass(frozen=True)
class Transcription:
    """Discrete equations and unknowns of an optimal control problem.

    Attributes
    ----------
    system, method : System, SymmetricProjection
    asked : Asked
        Boundary conditions, free components of the last node, and the cost.
    free_span : bool
        True if T is unknown.
    n_steps : int
        K.
    """

    system: System
    method: SymmetricProjection
    asked: Asked
    free_span: bool
    n_steps: int

    # --- the unknowns --------------------------------------------------------------------------------------
    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Columns of η_k, shape=[K + 1, n], of u_k, shape=[K + 1, n_u], and of T among the unknowns; −1 if not free."""
        K, n, n_u, free = self.n_steps, self.system.group.dim, self.asked.n_controls, self.asked.free
        eta = np.full((K + 1, n), -1)
        eta[1:K] = np.arange((K - 1) * n).reshape(K - 1, n)
        eta[K, list(free)] = (K - 1) * n + np.arange(len(free))
        begin = (K - 1) * n + len(free)
        u = begin + np.arange((K + 1) * n_u).reshape(K + 1, n_u)
        return eta, u, begin + (K + 1) * n_u if self.free_span else -1

    @property
    def size(self) -> int:
        """Number of unknowns."""
        n_nodes = (self.n_steps - 1) * self.system.group.dim + len(self.asked.free)
        return n_nodes + (self.n_steps + 1) * self.asked.n_controls + self.free_span

    def moved(self, motion: Motion, z: np.ndarray) -> Motion:
        """Update g_k exp(η_k), u + δu, T + δT."""
        eta, u, span = self.columns
        padded = np.append(z, 0.0)
        g = mapped(moved, self.system, (motion.g, padded[eta]))
        return Motion(g, motion.u + padded[u], motion.span + float(padded[span]))

    def brought(self, motion: Motion) -> Motion:
        """Project the inner nodes onto φ = 0 along its normals, where the projection exists."""
        if self.system.holonomic is None:
            return motion
        times = self.asked.t0 + motion.span / self.n_steps * np.arange(self.n_steps + 1)
        there, found = mapped(_onto, self.system, (motion.g, times))
        found[[0, -1]] = False
        g = jax.tree.map(lambda a, b: np.where(found.reshape(-1, *[1] * (a.ndim - 1)), a, b), there, motion.g)
        return motion._replace(g=g)

    # --- equations and cost --------------------------------------------------------------------------------
    @functools.cached_property
    def _kept(self) -> tuple[Any, np.ndarray]:
        """Selection of the equations imposed on (all steps, ξ_K), shape=[(K + 1)n]: sparse rows, and their values."""
        ends, n = self.asked, self.system.group.dim
        moves = ends.G[:, list(ends.free)]
        if self.free_span:
            moves = np.concatenate([moves, ends.rising[:, None]], axis=1)
        last = across(across(moves.T) @ ends.G)
        rows = scipy.sparse.block_diag([scipy.sparse.identity((self.n_steps - 1) * n), last, ends.allowed], "csr")
        return rows, rows @ np.concatenate([np.zeros(self.n_steps * n), ends.xi_end])

    @property
    def n_equations(self) -> int:
        """Number of equations."""
        return len(self._kept[1])

    def _local(self) -> np.ndarray:
        """Columns of the unknowns of each step, (η_{k−1}, η_k, η_{k+1}, u_k, u_{k+1}, T), shape=[K, 3n + 2n_u + 1]."""
        eta, u, span = self.columns
        K = self.n_steps
        before = np.concatenate([np.full_like(eta[:1], -1), eta[: K - 1]])
        return np.concatenate([before, eta[:K], eta[1:], u[:K], u[1:], np.full((K, 1), span)], axis=1)

    def _nodes(self, motion: Motion) -> tuple:
        """Data of each step."""
        K = self.n_steps
        h = motion.span / K
        back = computed(moved, self.system, (jax.tree.map(lambda a: a[0], motion.g), -h * self.asked.xi_start))
        g = jax.tree.map(lambda a, b: np.concatenate([b[None], a]), motion.g, back)
        three = tuple(jax.tree.map(lambda a, i=i: a[i : i + K], g) for i in range(3))
        same = (np.full(K, motion.span), np.arange(K, dtype=float))
        return (*three, motion.u[:K], motion.u[1:], *same)

    @property
    def _tree(self) -> tuple:
        return (self.system, self.method, self.asked.xi_start, np.float64(self.asked.t0), np.float64(self.n_steps))

    def equations(self, motion: Motion) -> np.ndarray:
        """Residual of the imposed equations, shape=[n_equations]."""
        return self._all(motion)[0]

    def residual(self, motion: Motion) -> float:
        """Largest entry of the residual of all equations, including the redundant ones that are left out."""
        return max(float(np.abs(part).max(initial=0.0)) for part in self._all(motion))

    def _all(self, motion: Motion) -> tuple[np.ndarray, np.ndarray]:
        """Residual of the imposed equations, and of those of all steps."""
        steps, end = mapped(_step, self._tree, self._nodes(motion))
        rows, values = self._kept
        return rows @ np.append(steps, end[-1]) - values, steps

    def jacobian(self, motion: Motion) -> tuple[np.ndarray, Any]:
        """Equations and their Jacobian, a sparse matrix of shape=[n_equations, size]."""
        local, K, n = self._local(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        nodes = jax.tree.map(lambda a: np.repeat(a, N, axis=0), self._nodes(motion))
        directions = np.tile(np.eye(N), (K, 1))
        (steps, end), (by_step, by_end) = mapped(_first, self._tree, (nodes, directions))
        slopes = np.concatenate([by_step, by_end[-N:]]).reshape(K + 1, N, n).transpose(0, 2, 1)
        places = np.concatenate([local, local[-1:]])[:, None, :] + np.zeros((1, n, 1), int)
        i = np.arange((K + 1) * n).reshape(K + 1, n, 1) + np.zeros((1, 1, N), int)
        free = places >= 0
        whole = scipy.sparse.csr_matrix((slopes[free], (i[free], places[free])), ((K + 1) * n, self.size))
        rows, values = self._kept
        return rows @ np.append(steps[::N], end[-1]) - values, rows @ whole

    def bending(self, motion: Motion, multipliers: np.ndarray) -> Any:
        """Second derivative of the equations, contracted with multipliers: sparse, shape=[size, size]."""
        local, K, n = self._local(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        a, b = np.triu_indices(N)
        nodes = jax.tree.map(lambda x: np.repeat(x, len(a), axis=0), self._nodes(motion))
        weights, one = (self._kept[0].T @ multipliers).reshape(K + 1, n), np.eye(N)
        of_end = np.zeros((K, n))
        of_end[-1] = weights[K]
        directions = np.tile(one[a], (K, 1)), np.tile(one[b], (K, 1))
        by = (np.repeat(part, len(a), axis=0) for part in (weights[:K], of_end))
        data = mapped(_second, self._tree, (nodes, *directions, *by)).reshape(K, -1)
        return self._symmetric(data, local[:, a], local[:, b])

    def price(self, motion: Motion) -> tuple[float, np.ndarray, Any]:
        """J = hΣw_k c(t_k, g_k, u_k), w = ½ at the ends, its gradient and its second derivative."""
        eta, u, span = self.columns
        K = self.n_steps
        local = np.concatenate([eta, u, np.full((K + 1, 1), span)], axis=1)
        weights = np.ones(K + 1)
        weights[[0, -1]] = 0.5
        nodes = (motion.g, motion.u, np.full(K + 1, motion.span), np.arange(K + 1.0), weights)
        ends = self.asked
        tree = (self.system, ends.cost, ends.cost_takes_parameters, np.float64(ends.t0), np.float64(K))
        value, slope, bend = mapped(_price, tree, nodes)
        gradient = np.zeros(self.size + 1)
        np.add.at(gradient, local, slope)
        N = local.shape[1]
        a, b = np.triu_indices(N)
        return float(value.sum()), gradient[:-1], self._symmetric(bend[:, a, b], local[:, a], local[:, b])

    def _symmetric(self, data: np.ndarray, i: np.ndarray, j: np.ndarray) -> Any:
        kept = (i >= 0) & (j >= 0)
        upper = scipy.sparse.csr_matrix((data[kept], (i[kept], j[kept])), (self.size, self.size))
        off = (np.broadcast_to(i, data.shape) != np.broadcast_to(j, data.shape)) & kept
        return upper + scipy.sparse.csr_matrix((data[off], (j[off], i[off])), (self.size, self.size))


def steps_of(system: System, low: Point, high: Point) -> np.ndarray:
    """log(g⁻¹g') of each pair of points, shape=[·, n]."""
    return mapped(_apart, system, (low, high))


def _apart(system: System, node: tuple) -> Array:
    low, high = node
    return system.group.log(system.group.compose(system.group.inverse(low), high))


def moved(system: System, node: tuple) -> Point:
    """g exp(η)."""
    g, eta = node
    return system.group.project(system.group.compose(g, system.group.exp(eta)))


def _onto(system: System, node: tuple) -> tuple[Point, Array]:
    return onto(system, *node)


def _step(tree: tuple, node: tuple) -> tuple[Array, Array]:
    """Equations of the step from g_k, in metres per second, and the velocity with which it arrives."""
    system, method, xi_start, t0, K = tree
    before, g, after, u, u_after, span, k = node
    group, h, tau = system.group, span / K, method.tau(system)
    time = t0 + k * h

    def state(g: Point, p: Array) -> State:
        xi = jnp.zeros(group.dim)
        warm = method.cold(system, Clock(time, h), jnp.asarray(0), g, xi)
        return State(jnp.asarray(0), g, p, p, (), warm, jnp.zeros((0, group.dim)), 0)

    def increment(g: Point, after: Point) -> Array:
        return tau.inverse(group, group.compose(group.inverse(g), after))

    nothing = jnp.zeros(group.dim)
    back, here = Clock(time - h, h, jnp.stack([u, u])), Clock(time, h, jnp.stack([u, u_after]))
    arrives = method.flow(system, back, state(before, nothing), increment(before, g))[1].momentum
    p = jnp.where(k == 0, system.momentum(system.at(g, time), xi_start), arrives)
    zeta, begin = increment(g, after), state(g, p)
    end = method.flow(system, here, begin, zeta)[1].momentum
    residual = method.equations(system, here, begin).residual(zeta)
    return residual / h, system.velocity(system.at(after, time + h), end)


def _perturbed(tree: tuple, node: tuple, z: Array) -> tuple[Array, Array]:
    system = tree[0]
    *points, u, u_after, span, k = node
    group, n, n_u = system.group, system.group.dim, len(u)
    moved = [group.compose(g, group.exp(z[i * n : (i + 1) * n])) for i, g in enumerate(points)]
    return _step(tree, (*moved, u + z[3 * n : 3 * n + n_u], u_after + z[3 * n + n_u : -1], span + z[-1], k))


def _first(tree: tuple, node: tuple) -> tuple:
    data, direction = node
    zero = jnp.zeros(())
    return jax.jvp(lambda s: _perturbed(tree, data, s * direction), (zero,), (zero + 1.0,))


def _second(tree: tuple, node: tuple) -> Array:
    data, a, b, weights, of_end = node
    zero = jnp.zeros(())

    def scalar(r: Array, s: Array) -> Array:
        steps, end = _perturbed(tree, data, r * a + s * b)
        return steps @ weights + end @ of_end

    def slope(s: Array) -> Array:
        return jax.jvp(lambda r: scalar(r, s), (zero,), (zero + 1.0,))[1]

    return jax.jvp(slope, (zero,), (zero + 1.0,))[1]


def _price(tree: tuple, node: tuple) -> tuple[Array, Array, Array]:
    system, cost, takes_parameters, t0, K = tree
    g, u, span, k, weight = node
    group, n = system.group, system.group.dim

    def price(z: Array) -> Array:
        h = (span + z[-1]) / K
        at = group.compose(g, group.exp(z[:n]))
        more = (system.parameters,) if takes_parameters else ()
        return weight * h * evaluated("cost", cost, t0 + k * h, at, u + z[n:-1], *more)

    zero = jnp.zeros(n + len(u) + 1)
    return price(zero), jax.jacfwd(price)(zero), jax.jacfwd(jax.jacfwd(price))(zero)

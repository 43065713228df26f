r"""Direct transcription: the equations of the symmetric projection, for all nodes of a motion at once.

Unknown are the nodes g₀ … g_K and the controls u₀ … u_K alone, with ζ_k = τ⁻¹(g_k⁻¹g_{k+1}) and h = T/K. The momentum
p̃_k on the constraint is that with which the step from g_{k−1} arrives, so no momentum and no multiplier is unknown, and
the n equations of the step from g_k,

    F⁻(x_k, ζ_k) − p̃_k − (h/2)f_k − N(x_k)ᵀU_kᵀκ₁ = 0,

touch three nodes and two controls. A solution is a run of ``SymmetricProjection`` under the controls at its nodes.
Forces may depend on the velocity. Each node is moved by g_k exp(η_k): derivatives are exact, of the first and second
order by forward mode in machine code, and sparse.

Source: Leyendecker, Ober-Blöbaum, Marsden, Ortiz, *Optim. Control Appl. Meth.* 31 (2010) 505 (DMOC).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.geometry.field import evaluated, takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.node import Clock, State
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.numerics.compiled import mapped
from geonh.numerics.inspection import careful
from geonh.numerics.precision import as_float64, float64

SOLVERS: dict[str, dict] = {"slsqp": {"ftol": 1e-10}, "trust-constr": {"gtol": 1e-8, "xtol": 1e-10}}
"""SciPy's solvers of nonlinear programmes, with their options."""


class Motion(NamedTuple):
    """Nodes, shape of a point with an axis of length K + 1, controls, shape=[K + 1, n_u], and the span T."""

    g: Point
    u: np.ndarray
    span: float


@dataclass(frozen=True)
class Transcription:
    """What has to hold, and what is free.

    Attributes
    ----------
    system, method : System, SymmetricProjection
    xi_start : ndarray, shape=[n]
        Velocity at the start.
    arrival : ndarray, shape=[r, n]
        Rows on which the velocity at the end is given, and ``arriving``, shape=[r], their values.
    free : tuple of int
        Components of η that the last node may move by.
    free_span : bool
        Whether T is unknown.
    cost : callable
        c(t, g, u) or c(t, g, u, parameters).
    t0 : float
    """

    system: System
    method: SymmetricProjection
    xi_start: np.ndarray
    arrival: np.ndarray
    arriving: np.ndarray
    free: tuple[int, ...]
    free_span: bool
    cost: Any
    cost_takes_parameters: bool
    t0: float
    n_steps: int
    n_controls: int

    # --- the unknowns --------------------------------------------------------------------------------------
    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Places of η_k, shape=[K + 1, n], of u_k, shape=[K + 1, n_u], and of T among the unknowns; −1 if not free."""
        K, n, n_u = self.n_steps, self.system.group.dim, self.n_controls
        eta = np.full((K + 1, n), -1)
        eta[1:K] = np.arange((K - 1) * n).reshape(K - 1, n)
        eta[K, list(self.free)] = (K - 1) * n + np.arange(len(self.free))
        begin = (K - 1) * n + len(self.free)
        u = begin + np.arange((K + 1) * n_u).reshape(K + 1, n_u)
        return eta, u, begin + (K + 1) * n_u if self.free_span else -1

    @property
    def size(self) -> int:
        """Number of unknowns."""
        n_nodes = (self.n_steps - 1) * self.system.group.dim + len(self.free)
        return n_nodes + (self.n_steps + 1) * self.n_controls + self.free_span

    def moved(self, motion: Motion, z: np.ndarray) -> Motion:
        """g_k exp(η_k), u + δu, T + δT."""
        eta, u, span = self.columns
        padded = np.append(z, 0.0)
        with float64():
            group = self.system.group
            g = jax.tree.map(np.asarray, group.project(group.compose(motion.g, group.exp(jnp.asarray(padded[eta])))))
        return Motion(g, motion.u + padded[u], motion.span + float(padded[span]))

    # --- equations and cost --------------------------------------------------------------------------------
    def _local(self) -> np.ndarray:
        """Places of the unknowns of each step, (η_{k−1}, η_k, η_{k+1}, u_k, u_{k+1}, T), shape=[K, 3n + 2n_u + 1]."""
        eta, u, span = self.columns
        K = self.n_steps
        before = np.concatenate([np.full_like(eta[:1], -1), eta[: K - 1]])
        return np.concatenate([before, eta[:K], eta[1:], u[:K], u[1:], np.full((K, 1), span)], axis=1)

    def _nodes(self, motion: Motion) -> tuple:
        """The data of each step."""
        K = self.n_steps
        h = motion.span / K
        with float64():
            group = self.system.group
            first = jax.tree.map(lambda a: a[0], motion.g)
            back = group.compose(first, group.exp(jnp.asarray(-h * self.xi_start)))
        g = jax.tree.map(lambda a, b: np.concatenate([np.asarray(b)[None], a]), motion.g, back)
        three = tuple(jax.tree.map(lambda a, i=i: a[i : i + K], g) for i in range(3))
        same = (np.full(K, motion.span), np.arange(K, dtype=float))
        return (*three, motion.u[:K], motion.u[1:], *same)

    @property
    def _tree(self) -> tuple:
        return (self.system, self.method, self.xi_start, np.float64(self.t0), np.float64(self.n_steps))

    def equations(self, motion: Motion) -> np.ndarray:
        """All equations, shape=[K n + r]."""
        steps, end = mapped(_step, self._tree, self._nodes(motion))
        return np.concatenate([np.ravel(steps), self.arrival @ end[-1] - self.arriving])

    def jacobian(self, motion: Motion) -> tuple[np.ndarray, Any]:
        """Equations and their derivative, a sparse matrix of shape=[K n + r, size]."""
        local, K, n = self._local(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        nodes = jax.tree.map(lambda a: np.repeat(a, N, axis=0), self._nodes(motion))
        directions = np.tile(np.eye(N), (K, 1))
        (steps, end), (by_step, by_end) = mapped(_first, self._tree, (nodes, directions))
        value = np.concatenate([np.ravel(steps[::N]), self.arrival @ end[-1] - self.arriving])
        entries = by_step.reshape(K, N, n).transpose(0, 2, 1)
        rows = np.arange(K * n).reshape(K, n, 1) + np.zeros((1, 1, N), int)
        columns = local[:, None, :] + np.zeros((1, n, 1), int)
        last = self.arrival @ by_end[-N:].T
        more = np.arange(K * n, K * n + len(last))[:, None] + np.zeros((1, N), int)
        at_end = local[-1][None] + np.zeros((len(last), 1), int)
        parts = [(entries, rows, columns), (last, more, at_end)]
        data, i, j = (np.concatenate([np.ravel(part[k]) for part in parts]) for k in range(3))
        kept = j >= 0
        return value, scipy.sparse.csr_matrix((data[kept], (i[kept], j[kept])), (len(value), self.size))

    def bending(self, motion: Motion, multipliers: np.ndarray) -> Any:
        """Second derivative of the equations, contracted with multipliers: sparse, shape=[size, size]."""
        local, K, n = self._local(), self.n_steps, self.system.group.dim
        N = local.shape[1]
        a, b = np.triu_indices(N)
        nodes = jax.tree.map(lambda x: np.repeat(x, len(a), axis=0), self._nodes(motion))
        weights = np.repeat(multipliers[: K * n].reshape(K, n), len(a), axis=0)
        of_end = np.zeros((K, n))
        of_end[-1] = multipliers[K * n :] @ self.arrival
        one = np.eye(N)
        data = mapped(
            _second,
            self._tree,
            (nodes, np.tile(one[a], (K, 1)), np.tile(one[b], (K, 1)), weights, np.repeat(of_end, len(a), axis=0)),
        ).reshape(K, -1)
        return self._symmetric(data, local[:, a], local[:, b])

    def price(self, motion: Motion) -> tuple[float, np.ndarray, Any]:
        """J = hΣw_k c(t_k, g_k, u_k), w = ½ at the ends, its gradient and its second derivative."""
        eta, u, span = self.columns
        K = self.n_steps
        local = np.concatenate([eta, u, np.full((K + 1, 1), span)], axis=1)
        weights = np.ones(K + 1)
        weights[[0, -1]] = 0.5
        nodes = (motion.g, motion.u, np.full(K + 1, motion.span), np.arange(K + 1.0), weights)
        tree = (self.system, self.cost, self.cost_takes_parameters, np.float64(self.t0), np.float64(K))
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


def _step(tree: tuple, node: tuple) -> tuple[Array, Array]:
    """The equations of the step from g_k, in metres per second, and the velocity with which it arrives."""
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
    p = jnp.where(k == 0, system.momentum(system.at(g), xi_start), arrives)
    zeta, begin = increment(g, after), state(g, p)
    end = method.flow(system, here, begin, zeta)[1].momentum
    residual = method.equations(system, here, begin).residual(zeta)
    return residual / h, system.velocity(system.at(after), end)


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
    system, cost, takes, t0, K = tree
    g, u, span, k, weight = node
    group, n = system.group, system.group.dim

    def price(z: Array) -> Array:
        h = (span + z[-1]) / K
        at = group.compose(g, group.exp(z[:n]))
        more = (system.parameters,) if takes else ()
        return weight * h * evaluated("cost", cost, t0 + k * h, at, u + z[n:-1], *more)

    zero = jnp.zeros(n + len(u) + 1)
    return price(zero), jax.jacfwd(price)(zero), jax.jacfwd(jax.jacfwd(price))(zero)


def effort(t: Any, g: Any, u: Any) -> Any:
    """u·u, the cost when none is given."""
    return u @ u


def made_cost(cost: Callable | None, system: System, n_controls: int) -> tuple[Callable, bool]:
    """The cost, ``effort`` where none is given, and whether it takes the parameters.

    Raises
    ------
    TypeError, ValueError
        If it cannot be evaluated, reads what is not there, or gives more than one number.
    """
    price = effort if cost is None else cost
    takes = takes_parameters(price, "t, g, u", "cost")
    more = (system.parameters,) if takes else ()
    shape, by_data = tried("cost", price, 0.0, system.point(None), np.zeros(n_controls), *more)
    if shape:
        raise ValueError(f"cost must give one number, got an array of shape {shape}")
    return careful(price) if by_data else price, takes


def limits_of(bounds: Any, n_controls: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of the controls, shape=[n_u] each."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise TypeError(f"bounds must be (lower, upper), got {bounds!r}")
    lower, upper = (np.broadcast_to(as_float64(b, "bounds"), (n_controls,)) for b in bounds)
    if not np.all(lower < upper):
        raise ValueError(f"bounds: lower must be below upper, got {lower} and {upper}")
    return lower, upper

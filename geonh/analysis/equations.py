r"""Equations of motion along a motion and their directional derivatives, compiled and batched.

A motion is steady if it is g(t) = s(t)g₀e^{σt}, with s in the group of left symmetries and σ ∈ g a material one: ℓ and
D do not change under (g, ξ) → (ge^{εσ}, Ad_{e^{−εσ}}ξ) (the axle of a disc, the axis of a top; most have none, σ = 0).
In ĝ = ge^{−σt}, ξ̂ = Ad_{e^{σt}}ξ, and with a the acceleration and r = (μξ − b, φ),

    ĝ̇ = ĝ(ξ̂ − σ),   ξ̂̇ = a(ĝ, ξ̂) + ad_σ ξ̂,   r(ĝ, ξ̂) = 0,

it is steady: a + ad_σξ₀ = 0 and D_g(a, r)·(ξ₀ − σ) = 0. Without the second it is so for an instant only. And the linear
equations about it must be the same along ĝ = g₀exp(s(ξ₀ − σ)): else these vary in time (a board whose wheels turn).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.engine import is_array, mapped
from geonh.groups.base import Point
from geonh.mechanics.equations import accelerations
from geonh.mechanics.system import System, with_parameters

SAMPLES = 4
"""Number of points at which material symmetries are tested."""
REACH = 0.3
"""Distance of these points from the motion, in the algebra."""


class Derivatives(NamedTuple):
    """(a, r) at N motions, shape=[N, n + m + k], and derivatives by t, by η in g₀exp(η), and by ξ; the bracket of g."""

    value: np.ndarray
    by_t: np.ndarray
    by_g: np.ndarray
    by_xi: np.ndarray
    bracket: np.ndarray

    def at(self, i: int) -> Derivatives:
        """Derivatives of the i-th motion."""
        return Derivatives(self.value[i], self.by_t[i], self.by_g[i], self.by_xi[i], self.bracket)

    def ad(self, xi: np.ndarray) -> np.ndarray:
        """Matrix of ad_ξ, shape=[..., n, n]."""
        return np.einsum("kij,...i->...kj", self.bracket, xi)


def stacked(points: list) -> Any:
    """Stack pytrees of the same structure along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *points)


def derivatives(
    system: System, parameters: list, t: float, g: Any, xi: np.ndarray, u: Any, apart: np.ndarray | None = None
) -> Derivatives:
    """Evaluate (a, r) and its derivatives at the N motions g·exp(apart), ``xi``, at one time and value of the controls.

    Each has its own parameters, of the structure of the system's; ``xi`` and ``apart`` are of shape=[N, n].
    """
    n, N = system.group.dim, len(xi)
    directions = np.eye(2 * n + 1)
    many = len(directions)
    arrays = stacked([eqx.partition(one, is_array)[0] for one in parameters])

    def spread(leaf: Any) -> np.ndarray:
        return np.repeat(np.asarray(leaf), many, axis=0)

    same = jax.tree.map(lambda a: np.broadcast_to(a, (N * many, *np.shape(a))), (np.float64(t), u))
    apart = np.zeros_like(xi) if apart is None else apart
    of_motions = jax.tree.map(spread, (arrays, g, apart, xi))
    values, slopes = mapped(_directional, system, _Direction(*of_motions, *same, np.tile(directions, (N, 1))))
    values, slopes = (np.asarray(a).reshape(N, many, -1) for a in (values, slopes))
    slopes = np.moveaxis(slopes, 1, 2)
    return Derivatives(
        value=values[:, 0],
        by_t=slopes[..., 0],
        by_g=slopes[..., 1 : n + 1],
        by_xi=slopes[..., n + 1 :],
        bracket=np.asarray(system.group.structure_constants),
    )


def equations(system: System, t: Array, g: Point, xi: Array, u: Any) -> Array:
    """(a, r), shape=[n + m + k]."""
    a, x = accelerations(system, t, g, xi, u)[0], system.at(g, t)
    if not system.is_constrained:
        return a
    return jnp.concatenate([a, system.constraint_residual(x, xi), system.holonomic_residual(x)])


class _Direction(NamedTuple):
    """Motion at g·exp(apart) with its parameters, and a direction of (t, η, ξ)."""

    parameters: Any
    g: Point
    apart: Array
    xi: Array
    t: Array
    u: Any
    direction: Array


def _directional(system: System, node: _Direction) -> tuple[Array, Array]:
    static = eqx.partition(system.parameters, is_array)[1]
    system, n = with_parameters(system, eqx.combine(node.parameters, static)), system.group.dim
    g = system.group.compose(node.g, system.group.exp(node.apart))
    rate = system.group.left_tangent(g, node.direction[1 : n + 1])
    return jax.jvp(
        lambda t, g, xi: equations(system, t, g, xi, node.u),
        (node.t, g, node.xi),
        (node.direction[0], rate, node.direction[n + 1 :]),
    )


def _onto(system: System, node: tuple) -> tuple[Point, Array]:
    t, g, eta, xi = node
    g = system.group.compose(g, system.group.exp(eta))
    return g, system.projected_velocity(system.at(g, t), xi)


def material_symmetries(system: System, t: float, g: Point, u: Any = None) -> np.ndarray:
    """Generators σ of material symmetries (g, ξ) → (ge^{εσ}, Ad_{e^{−εσ}}ξ) of the equations, shape=[k, n].

    The conditions D_g a·σ − D_ξa·ad_σξ + ad_σa = 0 and D_g r·σ − D_ξr·ad_σξ = 0 are linear in σ; they are solved at
    random states on the constraint about g.
    """
    n = system.group.dim
    draws = np.random.default_rng(0).normal(size=(2, SAMPLES, n))
    near = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], SAMPLES, axis=0), g)
    points, xi = mapped(_onto, system, (np.full(SAMPLES, float(t)), near, REACH * draws[0], draws[1]))
    slopes = derivatives(system, [system.parameters] * SAMPLES, t, points, xi, u)
    rows = slopes.by_g + slopes.by_xi @ slopes.ad(xi)  # −ad_σξ = ad_ξσ
    rows[:, :n] -= slopes.ad(slopes.value[:, :n])
    if not np.all(np.isfinite(rows)):
        return np.zeros((0, n))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=(1, 2), keepdims=True))
    _, values, basis = np.linalg.svd(rows.reshape(-1, n))
    return basis[int(np.sum(values > 1e-10)) :]


def coordinate_names(system: System) -> tuple[str, ...]:
    """Names of the displacements η, then of the velocities; angles and additive coordinates keep their names."""
    from geonh.geometry.action import _additive_coordinates

    velocities = system.group.velocity_names
    additive = {velocity: name for name, (_, velocity) in _additive_coordinates(system.group).items()}
    return *(additive.get(i, f"eta_{name}") for i, name in enumerate(velocities)), *velocities

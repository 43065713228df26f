r"""The kinetic energy as a Riemannian metric of geomstats on the configuration space.

⟨a, b⟩_q = ξ_aᵀ M(x) ξ_b with ξ = g⁻¹ġ, x = o·g: coupled across the factors of a product, and dependent on the
point, as the system defines. Geodesics are the free motions of the system (no constraint, potential or force), ṗ
= ad*_ξ p + ρ_x*∂ℓ/∂x; they are computed by DOP853 at reference accuracy, logarithms by shooting with Newton's
method and the variational equation.

Points and tangent vectors are those of geomstats, NumPy arrays in the coordinates of ``system.space``; angles are
known there up to full turns, so the metric must be periodic in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from geomstats.geometry.riemannian_metric import RiemannianMetric
from jax import Array

from geonh.arguments.precision import float64
from geonh.arguments.validators import as_float64
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.geodesics import FreeMotions, mapped

DIFFERENCES = np.array([6 / 7, -15 / 56, 5 / 63, -1 / 56, 1 / 385, -1 / 5544])
SPACING = 0.1
"""Central differences of order twelve: on sines, cosines and polynomials of ``SPACING`` exact to rounding."""


class KineticMetric(RiemannianMetric):
    """The kinetic energy of a system as a metric on its configuration space.

    Parameters
    ----------
    space : geomstats manifold
        ``system.group.space()``. ``space.equip_with_metric(KineticMetric, system=system)`` equips it;
        ``system.space`` is equipped already.
    system : System
        A system whose Lagrangian is quadratic in the velocity. Its constraints, potential and forces are ignored.

    Raises
    ------
    ValueError
        If the Lagrangian is not quadratic.

    Notes
    -----
    Every method is vectorised over leading axes, which broadcast. Points must lie on the space and tangent vectors must
    be tangent to it, to 1e-6 of their length, else ValueError; both are of shape=[..., *space.shape].
    """

    def __init__(self, space: Any, system: ConstrainedSystem):
        if not system.is_quadratic:
            raise ValueError(
                f"the Lagrangian of {system.name} is not quadratic in the velocity: it has no kinetic metric"
            )
        super().__init__(space)
        self.system = system
        ignored = lambda s: (s.potential, s.distribution, s.holonomic, s.forces)  # noqa: E731
        self._free = eqx.tree_at(ignored, system, (None,) * 4, is_leaf=lambda leaf: leaf is None)
        if system.lagrangian_function is not None:
            kinetic = KineticEnergy(system.lagrangian_function, system.lagrangian_takes_parameters)
            self._free = eqx.tree_at(lambda s: s.lagrangian_function, self._free, kinetic)
        self._motions = FreeMotions(self._free)

    # --- tangent vectors -----------------------------------------------------------------------------------
    def velocity(self, tangent_vec: Any, base_point: Any) -> np.ndarray:
        """Velocity ξ = g⁻¹ġ, shape=[..., n], of a tangent vector at a point, both of shape=[..., *space.shape]."""
        batch, (vector, point) = self._flatten(tangent_vec, base_point)
        return self._velocity(vector, self._basis(self._group_vector(point))).reshape(*batch, -1)

    def tangent_vec(self, velocity: Any, base_point: Any) -> np.ndarray:
        """Tangent vector ġ = g ξ̂, shape=[..., *space.shape], of a velocity of shape=[..., n] at a point of the same."""
        xi, n, shape = as_float64(velocity, "velocity"), self.system.group.dim, self._space.shape
        point = self._ambient(base_point, "base_point")
        batch = np.broadcast_shapes(xi.shape[:-1], point.shape[: point.ndim - self._space.point_ndim])
        basis = self._basis(self._group_vector(np.broadcast_to(point, (*batch, *shape)).reshape(-1, *shape)))
        return np.einsum("bin,bn->bi", basis, np.broadcast_to(xi, (*batch, n)).reshape(-1, n)).reshape(*batch, *shape)

    # --- the metric ----------------------------------------------------------------------------------------
    def metric_matrix(self, base_point: Any = None) -> np.ndarray:
        """Kinetic energy matrix M(x) in the left-invariant frame g ê_i, shape=[..., n, n].

        Components in this frame are velocities ξ, not entries of points (on Rⁿ they are the same);
        accordingly the cometric acts on momenta p, and ``hamiltonian((point, p))`` is the kinetic energy.
        """
        if base_point is None:
            return self._mass(np.asarray(self.system.group.to_vector(self.system.point(None)))[None])[0]
        batch, (point,) = self._flatten(base_point)
        matrices = self._mass(self._group_vector(point))
        return matrices.reshape(*batch, *matrices.shape[1:])

    def christoffels(self, base_point: Any = None) -> Any:
        """Not defined: the space is embedded, without coordinates; geodesics come from ``exp``."""
        raise NotImplementedError(
            "the kinetic metric has no coordinates to give Christoffel symbols in; use exp and log"
        )

    def inner_product(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any = None) -> np.ndarray:
        """⟨a, b⟩ = ξ_aᵀ M(x) ξ_b, shape=[...], of vectors at a point, which is required; all of shape=[...,
        *space.shape]. Twice an energy, joules, where they are velocities.
        """
        if base_point is None:
            raise TypeError("inner_product needs base_point: tangent vectors are left-trivialised there")
        batch, (a, b, point) = self._flatten(tangent_vec_a, tangent_vec_b, base_point)
        vectors = self._group_vector(point)
        basis = self._basis(vectors)
        product = np.einsum("bi,bij,bj->b", self._velocity(a, basis), self._mass(vectors), self._velocity(b, basis))
        return product.reshape(batch)[()]

    def random_unit_tangent_vec(self, base_point: Any = None, n_vectors: int = 1) -> np.ndarray:
        """Random tangent vectors of norm one at points, shape=[..., *space.shape]; several, with a first axis, at a
        single one.
        """
        point = self._ambient(base_point, "base_point")
        batch = point.shape[: point.ndim - self._space.point_ndim]
        if batch and n_vectors > 1:
            raise ValueError("Several tangent vectors is only applicable to a single base point.")
        if n_vectors > 1:
            batch = (n_vectors,)
        xi = np.random.standard_normal((*batch, self.system.group.dim))  # noqa: NPY002 - as geomstats
        return self.normalize(self.tangent_vec(xi, point), point)

    # --- geodesics -----------------------------------------------------------------------------------------
    def exp(self, tangent_vec: Any, base_point: Any) -> np.ndarray:
        """End point of the free motion from ``base_point`` with velocity ``tangent_vec`` after unit time; all of
        shape=[..., *space.shape]. RuntimeError if the motion cannot be integrated.
        """
        batch, (vector, point) = self._flatten(tangent_vec, base_point)
        start = self._group_vector(point)
        end = self._motions.end(start, self._velocity(vector, self._basis(start)))
        return self._points(end).reshape(*batch, *self._space.shape)

    def log(self, point: Any, base_point: Any) -> np.ndarray:
        """Initial velocity of the free motion from ``base_point`` that reaches ``point`` after unit time.

        All are of shape=[..., *space.shape]. Newton's method starts from the logarithm of the group; where that fails,
        the end point is continued along the one-parameter subgroup to ``point``. So the geodesic found is the one that
        shrinks to a point with it, which is the shortest within the injectivity radius. RuntimeError if the iteration
        does not converge.
        """
        batch, (end, base) = self._flatten(point, base_point)
        start = self._group_vector(base)
        relative = mapped(_relative, self._free, start, self._group_vector(end))
        # log(start⁻¹ end) with angles in (−π, π]
        direction = mapped(_logarithm, self._free, self._group_vector(self._points(relative)))
        xi = self._motions.log(start, direction)
        return np.einsum("bin,bn->bi", self._basis(start), xi).reshape(*batch, *self._space.shape)

    # --- between geomstats and the group -------------------------------------------------------------------
    def _ambient(self, value: Any, name: str) -> np.ndarray:
        array, shape = as_float64(value, name), self._space.shape
        if array.shape[max(0, array.ndim - len(shape)) :] != shape:
            raise ValueError(f"{name} must have shape [..., {', '.join(map(str, shape))}], got {list(array.shape)}")
        return array

    def _flatten(self, *arrays: Any) -> tuple[tuple[int, ...], list[np.ndarray]]:
        """Common leading axes, and the arrays broadcast to them with one leading axis."""
        arrays = tuple(self._ambient(a, "point or tangent vector") for a in arrays)
        batch = np.broadcast_shapes(*[a.shape[: a.ndim - self._space.point_ndim] for a in arrays])
        shape = self._space.shape
        return batch, [np.broadcast_to(a, (*batch, *shape)).reshape(-1, *shape) for a in arrays]

    def _group_vector(self, point: np.ndarray) -> np.ndarray:
        group = self.system.group
        with float64():
            return np.asarray(group.to_vector(group.from_geomstats(point)))

    def _points(self, vectors: np.ndarray) -> np.ndarray:
        group = self.system.group
        with float64():
            g = jax.tree.map(np.asarray, group.project(group.from_vector(jnp.asarray(vectors))))
            return np.asarray(group.to_geomstats(g), dtype=np.float64)

    def _mass(self, vectors: np.ndarray) -> np.ndarray:
        return mapped(_mass_matrix, self._free, vectors)

    def _basis(self, vectors: np.ndarray) -> np.ndarray:
        """Ambient tangent vectors g ê_i as columns, shape=[b, prod(space.shape), n]."""
        n, half = self.system.group.dim, len(DIFFERENCES)
        times = SPACING * np.concatenate([np.arange(1, half + 1), -np.arange(1, half + 1)])
        steps = (times[:, None, None] * np.eye(n)).reshape(-1, n)
        many = np.repeat(vectors, len(steps), axis=0)
        moved = mapped(_moved, self._free, many, np.tile(steps, (len(vectors), 1)))
        with float64():
            g = jax.tree.map(np.asarray, self.system.group.from_vector(jnp.asarray(moved)))
        values = np.asarray(self.system.group.to_geomstats(g), dtype=np.float64)
        forward, backward = np.moveaxis(values.reshape(len(vectors), 2, half, n, -1), 1, 0)
        # differences first, so that constant entries cancel exactly: geomstats requires exact zeros there
        return np.einsum("k,bkni->bin", DIFFERENCES / SPACING, forward - backward)

    @staticmethod
    def _velocity(vectors: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """ξ with basis·ξ = vector, shape=[b, n]."""
        vectors = vectors.reshape(len(basis), -1)
        xi = np.einsum("bni,bi->bn", np.linalg.pinv(basis), vectors)
        gap = np.linalg.norm(vectors - np.einsum("bin,bn->bi", basis, xi), axis=1)
        if np.any(gap > 1e-6 * np.linalg.norm(vectors, axis=1) + 1e-12):
            raise ValueError(
                f"a vector is not tangent to the space at its base point: it is {gap.max():.2g} away; "
                "space.to_tangent(vector, base_point) gives a tangent vector"
            )
        return xi


class KineticEnergy(eqx.Module):
    """The part of a quadratic Lagrangian that is even in the velocity, without the potential."""

    lagrangian: Callable
    takes_parameters: bool = eqx.field(static=True)

    def __call__(self, *arguments: Any) -> Array:
        i = len(arguments) - 1 - self.takes_parameters
        before, xi, after = arguments[:i], arguments[i], arguments[i + 1 :]
        ahead, back, at_rest = (self.lagrangian(*before, v, *after) for v in (xi, -xi, 0.0 * xi))
        return 0.5 * (ahead + back) - at_rest


# --- single elements ---------------------------------------------------------------------------------------
def _relative(system: ConstrainedSystem, start: Array, end: Array) -> Array:
    group = system.group
    return group.to_vector(group.compose(group.inverse(group.from_vector(start)), group.from_vector(end)))


def _logarithm(system: ConstrainedSystem, g: Array) -> Array:
    return system.group.log(system.group.from_vector(g))


def _mass_matrix(system: ConstrainedSystem, g: Array) -> Array:
    return system.mass_matrix(system.at(system.group.from_vector(g)))


def _moved(system: ConstrainedSystem, g: Array, xi: Array) -> Array:
    group = system.group
    return group.to_vector(group.compose(group.from_vector(g), group.exp(xi)))

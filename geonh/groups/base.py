r"""Protocol of a Lie group: the methods that geometry, mechanics and integrators require.

A point is a float64 array (``[theta, x, y]`` on SE(2), a 3×3 matrix on SO(3)) or, on a product, the tuple of
the factors' points. Velocities are left-trivialised, ξ = g⁻¹ġ, and are plain vectors of components in the
algebra basis; momenta are vectors of components in the dual basis, so duals are transposes: Ad*_g = Ad_gᵀ.
Every method is batched over leading axes.

A user-defined group needs five methods: ``identity``, ``compose``, ``inverse``, ``exp``, ``log``. The rest has
defaults (Ad and the structure constants by automatic differentiation, dexp through φ₁(ad)); closed forms are
faster and stay accurate near zero. ``geonh.testing.check_group`` tests the result.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.exponential import exp_and_phi1
from geonh.arguments.precision import float64, is_traced
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import Precise, as_numbers, in_numpy

NEAR = 0.1
"""Tolerance on RRᵀ − 1 within which a matrix is accepted as a rotation."""
Point = Any
"""A group element: an array, or a tuple of points for a product."""
ArrayLike: TypeAlias = Any
"""A JAX array in a trace, a NumPy array outside."""


def tree_add(point: Point, tangent: Point) -> Point:
    """Add an ambient tangent vector to a point, leaf by leaf."""
    return jax.tree.map(jnp.add, point, tangent)


def as_points(group: LieGroup, g: Any, name: str) -> Point:
    """Convert a user's input to points with leading axes; TypeError or ValueError if they are not made of numbers, or
    of other shapes than the group's points.
    """
    identity = group.identity()
    entries = list(g) if isinstance(identity, tuple) and isinstance(g, tuple | list) else [g]
    arrays = [as_float64(entry, name) for entry in entries]
    _check_points(group, arrays, name)
    return jax.tree.unflatten(jax.tree.structure(identity), arrays)


def _check_points(group: LieGroup, arrays: list[Any], name: str) -> None:
    """Raise ValueError, with the name, unless arrays have the shapes of points of the group, with leading axes."""
    shapes, got = group.point_shapes, [tuple(np.shape(a)) for a in arrays]
    if len(got) != len(shapes) or any(
        a[max(len(a) - len(s), 0) :] != tuple(s) for a, s in zip(got, shapes, strict=True)
    ):
        wanted = " × ".join(f"[{', '.join(map(str, ('...', *s)))}]" for s in shapes)
        raise ValueError(
            f"{name} must be points of {group}, shapes {wanted}; got {' × '.join(str(list(a)) for a in got)}"
        )


def as_point(group: LieGroup, g: Any, name: str) -> Point:
    """Convert a user's input to points with leading axes, which may be traced, as ``as_numbers`` does."""
    if isinstance(g, tuple | list) and len(g) == len(group.point_shapes) > 1:
        g = tuple(as_numbers(part, name) for part in g)
    elif not (isinstance(g, tuple) and all(hasattr(part, "shape") for part in g)):  # a product of one factor
        g = as_numbers(g, name)
    _check_points(group, jax.tree.leaves(g), name)
    return g


def _check_vectors(group: LieGroup, vectors: Any, name: str) -> None:
    """Raise ValueError, with the name, unless the last axis has the group's dimension."""
    if np.shape(vectors)[-1:] != (group.dim,):
        raise ValueError(f"{name} must have shape [..., {group.dim}] on {group}, got {list(np.shape(vectors))}")


def as_vectors(group: LieGroup, vectors: Any, name: str) -> Any:
    """Vectors of the algebra or its dual with leading axes, shape=[..., n]; errors as for ``as_points``."""
    converted = as_float64(vectors, name)
    _check_vectors(group, converted, name)
    return converted


def check_rotation(R: Array, name: str) -> None:
    """Raise ValueError, with the name, unless a matrix is near a rotation, shape=[..., n, n], or traced."""
    if is_traced(R):
        return
    off = np.abs(np.asarray(R) @ np.swapaxes(R, -1, -2) - np.eye(np.shape(R)[-1]))
    if not (np.all(off < NEAR) and np.all(np.linalg.det(R) > 0)):
        raise ValueError(f"{name} must be a rotation matrix, RRᵀ = 1 with det R = 1, got {shortly(R)}")


def represented(group: LieGroup, point: Point, matrix: Array) -> Point:
    """The point, if its matrix is the given one, shape=[..., N, N], as near as numbers of a file are; not tested in a
    trace; ValueError if it is not: the matrix is no element of the group.
    """
    if is_traced(matrix):
        return point
    expected = np.asarray(group.to_matrix(point))
    if np.shape(matrix) != expected.shape or not np.all(np.abs(expected - matrix) < NEAR):
        raise ValueError(f"matrix must be that of an element of {group}, got {shortly(matrix)}")
    return point


def _matrix_size(group: LieGroup) -> int:
    """N for a matrix representation of shape=[N, N]; 0 if the group has none."""
    try:
        return jax.eval_shape(lambda: group.to_matrix(group.identity())).shape[-1]
    except NotImplementedError:
        return 0


@argument_type
class LieGroup(Precise):
    """A finite-dimensional Lie group with a fixed basis of its algebra.

    A *point of the group* is an array, or for a product a tuple of arrays; ``point_shapes`` has the shapes:

    - ``Translations(n)``, ``Torus(n)``: the coordinates or unwrapped angles, shape=[..., n]
    - ``SO2``: the unwrapped angle, shape=[..., 1]
    - ``SO3``: the rotation matrix, shape=[..., 3, 3]
    - ``SE2``: (θ, x, y) with an unwrapped angle, shape=[..., 3]
    - ``SE3``: the homogeneous matrix, shape=[..., 4, 4]
    - ``Heisenberg``: (x, y, z), shape=[..., 3]
    - ``MatrixGroup``: the matrix, shape=[..., N, N]
    - ``Product``: the tuple of the factors' points, such as ([..., 3], [..., 1]) on SE(2) × S¹

    Velocities ξ = g⁻¹ġ and momenta are plain vectors of components, shape=[..., n]. All methods are batched over the
    leading axes, which are written ``...``, and may be traced by JAX.

    Attributes
    ----------
    dim : int
        Dimension n of the group.
    point_names : tuple of str
        Names of the entries of a flattened point (``to_vector``).
    velocity_names : tuple of str
        Names of the n components of ξ.
    point_shapes : tuple of tuple of int
        Shape of each array of a point without leading axes, in order of ``jax.tree.leaves``.
    has_cayley : bool
        True if ``cay`` is defined.
    """

    dim: eqx.AbstractVar[int]
    point_names: eqx.AbstractVar[tuple[str, ...]]
    velocity_names: eqx.AbstractVar[tuple[str, ...]]
    point_shapes: eqx.AbstractVar[tuple[tuple[int, ...], ...]]
    has_cayley: eqx.AbstractVar[bool]

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        """Check points g, h and vectors ξ, η, p for the group's shapes: JAX would broadcast or truncate them."""
        if name in ("g", "h"):
            value = as_point(self, value, called)
            if method in ("defect", "gap") and self._leading(name, value):
                raise ValueError(f"{called} must be one point, without leading axes; for several use jax.vmap")
        elif name in ("xi", "eta", "p"):
            value = as_numbers(value, called)
            _check_vectors(self, value, called)
        elif name == "vector":
            value, size = as_numbers(value, called), sum(map(math.prod, self.point_shapes))
            if np.shape(value)[-1:] != (size,):
                raise ValueError(f"{called} must have shape [..., {size}] on {self}, got {list(np.shape(value))}")
        elif name == "matrix":
            value = as_numbers(value, called)
            N = _matrix_size(self)
            if N and np.shape(value)[-2:] != (N, N):
                raise ValueError(f"{called} must have shape [..., {N}, {N}] on {self}, got {list(np.shape(value))}")
        elif method == "from_geomstats":
            value, space = as_numbers(value, called), self.space()
            if np.shape(value)[max(0, np.ndim(value) - len(space.shape)) :] != space.shape:
                want = f"[..., {', '.join(map(str, space.shape))}]"
                raise ValueError(f"{called} must have shape {want}, got {list(np.shape(value))}")
            if not np.all(space.belongs(value, atol=NEAR)):
                raise ValueError(f"{called} must be a point of geomstats' {type(space).__name__}, got {shortly(value)}")
        else:
            value = super()._argument(method, name, value, called)
        return value

    def _check_together(self, method: str, arguments: Iterable[tuple[str, Any]]) -> None:
        """Raise ValueError, with the names, if the leading axes of points and vectors do not fit."""
        leading = [(name, axes) for name, value in arguments for axes in self._leading(name, value)]
        try:
            np.broadcast_shapes(*(axes for _, axes in leading))
        except ValueError:
            shapes = ", ".join(f"{name} {list(axes)}" for name, axes in leading)
            called = f"{type(self).__name__}.{method}"
            raise ValueError(f"the leading axes of the arguments of {called} do not fit: {shapes}") from None

    def _leading(self, name: str, value: Any) -> list[tuple[int, ...]]:
        """Leading axes of the arrays of a point g, h or of a vector ξ, η, p, where there are any."""
        if name not in ("g", "h", "xi", "eta", "p"):
            return []
        shapes = self.point_shapes if name in ("g", "h") else [(self.dim,)]
        leaves = jax.tree.leaves(value)
        axes = [np.shape(a)[: np.ndim(a) - len(s)] for a, s in zip(leaves, shapes, strict=True)]
        return [a for a in axes if a]

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return str(self)

    # --- the group law -------------------------------------------------------------------------------------
    @abstractmethod
    def identity(self) -> Point:
        """Neutral element e: a point of the group without leading axes, as NumPy arrays."""

    @abstractmethod
    def compose(self, g: Point, h: Point) -> Point:
        """Product g·h of points of the group."""

    @abstractmethod
    def inverse(self, g: Point) -> Point:
        """Inverse g⁻¹ of a point of the group."""

    # --- the exponential -----------------------------------------------------------------------------------
    @abstractmethod
    def exp(self, xi: Array) -> Point:
        """Exponential map of ``xi``, shape=[..., n]; a point of the group."""

    @abstractmethod
    def log(self, g: Point) -> Array:
        """Principal logarithm of a point of the group, shape=[..., n]: the inverse of ``exp`` near zero."""

    def dexp(self, xi: Array) -> Array:
        r"""Right-trivialised tangent of exp at ``xi`` (shape=[..., n]), a matrix of shape=[..., n, n].

        (dexp_ξ η)^ = D exp(ξ)η · exp(ξ)⁻¹ = φ₁(ad_ξ)η.
        """
        return exp_and_phi1(self.ad(xi))[1]

    def dexp_inv(self, xi: Array) -> Array:
        """Inverse of the matrix ``dexp(xi)``, shape=[..., n, n]."""
        return jnp.linalg.inv(self.dexp(xi))

    # --- the Cayley map ------------------------------------------------------------------------------------
    def cay(self, xi: Array) -> Point:
        """Cayley map (1 − ξ̂/2)⁻¹(1 + ξ̂/2) of ``xi``, shape=[..., n]; a point of the group.

        Raises
        ------
        NotImplementedError
            If the group has no Cayley map (``has_cayley``); so do ``cay_inv`` and their tangents.
        """
        raise NotImplementedError(f"{self} has no Cayley map; use the exponential retraction")

    def cay_inv(self, g: Point) -> Array:
        """Inverse of ``cay`` at a point of the group, shape=[..., n]; errors as for ``cay``."""
        raise NotImplementedError(f"{self} has no Cayley map; use the exponential retraction")

    def dcay(self, xi: Array) -> Array:
        """Right-trivialised tangent of ``cay`` at ``xi`` (shape=[..., n]), a matrix of shape=[..., n, n]."""
        return self._dtau(self.cay, xi)

    def dcay_inv(self, xi: Array) -> Array:
        """Inverse of the matrix ``dcay(xi)``, shape=[..., n, n]."""
        return jnp.linalg.inv(self.dcay(xi))

    def dcay_inv_star(self, xi: Array, p: Array) -> Array:
        """(dcay_ξ⁻¹)ᵀ p, shape=[..., n]."""
        return jnp.sum(self.dcay_inv(xi) * p[..., None], axis=-2)

    # --- adjoint representations ---------------------------------------------------------------------------
    def Ad(self, g: Point) -> Array:
        """Matrix of Ad_g at a point of the group, shape=[..., n, n]: (Ad_g η)^ = g η̂ g⁻¹."""

        def single(g: Point) -> Array:
            def conjugate(eta: Array) -> Array:
                return self.log(self.compose(self.compose(g, self.exp(eta)), self.inverse(g)))

            return jax.jacfwd(conjugate)(jnp.zeros(self.dim))

        return self.batched(single, g)

    def ad(self, xi: Array) -> Array:
        """Matrix of ad_ξ = [ξ, ·], shape=[..., n, n], from the structure constants; ``xi`` of shape=[..., n]."""
        return jnp.einsum("kij,...i->...kj", self.structure_constants, xi)

    def Ad_star(self, g: Point, p: Array) -> Array:
        """Ad*_g p = Ad_gᵀ p, shape=[..., n], of a point of the group and a momentum of shape=[..., n]."""
        return jnp.einsum("...ij,...i->...j", self.Ad(g), p)

    def ad_star(self, xi: Array, p: Array) -> Array:
        """ad*_ξ p = ad_ξᵀ p, shape=[..., n]; ``xi`` and ``p`` of shape=[..., n]."""
        return jnp.einsum("...ij,...i->...j", self.ad(xi), p)

    def bracket(self, xi: Array, eta: Array) -> Array:
        """Lie bracket [ξ, η], shape=[..., n]; ``xi`` and ``eta`` of shape=[..., n]."""
        return jnp.einsum("...ij,...j->...i", self.ad(xi), eta)

    @property
    def structure_constants(self) -> np.ndarray:
        """c[k, i, j] with [e_i, e_j] = Σ_k c[k, i, j] e_k, shape=[n, n, n]; from ``ad`` where a group defines it."""
        try:
            return _remembered_structure_constants(self)
        except TypeError:  # a group with arrays in it is not hashable
            return _structure_constants(self)

    # --- points --------------------------------------------------------------------------------------------
    def left_tangent(self, g: Point, xi: Array) -> Point:
        """Ambient velocity ġ = g ξ̂ of ``xi``, shape=[..., n]: arrays of the shapes of a point of the group."""

        def single(g: Point, xi: Array) -> Point:
            return jax.jvp(lambda eta: self.compose(g, self.exp(eta)), (jnp.zeros(self.dim),), (xi,))[1]

        return self.batched(single, g, xi, ndims=(None, 1))

    def project(self, g: Point) -> Point:
        """Project onto the group to remove rounding errors of a long product, in the shapes of ``g``."""
        return g

    def defect(self, g: Point) -> Array:
        """Squared distance of one ambient point off the group, a scalar; ¼‖RᵀR − 1‖² of a rotation matrix."""
        gaps = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), g, self.project(g))
        return jnp.sum(jnp.stack(jax.tree.leaves(gaps)))

    def gap(self, g: Point) -> Array:
        """Largest distance of an entry of an ambient point from the nearest group element, scalar."""
        gaps = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b), initial=0.0), g, self.project(g))
        return jnp.max(jnp.stack(jax.tree.leaves(gaps)))

    def turn(self, xi: Array) -> Array:
        """Rotation angle |ω| (rad) of exp(ξ), shape=[...], of ``xi``, shape=[..., n]; bounds a retraction's step."""
        return jnp.zeros(jnp.shape(xi)[:-1])

    def to_matrix(self, g: Point) -> Array:
        """Faithful matrix representation of a point of the group, shape=[..., N, N].

        Raises
        ------
        NotImplementedError
            If the group has none.
        """
        raise NotImplementedError(f"{self} has no matrix representation")

    def from_matrix(self, matrix: Array) -> Point:
        """Point of the group whose ``to_matrix`` is ``matrix``, shape=[..., N, N]; errors as for ``to_matrix``."""
        raise NotImplementedError(f"{self} has no matrix representation")

    def to_vector(self, g: Point) -> Array:
        """Entries of a point of the group in one axis, shape=[..., len(point_names)]."""
        leaves = jax.tree.leaves(g)
        flat = [
            jnp.reshape(a, (*jnp.shape(a)[: jnp.ndim(a) - len(s)], math.prod(s)))
            for a, s in zip(leaves, self.point_shapes, strict=True)
        ]
        return jnp.concatenate(flat, axis=-1)

    def from_vector(self, vector: Array) -> Point:
        """Point of the group whose ``to_vector`` is ``vector``, shape=[..., len(point_names)]."""
        sizes = [math.prod(s) for s in self.point_shapes]
        parts = jnp.split(vector, np.cumsum(sizes)[:-1], axis=-1)
        leaves = [jnp.reshape(a, (*a.shape[:-1], *s)) for a, s in zip(parts, self.point_shapes, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(self.identity()), leaves)

    # --- geomstats -----------------------------------------------------------------------------------------
    def space(self) -> Any:
        """The geomstats manifold with the points of ``to_geomstats``.

        Raises
        ------
        NotImplementedError
            If geomstats has none; so do ``to_geomstats`` and ``from_geomstats``.
        """
        raise NotImplementedError(f"{self} has no geomstats counterpart")

    def to_geomstats(self, g: Point) -> np.ndarray:
        """Points of ``space()``, shape=[..., *space().shape], of points of the group: the same arrays, unless the group
        has its own way; errors as for ``space``.
        """
        self.space()
        return np.array(g, dtype=np.float64)

    def from_geomstats(self, point: np.ndarray) -> Point:
        """Points of the group of ``point``, shape=[..., *space().shape]; angles in (−π, π]; errors as for ``space``."""
        self.space()
        return np.array(point, dtype=np.float64)

    # --- helpers for defaults ------------------------------------------------------------------------------
    def batched(self, function: Callable, *args: Any, ndims: tuple[int | None, ...] = (None,)) -> Any:
        """Map a function of single elements over the broadcast leading axes of its arguments.

        Parameters
        ----------
        function : callable
            Takes single elements, without leading axes, and returns an array or a tree of arrays.
        *args : array or point of the group
            With leading axes, which are broadcast.
        ndims : tuple of int or None, optional
            For each argument the number of axes of a single element; None for a point of the group.

        Returns
        -------
        array or tree of arrays
            Values of ``function``, with the leading axes in front: shape=[..., *its shape].
        """
        if not isinstance(ndims, tuple | list) or len(ndims) != len(args):
            raise TypeError(f"ndims must be a tuple of {len(args)}, one for each argument, got {shortly(ndims)}")
        core = [
            jax.tree.unflatten(jax.tree.structure(a), [len(s) for s in self.point_shapes]) if d is None else d
            for a, d in zip(args, ndims, strict=True)
        ]
        leaves, treedef = jax.tree.flatten(args)
        depths = jax.tree.leaves(tuple(core))
        batch = jnp.broadcast_shapes(*[jnp.shape(a)[: jnp.ndim(a) - d] for a, d in zip(leaves, depths, strict=True)])
        leaves = [
            jnp.broadcast_to(a, batch + jnp.shape(a)[jnp.ndim(a) - d :]) for a, d in zip(leaves, depths, strict=True)
        ]
        mapped = lambda *flat: function(*jax.tree.unflatten(treedef, flat))  # noqa: E731
        for _ in batch:
            mapped = jax.vmap(mapped)
        return mapped(*leaves)

    def _dtau(self, tau: Callable, xi: Array) -> Array:
        """Right-trivialised tangent of any local map τ: g → G, by automatic differentiation."""

        def single(xi: Array) -> Array:
            base = self.inverse(tau(xi))
            return jax.jacfwd(lambda eta: self.log(self.compose(tau(xi + eta), base)))(jnp.zeros(self.dim))

        return self.batched(single, xi, ndims=(1,))


def _structure_constants(group: LieGroup) -> np.ndarray:
    with float64():
        if type(group).ad is not LieGroup.ad:
            return np.transpose(in_numpy(group.ad, one := np.eye(group.dim))(one), (1, 0, 2))
        slope = jax.jacfwd(lambda xi: LieGroup.Ad(group, group.exp(xi)))
        return np.transpose(in_numpy(slope, zero := np.zeros(group.dim))(zero), (0, 2, 1))


_remembered_structure_constants = functools.lru_cache(maxsize=64)(_structure_constants)

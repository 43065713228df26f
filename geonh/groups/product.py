r"""Direct products G₁ × … × G_k: all maps factor by factor, linear maps block diagonal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.validators import shortly
from geonh.groups.base import LieGroup


class Product(LieGroup):
    """Product of groups. A point is the tuple of the factors' points; velocities are concatenated, shape=[..., n].

    Parameters
    ----------
    factors : sequence of LieGroup
        The factors; a product among them is replaced by its own factors.
    names : sequence of str, optional
        One name for each factor as given: the names of its components become ``name_component``. Without, components
        keep their names, except that those occurring in more than one factor get the factor's number, ``phi_2``.
    point_ndim : int, optional
        Number of axes of a point of the geomstats ``ProductManifold``: 1 (the factors' points flattened and
        concatenated), or more for factors of equal shapes, whose points are then stacked.

    Raises
    ------
    TypeError
        If a factor is not a ``LieGroup``; ``as_group`` converts geomstats manifolds.
    ValueError
        If there are no factors, or ``names`` is invalid.
    """

    factors: tuple[LieGroup, ...]
    factor_names: tuple[str | None, ...] = eqx.field(static=True)
    point_ndim: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    point_names: tuple[str, ...] = eqx.field(static=True)
    velocity_names: tuple[str, ...] = eqx.field(static=True)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    has_cayley: bool = eqx.field(static=True)

    def __init__(self, factors: Sequence[LieGroup], names: Sequence[str] | None = None, *, point_ndim: int = 1):
        if not isinstance(factors, list | tuple) or not factors:
            raise ValueError(f"factors must be a list of at least one group, got {shortly(factors)}")
        factors = tuple(factors)
        for i, factor in enumerate(factors):
            if not isinstance(factor, LieGroup):
                raise TypeError(
                    f"factors[{i}] of a Product must be a geonh LieGroup, got {type(factor).__name__}; "
                    "geonh.groups.as_group converts geomstats manifolds and lists of them"
                )
        if names is not None and (not isinstance(names, list | tuple) or len(names) != len(factors)):
            raise ValueError(f"names must have one entry for each of the {len(factors)} factors, got {shortly(names)}")
        if not all(name is None or isinstance(name, str) for name in names or ()):
            raise TypeError(f"names must be text, or None, for each factor, got {shortly(names)}")
        given = (None,) * len(factors) if names is None else tuple(names)
        flat: list[tuple[str | None, LieGroup]] = []
        for name, factor in zip(given, factors, strict=True):
            if isinstance(factor, Product):
                for inner_name, inner in zip(factor.factor_names, factor.factors, strict=True):
                    flat.append(("_".join(n for n in (name, inner_name) if n) or None, inner))
            else:
                flat.append((name, factor))
        self.factor_names = tuple(name for name, _ in flat)
        self.factors = tuple(factor for _, factor in flat)
        self.point_ndim = point_ndim
        self.dim = sum(f.dim for f in self.factors)
        self.point_names = _unique([f.point_names for f in self.factors], self.factor_names)
        self.velocity_names = _unique([f.velocity_names for f in self.factors], self.factor_names)
        self.point_shapes = tuple(shape for f in self.factors for shape in f.point_shapes)
        self.has_cayley = all(f.has_cayley for f in self.factors)

    def __str__(self) -> str:
        return " × ".join(str(f) for f in self.factors)

    # --- factors -------------------------------------------------------------------------------------------
    def split(self, xi: Array) -> tuple[Array, ...]:
        """Split a velocity or momentum, shape=[..., n], into those of the factors: [..., n₁], …, [..., n_k]."""
        ends = np.cumsum([f.dim for f in self.factors])
        return tuple(xi[..., int(end) - f.dim : int(end)] for f, end in zip(self.factors, ends, strict=True))

    def _points(self, method: str, *arguments: Any) -> tuple:
        """Apply a function to each factor and tuples of the factors' arguments; return the points."""
        parts = zip(self.factors, *arguments, strict=True)
        return tuple(getattr(factor, method)(*part) for factor, *part in parts)

    def _vector(self, method: str, *arguments: Any) -> Array:
        return _concatenate(self._points(method, *arguments))

    def _blocks(self, method: str, *arguments: Any) -> Array:
        """Block-diagonal matrix of the factors' matrices."""
        blocks = self._points(method, *arguments)
        batch = jnp.broadcast_shapes(*[b.shape[:-2] for b in blocks])
        rows, start = [], 0
        for block, factor in zip(blocks, self.factors, strict=True):
            n, end = factor.dim, start + factor.dim
            parts = [
                jnp.zeros((*batch, n, start), block.dtype),
                jnp.broadcast_to(block, (*batch, n, n)),
                jnp.zeros((*batch, n, self.dim - end), block.dtype),
            ]
            rows.append(jnp.concatenate([part for part in parts if part.shape[-1]], axis=-1))
            start = end
        return jnp.concatenate(rows, axis=-2)

    # --- the group -----------------------------------------------------------------------------------------
    def identity(self) -> tuple:
        return self._points("identity")

    def compose(self, g: tuple, h: tuple) -> tuple:
        return self._points("compose", g, h)

    def inverse(self, g: tuple) -> tuple:
        return self._points("inverse", g)

    def exp(self, xi: Array) -> tuple:
        return self._points("exp", self.split(xi))

    def log(self, g: tuple) -> Array:
        return self._vector("log", g)

    def dexp(self, xi: Array) -> Array:
        return self._blocks("dexp", self.split(xi))

    def dexp_inv(self, xi: Array) -> Array:
        return self._blocks("dexp_inv", self.split(xi))

    def cay(self, xi: Array) -> tuple:
        return self._points("cay", self.split(xi))

    def cay_inv(self, g: tuple) -> Array:
        return self._vector("cay_inv", g)

    def dcay(self, xi: Array) -> Array:
        return self._blocks("dcay", self.split(xi))

    def dcay_inv(self, xi: Array) -> Array:
        return self._blocks("dcay_inv", self.split(xi))

    def dcay_inv_star(self, xi: Array, p: Array) -> Array:
        return self._vector("dcay_inv_star", self.split(xi), self.split(p))

    def Ad(self, g: tuple) -> Array:
        return self._blocks("Ad", g)

    def ad(self, xi: Array) -> Array:
        return self._blocks("ad", self.split(xi))

    def Ad_star(self, g: tuple, p: Array) -> Array:
        return self._vector("Ad_star", g, self.split(p))

    def ad_star(self, xi: Array, p: Array) -> Array:
        return self._vector("ad_star", self.split(xi), self.split(p))

    def bracket(self, xi: Array, eta: Array) -> Array:
        return self._vector("bracket", self.split(xi), self.split(eta))

    @property
    def structure_constants(self) -> np.ndarray:
        constants, start = np.zeros((self.dim,) * 3), 0
        for factor in self.factors:
            part = slice(start, start + factor.dim)
            constants[part, part, part] = factor.structure_constants
            start += factor.dim
        return constants

    def left_tangent(self, g: tuple, xi: Array) -> tuple:
        return self._points("left_tangent", g, self.split(xi))

    def project(self, g: tuple) -> tuple:
        return self._points("project", g)

    def defect(self, g: tuple) -> Array:
        return jnp.sum(jnp.stack(self._points("defect", g)))

    def gap(self, g: tuple) -> Array:
        return jnp.max(jnp.stack(self._points("gap", g)))

    def turn(self, xi: Array) -> Array:
        """Largest of the factors' rotation angles (rad), shape=[...]; ``xi`` of shape=[..., n]."""
        turns = self._points("turn", self.split(xi))
        largest = turns[0]
        for turn in turns[1:]:
            largest = jnp.maximum(largest, turn)
        return largest

    def to_matrix(self, g: tuple) -> Array:
        """Block-diagonal matrix of the factors' matrices, shape=[..., N, N] with N = N₁ + … + N_k."""
        matrices = self._points("to_matrix", g)
        batch = jnp.broadcast_shapes(*[m.shape[:-2] for m in matrices])
        total = sum(m.shape[-1] for m in matrices)
        result, start = jnp.zeros((*batch, total, total)), 0
        for m in matrices:
            part = slice(start, start + m.shape[-1])
            result = result.at[..., part, part].set(m)
            start += m.shape[-1]
        return result

    def from_matrix(self, matrix: Array) -> tuple:
        points, start = [], 0
        for factor in self.factors:
            size = jax.eval_shape(lambda factor=factor: factor.to_matrix(factor.identity())).shape[-1]
            part = slice(start, start + size)
            points.append(factor.from_matrix(matrix[..., part, part]))
            start += size
        return tuple(points)

    # --- geomstats -----------------------------------------------------------------------------------------
    def space(self) -> Any:
        """``ProductManifold`` of the factors' spaces; a torus contributes its circles."""
        from geomstats.geometry.product_manifold import ProductManifold

        spaces: list[Any] = []
        for factor in self.factors:
            space = factor.space()
            spaces += space.factors if isinstance(space, ProductManifold) and space.point_ndim == 1 else (space,)
        return ProductManifold(spaces, point_ndim=self.point_ndim)

    def to_geomstats(self, g: tuple) -> np.ndarray:
        points = self._points("to_geomstats", g)
        if self.point_ndim > 1:
            return np.stack(np.broadcast_arrays(*points), axis=-self.point_ndim)
        ndims = [np.ndim(f.to_geomstats(f.identity())) for f in self.factors]
        flat = [p.reshape(*p.shape[: p.ndim - d], -1) for p, d in zip(points, ndims, strict=True)]
        return np.concatenate(flat, axis=-1)

    def from_geomstats(self, point: np.ndarray) -> tuple:
        point = np.asarray(point, dtype=np.float64)
        if self.point_ndim > 1:
            parts = [np.take(point, i, axis=-self.point_ndim) for i in range(len(self.factors))]
        else:
            shapes = [np.shape(f.to_geomstats(f.identity())) for f in self.factors]
            cuts = np.cumsum([math.prod(s) for s in shapes])[:-1]
            pieces = np.split(point, cuts, axis=-1)
            parts = [piece.reshape(*point.shape[:-1], *s) for piece, s in zip(pieces, shapes, strict=True)]
        return self._points("from_geomstats", parts)


def _concatenate(vectors: Sequence[Array]) -> Array:
    batch = jnp.broadcast_shapes(*[v.shape[:-1] for v in vectors])
    return jnp.concatenate([jnp.broadcast_to(v, (*batch, v.shape[-1])) for v in vectors], axis=-1)


def _unique(names: Sequence[tuple[str, ...]], factor_names: Sequence[str | None]) -> tuple[str, ...]:
    """Names of all components, made unique."""
    named = [
        tuple(f"{factor_name}_{name}" for name in group) if factor_name else group
        for group, factor_name in zip(names, factor_names, strict=True)
    ]
    clashes: Callable[[list], set] = lambda groups: {  # noqa: E731
        name for name, count in Counter(name for group in groups for name in group).items() if count > 1
    }
    twice = clashes(named)
    result = [
        tuple(f"{name}_{i}" if name in twice else name for name in group) for i, group in enumerate(named, start=1)
    ]
    if clashes(result):
        result = [tuple(f"{name}_{i}" for name in group) for i, group in enumerate(named, start=1)]
    return tuple(name for group in result for name in group)

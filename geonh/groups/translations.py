r"""Rⁿ under addition, and the torus Tⁿ with unwrapped angles.

Coordinates are exponential, for the Cayley map too; Ad = 1, ad = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.validators import as_count, entries, shortly
from geonh.groups.base import represented
from geonh.groups.coordinates import ExponentialCoordinates


class _Additive(ExponentialCoordinates):
    """Base class of groups with additive coordinates."""

    dim: int = eqx.field(static=True)
    point_names: tuple[str, ...] = eqx.field(static=True)
    velocity_names: tuple[str, ...] = eqx.field(static=True)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    has_cayley: bool = eqx.field(static=True, default=True)

    def compose(self, g: Array, h: Array) -> Array:
        return g + h

    def _one(self, xi: Array) -> Array:
        return jnp.broadcast_to(jnp.eye(self.dim), (*jnp.shape(xi)[:-1], self.dim, self.dim))

    dexp = dexp_inv = dcay = dcay_inv = _one  # type: ignore[assignment]

    def Ad(self, g: Array) -> Array:
        return self._one(g)

    def ad(self, xi: Array) -> Array:
        return jnp.zeros((*jnp.shape(xi)[:-1], self.dim, self.dim))

    def left_tangent(self, g: Array, xi: Array) -> Array:
        return xi + jnp.zeros_like(g)


def _names(names: tuple[str, ...] | None, dim: int, default: str) -> tuple[str, ...]:
    dim = as_count(dim, "dim")
    if names is None:
        return (default,) if dim == 1 else tuple(f"{default}{i + 1}" for i in range(dim))
    listed = entries(names) if isinstance(names, Sequence) else None
    if listed is None or not all(isinstance(name, str) and name for name in listed):
        raise TypeError(f"names must be a list of texts, got {shortly(names)}")
    if len(set(names)) != len(names):
        raise ValueError(f"names must differ, got {names}")
    if len(names) != dim:
        raise ValueError(f"names has {len(names)} entries for dim = {dim}: {names}")
    return tuple(names)


def _power(symbol: str, n: int) -> str:
    return symbol + str(n).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


class Translations(_Additive):
    """Rⁿ as a group. Points and velocities of shape=[..., n] (metres, metres per second, or the user's units).

    Parameters
    ----------
    dim : int
        n ≥ 1.
    names : tuple of str, optional
        Names of the coordinates; ``x, y, z`` up to n = 3, else ``x1 … xn``.

    Raises
    ------
    TypeError
        If ``names`` is not a list of texts.
    ValueError
        If ``dim`` is not a positive integer, or ``names`` are not ``dim`` distinct names.
    """

    def __init__(self, dim: int, names: tuple[str, ...] | None = None):
        dim = as_count(dim, "dim")
        if names is None and dim <= 3:
            names = ("x", "y", "z")[:dim]
        self.dim = dim
        self.point_names = _names(names, dim, "x")
        self.velocity_names = tuple(f"v{name}" for name in self.point_names)
        self.point_shapes = ((dim,),)

    def __str__(self) -> str:
        return "R" if self.dim == 1 else _power("R", self.dim)

    def to_matrix(self, g: Array) -> Array:
        """Homogeneous matrix [[1, x], [0, 1]] of a point, shape=[..., n + 1, n + 1]."""
        one = jnp.broadcast_to(jnp.eye(self.dim + 1), (*jnp.shape(g)[:-1], self.dim + 1, self.dim + 1))
        return one.at[..., :-1, -1].set(g)

    def from_matrix(self, matrix: Array) -> Array:
        return represented(self, matrix[..., :-1, -1], matrix)

    def space(self) -> Any:
        from geomstats.geometry.euclidean import Euclidean

        return Euclidean(self.dim)


class Torus(_Additive):
    """Tⁿ, or the circle S¹ for n = 1: unwrapped angles in radians, shape=[..., n].

    Parameters
    ----------
    dim : int
        n ≥ 1.
    names : tuple of str, optional
        Names of the angles.

    Raises
    ------
    TypeError, ValueError
        As for ``Translations``.
    """

    def __init__(self, dim: int = 1, names: tuple[str, ...] | None = None):
        self.dim = dim = as_count(dim, "dim")
        self.point_names = _names(names, dim, "phi")
        self.velocity_names = tuple(f"{name}_dot" for name in self.point_names)
        self.point_shapes = ((dim,),)

    def __str__(self) -> str:
        return "S¹" if self.dim == 1 else _power("T", self.dim)

    def to_matrix(self, g: Array) -> Array:
        """Plane rotations down the diagonal, shape=[..., 2n, 2n], of angles of shape=[..., n]."""
        c, s = (part[..., None] * jnp.eye(self.dim) for part in (jnp.cos(g), jnp.sin(g)))
        blocks = jnp.stack([jnp.stack([c, -s], axis=-1), jnp.stack([s, c], axis=-1)], axis=-2)
        return jnp.swapaxes(blocks, -3, -2).reshape(*jnp.shape(g)[:-1], 2 * self.dim, 2 * self.dim)

    def from_matrix(self, matrix: Array) -> Array:
        """Angles in (−π, π], shape=[..., n], of plane rotations down the diagonal, shape=[..., 2n, 2n]."""
        even = np.arange(0, 2 * self.dim, 2)
        return represented(self, jnp.arctan2(matrix[..., even + 1, even], matrix[..., even, even]), matrix)

    def space(self) -> Any:
        from geomstats.geometry.hypersphere import Hypersphere
        from geomstats.geometry.product_manifold import ProductManifold

        circle = Hypersphere(1)
        return circle if self.dim == 1 else ProductManifold([Hypersphere(1) for _ in range(self.dim)], point_ndim=1)

    def to_geomstats(self, g: Array) -> np.ndarray:
        angle = np.asarray(g, dtype=np.float64)
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(*angle.shape[:-1], 2 * self.dim)

    def from_geomstats(self, point: np.ndarray) -> Any:
        pairs = np.asarray(point, dtype=np.float64).reshape(*np.shape(point)[:-1], self.dim, 2)
        return np.arctan2(pairs[..., 1], pairs[..., 0])

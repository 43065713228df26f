"""Cosets Hg of subgroups H of one factor of a group: their coordinates, the action of the factor, representatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import LieGroup, Point
from geonh.groups.coefficients import matvec


class Subgroup(NamedTuple):
    """Subgroup S with one element in each coset near the identity.

    Attributes
    ----------
    group : LieGroup, or None if it is trivial
        S, of dimension k; its points are the coordinates of the cosets.
    inclusion : ndarray, shape=[n, k]
        Body velocity of the representative, of a velocity on S.
    """

    group: LieGroup | None
    inclusion: np.ndarray


class Kept(eqx.Module):
    """Cosets of the trivial subgroup: the elements of the factor."""

    factor: LieGroup

    def at(self, g: Point) -> Point:
        """Coordinates of the coset of g."""
        return g

    def act(self, x: Point, W: Point) -> Point:
        """Coordinates of the coset x·W."""
        return self.factor.compose(x, W)

    def representative(self, x: Point) -> Point:
        """Element of a coset."""
        return x

    def subgroup(self) -> Subgroup:
        """Subgroup with one element in each coset; ValueError if there is none here."""
        return Subgroup(self.factor, np.eye(self.factor.dim))


class Gone(eqx.Module):
    """The only coset of a factor that H contains."""

    factor: LieGroup

    def at(self, g: Point) -> tuple:
        return ()

    def act(self, x: tuple, W: Point) -> tuple:
        return ()

    def representative(self, x: tuple) -> Point:
        return self.factor.identity()

    def subgroup(self) -> Subgroup:
        return Subgroup(None, np.zeros((self.factor.dim, 0)))


class Coordinates(eqx.Module):
    """Linear functions Nx of additive coordinates, which vanish on H.

    Attributes
    ----------
    rows : array, shape=[k, n]
        N, in reduced echelon form; a representative has zeros but at its pivots.
    """

    factor: LieGroup
    rows: Any
    pivots: tuple[int, ...] = eqx.field(static=True)
    selects: bool = eqx.field(static=True)
    """True if Nx are some of the coordinates."""

    def __init__(self, factor: LieGroup, rows: np.ndarray):
        self.factor, self.rows = factor, rows
        self.pivots = tuple(int(np.flatnonzero(row)[0]) for row in rows)
        self.selects = np.array_equal(rows, self.lifts.T)

    def at(self, g: Array) -> Array:
        return g[..., np.array(self.pivots)] if self.selects else matvec(jnp.asarray(self.rows), g)

    def act(self, x: Array, W: Array) -> Array:
        return x + self.at(W)

    def representative(self, x: Array) -> Array:
        return matvec(jnp.asarray(self.lifts), x)

    @property
    def lifts(self) -> np.ndarray:
        """Right inverse of N, shape=[n, k]."""
        return np.eye(self.factor.dim)[:, list(self.pivots)]

    def subgroup(self) -> Subgroup:
        names = tuple(self.factor.point_names[i] for i in self.pivots)
        return Subgroup(type(self.factor)(len(names), names), self.lifts)

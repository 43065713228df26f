r"""Cosets of subgroups of Euclidean motions, (R, x) ∈ SO(k) ⋉ R^d: SO(3), its opposite, SE(2) and SE(3).

A connected subgroup H consists of rotations about a point c, by none, one or all axes, and of translations T that these
rotations leave invariant, unless it contains screws. With Π the projector along T, the coset of (R, x) has the
coordinates

    R, γ = Rᵀe (of rotations about the axis e), or none,    y = RᵀΠ(x − c), unless T is everything,

and (R, x)·(S, w) = (RS, x + Rw) acts on them by RS, Sᵀγ, Sᵀ(y + RᵀΠR w). A representative is (R, c + Ry) with any R of
the first coordinate. On a plane with normal e, under its own motions, y = zγ with the height z.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.echelon import NEGLIGIBLE, null_rows, rank_of
from geonh.arguments.precision import float64
from geonh.geometry.coset_parts import Subgroup
from geonh.groups.base import LieGroup, Point
from geonh.groups.coefficients import cross, matmul, matrix, matvec, transpose
from geonh.groups.opposite import Opposite
from geonh.groups.se2 import SE2
from geonh.groups.se3 import SE3
from geonh.groups.so2 import SO2
from geonh.groups.so3 import SO3
from geonh.groups.translations import Translations


class Dimensions(NamedTuple):
    """Dimensions of the rotations and of the translations of a group."""

    turns: int
    moves: int


class Motion(NamedTuple):
    """Rotation matrix, shape=[..., k, k], and translation, shape=[..., d], of a point of the group."""

    R: Array
    x: Array


def dimensions(factor: LieGroup) -> Dimensions | None:
    """Dimensions of a group of Euclidean motions; None of another group."""
    if isinstance(factor, SO3) or (isinstance(factor, Opposite) and isinstance(factor.group, SO3)):
        return Dimensions(3, 0)
    return Dimensions(3, 3) if isinstance(factor, SE3) else Dimensions(1, 2) if isinstance(factor, SE2) else None


class MotionCosets(eqx.Module):
    """Coordinates of cosets of a group of motions, as of the module docstring.

    A base point is the pair (R, y) or (γ, y), or its only part; the rotation of SE(2) is its angle, shape=[1].

    Attributes
    ----------
    frame : array, shape=[3, 3], or None
        Rotation with the last row e, where H turns about one axis of space.
    centre : array, shape=[d]
        c.
    across : array, shape=[d, d]
        Π.
    turns : str
        Rotations of H: "none", "axis" or "all".
    moves : bool
        True unless T is everything.
    """

    factor: LieGroup
    frame: Any
    centre: Any
    across: Any
    turns: str = eqx.field(static=True)
    moves: bool = eqx.field(static=True)

    def at(self, g: Point) -> Any:
        R, x = self._split(g)
        heading = g[..., :1] if isinstance(self.factor, SE2) else R
        attitude = () if self.turns == "all" else heading
        if self.turns == "axis":
            attitude = matvec(transpose(R), jnp.asarray(self.frame)[2])
        place = matvec(transpose(R), matvec(jnp.asarray(self.across), x - self.centre)) if self.moves else ()
        return self._joined(attitude, place)

    def act(self, x: Any, W: Point) -> Any:
        attitude, place = self._parted(x)
        S, w = self._split(W)
        if self.moves:
            place = matvec(transpose(S), place + matvec(self._turned_across(attitude), w))
        if self.turns == "axis":
            attitude = matvec(transpose(S), attitude)
        elif self.turns == "none":
            attitude = attitude + W[..., :1] if isinstance(self.factor, SE2) else matmul(attitude, S)
        return self._joined(attitude, place)

    def representative(self, x: Any) -> Point:
        attitude, place = self._parted(x)
        R = self._rotation(attitude)
        if not isinstance(self.factor, SE2 | SE3):
            return self.factor.from_matrix(R)
        moved = jnp.asarray(self.centre) + matvec(R, place) if self.moves else jnp.asarray(self.centre)
        if isinstance(self.factor, SE2):
            return jnp.concatenate([attitude if self.turns == "none" else jnp.zeros(1), moved])
        last = jnp.array([[0.0, 0.0, 0.0, 1.0]])
        return jnp.concatenate([jnp.concatenate([R, moved[:, None]], axis=1), last])

    def subgroup(self) -> Subgroup:
        k, d = dimensions(self.factor) or (0, 0)
        if self.turns == "none" and not self.moves:
            return Subgroup(SO2() if k == 1 else SO3(), np.eye(k + d)[:, :k])
        if self.turns == "all" and np.allclose(self.across, np.eye(d)):
            return Subgroup(Translations(d), np.eye(k + d)[:, k:])
        raise ValueError(f"{self.factor} has no subgroup with one element in each coset of these symmetries")

    def _split(self, g: Point) -> Motion:
        if isinstance(self.factor, SE3):
            return Motion(g[..., :3, :3], g[..., :3, 3])
        if isinstance(self.factor, SE2):
            return Motion(_plane(g[..., 0]), g[..., 1:])
        R = self.factor.to_matrix(g)
        return Motion(R, jnp.zeros((*R.shape[:-2], 0)))

    def _joined(self, attitude: Any, place: Any) -> Any:
        return attitude if not self.moves else place if self.turns == "all" else (attitude, place)

    def _parted(self, x: Any) -> tuple[Any, Any]:
        return (x, ()) if not self.moves else ((), x) if self.turns == "all" else x

    def _rotation(self, attitude: Any) -> Array:
        """Rotation matrix with the given attitude."""
        if self.turns == "none":
            return _plane(attitude[..., 0]) if isinstance(self.factor, SE2) else attitude
        if self.turns == "all":
            return jnp.eye(2 if isinstance(self.factor, SE2) else 3)
        return matmul(jnp.asarray(self.frame).T, _frame_about(attitude))

    def _turned_across(self, attitude: Any) -> Array:
        """RᵀΠR, the same for all R of an attitude."""
        across = jnp.asarray(self.across)
        if self.turns == "all":
            return across
        if self.turns == "none":
            R = self._rotation(attitude)
            return matmul(transpose(R), matmul(across, R))
        along = jnp.asarray(self.frame)[2] @ across @ jnp.asarray(self.frame)[2]
        around = (jnp.trace(across) - along) / 2
        return around * jnp.eye(3) + (along - around) * attitude[..., :, None] * attitude[..., None, :]


def motion_cosets(factor: LieGroup, algebra: np.ndarray) -> tuple[MotionCosets, np.ndarray]:
    """Cosets of the subgroup of an algebra, rows of shape=[s, n], and the algebra of this subgroup: of screws, only the
    translations among them.
    """
    k, d = dimensions(factor) or (0, 0)
    turns, moves = algebra[:, :k], algebra[:, k:]
    along = null_rows(turns) @ moves
    translations = np.hstack([np.zeros((len(along), k)), along])
    across = np.eye(d) - np.linalg.pinv(along) @ along if along.size else np.eye(d)
    across = np.where(np.abs(across) < NEGLIGIBLE, 0.0, across)
    rank, centre = rank_of(turns), np.zeros(d)
    if rank and d:
        matrices = np.concatenate([across @ _generator(row) for row in turns])
        right = -np.concatenate([across @ row for row in moves])
        centre = np.linalg.lstsq(matrices, right, rcond=NEGLIGIBLE)[0]
        if np.abs(matrices @ centre - right).max() > NEGLIGIBLE:
            rank, algebra, centre = 0, translations, np.zeros(d)
    frame = None
    if rank == 1 and k == 3:
        axis = turns[np.argmax(np.linalg.norm(turns, axis=1))]
        with float64():
            frame = np.asarray(_frame_about(axis / np.linalg.norm(axis)))
    which = "none" if not rank else "all" if frame is None else "axis"
    part = MotionCosets(factor, frame, centre, across, which, bool(np.any(across)))
    return part, (algebra if rank else translations)


def _generator(turn: np.ndarray) -> np.ndarray:
    """Matrix of the velocity ω × x, of ω of shape=[1] or [3]."""
    if len(turn) == 1:
        return turn[0] * np.array([[0.0, -1.0], [1.0, 0.0]])
    return np.cross(np.eye(3), turn)


def _plane(angle: Array) -> Array:
    c, s = jnp.cos(angle), jnp.sin(angle)
    return matrix([[c, -s], [s, c]])


def _frame_about(gamma: Array) -> Array:
    """Rotation with a unit vector as last row; smooth near any."""
    start = jnp.where(jnp.abs(gamma[0]) < 0.8, jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    first = start - gamma * (gamma @ start) / (gamma @ gamma)
    first = first / jnp.sqrt(first @ first)
    return jnp.stack([first, cross(gamma, first), gamma])

"""Bodies and their poses. A pose is written in ``jax.numpy`` for one g, like a system's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.drawing.part import Part, as_colour
from geonh.drawing.shapes import _axis
from geonh.engine import in_float64


class Pose(NamedTuple):
    """Pose of a body: its point b is at R b + x in space. ``a @ b`` is the pose b relative to the body at a.

    Parameters
    ----------
    R : array, shape=[3, 3]
        Axes of the body, as columns.
    x : array, shape=[3]
        Origin of the body, metres.
    """

    R: Any
    x: Any

    def __matmul__(self, other: Pose) -> Pose:
        if not isinstance(other, Pose):
            raise TypeError(f"a Pose is composed with another Pose, got {shortly(other)}")
        return Pose(self.R @ other.R, self.R @ other.x + self.x)


HERE = Pose(np.eye(3), np.zeros(3))
"""Pose of the axes of space."""


class Body:
    """Body, or marker, of a drawing.

    Parameters
    ----------
    name : str
        Label in legends and the viewer.
    parts : Part or sequence of Part
        Shape, in its own axes; may be empty. It cannot depend on g.
    at : Pose
        Pose; by default the axes of space.
    trace : array_like, shape=[3], optional
        Point of the body, in its own axes, whose path is drawn.
    colour : str
        "#rrggbb"; by default from a palette.

    Raises
    ------
    TypeError, ValueError
        If ``parts`` are not parts, ``at`` is not a pose, or another argument is invalid.
    """

    def __init__(
        self,
        name: str,
        parts: Part | Sequence[Part] = (),
        at: Pose = HERE,
        *,
        trace: Any = None,
        colour: str = "",
    ):
        if not isinstance(name, str):
            raise TypeError(f"the name of a body must be text, got {shortly(name)}")
        self.name = name
        several = [parts] if isinstance(parts, Part) else parts
        if not isinstance(several, list | tuple) or not all(isinstance(part, Part) for part in several):
            raise TypeError(f"parts of body {name!r} must be made by box, ball, line, …; got {shortly(parts)}")
        self.parts = tuple(several)
        if not isinstance(at, Pose):
            raise TypeError(f"at of body {name!r} must be a Pose such as planar(theta, x, y), got {shortly(at)}")
        self.at = at
        self.trace = None if trace is None else as_float64(trace, f"trace of body {name!r}", (3,))
        self.colour = as_colour(colour, f"colour of body {name!r}")

    def __repr__(self) -> str:
        return f"Body({self.name!r}, {len(self.parts)} parts)"


@in_float64
def planar(theta: Any, x: Any = 0.0, y: Any = 0.0, z: Any = 0.0) -> Pose:
    """Pose in the plane.

    Parameters
    ----------
    theta : float
        Rotation about the vertical, rad.
    x, y, z : float
        Origin, metres.

    Returns
    -------
    Pose
        Arguments may be traced, as entries of g are.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number.
    """
    return Pose(_turn(theta, "theta"), _vector(x, y, z))


@in_float64
def shifted(x: Any = 0.0, y: Any = 0.0, z: Any = 0.0) -> Pose:
    """Pose with the axes of space.

    Parameters
    ----------
    x, y, z : float
        Origin, metres.

    Returns
    -------
    Pose
        Arguments may be traced, as entries of g are.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number.
    """
    return Pose(jnp.eye(3), _vector(x, y, z))


@validated
@in_float64
def turned(axis: str, angle: Any) -> Pose:
    """Pose rotated about an axis, with the origin unchanged.

    Parameters
    ----------
    axis : {"x", "y", "z"}
        Axis of rotation.
    angle : float
        Angle, rad; it may be traced.

    Returns
    -------
    Pose

    Raises
    ------
    TypeError
        If ``axis`` is not a str, or the others are not numbers.
    ValueError
        If ``axis`` is anything else, or a shape does not fit.
    """
    R, order = _turn(angle, "angle"), np.roll([0, 1, 2], _axis(axis) - 2)
    return Pose(R[order][:, order], jnp.zeros(3))


@validated
@in_float64
def along(direction: Any, x: Any = (0.0, 0.0, 0.0), axis: str = "x") -> Pose:
    """Pose with one of its axes along a direction.

    Parameters
    ----------
    direction : array_like, shape=[3]
        Direction, of any length; it may be traced. Zero counts as the first axis of space.
    x : array_like, shape=[3]
        Origin, metres; it may be traced.
    axis : {"x", "y", "z"}
        Axis of the body that points along ``direction``.

    Returns
    -------
    Pose

    Raises
    ------
    TypeError
        If ``axis`` is not a str, or the others are not numbers.
    ValueError
        If ``axis`` is anything else, or a shape does not fit.
    """
    R = _stretched(_unit(_real(direction, "direction", (3,))))
    return Pose(jnp.roll(R, _axis(axis), axis=1), _real(x, "x", (3,)))


@in_float64
def link(a: Any, b: Any) -> Pose:
    """Pose that stretches the first unit vector from a to b, for springs, rods, strings.

    Parameters
    ----------
    a, b : array_like, shape=[3]
        End points, metres; they may be traced.

    Returns
    -------
    Pose
        Not a rotation: its first axis has the length from a to b.

    Raises
    ------
    TypeError, ValueError
        If one is not three numbers.
    """
    a = _real(a, "a", (3,))
    return Pose(_stretched(_real(b, "b", (3,)) - a), a)


def _stretched(first: Any) -> Any:
    """Axes, as columns: the first is the given vector, the others are orthogonal and of length one."""
    n = _unit(first)
    sign = jnp.where(n[2] < 0, -1.0, 1.0)
    k = -1.0 / (sign + n[2])
    second = jnp.stack([1 + sign * n[0] ** 2 * k, sign * n[0] * n[1] * k, -sign * n[0]])
    return jnp.stack([first, second, jnp.cross(n, second)], axis=1)


def _unit(vector: Any) -> Any:
    """Vector divided by its length, which may be of any size; of zero, the first axis."""
    largest = jnp.max(jnp.abs(vector))
    scaled = jnp.where(largest == 0, jnp.eye(3)[0], vector / jnp.where(largest == 0, 1.0, largest))
    return scaled / jnp.linalg.norm(scaled)


def _turn(angle: Any, name: str) -> Any:
    """Rotation matrix about the vertical."""
    angle = _real(angle, name, ())
    c, s = jnp.cos(angle), jnp.sin(angle)
    o, i = jnp.zeros_like(c), jnp.ones_like(c)
    return jnp.stack([jnp.stack([c, -s, o]), jnp.stack([s, c, o]), jnp.stack([o, o, i])])


def _vector(x: Any, y: Any, z: Any) -> Any:
    return jnp.stack([_real(x, "x", ()), _real(y, "y", ()), _real(z, "z", ())])


def _real(value: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Validate real numbers of a shape, for ``jax.numpy``; nan is allowed, where a body touches nothing."""
    return jnp.asarray(as_float64(value, name, shape, finite=False))

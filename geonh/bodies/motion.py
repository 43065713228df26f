r"""Poses, twists and energies of a tree of bodies, in one pass from the root.

With (R, p) the pose of a body in that which carries it, and its velocity (ω, v) in its own axes,

    ω = Rᵀω' + S_ω ξ,   v = Rᵀ(v' + ω' × p) + S_v ξ,   T = Σ ½ m v·v + v·(ω × h) + ½ ω·Iω,

m, h and I its mass, first moment and inertia about the origin of its frame. Links on fixed joints are parts of the
body that carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.links import Joint
from geonh.geometry.field import evaluated

TURNS = -np.array([np.cross(np.eye(3)[i], np.eye(3)) for i in range(3)])
"""Matrix of a × from a, shape=[3, 3, 3]."""


class Body(NamedTuple):
    """Moving body: its joint, the body that carries it (−1: space), and the pose of the joint there."""

    joint: Joint
    parent: int
    R: Any
    p: Any


class Place(NamedTuple):
    """Pose (R, p) of a link in its body."""

    body: int
    R: Any
    p: Any


class Pose(NamedTuple):
    """Axes of a link, as columns, shape=[3, 3], and its origin in space, shape=[3]."""

    R: Any
    p: Any


SPACE = Pose(np.eye(3), np.zeros(3))


class Inertia(NamedTuple):
    """Mass, first moment, shape=[3], and inertia about the origin, shape=[3, 3], of a body."""

    m: Any
    h: Any
    I: Any  # noqa: E741


class Frame(NamedTuple):
    """Pose of a body in its parent, where it is, and S of its joint: ω, v = S_omega ξ, S_v ξ, shapes=[3, d]."""

    R: Any
    p: Any
    S_omega: Any
    S_v: Any


class Bodies(NamedTuple):
    """Bodies of a tree and places of its links, at given parameters."""

    bodies: list[Body]
    places: dict[str, Place]


class Motion(NamedTuple):
    """Velocities of each body: ω and v, shape=[3] or [3, k], the given directions in its axes, shape=[3, k], and
    the coordinates of its origin along them, shape=[k].
    """

    omega: list[Any]
    v: list[Any]
    directions: list[Any]
    heights: list[Any]


def library(*values: Any) -> Any:
    """NumPy for numbers of NumPy, so that they are folded while a function is traced, else ``jax.numpy``."""
    return np if all(isinstance(value, float | np.ndarray | np.generic) for value in values) else jnp


def number(tree: Tree, owner: Any, name: str, parameters: Any) -> Any:
    """Number of a link, joint or contact: read or computed from the parameters, or a constant."""
    key = f"{owner.name}.{name}"
    if key in tree.varied:
        return parameters[key]
    function = tree.computed.get(key)
    if function is None:
        return np.asarray(getattr(owner, name), dtype=np.float64)
    return evaluated(f"varied[{key!r}]", function, parameters)


def hat(a: Any) -> Any:
    """Matrix of a ×, shape=[3, 3]."""
    return library(a).tensordot(TURNS, a, 1)


def shifted(m: Any, c: Any) -> Any:
    """Inertia m(c·c 1 − ccᵀ) of a point mass at c, shape=[3, 3]."""
    return m * ((c @ c) * np.eye(3) - c[:, None] * c[None, :])


def bodies(tree: Tree, parameters: Any) -> Bodies:
    """Moving bodies, and the links fixed to them."""
    moving: list[Body] = []
    places: dict[str, Place] = {}
    for link in tree.links:
        carrier = places[link.parent] if link.parent else Place(-1, np.eye(3), np.zeros(3))
        R = carrier.R @ number(tree, link.joint, "rotation", parameters)
        p = carrier.p + carrier.R @ number(tree, link.joint, "place", parameters)
        if link.joint.dim:
            moving.append(Body(link.joint, carrier.body, R, p))
            places[link.name] = Place(len(moving) - 1, np.eye(3), np.zeros(3))
        else:
            places[link.name] = Place(carrier.body, R, p)
    return Bodies(moving, places)


def inertias(tree: Tree, laid: Bodies, parameters: Any) -> list[Inertia]:
    """Inertia of each body, with the links fixed to it."""
    parts: list[list[Inertia]] = [[] for _ in laid.bodies]
    for link in tree.links:
        body, R, p = laid.places[link.name]
        if body >= 0:
            m, I = (number(tree, link, name, parameters) for name in ("mass", "inertia"))  # noqa: E741
            c = p + R @ number(tree, link, "centre", parameters)
            parts[body].append(Inertia(m, m * c, R @ I @ R.T + shifted(m, c)))
    return [Inertia(*(sum(entries[1:], entries[0]) for entries in zip(*part, strict=True))) for part in parts]


def frames(
    tree: Tree, laid: Bodies, x: Any, parameters: Any, reduced: bool, only: frozenset[int] | None = None
) -> list[Any]:
    """Frame of each body at a point of the group (or the vector of the scalar coordinates, if ``reduced``).

    Of bodies that are not among ``only`` there are none.
    """
    at = tree.coordinates(x, reduced)
    return [
        _frame(tree, body, at[body.joint.name], parameters) if only is None or i in only else None
        for i, body in enumerate(laid.bodies)
    ]


def displaced(joint: Joint, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Pose of a joint with one coordinate at the value q, in the parent of its link."""
    body = Body(joint, -1, np.asarray(joint.rotation), np.asarray(joint.place))
    frame = _frame(Tree((), (0.0, 0.0, 0.0)), body, q, {})
    return frame.R, frame.p


def _frame(tree: Tree, body: Body, q: Any, parameters: Any) -> Frame:
    joint, R, p, xp = body.joint, body.R, body.p, library(q)
    axis = np.asarray(joint.axis)
    still, one = np.zeros((3, 1)), np.eye(3)
    if joint.kind == "prismatic":
        return Frame(R, p + (R @ axis) * q, still, axis[:, None])
    if joint.kind in ("revolute", "continuous", "screw"):
        along = np.outer(axis, axis)
        turned = R @ along + xp.sin(q) * (R @ hat(axis)) + xp.cos(q) * (R @ (one - along))
        if joint.kind != "screw":
            return Frame(turned, p, axis[:, None], still)
        rise = number(tree, joint, "pitch", parameters) * axis
        return Frame(turned, p + (R @ rise) * q, axis[:, None], rise[:, None])
    if joint.kind == "spherical":
        return Frame(R @ q, p, one, np.zeros((3, 3)))
    if joint.kind == "free":
        none = np.zeros((3, 3))
        return Frame(R @ q[:3, :3], p + R @ q[:3, 3], np.hstack([one, none]), np.hstack([none, one]))
    B = plane(axis)
    c, s, zero = xp.cos(q[0]), xp.sin(q[0]), 0.0 * q[0]
    turned = xp.stack([xp.stack([c, -s, zero]), xp.stack([s, c, zero]), xp.stack([zero, zero, zero + 1.0])])
    S_omega, S_v = np.zeros((3, 3)), np.zeros((3, 3))
    S_omega[:, 0], S_v[:, 1:] = axis, B[:, :2]
    return Frame(R @ B @ turned @ B.T, p + R @ B[:, :2] @ q[1:], S_omega, S_v)


def plane(axis: np.ndarray) -> np.ndarray:
    """Axes of a planar joint, as columns: the last is its normal; for the normal z the identity."""
    least = np.eye(3)[np.argmin(np.abs(axis))]
    first = np.array([1.0, 0.0, 0.0]) if abs(axis[2]) > 1 - 1e-12 else least - (least @ axis) * axis
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis], axis=1)


def motion(tree: Tree, laid: Bodies, at: list[Any], xi: Any, directions: np.ndarray) -> Motion:
    """Velocities of the bodies, and directions of space, shape=[3, k], in their axes; xi of shape=[n] or [n, k]."""
    motion = Motion([], [], [], [])
    for body, frame in zip(laid.bodies, at, strict=True):
        if frame is None:
            for entries in motion:
                entries.append(None)
            continue
        rate = rate_of(tree, body.joint, xi)
        omega, v = frame.S_omega @ rate, frame.S_v @ rate
        D, height = directions, 0.0
        if body.parent >= 0:
            ahead, before = motion.omega[body.parent], motion.v[body.parent]
            omega = frame.R.T @ ahead + omega
            v = frame.R.T @ (before - hat(frame.p) @ ahead) + v
            D, height = motion.directions[body.parent], motion.heights[body.parent]
        motion.omega.append(omega)
        motion.v.append(v)
        motion.directions.append(frame.R.T @ D)
        motion.heights.append(height + frame.p @ D)
    return motion


def rate_of(tree: Tree, joint: Joint, xi: Any) -> Any:
    """Velocities of a joint, shape=[d] or [d, k]."""
    rate = xi[tree.velocity_slices[joint.name]]
    return rate if joint.mimic is None else joint.mimic.factor * rate


def energy(tree: Tree, x: Any, xi: Array, parameters: Any, reduced: bool) -> Array:
    """ℓ = T − V of the bodies in gravity, with motors of their joints, without springs; a scalar."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    moving = motion(tree, laid, at, xi, np.asarray(tree.gravity)[:, None])
    terms = []
    for i, (m, h, I) in enumerate(inertias(tree, laid, parameters)):  # noqa: E741
        omega, v, g, height = moving.omega[i], moving.v[i], moving.directions[i][:, 0], moving.heights[i][0]
        terms.append(0.5 * (omega @ (I @ omega)) + v @ (0.5 * m * v - hat(h) @ omega))
        if any(tree.gravity):
            terms.append(m * height + h @ g)
    for joint in tree.joints.values():
        if has(tree, joint, "armature"):
            rate = rate_of(tree, joint, xi)
            terms.append(0.5 * number(tree, joint, "armature", parameters) * (rate @ rate))
    return sum(terms[1:], terms[0])


def has(tree: Tree, owner: Any, name: str) -> bool:
    """True if a number of a joint or spring is not zero, or a parameter."""
    key = f"{owner.name}.{name}"
    return bool(getattr(owner, name)) or key in tree.varied or key in tree.computed


def poses(
    tree: Tree, x: Any, parameters: Any, reduced: bool = False, links: Sequence[str] | None = None
) -> dict[str, Pose]:
    """Pose of each link in space, or of some; at a point of the group, or the vector of the scalars if ``reduced``."""
    laid = bodies(tree, parameters)
    wanted = laid.places if links is None else {name: laid.places[name] for name in links if name}
    needed = None if links is None else ahead_of(laid, [place.body for place in wanted.values()])
    of_bodies: list[Any] = []
    for body, frame in zip(laid.bodies, frames(tree, laid, x, parameters, reduced, needed), strict=True):
        carrier = of_bodies[body.parent] if body.parent >= 0 else SPACE
        of_bodies.append(None if frame is None else Pose(carrier.R @ frame.R, carrier.p + carrier.R @ frame.p))
    poses = {"": SPACE}
    for name, place in wanted.items():
        carrier = of_bodies[place.body] if place.body >= 0 else SPACE
        poses[name] = Pose(carrier.R @ place.R, carrier.p + carrier.R @ place.p)
    return poses


def ahead_of(laid: Bodies, ends: Sequence[int]) -> frozenset[int]:
    """Bodies, and all that carry them."""
    needed = set()
    for body in ends:
        while body >= 0:
            needed.add(body)
            body = laid.bodies[body].parent
    return frozenset(needed)


class State(NamedTuple):
    """Pose of a link: axes R, as columns, and origin p in space, and its velocity (ω, v) in its own axes."""

    R: Any
    p: Any
    omega: Any
    v: Any


def states(tree: Tree, links: Sequence[str], x: Any, xi: Any, parameters: Any, reduced: bool) -> dict[str, State]:
    """States of some links; xi of shape=[n] or [n, k]. The name "" is space."""
    laid = bodies(tree, parameters)
    needed = ahead_of(laid, [laid.places[name].body for name in links if name])
    moving = motion(tree, laid, frames(tree, laid, x, parameters, reduced, needed), xi, np.eye(3))
    none = np.zeros((3, *np.shape(xi)[1:]))
    states = {"": State(*SPACE, none, none)}
    for name in links:
        if not name:
            continue
        i, R, p = laid.places[name]
        if i < 0:
            states[name] = State(R, p, none, none)
            continue
        turned, omega = moving.directions[i].T, moving.omega[i]
        v = moving.v[i] - hat(p) @ omega
        states[name] = State(turned @ R, moving.heights[i] + turned @ p, R.T @ omega, R.T @ v)
    return states

r"""Momentum and bias force of a tree of bodies, by passes over its bodies alone.

With m, h and I the mass, first moment and inertia of a body about its origin, q̇ the velocities of its joint and ′ the
body that carries it, in the axes of the body,

    ω = Rᵀω' + S_ω q̇,   v = Rᵀ(v' + ω' × p) + S_v q̇,   L = Iω + h × v,   P = mv − h × ω,

the momenta; and with constant q̇, from the root to the leaves (Newton–Euler; R. Featherstone, *Rigid Body Dynamics
Algorithms*, Springer (2008), §5.3),

    ω̇ = Rᵀω̇' + Rᵀω' × S_ω q̇,   a = Rᵀ(a' + Ω'p) + (2Rᵀω' + S_ω q̇) × S_v q̇,   Ω = ω̇^ + ω^ω^,
    torque = Iω̇ + ω × Iω + h × a,   force = ma + Ωh,

where a = −gravity in space. From the leaves to the root, both are carried to the joints, S_ωᵀτ + S_vᵀf.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.motion import Bodies, Frame, bodies, frames, has, hat, inertias, number, rate_of


class Wrench(NamedTuple):
    """Torque or angular momentum about the origin of a body, and force or momentum, shape=[3], in its axes."""

    torque: Any
    force: Any


def momentum(tree: Tree, x: Any, xi: Array, parameters: Any, reduced: bool) -> Array:
    """p = ∂ℓ/∂ξ, shape=[n]."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    still = np.zeros(3)
    twists: list[tuple[Any, Any]] = []
    momenta: list[Wrench] = []
    for body, frame, (m, h, I) in zip(laid.bodies, at, inertias(tree, laid, parameters), strict=True):  # noqa: E741
        rate = rate_of(tree, body.joint, xi)
        ahead, before = twists[body.parent] if body.parent >= 0 else (still, still)
        omega = lax.dot(ahead, frame.R) + _along(frame.S_omega, rate)
        v = lax.dot(before + lax.dot(hat(ahead), frame.p), frame.R) + _along(frame.S_v, rate)
        twists.append((omega, v))
        momenta.append(Wrench(lax.dot(I, omega) + lax.dot(hat(h), v), m * v - lax.dot(hat(h), omega)))
    p, turning = _at_joints(tree, laid, at, momenta), motor_momentum(tree, xi, parameters)
    return p if turning is None else p + turning


def bias_force(tree: Tree, x: Any, xi: Array, parameters: Any, reduced: bool) -> Array:
    """Forces at the joints that keep ξ constant, without springs, shape=[n]."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    space = (np.zeros(3), np.zeros(3), np.zeros((3, 3)), -np.asarray(tree.gravity))
    motions: list[tuple[Any, Any, Any, Any]] = []
    wrenches: list[Wrench] = []
    for body, frame, (m, h, I) in zip(laid.bodies, at, inertias(tree, laid, parameters), strict=True):  # noqa: E741
        rate = rate_of(tree, body.joint, xi)
        ahead, ahead_rate, spin, before = motions[body.parent] if body.parent >= 0 else space
        carried, turn, slide = lax.dot(ahead, frame.R), _along(frame.S_omega, rate), _along(frame.S_v, rate)
        omega, omega_rate = carried + turn, lax.dot(ahead_rate, frame.R) + lax.dot(hat(carried), turn)
        a = lax.dot(before + lax.dot(spin, frame.p), frame.R)
        if not _is_zero(frame.S_v):
            a = a + lax.dot(hat(carried + omega), slide)
        W = hat(omega)
        spin = hat(omega_rate) + lax.dot(W, W)
        motions.append((omega, omega_rate, spin, a))
        torque = lax.dot(I, omega_rate) + lax.dot(W, lax.dot(I, omega)) + lax.dot(hat(h), a)
        wrenches.append(Wrench(torque, m * a + lax.dot(spin, h)))
    needed = _at_joints(tree, laid, at, wrenches)
    turning = motor_momentum(tree, xi, parameters, several=True)
    return needed if turning is None else needed - tree.group.ad_star(xi, turning)


def motor_momentum(tree: Tree, xi: Array, parameters: Any, *, several: bool = False) -> Array | None:
    """Momentum of the armatures of joints, shape=[n], or of those with ``several`` velocities; None without any."""
    turning = [j for j in tree.joints.values() if has(tree, j, "armature") and (j.dim > 1 or not several)]
    p = jnp.zeros(tree.dim)
    for joint in turning:
        factor = 1.0 if joint.mimic is None else joint.mimic.factor
        added = factor * number(tree, joint, "armature", parameters) * rate_of(tree, joint, xi)
        p = p.at[tree.velocity_slices[joint.name]].add(added)
    return p if turning else None


def _at_joints(tree: Tree, laid: Bodies, at: list[Frame], wrenches: list[Wrench]) -> Array:
    """Σ Sᵀ(wrench of all bodies beyond the joint), shape=[n]."""
    sums, parts = [*wrenches], dict[int, Any]()
    for i, (body, frame) in reversed([*enumerate(zip(laid.bodies, at, strict=True))]):
        joint, (torque, force) = body.joint, sums[i]
        along = _along(frame.S_omega.T, torque) + _along(frame.S_v.T, force)
        slot = tree.velocity_slices[joint.name].start
        along = along if joint.mimic is None else joint.mimic.factor * along
        parts[slot] = parts[slot] + along if slot in parts else along
        if body.parent >= 0:
            before, pushed = sums[body.parent], lax.dot(frame.R, force)
            carried = lax.dot(frame.R, torque) + lax.dot(hat(frame.p), pushed)
            sums[body.parent] = Wrench(before.torque + carried, before.force + pushed)
    return jnp.concatenate([parts[slot] for slot in sorted(parts)])


def _along(S: Any, rate: Any) -> Any:
    """S q̇, and exact zeros without an operation where S vanishes."""
    return np.zeros(len(S)) if _is_zero(S) else lax.dot(S, rate)


def _is_zero(S: Any) -> bool:
    return isinstance(S, np.ndarray) and not S.any()

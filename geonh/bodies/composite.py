"""Mass matrix of a tree by composite bodies: from the leaves to the root, m, h and I are carried to the parent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.links import Joint
from geonh.bodies.motion import Inertia, bodies, frames, has, hat, inertias, library, number, shifted


def mass_matrix(tree: Tree, x: Any, parameters: Any, reduced: bool) -> Array:
    """M by composite bodies, shape=[n, n]: from the leaves to the root, each inertia carried to the parent."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    composite = inertias(tree, laid, parameters)
    carried: list[list[Columns]] = [[] for _ in laid.bodies]
    blocks: dict[tuple[int, int], Any] = {}

    def add(one: Joint, other: Joint, block: Any) -> None:
        place = tree.velocity_slices[one.name].start, tree.velocity_slices[other.name].start
        pairs = [(place, block)] if one is other else [(place, block), (place[::-1], block.T)]
        for key, part in pairs:
            blocks[key] = blocks[key] + part if key in blocks else part

    for i in reversed(range(len(laid.bodies))):
        joint, frame, (m, h, I) = laid.bodies[i].joint, at[i], composite[i]  # noqa: E741
        factor = 1.0 if joint.mimic is None else joint.mimic.factor
        S_omega, S_v, h_hat = factor * frame.S_omega, factor * frame.S_v, hat(h)
        own = Columns(I @ S_omega + h_hat @ S_v, m * S_v - h_hat @ S_omega, [joint])
        columns = _beside([own, *carried[i]])
        row, start = S_omega.T @ columns.torque + S_v.T @ columns.force, 0
        for other in columns.joints:
            add(joint, other, row[:, start : start + other.dim])
            start += other.dim
        if has(tree, joint, "armature"):
            add(joint, joint, factor**2 * number(tree, joint, "armature", parameters) * np.eye(joint.dim))
        if (parent := laid.bodies[i].parent) >= 0:
            before, R, p = composite[parent], frame.R, frame.p
            force, Rh = R @ columns.force, R @ h
            carried[parent].append(Columns(R @ columns.torque + hat(p) @ force, force, columns.joints))
            cross = p[:, None] * Rh[None, :]
            moved = R @ I @ R.T + 2 * (p @ Rh) * np.eye(3) - cross - cross.T + shifted(m, p)
            composite[parent] = Inertia(before.m + m, before.h + Rh + m * p, before.I + moved)
    starts = [tree.velocity_slices[joint.name].start for joint in tree.free]
    dims = {tree.velocity_slices[joint.name].start: joint.dim for joint in tree.free}
    xp = library(*blocks.values())
    rows = [[blocks.get((a, b), np.zeros((dims[a], dims[b]))) for b in starts] for a in starts]
    return xp.concatenate([xp.concatenate(row, axis=1) for row in rows], axis=0)


class Columns(NamedTuple):
    """Torques about the origin and forces, shape=[3, k], in the axes of a body, for unit accelerations of joints."""

    torque: Any
    force: Any
    joints: list[Joint]


def _beside(parts: list[Columns]) -> Columns:
    torques, forces, joints = zip(*parts, strict=True)
    xp = library(*torques, *forces)
    every = [joint for some in joints for joint in some]
    return Columns(xp.concatenate(torques, axis=1), xp.concatenate(forces, axis=1), every)

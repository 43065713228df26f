"""Mass matrix of a tree by composite bodies: from the leaves to the root, m, h and I are carried to the parent."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array

from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.motion import Inertia, bodies, frames, has, hat, library, number, shifted


def mass_matrix(tree: Tree, x: Any, parameters: Any, reduced: bool) -> Array:
    """M by composite bodies, shape=[n, n]: from the leaves to the root, each inertia carried to the parent."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    composite = list(laid.inertias)
    blocks: dict[tuple[int, int], Any] = {}

    def add(i: int, k: int, block: Any) -> None:
        one, other = laid.bodies[i].joint, laid.bodies[k].joint
        for joint in (one, other):
            block = block if joint.mimic is None else joint.mimic.factor * block
        key = tree.velocity_slices[one.name].start, tree.velocity_slices[other.name].start
        pairs = [(key, block)] if i == k else [(key, block), (key[::-1], block.T)]
        for place, part in pairs:
            blocks[place] = blocks[place] + part if place in blocks else part

    for i in reversed(range(len(laid.bodies))):
        frame, (m, h, I) = at[i], composite[i]  # noqa: E741
        torque = I @ frame.S_omega + hat(h) @ frame.S_v
        force = m * frame.S_v - hat(h) @ frame.S_omega
        add(i, i, frame.S_omega.T @ torque + frame.S_v.T @ force)
        if has(tree, laid.bodies[i].joint, "armature"):
            armature = number(tree, laid.bodies[i].joint, "armature", parameters)
            add(i, i, armature * np.eye(laid.bodies[i].joint.dim))
        k = i
        while (parent := laid.bodies[k].parent) >= 0:
            force = at[k].R @ force
            torque = at[k].R @ torque + hat(at[k].p) @ force
            k = parent
            add(k, i, at[k].S_omega.T @ torque + at[k].S_v.T @ force)
        if (parent := laid.bodies[i].parent) >= 0:
            before, R, p = composite[parent], frame.R, frame.p
            Rh = R @ h
            cross = p[:, None] * Rh[None, :]
            carried = R @ I @ R.T + 2 * (p @ Rh) * np.eye(3) - cross - cross.T + shifted(m, p)
            composite[parent] = Inertia(before.m + m, before.h + Rh + m * p, before.I + carried)
    starts = [tree.velocity_slices[joint.name].start for joint in tree.free]
    dims = {tree.velocity_slices[joint.name].start: joint.dim for joint in tree.free}
    xp = library(*blocks.values())
    rows = [[blocks.get((a, b), np.zeros((dims[a], dims[b]))) for b in starts] for a in starts]
    return xp.concatenate([xp.concatenate(row, axis=1) for row in rows], axis=0)

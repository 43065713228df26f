r"""Constraint force and angular momentum, as arrows: momentum maps of the rigid motions of the whole drawing.

The spatial meaning of the system's covectors follows from the drawing. η ∈ g moves all solid bodies as one rigid body
when their poses move by a translation e, or by a rotation about an axis e through a point o:

    D(poses)(g)·η = (e for each origin, 0 for the axes)    or    (e×(x − o), e×R).

Then ⟨p, η⟩ is the component along e of the linear momentum, or of the angular momentum about o; ⟨μᵀλ, η⟩ is that of the
force, or of the moment, that the constraints exert from outside: by virtual work, internal forces do not contribute. If
no η generates the motion (a planar body cannot be lifted) there is no such component, and it is set to zero.

Several bodies that only the space implies may have relative coordinates: moved together they show no motion of the
system, so that all arrows are zero without a drawing of the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing.picture import Picture, precise
from geonh.drawing.scene import chosen_nodes, scene, system_of
from geonh.engine import mapped

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory

TOLERANCE = 1e-6
"""Relative tolerance of the residual of such an η."""


class Momenta(NamedTuple):
    """Arrows in space along a run.

    Attributes
    ----------
    about : ndarray, shape=[N, 3]
        The point o, metres: the origin of the first solid body; the origin of space if no body turns, since a point has
        no angular momentum about itself.
    force : ndarray, shape=[N, 3]
        Constraint force, N; nan in later pieces of joined runs, and in other modes than the first of a run from a file,
        since the systems of these are not known.
    moment : ndarray, shape=[N, 3]
        Moment of the constraints about o, N m; nan as the force.
    angular : ndarray, shape=[N, 3]
        Angular momentum about o, kg m²/s.
    """

    about: np.ndarray
    force: np.ndarray
    moment: np.ndarray
    angular: np.ndarray


@validated
def momenta(trajectory: Trajectory, nodes: Any = None) -> Momenta:
    """Force and moment of the constraints, and angular momentum, as vectors in space.

    Parameters
    ----------
    trajectory : Trajectory
        Run, as for ``scene``.
    nodes : array_like of int, shape=[K], optional
        Indices of nodes; all by default.

    Returns
    -------
    Momenta
        Arrays of shape=[K, 3].

    Raises
    ------
    TypeError, ValueError
        As for ``scene``.
    """
    nodes = chosen_nodes(trajectory, nodes)
    system, drawn = system_of(trajectory), scene(trajectory, nodes)
    solid = [i for i, body in enumerate(drawn.bodies) if body.is_solid]
    zero = np.zeros((len(nodes), 3))
    if not solid or (len(solid) > 1 and system.draw is None):
        return Momenta(zero, zero, zero, zero)
    t, g = trajectory.t[nodes], jax.tree.map(lambda a: a[nodes], trajectory.g)
    tree = (system, Picture(system), tuple(solid))
    dR, dx = mapped(_moves, tree, (t, g))
    force = _constraint_covectors(trajectory, nodes)
    R = np.stack([drawn.bodies[i].R for i in solid], axis=1)  # [N, b, 3, 3]
    x = np.stack([drawn.bodies[i].x for i in solid], axis=1)
    turns = np.abs(dR).max(axis=(0, 2, 3, 4)) > 0
    moves = turns | (np.abs(dx).max(axis=(0, 2, 3)) > 0)
    if not np.any(moves):
        return Momenta(zero, zero, zero, zero)
    about = x[:, np.argmax(moves)] if np.any(turns) else zero
    dR, R, dx, x = dR[:, turns], R[:, turns], dx[:, moves], x[:, moves]
    n, b = dR.shape[0], dR.shape[1]
    A = np.concatenate([dx.reshape(n, -1, dx.shape[-1]), dR.reshape(n, b * 9, dx.shape[-1])], axis=1)
    generalised = np.linalg.pinv(A, rcond=1e-10)
    arrows = []
    for kind, covector in (("shift", force), ("turn", force), ("turn", trajectory.p[nodes])):
        arrow = np.zeros((n, 3))
        for axis, e in enumerate(np.eye(3)):
            if kind == "shift":
                rows = np.concatenate([np.broadcast_to(e, x.shape).reshape(n, -1), np.zeros((n, b * 9))], axis=1)
            else:
                arm = np.cross(e, x - about[:, None])
                rows = np.concatenate([arm.reshape(n, -1), np.cross(e, R, axisb=2, axisc=2).reshape(n, -1)], axis=1)
            eta = np.einsum("nij,nj->ni", generalised, rows)
            missed = np.linalg.norm(np.einsum("nij,nj->ni", A, eta) - rows, axis=1)
            is_consistent = missed <= TOLERANCE * (1 + np.linalg.norm(rows, axis=1))
            arrow[:, axis] = np.where(is_consistent, np.einsum("ni,ni->n", covector, eta), 0.0)
        arrows.append(arrow)
    return Momenta(about, *arrows)


def _constraint_covectors(trajectory: Trajectory, nodes: np.ndarray) -> np.ndarray:
    """μᵀλ at nodes, shape=[K, n], of each mode by its system; nan in modes whose system the run does not have."""
    system, modes, which = system_of(trajectory), trajectory.run.modes, trajectory.nodes.mode
    which = np.zeros(len(nodes), int) if which is None else which[nodes]
    covectors = np.full((len(nodes), system.group.dim), np.nan)
    for mode in np.unique(which):
        at = nodes[which == mode]
        own = (system if mode == 0 else None) if modes is None else modes.systems[mode]
        if own is not None:
            g = jax.tree.map(lambda a, at=at: a[at], trajectory.g)
            lam = trajectory.multipliers[at]
            if modes is not None and modes.rows is not None:
                lam = lam[:, list(modes.rows[modes.names[mode]])]
            node = (trajectory.t[at], g, trajectory.xi[at], lam)
            covectors[which == mode] = mapped(_constraint_covector, own, node)
    return covectors


def _constraint_covector(system: Any, node: tuple) -> Any:
    t, g, xi, lam = node
    rows = system.linear_at(xi).annihilator(system.at(g, t))
    return rows.T @ lam[: len(rows)]  # beyond are the multipliers of other modes


def _moves(tree: tuple, node: tuple) -> tuple[Any, Any]:
    """Derivatives of the solid bodies' axes and origins along a basis of g."""
    (system, picture, solid), (t, g) = tree, node

    def poses(g: Any) -> tuple[Any, Any]:
        bodies = picture.bodies(t, g)
        R, x = zip(*(precise(bodies[i].at) for i in solid), strict=True)
        return jnp.stack(R), jnp.stack(x)

    def moved(xi: Any) -> tuple[Any, Any]:
        return jax.jvp(poses, (g,), (system.group.left_tangent(g, xi),))[1]

    return jax.vmap(moved, out_axes=-1)(jnp.eye(system.group.dim))

"""Functions of a live page: poses of the bodies of a drawing, and a push at a point of one of them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import solve_spd
from geonh.drawing.picture import Picture, precise
from geonh.engine import Export
from geonh.export.model import Model
from geonh.export.programs import Held, Run, Times, problem_of, started_at


class Hand(NamedTuple):
    """Push of a body.

    Parameters
    ----------
    which : array, shape=[bodies]
        1 for the body that is pushed, 0 for the others.
    at : array, shape=[3]
        Point in space where it is pushed, metres.
    change : array, shape=[3]
        Change of velocity that the point would have along the push if nothing were constrained, m/s.
    """

    which: Any
    at: Any
    change: Any


def functions(model: Model, picture: Picture, n_bodies: int) -> dict[str, Export]:
    """Exports ``pose``, of (parameters, inputs, state), and ``push``, of these and a hand, to a state."""
    hand = Hand(np.zeros(n_bodies), np.zeros(3), np.zeros(3))
    return {
        "pose": Export(partial(_pose, picture), (*model.arguments, model.run)),
        "push": Export(partial(_push, picture), (*model.arguments, model.run, hand)),
    }


def _bodies(picture: Picture, t: Array, g: Any) -> tuple[Array, Array]:
    """Axes, shape=[bodies, 3, 3], and origins, shape=[bodies, 3]."""
    poses = [precise(body.at) for body in picture.bodies(t, g)]
    return jnp.stack([pose.R for pose in poses]), jnp.stack([pose.x for pose in poses])


def _pose(picture: Picture, held: Held, numbers: Any, inputs: Any, run: Run) -> tuple[Any, Array]:
    t = run.t0 + run.node.k * run.dt
    return _bodies(picture, t, run.node.g), jnp.zeros((), np.int32)


def _push(picture: Picture, held: Held, numbers: Any, inputs: Any, run: Run, hand: Hand) -> tuple[Run, Array]:
    """Run that goes on from the node after an impulse J: ξ⁺ = ξ + P M⁻¹J, with J = (∂/∂ξ)ᵀ of the point's motion."""
    problem = problem_of(held, numbers, inputs, run)
    system, node = problem.system, run.node
    t, g = run.t0 + node.k * run.dt, node.g
    x = system.at(g, t)
    xi = system.velocity(x, (node.p_plus + node.p_minus) / 2)
    R, origin = _bodies(picture, t, g)
    turned, moved = jnp.einsum("b,bij->ij", hand.which, R), hand.which @ origin
    inside = turned.T @ (hand.at - moved)

    def along(v: Array) -> Array:
        """Velocity of the point at a velocity of the system."""
        point = partial(_point, picture, t, which=hand.which, inside=inside)
        return jax.jvp(point, (g,), (system.group.left_tangent(g, v),))[1]

    motions = jax.vmap(along)(jnp.eye(len(xi)))  # shape=[n, 3]
    length = jnp.sqrt(jnp.sum(hand.change**2))
    impulse = motions @ (hand.change / jnp.where(length > 0, length, 1.0))
    free = solve_spd(system.mass_matrix(x, xi), impulse)
    gain = impulse @ free  # the change of velocity for a unit impulse, without constraints
    factor = jnp.where(gain > 0, length / jnp.where(gain > 0, gain, 1.0), 0.0)
    return started_at(problem, Times(t, run.dt), g, system.projected_velocity(x, xi + factor * free))


def _point(picture: Picture, t: Array, g: Any, which: Array, inside: Array) -> Array:
    """Point of a body in space, given in the body's axes."""
    R, origin = _bodies(picture, t, g)
    return jnp.einsum("b,bij,j->i", which, R, inside) + which @ origin

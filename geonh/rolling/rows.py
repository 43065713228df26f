r"""Functions of the system of a rolling body: metric, potential, height, and forms with their right-hand sides.

Each is a function of (x, parameters), or of (t, x, parameters) for a surface that moves.

Source of the tangents: Duff and others, *Building an orthonormal basis, revisited*, J. Comput. Graph. Tech. 6 (2017).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from geonh.geometry.field import Moment
from geonh.rolling.contacts import material_velocity, touch


def metric(x: Any, parameters: Any) -> Array:
    none = jnp.zeros((3, 3))
    return jnp.block([[parameters["J"], none], [none, parameters["m"] * jnp.eye(3)]])


def potential(x: Any, parameters: Any) -> Array:
    return parameters["m"] * parameters["g"] * x[2, 3]


def height_in_time(t: Any, x: Any, parameters: Any) -> Array:
    return parameters["on"].height(parameters["support"], x[:3, :3], Moment(t, x[:3, 3]), parameters)[None]


def forms_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = touch(t, x, parameters)
    a, b, c = touching.arm
    turning = jnp.array([[0.0, c, -b], [-c, 0.0, a], [b, -a, 0.0]])  # ω ↦ ω × ρ
    return tangents(touching.normal) @ x[:3, :3] @ jnp.concatenate([turning, jnp.eye(3)], axis=1)


def rubber_forms_in_time(t: Any, x: Any, parameters: Any) -> Array:
    row = jnp.concatenate([touch(t, x, parameters).normal @ x[:3, :3], jnp.zeros(3)])
    return jnp.concatenate([forms_in_time(t, x, parameters), row[None]])


def resisting_forms_in_time(t: Any, x: Any, parameters: Any) -> Array:
    """The two tangential rows, those of turning about the tangents, and that of spinning about the normal."""
    touching = touch(t, x, parameters)
    axes = jnp.concatenate([tangents(touching.normal), touching.normal[None]])
    turning = jnp.concatenate([axes @ x[:3, :3], jnp.zeros((3, 3))], axis=1)
    return jnp.concatenate([forms_in_time(t, x, parameters), turning])


def resisting_rhs_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = touch(t, x, parameters)
    axes = jnp.concatenate([tangents(touching.normal), touching.normal[None]])
    return jnp.concatenate([rhs_in_time(t, x, parameters), axes @ _turning(t, touching.place, parameters)])


def rhs_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = touch(t, x, parameters)
    return tangents(touching.normal) @ material_velocity(Moment(t, touching.place), parameters)


def rubber_rhs_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = touch(t, x, parameters)
    return jnp.append(rhs_in_time(t, x, parameters), touching.normal @ _turning(t, touching.place, parameters))


def _turning(t: Any, X: Array, parameters: Any) -> Array:
    """Angular velocity of the surface's material, ½ curl u, in space."""
    D = jax.jacfwd(lambda X: material_velocity(Moment(t, X), parameters))(X)
    return jnp.stack([D[2, 1] - D[1, 2], D[0, 2] - D[2, 0], D[1, 0] - D[0, 1]]) / 2


def tangents(nu: Array) -> Array:
    """Two orthonormal tangents, as rows; they jump where ν₃ changes sign, which does not affect any method."""
    s = jnp.where(nu[2] < 0, -1.0, 1.0)
    a = -1 / (s + nu[2])
    x, y = nu[0], nu[1]
    return jnp.stack([jnp.stack([1 + s * x * x * a, s * x * y * a, -s * x]), jnp.stack([x * y * a, s + y * y * a, -y])])


def height(x: Any, parameters: Any) -> Array:
    return height_in_time(0.0, x, parameters)


def forms(x: Any, parameters: Any) -> Array:
    return forms_in_time(0.0, x, parameters)


def rubber_forms(x: Any, parameters: Any) -> Array:
    return rubber_forms_in_time(0.0, x, parameters)


def resisting_forms(x: Any, parameters: Any) -> Array:
    return resisting_forms_in_time(0.0, x, parameters)


def resisting_rhs(x: Any, parameters: Any) -> Array:
    return resisting_rhs_in_time(0.0, x, parameters)


def rhs(x: Any, parameters: Any) -> Array:
    return rhs_in_time(0.0, x, parameters)


def rubber_rhs(x: Any, parameters: Any) -> Array:
    return rubber_rhs_in_time(0.0, x, parameters)


CONSTRAINTS = {
    "rolling": ((forms, forms_in_time), (rhs, rhs_in_time)),
    "rubber rolling": ((rubber_forms, rubber_forms_in_time), (rubber_rhs, rubber_rhs_in_time)),
    "rest": ((resisting_forms, resisting_forms_in_time), (resisting_rhs, resisting_rhs_in_time)),
}
"""Forms of what holds in a contact, and their right-hand sides, each at rest and in time."""

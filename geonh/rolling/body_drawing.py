"""Drawing of a rolling body, its contact and its surface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, along, ground, line, shifted
from geonh.drawing import surface as boundary
from geonh.drawing.level import level
from geonh.engine import in_float64, in_numpy
from geonh.geometry.field import Moment
from geonh.rolling.contacts import refuse_another, touch
from geonh.rolling.supports import Support
from geonh.rolling.surfaces import Surface


@in_float64
def drawing(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the body by its support function, the path of its contact, and the surface on which it rolls.

    For a surface that moves with the time, its tangent plane at the contact.

    Default ``draw=`` of ``rolling``.

    Parameters
    ----------
    t : float
        Time, s.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    parameters : mapping
        The system's parameters.

    Returns
    -------
    list of Body
        As ``System(draw=)`` takes them.

    Raises
    ------
    TypeError
        If ``parameters`` are not the parameters of a system made by ``rolling``.
    ValueError
        If ``g`` has another shape.
    """
    refuse_another(parameters, parameters)
    support, surface = parameters["support"], parameters["on"]
    g = as_float64(g, "g", (4, 4))

    with float64():  # the poles of the mesh where it is flat, as on a disc
        ends = ~np.isfinite(in_numpy(jax.vmap(support.point), np.eye(3))(np.eye(3))).all(axis=1)
    axis = "xyz"[int(np.argmax(ends))] if ends.any() else "z"
    body, touching = (
        boundary(boundary_point(support), axis=axis),
        touch(as_float64(t, "t", ()), jnp.asarray(g), parameters),
    )
    bodies = [
        Body("body", body, at=Pose(g[:3, :3], g[:3, 3])),
        Body("contact", at=shifted(*touching.place), trace=[0, 0, 0]),
    ]
    if surface.timed:
        half, lines = np.abs(body.vertices).max(), np.linspace(-1, 1, 9)
        grid = [line(half * np.array(ends)) for a in lines for ends in ([[a, -1], [a, 1]], [[-1, a], [1, a]])]
        return [*bodies, Body("tangent plane", grid, at=along(touching.normal, touching.place, "z"), colour="#999999")]
    return [*bodies, drawn_surface(surface, parameters)]


def boundary_point(support: Support) -> Callable[[Array], Array]:
    """Function of an outer normal to the boundary point with it; on a flat side, with a single normal, to the midpoint
    of two rim points.
    """
    aside, at = jnp.array([3e-7, 5e-7, 7e-7]), support.point
    return lambda n: jnp.where(jnp.isfinite(at(n)), at(n), (at(n + aside) + at(n - aside)) / 2)


def drawn_surface(surface: Surface, parameters: Any, name: str = "") -> Body:
    """A surface that does not move, under a name, or that of its kind."""
    if (flat := surface.as_plane) is not None:
        up, distance = flat
        return Body(name or "plane", ground(), at=along(up, distance * up, axis="z"))
    part = level(lambda X: surface.value(Moment(0.0, X), parameters))
    return Body(name or "surface", part, colour="#999999")

"""Parts of planar vehicles: bodies, their knife edges and wheels, and trailers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_float64, as_positive
from geonh.engine import Precise


@argument_type
class Wheel(Precise):
    """Knife edge or wheel of a planar body; returned by ``knife_edge`` and ``wheel``.

    Attributes
    ----------
    at : ndarray, shape=[2]
        Position in the body's frame, m.
    angle : float
        Direction there, rad.
    radius : float or None
        Radius, m; None for a knife edge.
    inertia : float
        Moment of inertia about its axle, kg m²; 0 for a knife edge.
    steering : float
        Moment of inertia of the steered part about the vertical, kg m²; 0 if it is fixed.
    grips : bool
        True if it does not slide sideways.
    names : tuple of str
        Names of its coordinates: the steering angle, then the rolling angle, as far as it has them.
    """

    at: Any
    angle: Any
    radius: Any
    inertia: Any
    steering: Any
    grips: bool = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)


@argument_type
class PlanarBody(Precise):
    """Planar body with its wheels and trailers; returned by ``planar_body`` and ``trailer``.

    Attributes
    ----------
    mass, inertia : float
        Mass, kg, and moment of inertia, kg m², about the vertical through the centre of mass.
    centre : ndarray, shape=[2]
        Centre of mass in its frame, m.
    wheels : tuple of Wheel
    trailers : tuple of PlanarBody
    hitch : ndarray, shape=[2]
        For a trailer, its hinge in the frame of the body ahead, m.
    length : float
        For a trailer, from the hinge back to the origin of its frame, m.
    name : str
        For a trailer, name of the angle at its hinge.
    """

    mass: Any
    inertia: Any
    centre: Any
    wheels: tuple[Wheel, ...]
    trailers: tuple[PlanarBody, ...]
    hitch: Any
    length: Any
    name: str = eqx.field(static=True)


@validated
def knife_edge(x: float = 0.0, y: float = 0.0, angle: float = 0.0, *, steered: str = "", inertia: float = 0.0) -> Wheel:
    """Knife edge that does not slide sideways; or a wheel without a rolling angle.

    Parameters
    ----------
    x, y : float
        Position in the body's frame, m.
    angle : float
        Direction there, rad.
    steered : str
        Name of its steering angle, which adds to ``angle``; fixed when left out.
    inertia : float
        Moment of inertia of the steered part about the vertical, kg m²; positive if ``steered``.

    Returns
    -------
    Wheel

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if a steered edge has no positive ``inertia``, or a fixed one has any.
    """
    names = (steered,) if steered else ()
    at = as_float64([x, y], "place", (2,))
    if not steered and as_float64(inertia, "inertia", ()) != 0:
        raise ValueError(f"inertia {inertia} about the vertical is that of a steering: name its angle, steered=...")
    moment = as_positive(inertia, "inertia of what is steered", ()) if steered else np.float64(0.0)
    return Wheel(at, as_float64(angle, "angle", ()), None, np.float64(0.0), moment, True, names)


@validated
def wheel(
    radius: float,
    inertia: float,
    x: float = 0.0,
    y: float = 0.0,
    angle: float = 0.0,
    *,
    name: str = "chi",
    steered: str = "",
    steering_inertia: float = 0.0,
    grips: bool = True,
) -> Wheel:
    """Wheel with a rolling angle.

    Parameters
    ----------
    radius : float
        Radius, m.
    inertia : float
        Moment of inertia about its axle, kg m².
    x, y : float
        Position in the body's frame, m.
    angle : float
        Direction there, rad.
    name : str
        Name of the rolling angle.
    steered : str
        Name of its steering angle, which adds to ``angle``; fixed when left out.
    steering_inertia : float
        Moment of inertia of the steered part about the vertical, kg m²; positive if ``steered``.
    grips : bool
        True if it does not slide sideways. Of several wheels on an axle that grip, all but one are redundant: say so by
        ``rank`` of ``planar``, or let one alone grip.

    Returns
    -------
    Wheel

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``radius`` or ``inertia`` is not positive, or ``steering_inertia`` of a steered wheel.
    """
    held = knife_edge(x, y, angle, steered=steered, inertia=steering_inertia)
    r, moment = as_positive(radius, "radius", ()), as_positive(inertia, "inertia", ())
    return Wheel(held.at, held.angle, r, moment, held.steering, bool(grips), (*held.names, name))


@validated
def planar_body(
    mass: float,
    inertia: float,
    wheels: Sequence[Wheel] = (),
    trailers: Sequence[PlanarBody] = (),
    centre: Any = (0.0, 0.0),
) -> PlanarBody:
    """Planar body.

    Parameters
    ----------
    mass, inertia : float
        Mass, kg, and moment of inertia, kg m², about the vertical through the centre of mass.
    wheels : sequence of Wheel
    trailers : sequence of PlanarBody
        Its trailers, from ``trailer``.
    centre : array_like, shape=[2]
        Centre of mass in its frame, m.

    Returns
    -------
    PlanarBody
        To be passed to ``planar``.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``mass`` or ``inertia`` is not positive, ``centre`` has another shape, or a trailer is not from
        ``trailer``.
    """
    if any(not drawn.name for drawn in trailers):
        raise ValueError("trailers must be made by trailer(body, length)")
    return PlanarBody(
        as_positive(mass, "mass", ()),
        as_positive(inertia, "inertia", ()),
        as_float64(centre, "centre", (2,)),
        tuple(wheels),
        tuple(trailers),
        np.zeros(2),
        np.float64(0.0),
        "",
    )


@validated
def trailer(body: PlanarBody, length: float, hitch: Any = (0.0, 0.0), name: str = "theta") -> PlanarBody:
    """Trailer: a body on a hinge behind another one.

    Parameters
    ----------
    body : PlanarBody
        Body that is towed.
    length : float
        From the hinge back to the origin of its frame, m.
    hitch : array_like, shape=[2]
        The hinge in the frame of the body ahead, m.
    name : str
        Name of the angle between them.

    Returns
    -------
    PlanarBody
        To be passed in ``trailers`` of the body ahead.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``hitch`` has another shape, ``length`` is not positive, or ``name`` empty.
    """
    if not name:
        raise ValueError("name of a trailer's angle must not be empty")
    place, back = as_float64(hitch, "hitch", (2,)), as_positive(length, "length", ())
    of_body = (body.mass, body.inertia, body.centre, body.wheels, body.trailers)
    return PlanarBody(*of_body, place, back, name)


def chain(body: PlanarBody) -> Iterator[PlanarBody]:
    """The body, and all bodies behind it."""
    yield body
    for drawn in body.trailers:
        yield from chain(drawn)


def row_of_trailers(body: PlanarBody) -> PlanarBody | None:
    """Trailers behind a body as one, with their numbers along the first axis of its arrays, if each but the last draws
    one, and their wheels are of the same kinds; else None.
    """
    behind = list(chain(body))[1:]
    kinds = {tuple((w.grips, w.radius is None, len(w.names)) for w in drawn.wheels) for drawn in behind}
    if len(kinds) != 1 or any(len(drawn.trailers) > 1 for drawn in (body, *behind)):
        return None
    alone = [eqx.tree_at(lambda drawn: drawn.trailers, drawn, ()) for drawn in behind]
    numbers = zip(*map(jax.tree.leaves, alone), strict=True)
    return jax.tree.unflatten(jax.tree.structure(alone[0]), [jnp.stack(values) for values in numbers])


def coordinate_names(body: PlanarBody) -> Iterator[str]:
    """Names of the angles of a chain, in their order."""
    for wheel in body.wheels:
        yield from wheel.names
    for drawn in body.trailers:
        yield drawn.name
        yield from coordinate_names(drawn)

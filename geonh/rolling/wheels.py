r"""Planar bodies on knife edges and wheels, with steering, rolling angles and trailers, on SE(2) × Tᵏ.

Each body of the chain has a frame in which its velocity is (ω, u, v), linear in ξ. At a point (x, y) of it

    along = cos α (u − ωy) + sin α (v + ωx),      across = −sin α (u − ωy) + cos α (v + ωx)

in the direction α of an edge or wheel, to which a steering angle adds. A knife edge imposes across = 0, a wheel of
radius r with the rolling angle χ also along = rχ̇. A trailer is attached by a hinge to the body ahead, at the angle
θ, with its own frame a length L behind the hinge:

    ω' = ω + θ̇,   u' = along(θ),   v' = across(θ) − Lω'.

The energy is that of the bodies, ½Iχ̇² of wheels and ½I(ω + δ̇)² of steered parts.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.signatures import argument_type, judged
from geonh.arguments.validators import as_float64, as_positive
from geonh.drawing import Body, Part, Pose, ball, box, cylinder, ground, prism, shifted
from geonh.drawing import planar as placed
from geonh.engine import Precise, traced_once
from geonh.geometry.distribution import Distribution, VelocityForms
from geonh.geometry.field import Field
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System
from geonh.rolling.composite import mass_matrix


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


@judged
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


@judged
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


@judged
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


@judged
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


@judged
def planar(
    body: PlanarBody,
    *,
    potential: Callable | None = None,
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    name: str = "planar body",
    rank: int | None = None,
) -> System:
    """System of a planar body with its wheels and trailers.

    Parameters
    ----------
    body : PlanarBody
        The first of the chain.
    potential : callable, optional
        V(x) or V(x, parameters), joules, x the vector of the k angles, shape=[k].
    forces : callable, optional
        f(t, x, ξ, u) as of ``System``.
    parameters : mapping, optional
        Further numbers; "body" is reserved.
    first_integrals : mapping of str to FirstIntegral, optional
        As for ``System``.
    draw : callable, optional
        As for ``System``; when left out, each body with its wheels, edges and centre of mass, best seen from above:
        steering turns them, rolling is not shown.
    name : str
        Name in tables and files.
    rank : int, optional
        Number of independent constraints, if some are redundant; as for ``System``.

    Returns
    -------
    System
        On SE(2) × Tᵏ, ξ = (ω, u, v, rates of the angles) in the frame of the first body; reduced by SE(2).

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If two angles have the same name, ``parameters`` have "body", or ``body`` is a trailer; else as of ``System``.
    """
    if body.name:
        raise ValueError("body must be the first of a chain, made by planar_body, not a trailer")
    names = tuple(_names(body))
    if len(set(names)) < len(names):
        raise ValueError(f"angles need names of their own, got {list(names)}: name= of wheel and trailer, steered=")
    if "body" in (parameters or {}):
        raise ValueError("parameters: 'body' is the body's own; take another name")
    space = Product((SE2(), Torus(len(names), names))) if names else SE2()
    standing = any(part.wheels for part in _chain(body))
    return System(
        space,
        lagrangian=_Lagrangian(None if potential is None else Field(potential, "potential")),
        metric=mass_matrix,
        distribution=Distribution(forms=VelocityForms(_constraints, 3 + len(names))) if standing else None,
        forces=forces,
        parameters={"body": body, **(parameters or {})},
        base="shape" if names else "point",
        first_integrals=first_integrals,
        draw=_drawing if draw is None else draw,
        name=name,
        rank=rank,
    )


def _chain(body: PlanarBody) -> Iterator[PlanarBody]:
    yield body
    for drawn in body.trailers:
        yield from _chain(drawn)


def _names(body: PlanarBody) -> Iterator[str]:
    for wheel in body.wheels:
        yield from wheel.names
    for drawn in body.trailers:
        yield drawn.name
        yield from _names(drawn)


class _Lagrangian(eqx.Module):
    """Kinetic energy of a planar body, its wheels and trailers, less a potential: velocities body by body."""

    potential: Field | None

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        terms = [
            0.5 * weight * velocity * velocity
            for weight, velocity in _velocities_of_parts(x, xi, parameters["body"]).energies
        ]
        kinetic = functools.reduce(operator.add, terms)
        return kinetic if self.potential is None else kinetic - self.potential(x, parameters)


def _constraints(x: Any, xi: Array, parameters: Any) -> list[Array]:
    return _velocities_of_parts(x, xi, parameters["body"]).constraints


class _Velocities(NamedTuple):
    """Velocities with their masses and moments of inertia, and velocities that vanish."""

    energies: list[tuple[Any, Array]]
    constraints: list[Array]


@traced_once
def _velocities_of_parts(x: Any, xi: Array, body: PlanarBody) -> _Velocities:
    """Velocities of the parts of a chain; x are the angles, xi the velocity, shape=[n], or one in each row."""
    rates, free, terms = iter(xi[3:]), iter(x), _Velocities([], [])

    def directed(omega: Array, u: Array, v: Array, at: Any, angle: Any) -> tuple[Array, Array]:
        """Velocity of a point, along and across a direction."""
        u, v = u - at[1] * omega, v + at[0] * omega
        c, s = jnp.cos(angle), jnp.sin(angle)
        return c * u + s * v, c * v - s * u

    def visit(body: PlanarBody, omega: Array, u: Array, v: Array) -> None:
        terms.energies.extend((body.mass, velocity) for velocity in directed(omega, u, v, body.centre, 0.0))
        terms.energies.append((body.inertia, omega))
        for wheel in body.wheels:
            angle, names = wheel.angle, list(wheel.names)
            if len(names) > (wheel.radius is not None):
                angle = angle + next(free)
                terms.energies.append((wheel.steering, omega + next(rates)))
            along, across = directed(omega, u, v, wheel.at, angle)
            if wheel.grips:
                terms.constraints.append(across)
            if wheel.radius is not None:
                next(free)
                rolling = next(rates)
                terms.energies.append((wheel.inertia, rolling))
                terms.constraints.append(along - wheel.radius * rolling)
        for drawn in body.trailers:
            turned = omega + next(rates)
            along, across = directed(omega, u, v, drawn.hitch, next(free))
            visit(drawn, turned, along, across - drawn.length * turned)

    visit(body, *xi[:3])
    return terms


def _drawing(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw each body as a deck with a nose, its centre of mass, and the bar to its hinge, with wheels and edges.

    Lengths not defined by the system are a fraction of the chain's greatest length.
    """
    first = parameters["body"]
    place, angles = g if tuple(_names(first)) else (g, ())
    free, size = iter(angles), _greatest_length(first)
    bodies: list[Body] = []

    def visit(body: PlanarBody, here: Pose) -> None:
        parts: list[Part] = _deck(body, size)
        turned = []
        for wheel in body.wheels:
            if len(wheel.names) > (wheel.radius is not None):
                at = here @ placed(wheel.angle + next(free), *wheel.at)
                turned.append(Body(f"steered {wheel.names[0]}", _foot(wheel, size), at=at))
            else:
                parts.append(_fixed(_foot(wheel, size), wheel))
            if wheel.radius is not None:
                next(free)
        name = f"trailer {body.name}" if body.name else "body"
        bodies.extend([Body(name, parts, at=here, trace=None if body.name else [0, 0, 0]), *turned])
        for drawn in body.trailers:
            visit(drawn, here @ placed(next(free), *drawn.hitch) @ shifted(-drawn.length))

    visit(first, placed(*place))
    return [*bodies, Body("ground", ground())]


def _points(body: PlanarBody) -> np.ndarray:
    """Extreme points of a deck in the body's frame: its origin, centre, wheels and hinges; shape=[k, 2]."""
    return np.array([(0.0, 0.0), body.centre, *(w.at for w in body.wheels), *(b.hitch for b in body.trailers)])


def _greatest_length(body: PlanarBody) -> float:
    """Greatest length in a chain, 1 m if there is none."""
    sizes = [0.0]
    for part in _chain(body):
        sizes += [np.ptp(_points(part), axis=0).max(), part.length]
        sizes += [2 * wheel.radius for wheel in part.wheels if wheel.radius is not None]
    return float(max(sizes)) or 1.0


def _deck(body: PlanarBody, size: float) -> list[Part]:
    """Draw the body itself, at the height of its axles."""
    points, wide = _points(body), 0.12 * size
    (back, right), (front, left) = points.min(axis=0) - wide, points.max(axis=0) + wide
    nose = [front + wide, (left + right) / 2]
    z = max([float(wheel.radius) for wheel in body.wheels if wheel.radius is not None], default=0.1 * size)
    deck = prism([[back, right], [front, right], nose, [front, left], [back, left]], 0.03 * size).moved(z=z)
    parts = [deck, ball(0.04 * size, 12).moved(*body.centre, z + 0.03 * size).painted("#222222")]
    if body.name:
        bar = float(body.length)
        parts.append(box(bar, 0.03 * size, 0.03 * size).moved(bar / 2, 0.0, z))
    return parts


def _foot(wheel: Wheel, size: float) -> Part:
    """Shape of a wheel or blade, without its position and direction."""
    if wheel.radius is None:
        return box(0.3 * size, 0.03 * size, 0.2 * size).moved(z=0.1 * size).painted("#444444")
    r = float(wheel.radius)
    return cylinder(r, 0.3 * r, "y").moved(z=r).painted("#444444")


def _fixed(foot: Part, wheel: Wheel) -> Part:
    """Wheel or blade at its position and direction in the body's frame."""
    c, s = np.cos(wheel.angle), np.sin(wheel.angle)
    turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return foot._mapped(lambda points: points @ turn).moved(*wheel.at)

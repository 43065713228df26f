"""Drawing of planar bodies with their wheels and trailers."""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.drawing import Body, Part, Pose, ball, box, cylinder, ground, prism, shifted
from geonh.drawing import planar as placed
from geonh.rolling.wheels import PlanarBody, Wheel, chain, coordinate_names


def drawing(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw each body as a deck with a nose, its centre of mass, and the bar to its hinge, with wheels and edges.

    Lengths not defined by the system are a fraction of the chain's greatest length.
    """
    first = parameters["body"]
    place, angles = g if tuple(coordinate_names(first)) else (g, ())
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
    for part in chain(body):
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

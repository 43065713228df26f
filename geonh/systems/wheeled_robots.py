r"""Wheeled robots: with two driven wheels, and with trailers; both built by ``geonh.rolling.planar``.

The two-wheeled robot has one axle, whose wheels roll by independent angles, rχ̇ = u ∓ ½wω, and do not
slide sideways, v = 0; the motors act on these angles alone. The wheel angles determine the heading, driven or
not: wθ − r(χ_right − χ_left) is constant. The robot with trailers tows bodies on hinges; no axle slides sideways.

Sources: Bloch, *Nonholonomic Mechanics and Control* (2003), §1.9; Laumond, *Robot Motion Planning and Control* (1998),
ch. 1.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, box, cylinder, ground, planar, shifted
from geonh.mechanics.system import FirstIntegral, System
from geonh.rolling import knife_edge, planar_body, trailer, wheel
from geonh.rolling import planar as standing
from geonh.systems.entry import Entry, Start, positive


def _torques(t: Any, x: Any, xi: Any, u: Any) -> Any:
    return jnp.concatenate([jnp.zeros(3), u])


def _drive(t: Any) -> Any:
    return jnp.stack([0.4 + 0.2 * jnp.sin(t), 0.4 - 0.2 * jnp.sin(t)])


def _heading(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    left, right = parameters["body"].wheels[1:]
    return (left.at[1] - right.at[1]) * g[0][0] - left.radius * (g[1][1] - g[1][0])


def draw_robot(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the robot with its wheels."""
    body = parameters["body"]
    here = planar(*g[0])
    left, right = body.wheels[1:]
    r, y = float(left.radius), float(left.at[1])
    wheels = [cylinder(r, 0.3 * r, "y").moved(0.0, side, r) for side in (y, float(right.at[1]))]
    return [
        Body(
            "robot",
            [box(2 * y, 1.6 * y, r).moved(float(body.centre[0]), 0.0, 1.5 * r), *wheels],
            at=here,
            trace=[0, 0, 0],
        ),
        Body("ground", ground()),
    ]


def draw_train(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the bodies of the train, each on its axle."""
    here, body, bodies = planar(*g[0]), parameters["body"], []
    for i, angle in enumerate([None, *g[1]]):
        if angle is not None:
            (body,) = body.trailers
            here = here @ planar(angle, 0.0, 0.0) @ shifted(-float(body.length), 0.0, 0.0)
        cart = [
            box(0.3, 0.2, 0.1).moved(0.05, 0.0, 0.12),
            *(cylinder(0.06, 0.02, "y").moved(0, y, 0.06) for y in (0.12, -0.12)),
        ]
        if angle is not None:  # the drawbar, to the hitch
            bar = float(body.length)
            cart.append(box(bar, 0.03, 0.03).moved(bar / 2, 0.0, 0.06))
        bodies.append(Body("robot" if i == 0 else f"trailer {i}", cart, at=here, trace=[0, 0, 0] if i == 0 else None))
    return [*bodies, Body("ground", ground())]


@validated
def two_wheeled_robot(
    m: float = 10.0,
    I: float = 0.5,  # noqa: E741
    a: float = 0.1,
    r: float = 0.1,
    w: float = 0.5,
    Iw: float = 0.01,
) -> System:
    """Two-wheeled robot with motors, on SE(2)×T².

    Parameters
    ----------
    m, I : float
        Mass, kg; moment of inertia about the vertical through the centre of mass, kg m².
    a : float
        Distance from the axle forward to the centre of mass, m.
    r, w : float
        Radius of the wheels, m; distance between the wheels, m.
    Iw : float
        Moment of inertia of a wheel about the axle, kg m².

    Returns
    -------
    System
        With ξ = (ω, u, v, χ̇_left, χ̇_right); controls are the torques on the wheels, N m.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one of ``m``, ``I``, ``r``, ``w`` and ``Iw`` is not positive.
    """
    positive(m=m, I=I, r=r, w=w, Iw=Iw)
    a = as_float64(a, "a", ())
    sides = (("left", w / 2), ("right", -w / 2))
    wheels = [wheel(r, Iw, y=y, name=name, grips=False) for name, y in sides]
    body = planar_body(m, I, [knife_edge(), *wheels], centre=(a, 0.0))
    heading = FirstIntegral(_heading, "wθ − r(χ_right − χ_left), driven or not; SymmetricProjection: O(h²)")
    return standing(
        body, forces=_torques, first_integrals={"heading": heading}, draw=draw_robot, name="two-wheeled-robot"
    )


@validated
def robot_with_trailers(
    lengths: Any = (0.8, 0.8, 0.8),
    m: float = 1.0,
    I: float = 0.2,  # noqa: E741
    a: float = 0.15,
) -> System:
    """Robot with trailers, on SE(2)×Tᵏ.

    Parameters
    ----------
    lengths : array_like, shape=[k]
        From each axle back to the next, m.
    m, I : float
        Mass of each body, kg; its moment of inertia about the centre of mass, kg m².
    a : float
        Distance from an axle forward to its body's centre of mass, m.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, φ̇₁, …, φ̇ₖ): body velocity of the robot's axle, rates of the hitches.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one of ``lengths``, ``m`` and ``I`` is not positive.
    """
    positive(lengths=lengths, m=m, I=I)
    a, each = as_float64(a, "a", ()), np.atleast_1d(as_float64(lengths, "lengths"))
    if each.ndim != 1:
        raise ValueError(f"lengths must have shape [trailers], got {list(each.shape)}")
    drawn: tuple = ()
    for i in reversed(range(len(each))):
        cart = planar_body(m, I, [knife_edge()], drawn, centre=(a, 0.0))
        drawn = (trailer(cart, float(each[i]), name=f"phi{i + 1}"),)
    body = planar_body(m, I, [knife_edge()], drawn, centre=(a, 0.0))
    return standing(body, draw=draw_train, name="robot-with-trailers")


def _robot_start(system: System) -> Start:
    return Start(None, np.zeros(5))


def _train_start(system: System) -> Start:
    k = system.group.dim - 3
    g0 = (np.zeros(3), np.linspace(0.3, -0.3, k))
    return Start(g0, np.asarray(system.project(g0, [0.5, 1.0, 0.0, *np.zeros(k)])))


ENTRIES = (
    Entry(
        name="two-wheeled-robot",
        build=two_wheeled_robot,
        title="robot with a motor on each of two wheels",
        known_as="Two-wheeled robot",
        constraints="v = 0, rχ̇ = u ∓ ½wω",
        conserved={
            "heading": "wθ − r(χ_right − χ_left), driven or not; SymmetricProjection: O(h²)",
            "energy": "without torques; GNI: O(h²)",
        },
        source="Bloch 2003, §1.9",
        start=_robot_start,
        controls=_drive,
        dt=0.01,
        n_steps=1000,
    ),
    Entry(
        name="robot-with-trailers",
        build=robot_with_trailers,
        title="robot that draws trailers",
        known_as="Robot with trailers",
        constraints="no axle slides sideways",
        conserved={"energy": "SymmetricProjection: O(h²)"},
        source="Laumond 1998, ch. 1",
        start=_train_start,
        dt=0.01,
        n_steps=500,
    ),
)

r"""The double pendulum in Cartesian coordinates: two points of the plane on two rods, without elimination.

    ℓ = ½m₁|a|̇² + ½m₂|b|̇² − g(m₁a₂ + m₂b₂),   φ = ½(|a|² − l₁², |b − a|² − l₂²) = 0

on R⁴, (a, b) the places of the points. Without nonholonomic constraints ``SymmetricProjection`` is RATTLE: symplectic,
so that the energy error does not drift.

Source: Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), §VII.1.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, Pose, ball, line
from geonh.groups import Translations
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.stack([parameters["m1"], parameters["m1"], parameters["m2"], parameters["m2"]])


def _potential(x: Any, parameters: Any) -> Any:
    return parameters["g"] * (parameters["m1"] * x[1] + parameters["m2"] * x[3])


def _rods(x: Any, parameters: Any) -> Any:
    a, b = x[:2], x[2:] - x[:2]
    return jnp.stack([a @ a - parameters["l1"] ** 2, b @ b - parameters["l2"] ** 2]) / 2


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the points, upright in the plane of x and z, and their rods."""
    size = 0.08 * float(parameters["l1"])
    places = [jnp.stack([g[0], 0.0 * g[0], g[1]]), jnp.stack([g[2], 0.0 * g[2], g[3]])]
    bodies = [
        Body(n, ball(size), at=Pose(jnp.eye(3), x), trace=[0, 0, 0]) for n, x in zip(("a", "b"), places, strict=True)
    ]
    ahead = [jnp.zeros(3), places[0]]
    for name, length, end, begin in zip(("first rod", "second rod"), ("l1", "l2"), places, ahead, strict=True):
        d = (end - begin) / parameters[length]
        turn = jnp.stack(
            [jnp.stack([d[0], 0.0 * d[0], -d[2]]), jnp.array([0.0, 1.0, 0.0]), jnp.stack([d[2], 0.0 * d[0], d[0]])]
        )
        bodies.append(Body(name, line([[0, 0, 0], [float(parameters[length]), 0, 0]]), at=Pose(turn, begin)))
    return bodies


@validated
def double_pendulum(m1: float = 1.0, m2: float = 1.0, l1: float = 1.0, l2: float = 1.0, g: float = 9.81) -> System:
    """Double pendulum on R⁴ with two constraints on positions.

    Parameters
    ----------
    m1, m2 : float
        Mass of the first point, kg; mass of the second, kg.
    l1, l2 : float
        Length of the first rod, m; length of the second, m.
    g : float
        Gravity, m/s².

    Returns
    -------
    System
        With ξ = (ẋ₁, ẏ₁, ẋ₂, ẏ₂), velocities of the two masses, m/s.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Translations(4, ("x1", "y1", "x2", "y2")),
        metric=_metric,
        potential=_potential,
        holonomic=_rods,
        parameters=positive(m1=m1, m2=m2, l1=l1, l2=l2, g=g),
        draw=draw,
        units=dict.fromkeys(("x1", "y1", "x2", "y2"), "m"),
        name="double-pendulum",
    )


def _start(system: System) -> Start:
    l1, l2 = float(system.parameters["l1"]), float(system.parameters["l2"])
    return Start(np.array([l1, 0.0, l1, -l2]), np.zeros(4))


ENTRY = Entry(
    name="double-pendulum",
    build=double_pendulum,
    title="two rods in Cartesian coordinates, constraints on positions",
    known_as="Double pendulum",
    constraints="φ = ½(|a|² − l₁², |b − a|² − l₂²) = 0",
    conserved={"energy": "GNI and SymmetricProjection: O(h²), no drift"},
    source="Hairer, Lubich, Wanner 2006, §VII.1",
    start=_start,
    dt=0.01,
    n_steps=1000,
)

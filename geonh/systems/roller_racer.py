r"""The roller racer: two planar bodies joined by a rotary joint, each on a pair of wheels.

(x, y, θ) is the first body's pose (its wheels' axle at the centre), φ the angle of the second body relative to it; d₁
and d₂ are the distances of the joint from the two axles. The second body's mass is neglected. With ξ = (ω, u, v, φ̇),

    ℓ = ½m(u² + v²) + ½I₁ω² + ½I₂(ω + φ̇)²,
    v = 0,   (d₁ cos φ + d₂)ω − u sin φ + d₂φ̇ = 0.

Source: Chang, Perlmutter (2018), §3.5 (e₁♭ and e₂♭); Bloch (2003), §1.10; Krishnaprasad, Tsakiris (2001).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, box, cylinder, ground, planar, shifted
from geonh.geometry.distribution import Distribution
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> list:
    m, i1, i2 = parameters["m"], parameters["I1"], parameters["I2"]
    o = 0.0 * m
    return [[i1 + i2, o, o, i2], [o, m, o, o], [o, o, m, o], [i2, o, o, i2]]


def _forms(x: Any, parameters: Any) -> list:
    d1, d2, phi = parameters["d1"], parameters["d2"], x[0]
    return [[0.0, 0.0, 1.0, 0.0], [d1 * jnp.cos(phi) + d2, -jnp.sin(phi), 0.0, d2]]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the seat and the steered body, each on its pair of wheels, joined by tongue and arm."""
    (theta, x, y), (phi,) = g
    d1, d2 = float(parameters["d1"]), float(parameters["d2"])
    wheels = [cylinder(0.1, 0.04, "y").moved(0, side * 0.3, 0.1) for side in (1, -1)]
    axle = cylinder(0.02, 0.6, "y").moved(z=0.1)
    seat = [box(0.6, 0.4, 0.08).moved(z=0.2), box(d1, 0.06, 0.04).moved(d1 / 2, 0, 0.2)]
    arm = [box(d2, 0.06, 0.04).moved(-d2 / 2, 0, 0.2), cylinder(0.04, 0.2).moved(-d2, 0, 0.22)]
    first = planar(theta, x, y)
    joint = first @ planar(phi, d1, 0.0)
    return [
        Body("seat", [*seat, axle, *wheels], at=first, trace=[0, 0, 0]),
        Body("steered body", [*arm, axle, *wheels], at=joint @ shifted(d2)),
        Body("ground", ground()),
    ]


@validated
def roller_racer(m: float = 1.0, I1: float = 1.0, I2: float = 0.5, d1: float = 1.0, d2: float = 0.5) -> System:
    """Roller racer on SE(2)×S¹, base φ.

    Parameters
    ----------
    m : float
        Mass of the first body, kg.
    I1, I2 : float
        Moment of inertia of the first body, kg m²; that of the second, kg m².
    d1, d2 : float
        Joint to the first axle, m; joint to the second axle, m.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, φ̇): body velocity of the first body, rate of the joint.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((SE2(), Torus(1, ("phi",)))),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m, I1=I1, I2=I2, d1=d1, d2=d2),
        base=("phi",),
        draw=draw,
        name="roller-racer",
    )


def _start(system: System) -> Start:
    g0 = (np.zeros(3), np.array([0.8]))
    return Start(g0, system.project(g0, np.array([0.3, 1.0, 0.0, -0.5])))


ENTRY = Entry(
    name="roller-racer",
    build=roller_racer,
    title="two wheeled bodies on a joint",
    known_as="Roller racer",
    constraints="v = 0 and (d₁ cos φ + d₂)ω − u sin φ + d₂φ̇ = 0",
    conserved={"energy": "GNI: at p⁻ to rounding; SymmetricProjection: to rounding"},
    source="Chang, Perlmutter 2018, §3.5",
    start=_start,
    dt=0.01,
    n_steps=1000,
)

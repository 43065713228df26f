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

from geonh.geometry.distribution import Distribution
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, box, planar, positive


def _metric(x: Any, p: Any) -> list:
    m, i1, i2 = p["m"], p["I1"], p["I2"]
    o = 0.0 * m
    return [[i1 + i2, o, o, i2], [o, m, o, o], [o, o, m, o], [i2, o, o, i2]]


def _forms(x: Any, p: Any) -> list:
    d1, d2, phi = p["d1"], p["d2"], x[0]
    return [[0.0, 0.0, 1.0, 0.0], [d1 * jnp.cos(phi) + d2, -jnp.sin(phi), 0.0, d2]]


def roller_racer(m: float = 1.0, I1: float = 1.0, I2: float = 0.5, d1: float = 1.0, d2: float = 0.5) -> System:
    """Roller racer on SE(2)×S¹, base φ.

    Parameters
    ----------
    m : float
        Mass of the first body, kg.
    I1, I2 : float
        Moments of inertia of the bodies, kg m².
    d1, d2 : float
        Joint to the first and to the second axle, m.
    """
    return System(
        Product((SE2(), Torus(1, ("phi",)))),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m, I1=I1, I2=I2, d1=d1, d2=d2),
        base=("phi",),
        name="roller-racer",
    )


def _start(system: System) -> Start:
    g0 = (np.zeros(3), np.array([0.8]))
    return Start(g0, system.project(g0, np.array([0.3, 1.0, 0.0, -0.5])))


def draw(system: System, g: Any) -> dict[str, np.ndarray]:
    """The two bodies and their axles."""
    (theta, x, y), (phi,) = (np.asarray(part) for part in g)
    d1, d2 = (float(system.parameters[name]) for name in ("d1", "d2"))
    axle = np.array([[0.0, -0.3], [0.0, 0.3]])
    arm = planar(np.array([[0.0, 0.0], [d2, 0.0]]), phi, d1, 0.0)
    parts = {"body": box(0.6, 0.4), "axle": axle, "tongue": np.array([[0.0, 0.0], [d1, 0.0]]), "arm": arm}
    return {name: planar(part, theta, x, y) for name, part in parts.items()}


ENTRY = Entry(
    name="roller-racer",
    build=roller_racer,
    title="roller racer: two wheeled bodies on a joint",
    parameters={
        "m": "kg, mass of the first body",
        "I1": "kg m², first body",
        "I2": "kg m², second body",
        "d1": "m, first axle to joint",
        "d2": "m, joint to second axle",
    },
    constraints="v = 0 and (d₁ cos φ + d₂)ω − u sin φ + d₂φ̇ = 0",
    conserved={"energy": "GNI: at p⁻ to rounding; SymmetricProjection: to rounding"},
    source="Chang, Perlmutter 2018, §3.5",
    start=_start,
    dt=0.01,
    n_steps=1000,
    draw=draw,
)

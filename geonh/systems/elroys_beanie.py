r"""Elroy's beanie: two planar bodies joined at their centres of mass, moving freely in the plane. No constraint.

(x, y, θ) is the first body's pose, ψ the angle of the second relative to it, held by a potential V(ψ) = −k cos ψ:

    L = ½m(ẋ² + ẏ²) + ½I₁θ̇² + ½I₂(θ̇ + ψ̇)² − V(ψ),

invariant under SE(2); the base is the shape ψ. With Ω₃ = θ̇ + I₂ψ̇/(I₁+I₂) the Lagrange–Poincaré equations are
Ω̇₃ = 0 and I₁I₂/(I₁+I₂) ψ̈ = −V'(ψ).

Source: Martín de Diego, New developments in geometric integration of nonholonomic systems (AIMS 2008), Elroy's beanie.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, box, cylinder, ground, planar
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> list:
    m, i1, i2 = parameters["m"], parameters["I1"], parameters["I2"]
    o = 0.0 * m
    return [[i1 + i2, o, o, i2], [o, m, o, o], [o, o, m, o], [i2, o, o, i2]]


def _potential(x: Any, parameters: Any) -> Any:
    return -parameters["k"] * jnp.cos(x[0])


def _spatial_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    group = SE2()
    return group.Ad_star(group.inverse(g[0]), p[:3])


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the two bodies as bars on one pin."""
    (theta, x, y), (psi,) = g
    return [
        Body("first body", box(1.0, 0.2, 0.06), at=planar(theta, x, y, 0.05), trace=[0, 0, 0]),
        Body("second body", [box(0.7, 0.1, 0.06), cylinder(0.04, 0.2)], at=planar(theta + psi, x, y, 0.12)),
        Body("ground", ground()),
    ]


@validated
def elroys_beanie(m: float = 1.0, I1: float = 1.0, I2: float = 0.5, k: float = 1.0) -> System:
    """Elroy's beanie on SE(2)×S¹, base ψ.

    Parameters
    ----------
    m : float
        Total mass, kg.
    I1, I2 : float
        Moment of inertia of the first body, kg m²; that of the second, kg m².
    k : float
        Strength of the potential −k cos ψ, J.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, ψ̇): body velocity of the first body, and the rate of the angle between them.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((SE2(), Torus(1, ("psi",)))),
        metric=_metric,
        potential=_potential,
        parameters=positive(m=m, I1=I1, I2=I2, k=k),
        base=("psi",),
        first_integrals={"spatial momentum": FirstIntegral(_spatial_momentum, "Noether, se(2)*: rounding")},
        draw=draw,
        name="elroys-beanie",
    )


ENTRY = Entry(
    name="elroys-beanie",
    build=elroys_beanie,
    title="two planar bodies joined at their centres",
    known_as="Elroy's beanie",
    constraints="none",
    conserved={
        "spatial momentum": "GNI and Variational and SymmetricProjection: to rounding",
        "energy": "GNI and Variational and SymmetricProjection: O(h²), no drift",
    },
    source="Martín de Diego 2008 (AIMS slides)",
    start=lambda system: Start((np.zeros(3), np.array([1.0])), np.array([0.4, 0.5, -0.2, 0.3])),
    dt=0.02,
    n_steps=1000,
)

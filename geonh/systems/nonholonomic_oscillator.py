r"""The nonholonomic oscillator: springs in space with the contact constraint ẋ + yż = 0.

L = ½(m₁ẋ² + m₂ẏ² + m₃ż²) − ½|q|² on R³, springs of 1 N/m.

Figure: a continuously variable gearbox. x and z are the displacements of two sprung wheels, y that of the gear that
couples them in the ratio −y, itself on a spring; ratio and sign change as y oscillates. The constraint force
(λ, 0, λy) does not act on y:

    y = y₀ cos ωt + (ẏ₀/ω) sin ωt,  ω = 1/√m₂,   (m₃ + m₁y²) z̈ + m₁yẏ ż + z − xy = 0,   ẋ = −yż,

so x and z obey a linear equation with coefficients of period 2π/ω. Kept are the energy H and H_y = ½(m₂ẏ² + y²), hence
also H − H_y, a definite quadratic form in (x, z, ż): the period map is a rotation of R³, the motion quasi-periodic
(Modin, Verdier 2014), and its section at y = 0, ẏ > 0 lies on circles of that form.

GNI (trapezoid) takes y by the Störmer–Verlet scheme, so that ½(m₂ẏ² + (1 − h²/(4m₂)) y²) is kept to rounding.

Source: Chang, Perlmutter, Feedback integrators for nonholonomic mechanical systems (2018), §3.7, start (86); Modin,
Verdier, Integrability of nonholonomically coupled oscillators (2014).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, line, link
from geonh.geometry.distribution import Distribution
from geonh.groups import Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive
from geonh.systems.nonholonomic_particle import particle


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["m"]


def contact_forms(x: Any, parameters: Any) -> list:
    """dx + y dz."""
    return [[1.0, 0.0, x[1]]]


def _potential(x: Any, parameters: Any) -> Any:
    return 0.5 * (x[0] ** 2 + x[1] ** 2 + x[2] ** 2)


def energy_y(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    """H_y, energy of the motion in y."""
    return 0.5 * (p[1] * xi[1] + g[1] ** 2)


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the particle, the spring from the origin, and a piece of the plane of admissible velocities."""
    spring = Body("spring", line([[0, 0, 0], [1, 0, 0]]), at=link(jnp.zeros(3), g))
    return particle(g, jnp.stack([1.0, 0.0, g[1]]), spring)


@validated
def nonholonomic_oscillator(m: Any = (1.0, 1.0, 1.0)) -> System:
    """Nonholonomic oscillator on R³ with V = ½|q|².

    Parameters
    ----------
    m : array_like, shape=[3]
        Masses along x, y, z, kg.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, ż).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not positive, or there are not three.
    """
    if as_float64(m, "m").shape != (3,):
        raise ValueError(f"m must be three masses, got {m}")
    return System(
        Translations(3),
        metric=_metric,
        potential=_potential,
        distribution=Distribution(forms=contact_forms),
        parameters=positive(m=m),
        first_integrals={"H_y": FirstIntegral(energy_y, "½(m₂ẏ² + y²): O(h²), no drift")},
        draw=draw,
        name="nonholonomic-oscillator",
    )


ENTRY = Entry(
    name="nonholonomic-oscillator",
    build=nonholonomic_oscillator,
    title="springs in space with a contact constraint",
    known_as="Nonholonomic oscillator",
    constraints="ẋ + yż = 0",
    conserved={
        "energy": "GNI and SymmetricProjection: O(h²), no drift",
        "H_y": "½(m₂ẏ² + y²); GNI and SymmetricProjection: O(h²), no drift; GNI: with the "
        "trapezoid rule ½(m₂ẏ² + (1 − h²/(4m₂))y²) to rounding",
    },
    source="Chang, Perlmutter 2018, §3.7; Modin, Verdier 2014",
    start=lambda system: Start(np.ones(3), np.zeros(3)),
    dt=0.05,
    n_steps=4000,
)

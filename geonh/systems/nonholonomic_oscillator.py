r"""Nonholonomic oscillators: springs in space with a contact constraint ẋ + yż = 0.

L = ½|q̇|² − V(q) on R³. Two potentials:

    nonholonomic oscillator   V = ½|q|²:                        integrable; H_y = ½(ẏ² + y²) is kept too
    contact oscillator        V = ½(|q|² + ε x²z²) + δ(y³/3 + xz²)

For δ = 0 the contact oscillator is symmetric under the reflections of two coordinates that keep the constraint, and so
reversible in more ways than (q, q̇) ↦ (q, −q̇); δ ≠ 0 leaves only this one.

Source: Chang, Perlmutter (2018), §3.7; Modin, Verdier (2014); McLachlan, Perlmutter (2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.geometry.distribution import Distribution
from geonh.groups import Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, p: Any) -> Any:
    return p["m"]


def _forms(x: Any, p: Any) -> list:
    return [[1.0, 0.0, x[1]]]


def _harmonic(x: Any, p: Any) -> Any:
    return 0.5 * (x @ x)


def _contact(x: Any, p: Any) -> Any:
    coupling = 0.5 * p["eps"] * x[0] ** 2 * x[2] ** 2
    return 0.5 * (x @ x) + coupling + p["delta"] * (x[1] ** 3 / 3 + x[0] * x[2] ** 2)


def _energy_y(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return 0.5 * (p[1] * xi[1] + g[1] ** 2)


def nonholonomic_oscillator(m: Any = (1.0, 1.0, 1.0)) -> System:
    """Nonholonomic oscillator on R³ with V = ½|q|².

    Parameters
    ----------
    m : array_like, shape=[3]
        Masses along x, y, z, kg.
    """
    return System(
        Translations(3),
        metric=_metric,
        potential=_harmonic,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m),
        first_integrals={"H_y": FirstIntegral(_energy_y, "½(mẏ² + y²): O(h²)")},
        name="nonholonomic-oscillator",
    )


def contact_oscillator(eps: float = 1.0, delta: float = 0.0) -> System:
    """Contact oscillator on R³ with V = ½(|q|² + ε x²z²) + δ(y³/3 + xz²).

    Parameters
    ----------
    eps : float
        ε, strength of the coupling.
    delta : float
        δ, strength of the term that breaks the reflections.
    """
    return System(
        Translations(3),
        metric=_metric,
        potential=_contact,
        distribution=Distribution(forms=_forms),
        parameters={"m": np.ones(3), "eps": np.float64(eps), "delta": np.float64(delta)},
        name="contact-oscillator",
    )


def contact_oscillator_nonreversible(eps: float = 1.0, delta: float = 0.1) -> System:
    """Contact oscillator without reflection symmetries; parameters of ``contact_oscillator``."""
    return contact_oscillator(eps, delta)


def _start(system: System) -> Start:
    g0 = np.array([0.4, 0.6, -0.3])
    return Start(g0, system.project(g0, np.array([0.3, 0.8, -0.5])))


_CONSTRAINT = "ẋ + yż = 0"

ENTRIES = (
    Entry(
        name="nonholonomic-oscillator",
        build=nonholonomic_oscillator,
        title="springs in space with a contact constraint",
        parameters={"m": "kg, masses along x, y, z"},
        constraints=_CONSTRAINT,
        conserved={"energy": "GNI: O(h²)", "H_y": "½(mẏ² + y²); GNI: O(h²)"},
        source="Chang, Perlmutter 2018, §3.7; Modin, Verdier 2014",
        start=_start,
        dt=0.05,
        n_steps=1000,
    ),
    Entry(
        name="contact-oscillator",
        build=contact_oscillator,
        title="contact oscillator, coupled, with reflection symmetries",
        parameters={"eps": "coupling ε", "delta": "asymmetry δ"},
        constraints=_CONSTRAINT,
        conserved={"energy": "GNI: O(h²)"},
        source="McLachlan, Perlmutter 2006; Modin, Verdier 2014",
        start=_start,
        dt=0.05,
        n_steps=1000,
    ),
    Entry(
        name="contact-oscillator-nonreversible",
        build=contact_oscillator_nonreversible,
        title="contact oscillator without reflection symmetries",
        parameters={"eps": "coupling ε", "delta": "asymmetry δ"},
        constraints=_CONSTRAINT,
        conserved={"energy": "GNI: O(h²)"},
        source="McLachlan, Perlmutter 2006; Modin, Verdier 2014",
        start=_start,
        dt=0.05,
        n_steps=1000,
    ),
)

r"""The contact oscillator: springs in space, coupled, with the constraint ẋ + yż = 0; reversible and not.

L = ½|q̇|² − V(q) on R³, V = ½(|q|² + ε x²z²). Figure: that of ``nonholonomic_oscillator``. y is still a decoupled
harmonic oscillator, ÿ = −y, since the constraint force (λ, 0, λy) and the coupling do not act on it; at ε ≠ 0 the
motion in (x, z) that it drives is no longer linear. Kept are the energy and H_y = ½(ẏ² + y²).

**Reversal.** A linear ρ maps the distribution to itself if and only if ρ = diag(α, α/γ, γ), and keeps |q̇|² only for
signs α, γ = ±1. All four of these make (q, p) ↦ (ρq, −ρp) a reversing symmetry of the contact oscillator. GNI is
symmetric and shares them: its energy error stays where it is (its mean to 1e-4 over 2·10⁴ s at h = 0.1).

**Without.** ``contact_oscillator_nonreversible`` adds the gyroscopic force f = q̇×B of the magnetic field
B = β(1 + x, −y, 0), which does no work: the energy is kept as before. On the distribution, spanned by ∂_y and
∂_z − y∂_x, only b(q) = β(1 + x) = B·(e₁ + ye₃) acts, and (q, p) ↦ (ρq, −ρp) reverses the motion only if
α b(ρq) = −b(q): 1 + x = −(1 + x) for α = 1, 1 − x = 1 + x for α = −1. So for β ≠ 0 no linear ρ is left, the identity
included. (A potential alone cannot do that: (q, p) ↦ (q, −p) reverses every L = T − V.) y is then driven too, and H_y
is not kept. The energy error of GNI is O(h²) on a fixed interval, but it wanders: to some 0.03 in 2·10⁴ s, at h = 0.1
and at h = 0.05 alike.

Source: McLachlan, Perlmutter, Integrators for nonholonomic mechanical systems (2006), §5.2, for the reversible problem;
Modin, Verdier, What makes nonholonomic integrators work? (2020), for the role of reversal. The field B is chosen here.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.geometry.distribution import Distribution
from geonh.groups import Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start
from geonh.systems.nonholonomic_oscillator import contact_forms, draw, energy_y


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.ones(3)


def _potential(x: Any, parameters: Any) -> Any:
    return 0.5 * (x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + parameters["eps"] * x[0] ** 2 * x[2] ** 2)


def _gyroscopic(t: Any, x: Any, xi: Any, u: Any, parameters: Any) -> Any:
    first, second = parameters["beta"] * (1 + x[0]), -parameters["beta"] * x[1]
    return jnp.stack([-xi[2] * second, xi[2] * first, xi[0] * second - xi[1] * first])


@validated
def contact_oscillator(eps: float = 1.0) -> System:
    """Contact oscillator on R³, reversible. Masses and spring constants are 1.

    Parameters
    ----------
    eps : float
        ε, strength of the coupling, m⁻²; not below 0, so that V is bounded below.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, ż).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not finite, or is below 0.
    """
    return System(
        Translations(3),
        metric=_metric,
        potential=_potential,
        distribution=Distribution(forms=contact_forms),
        parameters={"eps": _coupling(eps)},
        first_integrals={"H_y": FirstIntegral(energy_y, "½(ẏ² + y²): O(h²), no drift")},
        draw=draw,
        name="contact-oscillator",
    )


@validated
def contact_oscillator_nonreversible(eps: float = 1.0, beta: float = 0.3) -> System:
    """Contact oscillator in the field B = β(1 + x, −y, 0), which leaves it no linear reversing symmetry.

    Parameters
    ----------
    eps : float
        ε, strength of the coupling, m⁻²; not below 0, so that V is bounded below.
    beta : float
        β, strength of the field, s⁻¹; 0 gives the reversible oscillator.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, ż).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not finite, or ``eps`` is below 0.
    """
    return System(
        Translations(3),
        metric=_metric,
        potential=_potential,
        distribution=Distribution(forms=contact_forms),
        forces=_gyroscopic,
        parameters={"eps": _coupling(eps), "beta": as_float64(beta, "beta")},
        draw=draw,
        name="contact-oscillator-nonreversible",
    )


def _coupling(eps: Any) -> np.ndarray:
    number = as_float64(eps, "eps")
    if not np.all(number >= 0):
        raise ValueError(f"eps must be finite and at least 0, got {eps}")
    return number


def start_on_level(eps: float, z0: float = 0.5, energy: float = 1.5, energy_y: float = 0.5) -> Start:
    """Initial conditions at rest at (x₀, y₀, z₀) with the given H and H_y < H − ½z₀², x₀ and y₀ positive."""
    x0 = np.sqrt((2 * (energy - energy_y) - z0**2) / (1 + eps * z0**2))
    return Start(np.array([x0, np.sqrt(2 * energy_y), z0]), np.zeros(3))


def _start(system: System) -> Start:
    return start_on_level(float(system.parameters["eps"]))


_COMMON: dict[str, Any] = {
    "constraints": "ẋ + yż = 0",
    "source": "McLachlan, Perlmutter 2006, §5.2; Modin, Verdier 2020",
    "start": _start,
    "dt": 0.05,
    "n_steps": 2000,
}

ENTRIES = (
    Entry(
        name="contact-oscillator",
        build=contact_oscillator,
        title="contact oscillator, coupled, reversible",
        known_as="Contact oscillator",
        conserved={
            "energy": "GNI and SymmetricProjection: O(h²), no drift",
            "H_y": "½(ẏ² + y²); GNI and SymmetricProjection: O(h²), no drift",
        },
        **_COMMON,
    ),
    Entry(
        name="contact-oscillator-nonreversible",
        build=contact_oscillator_nonreversible,
        title="contact oscillator in a magnetic field that no linear map reverses",
        known_as="Non-reversible contact oscillator",
        conserved={"energy": "GNI and SymmetricProjection: O(h²) on a fixed interval; wanders over long times"},
        **_COMMON,
    ),
)

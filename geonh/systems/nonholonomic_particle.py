r"""The nonholonomic particle: a free particle in space whose velocity obeys ż = y ẋ.

At height coordinate y the velocity lies in the plane spanned by ∂_y and ∂_x + y ∂_z, which turns about the y axis as y
grows. With L = ½m(ẋ² + ẏ² + ż²) the motion is

    y = y₀ + bt,  x = x₀ + (c/b)(asinh y − asinh y₀),  z = z₀ + (c/b)(√(1+y²) − √(1+y₀²)),  c = ẋ₀√(1+y₀²).

Source: Ferraro, Iglesias, Martín de Diego (2008), example 1 and eqs. (14); Rosenberg (1977).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, along, axes, ball, shifted
from geonh.drawing.shapes import PATCH
from geonh.geometry.distribution import Distribution
from geonh.groups import Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["m"] * jnp.ones(3)


def _forms(x: Any, parameters: Any) -> list:
    return [[-x[0], 0.0, 1.0]]


def _momentum_y(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[1]


def _speed(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return xi[0] * jnp.sqrt(1 + g[1] ** 2)


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the particle, and a piece of the plane of admissible velocities."""
    return particle(g, jnp.stack([-g[1], 0.0, 1.0]))


def particle(q: Any, normal: Any, *beside: Body) -> list[Body]:
    """Draw a particle at q, a piece of the plane of admissible velocities, with its normal, and other bodies."""
    return [
        Body("particle", ball(0.06, 12), at=shifted(*q), trace=[0, 0, 0]),
        *beside,
        Body("admissible plane", PATCH, at=along(normal, q, axis="z")),
        Body("origin", axes(0.3)),
    ]


@validated
def nonholonomic_particle(m: float = 1.0) -> System:
    """Nonholonomic particle on R³, base coordinate y.

    Parameters
    ----------
    m : float
        Mass, kg.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, ż).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Translations(3),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m),
        base=("y",),
        first_integrals={
            "p_y": FirstIntegral(_momentum_y, "momentum map of a horizontal symmetry: rounding"),
            "c": FirstIntegral(_speed, "ẋ√(1+y²): O(h²)"),
        },
        draw=draw,
        name="nonholonomic-particle",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact solution; needs ẏ ≠ 0."""
    x0, y0, z0 = (0.0, 0.0, 0.0) if start.g0 is None else start.g0
    vx0, b, _ = start.xi0
    c = vx0 * np.sqrt(1 + y0**2)
    y = y0 + b * np.asarray(t)
    root = np.sqrt(1 + y**2)
    x = x0 + c / b * (np.arcsinh(y) - np.arcsinh(y0))
    z = z0 + c / b * (root - np.sqrt(1 + y0**2))
    return np.stack([x, y, z], axis=1), np.stack([c / root, np.full_like(y, b), y * c / root], axis=1)


ENTRY = Entry(
    name="nonholonomic-particle",
    build=nonholonomic_particle,
    title="free particle with ż = y ẋ",
    known_as="Nonholonomic particle",
    constraints="ż − y ẋ = 0",
    conserved={
        "energy": "GNI: at p⁻ to rounding (Theorem 1, the metric of R³ is bi-invariant); "
        "SymmetricProjection: to rounding",
        "p_y": "GNI and SymmetricProjection: to rounding (horizontal symmetry)",
        "c": "ẋ√(1+y²); GNI: O(h²); SymmetricProjection: to rounding",
    },
    source="Ferraro, Iglesias, Martín de Diego 2008, example 1",
    start=lambda system: Start(np.array([0.0, 0.5, 0.0]), np.array([1.0, 1.0, 0.5])),
    dt=0.05,
    method="gni",
    n_steps=200,
    exact=exact,
)

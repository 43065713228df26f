r"""The knife edge on an inclined plane.

(x, y) is the contact point on a plane inclined by α, x pointing down the slope, φ the edge's direction:

    L = ½m(ẋ² + ẏ²) + ½Jφ̇² + m g x sin α,   ẋ sin φ − ẏ cos φ = 0.

φ turns at a constant rate w. The speed along the edge is u = u₀ + c(sin φ − sin φ₀) with c = (g sin α)/w, and with
k = u₀ − c sin φ₀

    x = x₀ + (k/w)(sin φ − sin φ₀) + (c/2w)(sin²φ − sin²φ₀)
    y = y₀ − (k/w)(cos φ − cos φ₀) + (c/w)[(φ − φ₀)/2 − (sin 2φ − sin 2φ₀)/4]:

it does not slide down but wanders sideways on a cycloid. For m = J = g = 1, α = π/6, w = ½ from rest: x = ½(1 − cos t),
y = ½(t − sin t), φ = t/2, H = 1/8. (The source prints x = 1 − cos t, φ = t, which breaks the constraint and its own H.)

Source: Chang, Perlmutter (2018), §3.2; Bloch (2003), §1.6.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, box, cylinder, ground, planar
from geonh.geometry.distribution import Distribution
from geonh.groups import Product, Torus, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.stack([parameters["m"], parameters["m"], parameters["J"]])


def _forms(x: Any, parameters: Any) -> list:
    return [[jnp.sin(x[1]), -jnp.cos(x[1]), 0.0]]


def _potential(x: Any, parameters: Any) -> Any:
    return -parameters["m"] * parameters["gravity"] * jnp.sin(parameters["slope"]) * x[0]


def _spin(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[2]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the edge, standing on the plane (x points downhill)."""
    (x, y), (phi,) = g
    blade = [box(0.2, 0.02, 0.1).moved(z=0.05), cylinder(0.03, 0.12).moved(z=0.12)]
    return [Body("edge", blade, at=planar(phi, x, y), trace=[0, 0, 0]), Body("ground", ground())]


@validated
def knife_edge(m: float = 1.0, J: float = 1.0, gravity: float = 1.0, slope: float = np.pi / 6) -> System:
    """Knife edge on R²×S¹, base (x, φ).

    Parameters
    ----------
    m : float
        Mass, kg.
    J : float
        Moment of inertia, kg m².
    gravity : float
        Gravity, m/s².
    slope : float
        Inclination α, radians.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, φ̇).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((Translations(2), Torus(1, ("phi",)))),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        potential=_potential,
        parameters=positive(m=m, J=J, gravity=gravity, slope=slope),
        base=("x", "phi"),
        first_integrals={"spin": FirstIntegral(_spin, "horizontal symmetry: rounding")},
        draw=draw,
        name="knife-edge",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[Any, np.ndarray]:
    """Exact solution; needs φ̇ ≠ 0."""
    (x0, y0), (phi0,) = (np.zeros(2), np.zeros(1)) if start.g0 is None else start.g0
    vx, vy, w = start.xi0
    c = float(system.parameters["gravity"]) * np.sin(float(system.parameters["slope"])) / w
    k = vx * np.cos(phi0) + vy * np.sin(phi0) - c * np.sin(phi0)
    phi = phi0 + w * np.asarray(t)
    s, s0 = np.sin(phi), np.sin(phi0)
    x = x0 + k / w * (s - s0) + c / (2 * w) * (s**2 - s0**2)
    swept = (phi - phi0) / 2 - (np.sin(2 * phi) - np.sin(2 * phi0)) / 4
    y = y0 - k / w * (np.cos(phi) - np.cos(phi0)) + c / w * swept
    u = k + c * s
    return (np.stack([x, y], axis=1), phi[:, None]), np.stack([u * np.cos(phi), u * s, np.full_like(u, w)], axis=1)


ENTRY = Entry(
    name="knife-edge",
    build=knife_edge,
    title="blade that slides on a slope",
    known_as="Knife edge on an inclined plane",
    constraints="ẋ sin φ − ẏ cos φ = 0",
    conserved={
        "energy": "GNI: at p⁻ to rounding; SymmetricProjection: to rounding",
        "spin": "GNI and SymmetricProjection: to rounding",
    },
    source="Chang, Perlmutter 2018, §3.2 (exact solution corrected)",
    start=lambda system: Start((np.zeros(2), np.zeros(1)), np.array([0.0, 0.0, 0.5])),
    dt=0.05,
    n_steps=500,
    exact=exact,
)

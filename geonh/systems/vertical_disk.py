r"""The vertical rolling disk: a coin that stays upright and rolls without sliding on a plane.

(x, y) is the contact point, θ the heading, ψ the rolling angle, R the radius: ẋ = Rψ̇ cos θ, ẏ = Rψ̇ sin θ. With
ξ = (ω, u, v, ψ̇), ℓ = ½Jω² + ½m(u² + v²) + ½Iψ̇², u = Rψ̇, v = 0: both rates are constant, and the path is the circle

    x = (Rψ̇/θ̇) sin θ̇t,  y = (Rψ̇/θ̇)(1 − cos θ̇t).

Source: Chang, Perlmutter, Feedback integrators for nonholonomic mechanical systems (2018), §3.4; Bloch (2003), §1.4.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, cylinder, ground, planar, shifted, turned
from geonh.geometry.distribution import Distribution
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.stack([parameters["J"], parameters["m"], parameters["m"], parameters["I"]])


def _forms(x: Any, parameters: Any) -> list:
    return [[0.0, 1.0, 0.0, -parameters["R"]], [0.0, 0.0, 1.0, 0.0]]


def _rates(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return xi[jnp.array([0, 3])]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the disk upright, turned by its rolling angle; and the path of its contact."""
    (theta, x, y), (psi,) = g
    R, here = float(parameters["R"]), planar(theta, x, y)
    disk = cylinder(R, 0.08 * R, "y")
    return [
        Body("disk", disk, at=here @ shifted(z=R) @ turned("y", psi)),
        Body("contact", at=here, trace=[0, 0, 0]),
        Body("ground", ground()),
    ]


@validated
def vertical_disk(m: float = 1.0, J: float = 0.25, I: float = 0.5, R: float = 1.0) -> System:  # noqa: E741
    """Vertical rolling disk on SE(2)×S¹, reduced.

    Parameters
    ----------
    m : float
        Mass, kg.
    J, I : float
        Moment of inertia about a diameter, kg m²; that about the axle, kg m².
    R : float
        Radius, m.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, ψ̇): body velocity, and rate of rolling.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((SE2(), Torus(1, ("psi",)))),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m, J=J, I=I, R=R),
        base="point",
        first_integrals={"turning and rolling rates": FirstIntegral(_rates, "constant; GNI: O(h²), no drift")},
        draw=draw,
        name="vertical-disk",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[Any, np.ndarray]:
    """Exact solution; needs ω ≠ 0."""
    (theta0, x0, y0), (psi0,) = (np.zeros(3), np.zeros(1)) if start.g0 is None else start.g0
    omega, u, _, psi_dot = start.xi0
    theta = theta0 + omega * np.asarray(t)
    x = x0 + u / omega * (np.sin(theta) - np.sin(theta0))
    y = y0 - u / omega * (np.cos(theta) - np.cos(theta0))
    psi = psi0 + psi_dot * np.asarray(t)
    return (np.stack([theta, x, y], axis=1), psi[:, None]), np.tile(start.xi0, (len(theta), 1))


ENTRY = Entry(
    name="vertical-disk",
    build=vertical_disk,
    title="upright disk rolling on a plane",
    known_as="Vertical rolling disk",
    constraints="ẋ = Rψ̇ cos θ, ẏ = Rψ̇ sin θ",
    conserved={
        "energy": "GNI: at p⁻ to rounding; SymmetricProjection: to rounding",
        "turning and rolling rates": "constant; GNI: O(h²), no drift; SymmetricProjection: to rounding",
    },
    source="Chang, Perlmutter 2018, §3.4",
    start=lambda system: Start(None, np.array([0.5, float(system.parameters["R"]) * 1.0, 0.0, 1.0])),
    dt=0.05,
    n_steps=250,
    exact=exact,
)

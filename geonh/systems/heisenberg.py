r"""The Heisenberg system: a free particle on the contact distribution ż = yẋ − xẏ, and its left-invariant relative.

**On R³** (``heisenberg``) L = ½m|q̇|² with the form e = (−y, x, 1). Along any motion e·q̈ = 0 already, so the multiplier
vanishes and the particle runs straight, uniformly, along lines that lie on the distribution. Kept are p, hence p_z and
J₂ = xp_y − yp_x, and J₁ = e·p = 0.

**On the Heisenberg group** (``heisenberg_group``), (x, y, z)(x', y', z') = (x + x', y + y', z + z' + ½(xy' − yx')), the
distribution becomes left-invariant, w = ż − ½(xẏ − yẋ) = 0 (the R³ coordinate is −2z): z is the area that the path in
the plane sweeps. With the left-invariant ℓ = ½m(u² + v²) + ½I w² + (a u + b v) w, where (u, v) = (ẋ, ẏ), it is the
problem of Suslov on this group. The speed s is constant and the heading turns at a rate that is linear in the
velocity: with (u, v) = s(cos ϑ, sin ϑ), c = √(a² + b²), ϑ_c = atan2(b, a),

    mϑ̇ = (a u + b v) = c s cos(ϑ − ϑ_c),   sin(ϑ − ϑ_c) = tanh A(t − t₀),   A = cs/m.

In the frame of ϑ_c the path in the plane is the catenary of equal strength, x' = (s/A)(gd τ − gd τ₀),
y' = (s/A) ln(cosh τ/cosh τ₀), τ = A(t − t₀): every motion turns from one direction to the opposite one. With a = b = 0
it is straight and uniform.

On the group GNI keeps the energy at p⁻ to rounding, but the final heading is unstable under it: while the heading
settles, the part of p⁻ along w, which alternates in sign from node to node, grows like e^{At}, from O(h²)
(``start="average"``) or O(h⁴) (``start="multiplier"``), and finally reverses the heading.

Source: Chang, Perlmutter, Feedback integrators for nonholonomic mechanical systems (2018), §3.6, e = (−y, x, 1); Bloch
(2003), §1.8. Left-invariant systems on groups: Fedorov, Zenkov (2005).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body
from geonh.geometry.distribution import Distribution
from geonh.groups import Heisenberg, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive, quadrature
from geonh.systems.nonholonomic_particle import particle


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["m"] * jnp.ones(3)


def _forms(x: Any, parameters: Any) -> list:
    return [[-x[1], x[0], 1.0]]


def _angular_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return g[0] * p[1] - g[1] * p[0]


def _momentum_z(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[2]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the particle, and a piece of the plane of admissible velocities."""
    return particle(g, jnp.stack([-g[1], g[0], 1.0]))


@validated
def heisenberg(m: float = 1.0) -> System:
    """Heisenberg system on R³, base (x, y).

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
        base=("x", "y"),
        first_integrals={
            "angular momentum": FirstIntegral(_angular_momentum, "J₂ = xp_y − yp_x: rounding"),
            "p_z": FirstIntegral(_momentum_z, "rounding"),
        },
        draw=draw,
        name="heisenberg",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact solution: uniform motion."""
    q0 = np.zeros(3) if start.g0 is None else np.asarray(start.g0)
    return q0 + np.asarray(t)[:, None] * start.xi0, np.tile(start.xi0, (len(t), 1))


# --- left-invariant, on the group ------------------------------------------------------------------------------
def _group_metric(x: Any, parameters: Any) -> list:
    zero = 0.0 * parameters["m"]
    return [
        [parameters["m"], zero, parameters["a"]],
        [zero, parameters["m"], parameters["b"]],
        [parameters["a"], parameters["b"], parameters["I"]],
    ]


def draw_on_group(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the particle over the plane, the area as its height, and a piece of the plane of admissible velocities."""
    return particle(g, jnp.stack([0.5 * g[1], -0.5 * g[0], 1.0]))


@validated
def heisenberg_group(m: float = 1.0, I: float = 1.0, a: float = 0.0, b: float = 0.5) -> System:  # noqa: E741
    """Left-invariant system on the Heisenberg group, reduced (base point trivial).

    Parameters
    ----------
    m : float
        Mass in the plane, kg.
    I : float
        Inertia of the motion w across the distribution, kg/m² (z is an area).
    a, b : float
        Inertia that couples w with ẋ, kg/m; inertia that couples w with ẏ, kg/m, where a² + b² < mI.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, w), w = ż − ½(xẏ − yẋ).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one of ``m``, ``I`` and mI − a² − b² is not positive.
    """
    coupling = {"a": as_float64(a, "a"), "b": as_float64(b, "b")}
    parameters = {**positive(m=m, I=I), **coupling}
    positive(**{"mI − a² − b²": parameters["m"] * parameters["I"] - coupling["a"] ** 2 - coupling["b"] ** 2})
    return System(
        Heisenberg(),
        metric=_group_metric,
        distribution=Distribution(forms=[[0.0, 0.0, 1.0]]),
        parameters=parameters,
        base="point",
        draw=draw_on_group,
        name="heisenberg-group",
    )


def exact_on_group(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact solution: the plane in closed form, the area z by quadrature; t of shape=[N], increasing."""
    m, a, b = (float(system.parameters[name]) for name in ("m", "a", "b"))
    t = np.asarray(t, dtype=np.float64)
    g0 = np.zeros(3) if start.g0 is None else np.asarray(start.g0)
    speed, c, centre = np.hypot(*start.xi0[:2]), np.hypot(a, b), np.arctan2(b, a)
    rate = c * speed / m
    across = np.array([[np.cos(centre), -np.sin(centre)], [np.sin(centre), np.cos(centre)]])
    offset = np.arctan2(start.xi0[1], start.xi0[0]) - centre
    branch = -1.0 if np.cos(offset) < 0 else 1.0
    tau0 = np.arctanh(np.sin(offset))

    def plane(s: Any) -> tuple[np.ndarray, np.ndarray]:
        if rate == 0.0:
            return g0[:2] + np.multiply.outer(s, start.xi0[:2]), np.multiply.outer(np.ones_like(s), start.xi0[:2])
        tau = rate * np.asarray(s) + tau0
        along = branch * (np.arctan(np.sinh(tau)) - np.arctan(np.sinh(tau0)))
        path = np.stack([along, np.log(np.cosh(tau) / np.cosh(tau0))], axis=-1) * speed / rate
        velocity = speed * np.stack([branch / np.cosh(tau), np.tanh(tau)], axis=-1)
        return g0[:2] + path @ across.T, velocity @ across.T

    def area_rate(s: float) -> float:
        (x, y), (u, v) = plane(s)
        return 0.5 * (x * v - y * u)

    path, velocity = plane(t)
    return np.column_stack([path, quadrature(area_rate, t, g0[2])]), np.column_stack([velocity, np.zeros(len(t))])


ENTRIES = (
    Entry(
        name="heisenberg",
        build=heisenberg,
        title="free particle with ż = yẋ − xẏ",
        known_as="Heisenberg system (Brockett integrator)",
        constraints="ż − yẋ + xẏ = 0",
        conserved={
            "energy": "GNI and SymmetricProjection: to rounding (the whole motion is exact)",
            "angular momentum": "J₂ = xp_y − yp_x; GNI and SymmetricProjection: to rounding",
            "p_z": "GNI and SymmetricProjection: to rounding",
        },
        source="Chang, Perlmutter 2018, §3.6",
        start=lambda system: Start(np.array([0.5, -0.25, 0.0]), np.array([1.0, 0.5, -0.5])),
        dt=0.05,
        n_steps=200,
        exact=exact,
    ),
    Entry(
        name="heisenberg-group",
        build=heisenberg_group,
        title="left-invariant motion on the Heisenberg group, without w",
        known_as="Heisenberg group",
        constraints="w = ż − ½(xẏ − yẋ) = 0",
        conserved={
            "energy": "½m(ẋ² + ẏ²); GNI: at p⁻ to rounding; at p̃ O(h²) while the part of p⁻ along w is small; "
            "SymmetricProjection: to rounding"
        },
        source="left-invariant systems: Fedorov, Zenkov 2005; distribution: Chang, Perlmutter 2018, §3.6",
        start=lambda system: Start(None, np.array([0.5, -1.0, 0.0])),
        dt=0.02,
        n_steps=400,
        exact=exact_on_group,
    ),
)

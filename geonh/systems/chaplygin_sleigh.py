r"""The Chaplygin sleigh: a rigid body on a plane, resting on two sliding feet and one knife edge.

The knife edge stands at (x, y) and points along the body's first axis; the centre of mass lies on that axis, at a
distance a ahead of it. With ξ = (ω, u, v), the body velocity of the contact point,

    ℓ = ½(I + ma²)ω² + ½m(u² + v²) + m a ω v,   constraint v = 0,

left-invariant on SE(2). The straight motion with the mass ahead of the edge attracts all others:
u = U tanh k(t − t₀), ω = W sech k(t − t₀), U² = 2E/m, W² = 2E/(I + ma²), k = a√(2Em)/(I + ma²).

Source: Ferraro, Iglesias, Martín de Diego (2008), example 3; mathematics.md §7, system 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.drawing import Body, ball, box, cylinder, ground, planar, prism, shifted
from geonh.geometry.distribution import Distribution
from geonh.groups import SE2
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, positive, quadrature


def _metric(x: Any, parameters: Any) -> list:
    m, inertia, a = parameters["m"], parameters["I"], parameters["a"]
    zero = 0.0 * m
    return [[inertia + m * a**2, zero, m * a], [zero, m, zero], [m * a, zero, m]]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the body on its two feet, the knife edge below it, the mass ahead of the edge."""
    theta, x, y = g
    a, here = float(parameters["a"]), planar(theta, x, y)
    feet = [cylinder(0.12 * a, 0.4 * a).moved(1.8 * a, side * a, 0.2 * a) for side in (1, -1)]
    blade = box(0.9 * a, 0.08 * a, 0.4 * a).moved(0, 0, 0.2 * a)
    body = prism(a * np.array([[-0.5, -0.2], [2.0, -1.2], [2.0, 1.2], [-0.5, 0.2]]), 0.2 * a).moved(0, 0, 0.5 * a)
    return [
        Body("body", [body, *feet], at=here),
        Body("knife edge", blade, at=here, trace=[0, 0, 0]),
        Body("mass", ball(0.25 * a, 12), at=here @ shifted(a, 0, 0.75 * a)),
        Body("ground", ground()),
    ]


@validated
def chaplygin_sleigh(m: float = 1.0, I: float = 1.0, a: float = 0.2) -> System:  # noqa: E741
    """Chaplygin sleigh on SE(2), reduced (base point trivial).

    Parameters
    ----------
    m : float
        Mass, kg.
    I : float
        Moment of inertia about the centre of mass, kg m².
    a : float
        Distance from the knife edge to the centre of mass, m.

    Returns
    -------
    System
        With ξ = (ω, u, v): angular velocity, velocity along and across the edge.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    parameters = positive(m=m, I=I, a=a)
    return System(
        SE2(),
        metric=_metric,
        distribution=Distribution(forms=[[0.0, 0.0, 1.0]]),
        parameters=parameters,
        base="point",
        draw=draw,
        name="chaplygin-sleigh",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Velocities in closed form, the heading by the Gudermannian, the position by quadrature; t of shape=[N]."""
    m, inertia, a = (float(system.parameters[name]) for name in ("m", "I", "a"))
    total = inertia + m * a**2
    omega0, u0, _ = start.xi0
    energy = 0.5 * total * omega0**2 + 0.5 * m * u0**2
    U, W = np.sqrt(2 * energy / m), np.sign(omega0) * np.sqrt(2 * energy / total)
    k = a * np.sqrt(2 * energy * m) / total
    theta0, x0, y0 = (0.0, 0.0, 0.0) if start.g0 is None else start.g0
    t0 = -np.arctanh(u0 / U) / k

    def heading(s: Any) -> Any:
        return theta0 + W / k * 2 * (np.arctan(np.tanh(k * (s - t0) / 2)) - np.arctan(np.tanh(-k * t0 / 2)))

    def slope(s: float) -> np.ndarray:
        return U * np.tanh(k * (s - t0)) * np.array([np.cos(heading(s)), np.sin(heading(s))])

    position = quadrature(slope, t, np.array([x0, y0]))
    g = np.concatenate([np.asarray(heading(t))[:, None], position], axis=1)
    phase = k * (np.asarray(t) - t0)
    return g, np.stack([W / np.cosh(phase), U * np.tanh(phase), np.zeros_like(phase)], axis=1)


ENTRY = Entry(
    name="chaplygin-sleigh",
    build=chaplygin_sleigh,
    title="body on a knife edge",
    known_as="Chaplygin sleigh",
    constraints="v = 0 (no sliding across the edge)",
    conserved={"energy": "GNI: at p⁻ to rounding; SymmetricProjection: to rounding"},
    source="Ferraro, Iglesias, Martín de Diego 2008, example 3",
    start=lambda system: Start(None, np.array([0.8, -0.5, 0.0])),
    dt=0.01,
    method="gni",
    n_steps=1000,
    exact=exact,
)

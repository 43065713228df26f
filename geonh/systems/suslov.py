r"""The Suslov problem: a rigid body about a fixed point that cannot turn about a body-fixed axis a.

On SO(3) with ℓ = ½ΩᵀJΩ and a·Ω = 0, left-invariant: the base is a point.

Figure: a body held at a fixed point by a sharp wheel that runs along the inside of a sphere. Unless a is a principal
axis, the motion runs from one steady rotation to the opposite one. In body axes with a = e₃ and J₁₂ = 0,

    J₁₁Ω̇₁ = −Ω₂(J₁₃Ω₁ + J₂₃Ω₂),   J₂₂Ω̇₂ = Ω₁(J₁₃Ω₁ + J₂₃Ω₂),   Ω₃ = 0,

    Ω₁ = √(2E/J₁₁) cos ϑ,  Ω₂ = √(2E/J₂₂) sin ϑ,  sin(ϑ − ϑ_c) = tanh A(t − t₀),
    A = √(2E) √(J₁₃²/J₁₁ + J₂₃²/J₂₂) / √(J₁₁J₂₂),   ϑ_c = atan2(J₂₃/√J₂₂, J₁₃/√J₁₁),

where cos(ϑ − ϑ_c) = ±sech A(t − t₀) keeps its sign. Any J and a come to this by a rotation of the body axes.

GNI keeps the energy at p⁻ to O(h²), without drift, but the steady rotation is unstable under it: near it the part
of p⁻ along a, which alternates in sign from node to node, grows like e^{At}, as fast as the rest decays. When it has
reached the size of p (after some 37/A if it starts from rounding) the rotation reverses again. Gauss collocation, the
default of ``solve``, and the symmetric projection have no such part and stay steady.

Default: J = [[1,0,0],[0,1,1],[0,1,2]], a = e₃, Π(0) = (0,1,1), where Π₁ = −tanh t, Π₂ = Π₃ = sech t.

Source: Chang, Perlmutter, Feedback integrators for nonholonomic mechanical systems (2018), §3.1; Suslov (1946).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, along, axes, ball, cylinder, line
from geonh.geometry.distribution import Distribution
from geonh.groups import SO3
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, positive
from geonh.systems.rolling_ball import attitude

_J = ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 2.0))


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["J"]


def _forms(x: Any, parameters: Any) -> Any:
    return parameters["a"][None, :]


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the body's ellipsoid of inertia and axes, and the constrained axis a, which leaves a trace."""
    moments, principal = np.linalg.eigh(np.asarray(parameters["J"]))
    semi = 0.6 * np.sqrt(moments[0] / moments)
    a = along(parameters["a"], np.zeros(3), axis="z")
    turned = principal * np.linalg.det(principal)
    wheel = [line([[0, 0, 0], [0, 0, 1]]), cylinder(0.02, 1.0).moved(z=0.5), cylinder(0.1, 0.02, "x").moved(z=1.0)]
    return [
        Body("body", ball(semi), at=Pose(g @ turned, jnp.zeros(3))),
        Body("axis a", wheel, at=Pose(g @ a.R, jnp.zeros(3)), trace=[0, 0, 1]),
        Body("body axes", axes(0.9), at=Pose(g, jnp.zeros(3))),
    ]


@validated
def suslov(J: Any = _J, a: Any = (0.0, 0.0, 1.0)) -> System:
    """Suslov problem on SO(3), reduced (base point trivial).

    Parameters
    ----------
    J : array_like, shape=[3, 3]
        Inertia matrix about the fixed point, kg m².
    a : array_like, shape=[3]
        Body axis about which the body cannot turn, of any length.

    Returns
    -------
    System
        With ξ = Ω, the body angular velocity, and p = Π = JΩ.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If one moment of ``J`` is not positive, ``J`` is not symmetric, ``a`` is zero, or a shape does not fit.
    """
    inertia, axis = as_float64(J, "J"), as_float64(a, "a")
    if inertia.shape != (3, 3) or not np.allclose(inertia, inertia.T, rtol=1e-12, atol=1e-12 * np.abs(inertia).max()):
        raise ValueError(f"J must be a symmetric 3×3 matrix, got {J}")
    if axis.shape != (3,) or not np.any(axis) or not np.all(np.isfinite(axis)):
        raise ValueError(f"a must be a vector of 3 entries, not all zero, got {a}")
    positive(J=np.linalg.eigvalsh(inertia))
    return System(
        SO3(),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters={"J": inertia, "a": axis},
        base="point",
        draw=draw,
        name="suslov",
    )


def adapted_axes(J: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Rotation whose columns are body axes with the third along a, in which J₁₂ = 0; shape=[3, 3]."""
    third = a / np.linalg.norm(a)
    first = np.linalg.svd(third[None, :])[2][1]
    plane = np.stack([first, np.cross(third, first)], axis=1)
    first = plane @ np.linalg.eigh(plane.T @ J @ plane)[1][:, 0]
    return np.stack([first, np.cross(third, first), third], axis=1)


def angular_velocity(system: System, start: Start, t: Any) -> np.ndarray:
    """Ω(t) in closed form, shape=[N, 3]."""
    axes = adapted_axes(np.asarray(system.parameters["J"]), np.asarray(system.parameters["a"]))
    J, omega = axes.T @ np.asarray(system.parameters["J"]) @ axes, axes.T @ np.asarray(start.xi0)
    energy = 0.5 * omega @ J @ omega
    if energy == 0.0:
        return np.zeros((len(t), 3))
    scale = np.sqrt(2 * energy / np.array([J[0, 0], J[1, 1]]))
    rate = np.sqrt(2 * energy * (J[0, 2] ** 2 / J[0, 0] + J[1, 2] ** 2 / J[1, 1]) / (J[0, 0] * J[1, 1]))
    centre = np.arctan2(J[1, 2] / np.sqrt(J[1, 1]), J[0, 2] / np.sqrt(J[0, 0]))
    offset = np.arctan2(omega[1] / scale[1], omega[0] / scale[0]) - centre
    branch = -1.0 if np.cos(offset) < 0 else 1.0
    with np.errstate(divide="ignore", over="ignore"):
        phase = rate * np.asarray(t) + np.arctanh(np.clip(np.sin(offset), -1.0, 1.0))
        turned = centre + np.arctan2(np.tanh(phase), branch / np.cosh(phase))
    return np.stack([scale[0] * np.cos(turned), scale[1] * np.sin(turned), np.zeros_like(turned)], axis=1) @ axes.T


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact solution: angular velocity in closed form, attitude from Ṙ = RΩ̂(t) with the known Ω; t of shape=[N]."""
    t = np.asarray(t, dtype=np.float64)
    R0 = np.eye(3) if start.g0 is None else np.asarray(start.g0)
    inverse = attitude(lambda s: -angular_velocity(system, start, np.atleast_1d(s))[0], t)
    return R0 @ np.swapaxes(inverse, 1, 2), angular_velocity(system, start, t)


ENTRY = Entry(
    name="suslov",
    build=suslov,
    title="rigid body that cannot turn about a body axis",
    known_as="Suslov problem",
    constraints="a·Ω = 0",
    conserved={
        "energy": "GNI: at p⁻ O(h²), no drift; at p̃ as long as the alternating part of p⁻ is small; "
        "SymmetricProjection: O(h²), no drift"
    },
    source="Chang, Perlmutter 2018, §3.1; Suslov 1946",
    start=lambda system: Start(None, system.project(None, np.array([0.0, 1.0, 0.0]))),
    dt=0.05,
    n_steps=400,
    exact=exact,
)

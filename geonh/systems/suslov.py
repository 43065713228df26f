r"""The Suslov problem: a rigid body about a fixed point that cannot turn about a body-fixed axis a.

On SO(3) with ℓ = ½ΩᵀJΩ and a·Ω = 0, left-invariant. For a = e₃ and J₁₂ = 0 the motion runs from one steady rotation to
the opposite one:

    Ω₁ = √(2E/J₁₁) cos ϑ,  Ω₂ = √(2E/J₂₂) sin ϑ,  sin(ϑ − ϑ_c) = tanh A(t − t₀),
    A = √(2E) √(J₁₃²/J₁₁ + J₂₃²/J₂₂) / √(J₁₁J₂₂),   ϑ_c = atan2(J₂₃/√J₂₂, J₁₃/√J₁₁).

Default: J = [[1,0,0],[0,1,1],[0,1,2]], Π(0) = (0,1,1), where Π₁ = −tanh t, Π₂ = Π₃ = sech t.

Source: Chang, Perlmutter (2018), §3.1; Suslov (1946).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.geometry.distribution import Distribution
from geonh.groups import SO3
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, body_axes, positive

_J = ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 2.0))


def _metric(x: Any, p: Any) -> Any:
    return p["J"]


def _forms(x: Any, p: Any) -> Any:
    return p["a"][None, :]


def suslov(J: Any = _J, a: Any = (0.0, 0.0, 1.0)) -> System:
    """Suslov problem on SO(3), reduced.

    Parameters
    ----------
    J : array_like, shape=[3, 3]
        Inertia matrix, kg m².
    a : array_like, shape=[3]
        Body axis about which the body cannot turn.
    """
    inertia, axis = np.asarray(J, dtype=np.float64), np.asarray(a, dtype=np.float64)
    if inertia.shape != (3, 3) or not np.allclose(inertia, inertia.T):
        raise ValueError(f"J must be a symmetric 3×3 matrix, got {J}")
    if axis.shape != (3,) or not np.any(axis):
        raise ValueError(f"a must be a vector of 3 entries, not all zero, got {a}")
    positive(J=np.linalg.eigvalsh(inertia))
    return System(
        SO3(),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters={"J": inertia, "a": axis},
        base="point",
        name="suslov",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[None, np.ndarray]:
    """Angular velocity in closed form, for a = e₃ and J₁₂ = 0."""
    J, a = np.asarray(system.parameters["J"]), np.asarray(system.parameters["a"])
    if not (np.allclose(a[:2], 0) and np.isclose(J[0, 1], 0)):
        raise ValueError("the closed form needs a along the third axis and J₁₂ = 0")
    omega = np.asarray(start.xi0)
    energy = 0.5 * omega @ J @ omega
    scale = np.sqrt(2 * energy / np.array([J[0, 0], J[1, 1]]))
    rate = np.sqrt(2 * energy * (J[0, 2] ** 2 / J[0, 0] + J[1, 2] ** 2 / J[1, 1]) / (J[0, 0] * J[1, 1]))
    centre = np.arctan2(J[1, 2] / np.sqrt(J[1, 1]), J[0, 2] / np.sqrt(J[0, 0]))
    offset = np.arctan2(omega[1] / scale[1], omega[0] / scale[0]) - centre
    # the attracting branch is cos(ϑ − ϑ_c) > 0; the mirror image on the other branch runs the same way
    branch = np.sign(np.cos(offset))
    phase = branch * rate * np.asarray(t) + np.arctanh(np.sin(offset))
    turned = centre + np.arctan2(np.tanh(phase), branch / np.cosh(phase))
    return None, np.stack([scale[0] * np.cos(turned), scale[1] * np.sin(turned), np.zeros_like(turned)], axis=1)


def draw(system: System, g: Any) -> dict[str, np.ndarray]:
    """The body's axes."""
    return body_axes(np.asarray(g), np.zeros(3))


ENTRY = Entry(
    name="suslov",
    build=suslov,
    title="rigid body that cannot turn about a body axis",
    parameters={"J": "kg m², symmetric 3×3 inertia matrix", "a": "the forbidden body axis"},
    constraints="a·Ω = 0",
    conserved={"energy": "GNI: O(h²)"},
    source="Chang, Perlmutter 2018, §3.1",
    start=lambda system: Start(None, system.project(None, np.array([0.0, 1.0, 0.0]))),
    dt=0.05,
    n_steps=400,
    exact=exact,
    draw=draw,
)

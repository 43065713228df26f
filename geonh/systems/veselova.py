r"""The Veselova system: a rigid body about a fixed point without angular velocity about the vertical.

On SO(3) with ℓ = ½ΩᵀJΩ and the constraint γ·Ω = 0, where γ = Rᵀe₃ is the vertical seen from the body: left-invariant
Lagrangian, right-invariant constraint, with base S² ∋ γ. With M = JΩ,

    Ṁ = M×Ω + λγ,   γ̇ = γ×Ω,   λ = −(γ·J⁻¹(M×Ω))/(γ·J⁻¹γ).

Figure: Suslov's wheel, but held by the room instead of the body. The constraint moment stands vertical, so the two
horizontal components of the spatial angular momentum RJΩ are kept, with the energy; and |γ| = 1, γ·Ω = 0. The motion is
integrable (Veselov, Veselova 1988: after a change of time, Neumann's motion of γ on the sphere). For J a multiple of 1
it is a steady rotation about a horizontal axis.

Source: Veselov, Veselova, Integrable nonholonomic systems on Lie groups (1988); Fedorov, Jovanović (2004).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, axes, ball, line
from geonh.geometry.action import AdvectedVector
from geonh.geometry.distribution import Distribution
from geonh.groups import SO3
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["J"]


def _forms(x: Any, parameters: Any) -> Any:
    return x[None, :]


def _horizontal(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return jnp.sum(g[:2] * p, axis=1)


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the ellipsoid of inertia of the body with its axes, of which the third leaves a trace, and the vertical."""
    J = np.asarray(parameters["J"])
    return [
        Body("body", [ball(0.6 * np.sqrt(J.min() / J)), *axes(0.9)], at=Pose(g, jnp.zeros(3)), trace=[0, 0, 0.9]),
        Body("vertical", line([[0, 0, -1], [0, 0, 1]])),
    ]


@validated
def veselova(J: Any = (1.0, 1.5, 2.0)) -> System:
    """Veselova system on SO(3), base γ ∈ S².

    Parameters
    ----------
    J : array_like, shape=[3]
        Principal moments of inertia about the fixed point, kg m².

    Returns
    -------
    System
        With ξ = Ω, the body angular velocity.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not positive, or there are not three.
    """
    if as_float64(J, "J").shape != (3,):
        raise ValueError(f"J must be three principal moments, got {J}")
    group = SO3()
    return System(
        group,
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(J=J),
        base=AdvectedVector(group, (0.0, 0.0, 1.0)),
        first_integrals={"horizontal momentum": FirstIntegral(_horizontal, "(RJΩ)₁, (RJΩ)₂: rounding")},
        draw=draw,
        name="veselova",
    )


def _start(system: System) -> Start:
    return Start(np.eye(3), system.project(np.eye(3), np.array([1.0, -0.6, 0.0])))


ENTRY = Entry(
    name="veselova",
    build=veselova,
    title="rigid body without spin about the vertical",
    known_as="Veselova system",
    constraints="γ·Ω = 0 with γ = Rᵀe₃",
    conserved={
        "horizontal momentum": "(RJΩ)₁, (RJΩ)₂; GNI and SymmetricProjection: to rounding",
        "energy": "GNI and SymmetricProjection: O(h²); to rounding, at p⁻ and at p̃, if J is a multiple of 1",
    },
    source="Veselov, Veselova 1988; Fedorov, Jovanović 2004",
    start=_start,
    dt=0.05,
    n_steps=1000,
)

r"""The Veselova system: a rigid body about a fixed point without angular velocity about the vertical.

On SO(3) with ℓ = ½ΩᵀJΩ and the constraint γ·Ω = 0, where γ = Rᵀe₃ is the vertical seen from the body: an LR system
(left-invariant Lagrangian, right-invariant constraint), with base S² ∋ γ. The two horizontal components of the spatial
angular momentum RJΩ are kept.

Source: Veselov, Veselova (1988); Fedorov, Jovanović (2004).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.geometry.action import AdvectedVector
from geonh.geometry.distribution import Distribution
from geonh.groups import SO3
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, body_axes, positive


def _metric(x: Any, p: Any) -> Any:
    return p["J"]


def _forms(x: Any, p: Any) -> Any:
    return x[None, :]


def _horizontal(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return jnp.sum(g[:2] * p, axis=1)


def veselova(J: Any = (1.0, 1.5, 2.0)) -> System:
    """Veselova system on SO(3), base γ.

    Parameters
    ----------
    J : array_like, shape=[3]
        Principal moments of inertia, kg m².
    """
    group = SO3()
    return System(
        group,
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(J=J),
        base=AdvectedVector(group, (0.0, 0.0, 1.0)),
        first_integrals={"horizontal momentum": FirstIntegral(_horizontal, "(RJΩ)₁,₂: rounding")},
        name="veselova",
    )


def _start(system: System) -> Start:
    return Start(np.eye(3), system.project(np.eye(3), np.array([1.0, -0.6, 0.0])))


def draw(system: System, g: Any) -> dict[str, np.ndarray]:
    """The body's axes."""
    return body_axes(np.asarray(g), np.zeros(3))


ENTRY = Entry(
    name="veselova",
    build=veselova,
    title="rigid body without spin about the vertical",
    parameters={"J": "kg m², principal moments"},
    constraints="γ·Ω = 0 with γ = Rᵀe₃",
    conserved={"horizontal momentum": "GNI: to rounding", "energy": "GNI: O(h²)"},
    source="Veselov, Veselova 1988",
    start=_start,
    dt=0.05,
    n_steps=1000,
    draw=draw,
)

r"""The heavy top: a rigid body about a fixed point under gravity. No constraint.

On SO(3) with ℓ = ½ΩᵀJΩ − m g l γ·χ, γ = Rᵀe₃ the vertical seen from the body, χ the unit vector to the centre of mass:
the action groupoid S² ⋊ SO(3), Ṗ = P×Ω + m g l γ×χ, γ̇ = γ×Ω. The momentum about the vertical is kept, and for
Lagrange's top (J₁ = J₂, χ = e₃) that about the symmetry axis.

Source: Marrero, Martín de Diego, Martínez (2006), heavy top as an action groupoid; Bobenko, Suris (1999).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.geometry.action import AdvectedVector
from geonh.groups import SO3
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, body_axes, positive


def _metric(x: Any, p: Any) -> Any:
    return p["J"]


def _potential(x: Any, p: Any) -> Any:
    return p["mgl"] * jnp.sum(x * p["chi"])


def _vertical(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return jnp.sum(g[2] * p)


def heavy_top(J: Any = (1.0, 1.0, 0.5), mgl: float = 1.0, chi: Any = (0.0, 0.0, 1.0)) -> System:
    """Heavy top on SO(3), base γ.

    Parameters
    ----------
    J : array_like, shape=[3]
        Principal moments about the fixed point, kg m².
    mgl : float
        Mass times gravity times distance to the centre of mass, N m.
    chi : array_like, shape=[3]
        Direction of the centre of mass in the body.
    """
    group, axis = SO3(), np.asarray(chi, dtype=np.float64)
    if axis.shape != (3,) or not np.any(axis):
        raise ValueError(f"chi must be a vector of 3 entries, not all zero, got {chi}")
    return System(
        group,
        metric=_metric,
        potential=_potential,
        parameters={**positive(J=J, mgl=mgl), "chi": axis / np.linalg.norm(axis)},
        base=AdvectedVector(group, (0.0, 0.0, 1.0)),
        first_integrals={"vertical momentum": FirstIntegral(_vertical, "Noether: rounding")},
        name="heavy-top",
    )


def _start(system: System) -> Start:
    c, s = np.cos(0.5), np.sin(0.5)
    return Start(np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]), np.array([0.1, 0.2, 4.0]))


def draw(system: System, g: Any) -> dict[str, np.ndarray]:
    """The body's axes."""
    return body_axes(np.asarray(g), np.zeros(3))


ENTRY = Entry(
    name="heavy-top",
    build=heavy_top,
    title="rigid body about a fixed point under gravity",
    parameters={"J": "kg m², principal moments", "mgl": "N m", "chi": "direction of the centre of mass"},
    constraints="none",
    conserved={"vertical momentum": "GNI and Variational: to rounding", "energy": "O(h²), no drift"},
    source="Marrero, Martín de Diego, Martínez 2006",
    start=_start,
    dt=0.02,
    n_steps=1000,
    draw=draw,
)

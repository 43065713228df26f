r"""The Heisenberg system: a free particle in space with ż = yẋ − xẏ.

L = ½m|q̇|² on R³ with the contact form dz − y dx + x dy. The constraint force vanishes and the motion is uniform:
straight lines that lie on the distribution.

Source: Chang, Perlmutter (2018), §3.6, e = (−y, x, 1).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.geometry.distribution import Distribution
from geonh.groups import Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, p: Any) -> Any:
    return p["m"] * jnp.ones(3)


def _forms(x: Any, p: Any) -> list:
    return [[-x[1], x[0], 1.0]]


def _angular_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return g[0] * p[1] - g[1] * p[0]


def _momentum_z(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[2]


def heisenberg(m: float = 1.0) -> System:
    """Heisenberg system on R³, base (x, y).

    Parameters
    ----------
    m : float
        Mass, kg.
    """
    return System(
        Translations(3),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        parameters=positive(m=m),
        base=("x", "y"),
        first_integrals={
            "angular momentum": FirstIntegral(_angular_momentum, "about z: rounding"),
            "p_z": FirstIntegral(_momentum_z, "rounding"),
        },
        name="heisenberg",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Uniform motion."""
    q0 = np.zeros(3) if start.g0 is None else np.asarray(start.g0)
    return q0 + np.asarray(t)[:, None] * start.xi0, np.tile(start.xi0, (len(t), 1))


ENTRY = Entry(
    name="heisenberg",
    build=heisenberg,
    title="free particle with ż = yẋ − xẏ",
    parameters={"m": "kg, mass"},
    constraints="ż − yẋ + xẏ = 0",
    conserved={"energy": "rounding", "angular momentum": "rounding", "p_z": "rounding"},
    source="Chang, Perlmutter 2018, §3.6",
    start=lambda system: Start(np.array([0.5, -0.3, 0.0]), np.array([1.0, 0.4, -0.5])),
    dt=0.05,
    n_steps=200,
    exact=exact,
)

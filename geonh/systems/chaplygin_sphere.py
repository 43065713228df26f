r"""The Chaplygin sphere: a balanced ball with any moments of inertia, rolling on a table that may turn.

(x, y) is the contact point, R the attitude, W the body angular velocity, w = RW the spatial one; the centre of mass is
the ball's centre, the table turns at the rate Ω about the origin. On Q = R²×SO(3) with ℓ = ½m|v|² + ½WᵀJW,

    v = r w×e₃ + Ω e₃×x:   μ¹ = (1, 0; −rRᵀe₂),  μ² = (0, 1; rRᵀe₁),  b = Ω(−y, x),

so with γ = Rᵀe₃, X = Rᵀx, V = Rᵀv and M = JW + mr² γ×(W×γ) the body equations are

    Ṁ = M×W + mrΩV,   γ̇ = γ×W,   Ẋ = X×W + V.

Figure: the contact forces pass through the contact point, so the angular momentum about it, K = RJW + m r e₃×v, stays
is constant in space, three numbers; on a table at rest K = RM, and with the energy and |γ| = 1 the motion is integrable
(Chaplygin 1903). On a turning table the moving energy E − Ω[m(xẏ − yẋ) + e₃·RJW] takes the place of the energy. A
homogeneous ball (J a multiple of 1) is the system ``rolling_ball``, unreduced.

Source: Ferraro, Jiménez, Martín de Diego, New developments on the geometric nonholonomic integrator (2015), §7 (the
parameters of its figures are not known); Chaplygin (1903); moving energy: Fassò, Sansonetto (2015).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body
from geonh.geometry.distribution import AffineDistribution
from geonh.groups import SO3, Product, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive
from geonh.systems.rolling_ball import ball_on_table


def _metric(x: Any, parameters: Any) -> Any:
    J = jnp.diag(parameters["J"]) if jnp.ndim(parameters["J"]) == 1 else parameters["J"]
    plane = jnp.concatenate([parameters["m"] * jnp.eye(2), jnp.zeros((2, 3))], axis=1)
    return jnp.concatenate([plane, jnp.concatenate([jnp.zeros((3, 2)), J], axis=1)])


def _forms(x: Any, parameters: Any) -> Any:
    R, r = x[1], parameters["r"]
    return jnp.concatenate([jnp.eye(2), jnp.stack([-r * R[1], r * R[0]])], axis=1)


def _rhs(x: Any, parameters: Any) -> list:
    return [-parameters["table_rate"] * x[0][1], parameters["table_rate"] * x[0][0]]


def _contact_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    r = parameters["r"]
    return g[1] @ p[2:] + r * jnp.stack([-p[1], p[0], 0.0 * p[0]])


def _moving_energy(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    x, y = g[0]
    return 0.5 * p @ xi - parameters["table_rate"] * (x * p[1] - y * p[0] + g[1][2] @ p[2:])


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the ball on the table, and the path of its contact."""
    return ball_on_table(t, *g, parameters)


@validated
def chaplygin_sphere(m: float = 1.0, r: float = 1.0, J: Any = (0.5, 0.6, 0.8), table_rate: float = 0.3) -> System:
    """Ball with any moments of inertia on a fixed or turning table, on R²×SO(3).

    Parameters
    ----------
    m : float
        Mass, kg.
    r : float
        Radius, m.
    J : array_like, shape=[3] or [3, 3]
        Principal moments, or the inertia matrix, about the centre, kg m².
    table_rate : float
        Ω, rad/s; 0 for a table at rest.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, W): velocity of the contact point and body angular velocity.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If one except ``table_rate`` is not positive, or ``J`` is not symmetric or of another shape.
    """
    inertia = as_float64(J, "J")
    if inertia.shape not in ((3,), (3, 3)):
        raise ValueError(f"J must be 3 principal moments or a 3×3 matrix, got shape {inertia.shape}")
    if not np.allclose(inertia, inertia.T, rtol=1e-12, atol=1e-12 * np.abs(inertia).max()):
        raise ValueError(f"J must be symmetric, got\n{inertia}")
    moments = inertia if inertia.ndim == 1 else np.linalg.eigvalsh(inertia)
    positive(J=moments)
    parameters = {**positive(m=m, r=r), "J": inertia, "table_rate": as_float64(table_rate, "table_rate")}
    return System(
        Product((Translations(2), SO3())),
        metric=_metric,
        distribution=AffineDistribution(forms=_forms, rhs=_rhs),
        parameters=parameters,
        first_integrals={
            "K": FirstIntegral(_contact_momentum, "angular momentum about the contact point in space: rounding"),
            "moving energy": FirstIntegral(_moving_energy, "homogeneous: rounding at p⁻", momentum="minus"),
        },
        draw=draw,
        name="chaplygin-sphere",
    )


def rolling_start(system: System, x0: Any, R0: Any, W0: Any) -> Start:
    """Initial conditions of rolling at contact point x0, attitude R0, body angular velocity W0."""
    r, rate = float(system.parameters["r"]), float(system.parameters["table_rate"])
    w, x = np.asarray(R0) @ W0, np.asarray(x0, dtype=np.float64)
    v = np.array([r * w[1] - rate * x[1], -r * w[0] + rate * x[0]])
    return Start((x, np.asarray(R0)), np.concatenate([v, W0]))


def _start(system: System) -> Start:
    hat = np.array([[0.0, -0.4, -0.2], [0.4, 0.0, -0.3], [0.2, 0.3, 0.0]])
    R0 = np.linalg.solve(np.eye(3) - hat / 2, np.eye(3) + hat / 2)
    return rolling_start(system, [0.2, -0.1], R0, np.array([1.0, -0.5, 0.7]))


ENTRY = Entry(
    name="chaplygin-sphere",
    build=chaplygin_sphere,
    title="ball with any moments of inertia on a turning table",
    known_as="Chaplygin sphere",
    constraints="v = r w×e₃ + Ω e₃×x (affine)",
    conserved={
        "K": "RJW + m r e₃×v, three numbers in space; GNI and SymmetricProjection: to rounding, any J and Ω",
        "moving energy": "E − Ω[m(xẏ − yẋ) + e₃·RJW]; GNI: at p⁻ to rounding if homogeneous, else O(h²); "
        "SymmetricProjection: to rounding if homogeneous, else O(h²)",
    },
    source="Ferraro, Jiménez, Martín de Diego 2015, §7; Chaplygin 1903",
    start=_start,
    dt=0.02,
    method="gni",
    n_steps=2000,
)

r"""A homogeneous ball rolling without sliding on a table that turns, reduced with spatial angular velocity.

(x, y) is the contact point, w the angular velocity in space; the table turns at the rate Ω about the origin. On
R²×SO(3)ᵒᵖ, where w is the reduced velocity, with ℓ = ½m|v|² + ½I|w|²,

    v = r w×e₃ + Ω e₃×x:   ẋ − r w₂ = −Ωy,   ẏ + r w₁ = Ωx.

With z = x + iy and ν = IΩ/(I + mr²) the contact point moves on a circle about a fixed centre, ż = iν(z − z_c). GNI
gives z_{k+1} = z_{k−1} + 2hiν(z_k − z_c), of frequency arcsin(hν)/h.

Source: Martín de Diego (AIMS 2008), rolling ball on a rotating table; Neimark, Fufaev (1972).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, ball, ground, planar, shifted
from geonh.geometry.distribution import AffineDistribution
from geonh.groups import SO3, Opposite, Product, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.stack([parameters["m"], parameters["m"], parameters["I"], parameters["I"], parameters["I"]])


def _forms(x: Any, parameters: Any) -> list:
    r = parameters["r"]
    return [[1.0, 0.0, 0.0, -r, 0.0], [0.0, 1.0, r, 0.0, 0.0]]


def _rhs(x: Any, parameters: Any) -> list:
    return [-parameters["table_rate"] * x[1], parameters["table_rate"] * x[0]]


def _moving_energy(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    x, y = g[0]
    return 0.5 * p @ xi - parameters["table_rate"] * (x * p[1] - y * p[0] + p[4])


def _contact_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    r = parameters["r"]
    return jnp.stack([p[2] - r * p[1], p[3] + r * p[0], p[4]])


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the ball on the table, and the path of its contact."""
    return ball_on_table(t, *g, parameters)


def ball_on_table(t: Any, x: Any, R: Any, parameters: Any) -> list[Body]:
    """Draw a ball of radius r at attitude R over the contact point x, on a table that turns at the rate Ω."""
    r, turns = float(parameters["r"]), float(parameters["table_rate"]) != 0.0
    return [
        Body("ball", ball(r), at=Pose(R, jnp.stack([x[0], x[1], r]))),
        Body("contact", at=shifted(*x), trace=[0, 0, 0]),
        Body("table", ground(turns), at=planar(parameters["table_rate"] * t)),
    ]


@validated
def rolling_ball(
    m: float = 1.0,
    I: float = 0.4,  # noqa: E741
    r: float = 1.0,
    table_rate: float = 1.0,
) -> System:
    """Homogeneous ball on a turning table, on R²×SO(3)ᵒᵖ with base R² (the coordinates x, y).

    Parameters
    ----------
    m : float
        Mass, kg.
    I : float
        Moment of inertia about a diameter, kg m².
    r : float
        Radius, m.
    table_rate : float
        Ω, rad/s; 0 for a table at rest.

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, w): velocity of the contact point and spatial angular velocity.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one except ``table_rate`` is not positive.
    """
    parameters = {**positive(m=m, I=I, r=r), "table_rate": as_float64(table_rate, "table_rate")}
    return System(
        Product((Translations(2), Opposite(SO3()))),
        metric=_metric,
        distribution=AffineDistribution(forms=_forms, rhs=_rhs),
        parameters=parameters,
        base=("x", "y"),
        first_integrals={
            "moving energy": FirstIntegral(_moving_energy, "at p⁻: rounding", momentum="minus"),
            "K": FirstIntegral(_contact_momentum, "angular momentum about the contact: rounding"),
        },
        draw=draw,
        name="rolling-ball",
    )


def exact(system: System, start: Start, t: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Contact point and velocities in closed form, the attitude from Ṙ = ŵ(t)R with the known w; t of shape=[N]."""
    t = np.asarray(t, dtype=np.float64)
    position, xi = contact_path(system, start, t)[0], _velocity(system, start, t)
    R0 = np.eye(3) if start.g0 is None else np.asarray(start.g0[1])
    turned = attitude(lambda s: _velocity(system, start, np.atleast_1d(s))[0, 2:], t)
    return (position, turned @ R0), xi


def _velocity(system: System, start: Start, t: np.ndarray) -> np.ndarray:
    """ξ(t), shape=[N, 5]."""
    position, velocity = contact_path(system, start, t)
    r, rate = float(system.parameters["r"]), float(system.parameters["table_rate"])
    x, y, vx, vy = position[:, 0], position[:, 1], velocity[:, 0], velocity[:, 1]
    spin = np.full_like(vx, start.xi0[4])
    return np.stack([vx, vy, (rate * x - vy) / r, (vx + rate * y) / r, spin], axis=1)


def attitude(w: Callable[[float], np.ndarray], t: np.ndarray) -> np.ndarray:
    """Rotations with Ṙ = ŵ(t)R and R(0) = 1, shape=[N, 3, 3], to about 1e-12."""

    def slope(s: float, q: np.ndarray) -> np.ndarray:
        half = 0.5 * np.asarray(w(s))
        return np.concatenate([[-half @ q[1:]], half * q[0] + np.cross(half, q[1:])])

    q = np.tile([1.0, 0.0, 0.0, 0.0], (len(t), 1))
    for side in (t > 0, t < 0):
        if np.any(side):
            times, places = np.unique(t[side], return_inverse=True)
            order = np.argsort(np.abs(times))
            span, options = (0.0, times[order[-1]]), {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
            attitudes = np.empty((len(times), 4))
            attitudes[order] = scipy.integrate.solve_ivp(
                slope, span, [1.0, 0.0, 0.0, 0.0], t_eval=times[order], **options
            ).y.T
            q[side] = attitudes[places]
    return scipy.spatial.transform.Rotation.from_quat(q[:, [1, 2, 3, 0]]).as_matrix()


def contact_path(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contact point and its velocity, shape=[N, 2] each: the circle ż = iν(z − z_c)."""
    m, inertia, r, rate = (float(system.parameters[name]) for name in ("m", "I", "r", "table_rate"))
    nu = inertia * rate / (inertia + m * r**2)
    z0 = complex(*(np.zeros(2) if start.g0 is None else start.g0[0]))
    v0 = complex(start.xi0[0], start.xi0[1])
    turned = np.exp(1j * nu * np.asarray(t))
    z = z0 + v0 * np.asarray(t) if nu == 0 else z0 + v0 / (1j * nu) * (turned - 1)
    v = v0 * turned
    return np.stack([z.real, z.imag], axis=1), np.stack([v.real, v.imag], axis=1)


def _start(system: System) -> Start:
    g0 = (np.array([0.99, 1.0]), np.eye(3))
    m_r, rate = float(system.parameters["r"]), float(system.parameters["table_rate"])
    v = np.array([1.0, -1.0])
    w = np.array([(rate * g0[0][0] - v[1]) / m_r, (v[0] + rate * g0[0][1]) / m_r, 0.5])
    return Start(g0, np.concatenate([v, w]))


ENTRY = Entry(
    name="rolling-ball",
    build=rolling_ball,
    title="homogeneous ball on a turning table, reduced (spatial angular velocity)",
    known_as="Ball on a turning table",
    constraints="v = r w×e₃ + Ω e₃×x (affine)",
    conserved={
        "moving energy": "E − Ω[m(xẏ − yẋ) + I w₃]; GNI: at p⁻ to rounding; SymmetricProjection: to rounding",
        "K": "angular momentum about the contact point, 3 numbers; GNI and SymmetricProjection: to rounding",
    },
    source="Martín de Diego 2008 (AIMS slides)",
    start=_start,
    dt=0.01,
    method="gni",
    n_steps=2000,
    exact=exact,
)

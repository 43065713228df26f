r"""A spherical robot: Chaplygin's ball, driven by three rotors inside.

(x, y) is the contact point, R the attitude, W the body angular velocity, χ̇ the rates of three balanced rotors about the
body's axes; J is the inertia of the ball with its rotors locked, j the rotors' moments about their axes. On
Q = R²×SO(3)×T³,

    ℓ = ½m|v|² + ½Wᵀ(J − diag j)W + ½Σ jᵢ(Wᵢ + χ̇ᵢ)²,   v = r w×e₃,  w = RW,   f = (0, 0, u)

with torques u between ball and rotors. They are internal, and the contact force passes through the contact, so the
angular momentum about it, three numbers in space,

    K = R(JW + jχ̇) + mr e₃×v,

is kept whatever the motors do. From rest K = 0: the motion of the ball then follows from the rates of the rotors alone.
Without torques each jᵢ(Wᵢ + χ̇ᵢ) stays too.

Source: Borisov, Kilin, Mamaev, *How to control Chaplygin's sphere using rotors*, Regul. Chaotic Dyn. 17 (2012), §2.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, cylinder
from geonh.geometry.distribution import Distribution
from geonh.groups import SO3, Product, Torus, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive
from geonh.systems.rolling_ball import ball_on_table


def _metric(x: Any, parameters: Any) -> Any:
    J, j = jnp.diag(parameters["J"]), jnp.diag(parameters["j"])
    plane = jnp.concatenate([parameters["m"] * jnp.eye(2), jnp.zeros((2, 6))], axis=1)
    return jnp.concatenate([plane, jnp.concatenate([jnp.zeros((6, 2)), jnp.block([[J, j], [j, j]])], axis=1)])


def _forms(x: Any, parameters: Any) -> Any:
    R, r = x[1], parameters["r"]
    return jnp.concatenate([jnp.eye(2), jnp.stack([-r * R[1], r * R[0]]), jnp.zeros((2, 3))], axis=1)


def _torques(t: Any, x: Any, xi: Any, u: Any) -> Any:
    return jnp.concatenate([jnp.zeros(5), u]) if u is not None else jnp.zeros(8)


def _contact_momentum(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    r = parameters["r"]
    return g[1] @ p[2:5] + r * jnp.stack([-p[1], p[0], 0.0 * p[0]])


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the ball on the ground, the path of its contact, and its rotors, above their places on the ball's axes."""
    x, R, chi = g
    r = float(parameters["r"])
    centre, bodies = jnp.stack([x[0], x[1], r]), ball_on_table(t, x, R, {"r": r, "table_rate": 0.0})
    for i, (name, angle) in enumerate(zip("123", chi, strict=True)):
        axis, (c, s) = "xyz"[i], (jnp.cos(angle), jnp.sin(angle))
        a, b = (i + 1) % 3, (i + 2) % 3
        spun = jnp.eye(3).at[a, a].set(c).at[b, b].set(c).at[b, a].set(s).at[a, b].set(-s)
        rotor = cylinder(0.4 * r, 0.1 * r, axis)
        bodies.append(Body(f"rotor {name}", rotor, at=Pose(R @ spun, centre + 1.05 * r * R[:, i])))
    return bodies


@validated
def spherical_robot(
    m: float = 2.0, r: float = 0.15, J: Any = (0.03, 0.032, 0.034), j: Any = (0.004, 0.004, 0.004)
) -> System:
    """Ball with three rotors and their motors, on R²×SO(3)×T³.

    Parameters
    ----------
    m : float
        Mass of all, kg.
    r : float
        Radius, m.
    J : array_like, shape=[3]
        Principal moments about the centre, of the ball with its rotors locked, kg m².
    j : array_like, shape=[3]
        Moments of the rotors about their axes, kg m².

    Returns
    -------
    System
        With ξ = (ẋ, ẏ, W, χ̇): velocity of the contact point, body angular velocity, rates of the rotors; controls are
        the torques of the motors on the rotors, N m, none without ``controls``.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a rotor's moment is not less than that of the ball with it.
    """
    moments, rotors = as_float64(J, "J", (3,)), as_float64(j, "j", (3,))
    parameters = positive(m=as_float64(m, "m", ()), r=as_float64(r, "r", ()), J=moments, j=rotors)
    if not np.all(rotors < moments):
        raise ValueError(f"j must be less than J, which is with the rotors; got {rotors} and {moments}")
    return System(
        Product((Translations(2), SO3(), Torus(3, ("chi1", "chi2", "chi3")))),
        metric=_metric,
        distribution=Distribution(_forms),
        forces=_torques,
        parameters=parameters,
        first_integrals={"K": FirstIntegral(_contact_momentum, "angular momentum about the contact point in space")},
        draw=draw,
        name="spherical-robot",
    )


def _drive(t: Any) -> Any:
    return jnp.stack([0.02 * jnp.cos(t), 0.02 * jnp.sin(1.3 * t), 0.01 * jnp.cos(0.7 * t)])


def _start(system: System) -> Start:
    return Start((np.zeros(2), np.eye(3), np.zeros(3)), np.zeros(8))


ENTRY = Entry(
    name="spherical-robot",
    build=spherical_robot,
    title="ball that rolls by three rotors inside",
    known_as="Spherical robot",
    constraints="v = r w×e₃",
    conserved={
        "K": "R(JW + jχ̇) + mr e₃×v, three numbers in space, driven or not; GNI and SymmetricProjection: to rounding",
        "energy": "without torques; SymmetricProjection: O(h²)",
    },
    source="Borisov, Kilin, Mamaev 2012, §2",
    start=_start,
    controls=_drive,
    dt=0.01,
    n_steps=1000,
)

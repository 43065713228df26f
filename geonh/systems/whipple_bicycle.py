r"""The Whipple bicycle: four rigid bodies on SE(3)×T³, and two wheels that roll, as six forms.

The rear frame B with its rider carries the rear wheel R; the front frame H turns in it by the steer angle δ and carries
the front wheel F. A point is (g, (δ, θ_R, θ_F)), with the rear frame's rotation R and the rear wheel's centre X in g;
axes are the benchmark's, x forward, y to the right, z down, and ξ = (ω, v, δ̇, θ̇_R, θ̇_F) with ω and v in the frame's
own. Points r in the frame are relative to X. The steer axis, tilted by λ, meets the ground in a when it is upright:

    s = (sin λ, 0, cos λ),   a = (w + c, 0, r_R),   r ↦ a + S(δ)(r − a),  S(δ) = exp(δŝ)

takes points of H from their place at δ = 0; the front wheel's centre from (w, 0, r_R − r_F). The angular velocities

    ω_B = ω,   ω_H = ω + δ̇s,   ω_R = ω + θ̇_R e₂,   ω_F = ω + δ̇s + θ̇_F n,   n = S(δ)e₂

and those of the four mass centres, v + ω×r + δ̇ s×(r − a) (the last term for H and F), make up

    ℓ = Σ ½m_i|v_i|² + ½ω_i·I_iω_i + m_i g z_i,   z_i = X₃ + γ·r_i,   γ = Rᵀe₃ (down, in the frame's axes).

The lowest point of a wheel with the axle n and radius r stands at d = r(γ − (γ·n)n)/|γ − (γ·n)n| from its centre, and
its material point is at rest: R(v + ω×ρ + δ̇ s×(ρ − a) + θ̇ n×d) = 0, ρ = centre + d, three forms for each wheel, along,
across and normal to the ground. The normal ones are the derivatives of the wheels' heights above it, so that a start on
the ground stays there, up to the method's error.

Source: Meijaard, Papadopoulos, Ruina, Schwab, Proc. R. Soc. A 463 (2007) 1955–1982; parameters of its benchmark.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, ball, box, cylinder, ground, line
from geonh.geometry.distribution import Distribution
from geonh.groups import SE3, Product, Torus
from geonh.mechanics.system import System
from geonh.systems.entry import Entry, Start, positive


def _hat(a: Any) -> Any:
    return jnp.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def _symmetric(moments: Any) -> Any:
    xx, yy, zz, xz = moments
    return jnp.array([[xx, 0.0, xz], [0.0, yy, 0.0], [xz, 0.0, zz]])


def _front(delta: Any, parameters: Any) -> tuple:
    """Steer axis s, a point a of it, and S(δ)."""
    s = jnp.array([jnp.sin(parameters["tilt"]), 0.0, jnp.cos(parameters["tilt"])])
    turn = _hat(s)
    a = jnp.array([parameters["w"] + parameters["c"], 0.0, parameters["rR"]])
    return s, a, jnp.eye(3) + jnp.sin(delta) * turn + (1 - jnp.cos(delta)) * turn @ turn


def _lagrangian(x: Any, xi: Any, parameters: Any) -> Any:
    g, (delta, _, _) = x
    down, height = g[2, :3], g[2, 3]
    omega, v, (steer, rear, front) = xi[:3], xi[3:6], xi[6:]
    s, a, S = _front(delta, parameters)
    rB = jnp.array([parameters["rB"][0], 0.0, parameters["rB"][1] + parameters["rR"]])
    rH = a + S @ (jnp.array([parameters["rH"][0], 0.0, parameters["rH"][1] + parameters["rR"]]) - a)
    rF = a + S @ (jnp.array([parameters["w"], 0.0, parameters["rR"] - parameters["rF"]]) - a)
    turned = omega + steer * s

    def translation(m: Any, r: Any, extra: Any = 0.0) -> Any:
        velocity = v + _hat(omega) @ r + extra
        return 0.5 * m * velocity @ velocity + m * parameters["g"] * (height + down @ r)

    def wheel(moments: Any, omega: Any, axle: Any) -> Any:
        diameter, about_axle = moments
        return 0.5 * (diameter * omega @ omega + (about_axle - diameter) * (axle @ omega) ** 2)

    e2, axle = jnp.array([0.0, 1.0, 0.0]), S[:, 1]
    in_front = S.T @ turned
    rotation = (
        0.5 * omega @ _symmetric(parameters["IB"]) @ omega + 0.5 * in_front @ _symmetric(parameters["IH"]) @ in_front
    )
    rotation = (
        rotation + wheel(parameters["IR"], omega + rear * e2, e2) + wheel(parameters["IF"], turned + front * axle, axle)
    )
    return (
        rotation
        + translation(parameters["mR"], jnp.zeros(3))
        + translation(parameters["mB"], rB)
        + translation(parameters["mH"], rH, steer * _hat(s) @ (rH - a))
        + translation(parameters["mF"], rF, steer * _hat(s) @ (rF - a))
    )


def _forms(x: Any, parameters: Any) -> Any:
    g, (delta, _, _) = x
    R, down = g[:3, :3], g[2, :3]
    s, a, S = _front(delta, parameters)

    def lowest(r: Any, axle: Any) -> Any:
        d = down - (down @ axle) * axle
        return r * d / jnp.sqrt(d @ d)

    def rows(contact: Any, steer: Any, rear: Any, front: Any) -> Any:
        return R @ jnp.concatenate([-_hat(contact), jnp.eye(3), jnp.stack([steer, rear, front], axis=1)], axis=1)

    e2, axle, none = jnp.array([0.0, 1.0, 0.0]), S[:, 1], jnp.zeros(3)
    d_rear, d_front = lowest(parameters["rR"], e2), lowest(parameters["rF"], axle)
    contact = a + S @ (jnp.array([parameters["w"], 0.0, parameters["rR"] - parameters["rF"]]) - a) + d_front
    return jnp.concatenate(
        [
            rows(d_rear, none, _hat(e2) @ d_rear, none),
            rows(contact, _hat(s) @ (contact - a), none, _hat(axle) @ d_front),
        ]
    )


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw wheels, frame and rider, fork and handlebar; the benchmark's z is down, so the picture is turned."""
    place, (delta, rear, front) = g
    over = Pose(jnp.diag(jnp.array([1.0, -1.0, -1.0])), jnp.zeros(3))
    frame = over @ Pose(place[:3, :3], place[:3, 3])
    _, a, S = _front(delta, parameters)
    hub = a + S @ (jnp.array([parameters["w"], 0.0, parameters["rR"] - parameters["rF"]]) - a)

    def spun(angle: Any) -> Any:
        c, d = jnp.cos(angle), jnp.sin(angle)
        return jnp.array([[c, 0.0, d], [0.0, 1.0, 0.0], [-d, 0.0, c]])

    rB, rH = np.asarray(parameters["rB"]), np.asarray(parameters["rH"])
    rider, head = ([float(r[0]), 0.0, float(r[1] + parameters["rR"])] for r in (rB, rH))
    tube = box(head[0] - rider[0], 0.04, 0.04).moved((head[0] + rider[0]) / 2, 0.0, head[2])
    trunk = [box(0.24, 0.4, 0.6).moved(rider[0], 0.0, rider[2] - 0.1), ball(0.13).moved(rider[0], 0.0, rider[2] - 0.55)]
    return [
        Body(
            "rear wheel",
            cylinder(float(parameters["rR"]), 0.03, "y"),
            at=frame @ Pose(spun(rear), jnp.zeros(3)),
            trace=[0, 0, 0],
        ),
        Body("front wheel", cylinder(float(parameters["rF"]), 0.03, "y"), at=frame @ Pose(S @ spun(front), hub)),
        Body("frame and rider", [line([[0.0, 0.0, 0.0], rider, head]), tube, *trunk], at=frame),
        Body(
            "fork",
            [
                line([head, [float(parameters["w"]), 0.0, float(parameters["rR"] - parameters["rF"])]]),
                box(0.04, 0.5, 0.04).moved(*head),
            ],
            at=frame @ Pose(S, a - S @ a),
        ),
        Body("ground", ground()),
    ]


@validated
def whipple_bicycle(
    w: float = 1.02,
    c: float = 0.08,
    tilt: float = np.pi / 10,
    g: float = 9.81,
    rR: float = 0.3,
    mR: float = 2.0,
    IR: Any = (0.0603, 0.12),
    rB: Any = (0.3, -0.9),
    mB: float = 85.0,
    IB: Any = (9.2, 11.0, 2.8, 2.4),
    rH: Any = (0.9, -0.7),
    mH: float = 4.0,
    IH: Any = (0.05892, 0.06, 0.00708, -0.00756),
    rF: float = 0.35,
    mF: float = 3.0,
    IF: Any = (0.1405, 0.28),
) -> System:
    """Whipple bicycle on SE(3)×T³, with the parameters of its benchmark.

    Parameters
    ----------
    w, c, tilt : float
        Wheel base, m; trail, m; tilt λ of the steer axis, rad.
    g : float
        Gravity, m/s².
    rR, rF : float
        Radius of the rear wheel, m; radius of the front wheel, m.
    mR, mB, mH, mF : float
        Mass of the rear wheel, kg; mass of the rear frame with rider, kg; mass of the front frame, kg; mass
        of the front wheel, kg.
    IR, IF : array_like, shape=[2]
        Moments of the rear wheel about a diameter and about the axle, kg m²; those of the front wheel, kg m².
    IB, IH : array_like, shape=[4]
        Moments xx, yy, zz and product xz of the rear frame, kg m²; those of the front frame, kg m².
    rB, rH : array_like, shape=[2]
        Centre of mass (x, z) of the rear frame, from the rear contact, m; centre of mass of the front frame, m.

    Returns
    -------
    System
        With ξ = (ω, v, δ̇, θ̇_R, θ̇_F).

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a shape does not fit, or one of ``w``, the radii, the masses and the wheels' moments is not positive.
    """
    numbers = positive(w=w, rR=rR, mR=mR, mB=mB, mH=mH, rF=rF, mF=mF, IR=IR, IF=IF)
    shapes = {"c": (c, ()), "tilt": (tilt, ()), "g": (g, ()), "rB": (rB, (2,)), "rH": (rH, (2,))}
    shapes |= {"IB": (IB, (4,)), "IH": (IH, (4,))}
    rest = {name: as_float64(value, name, shape) for name, (value, shape) in shapes.items()}
    return System(
        Product((SE3(), Torus(3, ("delta", "theta_R", "theta_F")))),
        lagrangian=_lagrangian,
        distribution=Distribution(forms=_forms),
        parameters={**numbers, **rest},
        draw=draw,
        name="whipple-bicycle",
    )


def upright(system: System, lean: float = 0.0, steer: float = 0.0) -> tuple:
    """Rear wheel on the ground above the origin, the frame leaning to the right; to first order the front too."""
    c, s = np.cos(lean), np.sin(lean)
    g = np.eye(4)
    g[:3, :3] = [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]
    g[:3, 3] = [0.0, float(system.parameters["rR"]) * s, -float(system.parameters["rR"]) * c]
    return g, np.array([steer, 0.0, 0.0])


def velocity(system: System, g0: tuple, speed: float, lean_rate: float = 0.0, steer_rate: float = 0.0) -> np.ndarray:
    """Rolling velocity ξ with ω₁ = ``lean_rate``, δ̇ = ``steer_rate`` and θ̇_R = −speed/r_R."""
    with float64():
        forms = np.asarray(system.annihilator(system.point(g0)))
    known = np.zeros(9)
    known[[0, 6, 7]] = lean_rate, steer_rate, -speed / float(system.parameters["rR"])
    others = [1, 2, 3, 4, 5, 8]
    known[others] = np.linalg.solve(forms[:, others], -forms @ known)
    return known


def start(system: System, speed: float = 4.6, lean_rate: float = 0.1) -> tuple:
    """Initial g₀ and ξ₀: upright and straight at ``speed`` in m/s, leaning over at ``lean_rate`` in rad/s."""
    g0 = upright(system)
    return g0, velocity(system, g0, speed, lean_rate)


def _start(system: System) -> Start:
    return Start(*start(system))


ENTRY = Entry(
    name="whipple-bicycle",
    build=whipple_bicycle,
    title="bicycle with a rigid rider, which steers itself",
    known_as="Whipple bicycle",
    constraints="the lowest point of either wheel is at rest: R(v + ω×ρ + δ̇ s×(ρ − a) + θ̇ n×d) = 0",
    conserved={"energy": "SymmetricProjection: O(h²)"},
    source="Meijaard, Papadopoulos, Ruina, Schwab 2007",
    start=_start,
    dt=0.01,
    n_steps=500,
)

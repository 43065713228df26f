"""Problems in redundant coordinates, for SymPy: Lagrangians, constraints, forces.

Attitudes are quaternions (w, x, y, z) of length one, which is one more constraint. A row is an expression in q and q̇,
linear in q̇, that vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from score import Problem


class Model(NamedTuple):
    """Lagrangian, rows and forces as expressions in q and q̇, and the change between states and (q, q̇)."""

    q: list
    v: list
    lagrangian: Any
    rows: list
    forces: list
    parameters: dict
    from_state: Callable[[dict], tuple]
    to_state: Callable[[np.ndarray, np.ndarray], dict]
    columns: Any = None
    """What multiplies λ where that is not Aᵀ, as with friction, whose force is proportional to the normal one."""
    until: tuple[str, Any, Any] | None = None
    """Name of the event that ends this model, an expression that vanishes then, and the model that follows."""


def sleigh(problem: Problem) -> Model:
    """x and y of the knife edge and the heading θ."""
    p = problem.parameters
    (_, _, theta), (vx, vy, spin) = q, v = _coordinates("x y theta")
    m, inertia, a = sp.symbols("m I a")
    centre = [vx - a * spin * sp.sin(theta), vy + a * spin * sp.cos(theta)]
    return Model(
        q,
        v,
        m * (centre[0] ** 2 + centre[1] ** 2) / 2 + inertia * spin**2 / 2,
        [vy * sp.cos(theta) - vx * sp.sin(theta)],
        [],
        {m: p["m"], inertia: p["I"], a: p["a"]},
        lambda s: ([*s["place"], *s["heading"]], [*s["velocity"], *s["spin"]]),
        lambda q, v: {"place": q[:2], "heading": q[2:], "velocity": v[:2], "spin": v[2:]},
    )


def snakeboard(problem: Problem) -> Model:
    """x and y of the centre, heading θ, rotor ψ and axles φ against the board."""
    p = problem.parameters
    (_, _, theta, _, phi), (vx, vy, turning, rotor, steering) = q, v = _coordinates("x y theta psi phi")
    m, J, J0, J1, r = symbols = sp.symbols("m J J0 J1 r")
    energy = m * (vx**2 + vy**2) + (J + 2 * J1) * turning**2 + J0 * rotor**2 + 2 * J1 * steering**2
    rows = []
    for x, turned in ((r, theta - phi), (-r, theta + phi)):  # of the front axle, and of the rear one
        axle = [vx - x * turning * sp.sin(theta), vy + x * turning * sp.cos(theta)]
        rows.append(axle[0] * sp.sin(turned) - axle[1] * sp.cos(turned))
    return Model(
        q,
        v,
        energy / 2,
        rows,
        [],
        {symbol: p[symbol.name] for symbol in symbols},
        lambda s: ([*s["place"], *s["angles"]], [*s["velocity"], *s["rates"]]),
        lambda q, v: {"place": q[:2], "angles": q[2:], "velocity": v[:2], "rates": v[2:]},
    )


def contact_oscillator(problem: Problem) -> Model:
    """Cartesian coordinates; the force q̇×B if there is a field."""
    p = problem.parameters
    (x, y, z), (vx, vy, vz) = q, v = _coordinates("x y z")
    eps, beta = p["eps"], p.get("beta", 0.0)
    B = sp.Matrix([beta * (1 + x), -beta * y, 0])
    return Model(
        q,
        v,
        (vx**2 + vy**2 + vz**2) / 2 - (x**2 + y**2 + z**2 + eps * x**2 * z**2) / 2,
        [vx + y * vz],
        list(sp.Matrix(v).cross(B)),
        {},
        lambda s: (s["place"], s["velocity"]),
        lambda q, v: {"place": q, "velocity": v},
    )


def suslov(problem: Problem) -> Model:
    """Quaternion of the attitude."""
    p = problem.parameters
    q, v = _coordinates("e0 e1 e2 e3")
    omega = _omega(q, v)
    J = sp.Matrix(p["J"])
    return Model(
        q,
        v,
        (omega.T * J * omega)[0] / 2,
        [_length(q, v), sp.Matrix(p["a"]).dot(omega)],
        [],
        {},
        _quaternions,
        _attitude,
    )


def rolling_disc(problem: Problem) -> Model:
    """Centre of mass and quaternion."""
    p = problem.parameters
    inertia = sp.diag(1, 2, 1) * p["m"] * p["r"] ** 2 / 4
    return _rolling(p, inertia, lambda up: -p["r"] * sp.Matrix([up[0], 0, up[2]]) / sp.sqrt(up[0] ** 2 + up[2] ** 2))


def rattleback(problem: Problem) -> Model:
    """Centre of mass and quaternion."""
    p = problem.parameters
    inertia = sp.diag(*p["moments"])
    inertia[0, 1] = inertia[1, 0] = p["D"]
    squared = sp.diag(*(semi**2 for semi in p["axes"]))
    return _rolling(p, inertia, lambda up: sp.Matrix([0, 0, p["h"]]) - squared * up / sp.sqrt((up.T * squared * up)[0]))


def sliding_ball(problem: Problem) -> Model:
    """x, y and the integrals of the angular velocity in space: the ball's attitude has no influence."""
    p = problem.parameters
    q, v = _coordinates("x y a1 a2 a3")
    (vx, vy), omega = v[:2], sp.Matrix(v[2:])
    energy = p["m"] * (vx**2 + vy**2) / 2 + sp.Rational(1, 5) * p["m"] * p["R"] ** 2 * omega.dot(omega)
    slip = sp.Matrix([vx, vy, 0]) + omega.cross(sp.Matrix([0, 0, -p["R"]]))
    slip = slip[:2, :]
    at_start = slip.subs(dict(zip(v, [*problem.start["velocity"], *problem.start["omega"]], strict=True)))
    left = slip.dot(at_start)  # positive until the slip vanishes; the direction of the force goes on beyond
    push = -p["mu"] * p["m"] * p["g"] * sp.sign(left) * slip / sp.sqrt(slip.dot(slip))
    read = {"place": slice(0, 2), "velocity": slice(0, 2), "omega": slice(2, 5)}

    def to_state(q: np.ndarray, v: np.ndarray) -> dict:
        return {name: (q if name == "place" else v)[part] for name, part in read.items()}

    def from_state(s: dict) -> tuple:
        return [*s["place"], 0.0, 0.0, 0.0], [*s["velocity"], *s["omega"]]

    rolls = Model(q, v, energy, list(slip), [], {}, from_state, to_state)
    return Model(
        q, v, energy, [], list(slip.jacobian(v).T * push), {}, from_state, to_state, until=("t_roll", left, rolls)
    )


def tippe_top(problem: Problem) -> Model:
    """Centre of mass and quaternion; friction −μN u/√(u² + ε²) at the sliding velocity u."""
    p = problem.parameters
    q, v = _coordinates("x y z e0 e1 e2 e3")
    R, omega, velocity = _rotation(q[3:]), _omega(q[3:], v[3:]), sp.Matrix(v[:3])
    energy = p["m"] * velocity.dot(velocity) / 2 + (omega.T * sp.diag(*p["moments"]) * omega)[0] / 2
    at_contact = velocity + R * omega.cross(sp.Matrix([0, 0, p["a"]]) - p["r"] * R.T[:, 2])
    rows, slip = sp.Matrix([_length(q[3:], v[3:]), at_contact[2]]), at_contact[:2, :]
    push = -p["mu"] * slip / sp.sqrt(slip.dot(slip) + p["eps"] ** 2)
    columns = rows.jacobian(v).T
    columns[:, 1] += slip.jacobian(v).T * push
    model = _rolling(p, sp.diag(*p["moments"]), lambda up: sp.zeros(3, 1))
    return model._replace(lagrangian=energy - p["m"] * p["g"] * q[2], rows=list(rows), columns=columns)


def bicycle(problem: Problem) -> Model:
    """Rear wheel's centre, quaternion of the rear frame, steer angle and angles of the wheels."""
    p = problem.parameters
    q, v = _coordinates("x y z e0 e1 e2 e3 delta theta_R theta_F")
    R, omega, (steer, rear, front) = _rotation(q[3:7]), _omega(q[3:7], v[3:7]), v[7:]
    s, c = sp.sin(p["tilt"]), sp.cos(p["tilt"])
    tilted = sp.Matrix([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    cd, sd = sp.cos(q[7]), sp.sin(q[7])
    turn = tilted * sp.Matrix([[cd, -sd, 0], [sd, cd, 0], [0, 0, 1]]) * tilted.T
    head = sp.Matrix([p["w"] + p["c"], 0, p["rR"]])
    turning = omega + steer * tilted[:, 2]

    def place(point: list, in_front: bool) -> Any:
        r = sp.Matrix([point[0], 0, point[1]])
        return sp.Matrix(q[:3]) + R * (head + turn * (r - head) if in_front else r)

    def rate(expressions: Any) -> Any:
        return expressions.jacobian(q) * sp.Matrix(v)

    places = {
        "mR": place([0, 0], False),
        "mB": place([p["rB"][0], p["rB"][1] + p["rR"]], False),
        "mH": place([p["rH"][0], p["rH"][1] + p["rR"]], True),
        "mF": place([p["w"], p["rR"] - p["rF"]], True),
    }
    energy, rows = 0, [_length(q[3:7], v[3:7])]
    for mass, r in places.items():
        velocity = rate(r)
        energy += p[mass] * (velocity.dot(velocity) / 2 + p["g"] * r[2])  # z is down
    for moments, spin in ((p["IB"], omega), (p["IH"], turn.T * turning)):
        xx, yy, zz, xz = moments
        energy += (spin.T * sp.Matrix([[xx, 0, xz], [0, yy, 0], [xz, 0, zz]]) * spin)[0] / 2
    wheels = (("R", sp.eye(3), omega, rear), ("F", turn, turning, front))
    for wheel, frame, carried, spin in wheels:
        in_frame = frame.T * carried + sp.Matrix([0, spin, 0])
        diameter, axle = p[f"I{wheel}"]
        energy += (in_frame.T * sp.diag(diameter, axle, diameter) * in_frame)[0] / 2
        down = (R * frame).T[:, 2]
        arm = p[f"r{wheel}"] * sp.Matrix([down[0], 0, down[2]]) / sp.sqrt(down[0] ** 2 + down[2] ** 2)
        rows += list(rate(places[f"m{wheel}"]) + R * frame * in_frame.cross(arm))

    def from_state(s: dict) -> tuple:
        e, de = _quaternions(s)
        return [*s["place"], *e, *s["angles"]], [*s["velocity"], *de, *s["rates"]]

    def to_state(q: np.ndarray, v: np.ndarray) -> dict:
        return {"place": q[:3], "angles": q[7:], "velocity": v[:3], "rates": v[7:], **_attitude(q[3:7], v[3:7])}

    return Model(q, v, energy, rows, [], {}, from_state, to_state)


def turning_table(problem: Problem) -> Model:
    """Contact point and quaternion; the rows are affine, v = r w×e₃ + Ω e₃×x."""
    p = problem.parameters
    q, v = _coordinates("x y e0 e1 e2 e3")
    omega = _omega(q[2:], v[2:])
    w = _rotation(q[2:]) * omega
    energy = p["m"] * (v[0] ** 2 + v[1] ** 2) / 2 + (omega.T * sp.diag(*p["moments"]) * omega)[0] / 2
    rows = [v[0] - p["r"] * w[1] + p["rate"] * q[1], v[1] + p["r"] * w[0] - p["rate"] * q[0]]

    def to_state(q: np.ndarray, v: np.ndarray) -> dict:
        return {"place": q[:2], "velocity": v[:2], **_attitude(q[2:], v[2:])}

    return Model(q, v, energy, [_length(q[2:], v[2:]), *rows], [], {}, _placed, to_state)


def wheelset(problem: Problem) -> Model:
    """Place and quaternion; the slip at the left rail, and its parts along the right rail and upward.

    The part across is left out: the contacts are points of one body, so their velocities along the line through both
    are equal. A wheel touches where the distance from the axle, less the radius of the tread, is least along the rail.
    """
    p = problem.parameters
    q, v = _coordinates("x y z e0 e1 e2 e3")
    R, omega, velocity = _rotation(q[3:]), _omega(q[3:], v[3:]), sp.Matrix(v[:3])
    axle, spin = R[:, 1], R * omega
    energy = p["m"] * velocity.dot(velocity) / 2 + (omega.T * sp.diag(*p["moments"]) * omega)[0] / 2

    def slip(side: int) -> Any:
        beside = sp.Matrix([0, side * p["s"] - q[1], -q[2]])
        along, across = axle[0] * axle.dot(beside), beside.cross(axle)
        share = 1 - axle[0] ** 2  # |d − (a·d)a|² = share·x² − 2·along·x + |b×a|², with d = b + x e₁
        lean = side * p["gamma"] * axle[0]
        least = across.dot(across) - along**2 / share
        x = along / share - lean * sp.sqrt(least / (share * (share - lean**2)))
        return velocity + spin.cross(beside + sp.Matrix([x, 0, 0]))

    left, right = slip(1), slip(-1)
    return Model(
        q,
        v,
        energy - p["m"] * p["g"] * q[2],
        [_length(q[3:], v[3:]), *left, right[0], right[2]],
        [],
        {},
        _placed,
        lambda q, v: {"place": q[:3], "velocity": v[:3], **_attitude(q[3:], v[3:])},
    )


def _rolling(p: dict, inertia: Any, contact: Callable) -> Model:
    """Model of a body that rolls on z = 0; contact gives its lowest point in body axes from the upward vertical."""
    q, v = _coordinates("x y z e0 e1 e2 e3")
    R, omega, velocity = _rotation(q[3:]), _omega(q[3:], v[3:]), sp.Matrix(v[:3])
    energy = p["m"] * velocity.dot(velocity) / 2 + (omega.T * inertia * omega)[0] / 2
    slip = velocity + R * omega.cross(contact(R.T[:, 2]))
    return Model(
        q,
        v,
        energy - p["m"] * p["g"] * q[2],
        [_length(q[3:], v[3:]), *slip],
        [],
        {},
        _placed,
        lambda q, v: {"place": q[:3], "velocity": v[:3], **_attitude(q[3:], v[3:])},
    )


def _coordinates(names: str) -> tuple[list, list]:
    return list(sp.symbols(names)), list(sp.symbols([f"v_{name}" for name in names.split()]))


def _length(q: list, v: list) -> Any:
    return sum(a * b for a, b in zip(q, v, strict=True))


def _omega(q: Any, v: Any) -> Any:
    """Body angular velocity, twice the vector part of q̄q̇, as expressions."""
    u, du = sp.Matrix(q[1:]), sp.Matrix(v[1:])
    return 2 * (q[0] * du - v[0] * u - u.cross(du))


def _rotation(q: Any) -> Any:
    w, x, y, z = q
    return sp.Matrix(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _quaternions(s: dict) -> tuple[list, list]:
    """Quaternion and its rate, from the rotation matrix and the body angular velocity."""
    R, omega = np.reshape(s["rotation"], (3, 3)), s["omega"]
    w = np.sqrt(1 + np.trace(R)) / 2
    u = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w)
    rate = 0.5 * np.concatenate([[-u @ omega], w * omega + np.cross(u, omega)])
    return [w, *u], list(rate)


def _placed(s: dict) -> tuple:
    """Place and quaternion, and their rates."""
    return tuple([*a, *b] for a, b in zip((s["place"], s["velocity"]), _quaternions(s), strict=True))


def _attitude(q: np.ndarray, v: np.ndarray) -> dict:
    u, du = q[1:], v[1:]
    omega = 2 * (q[0] * du - v[0] * u - np.cross(u, du))
    return {"rotation": np.array(_rotation(q), float).ravel(), "omega": omega}


MODELS: dict[str, Callable[[Problem], Model]] = {
    "sleigh": sleigh,
    "suslov": suslov,
    "snakeboard": snakeboard,
    "contact-oscillator": contact_oscillator,
    "contact-oscillator-field": contact_oscillator,
    "rolling-disc": rolling_disc,
    "rattleback": rattleback,
    "sliding-ball": sliding_ball,
    "tippe-top": tippe_top,
    "bicycle": bicycle,
    "turning-table": turning_table,
    "wheelset": wheelset,
}

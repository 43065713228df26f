"""Invariants and constraints of the problems in NumPy and SciPy, by which ``score.py`` judges a submission.

A state is a mapping from the names of a problem's quantities to arrays. Each function returns the numbers that the
motion keeps, or that have a known course where there is friction, and the residuals of the constraints, which are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

State = Mapping[str, np.ndarray]


class Judgement(NamedTuple):
    """Invariants by name, and the residuals of all constraints, those of positions included, in SI units."""

    invariants: dict[str, float]
    residuals: np.ndarray


def sleigh(p: dict, s: State) -> Judgement:
    """Knife edge at the place, centre of mass at the distance a ahead of it."""
    (theta,), (spin,) = s["heading"], s["spin"]
    aside = np.array([-np.sin(theta), np.cos(theta)])
    centre = s["velocity"] + p["a"] * spin * aside
    energy = 0.5 * p["m"] * centre @ centre + 0.5 * p["I"] * spin**2
    return Judgement({"energy": energy}, np.array([aside @ s["velocity"]]))


def suslov(p: dict, s: State) -> Judgement:
    """Rigid body about a fixed point with a·Ω = 0."""
    omega = s["omega"]
    return Judgement(
        {"energy": 0.5 * omega @ np.array(p["J"]) @ omega},
        np.append(_off_rotations(s["rotation"]), np.array(p["a"]) @ omega),
    )


def snakeboard(p: dict, s: State) -> Judgement:
    """Front axle at r, turned by −φ against the board, rear axle at −r, turned by φ."""
    theta, _, phi = s["angles"]
    turning, rotor, steering = s["rates"]
    energy = 0.5 * p["m"] * s["velocity"] @ s["velocity"] + 0.5 * p["J"] * turning**2
    energy += 0.5 * p["J0"] * rotor**2 + 0.5 * p["J1"] * ((turning - steering) ** 2 + (turning + steering) ** 2)
    aside, slips = np.array([-np.sin(theta), np.cos(theta)]), []
    for side in (1, -1):
        axle = s["velocity"] + side * p["r"] * turning * aside
        slips.append(axle @ [-np.sin(theta - side * phi), np.cos(theta - side * phi)])
    invariants = {"energy": energy, "rotor momentum": p["J0"] * rotor, "axle momentum": 2 * p["J1"] * steering}
    return Judgement(invariants, np.array(slips))


def contact_oscillator(p: dict, s: State) -> Judgement:
    """Springs in space, coupled, ẋ + yż = 0; a magnetic field, which does no work, if there is β."""
    (x, y, z), v = s["place"], s["velocity"]
    energy = 0.5 * v @ v + 0.5 * (x * x + y * y + z * z + p["eps"] * x * x * z * z)
    kept = {"energy": energy}
    if not p.get("beta"):
        kept["H_y"] = 0.5 * (v[1] ** 2 + y * y)
    return Judgement(kept, np.array([v[0] + y * v[2]]))


def rolling_disc(p: dict, s: State) -> Judgement:
    """Thin disc whose axle is the second body axis."""
    axle = s["rotation"].reshape(3, 3)[:, 1]
    down = np.array([0.0, 0.0, -1.0])
    arm = down - (down @ axle) * axle
    inertia = np.diag([1.0, 2.0, 1.0]) * p["m"] * p["r"] ** 2 / 4
    return _rolling(p, s, inertia, p["r"] * arm / np.linalg.norm(arm))


def rattleback(p: dict, s: State) -> Judgement:
    """Ellipsoid whose centre is at the height h above the centre of mass."""
    inertia = np.diag(p["moments"])
    inertia[0, 1] = inertia[1, 0] = p["D"]
    R = s["rotation"].reshape(3, 3)
    squared = np.diag(np.array(p["axes"]) ** 2)
    arm = R @ ([0.0, 0.0, p["h"]] - squared @ R[2] / np.sqrt(R[2] @ squared @ R[2]))
    return _rolling(p, s, inertia, arm)


def sliding_ball(p: dict, s: State) -> Judgement:
    """Homogeneous ball on a table; its angular momentum about the line of the contact points does not change."""
    v, omega = s["velocity"], s["omega"]
    inertia = 0.4 * p["m"] * p["R"] ** 2
    energy = 0.5 * p["m"] * v @ v + 0.5 * inertia * omega @ omega
    about = [inertia * omega[0] - p["m"] * p["R"] * v[1], inertia * omega[1] + p["m"] * p["R"] * v[0]]
    return Judgement({"energy": energy, "momentum x": about[0], "momentum y": about[1]}, np.array([]))


def tippe_top(p: dict, s: State) -> Judgement:
    """Ball whose centre is at the distance a above the centre of mass along the third body axis, with friction.

    Jellett's integral −Jω·ρ does not change, since the force acts at ρ and the moment ρ×F has no part along ρ.
    """
    R, inertia = s["rotation"].reshape(3, 3), np.diag(p["moments"])
    arm = p["a"] * R[:, 2] - [0.0, 0.0, p["r"]]
    rise = s["velocity"][2] + np.cross(R @ s["omega"], arm)[2]
    kept = {"energy": _energy(p, s, inertia), "jellett": -(R @ inertia @ s["omega"]) @ arm}
    return Judgement(kept, np.concatenate([[rise, s["place"][2] + arm[2]], _off_rotations(R)]))


def wheelset(p: dict, s: State) -> Judgement:
    """Two cones on an axle, the second body axis, on the rails y = ±s, z = 0.

    Where a wheel touches, a rail's direction is orthogonal to the normal e − γσa of the cone of side σ, with the unit
    vector e from the axle a; Newton's method finds the point.
    """
    R, inertia = s["rotation"].reshape(3, 3), np.diag(p["moments"])
    axle, spin, slips, gaps = R[:, 1], R @ s["omega"], [], []
    for side in (1, -1):
        arm = np.array([0.0, side * p["s"], 0.0]) - [0.0, *s["place"][1:]]
        for _ in range(20):
            radial = arm - (arm @ axle) * axle
            far = np.linalg.norm(radial)
            slope = radial[0] / far + p["gamma"] * side * axle[0]
            arm[0] -= slope * far / (1 - axle[0] ** 2 - (radial[0] / far) ** 2)
        radial = arm - (arm @ axle) * axle
        gaps.append(np.linalg.norm(radial) - p["r"] + p["gamma"] * (side * arm @ axle - p["s"]))
        slips.append(s["velocity"] + np.cross(spin, arm))
    return Judgement({"energy": _energy(p, s, inertia)}, np.concatenate([gaps, *slips, _off_rotations(R)]))


def bicycle(p: dict, s: State) -> Judgement:
    """Carvallo–Whipple bicycle, axes forward, right, down; the place is the rear wheel's centre."""
    R, (delta, _, _), (steer, rear, front) = s["rotation"].reshape(3, 3), s["angles"], s["rates"]
    axis = np.array([np.sin(p["tilt"]), 0.0, np.cos(p["tilt"])])
    turn = Rotation.from_rotvec(delta * axis).as_matrix()
    head = np.array([p["w"] + p["c"], 0.0, p["rR"]])  # a point of the steer axis, from the rear wheel's centre
    v, omega = R.T @ s["velocity"], s["omega"]
    turning = omega + steer * axis
    axle = turn @ [0.0, 1.0, 0.0]

    def ahead(point: list) -> tuple[np.ndarray, np.ndarray]:
        """Place of a point of the front frame, given as if upright, and its velocity."""
        r = head + turn @ (np.array(point) - head)
        return r, v + np.cross(omega, head) + np.cross(turning, r - head)

    rB = np.array([p["rB"][0], 0.0, p["rB"][1] + p["rR"]])
    rH, vH = ahead([p["rH"][0], 0.0, p["rH"][1] + p["rR"]])
    rF, vF = ahead([p["w"], 0.0, p["rR"] - p["rF"]])
    rear_spin, front_spin, e2 = omega + np.array([0.0, rear, 0.0]), turning + front * axle, np.array([0.0, 1.0, 0.0])
    wheels = (
        (p["rR"], p["IR"], p["mR"], np.zeros(3), v, e2, rear_spin),
        (p["rF"], p["IF"], p["mF"], rF, vF, axle, front_spin),
    )
    energy = 0.5 * omega @ _in_plane(p["IB"]) @ omega + 0.5 * turning @ turn @ _in_plane(p["IH"]) @ turn.T @ turning
    residuals = [_off_rotations(R)]
    for radius, (diameter, about), _, r, velocity, n, spin in wheels:
        energy += 0.5 * diameter * spin @ spin + 0.5 * (about - diameter) * (spin @ n) ** 2
        down = R[2] - (R[2] @ n) * n
        arm = radius * down / np.linalg.norm(down)
        residuals += [R @ (velocity + np.cross(spin, arm)), [(s["place"] + R @ (r + arm))[2]]]
    frames = ((p["mB"], rB, v + np.cross(omega, rB)), (p["mH"], rH, vH))
    for mass, r, velocity in (*(wheel[2:5] for wheel in wheels), *frames):
        energy += 0.5 * mass * velocity @ velocity - mass * p["g"] * (s["place"] + R @ r)[2]
    return Judgement({"energy": float(energy)}, np.concatenate(residuals))


def _in_plane(moments: list) -> np.ndarray:
    xx, yy, zz, xz = moments
    return np.array([[xx, 0.0, xz], [0.0, yy, 0.0], [xz, 0.0, zz]])


def turning_table(p: dict, s: State) -> Judgement:
    """Balanced ball on a table that turns at the rate Ω; its angular momentum about the contact is constant."""
    R, J, v = s["rotation"].reshape(3, 3), np.diag(p["moments"]), np.append(s["velocity"], 0.0)
    w, up = R @ s["omega"], np.array([0.0, 0.0, 1.0])
    momentum = R @ J @ s["omega"] + p["m"] * p["r"] * np.cross(up, v)
    slip = v - p["r"] * np.cross(w, up) - p["rate"] * np.cross(up, np.append(s["place"], 0.0))
    energy = 0.5 * p["m"] * v @ v + 0.5 * s["omega"] @ J @ s["omega"]
    kept = {"energy": energy, **dict(zip(("momentum x", "momentum y", "momentum z"), momentum, strict=True))}
    return Judgement(kept, np.concatenate([slip[:2], _off_rotations(R)]))


def _rolling(p: dict, s: State, inertia: np.ndarray, arm: np.ndarray) -> Judgement:
    """Judge a body that touches z = 0 at the arm, in space axes from its centre of mass, and does not slide."""
    R = s["rotation"].reshape(3, 3)
    slip = s["velocity"] + np.cross(R @ s["omega"], arm)
    height = s["place"][2] + arm[2]
    return Judgement({"energy": _energy(p, s, inertia)}, np.concatenate([slip, [height], _off_rotations(R)]))


def _energy(p: dict, s: State, inertia: np.ndarray) -> float:
    kinetic = 0.5 * p["m"] * s["velocity"] @ s["velocity"] + 0.5 * s["omega"] @ inertia @ s["omega"]
    return kinetic + p["m"] * p["g"] * s["place"][2]


def _off_rotations(rotation: np.ndarray) -> np.ndarray:
    R = rotation.reshape(3, 3)
    return (R.T @ R - np.eye(3)).ravel()


JUDGES: dict[str, Callable[[dict, State], Judgement]] = {
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

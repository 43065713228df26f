"""Adapter for geonh: the systems of its catalogue and of ``geonh.rolling``, at fixed steps.

``python with_geonh.py PROBLEM [METHOD [STEPS]]`` prints a submission.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from score import Problem, problem_names, read_problem

import geonh as gn


class Case(NamedTuple):
    """System, start, and the change from runs to the quantities of the problem."""

    system: Any
    g0: Any
    xi0: Any
    values: Callable[[Any], dict[str, np.ndarray]]
    steps: int
    options: dict[str, Any] = {}  # noqa: RUF012


def sleigh(problem: Problem) -> Case:
    s = problem.start
    pose = np.concatenate([s["heading"], s["place"]])
    return Case(
        gn.systems.chaplygin_sleigh(**problem.parameters),
        pose,
        np.concatenate([s["spin"], _turned(-s["heading"], s["velocity"][None])[0]]),
        lambda run: {
            "place": run.g[:, 1:],
            "heading": run.g[:, :1],
            "velocity": _turned(run.g[:, 0], run.xi[:, 1:]),
            "spin": run.xi[:, :1],
        },
        200,
    )


def snakeboard(problem: Problem) -> Case:
    s = problem.start
    forward = _turned(-s["angles"][:1], s["velocity"][None])[0]
    return Case(
        gn.systems.snakeboard(**problem.parameters),
        (np.array([s["angles"][0], *s["place"]]), s["angles"][1:]),
        np.concatenate([s["rates"][:1], forward, s["rates"][1:]]),
        lambda run: {
            "place": run.g[0][:, 1:],
            "angles": np.concatenate([run.g[0][:, :1], run.g[1]], axis=1),
            "velocity": _turned(run.g[0][:, 0], run.xi[:, 1:3]),
            "rates": run.xi[:, [0, 3, 4]],
        },
        200,
    )


def suslov(problem: Problem) -> Case:
    return Case(
        gn.systems.suslov(**problem.parameters),
        problem.start["rotation"].reshape(3, 3),
        problem.start["omega"],
        lambda run: {"rotation": run.g.reshape(-1, 9), "omega": run.xi},
        200,
    )


def contact_oscillator(problem: Problem) -> Case:
    field = "beta" in problem.parameters
    build = gn.systems.contact_oscillator_nonreversible if field else gn.systems.contact_oscillator
    return Case(
        build(**problem.parameters),
        problem.start["place"],
        problem.start["velocity"],
        lambda run: {"place": run.g, "velocity": run.xi},
        400,
    )


def rolling_disc(problem: Problem) -> Case:
    return _rolling(problem, gn.systems.rolling_disc(**problem.parameters), 1000)


def rattleback(problem: Problem) -> Case:
    return _rolling(problem, gn.systems.rattleback(**problem.parameters), 2000)


def sliding_ball(problem: Problem) -> Case:
    p, s = problem.parameters, problem.start
    inertia = [0.4 * p["m"] * p["R"] ** 2] * 3
    system = gn.rolling(gn.rolling.ball(p["R"]), inertia, p["m"], gravity=p["g"], friction=p["mu"])
    g0 = np.eye(4)
    g0[:3, 3] = [*s["place"], p["R"]]
    return Case(
        system,
        g0,
        np.concatenate([s["omega"], s["velocity"], [0.0]]),
        lambda run: {
            "place": run.g[:, :2, 3],
            "velocity": np.einsum("kij,kj->ki", run.g[:, :3, :3], run.xi[:, 3:])[:, :2],
            "omega": np.einsum("kij,kj->ki", run.g[:, :3, :3], run.xi[:, :3]),
        },
        1600,
        {"mode": "slide"},
    )


def tippe_top(problem: Problem) -> Case:
    p = problem.parameters
    m, moments = p["m"], np.array([*p["moments"], p["m"], p["m"], p["m"]])

    def friction(t: Any, g: Any, xi: Any, lam: Any) -> Any:
        """Wrench in body axes; λ is the normal force, as the constraint is a height."""
        R = g[:3, :3]
        arm = jnp.array([0.0, 0.0, p["a"]]) - p["r"] * R[2]
        slip = (xi[3:] + jnp.cross(xi[:3], arm)) @ jnp.stack([R[0], R[1]], axis=1)
        force = -p["mu"] * lam[0] / jnp.sqrt(slip @ slip + p["eps"] ** 2) * (slip[0] * R[0] + slip[1] * R[1])
        return jnp.concatenate([jnp.cross(arm, force), force])

    system = gn.System(
        gn.groups.SE3(),
        metric=lambda g: jnp.asarray(moments),
        potential=lambda g: m * p["g"] * g[2, 3],
        holonomic=lambda g: jnp.stack([g[2, 3] + p["a"] * g[2, 2] - p["r"]]),
        multiplier_forces=friction,
        name="tippe-top",
    )
    return _rolling(problem, system, 2500)


def bicycle(problem: Problem) -> Case:
    s = problem.start
    R, g0 = s["rotation"].reshape(3, 3), np.eye(4)
    g0[:3, :3], g0[:3, 3] = R, s["place"]
    return Case(
        gn.systems.whipple_bicycle(**problem.parameters),
        (g0, s["angles"]),
        np.concatenate([s["omega"], R.T @ s["velocity"], s["rates"]]),
        lambda run: {
            "place": run.g[0][:, :3, 3],
            "rotation": run.g[0][:, :3, :3].reshape(-1, 9),
            "angles": run.g[1],
            "omega": run.xi[:, :3],
            "velocity": np.einsum("kij,kj->ki", run.g[0][:, :3, :3], run.xi[:, 3:6]),
            "rates": run.xi[:, 6:],
        },
        200,
    )


def wheelset(problem: Problem) -> Case:
    """Gaps above both rails as φ, and the parts of the slip that φ leaves: along both rails, and across one."""
    p = problem.parameters
    r, s, gamma = p["r"], p["s"], p["gamma"]
    moments = np.array([*p["moments"], p["m"], p["m"], p["m"]])

    def side(g: Any, sign: int) -> tuple:
        """Gap, the least of (distance from axle − radius) along the rail, and the contact from the centre of mass."""
        axle, aside, up = g[:3, 1], sign * s - g[1, 3], g[2, 3]
        k = aside * axle[1] - up * axle[2]
        alpha, slope = 1 - axle[0] ** 2, sign * gamma * axle[0]
        beta = aside**2 + up**2 - k**2 / alpha
        gap = jnp.sqrt(beta * (1 - slope**2 / alpha)) + gamma * (sign * k / alpha - s) - r
        along = axle[0] * k / alpha - slope * jnp.sqrt(beta / (alpha * (alpha - slope**2)))
        return gap, jnp.stack([along, aside, -up])

    def slip(g: Any, sign: int) -> Any:
        """Rows of the velocity in space of the wheel at its contact, shape=[3, 6]."""
        R = g[:3, :3]
        return jnp.concatenate([jnp.cross(R.T, side(g, sign)[1]).T, R], axis=1)

    system = gn.System(
        gn.groups.SE3(),
        metric=moments,
        potential=lambda g: p["m"] * p["g"] * g[2, 3],
        holonomic=lambda g: jnp.stack([side(g, 1)[0], side(g, -1)[0]]),
        distribution=gn.Distribution(forms=lambda g: jnp.stack([*slip(g, 1)[:2], slip(g, -1)[0]])),
        name="wheelset",
    )
    return _rolling(problem, system, 200)


def turning_table(problem: Problem) -> Case:
    p, s = problem.parameters, problem.start
    return Case(
        gn.systems.chaplygin_sphere(m=p["m"], r=p["r"], J=p["moments"], table_rate=p["rate"]),
        (s["place"], s["rotation"].reshape(3, 3)),
        np.concatenate([s["velocity"], s["omega"]]),
        lambda run: {
            "place": run.g[0],
            "rotation": run.g[1].reshape(-1, 9),
            "velocity": run.xi[:, :2],
            "omega": run.xi[:, 2:],
        },
        200,
    )


def _rolling(problem: Problem, system: Any, steps: int) -> Case:
    s = problem.start
    R, g0 = s["rotation"].reshape(3, 3), np.eye(4)
    g0[:3, :3], g0[:3, 3] = R, s["place"]
    return Case(
        system,
        g0,
        np.concatenate([s["omega"], R.T @ s["velocity"]]),
        lambda run: {
            "place": run.g[:, :3, 3],
            "rotation": run.g[:, :3, :3].reshape(-1, 9),
            "omega": run.xi[:, :3],
            "velocity": np.einsum("kij,kj->ki", run.g[:, :3, :3], run.xi[:, 3:]),
        },
        steps,
    )


def _turned(angles: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors of shape=[N, 2] in the plane, turned by the angles."""
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([c * vectors[:, 0] - s * vectors[:, 1], s * vectors[:, 0] + c * vectors[:, 1]], axis=1)


CASES: dict[str, Callable[[Problem], Case]] = {
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


def run(problem: Problem, method: str = "gauss6", steps: int | None = None) -> dict:
    """Submission for a problem. Its seconds are the least of three further runs, when the program has been made."""
    case = CASES[problem.name](problem)
    steps, count = case.steps if steps is None else steps, len(problem.times)
    start = {"g0": case.g0, "xi0": case.xi0, "dt": problem.times[0] / steps, "n_steps": steps * count}

    def solved() -> Any:
        return gn.solve(case.system, method, **start, **case.options)

    found, seconds = solved(), np.inf
    for _ in range(3):
        begin = time.process_time()
        solved()
        seconds = min(seconds, time.process_time() - begin)
    at = [int(np.abs(found.t - t).argmin()) for t in problem.times]
    values = {name: np.asarray(value)[at].tolist() for name, value in case.values(found).items()}
    events = {"t_roll": float(found.switches.t[0])} if problem.name == "sliding-ball" else {}
    return {
        "problem": problem.name,
        "code": f"geonh {gn.__version__}",
        "method": f"{method}, dt = {start['dt']:g}",
        "work": {"seconds": seconds, "steps": start["n_steps"]},
        "times": problem.times.tolist(),
        "values": values,
        **({"events": events} if events else {}),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=problem_names(), metavar="PROBLEM", help=", ".join(problem_names()))
    parser.add_argument("method", nargs="?", default="gauss6", help="of geonh (gauss6)")
    parser.add_argument("steps", type=int, nargs="?", help="between two of the times asked")
    words = parser.parse_args()
    if words.steps is not None and words.steps < 1:
        parser.error(f"steps must be positive, got {words.steps}")
    try:
        gn.integrators.method_of(words.method)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(run(read_problem(words.problem), words.method, words.steps), indent=1))

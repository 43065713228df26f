"""Problems of optimal control for benchmarks and slow tests: systems, ends, limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.groups import SE2, SO3, Product, Torus, Translations
from geonh.rolling import knife_edge, planar, planar_body, trailer


class Problem(NamedTuple):
    """Arguments of ``optimal_control`` but the number of steps, and the limits of named coordinates."""

    system: gn.System
    options: dict[str, Any]
    limits: dict[str, tuple[float, float]]


def thrust_and_steering(t, x, xi, u):
    """Thrust on the first body, torque on its steering."""
    return jnp.concatenate([jnp.stack([0.0 * u[0], u[0], 0.0 * u[0], u[1]]), 0.0 * xi[4:]])


def truck(n_trailers: int) -> gn.System:
    """Car with steered front wheels that draws trailers."""
    drawn: tuple = ()
    for i in reversed(range(n_trailers)):
        body = planar_body(0.5, 0.1, [knife_edge()], drawn)
        drawn = (trailer(body, 1.0, hitch=(-0.3, 0.0), name=f"hitch{i + 1}"),)
    wheels = [knife_edge(), knife_edge(1.2, steered="steer", inertia=0.1)]
    car = planar_body(1.0, 0.2, wheels, drawn, centre=(0.5, 0.0))
    return planar(car, forces=thrust_and_steering, name=f"car with {n_trailers} trailers")


def car(pose: Any = (0.0, 0.0, 1.5), span: float = 8.0) -> Problem:
    """Parking of a car with one trailer."""
    end = (np.asarray(pose, float), np.zeros(2))
    limits = {"steer": (-0.6, 0.6), "hitch1": (-1.2, 1.2)}
    return Problem(truck(1), {"end": end, "n_controls": 2, "span": span}, limits)


def road_train() -> Problem:
    """Lane change of a car with five trailers, from rest to rest."""
    end = (np.array([0.0, 12.0, 2.0]), np.zeros(6))
    limits = {"steer": (-0.6, 0.6)} | {f"hitch{i + 1}": (-1.2, 1.2) for i in range(5)}
    return Problem(truck(5), {"end": end, "n_controls": 2, "span": 12.0}, limits)


def snakeboard() -> Problem:
    """Parking of a snakeboard, 0.2 m sideways; the rotor is free at the end."""
    end = ([0.0, 0.0, 0.2], [0.0, 0.0])
    options = {"end": end, "n_controls": 2, "span": 6.0, "free": ["psi_dot"]}
    return Problem(gn.systems.controlled_snakeboard(), options, {"phi": (-1.2, 1.2)})


def _racer_metric(x):
    return [[1.5, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.5]]


def _racer_forms(x):
    return [[0.0, 0.0, 1.0, 0.0], [jnp.cos(x[0]) + 0.5, -jnp.sin(x[0]), 0.0, 0.5]]


def _joint(t, x, xi, u):
    return jnp.stack([0.0 * u[0], 0.0 * u[0], 0.0 * u[0], u[0]])


def roller_racer() -> Problem:
    """Roller racer that swings itself two metres from rest; velocity and joint rate are free at the end.

    Its way is that of its swings, against the x axis: along it, discrete motions alone exist, by their steps' errors.
    """
    system = gn.System(
        Product((SE2(), Torus(1, ("phi",)))),
        metric=_racer_metric,
        distribution=gn.Distribution(_racer_forms),
        forces=_joint,
        base=("phi",),
        name="roller racer",
    )
    end = (np.array([0.0, -2.0, 0.0]), np.zeros(1))
    options = {"end": end, "n_controls": 1, "span": 6.0, "xi_end": "free", "free": ["phi_dot"]}
    return Problem(system, options, {"phi": (-1.2, 1.2)})


BALL_MASS, BALL_RADIUS = 1.0, 0.5


def _ball_forms(x):
    R, _ = x
    # no slip with the angular velocity R omega in space: v = r (omega_y, -omega_x)
    low = BALL_RADIUS * jnp.stack([R[1], -R[0]])
    return jnp.concatenate([low, -jnp.eye(2)], axis=1)


def _tilt(t, x, xi, u):
    return jnp.concatenate([jnp.zeros(3), 9.81 * BALL_MASS * u])


def ball_on_plate() -> Problem:
    """Ball on a plate that is tilted: half a metre aside and turned by a right angle about the vertical."""
    inertia = 0.4 * BALL_MASS * BALL_RADIUS**2
    system = gn.System(
        Product((SO3(), Translations(2))),
        metric=[inertia] * 3 + [BALL_MASS] * 2,
        distribution=gn.Distribution(_ball_forms),
        forces=_tilt,
        name="ball on a plate",
    )
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    end = (turned, np.array([0.5, 0.0]))
    return Problem(system, {"end": end, "n_controls": 2, "span": 4.0}, {"x": (-1.5, 1.5), "y": (-1.5, 1.5)})


def bicycle() -> Problem:
    """Lane change of a bicycle (single-track car without trailer) at 2 m/s, three metres aside."""
    system = truck(0)
    start = np.array([0.0, 2.0, 0.0, 0.0])
    options = {"end": (np.array([0.0, 12.0, 3.0]), np.zeros(1)), "n_controls": 2, "span": 6.0}
    return Problem(system, options | {"xi_start": start, "xi_end": start}, {"steer": (-0.3, 0.3)})


def _disc_forms(x):
    return [[0.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0]]


def _disc_torques(t, x, xi, u):
    return jnp.stack([u[0], 0.0 * u[0], 0.0 * u[0], u[1]])


def rolling_disc() -> Problem:
    """Upright disc, rolled and steered to a pose a metre aside."""
    system = gn.System(
        Product((SE2(), Torus(1, ("psi",)))),
        metric=[0.25, 1.0, 1.0, 0.5],
        distribution=gn.Distribution(_disc_forms),
        forces=_disc_torques,
        base="point",
        name="rolling disc",
    )
    end = (np.array([0.0, 0.0, 1.0]), np.zeros(1))
    options = {"end": end, "n_controls": 2, "span": 4.0, "free": ["psi_dot"]}
    return Problem(system, options, {"omega": (-2.0, 2.0)})


PROBLEMS = {
    "car with a trailer": (car, 40),
    "car with a trailer, 80": (car, 80),
    "snakeboard": (snakeboard, 40),
    "roller racer": (roller_racer, 40),
    "ball on a plate": (ball_on_plate, 40),
    "lane change": (bicycle, 40),
    "rolling disc": (rolling_disc, 40),
    "car with five trailers": (road_train, 100),
}
"""Functions of the problems, with the numbers of steps."""

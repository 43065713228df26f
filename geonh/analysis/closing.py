"""Periodicity conditions of an orbit, from the user's functions, and Newton's method for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.flow import Shooting, Shot, shot
from geonh.arguments.precision import float64
from geonh.arguments.validators import as_count, as_float64, as_part
from geonh.geometry.field import check_arguments, evaluated, tried
from geonh.groups.base import Point
from geonh.integrators.base import refuse
from geonh.integrators.node import Result
from geonh.integrators.registry import made_method
from geonh.integrators.runge_kutta import RKMK, Gauss
from geonh.mechanics.system import System
from geonh.runs.start import made_drive

FREE = 1e-8
"""Relative singular values below which directions are free: the shift along an orbit, a family."""
HALVINGS = 10
"""Maximum number of halvings of a step that increases the residual."""


class Returns:
    """Periodicity residual at the end of a motion: hashable by its components, so that it compiles once."""

    def __init__(self, function: Callable | None, fixed: Callable | None) -> None:
        self.function, self.fixed = function, fixed
        self.parts = 1 if fixed is None else 2

    def __hash__(self) -> int:
        return hash((self.function, self.fixed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Returns) and (self.function, self.fixed) == (other.function, other.fixed)

    def __call__(self, system: System, g: Point, xi: Array, after: Point, xi_after: Array) -> Array:
        if self.fixed is not None:
            both = [evaluated("fixed", self.fixed, g, xi), evaluated("fixed", self.fixed, after, xi_after)]
        elif self.function is not None:
            both = [evaluated("returns", self.function, g, xi, after, xi_after)]
        else:
            both = [jax.tree.map(jnp.subtract, system.action.at(after), system.action.at(g)), xi_after - xi]
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(jnp.asarray(a, float)) for a in jax.tree.leaves(both))])


def made_shooting(
    system: System,
    g: Any,
    xi: Any,
    returns: Any,
    fixed: Any,
    conditions: Any,
    method: Any,
    n_steps: int,
    t0: float,
    controls: Any,
    parameter: str,
) -> tuple[Shooting, Point, np.ndarray]:
    """Shooting problem, validated, and the initial guess."""
    default = RKMK(6) if system.holonomic is None else Gauss(3)
    method = made_method(default if method is None else method)
    refuse(method, system)
    if method.guarantees.node != "velocity":
        raise ValueError(
            f"method must be one whose node is a velocity, such as RKMK(6) or Gauss(2), not {type(method).__name__}"
        )
    if returns is not None and fixed is not None:
        raise TypeError("give returns= or fixed=, not both")
    for name, value in (("returns", returns), ("fixed", fixed), ("conditions", conditions)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, got {value!r}")
    _inspect(system, returns, fixed, conditions)
    parts = 1 if fixed is None else 2
    n_steps = as_count(n_steps, "n_steps")
    if n_steps % parts:
        raise ValueError(f"n_steps must be even for a symmetric orbit, got {n_steps}")
    t0 = as_float64(t0, "t0", ())
    place = system.project_position(system.point(g, on_group=False, name="g"), t0)
    found = system.project(place, as_float64(xi, "xi", (system.group.dim,)), t0)
    start = place, np.asarray(found if system.holonomic is None else found[1])
    controls = made_drive(system, controls, *start)
    count = np.int64(n_steps // parts)
    made = Shooting(system, method, controls, t0, count, Returns(returns, fixed), conditions, parameter)
    return made, *start


def _inspect(system: System, returns: Any, fixed: Any, conditions: Any) -> None:
    """Trace the user's functions once and raise an error if they are invalid."""
    with float64():
        g = jax.tree.map(np.asarray, system.group.identity())
        xi = np.zeros(system.group.dim)
        given = (
            ("returns", returns, "g0, xi0, g1, xi1", (g, xi, g, xi)),
            ("fixed", fixed, "g, xi", (g, xi)),
            ("conditions", conditions, "g, xi, T, parameters", (g, xi, np.float64(1.0), system.parameters)),
        )
        for name, function, words, arguments in given:
            if function is not None:
                check_arguments(function, words, name)
                shape, by_data = tried(name, function, *arguments)
                if by_data:
                    raise ValueError(
                        f"{name} reads an array at an index that depends on data, in which it has no slope"
                    )
                if 0 in shape:
                    raise ValueError(f"{name} gives no number at all")


def closed(
    shooting: Shooting, place: tuple, z: np.ndarray, orthogonal: np.ndarray, tol: float, max_iterations: int
) -> tuple[tuple[Point, np.ndarray], np.ndarray, Shot, int]:
    """Place (g, ξ), z = (0, 0, T, a) and derivatives at a solution, from (g₀exp(η), ξ₀ + δ, T, a) as a guess.

    Steps are orthogonal to given directions, and leave the parameter alone where there is none.
    """
    system, n = shooting.system, shooting.system.group.dim
    max_iterations = as_count(max_iterations, "max_iterations")
    tol = as_part(tol, "tol")
    held = orthogonal if shooting.parameter else np.eye(2 * n + 2)[-1:]

    def at(place: tuple, z: np.ndarray) -> tuple[tuple, np.ndarray, Shot]:
        with float64():
            g = system.group.project(system.group.compose(place[0], system.group.exp(jnp.asarray(z[:n]))))
        g, xi = jax.tree.map(np.asarray, g), place[1] + z[n : 2 * n]
        made = shot(shooting, g, xi, float(z[2 * n]), float(z[2 * n + 1]))
        rest = np.concatenate([np.zeros(2 * n), z[2 * n :]])
        return (jax.tree.map(np.asarray, made.start[0]), np.asarray(made.start[1])), rest, made

    place, z, made = at(place, z)
    for iteration in range(max_iterations + 1):
        if made.status or not np.all(np.isfinite(made.slope)):
            raise RuntimeError(f"the motion of {system.name} ends on the way: {_why(made)}")
        size = float(np.abs(made.residual).max(initial=0.0))
        if size <= tol * (1.0 + float(np.linalg.norm(made.slope))):
            return place, z, made, iteration
        rows = np.concatenate([made.slope, held * np.linalg.norm(made.slope)])
        right = np.concatenate([-made.residual, np.zeros(len(held))])
        step = np.linalg.lstsq(rows, right, rcond=FREE)[0]
        for halved in range(HALVINGS):
            trial = at(place, z + 0.5**halved * step)
            fine = trial[2].status == 0 and np.all(np.isfinite(trial[2].slope))
            if fine and np.linalg.norm(trial[2].residual) < np.linalg.norm(made.residual):
                break
        else:
            break
        place, z, made = trial
    raise RuntimeError(
        f"no periodic orbit of {system.name} found near the guess: the conditions are off by {size:.3g} after "
        f"{iteration} steps, at period {z[2 * n] * shooting.returns.parts:.6g} s"
    )


def _why(made: Shot) -> str:
    return Result(made.status).message if made.status else "its derivatives are not finite"

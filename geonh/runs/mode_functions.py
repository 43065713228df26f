r"""Functions of the programs of one mode of a system with modes, and their arguments.

Times are arguments of all of them, as (t0, dt) in ``Timed``, or in ``Entry`` and ``Place``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.validators import shortly
from geonh.engine import jacobian
from geonh.geometry.field import as_array, called, takes_parameters
from geonh.groups.base import LieGroup, Point, as_point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.equations import accelerations, multipliers
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System
from geonh.results.dense import partial_step
from geonh.results.events import Event
from geonh.results.modes import RESET
from geonh.results.nodes import Node
from geonh.results.record import unflatten
from geonh.runs.event_loop import Watched, next_watched, row_of_watched
from geonh.runs.locating import Isolated, Located, at_node, event_values, isolated, located, within_step
from geonh.runs.rounding import with_rounding

GAIN = 1e-3
"""Rise of the energy in a step, relative to the kinetic energy, of one that is too long where no force does work."""
ROUNDING = 1e-10
"""Rise of the energy, relative to it, that is none."""
PLACES = 8
"""Bound of the roundings of the place in a step, relative to one."""
FAR = 1e-3
"""Residual of holonomic constraints, m, that is no rounding: the transition leads to a place off them."""
MUCH = 1e3
"""Largest residual of the velocity after a reset that is due to a drift, relative to it."""


class Place(NamedTuple):
    """Point of a motion: time, group element, velocity of shape=[n]."""

    t: Any
    g: Any
    xi: Any


class Motion(NamedTuple):
    """Places at the beginning and at the end of a motion in one mode."""

    begin: Place
    end: Place


class Timed(NamedTuple):
    """Argument of a program, and the clock for it: t_k = t0 + k·dt."""

    t0: Any
    dt: Any
    what: Any


class Bounded(NamedTuple):
    """Loop state of a member with its clock, and the step count at which it stops with ``Result.END``."""

    timed: Timed
    end: Any


class Later(NamedTuple):
    """Node, and a part of the step that begins there."""

    node: Any
    part: Any


class Entry(NamedTuple):
    """Place where a mode begins, node k of a clock that begins at ``t0`` with steps ``dt``."""

    place: Place
    t0: Any
    dt: Any
    k: Any


class Differentials(NamedTuple):
    """Differentials of the events by time, place (along the velocities of the group) and ξ, shape=[events, 1 + 2n], and
    the rate (1, ξ, ξ̇) of the motion.
    """

    of_events: Any
    of_motion: Any


class Left(NamedTuple):
    """Place after the reset of a transition, the momentum before it, and the distance of the place from the group."""

    g: Any
    xi: Any
    p_before: Any
    gap: Any


class Arrived(NamedTuple):
    """Place after a transition, put on the constraints of the next mode, their largest residual, and the momentum."""

    g: Any
    xi: Any
    residual: Any
    p: Any


def _at(problem: Problem, timed: Any) -> Problem:
    """Problem with the clock of an argument."""
    return problem._replace(clock=problem.clock._replace(t0=timed.t0, dt=timed.dt))


def next_timed(problem: Problem, timed: Timed) -> tuple[Timed, Array]:
    problem, before = _at(problem, timed), timed.what
    after, status = next_watched(problem, before)
    if takes_energy(problem.system):
        motion = Motion(*(_place(problem, watched) for watched in (before, after)))
        is_too_long = (before.armed >= 0) & errs_in_energy(problem.system, motion)
        status = jnp.where((status == 0) & is_too_long, np.int32(Result.STEP), status)
    return timed._replace(what=after), status


def next_until(problem: Problem, bounded: Bounded) -> tuple[Bounded, Array]:
    after, status = next_timed(problem, bounded.timed)
    is_there = bounded.timed.what.state.k >= bounded.end
    return bounded._replace(timed=after), jnp.where(is_there, np.int32(Result.END), status)


def row_until(problem: Problem, bounded: Bounded) -> Array:
    return row_timed(problem, bounded.timed)


def _place(problem: Problem, watched: Watched) -> Place:
    node = Node.of(watched.state)
    t = problem.clock.time(node.k)
    return Place(t, node.g, watched.xi if problem.events else _mean_velocity(problem.system, t, node))


def takes_energy(system: System) -> bool:
    """True if the forces of a system, if any, do no positive work."""
    of_multipliers = system.multiplier_forces
    return not (system.is_timed or system.is_affine or system.is_nonlinear) and (
        (system.forces is None or getattr(system.forces, "only_takes", False))
        and (of_multipliers is None or len(of_multipliers.loads) > 0)
    )


def errs_in_energy(system: System, motion: Motion) -> Array:
    """True if the energy is higher at the end of a motion, by more than its error where steps are short enough, and no
    contact is with something that moves by itself; or lower, if there are no forces that take it.
    """
    (before, kinetic, p), (after, later, q) = (_energies(system, place) for place in motion)
    rounding = ROUNDING * jnp.maximum(jnp.abs(before), jnp.abs(after)) + _work_of_rounding(motion, q - p)
    carried = jnp.any(jnp.stack([_is_carried(system, place) for place in motion]))
    error = after - before
    if system.forces is None and system.multiplier_forces is None:
        error = jnp.abs(error)
    return (error > GAIN * jnp.maximum(kinetic, later) + rounding) & ~carried


def _work_of_rounding(motion: Motion, change: Array) -> Array:
    """Work of the mean force along a rounding of the place, from the change of the momentum."""
    span = jnp.abs(motion.end.t - motion.begin.t)
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(part), initial=0.0) for part in jax.tree.leaves(motion.end.g)]))
    work = PLACES * float(np.finfo(float).eps) * size * jnp.sum(jnp.abs(change))
    return jnp.where(span > 0, work / jnp.where(span > 0, span, 1.0), 0.0)


def _is_carried(system: System, place: Place) -> Array:
    """True if a contact with friction slips where the system is at rest, as on a belt."""
    frictions = () if system.multiplier_forces is None else system.multiplier_forces.function.parts
    x, still = system.action.at(place.g), jnp.zeros_like(place.xi)
    slips = [jnp.ravel(one.velocity(place.t, x, still, system.parameters)) for one in frictions]
    return jnp.any(jnp.concatenate([jnp.zeros(1), *slips]) != 0)


def _energies(system: System, place: Place) -> tuple[Array, Array, Array]:
    """Energy, and kinetic energy, J, and the momentum."""
    x = system.at(place.g, place.t)
    p = system.momentum(x, place.xi)
    twice = p @ place.xi
    return twice - system.lagrangian(x, place.xi), twice / 2, p


def row_timed(problem: Problem, timed: Timed) -> Array:
    return row_of_watched(_at(problem, timed), timed.what)


def located_timed(problem: Problem, timed: Timed) -> Located:
    return located(_at(problem, timed), timed.what)


def isolated_timed(problem: Problem, timed: Timed) -> Isolated:
    return isolated(_at(problem, timed), timed.what)


def at_node_timed(problem: Problem, timed: Timed) -> tuple[Array, Array]:
    return at_node(_at(problem, timed), timed.what)


def entered(problem: Problem, entry: Entry) -> tuple[State, Array, Array]:
    here, clock = entry.place, problem.clock._replace(t0=entry.place.t, dt=entry.dt)
    state = problem.method.first_node(problem.system, clock, here.g, here.xi)
    state = state._replace(k=jnp.asarray(entry.k, jnp.asarray(state.k).dtype))
    if not problem.events:
        return state, jnp.zeros(0), jnp.zeros(0)
    return state, *at_node(_at(problem, entry), Node.of(state))


def differentials_at(problem: Problem, here: Place) -> Differentials:
    system, clock, n = problem.system, problem.clock, here.xi.size

    def values(z: Array) -> Array:
        t, g, xi = here.t + z[0], system.group.compose(here.g, system.group.exp(z[1 : 1 + n])), here.xi + z[1 + n :]
        return event_values(system, problem.events, t, g, xi, clock.between(t))

    change = accelerations(system, here.t, here.g, here.xi, clock.between(here.t))[0]
    moving = jnp.concatenate([jnp.ones(1), here.xi, change])
    return Differentials(jacobian(values, jnp.zeros(1 + 2 * n)), moving)


def tangent_at(group: LieGroup, here: Place) -> Point:
    """Rates of the coordinates of a place."""
    return group.left_tangent(here.g, here.xi)


def rounded_at(tree: tuple[System, tuple[Event, ...], Any], here: Place) -> tuple[Array, Array]:
    """Values of guards at a place, and bounds of their own rounding there, both of shape=[guards]."""
    system, guards, controls = tree
    lam = multipliers(system, *here, Clock(here.t, jnp.ones(()), controls).control(0))

    def values(here: Place) -> Array:
        return jnp.stack([guard.value_with(system, *here, lam) for guard in guards])

    return with_rounding(values, here)


def velocity_timed(problem: Problem, timed: Timed) -> Array:
    clock, k = timed.what.local(_at(problem, timed).clock)
    return _mean_velocity(problem.system, clock.time(k), timed.what)


def _mean_velocity(system: System, t: Array, node: Node) -> Array:
    return system.velocity(system.at(node.g, t), (node.p_plus + node.p_minus) / 2)


def values_later(problem: Problem, timed: Timed) -> Array:
    """Values of the events a part of a step after a node."""
    node, s = timed.what
    problem, xi = _at(problem, timed), velocity_timed(problem, timed._replace(what=node))
    state, part = partial_step(problem, node.local(problem.clock)[1], node.g, xi, s)
    return at_node(within_step(problem, node)._replace(clock=part), Node.of(state))[1]


def left_by(tree: tuple[System, Callable | None, Any], here: Place) -> Left:
    """Place after a user's reset; one with a method ``driven_by`` knows the controls there."""
    (system, reset, controls), (t, g, xi) = tree, here
    p = system.momentum(system.at(g, t), xi)
    if reset is None:
        return Left(g, xi, p, jnp.zeros(()))
    if hasattr(reset, "driven_by"):
        reset = reset.driven_by(Clock(t, jnp.ones(()), controls).control(0))
    more = (system.parameters,) if takes_parameters(reset, RESET, "reset") else ()

    def moved(reset: Callable, t: Array, g: Point, xi: Array, *more: Any) -> tuple[Point, Array]:
        value = called("reset", reset, t, g, xi, *more)
        place, velocity = value if isinstance(value, tuple) and len(value) == 2 else (g, value)
        velocity = as_array(velocity, "reset")
        if velocity.shape != xi.shape:
            raise ValueError(f"reset must give ξ, or (g, ξ), ξ of shape {list(xi.shape)}, got {list(velocity.shape)}")
        place = jax.tree.map(lambda part: as_array(part, "reset"), as_point(system.group, place, "g of reset"))
        if [part.shape for part in jax.tree.leaves(place)] != list(system.group.point_shapes):
            raise ValueError(f"g of reset must be a point of {system.group}, got {shortly(place)}")
        return place, velocity

    if not isinstance(reset, eqx.Module) and inspected("reset", jax.make_jaxpr(partial(moved, reset))(t, g, xi, *more)):
        reset = careful(reset)
    g, xi = moved(reset, t, g, xi, *more)
    return Left(g, xi, p, system.group.gap(g))


def arrived_at(tree: tuple[System, bool, bool], here: Place) -> Arrived:
    """Place on the constraints of a system, onto which the velocity is projected if wanted, and their residual, with
    that of a place far off the holonomic ones. Of a method that drifts off these a place is left where it is, with a
    velocity along them.
    """
    (system, projects, drifts), (t, g, xi) = tree, here
    g = system.group.project(g)  # guards of one wall would differ by what rotations have lost in many parts of steps
    off = jnp.max(jnp.abs(system.holonomic_residual(system.at(g, t))), initial=0.0)
    if projects or not drifts:
        g, _ = onto(system, g, t)
    x, on = system.at(g, t), system.projected_velocity
    missed = jnp.zeros(()) if drifts else jnp.where(off > FAR, off, 0.0)
    if projects:
        xi = on(x, xi)
    elif drifts and system.holonomic is not None:  # the velocity is off by as much
        residual = jnp.max(jnp.abs(system.constraint_residual(x, xi)), initial=0.0)
        xi = jnp.where(residual <= MUCH * off * (1 + jnp.max(jnp.abs(xi))), on(x, xi), xi)
    kept = [missed[None]] if drifts and not projects else [missed[None], system.holonomic_residual(x)]
    residual = jnp.concatenate([system.constraint_residual(x, xi), *kept])
    return Arrived(g, xi, jnp.max(jnp.abs(residual), initial=0.0), system.momentum(x, xi))


def drifts_off(method: Integrator) -> bool:
    """True for a method that does not keep constraints."""
    return method.guarantees.constraint == "none"


def point(flat: np.ndarray, like: Point) -> Point:
    """Group element from a vector, in the form of another one."""
    return unflatten(flat, [list(np.shape(leaf)) for leaf in jax.tree.leaves(like)], isinstance(like, tuple))


def vector(g: Point) -> np.ndarray:
    """Group element as a vector, shape=[size]."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)])

r"""Compiled programs of one mode of a system with modes, prepared once for a run.

Times are arguments of all of them, and parameters that differ between the members of an ensemble, so that whole steps,
the shortened ones about a transition, and all members share their code: the start of the mode, the loop that stops at
its guards, their location, the resets of the transitions that leave it, and the arrival of those that lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.validators import shortly
from geonh.engine import BatchStepping, Partition, batch_of_one, batch_stepping, first_of_batch, prepared, stepping
from geonh.geometry.field import as_array, called, takes_parameters
from geonh.groups.base import Point, as_point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.runge_kutta import Gauss
from geonh.integrators.validity import Result
from geonh.mechanics.holonomic import onto
from geonh.mechanics.own_values import OfOwn, Own, StepOfOwn
from geonh.mechanics.system import System
from geonh.results.dense import partial_step
from geonh.results.events import Crossings, Event, SlipEnds, careful_guards
from geonh.results.modes import RESET, Modes, Transition
from geonh.results.nodes import Node
from geonh.results.record import unflatten
from geonh.runs.event_loop import Watched, Watching, next_watched, row_of_watched
from geonh.runs.locating import Isolated, Located, Notices, Search, Zeros, at_node, isolated, located, within_step

GAIN = 1e-3
"""Rise of the energy in a step, relative to the kinetic energy, of one that is too long where no force does work."""
ROUNDING = 1e-10
"""Rise of the energy, relative to it, that is none."""
DRIFTED = 1e-12
"""Residual of holonomic constraints, m, of a method that does not keep them."""
MUCH = 1e3
"""Largest residual of the velocity after a reset that is due to that, relative to it."""
NEARBY = 1e-6
"""Distance before a zero at which a step must succeed, relative to its own."""
SOON = 1e-6
"""Part of a step after which a guard that is past zero at the beginning of a mode is looked at again."""


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


class Soon(NamedTuple):
    """Node, and a part of the step that begins there."""

    node: Any
    part: Any


class Entry(NamedTuple):
    """Place where a mode begins, node k of a clock that begins at ``t0`` with steps ``dt``."""

    place: Place
    t0: Any
    dt: Any
    k: Any


class Left(NamedTuple):
    """Place after the reset of a transition, and the momentum before it."""

    g: Any
    xi: Any
    p_before: Any


class Arrived(NamedTuple):
    """Place after a transition, put on the constraints of the next mode, their largest residual, and the momentum."""

    g: Any
    xi: Any
    residual: Any
    p: Any


def for_stiff_steps(method: Integrator) -> Integrator:
    """Collocation method of order 4 or 6, for steps that an explicit method cannot make."""
    return Gauss(2 if method.order < 6 else 3)


class ModeLoop(Watching):
    """Loop of a run in one mode, and the programs of its transitions.

    Parameters
    ----------
    modes : Modes
    which : int
        Index of the mode.
    method, controls, events : Integrator, callable or None, tuple of Event
        Those of the run.
    values : mapping of str to array, optional
        Values of parameters, as an example of those that arguments of its programs have; none by default.
    """

    def __init__(
        self,
        modes: Modes,
        which: int,
        method: Integrator,
        controls: Any,
        events: tuple[Event, ...],
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._values = dict(values)
        system = modes.systems[which]
        if (forces := system.multiplier_forces) is not None:
            system = eqx.tree_at(lambda s: s.multiplier_forces, system, forces.parted())
        self.clock = Clock(np.float64(0.0), np.float64(1.0), controls)
        self.system, self.transitions = system, modes.leaving(which)
        self.guards = careful_guards(modes.guards(which), system)
        self._problem = Problem(self.system, method, self.clock, (*self.guards, *events))
        self._parts = Partition.of(self._problem)
        self._notices = Notices(self._problem.events)
        self.names = tuple(event.name for event in self._problem.events)
        self.own = np.isin(self.names, [event.name for event in events])
        """True for the events of the run, false for guards."""
        self.crosses_both_ways = np.array(
            [i >= len(self.guards) or not event.direction for i, event in enumerate(self._problem.events)], bool
        )
        self.ends_slip = np.array([isinstance(event, SlipEnds) for event in self._problem.events], bool)
        self._leaving: dict[str, Callable[[Any], Left]] = {}
        self._arriving: dict[bool, Callable[[Any], Arrived]] = {}

    # --- where the mode begins ------------------------------------------------------------------------------
    def enter(self, clock: Clock, here: Place, k: int, t0: Any) -> State:
        """Begin at a place with the steps of a clock, which is node k of a run that began at t0; return its state."""
        entry = Entry(here, np.float64(t0), clock.dt, np.int64(k))
        state, xi, values = first_of_batch(self.entering(_alone(entry)))
        self._begin_at(self.clock._replace(t0=entry.t0, dt=clock.dt), state, xi, values)
        return state

    def go_on(self, clock: Clock, state: State) -> None:
        """Begin at a node, a state of the method with the steps of a clock."""
        self._set(clock)
        xi = values = np.zeros(0)
        if self.names:
            timed = self._timed(Node.of(state))
            xi, values = first_of_batch(self.values_at(timed))
        self._begin_at(clock, state, xi, values)

    def continue_at(self, clock: Clock, watched: Watched) -> None:
        """Go on from a state of a loop of this mode, with the steps of a clock."""
        self._set(clock)
        self.begin = watched
        self.crossings = self.none

    def is_at(self, clock: Clock, state: State) -> bool:
        """True if the loop is at a node already, with the steps of this clock."""
        own = self.clock.t0 == clock.t0 and self.clock.dt == clock.dt
        return own and hasattr(self, "begin") and self.begin.state is state and not self.begin.state.status

    def _set(self, clock: Clock) -> None:
        self.clock = clock
        self._problem = self._problem._replace(clock=clock)

    def _begin_at(self, clock: Clock, state: State, xi: np.ndarray, values: np.ndarray) -> None:
        self._set(clock)
        self.begin = Watched.begun(state, xi, values)
        if not state.status:
            self.refuse_unknown()
            self.crossings = self.none

    @cached_property
    def none(self) -> Crossings:
        """Empty record of the events of the mode."""
        return Crossings.none_of(self._problem.events, self.system, self.begin.state.g, self.clock.t0)

    # --- programs -------------------------------------------------------------------------------------------
    def _timed(self, what: Any) -> Own:
        """Arguments of a program for one node, with a first axis."""
        return _alone(Timed(self.clock.t0, self.clock.dt, what))

    def _program(self, function: Callable, tree: Any, what: Any) -> Callable[[Own], Any]:
        """Program for arguments like one, with a first axis."""
        return prepared(OfOwn(function), tree, Own(self._values, what))

    @cached_property
    def entering(self) -> Callable[[Own], Any]:
        """Program of ``Entry`` with a first axis: states, velocities, and values of the events."""
        n, number = self.system.group.dim, np.float64(0.0)
        place = Place(number, jax.tree.map(np.asarray, self.system.point(None)), np.zeros(n))
        return self._program(_entered, self._parts, Entry(place, number, number, np.int64(0)))

    def values_at(self, nodes: Own) -> tuple[np.ndarray, np.ndarray]:
        """Velocities at nodes, with a first axis, and values of the events."""
        return self._program(_at_node, self._parts, first_of_batch(nodes.what))(nodes)

    def searching(self, function: Callable) -> Callable[[Own], Any]:
        """Program of ``located`` or ``isolated`` of searches with a first axis."""
        one = Timed(self.clock.t0, self.clock.dt, Search(Node.of(self.begin.state), np.int64(0), *np.zeros(3)))
        return self._program(_located if function is located else _isolated, self._parts, one)

    def _prepared_search(self, function: Callable) -> Callable[[Any], Any]:
        program = self.searching(function)

        def search(given: Search) -> Any:
            n = len(given.a)
            return program(Own({}, Timed(np.full(n, self.clock.t0), np.full(n, self.clock.dt), given)))

        return search

    @cached_property
    def _stepping(self) -> Any:
        begin = Own({}, Timed(self.clock.t0, self.clock.dt, self.begin))
        loop = stepping(StepOfOwn(_next), OfOwn(_row), self._parts, begin)
        self.engine, self.width = loop.engine, loop.width
        return loop

    def _steps(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        own = Own({}, Timed(self.clock.t0, self.clock.dt, watched))
        for after, status, saved in self._stepping.pieces(own, n_nodes, stride, buffer):
            yield after.what.what, status, saved

    @cached_property
    def batch(self) -> BatchStepping:
        """Loop of ``Bounded`` for many members."""
        begin = Own(self._values, Bounded(Timed(self.clock.t0, self.clock.dt, self.begin), np.int64(0)))
        return batch_stepping(StepOfOwn(_next_until), OfOwn(_row_until), self._problem, self._problem, begin)

    @cached_property
    def _soon(self) -> Callable[[Any], Any]:
        soon = Timed(self.clock.t0, self.clock.dt, Soon(Node.of(self.begin.state), SOON))
        return self._program(_values_soon, self._parts, soon)

    def _failure(self, here: Watched, after: Watched, zeros: Zeros) -> Result:
        """Reason why a step with these zeros is to be made in parts; SUCCESS if there is none. It is too long where the
        energy has risen, or the guard of a transition jumps, until the first zero that counts; or where shorter steps
        fail, beyond which that zero was found.
        """
        jumps = zeros.jumped & ~self.crosses_both_ways[zeros.which]
        counts = np.flatnonzero(~zeros.jumped | jumps)
        failure = super()._failure(here, after, zeros)
        if failure or not len(counts):
            return failure
        first = counts[np.argmin(zeros.t[counts])]
        if jumps[first] or self._is_beyond_failures(here, zeros, first):
            return Result.STEP
        if not self.takes_energy:
            return failure
        begin = Place(self.clock.t0 + here.state.k * self.clock.dt, here.state.g, here.xi)
        step = Motion(begin, Place(zeros.t[first], point(zeros.g_vector[first], begin.g), zeros.xi[first]))
        return Result.STEP if first_of_batch(self.gains(_alone(step))) else failure

    def _is_beyond_failures(self, here: Watched, zeros: Zeros, i: int) -> bool:
        """True if the step to just before a zero fails; not of a slip, of which short ones have no direction there."""
        if self.ends_slip[zeros.which[i]]:
            return False
        node, which = Node.of(here.state), zeros.which[i : i + 1]
        s = (zeros.t[i : i + 1] - self.clock.t0) / self.clock.dt - int(here.state.k)
        before = just_before(s)
        return not np.isfinite(self._locate(Search(batch_of_one(node), which, before, before, np.ones(1))).value[0])

    @property
    def takes_energy(self) -> bool:
        """True if the forces of the mode do no positive work."""
        return _takes_energy(self.system)

    @cached_property
    def gains(self) -> Callable[[Own], Any]:
        """Program of ``rises`` of motions with a first axis."""
        begin = Place(np.float64(0.0), self.begin.state.g, self.begin.xi)
        return self._program(rises, self.system, Motion(begin, begin))

    def buffer(self, n_nodes: int) -> np.ndarray:
        """Buffer for the rows of that many nodes."""
        assert self._stepping is not None  # it knows their width
        return np.empty((n_nodes, self.width))

    def values_soon(self, state: State, part: float = SOON) -> np.ndarray:
        """Values of the events a small part of a step after a node."""
        return self._soon(self._timed(Soon(Node.of(state), part)))[0]

    def where_stopped(self) -> tuple[int, np.ndarray]:
        """Index of the event at which the loop stopped, and values of all there."""
        found = self.crossings
        assert found is not None
        here = Place(np.float64(found.t[-1]), point(found.g_vector[-1], self.begin.state.g), found.xi[-1])
        entry = Entry(here, here.t, self.clock.dt, np.int64(0))
        return int(found.which[-1]), first_of_batch(self.entering(_alone(entry)))[2]

    def velocity(self, watched: Watched) -> np.ndarray:
        """ξ̃ at a node of the loop."""
        if len(watched.xi):
            return watched.xi
        return self.velocities(self._timed(Node.of(watched.state)))[0]

    def velocities(self, nodes: Own) -> np.ndarray:
        """ξ̃ at nodes with a first axis."""
        return self._program(_velocity, self._parts, first_of_batch(nodes.what))(nodes)

    def leaving(self, transition: Transition, places: Own) -> Left:
        """Places after the reset of a transition, of places with a first axis."""
        if transition.name not in self._leaving:
            tree = self.system, transition.reset, self.clock.controls
            try:
                self._leaving[transition.name] = self._program(left_by, tree, first_of_batch(places.what))
            except (TypeError, ValueError) as error:
                error.add_note(f"geonh: at the transition {transition.name!r}")
                raise
        return self._leaving[transition.name](places)

    def arriving(self, places: Own, projects: bool) -> Arrived:
        """Places after a transition to this mode, with a first axis; if wanted, velocities are projected onto its
        constraints.
        """
        if projects not in self._arriving:
            self._arriving[projects] = self._program(arrived_at, (self.system, projects), first_of_batch(places.what))
        return self._arriving[projects](places)


def _alone(what: Any) -> Own:
    """Argument of a program for one node, with a first axis."""
    return Own({}, batch_of_one(what))


def just_before(s: np.ndarray) -> np.ndarray:
    """Fractions of a step at which it must succeed for zeros at s."""
    return s * (1 - NEARBY)


def _at(problem: Problem, timed: Any) -> Problem:
    """Problem with the clock of an argument."""
    return problem._replace(clock=problem.clock._replace(t0=timed.t0, dt=timed.dt))


def _next(problem: Problem, timed: Timed) -> tuple[Timed, Array]:
    problem, before = _at(problem, timed), timed.what
    after, status = next_watched(problem, before)
    if _takes_energy(problem.system):
        motion = Motion(*(_place(problem, watched) for watched in (before, after)))
        is_too_long = (before.armed >= 0) & rises(problem.system, motion)
        status = jnp.where((status == 0) & is_too_long, np.int32(Result.STEP), status)
    return timed._replace(what=after), status


def _next_until(problem: Problem, bounded: Bounded) -> tuple[Bounded, Array]:
    after, status = _next(problem, bounded.timed)
    is_there = bounded.timed.what.state.k >= bounded.end
    return bounded._replace(timed=after), jnp.where(is_there, np.int32(Result.END), status)


def _row_until(problem: Problem, bounded: Bounded) -> Array:
    return _row(problem, bounded.timed)


def _place(problem: Problem, watched: Watched) -> Place:
    node = Node.of(watched.state)
    t = problem.clock.time(node.k)
    return Place(t, node.g, watched.xi if problem.events else _mean_velocity(problem.system, t, node))


def _takes_energy(system: System) -> bool:
    """True if the forces of a system, if any, do no positive work."""
    of_multipliers = system.multiplier_forces
    return not (system.is_timed or system.is_affine or system.is_nonlinear) and (
        (system.forces is None or getattr(system.forces, "only_takes", False))
        and (of_multipliers is None or len(of_multipliers.loads) > 0)
    )


def rises(system: System, motion: Motion) -> Array:
    """True if the energy is higher at the end of a motion, by more than its error where steps are short enough, and no
    contact is with something that moves by itself.
    """
    (before, kinetic), (after, later) = (_energies(system, place) for place in motion)
    rounding = ROUNDING * jnp.maximum(jnp.abs(before), jnp.abs(after))
    carried = jnp.any(jnp.stack([_is_carried(system, place) for place in motion]))
    return (after - before > GAIN * jnp.maximum(kinetic, later) + rounding) & ~carried


def _is_carried(system: System, place: Place) -> Array:
    """True if a contact with friction slips where the system is at rest, as on a belt."""
    frictions = () if system.multiplier_forces is None else system.multiplier_forces.function.parts
    x, still = system.action.at(place.g), jnp.zeros_like(place.xi)
    slips = [jnp.ravel(one.velocity(place.t, x, still, system.parameters)) for one in frictions]
    return jnp.any(jnp.concatenate([jnp.zeros(1), *slips]) != 0)


def _energies(system: System, place: Place) -> tuple[Array, Array]:
    """Energy, and kinetic energy, J."""
    x = system.at(place.g, place.t)
    twice = system.momentum(x, place.xi) @ place.xi
    return twice - system.lagrangian(x, place.xi), twice / 2


def _row(problem: Problem, timed: Timed) -> Array:
    return row_of_watched(_at(problem, timed), timed.what)


def _located(problem: Problem, timed: Timed) -> Located:
    return located(_at(problem, timed), timed.what)


def _isolated(problem: Problem, timed: Timed) -> Isolated:
    return isolated(_at(problem, timed), timed.what)


def _at_node(problem: Problem, timed: Timed) -> tuple[Array, Array]:
    return at_node(_at(problem, timed), timed.what)


def _entered(problem: Problem, entry: Entry) -> tuple[State, Array, Array]:
    here, clock = entry.place, problem.clock._replace(t0=entry.place.t, dt=entry.dt)
    state = problem.method.first_node(problem.system, clock, here.g, here.xi)
    state = state._replace(k=jnp.asarray(entry.k, jnp.asarray(state.k).dtype))
    if not problem.events:
        return state, jnp.zeros(0), jnp.zeros(0)
    return state, *at_node(_at(problem, entry), Node.of(state))


def _velocity(problem: Problem, timed: Timed) -> Array:
    clock, k = timed.what.local(_at(problem, timed).clock)
    return _mean_velocity(problem.system, clock.time(k), timed.what)


def _mean_velocity(system: System, t: Array, node: Node) -> Array:
    return system.velocity(system.at(node.g, t), (node.p_plus + node.p_minus) / 2)


def _values_soon(problem: Problem, timed: Timed) -> Array:
    """Values of the events a small part of a step after a node."""
    node, s = timed.what
    problem, xi = _at(problem, timed), _velocity(problem, timed._replace(what=node))
    state, part = partial_step(problem, node.local(problem.clock)[1], node.g, xi, s)
    return at_node(within_step(problem, node)._replace(clock=part), Node.of(state))[1]


def left_by(tree: tuple[System, Callable | None, Any], here: Place) -> Left:
    """Place after a user's reset; one with a method ``driven_by`` knows the controls there."""
    (system, reset, controls), (t, g, xi) = tree, here
    p = system.momentum(system.at(g, t), xi)
    if reset is None:
        return Left(g, xi, p)
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
    return Left(*moved(reset, t, g, xi, *more), p)


def arrived_at(tree: tuple[System, bool], here: Place) -> Arrived:
    """Place on the constraints of a system, onto which the velocity is projected if wanted."""
    (system, projects), (t, g, xi) = tree, here
    before = system.holonomic_residual(system.at(g, t))
    g, _ = onto(system, g, t)
    x, on = system.at(g, t), system.projected_velocity
    if projects:
        xi = on(x, xi)
    elif system.holonomic is not None:  # of methods that drift off φ = 0 the velocity is off by as much
        off = jnp.max(jnp.abs(before), initial=0.0)
        residual = jnp.max(jnp.abs(system.constraint_residual(x, xi)), initial=0.0)
        drifted = (off > DRIFTED) & (residual <= MUCH * off * (1 + jnp.max(jnp.abs(xi))))
        xi = jnp.where(drifted, on(x, xi), xi)
    residual = jnp.concatenate([system.constraint_residual(x, xi), system.holonomic_residual(x)])
    return Arrived(g, xi, jnp.max(jnp.abs(residual), initial=0.0), system.momentum(x, xi))


def point(flat: np.ndarray, like: Point) -> Point:
    """Group element from a vector, in the form of another one."""
    return unflatten(flat, [list(np.shape(leaf)) for leaf in jax.tree.leaves(like)], isinstance(like, tuple))


def vector(g: Point) -> np.ndarray:
    """Group element as a vector, shape=[size]."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)])

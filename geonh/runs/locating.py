"""Location of events in the steps of a run, by partial steps of the method.

The interpolation between two nodes indicates whether a step may contain an event (``possible_events``). Samples and
roots in s are evaluated in machine code, by one program (``located``), for many steps at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import depends
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.validity import forces_held
from geonh.mechanics.equations import multipliers
from geonh.mechanics.system import System
from geonh.results.dense import controls_of_part, partial_step
from geonh.results.events import Event, SlipEnds
from geonh.results.interpolation import curve
from geonh.results.nodes import Node
from geonh.results.zeros import BERNSTEIN, LEAST, NEAREST, PLACES, SMALL, brackets, crossed, root, suspected

FAR = 8.0
"""Number of changes from node to node beyond which zero is far from a value."""
TURN = 0.5
"""Rotation of a step, rad, from which values at nodes may hide how a function changes between them."""
SAME_INSTANT = 1e-12
"""Part of a step by which zeros of events at one instant are apart at least, where their order differs by 1."""


class EventWarning(UserWarning):
    """An event function is nan somewhere along the motion, or jumps over zero."""


class Zeros(NamedTuple):
    """Sign changes of events in steps, unordered.

    Attributes
    ----------
    row : ndarray of int, shape=[K]
        Index of the step.
    which : ndarray of int, shape=[K]
        Index of the event.
    jumped : ndarray of bool, shape=[K]
        True if the event function jumps over zero there.
    t : ndarray, shape=[K]
    g_vector, xi, multipliers : ndarray, shape=[K, …]
    """

    row: np.ndarray
    which: np.ndarray
    jumped: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray
    multipliers: np.ndarray

    def taken(self, which: np.ndarray) -> Zeros:
        """Some of the zeros."""
        return Zeros(*(part[which] for part in self))


def located_zeros(
    locate: Callable[[Any], Any],
    before: Any,
    after: Any,
    which: np.ndarray,
    ends: np.ndarray,
    directions: np.ndarray,
) -> Zeros:
    """Locate all sign changes of events, in the wanted directions, in steps flagged by the interpolation.

    Parameters
    ----------
    locate : callable
        ``located`` for a batch: ``Search`` → ``Located``.
    before, after : pytrees of arrays, with a first axis of N steps
        Nodes at both ends of the steps, as in ``Search``.
    which, directions : ndarray, shape=[N]
        One event of each step.
    ends : ndarray, shape=[N, 2]
        Values of the event at the nodes. A zero takes the sign just after it, obtained by a partial step.
    """
    n, nodes = len(which), jax.tree.map(lambda a, b: np.concatenate([a, b]), before, after)

    def at(row: np.ndarray, a: np.ndarray, b: np.ndarray, at_a: np.ndarray) -> Located:
        return locate(Search(jax.tree.map(lambda x: x[row], nodes), which[row % n], a, b, at_a))

    def sample(row: np.ndarray, s: np.ndarray) -> np.ndarray:
        return at(row, s, s, np.ones(len(s))).value

    row, side = np.nonzero(ends == 0)
    after_zero = np.zeros(ends.shape)
    if len(row):
        ends = ends.copy()
        after_zero[row, side] = np.nan_to_num(sample(row + n * side, np.full(len(row), NEAREST)))
        ends[row, side] = LEAST * np.sign(after_zero[row, side])
    intervals = brackets(sample, ends)
    leaves_zero = (intervals.a == 0) & (np.abs(intervals.at_a) == LEAST) & (intervals.b > NEAREST)
    intervals = intervals._replace(  # nearer to a zero, from which the function leaves, its sign is due to rounding
        a=np.where(leaves_zero, NEAREST, intervals.a),
        at_a=np.where(leaves_zero, after_zero[intervals.row, 0], intervals.at_a),
    )
    intervals = intervals.taken(crossed(intervals.at_a, intervals.at_b, directions[intervals.row]))
    zero = at(intervals.row, intervals.a, intervals.b, intervals.at_a)
    change = np.abs(intervals.at_b - intervals.at_a)
    return zeros_of(intervals.row, which[intervals.row], zero, intervals.at_a, change)


def zeros_of(row: np.ndarray, which: np.ndarray, zero: Located, at_a: np.ndarray, change: np.ndarray) -> Zeros:
    """Zeros of events of some steps, from values before them and the change around them, shape=[K]."""
    # partial steps of a method that restarts may end before a zero that its nodes have passed
    short = (zero.s == 1.0) & (zero.value * np.sign(at_a) > 0)
    jumped = ~(np.abs(zero.value) <= np.where(short, 0.25, SMALL) * change) | ~np.isfinite(change)
    return Zeros(row, which, jumped, zero.t, zero.g_vector, zero.xi, zero.multipliers)


class Notices:
    """Warnings of events, once for each event and cause.

    Parameters
    ----------
    events : tuple of Event
    whose : str
        Whose events they are, for a warning.
    n_guards : int
        Number of the first events that are guards of transitions, which come last of those at one instant, in their
        order.
    """

    def __init__(self, events: tuple[Event, ...], whose: str = "", n_guards: int = 0) -> None:
        self._events, self._whose = events, whose
        self._order = np.array(
            [order_of_guard(i) if i < n_guards else event.stop for i, event in enumerate(events)], float
        )
        self._given = set[tuple[int, str]]()

    def forget(self) -> None:
        """Warn again of all."""
        self._given.clear()

    def unknown(self, event: int, where: str) -> None:
        """Warn of an event function that is nan at ``where``."""
        self._warn(event, "is not a number", where, "there its changes of sign are not detected")

    def ambiguous(self, event: int, where: str) -> None:
        """Warn of a guard that leaves zero, where it has rested, at a transition at ``where``."""
        so = "on which side of it the motion was is not known, so it counts as uncrossed: give the event a direction"
        self._warn(event, "leaves the zero at which it rested", where, so)

    def occurrences(self, zeros: Zeros, dt: Any, owners: np.ndarray) -> Iterator[int]:
        """Indices of the zeros that count, by owner, shape=[zeros], in the order of time, terminal events after others
        at one instant: no jumps, of which it warns, and none after a terminal event. dt is a number, or of each zero.
        """
        later = SAME_INSTANT * self._order[zeros.which]
        stopped = set()
        for i in np.lexsort((np.sign(dt) * zeros.t + np.abs(dt) * later, owners)).tolist():
            event = int(zeros.which[i])
            if owners[i] in stopped:
                continue
            if zeros.jumped[i]:
                where = f"at t = {zeros.t[i]:.6g}{self._whose}"
                self._warn(event, "jumps over zero", where, "poles and jumps are not reported as events")
                continue
            yield i
            if self._events[event].stop:
                stopped.add(owners[i])

    def _warn(self, event: int, does: str, where: str, so: str) -> None:
        if (event, does) not in self._given:
            self._given.add((event, does))
            name = self._events[event].name
            warnings.warn(f"event {name!r} {does} {where}: {so}", EventWarning, stacklevel=4)


def order_of_guard(i: Any) -> Any:
    """Order of a guard of that index among the zeros at one instant, less than 5: events have 0, and 1 if they stop."""
    return 2 + np.minimum(i, 10) / 4


def within_step(problem: Problem, node: Node) -> Problem:
    """Problem in the step from a node, whose forces that depend on multipliers know where it begins."""
    if problem.system.multiplier_forces is None:
        return problem
    clock, k = node.local(problem.clock)
    return problem._replace(system=forces_held(problem.system, node, clock.time(k)))


def slips_at_end(held: Problem, node: Node, values: Array) -> Array:
    """Values of the events at the end of a step, of ends of slips along the slip where it began; shape=[events]."""
    along = at_node(held, node)[1]
    slips = [isinstance(event, SlipEnds) for event in held.events]
    return jnp.stack([along[i] if is_slip else values[i] for i, is_slip in enumerate(slips)])


def may_be_far(problem: Problem, node: Node) -> np.ndarray:
    """True for events of contacts of a motion whose laws do not depend on the time, shape=[events]: these change within
    a step as they do from node to node.
    """
    contacts = np.array([event.sampled_near_zero for event in problem.events])

    def values(k: Array, node: Node) -> Array:
        return at_node(problem, node._replace(k=k))[1]

    if problem.clock.controls is not None or not contacts.any() or depends(values, node.k, node):
        return np.zeros(len(contacts), bool)
    return contacts


def far_events(
    problem: Problem, step: Node, ends: tuple[Array, Array], values: tuple[Array, Array], change: Array
) -> Any:
    """True for events that are far from zero in a step with velocities and values of the events at its ends, and the
    change of the values in the step before, shape=[events].
    """
    contacts = may_be_far(problem, step)
    if not contacts.any():
        return contacts
    clock = step.local(problem.clock)[0]
    turn = jnp.abs(clock.dt) * jnp.maximum(*map(problem.system.group.turn, ends))
    change = jnp.maximum(jnp.abs(values[1] - values[0]), change)
    is_far = jnp.minimum(*map(jnp.abs, values)) > FAR * change
    return contacts & (turn < TURN) & is_far


def possible_events(
    problem: Problem, step: Node, before: tuple, after: tuple, at_before: Array, at_after: Array
) -> Array:
    """Events that may lie in the step from a node, by the interpolation from (g, ξ) before to (g, ξ) after,
    shape=[events].
    """
    system, events, (clock, k) = problem.system, problem.events, step.local(problem.clock)
    place = curve(system.group, before, after, jnp.asarray(clock.dt))

    def at(s: Array) -> Array:
        part = Clock(clock.time(k), s * clock.dt, controls_of_part(clock, k, s))
        return event_values(system, events, part.time(1), *place(s), part.control(1))

    inner = lax.map(at, jnp.asarray(PLACES[1:-1]))
    directions = jnp.array([event.direction for event in events])
    return suspected(jnp.concatenate([at_before[None], inner, at_after[None]]), directions)


def at_node(problem: Problem, node: Node) -> tuple[Array, Array]:
    """ξ̃ at a node, and the values of the events there, shape=[number of events]."""
    system, events, g, p_plus, p_minus = problem.system, problem.events, node.g, node.p_plus, node.p_minus
    clock, k = node.local(problem.clock)
    t, u = clock.time(k), clock.control(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)
    return xi, event_values(system, events, t, g, xi, u)


def event_values(system: System, events: tuple[Event, ...], t: Array, g: Point, xi: Array, u: Any) -> Array:
    """Values of events at a point of a motion, shape=[events]."""
    return jnp.stack([event.value(system, t, g, xi, u) for event in events])


class Search(NamedTuple):
    """Search for an event in the interval (a, b] of a step; evaluated at a if a = b.

    Attributes
    ----------
    node : Node
        Node at which the step begins.
    event : int
        Index of the event.
    a, b : float
        Ends of the interval, as fractions of the step.
    at_a : float
        Value of the event at a.
    """

    node: Any
    event: ArrayLike
    a: ArrayLike
    b: ArrayLike
    at_a: ArrayLike


class Located(NamedTuple):
    """Point of a step: value of an event there, fraction of the step, time, group element, velocity and multipliers."""

    value: ArrayLike
    s: ArrayLike
    t: ArrayLike
    g_vector: ArrayLike
    xi: ArrayLike
    multipliers: ArrayLike


def located(problem: Problem, search: Search) -> Located:
    """Locate an event in an interval of a step, by partial steps of the method; at b if there is none."""
    system, events = problem.system, problem.events
    g, p_plus, p_minus = search.node.g, search.node.p_plus, search.node.p_minus
    clock, k = search.node.local(problem.clock)
    held, problem = within_step(problem, search.node).system, problem._replace(clock=clock)
    t = clock.time(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)

    def at(s: Array) -> tuple[Array, Located]:
        state, part = partial_step(problem, k, g, xi, s)
        time, u = part.time(1), part.control(1)
        velocity = system.velocity(system.at(state.g, time), (state.p_plus + state.p_minus) / 2)
        value = event_values(held, events, time, state.g, velocity, u)[search.event]
        value = jnp.where(state.status == 0, value, jnp.nan)
        lam = multipliers(held, time, state.g, velocity, u)
        return value, Located(value, s, time, system.group.to_vector(state.g), velocity, lam)

    return root(at, search.at_a, 4e-16 * jnp.abs(t / clock.dt), (search.a, search.b))


class Isolated(NamedTuple):
    """Search of a whole step with at most one sign change of an event.

    Attributes
    ----------
    is_one : bool
        False if there may be more sign changes, or samples are zero or not finite: then the rest is of no use.
    there : bool
        True if there is one, in the direction of the event.
    zero : Located
    change : float
        Difference of the samples around it.
    """

    is_one: ArrayLike
    there: ArrayLike
    zero: Any
    change: ArrayLike


def isolated(problem: Problem, search: Search) -> Isolated:
    """Locate the sign change of an event in a step with values ``at_a`` and ``b`` of the event at its ends, as
    ``located_zeros`` does, if the first samples isolate it.
    """
    directions = jnp.array([event.direction for event in problem.events])
    samples, from_zero = jnp.asarray([NEAREST, *PLACES[1:-1]]), search.at_a == 0
    # nearer to a zero, from which the function leaves, its sign is due to rounding
    places = jnp.asarray(PLACES).at[0].set(jnp.where(from_zero, NEAREST, 0.0))

    def values_of(found: Array) -> tuple[Array, Array]:
        """Values at the places from those at the samples, and the index of the first interval with a sign change."""
        begin = jnp.where(from_zero, jnp.nan_to_num(found[0]), search.at_a)
        values = jnp.stack([begin, *found[1:], jnp.asarray(search.b)])
        return values, jnp.argmax((values[1:] > 0) != (values[:-1] > 0))

    def next_one(found: Array, j: Array) -> tuple[Array, Located]:
        """Sample, or after all of them the zero: in one loop, so that its program has the step once."""
        values, i = values_of(found)
        sample, is_sample = samples[jnp.minimum(j, len(samples) - 1)], j < len(samples)
        a, b = (jnp.where(is_sample, sample, end) for end in (places[i], places[i + 1]))
        one = located(problem, search._replace(a=a, b=b, at_a=jnp.where(is_sample, 1.0, values[i])))
        return jnp.where(jnp.arange(len(samples)) == j, one.value, found), one

    found, points = lax.scan(next_one, jnp.zeros(len(samples)), jnp.arange(len(samples) + 1))
    values, i = values_of(found)
    coefficients = jnp.asarray(BERNSTEIN) @ values > 0
    is_one = jnp.all(jnp.isfinite(values) & (values != 0))
    is_one &= jnp.sum(coefficients[1:] != coefficients[:-1]) <= 1
    at_a, at_b = values[i], values[i + 1]
    there = is_one & (at_a * jnp.sign(at_b) < 0) & crossed(at_a, at_b, directions[search.event])
    return Isolated(is_one, there, jax.tree.map(lambda part: part[-1], points), jnp.abs(at_b - at_a))

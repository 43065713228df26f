"""Stored data of a run: its saved nodes, their observables, and the state needed to resume."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count
from geonh.engine import mapped
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.results.events import Crossings, Event, Section
from geonh.results.modes import Modes, Switches, padded, placed
from geonh.results.nodes import Node, Nodes
from geonh.results.observables import OF_ROWS, Observed, observe


class FunctionValues(NamedTuple):
    """Stored values of a system's functions, and of events.

    Attributes
    ----------
    nodes : ndarray of int
        Indices in the trajectory of the nodes that are compared.
    values : dict of str to ndarray
        Values at these nodes, by the name of the function.
    traces : dict of str to str
        Digests of the traces of the functions, and the versions that traced them.
    """

    nodes: np.ndarray
    values: dict[str, np.ndarray]
    traces: dict[str, str]


class Trail(NamedTuple):
    """Monitor of the alternating mode, updated by the loop; sizes are squares in the kinetic norm.

    Parameters
    ----------
    change : array, shape=[n]
        Change of the jump p⁻ − p⁺ from the node before the last one to the last.
    largest : float
        Largest momentum p̃ at the sampled nodes.
    worst : float
        Largest part that appears to alternate.
    since, until : float
        Range of all nodes where that part may exceed ``DOUBTFUL`` of the largest momentum so far.
    """

    change: Any
    largest: Any
    worst: Any
    since: Any
    until: Any


@dataclass(frozen=True, eq=False)
class RunState:
    """Data that resuming a run takes beyond its nodes; of a file, as much as it holds.

    Attributes
    ----------
    system, method, clock : System, Integrator, Clock, or None
        Problem of the run; None where a file does not hold it.
    state : State or None
        Last good node; None for a member of an ensemble.
    function_values : FunctionValues or None
        Values of the system's functions that a file holds.
    watched : tuple of Event
        Events to locate.
    crossings : Crossings or None
        Events located so far.
    trail : Trail or None
        Monitor of the alternating mode over all nodes.
    modes : Modes or None
        Modes of the run, of which ``system`` is the first; None of a run of one system, or of a file.
    switches : Switches or None
        Transitions so far.
    """

    system: System | None = None
    method: Integrator | None = None
    clock: Clock | None = None
    state: State | None = None
    function_values: FunctionValues | None = None
    watched: tuple[Event, ...] = ()
    crossings: Crossings | None = None
    trail: Trail | None = None
    modes: Modes | None = None
    switches: Switches | None = None


@dataclass(frozen=True, eq=False)
class Record(Observed):
    """Data of a ``Trajectory``, and the observables computed from them.

    Attributes
    ----------
    nodes : Nodes
        The saved nodes.
    run : RunState
        Data that resuming the run needs; its fields are attributes of the record, too.
    dt, t0, save_every, status, attributes : float, float, int, Result, dict
        As ``Trajectory`` documents them.
    loaded : dict of str to ndarray
        Observables of the first nodes, from a file or from before a change; those of other nodes are computed.
    """

    nodes: Nodes
    run: RunState
    dt: float
    t0: float
    save_every: int
    status: Result
    attributes: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, np.ndarray] = field(default_factory=dict)

    def with_run(self, **changes: Any) -> Self:
        """Replace parts of the run's state."""
        return replace(self, run=replace(self.run, **changes))

    @property
    def system(self) -> System | None:
        return self.run.system

    @property
    def method(self) -> Integrator | None:
        return self.run.method

    @property
    def clock(self) -> Clock | None:
        return self.run.clock

    @property
    def state(self) -> State | None:
        return self.run.state

    @property
    def function_values(self) -> FunctionValues | None:
        return self.run.function_values

    @property
    def watched(self) -> tuple[Event, ...]:
        return self.run.watched

    @property
    def crossings(self) -> Crossings | None:
        return self.run.crossings

    @property
    def trail(self) -> Trail | None:
        return self.run.trail

    @property
    def modes(self) -> Modes | None:
        return self.run.modes

    @property
    def switches(self) -> Switches | None:
        return self.run.switches

    @property
    def mode(self) -> np.ndarray:
        """Name of the mode of each node, shape=[N]; "" of a run of one system."""
        if self.nodes.mode is None or self.run.switches is None:
            return np.full(len(self), "")
        return np.array(self.run.switches.names)[self.nodes.mode]

    @property
    def k(self) -> np.ndarray:
        return self.nodes.k

    @property
    def g_vector(self) -> np.ndarray:
        return self.nodes.g_vector

    @property
    def p_plus(self) -> np.ndarray:
        return self.nodes.p_plus

    @property
    def p_minus(self) -> np.ndarray:
        return self.nodes.p_minus

    def first(self, n: int) -> Self:
        """The first ``n`` nodes of the run, at least one, with the events and transitions up to them; for inspection,
        as the state to resume from is that of the last node.

        Raises
        ------
        ValueError
            If ``n`` is not a positive integer.
        """
        cut = self.cut(as_count(n, "n"))
        if len(cut) == len(self):
            return cut
        crossings, sign, end = self.crossings, np.sign(self.dt), cut.t[-1]
        crossings = crossings and crossings.taken(sign * crossings.t <= sign * end)
        cut = cut.with_run(state=None, crossings=crossings, switches=self._switches_before(len(cut)))
        return replace(cut, status=Result.SUCCESS)

    def cut(self, n: int) -> Self:
        """The first ``n`` nodes, with all else that is known of the run."""
        loaded = {name: values[:n] for name, values in self.loaded.items()}
        run = replace(self.run, function_values=None, trail=None)
        return replace(self, nodes=self.nodes.taken(np.s_[:n]), run=run, loaded=loaded)

    def _switches_before(self, n: int) -> Switches | None:
        """The transitions that lead to one of the first ``n`` nodes; each has a node before and one after it."""
        switches = self.switches
        if switches is None:
            return None
        sign, (k, t) = np.sign(self.dt), (self.k[n - 1], self.t[n - 1])
        at_end = np.sum((switches.k == k) & (switches.t == t))
        beyond = np.sum((self.k[n:] == k) & (self.t[n:] == t))  # two for each of the transitions after the last node
        return switches.first(np.sum(sign * switches.t < sign * t) + max(at_end - (beyond + 1) // 2, 0))

    def settled(self) -> Self:
        """Store the observables of the nodes, so that an extended trajectory computes only those of new nodes."""
        return replace(self, loaded=self.observables)

    @property
    def success(self) -> bool:
        """True if the run reached its end, or an event that stops it."""
        return self.status in (Result.SUCCESS, Result.EVENT)

    @property
    def t(self) -> np.ndarray:
        return self.t0 + self.k * self.dt if self.nodes.t is None else self.nodes.t

    @cached_property
    def g(self) -> Point:
        return unflatten(self.g_vector, self.attributes["point_shapes"], self.attributes["point_is_tuple"])

    @property
    def points(self) -> Node:
        """The nodes as arguments of ``observe``, along the first axis."""
        return Node(self.k, self.g, self.p_plus, self.p_minus, self.nodes.t)

    @cached_property
    def x(self) -> Any:
        with float64():
            return jax.tree.map(np.asarray, jax.vmap(self.bound_system.action.at)(self.g))

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """Observables of the nodes by name: "xi", "p", "energy", …, arrays of shape=[N, …] as the attributes document
        them.
        """
        n = len(self.loaded["xi"]) if self.loaded else 0
        return self.loaded if n == len(self) else self._joined(self.read(slice(n, None)))

    @validated
    def read(self, these: slice) -> dict[str, np.ndarray]:
        """Compute ``observe`` at some of the nodes, without storing: arrays of shape=[nodes, …].

        TypeError if ``these`` is not a slice.
        """
        if self.run.modes is not None:
            return self._read_by_mode(these)
        nodes = jax.tree.map(lambda a: a[these], self.points)
        impulse = self.method is not None and self.method.guarantees.node == "impulse" and self.nodes.t is None
        # without an impulse one program serves all methods
        return mapped(observe, self.problem._replace(method=self.method if impulse else None), nodes)

    def _read_by_mode(self, these: slice) -> dict[str, np.ndarray]:
        """``read`` of the nodes of each mode with its system; nan where a mode has fewer multipliers than another."""
        assert self.run.modes is not None
        systems = self.run.modes.systems
        nodes, which = jax.tree.map(lambda a: a[these], self.points), self.nodes.mode[these]
        places = [np.flatnonzero(which == mode) for mode in np.unique(which)]
        problems = [self.problem._replace(system=systems[which[at[0]]], method=None) for at in places]
        parts = [
            mapped(observe, problem, jax.tree.map(lambda a, at=at: a[at], nodes))
            for problem, at in zip(problems, places, strict=True)
        ]
        for part, at in zip(parts, places, strict=True):
            part |= {name: placed(part[name], self.run.modes, which[at[0]]) for name in OF_ROWS if name in part}
        return padded(parts, places, len(which), dict.fromkeys(OF_ROWS, self.run.modes.n_rows))

    def _joined(self, after: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Stored observables of the first nodes, joined with those of the nodes after them."""
        before = self.loaded
        if not before:
            return after
        alike = before.keys() == after.keys() and all(before[n].shape[1:] == after[n].shape[1:] for n in before)
        if not alike and not self.attributes["changes"]:
            return self.read(slice(None))
        unknown = {n: np.full((len(before["xi"]), *values.shape[1:]), np.nan) for n, values in after.items()}
        fits = {n: n in before and before[n].shape[1:] == values.shape[1:] for n, values in after.items()}
        columns = {n: np.concatenate([before[n] if fits[n] else unknown[n], values]) for n, values in after.items()}
        for n in before.keys() - after.keys():  # observables of the system before a change only
            later = np.full((len(after["xi"]), *before[n].shape[1:]), np.nan)
            columns[n] = np.concatenate([before[n], later])
        return columns

    @property
    def bound_system(self) -> System:
        """The system, which must be given for a trajectory from a file, since files hold its name only.

        Raises
        ------
        ValueError
            If it came from a file, and no system was given.
        """
        if self.system is None:
            raise ValueError("this trajectory came from a file without its system; load it with system=")
        return self.system

    @cached_property
    def events(self) -> dict[str, Section]:
        a, crossings, sections = self.attributes, self.crossings, {}
        for i, name in enumerate(crossings.names if crossings else ()):
            assert crossings is not None
            of = crossings.taken(crossings.which == i)
            g = unflatten(of.g_vector, a["point_shapes"], a["point_is_tuple"])
            names = tuple(a["point_names"]), tuple(a["velocity_names"])
            sections[name] = Section(of.t, g, of.xi, of.g_vector, *names, of.multipliers)
        return sections

    @property
    def problem(self) -> Problem:
        """Problem that a continuation of the run integrates, without events: reading nodes does not depend on them."""
        return Problem(self.bound_system, self.method, self.clock)

    def __len__(self) -> int:
        return len(self.k)


def unflatten(vector: np.ndarray, shapes: list[list[int]], is_tuple: bool) -> Point:
    """Point, or path of points, from flattened entries."""
    sizes = [int(np.prod(s)) for s in shapes]
    parts = np.split(vector, np.cumsum(sizes)[:-1], axis=-1)
    leaves = [part.reshape(*part.shape[:-1], *s) for part, s in zip(parts, shapes, strict=True)]
    return tuple(leaves) if is_tuple else leaves[0]

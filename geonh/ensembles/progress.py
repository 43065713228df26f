"""Members of an ensemble before and during their integration: starts, states, and the outcomes so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.engine import BatchStepping, mapped
from geonh.ensembles.batch import Member, Shared
from geonh.integrators.base import Problem
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.soundness import Facts, clearly_sound, start_fault
from geonh.mechanics.system import System
from geonh.results.nodes import Nodes, node_row
from geonh.runs.start import node_and_facts


class Starts(NamedTuple):
    """States of members at node 0, descriptions of invalid starts, by index, and the nodes: nan for invalid starts."""

    states: State
    faults: dict[int, str]
    nodes: Nodes


def member_starts(shared: Shared, members: Member) -> Starts:
    with float64():
        states, faults = first_nodes(shared, members)
    nodes = nodes_of(shared.system, states).taken(np.s_[:, None])
    for part in jax.tree.leaves(nodes):
        part[list(faults)] = np.nan
    return Starts(states, faults, nodes)


def nodes_of(system: System, states: State) -> Nodes:
    """Nodes of the states of members, with leading axes [members]."""
    rows = mapped(node_row, Problem(system, None, None), states)
    return Nodes.of_rows(rows, system.group.dim, timed=states.t is not None)


def first_nodes(shared: Shared, members: Member) -> tuple[State, dict[int, str]]:
    """Node 0 of every member, and descriptions of invalid starts, by index."""
    states, facts = mapped(member_start, shared, members)
    facts, faults = Facts(*facts), {}
    sound = clearly_sound(members.xi, facts) & (np.asarray(states.status) == 0) & (not shared.method.limits_starts)
    for i in np.flatnonzero(~sound).tolist():
        member, of_member = (jax.tree.map(lambda a, i=i: a[i], tree) for tree in (members, facts))
        fault = start_fault(shared.system, float(member.t0), member.g, member.xi, float(member.dt), of_member)
        fault = fault or _refused_by_method(shared, member)
        if not fault and states.status[i]:
            fault = Result(int(states.status[i])).message
        if fault:
            faults[i] = fault
    return states, faults


def _refused_by_method(shared: Shared, member: Member) -> str:
    """Reason for which the method cannot start a member; "" if it can."""
    problem = shared.problem(member)
    try:
        with float64():
            problem.method.refuse_start(problem.system, float(member.dt), member.g, member.xi)
    except ValueError as error:
        return str(error)
    return ""


def member_start(shared: Shared, member: Member) -> tuple[State, Facts]:
    """Node 0 of a member, and the diagnostics of its start."""
    return node_and_facts(shared.problem(member), (member.g, member.xi))


@dataclass
class Progress:
    """Some members during their integration, by the last good state of each.

    Attributes
    ----------
    indices : ndarray of int, shape=[members]
        Their indices in the batch.
    status : ndarray of int, shape=[members]
        SUCCESS while a member has not stopped.
    last : Nodes, with leading axes [members]
        The last good node of those that have stopped.
    """

    system: System
    indices: np.ndarray
    states: State
    status: np.ndarray
    n_steps: np.ndarray
    last: Nodes

    @classmethod
    def at(cls, system: System, starts: Starts, indices: np.ndarray) -> Progress:
        """Members before their first step; those without a sound start have stopped."""
        status = np.full(len(indices), int(Result.SUCCESS))
        status[list(starts.faults)] = Result.START
        n_steps, first = np.zeros(len(indices), np.int64), starts.nodes.taken(np.s_[:, 0])
        return cls(system, indices, starts.states, status, n_steps, first)

    @property
    def active(self) -> np.ndarray:
        """Mask of the members that have not stopped."""
        return self.status == Result.SUCCESS

    def advance(self, runner: BatchStepping, n_nodes: int, stride: int, threads: int) -> np.ndarray:
        """Integrate the active members; rows of all, shape=[members, n_nodes, width], nan after the last good node."""
        active = self.active
        before = jax.tree.map(lambda a: a[active], self.states)
        computed, reached = runner.run(self.indices[active], before, n_nodes, stride, threads)
        computed[np.arange(n_nodes) >= reached.n_rows[:, None]] = np.nan
        rows = np.full((len(active), n_nodes, runner.width), np.nan)
        rows[active] = computed
        self.status[active] = reached.status
        self.n_steps[active] += reached.state.k - before.k
        self.states = replaced_at(self.states, active, reached.state)
        stopped = active & ~self.active
        if stopped.any():
            self.last = replaced_at(self.last, stopped, nodes_of(self.system, self.states).taken(stopped))
        return rows

    def stop(self, last: np.ndarray, before: Nodes, nodes: Nodes) -> None:
        """Stop members at events, ``last`` steps after ``before``; their later nodes become nan."""
        n = nodes.k.shape[1]
        ends = replaced_at(nodes.taken((np.arange(len(last)), last - 1)), last == 0, before.taken(np.s_[last == 0, 0]))
        self.last = replaced_at(self.last, last < n, ends.taken(last < n))
        for values in jax.tree.leaves(nodes):
            values[np.arange(n) >= last[:, None]] = np.nan
        stopped = last < n
        self.status[stopped], self.n_steps[stopped] = Result.EVENT, ends.k[stopped]

    def record(self, status: np.ndarray, n_steps: np.ndarray) -> None:
        """Enter the status of the members that have stopped, and all numbers of steps, into those of the batch."""
        status[self.indices[~self.active]], n_steps[self.indices] = self.status[~self.active], self.n_steps


def replaced_at(tree: Any, where: np.ndarray, values: Any) -> Any:
    """Replace entries of the arrays of a tree."""
    if where.all():
        return values

    def put(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = np.array(a)
        a[where] = b
        return a

    return jax.tree.map(put, tree, values)

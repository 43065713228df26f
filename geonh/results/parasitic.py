"""The part of a momentum that alternates in sign from node to node: whether it has spoiled a run, and in words.

Methods that give an impulse at the node have one (GNI, RATTLE, SHAKE); ``observables`` measures it. That costs as much
as a step or two, so a loop looks at two nodes in ``PERIOD``, leaves a ``Trail``, and what is measured is what that
doubts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from geonh.algebra.linear import solve_spd
from geonh.engine.compiled import mapped
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.node import Clock, State
from geonh.mechanics.system import System
from geonh.results.record import Record, Trail

ALTERNATING = 0.01
"""Above this an alternating part of the momentum, relative to the largest, is warned of."""
DOUBTFUL = 0.1 * ALTERNATING
"""Above this it is measured."""
PERIOD = 16
"""Steps from one look to the next, far fewer than it takes what is not doubted to grow tenfold."""
BLOCK = 256
"""Nodes that are measured first; then twice as many, and so on."""
MANY = 2**17
"""Nodes that are looked at together, so that little memory is needed beside theirs."""


class AlternationWarning(UserWarning):
    """The part of p⁻ that alternates in sign from node to node has become large: the run is not to be trusted."""


def new_trail(system: System, method: Integrator) -> Trail | None:
    """From node 0 on; none where nothing can alternate, nor where a velocity is found by iterations only."""
    if not may_alternate(system, method) or not system.is_quadratic:
        return None
    return Trail(np.zeros(system.group.dim), *map(np.float64, (0.0, 0.0, np.inf, -np.inf)))


def may_alternate(system: System | None, method: Integrator | None) -> bool:
    """Whether a method gives impulses, and the system has constraints that they keep."""
    if system is None or method is None or method.guarantees.node != "impulse":
        return False
    return system.distribution is not None or system.holonomic is not None


def _doubts(trail: Trail) -> bool:
    """Whether anything has to be measured."""
    return bool(trail.since <= trail.until and not trail.worst <= DOUBTFUL**2 * trail.largest)


def followed(system: System, clock: Clock, before: State, state: State, trail: Trail) -> Trail:
    """The trail with one more node.

    Of the jump j = p⁻ − p⁺ = h(f + μᵀλ) the part a that alternates is left in (j_k − 2 j_{k−1} + j_{k−2})/4, and of
    what is smooth h²j̈/4, far below a hundredth of the momentum. The alternation that is measured is ½‖a‖.
    """
    k = state.k

    def looked(trail: Trail) -> Trail:
        x = system.at(state.g, clock.time(k))
        change = (state.p_minus - state.p_plus) - (before.p_minus - before.p_plus)
        part = (change - trail.change) / 8
        size = part @ solve_spd(system.mass_matrix(x), part)
        largest = jnp.maximum(trail.largest, _square(system, x, state.p_plus, state.p_minus))
        size = jnp.where((k < PERIOD) | (k % PERIOD == 0), size, 0.0)  # else the change of a node long ago is known
        quiet = size <= DOUBTFUL**2 * largest  # not so of what is no number
        since = jnp.where(quiet, trail.since, jnp.minimum(trail.since, k - 2.0 - PERIOD))
        until = jnp.where(quiet, trail.until, k + 1.0 * PERIOD)
        return Trail(change, largest, jnp.maximum(trail.worst, size), since, until)

    return lax.cond((k < PERIOD) | ((k + 1) % PERIOD < 2), looked, lambda trail: trail, trail)


def spoiled_from(trajectory: Record) -> float | None:
    """The time from which ``alternation`` exceeds one per cent, or None."""
    trail = trajectory.trail
    if trail and trajectory.status.failed:  # what ended it may have begun after the last look
        k = trajectory.k[-1]
        trail = trail._replace(since=min(trail.since, k - PERIOD), until=max(trail.until, k), worst=np.float64(np.inf))
    if not trajectory.loaded:
        if not may_alternate(trajectory.system, trajectory.method) or (trail and not _doubts(trail)):
            return None
        if trail and trajectory.save_every == 1:
            return _measured(trajectory, trail)
    large = trajectory.alternation > ALTERNATING
    return float(trajectory.t[np.argmax(large)]) if np.any(large) else None


def _measured(trajectory: Record, trail: Trail) -> float | None:
    """The time from which it does, of the nodes that are doubted, up to where it does."""
    begin, end = np.searchsorted(trajectory.k, [trail.since, trail.until + 1])
    length, largest, exact = BLOCK, trail.largest, False
    while begin < end:
        nodes = slice(begin, min(begin + length, end))
        alternating = trajectory.read(nodes)["alternating"]
        if not exact and np.any(alternating > ALTERNATING * np.sqrt(largest)):
            largest, exact = np.fmax(largest, _largest(trajectory)), True
        large = alternating > ALTERNATING * np.sqrt(largest)
        if np.any(large):
            return float(trajectory.t[begin + np.argmax(large)])
        begin, length = nodes.stop, 2 * length
    return None


def _largest(trajectory: Record) -> float:
    """The largest momentum of all nodes, squared."""
    problem = trajectory.problem
    nodes = trajectory.k, trajectory.g, trajectory.p_plus, trajectory.p_minus
    return max(
        np.fmax.reduce(mapped(_at_node, problem, jax.tree.map(lambda a, i=i: a[i : i + MANY], nodes)))
        for i in range(0, len(trajectory), MANY)
    )


def _at_node(problem: Problem, node: tuple) -> Any:
    system, (k, g, p_plus, p_minus) = problem.system, node
    return _square(system, system.at(g, problem.clock.time(k)), p_plus, p_minus)


def _square(system: System, x: Any, p_plus: Any, p_minus: Any) -> Any:
    """Of the momentum p̃ in the kinetic norm."""
    p = (p_plus + p_minus) / 2 - system.momentum_at_rest(x)
    return p @ solve_spd(system.mass_matrix(x), p)


def what_alternates(trajectory: Record, since: float) -> str:
    """What is said of a run that is spoiled from a time on."""
    trail = trajectory.trail
    most = trajectory.alternation.max() if trail is None else np.sqrt(trail.worst / trail.largest)
    if trail is not None and trajectory.status.failed:
        last = trajectory.read(slice(max(len(trajectory) - PERIOD, 0), len(trajectory)))["alternating"]
        most = max(most, last.max() / np.sqrt(_largest(trajectory)))
    return (
        f"from t = {since:.4g}: a part of the momentum alternates in sign from node to node and reaches about "
        f"{100 * most:.3g} % of it; a smaller dt does not cure that, Gauss(2) (the default of solve) or "
        "SymmetricProjection() does"
    )

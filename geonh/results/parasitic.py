"""Detection and report of the parasitic mode: the part of the momentum that alternates in sign from node to node.

Methods that give an impulse at the node have such a mode (GNI, RATTLE, SHAKE); ``observables`` measures it. Measuring
costs as much as a step or two, so the loop samples two nodes in ``PERIOD`` and updates a monitor (``Trail``), and only
the nodes where the monitor exceeds its threshold are measured.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from geonh.algebra.linear import solve_spd
from geonh.engine import mapped
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.mechanics.system import System
from geonh.results.nodes import Node
from geonh.results.record import Record, Trail

ALTERNATING = 0.01
"""Threshold of the warning: alternating part of the momentum, relative to the largest momentum."""
DOUBTFUL = 0.1 * ALTERNATING
"""Threshold above which the alternating part is measured."""
PERIOD = 16
"""Steps between samples, far fewer than a mode below the threshold needs to grow tenfold."""
BLOCK = 256
"""Nodes measured in the first block; the block size doubles each time."""
MANY = 2**17
"""Nodes evaluated together, a bound on the additional memory."""


class AlternationWarning(UserWarning):
    """The part of p⁻ that alternates in sign from node to node has become large: the run is unreliable."""


def new_trail(system: System, method: Integrator) -> Trail | None:
    """Monitor at node 0; None if there is no alternating mode, or velocities are computed iteratively only."""
    if not may_alternate(system, method) or not system.is_quadratic:
        return None
    return Trail(np.zeros(system.group.dim), *map(np.float64, (0.0, 0.0, np.inf, -np.inf)))


def may_alternate(system: System | None, method: Integrator | None) -> bool:
    """True if the method gives impulses and the system has constraints that they enforce."""
    if system is None or method is None or method.guarantees.node != "impulse":
        return False
    return system.distribution is not None or system.holonomic is not None


def _must_measure(trail: Trail) -> bool:
    """True if the alternating part has to be measured."""
    return bool(trail.since <= trail.until and not trail.worst <= DOUBTFUL**2 * trail.largest)


def followed(system: System, clock: Clock, before: State, state: State, trail: Trail) -> Trail:
    """Update the monitor with one more node.

    For the jump j = p⁻ − p⁺ = h(f + μᵀλ), (j_k − 2 j_{k−1} + j_{k−2})/4 retains the alternating part a, and h²j̈/4 of
    the smooth part, far below a hundredth of the momentum. The measured alternation is ½‖a‖.
    """
    k = state.k

    def looked(trail: Trail) -> Trail:
        x = system.at(state.g, clock.time(k))
        change = (state.p_minus - state.p_plus) - (before.p_minus - before.p_plus)
        part = (change - trail.change) / 8
        size = part @ solve_spd(system.mass_matrix(x), part)
        largest = jnp.maximum(trail.largest, _square(system, x, state.p_plus, state.p_minus))
        size = jnp.where((k < PERIOD) | (k % PERIOD == 0), size, 0.0)  # else the stored change is of an older sample
        quiet = size <= DOUBTFUL**2 * largest  # False for nan
        since = jnp.where(quiet, trail.since, jnp.minimum(trail.since, k - 2.0 - PERIOD))
        until = jnp.where(quiet, trail.until, k + 1.0 * PERIOD)
        return Trail(change, largest, jnp.maximum(trail.worst, size), since, until)

    return lax.cond((k < PERIOD) | ((k + 1) % PERIOD < 2), looked, lambda trail: trail, trail)


def spoiled_from(trajectory: Record) -> float | None:
    """First time at which ``alternation`` exceeds one per cent, or None."""
    trail = trajectory.trail
    if trail and trajectory.status.failed:  # the mode may have started after the last sample
        k = trajectory.k[-1]
        trail = trail._replace(since=min(trail.since, k - PERIOD), until=max(trail.until, k), worst=np.float64(np.inf))
    if not trajectory.loaded:
        if not may_alternate(trajectory.system, trajectory.method) or (trail and not _must_measure(trail)):
            return None
        if trail and trajectory.save_every == 1:
            return _first_excess(trajectory, trail)
    large = trajectory.alternation > ALTERNATING
    return float(trajectory.t[np.argmax(large)]) if np.any(large) else None


def _first_excess(trajectory: Record, trail: Trail) -> float | None:
    """First time at which it does, searched in blocks over the nodes flagged by the monitor."""
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
    """Largest momentum of all nodes, squared."""
    problem = trajectory.problem
    nodes = trajectory.points
    return max(
        np.fmax.reduce(mapped(_at_node, problem, jax.tree.map(lambda a, i=i: a[i : i + MANY], nodes)))
        for i in range(0, len(trajectory), MANY)
    )


def _at_node(problem: Problem, node: Node) -> Any:
    x = problem.system.at(node.g, problem.clock.time(node.k))
    return _square(problem.system, x, node.p_plus, node.p_minus)


def _square(system: System, x: Any, p_plus: Any, p_minus: Any) -> Any:
    """Square of the momentum p̃ in the kinetic norm."""
    p = (p_plus + p_minus) / 2 - system.momentum_at_rest(x)
    return p @ solve_spd(system.mass_matrix(x), p)


def what_alternates(trajectory: Record, since: float) -> str:
    """Warning text for a run with an alternating mode from a given time on."""
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

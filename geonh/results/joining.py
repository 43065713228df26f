"""Trajectories joined to one: the pieces of a run whose systems were changed by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.validators import shortly
from geonh.engine import mapped
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.results.dense import end_of
from geonh.results.events import Crossings, joined_crossings
from geonh.results.modes import Switches, padded
from geonh.results.nodes import Node, Nodes
from geonh.results.observables import OF_ROWS, observe
from geonh.results.record import RunState
from geonh.results.same_system import as_data, refuse_another_space
from geonh.results.trajectory import Trajectory

CLOSE = 1e-9
"""Largest distance of the times of an end and a beginning, relative to 1 and their size."""


def join(*pieces: Trajectory) -> Trajectory:
    """Join trajectories of systems on one group, each of which begins where the one before it ends.

    The result is read, plotted, viewed and saved as one run with a mode for each system, and for each mode of a piece
    that has modes; velocities may jump between pieces. It is not resumed, as each piece has a step of its own. A piece
    that an event stopped ends at the event. Its file is loaded with the system of the first piece, or of its first
    mode, for pictures.

    Parameters
    ----------
    *pieces : Trajectory
        Two or more, in the order of time.

    Returns
    -------
    Trajectory
        Nodes of all pieces, those at both sides of a joint among them, at an event too; ``mode`` has the names of the
        systems, and of the modes of pieces that have modes, made different by a number where two are the same;
        ``multipliers`` are nan where a piece has fewer of them; ``events`` are those of all pieces.

    Raises
    ------
    TypeError
        If they are not trajectories.
    ValueError
        If there are fewer than two, on different groups, or one does not begin where the one before it ends.
    """
    wrong = [piece for piece in pieces if not isinstance(piece, Trajectory)]
    if wrong or len(pieces) < 2:
        what = shortly(wrong[0]) if wrong else f"{len(pieces)}"
        raise (TypeError if wrong else ValueError)(f"join takes two trajectories or more, got {what}")
    for before, after in itertools.pairwise(pieces):
        refuse_another_space(before, after.bound_system)
        if not np.sign(before.dt) == np.sign(after.dt):
            raise ValueError("joined trajectories lead in the same direction of time")
        end, begin = _end(before), after.t[0]
        if abs(end - begin) > CLOSE * (1 + abs(end)):
            raise ValueError(f"a piece ends at t = {end:.9g}, and the next one begins at t = {begin:.9g}")
    pieces = tuple(_to_its_end(piece) for piece in pieces)
    first = pieces[0]
    counts = [len(piece) for piece in pieces]
    edges = np.cumsum([0, *counts])
    steps = np.cumsum([0, *(int(piece.k[-1]) for piece in pieces[:-1])])
    g_vector, p_plus, p_minus, t = (
        np.concatenate([getattr(piece, key) for piece in pieces]) for key in ("g_vector", "p_plus", "p_minus", "t")
    )
    k = np.concatenate([piece.k + step for piece, step in zip(pieces, steps, strict=True)])
    names_of_each = [_names(piece) for piece in pieces]
    names = _different([name for names in names_of_each for name in names])
    earlier = np.cumsum([0, *map(len, names_of_each)])  # modes of the pieces before each
    mode = np.concatenate([_modes(piece) + n for piece, n in zip(pieces, earlier[:-1], strict=True)])
    nodes = Nodes(k, g_vector, p_plus, p_minus, t, mode)
    places = [np.arange(begin, end) for begin, end in itertools.pairwise(edges)]
    parts = [piece.observables for piece in pieces]
    m = max(part["multipliers"].shape[1] for part in parts)
    loaded = padded(parts, places, len(k), dict.fromkeys(OF_ROWS, m))
    switches = Switches.none(names, g_vector.shape[1], p_plus.shape[1])
    for piece, edge, step, n in zip(pieces, edges[:-1], steps, earlier[:-1], strict=True):
        if edge:
            switches = switches.joined(_joint(switches, nodes, loaded["xi"], int(edge)))
        if (own := piece.switches) is not None:
            switches = switches.joined(own._replace(k=own.k + step, source=own.source + n, target=own.target + n))
    attributes = {**first.attributes, "modes": names, "state_mode": int(mode[-1])}
    if first.system is not None:  # of Modes, that of the first of them
        attributes |= {"system": first.system.name, "parameters": as_data(first.system.parameters)}
    crossings = _joined_events(pieces, steps, m)
    run = RunState(system=first.system, method=first.method, crossings=crossings, switches=switches)
    return replace(first, nodes=nodes, run=run, status=pieces[-1].status, attributes=attributes, loaded=loaded)


def _joint(switches: Switches, nodes: Nodes, xi: np.ndarray, edge: int) -> Switches:
    """Transition between two pieces, of which the second begins with node ``edge``."""
    after, before = nodes.taken([edge]), nodes.taken([edge - 1])
    ends = before.mode, after.mode, after.g_vector, xi[edge - 1 : edge], xi[edge : edge + 1]
    return Switches(switches.names, after.k, after.t, *ends)


def _names(piece: Trajectory) -> list[str]:
    """Names of the modes of a piece; of its system where it has none."""
    return [piece.attributes["system"]] if piece.switches is None else list(piece.switches.names)


def _modes(piece: Trajectory) -> np.ndarray:
    """Modes of the nodes of a piece, as indices."""
    return np.zeros(len(piece), np.int64) if piece.nodes.mode is None else piece.nodes.mode


def _end(piece: Trajectory) -> float:
    """Time at which a piece ends: of the event that stopped it, or of its last node."""
    return float(end_of(piece))


def _to_its_end(piece: Trajectory) -> Trajectory:
    """The piece, with a node at the event that stopped it, whose momentum is the average one."""
    crossings, end = piece.crossings, _end(piece)
    if crossings is None or end == piece.t[-1]:
        return piece
    system, at = piece.bound_system, piece.events[crossings.names[crossings.which[-1]]]
    if piece.modes is not None:
        system = piece.modes.systems[int(piece.nodes.mode[-1])]
    g = jax.tree.map(lambda leaf: leaf[-1:], at.g)
    with float64():
        p = np.asarray(system.momentum(system.at(jax.tree.map(lambda leaf: leaf[0], g), end), at.xi[-1]))[None]
    # forces act on λ alone, which the event has: so neither they nor the controls, which files lack, are needed
    free = eqx.tree_at(lambda s: s.forces, system, None, is_leaf=lambda leaf: leaf is None)
    k, t = piece.k[-1:], np.array([end])
    there = mapped(observe, Problem(free, None, Clock(end, piece.dt)), Node(k, g, p, p, t))
    there["multipliers"] = crossings.multipliers[-1:]
    node = Nodes(k, crossings.g_vector[-1:], p, p, t)
    nodes = Nodes(*(np.concatenate(pair) for pair in zip(piece.nodes._replace(t=piece.t)[:5], node[:5], strict=True)))
    if piece.nodes.mode is not None:
        nodes = nodes._replace(mode=np.append(piece.nodes.mode, piece.nodes.mode[-1]))
    loaded = padded([piece.observables, there], [np.arange(len(piece)), np.array([len(piece)])], len(piece) + 1)
    return replace(piece, nodes=nodes, loaded=loaded)


def _different(names: list[str]) -> list[str]:
    """Names, with a number after those that occur twice."""
    count, different = Counter(names), dict[str, None]()
    for name in names:
        numbered = (f"{name} ({i})" for i in itertools.count(1))
        free = (one for one in numbered if one not in count and one not in different)
        different[name if count[name] == 1 else next(free)] = None
    return list(different)


def _joined_events(pieces: tuple[Trajectory, ...], steps: np.ndarray, m: int) -> Crossings | None:
    """Events of all pieces, those of one name together, with m multipliers; None if no piece has looked for any."""
    found = [(piece.crossings, step) for piece, step in zip(pieces, steps, strict=True) if piece.crossings is not None]
    if not found:
        return None
    names = dict.fromkeys(name for crossings, _ in found for name in crossings.names)
    size, n = pieces[0].g_vector.shape[1], pieces[0].p_plus.shape[1]
    shifted = [crossings._replace(k=crossings.k + step) for crossings, step in found]
    return joined_crossings([Crossings.none(names, size, n, m), *shifted], tuple(names), size, n)

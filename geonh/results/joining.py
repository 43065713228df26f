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
from geonh.results.modes import Switches, padded
from geonh.results.nodes import Node, Nodes
from geonh.results.observables import observe
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
        systems, and of the modes of pieces that have modes, with the number of the piece where two are the same;
        ``multipliers`` are nan where a piece has fewer of them.

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
    names = _different(names_of_each)
    before = np.cumsum([0, *map(len, names_of_each)])  # modes of earlier pieces
    mode = np.concatenate([_modes(piece) + first_of for piece, first_of in zip(pieces, before[:-1], strict=True)])
    nodes = Nodes(k, g_vector, p_plus, p_minus, t, mode)
    places = [np.arange(begin, end) for begin, end in itertools.pairwise(edges)]
    loaded = padded([piece.observables for piece in pieces], places, len(nodes.k))
    switches = Switches.none(names, g_vector.shape[1], p_plus.shape[1])
    for i, piece in enumerate(pieces):
        if i:  # the joint
            at = slice(edges[i], edges[i] + 1)
            end = slice(edges[i] - 1, edges[i])
            joint = (k[at], t[at], mode[end], mode[at], g_vector[at], loaded["xi"][end], loaded["xi"][at])
            switches = switches.joined(Switches(switches.names, *joint))
        if (own := piece.switches) is not None:
            shifted = {"k": own.k + steps[i], "source": own.source + before[i], "target": own.target + before[i]}
            switches = switches.joined(own._replace(**shifted))
    facts = {"system": first.bound_system.name, "parameters": as_data(first.bound_system.parameters)}
    attributes = {**first.attributes, **facts, "modes": names, "state_mode": int(mode[-1])}
    run = RunState(system=first.system, method=first.method, switches=switches)
    return replace(first, nodes=nodes, run=run, status=pieces[-1].status, attributes=attributes, loaded=loaded)


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


def _different(names_of_each: list[list[str]]) -> list[str]:
    """Names of the modes of all pieces, with the number of the piece after those that occur twice."""
    pairs = [(name, i + 1) for i, names in enumerate(names_of_each) for name in names]
    count = Counter(name for name, _ in pairs)
    return [name if count[name] == 1 else f"{name} ({number})" for name, number in pairs]

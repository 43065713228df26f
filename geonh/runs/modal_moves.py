r"""Moves of a run with modes, from a place (t, g, ξ) to the next, as functions with derivatives.

A run is a sequence of moves: steps of the method to the next node, and crossings, from a place up to the guard and to
the velocity after it. The instant τ of a crossing is a function of the place y before it and of the parameters by
γ(τ, y) = 0, γ the guard along the step of the method, so that

    τ = τ̂ − (γ − γ̂)/∂_τγ̂,

^ for values that are not differentiated, has the value of the located instant and its derivative. The derivative of a
crossing followed by a step to a time that does not move with τ is that by the saltation matrix.

Source: N. Kong, J. Payne, J. Zhu, A. Johnson, *Saltation matrices: the essential tool for linearizing hybrid dynamical
systems*, Proceedings of the IEEE 112 (2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.engine import Parts
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.runge_kutta import RKMK
from geonh.mechanics.system import System
from geonh.results.modes import Transition
from geonh.results.nodes import Node
from geonh.runs.locating import within_step
from geonh.runs.mode_functions import Place, arrived_at, drifts_off, left_by
from geonh.runs.mode_loop import for_stiff_steps

METHOD, STIFF, BRIEF = "method", "stiff", "brief"


class ModalProblem(NamedTuple):
    """Problem of a run with modes, as a pytree."""

    systems: tuple[System, ...]
    transitions: tuple[Transition, ...]
    method: Integrator
    clock: Clock


class Move(NamedTuple):
    """Start of a move and its end; those of many moves along the first axis.

    Attributes
    ----------
    y : array, shape=[1 + size + n]
        Place (t, g, ξ) at which it begins, as a vector.
    k : float
        Number of the node to which a step leads.
    until : float
        Time of a crossing.
    at_once : bool
        True for a transition where its mode begins, of which the time is that of the place.
    """

    y: Any
    k: ArrayLike
    until: ArrayLike
    at_once: ArrayLike


def flat(system: System, here: Place) -> Array:
    """Place as a vector, shape=[1 + size + n]."""
    return jnp.concatenate([jnp.asarray(here.t)[None], system.group.to_vector(here.g), here.xi])


def place(system: System, y: Array) -> Place:
    """Place from a vector, shape=[1 + size + n]."""
    n = system.group.dim
    return Place(y[0], system.group.from_vector(y[1 : len(y) - n]), y[len(y) - n :])


@dataclass(frozen=True)
class Step:
    """Step in a mode to a node of the run, ``by`` the method, the one for stiff steps or for brief ones."""

    mode: int
    by: str = METHOD

    def __call__(self, problem: ModalProblem, move: Move) -> Array:
        """Place after it, as a vector."""
        problem = _by(self.by, problem)
        system = problem.systems[self.mode]
        here, clock = place(system, move.y), problem.clock
        end = clock.t0 + move.k * clock.dt
        return flat(system, Place(end, *_after(_problem(problem, system, here, end - here.t), here)))


@dataclass(frozen=True)
class Crossing:
    """Crossing of the guard of a transition that leaves a mode, and its reset."""

    mode: int
    transition: int
    target: int
    by: str = METHOD

    def __call__(self, problem: ModalProblem, move: Move) -> Array:
        """Place after the transition, as a vector."""
        drifts, problem = drifts_off(problem.method), _by(self.by, problem)
        system, target = problem.systems[self.mode], problem.systems[self.target]
        transition = problem.transitions[self.transition]
        here = place(system, move.y)
        begin = Node(0, here.g, *[system.momentum(system.at(here.g, here.t), here.xi)] * 2)
        held = within_step(_problem(problem, system, here, move.until - here.t), begin).system

        def guard(t: Array) -> Array:
            clock = _problem(problem, system, here, t - here.t)
            value = transition.guard.value(held, t, *_after(clock, here), clock.clock.control(1))
            return jnp.asarray(value)

        def crossed() -> tuple[Array, Point, Array]:
            until = lax.stop_gradient(move.until)
            gamma, rate = jax.jvp(guard, (until,), (jnp.ones_like(until),))
            t = until - (gamma - lax.stop_gradient(gamma)) / lax.stop_gradient(rate)
            return t, *_after(_problem(problem, system, here, t - here.t), here)

        t, g, xi = lax.cond(move.at_once, lambda: (here.t, here.g, here.xi), crossed)
        g, xi, *_ = left_by((system, transition.reset, problem.clock.controls), Place(t, g, xi))
        after = arrived_at((target, transition.reset is None, drifts), Place(t, g, xi))
        return flat(target, Place(t, after.g, after.xi))


def _by(which: str, problem: ModalProblem) -> ModalProblem:
    """Problem of moves by another method: brief ones by an explicit one, of an error far below rounding, as equations
    of implicit ones divide by the length.
    """
    if which == METHOD:
        return problem
    return problem._replace(method=for_stiff_steps(problem.method) if which == STIFF else RKMK(4))


def _problem(problem: ModalProblem, system: System, here: Place, span: Array) -> Problem:
    """Problem of one step of a length from a place."""
    return Problem(system, problem.method, problem.clock._replace(t0=here.t, dt=span))


def _after(problem: Problem, here: Place) -> tuple[Point, Array]:
    """(g, ξ) after one step."""
    system, method, clock, _ = problem
    state = method.next_node(system, clock, method.first_node(system, clock, here.g, here.xi))
    return state.g, system.velocity(system.at(state.g, clock.time(1)), (state.p_plus + state.p_minus) / 2)


@dataclass(frozen=True)
class Linearised:
    """Place after a move, and its derivative by the place before it, shape=[d, d]."""

    move: Step | Crossing
    parts: Parts

    def __call__(self, arrays: list[Any], at: Move) -> tuple[Array, Array]:
        """Value and matrix."""

        def after(y: Array) -> tuple[Array, Array]:
            reached = self.move(self.parts.tree(arrays), at._replace(y=y))
            return reached, reached

        matrix, reached = jax.jacfwd(after, has_aux=True)(at.y)
        return reached, matrix


@dataclass(frozen=True)
class Pushed:
    """Change of the place after a move with the arrays of the problem, shape=[d]."""

    move: Step | Crossing
    parts: Parts
    active: tuple[bool, ...]

    def __call__(self, given: tuple[list[Any], list[Any]], at: Move) -> Array:
        """Tangent, of the arrays and the tangents of the active ones."""
        arrays, tangents = given
        after, moving = _of_active(self, arrays, at)
        return jax.jvp(after, (moving,), (tangents,))[1]


@dataclass(frozen=True)
class Pulled:
    """Cotangents of the active arrays of the problem by that of the place after a move."""

    move: Step | Crossing
    parts: Parts
    active: tuple[bool, ...]

    def __call__(self, arrays: list[Any], at: tuple[Move, Array]) -> list[Array]:
        """Cotangents."""
        after, moving = _of_active(self, arrays, at[0])
        return jax.vjp(after, moving)[1](at[1])[0]


def _of_active(of: Pushed | Pulled, arrays: list[Any], at: Move) -> tuple[Any, list[Any]]:
    """The place after a move as a function of the active arrays, and these."""

    def after(moving: list[Any]) -> Array:
        left = iter(moving)
        return of.move(of.parts.tree([next(left) if a else x for x, a in zip(arrays, of.active, strict=True)]), at)

    return after, [x for x, a in zip(arrays, of.active, strict=True) if a]

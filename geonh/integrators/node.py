"""Nodes of a trajectory: the state, the outcome of a step, and its validation.

A step of a method returns an ``Outcome``. ``judge`` validates it (convergence, finite values, the
retraction's chart, the rank of the constraints) and returns the next ``State``, for the loop of ``solve``, for
``integrate`` and for compositions alike.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import apart, det, pivots, solve_spd
from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import argument_type
from geonh.engine import is_forward_only
from geonh.geometry.field import evaluated
from geonh.groups.base import Point
from geonh.mechanics.redundancy import RISE, excess
from geonh.mechanics.system import System

ArrayLike: TypeAlias = Any
"""A JAX array in a trace, a NumPy array outside."""

RANK_COSINE = 1e-6
"""Between consecutive nodes the cosine of the constraint rows' spans, det(ABᵀ) of orthonormal ones, must exceed this:
it changes sign when, between the two, rows that vary continuously became dependent (by Cauchy–Binet it is the cosine
between the Plücker vectors)."""

ASYMMETRY = 1e-10
"""Largest asymmetry of a metric, relative to its size."""


class Result(IntEnum):
    """Status of a run at its end, or the reason why it stopped; ``message`` describes it.

    Attributes
    ----------
    SUCCESS : 0
        The run reached its end.
    NEWTON : 1
        Newton's method did not converge.
    NOT_FINITE : 2
        A value of the state, or the potential there, is not finite.
    RANK : 3
        The constraints became dependent.
    CHART : 4
        The body turns by half a turn or more in one step.
    INTERRUPTED : 5
        Ctrl-C.
    METRIC : 6
        The metric is not symmetric and positive definite, or no velocity has the momentum.
    ACROSS : 7
        The step is too long for the forces across the constraints.
    EVENT : 8
        An event stopped the run.
    START : 9
        The run did not start: its initial state is invalid, or dt past the method's limits. Members of ensembles, and
        runs in a JAX transformation.
    LEAP : 10
        The contact of a rolling body leaps to another place within one step.
    STEP : 11
        The steps of variable length vanish.
    END : 12
        The next step of variable length would pass the end of the run: of its loop only, a run ends with SUCCESS.
    UNFINISHED : 13
        ``n_steps`` of variable length did not lead to ``t_end``: of ``integrate`` only.
    """

    SUCCESS = 0
    NEWTON = 1
    NOT_FINITE = 2
    RANK = 3
    CHART = 4
    INTERRUPTED = 5
    METRIC = 6
    ACROSS = 7
    EVENT = 8
    START = 9
    LEAP = 10
    STEP = 11
    END = 12
    UNFINISHED = 13

    @property
    def failed(self) -> bool:
        """True if the run stopped because of an error, not at its end, at an event or by Ctrl-C."""
        return self not in (Result.SUCCESS, Result.INTERRUPTED, Result.EVENT, Result.END)

    @property
    def message(self) -> str:
        """Description of the result, with a remedy."""
        return {
            Result.SUCCESS: "reached the end",
            Result.NEWTON: "Newton's method did not converge; a smaller dt, or a look at the Lagrangian, is needed",
            Result.NOT_FINITE: "a value of the state, the potential there, or its momentum's velocity, is not finite",
            Result.RANK: (
                "the constraints became dependent (their rank drops here), so the constraint force is not determined; "
                "or redundant ones became independent or contrary (it rises); "
                "or they turned by a right angle or more in one step, as where a step is not stable: lower dt"
            ),
            Result.CHART: "the body turns by half a turn or more in one step, past the retraction's chart; lower dt",
            Result.INTERRUPTED: "interrupted",
            Result.METRIC: (
                "the metric is not symmetric and positive definite here (of a Lagrangian, its Hessian in ξ), or no "
                "velocity has the momentum"
            ),
            Result.ACROSS: (
                "the step is too long for the forces across the constraints, which act on little mass there; lower dt, "
                "or take Gauss(2)"
            ),
            Result.EVENT: "stopped at an event",
            Result.START: (
                "did not start: g0 or xi0 is off the group or the constraints, or dt past the method's limits; "
                "geonh.solve says which"
            ),
            Result.LEAP: (
                "the contact leaps within one step over a part of the surface that is more curved than the body, which "
                "rests on two points there and meets the surface anew; a smaller or rounder body would not"
            ),
            Result.STEP: (
                "the steps vanish, or would change too much from one to the next: the motion is singular here, forces "
                "or metric are not finite, a monitor is not positive, or the tolerance is below rounding, or too large "
                "for reversible steps"
            ),
            Result.END: "the next step would pass the end of the run",
            Result.UNFINISHED: "n_steps were too few to reach t_end; pass more, or a larger tolerance",
        }[self]


class Warm(NamedTuple):
    """Warm start: only saves iterations, and may be discarded at any node. Initialised by ``cold``.

    Parameters
    ----------
    guess : array
        Data from which the method predicts its unknowns; of a method-dependent shape.
    inverse : array, shape=[r, r] or [0, 0]
        The transposed inverse Jacobian of r unknowns, which ``Newton.follow`` keeps.
    """

    guess: ArrayLike = np.zeros(0)
    inverse: ArrayLike = np.zeros((0, 0))


class NextStep(NamedTuple):
    """Memory of a method whose node determines the step that follows: DLA, SHAKE.

    Parameters
    ----------
    zeta : array, shape=[n]
        ζ_{k+1}, the increment of that step.
    """

    zeta: ArrayLike


class Pace(NamedTuple):
    """Memory of a method whose steps differ in length.

    Parameters
    ----------
    t : float
        Time of the node, seconds.
    h : float
        Length of the step that follows, or the first one tried.
    weight : float
        What the next lengths depend on: the step density ρ, or the error of the last step.
    constants : array
        Numbers that are the same at all nodes of a run.
    inner : NamedTuple or ()
        Memory of the method that makes the steps.
    """

    t: ArrayLike
    h: ArrayLike
    weight: ArrayLike
    constants: ArrayLike
    inner: Any


@argument_type
class State(NamedTuple):
    """Node of a trajectory.

    Attributes
    ----------
    k : int
        Step count, so t_k = t0 + k·dt exactly.
    g : point of the group
        Configuration.
    p_plus, p_minus : array, shape=[n]
        Incoming momentum p⁺ and outgoing p⁻; p̃ = ½(p⁺ + p⁻).
    memory : NamedTuple or ()
        Further data required by the method's equations, declared in its file.
    warm : Warm
        Warm start, which only saves iterations.
    rows : array, shape=[m, n]
        Constraint rows, orthonormalised in their order, for the rank test.
    status : int
        A ``Result``.
    """

    k: ArrayLike
    g: Point
    p_plus: ArrayLike
    p_minus: ArrayLike
    memory: Any
    warm: Any
    rows: ArrayLike
    status: ArrayLike

    @property
    def t(self) -> ArrayLike:
        """Time of the node, shape=[], where steps differ in length; else None, and it is t_k."""
        return self.memory.t if isinstance(self.memory, Pace) else None

    def reversed(self, memory: Any) -> State:
        """Time-reversed node, for −h: incoming and outgoing momenta swap. They keep their sign."""
        return self._replace(p_plus=self.p_minus, p_minus=self.p_plus, memory=memory)


class Outcome(NamedTuple):
    """Result of a step, from which ``State`` is constructed.

    Parameters
    ----------
    g : point of the group
        The next node.
    p_plus, p_minus : array, shape=[n]
        Incoming and outgoing momenta there.
    memory : NamedTuple or ()
        As for ``State``.
    warm : Warm
        As for ``State``.
    converged : bool
        True if the equations were solved.
    turn : float
        Angle, rad, by which the step turns a body.
    status : int
        Of substeps, already validated; 0 where there are none.
    xi : array, shape=[n], or None
        ξ̃, if the method computes it.
    """

    g: Point
    p_plus: Array
    p_minus: Array
    memory: Any = ()
    warm: Any = Warm()
    converged: ArrayLike = True
    turn: ArrayLike = 0.0
    status: ArrayLike = 0
    xi: Any = None


class NodalControls(NamedTuple):
    """Controls at node k and the following ones: all values that a step from there uses of controls given at nodes."""

    rows: ArrayLike
    k: ArrayLike


@argument_type
class Clock(NamedTuple):
    """Time and controls: t_k = t0 + k·dt, and u_k = ``controls(t_k)`` or ``controls[k]``.

    Parameters
    ----------
    t0, dt : float
        Initial time and time step, seconds.
    controls : callable or array, shape=[n_steps + 1, …], or None
        u(t), or its values at the nodes.
    end : float, or None
        Time that steps of variable length must not pass.
    """

    t0: ArrayLike
    dt: ArrayLike
    controls: Any = None
    end: Any = None

    def time(self, k: ArrayLike) -> Array:
        """t_k in seconds, of the shape of ``k``."""
        return jnp.asarray(self.t0 + k * self.dt)

    def control(self, k: ArrayLike) -> Any:
        """u_k, of the shape of one value of the controls, or None."""
        if self.controls is None or callable(self.controls):
            return self.between(self.time(k))
        if isinstance(self.controls, NodalControls):
            return self.controls.rows[k - self.controls.k]
        return jnp.asarray(self.controls)[k]

    def between(self, t: ArrayLike) -> Any:
        """u(t) at any time, of the shape of one value of the controls, or None; for methods with stages.

        Raises TypeError where the controls are values at the nodes.
        """
        controls = self.function()
        return None if controls is None else evaluated("controls", controls, t)

    def starting(self, t: ArrayLike) -> Clock:
        """Clock whose node 0 is at time t, a scalar; there, controls at the nodes are interpolated linearly."""
        if self.controls is None or callable(self.controls):
            return self._replace(t0=t)
        number = (t - self.t0) / self.dt
        here = jnp.clip(jnp.floor(number), 0, len(self.controls) - 2).astype(int)
        s, rows = number - here, jnp.asarray(self.controls)
        return Clock(t, self.dt, ((1 - s) * rows[here] + s * rows[here + 1])[None])

    def part(self, k: ArrayLike, done: ArrayLike, fraction: ArrayLike) -> Clock:
        """Clock of a substep of length fraction·dt that begins at t_k + done·dt, counting from k = 0; all scalars."""
        return Clock(self.t0 + (k + done) * self.dt, fraction * self.dt, self.function())

    def function(self) -> Any:
        """Controls as a function of the time, or None; TypeError where they are values at the nodes."""
        if self.controls is None or callable(self.controls):
            return self.controls
        raise TypeError("this method needs controls between the nodes: pass controls as a function of t, not an array")


def judge(system: System, before: State | None, outcome: Outcome, t: ArrayLike = None, h: ArrayLike = None) -> State:
    """Validate the outcome of a step of length h from ``before`` (None: node 0); the node at time t, with status."""
    x = system.at(outcome.g, t)
    unit = _unit_rows(system, x)
    numbers = jax.tree.leaves((outcome.g, outcome.p_plus, outcome.p_minus, outcome.memory))
    numbers.append(system.potential_energy(x))  # only its gradient is in the step, which may be finite where it is not
    total = jnp.sum(jnp.concatenate([jnp.ravel(x) for x in numbers]))
    k, old_rows = (jnp.asarray(0), unit) if before is None else (before.k + 1, before.rows)
    status = first_failure(
        (_metric_fails(system, x, outcome, before is None) & jnp.isfinite(total), Result.METRIC),
        (_lost_metric(system, before, t, h, ~jnp.isfinite(total) | jnp.logical_not(outcome.converged)), Result.METRIC),
        (~jnp.isfinite(total) & outcome.converged, Result.NOT_FINITE),
        (jnp.logical_not(outcome.converged), Result.NEWTON),
        (jnp.asarray(outcome.turn) >= jnp.pi, Result.CHART),
        (unit.size > 0 and ~(det(old_rows @ unit.T) > RANK_COSINE), Result.RANK),  # also where they vanish
        (_has_leapt(system, before, x, t, h), Result.LEAP),
    )
    status = jnp.where(jnp.asarray(outcome.status) == 0, status, outcome.status)
    return State(k, outcome.g, outcome.p_plus, outcome.p_minus, outcome.memory, outcome.warm, unit, status)


def held_at(system: System, state: State, t: ArrayLike) -> tuple[System, State]:
    """System with independent rows at a node, for the step from there, and the node with those rows; themselves if all
    rows are independent.
    """
    if system.rank is None:
        return system, state
    x = system.at(state.g, t)
    held = system.holding(x)
    return held, state._replace(rows=_unit_rows(held, x))


def unless_risen(system: System, state: State, t: ArrayLike) -> State:
    """Node with the status RANK if other rows than those of the step are independent there, or contradict them."""
    if system.rank is None:
        return state
    risen = ~(excess(system, system.at(state.g, t)) <= RISE)
    return state._replace(status=jnp.where((state.status == 0) & risen, np.int32(Result.RANK), state.status))


def _unit_rows(system: System, x: Any) -> Array:
    """Rows whose rank must stay full, orthonormalised in their order, shape=[m, n]."""
    rows = apart(system.rows(x), jnp.zeros((len(system.rows(x)), 0)))[0]
    return rows * (1 / jnp.sqrt(jnp.sum(rows[:1] ** 2)))


def _has_leapt(system: System, before: State | None, x: Any, t: ArrayLike, h: ArrayLike) -> Array | bool:
    """True if the constraints are known to fail between the nodes of a step that ends at x."""
    if before is None or h is None:
        return False
    joins = system.joins(system.at(before.g, None if t is None else t - h), x)
    return False if joins is True else jnp.logical_not(joins)


def _metric_fails(system: System, x: Any, outcome: Outcome, first: bool) -> Array | bool:
    """True if the mass matrix is not symmetric, or has a pivot that is not positive; a constant one at node 0 only. Or
    if no velocity has the node's momentum.

    Steps compute and eliminate the mass matrix of a metric anyway. For a non-quadratic ℓ it is the Hessian
    at the node's velocity: that of its momentum, which is the node's only datum. The step's own is used instead
    where p is nearly M(x, 0)ξ.
    """
    field = None if system.given_metric is None else system.given_metric.field
    if field is not None and field.is_constant and not first and (is_forward_only() or not is_traced(field.constant)):
        return False
    if not system.is_quadratic:
        p = (outcome.p_plus + outcome.p_minus) / 2
        xi = system.velocity(x, p) if outcome.xi is None else _checked_velocity(system, x, p, outcome.xi)
        return ~jnp.all(pivots(system.mass_matrix(x, xi)) > 0) | ~jnp.isfinite(jnp.sum(xi))
    M = system.mass_matrix(x)
    asymmetric = jnp.max(jnp.abs(M - M.T)) > ASYMMETRY * jnp.max(jnp.abs(M)) if field is not None else False
    return jnp.any(pivots(M) <= 0) | asymmetric


def _lost_metric(system: System, before: State | None, t: ArrayLike, h: ArrayLike, failed: Array) -> Array | bool:
    """True if a step failed and the metric is not positive definite within half a step to one and a half along the
    velocity, which may grow on the way: no velocities exist there, and the equations of a step have no solution.
    """
    if before is None or h is None or not (system.metric_varies and system.is_quadratic):
        return False

    def is_ahead() -> Array:
        x = system.at(before.g, None if t is None else t - h)
        xi = system.velocity(x, before.p_minus)
        ways = [system.act(x, system.group.exp(s * h * xi), s * h) for s in (0.5, 1.0, 1.5)]
        return jnp.any(jnp.stack([jnp.any(pivots(system.mass_matrix(y)) <= 0) for y in ways]))

    return lax.cond(failed, is_ahead, lambda: jnp.asarray(False))


def _checked_velocity(system: System, x: Any, p: Array, xi: Array) -> Array:
    """Velocity of a momentum p, given a candidate xi, all of shape=[n]; computed where it may be another, or none."""
    off = solve_spd(system.mass_matrix(x), p - system.momentum_at_rest(x)) - xi
    return lax.cond(16 * (off @ off) <= xi @ xi, lambda: xi, lambda: system.velocity(x, p))


def first_failure(*conditions: tuple[Array | bool, Result]) -> Array:
    """Status of the first condition that holds, else SUCCESS."""
    status = jnp.asarray(int(Result.SUCCESS), dtype=np.int32)
    for condition, result in reversed(conditions):
        status = jnp.where(condition, np.int32(result), status)
    return status

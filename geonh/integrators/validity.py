"""Validity tests of steps, and the results that they decide.

``judge`` validates the outcome of a step (convergence, finite values, the retraction's chart, the rank of the
constraints) and returns the next ``State``, for the loop of ``solve``, for ``integrate`` and for compositions alike.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.constrained import has_small_null_space, oriented_null_space
from geonh.algebra.linear import apart, det, pivots, solve_spd
from geonh.arguments.precision import is_traced
from geonh.engine import is_forward_only
from geonh.groups.base import ArrayLike
from geonh.integrators.node import Outcome, State
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.multiplier_forces import determinant
from geonh.mechanics.redundancy import RISE, excess
from geonh.mechanics.system import System

RANK_COSINE = 1e-6
"""Between consecutive nodes the cosine of the constraint rows' spans, det(ABᵀ) of orthonormal ones, must exceed this:
it changes sign when, between the two, rows that vary continuously became dependent (by Cauchy–Binet it is the cosine
between the Plücker vectors)."""

STIFF = 2.0
"""Largest h × rate of what an explicit step is to follow."""

ASYMMETRY = 1e-10
"""Largest asymmetry of a metric, relative to its size."""


class Result(IntEnum):
    """Status of a run at its end, or the reason why it stopped: number, message, and whether the run failed.

    Stores and exported code hold the numbers, files the names: neither changes, and a new number is the next.

    Attributes
    ----------
    message : str
        Description of the result, with a remedy.
    failed : bool
        True if the run stopped because of an error, not at its end, at an event or by Ctrl-C.
    """

    message: str
    failed: bool

    def __new__(cls, number: int, message: str, failed: bool = True) -> Self:
        result = int.__new__(cls, number)
        result._value_, result.message, result.failed = number, message, failed
        return result

    def __str__(self) -> str:
        return self.name

    SUCCESS = 0, "reached the end", False
    NEWTON = 1, "Newton's method did not converge; a smaller dt, or a look at the Lagrangian, is needed"
    NOT_FINITE = 2, "a value of the state, the potential there, or its momentum's velocity, is not finite"
    RANK = (
        3,
        "the constraints became dependent (their rank drops here), so the constraint force is not determined; "
        "or redundant ones became independent or contrary (it rises); "
        "or they turned by a right angle or more in one step, as where a step is not stable: lower dt",
    )
    CHART = 4, "the body turns by half a turn or more in one step, past the retraction's chart; lower dt"
    INTERRUPTED = 5, "interrupted", False
    METRIC = (
        6,
        "the metric is not symmetric and positive definite here (of a Lagrangian, its Hessian in ξ), or no "
        "velocity has the momentum",
    )
    ACROSS = (
        7,
        "the step is too long for the forces across the constraints, which act on little mass there; lower dt, "
        "or take Gauss(2)",
    )
    EVENT = 8, "stopped at an event", False
    START = (  # of members of ensembles, and of runs in a JAX transformation
        9,
        "did not start: the point is off the group, the velocity off the constraints (project it), or the step is zero "
        "or past the method's limits; geonh.solve says which",
    )
    LEAP = (
        10,
        "the contact leaps within one step over a part of the surface that is more curved than the body, which "
        "rests on two points there and meets the surface anew; a smaller or rounder body would not",
    )
    STEP = (
        11,
        "the steps vanish, or would change too much from one to the next: the motion is singular here, forces "
        "or metric are not finite, a monitor is not positive, or the tolerance is below rounding of numbers of "
        "this size (Adaptive has sizes=), or too large for reversible steps; in Modes, the energy rises within steps "
        "however short, in a mode whose forces only take it, or a guard jumps",
    )
    END = (
        12,
        "the next step would pass the end of the run",
        False,
    )  # of a loop of variable steps: a run ends with SUCCESS
    PAINLEVE = (
        13,
        "no motion exists, or two do (Painlevé): with the forces that depend on the multipliers the equations "
        "for these are singular, or past a singularity",
    )
    GAINS = (
        14,
        "the attraction of the feedback is too fast here for dt, and the steps are not stable: the rates grow "
        "with the derivatives of energy and constraint; lower dt, or the gains",
    )
    UNFINISHED = 15, "n_steps were too few to reach t_end; pass more, or a larger tolerance"  # of integrate only
    SWITCHES = (
        16,
        "modes switch more than a thousand times within one step, or a hundred times at once, up to rounding: "
        "transitions accumulate, as impacts with "
        "restitution below 1 do, or two modes alternate, or the reset of a transition into its own mode leaves its "
        "guard past zero, where one with a direction counts again; a target that chooses the limit mode, with a reset "
        "onto the constraints of that, ends the first",
    )
    SLIP = (
        17,
        "the direction of the slip turns by more than a third of a right angle within one step, as where the "
        "slip nearly vanishes, or a disc comes to lie flat; lower dt, or take Modes, which part a step as far as that "
        "helps",
    )
    MODE = (
        18,
        "no mode goes on from here, as the target of a transition says (that of rolling.slipping without restitution= "
        "where a normal force vanishes, and would pull); end the run before, by t_end or an event, or add a mode",
    )
    RESET = (
        19,
        "the reset of a transition gives a place or a velocity that is not finite; look at it, at the coefficients "
        "that it takes, and at whether a body lands flat, which then touches at no single point",
    )
    GUARD = (
        20,
        "the guard of a transition is not a number here, so that it is not known whether the mode ends; let it be a "
        "number beyond its zero too",
    )


def judge(system: System, before: State | None, outcome: Outcome, t: ArrayLike = None, h: ArrayLike = None) -> State:
    """Validate the outcome of a step of length h from ``before`` (None: node 0); the node at time t, with status.

    It is computed at each node of every run: a test should cost little beside a step.
    """
    x = system.at(outcome.g, t)
    unit = _unit_rows(_linear_at(system, x, outcome), x)
    numbers = jax.tree.leaves((outcome.g, outcome.p_plus, outcome.p_minus, outcome.memory))
    numbers.append(system.potential_energy(x))  # only its gradient is in the step, which may be finite where it is not
    total = jnp.sum(jnp.concatenate([jnp.ravel(x) for x in numbers]))
    k, old_rows = (jnp.asarray(0), unit) if before is None else (before.k + 1, before.rows)
    status = first_failure(
        (_metric_fails(system, x, outcome, before is None) & jnp.isfinite(total), Result.METRIC),
        (_jams(system, t, x, outcome), Result.PAINLEVE),
        (_lost_metric(system, before, t, h, ~jnp.isfinite(total) | jnp.logical_not(outcome.converged)), Result.METRIC),
        (~jnp.isfinite(total) & outcome.converged, Result.NOT_FINITE),
        (jnp.logical_not(outcome.converged), Result.NEWTON),
        (jnp.asarray(outcome.turn) >= jnp.pi, Result.CHART),
        (unit.size > 0 and ~(det(old_rows @ unit.T) > RANK_COSINE), Result.RANK),  # also where they vanish
        (_slip_turns(system, t, x, outcome), Result.SLIP),
        (_has_leapt(system, before, x, t, h), Result.LEAP),
    )
    status = jnp.where(jnp.asarray(outcome.status) == 0, status, outcome.status)
    return State(k, outcome.g, outcome.p_plus, outcome.p_minus, outcome.memory, outcome.warm, unit, status)


def held_at(system: System, state: State, t: ArrayLike) -> tuple[System, State]:
    """System for the step from a node, and the node in it: with the independent rows there, and forces that know where
    the step begins; themselves if all rows are independent and no forces do.
    """
    if system.multiplier_forces is not None:
        return forces_held(system, state, t), state
    if system.rank is None:
        return system, state
    x = system.at(state.g, t)
    held = system.holding(x)
    return held, state._replace(rows=_unit_rows(held, x))


def forces_held(system: System, node: Any, t: ArrayLike) -> System:
    """System for the step from a node, (g, p⁺, p⁻), whose forces that depend on multipliers know where it begins."""
    if system.multiplier_forces is None:
        return system
    x = system.at(node.g, t)
    xi = system.velocity(x, (node.p_plus + node.p_minus) / 2)
    forces = system.multiplier_forces.held_at(jnp.asarray(t), x, xi, system.parameters)
    return eqx.tree_at(lambda s: s.multiplier_forces, system, forces)


def unless_stiff(system: System, before: State, after: State, t: Array, h: Array, u: Any) -> State:
    """Node after an explicit step with the status SLIP if a slip is so slow that friction turns it faster than the
    step can follow, in runs that part such a step.
    """
    forces = system.multiplier_forces
    if forces is None or not forces.is_parted:
        return after
    x = system.at(before.g, t)
    xi = system.velocity(x, (before.p_plus + before.p_minus) / 2)
    lam = accelerations_at(system, t, x, xi, u)[1]
    rate = forces.turning_rate(jnp.asarray(t), x, xi, lam, system.parameters, system.mobility_at(t, x, xi))
    stiff = jnp.abs(h) * rate > STIFF
    return after._replace(status=jnp.where((after.status == 0) & stiff, np.int32(Result.SLIP), after.status))


def unless_risen(system: System, state: State, t: ArrayLike) -> State:
    """Node with the status RANK if other rows than those of the step are independent there, or contradict them."""
    if system.rank is None:
        return state
    risen = ~(excess(system, system.at(state.g, t)) <= RISE)
    return state._replace(status=jnp.where((state.status == 0) & risen, np.int32(Result.RANK), state.status))


def cosine(system: System, rows: Array, outcome: Outcome, t: ArrayLike) -> Array:
    """Cosine between the spans of orthonormal ``rows`` of a node, shape=[m, n], and of the constraints after a step to
    time t, shape=[].
    """
    if not len(rows):
        return jnp.ones(())
    x = system.at(outcome.g, t)
    return det(rows @ _unit_rows(_linear_at(system, x, outcome), x).T)


def _unit_rows(system: System, x: Any) -> Array:
    """Rows whose rank must stay full, orthonormalised in their order, shape=[m, n]; where they are many, orthonormal
    rows of their null space, shape=[n − m, n].
    """
    rows = system.rows(x)
    m, n = rows.shape
    if has_small_null_space(m, n) and m < n:
        return oriented_null_space(lax.stop_gradient(rows))
    rows = apart(rows, jnp.zeros((m, 0)))[0]
    return rows * (1 / jnp.sqrt(jnp.sum(rows[:1] ** 2)))


def _linear_at(system: System, x: Any, outcome: Outcome) -> System:
    """System with the affine constraints to which nonlinear ones are equal at a node."""
    return system.linear_at(_velocity(system, x, outcome)) if system.is_nonlinear else system


def _velocity(system: System, x: Any, outcome: Outcome) -> Array:
    """ξ̃ at a node, shape=[n]."""
    return system.velocity(x, (outcome.p_plus + outcome.p_minus) / 2) if outcome.xi is None else outcome.xi


def _jams(system: System, t: ArrayLike, x: Any, outcome: Outcome) -> Array | bool:
    """True if forces that depend on the multipliers do not determine them at a node."""
    if system.multiplier_forces is None:
        return False
    return determinant(system, jnp.asarray(t), x, _velocity(system, x, outcome)) <= 0


def _slip_turns(system: System, t: ArrayLike, x: Any, outcome: Outcome) -> Array | bool:
    """True if forces that know where the step began have another direction at its end."""
    forces = system.multiplier_forces
    if forces is None or not forces.is_held:
        return False
    keeps = forces.keeps_direction(jnp.asarray(t), x, _velocity(system, x, outcome), system.parameters)
    return False if keeps is True else jnp.logical_not(keeps)


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

        def lost(part: Array) -> Array:
            y = system.act(x, system.group.exp(part * h * xi), part * h)
            return jnp.any(pivots(system.mass_matrix(y)) <= 0)

        return jnp.any(lax.map(lost, np.array([0.5, 1.0, 1.5])))

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

r"""Fastest mode of a system at the start of a run, and how well the time step resolves it.

About a start, on the constraints, small perturbations obey η̈ + Cη̇ + Kη = 0 in a frame Z of D that is orthonormal in
the metric M: K = −ZᵀM(∂ξ̇/∂η)Z, C = −ZᵀM(∂ξ̇/∂ξ)Z. ξ̇ is evaluated by the compiled step of the run itself, with a
hundredth of its length, from perturbed starts: only their positions need a program, compiled once per group. From the
momenta p₁ at its end, ξ̇ = M₁⁻¹(p₁ − p(x₁, ξ))/h: the momentum of a velocity may change faster with the place, as in
relative coordinates of a chain, than the motion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from geonh.engine import mapped, prepared
from geonh.groups.base import Point
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.mechanics.soundness import Facts
from geonh.mechanics.system import System
from geonh.runs.start import FirstNode, node_and_facts

FAST = 2.0
"""Largest phase per step, rad, that a step resolves: beyond it a period has about three steps or fewer."""
DOUBTFUL = 0.25
"""Growth per step of random perturbations above which all modes are computed."""
PART = 1e-2
"""Fraction of dt, or of the time in which the fastest mode turns by 1 rad if shorter: step for evaluating ξ̇."""
APART = 1e-7
"""Perturbation of the starts, in the units of g and ξ: the remainders of φ and of μξ = b, corrected to first order in
it, are small relative to the differences, and so is rounding."""

StepFunction = Callable[[State], State | None]
"""One step from a node; None on failure."""


def fast_mode(problem: Problem, first: FirstNode, step_by: Callable[[Clock], StepFunction]) -> str:
    """Warning text if the time step is too long for the start; "" if it is not, or if this cannot be determined.

    Parameters
    ----------
    problem, first : Problem, FirstNode
        Problem and node 0 of the run, which is consistent.
    step_by : callable
        Step of the run with another clock, by the compiled program of the run.
    """
    try:
        return _fast_mode(problem, first, step_by)
    except np.linalg.LinAlgError:  # forms that are nearly parallel
        return ""


def _fast_mode(problem: Problem, first: FirstNode, step_by: Callable[[Clock], StepFunction]) -> str:
    system, frame, dt, start = problem.system, _frame(first.facts), float(problem.clock.dt), first.start
    d = frame.shape[1]
    one, every = np.random.default_rng(0).normal(size=(1, d)), np.eye(d)

    def slopes(h: float, directions: np.ndarray) -> np.ndarray:
        """ZᵀM∂ξ̇ by η and by ξ along directions in the frame, shape=[N, d], as shape=[2, N, d]; by steps of length h."""
        clock = problem.clock._replace(dt=np.float64(h))
        step = step_by(clock)
        start_at = prepared(node_and_facts, Problem(system, problem.method, clock), (start.g, start.xi))
        moved, still = APART * directions @ frame.T, np.zeros_like(directions @ frame.T)
        etas, deltas = np.concatenate([still[:1], moved, still]), np.concatenate([still[:1], still, moved])
        here = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], len(etas), axis=0), start.g)
        ways, xi = mapped(_tangent, system.group, (here, etas)), start.xi + deltas
        g = jax.tree.map(np.add, here, ways)  # off the group by the square of the perturbation: rounding
        xi = _on_constraints(start_at((g, xi))[1], xi)
        states = start_at((g, xi))[0]
        afters = [
            after for i in range(len(xi)) if (after := step(jax.tree.map(lambda a, i=i: a[i], states))) is not None
        ]
        if len(afters) < len(xi):  # a step fails
            return np.full((2, len(moved), d), np.nan)
        ends = jax.tree.map(lambda *a: np.stack(a), *((after.g, _momentum(after)) for after in afters))
        node, facts = start_at((ends[0], xi))
        rates = np.linalg.solve(facts.M, (ends[1] - _momentum(node))[..., None])[..., 0]
        return ((rates[1:] - rates[0]) @ first.facts.M @ frame / (APART * h)).reshape(2, -1, d)

    if not d:
        return ""
    h = PART * dt
    sizes = np.linalg.norm(slopes(h, one), axis=(1, 2)) / np.linalg.norm(one) * np.sqrt(d)
    if sizes[0] * abs(dt) <= DOUBTFUL / abs(dt) and sizes[1] * abs(dt) <= DOUBTFUL:
        return ""
    value = 1 / h + 0j
    for _ in range(5):
        by_place, by_velocity = slopes(h, every)
        A = np.block([[np.zeros((d, d)), every], [by_place.T, by_velocity.T]])
        value = max(np.linalg.eigvals(A), key=abs) if np.isfinite(A).all() else 100 * value
        if abs(value * h) <= 10 * PART:
            return _described(system, value, dt)
        h = PART / abs(value) * np.sign(dt)
    return ""


def _described(system: System, value: complex, dt: float) -> str:
    """Description of an eigenvalue, 1/s."""
    if not abs(value * dt) > FAST:
        return ""
    does = (
        f"turns the fastest mode of {system.name} by {abs(value.imag * dt):.3g} rad a step"
        if abs(value.imag) >= abs(value.real)
        else f"makes the fastest mode of {system.name} {'grow' if value.real * dt > 0 else 'decay'} by a factor of "
        f"e^{abs(value.real * dt):.3g} a step"
    )
    return (
        f"dt = {dt:g} {does} at the start, too much for the step to follow: take |dt| near {0.3 / abs(value):.1g}, or "
        "see that dt, angles and stiffness are in one set of units"
    )


def _frame(facts: Facts) -> np.ndarray:
    """Basis of D that is orthonormal in the metric, shape=[n, d]."""
    root = np.linalg.cholesky(facts.M)
    rows = np.linalg.solve(root, facts.forms.T)
    across = np.linalg.qr(rows, mode="complete")[0][:, len(facts.forms) :] if len(facts.forms) else np.eye(len(root))
    return np.linalg.solve(root.T, across)


def _tangent(group: Any, node: tuple) -> Point:
    return group.left_tangent(*node)


def _on_constraints(facts: Facts, xi: np.ndarray) -> np.ndarray:
    """Project velocities, shape=[N, n], onto the constraints, using the residuals of the unit forms in the facts."""
    if not facts.forms.shape[1]:
        return xi
    residuals = facts.residual * np.linalg.norm(facts.forms, axis=2)
    across = np.linalg.solve(facts.M, np.swapaxes(facts.forms, 1, 2))
    return xi - (across @ np.linalg.solve(facts.forms @ across, residuals[..., None]))[..., 0]


def _momentum(state: State) -> np.ndarray:
    """p̃, shape=[..., n]."""
    return np.asarray(state.p_plus + state.p_minus) / 2

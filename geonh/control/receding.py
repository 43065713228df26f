r"""Model predictive control: an optimal control problem over a horizon that recedes, solved anew at each state.

At a state the last plan is moved on by the time that has passed, with its multipliers, and one Newton step of the
interior-point method is taken with a barrier parameter that stays (the real-time iteration): the derivatives are exact,
and the plan follows the solution as states change. The first plan, and one after a state far from the last plan, are
solved to the end.

Source: Diehl, Bock, Schlöder, *SIAM J. Control Optim.* 43 (2005) 1714; with interior points, Zavala, Biegler,
*Automatica* 45 (2009) 86.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import jax
import numpy as np

from geonh.arguments.precision import refuse_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64, refuse_infinite
from geonh.control.ends import Ends
from geonh.control.guess import TRIES, motions, resampled
from geonh.control.interior_point import InteriorPoint, Iterate
from geonh.control.phases import as_duration, as_phases
from geonh.control.steering import default_method, steering_problem
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.control.wanted import Wanted
from geonh.groups.base import as_point
from geonh.integrators.base import Integrator
from geonh.integrators.registry import as_method
from geonh.mechanics.system import System

SOFTNESS = 1e-4
"""Relaxation of bounds but those of controls, while a plan is followed: a state may be beyond them by a model error."""
RENEWALS = 30
"""Maximum number of iterations for a plan that is solved anew."""
SETTLED = 1e-6
"""Violation of the equations of a plan with soft bounds, below which it is one."""
FAR = 1.0
"""Violation of the plan's equations by a state, above which the plan is solved to the end."""


class ModelPredictiveControl:
    """Controller that plans from each state on: ``controller(t, g, xi)`` is the control to be applied.

    Parameters
    ----------
    problem : Transcription
        Problem over the horizon; ``mpc`` makes it.
    iterations : int
        Newton steps for each state.
    barrier : float
        Barrier parameter.

    Attributes
    ----------
    plan : DiscreteMotion
        The last plan: points, velocities and controls at its nodes, from time ``plan.t0`` on, over ``plan.span``.
    solved : int
        Number of plans that were solved to the end; others were updated by Newton steps.
    """

    def __init__(self, problem: Transcription, iterations: int, barrier: float) -> None:
        self._problem, self._iterations, self._barrier = problem, iterations, barrier
        self._solver = InteriorPoint(problem)
        self._iterate: Iterate | None = None
        self.solved = 0

    @property
    def plan(self) -> DiscreteMotion:
        """The last plan."""
        if self._iterate is None:
            raise ValueError("there is no plan yet: call the controller with a time, a point and a velocity")
        return self._iterate.motion

    def __call__(self, t: float, g: Any, xi: Any) -> np.ndarray:
        """Controls at a time t, s, a point of the group and a velocity, shape=[n]: of shape=[n_u].

        Raises
        ------
        RuntimeError
            If no first plan is found.
        ValueError, TypeError
            For invalid input.
        """
        refuse_traced("a controller solves an optimal control problem at numbers", t=t, g=g, xi=xi)
        group = self._problem.system.group
        g, xi, t = as_point(group, g, "g"), as_float64(xi, "xi", (group.dim,)), float(as_constant(t, "t"))
        refuse_infinite(g, "g")
        shifted = None if self._iterate is None else self._shifted(self._iterate, t, g, xi)
        with np.errstate(all="ignore"):  # of states that are far too large, which are refused
            updated = None
            if shifted is not None:
                updated = self._solver.followed(shifted, self._barrier, self._iterations, SOFTNESS)
            if updated is None or self._solver.off(updated) > FAR:
                updated = self._from_anew(t, g, xi, updated)
        self._iterate = updated
        return updated.motion.u[0].copy()

    def _at(self, motion: DiscreteMotion, t: float, g: Any, xi: np.ndarray) -> DiscreteMotion:
        for leaf, first in zip(jax.tree.leaves(motion.g), jax.tree.leaves(g), strict=True):
            leaf[0] = first
        motion.xi[0] = xi
        return motion._replace(t0=t, spans=self._problem.steering.spans)

    def _shifted(self, last: Iterate, t: float, g: Any, xi: np.ndarray) -> Iterate:
        """Last plan from time t on; the end is held."""
        problem, K = self._problem, self._problem.n_steps
        passed = (t - last.motion.t0) / (last.motion.span / K)
        motion = resampled(problem, last.motion, np.clip(np.arange(K + 1.0) + passed, 0.0, K))
        nodes, sizes = np.clip(np.arange(K) + round(np.clip(passed, -K, K)), 0, K - 1), problem.shapes

        def moved(flat: np.ndarray, of: Any) -> np.ndarray:
            inner, end = problem.split(flat, of)
            return np.concatenate([inner[nodes].ravel(), end.ravel()])

        rest = (moved(part, sizes.inequalities) for part in (last.slacks, last.inequalities, last.lower, last.upper))
        slacks, inequalities, lower, upper = rest
        equations = moved(last.equations, sizes.equations)
        return Iterate(self._at(motion, t, g, xi), slacks, equations, inequalities, lower, upper)

    def _from_anew(self, t: float, g: Any, xi: np.ndarray, near: Iterate | None) -> Iterate:
        """Plan solved to the barrier parameter, from the last one or from others."""
        fresh = (self._at(motion, t, g, xi) for motion in islice(motions(self._problem), TRIES))
        for motion in fresh if near is None else [near.motion]:
            solver = self._solver if near is None else InteriorPoint(self._problem, RENEWALS)
            try:
                found = solver.solve(motion, least=self._barrier)
            except ValueError as error:
                raise ValueError(
                    f"t, g, xi: no plan of {self._problem.system.name} from this state, with |xi| = "
                    f"{np.abs(xi).max():.3g}, is finite: {error}"
                ) from error
            if found.solved:
                self.solved += 1
                return found.iterate
            if near is None:  # from a state beyond its bounds there is a plan that returns, and exceeds them before
                soft = self._solver.followed(found.iterate, self._barrier, RENEWALS, SOFTNESS)
                if soft is not None and self._solver.off(soft) < SETTLED:
                    self.solved += 1
                    return soft
        if near is not None:
            return near
        raise RuntimeError(f"no plan of {self._problem.system.name} from this state at t = {t:g} s: {found.reason}")


@validated
def mpc(
    system: System,
    *,
    n_controls: int,
    horizon: float,
    n_steps: int,
    cost: Callable | None = None,
    terminal_cost: Callable | None = None,
    end: Any = None,
    xi_end: Any = None,
    bounds: tuple[Any, Any] | None = None,
    rates: tuple[Any, Any] | None = None,
    limits: Mapping[str, tuple[Any, Any]] | None = None,
    path: Any = None,
    terminal: Any = None,
    method: Integrator | str | None = None,
    iterations: int = 1,
    barrier: float = 1e-4,
) -> ModelPredictiveControl:
    """Model predictive controller.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    n_controls, n_steps : int
        Number of controls, and of steps of the horizon.
    horizon : float
        Length of the horizon, s.
    cost, terminal_cost, end, xi_end, bounds, rates, limits, path, terminal, method : optional
        As for ``optimal_control``; the end is free when left out.
    iterations : int
        Newton steps for each state.
    barrier : float
        Barrier parameter: the larger, the further the plans stay from the bounds.

    Returns
    -------
    ModelPredictiveControl
        Call it with (t, g, xi) at equal or other distances of time.

    Raises
    ------
    ValueError, TypeError
        For invalid input.

    References
    ----------
    .. [Diehl2005] M. Diehl, H. G. Bock, J. P. Schlöder, "A real-time iteration scheme for nonlinear optimization in
       optimal feedback control", SIAM J. Control Optim. 43 (2005), 1714–1736.
    """
    method = as_method(default_method(system) if method is None else method)
    n_newton = as_count(iterations, "iterations")
    mu = float(as_constant(barrier, "barrier"))
    if not mu > 0:
        raise ValueError(f"barrier must be positive, got {barrier}")
    end = None if end is None else system.point(end, name="end")
    start = end if system.holonomic is None or end is not None else _on_constraints(system)
    phases = as_phases(system, None, as_duration(horizon, "horizon"), n_steps)
    steering = steering_problem(
        phases,
        method,
        Ends(start, None, end, xi_end),
        Wanted(cost, terminal_cost, bounds, rates, limits, path, terminal),
        n_controls=n_controls,
    )
    problem = Transcription.of(phases, method, steering)
    return ModelPredictiveControl(problem.in_units_of(next(motions(problem))), n_newton, mu)


def _on_constraints(system: System) -> Any:
    """A point on φ = 0, near the identity or another point about it."""
    rng, group = np.random.default_rng(0), system.group
    for scale in (0.0, *np.repeat([0.1, 1.0], TRIES // 2)):
        try:
            return system.project_position(group.exp(scale * rng.normal(size=group.dim)))
        except ValueError as error:
            reason = error
    raise ValueError(f"no configuration of {system.name} is known for the plans: give end=; {reason}")

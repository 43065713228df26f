r"""Steps of variable length with a controlled error, of a method with an embedded error estimate.

A step is accepted if its estimated error e is at most a fortieth of the tolerance δ, with sizes s of g and of ξ,

    r = 40 max(|e_σ|/max(s_g, |g|), |e_ξ|/(s_ξ + |ξ|))/δ ≤ 1,

else tried again with the length (θ/r)^{1/q} h, q = 1 + the order of the embedded solution; the next length is
(θ/r)^{0.7/q} (r₋/θ)^{0.4/q} h, with r₋ of the step before and θ = 0.4 (the PI controller of Gustafsson 1991).

Derivatives are those of the scheme with the lengths that were found; that of a step to the end of a run leads there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.validators import as_constant, as_positive
from geonh.engine import differentiated_as
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Integrator, Outcome, State
from geonh.integrators.node import Pace
from geonh.integrators.validity import Result, cosine
from geonh.integrators.variable_steps import (
    VariableSteps,
    as_sizes,
    as_tolerance,
    relative_error,
    rescaled,
    without_derivatives,
)
from geonh.mechanics.system import System

SHARE = 0.025
"""Share of the tolerance that the error of one step may have."""
AIM = 0.4
"""θ, the ratio r at which the next step is aimed."""
LEAST_FACTOR, RETRY, LARGEST_FACTOR = 0.2, 0.9, 10.0
"""Bounds of the ratio of consecutive steps; a step that is tried again is shorter by ``RETRY`` at least."""
LEAST_COSINE = 0.5
"""Least cosine between the spans of the constraints at both ends of a step."""
VANISHING = 1e-14
"""Step length, relative to the time and to the step before, at which a run ends."""
SMALLEST_ERROR = 1e-4
"""Least error of a step, relative to the tolerance, in the choice of the second next step."""


class Found(NamedTuple):
    """Length of a step, its error relative to the tolerance, and the number of attempts."""

    h: Array
    ratio: Array
    tries: Array


class ErrorControlled(VariableSteps):
    """Steps of variable length with a controlled error; made by ``Adaptive(method, tolerance)``.

    Parameters
    ----------
    method : Integrator
        Method whose ``guarantees.steps`` is "controlled": ``RKMK(5)``, ``RKMK(8)``.
    tolerance : float
        Forty times the largest error of a step: of g relative to 1 or its largest entry, of ξ relative to 1 + |ξ|.
    max_step : float
        Largest length of a step, seconds.
    sizes : array_like, shape=[2]
        As in ``Adaptive``.

    Raises
    ------
    TypeError, ValueError
        If a number is not positive.

    References
    ----------
    .. [Gustafsson1991] K. Gustafsson, "Control theoretic techniques for stepsize selection in explicit Runge–Kutta
       methods", ACM Transactions on Mathematical Software 17 (1991), 533–554.
    .. [Dormand1980] J. R. Dormand, P. J. Prince, "A family of embedded Runge–Kutta formulae", Journal of Computational
       and Applied Mathematics 6 (1980), 19–26.
    """

    method: Integrator
    tolerance: Any
    max_step: Any
    sizes: Any

    def __init__(
        self, method: Integrator, tolerance: float, *, max_step: float = np.inf, sizes: Any = (1.0, 1.0)
    ) -> None:
        self.sizes = as_sizes(sizes)
        self.method, self.tolerance = method, as_tolerance(tolerance)
        longest = as_constant(max_step, "max_step", finite=False)
        self.max_step = np.float64(longest if longest == np.inf else as_positive(longest, "max_step"))

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        made = self.method.init(system, clock, g0, xi0)
        h = self.first_length(clock, xi0)
        h = jnp.sign(h) * jnp.minimum(jnp.abs(h), self.max_step)
        return made._replace(memory=Pace(clock.time(0), lax.stop_gradient(h), jnp.ones(()), jnp.zeros(0), made.memory))

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        problem = self, system, clock, state
        found, made = without_derivatives(searched, problem)
        given = jnp.where(found.tries == 1, state.memory.h, found.h)  # has derivatives in a step to the end of the run
        found = found._replace(h=differentiated_as(found.h, given))
        made = jax.tree.map(_differentiated_as, made, _attempt(problem, found.h)[0])
        return self.accepted(state, found, made)

    def accepted(self, state: State, found: Found, made: Outcome) -> Outcome:
        """Outcome of the length that was found, with the next one to try."""
        pace, q = state.memory, self.method.guarantees.embedded + 1
        size = jnp.maximum(found.ratio, np.finfo(float).tiny)
        factor = (AIM / size) ** (0.7 / q) * (pace.weight / AIM) ** (0.4 / q)
        factor = jnp.clip(factor, LEAST_FACTOR, jnp.where(found.tries > 1, 1.0, LARGEST_FACTOR))
        following = lax.stop_gradient(jnp.sign(found.h) * jnp.minimum(jnp.abs(found.h) * factor, self.max_step))
        memory = Pace(pace.t + found.h, following, jnp.maximum(size, SMALLEST_ERROR), pace.constants, made.memory)
        status = jnp.where(found.ratio <= 1.0, made.status, Result.STEP.value)
        return made._replace(memory=memory, warm=rescaled(made.warm, 1 / found.h), status=status)

    def ratio(self, system: System, clock: Clock, state: State, made: Outcome, error: Array) -> Array:
        """Error of a step relative to the tolerance; infinite for a step that is none, past the chart, or over a place
        where constraints become dependent.
        """
        n, place = system.group.dim, system.group.to_vector(made.g)
        before = system.velocity(system.at(state.g, clock.time(state.k)), state.p_minus)
        ratio = relative_error(self.sizes, place, error[:n], error[n:], before, made.xi) / (SHARE * self.tolerance)
        valid = jnp.isfinite(ratio) & jnp.asarray(made.converged) & (jnp.asarray(made.turn) < jnp.pi / 2)
        valid &= cosine(system, state.rows, made, clock.time(state.k + 1)) > LEAST_COSINE
        return jnp.where(valid, ratio, jnp.inf)


def _attempt(problem: tuple, h: Array) -> tuple[Outcome, Array]:
    """Step of length h, and its error relative to the tolerance."""
    method, system, clock, state = problem
    part, inner = method.inside(clock, state, h)
    made, error = method.method.estimate(system, part, inner)
    return made, method.ratio(system, part, inner, made, error)


def searched(problem: tuple) -> tuple[Found, Outcome]:
    """Longest of the lengths tried that the tolerance allows, and the step."""
    method, _, _, state = problem
    pace, q = state.memory, method.method.guarantees.embedded + 1
    least = VANISHING * (jnp.abs(pace.t) + jnp.abs(pace.h))

    def again(carry: tuple[Found, Outcome]) -> tuple[Found, Outcome]:
        h, ratio, tries = carry[0]
        h = jnp.where(tries > 0, h * jnp.clip((AIM / ratio) ** (1 / q), LEAST_FACTOR, RETRY), h)
        made, ratio = _attempt(problem, h)
        return Found(h, ratio, tries + 1), made

    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(lambda: _attempt(problem, pace.h)[0]))
    begin = Found(jnp.asarray(pace.h), jnp.asarray(jnp.inf), jnp.zeros(()))
    return lax.while_loop(lambda carry: (carry[0].ratio > 1) & (jnp.abs(carry[0].h) > least), again, (begin, nothing))


def _differentiated_as(value: Any, other: Any) -> Any:
    return differentiated_as(value, other) if jnp.issubdtype(jnp.result_type(value), jnp.floating) else value

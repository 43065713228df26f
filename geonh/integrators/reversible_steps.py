r"""Reversible steps of variable length, of a symmetric method Φ (Hairer, Söderlind 2005).

With a monitor σ(t, g, ξ) > 0, the local time scale, and the step density ρ = ε/h,

    ρ_{1/2} = 1/σ(y₀) + ½εG(y₀),   h_k = ε/ρ_{k+½},   y_{k+1} = Φ_{h_k}(y_k),   ρ_{k+3/2} = ρ_{k+½} + εG(y_{k+1}),

with G = −d(ln σ)/dt along the motion. This is explicit, and symmetric and reversible in (y, ρ) where Φ is in y, so that
the energy does not drift where the reversal maps the orbit to itself. By default σ is the time in which the motion
covers a fixed arc length in phase space,

    σ = (|ξ|²/V² + |ξ̇|²/A² + 10⁻⁶)^{−1/2},

in the kinetic norm, with V and A the mean of |ξ| and of |ξ̇| over a pilot run. ε is constant, and follows from the
tolerance: along the pilot run the local errors of Φ, by comparison with two steps of half the length, add up to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.geometry.field import check_arguments, guarded
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Guarantees, Integrator, Outcome, State
from geonh.integrators.error_control import ErrorControlled, searched
from geonh.integrators.node import Pace
from geonh.integrators.runge_kutta import RKMK
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import (
    VariableSteps,
    as_sizes,
    as_tolerance,
    relative_error,
    rescaled,
    without_derivatives,
)
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.system import System

PILOT_TOLERANCE = 4e-3
"""Tolerance of the pilot run."""
PILOT_STEPS = 400
"""Largest number of its steps; its errors stand for those of a longer run."""
FIRST_PHASE = 0.2
"""Step of the first estimate of errors, relative to the mean time scale |ξ|/|ξ̇|."""
ROUNDS = 6
"""Largest number of estimates of ε."""
CLEAN = 1e-9
"""Least sum of errors at which ε is estimated, well above rounding; to smaller tolerances it is extrapolated."""
NEAR = 1.2
"""Factor between two estimates of ε at which they end."""
LARGEST_CHANGE = 0.5
"""Relative change of the step density in a step, at the nodes of the pilot run, that bounds ε."""
LEAST_DENSITY = 0.1
"""Ratio of the next step density to the last, below which the monitor changes too fast for the steps."""

REST = 1e-3
"""Density of the steps at rest, relative to the mean, so that an equilibrium has steps too."""


class Constants(NamedTuple):
    """Constants of a run: ε, and the sizes V and A of the default monitor."""

    epsilon: Array
    speed: Array
    acceleration: Array


class ReversibleSteps(VariableSteps):
    """Reversible steps of variable length of a symmetric method; made by ``Adaptive(method, tolerance)``.

    Parameters
    ----------
    method : Integrator
        Symmetric method whose node is a velocity.
    tolerance : float
        Sum of the errors of the steps of a run to ``t_end``, estimated at its start.
    monitor : callable, optional
        σ(t, g, ξ) > 0 in ``jax.numpy``: seconds, up to a constant factor; steps are proportional to it.
    sizes : array_like, shape=[2]
        As in ``Adaptive``.

    Raises
    ------
    TypeError, ValueError
        If the tolerance is not a positive number, or ``monitor`` does not take (t, g, ξ).

    References
    ----------
    .. [Hairer2005] E. Hairer, G. Söderlind, "Explicit, time reversible, adaptive step size control", SIAM Journal on
       Scientific Computing 26 (2005), 1838–1851.
    """

    method: Integrator
    tolerance: Any
    monitor: Callable | None = eqx.field(static=True)
    sizes: Any

    def __init__(
        self, method: Integrator, tolerance: float, *, monitor: Callable | None = None, sizes: Any = (1.0, 1.0)
    ) -> None:
        self.sizes = as_sizes(sizes)
        self.method, self.tolerance = method, as_tolerance(tolerance)
        if monitor is not None:
            check_arguments(monitor, "t, g, xi", "monitor")
        self.monitor = monitor

    @property
    def guarantees(self) -> Guarantees:
        return replace(self.method.guarantees, embedded=0, reference="Hairer, Söderlind 2005")

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if self.method.has_impulses(system):
            one = type(self.method).__name__
            raise ValueError(
                f"with the forces or holonomic constraints of {system.name} the nodes of {one} have impulses, half of "
                "each step beside them, which must be equally long: with tolerance= take SymmetricProjection() or "
                "Gauss(2)"
            )

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        made = self.method.init(system, clock, g0, xi0)
        constants = without_derivatives(_calibrated, (self, system, clock, g0, xi0))
        density, growth = self.density(system, clock, constants, clock.time(0), g0, xi0)
        sign = jnp.sign(clock.dt)
        weight = density + sign * constants.epsilon * growth / 2
        weight = jnp.where(weight > LEAST_DENSITY * density, weight, density)
        pace = Pace(clock.time(0), sign * constants.epsilon / weight, weight, jnp.stack(constants), made.memory)
        sound = (weight > 0) & (weight < jnp.inf)
        return made._replace(memory=pace, status=jnp.where(sound, made.status, Result.STEP.value))

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        pace, constants, sign = state.memory, Constants(*state.memory.constants), jnp.sign(clock.dt)
        part, inner = self.inside(clock, state, pace.h)
        made, t = self.method.step(system, part, inner), pace.t + pace.h
        x = system.at(made.g, t)
        xi = system.velocity(x, (made.p_plus + made.p_minus) / 2) if made.xi is None else made.xi
        _, growth = self.density(system, clock, constants, t, made.g, xi)
        weight = pace.weight + sign * constants.epsilon * growth
        sound = weight > LEAST_DENSITY * pace.weight
        status = jnp.where(sound | (jnp.asarray(made.status) != 0), made.status, Result.STEP.value)
        memory = Pace(t, sign * constants.epsilon / weight, weight, pace.constants, made.memory)
        return made._replace(memory=memory, warm=rescaled(made.warm, 1 / pace.h), status=status)

    def reversed_memory(self, before: State, state: State) -> Pace:
        """Memory at ``state``, reached from ``before``, for stepping back: the density of the step between them."""
        pace, last = state.memory, before.memory
        inner = self.method.reversed_memory(before._replace(memory=last.inner), state._replace(memory=pace.inner))
        return Pace(pace.t, -last.h, last.weight, pace.constants, inner)

    def density(
        self, system: System, clock: Clock, constants: Constants, t: Array, g: Point, xi: Array
    ) -> tuple[Array, Array]:
        """1/σ, and G = −d(ln σ)/dt along the motion."""
        rate = accelerations_at(system, t, system.at(g, t), xi, clock.between(t))[0]

        def at(s: Array) -> Array:
            place = system.group.compose(g, system.group.exp(s * xi))
            return self._logarithm(system, clock, constants, t + s, place, xi + s * rate)

        log, growth = jax.jvp(at, (jnp.zeros(()),), (jnp.ones(()),))
        return jnp.exp(log), growth

    def _logarithm(self, system: System, clock: Clock, constants: Constants, t: Array, g: Point, xi: Array) -> Array:
        """−ln σ."""
        if self.monitor is not None:
            scale = guarded("monitor", self.monitor, t, g, xi)
            if scale.shape:
                raise ValueError(f"monitor must return a number, got shape {scale.shape}")
            return -jnp.log(scale)
        speed, acceleration = _squares(system, clock, t, g, xi)
        square = speed / constants.speed**2 + acceleration / constants.acceleration**2 + REST**2
        return jnp.log(square) / 2


class _Sums(NamedTuple):
    """Integrals along the pilot run: its duration, |ξ|, |ξ̇|, and the errors of the method's steps per time; and the
    largest σ|G|, the relative change of the step density for ε = 1.
    """

    duration: Array
    speed: Array
    acceleration: Array
    error: Array
    change: Array


def _calibrated(problem: tuple) -> Constants:
    """Constants of a run, from sizes and errors along a pilot run."""
    method, system, clock, g0, xi0 = problem
    p, t0 = method.method.guarantees.order, clock.time(0)
    target = jnp.maximum(method.tolerance, CLEAN)

    def again(carry: tuple) -> tuple:
        constants, _, rounds = carry
        found = _piloted(problem, constants)
        speed, acceleration = (
            jnp.where(size > 0, size / found.duration, 1.0) for size in (found.speed, found.acceleration)
        )
        span = found.duration if clock.end is None else jnp.abs(clock.end - t0)
        error = found.error * span / found.duration
        factor = jnp.where(jnp.isfinite(error), jnp.clip((target / error) ** (1 / p), 1e-3, 4.0), 0.25)
        sized = Constants(jnp.asarray(1.0), speed, acceleration)
        if method.monitor is None:
            guess = FIRST_PHASE * speed / acceleration
        else:
            guess = FIRST_PHASE * speed / acceleration * method.density(system, clock, sized, t0, g0, xi0)[0]
        largest = jnp.where(rounds > 0, LARGEST_CHANGE / found.change, jnp.inf)  # first of other sizes of the monitor
        epsilon = jnp.minimum(jnp.where(rounds > 0, constants.epsilon * factor, guess), largest)
        return sized._replace(epsilon=epsilon), jnp.where(rounds > 0, factor, jnp.inf), rounds + 1

    def unsettled(carry: tuple) -> Array:
        _, factor, rounds = carry
        return (rounds < ROUNDS) & ((factor > NEAR) | (factor < 1 / NEAR))

    one = jnp.ones(())
    found = lax.while_loop(unsettled, again, (Constants(one, one, one), jnp.inf * one, jnp.asarray(0)))[0]
    return found._replace(epsilon=found.epsilon * (method.tolerance / target) ** (1 / p))


def _piloted(problem: tuple, constants: Constants) -> _Sums:
    """Integrals along a pilot run, with errors of steps that have these constants."""
    method, system, clock, g0, xi0 = problem
    pilot = eqx.tree_at(lambda pilot: pilot.sizes, ErrorControlled(RKMK(5), PILOT_TOLERANCE), method.sizes)

    def ahead(carry: tuple) -> tuple:
        state, sums, _ = carry
        outcome, t = pilot.accepted(state, *searched((pilot, system, clock, state))), state.memory.t
        new = pilot.judged(system, clock, state, outcome)
        xi = system.velocity(system.at(state.g, t), state.p_minus)
        density, growth = method.density(system, clock, constants, t, state.g, xi)
        h = constants.epsilon / density
        sizes = jnp.sqrt(jnp.stack(_squares(system, clock, t, state.g, xi)))
        error = _local_error(method, system, clock, state, xi, h) / h
        rates = _Sums(jnp.ones(()), sizes[0], sizes[1], error, jnp.zeros(()))
        good, length = new.status == 0, jnp.abs(new.memory.t - t)
        sums = jax.tree.map(lambda total, rate: total + jnp.where(good, length * rate, 0.0), sums, rates)
        sums = sums._replace(change=jnp.maximum(sums.change, jnp.abs(growth) / density))
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, state), sums, good

    begin = pilot.first_node(system, clock, g0, xi0), _Sums(*jnp.zeros(5)), jnp.asarray(True)
    return lax.while_loop(lambda carry: carry[2] & (carry[0].k < PILOT_STEPS), ahead, begin)[1]


def _squares(system: System, clock: Clock, t: Array, g: Point, xi: Array) -> tuple[Array, Array]:
    """|ξ|² and |ξ̇|² in the kinetic norm."""
    x = system.at(g, t)
    M = system.mass_matrix(x) if system.is_quadratic else system.mass_matrix(x, xi)
    rate = accelerations_at(system, t, x, xi, clock.between(t))[0]
    return xi @ M @ xi, rate @ M @ rate


def _local_error(adaptive: ReversibleSteps, system: System, clock: Clock, state: State, xi: Array, h: Array) -> Array:
    """Error of a step of length h from a node, by comparison with two steps of half the length."""
    group, t, sign, method = system.group, state.memory.t, jnp.sign(clock.dt), adaptive.method

    def step(begin: tuple[Point, Array], at: tuple[Array, Array]) -> tuple[Point, Array, Array]:
        part = Clock(t + at[0], sign * at[1], clock.function())
        new = method.next_node(system, part, method.first_node(system, part, *begin))
        y = system.at(new.g, part.time(1))
        return new.g, system.velocity(y, (new.p_plus + new.p_minus) / 2), new.status == 0

    def following(i: Array, carry: tuple) -> tuple:
        """The whole step, the first half, and the second from there."""
        whole, half, found = carry
        begin = jax.tree.map(lambda a, b: jnp.where(i == 2, a, b), half, (state.g, xi))
        length = jnp.where(i == 0, h, h / 2)
        *reached, good = step(begin, (jnp.where(i == 2, sign * h / 2, 0.0), length))
        half = tuple(reached)
        return jax.tree.map(lambda a, b: jnp.where(i == 0, a, b), half, whole), half, found & good

    here = (state.g, xi)
    (g, xi_1), (y, xi_2), found = lax.fori_loop(0, 3, following, (here, here, jnp.asarray(True)))
    off = group.log(group.compose(group.inverse(y), g))
    error = relative_error(adaptive.sizes, group.to_vector(y), off, xi_1 - xi_2, xi_2)
    return jnp.where(found, error / (1 - 2.0**-method.guarantees.order), jnp.inf)

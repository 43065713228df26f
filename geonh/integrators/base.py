"""The protocol of a one-step method, and the state that it carries from node to node."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.distribution import rank_cosine
from geonh.groups.base import Point
from geonh.groups.retraction import Cayley, Exponential, Retraction
from geonh.mechanics.equations import multipliers
from geonh.mechanics.system import System
from geonh.numerics.linear import solve
from geonh.numerics.newton import Newton, no_inverse
from geonh.numerics.precision import Precise


@dataclass(frozen=True)
class Guarantees:
    """What a method promises; each entry is proved or refuted by the tests, and printed by ``geonh methods``.

    Attributes
    ----------
    order : int
        Order of convergence of (g, ξ) at the nodes.
    symmetric : bool
        Whether the step is its own adjoint, Φ₋ₕ = Φₕ⁻¹.
    implicit : bool
        Whether nonlinear equations are solved in each step, in general.
    constraint : str
        Where μξ = b holds to rounding: "nodes", "step" (in the method's own discrete form), or "none".
    energy : str
        When the energy is kept to rounding: "always" (any metric, potential and linear constraint), "bi-invariant" (at
        p⁻, for a bi-invariant ℓ), "projected" (put back by force) or "never".
    momentum : str
        Momentum maps kept to rounding: "horizontal" (those of horizontal symmetries of l_d, constrained or not) or
        "none".
    affine : bool
        Whether affine constraints are taken.
    groups : str
        Configuration spaces: "any", or "vector spaces".
    reference : str
        Paper and equation.
    """

    order: int
    symmetric: bool
    implicit: bool
    constraint: str
    energy: str
    momentum: str
    affine: bool
    groups: str
    reference: str


ArrayLike: TypeAlias = Any
"""A JAX array in a trace, a NumPy array outside."""


RANK_COSINE = 1e-6
"""Between consecutive nodes the cosine of the constraint rows' spans must exceed this; see ``rank_cosine``."""


class Result(IntEnum):
    """How a run ended, or why it stopped."""

    SUCCESS = 0
    NEWTON = 1
    NOT_FINITE = 2
    RANK = 3
    CHART = 4
    INTERRUPTED = 5

    @property
    def message(self) -> str:
        """In words."""
        return {
            Result.SUCCESS: "reached the end",
            Result.NEWTON: "Newton's method did not converge; a smaller dt, or a look at the Lagrangian, is needed",
            Result.NOT_FINITE: "a value is not finite",
            Result.RANK: (
                "the constraints became dependent (their rank drops here), so the constraint force is not determined"
            ),
            Result.CHART: "the body turns by half a turn or more in one step, past the retraction's chart; lower dt",
            Result.INTERRUPTED: "interrupted",
        }[self]


class State(NamedTuple):
    """A node of a trajectory.

    ``k`` counts steps, so t_k = t0 + k·dt exactly; ``increment`` is the last ζ = τ⁻¹(g_{k−1}⁻¹g_k), the next guess, or
    whatever a method guesses its next unknowns from; ``rows`` are the constraint rows at the node, kept for the rank
    test; ``status`` is a ``Result``; ``inverse``, of a Jacobian, is what ``Newton.follow`` keeps from step to step.
    """

    k: ArrayLike
    g: Point
    p_plus: ArrayLike
    p_minus: ArrayLike
    increment: ArrayLike
    rows: ArrayLike
    status: ArrayLike
    inverse: ArrayLike = np.zeros((0, 0))


class Clock(NamedTuple):
    """Time and controls: t_k = t0 + k·dt, and u_k = ``controls(t_k)`` or ``controls[k]``."""

    t0: ArrayLike
    dt: ArrayLike
    controls: Any = None

    def time(self, k: ArrayLike) -> Array:
        """t_k in seconds."""
        return jnp.asarray(self.t0 + k * self.dt)

    def control(self, k: ArrayLike) -> Any:
        """u_k, or None."""
        if self.controls is None or callable(self.controls):
            return None if self.controls is None else self.controls(self.time(k))
        return jnp.asarray(self.controls)[k]

    def between(self, t: ArrayLike) -> Any:
        """u(t) at any time, for methods with stages; controls must be a function then."""
        if self.controls is None or callable(self.controls):
            return None if self.controls is None else self.controls(t)
        raise TypeError("this method needs controls between the nodes: pass controls as a function of t, not an array")

    def part(self, k: ArrayLike, done: ArrayLike, fraction: ArrayLike) -> Clock:
        """Clock of a substep of length fraction·dt that begins at t_k + done·dt, counting from k = 0."""
        controls = None if self.controls is None else self.between
        return Clock(self.t0 + (k + done) * self.dt, fraction * self.dt, controls)


class Integrator(Precise):
    """A one-step method on M ⋊ G."""

    jumps = False
    """Whether p⁻ ≠ p⁺ at the nodes: the constraint acts as an impulse there."""
    reflects = False
    """Whether p⁻ is p⁺ reflected about the constraint, so that a part of it may alternate in sign."""
    looks_ahead = False
    """Whether the state holds more than g and a velocity, the next increment or multipliers: not composable."""

    @abstractmethod
    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        """State at node 0 of a consistent start."""

    @abstractmethod
    def step(self, system: System, clock: Clock, state: State) -> State:
        """State at the next node: a pure function of a small state and of the system's parameters."""

    @abstractmethod
    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        """Largest residual of the implicit equations of the step from ``state`` to ``new``, for error messages."""

    def refuse(self, system: System) -> None:
        """Raise ValueError, saying why, if the method does not apply to the system."""

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        """Raise ValueError if the method cannot begin there with that step, for instance beyond its stability."""

    @property
    @abstractmethod
    def guarantees(self) -> Guarantees:
        """What the method promises."""

    @property
    def order(self) -> int:
        """Order of convergence."""
        return self.guarantees.order

    def adjoint(self) -> Integrator:
        """The adjoint method Φ*_h = Φ_{−h}⁻¹; a symmetric method is its own.

        Raises
        ------
        ValueError
            If the method looks ahead, and has none of its own.
        """
        from geonh.integrators.composition import Adjoint

        return self if self.guarantees.symmetric else Adjoint(self, Newton())

    def __matmul__(self, other: Integrator) -> Integrator:
        """``a @ b``: b over half a step, then a over the other half."""
        from geonh.integrators.composition import pair

        return pair(self, other)

    def turned(self, before: State, state: State) -> State:
        """The node ``state``, reached from ``before``, made ready to go back with −h (the momenta keep their sign)."""
        return self.stretched(state, -1.0)._replace(increment=-state.increment)

    def stretched(self, state: State, ratio: Array | float) -> State:
        """A node made ready for a next step longer by ``ratio``: an impulse there grows with it."""
        average, half_impulse = (state.p_plus + state.p_minus) / 2, ratio * (state.p_minus - state.p_plus) / 2
        return state._replace(p_plus=average - half_impulse, p_minus=average + half_impulse)

    def multipliers(self, system: System, clock: Clock, k: Array, g: Point, p_plus: Array, p_minus: Array) -> Array:
        """λ at a node, shape=[m]: of the impulse where the momentum jumps, else of the continuous equations."""
        if self.jumps:
            return impulse_multipliers(system, clock, k, g, p_plus, p_minus)
        xi = system.velocity(system.action.at(g), (p_plus + p_minus) / 2)
        return multipliers(system, clock.time(k), g, xi, clock.control(k))


class RetractingIntegrator(Integrator):
    """A method that moves along a retraction: the one asked for, else Cayley where the group has it, else exp."""

    retraction: eqx.AbstractVar[Retraction | None]

    def tau(self, system: System) -> Retraction:
        """The retraction used on a system.

        Raises
        ------
        ValueError
            If Cayley is asked for and the group has none.
        """
        group = system.group
        if isinstance(self.retraction, Cayley) and not group.has_cayley:
            raise ValueError(f"{group} has no Cayley map; use retraction='exp'")
        return self.retraction or (Cayley() if group.has_cayley else Exponential())

    def refuse(self, system: System) -> None:
        self.tau(system)


class ReflectingIntegrator(RetractingIntegrator):
    """A method that reflects the momentum about the constraint at each node, p⁻ = p⁺ + h(f + μᵀλ): GNI and RATTLE."""

    start: str = eqx.field(static=True)
    jumps = reflects = True

    def __check_init__(self) -> None:
        if self.start not in ("average", "multiplier"):
            raise ValueError(f"start must be 'average' or 'multiplier', got {self.start!r}")

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        r"""Node 0 with p̃₀ = ∂ℓ/∂ξ(x₀, ξ₀) and p^± = p̃₀ ± (h/2)(μᵀλ₀ + f₀), where λ₀ = 0 unless start="multiplier".

        Both are of order 2; λ₀ = 0 is Remark 5 of the 2008 paper of Ferraro, Iglesias and Martín de Diego.
        """
        x = system.action.at(g0)
        p, t, u = system.momentum(x, xi0), clock.time(0), clock.control(0)
        push = system.force(t, x, xi0, u)
        if self.start == "multiplier":
            push = push + system.annihilator(x).T @ multipliers(system, t, g0, xi0, u)
        half = clock.dt / 2 * push
        return begun(system, g0, p - half, p + half, clock.dt * xi0, no_inverse(xi0.size, cheap=True))


def refuse(method: Any, system: System) -> None:
    """Raise TypeError if ``method`` is no method, ValueError if it does not apply to the system."""
    if not isinstance(method, Integrator):
        raise TypeError(f"method must be an integrator such as GNI() or methods['gni'].make(), got {method!r}")
    method.refuse(system)


def impulse_multipliers(system: System, clock: Clock, k: Array, g: Point, p_plus: Array, p_minus: Array) -> Array:
    """λ with p⁻ = p⁺ + h(f + μᵀλ) at a node, shape=[m]: for methods whose momentum jumps there."""
    if system.distribution is None:
        return jnp.zeros(0)
    x = system.action.at(g)
    xi = system.velocity(x, (p_plus + p_minus) / 2)
    mu = system.annihilator(x)
    raised = solve(system.mass_matrix(x), mu.T)
    impulse = p_minus - p_plus - clock.dt * system.force(clock.time(k), x, xi, clock.control(k))
    return solve(mu @ raised, raised.T @ impulse) / clock.dt


def rows_of(system: System, x: Any) -> Array:
    """Constraint rows at x, or an empty array: what the rank test follows from node to node."""
    if system.distribution is None:
        return jnp.zeros((0, system.group.dim))
    return system.distribution.degeneracy_rows(x, system.parameters)


def rank_lost(before: Array, after: Array) -> Array | bool:
    """Whether the constraint rows became dependent between two nodes."""
    return False if after.size == 0 else rank_cosine(before, after) < RANK_COSINE


def begun(
    system: System,
    g0: Point,
    p_plus: Array,
    p_minus: Array,
    increment: Array,
    inverse: ArrayLike | None = None,
    *,
    found: Array | bool = True,
) -> State:
    """Node 0, with its status: whether its equations were solved."""
    rows, status = rows_of(system, system.action.at(g0)), first_failure((jnp.logical_not(found), Result.NEWTON))
    state = State(jnp.asarray(0), g0, p_plus, p_minus, increment, rows, status)
    return state if inverse is None else state._replace(inverse=inverse)


def arrived(
    state: State,
    g: Point,
    p_plus: Array,
    p_minus: Array,
    increment: ArrayLike,
    rows: Array,
    inverse: ArrayLike | None = None,
    *,
    found: Array | bool = True,
    turn: Array | float = 0.0,
) -> State:
    """The node after ``state``, with its status: whether the equations were solved, and how far the step turns a body;
    ``inverse`` stays as it is where nothing is said."""
    status = first_failure(
        (~jnp.isfinite(sum(map(jnp.sum, jax.tree.leaves(g)), jnp.sum(p_minus))) & found, Result.NOT_FINITE),
        (jnp.logical_not(found), Result.NEWTON),
        (turn >= jnp.pi, Result.CHART),
        (rank_lost(state.rows, rows), Result.RANK),
    )
    inverse = state.inverse if inverse is None else inverse
    return State(state.k + 1, g, p_plus, p_minus, increment, rows, status, inverse)


def first_failure(*conditions: tuple[Array | bool, Result]) -> Array:
    """Status of the first condition that holds, else SUCCESS."""
    status = jnp.asarray(int(Result.SUCCESS), dtype=np.int32)
    for condition, result in reversed(conditions):
        status = jnp.where(condition, np.int32(result), status)
    return status

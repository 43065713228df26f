"""What a method is: the contract of ``Integrator``, its guarantees, and the solve that implicit methods share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.newton import Newton, no_inverse
from geonh.arguments.signatures import argument_type
from geonh.engine.precise import Precise
from geonh.groups.base import Point
from geonh.groups.retraction import Cayley, Exponential, Retraction
from geonh.integrators.node import Clock, NextStep, Outcome, State, Warm, judge
from geonh.mechanics.system import System


@dataclass(frozen=True, kw_only=True)
class Guarantees:
    """What a method promises; each entry is proved or refuted by the tests, and printed by ``geonh methods``.

    Parameters
    ----------
    order : int
        Order of convergence of (g, ξ) at the nodes.
    reference : str
        Paper and equation.
    symmetric : bool
        Whether the step is its own adjoint, Φ₋ₕ = Φₕ⁻¹.
    implicit : bool
        Whether nonlinear equations are solved in each step, in general.
    constraint : str
        Where μξ = b holds to rounding: "nodes", "step" (in the method's own discrete form), or "none".
    energy : str
        When the energy is kept to rounding: "always" (any metric, potential and linear constraint), "quadrature" (where
        the slopes are polynomials that Gauss' five nodes integrate, elsewhere to O(h¹⁰)), "bi-invariant" (for
        a bi-invariant ℓ: at p⁻ whatever the constraint, at p̃ where the node is a velocity and the constraint linear),
        "projected" (put back by force) or "never".
    momentum : str
        Momentum maps kept to rounding: "horizontal" (those of horizontal symmetries of l_d, constrained or not) or
        "none".
    node : str
        What the method knows at a node: "velocity", (g, ξ) alone, so that it may be composed to higher order;
        "impulse", that and the impulse of the constraint there, a part of which alternates in sign from node to node;
        or "increment", the next step, so that it cannot be composed.
    affine : bool
        Whether affine constraints are taken.
    groups : str
        Configuration spaces: "any", or "vector spaces".
    """

    order: int
    reference: str
    symmetric: bool = False
    implicit: bool = True
    constraint: Literal["nodes", "step", "none"] = "nodes"
    energy: Literal["always", "quadrature", "bi-invariant", "projected", "never"] = "never"
    momentum: Literal["horizontal", "none"] = "none"
    node: Literal["velocity", "impulse", "increment"] = "velocity"
    affine: bool = True
    groups: Literal["any", "vector spaces"] = "any"


@argument_type
class Integrator(Precise):
    """A one-step method on M ⋊ G: the contract.

    To add a method, subclass this (or ``ImplicitIntegrator``, if its step solves equations) and write

    1. ``guarantees``: what it promises; ``tests/integrators/test_guarantees.py`` proves or refutes it.
    2. ``step(system, clock, state)`` → ``Outcome``: the next g and momenta, a pure function in ``jax.numpy`` of a small
       state and of the system's parameters. Nothing is tested there; ``judge`` does that.
    3. ``init(system, clock, g0, xi0)`` → ``Outcome`` at node 0, if that is more than p^± = ∂ℓ/∂ξ(x₀, ξ₀).
    4. ``memory``, if its equations need more than g, p⁺ and p⁻: a NamedTuple declared beside it and named by ``holds``,
       made by ``init``, carried by each ``Outcome``. ``NextStep``, the next ζ, is known to the base: such a method is
       not composed, and run backwards it begins with the step that led to the node. Memory that belongs to its node
       composes only with itself and has no general adjoint; with ``holds_constants`` it passes through both as it is.
    5. ``cold(system, clock, k, g, xi)`` → ``Warm``, if it makes guesses from the steps before: those it begins with.
    6. ``refuse(system)`` and ``refuse_start(...)``: raise ValueError, saying why, where the method does not apply.

    The base makes node 0 and the next nodes (``first_node``, ``next_node``), the adjoint, ``a @ b``, and the residual
    in messages. Registered in ``registry.py`` the method is run on every system of the catalogue by the tests.

    Below, g0 is a point of the group, xi0 of shape=[n], and a method's field ``newton``, if it has one, is a
    ``Newton``.

    Raises
    ------
    TypeError
        When made with a ``newton`` that is no ``Newton``.
    """

    holds: ClassVar[type | None] = None
    """The type of its memory, where it has one."""
    holds_constants: ClassVar[bool] = False
    """Whether that is the same at all nodes of a run, as the energy at the start."""

    def __check_init__(self) -> None:
        newton = getattr(self, "newton", None)
        if newton is not None and not isinstance(newton, Newton):
            raise TypeError(f"newton must be a Newton(tol=…, max_iterations=…), got {newton!r}")

    @property
    @abstractmethod
    def guarantees(self) -> Guarantees:
        """What the method promises."""

    @abstractmethod
    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        """What a step from ``state`` computes."""

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import method_card

        return method_card(self)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        """Node 0 of a consistent start, g0 a point of the group and xi0 of shape=[n]: p^± = ∂ℓ/∂ξ(x₀, ξ₀)."""
        p = system.momentum(system.at(g0, clock.time(0)), xi0)
        return Outcome(g0, p, p)

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Any:
        """The ``Warm`` start of a method that knows no steps before, at node k; ``xi`` of shape=[n]."""
        return Warm()

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        """Largest residual, a scalar, of the equations of the step from ``state``, as far as they can be solved;
        for messages.
        """
        return jnp.zeros(())

    def reversed_memory(self, before: State, state: State) -> Any:
        """The memory at ``state``, reached from ``before``, for going back with −h."""
        return NextStep(-before.memory.zeta) if isinstance(state.memory, NextStep) else state.memory

    def refuse(self, system: System) -> None:
        """Raise ValueError, saying why, if the method does not apply to the system."""

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        """Raise ValueError if the method cannot begin at g0 with xi0, shape=[n], and that step: beyond its
        stability, say.
        """

    @property
    def order(self) -> int:
        """Order of convergence of (g, ξ) at the nodes."""
        return self.guarantees.order

    def first_node(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        """Node 0, judged; g0 a point of the group, xi0 of shape=[n]."""
        made = self.init(system, clock, g0, xi0)
        cold = self.cold(system, clock, jnp.asarray(0), g0, xi0)
        return judge(system, None, made._replace(warm=cold), clock.time(0))

    def next_node(self, system: System, clock: Clock, state: State) -> State:
        """The node after ``state``, judged: its ``status`` tells."""
        return judge(system, state, self.step(system, clock, state), clock.time(state.k + 1), clock.dt)

    def impulse_step(self, clock: Clock) -> Array:
        """The step h, a scalar, of the impulse h(f + μᵀλ) at a node; of a composition, that of its first substep."""
        return clock.dt

    # The algebra of methods, which makes methods of methods: written in composition.py, which completes this class.
    adjoint: ClassVar[Callable[..., Integrator]]
    __matmul__: ClassVar[Callable[..., Integrator]]


class Problem(NamedTuple):
    """What is integrated: the arguments of compiled programs that go over nodes. Its arrays are their parameters.

    Parameters
    ----------
    system : System
        The system.
    method : Integrator or None
        The method; None in programs that take no step.
    clock : Clock or None
        Times and controls; None in programs that ask for neither.
    events : tuple of Event
        What is looked for on the way.
    """

    system: System
    method: Any
    clock: Any
    events: tuple = ()


class Equations(NamedTuple):
    """The equations of a step, r(z) = 0.

    Parameters
    ----------
    residual : callable
        r, from shape=[r] to shape=[r], in the units of z, with a Jacobian near 1 where nothing is stiff: much larger
        residuals cost a Jacobian in every step, with much smaller ones a kept inverse may be outdated unseen.
    guess : array, shape=[r]
        Where Newton's method starts.
    scale : float
        The size of z that counts as zero.
    rounding : float, optional
        What a correction of z may be that shrinks no more.
    """

    residual: Callable[[Array], Array]
    guess: Array
    scale: Array
    rounding: Array | None = None


Weights = tuple[float, ...]
SMOOTH: tuple[Weights, ...] = (
    (-1.0, 6.0, -15.0, 20.0, -15.0, 6.0),
    (-1.0, 8.0, -28.0, 56.0, -70.0, 56.0, -28.0, 8.0),
)
"""Weights of the last solutions, oldest first, in two guesses of the next: exact for a quintic in k, and a septic."""
NOISE = 1e-13
"""Relative to the solution, what the septic may add to the quintic and be left out: more than its rounding, a hundred
times that of the solutions or more, and little enough for one correction."""


def repeated(z: Array, predictors: tuple[Weights, ...] = SMOOTH) -> Array:
    """What ``continued`` begins with, shape=[last of the weights, r], where no solutions are known: z, shape=[r]."""
    return jnp.stack([z] * len(predictors[-1]))


def continued(past: Array, predictors: tuple[Weights, ...] = SMOOTH, size: float | Array = 0.0) -> Array:
    """A guess of the next solution, shape=[r], from the last ones, shape=[number of the last weights, r].

    Later weights are for what earlier ones leave, where that is more than rounding, of which they make more: of the
    solution, or of ``size``, where it is known to no more. If all that is far from the last solution, it is the guess.
    """
    last = past[-1]
    guesses = [sum((w * z for w, z in zip(v, past[-len(v) :], strict=True)), jnp.zeros(())) for v in predictors]
    ahead = guesses[0]
    for better in guesses[1:]:
        change = better - ahead
        ahead = _first_if(change @ change < NOISE**2 * (last @ last + size * size), ahead, better)
    change = ahead - last
    return _first_if(4 * (change @ change) < last @ last, ahead, last)


def _first_if(condition: Array, first: Array, second: Array) -> Array:
    return lax.cond(condition, lambda: first, lambda: second)


def followed_by(past: Array, z: Array) -> Array:
    """The last solutions with one more, shape=[r]."""
    return jnp.concatenate([past[1:], z[None]])


class ImplicitIntegrator(Integrator):
    """A method whose step solves equations: it hands them over, and says what their solution means.

    Write ``equations`` and ``update`` in place of ``step``. ``cold`` gives ``Warm(guess, no_inverse(n))`` with the
    number n of unknowns; the guess is whatever ``equations`` makes its own from: the last solutions, say, by
    ``repeated``, ``continued`` and ``followed_by``.

    Attributes
    ----------
    newton : Newton
        Tolerance and bound of the solves.
    """

    newton: eqx.AbstractVar[Newton]

    @abstractmethod
    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        """The ``Equations`` of the step from ``state``, of any number of unknowns."""

    @abstractmethod
    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        """What their solution z, shape=[r], makes of it; ``warm.inverse`` and ``found`` of the solve are put in
        by the base.
        """

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        z, solved, inverse = self._solution(self.equations(system, clock, state), state)
        made = self.update(system, clock, state, z)
        warm = state.warm if inverse is None else made.warm._replace(inverse=inverse)
        return made._replace(warm=warm, found=solved & made.found)

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        equations = self.equations(system, clock, state)
        return jnp.max(jnp.abs(equations.residual(self._solution(equations, state)[0])))

    def _solution(self, equations: Equations, state: State) -> tuple[Array, Array, Array | None]:
        """Root, whether it was found, and the inverse Jacobian to keep; None where no guess was needed."""
        past, inverse = state.warm.guess, state.warm.inverse
        last = past[-1] if past.ndim == 2 and past.shape[1:] == equations.guess.shape else None
        return self.newton.follow(
            equations.residual, equations.guess, inverse, equations.scale, equations.rounding, near=last
        )


class RetractingIntegrator(Integrator):
    """A method that moves along a retraction: the one asked for, else Cayley where the group has it, else exp.

    Attributes
    ----------
    retraction : Retraction or None
        None for "auto".
    """

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


def refuse(method: Any, system: System) -> None:
    """Raise TypeError if ``method`` is no method or ``system`` no system, ValueError if they do not fit."""
    if not isinstance(system, System):
        raise TypeError(f"system must be a geonh System, got {system!r}")
    require_method(method)
    method.refuse(system)


def require_method(method: Any, name: str = "method") -> None:
    """Raise TypeError if ``method`` is no method."""
    if not isinstance(method, Integrator):
        raise TypeError(f"{name} must be an integrator such as GNI() or methods['gni'].make(), got {method!r}")


__all__ = [
    "Clock",
    "Equations",
    "Guarantees",
    "ImplicitIntegrator",
    "Integrator",
    "NextStep",
    "Outcome",
    "Problem",
    "RetractingIntegrator",
    "State",
    "Warm",
    "no_inverse",
    "refuse",
]

"""The ``Integrator`` interface of methods, their guarantees, and the nonlinear solve of implicit methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.newton import Newton, no_inverse
from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import shortly
from geonh.engine import Precise, computed
from geonh.groups.base import Point
from geonh.groups.retraction import Cayley, Exponential, Retraction
from geonh.integrators.clock import Clock
from geonh.integrators.node import NextStep, Outcome, State, Warm
from geonh.integrators.validity import Result, held_at, judge, unless_risen, unless_stiff
from geonh.mechanics.soundness import Facts, start_fault
from geonh.mechanics.system import System


@dataclass(frozen=True, kw_only=True)
class Guarantees:
    """Guarantees of a method; each entry is verified by the tests, and printed by ``geonh methods``.

    Parameters
    ----------
    order : int
        Order of convergence of (g, ξ) at the nodes.
    reference : str
        Paper and equation.
    symmetric : bool
        True if the step is self-adjoint, Φ₋ₕ = Φₕ⁻¹.
    implicit : bool
        True if nonlinear equations are solved in each step, in general.
    constraint : str
        Points at which μξ = b holds to rounding: "nodes", "step" (in the method's own discrete form), or "none".
    energy : str
        Conservation of energy to rounding: "always" (any metric, potential and linear constraint), "quadrature" (where
        the slopes are polynomials integrated exactly by five Gauss nodes, elsewhere to O(h¹⁰)), "bi-invariant" (for
        a bi-invariant ℓ: at p⁻ whatever the constraint, at p̃ where the node is a velocity and the constraint linear),
        "projected" (by projection) or "never".
    momentum : str
        Momentum maps kept to rounding: "horizontal" (those of horizontal symmetries of l_d, constrained or not) or
        "none".
    node : str
        State at a node: "velocity", (g, ξ) alone, so that the method may be composed to higher order;
        "impulse", that and the impulse of the constraint there, a part of which alternates in sign from node to node;
        or "increment", the next step, so that it cannot be composed.
    embedded : int
        Order of the embedded solution by which the method estimates its error, or 0.
    affine : bool
        True if affine constraints are supported.
    multiplier_forces : bool
        True if forces that depend on the multipliers are supported.
    nonlinear : bool
        True if constraints nonlinear in the velocity are supported.
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
    embedded: int = 0
    affine: bool = True
    multiplier_forces: bool = False
    nonlinear: bool = False
    groups: Literal["any", "vector spaces"] = "any"

    @property
    def steps(self) -> str:
        """Steps that the method takes besides those of one length: "controlled", by its embedded error estimate,
        "reversible", of a symmetric method whose node is a velocity, or "fixed", none.
        """
        if self.embedded:
            return "controlled"
        return "reversible" if self.symmetric and self.node == "velocity" else "fixed"


@argument_type
class Integrator(Precise):
    """One-step method on M ⋊ G: the interface.

    To add a method, subclass this (or ``ImplicitIntegrator``, if its step solves equations) and write

    1. ``guarantees``: its properties; ``tests/integrators/test_guarantees.py`` verifies them.
    2. ``step(system, clock, state)`` → ``Outcome``: the next g and momenta, a pure function in ``jax.numpy`` of a small
       state and of the system's parameters. Nothing is validated there; ``judge`` does that.
    3. ``init(system, clock, g0, xi0)`` → ``Outcome`` at node 0, if that is more than p^± = ∂ℓ/∂ξ(x₀, ξ₀).
    4. ``memory``, if its equations need more than g, p⁺ and p⁻: a NamedTuple declared beside it and named by ``holds``,
       created by ``init``, part of each ``Outcome``. ``NextStep``, the next ζ, is known to the base: such a method is
       not composed, and run backwards it begins with the step that led to the node. Memory that belongs to its node
       composes only with itself and has no general adjoint; with ``holds_constants`` it passes through both unchanged.
    5. ``cold(system, clock, k, g, xi)`` → ``Warm``, if it predicts from previous steps: its initial warm start.
    6. ``refuse(system)`` and ``refuse_start(...)``: raise ValueError, saying why, where the method does not apply;
       ``within_limits(...)``: the condition on dt, for traced values too.

    The base class constructs node 0 and the next nodes (``first_node``, ``next_node``), the adjoint, ``a @ b``, and the
    residual in messages. Registered in ``registry.py`` the method is run on every system of the catalogue by the tests.

    Below, g0 is a point of the group, xi0 of shape=[n], and a method's field ``newton``, if it has one, is a
    ``Newton``.

    Raises
    ------
    TypeError
        If constructed with a ``newton`` that is not a ``Newton``.
    """

    holds: ClassVar[type | None] = None
    """Type of its memory, if it has one."""
    holds_constants: ClassVar[bool] = False
    """True if the memory is the same at all nodes of a run, as the energy at the start."""

    def __check_init__(self) -> None:
        newton = getattr(self, "newton", None)
        if newton is not None and not isinstance(newton, Newton):
            raise TypeError(f"newton must be a Newton(tol=…, max_iterations=…), got {shortly(newton)}")

    @property
    @abstractmethod
    def guarantees(self) -> Guarantees:
        """Guarantees of the method."""

    @abstractmethod
    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        """Compute a step from ``state``."""

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import method_card

        return method_card(self)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        """Node 0 of a consistent start, g0 a point of the group and xi0 of shape=[n]: p^± = ∂ℓ/∂ξ(x₀, ξ₀)."""
        p = system.momentum(system.at(g0, clock.time(0)), xi0)
        return Outcome(g0, p, p)

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Any:
        """Initial ``Warm`` start of a method without previous steps, at node k; ``xi`` of shape=[n]."""
        return Warm()

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        """Largest residual, a scalar, of the equations of the step from ``state``, as far as they can be solved;
        for messages.
        """
        return jnp.zeros(())

    def estimate(self, system: System, clock: Clock, state: State) -> tuple[Outcome, Array]:
        """Compute a step, and its estimated error in the logarithm of g and in ξ, shape=[2n], by an embedded method."""
        raise NotImplementedError(f"{type(self).__name__} has no embedded error estimate")

    def reversed_memory(self, before: State, state: State) -> Any:
        """Memory at ``state``, reached from ``before``, for stepping back with −h."""
        return NextStep(-before.memory.zeta) if isinstance(state.memory, NextStep) else state.memory

    def refuse(self, system: System) -> None:
        """Raise ValueError, saying why, if the method does not apply to the system."""

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        """Raise ValueError if the method cannot start at g0 with xi0, shape=[n], and that step, as outside its
        stability region.
        """

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        """True if the method applies at g0 with xi0, shape=[n], and that step, as within its stability region;
        traceable. Node 0 has the status ``Result.START`` if not, and ``refuse_start`` gives the reason.
        """
        return True

    @property
    def limits_starts(self) -> bool:
        """True if ``refuse_start`` may refuse a start whose node 0 is valid: an ensemble asks it for each member."""
        return False

    @property
    def order(self) -> int:
        """Order of convergence of (g, ξ) at the nodes."""
        return self.guarantees.order

    def first_node(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        """Node 0, validated; g0 a point of the group, xi0 of shape=[n]."""
        system = system.holding(system.at(g0, clock.time(0)))
        outcome = self.init(system, clock, g0, xi0)
        cold = self.cold(system, clock, jnp.asarray(0), g0, xi0)
        node = judge(system, None, outcome._replace(warm=cold), clock.time(0))
        within = self.within_limits(system, clock.dt, g0, xi0)
        if within is True:
            return node
        outside = (node.status == 0) & jnp.logical_not(within)
        return node._replace(status=jnp.where(outside, np.int32(Result.START), node.status))

    def next_node(self, system: System, clock: Clock, state: State) -> State:
        """Node after ``state``, validated: see its ``status``."""
        held, state = held_at(system, state, clock.time(state.k))
        clock = clock.during(state.k)
        after = judge(held, state, self.step(held, clock, state), clock.time(state.k + 1), clock.dt)
        if not self.guarantees.implicit:
            after = unless_stiff(held, state, after, clock.time(state.k), clock.dt, clock.control(state.k))
        return unless_risen(system, after, clock.time(after.k))

    def has_impulses(self, system: System) -> bool:
        """True if the nodes of a system have impulses, half of them of the step before and half of the next."""
        return self.guarantees.node == "impulse"

    def first_length(self, clock: Clock, xi0: Array) -> Array:
        """Length of the first step, a scalar, or a bound of it."""
        return clock.dt

    def impulse_step(self, clock: Clock) -> Array:
        """Step h, a scalar, of the impulse h(f + μᵀλ) at a node; of a composition, that of its first substep."""
        return clock.dt

    # Composition and adjoint of methods: defined in composition.py, which completes this class.
    adjoint: ClassVar[Callable[..., Integrator]]
    __matmul__: ClassVar[Callable[..., Integrator]]


class Problem(NamedTuple):
    """Initial value problem: the arguments of compiled programs that loop over nodes. Its arrays are their parameters.

    Parameters
    ----------
    system : System
        The system.
    method : Integrator or None
        The method; None in programs that take no step.
    clock : Clock or None
        Times and controls; None in programs that use neither.
    events : tuple of Event
        Events to be located.
    """

    system: System
    method: Any
    clock: Any
    events: tuple = ()


class Equations(NamedTuple):
    """Equations of a step, r(z) = 0.

    Parameters
    ----------
    residual : callable
        r, from shape=[r] to shape=[r], in the units of z, with a Jacobian near 1 where nothing is stiff: much larger
        residuals cost a Jacobian in every step, with much smaller ones an outdated inverse may go undetected.
    guess : array, shape=[r]
        Initial guess of Newton's method.
    scale : float
        Absolute scale of z: the size that counts as zero.
    rounding : float, optional
        Rounding level: largest correction of z that may stop decreasing.
    """

    residual: Callable[[Array], Array]
    guess: Array
    scale: Array
    rounding: Array | None = None


class ImplicitIntegrator(Integrator):
    """Method whose step solves equations: it defines them, and the node of their solution.

    Implement ``equations`` and ``update`` in place of ``step``. ``cold`` gives ``Warm(guess, no_inverse(n))`` with the
    number n of unknowns; the guess is the data from which ``equations`` predicts: the last solutions, say, by
    the functions of ``prediction.py``.

    Attributes
    ----------
    newton : Newton
        Tolerance and iteration limit of the solves.
    """

    newton: eqx.AbstractVar[Newton]

    @abstractmethod
    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        """``Equations`` of the step from ``state``, of any number of unknowns."""

    @abstractmethod
    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        """Outcome of their solution z, shape=[r]; ``warm.inverse`` and ``converged`` of the solve are set by
        the base class.
        """

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        z, solved, inverse = self._solution(self.equations(system, clock, state), state)
        outcome = self.update(system, clock, state, z)
        warm = state.warm if inverse is None else outcome.warm._replace(inverse=inverse)
        return outcome._replace(warm=warm, converged=solved & outcome.converged)

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        system, state = held_at(system, state, clock.time(state.k))
        equations = self.equations(system, clock.during(state.k), state)
        return jnp.max(jnp.abs(equations.residual(self._solution(equations, state)[0])))

    def _solution(self, equations: Equations, state: State) -> tuple[Array, Array, Array | None]:
        """Root, convergence, and the inverse Jacobian to keep; None where no guess was needed."""
        past, inverse = state.warm.guess, state.warm.inverse
        last = past[-1] if past.ndim == 2 and past.shape[1:] == equations.guess.shape else None
        return self.newton.follow(
            equations.residual, equations.guess, inverse, equations.scale, equations.rounding, near=last
        )


_CAYLEY, _EXPONENTIAL = Cayley(), Exponential()


class RetractingIntegrator(Integrator):
    """Method based on a retraction: the one given, else Cayley where the group has it, else exp.

    Attributes
    ----------
    retraction : Retraction or None
        None for "auto".
    """

    retraction: eqx.AbstractVar[Retraction | None]

    def tau(self, system: System) -> Retraction:
        """Retraction used on a system.

        Raises
        ------
        ValueError
            If Cayley is requested and the group has none.
        """
        return _retraction(self.retraction, system)

    def refuse(self, system: System) -> None:
        _retraction(self.retraction, system)


def _retraction(given: Retraction | None, system: System) -> Retraction:
    """Retraction of a method on a system; None for "auto"."""
    group = system.group
    if isinstance(given, Cayley) and not group.has_cayley:
        raise ValueError(f"{group} has no Cayley map; use retraction='exp'")
    return given or (_CAYLEY if group.has_cayley else _EXPONENTIAL)


def refuse(method: Any, system: System) -> None:
    """Raise TypeError if ``method`` is not a method or ``system`` not a system, ValueError if they are incompatible."""
    if not isinstance(system, System):
        raise TypeError(f"system must be a geonh System, got {shortly(system)}")
    require_method(method)
    if system.multiplier_forces is not None and not method.guarantees.multiplier_forces:
        raise ValueError(
            f"{type(method).__name__} gives the constraints an impulse, and does not know their multipliers: the "
            f"multiplier_forces of {system.name} are for Gauss, Lobatto, RKMK, CommutatorFree or RungeKutta"
        )
    if system.multiplier_forces is not None and (fault := system.multiplier_forces.fault(system.parameters)):
        raise ValueError(f"{system.name}: {fault}")
    if system.is_nonlinear and not method.guarantees.nonlinear:
        raise ValueError(
            f"{type(method).__name__} is defined for linear or affine constraints; those of {system.name} are "
            "nonlinear in the velocity: use Gauss, Lobatto, RKMK, CommutatorFree or RungeKutta"
        )
    method.refuse(system)


def refuse_start(problem: Problem, g: Point, xi: Array, facts: Facts) -> None:
    """Raise ValueError if (g, ξ) is no start of the problem: inconsistent by its facts, or refused by the method."""
    system, method, clock = problem.system, problem.method, problem.clock
    fault = start_fault(system, float(clock.t0), g, np.asarray(xi), float(clock.dt), facts)
    if fault:
        raise ValueError(fault)
    if system.multiplier_forces is not None and system.multiplier_forces.is_held:
        speeds, bent = computed(_slip_speeds, system, (clock.t0, g, np.asarray(xi)))
        if np.any(bent > 1e-9 * (1 + speeds)):
            raise ValueError(f"the slip of a friction of {system.name} must be affine in ξ")
        if not np.all(speeds > 0):
            raise ValueError(
                f"{system.name} begins without a slip, so that its friction has no direction: begin with a slip, or, "
                "of a system with modes, in one in which this holds"
            )
    with float64(), jax.ensure_compile_time_eval():
        method.refuse_start(system, float(clock.dt), g, xi)


def _slip_speeds(system: System, start: tuple) -> tuple[Array, Array]:
    """Slip speed of each friction at a start, m/s, and by how much it is not affine in ξ."""
    t, g, xi = start
    forces = system.multiplier_forces
    assert forces is not None
    x, apart = system.action.at(g), jnp.cos(jnp.arange(1.0, 1.0 + len(xi)))

    def bent(one: Any) -> Array:
        def at(xi: Array) -> Array:
            return one.velocity(t, x, xi, system.parameters)

        return jnp.max(jnp.abs(at(xi + apart) + at(0 * xi) - at(xi) - at(apart)))

    parts = forces.function.parts
    return jnp.stack([one.speed(t, x, xi, system.parameters) for one in parts]), jnp.stack([bent(p) for p in parts])


def require_method(method: Any, name: str = "method") -> None:
    """Raise TypeError if ``method`` is not a method."""
    if not isinstance(method, Integrator):
        raise TypeError(f"{name} must be an integrator such as GNI() or methods['gni'].make(), got {shortly(method)}")


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
    "refuse_start",
]

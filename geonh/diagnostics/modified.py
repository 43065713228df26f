r"""Modified equations: the vector field that the steps of a method integrate, and the drift that follows from it.

The steps y ↦ Φ_h(y) of a method on the constraint are, up to exponentially small terms, the flow at time h of a
modified field f̃ = f + h^p f_p + … It is computed without expansions, as the derivative at 0 of the polynomial through
iterates of the map (mathematics.md §9),

    f̃(y) = (1/h) Σ_k w_k Φ_h^k(y) + O(h^{2N}),   k = −N … N,   w_k = (−1)^{k+1} (N!)²/(k (N−k)! (N+k)!),   w_0 = 0,

in the logarithm of g, and in ξ. Iterates backwards are those of the adjoint method with −h, Φ_h⁻¹ = Φ*_{−h}; for
methods without one, k = 0 … 2N. The same weights give the rate of any function along f̃ from its values at the
iterates: dE·f̃ for the energy. In f̃ − f only the method's error is left, so ∫dE·f̃ along the motion is the change of
the energy that the method will cause, to leading order.

Where a part of the node's momentum alternates in sign (GNI, RATTLE), Φ_h is not near the identity, but Φ_h² is: f̃ is
then that of the two-step map. The derivative of that map by the alternating part tells how fast it grows.

Sources: Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), ch. IX; Modin, Verdier, Numer. Math. 145
(2020), on reversible orbits, along which dE·f̃ integrates to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.signatures import validated
from geonh.diagnostics.structure import time_reversed
from geonh.engine import batch_of_one, mapped
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem, refuse
from geonh.integrators.clock import Clock
from geonh.integrators.node import NextStep, Pace, State
from geonh.integrators.registry import as_method
from geonh.integrators.validity import Result
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.system import System
from geonh.results.nodes import Node
from geonh.results.observables import observe
from geonh.runs.controls import refuse_random
from geonh.runs.start import InitialData, as_start, known_sound

ITERATES = 8
"""Largest N: iterates on either side of a state."""
LARGEST_TURN = 3.0
"""Angle, rad, by which a body may turn up to the last iterate: the logarithm ends at π."""


@dataclass(frozen=True)
class ModifiedField:
    """Modified field of a method at a state; returned by ``modified_field``.

    Attributes
    ----------
    velocity, acceleration : ndarray, shape=[n]
        g⁻¹ġ and ξ̇ of f̃, in the units of ξ and per second.
    exact_velocity, exact_acceleration : ndarray, shape=[n]
        Those of the continuous equations: ξ and ξ̇.
    rates : mapping of str to ndarray, shape=[…]
        Rates along f̃, per second: ``energy``, ``energy_minus`` (at p⁻), and each first integral.
    iterates : int
        The N used, for which the estimated error is smallest.
    error : float
        Estimated error of velocity and acceleration, by the difference to a smaller N.
    """

    velocity: np.ndarray
    acceleration: np.ndarray
    exact_velocity: np.ndarray
    exact_acceleration: np.ndarray
    rates: Mapping[str, np.ndarray]
    iterates: int
    error: float

    @property
    def defect(self) -> float:
        """Largest entry of f̃ − f."""
        return float(
            max(
                np.abs(self.velocity - self.exact_velocity).max(),
                np.abs(self.acceleration - self.exact_acceleration).max(),
            )
        )

    def __str__(self) -> str:
        rates = ", ".join(f"{name} {np.abs(rate).max():.2e}" for name, rate in self.rates.items())
        return f"modified field, f̃ − f {self.defect:.2e} ± {self.error:.0e}; rates per second: {rates}"


@validated
def modified_field(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float,
    t0: float = 0.0,
    controls: Any = None,
) -> ModifiedField:
    """Vector field that the steps of a method integrate, at a state, to rounding (mathematics.md §9).

    Parameters
    ----------
    system : System
    method : Integrator or str, optional
        The method, or its name in ``methods``; the default of ``solve`` when left out.
    xi0 : array_like, shape=[n]
        Velocity, on the constraints at g0.
    g0 : point of the group, optional
        Configuration; the identity when left out.
    dt : float
        Step, s.
    t0 : float
        Time, s.
    controls : callable, optional
        u(t) in ``jax.numpy``.

    Returns
    -------
    ModifiedField

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, a shape does not fit, the state is off the constraints, or the method does
        not suit the system; for steps of variable length; where a step from the state fails, or turns a body too far.

    References
    ----------
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       ch. IX.
    """
    refuse_random(controls)
    method = with_fixed_steps(as_method(method, controls))
    problem, states = at_one_state(system, method, as_start(system, method, xi0, g0, dt, t0, 1, controls))
    fields = modified_fields(problem, states)
    exact = mapped(motion_rates, problem, states)[0][0]
    n = system.group.dim
    return ModifiedField(
        fields.values[0, :n],
        fields.values[0, n:],
        states.xi[0],
        np.asarray(exact),
        {name: rate[0] for name, rate in fields.rates.items()},
        int(fields.iterates[0]),
        float(fields.error[0]),
    )


class Start(NamedTuple):
    """State (g, ξ) at time t; or many, along the first axis of all arrays."""

    t: Any
    g: Point
    xi: Any


class _Map(NamedTuple):
    """Map whose iterates are taken: some steps of a method; and the inverse of the method, if it has one."""

    problem: Problem
    inverse: Integrator | None
    steps: int

    @property
    def k(self) -> np.ndarray:
        """Numbers of the iterates, shape=[K]."""
        return np.arange(2 * ITERATES + 1) if self.inverse is None else np.arange(-ITERATES, ITERATES + 1)


class _Iterate(NamedTuple):
    """Iterate of a map, with its start g₀ and the iterate before it on the way from there; or many.

    ``velocity`` is ζ/h of a method that holds the next increment ζ, of shape=[n]; of others ξ̃ of the node serves.
    """

    origin: Point
    before: Point
    node: Node
    velocity: Any
    status: Any


class ModifiedFields(NamedTuple):
    """Modified fields at S states: (g⁻¹ġ, ξ̇) of shape=[S, 2n], rates, N and estimated errors, shape=[S]."""

    values: np.ndarray
    rates: dict[str, np.ndarray]
    iterates: np.ndarray
    error: np.ndarray


def with_fixed_steps(method: Integrator) -> Integrator:
    """The method; ValueError if its steps differ in length."""
    if method.holds is Pace:
        raise ValueError(f"{type(method).__name__} has steps of variable length: pass the method that makes them")
    return method


def at_one_state(system: System, method: Integrator, start: InitialData) -> tuple[Problem, Start]:
    """Problem of a validated start, and its state as the only one of many."""
    state = Start(start.clock.t0, start.g, start.xi)
    problem = Problem(known_sound(system, method, start), method, start.clock)
    return problem, batch_of_one(state)


def _inverse(problem: Problem) -> Integrator | None:
    """Adjoint of a method, or None for methods that have none for the system, or no steps backwards."""
    method = problem.method
    if method.holds is NextStep or method.guarantees.energy == "projected" or method.limits_starts:
        return None
    try:
        adjoint = method.adjoint()
        refuse(adjoint, problem.system)
    except ValueError:
        return None
    return adjoint


def modified_fields(problem: Problem, starts: Start) -> ModifiedFields:
    """Modified fields at many states; raises ValueError where too few steps succeed."""
    map_ = _Map(problem, _inverse(problem), 2 if problem.method.guarantees.node == "impulse" else 1)
    iterates = mapped(_iterates, map_, starts)
    shape = iterates.status.shape
    flat = jax.tree.map(lambda a: a.reshape(shape[0] * shape[1], *a.shape[2:]), iterates)
    eta, turn, observed = jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), mapped(_observed, problem, flat))
    usable, increments = _usable(map_.k, turn, iterates.status), iterates.velocity.shape[-1] > 0
    step = map_.steps * float(problem.clock.dt)
    weights = np.stack([_weights(map_.k, N) for N in range(1, ITERATES + 1)]) / step
    states = np.append(eta, iterates.velocity if increments else observed["xi"], axis=-1)
    several = np.einsum("Nk,skj->Nsj", weights, np.where(usable[..., None], states, 0.0))
    several[np.einsum("Nk,sk->Ns", weights != 0, ~usable) > 0] = np.nan
    change = np.abs(np.diff(several, axis=0)).max(axis=-1)
    short = np.all(np.isnan(change), axis=0)
    if np.any(short):
        status = int(iterates.status[short].max())
        why = Result(status).message if status else "a body turns too far from one iterate to the next"
        raise ValueError(f"dt = {float(problem.clock.dt):g} is too long for a modified field there: {why}")
    best = np.nanargmin(change, axis=0)
    if increments:  # the momenta of node 0 are those of the start, not of a step
        weights = np.stack([_weights(map_.k, N, first=1) for N in range(1, ITERATES + 1)]) / step
    rates = {
        name.removeprefix("integral:"): np.einsum("sk,sk...->s...", weights[best + 1], values)
        for name, values in observed.items()
        if name.startswith(("energy", "integral:"))
    }
    rows = np.arange(len(best))
    return ModifiedFields(several[best + 1, rows], rates, best + 2, change[best, rows])


def _usable(k: np.ndarray, turn: np.ndarray, status: np.ndarray) -> np.ndarray:
    """True for iterates that successful steps reach, by a turn that the logarithm determines; shape=[S, K]."""
    usable = np.ones(status.shape, bool)
    for side in (np.flatnonzero(k >= 0), np.flatnonzero(k <= 0)[::-1]):
        failed = np.maximum.accumulate(status[:, side], axis=1) > 0
        usable[:, side] &= ~failed & (np.cumsum(turn[:, side], axis=1) < LARGEST_TURN)
    return usable


def _weights(k: np.ndarray, N: int, first: int = 0) -> np.ndarray:
    """Weights at the iterates k, shape=[K], of the derivative at 0 of the polynomial through 2N + 1 of them: the
    nearest, from ``first`` on where none precedes 0.
    """
    chosen = k[(k >= first) & (k <= first + 2 * N)] if k[0] == 0 else k[np.abs(k) <= N]
    weights = np.zeros(len(k))
    for j in chosen:
        others = chosen[chosen != j]
        factors = -others / (j - others)
        weights[k == j] = sum(np.prod(np.delete(factors, i)) / (j - others[i]) for i in range(len(others)))
    return weights


def _iterates(of: _Map, start: Start) -> _Iterate:
    """Iterates of a map from a state, with k ascending along the first axis."""
    system, method, clock = of.problem.system, of.problem.method, of.problem.clock.starting(start.t)
    first = method.first_node(system, clock, start.g, start.xi)
    ahead = _march(Problem(system, method, clock), first, of.steps, int(of.k[-1]))
    here = _iterate(clock, first, first)
    iterates = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), here, ahead)
    if of.inverse is None:
        return iterates
    back = clock._replace(dt=-clock.dt)
    turned = time_reversed(system, of.inverse, back, first, first)
    behind = _march(Problem(system, of.inverse, back), turned, of.steps, ITERATES)
    node = behind.node
    behind = behind._replace(node=node._replace(k=-node.k, p_plus=node.p_minus, p_minus=node.p_plus))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[::-1], b]), behind, iterates)


def _march(problem: Problem, first: State, steps: int, count: int) -> _Iterate:
    """Nodes after each ``steps`` steps, ``count`` times, along the first axis."""

    def one(state: State, _: None) -> tuple[State, _Iterate]:
        after = advanced(problem, state, steps)
        return after, _iterate(problem.clock, after, state)._replace(origin=first.g)

    return lax.scan(one, first, None, length=count)[1]


def advanced(problem: Problem, state: State, steps: int) -> State:
    """Node some steps later, by one program of a step."""
    return lax.fori_loop(0, steps, lambda _, node: problem.method.next_node(problem.system, problem.clock, node), state)


def _iterate(clock: Clock, state: State, before: State) -> _Iterate:
    velocity = state.memory.zeta / clock.dt if isinstance(state.memory, NextStep) else jnp.zeros(0)
    return _Iterate(before.g, before.g, Node.of(state), velocity, jnp.asarray(state.status))


def _observed(problem: Problem, iterate: _Iterate) -> tuple[Array, Array, dict[str, Array]]:
    """Logarithm of g₀⁻¹g, shape=[n], the turn from the iterate before, and the observables."""
    group, g = problem.system.group, iterate.node.g
    eta = group.log(group.compose(group.inverse(iterate.origin), g))
    turn = group.turn(group.log(group.compose(group.inverse(iterate.before), g)))
    return eta, turn, observe(problem, iterate.node)


def motion_rates(problem: Problem, start: Start) -> tuple[Array, dict[str, Array]]:
    """Acceleration of the continuous equations, shape=[n], and the rates of energy and first integrals by them."""
    system, group, u = problem.system, problem.system.group, problem.clock.between(start.t)
    acceleration = accelerations_at(system, start.t, system.at(start.g, start.t), start.xi, u)[0]

    def quantities(s: Array) -> dict[str, Array]:
        g, xi = group.compose(start.g, group.exp(s * start.xi)), start.xi + s * acceleration
        x = system.at(g, start.t + s)
        p = system.momentum(x, xi)
        energy = system.energy(x, p)
        integrals = {
            name: jnp.asarray(integral.function(g, xi, p, system.parameters))
            for name, integral in system.first_integrals.items()
        }
        return {"energy": energy, "energy_minus": energy, **integrals}

    return acceleration, jax.jvp(quantities, (jnp.zeros(()),), (jnp.ones(()),))[1]

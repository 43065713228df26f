r"""Geometric properties of one step of a method: symplecticity, reversibility, adjointness, volume.

Left-trivialised, T*G = G × g* carries the canonical form

    ω_p((η₁, π₁), (η₂, π₂)) = ⟨π₂, η₁⟩ − ⟨π₁, η₂⟩ + ⟨p, [η₁, η₂]⟩,

which is also the discrete Poincaré–Cartan form of l_d pulled back by either of F± (Marsden, West 2001, §1.3.2, 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import pivots, solve_spd
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64
from geonh.engine import computed, in_float64
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.registry import as_method
from geonh.mechanics.quasi_velocities import normals, restored
from geonh.mechanics.system import System
from geonh.runs.start import as_start, known_sound

LEAST_STEP = 1e-10
"""Size of a step, relative to 1 s or the time in which ξ becomes 1, below which differences of it are rounding."""


@validated
@in_float64
def symplecticity_defect(system: System, method: Integrator | str, *, xi0: Any, g0: Any = None, dt: float) -> Array:
    """Largest entry of (DΦ)ᵀω(DΦ) − ω for a step of a system on T*G, scalar; on T*{φ = 0} with holonomic constraints.

    Parameters
    ----------
    system : System
    method : Integrator or str
        The method; a name is one of ``methods``.
    xi0 : array_like, shape=[n]
        Velocity at the start, on the constraints.
    g0 : point of the group, optional
        The start; the identity when left out.
    dt : float
        Step, s.

    Returns
    -------
    float
        Zero, to rounding, of a symplectic method.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if the system has nonholonomic constraints: no such form exists then.
    """
    if system.distribution is not None:
        raise ValueError(f"{system.name} has constraints: its phase space carries no invariant symplectic form")
    return _run(_symplecticity, system, method, dt, g0, xi0)


@in_float64
def canonical_form(system: System, p: Any) -> Array:
    """Matrix of ω_p on g × g*, shape=[2n, 2n]."""
    n = system.group.dim
    twist = jnp.einsum("k,kij->ij", jnp.asarray(p), jnp.asarray(system.group.structure_constants))
    one = jnp.eye(n)
    return jnp.block([[twist, one], [-one, jnp.zeros((n, n))]])


@validated
@in_float64
def adjoint_defect(
    system: System, method: Integrator | str, other: Integrator | str, *, xi0: Any, g0: Any = None, dt: float
) -> Array:
    """Distance to the start after two steps of ``method`` and two of ``other`` with −h: zero if they are adjoint.

    Where the momentum jumps at the nodes, the reverse steps start with the incoming momentum. Two, because a method
    that stores the next increment makes its first reverse step with the last one stored.

    Parameters
    ----------
    system : System
    method : Integrator or str
        The method; a name is one of ``methods``.
    other : Integrator or str
        Candidate for its adjoint.
    xi0 : array_like, shape=[n]
        Velocity at the start, on the constraints.
    g0 : point of the group, optional
        The start; the identity when left out.
    dt : float
        Step, s.

    Returns
    -------
    float
        The largest difference of an entry of g, or of the momentum.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the start is off the constraints, a shape does not fit, or the method does not suit the system.
    """
    return _run(_after_reversal, system, (method, other), dt, g0, xi0)


@validated
@in_float64
def reversibility_defect(
    system: System, method: Integrator | str, *, xi0: Any, g0: Any = None, dt: float, n_steps: int = 10
) -> Array:
    """Distance to the start after ``n_steps`` steps, reversal of the velocities, and as many steps again, scalar.

    For ℓ even in ξ and without drift the flow is reversible under p ↦ −p; a symmetric method that commutes with it
    retraces its steps.

    Parameters
    ----------
    system : System
    method : Integrator or str
        The method; a name is one of ``methods``.
    xi0 : array_like, shape=[n]
        Velocity at the start, on the constraints.
    g0 : point of the group, optional
        The start; the identity when left out.
    dt : float
        Step, s.
    n_steps : int
        Number of steps in each direction.

    Returns
    -------
    float
        The largest difference of an entry of g, or of the momentum.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the start is off the constraints, a shape does not fit, or the method does not suit the system.
    """
    return _run(_retrace, system, method, dt, g0, xi0, as_count(n_steps, "n_steps"))


@validated
@in_float64
def contraction_rate(system: System, method: Integrator | str, *, xi0: Any, g0: Any = None, dt: float) -> Array:
    """(1/h) log|det DΦ_h| of (g, ξ) ↦ (g', ξ') on the constraint, in the kinetic volume of g and ξ, 1/s.

    Coordinates are exponential for g, with the weight √det M, and M-orthonormal for ξ in D. It tends to the divergence
    of the vector field as dt → 0; zero where a volume is kept, negative where the phase space contracts, as for the
    Chaplygin sleigh.

    Parameters
    ----------
    system : System
    method : Integrator or str
        The method; a name is one of ``methods``.
    xi0 : array_like, shape=[n]
        Velocity at the start, on the constraints.
    g0 : point of the group, optional
        The start; the identity when left out.
    dt : float
        Step, s.

    Returns
    -------
    float
        1/s.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if the system has holonomic constraints: g has fewer coordinates then; if dt
        is so small that rounding errors would be the result.
    """
    if system.holonomic is not None:
        raise ValueError(f"{system.name} has holonomic constraints: contraction_rate is for systems without")
    step = abs(float(as_constant(dt, "dt"))) * max(1.0, np.abs(as_float64(xi0, "xi0")).max(initial=0.0))
    if not step >= LEAST_STEP:
        raise ValueError(f"dt = {dt:g} is too small: rounding errors divided by it would be the result")
    return _run(_contraction, system, method, dt, g0, xi0)


def _run(function: Callable, system: System, methods: Any, dt: float, g0: Any, xi0: Any, *rest: Any) -> Array:
    """Compile and call ``function(system, methods, clock, g, xi, *rest)`` on validated input."""
    together = isinstance(methods, tuple)
    methods = tuple(map(as_method, methods)) if together else as_method(methods)
    if together and not methods:
        raise ValueError("methods must be one method or several, got none")
    for method in methods if together else (methods,):
        start = as_start(system, method, xi0, g0, dt, 0.0, 1, None)
        system = known_sound(system, method, start)
    return computed(_node_values, (function, system, methods, start.clock), (start.g, start.xi, *rest))


def _node_values(tree: tuple, node: tuple) -> Array:
    function, *fixed = tree
    return function(*fixed, *node)


def _symplecticity(system: System, method: Integrator, clock: Clock, g: Point, xi: Array) -> Array:
    group, n = system.group, system.group.dim
    state = method.first_node(system, clock, g, xi)
    after = method.next_node(system, clock, state)

    def flow(z: Array) -> Array:
        moved = state._replace(
            g=group.compose(state.g, group.exp(z[:n])), p_plus=state.p_plus + z[n:], p_minus=state.p_minus + z[n:]
        )
        new = method.next_node(system, clock, moved)
        return jnp.concatenate([group.log(group.compose(group.inverse(after.g), new.g)), new.p_minus])

    slope, tangent = jax.jacfwd(flow)(jnp.zeros(2 * n)), jnp.eye(2 * n)
    if system.holonomic is not None:
        tangent = _tangent(system, clock.time(0), state.g, state.p_minus)
        slope = slope @ tangent
    before_form, after_form = canonical_form(system, state.p_minus), canonical_form(system, after.p_minus)
    return jnp.max(jnp.abs(slope.T @ after_form @ slope - tangent.T @ before_form @ tangent))


def _tangent(system: System, t: Array, g: Point, p: Array) -> Array:
    """Projector, shape=[2n, 2n], onto the (η, π) that preserve φ = 0 and GM⁻¹(p − π₀) = 0."""
    group, n = system.group, system.group.dim

    def off(z: Array) -> Array:
        x = system.at(group.compose(g, group.exp(z[:n])), t)
        return jnp.concatenate(
            [system.holonomic_residual(x), system.constraint_residual(x, system.velocity(x, p + z[n:]))]
        )

    rows = jax.jacfwd(off)(jnp.zeros(2 * n))
    return jnp.eye(2 * n) - rows.T @ solve_spd(rows @ rows.T, rows)


def _last_two(
    system: System, method: Integrator, clock: Clock, state: State, n_steps: Array | int
) -> tuple[State, State]:
    """Last two nodes of a run."""

    def advance(_: Array, pair: tuple[State, State]) -> tuple[State, State]:
        return pair[1], method.next_node(system, clock, pair[1])

    return jax.lax.fori_loop(0, n_steps, advance, (state, state))


def time_reversed(system: System, method: Integrator, clock: Clock, before: State, state: State) -> State:
    """Time reversal of the node ``state``, reached from ``before``, with the clock hidden from the system."""
    turned = state.reversed(method.reversed_memory(before, state))._replace(k=jnp.zeros_like(state.k))
    xi = system.velocity(system.at(state.g, clock.time(0)), (state.p_plus + state.p_minus) / 2)
    return turned._replace(warm=method.cold(system, clock, turned.k, state.g, xi))


def _after_reversal(system: System, methods: tuple, clock: Clock, g: Point, xi: Array) -> Array:
    method, other = methods
    start = method.first_node(system, clock, g, xi)
    there = _last_two(system, method, clock, start, 2)
    back = Clock(clock.t0 + 2 * clock.dt, -clock.dt)
    again = _last_two(system, other, back, time_reversed(system, other, back, *there), 2)[1]
    return _gap(system, again.g, start.g, again.p_plus - start.p_minus)


def _retrace(system: System, method: Integrator, clock: Clock, g: Point, xi: Array, n_steps: Array) -> Array:
    start = method.first_node(system, clock, g, xi)
    turned = time_reversed(system, method, clock, *_last_two(system, method, clock, start, n_steps))
    _, end = _last_two(system, method, clock, turned._replace(p_plus=-turned.p_plus, p_minus=-turned.p_minus), n_steps)
    return _gap(system, end.g, start.g, end.p_plus + start.p_minus)


def _contraction(system: System, method: Integrator, clock: Clock, g: Point, xi: Array) -> Array:
    """Contraction rate, from a determinant on all of (η, w), shape=[2n]: w across D at x maps to w across D at x'.

    That extension is an isometry and does not change anything else, so that no basis of D is needed.
    """
    group, n = system.group, system.group.dim
    x, after = system.at(g, clock.time(0)), method.next_node(system, clock, method.first_node(system, clock, g, xi))
    x_after = system.at(after.g, clock.time(1))
    (N, lifts, _), (_, lifts_after, _) = (system.split_forms(at)[1] for at in (x, x_after))
    rows = normals(system, x)

    def flow(z: Array) -> Array:
        across = N @ z[n:]
        moved = group.compose(g, group.exp(z[:n]))
        velocity = restored(system, system.at(moved, clock.time(0)), xi + z[n:] - across @ lifts, rows)
        new = method.next_node(system, clock, method.first_node(system, clock, moved, velocity))
        new_xi = system.velocity(system.at(new.g, clock.time(1)), (new.p_plus + new.p_minus) / 2)
        return jnp.concatenate([group.log(group.compose(group.inverse(after.g), new.g)), new_xi + across @ lifts_after])

    weights = [jnp.sum(jnp.log(pivots(system.mass_matrix(at)))) for at in (x, x_after)]
    grown = jnp.linalg.slogdet(jax.jacfwd(flow)(jnp.zeros(2 * n)))[1]
    return (grown + weights[1] - weights[0]) / clock.dt


def _gap(system: System, g: Point, h: Point, momentum: Array) -> Array:
    apart = system.group.to_vector(g) - system.group.to_vector(h)
    return jnp.maximum(jnp.max(jnp.abs(apart)), jnp.max(jnp.abs(momentum)))

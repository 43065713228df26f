r"""What one step of a method keeps: the symplectic form, time reversal, adjointness, volume.

Left-trivialised, T*G = G × g* carries the canonical form

    ω_p((η₁, π₁), (η₂, π₂)) = ⟨π₂, η₁⟩ − ⟨π₁, η₂⟩ + ⟨p, [η₁, η₂]⟩,

which is also the discrete Poincaré–Cartan form of l_d pulled back by either of F± (Marsden, West 2001, §1.3.2, 3.2).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Integrator, State
from geonh.mechanics.quasi_velocities import completing_forms, velocity
from geonh.mechanics.system import System
from geonh.numerics.precision import as_float64, in_float64


@in_float64
def symplecticity_defect(system: System, method: Integrator, *, xi0: Any, g0: Any = None, dt: float) -> Array:
    """Largest entry of (DΦ)ᵀω(DΦ) − ω for a step of an unconstrained system on T*G, scalar.

    Raises
    ------
    ValueError
        If the system has constraints: there is no such form then.
    """
    if system.distribution is not None:
        raise ValueError(f"{system.name} has constraints: its phase space carries no invariant symplectic form")
    state, clock = _start(system, method, xi0, g0, dt)
    group, n = system.group, system.group.dim
    after = method.step(system, clock, state)

    def flow(z: Array) -> Array:
        moved = state._replace(
            g=group.compose(state.g, group.exp(z[:n])), p_plus=state.p_plus + z[n:], p_minus=state.p_minus + z[n:]
        )
        new = method.step(system, clock, moved)
        here = group.log(group.compose(group.inverse(after.g), new.g))
        return jnp.concatenate([here, new.p_minus])

    slope = jax.jacfwd(flow)(jnp.zeros(2 * n))
    before_form, after_form = canonical_form(system, state.p_minus), canonical_form(system, after.p_minus)
    return jnp.max(jnp.abs(slope.T @ after_form @ slope - before_form))


@in_float64
def canonical_form(system: System, p: Any) -> Array:
    """Matrix of ω_p on g × g*, shape=[2n, 2n]."""
    n = system.group.dim
    twist = jnp.einsum("k,kij->ij", jnp.asarray(p), jnp.asarray(system.group.structure_constants))
    one = jnp.eye(n)
    return jnp.block([[twist, one], [-one, jnp.zeros((n, n))]])


@in_float64
def adjoint_defect(
    system: System, method: Integrator, other: Integrator, *, xi0: Any, g0: Any = None, dt: float
) -> Array:
    """How far Φ_{−h} of ``other`` after Φ_h of ``method`` is from the identity: zero if they are adjoint; scalar."""
    state, clock = _start(system, method, xi0, g0, dt)
    there = method.step(system, clock, state)
    back = clock._replace(t0=clock.t0 + clock.dt, dt=-clock.dt)
    reversed_state = there._replace(k=jnp.asarray(0), increment=_reversed(method, there.increment))
    again = other.step(system, back, reversed_state)
    gap = system.group.to_vector(again.g) - system.group.to_vector(state.g)
    return jnp.maximum(jnp.max(jnp.abs(gap)), jnp.max(jnp.abs(again.p_minus - state.p_minus)))


@in_float64
def reversibility_defect(
    system: System, method: Integrator, *, xi0: Any, g0: Any = None, dt: float, n_steps: int = 10
) -> Array:
    """How far a run, its velocities reversed, and the same run again end from the start, scalar.

    For ℓ even in ξ and without drift the flow is reversible under p ↦ −p; a symmetric method that commutes with it
    retraces its steps.
    """
    state, clock = _start(system, method, xi0, g0, dt)
    first = state
    for leg in range(2):
        for _ in range(n_steps):
            state = method.recentre(system, method.step(system, clock, state))
        if leg == 0:
            state = state._replace(
                p_plus=-state.p_minus, p_minus=-state.p_plus, increment=_reversed(method, state.increment)
            )
    gap = system.group.to_vector(state.g) - system.group.to_vector(first.g)
    momentum = (state.p_plus + state.p_minus + first.p_plus + first.p_minus) / 2
    return jnp.maximum(jnp.max(jnp.abs(gap)), jnp.max(jnp.abs(momentum)))


@in_float64
def contraction_rate(system: System, method: Integrator, *, xi0: Any, g0: Any = None, dt: float) -> Array:
    """(1/h) log|det DΦ_h| of (g, ξ) ↦ (g', ξ') on the constraint, in the kinetic volume, 1/s.

    Coordinates are exponential for g and M-orthonormal for ξ in D. It tends to the divergence of the vector field as
    dt → 0; zero where a volume is kept, negative where the phase space contracts, as for the Chaplygin sleigh.
    """
    state, clock = _start(system, method, xi0, g0, dt)
    group, n = system.group, system.group.dim
    xi = jnp.asarray(xi0, float)
    x = system.action.at(state.g)
    after = method.step(system, clock, state)
    R, R_after = completing_forms(system, x), completing_forms(system, system.action.at(after.g))

    def flow(z: Array) -> Array:
        g = group.compose(state.g, group.exp(z[:n]))
        start = method.init(system, clock, g, velocity(system, system.action.at(g), R @ xi + z[n:], R))
        new = method.step(system, clock, start)
        new_xi = system.velocity(system.action.at(new.g), (new.p_plus + new.p_minus) / 2)
        here = group.log(group.compose(group.inverse(after.g), new.g))
        return jnp.concatenate([here, R_after @ new_xi])

    return jnp.linalg.slogdet(jax.jacfwd(flow)(jnp.zeros(n + R.shape[0])))[1] / dt


def _start(system: System, method: Integrator, xi0: Any, g0: Any, dt: float) -> tuple[State, Clock]:
    method.refuse(system)
    clock = Clock(np.float64(0.0), np.float64(as_float64(dt, "dt", ())))
    g: Point = jax.tree.map(jnp.asarray, system.point(g0))
    return method.init(system, clock, g, jnp.asarray(as_float64(xi0, "xi0", (system.group.dim,)))), clock


def _reversed(method: Integrator, increment: Array) -> Array:
    """The guess of the next step when time turns."""
    return increment if method.looks_ahead else -increment

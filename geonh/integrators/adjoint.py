r"""Adjoints Φ*_h = Φ_{−h}⁻¹ of one-step methods."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from geonh.algebra.newton import Newton
from geonh.groups.base import Point
from geonh.integrators.base import (
    Clock,
    Equations,
    Guarantees,
    ImplicitIntegrator,
    Integrator,
    Outcome,
    State,
    Warm,
    no_inverse,
    require_method,
)
from geonh.mechanics.holonomic import normal_directions
from geonh.mechanics.system import System


class Adjoint(ImplicitIntegrator):
    """Adjoint Φ*_h = Φ_{−h}⁻¹ of a method in velocities at the nodes, by Newton's method on Φ_{−h}(g₁, p₁) = (g₀, p₀).

    Constructed by ``method.adjoint()``.

    Attributes
    ----------
    method : Integrator
        The method Φ.
    newton : Newton
        Tolerance and iteration limit of the solves.

    Raises
    ------
    ValueError
        If the method has a memory that belongs to its node.

    References
    ----------
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       §II.3.
    """

    method: Integrator
    newton: Newton

    def __init__(self, newton: Newton, method: Integrator):
        self.newton, self.method = newton, method
        require_method(self.method)
        refuse_memory(self.method, "has no general adjoint")

    @property
    def guarantees(self) -> Guarantees:
        of = self.method.guarantees
        return replace(
            of, symmetric=False, implicit=True, momentum="none", nonlinear=False, reference="Hairer et al. 2006, §II.3"
        )

    def adjoint(self) -> Integrator:
        return self.method

    def refuse(self, system: System) -> None:
        self.method.refuse(system)
        if self.method.guarantees.energy == "projected":
            raise ValueError(
                f"{type(self.method).__name__} restores the energy by a projection, which has no inverse, so no adjoint"
            )

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        return self.method.init(system, clock, g0, xi0)

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        return Warm(inverse=no_inverse(2 * xi.size))

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        """Equations for z = (log g₀⁻¹g₁, p₁), shape=[2n]."""
        group, n, zero = system.group, system.group.dim, jnp.asarray(0)

        def cold(clock: Clock, state: State) -> State:
            xi = system.velocity(system.at(state.g, clock.time(zero)), state.p_minus)
            return state._replace(k=zero, warm=self.method.cold(system, clock, zero, state.g, xi))

        def mismatch(z: Array) -> Array:
            g, p, back = group.compose(state.g, group.exp(z[:n])), z[n:], clock.part(state.k, 1.0, -1.0)
            there = self.method.step(system, back, cold(back, state._replace(g=g, p_plus=p, p_minus=p)))
            defect, change = group.log(group.compose(group.inverse(state.g), there.g)), there.p_minus - state.p_minus
            if self.method.guarantees.constraint == "nodes":  # the map is independent of the part across the constraint
                x = system.at(g, back.t0)
                change = change + system.normal_momentum(x, p - system.momentum_at_rest(x))
                if system.holonomic is not None:  # and of the part off φ = 0
                    defect = defect + normal_directions(system, x) @ system.holonomic_residual(x)
            return jnp.concatenate([defect, change])

        on = clock.part(state.k, 0.0, 1.0)
        ahead = self.method.step(system, on, cold(on, state))
        guess = jnp.concatenate([group.log(group.compose(group.inverse(state.g), ahead.g)), ahead.p_minus])
        return Equations(mismatch, guess, jnp.asarray(1e-14))

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        group, n = system.group, system.group.dim
        turn = group.turn(z[:n])
        return Outcome(group.compose(state.g, group.exp(z[:n])), z[n:], z[n:], state.memory, turn=turn)


def adjoint(method: Integrator) -> Integrator:
    """Adjoint method Φ*_h = Φ_{−h}⁻¹; a symmetric method is self-adjoint. Raises ValueError if the method has a memory
    that belongs to its node, and does not define its adjoint.
    """
    return method if method.guarantees.symmetric else Adjoint(method=method, newton=Newton())


def refuse_memory(method: Integrator, what: str) -> None:
    """Raise ValueError if a method has a memory of its node that the step of another would leave behind."""
    for one in getattr(method, "members", (method,)):  # of a composition
        if one is not method:
            refuse_memory(one, what)
        elif one.holds is not None and not one.holds_constants:
            raise ValueError(
                f"{type(one).__name__} holds {one.holds.__name__} in its node, for its own next step: it {what}"
            )


Integrator.adjoint = adjoint

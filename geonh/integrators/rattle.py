r"""Nonholonomic SHAKE and RATTLE, on vector spaces and reduced on M × G, linear and affine constraints.

RATTLE carries (g, p̃, λ). On a vector space, for a constant mass matrix M,

    p_{k+½} = p̃_k + (h/2)(−∇V(q_k) + f + μ(q_k)ᵀλ_k)
    q_{k+1} = q_k + hM⁻¹p_{k+½}
    p̃_{k+1} = p_{k+½} + (h/2)(−∇V(q_{k+1}) + f + μ(q_{k+1})ᵀλ_{k+1})
    μ(q_{k+1})M⁻¹p̃_{k+1} = b(q_{k+1})                                   solved for λ_{k+1}

(Ferraro, Iglesias, Martín de Diego 2008, eqs. 11a–e; affine with μ(M⁻¹p̃ − Y) = 0). SHAKE is its two-step form in q,

    q_{k+1} = 2q_k − q_{k−1} + h²M⁻¹(−∇V(q_k) + f + μᵀλ_k),   μ(q_k)(q_{k+1} − q_{k−1})/2h = b(q_k)

(McLachlan, Perlmutter 2006, eqs. 4.4, 4.5). On M × G the half-step velocity ξ and the two half-step momenta are bound
by the retraction,

    (dτ_{hξ}⁻¹)ᵀ Mξ = p̃_k + (h/2)(−ρ*∂V + f + μᵀλ_k),       g_{k+1} = g_k τ(hξ)
    p̃_{k+1} = (dτ_{−hξ}⁻¹)ᵀ Mξ + (h/2)(−ρ*∂V + f + μᵀλ_{k+1}),    μM⁻¹p̃_{k+1} = b

(reduced RATTLE, mathematics.md §4). It equals the geometric nonholonomic integrator with the trapezoid rule.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters.partial_eval import dce_jaxpr

from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, Integrator, ReflectingIntegrator, State, arrived, rows_of
from geonh.mechanics.system import System
from geonh.numerics.linear import solve
from geonh.numerics.newton import Newton


class RATTLE(ReflectingIntegrator):
    """Nonholonomic RATTLE, reduced on groups.

    Parameters
    ----------
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and bound of the implicit solve (explicit on vector spaces).
    start : str
        λ at node 0: "average", λ₀ = 0 (Remark 5 of the 2008 paper), or "multiplier", the exact λ₀.
    """

    retraction: Retraction | None
    newton: Newton

    def __init__(
        self, retraction: str | Retraction = "auto", *, newton: Newton | None = None, start: str = "average"
    ) -> None:
        self.retraction, self.newton, self.start = make_retraction(retraction), newton or Newton(), start

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2,
            symmetric=True,
            implicit=True,
            constraint="nodes",
            energy="bi-invariant",
            momentum="horizontal",
            affine=True,
            groups="any",
            reference="Ferraro, Iglesias, Martín de Diego 2008, eqs. 11a–e; McLachlan, Perlmutter 2006, §4",
        )

    def refuse(self, system: System) -> None:
        super().refuse(system)
        refuse_changing_mass(self, system)

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        x = system.action.at(state.g)
        momentum = system.momentum(x, new.increment / clock.dt)
        left = self.tau(system).pull(system.group, new.increment, momentum)
        return jnp.max(jnp.abs(left - state.p_minus - clock.dt / 2 * _pull_of_potential(system, x)))

    def step(self, system: System, clock: Clock, state: State) -> State:
        tau, group, h = self.tau(system), system.group, clock.dt
        x = system.action.at(state.g)
        M = system.mass_matrix(x)
        half_step = state.p_minus + h / 2 * _pull_of_potential(system, x)

        def mismatch(zeta: Array) -> Array:
            return tau.pull(group, zeta, M @ zeta / h) - half_step

        floor = 1e-14 * jnp.abs(h)
        zeta, solved, inverse = self.newton.follow(mismatch, state.increment, state.inverse, floor)
        g = group.compose(state.g, tau(group, zeta))
        y = system.action.at(g)
        incoming = tau.pull(group, -zeta, M @ zeta / h) + h / 2 * _pull_of_potential(system, y)
        average, push, found = node(system, clock, state.k + 1, y, incoming, M, self.newton)
        new_rows, turn = rows_of(system, y), tau.turn(group, zeta)
        return arrived(state, g, incoming, average + push, zeta, new_rows, inverse, found=solved & found, turn=turn)


class SHAKE(Integrator):
    """Nonholonomic SHAKE on vector spaces: RATTLE as a two-step method in q.

    Parameters
    ----------
    newton : Newton, optional
        For forces that depend on the velocity; otherwise the method is explicit.
    """

    newton: Newton
    jumps = reflects = True
    looks_ahead = True

    def __init__(self, *, newton: Newton | None = None) -> None:
        self.newton = newton or Newton()

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2,
            symmetric=True,
            implicit=False,
            constraint="nodes",
            energy="bi-invariant",
            momentum="horizontal",
            affine=True,
            groups="vector spaces",
            reference="McLachlan, Perlmutter 2006, eqs. 4.4, 4.5",
        )

    def refuse(self, system: System) -> None:
        if np.any(system.group.structure_constants):
            raise ValueError(f"SHAKE is for vector spaces, not {system.group}: use RATTLE")
        refuse_changing_mass(self, system)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        state = RATTLE().init(system, clock, g0, xi0)
        x, h = system.action.at(g0), clock.dt
        push = h / 2 * _pull_of_potential(system, x)
        return state._replace(increment=h * solve(system.mass_matrix(x), state.p_minus + push))

    def turned(self, before: State, state: State) -> State:
        return state._replace(p_plus=state.p_minus, p_minus=state.p_plus, increment=-before.increment)

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        return jnp.zeros(())

    def step(self, system: System, clock: Clock, state: State) -> State:
        h, before = clock.dt, state.increment
        g = system.group.compose(state.g, system.group.exp(before))
        x = system.action.at(g)
        M = system.mass_matrix(x)
        slope = _pull_of_potential(system, x)
        mu, t, u = system.annihilator(x), clock.time(state.k + 1), clock.control(state.k + 1)

        def free(xi: Array) -> Array:
            return before + h**2 * solve(M, slope + system.force(t, x, xi, u))

        def velocity(xi: Array) -> tuple[Array, Array]:
            """(q_{k+1} − q_{k−1})/2h on the constraint, and the increment q_{k+1} − q_k."""
            ahead = free(xi)
            violation = mu @ (ahead + before) / (2 * h) - _right_hand_side(system, x)
            raised = solve(M, mu.T)
            ahead = ahead - 2 * h * raised @ solve(mu @ raised, violation)
            return (ahead + before) / (2 * h), ahead

        xi, found = before / h, jnp.asarray(True)
        if system.forces is not None:
            xi, found = self.newton.solve(lambda xi: velocity(xi)[0] - xi, xi)
        ahead = velocity(xi)[1]
        p_plus, p_minus = M @ before / h + h / 2 * slope, M @ ahead / h - h / 2 * slope
        return arrived(state, g, p_plus, p_minus, ahead, rows_of(system, x), found=found)


def node(
    system: System, clock: Clock, k: Array, x: Point, incoming: Array, M: Array, newton: Newton
) -> tuple[Array, Array, Array]:
    """p̃ = p⁺ + (h/2)(f + μᵀλ) with μM⁻¹p̃ = b, the half impulse, and whether it was found."""
    h, mu, t, u = clock.dt, system.annihilator(x), clock.time(k), clock.control(k)
    raised = solve(M, mu.T)

    def half_impulse(xi: Array) -> Array:
        push = h / 2 * system.force(t, x, xi, u)
        lam = solve(mu @ raised, _right_hand_side(system, x) - raised.T @ (incoming + push))
        return push + mu.T @ lam

    xi, found = solve(M, incoming), jnp.asarray(True)
    if system.forces is not None:
        xi, found = newton.solve(lambda xi: solve(M, incoming + half_impulse(xi)) - xi, xi)
    push = half_impulse(xi)
    return incoming + push, push, found


def refuse_changing_mass(method: Integrator, system: System) -> None:
    """Raise ValueError unless ℓ = ½ξᵀMξ − V with M the same everywhere."""
    name = type(method).__name__
    if not system.is_quadratic:
        raise ValueError(f"{name} is for ℓ = ½ξᵀMξ − V(x); {system.name} has a general Lagrangian: use GNI")
    if depends_on_base(system, lambda x: system.mass_matrix(x)):
        raise ValueError(f"{name} is for a constant metric; that of {system.name} depends on the base point: use GNI")


def depends_on_base(system: System, function: Callable) -> bool:
    """Whether a function of the base point uses it, seen from its trace."""
    x = jax.eval_shape(lambda: system.action.at(system.group.identity()))
    if not jax.tree.leaves(x):
        return False
    with jax.enable_x64(True):
        x = jax.tree.map(lambda a: jnp.zeros(a.shape), x)
        jaxpr = jax.make_jaxpr(function)(x).jaxpr
    return any(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1])


def _pull_of_potential(system: System, x: Point) -> Array:
    """−ρ_x*∂V, shape=[n]."""
    if system.potential is None:
        return jnp.zeros(system.group.dim)
    potential = system.potential
    return -system.action.coanchor(lambda x: potential(x, system.parameters), x)


def _right_hand_side(system: System, x: Point) -> Array:
    return jnp.zeros(0) if system.distribution is None else system.distribution.right_hand_side(x, system.parameters)

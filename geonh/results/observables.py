"""Observables at the nodes of a run: velocities, multipliers, energies, residuals, first integrals.

Computed after the run, mapped over the nodes, so that the stepping loop carries none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle, solve_spd
from geonh.groups.coefficients import safe_sqrt
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.mechanics.equations import multipliers
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.redundancy import least_norm_multipliers
from geonh.mechanics.system import System
from geonh.results.nodes import Node

OF_ROWS = ("multipliers", "impulse_multipliers", "constraint_residual")
"""Observables with an entry for each row of the constraints."""


class Observed:
    """Base class that provides ``observables``, arrays with the nodes along the last leading axis, as attributes."""

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """Output of ``observe``, by name."""
        raise NotImplementedError

    def _observable(self, name: str) -> np.ndarray:
        """One of the observables."""
        return self.observables[name]

    @property
    def xi(self) -> np.ndarray:
        return self._observable("xi")

    @property
    def p(self) -> np.ndarray:
        return self._observable("p")

    @property
    def multipliers(self) -> np.ndarray:
        return self._observable("multipliers")

    @property
    def impulse_multipliers(self) -> np.ndarray:
        values = self.observables
        return values.get("impulse_multipliers", values["multipliers"])

    @property
    def alternation(self) -> np.ndarray:
        values = self.observables
        if "alternating" not in values:
            return np.zeros(values["energy"].shape)
        return alternation(values["alternating"], values["kinetic"])

    @property
    def energy(self) -> np.ndarray:
        return self._observable("energy")

    @property
    def energy_minus(self) -> np.ndarray:
        return self._observable("energy_minus")

    @property
    def constraint_residual(self) -> np.ndarray:
        return self._observable("constraint_residual")

    @property
    def holonomic_residual(self) -> np.ndarray:
        values = self.observables
        return values.get("holonomic_residual", np.zeros((*values["energy"].shape, 0)))

    @property
    def integrals(self) -> dict[str, np.ndarray]:
        prefix = "integral:"
        return {n.removeprefix(prefix): v for n, v in self.observables.items() if n.startswith(prefix)}


def alternation(alternating: Any, kinetic: Any) -> Any:
    """Alternating part relative to the largest momentum of a run, from the observables of those names, shape=[…, N]."""
    of: Any = jnp if isinstance(kinetic, Array) else np
    largest = of.max(kinetic, axis=-1, keepdims=True, where=~of.isnan(kinetic), initial=0.0)
    return alternating / of.sqrt(of.where(largest > 0, 2 * largest, 1.0))


def observe(problem: Problem, node: Node, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Compute the observables at one node, all or those of some names; the problem's method may be None if its nodes
    hold no impulse.

    Returns
    -------
    dict
        ``xi`` the velocity of p̃, as of ``velocity_at_node``; ``p`` the average momentum p̃; ``multipliers`` λ of the
        constraint force, of the continuous equations at (t, g, ξ̃, u); ``energy`` H(x, p̃) and ``energy_minus``
        H(x, p⁻); ``constraint_residual`` μξ − b; of a system with holonomic constraints ``holonomic_residual`` φ, whose
        rows are the first of μ; each first integral. Of methods that hold an impulse at the node also
        ``impulse_multipliers``, λ of p⁻ = p⁺ + h(f + μᵀλ), ``alternating``, ‖(h/2)μᵀ(λ_impulse − λ)‖ in the kinetic
        norm, √J, and ``kinetic``, ½ξᵀMξ.
    """
    system, method, g, p_plus, p_minus = problem.system, problem.method, node.g, node.p_plus, node.p_minus
    clock, k = node.local(problem.clock)
    x = system.at(g, clock.time(k))
    p = (p_plus + p_minus) / 2
    xi = system.velocity_at_node(x, p)
    functions: dict[str, Callable[[], Any]] = {
        "p": lambda: p,
        "xi": lambda: xi,
        "energy": lambda: system.energy(x, p),
        "energy_minus": lambda: system.energy(x, p_minus),
        "constraint_residual": lambda: system.constraint_residual(x, xi),
        "multipliers": lambda: multipliers(system, clock.time(k), g, xi, clock.control(k)),
    }
    if system.holonomic is not None:
        functions["holonomic_residual"] = lambda: system.holonomic_residual(x)
    for name, integral in system.first_integrals.items():
        functions[f"integral:{name}"] = partial(_integral, system, integral, x, g, p, p_minus)
    wanted = functions if names is None else names
    observables = {name: function() for name, function in functions.items() if name in wanted}
    if names is None and method is not None and method.guarantees.node == "impulse":
        observables |= _impulse(system, method, clock, k, x, xi, p_minus - p_plus, observables["multipliers"])
    return observables


def _integral(system: System, integral: FirstIntegral, x: Any, g: Any, p: Array, p_minus: Array) -> Array:
    """First integral at a node, of the momentum that it takes."""
    momentum = p_minus if integral.momentum == "minus" else p
    return jnp.asarray(integral.function(g, system.velocity(x, momentum), momentum, system.parameters))


def _impulse(
    system: System, method: Integrator, clock: Clock, k: Array, x: Any, xi: Array, jump: Array, lam: Array
) -> dict[str, Any]:
    """Multiplier of the jump p⁻ − p⁺ = h(f + μᵀλ), and the size of its deviation from λ(t).

    The jump excludes the rows of φ, whose impulses belong to the steps: their λ is that of the continuous equations.
    """
    M, mu, h = system.mass_matrix(x), system.holding(x).annihilator(x), method.impulse_step(clock)
    free, reaction = jump - h * system.force(clock.time(k), x, xi, clock.control(k)), system.annihilator(x).T @ lam
    if system.holonomic is not None:
        free = free + h * (reaction - system.nonholonomic_part(x, reaction))
    impulses = least_norm_multipliers(system, x, M, -saddle(M, mu, free, jnp.zeros(len(mu)))[1] / h)
    part = h / 2 * system.annihilator(x).T @ (impulses - lam)
    square = part @ solve_spd(M, part)
    size = safe_sqrt(square) + 0.0 * square  # propagate nan
    return {"impulse_multipliers": impulses, "alternating": size, "kinetic": xi @ M @ xi / 2}

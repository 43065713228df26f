"""What is read from the nodes of a run: velocities, multipliers, energies, residuals, first integrals.

Computed after the run, mapped over the nodes, so that the stepping loop carries none of it.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Integrator
from geonh.mechanics.system import System


def observe(
    system: System, method: Integrator, clock: Clock, k: Array, g: Point, p_plus: Array, p_minus: Array
) -> dict[str, Any]:
    """Observables at one node.

    Returns
    -------
    dict
        ``xi`` the velocity of p̃; ``p`` the average momentum p̃; ``multipliers`` λ of the method;
        ``energy`` H(x, p̃) and ``energy_minus`` H(x, p⁻); ``constraint_residual`` μξ − b; each first integral.
    """
    x = system.action.at(g)
    p = (p_plus + p_minus) / 2
    xi = system.velocity(x, p)
    found: dict[str, Any] = {
        "p": p,
        "xi": xi,
        "energy": system.energy(x, p),
        "energy_minus": system.energy(x, p_minus),
        "constraint_residual": system.constraint_residual(x, xi),
        "multipliers": method.multipliers(system, clock, k, g, p_plus, p_minus),
    }
    for name, integral in system.first_integrals.items():
        outgoing = integral.momentum == "minus"
        momentum = p_minus if outgoing else p
        velocity = system.velocity(x, p_minus) if outgoing else xi
        found[f"integral:{name}"] = jnp.asarray(integral.function(g, velocity, momentum, system.parameters))
    return found

r"""A volume-preserving splitting of systems with gyroscopic forces, without constraints.

With the flows of the forces alone, at a fixed point, before and after a step of the variational integrator without
forces,

    Φ_h = K_{h/2} ∘ V_h ∘ K_{h/2},

V is symplectic, and the forces provide a symmetric K that keeps the volume dp and the energy to rounding. So Φ is of
order 2, symmetric, and keeps the Liouville volume of T*Q to rounding.

Source: McLachlan, Quispel, *Splitting methods*, Acta Numerica 11 (2002).
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Equations, Guarantees, Outcome, State
from geonh.integrators.gni import RuleFlow
from geonh.mechanics.system import System, replaced


class VolumePreserving(RuleFlow):
    """Volume-preserving splitting, for systems without constraints that have gyroscopic forces, or none.

    Its systems are those of ``Hamiltonisation.system``; without forces it is the variational integrator.

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        "trapezoid", "midpoint", "left", "right", or any l_d(x, W, h), as in ``GNI``.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses systems with constraints, and forces of which no
        volume-preserving flow is known.

    References
    ----------
    .. [McLachlan2002] R. I. McLachlan, G. R. W. Quispel, "Splitting methods", Acta Numerica 11 (2002), 341–434.
    """

    @property
    def guarantees(self) -> Guarantees:
        reference = "McLachlan, Quispel 2002"
        return replace(super().guarantees, energy="never", momentum="none", reference=reference)

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if system.distribution is not None or system.holonomic is not None:
            raise ValueError(f"VolumePreserving is for systems without constraints; {system.name} has some")
        if system.forces is not None and not hasattr(inspect.unwrap(system.forces), "kicked"):
            raise ValueError(
                f"VolumePreserving is for systems without forces, or with the gyroscopic forces of "
                f"Hamiltonisation.system(); no volume-preserving flow of those of {system.name} is known"
            )

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        p = _kicked(system, clock, state.k, state.g, state.p_minus)
        return super().equations(replaced(system, forces=None), clock, state._replace(p_minus=p))

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        outcome, _ = self.flow(replaced(system, forces=None), clock, state, z)
        p = _kicked(system, clock, state.k + 1, outcome.g, outcome.p_plus)
        return outcome._replace(p_plus=p, p_minus=p)


def _kicked(system: System, clock: Clock, k: Array, g: Point, p: Array) -> Array:
    """Momentum p at node k after half a step of the forces alone."""
    if system.forces is None:
        return p
    x: Any = system.at(g, clock.time(k))
    return inspect.unwrap(system.forces).kicked(x, p, clock.dt / 2, system.parameters)

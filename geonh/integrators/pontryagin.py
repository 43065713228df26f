r"""The reduced d'Alembert–Pontryagin integrator.

With velocities ξ_k on the step, W_k = τ(hξ_k), momenta π_k = ∂ℓ/∂ξ at x_{k+α} = x_k·τ(αhξ_k), and the reconstruction
as a constraint of the variational principle,

    (dτ_{hξ_k}⁻¹)ᵀ π_k − (dτ_{−hξ_{k−1}}⁻¹)ᵀ π_{k−1} − (base and external forces)   annihilates D at the node,
    μ(x_{k+α})ξ_k = b(x_{k+α}),

α in [0, 1] (Kobilarov, Marsden, Sukhatme, *Geometric discretization of nonholonomic systems with symmetries*, Discrete
Contin. Dyn. Syst. S 3 (2010), §4). Eliminating π_k by the Legendre transform leaves the discrete Lagrange–d'Alembert
equations of l_d(x, ζ) = h ℓ(x·τ(αζ), ζ/h) with the constraint at the same point, which is how it is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
from jax import Array

from geonh.algebra.newton import Newton
from geonh.arguments.validators import as_constant
from geonh.groups.retraction import Retraction
from geonh.integrators.base import Guarantees
from geonh.integrators.discretisation import DiscreteLagrangian
from geonh.integrators.dla import DLA
from geonh.mechanics.system import System


class PointRule(DiscreteLagrangian):
    """h ℓ(x·τ(αζ), ζ/h): the left rectangle at α = 0, the midpoint at ½, the right rectangle at 1."""

    alpha: float = eqx.field(static=True)
    needs_exp = True

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.alpha == 0.5

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        if self.alpha in (0.0, 1.0):
            return h * system.lagrangian(x if self.alpha == 0.0 else y, zeta * (1 / h))
        return h * system.lagrangian(
            system.act(x, tau(system.group, self.alpha * zeta), self.alpha * h), zeta * (1 / h)
        )


class Pontryagin(DLA):
    """Reduced d'Alembert–Pontryagin integrator.

    Parameters
    ----------
    alpha : float
        Point of the step, in [0, 1], where ℓ and the constraint are evaluated; ½ gives order 2, anything else order 1.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these.

    References
    ----------
    .. [Kobilarov2010] M. Kobilarov, J. E. Marsden, G. S. Sukhatme, "Geometric discretization of nonholonomic
       systems with symmetries", Discrete and Continuous Dynamical Systems S 3 (2010), 61–84; §4.
    """

    def __init__(
        self, alpha: float = 0.5, retraction: str | Retraction = "auto", *, newton: Newton | None = None
    ) -> None:
        at = float(as_constant(alpha, "alpha"))
        if not 0 <= at <= 1:
            raise ValueError(f"alpha must lie in the step, at a fraction in [0, 1], got {at:g}")
        super().__init__(PointRule(at), at, retraction, newton=newton)

    @property
    def guarantees(self) -> Guarantees:
        return replace(super().guarantees, reference="Kobilarov, Marsden, Sukhatme 2010, §4")

r"""Stochastic mechanics on D: Itô equations, and constraints by viscous contacts at a temperature.

Noise is a force σᵢ(t, x, ξ) dWᵢ, linear in the controls of a run; x has no noise of its own. With the impulse of the
constraints v = P M⁻¹σᵢ is the change of velocity on D, and the Itô equation is the Stratonovich equation with the force

    f_Itô = −½ Σᵢ ∂σᵢ/∂ξ · v(σᵢ).

Constraints μξ = b that are the limit of viscous forces −μᵀΓ(μξ − b), Γ → ∞, at a temperature: with the noise that goes
with them (fluctuation and dissipation) the velocities across D do not vanish, whatever Γ. They have the variance kT in
each direction nᵢ of a frame of the orthogonal complement of D, orthonormal for M, and by the inertial forces, quadratic
in the velocity, they exert a mean force on D. With cᵢ, Mnᵢ = μᵀcᵢ,

    f = kT Σᵢ [ad*_{nᵢ} Mnᵢ + ½ρ*∂ₓ(nᵢᵀMnᵢ) − (D_x μ · ρ nᵢ)ᵀ cᵢ],   ⟨f, ξ⟩ = kT div X(ξ)  on D,

minus kT times the mean curvature of the complement. So f is kT times the divergence of the constrained equations in the
kinetic volume, and makes e^{−E/kT} stationary, which it is not without f where that volume is not preserved.

References: Kloeden, Platen, *Numerical Solution of Stochastic Differential Equations* (1992), §4.9; Jagla, Bloch, Rojo,
*Nonholonomic constraints at finite temperature* (2026), arXiv:2603.14424, for the sleigh.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant
from geonh.mechanics.configuration import Moment
from geonh.mechanics.system import System, refuse_parameters, replaced, with_parameters


class _Added(eqx.Module):
    """Forces of a system, and a further force that depends on it."""

    system: System

    def __call__(self, t: Array, x: Any, xi: Array, u: Any, parameters: dict) -> Array:
        system = with_parameters(self.system, parameters)
        place = Moment(jnp.asarray(t), x) if system.is_timed else x
        return system.force(t, place, xi, u) + self.further(system, t, place, xi, u)

    def further(self, system: System, t: Array, x: Any, xi: Array, u: Any) -> Array:
        raise NotImplementedError

    def refuse_parameters(self, parameters: dict) -> None:
        """Raise ValueError for values of parameters for which this force, or one that it is added to, is not."""
        refuse_parameters(self.system.forces, parameters)


class _ItoForces(_Added):
    def further(self, system: System, t: Array, x: Any, xi: Array, u: Any) -> Array:
        def noise(xi: Array) -> Array:
            """σ, shape=[n, size]."""
            return jax.jacfwd(lambda u: system.force(t, x, xi, u))(jnp.zeros_like(u)).reshape(len(xi), -1)

        M, mu, sigma = system.mass_matrix(x), system.annihilator(x), noise(xi)
        correction = jnp.zeros_like(xi)
        for i in range(sigma.shape[1]):
            v = system.constrained(M, mu, sigma[:, i], jnp.zeros(len(mu)))[0]
            correction -= jax.jvp(lambda xi, i=i: noise(xi)[:, i], (xi,), (v,))[1] / 2
        return correction


class _ThermalForces(_Added):
    kT: Any
    name: str | None = eqx.field(static=True)

    def further(self, system: System, t: Array, x: Any, xi: Array, u: Any) -> Array:
        kT = self.kT if self.name is None else system.parameters[self.name]
        return jnp.where(kT >= 0, kT, jnp.nan) * _mean_force(system, x)

    def refuse_parameters(self, parameters: dict) -> None:
        super().refuse_parameters(parameters)
        if self.name is not None and self.name in parameters:
            _refuse_negative(parameters[self.name], self.name)


def _mean_force(system: System, x: Any) -> Array:
    """Mean inertial force of velocities across D, of unit variance in each orthonormal direction; shape=[n]."""
    system = system.holding(x)
    M, mu = system.mass_matrix(x), system.annihilator(x)
    across = jnp.linalg.solve(M, mu.T)
    factors = jnp.linalg.inv(jnp.linalg.cholesky(mu @ across)).T  # columns cᵢ: the inverse of μM⁻¹μᵀ is Σ cᵢcᵢᵀ
    force = jnp.zeros(len(M))
    for c in factors.T:
        n = across @ c
        turning = jax.jvp(system.annihilator, (x,), (system.anchor(x, n),))[1]
        slope = system.coanchor(lambda x, n=n: n @ system.mass_matrix(x) @ n / 2, x)
        force += system.group.ad_star(n, M @ n) + slope - turning.T @ c
    return force


@validated
def ito(system: System) -> System:
    """System whose Stratonovich equations are the Itô equations of a system with noise in its controls.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) linear in u, which is the noise; with linear or affine constraints, or none.

    Returns
    -------
    System
        With the Itô correction among the forces, by exact derivatives: zero where σ does not depend on the velocity.

    Raises
    ------
    TypeError, ValueError
        If the system has no forces, a Lagrangian that is not quadratic, constraints nonlinear in the velocity, or
        forces that depend on the multipliers.

    References
    ----------
    .. [Kloeden1992] P. E. Kloeden, E. Platen, *Numerical Solution of Stochastic Differential Equations* (1992), §4.9.

    Examples
    --------
    >>> import geonh as gn
    >>> from geonh.groups import Translations
    >>> growth = gn.System(Translations(1), metric=[[1.0]], forces=lambda t, x, xi, u: 0.3 * xi * u)
    >>> noise = gn.Wiener(1, 0.01, seed=1)
    >>> run = gn.solve(gn.mechanics.ito(growth), xi0=[1.0], dt=0.01, n_steps=100, controls=noise)
    """
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces(t, x, xi, u), and so no noise")
    return _with_forces(system, _ItoForces(system), "ito")


@validated
def thermal_contacts(system: System, kT: Any) -> System:
    """System whose constraints are viscous contacts at a temperature, in the limit of large viscosity.

    The velocities across D then have thermal fluctuations, and exert a mean force on D, which is added here: with it
    the Gibbs density e^{−E/kT} of a bath of velocities on D, in the kinetic volume, is stationary. It vanishes where
    the constrained equations preserve that volume. Of a velocity ω that has a part across D only the part on D is
    seen here.

    Parameters
    ----------
    system : System
        With linear or affine constraints, each a contact.
    kT : float or str
        Temperature times Boltzmann's constant, joules; or the name of the parameter that has it.

    Returns
    -------
    System

    Raises
    ------
    TypeError, ValueError
        If the system has no linear or affine constraints, or has holonomic ones; if its Lagrangian is not quadratic,
        or forces depend on the multipliers; if ``kT`` is negative or no number, or
        names no parameter.

    References
    ----------
    .. [Jagla2026] E. A. Jagla, A. M. Bloch, A. G. Rojo, "Nonholonomic constraints at finite temperature" (2026),
       arXiv:2603.14424.

    Examples
    --------
    >>> import geonh as gn
    >>> sleigh = gn.mechanics.thermal_contacts(gn.systems.chaplygin_sleigh(), kT=0.1)
    >>> run = gn.solve(sleigh, xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=100)
    """
    if system.distribution is None or system.holonomic is not None:
        raise ValueError(f"{system.name} must have linear or affine constraints, each a contact, and no holonomic ones")
    name = kT if isinstance(kT, str) else None
    if name is not None and name not in system.parameters:
        raise ValueError(f"kT: {system.name} has no parameter {name!r}")
    value = None if name else as_constant(kT, "kT")
    _refuse_negative(system.parameters[name] if name else value, "kT")
    return _with_forces(system, _ThermalForces(system, value, name), "thermal_contacts")


def _refuse_negative(kT: Any, name: str) -> None:
    if not is_traced(**{name: kT}) and as_constant(kT, name) < 0:
        raise ValueError(f"{name} must not be negative, got {kT:g}: it is the temperature of contacts")


def _with_forces(system: System, forces: _Added, what: str) -> System:
    """Refuse what the added force is not defined for, and a force that is there already."""
    inner = system.forces
    while isinstance(inner, _Added):
        if isinstance(inner, type(forces)):
            raise ValueError(f"{system.name} is a result of {what} already, whose force would be added twice")
        inner = inner.system.forces
    if not system.is_quadratic or system.is_nonlinear or system.multiplier_forces is not None:
        raise ValueError(
            f"{what} is for Lagrangians quadratic in the velocity, constraints linear or affine in it, and forces that "
            f"do not depend on the multipliers; {system.name} has others"
        )
    return replaced(system, forces=forces, forces_take_parameters=True)

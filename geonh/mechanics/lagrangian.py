r"""Lagrangian and forces of a mechanical system on an action groupoid M ⋊ G, and their evaluation.

    p = ∂ℓ/∂ξ,  ẋ = ρ_x ξ,  ġ = g ξ,
    ṗ = ad*_ξ p + ρ_x* ∂ℓ/∂x + μ(x)ᵀλ + f,  μ(x) ξ = b(x)          (mathematics.md §2)

with ℓ = ½ξᵀM(x)ξ − V(x), or any hyperregular ℓ(x, ξ). All formulas of the library read a system through its classes:
``ConfigurationSpace``, this one, and ``ConstrainedSystem``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.algebra.linear import solve_spd
from geonh.algebra.newton import Newton
from geonh.engine import SIDE_BY_SIDE, jacobian, traced_once
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import Field, Moment, arguments, evaluated
from geonh.geometry.metric import BundleMetric
from geonh.geometry.velocity_constraints import VelocityConstraints
from geonh.mechanics.configuration import ConfigurationSpace
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.redundancy import Rank

MANY = 16
"""Least number of velocities for which the columns of the Hessian of a Lagrangian are computed in a loop."""


class LagrangianSystem(ConfigurationSpace):
    """Ingredients of a system, its energies, Legendre transform and forces; for the arguments see ``System``."""

    metric: BundleMetric | None
    hessian: BundleMetric | None
    """Mass matrix given beside a Lagrangian."""
    potential: Field | None
    lagrangian_function: Callable | None
    distribution: Distribution | None
    holonomic: Field | None
    forces: Callable | None
    multiplier_forces: MultiplierForces | None
    parameters: Any
    first_integrals: dict[str, FirstIntegral]
    lagrangian_takes_parameters: bool = eqx.field(static=True)
    lagrangian_is_timed: bool = eqx.field(static=True)
    forces_take_parameters: bool = eqx.field(static=True)
    is_quadratic: bool = eqx.field(static=True)
    """True if ℓ = ½ξᵀM(x)ξ + π₀(x)·ξ − V(x), so that p = Mξ + π₀."""
    rank: Rank | None = eqx.field(static=True)
    """Numbers of independent rows, if some depend on others; None if all are independent."""
    units: tuple[tuple[str, str], ...] = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True)
    """Drawing function; the motion does not depend on it."""

    def __repr__(self) -> str:
        energy = "a metric" if self.metric is not None else "a Lagrangian"
        said = [
            energy if self.potential is None else f"{energy} and a potential",
            *(["holonomic constraints"] if self.holonomic is not None else []),
            *([f"{self._kind} constraints"] if self.distribution is not None else []),
            *(["no constraints"] if not self.is_constrained else []),
            *(["forces"] if self.forces is not None else []),
            *(["forces of the multipliers"] if self.multiplier_forces is not None else []),
            *([f"parameters {', '.join(map(str, self.parameters))}"] if self.parameters else []),
            *([f"first integrals {', '.join(self.first_integrals)}"] if self.first_integrals else []),
        ]
        return f"System {self.name!r} on {self.group}: {'; '.join(said)}"

    @property
    def _kind(self) -> str:
        return "nonlinear" if self.is_nonlinear else "affine" if self.is_affine else "linear"

    @property
    def is_timed(self) -> bool:
        """True if a function besides the forces depends on the time."""
        D = self.distribution
        fields = (
            None if self.given_metric is None else self.given_metric.field,
            self.potential,
            self.holonomic,
            *(getattr(D, name, None) for name in ("forms", "frame", "rhs", "drift", "velocity")),
        )
        return self.lagrangian_is_timed or any(field is not None and field.timed for field in fields)

    @property
    def is_affine(self) -> bool:
        """True if the constraints are affine, μξ = b; those of φ(t, x) are."""
        moving = self.holonomic is not None and self.holonomic.timed
        return moving or isinstance(self.distribution, AffineDistribution)

    @property
    def is_nonlinear(self) -> bool:
        """True if the constraints are nonlinear in the velocity."""
        return isinstance(self.distribution, VelocityConstraints)

    @property
    def is_constrained(self) -> bool:
        """True if there are constraints; without, m = 0 in all formulas."""
        return self.distribution is not None or self.holonomic is not None

    # --- energies ------------------------------------------------------------------------------------------
    def lagrangian(self, x: Any, xi: Array) -> Array:
        """ℓ(x, ξ), joules, a scalar; x a base point as of ``at``, ``xi`` of shape=[n]."""
        if self.lagrangian_function is not None:
            extra = (self.parameters,) if self.lagrangian_takes_parameters else ()
            at = arguments(x, self.lagrangian_is_timed, "lagrangian")
            return evaluated("lagrangian", self.lagrangian_function, *at, xi, *extra)
        assert self.metric is not None
        kinetic = 0.5 * self.metric.inner(xi, xi, x, self.parameters)
        return kinetic if self.potential is None else kinetic - self.potential(x, self.parameters)

    def potential_energy(self, x: Any) -> Array:
        """V(x) = −ℓ(x, 0), joules, a scalar; x a base point as of ``at``."""
        if self.lagrangian_function is not None:
            return -self.lagrangian(x, jnp.zeros(self.group.dim))
        return jnp.zeros(()) if self.potential is None else self.potential(x, self.parameters)

    def mass_matrix(self, x: Any, xi: Array | None = None) -> Array:
        """M = ∂²ℓ/∂ξ², shape=[n, n]; at ξ = 0 where no ``xi``, shape=[n], is given."""
        return self._mass_matrix(x, None if self.is_quadratic else xi)

    @traced_once
    def _mass_matrix(self, x: Any, xi: Array | None) -> Array:
        if (given := self.given_metric) is not None:
            return given.matrix(x, self.parameters)
        at = jnp.zeros(self.group.dim) if xi is None else xi
        if len(at) < MANY:
            return jax.hessian(lambda v: self.lagrangian(x, v))(at)
        return jacobian(jax.grad(lambda v: self.lagrangian(x, v)), at, together=SIDE_BY_SIDE)

    @property
    def metric_varies(self) -> bool:
        """True unless the metric is constant, and thus checked on construction."""
        given = self.given_metric
        return given is None or not given.field.is_constant

    @property
    def given_metric(self) -> BundleMetric | None:
        """Mass matrix as given: of the kinetic energy, or the Hessian of a Lagrangian; None if it is derived."""
        return self.metric if self.hessian is None else self.hessian

    @traced_once
    def momentum(self, x: Any, xi: Array) -> Array:
        """Legendre transform p = ∂ℓ/∂ξ, shape=[n], of a velocity of shape=[n]; nan where ℓ is not finite."""
        if self.metric is not None:
            return self.metric.flat(xi, x, self.parameters)
        value, p = jax.value_and_grad(lambda v: self.lagrangian(x, v))(xi)
        return p if self.is_quadratic else jnp.where(jnp.isfinite(value), p, jnp.nan)  # −log(1 − v²) has finite slopes

    def momentum_at_rest(self, x: Any) -> Array:
        """∂ℓ/∂ξ at ξ = 0, shape=[n]: the linear part of ℓ, a gyroscopic term; zero with a metric."""
        at = jnp.zeros(self.group.dim)
        return at if self.metric is not None else self.momentum(x, at)

    @traced_once
    def bias_force(self, x: Any, xi: Array) -> Array:
        """(D_x p)ρ_x ξ − ad*_ξ p − ρ_x*∂ₓℓ, shape=[n], so that Mξ̇ + bias = f + μᵀλ; ``xi`` of shape=[n]."""
        p, drift = jax.jvp(lambda x: self.momentum(x, xi), (x,), (self.rate(x, xi),))
        return drift - (self.group.ad_star(xi, p) + self.coanchor(lambda x: self.lagrangian(x, xi), x))

    def velocity(self, x: Any, p: Array) -> Array:
        """Inverse Legendre transform, the minimiser ξ of ℓ(x, ξ) − p·ξ, shape=[n], of a momentum of shape=[n].

        For a non-quadratic ℓ by damped Newton iterations from rest, since the domain of ℓ may be bounded, as by the
        speed of light. It is nan if the iteration fails, as for a p outside the range of the Legendre transform.
        """
        if self.metric is not None:
            return self.metric.sharp(p, x, self.parameters)
        guess = solve_spd(self.mass_matrix(x), p - self.momentum_at_rest(x))
        if self.is_quadratic:
            return guess
        missing = lambda xi: self.momentum(x, xi) - p  # noqa: E731
        left = solve_spd(self.mass_matrix(x), missing(guess))
        xi, converged = Newton().descend(missing, guess, left, jnp.zeros_like(guess))
        return jnp.where(converged, xi, jnp.nan)

    def energy(self, x: Any, p: Array) -> Array:
        """H(x, p) = ⟨p, ξ⟩ − ℓ(x, ξ), joules, a scalar; ``p`` of shape=[n]."""
        xi = self.velocity(x, p)
        return p @ xi - self.lagrangian(x, xi)

    def force(self, t: Array, x: Any, xi: Array, u: Any = None) -> Array:
        """External force f(t, x, ξ, u), and friction under loads that are known, shape=[n]; zero if there is none.

        Raises
        ------
        ValueError, TypeError
            If the user's function returns another shape, or cannot be evaluated; without controls u is None.
        """
        n = self.group.dim
        held = self.multiplier_forces
        friction = None if held is None else held.loaded(jnp.asarray(t), x, xi, self.parameters)
        if self.forces is None:
            return jnp.zeros(n) if friction is None else friction
        extra = (self.parameters,) if self.forces_take_parameters else ()
        x = x.x if isinstance(x, Moment) else x
        try:
            value = evaluated("forces", self.forces, t, x, xi, u, *extra)
        except (TypeError, ValueError) as error:
            fell = "None" in str(error.__cause__ or error) and not str(error).startswith("forces returned None")
            if u is None and (fell or _is_last(self.forces, (t, x, xi), extra)):
                reason = f" ({error})" if fell else ""
                raise TypeError(f"forces uses u, but there are no controls: controls= is needed{reason}") from error
            if u is None:
                raise
            raise type(error)(f"{error}{_driven(u)}") from error.__cause__
        if value.shape != (n,):
            raise ValueError(
                f"forces must give a covector of shape ({n},) on {self.group}, got shape {value.shape}{_driven(u)}"
            )
        return value if friction is None else value + friction


def _is_last(function: Callable, before: tuple, after: tuple) -> bool:
    """True if a function returns the argument between the others unchanged."""
    marker = object()
    with contextlib.suppress(Exception):
        return function(*before, marker, *after) is marker
    return False


def _driven(u: Any) -> str:
    """Hint on controls for an error of the forces: their shape may be the cause."""
    if u is None:
        return ""
    shape = list(jnp.shape(u))
    return (
        f"; controls= gives u, of shape {shape}: is that what forces takes? Controls are u(t), or a row for each node"
    )

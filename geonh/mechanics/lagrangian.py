r"""The ingredients of a mechanical system on an action groupoid M ⋊ G, and what is evaluated from them.

    p = ∂ℓ/∂ξ,  ẋ = ρ_x ξ,  ġ = g ξ,
    ṗ = ad*_ξ p + ρ_x* ∂ℓ/∂x + μ(x)ᵀλ + f,  μ(x) ξ = b(x)          (mathematics.md §2)

with ℓ = ½ξᵀM(x)ξ − V(x), or any hyperregular ℓ(x, ξ). All formulas of the library read a system through this class; a
system without constraints is one with m = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.action import Action
from geonh.geometry.distribution import AffineDistribution, Distribution, rank_fault
from geonh.geometry.field import Field, evaluated
from geonh.geometry.metric import BundleMetric
from geonh.groups import LieGroup
from geonh.groups.base import Point
from geonh.mechanics.soundness import OFF_GROUP, group_fault, metric_fault
from geonh.numerics.linear import OrthonormalForms, orthonormal_forms, solve_spd
from geonh.numerics.newton import Newton
from geonh.numerics.precision import Precise, as_float64, float64, in_float64, is_traced


class FirstIntegral(eqx.Module):
    """A quantity that the continuous motion keeps.

    Parameters
    ----------
    function : callable
        ``function(g, xi, p, parameters)`` → scalar or array, of the group element, the velocity and the momentum.
    note : str
        What is known of it, for ``geonh show`` and the docs (for instance "roundoff under GNI").
    momentum : str
        Which momentum of a node it is read from: "average" p̃ (with ξ̃) or "minus", the outgoing p⁻.
    """

    function: Callable
    note: str = eqx.field(static=True, default="")
    momentum: str = eqx.field(static=True, default="average")

    def along(self, system: LagrangianSystem, g: Point, xi: Array) -> Any:
        """Its value on the continuous motion, where p = ∂ℓ/∂ξ."""
        return self.function(g, xi, system.momentum(system.action.at(g), xi), system.parameters)


class LagrangianSystem(Precise):
    """Lagrangian, distribution and forces over a base: ``System`` says how they are given."""

    group: LieGroup
    action: Action
    metric: BundleMetric | None
    potential: Field | None
    lagrangian_function: Callable | None
    distribution: Distribution | None
    forces: Callable | None
    parameters: Any
    first_integrals: dict[str, FirstIntegral]
    lagrangian_takes_parameters: bool = eqx.field(static=True)
    forces_take_parameters: bool = eqx.field(static=True)
    is_quadratic: bool = eqx.field(static=True)
    """Whether ℓ = ½ξᵀM(x)ξ + π₀(x)·ξ − V(x), so that p = Mξ + π₀."""
    name: str = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True)
    """What it looks like; the motion does not depend on it."""

    def __repr__(self) -> str:
        energy = "a metric" if self.metric is not None else "a Lagrangian"
        said = [
            energy if self.potential is None else f"{energy} and a potential",
            ("affine" if self.is_affine else "linear") + " constraints" if self.is_constrained else "no constraints",
            *(["forces"] if self.forces is not None else []),
            *([f"parameters {', '.join(map(str, self.parameters))}"] if self.parameters else []),
            *([f"first integrals {', '.join(self.first_integrals)}"] if self.first_integrals else []),
        ]
        return f"System {self.name!r} on {self.group}: {'; '.join(said)}"

    @property
    def is_affine(self) -> bool:
        """Whether the constraints are affine, μξ = b."""
        return isinstance(self.distribution, AffineDistribution)

    @property
    def is_constrained(self) -> bool:
        """Whether there are constraints at all; without, m = 0 in all formulas."""
        return self.distribution is not None

    def lagrangian(self, x: Any, xi: Array) -> Array:
        """ℓ(x, ξ), scalar."""
        if self.lagrangian_function is not None:
            extra = (self.parameters,) if self.lagrangian_takes_parameters else ()
            return evaluated("lagrangian", self.lagrangian_function, x, xi, *extra)
        assert self.metric is not None
        kinetic = 0.5 * self.metric.inner(xi, xi, x, self.parameters)
        return kinetic if self.potential is None else kinetic - self.potential(x, self.parameters)

    def potential_energy(self, x: Any) -> Array:
        """V(x) = −ℓ(x, 0), scalar."""
        if self.lagrangian_function is not None:
            return -self.lagrangian(x, jnp.zeros(self.group.dim))
        return jnp.zeros(()) if self.potential is None else self.potential(x, self.parameters)

    def mass_matrix(self, x: Any, xi: Array | None = None) -> Array:
        """M = ∂²ℓ/∂ξ², shape=[n, n]; at ξ = 0 where none is given."""
        if self.metric is not None:
            return self.metric.matrix(x, self.parameters)
        at = jnp.zeros(self.group.dim) if xi is None or self.is_quadratic else xi
        return jax.hessian(lambda v: self.lagrangian(x, v))(at)

    def momentum(self, x: Any, xi: Array) -> Array:
        """Legendre transform p = ∂ℓ/∂ξ, shape=[n]."""
        if self.metric is not None:
            return self.metric.flat(xi, x, self.parameters)
        return jax.grad(lambda v: self.lagrangian(x, v))(xi)

    def momentum_at_rest(self, x: Any) -> Array:
        """∂ℓ/∂ξ at ξ = 0, shape=[n]: the linear part of ℓ, a gyroscopic term; zero with a metric."""
        at = jnp.zeros(self.group.dim)
        return at if self.metric is not None else self.momentum(x, at)

    def velocity(self, x: Any, p: Array) -> Array:
        """Inverse Legendre transform, shape=[n]; nan where Newton's method, for an ℓ not quadratic, finds none."""
        if self.metric is not None:
            return self.metric.sharp(p, x, self.parameters)
        guess = solve_spd(self.mass_matrix(x), p - self.momentum_at_rest(x))
        if self.is_quadratic:
            return guess
        xi, found = Newton().solve(lambda xi: self.momentum(x, xi) - p, guess)
        return jnp.where(found, xi, jnp.nan)

    def energy(self, x: Any, p: Array) -> Array:
        """H(x, p) = ⟨p, ξ⟩ − ℓ(x, ξ), scalar."""
        xi = self.velocity(x, p)
        return p @ xi - self.lagrangian(x, xi)

    def force(self, t: Array, x: Any, xi: Array, u: Any = None) -> Array:
        """External force f(t, x, ξ, u), shape=[n]; zero where there is none.

        Raises
        ------
        ValueError, TypeError
            If the user's function gives another shape, or cannot be evaluated; without controls u is None.
        """
        n = self.group.dim
        if self.forces is None:
            return jnp.zeros(n)
        extra = (self.parameters,) if self.forces_take_parameters else ()
        try:
            value = evaluated("forces", self.forces, t, x, xi, u, *extra)
        except (TypeError, ValueError) as error:
            if u is None and "None" in str(error) and not str(error).startswith("forces returned None"):
                raise TypeError(f"forces uses u, but there are no controls: controls= is needed ({error})") from error
            raise
        if value.shape != (n,):
            raise ValueError(f"forces must give a covector of shape ({n},) on {self.group}, got shape {value.shape}")
        return value

    def annihilator(self, x: Any) -> Array:
        """Annihilating forms μ(x), shape=[m, n]; m = 0 without constraints."""
        if self.distribution is None:
            return jnp.zeros((0, self.group.dim))
        return self.distribution.annihilator(x, self.parameters)

    def right_hand_side(self, x: Any) -> Array:
        """b(x) in μ(x)ξ = b(x), shape=[m]."""
        return jnp.zeros(0) if self.distribution is None else self.distribution.right_hand_side(x, self.parameters)

    def rows(self, x: Any) -> Array:
        """The rows that must stay independent along a run, of the forms or of the frame, shape=[k, n]."""
        if self.distribution is None:
            return self.annihilator(x)
        return self.distribution.degeneracy_rows(x, self.parameters)

    def constraint_residual(self, x: Any, xi: Array) -> Array:
        """μ(x)ξ − b(x), shape=[m]."""
        return self.annihilator(x) @ xi - self.right_hand_side(x)

    def normal_momentum(self, x: Any, p: Array) -> Array:
        """Q*(p − Π), shape=[n]: what a momentum Mξ has across the constraints."""
        if self.distribution is None:
            return jnp.zeros(self.group.dim)
        return self.distribution.normal_momentum(self.mass_matrix(x), p, x, self.parameters)

    def orthonormal_forms(self, x: Any) -> OrthonormalForms:
        """The constraint with forms that are orthonormal for M⁻¹."""
        return orthonormal_forms(self.mass_matrix(x), self.annihilator(x), self.right_hand_side(x))

    def projected_velocity(self, x: Any, xi: Array) -> Array:
        """Pξ + QY, shape=[n]: the velocity nearest to ξ in the kinetic metric that satisfies the constraints."""
        M = self.mass_matrix(x)
        return xi - solve_spd(M, self.normal_momentum(x, M @ xi))

    # --- starts --------------------------------------------------------------------------------------------
    @in_float64
    def project(self, g0: Any, xi0: Any) -> Any:
        """The velocity nearest to ``xi0`` (in the kinetic metric) that satisfies the constraints at ``g0``.

        Parameters
        ----------
        g0 : point of the group, or None for the identity
            Group element.
        xi0 : array_like, shape=[n]
            Velocity.

        Returns
        -------
        array, shape=[n]
            P ξ0 + QY.

        Raises
        ------
        ValueError
            If there is none: dependent constraints, or a metric that is not positive definite there.
        """
        x = self.action.at(self.point(g0))
        xi = jnp.asarray(as_float64(xi0, "xi0", (self.group.dim,)))
        M, rows = self.mass_matrix(x, xi), self.rows(x)
        if not is_traced(M, rows):
            fault = metric_fault(self, np.asarray(M), "at g0") or rank_fault(self.name, np.asarray(rows), "at g0")
            if fault:
                raise ValueError(fault)
        return self.projected_velocity(x, xi)

    def point(self, g: Any, *, on_group: bool = True, name: str = "g0") -> Point:
        """A group element from what a user writes: a point, nested lists, or None for the identity.

        Raises
        ------
        ValueError
            If it has not the structure and shapes of a point of the group, or (unless ``on_group`` is false) does not
            lie on it.
        """
        identity = self.group.identity()
        if g is None:
            return jax.tree.map(np.asarray, identity)
        structure, shapes = jax.tree.structure(identity), self.group.point_shapes
        expected = " × ".join(str(list(s)) for s in shapes)
        entries = list(g) if isinstance(identity, tuple) else [g]
        if len(entries) != len(shapes):
            raise ValueError(f"{name} must be a point of {self.group}, shapes {expected}; got {len(entries)} entries")
        leaves = [as_float64(e, name, tuple(s)) for e, s in zip(entries, shapes, strict=True)]
        point = jax.tree.unflatten(structure, leaves)
        if on_group and not is_traced(point):
            with float64(), jax.ensure_compile_time_eval():
                gap = float(self.group_defect(point))
            if not gap <= OFF_GROUP:
                raise ValueError(group_fault(self, point, gap, name))
        return point

    def group_defect(self, point: Point) -> Array:
        """Largest distance of an entry of a point from the nearest group element, scalar."""
        apart = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b), initial=0.0), self.group.project(point), point)
        return jnp.max(jnp.stack(jax.tree.leaves(apart)))

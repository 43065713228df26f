r"""Constraints of a system: rows, right-hand sides, projections and reactions.

    φ(x) = 0,  μ(x) ξ = b(x)

Holonomic constraints φ, of shape=[k], add their derivative along the motion, Gξ = 0 with G = ρ_x*d_xφ, as the first k
rows of μ. A system without constraints is one with m = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra import constrained as null_space
from geonh.algebra.constrained import Motion, constrained_by_products, has_small_null_space
from geonh.algebra.elimination import UNROLLED
from geonh.algebra.linear import OrthonormalForms, apart, orthonormal_forms, pivots, saddle, solve_spd
from geonh.algebra.newton import Newton
from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_float64
from geonh.engine import SIDE_BY_SIDE, computed, differentiated_as, in_float64, jacobian, traced_once
from geonh.geometry.distribution import rank_fault
from geonh.geometry.field import Moment
from geonh.geometry.velocity_constraints import VelocityConstraints
from geonh.groups.base import Point, tree_add
from geonh.mechanics.holonomic import LONGEST_WAY, from_afar
from geonh.mechanics.lagrangian import LagrangianSystem
from geonh.mechanics.redundancy import holding, with_known_rank, with_rank_near
from geonh.mechanics.soundness import metric_fault

NEAR = 1e-2
"""Change of a velocity, relative to its size, from which Newton's method finds the nearest one on constraints."""


ROUNDING = 4e-15
"""Difference of a momentum from that of a velocity ξ on the constraints, relative to |M||ξ|, that is rounding, for each
velocity: 42 of a train of wagons are off by up to 5e-14."""


class ConstrainedSystem(LagrangianSystem):
    """Lagrangian system with constraints, and its evaluation; for the arguments see ``System``."""

    def holonomic_residual(self, x: Any) -> Array:
        """φ(x), shape=[k]; k = 0 without holonomic constraints."""
        return jnp.zeros(0) if self.holonomic is None else self.holonomic(x, self.parameters)

    @traced_once
    def holonomic_rows(self, x: Any) -> Array:
        """G = ρ_x*d_xφ, shape=[k, n]: φ̇ = Gξ."""
        if self.holonomic is None:
            return jnp.zeros((0, self.group.dim))
        zero = jnp.zeros(self.group.dim)
        return jax.jacrev(lambda eta: self.holonomic_residual(tree_add(x, self.anchor(x, eta))))(zero)

    @traced_once
    def annihilator(self, x: Any) -> Array:
        """Annihilating forms μ(x), shape=[m, n], those of φ first; m = 0 without constraints."""
        if self.distribution is None:
            return self.holonomic_rows(x)
        forms = self.distribution.annihilator(x, self.parameters)
        return forms if self.holonomic is None else jnp.concatenate([self.holonomic_rows(x), forms])

    def right_hand_side(self, x: Any) -> Array:
        """b(x) in μ(x)ξ = b(x), shape=[m]; −∂φ/∂t for φ."""
        of_forms = jnp.zeros(0) if self.distribution is None else self.distribution.right_hand_side(x, self.parameters)
        if self.holonomic is None:
            return of_forms
        if not isinstance(x, Moment):
            return jnp.concatenate([jnp.zeros_like(self.holonomic_residual(x)), of_forms])
        moving = jax.jvp(self.holonomic_residual, (x,), (self.rate(x, jnp.zeros(self.group.dim)),))[1]
        return jnp.concatenate([-moving, of_forms])

    @traced_once
    def constraint_apart(self, x: Any) -> tuple[Array, Array]:
        """μ(x) and b(x) of the same constraint, shapes [m, n] and [m], with orthogonal rows, as of ``apart``."""
        held = self.holding(x)
        mu, b = apart(held.annihilator(x), held.right_hand_side(x)[:, None])
        return mu, b[:, 0]

    def with_rank_at(self, g0: Any, t0: Any = None) -> Any:
        """System that knows the number of its independent constraints at a point, as ``solve`` finds it at a start.

        Parameters
        ----------
        g0 : point of the group, or None for the identity
            Point, on the holonomic constraints.
        t0 : float, optional
            Time in seconds, for a system that depends on it; 0 when left out.

        Returns
        -------
        System
            The system itself if all constraints are independent, or anything is traced.

        Raises
        ------
        ValueError
            If constraints are dependent at the point only, contradict each other, or are as many as ``rank`` does not
            say.

        Warns
        -----
        UserWarning
            If constraints are redundant and ``rank`` is not given.
        """
        g, t = self.point(g0, on_group=False), 0.0 if t0 is None else t0
        return self if is_traced(self, g, t) else with_rank_near(self, as_float64(t, "t0", ()), g)

    def holding(self, x: Any) -> Any:
        """System with independent rows alone, chosen at the base point x; the system itself if all are independent."""
        return holding(self, x)

    def rows(self, x: Any) -> Array:
        """Rows whose rank must stay full along a run, of the forms or of the frame, shape=[k, n]."""
        if self.distribution is None or self.holonomic is not None:
            return self.annihilator(x)
        return self.distribution.degeneracy_rows(x, self.parameters)

    def joins(self, x: Any, y: Any) -> Array | bool:
        """False where the constraints are known to fail between base points x and y of a step, at which they hold.

        True unless a subclass has such a test.
        """
        return True

    def constraint_residual(self, x: Any, xi: Array) -> Array:
        """μ(x)ξ − b(x), shape=[m], those of φ first; ``xi`` of shape=[n]."""
        if self.holonomic is None:
            return self.nonholonomic_residual(x, xi)
        if self.is_nonlinear:
            alone = eqx.tree_at(lambda s: s.distribution, self, None)
            return jnp.concatenate([alone.constraint_residual(x, xi), self.nonholonomic_residual(x, xi)])
        return self.annihilator(x) @ xi - self.right_hand_side(x)

    def linear_at(self, xi: Array) -> Any:
        """System with the affine constraints to which nonlinear ones are equal, to first order, at a velocity,
        shape=[n]; the system itself if its constraints are linear or affine.
        """
        if not isinstance(self.distribution, VelocityConstraints):
            return self
        return eqx.tree_at(lambda s: s.distribution, self, self.distribution.at_velocity(xi))

    def reaction(self, x: Any, lam: Array) -> Array:
        """Constraint force μ(x)ᵀλ, shape=[n], of multipliers of shape=[m]."""

        def power(xi: Array) -> Array:
            rows = self.constraint_residual(x, xi)
            if np.shape(lam) != rows.shape:
                raise ValueError(f"lam must have shape {list(rows.shape)}, got {list(np.shape(lam))}")
            return lam @ rows

        return jax.grad(power)(jnp.zeros(self.group.dim))

    def nonholonomic_residual(self, x: Any, xi: Array) -> Array:
        """μ(x)ξ − b(x) of the distribution alone, shape=[m − k]; ``xi`` of shape=[n]."""
        if self.distribution is None:
            return jnp.zeros(0)
        return self.distribution.residual(xi, x, self.parameters)

    def velocity_along(self, x: Any, p: Array) -> Array:
        """Velocity ξ, shape=[n], of a momentum of shape=[n] of a velocity that satisfies the constraints; where forms
        are many they are imposed again, since by the mass matrix of a long chain of bodies they lose digits.
        """
        kinetic = p - self.momentum_at_rest(x)
        motion = self._motion(x, kinetic)
        if motion is None:
            return self.velocity(x, p)
        held = self.holding(x)
        by_matrix = null_space.constrained(self.mass_matrix(x), held.annihilator(x), kinetic, held.right_hand_side(x))
        return differentiated_as(motion.x, by_matrix)

    def velocity_at_node(self, x: Any, p: Array) -> Array:
        """Velocity ξ, shape=[n], of a momentum of shape=[n]; where forms are many, that on the constraints if p is its
        momentum to rounding: by the mass matrix of a long chain velocities lose more digits than momenta.
        """
        plain, kinetic = self.velocity(x, p), p - self.momentum_at_rest(x)
        motion = self._motion(x, kinetic)
        if motion is None:
            return plain
        held = self.holding(x)
        M, mu, right = self.mass_matrix(x), held.annihilator(x), held.right_hand_side(x)
        by_matrix = null_space.constrained(M, mu, kinetic, right)
        xi = differentiated_as(null_space.shifted(mu, mu, motion.x, right), by_matrix)
        off, size = kinetic - motion.image, jnp.abs(M) @ jnp.abs(motion.x)
        return jnp.where(off @ off <= (ROUNDING * p.size) ** 2 * (size @ size), xi, plain)

    def _motion(self, x: Any, kinetic: Array) -> Motion | None:
        """Velocity v that satisfies the constraints at x and Mv, equal to ``kinetic`` modulo their reactions, without
        the mass matrix; None where ``takes_momenta`` is false, or constraints are not given by forms.
        """
        if self.is_nonlinear or (self.distribution is not None and self.distribution.forms is None):
            return None
        held = self.holding(x)
        mu = held.annihilator(x)
        return self.solved_by_momenta(x, mu, kinetic, held.right_hand_side(x)) if self.takes_momenta(mu) else None

    def takes_momenta(self, mu: Array) -> bool:
        """True if equations with the rows μ, shape=[m, n], are solved by momenta of velocities along them, without the
        mass matrix.
        """
        m, n = mu.shape
        return self.metric is None and self.is_quadratic and m < n and has_small_null_space(m, n)

    def solved_by_momenta(self, x: Any, mu: Array, force: Array, right: Array) -> Motion:
        """v and Mv, with Mv − μᵀλ = force, μv = right; no derivative flows through them."""
        rest = self.momentum_at_rest(x)

        def momenta(rows: Array) -> Array:
            def momentum(a: Array) -> Array:
                return self.momentum(x, a @ rows) - rest

            return jacobian(momentum, jnp.zeros(len(rows)), together=SIDE_BY_SIDE).T

        return constrained_by_products(momenta, mu, force, right)

    def normal_momentum(self, x: Any, p: Array) -> Array:
        """Q*(p − Π), shape=[n]: the component of a momentum Mξ, shape=[n], normal to the constraints."""
        motion = self._motion(x, p)
        by_matrix = self._normal_momentum(x, p)
        return by_matrix if motion is None else differentiated_as(p - motion.image, by_matrix)

    def _normal_momentum(self, x: Any, p: Array) -> Array:
        self = self.holding(x)
        if self.holonomic is not None:
            mu = self.annihilator(x)
            return -mu.T @ saddle(self.mass_matrix(x), mu, p, self.right_hand_side(x))[1]
        if self.distribution is None:
            return jnp.zeros(self.group.dim)
        return self.distribution.normal_momentum(self.mass_matrix(x), p, x, self.parameters)

    def split_forms(self, x: Any) -> tuple[OrthonormalForms, OrthonormalForms]:
        """``orthonormal_forms`` in two parts: those of φ, shape=[k, n], and the nonholonomic ones orthogonal to them,
        shape=[m − k, n].
        """
        forms = self.orthonormal_forms(x)
        k = len(self.holonomic_residual(x)) if self.rank is None else self.rank.positions
        return OrthonormalForms(*(part[:k] for part in forms)), OrthonormalForms(*(part[k:] for part in forms))

    @traced_once
    def orthonormal_forms(self, x: Any) -> OrthonormalForms:
        """Orthonormal form Nξ = c of the constraint, for M⁻¹: N and NM⁻¹ of shape=[m, n], and c, shape=[m]."""
        held = self.holding(x)
        return orthonormal_forms(self.mass_matrix(x), held.annihilator(x), held.right_hand_side(x))

    def nonholonomic_part(self, x: Any, reaction: Array) -> Array:
        """Part of a reaction μᵀλ, shape=[n], that is orthogonal to the rows of φ in M⁻¹."""
        if self.holonomic is None:
            return reaction
        N, lifts, _ = self.split_forms(x)[1]
        return N.T @ (lifts @ reaction)

    def projected_velocity(self, x: Any, xi: Array) -> Array:
        """Pξ + QY, shape=[n]: the velocity nearest to ``xi``, shape=[n], in the kinetic metric, that satisfies the
        constraints.
        """
        if self.is_nonlinear:
            return self._nearest_velocity(x, xi)
        M = self.mass_matrix(x)
        by_matrix = xi - solve_spd(M, self._normal_momentum(x, M @ xi))
        motion = self._motion(x, self.momentum(x, xi) - self.momentum_at_rest(x))
        return by_matrix if motion is None else differentiated_as(motion.x, by_matrix)

    def _nearest_velocity(self, x: Any, xi: Array) -> Array:
        """Velocity on nonlinear constraints c(x, ξ) = 0 that is nearest to ``xi``; nan if none is found.

        Projections of ξ onto the constraints linearised at the velocity before, of which half of each step is taken,
        lead near it, and from there Newton's method for

            M(v − ξ) = (∂c/∂ξ)ᵀν,   c(x, v) = 0.
        """
        held, n, M = self.holding(x), self.group.dim, self.mass_matrix(x)
        begin = lax.stop_gradient(xi)

        def left(iteration: tuple) -> Array:
            count, v, change = iteration
            return (count < LONGEST_WAY) & (change @ change > (NEAR * NEAR) * (v @ v))

        def ahead(iteration: tuple) -> tuple:
            count, v, _ = iteration
            change = held.linear_at(v).projected_velocity(x, begin) - v
            return count + 1, v + change / 2, change

        def missing(z: Array) -> Array:
            here = held.linear_at(z[:n])
            return jnp.concatenate([M @ (z[:n] - xi) - here.reaction(x, z[n:]), here.constraint_residual(x, z[:n])])

        v = lax.while_loop(left, ahead, (0, begin, jnp.ones_like(begin)))[1]
        mu = held.linear_at(v).annihilator(x)
        nu = saddle(M, mu, jnp.zeros(n), mu @ (v - begin))[1]
        z, converged = Newton().solve(missing, jnp.concatenate([v, nu]))
        return jnp.where(converged, z[:n], jnp.nan)

    def multiplier_columns(self, t: Array, x: Any, xi: Array) -> Array | None:
        """C(t, x, ξ), shape=[n, m], of the forces Cλ that depend on the multipliers; None if none do."""
        if self.multiplier_forces is None:
            return None
        return self.multiplier_forces.columns(t, x, xi, self.right_hand_side(x), self.parameters)

    def mobility_at(self, t: Array, x: Any, xi: Array) -> Callable[[Array], Array]:
        """Accelerations of further forces, both of shape=[n], along the constraints at (t, x, ξ)."""
        system = self.holding(x).linear_at(xi)
        M, mu, columns = system.mass_matrix(x, xi), system.annihilator(x), system.multiplier_columns(t, x, xi)
        return lambda force: saddle(M, mu, force, jnp.zeros(len(mu)), columns)[0]

    def constrained(
        self, M: Array, mu: Array, force: Array, right: Array, columns: Array | None = None
    ) -> tuple[Array, Array]:
        """``saddle``; nan where M is a varying metric that is not positive definite.

        Its elimination yields the pivots of M anyway. Above ``UNROLLED`` dimensions it does not, and only nodes are
        checked; likewise for a non-quadratic ℓ, since its iterations pass through inadmissible velocities.
        """
        v, lam = saddle(M, mu, force, right, columns)
        if not self.metric_varies or not self.is_quadratic or len(M) > UNROLLED:
            return v, lam
        proper = jnp.all(pivots(M) > 0)
        return jnp.where(proper, v, jnp.nan), jnp.where(proper, lam, jnp.nan)

    # --- initial conditions --------------------------------------------------------------------------------
    @in_float64
    def project(self, g0: Any, xi0: Any, t0: Any = None) -> Any:
        """Projection of ``xi0`` (in the kinetic metric) onto the velocities that satisfy the constraints at ``g0``.

        Parameters
        ----------
        g0 : point of the group, or None for the identity
            Group element.
        xi0 : array_like, shape=[n]
            Velocity.
        t0 : float, optional
            Time in seconds, for a system that depends on it; 0 when left out.

        Returns
        -------
        xi : array, shape=[n]
            P ξ0 + QY. With holonomic constraints the pair (g, xi): ``project_position(g0)``, and the velocity
            there.

        Raises
        ------
        ValueError
            If it does not exist: dependent constraints, a metric that is not positive definite there, or no point near
            ``g0`` that satisfies the holonomic constraints.
        """
        xi = as_float64(xi0, "xi0", (self.group.dim,))
        t0 = as_float64(0.0 if t0 is None else t0, "t0", ())
        g = self.project_position(g0, t0)
        if is_traced(self, g0=g, xi0=xi, t0=t0):
            xi = self.projected_velocity(self.at(g, t0), xi)
        else:
            made = computed(_projection, self, (g, xi, t0))
            known = with_known_rank(self, t0, g, made.rows)
            made = made if known is self else computed(_projection, known, (g, xi, t0))
            fault = metric_fault(self, made.M, "at g0") or rank_fault(self.name, made.held, "at g0")
            if fault:
                raise ValueError(fault)
            xi = made.xi
        return xi if self.holonomic is None else (g, xi)

    @in_float64
    def project_position(self, g0: Any, t0: Any = None) -> Point:
        """A point near ``g0`` that satisfies the holonomic constraints φ = 0: ``g0`` itself if there are none.

        Newton steps g ← g exp(M⁻¹Gᵀν), of minimum norm in the kinetic metric, are taken until φ = 0 to rounding. In a
        trace it is one displacement along the normals at ``g0``, which leads to another point nearby.

        Parameters
        ----------
        g0 : point of the group, or None for the identity
            Initial guess.
        t0 : float, optional
            Time in seconds, for a system that depends on it; 0 when left out.

        Returns
        -------
        point of the group

        Raises
        ------
        ValueError
            If ``g0`` is not a point of the group, or the iteration does not converge.
        """
        g = self.point(g0)
        if self.holonomic is None:
            return g
        t = as_float64(0.0 if t0 is None else t0, "t0", ())
        return from_afar(self if is_traced(self, g, t) else with_rank_near(self, t, g), g, t)


class _Projection(NamedTuple):
    """Mass matrix, all rows and independent ones, and the velocity that satisfies the constraints."""

    M: Array
    rows: Array
    held: Array
    xi: Array


def _projection(system: ConstrainedSystem, node: tuple) -> _Projection:
    g, xi, t = node
    x = system.at(g, t)
    projected = system.projected_velocity(x, xi)
    M, system = system.mass_matrix(x, projected), system.linear_at(projected)
    return _Projection(M, system.rows(x), system.holding(x).rows(x), projected)

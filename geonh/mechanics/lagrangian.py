r"""Lagrangian, constraints and forces of a mechanical system on an action groupoid M ⋊ G, and their evaluation.

    p = ∂ℓ/∂ξ,  ẋ = ρ_x ξ,  ġ = g ξ,
    ṗ = ad*_ξ p + ρ_x* ∂ℓ/∂x + μ(x)ᵀλ + f,  μ(x) ξ = b(x)          (mathematics.md §2)

with ℓ = ½ξᵀM(x)ξ − V(x), or any hyperregular ℓ(x, ξ). All formulas of the library read a system through this class; a
system without constraints is one with m = 0. Holonomic constraints φ(x) = 0, of shape=[k], add their derivative along
the motion, Gξ = 0 with G = ρ_x*d_xφ, as the first k rows of μ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.elimination import UNROLLED
from geonh.algebra.linear import OrthonormalForms, apart, orthonormal_forms, pivots, saddle, solve_spd
from geonh.algebra.newton import Newton
from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_flag, as_float64, shortly
from geonh.engine import SIDE_BY_SIDE, Precise, as_numbers, computed, in_float64, jacobian, traced_once
from geonh.geometry.action import Action, GroupBase, ShapeBase
from geonh.geometry.distribution import AffineDistribution, Distribution, rank_fault
from geonh.geometry.field import Field, Moment, arguments, evaluated
from geonh.geometry.metric import BundleMetric
from geonh.groups import SE2, SO3, LieGroup, Product
from geonh.groups.base import Point, as_point, tree_add
from geonh.mechanics.holonomic import from_afar
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.redundancy import Rank, holding, with_known_rank, with_rank_near
from geonh.mechanics.soundness import OFF_GROUP, gap_of, group_fault, metric_fault

MANY = 16
"""Least number of velocities for which the columns of the Hessian of a Lagrangian are computed in a loop."""


class FirstIntegral(eqx.Module):
    """First integral of the continuous motion.

    Parameters
    ----------
    function : callable
        ``function(g, xi, p, parameters)`` → scalar or array, in ``jax.numpy``, of a point of the group, the velocity
        and the momentum, both of shape=[n].
    note : str
        Notes on its conservation, for ``geonh show`` and the docs (for instance "roundoff under GNI").
    momentum : str
        Momentum at a node used as p: "average" p̃ (with ξ̃) or "minus", the outgoing p⁻. ``System`` raises ValueError
        for other words.
    """

    function: Callable
    note: str = eqx.field(static=True, default="")
    momentum: str = eqx.field(static=True, default="average")

    def along(self, system: LagrangianSystem, g: Point, xi: Array, t: Any = None) -> Any:
        """Value on the continuous motion, p = ∂ℓ/∂ξ, a scalar or array as of ``function``; xi of shape=[n]."""
        return self.function(g, xi, system.momentum(system.at(g, t), xi), system.parameters)


class LagrangianSystem(Precise):
    """Lagrangian, distribution and forces over a base; for the arguments see ``System``."""

    group: LieGroup
    action: Action
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
    name: str = eqx.field(static=True)
    units: tuple[tuple[str, str], ...] = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True)
    """Drawing function; the motion does not depend on it."""

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        """Check the shapes of base points and vectors against the system's: the methods are those of a node."""
        if name == "x":
            return self._base_point(method, value, called)
        if name == "g" and method == "at":
            return self._node_point(value, called)
        if name == "point":
            return as_point(self.group, value, called)
        if name not in ("xi", "eta", "p", "reaction") or value is None:
            return super()._argument(method, name, value, called)
        value = as_numbers(value, called)
        if np.shape(value) != (self.group.dim,):
            raise ValueError(
                f"{called} must have shape [{self.group.dim}], got {list(np.shape(value))}; for many nodes use jax.vmap"
            )
        return value

    def _base_point(self, method: str, x: Any, called: str) -> Any:
        if isinstance(x, Moment):
            return x._replace(x=self._base_point(method, x.x, called))
        if isinstance(self.action, GroupBase):
            return self._node_point(x, called)
        x = super()._argument(method, "x", x, called)
        if isinstance(self.action, ShapeBase) and np.shape(x) != (len(self.action.names),):
            wanted = f"[{len(self.action.names)}], ({', '.join(self.action.names)})"
            raise ValueError(f"{called} must have shape {wanted}, got {list(np.shape(x))}; for many nodes use jax.vmap")
        return x

    def _node_point(self, x: Any, called: str) -> Any:
        x = as_point(self.group, x, called)
        leaves = jax.tree.leaves(x)
        if not isinstance(leaves[0], jax.core.Tracer) and any(
            np.shape(leaf) != shape for leaf, shape in zip(leaves, self.group.point_shapes, strict=True)
        ):
            raise ValueError(
                f"{called} must be a point of {self.group}, of shape "
                f"{', '.join(str(list(shape)) for shape in self.group.point_shapes)}, got {shortly(x)}; "
                "for many nodes use jax.vmap"
            )
        return x

    def __repr__(self) -> str:
        energy = "a metric" if self.metric is not None else "a Lagrangian"
        said = [
            energy if self.potential is None else f"{energy} and a potential",
            *(["holonomic constraints"] if self.holonomic is not None else []),
            *([("affine" if self.is_affine else "linear") + " constraints"] if self.distribution is not None else []),
            *(["no constraints"] if not self.is_constrained else []),
            *(["forces"] if self.forces is not None else []),
            *(["forces of the multipliers"] if self.multiplier_forces is not None else []),
            *([f"parameters {', '.join(map(str, self.parameters))}"] if self.parameters else []),
            *([f"first integrals {', '.join(self.first_integrals)}"] if self.first_integrals else []),
        ]
        return f"System {self.name!r} on {self.group}: {'; '.join(said)}"

    @property
    def is_timed(self) -> bool:
        """True if a function besides the forces depends on the time."""
        D = self.distribution
        fields = (
            None if self.given_metric is None else self.given_metric.field,
            self.potential,
            self.holonomic,
            *(getattr(D, name, None) for name in ("forms", "frame", "rhs", "drift")),
        )
        return self.lagrangian_is_timed or any(field is not None and field.timed for field in fields)

    @property
    def is_affine(self) -> bool:
        """True if the constraints are affine, μξ = b; those of φ(t, x) are."""
        moving = self.holonomic is not None and self.holonomic.timed
        return moving or isinstance(self.distribution, AffineDistribution)

    @property
    def is_constrained(self) -> bool:
        """True if there are constraints; without, m = 0 in all formulas."""
        return self.distribution is not None or self.holonomic is not None

    # --- the base, with a clock where a function depends on the time ---------------------------------------
    def at(self, g: Point, t: Any = None) -> Any:
        """The base point over g at time t (s): (t, x) if a function depends on the time, else x alone, as of
        ``Action.at``.

        Raises
        ------
        ValueError
            If the system depends on the time, and ``t`` is left out.
        """
        if not self.is_timed:
            return self.action.at(g)
        if t is None:
            raise ValueError(f"{self.name} depends on the time explicitly; this is for systems that do not")
        time = t if is_traced(t) else as_float64(t, "t", (), finite=False)
        return Moment(jnp.asarray(time, dtype=float), self.action.at(g))

    def act(self, x: Any, W: Point, dt: Any) -> Any:
        """Base point x·W after ``dt`` seconds, of a base point and a point of the group."""
        return Moment(x.t + dt, self.action.act(x.x, W)) if isinstance(x, Moment) else self.action.act(x, W)

    def anchor(self, x: Any, eta: Array) -> Any:
        """Tangent vector ρ_x η in the shapes of x, a virtual displacement at fixed time. ``eta`` of shape=[n]."""
        return (
            Moment(jnp.zeros(()), self.action.anchor(x.x, eta)) if isinstance(x, Moment) else self.action.anchor(x, eta)
        )

    def rate(self, x: Any, xi: Array) -> Any:
        """Velocity ẋ = ρ_x ξ in the shapes of x, along the motion, with the clock. ``xi`` of shape=[n]."""
        return self.anchor(x, xi)._replace(t=jnp.ones(())) if isinstance(x, Moment) else self.action.anchor(x, xi)

    def coanchor(self, function: Callable, x: Any) -> Array:
        """Covector ρ_xᵀ d(function)(x), shape=[n], at fixed time; of a scalar function of base points."""
        if isinstance(x, Moment):
            return self.action.coanchor(lambda y: function(Moment(x.t, y)), x.x)
        return self.action.coanchor(function, x)

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
        """External force f(t, x, ξ, u), shape=[n]; zero if there is none.

        Raises
        ------
        ValueError, TypeError
            If the user's function returns another shape, or cannot be evaluated; without controls u is None.
        """
        n = self.group.dim
        if self.forces is None:
            return jnp.zeros(n)
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
        return value

    def multiplier_columns(self, t: Array, x: Any, xi: Array) -> Array | None:
        """C(t, x, ξ), shape=[n, m], of the forces Cλ that depend on the multipliers; None if there are none."""
        if self.multiplier_forces is None:
            return None
        return self.multiplier_forces.columns(t, x, xi, self.right_hand_side(x), self.parameters)

    # --- constraints ---------------------------------------------------------------------------------------
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
        return self.annihilator(x) @ xi - self.right_hand_side(x)

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

    def normal_momentum(self, x: Any, p: Array) -> Array:
        """Q*(p − Π), shape=[n]: the component of a momentum Mξ, shape=[n], normal to the constraints."""
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
        M = self.mass_matrix(x)
        return xi - solve_spd(M, self.normal_momentum(x, M @ xi))

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
        if is_traced(self, g, xi, t0):
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

        Newton steps g ← g exp(M⁻¹Gᵀν), of minimum norm in the kinetic metric, are taken until φ = 0 to rounding.

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

    def point(self, g: Any, *, on_group: bool = True, name: str = "g0") -> Point:
        """Convert a user's input to a group element.

        Parameters
        ----------
        g : point of the group, nested lists, or None for the identity
            Input.
        on_group : bool
            True to require that it lies on the group to rounding.
        name : str
            Name of the argument in error messages.

        Returns
        -------
        point of the group
            As float64 arrays.

        Raises
        ------
        TypeError
            If it is not made of numbers.
        ValueError
            If it does not have the structure and shapes of a point of the group, or (unless ``on_group`` is false) does
            not lie on it.
        """
        identity, on_group = self.group.identity(), as_flag(on_group, "on_group")
        if g is None:
            return jax.tree.map(np.asarray, identity)
        structure, shapes = jax.tree.structure(identity), self.group.point_shapes
        expected = " × ".join(str(list(s)) for s in shapes)
        entries = list(g) if isinstance(identity, tuple) and isinstance(g, tuple | list) else [g]
        if len(entries) != len(shapes):
            kind = "a tuple of arrays of shapes" if isinstance(identity, tuple) else "an array of shape"
            raise ValueError(f"{name} must be a point of {self.group}, {kind} {expected}, got {shortly(g)}")
        factors = self.group.factors if isinstance(self.group, Product) else ()
        factors = factors if len(factors) == len(shapes) else (self.group,) * len(shapes)
        parts = [f"{name}[{i}]" for i in range(len(shapes))] if isinstance(identity, tuple) else [name]
        each = zip(entries, parts, shapes, factors, strict=True)
        leaves = [_entry(e, part, tuple(s), factor) for e, part, s, factor in each]
        point = jax.tree.unflatten(structure, leaves)
        if on_group and not is_traced(point):
            gap = float(computed(gap_of, self.group, point))
            if not gap <= OFF_GROUP:
                raise ValueError(group_fault(self, point, gap, name))
        return point

    def group_defect(self, point: Point) -> Array:
        """Largest distance of an entry of a point from the nearest group element, scalar."""
        return self.group.gap(point)


class _Projection(NamedTuple):
    """Mass matrix, all rows and independent ones, and the velocity that satisfies the constraints."""

    M: Array
    rows: Array
    held: Array
    xi: Array


def _projection(system: LagrangianSystem, node: tuple) -> _Projection:
    g, xi, t = node
    x = system.at(g, t)
    projected = system.projected_velocity(x, xi)
    return _Projection(system.mass_matrix(x, projected), system.rows(x), system.holding(x).rows(x), projected)


def _entry(value: Any, name: str, shape: tuple[int, ...], group: Any) -> Array:
    """Array of a point of a group; error messages suggest the conversion that applies."""
    try:
        return as_float64(value, name, shape)
    except ValueError as error:
        given = None
        with contextlib.suppress(Exception):
            given = np.shape(value)
        hint = ""
        if isinstance(group, SO3) and given == (4,):
            hint = "; geonh.groups.quaternion_to_matrix(q) makes a rotation matrix of a quaternion (w, x, y, z)"
        if isinstance(group, SE2) and given == (3, 3):
            hint = "; SE(2) has (θ, x, y) here: group.from_matrix(matrix)"
        raise ValueError(f"{error}{hint}") from None


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

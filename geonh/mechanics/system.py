r"""A mechanical system on an action groupoid M ⋊ G: Lagrangian, (affine) distribution, forces.

    p = ∂ℓ/∂ξ,  ẋ = ρ_x ξ,  ġ = g ξ,
    ṗ = ad*_ξ p + ρ_x* ∂ℓ/∂x + μ(x)ᵀλ + f,  μ(x) ξ = b(x)          (mathematics.md §2)

with ℓ = ½ξᵀM(x)ξ − V(x), or any hyperregular ℓ(x, ξ). Which M the functions live on is said by ``base``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.action import Action, make_action
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import Field, takes_parameters
from geonh.geometry.metric import BundleMetric
from geonh.groups import LieGroup, as_group
from geonh.groups.base import Point
from geonh.numerics.dependence import depends
from geonh.numerics.linear import solve_spd
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


class System(Precise):
    """A Lagrangian system with (affine) nonholonomic constraints and forces on a Lie group or a product.

    Parameters
    ----------
    space : LieGroup, geomstats manifold, or list of these
        The configuration space. A list is a product.
    metric : array_like, callable or BundleMetric, optional
        Kinetic energy matrix M in the algebra basis, shape=[n, n] (or its diagonal), constant or function of the base.
    lagrangian : callable, optional
        ℓ(x, ξ) or ℓ(x, ξ, parameters), hyperregular, instead of ``metric`` and ``potential``. Where it is quadratic in
        ξ (seen in its trace: the Hessian does not use ξ) it is treated so, its linear part as a gyroscopic term.
    distribution : Distribution or AffineDistribution, optional
        The constraints; none when left out.
    potential : callable, optional
        V(x) or V(x, parameters), joules.
    forces : callable, optional
        f(t, x, ξ, u) or f(t, x, ξ, u, parameters) → covector in g*, shape=[n]; u is the value of the controls.
    parameters : mapping, optional
        Numbers that the functions share; leaves of a pytree, so a sweep over them needs no recompilation.
    base : str, sequence of str or Action
        What the functions depend on: "group" (the default, always right): x is the group element; "point": nothing,
        x = (); "shape" or names of coordinates: these coordinates, x of shape=[k]; or an Action.
    first_integrals : mapping of str to FirstIntegral, optional
        Quantities that the motion keeps besides the energy.
    name : str
        What tables and files call it.

    Raises
    ------
    TypeError, ValueError
        For input that does not fit, naming the argument, its shape and the shape expected.

    Notes
    -----
    Functions get base points and return values in ``jax.numpy``; all derivatives are taken automatically.
    """

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

    def __init__(
        self,
        space: Any,
        *,
        metric: Any = None,
        lagrangian: Callable | None = None,
        distribution: Distribution | None = None,
        potential: Callable | None = None,
        forces: Callable | None = None,
        parameters: Mapping[str, Any] | None = None,
        base: str | Sequence[str] | Action = "group",
        first_integrals: Mapping[str, FirstIntegral] | None = None,
        name: str = "system",
    ):
        self.group = as_group(space)
        self.action = make_action(self.group, base)
        if (metric is None) == (lagrangian is None):
            raise TypeError("System takes either metric= (with potential=) or lagrangian=")
        if lagrangian is not None and potential is not None:
            raise TypeError("potential= goes with metric=; put it into lagrangian= instead")
        if distribution is not None and not isinstance(distribution, Distribution):
            raise TypeError(
                f"distribution must be a Distribution or an AffineDistribution, got {type(distribution).__name__}; "
                "write Distribution(forms=...)"
            )
        self.metric = metric if metric is None or isinstance(metric, BundleMetric) else BundleMetric(metric)
        self.potential = None if potential is None else Field(potential, "potential")
        self.lagrangian_function = lagrangian
        self.lagrangian_takes_parameters = lagrangian is not None and takes_parameters(lagrangian, 2, "lagrangian")
        self.distribution = distribution
        self.forces = forces
        self.forces_take_parameters = forces is not None and takes_parameters(forces, 4, "forces")
        self.parameters = _float64_leaves(parameters or {})
        self.first_integrals = dict(first_integrals or {})
        self.name = name
        self.is_quadratic = True
        if not is_traced(self):
            self._check_shapes()
        self.is_quadratic = lagrangian is None or self._is_quadratic()

    # --- the ingredients, evaluated ------------------------------------------------------------------------
    @property
    def space(self) -> Any:
        """The configuration space as a geomstats manifold, with the kinetic energy as its metric when there is one."""
        space = self.group.space()
        if self.metric is not None:
            from geonh.mechanics.kinetic_metric import KineticMetric

            space.equip_with_metric(KineticMetric, system=self)
        return space

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
            return self.lagrangian_function(x, xi, *extra)
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
        """Inverse Legendre transform, shape=[n]; for an ℓ that is not quadratic nan where Newton's method finds none."""
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
        """External force f(t, x, ξ, u), shape=[n]; zero where there is none."""
        if self.forces is None:
            return jnp.zeros(self.group.dim)
        extra = (self.parameters,) if self.forces_take_parameters else ()
        return jnp.asarray(self.forces(t, x, xi, u, *extra), dtype=float)

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
        """
        x = self.action.at(self.point(g0))
        return self.projected_velocity(x, jnp.asarray(as_float64(xi0, "xi0", (self.group.dim,))))

    def point(self, g: Any) -> Point:
        """A group element from what a user writes: a point, nested lists, or None for the identity.

        Raises
        ------
        ValueError
            If it has not the structure and shapes of a point of the group, or does not lie on it.
        """
        identity = self.group.identity()
        if g is None:
            return jax.tree.map(np.asarray, identity)
        structure, shapes = jax.tree.structure(identity), self.group.point_shapes
        expected = " × ".join(str(list(s)) for s in shapes)
        entries = list(g) if isinstance(identity, tuple) else [g]
        if len(entries) != len(shapes):
            raise ValueError(f"g0 must be a point of {self.group}, shapes {expected}; got {len(entries)} entries")
        leaves = [as_float64(e, "g0", tuple(s)) for e, s in zip(entries, shapes, strict=True)]
        point = jax.tree.unflatten(structure, leaves)
        if not is_traced(point):
            with float64():
                nearest = self.group.project(point)
                gap = max(
                    float(np.max(np.abs(np.asarray(a) - b)))
                    for a, b in zip(jax.tree.leaves(nearest), leaves, strict=True)
                )
            if not gap <= 1e-9:
                raise ValueError(f"g0 does not lie on {self.group}: it is {gap:.2g} away; pass a point of the group")
        return point

    def check(self, **options: Any) -> Any:
        """Test the system at random points; see ``geonh.mechanics.check.check_system``."""
        from geonh.mechanics.check import check_system

        return check_system(self, **options)

    def _is_quadratic(self) -> bool:
        """Whether the traced Hessian of ℓ in ξ does not use ξ, at a point of shapes alone."""
        with float64():
            x = jax.eval_shape(lambda: self.action.at(self.group.identity()))
            v = jax.ShapeDtypeStruct((self.group.dim,), np.float64)
            return not depends(lambda v, x: jax.hessian(lambda v: self.lagrangian(x, v))(v), v, x)

    def _check_shapes(self) -> None:
        """Evaluate every ingredient once at the identity, without computing, and say what does not fit."""
        n = self.group.dim
        x = jax.eval_shape(lambda: self.action.at(self.group.identity()))
        vector = jax.ShapeDtypeStruct((n,), np.float64)

        def expect(name: str, function: Callable, args: tuple, *shapes: tuple[int | None, ...]) -> Any:
            with float64():
                try:
                    closed = jax.make_jaxpr(function)(*args)
                except Exception as error:
                    raise ValueError(
                        f"{name} could not be evaluated at the identity of {self.group}: {error}"
                    ) from error
            got = closed.out_avals[0].shape
            if not any(len(got) == len(s) and all(b in (None, a) for a, b in zip(got, s, strict=True)) for s in shapes):
                wanted = " or ".join(str(tuple("k" if b is None else b for b in s)) for s in shapes)
                raise ValueError(f"{name} must give shape {wanted} on {self.group} (dimension {n}), got {got}")
            _refuse_float32(name, closed)
            return got

        with float64():
            x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, np.float64), x)
        if self.metric is not None:
            metric, potential = self.metric, self.potential
            expect("metric", lambda x: metric.field(x, self.parameters), (x,), (n, n), (n,))
            if potential is not None:
                expect("potential", lambda x: potential(x, self.parameters), (x,), ())
        else:
            expect("lagrangian", self.lagrangian, (x, vector), ())
        if self.distribution is not None:
            self._check_distribution(expect, x, n)

    def _check_distribution(self, expect: Callable, x: Any, n: int) -> None:
        D = self.distribution
        assert D is not None
        name = "forms" if D.forms is not None else "frame"
        m = expect(name, lambda x: D.degeneracy_rows(x, self.parameters), (x,), (None, n))[0]
        if m > n or (m == n and name == "forms"):
            raise ValueError(f"{name} has {m} rows on a group of dimension {n}; nothing would be left to move")
        if getattr(D, "rhs", None) is not None:
            expect("rhs", lambda x: D.rhs(x, self.parameters), (x,), (m,))  # type: ignore[attr-defined]
        if getattr(D, "drift", None) is not None:
            expect("drift", lambda x: D.drift(x, self.parameters), (x,), (n,))  # type: ignore[attr-defined]


def _float64_leaves(parameters: Any) -> Any:
    """Numbers of a pytree as float64 arrays, the rest as it is."""

    def convert(leaf: Any) -> Any:
        return leaf if callable(leaf) else as_float64(leaf, "parameters")

    return jax.tree.map(convert, dict(parameters))


def _refuse_float32(name: str, closed: Any) -> None:
    """Raise if a traced function carries single-precision data."""
    for variable in [*closed.jaxpr.constvars, *(v for eqn in closed.jaxpr.eqns for v in eqn.outvars)]:
        dtype = getattr(variable.aval, "dtype", None)
        if dtype is not None and np.issubdtype(dtype, np.floating) and np.dtype(dtype).itemsize < 8:
            raise TypeError(
                f"{name} computes with {np.dtype(dtype).name} data; a JAX array made outside geonh is float32 unless "
                "64-bit types are enabled: write its numbers as NumPy arrays or Python floats, or pass parameters="
            )

r"""Systems in spatial velocities: right trivialisation, as left trivialisation of the opposite group.

With η = ġ g⁻¹ = Ad_g ξ the system is one on Gᵒᵖ, over points of the group, with ℓ(g, Ad_{g⁻¹}η), forms μ Ad_{g⁻¹} and
covectors Ad_{g⁻¹}ᵀ f. Left translations of Gᵒᵖ are right translations of G: symmetries of the material, as of a
homogeneous ball, are symmetries of the system in spatial velocities.

mathematics.md §1.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.arguments.signatures import validated
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.groups.base import LieGroup, Point
from geonh.groups.opposite import Opposite
from geonh.groups.product import Product
from geonh.groups.translations import Torus, Translations
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.symmetry import refuse_unlike
from geonh.mechanics.system import System, replaced


@validated
def in_spatial_velocities(system: System) -> System:
    """Write a system in spatial velocities η = ġ g⁻¹ = Ad_g ξ, on the opposite group.

    Motions are the same paths g(t); a start has ``xi0 = system.group.Ad(g0) @ xi``. Symmetries of the material, right
    translations, are left translations there: ``symmetries`` and ``reduce`` find them. Applied to a system in spatial
    velocities it gives the one in body velocities.

    Parameters
    ----------
    system : System
        It may not depend on the time, besides by its forces, nor have constraints nonlinear in the velocity.

    Returns
    -------
    System
        On ``Opposite(system.group)``, or the product of the opposites of its factors, over the points of the group.

    Raises
    ------
    TypeError
        If ``system`` is no System.
    ValueError
        If it depends on the time, has constraints nonlinear in the velocity, or friction that depends on where a step
        begins.

    Examples
    --------
    A homogeneous ball does not distinguish its own points: with its inertia isotropic the Chaplygin sphere becomes the
    rolling ball of the catalogue.

    >>> import geonh as gn
    >>> sphere = gn.systems.chaplygin_sphere(J=[2.0, 2.0, 2.0])
    >>> ball = gn.mechanics.reduce(gn.mechanics.in_spatial_velocities(sphere)).system
    >>> print(ball.group)
    R² × SO(3)ᵒᵖ
    """
    refuse_unlike(system, "in_spatial_velocities")
    lagrangian = system.lagrangian_function is not None
    metric = system.hessian if lagrangian else system.metric
    return System(
        _opposite(system.group),
        metric=None if metric is None else _Metric(system),
        lagrangian=_Lagrangian(system) if lagrangian else None,
        potential=None if system.potential is None else _Same(system, "potential"),
        distribution=_distribution(system),
        holonomic=None if system.holonomic is None else _Same(system, "holonomic"),
        forces=None if system.forces is None else _Forces(system),
        multiplier_forces=None if system.multiplier_forces is None else _MultiplierForces(system),
        parameters=system.parameters,
        first_integrals={
            name: FirstIntegral(_Integral(system.group, integral.function), integral.note, integral.momentum)
            for name, integral in system.first_integrals.items()
        },
        draw=system.draw,
        name=system.name,
        units=dict(system.units),
        rank=_rank(system),
    )


def _opposite(group: LieGroup) -> LieGroup:
    if isinstance(group, Product):
        return replaced(group, factors=tuple(map(_opposite, group.factors)))
    return group if isinstance(group, Translations | Torus) else Opposite(group)


def _rank(system: System) -> Any:
    """Declared rank, as ``System`` takes it."""
    if system.rank is None:
        return None
    kinds = system.holonomic is not None, system.distribution is not None and system.distribution.forms is not None
    return tuple(number for number, kind in zip(system.rank, kinds, strict=True) if kind)


def _distribution(system: System) -> Distribution | None:
    D = system.distribution
    if D is None:
        return None
    given = {"forms": D.forms, "frame": D.frame}
    affine = {name: getattr(D, name, None) for name in ("rhs", "drift")}
    functions = {"forms": _Rows, "frame": _Vectors, "rhs": _Values, "drift": _Vectors}
    fields = {name: functions[name](system, name) for name, field in (given | affine).items() if field is not None}
    return (AffineDistribution if any(affine.values()) else Distribution)(**fields)


class _OfBodyVelocity(eqx.Module):
    """Function of a system whose velocities are those of the body."""

    system: Any

    def at(self, g: Point) -> Any:
        return self.system.action.at(g)

    def to_body(self, g: Point) -> Array:
        """Matrix Ad_{g⁻¹} of ξ = Ad_{g⁻¹}η."""
        return self.system.group.Ad(self.system.group.inverse(g))


class _Metric(_OfBodyVelocity):
    def __call__(self, g: Point, parameters: Any) -> Array:
        metric = self.system.metric if self.system.hessian is None else self.system.hessian
        A = self.to_body(g)
        return A.T @ metric.matrix(self.at(g), parameters) @ A


class _Lagrangian(_OfBodyVelocity):
    def __call__(self, g: Point, eta: Array, parameters: Any) -> Array:
        extra = (parameters,) if self.system.lagrangian_takes_parameters else ()
        return self.system.lagrangian_function(self.at(g), self.to_body(g) @ eta, *extra)


class _Same(_OfBodyVelocity):
    """Field without velocities."""

    name: str = eqx.field(static=True)

    def __call__(self, g: Point, parameters: Any) -> Array:
        return getattr(self.system, self.name)(self.at(g), parameters)


class _Values(_OfBodyVelocity):
    """Field of the distribution without velocities."""

    name: str = eqx.field(static=True)

    def __call__(self, g: Point, parameters: Any) -> Array:
        return getattr(self.system.distribution, self.name)(self.at(g), parameters)


class _Rows(_Values):
    """Rows that act on velocities."""

    def __call__(self, g: Point, parameters: Any) -> Array:
        return super().__call__(g, parameters) @ self.to_body(g)


class _Vectors(_Values):
    """Velocities, one or as rows."""

    def __call__(self, g: Point, parameters: Any) -> Array:
        return super().__call__(g, parameters) @ self.system.group.Ad(g).T


class _Forces(_OfBodyVelocity):
    def __call__(self, t: Array, g: Point, eta: Array, u: Any, parameters: Any) -> Array:
        extra = (parameters,) if self.system.forces_take_parameters else ()
        A = self.to_body(g)
        return A.T @ jnp.asarray(self.system.forces(t, self.at(g), A @ eta, u, *extra))


class _MultiplierForces(_OfBodyVelocity):
    def __call__(self, t: Array, g: Point, eta: Array, lam: Array, parameters: Any) -> Array:
        A = self.to_body(g)
        return A.T @ self.system.multiplier_forces.value(t, self.at(g), A @ eta, lam, parameters)


class _Integral(eqx.Module):
    """First integral, of a velocity η and a momentum in its dual."""

    body: LieGroup
    function: Any

    def __call__(self, g: Point, eta: Array, p: Array, parameters: Any) -> Any:
        return self.function(g, self.body.Ad(self.body.inverse(g)) @ eta, self.body.Ad(g).T @ p, parameters)

r"""Momentum maps of symmetries, and momenta of sections of g^D.

The default symmetries of a system on G are left translations g ↦ exp(tη)g: their infinitesimal
generator has the body components Ad_{g⁻¹}η, and their momentum map is the spatial momentum Ad*_{g⁻¹}p. An
action that is not a left translation (a turning table turns R² and the ball together) is given by its
``generators``, a function g ↦ X(g) of shape=[k, n] whose rows are the body components of the generators of k
elements of its algebra; the default is X(g) = Ad_{g⁻¹}ᵀ, one row Ad_{g⁻¹}e_a for each basis element of g. An
element of the algebra is then a vector η of shape=[k], its generator X(g)ᵀη, and a section of the bundle g^D
is a function g ↦ η(g) with X(g)ᵀη(g) ∈ D.

Source: Ferraro, Iglesias, Martín de Diego, *Momentum and energy preserving integrators for nonholonomic
dynamics*, Nonlinearity 21 (2008), section 4.5 (the bundle g^D, horizontal symmetries, Theorem 3, Corollary
4).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array

from geonh._former_paths import former_names
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.engine import call_in_numpy, in_float64
from geonh.geometry.field import guarded
from geonh.groups.base import LieGroup, Point, as_points, as_vectors
from geonh.mechanics.system import System

Generators = Callable[[Point], Array]
SymmetrySection = Callable[[Point], Array]


@validated
@in_float64
def spatial_momentum(group: LieGroup, g: Point, p: Array) -> Array:
    """Noether momentum of left translation, Ad*_{g⁻¹}p.

    Parameters
    ----------
    group : LieGroup
    g : point of the group, with leading axes [...]
        Group elements.
    p : array_like, shape=[..., n]
        Body momenta p = ∂ℓ/∂ξ.

    Returns
    -------
    array, shape=[..., n]
        In the dual basis of the algebra, in the units of ``p``.

    Raises
    ------
    TypeError
        If ``group`` is not a LieGroup, or the others are not made of numbers.
    ValueError
        If ``g`` or ``p`` have other shapes than the group's, or entries that are not finite.
    """
    return group.Ad_star(group.inverse(as_points(group, g, "g")), as_vectors(group, p, "p"))


@validated
@in_float64
def generator(group: LieGroup, g: Point, eta: Array) -> Array:
    """Body components g⁻¹·η_G(g) = Ad_{g⁻¹}η of the infinitesimal generator of left translation by exp(tη).

    Parameters
    ----------
    group : LieGroup
    g : point of the group, with leading axes [...]
        Group elements.
    eta : array_like, shape=[..., n]
        Elements of the algebra.

    Returns
    -------
    array, shape=[..., n]
        A velocity at g, in the algebra basis.

    Raises
    ------
    TypeError, ValueError
        As for ``spatial_momentum``.
    """
    return call_in_numpy(_generated, (group, as_points(group, g, "g"), as_vectors(group, eta, "eta")), {})


@validated
@in_float64
def momentum_map(system: System, g: Point, p: Array, eta: Any, *, generators: Generators | None = None) -> Array:
    """Momentum map ⟨p, X(g)ᵀη⟩ of a symmetry; for left translations ⟨p, Ad_{g⁻¹}η⟩.

    Parameters
    ----------
    system : System
    g : point of the group, with leading axes [...]
        Group elements.
    p : array_like, shape=[..., n]
        Momenta. Along a run of GNI, p⁺ and p⁻ give the same for a horizontal symmetry, and p⁺ the discrete
        momentum map ⟨D₂L_d(q_{k−1}, q_k), η_Q(q_k)⟩ for any.
    eta : array_like, shape=[k]
        Element of the algebra of the symmetry group (k = n for left translations).
    generators : callable, optional
        g ↦ X(g), shape=[k, n], in ``jax.numpy``, of an action that is not a left translation.

    Returns
    -------
    array, shape=[...]
        In the units of ``p`` times that of η: N·m·s for a rotation in radians, N·s for a translation in metres.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``g`` or ``p`` have other shapes than the system's, ``generators`` do not return [k, n], or ``eta`` does not
        have one component for each of them.
    """
    constant = jax.tree_util.Partial(_constant, as_float64(eta, "eta"))
    return _along(system, constant, generators, g, p, "eta")


@validated
@in_float64
def nonholonomic_momentum(
    system: System, g: Point, p: Array, section: SymmetrySection, *, generators: Generators | None = None
) -> Array:
    """Nonholonomic momentum ⟨p, X(g)ᵀη(g)⟩ of a section of g^D; the discrete one is that of p = p⁺.

    Source: Ferraro, Iglesias & Martín de Diego, Nonlinearity 21 (2008), section 4.5.

    Parameters
    ----------
    system : System
    g : point of the group, with leading axes [...]
        Group elements.
    p : array_like, shape=[..., n]
        Momenta.
    section : callable
        g ↦ η(g), shape=[k], written in jax.numpy, of single group elements; ``horizontality`` tests that
        it lies in g^D.
    generators : callable, optional
        As in ``momentum_map``.

    Returns
    -------
    array, shape=[...]
        In the units of ``p`` times that of η.

    Raises
    ------
    TypeError, ValueError
        As for ``momentum_map``, of ``section`` as of ``eta``.
    """
    return _along(system, section, generators, g, p)


@validated
@in_float64
def horizontality(system: System, g: Point, section: SymmetrySection, *, generators: Generators | None = None) -> Array:
    """Residual μ(x)X(g)ᵀη(g) of a section: zero where the section lies in g^D.

    Parameters
    ----------
    system : System
    g : point of the group, with leading axes [...]
        Group elements.
    section : callable
        As in ``nonholonomic_momentum``: g ↦ η(g), shape=[k].
    generators : callable, optional
        As in ``momentum_map``: g ↦ X(g), shape=[k, n].

    Returns
    -------
    array, shape=[..., m]
        With m = 0 without constraints.

    Raises
    ------
    TypeError, ValueError
        As for ``nonholonomic_momentum``.
    """
    return untraced(_off, (system, section, generators), as_points(system.group, g, "g"))


@validated
@in_float64
def moving_energy(
    system: System, g: Point, p: Array, section: SymmetrySection, *, generators: Generators | None = None
) -> Array:
    """Moving energy H(x, p) − ⟨p, X(g)ᵀη(g)⟩ of a system with affine constraints.

    It is conserved by the continuous motion if the vector field X(g)ᵀη(g) is a section of the affine distribution
    up to D, and a symmetry of ℓ; for a ball on a table that turns at the rate Ω it is the rotation of table
    and ball together.

    Parameters
    ----------
    system : System
    g : point of the group, with leading axes [...]
        Group elements.
    p : array_like, shape=[..., n]
        Momenta.
    section : callable
        g ↦ η(g), shape=[k], as in ``nonholonomic_momentum``, but with the generator in the affine distribution.
    generators : callable, optional
        As in ``momentum_map``: g ↦ X(g), shape=[k, n].

    Returns
    -------
    array, shape=[...]
        Joules.

    Raises
    ------
    TypeError, ValueError
        As for ``nonholonomic_momentum``.
    """
    g, p = as_points(system.group, g, "g"), as_vectors(system.group, p, "p")
    return untraced(_moving, (system, section, generators), g, p)


def generators_or_default(system: System, generators: Generators | None) -> Generators:
    group = system.group
    if generators is None:
        return lambda g: jnp.swapaxes(group.Ad(group.inverse(g)), -1, -2)

    def X(g: Point) -> Array:
        rows = guarded("generators", generators, g)
        if rows.ndim != 2 or rows.shape[1] != group.dim:
            raise ValueError(f"generators must give shape [k, {group.dim}] on {group}, got {list(rows.shape)}")
        return rows

    return X


def element_of(X: Array, section: SymmetrySection, g: Point, name: str) -> Array:
    """Value η(g), with as many components as there are generators."""
    eta = guarded(name, section, g)
    if eta.shape != X.shape[:1]:
        raise ValueError(f"{name} must be of shape [{len(X)}], one component for each generator, got {list(eta.shape)}")
    return eta


def _along(
    system: System, section: SymmetrySection, generators: Generators | None, g: Point, p: Array, name: str = "section"
) -> Array:
    """⟨p, X(g)ᵀη(g)⟩ over leading axes."""
    at = as_points(system.group, g, "g"), as_vectors(system.group, p, "p")
    return untraced(_paired, (system, section, generators, name), *at)


# --- evaluation of user functions ----------------------------------------------------------------------
def untraced(function: Callable, what: tuple, *at: Any) -> Array:
    """Evaluate without compiling; functions local to this call are traced in each, as they may read mutable state."""
    has_functions = any(isinstance(x, FunctionType) for x in what)
    return call_in_numpy(function, (what, *at), {}, kept=not has_functions)


def _constant(eta: Array, g: Point) -> Array:
    return jnp.asarray(eta)


def _paired(what: tuple, g: Point, p: Array) -> Array:
    system, section, generators, name = what
    X = generators_or_default(system, generators)
    return system.group.batched(lambda g, p: p @ (X(g).T @ element_of(X(g), section, g, name)), g, p, ndims=(None, 1))


def _off(what: tuple, g: Point) -> Array:
    system, section, generators = what
    X = generators_or_default(system, generators)

    def single(g: Point) -> Array:
        return system.annihilator(system.at(g)) @ (X(g).T @ element_of(X(g), section, g, "section"))

    return system.group.batched(single, g)


def _moving(what: tuple, g: Point, p: Array) -> Array:
    system = what[0]
    energy = system.group.batched(lambda g, p: system.energy(system.at(g), p), g, p, ndims=(None, 1))
    return energy - _paired((*what, "section"), g, p)


def _generated(group: LieGroup, g: Point, eta: Array) -> Array:
    return jnp.einsum("...ij,...j->...i", group.Ad(group.inverse(g)), eta)


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)

r"""Momentum maps and symmetries, continuous and discrete.

The default symmetries of a system on G are left translations g ↦ exp(tη)g: their infinitesimal
generator has the body components Ad_{g⁻¹}η, and their momentum map is the spatial momentum Ad*_{g⁻¹}p. An
action that is not a left translation (a turning table turns R² and the ball together) is given by its
``generators``, a function g ↦ X(g) of shape=[k, n] whose rows are the body components of the generators of k
elements of its algebra; the default is X(g) = Ad_{g⁻¹}ᵀ, one row Ad_{g⁻¹}e_a for each basis element of g. An
element of the algebra is then a vector η of shape=[k], its generator X(g)ᵀη, and a section of the bundle g^D
is a function g ↦ η(g) with X(g)ᵀη(g) ∈ D.

A vector field with body components X moves a velocity by δξ = D_ξX + ad_ξ X, where D_ξ is the derivative
along g ξ̂; for left translations δξ = 0.

Source: Ferraro, Iglesias, Martín de Diego, *Momentum and energy preserving integrators for nonholonomic
dynamics*, Nonlinearity 21 (2008), section 4.5 (the bundle g^D, horizontal symmetries, Theorem 3, Corollary
4).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle_inverses
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_count, as_float64, as_part
from geonh.engine import call_in_numpy, in_float64, in_numpy
from geonh.geometry.field import evaluated
from geonh.groups.base import LieGroup, Point, as_points, as_vectors
from geonh.mechanics.system import System

Generators = Callable[[Point], Array]
SymmetrySection = Callable[[Point], Array]


# --- momentum maps -----------------------------------------------------------------------------------------
@judged
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


@judged
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


@judged
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


@judged
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


@judged
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


@judged
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


# --- symmetries --------------------------------------------------------------------------------------------
@judged
@in_float64
def symmetries(
    system: System,
    *,
    generators: Generators | None = None,
    samples: int = 16,
    seed: int = 0,
    tol: float = 1e-9,
) -> Array:
    """Infinitesimal symmetries: the η that leave ℓ, the (affine) distribution and φ invariant.

    Parameters
    ----------
    system : System
        The system. External forces are ignored.
    generators : callable, optional
        g ↦ X(g), shape=[k, n], of an action whose elements are searched; left translations when left out.
    samples : int
        Number of random group elements and velocities at which invariance is tested; of bounded coordinates,
        so that invariance is tested near the identity.
    seed : int
        Seed of the random numbers.
    tol : float
        Changes below ``tol``, relative to the sizes of ℓ and of the distribution, count as zero.

    Returns
    -------
    array, shape=[s, k]
        Rows that are a basis of the algebra of symmetries, in reduced echelon form; s = 0 if there are none.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``samples`` is not positive, ``generators`` do not return [k, n], or the system is not finite at a random
        point.
    """

    def change(g: Point, xi: Array, scale: Array) -> Array:
        return jnp.concatenate([_change_of_lagrangian(system, X, g, xi) / scale, _change_of_constraints(system, X, g)])

    X = generators_or_default(system, generators)
    return _null_space(system, change, samples, seed, tol)


@judged
@in_float64
def horizontal_symmetries(
    system: System,
    *,
    generators: Generators | None = None,
    samples: int = 16,
    seed: int = 0,
    tol: float = 1e-9,
) -> Array:
    """Horizontal symmetries: the η that leave ℓ invariant and whose generators lie in D everywhere.

    GNI conserves ⟨p^±, X(g)ᵀη⟩ of these to rounding. The constraints themselves need not be invariant.

    Source: Ferraro, Iglesias & Martín de Diego, Nonlinearity 21 (2008), section 4.5, Corollary 4.

    Parameters
    ----------
    system : System
        The system. Without constraints every symmetry is horizontal (Noether).
    generators : callable, optional
        As in ``symmetries``: g ↦ X(g), shape=[k, n].
    samples, seed : int
        As in ``symmetries``.
    tol : float
        As in ``symmetries``.

    Returns
    -------
    array, shape=[s, k]
        Rows that are a basis, in reduced echelon form.

    Raises
    ------
    TypeError, ValueError
        As for ``symmetries``.
    """

    def change(g: Point, xi: Array, scale: Array) -> Array:
        invariance = _change_of_lagrangian(system, X, g, xi) / scale
        if not system.is_constrained:
            return invariance
        return jnp.concatenate([invariance, across(system, jnp.eye(system.group.dim), system.at(g)) @ X(g).T])

    X = generators_or_default(system, generators)
    return _null_space(system, change, samples, seed, tol)


def _change_of_lagrangian(system: System, X: Generators, g: Point, xi: Array) -> Array:
    """Derivative of ℓ along each generator's lift to velocities, shape=[1, k]."""

    def along(field: Callable[[Point], Array]) -> Array:
        moved_g = system.group.left_tangent(g, field(g))
        moved_xi = _derivative(system, field, g, xi) + system.group.bracket(xi, field(g))
        return jax.jvp(lambda g, xi: system.lagrangian(system.at(g), xi), (g, xi), (moved_g, moved_xi))[1]

    return _each(X, g, along)[None]


def _change_of_constraints(system: System, X: Generators, g: Point) -> Array:
    """Lie derivatives of the projector P, of the section Y and of φ along each generator, shape=[…, k]."""
    n = system.group.dim
    if not system.is_constrained:
        return jnp.zeros((0, X(g).shape[0]))

    def projector(g: Point) -> Array:
        x = system.at(g)
        return jnp.eye(n) - across(system, system.mass_matrix(x), x)

    def drift(g: Point) -> Array:
        return system.projected_velocity(system.at(g), jnp.zeros(n))

    P, Y = projector(g), drift(g)
    size = jnp.sqrt(1.0 + jnp.sum(Y * Y))

    def along(field: Callable[[Point], Array]) -> Array:
        A = jax.vmap(lambda v: _derivative(system, field, g, v) + system.group.bracket(v, field(g)))(jnp.eye(n)).T
        turned_P = _derivative(system, projector, g, field(g)) + P @ A - A @ P
        turned_Y = _derivative(system, drift, g, field(g)) - A @ Y
        return jnp.concatenate([turned_P.ravel(), turned_Y / size])

    return jnp.concatenate([_each(X, g, along).T, system.holonomic_rows(system.at(g)) @ X(g).T])


def across(system: System, M: Array, x: Any) -> Array:
    """Projector onto D^⊥ in a metric M, with the rows of φ among those of D, shape=[n, n]."""
    if system.holonomic is None:
        assert system.distribution is not None
        return system.holding(x).distribution.Q(M, x, system.parameters)
    mu, _ = system.constraint_apart(x)
    _, raised, schur = saddle_inverses(M, mu)
    return raised @ schur @ mu


def _each(X: Generators, g: Point, along: Callable) -> Array:
    """Apply ``along`` to the k fields g ↦ X(g)[a], stacked on the first axis."""
    return jax.vmap(lambda row: along(lambda g: row @ X(g)))(jnp.eye(X(g).shape[0]))


def _derivative(system: System, function: Callable[[Point], Array], g: Point, xi: Array) -> Array:
    """D_ξ of a function of the group element: d/dε function(g exp(εξ)) at ε = 0."""
    return jax.jvp(function, (g,), (system.group.left_tangent(g, xi),))[1]


def generators_or_default(system: System, generators: Generators | None) -> Generators:
    group = system.group
    if generators is None:
        return lambda g: jnp.swapaxes(group.Ad(group.inverse(g)), -1, -2)

    def X(g: Point) -> Array:
        rows = evaluated("generators", generators, g)
        if rows.ndim != 2 or rows.shape[1] != group.dim:
            raise ValueError(f"generators must give shape [k, {group.dim}] on {group}, got {list(rows.shape)}")
        return rows

    return X


def element_of(X: Array, section: SymmetrySection, g: Point, name: str) -> Array:
    """Value η(g), with as many components as there are generators."""
    eta = evaluated(name, section, g)
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


def _null_space(system: System, change: Callable, samples: int, seed: int, tol: float) -> Array:
    """Common kernel, in reduced echelon form, of ``change(g, ξ, scale)``, shape=[r, k], at random g and ξ."""
    samples = as_count(samples, "samples")
    tol = as_part(tol, "tol")
    rng = np.random.default_rng(as_count(seed, "seed", 0))
    n = system.group.dim

    def changes(coordinates: Array, xi: Array) -> Array:
        g = jax.vmap(system.group.exp)(coordinates)
        sizes = jax.vmap(lambda g, xi: system.lagrangian(system.at(g), xi))(g, xi)
        return jax.vmap(change, in_axes=(0, 0, None))(g, xi, jnp.sqrt(jnp.mean(sizes**2)))

    at = rng.uniform(-1.0, 1.0, (samples, n)), rng.uniform(-1.0, 1.0, (samples, n))
    rows = in_numpy(changes, *at)(*at)
    rows = rows.reshape(-1, rows.shape[-1])
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{system.name} is not finite at some of the random points; another seed may avoid them")
    _, singular, directions = np.linalg.svd(
        np.linalg.qr(rows, mode="r")
    )  # the left factor is as large as rows, squared
    rank = int(np.sum(singular > tol * max(1.0, singular[0])))
    return jnp.asarray(_echelon(directions[rank:]))


def _echelon(rows: np.ndarray) -> np.ndarray:
    """Reduced row echelon form of independent rows, a canonical basis."""
    rows, done = rows.copy(), 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-8:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column][:, None] * rows[done]
        done += 1
    return np.where(np.abs(rows) < 1e-12, 0.0, rows)

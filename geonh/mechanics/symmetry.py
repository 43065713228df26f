r"""Infinitesimal symmetries of a system, and horizontal ones, as a null space at random points.

A vector field with body components X (``momentum.py``) moves a velocity by δξ = D_ξX + ad_ξ X, where D_ξ is the
derivative along g ξ̂; for left translations δξ = 0.

Source: Ferraro, Iglesias, Martín de Diego, *Momentum and energy preserving integrators for nonholonomic
dynamics*, Nonlinearity 21 (2008), section 4.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.echelon import echelon
from geonh.algebra.linear import saddle_inverses
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_part
from geonh.engine import in_float64, in_numpy
from geonh.groups.base import Point
from geonh.mechanics.momentum import Generators, generators_or_default
from geonh.mechanics.system import System

SOME_TIME = 0.37
"""Time, s, at which forces are tested."""


@validated
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
        return _changes(system, X, g, xi, scale)

    X = generators_or_default(system, generators)
    return _null_space(system, change, samples, seed, tol)


@in_float64
def symmetries_with_forces(system: System, generators: Generators | None = None) -> Array:
    """Left translations among ``symmetries`` that leave the forces invariant too, with some value of the controls.

    Forces of controls that are no number, nor a vector of at most n, are not tested.
    """

    def change(g: Point, xi: Array, scale: Array) -> Array:
        moved = _each(
            X, g, lambda field: jax.jvp(lambda g: force(g, xi), (g,), (system.group.left_tangent(g, field(g)),))[1]
        )
        return jnp.concatenate([_changes(system, X, g, xi, scale), moved.T])

    def force(g: Point, xi: Array) -> Array:
        x, t = system.at(g), jnp.full((), SOME_TIME)
        of_forces = system.force(t, x, xi, controls) if tested else jnp.zeros(0)
        if system.multiplier_forces is None:
            return of_forces
        lam = jnp.ones(len(system.annihilator(x)))
        return jnp.concatenate([of_forces, system.multiplier_forces.value(t, x, xi, lam, system.parameters)])

    X = generators_or_default(system, generators)
    tested, controls = some_controls(system)
    return _null_space(system, change, 16, 0, 1e-9)


def symmetries_among(system: System, rows: np.ndarray) -> np.ndarray:
    """Rows that span the ``symmetries_with_forces`` in the span of some left translations, shape=[s, n]."""
    X = generators_or_default(system, None)
    return np.asarray(symmetries_with_forces(system, lambda g: jnp.asarray(rows) @ X(g))) @ rows


def refuse_asymmetric(system: System, rows: np.ndarray) -> None:
    """Raise ValueError unless rows, shape=[s, n], of left translations leave a system and its forces invariant."""
    if len(symmetries_among(system, rows)) != len(rows):
        raise ValueError(
            f"symmetry has elements that are not symmetries of {system.name} and its forces; mechanics.symmetries "
            "finds those of all but the forces"
        )


def some_controls(system: System) -> tuple[bool, Array | None]:
    """Controls with which forces can be computed, None if they need none; False first if none were found."""
    n = system.group.dim

    def force(u: Array | None) -> Array:
        return system.force(jnp.full((), SOME_TIME), system.at(system.group.identity()), jnp.zeros(n), u)

    for u in (None, *(0.3 + 1 / (1 + jnp.arange(size)) for size in range(n, 0, -1)), jnp.full((), 0.7)):
        try:
            if jax.eval_shape(force, u).shape == (n,):
                return True, u
        except (TypeError, ValueError, IndexError):
            continue
    return False, None


def _changes(system: System, X: Generators, g: Point, xi: Array, scale: Array) -> Array:
    return jnp.concatenate([change_of_lagrangian(system, X, g, xi) / scale, _change_of_constraints(system, X, g)])


@validated
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
        invariance = change_of_lagrangian(system, X, g, xi) / scale
        if not system.is_constrained:
            return invariance
        return jnp.concatenate([invariance, across(system, jnp.eye(system.group.dim), system.at(g)) @ X(g).T])

    X = generators_or_default(system, generators)
    return _null_space(system, change, samples, seed, tol)


def refuse_unlike(system: System, name: str) -> None:
    """Raise ValueError, with the function's name, if functions of a system are not those of base points alone."""
    for unlike, how in (
        (system.is_timed, "depends on the time"),
        (system.is_nonlinear, "has constraints nonlinear in the velocity"),
        (
            system.multiplier_forces is not None and system.multiplier_forces.is_held,
            "has friction that depends on where a step begins",
        ),
    ):
        if unlike:
            raise ValueError(f"{system.name} {how}: {name} is for others")


def change_of_lagrangian(system: System, X: Generators, g: Point, xi: Array) -> Array:
    """Derivative of ℓ along each generator's lift to velocities, shape=[1, k]."""

    def along(field: Callable[[Point], Array]) -> Array:
        moved_g = system.group.left_tangent(g, field(g))
        moved_xi = derivative_along(system, field, g, xi) + system.group.bracket(xi, field(g))
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
        A = jax.vmap(lambda v: derivative_along(system, field, g, v) + system.group.bracket(v, field(g)))(jnp.eye(n)).T
        turned_P = derivative_along(system, projector, g, field(g)) + P @ A - A @ P
        turned_Y = derivative_along(system, drift, g, field(g)) - A @ Y
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


def derivative_along(system: System, function: Callable[[Point], Array], g: Point, xi: Array) -> Array:
    """D_ξ of a function of the group element: d/dε function(g exp(εξ)) at ε = 0."""
    return jax.jvp(function, (g,), (system.group.left_tangent(g, xi),))[1]


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
        raise ValueError(
            f"symmetries are tested at random points near the identity, and {system.name} is not finite at some of them"
        )
    _, singular, directions = np.linalg.svd(
        np.linalg.qr(rows, mode="r")
    )  # the left factor is as large as rows, squared
    rank = int(np.sum(singular > tol * max(1.0, singular[0])))
    return jnp.asarray(echelon(directions[rank:]))

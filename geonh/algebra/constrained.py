"""Linear systems of many constraints, solved in the null space of their rows, each as one primitive.

With rows μ, shape=[m, n], of which QR decomposition μᵀ = QR by Householder's reflections gives the null space, its
basis Z of n − m orthonormal rows, solutions are x = μ⁺b + Zᵀa with n − m unknowns a, where elimination has n + m. The
rows need not be orthogonalized: only digits along nearly parallel ones are lost, never those along the null space.
M is needed for n − m + 1 vectors alone, so that its products may be given in its place (``constrained_by_products``).
They keep digits too: entries of M of a long chain of bodies are the moments of inertia of all of it, which cancel in
Zᵀa.

Source: Benzi, Golub, Liesen, *Numerical solution of saddle point problems*, Acta Numerica 14 (2005), §6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.elimination import eliminated
from geonh.engine import Named
from geonh.engine.internals import ad

MANY = 7
"""Least number of rows for which the null space is used."""


def has_small_null_space(m: int, n: int) -> bool:
    """True where m rows of n entries leave so few unknowns that it takes less arithmetic to solve for those."""
    return m >= MANY and 2 * (n - m) <= m


@Named
def constrained(M: Array, mu: Array, force: Array, right: Array) -> Array:
    """x, shape=[n], with Mx − μᵀλ = force and μx = right for some λ; M symmetric and positive definite."""
    m, n = mu.shape
    matrix = jnp.concatenate([jnp.concatenate([M, mu.T], axis=1), jnp.concatenate([mu, jnp.zeros((m, m))], axis=1)])
    return jnp.linalg.solve(matrix, jnp.concatenate([force, right]))[:n]


@Named
def free_motions(mu: Array, right: Array) -> Array:
    """Orthonormal rows of the null space of μ, and after them the least x with μx = right, shape=[n − m + 1, n]."""
    null = jnp.linalg.qr(mu.T, mode="complete")[0][:, len(mu) :].T
    return jnp.concatenate([null, jnp.linalg.lstsq(mu, right)[0][None]])


class Motion(NamedTuple):
    """x and Mx, each of shape=[n], of a solution of Mx − μᵀλ = force and μx = right."""

    x: Array
    image: Array


def constrained_by_products(products: Callable[[Array], Array], mu: Array, force: Array, right: Array) -> Motion:
    """``constrained``, with MX of rows X, both of shape=[k, n], in place of M; no derivative flows through it."""
    mu, force, right = lax.stop_gradient((mu, force, right))
    motions = free_motions(mu, right)
    images, basis = lax.stop_gradient(products(motions)), motions[:-1]
    right = basis @ (force - images[-1])
    a = eliminated(basis @ images[:-1].T, right[:, None], symmetric=True)[:, 0]
    return Motion(motions[-1] + a @ basis, images[-1] + a @ images[:-1])


@Named
def multipliers(mu: Array, force: Array) -> Array:
    """λ, shape=[m], with μᵀλ = force, of shape=[n] and in the span of the rows."""
    return jnp.linalg.solve(mu @ mu.T, mu @ force)


@Named
def shifted(mu: Array, along: Array, x: Array, right: Array) -> Array:
    """x + Nᵀκ, shape=[n], with μ(x + Nᵀκ) = right, for rows N = ``along``, shape=[m, n], such as μ at a near point."""
    return x + along.T @ jnp.linalg.solve(mu @ along.T, right - mu @ x)


@Named
def oriented_null_space(mu: Array) -> Array:
    """Orthonormal rows Z, shape=[n − m, n], n > m, orthogonal to those of μ and oriented by them: det[μ; Z] > 0.

    So det Z₀Z₁ᵀ of two matrices is the cosine between the spans of their rows, as det N₀N₁ᵀ of their orthonormalised
    rows N is, but of n − m dimensions.
    """
    Z = jnp.linalg.qr(mu.T, mode="complete")[0][:, len(mu) :].T
    return Z.at[0].multiply(jnp.sign(jnp.linalg.slogdet(jnp.concatenate([mu, Z]))[0]))


def _given(tangent: Any) -> Array | None:
    return None if isinstance(tangent, ad.Zero) else tangent


def _sum(like: Array, *terms: Array | None) -> Array:
    """Sum of the terms that are not None, zeros where there is none."""
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else jnp.zeros_like(like)


def _jvp_of_constrained(primals: tuple, tangents: tuple) -> tuple:
    M, mu, force, right = primals
    dM, dmu, df, db = map(_given, tangents)
    x = constrained(*primals)
    pull = None if dmu is None else dmu.T @ multipliers(mu, M @ x - force)
    lost, off = None if dM is None else -(dM @ x), None if dmu is None else -(dmu @ x)
    return x, constrained(M, mu, _sum(force, df, lost, pull), _sum(right, db, off))


def _jvp_of_multipliers(primals: tuple, tangents: tuple) -> tuple:
    (mu, force), (dmu, df) = primals, map(_given, tangents)
    lam = multipliers(mu, force)
    return lam, multipliers(mu, _sum(force, df, None if dmu is None else -(lam @ dmu)))


def _jvp_of_shifted(primals: tuple, tangents: tuple) -> tuple:
    mu, along, x, right = primals
    dmu, dalong, dx, db = map(_given, tangents)
    y = shifted(*primals)
    turned = None if dalong is None else multipliers(along, y - x) @ dalong
    off = None if dmu is None else -(dmu @ y)
    return y, shifted(mu, along, _sum(x, dx, turned), _sum(right, db, off))


def _transpose_of_constrained(ct: Any, M: Array, mu: Array, force: Any, right: Any) -> tuple:
    if isinstance(ct, ad.Zero):
        return None, None, *(ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in (force, right))
    of_force = constrained(M, mu, ct, jnp.zeros(len(mu)))
    of_right = -multipliers(mu, M @ of_force - ct) if ad.is_undefined_primal(right) else None
    return None, None, of_force if ad.is_undefined_primal(force) else None, of_right


def _transpose_of_multipliers(ct: Any, mu: Array, force: Any) -> tuple:
    if isinstance(ct, ad.Zero):
        return None, ad.Zero(force.aval)
    return None, shifted(mu, mu, jnp.zeros(mu.shape[1]), ct)


def _transpose_of_shifted(ct: Any, mu: Array, along: Array, x: Any, right: Any) -> tuple:
    if isinstance(ct, ad.Zero):
        return None, None, *(ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in (x, right))
    of_x = shifted(along, mu, ct, jnp.zeros(len(mu)))
    of_right = multipliers(mu, ct - of_x) if ad.is_undefined_primal(right) else None
    return None, None, of_x if ad.is_undefined_primal(x) else None, of_right


for _named, _jvp, _transpose in (
    (constrained, _jvp_of_constrained, _transpose_of_constrained),
    (multipliers, _jvp_of_multipliers, _transpose_of_multipliers),
    (shifted, _jvp_of_shifted, _transpose_of_shifted),
):
    ad.primitive_jvps[_named.primitive] = _jvp
    ad.primitive_transposes[_named.primitive] = _transpose

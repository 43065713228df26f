r"""Impacts of several contacts with friction at once (mathematics.md §8).

Contacts i have normals n_i, along which they separate, n_iξ − b_i ≥ 0, and tangents T_i with the slip
w_i = T_iξ − c_i. First the approach ends, by impulses N_i along the normals and τ_i of friction, at the velocity ξ_F,

    M(ξ_F − ξ⁻) = μᵀΛ + Σ n_iᵀN_i + T_iᵀτ_i,      0 ≤ N_i ⊥ n_iξ_F − b_i ≥ 0,
    |τ_i| ≤ μ_i(1 + e'_i)N_i,   τ_i = −μ_i(1 + e'_i)N_i w_i/|w_i|   where w_i ≠ 0 at ξ_F,

while the system's constraints μξ = b go on holding; then the contacts rebound by Poisson's law,

    ξ_P = ξ_F + u,   Mu = μᵀΛ' + Σ n_iᵀe'_iN_i,   e'_i = s e_i,
    M(ξ⁺ − ξ_P) = μᵀΛ'' + Σ n_iᵀR_i,               0 ≤ R_i ⊥ n_iξ⁺ − b_i ≥ 0,

where R_i holds up those that the rebound of others would push together again, without friction. Friction is bounded by
the impulse along the normal, without R_i. s = 1 unless the rebound would give energy, as by Poisson's law it may: s is
the largest number up to 1 for which |u| ≤ |ξ_F − ξ⁻| in the norm of M. Then the energy never rises where nothing moves
by itself, b = c = 0: u is orthogonal to ξ_F as N_i n_iξ_F = 0, |ξ_F|² ≤ |ξ⁻|² − |ξ_F − ξ⁻|², and ξ⁺ is the vector of a
convex cone next to ξ_P. Without friction nξ⁺ − b = −e(nξ⁻ − b) at one contact, Newton's law.

The impulses are found contact by contact in turns, and by Newton's method from there; they are differentiable as those
of the contacts that then hold, slide and are open. Impulses of redundant contacts are some of those that end the
approach.

Sources: M. Jean, *The non-smooth contact dynamics method*, Comput. Methods Appl. Mech. Engrg. 177 (1999); C. Glocker,
F. Pfeiffer, *Multiple impacts with friction in rigid multibody systems*, Nonlinear Dynamics 7 (1995).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import saddle, solve
from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import computed, in_float64
from geonh.groups.base import Point
from geonh.mechanics.system import System

TURNS = 50
"""Number of turns before the first round of Newton's method; each following one has twice as many."""
ROUNDS = 10
"""Maximum number of rounds."""
NEWTON = 40
"""Number of steps of Newton's method in a round."""
PATIENCE = 300
"""Number of turns after which they go half as far, then a third, and so on."""
STIFF, REDUNDANT = 1e-9, 1e-12
"""Compliances of contacts, relative to their own, by which the impulses of redundant ones are determined in a search,
and have derivatives."""
CLOSE = 1e-9
"""Relative error of the laws above which impulses are not found."""


class Contacts(NamedTuple):
    """Contacts that may strike.

    Attributes
    ----------
    normals : array, shape=[k, n]
        Rows along which the bodies separate, in metres.
    tangents : array, shape=[k, d, n]
        Orthonormal rows of the slip, zero where there are fewer than d.
    right : array, shape=[k, 1 + d]
        Velocities of what is touched along normal and tangents.
    friction, restitution : array, shape=[k]
        Coefficients μ ≥ 0 and e between 0 and 1.
    """

    normals: Any
    tangents: Any
    right: Any
    friction: Any
    restitution: Any


class Collision(NamedTuple):
    """Impact of several contacts.

    Attributes
    ----------
    xi : array, shape=[n]
        Velocity ξ⁺ after it.
    impulses : array, shape=[k, 1 + d]
        Impulses along the normals and the tangents of the contacts, N s.
    """

    xi: Array
    impulses: Array


class _Problem(NamedTuple):
    """Velocities per impulse between contacts, shape=[k, 1 + d, k, 1 + d]; those before the impact, shape=[k, 1 + d];
    friction and restitution, shape=[k].
    """

    response: Array
    before: Array
    friction: Array
    restitution: Array

    def after(self, impulses: Array) -> Array:
        """Velocities ξ_F at the contacts, shape=[k, 1 + d]."""
        return self.before + jnp.tensordot(self.response, impulses, 2)

    def rebound(self, impulses: Array) -> Array:
        """Impulses of the rebound along the normals, shape=[k]."""
        return self.part(impulses) * self.restitution * impulses[:, 0]

    def part(self, impulses: Array) -> Array:
        """Part s of the restitution that gives no energy."""
        wanted = self.restitution * impulses[:, 0]
        most = jnp.tensordot(impulses, jnp.tensordot(self.response, impulses, 2), 2)
        square = wanted @ self.response[:, 0, :, 0] @ wanted
        exceeds = square > most
        return jnp.sqrt(jnp.where(exceeds, _positive(most), 1.0) / jnp.where(exceeds, _positive(square), 1.0))

    def bounds(self, impulses: Array) -> Array:
        """Largest impulses of friction, shape=[k]."""
        return self.friction * (impulses[:, 0] + self.rebound(impulses))


class _Search(NamedTuple):
    """Number of the round; impulses by turns, shape=[k, 1 + d]; those by Newton's method from there, and whether they
    obey the laws.
    """

    round: Array
    by_turns: Array
    found: Array
    obeys: Array


@validated
@in_float64
def collision(
    system: System,
    g: Point,
    xi: Array,
    normals: Array,
    tangents: Array,
    *,
    friction: Any,
    restitution: Any = 0.0,
    right: Any = 0.0,
    t: float = 0.0,
) -> Collision:
    """Velocity after an impact of several contacts with friction, while the constraints of a system go on holding.

    Contacts only push, friction is Coulomb's, and restitution Poisson's, as far as it gives no energy. Those that were
    at rest may lift off.

    Parameters
    ----------
    system : System
        The system without the contacts.
    g : point of the group
        Configuration, in which all contacts are closed.
    xi : array_like, shape=[n]
        Velocity before the impact.
    normals : array_like, shape=[k, n]
        Rows along which the bodies separate, such as the derivatives of gaps along the velocity.
    tangents : array_like, shape=[k, d, n]
        Rows of the slip of each contact, d = 1 or 2, in orthogonal directions; zero where there are fewer.
    friction : float or array_like, shape=[k]
        Coefficients μ ≥ 0.
    restitution : float or array_like, shape=[k]
        e of each contact, between 0 and 1.
    right : float or array_like, shape=[k, 1 + d]
        Velocities of what is touched along normals and tangents.
    t : float
        Time, s.

    Returns
    -------
    Collision
        ``xi``, shape=[n], and ``impulses`` along normals and tangents, N s, shape=[k, 1 + d].

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type or shape, or a coefficient is none; if no impulses are found.

    References
    ----------
    .. [Glocker1995] C. Glocker, F. Pfeiffer, "Multiple impacts with friction in rigid multibody systems", Nonlinear
       Dynamics 7 (1995), 471–497.
    .. [Jean1999] M. Jean, "The non-smooth contact dynamics method", Comput. Methods Appl. Mech. Engrg. 177 (1999),
       235–257.

    Examples
    --------
    A block that rocks goes over to its other corner, and the one on which it stood lifts, as Housner found:

    >>> import geonh as gn
    >>> a, b = 0.2, 1.0  # half of its width and height
    >>> block = gn.System(gn.groups.Translations(3), metric=[1.0, 1.0, (a**2 + b**2) / 3])  # x, y, angle
    >>> normals, tangents = [[0, 1, -a], [0, 1, a]], [[[1, 0, b]], [[1, 0, b]]]
    >>> after = gn.mechanics.collision(block, [0.0] * 3, [b, -a, -1.0], normals, tangents, friction=0.9)
    >>> float(round(after.xi[2] + (1 - 1.5 * a**2 / (a**2 + b**2)), 12)), float(after.impulses[0, 0])
    (0.0, 0.0)
    """
    n = system.group.dim
    if not is_traced(g=g):
        g = system.point(g, on_group=False, name="g")
    xi, normals, tangents = as_float64(xi, "xi", (n,)), as_float64(normals, "normals"), as_float64(tangents, "tangents")
    if normals.ndim != 2 or not len(normals) or normals.shape[1] != n:
        raise ValueError(f"normals must be of shape [k, {n}], got {list(normals.shape)}")
    k = len(normals)
    if tangents.ndim != 3 or tangents.shape[::2] != (k, n) or tangents.shape[1] not in (1, 2):
        raise ValueError(f"tangents must be of shape [{k}, 1 or 2, {n}], got {list(tangents.shape)}")
    of_each = (k, 1 + tangents.shape[1])
    friction, restitution = _of_each(friction, "friction", (k,)), _of_each(restitution, "restitution", (k,))
    for value, name, law, most in ((friction, "friction", "≥ 0", np.inf), (restitution, "restitution", "in [0, 1]", 1)):
        if not is_traced(value) and not np.all((value >= 0) & (value <= most)):
            raise ValueError(f"{name} must be {law}, got {shortly(value.tolist())}")
    contacts = Contacts(normals, tangents, _of_each(right, "right", of_each), friction, restitution)
    impact = g, xi, contacts, jnp.asarray(t, float)
    if is_traced(system, impact):
        return _of_place(system, impact)
    found = computed(_of_place, system, impact)
    if not np.all(np.isfinite(found.xi)):
        raise ValueError(
            f"no impulses are found that end the approach of {k} contact(s): they close on each other, or on a "
            "constraint, or nearly depend on each other under much friction"
        )
    return found


def _of_each(value: Any, name: str, shape: tuple[int, ...]) -> Array:
    """Value of each contact; ValueError if it is neither a number nor of this shape."""
    array = as_float64(value, name)
    if array.shape not in ((), shape):
        raise ValueError(f"{name} must be a number, or of shape {list(shape)}, got {list(array.shape)}")
    return jnp.broadcast_to(array, shape)


def _of_place(system: System, impact: tuple[Point, Array, Contacts, Array]) -> Collision:
    g, xi, contacts, t = impact
    return collided(system, system.at(g, t), xi, contacts)


def collided(system: System, x: Any, xi: Array, contacts: Contacts) -> Collision:
    """Impact of contacts at x; nan where no impulses are found, or a coefficient is none."""
    rows = jnp.concatenate([contacts.normals[:, None], contacts.tangents], axis=1)
    k, size, n = rows.shape
    lifts = changes(system, x, xi, rows.reshape(-1, n))
    response = (rows.reshape(-1, n) @ lifts.T).reshape(k, size, k, size)
    e, mu = contacts.restitution, contacts.friction
    e, mu = jnp.where((e >= 0) & (e <= 1), e, jnp.nan), jnp.where(mu >= 0, mu, jnp.nan)
    problem = _Problem(response, rows @ xi - contacts.right, mu, e)
    impulses = _found(problem)
    whole = impulses.at[:, 0].add(problem.rebound(impulses))
    if k > 1:
        smooth = problem._replace(before=problem.after(whole), friction=jnp.zeros(k), restitution=jnp.zeros(k))
        whole = whole + _found(smooth)
    return Collision(xi + whole.reshape(-1) @ lifts, whole)


def changes(system: System, x: Any, xi: Array, rows: Array) -> Array:
    """Changes of the velocity by unit impulses along rows, both of shape=[r, n], while the constraints hold."""
    M, mu = system.mass_matrix(x, xi), system.linear_at(xi).holding(x).annihilator(x)
    still = jnp.zeros(len(mu))
    return jax.vmap(lambda row: saddle(M, mu, row, still)[0])(rows)


def _found(problem: _Problem) -> Array:
    """Impulses that end an approach, with their derivatives, shape=[k, 1 + d]; nan if none obey the laws."""
    fixed = jax.tree.map(lax.stop_gradient, problem)
    near, compliances = _searched(fixed), _compliances(fixed)
    flat = near.found.ravel()
    slopes = jax.jacfwd(lambda z: _missing(fixed, compliances, z))(flat) + REDUNDANT * jnp.eye(flat.size)
    error = _missing(problem, compliances, flat)
    found = near.found - solve(slopes, error - lax.stop_gradient(error)).reshape(near.found.shape)
    return jnp.where(near.obeys, found, jnp.nan)


def _compliances(problem: _Problem) -> Array:
    """Velocity of each contact by a unit of its own impulse, along the normal and along all tangents, shape=[k, 2];
    infinite where it does not move.
    """
    k, size = problem.before.shape
    own = jnp.diagonal(problem.response.reshape(k * size, k * size)).reshape(k, size)
    each = jnp.stack([own[:, 0], jnp.sum(own[:, 1:], axis=1)], axis=1)
    return jnp.where(each > 0, each, jnp.inf)


def _missing(problem: _Problem, compliances: Array, flat: Array) -> Array:
    """Impulses less those to which the laws lead from them, shape=[k (1 + d)]: zero where they obey,

    N − max(0, N − w_n/c_n),   τ − the vector of length ≤ μ(1 + e')N next to τ − w_t/c_t.

    Source: P. Alart, A. Curnier, *A mixed formulation for frictional contact problems prone to Newton like solution
    methods*, Comput. Methods Appl. Mech. Engrg. 92 (1991).
    """
    now = flat.reshape(problem.before.shape)
    scale = jnp.concatenate([compliances[:, :1], *[compliances[:, 1:]] * (now.shape[1] - 1)], axis=1)
    wanted = now - problem.after(now) / scale
    normal = jnp.maximum(wanted[:, :1], 0.0)
    friction = _shortened(wanted[:, 1:], problem.bounds(now.at[:, :1].set(jnp.maximum(now[:, :1], 0.0))))
    return (now - jnp.concatenate([normal, friction], axis=1)).ravel()


def _shortened(vectors: Array, bounds: Array) -> Array:
    """Vectors, shape=[k, d], or those of the same direction with the length of the bound, shape=[k]."""
    square = jnp.sum(vectors**2, axis=1)
    exceeds = square > bounds**2
    part = jnp.where(exceeds, bounds, 1.0) / jnp.sqrt(jnp.where(exceeds, square, 1.0))
    return vectors * part[:, None]


def _searched(problem: _Problem) -> _Search:
    """Impulses by turns of the contacts, and by Newton's method on the laws from there, in rounds until they obey."""
    k, size = problem.before.shape
    compliances, rows = _compliances(problem), problem.response.reshape(k, size, k * size)

    def of_contact(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """The impulse that a contact needs beside those of the others."""
        now, part = state
        mine = lax.dynamic_index_in_dim(now, i, keepdims=False)
        own, before = (lax.dynamic_index_in_dim(x, i, keepdims=False) for x in (compliances, problem.before))
        to_me = lax.dynamic_index_in_dim(rows, i, keepdims=False)
        normal = jnp.maximum(mine[0] - (before[0] + to_me[0] @ now.ravel()) / own[0], 0.0)
        now = lax.dynamic_update_index_in_dim(now, mine.at[0].set(normal), i, 0)
        wanted = mine[1:] - (before[1:] + to_me[1:] @ now.ravel()) / own[1]
        mu, e = (lax.dynamic_index_in_dim(x, i, keepdims=False) for x in (problem.friction, problem.restitution))
        friction = _shortened(wanted[None], (mu * normal * (1 + part * e))[None])[0]
        return lax.dynamic_update_index_in_dim(now, jnp.concatenate([normal[None], friction]), i, 0), part

    def turn(number: Array, begin: Array) -> Array:
        end, _ = lax.fori_loop(0, k, of_contact, (begin, problem.part(begin)))
        return begin + (end - begin) / (1 + number // PATIENCE)

    def nearer(_: Array, flat: Array) -> Array:
        slopes = jax.jacfwd(lambda z: _missing(problem, compliances, z))(flat) + STIFF * jnp.eye(flat.size)
        return flat - solve(slopes, _missing(problem, compliances, flat))

    def round_(state: _Search) -> _Search:
        done, more = TURNS * (2**state.round - 1), TURNS * 2**state.round
        near = lax.fori_loop(done, done + more, turn, state.by_turns)
        found = lax.fori_loop(0, NEWTON, nearer, near.ravel()).reshape(near.shape)
        found = found.at[:, 0].set(jnp.maximum(found[:, 0], 0.0))
        obeys = _obeys(problem, found)
        return _Search(state.round + 1, near, jnp.where(obeys, found, near), obeys | _obeys(problem, near))

    nothing = jnp.zeros((k, size))
    first = _Search(jnp.zeros((), int), nothing, nothing, jnp.zeros((), bool))
    return lax.while_loop(lambda state: (state.round < ROUNDS) & ~state.obeys, round_, first)


def _obeys(problem: _Problem, impulses: Array) -> Array:
    """True if impulses are those of the laws: no contact pulls or is approached, friction is bounded, and against it
    or against the slip.
    """
    most, fastest = jnp.max(jnp.abs(impulses)), jnp.max(jnp.abs(problem.before))
    after, bounds = problem.after(impulses), problem.bounds(impulses)
    against = jnp.sum(impulses[:, 1:] * after[:, 1:], axis=1) + bounds * _lengths(after)
    scale = CLOSE * most * fastest
    return (
        jnp.all(impulses[:, 0] >= -CLOSE * most)
        & jnp.all(after[:, 0] >= -CLOSE * fastest)
        & jnp.all(_lengths(impulses) <= bounds + CLOSE * most)
        & jnp.all((impulses[:, 0] <= 0) | (against <= scale))
        & jnp.all(jnp.abs(impulses[:, 0] * after[:, 0]) <= scale)
    )


def _lengths(vectors: Array) -> Array:
    """Lengths of the tangential parts, shape=[k], with derivatives where they are not zero."""
    square = jnp.sum(vectors[:, 1:] ** 2, axis=1)
    return jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)


def _positive(value: Array) -> Array:
    return jnp.maximum(value, np.finfo(float).tiny)

r"""Impacts of several contacts with friction at once (mathematics.md §8).

Contacts i have normals n_i, along which they separate, n_iξ − b_i ≥ 0, and tangents T_i with the slip
w_i = T_iξ − c_i. First the approach ends, by impulses N_i along the normals and τ_i of friction, at the velocity ξ_F,

    M(ξ_F − ξ⁻) = μᵀΛ + Σ n_iᵀN_i + T_iᵀτ_i,      0 ≤ N_i ⊥ n_iξ_F − b_i ≥ 0,
    |τ_i| ≤ μ_i(1 + e'_i)N_i,   τ_i = −μ_i(1 + e'_i)N_i w_i/|w_i|   where w_i ≠ 0 at ξ_F,

while the system's constraints μξ = b go on holding; then the contacts rebound by Poisson's law,

    ξ⁺ = ξ_F + u,   Mu = μᵀΛ' + Σ n_iᵀe'_iN_i,   e'_i = s e_i,

so that friction is bounded by the whole impulse along the normal. s = 1 unless the rebound would give energy, as by
Poisson's law it may: s is the largest number up to 1 for which |u| ≤ |ξ_F − ξ⁻| in the norm of M. Then the energy never
rises where nothing moves by itself, b = c = 0: u is orthogonal to ξ_F as N_i n_iξ_F = 0, and
|ξ_F|² ≤ |ξ⁻|² − |ξ_F − ξ⁻|². Without friction nξ⁺ − b = −e(nξ⁻ − b) at one contact, Newton's law.

The impulses are found contact by contact in turns; they are differentiable as those of the contacts that then hold,
slide and are open. Impulses of redundant contacts are some of those that end the approach.

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

TURNS = 20_000
"""Maximum number of turns of the iteration."""
PATIENCE = 300
"""Number of turns after which they go half as far, then a third, and so on."""
SETTLED = 1e-15
"""Change in one turn, relative to the impulses, at which the iteration ends."""
REDUNDANT = 1e-12
"""Compliance of contacts, relative to their mobility, by which the impulses of redundant ones have derivatives."""
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
        wanted = self.restitution * impulses[:, 0]
        most = jnp.tensordot(impulses, jnp.tensordot(self.response, impulses, 2), 2)
        square = wanted @ self.response[:, 0, :, 0] @ wanted
        exceeds = square > most
        part = jnp.sqrt(jnp.where(exceeds, _positive(most), 1.0) / jnp.where(exceeds, _positive(square), 1.0))
        return part * wanted

    def bounds(self, impulses: Array) -> Array:
        """Largest impulses of friction, shape=[k]."""
        return self.friction * (impulses[:, 0] + self.rebound(impulses))


class _Turn(NamedTuple):
    """Number of turns; the impulses with which the next one begins, those at the end of the last, and its change."""

    number: Array
    begin: Array
    end: Array
    change: Array


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
        raise ValueError(f"no impulses are found for {k} contacts: leave out those that depend on others")
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
    """Impact of contacts at x; nan where no impulses are found."""
    held = system.linear_at(xi).holding(x)
    M, mu = system.mass_matrix(x, xi), held.annihilator(x)
    rows = jnp.concatenate([contacts.normals[:, None], contacts.tangents], axis=1)
    k, size, n = rows.shape
    still = jnp.zeros(len(mu))
    lifts = jax.vmap(lambda row: saddle(M, mu, row, still)[0])(rows.reshape(-1, n))
    response = (rows.reshape(-1, n) @ lifts.T).reshape(k, size, k, size)
    problem = _Problem(response, rows @ xi - contacts.right, contacts.friction, contacts.restitution)
    impulses = _differentiable(problem, _settled(jax.tree.map(lax.stop_gradient, problem)))
    whole = impulses.at[:, 0].add(problem.rebound(impulses))
    return Collision(xi + whole.reshape(-1) @ lifts, whole)


def _settled(problem: _Problem) -> Array:
    """Impulses by turns: each contact takes the impulse that it needs beside those of the others."""
    k, size = problem.before.shape
    own = jnp.stack([problem.response[i, :, i] for i in range(k)])
    inertia = jnp.stack([own[:, 0, 0], jnp.trace(own[:, 1:, 1:], axis1=1, axis2=2)], axis=1)
    inverse = jnp.where(inertia > 0, 1 / _positive(inertia), 0.0)

    def turn(state: _Turn) -> _Turn:
        now = state.begin
        for i in range(k):
            normal = now[i, 0] - inverse[i, 0] * problem.after(now)[i, 0]
            now = now.at[i, 0].set(jnp.maximum(normal, 0.0))
            wanted = now[i, 1:] - inverse[i, 1] * problem.after(now)[i, 1:]
            bound, length = problem.bounds(now)[i], jnp.sqrt(wanted @ wanted)
            now = now.at[i, 1:].set(wanted * jnp.where(length > bound, bound / _positive(length), 1.0))
        change = now - state.begin
        return _Turn(
            state.number + 1, state.begin + change / (1 + state.number // PATIENCE), now, jnp.max(jnp.abs(change))
        )

    def goes_on(state: _Turn) -> Array:
        return (state.number < TURNS) & (state.change > SETTLED * jnp.max(jnp.abs(state.end)))

    nothing = jnp.zeros((k, size))
    return lax.while_loop(goes_on, turn, _Turn(jnp.zeros((), int), nothing, nothing, jnp.full((), np.inf))).end


def _differentiable(problem: _Problem, near: Array) -> Array:
    """Impulses with their derivatives, by the implicit function of the laws of contacts that hold, slide or are open;
    nan if they do not obey the laws.
    """
    fixed = jax.tree.map(lax.stop_gradient, problem)
    closed = near[:, 0] > 0
    moving = _lengths(fixed.after(near)) > CLOSE * jnp.max(jnp.abs(fixed.before))
    slides = closed & moving & (_lengths(near) >= (1 - CLOSE) * fixed.bounds(near))
    moves = jnp.stack([jnp.diagonal(problem.response[i, 1:, i, 1:]) for i in range(len(near))]) > 0

    def residual(problem: _Problem, flat: Array) -> Array:
        now = flat.reshape(near.shape)
        velocity, friction = problem.after(now), now[:, 1:]
        slip = velocity[:, 1:]
        sliding = friction + (problem.bounds(now) / _positive(_lengths(velocity)))[:, None] * slip
        tangential = jnp.where(slides[:, None], sliding, jnp.where(closed[:, None] & moves, slip, friction))
        normal = jnp.where(closed, velocity[:, 0], now[:, 0])
        return jnp.concatenate([normal[:, None], tangential], axis=1).ravel()

    flat = near.ravel()
    slopes = jax.jacfwd(lambda z: residual(fixed, z))(flat)
    slopes = slopes + REDUNDANT * jnp.max(jnp.abs(fixed.response)) * jnp.eye(len(flat))
    error = residual(problem, flat)
    found = near - solve(slopes, error - lax.stop_gradient(error)).reshape(near.shape)
    return jnp.where(_obeys(fixed, near), found, jnp.nan)


def _obeys(problem: _Problem, impulses: Array) -> Array:
    """True if impulses are those of the laws: no contact pulls or is approached, friction is bounded, and against it
    or against the slip.
    """
    most, fastest = jnp.max(jnp.abs(impulses)), jnp.max(jnp.abs(problem.before))
    after, bounds = problem.after(impulses), problem.bounds(impulses)
    against = jnp.sum(impulses[:, 1:] * after[:, 1:], axis=1) + bounds * _lengths(after)
    return (
        jnp.all(impulses[:, 0] >= -CLOSE * most)
        & jnp.all(after[:, 0] >= -CLOSE * fastest)
        & jnp.all(_lengths(impulses) <= bounds + CLOSE * most)
        & jnp.all((impulses[:, 0] <= 0) | (against <= CLOSE * most * fastest))
    )


def _lengths(vectors: Array) -> Array:
    """Lengths of the tangential parts, shape=[k], with derivatives where they are not zero."""
    square = jnp.sum(vectors[:, 1:] ** 2, axis=1)
    return jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)


def _positive(value: Array) -> Array:
    return jnp.maximum(value, np.finfo(float).tiny)

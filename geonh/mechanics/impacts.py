r"""Impacts, and rows that begin to hold: the velocity after them, by one saddle-point system (mathematics.md §8).

At an impact with rows nξ = b_n, while the system's own constraints μξ = b go on holding, with the restitution e

    M(ξ⁺ − ξ⁻) = μᵀΛ + nᵀΛ_n,   μξ⁺ = b,   nξ⁺ − b_n = −e (nξ⁻ − b_n),

Newton's law. For e = 0 it is the M-orthogonal projection, whose loss of energy is Carnot's; the loss at one row is
½(1 − e²)(nξ⁻ − b_n)²/(nPnᵀ), with P = M⁻¹ − M⁻¹μᵀ(μM⁻¹μᵀ)⁻¹μM⁻¹ and b = 0.

Sources: B. Brogliato, *Nonsmooth Mechanics*, 3rd ed., Springer (2016), ch. 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle
from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.engine import call_in_numpy, in_float64
from geonh.groups.base import Point
from geonh.mechanics.system import System


class Impact(NamedTuple):
    """Impact of a system.

    Attributes
    ----------
    xi : array, shape=[n]
        Velocity ξ⁺ after it.
    impulses : array, shape=[k]
        Impulses Λ_n of the rows, in newton seconds per unit of the rows, positive along the rows.
    """

    xi: Array
    impulses: Array


@validated
@in_float64
def impact(
    system: System, g: Point, xi: Array, rows: Array, *, restitution: Any = 0.0, right: Any = 0.0, t: float = 0.0
) -> Impact:
    """Velocity after an impact with some rows, while the constraints of a system go on holding.

    Parameters
    ----------
    system : System
        The system before and during the impact; its constraints, if any, hold before and after it.
    g : point of the group
        Configuration.
    xi : array_like, shape=[n]
        Velocity before the impact.
    rows : array_like, shape=[n] or [k, n]
        Rows n, such as the derivative of a gap along the velocity.
    restitution : float or array_like, shape=[k]
        e of each row, between 0 (the row holds from there on) and 1.
    right : float or array_like, shape=[k]
        b_n, velocities of what the rows meet.
    t : float
        Time, s.

    Returns
    -------
    Impact
        ``xi``, shape=[n], and ``impulses``, shape=[k].

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type or shape, a restitution not between 0 and 1, or rows are dependent.
    """
    n = system.group.dim
    rows = jnp.atleast_2d(rows if is_traced(rows=rows) else as_float64(rows, "rows"))
    if rows.ndim != 2 or rows.shape[1] != n:
        raise ValueError(f"rows must be of shape [{n}] or [k, {n}], got {list(np.shape(rows))}")
    restitution, right = (
        value if is_traced(**{name: value}) else as_float64(value, name)
        for value, name in ((restitution, "restitution"), (right, "right"))
    )
    if not is_traced(restitution) and not np.all((restitution >= 0) & (restitution <= 1)):
        raise ValueError(f"restitution must be between 0 and 1, got {restitution}")
    for value, name in ((restitution, "restitution"), (right, "right")):
        if np.shape(value) not in ((), (1,), (len(rows),)):
            raise ValueError(f"{name} must be a number, or one for each of {len(rows)} rows, got {np.shape(value)}")
    if not is_traced(g=g, xi=xi):
        g, xi = system.point(g, on_group=False, name="g"), as_float64(xi, "xi", (n,))
    e, b = (jnp.broadcast_to(jnp.asarray(value, float), len(rows)) for value in (restitution, right))
    found = call_in_numpy(_impact, (system, g, xi, rows, e, b, jnp.asarray(t, float)), {})
    if not is_traced(found=found) and np.all(np.isfinite(xi)) and not np.all(np.isfinite(found.xi)):
        raise ValueError(f"rows of shape {list(rows.shape)} depend on each other or on the constraints: leave some out")
    return found


def _impact(system: System, g: Point, xi: Array, rows: Array, e: Array, b: Array, t: Array) -> Impact:
    x = system.at(g, t)
    return struck(system, x, xi, rows, b - e * (rows @ xi - b))


def struck(system: System, x: Any, xi: Array, rows: Array, after: Array, columns: Array | None = None) -> Impact:
    """Impact after which the rows, shape=[k, n], have the values ``after``, shape=[k]; ``columns``, shape=[n, k], are
    impulses that depend on those of the rows, as of friction.
    """
    held = system.linear_at(xi).holding(x)
    M, mu = system.mass_matrix(x, xi), held.annihilator(x)
    every = jnp.concatenate([mu, rows])
    if columns is not None:
        columns = jnp.concatenate([jnp.zeros(mu.T.shape), columns], axis=1)
    right = jnp.concatenate([held.right_hand_side(x), after])
    v, impulses = saddle(M, every, M @ xi, right, columns)
    return Impact(v, impulses[len(mu) :])

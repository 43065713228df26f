"""``Wiener``: white noise as controls, dW/dt of a Wiener process that a seed determines, for stochastic equations.

With the path W replaced by its chord over each step a one-step method of order 2 or higher, of the ordinary
differential equation with u = ΔW/h, converges to the solution of the Stratonovich equation (Wong and Zakai): strongly
with order 1 where the fields of the noise commute, as where it does not depend on the velocity, otherwise ½; weakly
with order 1.

References: Wong, Zakai, *Ann. Math. Statist.* 36 (1965) 1560; Kloeden, Platen, *Numerical Solution of Stochastic
Differential Equations* (1992), §§10.3, 14.1.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.philox import normals
from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_constant, as_count, is_whole, refuse_infinite, shortly
from geonh.engine import Precise, as_numbers, mapped
from geonh.groups.base import ArrayLike

FARTHEST = 2**51
"""Largest number of an interval: beyond it the middle of one is no number of float64."""
SAME = 1e-6
"""Distance from a time of the grid, relative to its spacing, below which a time counts as one of the grid."""


class Wiener(Precise):
    r"""White noise u = dW/dt with independent components, as ``controls=`` of a run: forces f + σ(x, ξ)u.

    The increments of W over the intervals [iδ, (i + 1)δ] are functions of the seed and of i, computed where they are
    needed, never stored. In each step the noise is constant, ΔW/h. So runs with steps δ, 2δ, 4δ, … of the same
    ``Wiener`` are of one path, and so are runs that are resumed, cut or made backwards in time. Between the times iδ
    the path is straight.

    Parameters
    ----------
    size : int
        Number of components of u.
    dt : float
        Spacing δ of the path, seconds: the step of a run, or of the finest of several runs.
    seed : int, or array_like of int, shape=[members]
        Seed of the path, from 0 to 2⁶³ − 1; in an ensemble one for all members, which have the same noise then, or one
        for each, such as ``range(1000)``.

    Raises
    ------
    TypeError, ValueError
        For other arguments.

    Notes
    -----
    The equations are those of Stratonovich; ``geonh.mechanics.ito`` gives the system whose Stratonovich equations are
    the Itô equations of another. Components have the intensity of a standard Wiener process: u has the unit of
    1/√s, and σ that of a force times √s.

    References
    ----------
    .. [Salmon2011] J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
       SC '11 (2011): Philox4x32-10, the generator.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import geonh as gn
    >>> from geonh.groups import SE2
    >>> def langevin(t, x, xi, u):
    ...     return -0.5 * xi + u
    >>> sleigh = gn.System(
    ...     SE2(), metric=[[1.1, 0, 0.3], [0, 1, 0], [0.3, 0, 1]], distribution=gn.Distribution([[0, 0, 1]]),
    ...     forces=langevin,
    ... )
    >>> run = gn.solve(sleigh, xi0=[0.0, 1.0, 0.0], dt=0.01, n_steps=1000, controls=gn.Wiener(3, 0.01, seed=7))
    """

    size: int = eqx.field(static=True)
    dt: Any
    seed: Any

    def __init__(self, size: int, dt: float, *, seed: Any = 0) -> None:
        self.size, self.seed = as_count(size, "size"), _as_seed(seed)
        self.dt = np.float64(as_constant(dt, "dt", positive=True))

    def __repr__(self) -> str:
        if is_traced(seed=self.seed, dt=self.dt):
            return f"Wiener({self.size}, traced)"
        return f"Wiener({self.size}, {float(self.dt):g}, seed={shortly(self.seed.tolist())})"

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        if name not in ("t", "h"):
            return value
        refuse_infinite(number := as_numbers(value, called), called)
        if np.shape(number) or (name == "h" and not is_traced(h=number) and number == 0):
            raise ValueError(f"{called} must be a number{', not zero' if name == 'h' else ''}, got {shortly(value)}")
        return number

    def __call__(self, t: ArrayLike) -> Array:
        """Slope of the path at time t, a scalar, shape=[size]: from a time iδ on, that of the interval after it."""
        here = _on_grid(t / self.dt)
        return normals(self.seed, jnp.floor(here).astype(jnp.int64), self.size) / jnp.sqrt(self.dt)

    def mean(self, t: ArrayLike, h: ArrayLike) -> Array:
        """Mean (W(t + h) − W(t))/h of the noise over a step, t and h scalars, h of any sign; shape=[size]."""
        t, h = lax.stop_gradient((jnp.asarray(t), jnp.asarray(h)))
        ends = _on_grid(t / self.dt), _on_grid((t + h) / self.dt)
        low, high = jnp.minimum(*ends), jnp.maximum(*ends)

        def further(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            i, change = carry
            share = jnp.minimum(high, i + 1.0) - jnp.maximum(low, i)
            return i + 1.0, change + share * normals(self.seed, i.astype(jnp.int64), self.size)

        begin = jnp.floor(low), jnp.zeros(self.size)
        _, change = lax.while_loop(lambda carry: carry[0] < high, further, begin)
        return lax.stop_gradient(change * jnp.sqrt(self.dt) / jnp.abs(h))

    def increments(self, n_steps: int, first: int = 0) -> np.ndarray:
        """Increments of W over the intervals of the grid, for other programs, such as schemes of one's own.

        Parameters
        ----------
        n_steps : int
            Number of intervals.
        first : int
            Number i of the first of them, [iδ, (i + 1)δ].

        Returns
        -------
        ndarray, shape=[n_steps, size], or [members, n_steps, size] where there are several seeds
            With variance δ each.

        Raises
        ------
        TypeError, ValueError
            If one of them is not an integer, n_steps is less than 1, or one is 2⁵¹ or more.
        MemoryError
            For more increments than fit into memory.
        """
        if not is_whole(first):
            raise TypeError(f"first must be an integer, got {shortly(first)}")
        count = as_count(n_steps, "n_steps")
        if not (abs(int(first)) < FARTHEST and count < FARTHEST):
            raise ValueError(f"first and n_steps must be below 2^51, got {shortly(first)} and {shortly(n_steps)}")
        members = max(np.size(self.seed), 1)
        refuse_too_much("increments", {"increments": members * count * self.size}, "ask for fewer at a time, by first")
        places = np.arange(first, first + count) * self.dt
        if np.ndim(self.seed):
            return np.stack([Wiener(self.size, self.dt, seed=one).increments(n_steps, first) for one in self.seed])
        return np.asarray(mapped(_increment, self, places))


def _increment(noise: Wiener, t: Array) -> Array:
    return noise(t + noise.dt / 2) * noise.dt


def _on_grid(place: Array) -> Array:
    """Place in units of the grid, rounded where it is on the grid but for rounding."""
    nearest = jnp.round(place)
    return jnp.where(jnp.abs(place - nearest) < SAME, nearest, place)


def _as_seed(seed: Any) -> np.ndarray:
    """Convert user input to a seed, or to one for each member; TypeError or ValueError otherwise."""
    if is_traced(seed=seed):
        return seed
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"seed must be an integer, or an array of them for the members, got a key of jax.random: {seed}"
        )
    try:
        given = np.asarray(list(seed) if isinstance(seed, range) else seed)
    except ValueError:  # lists of unequal lengths
        given = np.asarray(None)
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "O" and all(map(is_whole, given.flat)))
    if not whole or given.ndim > 1 or not given.size:
        raise TypeError(f"seed must be an integer, or an array of them for the members, got {shortly(seed)}")
    if given.min() < 0 or given.max() > np.iinfo(np.int64).max:
        raise ValueError(f"seed must be from 0 to 2^63 - 1, got {shortly(seed)}")
    return given.astype(np.int64)

"""Clock of a run: its times, and the controls at them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geonh.arguments.signatures import argument_type
from geonh.geometry.field import evaluated
from geonh.groups.base import ArrayLike
from geonh.integrators.wiener import Wiener


class NodalControls(NamedTuple):
    """Controls at node k and the following ones: all values that a step from there uses of controls given at nodes."""

    rows: ArrayLike
    k: ArrayLike


@argument_type
class Clock(NamedTuple):
    """Time and controls: t_k = t0 + k·dt, and u_k = ``controls(t_k)`` or ``controls[k]``.

    Parameters
    ----------
    t0, dt : float
        Initial time and time step, seconds.
    controls : callable or array, shape=[n_steps + 1, …], or None
        u(t), noise, or values at the nodes.
    end : float, or None
        Time that steps of variable length must not pass.
    """

    t0: ArrayLike
    dt: ArrayLike
    controls: Any = None
    end: Any = None

    def time(self, k: ArrayLike) -> Array:
        """t_k in seconds, of the shape of ``k``."""
        return jnp.asarray(self.t0 + k * self.dt)

    def node_time(self, k: ArrayLike) -> Array:
        """t_k with the bits that a ``Trajectory`` has, of the shape of ``k``: the product is rounded before the sum.

        Within a program that knows t0 and dt XLA may fuse them nevertheless, which changes the last digit.
        """
        elapsed = k * self.dt
        return self.t0 + jnp.where(jnp.isnan(elapsed), self.dt, elapsed)

    def control(self, k: ArrayLike) -> Any:
        """u_k, of the shape of one value of the controls, or None."""
        if self.controls is None:
            return None
        if isinstance(self.controls, Wiener):
            return self.controls.mean(self.time(k), self.dt)
        if callable(self.controls):
            return self.between(self.time(k))
        if isinstance(self.controls, NodalControls):
            return self.controls.rows[k - self.controls.k]
        return jnp.asarray(self.controls)[k]

    def between(self, t: ArrayLike) -> Any:
        """u(t) at any time, of the shape of one value of the controls, or None; for methods with stages.

        Raises TypeError where the controls are values at the nodes.
        """
        controls = self.function()
        return None if controls is None else evaluated("controls", controls, t)

    def during(self, k: ArrayLike) -> Clock:
        """Clock of the step from node k, a scalar: noise is its mean over the step there, at all times."""
        if not isinstance(self.controls, Wiener):
            return self
        return self._replace(controls=jax.tree_util.Partial(_constant, self.control(k)))

    def starting(self, t: ArrayLike) -> Clock:
        """Clock whose node 0 is at time t, a scalar; there, controls at the nodes are interpolated linearly."""
        if self.controls is None or callable(self.controls):
            return self._replace(t0=t)
        number = (t - self.t0) / self.dt
        here = jnp.clip(jnp.floor(number), 0, len(self.controls) - 2).astype(int)
        s, rows = number - here, jnp.asarray(self.controls)
        return Clock(t, self.dt, ((1 - s) * rows[here] + s * rows[here + 1])[None])

    def part(self, k: ArrayLike, done: ArrayLike, fraction: ArrayLike) -> Clock:
        """Clock of a substep of length fraction·dt that begins at t_k + done·dt, counting from k = 0; all scalars."""
        return Clock(self.t0 + (k + done) * self.dt, fraction * self.dt, self.function())

    def function(self) -> Any:
        """Controls as a function of the time, or None; TypeError where they are values at the nodes."""
        if self.controls is None or callable(self.controls):
            return self.controls
        raise TypeError("this method needs controls between the nodes: pass controls as a function of t, not an array")


def _constant(u: Array, _: ArrayLike) -> Array:
    """Controls that do not depend on the time."""
    return u

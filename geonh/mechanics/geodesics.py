r"""Free motions on a group: the initial value problem, and the two-point boundary value problem.

Everything is on batches of group elements written as vectors, shape=[b, N] (``LieGroup.to_vector``). Motions
are computed by DOP853, with the variational equation where the two-point problem needs it, which is solved by
shooting with Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh import engine
from geonh.arguments.precision import float64
from geonh.groups.base import LieGroup
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.equations import accelerations

RTOL, ATOL = 1e-12, 1e-13
"""Tolerances of the motions."""

LOG_TOL = 1e-10
"""Tolerance on the end point of a shot, in components of the algebra."""

SHOOTING_BUDGET = 5_000
"""Maximum number of evaluations of one trial of the shooting method; a trial that exceeds it is rejected."""


class FreeMotions:
    """Flow of a system over unit time.

    Parameters
    ----------
    system : System
        With its kinetic energy alone: no constraint, potential or force.
    """

    def __init__(self, system: ConstrainedSystem):
        self.system = system
        self.group: LieGroup = system.group

    def end(self, start: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """End points of the motions from ``start``, shape=[b, N], with velocities ``xi``, shape=[b, n]; RuntimeError if
        a motion cannot be integrated.
        """
        return self._flow(start, xi)[0]

    def log(self, start: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Velocities, shape=[b, n], of the motions from ``start`` that end at start·exp(direction).

        Newton's method starts from ``direction``; where that fails, the end point is continued along the
        one-parameter subgroup.

        RuntimeError if the iteration does not converge.
        """
        xi, converged = self._shoot(start, direction, direction)
        for i in np.flatnonzero(~converged):
            xi[i] = self._continue(start[i : i + 1], direction[i : i + 1])
        return xi

    def _shoot(self, start: np.ndarray, direction: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Velocities, shape=[b, n], with which start reaches start·exp(direction), and a mask of convergence."""
        xi, size = guess.copy(), np.full(len(guess), np.inf)
        step = np.zeros_like(xi)
        damping, active = np.ones(len(xi)), np.ones(len(xi), dtype=bool)
        for _ in range(25):
            rows = np.flatnonzero(active)
            trial = xi[rows] - damping[rows, None] * step[rows]
            miss, jacobian = self._attempt(start[rows], direction[rows], trial)
            new = np.abs(miss).max(axis=1)
            better = new < size[rows]
            settled = ~better & (size[rows] < LOG_TOL)  # rounding limits the descent
            for k in np.flatnonzero(better):
                i = rows[k]
                xi[i], size[i], damping[i] = trial[k], new[k], min(1.0, 2 * damping[i])
                newton = np.linalg.lstsq(jacobian[k], miss[k], rcond=None)[0]
                longest = 2 * (np.abs(xi[i]).max() + np.abs(direction[i]).max())
                step[i] = newton * min(1.0, longest / max(np.abs(newton).max(), 1e-300))
            damping[rows[~better]] /= 4
            small = np.abs(step[rows]).max(axis=1) < 1e-15 * (1 + np.abs(xi[rows]).max(axis=1))
            lost = damping[rows] < 1e-3
            active[rows[settled | (better & small) | lost | ~np.isfinite(size[rows])]] = False
            if not active.any():
                break
        return xi, size < LOG_TOL

    def _attempt(self, start: np.ndarray, direction: np.ndarray, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual of each end point, shape=[b, n], and its derivative; infinite where a motion fails."""
        try:
            end, slope = self._flow(start, xi, sensitive=True)
        except RuntimeError:
            if len(xi) == 1:
                return np.full_like(xi, np.inf), np.zeros((1, xi.shape[1], xi.shape[1]))
            single = [self._attempt(start[[i]], direction[[i]], xi[[i]]) for i in range(len(xi))]
            return np.concatenate([m for m, _ in single]), np.concatenate([s for _, s in single])
        return mapped(_miss, self.system, start, direction, end, slope)

    def _continue(self, start: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """One logarithm, by continuation of the end point from the start along the one-parameter subgroup."""
        done, stride = 0.0, 0.25
        xi, before = np.zeros_like(direction), None
        while done < 1.0:
            target = min(1.0, done + stride)
            slope = direction if before is None else (xi - before[1]) / (done - before[0])
            new, converged = self._shoot(start, target * direction, xi + (target - done) * slope)
            if converged[0]:
                before, done, xi = (done, xi), target, new
                stride = min(0.25, 1.5 * stride)
            elif stride > 0.02:
                stride /= 2
            else:
                raise RuntimeError(
                    f"log: no geodesic of {self.system.name} was found; along the subgroup from base_point, "
                    f"shooting stopped at {done:.3g} of the way: cut locus or edge; take a nearer point"
                )
        return xi[0]

    def _flow(self, start: np.ndarray, xi: np.ndarray, sensitive: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """End points, shape=[b, N], and, if ``sensitive``, their derivatives by the velocities, shape=[b, N, n]."""
        b, N, n = len(start), start.shape[1], self.group.dim
        state = np.concatenate([start, xi], axis=1)
        if sensitive:
            tangents = np.zeros((b, n, N + n))
            tangents[:, np.arange(n), N + np.arange(n)] = 1.0
            state = np.concatenate([state, tangents.reshape(b, -1)], axis=1)
        rate = engine.prepared(_on_row, (_variation if sensitive else _rate, self.system), (state[0],))
        evaluations = count()

        def slope(_: float, y: np.ndarray) -> np.ndarray:
            if sensitive and next(evaluations) >= SHOOTING_BUDGET:
                raise RuntimeError(f"shooting left the neighbourhood of the geodesic of {self.system.name}")
            result = rate((y.reshape(state.shape),)).ravel()
            if not np.all(np.isfinite(result)):
                raise RuntimeError(f"the free motion of {self.system.name} meets values that are not finite")
            return result

        with float64():
            solution = scipy.integrate.solve_ivp(
                slope, (0.0, 1.0), state.ravel(), method="DOP853", rtol=RTOL, atol=ATOL
            )
        if not solution.success:
            raise RuntimeError(f"the free motion of {self.system.name} could not be integrated: {solution.message}")
        end = solution.y[:, -1].reshape(state.shape)
        return end[:, :N], np.swapaxes(end[:, N + n :].reshape(b, -1, N + n)[:, :, :N], 1, 2)


# --- single elements, mapped over a leading axis and compiled once for a system's structure ----------------
def _rate(system: ConstrainedSystem, state: Array) -> Array:
    """Time derivative of (g, ξ)."""
    group, n = system.group, system.group.dim
    g, xi = group.from_vector(state[:-n]), state[-n:]
    acceleration = accelerations(system, jnp.zeros(()), g, xi)[0]
    return jnp.concatenate([group.to_vector(group.left_tangent(g, xi)), acceleration])


def _variation(system: ConstrainedSystem, state: Array) -> Array:
    """Time derivative of (g, ξ) and of n tangent vectors to it, flattened."""
    size = len(system.group.point_names) + system.group.dim
    y, tangents = state[:size], state[size:].reshape(-1, size)
    rate, linear = jax.linearize(lambda y: _rate(system, y), y)
    return jnp.concatenate([rate, jax.vmap(linear)(tangents).ravel()])


def _miss(system: ConstrainedSystem, start: Array, direction: Array, end: Array, slope: Array) -> tuple[Array, Array]:
    """Residual log(target⁻¹ end), shape=[n], of the target start·exp(direction); its slope from that of the end."""
    group: LieGroup = system.group
    back = group.inverse(group.compose(group.from_vector(start), group.exp(direction)))

    def miss(end: Array) -> Array:
        return group.log(group.compose(back, group.from_vector(end)))

    value, linear = jax.linearize(miss, end)
    return value, jax.vmap(linear, in_axes=1, out_axes=1)(slope)


def mapped(function: Callable, system: ConstrainedSystem, *rows: np.ndarray) -> Any:
    """``function(system, *row)`` over the leading axis of the rows; an array, or a tuple of arrays."""
    return engine.mapped(_on_row, (function, system), rows)


def _on_row(tree: tuple, row: tuple) -> Any:
    function, system = tree
    return function(system, *row)

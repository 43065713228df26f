r"""Lyapunov exponents: growth rates of perturbations in all directions, by Benettin's method.

Perturbations (η, δ) of g·exp(η) and ξ + δ within the constraints are propagated by the derivative of the method's
own step, which is exact, and orthonormalised by Gram–Schmidt every few steps; the logarithms of the norms removed,
summed and divided by the time, tend to the exponents. For a method that keeps the motion on the constraints there are
2n − m, less one for each holonomic constraint.

Source: Benettin, Galgani, Giorgilli, Strelcyn, *Meccanica* 15 (1980) 9; Shimada, Nagashima, *Prog. Theor. Phys.* 61
(1979) 1605.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import gram_schmidt
from geonh.analysis.closing import method_of_velocities
from geonh.analysis.flow import displacement
from geonh.analysis.subspaces import kernel
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64
from geonh.engine import computed, stepping
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.runge_kutta import RKMK
from geonh.integrators.validity import Result
from geonh.integrators.wiener import Wiener
from geonh.mechanics.soundness import sound_at
from geonh.mechanics.system import System
from geonh.runs.controls import drive_of, refuse_off_grid


@dataclass(frozen=True)
class LyapunovSpectrum:
    """Lyapunov exponents of a motion.

    Attributes
    ----------
    exponents : ndarray, shape=[q]
        1/s, the largest first.
    t : ndarray, shape=[N]
        Times, s.
    running : ndarray, shape=[N, q]
        Estimates of the exponents at these times: their convergence.
    """

    exponents: np.ndarray
    t: np.ndarray
    running: np.ndarray

    def __str__(self) -> str:
        return f"Lyapunov exponents after {self.t[-1]:.6g} s: {', '.join(f'{e:.6g}' for e in self.exponents)} 1/s"

    __repr__ = __str__


class _Perturbations(NamedTuple):
    """Node k, an orthonormal frame of perturbations (η, δ) in rows, and the sums of the logarithms removed so far."""

    k: ArrayLike
    g: Point
    xi: ArrayLike
    frame: ArrayLike
    sums: ArrayLike


class _Propagation(NamedTuple):
    """System, method, controls and time step, and the number of steps from one orthonormalisation to the next."""

    system: System
    method: Integrator
    controls: Any
    dt: ArrayLike
    every: ArrayLike


class _Propagated(NamedTuple):
    """State of the loop over steps: the motion, the perturbations, and the status of the first step that failed."""

    g: Point
    xi: Array
    frame: Array
    status: Array


@validated
def lyapunov_exponents(
    system: System,
    g: Any,
    xi: Any,
    *,
    dt: float,
    n_steps: int,
    count: int | None = None,
    every: int = 10,
    n_saved: int = 100,
    method: Integrator | str | None = None,
    controls: Any = None,
) -> LyapunovSpectrum:
    """Lyapunov exponents along a motion.

    Parameters
    ----------
    system : System
    g : point of the group, or None for the identity
        Initial configuration.
    xi : array_like, shape=[n]
        Initial velocity, on the constraints.
    dt : float
        Time step, s.
    n_steps : int
        Number of steps.
    count : int, optional
        Number of the largest exponents; all 2n − m when left out (2n − m − k with k constraints on positions).
    every : int
        Steps from one orthonormalisation to the next.
    n_saved : int
        Maximum number of values of ``running``.
    method : Integrator or str, optional
        A method whose node is a velocity; ``RKMK(4)`` when left out.
    controls : callable, optional
        u(t), or noise, ``Wiener``: the exponents along its path.

    Returns
    -------
    LyapunovSpectrum

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If a step fails.
    """
    method = method_of_velocities(system, method, RKMK())
    n, n_steps = system.group.dim, as_count(n_steps, "n_steps")
    every, n_saved = min(as_count(every, "every"), n_steps), as_count(n_saved, "n_saved")
    xi = as_float64(xi, "xi", (n,))
    point = system.point(g, name="g")
    controls = drive_of(system, controls, point, xi, method)
    dt = float(as_constant(dt, "dt"))
    if not dt:
        raise ValueError("dt must not be zero")
    if isinstance(controls, Wiener):
        refuse_off_grid(controls, 0.0, dt)
    system = sound_at(system, 0.0, point, "at g")
    residual, rows = computed(_constraint_slope, system, (point, xi))
    if np.abs(residual).max(initial=0.0) > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(f"xi is off the constraints of {system.name} by {residual}; system.project(g, xi) is on them")
    frame = kernel(rows, float(np.linalg.norm(rows)) or 1.0).T
    count = len(frame) if count is None else as_count(count, "count")
    if count > len(frame):
        raise ValueError(f"count must be at most {len(frame)}, the dimension of the states, got {count}")
    rounds = n_steps // every
    state = _Perturbations(np.zeros(()), point, xi, frame[:count], np.zeros(count))
    propagation = _Propagation(system, method, controls, np.float64(dt), np.int64(every))
    loop = stepping(_round, _row, propagation, state)
    stride = max(rounds // n_saved, 1)
    buffer = np.empty((rounds // stride, loop.width))
    for reached, status, _ in loop.pieces(state, len(buffer), stride, buffer):
        if status:
            raise RuntimeError(
                f"a step of {system.name} failed at t = {float(reached.k) * dt:.6g}: {Result(status).message}"
            )
    t = buffer[:, 0] * dt
    running = buffer[:, 1:] / t[:, None]
    order = np.argsort(-running[-1], kind="stable")
    return LyapunovSpectrum(running[-1][order], t, running[:, order])


def _constraint_slope(system: System, node: tuple) -> tuple[Array, Array]:
    """Residual (μξ − b, φ) and its derivative by (η, δ), shape=[m + k, 2n]."""
    g, xi = node
    n = system.group.dim

    def residual(z: Array) -> Array:
        at = system.group.compose(g, system.group.exp(z[:n]))
        x = system.at(at, 0.0)
        return jnp.concatenate([system.constraint_residual(x, xi + z[n:]), system.holonomic_residual(x)])

    if not system.is_constrained:
        return jnp.zeros(0), jnp.zeros((0, 2 * n))
    return residual(jnp.zeros(2 * n)), jax.jacfwd(residual)(jnp.zeros(2 * n))


def _round(propagation: _Propagation, state: _Perturbations) -> tuple[_Perturbations, Array]:
    """Propagate the perturbations over some steps, and orthonormalise them."""
    system, method, controls, dt, every = propagation
    group, n = system.group, system.group.dim

    def step(k: Array, before: _Propagated) -> _Propagated:
        g, xi, frame, status = before
        clock = Clock((state.k + k) * dt, dt, controls)

        def perturbed_step(z: Array) -> tuple[Point, Array, Array]:
            node = method.first_node(system, clock, group.compose(g, group.exp(z[:n])), xi + z[n:])
            new = method.next_node(system, clock, node)
            x = system.at(new.g, clock.time(1))
            return new.g, system.velocity(x, (new.p_plus + new.p_minus) / 2), new.status

        (new_g, new_xi, new_status), derivative = jax.linearize(perturbed_step, jnp.zeros(2 * n))

        def propagated(row: Array) -> Array:
            rate, delta, _ = derivative(row)
            return jnp.concatenate([displacement(group, new_g, rate), delta])

        return _Propagated(new_g, new_xi, lax.map(propagated, frame), jnp.where(status == 0, new_status, status))

    begin = _Propagated(state.g, state.xi, state.frame, jnp.zeros((), jnp.int32))
    g, xi, stretched, status = lax.fori_loop(0, every, step, begin)
    frame = gram_schmidt(stretched, jnp.eye(2 * n))
    sums = state.sums + jnp.log(jnp.sum(frame * stretched, axis=1))
    return _Perturbations(state.k + every, group.project(g), xi, frame, sums), status


def _row(propagation: _Propagation, state: _Perturbations) -> Array:
    return jnp.concatenate([state.k[None], state.sums])

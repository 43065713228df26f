"""Reference solutions of the continuous equations, by an adaptive method of high order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_float64, shortly
from geonh.engine import prepared
from geonh.groups.base import Point
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.equations import accelerations
from geonh.mechanics.soundness import place_fault
from geonh.runs.controls import drive_of


@validated
def reference_trajectory(
    system: ConstrainedSystem,
    times: Any,
    xi0: Any,
    g0: Any = None,
    *,
    controls: Any = None,
    rtol: float = 1e-12,
    atol: float = 1e-13,
) -> tuple[Point, np.ndarray]:
    """Solve the continuous equations to high accuracy with SciPy's DOP853.

    Parameters
    ----------
    system : System
    times : array_like, shape=[N]
        Increasing or decreasing times in seconds; the start is at ``times[0]``.
    xi0 : array_like, shape=[n]
        Consistent initial velocity.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    controls : callable, optional
        u(t), in ``jax.numpy``.
    rtol, atol : float
        Tolerances of the solver, in (0, 1).

    Returns
    -------
    g : point of the group
        Group elements, with a leading axis of length N.
    xi : ndarray, shape=[N, n]
        Velocities.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a shape does not fit, times or tolerances are invalid, or the equations are not finite at the start, as where
        constraints are dependent.
    RuntimeError
        If the solver fails.
    """
    from scipy.integrate import solve_ivp

    group, n = system.group, system.group.dim
    times, point, xi = as_float64(times, "times"), system.point(g0), as_float64(xi0, "xi0", (n,))
    forward = np.diff(times) > 0 if times.ndim == 1 else np.zeros(1, bool)
    if times.ndim != 1 or len(times) < 2 or np.any(forward != forward[0]) or np.any(np.diff(times) == 0):
        raise ValueError(f"times must be two or more in one direction, shape [N], got {shortly(times)}")
    rtol, atol = (float(as_constant(value, name)) for value, name in ((rtol, "rtol"), (atol, "atol")))
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not 0 < tolerance < 1:
            raise ValueError(f"{name} must lie in (0, 1), got {tolerance}")
    controls = drive_of(system, controls, point, xi)
    system = system.with_rank_at(point, times[0])
    with float64():
        start = np.concatenate([np.asarray(group.to_vector(point)), xi])
    slope = prepared(_slope, (system, controls), (np.zeros(()), start))
    if not np.all(np.isfinite(slope((times[:1], start[None])))):
        fault = place_fault(system, times[0], system.point(g0), "at g0")
        raise ValueError(fault or f"the equations of {system.name} are not finite at the start")
    with float64():
        solution = solve_ivp(
            lambda t, y: slope((np.array([t]), y[None]))[0],
            (times[0], times[-1]),
            start,
            method="DOP853",
            t_eval=times,
            rtol=rtol,
            atol=atol,
        )
        if not solution.success:
            raise RuntimeError(f"the reference solution of {system.name} failed: {solution.message}")
        g = jax.tree.map(np.asarray, group.project(group.from_vector(jnp.asarray(solution.y[:-n].T))))
    return g, solution.y[-n:].T


def _slope(tree: tuple, node: tuple) -> Array:
    """Vector field (ġ, ξ̇) as one vector, of the time and of (g, ξ)."""
    (system, controls), (t, state) = tree, node
    g, xi = system.group.from_vector(state[: -system.group.dim]), state[-system.group.dim :]
    u = None if controls is None else controls(t)
    g_dot = system.group.to_vector(system.group.left_tangent(g, xi))
    return jnp.concatenate([g_dot, accelerations(system, t, g, xi, u)[0]])

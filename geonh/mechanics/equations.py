r"""The continuous equations on M × g, solved for the acceleration and the multipliers (mathematics.md §2).

With H = ∂²ℓ/∂ξ², differentiating p = ∂ℓ/∂ξ and the constraint along ẋ = ρ_x ξ,

    H ξ̇ − μᵀλ = ad*_ξ p + ρ_x*∂ℓ/∂x + f − (D_x p)ρ_x ξ
    μ ξ̇       = D_x(b − μξ) ρ_x ξ
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import Point
from geonh.mechanics.lagrangian import LagrangianSystem
from geonh.mechanics.soundness import place_fault
from geonh.numerics.compiled import prepared
from geonh.numerics.judging import judged
from geonh.numerics.outside import evaluated
from geonh.numerics.precision import as_float64, float64, in_float64, is_traced, shortly
from geonh.numerics.tracing import traced_once


@judged
@in_float64
def accelerations(system: LagrangianSystem, t: Array, g: Point, xi: Array, u: Any = None) -> tuple[Array, Array]:
    """ξ̇ and the multipliers of the continuous equations ṗ = ad*_ξ p + ρ_xᵀ∂ₓℓ + f + μᵀλ, μξ = b.

    Parameters
    ----------
    system : System
        Linear or affine constraints, or none.
    t : float
        Time, s.
    g : point of the group
        Where it is.
    xi : array_like, shape=[n]
        Velocity in the frame of the body, on the constraints.
    u : array_like, optional
        Controls, of the shape that the system's forces take.

    Returns
    -------
    ndarray, shape=[n]
        ξ̇, the velocity's units per second; nan where a metric is not positive definite.
    ndarray, shape=[m]
        λ, in newtons or newton metres per unit of the forms.

    Raises
    ------
    TypeError
        If ``system`` is no System, or the others are not made of numbers.
    ValueError
        If ``g`` or ``xi`` have other shapes than the system's, or ``u`` is given to a system without forces.
    """
    if not is_traced(system, t, g, xi, u):
        g, xi = system.point(g, on_group=False, name="g"), as_float64(xi, "xi", (system.group.dim,))
        if u is not None and system.forces is None:
            raise ValueError(f"u is given, but {system.name} has no forces that would use it")
    return evaluated(_accelerations, (system, t, g, xi, u), {})


def _accelerations(system: LagrangianSystem, t: Array, g: Point, xi: Array, u: Any) -> tuple[Array, Array]:
    return accelerations_at(system, t, system.at(g, t), xi, u)


@traced_once
def accelerations_at(system: LagrangianSystem, t: Array, x: Any, xi: Array, u: Any = None) -> tuple[Array, Array]:
    """The same, at a base point x."""
    velocity_of_x = system.rate(x, xi)
    p, drift = jax.jvp(lambda x: system.momentum(x, xi), (x,), (velocity_of_x,))
    force = (
        system.group.ad_star(xi, p)
        + system.coanchor(lambda x: system.lagrangian(x, xi), x)
        + system.force(t, x, xi, u)
        - drift
    )
    H, mu = system.mass_matrix(x, xi), system.annihilator(x)
    turning = jax.jvp(lambda x: system.constraint_residual(x, xi), (x,), (velocity_of_x,))[1]
    return system.constrained(H, mu, force, -turning)


@judged
@in_float64
def multipliers(system: LagrangianSystem, t: Array, g: Point, xi: Array, u: Any = None) -> Array:
    """The multipliers λ of the constraint force μᵀλ in the continuous equations.

    Parameters
    ----------
    system : System
        Linear or affine constraints, or none.
    t : float
        Time, s.
    g : point of the group
        Where it is.
    xi : array_like, shape=[n]
        Velocity in the frame of the body, on the constraints.
    u : array_like, optional
        Controls, of the shape that the system's forces take.

    Returns
    -------
    ndarray, shape=[m]
        In newtons or newton metres per unit of the forms, those of holonomic constraints first.

    Raises
    ------
    TypeError, ValueError
        As of ``accelerations``.
    """
    return accelerations(system, t, g, xi, u)[1]


@judged
def reference_trajectory(
    system: LagrangianSystem,
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
        The system.
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
        If a shape does not fit, times or tolerances are none, or the equations are not finite at the start, as where
        constraints are dependent.
    RuntimeError
        If the solver fails.
    """
    from scipy.integrate import solve_ivp

    from geonh.start import made_drive

    group, n = system.group, system.group.dim
    times, point, xi = as_float64(times, "times"), system.point(g0), as_float64(xi0, "xi0", (n,))
    forward = np.diff(times) > 0 if times.ndim == 1 else np.zeros(1, bool)
    if times.ndim != 1 or len(times) < 2 or np.any(forward != forward[0]) or np.any(np.diff(times) == 0):
        raise ValueError(f"times must be two or more in one direction, shape [N], got {shortly(times)}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not 0 < tolerance < 1:
            raise ValueError(f"{name} must lie in (0, 1), got {tolerance}")
    controls = made_drive(system, controls, point, xi)
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
    """(ġ, ξ̇) in one vector, of the time and of (g, ξ)."""
    (system, controls), (t, state) = tree, node
    g, xi = system.group.from_vector(state[: -system.group.dim]), state[-system.group.dim :]
    u = None if controls is None else controls(t)
    g_dot = system.group.to_vector(system.group.left_tangent(g, xi))
    return jnp.concatenate([g_dot, accelerations(system, t, g, xi, u)[0]])

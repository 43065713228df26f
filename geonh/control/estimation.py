r"""Estimation: parameters of a system from noisy observations of one motion, with error bars.

Unknown are parameters θ and, optionally, the start (η, δ) of g₀exp(η), ξ₀ + δ. Least squares of y_i − o(g_i, ξ_i) by
the Gauss–Newton method with step halving, with derivatives that are exact through all steps of the integrator.
With independent noise of size σ the covariance of the estimates is σ²(JᵀJ)⁻¹ (to leading order in the noise).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.analysis.equations import with_parameters
from geonh.arguments.precision import float64
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_count, as_float64, as_names, as_part
from geonh.engine.compiled import mapped
from geonh.geometry.field import evaluated, takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.node import Result
from geonh.integrators.registry import made_method
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System
from geonh.runs.start import inspect_forces, made_start

HALVINGS = 20
SMALL = 1e-4
"""Step, relative to the standard errors, below which it is accepted without a test of descent, because of rounding."""
BLIND = 1e-12
"""Relative sensitivity of the observations below which a parameter counts as not identifiable."""
EXACT = 1e-13
"""Residuals, relative to the data, below which the fit is exact to rounding."""
FREE = 1e-10
"""Relative singular values below which directions of the start count as unobservable."""


@dataclass(frozen=True)
class Estimate:
    """Parameters estimated from data.

    Attributes
    ----------
    values, errors : dict of str to float
        Estimates and their standard errors.
    covariance : ndarray, shape=[p, p]
        Covariance of the parameters, in the order of ``values``.
    sigma : float
        Standard deviation of the noise: the one given, or that of the residuals.
    residuals : ndarray, shape=[N, q]
        Observations minus predictions.
    g, xi : point of the group, ndarray of shape=[n]
        Start of the motion, estimated if ``free_start``.
    iterations : int
        Number of Gauss–Newton iterations.
    system : System
        With the estimated parameters.
    """

    values: dict[str, float]
    errors: dict[str, float]
    covariance: np.ndarray
    sigma: float
    residuals: np.ndarray
    g: Point
    xi: np.ndarray
    iterations: int
    system: System = field(repr=False)

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {value:.6g} ± {self.errors[name]:.2g}" for name, value in self.values.items())
        return f"{said} (noise {self.sigma:.3g})"

    __repr__ = __str__


@judged
def estimate(
    system: System,
    names: str | Sequence[str],
    data: Any,
    at: Any,
    observe: Callable,
    *,
    g0: Any = None,
    xi0: Any,
    dt: float,
    free_start: bool = False,
    sigma: float | None = None,
    controls: Any = None,
    t0: float = 0.0,
    method: Integrator | str | None = None,
    tol: float = 1e-8,
    max_iterations: int = 50,
) -> Estimate:
    """Estimate parameters of a system from observations of one motion.

    Least squares by the Gauss–Newton method; the covariance of the estimates is σ²(JᵀJ)⁻¹, J the derivative of the
    observations by the parameters.

    Parameters
    ----------
    system : System
        With initial guesses of the parameters.
    names : str or sequence of str
        Scalar parameters to be estimated.
    data : array_like, shape=[N, q]
        Observations.
    at : array_like of int, shape=[N]
        Nodes at which the observations were taken, k with t_k = t0 + k·dt; increasing, from 0 on.
    observe : callable
        o(g, ξ) or o(g, ξ, parameters) → shape=[q], in ``jax.numpy``: observation of a state.
    g0, xi0 : point of the group, array_like of shape=[n]
        Start of the motion, or a guess of it; projected onto the constraints of each trial's parameters, so that the
        estimate does not depend on their guess.
    dt : float
        Time step, s.
    free_start : bool
        True to estimate the start as well.
    sigma : float, optional
        Standard deviation of the noise, equal for all observations (scale them otherwise); from the residuals if None.
    controls : callable or array_like, shape=[nodes, …], optional
        As in ``solve``.
    t0 : float
        Initial time, s.
    method : Integrator or str, optional
        ``Gauss(2)`` by default. Its own error must be small beside the noise.
    tol : float
        Size of a step, relative to the parameters' standard errors, at which the iteration stops.
    max_iterations : int
        Maximum number of steps.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError, TypeError
        For invalid input, and for parameters that are not identifiable from the data.
    RuntimeError
        If a step of the motion fails, or the iteration does not converge.
    """
    method = made_method(method, controls)
    refuse(method, system)
    names = [names] if isinstance(names, str) else as_names(names, "names")
    unknown = [n for n in names if n not in system.parameters or np.shape(system.parameters[n]) != ()]
    if unknown or not names or len(set(names)) < len(names):
        raise ValueError(
            f"names must be numbers among the parameters {list(system.parameters)}, each once, got {unknown or names}"
        )
    values, places = as_float64(data, "data"), as_float64(at, "at")
    if values.ndim != 2 or places.shape != values.shape[:1] or np.any(places != np.floor(places)):
        raise ValueError(f"data must have shape [N, q] and at N integers, got {values.shape} and {places.shape}")
    if len(places) == 0 or places[0] < 0 or np.any(np.diff(places) <= 0):
        raise ValueError("at must increase, from 0 on")
    places = places.astype(np.int64)
    max_iterations = as_count(max_iterations, "max_iterations")
    if sigma is not None and not sigma > 0:
        raise ValueError(f"sigma must be positive, got {sigma:g}")
    tol = as_part(tol, "tol")
    n = system.group.dim
    t0 = as_float64(t0, "t0", ())
    point, xi = system.point(g0, on_group=False), np.asarray(as_float64(xi0, "xi0", (n,)))
    place = system.project_position(g0, t0)
    started = system.project(place, xi, t0)
    velocity = np.asarray(started if system.holonomic is None else started[1])
    takes = takes_parameters(observe, "g, xi", "observe")
    clock = made_start(system, method, velocity, place, dt, t0, max(int(places[-1]), 1), controls).clock
    inspect_forces(system, clock, place, velocity)
    tried("observe", observe, place, velocity, *((system.parameters,) if takes else ()))
    tree = (system, method, clock, tuple(names), observe, takes)
    counts = np.diff(places, prepend=0).astype(np.int64)
    theta = np.array([float(system.parameters[name]) for name in names])
    p, extra = len(theta), 2 * n if free_start else 0
    directions = np.eye(p + 2 * n)[: p + extra]

    def shown(theta: np.ndarray, point: Point, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, tuple]:
        many = jax.tree.map(lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), (theta, point, xi, counts))
        (seen, start, status), slopes = mapped(_observed, tree, (*many, directions))
        return seen[0], np.asarray(slopes), int(status[0]), jax.tree.map(lambda a: a[0], start)

    if values.shape[1] != (width := shown(theta, point, xi)[0].shape[-1]):
        raise ValueError(f"data have {values.shape[1]} columns, observe gives {width}")
    freedom = values.size - p
    if freedom <= 0:
        raise ValueError(f"{values.size} observations do not determine {p} parameters and their noise")
    seen: np.ndarray
    seen, slopes, status, start = shown(theta, point, xi)
    iteration = 0
    for iteration in range(max_iterations + 1):  # noqa: B007
        if status:
            raise RuntimeError(
                f"the motion of {system.name} fails with {dict(zip(names, theta, strict=True))}: "
                f"{Result(status).message}"
            )
        rest = np.ravel(values - seen)
        J = slopes.reshape(len(directions), -1).T
        scale = np.linalg.norm(J, axis=0)
        unseen = scale[:p] * np.maximum(np.abs(theta), 1e-300) <= BLIND * np.linalg.norm(seen)
        if np.any(unseen):
            raise ValueError(
                f"the data do not depend on {[m for m, blind in zip(names, unseen, strict=True) if blind]}"
            )
        scale = np.where(scale > 0, scale, 1.0)
        left, singular, right = np.linalg.svd(J / scale, full_matrices=False)
        kept = singular > FREE * singular[0]
        inverse = (right[kept].T / singular[kept]) @ left[:, kept].T / scale[:, None]
        _refuse_blind(names, right, kept, p)
        step, rank = inverse @ rest, int(np.sum(kept))
        noise = sigma if sigma is not None else float(np.sqrt(rest @ rest / max(values.size - rank, 1)))
        covariance = ((noise * inverse) @ (noise * inverse).T)[:p, :p]
        errors = np.sqrt(np.diag(covariance))
        if np.all(np.abs(step[:p]) <= np.maximum(tol * errors, 4e-16 * np.abs(theta))) or np.linalg.norm(
            rest
        ) <= EXACT * np.linalg.norm(values):
            break
        for halved in range(HALVINGS):
            part = 0.5**halved * step
            with float64():
                group, z = system.group, jnp.asarray(np.append(part[p:], np.zeros(2 * n - extra)))
                moved = jax.tree.map(np.asarray, group.project(group.compose(point, group.exp(z[:n]))))
            trial = (theta + part[:p], moved, xi + np.asarray(z[n:]))
            found = shown(*trial)
            new = np.ravel(values - found[0])
            falls = new @ new < rest @ rest or np.all(np.abs(part[:p]) <= SMALL * errors)
            if found[2] == 0 and np.all(np.isfinite(new)) and falls:
                break
        else:
            raise RuntimeError(f"the estimate does not settle: no step lowers the sum of squares {rest @ rest:.6g}")
        theta, point, (seen, slopes, status, start) = trial[0], trial[1], found
        if free_start:
            point, xi = start[0], np.asarray(start[1])
    else:
        raise RuntimeError(f"the estimate does not settle in {max_iterations} steps; a better guess may do")
    result = {name: float(value) for name, value in zip(names, theta, strict=True)}
    changed = with_parameters(system, {name: np.float64(value) for name, value in result.items()})
    return Estimate(
        result,
        dict(zip(names, map(float, errors), strict=True)),
        covariance,
        float(noise),
        values - seen,
        start[0],
        np.asarray(start[1]),
        iteration,
        changed,
    )


def _refuse_blind(names: list[str], right: np.ndarray, kept: np.ndarray, p: int) -> None:
    """Raise ValueError where an unobservable direction involves parameters."""
    for row in right[~kept]:
        if np.abs(row[:p]).max() > 1e-6:
            mixed = [name for name, part in zip(names, row, strict=False) if abs(part) > 1e-6]
            raise ValueError(f"the data do not tell {' and '.join(mixed)} apart: give more, or fewer names")


def _observed(tree: tuple, node: tuple) -> tuple[tuple, Array]:
    """Observations, start and status of a motion, and the derivative of the observations in one direction."""
    system, method, clock, names, observe, takes = tree
    theta, g, xi, counts, direction = node
    group, n, p = system.group, system.group.dim, len(names)

    def motion(s: Array) -> tuple:
        seen: Array
        values = theta + s * direction[:p]
        own = with_parameters(system, dict(zip(names, values, strict=True)))
        begin = onto(own, group.compose(g, group.exp(s * direction[p : p + n])), clock.t0)[0]
        velocity = own.projected_velocity(own.at(begin, clock.t0), xi + s * direction[p + n :])

        def advance(_: Array, carry: tuple) -> tuple:
            state, status = carry
            new = method.next_node(own, clock, state)
            return new, jnp.where(status == 0, new.status, status)

        def observation(carry: tuple, count: Array) -> tuple:
            carry = lax.fori_loop(0, count, advance, carry)
            state = carry[0]
            after = own.velocity(own.at(state.g, clock.time(state.k)), (state.p_plus + state.p_minus) / 2)
            more = (own.parameters,) if takes else ()
            return carry, jnp.ravel(evaluated("observe", observe, state.g, after, *more))

        first = method.first_node(own, clock, begin, velocity)
        carry, seen = lax.scan(observation, (first, first.status), counts)
        return seen, (begin, velocity), carry[1]

    zero = jnp.zeros(())
    value, slope = jax.jvp(motion, (zero,), (zero + 1.0,))
    return value, slope[0]

r"""Estimation: parameters of a system from noisy observations of one motion, with error bars.

Unknown are parameters θ and, optionally, the start (η, δ) of g₀exp(η), ξ₀ + δ. Least squares of y_i − o(g_i, ξ_i) by
the Gauss–Newton method with step halving, with derivatives that are exact through all steps of the integrator.
With independent noise of size σ the covariance of the estimates is σ²(JᵀJ)⁻¹ (to leading order in the noise). The sum
of squares may have several minima; at a wrong one the residuals are no noise, as von Neumann's ratio tells.

Source: von Neumann, *Distribution of the ratio of the mean square successive difference to the variance*, Ann. Math.
Statist. 12 (1941).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.analysis.equations import with_parameters
from geonh.analysis.flow import Integration, integrated
from geonh.arguments.precision import float64
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_count, as_float64, as_names, as_part
from geonh.engine.compiled import mapped
from geonh.geometry.field import evaluated, takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.node import ArrayLike, Clock, Result
from geonh.integrators.registry import made_method
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System
from geonh.runs.start import inspect_forces, made_start

HALVINGS = 20
SMALL = 1e-4
"""Step, relative to the standard errors, below which it is accepted without a test of descent, because of rounding."""
UNSEEN = 1e-12
"""Relative sensitivity of the observations below which a parameter counts as not identifiable."""
EXACT = 1e-13
"""Residuals, relative to the data, below which the fit is exact to rounding."""
FREE = 1e-10
"""Relative singular values below which directions of the start count as unobservable."""

NOISELESS = 1e-9
"""Residuals, relative to the data, up to which they are not tested for noise."""
DEVIATIONS = 5.0
"""Number of standard deviations from which residuals count as no noise."""


@dataclass(frozen=True)
class Estimate:
    """Parameters estimated from data.

    Attributes
    ----------
    values, errors : dict of str to float
        Estimates and their standard errors.
    covariance : ndarray, shape=[k, k]
        Covariance of the k parameters, in the order of ``values``.
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
        estimates = (f"{name} = {value:.6g} ± {self.errors[name]:.2g}" for name, value in self.values.items())
        return f"{', '.join(estimates)} (noise {self.sigma:.3g})"

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
    observations by the parameters. It ends in a minimum near the guess, which may be another one than that of the true
    parameters, as where an oscillation is observed for many periods: a warning says where the residuals are no noise.

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
    unknown = [name for name in names if np.shape(system.parameters.get(name, [None])) != ()]
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
    t0 = as_float64(t0, "t0", ())
    guess = system.point(g0, on_group=False), np.asarray(as_float64(xi0, "xi0", (system.group.dim,)))
    place = system.project_position(g0, t0)
    projected = system.project(place, guess[1], t0)
    velocity = np.asarray(projected if system.holonomic is None else projected[1])
    takes = takes_parameters(observe, "g, xi", "observe")
    clock = made_start(system, method, velocity, place, dt, t0, max(int(places[-1]), 1), controls).clock
    inspect_forces(system, clock, place, velocity)
    tried("observe", observe, place, velocity, *((system.parameters,) if takes else ()))
    motion = ObservedMotion(system, method, clock, tuple(names), observe, takes)
    counts = np.diff(places, prepend=0).astype(np.int64)
    fit = _LeastSquares(motion, values, counts, sigma, free_start)
    unknowns = Unknowns(np.array([float(system.parameters[name]) for name in names]), *guess)
    prediction = fit.prediction(unknowns)
    if values.shape[1] != (width := prediction.observations.shape[-1]):
        raise ValueError(f"data have {values.shape[1]} columns, observe gives {width}")
    if values.size <= len(names):
        raise ValueError(f"{values.size} observations do not determine {len(names)} parameters and their noise")
    for iteration in range(max_iterations + 1):  # noqa: B007
        fit.refuse_failed(unknowns, prediction)
        step = fit.gauss_newton_step(unknowns, prediction)
        if step.is_small(unknowns, tol) or fit.is_exact(prediction):
            break
        unknowns, prediction = fit.line_search(unknowns, prediction, step)
    else:
        raise RuntimeError(f"the estimate did not converge in {max_iterations} iterations; a better guess may help")
    result = {name: float(value) for name, value in zip(names, unknowns.theta, strict=True)}
    _warn_of_structure(values, values - prediction.observations)
    return Estimate(
        values=result,
        errors=dict(zip(names, map(float, step.errors), strict=True)),
        covariance=step.covariance,
        sigma=float(step.noise),
        residuals=values - prediction.observations,
        g=prediction.g,
        xi=prediction.xi,
        iterations=iteration,
        system=with_parameters(system, {name: np.float64(value) for name, value in result.items()}),
    )


def _warn_of_structure(data: np.ndarray, residuals: np.ndarray) -> None:
    """Warn of residuals that follow each other, by von Neumann's ratio of squared successive differences to squares.

    It is 2 for noise, with a standard deviation of 2/√N of N numbers.
    """
    squares = np.sum(residuals**2, axis=0)
    if not np.sum(squares) > (NOISELESS * np.linalg.norm(data)) ** 2:
        return
    ratio = np.sum(np.diff(residuals, axis=0) ** 2) / np.sum(squares)
    size = len(residuals) * np.sum(squares) ** 2 / np.sum(squares**2)
    if ratio < 2 * (1 - DEVIATIONS / np.sqrt(size)):
        warnings.warn(
            f"the residuals are no noise: successive ones differ by {np.sqrt(ratio / 2):.2g} of what noise would; this "
            "may be another minimum than that of the true parameters (try other guesses), or the model or the time "
            "step is too coarse for these data",
            UserWarning,
            stacklevel=4,
        )


class ObservedMotion(NamedTuple):
    """A motion whose parameters ``names`` are sought, and the function by which its nodes are observed."""

    system: System
    method: Integrator
    clock: Clock
    names: tuple[str, ...]
    observe: Callable
    takes_parameters: bool


class Unknowns(NamedTuple):
    """The parameters θ, and the start (g₀, ξ₀), which is projected onto the constraints of these parameters."""

    theta: ArrayLike
    g: Point
    xi: ArrayLike


class Prediction(NamedTuple):
    """Observations of a motion, shape=[N, q], their derivatives in all directions, shape=[directions, N, q], the status
    of the motion, and its start."""

    observations: np.ndarray
    slopes: np.ndarray
    status: int
    g: Point
    xi: np.ndarray


class GaussNewtonStep(NamedTuple):
    """Step of all unknowns, the standard deviation of the noise, and the covariance of the parameters."""

    step: np.ndarray
    noise: float
    covariance: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the parameters."""
        return np.sqrt(np.diag(self.covariance))

    def is_small(self, unknowns: Unknowns, tol: float) -> bool:
        """True if the parameters change by less than ``tol`` of their errors, or than their rounding."""
        change = np.abs(self.step[: len(unknowns.theta)])
        return bool(np.all(change <= np.maximum(tol * self.errors, 4e-16 * np.abs(unknowns.theta))))


@dataclass(frozen=True)
class _LeastSquares:
    """Sum of squares of the residuals; ``counts`` are the steps from each observation to the next."""

    motion: ObservedMotion
    data: np.ndarray
    counts: np.ndarray
    sigma: float | None
    free_start: bool

    @property
    def directions(self) -> np.ndarray:
        """Directions of (θ, η, δ) in which the motion is differentiated, in rows."""
        n_parameters, n = len(self.motion.names), self.motion.system.group.dim
        return np.eye(n_parameters + 2 * n)[: None if self.free_start else n_parameters]

    def prediction(self, unknowns: Unknowns) -> Prediction:
        """Motion and its derivatives."""
        directions = self.directions
        same = jax.tree.map(lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), (*unknowns, self.counts))
        (observations, (g, xi), status), slopes = mapped(_observed, self.motion, (*same, directions))
        g = jax.tree.map(lambda a: a[0], g)
        return Prediction(observations[0], np.asarray(slopes), int(status[0]), g, np.asarray(xi[0]))

    def residual(self, prediction: Prediction) -> np.ndarray:
        """Observations minus predictions, flat."""
        return np.ravel(self.data - prediction.observations)

    def is_exact(self, prediction: Prediction) -> bool:
        """True if the residual is zero to rounding."""
        return bool(np.linalg.norm(self.residual(prediction)) <= EXACT * np.linalg.norm(self.data))

    def refuse_failed(self, unknowns: Unknowns, prediction: Prediction) -> None:
        """Raise RuntimeError if a step of the motion failed."""
        if prediction.status:
            system, names = self.motion.system, self.motion.names
            raise RuntimeError(
                f"the motion of {system.name} fails with {dict(zip(names, unknowns.theta, strict=True))}: "
                f"{Result(prediction.status).message}"
            )

    def gauss_newton_step(self, unknowns: Unknowns, prediction: Prediction) -> GaussNewtonStep:
        """Minimum of the linearised problem; raises ValueError if the data do not determine the parameters.

        Among unobservable directions of the start the step is of minimum norm.
        """
        names, residual = self.motion.names, self.residual(prediction)
        k = len(names)
        J = prediction.slopes.reshape(len(prediction.slopes), -1).T
        scale = np.linalg.norm(J, axis=0)
        sensitivity = scale[:k] * np.maximum(np.abs(unknowns.theta), 1e-300)
        unseen = sensitivity <= UNSEEN * np.linalg.norm(prediction.observations)
        if np.any(unseen):
            raise ValueError(f"the data do not depend on {[names[i] for i in np.flatnonzero(unseen)]}")
        scale = np.where(scale > 0, scale, 1.0)
        left, singular, right = np.linalg.svd(J / scale, full_matrices=False)
        observable = singular > FREE * singular[0]
        _refuse_unobservable(names, right[~observable])
        inverse = (right[observable].T / singular[observable]) @ left[:, observable].T / scale[:, None]
        if self.sigma is None:
            freedom = max(self.data.size - int(np.sum(observable)), 1)
            noise = float(np.sqrt(residual @ residual / freedom))
        else:
            noise = self.sigma
        covariance = ((noise * inverse) @ (noise * inverse).T)[:k, :k]
        return GaussNewtonStep(inverse @ residual, noise, covariance)

    def line_search(
        self, unknowns: Unknowns, prediction: Prediction, step: GaussNewtonStep
    ) -> tuple[Unknowns, Prediction]:
        """Unknowns after the longest step that lowers the sum of squares, or that is lost in rounding."""
        residual, k = self.residual(prediction), len(unknowns.theta)
        for halvings in range(HALVINGS):
            part = 0.5**halvings * step.step
            trial = self._moved(unknowns, part)
            new = self.prediction(trial)
            new_residual = self.residual(new)
            is_small = np.all(np.abs(part[:k]) <= SMALL * step.errors)
            descends = new_residual @ new_residual < residual @ residual or is_small
            if new.status == 0 and np.all(np.isfinite(new_residual)) and descends:
                return (trial._replace(g=new.g, xi=new.xi) if self.free_start else trial), new
        squares = residual @ residual
        raise RuntimeError(f"the estimate did not converge: no step lowers the sum of squares {squares:.6g}")

    def _moved(self, unknowns: Unknowns, step: np.ndarray) -> Unknowns:
        """(θ + δθ, g₀exp(η), ξ₀ + δ), with η = δ = 0 where the start is known."""
        group, k = self.motion.system.group, len(unknowns.theta)
        of_start = step[k:] if self.free_start else np.zeros(2 * group.dim)
        with float64():
            eta, delta = jnp.split(jnp.asarray(of_start), 2)
            g = jax.tree.map(np.asarray, group.project(group.compose(unknowns.g, group.exp(eta))))
        return Unknowns(unknowns.theta + step[:k], g, unknowns.xi + np.asarray(delta))


def _refuse_unobservable(names: tuple[str, ...], directions: np.ndarray) -> None:
    """Raise ValueError where an unobservable direction, a row, involves parameters."""
    for row in directions[:, : len(names)]:
        if np.abs(row).max() > 1e-6:
            mixed = [name for name, part in zip(names, row, strict=True) if abs(part) > 1e-6]
            raise ValueError(
                f"the data do not identify {' and '.join(mixed)} separately: give more data, or fewer names"
            )


def _observed(motion: ObservedMotion, node: tuple) -> tuple[tuple, Array]:
    """Observations, start and status of a motion, and the derivative of the observations in one direction."""
    theta, g, xi, counts, direction = node
    method, clock, group = motion.method, motion.clock, motion.system.group
    k, n = len(motion.names), group.dim

    def along(s: Array) -> tuple:
        observations: Array
        values = theta + s * direction[:k]
        system = with_parameters(motion.system, dict(zip(motion.names, values, strict=True)))
        start = onto(system, group.compose(g, group.exp(s * direction[k : k + n])), clock.t0)[0]
        velocity = system.projected_velocity(system.at(start, clock.t0), xi + s * direction[k + n :])

        def observation(done: Integration, count: Array) -> tuple[Integration, Array]:
            done = integrated(system, method, clock, done, count)
            last = done.node
            after = system.velocity(system.at(last.g, clock.time(last.k)), (last.p_plus + last.p_minus) / 2)
            more = (system.parameters,) if motion.takes_parameters else ()
            return done, jnp.ravel(evaluated("observe", motion.observe, last.g, after, *more))

        first = method.first_node(system, clock, start, velocity)
        done, observations = lax.scan(observation, Integration(first, first.status), counts)
        return observations, (start, velocity), done.status

    zero = jnp.zeros(())
    value, slope = jax.jvp(along, (zero,), (zero + 1.0,))
    return value, slope[0]

"""Parameter estimation: parameters of a system from noisy observations of one motion, with standard errors.

The sum of squares may have several minima. At a wrong one successive residuals are correlated, which
von Neumann's ratio detects (Ann. Math. Statist. 12 (1941)): it is 2 for noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, as_names, as_part
from geonh.control.least_squares import LeastSquares, ObservedMotion, Unknowns
from geonh.geometry.field import takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import as_method
from geonh.mechanics.system import System, with_parameters
from geonh.runs.controls import inspect_forces
from geonh.runs.start import as_start

NOISELESS = 1e-9
"""Residuals, relative to the data, up to which they are not tested for noise."""
DEVIATIONS = 5.0
"""Number of standard deviations from which residuals count as correlated."""


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


@validated
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
    parameters, as where an oscillation is observed for many periods: a warning says where the residuals are not noise.

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
        ``Gauss(2)`` by default. Its error must be small compared with the noise.
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

    References
    ----------
    .. [Nocedal2006] J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd ed., Springer (2006); §10.3.
    """
    method = as_method(method, controls)
    refuse(method, system)
    names = [names] if isinstance(names, str) else as_names(names, "names")
    unknown = [name for name in names if np.shape(system.parameters.get(name, [None])) != ()]
    if unknown or not names or len(set(names)) < len(names):
        raise ValueError(
            f"names must be numbers among the parameters {list(system.parameters)}, each once, got {unknown or names}"
        )
    values, places = _data_at_nodes(data, at)
    max_iterations = as_count(max_iterations, "max_iterations")
    if sigma is not None and not sigma > 0:
        raise ValueError(f"sigma must be positive, got {sigma:g}")
    tol = as_part(tol, "tol")
    t0 = as_float64(t0, "t0", ())
    guess = system.point(g0, on_group=False), np.asarray(as_float64(xi0, "xi0", (system.group.dim,)))
    place = system.project_position(g0, t0)
    system = system.with_rank_at(place, t0)
    projected = system.project(place, guess[1], t0)
    velocity = np.asarray(projected if system.holonomic is None else projected[1])
    takes = takes_parameters(observe, "g, xi", "observe")
    clock = as_start(system, method, velocity, place, dt, t0, max(int(places[-1]), 1), controls).clock
    inspect_forces(system, clock, place, velocity)
    tried("observe", observe, place, velocity, *((system.parameters,) if takes else ()))
    motion = ObservedMotion(system, method, clock, tuple(names), observe, takes)
    counts = np.diff(places, prepend=0).astype(np.int64)
    fit = LeastSquares(motion, values, counts, sigma, free_start)
    unknowns = Unknowns(np.array([float(system.parameters[name]) for name in names]), *guess)
    prediction = fit.prediction(unknowns)
    if values.shape[1] != (width := prediction.observations.shape[-1]):
        raise ValueError(f"data have {values.shape[1]} columns, observe gives {width}")
    if values.size <= len(names):
        raise ValueError(f"{values.size} observations do not determine {len(names)} parameters and their noise")
    minimum = fit.minimum(unknowns, prediction, tol, max_iterations)
    prediction, step = minimum.prediction, minimum.step
    result = {name: float(value) for name, value in zip(names, minimum.unknowns.theta, strict=True)}
    _warn_of_structure(values, values - prediction.observations)
    return Estimate(
        values=result,
        errors=dict(zip(names, map(float, step.errors), strict=True)),
        covariance=step.covariance,
        sigma=float(step.noise),
        residuals=values - prediction.observations,
        g=prediction.g,
        xi=prediction.xi,
        iterations=minimum.iterations,
        system=with_parameters(system, {name: np.float64(value) for name, value in result.items()}),
    )


def _data_at_nodes(data: Any, at: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validated observations, shape=[N, q], and the numbers of their nodes, shape=[N]."""
    values, places = as_float64(data, "data"), as_float64(at, "at")
    if values.ndim != 2 or places.shape != values.shape[:1] or np.any(places != np.floor(places)):
        raise ValueError(f"data must have shape [N, q] and at N integers, got {values.shape} and {places.shape}")
    if len(places) == 0 or places[0] < 0 or np.any(np.diff(places) <= 0):
        raise ValueError("at must increase, from 0 on")
    return values, places.astype(np.int64)


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
            f"the residuals are not noise: successive ones differ by {np.sqrt(ratio / 2):.2g} of what noise would; "
            "this may be another minimum than that of the true parameters (try other guesses), or the model or the "
            "time step is too coarse for these data",
            UserWarning,
            stacklevel=4,
        )

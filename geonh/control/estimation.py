"""Parameter estimation: parameters of a system from noisy observations of its motions, with standard errors.

The sum of squares may have several minima. At a wrong one successive residuals are correlated, which
von Neumann's ratio detects (Ann. Math. Statist. 12 (1941)): it is 2 for noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64, as_names, as_part
from geonh.control.least_squares import LeastSquares, ObservedMotion, Unknowns
from geonh.control.marquardt import Minimum, minimum
from geonh.control.sought import Sought, refuse_unknown
from geonh.engine import first_of_batch
from geonh.ensembles.batch import parted_controls, point_or_points
from geonh.geometry.field import takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import as_method
from geonh.mechanics.system import System, with_parameters
from geonh.runs.controls import inspect_forces
from geonh.runs.start import as_start

NOISELESS = 1e-9
"""Residuals, relative to the data, up to which they are not tested for noise;"""
QUIET = 0.1
"""and relative to the noise that was given."""
LARGEST = 1e100
"""Bound of data, whose squares are numbers."""
SHOWN = 9
"""Number of entries up to which an array is printed."""
DEVIATIONS = 5.0
"""Number of standard deviations from which residuals count as correlated."""


@dataclass(frozen=True)
class Estimate:
    """Parameters estimated from data.

    Attributes
    ----------
    values, errors : dict of str to float
        Estimates and their standard errors; of parameters that are arrays or pytrees of the same structure.
    covariance : ndarray, shape=[k, k]
        Covariance of the k numbers, in the order of ``values``.
    sigma : float
        Standard deviation of the noise: the one given, or that of the residuals.
    residuals : ndarray, shape=[N, q]
        Observations minus predictions; of several motions with a first axis of these, as ``g`` and ``xi``.
    g, xi : point of the group, ndarray of shape=[n]
        Start of the motion, estimated if ``free_start``.
    iterations : int
        Number of iterations.
    system : System
        With the estimated parameters.
    """

    values: dict[str, Any]
    errors: dict[str, Any]
    covariance: np.ndarray
    sigma: float
    residuals: np.ndarray
    g: Point
    xi: np.ndarray
    iterations: int
    system: System = field(repr=False)

    def __str__(self) -> str:
        estimates = (_described(name, value, self.errors[name]) for name, value in self.values.items())
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
    prior: float | Mapping[str, float] | None = None,
    controls: Any = None,
    t0: float = 0.0,
    method: Integrator | str | None = None,
    tol: float = 1e-2,
    max_iterations: int = 200,
) -> Estimate:
    """Estimate parameters of a system from observations of one motion, or of several.

    Least squares by Levenberg's and Marquardt's method, with geodesic acceleration; the covariance of the estimates is
    σ²(JᵀJ)⁻¹, J the derivative of the observations by the parameters. It ends in a minimum near the guess, which may be
    another one than that of the true parameters, as where an oscillation is observed for many periods: a warning says
    where the residuals are not noise.

    Parameters
    ----------
    system : System
        With initial guesses of the parameters.
    names : str or sequence of str
        Parameters to be estimated: numbers, arrays, or pytrees of these, such as an Equinox module.
    data : array_like, shape=[N, q] or [R, N, q]
        Observations of one motion, or of R; nan where there is none.
    at : array_like of int, shape=[N]
        Nodes at which the observations were taken, k with t_k = t0 + k·dt; increasing, from 0 on.
    observe : callable
        o(g, ξ) or o(g, ξ, parameters) → shape=[q], in ``jax.numpy``: observation of a state.
    g0, xi0 : point of the group, array_like of shape=[n]
        Start of the motion, or a guess of it; of R motions one for all, or with a first axis of length R. It is
        projected onto the constraints of each trial's parameters, so that the estimate does not depend on their guess.
    dt : float
        Time step, s.
    free_start : bool
        True to estimate the start as well.
    sigma : float, optional
        Standard deviation of the noise, equal for all observations (scale them otherwise); from the residuals if None.
    prior : float or dict of str to float, optional
        Standard deviations of the parameters about those of ``system``, before there are data: one number for all, or
        by their names. With ``sigma``; for parameters that the data alone do not determine, such as a network's.
    controls : callable or array_like, shape=[nodes, …], optional
        As in ``solve``; of R motions one for all, or with a first axis of length R.
    t0 : float
        Initial time, s.
    method : Integrator or str, optional
        ``Gauss(2)`` by default. Its error must be small compared with the noise.
    tol : float
        Size of a step, relative to the standard errors, at which the iteration stops; while each step is a tenth of the
        one before, it goes on to rounding.
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
        If a step of the motion fails, or the iteration does not converge; with the last estimate as ``.estimate``.

    References
    ----------
    .. [Tarantola2005] A. Tarantola, *Inverse Problem Theory and Methods for Model Parameter Estimation*, SIAM (2005);
       ch. 3: prior knowledge.
    .. [Nocedal2006] J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd ed., Springer (2006); §10.3.
    """
    method = as_method(method, controls)
    refuse(method, system)
    names = [names] if isinstance(names, str) else as_names(names, "names")
    refuse_unknown(system, names, "names")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"names must be parameters, each once, got {names}")
    values, places = _data_at_nodes(data, at)
    max_iterations = as_count(max_iterations, "max_iterations")
    if sigma is not None and not sigma > 0:
        raise ValueError(f"sigma must be positive, got {sigma:g}")
    tol = as_part(tol, "tol")
    t0 = as_float64(t0, "t0", ())
    many = None if values.ndim == 2 else len(values)
    guesses, n_steps = _starts(system, g0, xi0, many), max(int(places[-1]), 1)
    common, each = (controls, None) if many is None else parted_controls(system, controls, n_steps + 1)
    if each is not None and np.shape(each)[:1] != (many,):
        raise ValueError(f"controls have a first axis of {len(each)}, but there are {many} motions")
    system = system.with_rank_at(system.project_position(guesses[0][0], t0), t0)
    clocks, starts = [], []
    for i, (g, xi) in enumerate(guesses):
        place = system.project_position(g, t0)
        projected = system.project(place, xi, t0)
        velocity = np.asarray(projected if system.holonomic is None else projected[1])
        given = common if each is None else each[i]
        clocks.append(as_start(system, method, velocity, place, dt, t0, n_steps, given).clock)
        inspect_forces(system, clocks[-1], place, velocity)
        starts.append((place, velocity))
    takes = takes_parameters(observe, "g, xi", "observe")
    tried("observe", observe, *starts[0], *((system.parameters,) if takes else ()))
    sought = Sought(system, tuple(names))
    motion = ObservedMotion(sought, method, clocks[0], observe, takes)
    if not len(sought.theta):
        raise ValueError(f"names must be parameters with numbers, got {names}")
    fit = LeastSquares(
        motion,
        values.reshape(len(guesses), *values.shape[-2:]),
        np.diff(places, prepend=0).astype(np.int64),
        each,
        sigma,
        _precision(prior, sought, sigma),
        free_start,
    )
    seen, k = np.count_nonzero(fit.seen), len(sought.theta)
    if not seen or (prior is None and seen < k + (sigma is None)):
        what = f"{k} parameters and their noise" if sigma is None else f"{k} parameters"
        raise ValueError(f"{seen} observations do not determine {what}")
    unknowns = Unknowns(sought.theta, *jax.tree.map(lambda *each: np.stack(each), *guesses))
    prediction = fit.prediction(unknowns)
    if values.shape[-1] != (width := prediction.observations.shape[-1]):
        raise ValueError(f"data have {values.shape[-1]} columns, observe gives {width}")
    found = minimum(fit, unknowns, prediction, tol, max_iterations)
    estimated = _estimate(fit, found, many is None)
    if found.failure is not None:
        error = RuntimeError(
            f"the estimate {found.failure}; the last step is {found.step.size:.2g} standard errors (tol={tol:g}). "
            "The last estimate is in the error's .estimate; a better guess may help"
        )
        error.estimate = estimated  # type: ignore[attr-defined]
        raise error
    least = NOISELESS * np.linalg.norm(fit.data.ravel()[fit.seen]), QUIET * (sigma or 0.0) * np.sqrt(seen)
    _warn_of_structure(fit.data - found.prediction.observations, max(map(float, least)))
    return estimated


def _estimate(fit: LeastSquares, found: Minimum, is_one: bool) -> Estimate:
    """Estimate at a minimum; of one motion without an axis of motions."""
    sought, prediction, step = fit.motion.sought, found.prediction, found.step
    result = sought.values(found.unknowns.theta)
    one = first_of_batch if is_one else lambda tree: tree
    return Estimate(
        values={name: _plain(value) for name, value in result.items()},
        errors={name: _plain(value) for name, value in sought.values(step.errors).items()},
        covariance=step.covariance,
        sigma=float(step.noise),
        residuals=one(fit.data - prediction.observations),
        g=one(prediction.g),
        xi=one(prediction.xi),
        iterations=found.iterations,
        system=with_parameters(sought.system, result),
    )


def _described(name: str, value: Any, error: Any) -> str:
    """``a = 0.3 ± 0.01`` of a number or a short array; of others the name and how many numbers they are."""
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(eqx.filter(value, callable, inverse=True))]
    if len(sizes) > 1 or sizes[0] > SHOWN:
        return f"{name} ({sum(sizes)} numbers)"
    (value,), (error,) = jax.tree.leaves(eqx.filter((value,), callable, inverse=True)), jax.tree.leaves(error)
    if not np.shape(value):
        return f"{name} = {value:.6g} ± {error:.2g}"
    numbers, errors = (
        np.array2string(np.asarray(a), formatter={"float": f})
        for a, f in ((value, "{:.6g}".format), (error, "{:.2g}".format))
    )
    return f"{name} = {numbers} ± {errors}"


def _plain(value: Any) -> Any:
    """A number of the machine as one of Python."""
    return float(value) if isinstance(value, np.ndarray | np.generic | float) and not np.shape(value) else value


def _data_at_nodes(data: Any, at: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validated observations, shape=[N, q] or [R, N, q], and the numbers of their nodes, shape=[N]."""
    values, places = as_float64(data, "data", finite=False), as_float64(at, "at")
    if values.ndim not in (2, 3) or places.shape != values.shape[-2:-1]:
        raise ValueError(
            f"data must have shape [N, q], or [R, N, q] of R motions, and at N integers, "
            f"got {list(values.shape)} and {list(places.shape)}"
        )
    if np.any(between := places != np.floor(places)):
        raise ValueError(f"at must be integers, the numbers of nodes, got {places[between.argmax()]:g}")
    if np.any(np.abs(values) > LARGEST):
        largest = np.nanmax(np.abs(values))
        raise ValueError(f"data must be below {LARGEST:g}, or nan where there is no observation, got {largest:g}")
    if values.size == 0 or places[0] < 0 or np.any(np.diff(places) <= 0):
        raise ValueError("at must increase, from 0 on")
    return values, places.astype(np.int64)


def _starts(system: System, g0: Any, xi0: Any, many: int | None) -> list[tuple[Point, np.ndarray]]:
    """Guesses of the starts of all motions; of one if ``many`` is None."""
    if many is None:
        return [(system.point(g0, on_group=False), as_float64(xi0, "xi0", (system.group.dim,)))]
    xi = _each(as_float64(xi0, "xi0"), (system.group.dim,), many, "xi0")
    one = system.point(None)
    points = one if g0 is None else point_or_points(system, g0, one)
    points = jax.tree.map(lambda a, entry: _each(np.asarray(a), np.shape(entry), many, "g0"), points, one)
    return [(system.point(jax.tree.map(lambda a, i=i: a[i], points), on_group=False), xi[i]) for i in range(many)]


def _each(values: np.ndarray, shape: tuple[int, ...], many: int, name: str) -> np.ndarray:
    """Values of all motions, with a first axis of these, from those or from one for all."""
    if values.shape not in (shape, (many, *shape)):
        raise ValueError(
            f"{name} must have shape {list(shape)}, or {[many, *shape]} for {many} motions, got {list(values.shape)}"
        )
    return np.broadcast_to(values, (many, *shape))


def _precision(prior: Any, sought: Sought, sigma: float | None) -> np.ndarray:
    """1/s of the standard deviations s of all numbers before the data, 0 where there is none."""
    if prior is None:
        return np.zeros(len(sought.theta))
    if sigma is None:
        raise ValueError("prior= needs sigma=, the standard deviation of the noise, to be weighed against the data")
    named = dict(prior) if isinstance(prior, Mapping) else dict.fromkeys(sought.names, prior)
    if unknown := [name for name in named if name not in sought.names]:
        raise ValueError(f"prior: {unknown[0]!r} is not among names, {list(sought.names)}")
    widths = {name: float(as_constant(width, f"prior of {name}", positive=True)) for name, width in named.items()}
    counts = [len(sought._replace(names=(name,)).theta) for name in sought.names]
    return np.repeat([1 / widths[name] if name in widths else 0.0 for name in sought.names], counts)


def _warn_of_structure(residuals: np.ndarray, least: float) -> None:
    """Warn of residuals that follow each other, by von Neumann's ratio of squared successive differences to squares.

    It is 2 for noise, with a standard deviation of 2/√N of N numbers. ``residuals`` of shape=[R, N, q], whose norm is
    above ``least`` where they are tested.
    """
    squares, differences = np.nansum(residuals**2, axis=(0, 1)), np.diff(residuals, axis=1)
    pairs = np.sum(~np.isnan(differences))
    if not np.sum(squares) > least**2 or not pairs:
        return
    ratio = np.nansum(differences**2) * (differences.size / pairs) / np.sum(squares)
    rows = np.sum(~np.isnan(residuals)) / residuals.shape[-1]
    number = rows * np.sum(squares) ** 2 / np.sum(squares**2)
    if ratio < 2 * (1 - DEVIATIONS / np.sqrt(number)):
        warnings.warn(
            f"the residuals are not noise: successive ones differ by {np.sqrt(ratio / 2):.2g} of what noise would; "
            "this may be another minimum than that of the true parameters (try other guesses), or the model or the "
            "time step is too coarse for these data",
            UserWarning,
            stacklevel=4,
        )

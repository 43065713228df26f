r"""Residuals of observed motions, their derivatives, and the minimum of the linearised sum of squares.

Unknown are parameters θ and, optionally, the starts (η, δ) of g₀exp(η), ξ₀ + δ. Derivatives are exact through all steps
of the integrator. With independent noise of size σ, and independent prior knowledge of the parameters, θ₀ with standard
deviations s, the sum of squares, and to leading order in the noise the covariance of the estimates, are

    |y − ŷ(θ)|² + |σ(θ − θ₀)/s|²,   σ²(JᵀJ + diag(σ/s)²)⁻¹.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import Array, lax

from geonh.analysis.flow import Integration, integrated
from geonh.arguments.validators import shortly
from geonh.control.sought import Sought
from geonh.engine import mapped
from geonh.geometry.field import evaluated
from geonh.groups.base import LieGroup, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.validity import Result
from geonh.mechanics.holonomic import onto

ROUNDING = 16 * np.finfo(float).eps
"""Relative rounding of observations, after some hundred steps."""
UNSEEN = 1e-12
"""Relative sensitivity of the observations below which a parameter counts as not identifiable."""
EXACT = 1e-13
"""Residuals, relative to the data, below which the fit is exact to rounding."""
FREE = 1e-10
"""Relative singular values below which directions of the start count as unobservable."""


class ObservedMotion(NamedTuple):
    """Motions of a system whose parameters are sought, and the function by which their nodes are observed."""

    sought: Sought
    method: Integrator
    clock: Clock
    observe: Callable
    takes_parameters: bool


class Unknowns(NamedTuple):
    """The parameters θ, shape=[k], and the starts (g₀, ξ₀) of R motions, with a first axis of these, which are
    projected onto the constraints of these parameters."""

    theta: np.ndarray
    g: Point
    xi: np.ndarray


class Prediction(NamedTuple):
    """Observations of R motions, shape=[R, N, q], their derivatives in all directions, shape=[R, directions, N, q],
    the status of each motion, shape=[R], and their starts."""

    observations: np.ndarray
    slopes: np.ndarray
    status: np.ndarray
    g: Point
    xi: np.ndarray


class GaussNewtonStep(NamedTuple):
    """Minimum of the linearised problem.

    Attributes
    ----------
    step : ndarray, shape=[K]
        Step of all K unknowns, θ and the start of each motion.
    directions, singular : ndarray, shape=[K, m], [m]
        Observable directions of the unknowns in columns, and their singular values.
    left : ndarray, shape=[m, rows]
        Rows that give the parts of a residual that these directions change.
    rest : ndarray, shape=[m]
        These parts of the residual.
    scale : ndarray, shape=[K]
        Sizes of the columns of the Jacobian, by which steps are damped; where a prior is known, proportional to it.
    noise : float
        Standard deviation of the noise.
    covariance : ndarray, shape=[k, k]
        Covariance of the parameters.
    deviations, rounding : ndarray, shape=[K]
        Standard errors of all unknowns, and the size of their steps that comes from the rounding of the observations.
    """

    step: np.ndarray
    directions: np.ndarray
    singular: np.ndarray
    left: np.ndarray
    rest: np.ndarray
    scale: np.ndarray
    noise: float
    covariance: np.ndarray
    deviations: np.ndarray
    rounding: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the parameters."""
        return self.deviations[: len(self.covariance)]

    @property
    def size(self) -> float:
        """Size of the step, relative to the standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nanmax(np.abs(self.step) / self.deviations, initial=0.0))

    def is_rounding(self, unknowns: Unknowns) -> bool:
        """True if the unknowns change by no more than their rounding."""
        sizes = np.ones(len(self.step))
        sizes[: len(unknowns.theta)] = np.abs(unknowns.theta)
        return bool(np.all(np.abs(self.step) <= np.maximum(self.rounding, 4e-16 * sizes)))


@dataclass(frozen=True)
class LeastSquares:
    """Sum of squares of the residuals of R motions.

    Attributes
    ----------
    motion : ObservedMotion
    data : ndarray, shape=[R, N, q]
        Observations; nan where there is none.
    counts : ndarray of int, shape=[N]
        Steps from each observation to the next.
    controls : ndarray, shape=[R, nodes, …], optional
        Controls of each motion, where they differ.
    sigma : float, optional
        Standard deviation of the noise; needed with a prior.
    prior : ndarray, shape=[k]
        1/s, of the standard deviations s of the parameters about those of the system; 0 where nothing is known.
    free_start : bool
        True if the starts are unknown.
    """

    motion: ObservedMotion
    data: np.ndarray
    counts: np.ndarray
    controls: np.ndarray | None
    sigma: float | None
    prior: np.ndarray
    free_start: bool

    @functools.cached_property
    def seen(self) -> np.ndarray:
        """Mask of the observations that there are, flat."""
        return ~np.isnan(self.data).ravel()

    def prediction(self, unknowns: Unknowns, derivatives: bool = True) -> Prediction:
        """Motions and their derivatives; these along zero alone if they are not wanted."""
        k, n, many = len(unknowns.theta), self.motion.sought.system.group.dim, len(self.data)
        along = np.eye(k + 2 * n)[: None if self.free_start else k]
        directions = along if derivatives else np.zeros((1, k + 2 * n))
        starts = (unknowns.g, unknowns.xi, self.controls)
        starts = jax.tree.map(lambda a: np.repeat(a, len(directions), axis=0), starts)
        nodes = (*starts, np.tile(directions, (many, 1)))
        motions, slopes = mapped(_predicted, (self.motion, unknowns.theta, self.counts), nodes)
        motions = jax.tree.map(lambda a: a[:: len(directions)], motions)
        slopes = slopes.reshape(many, len(directions), *slopes.shape[1:])
        return Prediction(motions.observations, slopes, motions.status, motions.g, motions.xi)

    def residual(self, unknowns: Unknowns, prediction: Prediction) -> np.ndarray:
        """Observations minus predictions, and the same of the prior."""
        rest = (self.data - prediction.observations).ravel()[self.seen]
        return np.concatenate([rest, self._prior @ (self.motion.sought.theta - unknowns.theta)])

    def is_exact(self, unknowns: Unknowns, prediction: Prediction) -> bool:
        """True if the residual is zero to rounding."""
        size = np.linalg.norm(self.data.ravel()[self.seen])
        return bool(np.linalg.norm(self.residual(unknowns, prediction)) <= EXACT * size)

    def refuse_failed(self, unknowns: Unknowns, prediction: Prediction) -> None:
        """Raise RuntimeError if a step of a motion failed."""
        for i, status in enumerate(prediction.status):
            if status:
                which = "the motion" if len(self.data) == 1 else f"motion {i}"
                values = shortly(dict(zip(self.motion.sought.labels, unknowns.theta.tolist(), strict=True)))
                raise RuntimeError(
                    f"{which} of {self.motion.sought.system.name} fails with {values}: {Result(int(status)).message}"
                )

    def refuse_not_finite(self, prediction: Prediction) -> None:
        """Raise ValueError where an observation or its derivative is not a number."""
        for values, what in (
            (prediction.observations, "observe is"),
            (prediction.slopes, "the derivative of observe is"),
        ):
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{what} not finite along the motion from the guess")

    def gauss_newton_step(self, unknowns: Unknowns, prediction: Prediction) -> GaussNewtonStep:
        """Minimum of the linearised problem; raises ValueError if the data do not determine the parameters.

        Among unobservable directions of the starts the step is of minimum norm.
        """
        labels, residual, J = self.motion.sought.labels, self.residual(unknowns, prediction), self._jacobian(prediction)
        observed, k = prediction.observations.ravel()[self.seen], len(unknowns.theta)
        scale = np.linalg.norm(J, axis=0)
        guess = self.motion.sought.theta
        sensitivity = scale[:k] * np.maximum(np.abs(unknowns.theta), np.where(guess == 0.0, 1.0, np.abs(guess)))
        unseen = (sensitivity <= UNSEEN * np.linalg.norm(observed)) & (self.prior == 0)
        if np.any(unseen):
            raise ValueError(f"the data do not depend on {shortly([labels[i] for i in np.flatnonzero(unseen)])}")
        lost = scale <= UNSEEN * scale[k:].max(initial=0.0)  # rounding of directions across the constraints
        lost[:k] = False
        J[:, lost], scale[lost] = 0.0, 1.0
        sizes = scale.copy()
        left, singular, right = np.linalg.svd(J / scale, full_matrices=False)
        observable = singular > FREE * singular[0]
        _refuse_unobservable(labels, right[~observable])
        right, singular, left = right[observable].T / scale[:, None], singular[observable], left[:, observable].T
        inverse = right / singular @ left
        known = self.prior > 0
        if np.any(known):
            sizes[:k][known] = np.median(sizes[:k][known] / self.prior[known]) * self.prior[known]
        if self.sigma is None:
            freedom = max(len(observed) - int(np.sum(observable)), 1)
            noise = float(np.sqrt(residual @ residual / freedom))
        else:
            noise = self.sigma
        covariance = (noise * inverse[:k]) @ (noise * inverse[:k]).T
        deviations = noise * np.linalg.norm(inverse, axis=1)
        rounding = ROUNDING * np.abs(inverse[:, : len(observed)]) @ np.abs(observed)
        step, rest = inverse @ residual, left @ residual
        return GaussNewtonStep(step, right, singular, left, rest, sizes, noise, covariance, deviations, rounding)

    def moved(self, unknowns: Unknowns, step: np.ndarray) -> Unknowns:
        """(θ + δθ, g₀exp(η), ξ₀ + δ), with η = δ = 0 where the starts are known."""
        k = len(unknowns.theta)
        if not self.free_start:
            return unknowns._replace(theta=unknowns.theta + step)
        eta, delta = np.split(step[k:].reshape(len(self.data), -1), 2, axis=1)
        g = mapped(_moved_point, self.motion.sought.system.group, (unknowns.g, eta))
        return Unknowns(unknowns.theta + step[:k], g, unknowns.xi + delta)

    @functools.cached_property
    def _prior(self) -> np.ndarray:
        """Rows of the prior, shape=[·, k]."""
        return (self.sigma or 0.0) * np.diag(self.prior)[self.prior > 0]

    def _jacobian(self, prediction: Prediction) -> np.ndarray:
        """Derivative of the observations and of the prior by θ and the start of each motion."""
        k = len(self.prior)
        slopes = prediction.slopes.reshape(*prediction.slopes.shape[:2], -1).swapaxes(1, 2)
        of_starts = scipy.linalg.block_diag(*slopes[:, :, k:])
        J = np.hstack([slopes[:, :, :k].reshape(-1, k), of_starts])[self.seen]
        return np.vstack([J, np.pad(self._prior, ((0, 0), (0, of_starts.shape[1])))])


def _moved_point(group: LieGroup, node: tuple[Point, Array]) -> Point:
    g, eta = node
    return group.project(group.compose(g, group.exp(eta)))


def _refuse_unobservable(labels: tuple[str, ...], directions: np.ndarray) -> None:
    """Raise ValueError where an unobservable direction, a row, involves parameters."""
    for row in directions[:, : len(labels)]:
        if np.abs(row).max() > 1e-6:
            mixed = [label for label, part in zip(labels, row, strict=True) if abs(part) > 1e-6]
            several = " and ".join(mixed) if len(mixed) < 5 else f"{', '.join(mixed[:3])} and {len(mixed) - 3} more"
            raise ValueError(
                f"the data do not identify {several} separately at these values: give another guess, more data, fewer "
                "names, or sigma= and a prior= that is not so wide"
            )


class _ObservedRun(NamedTuple):
    """Observations of a motion, its status, and its start."""

    observations: Array
    status: Array
    g: Point
    xi: Array


def _predicted(tree: tuple, node: tuple[Point, Array, Any, Array]) -> tuple[_ObservedRun, Array]:
    """A motion, and the derivative of its observations in one direction of (θ, η, δ)."""
    motion, theta, counts = tree
    g, xi, controls, direction = node
    method, group = motion.method, motion.sought.system.group
    clock = motion.clock if controls is None else motion.clock._replace(controls=controls)
    k, n = len(theta), group.dim

    def along(s: Array) -> _ObservedRun:
        observations: Array
        system = motion.sought.at(theta + s * direction[:k])
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
        return _ObservedRun(observations, done.status, start, velocity)

    zero = jnp.zeros(())
    value, derivative = jax.jvp(along, (zero,), (zero + 1.0,))
    return value, derivative.observations

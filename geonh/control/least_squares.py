r"""Nonlinear least squares: the residuals of an observed motion, and their minimum by the Gauss–Newton method.

Unknown are parameters θ and, optionally, the start (η, δ) of g₀exp(η), ξ₀ + δ. Derivatives are exact through all steps
of the integrator. With independent noise of size σ the covariance of the estimates is σ²(JᵀJ)⁻¹, to leading order in
the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.analysis.flow import Integration, integrated
from geonh.arguments.precision import float64
from geonh.engine import mapped
from geonh.geometry.field import evaluated
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.validity import Result
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System, with_parameters

HALVINGS = 20
SMALL = 1e-4
"""Step, relative to the standard errors, below which it is accepted without a test of descent, because of rounding."""
ROUNDING = 16 * np.finfo(float).eps
"""Relative rounding of observations, after some hundred steps."""
UNSEEN = 1e-12
"""Relative sensitivity of the observations below which a parameter counts as not identifiable."""
EXACT = 1e-13
"""Residuals, relative to the data, below which the fit is exact to rounding."""
FREE = 1e-10
"""Relative singular values below which directions of the start count as unobservable."""


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
    """Step of all unknowns, the standard deviation of the noise, the covariance of the parameters, and the size of
    their steps that comes from the rounding of the observations."""

    step: np.ndarray
    noise: float
    covariance: np.ndarray
    rounding: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the parameters."""
        return np.sqrt(np.diag(self.covariance))

    def is_small(self, unknowns: Unknowns, tol: float) -> bool:
        """True if the parameters change by less than ``tol`` of their errors, or than by rounding."""
        change = np.abs(self.step[: len(unknowns.theta)])
        rounding = np.maximum(self.rounding, 4e-16 * np.abs(unknowns.theta))
        return bool(np.all(change <= np.maximum(tol * self.errors, rounding)))


class Minimum(NamedTuple):
    """Minimum of a sum of squares, the last step there, and the number of steps before it."""

    unknowns: Unknowns
    prediction: Prediction
    step: GaussNewtonStep
    iterations: int


@dataclass(frozen=True)
class LeastSquares:
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
        same = jax.tree.map(lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), (unknowns, self.counts))
        motions, slopes = mapped(_predicted, self.motion, (*same, directions))
        motion = jax.tree.map(lambda a: np.asarray(a[0]), motions)
        return Prediction(motion.observations, np.asarray(slopes), int(motion.status), motion.g, motion.xi)

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

    def minimum(self, unknowns: Unknowns, prediction: Prediction, tol: float, max_iterations: int) -> Minimum:
        """Minimum by the Gauss–Newton method with a line search; RuntimeError if it does not converge."""
        for iteration in range(max_iterations + 1):
            self.refuse_failed(unknowns, prediction)
            step = self.gauss_newton_step(unknowns, prediction)
            if step.is_small(unknowns, tol) or self.is_exact(prediction):
                return Minimum(unknowns, prediction, step, iteration)
            unknowns, prediction = self.line_search(unknowns, prediction, step)
        raise RuntimeError(f"the estimate did not converge in {max_iterations} iterations; a better guess may help")

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
        rounding = ROUNDING * np.abs(inverse[:k]) @ np.abs(prediction.observations).ravel()
        return GaussNewtonStep(inverse @ residual, noise, covariance, rounding)

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


class _ObservedRun(NamedTuple):
    """Observations of a motion, its status, and its start."""

    observations: Array
    status: Array
    g: Point
    xi: Array


def _predicted(motion: ObservedMotion, node: tuple[Unknowns, Array, Array]) -> tuple[_ObservedRun, Array]:
    """A motion, and the derivative of its observations in one direction of (θ, η, δ)."""
    unknowns, counts, direction = node
    method, clock, group = motion.method, motion.clock, motion.system.group
    k, n = len(motion.names), group.dim

    def along(s: Array) -> _ObservedRun:
        observations: Array
        values = unknowns.theta + s * direction[:k]
        system = with_parameters(motion.system, dict(zip(motion.names, values, strict=True)))
        start = onto(system, group.compose(unknowns.g, group.exp(s * direction[k : k + n])), clock.t0)[0]
        velocity = system.projected_velocity(system.at(start, clock.t0), unknowns.xi + s * direction[k + n :])

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

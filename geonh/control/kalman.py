r"""An iterated extended Kalman filter on the group: states of a system from observations as they come.

The error of a state (ĝ, ξ̂) is e = (η, δ) with g = ĝ exp(η), ξ = ξ̂ + δ, of covariance P, which has no part across the
constraints: all states are projected onto them, and derivatives are those of the projected states. A step of a method
with the exact derivative A, after random impulses of covariance Wh, and an observation y of covariance R give

    P⁻ = A(P + V Wh Vᵀ)Aᵀ,   V = (0, ∂ξ/∂p),
    e_{i+1} = K_i(y − h(e_i) + H_i e_i),   K_i = P⁻H_iᵀ(H_iP⁻H_iᵀ + R)⁻¹,   P⁺ = J(1 − KH)P⁻(1 − KH)ᵀJᵀ + JK R KᵀJᵀ,

with H_i the derivative of the observation at e_i, where the state is linearised anew, and J that of the error of the
new state by the old one: the iteration is Gauss and Newton's for the most probable state.

Source: Bell, Cathey, *IEEE Trans. Autom. Control* 38 (1993) 294; on groups, Bourmaud et al., *J. Math. Imaging Vis.*
51 (2015) 209; with constraints, Simon, *IET Control Theory Appl.* 4 (2010) 1303.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from geonh.arguments.precision import refuse_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64, shortly
from geonh.control.feedback import semidefinite
from geonh.control.kalman_steps import Corrected, ObservedModel, advanced, corrected
from geonh.control.steering import default_method
from geonh.engine import batch_of_one, first_of_batch, prepared
from geonh.geometry.field import takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.clock import Clock
from geonh.integrators.registry import as_method
from geonh.integrators.runge_kutta import RKMK
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces

LARGEST = 1e100
"""Bound of standard deviations, whose squares are numbers."""
CONVERGED = 1e-8
"""Change of an error, relative to its standard deviation, at which the iteration ends."""


class Belief(NamedTuple):
    """Most probable state at a time, and the covariance of its error (log(ĝ⁻¹g), ξ − ξ̂).

    Attributes
    ----------
    t : float
        Time, s.
    g, xi : point of the group, ndarray of shape=[n]
        State, on the constraints.
    covariance : ndarray, shape=[2n, 2n]
        Covariance of the error, zero across the constraints.
    innovation : ndarray, shape=[q]
        The last observation minus its prediction, divided by a root of its covariance: independent standard normal
        numbers where the model is right; of length zero before the first observation.
    """

    t: float
    g: Point
    xi: np.ndarray
    covariance: np.ndarray
    innovation: np.ndarray


class Noises(NamedTuple):
    """Standard deviations of observations, spectral density of disturbances, and numbers of controls and iterations."""

    noise: np.ndarray
    disturbance: np.ndarray
    n_controls: int
    iterations: int


class KalmanFilter:
    """Filter of observations: ``watch(y, u)`` moves its belief on by a step, and takes an observation.

    Parameters
    ----------
    model : ObservedModel
        System, method and observation; ``kalman_filter`` makes it.
    belief : Belief
        At the start.
    numbers : Noises
        Sizes of noise and disturbances.

    Attributes
    ----------
    belief : Belief
        State at the present time.

    Raises
    ------
    ValueError
        If the noise has another shape than the observation.
    """

    def __init__(self, model: ObservedModel, belief: Belief, numbers: Noises) -> None:
        self._model, self._numbers, self.belief = model, numbers, belief
        u, zero = np.zeros(numbers.n_controls), np.zeros(len(belief.covariance))
        self._advance = prepared(advanced, model, (np.float64(0), belief.g, belief.xi, u))
        self._correct = prepared(corrected, model, (np.float64(0), belief.g, belief.xi, zero))
        first = self._corrected(belief, zero)
        covariance = first.reset @ belief.covariance @ first.reset.T
        self.belief = belief._replace(g=first.g, xi=first.xi, covariance=covariance)
        self._size = len(first.observation)
        if numbers.noise.shape not in ((), (self._size,)):
            raise ValueError(f"sigma must be a number, or of shape [{self._size}], got {list(numbers.noise.shape)}")

    def __call__(self, y: Any = None, u: Any = None) -> Belief:
        """Belief after a step under controls u, shape=[n_u], zero when left out, and an observation y at its end,
        shape=[q].

        Entries of y that are nan were not observed; without y there is none.

        Raises
        ------
        RuntimeError
            If the step fails; the belief is then as before.
        ValueError, TypeError
            For invalid input, or an observation that is not finite near the belief, which is then as before.
        """
        seen, before = None if y is None else self._observed(y), self.belief
        try:
            self.predict(u)
            return self.belief if seen is None else self.update(seen)
        except Exception:
            self.belief = before
            raise

    def predict(self, u: Any = None) -> Belief:
        """Belief after a step under controls u, shape=[n_u], constant during it, zero when left out; RuntimeError if
        the step fails.
        """
        before, dt, n_u = self.belief, self._model.dt, self._numbers.n_controls
        u = np.zeros(n_u) if u is None else as_float64(u, "u", (n_u,))
        found = self._one(self._advance, (before.t, before.g, before.xi, u))
        if found.status:
            raise RuntimeError(f"a step of {self._model.system.name} fails: {Result(int(found.status)).message}")
        spread = np.vstack([np.zeros_like(found.mobility), found.mobility])
        covariance = before.covariance + dt * spread @ self._numbers.disturbance @ spread.T
        covariance = found.slope @ covariance @ found.slope.T
        self.belief = before._replace(t=before.t + dt, g=found.g, xi=found.xi, covariance=covariance)
        return self.belief

    def update(self, y: Any) -> Belief:
        """Belief after an observation y, shape=[q], at the present time; ValueError for another shape, or if the
        function ``observe`` or its derivative is not finite there.
        """
        y = self._observed(y)
        seen, prior, P = ~np.isnan(y), self.belief, self.belief.covariance
        R = np.diag(np.broadcast_to(self._numbers.noise, (self._size,))[seen] ** 2)
        e, deviations = np.zeros(len(P)), np.sqrt(np.maximum(np.diag(P), 0.0))
        at = self._corrected(prior, e)
        innovation = np.full(self._size, np.nan)
        for i in range(self._numbers.iterations if seen.any() else 0):
            H = at.slope[seen]
            root = self._root(at, H @ P @ H.T + R, seen)
            if not i:
                innovation[seen] = scipy.linalg.solve_triangular(root[0], (y - at.observation)[seen], lower=True)
            gain = scipy.linalg.cho_solve(root, H @ P).T
            new = gain @ ((y - at.observation)[seen] + H @ e)
            step, e = np.abs(new - e), new
            rest = np.eye(len(P)) - gain @ H
            posterior = rest @ P @ rest.T + gain @ R @ gain.T
            at = self._corrected(prior, e)
            if np.all(step <= CONVERGED * deviations):
                break
        else:
            posterior = P if not seen.any() else posterior
        covariance = at.reset @ posterior @ at.reset.T
        self.belief = Belief(prior.t, at.g, at.xi, (covariance + covariance.T) / 2, innovation)
        return self.belief

    def _root(self, at: Corrected, covariance: Any, seen: np.ndarray) -> tuple[np.ndarray, bool]:
        """Cholesky factor of the covariance of an innovation."""
        for what, values in (("", at.observation), ("the derivative of ", at.slope)):
            if not np.isfinite(values[seen]).all():
                raise ValueError(f"{what}observe is not finite near the belief, at t = {self.belief.t:g} s")
        try:
            return scipy.linalg.cho_factor(covariance, lower=True)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise ValueError(
                "the covariance of the innovation is beyond double precision: errors, disturbance and sigma are too "
                "large or too small"
            ) from error

    def _observed(self, y: Any) -> np.ndarray:
        """Validated observation."""
        refuse_traced("a filter takes numbers", y=y)
        y = as_float64(y, "y", (self._size,), finite=False)
        if np.isinf(y).any():
            raise ValueError(f"y must be finite, or nan where nothing was observed, got {y}")
        return y

    def _corrected(self, belief: Belief, e: np.ndarray) -> Corrected:
        return self._one(self._correct, (belief.t, belief.g, belief.xi, e))

    def _one(self, program: Callable, node: Any) -> Any:
        return first_of_batch(program(batch_of_one(node)))


@validated
def kalman_filter(
    system: System,
    observe: Callable,
    *,
    g0: Any = None,
    xi0: Any = None,
    errors: Any,
    sigma: Any,
    disturbance: Any = 0.0,
    dt: float,
    n_controls: int = 0,
    t0: float = 0.0,
    method: Integrator | str | None = None,
    iterations: int = 10,
) -> KalmanFilter:
    """Filter that follows the state of a system by observations as they come.

    Parameters
    ----------
    system : System
    observe : callable
        o(g, ξ) or o(g, ξ, parameters) → shape=[q], in ``jax.numpy``: observation of a state.
    g0, xi0 : point of the group, array_like of shape=[n], optional
        Most probable state at the start; the identity and rest when left out.
    errors : array_like, shape=[2n] or [2n, 2n]
        Standard deviations of the error (log(ĝ⁻¹g), ξ − ξ̂) at the start, or its covariance.
    sigma : float or array_like, shape=[q]
        Standard deviation of the noise of observations.
    disturbance : float or array_like, shape=[n] or [n, n]
        Random forces: standard deviation of their impulse in a second, N s^½ or N m s^½, of each component, or the
        covariance of all.
    dt : float
        Time from one call to the next, s: one step of the method.
    n_controls : int
        Number of controls.
    t0 : float
        Initial time, s.
    method : Integrator or str, optional
        ``RKMK``, of order 4 when left out; or ``SymmetricProjection``, the default with φ = 0.
    iterations : int
        Maximum number of iterations for an observation; 1 for the extended Kalman filter.

    Returns
    -------
    KalmanFilter
        Call it with (y, u).

    Raises
    ------
    ValueError, TypeError
        For invalid input.

    References
    ----------
    .. [Bell1993] B. M. Bell, F. W. Cathey, "The iterated Kalman filter update as a Gauss–Newton method", IEEE Trans.
       Autom. Control 38 (1993), 294–297.
    .. [Bourmaud2015] G. Bourmaud, R. Mégret, M. Arnaudon, A. Giremus, "Continuous-discrete extended Kalman filter on
       matrix Lie groups using concentrated Gaussian distributions", J. Math. Imaging Vis. 51 (2015), 209–228.
    """
    method = as_method(default_method(system) if method is None else method)
    if not isinstance(method, RKMK | SymmetricProjection):
        raise TypeError(f"method must be RKMK or SymmetricProjection, got {type(method).__name__}")
    refuse(method, system)
    n, n_u, t0 = system.group.dim, as_count(n_controls, "n_controls", 0), float(as_constant(t0, "t0"))
    if n_u and system.forces is None:
        raise ValueError(f"{system.name} has no forces= that use controls")
    g = system.point(g0)
    xi = np.zeros(n) if xi0 is None else as_float64(xi0, "xi0", (n,))
    g = system.project_position(g, t0)
    system = system.with_rank_at(g, t0)
    if n_u:
        inspect_forces(system, Clock(t0, 1.0, np.zeros((2, n_u))), g, xi)
    takes = takes_parameters(observe, "g, xi", "observe")
    tried("observe", observe, g, xi, *((system.parameters,) if takes else ()))
    noise = as_float64(sigma, "sigma")
    if not np.all(noise > 0):
        raise ValueError(f"sigma must be positive, got {sigma}")
    numbers = Noises(noise, _covariance(disturbance, "disturbance", n), n_u, as_count(iterations, "iterations"))
    model = ObservedModel(system, method, float(as_constant(dt, "dt", positive=True)), observe, takes)
    belief = Belief(t0, g, xi, _covariance(errors, "errors", 2 * n), np.zeros(0))
    return KalmanFilter(model, belief, numbers)


def _covariance(given: Any, name: str, size: int) -> np.ndarray:
    """Covariance of given standard deviations, one or each, or a covariance itself."""
    values = as_float64(given, name)
    if values.shape not in ((), (size,), (size, size)):
        raise ValueError(f"{name} must be a number, or of shape [{size}] or [{size}, {size}], got {list(values.shape)}")
    if values.ndim < 2:
        if not np.all((values >= 0) & (values < LARGEST)):
            raise ValueError(f"{name} must be standard deviations between 0 and {LARGEST:g}, got {shortly(given)}")
        return np.diag(np.broadcast_to(values, (size,)) ** 2)
    return semidefinite(values, name)

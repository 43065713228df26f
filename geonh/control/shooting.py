r"""Optimal control by single shooting: the controls alone are unknown, and the motion follows from them.

u(t) is linear between knots. A motion from (g₀, ξ₀) under it by any method, in K steps, has a cost and an end,

    J(u) = hΣw_k c(t_k, g_k, u(t_k)),   r(u) = (T log(g₁⁻¹g_K), D(ξ_K − ξ₁)),

with rows T tangent to φ = 0, and D to the constraints, at the given end. SLSQP, trust-constr or Ipopt minimises J
under r = 0 and the bounds, with derivatives that are exact through all steps of the method. There are fewer
unknowns than by transcription, and methods of any order are allowed; but the end depends on the first control through
the whole motion, so transcription is better for an unstable or long one. Where the solver does not converge from the
guess, it restarts from controls that reach the end.

Source: Betts, *Practical Methods for Optimal Control and Estimation Using Nonlinear Programming* (2010), §3.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64
from geonh.control.forward import ShootingProblem, ShootingValues, interpolated, shooting_values
from geonh.control.nlp import NonlinearProgram, minimise, require
from geonh.control.steering import (
    UNBOUNDED,
    Bounds,
    SteeringProblem,
    bounds_on_controls,
    orthogonal_complement,
    steering_problem,
)
from geonh.integrators.base import Integrator
from geonh.integrators.registry import as_method
from geonh.integrators.runge_kutta import RKMK
from geonh.mechanics.system import System
from geonh.results.trajectory import Trajectory
from geonh.runs.solve import solve

PERTURBED_GUESSES = 4
"""Maximum number of perturbed guesses."""
DISPLACEMENT = 0.3
"""Displacement of the end by a perturbation of the guess, to first order, in radians or metres."""


@dataclass(frozen=True)
class Shot:
    """Optimal motion under controls that are piecewise linear between knots.

    Attributes
    ----------
    knots : ndarray, shape=[J]
        Times of the knots, s.
    u : ndarray, shape=[J, n_u]
        Controls at the knots.
    cost : float
        J.
    miss : float
        Largest entry of the terminal residual.
    iterations : int
        Of the solver.
    """

    knots: np.ndarray
    u: np.ndarray
    cost: float
    miss: float
    iterations: int
    _problem: ShootingProblem = field(repr=False)

    def __str__(self) -> str:
        span = self.knots[-1] - self.knots[0]
        return (
            f"{self._problem.system.name}: cost {self.cost:.10g} in {span:.6g} s, {len(self.knots)} knots; "
            f"terminal residual {self.miss:.1e}, {self.iterations} iterations"
        )

    __repr__ = __str__

    def trajectory(self) -> Trajectory:
        """Trajectory of ``solve`` under these controls."""
        problem, knots, u = self._problem, self.knots, self.u
        n_steps = int(problem.n_steps)
        return solve(
            problem.system,
            problem.method,
            g0=problem.g0,
            xi0=problem.xi0,
            t0=knots[0],
            dt=(knots[-1] - knots[0]) / n_steps,
            n_steps=n_steps,
            controls=lambda t: interpolated(t, knots, u),
        )


@validated
def shooting_control(
    system: System,
    *,
    end: Any,
    n_controls: int,
    span: float,
    n_steps: int,
    n_knots: int | None = None,
    start: Any = None,
    xi_start: Any = None,
    xi_end: Any = None,
    free: Sequence[str] = (),
    cost: Callable | None = None,
    bounds: tuple[Any, Any] | None = None,
    guess: Any = None,
    method: Integrator | str | None = None,
    solver: str = "slsqp",
    t0: float = 0.0,
    max_iterations: int = 200,
) -> Shot:
    """Controls, linear between knots, that steer a system from one state to another at minimal cost.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    end : point of the group
        Final configuration.
    n_controls, n_steps : int
        Numbers of controls, and of steps.
    span, t0 : float
        Duration, and initial time, s.
    n_knots : int, optional
        Number J of knots, evenly spread; every fourth node when left out.
    start : point of the group, optional
        Initial configuration; the identity when left out.
    xi_start, xi_end : array_like, shape=[n], optional
        Velocities at the ends, as for ``optimal_control``.
    free : sequence of str, optional
        Velocity components whose coordinates need not match those of ``end``.
    cost : callable, optional
        c(t, g, u) or c(t, g, u, parameters) → scalar, as for ``optimal_control``.
    bounds : (lower, upper), optional
        Bounds of the controls, numbers or of shape=[n_u]; imposed at the knots, and so between them.
    guess : array_like or Shot, optional
        Controls at equally spaced times, shape=[…, n_u]; zero when left out.
    method : Integrator or str, optional
        Any method whose controls are a function of time; ``RKMK(4)`` by default.
    solver : str
        As for ``optimal_control``.
    max_iterations : int
        Maximum number of the solver's iterations.

    Returns
    -------
    Shot

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If the end is not reached, or a motion fails during the iteration.

    References
    ----------
    .. [Betts2010] J. T. Betts, *Practical Methods for Optimal Control and Estimation Using Nonlinear Programming*,
       2nd ed., SIAM (2010); §3.3.
    """
    method = as_method(RKMK() if method is None else method)
    require(solver)
    steering = steering_problem(
        system,
        method,
        end=end,
        n_controls=n_controls,
        span=span,
        start=start,
        xi_start=xi_start,
        xi_end=xi_end,
        free=free,
        cost=cost,
        t0=t0,
    )
    system = system.with_rank_at(steering.start, steering.t0)
    n_u, K = steering.n_controls, as_count(n_steps, "n_steps", 2)
    J = as_count(max(2, K // 4 + 1) if n_knots is None else n_knots, "n_knots", 2)
    if J > K + 1:
        raise ValueError(
            f"n_knots must be at most n_steps + 1 = {K + 1}, got {J}: the cost is evaluated at the nodes only"
        )
    max_iterations = as_count(max_iterations, "max_iterations")
    problem = ShootingProblem(
        system=system,
        method=method,
        g0=steering.start,
        xi0=steering.xi_start,
        t0=np.float64(steering.t0),
        span=np.float64(steering.span),
        n_steps=np.int64(K),
        cost=steering.cost,
        g_end=steering.end,
        xi_end=steering.xi_end,
        g_rows=_position_rows(steering),
        xi_rows=steering.end_velocities,
    )
    knots = np.linspace(0, 1, J)
    limits = UNBOUNDED if bounds is None else bounds_on_controls(bounds, n_u)
    optimum = _minimum(problem, _guess_at(knots, guess, n_u), limits, solver, max_iterations)
    cost_there = shooting_values(problem, optimum.u).cost
    if not np.isfinite(cost_there):
        raise RuntimeError(f"{system.name}: the cost of the solution is not finite, {cost_there}: check cost")
    return Shot(
        knots=steering.t0 + steering.span * knots,
        u=optimum.u,
        cost=cost_there,
        miss=optimum.miss,
        iterations=optimum.iterations,
        _problem=problem,
    )


def _guess_at(knots: np.ndarray, guess: Any, n_controls: int) -> np.ndarray:
    """Controls at knots in [0, 1], shape=[J, n_controls], interpolated from a guess; zero without one."""
    guess = guess.u if isinstance(guess, Shot) else guess
    u = np.zeros((2, n_controls)) if guess is None else as_float64(guess, "guess")
    if u.ndim != 2 or u.shape[1] != n_controls or len(u) < 2:
        raise ValueError(f"guess must be controls of shape [·, {n_controls}], got {list(u.shape)}")
    return np.stack([np.interp(knots, np.linspace(0, 1, len(u)), column) for column in u.T], axis=1)


def _position_rows(problem: SteeringProblem) -> np.ndarray:
    """Rows T of the terminal conditions on positions, tangent to φ = 0, as many as there are independent conditions."""
    n, tangent = problem.end_rows.mu.shape[1], orthogonal_complement(problem.end_rows.G)
    given = np.delete(np.eye(n), problem.free, axis=0)
    T = given @ tangent.T @ tangent
    T = T[np.linalg.norm(T, axis=1) > 1e-9]
    if not len(T):
        return T
    return np.linalg.svd(T)[2][: np.linalg.matrix_rank(T)]


class Optimum(NamedTuple):
    """Controls of minimal cost, the largest entry of the terminal residual, and the number of iterations."""

    u: np.ndarray
    miss: float
    iterations: int


def _minimum(problem: ShootingProblem, u0: np.ndarray, bounds: Bounds, solver: str, max_iterations: int) -> Optimum:
    """Minimum from a guess, or else from controls near it that reach the end."""

    @functools.lru_cache(maxsize=1)
    def values(z: bytes) -> ShootingValues:
        return shooting_values(problem, np.frombuffer(z).reshape(u0.shape)).rejected_if_nan()

    def at(z: np.ndarray) -> ShootingValues:
        return values(z.tobytes())

    guess = at(u0.ravel())
    if guess.status:
        raise RuntimeError(
            f"the motion of {problem.system.name} under the guess fails; a shorter span, or more steps, may help"
        )
    scale = max(abs(guess.cost), 1.0)
    program = NonlinearProgram(
        value=lambda z: at(z).cost / scale,
        gradient=lambda z: at(z).gradient / scale,
        equations=lambda z: at(z).residual,
        jacobian=lambda z: scipy.sparse.csr_matrix(at(z).jacobian),
        low=np.broadcast_to(bounds.lower, u0.shape).ravel(),
        high=np.broadcast_to(bounds.upper, u0.shape).ravel(),
    )

    def guesses() -> Iterator[np.ndarray]:
        yield u0.ravel()
        yield _feasible_controls(program, u0, problem.tolerance)

    iterations = 0
    for begin in guesses():
        z, more = minimise(program, begin, solver, max_iterations)
        iterations += more
        if at(z).reaches(problem.tolerance):
            return Optimum(z.reshape(u0.shape), at(z).miss, iterations)
    raise RuntimeError(
        f"no controls of {problem.system.name} reach the end: after {iterations} iterations the largest entry of the "
        f"terminal residual is {at(z).miss:.2g}; another guess, more knots or optimal_control may help"
    )


def _feasible_controls(program: NonlinearProgram, u0: np.ndarray, tolerance: float) -> np.ndarray:
    """Feasibility restoration: controls near a guess, or near perturbations of it, that reach the end if some exist.

    By least squares with a trust region, since the derivative may be rank deficient: from rest, sideways.
    """
    random, waves = np.random.default_rng(0), np.sin(np.pi * np.outer(np.linspace(0, 1, len(u0)), [0.5, 1.5, 2.5]))
    begin, slopes = u0.ravel(), program.jacobian(u0.ravel())
    for _ in range(PERTURBED_GUESSES + 1):
        fit = scipy.optimize.least_squares(
            program.equations,
            np.clip(begin, program.low, program.high),
            lambda z: program.jacobian(z).toarray(),
            bounds=(program.low, program.high),
            xtol=1e-12,
            gtol=1e-12,
        )
        if np.abs(fit.fun).max(initial=0.0) <= tolerance:
            break
        change = (waves @ random.normal(size=(3, u0.shape[1]))).ravel()
        displacement = max(np.linalg.norm(slopes @ change), 1e-3 * np.linalg.norm(change))
        begin = u0.ravel() + DISPLACEMENT * change / displacement
    return fit.x

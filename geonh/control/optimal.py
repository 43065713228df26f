r"""Optimal control: motions of least cost between given states.

The discrete problem, min J(z) under the equations of ``transcription.py``, is solved by Newton's method (``kkt.py``).
From a guess that is too far, feasibility restoration and descent come first (``descent.py``). With bounds another
solver runs first (``nlp.py``), and Newton's method continues with an active set of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count
from geonh.control.chart import minimise_in_chart
from geonh.control.descent import SearchResult, descend, escape_saddles, restore_feasibility
from geonh.control.guess import initial_motion
from geonh.control.kkt import SETTLED, Extremal, solve_kkt, solve_kkt_within
from geonh.control.nlp import require
from geonh.control.steering import UNBOUNDED, Bounds, bounds_on_controls, steering_problem
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.groups.base import Point
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.results.trajectory import Trajectory
from geonh.runs.solve import solve

LONG = 1e3
"""Upper bound on a free span, relative to its guess."""


@dataclass(frozen=True)
class OptimalControl:
    """Locally optimal motion.

    Attributes
    ----------
    t : ndarray, shape=[K + 1]
        Times of the nodes, s.
    g : point of the group, with a leading axis of length K + 1
        Nodes.
    u : ndarray, shape=[K + 1, n_u]
        Controls at the nodes.
    cost : float
        J.
    residual : float
        Largest entry of the discrete equations, m/s.
    optimality : float
        Largest entry of ∇J + c'ᵀλ, relative to ∇J, among unknowns that are free and not at a bound.
    curvature : float
        Least eigenvalue of the reduced Hessian of the cost on the tangent space of the constraints, not negative:
        a local minimum.
    iterations : int
        Newton steps; those of the solver before them are in ``before``.
    before : int
        Iterations of the solver that ran before them, where one was needed.
    multipliers : ndarray, shape=[number of equations]
        λ of the discrete equations: a warm start.
    """

    t: np.ndarray
    g: Point
    u: np.ndarray
    cost: float
    residual: float
    optimality: float
    curvature: float
    iterations: int
    before: int
    multipliers: np.ndarray
    _problem: Transcription = field(repr=False)

    def __str__(self) -> str:
        return (
            f"{self._problem.system.name}: cost {self.cost:.10g} in {self.t[-1] - self.t[0]:.6g} s, {len(self.t) - 1} "
            f"steps; residual {self.residual:.1e}, optimality {self.optimality:.1e}, {self.iterations} Newton steps"
            + (f" after {self.before} of the solver before" if self.before else "")
        )

    __repr__ = __str__

    def trajectory(self) -> Trajectory:
        """Trajectory of ``solve`` under these controls, at the same nodes."""
        problem = self._problem
        return solve(
            problem.system,
            problem.method,
            g0=problem.steering.start,
            xi0=problem.steering.xi_start,
            t0=problem.steering.t0,
            dt=(self.t[-1] - self.t[0]) / problem.n_steps,
            n_steps=problem.n_steps,
            controls=self.u,
        )


@validated
def optimal_control(
    system: System,
    *,
    end: Any,
    n_controls: int,
    span: float,
    n_steps: int,
    start: Any = None,
    xi_start: Any = None,
    xi_end: Any = None,
    free: Sequence[str] = (),
    free_span: bool = False,
    cost: Callable | None = None,
    bounds: tuple[Any, Any] | None = None,
    guess: OptimalControl | tuple[Any, Any] | None = None,
    method: SymmetricProjection | None = None,
    solver: str | None = None,
    t0: float = 0.0,
    max_iterations: int = 40,
) -> OptimalControl:
    """Controls that steer a system from one state to another at minimal cost, by direct transcription.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    end : point of the group
        Final configuration.
    n_controls : int
        Number of controls.
    span : float
        Duration, s; an initial guess if ``free_span``.
    n_steps : int
        K steps; the solution is a run of the method with as many.
    start : point of the group, optional
        Initial configuration; the identity when left out.
    xi_start, xi_end : array_like, shape=[n], optional
        Velocities at the ends, on the constraints; at rest when left out. ``xi_end="free"`` leaves the final one free.
    free : sequence of str, optional
        Velocity components whose coordinates need not match those of ``end``: wheel angles.
    free_span : bool
        True to optimise the span as well.
    cost : callable, optional
        c(t, g, u) or c(t, g, u, parameters) → scalar, of which J = ∫c dt by the trapezoidal rule; u·u when left out.
    bounds : (lower, upper), optional
        Bounds of the controls, numbers or of shape=[n_u].
    guess : OptimalControl or (points, controls), optional
        A warm start, of any number of steps; nodes with a leading axis K + 1 and controls of shape=[K + 1, n_u]. When
        left out, the path along a one-parameter subgroup, without controls.
    method : SymmetricProjection, optional
        With non-default options.
    solver : str, optional
        Solver that runs before Newton's method: SciPy's "slsqp"; or sparse interior point methods for many unknowns,
        SciPy's "trust-constr", and "ipopt", an extra, with the exact Hessian of the Lagrangian. When left out,
        "slsqp" with bounds, and none without.
    t0 : float
        Initial time, s.
    max_iterations : int
        Maximum number of Newton steps.

    Returns
    -------
    OptimalControl

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If the search fails, with the reason: the residual and the optimality of the last iterate, a saddle, or an
        unbounded span.

    Notes
    -----
    If the solution is a saddle, the search restarts from both sides along its direction of negative curvature. The
    minimum is local; other guesses may lead to cheaper ones.

    References
    ----------
    .. [Leyendecker2010] S. Leyendecker, S. Ober-Blöbaum, J. E. Marsden, M. Ortiz, "Discrete mechanics and optimal
       control for constrained systems", Optim. Control Appl. Meth. 31 (2010), 505–528.
    .. [Nocedal2006] J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd ed., Springer (2006); §18.1.
    .. [Deuflhard2011] P. Deuflhard, *Newton Methods for Nonlinear Problems*, Springer (2011); §3.3, the monotonicity
       test.
    """
    if solver is not None:
        require(solver)
    method = SymmetricProjection() if method is None else method
    if not isinstance(method, SymmetricProjection):
        raise TypeError(f"method must be a SymmetricProjection, got {type(method).__name__}")
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
    problem = Transcription(system, method, steering, bool(free_span), as_count(n_steps, "n_steps", 2))
    max_iterations = as_count(max_iterations, "max_iterations")
    motion, multipliers = _initial_guess(problem, guess, steering.span)
    if bounds is None and solver is None:
        search = partial(_search, problem, max_iterations)
        result = _newton(problem, max_iterations, motion, multipliers)
        result = result if result.extremal.solved else search(motion)
    else:
        limits = UNBOUNDED if bounds is None else bounds_on_controls(bounds, n_controls)
        search = partial(_search_within, problem, limits, solver or "slsqp", max_iterations)
        result = search(motion)
    curvature, result = escape_saddles(problem, result, search) if result.extremal.solved else (np.nan, result)
    motion, residual = result.extremal.motion, problem.residual(result.extremal.motion)
    if fault := _fault(problem, result.extremal, residual, curvature, bounds is not None):
        raise RuntimeError(f"no optimal control of {system.name} found: {fault}")
    return OptimalControl(
        t=steering.t0 + motion.span / n_steps * np.arange(n_steps + 1),
        g=motion.g,
        u=motion.u,
        cost=result.extremal.cost,
        residual=residual,
        optimality=result.extremal.optimality,
        curvature=curvature,
        iterations=result.extremal.iterations,
        before=result.solver_iterations,
        multipliers=result.extremal.multipliers,
        _problem=problem,
    )


def _initial_guess(problem: Transcription, guess: Any, span: float) -> tuple[DiscreteMotion, np.ndarray | None]:
    """Motion of a guess, and its multipliers where they fit."""
    if not isinstance(guess, OptimalControl):
        return initial_motion(problem, guess, span), None
    fits = (len(guess.t), len(guess.multipliers)) == (problem.n_steps + 1, problem.n_equations)
    motion = initial_motion(problem, (guess.g, guess.u), guess.t[-1] - guess.t[0] if problem.free_span else span)
    return motion, guess.multipliers if fits else None


def _fault(problem: Transcription, last: Extremal, residual: float, curvature: float, bounded: bool) -> str:
    """Reason why an iterate is not a solution; "" if it is one."""
    if last.motion.span > LONG * problem.steering.span:
        return (
            f"the cost decreases with the span without bound, to {last.cost:.3g} in {last.motion.span:.3g} s; "
            "add a cost of time"
        )
    if not (last.solved and residual < 1e3 * SETTLED):
        changes = ", and the active set of the bounds still changes" if last.active_set_changes else ""
        hint = "wider bounds or a longer span, if the problem is infeasible; otherwise " if bounded else ""
        return (
            f"after {last.iterations} iterations the residual of the equations is {residual:.2g}, that of the "
            f"optimality conditions {last.optimality:.2g}{changes}; {hint}another guess, or more steps, may help"
        )
    if curvature < 0:
        return f"it converged to a saddle of cost {last.cost:.6g}, and found no descent from it; try another guess"
    return ""


def _newton(
    problem: Transcription, max_iterations: int, motion: DiscreteMotion, multipliers: np.ndarray | None = None
) -> SearchResult:
    """Without bounds: Newton's method from a motion and multipliers as a warm start."""
    at_bound = np.zeros(problem.size, bool)
    return SearchResult(solve_kkt(problem, motion, multipliers, at_bound, max_iterations), at_bound, 0)


def _search(problem: Transcription, max_iterations: int, motion: DiscreteMotion) -> SearchResult:
    """Without bounds: Newton's method after feasibility restoration and descent."""
    return _newton(problem, max_iterations, descend(problem, restore_feasibility(problem, motion)))


def _search_within(
    problem: Transcription, bounds: Bounds, solver: str, max_iterations: int, motion: DiscreteMotion
) -> SearchResult:
    """A solver before Newton's method, from the guess; then after feasibility restoration, and after descent."""

    def guesses() -> Iterator[DiscreteMotion]:
        yield motion
        yield (near := restore_feasibility(problem, motion))
        yield descend(problem, near)

    solver_iterations = 0
    for guess in guesses():
        minimum, iterations = minimise_in_chart(problem, guess, bounds, solver)
        last, at_bound = solve_kkt_within(problem, minimum, bounds, max_iterations)
        solver_iterations += iterations
        if last.solved:
            break
    return SearchResult(last, at_bound, solver_iterations)

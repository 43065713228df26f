r"""Optimal control: motions of least cost between given states, by direct transcription.

min J(w) under the equations of ``transcription.py`` and the bounds, by the interior-point method of
``interior_point.py``, or by Ipopt, from a guess or from several.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, one_of, refuse_infinite
from geonh.control.ends import Ends
from geonh.control.guess import driven_motions, given_motion, interpolated, interpolated_motion, motions
from geonh.control.interior_point import InteriorPoint, Iterate, Outcome
from geonh.control.ipopt import require_ipopt
from geonh.control.phases import as_phases, refuse_other_landings
from geonh.control.redundancy import Attempts
from geonh.control.search import SOLUTIONS, best_of
from geonh.control.sought import Sought
from geonh.control.steering import default_method, steering_problem
from geonh.control.transcription import Transcription
from geonh.control.wanted import Wanted
from geonh.engine import as_numbers, in_float64
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.registry import as_method
from geonh.integrators.runge_kutta import RKMK
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.results.modes import Modes
from geonh.results.trajectory import Trajectory
from geonh.runs.solve import solve


@dataclass(frozen=True)
class OptimalControl:
    """Locally optimal motion.

    Attributes
    ----------
    t : ndarray, shape=[K + 1]
        Times of the nodes, s.
    g : point of the group, with a leading axis of length K + 1
        Nodes.
    xi : ndarray, shape=[K + 1, n]
        Velocities at the nodes.
    u : ndarray, shape=[K + 1, n_u]
        Controls at the nodes, linear between them, but held in the last step before a transition, where they jump.
    cost : float
        J.
    residual : float
        Largest residual of the discrete equations, or violation of a bound.
    optimality : float
        Largest entry of the gradient of the Lagrangian.
    error : float
        Estimate of the error of the steps, relative to the largest velocity (``resolution.py``).
    iterations : int
        Of the solver.
    tried : int
        Number of guesses that were tried.
    costs : tuple of float
        Costs of the local minima that were found, this one the least.
    redundant : tuple of float
        Violations of conditions at the end that follow from the others by momenta that no control changes, up to the
        error of the steps: these are left out.
    spans : ndarray, shape=[P]
        Durations of the phases, s; of a motion in one mode that of all.
    system : System
        With the parameters that were found by ``design``; of phases that of the first.
    """

    t: np.ndarray
    g: Point
    xi: np.ndarray
    u: np.ndarray
    cost: float
    residual: float
    optimality: float
    error: float
    iterations: int
    tried: int
    costs: tuple[float, ...]
    redundant: tuple[float, ...]
    _problem: Transcription = field(repr=False)
    _iterate: Iterate = field(repr=False)

    def __str__(self) -> str:
        tries = f", the best of {len(self.costs)} from {self.tried} guesses" if self.tried > 1 else ""
        if self.redundant:
            tries += f"; of the conditions at the end {len(self.redundant)} redundant, met to {max(self.redundant):.1e}"
        return (
            f"{self._problem.title}: cost {self.cost:.10g} in {self.t[-1] - self.t[0]:.6g} s, "
            f"{len(self.t) - 1} steps; residual {self.residual:.1e}, optimality {self.optimality:.1e}, "
            f"error of the steps {self.error:.1e}, {self.iterations} iterations{tries}"
        )

    __repr__ = __str__

    @property
    def spans(self) -> np.ndarray:
        """Durations of the phases, shape=[P], s."""
        return self._iterate.motion.spans

    @property
    def system(self) -> System:
        """The system, with the parameters that were found by ``design``; of phases that of the first."""
        problem = self._problem
        return Sought(problem.system, problem.steering.conditions.sought).at(self._iterate.motion.theta)

    @in_float64
    def control(self, t: Any) -> Any:
        """u(t), shape=[n_u], linear between the nodes; t may be traced; ValueError if it is not finite."""
        refuse_infinite(t := as_numbers(t, "t"), "t")
        if np.shape(t):
            raise ValueError(f"t must be a number, got an array of shape {list(np.shape(t))}; for many use jax.vmap")
        first, *others = (self._controls(phase) for phase in range(len(self.spans)))
        value = interpolated(t, *first)
        for times, u in others:
            value = jnp.where(t < times[0], value, interpolated(t, times, u))
        return value

    def _nodes(self, phase: int) -> slice:
        """Nodes of a phase, those at both ends included."""
        steps = [one.n_steps for one in self._problem.phases]
        return slice(sum(steps[:phase]), sum(steps[: phase + 1]) + 1)

    def _controls(self, phase: int) -> tuple[np.ndarray, np.ndarray]:
        """Times of the nodes of a phase, and the controls there, of the last the one before the transition."""
        nodes = self._nodes(phase)
        u = self.u[nodes]
        return self.t[nodes], u if nodes.stop == len(self.u) else np.concatenate([u[:-1], u[-2:-1]])

    @validated
    def trajectory(self, phase: int = 0) -> Trajectory:
        """Trajectory of ``solve`` under these controls, at the same nodes.

        Parameters
        ----------
        phase : int
            Number of the phase.

        Returns
        -------
        Trajectory

        Raises
        ------
        TypeError, ValueError
            If there is no such phase.
        """
        problem = self._problem
        if not 0 <= phase < len(problem.phases):
            raise ValueError(f"phase must be below {len(problem.phases)}, the number of phases, got {phase}")
        begin = self._nodes(phase).start
        K, (times, u) = problem.phases[phase].n_steps, self._controls(phase)
        at_nodes = isinstance(problem.method, SymmetricProjection)
        return solve(
            self.system if phase == 0 else problem.phases[phase].system,
            problem.method,
            g0=jax.tree.map(lambda a: a[begin], self.g),
            xi0=self.xi[begin],
            t0=times[0],
            dt=(times[-1] - times[0]) / K,
            n_steps=K,
            controls=u if at_nodes else lambda t: interpolated(t, times, u),
        )


@validated
def optimal_control(
    system: System | Modes,
    *,
    end: Any = None,
    n_controls: int,
    span: float | Sequence[float],
    n_steps: int | Sequence[int],
    phases: Sequence[str] | None = None,
    start: Any = None,
    xi_start: Any = None,
    xi_end: Any = None,
    free: Sequence[str] = (),
    periodic: Sequence[str] | None = None,
    free_span: bool = False,
    cost: Callable | None = None,
    terminal_cost: Callable | None = None,
    bounds: tuple[Any, Any] | None = None,
    rates: tuple[Any, Any] | None = None,
    limits: Mapping[str, tuple[Any, Any]] | None = None,
    path: Any = None,
    terminal: Any = None,
    via: Any = None,
    design: Mapping[str, tuple[Any, Any]] | None = None,
    guess: Any = None,
    tries: int | None = None,
    method: Integrator | str | None = None,
    solver: str = "geonh",
    t0: float = 0.0,
    max_iterations: int = 300,
) -> OptimalControl:
    """Controls that steer a system from one state to another at minimal cost, by direct transcription.

    Parameters
    ----------
    system : System or Modes
        With forces(t, x, ξ, u) that use the controls, in all modes.
    end : point of the group, optional
        Final configuration; free when left out.
    n_controls : int
        Number of controls.
    span : float, or of phases shape=[P]
        Duration, s; an initial guess if ``free_span``, as those of phases are always.
    n_steps : int, or of phases shape=[P]
        K steps; the solution is a run of the method with as many.
    phases : sequence of str, optional
        Modes in their order. Each phase ends in the transition to the next: its guard vanishes there, and the velocity
        after it is that of its reset, or the projection onto the constraints of the next mode. The instants are
        unknown, durations between 0.01 and 1000 times those of ``span``. The guard is not asked about before, nor is
        its direction; ``path`` can bound it.
    start : point of the group, optional
        Initial configuration; the identity when left out.
    xi_start, xi_end : array_like, shape=[n], optional
        Velocities at the ends, on the constraints; at rest when left out. ``xi_end="free"`` leaves the final one free,
        as it is without an ``end``.
    free : sequence of str, optional
        Velocity components whose coordinates need not match those of ``end``: wheel angles.
    periodic : sequence of str, optional
        Velocity components whose coordinates return at the end to where they start, which is unknown, such as the shape
        of a gait; all velocities return, and are unknown too. Other coordinates begin at ``start``, and end at ``end``
        where one is given.
    free_span : bool
        True to optimise the span as well, of phases their sum.
    cost : callable, optional
        c(t, g, u) or c(t, g, xi, u), the latter with a third argument of that name, or with parameters at the end →
        scalar, of which J = ∫c dt, by Simpson's rule for methods of order above 2, and by the trapezoidal rule else;
        u·u when left out.
    terminal_cost : callable, optional
        c(t, g, ξ), or with parameters, added to J at the end.
    bounds, rates : (lower, upper), optional
        Bounds of the controls, and of their rates (u_{k+1} − u_k)/h: numbers, or of shape=[n_u].
    limits : dict, optional
        (lower, upper) of components by their names, those of ``point_names`` and ``velocity_names`` of the group, at
        all nodes.
    path, terminal : (c, lower, upper) or list of such, optional
        Bounds of functions c(t, g, ξ, u), or with parameters, numbers or vectors, at all nodes and at the end; where
        both are equal, the value. ``path`` may be a dict by names of phases, at whose nodes alone it holds; a node
        between two belongs to the second.
    via : (s, c, lower, upper) or list of such, optional
        The same at the node after the part s of the span, 0 < s < 1.
    design : dict, optional
        (lower, upper) of parameters of the system, by their names, which are found with the motion; those of ``system``
        are a guess. Bounds are numbers, or of shape=[k] of a parameter of k numbers.
    guess : optional
        An ``OptimalControl``, of any number of steps; a ``Trajectory``; a function of t that returns (g, u); or
        (points, controls), nodes with a leading axis and controls of shape=[·, n_u]. When left out the path along a
        one-parameter subgroup, slow waves about it, and where these fail, or beyond five solutions, motions under slow
        waves of the controls.
    tries : int, optional
        Number of solutions, from different guesses, of which the best is returned. When left out, with a ``guess`` 1,
        and without one 5, or less if the least cost is found three times. At most 12 guesses more are tried.
    method : Integrator or str, optional
        ``RKMK``, explicit, of any order, 4 when left out; or ``SymmetricProjection``, the default with φ = 0.
    solver : str
        "geonh", or "ipopt", an extra.
    t0 : float
        Initial time, s.
    max_iterations : int
        Maximum number of the solver's iterations, for each guess.

    Returns
    -------
    OptimalControl

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If no guess leads to a solution: which constraint is not met and by how much, or that the cost decreases
        without bound.

    Warns
    -----
    UserWarning
        If the steps are so long that the motion may exist only by their errors (``OptimalControl.error``).

    Notes
    -----
    The minimum is local: of a car that parks, other guesses lead to costs up to six times as high or as low.

    References
    ----------
    .. [Leyendecker2010] S. Leyendecker, S. Ober-Blöbaum, J. E. Marsden, M. Ortiz, "Discrete mechanics and optimal
       control for constrained systems", Optim. Control Appl. Meth. 31 (2010), 505–528.
    .. [Betts2010] J. T. Betts, *Practical Methods for Optimal Control and Estimation Using Nonlinear Programming*,
       2nd ed., SIAM (2010); ch. 4.
    .. [Waechter2006] A. Wächter, L. T. Biegler, "On the implementation of an interior-point filter line-search
       algorithm for large-scale nonlinear programming", Math. Program. 106 (2006), 25–57.
    """
    if one_of(solver, "solver", ("geonh", "ipopt")) == "ipopt":
        require_ipopt()
    parts = as_phases(system, phases, span, n_steps)
    method = as_method(default_method(*(phase.system for phase in parts)) if method is None else method)
    if not isinstance(method, RKMK | SymmetricProjection):
        raise TypeError(f"method must be RKMK or SymmetricProjection, got {type(method).__name__}")
    steering = steering_problem(
        parts,
        method,
        Ends(start, xi_start, end, xi_end, free, periodic),
        Wanted(cost, terminal_cost, bounds, rates, limits, path, terminal, via, design),
        n_controls=n_controls,
        free_span=bool(free_span),
        t0=t0,
    )
    problem = Transcription.of(parts, method, steering)
    first = next(motions(problem))
    problem = problem.in_units_of(first)
    max_iterations = as_count(max_iterations, "max_iterations")
    wanted = None if tries is None else as_count(tries, "tries")
    InteriorPoint(problem).refuse_start(first)
    attempts = Attempts(problem, max_iterations, solver)
    search = best_of(problem, _outcomes(attempts, guess), wanted, is_given=guess is not None)
    best, error = search.best
    motion = best.iterate.motion
    refuse_other_landings(problem.phases, motion, problem.times(motion.spans))
    return OptimalControl(
        t=problem.times(motion.spans),
        g=motion.g,
        xi=motion.xi,
        u=motion.u,
        cost=best.cost,
        residual=best.violation,
        optimality=best.optimality,
        error=error,
        iterations=best.iterations,
        tried=search.tried,
        costs=search.costs,
        redundant=attempts.violations(motion),
        _problem=attempts.problem,
        _iterate=best.iterate,
    )


def _outcomes(attempts: Attempts, guess: Any) -> Iterator[Outcome]:
    """Outcomes of one guess after the other."""
    problem = attempts.problem
    steering, spans = problem.steering, problem.steering.spans
    if isinstance(guess, OptimalControl):
        motion, warm = guess._iterate.motion, guess._iterate
        if len(motion.spans) == len(spans) and (steering.free_span or len(spans) > 1):
            spans = motion.spans if steering.free_span else motion.spans * (steering.span / motion.span)
        fits = guess._problem.shapes == problem.shapes and guess._problem.n_steps == problem.n_steps
        made = interpolated_motion(problem, motion, spans, guess._problem.places(motion.spans))
        yield attempts.solve(made, warm if fits else None)
    elif guess is not None:
        yield attempts.solve(given_motion(problem, guess, spans))
    waves, driven, solved, by_waves = motions(problem), driven_motions(problem), 0, 0
    can_be_driven = steering.start_is_given is None and len(spans) == 1
    for number in itertools.count():  # driven ones take longer: where others fail, or many are wanted
        is_driven = can_be_driven and number > 1 and (not by_waves or (solved >= SOLUTIONS and number % 2 == 0))
        outcome = attempts.solve((next(driven, None) if is_driven else None) or next(waves))
        solved, by_waves = solved + outcome.solved, by_waves + (outcome.solved and not is_driven)
        yield outcome

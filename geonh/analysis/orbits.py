r"""Periodic orbits by shooting, their continuation in a parameter, and their Floquet multipliers.

An orbit is periodic up to the symmetries that the system's base declares: x(T) = x(0) and ξ(T) = ξ(0), while
g(T) = s·g(0) with s in the group (a wobbling body has turned, a gait has moved). Unknown are the place g₀exp(η), the
velocity, and the period T; each Newton step is the minimum-norm solution of the linear conditions, so the free
directions (the phase on the orbit, symmetric copies, a family of orbits) stay as guessed.

An orbit of a reversible system is symmetric if it meets twice the fixed-point set Fix of the reversal: then only
half of it is shot, from Fix to Fix (Lamb, Roberts, *Physica D* 112 (1998) 1).

Over one period a perturbation (η, δ) in the linear constraints becomes 𝓜(η, δ), in the body frame, so that the
rotation s does not matter. The eigenvalues of 𝓜 are the Floquet multipliers. Those that are trivially 1 (shift along
the orbit, symmetries, neighbours in a family) are deflated as the zeros of 𝓜 − 1, by kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from geonh.analysis.closing import FREE, HALVINGS, ClosedArc, boundary_problem, closed, extent, rounding_of
from geonh.analysis.flow import Arc, BoundaryProblem, PhasePoint, flow_derivatives
from geonh.analysis.subspaces import span, staircase
from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System

VANISHED = 1e-3
"""Period or motion, relative to the guess, below which a solution is rejected as trivial: in no time, or at rest."""
RESOLVED = 1e-6
"""Residual, relative to the motion, below which an orbit is distinguished from an equilibrium, which has any period."""


@argument_type
@dataclass(frozen=True)
class PeriodicOrbit:
    """A periodic orbit.

    Attributes
    ----------
    g, xi : point of the group, ndarray of shape=[n]
        Initial configuration and velocity.
    period : float
        T, s.
    displacement : point of the group
        s = g(T)g(0)⁻¹: the displacement of the body over a period.
    multipliers : ndarray, shape=[q − trivial ones]
        Floquet multipliers on the linear constraints, complex, by decreasing modulus, without the trivial ones.
    trivial : tuple of int
        Numbers of Jordan blocks at 1 of a length ≥ 1, 2, … that were deflated.
    monodromy : ndarray, shape=[q, q]
        𝓜 in an orthonormal basis of the perturbations that satisfy the linear constraints; its columns are ``tangent``.
    tangent : ndarray, shape=[2n, q]
        That basis, of perturbations (η, δ).
    residual : float
        Largest entry of the conditions.
    iterations : int
        Newton steps.
    parameter, value : str, float
        The continuation parameter and its value; "" and nan if there is none.
    """

    g: Point
    xi: np.ndarray
    period: float
    displacement: Point
    multipliers: np.ndarray
    trivial: tuple[int, ...]
    monodromy: np.ndarray
    tangent: np.ndarray
    residual: float
    iterations: int
    parameter: str = ""
    value: float = float("nan")
    _problem: Any = field(default=None, repr=False, compare=False)

    @property
    def stable(self) -> bool:
        """True if no multiplier exceeds 1 in modulus (by more than 1e-6)."""
        return bool(np.all(np.abs(self.multipliers) <= 1 + 1e-6))

    def __str__(self) -> str:
        roots = ", ".join(f"{m.real:.6g}{m.imag:+.6g}i" if m.imag else f"{m.real:.6g}" for m in self.multipliers)
        where = f", {self.parameter} = {self.value:.6g}" if self.parameter else ""
        return f"period {self.period:.9g} s{where}, multipliers {roots or 'all 1'}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import orbit_card

        return orbit_card(self)


@validated
def periodic_orbit(
    system: System,
    g: Any,
    xi: Any,
    period: float,
    *,
    returns: Callable | None = None,
    fixed: Callable | None = None,
    conditions: Callable | None = None,
    method: Integrator | str | None = None,
    n_steps: int = 200,
    t0: float = 0.0,
    controls: Callable | None = None,
    tol: float = 1e-11,
    max_iterations: int = 30,
) -> PeriodicOrbit:
    """Find a periodic orbit near a guess.

    Parameters
    ----------
    system : System
    g : point of the group, or None for the identity
        Guess of the initial configuration.
    xi : array_like, shape=[n]
        Guess of the velocity there; it is projected onto the constraints.
    period : float
        Guess of the period, s.
    returns : callable, optional
        r(g₀, ξ₀, g_T, ξ_T) → array, residual that vanishes after a period, in ``jax.numpy``. By default x(T) − x(0) and
        ξ(T) − ξ(0): periodic up to the symmetries of the base. A base angle that makes a full turn needs its own.
    fixed : callable, optional
        c(g, ξ) → array that vanishes on the fixed-point set of a reversal of the system: then the orbit is symmetric,
        and shot over half its period.
    conditions : callable, optional
        c(g, ξ, T, parameters) → array of further conditions c = 0: an energy, an amplitude, a period.
    method : Integrator or str, optional
        The method, one whose node is a velocity; ``RKMK(6)`` when left out, ``Gauss(3)`` with holonomic
        constraints.
    n_steps : int
        Steps per period; even for a symmetric orbit.
    t0, controls : float, callable
        Initial time and u(t). For time-dependent equations T must be fixed by ``conditions``.
    tol : float
        Tolerance on the conditions, relative to their derivatives.
    max_iterations : int
        Maximum number of steps.

    Returns
    -------
    PeriodicOrbit

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If the iteration does not converge, with the residual and the number of steps, or converges to an equilibrium.

    Notes
    -----
    An equilibrium returns after any time, and is rejected unless the equations depend on time, which makes its
    multipliers those of a period. A steady motion with ξ ≠ 0 and constant x returns after any time too: it is accepted,
    with the period near the guess.

    Derivatives are exact, by forward mode through the method's steps. A function of module level whose numbers are
    parameters compiles once.
    """
    problem, start = boundary_problem(
        system,
        g,
        xi,
        returns=returns,
        fixed=fixed,
        conditions=conditions,
        method=method,
        n_steps=n_steps,
        t0=t0,
        controls=controls,
    )
    guess = Arc(start, as_float64(period, "period", ()) / problem.returns.arcs_per_period, 0.0)
    if not guess.span:
        raise ValueError(f"period must not be zero, got {period}")
    width = 2 * system.group.dim + 2
    solution = closed(problem, guess, np.zeros(width), np.zeros((0, width)), tol, max_iterations)
    orbit = _orbit(problem, solution)
    if not orbit.period / period > VANISHED:
        raise RuntimeError(
            f"the period fell from {period:g} to {orbit.period:.3g} s: at period zero every motion is closed. Start "
            "nearer to an orbit, with a longer period, or fix the period by conditions="
        )
    if _is_equilibrium(problem, guess, solution):
        raise RuntimeError(
            f"the iteration converged to an equilibrium of {system.name}, which has any period: start further "
            "from it, with a period nearer to that of an orbit, or fix an amplitude or the energy by conditions=; "
            "linearise(system, g, xi) has the frequencies of the small orbits about it"
        )
    return orbit


@validated
def continue_orbit(
    system: System,
    orbit: PeriodicOrbit,
    parameter: str,
    *,
    step: float,
    n_orbits: int,
    limits: tuple[float, float] = (-np.inf, np.inf),
    tol: float = 1e-11,
) -> list[PeriodicOrbit]:
    """Continuation of a periodic orbit in a parameter of the system, through folds too.

    Parameters
    ----------
    system : System
        The system of the orbit, with the value of the parameter at which it was found.
    orbit : PeriodicOrbit
        The first one; the others have its method, conditions and controls.
    parameter : str
        Name of a scalar among ``system.parameters``.
    step : float
        Step length along the curve of (η, δ, T, parameter), reduced where Newton's method fails and increased
        where it converges fast; its sign is the initial direction of the parameter.
    n_orbits : int
        Number of orbits to find.
    limits : (float, float)
        Values of the parameter at which the continuation stops.
    tol : float
        As for ``periodic_orbit``.

    Returns
    -------
    list of PeriodicOrbit
        The first one and those after it, each with its ``value``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for an unknown or non-scalar parameter.
    RuntimeError
        If even short steps fail; the orbits so far are in ``.orbits``.

    Notes
    -----
    The predictor is tangent to the curve, the corrector of minimum norm: pseudo-arclength continuation (Keller 1977)
    in Gauss–Newton form, which follows the curve of orbits whatever other directions are free.
    """
    if parameter not in system.parameters or np.shape(system.parameters[parameter]) != ():
        raise ValueError(f"parameter must be a number among {list(system.parameters)}, got {shortly(parameter)}")
    n_orbits = as_count(n_orbits, "n_orbits")
    if not as_float64(step, "step", ()):
        raise ValueError("step must not be zero")
    known = isinstance(limits, list | tuple | np.ndarray) and np.ndim(limits) == 1 and len(limits) == 2
    if not known or not all(isinstance(v, int | float | np.number) for v in limits) or not limits[0] <= limits[1]:
        raise ValueError(f"limits must be two values of the parameter, the lower first, got {shortly(limits)}")
    problem = orbit._problem._replace(system=system, parameter=parameter)
    parameter_direction = np.eye(2 * system.group.dim + 2)[-1:]
    start, value = PhasePoint(orbit.g, orbit.xi), float(system.parameters[parameter])
    guess = Arc(start, orbit.period / problem.returns.arcs_per_period, value)
    solution = closed(problem, guess, np.zeros(parameter_direction.size), parameter_direction, tol, 30)
    orbits = [_orbit(problem, solution._replace(iterations=0))]
    tangent, length = np.sign(step) * parameter_direction[0], abs(as_float64(step, "step", ()))
    shortest = length / 2**HALVINGS
    while len(orbits) < n_orbits and limits[0] <= orbits[-1].value <= limits[1]:
        new_tangent = _tangent(solution.flow.slope, tangent)
        try:
            solution = closed(problem, solution.arc, length * new_tangent, new_tangent[None], tol, 8)
        except RuntimeError as error:
            length /= 2
            if length < shortest:
                error.orbits = orbits  # type: ignore[attr-defined]
                error.add_note("geonh: the orbits found so far are in the error's .orbits")
                raise
            continue
        tangent, length = new_tangent, length * (1.3 if solution.iterations < 5 else 1.0)
        length = min(length, abs(step))
        orbits.append(_orbit(problem, solution))
    return orbits


def _is_equilibrium(problem: BoundaryProblem, guess: Arc, solution: ClosedArc) -> bool:
    """True if nothing moves, up to the residual or rounding, and the equations are autonomous, so that it stays so."""
    arc, flow = solution.arc, solution.flow
    moved, rounding = extent(arc, flow), rounding_of(arc, flow)
    if moved > max(rounding, flow.gap / RESOLVED):
        return False
    guess = guess._replace(value=arc.value)
    if moved > max(rounding / VANISHED, VANISHED * extent(guess, flow_derivatives(problem, guess))):
        return False
    later = flow_derivatives(problem._replace(t0=problem.t0 + 0.381966 * arc.span), arc)
    return bool(np.abs(later.slope - flow.slope).max() <= 1e-9 * np.abs(flow.slope).max())


def _tangent(slope: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Unit tangent of the solution curve, the vector in the kernel of the conditions nearest to the last tangent."""
    _, values, rows = np.linalg.svd(slope)
    free = rows[int(np.sum(values > FREE * values[0])) :]
    tangent = free.T @ (free @ before)
    return tangent / np.linalg.norm(tangent)


def _orbit(problem: BoundaryProblem, solution: ClosedArc) -> PeriodicOrbit:
    """Periodic orbit, integrated once more over the whole period for its multipliers if only half of it was."""
    system, arc, over_period = problem.system, solution.arc, solution.flow
    n, arcs = system.group.dim, problem.returns.arcs_per_period
    period = arc.span * arcs
    if arcs == 2:
        double = problem._replace(n_steps=np.int64(2 * problem.n_steps))
        over_period = flow_derivatives(double, arc._replace(span=period))
    T = span(over_period.start_slope[:, : 2 * n])
    monodromy = (
        T.T @ over_period.end_slope[:, : 2 * n] @ np.linalg.pinv(over_period.start_slope[:, : 2 * n], rcond=1e-10) @ T
    )
    trivial, basis = staircase(monodromy - np.eye(len(monodromy)))
    rest = np.linalg.svd(basis.T)[2][basis.shape[1] :] if basis.shape[1] else np.eye(len(monodromy))
    multipliers = np.linalg.eigvals(rest @ monodromy @ rest.T) if len(rest) else np.zeros(0)
    with float64():
        group = system.group
        displacement = jax.tree.map(np.asarray, group.compose(over_period.end.g, group.inverse(arc.start.g)))
    return PeriodicOrbit(
        g=arc.start.g,
        xi=arc.start.xi,
        period=period,
        displacement=displacement,
        multipliers=multipliers[np.argsort(-np.abs(multipliers), kind="stable")].astype(complex),
        trivial=trivial,
        monodromy=monodromy,
        tangent=T,
        residual=solution.flow.gap,
        iterations=solution.iterations,
        parameter=problem.parameter,
        value=arc.value if problem.parameter else float("nan"),
        _problem=problem,
    )


__all__: Sequence[str] = ["PeriodicOrbit", "continue_orbit", "periodic_orbit"]

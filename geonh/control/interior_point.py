r"""A primal-dual interior-point method for transcriptions, with a filter and feasibility restoration.

min f(w) under e(w) = 0 and l ≤ c(w) ≤ h, with slacks s of c(w) − s = 0 and barriers −μΣlog(s − l) − μΣlog(h − s).
Slacks and multipliers of the bounds are eliminated, so a step is a KKT system in the unknowns and the multipliers of e
alone, with the Hessian ∇²L + CᵀΣC (``block_kkt.py``). The Hessian is shifted until the inertia is that of a minimum,
and where only short steps are accepted.
Steps are accepted by a filter of constraint violation and barrier function, with second-order corrections; where none
is, the violation alone is reduced (``restoration.py``): from rest, parking sideways is impossible to first order.

Source: Wächter, Biegler, *Math. Program.* 106 (2006) 25.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geonh.control.block_kkt import Factors
from geonh.control.interval import Values
from geonh.control.linearisation import Linearisation, Parts
from geonh.control.restoration import INSIDE, FeasibilitySearch, condensed
from geonh.control.slacks import SlackBounds
from geonh.control.steering import LONGEST
from geonh.control.transcription import DiscreteMotion, Transcription

TOLERANCE = 1e-9
"""Largest entry of the scaled KKT residuals of a solution."""
FEASIBLE = 1e-10
"""Largest residual of the equations of a solution."""
RELAXED = 1e-8
"""Relaxation of bounds that are not on controls, relative to 1 + |bound|: an end may lie on one."""
COLD = 0.1
"""Barrier parameter at the start."""
CORNER = 1e-9
"""Regularisation of equations that depend on each other."""
LEAST_SHIFT = 1e-4
"""First shift of the Hessian where none was needed before."""
FLAT = 1e-7
"""Negative curvature of the cost up to which a solution is no saddle: that of a family of equal motions is rounding."""
FAMILY_SHIFT = 1e-6
"""Least shift of the Hessian of periodic motions, which form families by shifts of the time and by symmetries."""
STEEPEST = 100.0
"""Largest entry of the gradient of the cost, by a factor, at the first iterate."""
SHIFTED = 1.0
"""Shift of the Hessian above which the multipliers of a step, of the size of the shift, are replaced."""
EARLY = 10
"""Iterations after which a problem that seems to have redundant conditions is given up."""
GIVEN_UP = "given up, since conditions at the end seem to be redundant"
"""Failure of such a problem."""
UNMET = "not all constraints can be met near this guess"
"""Failure of the restoration."""
KINDS, NOTABLE = 3, 0.1
"""Number of kinds of violated constraints that are told, and the least violation, relative to the largest."""
DIVERGED = 1e-3
"""Violation with which a cost beyond all bounds is no sign of a problem without a minimum."""
UNBOUNDED = 1e12
"""Negative of the scaled cost below which it is taken to be unbounded."""


class Iterate(NamedTuple):
    """Motion, slacks s, multipliers of equations λ and inequalities y, and of the lower and upper bounds of s."""

    motion: DiscreteMotion
    slacks: np.ndarray
    equations: np.ndarray
    inequalities: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Outcome(NamedTuple):
    """Last iterate of a search, with the residuals of equations, inequalities and stationarity; ``solved`` if it is a
    local minimum to tolerance, and the reason why not else."""

    iterate: Iterate
    cost: float
    violation: float
    optimality: float
    iterations: int
    reason: str
    is_unbounded: bool

    @property
    def solved(self) -> bool:
        """True for a local minimum to tolerance."""
        return not self.reason


class _Direction(NamedTuple):
    """Step of the unknowns and the slacks, and of all multipliers."""

    unknowns: np.ndarray
    slacks: np.ndarray
    equations: np.ndarray
    inequalities: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class _Filter(NamedTuple):
    """Pairs (violation, barrier function) that later iterates must improve on."""

    pairs: list[tuple[float, float]]

    def accepts(self, theta: float, phi: float) -> bool:
        return all(theta < (1 - 1e-5) * t or phi < p - 1e-5 * t for t, p in self.pairs)


class InteriorPoint:
    """The method for one transcription.

    Parameters
    ----------
    problem : Transcription
    max_iterations : int
        Of steps, those of the restoration included.
    is_suspect : callable, optional
        True of a motion for which the problem is to be given up, asked once, after ``EARLY`` iterations.
    """

    def __init__(
        self,
        problem: Transcription,
        max_iterations: int = 300,
        is_suspect: Callable[[DiscreteMotion], bool] | None = None,
    ) -> None:
        self.problem, self.max_iterations, self._is_suspect = problem, max_iterations, is_suspect
        names, lower, upper, *_ = problem.bounds
        self._is_soft = np.array([not name.startswith(("control", "rate")) for name in names], float)
        soft = RELAXED * self._is_soft
        low, high = (soft * (1 + np.abs(np.where(np.isfinite(bound), bound, 0.0))) for bound in (lower, upper))
        self.bounds = SlackBounds(lower - low, upper + high)
        equations = problem.shapes.equations
        self._n_equations = problem.n_steps * equations.intervals + equations.end
        self.shift, self.damping, self.relief, self.iterations = 0.0, 0.0, 4.0, 0
        self.least_shift = 0.0 if problem.steering.start_is_given is None else FAMILY_SHIFT

    def solve(
        self, motion: DiscreteMotion, warm: Iterate | None = None, mu: float = COLD, least: float = TOLERANCE / 10
    ) -> Outcome:
        """Search for a local minimum from a motion, or from all of an iterate, down to a barrier parameter."""
        problem = self.problem
        now = problem.values(motion)
        zero = np.zeros(len(now.equations))
        at = problem.linearised(motion, zero, np.zeros(len(now.inequalities)), 1.0)
        names: tuple[Callable[[int], str], ...] = problem.name, problem.bounds.names.__getitem__
        for values, name in zip((now.equations, now.inequalities), names, strict=True):
            if not np.isfinite(values).all():
                raise ValueError(f"{name(int(np.isfinite(values).argmin()))}: not finite at the guess; give another")
        for jacobian, name in zip((at.equations, at.inequalities), names, strict=True):
            sound = Parts(*(np.isfinite(block).all(axis=2) for block in jacobian.blocks)).flat()
            if not sound.all():
                raise ValueError(
                    f"{name(int(sound.argmin()))}: its derivative is not finite at the guess, as that of a root or a "
                    "norm at zero; give another"
                )
        derivatives = (*at.hessian, *at.equations.blocks, *at.inequalities.blocks)
        if not all(np.isfinite(a).all() for a in (now.cost, at.gradient, *derivatives)):
            raise ValueError(
                f"cost, equations, or their derivatives are not finite at the guess (J = {now.cost:g}): give another"
            )
        self._ignore_what_is_given(at)
        scale = min(1.0, STEEPEST / max(np.abs(at.gradient).max(), self._curvature(at), 1e-300))
        if warm is not None and self.bounds.beyond(warm.slacks).any():  # of other bounds
            warm, mu = None, COLD
        if warm is None:
            s = self.bounds.interior(now.inequalities)
            lower, upper = (mu / distance for distance in self.bounds.distances(s))
            point = Iterate(motion, s, zero, upper - lower, lower, upper)
            point = point._replace(equations=self._least_squares(at, scale))
        else:
            point = Iterate(motion, warm.slacks, *(scale * part for part in warm[2:]))
        self.iterations, self.shift, self.damping, self.relief = 0, 0.0, 0.0, 4.0
        theta = self._violation(now, point.slacks)
        smallest, largest = 1e-4 * max(1.0, theta), 1e4 * max(1.0, theta)
        barred = _Filter([(largest, -np.inf)])
        failure = ""
        while True:
            at = problem.linearised(point.motion, point.equations, point.inequalities, scale)
            residual = self._stationarity(at, point, scale)
            solved = max(self._error(at.values, point, residual, least if least > TOLERANCE else 0.0)) <= 1
            if failure or (solved and mu <= max(least, TOLERANCE)) or (solved and least <= TOLERANCE):
                break
            if self.iterations >= self.max_iterations:
                failure = f"no convergence in {self.iterations} iterations"
                break
            if self.iterations == EARLY and self._is_suspect is not None and self._is_suspect(point.motion):
                failure = GIVEN_UP
                break
            while mu > least and max(self._error(at.values, point, residual, mu)) * TOLERANCE <= 10 * mu:
                mu = max(least, min(0.2 * mu, mu**1.5))
                barred = _Filter([(largest, -np.inf)])
            if not at.values.cost * scale > -UNBOUNDED or not at.values.cost * scale < np.inf:
                failure = f"the cost decreases without bound, to {at.values.cost:.3g}"
                if not self._violation(at.values, point.slacks) <= DIVERGED:
                    failure = f"the iterations diverge after {self.iterations}"
                break
            self.iterations += 1
            found = self._direction(at, point, scale, mu)
            moved = None
            if found is not None:
                factors, direction = found
                moved = self._search(at, point, direction, factors, scale, mu, barred, smallest)
            if moved is None:
                if self._almost(at.values, point, residual):
                    break
                restored, failure = self._restored(at.values, point, barred, scale, mu)
                if not failure:
                    fresh = problem.linearised(restored.motion, zero, 0 * point.slacks, 1.0)
                    point = restored._replace(equations=self._least_squares(fresh, scale))
                else:
                    point = restored
            elif factors.shift > SHIFTED:
                fresh = problem.linearised(moved.motion, zero, 0 * moved.slacks, 1.0)
                point = moved._replace(equations=self._least_squares(fresh, scale, moved.inequalities))
            else:
                point = moved
        solved = not failure or self._almost(at.values, point, residual)
        if solved and (found := self._direction(at, point, scale, mu)):  # to rounding
            step = found[1]
            exact = self._accepted(point, step.unknowns, point.slacks + step.slacks, step, 1.0, 0.0, mu)
            if self.bounds.longest(point.slacks, step.slacks, 1.0) == 1.0:
                then = problem.linearised(exact.motion, exact.equations, exact.inequalities, scale)
                if self._violation(then.values, exact.slacks) < self._violation(at.values, point.slacks):
                    point, at, residual = exact, then, self._stationarity(then, exact, scale)
        if solved:
            failure = self._fault(at, point)
        elif not failure.startswith("the cost"):
            failure = self._explained(failure, at.values)
        iterate = point._replace(
            equations=point.equations / scale,
            inequalities=point.inequalities / scale,
            lower=point.lower / scale,
            upper=point.upper / scale,
        )
        return Outcome(
            iterate,
            cost=at.values.cost,
            violation=max(
                np.abs(at.values.equations).max(), self.bounds.beyond(at.values.inequalities).max(initial=0.0)
            ),
            optimality=float(np.abs(residual).max()) / scale,
            iterations=self.iterations,
            reason=failure,
            is_unbounded=failure.startswith("the cost decreases"),
        )

    def _fault(self, at: Linearisation, point: Iterate) -> str:
        """Reason why a KKT point is not a solution; "" if it is one."""
        if self.problem.steering.free_span and point.motion.span > 0.5 * LONGEST * self.problem.steering.span:
            return (
                f"the cost decreases with the span without bound, to {at.values.cost:.3g} in {point.motion.span:.3g} "
                "s; add a cost of time"
            )
        low, high = self.bounds.distances(point.slacks)
        sigma = point.lower / low + point.upper / high
        hessian = condensed(self.problem, at, sigma)
        factors = Factors(hessian, at.equations.blocks, self.problem.given, shift=FLAT, corner=CORNER)
        if factors.is_singular or factors.n_negative > len(point.equations):
            return f"it converged to a saddle of cost {at.values.cost:.6g}"
        return ""

    def _explained(self, failure: str, values: Values) -> str:
        """Reason of a failure, with the constraints that are violated."""
        if violated := self.worst(values):
            return f"{failure}; {violated}"
        if failure.startswith(UNMET):
            return "all constraints are met, but no step lowers the cost: it may have a corner there"
        return f"{failure}; all constraints are met, but the cost can still be lowered: allow more iterations"

    def worst(self, values: Values) -> str:
        """Words for the constraints that are violated most: of the largest violations the kinds, three at most; ""
        where all are met.
        """
        off, beyond = np.abs(values.equations), self.bounds.beyond(values.inequalities)
        by = np.concatenate([off, beyond])
        words: dict[str, str] = {}
        for row in np.argsort(-by, kind="stable"):
            if len(words) == KINDS or not by[row] > max(NOTABLE * by.max(), FEASIBLE):
                break
            kind, where = self._names(int(row))
            verb = "off" if row < len(off) else "beyond its bounds"
            words.setdefault(kind, f"{kind}{where} is {verb} by {by[row]:.2g}")
        return ", ".join(words.values())

    def _names(self, row: int) -> tuple[str, str]:
        """Name of an equation, or of an inequality after them, and its node in words."""
        problem = self.problem
        if row < self._n_equations:
            kind, at, node = problem.name(row).partition(" at node ")
            return kind, at + node
        row -= self._n_equations
        inner, of_nodes = problem.shapes.inequalities.intervals, len(problem.steering.of_nodes.names)
        at_end = row - problem.n_steps * inner
        where = f" at node {row // inner if at_end < 0 else problem.n_steps}" if at_end < of_nodes else ""
        return problem.bounds.names[row], where

    def followed(self, point: Iterate, mu: float, iterations: int, softness: float) -> Iterate | None:
        """Iterate after Newton steps with a barrier parameter that stays, and inequalities that are soft, but for those
        of controls; None if there is none."""
        for _ in range(iterations):
            at = self.problem.linearised(point.motion, point.equations, point.inequalities, 1.0)
            found = self._direction(at, point, 1.0, mu, softness * self._is_soft)
            if found is None or not np.isfinite(found[1].unknowns).all():
                return None
            step, keep = found[1], max(0.99, 1 - mu)
            alpha = self.bounds.longest(point.slacks, step.slacks, keep)
            slacks = point.slacks + alpha * step.slacks
            of_bounds = self._dual_length(point, step, keep)
            point = self._accepted(point, alpha * step.unknowns, slacks, step, alpha, of_bounds, mu)
        return point

    def off(self, point: Iterate) -> float:
        """Largest violation of the equations by a motion."""
        off = np.abs(self.problem.values(point.motion).equations).max()
        return float(off) if np.isfinite(off) else np.inf

    def polished(self, motion: DiscreteMotion, multipliers: np.ndarray, iterations: int) -> Outcome:
        """Outcome of another solver that found a motion and multipliers of equations and inequalities."""
        values, mu = self.problem.values(motion), TOLERANCE / 10
        s, y = self.bounds.interior(values.inequalities, 1e-12), multipliers[self._n_equations :]
        lower, upper = (np.maximum(z, mu / d) for z, d in zip((-y, y), self.bounds.distances(s), strict=True))
        point = Iterate(motion, s, multipliers[: self._n_equations], y, lower, upper)
        found = self.solve(motion, point, mu)
        return found._replace(iterations=iterations + found.iterations)

    def refuse_start(self, motion: DiscreteMotion) -> None:
        """ValueError if a value that no unknown changes, one of the first state, is beyond its bounds."""
        zeros = np.zeros(self._n_equations), np.zeros(len(self.bounds.lower))
        at = self.problem.linearised(motion, *zeros, 0.0)
        beyond = np.where(_is_given(at), self.bounds.beyond(at.values.inequalities), 0.0)
        row = int(beyond.argmax()) if len(beyond) else 0
        if len(beyond) and beyond[row] > 0:
            names, lower, upper, *_ = self.problem.bounds
            raise ValueError(
                f"start, xi_start: {names[row]} is {at.values.inequalities[row]:.6g} there, beyond its bounds "
                f"({lower[row]:g}, {upper[row]:g}): begin elsewhere, or widen them"
            )

    def _curvature(self, at: Linearisation) -> float:
        """Largest second derivative of the cost by one of the controls at the first nodes of the intervals."""
        controls = slice(2 * self.problem.system.group.dim, self.problem.width)
        return float(np.abs(np.diagonal(at.hessian.intervals, axis1=1, axis2=2)[:, controls]).max(initial=0.0))

    def _ignore_what_is_given(self, at: Linearisation) -> None:
        """Leave out bounds of values that no unknown changes: those of the first state."""
        self.bounds = self.bounds.without(_is_given(at))

    def _violation(self, values: Values, slacks: np.ndarray) -> float:
        return float(np.abs(values.equations).sum() + np.abs(values.inequalities - slacks).sum())

    def _stationarity(self, at: Linearisation, point: Iterate, scale: float) -> np.ndarray:
        """Gradient of the Lagrangian by the unknowns."""
        of_constraints = at.equations.weighted(point.equations) + at.inequalities.weighted(point.inequalities)
        return scale * at.gradient + of_constraints

    def _error(self, values: Values, point: Iterate, residual: np.ndarray, mu: float) -> tuple[float, ...]:
        """KKT residuals of the barrier problem, relative to their tolerances."""
        multipliers = np.concatenate([point.equations, point.lower, point.upper])
        s_d = max(100.0, np.abs(multipliers).mean()) / 100
        s_c = max(100.0, np.concatenate([point.lower, point.upper]).mean()) / 100 if len(point.lower) else 1.0
        of_slacks = -point.inequalities - point.lower + point.upper
        with np.errstate(invalid="ignore"):
            low, high = self.bounds.distances(point.slacks)
            low = np.where(point.lower > 0, point.lower * low - mu, 0.0)
            high = np.where(point.upper > 0, point.upper * high - mu, 0.0)
        off = np.abs(values.inequalities - point.slacks).max(initial=0.0)
        return (
            np.abs(residual).max() / s_d / TOLERANCE,
            np.abs(of_slacks).max(initial=0.0) / s_d / TOLERANCE,
            max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)) / s_c / TOLERANCE,
            max(np.abs(values.equations).max(), off) / FEASIBLE,
        )

    def _almost(self, values: Values, point: Iterate, residual: np.ndarray) -> bool:
        """True if the residuals are small enough where rounding allows no better."""
        *others, feasibility = self._error(values, point, residual, 0.0)
        return max(others) < 1e4 and feasibility < 100

    def _least_squares(self, at: Linearisation, scale: float, inequalities: Any = None) -> np.ndarray:
        """Multipliers of the equations with the least residual of stationarity; zero where they are large."""
        one = Parts(*(np.zeros_like(h) for h in at.hessian))
        factors = Factors(one, at.equations.blocks, self.problem.given, shift=1.0, corner=CORNER)
        zero = np.zeros(self._n_equations)
        if factors.is_singular:
            return zero
        slope = scale * at.gradient + (0.0 if inequalities is None else at.inequalities.weighted(inequalities))
        multipliers = factors.solve(np.append(-slope, zero))[self.problem.size :]
        return multipliers if np.abs(multipliers).max(initial=0.0) < 1e3 else zero

    def _direction(
        self, at: Linearisation, point: Iterate, scale: float, mu: float, softness: Any = 0.0
    ) -> tuple[Factors, _Direction] | None:
        """Newton's direction, with the Hessian shifted to the inertia of a minimum, and by the damping at least.

        Inequalities may be soft, c − s = softness·y: their violation r then costs r²/(2 softness).
        """
        low, high = self.bounds.distances(point.slacks)
        stiffness = point.lower / low + point.upper / high
        yields = 1 / (1 + softness * stiffness)
        sigma = yields * stiffness
        hessian = condensed(self.problem, at, sigma)
        n_equations, shift, corner = len(point.equations), max(self.damping, self.least_shift), 0.0
        while True:
            factors = Factors(hessian, at.equations.blocks, self.problem.given, shift=shift, corner=corner)
            if not factors.is_singular and factors.n_negative == n_equations:
                break
            if factors.is_singular or factors.n_negative < n_equations:
                corner = CORNER
            if shift == 0:
                shift = LEAST_SHIFT if self.shift == 0 else max(1e-12, self.shift / 3)
            else:
                shift *= 100 if self.shift == 0 else 8
            if shift > 1e20:
                return None
        if shift:
            self.shift = shift
        pull = mu / high - mu / low  # of the barriers, on the slacks
        gap = at.values.inequalities - point.slacks
        stationarity = scale * at.gradient + at.equations.weighted(point.equations)
        right = -stationarity - at.inequalities.weighted(yields * pull + sigma * gap)
        found = factors.solve(np.concatenate([right, -at.values.equations]))
        unknowns, equations = found[: self.problem.size], found[self.problem.size :]
        along = at.inequalities.along(unknowns) + gap
        inequalities = yields * pull + sigma * along
        slacks = along - softness * inequalities
        direction = _Direction(
            unknowns,
            slacks,
            equations,
            inequalities - point.inequalities,
            mu / low - point.lower - point.lower / low * slacks,
            mu / high - point.upper + point.upper / high * slacks,
        )
        return factors, direction

    def _search(
        self,
        at: Linearisation,
        point: Iterate,
        step: _Direction,
        factors: Factors,
        scale: float,
        mu: float,
        barred: _Filter,
        smallest: float,
    ) -> Iterate | None:
        """Next iterate by a line search with the filter; None if no step is accepted."""
        problem, keep = self.problem, max(0.99, 1 - mu)
        theta = self._violation(at.values, point.slacks)
        phi = scale * at.values.cost + mu * self.bounds.barrier(point.slacks)
        low, high = self.bounds.distances(point.slacks)
        slope = scale * at.gradient @ step.unknowns + (mu / high - mu / low) @ step.slacks
        longest = alpha = self.bounds.longest(point.slacks, step.slacks, keep)
        of_bounds = self._dual_length(point, step, keep)
        for _ in range(30):
            if alpha < 1e-10:
                break
            unknowns, slacks = alpha * step.unknowns, alpha * step.slacks
            for correction in range(3):
                trial = problem.values(point.motion, unknowns)
                s = point.slacks + slacks
                theta_new, phi_new = self._violation(trial, s), scale * trial.cost + mu * self.bounds.barrier(s)
                if np.isfinite(theta_new + phi_new) and barred.accepts(theta_new, phi_new):
                    switching = slope < 0 and alpha * (-slope) ** 2.3 > theta**1.1 and theta <= smallest
                    rounding = 1e-13 * abs(phi)
                    descends = phi_new - phi <= 1e-8 * alpha * slope + rounding
                    if (
                        descends
                        if switching
                        else (theta_new <= (1 - 1e-5) * theta or phi_new <= phi - 1e-5 * theta + rounding)
                    ):
                        if not (switching and descends):
                            barred.pairs.append(((1 - 1e-5) * theta, phi - 1e-5 * theta))
                        self._damp(alpha / longest, factors.shift)
                        return self._accepted(point, unknowns, s, step, alpha, of_bounds, mu)
                if alpha < longest or theta_new < theta or not np.isfinite(theta_new) or correction == 2:
                    break
                corrected = self._corrected(at, point, step, factors, trial, alpha, keep)
                unknowns, slacks = corrected
            alpha /= 2
        return None

    def _damp(self, length: float, shift: float) -> None:
        """Raise the damping where only a small part of a step was taken, as in curved valleys, and lower it else."""
        if length < 0.1:
            self.damping, self.relief = max(4 * shift, LEAST_SHIFT), 4.0
        elif length > 0.4:
            self.damping = self.damping / self.relief if self.damping > LEAST_SHIFT else 0.0
            self.relief *= 4.0 if length == 1.0 else 1.0

    def _corrected(
        self,
        at: Linearisation,
        point: Iterate,
        step: _Direction,
        factors: Factors,
        trial: Values,
        alpha: float,
        keep: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Second-order correction: the step that is to remove the violation at the trial point as well."""
        low, high = self.bounds.distances(point.slacks)
        sigma = point.lower / low + point.upper / high
        gap = trial.inequalities - point.slacks - alpha * step.slacks
        right = np.concatenate([-at.inequalities.weighted(sigma * gap), -trial.equations])
        more = factors.solve(right)[: self.problem.size]
        unknowns, slacks = alpha * step.unknowns + more, alpha * step.slacks + at.inequalities.along(more) + gap
        length = self.bounds.longest(point.slacks, slacks, keep)
        return length * unknowns, length * slacks

    def _dual_length(self, point: Iterate, step: _Direction, keep: float) -> float:
        z, dz = np.concatenate([point.lower, point.upper]), np.concatenate([step.lower, step.upper])
        down = dz < 0
        return min(1.0, keep * float((-z[down] / dz[down]).min(initial=np.inf)))

    def _accepted(
        self,
        point: Iterate,
        unknowns: np.ndarray,
        slacks: np.ndarray,
        step: _Direction,
        alpha: float,
        of_bounds: float,
        mu: float,
    ) -> Iterate:
        low, high = self.bounds.distances(slacks)
        lower, upper = point.lower + of_bounds * step.lower, point.upper + of_bounds * step.upper
        return Iterate(
            self.problem.moved(point.motion, unknowns),
            slacks,
            point.equations + alpha * step.equations,
            point.inequalities + alpha * step.inequalities,
            np.clip(lower, mu / 1e10 / low, mu * 1e10 / low),
            np.clip(upper, mu / 1e10 / high, mu * 1e10 / high),
        )

    def _restored(
        self, values: Values, point: Iterate, barred: _Filter, scale: float, mu: float
    ) -> tuple[Iterate, str]:
        """Iterate of less violation that the filter accepts; or the nearest one, and the reason of the failure."""
        theta = self._violation(values, point.slacks)
        phi = scale * values.cost + mu * self.bounds.barrier(point.slacks)
        barred.pairs.append(((1 - 1e-5) * theta, phi - 1e-5 * theta))
        search = FeasibilitySearch(self.problem, self.bounds, self.iterations, self.max_iterations)
        for motion, at in search.motions(point.motion, 1.0):
            self.iterations = search.iterations
            s = self.bounds.interior(at.values.inequalities, INSIDE)
            new = self._violation(at.values, s)
            if new < 0.9 * theta and barred.accepts(new, scale * at.values.cost + mu * self.bounds.barrier(s)):
                lower, upper = (mu / distance for distance in self.bounds.distances(s))
                return Iterate(motion, s, point.equations, upper - lower, lower, upper), ""
        self.iterations = search.iterations
        if self.iterations >= self.max_iterations:
            return point._replace(motion=motion), f"no convergence in {self.iterations} iterations"
        *_, (motion, _) = search.motions(motion, 1e-6)
        self.iterations = search.iterations
        return point._replace(motion=motion), UNMET


def _is_given(at: Linearisation) -> np.ndarray:
    """Mask of the inequalities whose values no unknown changes."""
    return ~Parts(*(block.any(axis=2) for block in at.inequalities.blocks)).flat()

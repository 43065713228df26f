r"""Minimum of a sum of squares by Levenberg's and Marquardt's method with geodesic acceleration [Transtrum2012]_.

With the residual r, its Jacobian J, a damping μ and a scale D of the unknowns, a step is δ + a/2, of

    (JᵀJ + μD²) δ = −Jᵀr,   (JᵀJ + μD²) a = −Jᵀr″,   r″ = d²r(x + sδ)/ds²,

where the second derivative is a difference along δ. The acceleration a follows the valleys of problems with many poorly
determined unknowns, as weights of networks: a fifth of the steps without it. It is left out where it is not small
beside δ.
D grows with the columns of J; μ falls where the linearised problem predicts the descent, and grows where there is none
([Madsen2004]_, §3.2).

References
----------
.. [Transtrum2012] M. K. Transtrum, J. P. Sethna, *Improvements to the Levenberg-Marquardt algorithm for nonlinear
   least-squares minimization*, arXiv:1201.5885 (2012).
.. [Madsen2004] K. Madsen, H. B. Nielsen, O. Tingleff, *Methods for Non-Linear Least Squares Problems*, 2nd ed.,
   Technical University of Denmark (2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geonh.control.least_squares import ROUNDING, GaussNewtonStep, LeastSquares, Prediction, Unknowns

FIRST = 1e-9
"""Damping of the first step."""
TRIALS = 40
"""Number of dampings tried in one iteration."""
LEAST = 1e-4
"""Descent, relative to that predicted, from which a step is accepted."""
FAST = 0.1
"""Size of a step, relative to the one before, up to which small steps go on, to rounding."""
AHEAD = 0.1
"""Part of a step after which its second derivative is measured."""
CURVED = 0.375
"""Size of an acceleration, relative to its step, up to which it is used."""
VISIBLE = 1e-9
"""Change of the observations, relative to them, from which second derivatives are more than rounding."""


class Minimum(NamedTuple):
    """Unknowns after some iterations, and the Gauss-Newton step there.

    Attributes
    ----------
    unknowns, prediction : Unknowns, Prediction
        The last unknowns and their motions.
    step : GaussNewtonStep
        The next step.
    iterations : int
        Number of steps before it.
    failure : str or None
        Why this is no minimum.
    """

    unknowns: Unknowns
    prediction: Prediction
    step: GaussNewtonStep
    iterations: int
    failure: str | None = None


def minimum(
    problem: LeastSquares, unknowns: Unknowns, prediction: Prediction, tol: float, max_iterations: int
) -> Minimum:
    """Minimum to which damped steps descend from some unknowns, to steps of ``tol`` standard errors, and on to
    rounding while each is a tenth of the one before.

    Raises
    ------
    ValueError
        If the data do not determine the parameters.
    RuntimeError
        If a step of the first motion fails.
    """
    problem.refuse_failed(unknowns, prediction)
    problem.refuse_not_finite(prediction)
    damping, scale, before, iteration = FIRST, np.zeros(1), np.inf, 0
    while True:
        step = problem.gauss_newton_step(unknowns, prediction)
        done, size = Minimum(unknowns, prediction, step, iteration), step.size
        if step.is_rounding(unknowns) or problem.is_exact(unknowns, prediction):
            return done
        if size <= tol and (size > FAST * before or iteration == max_iterations):
            return done
        if iteration == max_iterations:
            return done._replace(failure=f"did not converge in {max_iterations} iterations")
        scale, before = np.maximum(scale, step.scale), size
        lower = _descended(problem, done, scale, damping)
        if lower is None:
            return done._replace(failure="did not converge: no step lowers the sum of squares")
        (unknowns, prediction, damping), iteration = lower, iteration + 1


def _descended(
    problem: LeastSquares, at: Minimum, scale: np.ndarray, damping: float
) -> tuple[Unknowns, Prediction, float] | None:
    """Unknowns after the first step that lowers the sum of squares or is lost in rounding, and the next damping."""
    step, residual, growth = at.step, problem.residual(at.unknowns, at.prediction), 2.0
    rounding = (
        2 * np.linalg.norm(residual) * ROUNDING * np.linalg.norm(at.prediction.observations.ravel()[problem.seen])
    )
    for _ in range(TRIALS):
        parts = _damped(step, scale, damping, step.rest)
        predicted = 2 * parts @ (step.singular * step.rest) - np.sum((step.singular * parts) ** 2)
        move = step.directions @ parts + _acceleration(problem, at, scale, damping, parts) / 2
        trial = problem.moved(at.unknowns, move)
        new = problem.prediction(trial)
        new_residual = problem.residual(trial, new)
        with np.errstate(over="ignore", invalid="ignore"):
            descent = (residual @ residual - new_residual @ new_residual) / predicted
        usable = not np.any(new.status) and np.isfinite(descent) and np.all(np.isfinite(new.slopes))
        if usable and (descent > LEAST or predicted <= rounding):
            found = trial._replace(g=new.g, xi=new.xi) if problem.free_start else trial
            return found, new, damping * np.clip(1 - (2 * descent - 1) ** 3, 1 / 3, 2)
        damping, growth = damping * growth, 2 * growth
    return None


def _damped(step: GaussNewtonStep, scale: np.ndarray, damping: float, rest: np.ndarray) -> np.ndarray:
    """Parts, in the observable directions, of the damped step that lowers a residual with these parts, shape=[m]."""
    rows = np.vstack([np.diag(step.singular), np.sqrt(damping) * scale[:, None] * step.directions])
    return np.linalg.lstsq(rows, np.concatenate([rest, np.zeros(len(scale))]))[0]


def _acceleration(
    problem: LeastSquares, at: Minimum, scale: np.ndarray, damping: float, parts: np.ndarray
) -> np.ndarray:
    """Acceleration along a step, of its parts; 0 where it is rounding, or not small beside the step."""
    move, before = at.step.directions @ parts, at.prediction.observations
    none, n_seen = np.zeros(len(move)), np.count_nonzero(problem.seen)
    first = at.step.left[:, :n_seen].T @ (at.step.singular * parts)
    if not np.linalg.norm(first) > VISIBLE * np.linalg.norm(before.ravel()[problem.seen]):
        return none
    ahead = problem.prediction(problem.moved(at.unknowns, AHEAD * move), derivatives=False)
    with np.errstate(over="ignore", invalid="ignore"):
        change = (ahead.observations - before).ravel()[problem.seen] / AHEAD
        second = (change - first) * (2 / AHEAD)
        if np.any(ahead.status) or not np.all(np.isfinite(second)):
            return none
        acceleration = at.step.directions @ _damped(at.step, scale, damping, -at.step.left[:, :n_seen] @ second)
    small = np.linalg.norm(scale * acceleration) <= CURVED * np.linalg.norm(scale * move)
    return acceleration if small else none

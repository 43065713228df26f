"""Nonlinear programming solvers: those of SciPy, and Ipopt where it is installed.

For a transcription they run before Newton's method. The unknowns are perturbations η of the nodes of a guess,
g_k exp(η_k), with bounds on the controls; derivatives of cost and equations are exact, and sparse where supported.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from jax import Array

from geonh.arguments.validators import one_of
from geonh.control.steering import Bounds
from geonh.control.transcription import FIXED, DiscreteMotion, Transcription
from geonh.engine import mapped
from geonh.mechanics.system import System

SOLVERS: dict[str, dict] = {
    "slsqp": {"ftol": 1e-10},
    "trust-constr": {"gtol": 1e-8, "xtol": 1e-10},
    "ipopt": {"tol": 1e-8, "print_level": 0, "sb": "yes", "hessian_approximation": "limited-memory"},
}
"""Names of the solvers, with their options."""
ITERATIONS = 200
"""Maximum number of iterations of a solver that runs before Newton's method."""
UNBOUNDED = 1e20
"""Value that Ipopt reads as no bound."""


class Programme(NamedTuple):
    """min f(z) subject to c(z) = 0 and low ≤ z ≤ high: value, gradient, equations, sparse Jacobian."""

    value: Any
    gradient: Any
    equations: Any
    jacobian: Any
    low: np.ndarray
    high: np.ndarray


def minimised_in_chart(
    problem: Transcription, motion: DiscreteMotion, bounds: Bounds, solver: str
) -> tuple[DiscreteMotion, int]:
    """Minimum in the chart about the nodes of a guess, and iterations; failure is left for Newton's method to detect"""
    columns = problem.columns
    low, high = np.full(problem.size, -np.inf), np.full(problem.size, np.inf)
    low[columns.u], high[columns.u] = bounds.lower - motion.u, bounds.upper - motion.u
    if problem.free_span:
        low[columns.span] = -0.9 * motion.span
    scale = max(abs(problem.cost(motion).value), 1.0)

    def at(z: np.ndarray) -> DiscreteMotion:
        return problem.moved(motion, z)

    def chart(z: np.ndarray) -> Any:
        """Derivative of perturbations at z with respect to those about the guess, block by block."""
        padded = np.append(z, 0.0)[columns.eta]
        blocks = mapped(_dexp, problem.system, -padded)
        i = np.broadcast_to(columns.eta[:, :, None], blocks.shape)
        j = np.broadcast_to(columns.eta[:, None, :], blocks.shape)
        free = (i != FIXED) & (j != FIXED)
        rest = np.setdiff1d(np.arange(problem.size), columns.eta)
        data = np.concatenate([blocks[free], np.ones(len(rest))])
        places = (np.concatenate([i[free], rest]), np.concatenate([j[free], rest]))
        return scipy.sparse.csr_matrix((data, places), (problem.size, problem.size))

    programme = Programme(
        value=lambda z: problem.cost(at(z)).value / scale,
        gradient=lambda z: chart(z).T @ problem.cost(at(z)).gradient / scale,
        equations=lambda z: problem.equations(at(z)),
        jacobian=lambda z: problem.jacobian(at(z))[1] @ chart(z),
        low=low,
        high=high,
    )
    z, iterations = minimised(programme, np.zeros(problem.size), solver, ITERATIONS)
    return at(z), iterations


def _dexp(system: System, eta: Array) -> Array:
    return system.group.dexp(eta)


def minimised(programme: Programme, guess: np.ndarray, solver: str, max_iterations: int) -> tuple[np.ndarray, int]:
    """Final iterate of a solver, from a guess clipped to the bounds, and its number of iterations."""
    begin = np.clip(guess, programme.low, programme.high)
    if solver == "ipopt":
        return _by_ipopt(programme, begin, max_iterations)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta_grad")  # of trust-constr, where a function is linear
        found = scipy.optimize.minimize(
            programme.value,
            begin,
            jac=programme.gradient,
            bounds=scipy.optimize.Bounds(programme.low, programme.high),
            constraints={
                "type": "eq",
                "fun": programme.equations,
                "jac": lambda z: programme.jacobian(z).toarray() if solver == "slsqp" else programme.jacobian(z),
            },
            method=solver,
            options={"maxiter": max_iterations, **SOLVERS[solver]},
        )
    return found.x, int(found.nit)


def require(solver: str) -> None:
    """Raise ValueError for an unknown solver, ImportError for one that is not installed."""
    one_of(solver, "solver", SOLVERS)
    if solver == "ipopt" and importlib.util.find_spec("ipyopt") is None:
        raise ImportError('solver="ipopt" needs Ipopt: pip install "geonh[ipopt]"; or take "slsqp"')


def _by_ipopt(programme: Programme, begin: np.ndarray, max_iterations: int) -> tuple[np.ndarray, int]:
    import ipyopt

    # Sparsity pattern of the derivative: its nonzero entries at a point about the guess.
    about = begin + 1e-3 * np.random.default_rng(0).normal(size=len(begin))
    pattern = programme.jacobian(about).tocoo()
    rows, columns, zero = np.array(pattern.row), np.array(pattern.col), np.zeros(pattern.shape[0])
    nowhere = np.zeros(0, int)

    def put(function: Callable) -> Callable:
        def into(z: np.ndarray, out: np.ndarray) -> None:
            out[:] = function(z)

        return into

    ipopt = ipyopt.Problem(
        len(begin),
        np.maximum(programme.low, -UNBOUNDED),
        np.minimum(programme.high, UNBOUNDED),
        len(zero),
        zero,
        zero.copy(),
        (rows, columns),
        (nowhere, nowhere),
        programme.value,
        put(programme.gradient),
        put(programme.equations),
        put(lambda z: np.asarray(programme.jacobian(z)[rows, columns]).ravel()),
        ipopt_options={"max_iter": max_iterations, **SOLVERS["ipopt"]},
    )
    z = ipopt.solve(begin.copy())[0]
    return z, int(ipopt.stats["n_iter"])

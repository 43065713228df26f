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
from geonh.control.transcription import Motion, Transcription
from geonh.engine.compiled import mapped
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


def minimised(
    problem: Transcription, motion: Motion, limits: tuple[np.ndarray, np.ndarray], solver: str
) -> tuple[Motion, int]:
    """Minimum in the chart about the nodes of a guess, and iterations; failure is left for Newton's method to detect"""
    eta, u, span = problem.columns
    low, high = np.full(problem.size, -np.inf), np.full(problem.size, np.inf)
    low[u], high[u] = limits[0] - motion.u, limits[1] - motion.u
    if span >= 0:
        low[span] = -0.9 * motion.span
    scale = max(abs(problem.price(motion)[0]), 1.0)

    def chart(z: np.ndarray) -> Any:
        """Derivative of perturbations at z with respect to those about the guess, block by block."""
        padded = np.append(z, 0.0)[eta]
        blocks = mapped(_dexp, problem.system, -padded)
        rows = np.broadcast_to(eta[:, :, None], blocks.shape)
        columns = np.broadcast_to(eta[:, None, :], blocks.shape)
        kept = (rows >= 0) & (columns >= 0)
        rest = np.setdiff1d(np.arange(problem.size), eta)
        data = np.concatenate([blocks[kept], np.ones(len(rest))])
        at = (np.concatenate([rows[kept], rest]), np.concatenate([columns[kept], rest]))
        return scipy.sparse.csr_matrix((data, at), (problem.size, problem.size))

    programme = Programme(
        lambda z: problem.price(problem.moved(motion, z))[0] / scale,
        lambda z: chart(z).T @ problem.price(problem.moved(motion, z))[1] / scale,
        lambda z: problem.equations(problem.moved(motion, z)),
        lambda z: problem.jacobian(problem.moved(motion, z))[1] @ chart(z),
        low,
        high,
    )
    z, iterations = least(programme, np.zeros(problem.size), solver, ITERATIONS)
    return problem.moved(motion, z), iterations


def _dexp(system: System, eta: Array) -> Array:
    return system.group.dexp(eta)


def least(programme: Programme, guess: np.ndarray, solver: str, max_iterations: int) -> tuple[np.ndarray, int]:
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

    made = ipyopt.Problem(
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
    found = made.solve(begin.copy())[0]
    return found, int(made.stats["n_iter"])

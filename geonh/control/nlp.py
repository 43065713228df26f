"""Nonlinear programming solvers: those of SciPy, and Ipopt where it is installed."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from geonh.arguments.validators import one_of

SOLVERS: dict[str, dict] = {
    "slsqp": {"ftol": 1e-10},
    "trust-constr": {"gtol": 1e-8, "xtol": 1e-10},
    "ipopt": {"tol": 1e-8, "print_level": 0, "sb": "yes"},
}
"""Names of the solvers, with their options."""
NO_BOUND = 1e20
"""Value that Ipopt reads as no bound."""


class NonlinearProgram(NamedTuple):
    """min f(z) subject to c(z) = 0 and low ≤ z ≤ high: f, ∇f, c, and the sparse matrices c' and ∇²(σf + λᵀc).

    ``hessian`` takes (z, λ, σ); ``pattern`` is the rows and columns of its lower triangle that may not be zero. Both
    are None where it is unknown.
    """

    value: Callable
    gradient: Callable
    equations: Callable
    jacobian: Callable
    low: np.ndarray
    high: np.ndarray
    hessian: Callable | None = None
    pattern: tuple[np.ndarray, np.ndarray] | None = None


def require(solver: str) -> None:
    """Raise ValueError for an unknown solver, ImportError for one that is not installed."""
    one_of(solver, "solver", SOLVERS)
    if solver == "ipopt" and importlib.util.find_spec("ipyopt") is None:
        raise ImportError('solver="ipopt" needs Ipopt: pip install "geonh[ipopt]", or use "slsqp"')


def minimise(program: NonlinearProgram, guess: np.ndarray, solver: str, max_iterations: int) -> tuple[np.ndarray, int]:
    """Last iterate of a solver, from a guess clipped to the bounds, and its number of iterations."""
    begin = np.clip(guess, program.low, program.high)
    if solver == "ipopt":
        return _by_ipopt(program, begin, max_iterations)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta_grad")  # of trust-constr, where a function is linear
        result = scipy.optimize.minimize(
            program.value,
            begin,
            jac=program.gradient,
            bounds=scipy.optimize.Bounds(program.low, program.high),
            constraints={
                "type": "eq",
                "fun": program.equations,
                "jac": lambda z: program.jacobian(z).toarray() if solver == "slsqp" else program.jacobian(z),
            },
            method=solver,
            options={"maxiter": max_iterations, **SOLVERS[solver]},
        )
    return result.x, int(result.nit)


def _by_ipopt(program: NonlinearProgram, begin: np.ndarray, max_iterations: int) -> tuple[np.ndarray, int]:
    """Ipopt, with the exact Hessian of the Lagrangian if it is known, else its limited-memory approximation."""
    import ipyopt

    # Sparsity pattern of the Jacobian: its nonzero entries at a point about the guess.
    about = begin + 1e-3 * np.random.default_rng(0).normal(size=len(begin))
    jacobian = program.jacobian(about).tocoo()
    places, zero = (np.array(jacobian.row), np.array(jacobian.col)), np.zeros(jacobian.shape[0])
    options = {"max_iter": max_iterations, **SOLVERS["ipopt"]}
    if program.hessian is None:
        options["hessian_approximation"] = "limited-memory"

    def put(function: Callable) -> Callable:
        def into(*arguments: np.ndarray) -> None:
            arguments[-1][:] = function(*arguments[:-1])

        return into

    def entries(matrix: Callable, places: tuple[np.ndarray, np.ndarray]) -> Callable:
        return put(lambda *arguments: np.asarray(matrix(*arguments)[places]).ravel())

    ipopt = ipyopt.Problem(
        n=len(begin),
        x_l=np.maximum(program.low, -NO_BOUND),
        x_u=np.minimum(program.high, NO_BOUND),
        m=len(zero),
        g_l=zero,
        g_u=zero.copy(),
        sparsity_indices_jac_g=places,
        sparsity_indices_h=program.pattern or (np.zeros(0, int), np.zeros(0, int)),
        eval_f=program.value,
        eval_grad_f=put(program.gradient),
        eval_g=put(program.equations),
        eval_jac_g=entries(program.jacobian, places),
        eval_h=entries(program.hessian, program.pattern) if program.hessian and program.pattern else None,
        ipopt_options=options,
    )
    z = ipopt.solve(begin.copy())[0]
    return z, int(ipopt.stats["n_iter"])

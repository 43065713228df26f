"""Ipopt, an extra, for transcriptions: with exact sparse derivatives, in the chart of exponentials about a guess."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from geonh.control.interior_point import InteriorPoint, Outcome
from geonh.control.linearisation import Linearisation
from geonh.control.transcription import DiscreteMotion, Transcription

NO_BOUND = 1e20
"""Value that Ipopt reads as no bound."""


def require_ipopt() -> None:
    """Raise ImportError where Ipopt is not installed."""
    if importlib.util.find_spec("ipyopt") is None:
        raise ImportError('solver="ipopt" needs Ipopt: pip install "geonh[ipopt]", or leave solver out')


def solve_by_ipopt(problem: Transcription, guess: DiscreteMotion, max_iterations: int) -> Outcome:
    """Search for a local minimum from a motion by Ipopt; Newton's method verifies and polishes what it finds."""
    import ipyopt

    own = InteriorPoint(problem, max_iterations)
    at_guess = problem.values(guess)
    n_e, n_c = len(at_guess.equations), len(at_guess.inequalities)

    @functools.lru_cache(maxsize=2)
    def linearised(z: bytes, multipliers: bytes, cost: float) -> Linearisation:
        weights = np.frombuffer(multipliers) if multipliers else np.zeros(n_e + n_c)
        return problem.linearised(guess, weights[:n_e], weights[n_e:], cost, np.frombuffer(z))

    def at(z: np.ndarray) -> Linearisation:
        return linearised(z.tobytes(), b"", 0.0)

    def put(function: Callable) -> Callable:
        def into(*arguments: Any) -> None:
            arguments[-1][:] = function(*arguments[:-1])

        return into

    def values(z: np.ndarray) -> np.ndarray:
        now = problem.values(guess, z)
        return np.concatenate([now.equations, now.inequalities])

    def jacobian(z: np.ndarray) -> np.ndarray:
        return np.concatenate([at(z).equations.blocks.flat(), at(z).inequalities.blocks.flat()])

    below = [np.tril(np.ones(h.shape[1:], bool)) for h in at(np.zeros(problem.size)).hessian]

    def hessian(z: np.ndarray, multipliers: np.ndarray, cost: float) -> np.ndarray:
        parts = linearised(z.tobytes(), multipliers.tobytes(), float(cost)).hessian
        return np.concatenate([h[:, low].ravel() for h, low in zip(parts, below, strict=True)])

    first = at(np.zeros(problem.size))
    rows = [m.sparse().tocoo() for m in (first.equations, first.inequalities)]
    pairs = [
        np.sort([c[:, np.nonzero(low)[1]], c[:, np.nonzero(low)[0]]], axis=0)[::-1]
        for c, low in zip(problem.columns, below, strict=True)
    ]
    free = np.where(problem.given, 0.0, NO_BOUND)
    ipopt = ipyopt.Problem(
        n=problem.size,
        x_l=-free,
        x_u=free,
        m=n_e + n_c,
        g_l=np.concatenate([np.zeros(n_e), np.maximum(own.bounds.lower, -NO_BOUND)]),
        g_u=np.concatenate([np.zeros(n_e), np.minimum(own.bounds.upper, NO_BOUND)]),
        sparsity_indices_jac_g=(
            np.concatenate([rows[0].row, rows[1].row + n_e]),
            np.concatenate([rows[0].col, rows[1].col]),
        ),
        sparsity_indices_h=tuple(np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1)),
        eval_f=lambda z: problem.values(guess, z).cost,
        eval_grad_f=put(lambda z: at(z).gradient),
        eval_g=put(values),
        eval_jac_g=put(jacobian),
        eval_h=put(hessian),
        ipopt_options={"max_iter": max_iterations, "tol": 1e-9, "print_level": 0, "sb": "yes"},
    )
    multipliers, of_bounds = np.zeros(n_e + n_c), np.zeros(problem.size)
    z = ipopt.solve(np.zeros(problem.size), mult_g=multipliers, mult_x_L=of_bounds, mult_x_U=of_bounds.copy())[0]
    return own.polished(problem.moved(guess, z), multipliers, int(ipopt.stats["n_iter"]))

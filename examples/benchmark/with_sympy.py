"""Adapter for SymPy and SciPy: equations in redundant coordinates with Lagrange multipliers, solved by DOP853.

With the Lagrangian L(q, q̇), the rows a(q, q̇) = A(q)q̇ − b(q) = 0 and the forces Q of ``sympy_models.py``,

    M q̈ = ∂L/∂q − (∂²L/∂q̇∂q) q̇ + Q + Cλ,   A q̈ = −(∂a/∂q) q̇,   M = ∂²L/∂q̇²,

where C = Aᵀ, but with friction.

``python with_sympy.py PROBLEM [RTOL]`` prints a submission.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import scipy
import sympy as sp
from scipy.integrate import solve_ivp
from score import Problem, problem_names, read_problem
from sympy_models import MODELS, Model

TIGHT = 3e-14
"""Relative tolerance of the reference values; SciPy takes none below 100 times the rounding error."""


def field(model: Model) -> Callable[[float, np.ndarray], np.ndarray]:
    """Vector field of (q, q̇), compiled to NumPy."""
    q, v = sp.Matrix(model.q), sp.Matrix(model.v)
    momenta = sp.Matrix([model.lagrangian]).jacobian(v).T
    rows = sp.Matrix(len(model.rows), 1, model.rows)
    right = sp.Matrix([model.lagrangian]).jacobian(q).T - momenta.jacobian(q) * v
    if model.forces:
        right += sp.Matrix(model.forces)
    forms = rows.jacobian(v)
    columns = forms.T if model.columns is None else model.columns
    parts = [momenta.jacobian(v), right, forms, -rows.jacobian(q) * v, columns]
    parts = [part.subs(model.parameters) for part in parts]
    compiled = sp.lambdify([model.q, model.v], parts, modules="numpy", cse=True)
    n, m = len(q), len(rows)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        M, f, A, b, C = compiled(y[:n], y[n:])
        saddle = np.block([[M, -C], [A, np.zeros((m, m))]])
        return np.concatenate([y[n:], np.linalg.solve(saddle, np.concatenate([f, b]).ravel())[:n]])

    return slope


def run(problem: Problem, rtol: float = 1e-10) -> dict:
    """Submission for a problem, solved with the relative tolerance rtol and the same absolute one."""
    model = MODELS[problem.name](problem)
    y = np.concatenate(model.from_state(problem.start))
    t, states, events, seconds, evaluations = 0.0, [], {}, 0.0, 0
    while True:
        n, slope, until = len(model.q), field(model), None
        if model.until:
            name, vanishes, following = model.until
            left = sp.lambdify([model.q, model.v], vanishes)
            until = lambda t, y, left=left, n=n: left(y[:n], y[n:])  # noqa: E731
            until.terminal = True
        begin = time.process_time()
        asked = problem.times[problem.times > t]
        found = solve_ivp(slope, (t, asked[-1]), y, method="DOP853", t_eval=asked, rtol=rtol, atol=rtol, events=until)
        seconds += time.process_time() - begin
        evaluations += int(found.nfev)
        states += [model.to_state(y[:n], y[n:]) for y in found.y.T]
        if found.status != 1:
            break
        t, y = float(found.t_events[0][0]), found.y_events[0][0]
        events[name], model = t, following
    return {
        "problem": problem.name,
        "code": f"SymPy {sp.__version__}, SciPy {scipy.__version__}",
        "method": f"DOP853, rtol = {rtol:g}",
        "work": {"seconds": seconds, "evaluations": evaluations},
        "times": problem.times.tolist(),
        "values": {name: [[float(x) for x in state[name]] for state in states] for name in problem.start},
        **({"events": events} if events else {}),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=problem_names(), metavar="PROBLEM", help=", ".join(problem_names()))
    parser.add_argument("tolerance", type=float, nargs="?", default=1e-10, help="relative and absolute (1e-10)")
    words = parser.parse_args()
    if not 0 < words.tolerance < 1:
        parser.error(f"tolerance must be between 0 and 1, got {words.tolerance:g}")
    print(json.dumps(run(read_problem(words.problem), words.tolerance), indent=1))

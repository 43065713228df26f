"""Optimal control: CPU time of a first call and of later ones, beside CasADi with Ipopt on the same steps and guess.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_optimal_control.py``, or by ``python`` alone, with ``--page``
to renew the table of docs/control.md; beside CasADi where it is installed (the extra ``export-test``). Each row is a
process of its own. The rival is written as one writes it in CasADi: coordinates and their rates as the
state, equations of motion with multipliers by symbolic differentiation, RK4 under controls that are linear between the
nodes, multiple shooting, from each of the guesses that ``optimal_control`` tried; its time is that of the solver alone,
and with the construction in brackets, its cost the least one, with the largest velocity along a form in that motion, of
the ball the error of the length of its quaternion.
"""

import functools
import importlib.util
import os
import platform
import subprocess
import sys
import time
from datetime import date
from itertools import islice
from pathlib import Path

os.environ.setdefault("GEONH_CACHE", "off")

import numpy as np
import pytest
from control_problems import BALL_RADIUS, PROBLEMS
from scipy.spatial.transform import Rotation

from geonh.control import optimal_control
from geonh.control.guess import motions

pytestmark = pytest.mark.benchmark

PAGE = Path(__file__).parents[2] / "docs" / "control.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


def planar_rates(ca, q, v):
    """Velocity of the first body in its frame."""
    c, s = ca.cos(q[0]), ca.sin(q[0])
    return c * v[1] + s * v[2], -s * v[1] + c * v[2]


def car(ca, q, v):
    """Energy, forms and generalised forces of a car with trailers; what rests at the end."""
    forward, aside = planar_rates(ca, q, v)
    energy = 0.5 * (forward**2 + (aside + 0.5 * v[0]) ** 2 + 0.2 * v[0] ** 2 + 0.1 * (v[0] + v[3]) ** 2)
    forms = [aside, -ca.sin(q[3]) * forward + ca.cos(q[3]) * (aside + 1.2 * v[0])]
    turn = v[0]
    for i in range(4, q.numel()):
        at_hitch, angle, turn = (forward, aside - 0.3 * turn), q[i], turn + v[i]
        forward = ca.cos(angle) * at_hitch[0] + ca.sin(angle) * at_hitch[1]
        aside = -ca.sin(angle) * at_hitch[0] + ca.cos(angle) * at_hitch[1] - turn
        energy += 0.5 * (0.5 * (forward**2 + aside**2) + 0.1 * turn**2)
        forms.append(aside)
    push = planar_rates(ca, q, v)[0]
    return energy, forms, lambda u: u[0] * ca.jacobian(push, v).T + u[1] * ca.jacobian(v[3], v).T, [push, v[3]]


def snakeboard(ca, q, v):
    """Inertia 1.5 of board and axles, 0.5 of the rotor ψ and of the axles φ, r = 0.5."""
    forward, aside = planar_rates(ca, q, v)
    energy = 0.5 * (forward**2 + aside**2 + 1.5 * v[0] ** 2 + 0.5 * v[3] ** 2 + 0.5 * v[4] ** 2)
    turn = 0.5 * ca.cos(q[4]) * v[0] + ca.sin(q[4]) * forward
    forms = [turn - ca.cos(q[4]) * aside, -turn - ca.cos(q[4]) * aside]
    torques = lambda u: u[0] * ca.jacobian(v[3] - v[0], v).T + u[1] * ca.jacobian(v[4], v).T  # noqa: E731
    return energy, forms, torques, [forward, v[3], v[4]]


def roller_racer(ca, q, v):
    """m = 1, I1 = 1, I2 = 0.5, d1 = 1, d2 = 0.5."""
    forward, aside = planar_rates(ca, q, v)
    energy = 0.5 * (forward**2 + aside**2 + v[0] ** 2 + 0.5 * (v[0] + v[3]) ** 2)
    forms = [aside, (ca.cos(q[3]) + 0.5) * v[0] - ca.sin(q[3]) * forward + 0.5 * v[3]]
    return energy, forms, lambda u: u[0] * ca.jacobian(v[3], v).T, []


def rolling_disc(ca, q, v):
    """Upright disc."""
    forward, aside = planar_rates(ca, q, v)
    energy = 0.5 * (forward**2 + aside**2 + 0.25 * v[0] ** 2 + 0.5 * v[3] ** 2)
    torques = lambda u: u[0] * ca.jacobian(v[0], v).T + u[1] * ca.jacobian(v[3], v).T  # noqa: E731
    return energy, [forward - v[3], aside], torques, [v[0], v[3]]


BALL = "ball on a plate"
RIVALS = {
    "car with a trailer": car,
    "car with a trailer, 80": car,
    "snakeboard": snakeboard,
    "roller racer": roller_racer,
    "lane change": car,
    "rolling disc": rolling_disc,
}


def solved(opti, begun, error):
    """CPU time of construction since ``begun`` and of Ipopt, cost, and an error of the motion that is found."""
    opti.solver("ipopt", {"print_time": 0}, {"print_level": 0, "sb": "yes", "max_iter": 500})
    built = time.process_time()
    try:
        found = opti.solve()
    except RuntimeError:
        return built - begun, time.process_time() - built, np.nan, np.nan
    spent = time.process_time() - built
    return built - begun, spent, float(found.value(opti.f)), error(found)


def rival(name, problem, motion, n_steps):
    """CPU time of construction and of the solver, cost, and largest violation of the forms, by CasADi from a guess."""
    import casadi as ca

    begun = time.process_time()
    n, options, K = problem.system.group.dim, problem.options, n_steps
    q, v, u = ca.SX.sym("q", n), ca.SX.sym("v", n), ca.SX.sym("u", options["n_controls"])
    energy, forms, forces, at_rest = RIVALS[name](ca, q, v)
    p, forms = ca.gradient(energy, v), ca.vertcat(*forms)
    A, M = ca.jacobian(forms, v), ca.jacobian(p, v)
    push = ca.gradient(energy, q) - ca.jacobian(p, q) @ v + forces(u)
    m = A.shape[0]
    saddle = ca.vertcat(ca.horzcat(M, A.T), ca.horzcat(A, ca.SX(m, m)))
    slope = ca.solve(saddle, ca.vertcat(push, -ca.jacobian(forms, q) @ v))[:n]
    f = ca.Function("f", [ca.vertcat(q, v), u], [ca.vertcat(v, slope)])
    x, a, b, h = ca.SX.sym("x", 2 * n), u, ca.SX.sym("b", u.numel()), options["span"] / K
    k1 = f(x, a)
    k2 = f(x + h / 2 * k1, (a + b) / 2)
    k3 = f(x + h / 2 * k2, (a + b) / 2)
    step = ca.Function("step", [x, a, b], [x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3, b))])
    rest = ca.Function("rest", [ca.vertcat(q, v)], [ca.vertcat(*at_rest) if at_rest else ca.SX(0, 1)])
    opti = ca.Opti()
    X, U = opti.variable(2 * n, K + 1), opti.variable(u.numel(), K + 1)
    cost = 0
    for k in range(K):
        opti.subject_to(X[:, k + 1] == step(X[:, k], U[:, k], U[:, k + 1]))
        cost += h / 3 * (ca.sumsqr(U[:, k]) + ca.dot(U[:, k], U[:, k + 1]) + ca.sumsqr(U[:, k + 1]))
    system = problem.system
    place = dict(zip(("omega", "vx", "vy"), (0, 1, 2), strict=True))
    names = [*("theta", "x", "y"), *system.group.point_names[3:]]
    xi_start = np.asarray(options.get("xi_start", np.zeros(n)))
    opti.subject_to(X[:, 0] == np.r_[np.zeros(n), xi_start])
    end = np.concatenate([np.atleast_1d(e) for e in options["end"]])
    free = {place.get(c, system.group.velocity_names.index(c)) for c in options.get("free", ())}
    for i in set(range(n)) - free:
        opti.subject_to(X[i, K] == end[i])
    if at_rest:
        target = np.asarray(rest(np.r_[end, np.asarray(options.get("xi_end", np.zeros(n)))])).ravel()
        opti.subject_to(rest(X[:, K]) == target)
    for name_, (low, high) in problem.limits.items():
        i = names.index(name_) if name_ in names else n + system.group.velocity_names.index(name_)
        opti.subject_to(opti.bounded(low, X[i, 1:], high))
    opti.minimize(cost)
    nodes = np.concatenate([np.asarray(a).reshape(K + 1, -1) for a in motion.g], axis=1)
    rates, (c, s) = motion.xi.copy(), (np.cos(nodes[:, 0]), np.sin(nodes[:, 0]))
    rates[:, 1], rates[:, 2] = c * motion.xi[:, 1] - s * motion.xi[:, 2], s * motion.xi[:, 1] + c * motion.xi[:, 2]
    opti.set_initial(X, np.concatenate([nodes, rates], axis=1).T)
    broken = ca.Function("broken", [ca.vertcat(q, v)], [forms])
    return solved(opti, begun, lambda found: np.abs(broken(found.value(X)).full()).max())


def ball_rival(problem, motion, n_steps):
    """The same of the ball on a plate: a quaternion, the place, and their rates in space; the spin is left out at the
    end, which Ipopt does not do by itself."""
    import casadi as ca

    begun = time.process_time()
    K, h = n_steps, problem.options["span"] / n_steps
    x, a, b = ca.SX.sym("x", 11), ca.SX.sym("a", 2), ca.SX.sym("b", 2)
    q, w, v, r = x[:4], x[6:9], x[9:], BALL_RADIUS
    turning = ca.vertcat(-ca.dot(w, q[1:]), q[0] * w + ca.cross(w, q[1:])) / 2
    forms, M = ca.DM([[0, r, 0, -1, 0], [-r, 0, 0, 0, -1]]), ca.diag(ca.DM([0.1, 0.1, 0.1, 1, 1]))
    saddle = ca.vertcat(ca.horzcat(M, forms.T), ca.horzcat(forms, ca.DM(2, 2)))
    rates = ca.solve(saddle, ca.vertcat(ca.DM(3, 1), 9.81 * a, ca.DM(2, 1)))[:5]
    f = ca.Function("f", [x, a], [ca.vertcat(turning, v, rates)])
    k1 = f(x, a)
    k2 = f(x + h / 2 * k1, (a + b) / 2)
    k3 = f(x + h / 2 * k2, (a + b) / 2)
    step = ca.Function("step", [x, a, b], [x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3, b))])
    opti = ca.Opti()
    X, U = opti.variable(11, K + 1), opti.variable(2, K + 1)
    cost = 0
    for k in range(K):
        opti.subject_to(X[:, k + 1] == step(X[:, k], U[:, k], U[:, k + 1]))
        cost += h / 3 * (ca.sumsqr(U[:, k]) + ca.dot(U[:, k], U[:, k + 1]) + ca.sumsqr(U[:, k + 1]))
    R, place = (np.asarray(part) for part in problem.options["end"])
    end = Rotation.from_matrix(R).as_quat(scalar_first=True)
    opti.subject_to(X[:, 0] == np.r_[1.0, np.zeros(10)])
    last = X[:4, K]
    opti.subject_to(end[0] * last[1:] - last[0] * end[1:] - ca.cross(end[1:], last[1:]) == 0)
    opti.subject_to(X[4:6, K] == place)
    opti.subject_to(X[9:, K] == 0)
    for i, name in ((4, "x"), (5, "y")):
        low, high = problem.limits[name]
        opti.subject_to(opti.bounded(low, X[i, 1:], high))
    opti.minimize(cost)
    turned, places = (np.asarray(part) for part in motion.g)
    rates = np.concatenate([np.einsum("kij,kj->ki", turned, motion.xi[:, :3]), motion.xi[:, 3:]], axis=1)
    quaternions = Rotation.from_matrix(turned).as_quat(scalar_first=True)
    opti.set_initial(X, np.concatenate([quaternions, places, rates], axis=1).T)
    return solved(opti, begun, lambda found: abs(np.linalg.norm(found.value(X)[:4], axis=0) - 1).max())


def row(name):
    """A row of the table, in this process."""
    make, K = PROBLEMS[name]
    problem, times = make(), []
    for _ in range(3):
        begun = time.process_time()
        found = optimal_control(problem.system, **problem.options, n_steps=K, limits=problem.limits)
        times.append(time.process_time() - begun)
    begun = time.process_time()
    optimal_control(problem.system, **problem.options, n_steps=K, limits=problem.limits, tries=1)
    once, theirs = time.process_time() - begun, "–"
    if name in (*RIVALS, BALL) and importlib.util.find_spec("casadi") is not None:
        guesses = list(islice(motions(found._problem), found.tried))
        solve_it = ball_rival if name == BALL else functools.partial(rival, name)
        tries = [solve_it(problem, guess, K) for guess in guesses]
        build, solve = (sum(one[i] for one in tries) for i in (0, 1))
        costs = [one[2] for one in tries if np.isfinite(one[2])]
        theirs = f"{tries[0][1]:.2f}, {solve:.2f} ({build + solve:.2f}), " + (f"{min(costs):.4g}" if costs else "fails")
        theirs += f", {max(one[3] for one in tries if one[2] == min(costs)):.1g}" if costs else ""
    title = name.removesuffix(", 80")
    return (
        f"| {title} | {K} | {times[0]:.1f} | {min(times[1:]):.2f} | {once:.2f} | {found.cost:.4g} | {found.error:.1g} "
        f"| {found.iterations} | {found.tried} | {theirs} |"
    )


def table(names):
    """Rows, each of a process of its own."""
    lines = []
    for name in names:
        done = subprocess.run([sys.executable, __file__, "--row", name], capture_output=True, text=True, check=False)
        lines.append(done.stdout.strip().splitlines()[-1] if done.returncode == 0 else f"| {name} | fails |")
        print(lines[-1], flush=True)
    return lines


def page(lines):
    """Renew the table of the page."""
    head = [
        f"CPU seconds on {os.cpu_count()} cores of {processor()}, {date.today():%Y-%m-%d}.",
        "",
        "| problem | K | first call | later | `tries=1` | cost | error | iterations | guesses "
        "| CasADi with Ipopt: from the first guess, from all, cost, slip |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + "\n".join([MARKS[0], *head, *lines, MARKS[1]]) + after)


def processor():
    """Name of the processor, as its maker says."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def test_control():
    assert all("fails |" not in line for line in table(PROBLEMS))


if __name__ == "__main__":
    if "--row" in sys.argv:
        print(row(sys.argv[-1]))
    else:
        lines = table(PROBLEMS)
        if "--page" in sys.argv:
            page(lines)

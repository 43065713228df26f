"""Gradients through runs: against the run itself, plain JAX and diffrax, and their memory; one table.

``pytest -m benchmark -s tests/benchmarks/test_gradients.py``, or as a script with names of parts. Of a weighted sum
of what a sphere and a driven snakeboard show at the end, by inertia and initial velocity. diffrax has the equations
twice: with multipliers that are eliminated in each evaluation, as constrained equations are written down, and reduced
by hand to as few variables as there are. Each takes the fewest steps of a ladder with which the end is within
``ACCURACY``. That gradients agree is asserted; seconds of the processor, the least of some in turns, are printed,
with a star where the goal is missed.
"""

import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine import operations
from geonh.systems import catalogue
from geonh.systems.snakeboard import sinusoidal_torques

ROUNDS, ACCURACY = 9, 1e-9
LADDER = [int(100 * 1.25**k) for k in range(26)]
WEIGHTS = np.array([0.3, -0.7, 1.1])


class Problem(NamedTuple):
    """A system with its parameters and a start as functions of two vectors, of which gradients are taken.

    The rivals are named, of (θ, what they begin with): a field of (t, y, θ), the first y, and what is seen of the last.
    """

    system: Any
    at: tuple[np.ndarray, np.ndarray]
    parameters: Callable
    start: Callable
    seen: Callable
    rivals: dict[str, tuple[Callable, Callable, Callable]]
    span: float = 20.0
    controls: Callable | None = None


def sphere() -> Problem:
    entry = catalogue["chaplygin-sphere"]
    system = entry.system(table_rate=0.0)
    start = entry.start(system)
    m, r = (float(system.parameters[name]) for name in ("m", "r"))
    x0, R0 = map(np.asarray, start.g0)
    shift = m * r**2

    def rolling(R, W):
        return r * jnp.stack([R[1] @ W, -(R[0] @ W)])

    def reduced(t, y, J):
        """K' = K × W, γ' = γ × W, for the angular momentum K about the contact."""
        K, gamma = y
        free, along = jnp.linalg.solve(jnp.diag(J) + shift * jnp.eye(3), jnp.stack([K, gamma], axis=1)).T
        W = free + along * (shift * (gamma @ free) / (1 - shift * (gamma @ along)))
        return jnp.cross(K, W), jnp.cross(gamma, W)

    def momentum(J, W):
        return J * W + shift * (W - (R0[2] @ W) * R0[2]), jnp.asarray(R0[2])

    def constrained(t, y, J):
        _, R, xi = y
        W = xi[2:]
        R_rate = jnp.stack([jnp.cross(row, W) for row in R])
        forms, forms_rate = (
            jnp.concatenate([unit, r * jnp.stack([-Q[1], Q[0]])], axis=1)
            for unit, Q in ((jnp.eye(2), R), (jnp.zeros((2, 2)), R_rate))
        )
        mass = jnp.diag(jnp.concatenate([m * jnp.ones(2), J]))
        force = jnp.concatenate([jnp.zeros(2), jnp.cross(J * W, W)])
        return xi[:2], R_rate, accelerations(mass, force, forms, -forms_rate @ xi)

    return Problem(
        system,
        (np.asarray(system.parameters["J"]), np.asarray(start.xi0)[2:]),
        lambda J: {"J": J},
        lambda J, W: (start.g0, jnp.concatenate([rolling(R0, W), W])),
        lambda g: g[1][-1, 2],
        {
            "multipliers": (
                constrained,
                lambda J, W: (jnp.asarray(x0), jnp.asarray(R0), jnp.concatenate([rolling(R0, W), W])),
                lambda ys: ys[1][-1, 2],
            ),
            "by hand": (reduced, momentum, lambda ys: ys[1][-1]),
        },
    )


def board() -> Problem:
    system = gn.systems.controlled_snakeboard()
    r, J0, J1 = (float(system.parameters[name]) for name in ("r", "J0", "J1"))
    phi = 0.3

    def forms(q):
        front, back, arm = q[2] + q[4], q[2] - q[4], r * jnp.cos(q[4])
        rows = [[jnp.sin(front), -jnp.cos(front), arm, 0, 0], [jnp.sin(back), -jnp.cos(back), -arm, 0, 0]]
        return jnp.stack([jnp.stack([jnp.asarray(x, float) for x in row]) for row in rows])

    def constrained(t, y, theta):
        q, v = y
        mass = jnp.diag(jnp.stack([theta[0], theta[0], theta[1] + 2 * J1, jnp.asarray(J0), jnp.asarray(2 * J1)]))
        now, rate = jax.jvp(forms, (q,), (v,))
        u = sinusoidal_torques(t)
        return v, accelerations(mass, jnp.stack([0 * t, 0 * t, -u[0], u[0], u[1]]), now, -rate @ v)

    def reduced(t, y, theta):
        """Of (x, y, θ, φ, w, φ̇): θ̇ = −w sin φ, and the board moves ahead at r w cos φ."""
        _, _, heading, phi, w, steer = y
        s, c, J, mr2 = jnp.sin(phi), jnp.cos(phi), theta[1] + 2 * J1, theta[0] * r**2
        u = sinusoidal_torques(t)
        ahead, rate = r * w * c, (s * u[0] - steer * w * s * c * (J - mr2)) / (J * s**2 + mr2 * c**2)
        return jnp.stack([ahead * jnp.cos(heading), ahead * jnp.sin(heading), -w * s, steer, rate, u[1] / (2 * J1)])

    def velocity(speeds):
        w, spin, steer = speeds
        return jnp.stack([-w * np.sin(phi), r * w * np.cos(phi), 0 * w, spin, steer])

    def first(theta, speeds):
        turn, ahead, _, spin, steer = velocity(speeds)
        return jnp.array([0, 0, 0, 0, phi]), jnp.stack([ahead, 0 * ahead, turn, spin, steer])

    return Problem(
        system,
        (np.array([1.0, 1.0]), np.array([0.5, 0.7, 0.0])),
        lambda theta: {"m": theta[0], "J": theta[1]},
        lambda theta, speeds: ((np.zeros(3), np.array([0.0, phi])), velocity(speeds)),
        lambda g: g[0][-1],
        {
            "multipliers": (constrained, first, lambda ys: ys[0][-1, jnp.array([2, 0, 1])]),
            "by hand": (
                reduced,
                lambda theta, speeds: jnp.stack([*jnp.zeros(3), jnp.asarray(phi), speeds[0], speeds[2]]),
                lambda ys: ys[-1, jnp.array([2, 0, 1])],
            ),
        },
        20.0,
        sinusoidal_torques,
    )


def accelerations(mass, force, forms, right):
    """Of Ma = force + Aᵀλ, Aa = right, by one linear solve."""
    m = len(forms)
    matrix = jnp.block([[mass, -forms.T], [forms, jnp.zeros((m, m))]])
    return jnp.linalg.solve(matrix, jnp.concatenate([force, right]))[: len(mass)]


def by_geonh(problem, method, n_steps, save_every=1):
    """The end as a function of two vectors."""

    def end(theta, speeds):
        parameters = {**problem.system.parameters, **problem.parameters(theta)}
        system = eqx.tree_at(lambda s: s.parameters, problem.system, parameters)
        g0, xi0 = problem.start(theta, speeds)
        words = {"dt": problem.span / n_steps, "n_steps": n_steps, "save_every": save_every}
        run = gn.integrate(system, method, g0=g0, xi0=xi0, controls=problem.controls, **words)
        return problem.seen(run.g)

    return end


def by_diffrax(rival, span, n_steps):
    import diffrax

    field, first, seen = rival

    def end(theta, speeds):
        result = diffrax.diffeqsolve(
            *(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, span, span / n_steps, first(theta, speeds), theta),
            stepsize_controller=diffrax.ConstantStepSize(),
            max_steps=n_steps + 1,
        )
        return seen(result.ys)

    return end


def enough(make, at, exact):
    """The fewest steps of the ladder, and the error with them."""
    low, high = 0, len(LADDER) - 1
    while low < high:  # by halves: each length is compiled anew
        middle = (low + high) // 2
        error = np.abs(jax.jit(make(LADDER[middle]))(*at) - exact).max()
        low, high = (low, middle) if error <= ACCURACY else (middle + 1, high)
    return LADDER[low], np.abs(jax.jit(make(LADDER[low]))(*at) - exact).max()


def in_turns(at, functions):
    """Least seconds of the processor of each, after calls that compile; and the seconds of the first."""
    first = {}
    for name, function in functions.items():
        begin = time.perf_counter()
        jax.block_until_ready(function(*at))
        first[name] = time.perf_counter() - begin
        while time.perf_counter() - begin < first[name] + 2:  # until the engine has compiled it well
            jax.block_until_ready(function(*at))
    least = dict.fromkeys(functions, np.inf)
    for _ in range(ROUNDS):
        for name, function in functions.items():
            begin = time.process_time()
            jax.block_until_ready(function(*at))
            least[name] = min(least[name], time.process_time() - begin)
    return least, first


def both(end):
    return jax.jit(end), jax.jit(jax.value_and_grad(lambda *at: WEIGHTS @ end(*at), (0, 1)))


def in_plain_jax(end, at):
    """Of the same steps by XLA alone, which must be traced before another function is."""
    own, function = operations.Operation.__call__, both(end)[1]
    operations.Operation.__call__ = lambda self, arrays, x: self.plain(list(map(jnp.asarray, arrays)), jnp.asarray(x))
    try:
        jax.block_until_ready(function(*at))
    finally:
        operations.Operation.__call__ = own
    return function


def row(what, measured, value=None, goal=None, at_least=False):
    missed = goal is not None and (value < goal if at_least else value > goal)
    aim = "" if goal is None else f"{'≥' if at_least else '≤'} {goal:g}"
    print(f"{what:62s} {measured:>58s}  {aim}{' *' if missed else ''}", flush=True)


def against_diffrax(name, problem):
    """Gradients of one accuracy."""
    at, functions, counts = problem.at, {}, {}
    exact = jax.jit(by_geonh(problem, gn.Gauss(3), 16_000))(*at)
    for method in ("rkmk6", "gauss6", "gauss4"):
        made = gn.methods[method].make()
        steps, error = enough(lambda n, made=made: by_geonh(problem, made, n), at, exact)
        counts[method] = f"{steps} steps, error {error:.0e}"
        functions[f"{method} run"], functions[method] = both(by_geonh(problem, made, steps))
    for words, rival in problem.rivals.items():
        steps, error = enough(lambda n, rival=rival: by_diffrax(rival, problem.span, n), at, exact)
        counts[words] = f"{steps} steps, error {error:.0e}"
        functions[words] = both(by_diffrax(rival, problem.span, steps))[1]
    least, first = in_turns(at, functions)
    wanted = functions["gauss6"](*at)[1]
    for one in counts:
        for mine, its in zip(functions[one](*at)[1], wanted, strict=True):
            np.testing.assert_allclose(mine, its, rtol=0, atol=1e3 * ACCURACY * np.abs(its).max())
    best = least["rkmk6"]
    for method in ("rkmk6", "gauss6", "gauss4"):
        ms, ratio = 1e3 * least[method], least[method] / least[f"{method} run"]
        row(f"{name}: {method}, {counts[method]}", f"{ms:.1f} ms, {ratio:.1f} × its run", ratio, 4)
    for words in problem.rivals:
        ratio = least[words] / best
        goal = (10, True) if words == "multipliers" else ()
        row(f"  diffrax, {words}, {counts[words]}", f"{1e3 * least[words]:.0f} ms: {ratio:.1f} ×", ratio, *goal)
    row("  first call: rkmk6, diffrax", f"{first['rkmk6']:.1f} s, {first['multipliers']:.1f} s")


def against_the_run(problem, n=4000):
    """What a gradient costs, method by method."""
    at = problem.at
    for name in ("gni", "projected", "rkmk4", "gauss4"):
        end = by_geonh(problem, gn.methods[name].make(), n)
        functions = dict(zip(("run", "gradient"), both(end), strict=True))
        if name == "gauss4":
            functions["plain"] = in_plain_jax(end, at)
        least, _ = in_turns(at, functions)
        ms = {key: 1e3 * seconds for key, seconds in least.items()}
        ratio = ms["gradient"] / ms["run"]
        what = f"value and gradient by 6 numbers, {name}, {n} steps"
        row(what, f"{ms['gradient']:.1f} and {ms['run']:.1f} ms: {ratio:.1f}", ratio, 4)
    row("  plain JAX of the same steps against it", f"{ms['plain']:.0f} ms: {ms['plain'] / ms['gradient']:.0f} ×")
    for mine, its in zip(functions["gradient"](*at)[1], functions["plain"](*at)[1], strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=1e-9 * np.abs(its).max())


def of_a_short_run(problem, n=100):
    """Of as many steps of a second, where calls cost as much as steps."""
    problem = problem._replace(span=1.0)
    functions = {name: both(by_geonh(problem, gn.methods[name].make(), n))[1] for name in ("rkmk4", "gauss4")}
    functions |= {words: both(by_diffrax(rival, 1.0, n))[1] for words, rival in problem.rivals.items()}
    least, _ = in_turns(problem.at, functions)
    for words in problem.rivals:
        ms = {key: 1e3 * least[key] for key in ("rkmk4", "gauss4", words)}
        measured = (
            ", ".join(f"{key} {value:.3f}" for key, value in ms.items()) + f" ms: {ms[words] / ms['rkmk4']:.1f} ×"
        )
        row(f"value and gradient of {n} steps, and diffrax, {words}", measured, ms[words] / ms["rkmk4"], 1, True)


def of_a_long_run(problem, n=100_000):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    long = both(by_geonh(problem, gn.SymmetricProjection(), n, 1000))[1]
    begin = time.perf_counter()
    jax.block_until_ready(long(*problem.at))
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6 - before
    measured = f"{time.perf_counter() - begin:.1f} s, {more:.2f} GB more"
    row(f"gradient through {n} steps, one node in 1000 kept", measured, more, 1)


def by_controls(lengths=(2000, 20_000)):
    """The gradient by controls at the nodes: its cost for a step does not grow with their number."""
    system = gn.systems.controlled_snakeboard()
    each = {}
    for n in lengths:

        def loss(u, n=n):
            return gn.integrate(system, gn.GNI(), xi0=np.zeros(5), dt=0.01, n_steps=n, controls=u).g[0][-1, 1]

        u = 0.5 * np.cos(0.02 * np.arange(n + 1))[:, None] * np.array([1.0, -1.0])
        least, _ = in_turns((u,), {"gradient": jax.jit(jax.grad(loss))})
        each[n] = 1e6 * least["gradient"] / n
    ratio = each[lengths[1]] / each[lengths[0]]
    measured = ", ".join(f"{us:.1f} µs a step ({n})" for n, us in each.items())
    row("gradient by the controls at all nodes", f"{measured}: {ratio:.1f}", ratio, 1.5)


def table(parts=("run", "sphere", "snakeboard")):
    with gn.float64():
        if "run" in parts:
            against_the_run(sphere())
            of_a_short_run(board())
            of_a_long_run(sphere())
            by_controls()
        if "sphere" in parts:
            against_diffrax("sphere", sphere())
        if "snakeboard" in parts:
            against_diffrax("driven snakeboard", board())


@pytest.mark.benchmark
def test_table():
    pytest.importorskip("diffrax")
    print()
    table()


if __name__ == "__main__":
    table(sys.argv[1:] or ("run", "sphere", "snakeboard"))

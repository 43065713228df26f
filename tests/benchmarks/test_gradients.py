"""Gradients through runs: against the run itself, plain JAX and diffrax, and their memory; one table.

``pytest -m benchmark -s tests/benchmarks/test_gradients.py``, or as a script. The problem is the Chaplygin sphere, the
gradient that of a weighted sum of the vertical in the body's frame at the end, by the inertia and the initial angular
velocity. diffrax has the reduced equations of the literature, of six variables, written by hand, with as many steps of
a method of order five as give the same error. That gradients agree is asserted; times, the least of some in turns, are
printed, with a star where the goal is missed.
"""

import resource
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.numerics import operations
from geonh.systems import catalogue

ROUNDS, SPAN = 5, 20.0
WEIGHTS = np.array([0.3, -0.7, 1.1])
ENTRY = catalogue["chaplygin-sphere"]
SYSTEM = ENTRY.system(table_rate=0.0)
START = ENTRY.start(SYSTEM)
OMEGA = np.asarray(START.xi0)[2:]
MASS, RADIUS = (float(SYSTEM.parameters[name]) for name in ("m", "r"))
ROTATION = np.asarray(START.g0[1], float) if START.g0 is not None else np.eye(3)
INERTIA = np.asarray(SYSTEM.parameters["J"])


def by_geonh(method, n_steps, save_every=1):
    """The loss as a function of (J, Ω)."""

    def loss(J, omega):
        system = eqx.tree_at(lambda s: s.parameters, SYSTEM, {**SYSTEM.parameters, "J": J})
        xi = jnp.concatenate([RADIUS * jnp.stack([ROTATION[1] @ omega, -ROTATION[0] @ omega]), omega])
        nodes = gn.integrate(
            system, method, g0=START.g0, xi0=xi, dt=SPAN / n_steps, n_steps=n_steps, save_every=save_every
        )
        return WEIGHTS @ nodes.g[1][-1, 2]

    return loss


def by_diffrax(n_steps):
    """The same, of the reduced equations K' = K × Ω, γ' = γ × Ω."""
    import diffrax

    shift = MASS * RADIUS**2

    def spin(J, K, gamma):
        A = jnp.diag(J) + shift * jnp.eye(3)
        free, along = jnp.linalg.solve(A, jnp.stack([K, gamma], axis=1)).T
        return free + along * (shift * (gamma @ free) / (1 - shift * (gamma @ along)))

    def field(t, y, J):
        K, gamma = y
        omega = spin(J, K, gamma)
        return jnp.cross(K, omega), jnp.cross(gamma, omega)

    def loss(J, omega):
        gamma = jnp.asarray(ROTATION[2])
        K = J * omega + shift * (omega - (gamma @ omega) * gamma)
        found = diffrax.diffeqsolve(
            *(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, SPAN, SPAN / n_steps, (K, gamma), J),
            stepsize_controller=diffrax.ConstantStepSize(),
            max_steps=n_steps + 1,
        )
        return WEIGHTS @ found.ys[1][-1]

    return loss


def in_turns(**functions):
    """Least seconds of each, after one call that compiles; and the seconds of that."""
    first = {}
    for name, function in functions.items():
        begin = time.perf_counter()
        jax.block_until_ready(function(INERTIA, OMEGA))
        first[name] = time.perf_counter() - begin
    least = dict.fromkeys(functions, np.inf)
    for _ in range(ROUNDS):
        for name, function in functions.items():
            begin = time.perf_counter()
            jax.block_until_ready(function(INERTIA, OMEGA))
            least[name] = min(least[name], time.perf_counter() - begin)
    return least, first


def both(loss):
    return jax.jit(loss), jax.jit(jax.value_and_grad(loss, (0, 1)))


def in_plain_jax(loss):
    """Of the same steps by XLA alone, which must be traced before another function is."""
    own, function = operations.Operation.__call__, jax.jit(jax.value_and_grad(loss, (0, 1)))
    operations.Operation.__call__ = lambda self, arrays, x: self.plain(list(map(jnp.asarray, arrays)), jnp.asarray(x))
    try:
        jax.block_until_ready(function(INERTIA, OMEGA))
    finally:
        operations.Operation.__call__ = own
    return function


def row(what, measured, value=None, goal=None, at_least=False):
    missed = goal is not None and (value < goal if at_least else value > goal)
    aim = "" if goal is None else f"{'≥' if at_least else '≤'} {goal:g}"
    print(f"{what:62s} {measured:>52s}  {aim}{' *' if missed else ''}", flush=True)


def table():
    wanted = by_geonh(gn.Gauss(3), 8000)
    with gn.float64():
        exact = jax.jit(wanted)(INERTIA, OMEGA)
        n = 4000
        run, gradient = both(by_geonh(gn.Gauss(2), n))
        error = abs(float(run(INERTIA, OMEGA) - exact))
        m = n
        while abs(float(jax.jit(by_diffrax(m))(INERTIA, OMEGA) - exact)) < error and m > 100:
            m = int(m / 1.2)
        m = int(m * 1.2)
        other, its_gradient = both(by_diffrax(m))
        plain = in_plain_jax(by_geonh(gn.Gauss(2), n))
        least, first = in_turns(run=run, gradient=gradient, plain=plain, other=other, its_gradient=its_gradient)
        slopes = gradient(INERTIA, OMEGA)[1]
        for others in (plain, its_gradient):
            for mine, its in zip(slopes, others(INERTIA, OMEGA)[1], strict=True):
                np.testing.assert_allclose(mine, its, rtol=0, atol=max(1e-9, 100 * error) * np.abs(its).max())
        words = f"{n} steps of Gauss-4, error {error:.1e}; {m} of Tsit5"
        ms = {name: 1e3 * seconds for name, seconds in least.items()}
        ratio = ms["gradient"] / ms["run"]
        measured = f"{ms['gradient']:.1f} and {ms['run']:.1f} ms: {ratio:.1f}"
        row("value and gradient by 6 numbers against the run", measured, ratio, 4)
        ratio = ms["plain"] / ms["gradient"]
        row("  plain JAX of the same steps against it", f"{ms['plain']:.0f} ms: {ratio:.0f} ×")
        ratio = ms["its_gradient"] / ms["gradient"]
        row(f"  diffrax against it ({words})", f"{ms['its_gradient']:.0f} ms: {ratio:.1f} ×", ratio, 10, True)
        row("  its run against ours", f"{ms['other']:.1f} ms: {ms['other'] / ms['run']:.1f} ×")
        row("  first call: ours, diffrax", f"{first['gradient']:.1f} s, {first['its_gradient']:.1f} s")
        for name in ("GNI", "SymmetricProjection"):
            run, gradient = both(by_geonh(getattr(gn, name)(), n))
            least, _ = in_turns(run=run, gradient=gradient)
            ratio = least["gradient"] / least["run"]
            row(f"  {name}", f"{1e3 * least['gradient']:.1f} and {1e3 * least['run']:.1f} ms: {ratio:.1f}", ratio, 4)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        long = jax.jit(jax.value_and_grad(by_geonh(gn.SymmetricProjection(), 100_000, 1000), (0, 1)))
        begin = time.perf_counter()
        jax.block_until_ready(long(INERTIA, OMEGA))
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6 - before
        measured = f"{time.perf_counter() - begin:.1f} s, {more:.2f} GB more"
        row("gradient through 100 000 steps, one node in 1000 kept", measured, more, 1)


@pytest.mark.benchmark
def test_table():
    pytest.importorskip("diffrax")
    print()
    table()


if __name__ == "__main__":
    table()

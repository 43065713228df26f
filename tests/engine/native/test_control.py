"""Loops, branches and calls, native against JAX; and whole random programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax import lax
from native_support import check, evaluate, needs_compiler, random

from geonh.engine import native
from geonh.engine.native import branches, builder, emitter, loops, moves
from geonh.engine.native.programs import mapping

pytestmark = needs_compiler


def cube_root(x):
    """Componentwise coupled Newton iteration with counter, flag and an entry that never changes."""

    def residual(z):
        return z**3 + 0.1 * jnp.roll(z, 1) - x

    def body(carry):
        z, _, k, done, fixed = carry
        delta = jnp.linalg.solve(jax.jacfwd(residual)(z), residual(z))
        return z - delta, jnp.max(jnp.abs(delta)), k + 1, done | (k > 30), fixed

    first = (jnp.ones(3), jnp.asarray(jnp.inf), jnp.asarray(0, jnp.int32), jnp.asarray(False), jnp.zeros(2))
    return lax.while_loop(lambda c: (c[1] > 1e-9) & ~c[3], body, first)


def long_body(x):
    return lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) @ jnp.cos(y) + i, x)


CONTROL = {
    "cond": lambda x, a: lax.cond(x[0] > 0, lambda y: y @ a, lambda y: 2 * y, x),
    "cond_long": lambda x, a: lax.cond(x[0] > 0, lambda y: jnp.kron(a, a) @ jnp.tile(y, 3), lambda y: jnp.ones(9), x),
    "cond_with_loop": lambda x, a: lax.cond(x[0] > 0, long_body, lambda y: -y, a),
    "cond_with_array": lambda x, a: lax.cond(x[0] > 0, lambda: jnp.kron(a, jnp.kron(a, a)), lambda: jnp.ones((27, 27)))[
        5
    ],
    "switch": lambda x, a: (
        lax.switch((9 * x[0]).astype(int), [jnp.sin, jnp.cos, jnp.tan], x),
        lax.switch((9 * x[1]).astype(int), [long_body, lambda y: -y, lambda y: jnp.linalg.inv(y)], a),
        lax.switch(1, [jnp.sin, jnp.cos], x),
    ),
    "scan": lambda x, a: lax.scan(lambda c, r: (0.5 * c + r, (c @ a, r[0])), x, a, reverse=True),
    "scan_long": lambda x, a: lax.scan(
        lambda c, r: (jnp.cos(c + r), (jnp.outer(c, r), c[0])), x, jnp.linspace(0.0, 1.0, 90).reshape(30, 3) * x
    ),
    "scan_swapped": lambda x, a: lax.scan(
        lambda c, i: ((c[1], c[0] + i), c[0][5]), (jnp.tile(x, 50), jnp.ones(150)), jnp.arange(7.0)
    ),
    "scan_empty": lambda x, a: lax.scan(lambda c, r: (c + r, c), x, jnp.zeros((0, 3))),
    "fori": lambda x, a: lax.fori_loop(0, 5, lambda i, y: jnp.cos(y @ a) + i, x),
    "fori_indexed": lambda x, a: lax.fori_loop(
        0, 3, lambda i, y: y.at[i].set(y[2 - i] + a[i, i]).at[0].add(x[i]), jnp.concatenate([x, x])
    ),
    "fori_unknown_length": lambda x, a: lax.fori_loop(
        0, (9 * jnp.abs(x[0])).astype(int), lambda i, y: jnp.cos(y) + i, x
    ),
    "fori_from_three": lambda x, a: lax.fori_loop(3, 40, lambda i, y: (y[0] + jnp.sin(1.0 * i), i), (x, 0)),
    "map": lambda x, a: lax.map(lambda r: r @ a @ r, jnp.ones((40, 3)) * x),
    "associative_scan": lambda x, a: lax.associative_scan(jnp.add, a),
    "newton": lambda x, a: cube_root(x)[::2],
    "nested_loops": lambda x, a: lax.scan(
        lambda c, r: (lax.while_loop(lambda z: jnp.sum(z * z) > 0.5, lambda z: 0.7 * z, c) + r, long_body(a)),
        x,
        jnp.ones((12, 3)),
    ),
    "elimination": lambda x, a: lax.fori_loop(
        0,
        3,
        lambda k, b: (b - jnp.outer(b[:, k], b[k]) / (1 + b[k, k] ** 2)).at[k].set(b[:, k]),
        a,
    ),
    "large": lambda x, a: jnp.sin(lax.fori_loop(0, 4, lambda i, y: jnp.cos(y) + i * x[0], jnp.zeros((30, 30))))[3],
    "table": lambda x, a: (jnp.arange(1e4) ** 2)[jnp.abs(1000 * x).astype(int)],
    "custom_root": lambda x, a: lax.custom_root(
        lambda z: z**3 - x,
        x,
        lambda f, z: lax.fori_loop(0, 60, lambda _, y: y - f(y) / (3 * y**2), z),
        lambda g, y: y / g(jnp.ones_like(y)),
    ),
    "custom_jvp": lambda x, a: jax.jvp(lambda y: jnp.cbrt(y) * jax.nn.silu(y), (x,), (jnp.ones_like(x),)),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control(name):
    for seed in range(3):
        check(CONTROL[name], random(seed, 3), random(seed + 10, 3, 3), rtol=2e-13)


@pytest.mark.parametrize("name", CONTROL)
def test_control_in_memory(name, monkeypatch):
    """The same where every array that can be is in memory, loops are loops, and branches are branches."""
    monkeypatch.setattr(loops, "CARRIED", 0)
    monkeypatch.setattr(loops, "UNROLLED", 0)
    monkeypatch.setattr(branches, "SELECTED", 0)
    check(CONTROL[name], random(0, 3), random(10, 3, 3), rtol=2e-13)


@pytest.mark.slow
def test_calls(monkeypatch):
    """A function that is called several times, with loops, large arrays and known arguments in it."""
    monkeypatch.setattr(loops, "CARRIED", 4)

    @jax.jit
    def inner(x, a, n):
        return jnp.sin(a) @ x + n, lax.fori_loop(0, 4, lambda i, y: jnp.cos(y) + x[0], a), jnp.ones(3), n > 2

    def function(x, a):
        y = inner(x, a, 1)
        z = inner(y[0], y[1], 1)
        u = lax.fori_loop(0, 3, lambda i, c: inner(*c, i)[:2], (x, a))
        return y, z, inner(z[0], a, 3), inner(x, a, 3), u

    check(function, random(0, 3), random(1, 3, 3), rtol=1e-13)


def test_what_no_result_needs_is_not_written():
    """In a loop, within a call, where JAX leaves it standing: singular values have no code."""

    @jax.jit
    def inner(x, a):
        jnp.linalg.svd(a * x[0])
        return jnp.sin(a) @ x

    def function(x, a):
        return lax.while_loop(lambda y: y @ y < 100, lambda y: 2 * y + inner(y, a), x)

    with pytest.raises(native.NotLowered, match="svd"):
        evaluate(lambda a: jnp.linalg.svd(a)[1], random(1, 3, 3))
    check(function, random(0, 3), random(1, 3, 3))


LEAVES = st.sampled_from(["x", "y", "s", "one", "zero", "table"])


@st.composite
def programs(draw, depth=3):
    """A random function of vectors x, y of length 3 and a number s, as nested tuples."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(LEAVES)
    part = programs(depth=depth - 1)
    kind = draw(st.sampled_from(["unary", "binary", "where", "cond", "while", "scan", "matrix", "index", "jvp"]))
    if kind == "unary":
        return kind, draw(st.sampled_from(sorted(UNARY))), draw(part)
    if kind == "binary":
        return kind, draw(st.sampled_from(sorted(BINARY))), draw(part), draw(part)
    if kind in ("where", "cond"):
        return kind, draw(part), draw(part), draw(part)
    if kind in ("while", "scan"):
        return kind, draw(st.integers(0, 30)), draw(part), draw(part)
    return kind, draw(st.integers(-4, 4)), draw(part)


UNARY = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "exp": lambda x: jnp.exp(-jnp.abs(x)),
    "sqrt": lambda x: jnp.sqrt(1 + x * x),
    "cumsum": jnp.cumsum,
    "flip": jnp.flip,
    "sort": jnp.sort,
    "round": jnp.round,
    "norm": lambda x: x / (1 + jnp.linalg.norm(x)),
}
BINARY = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": lambda x, y: x / (1 + y * y),
    "max": jnp.maximum,
    "atan2": jnp.arctan2,
    "cross": jnp.cross,
    "solve": lambda x, y: jnp.linalg.solve(jnp.outer(x, y) + 2 * jnp.eye(3), y) / (1 + jnp.max(jnp.abs(x * y))) ** 2,
}


def run(program, x, y, s):
    if isinstance(program, str):
        known = {"x": x, "y": y, "s": s * jnp.ones(3), "one": jnp.ones(3), "zero": jnp.zeros(3)}
        return known.get(program, jnp.arange(3.0) - 1)
    kind, *rest = program
    if kind == "unary":
        return UNARY[rest[0]](run(rest[1], x, y, s))
    if kind == "binary":
        return BINARY[rest[0]](run(rest[1], x, y, s), run(rest[2], x, y, s))
    if kind == "where":
        c, a, b = (run(p, x, y, s) for p in rest)
        return jnp.where(c > 0.1, a, b)
    if kind == "cond":
        c = run(rest[0], x, y, s)
        return lax.cond(c[0] > 0.1, lambda: run(rest[1], x, y, s), lambda: run(rest[2], x, y, s))
    if kind == "while":
        first = run(rest[1], x, y, s)

        def body(carry):
            return carry[0] + 1, jnp.tanh(run(rest[2], carry[1], y, s) + 0.3 * carry[1])

        return lax.while_loop(lambda c: (c[0] < rest[0]) & (c[1][0] < 0.9), body, (0, first))[1]
    if kind == "scan":
        first = run(rest[1], x, y, s)
        rows = jnp.linspace(-1.0, 1.0, rest[0] * 3).reshape(-1, 3)
        c, ys = lax.scan(lambda c, r: (jnp.tanh(run(rest[2], c, r, s)), c[1] * r), first, rows)
        return c + jnp.sum(ys, axis=0)
    value = run(rest[1], x, y, s)
    if kind == "matrix":
        return jnp.roll(jnp.outer(value, x), rest[0]) @ y
    if kind == "index":
        i = (rest[0] * jnp.nan_to_num(value[0])).astype(int)
        return value.at[i].add(value[jnp.argmax(value)])
    return jax.jvp(lambda z: jnp.sin(z) * z[rest[0] % 3], (value,), (x,))[1]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(program=programs(), seed=st.integers(0, 1000))
@example(program=("index", 2, ("binary", "solve", "s", "x")), seed=838)
@example(program=("binary", "cross", "x", "x"), seed=0)
def test_random_programs(program, seed):
    with jax.enable_x64(True):
        x, y, s = random(seed, 3), random(seed + 1, 3), np.float64(0.3)
        # Beside a number of the size of what programs compute with: some give nothing but rounding, as x × x.
        check(lambda x, y, s: jnp.append(run(program, x, y, s), 1.0), x, y, s, rtol=1e-11)


def test_arrays_beyond_straight_code(monkeypatch):
    for room in (emitter, moves):
        monkeypatch.setattr(room, "STRAIGHT", 4)
    x = random(0, 30)
    out = evaluate(lambda x: (jnp.where(x > 0, jnp.sqrt(jnp.abs(x)), 2.0) + x * x[3], x[2:5], jnp.outer(x, x)[1]), x)
    np.testing.assert_allclose(out[0], np.where(x > 0, np.sqrt(abs(x)), 2.0) + x * x[3], rtol=1e-15)


@pytest.mark.parametrize("name", CONTROL)
def test_blocks_may_end_before_any_equation(name, monkeypatch):
    function, x, a = CONTROL[name], random(0, 3), random(1, 3, 3)
    whole = evaluate(function, x, a)
    monkeypatch.setattr(builder, "LONGEST", 0)
    jax.tree.map(np.testing.assert_array_equal, evaluate(function, x, a), whole)


def test_no_block_is_many_times_longer_than_it_may_be():
    """LLVM took 80 s for a block of 10⁵ instructions, as in a step on SO(4) with exp; an equation here has 3000."""

    def function(a):
        return jax.jacfwd(lambda a: lax.fori_loop(0, 3, lambda i, b: b @ b + a, jax.scipy.linalg.expm(a)))(a)

    lines = mapping(jax.make_jaxpr(function)(np.eye(5)), 0, fma=True).text.split("\n")
    ends = [i for i, line in enumerate(lines) if line.endswith(":")]
    assert len(lines) > 20 * builder.LONGEST
    assert max(np.diff([*ends, len(lines)])) < 4 * builder.LONGEST


@pytest.mark.slow
def test_many_loops_each_of_its_own_length():
    """``vmap`` of a loop whose length depends on the member: the condition is a vector."""

    def root(mean, e=0.3):
        def newton(carry):
            E, n, path = carry
            return E - (E - e * jnp.sin(E) - mean) / (1 - e * jnp.cos(E)), n + 1, path.at[n].set(E)

        going = lambda carry: jnp.abs(carry[0] - e * jnp.sin(carry[0]) - mean) > 1e-12  # noqa: E731
        return lax.while_loop(going, newton, (mean, 0, jnp.zeros(8)))

    check(jax.vmap(root), np.linspace(0.0, 3.0, 7))
    check(jax.vmap(jax.vmap(root)), np.linspace(0.0, 3.0, 6).reshape(2, 3))
    check(jax.vmap(lambda n, x: lax.fori_loop(0, n, lambda i, x: x * x + 0.1 * i, x)), np.arange(5), np.full(5, 0.3))
    check(jax.vmap(jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x) * x, x))), np.linspace(0.5, 1.0, 600))

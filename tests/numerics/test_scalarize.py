"""A function evaluated on scalars against the same function on arrays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.extend.core import jaxprs_in_params

from geonh.numerics.linear import solve
from geonh.numerics.scalarize import WHOLE, kept_whole, scalarize


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def assert_same(got, expected, rtol=4e-15):
    """Same tree, shapes and dtypes; values to rounding, relative to the largest entry."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if np.issubdtype(b.dtype, np.inexact):
            finite = np.abs(np.asarray(b))[np.isfinite(b)]
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * finite.max(initial=0.0))
        else:
            np.testing.assert_array_equal(a, b)


def check(fn, *args, rtol=4e-15):
    assert_same(jax.jit(scalarize(fn))(*args), jax.jit(fn)(*args), rtol)


def equations(jaxpr):
    """Names of all primitives, inner jaxprs included, the calls themselves left out."""
    names = []
    for eqn in jaxpr.eqns:
        inner = jaxprs_in_params(eqn.params)
        for sub in inner:
            names += equations(getattr(sub, "jaxpr", sub))
        names += [] if eqn.primitive.name == "jit" else [eqn.primitive.name]
    return names


def primitives(fn, *args):
    return equations(jax.make_jaxpr(fn)(*args).jaxpr)


def random(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


UNARY = [
    jnp.sin,
    jnp.cos,
    jnp.tan,
    jnp.tanh,
    jnp.sinh,
    jnp.cosh,
    jnp.arctan,
    jnp.arcsinh,
    jnp.exp,
    jnp.expm1,
    jnp.exp2,
    jnp.abs,
    jnp.sign,
    jnp.floor,
    jnp.ceil,
    jnp.round,
    jnp.square,
    jnp.negative,
    jnp.isfinite,
    jnp.cbrt,
    jax.nn.sigmoid,
    lax.stop_gradient,
    lambda x: x**3,
    lambda x: x**-2,
    lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: lax.rsqrt(x * x + 1),
    lambda x: jnp.log(jnp.abs(x)),
    lambda x: jnp.log1p(jnp.abs(x)),
    lambda x: jnp.arcsin(x / 9),
    lambda x: jnp.arccos(x / 9),
    lambda x: jnp.arccosh(1 + x * x),
    lambda x: jnp.arctanh(x / 9),
    lambda x: jnp.clip(x, -0.5, 0.5),
    jax.scipy.special.erf,
    lambda x: lax.clamp(-0.5, x, 0.5),
    lambda x: x.astype(jnp.int32),
    lambda x: x.astype(jnp.float32),
    lambda x: x > 0,
    jnp.sinc,
    lambda x: jnp.where(x > 0, x, 0.0),
    lambda x: jnp.nan_to_num(x),
]

BINARY = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.divide,
    jnp.arctan2,
    jnp.maximum,
    jnp.minimum,
    jnp.fmod,
    jnp.mod,
    jnp.floor_divide,
    jnp.equal,
    jnp.not_equal,
    jnp.less,
    jnp.less_equal,
    jnp.greater,
    jnp.greater_equal,
    jnp.hypot,
    lambda x, y: jnp.abs(x) ** y,
    lambda x, y: (x > 0) & (y > 0),
    lambda x, y: (x > 0) | ~(y > 0),
    lambda x, y: jnp.logical_xor(x > 0, y > 0),
    lambda x, y: jnp.where(x > y, x, y),
    lambda x, y: (8 * x).astype(int) // 3 - (8 * y).astype(int) % 3,
    lambda x, y: (8 * x).astype(jnp.int32) << 2,
]

VECTOR_MATRIX = {
    "index": lambda x, a: (a[1, 2], a[0], a[-1, 0], a[:, 1], a[::2, ::-1], x[..., None], a[None]),
    "gather": lambda x, a: (
        a[jnp.array([0, 2])],
        a[jnp.array([2, 1]), jnp.array([0, 0])],
        jnp.take(x, jnp.array([1, -1])),
    ),
    "gather_out_of_bounds": lambda x, a: (x.at[jnp.array([0, 7])].get(mode="fill"), x.at[7].get(mode="clip")),
    "gather_traced": lambda x, a: (
        x[jnp.argmax(x)],
        a[jnp.argmin(x)],
        lax.dynamic_slice(x, (jnp.argmax(x),), (2,)),
    ),
    "gather_batched": lambda x, a: jax.vmap(lambda r, i: r[i])(a, jnp.array([2, 0, 1])),
    "scatter": lambda x, a: (
        a.at[1].set(x),
        a.at[0, 1].add(2.0),
        a.at[:, 2].multiply(x),
        a.at[0].min(x),
        a.at[0].max(x),
    ),
    "scatter_repeated": lambda x, a: (
        x.at[jnp.array([0, 0, 1])].add(x),
        x.at[jnp.array([5, 0])].set(1.0, mode="drop"),
    ),
    "scatter_traced": lambda x, a: x.at[jnp.argmax(x)].set(0.0),
    "dynamic": lambda x, a: (
        lax.dynamic_slice(a, (1, 5), (2, 2)),
        lax.dynamic_update_slice(a, a[:2, :2], (1, -4)),
    ),
    "diag": lambda x, a: (jnp.diag(a), jnp.diag(x), jnp.trace(a), jnp.tril(a), jnp.triu(a, 1)),
    "products": lambda x, a: (
        a @ x,
        x @ a,
        a @ a,
        x @ x,
        jnp.outer(x, x),
        jnp.cross(x, x[::-1]),
        jnp.kron(a, a),
    ),
    "einsum": lambda x, a: (
        jnp.einsum("ij,kj,k->i", a, a, x),
        jnp.einsum("bi,bj->bij", a, a),
        jnp.tensordot(a, a),
    ),
    "reductions": lambda x, a: (
        a.sum(),
        a.sum(0),
        a.prod(1),
        a.max(),
        a.min(0),
        jnp.linalg.norm(a),
        a.mean(),
        a.std(),
    ),
    "logic": lambda x, a: ((a > 0).all(), (a > 0).any(0), jnp.argmax(a, 1), jnp.argmin(a)),
    "cumulative": lambda x, a: (jnp.cumsum(a, 1), jnp.cumprod(x), lax.cummax(a, reverse=True), lax.cummin(x)),
    "structure": lambda x, a: (
        a.reshape(9),
        a.T,
        jnp.flip(a),
        jnp.roll(x, 1),
        jnp.tile(x, 2),
        jnp.repeat(x, 2),
        jnp.stack([x, x], 1),
        jnp.concatenate([a, x[None]]),
        jnp.split(x, 3),
        jnp.block([[a, x[:, None]], [x[None], jnp.ones((1, 1))]]),
        jnp.broadcast_to(x, (2, 3)),
        jnp.meshgrid(x, x),
        jnp.moveaxis(a[None], 0, 2),
    ),
    "pad": lambda x, a: (
        jnp.pad(a, 1),
        lax.pad(x, 0.5, [(2, -1, 1)]),
        lax.pad(a, 0.0, [(-1, 0, 0), (0, 1, 2)]),
    ),
    "iota": lambda x, a: (
        jnp.arange(3) * x,
        jnp.eye(3) + a,
        jnp.linspace(0.0, x[0], 4),
        jnp.arange(4, dtype=jnp.int32),
    ),
    "empty": lambda x, a: (x[:0], a[:0].sum(0), jnp.zeros((0, 3)) @ x),
    "linalg": lambda x, a: (jnp.linalg.solve(a, x), jnp.linalg.det(a), jnp.linalg.inv(a), jnp.sort(x)),
    "unrolled_solve": lambda x, a: solve(a @ a.T + jnp.eye(3), x),
    "jacfwd": lambda x, a: jax.jacfwd(lambda y: jnp.sin(a @ y) * y[0])(x),
    "hessian": lambda x, a: jax.hessian(lambda y: jnp.sum(jnp.tanh(a @ y) ** 3))(x),
    "vmap": lambda x, a: jax.vmap(lambda r: jnp.cross(r, x) / (1 + r @ r))(a),
    "nested": lambda x, a: jax.jit(jax.checkpoint(lambda y: jax.nn.softplus(jax.nn.relu(a @ y))))(x),
    "random": lambda x, a: x + jax.random.normal(jax.random.key(3), (3,)),
    "cond": lambda x, a: lax.cond(x[0] > 0, lambda y: y @ a, lambda y: 2 * y, x),
    "cond_large": lambda x, a: lax.cond(x[0] > 0, lambda y: jnp.kron(a, a) @ jnp.tile(y, 3), lambda y: jnp.ones(9), x),
    "switch": lambda x, a: (
        lax.switch((9 * x[0]).astype(int), [jnp.sin, jnp.cos, jnp.tan], x),
        lax.switch(1, [jnp.sin, jnp.cos], x),
    ),
    "scan": lambda x, a: lax.scan(lambda c, r: (0.5 * c + r, (c @ a, r[0])), x, a, reverse=True),
    "fori": lambda x, a: lax.fori_loop(0, 5, lambda i, y: jnp.cos(y @ a) + i, x),
    "associative_scan": lambda x, a: lax.associative_scan(jnp.add, a),
}


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_unary_primitives(seed):
    with jax.enable_x64(True):
        check(lambda x: [f(x) for f in UNARY], random(seed, 2, 2))


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_binary_primitives(seed):
    with jax.enable_x64(True):
        x, y = random(seed, 2, 2), random(seed + 1, 2, 2)
        check(lambda x, y: [f(x, y) for f in BINARY], x, y.at[0, 0].set(x[0, 0]))


@pytest.mark.parametrize("number", range(len(UNARY)))
def test_known_arguments_fold(number):
    x = random(number, 3)
    folded = jax.jit(scalarize(lambda y: (UNARY[number](x), y)))(jnp.ones(1))[0]
    assert_same(folded, UNARY[number](x))


@pytest.mark.parametrize("name", VECTOR_MATRIX)
def test_array_functions(name):
    for seed in range(2):
        check(VECTOR_MATRIX[name], random(seed, 3), random(seed + 10, 3, 3), rtol=2e-14)


def test_zeros_ones_and_constants_disappear():
    moves = {"slice", "squeeze", "reshape", "concatenate", "broadcast_in_dim"}
    x = random(0, 3)
    assert set(primitives(scalarize(lambda x: x @ jnp.eye(3) + 0), x)) <= moves
    assert set(primitives(scalarize(lambda x: (x * 1 - 0) / 1), x)) <= moves
    assert set(primitives(scalarize(lambda x: (0 * x) / x + jnp.sin(0.0) + jnp.where(True, x, x[::-1])), x)) <= moves
    assert primitives(scalarize(lambda x: -1 * x[0] + 0.0), x).count("neg") == 1
    jacobian = scalarize(jax.jacfwd(lambda x: jnp.stack([x[0] ** 2, x[1], x[2] * 3.0])))
    assert primitives(jacobian, x).count("mul") <= 1
    assert_same(jacobian(x), jnp.diag(jnp.stack([2 * x[0], jnp.asarray(1.0), jnp.asarray(3.0)])))


def test_common_subexpressions_are_evaluated_once():
    names = primitives(scalarize(lambda x: jnp.sin(x) * jnp.cos(x) + jnp.sin(x[::-1])), random(0, 3))
    assert names.count("sin") == 3


def test_dead_code_does_not_count():
    def fn(x):
        (x[:, None] * jnp.ones((3, 40))).sum()
        return 2 * x

    assert primitives(scalarize(fn, max_ops=3), random(0, 3)).count("mul") == 3


def test_dtypes_are_kept():
    def fn(tree):
        return {
            "int32": tree["int32"] + 1,
            "int64": tree["int64"] * 2,
            "bool": ~tree["bool"],
            "float32": tree["float32"] / 3,
            "mixed": tree["int32"] + tree["float32"],
            "weak": 2,
            "none": None,
        }

    tree = {
        "int32": jnp.arange(3, dtype=jnp.int32),
        "int64": jnp.asarray(2**40),
        "bool": jnp.array([True, False]),
        "float32": jnp.ones(2, jnp.float32)[:1],
    }
    check(fn, tree)
    with jax.enable_x64(False):
        assert jax.jit(scalarize(jnp.sin))(np.ones(2, np.float32)).dtype == np.float32


class Body(eqx.Module):
    inertia: jax.Array
    label: str = eqx.field(static=True)

    def turned(self, x, gain=1.0):
        return Body(self.inertia * gain + x, self.label)


def test_modules_keywords_and_static_leaves():
    body = Body(random(0, 3), "top")
    out = jax.jit(lambda b, x: scalarize(Body.turned)(b, x, gain=2.0))(body, jnp.ones(3))
    assert out.label == "top"
    assert_same(out, body.turned(jnp.ones(3), gain=2.0))
    assert scalarize(lambda f, x: (f(x), "text"))(jnp.cos, jnp.zeros(2))[1] == "text"


def cube_root_newton(x):
    """Componentwise coupled Newton iteration with counter, flag and an entry that never changes."""

    def residual(z):
        return z**3 + 0.1 * jnp.roll(z, 1) - x

    def body(carry):
        z, _, k, done, fixed = carry
        delta = solve(jax.jacfwd(residual)(z), residual(z))
        return z - delta, jnp.max(jnp.abs(delta)), k + 1, done | (k > 30), fixed

    first = (jnp.ones(3), jnp.asarray(jnp.inf), jnp.asarray(0, jnp.int32), jnp.asarray(False), jnp.zeros(2))
    return lax.while_loop(lambda c: (c[1] > 1e-9) & ~c[3], body, first)


def test_newton_in_a_while_loop():
    x = jnp.array([1.0, 2.0, 3.0])
    check(lambda x: cube_root_newton(x)[::2], x, rtol=1e-14)  # the last correction is rounding noise
    z = jax.jit(scalarize(cube_root_newton))(x)[0]
    np.testing.assert_allclose(z**3 + 0.1 * jnp.roll(z, 1), x, rtol=1e-14)


def test_custom_root_and_custom_rules_are_inlined():
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, ct: (ct,))

    def fn(x):
        root = lax.custom_root(
            lambda z: z**3 - x,
            x,
            lambda f, z: lax.fori_loop(0, 60, lambda _, y: y - f(y) / (3 * y**2), z),
            lambda g, y: y / g(jnp.ones_like(y)),
        )
        return double(root), jax.jvp(lambda x: jnp.cbrt(x) * jax.nn.silu(x), (x,), (jnp.ones_like(x),))

    check(fn, jnp.array([1.5, 2.0]), rtol=1e-14)
    assert "custom_jvp_call" not in primitives(scalarize(fn), jnp.ones(2))


def test_inside_loops_vmap_and_derivatives():
    a = random(1, 3, 3)

    def step(x):
        return jnp.tanh(a @ x) + 0.1 * x[0]

    fast, x = scalarize(step), random(0, 3)
    assert_same(
        jax.jit(lambda x: lax.scan(lambda c, _: (fast(c),) * 2, x, length=9))(x),
        lax.scan(lambda c, _: (step(c),) * 2, x, length=9),
        1e-14,
    )
    assert_same(
        jax.jit(lambda x, n: lax.fori_loop(0, n, lambda _, c: fast(c), x))(x, 7),
        lax.fori_loop(0, 7, lambda _, c: step(c), x),
        1e-14,
    )
    xs = random(2, 5, 3)
    assert_same(jax.jit(jax.vmap(fast))(xs), jax.vmap(step)(xs), 1e-14)
    assert_same(jax.jit(jax.jacfwd(fast))(x), jax.jacfwd(step)(x), 1e-14)
    assert_same(jax.jit(jax.jacrev(fast))(x), jax.jacrev(step)(x), 1e-14)
    closed_over = jax.jit(lambda m, x: scalarize(lambda y: m @ y)(x))
    assert_same(closed_over(a, x), a @ x, 1e-14)


def test_vmap_of_a_while_loop():
    xs = 1 + jnp.abs(random(3, 4, 3))
    z, last, *rest = jax.jit(jax.vmap(scalarize(cube_root_newton)))(xs)
    expected, last_expected, *rest_expected = jax.vmap(cube_root_newton)(xs)
    assert_same((z, rest), (expected, rest_expected), 1e-14)
    np.testing.assert_allclose(last, last_expected, atol=1e-15)


def test_too_many_operations_leave_the_arrays():
    a = random(0, 12, 12)
    fn = lambda a: a @ a  # noqa: E731
    assert primitives(scalarize(fn, max_ops=200), a) == ["dot_general"]
    assert "dot_general" not in primitives(scalarize(fn, max_ops=5000), a)
    assert_same(scalarize(fn, max_ops=200)(a), fn(a))


def test_side_effects_leave_the_arrays():
    seen = []
    out = scalarize(lambda x: (jax.debug.callback(lambda v: seen.append(float(v)), x[0]), 2 * x)[1])(jnp.ones(2))
    jax.block_until_ready(out)
    jax.effects_barrier()
    assert seen == [1.0]


def loop(x, n):
    """A stepping loop that writes into a buffer too large to be taken apart."""

    def body(carry):
        i, x, buffer = carry
        x = cube_root_newton(x)[0] + jnp.sin(x)
        return i + 1, x, lax.dynamic_update_slice(buffer, x[None], (i, jnp.zeros_like(i)))

    return lax.while_loop(lambda c: c[0] < n, body, (jnp.asarray(0), x, jnp.zeros((WHOLE, 3))))


def test_whole_stepping_loop():
    x = jnp.array([1.0, 2.0, 3.0])
    check(loop, x, 20, rtol=1e-13)
    assert primitives(scalarize(loop), x, 20).count("dynamic_update_slice") == 1


@kept_whole
def outer_in_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, a: a + i * jnp.outer(x, x), jnp.zeros((3, 3)))[None, None, None]


def test_calls_and_arrays_that_are_kept_whole():
    """A value of rank 5 through a loop and a branch, made and used by functions that stay on arrays."""

    def fn(x):
        def body(carry):
            k, x, kept = carry
            kept = lax.cond(k == 1, lambda: outer_in_a_loop(x), lambda: kept)
            return k + 1, jnp.sin(x) + kept[0, 0, 0, 1], kept

        return lax.while_loop(lambda c: c[0] < 4, body, (jnp.asarray(0), x, jnp.zeros((1, 1, 1, 3, 3))))

    check(fn, random(0, 3), rtol=1e-14)
    names = primitives(scalarize(fn), random(0, 3))
    assert names.count("while") + names.count("scan") == 2
    assert "sin" in names

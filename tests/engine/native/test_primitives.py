"""Each primitive and array function, native against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from native_support import assert_same, check, evaluate, needs_compiler, random

from geonh.arguments.jaxprs import CALLS, called_jaxpr
from geonh.engine import native
from geonh.engine.native import products
from geonh.engine.native.elementwise import ELEMENTWISE
from geonh.engine.native.programs import mapping

pytestmark = needs_compiler

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
    jnp.isnan,
    jnp.cbrt,
    jax.nn.sigmoid,
    jax.scipy.special.erf,
    jax.scipy.special.erfc,
    lax.stop_gradient,
    lambda x: x**3,
    lambda x: x**-2,
    lambda x: x**0,
    lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: lax.rsqrt(x * x + 1),
    lambda x: jnp.log(jnp.abs(x)),
    lambda x: jnp.log1p(jnp.abs(x)),
    lambda x: jnp.arcsin(x / 9),
    lambda x: jnp.arccos(x / 9),
    lambda x: jnp.arccosh(2 + x * x),
    lambda x: jnp.arctanh(x / 20),  # from 0.39 on XLA loses digits
    lambda x: lax.lgamma(3 + lax.stop_gradient(x * x)),  # its zeros are 1 and 2
    lambda x: lax.reduce_precision(x, 11, 52),
    lambda x: checkpoint_name(x, "x"),
    lambda x: jnp.array(x, copy=True),
    lambda x: jnp.clip(x, -0.5, 0.5),
    lambda x: lax.clamp(-0.5, x, 0.5),
    lambda x: x.astype(jnp.int32),
    lambda x: x.astype(jnp.int64),
    lambda x: jnp.abs(x).astype(jnp.uint32),
    lambda x: x > 0,
    lambda x: (x > 0).astype(float) + (x > 0).astype(int),
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
    lambda x, y: jnp.nextafter(*lax.stop_gradient((x, y))),
    lambda x, y: (x > 0) & (y > 0),
    lambda x, y: (x > 0) | ~(y > 0),
    lambda x, y: jnp.logical_xor(x > 0, y > 0),
    lambda x, y: jnp.where(x > y, x, y),
    lambda x, y: (8 * x).astype(int) // 3 - (8 * y).astype(int) % 3,
]

INTEGER = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.floor_divide,
    jnp.mod,
    lax.div,
    lax.rem,
    jnp.bitwise_and,
    jnp.bitwise_or,
    jnp.bitwise_xor,
    jnp.maximum,
    jnp.minimum,
    jnp.less,
    jnp.greater_equal,
    lax.shift_left,
    lax.shift_right_logical,
    lax.shift_right_arithmetic,
    lambda x, y: jnp.abs(x),
    lambda x, y: jnp.sign(x),
    lambda x, y: -x,
    lambda x, y: ~x,
    lambda x, y: x**3,
    lambda x, y: x.astype(float) / 3,
    lambda x, y: x.astype(jnp.int16),
    lambda x, y: x.astype(jnp.uint8) // 3,
    lambda x, y: x.astype(bool),
    lambda x, y: lax.population_count(x),
    lambda x, y: lax.clz(x),
]

IN_ARRAYS = {"add_any", "copy_p", "real", "eq_to", "le_to", "lt_to"}
"""Elementwise primitives of gradients and sorts, which are tested among ``ARRAYS`` and in ``test_derivatives``."""

ARRAYS = {
    "reshaped in another order": lambda x, a: (
        lax.reshape(a, (9,), (1, 0)),
        lax.reshape(jnp.outer(x, a.ravel()).reshape(3, 3, 3), (9, 3), (2, 0, 1)),
        jnp.ravel(jnp.tile(a, (40, 2)), order="F"),
        jax.grad(lambda x: x @ jnp.prod(a + x, axis=1))(x),
    ),
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
        a[:, jnp.argmin(x)],
        lax.dynamic_slice(x, (jnp.argmax(x),), (2,)),
    ),
    "gather_batched": lambda x, a: jax.vmap(lambda r, i: r[i])(a, jnp.array([2, 0, 1])),
    "gather_batched_traced": lambda x, a: jax.vmap(lambda r, i: r[i])(a, jnp.argsort(x)),
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
    "scatter_traced": lambda x, a: (
        x.at[jnp.argmax(x)].set(0.0),
        a.at[jnp.argmin(x)].add(x),
        a.at[:, jnp.argmin(x)].set(x),
        x.at[jnp.argsort(x)].add(a[0]),
    ),
    "dynamic": lambda x, a: (
        lax.dynamic_slice(a, (1, 5), (2, 2)),
        lax.dynamic_update_slice(a, a[:2, :2], (1, -4)),
    ),
    "diag": lambda x, a: (jnp.diag(a), jnp.diag(x), jnp.trace(a), jnp.tril(a), jnp.triu(a, 1)),
    "products": lambda x, a: (a @ x, x @ a, a @ a, x @ x, jnp.outer(x, x), jnp.cross(x, x[::-1]), jnp.kron(a, a)),
    "einsum": lambda x, a: (jnp.einsum("ij,kj,k->i", a, a, x), jnp.einsum("bi,bj->bij", a, a), jnp.tensordot(a, a)),
    "convolutions": lambda x, a: (
        jnp.convolve(x, jnp.ravel(a)),
        jnp.convolve(jnp.ravel(a), x, mode="same"),
        jnp.correlate(jnp.ravel(a), x, mode="valid"),
        jax.scipy.signal.convolve2d(a, a),
        jax.vmap(jnp.convolve)(a, a.T),
        jax.grad(lambda x: jnp.sum(jnp.convolve(x, a[0]) ** 3))(x),
        jax.hessian(lambda a: jnp.sum(jnp.convolve(a[0], a[1]) ** 2))(a),
    ),
    "reductions": lambda x, a: (a.sum(), a.sum(0), a.prod(1), a.max(), a.min(0), jnp.linalg.norm(a), a.mean(), a.std()),
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
    "pad": lambda x, a: (jnp.pad(a, 1), lax.pad(x, 0.5, [(2, -1, 1)]), lax.pad(a, 0.0, [(-1, 0, 0), (0, 1, 2)])),
    "iota": lambda x, a: (
        jnp.arange(3) * x,
        jnp.eye(3) + a,
        jnp.linspace(0.0, x[0], 4),
        jnp.arange(4, dtype=jnp.int32),
    ),
    "empty": lambda x, a: (x[:0], a[:0].sum(0), a[:0].max(0, initial=-1.0), jnp.zeros((0, 3)) @ x),
    "solve": lambda x, a: (jnp.linalg.solve(a, x), jnp.linalg.solve(a, a.T), jnp.linalg.inv(a), jnp.linalg.det(a)),
    "solve_transposed": lambda x, a: jax.vjp(lambda b: jnp.linalg.solve(a, b), x)[1](x),
    "solve_batched": lambda x, a: jnp.linalg.solve(jnp.stack([a, a.T]), jnp.stack([x, x])[..., None]),
    "slogdet": lambda x, a: jnp.linalg.slogdet(a),
    "cholesky": lambda x, a: (
        jnp.linalg.cholesky(a @ a.T + jnp.eye(3)),
        jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a @ a.T + jnp.eye(3)), x),
        jnp.linalg.cholesky(-a @ a.T),
    ),
    "triangular": lambda x, a: (
        jax.scipy.linalg.solve_triangular(a, x),
        jax.scipy.linalg.solve_triangular(a, x, lower=True, trans=1),
        lax.linalg.triangular_solve(a, a.T, left_side=False, lower=True),
        lax.linalg.triangular_solve(a, a.T, left_side=False, transpose_a=True, unit_diagonal=True),
    ),
    "sort": lambda x, a: (jnp.sort(x), jnp.argsort(a, axis=0), lax.sort((a[0], x, a[1]), num_keys=2), jnp.median(x)),
    "interpolation": lambda x, a: (
        jnp.interp(x, jnp.linspace(-2.0, 2.0, 9), jnp.linspace(-2.0, 2.0, 9) ** 2),
        jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x),
        jnp.polyval(a[0], x),
    ),
    "norms": lambda x, a: (
        jnp.linalg.norm(x),
        jnp.linalg.norm(a, axis=0),
        jnp.linalg.norm(x, 1),
        jnp.linalg.norm(a, jnp.inf),
    ),
    "jacfwd": lambda x, a: jax.jacfwd(lambda y: jnp.sin(a @ y) * y[0])(x),
    "jacrev": lambda x, a: jax.jacrev(lambda y: jnp.sin(a @ y) * y[0])(x),
    "hessian": lambda x, a: jax.hessian(lambda y: jnp.sum(jnp.tanh(a @ y) ** 3))(x),
    "solve_gradient": lambda x, a: jax.grad(lambda a: jnp.sum(jnp.linalg.solve(a, x) ** 2))(a),
    "vmap": lambda x, a: jax.vmap(lambda r: jnp.cross(r, x) / (1 + r @ r))(a),
    "nested": lambda x, a: jax.jit(jax.checkpoint(lambda y: jax.nn.softplus(jax.nn.relu(a @ y))))(x),
}


def names(jaxpr):
    """Names of the primitives of a jaxpr, those of its calls included."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        if eqn.primitive.name in CALLS:
            yield from names(called_jaxpr(eqn.params).jaxpr)


def test_every_elementwise_primitive_is_in_a_list():
    x, n = np.ones(2), np.ones(2, int)
    lists = [(f, (x,)) for f in UNARY] + [(f, (x, x)) for f in BINARY] + [(f, (n, n)) for f in INTEGER]
    tested = {name for f, args in lists for name in names(jax.make_jaxpr(f)(*args).jaxpr)}
    assert not set(ELEMENTWISE) - tested - IN_ARRAYS, "add a function that uses it to UNARY, BINARY or INTEGER"


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_unary(seed):
    with jax.enable_x64(True):
        check(lambda x: [f(x) for f in UNARY], random(seed, 2, 2))


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_binary(seed):
    with jax.enable_x64(True):
        x, y = random(seed, 2, 2), random(seed + 1, 2, 2)
        y[0, 0] = x[0, 0]
        check(lambda x, y: [f(x, y) for f in BINARY], x, y)


EXTREMES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 0.5, 2.5, -1e19, 3e9])


@pytest.mark.slow
def test_unary_at_the_extremes():
    check(lambda x: [f(x) for f in UNARY if f is not jnp.cbrt], EXTREMES)
    # XLA without its fusion emitters loses a digit of large cubic roots
    np.testing.assert_allclose(evaluate(jnp.cbrt, EXTREMES), np.cbrt(EXTREMES), rtol=4e-16)


def test_inverse_hyperbolic_functions_where_those_of_xla_lose_digits():
    small = np.logspace(-9, 1, 41)
    both = np.concatenate([small / 11, -small / 11, EXTREMES])
    for function, exact, x in ((jnp.arccosh, np.arccosh, 1 + small), (jnp.arctanh, np.arctanh, both)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(evaluate(function, x), exact(x), rtol=1e-15)


@pytest.mark.slow
def test_binary_at_the_extremes():
    x, y = (a.ravel() for a in np.meshgrid(EXTREMES, EXTREMES))
    check(lambda x, y: [f(x, y) for f in BINARY], x, y)


def test_nan_through_extremes_is_nan():
    out = evaluate(lambda x: (jnp.max(x), jnp.min(x), jnp.argmax(x), jnp.sort(x)), np.array([1.0, np.nan, 3.0]))
    assert np.isnan(out[0])
    assert np.isnan(out[1])
    assert out[2] == 1
    np.testing.assert_array_equal(out[3], [1.0, 3.0, np.nan])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.int8])
@pytest.mark.quick("uint64")
def test_integers(dtype):
    info = np.iinfo(dtype)
    some = np.array([0, 1, 3, info.max, info.min, info.max - 1, 40], dtype)
    x, y = (a.ravel() for a in np.meshgrid(some, some))
    check(lambda x, y: [f(x, y) for f in INTEGER], x, y)


@pytest.mark.parametrize("number", range(len(UNARY)))
def test_known_arguments_are_folded(number):
    x = random(number, 3)
    folded = evaluate(lambda y: (UNARY[number](jnp.asarray(x)), y), np.ones(1))[0]
    assert_same(folded, UNARY[number](jnp.asarray(x)))


def test_known_integers_are_folded():
    x, y = np.array([7, -7, 7, -7, 5, 2**31 - 1], np.int32), np.array([3, 3, -3, -3, 0, -1], np.int32)
    folded = evaluate(lambda z: ([f(jnp.asarray(x), jnp.asarray(y)) for f in INTEGER], z), np.ones(1))[0]
    assert_same(folded, [f(jnp.asarray(x), jnp.asarray(y)) for f in INTEGER])


@pytest.mark.parametrize("name", ARRAYS)
def test_array_functions(name):
    for seed in range(2):
        check(ARRAYS[name], random(seed, 3), random(seed + 10, 3, 3), rtol=2e-14)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.quick("2-1")
def test_convolutions_of_all_options(axes, groups):
    draws = np.random.default_rng(axes + 10 * groups)
    for _ in range(4):
        kernel, strides, left, right = draws.integers(1, 3, (4, axes)).tolist()
        padding = draws.integers(-1, 3, (axes, 2)).tolist()
        specs = [draws.permutation(axes + 2).tolist() for _ in range(3)]
        sizes = [2, 2 * groups, *draws.integers(4, 6, axes)], [groups, 2, *kernel]
        x, y = (draws.normal(size=np.array(size)[np.argsort(spec)]) for size, spec in zip(sizes, specs, strict=False))
        numbers = lax.ConvDimensionNumbers(*map(tuple, specs))
        options = {"dimension_numbers": numbers, "feature_group_count": groups}

        def convolved(x, y, strides=strides, padding=padding, left=left, right=right, options=options):
            return lax.conv_general_dilated(x, y, strides, padding, left, right, **options)

        check(convolved, x, y, rtol=1e-13)


@pytest.mark.parametrize("name", ["products", "einsum", "norms", "empty", "hessian", "vmap"])
def test_products_in_loops(name, monkeypatch):
    function, x, a = ARRAYS[name], random(0, 3), random(1, 3, 3)
    straight = evaluate(function, x, a)
    monkeypatch.setattr(products, "PRODUCTS", 0)
    jax.tree.map(np.testing.assert_array_equal, evaluate(function, x, a), straight)


LARGE = {
    "product": lambda a, b: a @ b.T,
    "transposed": lambda a, b: a.T @ b,
    "blocks": lambda a, b: jnp.einsum("ijk,ljk->jil", a.reshape(8, 4, 7), jnp.cos(b).reshape(8, 4, 7)),
    "integers": lambda a, b: (9 * a).astype(int) @ (9 * b).astype(int).T,
    "zeros": lambda a, b: jnp.where(a > 0, a, 0.0) @ jnp.eye(28),
    "outer": lambda a, b: jnp.sum(a[:, None] * b, axis=(0, 2)),
    "least": lambda a, b: jnp.max(a[:, None] - b, axis=1),
    "long": lambda a, b: (jnp.sin(a).reshape(1, -1) @ jnp.tile(b, (1, 5)).reshape(-1, 5), jnp.sum(jnp.tile(a, 4))),
    "sums": lambda a, b: [
        reduce(jnp.tile(jnp.where(a > 0, a, b), (3, 1)).reshape(3, 2, 16, 7), axes)
        for axes in ((0,), (3,), (0, 2), (1, 3), (0, 1, 2, 3))
        for reduce in (jnp.sum, jnp.max, lambda x, axes: jnp.any(x > 2, axes))
    ],
    "slopes": lambda a, b: jax.jacfwd(lambda x: jnp.cos(x @ a.T) @ b)(b[0]),
}


@pytest.mark.quick("uint8-shape2", "bool-shape0", "int64-shape2", "uint8-shape0")
@pytest.mark.parametrize("shape", [(2, 3), (700,), (0, 3)])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_])
def test_bits_of_many(kind, shape):
    x = np.random.default_rng(0).integers(0, 16, shape).astype(kind)
    all_ones = np.invert(np.zeros((), kind))
    check(lambda x: lax.reduce(x, all_ones, lax.bitwise_and, (0,)), x)
    check(lambda x: [lax.reduce(x, kind(0), f, (0,)) for f in (lax.bitwise_or, lax.bitwise_xor)], x)


@pytest.mark.quick("transposed", "least", "outer", "product", "integers", "zeros")
@pytest.mark.parametrize("name", LARGE)
def test_large_products_and_sums(name):
    check(LARGE[name], random(0, 8, 28), random(1, 8, 28), rtol=2e-14)


REPEATED = {
    "where": lambda x, w: jnp.where(w > 0, x[0], x[1]) @ w,
    "full": lambda x, w: jnp.sin(jnp.full(w.shape, x[1]) * w),
    "rows": lambda x, w: jnp.broadcast_to(jnp.sin(x), (700, *x.shape))[:: len(x)].T @ jnp.ones(700 // len(x) + 1),
    "padded": lambda x, w: jnp.pad(x, (300, 400), mode="edge") * 2.0,
    "slope": lambda x, w: jax.grad(lambda x: jnp.mean(jnp.sin(x[0] * w)) + jnp.max(w) * x[1])(x),
}


@pytest.mark.quick("padded", "rows", "full")
@pytest.mark.parametrize("name", REPEATED)
def test_a_number_that_is_repeated_is_written_once(name):
    """Each entry was a line, in one block, and LLVM took a time quadratic in them: 87 s for 8000."""

    def lines(n):
        w = random(1, n)
        check(REPEATED[name], x, w, rtol=2e-14)
        return mapping(jax.make_jaxpr(lambda x: REPEATED[name](x, w))(x), 0, fma=True).text.count("\n")

    x = random(0, 3)
    assert lines(3000) < lines(1500) + 100


@pytest.mark.parametrize("n", [1, 2, 5, 9, 12])
@pytest.mark.quick("1")
def test_solve_with_pivoting(n):
    a, b = random(n, n, n), random(n + 1, n)
    a[np.arange(n), np.arange(n)] = 0.0 if n > 1 else 2.0
    check(lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.det(a), lax.linalg.lu(a)), a, b, rtol=1e-12)


def test_singular_matrices():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    check(lambda a: (jnp.linalg.solve(a, a[0]), jnp.linalg.det(a)), a)


@pytest.mark.slow
def test_indices_out_of_bounds():
    def read(x, i):
        return (
            x[i],
            x.at[i].get(mode="clip"),
            x.at[i].get(mode="fill"),
            x.at[i].set(9.0),
            x.at[i].set(9.0, mode="clip"),
            x.at[i].add(x[0], mode="drop"),
            lax.dynamic_slice(x, (i,), (2,)),
            lax.dynamic_update_slice(x, x[:2], (i,)),
        )

    for i in (-100, -6, -5, -1, 0, 4, 5, 6):
        check(read, np.arange(5.0), np.int64(i))
        check(lambda i: read(jnp.arange(5.0), i), np.int32(i))


def test_what_cannot_be_lowered_is_named():
    for function, word in (
        (lambda x: jnp.linalg.svd(x)[1], "svd"),
        (lambda x: x.astype(jnp.float32), "float32"),
        (lambda x: jnp.fft.fft(x), "complex"),
        (lambda x: (jax.debug.print("{}", x), x)[1], "effect"),
        (lambda x: jax.random.normal(jax.random.key(0), (3,)) + x[0], "random"),
    ):
        with pytest.raises(native.NotLowered) as caught:
            evaluate(function, np.ones((3, 3)))
        assert word in str(caught.value)

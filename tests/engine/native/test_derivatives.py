"""Jacobians that the engine writes, against JAX's, on functions, loops, branches, calls and random programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_support import evaluate, needs_compiler, random
from test_control import CONTROL, programs, run
from test_primitives import BINARY, UNARY

from geonh.algebra.linear import solve, solve_spd
from geonh.engine import jacobian
from geonh.engine.dependence import is_affine
from geonh.engine.native import loops

pytestmark = needs_compiler


def reals(tree):
    """All real numbers of a pytree in one vector."""
    leaves = [jnp.ravel(x) for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.concatenate([jnp.zeros(1), *leaves])


def check(function, x, *others, rtol=1e-13):
    others = tuple(jnp.asarray(other) for other in others)
    expected = jax.jacfwd(lambda x: reals(function(x, *others)))(x)
    for together in (0, 8):
        result = evaluate(
            lambda x, *others, way=together: jacobian(lambda x: reals(function(x, *others)), x, together=way),
            x,
            *others,
        )
        np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
        good = np.isfinite(expected)
        scale = np.abs(expected[good]).max(initial=1e-300)
        rounding = 1e-15  # a slope 1 − tanh² may be a small part of what it is computed from
        np.testing.assert_allclose(result[good], expected[good], rtol=0, atol=rtol * scale + rounding)


@jax.custom_jvp
def with_a_rule(x):
    return jnp.sin(x)


with_a_rule.defjvp(lambda x, t: (with_a_rule(x[0]), 2 * jnp.cos(x[0]) * t[0]))

FUNCTIONS = {
    "sums": lambda x, y, a: jnp.concatenate([x + y, y - x, -x, 2 * x - 3, x[::-1], jnp.cumsum(x), x.sum()[None]]),
    "products": lambda x, y, a: (x * y, x * x * x, a @ x, x @ a @ x, jnp.outer(x, y) @ x, jnp.cross(x, a[0])),
    "quotients": lambda x, y, a: (
        x / y,
        y / x,
        x / (1 + x * x),
        1 / x,
        x**2,
        x**-3,
        x**5,
        x**0,
        (x * x) ** 1.5,
        2.0**x,
        y**x,
    ),
    "trigonometry": lambda x, y, a: (
        *(jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan(x), jnp.arctan2(x, y), jnp.arctan2(y, x)),
        *(jnp.sinc(x), jnp.arcsin(x / 9), jnp.arccos(x / 9)),
    ),
    "exponentials": lambda x, y, a: (
        *(jnp.exp(x), jnp.expm1(x), jnp.log(x * x), jnp.log1p(x * x), jnp.tanh(x), jnp.sinh(x), jnp.cosh(x)),
        *(jnp.arcsinh(x), jax.nn.sigmoid(x), jnp.hypot(x, y), jnp.logaddexp(x, y), jax.lax.erf(x)),
    ),
    "roots": lambda x, y, a: (jnp.sqrt(x * x + 1), jax.lax.rsqrt(x * x + 1), jnp.cbrt(x), jnp.linalg.norm(x)),
    "choices": lambda x, y, a: (
        *(
            jnp.where(x > 0, x * x, jnp.sin(x)),
            jnp.maximum(x, y),
            jnp.minimum(x, 0.0),
            jnp.abs(x),
            jnp.clip(x, -0.5, 0.5),
        ),
        *(jnp.max(x), jnp.sort(x), jnp.floor(x), jnp.sign(x), jnp.mod(x, 0.7), jnp.prod(x), x[jnp.argmax(x)]),
    ),
    "ties": lambda x, y, a: (jnp.maximum(x, x), jnp.maximum(x - x, 0.0), jnp.abs(x - x), jnp.minimum(x, x)),
    "moves": lambda x, y, a: (
        *(x[jnp.array([2, 0, 0, 1])], x.at[1].set(x[0]), x.at[1].add(x[2] ** 2), jnp.roll(x, 1), jnp.pad(x, 2)),
        *(jnp.split(x, [1, 2]), jnp.stack([x, y, x]).T, jnp.tile(x, 3), x[:, None] * y, jnp.flip(x), jnp.diag(x)),
        *(jax.lax.dynamic_slice(x, (jnp.argmax(y),), (2,)), jnp.zeros(5).at[jnp.argmin(x)].set(x[1])),
    ),
    "algebra": lambda x, y, a: (
        *(solve(4 * jnp.eye(3) + jnp.outer(x, y), y), solve(4 * jnp.eye(3) + a / 2, jnp.outer(x, x))),
        *(solve_spd(jnp.outer(x, x) + 2 * jnp.eye(3), y * x), jnp.linalg.solve(4 * jnp.eye(3) + jnp.diag(x), y)),
        *(jnp.linalg.inv(3 * jnp.eye(3) + jnp.outer(y, x)), jnp.linalg.det(a + jnp.diag(x))),
        jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(3)),
    ),
    "calls": lambda x, y, a: (
        *(
            jax.jit(lambda x: jnp.sin(x) * y)(x),
            with_a_rule(x),
            jax.lax.stop_gradient(x) * x,
            jax.checkpoint(jnp.sin)(x),
        ),
        *(jax.grad(lambda x: jnp.sum(jnp.sin(x) * a @ x))(x), jax.hessian(lambda x: jnp.prod(jnp.cos(x)))(x)),
        *(jacobian(lambda z: z * z @ a, x), jacobian(jax.grad(lambda z: jnp.prod(jnp.sin(z))), x)),
    ),
    "constant": lambda x, y, a: (y, jnp.ones(2), x.size * y),
    "large": lambda x, y, a: jnp.tile(jnp.outer(x, x).ravel(), 90)[::100] * 2,
}


@pytest.mark.quick("constant", "large", "sums", "roots", "ties", "products", "quotients")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(FUNCTIONS[name], random(0, 3), random(5, 3) ** 2 + 0.1, random(9, 3, 3))


@pytest.mark.parametrize("number", range(len(UNARY)))
def test_unary_primitives(number):
    check(UNARY[number], random(number, 3))


@pytest.mark.parametrize("number", range(len(BINARY)))
def test_binary_primitives(number):
    check(lambda x, y: (BINARY[number](x, y), BINARY[number](y, x)), random(number, 3), random(number + 1, 3))


@pytest.mark.parametrize("name", [n for n in CONTROL if n not in ("custom_root", "fori_unknown_length")])
def test_loops_and_branches(name, monkeypatch):
    monkeypatch.setattr(loops, "UNROLLED", 5)
    check(CONTROL[name], random(1, 3), random(2, 3, 3), rtol=1e-12)


def test_loops_of_unknown_length():
    check(CONTROL["fori_unknown_length"], random(1, 3), random(2, 3, 3))


@settings(max_examples=8, deadline=None)
@given(programs(), st.integers(0, 99))
def test_random_programs(program, seed):
    check(lambda x, y: run(program, x, y, 0.3), random(seed + 1, 3), random(seed, 3), rtol=1e-11)


@settings(max_examples=6, deadline=None)
@given(programs(), st.integers(0, 99))
def test_columns_side_by_side_have_the_bits_of_columns_one_by_one(program, seed):
    def slope(width):
        return lambda x, y: jacobian(lambda x: reals(run(program, x, y, 0.3)), x, together=width)

    result = [evaluate(slope(width), random(seed + 1, 3), random(seed, 3)) for width in (1, 2, 8)]
    np.testing.assert_array_equal(result[1:], [result[0]] * 2)


def test_many_columns():
    a = random(3, 19, 19)
    check(lambda x: jnp.sin(a @ x) * jax.lax.fori_loop(0, 30, lambda i, y: jnp.tanh(y + a[0]), x), random(4, 19))


AFFINE = {
    "sums": lambda x, c: jnp.concatenate([2 * x + c, jnp.cumsum(x)[::-1], x[jnp.array([1, 1, 0])]]),
    "products with constants": lambda x, c: jnp.outer(c, c) @ x / c + jnp.where(c > 0, x, -x),
    "solutions": lambda x, c: solve(jnp.outer(c, c) + 3 * jnp.eye(3), x),
    "solutions of JAX": lambda x, c: jnp.linalg.solve(jnp.outer(c, c) + 3 * jnp.eye(3), x),
    "loops": lambda x, c: jax.lax.fori_loop(0, 4, lambda i, y: y + i * x, c),
    "calls": lambda x, c: jax.jit(lambda x: 3 * x)(x) - jax.lax.stop_gradient(x**2),
    "branches": lambda x, c: jax.lax.cond(c[0] > 0, lambda x: 2 * x, lambda x: x + c, x),
}
OTHERS = {
    "squares": lambda x, c: x * x,
    "quotients": lambda x, c: c / x,
    "choices": lambda x, c: jnp.where(x > 0, c, 0.0),
    "solutions": lambda x, c: solve(jnp.diag(x), c),
    "solutions of JAX": lambda x, c: jnp.linalg.solve(jnp.diag(x), c),
    "loops": lambda x, c: jax.lax.fori_loop(0, 2, lambda i, y: y * x, c),
    "a carried product": lambda x, c: jax.lax.fori_loop(0, 2, lambda i, y: (y[1], y[0] * y[0]), (x, c))[1],
    "calls": lambda x, c: jax.jit(jnp.sin)(x),
    "loops of unknown length": lambda x, c: jax.lax.while_loop(lambda y: y[0] < 3, lambda y: y + 1.0, x),
}


@pytest.mark.parametrize("name", AFFINE)
def test_affine_functions_are_known(name):
    assert is_affine(lambda x: AFFINE[name](x, jnp.arange(1.0, 4.0)), jnp.ones(3))


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_not_taken_for_affine(name):
    assert not is_affine(lambda x: OTHERS[name](x, jnp.arange(1.0, 4.0)), jnp.ones(3))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_number_that_moves_is_broadcast_to_the_sum_with_an_array_that_does_not(name):
    """JAX leaves the number as it is in sums with arrays; its tangent has the shape of the sum all the same."""
    operation, A = {"add": jnp.add, "sub": jnp.subtract}[name], np.arange(6.0).reshape(2, 3)
    for function in (lambda x, y: operation(A, x @ x), lambda x, y: operation(x @ x, A)):
        check(lambda x, y, of=function: jnp.sin(of(x, y)), random(1, 3), random(2, 3))

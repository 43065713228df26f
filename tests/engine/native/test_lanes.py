"""Many members side by side, each against its own single run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from native_support import needs_compiler, random

from geonh.engine import jacobian, native

pytestmark = needs_compiler


def step(params, state):
    """A loop of different length in each member, a branch, traced indices, a solve with pivoting, a map, a Jacobian."""
    x, kept = state["x"], state["kept"]
    y = lax.while_loop(lambda y: jnp.sum(y * y) > 0.5, lambda y: 0.7 * y + 0.01 * params["b"], x + params["h"])
    y = lax.cond(y[0] > 0, lambda y: lax.fori_loop(0, 3, lambda i, z: jnp.sin(z) + i * kept[i], y), lambda y: -y, y)
    i = jnp.argmax(y)
    kept = kept.at[i].set(y[i]).at[(i + 1) % 3].add(0.1)
    z = jnp.linalg.solve(params["A"] + 0.1 * jnp.outer(y, y), kept)
    table = jnp.sin(lax.fori_loop(0, 12, lambda i, t: t.at[i].set(z[i % 3] + t[i - 1]), state["table"]))
    rows = jnp.stack([z, y, jnp.ones(3)]), jnp.ones(3)
    z = z + lax.map(lambda at: jnp.tanh(jnp.outer(at[0], y * at[1]) @ jnp.sin(params["A"] @ y)) + at[1], rows).sum(0)
    slope = jacobian(lambda z: jnp.sin(params["A"] @ z + y) * jnp.where(z > 0, z, params["h"]), z, together=8)
    new = {"x": jnp.tanh(z + slope @ y) + 0.1 * y, "kept": kept, "k": state["k"] + 1, "table": 0.5 * table}
    return new, jnp.where((new["k"] > params["end"]) | jnp.isnan(z[0]), 3, 0).astype(jnp.int32)


def row(params, state):
    return jnp.concatenate([state["x"], state["kept"], state["table"][:2], state["k"][None].astype(float)])


def starts(n):
    return {"x": random(1, n, 3), "kept": random(2, n, 3), "k": np.zeros(n, np.int64), "table": random(3, n, 144)}


def parameters(n):
    params = {"A": random(4, 3, 3) + np.eye(3), "b": random(5, n, 3), "h": np.linspace(0.01, 1.0, n), "end": 10**9}
    return params, {"A": False, "b": True, "h": True, "end": False}


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("n", [1, 7, 19])
@pytest.mark.quick("19-2")
def test_each_member_gets_the_bits_of_its_own_run(width, n):
    params, varies = parameters(n)
    states = starts(n)
    member = lambda i: jax.tree.map(lambda x, v: x[i] if v else x, params, varies)  # noqa: E731
    first = jax.tree.map(lambda x: x[0], states)
    lanes = native.Lanes(step, row, member(0), first, varies, width=width)
    buffer = lanes.buffer(n, 6)
    result = lanes.run(params, states, 6, 5, buffer, threads=2)
    loop = native.Loop(step, row, member(0), first)
    for i in range(n):
        rows = np.zeros((6, loop.width))
        state, status, _ = loop.run(member(i), jax.tree.map(lambda x, i=i: x[i], states), 6, 5, rows)
        np.testing.assert_array_equal(lanes.rows(buffer, i), rows)
        assert result.status[i] == status == 0
        assert result.n_steps[i] == 30
        for name, value in state.items():
            np.testing.assert_array_equal(result.state[name][i], value)


@pytest.mark.quick("7")
@pytest.mark.parametrize("amount", [7, 10**6])  # steps asked for at once; where there are fewer, of several blocks
def test_failures_are_masked(amount):
    n = 43
    params, varies = parameters(n)
    params["end"], varies["end"] = np.where(np.arange(n) % 3, 10**9, 4 * np.arange(n) + 4), True
    states = starts(n)
    states["x"][5] = np.nan
    member = lambda i: jax.tree.map(lambda x, v: x[i] if v else x, params, varies)  # noqa: E731
    first = jax.tree.map(lambda x: x[0], states)
    lanes, loop = native.Lanes(step, row, member(0), first, varies, width=4), native.Loop(step, row, member(0), first)
    buffer, lanes._known = lanes.buffer(n, 150), amount
    result = lanes.run(params, states, 150, 1, buffer, threads=1)
    for i in range(n):
        rows = np.zeros((150, loop.width))
        state, status, n_saved = loop.run(member(i), jax.tree.map(lambda x, i=i: x[i], states), 150, 1, rows)
        assert (result.status[i], result.n_steps[i]) == (status, n_saved)
        np.testing.assert_array_equal(lanes.rows(buffer, i)[:n_saved], rows[:n_saved])
        np.testing.assert_array_equal(result.state["x"][i], state["x"])
    assert result.status[5] == 3
    assert result.n_steps[5] == 0
    assert result.n_steps[9] == 40
    assert np.any((result.n_steps > 64) & (result.n_steps < 150) & (result.status == 3))


def test_wrong_buffer():
    params, varies = parameters(3)
    states = starts(3)
    lanes = native.Lanes(
        step, row, parameters(1)[0] | {"b": np.ones(3), "h": 0.1}, jax.tree.map(lambda x: x[0], states), varies
    )
    with pytest.raises(ValueError, match="buffer"):
        lanes.run(params, states, 5, 1, np.zeros((3, 5, lanes.row_size)))
    shape = lanes.buffer(3, 5).shape
    beside = np.zeros(lanes.buffer(3, 6).size)
    first = -beside.ctypes.data % 64 // 8 + 1
    with pytest.raises(ValueError, match="multiple of 64"):
        lanes.run(params, states, 5, 1, beside[first : first + np.prod(shape)].reshape(shape))


def test_rows_of_nothing():
    """As of gradients, which ask for the last state alone."""
    params, varies = parameters(3)
    states = starts(3)
    one = params | {"b": params["b"][0], "h": 0.1}
    lanes = native.Lanes(step, lambda *_: jnp.zeros(0), one, jax.tree.map(lambda x: x[0], states), varies)
    anywhere = np.zeros(16)
    for first in range(8):
        empty = anywhere[first : first + 1][:0].reshape(lanes.buffer(3, 5).shape)
        assert not lanes.run(params, states, 5, 1, empty).status.any()

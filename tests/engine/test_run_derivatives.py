"""Runs as operations: the derivative backwards is of the solutions that the run found, whatever saved iterations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geonh.engine.evaluation import Parts
from geonh.engine.runs import Steps


def first(tree, x, near):
    return jnp.append(x, 0.0)


def step(tree, node, quick, near):
    """One of two solutions, by how many steps are known; a step's own equations are solved by both."""
    (a,) = tree
    branch = jnp.where(quick[0] % 3 == 0, 1.0, -1.0)
    return node + branch * (0.1 + 0.05 * jnp.sin(a * node)), quick + 1.0, jnp.asarray(0)


@pytest.mark.parametrize(("n_nodes", "stride"), [(1, 1), (8, 1), (2501, 1), (40, 61), (3, 2501)])
def test_the_derivative_is_that_of_the_solutions_that_were_found(n_nodes, stride):
    a, x = jnp.asarray(0.7), jnp.array([0.3, -0.4])
    _, parts = Parts.of((np.asarray(a),))
    run = Steps(first, step, parts, n_nodes, stride, 3, 1, False)

    def end(a, x):
        return jnp.sum(jnp.sin(run([a], x)[:, :2])) / n_nodes

    _, forward = jax.jvp(end, (a, x), (jnp.asarray(1.0), jnp.array([0.5, 0.2])))
    slope, slopes = jax.jit(jax.grad(end, (0, 1)))(a, x)
    np.testing.assert_allclose(slope + slopes @ np.array([0.5, 0.2]), forward, rtol=1e-10)


def test_members_have_their_own():
    x = jnp.array([[0.3, -0.4], [1.0, 0.2], [-0.5, 0.8]])
    _, parts = Parts.of((np.asarray(0.7),))
    run = Steps(first, step, parts, 9, 1, 3, 1, False)

    def end(x):
        return jnp.sum(jnp.cos(run([jnp.asarray(0.7)], x)[-1, :2]))

    many = jax.vmap(jax.grad(end))(x)
    np.testing.assert_allclose(many, np.stack([jax.grad(end)(one) for one in x]), rtol=1e-12)


def failing(tree, node, quick, near):
    """The same, failing at its number 250 whatever is known; the last entry counts the steps."""
    after, quick, _ = step(tree, node[:2], quick, near)
    return jnp.append(after, node[2] + 1), quick, jnp.where(node[2] == 250, 9, 0)


def failing_when_done_again(tree, node, quick, near):
    """Failing at every hundredth step if nothing is known, which is not so in the run."""
    after = node[:2] + 0.1 + 0.05 * jnp.sin(tree[0] * node[:2])
    fails = (node[2] % 100 == 0) & (node[2] > 0) & (quick[0] == 0)
    return jnp.append(after, node[2] + 1), quick + 1.0, jnp.where(fails, 9, 0)


@pytest.mark.parametrize("function", [failing, failing_when_done_again])
@pytest.mark.parametrize(("n_nodes", "stride"), [(2501, 1), (10, 100), (3, 2501)])
def test_where_steps_fail_the_derivative_is_that_of_the_nodes_before(function, n_nodes, stride):
    a, x = jnp.asarray(0.7), jnp.array([0.3, -0.4, 0.0])
    _, parts = Parts.of((np.asarray(a),))
    run = Steps(first, function, parts, n_nodes, stride, 4, 1, False)

    def end(a, x):
        return jnp.sum(jnp.sin(run([a], x)[:, :2])) / n_nodes

    _, forward = jax.jvp(end, (a, x), (jnp.asarray(1.0), jnp.ones(3)))
    slope, slopes = jax.jit(jax.grad(end, (0, 1)))(a, x)
    np.testing.assert_allclose(slope + jnp.sum(slopes[:2]), forward, rtol=1e-10)

"""Symmetries of systems with known ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from momentum_systems import ball, inertia, turning

import geonh as gn
from geonh.groups import SE2, SO3, Translations
from geonh.mechanics.symmetry import horizontal_symmetries, symmetries

GRAVITY = np.array([0.0, 0.0, 1.0])


@pytest.mark.slow
def test_left_invariant_systems_have_all_left_translations_as_symmetries():
    sleigh = gn.systems.chaplygin_sleigh()
    np.testing.assert_array_equal(symmetries(sleigh), np.eye(3))
    assert horizontal_symmetries(sleigh).shape == (0, 3)
    suslov = gn.System(
        SO3(),
        metric=inertia(np.random.default_rng(0), 3),
        distribution=gn.Distribution(forms=[[0.0, 0.6, 0.8]]),
    )
    np.testing.assert_array_equal(symmetries(suslov), np.eye(3))  # base="group" does not declare them
    assert horizontal_symmetries(suslov).shape == (0, 3)


@pytest.mark.parametrize("base", ["group", gn.geometry.AdvectedVector(SO3(), GRAVITY)], ids=["group", "advected"])
def test_veselova_turns_about_the_vertical_and_has_two_horizontal_symmetries(base):
    def vertical(x):
        return x[2][None] if x.ndim == 2 else x[None]

    veselova = gn.System(
        SO3(), metric=inertia(np.random.default_rng(3), 3), distribution=gn.Distribution(vertical), base=base
    )
    np.testing.assert_allclose(symmetries(veselova), [[0, 0, 1]], atol=1e-14)
    np.testing.assert_allclose(horizontal_symmetries(veselova), [[1, 0, 0], [0, 1, 0]], atol=1e-14)


@pytest.mark.slow
def test_rolling_ball_has_the_translations_and_three_horizontal_symmetries():
    r = 0.5
    system = ball(inertia(np.random.default_rng(4), 3), r=r)
    np.testing.assert_allclose(symmetries(system), np.eye(5)[:2], atol=1e-14)
    expected = [[1, 0, 0, 1 / r, 0], [0, 1, -1 / r, 0, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(horizontal_symmetries(system), expected, atol=1e-13)
    np.testing.assert_allclose(symmetries(system, generators=turning), [[1]])
    assert horizontal_symmetries(system, generators=turning).shape == (0, 1)


def test_turning_table_keeps_only_the_common_rotation():
    system = ball(inertia(np.random.default_rng(5), 3), rate=0.7)
    assert symmetries(system).shape == (0, 5)
    np.testing.assert_allclose(symmetries(system, generators=turning), [[1]])


def test_a_potential_breaks_the_symmetries_it_depends_on():
    rng = np.random.default_rng(6)
    centre = rng.uniform(-1, 1, 3)
    top = gn.System(SO3(), metric=inertia(rng, 3), potential=lambda R: R[2] @ centre)
    np.testing.assert_allclose(symmetries(top), [[0, 0, 1]], atol=1e-14)
    plane = gn.System(SE2(), metric=inertia(rng, 3), potential=lambda g: 1e3 + jnp.sin(2 * g[1] - g[2]))
    np.testing.assert_allclose(symmetries(plane), [[0, 1, 2]], atol=1e-9)


def test_symmetries_without_a_kinetic_metric():
    def lagrangian(x, xi):
        return 0.5 * xi @ xi + 0.1 * jnp.sum(xi**4) - jnp.cos(x[0])

    system = gn.System(Translations(3), lagrangian=lagrangian)
    np.testing.assert_allclose(symmetries(system), np.eye(3)[1:], atol=1e-14)


def test_many_samples_take_no_more_memory_than_their_rows():
    basis = gn.mechanics.symmetries(gn.systems.chaplygin_sleigh(), samples=4000)  # of U of an SVD alone 20 GiB
    np.testing.assert_allclose(basis, np.eye(3), atol=1e-12)

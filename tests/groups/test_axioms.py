"""Every group passes ``check_group``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CLOSED_FORMS, COMPOSED, LARGE_MATRIX, MATRIX, SLOW

from geonh.testing import check_group


@pytest.mark.parametrize("name", [*CLOSED_FORMS, *COMPOSED])
@pytest.mark.quick("R2", "T3")
def test_group(name):
    check_group((CLOSED_FORMS | COMPOSED)[name], tol=1e-12)


@pytest.mark.parametrize("name", [*CLOSED_FORMS, *COMPOSED, *MATRIX])
def test_flattening_keeps_the_structure(name):
    leaves, structure = jax.tree.flatten((CLOSED_FORMS | COMPOSED | MATRIX)[name])
    assert jax.tree.structure(jax.tree.unflatten(structure, leaves)) == structure


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_more_composed_groups(name):
    check_group(SLOW[name], tol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", MATRIX)
def test_matrix_group(name):
    check_group(MATRIX[name], half_turn=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_MATRIX)
def test_large_matrix_group(name):
    check_group(LARGE_MATRIX[name], half_turn=False)


def test_check_leaves_the_configuration_alone():
    with jax.enable_x64(False):
        check_group(CLOSED_FORMS["R2"], n_samples=3)
        assert not jax.config.jax_enable_x64


@pytest.mark.quick("SO2", "T3", "Heisenberg", "R2", "SE2", "SE2op")
@pytest.mark.parametrize("name", [*CLOSED_FORMS, *COMPOSED])
def test_second_derivatives_of_the_distance_vanish_along_the_group(name):
    group = (CLOSED_FORMS | COMPOSED)[name]
    g = group.exp(0.3 * np.cos(np.arange(group.dim)))

    def distance(place):
        return group.defect(group.from_vector(place))

    along = jax.jacfwd(lambda eta: group.to_vector(group.compose(g, group.exp(eta))))(jnp.zeros(group.dim))
    place = jnp.asarray(group.to_vector(g))
    np.testing.assert_allclose(jax.grad(distance)(place), 0.0, atol=1e-14)
    np.testing.assert_allclose(jax.hessian(distance)(place) @ along, 0.0, atol=1e-14)


@pytest.mark.quick("SO2", "T3", "R2", "Heisenberg", "SE2", "SO3")
@pytest.mark.parametrize("name", [*CLOSED_FORMS, *COMPOSED])
def test_methods_take_their_arguments_by_the_names_of_the_base_class(name):
    group = (CLOSED_FORMS | COMPOSED)[name]
    xi = np.linspace(0.1, 0.3, group.dim)
    g = group.exp(xi=xi)
    for method, arguments in {
        "Ad": {"g": g},
        "Ad_star": {"g": g, "p": xi},
        "ad": {"xi": xi},
        "ad_star": {"xi": xi, "p": xi},
        "dexp": {"xi": xi},
        "dexp_inv": {"xi": xi},
        "left_tangent": {"g": g, "xi": xi},
        "log": {"g": g},
        "inverse": {"g": g},
        "compose": {"g": g, "h": g},
    }.items():
        called = getattr(group, method)
        jax.tree.map(np.testing.assert_array_equal, called(**arguments), called(*arguments.values()))

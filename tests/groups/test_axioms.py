"""Every group passes ``check_group``."""

import jax
import pytest
from catalogue import CLOSED_FORMS, COMPOSED, LARGE_MATRIX, MATRIX, SLOW

from geonh.testing import check_group


@pytest.mark.parametrize("name", [*CLOSED_FORMS, *COMPOSED])
def test_group(name):
    check_group((CLOSED_FORMS | COMPOSED)[name], tol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_more_composed_groups(name):
    check_group(SLOW[name], tol=1e-12)


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

"""``System.check``: where the user says, forces and controls too, and no alarm for points outside the problem."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2, SO3, Product, Translations


def kepler():
    return gn.System(Translations(2), metric=np.ones(2), potential=lambda x: -1.0 / jnp.sqrt(x @ x))


def pushed(force):
    return gn.System(Translations(2), metric=np.ones(2), forces=force)


def test_a_point_outside_the_problem_is_no_problem():
    report = kepler().check()
    assert report.ok
    assert "outside the problem: 1 of 21 points, first the identity, at rest; at= says where" in str(report)
    nowhere = gn.System(Translations(1), metric=np.ones(1), potential=lambda x: jnp.sqrt(-1.0 - x[0] ** 2)).check()
    assert not nowhere.ok
    assert "no point was found where all is finite; pass at=" in str(nowhere)


@pytest.mark.slow
def test_what_is_wrong_where_the_user_says_is_a_problem():
    assert kepler().check(at=[1.0, 0.0], scale=0.1).ok
    assert kepler().check(at=[[1.0, 0.0], [0.0, 2.0]], n_samples=0).ok
    assert "lagrangian: not finite at the point of at=, at rest" in str(kepler().check(at=[0.0, 0.0], n_samples=0))
    both = kepler().check(at=[[1.0, 0.0], [0.0, 0.0]], n_samples=0)
    assert "not finite at point 1 of at=" in str(both)
    soft = gn.System(Translations(1), metric=lambda x: jnp.diag(1.0 - x))
    assert soft.check(at=[0.0], scale=0.1).ok
    assert "not positive definite: its least eigenvalue is -1" in str(soft.check(at=[2.0], n_samples=0))


def test_points_of_products():
    system = gn.System(Product((SE2(), Translations(1))), metric=np.ones(4), base="shape")
    assert system.check(at=(np.zeros(3), np.ones(1)), n_samples=2).ok
    assert system.check(at=[(np.zeros(3), np.ones(1)), (np.ones(3), np.ones(1))], n_samples=2).ok


@pytest.mark.slow
def test_forces_and_controls_are_tested():
    broken = pushed(lambda t, x, v, u: v / x[0])
    assert "forces: not finite at the point of at=" in str(broken.check(at=[0.0, 0.0]))
    driven = pushed(lambda t, x, v, u: u * v)
    assert "forces were not tested: they use u; pass controls=" in str(driven.check())
    assert driven.check(controls=lambda t: t).ok
    assert driven.check(controls=np.ones((5, 2))).ok
    assert "forces: not finite" in str(driven.check(at=[0.0, 0.0], controls=lambda t: jnp.log(t - 2.0)))
    with pytest.raises(ValueError, match=r"forces must give a covector of shape \(2,\)"):
        pushed(lambda t, x, v, u: v[:1]).check()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"at": [1.0, 2.0, 3.0]}, ValueError, r"at must have shape \(2,\), got \(3,\)"),
        ({"at": [[1.0]]}, ValueError, r"at\[0\] must have shape \(2,\)"),
        ({"at": [1j, 0.0]}, TypeError, "at must be real numbers"),
        ({"n_samples": -1}, ValueError, "n_samples must be an integer, at least 0"),
        ({"scale": "a"}, TypeError, "scale must be real numbers"),
    ],
)
def test_options(options, error, words):
    with pytest.raises(error, match=words):
        kepler().check(**options)


def test_a_point_off_the_group():
    with pytest.raises(ValueError, match=r"at does not lie on SO\(3\): it is 0.01 away"):
        gn.System(SO3(), metric=np.ones(3)).check(at=1.01 * np.eye(3))

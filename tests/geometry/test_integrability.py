"""Growth vectors and Frobenius' test against what is known, at points that are singular too."""

import math
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.geometry import growth_vector, is_integrable
from geonh.geometry.polynomials import polynomials
from geonh.groups import SE2, Product, Torus, Translations

R3 = Translations(3)


def spherical():
    """x dx + y dy + z dz = 0: the motion stays on spheres, though no row is constant."""
    return gn.System(R3, metric=np.eye(3), distribution=gn.Distribution(lambda x: [[x[0], x[1], x[2]]]))


def trailers(n):
    """A car with n trailers at unit distances (Jean 1996), as a frame: driving and steering."""

    def frame(phi):
        drive, forward, omega = [0.0, 1.0, 0.0], 1.0, 0.0
        for i in range(n):
            turned = -forward * jnp.sin(phi[i])
            drive.append(turned - omega)
            forward, omega = forward * jnp.cos(phi[i]), turned
        return [drive, [1.0, 0.0, 0.0, -1.0, *[0.0] * (n - 1)]]

    group = Product((SE2(), Torus(n)))
    return gn.System(group, metric=np.eye(n + 3), base="shape", distribution=gn.Distribution(frame=frame))


def test_constraints_that_are_holonomic():
    verdict = is_integrable(spherical(), [1.0, 2.0, -0.5])
    assert verdict
    assert verdict.largest < 1e-13
    assert growth_vector(spherical(), [1.0, 2.0, -0.5]) == (2,)
    contact = gn.System(R3, metric=np.eye(3), distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]))
    assert not is_integrable(contact)
    assert is_integrable(contact).largest > 0.1


def test_a_rolling_disc_and_a_singular_point():
    assert growth_vector(gn.systems.catalogue["vertical-disk"].system()) == (2, 3, 4)
    martinet = gn.System(R3, metric=np.eye(3), distribution=gn.Distribution(lambda x: [[-(x[1] ** 2), 0.0, 1.0]]))
    assert growth_vector(martinet, [0.0, 0.5, 0.0]) == (2, 3)
    growth = growth_vector(martinet, [0.3, 0.0, 0.0])
    assert growth == (2, 2, 3)  # it stops for a step where y = 0
    assert growth.complete
    assert is_integrable(martinet, [0.3, 0.0, 0.0])  # at that point, as Frobenius' condition is of a point


@pytest.mark.parametrize(
    ("angles", "growth"),
    [([0.4, 0.3], (2, 3, 4, 5)), ([math.pi / 2, 0.3], (2, 3, 4, 4, 5))],
)
def test_a_car_with_two_trailers(angles, growth):
    """Jean's (1996) values: one step more where the first hinge is at a right angle."""
    assert growth_vector(trailers(2), (np.zeros(3), np.array(angles))) == growth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("angles", "growth"),
    [
        ([0.4, -0.3, 0.5], (2, 3, 4, 5, 6)),
        ([math.pi / 2, math.pi / 2, 0.3], (2, 3, 4, 4, 5, 5, 5, 6)),  # Fibonacci's number of steps
    ],
)
def test_the_robot_with_three_trailers(monkeypatch, angles, growth):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    import robot_with_trailers

    assert growth_vector(robot_with_trailers.robot, (np.zeros(3), np.array(angles))) == growth
    del sys.modules["robot_with_trailers"]


def test_they_say_how_they_judged():
    contact = gn.System(R3, metric=np.eye(3), distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]))
    assert "(2, 3) at g0 = [0.1, 0.2, 0. ], tolerance 1e-09" in str(growth_vector(contact, [0.1, 0.2, 0.0]))
    assert "not integrable at g0 = [0., 0., 0.]: the largest part of a bracket outside D is 1" in str(
        is_integrable(contact)
    )
    seen = []
    growth_vector(contact, progress=lambda *step: seen.append(step))
    assert seen == [(2, 3)]
    with pytest.raises(TypeError, match="a System is needed"):
        growth_vector(contact.distribution, contact.action)
    with pytest.raises(TypeError, match="has no constraints"):
        is_integrable(gn.System(R3, metric=np.eye(3)))


def test_polynomials():
    """Against numbers: products, derivatives, brackets and the Taylor polynomial of a function."""
    algebra, rng = polynomials(2, 3), np.random.default_rng(0)
    at = np.array([0.3, -0.7])
    value = lambda a, x=at: a @ np.prod(x**algebra.exponents, axis=1)  # noqa: E731
    low = algebra.degrees <= 1
    a, b = rng.normal(size=(2, len(low))) * low
    np.testing.assert_allclose(value(algebra.product(a, b)), value(a) * value(b), rtol=1e-14)
    c, h = rng.normal(size=len(low)), 1e-6
    slope = (value(c, at + np.array([0, h])) - value(c, at - np.array([0, h]))) / (2 * h)
    np.testing.assert_allclose(value(algebra.derivative(c, 1)), slope, rtol=1e-8)
    x, y = np.eye(len(low))[1:3]
    rotation, scaling = np.stack([-y, x]), np.stack([x, 0 * y])
    np.testing.assert_allclose(algebra.bracket(rotation, scaling, 2), np.stack([-y, -x]), atol=1e-15)
    along = lambda d: np.stack([(d @ [1.0, 2.0]) ** k for k in range(4)], axis=1)  # noqa: E731 of exp(x + 2y)
    expected = [2.0 ** e[1] / math.factorial(e[0]) / math.factorial(e[1]) for e in algebra.exponents]
    np.testing.assert_allclose(algebra.fitted(along), expected, rtol=1e-12)

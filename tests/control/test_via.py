"""Values that are given or bounded at one node or at all nodes, against splines and other coordinates."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2, Translations


def push(t, x, xi, u):
    return u


def place(t, g, xi, u):
    return g[0]


MASS = gn.System(Translations(1), metric=[1.0], forces=push, name="mass")
PLANE = gn.System(Translations(2), metric=[1.0, 1.0], forces=push, name="mass in the plane")
REST = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 16}


@pytest.mark.slow
def test_a_mass_through_a_point_follows_the_clamped_spline():
    """Of all motions through given points with given slopes at the ends the cubic spline has the least ∫ẍ²dt."""
    spline = CubicSpline([0.0, 0.5, 1.5, 2.0], [0.0, 0.7, -1.0, 1.0], bc_type="clamped")
    found = optimal_control(MASS, **REST, via=[(0.25, place, 0.7, 0.7), (0.75, place, [-1.0], [-1.0])])
    np.testing.assert_allclose(found.g[:, 0], spline(found.t), atol=1e-13)
    np.testing.assert_allclose(found.u[:, 0], spline(found.t, 2), atol=1e-12)
    bounded = optimal_control(MASS, **REST, via=(0.25, place, 0.7, 2.0), guess=found)
    assert abs(bounded.g[4, 0] - 0.7) < 1e-7
    free = optimal_control(MASS, **REST, via=(0.25, place, -1.0, 2.0), guess=found)
    np.testing.assert_allclose(free.cost, 12 / 8, rtol=1e-7)


@pytest.mark.slow
def test_via_holds_the_times_of_nodes_alone():
    with pytest.raises(ValueError, match=r"via: 0\.3 of the span is no node of 16 steps; 4/16 and 5/16 are"):
        optimal_control(MASS, **REST, via=(0.3, place, 0.7, 0.7))
    with pytest.raises(ValueError, match=r"via\[1\] must be at a part of the span between 0 and 1, got 1"):
        optimal_control(MASS, **REST, via=[(0.5, place, 0.7, 0.7), (1.0, place, 0.7, 0.7)])
    with pytest.raises(TypeError, match=r"via must be \(s, c, lower, upper\) or a list"):
        optimal_control(MASS, **REST, via=(place, 0.7, 0.7))
    with pytest.raises(RuntimeError, match=r"via\[\d\] at node 8 is off by 0.5"):
        optimal_control(MASS, **REST, via=[(0.5, place, 0.0, 0.0), (0.5, place, 1.0, 1.0)])


@pytest.mark.slow
def test_a_value_at_all_nodes_is_kept_at_the_first_too():
    """Where u₁ = 2u₂ the least cost is that of the motion without it, if its ends are on that line."""
    options = {"end": [1.0, 0.5], "n_controls": 2, "span": 2.0, "n_steps": 16, "tries": 1}
    found = optimal_control(PLANE, **options, path=(lambda t, g, xi, u: u[0] - 2 * u[1], 0.0, 0.0))
    np.testing.assert_allclose(found.u[:, 0], 2 * found.u[:, 1], atol=1e-12)
    np.testing.assert_allclose(found.cost, 12 * 1.25 / 8, rtol=1e-12)
    with pytest.raises(RuntimeError, match=r"path at (the end|node 0) is off by"):
        optimal_control(PLANE, **options, path=(lambda t, g, xi, u: g[0] - 0.1, 0.0, 0.0))


@pytest.mark.slow
def test_a_curve_that_is_kept_at_all_nodes_is_that_of_its_parameter():
    """A mass on x = y², held there by its controls: y alone with the cost ẍ² + ÿ²."""
    ends = {"span": 2.0, "n_steps": 64, "tries": 1}
    parabola = (lambda t, g, xi, u: g[0] - g[1] ** 2, 0.0, 0.0)
    held = optimal_control(PLANE, end=[1.0, 1.0], n_controls=2, **ends, path=parabola)
    cost = lambda t, g, xi, u: u[0] ** 2 + (2 * xi[0] ** 2 + 2 * g[0] * u[0]) ** 2  # noqa: E731
    alone = optimal_control(MASS, end=[1.0], n_controls=1, **ends, cost=cost)
    np.testing.assert_allclose(held.g[:, 1], alone.g[:, 0], atol=1e-4)
    np.testing.assert_allclose(held.cost, alone.cost, rtol=1e-4)


@pytest.mark.slow
def test_a_sleigh_passes_a_pose():
    sleigh = gn.System(
        SE2(),
        metric=[[1.04, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]],
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        forces=lambda t, x, xi, u: jnp.stack([u[1], u[0], 0.0 * u[0]]),
        name="sleigh",
    )
    pose = np.array([0.5, 1.0, 0.2])
    options = {"end": [0.0, 2.0, 0.0], "n_controls": 2, "span": 4.0, "n_steps": 24}
    found = optimal_control(sleigh, **options, via=(0.5, lambda t, g, xi, u: g, pose, pose))
    np.testing.assert_allclose(found.trajectory().g[12], pose, atol=1e-11)
    assert found.cost > optimal_control(sleigh, **options).cost

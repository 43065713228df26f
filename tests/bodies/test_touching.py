"""Convex bodies on links against those of ``geonh.rolling``."""

import numpy as np
import pytest

import geonh as gn
from geonh import bodies, rolling
from geonh.bodies import Joint, Link, Rolling, Wheel

MOMENTS = (0.3, 0.5, 0.6)


def alone(support, on=None, **more):
    """A free body with one contact, and the same of ``geonh.rolling``."""
    contact = Rolling("body", support, **({} if on is None else {"on": on}), **more)
    tree = bodies.tree([Link("body", 1.5, (0, 0, 0), MOMENTS, "", Joint("free", "pose"))], contacts=[contact])
    return tree, rolling(support, MOMENTS, 1.5, on=on, spin=more.get("spin", True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plane", "rubber", "sphere"])
def test_a_convex_body_is_a_rolling_body(kind):
    support = rolling.ellipsoid(0.5, 0.6, 0.7).moved((0.02, 0.0, 0.05))
    on, more, place = None, {}, (0.0, 0.0, 0.0)
    if kind == "sphere":
        on, place = rolling.sphere(3.0), (0.0, 0.0, -3.0)
    if kind == "rubber":
        more = {"spin": False}
    tree, body = alone(support, on, **more)
    omega = [0.4, 0.2, 0.0] if kind == "rubber" else [0.4, 0.2, -0.3]
    g0, xi0 = rolling.start(body, omega=omega, place=place)
    how = {"xi0": xi0, "dt": 0.01, "n_steps": 20}
    one, other = gn.solve(body, "rkmk4", g0=g0, **how), gn.solve(tree, "rkmk4", g0=(g0,), **how)
    np.testing.assert_allclose(other.xi, one.xi, atol=1e-11)
    assert np.abs(other.holonomic_residual).max() < 1e-13
    assert tree.row_names[0] == "height of contact 'body'"


@pytest.mark.slow
def test_a_cart_rolls_on_a_caster_that_is_a_ball():
    """Two wheels and a ball in a socket: heights of all three, the ball rolls without slipping, energy is kept."""
    links = [Link("base", 3.0, (0.05, 0, 0.05), (0.02, 0.03, 0.04), "", Joint("free", "base"))]
    for side, y in (("left", 0.2), ("right", -0.2)):
        joint = Joint("continuous", side, (0, 1, 0), (0, y, 0.1))
        links.append(Link(side, 0.2, (0, 0, 0), (2e-4, 4e-4, 2e-4), "base", joint))
    links.append(Link("ball", 0.1, (0, 0, 0), (1e-4,) * 3, "base", Joint("spherical", "socket", place=(0.3, 0, 0.05))))
    system = bodies.tree(
        links,
        contacts=[Wheel("left", 0.1), Wheel("right", 0.1, grips=False), Rolling("ball", rolling.ball(0.05))],
    )
    g0, xi0 = bodies.start(system, velocities={"left": 3.0, "right": 4.0})
    assert xi0[0:3] == pytest.approx([0.0, 0.0, 0.25], abs=1e-9)
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=5000)
    assert np.abs(run.holonomic_residual).max() < 1e-14
    assert np.abs(run.constraint_residual).max() < 1e-13
    assert np.ptp(run.energy) < 1e-9


def test_contacts_of_support_functions_are_judged():
    with pytest.raises(TypeError, match="support of link 'a'"):
        Rolling("a", 0.1)
    with pytest.raises(TypeError, match="on of link 'a'"):
        Rolling("a", rolling.ball(1.0), on=3.0)

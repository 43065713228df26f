"""Contacts of trees that hold up to a force, found by their names: against ``rolling``, and what is refused."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import bodies, rolling
from geonh.bodies import Joint, Link, Rolling, Wheel
from geonh.rolling import knife_edge, planar, planar_body, slipping, trailer, wheel


@pytest.mark.slow
def test_a_link_that_slides_and_rolls_is_the_rolling_body():
    inertia, shape, friction = (0.02, 0.03, 0.025), rolling.ellipsoid(0.2, 0.25, 0.3), (0.3, 0.25)
    shell = Link("shell", 2.0, (0, 0, 0), inertia, "", Joint("free", "pose"))
    egg = slipping(
        bodies.tree([shell], contacts=[Rolling("shell", shape)], name="egg"), {"shell": ("shell", friction, "shell")}
    )
    body = rolling(shape, np.array(inertia), 2.0, friction=friction)
    g0, xi0 = rolling.start(body, omega=[3.0, 1.0, 2.0], slip=[0.8, 0.2, 0.0])
    begin = {"g0": g0, "xi0": xi0, "dt": 0.005, "n_steps": 60}
    run, same = gn.solve(egg, mode="shell slips", **begin), gn.solve(body, mode="slide", **begin)
    np.testing.assert_allclose(run.switches.t, same.switches.t, rtol=0, atol=1e-12)
    assert [egg.names[i] for i in run.switches.target] == ["grip"]
    np.testing.assert_allclose(run.xi, same.xi, rtol=0, atol=1e-11)


def cart(root="planar"):
    def driven(side, y):
        joint = Joint("continuous", side, axis=(0, 1, 0), place=(0, y, 0.1), motor=True)
        return Link(f"{side} wheel", 0.2, (0, 0, 0), (5e-4, 1e-3, 5e-4), "base", joint)

    base = Link("base", 3.0, (0.1, 0, 0.1), (0.02, 0.03, 0.04), "", Joint(root, "pose"))
    wheels = [Wheel("left wheel", 0.1), Wheel("right wheel", 0.1, grips=False)]
    return bodies.tree([base, driven("left", 0.2), driven("right", -0.2)], contacts=wheels, name="cart")


@pytest.mark.slow
def test_a_wheel_of_a_cart_spins_from_the_torque_on_that_it_can_bear():
    """Names of contacts are those of their rows; a wheel that spins has the torque less that of friction."""
    robot = cart()
    g0, xi0 = bodies.start(robot, velocities={"pose": [0.0, 0.5, 0.0]})
    begin = {"mode": "grip", "g0": g0, "xi0": xi0, "dt": 0.002, "n_steps": 1000}
    drive = {"controls": lambda t: jnp.stack([0.0 * t, 0.8 * t])}
    run = gn.solve(slipping(robot, {"right": ("right wheel", (5.0, 4.0))}), **begin, **drive)
    by_place = gn.solve(slipping(robot, {"right": (2, (5.0, 4.0))}), **begin, **drive)
    np.testing.assert_array_equal(run.xi, by_place.xi)
    k = np.searchsorted(run.t, run.switches.t[0], side="right")
    right = list(robot.group.velocity_names).index("right_dot")
    rate = np.gradient(run.xi[k + 5 : -5, right], run.t[k + 5 : -5])
    np.testing.assert_allclose(1e-3 * rate, 0.8 * run.t[k + 5 : -5] - 0.1 * 4.0, atol=2e-3)


@pytest.mark.parametrize(
    ("grip", "words"),
    [
        (("left weel", 6.0), "no row of cart is that of 'left weel'; there are: wheel 'left wheel' along; wheel"),
        (("left", 6.0), "no row of cart is that of 'left'"),
        (("left wheel", 0.5, "left wheel"), "as the height of a contact is not held by a row.*Give the largest force"),
    ],
)
def test_names_that_are_none_are_refused(grip, words):
    with pytest.raises(ValueError, match=words):
        slipping(cart(), {"left": grip})


def test_names_of_rows_are_for_systems_that_have_them():
    block = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], distribution=gn.Distribution([[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"no row of system is that of 'x'; there are: no names"):
        slipping(block, {"block": ("x", 6.0)})


@pytest.mark.slow
def test_both_rows_of_a_trailers_wheel_slip_in_the_place_where_it_is():
    """Given by velocities or by a matrix, the forms are the same, at the time and the place of a step."""
    tow = planar_body(1.0, 0.2, [wheel(0.2, 0.03, name="tow")])
    wheels = [wheel(0.3, 0.05, name="rear"), knife_edge(1.2, angle=0.2)]
    towed = trailer(tow, 1.0, hitch=(-0.3, 0.0), name="hinge")
    car = planar(planar_body(2.0, 0.4, wheels, [towed], centre=(0.5, 0.1)), forces=lambda t, x, xi, u: u, name="car")
    D, n = car.distribution, car.group.dim
    forms = gn.Distribution(lambda x, p: D.annihilator(x, p))
    same = eqx.tree_at(lambda s: s.distribution, car, forms)
    place = list(car.group.velocity_names).index("rear_dot")
    begin = {"mode": "grip", "xi0": np.zeros(n), "dt": 0.01, "n_steps": 200}
    drive = {"controls": lambda t: jnp.zeros(n).at[place].set(4 * jnp.sin(2 * t))}
    runs = [
        gn.solve(slipping(one, {"tow": ((3, 4), 0.6)}), g0=car.group.identity(), **begin, **drive)
        for one in (car, same)
    ]
    assert runs[0].mode[-1] == "tow slips"
    np.testing.assert_allclose(runs[0].switches.t, runs[1].switches.t, rtol=0, atol=1e-10)
    np.testing.assert_allclose(runs[0].xi, runs[1].xi, rtol=0, atol=1e-9)

"""Wheels and blades of trees of bodies: against planar bodies, a rolling disc, and at the contacts themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import bodies, rolling
from geonh.bodies import Blade, Joint, Link, Wheel
from geonh.rolling import knife_edge, planar, planar_body, wheel

RADIUS, HALF = 0.1, 0.2
DISC = (2e-4, 4e-4, 2e-4)


def cart(root="planar", **more):
    """Two driven wheels on one axle; the axis of a wheel is y, and its frame is turned about it."""
    links = [Link("base", 3.0, (0.1, 0, 0.05), (0.02, 0.03, 0.04), "", Joint(root, "base", place=(0, 0, 0.0)))]
    for side, y in (("left", HALF), ("right", -HALF)):
        joint = Joint("continuous", side, (0, 1, 0), (0, y, RADIUS), motor=True)
        links.append(Link(side, 0.2, (0, 0, 0), DISC, "base", joint))
    contacts = [Wheel("left", RADIUS), Wheel("right", RADIUS, grips=False)]
    return bodies.tree(links, contacts=contacts, **more)


@pytest.mark.slow
def test_a_cart_is_that_of_planar_bodies():
    system = cart()
    assert system.reduced
    assert system.holonomic is None
    # both wheels in the mass and the moment of the body: 3 kg at 0.1 m, 0.2 kg at ±HALF
    mass, centre = 3.4, 0.3 / 3.4
    about = 0.04 + 3.0 * 0.1**2 + 2 * (0.2 * HALF**2 + DISC[0]) - mass * centre**2
    wheels = [
        wheel(RADIUS, DISC[1], y=y, name=name, grips=name == "left") for name, y in (("left", HALF), ("right", -HALF))
    ]
    other = planar(planar_body(mass, about, wheels, centre=(centre, 0.0)))
    g0, xi0 = bodies.start(system, velocities={"base": [0.7, 0.4, 0.0]})
    np.testing.assert_allclose(xi0[3:], [(0.4 - HALF * 0.7) / RADIUS, (0.4 + HALF * 0.7) / RADIUS], atol=1e-13)
    how = {"dt": 0.01, "n_steps": 200}
    one = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, **how)
    two = gn.solve(other, "rkmk4", g0=other.group.identity(), xi0=xi0, **how)
    np.testing.assert_allclose(one.xi, two.xi, atol=1e-12)
    np.testing.assert_allclose(one.g_vector, two.g_vector, atol=1e-12)


@pytest.mark.slow
def test_redundant_rows_of_wheels_are_known():
    one = cart()
    both = bodies.tree(one.tree.links, contacts=[Wheel("left", RADIUS), Wheel("right", RADIUS)])
    g0, xi0 = bodies.start(both, velocities={"base": [0.7, 0.4, 0.0]})
    how = {"g0": g0, "xi0": xi0, "dt": 0.01, "n_steps": 50}
    run = gn.solve(both, "rkmk4", **how)  # without a warning: the rank is declared
    np.testing.assert_allclose(run.xi, gn.solve(one, "rkmk4", **how).xi, atol=1e-13)
    assert run.multipliers.shape[-1] == 4


@pytest.mark.slow
def test_a_driven_cart_does_not_slip():
    system = cart()
    g0, xi0 = bodies.start(system, velocities={"base": [0.7, 0.4, 0.0]})
    drive = lambda t: 0.02 * jnp.stack([jnp.sin(t), jnp.cos(2 * t)])  # noqa: E731
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=10_000, save_every=10, controls=drive)
    assert np.abs(run.constraint_residual).max() < 1e-14
    free = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=10_000, save_every=10)
    assert np.ptp(free.energy) < 1e-12


@pytest.mark.slow
def test_a_wheel_alone_is_a_rolling_disc():
    coin = rolling(rolling.disc(1.0, axis=(0, 1, 0)), [0.25, 0.5, 0.25], 1.0, gravity=9.81)
    lean = 0.3
    R = np.array([[1, 0, 0], [0, np.cos(lean), -np.sin(lean)], [0, np.sin(lean), np.cos(lean)]])
    g0, xi0 = rolling.start(coin, R, omega=[0.0, 2.0, 0.3])
    disc = bodies.tree(
        [Link("coin", 1.0, (0, 0, 0), (0.25, 0.5, 0.25), "", Joint("free", "pose"))],
        contacts=[Wheel("coin", 1.0, (0, 1, 0))],
    )
    one = gn.solve(coin, g0=g0, xi0=xi0, dt=0.01, n_steps=50)
    other = gn.solve(disc, g0=(g0,), xi0=xi0, dt=0.01, n_steps=50)
    np.testing.assert_allclose(other.xi, one.xi, atol=1e-9)
    assert np.abs(other.holonomic_residual).max() < 1e-12


@pytest.mark.slow
def test_a_blade_is_a_knife_edge():
    sled = bodies.tree(
        [Link("sled", 1.0, (0.3, 0, 0.1), (0.1, 0.1, 0.2), "", Joint("planar", "pose"))], contacts=[Blade("sled")]
    )
    other = planar(planar_body(1.0, 0.2, [knife_edge()], centre=(0.3, 0.0)))
    one = gn.solve(sled, "rkmk4", xi0=[0.5, 1.0, 0.0], dt=0.01, n_steps=100)
    two = gn.solve(other, "rkmk4", g0=np.zeros(3), xi0=[0.5, 1.0, 0.0], dt=0.01, n_steps=100)
    np.testing.assert_allclose(one.xi, two.xi, atol=1e-12)


@pytest.mark.slow
def test_starts_lower_a_free_body_onto_the_plane():
    ball = Joint("free", "pose")
    links = [Link("body", 2.0, (0, 0, 0.1), (0.1, 0.1, 0.1), "", ball)]
    links.append(Link("wheel", 0.5, (0, 0, 0), (0.02, 0.04, 0.02), "body", Joint("revolute", "axle", (0, 1, 0))))
    system = bodies.tree(links, contacts=[Wheel("wheel", 0.4)])
    above = np.eye(4)
    above[2, 3] = 0.7
    (g, _), xi = bodies.start(system, {"pose": above}, {"axle": 2.0})
    assert g[2, 3] == pytest.approx(0.4, abs=1e-12)
    assert xi[6] == 2.0
    x = system.at((g, np.zeros(1)), 0.0)
    np.testing.assert_allclose(system.constraint_residual(x, xi), 0.0, atol=1e-12)


@pytest.mark.slow
def test_rows_of_a_turned_wheel_are_those_of_its_own_frame():
    """A wheel about its joint's axis is computed where it is carried; given in a fixed link on it, in its own frame."""
    links = list(cart("free").tree.links)
    links.append(Link("hub", parent="left", joint=Joint("fixed", "weld", place=(0, 0.01, 0))))
    odd = Wheel("hub", RADIUS, (0, 1, 0), (0, -0.01, 0), name="odd")
    eccentric = Wheel("left", RADIUS, (0, 1, 0), (0, 0, 1e-9), name="eccentric")
    draws = np.random.default_rng(0)
    with jax.enable_x64(True):
        rows = []
        for contact in (Wheel("left", RADIUS), odd, eccentric):
            system = bodies.tree(links, contacts=[contact])
            x = jax.tree.map(np.asarray, system.group.exp(0.4 * np.random.default_rng(1).normal(size=8)))
            rows.append(np.asarray(system.rows(x)))
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-12)
    np.testing.assert_allclose(rows[2], rows[0], atol=1e-7)
    assert np.abs(rows[0] @ draws.normal(size=8)).max() > 1e-3


@pytest.mark.quick("contacts2-names of their own", "contacts1-wheel 'base' needs axis=")
@pytest.mark.parametrize(
    ("contacts", "words"),
    [
        ([Wheel("none", 0.1)], "no link 'none'"),
        ([Wheel("base", 0.1)], "wheel 'base' needs axis="),
        ([Wheel("left", 0.1), Wheel("left", 0.1)], "names of their own"),
        (["left"], "contacts must be a list of Wheel or Blade or Rolling"),
    ],
)
def test_contacts_are_judged(contacts, words):
    links = cart().tree.links
    with pytest.raises((ValueError, TypeError), match=words):
        bodies.tree(links, contacts=contacts)


def test_starts_are_judged():
    system = cart()
    with pytest.raises(ValueError, match="no joint 'none'"):
        bodies.start(system, velocities={"none": 1.0})
    with pytest.raises(ValueError, match="something slips"):
        bodies.start(system, velocities={"base": [0.0, 1.0, 0.0], "left": 0.0, "right": 0.0})
    with pytest.raises(ValueError, match="radius of wheel 'left' must be positive"):
        Wheel("left", -1.0)
    with pytest.raises(TypeError, match="name of a wheel must be text"):
        Wheel("left", 0.1, name=["w"])
    with pytest.raises(TypeError, match="link of a blade must be text"):
        Blade(3)
    lying = bodies.tree(system.tree.links, contacts=[Wheel("base", RADIUS, axis=(0, 0, 1))])
    with pytest.raises(ValueError, match="the row \"wheel 'base' along\" is not a number there: a wheel needs an axis"):
        bodies.start(lying)
    with pytest.raises(ValueError, match=r"velocities\['left'\] is a nested list of unequal lengths"):
        bodies.start(system, velocities={"left": [[1.0], [1.0, 2.0]]})


def test_a_number_of_a_link_and_of_a_contact_of_that_name_is_refused():
    """The number "left.centre" would be the centre of mass of the link and the centre of its wheel."""
    with pytest.raises(ValueError, match=r"left\.centre.*a name of its own"):
        cart(varied=["left.centre"])
    cart(varied=["left.radius", "left.mass"])

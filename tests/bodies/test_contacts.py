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


def swivelling(lean):
    """A body on a planar joint with a caster, whose swivel leans."""
    c, s = np.cos(lean), np.sin(lean)
    swivel = Joint("revolute", "swivel", (0, 0, 1), (0.3, 0, 0.05), [[1, 0, 0], [0, c, -s], [0, s, c]])
    spin = Joint("continuous", "spin", (0, 1, 0), (-0.04, 0, 0))
    links = [
        Link("base", 3.0, (0.1, 0, 0.05), (0.02, 0.03, 0.04), "", Joint("planar", "base")),
        Link("fork", 0.2, (0, 0, 0), (1e-3, 1e-3, 1e-3), "base", swivel),
        Link("roll", 0.1, (0, 0, 0), (1e-4, 2e-4, 1e-4), "fork", spin),
    ]
    return bodies.tree(links, contacts=[Wheel("roll", 0.05)])


def test_a_swivel_with_a_rounded_angle_is_vertical():
    exact, rounded = swivelling(0.0), swivelling(np.pi - 3.1416)
    assert rounded.holonomic is None
    runs = []
    for system in (exact, rounded):
        g0, xi0 = bodies.start(system, {"swivel": 0.3}, {"base": [0.1, 0.3, 0.0]})
        runs.append(gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=50))
    np.testing.assert_allclose(runs[1].xi, runs[0].xi, atol=1e-4)


def test_a_leaning_swivel_that_is_held_is_told():
    with pytest.warns(UserWarning, match="height of contact 'roll' depends on the joint 'swivel' alone") as told:
        system = swivelling(0.1)
    assert told[0].filename == __file__
    assert len(system.row_names) == 3


def test_a_wheel_whose_axle_nothing_moves_is_refused():
    with pytest.raises(ValueError, match="wheel 'left' cannot turn: nothing moves its axle"):
        cart("fixed")


def test_new_radii_are_judged():
    system = cart(varied=["left.radius", "left.mass"])
    for changes in ({"left.radius": 0.0}, {"left.radius": -0.1}, {"left.mass": -1.0}):
        with pytest.raises(ValueError, match=rf"{next(iter(changes))} must be"):
            system.with_parameters(**changes)
    assert system.with_parameters(**{"left.mass": 0.3}).parameters["left.mass"] == 0.3


@pytest.mark.parametrize("controls", [1, 3])
def test_controls_have_an_entry_for_each_motor(controls):
    system = cart()
    _, xi0 = bodies.start(system, velocities={"base": [0.0, 0.2, 0.0]})
    with pytest.raises(ValueError, match="an entry for each of the motors"):
        gn.solve(system, xi0=xi0, dt=0.01, n_steps=2, controls=lambda t: jnp.ones(controls))


def test_check_compares_a_start_with_the_constraints():
    flat, free = cart(), cart("free")
    slipping = flat.check(xi0=[0.0, 1.0, 0.0, 0.0, 0.0], at=flat.group.identity())
    assert any("wheel 'left' along has the velocity 1 at the start" in problem for problem in slipping.problems)
    g0, xi0 = bodies.start(free, velocities={"left": 2.0, "right": 1.5})
    assert free.check(at=g0, xi0=xi0).ok
    above = g0[0].copy()
    above[2, 3] += 0.5
    floating = free.check(at=(above, g0[1]))
    assert any("height of contact 'left' is 0.5 at the start" in problem for problem in floating.problems)


def test_positions_name_the_joint():
    with pytest.raises(ValueError, match=r"positions\['base'\] must have shape \(3,\)"):
        bodies.start(cart(), {"base": [0.0, 0.0]})
    links = cart().tree.links
    held = bodies.tree(links, contacts=[Wheel("left", RADIUS)], prescribed={"right": lambda t: 0.5 + t})
    bodies.start(held, {"right": 0.5})
    with pytest.raises(ValueError, match=r"joint 'right' is prescribed, and at 0\.5 at the time 0"):
        bodies.start(held, {"right": 0.4})

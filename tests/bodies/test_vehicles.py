"""Vehicles of many bodies on long runs: contacts, energies, closed paths."""

import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import jn_zeros
from test_robots import from_json

import geonh as gn
from geonh import bodies
from geonh.bodies import Blade, Joint, Link, Wheel
from geonh.mechanics.equations import accelerations


def held_by_springs(link):
    """A link with its joint on a spring and damper, but for wheels and joints that follow."""
    joint = link.joint
    if joint.dim and "wheel" not in joint.name and joint.mimic is None:
        stiff = joint.kind == "prismatic"
        joint = replace(joint, stiffness=4e4 if stiff else 400.0, damping=1e3 if stiff else 20.0)
    return replace(link, joint=joint if link.parent else Joint("planar", "base"))


@pytest.mark.slow
def test_a_tiago_drives_a_figure_of_eight():
    """With the heading β sin Ωt at a constant speed, J₀(β) = 0, the path is closed; its arm swings on springs."""
    links, _ = from_json("tiago")
    rate, speed, radius, half, beta = 0.5, 0.5, 0.0985, 0.2022, float(jn_zeros(0, 1)[0])

    def wheel(side):
        return lambda t: (speed * t + side * half * beta * jnp.sin(rate * t)) / radius

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
        tiago = bodies.tree(
            [held_by_springs(link) for link in links],
            contacts=[Wheel("wheel_left_link", radius), Wheel("wheel_right_link", radius, grips=False)],
            prescribed={"wheel_left_joint": wheel(-1), "wheel_right_joint": wheel(1)},
        )
    assert (tiago.group.dim, tiago.reduced) == (15, True)
    g0, xi0 = bodies.start(tiago)
    np.testing.assert_allclose(xi0[:3], [beta * rate, speed, 0.0], atol=1e-12)
    run = gn.solve(tiago, "gauss4", g0=g0, xi0=xi0, dt=8 * 2 * np.pi / rate / 100_000, n_steps=100_000, save_every=10)
    assert np.abs(run.constraint_residual).max() < 1e-14
    base = run.g[0]
    np.testing.assert_allclose(base[:: (len(base) - 1) // 8], 0.0, atol=1e-12)  # every lap ends where it began
    assert np.ptp(base[:, 2]) > 2.0
    assert np.ptp(run.xi[:, 5:]) > 0.1  # the arm moves


def train(wagons):
    """Wagons of 1 m on one axle each, on hinges behind one another."""
    links = []
    for i in range(wagons):
        axle = -1.0 if i else 0.0  # from the hinge, at the axle of the wagon ahead
        joint = Joint("revolute", f"hinge{i}", place=(-1.0 if i > 1 else 0.0, 0, 0)) if i else Joint("planar", "first")
        middle = (axle + 0.1, 0, 0.2)
        links.append(Link(f"wagon{i}", 1.0, middle, (0.05, 0.1, 0.1), f"wagon{i - 1}" if i else "", joint))
    contacts = [Blade(f"wagon{i}", (-1.0 if i else 0.0, 0, 0)) for i in range(wagons)]
    return bodies.tree(links, contacts=contacts, name="train")


@pytest.mark.slow
def test_a_train_of_forty_wagons():
    system = train(40)
    assert (system.group.dim, system.reduced) == (42, True)
    g0, xi0 = bodies.start(system, velocities={"first": [0.1, 1.0, 0.0]})
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=2e-3, n_steps=100_000, save_every=10)
    assert np.abs(run.constraint_residual).max() < 1e-14  # though forms reach over the whole chain, entries up to 40 m
    assert np.ptp(run.energy) < 1e-11 * run.energy[0]


def snake(links, length=0.2, half=0.04, radius=0.03):
    """Links on hinges, each on an axle with two passive wheels."""
    parts, contacts = [], []
    for i in range(links):
        joint = Joint("revolute", f"q{i}", place=(-length, 0, 0)) if i else Joint("planar", "head")
        middle = (-length / 2, 0, radius)
        parts.append(Link(f"link{i}", 0.3, middle, (2e-4, 1e-3, 1e-3), f"link{i - 1}" if i else "", joint))
        for side, y in (("left", half), ("right", -half)):
            axle = Joint("continuous", f"{side}{i}", (0, 1, 0), (-length / 2, y, radius))
            parts.append(Link(f"{side}{i}", 0.01, (0, 0, 0), (1e-6, 2e-6, 1e-6), f"link{i}", axle))
            contacts.append(Wheel(f"{side}{i}", radius, grips=side == "left"))
    return bodies.tree(parts, contacts=contacts, name="snake")


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "bound"), [(0.5, 5e-14), (0.2, 1e-14)])
def test_a_snake_of_thirty_links_on_passive_wheels(speed, bound):
    """92 velocities, 90 rows: sixty wheels roll and thirty axles do not slip, to the rounding of a chain of forms."""
    system = snake(30)
    assert (system.group.dim, len(system.row_names)) == (92, 90)
    bent = {f"q{i}": 0.1 * np.cos(0.6 * i) for i in range(1, 30)}
    g0, xi0 = bodies.start(system, bent, {"head": [0.0, speed, 0.0]})
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=5e-4 / speed, n_steps=100_000, save_every=100)
    assert run.success
    assert np.abs(run.constraint_residual).max() < bound
    assert np.ptp(run.energy) < 1e-8 * run.energy[0]
    x = system.at(tuple(part[-1] for part in run.g))
    with gn.float64():
        mu = system.annihilator(x)
    assert (np.abs(mu @ run.xi[-1]) < 4e-16 * np.abs(mu) @ np.abs(run.xi[-1])).all()  # each row by its own entries


def bicycle_with_rider():
    """Bicycle of its benchmark's sizes on SE(3), the rider's trunk, arms and legs on springs."""
    spin, side = (0, 1, 0), {"damping": 2.0, "stiffness": 300.0}
    tilt = np.pi / 10
    steering = np.array([[np.cos(tilt), 0, -np.sin(tilt)], [0, 1, 0], [np.sin(tilt), 0, np.cos(tilt)]])
    head = np.array([0.9, 0.0, 0.6])
    fork = steering.T @ (np.array([1.02, 0.0, 0.35]) - head)
    links = [
        Link("frame", 15.0, (0.3, 0, 0.2), (0.5, 0.9, 0.6), "", Joint("free", "frame")),
        Link("rear", 2.0, (0, 0, 0), (0.0603, 0.12, 0.0603), "frame", Joint("continuous", "rear", spin)),
        Link("fork", 4.0, (0, 0, -0.1), (0.06, 0.06, 0.01), "frame",
             Joint("revolute", "steer", (0, 0, 1), head - [0, 0, 0.3], steering, damping=1.0)),
        Link("front", 3.0, (0, 0, 0), (0.1405, 0.28, 0.1405), "fork", Joint("continuous", "front", spin, fork)),
        Link("trunk", 40.0, (0, 0, 0.3), (2.0, 2.0, 0.5), "frame",
             Joint("revolute", "lean", (1, 0, 0), (0.3, 0, 0.6), **side)),
        Link("left arm", 4.0, (0.2, 0, 0), (0.02, 0.1, 0.1), "trunk",
             Joint("revolute", "left arm", spin, (0, 0.2, 0.5), **side)),
        Link("right arm", 4.0, (0.2, 0, 0), (0.02, 0.1, 0.1), "trunk",
             Joint("revolute", "right arm", spin, (0, -0.2, 0.5), **side)),
        Link("left leg", 8.0, (0, 0, -0.3), (0.3, 0.3, 0.05), "frame",
             Joint("revolute", "left leg", spin, (0.3, 0.1, 0.6), **side)),
        Link("right leg", 8.0, (0, 0, -0.3), (0.3, 0.3, 0.05), "frame",
             Joint("revolute", "right leg", spin, (0.3, -0.1, 0.6), **side)),
    ]  # fmt: skip
    return bodies.tree(links, contacts=[Wheel("rear", 0.3), Wheel("front", 0.35)], name="bicycle with rider")


@pytest.mark.slow
def test_a_bicycle_with_a_rider_of_five_joints():
    system = bicycle_with_rider()
    assert system.group.dim == 14
    upright = np.eye(4)
    upright[2, 3] = 0.3
    speed = 4.6
    g0, xi0 = bodies.start(
        system, {"frame": upright}, {"rear": speed / 0.3, "lean": 0.1, "frame": [0.0, 0.0, 0.0, speed, 0.0, 0.0]}
    )
    run = gn.solve(system, "gauss4", g0=g0, xi0=xi0, dt=2e-3, n_steps=1000)
    assert np.abs(run.constraint_residual).max() < 1e-13
    assert np.abs(run.holonomic_residual).max() < 1e-13
    assert np.diff(run.energy).max() < 1e-6  # dampers take energy
    told = str(system.check(at=g0))
    assert "no problem found" in told


@pytest.mark.slow
def test_a_bicycle_of_four_links_is_that_of_the_catalogue():
    """Accelerations at random states; z is down in the catalogue, so half a turn about x is between the two."""
    by_hand = gn.systems.whipple_bicycle()
    p = {name: np.asarray(value) for name, value in by_hand.parameters.items()}
    over = np.diag([1.0, -1.0, -1.0])
    front = np.array([p["w"] + p["c"], 0.0, p["rR"]])  # a point of the steer axis

    def at(r):
        return np.array([r[0], 0.0, r[1] + p["rR"]])

    def inertia(moments):
        xx, yy, zz, xz = moments
        return [[xx, 0, -xz], [0, yy, 0], [-xz, 0, zz]]

    def wheel(name, parent, place):
        diameter, axle = p[f"I{name}"]
        joint = Joint("revolute", f"theta_{name}", (0, -1, 0), over @ place)
        return Link(name, p[f"m{name}"], inertia=(diameter, axle, diameter), parent=parent, joint=joint)

    steer = Joint("revolute", "delta", (np.sin(p["tilt"]), 0, -np.cos(p["tilt"])), over @ front)
    links = [
        Link("B", p["mB"], over @ at(p["rB"]), inertia(p["IB"]), "", Joint("free", "frame")),
        Link("H", p["mH"], over @ (at(p["rH"]) - front), inertia(p["IH"]), "B", steer),
        wheel("R", "B", np.zeros(3)),
        wheel("F", "H", np.array([p["w"], 0.0, p["rR"] - p["rF"]]) - front),
    ]
    system = bodies.tree(
        links, contacts=[Wheel("R", p["rR"]), Wheel("F", p["rF"])], gravity=(0, 0, -p["g"]), name="bicycle"
    )
    turn, signs = np.diag([1.0, -1.0, -1.0, 1.0]), np.array([1.0, -1, -1, 1, -1, -1, 1, 1, 1])
    draws = np.random.default_rng(0)
    for _ in range(3):
        lean, angle = draws.uniform(-0.3, 0.3, 2)
        pose = np.eye(4)
        pose[1:3, 1:3] = [[np.cos(lean), -np.sin(lean)], [np.sin(lean), np.cos(lean)]]
        pose[2, 3] = 0.3
        rates = {"delta": draws.normal(), "theta_R": 5 * draws.normal()}
        g, xi = bodies.start(system, {"frame": pose, "delta": angle}, rates)
        with gn.float64():
            one = np.asarray(accelerations(system, 0.0, g, xi)[0])
            other = np.asarray(accelerations(by_hand, 0.0, (turn @ g[0] @ turn, g[1]), signs * xi)[0])
        np.testing.assert_allclose(signs * one, other, atol=1e-12 * np.abs(other).max())

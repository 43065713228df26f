"""Loops, springs between links and prescribed joints: published benchmarks, and an equation in one angle."""

import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import CAR_AXIS_END, SQUEEZER_END, SQUEEZER_START, bricard, car_axis, four_bars, governor, squeezer

import geonh as gn
from geonh import bodies
from geonh.bodies import Joint, Link, Loop, Spring
from geonh.bodies.ranks import evaluated_at


@pytest.mark.slow
def test_a_car_axis_with_moving_ends_is_that_of_the_test_set():
    system = car_axis()
    g0, xi0 = bodies.start(system, {"l": 0.5}, {"l": 0.0, "phi": -1.0})
    np.testing.assert_allclose(xi0, [1.0, 0.0, -1.0], atol=1e-12)
    run = gn.solve(system, "gauss6", g0=g0, xi0=xi0, dt=1e-3, n_steps=3000, save_every=3000)
    at = bodies.poses(system, tuple(part[-1] for part in run.g))
    (R, p), left = at["right"], at["left"][1]
    np.testing.assert_allclose(left[:2], CAR_AXIS_END[0], atol=1e-12)
    np.testing.assert_allclose((p + R @ [1, 0, 0])[:2], CAR_AXIS_END[1], atol=1e-12)
    assert np.abs(run.holonomic_residual).max() < 1e-14


@pytest.mark.slow
def test_a_squeezing_mechanism_is_that_of_the_test_set():
    """Six methods agree to 1e-11 with each other, and differ from the published angles, near 16 rad, by 1.4e-9."""
    system = squeezer()
    g0, xi0 = bodies.start(system, SQUEEZER_START)
    names = system.group.point_names
    np.testing.assert_allclose(g0, [SQUEEZER_START[name] for name in names], atol=1e-15)
    ends = []
    for method in ("gauss6", "rkmk6"):
        run = gn.solve(system, method, g0=g0, xi0=xi0, dt=0.03 / 6000, n_steps=6000)
        np.testing.assert_allclose(run.g[-1], [SQUEEZER_END[name] for name in names], atol=2e-9)
        assert np.abs(run.holonomic_residual).max() < 1e-14
        ends.append(run.g[-1])
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-11)


@pytest.mark.slow
@pytest.mark.parametrize("windows", [2, 10])
def test_four_bars_are_a_pendulum(windows):
    """All posts turn alike, through their singular flat places: the exact motion is that of one angle."""
    system = four_bars(windows)
    g0, xi0 = bodies.start(system, velocities={"q0": -1.0})
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=3000)
    assert np.abs(run.holonomic_residual).max() < 1e-13
    n = windows + 1
    inertia, weight = n / 3 + windows, 9.81 * (n / 2 + windows)
    alone = gn.System(
        gn.groups.Torus(1, ("q",)), metric=[inertia], potential=lambda x: weight * jnp.cos(x[0]), name="one angle"
    )
    exact = gn.solve(alone, "rkmk6", g0=[0.0], xi0=[-1.0], dt=1e-3, n_steps=3000)
    np.testing.assert_allclose(run.g[:, 0], exact.g[:, 0], atol=1e-7)
    np.testing.assert_allclose(np.ptp(run.energy), 0.0, atol=1e-6)


@pytest.mark.slow
def test_a_four_bar_is_told_where_it_is_singular():
    system = four_bars(1)
    flat = {"q0": -np.pi / 2, "q1": -np.pi / 2, "b0": np.pi / 2}
    g0, _ = bodies.start(system, flat)
    with pytest.raises(gn.IntegrationError, match="became dependent"):
        gn.solve(system, "rkmk4", g0=g0, xi0=np.zeros(3), dt=1e-3, n_steps=3)


@pytest.mark.slow
def test_bricard_has_a_redundant_row():
    system = bricard()
    assert system.rank.positions == 4
    assert len(system.held.names) == 5
    start = {f"q{i + 1}": np.pi / 2 for i in range(5)}
    g0, xi0 = bodies.start(system, start)
    run = gn.solve(system, "gauss4", g0=g0, xi0=xi0, dt=2e-3, n_steps=5000)
    assert np.abs(run.holonomic_residual).max() < 1e-13
    assert np.ptp(run.energy) < 1e-7
    assert np.ptp(run.g[:, 0]) > 0.5
    told = str(system.check(at=g0))
    assert "redundant: loop 'rod5 to frame'" in told


@pytest.mark.slow
def test_a_governor_keeps_its_momentum_and_loses_energy():
    """Of the shaft's momentum nothing is lost by the springs; their dampers take energy alone."""
    system = governor()
    g0, xi0 = bodies.start(system, {"s": 0.5, "a": np.pi / 6, "b": np.pi / 6}, {"angle": 2 * np.pi})
    run = gn.solve(system, "gauss4", g0=g0, xi0=xi0, dt=1e-3, n_steps=10_000)
    np.testing.assert_allclose(run.p_minus[:, 0], run.p_minus[0, 0], rtol=1e-12)
    assert np.diff(run.energy).max() < 1e-9 * run.energy[0]
    assert run.energy[0] - run.energy[-1] > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed", "prismatic", "cylindrical"])
def test_loops_stay_closed_along_a_run(kind):
    links = [*chain()[:1], Link("d", 1.0, (0, 0, 0), (0.1, 0.2, 0.3), "a", Joint("free", "d"))]
    system = bodies.tree(links, loops=[Loop("a", "d", kind, (0.3, 0.1, 0.2))])
    g0, xi0 = system.project(system.group.identity(), np.cos(np.arange(12)))
    run = gn.solve(system, "gauss4", g0=g0, xi0=np.asarray(xi0), dt=0.01, n_steps=200)
    assert np.abs(run.holonomic_residual).max() < 1e-13
    assert np.ptp(run.energy) < 1e-4


KINDS = ["spherical", "revolute", "fixed", "prismatic", "cylindrical", "planar", "slot", "rod"]


def chain():
    """Three links on joints of three coordinates each."""
    body = {"mass": 1.0, "inertia": (0.1, 0.2, 0.3)}
    joint = lambda name: Joint("spherical", name, place=(0.3, 0.2, -0.1))  # noqa: E731
    return [
        Link("a", **body, joint=Joint("free", "a")),
        Link("b", **body, parent="a", joint=joint("b")),
        Link("c", **body, parent="b", joint=joint("c")),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_loops_leave_what_their_joint_allows(kind):
    """Dimensions, and motions of the joint itself: turns about its axis, displacements along it."""
    rows = {
        "spherical": 3,
        "revolute": 5,
        "fixed": 6,
        "prismatic": 5,
        "cylindrical": 4,
        "planar": 3,
        "slot": 1,
        "rod": 1,
    }
    axis = np.array([2.0, -1.0, 2.0]) / 3
    length = {"length": 0.4, "other_place": (0.1, 0.0, 0.0)} if kind == "rod" else {}
    links = [*chain()[:1], Link("d", 1.0, (0, 0, 0), (0.1, 0.2, 0.3), "a", Joint("free", "d"))]
    system = bodies.tree(links, gravity=(0, 0, 0), loops=[Loop("a", "d", kind, (0.3, 0.1, 0.2), axis=axis, **length)])
    assert len(system.row_names) == rows[kind]
    g, _ = bodies.start(system)
    G = evaluated_at(system.tree, system.held, None, {})(g).G
    assert np.linalg.matrix_rank(G, tol=1e-9) == rows[kind]
    c = np.array([0.3, 0.1, 0.2])
    turn, shift = np.r_[np.zeros(6), axis, np.cross(c, axis)], np.r_[np.zeros(9), axis]
    turns = kind in ("spherical", "revolute", "cylindrical", "planar", "slot")
    shifts = kind in ("prismatic", "cylindrical", "slot")
    if kind != "rod":
        assert (np.abs(G @ turn).max() < 1e-12) == turns
        assert (np.abs(G @ shift).max() < 1e-12) == shifts
    run = gn.solve(
        system, "rkmk4", g0=g, xi0=np.asarray(system.project(g, np.cos(np.arange(12)))[1]), dt=0.01, n_steps=3
    )
    assert np.abs(run.holonomic_residual).max() < 1e-13


@pytest.mark.slow
def test_a_spring_between_links_is_that_of_a_prismatic_joint():
    """With its damper: ẍ = −(k/μ)(x − l) − (c/μ)ẋ of two masses on a line, the distance alone."""
    joints = [Joint("prismatic", "x", (1, 0, 0)), Joint("prismatic", "y", (1, 0, 0))]
    links = [Link("a", 2.0, joint=joints[0]), Link("b", 3.0, parent="a", joint=joints[1])]
    between = Spring("a", "b", 40.0, 0.5, 0.7)
    system = bodies.tree(links, springs=[between], varied=["spring a to b.stiffness"])
    run = gn.solve(system, "rkmk4", g0=[0.0, 0.6], xi0=[0.0, 0.0], dt=1e-3, n_steps=500)
    mu = 2.0 * 3.0 / 5.0
    d, w2 = 0.7 / (2 * mu), 40.0 / mu
    w, t = np.sqrt(w2 - d * d), run.t
    exact = 0.5 + 0.1 * np.exp(-d * t) * (np.cos(w * t) + d / w * np.sin(w * t))
    np.testing.assert_allclose(run.g[:, 1], exact, atol=1e-9)
    np.testing.assert_allclose(run.p_minus[:, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"loops": [Loop("a", "none")]}, "there is no link 'none'"),
        ({"loops": [Loop("a", "a")]}, "must connect two links"),
        ({"loops": ["a"]}, "loops must be a list of Loop"),
        ({"springs": [Spring("a", "none")]}, "there is no link 'none'"),
        ({"prescribed": {"none": jnp.sin}}, "prescribed: 'none' is no joint"),
        ({"prescribed": {"b": 1.0}}, "must be a function, got 1.0"),
    ],
)
def test_loops_and_springs_are_judged(more, words):
    with pytest.raises((ValueError, TypeError), match=words):
        bodies.tree(
            [Link("a", 1.0, inertia=(1, 1, 1), joint=Joint("revolute", "a")),
             Link("b", 1.0, inertia=(1, 1, 1), parent="a", joint=Joint("revolute", "b"))],
            **more,
        )  # fmt: skip


def test_loops_that_nothing_closes_are_refused():
    with pytest.raises(ValueError, match="nothing can close it"):
        bodies.tree(
            [Link("a", 1.0, inertia=(1, 1, 1), joint=Joint("revolute", "a")),
             Link("b", 1.0, inertia=(1, 1, 1), parent="a", joint=Joint("revolute", "b", place=(1, 0, 0)))],
            loops=[Loop("b", "", "spherical", (1, 0, 0), (0, 0, 1))],
        )  # fmt: skip
    with pytest.raises(ValueError, match="length of the loop"):
        Loop("a", "b", "rod")


@pytest.mark.slow
def test_a_start_has_prescribed_joints_at_its_time():
    links = [Link("a", 1.0, (0.1, 0, 0), (0.1, 0.1, 0.1), "", Joint("revolute"))]
    links.append(Link("b", 1.0, (0.1, 0, 0), (0.1, 0.1, 0.1), "a", Joint("prismatic", axis=(1, 0, 0))))
    system = bodies.tree(links, prescribed={"a": lambda t: 0.3 * jnp.sin(2 * t)})
    g0, xi0 = bodies.start(system, velocities={"b": 0.2}, t0=0.7)
    assert abs(g0[0][0] - 0.3 * np.sin(1.4)) < 1e-12
    assert gn.solve(system, g0=g0, xi0=xi0, t0=0.7, dt=0.01, n_steps=2).success

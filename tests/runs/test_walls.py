"""Walls of systems with modes: rebounds, corners, passages, however short, far or near to a node."""

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import FLOOR, G, free, rebounding, surface
from scipy.integrate import quad

import geonh as gn
from geonh.groups import SE2, SE3, Translations
from geonh.integrators import Result
from geonh.runs.locating import EventWarning


@pytest.mark.slow
def test_ten_thousand_bounces():
    run = gn.solve(rebounding(), "gauss4", mode="flight", g0=[0.05], xi0=[0.0], dt=0.05, n_steps=40_400)
    assert len(run.switches.t) >= 10_000
    assert np.ptp(run.energy) < 1e-10 * run.energy[0]
    assert run.g.min() > -1e-12


@pytest.mark.slow
def test_bounces_with_restitution_end_at_rest_or_in_words():
    """Flights last e times as long as those before: the last is at t₀(1 + e)/(1 − e)."""
    e = 0.6
    rest = gn.System(
        SE2(), metric=[1.0, 1.0, 1.0], distribution=gn.Distribution([[0.0, 1.0, 0.0]]), name="rest on an axis"
    )
    flight = gn.System(SE2(), metric=[1.0, 1.0, 1.0], potential=lambda x: G * x[1], name="flight")
    floor = gn.Event(lambda t, x, xi, lam: x[1], direction=-1, name="floor")
    bounce = lambda t, x, xi: xi.at[1].multiply(jnp.where(jnp.abs(xi[1]) > 1e-5, -e, 0.0))  # noqa: E731
    settle = lambda t, x, xi: "flight" if xi[1] > 0 else "rest"  # noqa: E731
    modes = gn.Modes({"flight": flight, "rest": rest}, [gn.Transition("flight", floor, settle, bounce)], name="lands")
    run = gn.solve(modes, "rkmk4", mode="flight", g0=[0.0, 1.0, 0.0], xi0=[0.0, 0.0, 0.7], dt=0.02, n_steps=150)
    once = np.sqrt(2 / G)
    assert abs(run.switches.t[-1] - once * (1 + e) / (1 - e)) < 1e-5
    assert list(run.mode[[0, -1]]) == ["flight", "rest"]
    assert run.xi[-1, 1] == 0.0
    ended = gn.solve(rebounding(e), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.02, n_steps=150, throw=False)
    assert ended.status is Result.SWITCHES
    assert "accumulate" in ended.message
    assert abs(ended.t[-1] - once * (1 + e) / (1 - e)) < 0.02


@pytest.mark.quick("0.5-0.0-corner0-0.1-0")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize(
    ("e", "angle", "corner", "dt"),
    [
        (0.5, 0.0, (0.0, 0.0), 0.1),
        (0.88, 0.3, (1.0, -2.0), 0.01),
        (0.52, -0.5, (21.0, 8.0), 0.004),
        (0.13, 0.4, (-150.0, 90.0), 0.002),
    ],
)
def test_rebounds_that_become_shorter_than_rounding_never_pass_the_wall(direction, e, angle, corner, dt):
    normal, corner = np.array([np.sin(angle), np.cos(angle)]), np.array(corner)
    flight = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], name="flight")
    wall = gn.Event(lambda t, x, xi, lam: jnp.dot(normal, x - corner), direction=direction, name="wall")
    rebound = lambda t, x, xi: xi - (1 + e) * jnp.dot(normal, xi) * normal  # noqa: E731
    modes = gn.Modes({"flight": flight}, [gn.Transition("flight", wall, "flight", rebound)], name="rebounds")
    start = {"mode": "flight", "xi0": 0.7 * np.array([np.cos(angle), -np.sin(angle)]), "dt": dt, "n_steps": 250}
    heights = np.array([0.05, 0.01])
    run = gn.solve(modes, "gauss4", g0=corner + 0.05 * normal, throw=False, **start)
    members = gn.solve_ensemble(modes, "gauss4", g0=corner + heights[:, None] * normal, **start)
    for one in (run, members[0], members[1]):
        gaps = (one.g - corner) @ normal
        assert gaps.min() >= -1e-12 * (1 + np.abs(corner).max())
        assert one.status is Result.SWITCHES


@pytest.mark.quick("0.01-0", "0.5--1")
@pytest.mark.filterwarnings("error::geonh.runs.locating.EventWarning")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize(
    "e", [0.01, 0.5, pytest.param(0.3, marks=pytest.mark.slow), pytest.param(0.9, marks=pytest.mark.slow)]
)
def test_rebounds_from_a_floor_at_zero_never_pass_it(e, direction):
    """Where the height is zero its rounding is none: rebounds become as short as 10⁻¹² of a step."""
    modes, start = rebounding(e, direction=direction), {"mode": "flight", "xi0": [0.0], "dt": 0.01, "n_steps": 130}
    run = gn.solve(modes, "gauss4", g0=[0.02], throw=False, **start)
    assert run.status is Result.SWITCHES
    assert run.g.min() > -1e-14
    assert abs(run.switches.t[-1] - (0.04 / G) ** 0.5 * (1 + e) / (1 - e)) < 1e-9


@pytest.mark.filterwarnings("error::geonh.runs.locating.EventWarning")
@pytest.mark.parametrize(
    ("factors", "e", "dt"),
    [
        ((1.0, 1.0), 0.3, 0.003),
        pytest.param((1.0, -2.0), 0.5, 0.05, marks=pytest.mark.slow),
        pytest.param((100.0, 0.01, 3.0), 0.7, 0.01, marks=pytest.mark.slow),
    ],
)
def test_rebounds_from_mode_to_mode_never_pass_a_wall_that_each_knows_by_a_function_of_its_own(factors, e, dt):
    n, rebound = len(factors), lambda t, x, xi: -e * xi
    heights = [gn.Event(lambda t, x, xi, lam, f=f: f * x[0], name=f"height {i}") for i, f in enumerate(factors)]
    flights = {
        str(i): gn.System(Translations(1), metric=[i + 1.0], potential=lambda x, m=i + 1: m * G * x[0])
        for i in range(n)
    }
    modes = gn.Modes(flights, [gn.Transition(str(i), heights[i], str((i + 1) % n), rebound) for i in range(n)])
    end = (0.8 / G) ** 0.5 * (1 + e) / (1 - e)
    run = gn.solve(modes, "gauss4", mode="0", g0=[0.4], xi0=[0.0], dt=dt, n_steps=int(end / dt) + 20, throw=False)
    assert run.status is Result.SWITCHES
    assert run.g.min() > -1e-13
    assert abs(run.switches.t[-1] - end) < 1e-9


@pytest.mark.parametrize(
    ("c", "dt", "v"),
    [
        (1000.0, 1e-2, 0.1),
        pytest.param(1000.0, 1e-4, 1e-3, marks=pytest.mark.slow),
        pytest.param(10.0, 1e-3, 1e-2, marks=pytest.mark.slow),
    ],
)
def test_a_surface_is_passed_slowly_and_far_away_as_often_as_the_motion_passes_it(c, dt, v):
    """Pulled back by a force of 1 N on either side of x = c, a body passes every 2v seconds at speed v; its place is
    rounded by more than it changes within a millionth of a step.
    """
    pulled = {s: gn.System(Translations(1), metric=[1.0], potential=lambda x, s=s: s * x[0]) for s in (1, -1)}
    surface = gn.Event(lambda t, x, xi, lam: x[0] - c, name="surface")
    modes = gn.Modes(
        {"above": pulled[1], "below": pulled[-1]},
        [gn.Transition("above", surface, "below"), gn.Transition("below", surface, "above")],
    )
    run = gn.solve(modes, mode="above", g0=[c + v**2 / 2], xi0=[0.0], dt=dt, n_steps=round(16.5 * v / dt))
    np.testing.assert_allclose(run.switches.t / v, 1 + 2 * np.arange(8), atol=1e-6)
    counted = gn.Modes({"free": free()}, [gn.Transition("free", surface, "free")])
    run = gn.solve(counted, mode="free", g0=[c - 3.3 * v * dt], xi0=[v], dt=dt, n_steps=7)
    assert len(run.switches.t) == 1


@pytest.mark.parametrize(
    "height",
    [
        lambda x: jnp.sqrt(x[0] ** 2 + (x[1] + 1) ** 2) - 1,
        pytest.param(lambda x: jnp.exp(x[1]) - 1, marks=pytest.mark.slow),
        pytest.param(lambda x: 0.3 + x[1] - 0.3, marks=pytest.mark.slow),
    ],
)
def test_a_guard_that_rounds_more_than_the_place_is_a_wall(height):
    flight = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], name="flight")
    wall = gn.Event(lambda t, x, xi, lam: height(x), name="wall")
    modes = gn.Modes({"flight": flight}, [gn.Transition("flight", wall, "flight", lambda t, x, xi: -0.5 * xi)])
    run = gn.solve(modes, "gauss4", mode="flight", g0=[0.0, 0.1], xi0=[0.0, 0.0], dt=0.01, n_steps=100, throw=False)
    assert run.status is Result.SWITCHES
    assert run.g.min() > -1e-14


@pytest.mark.quick("1-1.0-5e-07", "-1-1e-07-1.0")
@pytest.mark.parametrize(
    ("scale", "apart"),
    [(1.0, 5e-7), (1e-7, 1.0), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1.0, 1e-8), (1e-13, 1.0)))],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_walls_near_to_each_other_are_two(sign, scale, apart):
    """A surface and a wall behind it with parallel differentials, and the faces of a box."""
    turned = lambda t, x, xi: -xi  # noqa: E731
    near, far = (
        gn.Event(lambda t, x, xi, lam, f=f: scale * f(x[0]), name=name)
        for name, f in (("near", lambda x: x), ("far", lambda x: sign * (x - apart)))
    )
    modes = gn.Modes({"a": free(), "b": free()}, [gn.Transition("a", near, "b"), gn.Transition("b", far, "b", turned)])
    run = gn.solve(modes, mode="a", g0=[-0.5], xi0=[1.0], dt=0.07, n_steps=40)
    np.testing.assert_allclose(run.switches.t, [0.5, 0.5 + apart], rtol=1e-13)
    np.testing.assert_allclose(run.g[-1], 2 * apart + 0.5 - 2.8, atol=1e-13)
    box = gn.Modes({"a": free()}, [gn.Transition("a", one, "a", turned) for one in (near, far)])
    run = gn.solve(box, mode="a", g0=[0.4 * apart], xi0=[apart], dt=0.07, n_steps=60)
    np.testing.assert_allclose(run.switches.t, 0.6 + np.arange(4), rtol=1e-12)


@pytest.mark.parametrize("dt", [1e-2, 1e-7])
def test_a_pulse_is_as_short_as_given(dt):
    begin, length = 1.65e-6, 5e-7
    pulse = gn.System(Translations(1), metric=[1.0], potential=lambda x: -x[0] / length)
    begins, ends = (gn.Event(lambda t, x, xi, lam, s=s: t - s, name=f"at {s}") for s in (begin, begin + length))
    modes = gn.Modes(
        {"off": free(), "on": pulse, "done": free()},
        [gn.Transition("off", begins, "on"), gn.Transition("on", ends, "done")],
    )
    run = gn.solve(modes, mode="off", g0=[0.0], xi0=[0.0], dt=dt, n_steps=40)
    np.testing.assert_allclose(run.switches.t, [begin, begin + length], rtol=1e-9)
    np.testing.assert_allclose(run.xi[-1], 1.0, rtol=1e-8)


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("c", [100.0, pytest.param(1e4, marks=pytest.mark.slow)])
def test_a_multiple_zero_is_passed_once(c, factor):
    """Where the place is that of the zero exactly, the differential vanishes."""
    cube = gn.Event(lambda t, x, xi, lam: (x[0] - c) ** 3, name="cube")
    modes = gn.Modes({"a": free()}, [gn.Transition("a", cube, "a", lambda t, x, xi: factor * xi)])
    for before in (0.5, 0.123, 0.777):
        run = gn.solve(modes, mode="a", g0=[c - before], xi0=[1.0], dt=0.1, n_steps=20)
        assert len(run.switches.t) == 1
        np.testing.assert_allclose(run.g[-1], c + factor * (2.0 - before), atol=1e-5)


@pytest.mark.parametrize("floor", [0.0, pytest.param(1 / 3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("direction", [0, -1])
def test_a_reset_may_put_the_body_on_the_floor(direction, floor):
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0])
    lands = gn.Event(lambda t, x, xi, lam: x[0] - floor, direction=direction, name="floor")
    for e in (0.0, 0.5, 1.0):
        put = gn.Transition("flight", lands, "flight", lambda t, x, xi, e=e: (x.at[0].set(floor), -e * xi))
        run = gn.solve(
            gn.Modes({"flight": ball}, [put]),
            mode="flight",
            g0=[floor + 1.0],
            xi0=[0.0],
            dt=0.01,
            n_steps=200,
            throw=False,
        )
        assert run.g.min() >= floor - 1e-12
        assert run.status is (Result.SUCCESS if e == 1 else Result.SWITCHES)


@pytest.mark.quick("1.0-0.0001")
@pytest.mark.parametrize(
    ("radius", "dt"), [(1e3, 1e-2), (1.0, 1e-4), pytest.param(6.4e6, 1e-2, marks=pytest.mark.slow)]
)
def test_rebounds_end_in_words_where_one_mode_knows_the_wall_to_fewer_digits(radius, dt):
    flight = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], name="flight")
    exact = gn.Event(lambda t, x, xi, lam: x[1], name="height")
    rounded = gn.Event(lambda t, x, xi, lam: jnp.hypot(x[0], x[1] + radius) - radius, name="altitude")
    turn = lambda t, x, xi: -0.5 * xi  # noqa: E731
    modes = gn.Modes(
        {"a": flight, "b": flight}, [gn.Transition("a", exact, "b", turn), gn.Transition("b", rounded, "a", turn)]
    )
    once = 20 * dt / 3  # the limit is that of a node
    run = gn.solve(modes, mode="a", g0=[0.0, G * once**2 / 2], xi0=[0.0, 0.0], dt=dt, n_steps=40, throw=False)
    assert run.status is Result.SWITCHES
    assert abs(run.switches.t[-1] - 3 * once) < 0.01 * dt
    assert run.g[:, 1].min() > -1e-15 * (1 + radius)


@pytest.mark.parametrize(
    ("apart", "gravity", "dt"),
    [
        (1e-8, 10.0, 0.1),
        pytest.param(1e-10, 10.0, 0.01, marks=pytest.mark.slow),
        pytest.param(1e-6, 1e3, 0.1, marks=pytest.mark.slow),
    ],
)
def test_a_wall_right_behind_a_surface_holds_under_gravity(apart, gravity, dt):
    fall = gn.System(Translations(1), metric=[1.0], potential=lambda x: gravity * x[0], name="fall")
    surface_at, wall = (
        gn.Event(lambda t, x, xi, lam, d=d: x[0] + d, name=name) for name, d in (("surface", 0.0), ("wall", apart))
    )
    modes = gn.Modes(
        {"above": fall, "below": fall},
        [
            gn.Transition("above", surface_at, "below"),
            gn.Transition("below", wall, "below", lambda t, x, xi: -xi),
            gn.Transition("below", surface_at, "above"),
        ],
    )
    T = 2.3 * dt
    run = gn.solve(modes, mode="above", g0=[gravity * T**2 / 2], xi0=[0.0], dt=dt, n_steps=10)
    assert run.g.min() >= -apart - 1e-13
    assert [run.switches.names[i] for i in run.switches.target] == ["below", "below", "above"] * 2
    assert np.ptp(run.energy) < 1e-12 * run.energy[0]


@pytest.mark.quick("1000.0-0.0001-9.81-1.127e-05-0", "1000.0-0.0001-9.81-3.3984422e-06--1")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize(
    ("c", "dt", "gravity", "height"),
    [
        (1000.0, 1e-4, G, 1.127e-5),  # the last rebound is just before a node
        pytest.param(1000.0, 1e-4, G, 3.9807717e-6, marks=pytest.mark.slow),  # a node is zero by rounding
        (1000.0, 1e-4, G, 3.3984422e-6),  # the same, from which members go on in lanes
        pytest.param(0.0, 1 / 16, 8.0, 0.25, marks=pytest.mark.slow),  # the limit is that of a node
        pytest.param(0.5, 1 / 16, 8.0, 0.25, marks=pytest.mark.slow),
    ],
)
def test_rebounds_that_accumulate_near_nodes_end_in_words(c, dt, gravity, height, direction):
    flight = gn.System(Translations(1), metric=[1.0], potential=lambda x: gravity * x[0], name="flight")
    modes = gn.Modes(
        {"flight": flight}, [gn.Transition("flight", surface(c, direction), "flight", lambda t, x, xi: -0.5 * xi)]
    )
    run = gn.solve(modes, "gauss4", mode="flight", g0=[c + height], xi0=[0.0], dt=dt, n_steps=80, throw=False)
    assert run.status is Result.SWITCHES
    assert run.g.min() - c > -1e-12 * max(1, c / 100)  # sums of roundings of a hundred rebounds
    assert abs(run.switches.t[-1] - 3 * (2 * height / gravity) ** 0.5) < max(0.01 * dt, 1e-4 * c**0.5)
    member = gn.solve_ensemble(modes, "gauss4", mode="flight", g0=[[c + height]], xi0=[[0.0]], dt=dt, n_steps=80)[0]
    np.testing.assert_array_equal(member.switches.t, run.switches.t)


def planar_rebound(g, xi, n, e):
    """Velocity on SE(2) after an impact of the centre on a wall with normal n."""
    c, s = jnp.cos(g[0]), jnp.sin(g[0])
    across = jnp.stack([c * n[0] + s * n[1], c * n[1] - s * n[0]])
    return xi.at[1:3].add(-(1 + e) * (across @ xi[1:3]) * across)


@pytest.mark.parametrize("direction", [0, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "c", [1e4, pytest.param(-1e4, marks=pytest.mark.slow), pytest.param(3e3, marks=pytest.mark.slow)]
)
def test_a_last_rebound_a_few_roundings_high_before_a_node(c, direction):
    n, gravity, dt = np.array([0.6, 0.8]), 8.0, 0.1
    body = gn.System(SE2(), metric=[0.3, 1.0, 1.0], potential=lambda g: gravity * (n @ g[1:3]))
    wall = gn.Event(lambda t, g, xi, lam: n @ g[1:3] - c, direction=direction, name="wall")
    modes = gn.Modes({"a": body}, [gn.Transition("a", wall, "a", lambda t, g, xi: planar_rebound(g, xi, n, 0.5))])
    start = {"g0": [0.4, *((c + gravity * (6 * dt) ** 2 / 2) * n)], "xi0": [0.0, 0.0, 0.0]}  # at a node, as the limit
    run = gn.solve(modes, "rkmk4", mode="a", **start, dt=dt, n_steps=24, throw=False)
    assert run.status is Result.SWITCHES
    assert abs(run.switches.t[-1] - 18 * dt) < 1e-3
    assert (run.g[:, 1:3] @ n - c).min() > -1e-13 * abs(c)


@pytest.mark.quick("1000.0-0-gauss4")
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize("c", [7.0, 100.0, 1e3, 1e4])
def test_a_wall_that_one_mode_knows_in_axes_of_the_body(c, direction, method):
    """Its guard multiplies rotations by coordinates: the rounding of the one is not that of the other."""
    n, gravity, dt = np.array([2.0, 3.0, 6.0]) / 7, 8.0, 1 / 16
    body = gn.System(SE3(), metric=[0.1, 0.2, 0.25, 1, 1, 1], potential=lambda g: gravity * (n @ g[:3, 3]))

    def rebound(t, g, xi):
        across = g[:3, :3].T @ n
        return xi.at[3:].add(-1.5 * (across @ xi[3:]) * across)

    in_space = gn.Event(lambda t, g, xi, lam: n @ g[:3, 3] - c, direction=direction, name="in space")
    in_body = gn.Event(
        lambda t, g, xi, lam: (g[:3, :3].T @ n) @ (g[:3, :3].T @ g[:3, 3]) - c, direction=direction, name="in body"
    )
    modes = gn.Modes(
        {"a": body, "b": body},
        [gn.Transition("a", in_space, "b", rebound), gn.Transition("b", in_body, "a", rebound)],
    )
    g0 = np.eye(4)
    g0[:3, 3] = (c + gravity * (6 * dt) ** 2 / 2) * n
    start = {"g0": g0, "xi0": [0.7, -0.5, 0.9, 0.0, 0.0, 0.0]}
    run = gn.solve(modes, method, mode="a", **start, dt=dt, n_steps=24, throw=False)
    assert run.status is Result.SWITCHES
    assert abs(run.switches.t[-1] - 18 * dt) < 1e-3
    assert (run.g[:, :3, 3] @ n - c).min() > -1e-12 - 1e-13 * c


@pytest.mark.parametrize("off", [1e-12, 1e-3])
def test_a_reset_to_a_place_off_the_group_is_refused(off):
    body = gn.System(SE3(), metric=[0.1, 0.2, 0.25, 1, 1, 1], potential=lambda g: G * g[2, 3])
    floor = gn.Event(lambda t, g, xi, lam: g[2, 3], direction=-1, name="floor")
    modes = gn.Modes({"a": body}, [gn.Transition("a", floor, "a", lambda t, g, xi: (g.at[0, 1].add(off), -0.5 * xi))])
    g0, dt = np.eye(4), 0.05
    g0[2, 3] = 0.5
    settings = {"mode": "a", "dt": dt, "n_steps": 8}
    if off > 1e-9:
        with pytest.raises(ValueError, match=r"reset of 'floor' at t = 0\.319\d*: g does not lie on SE\(3\)"):
            gn.solve(modes, g0=g0, xi0=np.zeros(6), **settings)
    else:
        R = gn.solve(modes, g0=g0, xi0=np.zeros(6), **settings).g[-1, :3, :3]
        np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-15)


@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_both_walls_of_a_corner_are_met_from_mode_to_mode_with_guards_of_their_own(factor):
    turn = [lambda t, x, xi, i=i: xi.at[i].multiply(-1.0) for i in (0, 1)]
    wall = [
        [gn.Event(lambda t, x, xi, lam, i=i, f=f: f * x[i], name=f"{f}, {i}") for i in (0, 1)] for f in (1.0, factor)
    ]
    plane = gn.System(Translations(2), metric=[1.0, 1.0], name="plane")
    modes = gn.Modes(
        {"a": plane, "b": plane},
        [gn.Transition("ab"[j], wall[j][i], "ba"[j], turn[i]) for j in (0, 1) for i in (0, 1)],
    )
    run = gn.solve(modes, "gauss4", mode="a", g0=[0.5, 0.5], xi0=[-1.0, -1.0], dt=0.07, n_steps=15)
    np.testing.assert_allclose(run.switches.t, [0.5, 0.5], atol=1e-14)
    np.testing.assert_allclose(run.g[-1], 15 * 0.07 - 0.5, atol=1e-13)


@pytest.mark.parametrize("factor", [1.0, pytest.param(-3.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("beyond", "kick", "n"), [(-1.0, 0.0, 1), (-0.5, 0.0, 1), (1.0, 0.0, 1), (-1.0, 0.3, 2)])
def test_a_velocity_that_passes_zero_from_mode_to_mode(beyond, kick, n, factor):
    """The force goes on, is another, turns round, or the velocity is kicked back, and vanishes again."""
    pushed = {f: gn.System(Translations(1), metric=[1.0], potential=lambda x, f=f: -f * x[0]) for f in (-1.0, beyond)}
    turns = gn.Event(lambda t, x, xi, lam: xi[0], name="turns")
    again = turns if factor == 1 else gn.Event(lambda t, x, xi, lam: factor * xi[0], name="again")
    kicked = gn.Transition("a", turns, "b", lambda t, x, xi: xi + kick)
    modes = gn.Modes({"a": pushed[-1.0], "b": pushed[beyond]}, [kicked, gn.Transition("b", again, "a")])
    run = gn.solve(modes, "gauss4", mode="a", g0=[0.0], xi0=[0.5], dt=0.07, n_steps=20)
    np.testing.assert_allclose(run.switches.t, [0.5, 0.5 + kick][:n], atol=1e-13)
    np.testing.assert_allclose(run.xi[-1], 0.9 * beyond + kick, atol=1e-12)


@pytest.mark.parametrize("floor", [0.3, *(pytest.param(s, marks=pytest.mark.slow) for s in (1 / 3, 10.7))])
@pytest.mark.parametrize("direction", [0, -1])
def test_a_start_on_the_floor_up_to_rounding_is_thrown_up(floor, direction):
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0])
    lands = gn.Event(lambda t, x, xi, lam: x[0] - floor, direction=direction, name="floor")
    modes = gn.Modes({"flight": ball}, [gn.Transition("flight", lands, "flight", lambda t, x, xi: -0.8 * xi)])
    for start in (floor, np.nextafter(floor, -1), np.nextafter(floor, 99)):
        run = gn.solve(modes, "gauss4", mode="flight", g0=[start], xi0=[3.0], dt=0.01, n_steps=100)
        np.testing.assert_allclose(run.switches.t, [6 / G], rtol=1e-12)


def test_a_spring_far_from_the_origin_does_not_gain_energy_by_rounding():
    spring = gn.System(Translations(1), metric=[1.0], potential=lambda x: 0.5 * (x[0] - 1e5) ** 2)
    never = gn.Event(lambda t, x, xi, lam: x[0] - 1e5 + 1, direction=-1, name="wall")
    modes = gn.Modes({"swings": spring}, [gn.Transition("swings", never, "swings", lambda t, x, xi: -xi)])
    assert gn.solve(modes, mode="swings", g0=[1e5 + 1e-3], xi0=[0.0], dt=1e-3, n_steps=2000).success


@pytest.mark.quick("0-0.3333333333333333", "-1-0.0")
@pytest.mark.parametrize(("direction", "gap"), [(0, 0.0), (0, 1 / 3), (-1, 0.0), (-1, 1 / 3)])
def test_balls_that_touch_at_rest(direction, gap):
    """A guard without direction does not know which side of its zero is which: it warns where the motion leaves it."""

    def exchange(i):
        return lambda t, x, xi: xi.at[i].set(xi[i + 1]).at[i + 1].set(xi[i])

    gaps = [
        gn.Event(lambda t, x, xi, lam, i=i: x[i + 1] - x[i] - gap, direction=direction, name=f"gap {i}") for i in (0, 1)
    ]
    balls = gn.System(Translations(3), metric=np.ones(3), name="balls")
    cradle = gn.Modes({"free": balls}, [gn.Transition("free", gaps[i], "free", exchange(i)) for i in (0, 1)])
    given = {"mode": "free", "g0": [-0.5, gap, 2 * gap], "xi0": [1.0, 0.0, 0.0], "dt": 0.01, "n_steps": 100}
    if direction:
        np.testing.assert_allclose(gn.solve(cradle, **given).xi[-1], [0.0, 0.0, 1.0], atol=1e-13)
        return
    with pytest.warns(
        EventWarning, match=r"'gap 1' leaves the zero at which it rested at t = 0\.(5|1667): .* direction"
    ):
        gn.solve(cradle, **given)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::geonh.runs.locating.EventWarning")
@pytest.mark.parametrize("direction", [0, -1])
def test_members_that_rebound_from_a_floor_at_zero_never_pass_it(direction):
    modes, start = rebounding(0.5, direction=direction), {"mode": "flight", "xi0": [0.0], "dt": 0.01, "n_steps": 130}
    members = gn.solve_ensemble(modes, "gauss4", g0=np.linspace(0.01, 0.02, 9)[:, None], **start)
    run = gn.solve(modes, "gauss4", g0=[0.02], throw=False, **start)
    assert (members.status == Result.SWITCHES).all()
    np.testing.assert_array_equal(members[8].switches.t, run.switches.t)


@pytest.mark.quick("0.1-0.0-0", "0.01-13000.0--1", "0.1-1400000.0-0")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize("height", [0.0, 1.3e4, 1.4e6, 1e3, 1.1e5])
@pytest.mark.parametrize("dt", [0.1, 0.01, 0.001])
def test_rebounds_far_from_the_origin_are_counted_once(direction, height, dt):
    """There rounding of the place is more than the motion in 10⁻⁹ of a step."""
    values = {"floor": height, "e": 0.8}
    flight = gn.System(Translations(1), metric=[1.0], potential=lambda x, p: G * x[0], parameters=values, name="flight")
    floor = gn.Event(lambda t, x, xi, lam, p: x[0] - p["floor"], direction=direction, name="floor")
    rebound = lambda t, x, xi, p: -p["e"] * xi  # noqa: E731
    modes = gn.Modes({"flight": flight}, [gn.Transition("flight", floor, "flight", rebound)])
    for e in (0.8, 1.0):
        for drop in (0.0102, 0.0131, 0.0174, 0.0199):
            fall = (2 * drop / G) ** 0.5
            times = fall + 2 * fall * np.cumsum([0.0, *(e ** np.arange(1, 5))])
            n = int((times[-2] + times[-1]) / 2 / dt)
            start = {"mode": "flight", "g0": [height + drop], "xi0": [0.0], "dt": dt, "n_steps": n}
            run = gn.solve(modes.with_parameters(e=e), "gauss4", **start)
            expected = times[times < n * dt]
            assert len(run.switches.t) == len(expected)
            np.testing.assert_allclose(run.switches.t, expected, atol=1e-7 * (1 + height) ** 0.5)


def relay():
    """A particle that is pushed back from both sides of zero; its guards are crossed both ways."""
    side = gn.Event(lambda t, x, xi, lam: x[0], name="zero")
    left = gn.System(Translations(1), metric=[1.0], potential=lambda x: -2.0 * x[0])
    right = gn.System(Translations(1), metric=[1.0], potential=lambda x: 3.0 * x[0])
    return gn.Modes(
        {"left": left, "right": right}, [gn.Transition("left", side, "right"), gn.Transition("right", side, "left")]
    )


@pytest.mark.slow
def test_a_guard_that_both_modes_have_is_crossed_once():
    """The instant is known to rounding, on either side of zero: from there no guard or event is crossed once more."""
    rng, seen, modes = np.random.default_rng(0), gn.Event(lambda t, x, xi, lam: x[0], name="seen"), relay()
    for _ in range(12):
        start = {"g0": [-rng.uniform(0.1, 2.0)], "xi0": [rng.normal()]}
        run = gn.solve(modes, "gauss4", mode="left", **start, dt=0.05, n_steps=60, events=seen)
        away = np.abs(run.g[:, 0]) > 1e-9
        np.testing.assert_array_equal(run.mode[away], np.where(run.g[away, 0] < 0, "left", "right"))
        assert len(run.switches.t) > 0
        np.testing.assert_allclose(run.events["seen"].t, run.switches.t, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_a_guard_is_zero_at_nodes():
    """sin πt is zero by rounding at nodes, on either side."""
    left, right = relay().systems
    clock = gn.Event(lambda t, x, xi, lam: jnp.sin(jnp.pi * t), name="clock")
    modes = gn.Modes(
        {"left": left, "right": right}, [gn.Transition("left", clock, "right"), gn.Transition("right", clock, "left")]
    )
    given = {"mode": "left", "g0": [0.0], "xi0": [1.0], "dt": 0.05}
    run = gn.solve(modes, "gauss4", **given, n_steps=70)
    np.testing.assert_allclose(run.switches.t, [1.0, 2.0, 3.0], rtol=0, atol=1e-14)
    on = gn.resume(gn.solve(modes, "gauss4", **given, n_steps=20), n_steps=50)
    np.testing.assert_array_equal(on.g_vector, run.g_vector)


def test_a_guard_with_a_direction_is_past_zero_where_it_leads_there():
    """From the floor downwards at once, not through it; at rest there is no end of impacts."""
    run = gn.solve(rebounding(0.5), "gauss4", mode="flight", g0=[0.0], xi0=[-1.0], dt=0.01, n_steps=8)
    assert run.switches.t[0] == 0.0
    np.testing.assert_allclose(run.g[-1], 0.5 * run.t[-1] - G * run.t[-1] ** 2 / 2, atol=1e-14)
    rest = gn.solve(rebounding(0.5), "gauss4", mode="flight", g0=[0.0], xi0=[0.0], dt=0.01, n_steps=8, throw=False)
    assert rest.status is Result.SWITCHES


@pytest.mark.quick("1.2-0.05-rkmk4")
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("dt", [0.1, 0.05, 0.01])
@pytest.mark.parametrize("s", [0.3, 0.7, 1.0, 1.2])
def test_transitions_at_nodes(method, dt, s):
    """At instants that are those of nodes, up to rounding, each event is found once, and each guard crossed once."""
    wanted = {"dt": dt, "method": method, "mode": "a", "g0": [0.0], "xi0": [1.0], "n_steps": int(1.5 / dt)}
    clock, minus = (
        gn.Event(f, name=n) for n, f in (("clock", lambda t, *_: t - s), ("minus", lambda t, x, *_: s - x[0]))
    )
    events = [clock, minus, surface(s, name="same")]
    for reset in (None, lambda t, x, xi: 0.5 * xi):
        modes = gn.Modes({"a": free(), "b": free()}, [gn.Transition("a", surface(s), "b", reset)])
        run = gn.solve(modes, **wanted, events=events)
        for found in (run.switches, *run.events.values()):
            np.testing.assert_allclose(found.t, [s], atol=1e-13)
        stopped = gn.solve(modes, **wanted, events=gn.Event(clock.function, stop=True))
        assert stopped.status is Result.EVENT
        assert len(stopped.switches.t) == 0
    chain = [gn.Transition("a", surface(s), "b"), gn.Transition("b", surface(s), "c")]
    run = gn.solve(gn.Modes({"a": free(), "b": free(), "c": free()}, chain), **wanted)
    np.testing.assert_allclose(run.switches.t, [s, s], atol=1e-13)
    np.testing.assert_allclose(run.g[:, 0], run.t, atol=1e-13)
    back = lambda t, x, xi: -xi  # noqa: E731
    walls = [gn.Transition("a", surface(s), "a", back), gn.Transition("a", surface(0.0, -1, "wall"), "a", back)]
    run = gn.solve(gn.Modes({"a": free()}, walls), **wanted | {"g0": [0.1], "n_steps": int(5 / dt)})
    np.testing.assert_allclose(run.switches.t, s * np.arange(1, len(run.switches.t) + 1) - 0.1, atol=1e-12)
    np.testing.assert_allclose(run.g[:, 0], np.abs((run.t + 0.1 + s) % (2 * s) - s), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("n", [3000, 20_000])
def test_walls_hold_for_long_at_instants_near_nodes(n, method, direction):
    """Impacts wander over instants at nodes by rounding."""
    back = lambda t, x, xi: -xi  # noqa: E731
    left, right = surface(0.0, -direction, "left"), surface(0.6, direction, "right")
    walls = gn.Modes({"a": free()}, [gn.Transition("a", right, "a", back), gn.Transition("a", left, "a", back)])
    events = surface(0.6, 0, "at right"), surface(0.0, 0, "at left")
    run = gn.solve(walls, method, mode="a", g0=[0.1], xi0=[1.0], dt=0.1, n_steps=n, events=events)
    assert len(run.switches.t) == n // 6
    assert (run.g.min(), run.g.max()) == pytest.approx((0.0, 0.6), abs=1e-11)
    assert [len(section.t) for section in run.events.values()] == [(n + 6) // 12, n // 12]


def test_events_just_after_a_transition_just_before_a_node():
    draw = np.random.default_rng(3)
    modes = gn.Modes({"a": free(), "b": free()}, [gn.Transition("a", surface(0.3), "b", lambda t, x, xi: 0.5 * xi)])
    events = surface(0.3, name="same"), gn.Event(lambda t, *_: t - 0.3, name="clock")
    for before in [*10.0 ** draw.uniform(-14, -6, 30), *-(10.0 ** draw.uniform(-14, -6, 10)), 1.2e-13, 1.6e-13]:
        run = gn.solve(modes, "rkmk4", mode="a", g0=[before], xi0=[1.0], dt=0.1, n_steps=10, events=events)
        assert [len(found.t) for found in (run.switches, *run.events.values())] == [1, 1, 1], before


def test_the_first_guard_in_the_list_is_crossed_at_one_instant():
    guards = surface(0.4, 1, "place"), gn.Event(lambda t, *_: t - 0.4, direction=1, name="clock")
    for first in (0, 1):
        transitions = [gn.Transition("a", guard, target) for guard, target in zip(guards, "bc", strict=True)]
        modes = gn.Modes({name: free() for name in "abc"}, transitions[:: -1 if first else 1])
        for dt in (0.05, 0.0625, 0.07, 0.1):
            run = gn.solve(modes, mode="a", g0=[0.0], xi0=[1.0], dt=dt, n_steps=int(0.6 / dt))
            assert run.mode[-1] == "bc"[first]
            assert len(run.switches.t) == 1


def corner(directions, e=-1.0):
    """Ball in a corner of walls at 0.6, each of which turns its coordinate of the velocity, or lets it through."""
    walls = [
        gn.Event(lambda t, x, xi, lam, i=i: x[i] - 0.6, direction=direction, name=f"wall {i}")
        for i, direction in enumerate(directions)
    ]
    resets = [lambda t, x, xi, i=i: xi.at[i].multiply(e) for i in range(len(walls))]
    ball = gn.System(Translations(len(walls)), metric=np.eye(len(walls)))
    transitions = [gn.Transition("ball", wall, "ball", reset) for wall, reset in zip(walls, resets, strict=True)]
    return gn.Modes({"ball": ball}, transitions)


@pytest.mark.quick(
    "0.1-directions0--1.0-gauss4",
    "0.07-directions1-1.0-rkmk4",
    "0.1-directions2--1.0-rkmk4",
    "0.07-directions4--1.0-gauss4",
)
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize(
    ("directions", "e"), [((0, 0), -1.0), ((0, 0), 1.0), ((1, 0), -1.0), ((0, 1), -1.0), ((0, 0, 0), -1.0)]
)
@pytest.mark.parametrize("dt", [0.1, 0.07])
def test_all_walls_of_a_corner_are_met(dt, directions, e, method):
    modes, one = corner(directions, e), np.ones(len(directions))
    wanted = {"mode": "ball", "g0": 0.1 * one, "dt": dt, "method": method}
    run = gn.solve(modes, **wanted, xi0=one, n_steps=12)
    np.testing.assert_allclose(run.switches.t, 0.5 * one, atol=1e-13)
    np.testing.assert_allclose(run.g[-1], (0.6 + e * (12 * dt - 0.5)) * one, atol=1e-12)
    for k in range(2, 11):
        again = gn.resume(gn.solve(modes, **wanted, xi0=one, n_steps=k), 12 - k)
        np.testing.assert_array_equal(again.g, run.g)
    ensemble = gn.solve_ensemble(modes, **wanted, xi0=np.array([one, 0.5 * one]), n_steps=12, save_every=1)
    np.testing.assert_array_equal(ensemble[0].g, run.g)
    with gn.float64():
        traced = gn.integrate(modes, **wanted, xi0=one, n_steps=12)
    np.testing.assert_array_equal(traced.g[-1], run.g[-1])


@pytest.mark.quick("directions0-3", "directions1-6", "directions2-2")
@pytest.mark.parametrize("number", [2, 3, 4, 6])
@pytest.mark.parametrize("directions", [(0, 0), (0, -1), (-1, 0)])
def test_a_ball_leaves_a_wedge_after_as_many_walls(number, directions):
    """In a wedge of π/n there are n bounces at one instant, and the ball goes back, or to the mirror image."""
    angle = np.pi / number
    normals = np.array([[0.0, 1.0], [np.sin(angle), -np.cos(angle)]])
    transitions = [
        gn.Transition(
            "ball",
            gn.Event(lambda t, x, xi, lam, n=n: n @ x, direction=direction, name=f"wall {i}"),
            "ball",
            lambda t, x, xi, n=n: xi - 2 * (n @ xi) * jnp.asarray(n),
        )
        for i, (n, direction) in enumerate(zip(normals, directions, strict=True))
    ]
    modes = gn.Modes({"ball": corner((0, 0)).systems[0]}, transitions)
    for T, part in ((0.6, 0.2), (0.55, 0.7)):
        way = np.array([np.cos(part * angle), np.sin(part * angle)])
        run = gn.solve(modes, mode="ball", g0=T * way, xi0=-way, dt=0.1, n_steps=10)
        assert len(run.switches.t) == number
        end = (1.0 - T) * run.xi[-1]
        np.testing.assert_allclose(run.g[-1], end, atol=1e-12)
        assert (normals @ run.g[-1] > 0).all()


@pytest.mark.quick("directions0")
@pytest.mark.parametrize("directions", [(0, 0), (0, -1), (-1, 0)])
def test_slow_approaches_and_far_corners(directions):
    """At a corner walls are met that the motion approaches slowly after another one, or whose values are rounded."""
    ball = corner((0, 0)).systems[0]

    def walls(normals, place, e):
        transitions = [
            gn.Transition(
                "ball",
                gn.Event(lambda t, x, xi, lam, n=n: n @ (x - place), direction=direction, name=f"wall {i}"),
                "ball",
                lambda t, x, xi, n=n: xi - (1 + e) * (n @ xi) * n,
            )
            for i, (n, direction) in enumerate(zip(np.array(normals), directions, strict=True))
        ]
        return gn.Modes({"ball": ball}, transitions)

    slow = [[0.23823126018508461, -0.9712084568570367], [2**-0.5] * 2]
    corners = [(slow, [0.0, 0.0], 0.5, [-0.576, 0.0], 4), (np.eye(2), [1e4, 2e4], 1.0, [-0.7, -0.9], 2)]
    for normals, place, e, v, n in corners:
        modes, v = walls(normals, np.array(place), e), np.array(v)
        for T in (0.3, 0.1, 0.17):
            start = {"mode": "ball", "g0": np.array(place) - v * T, "xi0": v, "dt": 0.1}
            run = gn.solve(modes, **start, n_steps=12)
            assert len(run.switches.t) == n
            assert (np.array(normals) @ (run.g[-1] - place)).min() > 0
            resumed = gn.resume(gn.solve(modes, **start, n_steps=round(T / 0.1)), 12 - round(T / 0.1))
            np.testing.assert_array_equal(resumed.g, run.g)


@pytest.mark.quick("0.05-0-gauss4", "0.01-1-rkmk4")
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("dt", [0.05, 0.01])
def test_a_string_goes_slack_and_taut_once(dt, direction, method):
    """The guard of its return is zero where it goes slack, and leaves zero by the third power of the time."""
    settings = {"metric": [1.0, 1.0], "potential": lambda x: G * x[1]}
    taut = gn.System(Translations(2), holonomic=lambda x: jnp.stack([jnp.hypot(x[0], x[1]) - 1.0]), **settings)
    tension = gn.Event(lambda t, x, xi, lam: -lam[0], direction=-1, name="tension")
    length = gn.Event(lambda t, x, xi, lam: x[0] ** 2 + x[1] ** 2 - 1.0, direction=direction, name="length")
    transitions = [gn.Transition("taut", tension, "slack"), gn.Transition("slack", length, "taut")]
    modes = gn.Modes({"taut": taut, "slack": gn.System(Translations(2), **settings)}, transitions)
    start = {"mode": "taut", "g0": [0.0, -1.0], "xi0": [(3.2 * G) ** 0.5, 0.0]}
    run = gn.solve(modes, method, **start, dt=dt, n_steps=round(1.5 / dt))
    up = 0.4  # −cos θ where the tension vanishes: v² = G (1.2 + 2 cos θ) = −G cos θ
    lift = quad(lambda angle: (G * (1.2 + 2 * np.cos(angle))) ** -0.5, 0.0, np.arccos(-up), epsabs=1e-12)[0]
    flight = 4 * (up * (1 - up**2)) ** 0.5 / G**0.5  # along the parabola to the circle
    np.testing.assert_allclose(run.switches.t, [lift, lift + flight], atol=2e-4 * (dt / 0.05) ** 4)


@pytest.mark.quick("13.08-3-1")
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("length", [1.0, 13.08, 0.13, 2.0, 11.12, 870.0, 9800.0])
def test_strings_of_all_lengths_go_slack_and_taut_once(length, dimension, direction):
    settings = {"metric": [1.0] * dimension, "potential": lambda x: G * x[1]}
    excess = lambda x: (x @ x - length**2) / (2 * length)  # noqa: E731
    taut = gn.System(Translations(dimension), holonomic=lambda x: jnp.stack([excess(x)]), **settings)
    loose = gn.Event(lambda t, x, xi, lam: lam[0], direction=direction, name="loose")
    tightens = gn.Event(lambda t, x, xi, lam: excess(x), direction=direction, name="tightens")
    transitions = [gn.Transition("taut", loose, "slack"), gn.Transition("slack", tightens, "taut")]
    modes = gn.Modes({"taut": taut, "slack": gn.System(Translations(dimension), **settings)}, transitions)
    unit, rest = (length / G) ** 0.5, [0.0] * (dimension - 2)
    start = {"g0": [0.0, -length, *rest], "xi0": [1.75 * (G * length) ** 0.5, 0.0, *rest]}
    run = gn.solve(modes, "gauss6", mode="taut", **start, dt=0.01 * unit, n_steps=450)
    np.testing.assert_allclose(run.switches.t / unit, [1.50817803, 3.73435723], atol=1e-7)  # by SciPy's DOP853
    assert abs(np.linalg.norm(run.g, axis=1).min() / length - 0.5936417) < 1e-4


@pytest.mark.quick("0.7-0", "2.3--1")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize("w", [0.7, 1 / 3, 2.3])
def test_a_plastic_impact_is_one_transition(w, direction):
    wall = gn.Event(lambda t, x, xi, lam: w - x[0], direction=direction)
    modes = gn.Modes(
        {"a": corner((0, 0)).systems[0]}, [gn.Transition("a", wall, "a", lambda t, x, xi: xi.at[0].set(0.0))]
    )
    for T in (0.55, 0.6, 0.37):
        run = gn.solve(modes, mode="a", g0=[0.0, 0.0], xi0=[w / T, 1.0], dt=0.1, n_steps=10)
        assert len(run.switches.t) == 1
        np.testing.assert_allclose(run.g[-1], [w, 1.0], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1e-15, 1e-13, 1e-12, 2e-12, 4e-12, 6e-12, 1e-11, 2e-11, 1e-10])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("k", [3, 300])
def test_walls_met_one_shortly_after_the_other(k, sign, apart):
    """However near to each other and to a node, both walls are met; events there are found once."""
    first = 0.6 - 0.1 * k
    event = gn.Event(lambda t, x, xi, lam: x[1] - 0.6, name="line")
    for directions in ((0, 0), (1, 0), (0, 1)):
        wanted = {"g0": [first, first - 0.1 * sign * apart], "xi0": [1.0, 1.0], "dt": 0.1, "n_steps": k + 8}
        run = gn.solve(corner(directions), mode="ball", **wanted)
        assert len(run.switches.t) == 2
        np.testing.assert_allclose(run.g[-1], -0.2, atol=1e-11)
    for slower in (1.0, 0.5):
        line = gn.Transition("a", surface(0.6), "b", lambda t, x, xi, slower=slower: slower * xi)
        modes = gn.Modes({name: corner((0, 0)).systems[0] for name in "ab"}, [line])
        run = gn.solve(modes, mode="a", **wanted, events=event)
        np.testing.assert_allclose(run.events["line"].t, 0.1 * k, atol=1e-11)


@pytest.mark.parametrize("direction", [0, 1])
def test_a_wall_stops_a_pendulum_of_a_method_that_drifts(direction):
    """Its place is off the constraint by the drift; put back on it at an impact it would be beyond the wall."""
    start = {"g0": [0.1, -(0.99**0.5)], "xi0": [2 * 0.99**0.5, 0.2], "dt": 0.01, "n_steps": 500, "mode": "p"}
    circle = lambda x: jnp.stack([x[0] ** 2 + x[1] ** 2 - 1.0])  # noqa: E731
    pendulum = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], holonomic=circle)
    wall = gn.Event(lambda t, x, xi, lam: x[0] - 0.2, direction=direction, name="wall")
    modes = gn.Modes({"p": pendulum}, [gn.Transition("p", wall, "p", lambda t, x, xi: -xi)])
    exact = gn.solve(modes, "gauss6", **start)
    run = gn.solve(modes, "rk4", **start)
    assert run.g[:, 0].max() < 0.2 + 1e-9
    assert len(run.switches.t) == len(exact.switches.t) > 3
    np.testing.assert_allclose(run.switches.t, exact.switches.t, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("up", [1.0, -1.0])
def test_rebounds_that_are_short_beside_the_step_are_not_missed(up):
    """A flight that begins on zero by rounding and ends within 10⁻⁴ of a step; the law of fall has their sum."""
    air = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: up * G * x[0], name="air")
    ground = gn.System(Translations(2), metric=[1.0, 1.0], distribution=gn.Distribution([[1.0, 0.0]]), name="ground")

    def struck(t, x, xi):
        return jnp.stack([jnp.where(up * xi[0] < -2e-6, -0.5 * xi[0], 0.0), xi[1]])

    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-int(up), name="floor")
    lands = gn.Transition("air", floor, lambda t, x, xi: "air" if up * xi[0] > 0 else "ground", struck)
    modes = gn.Modes({"air": air, "ground": ground}, [lands])
    heights = np.concatenate([[1.1690088952407967, 0.8361775796378734], np.random.default_rng(3).uniform(0.1, 2.0, 30)])
    for height in heights:
        falls = np.sqrt(2 * height / G)
        n_steps = int(np.ceil(3.2 * falls / 0.1))
        run = gn.solve(modes, "gauss4", mode="air", g0=[up * height, 0.0], xi0=[0.0, 1.0], dt=0.1, n_steps=n_steps)
        assert (up * run.g[:, 0]).min() > -1e-12
        assert abs(run.switches.t[-1] - 3 * falls) < 1e-6


@pytest.mark.parametrize("other", [0.019, 0.009])
@pytest.mark.parametrize(("t", "v"), [(0.005, 1e-6), (0.0, 1e-4)])
def test_a_guard_that_returns_at_once_is_not_passed_over_for_another(t, v, other):
    """A low rebound, in flight or where the run begins, and in the same step a guard that has nothing to do with it."""
    fall = {"metric": [1.0, 1.0], "potential": lambda x: G * x[0]}
    rest = gn.System(Translations(2), **fall, holonomic=lambda x: x[:1], name="at rest")
    clock = gn.Event(lambda t, x, xi, lam: t - other, direction=1, name="clock")

    def rebounds(t, x, xi):
        slower = 0.5 * jnp.abs(xi[0])
        return xi.at[0].set(jnp.where(xi[0] < -1e-3, v, jnp.where(slower < 1e-8, 0.0, slower)))

    lands = gn.Transition("flight", FLOOR, lambda t, x, xi: "rest" if xi[0] == 0 else "flight", rebounds)
    ticks = gn.Transition("flight", clock, "flight", lambda t, x, xi: xi)
    modes = gn.Modes({"flight": gn.System(Translations(2), **fall), "rest": rest}, [lands, ticks], name="low")
    begun = {"g0": [G * t**2 / 2, 0.0], "xi0": [0.0 if t else v, 0.0]}
    run = gn.solve(modes, "gauss4", mode="flight", **begun, dt=0.02, n_steps=2)
    assert run.g[:, 0].min() > -1e-14
    assert run.mode[-1] == "rest"

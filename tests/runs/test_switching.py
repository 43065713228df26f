"""Runs with modes: bounces, a block that sticks and slips, transitions at once, Zeno, refusals."""

import functools
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import geonh as gn
from geonh.groups import SE2, Translations
from geonh.integrators import Result
from geonh.mechanics import Friction, accelerations
from geonh.runs import switching
from geonh.runs.locating import EventWarning

G = 9.81
FLOOR = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="floor")


@functools.cache
def particle():
    return gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0], name="particle")


def bouncing(e=1.0, target="flight", modes=None, direction=-1):
    reset, floor = lambda t, x, xi: -e * xi, replace(FLOOR, direction=direction)
    return gn.Modes(
        {"flight": particle(), **(modes or {})}, [gn.Transition("flight", floor, target, reset)], name="ball"
    )


def test_elastic_bounces():
    run = gn.solve(bouncing(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400)
    once = np.sqrt(2 / G)
    np.testing.assert_allclose(run.switches.t, once * (2 * np.arange(len(run.switches.t)) + 1), atol=1e-13)
    assert len(run.switches.t) == 4
    assert np.ptp(run.energy) < 1e-13
    assert run.g.min() > -1e-14
    np.testing.assert_array_equal(run.switches.xi_after, -run.switches.xi_before)
    at = np.flatnonzero(np.diff(run.t) == 0)  # before and after each impact
    assert len(at) == 4
    np.testing.assert_allclose(run.xi[at], -run.xi[at + 1], atol=1e-15)
    on_grid = np.delete(run.t, np.concatenate([at, at + 1]))
    np.testing.assert_array_equal(on_grid, 0.01 * np.arange(401))
    assert set(run.mode) == {"flight"}


def test_a_further_run_has_the_same_bits_and_calls_its_own_target():
    settings = {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.01, "n_steps": 300}

    def run():
        seen = []

        def target(t, x, xi):
            seen.append(t)
            return "flight"

        return gn.solve(bouncing(0.9, target), **settings), seen

    (first, seen), (again, also_seen) = run(), run()
    for name in ("t", "g", "xi", "energy"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert seen == also_seen == first.switches.t.tolist()


def test_a_further_run_sees_what_a_function_refers_to():
    strength, settings = {"a": 0.0}, {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.01, "n_steps": 100}
    pushed = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: jnp.array([strength["a"]]))
    modes = gn.Modes({"flight": pushed}, [gn.Transition("flight", FLOOR, "flight", lambda t, x, xi: -xi)])
    gn.solve(modes, **settings)
    strength["a"] = -G
    fallen = gn.solve(modes, **settings).g[40, 0]
    assert fallen == pytest.approx(1 - G / 2 * 0.4**2, abs=1e-12)


def test_a_run_goes_on_from_where_it_was_stopped_as_often_as_wanted():
    wall = gn.Event(lambda t, x, xi, lam: t - 0.5 - 1e-3, stop=True, name="wall")
    settings = {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.01, "n_steps": 100}
    stopped = gn.solve(bouncing(0.8), **settings, events=wall)
    for _ in range(2):
        again = gn.resume(stopped, n_steps=50)
        assert again.status is Result.EVENT
        np.testing.assert_array_equal(again.t, stopped.t)
    ended = gn.solve(bouncing(0.8, lambda t, x, xi: None), **settings, throw=False)
    for _ in range(2):
        assert ended.status is Result.MODE
        ended = gn.resume(ended, n_steps=50, throw=False)
    assert ended.g.min() > 0


def test_a_run_that_ends_after_a_transition_in_its_step_goes_on_as_the_whole_run(tmp_path):
    up = gn.System(Translations(1), metric=[1.0], potential=lambda x: -x[0], name="up")
    down = gn.System(Translations(1), metric=[1.0], potential=lambda x: 5 * x[0], name="down")
    line = gn.Event(lambda t, x, xi, lam: x[0] - 1.0, name="line")
    modes = gn.Modes({"up": up, "down": down}, [gn.Transition("up", line, "down", lambda t, x, xi: xi)])
    settings = {"mode": "up", "g0": [0.0], "xi0": [1.0], "dt": 0.1, "n_steps": 20}
    whole = gn.solve(modes, **settings)
    stop = gn.Event(lambda t, x, xi, lam: t - whole.switches.t[0] - 0.01, stop=True, name="stop")
    stopped = gn.solve(modes, **settings, events=stop)
    assert (int(stopped.state.k), str(stopped.mode[-1])) == (7, "down")
    stopped.save(tmp_path / "run.nc")
    loaded = gn.Trajectory.load(tmp_path / "run.nc")
    for run in (stopped, loaded):
        more = {} if run is stopped else {"system": modes, "method": stopped.method}
        resumed = gn.resume(run, n_steps=13, events=(), **more)
        np.testing.assert_array_equal(resumed.g, whole.g)
        np.testing.assert_array_equal(resumed.switches.t, whole.switches.t)


def two_modes():
    held = {"metric": [3.0, 5.0], "potential": lambda x: 10 * x[0], "distribution": gn.Distribution([[1.0, 0.5]])}
    free = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: x[0], name="free")
    line = gn.Event(lambda t, x, xi, lam: t - 0.33, name="line")
    modes = {"free": free, "held": gn.System(Translations(2), **held, name="held")}
    settings = {"mode": "free", "g0": [0.0, 0.0], "xi0": [1.0, 2.0], "dt": 0.1}
    return gn.Modes(modes, [gn.Transition("free", line, "held")], name="two"), settings


def at_time(t, name="stop", stop=True):
    return gn.Event(lambda s, x, xi, lam: s - t, stop=stop, name=name)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_an_event_that_stops_at_the_instant_of_a_transition_stops_before_it(factor):
    lands = gn.Event(lambda t, x, xi, lam: factor * x[0], direction=-1, stop=True, name="lands")
    settings = {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.03, "n_steps": 80}
    run = gn.solve(bouncing(0.8), **settings, events=lands)
    assert run.status is Result.EVENT
    np.testing.assert_allclose(run.events["lands"].t, [np.sqrt(2 / G)], rtol=1e-13)
    assert len(run.switches.t) == 0
    whole, resumed = gn.solve(bouncing(0.8), **settings), gn.resume(run, n_steps=80 - int(run.state.k), events=())
    np.testing.assert_array_equal(resumed.g, whole.g)


def test_events_in_the_step_of_a_transition_are_located_once():
    modes, settings = two_modes()
    run = gn.solve(modes, **settings, n_steps=10, events=at_time(0.36))
    assert run.crossings.k.tolist() == [3]
    for _ in range(2):
        run = gn.resume(run, n_steps=5)
        np.testing.assert_allclose(run.events["stop"].t, [0.36], rtol=1e-13)
    ticks = [at_time(t, f"at {t}", stop=False) for t in (0.15, 0.32, 0.35, 0.55)]
    assert gn.solve(modes, **settings, n_steps=10, events=ticks).crossings.k.tolist() == [1, 3, 3, 5]


def test_a_run_goes_on_with_other_events():
    modes, settings = two_modes()
    run = gn.solve(modes, **settings, n_steps=4, events=at_time(0.15, "first", stop=False))
    run = gn.resume(run, n_steps=4, events=at_time(0.65, "second", stop=False))
    assert {name: len(found.t) for name, found in run.events.items()} == {"first": 1, "second": 1}
    run = gn.resume(run, n_steps=2, events=())
    assert {name: len(found.t) for name, found in run.events.items()} == {"first": 1, "second": 1}


def test_a_joined_run_is_in_its_mode_where_an_event_stopped_it():
    modes, settings = two_modes()
    run = gn.solve(modes, **settings, n_steps=10, events=at_time(0.75))
    end = run.events["stop"]
    after = gn.solve(modes["held"], g0=end.g[0], xi0=end.xi[0], t0=end.t[0], dt=0.1, n_steps=3)
    joined = gn.join(run, after)
    np.testing.assert_allclose(joined.energy[-6:], after.energy[0], rtol=1e-12)
    assert np.abs(joined.constraint_residual[len(run)]).max() < 1e-14


@pytest.mark.parametrize("at", [0.05, 1.8, 99.0])  # in mode "slides", of one multiplier, "sticks", of two, and never
def test_events_have_as_many_multipliers_as_nodes(at, tmp_path):
    once = gn.Event(lambda t, x, xi, lam: t - at, name="once")
    settings = {"g0": [0.0, 0.0, 0.3], "xi0": [0.5, 0.0, 1.0], "dt": 0.02, "n_steps": 100, "events": once}
    run = gn.solve(block(0.4), mode="slides", **settings, checkpoint=tmp_path / "run.nc")
    assert len(set(run.mode)) == 2
    assert run.events["once"].multipliers.shape == (int(at < 2), run.multipliers.shape[1])
    assert gn.Trajectory.load(tmp_path / "run.nc").events["once"].t.shape == (int(at < 2),)


def test_a_further_run_warns_again():
    lost = gn.Event(lambda t, x, xi, lam: jnp.sqrt(x[0] - 0.5), name="lost")
    for _ in range(2):
        with pytest.warns(EventWarning, match="lost"):
            gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=40, events=lost)


@pytest.mark.parametrize("of", ["velocity", "place"])
def test_a_reset_that_is_not_finite_ends_the_run_in_words(of):
    lost = lambda t, x, xi: jnp.sqrt(-1 - xi**2)  # noqa: E731
    reset = lost if of == "velocity" else lambda t, x, xi: (lost(t, x, xi), xi)
    modes = gn.Modes({"flight": particle()}, [gn.Transition("flight", FLOOR, "flight", reset)], name="ball")
    run = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=100, throw=False)
    assert run.status is Result.RESET
    assert "reset" in run.message
    assert run.t[-1] < np.sqrt(2 / G)
    assert np.isfinite(run.energy).all()


@pytest.mark.slow
def test_ten_thousand_bounces():
    run = gn.solve(bouncing(), "gauss4", mode="flight", g0=[0.05], xi0=[0.0], dt=0.05, n_steps=40_400)
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
    ended = gn.solve(bouncing(e), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.02, n_steps=150, throw=False)
    assert ended.status is Result.SWITCHES
    assert "accumulate" in ended.message
    assert abs(ended.t[-1] - once * (1 + e) / (1 - e)) < 0.02


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


@pytest.mark.filterwarnings("error::geonh.runs.locating.EventWarning")
@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize(
    "e", [0.01, 0.5, pytest.param(0.3, marks=pytest.mark.slow), pytest.param(0.9, marks=pytest.mark.slow)]
)
def test_rebounds_from_a_floor_at_zero_never_pass_it(e, direction):
    """Where the height is zero its rounding is none: rebounds become as short as 10⁻¹² of a step."""
    modes, start = bouncing(e, direction=direction), {"mode": "flight", "xi0": [0.0], "dt": 0.01, "n_steps": 130}
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
    modes, start = bouncing(0.5, direction=direction), {"mode": "flight", "xi0": [0.0], "dt": 0.01, "n_steps": 130}
    members = gn.solve_ensemble(modes, "gauss4", g0=np.linspace(0.01, 0.02, 9)[:, None], **start)
    run = gn.solve(modes, "gauss4", g0=[0.02], throw=False, **start)
    assert (members.status == Result.SWITCHES).all()
    np.testing.assert_array_equal(members[8].switches.t, run.switches.t)


@pytest.mark.parametrize("direction", [0, -1])
@pytest.mark.parametrize(
    "height", [0.0, 1.3e4, 1.4e6, *(pytest.param(x, marks=pytest.mark.slow) for x in (1e3, 1.1e5))]
)
@pytest.mark.parametrize("dt", [0.1, 0.01, pytest.param(0.001, marks=pytest.mark.slow)])
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


@functools.cache
def block(angle, mu=0.5):
    """A block on a slope, with a rotor that turns: it sticks, or slides downwards; (s, height, angle of the rotor)."""
    common = {
        "metric": [1.0, 1.0, 0.1],
        "potential": lambda x, p: G * (x[1] * jnp.cos(p["angle"]) - x[0] * jnp.sin(p["angle"])) + jnp.sin(x[2]),
        "holonomic": lambda x: jnp.stack([x[1]]),
        "parameters": {"angle": angle, "mu": mu},
        "name": "block",
    }
    sticks = gn.System(Translations(3), distribution=gn.Distribution([[1.0, 0.0, 0.0]]), **common)
    slides = gn.System(Translations(3), multiplier_forces=Friction(lambda t, x, xi: xi[:1], "mu"), **common)

    def inside(t, x, xi, lam, p):
        return p["mu"] * lam[0] - jnp.abs(lam[1])

    transitions = [
        gn.Transition("slides", gn.SlipEnds(), "sticks"),
        gn.Transition(
            "sticks",
            gn.Event(inside, direction=-1, name="slips"),
            "slides",
            lambda t, x, xi: xi.at[0].add(1e-12),
        ),
    ]
    return gn.Modes({"sticks": sticks, "slides": slides}, transitions, name="block on a slope")


def test_a_block_on_a_slope_rests():
    modes = block(0.4)  # tan 0.4 = 0.42 < 0.5
    run = gn.solve(modes, "gauss4", mode="sticks", g0=[0.0, 0.0, 0.3], xi0=[0.0, 0.0, 1.0], dt=0.1, n_steps=36_000)
    assert run.t[-1] == 3600.0
    assert np.all(run.g[:, 0] == 0.0)
    assert not len(run.switches.t)


@pytest.mark.slow
def test_a_block_slides_to_rest_and_off():
    mu, v = 0.5, 1.5
    run = gn.solve(block(0.4), "gauss4", mode="slides", g0=[0.0] * 3, xi0=[v, 0, 0], dt=0.03, n_steps=90)
    slows = G * (mu * np.cos(0.4) - np.sin(0.4))
    assert abs(run.switches.t[0] - v / slows) < 1e-13
    assert abs(run.g[-1, 0] - v**2 / 2 / slows) < 1e-13
    assert list(run.mode[[0, -1]]) == ["slides", "sticks"]
    steep = gn.solve(block(0.6), "gauss4", mode="sticks", g0=[0.0] * 3, xi0=[0.0] * 3, dt=0.03, n_steps=60)
    assert steep.switches.t[0] == 0.0  # outside of the friction cone from the beginning
    runs = G * (np.sin(0.6) - mu * np.cos(0.6))
    assert abs(steep.g[-1, 0] - runs * steep.t[-1] ** 2 / 2) < 1e-10


@pytest.mark.slow
def test_observables_of_each_mode():
    run = gn.solve(block(0.4), "gauss4", mode="slides", g0=[0.0] * 3, xi0=[1.5, 0, 0], dt=0.03, n_steps=90)
    assert run.multipliers.shape == (len(run), 2)
    sliding = run.mode == "slides"
    assert np.all(np.isnan(run.multipliers[sliding, 1]))
    lam = accelerations(run.modes.systems[0], 0.0, run.g[-1], run.xi[-1])[1]
    np.testing.assert_allclose(run.multipliers[-1], lam, atol=1e-13)
    assert np.nanmax(np.abs(run.constraint_residual)) < 1e-14


def test_transitions_at_once_are_taken_in_their_order():
    one = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, direction=-1, name="first")
    two = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, direction=-1, name="second")
    low, other = particle(), particle()
    for order, wanted in (((one, two), "low"), ((two, one), "other")):
        targets = {"first": "low", "second": "other"}
        modes = gn.Modes(
            {"flight": particle(), "low": low, "other": other},
            [gn.Transition("flight", guard, targets[guard.name]) for guard in order],
        )
        run = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=50)
        assert run.mode[-1] == wanted
        assert len(run.switches.t) == 1


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
    run = gn.solve(bouncing(0.5), "gauss4", mode="flight", g0=[0.0], xi0=[-1.0], dt=0.01, n_steps=8)
    assert run.switches.t[0] == 0.0
    np.testing.assert_allclose(run.g[-1], 0.5 * run.t[-1] - G * run.t[-1] ** 2 / 2, atol=1e-14)
    rest = gn.solve(bouncing(0.5), "gauss4", mode="flight", g0=[0.0], xi0=[0.0], dt=0.01, n_steps=8, throw=False)
    assert rest.status is Result.SWITCHES


@pytest.mark.parametrize(
    "guard", [lambda t, x, xi, lam: jnp.where(x[0] < 0.333, -1.0, 1.0), lambda t, x, xi, lam: 1 / (x[0] - 0.333)]
)
def test_a_guard_that_jumps_past_zero(guard):
    falls, rises = (gn.System(Translations(1), metric=[1.0], potential=lambda x, a=a: a * x[0]) for a in (1.0, -1.0))
    turns = gn.Transition("falls", gn.Event(guard, direction=-1, name="turns"), "rises")
    modes = gn.Modes({"falls": falls, "rises": rises}, [turns])
    run = gn.solve(modes, "gauss4", mode="falls", g0=[1.0], xi0=[0.0], dt=0.1, n_steps=20)
    t = np.sqrt(2 * 0.667)
    np.testing.assert_allclose(run.switches.t, [t], rtol=1e-13)
    np.testing.assert_allclose(run.g[-1, 0], 0.333 - t * (2 - t) + (2 - t) ** 2 / 2, rtol=1e-12)


def test_events_in_all_modes():
    top = gn.Event(lambda t, x, xi, lam: xi[0], direction=-1, name="top")
    run = gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400, events=top)
    np.testing.assert_allclose(run.events["top"].t, 2 * np.sqrt(2 / G) * np.arange(1, 5), atol=1e-7)
    stop = gn.Event(lambda t, x, xi, lam: t - 1.0, stop=True, name="end")
    run = gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400, events=stop)
    assert run.status is Result.EVENT
    np.testing.assert_allclose(run.events["end"].t, [1.0], rtol=1e-15)


@pytest.mark.filterwarnings("ignore:dt = 1 turns the fastest mode")
def test_half_a_turn_in_a_step_ends_a_run_as_without_modes():
    """A step that fails is done in parts, since a transition may lie in it: if none does, it was too long."""
    body = gn.System(SE2(), metric=[1.0, 1.0, 1.0], forces=lambda t, x, xi, u: jnp.array([3.0, 0.0, 0.0]), name="body")
    given = {"xi0": [2.0, 3.0, 0.0], "dt": 1.0, "n_steps": 3, "throw": False}
    never = gn.Event(lambda t, x, xi, lam: x[1] - 10.0, name="never")
    modes = gn.Modes({"body": body}, [gn.Transition("body", never, "body")])
    assert gn.solve(body, "rkmk4", **given).status is Result.CHART
    run = gn.solve(modes, "rkmk4", mode="body", **given)
    assert run.status is Result.CHART
    assert run.t.tolist() == [0.0]
    early = gn.Event(lambda t, x, xi, lam: x[0] - 1.0, direction=1, name="early")
    caught = gn.Modes(
        {"body": body, "held": gn.System(SE2(), metric=[1.0, 1.0, 1.0], name="held")},
        [gn.Transition("body", early, "held", lambda t, x, xi: 0.1 * xi)],
    )
    run = gn.solve(caught, "rkmk4", mode="body", **given)
    assert run.success
    np.testing.assert_allclose(run.switches.t, (np.sqrt(10) - 2) / 3, rtol=1e-3)  # 2t + 3t²/2 = 1


def test_what_is_refused():
    run = gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=2)
    with pytest.raises(TypeError, match="throw must be True or False"):
        gn.resume(run, 2, throw=np.ones(2, bool))
    with gn.float64(), pytest.raises(TypeError, match="observables must be True or False"):
        gn.integrate(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=2, observables="energy")
    with pytest.raises(ValueError, match="mode must be one of flight"):
        gn.solve(bouncing(), g0=[1.0], xi0=[0.0], dt=0.01, n_steps=4)
    with pytest.raises(ValueError, match="has no modes"):
        gn.solve(particle(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=4)
    with pytest.raises(ValueError, match="on one group"):
        gn.Modes({"a": particle(), "b": gn.System(Translations(2), metric=np.eye(2))}, [])
    with pytest.raises(ValueError, match="target must be one of flight"):
        gn.Modes({"flight": particle()}, [gn.Transition("flight", FLOOR, "rest")])
    with pytest.raises(ValueError, match="different names"):
        gn.Modes({"flight": particle()}, [gn.Transition("flight", FLOOR, "flight")] * 2)
    with pytest.raises(TypeError, match="reset takes"):
        gn.Transition("flight", FLOOR, "flight", lambda x: x)
    for what in (1.0, (endless := {}).setdefault("itself", endless)):
        with pytest.raises(TypeError, match="reset takes"):
            gn.Transition("flight", FLOOR, "flight", what)
        with pytest.raises(TypeError, match="guard must be an Event"):
            gn.Transition("flight", what, "flight")
    with pytest.raises(TypeError, match="guard must be an Event"):
        gn.Transition("flight", lambda t: t, "flight")
    with pytest.raises(ValueError, match=r"steps of one length: pass dt, and RKMK without tolerance="):
        gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], tolerance=1e-6, t_end=1.0)
    slides = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0])
    wrong = gn.System(Translations(2), metric=np.eye(2), distribution=gn.Distribution([[1.0, 0.0]]))
    free = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: G * x[0])
    modes = gn.Modes({"free": free, "held": wrong}, [gn.Transition("free", FLOOR, "held", lambda t, x, xi: xi)])
    with pytest.raises(ValueError, match="leads off the constraints of 'held'"):
        gn.solve(modes, mode="free", g0=[1.0, 0.0], xi0=[0.0, 1.0], dt=0.1, n_steps=10)
    assert slides is not None
    with pytest.raises(ValueError, match="dt"):
        gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], n_steps=3)


def test_save_load_and_resume_to_the_same_bits(tmp_path):
    modes = block(0.4)
    start = {"mode": "slides", "g0": [0.0] * 3, "xi0": [1.5, 0, 0], "dt": 0.03}
    whole = gn.solve(modes, "gauss4", n_steps=90, **start)
    for first in (30, 71, 72):  # before and about the transition in step 71
        part = gn.solve(modes, "gauss4", n_steps=first, **start)
        path = part.save(tmp_path / "part.nc")
        loaded = gn.Trajectory.load(path)
        np.testing.assert_array_equal(loaded.mode, part.mode)
        np.testing.assert_array_equal(loaded.multipliers, part.multipliers)
        np.testing.assert_array_equal(loaded.switches.xi_after, part.switches.xi_after)
        for before in (part, path):
            on = gn.resume(before, 90 - first, system=modes, method="gauss4")
            np.testing.assert_array_equal(on.g, whole.g)
            np.testing.assert_array_equal(on.t, whole.t)
            np.testing.assert_array_equal(on.p, whole.p)
            np.testing.assert_array_equal(on.mode, whole.mode)
            np.testing.assert_array_equal(on.switches.t, whole.switches.t)
    with pytest.raises(ValueError, match="not the modes of the run"):
        gn.resume(path, 3, system=block(0.3), method="gauss4")
    with pytest.raises(ValueError, match="system=Modes"):
        gn.resume(path, 3)


def test_progress_checkpoints_and_times_of_runs_with_modes(tmp_path, monkeypatch):
    monkeypatch.setattr(switching, "BATCH", 60)
    given = {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.01, "save_every": 7}
    whole, reports = gn.solve(bouncing(0.8), "gauss4", **given, n_steps=240), []

    def stop(done, total):
        reports.append((done, total))
        if done >= 112:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as raised:
        gn.solve(bouncing(0.8), "gauss4", **given, n_steps=240, progress=stop, checkpoint=tmp_path / "run.nc")
    assert reports == [(56, 240), (112, 240)]
    for part in (raised.value.trajectory, gn.Trajectory.load(tmp_path / "run.nc")):
        assert part.status is Result.INTERRUPTED
        again = {"system": bouncing(0.8), "method": gn.Gauss(2), "checkpoint": tmp_path / "more.nc"}
        resumed = gn.resume(part, 240 - 112, **again, progress=lambda *_: None)
        for run in (resumed, gn.Trajectory.load(tmp_path / "more.nc")):
            np.testing.assert_array_equal(run.nodes.rows, whole.nodes.rows)
            np.testing.assert_array_equal(run.switches.t, whole.switches.t)
    times = np.linspace(0.1, 2.4, 9)
    every = given | {"save_every": 1}
    at = gn.solve(bouncing(0.8), "gauss4", **every, t_eval=times)
    np.testing.assert_array_equal(at.t, times)
    np.testing.assert_array_equal(
        at.nodes.rows, gn.solve(bouncing(0.8), "gauss4", **every, n_steps=240)(times).nodes.rows
    )
    with pytest.raises(ValueError, match="of a run with modes needs save_every=1"):
        whole(times)
    with pytest.raises(ValueError, match=r"no state to go on from: .* runs at t_eval"):
        gn.resume(at, 3)
    with pytest.raises(ValueError, match="t_eval of a run with modes needs save_every=1"):
        gn.solve(bouncing(0.8), "gauss4", **given, t_eval=times)
    with pytest.raises(FileNotFoundError):
        gn.solve(bouncing(0.8), "gauss4", **given, n_steps=240, checkpoint=tmp_path / "none" / "run.nc")


def test_solution_between_nodes_and_tables():
    run = gn.solve(bouncing(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.05, n_steps=60)
    times = np.linspace(0, 3, 41)
    once = np.sqrt(2 / G)
    since = np.abs((times + once) % (2 * once) - once)
    np.testing.assert_allclose(run(times).g[:, 0], 1 - G * since**2 / 2, atol=1e-12)
    table = run.to_xarray()
    assert table["mode"].dims == ("time",)
    assert table.sizes["switch"] == 3
    assert len(run.to_pandas()) == len(run)
    assert "ball" in run._repr_html_()


@pytest.mark.slow
def test_runs_joined_by_hand(tmp_path):
    """A bead slides off a circle, where the constraint force vanishes, and falls: two runs, joined to one."""
    common = {"metric": np.eye(2), "potential": lambda x: G * x[1]}
    bead = gn.System(
        Translations(2), distribution=gn.Distribution(lambda x: [[x[0], x[1]]]), name="bead on a circle", **common
    )
    lost = gn.Event(lambda t, g, xi, lam: lam[0], direction=-1, stop=True, name="contact lost")
    slide = gn.solve(bead, "gauss4", g0=[0.0, 1.0], xi0=[0.3, 0.0], dt=0.005, n_steps=2000, events=lost)
    at = slide.events["contact lost"]
    free = gn.System(Translations(2), name="free bead", **common)
    fall = gn.solve(free, "gauss4", g0=at.g[0], xi0=at.xi[0], t0=at.t[0], dt=0.01, n_steps=20)
    run = gn.join(slide, fall)
    assert len(run) == len(slide) + len(fall) + 1  # the first one's node at the event
    assert list(run.mode[[0, -1]]) == ["bead on a circle", "free bead"]
    assert np.flatnonzero(np.diff(run.t) == 0) == len(slide)
    np.testing.assert_array_equal(run.g[len(slide)], run.g[len(slide) + 1])
    assert np.ptp(run.energy) < 1e-8
    assert run.multipliers.shape == (len(run), 1)
    loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
    np.testing.assert_array_equal(loaded.mode, run.mode)
    np.testing.assert_array_equal(loaded.energy, run.energy)
    with pytest.raises(ValueError, match="a piece ends at"):
        gn.join(fall, slide)
    with pytest.raises(TypeError, match="join takes"):
        gn.join(slide, 3)
    with pytest.raises(ValueError, match="runs that were joined have none"):
        gn.resume(run, 5)


def test_runs_with_modes_joined(tmp_path):
    """A ball that bounces, flies on by hand and bounces again: transitions of the pieces, and the joints between."""
    modes = bouncing()
    ball = modes["flight"]
    options = {"dt": 1e-2, "method": "gauss4"}
    first = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], n_steps=60, **options)
    fly = gn.solve(ball, g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], n_steps=5, **options)
    last = gn.solve(modes, mode="flight", g0=fly.g[-1], xi0=fly.xi[-1], t0=fly.t[-1], n_steps=100, **options)
    run, again = gn.join(first, fly, last), gn.join(gn.join(first, fly), last)
    whole = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], n_steps=165, **options)
    np.testing.assert_allclose(run.g[-1], whole.g[-1], atol=1e-13)
    np.testing.assert_array_equal(again.nodes.mode, run.nodes.mode)
    assert run.mode[0] == "flight (1)"
    assert run.mode[-1] == "flight (2)"
    switches, n = run.switches, len(first.switches.t)
    assert n > 0
    np.testing.assert_array_equal(np.diff(switches.t) > 0, True)
    np.testing.assert_allclose(np.delete(switches.t, [n, n + 1]), whole.switches.t, atol=1e-14)
    np.testing.assert_array_equal(switches.source, [0] * n + [0, 1] + [2] * len(last.switches.t))
    np.testing.assert_array_equal(switches.target, [0] * n + [1, 2] + [2] * len(last.switches.t))
    k = first.k[-1], first.k[-1] + fly.k[-1]
    np.testing.assert_array_equal(switches.k, [*first.switches.k, *k, *(last.switches.k + k[1])])
    path = run.save(tmp_path / "joined.nc")
    loaded = gn.Trajectory.load(path, system=ball)
    for name, part in run.switches._asdict().items():
        np.testing.assert_array_equal(getattr(loaded.switches, name), part)
    for ours, theirs in zip(loaded.interpolate(run.t), run.interpolate(run.t), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="the system of the first is attached: one of the name 'particle'"):
        gn.Trajectory.load(path, system=modes)


def test_the_first_nodes_have_their_transitions():
    """Each transition has a node before and one after it, and comes with the latter."""
    run = gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=300, method="gauss4")
    jumps = np.flatnonzero((np.diff(run.xi[:, 0]) > 0) & (np.diff(run.t) == 0)) + 1
    assert len(jumps) == len(run.switches.t) == 3
    for n in range(1, len(run) + 1):
        first = run.first(n)
        assert len(first.switches.t) == np.sum(jumps < n)
        assert len(first) == n
    with pytest.raises(ValueError, match="the first nodes of a run"):
        gn.resume(run.first(7), 5)


@functools.cache
def free():
    return gn.System(Translations(1), metric=[1.0], name="free")


def surface(s, direction=1, name="surface"):
    return gn.Event(lambda t, x, xi, lam: x[0] - s, direction=direction, name=name)


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


@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("direction", [0, 1])
def test_walls_hold_for_long_at_instants_near_nodes(method, direction):
    """Impacts wander over instants at nodes by rounding, 20 000 steps long."""
    back = lambda t, x, xi: -xi  # noqa: E731
    left, right = surface(0.0, -direction, "left"), surface(0.6, direction, "right")
    walls = gn.Modes({"a": free()}, [gn.Transition("a", right, "a", back), gn.Transition("a", left, "a", back)])
    events = surface(0.6, 0, "at right"), surface(0.0, 0, "at left")
    run = gn.solve(walls, method, mode="a", g0=[0.1], xi0=[1.0], dt=0.1, n_steps=20_000, events=events)
    assert len(run.switches.t) == 3333
    assert (run.g.min(), run.g.max()) == pytest.approx((0.0, 0.6), abs=1e-11)
    assert [len(section.t) for section in run.events.values()] == [1667, 1666]


def test_events_just_after_a_transition_just_before_a_node():
    draw = np.random.default_rng(3)
    modes = gn.Modes({"a": free(), "b": free()}, [gn.Transition("a", surface(0.3), "b", lambda t, x, xi: 0.5 * xi)])
    events = surface(0.3, name="same"), gn.Event(lambda t, *_: t - 0.3, name="clock")
    for before in [*10.0 ** draw.uniform(-14, -6, 30), *-(10.0 ** draw.uniform(-14, -6, 10)), 1.2e-13, 1.6e-13]:
        run = gn.solve(modes, "rkmk4", mode="a", g0=[before], xi0=[1.0], dt=0.1, n_steps=10, events=events)
        assert [len(found.t) for found in (run.switches, *run.events.values())] == [1, 1, 1], before


def test_one_clock_switches_to_and_fro():
    light = {
        name: gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u, a=a: jnp.array([a]))
        for name, a in (("go", 1.0), ("stop", -1.0))
    }
    clock = lambda t, x, xi, lam: jnp.sin(jnp.pi * t)  # noqa: E731
    red, green = gn.Event(clock, direction=-1, name="red"), gn.Event(clock, direction=1, name="green")
    modes = gn.Modes(light, [gn.Transition("go", red, "stop"), gn.Transition("stop", green, "go")])
    for dt in (0.07, 0.1, 0.125):
        run = gn.solve(modes, mode="go", g0=[0.0], xi0=[0.0], dt=dt, n_steps=int(9.9 / dt))
        np.testing.assert_allclose(run.switches.t, np.arange(1, 10), atol=1e-12)


def test_an_event_at_a_transition_that_its_value_has_not_passed_yet():
    """Of sin(πt), zero after t = 1 by its rounding, at which the mode ends exactly."""
    modes = gn.Modes({"a": free(), "b": free()}, [gn.Transition("a", surface(1.0), "b")])
    event = gn.Event(lambda t, x, xi, lam: jnp.sin(jnp.pi * t), name="second", stop=True)
    run = gn.solve(modes, mode="a", g0=[0.25], xi0=[1.0], t0=0.25, dt=0.125, n_steps=12, events=event)
    assert run.message == "modes: stopped at an event, 'second', at t = 1"
    again = gn.resume(run, 6)
    np.testing.assert_array_equal(again.events["second"].t, run.events["second"].t)
    further = gn.resume(run, 6, events=())
    assert further.mode[-1] == "b"


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


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize(
    "length", [1.0, 13.08, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.13, 2.0, 11.12, 870.0, 9800.0))]
)
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


@pytest.mark.parametrize("guard", [lambda t, x: jnp.sqrt(x[0]), lambda t, x: jnp.where(t > 0.3, jnp.nan, x[0])])
@pytest.mark.parametrize("direction", [0, -1])
def test_a_guard_that_is_not_a_number_ends_a_run(direction, guard):
    fall = gn.System(Translations(1), metric=[1.0], potential=lambda x: 10.0 * x[0])
    event = gn.Event(lambda t, x, xi, lam: guard(t, x), direction=direction, name="floor")
    modes = gn.Modes({"a": fall}, [gn.Transition("a", event, "a", lambda t, x, xi: -xi)])
    wanted = {"mode": "a", "xi0": [0.0], "dt": 0.1, "n_steps": 20}
    run = gn.solve(modes, **wanted, g0=[1.25], throw=False)
    assert run.status is Result.GUARD
    assert run.t[-1] < 0.51
    ensemble = gn.solve_ensemble(modes, **wanted, g0=[[1.25], [1.0]])
    assert ensemble.status.tolist() == [Result.GUARD] * 2


def test_messages_of_switches_and_targets_name_what_is_wrong():
    again = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, direction=1, name="line")
    run = gn.solve(
        gn.Modes({"a": free()}, [gn.Transition("a", again, "a", lambda t, x, xi: xi)]),
        mode="a",
        g0=[0.0],
        xi0=[1.0],
        dt=0.1,
        n_steps=10,
        throw=False,
    )
    assert "the last was from 'a' to 'a'" in run.message
    modes = gn.Modes({"a": free()}, [gn.Transition("a", again, lambda t, x, xi: 1 / 0)])
    with pytest.raises(ZeroDivisionError) as caught:
        gn.solve(modes, mode="a", g0=[0.0], xi0=[1.0], dt=0.1, n_steps=10)
    assert "in the target of transition 'line' at t = 0.5" in "".join(caught.value.__notes__)


RARE = [pytest.param(apart, marks=pytest.mark.slow) for apart in (1e-15, 1e-12, 4e-12, 1e-11, 2e-11)]


@pytest.mark.parametrize("apart", [1e-13, 2e-12, 6e-12, 1e-10, *RARE])
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


def test_the_first_nodes_of_a_run_that_stopped(tmp_path):
    events = [
        gn.Event(lambda t, x, xi, lam: xi[0], name="top"),
        gn.Event(lambda t, *_: t - 1.1, stop=True, name="clock"),
    ]
    for system, mode in ((bouncing(), {"mode": "flight"}), (particle(), {})):
        run = gn.solve(system, g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=300, method="gauss4", events=events, **mode)
        assert run.status is Result.EVENT
        first = run.first(60)
        assert "reached the end" in first.message
        np.testing.assert_array_equal(gn.Trajectory.load(first.save(tmp_path / "first.nc")).t, first.t)
        fly = gn.solve(particle(), g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], dt=1e-2, n_steps=5)
        assert np.all(np.diff(gn.join(first, fly).t) >= 0)


def test_joined_runs_have_the_events_of_all_and_names_of_their_own(tmp_path):
    top = gn.Event(lambda t, x, xi, lam: xi[0], name="top")
    given = {"mode": "flight", "dt": 1e-2, "n_steps": 100, "method": "gauss4", "events": top}
    a = gn.solve(bouncing(), g0=[1.0], xi0=[0.0], **given)
    b = gn.solve(bouncing(), g0=a.g[-1], xi0=a.xi[-1], t0=a.t[-1], **given)
    pieces = [a, b]
    for _ in range(4):
        at = pieces[-1]
        pieces.append(gn.solve(particle(), g0=at.g[-1], xi0=at.xi[-1], t0=at.t[-1], dt=1e-2, n_steps=5))
    run = functools.reduce(gn.join, pieces)
    flights, particles = [f"flight ({i})" for i in (1, 2)], [f"particle ({i})" for i in (1, 2, 3, 4)]
    assert sorted(run.switches.names) == sorted(flights + particles)
    assert gn.join(*pieces).switches.names == (*flights, *particles)
    loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
    for joined in (run, loaded):
        np.testing.assert_array_equal(joined.events["top"].t, [*a.events["top"].t, *b.events["top"].t])


def test_pieces_by_methods_with_impulses_and_without_are_joined(tmp_path):
    """A sleigh whose blade lifts off and comes down again."""
    held = gn.systems.chaplygin_sleigh()
    loose = gn.System(SE2(), metric=held.metric, parameters=held.parameters, name="loose")
    first = gn.solve(held, "gauss4", xi0=[0.8, 0.5, 0.0], dt=0.01, n_steps=5)
    for method, other in (("gni", "gauss4"), ("gauss4", "gni")):
        fly = gn.solve(loose, method, g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], dt=0.01, n_steps=5)
        xi = held.project(fly.g[-1], fly.xi[-1])
        last = gn.solve(held, other, g0=fly.g[-1], xi0=xi, t0=fly.t[-1], dt=0.01, n_steps=5)
        run = gn.join(first, fly, last)
        loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
        np.testing.assert_array_equal(loaded.multipliers, run.multipliers)
        assert np.isnan(run.multipliers[6:12]).all()


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


def test_a_reset_to_a_place_off_the_constraints_is_refused():
    shelf = gn.System(Translations(2), metric=[1.0, 1.0], holonomic=lambda x: jnp.stack([x[1] - 0.5]), name="shelf")
    fall = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], name="fall")
    floor = gn.Event(lambda t, x, xi, lam: x[1], direction=-1, name="floor")
    modes = gn.Modes({"a": fall, "b": shelf}, [gn.Transition("a", floor, "b", lambda t, x, xi: (x, xi.at[1].set(0.0)))])
    with pytest.raises(ValueError, match=r"the reset of 'floor' leads off the constraints of 'b' .* residual 0\.5"):
        gn.solve(modes, mode="a", g0=[0.0, 1.0], xi0=[0.5, 0.0], dt=0.02, n_steps=40)


@pytest.mark.parametrize("from_file", [False, True])
def test_a_further_run_takes_no_other_event_of_the_same_name(from_file, tmp_path):
    modes = bouncing()
    low, high = (gn.Event(lambda t, x, xi, lam, h=h: x[0] - h, name="height") for h in (0.25, 0.5))
    run = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=60, method="gauss4", events=low)
    known = {"system": modes, "method": "gauss4"} if from_file else {}
    before = run.save(tmp_path / "run.nc") if from_file else run
    with pytest.raises(ValueError, match=r"height 0\.75 there, 0\.5 here, at node 0.*give others to new ones"):
        gn.resume(before, 5, events=high, **known)
    same = gn.resume(before, 60, events=gn.Event(lambda t, x, xi, lam: x[0] - 0.25, name="height"), **known)
    whole = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=120, method="gauss4", events=low)
    np.testing.assert_array_equal(same.events["height"].t, whole.events["height"].t)


@pytest.mark.slow
def test_between_the_last_node_and_the_joint():
    """Where the velocity jumps there, the motion before it is that of the first piece."""
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0], name="ball")
    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, stop=True, name="floor")
    for method in ("gauss4", "gni"):
        fall = gn.solve(ball, method, g0=[1.0], xi0=[0.0], dt=0.05, n_steps=100, events=floor)
        hit = fall.events["floor"]
        back = gn.solve(ball, method, g0=hit.g[0], xi0=-hit.xi[0], t0=hit.t[0], dt=0.04, n_steps=3)
        run = gn.join(fall, back)
        t = np.array([0.2, hit.t[0] - 0.02, hit.t[0] - 1e-6])
        assert np.abs(run.interpolate(t)[0][:, 0] - (1 - G * t**2 / 2)).max() < (1e-12 if method == "gauss4" else 1e-3)
        assert abs(run.g[len(fall), 0]) < 1e-12
        np.testing.assert_allclose(run.xi[len(fall) : len(fall) + 2, 0], [hit.xi[0, 0], -hit.xi[0, 0]], rtol=1e-12)


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


JUNK = {"text": "a", "array": np.ones(3), "nothing": None, "list": []}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_junk_is_refused_by_its_name(junk):
    start = {"g0": [1.0], "xi0": [0.0], "dt": 0.01, "n_steps": 2}
    modes = bouncing()
    run = gn.solve(modes, mode="flight", **start)
    calls = {
        "system": lambda: gn.solve(junk, mode="flight", **start),
        "mode": lambda: gn.solve(modes, mode=junk, **start),
        "these": lambda: run.read(junk),
    }
    if junk is not None:
        calls |= {
            "method": lambda: gn.resume(run, 2, method=junk),
            "system ": lambda: gn.resume(run, 2, system=junk),
        }
    for name, call in calls.items():
        with pytest.raises((TypeError, ValueError), match=f"{name.strip()}.* (must be|'a')"):
            call()


@pytest.mark.parametrize("mode", [-1, 2, 2**63, "a", np.ones(3), None])
def test_indices_of_modes_are_refused(mode):
    for method in (bouncing().leaving, bouncing().guards):
        with pytest.raises((TypeError, ValueError), match=r"mode must be an (integer|index)"):
            method(mode)


def test_a_run_that_fits_no_memory_is_refused_before_its_first_step():
    with pytest.raises(MemoryError, match=r"nodes .* raise save_every"):
        gn.solve(bouncing(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=10**12)


@pytest.mark.parametrize("reset", [1.0, "a", [0.0], memoryview(np.ones((2, 2)))])
def test_resets_are_functions(reset):
    with pytest.raises(TypeError, match="reset takes"):
        gn.Transition("flight", FLOOR, "flight", reset)


@pytest.mark.slow
def test_a_slip_whose_direction_turns_as_it_vanishes():
    """A crate of other masses along x and y: dv_x/v_x = r dv_y/v_y, so v_x = c v_y^r; t is an integral over v_y."""
    r, friction, v = 1.3, 0.3 * G, np.array([1.0, 0.7])
    common = {"metric": [1.0, r, 1.0, 1.0], "potential": lambda x: G * x[2], "holonomic": lambda x: x[2:3]}
    slides = gn.System(Translations(4), multiplier_forces=gn.Friction(lambda t, x, xi: xi[:2], 0.3), **common)
    sticks = gn.System(Translations(4), distribution=gn.Distribution(np.eye(2, 4)), **common)
    crate = gn.Modes({"slides": slides, "sticks": sticks}, [gn.Transition("slides", gn.SlipEnds(), "sticks")])
    c = v[0] / v[1] ** r

    def until_rest(function):
        def integrand(w):
            return function(w) * np.sqrt(1 + c * c * w ** (2 * r - 2)) * r / friction

        return quad(integrand, 0.0, v[1], epsabs=1e-14, epsrel=1e-13)[0]

    end, place = until_rest(lambda w: 1.0), [until_rest(lambda w: c * w**r), until_rest(lambda w: w)]
    for dt, of_t, of_place in ((0.06, 8e-7, 1e-8), (0.015, 1.2e-7, 6e-10)):
        run = gn.solve(crate, "gauss4", mode="slides", g0=np.zeros(4), xi0=[*v, 0.0, 1.0], dt=dt, t_end=0.6)
        np.testing.assert_allclose(run.switches.t, [end], atol=of_t)
        np.testing.assert_allclose(run.g[-1, :2], place, atol=of_place)


RNG = np.random.default_rng(0)
WRONG = {
    "random": (lambda t, x, xi: -xi * RNG.random(), "reset gives another result each time"),
    "single precision": (lambda t, x, xi: (x, (-xi).astype(jnp.float32)), "reset returned float32"),
    "index": (lambda t, x, xi: -xi + x[7], "reset asks for index 7"),
    "NumPy": (lambda t, x, xi: np.negative(xi), "reset calls NumPy"),
    "function of NumPy": (np.sin, r"reset could not be evaluated, .* 3 were given"),
    "failure": (lambda t, x, xi: -xi * (1 / 0), "reset could not be evaluated, .*ZeroDivisionError"),
    "shape": (lambda t, x, xi: jnp.ones(3), r"reset must give ξ, or \(g, ξ\), ξ of shape \[1\], got \[3\]"),
    "place": (lambda t, x, xi: (jnp.ones(2), -xi), "g of reset must be"),
    "many": (lambda t, x, xi: (x, xi, xi), r"reset must give ξ, or \(g, ξ\)"),
}


@pytest.mark.parametrize(("reset", "words"), WRONG.values(), ids=WRONG)
def test_resets_are_inspected(reset, words):
    """As all functions of users: one that is random, imprecise or reads what is not there gives no number."""
    modes = gn.Modes({"flight": particle()}, [gn.Transition("flight", FLOOR, "flight", reset)])
    with pytest.raises((TypeError, ValueError), match=words):
        gn.solve(modes, "rkmk4", mode="flight", g0=[0.1], xi0=[0.0], dt=0.05, n_steps=20)


def test_guards_are_inspected():
    guard = gn.Event(lambda t, x, xi, lam: x[0] + 0 * x[7], direction=-1, name="floor")
    modes = gn.Modes({"flight": particle()}, [gn.Transition("flight", guard, "flight", lambda t, x, xi: -xi)])
    with pytest.raises(ValueError, match="event 'floor' asks for index 7"):
        gn.solve(modes, "rkmk4", mode="flight", g0=[0.1], xi0=[0.0], dt=0.05, n_steps=20)


def driven_block(stiffness=3.0, wall=0.6, factor=0.5, push=1.0, leads="free"):
    """Mass on a spring that meets a wall; everything that is given here is within its functions."""
    mass = gn.System(
        Translations(1),
        metric=[1.0],
        potential=lambda x: 0.5 * stiffness * x[0] ** 2,
        forces=lambda t, x, xi, u: push * u,
        name="mass",
    )
    meets = gn.Event(lambda t, x, xi, lam: x[0] - wall, direction=1, name="wall")
    bounce = gn.Transition("free", meets, leads, lambda t, x, xi: -factor * xi)
    return gn.Modes({"free": mass, "spare": mass}, [bounce], name="driven block")


def test_resume_refuses_modes_with_other_functions(tmp_path):
    given = {"mode": "free", "g0": [0.0], "xi0": [2.0], "dt": 0.05}
    controls = {"controls": lambda t: jnp.array([jnp.sin(t)])}
    run = gn.solve(driven_block(), "gauss4", **given, **controls, n_steps=80)
    whole = gn.solve(driven_block(), "gauss4", **given, **controls, n_steps=100)
    path = run.save(tmp_path / "run.nc")
    changes = {
        "free: potential: .* there, .* here": (driven_block(stiffness=3.1), controls),
        "free: guard wall: .* there, .* here": (driven_block(wall=0.7), controls),
        "free: reset of wall": (driven_block(factor=0.6), controls),
        "free: index of the target of wall: 0 there, 1 here": (driven_block(leads="spare"), controls),
        "spare: forces": (driven_block(push=2.0), controls),
        "free: controls": (driven_block(), {"controls": lambda t: jnp.array([jnp.cos(t)])}),
    }
    for before in (run, path):
        on = gn.resume(before, 20, system=driven_block(), method="gauss4", **controls)
        np.testing.assert_array_equal(on.g, whole.g)
        for difference, (modes, with_controls) in changes.items():
            with pytest.raises(ValueError, match=difference):
                gn.resume(before, 20, system=modes, method="gauss4", **with_controls)
    with pytest.raises(ValueError, match="free: guard wall"):
        gn.Trajectory.load(path, system=driven_block(wall=0.7))
    with pytest.raises(TypeError, match="there are no controls"):
        gn.resume(path, 20, system=driven_block(), method="gauss4")


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


def test_events_are_not_named_as_transitions():
    event = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, name="floor")
    with pytest.raises(ValueError, match="events: 'floor' is the name of a transition of ball: take another"):
        gn.solve(bouncing(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=4, events=event)


@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
def test_a_belt_gives_energy(method):
    """A block at rest on a belt is carried, as without modes; no step of it is too long for that."""
    block = gn.System(
        Translations(1),
        metric=[1.0],
        potential=lambda x: 20.0 * x[0] ** 2,
        multiplier_forces=gn.Friction(lambda t, x, xi: xi - 1.0, 0.3, load=10.0),
    )
    given = {"g0": [0.0], "xi0": [0.0], "dt": 0.01, "n_steps": 20}
    alone = gn.solve(block, method, **given)
    modes = gn.Modes({"slides": block}, [])
    np.testing.assert_array_equal(gn.solve(modes, method, mode="slides", **given).g, alone.g)
    many = gn.solve_ensemble(modes, method, mode="slides", **given | {"xi0": np.linspace(0.0, 0.5, 9)[:, None]})
    assert many.success.all()
    with gn.float64():
        traced = gn.integrate(modes, method, mode="slides", **given)
    assert np.all(traced.status == 0)


def test_a_ball_at_rest_is_set_down_on_a_belt():
    """It rolls at t = 2V/(7μg), with 2/7 of the velocity of the belt."""
    ball = gn.rolling(
        gn.rolling.ball(0.4),
        [0.064] * 3,
        1.0,
        friction=0.3,
        surface_velocity=lambda X: jnp.stack([2.0, 0.0, 0.0]) + 0 * X,
    )
    g0, xi0 = gn.rolling.start(ball, slip=[-2.0, 0.0, 0.0])
    run = gn.solve(ball, "gauss4", mode="slide", g0=g0, xi0=xi0, dt=0.005, n_steps=60)
    np.testing.assert_allclose(run.switches.t, 4 / (7 * 0.3 * 9.81), atol=1e-9)
    velocity = run.g[-1][:3, :3] @ run.xi[-1][3:]
    np.testing.assert_allclose(velocity, [4 / 7, 0.0, 0.0], atol=1e-8)


def test_a_row_that_slips_on_what_moves_gives_energy():
    """A blade that is carried across, by grips of known force along a belt that moves to the left."""
    belt = gn.AffineDistribution([[0.0, 1.0]], rhs=[-1.0])
    block = gn.System(Translations(2), metric=[1.0, 1.0], distribution=belt, name="block")
    modes = gn.rolling.slipping(block, {"belt": (0, 3.0)})
    run = gn.solve(modes, "gauss4", mode="belt +", g0=[0.0, 0.0], xi0=[1.0, 0.0], dt=0.01, n_steps=60)
    np.testing.assert_allclose(run.switches.t, 1 / 3, rtol=1e-10)
    assert run.mode[-1] == "grip"
    np.testing.assert_allclose(run.xi[-1], [1.0, -1.0], atol=1e-12)


@pytest.mark.parametrize(("e", "kept", "note"), [(1.0, True, ""), (0.7, False, "not kept: transitions change it")])
def test_energy_is_an_invariant_where_impacts_keep_it(e, kept, note):
    ball = bouncing(e)
    run = gn.solve(ball, "gauss4", mode="flight", g0=[1.0], xi0=[0.3], dt=0.01, n_steps=100)
    energy = gn.diagnostics.invariants(run)[0]
    assert (energy.conserved, energy.note) == (kept, note)

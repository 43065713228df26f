"""Runs with modes: a block that sticks and slips, transitions at once, further runs, refusals."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import FLOOR, G, free, particle, rebounding, surface
from scipy.integrate import quad

import geonh as gn
from geonh.groups import SE2, Translations
from geonh.integrators import Result
from geonh.mechanics import Friction, accelerations
from geonh.runs import switching
from geonh.runs.locating import EventWarning


def test_elastic_bounces():
    run = gn.solve(rebounding(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400)
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

        return gn.solve(rebounding(0.9, target), **settings), seen

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
    stopped = gn.solve(rebounding(0.8), **settings, events=wall)
    for _ in range(2):
        again = gn.resume(stopped, n_steps=50)
        assert again.status is Result.EVENT
        np.testing.assert_array_equal(again.t, stopped.t)
    ended = gn.solve(rebounding(0.8, lambda t, x, xi: None), **settings, throw=False)
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
    run = gn.solve(rebounding(0.8), **settings, events=lands)
    assert run.status is Result.EVENT
    np.testing.assert_allclose(run.events["lands"].t, [np.sqrt(2 / G)], rtol=1e-13)
    assert len(run.switches.t) == 0
    whole, resumed = gn.solve(rebounding(0.8), **settings), gn.resume(run, n_steps=80 - int(run.state.k), events=())
    np.testing.assert_array_equal(resumed.g, whole.g)


@pytest.mark.slow
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


@pytest.mark.quick("1.8")
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
            gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=40, events=lost)


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
    run = gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400, events=top)
    np.testing.assert_allclose(run.events["top"].t, 2 * np.sqrt(2 / G) * np.arange(1, 5), atol=1e-7)
    stop = gn.Event(lambda t, x, xi, lam: t - 1.0, stop=True, name="end")
    run = gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=400, events=stop)
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
    run = gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=2)
    with pytest.raises(TypeError, match="throw must be True or False"):
        gn.resume(run, 2, throw=np.ones(2, bool))
    with gn.float64(), pytest.raises(TypeError, match="observables must be True or False"):
        gn.integrate(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=2, observables="energy")
    with pytest.raises(ValueError, match="mode must be one of flight"):
        gn.solve(rebounding(), g0=[1.0], xi0=[0.0], dt=0.01, n_steps=4)
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
        gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], tolerance=1e-6, t_end=1.0)
    slides = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0])
    wrong = gn.System(Translations(2), metric=np.eye(2), distribution=gn.Distribution([[1.0, 0.0]]))
    free = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: G * x[0])
    modes = gn.Modes({"free": free, "held": wrong}, [gn.Transition("free", FLOOR, "held", lambda t, x, xi: xi)])
    with pytest.raises(ValueError, match="leads off the constraints of 'held'"):
        gn.solve(modes, mode="free", g0=[1.0, 0.0], xi0=[0.0, 1.0], dt=0.1, n_steps=10)
    assert slides is not None
    with pytest.raises(ValueError, match="dt"):
        gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], n_steps=3)


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
    whole, reports = gn.solve(rebounding(0.8), "gauss4", **given, n_steps=240), []

    def stop(done, total):
        reports.append((done, total))
        if done >= 112:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as raised:
        gn.solve(rebounding(0.8), "gauss4", **given, n_steps=240, progress=stop, checkpoint=tmp_path / "run.nc")
    assert reports == [(56, 240), (112, 240)]
    for part in (raised.value.trajectory, gn.Trajectory.load(tmp_path / "run.nc")):
        assert part.status is Result.INTERRUPTED
        again = {"system": rebounding(0.8), "method": gn.Gauss(2), "checkpoint": tmp_path / "more.nc"}
        resumed = gn.resume(part, 240 - 112, **again, progress=lambda *_: None)
        for run in (resumed, gn.Trajectory.load(tmp_path / "more.nc")):
            np.testing.assert_array_equal(run.nodes.rows, whole.nodes.rows)
            np.testing.assert_array_equal(run.switches.t, whole.switches.t)
    times = np.linspace(0.1, 2.4, 9)
    every = given | {"save_every": 1}
    at = gn.solve(rebounding(0.8), "gauss4", **every, t_eval=times)
    np.testing.assert_array_equal(at.t, times)
    np.testing.assert_array_equal(
        at.nodes.rows, gn.solve(rebounding(0.8), "gauss4", **every, n_steps=240)(times).nodes.rows
    )
    with pytest.raises(ValueError, match="of a run with modes needs save_every=1"):
        whole(times)
    with pytest.raises(ValueError, match=r"no state to go on from: .* runs at t_eval"):
        gn.resume(at, 3)
    with pytest.raises(ValueError, match="t_eval of a run with modes needs save_every=1"):
        gn.solve(rebounding(0.8), "gauss4", **given, t_eval=times)
    with pytest.raises(FileNotFoundError):
        gn.solve(rebounding(0.8), "gauss4", **given, n_steps=240, checkpoint=tmp_path / "none" / "run.nc")


def test_solution_between_nodes_and_tables():
    run = gn.solve(rebounding(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.05, n_steps=60)
    times = np.linspace(0, 3, 41)
    once = np.sqrt(2 / G)
    since = np.abs((times + once) % (2 * once) - once)
    np.testing.assert_allclose(run(times).g[:, 0], 1 - G * since**2 / 2, atol=1e-12)
    table = run.to_xarray()
    assert table["mode"].dims == ("time",)
    assert table.sizes["switch"] == 3
    assert len(run.to_pandas()) == len(run)
    assert "ball" in run._repr_html_()


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


def test_a_reset_to_a_place_off_the_constraints_is_refused():
    shelf = gn.System(Translations(2), metric=[1.0, 1.0], holonomic=lambda x: jnp.stack([x[1] - 0.5]), name="shelf")
    fall = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], name="fall")
    floor = gn.Event(lambda t, x, xi, lam: x[1], direction=-1, name="floor")
    modes = gn.Modes({"a": fall, "b": shelf}, [gn.Transition("a", floor, "b", lambda t, x, xi: (x, xi.at[1].set(0.0)))])
    with pytest.raises(ValueError, match=r"the reset of 'floor' leads off the constraints of 'b' .* residual 0\.5"):
        gn.solve(modes, mode="a", g0=[0.0, 1.0], xi0=[0.5, 0.0], dt=0.02, n_steps=40)
    modes = gn.Modes({"a": fall, "b": shelf}, [gn.Transition("a", floor, "b")])
    with pytest.raises(ValueError, match=r"the transition 'floor' leads off the constraints of 'b' .* residual 0\.5"):
        gn.solve(modes, mode="a", g0=[0.0, 1.0], xi0=[0.5, 0.0], dt=0.02, n_steps=40)


@pytest.mark.parametrize("from_file", [False, True])
def test_a_further_run_takes_no_other_event_of_the_same_name(from_file, tmp_path):
    modes = rebounding()
    low, high = (gn.Event(lambda t, x, xi, lam, h=h: x[0] - h, name="height") for h in (0.25, 0.5))
    run = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=60, method="gauss4", events=low)
    known = {"system": modes, "method": "gauss4"} if from_file else {}
    before = run.save(tmp_path / "run.nc") if from_file else run
    with pytest.raises(ValueError, match=r"height 0\.75 there, 0\.5 here, at node 0.*give others to new ones"):
        gn.resume(before, 5, events=high, **known)
    same = gn.resume(before, 60, events=gn.Event(lambda t, x, xi, lam: x[0] - 0.25, name="height"), **known)
    whole = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=120, method="gauss4", events=low)
    np.testing.assert_array_equal(same.events["height"].t, whole.events["height"].t)


JUNK = {"text": "a", "array": np.ones(3), "nothing": None, "list": []}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_junk_is_refused_by_its_name(junk):
    start = {"g0": [1.0], "xi0": [0.0], "dt": 0.01, "n_steps": 2}
    modes = rebounding()
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
    for method in (rebounding().leaving, rebounding().guards):
        with pytest.raises((TypeError, ValueError), match=r"mode must be an (integer|index)"):
            method(mode)


def test_a_run_that_fits_no_memory_is_refused_before_its_first_step():
    with pytest.raises(MemoryError, match=r"nodes .* raise save_every"):
        gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=10**12)


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


@pytest.mark.slow
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


def test_events_are_not_named_as_transitions():
    event = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, name="floor")
    with pytest.raises(ValueError, match="events: 'floor' is the name of a transition of ball: take another"):
        gn.solve(rebounding(), "gauss4", mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=4, events=event)


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


@pytest.mark.slow
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
    ball = rebounding(e)
    run = gn.solve(ball, "gauss4", mode="flight", g0=[1.0], xi0=[0.3], dt=0.01, n_steps=100)
    energy = gn.diagnostics.invariants(run)[0]
    assert (energy.conserved, energy.note) == (kept, note)

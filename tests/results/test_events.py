"""Events of a run: where they are, of which order, what is kept there, and how they stop a run and go on with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import geonh as gn
from geonh.diagnostics import poincare_section
from geonh.engine import compiled
from geonh.groups import Translations
from geonh.integrators import DLA, Result
from geonh.results.events import ContactEvent
from geonh.results.zeros import MOST, brackets, root
from geonh.runs import locating
from geonh.runs.locating import EventWarning

SLEIGH = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
START = [0.8, -0.5, 0.0]
SPEED = np.sqrt(1.04 * 0.64 + 0.25)
TURN = np.arctanh(0.5 / SPEED) / (0.2 * SPEED / 1.04)
"""The sleigh's speed is U tanh k(t − t₀), U² = 2E/m, k = aU·m/(I + ma²): it turns round at t₀."""


def forwards(t, g, xi, lam):
    return xi[1]


def quarter(t, g, xi, lam):
    return g[0] - 1.5


def late(t, g, xi, lam):
    return t - 3.217


ENDLESS: list = []
ENDLESS.append(ENDLESS)
EVENTS = (gn.Event(quarter, name="quarter"), gn.Event(forwards, name="turn"), gn.Event(late, name="late"))


def slope(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize(
    ("method", "order", "steps"),
    [
        (gn.SymmetricProjection(), 2, (80, 160, 320, 640)),
        pytest.param(gn.GNI(), 2, (80, 160, 320, 640), marks=pytest.mark.slow),
        pytest.param(DLA(), 2, (80, 160, 320, 640), marks=pytest.mark.slow),
        pytest.param(gn.RKMK(4), 4, (40, 80, 160, 320), marks=pytest.mark.slow),
        (gn.Gauss(2), 4, (20, 40, 80, 160)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, gn.integrators.Integrator) else "",
)
@pytest.mark.filterwarnings("ignore::geonh.results.parasitic.AlternationWarning")
@pytest.mark.quick("SymmetricProjection--")
def test_an_event_has_the_order_of_the_method(method, order, steps):
    errors = []
    for n in steps:
        run = gn.solve(SLEIGH, method, xi0=START, dt=8 / n, n_steps=n, events=gn.Event(forwards, name="turn"))
        at = run.events["turn"]
        assert len(at) == 1
        assert abs(at.xi[0, 1]) < 1e-11
        errors.append(abs(at.t[0] - TURN))
    np.testing.assert_allclose(slope(errors), order, atol=0.1)


@pytest.mark.slow
def test_at_an_event_the_method_keeps_what_it_keeps_at_its_nodes():
    run = gn.solve(SLEIGH, "projected", xi0=START, dt=0.1, n_steps=100, events=EVENTS)
    plain = gn.solve(SLEIGH, "projected", xi0=START, dt=0.1, n_steps=100)
    np.testing.assert_array_equal(run.g, plain.g)
    np.testing.assert_array_equal(run.p_minus, plain.p_minus)
    for name, value in (("quarter", lambda g, xi: g[:, 0] - 1.5), ("turn", lambda g, xi: xi[:, 1])):
        at = run.events[name]
        assert np.abs(value(at.g, at.xi)).max() < 1e-12
        assert np.abs(at.xi[:, 2]).max() < 1e-15
        energy = 0.5 * (1.04 * at.xi[:, 0] ** 2 + at.xi[:, 1] ** 2)
        assert np.abs(energy / run.energy[0] - 1).max() < 1e-13
        lam = gn.mechanics.multipliers(SLEIGH, at.t[0], at.g[0], at.xi[0])
        np.testing.assert_allclose(at.multipliers[0], lam, atol=1e-14)


@pytest.mark.slow
def test_a_bead_leaves_the_sphere_where_its_force_vanishes():
    # From the top of a circle of radius 1 with the speed v: off where cos θ = (2 + v²/g)/3, from the energy.
    g, v = 9.81, 0.3
    bead = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x: g * x[1],
        distribution=gn.Distribution(lambda x: [[x[0], x[1]]]),
        name="bead",
    )
    off = gn.Event(lambda t, x, xi, lam: lam[0], direction=-1, stop=True, name="contact lost")
    height = (2 + v**2 / g) / 3
    time = quad(lambda a: 1 / np.sqrt(v**2 + 2 * g * (1 - np.cos(a))), 0, np.arccos(height), epsabs=1e-13)[0]
    errors = []
    for n in (200, 400, 800, 1600):
        run = gn.solve(bead, "projected", g0=[0.0, 1.0], xi0=[v, 0.0], dt=1.6 / n, n_steps=n, events=off)
        assert run.status is Result.EVENT
        assert run.success
        at = run.events["contact lost"]
        assert "contact lost" in run.message
        assert run.t[-1] <= at.t[0] <= run.t[-1] + run.dt
        assert abs(at.multipliers[0, 0]) < 1e-9 * np.abs(run.multipliers).max()
        errors.append(max(abs(at.t[0] - time), abs(at.g[0, 1] - height)))
    np.testing.assert_allclose(slope(errors), 2, atol=0.1)
    # a new run goes on from there without the contact
    free = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: g * x[1])
    after = gn.solve(free, g0=at.g[0], xi0=at.xi[0], t0=at.t[0], dt=1e-3, n_steps=10)
    assert np.all(np.hypot(*after.g[1:].T) > np.hypot(*at.g[0]))


@pytest.mark.parametrize("returns", [3e-7, 4e-7])
def test_rounding_near_a_zero_from_which_a_function_leaves_is_no_event(returns):
    """It comes back, which is one; just after the start an error of 3e-14 gives it the other sign."""

    def rises(t, g, xi, lam):
        return 1e-6 * t * (1 - t / returns) - 3e-14 * jnp.tanh(1e12 * t)

    run = gn.solve(SLEIGH, "rk4", xi0=START, dt=0.01, n_steps=100, events=gn.Event(rises, direction=-1, name="comes"))
    exact = returns / 2 * (1 + np.sqrt(1 - 12e-8 / returns))
    np.testing.assert_allclose(run.events["comes"].t, [exact], atol=1e-14)


@pytest.mark.slow
def test_directions_times_and_backwards():
    plane = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: 0.5 * x @ x)
    events = [
        gn.Event(lambda t, g, xi, lam: g[0], name="both"),
        gn.Event(lambda t, g, xi, lam: g[0], direction=-1, name="down"),
        gn.Event(lambda t, g, xi, lam, p: g[0], direction=1, name="up"),
        gn.Event(lambda t, g, xi, lam: g[0] - 7.0, name="never"),
        gn.Event(late, name="late"),
    ]
    options = {"g0": [1.0, 0.0], "xi0": [0.0, 0.5], "n_steps": 1000, "events": events}
    run = gn.solve(plane, gn.RKMK(6), dt=0.02, **options)
    np.testing.assert_allclose(run.events["both"].t, np.pi / 2 + np.pi * np.arange(6), atol=1e-10)
    np.testing.assert_allclose(run.events["down"].t, run.events["both"].t[::2], atol=1e-13)
    np.testing.assert_allclose(run.events["up"].t, run.events["both"].t[1::2], atol=1e-13)
    assert len(run.events["never"]) == 0
    np.testing.assert_allclose(run.events["late"].t, 3.217, atol=1e-13)
    back = gn.solve(plane, gn.RKMK(6), dt=-0.02, **options)
    np.testing.assert_allclose(back.events["both"].t, -np.pi / 2 - np.pi * np.arange(6), atol=1e-10)
    section = poincare_section(run, lambda g, xi: g[0], direction=-1)
    np.testing.assert_allclose(section.t, run.events["down"].t, atol=1e-7)
    assert run.events["both"].plot("x", "vy").axes


def test_the_first_that_stops_is_the_last():
    plane = gn.System(Translations(1), metric=[[1.0]])
    first, second = gn.Event(late, stop=True, name="first"), gn.Event(lambda t, g, xi, lam: t - 3.218, name="second")
    before = gn.Event(lambda t, g, xi, lam: t - 3.216, name="before")
    run = gn.solve(plane, xi0=[1.0], dt=0.1, n_steps=100, events=[second, first, before])
    assert [len(run.events[name]) for name in ("before", "first", "second")] == [1, 1, 0]
    assert run.t[-1] == pytest.approx(3.2)


@pytest.mark.parametrize("save_every", [1, 7])
@pytest.mark.quick("7")
def test_resumed_runs_have_the_events_of_one(tmp_path, save_every):
    events = EVENTS
    options = {"xi0": START, "dt": 0.1, "save_every": save_every}
    whole = gn.solve(SLEIGH, "projected", n_steps=100, events=events, **options)
    parts = gn.solve(SLEIGH, "projected", n_steps=32, events=events, **options)
    parts = gn.resume(parts, 1)
    path = parts.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"looked for events .*'turn'"):
        gn.resume(path, 67, system=SLEIGH, method="projected")
    parts = gn.resume(path, 67, system=SLEIGH, method="projected", events=events)
    np.testing.assert_array_equal(parts.g, whole.g)
    loaded = gn.Trajectory.load(parts.save(path))
    for run in (parts, loaded):
        for name, section in whole.events.items():
            for field in ("t", "g", "xi", "multipliers"):
                np.testing.assert_array_equal(getattr(run.events[name], field), getattr(section, field))
    assert set(whole.to_xarray().event_t.dims) == {"event"}


@pytest.mark.slow
def test_going_on_after_an_event_that_stops(tmp_path):
    stop = gn.Event(forwards, stop=True, name="turn")
    run = gn.solve(SLEIGH, "projected", xi0=START, dt=0.1, n_steps=100, events=stop)
    again = gn.resume(run, 10)
    assert len(again) == len(run)
    assert len(again.events["turn"]) == 1
    on = gn.resume(gn.Trajectory.load(run.save(tmp_path / "a.nc")), 10, system=SLEIGH, method="projected", events=())
    assert len(on) == len(run) + 10
    assert len(on.events["turn"]) == 1


@pytest.mark.slow
def test_controls_in_an_array_and_as_a_function():
    pushed = gn.System(Translations(1), metric=[[1.0]], forces=lambda t, x, xi, u: u)
    event = gn.Event(lambda t, g, xi, lam: g[0] - 0.3, name="there")
    t = 0.01 * np.arange(201)
    rows = gn.solve(pushed, xi0=[0.0], dt=0.01, n_steps=200, controls=t[:, None], events=event)
    there = rows.events["there"]
    np.testing.assert_allclose(there.t, 1.8 ** (1 / 3), atol=1e-4)  # x = t³/6
    np.testing.assert_allclose(there.xi[:, 0], there.t**2 / 2, atol=1e-12)


def test_without_events_nothing_else_is_compiled():
    gn.solve(SLEIGH, xi0=START, dt=0.1, n_steps=3)
    known = compiled.loop_of.cache_info().misses
    gn.solve(SLEIGH, xi0=START, dt=0.1, n_steps=3)
    gn.solve(SLEIGH, xi0=START, dt=0.1, n_steps=3, events=[])
    assert compiled.loop_of.cache_info().misses == known


@pytest.mark.slow
def test_a_callback_that_raises_leaves_the_events():
    def progress(done, total):
        if done > 10:
            raise OSError("no")

    with pytest.raises(OSError, match="no") as result:
        gn.solve(SLEIGH, xi0=START, dt=0.1, n_steps=100, events=EVENTS, progress=progress)
    part = result.value.trajectory
    assert len(part) < 101
    assert all(len(section) == 1 for section in gn.resume(part, 101 - len(part)).events.values())


@jax.jit
def found_root(at, steep, shape):
    def function(s):
        shapes = [s - at, jnp.tanh(steep * (s - at)), jnp.expm1(steep * (s - at)), (s - at) ** 3]
        return jnp.stack(shapes)[shape], s

    return root(function, function(0.0)[0])


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.2, 40.0), st.integers(0, 3))
def test_roots_of_steep_and_flat_functions(at, steep, shape):
    assert abs(found_root(at, steep, shape) - at) < 2e-13


def test_a_smooth_root_takes_few_values():
    calls = []

    def function(s):
        calls.append(s)
        return jnp.cos(2.0 * s) - 0.3, s

    with jax.disable_jit():
        assert abs(root(function, function(jnp.zeros(()))[0]) - np.arccos(0.3) / 2) < 2e-13
    assert len(calls) < 14  # bisection takes 44


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (lambda t, g, xi, lam: 1.0, "not iterable|Event"),
        ([forwards], "Event"),
        ([gn.Event(forwards), gn.Event(quarter)], "different names"),
        (gn.Event(lambda t, g, xi, lam: xi), "one number"),
        (gn.Event(lambda t, g, xi, lam: g[7]), "event 'event'.*index"),
        (gn.Event(lambda t, g, xi, lam: np.sin(t)), "jax.numpy"),
        (gn.Event(lambda t, g, xi, lam: jnp.log(-1.0 - t)), "not a number where the run begins"),
    ],
)
def test_what_is_no_event_is_said(events, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gn.solve(SLEIGH, xi0=START, dt=0.1, n_steps=3, events=events)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3.0,), "function"),
        ((lambda t: t,), "takes"),
        ((forwards, 2), "direction"),
        ((forwards, 0, 1), "stop"),
        ((forwards, 0, True, 5), "name"),
        ((ENDLESS,), "function"),
        ((forwards, ENDLESS), "direction"),
        ((forwards, 0, True, ENDLESS), "name"),
    ],
)
def test_wrong_events(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gn.Event(*arguments)


@pytest.mark.slow
def test_by_xla_the_events_are_the_same(monkeypatch):
    options = {"xi0": START, "dt": 0.1, "n_steps": 40, "save_every": 7}
    native = gn.solve(SLEIGH, events=EVENTS, **options)
    monkeypatch.setattr(compiled.native, "available", lambda: False)
    compiled.loop_of.cache_clear()
    compiled.map_of.cache_clear()
    with pytest.warns(compiled.EngineWarning):
        by_xla = gn.solve(SLEIGH, events=EVENTS, **options)
    compiled.loop_of.cache_clear()
    compiled.map_of.cache_clear()
    np.testing.assert_allclose(by_xla.g, native.g, atol=1e-12)
    for name, section in native.events.items():
        np.testing.assert_allclose(by_xla.events[name].t, section.t, atol=1e-11)
        np.testing.assert_allclose(by_xla.events[name].g, section.g, atol=1e-11)


@pytest.mark.slow
def test_a_holonomic_system_that_depends_on_the_time():
    pendulum = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=gn.time_dependent(lambda t, x: (9.81 + jnp.sin(t)) * x[1]),
        holonomic=lambda x: jnp.stack([x @ x - 1.0]),
    )
    g0 = [np.sin(0.5), -np.cos(0.5)]
    lowest = gn.Event(lambda t, g, xi, lam: g[0], name="lowest")
    options = {"g0": g0, "xi0": [0.0, 0.0], "events": lowest}
    fine = gn.solve(pendulum, gn.Gauss(3), dt=0.01, n_steps=200, **options).events["lowest"]
    for n in (100, 200):
        at = gn.solve(pendulum, gn.Gauss(2), dt=2 / n, n_steps=n, **options).events["lowest"]
        np.testing.assert_allclose(at.t, fine.t, atol=2 * (2 / n) ** 4)
        assert np.abs(np.hypot(*at.g.T) - 1).max() < 1e-12
        assert at.multipliers.shape == (len(at), 1)


# --- several zeros in a step, and what is no zero ------------------------------------------------------------
LINE = gn.System(Translations(1), metric=[[1.0]])
"""A free particle: x = t."""


def times(function, directions=(0,), **options):
    """Times at which events of the place x = t happen, one of each direction."""
    events = [gn.Event(lambda t, x, xi, lam: function(x[0]), direction=d, name=str(d)) for d in directions]
    run = gn.solve(LINE, "rkmk4", **({"xi0": [1.0], "dt": 0.1, "n_steps": 20, "events": events} | options))
    return [run.events[str(d)].t for d in directions]


SEVERAL = {
    "three near one place": (lambda x: (x - 1.0) * (x - 1.001) * (x - 1.002), [1.0, 1.001, 1.002], 0.1),
    "three": (lambda x: (x - 1.01) * (x - 1.03) * (x - 1.08), [1.01, 1.03, 1.08], 0.1),
    "two near one place": (lambda x: (x - 1.03) * (x - 1.0301), [1.03, 1.0301], 0.1),
    "two": (lambda x: (x - 1.02) * (x - 1.07), [1.02, 1.07], 0.1),
    "one in each half": (lambda x: (x - 1.02) * (x - 1.17), [1.02, 1.17], 0.2),
    "a wave": (lambda x: jnp.sin(20 * x), np.pi / 20 * np.arange(1, 13), 0.1),
    "two or more a step": (lambda x: jnp.sin(20 * x), np.pi / 20 * np.arange(1, 26), 0.4),
    "next to a pole": (lambda x: jnp.tan(10 * (x - 0.013)), 0.013 + np.pi / 10 * np.arange(7), 0.1),
}


@pytest.mark.parametrize(("function", "zeros", "dt"), SEVERAL.values(), ids=SEVERAL)
@pytest.mark.filterwarnings("ignore::geonh.runs.locating.EventWarning")  # of the poles
@pytest.mark.quick("next to a pole")
def test_all_zeros_of_a_step_are_found_in_order(function, zeros, dt):
    n_steps = round((4.0 if dt == 0.4 else 2.0) / dt)
    both, up, down = times(function, (0, 1, -1), dt=dt, n_steps=n_steps)
    zeros = np.asarray(zeros)
    slope = np.sign([jax.grad(function)(zero) for zero in zeros])
    for result, wanted in ((both, zeros), (up, zeros[slope == 1]), (down, zeros[slope == -1])):
        np.testing.assert_allclose(result, wanted, atol=1e-11)
    stop = gn.Event(lambda t, x, xi, lam: function(x[0]), stop=True)
    run = gn.solve(LINE, "rkmk4", xi0=[1.0], dt=dt, n_steps=n_steps, events=stop)
    np.testing.assert_allclose(run.events["event"].t, zeros[:1], atol=1e-11)
    assert run.status is Result.EVENT


@pytest.mark.parametrize(
    ("zero", "direction", "first"), [(1.03, 0, 1.03), (1.03, 1, 1.05), (1.03, -1, 1.03)], ids=["both", "up", "down"]
)
@pytest.mark.quick("up")
def test_of_several_in_a_step_the_first_of_its_direction_stops(zero, direction, first):
    stop = gn.Event(lambda t, x, xi, lam: (x[0] - zero) * (x[0] - 1.05), direction=direction, stop=True, name="stop")
    other = gn.Event(lambda t, x, xi, lam: jnp.sin(100 * np.pi * (x[0] - 1.005)), name="other")
    run = gn.solve(LINE, "rkmk4", xi0=[1.0], dt=0.1, n_steps=20, events=[other, stop])
    np.testing.assert_allclose(run.events["stop"].t, [first], atol=1e-12)
    np.testing.assert_allclose(run.events["other"].t[-1], first - 0.005, atol=1e-11)
    assert run.t[-1] == pytest.approx(1.0)


NO_ZERO = {
    "pole": lambda x: 1 / (x - 1.03),
    "pole at a node": lambda x: 1 / (x - 1.0),
    "pole of third order": lambda x: (x - 1.03) ** -3.0,
    "wrapped angle": lambda x: jnp.arctan2(jnp.sin(3 * x), jnp.cos(3 * x)) + 0.0 * x,
    "jump": lambda x: jnp.where(x < 1.03, -0.2, 0.1),
    "jump of a slope": lambda x: jnp.where(x < 1.03, x - 1.2, x - 0.9),
}


@pytest.mark.parametrize("function", NO_ZERO.values(), ids=NO_ZERO)
@pytest.mark.parametrize("stop", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.quick("False-jump")
def test_poles_and_jumps_are_no_zeros_and_warn(function, stop):
    event = gn.Event(lambda t, x, xi, lam: function(x[0]), stop=stop)
    for dt in (0.1, 0.125):
        with pytest.warns(EventWarning, match=r"'event' jumps over zero at t = 1(\.0\d*)?:") as warned:
            run = gn.solve(LINE, "rkmk4", xi0=[1.0], dt=dt, n_steps=15, events=event)
        assert len(run.events["event"]) == 0
        assert run.status is Result.SUCCESS
        assert len(warned) == 1


CONTINUOUS = {
    "steep": lambda x: jnp.tanh(1e7 * (x - 1.03)),
    "a root": lambda x: jnp.cbrt(x - 1.03),
    "flat": lambda x: (x - 1.03) ** 5,
    "a kink": lambda x: jnp.where(x < 1.03, 1e-3, 1e3) * (x - 1.03),
    "far away": lambda x: (x + 1e6) - (1e6 + 1.03),
}


@pytest.mark.parametrize("function", CONTINUOUS.values(), ids=CONTINUOUS)
@pytest.mark.filterwarnings("error")
@pytest.mark.quick("a root", "far away")
def test_steep_and_flat_zeros_are_zeros(function):
    np.testing.assert_allclose(times(function), [[1.03]], atol=1e-9)


TOUCHING = {
    "within a step": lambda x: (x - 1.03) ** 2,
    "within a step, multiplied out": lambda x: x**2 - 2.06 * x + 1.0609,
    "in the middle of a step": lambda x: (x - 1.05) ** 2,
    "at a node": lambda x: (x - 1.0) ** 2,
    "from below, at a node": lambda x: -((x - 1.0) ** 2),
    "of fourth order": lambda x: (x - 1.03) ** 4,
    "over it": lambda x: (x - 1.03) * (x - 1.03) + 1e-12,
    "an edge": lambda x: jnp.abs(x - 1.03),
    "an even pole": lambda x: (x - 1.03) ** -2.0,
}


@pytest.mark.parametrize("function", TOUCHING.values(), ids=TOUCHING)
@pytest.mark.quick("at a node")
def test_what_touches_zero_does_not_cross_it(function):
    assert not any(map(len, times(function, (-1, 0, 1), dt=0.125, n_steps=16)))
    assert not any(map(len, times(function, (-1, 0, 1))))


@pytest.mark.slow
def test_zeros_at_nodes_count_once():
    step = 0.125  # whose multiples are numbers of the machine
    for function, zeros in (
        (lambda x: x - 1.0, [1.0]),
        (lambda x: (x - 1.0) ** 3, [1.0]),
        (lambda x: (x - 1.0) * (x - 1.03125), [1.0, 1.03125]),
        (lambda x: (x - 0.984375) * (x - 1.0), [0.984375, 1.0]),
        (lambda x: (x - 0.984375) * (x - 1.0) * (x - 1.125), [0.984375, 1.0, 1.125]),
    ):
        np.testing.assert_allclose(times(function, dt=step, n_steps=16), [zeros], atol=1e-12)
    assert len(times(lambda x: 0.0 * x)[0]) == 0  # nowhere does it change its sign
    np.testing.assert_allclose(times(lambda x: jnp.maximum(1.03 - x, 0.0)), [[1.03]], atol=0.02)  # it stays on zero


@pytest.mark.slow
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_a_run_that_begins_on_zero(sense):
    """Node 0 is no event, whichever way it is left; the sign after it is that of the step."""
    for function, zeros in (
        (lambda x: x, []),
        (lambda x: x**2, []),
        (lambda x: x * (x - sense * 0.03), [0.03]),
        (lambda x: x * (x - sense * 0.03) * (x - sense * 0.04), [0.03, 0.04]),
        (lambda x: x * (x - sense), [1.0]),
    ):
        np.testing.assert_allclose(times(function, dt=sense * 0.1), [sense * np.array(zeros)], atol=1e-12)
    # thrown up from the floor, it comes back within the first step, or the second
    ball = gn.System(Translations(1), metric=[[1.0]], potential=lambda x: 10.0 * x[0])
    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, stop=True)
    for speed in (0.1, 0.3, 0.9):
        run = gn.solve(ball, "gauss4", xi0=[speed * sense], dt=0.1 * sense, n_steps=5, events=floor)
        np.testing.assert_allclose(run.events["event"].t, [sense * speed / 5], atol=1e-12)


@pytest.mark.slow
def test_two_zeros_in_a_step_of_a_velocity_and_of_a_force():
    swing = gn.System(Translations(1), metric=[[1.0]], potential=lambda x: 0.5 * x @ x)  # x = −cos t
    low = np.pi / 2 - 0.03
    slow = gn.Event(lambda t, x, xi, lam: xi[0] - np.sin(low), name="slow")
    run = gn.solve(swing, gn.Gauss(3), g0=[-1.0], xi0=[0.0], dt=0.35, n_steps=8, events=slow)
    np.testing.assert_allclose(run.events["slow"].t, [low, np.pi - low], atol=1e-5)

    def push(t, x, xi, u):
        return jnp.stack([0.0, (x[0] - 1.03) * (x[0] - 1.04)])

    rail = gn.System(Translations(2), metric=np.eye(2), distribution=gn.Distribution([[0.0, 1.0]]), forces=push)
    free = gn.Event(lambda t, x, xi, lam: lam[0], name="free")
    run = gn.solve(rail, "gauss4", xi0=[1.0, 0.0], dt=0.1, n_steps=20, events=free)
    np.testing.assert_allclose(run.events["free"].t, [1.03, 1.04], atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "error"),
    [("gni", 0.12), ("dla", 0.12), ("projected", 0.12), ("rk4", 1e-3), ("gauss4", 1e-3), ("lobatto4", 1e-3)],
)
@pytest.mark.filterwarnings("ignore::geonh.results.parasitic.AlternationWarning")
def test_methods_that_begin_anew_within_a_step_count_as_others_do(method, error):
    event = gn.Event(lambda t, g, xi, lam: jnp.sin(25 * g[1] + 1) * (xi[1] + 3), name="wave")
    run = gn.solve(SLEIGH, method, xi0=START, dt=0.2, n_steps=40, events=event)
    fine = gn.solve(SLEIGH, gn.Gauss(3), xi0=START, dt=0.02, n_steps=400, events=event)
    assert len(run.events["wave"]) == len(fine.events["wave"]) == 14
    np.testing.assert_allclose(run.events["wave"].t, fine.events["wave"].t, atol=error)


@pytest.mark.slow
def test_resumed_runs_have_all_zeros_of_one():
    event = gn.Event(lambda t, x, xi, lam: jnp.sin(20 * x[0]) * (x[0] - 0.8), name="wave")
    options = {"g0": [0.0], "xi0": [1.0], "dt": 0.2, "events": event}
    whole = gn.solve(LINE, "gauss4", n_steps=20, **options)
    parts = gn.solve(LINE, "gauss4", n_steps=1, **options)
    for _ in range(19):
        parts = gn.resume(parts, 1)
    assert len(whole.events["wave"]) == 26
    for field in ("t", "g", "xi", "multipliers"):
        np.testing.assert_array_equal(getattr(parts.events["wave"], field), getattr(whole.events["wave"], field))
    np.testing.assert_array_equal(parts.g, whole.g)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.quick("True")
def test_members_of_ensembles_have_all_zeros_of_their_runs(stop):
    events = [
        gn.Event(lambda t, x, xi, lam: jnp.sin(20 * x[0]), name="wave"),
        gn.Event(lambda t, x, xi, lam: (x[0] - 1.03) * (x[0] - 1.05), direction=1, stop=stop, name="well"),
        gn.Event(lambda t, x, xi, lam: 1 / (x[0] - 0.53), name="pole"),
    ]
    options = {"dt": 0.2, "n_steps": 10, "events": events}
    speeds = np.array([[1.0], [0.7], [-0.3]])
    with pytest.warns(EventWarning, match="'pole' jumps over zero"):
        runs = gn.solve_ensemble(LINE, "gauss4", xi0=speeds, most_events=30, **options)
    for i, speed in enumerate(speeds):
        own = gn.solve(LINE, "gauss4", xi0=speed, **options)
        for name, passed in runs.events.items():
            assert passed.number[i] == len(own.events[name])
            np.testing.assert_array_equal(passed.t[i, : passed.number[i]], own.events[name].t)
        assert runs.n_steps[i] == own.k[-1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_events_of_contacts_are_those_of_functions_that_steps_resolve(seed):
    """Random sums of oscillations of eight steps a period and more, of which many touch zero within one step."""
    rng = np.random.default_rng(seed)
    body, found = gn.System(Translations(1), metric=[1.0]), []
    for _ in range(8):
        n = np.exp(rng.uniform(np.log(0.02), np.log(np.pi / 4), 4))  # rad a step
        a, b = rng.normal(size=(2, 4))
        values = [float(np.sum(a * np.cos(n * s + b))) for s in np.linspace(0.0, 200.0, 20001)]
        low = np.sort(values)[rng.integers(1, 50)] + 1e-3  # just above the lowest places

        def function(t, x, xi, lam, n=n, a=a, b=b, low=low):
            return jnp.sum(a * jnp.cos(n * x[0] + b)) - low  # x = t

        runs = [
            gn.solve(body, "rkmk4", g0=[0.0], xi0=[1.0], dt=1.0, n_steps=200, events=kind(function, name="zero"))
            for kind in (gn.Event, ContactEvent)
        ]
        np.testing.assert_array_equal(runs[0].events["zero"].t, runs[1].events["zero"].t)
        found.append(len(runs[0].events["zero"].t))
    assert min(found) > 0


@pytest.mark.quick("0.01")
@pytest.mark.parametrize("dt", [0.02, 0.01, 0.0025])
def test_a_vibration_that_sets_in_is_seen_at_its_own_frequency(dt):
    """At nodes it vanishes; a block that holds up to 9 N slips at each of its waves all the same."""
    block = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        distribution=gn.Distribution([[0.0, 1.0]]),
        forces=lambda t, x, xi, u: jnp.stack([0.0 * t, u[0]]),
    )
    modes = gn.rolling.slipping(block, {"foot": (0, 9.0)})
    given = {"mode": "grip", "g0": [0.0, 0.0], "xi0": [1.0, 0.0], "dt": dt, "n_steps": round(1 / dt)}
    run = gn.solve(
        modes,
        "gauss6",
        **given,
        controls=lambda t: jnp.stack([5 + 6 * jnp.minimum(t / 0.5, 1.0) * jnp.sin(100 * np.pi * t)]),
    )
    assert len(run.switches.t) == 66
    np.testing.assert_allclose(run.switches.t[:3], [0.3441981, 0.34669461, 0.36369023], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [0.76, 0.785])
def test_a_body_that_tumbles_by_a_quarter_of_a_turn_a_step_lands_in_time(phase, monkeypatch):
    body = gn.rolling(gn.rolling.disc(0.3), [0.01, 0.01, 0.015], 1.0, friction=0.3, restitution=0.5)
    g0, c, s = np.eye(4), np.cos(phase), np.sin(phase)
    g0[1:3, 1:3], g0[2, 3] = [[c, -s], [s, c]], 0.31
    given = {"mode": "free", "g0": g0, "xi0": [np.pi / 2 / 0.01, 0, 0, 0, 0, 0], "dt": 0.01, "n_steps": 10}
    landed = [gn.solve(body, "gauss4", **given, throw=False).switches.t[0]]
    monkeypatch.setattr(locating, "TURN", 0.0)  # every step is sampled
    compiled.loop_of.cache_clear()
    landed.append(gn.solve(body, "gauss4", **given, throw=False).switches.t[0])
    compiled.loop_of.cache_clear()
    assert landed[0] == landed[1] < 0.07


def test_a_function_that_is_noise_takes_a_bounded_time():
    calls = []

    def sample(row, s):
        calls.append(len(s))
        return np.sin(1e9 * s + row)

    row, *_ = brackets(sample, np.array([[1.0, -1.0]]))
    assert len(row) % 2 == 1
    assert sum(calls) < 10 * MOST


@pytest.mark.parametrize("dt", [0.1, 0.07, 0.01])
@pytest.mark.quick("0.1")
def test_an_event_that_reaches_zero_and_stays_is_where_it_reaches_it(dt):
    free = gn.System(gn.groups.Translations(1), metric=[[1.0]])
    event = gn.Event(lambda t, x, xi, lam: jnp.maximum(1.0371 - x[0], 0.0), stop=True)
    run = gn.solve(free, xi0=[1.0], dt=dt, n_steps=int(2 / dt), events=event)
    np.testing.assert_allclose(run.events["event"].t, [1.0371], rtol=0, atol=1e-12)


@pytest.mark.parametrize("direction", [np.timedelta64(1, "s"), 2, 1.0, "up", None])
def test_directions_are_refused_by_name(direction):
    with pytest.raises(ValueError, match="direction must be one of"):
        gn.Event(lambda t, g, xi, lam: g[0], direction=direction)

"""Constraints on positions, functions of the time, events, drawings and analysis, given what they cannot take."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import (
    continue_orbit,
    invariant_measure,
    lyapunov_exponents,
    nonholonomic_connection,
    periodic_orbit,
)
from geonh.drawing import Body, NoDrawingError, Pose, ball, momenta, shifted
from geonh.groups import Translations
from geonh.runs.locating import EventWarning

R2 = Translations(2)
RUN = {"xi0": [1.0, 0.5], "dt": 0.1, "n_steps": 5}
SPRING = gn.System(
    R2, metric=[1.0, 1.0], potential=lambda x, p: 0.5 * p["k"] * (x @ x) + 0.1 * x[0] ** 4, parameters={"k": 1.0}
)
SHAKEN = gn.System(
    R2,
    metric=[1.0, 1.0],
    potential=lambda x: 9.81 * x[1],
    holonomic=gn.time_dependent(lambda t, x: jnp.stack([x[0] ** 2 + (x[1] - 0.1 * jnp.cos(60 * t)) ** 2 - 1])),
    name="shaken",
)


def event(function=lambda t, g, xi, lam: g[0] - 10.0, **options):
    return gn.Event(function, **options)


@pytest.mark.parametrize("shift", [0, 7])
def test_an_index_by_data_in_a_constraint_on_positions(shift):
    system = gn.System(R2, metric=[1.0, 1.0], holonomic=lambda x: jnp.stack([x[jnp.array(x[1], int) + shift] - 1]))
    start = {"g0": [1.0, 0.0], "xi0": [0.0, 0.1], "dt": 0.1, "n_steps": 2}
    if shift:
        with pytest.raises(ValueError, match="not finite"):
            gn.solve(system, **start)
    else:
        assert gn.solve(system, **start).g[-1, 0] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("argument", "function"), [("forces", lambda t, x, xi, u: xi), ("draw", lambda t, g, p: [Body("a", ball(1.0))])]
)
def test_what_takes_the_time_anyway_is_not_marked(argument, function):
    with pytest.raises(TypeError, match=f"{argument} takes the time as it is.*leave time_dependent"):
        gn.System(R2, metric=[1.0, 1.0], **{argument: gn.time_dependent(function)})


def test_a_unit_that_no_file_can_hold_is_refused_when_the_system_is_made():
    with pytest.raises(ValueError, match="units: that of 'x'"):
        gn.System(R2, metric=[1.0, 1.0], units={"x": "\ud800"})


# --- events ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("junk", [0, False, 5, "a", {}, {"a": event()}, np.zeros(0), lambda t: t, gn.Event, [event]])
def test_what_is_no_event_is_refused(junk):
    with pytest.raises(TypeError, match="events must be Event"):
        gn.solve(SPRING, **RUN, events=junk)


@pytest.mark.slow
def test_events_of_a_system_with_a_clock_and_their_pictures():
    g0, xi0 = SHAKEN.project([0.2, 1.1], [0.0, 0.0])
    falls = event(lambda t, g, xi, lam: g[1] - 1.0, name="falls")
    run = gn.solve(SHAKEN, "gauss4", g0=g0, xi0=xi0, dt=0.002, n_steps=60, events=falls)
    assert run.events["falls"].g[:, 1] == pytest.approx(1.0, abs=1e-12)
    assert len(run.events["falls"]) > 0
    force = momenta(run).force
    x, y = run.g.T
    rod = np.stack([x, y - 0.1 * np.cos(60 * run.t)], axis=1)
    np.testing.assert_allclose(force[:, :2], 2 * rod * run.multipliers, atol=1e-9 * np.abs(force).max())
    assert "shaken" in run.view().html


def test_an_event_that_is_no_number_warns():
    free = {"xi0": [1.0, 0.0], "dt": 0.1, "n_steps": 20}
    with pytest.warns(EventWarning, match=r"'event' is not a number at t = 1\.1"):
        gn.solve(SPRING, **free, events=event(lambda t, g, xi, lam: jnp.sqrt(1.05 - t) - 2))
    with pytest.raises(ValueError, match=r"'event'.* not a number where the run begins"):
        gn.solve(SPRING, **free, events=event(lambda t, g, xi, lam: g[jnp.array(xi[0], int) + 5]))


@pytest.mark.slow
@pytest.mark.parametrize("by_file", [False, True])
def test_a_run_without_events_so_far_goes_on_to_some(tmp_path, by_file):
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    options = {"xi0": [0.8, -0.5, 0.0], "dt": 0.05, "events": event(lambda t, g, xi, lam: xi[1])}
    whole, part = (gn.solve(sleigh, **options, n_steps=n) for n in (200, 20))
    assert len(part.events["event"]) == 0
    assert len(whole.events["event"]) == 1
    bound, on = {"system": sleigh, "method": part.method, "events": options["events"]}, part
    for steps in (10, 10, 160):
        on = gn.resume(on.save(tmp_path / "run.nc") if by_file else on, steps, **bound)
        assert on.events["event"].multipliers.shape == (len(on.events["event"]), 1)
        assert gn.Trajectory.load(on.save(tmp_path / "run.nc")).events["event"].multipliers.shape[1] == 1
    for name in ("t", "g_vector", "xi", "multipliers"):
        np.testing.assert_array_equal(getattr(on.events["event"], name), getattr(whole.events["event"], name))


OTHER_EVENTS = {
    "function": (event(lambda t, g, xi, lam: g[0] - 0.2), r"events: event [01]\.?\d* there, 0\.\d+ here, at node \d"),
    "written otherwise": (event(lambda t, g, xi, lam: g[0] + 0.0), "events: event written otherwise"),
    "direction": (event(lambda t, g, xi, lam: g[0], direction=1), "events: event direction 0 there, 1 here"),
}


@pytest.mark.parametrize(("other", "words"), OTHER_EVENTS.values(), ids=OTHER_EVENTS)
@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.quick("True-direction")
def test_another_event_of_the_same_name_is_refused_or_allowed_and_told(tmp_path, other, words, by_file):
    begun = gn.solve(
        SPRING, xi0=[0.0, 0.3], g0=[1.0, 0.0], dt=0.1, n_steps=20, events=event(lambda t, g, xi, lam: g[0])
    )
    options = {"system": SPRING, "method": begun.method}
    known = begun.save(tmp_path / "run.nc") if by_file else begun
    with pytest.raises(ValueError, match=words):
        gn.resume(known, 5, events=other, **options)
    on = gn.resume(known, 5, events=other, **options, allow_changes="events")
    assert on.attributes["changes"][0]["what"].keys() == {"events"}
    again = gn.resume(known, 5, events=[event(lambda t, g, xi, lam: g[0]), event(name="further")], **options)
    assert not again.attributes["changes"]


# --- pictures ----------------------------------------------------------------------------------------------
@pytest.mark.quick("no body", "trace", "colour")
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda g: Body("a", ball(0.1), at=Pose(jnp.eye(3), g)), "pose of body 'a' must be real"),
        (lambda g: Body("a", ball(0.1), at=shifted(g)), r"x must have shape \(\), got \(2,\)"),
        (lambda g: Body("a", ball(0.1), at=shifted(jnp.log(-1.0 - g[0]))), "pose of body 'a' is not finite"),
        (lambda g: Body("a", ball(0.1), at=shifted(1j * g[0])), "complex"),
        (lambda g: Body("a", ball(0.1), at=shifted(g[5])), "draw of 'system' asks for index 5"),
        (lambda g: Body("a", ball(0.1), colour="reddish"), "colour of body 'a'"),
        (lambda g: Body("a", ball(0.1), trace=[0, 0]), "trace of body 'a'"),
        (lambda g: Body(5, ball(0.1)), "name of a body"),
        (lambda g: 5, "must return a list"),
    ],
    ids=["shape", "axis", "nan", "complex", "index", "colour", "trace", "name", "no body"],
)
def test_a_drawing_that_is_none_is_told_by_every_picture(made, words):
    run = gn.solve(gn.System(R2, metric=[1.0, 1.0], draw=lambda t, g, p: [made(g)]), **RUN)
    for picture in (run.view, run.plot):
        with pytest.raises((ValueError, TypeError), match=words) as caught:
            picture()
        assert not isinstance(caught.value, NoDrawingError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fps": 1e9}, "fps = 1e.09 would make"),
        ({"speed": 1e-9}, "speed = 1e-09"),
        ({"dpi": "a"}, "dpi must be real"),
        ({"progress": 5}, "progress must be"),
        ({"size": functools.reduce(lambda inner, _: [inner], range(2000), [])}, r"size must be .*, got a list"),
    ],
)
def test_options_of_animations(tmp_path, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        gn.solve(SPRING, **RUN).animate(tmp_path / "a.gif", **options)


@pytest.mark.parametrize(
    ("others", "options", "words"),
    [((5,), {}, "trajectories, got 5"), ((), {"names": 5}, "names must"), ((), {"side_by_side": 5}, "side_by_side")],
)
def test_options_of_the_viewer(others, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        gn.solve(SPRING, **RUN).view(*others, **options)


# --- analysis ----------------------------------------------------------------------------------------------
def orbit(**options):
    amplitude = {"conditions": lambda g, xi, T, p: jnp.stack([g[0] - 0.5])}
    return periodic_orbit(SPRING, [0.5, 0.0], [0.0, 0.0], 6.0, **(amplitude | options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conditions": lambda g, xi, T, p: jnp.stack([g[8]])}, "conditions asks for index 8"),
        ({"conditions": lambda g, xi, T, p: np.sin(g)}, "conditions calls NumPy"),
        ({"conditions": lambda g, xi, T, p: 1j * g}, "conditions returned complex"),
        ({"returns": lambda g, xi, h, eta: None}, "returns returned None"),
        ({"returns": lambda g, xi, h, eta: h.astype(jnp.float32)}, "returns returned float32"),
        ({"returns": lambda g, xi, h, eta: jnp.zeros(0)}, "returns gives no number"),
        ({"fixed": lambda g, xi: jnp.stack([g[9]])}, "fixed asks for index 9"),
        ({"tol": 1e300}, r"tol must lie in \(0, 1\)"),
        ({"tol": np.nan}, "tol must be"),
        ({"max_iterations": -1}, "max_iterations must be"),
    ],
)
def test_orbits_refuse_functions_and_numbers_that_are_none(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        orbit(**options)


def test_a_continuation_that_would_not_move_is_refused():
    first = orbit()
    for step, words in ((0.0, "must not be zero"), (np.nan, "must be finite")):
        with pytest.raises(ValueError, match=f"step {words}"):
            continue_orbit(SPRING, first, "k", step=step, n_orbits=2)


@pytest.mark.slow
def test_lyapunov_exponents_on_a_sphere_count_its_states_only():
    """A free motion on the sphere: a state has four dimensions, and all exponents tend to zero like log(t)/t."""
    sphere = gn.System(Translations(3), metric=np.ones(3), holonomic=lambda x: jnp.stack([x @ x - 1]))
    at = {"xi": [0.0, 1.0, 0.0], "dt": 0.05, "n_steps": 2000}
    result = lyapunov_exponents(sphere, [1.0, 0.0, 0.0], **at)
    assert result.exponents.shape == (4,)
    assert np.abs(result.exponents).max() < 0.1
    with pytest.raises(ValueError, match="off the constraints"):
        lyapunov_exponents(sphere, [1.0, 0.0, 0.1], **at)
    with pytest.raises(ValueError, match="dt must not be zero"):
        lyapunov_exponents(SPRING, [0.5, 0.0], [0.0, 0.0], dt=0.0, n_steps=10)


def test_candidates_and_gaits_are_inspected():
    with pytest.raises(ValueError, match="candidate 'a' asks for index 9"):
        invariant_measure(SPRING, {"a": lambda x: x[9]})
    with pytest.raises(ValueError, match="candidate 'a' must give one number"):
        invariant_measure(SPRING, {"a": lambda x: x})
    connection = nonholonomic_connection(gn.systems.elroys_beanie())
    with pytest.raises(ValueError, match=r"gait must give shape \[1\]"):
        connection.displacement(lambda t: jnp.array([t, t]), 1.0)
    with pytest.raises(ValueError, match="gait asks for index 3"):
        connection.displacement(lambda t: jnp.stack([jnp.stack([t])[3]]), 1.0)

"""End times of runs, and times at which their solution is wanted."""

from fractions import Fraction

import jax
import numpy as np
import pytest

import geonh as gn

SLEIGH = gn.systems.chaplygin_sleigh()
START = {"xi0": [0.8, -0.5, 0.0]}


# --- end times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dt", "t0", "t_end"), [(0.1, 0.0, 0.3), (0.01, 0.0, 2.0), (-0.1, 1.0, 0.3), (0.7, 0.1, 0.8)])
def test_a_whole_number_of_steps_keeps_the_step_and_the_bits(dt, t0, t_end):
    run = gn.solve(SLEIGH, **START, dt=dt, t0=t0, t_end=t_end)
    same = gn.solve(SLEIGH, **START, dt=dt, t0=t0, n_steps=round((t_end - t0) / dt))
    assert run.dt == dt
    np.testing.assert_array_equal(run.nodes.rows, same.nodes.rows)
    assert "lowered" not in repr(run)


@pytest.mark.parametrize(("dt", "t_end", "n"), [(0.3, 1.0, 4), (-0.3, -1.0, 4), (5.0, 1.0, 1)])
def test_another_end_lowers_the_step(dt, t_end, n, tmp_path):
    run = gn.solve(SLEIGH, **START, dt=dt, t_end=t_end, save_every=3)
    assert run.k[-1] == n
    assert run.dt == t_end / n
    assert abs(run.t[-1] - t_end) <= 4e-16
    assert f"(lowered from {dt:g}, to end at t = {t_end:g})" in repr(run)
    loaded = gn.Trajectory.load(run.save(tmp_path / "run.nc"))
    assert repr(loaded) == repr(run)


@pytest.mark.slow
def test_all_runs_take_an_end(tmp_path):
    run = gn.solve(SLEIGH, **START, dt=0.03, t_end=1.0)
    with gn.float64():
        traced = gn.integrate(SLEIGH, **START, dt=0.03, t_end=1.0)
    many = gn.solve_ensemble(SLEIGH, xi0=[START["xi0"], [0.4, -0.2, 0.0]], dt=0.03, t_end=1.0)
    streamed = gn.stream(SLEIGH, **START, dt=0.03, t_end=1.0, store=tmp_path / "run")
    np.testing.assert_array_equal(traced.g, run.g)
    np.testing.assert_array_equal(many.g_vector[0, -1], run.g_vector[-1])
    np.testing.assert_array_equal(streamed["time"], run.t)
    np.testing.assert_array_equal(streamed["g"][-1], run.g_vector[-1])


def test_resume_to_an_end_that_is_a_node_of_the_run():
    run = gn.solve(SLEIGH, **START, dt=0.1, t_end=1.0)
    more = gn.resume(run, t_end=1.7)
    np.testing.assert_array_equal(more.nodes.rows, gn.solve(SLEIGH, **START, dt=0.1, n_steps=17).nodes.rows)
    with pytest.raises(ValueError, match=r"t_end must be a node of the run, whose dt = 0.1: 1.1 and 1.2 .*, got 1.15"):
        gn.resume(run, t_end=1.15)
    for end in (Fraction(1, 2), 1.0):
        with pytest.raises(
            ValueError, match=rf"leads away from t_end = {float(end):g}: its last node is at t = 1 already"
        ):
            gn.resume(run, t_end=end)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "n_steps, the number of steps, and t_end, .*, are both missing"),
        ({"n_steps": 3, "t_end": 1.0}, "are both given: leave one of them out"),
        ({"t_end": -1.0}, r"dt = 0.1 leads away from t_end = -1, which is before t0 = 0: pass dt = -0.1"),
        ({"t_end": 1.0, "dt": -0.1}, r"leads away from t_end = 1, which is after t0 = 0: pass dt = 0.1"),
        ({"t_end": 0.0}, "t_end must differ from t0"),
        ({"t_end": np.inf}, "t_end must be finite"),
        ({"t_end": 1.0, "dt": 0.0}, "dt must not be zero"),
        ({"t_end": 1.0, "dt": 1e-200}, "dt = 1e-200 is too small"),
    ],
)
@pytest.mark.parametrize("function", [gn.solve, gn.solve_ensemble])
def test_contradictions_are_told(function, options, words):
    with pytest.raises(ValueError, match=words):
        function(SLEIGH, **{**START, "dt": 0.1, **options})


def test_an_end_needs_known_numbers_and_one_step():
    with gn.float64(), pytest.raises(TypeError, match="must not depend on traced values: pass n_steps"):
        jax.grad(lambda dt: gn.integrate(SLEIGH, **START, dt=dt, t_end=1.0).energy[-1])(0.1)
    with pytest.raises(ValueError, match="t_end needs one dt and one t0"):
        gn.solve_ensemble(SLEIGH, **START, dt=[0.1, 0.2], t_end=1.0)


# --- times at which the solution is wanted ---------------------------------------------------------------------

BALL = gn.systems.rolling_ball()
TIMES = np.array([0.0, 0.123, 0.3, 0.3, 0.77, 1.9, 2.0])


def size_of_error(a, b):
    return max(np.abs(a.g_vector - b.g_vector).max(), np.abs(a.xi - b.xi).max())


@pytest.mark.parametrize("name", ["gauss4", "gauss6", "suzuki4", "rkmk4", "projected", "gni", "dla", "lobatto4"])
@pytest.mark.quick("rkmk4")
def test_solution_between_the_nodes_has_the_order_of_the_method(name):
    exact = gn.solve(SLEIGH, "gauss6", **START, dt=0.01, t_eval=TIMES)
    runs = [gn.solve(SLEIGH, name, **START, dt=dt, t_eval=TIMES) for dt in (0.2, 0.1)]
    errors = [size_of_error(run, exact) for run in runs]
    order = gn.methods[name].make().guarantees.order
    assert np.log2(errors[0] / errors[1]) > order - 0.35
    np.testing.assert_array_equal(runs[0].t, TIMES)
    if runs[0].method.guarantees.constraint == "nodes":
        assert np.abs(runs[0].constraint_residual).max() < 1e-13


def test_nodes_of_the_run_keep_their_bits_and_spacing_changes_nothing():
    run = gn.solve(SLEIGH, **START, dt=0.1, t_end=2.0)
    np.testing.assert_array_equal(run(run.t).g_vector, run.g_vector)
    np.testing.assert_array_equal(run(run.t).xi, run.xi)
    sparse = gn.solve(SLEIGH, **START, dt=0.1, t_end=2.0, save_every=7)
    np.testing.assert_allclose(sparse(TIMES).g_vector, run(TIMES).g_vector, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run(0.77).energy, run.energy[0], rtol=1e-5)
    near = run(0.3 + 1e-11)
    np.testing.assert_allclose(near.xi[0], run.xi[3], atol=1e-10)
    back = gn.solve(SLEIGH, **START, dt=-0.1, t0=2.0, t_eval=TIMES[::-1])
    np.testing.assert_array_equal(back.t, TIMES[::-1])


@pytest.mark.slow
def test_solution_at_times_can_be_saved_read_and_drawn(tmp_path):
    run = gn.solve(BALL, xi0=BALL.project(None, [0.3, 0.2, 0.4, -0.2, 0.1]), dt=0.1, t_eval=TIMES)
    loaded = gn.Trajectory.load(run.save(tmp_path / "run.nc"), system=BALL)
    for name in ("t", "k", "g_vector", "xi", "energy", "multipliers"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(run, name))
    assert list(run.to_pandas().index) == list(TIMES)
    run.plot()
    for read in (run, loaded):
        with pytest.raises(ValueError, match=r"has no state to go on from|is needed too"):
            gn.resume(read, 3)


def test_controls_at_the_nodes_are_interpolated_linearly():
    def pushed(t, g, xi, u):
        return u * jax.numpy.array([0.0, 1.0, 0.0])

    body = gn.System(gn.groups.SE2(), metric=np.eye(3), forces=pushed)
    run = gn.solve(body, xi0=np.zeros(3), dt=0.5, n_steps=4, controls=np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(run([0.25, 1.75]).xi[:, 1], [0.0625, 3.0625], rtol=1e-12)


def test_times_up_to_the_event_or_failure_that_ended_the_run():
    there = gn.Event(lambda t, g, xi, lam: t - 0.77, name="there", stop=True)
    run = gn.solve(SLEIGH, **START, dt=0.1, n_steps=20, events=there, t_eval=TIMES)
    np.testing.assert_array_equal(run.t, TIMES[:5])
    assert run.success
    np.testing.assert_allclose(run.g_vector[-1], run.events["there"].g_vector[0], atol=1e-12)


@pytest.mark.parametrize(
    ("times", "error", "words"),
    [
        ([0.1, 2.5], ValueError, r"t_eval must lie in \[0, 2\], got 0.1 to 2.5"),
        ([0.2, 0.1], ValueError, "t_eval must increase"),
        ([[0.1]], ValueError, r"t_eval must have shape \[M\]"),
        ([], ValueError, "t_eval must have shape"),
        (["soon"], TypeError, "t_eval must be real numbers"),
    ],
)
def test_times_that_do_not_fit_are_refused(times, error, words):
    with pytest.raises(error, match=words):
        gn.solve(SLEIGH, **START, dt=0.1, t_end=2.0, t_eval=times)


@pytest.mark.parametrize(
    ("times", "words"),
    [([[0.0, 1.0]], r"t_eval must have shape \[M\]"), ([], "t_eval must have shape"), ([0.0], "t_eval ends at t0 = 0")],
)
def test_times_without_an_end_are_refused_by_their_name(times, words):
    with pytest.raises(ValueError, match=words):
        gn.solve(SLEIGH, **START, dt=0.1, t_eval=times)


def test_who_cannot_be_evaluated_says_so(tmp_path):
    run = gn.solve(SLEIGH, **START, dt=0.1, t_end=2.0)
    with pytest.raises(ValueError, match="call the run itself"):
        run(TIMES)(TIMES)
    loaded = gn.Trajectory.load(run.save(tmp_path / "run.nc"), system=SLEIGH)
    with pytest.raises(ValueError, match=r"use traj.interpolate\(t\)"):
        loaded(TIMES)

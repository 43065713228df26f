"""Steps of variable length that a tolerance chooses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import Result

SLEIGH = gn.systems.chaplygin_sleigh()
START = {"xi0": [0.8, -0.5, 0.0]}
CONTROLLED = gn.Adaptive(gn.RKMK(5), 1e-8)


def entry(name):
    found = gn.systems.catalogue[name]
    system = found.system()
    start = found.start(system)
    return system, {"xi0": start.xi0, "g0": start.g0, "controls": found.controls}, min(found.dt * found.n_steps, 20.0)


def apart(a, b):
    return max(np.abs(a.g_vector[-1] - b.g_vector[-1]).max(), np.abs(a.xi[-1] - b.xi[-1]).max())


def growth(system, start, t_end):
    """Factor by which a perturbation of the start grows over the run, at least 1."""
    exact, factors = gn.solve(system, **start, tolerance=1e-13, t_end=t_end), [1.0]
    for i in range(2):
        push = 1e-6 * np.random.default_rng(i).normal(size=len(start["xi0"]))
        moved = system.project(start["g0"], start["xi0"] + push)
        g0, moved = (start["g0"], moved) if system.holonomic is None else moved
        other = gn.solve(system, **{**start, "g0": g0, "xi0": moved}, tolerance=1e-13, t_end=t_end)
        factors.append(apart(exact, other) / np.abs(moved - start["xi0"]).max())
    return exact, max(factors)


def within_the_tolerance(name, tolerances):
    system, start, t_end = entry(name)
    exact, grown = growth(system, start, t_end)
    for tolerance in tolerances:
        run = gn.solve(system, **start, tolerance=tolerance, t_end=t_end)
        assert run.t[-1] == t_end
        assert apart(run, exact) < 10 * tolerance * grown
        assert np.abs(run.constraint_residual).max(initial=0.0) < 1e-11


@pytest.mark.parametrize("name", ["chaplygin-sleigh", "suslov", "snakeboard", "rolling-disc"])
def test_the_global_error_is_within_the_tolerance(name):
    within_the_tolerance(name, (1e-5, 1e-9))


@pytest.mark.slow
@pytest.mark.parametrize("name", gn.systems.catalogue)
def test_the_global_error_is_within_the_tolerance_on_the_catalogue(name):
    within_the_tolerance(name, (1e-4, 1e-6, 1e-8, 1e-10, 1e-12))


@pytest.fixture(scope="module")
def run():
    return gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=20.0)


def test_a_run_says_its_steps(run):
    assert "(the default for a tolerance)" in repr(run)
    assert f"{len(run) - 1} steps of " in repr(run)
    assert "np.float64" not in repr(run)
    assert run.t[0] == 0.0
    assert np.all(np.diff(run.t) > 0)
    assert np.ptp(np.diff(run.t)) > 0.1
    np.testing.assert_array_equal(run.k, np.arange(len(run)))


def test_a_resumed_run_and_its_file_have_the_same_bits(run, tmp_path):
    part = gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=7.0)
    assert part.t[-1] == 7.0
    np.testing.assert_array_equal(gn.resume(part, t_end=20.0).nodes.rows, run.nodes.rows)
    path = part.save(tmp_path / "part.nc")
    loaded = gn.Trajectory.load(path, system=SLEIGH)
    np.testing.assert_array_equal(loaded.t, part.t)
    np.testing.assert_array_equal(loaded.energy, part.energy)
    more = gn.resume(path, t_end=20.0, system=SLEIGH, method=CONTROLLED)
    np.testing.assert_array_equal(more.nodes.rows, run.nodes.rows)
    np.testing.assert_array_equal(more.energy, run.energy)
    some = gn.resume(part, 5)
    np.testing.assert_array_equal(some.nodes.rows, run.nodes.rows[: len(some)])
    with pytest.raises(ValueError, match=r"leads away from t_end = 3"):
        gn.resume(part, t_end=3.0)


def test_saved_nodes_are_every_few_and_the_last(run):
    sparse = gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=20.0, save_every=10)
    np.testing.assert_array_equal(sparse.nodes.rows[:-1], run.nodes.rows[:-1:10])
    np.testing.assert_array_equal(sparse.nodes.rows[-1], run.nodes.rows[-1])
    part = gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=7.0, save_every=10)
    np.testing.assert_array_equal(gn.resume(part, t_end=20.0).nodes.rows, sparse.nodes.rows)


def test_backwards_in_time_it_returns(run):
    back = gn.solve(SLEIGH, xi0=run.xi[-1], g0=run.g[-1], t0=20.0, t_end=0.0, tolerance=1e-8)
    assert back.t[-1] == 0.0
    np.testing.assert_allclose(back.g[-1], np.zeros(3), atol=1e-8)


def test_events_are_located_and_change_no_step(run):
    events = [
        gn.Event(lambda t, g, xi, lam: t - 1.234, name="time"),
        gn.Event(lambda t, g, xi, lam: t - 19.99, name="in the last step"),
        gn.Event(lambda t, g, xi, lam: xi[1], name="reversal"),
    ]
    seen = gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=20.0, events=events)
    np.testing.assert_array_equal(seen.nodes.rows, run.nodes.rows)
    np.testing.assert_allclose(seen.events["time"].t, 1.234, rtol=1e-13)
    np.testing.assert_allclose(seen.events["in the last step"].t, 19.99, rtol=1e-13)
    np.testing.assert_allclose(seen(seen.events["reversal"].t).xi[:, 1], 0.0, atol=1e-13)
    stop = gn.Event(lambda t, g, xi, lam: xi[1], name="reversal", stop=True)
    stopped = gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=20.0, events=stop)
    assert stopped.status is Result.EVENT
    np.testing.assert_array_equal(stopped.events["reversal"].t, seen.events["reversal"].t)


def test_the_solution_between_the_nodes_is_as_accurate_as_they_are(run):
    times = np.linspace(0.0, 20.0, 57)
    exact = gn.solve(SLEIGH, "gauss6", **START, dt=0.005, t_eval=times)
    seen = gn.solve(SLEIGH, **START, tolerance=1e-8, t_eval=times)
    np.testing.assert_array_equal(seen.t, times)
    assert np.abs(seen.g - exact.g).max() < 1e-8
    assert np.abs(seen.xi - exact.xi).max() < 1e-8
    np.testing.assert_array_equal(run(run.t).g, run.g)
    assert np.abs(seen.constraint_residual).max() < 1e-15


def test_a_traced_run_has_the_same_bits_and_the_derivative_of_its_steps():
    def there(w, method=CONTROLLED, dt=0.01, n=50):
        return gn.integrate(SLEIGH, method, xi0=jnp.array([w, -0.5, 0.0]), dt=dt, n_steps=n)

    with gn.float64():
        traced, found = there(0.8), gn.solve(SLEIGH, CONTROLLED, **START, dt=0.01, n_steps=50)
        np.testing.assert_array_equal(traced.g, found.g)
        np.testing.assert_array_equal(traced.t, found.t)
        np.testing.assert_array_equal(traced.energy, found.energy)
        slope = jax.grad(lambda w: there(w).g[-1, 1])(0.8)
        forward = jax.jvp(lambda w: there(w).g[-1, 1], (0.8,), (1.0,))[1]
        end = float(found.t[-1])
        exact = jax.grad(lambda w: there(w, "gauss6", end / 400, 400).g[-1, 1])(0.8)
    np.testing.assert_allclose(slope, forward, rtol=1e-13)
    np.testing.assert_allclose(slope, exact, rtol=1e-6)


def test_the_first_step_and_the_longest_are_bounded():
    short = gn.solve(SLEIGH, **START, tolerance=1e-4, dt=1e-3, t_end=2.0)
    assert short.t[1] == 1e-3
    limited = gn.solve(SLEIGH, gn.Adaptive(gn.RKMK(5), 1e-4, max_step=0.05), **START, t_end=2.0)
    assert np.diff(limited.t).max() <= 0.05 + 1e-15
    assert len(limited) > 40


def test_steps_shrink_at_a_collision_and_the_run_ends_in_words():
    def attraction(x):
        return -1 / jnp.sqrt(x[0] ** 2 + x[1] ** 2)

    planet = gn.System(Translations(2), metric=np.eye(2), potential=attraction)
    fall = gn.solve(planet, g0=[1.0, 0.0], xi0=[0.0, 0.0], tolerance=1e-8, t_end=2.0, throw=False)
    assert fall.status is Result.STEP
    assert "the steps vanish" in fall.message
    np.testing.assert_allclose(fall.t[-1], np.pi / np.sqrt(8), atol=1e-6)  # time of the fall


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("gni", {"tolerance": 1e-6, "t_end": 1.0}, "GNI has .* take RKMK"),
        (CONTROLLED, {"tolerance": 1e-6, "t_end": 1.0}, "has a tolerance of its own already"),
        (None, {"tolerance": -1.0, "t_end": 1.0}, "tolerance must be positive"),
        (None, {"tolerance": 1e-6, "n_steps": 10}, "n_steps of variable length need dt"),
        (None, {"tolerance": 1e-6, "t_end": 1.0, "dt": -0.1}, "dt = -0.1 leads away from t_end = 1"),
        (None, {"tolerance": 1e-6}, "are both missing"),
        (None, {"n_steps": 10}, "dt, the time step, is missing: pass it, or tolerance"),
        (None, {"tolerance": 1e-6, "t_eval": [0.1, 0.2], "t_end": 1.0, "save_every": 2}, "save_every=1"),
    ],
)
def test_contradictions_are_told(method, options, words):
    with pytest.raises(ValueError, match=words):
        gn.solve(SLEIGH, method, **START, **options)


def test_others_say_that_they_have_equal_steps():
    with pytest.raises(ValueError, match="here they are of one length, as of RKMK"):
        gn.solve_ensemble(SLEIGH, CONTROLLED, **START, dt=0.1, n_steps=10)
    with pytest.raises(ValueError, match="here they are of one length"):
        gn.diagnostics.convergence(SLEIGH, CONTROLLED, **START)
    with gn.float64(), pytest.raises(ValueError, match="pass n_steps, not t_end"):
        gn.integrate(SLEIGH, CONTROLLED, **START, dt=0.1, t_end=10.0)
    with pytest.raises(ValueError, match="cannot be composed"):
        gn.compose(CONTROLLED, "yoshida4")
    with pytest.raises(TypeError, match="controls as a function of t"):
        gn.solve(
            gn.System(Translations(1), metric=np.eye(1), forces=lambda t, x, xi, u: u),
            gn.RKMK(5), xi0=[0.0], tolerance=1e-6, t_end=1.0, controls=np.zeros((3, 1)),
        )  # fmt: skip

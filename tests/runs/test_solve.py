"""solve, integrate, resume, Trajectory: what goes in, what comes out, and what happens when something is wrong."""

import inspect
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine import compiled
from geonh.groups import SO3, Translations
from geonh.integrators import Newton, Result, Variational
from geonh.runs import loop as running
from geonh.systems import catalogue
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh


def sleigh_run(**options):
    return gn.solve(chaplygin_sleigh(), **{"xi0": [0.8, -0.5, 0.0], "dt": 0.01, "n_steps": 200, **options})


# --- input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"xi0": [0.8, -0.5]}, ValueError, r"xi0 must have shape \(3,\), got \(2,\)"),
        ({"xi0": [0.8, -0.5, np.nan]}, ValueError, "xi0 has entries that are not finite"),
        ({"xi0": np.zeros(3, np.float32)}, TypeError, "xi0 is float32"),
        ({"xi0": "fast"}, TypeError, "xi0 must be real numbers, got text"),
        ({"xi0": [0.8, -0.5, 0.1]}, ValueError, r"does not satisfy the constraints .* residual \[0.1\].*project"),
        ({"dt": 0.0}, ValueError, "dt must not be zero"),
        ({"dt": np.inf}, ValueError, "dt must be finite, got inf"),
        ({"n_steps": 0}, ValueError, "n_steps must be a positive integer, got 0"),
        ({"n_steps": 1.5}, ValueError, "n_steps must be a positive integer"),
        ({"save_every": -1}, ValueError, "save_every must be a positive integer"),
        ({"g0": [0.0, 0.0]}, ValueError, r"g0 must have shape \(3,\), got \(2,\)"),
        ({"dt": 10.0}, ValueError, "past half a turn; lower dt"),
        ({"controls": np.zeros((3, 1))}, ValueError, "controls must have n_steps"),
    ],
)
def test_bad_input_names_the_argument(options, error, words):
    with pytest.raises(error, match=words):
        sleigh_run(**options)


def test_a_point_off_the_group_is_refused():
    system = gn.System(SO3(), metric=np.eye(3))
    with pytest.raises(ValueError, match="does not lie on SO"):
        gn.solve(system, xi0=np.zeros(3), g0=np.ones((3, 3)), dt=0.1, n_steps=1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, TypeError, "either metric= .* or lagrangian="),
        ({"metric": np.eye(2)}, ValueError, r"metric must give shape \[3, 3\]"),
        ({"metric": -np.eye(3)}, ValueError, "positive definite; its smallest eigenvalue is -1"),
        ({"metric": [[1, 2, 0], [0, 1, 0], [0, 0, 1]]}, ValueError, "metric must be symmetric"),
        ({"metric": np.eye(3), "distribution": [[0, 0, 1]]}, TypeError, "write Distribution"),
        ({"metric": np.eye(3), "distribution": gn.Distribution([[0.0, 1.0]])}, ValueError, r"forms must give shape"),
        ({"metric": np.eye(3), "base": "shapes"}, ValueError, "base must be"),
        ({"metric": np.eye(3), "base": "shape"}, ValueError, "needs at least one, of a factor"),
        ({"metric": lambda x, y, z: np.eye(3)}, TypeError, r"metric takes \(x\) or \(x, parameters\); yours takes"),
        (
            {"metric": lambda x: jnp.eye(3, dtype=jnp.float32) * jnp.float32(2)},
            TypeError,
            "metric returned float32",
        ),
        ({"metric": np.eye(3), "potential": lambda x: x}, ValueError, "potential must give shape"),
        ({"metric": lambda x: x["a"]}, ValueError, "metric could not be evaluated"),
        ({"metric": np.eye(3), "lagrangian": lambda x, v: v @ v * v[0]}, ValueError, "quadratic in"),
    ],
)
def test_bad_systems_say_what_does_not_fit(options, error, words):
    with pytest.raises(error, match=words):
        gn.System(SO3(), **options)


def test_dependent_frames_are_refused_and_rhs_needs_forms():
    with pytest.raises(ValueError, match="linearly independent"):
        gn.Distribution(frame=[[1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(TypeError, match="rhs= needs forms="):
        gn.AffineDistribution(frame=[[1.0, 0.0]], rhs=[1.0])
    with pytest.raises(TypeError, match="either forms= or frame="):
        gn.Distribution()


@pytest.mark.slow
def test_check_finds_what_is_wrong():
    indefinite = gn.System(Translations(2), metric=lambda x: jnp.diag(jnp.stack([1.0 + x[0], jnp.ones(())])))
    report = indefinite.check(scale=3.0)
    assert not report.ok
    assert "not positive definite" in str(report)
    dependent = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution(lambda x: [[x[0], 0.0, 0.0]]))
    assert "dependent" in str(dependent.check())
    wrong = gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: xi[0])
    moving = gn.System(SO3(), metric=np.array([1.0, 2.0, 3.0]), base="point", first_integrals={"spin": wrong})
    assert "first integral 'spin' changes" in str(moving.check())


# --- failure -------------------------------------------------------------------------------------------------


def test_failure_keeps_the_trajectory_up_to_there():
    """A potential that ends at x = 1, towards which it pulls: the run stops and says where."""
    system = gn.System(Translations(1), metric=np.eye(1), potential=lambda x: jnp.sqrt(1.0 - x[0]))
    with pytest.raises(gn.IntegrationError, match=r"step \d+, t = .*: ") as caught:
        gn.solve(system, xi0=[1.0], dt=0.01, n_steps=1000)
    kept = caught.value.trajectory
    assert not kept.success
    assert 10 < len(kept) < 1000
    assert np.all(np.isfinite(kept.g_vector))
    quiet = gn.solve(system, xi0=[1.0], dt=0.01, n_steps=1000, throw=False)
    assert quiet.status is kept.status
    np.testing.assert_array_equal(quiet.g_vector, kept.g_vector)


def test_a_run_stops_where_its_potential_ends():
    """Of log(1 − x) the slope goes on beyond x = 1."""
    wall = gn.System(Translations(1), metric=[1.0], potential=lambda x: jnp.log(1 - x[0]))
    with pytest.raises(gn.IntegrationError, match="not finite") as stopped:
        gn.solve(wall, g0=[0.5], xi0=[3.0], dt=0.1, n_steps=40)
    run = stopped.value.trajectory
    assert np.all(np.isfinite(run.energy))
    assert run.g[-1, 0] < 1


def test_newton_failure_is_loud():
    system = gn.System(SO3(), metric=[1.0, 2.0, 3.0], base="point")
    method = Variational(newton=Newton(tol=1e-12, max_iterations=1))
    with pytest.raises(gn.IntegrationError, match=r"Newton's method did not converge.*residual of the implicit step"):
        gn.solve(system, method, xi0=[1.0, 2.0, 3.0], dt=0.1, n_steps=5)


@pytest.mark.quick("gni")
@pytest.mark.parametrize("method", ["yoshida4", "euler-ab", "gni"])
def test_a_failure_of_methods_of_several_equations_is_told_and_saved(method, tmp_path):
    """The last of them has no residual to tell; composed ones have that of the substep which failed."""
    growing = gn.System(gn.groups.Translations(1), metric=[1.0], forces=lambda t, x, xi, u: xi @ xi * xi)
    run = gn.solve(growing, method, xi0=[1.0], dt=0.05, n_steps=40, throw=False)
    assert "Newton's method did not converge" in run.message
    assert ("residual of the implicit step 0.062" in run.message) == (method == "yoshida4")
    assert "step 0)" not in run.message
    run.save(tmp_path / "run.nc")
    assert len(gn.Trajectory.load(tmp_path / "run.nc")) == len(run) < 12


def test_a_body_that_spins_up_past_the_chart_stops():
    def forces(t, x, xi, u):
        return jnp.array([0.0, 0.0, 10.0])

    system = gn.System(SO3(), metric=np.ones(3), base="point", forces=forces)
    with pytest.raises(gn.IntegrationError, match="half a turn or more in one step"):
        gn.solve(system, xi0=np.zeros(3), dt=0.1, n_steps=1000)


def test_interrupt_returns_what_exists():
    def stop(done, total):
        raise KeyboardInterrupt

    run = sleigh_run(n_steps=10**6, progress=stop)
    assert run.status is Result.INTERRUPTED
    assert 1 < len(run) < 10**6
    np.testing.assert_array_equal(run.g_vector, sleigh_run(n_steps=len(run) - 1).g_vector)


# --- output --------------------------------------------------------------------------------------------------


def test_save_every_and_leftover_steps():
    full, sparse = sleigh_run(n_steps=105), sleigh_run(n_steps=105, save_every=10)
    np.testing.assert_array_equal(sparse.k, [*range(0, 101, 10), 105])
    np.testing.assert_array_equal(sparse.g_vector, full.g_vector[sparse.k])


@pytest.mark.parametrize("save_every", [1, 4])
def test_a_run_in_many_buffers_has_the_same_bits(monkeypatch, save_every):
    def run():
        first = gn.solve(gn.systems.suslov(), "gni", xi0=[0.4, 1.0, 0.0], dt=0.01, n_steps=50, save_every=save_every)
        return gn.resume(first, n_steps=33)

    whole = run()
    monkeypatch.setattr(running, "CHUNK", 7)
    parts = run()
    for name in ("k", "g_vector", "p_plus", "p_minus"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_array_equal(whole.k, [*range(0, 84, save_every), *([83] if 83 % save_every else [])])


def test_resume_and_files_give_the_same_bits(tmp_path):
    whole, half = sleigh_run(n_steps=300), sleigh_run(n_steps=120)
    np.testing.assert_array_equal(gn.resume(half, 180).g_vector, whole.g_vector)
    path = half.save(tmp_path / "run.nc")
    back = gn.resume(path, 180, system=chaplygin_sleigh(), method=gn.Gauss(2))
    np.testing.assert_array_equal(back.g_vector, whole.g_vector)
    np.testing.assert_array_equal(back.p_minus, whole.p_minus)
    with pytest.raises(ValueError, match="system= is needed"):
        gn.resume(path, 10)
    with pytest.raises(ValueError, match="was made by"):
        gn.resume(path, 10, system=chaplygin_sleigh(), method=gn.GNI())
    checkpointed = sleigh_run(n_steps=120, checkpoint=tmp_path / "checkpoint.nc")
    np.testing.assert_array_equal(gn.Trajectory.load(tmp_path / "checkpoint.nc").p_plus, checkpointed.p_plus)


@pytest.mark.slow
def test_load_reads_everything_without_the_system(tmp_path):
    entry = catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=50)
    back = gn.Trajectory.load(run.save(tmp_path / "run.nc"))
    assert "chaplygin-sphere" in repr(back)
    assert back.attributes["parameters"]["J"] == [0.5, 0.6, 0.8]
    for name in ("t", "xi", "p", "p_plus", "p_minus", "energy", "energy_minus", "multipliers", "constraint_residual"):
        np.testing.assert_array_equal(getattr(back, name), getattr(run, name))
    np.testing.assert_array_equal(back.g[1], run.g[1])
    np.testing.assert_array_equal(back.integrals["K"], run.integrals["K"])
    with pytest.raises(ValueError, match="load it with system="):
        back.interpolate([0.1])


def test_labels():
    run = sleigh_run()
    data = run.to_xarray()
    assert list(data["g"].sel(coordinate="theta").dims) == ["time"]
    assert data["energy"].attrs["units"] == "J"
    np.testing.assert_array_equal(data["xi"].sel(component="omega"), run.xi[:, 0])
    frame = run.to_pandas()
    assert frame.index.name == "time"
    np.testing.assert_array_equal(frame["x"], run.g[:, 1])
    assert run.t[-1] == 0.01 * 200
    assert all(a.dtype == np.float64 for a in (run.t, run.xi, run.g, run.energy, run.multipliers))


@pytest.mark.slow
def test_interpolation_is_of_fourth_order_in_g_and_third_in_xi():
    entry = catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    times = np.linspace(0, 2, 201)
    exact_g, exact_xi = gn.mechanics.reference_trajectory(system, times, start.xi0, start.g0)
    numbers, errors = (5, 10, 20, 40), []
    fine = gn.solve(system, gn.RKMK(4), g0=start.g0, xi0=start.xi0, dt=1 / 400, n_steps=800)
    for n in numbers:
        run = gn.solve(system, gn.RKMK(4), g0=start.g0, xi0=start.xi0, dt=1 / 400, n_steps=800, save_every=400 // n)
        g, xi = run.interpolate(times)
        errors.append([np.abs(g[1] - exact_g[1]).max(), np.abs(xi - exact_xi).max()])
    order = -np.polyfit(np.log(numbers), np.log(errors), 1)[0]
    np.testing.assert_allclose(order, [4, 3], atol=0.15)
    at_nodes = fine.interpolate(fine.t[[0, 7, -1]])
    np.testing.assert_allclose(at_nodes[0][1], fine.g[1][[0, 7, -1]], atol=1e-14)
    np.testing.assert_allclose(at_nodes[1], fine.xi[[0, 7, -1]], atol=1e-14)
    with pytest.raises(ValueError, match="times must lie in"):
        fine.interpolate([2.5])


def test_interpolation_backwards_in_time():
    run = gn.solve(gn.systems.chaplygin_sleigh(), gn.RKMK(4), xi0=[0.8, -0.5, 0.0], dt=-0.1, n_steps=10)
    fine = gn.solve(gn.systems.chaplygin_sleigh(), gn.RKMK(4), xi0=[0.8, -0.5, 0.0], dt=-0.05, n_steps=20)
    g, xi = run.interpolate(fine.t)
    np.testing.assert_allclose(g, fine.g, atol=1e-6)
    np.testing.assert_allclose(xi, fine.xi, atol=1e-5)


@pytest.mark.slow
def test_points_belong_to_the_geomstats_space():
    for name in ("chaplygin-sphere", "snakeboard", "suslov", "nonholonomic-particle"):
        entry = catalogue[name]
        system = entry.system()
        start = entry.start(system)
        run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=50)
        assert np.all(system.space.belongs(run.to_geomstats(), atol=1e-12))


def test_backwards_in_time():
    there = sleigh_run(n_steps=100)
    back = gn.solve(chaplygin_sleigh(), g0=there.g[-1], xi0=there.xi[-1], dt=-0.01, n_steps=100)
    np.testing.assert_allclose(back.g[-1], 0.0, atol=1e-4)


# --- under the user's own transformations ----------------------------------------------------------------------


@pytest.mark.user_precision
def test_the_users_configuration_stays_and_single_precision_traces_are_refused():
    assert not jax.config.jax_enable_x64
    run = sleigh_run()
    assert run.g.dtype == np.float64
    assert np.ptp(run.energy_minus) < 1e-14
    assert not jax.config.jax_enable_x64
    with pytest.raises(RuntimeError, match=r"geonh\.float64"):
        gn.integrate(chaplygin_sleigh(), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=2)
    with gn.float64():
        assert (
            gn.integrate(chaplygin_sleigh(), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=2).g.dtype == np.float64
        )


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [1, 7])
@pytest.mark.filterwarnings("ignore::geonh.engine.compiled.EngineWarning")
def test_without_the_native_engine_xla_gives_the_same(monkeypatch, save_every):
    native = sleigh_run(save_every=save_every)
    assert native.attributes["engine"] == "native"
    monkeypatch.setattr(compiled.native, "available", lambda: False)
    for made in (compiled.loop_of, compiled.map_of):
        made.cache_clear()
    with pytest.warns(compiled.EngineWarning, match="llvmlite is missing"):
        run = sleigh_run(save_every=save_every)
    assert run.attributes["engine"] == "XLA"
    np.testing.assert_array_equal(run.k, native.k)
    np.testing.assert_allclose(run.g_vector, native.g_vector, atol=1e-13)
    np.testing.assert_allclose(run.energy, native.energy, atol=1e-13)
    for made in (compiled.loop_of, compiled.map_of):
        made.cache_clear()


@pytest.mark.slow
def test_what_the_native_engine_has_no_code_for_runs_by_xla():
    """A potential by singular values."""

    def potential(x):
        return jnp.sum(jnp.linalg.svd(jnp.eye(3) + jnp.outer(x, x), compute_uv=False)) / 2

    system = gn.System(Translations(3), metric=np.eye(3), potential=potential)
    with pytest.warns(compiled.EngineWarning, match="has no code for"):
        run = gn.solve(system, xi0=[0.1, 0.2, 0.3], g0=[1.0, 0.0, 0.5], dt=0.01, n_steps=100)
    assert run.attributes["engine"] == "XLA"
    plain = gn.System(Translations(3), metric=np.eye(3), potential=lambda x: x @ x / 2)
    np.testing.assert_allclose(run.g, gn.solve(plain, xi0=[0.1, 0.2, 0.3], g0=[1.0, 0.0, 0.5], dt=0.01, n_steps=100).g)


@pytest.mark.slow
def test_an_alternating_part_is_seen_where_the_metric_changes_along_the_run():
    """A rod whose mass grows along the way: at node 0 the part that alternates looks small beside its momentum."""
    J, a = np.array([[2.0, 0.3, 0.4], [0.3, 1.5, -0.2], [0.4, -0.2, 1.0]]), [0.3, -0.5, 1.0]

    def metric(x):
        heavy = jnp.zeros((4, 4)).at[:3, :3].set(J).at[3, 3].set(1.0)
        return heavy.at[2, 2].add(1e7 * jnp.exp(-2.0 * x[1][0]))

    system = gn.System(
        gn.groups.Product((gn.groups.SO3(), gn.groups.Translations(1))),
        metric=metric,
        distribution=gn.Distribution([[*a, 0.0]]),
    )
    xi0 = system.project(None, [1.2, -2.0, 0.0, 1.0])
    with pytest.warns(gn.trajectory.AlternationWarning):
        run = gn.solve(system, gn.GNI(), xi0=xi0, dt=0.02, n_steps=1500, throw=False)
    assert run.spoiled_from is not None
    assert run.alternation.max() > 0.01


def test_the_log_tells_what_is_compiled_and_once(caplog):
    system = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: jnp.cosh(x[0] - 0.3 * x[1]))
    with caplog.at_level("DEBUG", logger="geonh"):
        for dt in (0.1, 0.2):
            gn.solve(system, "gni", xi0=[0.1, dt], dt=dt, n_steps=2)
    told = [record.getMessage() for record in caplog.records if record.name == "geonh"]
    assert any(re.match(r"program of next_watched written and compiled in \d", line) for line in told)
    assert len({line.split(" in ")[0] for line in told}) == len(told)


def pulled(t, x, xi, u, p):
    return -p["c"] * xi


def test_systems_made_alike_share_their_programs(caplog):
    def made(c):
        return gn.System(Translations(1), metric=[1.0], base="point", forces=pulled, parameters={"c": c})

    gn.solve(made(0.1), xi0=[1.0], dt=0.1, n_steps=2)
    with caplog.at_level("DEBUG", logger="geonh"):
        run = gn.solve(made(2.0), xi0=[1.0], dt=0.1, n_steps=2)
    assert run.xi[-1, 0] < 0.7
    assert not [record for record in caplog.records if record.name == "geonh"]


@pytest.mark.slow
def test_memory_is_looked_at_before_the_first_step():
    """Unless an event may end the run."""
    with pytest.raises(
        MemoryError, match=r"10000000001 nodes of 10 numbers, with what .* raise save_every, or .* geonh.stream"
    ):
        sleigh_run(n_steps=10**10)
    with pytest.raises(MemoryError, match="raise save_every"):
        gn.resume(sleigh_run(n_steps=3), 10**10)
    event = gn.Event(lambda t, g, xi, lam: t - 0.1, name="there", stop=True)
    assert sleigh_run(n_steps=10**10, events=event).status is Result.EVENT


def test_all_runs_take_the_same_arguments_in_the_same_order():
    common = ["system", "method", "xi0", "g0", "dt", "n_steps", "t_end", "t0", "controls", "events"]
    common += ["save_every", "t_eval", "tolerance", "mode", "observables"]
    for run in (gn.solve, gn.integrate, gn.solve_ensemble, gn.stream, gn.ensembles.Sweep.of):
        names = list(inspect.signature(run).parameters)
        there = [name for name in common if name in names]
        assert names[: len(there)] == there
        assert there[:9] == common[:9]


def python_calls(run):
    """Number of Python functions that a warm run calls."""
    number = 0

    def count(frame, event, _):
        nonlocal number
        number += event == "call"

    run(), run()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.slow
def test_a_warm_run_calls_few_functions_of_python():
    """Its fixed cost is that of Python: a few tenths of a millisecond, some 600 calls; tracing takes thousands."""
    sleigh, start = gn.systems.chaplygin_sleigh(), {"xi0": [0.8, -0.5, 0.0]}
    event = gn.Event(lambda t, g, xi, lam: g[1] - 50.0)
    assert python_calls(lambda: gn.solve(sleigh, "rkmk4", **start, dt=0.1, n_steps=10)) < 800
    assert python_calls(lambda: gn.solve(sleigh, **start, tolerance=1e-6, t_end=1.0)) < 1100
    assert python_calls(lambda: gn.solve(sleigh, "rkmk4", **start, dt=0.1, n_steps=10, events=event)) < 1200


@pytest.mark.slow
def test_what_events_and_parameters_hold_is_read_in_each_run():
    """Traces of events are kept, their captured variables are compared; parameters may change in place."""
    level, system = [0.05], gn.systems.chaplygin_sleigh(m=1.0)

    def crossed():
        event = gn.Event(function, stop=True)
        return gn.solve(system, "rkmk4", xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=100, events=event).events["event"].t

    def function(t, g, xi, lam):
        return t - level[0]

    assert crossed() == pytest.approx(0.05, abs=1e-12)
    level[0] = 0.123
    assert crossed() == pytest.approx(0.123, abs=1e-12)
    before = gn.solve(system, "rkmk4", xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=10).energy[0]
    system.parameters["m"][...] = 2.0
    after = gn.solve(system, "rkmk4", xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=10).energy[0]
    assert after > before + 0.1


def test_a_faulty_event_is_refused_each_time():
    sleigh = gn.systems.chaplygin_sleigh()
    for _ in range(2):
        with pytest.raises(ValueError, match="must give one number"):
            gn.solve(sleigh, xi0=[0.8, -0.5, 0.0], dt=0.1, n_steps=2, events=gn.Event(several))


def several(t, g, xi, lam):
    return xi

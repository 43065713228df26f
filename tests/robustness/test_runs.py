"""Runs that must not be lost: interrupts, kills, disks, callbacks, and going on with what is not the same."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SE2, SO3, Translations
from geonh.integrators import Result, RungeKutta
from geonh.runs import loop as running
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh

START = {"xi0": [0.8, -0.5, 0.0], "dt": 0.01}
PATIENCE = 0.5
"""Seconds within which Ctrl-C is answered, beside what a busy machine and the end of the interpreter take."""


def family(a=0.2, forms=((0.0, 0.0, 1.0),), name="family", potential=None, forces=None):
    """A sleigh with parameters, whose parts can be changed one by one."""
    return gn.System(
        SE2(),
        metric=lambda x, p: [[1 + p["a"] ** 2, 0.0, p["a"]], [0.0, 1.0, 0.0], [p["a"], 0.0, 1.0]],
        distribution=None if forms is None else gn.Distribution(forms),
        potential=potential,
        forces=forces,
        parameters={"a": a},
        name=name,
    )


def assert_same(a, b):
    for label in ("k", "g_vector", "p_plus", "p_minus"):
        np.testing.assert_array_equal(getattr(a, label), getattr(b, label))
    np.testing.assert_allclose(a.energy, b.energy, rtol=1e-14)


# --- going on ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.integers(1, 40), min_size=2, max_size=4), stride=st.integers(1, 13), by_file=st.booleans())
def test_in_any_parts_with_a_stride_the_nodes_are_those_of_one_run(tmp_path, parts, stride, by_file):
    sleigh = chaplygin_sleigh()
    whole = gn.solve(sleigh, **START, n_steps=sum(parts), save_every=stride)
    run = gn.solve(sleigh, **START, n_steps=parts[0], save_every=stride)
    for n in parts[1:]:
        start = run.save(tmp_path / "run.nc") if by_file else run
        run = gn.resume(start, n, system=sleigh, method=gn.Gauss(2))
    assert_same(run, whole)


CHANGED = {
    "parameters": (lambda: family(a=0.3), r"parameters: a = 0\.2 there, 0\.3 here"),
    "name": (lambda: family(name="other"), "name: 'family' there, 'other' here"),
    "forms": (lambda: family(forms=[[0.0, 0.1, 1.0]]), "forms: 0 there, 0.1 here"),
    "potential": (lambda: family(potential=lambda x: x[1]), "potential: given here, not there"),
    "forces": (lambda: family(forces=lambda t, x, v, u: 0 * v), "forces: given here, not there"),
    "constraints": (lambda: family(forms=None), r"the run has 1 constraint\(s\), family has 0: begin a new run"),
    "dimension": (lambda: gn.System(Translations(3), metric=np.eye(3)), r"of SE\(2\), the system of R"),
}


@pytest.fixture(scope="module")
def run_of_family(tmp_path_factory):
    """A run, and its file."""
    run = gn.solve(family(), **START, n_steps=20)
    return run, run.save(tmp_path_factory.mktemp("family") / "run.nc")


QUICK = ("parameters", "forms", "dimension")


@pytest.mark.parametrize("change", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CHANGED])
def test_another_system_is_refused_naming_what_is_not_as_it_was(run_of_family, change):
    make, words = CHANGED[change]
    run, path = run_of_family
    other = make()
    for start in (run, path):
        with pytest.raises(ValueError, match=words) as warned:
            gn.resume(start, 5, system=other, method=gn.Gauss(2))
        if change not in ("constraints", "dimension"):
            assert f"allow_changes=['{change}']" in str(warned.value)
    with pytest.raises(ValueError, match=words):
        gn.Trajectory.load(path, system=other)


def test_a_file_is_loaded_with_its_system(run_of_family):
    run, path = run_of_family
    at = gn.Trajectory.load(path, system=family()).interpolate([0.05])
    np.testing.assert_array_equal(at[0], run.interpolate([0.05])[0])


@pytest.mark.slow
def test_a_function_that_differs_only_elsewhere_is_seen_in_its_trace(tmp_path):
    """The forms are the same at all nodes of the run, and others far away."""
    run = gn.solve(family(forms=lambda x: [[0.0, 0.0, 1.0]]), **START, n_steps=20)
    path = run.save(tmp_path / "run.nc")
    gn.resume(path, 5, system=family(forms=lambda place: [[0.0, 0.0, 1.0]]), method=run.method)
    elsewhere = family(forms=lambda x: [[0.0, jnp.where(x[1] > 1e3, 1.0, 0.0), 1.0]])
    with pytest.raises(ValueError, match="forms: written otherwise"):
        gn.resume(path, 5, system=elsewhere, method=run.method)


@pytest.mark.slow
def test_a_table_that_differs_only_elsewhere_is_seen_too(tmp_path):
    """A table that a function closes over; also one inside of a jitted function."""

    def system(table):
        height = jax.jit(lambda s: jnp.interp(s, jnp.arange(4.0), table))
        return family(potential=lambda x: height(x[1]))

    flat, same, bent = np.zeros(4), np.array([0.0, 0.0, 0.0, 1e-300]), np.array([0.0, 0.0, 0.0, 1.0])
    run = gn.solve(system(flat + bent[::-1]), **START, n_steps=5)
    path = run.save(tmp_path / "run.nc")
    gn.resume(path, 5, system=system(same + bent[::-1]), method=run.method)
    with pytest.raises(ValueError, match="potential: written otherwise"):
        gn.resume(path, 5, system=system(bent + bent[::-1]), method=run.method)


@pytest.mark.slow
def test_a_change_that_is_allowed_keeps_what_was_and_is_told_in_the_file(tmp_path):
    heavy = lambda mgl: gn.systems.heavy_top(mgl=mgl)  # noqa: E731
    entry = gn.systems.catalogue["heavy-top"]
    start = entry.start(heavy(1.0))
    run = gn.solve(heavy(1.0), g0=start.g0, xi0=start.xi0, dt=0.01, n_steps=50)
    path = run.save(tmp_path / "run.nc")
    after = gn.resume(path, 50, system=heavy(2.0), method=run.method, allow_changes=["parameters"])
    np.testing.assert_array_equal(after.energy[:51], run.energy)
    assert abs(after.energy[51] - run.energy[-1]) > 0.1
    assert after.attributes["parameters"]["mgl"] == 2.0
    back = gn.Trajectory.load(after.save(tmp_path / "after.nc"))
    assert back.attributes["changes"] == [{"step": 50, "t": 0.5, "what": {"parameters": "mgl = 1.0 there, 2.0 here"}}]
    np.testing.assert_array_equal(back.energy, after.energy)
    once_more = gn.resume(tmp_path / "after.nc", 10, system=heavy(2.0), method=run.method)
    np.testing.assert_array_equal(once_more.energy[:101], after.energy)
    in_memory = gn.resume(run, 50, system=heavy(2.0), allow_changes=True)
    np.testing.assert_array_equal(in_memory.energy, after.energy)
    with pytest.raises(ValueError, match=r"allow_changes: .'mass'. can not be allowed"):
        gn.resume(path, 5, system=heavy(2.0), method=run.method, allow_changes="mass")


@pytest.mark.slow
def test_other_first_integrals_are_refused_and_nothing_is_dropped(tmp_path):
    def system(**integrals):
        made = {name.replace("_", "/"): gn.mechanics.FirstIntegral(f) for name, f in integrals.items()}
        forms = gn.Distribution([[0.0, 0.0, 1.0]])
        return gn.System(SE2(), metric=np.eye(3), distribution=forms, base="point", first_integrals=made)

    first, second = (lambda g, xi, p, parameters, i=i: p[i] * xi[i] for i in (0, 1))
    run = gn.solve(system(a_b=first, c=second), **START, n_steps=5)
    path = run.save(tmp_path / "run.nc")
    assert_same(gn.resume(path, 5, system=system(a_b=first, c=second), method=run.method), gn.resume(run, 5))
    for other, words in (
        (system(a_b=first), "first_integrals: c given there, not here"),
        (system(a_b=first, c=second, d=second), "first_integrals: d given here, not there"),
        (system(a_b=first, c=first), "first_integrals: c .* there, .* here, at node"),
    ):
        for start in (run, path):
            with pytest.raises(ValueError, match=words):
                gn.resume(start, 5, system=other, method=run.method)
    for start in (run, path):
        after = gn.resume(start, 5, system=system(a_b=first), method=run.method, allow_changes="first_integrals")
        np.testing.assert_array_equal(after.integrals["c"], [*run.integrals["c"], *[np.nan] * 5])
        assert np.all(np.isfinite(after.integrals["a/b"]))
        back = gn.Trajectory.load(after.save(tmp_path / "after.nc"))
        np.testing.assert_array_equal(back.integrals["c"], after.integrals["c"])
        assert len(gn.resume(tmp_path / "after.nc", 5, system=system(a_b=first), method=run.method)) == 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"system": "p"}, "system must be a geonh System, got 'p'"),
        ({"method": 5}, "method must be an integrator .*, got 5"),
        ({"allow_changes": 5}, "allow_changes must be True, False, or names of .*, got 5"),
        ({"allow_changes": None}, "allow_changes must be True, False, or names of .*, got None"),
    ],
)
def test_what_is_of_another_type_is_refused_by_name(run_of_family, options, words):
    run, path = run_of_family
    for start in (run, path):
        with pytest.raises(TypeError, match=words):
            gn.resume(start, 5, **({"system": family(), "method": run.method} | options))
    if "system" in options:
        with pytest.raises(TypeError, match=words):
            gn.Trajectory.load(path, **options)


def test_a_change_that_breaks_the_constraints_at_the_last_node_is_refused(run_of_family):
    with pytest.raises(ValueError, match=r"does not satisfy the constraints: residual 0.0.*begin a new run from it"):
        gn.resume(run_of_family[0], 5, system=family(a=0.3), allow_changes=True)


def driven(a=1.0):
    return gn.System(SO3(), metric=np.ones(3), base="point", forces=lambda t, x, xi, u: a * u, name="driven")


@pytest.mark.slow
def test_controls_are_those_of_the_whole_run(tmp_path):
    values = np.random.default_rng(1).normal(size=(41, 3))
    whole = gn.solve(driven(), gn.GNI(), xi0=np.zeros(3), dt=0.01, n_steps=40, controls=values)
    run = gn.solve(driven(), gn.GNI(), xi0=np.zeros(3), dt=0.01, n_steps=20, controls=values[:21])
    path, same = run.save(tmp_path / "run.nc"), {"system": driven(), "method": gn.GNI()}
    with pytest.raises(ValueError, match=r"controls must have n_steps \+ 1 = 41 rows, .* got 21"):
        gn.resume(run, 20)
    with pytest.raises(ValueError, match=r"41 rows, .* got 30"):
        gn.resume(path, 20, controls=values[:30], **same)
    with pytest.raises(ValueError, match="controls: 21 values there, none here: pass controls="):
        gn.resume(path, 20, **same)
    with pytest.raises(ValueError, match=r"controls: .* there, .* here, at node"):
        gn.resume(path, 20, controls=values + 1, **same)
    assert_same(gn.resume(path, 20, controls=values, **same), whole)
    assert_same(gn.resume(run, 20, controls=values), whole)
    values[7] += 1  # no node that is compared
    for start in (run, path):
        with pytest.raises(ValueError, match="controls: other values in rows that the run went by"):
            gn.resume(start, 20, controls=values, **same)


@pytest.mark.slow
def test_controls_of_another_kind_are_no_change_of_the_forces():
    values, function = np.ones((9, 3)), lambda t: jnp.ones(3)
    for there, here, words in (
        (values[:5], function, "values at the nodes there, a function of t here"),
        (function, values, "a function of t there, values at the nodes here"),
    ):
        run = gn.solve(driven(), gn.GNI(), xi0=np.zeros(3), dt=0.1, n_steps=4, controls=there)
        with pytest.raises(ValueError, match=rf"made with:\n  controls: {words}\nresume"):
            gn.resume(run, 4, controls=here)


def test_a_table_of_controls_that_differs_only_later_is_seen():
    def controls(table):
        return lambda t: jnp.interp(t, jnp.arange(3.0), table) * jnp.ones(3)

    run = gn.solve(driven(), gn.GNI(), xi0=np.zeros(3), dt=0.01, n_steps=5, controls=controls(np.ones(3)))
    with pytest.raises(ValueError, match="controls: written otherwise"):
        gn.resume(run, 5, controls=controls(np.array([1.0, 1.0, 2.0])))


def test_a_drifted_baseline_goes_on(tmp_path):
    """Its rotation is no rotation any more to 1e-9: that is its own drift, not a wrong start."""
    system = gn.System(SO3(), metric=[1.0, 2.0, 3.0], base="point")
    start = {"xi0": [1.0, 2.0, 3.0], "dt": 0.1}
    whole = gn.solve(system, RungeKutta(), **start, n_steps=200)
    run = gn.solve(system, RungeKutta(), **start, n_steps=120)
    drift = np.abs(run.g[-1].T @ run.g[-1] - np.eye(3)).max()
    assert drift > 1e-8
    assert_same(gn.resume(run, 80), whole)
    assert_same(gn.resume(run.save(tmp_path / "run.nc"), 80, system=system, method=RungeKutta()), whole)


# --- errors on the way ---------------------------------------------------------------------------------------


def test_a_callback_that_raises_leaves_the_trajectory_on_its_error(tmp_path):
    def stop(done, total):
        raise LookupError("of the user")

    with pytest.raises(LookupError, match="of the user") as caught:
        gn.solve(chaplygin_sleigh(), **START, n_steps=10**6, save_every=10**5, progress=stop)
    kept = caught.value.trajectory
    assert kept.status is Result.INTERRUPTED
    assert len(kept) == 2
    again = gn.solve(chaplygin_sleigh(), **START, n_steps=int(kept.k[-1]))
    np.testing.assert_array_equal(kept.g_vector[-1], again.g_vector[-1])
    assert "what was computed up to there" in str(caught.value.__notes__)


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, LookupError])
def test_whatever_a_callback_raises_the_checkpoint_is_written(tmp_path, kind):
    def stop(done, total):
        raise kind

    with pytest.raises(kind) as caught:
        gn.solve(chaplygin_sleigh(), **START, n_steps=10**6, progress=stop, checkpoint=tmp_path / "run.nc")
    kept, saved = caught.value.trajectory, gn.Trajectory.load(tmp_path / "run.nc")
    assert len(kept) > 1
    assert_same(kept, saved)


def test_a_warning_made_an_error_keeps_the_trajectory():
    entry = gn.systems.catalogue["suslov"]
    system = entry.system()
    start = entry.start(system)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(gn.trajectory.AlternationWarning) as caught:
            gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=2000)
    assert len(caught.value.trajectory) == 2001


def test_a_folder_that_goes_keeps_the_trajectory(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.setattr(running, "BETWEEN", 0.0)

    def remove(done, total):
        folder.rename(tmp_path / "gone")

    with pytest.raises(OSError, match=r"run\.nc cannot be written") as caught:
        gn.solve(chaplygin_sleigh(), **START, n_steps=10**6, progress=remove, checkpoint=folder / "run.nc")
    assert len(caught.value.trajectory) > 1


def test_a_disk_that_is_full_leaves_the_last_good_file(tmp_path, monkeypatch):
    import xarray as xr

    path = tmp_path / "run.nc"
    first = gn.solve(chaplygin_sleigh(), **START, n_steps=10, checkpoint=path)
    written = xr.Dataset.to_netcdf

    def full(self, name, **options):
        written(self, name, **options)
        raise RuntimeError("NetCDF: HDF error")  # what the library says of a full disk

    monkeypatch.setattr(xr.Dataset, "to_netcdf", full)
    with pytest.raises(OSError, match=r"could not be written, with \d+ bytes free there: NetCDF: HDF error"):
        gn.resume(first, 10, checkpoint=path)
    monkeypatch.undo()
    assert len(gn.Trajectory.load(path)) == 11
    assert os.listdir(tmp_path) == ["run.nc"]


@pytest.mark.parametrize(
    "place", ["missing/run.nc", "folder.nc", "run.csv", "http://host/run.nc", "a\0b.nc", "\ud800.nc"]
)
def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_first_step(tmp_path, place):
    (tmp_path / "folder.nc").mkdir()
    warned = []
    path = place if "://" in place else f"{tmp_path}/{place}"
    with pytest.raises((OSError, gn.FileError), match=r"cannot be written|not a path|network address"):
        gn.solve(chaplygin_sleigh(), **START, n_steps=5, checkpoint=path, progress=lambda *a: warned.append(a))
    assert not warned
    assert os.listdir(tmp_path) == ["folder.nc"]


@pytest.mark.slow
def test_checkpoints_come_between_saved_nodes_and_go_on_to_the_same_bits(tmp_path, monkeypatch):
    path, n = tmp_path / "run.nc", 10**6
    monkeypatch.setattr(running, "BETWEEN", 0.0)
    seen = []

    def look(done, total):
        if path.exists():
            seen.append(gn.Trajectory.load(path))
        if len(seen) == 2:
            raise LookupError

    with pytest.raises(LookupError):
        gn.solve(chaplygin_sleigh(), **START, n_steps=n, save_every=n, checkpoint=path, progress=look)
    partial = gn.Trajectory.load(path)
    assert len(partial) == 2
    assert 0 < partial.k[-1] < n
    rest = gn.resume(path, 2 * int(partial.k[-1]) - int(partial.k[-1]), system=chaplygin_sleigh(), method="gauss4")
    whole = gn.solve(chaplygin_sleigh(), **START, n_steps=2 * int(partial.k[-1]), save_every=n)
    assert_same(rest, whole)


# --- signals -------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
import geonh as gn
entry = gn.systems.catalogue["chaplygin-sphere"]
system = entry.system()
start = entry.start(system)
options = dict(xi0=start.xi0, g0=start.g0, dt=1e-6)
try:
    print("ready", flush=True)
    run = gn.solve(system, sys.argv[1], n_steps=10**10, save_every=10**7, **options)
    k = int(run.k[-1])
except KeyboardInterrupt:
    k = 0
print("answered", flush=True)
again = gn.solve(system, sys.argv[1], n_steps=max(k, 1), save_every=10**7, **options)
assert k == 0 or (again.g_vector[-1] == run.g_vector[-1]).all()
print("same", flush=True)
"""


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("method", "seconds"),
    [
        ("projected", 0.3),
        *(slow("projected", s) for s in (0.0, 0.1, 0.5, 1.0, 3.0)),
        *(slow("gauss6", s) for s in (0.2, 0.6, 1.5, 4.0, 8.0)),
    ],
)
def test_ctrl_c_is_answered_at_any_moment_whatever_save_every_is(method, seconds):
    env = {**os.environ, "GEONH_CACHE": "off"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, method], stdout=subprocess.PIPE, text=True, env=env)
    threading.Timer(seconds + 90, process.kill).start()  # a run that is not interrupted has no end
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.stdout.readline() == "answered\n"
        if seconds != 0.3:  # the quick one runs beside other tests
            assert time.monotonic() - began < PATIENCE + 0.5
        if seconds in (0.1, 0.2, 0.5, 0.6, 1.0):
            assert process.stdout.readline() == "same\n"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geonh.engine.compiled.EngineWarning")
@pytest.mark.parametrize("seconds", [0.5, 2.0, 4.0])
def test_ctrl_c_is_answered_where_xla_runs(seconds):
    """Where the native engine has no code, while XLA compiles too."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def potential(x):
        return jnp.sum(jnp.linalg.svd(seconds * jnp.eye(3) + jnp.outer(x, x), compute_uv=False)) / 2

    system = gn.System(Translations(3), metric=np.eye(3), potential=potential)
    threading.Timer(seconds, send).start()
    run = None
    with contextlib.suppress(KeyboardInterrupt):  # before there is a first node
        run = gn.solve(system, xi0=[0.1, 0.2, 0.3], g0=[1.0, 0, 0.5], dt=1e-4, n_steps=10**9, save_every=10**8)
    assert time.monotonic() - sent[0] < PATIENCE + 0.5
    assert run is None or run.status is Result.INTERRUPTED


COMMAND = [sys.executable, "-c", "from geonh.cli import app; app()"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("ignored", [False, True])
def test_the_command_saves_what_exists_when_it_is_ended(tmp_path, number, code, ignored):
    """Also where Ctrl-C is switched off, as a shell does for what it runs in the background."""
    if ignored and number == signal.SIGINT:
        pytest.skip("then it is not heard, as it should be")
    words = ["run", "suslov", "--steps", "9007199254740991", "--save-every", "1000000000", "--out", str(tmp_path)]
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []
    process = subprocess.Popen([*shell, *COMMAND, *words, "--no-figure"], stderr=subprocess.PIPE, text=True)
    time.sleep(12)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code, said
    assert "what exists is saved. To go on: geonh resume" in " ".join(said.split())
    run = gn.Trajectory.load(tmp_path / "suslov.nc")
    assert run.status is Result.INTERRUPTED
    assert run.k[-1] > 0


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_its_checkpoint(tmp_path):
    code = "from geonh.runs import loop as running; running.BETWEEN = 0.2; from geonh.cli import app; app()"
    words = [
        "run",
        "suslov",
        "--steps",
        "100000000000",
        "--save-every",
        "1000000",
        "--checkpoint",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen([sys.executable, "-c", code, *words])
    for _ in range(200):
        time.sleep(0.2)
        if (tmp_path / "suslov.nc").exists():
            break
    process.kill()
    process.wait()
    system = gn.systems.suslov()
    run = gn.resume(tmp_path / "suslov.nc", 100, system=system, method="gauss4")
    assert run.success

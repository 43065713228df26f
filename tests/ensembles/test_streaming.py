"""One run into a store while it goes: the bits of ``solve``, from wherever it was stopped."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from sweeping import system
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app
from geonh.ensembles import Sweep, stream_run
from geonh.ensembles.stores import Store, StoreError, StoreWarning
from geonh.groups import Translations

pytest.importorskip("zarr", reason="stores need zarr: pip install 'geonh[scale]'")
RUN = {"g0": [0.3, 0.15], "xi0": [0.2, 0.1], "dt": 0.05, "save_every": 2}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(stream_run, "SHARD", 8 * 7 * 60)


@pytest.mark.quick("rk4")
@pytest.mark.parametrize("method", ["rk4", "gni"])
def test_a_stream_has_the_bits_of_solve_and_goes_on(small, tmp_path, method):
    path, whole = tmp_path / "a.zarr", gn.solve(system(1.0), method, **RUN, n_steps=500)
    with pytest.raises(ZeroDivisionError):
        gn.stream(system(1.0), method, store=path, **RUN, n_steps=300, progress=lambda done, total: 1 / (done < 150))
    with pytest.warns(StoreWarning, match="shards are missing"):
        assert gn.open_store(path).sizes["time"] == 151
    half = gn.stream(system(1.0), method, store=path, **RUN, n_steps=300)
    np.testing.assert_array_equal(half["g"], whole.g_vector[:151])
    data = gn.stream(system(1.0), method, store=path, **RUN, n_steps=500)
    np.testing.assert_array_equal(data["g"], whole.g_vector)
    np.testing.assert_array_equal(data["p_minus"], whole.p_minus)
    np.testing.assert_array_equal(data.time, whole.t)
    np.testing.assert_array_equal(data.isel(time=slice(3, 90, 7)).isel(time=slice(2, None)).time, whole.t[3:90:7][2:])
    assert data.sel(time=whole.t[77], method="nearest").time == whole.t[77]
    assert data["g"].dims == ("time", "coordinate")
    with pytest.raises(StoreError, match=r"configuration:\n  xi0: \[.*\] there, \[0.4, 0.2\] here, in member 0\nname"):
        gn.stream(system(1.0), method, store=path, **{**RUN, "xi0": [0.4, 0.2]}, n_steps=500)
    with pytest.raises(ValueError, match="does not satisfy the constraints"):
        gn.stream(system(1.0), method, store=path, **{**RUN, "xi0": [0.4, 0.4]}, n_steps=500)
    with pytest.raises(StoreError, match="longer run"):
        gn.stream(system(1.0), method, store=path, **RUN, n_steps=300)


def test_observables_and_mending(small, tmp_path):
    path, whole = tmp_path / "a.zarr", gn.solve(system(1.0), "rk4", **RUN, n_steps=400)
    wanted = {"energy": "energy", "twice": lambda t, g, xi, lam: 2 * xi}
    data = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=400, observables=wanted)
    np.testing.assert_array_equal(data.energy, whole.energy)
    np.testing.assert_array_equal(data.twice, 2 * whole.xi)
    file = path / "energy" / "c" / "1"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.warns(StoreWarning, match="shard 1 is computed again"):
        data = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=400, observables=wanted)
    np.testing.assert_array_equal(data.energy, whole.energy)


@pytest.mark.slow
def test_a_damaged_file_is_written_anew(tmp_path):
    path = tmp_path / "a.zarr"
    whole = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=30, observables=["energy"]).energy.values
    file = path / "energy" / "c" / "0"
    content = file.read_bytes()
    for damaged in (b"x", content[:-3], content[:50] + bytes([content[50] ^ 1]) + content[51:]):
        file.write_bytes(damaged)
        with pytest.warns(StoreWarning, match="shard 0 is computed again"):
            data = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=30, observables=["energy"])
        np.testing.assert_array_equal(data.energy, whole)


def through(t, g, xi, lam):
    return g[0] - 0.2


EVENTS = [gn.Event(through, name="through"), gn.Event(lambda t, g, xi, lam: xi[0], 1, name="turn")]


@pytest.mark.parametrize("method", ["rk4", "gni"])
@pytest.mark.quick("gni")
def test_events_of_a_stream_are_those_of_solve(small, tmp_path, method):
    path, whole = tmp_path / "a.zarr", gn.solve(system(1.0), method, **RUN, n_steps=500, events=EVENTS)
    assert min(map(len, whole.events.values())) > 3
    with pytest.raises(ZeroDivisionError):
        gn.stream(
            system(1.0), method, store=path, **RUN, n_steps=300, events=EVENTS, progress=lambda n, _: 1 / (n < 150)
        )
    gn.stream(system(1.0), method, store=path, **RUN, n_steps=300, events=EVENTS, observables=None)
    data = gn.stream(system(1.0), method, store=path, **RUN, n_steps=500, events=EVENTS)
    np.testing.assert_array_equal(data["g"], whole.g_vector)
    for name, section in whole.events.items():
        for what in ("t", "g_vector", "xi", "multipliers"):
            np.testing.assert_array_equal(data[f"{name}:{what}"], getattr(section, what))
        assert data[f"{name}:xi"].dims == (f"event of {name}", "component")
    with pytest.raises(StoreError, match="events"):
        gn.stream(system(1.0), method, store=path, **RUN, n_steps=500)


@pytest.mark.slow
def test_a_terminal_event_ends_a_stream(small, tmp_path, recwarn):
    path, stop = tmp_path / "a.zarr", gn.Event(lambda t, g, xi, lam: t - 4.033, name="end", stop=True)
    whole = gn.solve(system(1.0), "rk4", **RUN, n_steps=500, events=stop)
    for _ in range(2):
        data = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=500, events=stop, observables=["xi"])
        there = np.isfinite(data.xi.values[:, 0])
        assert there.sum() == 41  # solve has the last node before the event, too
        np.testing.assert_array_equal(data.xi[:41], whole.xi[:41])
        np.testing.assert_array_equal(data["end:t"], whole.events["end"].t)
        assert list(data.component) == list(whole.attributes["velocity_names"])
    gn.open_store(path)
    assert not [one for one in recwarn if one.category is StoreWarning]


def test_one_who_dies_while_a_store_is_made_longer_leaves_no_damage(small, tmp_path, monkeypatch):
    path, settle = tmp_path / "a.zarr", Store._apply_journal
    gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=300)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_apply_journal", lambda self: settle(self) if not self.about else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=500)
    data = gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=500)
    np.testing.assert_array_equal(data["g"], gn.solve(system(1.0), "rk4", **RUN, n_steps=500).g_vector)


LONG = """
import sys, geonh as gn
entry = gn.systems.catalogue["chaplygin-sphere"]
system = entry.system()
start = entry.start(system)
data = gn.stream(system, store=sys.argv[1], g0=start.g0, xi0=start.xi0, dt=1e-3, n_steps=int(sys.argv[2]))
assert float(abs(data["g"][-1, 2:]).max()) <= 1 + 1e-9
with open("/proc/self/status") as status:  # getrusage tells the most of the process that began this one, too
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is known on Linux")
def test_ten_million_nodes_in_half_a_gigabyte(tmp_path):
    command = [sys.executable, "-c", LONG, str(tmp_path / "a.zarr"), "10000000"]
    as_a_user = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(command, env=as_a_user, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500, done.stdout


@pytest.mark.parametrize(("t0", "dt", "n_steps"), [(1.0, 0.01, 55), (-3.7, 0.3, 13), (0.5, -0.1, 5)])
def test_the_times_of_a_stream_are_as_many_as_its_nodes(tmp_path, t0, dt, n_steps):
    data = gn.stream(
        system(1.0), "rk4", store=tmp_path / "a.zarr", **{**RUN, "dt": dt, "save_every": 1}, t0=t0, n_steps=n_steps
    )
    np.testing.assert_allclose(data.time, t0 + dt * np.arange(n_steps + 1), rtol=1e-14, atol=1e-15)


def test_the_command_line_tells_of_a_stream(tmp_path):
    path = str(tmp_path / "a.zarr")
    gn.stream(system(1.0), "rk4", store=path, **RUN, n_steps=20)
    told = CliRunner().invoke(app, ["info", path])
    assert told.exit_code == 0, told.output
    for words in ("one run", "20, every 2 kept", "1 of 1 finished", "failed"):
        assert words in told.output
    assert CliRunner().invoke(app, ["merge", str(tmp_path / "b.zarr"), path]).exit_code == 0


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "a.CSV"])
def test_a_store_is_not_named_as_a_file(tmp_path, name):
    with pytest.raises(StoreError, match=r"a store is a folder: name it a\.zarr; solve has checkpoint="):
        gn.stream(system(1.0), store=tmp_path / name, **RUN, n_steps=4)
    assert not list(tmp_path.iterdir())


def towards_an_edge():
    """A particle that is pulled to x = 1, beyond which its potential is not a number."""
    return gn.System(
        Translations(1), metric=[1.0], potential=lambda x, p: p["a"] * jnp.sqrt(1 - x[0]), parameters={"a": 1.0}
    )


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [1, 50])
@pytest.mark.parametrize("events", [(), gn.Event(lambda t, g, xi, lam: g[0] - 0.97, name="near", stop=True)])
def test_the_last_node_before_a_stop_is_kept_by_every_run(tmp_path, save_every, events):
    """``solve`` has it as its last node, between the saved ones."""
    system, g0 = towards_an_edge(), np.array([[0.3], [-0.5], [0.9], [-9.0]])
    options = {"xi0": [0.2], "dt": 0.01, "n_steps": 400, "save_every": save_every, "events": events}
    store = tmp_path / "one.zarr"
    warned = pytest.warns(StoreWarning, match="converge") if not events else contextlib.nullcontext()
    with warned:
        kept = gn.stream(system, g0=g0[0], store=store, **options)
    sweep = Sweep.of(system, g0=g0, **options)
    sweep.run(tmp_path / "all.zarr", shard=2)
    for runs in (gn.solve_ensemble(system, g0=g0, **options), sweep.load(tmp_path / "all.zarr")):
        assert (runs.success == [bool(events)] * 3 + [True]).all()
        for i in range(len(g0)):
            run = gn.solve(system, g0=g0[i], throw=False, **options)
            assert i == 3 or run.k[-1] % 50
            np.testing.assert_array_equal(runs[i].t, run.t)
            np.testing.assert_array_equal(runs[i].g_vector, run.g_vector)
            np.testing.assert_array_equal(runs[i].p_minus, run.p_minus)
            np.testing.assert_array_equal(runs.last["g"][i], run.g_vector[-1])
            assert runs.n_steps[i] == run.k[-1]
    run = gn.solve(system, g0=g0[0], throw=False, **options)
    for data in (kept, gn.open_store(tmp_path / "all.zarr").isel(member=0), runs.to_xarray().isel(member=0)):
        assert data.n_steps == run.k[-1]
        np.testing.assert_array_equal(data["p_plus:last"], run.p_plus[-1])
    if not events:
        with gn.float64():
            traced = gn.integrate(system, g0=g0[0], **{k: v for k, v in options.items() if k != "events"})
        assert (traced.k[-1], traced.t[-1]) == (run.k[-1], run.t[-1])
        np.testing.assert_array_equal(traced.g[-1], run.g[-1])


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "gauss4"])
@pytest.mark.parametrize("save_every", [1, 3])
def test_steps_that_a_tolerance_chooses_are_streamed_and_extended(method, save_every, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_run, "SHARD", 8 * 11 * 9)  # nine nodes
    event = gn.Event(lambda t, g, xi, lam: xi[1] - 0.05, name="reversal")
    sleigh = gn.systems.chaplygin_sleigh()
    given = {"xi0": [0.8, -0.5, 0.0], "tolerance": 1e-8, "save_every": save_every, "events": event}

    def streamed(t_end):
        return gn.stream(sleigh, method, **given, t_end=t_end, store=tmp_path / "run")

    first, run = streamed(9.0), gn.solve(sleigh, method, **given, t_end=9.0)
    for dataset in (first, streamed(9.0)):
        np.testing.assert_array_equal(dataset["time"], run.t)
        np.testing.assert_array_equal(dataset["g"], run.g_vector)
        np.testing.assert_array_equal(dataset["reversal:t"], run.events["reversal"].t)
    longer, more = streamed(12.0), gn.resume(run, t_end=12.0)  # ε of reversible steps stays as it was
    np.testing.assert_array_equal(longer["time"], more.t)
    np.testing.assert_array_equal(longer["g"], more.g_vector)
    with pytest.raises(StoreError, match=r"is of a longer run than to 9"):
        streamed(9.0)

"""Sweeps in stores: the bits of the ensemble, finished when run again, refused where they are another's."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr
from sweeping import SIZE, sweep
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app
from geonh.ensembles import merge
from geonh.ensembles.stores import Store, StoreError, StoreWarning

zarr = pytest.importorskip("zarr", reason="stores need zarr: pip install 'geonh[scale]'")


@pytest.fixture(scope="module")
def solved():
    return sweep().solve()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "all.zarr"
    sweep().run(path, shard=SIZE)
    return path


def same(data, runs):
    for name, values in runs.kept.items():
        np.testing.assert_array_equal(data[name], values, err_msg=name)
    for name, values in runs.statistics.items():
        np.testing.assert_allclose(data[name], values, rtol=1e-12, atol=1e-14, err_msg=name)
    np.testing.assert_array_equal(data["through:t"], runs.events["through"].t)
    np.testing.assert_array_equal(data.status, runs.status)
    np.testing.assert_array_equal(data.k, runs.parameters["k"])


def test_a_store_has_the_bits_of_the_ensemble(path, solved):
    data = gn.open_store(path)
    same(data, solved)
    assert data.energy.dims == ("member", "time")
    assert set(data.coords) >= {"k", "member", "time", "coordinate"}
    assert data.attrs["missing"] == 0
    np.testing.assert_allclose(data.time, solved.t[0], rtol=1e-15)
    lazy = xr.open_zarr(path, consolidated=True, chunks=None)  # a reader that knows nothing of geonh
    np.testing.assert_array_equal(lazy["g"][7], solved.kept["g"][7])
    part = sweep().load(path, 50, 120)
    np.testing.assert_array_equal(part[3].g_vector, solved[53].g_vector)
    np.testing.assert_array_equal(part.energy, solved.energy[50:120])


def test_what_is_there_is_not_computed_again(path):
    store = Store(path)
    files = {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()}
    sweep().run(path)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()} == files
    assert store.missing() == []


@pytest.mark.slow
def test_jobs_of_an_array_and_their_merge(tmp_path, solved):
    parts = [tmp_path / f"{i}.zarr" for i in range(3)]
    for i, part in enumerate(parts):
        with pytest.warns(StoreWarning, match="shards are missing"):
            data = sweep().run(part, shard=SIZE, only=(i, 3))
        assert data.attrs["missing"] == 7 - len(range(i, 7, 3))
        there = np.isin(np.arange(200) // SIZE % 3, i)
        np.testing.assert_array_equal(data.energy[there], solved.energy[there])
        assert np.isnan(data.energy[~there]).all()
        assert (data.status[~there] == gn.integrators.Result.INTERRUPTED).all()
    assert merge(tmp_path / "all.zarr", parts[:2]) == [2, 5]
    assert merge(tmp_path / "all.zarr", parts) == []
    same(gn.open_store(tmp_path / "all.zarr"), solved)
    sweep(weight=1.5).run(tmp_path / "other.zarr", shard=SIZE)
    with pytest.raises(StoreError, match="is of another sweep"):
        merge(tmp_path / "all.zarr", [tmp_path / "other.zarr"])


OTHERS = {
    "n_steps": ({"n_steps": 80}, "n_steps: 40 there, 80 here"),
    "seed": ({"seed": 5}, r"xi0: \[.*\] there, \[.*\] here, in member 0\n  k: "),
    "step": ({"dt": 0.04}, "dt: 0.05 there, 0.04 here"),
    "start": ({"g0": [0.3, 0.16]}, r"g0: \[0.3, 0.15\] there, \[0.3, 0.16\] here"),
    "function": ({"weight": 1.5}, "potential"),
    "observables": ({"observables": ["energy"]}, "observables"),
    "members": ({"members": 100}, "members: 200 there, 100 here"),
    "event": ({"events": gn.Event(lambda t, g, xi, lam: g[0] - 0.1, name="through")}, "events"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_configuration_is_refused_in_words(path, name):
    change, words = OTHERS[name]
    with pytest.raises(StoreError, match=words):
        sweep(**change).run(path)


@pytest.mark.quick("changed0")
@pytest.mark.parametrize(
    "changed", [{"xi0": [[0.1, 0.05], [0.1 + 1e-13, 0.05]]}, {"parameters": {"k": [1.0, 1e9 + 1e-3]}}]
)
def test_numbers_that_differ_by_little_are_others(tmp_path, changed):
    """Twins a hair apart: those of another hair are not read from their store."""
    given = {"xi0": [[0.1, 0.05], [0.1 + 1e-12, 0.05]], "parameters": {"k": [1.0, 1e9]}, "members": None}
    sweep(**given).run(tmp_path / "twins.zarr")
    name = "k" if "parameters" in changed else "xi0"
    with pytest.raises(StoreError, match=f"\n  {name}: other values, though not in member 0"):
        sweep(**given | changed).run(tmp_path / "twins.zarr")


@pytest.mark.slow
def test_threads_give_the_same_store(tmp_path, path):
    with ThreadPoolExecutor(2) as pool:
        warned = []
        data = sweep().run(tmp_path / "a.zarr", shard=SIZE, executor=pool, progress=lambda *at: warned.append(at))
    assert data.identical(gn.open_store(path))
    assert warned == [(min(30 * i, 200), 200) for i in range(1, 8)]
    with pytest.raises(TypeError, match="executor must be"):
        sweep().run(tmp_path / "b.zarr", executor="gpu")


@pytest.mark.slow
def test_workers_of_dask_give_the_same_store(tmp_path, solved):
    """Two of them, which talk over sockets."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    options = {"processes": False, "protocol": "tcp", "dashboard_address": None, "local_directory": str(tmp_path)}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = client.scheduler_info()["workers"]
        assert len(workers) == 2
        assert all(address.startswith("tcp://") for address in workers)
        data = sweep().run(tmp_path / "a.zarr", shard=SIZE, executor=client)
    same(data, solved)


@pytest.mark.slow
def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    words = "vertical-disk --vary I=0.5:2 --random 130 --seed 3 --spread 0.1 --steps 20 --shard-members 64"
    one = run(app, f"sweep {words} --store a.zarr --shard 0/2".split())
    assert one.exit_code == 0, one.output
    assert "2 of 3 finished" in one.output
    assert "geonh resume a.zarr" in one.output
    lost = run(app, ["export", "a.zarr", "--member", "70", "--out", "m.nc"])
    assert "member 70 is in a shard that is missing" in lost.output
    whole = run(app, ["resume", "a.zarr"])
    assert "3 of 3 finished" in whole.output
    exported = run(app, ["export", "a.zarr", "--member", "129", "--out", "m.nc"])
    assert exported.exit_code == 0, exported.output
    data, member = gn.open_store("a.zarr"), gn.Trajectory.load("m.nc")
    np.testing.assert_array_equal(member.g_vector, data["g"][129])
    assert member.attributes["parameters"]["I"] == float(data.I[129])
    assert run(app, ["export", "a.zarr", "--out", "all.nc"]).exit_code == 0
    np.testing.assert_array_equal(xr.open_dataset("all.nc")["g"], data["g"])
    assert run(app, ["merge", "b.zarr", "a.zarr"]).exit_code == 0
    assert "vertical-disk" in run(app, ["info", "b.zarr"]).output
    grid = run(
        app,
        [
            "sweep",
            "vertical-disk",
            "--vary",
            "I=1:2:3",
            "--vary",
            "J=1:2:4",
            "--steps",
            "4",
            "--observe",
            "energy",
            "--store",
            "g.zarr",
        ],
    )
    assert grid.exit_code == 0, grid.output
    assert gn.open_store("g.zarr").sizes["member"] == 12


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--random 5 --vary z=0:1", "no parameter 'z'"),
        ("--vary I=1:2", "takes N without --random"),
        ("", "nothing differs"),
        ("--random 5 --vary I=1:2 --shard 3/2", "--shard takes I/N"),
        ("--random 5 --vary I=1:2 --observe speed", "no observable"),
        ("--vary I=1", "--vary takes NAME=A:B"),
        ("--random 5 --vary I=1:2:3", "--vary I=A:B:N takes N without --random"),  # no emoji of :B:
        ("--vary I=1:2:3 --vary I=3:4:2", "I is named more than once"),
        ("--vary I=1:2:3 --set I=5", "I is named more than once"),
        ("--vary I=1:2:3 --spread 0.1", "--spread goes with --random"),
        ("--vary I=1:2:3 --seed 0", "--seed goes with --random"),
        ("--vary I=1:2:" + "9" * 30, "N must be a positive integer, 100,000,000 at most"),
        ("--vary I=1:2:²", "N must be a positive integer"),
        ("--random 5", "nothing differs"),
        ("--random 0 --vary I=1:2", "--random must be a positive number"),
        ("--random 5 --spread -1", "--spread must be a standard deviation"),
        ("--vary I=1:2:3 --executor cluster", "executor must be"),
    ],
)
def test_wrong_words(tmp_path, words, text):
    result = CliRunner().invoke(app, f"sweep vertical-disk {words} --steps 4 --store {tmp_path}/x.zarr".split())
    assert result.exit_code == 2
    assert text in result.output
    assert not (tmp_path / "x.zarr").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_unfinished_store_warns_and_no_store_is_named(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        sweep().run(tmp_path / "a.zarr", shard=SIZE, only=(6, 7))
    with pytest.warns(StoreWarning, match="6 of 7 shards are missing"):
        gn.open_store(tmp_path / "a.zarr")
    warned = CliRunner().invoke(app, ["info", str(tmp_path / "a.zarr")]).output
    assert f"1 of 7 finished, {SIZE} members each, {sweep().members.size - 6 * SIZE} in the last" in warned
    assert "of the Sweep, in Python" in warned
    assert "geonh resume" not in warned
    with pytest.raises(StoreError, match="is not a store of geonh"):
        gn.open_store(tmp_path)
    file = tmp_path / "file"
    file.write_text("no folder")
    with pytest.raises(StoreError, match="is not a store of geonh"):
        sweep().run(file)
    with pytest.raises(StoreError, match="does not exist"):
        gn.open_store(tmp_path / "none.zarr")
    with pytest.raises(ValueError, match="0 ≤ i < n"):
        sweep().run(tmp_path / "a.zarr", only=(2, 2))


class Sum(gn.ensembles.Statistic):
    """A statistic of a user's own."""

    def initial(self, start, members, nodes, shape):
        return {"sum": np.zeros((nodes if self.over == "members" else members, *shape))}

    def update(self, known, values, start, member, node):
        place, values = self.reduced_first(values, member, node)
        known["sum"][place] += np.nansum(values, axis=0)

    def merge_members(self, a, b):
        return {"sum": a["sum"] + b["sum"]}

    def results(self, known):
        return known


def test_a_statistic_that_a_store_cannot_restore_is_refused_before_the_first_step(tmp_path):
    system = gn.systems.suslov()
    given = {"xi0": 0.1 * np.eye(3)[:2], "dt": 0.01, "n_steps": 20, "observables": ["energy"]}
    found = gn.solve_ensemble(system, statistics=[Sum("energy")], **given)
    np.testing.assert_allclose(found.statistics["energy:sum"], found.energy.sum(axis=0), rtol=1e-14)
    with pytest.raises(TypeError, match="a store cannot restore the statistic Sum"):
        gn.Sweep.of(system, statistics=[Sum("energy")], **given).run(tmp_path / "own.zarr")
    with pytest.raises(TypeError, match="abstract"):
        gn.ensembles.Statistic("energy")


@pytest.mark.slow
def test_one_shard_is_told_with_the_members_that_there_are(tmp_path):
    size = sweep().members.size
    sweep().run(tmp_path / "a.zarr", shard=2 * size)
    warned = CliRunner().invoke(app, ["info", str(tmp_path / "a.zarr")]).output
    assert f"1 of 1 finished, {size} members" in warned
    assert str(2 * size) not in warned


def test_what_cannot_be_a_store_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a store of geonh"):
        sweep().run(tmp_path / "file")
    with pytest.raises(ValueError, match="network address"):
        sweep().run("s3://bucket/a.zarr")
    with pytest.raises(TypeError, match="must be a path"):
        sweep().run(3)
    for name in ("a/b", "status"):
        with pytest.raises(ValueError, match="cannot be the name of a function"):
            sweep(observables={name: lambda t, g, xi, lam: t})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("name", ["p", "energy", "time", "t", "status", "reason"])
@pytest.mark.quick("status")
def test_parameters_whose_names_are_taken_are_labelled_as_such(tmp_path, name):
    stiff = gn.System(
        gn.groups.Translations(1), metric=[1.0], potential=lambda x, p: p[name] * x @ x, parameters={name: 1.0}
    )
    made = gn.ensembles.Sweep.of(stiff, "rk4", xi0=[0.1], parameters={name: [1.0, 2.0]}, dt=0.1, n_steps=2)
    for data in (made.solve().to_xarray(), made.run(tmp_path / "a.zarr")):
        label = name if name in ("p", "energy") and name not in data.data_vars else f"parameter {name}"
        np.testing.assert_array_equal(data.coords[label], [1.0, 2.0])
        np.testing.assert_allclose(data.time, [0.0, 0.2])


def test_names_that_no_store_can_hold(tmp_path):
    event = gn.Event(lambda t, g, xi, lam: xi[0], name="left/right")
    with pytest.raises(StoreError, match="'left/right:"):
        sweep(events=event).run(tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())


def test_junk_of_runs_and_merges(tmp_path):
    for junk in (3, (1,)):
        with pytest.raises(TypeError, match="only must be two integers"):
            sweep().run(tmp_path / "a.zarr", only=junk)
    with pytest.raises(ValueError, match="threads must be"):
        sweep().run(tmp_path / "a.zarr", threads=0)
    with pytest.raises(ValueError, match="0 ≤ i < n"):
        sweep().run(tmp_path / "a.zarr", only=(3, 2))
    with pytest.raises(TypeError, match="executor must be"):
        sweep().run(tmp_path / "a.zarr", executor="cluster")
    assert not list(tmp_path.iterdir())
    for junk, text in (
        ({"start": "a"}, "start must be"),
        ({"stop": 2.5}, "stop must be"),
        ({"store": None}, "store must"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            sweep().load(**{"store": tmp_path / "a.zarr", **junk})
    with pytest.raises(TypeError, match="sources must be a list of stores"):
        merge(tmp_path / "b.zarr", str(tmp_path))
    with pytest.raises(TypeError, match="statistics must be a list"):
        sweep(statistics=gn.ensembles.Mean("energy"))

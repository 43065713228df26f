"""Real faults: processes killed, disks that are full, files that are cut, flipped and gone, two runs on one store.

Of each: nothing that was finished is lost or computed twice, nothing wrong is returned, and what is refused is told
with what to do.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from sweeping import SIZE, sweep, system
from test_stores import same
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app
from geonh.ensembles import Sweep
from geonh.ensembles.stores import Store, StoreError, StoreWarning
from geonh.ensembles.stores.disk import digest_of, sealed, unsealed
from geonh.groups import Translations
from geonh.integrators.validity import Result

pytest.importorskip("zarr", reason="stores need zarr: pip install 'geonh[scale]'")
resource = pytest.importorskip("resource", reason="limits of a process are those of POSIX")
PROGRAM = Path(__file__).with_name("sweeping.py")


def begun(path, members=200, n_steps=40):
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(path), str(members), str(n_steps)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert process.stdout.readline() == "begun\n"
    return process


def finished(path):
    """Finished shards, and what would change if one were written again."""
    if not path.exists():
        return {}
    store = Store(path)
    assert not store.faults(deep=True)
    records = path / ".geonh" / "records"
    return {i: (records / f"{i:08d}.json").stat().st_mtime_ns for i in range(store.shards) if i not in store.missing()}


def killed_again_and_again(path, times, members, n_steps):
    """Kill a run at random moments: after some more shards, and anywhere in what is done then."""
    rng, before, cuts = random.Random(1), {}, 0
    records = path / ".geonh" / "records"
    for _ in range(times):
        process = begun(path, members, n_steps)
        wanted = len(before) + rng.randrange(4)
        while process.poll() is None and len(list(records.glob("0*.json"))) < wanted:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.wait()
        after = finished(path)
        assert {i: after.get(i) for i in before} == before
        cuts += 0 < len(after) < -(-members // SIZE)
        before = after
    data = sweep(members, n_steps).run(path, shard=SIZE)
    after = finished(path)
    assert {i: after[i] for i in before} == before
    same(data, sweep(members, n_steps).solve())
    assert not list(path.rglob("*.partial"))
    return cuts


@pytest.mark.slow
def test_killed(tmp_path):
    killed_again_and_again(tmp_path / "a.zarr", 1, 300, 400)


@pytest.mark.slow
def test_killed_at_fifty_moments(tmp_path):
    assert killed_again_and_again(tmp_path / "a.zarr", 50, 12_000, 400) > 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "all.zarr"
    sweep().run(path, shard=SIZE)
    return path, sweep().solve()


def spoil(path, how):
    """Do something to a file of shard 2."""
    file = next(p for p in path.rglob("energy/c/2/*") if p.is_file())
    content = bytearray(file.read_bytes())
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[:-5])
    elif how == "flipped":
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
    else:
        record = path / ".geonh" / "records" / "00000002.json"
        record.write_bytes(record.read_bytes()[:-20])
    return how


@pytest.mark.parametrize("how", ["gone", "cut", "flipped", "record"])
@pytest.mark.quick("flipped")
def test_spoiled_shards(whole, tmp_path, how):
    path = shutil.copytree(whole[0], tmp_path / "a.zarr")
    spoil(path, how)
    if how == "flipped":
        with pytest.raises(ValueError, match="checksum"):
            gn.open_store(path).energy.load()
    else:
        with pytest.raises(StoreError, match="run it again to repair them"):
            gn.open_store(path)
    with pytest.raises(StoreError, match="shard 2 is damaged"):
        sweep().load(path)
    with pytest.warns(StoreWarning, match="shard 2 is computed again"):
        data = sweep().run(path)
    same(data, whole[1])


@pytest.mark.parametrize("name", ["zarr.json", "energy/zarr.json", ".geonh/store.json"])
def test_a_spoiled_store_is_refused(whole, tmp_path, name):
    path = shutil.copytree(whole[0], tmp_path / "a.zarr")
    text = (path / name).read_text()
    (path / name).write_text(text.replace("200", "300", 1) if "200" in text else text.replace("1", "2", 1))
    with pytest.raises(StoreError, match="is damaged"):
        gn.open_store(path)
    with pytest.raises(StoreError, match="is damaged"):
        sweep().run(path)


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "another.zarr"
    sweep(seed=5).run(path, shard=SIZE)
    return path


@pytest.mark.slow
def test_a_shard_of_another_store_is_told_from_an_own_one(whole, another, tmp_path):
    """Its files are as its record says, and the number is right."""
    path = shutil.copytree(whole[0], tmp_path / "a.zarr")
    for file in [p for p in another.rglob("*") if "/c/2/" in f"{p.as_posix()}/" or p.name == "00000002.json"]:
        if file.is_file():
            shutil.copyfile(file, path / file.relative_to(another))
    with pytest.raises(StoreError, match="shard 2: it is a shard of another store"):
        gn.open_store(path)
    with pytest.warns(StoreWarning, match="shard 2 is computed again"):
        same(sweep().run(path), whole[1])


@pytest.mark.parametrize("name", [".geonh/store.json", ".geonh/start.nc", "energy/zarr.json", "statistic 0:s/c/1/0"])
@pytest.mark.parametrize("how", ["other", "gone", "folder", "pipe"])
def test_a_file_that_is_another_or_none(whole, another, tmp_path, name, how):
    path = shutil.copytree(whole[0], tmp_path / "a.zarr")
    (path / name).unlink()
    if how == "other":
        content = (another / name).read_bytes()
        (path / name).write_bytes(content if content != (whole[0] / name).read_bytes() else b"{}")
    elif how == "folder":
        (path / name).mkdir()
    elif how == "pipe":
        os.mkfifo(path / name)
    words = "another configuration|damaged|is not a store"
    if (how, name) != ("other", ".geonh/start.nc"):  # of which the sweep must tell
        with pytest.raises(StoreError, match=words):
            gn.open_store(path)
    with pytest.raises(StoreError, match=words):
        sweep().load(path)


def test_a_pipe_for_a_lock_is_refused(whole, tmp_path):
    path = shutil.copytree(whole[0], tmp_path / "a.zarr")
    (path / ".geonh/records/00000001.json").unlink()
    os.mkfifo(path / ".geonh/locks/00000001")
    with pytest.raises(StoreError, match="00000001 is not a regular file: remove it"):
        sweep().run(path)


@pytest.mark.parametrize("where", ["journal", "record"])
def test_no_file_outside_of_a_store_is_touched(whole, tmp_path, where):
    """Sealed as ours are, with names that lead elsewhere."""
    path, precious = shutil.copytree(whole[0], tmp_path / "a.zarr"), tmp_path / "precious"
    precious.write_text("mine")
    name = ".geonh/store.json" if where == "journal" else ".geonh/records/00000002.json"
    about = unsealed((path / name).read_bytes())
    if where == "journal":
        about["journal"] = {"../precious": "theirs"}
    else:
        about["files"]["../precious"] = [4, digest_of(precious)]
    (path / name).write_bytes(sealed(about))
    with pytest.raises(StoreError, match="is damaged"):
        gn.open_store(path)
    with pytest.raises(StoreError, match="is damaged"):
        gn.ensembles.merge(tmp_path / "b.zarr", [path])
    assert precious.read_text() == "mine"


def test_an_export_is_whole_or_not_there(whole, tmp_path):
    path, out = shutil.copytree(whole[0], tmp_path / "a.zarr"), tmp_path / "out.nc"
    assert CliRunner().invoke(app, ["export", str(path), "--out", str(out)]).exit_code == 0
    before = out.read_bytes()
    spoil(path, "flipped")
    warned = CliRunner().invoke(app, ["export", str(path), "--out", str(out)])
    assert warned.exit_code == 2
    assert "shard 2 is damaged" in " ".join(warned.output.split())
    assert out.read_bytes() == before


@pytest.mark.slow
def test_files_that_may_not_grow(whole, tmp_path):
    path = tmp_path / "a.zarr"
    with pytest.warns(StoreWarning):
        sweep().run(path, shard=SIZE, only=(0, 3))
    before, (soft, hard) = finished(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(StoreError, match="make room and run again"):
            sweep().run(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert finished(path) == before
    same(sweep().run(path), whole[1])
    assert not list(path.rglob("*.partial"))


@pytest.mark.slow
def test_a_full_file_system(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no right to mount a small file system")
    try:
        with pytest.raises(StoreError, match="make room and run again"):
            sweep(2000).run(place / "a.zarr", shard=SIZE)
        done = finished(place / "a.zarr")
        assert len(done) > 3
        assert subprocess.run(["mount", "-o", "remount,size=8m", place]).returncode == 0
        same(sweep(2000).run(place / "a.zarr"), sweep(2000).solve())
        after = finished(place / "a.zarr")
        assert {i: after[i] for i in done} == done
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.slow
def test_a_shard_that_another_computes_is_left_to_it(whole, tmp_path):
    path = tmp_path / "a.zarr"
    with pytest.warns(StoreWarning):
        sweep().run(path, shard=SIZE, only=(6, 7))
    with Store(path).claim(3) as ours:
        assert ours
        with pytest.warns(StoreWarning, match="1 of 7 shards are missing"):
            sweep().run(path)
        assert Store(path).missing() == [3]
    same(sweep().run(path), whole[1])


@pytest.mark.slow
def test_two_runs_on_one_store(tmp_path):
    path = tmp_path / "a.zarr"
    both = [begun(path, 6000, 400) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    data = sweep(6000, 400).run(path)
    same(data, sweep(6000, 400).solve())


@pytest.mark.slow
def test_members_that_fail_are_masked_and_the_others_kept(tmp_path):
    def pull(t, x, xi, u):
        return jnp.where(x[0] > 0.5, jnp.nan, 0.0) * jnp.array([1.0, 0.0])

    system = gn.System(
        Translations(2), metric=np.eye(2), forces=pull, distribution=gn.Distribution([[0.0, 1.0]]), name="cliff"
    )
    xi0 = np.stack([np.linspace(0, 1, 80), np.zeros(80)], axis=1)
    xi0[5, 1] = 1.0  # breaks the constraint
    made = Sweep.of(system, "rk4", xi0=xi0, dt=0.05, n_steps=20, save_every=1)
    data = made.run(tmp_path / "a.zarr", shard=16)
    runs = made.solve()
    assert set(np.unique(runs.status)) == {Result.SUCCESS, Result.NOT_FINITE, Result.START}
    np.testing.assert_array_equal(data.status, runs.status)
    np.testing.assert_array_equal(data["g"], runs.g_vector)
    assert np.isnan(data["g"][79, -1]).all()
    assert "member 5 did not start" in made.load(tmp_path / "a.zarr").message(5)
    assert sum(Store(tmp_path / "a.zarr").record(i)["failed"] for i in range(5)) == (runs.status != 0).sum()


@pytest.mark.slow
def test_a_worker_process_that_dies(tmp_path):
    from concurrent.futures import ProcessPoolExecutor

    path = tmp_path / "a.zarr"
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        pool.submit(os.getpid).result()
        victim = next(iter(pool._processes))
        pool.submit(_die_soon, victim)
        with pytest.raises(StoreError, match="run again to finish them"):
            sweep(6000, 1000).run(path, shard=SIZE, executor=pool)
    before = finished(path)
    same(sweep(6000, 1000).run(path), sweep(6000, 1000).solve())
    after = finished(path)
    assert {i: after[i] for i in before} == before


@pytest.mark.slow
def test_a_script_that_starts_processes_where_it_is_imported(tmp_path):
    lines = (
        "import geonh as gn",
        "from geonh.ensembles import Sweep",
        "starts = [[0.1, 0.2 * i, 0.0] for i in range(1, 9)]",
        "sweep = Sweep.of(gn.systems.suslov(), xi0=starts, dt=0.01, n_steps=10)",
        "sweep.run('a.zarr', executor='processes')",
    )
    (tmp_path / "script.py").write_text("\n".join(lines))
    run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "StoreError" in run.stderr
    assert 'under if __name__ == "__main__":' in run.stderr


def _die_soon(pid):
    time.sleep(4)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_dask_worker_that_dies(whole, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    place = os.pathsep.join(filter(None, [str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", place)
    path, killed = tmp_path / "a.zarr", []
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert all(address.startswith("tcp://") for address in client.scheduler_info()["workers"])

        def kill_one(done, total):
            if not killed:
                worker = next(iter(cluster.workers.values()))
                os.kill(worker.pid, signal.SIGKILL)
                killed.append(done)

        data = sweep().run(path, shard=SIZE, executor=client, progress=kill_one)
    assert killed
    assert data.attrs["missing"] == 0
    same(data, whole[1])


@pytest.mark.slow
def test_a_dask_scheduler_that_is_restarted(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")]))
    path, wanted = tmp_path / "a.zarr", sweep(6000, 1000)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    processes = []

    def start(*words):
        command = [sys.executable, "-m", *words]
        processes.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL))
        return processes[-1]

    def cluster():
        host, port = place.removeprefix("tcp://").split(":")
        scheduler = start("distributed.cli.dask_scheduler", "--host", host, "--port", port, "--no-dashboard")
        for _ in range(2):
            start("distributed.cli.dask_worker", place, "--nthreads", "1", "--no-dashboard")
        return scheduler

    try:
        first, killed = cluster(), []

        def restart(done, total):
            if done and not killed:
                first.kill()
                first.wait()
                killed.append(done)
                cluster()

        lost = pytest.raises(StoreError, match="run again to finish them")
        with distributed.Client(place, timeout=60) as client, lost:
            wanted.run(path, shard=SIZE, executor=client, progress=restart)
        before = finished(path)
        assert 0 < len(before) < 200
        with distributed.Client(place, timeout=60) as client:
            data = wanted.run(path, executor=client)
        after = finished(path)
        assert {i: after[i] for i in before} == before
        same(data, wanted.solve())
    finally:
        for process in processes:
            process.kill()
            process.wait()


JUMPING = """
import datetime, itertools, os, random, runpy, sys, time
years = itertools.count()
def jumping():
    return 1e9 + (-1) ** next(years) * 1e8 * random.random()
time.time, time.time_ns = jumping, lambda: int(1e9 * jumping())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_a_clock_that_jumps(tmp_path):
    """By years, in two runs on one store whose files are from the past and from the future."""
    path = tmp_path / "a.zarr"
    with pytest.warns(StoreWarning):
        sweep(600).run(path, shard=SIZE, only=(0, 4))
    before, rng = finished(path), random.Random(2)
    for file in path.rglob("*"):
        os.utime(file, (rng.uniform(0, 4e9), rng.uniform(0, 4e9)))
    words = [sys.executable, "-c", JUMPING, str(PROGRAM), str(path), "600", "40"]
    runs = [subprocess.Popen(words, env={**os.environ, "PYTHONWARNINGS": "ignore"}) for _ in range(2)]
    assert [process.wait() for process in runs] == [0, 0]
    made = [json.loads((path / ".geonh" / "records" / f"{i:08d}.json").read_text()) for i in before]
    assert len(made) == len(before) == 5
    same(sweep(600).run(path), sweep(600).solve())


@pytest.mark.slow
def test_newton_that_never_ends_is_bounded(tmp_path):
    """Members whose equation has no solution, so that Newton's iteration wanders for ever, and members with one."""

    def pull(t, x, xi, u, p):
        return p["k"] * (1.0 + x**2)

    system = gn.System(Translations(1), metric=np.eye(1), forces=pull, parameters={"k": 0.0}, name="puller")
    strength = np.where(np.arange(64) % 5, 0.1, 1e4)
    made = Sweep.of(system, "midpoint", xi0=[0.0], parameters={"k": strength}, dt=0.1, n_steps=10)
    data = made.run(tmp_path / "a.zarr", shard=16)
    np.testing.assert_array_equal(data.status, np.where(strength < 1, Result.SUCCESS, Result.NEWTON))
    np.testing.assert_array_equal(data.n_steps, np.where(strength < 1, 10, 0))
    assert np.isfinite(data["g"][strength < 1]).all()
    assert "smaller dt" in made.load(tmp_path / "a.zarr").message(0)


@pytest.mark.slow
def test_a_stream_that_another_process_writes_is_left_to_it(tmp_path):
    path, run = tmp_path / "a.zarr", {"xi0": [0.2, 0.1], "g0": [0.3, 0.15], "dt": 0.05, "n_steps": 40}
    data = gn.stream(system(1.0), "rk4", store=path, **run)
    Store(path).mark_missing(0)
    with Store(path).claim(0) as ours:
        assert ours
        with pytest.raises(StoreError, match="another process computes shard 0"):
            gn.stream(system(1.0), "rk4", store=path, **run)
    np.testing.assert_array_equal(gn.stream(system(1.0), "rk4", store=path, **run)["g"], data["g"])


LEAVES = """
import os, sys
from pathlib import Path
from geonh.ensembles.stores.disk import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "some").write_text("data")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_what_a_process_that_was_killed_left_of_a_new_store_goes(tmp_path):
    path = tmp_path / "a.zarr"
    assert subprocess.run([sys.executable, "-c", LEAVES, path], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    sweep(4).run(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]

"""Ensembles of the catalogue on a GPU of NVIDIA, on a machine that need not have geonh.

``python gpu.py write FOLDER`` writes, where geonh is, the kernels of each system with the ends of an ensemble by
``solve_ensemble``, and copies itself there. ``python FOLDER/gpu.py run`` needs NumPy and a driver of NVIDIA alone: it
compares the ends and measures steps; of its table the one of docs/export.md is made.
"""

import importlib.util
import json
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

MEMBERS, N = 1000, 100
"""Ensemble whose ends are compared."""
MANY, MANY_HERE, REPEATS = 131_072, 20_000, 3
"""Ensembles that are timed, on the GPU and where geonh is, and how often; the best counts."""
METHODS = {"chaplygin-sleigh": "gauss4", "snakeboard": "gauss4"}
"""Methods other than those of the catalogue."""


def write(folder):
    """Kernels, initial velocities and ends of all systems."""
    import geonh as gn
    from geonh.systems import catalogue

    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in catalogue.items():
        system, method = entry.system(), METHODS.get(name, entry.method)
        start = entry.start(system)
        options = {"g0": start.g0, "dt": entry.dt, "controls": entry.controls}
        built = gn.build(system, method, folder / name / "robot", target="ptx", xi0=start.xi0, **options)
        model = built.model
        scales = np.linspace(0.8, 1.2, MEMBERS)[:, None]
        projected = [system.project(model.g, row) for row in scales * model.xi]
        velocities = np.array([v if system.holonomic is None else v[1] for v in projected])
        runs = gn.solve_ensemble(system, method, xi0=velocities, n_steps=N, **options)
        first = [quantity.name for quantity in model.observed].index(model.velocity[0].name)
        place = folder / name / "robot"
        np.savez(place / "ends.npz", velocities=velocities, xi=runs.xi[:, -1], failed=~np.asarray(runs.success))
        many, spent = np.resize(velocities, (MANY_HERE, velocities.shape[1])), np.inf
        for _ in range(1 + REPEATS):
            begun = time.perf_counter()
            gn.solve_ensemble(system, method, xi0=many, n_steps=N, save_every=N, **options)
            spent = min(spent, time.perf_counter() - begun)
        data = {"method": method or "gauss4", "first": first, "ns": spent / MANY_HERE / N * 1e9}
        (place / "ends.json").write_text(json.dumps(data), encoding="utf-8")
        print(name, data, flush=True)
    shutil.copy(__file__, folder / "gpu.py")


def example_of(place):
    spec = importlib.util.spec_from_file_location("example", place / "example.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one(task):
    """Of a system: seconds of the driver's compilation, differences from the ends, ns a step and member."""
    place, lock = task
    example, data = example_of(place), json.loads((place / "ends.json").read_text(encoding="utf-8"))
    ends = np.load(place / "ends.npz")
    try:
        begun = time.perf_counter()
        example.Device(place / "robot.ptx")
        compiled = time.perf_counter() - begun
        spent = {}
        plain = example.Device.run

        def timed(self, kernel, *arguments):
            begun = time.perf_counter()
            plain(self, kernel, *arguments)
            spent[kernel] = time.perf_counter() - begun

        example.Device.run = timed
        with lock:
            observed, statuses = example.ensemble(ends["velocities"], N)
            n, first = ends["xi"].shape[1], data["first"]
            good = ~ends["failed"]
            gap = np.abs(observed[:, first : first + n] - ends["xi"])[good].max()
            differ = int(np.count_nonzero((statuses != 0) != ends["failed"]))
            size = np.abs(ends["xi"][good]).max()
            rows = np.resize(ends["velocities"], (MANY, n))
            ns = np.inf
            for _ in range(REPEATS):
                example.ensemble(rows, N)
                ns = min(ns, spent["robot_advance_members"] / MANY / N * 1e9)
        return place.parent.name, data["method"], compiled, gap / size, differ, ns, data["ns"]
    except Exception as reason:
        return place.parent.name, data["method"], f"{type(reason).__name__}: {reason}"


def run():
    """Print a row for each system, as they end; some wait for others, since the GPU runs one at a time."""
    print("system | method | driver's compilation, s | difference | other statuses | ns a step | ns a step by geonh")
    places = [path.parent for path in sorted(Path(__file__).parent.glob("*/robot/ends.json"))]
    with multiprocessing.Manager() as manager, multiprocessing.Pool(min(len(places), os.cpu_count())) as pool:
        lock = manager.Lock()
        for row in pool.imap_unordered(one, [(place, lock) for place in places]):
            print(*(f"{x:.3g}" if isinstance(x, float) else x for x in row), sep=" | ", flush=True)


if __name__ == "__main__":
    run() if sys.argv[1:] == ["run"] else write(Path(sys.argv[2]))

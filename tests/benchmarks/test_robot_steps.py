"""First calls and steps of robots from their files, as a table of docs/bodies.md.

``pytest -m benchmark -s tests/benchmarks/test_robot_steps.py``, or as a script: seconds of the first call of RKMK-4
without a cache of programs, and microseconds of a step in optimised code, in processor time, each in a process of its
own. It needs ``pip install example-robot-data yourdfpy``.
"""

import importlib.util
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("GEONH_CACHE", "off")
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "bodies")]

import numpy as np
import pytest

import geonh as gn
from geonh import bodies

pytestmark = pytest.mark.benchmark
ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", None),
    "Panda": ("panda_description/urdf/panda.urdf", None),
    "TIAGo on its wheels": ("", None),
    "HyQ, free": ("hyq_description/robots/hyq_no_sensors.urdf", "free"),
    "Talos": ("talos_data/robots/talos_full_v2.urdf", None),
    "TIAGo with its hands": ("tiago_description/robots/tiago.urdf", None),
}
METHODS = ("rkmk4", "gauss4")


def robot(name):
    """System of a robot, without damping."""
    path, root = ROBOTS[name]
    if path:
        from test_accelerations import files

        file = next(file for file in files().values() if str(file).endswith(path))
        links, wheels = bodies.from_file(file, root=root, meshes=False).tree.links, []
    else:
        from test_robots import from_json

        base, *others = from_json("tiago")[0]
        links = [replace(base, joint=bodies.Joint("planar", "base")), *others]
        wheels = [bodies.Wheel(f"wheel_{side}_link", 0.0985, grips=side == "left") for side in ("left", "right")]
    return bodies.tree([replace(link, joint=replace(link.joint, damping=0.0)) for link in links], contacts=wheels)


def measured(name, method):
    """Number of velocities, seconds of the first call, and microseconds of a step."""
    from test_growth import SETTLED, is_optimised

    gn.solve(gn.systems.chaplygin_sleigh(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=10)  # imports
    system = robot(name)
    g0, xi0 = bodies.start(system) if system.is_constrained else (None, np.zeros(system.group.dim))
    given = {"g0": g0, "xi0": xi0, "dt": 1e-4, "n_steps": 1000, "save_every": 1000}
    begun = time.process_time()
    gn.solve(system, method, **given)
    first, step = time.process_time() - begun, np.inf
    while not is_optimised():
        gn.solve(system, method, **given)
    settled = time.process_time()
    while time.process_time() - settled < SETTLED:
        begun = time.process_time()
        gn.solve(system, method, **given)
        step = min(step, time.process_time() - begun)
    return system.group.dim, first, 1e6 * step / given["n_steps"]


def table():
    rows = ["| robot | velocities | first call, s | RKMK-4, µs a step | Gauss-4, µs a step |", "|---|---|---|---|---|"]
    for name in ROBOTS:
        ran = [
            subprocess.run([sys.executable, __file__, name, method], check=True, capture_output=True, text=True).stdout
            for method in METHODS
        ]
        (n, first, explicit), (*_, implicit) = (map(float, out.split()[-3:]) for out in ran)
        rows.append(f"| {name} | {n:.0f} | {first:.1f} | {explicit:.2g} | {implicit:.2g} |")
        print(rows[-1], flush=True)
    return rows


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("example_robot_data", "yourdfpy"))),
    reason="pip install example-robot-data yourdfpy",
)
def test_robot_steps():
    assert len(table()) == 2 + len(ROBOTS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
            print(*measured(*sys.argv[1:]))
    else:
        table()

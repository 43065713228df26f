"""Accelerations of robots from their files against Pinocchio's articulated-body algorithm in a loop in C++.

``pytest -m benchmark -s tests/benchmarks/test_accelerations.py``, or as a script with names of robots. Nanoseconds of
an evaluation, the least of some rounds in turns, and seconds of geonh's first call, each robot in a process of its own;
a star where the goal is missed. It needs g++ and ``pip install pin cmeel-eigen example-robot-data yourdfpy``; its
program, ``c/aba.cpp``, takes minutes to compile.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("GEONH_CACHE", "off")

import jax
import numpy as np
import pytest

import geonh as gn
from geonh import bodies
from geonh.engine import prepared
from geonh.mechanics import accelerations

pytestmark = pytest.mark.benchmark
GOAL = 1.5
ROUNDS, STATES = 7, 400
WANTED = ("pinocchio", "yourdfpy", "example_robot_data")
UNREAD = {"ur3", "romeo", "romeo_laas_small", "alex_psyonic_hands"}
"""No robots: a macro, joints without an inertia beyond them or with a negative one, and with nothing to mimic."""
DEFINED = [
    "BOOST_MPL_LIMIT_LIST_SIZE=30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
]


class State(NamedTuple):
    x: Any
    xi: Any


def files():
    """URDF files of the package example-robot-data by name."""
    named = [Path(file.locate()).resolve() for file in metadata.files("example-robot-data") if file.suffix == ".urdf"]
    return {f"{path.parts[-3]}/{path.stem}": path for path in sorted(named) if path.stem not in UNREAD}


def compiled(folder):
    """Program of ``c/aba.cpp``."""
    import pinocchio

    prefix, path = Path(pinocchio.__file__).parents[4], Path(folder) / "aba"
    include = [f"-I{prefix}/include/{where}" for where in ("", "eigen3", "pinocchio/deprecated")]
    flags = ["-O3", "-DNDEBUG", "-std=c++17", *(f"-D{name}" for name in DEFINED), *include]
    libraries = [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lpinocchio_default", "-lboost_serialization"]
    source = Path(__file__).parent / "c" / "aba.cpp"
    subprocess.run(["g++", *flags, str(source), "-o", str(path), *libraries], check=True)
    return path


def system_of(path):
    """The robot on its own root, free where nothing else moves."""
    links = bodies.read(path, meshes=False).links
    if not any(link.joint.dim for link in links):
        links = [link if link.parent else replace(link, joint=bodies.Joint("free", "base")) for link in links]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
        return bodies.tree(links)


def rates(system, state):
    return accelerations(system, 0.0, state.x, state.xi, None)[0]


def measured(path, program):
    """Velocities, nanoseconds of geonh and of Pinocchio, and seconds of the first call."""
    import pinocchio

    model = Path(program).with_suffix(".txt")
    robot = pinocchio.buildModelFromUrdf(str(path))
    if not robot.nv:
        robot = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    robot.saveToText(str(model))
    system, mine, theirs = system_of(path), np.inf, np.inf
    n, draws = system.group.dim, np.random.default_rng(0)
    with gn.float64():
        x, begun = system.point(None), time.perf_counter()
        turned = jax.tree.map(np.asarray, system.group.compose(x, system.group.exp(draws.uniform(-1, 1, n))))
        states = State(
            jax.tree.map(lambda part: np.repeat(part[None], STATES, 0), turned), draws.normal(size=(STATES, n))
        )
        evaluate = prepared(rates, system, jax.tree.map(lambda part: part[0], states))
        evaluate(states)
        first = time.perf_counter() - begun
        for _ in range(ROUNDS):
            told = subprocess.run([program, model, "2000", "5"], capture_output=True, text=True, check=True).stdout
            theirs = min(theirs, float(told.split()[0]))
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                evaluate(states)
                mine = min(mine, 1e9 * (time.perf_counter() - begun) / STATES)
    return n, mine, theirs, first


def apart(path, program):
    """``measured`` in a process of its own."""
    asked = [sys.executable, __file__, "--one", str(path), str(program)]
    words = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-4:]
    return int(words[0]), *map(float, words[1:])


def table(names, program):
    """Ratios of the robots, printed as they come."""
    ratios = {}
    for name, path in files().items():
        if names and name not in names and path.stem not in names:
            continue
        n, mine, theirs, first = apart(path, program)
        ratios[name] = mine / theirs
        star = " *" if ratios[name] > GOAL else ""
        numbers = f"{n} velocities, {mine:.0f} ns against {theirs:.0f} ns, {ratios[name]:.2f}{star}"
        print(f"{name}: {numbers}, first call {first:.1f} s", flush=True)
    return ratios


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, WANTED)), reason="pip install pin example-robot-data yourdfpy"
)
def test_accelerations(tmp_path):
    ratios = table((), compiled(tmp_path))
    assert len(ratios) > 60
    assert np.median(list(ratios.values())) < GOAL


if __name__ == "__main__":
    if "--one" in sys.argv:
        print(*measured(*sys.argv[-2:]))
    else:
        with tempfile.TemporaryDirectory() as place:
            table(sys.argv[1:], compiled(place))

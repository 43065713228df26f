"""Exported code against ``solve``: size, time of export, and CPU time of a step in C and in node.

On demand: ``python tests/benchmarks/test_export.py --page`` renews the table of docs/export.md, and
``pytest -m benchmark -s tests/benchmarks/test_export.py`` prints it and asserts that WebAssembly is not much slower.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue

pytestmark = pytest.mark.benchmark
SYSTEMS = [
    ("chaplygin-sleigh", "gni"),
    ("snakeboard", "gni"),
    ("suslov", "gauss4"),
    ("chaplygin-sphere", "gauss4"),
    ("whipple-bicycle", "rkmk4"),
]
N, REPEATS = 2000, 7
PAGE = Path(__file__).parents[2] / "docs" / "export.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")
TIMED = f"""
import {{ Robot }} from "./robot.js";
const run = new Robot(), state = Float64Array.from(run.vectors.state);
let best = Infinity;
for (let i = 0; i < {REPEATS + 3}; i++) {{
  run.set("state", state);
  run.status = 0;
  const before = process.cpuUsage();
  run.advance({N});
  const spent = process.cpuUsage(before);
  best = Math.min(best, spent.user + spent.system);
}}
console.log(JSON.stringify([run.status, best / {N} * 1000]));
"""


def best(call):
    """Least CPU time of some calls, nanoseconds a step."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found) / N * 1e9


def in_c(built):
    """Step of the object code."""
    library = built.folder / "robot.so"
    subprocess.run(["cc", "-shared", "-o", library, built.folder / "robot.o", "-lm"], check=True)
    loaded, defaults = ctypes.CDLL(str(library)), built.model.defaults
    begin, state = np.zeros(built.model.state_size), np.zeros(built.model.state_size)

    def pointers(*arrays):
        return [ctypes.c_void_p(a.ctypes.data) for a in arrays]

    assert loaded.robot_start(*pointers(*defaults.values(), begin)) == 0
    arguments = pointers(defaults["parameters"], defaults["inputs"], state)

    def call():
        state[:] = begin
        assert loaded.robot_advance(*arguments, N) == 0

    return best(call)


def in_node(built):
    (built.folder / "timed.mjs").write_text(TIMED)
    ran = subprocess.run(["node", "timed.mjs"], cwd=built.folder, check=True, capture_output=True, text=True)
    status, ns = json.loads(ran.stdout)
    assert status == 0
    return ns


def measured(name, method, folder):
    """Row of the table."""
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt / 10, "controls": entry.controls}
    gn.solve(system, method, n_steps=N, **given)
    times = {}
    made = {}
    for target in ("c", "wasm"):
        begun = time.process_time()
        made[target] = gn.build(system, method, folder / name / target / "robot", target=target, **given)
        times[target] = time.process_time() - begun
    size = (made["wasm"].folder / "robot.wasm").stat().st_size / 1e3
    page = len(gn.export.play(system, methods=method, n_steps=100).html) / 1e3
    return name, method, size, page, times["c"], times["wasm"], in_c(made["c"]), in_node(made["wasm"])


def table(rows):
    columns = (
        *("system, method", "module, kB", "page, kB", "export for C, s", "for WebAssembly, s"),
        *("C, ns a step", "node, ns a step", "ratio"),
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, method, size, page, c, wasm, native, node in rows:
        lines.append(
            f"| {name}, `{method}` | {size:.1f} | {page:.0f} | {c:.1f} | {wasm:.1f} | {native:.0f} | {node:.0f} "
            f"| {node / native:.1f} |"
        )
    return "\n".join(lines) + "\n"


def all_rows():
    with tempfile.TemporaryDirectory() as folder:
        return [measured(*pair, Path(folder)) for pair in SYSTEMS]


def test_webassembly_is_not_much_slower_than_native_code():
    rows = all_rows()
    print("\n" + table(rows))
    assert max(row[-1] / row[-2] for row in rows) < 4


if __name__ == "__main__":
    written = table(all_rows())
    print(written)
    if "--page" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(MARKS[0])
        PAGE.write_text(f"{head}{MARKS[0]}\n{written}{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")

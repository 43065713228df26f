"""Exported code: sizes, times of export, times of a step in C, node and Chromium, and script of a live page a frame.

On demand: ``python tests/benchmarks/test_export.py --page`` renews the table of docs/export.md and its sentence on
frames, and ``pytest -m benchmark -s tests/benchmarks/test_export.py`` prints the table and asserts that WebAssembly is
not much slower.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from chromium import launched

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
WARM = 8000
"""Milliseconds of runs in JavaScript, which optimises its code meanwhile; the best of them counts."""
PAGE = Path(__file__).parents[2] / "docs" / "export.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")
TIMED = f"""
import {{ Robot }} from "./robot.js";
const run = new Robot(), state = Float64Array.from(run.vectors.state);
let best = Infinity;
for (const begun = performance.now(); performance.now() - begun < {WARM}; ) {{
  run.set("state", state);
  run.status = 0;
  const before = process.cpuUsage();
  run.advance({N});
  const spent = process.cpuUsage(before);
  best = Math.min(best, spent.user + spent.system);
}}
console.log(JSON.stringify([run.status, best / {N} * 1000]));
"""

FRAMES = """
window.frames = { n: 0, spent: 0 };
const inTurn = window.requestAnimationFrame;
window.requestAnimationFrame = (draw) => inTurn((now) => {
  const begun = performance.now();
  draw(now);
  window.frames.n += 1;
  window.frames.spent += performance.now() - begun;
});
"""
"""Script that sums the time of the page's script in frames."""
STEPS = f"""() => {{
  const {{ run }} = geonhPlay.runs[0], state = Float64Array.from(run.vectors.state);
  let best = Infinity;
  for (const first = performance.now(); performance.now() - first < {WARM}; ) {{
    const begun = performance.now();
    for (let k = 0; k < 10; k++) {{ // a browser's clock is coarse
      run.set("state", state);
      run.status = 0;
      run.advance({N});
    }}
    best = Math.min(best, (performance.now() - begun) / 10);
  }}
  return [run.status, best / {N} * 1e6];
}}"""


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


def in_chromium(browser, page):
    """Nanoseconds a step of a live page, and milliseconds of its script a frame while it plays."""
    opened = browser.new_page(viewport={"width": 1280, "height": 720})
    script = script_a_frame(opened, page)
    status, ns = opened.evaluate(STEPS)
    assert status == 0
    opened.close()
    return ns, script


def frames(browser, folder):
    """Milliseconds of a page's script a frame, of live pages of all systems of the catalogue by their names."""
    found = {}
    for name, entry in catalogue.items():
        system = entry.system()
        start = entry.start(system)
        given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "controls": entry.controls}
        page = gn.export.play(system, folder / f"{name}.html", entry.method, n_steps=100, **given).path
        opened = browser.new_page(viewport={"width": 1280, "height": 720})
        found[name] = script_a_frame(opened, page)
        opened.close()
    return found


def script_a_frame(opened, page):
    """Milliseconds of the script of a live page a frame while it plays."""
    opened.add_init_script(FRAMES)
    opened.goto(page.as_uri())
    opened.wait_for_function("window.geonhPlay && window.geonhPlay.ready", timeout=60_000)
    opened.evaluate("geonhPlay.reset(); geonhPlay.setPlaying(true)")
    opened.wait_for_timeout(1000)
    opened.evaluate("window.frames = { n: 0, spent: 0 }")
    opened.wait_for_timeout(3000)
    n, spent = opened.evaluate("[window.frames.n, window.frames.spent]")
    return spent / n


def example_in_c(built):
    """Seconds to compile the example in C, to link and to run it."""
    begun = time.perf_counter()
    command = ["cc", "-O2", "example.c", "robot.o", "-lm", "-o", "example"]
    subprocess.run(command, cwd=built.folder, check=True, capture_output=True)
    subprocess.run(["./example", str(N)], cwd=built.folder, check=True, capture_output=True)
    return time.perf_counter() - begun


def measured(name, method, folder, browser):
    """Row of the table."""
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt / 10, "controls": entry.controls}
    gn.solve(system, method, n_steps=N, **given)
    times = {}
    made = {}
    for target in ("c", "wasm", "fmi3"):
        begun = time.process_time()
        made[target] = gn.build(system, method, folder / name / target / "robot", target=target, **given)
        times[target] = time.process_time() - begun
    size = (made["wasm"].folder / "robot.wasm").stat().st_size / 1e3
    page = gn.export.play(system, folder / f"{name}.html", method, n_steps=100, **given).path
    in_page, script = in_chromium(browser, page)
    c, wasm, fmu = times.values()
    run = example_in_c(made["c"])
    return Row(
        f"{name}, `{method}`",
        size,
        page.stat().st_size / 1e3,
        c,
        wasm,
        fmu,
        run,
        in_c(made["c"]),
        in_node(made["wasm"]),
        in_page,
        script,
    )


class Row(NamedTuple):
    """Line of the table."""

    system: str
    module: float
    page: float
    c: float
    wasm: float
    fmu: float
    example: float
    native: float
    node: float
    chromium: float
    script: float


COLUMNS = (
    *("system, method", "module, kB", "page, kB", "export for C, s", "for WebAssembly, s", "unit (FMI 3), s"),
    *("example in C, s", "C, ns a step", "node", "Chromium", "node ÷ C", "script a frame, ms"),
)


def table(rows):
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for r in rows:
        lines.append(
            f"| {r.system} | {r.module:.1f} | {r.page:.0f} | {r.c:.1f} | {r.wasm:.1f} | {r.fmu:.1f} | {r.example:.1f} "
            f"| {r.native:.0f} | {r.node:.0f} | {r.chromium:.0f} | {r.node / r.native:.1f} | {r.script:.1f} |"
        )
    return "\n".join(lines) + "\n"


def of_all_pages():
    """Sentence on the frames of the live pages of all systems."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        found = frames(browser, Path(folder))
    first, *_, last = sorted(found, key=found.get)
    fastest, slowest = (f"{found[name]:.1f} ms ({name})" for name in (first, last))
    return (
        f"Of the live pages of all {len(found)} systems of the catalogue, each with its own method, a frame's script\n"
        f"takes {fastest} to {slowest}, in the median {np.median([*found.values()]):.1f} ms.\n"
    )


def all_rows():
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        return [measured(*pair, Path(folder), browser) for pair in SYSTEMS]


def test_webassembly_is_not_much_slower_than_native_code():
    rows = all_rows()
    print("\n" + table(rows))
    assert max(row.node / row.native for row in rows) < 4


if __name__ == "__main__":
    written = f"{table(all_rows())}\n{of_all_pages()}"
    print(written)
    if "--page" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(MARKS[0])
        PAGE.write_text(f"{head}{MARKS[0]}\n{written}{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")

"""Times of the same runs by several revisions of geonh, in one go, with the libraries that are installed.

``python tests/benchmarks/releases.py [--page] NAME=REVISION …`` checks each out into a temporary folder, and measures
it in a process of its own, without files of machine code; ``--page`` renews the table of docs/benchmarks.md. Later
calls are of one step, the least of five in CPU time; a step is measured in long runs.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- releases: begin -->", "<!-- releases: end -->"
RUNS = """
import json, time
begun = time.perf_counter()
import geonh as gn
found = {"import": 1e3 * (time.perf_counter() - begun)}
for name in ("snakeboard", "suslov", "chaplygin-sphere"):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    for method in ("gni", "projected", "rkmk4"):
        def run(n):
            begun = time.process_time()
            gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=1e-5, n_steps=n, save_every=n)
            return time.process_time() - begun
        begun = time.perf_counter()
        run(10)
        first = time.perf_counter() - begun
        run(400000)
        time.sleep(1.0)  # some revisions optimise the program meanwhile
        one, few, many = (min(run(n) for _ in range(5)) for n in (1, 100000, 400000))
        found[f"{name}, {method}"] = [first, 1e3 * one, (many - few) / 300000 * 1e9]
print(json.dumps(found))
"""


def measured(revision: str) -> dict:
    """Times of a revision: of the import in ms; of each run the first call in s, a later one in ms, a step in ns."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", tree, revision], check=True)
        try:
            environment = {**os.environ, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": folder}
            command = [sys.executable, "-c", RUNS]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    if done.returncode:
        raise SystemExit(f"{revision}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(found: dict[str, dict]) -> str:
    """First call, later call and step of each run, a column for each revision."""
    lines = [f"| | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for what in next(iter(found.values())):
        if what == "import":
            cells = [f"{times[what]:.0f} ms" for times in found.values()]
        else:
            each = [times[what] for times in found.values()]
            cells = [f"{first:.2f} s, {later:.2f} ms, {step:.0f} ns" for first, later, step in each]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    named = dict(word.split("=", 1) for word in sys.argv[1:] if word != "--page")
    result = {name: measured(revision) for name, revision in named.items()}
    print(table(result))
    if "--page" in sys.argv:
        head, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table(result)}\n{END}{rest.split(END)[1]}")

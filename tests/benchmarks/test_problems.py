"""Error against work of the codes on the problems of ``examples/benchmark``.

On demand: ``python tests/benchmarks/test_problems.py --page`` renews the figure of docs/benchmarks.md. MuJoCo and
Exudyn take part where they are installed (the extra ``benchmark``).
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "benchmark"))

import score  # noqa: E402
import with_geonh  # noqa: E402
import with_sympy  # noqa: E402

pytestmark = pytest.mark.benchmark
FIGURE = ROOT / "docs" / "images" / "problems.png"
FRACTIONS = (0.125, 0.25, 0.5, 1.0)
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
STEPS = (1e-2, 1e-3, 1e-4)
STYLES = {
    "geonh, gauss4": "C0--o",
    "geonh, gauss6": "C0-o",
    "SymPy, DOP853": "C1-s",
    "MuJoCo, RK4": "C2-^",
    "Exudyn, generalised α": "C4-v",
}


def others():
    """Adapters of codes that are installed, by the words of the legend."""
    found = {}
    for module, words in (("mujoco", "MuJoCo, RK4"), ("exudyn", "Exudyn, generalised α")):
        try:
            found[words] = __import__(f"with_{module}")
        except ImportError:
            print(f"{module} is not installed")
    return found


def results(name):
    """CPU seconds and errors of each code, for a problem."""
    problem, found = score.read_problem(name), {}
    steps = with_geonh.CASES[name](problem).steps
    for method in ("gauss4", "gauss6"):
        counts = sorted({max(1, round(f * steps)) for f in FRACTIONS})
        found[f"geonh, {method}"] = [with_geonh.run(problem, method, count) for count in counts]
    found["SymPy, DOP853"] = [with_sympy.run(problem, tolerance) for tolerance in TOLERANCES]
    for words, adapter in others().items():
        if name in adapter.PROBLEMS:
            found[words] = [adapter.run(problem, step) for step in STEPS]
    return {
        words: [(run["work"]["seconds"], max(score.score(run).error.values())) for run in runs]
        for words, runs in found.items()
    }


def drawn(measured, path):
    """Draw a panel for each problem."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 4, figsize=(12, 8), layout="constrained", sharex=True, sharey=True)
    handles = {}
    for ax, (name, found) in zip(axes.flat, measured.items(), strict=False):
        for words, points in found.items():
            (handles[words],) = ax.loglog(*zip(*points, strict=True), STYLES[words], ms=4, lw=1)
        ax.axhline(score.read_problem(name).accuracy, color="0.7", lw=0.8)
        ax.set_title(name, fontsize=10)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), frameon=False)
    figure.supxlabel("CPU seconds")
    figure.supylabel("greatest relative error")
    figure.savefig(path, dpi=110)


def test_errors_fall_with_work():
    for name in ("sleigh", "rolling-disc"):
        found = results(name)
        for words in ("geonh, gauss6", "SymPy, DOP853"):
            assert found[words][-1][1] <= found[words][0][1]


if __name__ == "__main__":
    measured = {name: results(name) for name in score.problem_names()}
    for name, found in measured.items():
        for words, points in found.items():
            print(f"{name:26}{words:24}", "  ".join(f"{seconds:.2g} s {error:.0e}" for seconds, error in points))
    drawn(measured, FIGURE if "--page" in sys.argv else Path("problems.png"))

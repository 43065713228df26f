"""Work and precision of steps that a tolerance chooses, on all systems of the catalogue, in one run.

``pytest -m benchmark -s tests/benchmarks/test_tolerances.py``, or as a script with ``--page`` to remake the table and
the figure of docs/times.md, ``--keep=file.json`` to go on where a run was stopped, ``--single`` to leave ensembles out,
and names of systems. Rivals are SciPy's DOP853 and Radau, diffrax's Tsit5 and Dopri8, compiled, in double precision,
with the better of its I and PI controllers, and steps of one length here. SciPy and diffrax integrate the equations
(ġ, ξ̇) of geonh's own system, SciPy by its machine code. The runs are those of the catalogue, of at most ``LONGEST``
seconds. The error is that of (g, ξ) at the end, of ξ relative to 1 + |ξ|. Times are seconds of the processors, the
least of some calls, without compiling: of one run, a whole call from Python; and per member of an ensemble of different
starts, for those that compute many at once. What is called from Python is compared with ``solve``, and what is
compiled, with a compiled ``integrate``.
"""

import functools
import itertools
import json
import sys
import time
import warnings
from pathlib import Path

import diffrax
import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.diagnostics.reference import _slope
from geonh.engine import prepared

PAGE = Path(__file__).parents[2] / "docs" / "times.md"
PICTURE = PAGE.parent / "images" / "tolerances.png"
MARK = "<!-- table: made by tests/benchmarks/test_tolerances.py --page -->\n"
TOLERANCES = 10.0 ** -np.arange(3, 14)
FEW = 10.0 ** -np.array([4, 6, 8, 10, 12])
COUNTS = 2 ** np.arange(3, 15)
ACCURACIES = (1e-4, 1e-6, 1e-8, 1e-10)
MEMBERS, PATIENCE, LONGEST = 256, 0.3, 40.0
"""Members of an ensemble; seconds that a run may take, after which smaller tolerances are left out; and of motion."""
SETTLED = 2.0
"""Seconds of runs of a program before it is measured."""
FIXED = ("rkmk4", "rkmk6", "rkmk8", "gauss4")
CONTROLLERS = ((0.0, 1.0), (0.3, 0.4))
"""Coefficients of diffrax's controller, proportional and integral."""
DIFFRAX = {"Tsit5": diffrax.Tsit5(), "Dopri8": diffrax.Dopri8()}
STEPS = *(f"fixed {name}" for name in FIXED), *(f"compiled {name}" for name in FIXED)
RIVALS = "SciPy DOP853", "SciPy Radau", "diffrax Tsit5", "diffrax Dopri8", *STEPS
BATCHES = ("many: tolerance", "many: diffrax Tsit5", "many: diffrax Dopri8")


class Case:
    """A system of the catalogue with its start, and the solution at the end."""

    def __init__(self, name):
        found = gn.systems.catalogue[name]
        self.system, self.controls = found.system(), found.controls
        start = found.start(self.system)
        self.start = {"g0": start.g0, "xi0": np.asarray(start.xi0), "controls": found.controls}
        self.end = min(found.dt * found.n_steps, LONGEST)
        group = self.system.group
        point = self.system.point(start.g0)
        self.y = np.concatenate([*(np.ravel(a) for a in jax.tree.leaves(point)), self.start["xi0"]])
        with gn.float64():
            self.system = self.system.with_rank_at(point, 0.0)
        self.n = group.dim
        run = gn.solve(self.system, gn.Adaptive(gn.RKMK(8), 1e-14), **self.start, t_end=self.end)
        self.exact = np.concatenate([run.g_vector[-1], run.xi[-1]])
        other = gn.solve(self.system, gn.Adaptive(gn.RKMK(5), 1e-13), **self.start, t_end=self.end)
        self.doubt = self.error(np.concatenate([other.g_vector[-1], other.xi[-1]]))

    def error(self, y):
        off = np.abs(y - self.exact)
        return max(off[: -self.n].max(), off[-self.n :].max() / (1 + np.abs(self.exact[-self.n :]).max()), 1e-16)


def timed(call, least=3, spend=0.05):
    """Least time of some calls, and the result."""
    times, result = [], None
    while len(times) < least or sum(times) < spend:
        begun = time.process_time()
        result = call()
        times.append(time.process_time() - begun)
        if len(times) > 1 and sum(times) > PATIENCE:  # the first may count a compilation in the background
            break
    return min(times), result


def ladder(case, settings, call):
    """Pairs (time, error) of the settings, up to one that takes too long, as a list of one ladder."""
    rows = []
    for setting in settings:
        try:
            call(setting)
            spent, y = timed(lambda setting=setting: call(setting))
        except (gn.IntegrationError, RuntimeError, ValueError):
            continue
        if y is None or not np.all(np.isfinite(y)):
            continue
        rows.append((spent, case.error(y)))
        if spent > PATIENCE:
            break
    return [rows]


def last(run):
    return np.concatenate([run.g_vector[-1], run.xi[-1]]) if run.success else None


def with_geonh(case):
    def solved(tolerance):
        return last(gn.solve(case.system, **case.start, tolerance=tolerance, t_end=case.end, throw=False))

    found = {"tolerance": ladder(case, TOLERANCES, solved)}
    for name in FIXED:

        def fixed(n, name=name):
            given = {"dt": case.end / int(n), "n_steps": int(n), "save_every": int(n), "throw": False}
            return last(gn.solve(case.system, name, **case.start, **given))

        found[f"fixed {name}"] = ladder(case, COUNTS, fixed)
    return found


def with_compiled(case):
    """A compiled ``integrate``, with as many steps as ``solve`` takes, and with steps of one length."""
    xi0 = case.start["xi0"]

    def program(method, **given):
        def end(xi0):
            nodes = gn.integrate(case.system, method, **case.start | given | {"xi0": xi0})
            return jax.numpy.concatenate([*(a[-1].ravel() for a in jax.tree.leaves(nodes.g)), nodes.xi[-1]])

        return jax.jit(end)

    @functools.cache
    def adaptive(tolerance):
        run = gn.solve(case.system, **case.start, tolerance=tolerance, t_end=case.end, throw=False)
        return program(None, tolerance=tolerance, t_end=case.end, n_steps=len(run) + 4)

    @functools.cache
    def fixed(name, n):
        return program(name, dt=case.end / int(n), n_steps=int(n), save_every=int(n))

    ends = {"compiled": (FEW, lambda tolerance: np.asarray(adaptive(tolerance)(xi0)))}
    ends |= {f"compiled {name}": (COUNTS, lambda n, name=name: np.asarray(fixed(name, n)(xi0))) for name in FIXED}
    with gn.float64():
        for settings, end in ends.values():
            begun = time.perf_counter()
            while time.perf_counter() - begun < SETTLED:  # until the engine has compiled it well
                end(settings[len(settings) // 3])
        return {label: ladder(case, *given) for label, given in ends.items()}


def with_scipy(case):
    with gn.float64():
        slope = prepared(_slope, (case.system, case.controls), (np.zeros(()), case.y))

    def rate(t, y):
        return slope((np.array([t]), y[None]))[0]

    def solved(tolerance, method):
        run = solve_ivp(rate, (0.0, case.end), case.y, method=method, rtol=max(tolerance, 3e-14), atol=tolerance)
        return run.y[:, -1] if run.success else None

    methods = {"DOP853": FEW, "Radau": FEW[:3]}
    return {f"SciPy {m}": ladder(case, ts, lambda t, m=m: solved(t, m)) for m, ts in methods.items()}


def starts(case):
    """Different starts of the members of an ensemble."""
    rng = np.random.default_rng(0)
    xi0 = case.start["xi0"] * (1 + 0.05 * rng.normal(size=(MEMBERS, 1)))
    return {"xi0": xi0, "g0": case.start["g0"], "controls": case.controls, "project": True}


def with_many(case, errors):
    """Ladder of an ensemble, and the starts of its members; ``errors`` are those of runs, by their tolerance."""
    given = starts(case)
    rows, members = [], None
    for tolerance, error in errors.items():

        def solved(tolerance=tolerance):
            return gn.solve_ensemble(case.system, **given, tolerance=tolerance, t_end=case.end)

        solved()
        spent, runs = timed(solved, 2)
        members = runs.batch.members
        rows.append((spent / MEMBERS, error))
        if spent > 4 * PATIENCE:
            break
    flat = [np.reshape(a, (MEMBERS, -1)) for a in jax.tree.leaves(members.g)]
    return [rows], np.concatenate([*flat, members.xi], axis=1)


def ladder_errors(case):
    runs = {t: gn.solve(case.system, **case.start, tolerance=t, t_end=case.end, throw=False) for t in FEW}
    return {t: case.error(last(run)) for t, run in runs.items()}


def by_diffrax(case, solver):
    """Solution at the end as a function of the start, the tolerance and the coefficients of the controller."""
    term = diffrax.ODETerm(lambda t, y, args: _slope((case.system, case.controls), (t, y)))

    def one(y, tolerance, proportional, integral):
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance, pcoeff=proportional, icoeff=integral)
        times = 0.0, case.end, None
        return diffrax.diffeqsolve(
            term, solver, *times, y, stepsize_controller=control, max_steps=10**6, throw=False
        ).ys[-1]

    return one


def with_diffrax(case):
    found = {}
    for name, solver in DIFFRAX.items():
        with gn.float64():
            run = jax.jit(by_diffrax(case, solver))
            ladders = [ladder(case, FEW, lambda t, c=c, run=run: np.asarray(run(case.y, t, *c))) for c in CONTROLLERS]
        found[f"diffrax {name}"] = [rows for (rows,) in ladders]
    return found


def with_many_by_diffrax(case, many):
    found = {}
    for name, solver in DIFFRAX.items():
        with gn.float64():
            one = jax.jit(by_diffrax(case, solver))
            batch, rows = jax.jit(jax.vmap(by_diffrax(case, solver), (0, None, None, None))), []
            for tolerance in FEW:
                given = tolerance, *CONTROLLERS[1]
                error = case.error(np.asarray(one(case.y, *given)))
                batch(many, *given).block_until_ready()
                spent, _ = timed(lambda given=given, batch=batch: batch(many, *given).block_until_ready(), 2)
                rows.append((spent / MEMBERS, error))
                if spent > 4 * PATIENCE:
                    break
        found[f"many: diffrax {name}"] = [rows]
    return found


def work(ladders, accuracy):
    """Least time for an error of at most ``accuracy``, along straight lines in logarithms; nan if there is none."""
    best = [spent for rows in ladders for spent, error in rows if error <= accuracy]
    for (w0, e0), (w1, e1) in itertools.chain(*map(itertools.pairwise, ladders)):
        if e0 > accuracy >= e1:
            part = np.log(e0 / accuracy) / np.log(e0 / e1)
            best.append(np.exp(np.log(w0) + part * np.log(w1 / w0)))
    return min(best, default=np.nan)


def measured(name):
    case = Case(name)
    found = with_geonh(case) | with_compiled(case) | with_scipy(case) | with_diffrax(case)
    print(f"\n{name}, {case.end:g} s; references apart by {case.doubt:.0e}; ms for an error of {ACCURACIES}")
    return {"doubt": case.doubt, "rows": shown(found)}


def measured_many(name):
    case = Case(name)
    ours, many = with_many(case, ladder_errors(case))
    print(f"\n{name}, {MEMBERS} members")
    return shown({"many: tolerance": ours} | with_many_by_diffrax(case, many))


def shown(found):
    for label, ladders in found.items():
        print(f"  {label:24s}" + " ".join(f"{1e3 * work(ladders, a):9.4f}" for a in ACCURACIES), flush=True)
    return found


def table(found):
    """Rows of ratios: the time of each rival relative to that of a tolerance, the median and the least."""
    lines = [
        f"| {len(found)} systems | 10⁻⁴ | 10⁻⁶ | 10⁻⁸ | 10⁻¹⁰ | ahead of it at 10⁻⁶ / 10⁻¹⁰ |",
        "|---|---|---|---|---|---|",
    ]
    for label in (*RIVALS, *BATCHES[1:]):
        kinds = {"many": "many: tolerance", "diff": "compiled", "comp": "compiled"}
        ours, cells = kinds.get(label[:4], "tolerance"), []
        measured = [one["rows"] for one in found.values() if label in one["rows"]]
        if not measured:
            continue
        for accuracy in ACCURACIES:
            pairs = [(work(rows[label], accuracy), work(rows[ours], accuracy)) for rows in measured]
            cells.append([theirs / our if np.isfinite(theirs) else np.inf for theirs, our in pairs if np.isfinite(our)])
        words = [f"{np.median(c):.3g} ({min(c):.2g})" for c in cells]
        ahead = " / ".join(f"{sum(r > 1 for r in cells[i])} of {len(cells[i])}" for i in (1, 3))
        lines.append(f"| {label} | {' | '.join(words)} | {ahead} |")
    return "\n".join(lines) + "\n"


def draw(found, path):
    """Time against error of all systems, a small picture each."""
    import matplotlib.pyplot as plt

    shown = {
        "tolerance": ("#000000", "-", 2.0),
        "compiled": ("#888888", "-", 2.0),
        "diffrax Tsit5": ("#E69F00", "-", 1.0),
    }
    shown |= {"diffrax Dopri8": ("#D55E00", "-", 1.0), "SciPy DOP853": ("#56B4E9", "-", 1.0)}
    shown |= {"SciPy Radau": ("#0072B2", "-", 1.0), "fixed gauss4": ("#009E73", "--", 1.0)}
    shown |= {"fixed rkmk6": ("#CC79A7", "--", 1.0), "many: tolerance": ("#000000", ":", 2.0)}
    shown |= {"many: diffrax Dopri8": ("#D55E00", ":", 1.0)}
    columns = 5
    figure, axes = plt.subplots(-(-len(found) // columns), columns, figsize=(13, 15), layout="constrained", sharex=True)
    for ax, (name, one) in zip(axes.flat, found.items(), strict=False):
        for label, (colour, style, width) in shown.items():
            rows = np.array(one["rows"].get(label, [[]])[0]).reshape(-1, 2)
            ax.loglog(rows[:, 1], 1e3 * rows[:, 0], color=colour, ls=style, lw=width, label=label)
        ax.set(title=name, xlim=(1e-2, 1e-14))
        ax.title.set_fontsize(9)
        ax.grid(alpha=0.2)
    for ax in axes.flat[len(found) :]:
        ax.axis("off")
    figure.supylabel("ms of the processors")
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5,
        title="against the error at the end",
    )
    figure.savefig(path, dpi=70)


@pytest.mark.benchmark
def test_work_and_precision_of_tolerances():
    warnings.simplefilter("ignore")
    found = {name: measured(name) for name in gn.systems.catalogue}
    for name in found:
        found[name]["rows"] |= measured_many(name)
    print(table(found))
    for one in found.values():
        assert one["doubt"] < 1e-9


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(gn.systems.catalogue)
    kept = next((Path(word[7:]) for word in sys.argv if word.startswith("--keep=")), None)
    results = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for one in names:
        if one not in results:
            results[one] = measured(one)
            if kept:
                kept.write_text(json.dumps(results))
    for one in [] if "--single" in sys.argv else names:
        if BATCHES[0] not in results[one]["rows"]:
            results[one]["rows"] |= measured_many(one)
            if kept:
                kept.write_text(json.dumps(results))
    print(table(results))
    if "--page" in sys.argv:
        text = PAGE.read_text()
        head, rest = text.split(MARK)
        PAGE.write_text(head + MARK + table(results) + rest[rest.index("\n\n") + 1 :])
        draw(results, PICTURE)

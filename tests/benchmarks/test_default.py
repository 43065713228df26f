"""Which method serves best where nothing is said: seven methods on the catalogue and on ten other systems.

On demand: ``python tests/benchmarks/test_default.py --page`` renews the table of docs/default.md (some minutes), and
``pytest -m benchmark -s tests/benchmarks/test_default.py`` prints it and asserts what the default rests on.
"""

import platform
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2, SE3, SO3, Heisenberg, Product, Torus, Translations
from geonh.systems import catalogue

pytestmark = pytest.mark.benchmark

METHODS = {
    "projected": "projected",
    "gauss4": "gauss4",
    "gauss6": "gauss6",
    "rkmk4": "rkmk4",
    "lobatto4": "lobatto4",
    "suzuki4 of projected": gn.compose(gn.SymmetricProjection(), "suzuki4"),
    "discrete-gradient": "discrete-gradient",
}
STEPS = 128
"""Steps of length h in a run, so that 32h is a run of four."""
PAGE = Path(__file__).parents[2] / "docs" / "default.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


def others():
    """Systems that are not in the catalogue: random metrics, potentials and forms, and two with badly placed masses."""
    groups = (
        *(Translations(3), Translations(5), SO3(), SE2(), SE3(), Heisenberg()),
        *(Product((SE2(), Torus(1))), Product((Translations(2), SO3()))),
    )
    for number, group in enumerate(groups):
        rng = np.random.default_rng(number)
        n, k = group.dim, len(group.point_names)
        M, A, c = rng.normal(size=(n, n)), 0.1 * rng.normal(size=(n, n, k)), rng.normal(size=k)
        mu, B = rng.normal(size=(1, n)), 0.3 * rng.normal(size=(1, n, k))

        def metric(x, M=M, A=A, n=n, group=group):
            S = jnp.tensordot(A, jnp.cos(group.to_vector(x)), 1)
            return M @ M.T + n * jnp.eye(n) + S + S.T

        system = gn.System(
            group,
            metric=metric,
            potential=lambda x, c=c, group=group: c @ jnp.cos(group.to_vector(x)),
            distribution=gn.Distribution(lambda x, mu=mu, B=B, group=group: mu + B @ jnp.cos(group.to_vector(x))),
            name=f"random on {group}",
        )
        yield system, None, system.project(None, 2 * rng.normal(size=n)), 0.02, None
    for name, weight, k in (("light across", 1e-2, 1.0), ("stiff along", 1.0, 900.0)):
        system = gn.System(
            Translations(3),
            metric=[1.0, 1.0, weight],
            potential=lambda q, k=k: 0.5 * (k * q[0] ** 2 + q[1] ** 2 + q[2] ** 2),
            distribution=gn.Distribution(lambda q: jnp.stack([-q[1], 0.0, 1.0])[None]),
            name=name,
        )
        g0 = np.array([0.3, -0.4, 0.2])
        yield system, g0, system.project(g0, [1.0, 0.5, 0.0]), 0.01, None


def systems():
    """(system, g0, xi0, h, controls) of all."""
    for entry in catalogue.values():
        system = entry.system()
        start = entry.start(system)
        yield system, start.g0, start.xi0, entry.dt, entry.controls
    yield from others()


def run(system, g0, xi0, controls, method, dt, n_steps):
    """The end of a run, as numbers, and its CPU time in seconds; None where it did not reach the end."""

    def solved(n_steps):
        return gn.solve(
            system, method, g0=g0, xi0=xi0, dt=dt, n_steps=n_steps, controls=controls, save_every=n_steps, throw=False
        )

    try:
        solved(1)  # compiles
        began = time.process_time()
        made = solved(n_steps)
        seconds = time.process_time() - began
    except ValueError:  # the method refuses the system or the start
        return None, np.nan
    if not made.success:
        return None, seconds
    return np.concatenate([made.g_vector[-1], made.xi[-1]]), seconds


def step_cost(system, g0, xi0, controls, method, dt):
    """CPU time of a step, in seconds: that of a run of 2048 less that of one of 128."""
    long, short = (min(run(system, g0, xi0, controls, method, dt, n)[1] for _ in range(3)) for n in (16 * STEPS, STEPS))
    return (long - short) / (15 * STEPS)


def measured():
    """By method: cost ÷ projected, errors at (h, 2h, 4h) ÷ projected, and whether runs at (8h, 16h, 32h) are well."""
    rows = {name: [] for name in METHODS}
    for system, g0, xi0, h, controls in systems():
        given = system, g0, xi0, controls
        reference, _ = run(*given, "gauss6", h / 8, 8 * STEPS)
        if reference is None:
            reference, _ = run(*given, "rkmk6", h / 8, 8 * STEPS)
        start = np.concatenate([np.ravel(system.group.to_vector(system.point(g0))), xi0])
        size = np.abs(reference - start).max() + np.abs(reference).max()
        errors, costs = {}, {}
        for name, method in METHODS.items():
            ends = [run(*given, method, h * 2**k, STEPS // 2**k)[0] for k in range(6)]
            errors[name] = np.array([np.inf if e is None else np.abs(e - reference).max() / size for e in ends])
            costs[name] = step_cost(*given, method, h)
        for name in METHODS:
            floor = np.maximum(errors[name], 1e-15)
            ratio = floor[:3] / np.maximum(errors["projected"][:3], 1e-15)
            rows[name].append((costs[name] / costs["projected"], ratio, errors[name][3:] < 0.1))
            print(f"{system.name:34}{name:22}{rows[name][-1][0]:8.2f} {np.array2string(errors[name], precision=1)}")
    return rows


def table(rows):
    """The measurements in the words of the page."""
    lines = [
        "| method | cost ÷ projected, median | median log₁₀(error ÷ projected) at h, 2h, 4h "
        "| accurate runs at 8h, 16h, 32h | more accurate at equal cost |",
        "|---|---|---|---|---|",
    ]
    for name, result in rows.items():
        costs, ratios, well = (np.array(column) for column in zip(*result, strict=True))
        taken = np.isfinite(ratios).all(axis=1) & np.isfinite(costs)
        better = np.sum(ratios[taken, 1] * costs[taken] ** 2 < 1)
        logs = ", ".join(f"{np.median(np.log10(ratios[taken, k])):.1f}" for k in range(3))
        sound = ", ".join(str(n) for n in well.sum(axis=0))
        last = "–" if name == "projected" else f"{better} of {taken.sum()}"
        lines.append(f"| `{name}` | {np.median(costs[taken]):.2f} | {logs} | {sound} of {len(well)} | {last} |")
    return "\n".join(lines)


def test_the_default_is_the_most_accurate_at_its_cost():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = measured()
    print("\n" + table(rows))
    costs, ratios, well = (np.array(column) for column in zip(*rows["gauss4"], strict=True))
    assert np.mean(ratios[:, 1] * costs**2 < 1) > 0.9
    assert np.all(well.sum(axis=0) >= np.array([w for *_, w in rows["projected"]]).sum(axis=0))


if __name__ == "__main__" and "--page" in sys.argv:
    warnings.simplefilter("ignore")
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    made = f"{platform.processor() or platform.machine()}, {date.today().isoformat()}"
    where = f"Measured on {made}, CPU time in one process; h is the step of the catalogue.\n\n"
    PAGE.write_text(before + MARKS[0] + "\n" + where + table(measured()) + "\n" + MARKS[1] + rest.split(MARKS[1])[1])

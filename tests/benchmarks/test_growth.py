"""How cost grows with the number of velocities: chains of bodies on ball joints, and bodies that draw trailers.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_growth.py``, or ``python tests/benchmarks/test_growth.py``,
with ``--page`` to renew table and figure of docs/growth.md, and with a number to stop at so many velocities; beside
MuJoCo's RK4 on the same chain where ``mujoco`` is installed (the extra ``benchmark``). Each cell is a process of its
own; times are those of its CPU, a step the shortest of several runs. ``--derived`` renews the second table, of
gradients and ensembles beside a run.
"""

import itertools
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("GEONH_CACHE", "off")

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine.native import machine
from geonh.groups import SO3, Product
from geonh.rolling import knife_edge, planar, planar_body, trailer

pytestmark = pytest.mark.benchmark

INERTIA = (0.1, 0.12, 0.02)
STEPS = 4000
SETTLED = 1.0
"""Seconds of CPU time that runs take at least, in optimised code."""
PATIENCE = 60.0
"""Seconds of CPU time after which a step is measured in quick code, where it was not optimised until then."""
METHODS = ("rkmk4", "gauss4", "projected")
SIZES = {"chain": (1, 2, 3, 4, 6, 8, 10, 12, 14, 17, 20), "train": (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 27, 37, 57)}
TITLES = {"chain": "chain of bodies on ball joints", "train": "body with trailers, n − 2 forms"}
LABELLED = (3, 4, 6, 8, 9, 12, 15, 18, 23, 24, 30, 40, 42, 60)
"""Numbers of velocities with a tick in the figure, where they do not stand too close."""
PAGE = Path(__file__).parents[2] / "docs" / "growth.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")
DERIVED_MARKS = ("<!-- derived: begin -->", "<!-- derived: end -->")
DERIVED_SIZES = {"chain": (2, 4, 8), "train": (3, 8)}
FEW, MEMBERS, DERIVED_SETTLED = 200, 256, 15.0


def chain(n):
    """Chain of n bodies of a metre and a kilogram, in gravity."""
    hat, arm, inertia = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 0]]), np.array([0.0, 0, -1]), np.diag(INERTIA)

    def lagrangian(x, xi):
        T = V = height = 0.0
        v = jnp.zeros(3)
        for i, R in enumerate(x):
            omega = xi[3 * i : 3 * i + 3]
            end = v - R @ (hat @ omega)
            centre, v = 0.5 * (v + end), end
            T = T + 0.5 * (centre @ centre) + 0.5 * (omega @ (inertia @ omega))
            V, height = V + 9.81 * (height + 0.5 * (R @ arm)[2]), height + (R @ arm)[2]
        return T - V

    system = gn.System(Product(tuple(SO3() for _ in range(n))), lagrangian=lagrangian, name=f"chain of {n}")
    return system, {"xi0": 0.5 * np.sin(np.arange(3 * n) + 1.0), "dt": 0.005}


def train(n):
    """Body that draws n trailers, each on a blade: n + 3 velocities, n + 1 forms."""
    body = planar_body(1.0, 0.3, [knife_edge()])
    for i in range(n):
        drawn = trailer(body, 1.0, hitch=(-0.3, 0.0), name=f"a{n - 1 - i}")
        body = planar_body(1.0, 0.3, [knife_edge()], [drawn])
    system, g0 = planar(body, name=f"{n} trailers"), ([0.0, 0.0, 0.0], list(0.2 * np.cos(np.arange(n))))
    return system, {"g0": g0, "xi0": system.project(g0, np.r_[0.3, 1.0, np.zeros(n + 1)]), "dt": 0.01}


class Cell(NamedTuple):
    """First call, s, a step, µs, and the largest memory of the process, GB."""

    first: float
    step: float
    memory: float


def measured(kind, n, method):
    """Cell of a system and a method, in this process."""
    system, start = (chain if kind == "chain" else train)(n)
    begun = time.process_time()
    gn.solve(system, method, **start, n_steps=100)
    first, step = time.process_time() - begun, np.inf
    while not is_optimised() and time.process_time() - begun < PATIENCE:
        ran(system, start, method)
    begun = time.process_time()
    while time.process_time() - begun < SETTLED:
        step = min(step, *(ran(system, start, method) for _ in range(3)))
    return Cell(first, 1e6 * step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def is_optimised():
    """Whether the largest program, which is the stepping loop, runs as optimised code."""
    return max(machine._alive.values(), key=lambda code: code._worth).version > 1


def ran(system, start, method):
    """Seconds of CPU time of a step."""
    begun = time.process_time()
    run = gn.solve(system, method, **start, n_steps=STEPS, save_every=STEPS)
    assert run.success
    return (time.process_time() - begun) / STEPS


class Derived(NamedTuple):
    """First gradient beside the first run, gradient beside the run, and a member's step beside that of one run."""

    first: float
    gradient: float
    member: float


def derived(kind, n):
    """Gradient of ``integrate`` by the start with ``gauss4``, and members with ``rkmk4``, in this process."""
    system, start = (chain if kind == "chain" else train)(n)
    begun = time.process_time()
    gn.solve(system, "gauss4", **start, n_steps=FEW)
    first = time.process_time() - begun

    def squared(xi0):
        end = gn.integrate(system, "gauss4", **{**start, "xi0": xi0}, n_steps=FEW).xi[-1]
        return end @ end

    with gn.float64():
        gradient, xi0 = jax.jit(jax.grad(squared)), jnp.asarray(start["xi0"])
        begun = time.process_time()
        gradient(xi0).block_until_ready()
        first_gradient = time.process_time() - begun
        settled = best(lambda: gradient(xi0).block_until_ready(), DERIVED_SETTLED, time.process_time)
    run = best(lambda: gn.solve(system, "gauss4", **start, n_steps=FEW), DERIVED_SETTLED, time.process_time)
    many = {**start, "xi0": np.tile(start["xi0"], (MEMBERS, 1))}
    member = best(lambda: gn.solve_ensemble(system, "rkmk4", **many, n_steps=FEW, save_every=FEW), DERIVED_SETTLED)
    one = best(lambda: gn.solve(system, "rkmk4", **start, n_steps=STEPS, save_every=STEPS), DERIVED_SETTLED)
    return Derived(first_gradient / first, settled / run, member / MEMBERS / FEW / (one / STEPS))


def best(call, seconds, clock=time.perf_counter):
    """Least time of a call, in runs that take that long together."""
    until, least = time.perf_counter() + seconds, np.inf
    while time.perf_counter() < until:
        begun = clock()
        call()
        least = min(least, clock() - begun)
    return least


def derived_table():
    """Lines of the second table."""
    heads = "first gradient ÷ first run", "gradient ÷ run", "member's step ÷ step of one run"
    lines = [f"| system | velocities | {' | '.join(heads)} |", "|---" * 5 + "|"]
    for kind, sizes in DERIVED_SIZES.items():
        for n in sizes:
            asked = [sys.executable, __file__, "--derived-cell", kind, str(n)]
            ran = subprocess.run(asked, capture_output=True, text=True, check=True)
            cells = " | ".join(of_three_digits(float(word)) for word in ran.stdout.split()[-3:])
            lines.append(f"| {TITLES[kind]} | {3 * n if kind == 'chain' else n + 3} | {cells} |")
            print(lines[-1], flush=True)
    return lines


def apart(kind, n, method):
    """``measured`` in a process of its own."""
    asked = [sys.executable, __file__, "--cell", kind, str(n), method]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return Cell(*map(float, said.split()[-3:]))


def of_mujoco(n):
    """Microseconds of a step of MuJoCo's RK4 on the chain; ImportError where it is not installed."""
    import mujoco
    from mujoco import rollout

    inertial = f'<inertial pos="0 0 -.5" mass="1" diaginertia="{" ".join(map(str, INERTIA))}"/>'
    bodies = "".join(f'<body pos="0 0 {-min(i, 1)}"><joint type="ball"/>{inertial}' for i in range(n))
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option timestep="0.005" integrator="RK4" gravity="0 0 -9.81"><flag contact="disable"/></option>'
        f"<worldbody>{bodies}{'</body>' * n}</worldbody></mujoco>"
    )
    data, kind, step = mujoco.MjData(model), mujoco.mjtState.mjSTATE_FULLPHYSICS, np.inf
    data.qvel[:] = 0.5 * np.sin(np.arange(3 * n) + 1.0)
    state = np.zeros(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, state, kind)
    for _ in range(7):
        begun = time.process_time()
        rollout.rollout(model, [data], initial_state=state[None], nstep=STEPS)
        step = min(step, (time.process_time() - begun) / STEPS)
    return 1e6 * step


def table(most=60):
    """Rows (kind, velocities, cells by method, MuJoCo's step or None), printed as they come."""
    rows = []
    for kind, sizes in SIZES.items():
        for n in sizes:
            velocities = 3 * n if kind == "chain" else n + 3
            if velocities > most:
                continue
            cells = {method: apart(kind, n, method) for method in METHODS}
            try:
                rival = of_mujoco(n) if kind == "chain" else None
            except ImportError:
                rival = None
            rows.append((kind, velocities, cells, rival))
            print(line(*rows[-1]), flush=True)
    return rows


def of_three_digits(number):
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def line(kind, velocities, cells, rival):
    """Row of the page's table."""
    numbers = [f"{c.first:.1f} s, {of_three_digits(c.step)} µs, {c.memory:.2f} GB" for c in cells.values()]
    beside = "–" if rival is None else f"{of_three_digits(rival)} µs"
    return f"| {TITLES[kind]} | {velocities} | {' | '.join(numbers)} | {beside} |"


def drawn(rows, path):
    """Figure of the steps, over the number of velocities."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, kind in zip(axes, SIZES, strict=True):
        mine = [row for row in rows if row[0] == kind]
        for method in METHODS:
            ax.loglog([row[1] for row in mine], [row[2][method].step for row in mine], "o-", ms=3, label=method)
        beside = [row for row in rows if row[3] is not None]
        if beside:
            label = "MuJoCo, RK4, on the chain"
            ax.loglog([row[1] for row in beside], [row[3] for row in beside], "k--", lw=1, label=label)
        ticks = [row[1] for row in mine if row[1] in LABELLED]
        ax.set_xticks(ticks, [str(n) for n in ticks])
        ax.minorticks_off()
        ax.set(xlabel="velocities", title=TITLES[kind])
    axes[0].set_ylabel("a step (µs)")
    axes[0].legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)


def renew_page(rows):
    """Write table and figure into the page."""
    where = f"Measured on {this_machine()}: CPU time of the first call, of a step, memory of the process."
    heads = ["system", "velocities", *(f"`{m}`" for m in METHODS), "MuJoCo's RK4 on the chain"]
    made = [where, "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(line(*row) for row in rows)]
    put_between(MARKS, made)
    drawn(rows, PAGE.parent / "images" / "growth.png")


def this_machine():
    return f"{platform.processor() or platform.machine()}, {date.today()}"


def put_between(marks, lines):
    """Replace the lines of the page between two marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(marks[0])
    PAGE.write_text(before + "\n".join([marks[0], *lines, marks[1]]) + rest.split(marks[1])[1], encoding="utf-8")


def test_cost_grows_without_a_jump():
    steps = [apart("chain", n, "rkmk4").step for n in range(3, 9)]  # three velocities more each time
    assert max(b / a for a, b in itertools.pairwise(steps)) < (4 / 3) ** 3


def test_gauss_costs_twice_mujoco():
    pytest.importorskip("mujoco", reason="MuJoCo is compared where it is installed: geonh[benchmark]")
    for n in (4, 8, 14):
        assert apart("chain", n, "gauss4").step < 2 * of_mujoco(n)


if __name__ == "__main__":
    if "--cell" in sys.argv:
        kind, n, method = sys.argv[-3:]
        print(*measured(kind, int(n), method))
    elif "--derived-cell" in sys.argv:
        print(*derived(sys.argv[-2], int(sys.argv[-1])))
    elif "--derived" in sys.argv:
        put_between(DERIVED_MARKS, [f"Measured on {this_machine()}.", "", *derived_table()])
    else:
        result = table(*(int(word) for word in sys.argv[1:] if word.isdigit()))
        if "--page" in sys.argv:
            renew_page(result)

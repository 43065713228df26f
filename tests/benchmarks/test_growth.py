"""How cost grows with the number of velocities: chains of bodies on ball joints, and bodies that draw trailers.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_growth.py``, or ``python tests/benchmarks/test_growth.py``;
beside MuJoCo's RK4 on the same chain where ``mujoco`` is installed. A step is the shortest of several runs.
"""

import itertools
import os
import time

os.environ.setdefault("GEONH_CACHE", "off")

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3, Product
from geonh.rolling import knife_edge, planar, planar_body, trailer

pytestmark = pytest.mark.benchmark

INERTIA = (0.1, 0.12, 0.02)
STEPS = 2000


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


def measured(system, start, method):
    """Seconds of the first call, and of a step."""
    begun = time.perf_counter()
    gn.solve(system, method, **start, n_steps=100)
    first, step = time.perf_counter() - begun, np.inf
    for _ in range(5):
        begun = time.perf_counter()
        run = gn.solve(system, method, **start, n_steps=STEPS, save_every=STEPS)
        step = min(step, (time.perf_counter() - begun) / STEPS)
    assert run.success
    return first, step


def of_mujoco(n):
    """Seconds of a step of MuJoCo's RK4 on the chain, or None where it is not installed."""
    mujoco = pytest.importorskip("mujoco") if __name__ != "__main__" else __import__("mujoco")
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
        begun = time.perf_counter()
        rollout.rollout(model, [data], initial_state=state[None], nstep=STEPS)
        step = min(step, (time.perf_counter() - begun) / STEPS)
    return step


def table():
    """Print velocities, first calls (s) and steps (µs)."""
    try:
        rival = {n: of_mujoco(n) for n in (2, 4, 6, 8, 10, 14, 20)}
    except ImportError:
        rival = {}
    for title, make, sizes in (("chain", chain, (2, 4, 6, 8, 10, 14, 20)), ("train", train, (3, 5, 8, 10, 12, 15, 20))):
        for n in sizes:
            system, start = make(n)
            cells = [
                f"{m}: {first:5.2f} s, {1e6 * step:7.1f} µs"
                for m in ("rkmk4", "gauss4")
                for first, step in [measured(system, start, m)]
            ]
            beside = f"; MuJoCo {1e6 * rival[n]:.1f} µs" if title == "chain" and n in rival else ""
            print(f"{title} of {n:2}, {system.group.dim} velocities: {'; '.join(cells)}{beside}", flush=True)


def test_cost_grows_without_a_jump():
    steps = [measured(*chain(n), "rkmk4")[1] for n in range(3, 9)]
    assert max(b / a for a, b in itertools.pairwise(steps)) < 4  # no fall to another compiler
    table()


if __name__ == "__main__":
    table()

"""What each method does to the energy of three systems outside the catalogue: the second table of docs/methods.md.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_beyond.py``. Nothing is timed; every run must reach its end or
say why it did not.
"""

import runpy
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn

pytestmark = pytest.mark.benchmark
EXAMPLES = Path(__file__).parents[2] / "examples"


def body():
    """Suslov's problem with a full inertia matrix, which settles to a steady rotation; |Ω| = 2.75."""
    system = gn.systems.suslov(np.array([[2.0, 0.3, 0.4], [0.3, 1.5, -0.2], [0.4, -0.2, 1.0]]), [0.3, -0.5, 1.0])
    xi0 = np.asarray(system.project(None, [1.0, -2.0, 0.5]))
    return system, {"xi0": 2.75 * xi0 / np.linalg.norm(xi0), "dt": 0.02, "n_steps": 2000}


def robot():
    """The two-wheeled robot with three trailers."""
    made = runpy.run_path(str(EXAMPLES / "robot_with_trailers.py"))
    return made["robot"], {"g0": made["g0"], "xi0": made["xi0"], "dt": 0.01, "n_steps": 500}


def light():
    """Little mass across the constraint, which the spring pulls across."""
    system = gn.System(
        gn.groups.Translations(3),
        metric=[1.0, 1.0, 1e-2],
        potential=lambda q: 0.5 * q @ q,
        distribution=gn.Distribution(lambda q: jnp.stack([-q[1], 0.0, 1.0])[None]),
    )
    g0 = np.array([0.3, -0.4, 0.2])
    return system, {"g0": g0, "xi0": system.project(g0, [1.0, 0.5, 0.0]), "dt": 0.01, "n_steps": 1000}


METHODS = (
    "projected",
    "gni",
    "rattle",
    "dla",
    "pontryagin",
    "midpoint",
    "gauss4",
    "lobatto2",
    "lobatto4",
    "yoshida4",
    "rkmk4",
    "discrete-gradient",
    "rk4-projected",
    "baumgarte",
)


def told(name, system, begin):
    try:
        run = gn.solve(system, name, throw=False, **begin)
    except ValueError:
        return "–"
    said = f"{np.abs(run.energy / run.energy[0] - 1).max():.1e}"
    if run.spoiled_from is not None:
        said += f", parasitic part over 1 % from {run.spoiled_from:.2g} s"
    return said if run.success else f"{said}, stopped at {run.t[-1]:.2g} s"


def test_table():
    cases = [body(), robot(), light()]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gn.trajectory.AlternationWarning)
        for name in METHODS:
            rows.append([told(name, system, begin) for system, begin in cases])
            print(f"| `{name}` | {' | '.join(rows[-1])} |", flush=True)
    assert all(any(character.isdigit() for character in row[0]) for row in rows)

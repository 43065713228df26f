"""The bicycle of SymPy's own tests, taken from there as it is written, against the benchmark's linear equations."""

import numpy as np
import pytest

import geonh as gn
from geonh.analysis import linearise
from geonh.interop import from_sympy
from geonh.systems.whipple_bicycle import start

sympy = pytest.importorskip("sympy")
from sympy.physics.mechanics import KanesMethod, dynamicsymbols  # noqa: E402

pytestmark = pytest.mark.slow

TILT, BASE, TRAIL, REAR, FRONT = np.pi / 10, 1.02, 0.08, 0.3, 0.35
"""Of the steering axis from the vertical, rad; wheelbase, trail and radii of the wheels, m (Meijaard et al. 2007)."""


class Taken(Exception):
    """Carries a model out of the test that makes it."""


class Catching(KanesMethod):
    """In place of KanesMethod: gives away what it is made of when its equations are to be formed."""

    def __init__(self, frame, **given):
        self.given = frame, given

    def kanes_equations(self, bodies, loads):
        raise Taken(*self.given, bodies, loads)


def model_of_sympy(monkeypatch):
    """That of ``test_bicycle``, with the angles of its wheels, which it leaves out, as coordinates."""
    from sympy.physics.mechanics.tests import test_kane3

    monkeypatch.setattr(test_kane3, "KanesMethod", Catching)
    with pytest.raises(Taken) as taken:
        test_kane3.test_bicycle()
    frame, given, bodies, loads = taken.value.args
    q3, q6, u3, u6 = dynamicsymbols("q3 q6 u3 u6")
    given = {name: value for name, value in given.items() if name != "constraint_solver"}
    given["q_ind"] = [*given["q_ind"], q3, q6]
    given["kd_eqs"] = [*given["kd_eqs"], q3.diff() - u3, q6.diff() - u6]
    return KanesMethod(frame, **given, bodies=bodies, forcelist=loads)


def parameters():
    """The benchmark's numbers in the model's: projections on the steering axis and across it, z upwards."""
    down, ahead = np.array([np.sin(TILT), -np.cos(TILT)]), np.array([np.cos(TILT), np.sin(TILT)])
    rear, front, axis = np.array([0.0, REAR]), np.array([BASE, FRONT]), np.array([BASE + TRAIL, 0.0])
    frame, fork = np.array([0.3, 0.9]), np.array([0.9, 0.7])
    steer = rear + (ahead @ (axis - rear)) * ahead
    return {
        "WRrad": REAR,
        "WFrad": FRONT,
        "htangle": np.pi / 2 - TILT,
        "framelength": ahead @ (axis - rear),
        "forklength": down @ (front - steer),
        "forkoffset": ahead @ (front - steer),
        "forkcg1": -down @ (fork - steer),
        "forkcg3": ahead @ (fork - steer),
        "framecg1": -down @ (frame - rear),
        "framecg3": ahead @ (frame - rear),
        **{"Iwr11": 0.0603, "Iwr22": 0.12, "Iwf11": 0.1405, "Iwf22": 0.28},
        **{"Iframe11": 9.2, "Iframe22": 11.0, "Iframe33": 2.8, "Iframe31": -2.4},
        **{"Ifork11": 0.05892, "Ifork22": 0.06, "Ifork33": 0.00708, "Ifork31": 0.00756},
        **{"mframe": 85.0, "mfork": 4.0, "mwr": 2.0, "mwf": 3.0, "g": 9.81},
    }


def published(v):
    """Rows of lean and steer accelerations by lean, steer and their rates at the speed v, as SymPy's test has them."""
    lean = [9.48977444677355, -0.891197738059089 * v**2 - 0.571523173729245, -0.105522449805691, -0.330515398992311]
    steer = [11.7194768719633, -1.97171508499972 * v**2 + 30.9087533932407, 3.67680523332152, -3.08486552743311]
    return np.array([lean, steer]) * [1.0, 1.0, v, v]


def test_the_bicycle_of_sympy_is_the_benchmark(monkeypatch):
    model = model_of_sympy(monkeypatch)
    system = from_sympy(model, parameters=parameters(), angles=list(model.q), name="bicycle of sympy")
    assert system.group.dim == 6
    for v in (0.0, 1.0, 5.0):
        rates = {"q3": v / REAR, "q6": v / FRONT}
        xi = [rates.get(name, 0.0) for name in system.group.point_names]
        line = linearise(system, *system.project(None, xi), states=["q2", "q5", "q2_dot", "q5_dot"])
        assert line.tangent.shape == (12, 8)  # φ, φ̇ and two rows: the third velocity constraint follows from φ
        np.testing.assert_allclose(line.A[:2], np.eye(4)[2:], atol=1e-12)
        np.testing.assert_allclose(line.A[2:], published(v), rtol=1e-10, atol=1e-10)
    weave = -0.77534188219585 + 4.46486771378823j
    table = [-0.32286642900409, weave, np.conj(weave), -14.07838969279822]
    np.testing.assert_allclose(line.eigenvalues, table, rtol=1e-10)
    ours = linearise(*riding(v))
    np.testing.assert_allclose(line.eigenvalues, ours.eigenvalues, rtol=1e-9)


def riding(v):
    """The catalogue's bicycle upright at the speed v."""
    system = gn.systems.whipple_bicycle()
    return (system, *start(system, v, 0.0))

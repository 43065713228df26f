"""The Whipple bicycle: its benchmark at all speeds, its matrices, the root locus, and how long that takes."""

import sys
from pathlib import Path

import numpy as np
import pytest

from geonh.analysis import linearise, root_locus, steady_motion

sys.path.append(str(Path(__file__).parents[1] / "systems"))
from bicycle import bicycle, upright, velocity

TABLE = {  # Meijaard and others (2007), table 2: speed; capsize, castering, weave (real and imaginary part)
    1: (-3.13423125066578, -7.11008014637442, 3.5269617099007, 0.8077402751993),
    2: (-3.07158645641514, -8.67387984831735, 2.68234517512745, 1.68066296590675),
    3: (-2.63366137253667, -10.3510146724592, 1.70675605663975, 2.31582447384325),
    4: (-1.42944427361326, -12.15861426576447, 0.41325331521125, 3.07910818603206),
    5: (-0.32286642900409, -14.07838969279822, -0.77534188219585, 4.46486771378823),
    6: (-0.0040669007697, -16.08537123098026, -1.52644486584142, 5.87673060598709),
    7: (0.10268170574766, -18.15788466125262, -2.13875644258362, 7.19525913329805),
    8: (0.14327879765713, -20.27940894394569, -2.69348683581097, 8.46037971396931),
    9: (0.15790184030917, -22.43788559040858, -3.21675402252485, 9.69377351531791),
    10: (0.16105338653172, -24.62459635017404, -3.72016840437287, 10.90681139476287),
}
AT_REST = [-5.53094371765393, -3.13164324790656, 3.13164324790656, 5.53094371765393]
MASS = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
DAMPING = np.array([[0.0, 33.86641391492494], [-0.85035641456978, 1.6854039739756]])
STIFFNESS = np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]])
SPEED_STIFFNESS = np.array([[0.0, 76.59734589573222], [0.0, 2.65431523794604]])


@pytest.fixture(scope="module")
def riding():
    system = bicycle()
    g0 = upright(system)
    unit = velocity(system, g0, 1.0)
    return system, g0, unit


@pytest.fixture(scope="module")
def lines(riding):
    system, g0, unit = riding
    return {v: linearise(system, g0, v * unit) for v in range(11)}


@pytest.mark.slow
def test_eigenvalues_at_all_speeds(lines):
    np.testing.assert_allclose(np.sort(lines[0].eigenvalues.real), AT_REST, rtol=0, atol=1e-12)
    for speed, (capsize, castering, real, imaginary) in TABLE.items():
        wanted = [capsize, castering, real + 1j * imaginary, real - 1j * imaginary]
        np.testing.assert_allclose(np.sort(lines[speed].eigenvalues), np.sort(wanted), rtol=0, atol=1e-12)


def test_matrices(lines):
    """A is that of M, C₁, K₀, K₂ at all speeds, and with M these come back from A."""
    states = ("eta_omega1", "delta", "omega1", "delta_dot")
    for speed, line in lines.items():
        assert line.states == states
        below = -np.linalg.solve(MASS, np.hstack([9.81 * STIFFNESS + speed**2 * SPEED_STIFFNESS, speed * DAMPING]))
        np.testing.assert_allclose(line.A, np.vstack([np.eye(4)[2:], below]), rtol=1e-12, atol=1e-13)
    K0 = -MASS @ lines[0].A[2:, :2] / 9.81
    K2 = -MASS @ (lines[10].A[2:, :2] - lines[0].A[2:, :2]) / 100
    C1 = -MASS @ lines[10].A[2:, 2:] / 10
    for result, wanted in ((K0, STIFFNESS), (K2, SPEED_STIFFNESS), (C1, DAMPING)):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-11)


def test_modes_are_perturbations_of_everything(lines):
    """Weaving it yaws too: the modes are eigenvectors of all the equations, symmetric directions and all."""
    line = lines[5]
    np.testing.assert_allclose(line.full @ line.modes, line.modes * line.eigenvalues, rtol=0, atol=1e-10)
    assert np.abs(line.modes[line.coordinates.index("eta_omega3")]).min() > 1e-3
    np.testing.assert_allclose(line.modes - line.tangent @ (line.tangent.T @ line.modes), 0.0, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_root_locus(riding):
    system, g0, unit = riding
    root_locus(system, [1.0, 2.0], lambda v: (g0, v * unit))  # compiles
    locus = root_locus(system, np.linspace(0.0, 10.0, 200), lambda v: (g0, v * unit))
    assert locus.eigenvalues.shape == (200, 4)
    values, roots, kinds = zip(*locus.crossings(), strict=True)
    np.testing.assert_allclose(values, [4.29238253634111, 6.02426201538837], rtol=0, atol=1e-12)
    np.testing.assert_allclose(roots, [3.43503384866144j, 0.0], rtol=0, atol=1e-10)
    assert kinds == ("Hopf", "zero")  # weave and capsize
    stable = locus.values[locus.growth < 0]
    assert 4.29 < stable[0] < 4.35
    assert 5.97 < stable[-1] < 6.03
    axes = locus.plot("speed, m/s").axes[0]
    assert axes.get_xlabel() == "speed, m/s"
    assert len(axes.lines) >= 5


@pytest.mark.slow
def test_root_locus_over_a_parameter(riding):
    """The trail, with the steer axis as it is: the same program, and the same numbers one by one."""
    system, _, _ = riding
    trails = np.array([0.06, 0.08, 0.1])

    def motion(trail):
        g0 = upright(system)
        return g0, velocity(system, g0, 5.0)

    locus = root_locus(system, trails, motion, parameter="c")
    for trail, roots in zip(trails, locus.eigenvalues, strict=True):
        line = linearise(bicycle(c=trail), *motion(trail))
        np.testing.assert_allclose(np.sort(roots), np.sort(line.eigenvalues), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="is not a number among those"):
        root_locus(system, trails, motion, parameter="trail")
    with pytest.raises(ValueError, match="nothing depends on the values"):
        root_locus(system, trails, motion(0.08))


@pytest.mark.slow
def test_upright_running_is_found(riding):
    system, g0, unit = riding
    leaning = upright(system, lean=0.02)
    motion = steady_motion(system, leaning, 5.0 * unit)
    line = linearise(system, motion.g, motion.xi)
    speed = -motion.xi[7] * 0.3
    np.testing.assert_allclose(speed, 5.0, rtol=0, atol=1e-3)
    again = linearise(system, g0, speed * unit)
    np.testing.assert_allclose(np.sort(line.eigenvalues), np.sort(again.eigenvalues), rtol=0, atol=1e-9)

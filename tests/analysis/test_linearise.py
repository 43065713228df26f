"""Linear equations against closed forms, published numbers and the nonlinear motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from rolling_disc import disc, rolling, standing
from test_rattleback import on_the_ground, rattleback

import geonh as gn
from geonh.analysis import linearise, steady_motion
from geonh.mechanics import reference_trajectory


def pendulum(damping=0.0):
    return gn.System(
        gn.groups.Torus(1, ("phi",)),
        metric=[2.0],
        potential=lambda x, p: -3.0 * p["g"] * jnp.cos(x[0]),
        forces=lambda t, x, xi, u, p: -p["c"] * xi + u,
        parameters={"g": 9.81, "c": damping},
        name="pendulum",
    )


@pytest.mark.parametrize(("angle", "sign"), [(0.0, 1.0), (np.pi, -1.0)])
def test_pendulum(angle, sign):
    line = linearise(pendulum(0.4), [angle], [0.0], controls=[0.0])
    assert line.states == ("phi", "phi_dot") == line.coordinates
    np.testing.assert_allclose(line.A, [[0.0, 1.0], [-sign * 3 * 9.81 / 2, -0.2]], rtol=0, atol=1e-14)
    np.testing.assert_allclose(line.A @ line.modes, line.modes * line.eigenvalues, rtol=0, atol=1e-13)
    assert np.all(np.diff(line.eigenvalues.real) <= 0)


def test_pendulum_held_by_a_torque():
    angle = 0.5
    line = linearise(pendulum(), [angle], [0.0], controls=[3 * 9.81 * np.sin(angle)])
    np.testing.assert_allclose(line.eigenvalues**2, -1.5 * 9.81 * np.cos(angle), rtol=1e-13)


@pytest.mark.parametrize("speed", [1.0, -0.5, 3.0])
def test_sleigh(speed):
    m, inertia, a = 1.3, 0.7, 0.2
    sleigh = gn.systems.chaplygin_sleigh(m=m, I=inertia, a=a)
    line = linearise(sleigh, [0.3, 1.0, 2.0], [0.0, speed, 0.0])
    assert line.states == ("omega",)
    assert line.family == (1,)
    np.testing.assert_allclose(line.A, [[-m * a * speed / (inertia + m * a**2)]], rtol=1e-13)
    mode = dict(zip(line.coordinates, line.modes[:, 0], strict=True))
    rate = line.eigenvalues[0]
    np.testing.assert_allclose(mode["omega"], rate * mode["eta_omega"], rtol=0, atol=1e-13)
    np.testing.assert_allclose(rate * mode["eta_vy"], speed * mode["eta_omega"], rtol=0, atol=1e-13)


def test_sleigh_driven_against_drag():
    """A steady motion that dissipates: u = F/c, and −c/m, −(mau + d)/(I + ma²)."""
    m, inertia, a, c, d, thrust = 1.3, 0.7, 0.2, 0.6, 0.3, 1.5
    sleigh = gn.System(
        gn.groups.SE2(),
        metric=[[inertia + m * a**2, 0.0, m * a], [0.0, m, 0.0], [m * a, 0.0, m]],
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        base="point",
        forces=lambda t, x, xi, u: jnp.stack([-d * xi[0], u[0] - c * xi[1], 0.0 * u[0]]),
    )
    motion = steady_motion(sleigh, None, [0.1, 1.0, 0.0], controls=[thrust])
    np.testing.assert_allclose(motion.xi, [0.0, thrust / c, 0.0], atol=1e-13)
    line = linearise(sleigh, motion.g, motion.xi, controls=[thrust])
    assert line.family == ()
    turning = -(m * a * thrust / c + d) / (inertia + m * a**2)
    np.testing.assert_allclose(np.sort(line.eigenvalues), np.sort([-c / m, turning]), rtol=1e-12)


@pytest.mark.parametrize("spin", [0.0, 1.0, 3.0, 3.9, 5.0])
def test_sleeping_top(spin):
    """In space λ = i(C ω₃/2A) ± √(mgl/A − (Cω₃/2A)²); the body turns by ω₃ meanwhile."""
    A, C, mgl = 1.2, 0.5, 1.1
    line = linearise(gn.systems.heavy_top(J=(A, A, C), mgl=mgl), None, [0.0, 0.0, spin])
    half = C * spin / (2 * A)
    root = np.sqrt(complex(mgl / A - half**2))
    wanted = [1j * (half - spin) + root, 1j * (half - spin) - root]
    wanted = np.array([*wanted, *np.conj(wanted)])
    assert len(line.eigenvalues) == 4
    for value in line.eigenvalues:
        np.testing.assert_allclose(np.abs(wanted - value).min(), 0.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize("spin", [0.3, 1.0, 2.0])
def test_upright_disc(spin):
    system = disc()
    g = standing(system)
    line = linearise(system, g, rolling(system, g, [0.0, spin, 0.0]))
    assert line.states == ("eta_omega1", "omega1")
    np.testing.assert_allclose(line.A @ line.A, (0.8 - 2.4 * spin**2) * np.eye(2), rtol=0, atol=1e-13)
    np.testing.assert_allclose(line.sigma, [0.0, spin, 0.0, 0.0, 0.0, 0.0], rtol=0, atol=1e-14)


def test_critical_speed_of_the_disc():
    """λ² is linear in the square of the spin: its zero is √(g/3r); there everything is one family."""
    system = disc(g=9.81, r=0.05)
    g = standing(system)

    def square(spin):
        line = linearise(system, g, rolling(system, g, [0.0, spin, 0.0]))
        return np.trace(line.A @ line.A) / 2

    spins = 5.0, 12.0
    low, high = map(square, spins)
    critical = np.sqrt((spins[0] ** 2 * high - spins[1] ** 2 * low) / (high - low))
    np.testing.assert_allclose(critical, np.sqrt(9.81 / 0.15), rtol=1e-13)
    line = linearise(system, g, rolling(system, g, [0.0, np.sqrt(9.81 / 0.15), 0.0]))
    assert line.family == (2, 1, 1)
    assert line.states == ()
    kept = linearise(system, g, rolling(system, g, [0.0, np.sqrt(9.81 / 0.15), 0.0]), keep_family=True)
    assert np.abs(np.linalg.matrix_power(kept.A, 3)).max() < 1e-9 * np.abs(kept.A).max() ** 3


def test_disc_on_a_circle():
    """Le Saux, Leine, Glocker (2005), (5.10)–(5.12); the frequency was found with the contact as a held constraint."""
    line = linearise(*circling_disc())
    assert line.family == (2,)
    np.testing.assert_allclose(line.eigenvalues.imag, [10.8917714158, -10.8917714158], rtol=1e-10)
    np.testing.assert_allclose(line.eigenvalues.real, 0.0, rtol=0, atol=1e-11)


def straight_sleigh():
    return gn.systems.chaplygin_sleigh(), np.array([0.4, 1.0, 0.0]), np.array([0.0, 1.2, 0.0])


def sleeping_top():
    return gn.systems.heavy_top(J=(1.0, 1.0, 0.6)), np.eye(3), np.array([0.0, 0.0, 2.0])


def upright_disc():
    system = disc()
    g = standing(system)
    return system, g, rolling(system, g, [0.0, 0.9, 0.0])


def circling_disc():
    system = disc(0.3048, 0.05, 9.81)
    g = standing(system, np.deg2rad(5.0))
    gamma, alpha = 10.7364981632612, -1.0736498163261199
    return system, g, rolling(system, g, np.array([0.0, gamma, 0.0]) + alpha * g[2, :3])


def spinning_rattleback():
    return rattleback(), on_the_ground(), np.array([0.0, 0.0, -5.0, 0.0, 0.0, 0.0])


@pytest.mark.quick("straight_sleigh", "sleeping_top")
@pytest.mark.parametrize(
    "motion",
    [
        straight_sleigh,
        sleeping_top,
        upright_disc,
        circling_disc,
        pytest.param(spinning_rattleback, marks=pytest.mark.slow),
    ],
)
def test_against_the_nonlinear_motion(motion):
    """Differences of disturbed motions, seen in ĝ = ge^{−σt}, are e^{𝒜t} times those of their starts."""
    system, g, xi = motion()
    group, n = system.group, system.group.dim
    line = linearise(system, g, xi)
    rng = np.random.default_rng(1)
    start = line.tangent @ rng.normal(size=line.tangent.shape[1])
    times, step, ends = [0.0, 0.3], 1e-5, []
    for sign in (1, -1):
        there = np.asarray(group.compose(g, group.exp(sign * step * start[:n])))
        moved = system.project(there, xi + sign * step * start[n:])
        ends.append([a[-1] for a in reference_trajectory(system, times, moved, there)])
    middle = reference_trajectory(system, times, xi, g)[0][-1]
    eta = [np.asarray(group.log(group.compose(group.inverse(middle), end[0]))) for end in ends]
    turn = np.asarray(group.Ad(group.exp(times[-1] * line.sigma)))
    result = np.concatenate([turn @ (eta[0] - eta[1]), turn @ (ends[0][1] - ends[1][1])]) / (2 * step)
    wanted = scipy.linalg.expm(times[-1] * line.full) @ start
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-7 * (1 + np.abs(wanted).max()))
    # and the states alone
    np.testing.assert_allclose(line.full @ line.modes, line.modes * line.eigenvalues, rtol=0, atol=1e-12)


def test_states_and_symmetries_can_be_given():
    system = gn.systems.heavy_top()
    line = linearise(system, None, [0.0, 0.0, 3.0], states=["omega2", "omega1", "eta_omega2", "eta_omega1"])
    other = linearise(system, None, [0.0, 0.0, 3.0], symmetries=[[0.0, 0.0, 1.0]])
    order = [line.coordinates.index(name) for name in line.states]
    again = [other.states.index(name) for name in line.states]
    np.testing.assert_allclose(line.A, other.A[np.ix_(again, again)], rtol=0, atol=1e-13)
    np.testing.assert_allclose(line.embedding[order], np.eye(4), rtol=0, atol=1e-14)
    everything = linearise(system, None, [0.0, 0.0, 3.0], symmetries=np.zeros((0, 3)), keep_family=True)
    assert everything.A.shape == (6, 6)
    with pytest.raises(ValueError, match="4 independent coordinates, such as"):
        linearise(system, None, [0.0, 0.0, 3.0], states=["omega1"])
    with pytest.raises(ValueError, match="are not among"):
        linearise(system, None, [0.0, 0.0, 3.0], states=["theta"])
    with pytest.raises(ValueError, match="not symmetries of heavy-top"):
        linearise(system, None, [0.0, 0.0, 3.0], symmetries=[[1.0, 0.0, 0.0]])


def test_what_is_refused():
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    with pytest.raises(ValueError, match=r"no steady motion of chaplygin-sleigh: .* changes by .* per second"):
        linearise(sleigh, None, [0.3, 1.0, 0.0])
    with pytest.raises(ValueError, match="off the constraints of chaplygin-sleigh: residual"):
        linearise(sleigh, None, [0.0, 1.0, 0.1])
    with pytest.raises(ValueError, match="for an instant only"):  # swinging through: ξ̇ = 0, not for long
        linearise(pendulum(), [0.0], [1.0], controls=[0.0])
    board = gn.systems.snakeboard()  # its wheels turn while it stands: ξ̇ = 0 always, but not its linear equations
    with pytest.raises(ValueError, match="linear equations change along it"):
        linearise(board, None, [0.0, 0.0, 0.0, 0.7, 0.1])
    with pytest.raises(TypeError, match="not a function of time"):
        linearise(pendulum(), [0.0], [0.0], controls=lambda t: [0.0])
    shaken = gn.System(gn.groups.Translations(1), metric=[1.0], forces=lambda t, x, xi, u: -xi + 0.0 * x + t)
    with pytest.raises(ValueError, match="depend on time"):
        linearise(shaken, None, [0.0])
    with pytest.raises(ValueError, match="xi must have shape"):
        linearise(sleigh, None, [0.0, 1.0])
    with pytest.raises(ValueError, match="does not lie on SO"):
        linearise(gn.systems.heavy_top(), 2 * np.eye(3), [0.0, 0.0, 1.0])


def test_a_user_keeps_single_precision():
    with jax.enable_x64(False):
        line = linearise(gn.systems.chaplygin_sleigh(), None, [0.0, 1.0, 0.0])
    assert line.A.dtype == np.float64
    np.testing.assert_allclose(line.A, [[-0.2 / 1.04]], rtol=1e-14)

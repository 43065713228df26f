"""Periodic orbits against closed forms and independent integrations: periods, turnings, multipliers, folds."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import geonh as gn
from geonh.analysis import continue_orbit, periodic_orbit
from geonh.analysis.closing import Periodicity
from geonh.analysis.flow import Arc, BoundaryProblem, PhasePoint, flow_derivatives
from geonh.groups import SO3, Torus, Translations
from geonh.mechanics import reference_trajectory

PENDULUM = gn.System(
    Torus(1, ("phi",)),
    metric=[1.0],
    potential=lambda x, p: -p["k"] * jnp.cos(x[0]),
    parameters={"k": 1.0},
    name="pendulum",
)


def amplitude(g, xi, T, p):
    return jnp.stack([g[0] - 2.0, xi[0]])


def resting(g, xi):
    return xi


def swing(g, xi, T, p):
    return jnp.stack([g[0] - 2.0])


def test_in_no_time_every_motion_returns():
    bowl = lambda q: 0.5 * (q[0] ** 2 + 2.3 * q[1] ** 2) + 0.3 * q[0] ** 2 * q[1]  # noqa: E731
    with pytest.raises(RuntimeError, match=r"period fell from 0\.3 to"):
        periodic_orbit(gn.System(Translations(2), metric=[1.0, 1.0], potential=bowl), [0.6, 0.4], [0.5, 0.3], 0.3)


def off_the_origin(x):
    x = x - jnp.array([1.0, -2.0])
    return 0.5 * x[0] ** 2 + x[1] ** 2 + 0.3 * x[0] ** 2 * x[1]


@pytest.mark.parametrize(
    ("system", "g", "xi", "period", "options"),
    [
        (PENDULUM, [0.3], [0.1], 5.0, {}),
        (PENDULUM, [0.0], [0.0], 5.0, {}),
        (PENDULUM, [0.3], [0.0], 5.0, {"fixed": resting}),
        (PENDULUM, [0.3], [0.1], 5.0, {"conditions": lambda g, xi, T, p: T - 5.0}),
        (gn.System(Translations(2), metric=np.eye(2), potential=off_the_origin), [1.1, -1.8], [0.1, 0.1], 3.0, {}),
    ],
    ids=["free", "begun there", "symmetric", "pinned period", "off the origin"],
)
@pytest.mark.quick("begun there", "symmetric")
def test_an_equilibrium_is_no_orbit(system, g, xi, period, options):
    with pytest.raises(RuntimeError, match="to an equilibrium"):
        periodic_orbit(system, g, xi, period, method="rkmk6", **options)


def test_a_small_orbit_about_an_equilibrium_is_one():
    result = periodic_orbit(PENDULUM, [1e-5], [0.0], 6.3, method="rkmk6", conditions=lambda g, xi, T, p: g[0] - 1e-5)
    assert abs(result.period - 4 * ellipk(np.sin(0.5e-5) ** 2)) < 1e-6
    coarse = periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, conditions=amplitude, method="rkmk6", tol=1e-3)
    assert abs(coarse.period - 4 * ellipk(np.sin(1.0) ** 2)) < 1e-2


def test_an_equilibrium_of_what_is_driven_has_the_multipliers_of_the_drive():
    """Mathieu's equation ẍ + (a − 2q cos 2t)x = 0 at a = 1, q = 0.2, within the first tongue."""
    swing = gn.time_dependent(lambda t, x: 0.5 * (1.0 - 0.4 * jnp.cos(2 * t)) * x[0] ** 2)
    hung = gn.System(Translations(1), metric=[1.0], potential=swing, name="hung on a shaken pivot")
    result = periodic_orbit(hung, [0.0], [0.0], np.pi, method="rkmk6", conditions=lambda g, xi, T, p: T - jnp.pi)
    rates = solve_ivp(
        lambda t, y: [y[1], -(1 - 0.4 * np.cos(2 * t)) * y[0], y[3], -(1 - 0.4 * np.cos(2 * t)) * y[2]],
        (0, np.pi),
        [1.0, 0.0, 0.0, 1.0],
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
    ).y[:, -1]
    expected = np.sort(np.abs(np.linalg.eigvals(rates.reshape(2, 2))))
    np.testing.assert_allclose(np.sort(np.abs(result.multipliers)), expected, rtol=1e-8)
    assert not result.stable


def test_the_period_of_a_pendulum():
    result = periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, conditions=amplitude, method="rkmk6")
    assert abs(result.period - 4 * ellipk(np.sin(1.0) ** 2)) < 1e-10
    assert result.trivial == (1, 1)  # along the orbit, and to the next energy
    assert len(result.multipliers) == 0
    assert result.iterations <= 6
    symmetric = periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, fixed=resting, conditions=swing)
    assert abs(symmetric.period - result.period) < 1e-10
    assert symmetric.trivial == (1, 1)


@pytest.mark.slow
def test_a_free_body_turns_by_its_solid_angle():
    # Montgomery 1991: about its constant momentum, by 2ET/L − (solid angle of the momentum's path in the body).
    J = np.array([1.0, 2.0, 3.0])
    body = gn.System(SO3(), metric=J, base="point", name="free body")
    result = periodic_orbit(body, None, [0.3, 0.2, 1.0], 8.0)
    p = J * result.xi
    L, E = np.linalg.norm(p), p @ result.xi / 2
    a, b, c = np.sort(J)
    # Closed form of the period, about the axis of the largest moment
    rate = np.sqrt((c - b) * (L**2 - 2 * E * a) / (a * b * c))
    modulus = (b - a) * (2 * E * c - L**2) / ((c - b) * (L**2 - 2 * E * a))
    assert abs(result.period - 4 * ellipk(modulus) / rate) < 1e-9
    np.testing.assert_allclose(result.displacement @ p, p, atol=1e-9)
    log = np.asarray(gn.groups.SO3().log(result.displacement))
    angle = log @ p / L
    times = np.linspace(0, result.period, 20001)
    _, xi = reference_trajectory(body, times, result.xi)
    m = xi * J / L
    azimuth = np.unwrap(np.arctan2(m[:, 1], m[:, 0]))
    solid = np.trapezoid(1 - m[:, 2], azimuth)
    expected = 2 * E * result.period / L - solid
    assert abs(np.angle(np.exp(1j * (angle - expected)))) < 1e-6
    np.testing.assert_allclose(np.abs(result.multipliers), 1.0, atol=1e-8)


@pytest.mark.parametrize("speed", [1.0, -0.5])
def test_multipliers_of_the_sleigh_are_those_of_its_linear_equation(speed):
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    result = periodic_orbit(sleigh, None, [0.0, speed, 0.0], 2.0)
    np.testing.assert_allclose(result.multipliers, np.exp(-0.2 * speed / 1.04 * 2.0), rtol=1e-12)
    assert result.trivial == (2, 2)
    assert result.stable == (speed > 0)


def henon_heiles(x):
    return 0.5 * x @ x + x[0] ** 2 * x[1] - x[1] ** 3 / 3


def through_the_axis(g, xi):
    return jnp.stack([g[0], xi[1]])


def energy(g, xi, T, p):
    return 0.5 * xi @ xi + henon_heiles(g) - p["E"]


def test_an_orbit_of_henon_and_heiles_and_its_multipliers():
    system = gn.System(Translations(2), metric=np.eye(2), potential=henon_heiles, parameters={"E": 1 / 12})
    result = periodic_orbit(system, [0.0, 0.3], [0.3, 0.0], 6.0, fixed=through_the_axis, conditions=energy)
    y0 = np.concatenate([result.g, result.xi])
    assert abs(y0[0]) + abs(y0[3]) < 1e-12

    def variational(t, y):
        (x, z, u, v), Y = y[:4], y[4:].reshape(4, 4)
        D = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [-1 - 2 * z, -2 * x, 0, 0], [-2 * x, -1 + 2 * z, 0, 0]])
        return np.concatenate([[u, v, -x - 2 * x * z, -z - x**2 + z**2], (D @ Y).ravel()])

    start = np.concatenate([y0, np.eye(4).ravel()])
    end = solve_ivp(variational, (0, result.period), start, method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(end[:4], y0, atol=1e-9)
    expected = np.linalg.eigvals(end[4:].reshape(4, 4))
    assert result.trivial == (1, 1)
    assert abs(np.prod(result.multipliers) - 1) < 1e-8
    for multiplier in result.multipliers:
        assert np.abs(expected - multiplier).min() < 1e-7


def duffing_force(t, x, xi, u, p):
    return p["F"] * jnp.cos(p["w"] * t) - 2 * p["c"] * xi


def one_period(g, xi, T, p):
    return T * p["w"] - 2 * jnp.pi


@pytest.mark.slow
def test_the_response_of_duffing_is_followed_through_its_folds():
    def system(w):
        return gn.System(
            Translations(1),
            metric=[1.0],
            potential=lambda x: 0.5 * x[0] ** 2 + 0.25 * x[0] ** 4,
            forces=duffing_force,
            parameters={"F": 0.5, "c": 0.05, "w": w},
            name="duffing",
        )

    begin = system(0.6)
    first = periodic_orbit(begin, [0.7], [0.0], 2 * np.pi / 0.6, conditions=one_period)
    result = continue_orbit(begin, first, "w", step=0.1, n_orbits=250, limits=(0.5, 3.0))
    w = np.array([orbit.value for orbit in result])
    turns = np.flatnonzero(np.diff(np.sign(np.diff(w))))
    assert len(turns) == 2  # up to the peak, back, and on
    assert w[-1] > 3.0
    unstable = np.array([not orbit.stable for orbit in result])
    assert unstable[turns[0] + 3 : turns[1] - 2].all()
    assert not unstable[: turns[0] - 2].any()
    assert not unstable[turns[1] + 3 :].any()
    for orbit in result[:: len(result) // 7]:
        p = orbit.value
        product = np.exp(-2 * 0.05 * orbit.period)  # Liouville
        np.testing.assert_allclose(np.prod(orbit.multipliers), product, rtol=1e-6)
        end = solve_ivp(
            lambda t, y, p=p: [y[1], -y[0] - y[0] ** 3 - 0.1 * y[1] + 0.5 * np.cos(p * t)],
            (0, orbit.period),
            [orbit.g[0], orbit.xi[0]],
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
        ).y[:, -1]
        np.testing.assert_allclose(end, [orbit.g[0], orbit.xi[0]], atol=1e-6)


def test_a_family_is_followed_in_a_parameter():
    first = periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, conditions=amplitude)
    result = continue_orbit(PENDULUM, first, "k", step=-0.3, n_orbits=4)
    for orbit in result:
        assert abs(orbit.period - 4 * ellipk(np.sin(1.0) ** 2) / np.sqrt(orbit.value)) < 1e-9
    assert result[-1].value < result[0].value


def test_what_is_not_found_or_does_not_fit_is_said():
    with pytest.raises(RuntimeError, match="no periodic orbit of pendulum"):
        periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, conditions=lambda g, xi, T, p: jnp.stack([g[0] - 2, T - 1.0]))
    with pytest.raises(ValueError, match="even"):
        periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, fixed=resting, n_steps=7)
    with pytest.raises(ValueError, match="node is a velocity"):
        periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, method=gn.GNI())
    with pytest.raises(ValueError, match="period"):
        periodic_orbit(PENDULUM, [1.8], [0.1], 0.0)
    with pytest.raises(TypeError, match="not both"):
        periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, fixed=resting, returns=lambda *a: a[0])
    first = periodic_orbit(PENDULUM, [1.8], [0.1], 7.0, conditions=amplitude)
    with pytest.raises(ValueError, match="number among"):
        continue_orbit(PENDULUM, first, "length", step=0.1, n_orbits=3)


@pytest.mark.parametrize("method", [gn.Gauss(2), gn.SymmetricProjection()])
@pytest.mark.quick("method1")
def test_slopes_of_a_motion_are_those_of_the_equations_not_of_their_iterations(method):
    """Steps that keep a Jacobian and guess well iterate once: that iteration has another slope than the solution."""
    body = gn.System(gn.groups.SO3(), metric=[1.0, 1.7, 2.4], distribution=gn.Distribution([[0.3, -0.2, 1.0]]))
    g, xi, span = np.eye(3), body.project(None, [0.9, 0.4, 0.0]), 2.0
    end = Periodicity(None, lambda g, xi: xi)
    problem = BoundaryProblem(body, method, None, np.float64(0.0), np.int64(200), end, None, "")

    def residual(z):
        with gn.float64():
            moved = np.asarray(body.group.exp(z[:3]))
        return flow_derivatives(problem, Arc(PhasePoint(moved, xi + z[3:6]), span + z[6], np.nan)).residual

    result, h = flow_derivatives(problem, Arc(PhasePoint(g, xi), span, np.nan)).slope[:, :7], 1e-5
    differences = np.stack([(residual(h * e) - residual(-h * e)) / (2 * h) for e in np.eye(7)], axis=1)
    np.testing.assert_allclose(result, differences, rtol=0, atol=1e-8 * np.abs(differences).max())


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-6, 1e-8])
@pytest.mark.quick("1e-06", "1e-08")
def test_an_orbit_too_small_to_be_told_from_an_equilibrium_is_none(size):
    system = gn.System(
        gn.groups.Translations(1), metric=[1.0], potential=lambda x: 0.5 * x[0] ** 2 + x[0] ** 4, name="quartic"
    )
    with pytest.raises(RuntimeError, match="to an equilibrium of quartic"):
        periodic_orbit(system, [size], [0.0], 6.28)
    orbit = periodic_orbit(system, [0.3], [0.0], 5.0)
    assert abs(orbit.g[0]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-13, 1e-9, 1e-5])
def test_a_small_motion_that_does_not_close_is_no_orbit(size):
    oscillator = gn.System(
        gn.groups.Translations(2), metric=[1.0, 1.0], potential=lambda x: 0.5 * x @ x, name="oscillator"
    )
    with pytest.raises(RuntimeError, match="to an equilibrium of oscillator"):
        periodic_orbit(oscillator, [size, 0.0], [0.0, size], 6.34)
    orbit = periodic_orbit(oscillator, [0.1, 0.0], [0.0, 0.1], 6.34)
    np.testing.assert_allclose(orbit.period, 2 * np.pi, rtol=1e-10)

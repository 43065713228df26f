"""Holonomic constraints: rows, starts, equations, and what is said of those that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SE3, SO3, Translations
from geonh.mechanics import reference_trajectory, symmetries


def pendulum(**changes):
    options = {
        "metric": [1.0, 1.0, 1.0],
        "potential": lambda x: 9.81 * x[2],
        "holonomic": lambda x: jnp.stack([x @ x - 1.0]) / 2,
    }
    return gn.System(Translations(3), **{**options, **changes}, name="pendulum")


PENDULUM = pendulum()
BODY = gn.System(
    SE3(),
    metric=[1.0, 2.0, 3.0, 1.0, 1.0, 1.0],
    holonomic=gn.time_dependent(lambda t, x, p: jnp.stack([x[2, 3] + p["c"] * x[2, 0] ** 2 - jnp.sin(t) * x[0, 3]])),
    parameters={"c": 0.7},
)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), t=st.floats(-2, 2))
def test_rows_are_the_derivative_of_phi(seed, t):
    """d/dt φ(t, x) = Gξ − γ, by central differences along g exp(tξ)."""
    rng = np.random.default_rng(seed)
    with gn.float64():
        g = BODY.group.exp(jnp.asarray(rng.normal(size=6)))
        xi, h = jnp.asarray(rng.normal(size=6)), 1e-5

        def phi(s):
            return BODY.holonomic_residual(BODY.at(BODY.group.compose(g, BODY.group.exp(s * xi)), t + s))

        result = BODY.constraint_residual(BODY.at(g, t), xi)
        np.testing.assert_allclose(result, (phi(h) - phi(-h)) / (2 * h), atol=1e-8)


@pytest.mark.slow
def test_a_start_is_tested_and_projected():
    with pytest.raises(ValueError, match=r"holonomic constraints of pendulum: φ = .*system.project"):
        gn.solve(PENDULUM, xi0=[0.0, 0.0, 0.0], g0=[0.0, 0.0, 2.0], dt=0.1, n_steps=1)
    with pytest.raises(ValueError, match=r"xi0 does not satisfy .*g0, xi0 = system.project"):
        gn.solve(PENDULUM, xi0=[0.0, 0.0, 1.0], g0=[0.0, 0.0, 1.0], dt=0.1, n_steps=1)
    g, xi = PENDULUM.project([0.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(g, [0.0, 0.6, 0.8], atol=1e-15)
    np.testing.assert_allclose(xi, [1.0, 1.0 - 1.4 * 0.6, 1.0 - 1.4 * 0.8], atol=1e-15)
    np.testing.assert_array_equal(PENDULUM.project_position(g), g)
    moved = BODY.project_position(np.eye(4), 0.5)
    assert abs(BODY.holonomic_residual(BODY.at(moved, 0.5))[0]) < 1e-15
    with pytest.raises(ValueError, match="no point near g0"):
        pendulum(holonomic=lambda x: jnp.stack([x @ x + 1.0])).project_position([0.1, 0.2, 0.3])


def test_project_is_traceable():
    with gn.float64():
        slope = jax.jacfwd(lambda a: PENDULUM.project_position(jnp.array([0.6, 0.0, 0.8]) * a))(jnp.asarray(1.1))
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)  # the sphere does not move


@pytest.mark.slow
def test_dependent_rows_are_said():
    twice = pendulum(holonomic=lambda x: jnp.stack([x @ x - 1.0, 2 * x @ x - 2.0]))
    with pytest.warns(UserWarning, match=r"redundant at g0: holonomic\[1\] follows from holonomic\[0\]"):
        g, xi = twice.project([0.0, 0.0, 2.0], np.ones(3))
    np.testing.assert_allclose(np.stack([g, xi]), [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]], atol=1e-15)
    square = pendulum(holonomic=lambda x: jnp.stack([x[0] * x[1]]))
    with pytest.raises(ValueError, match="singular"):
        gn.solve(square, xi0=np.zeros(3), dt=0.1, n_steps=1)
    both = pendulum(distribution=gn.Distribution(forms=lambda x: x[None]))
    start = {"g0": [0.0, 0.0, 1.0], "xi0": [0.3, 0.2, 0.0], "dt": 0.1, "n_steps": 5}
    with pytest.warns(UserWarning, match=r"forms\[0\] follows from holonomic\[0\].*rank=\(1, 0\)"):
        run = gn.solve(both, **start)
    np.testing.assert_array_equal(run.g, gn.solve(PENDULUM, **start).g)
    with pytest.warns(UserWarning, match="redundant"):
        assert both.check(at=[0.0, 0.0, 1.0]).ok
    against = pendulum(distribution=gn.AffineDistribution(forms=lambda x: x[None], rhs=lambda x: jnp.ones(1)))
    with pytest.raises(ValueError, match=r"contradict .*forms\[0\] follows from holonomic\[0\]"):
        against.project([0.0, 0.0, 1.0], np.zeros(3))
    assert PENDULUM.check(at=[0.0, 0.0, 1.0]).ok


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"holonomic": 3.0}, TypeError, r"holonomic must be a function of \(x\)"),
        ({"holonomic": lambda x: x @ x - 1.0}, ValueError, r"holonomic must give shape \[k\]"),
        ({"holonomic": lambda x: x}, ValueError, "holonomic has 3 entries on a group of dimension 3"),
        ({"distribution": gn.Distribution(frame=np.eye(3)[:2])}, TypeError, "given by forms=, not by frame="),
        ({"distribution": gn.Distribution(forms=np.eye(3))}, ValueError, "beside 1 holonomic"),
        ({"potential": lambda t, x: x[0] * t}, TypeError, "time_dependent"),
    ],
)
def test_what_does_not_fit_is_named(changes, error, words):
    with pytest.raises(error, match=words):
        pendulum(**changes)


def test_the_spherical_pendulum_is_a_body_without_spin():
    """The same motion on SO(3): a symmetric body that does not spin about its axis, ℓ = ½|Ω|² − g e₃·Re₃."""
    body = gn.System(SO3(), metric=[1.0, 1.0, 0.5], potential=lambda R: 9.81 * R[2, 2])
    turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    omega = np.array([1.5, -0.7, 0.0])
    times = np.linspace(0, 2, 5)
    R, _ = reference_trajectory(body, times, omega, turn)
    velocity = turn @ np.cross(omega, [0.0, 0.0, 1.0])
    g, _ = reference_trajectory(PENDULUM, times, velocity, turn[:, 2])
    np.testing.assert_allclose(g, R[:, :, 2], atol=1e-10)


@pytest.mark.slow
def test_symmetries_leave_phi():
    """Rotations about the vertical, on the sphere; translations keep dφ of a plane, not φ."""

    def rotations(x):
        return jnp.stack([jnp.cross(e, x) for e in jnp.eye(3)])

    np.testing.assert_allclose(symmetries(PENDULUM, generators=rotations), [[0.0, 0.0, 1.0]], atol=1e-9)
    plane = pendulum(potential=None, holonomic=lambda x: x[2:])
    np.testing.assert_allclose(symmetries(plane), np.eye(3)[:2], atol=1e-9)


def test_linearised_on_the_tangent_space_of_phi():
    """A plane double pendulum of equal rods and masses in Cartesian coordinates: ω² = (2 ± √2)g/l."""

    def rods(x):
        a, b = x[:2], x[2:] - x[:2]
        return jnp.stack([a @ a - 1.0, b @ b - 1.0])

    system = gn.System(Translations(4), metric=np.ones(4), potential=lambda x: x[1] + x[3], holonomic=rods)
    result = gn.analysis.linearise(system, [0.0, -1.0, 0.0, -2.0], np.zeros(4))
    expected = np.sqrt([2 + 2**0.5, 2 - 2**0.5, 2 - 2**0.5, 2 + 2**0.5]) * [1, 1, -1, -1]
    np.testing.assert_allclose(np.sort(result.eigenvalues.imag), np.sort(expected), atol=1e-12)
    np.testing.assert_allclose(result.eigenvalues.real, 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="off the constraints"):
        gn.analysis.linearise(system, [0.0, -1.1, 0.0, -2.0], np.zeros(4))


@pytest.mark.parametrize(
    "question",
    [
        lambda s: gn.analysis.divergence(s, [0.0, 0.0, 1.0], np.zeros(3)),
        lambda s: gn.analysis.invariant_measure(s),
        lambda s: gn.diagnostics.contraction_rate(s, gn.GNI(), g0=[0.0, 0.0, 1.0], xi0=np.zeros(3), dt=0.1),
    ],
)
def test_questions_that_do_not_take_phi_say_so(question):
    with pytest.raises(ValueError, match=r"constraints on positions|holonomic constraints"):
        question(PENDULUM)

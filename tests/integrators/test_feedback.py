"""Feedback integrators: the extended field and its first integrals, the attraction back, refusals."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import forced, random_system, start

import geonh as gn
from geonh.groups import SO3
from geonh.integrators import Feedback
from geonh.integrators.validity import Result
from geonh.systems import catalogue


@pytest.mark.parametrize("orthonormal", [True, False])
def test_the_extended_field_has_its_first_integrals_everywhere(orthonormal):
    system = random_system("SO3")
    method = Feedback(1.0, orthonormal=orthonormal)
    rng = np.random.default_rng(2)
    g, p = jnp.asarray(start(system)["g0"]), jnp.asarray(rng.normal(size=3))  # off the constraint
    z = jnp.concatenate([g.ravel(), p])

    def invariants(z):
        x, p = z[:9].reshape(3, 3), z[9:]
        return jnp.append(method.constraint_momenta(system, x, p), method.hamiltonian(system, x, p))

    rate = jax.jvp(invariants, (z,), (method.field(system, jnp.asarray(0.0), z),))[1]
    assert np.abs(rate).max() < 1e-12


def test_the_extended_field_is_the_constrained_one_on_the_constraint():
    system = random_system("SO3")
    at = start(system)
    x, xi = jnp.asarray(at["g0"]), jnp.asarray(at["xi0"])
    z = jnp.concatenate([x.ravel(), system.momentum(x, xi)])
    rate = jnp.asarray(gn.mechanics.accelerations(system, 0.0, x, xi)[0])
    moving = (system.action.anchor(x, xi), rate)
    expected = jax.jvp(system.momentum, (x, xi), moving)[1]
    for orthonormal in (True, False):
        field = Feedback(1.0, orthonormal=orthonormal).field(system, jnp.asarray(0.0), z)
        np.testing.assert_allclose(field[9:], expected, atol=1e-12)
        np.testing.assert_allclose(field[:9].reshape(3, 3), SO3().left_tangent(x, xi), atol=1e-12)


@pytest.mark.slow
def test_feedback_attracts_from_off_the_constraint_and_off_the_group():
    system, method = (
        random_system("SO3"),
        Feedback({"group": 30.0, "constraint": 30.0, "energy": 3.0}, "rk4"),
    )
    at = start(system)
    z = jnp.concatenate([1.03 * jnp.asarray(at["g0"]).ravel(), jnp.asarray(at["xi0"]) + 0.1])
    targets = method._integrals(system, jnp.concatenate([jnp.asarray(at["g0"]).ravel(), z[9:]]))
    before = method.lyapunov(system, z, targets)
    flow = lambda z: method.field(system, 0.0, z) - jax.grad(lambda z: method.lyapunov(system, z, targets))(z)  # noqa: E731
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, z, _: flow(z)), diffrax.Tsit5(), 0.0, 1.0, 1e-3, z, max_steps=2000
    )
    assert method.lyapunov(system, solution.ys[-1], targets) < 1e-3 * before


@pytest.mark.parametrize("gains", [7.0, {"group": 30.0, "constraint": 5.0, "energy": 3.0}, {"constraint": 5.0}])
@pytest.mark.parametrize("group", ["SO3", "SE2xT1", "SE3"])
@pytest.mark.quick("SO3-gains2")
def test_the_fastest_rate_is_that_of_all_second_derivatives(group, gains):
    system, method = random_system(group), Feedback(gains)
    at = start(system)
    g, xi = system.point(at["g0"]), jnp.asarray(at["xi0"])
    z = method._start(system, g, xi)
    whole = jax.hessian(lambda z: method.lyapunov(system, z, method._integrals(system, method._start(system, g, xi))))(
        z
    )
    assert method.stiffness(system, g, xi) == pytest.approx(np.linalg.eigvalsh(whole).max(), rel=1e-12)


@pytest.mark.slow
def test_feedback_by_a_solver_of_diffrax():
    entry = catalogue["suslov"]
    system, begin = entry.system(), entry.start(entry.system())
    ours, theirs = (
        gn.solve(system, Feedback(10.0, s), xi0=begin.xi0, dt=0.01, n_steps=200)
        for s in ("dormand-prince", diffrax.Dopri5())
    )
    np.testing.assert_allclose(ours.xi, theirs.xi, atol=1e-13)


@pytest.mark.slow
def test_feedback_refuses_what_it_is_not_for():
    system = random_system("SO3")
    with pytest.raises(ValueError, match=r"gains are too large for dt = 0\.1.*lower the gains or dt below"):
        gn.solve(system, Feedback(1000.0), dt=0.1, n_steps=5, **start(system))
    with pytest.raises(ValueError, match="no first integral 'enrgy'"):
        gn.solve(system, Feedback({"enrgy": 1.0}), dt=0.01, n_steps=5, **start(system))
    with pytest.raises(ValueError, match="it has forces"):
        gn.solve(forced(), Feedback(1.0), xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=5)
    for wrong in ({"solver": "rk5"}, {"gains": -1.0}, {"gains": {"energy": np.nan}}):
        with pytest.raises(ValueError, match=r"solver|gain"):
            Feedback(**wrong)


@pytest.mark.slow
def test_derivatives_of_a_run_on_a_group_with_coordinates_are_those_of_differences():
    """On SE(2) every point is on the group, where the attraction to it and all of its derivatives are zero."""

    def end(dt, rate=0.8):
        sleigh = catalogue["chaplygin-sleigh"].system()
        run = gn.integrate(sleigh, "feedback", xi0=jnp.stack([rate, -0.5 + 0.0 * rate, 0.0]), dt=dt, n_steps=100)
        return run.g[-1] @ jnp.array([1.0, 2.0, -1.0]) + run.p_plus[-1, 0]

    slopes = (end(0.005 + 1e-6) - end(0.005 - 1e-6)) / 2e-6, (end(0.005, 0.8 + 1e-5) - end(0.005, 0.8 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(end, (0, 1))(0.005, 0.8), slopes, rtol=1e-6)


@pytest.mark.slow
def test_the_stability_limit_on_a_group_with_coordinates_is_that_of_the_constraint():
    sleigh = catalogue["chaplygin-sleigh"].system()
    given = {"xi0": [0.8, -0.5, 0.0], "n_steps": 2000}
    stiff = gn.integrators.Feedback(solver="rk4").stiffness(sleigh, sleigh.point(None), np.array(given["xi0"]))
    run = gn.solve(sleigh, "feedback", dt=2.3 / stiff, **given)
    assert np.abs(run.constraint_residual).max() < 1e-5
    with pytest.raises(ValueError, match="lower the gains or dt"):
        gn.solve(sleigh, "feedback", dt=2.9 / stiff, **given)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["SE2xT1", "SO3", "SE3"])
@pytest.mark.parametrize("solver", ["euler", "rk4"])
def test_the_stability_limit_in_a_trace_is_that_of_solve(group, solver):
    """The traced condition, positive pivots of limit·1 − dt·∇²V, is that of the eigenvalues, which ``solve`` tests."""
    system, method = random_system(group), Feedback({"group": 30.0, "constraint": 5.0, "energy": 3.0}, solver)
    at = start(system)
    rate = method.stiffness(system, system.point(at["g0"]), np.asarray(at["xi0"]))
    dt = np.array([-1e-3, 0.5, 1 - 1e-6, 1 + 1e-6, 3.0]) * {"euler": 2.0, "rk4": 2.78}[solver] / rate

    def status(dt):
        return gn.integrate(system, method, dt=dt, n_steps=1, **at).status[-1]

    with gn.float64():
        together, alone = jax.jit(jax.vmap(status))(dt), [int(jax.jit(status)(one)) for one in dt]
    members = gn.solve_ensemble(system, method, dt=dt, n_steps=1, **at)
    expected = [Result.START, *2 * [Result.SUCCESS], *2 * [Result.START]]
    assert together.tolist() == alone == members.status.tolist() == expected
    for one, result in zip(dt, expected, strict=True):
        if result:
            with pytest.raises(ValueError, match="dt"):
                gn.solve(system, method, dt=one, n_steps=1, **at)
        else:
            gn.solve(system, method, dt=one, n_steps=1, **at)


@pytest.mark.slow
def test_the_stability_limit_of_a_traced_system_and_of_a_composition():
    method = Feedback(solver="rk4")

    def run(a, method=method, dt=0.02):
        sleigh = gn.systems.chaplygin_sleigh(a=a)
        return gn.integrate(sleigh, method, xi0=np.array([0.8, -0.5, 0.0]), dt=dt, n_steps=2)

    with gn.float64():
        found = jax.jit(jax.vmap(run))(np.array([0.2, 2.0])).status  # rates of 117 and 486 1/s
        composed = jax.jit(lambda dt: run(0.2, method @ method, dt).status)
        assert found.tolist() == [3 * [Result.SUCCESS], 3 * [Result.START]]
        assert [int(composed(dt)[-1]) for dt in (0.02, 0.04, 0.06)] == [0, 0, Result.START]
        slope = jax.grad(lambda dt: run(0.2, method, dt).g[-1, 0])
        assert slope(0.02) != 0.0
        assert slope(0.03) == 0.0


@pytest.mark.slow
def test_a_run_ends_where_its_rates_are_no_longer_stable_with_dt():
    """The mass of the third coordinate vanishes at x₀ = 0.05: before it the constant momentum along it turns the
    motion around, where the energy has large derivatives."""
    system = gn.System(gn.groups.Translations(3), metric=lambda x: jnp.stack([1.0, 1.0, 0.05 - x[0]]), name="light")
    at = {"xi0": [0.3, 0.2, 0.1], "dt": 1e-3, "n_steps": 500}
    alone = gn.solve(system, "feedback", throw=False, **at)
    assert alone.status is Result.GAINS
    assert "lower dt" in alone.message
    exact = gn.solve(system, "rkmk6", **at | {"dt": 1e-4, "n_steps": 10 * (len(alone.t) - 1)})
    assert np.abs(alone.g[-1] - exact.g[-1]).max() < 1e-4
    with gn.float64():
        traced = jax.jit(lambda v: gn.integrate(system, "feedback", **at | {"xi0": v}).status)(jnp.asarray(at["xi0"]))
    assert int(traced[-1]) == Result.GAINS

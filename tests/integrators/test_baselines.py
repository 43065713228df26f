"""Explicit Runge–Kutta methods in ambient coordinates: what projections put back, and what they cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import forced, next_node, random_system, start

import geonh as gn
from geonh.integrators import RungeKutta
from geonh.integrators.clock import Clock
from geonh.integrators.validity import Result


def defect(run):
    with gn.float64():
        return float(np.max(run.system.group.defect(run.g[-1])))


@pytest.mark.slow
def test_what_is_projected_is_kept_and_nothing_else():
    system = random_system("SO3")
    runs = {
        project: gn.solve(system, RungeKutta(project=project), dt=0.04, n_steps=100, save_every=100, **start(system))
        for project in ("none", "constraint", "energy")
    }
    residual = {name: np.abs(run.constraint_residual[-1]).max() for name, run in runs.items()}
    energy = {name: abs(run.energy[-1] - run.energy[0]) for name, run in runs.items()}
    assert residual["none"] > 1e-8 > 1e-13 > max(residual["constraint"], residual["energy"])
    assert energy["energy"] < 1e-12 < 1e-8 < min(energy["none"], energy["constraint"])
    assert defect(runs["none"]) > 1e-16 > 1e-28 > max(defect(runs["constraint"]), defect(runs["energy"]))


@pytest.mark.parametrize("rate", [0.0, 5.0])
def test_baumgarte_brings_a_violation_back_at_its_rate(rate):
    """d/dt(μξ − b) = −γ(μξ − b), from a velocity off the constraint."""
    system, method, clock = random_system("SO3"), RungeKutta(baumgarte=rate), Clock(0.0, 0.02)
    g, xi = (jnp.asarray(a) for a in start(system, speed=0.5).values())
    state = method.first_node(system, clock, g, xi)
    state = state._replace(p_minus=system.momentum(g, xi + 0.1))

    def violation(state):
        return system.constraint_residual(state.g, system.velocity(state.g, state.p_minus))

    before = violation(state)
    for _ in range(20):
        state = next_node(system, method, clock, state)
    np.testing.assert_allclose(violation(state) / before, np.exp(-0.4 * rate), rtol=1e-4)


def test_an_energy_that_is_not_kept_is_not_put_back():
    with pytest.raises(ValueError, match="no forces"):
        gn.solve(forced(), gn.methods["rk4-energy"].make(), xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=5)
    affine = random_system("SO3", affine=True)
    with pytest.raises(ValueError, match="linear constraints"):
        gn.solve(affine, RungeKutta(project="energy"), dt=0.01, n_steps=5, **start(affine))


@pytest.mark.parametrize("wrong", [{"scheme": "rk5"}, {"project": "both"}, {"baumgarte": -1.0}, {"baumgarte": np.nan}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RungeKutta(**wrong)


@pytest.mark.quick("dormand-prince-3.3")
@pytest.mark.parametrize(("scheme", "limit"), [("rk4", 2.78), ("dormand-prince", 3.3)])
def test_a_rate_beyond_the_stability_limit_is_refused(scheme, limit):
    """A violation of the constraint decays at every admitted dt, and grows just beyond the limits; in a trace too."""
    sleigh, method = gn.systems.chaplygin_sleigh(), RungeKutta(scheme, baumgarte=20.0)
    given = {"xi0": np.array([0.8, -0.5, 0.0]), "n_steps": 400}
    dt = np.array([-0.1, 0.5, 0.99, 1.01]) * limit / 20.0

    def run(dt):
        return gn.integrate(sleigh, method, dt=dt, **given)

    with gn.float64():
        traced = jax.jit(jax.vmap(run))(dt)
    members = gn.solve_ensemble(sleigh, method, dt=dt, **given)
    expected = [Result.START, Result.SUCCESS, Result.SUCCESS, Result.START]
    assert traced.status[:, -1].tolist() == members.status.tolist() == expected
    assert np.abs(traced.constraint_residual).max() < 0.1
    for one in dt[[0, 3]]:
        with pytest.raises(ValueError, match=r"dt must be > 0|lower baumgarte or dt below"):
            gn.solve(sleigh, method, dt=one, **given)

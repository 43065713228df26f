"""Discrete Lagrangians: their Legendre transforms against slopes of the discrete action, adjoints, a user's l_d."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import random_system, slope, start

import geonh as gn
from geonh.groups import SE2, SO3
from geonh.groups.retraction import Cayley, Exponential
from geonh.integrators import DLA, GNI, UserDiscreteLagrangian, Variational
from geonh.integrators.discretisation import make_rule
from geonh.integrators.validity import Result


def users(R, W, h):
    """A one-sided rule of nobody's."""
    zeta = SO3().log(W)
    return 0.5 * zeta @ zeta / h - h * jnp.sum(jnp.cos(R @ W)) + 0.1 * jnp.sin(R[0, 1]) * zeta[0]


RULES = ("left", "right", "trapezoid", "midpoint", UserDiscreteLagrangian(users, symmetric=False))
NAMES = ("left", "right", "trapezoid", "midpoint", "user's")


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("tau", [Cayley(), Exponential()], ids=["cayley", "exp"])
@pytest.mark.quick("exp-left")
def test_legendre_transforms_are_the_slopes_of_the_action(rule, tau):
    """F⁻ and F⁺ against the change of l_d as the source and the target of a step move."""
    system, group, h = random_system("SO3"), SO3(), jnp.asarray(0.3)
    l_d = make_rule(rule)
    rng = np.random.default_rng(2)
    g, zeta = jnp.asarray(start(system)["g0"]), jnp.asarray(0.2 * rng.normal(size=3))
    after = group.compose(g, tau(group, zeta))

    def action(eta, end):
        """From g exp(η) to g' exp(end)."""
        source, target = group.compose(g, group.exp(eta)), group.compose(after, group.exp(end))
        step = tau.inverse(group, group.compose(group.inverse(source), target))
        return l_d(system, tau, h, source, step, target)

    at_source, at_target = jax.grad(action, (0, 1))(jnp.zeros(3), jnp.zeros(3))
    np.testing.assert_allclose(l_d.legendre_minus(system, tau, h, g, zeta), -at_source, rtol=0, atol=1e-12)
    np.testing.assert_allclose(l_d.legendre_plus(system, tau, h, g, zeta, after), at_target, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_adjoint_rule_is_the_step_seen_from_its_end(rule):
    """l_d*(x, ζ, y; h) = −l_d(y, −ζ, x; −h), twice is once; a symmetric rule is its own."""
    system, tau, h = random_system("SO3"), Exponential(), jnp.asarray(0.3)
    l_d = make_rule(rule)
    x, zeta = jnp.asarray(start(system)["g0"]), jnp.array([0.1, -0.3, 0.2])
    y = x @ SO3().exp(zeta)
    reflected = -l_d(system, tau, -h, y, -zeta, x)
    np.testing.assert_allclose(l_d.adjoint()(system, tau, h, x, zeta, y), reflected, rtol=1e-13)
    np.testing.assert_allclose(l_d.adjoint().adjoint()(system, tau, h, x, zeta, y), l_d(system, tau, h, x, zeta, y))
    same = np.isclose(l_d(system, tau, h, x, zeta, y), reflected, rtol=1e-13)
    assert same == l_d.symmetric


@pytest.mark.slow
def test_moser_veselov_is_a_discrete_lagrangian_of_the_user():
    """l_d = tr((1 − W)𝕁)/h with 𝕁 = ½tr(J)1 − J: the free rigid body, with its spatial momentum to rounding."""
    J = np.diag([1.0, 1.7, 2.2])
    dual = 0.5 * np.trace(J) * np.eye(3) - J
    system = gn.System(SO3(), metric=J, base="point")
    method = Variational(lambda x, W, h: jnp.trace((jnp.eye(3) - W) @ dual) / h)
    xi0 = np.array([0.3, 1.0, -0.4])
    assert abs(slope(system, method, xi0=xi0) - 2) <= 0.1
    run = gn.solve(system, method, xi0=xi0, dt=0.05, n_steps=400)
    spatial = np.einsum("tij,tj->ti", run.g, run.p_minus)
    np.testing.assert_allclose(spatial, np.broadcast_to(spatial[0], spatial.shape), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_projection_takes_a_discrete_lagrangian_of_the_user_too():
    """Moser and Veselov's with a constraint that turns with the body, l_d left-invariant and ℓ bi-invariant."""
    system = gn.System(SO3(), metric=0.9 * np.eye(3), distribution=gn.Distribution(lambda R: R[2][None] + 0.3))
    method = gn.SymmetricProjection(lambda x, W, h: 0.45 * jnp.trace(jnp.eye(3) - W) / h)
    at = start(system)
    run = gn.solve(system, method, dt=0.05, n_steps=400, save_every=1, **at)
    assert np.ptp(run.energy) < 1e-12
    assert np.abs(run.constraint_residual).max() < 1e-14


def test_unknown_rules_are_refused():
    with pytest.raises(ValueError, match="rule"):
        make_rule("simpson")


@pytest.mark.parametrize("kind", [GNI, DLA])
@pytest.mark.parametrize("factor", [0.5, 0.45])
@pytest.mark.quick("0.5-GNI")
def test_a_discrete_lagrangian_of_another_system_is_no_start_of_members_and_traces_either(kind, factor):
    system = gn.System(SE2(), metric=np.ones(3), distribution=gn.Distribution([[0.0, 0.0, 1.0]]))
    method = kind(rule=lambda x, W, h: factor * jnp.sum(W**2) / h)
    options = {"dt": 0.01, "n_steps": 2}
    starts = np.array([[0.8, -0.5, 0.0], [0.7, -0.5, 0.0]])
    with gn.float64():
        traced = jax.jit(jax.vmap(lambda xi: gn.integrate(system, method, xi0=xi, **options).status[-1]))(starts)
    if factor == 0.5:
        assert traced.tolist() == gn.solve_ensemble(system, method, xi0=starts, **options).status.tolist() == [0, 0]
    else:
        assert traced.tolist() == 2 * [Result.START]
        with pytest.raises(ValueError, match="the discrete Lagrangian is not one of"):
            gn.solve_ensemble(system, method, xi0=starts, **options)

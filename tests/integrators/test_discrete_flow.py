"""Half a node: the average on the constraint, the reflection about it, and the two ways to begin."""

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import controls, forced, general, random_system, start

import geonh as gn
from geonh.algebra.newton import Newton
from geonh.integrators.clock import Clock
from geonh.integrators.discrete_flow import average, check_start, reflected, started

SYSTEMS = {
    "affine": random_system("SO3", affine=True),
    "two forms": random_system("SE2xT1", affine=True, m=2),
    "forced": forced(),
    "general": general(),
    "free": random_system("SO3", constrained=False),
}
CLOCK = Clock(0.3, 0.05, controls)


def node(name, seed=9):
    system = SYSTEMS[name]
    at = start(system, seed)
    x = system.action.at(at["g0"])
    return system, at["g0"], x, jnp.asarray(np.random.default_rng(seed).normal(size=system.group.dim))


@pytest.mark.quick("free", "affine", "two forms", "forced")
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_average_is_on_the_constraint_and_apart_by_an_impulse(name):
    """p̃ = p⁺ + (h/2)f(ξ̃) + μᵀλ, with the force at the velocity of p̃ itself."""
    system, _, x, p = node(name)
    half = average(system, CLOCK, 2, x, p, Newton())
    assert bool(half.converged)
    xi = system.velocity(x, half.momentum)
    assert np.abs(system.constraint_residual(x, xi)).max(initial=0.0) < 1e-13
    force = system.force(CLOCK.time(2), x, xi, CLOCK.control(2))
    np.testing.assert_allclose(half.momentum, p + 0.025 * force + half.reaction, rtol=0, atol=1e-13)
    mu = np.asarray(system.annihilator(x))
    basis = np.linalg.svd(mu)[2][len(mu) :] if len(mu) else np.eye(len(p))
    assert np.abs(basis @ half.reaction).max() < 1e-13
    again = average(system, CLOCK._replace(dt=0.0), 2, x, half.momentum, Newton())
    np.testing.assert_allclose(again.momentum, half.momentum, rtol=0, atol=1e-13)


def test_the_reflection_is_its_own_inverse():
    rng = np.random.default_rng(1)
    p, middle = rng.normal(size=(2, 5))
    np.testing.assert_allclose(reflected(reflected(p, middle), middle), p, rtol=0, atol=1e-15)
    np.testing.assert_allclose((p + reflected(p, middle)) / 2, middle, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "free"])
def test_the_start_is_the_middle_of_both_momenta(name):
    """p^± = p̃ ∓ (h/2)(f + μᵀλ₀): λ₀ of the continuous equations, or none."""
    system, g, x, xi = node(name)
    xi = jnp.asarray(system.project(g, xi))
    p = system.momentum(x, xi)
    clock = CLOCK if system.forces is not None else CLOCK._replace(controls=None)
    force = system.force(clock.time(0), x, xi, clock.control(0))
    lam = gn.mechanics.multipliers(system, clock.time(0), g, xi, clock.control(0))
    for begin, impulse in (("average", force), ("multiplier", force + system.annihilator(x).T @ lam)):
        made = started(begin, system, clock, g, xi)
        np.testing.assert_allclose((made.p_plus + made.p_minus) / 2, p, rtol=0, atol=1e-14)
        np.testing.assert_allclose(made.p_minus - made.p_plus, clock.dt * impulse, rtol=0, atol=1e-14)
    assert np.abs(lam).max() > 1e-3


def test_another_start_is_refused():
    with pytest.raises(ValueError, match="start must be 'multiplier' or 'average', got 'exact'"):
        check_start("exact")

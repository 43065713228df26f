"""The discrete Lagrange–d'Alembert method: its discrete constraint, its principle, its adjoint, its memory."""

import jax
import numpy as np
import pytest
from random_systems import OPTIONS, random_system, same_run, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect
from geonh.integrators import DLA, Variational

H = OPTIONS["dt"]


@pytest.mark.parametrize(("rule", "constraint"), [("trapezoid", "trapezoid"), ("left", 0.25)])
@pytest.mark.quick("left-0.25")
def test_the_discrete_principle_holds_at_every_node(rule, constraint):
    """p⁻ − p⁺ annihilates D, φ(x, ζ) = 0, and the momenta are those of the steps on both sides."""
    system, method = random_system("SO3", affine=True), DLA(rule, constraint)
    run, tau = gn.solve(system, method, **start(system), **OPTIONS), method.tau(system)
    group = system.group

    def pieces(g, ahead, p_plus, p_minus):
        zeta = tau.inverse(group, group.compose(group.inverse(g), ahead))
        mu = system.annihilator(g)
        basis = np.eye(3) - mu.T @ jax.numpy.linalg.solve(mu @ mu.T, mu)
        minus = method.rule.legendre_minus(system, tau, H, g, zeta) - p_minus
        return basis @ (p_minus - p_plus), method.constraint(system, tau, H, g, zeta), minus

    rows = jax.vmap(pieces)(run.g[:-1], run.g[1:], run.p_plus[:-1], run.p_minus[:-1])
    for row in rows:
        assert np.abs(row).max() < 1e-11


@pytest.mark.slow
def test_the_defect_sees_the_adjoint_of_a_method_that_looks_ahead():
    system, method = random_system("R3"), DLA("left", "left")
    at = start(system)
    assert adjoint_defect(system, method, method, dt=0.05, **at) > 1e-5
    assert adjoint_defect(system, method, method.adjoint(), dt=0.05, **at) < 1e-12


@pytest.mark.slow
def test_without_constraints_it_is_the_variational_integrator():
    system = random_system("SO3", constrained=False)
    same_run(
        *(gn.solve(system, m("trapezoid"), **start(system), **OPTIONS) for m in (DLA, Variational)),
        1e-11,
    )


@pytest.mark.slow
def test_the_symmetric_projection_is_a_dla_method():
    """Both are P*(F⁻ − F⁺) = 0 with a symmetric discrete constraint: apart by O(h²), which shrinks fourfold."""
    system = random_system("SO3")
    gaps = []
    for n in (40, 80):
        a, b = (
            gn.solve(system, m, dt=1 / n, n_steps=n, **start(system))
            for m in (gn.SymmetricProjection(), DLA("trapezoid", "trapezoid"))
        )
        gaps.append(np.abs(a.g - b.g).max())
    assert abs(np.log2(gaps[0] / gaps[1]) - 2) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "constraint", "order"), [("trapezoid", "trapezoid", 2), ("trapezoid", 0.3, 1)])
def test_orders_on_an_affine_system(rule, constraint, order):
    system, steps = random_system("SO3", affine=True), np.array([40, 80, 160])
    method = DLA(rule, constraint)
    assert method.order == order
    assert abs(slope(system, method, steps * (1 if order == 2 else 8), **start(system, speed=1.0)) - order) <= 0.1


def test_wrong_constraints_are_refused():
    with pytest.raises(ValueError, match="constraint must be one of"):
        DLA(constraint="centre")
    with pytest.raises(ValueError, match="fraction in"):
        DLA(constraint=-0.1)
    with pytest.raises(ValueError, match="for its author to write"):
        DLA("left", lambda x, W, h: W[0]).adjoint()

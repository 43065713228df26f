"""The coefficients of the Runge–Kutta methods against the order conditions, and their interpolation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geonh.integrators.lobatto import IIIA, _conjugate
from geonh.integrators.runge_kutta import TABLEAUX
from geonh.integrators.tableaux import (
    BUTCHER6,
    DORMAND_PRINCE,
    DORMAND_PRINCE_8,
    EMBEDDED,
    EULER,
    GAUSS,
    RK4,
    estimated,
    explicit_step,
    interpolation,
    weighted_slopes,
)

EXPLICIT = {"Euler": (EULER, 1), "RK4": (RK4, 4), "Dormand–Prince": (DORMAND_PRINCE, 5), "Butcher": (BUTCHER6, 6)}
EXPLICIT["Dormand–Prince 8"] = (DORMAND_PRINCE_8, 8)


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_methods_are_of_their_order(name):
    """On a nonlinear equation with time in it, against its closed form y = tan(t² / 2 + y₀)."""
    tableau, order = EXPLICIT[name]
    a, b = tableau
    assert np.allclose(np.triu(a), 0)
    assert np.isclose(b.sum(), 1, rtol=1e-14)
    errors, counts = [], np.array({5: [8, 16, 32], 6: [8, 16, 32], 8: [3, 4, 6, 8]}.get(order, [32, 64, 128]))
    step = jax.jit(lambda k, h, y: explicit_step(lambda c, y: (k + c) * h * (1 + y**2), tableau, h, y))
    for n in counts:
        h, y = 1 / n, jnp.zeros(1)
        for k in range(n):
            y = step(k, h, y)
        errors.append(abs(y[0] - np.tan(0.5)))
    assert abs(-np.polyfit(np.log(counts), np.log(errors), 1)[0] - order) < 0.3
    assert all(TABLEAUX[p] is t for p, t in ((4, RK4), (6, BUTCHER6), (8, DORMAND_PRINCE_8)))


@pytest.mark.parametrize("order", EMBEDDED)
def test_error_estimates_are_of_their_order_and_loops_have_the_same_slopes(order):
    embedded, sizes = EMBEDDED[order], np.array([0.2, 0.1, 0.05])
    rate, start = (lambda t, y: jnp.stack([y[1] * jnp.cos(t), -jnp.sin(y[0])])), jnp.array([0.7, 0.3])

    def estimate(h, loop):
        def slope(c, change):
            return rate(c * h, start + change)

        return estimated(weighted_slopes(slope, embedded.a, embedded.weights, 2, h, loop=loop))

    errors = [np.asarray(estimate(h, False)) for h in sizes]
    slope = np.polyfit(np.log(sizes), np.log(np.abs(errors).max(axis=1)), 1)[0]
    assert abs(slope - embedded.order - 1) < 0.3
    np.testing.assert_allclose(estimate(0.2, True), errors[0], rtol=0, atol=1e-16)
    np.testing.assert_array_equal(estimated([jnp.zeros(2)] * len(embedded.weights)), 0.0)


@pytest.mark.parametrize("stages", GAUSS)
def test_gauss_satisfies_b_c_and_symmetry(stages):
    """B(2s): Σbᵢcᵢ^{q−1} = 1/q; C(s): Σaᵢⱼcⱼ^{q−1} = cᵢ^q/q; symplectic and symmetric."""
    a, b = GAUSS[stages]
    c = a.sum(axis=1)
    for q in range(1, 2 * stages + 1):
        assert abs(b @ c ** (q - 1) - 1 / q) < 1e-15
    for q in range(1, stages + 1):
        np.testing.assert_allclose(a @ c ** (q - 1), c**q / q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(a + a[::-1, ::-1], np.broadcast_to(b, a.shape), rtol=0, atol=1e-15)
    M = b[:, None] * a
    np.testing.assert_allclose(M + M.T, np.outer(b, b), rtol=0, atol=1e-15)


@pytest.mark.parametrize("stages", IIIA)
def test_lobatto_pairs_satisfy_b_c_d(stages):
    """IIIA: C(s), ends at the nodes; its symplectic partner IIIB: C(s − 2), first column constant."""
    a = IIIA[stages]
    b, c, partner = a[-1], a.sum(axis=1), _conjugate(a)
    assert c[0] == 0
    assert np.isclose(c[-1], 1, rtol=1e-15)
    for q in range(1, 2 * stages - 1):
        assert abs(b @ c ** (q - 1) - 1 / q) < 1e-15
    for q in range(1, stages + 1):
        np.testing.assert_allclose(a @ c ** (q - 1), c**q / q, rtol=0, atol=1e-15)
    for q in range(1, stages - 1):
        np.testing.assert_allclose(partner @ c ** (q - 1), c**q / q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(partner[:, 0], b[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(partner[:, -1], 0, rtol=0, atol=1e-15)


def test_interpolation_is_exact_on_polynomials():
    nodes, at = np.array([0.0, 0.3, 1.0, 1.7]), np.array([-0.5, 0.3, 2.0])
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3])
    np.testing.assert_allclose(interpolation(nodes, at) @ cubic(nodes), cubic(at), rtol=1e-13)


def test_stages_of_the_classical_method_are_those_written_out():
    """In a loop, and with several sums of the slopes at once."""
    rng = np.random.default_rng(3)
    (a, b), (start, h, A) = RK4, (rng.normal(size=3), 0.3, rng.normal(size=(3, 3)))

    def slope(c, change):
        return jnp.cos(A @ (start + change) + c)

    k1 = slope(0.0, 0.0)
    k2 = slope(0.5, h / 2 * k1)
    k3 = slope(0.5, h / 2 * k2)
    k4 = slope(1.0, h * k3)
    found = weighted_slopes(slope, a, [b, np.array([0.0, 0.0, 0.0, 1.0])], 3, h)
    np.testing.assert_allclose(found, [h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), h * k4], rtol=1e-15, atol=1e-16)

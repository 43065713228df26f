"""Divergences against closed forms and the method's own contraction; densities found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import divergence, invariant_measure
from geonh.diagnostics import contraction_rate
from geonh.groups import SO3, Translations


def test_the_sleigh_contracts_as_it_runs():
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    for u in (0.5, -1.3):
        assert abs(divergence(sleigh, None, [0.8, u, 0.0]) + 0.2 * u / 1.04) < 1e-15
    assert not invariant_measure(sleigh).exists


@pytest.mark.slow
def test_suslov_contracts_as_its_step_does():
    system = gn.systems.suslov()
    result = invariant_measure(system)
    assert not result.exists
    assert result.divergence > 0.1
    xi = np.asarray(system.project(None, [0.3, 1.0, 0.2]))
    rate = float(contraction_rate(system, gn.Gauss(2), xi0=xi, dt=1e-5))
    assert abs(divergence(system, None, xi) - rate) < 1e-4 * abs(rate)


def veselova_density(x, p):
    return jnp.log(x @ (x / p["J"]))


def chaplygin_density(x, p):
    up, k = x[1][2], p["m"] * p["r"] ** 2
    return jnp.log(1 - k * up @ (up / (p["J"] + k)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "density"),
    [
        (gn.systems.veselova(), veselova_density),
        (gn.systems.chaplygin_sphere(table_rate=0.0), chaplygin_density),
        (gn.systems.chaplygin_sphere(table_rate=0.4), chaplygin_density),
    ],
    ids=["Veselova", "Chaplygin", "on a turning table"],
)
def test_the_known_densities(system, density):
    # The kinetic volume itself is kept.
    result = invariant_measure(system, {"log of the book's": density})
    assert result.exists
    assert result.divergence < 1e-13
    assert abs(result.coefficients["log of the book's"]) < 1e-12


@pytest.mark.parametrize(("name", "power"), [("veselova", 0.5), ("chaplygin", -0.5)])
def test_in_the_coordinates_of_the_books_the_densities_are_theirs(name, power):
    # The same volume in (M, γ): M is the momentum about the contact, without the constraint among the coordinates.
    rng = np.random.default_rng(3)
    J = np.array([1.0, 1.5, 2.0])

    def rates(z):
        M, up = z[:3], z[3:]
        if name == "veselova":
            W = M / J
            lam = -up @ (jnp.cross(M, W) / J) / (up @ (up / J))
            return jnp.concatenate([jnp.cross(M, W) + lam * up, jnp.cross(up, W)])
        # M = JW + γ×(W×γ) with mr² = 1
        A = jnp.diag(J) + jnp.eye(3) * (up @ up) - jnp.outer(up, up)
        W = jnp.linalg.solve(A, M)
        return jnp.concatenate([jnp.cross(M, W), jnp.cross(up, W)])

    def log_density(z):
        up = z[3:]
        inside = up @ (up / J) if name == "veselova" else (1 - up @ (up / (J + 1)) / (up @ up))
        return power * jnp.log(inside)

    for _ in range(5):
        up = rng.normal(size=3)
        up /= np.linalg.norm(up)
        M = rng.normal(size=3)
        if name == "veselova":
            M -= (up @ (M / J)) / (up @ (up / J)) * up
        z = jnp.asarray(np.concatenate([M, up]))
        total = jnp.trace(jax.jacfwd(rates)(z)) + jax.grad(log_density)(z) @ rates(z)
        assert abs(total) < 1e-12


def test_a_density_is_found_where_the_volume_shrinks():
    # Drag that follows a potential in time: ẋ = ξ, ξ̇ = −(dφ/dt)ξ has div = −φ'(x)ξ, so N = exp φ.
    system = gn.System(
        Translations(1), metric=[1.0], forces=lambda t, x, xi, u: -(3 * x**2 + jnp.cos(x)) * xi * xi, name="drag"
    )
    candidates = {"x³": lambda x: x[0] ** 3, "sin x": lambda x: jnp.sin(x[0]), "x²": lambda x: x[0] ** 2}
    result = invariant_measure(system, candidates)
    assert result.exists
    np.testing.assert_allclose(list(result.coefficients.values()), [2.0, 2.0, 0.0], atol=1e-10)
    assert not invariant_measure(system, {"x²": candidates["x²"]}).exists
    assert "no invariant density" in str(invariant_measure(system))


def test_a_metric_that_varies_keeps_liouville():
    system = gn.System(SO3(), metric=lambda R: jnp.array([1.0, 2.0, 3.0]) + R[2, 2] ** 2, potential=lambda R: R[2, 0])
    result = invariant_measure(system)
    assert result.exists
    assert result.divergence < 1e-12


@pytest.mark.slow
def test_the_density_of_a_particle_whose_metric_varies():
    # (1 + wy²)ẍ + y(wy)'ẏẋ = 0 with w = 1 + y²: log ẋ is an integral of −y(1 + 3y²)/(1 + y² + y⁴).
    particle = gn.System(
        Translations(3),
        metric=lambda x: [1.0, 1.0, 1 + x[1] ** 2],
        distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]),
    )
    candidates = {
        "log": lambda x: jnp.log(1 + x[1] ** 2 + x[1] ** 4),
        "atan": lambda x: jnp.arctan((2 * x[1] ** 2 + 1) / 3**0.5),
        "Haar": lambda x: jnp.log(1 + x[1] ** 2),
    }
    result = invariant_measure(particle, candidates)
    assert result.exists
    assert result.divergence > 0.1
    # In (x, y, z, ẋ, ẏ) the density is exp of minus that; the kinetic volume has there the density √w √(1 + wy²).
    np.testing.assert_allclose(list(result.coefficients.values()), [0.25, -(3**-0.5) / 2, -0.5], atol=1e-10)


def test_controls_have_a_value():
    """The divergence of a drag −0.3 u₀ ξ, u₀ a control, on the two velocities left by the constraint is −2·0.3 u₀/m."""
    rows = gn.Distribution([[0.0, 0.0, 1.0]])
    dragged = gn.System(
        Translations(3), metric=[2.0] * 3, distribution=rows, forces=lambda t, x, xi, u: -0.3 * u[0] * xi
    )
    found = invariant_measure(dragged, controls=[4.0])
    assert not found.exists
    assert found.divergence == pytest.approx(2 * 0.3 * 4.0 / 2.0, rel=1e-12)
    assert invariant_measure(dragged, controls=[0.0]).exists
    with pytest.raises(TypeError, match="controls= is needed"):
        invariant_measure(dragged)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="n_states"):
        invariant_measure(gn.systems.suslov(), {"a": lambda x: 1.0}, n_states=1)
    with pytest.raises(ValueError, match="not finite"):
        invariant_measure(gn.systems.veselova(), {"a": lambda x: jnp.log(0.0 * x[0])})
    with pytest.raises(ValueError, match="not finite"):  # its derivative is finite
        invariant_measure(gn.systems.veselova(), {"a": lambda x: jnp.log(x[0] - 9.0)})
    with pytest.raises(TypeError, match=r"^invariant_measure\(\) missing 1 required positional argument: 'system'$"):
        invariant_measure()

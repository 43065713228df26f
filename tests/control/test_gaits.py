"""Periodic motions and parameters that are found with a motion, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2, Product, Torus, Translations


def push(t, x, xi, u):
    return u


OSCILLATOR = gn.System(Translations(1), metric=[1.0], potential=lambda x: x @ x / 2, forces=push, name="oscillator")
CART = gn.System(
    Translations(1), metric=lambda x, p: [[p["m"]]], forces=push, parameters={"m": 0.3, "A": np.eye(2)}, name="cart"
)
HEISENBERG = gn.System(
    Translations(3),
    metric=[1.0, 1.0, 1e-9],
    distribution=gn.Distribution(lambda x: [[x[1] / 2, -x[0] / 2, 1.0]]),
    forces=lambda t, x, xi, u: jnp.stack([u[0], u[1], 0.0 * u[0]]),
    parameters={"a": 0.3},
    name="Heisenberg",
)


@pytest.mark.slow
def test_a_driven_oscillator_follows_its_steady_state():
    """Of x − sin ωt and u = ẍ + x the cost is least of x = A sin ωt, A = 1/(1 + ρ(1 − ω²)²)."""
    w, rho, errors = 2.0, 0.3, []
    for K in (20, 40):
        options = {"n_controls": 1, "span": 2 * np.pi / w, "n_steps": K, "periodic": ["vx"], "tries": 1}
        found = optimal_control(OSCILLATOR, **options, cost=lambda t, g, u: (g[0] - jnp.sin(w * t)) ** 2 + rho * u @ u)
        size = 1 / (1 + rho * (1 - w**2) ** 2)
        errors.append(np.abs(found.g[:, 0] - size * np.sin(w * found.t)).max())
        np.testing.assert_allclose(found.xi[-1], found.xi[0], atol=1e-13)
        np.testing.assert_allclose(found.trajectory().g, found.g, atol=1e-14)
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 0.3
    assert errors[1] < 1e-6


@pytest.mark.slow
def test_a_mass_is_found_with_its_motion():
    """∫u² + c/m from rest to rest is 12m²d²/T³ + cT/m, least at m³ = cT⁴/(24d²)."""
    options = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 4, "tries": 1}
    options["cost"] = lambda t, g, u, p: u @ u + 3.0 / p["m"]
    found = optimal_control(CART, **options, design={"m": (0.1, 5.0)})
    assert abs(float(found.system.parameters["m"]) - 2 ** (1 / 3)) < 1e-9
    np.testing.assert_allclose(found.trajectory().g, found.g, atol=1e-14)
    bound = optimal_control(CART, **options, design={"m": (0.1, 1.0)}, guess=found)
    assert abs(float(bound.system.parameters["m"]) - 1) < 1e-6
    assert abs(bound.cost - 7.5) < 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"design": {"M": (0.0, 1.0)}}, r"design: cart has no parameter 'M', it has \['A', 'm'\]"),
        ({"design": {"m": 1.0}}, r"design\['m'\] must be \(lower, upper\)"),
        ({"design": {"A": ([0.0] * 3, 1.0)}}, r"design\['A'\] must be numbers, or of shape \[4\]"),
        ({"design": ["m"]}, "design must be a mapping"),
        ({"periodic": ["x"]}, "periodic: .* are not velocity components"),
        ({"periodic": "vx"}, "periodic must be a list"),
        ({"periodic": ["vx"], "free": ["vx"]}, r"\['vx'\] cannot be both free and periodic"),
        ({"periodic": [], "xi_start": [1.0]}, "xi_start and xi_end are unknown of a periodic motion"),
        ({"periodic": ["vx"]}, "end has no effect"),
    ],
)
def test_bad_input_is_named(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        optimal_control(CART, **{"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 4} | options)


@pytest.mark.slow
def test_the_least_effort_for_an_area_is_that_of_a_circle():
    """A closed plane curve about the area a in the time T, of least ∫|ẍ|²dt: a circle, 16π³a/T³.

    Of a Fourier series Σc_n exp(2πint/T) the area is πΣn|c_n|², the cost TΣ(2πn/T)⁴|c_n|²: least by n = 1 alone.
    """
    area, span, errors = 0.5, 2.0, []
    for K in (20, 40, 80):
        found = optimal_control(
            HEISENBERG, end=[0.0, 0.0, area], n_controls=2, span=span, n_steps=K, periodic=[], tries=1
        )
        errors.append(abs(found.cost - 16 * np.pi**3 * area / span**3))
        np.testing.assert_allclose(found.u[-1], found.u[0], atol=100 / K**2)  # costates of the ends are equal
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 4, atol=0.1)
    free = optimal_control(
        HEISENBERG,
        end=[0.0, 0.0, area],
        n_controls=2,
        span=4.0,
        n_steps=40,
        periodic=[],
        free_span=True,
        cost=lambda t, g, u: 1 + u @ u,
        tries=1,
    )
    assert abs(free.t[-1] - (48 * np.pi**3 * area) ** 0.25) < 1e-5


@pytest.mark.slow
def test_the_cost_of_transport_is_least_over_the_way_too():
    """The displacement a is a parameter: (T + 16π³a/T³ + 4a²T)/a is least at a = 1/2."""

    def displaced(t, g, xi, u, p):
        return g - jnp.stack([0.0, 0.0, p["a"]])

    found = optimal_control(
        HEISENBERG,
        n_controls=2,
        span=4.0,
        n_steps=40,
        periodic=[],
        cost=lambda t, g, u, p: (1 + u @ u + 4 * p["a"] ** 2) / p["a"],
        terminal=(displaced, 0.0, 0.0),
        design={"a": (0.1, 3.0)},
        tries=1,
    )
    assert abs(float(found.system.parameters["a"]) - 0.5) < 1e-6
    assert abs(found.cost / (16 + 16 * np.pi**3 / 64) - 1) < 1e-6


def snakeboard(drag):
    def forms(x, p):
        c, s = p["r"] * jnp.cos(x[0]), jnp.sin(x[0])
        return [[c, s, -jnp.cos(x[0]), 0.0, 0.0], [-c, -s, -jnp.cos(x[0]), 0.0, 0.0]]

    metric = np.diag([1.5, 1.0, 1.0, 0.5, 0.5])
    metric[0, 3] = metric[3, 0] = 0.5
    return gn.System(
        Product((SE2(), Torus(2, ("psi", "phi")))),
        metric=metric,
        distribution=gn.Distribution(forms),
        parameters={"r": 0.5},
        base=("phi",),
        forces=lambda t, x, xi, u: jnp.concatenate([-drag * xi[:3], u]),
        name="snakeboard",
    )


@pytest.mark.slow
def test_a_gait_of_a_snakeboard_goes_on():
    """With drag a metre in 6 s: begun where the phase is best, in any direction, and run for three periods."""

    def metre(t, g, xi, u):
        return jnp.stack([g[0][0], g[0][1] ** 2 + g[0][2] ** 2, g[1][0]])

    board, options = snakeboard(0.2), {"n_controls": 2, "span": 6.0, "n_steps": 40, "periodic": ["phi_dot"]}
    along = optimal_control(board, **options, end=([0.0, 1.0, 0.0], [0.0, 0.0]))
    anywhere = optimal_control(board, **options, terminal=(metre, [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]), guess=along)
    assert abs(anywhere.cost / along.cost - 1) < 1e-6
    assert abs(along.u[-1] - along.u[0]).max() < 1e-3 * abs(along.u).max()
    g, xi = [a[0] for a in along.g], along.xi[0]
    for period in (1, 2, 3):
        run = gn.solve(board, "rkmk4", g0=g, xi0=xi, dt=0.15, n_steps=40, controls=along.control)
        g, xi = [a[-1] for a in run.g], run.xi[-1]
        np.testing.assert_allclose(g[0], [0.0, period, 0.0], atol=1e-9)
    np.testing.assert_allclose(xi, along.xi[0], atol=1e-9)

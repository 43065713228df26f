"""Every system of the catalogue: equations, exact solutions, first integrals, measured orders."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue

NAMES = sorted(catalogue)
CONSTANT = {"heisenberg"}  # GNI is exact here: there is no error to measure an order of
DEPENDS_ON_BASE = {  # ℓ depends on the base point, so that the two rectangle rules differ and are of first order
    "contact-oscillator",
    "contact-oscillator-nonreversible",
    "elroys-beanie",
    "heavy-top",
    "knife-edge",
    "nonholonomic-oscillator",
}
ROLLING = {"rolling-disc", "eulers-disc", "rattleback", "routh-sphere", "sphere-in-cylinder"}
"""On SE(3), with a contact: compiled in some ten seconds each, and too fast for the steps below."""
ALTERNATE = {"whipple-bicycle"}  # GNI alternates within a second
KINDS = {
    "chaplygin-sleigh",
    "contact-oscillator-nonreversible",
    "controlled-snakeboard",
    "double-pendulum",
    "heavy-top",
    "heisenberg-group",
    "rolling-ball",
    "snakeboard",
    "suslov",
}
"""One of each kind: group, product, vector space; constant, turning, affine, holonomic, controlled; more on demand."""
QUICKER = KINDS - {"double-pendulum"}
SPAN = 1.6
STEPS = np.array([40, 80, 160, 320])


def some(names, kinds=KINDS):
    """Names as parameters, one of each kind, the others on demand."""
    return [pytest.param(n, marks=[pytest.mark.slow] * (n not in kinds)) for n in names]


def build(name):
    entry = catalogue[name]
    system = entry.system()
    return entry, system, entry.start(system)


def errors(entry, system, start, method, steps=STEPS):
    """Largest error in (g, ξ) at the end, for each number of steps."""
    options = {"g0": start.g0, "xi0": start.xi0, "controls": entry.controls}
    g, xi = gn.mechanics.reference_trajectory(system, [0.0, SPAN], start.xi0, start.g0, controls=entry.controls)
    end = np.concatenate([np.asarray(system.group.to_vector(g))[-1], xi[-1]])
    result = []
    for n in steps:
        run = gn.solve(system, method, dt=SPAN / n, n_steps=int(n), **options)
        result.append(np.abs(np.concatenate([run.g_vector[-1], run.xi[-1]]) - end).max())
    return np.array(result)


def slope(steps, error):
    return -np.polyfit(np.log(steps), np.log(error), 1)[0]


@pytest.mark.parametrize("name", NAMES)
def test_entry_is_complete(name):
    entry, system, _ = build(name)
    assert system.name.startswith(name) or name.startswith(system.name)
    assert gn.systems.catalogue.name_of(system) == entry.name
    assert set(inspect.signature(entry.build).parameters) == set(entry.parameters)
    with pytest.raises(ValueError, match="no parameter wrong"):
        entry.system(wrong=1.0)


@pytest.mark.parametrize("name", some(NAMES))
def test_entry_is_consistent(name):
    _, system, start = build(name)
    x = system.action.at(system.point(start.g0))
    assert np.abs(system.constraint_residual(x, jnp.asarray(start.xi0))).max(initial=0) <= 1e-15
    report = system.check(at=None if system.holonomic is None else start.g0)
    assert report.ok, str(report)
    for body in system.draw(0.0, system.point(start.g0), system.parameters):
        assert np.shape(body.at.x) == (3,)
        assert np.all(np.isfinite(body.at.R))
        assert body.name == "spring" or abs(np.linalg.det(body.at.R) - 1) < 1e-6  # a spring stretches


@pytest.mark.parametrize("name", [n for n in NAMES if catalogue[n].exact is not None])
def test_exact_solution_solves_the_equations(name):
    entry, system, start = build(name)
    times = np.linspace(0, 3.0, 7)
    g, xi = gn.mechanics.reference_trajectory(system, times, start.xi0, start.g0)
    exact_g, exact_xi = entry.exact(system, start, times)
    np.testing.assert_allclose(xi, exact_xi, atol=1e-10)
    if exact_g is not None:
        np.testing.assert_allclose(system.group.to_vector(g), system.group.to_vector(exact_g), atol=1e-10)


@pytest.mark.parametrize("rule", ["trapezoid", pytest.param("midpoint", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", some([n for n in NAMES if n not in CONSTANT | ROLLING | ALTERNATE], QUICKER))
def test_symmetric_rules_are_of_second_order(name, rule):
    measured = slope(STEPS, errors(*build(name), gn.GNI(rule)))
    assert 1.9 <= measured <= 2.1, measured


@pytest.mark.parametrize("rule", ["left", "right"])
@pytest.mark.parametrize("name", some(sorted(DEPENDS_ON_BASE)))
def test_rectangle_rules_are_of_first_order(name, rule):
    steps = 10 * STEPS  # the first-order term dominates only for small steps, on the fast heavy top above all
    measured = slope(steps, errors(*build(name), gn.GNI(rule), steps))
    assert 0.9 <= measured <= 1.1, measured


@pytest.mark.parametrize("name", ["chaplygin-sphere", "heavy-top", "snakeboard", "suslov", "rolling-ball"])
@pytest.mark.quick("suslov", "snakeboard")
def test_exp_and_exact_first_multiplier_are_of_second_order(name):
    measured = slope(STEPS, errors(*build(name), gn.GNI(retraction="exp", start="multiplier")))
    assert 1.9 <= measured <= 2.1, measured


@pytest.mark.parametrize("name", some(NAMES))
def test_the_default_keeps_the_constraint(name):
    entry, system, start = build(name)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=entry.n_steps, controls=entry.controls)
    assert run.success
    speed = 1 + np.abs(run.xi).max()
    assert np.abs(run.constraint_residual).max(initial=0) <= 2e-15 * speed * (1 + np.abs(run.g_vector).max())


ROUNDING = [
    ("nonholonomic-particle", "energy at p⁻"),
    ("nonholonomic-particle", "p_y"),
    ("snakeboard", "energy at p⁻"),
    ("snakeboard", "rotor momentum"),
    ("snakeboard", "axle momentum"),
    ("chaplygin-sleigh", "energy at p⁻"),
    ("elroys-beanie", "spatial momentum"),
    ("rolling-ball", "K"),
    ("rolling-ball", "moving energy"),
    ("chaplygin-sphere", "K"),
    ("knife-edge", "spin"),
    ("knife-edge", "energy at p⁻"),
    ("vertical-disk", "energy at p⁻"),
    ("roller-racer", "energy at p⁻"),
    ("snakeboard-absolute", "energy at p⁻"),
    ("heisenberg-group", "energy at p⁻"),
    ("veselova", "horizontal momentum"),
    ("heavy-top", "vertical momentum"),
    ("heisenberg", "p_z"),
    ("heisenberg", "angular momentum"),
]


def random_start(system, seed, scale=1.0):
    """A random consistent start."""
    rng = np.random.default_rng(seed)
    g0 = jax.tree.map(np.asarray, system.group.exp(jnp.asarray(scale * rng.normal(size=system.group.dim))))
    made = system.project(g0, rng.normal(size=system.group.dim))
    return (g0, made) if system.holonomic is None else made


def random_parameters(name, rng):
    """Parameters of the catalogue's defaults, each scaled by a factor in [0.7, 1.4]."""
    result = {}
    for key, value in catalogue[name].defaults.items():
        if isinstance(value, int | float):
            result[key] = float(value) * rng.uniform(0.7, 1.4)
        elif not isinstance(value, str) and np.ndim(value) == 1 and key not in ("a", "chi", "moments"):
            result[key] = np.asarray(value) * rng.uniform(0.7, 1.4, size=len(value))
    return result


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "what"), ROUNDING)
def test_what_gni_keeps_to_rounding(name, what, seed):
    system = catalogue[name].system(**random_parameters(name, np.random.default_rng(seed)))
    g0, xi0 = random_start(system, seed, scale=0.4)
    n = 400
    run = gn.solve(system, gn.GNI(), g0=g0, xi0=xi0, dt=0.01, n_steps=n, throw=False)
    assert len(run) > 50
    value = run.energy_minus if what == "energy at p⁻" else run.integrals[what]
    assert np.abs(value - value[0]).max() <= 1e-14 * n * (1 + np.abs(value).max())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), ROUNDING)
def test_what_the_projection_keeps_to_rounding(name, what):
    """The same at p̃, which is all that it has."""
    system = catalogue[name].system(**random_parameters(name, np.random.default_rng(1)))
    g0, xi0 = random_start(system, 1, scale=0.4)
    run = gn.solve(system, gn.SymmetricProjection(), g0=g0, xi0=xi0, dt=0.01, n_steps=400, throw=False)
    assert len(run) > 50
    value = run.energy if what == "energy at p⁻" else run.integrals[what]
    assert np.abs(value - value[0]).max() <= 1e-14 * 400 * (1 + np.abs(value).max())


@pytest.mark.parametrize("name", some([n for n in NAMES if catalogue[n].controls is None], QUICKER))
def test_first_integrals_and_energy_along_the_exact_motion(name):
    rng = np.random.default_rng(5)
    system = catalogue[name].system(**random_parameters(name, rng))
    g0, xi0 = random_start(system, 5, scale=0.4)
    times = np.linspace(0, 1.0, 5)
    g, xi = gn.mechanics.reference_trajectory(system, times, xi0, g0)

    def invariants(g, xi):
        x = system.action.at(g)
        p = system.momentum(x, xi)
        values = [jnp.ravel(i.function(g, xi, p, system.parameters)) for i in system.first_integrals.values()]
        if not isinstance(system.distribution, gn.AffineDistribution):
            values.append(system.energy(x, p)[None])
        return jnp.concatenate(values), system.constraint_residual(x, xi)

    values, residual = jax.vmap(invariants)(g, xi)
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), rtol=1e-10, atol=1e-10)
    assert np.abs(residual).max(initial=0) < 1e-10


def test_the_wheels_of_the_robot_tell_its_heading():
    entry, system, start = build("two-wheeled-robot")
    run = gn.solve(system, "rkmk4", xi0=start.xi0, dt=0.02, n_steps=200, controls=entry.controls)
    assert abs(run.g[0][-1, 0]) > 0.1
    np.testing.assert_allclose(run.integrals["heading"], 0.0, atol=1e-9)

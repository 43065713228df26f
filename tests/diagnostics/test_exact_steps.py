"""Exact discrete steps against closed forms, their variations, and the order of methods against them."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.diagnostics import exact_discrete_lagrangian, exact_step
from geonh.groups import SO3, Translations
from geonh.groups.retraction import Exponential
from geonh.integrators.discretisation import RULES
from geonh.mechanics import multipliers


def spring(x):
    return 0.5 * x @ x


@functools.cache
def oscillator():
    return gn.System(Translations(1), metric=[1.0], potential=spring, name="oscillator")


@pytest.mark.slow
def test_the_oscillator_in_closed_form():
    # l_d(x, y) = ((x² + y²) cos h − 2xy)/(2 sin h)
    x, v, h = 0.7, -0.4, 0.8
    y = x * np.cos(h) + v * np.sin(h)
    exact = ((x * x + y * y) * np.cos(h) - 2 * x * y) / (2 * np.sin(h))
    step = exact_step(oscillator(), xi0=[v], g0=[x], dt=h)
    assert abs(step.W[0] - (y - x)) < 1e-13
    assert abs(step.lagrangian - exact) < 1e-13
    assert step.error < 1e-13
    back = exact_discrete_lagrangian(oscillator(), [y - x], g0=[x], dt=h)
    assert abs(back.xi0[0] - v) < 1e-13
    assert abs(back.lagrangian - exact) < 1e-13
    earlier = exact_discrete_lagrangian(oscillator(), [x * np.cos(h) - v * np.sin(h) - x], g0=[x], dt=-h)
    assert abs(earlier.xi0[0] - v) < 1e-13


@pytest.mark.slow
def test_long_steps_are_resolved_or_refused():
    x, v = 0.7, -0.4
    for h in (6.0, 12.0, 30.0):
        step = exact_step(oscillator(), xi0=[v], g0=[x], dt=h)
        assert abs(step.W[0] - (x * np.cos(h) + v * np.sin(h) - x)) < 1e-13 + step.error
        assert step.error < 1e-8
    for h in (100.0, 200.0):
        with pytest.raises(ValueError, match="too long for oscillator"):
            exact_step(oscillator(), xi0=[v], g0=[x], dt=h)
    body = gn.System(SO3(), metric=[1.0, 1.0, 2.0], name="body")
    for spin in (5.0, 20.0):  # several turns: W is the product of two rotations
        omega = np.array([0.3, 0.0, spin])
        about_momentum, about_axis = np.array([0.3, 0.0, 2 * spin]), np.array([0.0, 0.0, -spin])
        exact = SO3().compose(SO3().exp(about_momentum), SO3().exp(about_axis))
        np.testing.assert_allclose(exact_step(body, xi0=omega, dt=1.0).W, exact, atol=1e-11)
    with pytest.raises(ValueError, match="turns the body by 200 rad"):
        exact_step(body, xi0=[0.0, 0.0, 200.0], dt=1.0)


@pytest.mark.slow
def test_without_constraints_its_legendre_transforms_are_the_momenta():
    top = gn.systems.heavy_top(J=(1.0, 1.3, 0.5))
    R = np.asarray(SO3().exp([0.4, -0.2, 0.3]))
    step = exact_step(top, xi0=[0.5, -0.3, 1.2], g0=R, dt=0.3)

    def at(eta):
        W = SO3().compose(step.W, np.asarray(SO3().exp(eta)))
        return exact_discrete_lagrangian(top, W, g0=R, dt=0.3).lagrangian

    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # of central differences
    slope = [sum(w * (at(k * 0.02 * e) - at(-k * 0.02 * e)) for k, w in weights.items()) / 0.02 for e in np.eye(3)]
    np.testing.assert_allclose(slope, np.array([1.0, 1.3, 0.5]) * step.xi1, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_order_of_the_discrete_lagrangians(rule):
    top = gn.systems.heavy_top(J=(1.0, 1.3, 0.5))
    xi, errors, sizes = np.array([1.1, 0.7, -0.8]), [], np.array([0.025, 0.0125, 0.00625, 0.003125])
    R = np.asarray(SO3().exp([0.4, -0.2, 0.3]))
    for h in sizes:
        step = exact_step(top, xi0=xi, g0=R, dt=h)
        with gn.float64():
            zeta = SO3().log(step.W)
            x = top.at(R)
            value = RULES[rule]()(top, Exponential(), h, x, jnp.asarray(zeta), top.action.act(x, step.W))
        errors.append(abs(float(value) - step.lagrangian))
    order = {"left": 1, "right": 1, "trapezoid": 2, "midpoint": 2}[rule]
    assert abs(np.polyfit(np.log(sizes), np.log(errors), 1)[0] - order - 1) < 0.1


@functools.cache
def motion(name, seconds):
    """System, start and end of a motion."""
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    step = exact_step(system, xi0=start.xi0, g0=start.g0, dt=seconds)
    return system, start, np.asarray(system.group.compose(system.point(start.g0), step.W))


FEWEST = {1: 40, 2: 16, 4: 16, 5: 32, 6: 6, 8: 4}
"""Least number of steps in a second, by the order of a method."""
OTHERS = {"variational": ("heavy-top", 1), "rkmk8": ("suslov", 1)}


@pytest.mark.slow
@pytest.mark.parametrize("name", gn.methods)
def test_order_of_every_method(name):
    of, seconds = OTHERS.get(name, ("contact-oscillator", 3))
    system, start, end = motion(of, float(seconds))
    method = gn.integrators.Feedback(1.0, "rk4") if name == "feedback" else gn.methods[name].make()
    order = method.guarantees.order
    counts = seconds * FEWEST[order] * np.array([2, 3, 4, 6]) // 2
    errors = [
        np.abs(gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=seconds / n, n_steps=int(n)).g[-1] - end).max()
        for n in counts
    ]
    assert abs(-np.polyfit(np.log(counts), np.log(errors), 1)[0] - order) < 0.1


@pytest.mark.slow
def test_closed_forms_with_constraints():
    entry = gn.systems.catalogue["chaplygin-sleigh"]
    sleigh = entry.system()
    start = entry.start(sleigh)
    g, xi = entry.exact(sleigh, start, np.array([0.0, 0.9]))
    step = exact_step(sleigh, xi0=start.xi0, dt=0.9)
    np.testing.assert_allclose(step.W, g[-1], atol=1e-13)
    np.testing.assert_allclose(step.xi1, xi[-1], atol=1e-13)
    assert abs(step.lagrangian - 0.9 * (0.5 * 1.04 * 0.8**2 + 0.125)) < 1e-13  # ℓ is the energy, which is kept
    back = exact_discrete_lagrangian(sleigh, step.W, dt=0.9)
    np.testing.assert_allclose(back.xi0, start.xi0, atol=1e-12)
    assert abs(back.lagrangian - step.lagrangian) < 1e-12
    with pytest.raises(ValueError, match="not on the exact discrete constraint"):
        exact_discrete_lagrangian(sleigh, np.add(step.W, [0.0, 0.0, 0.05]), dt=0.9)
    with pytest.raises(ValueError, match="without constraints on positions"):
        exact_step(gn.systems.double_pendulum(), xi0=np.zeros(4), dt=0.1)


@pytest.mark.slow
def test_the_variation_of_the_lagrangian_has_the_work_of_the_reactions():
    # δl_d = ⟨p₁, η₁⟩ − ∫ λ·μη dt of η that begins at zero, on R³ with ż = yẋ
    system = gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1.0],
        distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]),
        potential=lambda x: 0.3 * x[0] ** 2 + 0.2 * x[2],
        name="particle",
    )
    g, h, small = np.array([0.1, 0.4, -0.2]), 0.6, 1e-3
    xi = np.array([0.9, -0.5, 0.36])
    for row in (np.array([1.0, 0.0, 0.4]), np.array([0.0, 1.0, 0.0])):
        steps = {k: exact_step(system, xi0=xi + k * small * row, g0=g, dt=h) for k in (-2, -1, 0, 1, 2)}

        def slope(values):
            return (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * small)

        change = slope({k: step.lagrangian for k, step in steps.items()})
        ends = slope({k: step.W for k, step in steps.items()})
        runs = {k: gn.solve(system, "rkmk8", xi0=xi + k * small * row, g0=g, dt=h / 40, n_steps=40) for k in steps}
        eta = slope({k: run.g for k, run in runs.items()})
        middle = runs[0]
        lam = np.array([multipliers(system, 0.0, q, v) for q, v in zip(middle.g, middle.xi, strict=True)])[:, 0]
        power = lam * (eta[:, 2] - middle.g[:, 1] * eta[:, 0])
        simpson = np.array([1, *([4, 2] * 19), 4, 1]) * h / 120
        assert abs(simpson @ power) > 1e-4
        assert abs(change - steps[0].xi1 @ ends + simpson @ power) < 1e-8

"""Lobatto IIIA–IIIB with multipliers of one polynomial: orders, adjointness, composition, nothing that alternates."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import contracting, controls, forced, general, random_system, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect
from geonh.engine import jacobian
from geonh.engine.compiled import computed
from geonh.integrators import RATTLE, Lobatto
from geonh.integrators.base import Clock
from geonh.systems import catalogue

STEPS = {2: (20, 40, 80), 3: (8, 12, 16, 24), 4: (5, 6, 8, 10)}


@pytest.mark.parametrize(
    ("stages", "system"),
    [
        (2, random_system("R3", affine=True)),
        (3, random_system("SO3", affine=True)),
        pytest.param(3, random_system("R4", affine=True, m=2), marks=pytest.mark.slow),
        pytest.param(4, random_system("R3", affine=True), marks=pytest.mark.slow),
        pytest.param(2, random_system("SO3", affine=True), marks=pytest.mark.slow),
        pytest.param(4, random_system("SO3", affine=True), marks=pytest.mark.slow),
        pytest.param(3, general(), marks=pytest.mark.slow),
    ],
)
@pytest.mark.quick("2-system0")
def test_orders_on_affine_systems(stages, system):
    method = Lobatto(stages)
    assert method.order == 2 * stages - 2
    assert abs(slope(system, method, STEPS[stages], **start(system)) - method.order) <= 0.15


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_orders_with_forces_and_controls(stages):
    at = {"xi0": forced().project(None, [0.8, -0.4, 0.6]), "controls": controls}
    steps = tuple(np.array(STEPS[stages]) // (2 if stages == 4 else 1))
    assert abs(slope(forced(), Lobatto(stages), steps, **at) - Lobatto(stages).order) <= 0.2


@pytest.mark.parametrize("stages", [2, *(pytest.param(s, marks=pytest.mark.slow) for s in (3, 4))])
@pytest.mark.parametrize("group", ["R3", pytest.param("SO3", marks=pytest.mark.slow)])
def test_it_is_its_own_adjoint(group, stages):
    system, method = random_system(group, affine=True), Lobatto(stages)
    assert method.adjoint() is method
    assert adjoint_defect(system, method, method, dt=0.05, **start(system)) < 1e-12


@pytest.mark.slow
def test_it_composes():
    """Of order 4 by three stages and of order 6 by Suzuki's sequence of it; of two stages, 4."""
    system = random_system("SO3")
    assert abs(slope(system, gn.compose(Lobatto(2), "suzuki4"), (8, 12, 16, 24), **start(system)) - 4) <= 0.15


@pytest.mark.slow
def test_two_stages_are_not_rattle():
    """RATTLE's multiplier at the first node is that of the step before; here it is the last one's of the same step."""
    system = random_system("R3", constant_metric=True)
    options = {"dt": 0.03, "n_steps": 60, **start(system)}
    lobatto, rattle = (gn.solve(system, method, **options) for method in (Lobatto(2), RATTLE()))
    gap = np.abs(lobatto.xi - rattle.xi).max()
    assert 1e-6 < gap < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("name", ["suslov", "contracting"])
def test_nothing_alternates(name, stages):
    """Over runs in which the multipliers of the papers' form, one taken from the step before, spoil everything."""
    system, at = (gn.systems.suslov(), {"xi0": [0.4, 1.0, 0.0]}) if name == "suslov" else contracting()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gn.solve(system, Lobatto(stages), dt=0.04, n_steps=2500, **at)
    first = np.diff(run.xi, axis=0)
    assert np.abs(np.diff(first, axis=0)).max() < 0.5 * np.abs(first).max()
    assert np.abs(run.energy / run.energy[0] - 1).max() < (0.02 if stages == 2 else 1e-4)


@pytest.mark.slow
def test_the_way_the_forms_are_written_does_not_matter():
    at = start(random_system("SE2xT1", affine=True, m=2))
    runs = [
        gn.solve(random_system("SE2xT1", affine=True, m=2, mixed=mixed), Lobatto(3), dt=0.05, n_steps=40, **at)
        for mixed in (False, True)
    ]
    np.testing.assert_allclose(runs[0].g_vector, runs[1].g_vector, rtol=0, atol=1e-11)


def test_other_numbers_of_stages_are_refused():
    with pytest.raises(ValueError, match="stages must be one of"):
        Lobatto(5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("rolling-disc", marks=pytest.mark.slow), "chaplygin-sphere"])
def test_one_jacobian_serves_many_steps(name):
    """That of the equations changes little in two steps, with holonomic constraints too."""
    entry, method = catalogue[name], Lobatto(3)
    system = entry.system()
    begin = entry.start(system)
    clock = Clock(np.float64(0.0), np.float64(entry.dt))

    def slope_at_guess(tree, state):
        method, system, clock = tree
        equations = method.equations(system, clock, state)
        return jacobian(equations.residual, equations.guess)

    runs = [gn.solve(system, method, g0=begin.g0, xi0=begin.xi0, dt=entry.dt, n_steps=n) for n in (20, 22)]
    before, after = (computed(slope_at_guess, (method, system, clock), run.state) for run in runs)
    changes = np.linalg.solve(before, after) - np.eye(len(before))
    assert np.linalg.norm(changes, 2) < 0.3


@pytest.mark.parametrize("unit", [1e9, 1e-9])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.quick("2-1000000000.0")
def test_a_unit_of_time_changes_nothing(stages, unit):
    """Nanoseconds, or thousands of millions of seconds; with a form that turns, so that its multiplier is not zero."""

    def end(unit):
        system = gn.System(
            gn.groups.Translations(3),
            metric=[1.0, 2.0, 1.0],
            potential=lambda x: (x @ x + x[0] ** 2 * x[1] ** 2) / (2 * unit**2),
            distribution=gn.Distribution(lambda x: jnp.stack([-x[1], 0 * x[0], 1 + 0 * x[0]])[None]),
        )
        g0 = [0.3, 0.4, 0.1]
        xi0 = system.project(g0, np.array([0.7, 0.2, 0.3]) / unit)
        return gn.solve(system, gn.integrators.Lobatto(stages), xi0=xi0, g0=g0, dt=0.02 * unit, n_steps=200).g[-1]

    np.testing.assert_allclose(end(unit), end(1.0), atol=1e-13)

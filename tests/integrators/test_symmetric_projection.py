"""The symmetric projection: order, adjointness, what it keeps, how it composes, and that nothing of it alternates."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import OPTIONS, contracting, controls, forced, general, random_system, same_run, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect
from geonh.groups import SO3, Translations
from geonh.integrators import Variational
from geonh.integrators.validity import Result
from geonh.systems import catalogue

PROJECTED = gn.SymmetricProjection()
SYSTEMS = {  # name: system, and what a run takes besides the start
    "R3": (random_system("R3"), {}),
    "SO3 affine": (random_system("SO3", affine=True), {}),
    "m = 2, affine": (random_system("SE2xT1", affine=True, m=2), {}),
    "m = 3": (random_system("HeisxSE2", m=3), {}),
    "general ℓ, affine": (general(), {}),
    "controls": (forced(), {"controls": controls}),
}
QUICK = ("SO3 affine", "m = 2, affine")


def named(*quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS]


# --- order and symmetry --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", named(*QUICK))
@pytest.mark.quick("SO3 affine")
def test_order_two(name):
    system, options = SYSTEMS[name]
    assert abs(slope(system, PROJECTED, **start(system, speed=1.0), **options) - 2) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "order"), [("midpoint", 2), ("left", 1), ("right", 1)])
def test_order_with_other_rules(rule, order):
    """Projected symmetrically or not, a rule of order 1 stays of order 1."""
    system = random_system("SO3", affine=True)
    steps = np.array([40, 80, 160, 320]) * (1 if order == 2 else 8)
    assert abs(slope(system, gn.SymmetricProjection(rule, "exp"), steps, **start(system, speed=1.0)) - order) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SYSTEMS if n != "controls"])
def test_it_is_its_own_adjoint(name):
    """Two steps there and two back with −h, nothing kept on the way but (g, p̃); f and ℓ may depend on the velocity."""
    system, _ = SYSTEMS[name]
    assert adjoint_defect(system, PROJECTED, PROJECTED, dt=0.05, **start(system)) < 2e-13


@pytest.mark.slow
def test_the_left_rule_is_not_symmetric_and_its_adjoint_is_the_right_rule():
    system, left = random_system("SO3", affine=True), gn.SymmetricProjection("left")
    at = start(system)
    assert adjoint_defect(system, left, left, dt=0.05, **at) > 1e-5
    assert adjoint_defect(system, left, left.adjoint(), dt=0.05, **at) < 1e-13


@pytest.mark.slow
def test_there_and_back():
    system = random_system("SE2xT1", affine=True, m=2)
    there = gn.solve(system, PROJECTED, dt=0.03, n_steps=200, save_every=10, **start(system))
    back = gn.solve(
        system, PROJECTED, g0=there.state.g, xi0=there.xi[-1], t0=there.t[-1], dt=-0.03, n_steps=200, save_every=10
    )
    np.testing.assert_allclose(back.g_vector[-1], there.g_vector[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(back.xi[-1], there.xi[0], rtol=0, atol=1e-11)


# --- the constraint, and how it is written -------------------------------------------------------------------
@pytest.mark.slow
def test_the_way_the_forms_are_written_does_not_matter():
    """Forms multiplied by an invertible matrix that depends on the point: the same steps."""
    runs = [
        gn.solve(s, PROJECTED, dt=0.05, n_steps=60, save_every=10, **start(random_system("SE2xT1", affine=True, m=2)))
        for s in (random_system("SE2xT1", affine=True, m=2, mixed=mixed) for mixed in (False, True))
    ]
    same_run(*runs, 2e-13)
    for run in runs:
        assert np.abs(run.constraint_residual).max() < 1e-13


@pytest.mark.slow
def test_the_way_three_forms_are_written_does_not_matter():
    """m = 3, where the polar factor is found by iteration."""
    at = start(random_system("HeisxSE2", m=3))
    runs = [
        gn.solve(random_system("HeisxSE2", m=3, mixed=mixed), PROJECTED, dt=0.02, n_steps=100, **at)
        for mixed in (False, True)
    ]
    same_run(*runs, 1e-12)


@pytest.mark.slow
def test_without_constraints_it_is_the_variational_integrator_to_the_bit():
    system = random_system("SO3", constrained=False)
    same_run(*(gn.solve(system, m, **start(system), **OPTIONS) for m in (PROJECTED, Variational())), 0)


@pytest.mark.slow
def test_without_constraints_but_with_forces_it_is_the_variational_integrator():
    """The same averages; of the node it keeps no more, where Variational keeps the impulse of the force."""
    system = gn.System(SO3(), metric=[1.0, 1.5, 2.0], potential=lambda R: R[2, 0], forces=lambda t, R, xi, u: -0.2 * xi)
    at = {"xi0": [0.4, -0.7, 1.0]}
    one, other = (gn.solve(system, m, **at, **OPTIONS) for m in (PROJECTED, Variational()))
    for a, b in ((one.g_vector, other.g_vector), (one.p, other.p)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


# --- what is kept to rounding --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "span", "bound"),
    [
        ("chaplygin-sleigh", 200.0, 1e-12),
        pytest.param("roller-racer", 100.0, 1e-12, marks=pytest.mark.slow),
        pytest.param("snakeboard", 4.0, 1e-13, marks=pytest.mark.slow),
    ],
)
def test_energy_at_the_nodes_of_planar_bodies(name, span, bound):
    """|F⁺| = |F⁻| and linear constraints: to rounding, at p̃, while the sleigh settles and GNI's p̃ loses all."""
    entry = catalogue[name]
    system = entry.system()
    begin = entry.start(system)
    run = gn.solve(system, PROJECTED, g0=begin.g0, xi0=begin.xi0, dt=0.02, n_steps=round(span / 0.02))
    assert np.ptp(run.energy) < bound * run.energy[0]
    assert np.abs(run.constraint_residual).max() < 1e-13


def test_energy_of_a_ball_under_any_constraint():
    """Bi-invariant ℓ on SO(3), a distribution that turns with the body."""
    rng = np.random.default_rng(0)
    a, B = rng.normal(size=(1, 3)), 0.2 * rng.normal(size=(1, 3, 9))
    forms = lambda R: a + jnp.tensordot(B, jnp.ravel(R), 1)  # noqa: E731
    system = gn.System(SO3(), metric=1.7 * np.eye(3), distribution=gn.Distribution(forms))
    run = gn.solve(system, PROJECTED, dt=0.05, n_steps=4000, **start(system))
    assert np.ptp(run.energy) < 1e-13 * run.energy[0]


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("J", [(0.4, 0.4, 0.4), (0.5, 0.6, 0.8)], ids=["homogeneous", "not homogeneous"])
@pytest.mark.quick("homogeneous-1.0", "not homogeneous-0.0")
def test_what_the_chaplygin_sphere_keeps(J, rate):
    """K to rounding whatever J and Ω; the moving energy (the energy, on a table at rest) to rounding if homogeneous."""
    entry = catalogue["chaplygin-sphere"]
    system = entry.system(J=J, table_rate=rate)
    begin, moved = entry.start(system), []
    for n in (500, 1000):
        run = gn.solve(system, PROJECTED, g0=begin.g0, xi0=begin.xi0, dt=25.0 / n, n_steps=n)
        K, moving = run.integrals["K"], run.integrals["moving energy"]
        assert np.abs(K - K[0]).max() < 1e-13
        moved.append(np.abs(moving - moving[0]).max())
    if len(set(J)) == 1:
        assert np.max(moved) < 5e-13
    else:
        assert moved[0] < 2e-3
        assert 3 < moved[0] / moved[1] < 4.5


@pytest.mark.parametrize("rule", ["trapezoid", pytest.param("midpoint", marks=pytest.mark.slow)])
def test_veselova_s_two_momenta(rule):
    entry = catalogue["veselova"]
    system = entry.system(J=(0.8, 1.3, 1.7))
    at = start(system, seed=3)
    run = gn.solve(system, gn.SymmetricProjection(rule), dt=0.05, n_steps=4000, **at)
    momentum = run.integrals["horizontal momentum"]
    assert np.abs(momentum - momentum[0]).max() < 1e-13


# --- composition ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("coefficients", "order", "steps"),
    [("suzuki4", 4, (8, 12, 16, 24)), pytest.param("kahan-li6", 6, (6, 8, 12, 16), marks=pytest.mark.slow)],
)
def test_composed_to_higher_order(coefficients, order, steps):
    system, method = random_system("SO3"), gn.compose(PROJECTED, coefficients)
    assert method.order == order
    assert abs(slope(system, method, steps, **start(system)) - order) <= 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SO3 affine", "general ℓ, affine"])
def test_composed_to_order_four_on_affine_systems(name):
    system = SYSTEMS[name][0]
    assert abs(slope(system, gn.compose(PROJECTED, "suzuki4"), (8, 12, 16, 24), **start(system, speed=1.0)) - 4) <= 0.15


# --- nothing alternates --------------------------------------------------------------------------------------
def unsteadiness(run):
    """Largest second difference of ξ relative to the largest first: of order h, and 2 where the sign alternates."""
    first = np.diff(run.xi, axis=0)
    return np.abs(np.diff(first, axis=0)).max() / np.abs(first).max()


@pytest.mark.quick("suslov")
@pytest.mark.parametrize(
    "name",
    ["suslov", "contracting", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sleigh", "contracting SE3"))],
)
def test_nothing_alternates_where_the_phase_space_contracts(name):
    """Over runs in which GNI is spoiled, the energy stays near and velocities move smoothly from node to node."""
    if name == "suslov":
        system, dt = gn.systems.suslov(), 0.02
        at = start(system, seed=1)
    elif name == "sleigh":
        system, at, dt = gn.systems.chaplygin_sleigh(), {"xi0": [0.8, 0.5, 0.0]}, 0.02
    else:
        system, at = contracting() if name == "contracting" else contracting("SE3")
        dt = 0.04
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gn.solve(system, PROJECTED, dt=dt, n_steps=round(200 / dt), **at)
    energy = np.abs(run.energy / run.energy[0] - 1).max()
    print(f"\n{name}: energy error {energy:.2e}, second difference {unsteadiness(run):.2e}")
    assert energy < 0.02
    assert unsteadiness(run) < 0.5
    assert run.spoiled_from is None


def test_a_settled_rotation_creeps_at_second_order():
    """A top of any inertia whose spin about a body axis is blocked turns steadily in the end. The reversal maps that
    rotation to another, so nothing bounds the energy: it creeps along the line of steady rotations, smoothly, by O(h²)
    (at |Ω| = 2.9 by 3 % in 40 s at h = 0.01)."""
    rng = np.random.default_rng(5)
    root = rng.normal(size=(3, 3))
    system = gn.systems.suslov(root @ root.T + np.eye(3), rng.normal(size=3))
    crept = []
    for dt in (0.01, 0.005):
        run = gn.solve(system, PROJECTED, dt=dt, n_steps=round(20 / dt), **start(system, seed=1))
        assert unsteadiness(run) < 0.1
        crept.append(np.abs(run.energy / run.energy[0] - 1).max())
    assert crept[0] < 0.02
    np.testing.assert_allclose(crept[0] / crept[1], 4, rtol=0, atol=0.3)


@pytest.mark.slow
def test_a_light_mass_across_the_constraint_is_the_limit():
    """ζ leaves D by (h/2)M⁻¹μᵀλ, so the error is of the size h²/mass where the potential pulls across the constraint.

    GNI's, which lets only the average be on D, does not know that mass.
    """

    def system(mass):
        return gn.System(
            Translations(3),
            metric=lambda q, p: jnp.diag(jnp.stack([1.0, 1.0, p["mass"]])),
            potential=lambda q: 0.5 * q @ q,
            parameters={"mass": mass},
            distribution=gn.Distribution(forms),
        )

    forms = lambda q: jnp.stack([-q[1], 0.0 * q[1], jnp.ones(())])[None]  # noqa: E731
    g0, result = np.array([0.3, -0.4, 0.2]), {}
    for mass in (0.1, 0.01):
        at = {"g0": g0, "xi0": system(mass).project(g0, [1.0, 0.5, 0.0])}
        for method in (PROJECTED, gn.GNI()):
            for n in (500, 1000):
                run = gn.solve(system(mass), method, dt=10 / n, n_steps=n, **at)
                result[mass, type(method), n] = np.ptp(run.energy) / run.energy[0]
    for mass in (0.1, 0.01):
        np.testing.assert_allclose(result[mass, gn.SymmetricProjection, 500] * mass, 6e-5, rtol=0.1)
        ratio = result[mass, gn.SymmetricProjection, 500] / result[mass, gn.SymmetricProjection, 1000]
        np.testing.assert_allclose(ratio, 4, rtol=0.05)
        assert result[mass, gn.GNI, 500] < 1e-4


@pytest.mark.slow
def test_a_push_sets_going_what_stands():
    """Where neither ξ nor λ is there to compare with: a roller racer at φ = 0, pushed at its hinge, as Gauss has it."""
    racer = gn.systems.roller_racer()
    pushed = gn.System(
        racer.group,
        metric=racer.metric,
        distribution=racer.distribution,
        forces=lambda t, x, xi, u: jnp.array([0.0, 0.0, 0.0, 1.0]),
        parameters=racer.parameters,
        base=racer.action,
    )
    run, exact = (gn.solve(pushed, m, xi0=np.zeros(4), dt=0.02, n_steps=50) for m in (PROJECTED, "gauss4"))
    np.testing.assert_allclose(run.xi, exact.xi, atol=2e-3)
    assert exact.xi[-1, 3] > 2.0


@pytest.mark.parametrize("form", [[1.0, 0.0], [1.0, 1.0]])
@pytest.mark.parametrize("rate", [jnp.sin, lambda t: t, lambda t: t * t])
@pytest.mark.quick("sin-form0", "<lambda>0-form1")
def test_a_constraint_that_sets_out_from_rest(rate, form):
    """At first nothing moves and nothing pulls: what leaves the constraint is of the size of all there is."""
    moved = gn.AffineDistribution([form], rhs=gn.time_dependent(lambda t, x: rate(t)[None]))
    system = gn.System(Translations(2), metric=np.eye(2), distribution=moved)
    for aside in (0.0, 1e-8, 1e-4):
        at = np.array([-form[1], form[0]]) * aside
        run, exact = (gn.solve(system, m, xi0=at, dt=0.01, n_steps=100) for m in (PROJECTED, "gauss4"))
        np.testing.assert_allclose(run.g, exact.g, atol=2e-5)


@pytest.mark.parametrize("stiffness", [0.0, 400.0, 6400.0])
@pytest.mark.quick("0.0")
def test_a_load_across_the_constraint_that_grows_from_nothing(stiffness):
    """With a spring across it too, hω = 0.2 and 0.8: the wall holds both."""
    system = gn.System(
        Translations(2),
        metric=np.eye(2),
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, v, u: jnp.stack([t - stiffness * x[0], t]),
    )
    run = gn.solve(system, PROJECTED, xi0=np.zeros(2), dt=0.01, n_steps=100)
    np.testing.assert_allclose(run.g[-1], [0.0, 1 / 6], atol=5e-5)
    np.testing.assert_allclose(run.xi[-1], [0.0, 0.5], atol=1e-12)


@pytest.mark.parametrize("load", [1.0, 0.04])
@pytest.mark.parametrize(("frequency", "status"), [(0.8, Result.SUCCESS), (1.5, Result.ACROSS), (3.0, Result.ACROSS)])
@pytest.mark.quick("0.8-SUCCESS-1.0")
def test_a_spring_is_seen_beside_a_larger_load(frequency, status, load):
    """Across another constraint."""
    k = (frequency / 0.01) ** 2
    system = gn.System(
        Translations(3),
        metric=np.eye(3),
        distribution=gn.Distribution(np.eye(3)[:2]),
        forces=lambda t, x, v, u: jnp.stack([load * t - k * x[0], t, t]),
    )
    assert gn.solve(system, PROJECTED, xi0=np.zeros(3), dt=0.01, n_steps=20, throw=False).status is status


@pytest.mark.parametrize("frequency", [1.0, 2.83])
def test_a_start_between_two_springs_that_are_alike(frequency):
    """The determinant of two negative numbers is positive."""
    k = (frequency / 0.01) ** 2
    system = gn.System(
        Translations(3),
        metric=np.eye(3),
        distribution=gn.Distribution(np.eye(3)[:2]),
        potential=lambda x: k / 2 * (x[0] ** 2 + x[1] ** 2),
    )
    run = gn.solve(system, PROJECTED, xi0=[0.0, 0.0, 1.0], dt=0.01, n_steps=5, throw=False)
    assert run.status is (Result.SUCCESS if frequency < 2 else Result.ACROSS)


@pytest.mark.slow
def test_a_flow_that_comes_to_swing_across_the_constraint_stops():
    """The energy of this one grows until its springs across D are too stiff for h."""
    entry = catalogue["contact-oscillator-nonreversible"]
    system = entry.system()
    begin = entry.start(system)
    run = gn.solve(system, PROJECTED, g0=begin.g0, xi0=begin.xi0, dt=0.4, n_steps=2000, throw=False)
    assert run.status is Result.ACROSS
    assert 100 < run.t[-1] < 400


@pytest.mark.parametrize("change", [-1e-5, 0.0, 1e-5])
@pytest.mark.quick("0.0")
def test_roundings_across_the_constraint_are_none(change):
    """A force along the constraint that begins at zero, from rest: what is across is 1e-37 m/s."""
    racer = gn.systems.roller_racer()

    def torque(t, x, xi, u, p):
        drive = 0.5 * jnp.sin(0.4 * jnp.pi * t) + p["c"] * jnp.sin(0.8 * jnp.pi * t)
        return jnp.stack([0.0 * t, 0.0 * t, 0.0 * t, drive - 2.0 * x[0] - 0.3 * xi[3]])

    parameters = {**racer.parameters, "c": change}
    system = gn.System(
        racer.group,
        metric=racer.metric,
        distribution=racer.distribution,
        forces=torque,
        parameters=parameters,
        base=racer.action,
    )
    with gn.float64():
        run = gn.integrate(system, gn.SymmetricProjection(), xi0=np.zeros(4), dt=0.02, n_steps=20)
    assert not np.any(np.asarray(run.status))

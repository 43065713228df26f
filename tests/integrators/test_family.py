"""Relations between the methods: equalities to rounding, adjoints, compositions, and the forms that they work in."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import random_system, spd, start

import geonh as gn
from geonh.diagnostics import adjoint_defect, convergence, drift
from geonh.groups import SO3, Translations
from geonh.integrators.composition import COEFFICIENTS
from geonh.systems import catalogue

OPTIONS = {"dt": 0.03, "n_steps": 60}


def same_run(a, b, tolerance=1e-12):
    for left, right in ((a.g_vector, b.g_vector), (a.p_plus, b.p_plus), (a.p_minus, b.p_minus)):
        np.testing.assert_allclose(left, right, atol=tolerance)


# --- SHAKE, RATTLE, GNI, Lobatto ---------------------------------------------------------------------------
@pytest.mark.parametrize("begin", ["average", "multiplier"])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("group", ["R3", "SO3"])
def test_rattle_is_gni_with_the_trapezoid_rule(group, affine, begin):
    system = random_system(group, affine=affine, constant_metric=True)
    gni = gn.solve(system, gn.GNI(start=begin), **start(system), **OPTIONS)
    rattle = gn.solve(system, gn.RATTLE(start=begin), **start(system), **OPTIONS)
    same_run(gni, rattle)
    np.testing.assert_allclose(gni.multipliers, rattle.multipliers, atol=1e-10)


@pytest.mark.parametrize("affine", [False, True])
def test_shake_is_rattle(affine):
    system = random_system("R3", affine=affine, constant_metric=True)
    shake, rattle = (gn.solve(system, m, **start(system), **OPTIONS) for m in (gn.SHAKE(), gn.RATTLE()))
    same_run(shake, rattle)


def forced(group):
    """Forces that depend on the velocity, controls, a constant metric."""
    rng = np.random.default_rng(1)
    return gn.System(
        group,
        metric=spd(rng, 3),
        distribution=gn.Distribution([[0.3, -0.5, 1.0]]),
        forces=lambda t, x, xi, u: -0.2 * xi - 0.05 * xi * jnp.sum(xi**2) + u,
    )


NOT_FORCED = ("variational", "rk4-energy")  # for systems without constraints; for systems that keep their energy
QUICK = ("gni", "rattle", "shake", "rkmk4")


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in gn.methods if n not in NOT_FORCED],
)
def test_forces_and_controls_are_of_full_order(name):
    system = forced(Translations(3) if name == "shake" else SO3())
    controls = lambda t: jnp.stack([jnp.sin(t), 0.0 * t, jnp.cos(t)])  # noqa: E731
    xi0 = system.project(None, [0.4, -0.2, 0.3])
    options = {"xi0": xi0, "controls": controls}
    method = gn.methods[name].make()
    if name == "feedback":
        method = gn.Feedback({"group": 1.0, "constraint": 1.0}, "rk4")  # the energy is not kept
    exact = gn.reference_trajectory(system, [0.0, 1.0], xi0, controls=controls)[1][-1]
    steps = (8, 16) if method.order > 1 else (64, 128)  # of order 1, with a small error beside that of order 2
    errors = [np.abs(gn.solve(system, method, dt=1 / n, n_steps=n, **options).xi[-1] - exact).max() for n in steps]
    assert errors[1] < 1e-10 or 0.6 * 2**method.order < errors[0] / errors[1] < 2.5 * 2**method.order


def test_lobatto_with_two_stages_is_rattle_on_a_vector_space():
    system = random_system("R3", constant_metric=True)
    lobatto = gn.solve(system, gn.Lobatto(2), **start(system), **OPTIONS)
    rattle = gn.solve(system, gn.RATTLE(start="multiplier"), **start(system), **OPTIONS)
    np.testing.assert_allclose(lobatto.g_vector, rattle.g_vector, atol=1e-11)
    np.testing.assert_allclose(lobatto.xi, rattle.xi, atol=1e-11)


def test_an_energy_that_is_not_kept_is_not_put_back():
    with pytest.raises(ValueError, match="no forces"):
        gn.solve(forced(SO3()), gn.methods["rk4-energy"].make(), xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=5)


def test_rattle_says_what_it_is_not_for():
    for method in (gn.RATTLE(), gn.SHAKE()):
        with pytest.raises(ValueError, match="constant metric"):
            gn.solve(random_system("R3"), method, **start(random_system("R3")), **OPTIONS)


# --- forms of a frame ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "gauss4" else pytest.mark.slow)
        for n in ("gauss4", "lobatto4", "dla", "itoh-abe")
    ],
)
def test_forms_that_jump_along_the_run(name):
    """The annihilator of a frame is completed by other rows as the frame turns: the same run as with smooth forms."""

    def turning(a, b):
        (c, s), (d, e) = ((jnp.cos(angle), jnp.sin(angle)) for angle in (a, b))
        return jnp.array([[c, s, 0.0, 0.0], [0.0, 0.0, d, e]])

    frame = gn.Distribution(frame=lambda x: turning(x[0] + 2 * x[3], x[1] - x[2]))
    forms = gn.Distribution(lambda x: turning(x[0] + 2 * x[3] + jnp.pi / 2, x[1] - x[2] + jnp.pi / 2))
    rng = np.random.default_rng(5)
    metric, runs = spd(rng, 4), []
    for distribution in (frame, forms):
        system = gn.System(
            Translations(4), metric=metric, distribution=distribution, potential=lambda x: jnp.sum(jnp.cos(x))
        )
        xi0 = system.project(np.zeros(4), np.array([1.0, 0.5, -1.0, 2.0]))
        runs.append(gn.solve(system, gn.methods[name].make(), xi0=xi0, dt=0.05, n_steps=200))
    by_frame, by_forms = runs
    rows = jax.vmap(frame.annihilator)(by_frame.g_vector)
    assert np.sum(np.abs(np.diff(rows, axis=0)).max(axis=(1, 2)) > 0.3) >= 2
    np.testing.assert_allclose(by_frame.g_vector, by_forms.g_vector, atol=1e-11)


# --- Euler A and B, DLA, Pontryagin ------------------------------------------------------------------------
def test_euler_a_and_b_are_adjoint_and_their_composition_is_not_rattle():
    system = random_system("SO3", constant_metric=True)
    at = start(system)
    assert adjoint_defect(system, gn.EulerA(), gn.EulerB(), dt=0.03, **at) < 1e-13
    assert adjoint_defect(system, gn.EulerA(), gn.EulerA(), dt=0.03, **at) > 1e-5
    assert adjoint_defect(system, gn.EulerAB(), gn.EulerAB(), dt=0.03, **at) < 1e-13
    assert repr(gn.EulerA().adjoint()) == repr(gn.EulerB())
    ab, rattle = (gn.solve(system, m, **at, **OPTIONS) for m in (gn.EulerAB(), gn.RATTLE()))
    assert np.abs(ab.g - rattle.g).max() > 1e-5


@pytest.mark.slow
def test_pontryagin_at_the_left_of_the_step_is_dla_with_the_left_rectangle():
    system = random_system("SO3")
    a = gn.solve(system, gn.Pontryagin(0.0), **start(system), **OPTIONS)
    same_run(a, gn.solve(system, gn.DLA("left", "left"), **start(system), **OPTIONS))


@pytest.mark.slow
def test_dla_without_constraints_is_the_variational_integrator():
    system = random_system("SO3", constrained=False)
    same_run(*(gn.solve(system, m("trapezoid"), **start(system), **OPTIONS) for m in (gn.DLA, gn.Variational)), 1e-11)


# --- adjoints and compositions -----------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [gn.RKMK(4), gn.RKMK(6), gn.CommutatorFree(), gn.RungeKutta(project="constraint")],
    ids=lambda method: type(method).__name__ + str(method.order),
)
def test_the_adjoint_of_a_method_that_is_not_symmetric(method):
    """It is of the same order, and undoes the step with −h; with it the method makes a symmetric one."""
    system = random_system("SO3")
    at = start(system)
    assert adjoint_defect(system, method, method, dt=0.1, **at) > 1e-10
    assert adjoint_defect(system, method, method.adjoint(), dt=0.1, **at) < 1e-12
    assert method.adjoint().adjoint() is method
    assert (method.adjoint() @ method).guarantees.symmetric
    steps = (3, 5, 8, 12) if method.order == 6 else (20, 40, 80, 160)
    table = convergence(system, method.adjoint(), span=0.5, steps=steps, **at)
    assert abs(table.order - method.order) < 0.1


def test_the_defect_sees_the_adjoint_of_a_method_that_looks_ahead():
    system, method = random_system("R3"), gn.DLA("left", "left")
    at = start(system)
    assert adjoint_defect(system, method, method, dt=0.05, **at) > 1e-5
    assert adjoint_defect(system, method, method.adjoint(), dt=0.05, **at) < 1e-12


def test_methods_without_an_adjoint():
    with pytest.raises(ValueError, match="has no adjoint"):
        gn.Lobatto().adjoint()
    kept = gn.RungeKutta(project="energy")
    with pytest.raises(ValueError, match="no inverse"):
        gn.solve(random_system("SO3"), kept.adjoint(), **start(random_system("SO3")), **OPTIONS)
    assert (kept @ kept).order == 4


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_satisfy_their_conditions(name):
    c = np.array(COEFFICIENTS[name])
    assert np.isclose(c.sum(), 1, atol=1e-15)
    assert abs(np.sum(c**3)) < 1e-14
    assert np.array_equal(c, c[::-1])
    assert gn.compose(gn.Gauss(1), name).order == int(name[-1])


def test_composing():
    assert gn.compose(gn.Gauss(1), [0.5, 0.5]).order == 2
    assert gn.compose(gn.Gauss(1), COEFFICIENTS["suzuki4"]).order == 4
    assert gn.compose(gn.GNI(), "suzuki4").order == 2  # its multiplier alternates
    assert (gn.Gauss(2) @ gn.Gauss(2)).order == 4
    with pytest.raises(ValueError, match="sum to one"):
        gn.compose(gn.Gauss(1), [0.5, 0.6])
    with pytest.raises(ValueError, match="one of"):
        gn.compose(gn.Gauss(1), "yoshida5")
    for method in (gn.DLA(), gn.SHAKE(), gn.Lobatto()):
        with pytest.raises(ValueError, match="cannot be composed"):
            gn.compose(method, "yoshida4")
    with pytest.raises(ValueError, match="keep different states"):
        gn.solve(random_system("SO3"), gn.Gauss(2) @ gn.RKMK(4), **start(random_system("SO3")), **OPTIONS)


# --- quasi-velocities --------------------------------------------------------------------------------------
def test_coordinates_are_renewed_before_they_end():
    """The distribution turns by many half turns, so that no constant coordinates serve along the whole run."""
    forms = lambda q: jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])[None]  # noqa: E731
    blade = gn.System(
        Translations(3),
        metric=np.diag([1.0, 1.0, 1.0]),
        distribution=gn.Distribution(lambda q: jnp.concatenate([jnp.zeros((1, 1)), forms(q)], axis=1)),
    )
    run = gn.solve(blade, gn.RKMK(4), xi0=[1.0, 0.7, 0.0], dt=0.02, n_steps=2000)
    angle = run.t
    np.testing.assert_allclose(run.g[:, 1], 0.7 * np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(run.g[:, 2], 0.7 * (1 - np.cos(angle)), atol=1e-6)
    assert np.abs(run.constraint_residual).max() < 1e-14


# --- feedback ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("orthonormal", [True, False])
def test_the_extended_field_has_its_first_integrals_everywhere(orthonormal):
    system = random_system("SO3")
    method = gn.Feedback(1.0, orthonormal=orthonormal)
    rng = np.random.default_rng(2)
    g, p = jnp.asarray(start(system)["g0"]), jnp.asarray(rng.normal(size=3))  # off the constraint
    z = jnp.concatenate([g.ravel(), p])

    def invariants(z):
        x, p = z[:9].reshape(3, 3), z[9:]
        return jnp.append(method.constraint_momenta(system, x, p), method.hamiltonian(system, x, p))

    rate = jax.jvp(invariants, (z,), (method.field(system, jnp.asarray(0.0), z),))[1]
    assert np.abs(rate).max() < 1e-12


def test_the_extended_field_is_the_constrained_one_on_the_constraint():
    system = random_system("SO3")
    at = start(system)
    x, xi = jnp.asarray(at["g0"]), jnp.asarray(at["xi0"])
    z = jnp.concatenate([x.ravel(), system.momentum(x, xi)])
    rate = jnp.asarray(gn.accelerations(system, 0.0, x, xi)[0])
    moving = (system.action.anchor(x, xi), rate)
    expected = jax.jvp(system.momentum, (x, xi), moving)[1]
    for orthonormal in (True, False):
        field = gn.Feedback(1.0, orthonormal=orthonormal).field(system, jnp.asarray(0.0), z)
        np.testing.assert_allclose(field[9:], expected, atol=1e-12)
        np.testing.assert_allclose(field[:9].reshape(3, 3), SO3().left_tangent(x, xi), atol=1e-12)


def test_feedback_attracts_from_off_the_constraint_and_off_the_group():
    system, method = random_system("SO3"), gn.Feedback({"group": 30.0, "constraint": 30.0, "energy": 3.0}, "rk4")
    at = start(system)
    z = jnp.concatenate([1.03 * jnp.asarray(at["g0"]).ravel(), jnp.asarray(at["xi0"]) + 0.1])
    targets = method._integrals(system, jnp.concatenate([jnp.asarray(at["g0"]).ravel(), z[9:]]))
    before = method.lyapunov(system, z, targets)
    flow = lambda z: method.field(system, 0.0, z) - jax.grad(lambda z: method.lyapunov(system, z, targets))(z)  # noqa: E731
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, z, _: flow(z)), diffrax.Tsit5(), 0.0, 1.0, 1e-3, z, max_steps=2000
    )
    assert method.lyapunov(system, solution.ys[-1], targets) < 1e-3 * before


def test_feedback_by_a_solver_of_diffrax():
    entry = catalogue["suslov"]
    system, begin = entry.system(), entry.start(entry.system())
    ours, theirs = (
        gn.solve(system, gn.Feedback(10.0, s), xi0=begin.xi0, dt=0.01, n_steps=200)
        for s in ("dormand-prince", diffrax.Dopri5())
    )
    np.testing.assert_allclose(ours.xi, theirs.xi, atol=1e-13)


def test_feedback_refuses_what_it_is_not_for():
    system = random_system("SO3")
    with pytest.raises(ValueError, match=r"gains are too large for dt = 0\.1.*lower the gains or dt below"):
        gn.solve(system, gn.Feedback(1000.0), dt=0.1, n_steps=5, **start(system))
    with pytest.raises(ValueError, match="no first integral 'enrgy'"):
        gn.solve(system, gn.Feedback({"enrgy": 1.0}), dt=0.01, n_steps=5, **start(system))
    with pytest.raises(ValueError, match="it has forces"):
        gn.solve(forced(SO3()), gn.Feedback(1.0), xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=5)
    for wrong in ({"solver": "rk5"}, {"gains": -1.0}, {"gains": {"energy": np.nan}}):
        with pytest.raises(ValueError, match=r"solver|gain"):
            gn.Feedback(**wrong)


@pytest.mark.parametrize("fractions", [(0.3, 0.7), (0.7, 0.1, 0.2)])
def test_multipliers_of_a_composition_of_unequal_substeps(fractions):
    """λ of the impulse at a node, whose part that alternates is small after the exact start."""
    sleigh = gn.systems.chaplygin_sleigh()
    run = gn.solve(
        sleigh, gn.compose(gn.GNI(start="multiplier"), fractions), xi0=[0.8, -0.5, 0.0], dt=1e-3, n_steps=200
    )
    exact = [gn.multipliers(sleigh, 0.0, g, xi)[0] for g, xi in zip(run.g[::50], run.xi[::50], strict=True)]
    np.testing.assert_allclose(run.multipliers[::50, 0], exact, atol=2e-3)


@pytest.mark.parametrize(("stages", "bound"), [(1, 2e-3), (2, 5e-7)])
def test_gauss_keeps_the_energy_of_a_reversible_system_near(stages, bound):
    """Over 2000 s and some hundred turns of the contact plane, in coordinates that are chosen anew on the way."""
    entry = catalogue["contact-oscillator"]
    system = entry.system()
    begin = entry.start(system)
    run = gn.solve(system, gn.Gauss(stages), g0=begin.g0, xi0=begin.xi0, dt=0.05, n_steps=40_000, save_every=20)
    assert np.ptp(run.energy) < bound
    assert not drift(run.t, run.energy).drifts

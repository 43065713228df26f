"""Every method on systems with holonomic constraints, and on systems that depend on the time."""

import holonomic_systems as systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid, solve_ivp

import geonh as gn
from geonh.diagnostics import adjoint_defect, convergence, symplecticity_defect
from geonh.integrators import Feedback, SymmetricProjection, Variational

STEPS = {
    1: (160, 320, 640, 1280),
    2: (40, 80, 160, 320),
    4: (20, 28, 40, 56),
    5: (24, 34, 48, 68),
    6: (12, 17, 24, 34),
}
KEEPS = ("projected", "gni", "variational", "euler-a", "euler-b", "euler-ab", "rattle", "dla", "dla-left", "pontryagin")
KEEPS += ("midpoint", "gauss4", "gauss6", "yoshida4", "suzuki4", "kahan-li6", "rkmk4", "rkmk6", "commutator-free4")
LOBATTO = ("lobatto4", "lobatto6")
ENERGY = ("discrete-gradient", "average-vector-field", "itoh-abe")
KEEPS += ("rk4-projected", "rk4-energy", "shake", "lobatto2", *LOBATTO, *ENERGY, "discrete-gradient4")
QUICK = ("gauss4", "variational", "discrete-gradient")
DRIFT = ("rk4", "dormand-prince", "baumgarte")


def tried(system, g0, xi0, name):
    """Order by four step sizes, φ at the nodes, the velocity's rows, and the way back."""
    method = gn.methods[name].make()
    promised = method.guarantees
    measured = convergence(system, method, steps=STEPS[promised.order], g0=g0, xi0=xi0)
    assert abs(measured.order - promised.order) <= (0.1 if promised.order < 4 else 0.2), str(measured)
    run = gn.solve(system, method, g0=g0, xi0=xi0, dt=0.02, n_steps=100)
    assert np.abs(run.holonomic_residual).max(initial=0.0) < 2e-15
    if promised.constraint == "nodes":
        assert np.abs(run.constraint_residual).max() < 2e-14
    if promised.symmetric:
        assert adjoint_defect(system, method, method, g0=g0, xi0=xi0, dt=0.05) < 1e-13


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in KEEPS])
@pytest.mark.quick("variational")
def test_phi_is_kept_at_full_order(name):
    tried(*systems.double_pendulum(), name)


@pytest.mark.slow
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(
    "name", ["projected", "gni", "dla", "gauss4", "rkmk4", "rk4-projected", "lobatto4", "lobatto6"]
)
def test_with_nonholonomic_rows_on_a_group(name, affine):
    tried(*systems.held_body(affine=affine), name)


@pytest.mark.parametrize("name", DRIFT)
def test_baselines_drift(name):
    system, g0, xi0 = systems.double_pendulum()
    run = gn.solve(system, name, g0=g0, xi0=xi0, dt=0.02, n_steps=100)
    assert 1e-10 < np.abs(run.holonomic_residual).max() < 1e-3


@pytest.mark.slow
def test_feedback_attracts_to_phi():
    system, g0, xi0 = systems.double_pendulum()
    far = g0 + np.array([1e-3, 0.0, 0.0, 1e-3])
    ends = []
    for gain in (0.0, 20.0):
        method = Feedback({"constraint": gain}, "rk4")
        start = gn.solve(system, method, g0=g0, xi0=xi0, dt=1e-3, n_steps=1)
        state = start.state._replace(g=far)
        moved = gn.resume(start.with_run(state=state), 1000)
        ends.append(np.abs(moved.holonomic_residual[-1]).max())
    assert ends[0] > 5e-4
    assert ends[1] < 1e-3 * ends[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENERGY)
def test_energy_with_rows_of_both_kinds(name):
    tried(*systems.held_body(), name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["discrete-gradient", *(pytest.param(n, marks=pytest.mark.slow) for n in ("average-vector-field", "itoh-abe"))],
)
def test_energy_and_phi_at_once(name):
    """Energy to rounding, φ not by adding up roundings: both without a trend over many steps.

    The averages are by quadrature, so the steps are short enough for it. Energy's roundings add up like a random walk:
    over eight starts of 2000 steps, up to 53 √n of them.
    """
    system, g0, xi0 = systems.held_body()
    run = gn.solve(system, name, g0=g0, xi0=0.2 * xi0, dt=0.03, n_steps=1000)
    assert np.ptp(run.energy) < 60 * np.sqrt(1000) * np.spacing(1 + np.abs(run.energy).max())
    assert np.abs(run.holonomic_residual).max() < 1e-15
    assert np.abs(run.g[-1] - run.g[0]).max() > 0.1


def test_shake_is_rattle_in_positions():
    system, g0, xi0 = systems.double_pendulum()
    runs = [gn.solve(system, name, g0=g0, xi0=xi0, dt=0.02, n_steps=100) for name in ("shake", "rattle")]
    for part in ("g", "p_plus", "p_minus"):
        np.testing.assert_allclose(getattr(runs[0], part), getattr(runs[1], part), atol=1e-12)


@pytest.mark.slow
def test_shake_with_rows_of_both_kinds():
    """In R³ on a sphere, with a form that turns with the place: the same as RATTLE, of order 2."""
    system = gn.System(
        gn.groups.Translations(3),
        metric=[1.0, 2.0, 1.5],
        potential=lambda x: jnp.sin(x[2]) + x[0] * x[1],
        holonomic=lambda x: (x @ x - 1.0)[None],
        distribution=gn.Distribution(lambda x: jnp.stack([x[1], 1.0 + x[2], x[0]])[None]),
        forces=lambda t, x, xi, u: -0.1 * xi * (1 + t),
        name="skater on a ball",
    )
    g0, xi0 = system.project([0.6, 0.2, -0.7], [0.5, 1.5, 0.3])
    runs = [gn.solve(system, name, g0=g0, xi0=xi0, dt=0.02, n_steps=100) for name in ("shake", "rattle")]
    np.testing.assert_allclose(runs[0].g, runs[1].g, atol=1e-12)
    np.testing.assert_allclose(runs[0].xi, runs[1].xi, atol=1e-11)
    tried(system, g0, xi0, "shake")


@pytest.mark.slow
def test_rattle_is_symplectic():
    """On T*S², without nonholonomic constraints, where a projected Runge–Kutta method is not."""
    system, g0, xi0 = systems.spherical_pendulum()
    assert symplecticity_defect(system, Variational(), g0=g0, xi0=xi0, dt=0.05) < 2e-14
    assert symplecticity_defect(system, gn.RKMK(4), g0=g0, xi0=xi0, dt=0.2) > 1e-6
    system, g0, xi0 = systems.moving_pivot()  # from one cotangent bundle to another
    assert symplecticity_defect(system, Variational(), g0=g0, xi0=xi0, dt=0.05) < 2e-14


@pytest.mark.slow
def test_the_way_both_kinds_of_rows_are_written_does_not_matter():
    """Another function with the same zeros, and forms with the rows of φ added: the same motion to rounding."""

    def rods(x):
        a, b = x[:2], x[2:] - x[:2]
        return jnp.stack([a @ a - 1.0, b @ b - 0.49]) / 2

    def forms(x):
        return jnp.stack([x[1], 1.0 + x[2], x[0], jnp.cos(x[3])])[None]

    def skate(x):
        return 3.0 * forms(x) + (1.0 + x[0]) * jax.jacfwd(rods)(x)[:1]

    def bent(x):
        first, second = rods(x)
        return jnp.stack([jnp.expm1(first) + second * x[2], 2.0 * second])

    runs = []
    for phi, rows in ((rods, forms), (bent, skate)):
        system = gn.System(
            gn.groups.Translations(4),
            metric=[1.0, 1.0, 0.6, 0.6],
            potential=lambda x: 9.81 * (x[1] + 0.6 * x[3]),
            holonomic=phi,
            distribution=gn.Distribution(rows),
        )
        g0, xi0 = system.project([0.8, -0.6, 1.22, -1.16], [0.3, 0.4, 1.0, -1.0])
        runs.append(gn.solve(system, "projected", g0=g0, xi0=xi0, dt=0.02, n_steps=100))
    np.testing.assert_allclose(runs[1].g, runs[0].g, atol=1e-12)
    np.testing.assert_allclose(runs[1].p, runs[0].p, atol=1e-11)


@pytest.mark.slow
def test_forces_that_depend_on_the_velocity():
    system, *_ = systems.held_body()
    damped = gn.System(
        system.group,
        metric=system.metric,
        potential=system.potential.function,
        holonomic=system.holonomic.function,
        distribution=system.distribution,
        forces=lambda t, x, xi, u: -0.3 * xi * (1 + xi @ xi),
        name="damped body",
    )
    tried(damped, *damped.project(np.eye(4), 0.5 * np.random.default_rng(1).normal(size=6)), "projected")


def test_rattle_keeps_momentum():
    """J_z of the spherical pendulum to rounding, and the energy without drift."""
    system, g0, xi0 = systems.spherical_pendulum()
    run = gn.solve(system, "projected", g0=g0, xi0=xi0, dt=0.02, n_steps=4000, save_every=2)
    J = run.g[:, 0] * run.p[:, 1] - run.g[:, 1] * run.p[:, 0]
    assert np.ptp(J) < 1e-13
    first, last = np.abs(run.energy - run.energy[0]).reshape(-1)[:-1].reshape(2, -1).max(axis=1)
    assert last < 1.01 * first < 0.02


@pytest.mark.slow
def test_rattle_is_symplectic_on_a_group():
    system, g0, xi0 = systems.held_body(m=0)
    assert symplecticity_defect(system, Variational(), g0=g0, xi0=xi0, dt=0.02) < 2e-13


def test_a_file_knows_phi(tmp_path):
    system, g0, xi0 = systems.spherical_pendulum()
    whole = gn.solve(system, "projected", g0=g0, xi0=xi0, dt=0.02, n_steps=40)
    gn.solve(system, "projected", g0=g0, xi0=xi0, dt=0.02, n_steps=20).save(tmp_path / "run.nc")
    loaded = gn.Trajectory.load(tmp_path / "run.nc")
    assert loaded.holonomic_residual.shape == (21, 1)
    parts = gn.resume(loaded, 20, system=system, method="projected")
    np.testing.assert_array_equal(parts.p, whole.p)
    assert "holonomic_residual" in whole.to_xarray()
    other = gn.System(
        system.group,
        metric=[1.0, 1.0, 1.0],
        potential=lambda x: 9.81 * x[2],
        holonomic=lambda x: (jnp.sqrt(x @ x) - 1.0)[None],
        name=system.name,
    )
    with pytest.raises(ValueError, match="holonomic"):
        gn.resume(loaded, 20, system=other, method="projected")


# --- time --------------------------------------------------------------------------------------------------
TIMED = ("projected", "gni", "euler-a", "rattle", "dla", "pontryagin", "midpoint", "gauss4", "rkmk4", "rk4-projected")
TIMED += ("suzuki4", "commutator-free4", "variational", "lobatto2", "lobatto4")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "projected")) for n in TIMED])
def test_time_in_metric_potential_and_phi(name):
    if name == "rattle":
        with pytest.raises(ValueError, match="constant metric"):
            gn.methods[name].make().refuse(systems.moving_pivot()[0])
        return
    tried(*systems.moving_pivot(), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TIMED if n not in ("variational", "euler-a")])  # ℓ is the same everywhere
def test_time_in_affine_constraints(name):
    tried(*systems.unsteady_table(), name)


@pytest.mark.slow
def test_time_in_affine_constraints_by_gauss():
    tried(*systems.unsteady_table(), "midpoint")


@pytest.mark.slow
def test_time_in_affine_constraints_by_the_midpoint_of_cayley():
    system, g0, xi0 = systems.unsteady_table()
    method = SymmetricProjection("midpoint", retraction="cayley")
    assert abs(convergence(system, method, steps=STEPS[2], g0=g0, xi0=xi0).order - 2) < 0.1
    assert adjoint_defect(system, method, method, g0=g0, xi0=xi0, dt=0.05) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("make", [systems.moving_pivot, systems.unsteady_table])
def test_the_balance_of_energy_in_time(make):
    """Ḣ = −∂_tℓ + λ·c, with c = −∂_tφ or b: the work of what is moved from without."""
    system, g0, xi0 = make()

    @jax.vmap
    def power(t, g, xi, multipliers):
        driven = -system.constraint_residual(system.at(g, t), 0.0 * xi)
        return multipliers @ driven - jax.grad(lambda t: system.lagrangian(system.at(g, t), xi))(t)

    gaps = []
    for n in (100, 200, 400):
        run = gn.solve(system, g0=g0, xi0=xi0, dt=1 / n, n_steps=n)
        work = cumulative_trapezoid(power(run.t, run.g, run.xi, run.multipliers), dx=1 / n, initial=0.0)
        gaps.append(np.abs(run.energy - run.energy[0] - work).max())
    np.testing.assert_allclose(np.log2(np.divide(gaps[:-1], gaps[1:])), 2, atol=0.1)
    assert gaps[-1] < 1e-3 * np.ptp(run.energy)


@pytest.mark.parametrize("name", ["discrete-gradient", "feedback", "rk4-energy"])
def test_methods_that_keep_an_energy_refuse_time(name):
    system = gn.System(
        gn.groups.Translations(2), metric=[1.0, 1.0], potential=gn.time_dependent(lambda t, x: t * x[0]), name="pulled"
    )
    with pytest.raises(ValueError, match="time"):
        gn.solve(system, name, xi0=[1.0, 0.0], dt=0.02, n_steps=1)


def test_parametric_excitation():
    """Mathieu's equation q̈ + (δ + ε cos t)q = 0 in its first tongue: the matrix over a period, against SciPy's."""

    def potential(t, q, p):
        return 0.5 * (p["delta"] + p["eps"] * jnp.cos(t)) * q @ q

    numbers = {"delta": 0.25, "eps": 0.1}
    system = gn.System(
        gn.groups.Translations(1), metric=[1.0], potential=gn.time_dependent(potential), parameters=numbers
    )
    ends, n = [], 800
    for q, v in ((1.0, 0.0), (0.0, 1.0)):
        run = gn.solve(system, g0=[q], xi0=[v], dt=2 * np.pi / n, n_steps=n)
        ends.append([run.g[-1, 0], run.xi[-1, 0]])
    exact = solve_ivp(
        lambda t, y: [y[1], -(0.25 + 0.1 * np.cos(t)) * y[0], y[3], -(0.25 + 0.1 * np.cos(t)) * y[2]],
        (0, 2 * np.pi),
        [1.0, 0.0, 0.0, 1.0],
        rtol=1e-11,
        atol=1e-12,
    ).y[:, -1]
    np.testing.assert_allclose(np.ravel(ends), exact, atol=2e-5)
    assert np.abs(np.linalg.eigvals(np.array(ends))).max() > 1.3
    with pytest.raises(ValueError, match="depends on the time"):
        system.at(np.zeros(1))


def height(x):
    return 9.81 * x[2]


def rod(x, p):
    return p["unit"] * jnp.stack([(x - p["c"]) @ (x - p["c"]) - p["L"] ** 2])


@pytest.mark.parametrize("name", ["projected", "gni", "rattle", "dla", "rkmk4", "gauss4", "lobatto4", "rk4-projected"])
@pytest.mark.parametrize(
    ("length", "pivot", "speed", "dt", "unit"),
    [
        (20.0, 0.0, 1.0, 0.01, 1.0),
        (1000.0, 0.0, 1.0, 1e-3, 1.0),
        (100.0, 0.0, 0.0, 1e-4, 1.0),
        (1.0, 1e4, 0.0, 1e-3, 1.0),
        (1.0, 0.0, 0.0, 1e-5, 1.0),
        (1000.0, 0.0, 0.0, 1e-5, 1.0),
        (1.0, 1e4, 0.0, 1e-5, 1.0),
        (1.0, 0.0, 1.0, 1e-3, 1e12),
    ],
)
def test_a_constraint_on_positions_is_known_to_rounding_of_the_place(name, length, pivot, speed, dt, unit):
    """A pendulum of any length, far away or written in other units, from rest or not: φ has no more digits."""
    parameters = {"c": np.array([pivot, 0.0, 0.0]), "L": length, "unit": unit}
    system = gn.System(
        gn.groups.Translations(3),
        metric=[1.0, 1.0, 1.0],
        potential=height,
        holonomic=rod,
        parameters=parameters,
    )
    begin = system.parameters["c"] + length * np.array([0.6, 0.0, -0.8])
    g0, xi0 = system.project(begin, [0.0, speed, 0.0])
    run = gn.solve(system, gn.methods[name].make(), g0=g0, xi0=xi0, dt=dt, n_steps=2000)
    at = run.g - system.parameters["c"]
    assert np.max(np.abs(np.sum(at**2, axis=1) - length**2)) < 1e-13 * length * (length + pivot)
    assert np.max(np.abs(run.energy - run.energy[0])) < 1e-3 * 9.81 * length

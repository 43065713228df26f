"""First integrals found against those known; none where there are none."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import rolling
from geonh.analysis import first_integrals
from geonh.diagnostics import invariants
from geonh.groups import SE3, Translations

VERTICAL = {"γ1": lambda g: g[2, 0], "γ2": lambda g: g[2, 1], "γ3": lambda g: g[2, 2]}


def moments(seed):
    """Principal moments of a body, random."""
    masses = np.random.default_rng(seed).uniform(0.3, 1.0, 3)
    return masses.sum() - masses


def formulas(found):
    return [integral.note for integral in found.values()]


def assert_certified(found):
    assert all(residual < 1e-10 for residual in found.residuals.values())
    assert found.zero < 1e-12
    assert found.nonzero > 1e-5


@pytest.mark.parametrize("seed", [0, 1])
def test_suslov_and_the_sleigh_have_none_but_the_energy(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    assert not first_integrals(gn.systems.suslov(J=root @ root.T + 0.3 * np.eye(3)), seed=seed)
    found = first_integrals(gn.systems.chaplygin_sleigh(*rng.uniform(0.5, 2.0, 3)), seed=seed)
    assert not found
    assert found.nonzero > 1e-3
    assert "no first integrals besides the energy" in str(found)


def test_suslov_about_a_principal_axis_is_steady():
    found = first_integrals(gn.systems.suslov(J=np.diag(moments(2))))
    assert formulas(found) == ["p_omega1", "p_omega2"]
    assert set(found.kinds.values()) == {"gauge momentum"}


@pytest.mark.parametrize("seed", [0, 1])
def test_the_momenta_of_the_veselova_system(seed):
    found = first_integrals(gn.systems.veselova(moments(seed)), seed=seed)
    assert formulas(found) == ["π_omega1", "π_omega2"]
    assert set(found.kinds.values()) == {"symmetry"}
    assert_certified(found)


@pytest.mark.slow
def test_the_contact_momentum_of_the_chaplygin_sphere():
    ball = gn.systems.chaplygin_sphere(m=1.3, r=0.5, J=moments(3), table_rate=0.0)
    found = first_integrals(ball)  # |K|² and so on are products of these
    assert formulas(found) == ["p_vx + 2 π_omega2", "p_vy - 2 π_omega1", "π_omega3"]
    assert_certified(found)


@pytest.mark.slow
def test_the_moving_energy_on_a_turning_table():
    ball = gn.systems.chaplygin_sphere(table_rate=0.3)
    assert len(first_integrals(ball)) == 3
    found = first_integrals(ball, {"x": lambda g: g[0][0], "y": lambda g: g[0][1]})
    assert list(found) == ["linear 1", "linear 2", "linear 3", "quadratic 1"]
    assert_certified(found)
    # It is the declared one, up to the others and their products.
    rng = np.random.default_rng(5)
    values = []
    for _ in range(20):
        g = (rng.normal(size=2), ball.group.factors[1].exp(rng.normal(size=3)))
        xi = ball.project(g, rng.normal(size=5))
        values.append([float(f.along(ball, g, xi)) for f in (*found.values(), ball.first_integrals["moving energy"])])
    K, (quadratic, energy) = np.array(values)[:, :3].T, np.array(values)[:, 3:].T
    others = np.stack([np.ones(20), *K, *(K[i] * K[j] for i in range(3) for j in range(i + 1)), quadratic], axis=1)
    assert np.linalg.matrix_rank(others) == 11
    assert np.abs(others @ np.linalg.lstsq(others, energy)[0] - energy).max() < 1e-10


def test_a_gauge_momentum_of_the_particle():
    particle = gn.systems.nonholonomic_particle()  # ż = yẋ: ẋ√(1 + y²) is kept, but ∂_x + y∂_z over it is no symmetry
    found = first_integrals(particle, {"√(1+y²)": lambda g: jnp.sqrt(1 + g[1] ** 2)}, degree=1)
    assert dict(zip(formulas(found), found.kinds.values(), strict=True)) == {
        "√(1+y²) p_vx": "gauge momentum",
        "p_vy": "symmetry",
    }
    assert_certified(found)


@functools.cache
def routh():
    entry = gn.systems.catalogue["routh-sphere"]
    sphere = entry.build()
    return sphere, entry.start(sphere)


def assert_the_same(system, g0, one, other, degree):
    """Compare two first integrals at states on the constraints, up to a factor."""
    rng = np.random.default_rng(degree)
    values = []
    for _ in range(6):
        g = system.project_position(system.group.compose(g0, system.group.exp(0.3 * rng.normal(size=6))))
        xi = system.project(g, rng.normal(size=6))[1]
        values.append([float(np.squeeze(integral.along(system, g, xi))) for integral in (one, other)])
    ours, theirs = np.array(values).T
    np.testing.assert_allclose(ours / ours[0], theirs / theirs[0], rtol=1e-9)


@pytest.mark.slow
def test_jellett_on_rouths_sphere():
    sphere, start = routh()
    found = first_integrals(sphere, VERTICAL, degree=1, g=start.g0)
    assert len(found) == 1
    assert_certified(found)
    declared = next(f for name, f in sphere.first_integrals.items() if "ellett" in name)
    assert_the_same(sphere, start.g0, found["linear 1"], declared, 1)


@pytest.mark.slow
def test_rouths_integral():
    sphere, start = routh()
    found = first_integrals(sphere, {"γ3": VERTICAL["γ3"], "γ3²": lambda g: g[2, 2] ** 2}, g=start.g0)
    declared = next(f for name, f in sphere.first_integrals.items() if "outh" in name)
    (own,) = [f for f in found.values() if f.note.startswith("p_omega3² ")]
    assert_the_same(sphere, start.g0, own, declared, 2)


@pytest.mark.slow
def test_the_gauge_momentum_of_the_snakeboard():
    # Balseiro, Sansonetto (2021): on the constraints it is √K θ̇/sin φ, K = (J + 2J₁) sin²φ + mr² cos²φ.
    board = gn.systems.snakeboard(m=1.3, J=1.1, J0=0.4, J1=0.2, r=0.6)

    def over_root(function):
        def value(g, p):
            phi = g[1][1]
            K = (p["J"] + 2 * p["J1"]) * jnp.sin(phi) ** 2 + p["m"] * p["r"] ** 2 * jnp.cos(phi) ** 2
            return function(phi) / jnp.sqrt(K)

        return value

    found = first_integrals(board, {"s": over_root(jnp.sin), "c": over_root(jnp.cos)}, degree=1)
    assert dict(zip(formulas(found), found.kinds.values(), strict=True)) == {
        "s p_omega - 0.6 c p_vx": "gauge momentum",
        "p_psi_dot": "symmetry",
        "p_phi_dot": "symmetry",
    }
    assert_certified(found)


@pytest.mark.slow
def test_jellett_of_a_tippe_top_that_slides():
    top = rolling.rolling(rolling.ball(0.5).moved([0, 0, 0.1]), [0.2, 0.2, 0.25], 1.0, friction=0.3, name="tippe top")
    g0, _ = rolling.start(top, np.eye(3), omega=[0.0, 0.0, 1.0])
    found = first_integrals(top.systems[1], VERTICAL, degree=1, g=g0)
    # Jω·ρ with ρ = −(rγ + a e₃), whatever the friction
    assert formulas(found) == ["γ1 p_omega1 + γ2 p_omega2 - 0.2 p_omega3 + γ3 p_omega3"]
    assert found.residuals["linear 1"] < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["snakeboard", "roller-racer", "rattleback", "whipple-bicycle", "double-pendulum"])
def test_the_catalogue(name):
    entry = gn.systems.catalogue[name]
    system = entry.build()
    found = first_integrals(system, g=entry.start(system).g0)
    assert formulas(found) == {"snakeboard": ["p_psi_dot", "p_phi_dot"]}.get(name, [])


def test_integrable_constraints_give_functions_of_the_position():
    system = gn.System(
        Translations(2), metric=[1.0, 1.0], potential=lambda x: x[0] ** 4, distribution=gn.Distribution([[1.0, -1.0]])
    )
    found = first_integrals(system, {"x": lambda g: g[0], "y": lambda g: g[1]})
    assert formulas(found) == ["x - y"]
    assert list(found) == ["position 1"]


def test_the_energy_alone_is_known():
    spring = gn.System(
        Translations(2),
        metric=lambda x: jnp.array([1.0, 1.0]) * (1 + x[0] ** 2),
        potential=lambda x: x[0] ** 4 + x[1],
        name="spring",
    )
    basis = {"x⁴": lambda g: g[0] ** 4, "y": lambda g: g[1]}
    assert not first_integrals(spring, basis)  # in the span of ξ·p and the basis
    driven = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: jnp.array([jnp.sin(t)]))
    found = first_integrals(driven)
    assert not found
    assert not found.keeps_energy
    assert "no first integrals (the energy is none)" in str(found)


@pytest.mark.slow
def test_symmetries_up_to_a_total_derivative_are_of_no_kind():
    field = gn.System(
        Translations(2), lagrangian=lambda x, v: 0.5 * v @ v + 0.7 * (x[0] * v[1] - x[1] * v[0]), name="magnetic field"
    )
    found = first_integrals(field, {"x": lambda g: g[0], "y": lambda g: g[1]}, degree=1)
    assert dict(zip(formulas(found), found.kinds.values(), strict=True)) == {
        "x + 1.428571429 p_vy": "",
        "y - 1.428571429 p_vx": "",
        "y p_vx - x p_vy": "symmetry",
    }


def test_two_equal_springs_have_their_quadratic_integrals():
    plane = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: 0.5 * x @ x)
    squares = {"x": lambda g: g[0], "y": lambda g: g[1]}
    squares |= {"x²": lambda g: g[0] ** 2, "xy": lambda g: g[0] * g[1], "y²": lambda g: g[1] ** 2}
    found = first_integrals(plane, squares)
    # Angular momentum; of Fradkin's three integrals one is the energy less another.
    assert formulas(found) == ["y p_vx - x p_vy", "xy + p_vx p_vy", "y² + p_vy²"]


@pytest.mark.slow
def test_they_are_kept_by_a_run_and_its_file(tmp_path):
    veselova = gn.systems.veselova()
    system = veselova.with_first_integrals(first_integrals(veselova))
    assert list(system.first_integrals) == ["horizontal momentum", "linear 1", "linear 2"]
    run = gn.solve(system, "gni", xi0=[1.0, -0.6, 0.0], dt=0.05, n_steps=20)
    drift = {quantity.name: quantity for quantity in invariants(run)}
    assert drift["linear 1"].error.max() < 1e-14
    assert drift["linear 1"].note == "π_omega1"
    np.testing.assert_array_equal(run.integrals["linear 2"], run.integrals["horizontal momentum"][:, 1])
    run.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(
        gn.Trajectory.load(tmp_path / "run.nc").integrals["linear 1"], run.integrals["linear 1"]
    )


def test_bad_input_is_named():
    sleigh = gn.systems.chaplygin_sleigh()
    with pytest.raises(ValueError, match="degree must be 1 or 2"):
        first_integrals(sleigh, degree=3)
    with pytest.raises(ValueError, match="basis function 'g' must give one number"):
        first_integrals(sleigh, {"g": lambda g: g})
    with pytest.raises(ValueError, match="not finite"):
        first_integrals(sleigh, {"log": lambda g: jnp.log(0.0 * g[0])})
    with pytest.raises(TypeError, match="integrals must be a mapping"):
        sleigh.with_first_integrals([1])


def test_too_many_candidates_are_refused():
    basis = {f"sin {k}z": lambda g, k=k: jnp.sin(k * g[2, 3]) for k in range(1, 25)}
    with pytest.raises(ValueError, match="more than 1500: give degree=1"):
        first_integrals(gn.System(SE3(), metric=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], name="body"), basis)


def test_almost_integrals_are_not_taken_for_integrals():
    def weakly(*k):
        return gn.System(
            Translations(3),
            metric=[1.0] * 3,
            potential=lambda x, p: p["k"] @ x**2,
            parameters={"k": np.array([1.0, *k])},
        )

    assert formulas(first_integrals(weakly(1e-10, 0.0), degree=1)) == ["p_vz"]
    with pytest.raises(ValueError, match="no clear gap"):  # the rates of p_vy and p_vz
        first_integrals(weakly(1e-11, 4e-14), degree=1)

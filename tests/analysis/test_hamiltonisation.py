"""The gyroscopic tensor against the equations; multipliers known from the literature, and runs in the new time."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import hamiltonise, invariant_measure, lyapunov_exponents
from geonh.analysis.chaplygin import Chaplygin
from geonh.geometry.action import AdvectedVector
from geonh.groups import SO3, MatrixGroup, Product, Translations
from geonh.mechanics import accelerations

VERTICAL = [0.0, 0.0, 1.0]
J = np.array([1.0, 1.5, 2.2])


def log_of_inverse_inertia(x, p):
    return jnp.log(x @ (x / p["J"]))


@pytest.mark.slow
def test_the_gyroscopic_force_is_that_of_the_equations():
    # ż = A(s)ṡ on R³ × R², a metric that varies with s: neither simple nor with an invariant density.
    rng = np.random.default_rng(0)
    linear, square, mass = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3, 3)), rng.normal(size=(5, 5, 3))

    def connection(s):
        return linear @ s + jnp.einsum("aijk,j,k->ai", square, s, s)

    def metric(x):
        root = jnp.eye(5) + 0.2 * jnp.sin(mass @ x[:3])
        return root @ root.T

    forms = gn.Distribution(lambda x: jnp.concatenate([-connection(x[:3]), jnp.eye(2)], axis=1))
    system = gn.System(Translations(5), metric=metric, distribution=forms, potential=lambda x: jnp.sin(x[0]) * x[1])
    chaplygin = Chaplygin(system, np.eye(5)[3:])
    with gn.float64():
        for _ in range(3):
            x, speed = jnp.asarray(rng.normal(size=5)), jnp.asarray(rng.normal(size=3))

            def momentum(s, v):
                lift = jnp.concatenate([jnp.eye(3), connection(s)])
                return lift.T @ metric(s) @ lift @ v

            def reduced(s, v):
                return momentum(s, v) @ v / 2 - jnp.sin(s[0]) * s[1]

            xi = jnp.concatenate([speed, connection(x[:3]) @ speed])
            rate = jnp.asarray(accelerations(system, 0.0, np.asarray(x), np.asarray(xi))[0][:3])
            p, p_rate = jax.jvp(momentum, (x[:3], speed), (speed, rate))
            T = chaplygin.gyroscopic(x).T[:3, :3, :3]
            force = -jnp.einsum("kij,j,k->i", T, speed, p)
            np.testing.assert_allclose(p_rate - jax.grad(reduced)(x[:3], speed), force, atol=1e-12)
    assert not hamiltonise(system, np.eye(5)[3:]).has_measure


@functools.cache
def heavy_veselova():
    """Veselova's body in a field of force, and its Hamiltonisation."""
    group = SO3()
    system = gn.System(
        group,
        metric=lambda x, p: p["J"],
        distribution=gn.Distribution(lambda x: x[None]),
        potential=lambda x: 0.3 * x[0] + x[2] ** 2,
        base=AdvectedVector(group, VERTICAL),
        parameters={"J": J},
    )
    return system, hamiltonise(system, VERTICAL, {"log γ·J⁻¹γ": log_of_inverse_inertia})


@pytest.mark.slow
def test_veselovas_multiplier():
    system, found = heavy_veselova()
    assert found.exists
    assert found.shape_dimension == 2
    assert abs(found.coefficients["log γ·J⁻¹γ"] + 0.5) < 1e-12
    R = np.asarray(SO3().exp([0.9, -1.5, 0.7]))
    exact = -0.5 * np.log(R[2] @ (R[2] / J) * J[2])
    assert abs(found.phi(R) - exact) < 1e-13
    assert abs(hamiltonise(system, VERTICAL).phi(R) - exact) < 1e-13
    assert "φ = -0.5 log γ·J⁻¹γ" in str(found)


@pytest.mark.slow
def test_its_motion_is_that_of_the_hamiltonian_system():
    system, found = heavy_veselova()
    R = np.asarray(SO3().exp([0.4, 0.2, -0.3]))
    xi = system.project(R, [1.0, -0.6, 0.3])
    exact = gn.solve(system, "gauss6", g0=R, xi0=xi, dt=0.005, n_steps=800)
    hamiltonian = found.system()
    errors = []
    for n_steps in (40, 80, 160, 320):
        run = gn.solve(
            hamiltonian, "variational", g0=R, xi0=found.scaled_velocity(R, xi), dt=4.0 / n_steps, n_steps=n_steps
        )
        motion = found.original(run)
        errors.append(np.abs(motion.g[-1] - exact.interpolate(motion.t[-1])[0]).max())
        assert np.abs(np.einsum("ni,ni->n", motion.g[:, 2], motion.xi)).max() < 1e-13  # γ·Ω, never imposed
        assert np.abs(run.energy - exact.energy[0]).max() < 20 * (4.0 / n_steps) ** 2
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(slopes, 2.0, atol=0.1)


@pytest.mark.slow
def test_a_symplectic_method_keeps_the_measure():
    # det DΦ over 1e5 steps, in (η, ξ) with the volume det M̃: the sum of all Lyapunov exponents, times the duration.
    system, found = heavy_veselova()
    hamiltonian, xi = found.system(), found.scaled_velocity(None, system.project(None, [1.0, -0.6, 0.0]))
    options = {"dt": 0.05, "n_steps": 100_000, "method": "variational"}
    growth = lyapunov_exponents(hamiltonian, None, xi, **options).exponents.sum() * 0.05 * 100_000
    ends = gn.solve(hamiltonian, xi0=xi, **options, save_every=100_000).g
    volumes = [np.linalg.slogdet(np.asarray(hamiltonian.mass_matrix(hamiltonian.at(g))))[1] for g in ends]
    assert abs(volumes[1] - volumes[0]) > 1e-3
    assert abs(growth + volumes[1] - volumes[0]) < 1e-9


@pytest.mark.slow
def test_suslov_has_no_multiplier_unless_the_axis_is_principal():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    found = hamiltonise(gn.systems.suslov(J=root @ root.T + 0.3 * np.eye(3)), VERTICAL)
    assert not found.exists
    assert not found.has_measure
    assert found.turning > 1e-3
    assert "would not be closed" in str(found)
    with pytest.raises(ValueError, match="has no φ"):
        found.phi(None)
    with pytest.raises(ValueError, match="there is no multiplier"):
        found.system()
    principal = gn.systems.suslov(J=np.diag(J))
    assert hamiltonise(principal, VERTICAL).exists
    assert invariant_measure(principal).exists


@pytest.mark.slow
def test_the_density_of_the_chaplygin_sphere():
    def density(x, p):
        return jnp.log(1 - p["m"] * p["r"] ** 2 * x[1][2] @ (x[1][2] / (p["J"] + p["m"] * p["r"] ** 2)))

    sphere = gn.systems.chaplygin_sphere(m=1.2, r=0.7, J=J, table_rate=0.0)
    found = hamiltonise(sphere, candidates={"log(1 − mr²γ·(J + mr²)⁻¹γ)": density})
    assert not found.exists  # on SO(3): it is after a further reduction
    assert found.has_measure
    assert found.shape_dimension == 3
    assert abs(2 * next(iter(found.coefficients.values())) + 0.5) < 1e-12  # e^{2φ} is Chaplygin's density
    assert "invariant density" in str(found)


@pytest.mark.slow
def test_the_particle_and_the_disk():
    particle = gn.System(
        Translations(3), metric=[1.0, 1.0, 1.0], distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]])
    )
    found = hamiltonise(particle, VERTICAL, {"log(1 + y²)": lambda x: jnp.log(1 + x[1] ** 2)})
    assert found.exists
    assert abs(found.coefficients["log(1 + y²)"] + 0.5) < 1e-12
    far = hamiltonise(particle, VERTICAL).phi([30.0, 40.0, 2.0])
    assert abs(far + 0.5 * np.log(1 + 40.0**2)) < 1e-10
    disk = hamiltonise(gn.systems.vertical_disk(), np.eye(4)[1:3])
    assert disk.exists
    assert disk.system().name == "vertical-disk in the time τ"  # φ = 0, without candidates


@pytest.mark.slow
def test_veselovas_multiplier_in_four_dimensions():
    # Fedorov and Jovanović (2004): J(e_i ∧ e_j) = a_i a_j e_i ∧ e_j, no rotation of the space orthogonal to e₄.
    pairs = [(i, j) for j in range(4) for i in range(j)]
    basis = np.zeros((6, 4, 4))
    for k, (i, j) in enumerate(pairs):
        basis[k, i, j], basis[k, j, i] = 1.0, -1.0
    group = MatrixGroup(basis)
    a = np.array([0.7, 1.0, 1.6, 2.1])

    def forms(R):
        spatial = jnp.einsum("ab,kbc,dc->kad", R, basis, R)
        return jnp.stack([spatial[:, i, j] for i, j in pairs[:3]])

    system = gn.System(group, metric=[a[i] * a[j] for i, j in pairs], distribution=gn.Distribution(forms))
    symmetry = np.eye(6)[:3]
    found = hamiltonise(system, symmetry, {"log γ·Aγ": lambda R: jnp.log(R[3] @ (a * R[3]))})
    assert found.shape_dimension == 3
    assert found.exists
    assert abs(found.coefficients["log γ·Aγ"] + 0.5) < 1e-10
    unlike = [a[i] * a[j] + 0.3 * (i == 0 and j == 3) for i, j in pairs]
    system = gn.System(group, metric=unlike, distribution=gn.Distribution(forms))
    assert not hamiltonise(system, symmetry).exists


@pytest.mark.slow
def test_a_ball_that_rolls_without_spinning_is_veselovas_body():
    # Its vertical rotations turn the plane as well: no left translations of R² × SO(3).
    m, r = 1.3, 0.6

    def forms(x):
        R = x[1]
        rolling = jnp.concatenate([jnp.eye(2), jnp.stack([-r * R[1], r * R[0]])], axis=1)
        return jnp.concatenate([rolling, jnp.concatenate([jnp.zeros(2), R[2]])[None]])

    def generators(g):
        (x, y), R = g
        turn = jnp.concatenate([jnp.stack([-y, x]), R[2]])
        return jnp.concatenate([jnp.eye(5)[:2], turn[None]])

    ball = gn.System(
        Product((Translations(2), SO3())),
        metric=[m, m, *J],
        distribution=gn.Distribution(forms),
        parameters={"J": J + m * r * r},
        name="rubber ball",
    )
    candidates = {"log γ·(J + mr²)⁻¹γ": lambda x, p: log_of_inverse_inertia(x[1][2], p)}
    found = hamiltonise(ball, None, candidates, generators=generators)
    assert found.exists
    assert found.shape_dimension == 2
    assert abs(found.coefficients["log γ·(J + mr²)⁻¹γ"] + 0.5) < 1e-11
    g = (np.array([0.3, -1.0]), np.asarray(SO3().exp([0.4, 0.2, -0.3])))
    xi = ball.project(g, [0.0, 0.0, 1.0, -0.6, 0.3])
    exact = gn.solve(ball, "gauss6", g0=g, xi0=xi, dt=0.01, n_steps=300)
    run = gn.solve(found.system(), "gauss6", g0=g, xi0=found.scaled_velocity(g, xi), dt=0.01, n_steps=200)
    motion = found.original(run)
    np.testing.assert_allclose(motion.g[1][-1], exact.interpolate(motion.t[-1])[0][1][0], atol=1e-8)
    np.testing.assert_allclose(motion.g[0][-1], exact.interpolate(motion.t[-1])[0][0][0], atol=1e-8)


@pytest.mark.slow
def test_symmetries_in_the_distribution_are_refused():
    with pytest.raises(ValueError, match="not transverse"):
        hamiltonise(gn.systems.snakeboard(), np.eye(5)[[1, 3]])  # the rotor's turn is in D


@pytest.mark.slow
def test_bad_input_is_named():
    suslov, veselova = gn.systems.suslov(), gn.systems.veselova()
    with pytest.raises(ValueError, match="3 symmetries of this kind and 1 constraint"):
        hamiltonise(suslov)
    with pytest.raises(ValueError, match=r"symmetry must have shape \[1, 3\]"):
        hamiltonise(suslov, np.eye(3)[:2])
    with pytest.raises(ValueError, match="elements that are not symmetries of veselova"):
        hamiltonise(veselova, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="no constraints"):
        hamiltonise(gn.System(SO3(), metric=J))
    affine = gn.AffineDistribution(lambda x: [[-x[1], 0.0, 1.0]], rhs=[1.0])
    with pytest.raises(ValueError, match="unlike driven"):
        hamiltonise(gn.System(Translations(3), metric=[1.0] * 3, distribution=affine, name="driven"), VERTICAL)
    with pytest.raises(ValueError, match="not in the span"):
        hamiltonise(veselova, VERTICAL, {"γ₁": lambda x: x[0]}).system()
    with pytest.raises(ValueError, match=r"takes others"):
        hamiltonise(veselova, VERTICAL).system()
    with pytest.raises(ValueError, match="candidates for veselova are not finite"):
        hamiltonise(veselova, VERTICAL, {"log": lambda x: jnp.log(x[0] - 9.0)})  # its derivative is finite
    system, found = heavy_veselova()
    with pytest.raises(TypeError, match="run must be a Trajectory, got None"):
        found.original(None)
    run = gn.solve(system, xi0=system.project(None, [0.1, 0.2, 0.3]), dt=0.01, n_steps=2)
    with pytest.raises(ValueError, match=rf"run must be of '{system.name} in the time τ', not of '{system.name}'"):
        found.original(run)
    with pytest.raises(ValueError, match="breaks the constraints of system by"):
        found.original(gn.solve(found.system(), xi0=[0.1, 0.2, 0.3], dt=0.01, n_steps=2))
    with pytest.raises(ValueError, match="t_eval"):
        found.original(gn.solve(found.system(), xi0=[0.1, 0.2, 0.0], dt=0.01, n_steps=2, t_eval=[0.01]))
    run = gn.solve(found.system().with_parameters(J=2 * J), xi0=[0.1, 0.2, 0.0], dt=0.01, n_steps=2)
    with pytest.raises(ValueError, match="run has other parameters than"):
        found.original(run)


@pytest.mark.slow
def test_times_do_not_depend_on_the_nodes_saved():
    system, found = heavy_veselova()
    start = found.scaled_velocity(None, system.project(None, [1.0, -0.6, 0.0]))
    options = {"method": "gauss6", "xi0": start, "dt": 0.02, "n_steps": 400}
    every = found.original(gn.solve(found.system(), **options))
    few = found.original(gn.solve(found.system(), **options, save_every=200))
    np.testing.assert_allclose(few.t, every.t[::200], atol=1e-12)
    by_tolerance = gn.solve(found.system(), xi0=start, tolerance=1e-10, t_end=8.0)
    np.testing.assert_allclose(found.original(by_tolerance).t[-1], every.t[-1], atol=1e-6)


def test_generators_may_be_literals():
    """Generators are evaluated in float64, also where they are arrays made by ``jnp.array`` of constants."""
    rows = gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]])
    particle = gn.System(Translations(3), metric=[1.0, 1.0, 2.0], distribution=rows)
    phi = {"log": lambda x: jnp.log(1 + 2 * x[1] ** 2)}
    found = hamiltonise(particle, [1.0], phi, generators=lambda g: jnp.array([[0.0, 0.0, 1.0]]))
    assert found.exists
    assert found.coefficients["log"] == pytest.approx(-0.5, abs=1e-12)  # the invariant density is (1 + 2y²)^{-1/2}

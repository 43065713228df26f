"""A system's own transforms: Legendre's and its inverse, energy, projection, for every way of giving ℓ."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3, Translations


def relativistic(xi):
    """ℓ = −√(1 − |ξ|²), whose momenta are all of R³."""
    return -jnp.sqrt(1.0 - xi @ xi)


def saturating(xi):
    """ℓ = √(1 + |ξ|²), whose momenta are shorter than 1."""
    return jnp.sqrt(1.0 + xi @ xi)


def test_the_inverse_legendre_transform_of_a_general_lagrangian():
    rng = np.random.default_rng(0)
    system = gn.System(Translations(3), lagrangian=lambda x, xi: relativistic(xi) + x[0] * xi[1])
    x = jnp.array([0.3, 0.0, 0.0])
    for _ in range(5):
        xi = rng.normal(size=3)
        xi = 0.4 * xi / np.linalg.norm(xi)
        p = system.momentum(x, jnp.asarray(xi))
        np.testing.assert_allclose(system.velocity(x, p), xi, rtol=0, atol=1e-13)
        np.testing.assert_allclose(system.energy(x, p), p @ xi - system.lagrangian(x, xi), rtol=1e-12)


@pytest.mark.slow
def test_a_momentum_that_no_velocity_has_gives_no_number():
    """Newton's method finds none; the first guess would be a velocity, and a wrong one."""
    system = gn.System(Translations(3), lagrangian=lambda x, xi: saturating(xi))
    within, beyond = jnp.array([0.3, 0.2, -0.1]), jnp.array([1.3, 0.2, 0.4])
    assert np.all(np.isfinite(system.velocity(jnp.zeros(3), within)))
    assert np.all(np.isnan(system.velocity(jnp.zeros(3), beyond)))
    assert np.isnan(system.energy(jnp.zeros(3), beyond))


def test_a_run_that_is_pushed_there_stops():
    """A force that raises the momentum past 1."""
    system = gn.System(
        Translations(1), lagrangian=lambda x, xi: saturating(xi), forces=lambda t, x, xi, u: jnp.ones(1) + 0.0 * xi
    )
    run = gn.solve(system, gn.RKMK(4), xi0=[0.0], dt=0.01, n_steps=500, throw=False)
    assert not run.success
    assert run.t[-1] < 1.02
    assert np.all(np.isfinite(run.xi[:-1]))


@pytest.mark.parametrize("gyroscopic", [False, True])
def test_a_quadratic_lagrangian_is_inverted_exactly(gyroscopic):
    rng = np.random.default_rng(1)
    root, a = rng.normal(size=(3, 3)), rng.normal(size=3) * gyroscopic
    M = root @ root.T + np.eye(3)
    system = gn.System(SO3(), lagrangian=lambda R, xi: 0.5 * xi @ M @ xi + a @ (R @ xi) - R[2, 2])
    R, p = SO3().exp(jnp.asarray(rng.normal(size=3))), jnp.asarray(rng.normal(size=3))
    assert system.is_quadratic
    np.testing.assert_allclose(system.mass_matrix(R), M, rtol=1e-14)
    np.testing.assert_allclose(system.momentum_at_rest(R), R.T @ a, rtol=0, atol=1e-14)
    np.testing.assert_allclose(system.momentum(R, system.velocity(R, p)), p, rtol=0, atol=1e-13)
    np.testing.assert_allclose(system.potential_energy(R), R[2, 2], rtol=1e-15)
    xi = system.velocity(R, p)
    np.testing.assert_allclose(
        system.energy(R, p), 0.5 * xi @ M @ xi + R[2, 2], rtol=1e-12
    )  # no work by the linear part
    program = str(jax.make_jaxpr(system.velocity)(R, p))
    assert "while" not in program


def test_a_system_is_printed_in_a_line():
    text = repr(gn.systems.chaplygin_sphere())
    assert text.startswith("System 'chaplygin-sphere' on R² × SO(3): a metric; affine constraints; parameters J, m, r")
    assert "\n" not in text


@pytest.mark.parametrize("options", [{}, {"frozen": True}])
def test_a_function_that_cannot_name_a_program_is_refused(options):
    @dataclasses.dataclass(**options)
    class Spring:
        stiffness: np.ndarray

        def __call__(self, x):
            return 0.5 * x @ self.stiffness @ x

    with pytest.raises(TypeError, match=r"potential must be hashable, .* this Spring is not"):
        gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], potential=Spring(np.eye(2)))


def test_vectors_of_another_shape_are_refused_by_name():
    system = gn.System(Translations(3), metric=np.eye(3))
    x = np.zeros(3)
    np.testing.assert_array_equal(system.velocity(x, (1.0, 2, 3.0)), [1.0, 2.0, 3.0])
    for wrong in (1.0, [1.0, 2.0], np.zeros((4, 3))):
        with pytest.raises(ValueError, match=r"p of System\.velocity must have shape \[3\], got \["):
            system.velocity(x, wrong)
    for wrong in ("a", None, ["1", "2", "3"]):
        with pytest.raises(TypeError, match=r"p of System\.velocity must be (numeric|real numbers), got "):
            system.velocity(x, wrong)


def test_points_of_another_shape_are_refused_by_name():
    system = gn.System(Translations(3), metric=np.eye(3), potential=lambda x: x[0])
    for wrong, words in (
        (np.zeros(4), r"must be points of R³, shapes \[..., 3\]; got \[4\]"),
        (np.zeros(2), r"must be points of R³, shapes \[..., 3\]; got \[2\]"),
        (np.zeros((3, 3)), r"must be a point of R³, of shape \[3\], got "),
        ("abc", "must be real numbers, got text"),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"x of System\.energy {words}"):
            system.energy(wrong, np.ones(3))
    with pytest.raises(ValueError, match=r"x of System\.rows is a nested list of unequal lengths"):
        gn.systems.snakeboard().rows([[0.1], [0.2, 0.3]])
    with pytest.raises(TypeError, match=r"x of System\.rows must be numeric"):
        gn.systems.snakeboard().rows(np)


def test_a_metric_of_random_numbers_is_looked_at():
    with jax.enable_x64(True):
        metric = lambda x: (1.0 + jax.random.uniform(jax.random.PRNGKey(0)) + x[0] ** 2) * jnp.eye(3)  # noqa: E731
        assert gn.System(Translations(3), metric=metric).mass_matrix(np.zeros(3))[0, 0] > 1.0


# --- a Lagrangian beside its Hessian -----------------------------------------------------------------------
def _energy(x, xi, p):
    """Two carts on a line, joined by a spring, seen from the first, in a magnetic field."""
    return 0.5 * xi[0] ** 2 + p["m"] * (xi[0] + jnp.cos(x[1]) * xi[1]) ** 2 - jnp.sin(x[0]) + 0.3 * x[1] * xi[0]


def _hessian(x, p):
    c = jnp.cos(x[1])
    return jnp.stack([jnp.stack([1 + 2 * p["m"], 2 * p["m"] * c]), 2 * p["m"] * jnp.stack([c, c * c])])


def _beside(metric, lagrangian=_energy):
    return gn.System(
        gn.groups.Translations(2), lagrangian=lagrangian, metric=metric, parameters={"m": 0.7}, name="carts"
    )


@pytest.mark.slow
def test_a_lagrangian_beside_its_hessian_moves_as_alone():
    alone, both = _beside(None), _beside(_hessian)
    assert both.check().ok
    assert both.metric is None
    assert both.is_quadratic
    for name in ("gauss4", "rkmk4", "gni"):
        result, expected = (
            gn.solve(system, name, g0=[0.2, 0.3], xi0=[0.4, -0.3], dt=0.02, n_steps=40) for system in (both, alone)
        )
        np.testing.assert_allclose(result.g, expected.g, atol=1e-13)
        np.testing.assert_allclose(result.energy, expected.energy, atol=1e-13)


@pytest.mark.slow
def test_a_metric_that_is_not_the_hessian_is_found_by_its_entry():
    report = _beside(lambda x, p: _hessian(x, p) + 0.01 * x[0] ** 2 * jnp.array([[0.0, 1.0], [1.0, 0.0]])).check()
    assert not report.ok
    assert re.search(r"metric= is not the Hessian .*: entry \[0, 1\], of \S+ and \S+, is .*derivative is", str(report))
    with pytest.raises(ValueError, match="quadratic in ξ"):
        _beside(lambda x, p: jnp.eye(2), lambda x, xi, p: jnp.cosh(xi[0]) + xi[1] ** 2)
    with pytest.raises(ValueError, match=r"metric must give shape \[2, 2\]"):
        _beside(lambda x, p: jnp.eye(3))


def test_other_values_of_parameters_give_the_run_of_a_system_built_with_them():
    start = {"xi0": [0.8, -0.5, 0.0], "dt": 0.02, "n_steps": 50}
    one = gn.systems.chaplygin_sleigh(a=0.2)
    for a in (0.1, 0.3):
        new = one.with_parameters(a=a, m=2.0)
        built = gn.systems.chaplygin_sleigh(a=a, m=2.0)
        assert np.array_equal(gn.solve(new, **start).g, gn.solve(built, **start).g)
        assert new.parameters["I"] == one.parameters["I"]
    assert float(one.parameters["a"]) == 0.2
    ball = gn.systems.chaplygin_sphere()
    with pytest.raises(ValueError, match=r"J of chaplygin-sphere must have shape \(3,\), got \(2,\)"):
        ball.with_parameters(J=[1.0, 2.0])
    with pytest.raises(ValueError, match="has no parameter 'inertia'; it has"):
        one.with_parameters(inertia=1.0)
    with pytest.raises(TypeError, match="a"):
        one.with_parameters(a="long")


@pytest.mark.parametrize("name", ["p", "xi", "x", "g", "q", "name"])
def test_a_parameter_may_have_the_name_of_an_argument(name):
    particle = gn.System(
        Translations(2), metric=[1.0, 1.0], potential=lambda x, p: p[name] * x[1], parameters={name: 9.81}
    )
    assert particle.with_parameters(**{name: 2.0}).parameters[name] == 2.0
    modes = gn.Modes({"flight": particle}, []).with_parameters(**{name: 3.0})
    assert modes.systems[0].parameters[name] == 3.0
    with pytest.raises(ValueError, match="must have shape"):
        particle.with_parameters(**{name: [1.0, 2.0]})


@pytest.mark.quick("rkmk4")
@pytest.mark.parametrize("method", ["gauss4", "rkmk4", "lobatto4", "projected"])
def test_multipliers_of_a_motion_that_is_prescribed_are_the_moments_for_it(method):
    """With as many forms as velocities: λ = Iω' + ω × Iω of a body that is turned by ω(t)."""
    inertia = np.array([1.0, 2.0, 3.0])

    def omega(t):
        return jnp.stack([jnp.sin(t), 0.3 + 0.0 * t, jnp.cos(2 * t)])

    body = gn.System(
        SO3(), metric=inertia, distribution=gn.AffineDistribution(np.eye(3), gn.time_dependent(lambda t, x: omega(t)))
    )
    run = gn.solve(body, method, xi0=omega(0.0), dt=0.1, n_steps=20)
    rate = np.stack([np.cos(run.t), 0 * run.t, -2 * np.sin(2 * run.t)], axis=1)
    moments = inertia * rate + np.cross(run.xi, inertia * run.xi)
    np.testing.assert_allclose(run.multipliers, moments, atol=1e-13)
    np.testing.assert_allclose(run.xi, np.stack([omega(t) for t in run.t]), atol=1e-15)


def integral(function, momentum="average"):
    return gn.mechanics.FirstIntegral(function, momentum=momentum)


@pytest.mark.parametrize(
    ("integrals", "words"),
    [
        ({"p7": integral(lambda g, xi, p, q: p[7])}, "first integral 'p7' asks for index 7"),
        ({"R": integral(lambda g, xi, p, q: g[0][1])}, "first integral 'R' could not be evaluated"),
        ({"k": integral(lambda g, xi, p, q: q["k"] * p[0])}, "first integral 'k' could not be evaluated"),
        ({"few": integral(lambda g, xi: xi[0])}, r"the function of first integral 'few' takes \(g, xi, p"),
        ({"p": integral(lambda g, xi, p, q: p[0], momentum="plus")}, "momentum of first integral 'p'"),
        (
            lambda: gn.analysis.first_integrals(gn.systems.veselova(), degree=1, seed=3),
            r"first integral 'linear 1' is one of a system on SO\(3\) .* chaplygin-sleigh is on SE\(2\)",
        ),
    ],
)
def test_integrals_of_another_system_are_refused(integrals, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gn.systems.chaplygin_sleigh().with_first_integrals(integrals() if callable(integrals) else integrals)

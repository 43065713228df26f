"""What is wrong with a metric, constraints, a start or a step is said as what it is; derivatives survive a failure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from geomstats.geometry.special_euclidean import SpecialEuclidean
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

import geonh as gn
from geonh.groups import SE3, SO3, Opposite, Product, Translations, as_group

R3 = Translations(3)
SOLVERS = {"solve": gn.solve, "integrate": lambda s, **options: gn.integrate(s, gn.GNI(), **options)}


def made(**ingredients):
    return gn.System(R3, **{"metric": np.eye(3), **ingredients})


def general(function):
    return gn.System(R3, lagrangian=function)


UNSOUND = {
    "indefinite": (
        made(metric=lambda x: jnp.diag(jnp.array([1.0, -1, 1]))),
        "metric .* is not positive definite: .* -1",
    ),
    "asymmetric": (
        made(metric=lambda x: jnp.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]])),
        r"is not symmetric: entry \[0, 1\] is 0.5, entry \[1, 0\] is 0",
    ),
    "from parameters": (
        made(metric=lambda x, p: jnp.diag(p["m"]), parameters={"m": np.array([1.0, -1, 1])}),
        "not positive definite",
    ),
    "not finite": (made(metric=lambda x: jnp.eye(3) * jnp.sqrt(x[0] - 1)), "metric of system at g0 is not finite"),
    "degenerate": (
        general(lambda x, v: 0.5 * (v[0] ** 2 + (v[1] + v[2]) ** 2)),
        "Hessian .* is degenerate, .* no inertia",
    ),
    "linear": (general(lambda x, v: v[0]), "Hessian .* is degenerate"),
    "saddle": (general(lambda x, v: v[0] ** 2 - v[1] ** 2 + v[2] ** 2), "Hessian .* is not positive definite: .* -2"),
    "dependent": (
        made(distribution=gn.Distribution(lambda x: [[1.0, x[1], 0], [1.0, 0, 0]])),
        "constraints .* dependent",
    ),
    "dependent frame": (
        made(distribution=gn.Distribution(frame=lambda x: [[1.0, x[0], 0], [1.0, 0, 0]])),
        "constraints .* dependent",
    ),
    "no row": (made(distribution=gn.Distribution(lambda x: [[x[0], 0, 0]])), r"dependent: rows \[\[0.0, 0.0, 0.0\]\]"),
    "no number": (
        made(distribution=gn.Distribution(lambda x: [[jnp.log(x[0] - 1), 0, 0]])),
        "constraints .* not finite",
    ),
}


@pytest.mark.quick("linear", "indefinite", "asymmetric", "from parameters", "not finite", "saddle", "degenerate")
@pytest.mark.parametrize(("system", "words"), UNSOUND.values(), ids=UNSOUND)
def test_starts_that_are_unsound(system, words):
    for call in SOLVERS.values():
        with pytest.raises(ValueError, match=words):
            call(system, xi0=[0.1, 0.2, 0.3], dt=0.1, n_steps=3)
    if system.is_constrained or system.metric is not None:
        with pytest.raises(ValueError, match=words):
            system.project(None, [0.1, 0.2, 0.3])


@pytest.mark.quick("rkmk4-indefinite", "rkmk4-asymmetric", "gni-asymmetric", "gni-indefinite")
@pytest.mark.parametrize(
    "metric",
    [
        lambda x: jnp.diag(jnp.stack([1 - x[0], jnp.ones(()), jnp.ones(())])),
        lambda x: jnp.eye(3).at[0, 1].set(jnp.maximum(x[0] - 0.5, 0.0)),
    ],
    ids=["indefinite", "asymmetric"],
)
@pytest.mark.parametrize("method", ["projected", "gni", "rkmk4"])
def test_metrics_that_go_wrong_on_the_way(metric, method):
    with pytest.raises(gn.IntegrationError, match=r"step \d+, t = .*metric is not symmetric and positive") as caught:
        gn.solve(made(metric=metric), method, xi0=[1.0, 0, 0], dt=0.1, n_steps=100)
    assert 3 < len(caught.value.trajectory) < 20


def test_a_lagrangian_whose_hessian_goes_wrong_on_the_way():
    system = general(lambda x, v: 0.5 * ((1 - x[0]) * v[0] ** 2 + v[1] ** 2 + v[2] ** 2))
    with pytest.raises(gn.IntegrationError, match="metric is not symmetric and positive definite"):
        gn.solve(system, xi0=[1.0, 0, 0], dt=0.1, n_steps=100)


@pytest.mark.parametrize("method", ["rkmk4", "rk4", pytest.param("gauss4", marks=pytest.mark.slow), "lobatto2"])
@pytest.mark.quick("rkmk4")
def test_a_momentum_that_no_velocity_has(method):
    """ℓ = v²/2 − v⁴/12 − V: p is at most 2/3, at v = 1, where the Hessian changes its sign; a force drives it on."""
    system = general(lambda x, v: 0.5 * (v @ v) - v[0] ** 4 / 12 + 0.3 * x[0])
    said = "look at the Lagrangian" if method == "gauss4" else r"metric is not symmetric .*Hessian in ξ"
    with pytest.raises(gn.IntegrationError, match=said) as caught:
        gn.solve(system, method, xi0=[0.1, 0.2, 0.1], dt=0.05, n_steps=200)
    run = caught.value.trajectory
    assert 0.6 < run.p[-1, 0] < 2 / 3
    assert np.all(np.isfinite(run.xi))


@pytest.mark.quick("projected")
@pytest.mark.parametrize("method", ["projected", "gni"])
def test_a_hessian_that_depends_on_the_velocity_goes_wrong_on_the_way(method):
    system = general(lambda x, v: 0.5 * (v @ v) + (1 - x[0]) * v[1] ** 2 + 0.01 * v[1] ** 4)
    with pytest.raises(gn.IntegrationError, match="metric is not symmetric and positive definite"):
        gn.solve(system, method, xi0=[0.97, 0, 0], dt=0.1, n_steps=100)


def test_dependent_rows_off_the_holonomic_constraints_are_no_problem():
    """At the centre of a sphere, where its gradient vanishes, a pendulum cannot be."""
    sphere = made(holonomic=lambda x: jnp.stack([x @ x - 1.0]))
    assert sphere.check(n_samples=5).ok
    cone = made(holonomic=lambda x: jnp.stack([x[0] ** 2 + x[1] ** 2 - x[2] ** 2]))
    assert "dependent" in cone.check(n_samples=0).problems[0]


# --- off the group -------------------------------------------------------------------------------------------

MIRROR = np.diag([1.0, 1.0, -1.0])
SHEARED = np.eye(5) + 0.3 * np.eye(5, k=1)
AFFINE = [np.diag([1.0, 0.0]), np.eye(2, k=1)]
BOOSTS = gn.groups.MatrixGroup(np.array([[[0.0, 1.0], [1.0, 0.0]]]))
OFF = {
    "mirror": (SO3(), MIRROR),
    "mirrored": (Product([SO3(), Translations(2)]), (MIRROR, np.zeros(2))),
    "mirrored opposite": (Opposite(SO3()), MIRROR),
    "mirrored body": (SE3(), np.diag([1.0, 1.0, -1.0, 1.0])),
    "mirror in four dimensions": (as_group(SpecialOrthogonal(4)), np.diag([1.0, 1.0, 1.0, -1.0])),
    "scaled": (as_group(SpecialEuclidean(4)), 2.0 * np.eye(5)),
    "sheared": (as_group(SpecialEuclidean(4)), SHEARED),
    "not affine": (gn.groups.MatrixGroup(np.array(AFFINE)), np.array([[1.0, 0.0], [0.1, 1.0]])),
    "not hyperbolic": (BOOSTS, np.diag([2.0, 0.5])),
    "singular": (gn.groups.MatrixGroup(np.array([*AFFINE, np.eye(2, k=-1), np.diag([0.0, 1.0])])), np.ones((2, 2))),
}


@pytest.mark.parametrize(("group", "g0"), OFF.values(), ids=OFF)
def test_a_point_off_its_group_is_refused(group, g0):
    system = gn.System(group, metric=np.eye(group.dim))
    with pytest.raises(ValueError, match="g0 does not lie on"):
        system.point(g0)


def test_points_of_matrix_groups_are_let_pass():
    rng = np.random.default_rng(3)
    for group in {str(group): group for group, _ in OFF.values() if hasattr(group, "basis")}.values():
        far = scipy.linalg.expm(np.tensordot(3 * rng.normal(size=group.dim), group.basis, 1))
        gn.System(group, metric=np.eye(group.dim)).point(far @ far)


def test_quaternions_of_what_is_no_rotation_are_refused():
    for R in (MIRROR, 2 * np.eye(3), np.zeros((3, 3))):
        with pytest.raises(ValueError, match="R must be a rotation matrix"):
            gn.groups.matrix_to_quaternion(R, scalar_first=True)
    with pytest.raises(ValueError, match="q must not be zero"):
        gn.groups.quaternion_to_matrix([0.0] * 4, scalar_first=True)


# --- single precision ----------------------------------------------------------------------------------------


@pytest.mark.user_precision
def test_the_float32_trap_is_recognised():
    """A start that was computed by jnp outside float64 and came as Python floats: residuals of 1e-8 for no reason."""
    angle = jnp.float32(0.3)
    system = made(distribution=gn.Distribution(lambda x: [[jnp.sin(x[2]), -jnp.cos(x[2]), 0.0]]))
    right = [float(np.cos(0.3)), float(np.sin(0.3)), 1.0]
    rounded = [float(v) for v in (jnp.cos(angle), jnp.sin(angle), 1.0)]
    assert gn.solve(system, g0=[0, 0, 0.3], xi0=right, dt=0.01, n_steps=2).success
    with pytest.raises(ValueError, match=r"residual \[.*e-0[89]\]; .* exact in float32, .*geonh.float64.*project"):
        gn.solve(system, g0=[0, 0, 0.3], xi0=rounded, dt=0.01, n_steps=2)
    with pytest.raises(ValueError, match=r"exact in float32"):
        gn.solve(system, g0=[0, 0, float(angle)], xi0=right, dt=0.01, n_steps=2)
    with pytest.raises(ValueError, match=r"residual \[-?0.1\d*\]; system.project"):  # wrong, not rounded
        gn.solve(system, g0=[0, 0, 0.0], xi0=[0.5, 0.125, 1.0], dt=0.01, n_steps=2)


@pytest.mark.user_precision
def test_a_rotation_in_single_precision_is_recognised():
    rotation = np.asarray(jax.scipy.linalg.expm(jnp.array([[0, -0.3, 0.1], [0.3, 0, 0.2], [-0.1, -0.2, 0]])), float)
    with pytest.raises(ValueError, match=r"g0 does not lie on SO\(3\): it is .*e-0[78] away; .* exact in float32"):
        gn.solve(gn.System(SO3(), metric=np.eye(3)), g0=rotation, xi0=[1.0, 0, 0], dt=0.1, n_steps=2)


# --- derivatives ---------------------------------------------------------------------------------------------


def wall(x, p):
    return p["k"] * jnp.sqrt(1.0 - x[0])


def falling(v, k, n_steps, method):
    """Towards a wall at x = 1, where the potential ends: the run fails on the way."""
    system = gn.System(Translations(1), metric=np.eye(1), potential=wall, parameters={"k": k})
    return gn.integrate(system, method, xi0=v[None], dt=0.05, n_steps=n_steps)


@pytest.mark.parametrize("method", [gn.GNI(), gn.RKMK(4)], ids=["gni", "rkmk4"])
@pytest.mark.quick("rkmk4")
def test_a_step_that_fails_does_not_poison_the_derivatives_of_those_before(method):
    start = (jnp.ones(()), jnp.ones(()))
    status = jax.jit(lambda v, k: falling(v, k, 40, method).status)(*start)
    good = int(np.argmax(np.asarray(status) != 0)) - 1
    assert 5 < good < 35

    def reached(n_steps, node):
        return lambda v, k: falling(v, k, n_steps, method).g[node, 0]

    expected = jax.jit(jax.grad(reached(good, good), (0, 1)))(*start)
    for derivative in (jax.grad, jax.jacfwd):
        for node in (good, -1):  # at the end the last good node stands
            result = jax.jit(derivative(reached(40, node), (0, 1)))(*start)
            np.testing.assert_allclose(result, expected, rtol=1e-12)
    ensemble = jax.jit(jax.vmap(jax.grad(reached(40, good)), (0, None)))(jnp.array([-0.5, 1.0]), 1.0)
    np.testing.assert_allclose(ensemble[1], expected[0], rtol=1e-12)
    assert np.isfinite(ensemble[0])


def test_derivatives_by_what_controls_close_over_survive_too():
    system = gn.System(
        Translations(1), metric=np.eye(1), forces=lambda t, x, v, u: u, potential=lambda x: jnp.sqrt(1.0 - x[0])
    )

    def reached(a, n_steps):
        push = lambda t: a * jnp.cos(t)[None]  # noqa: E731
        return gn.integrate(system, gn.GNI(), xi0=[0.0], dt=0.05, n_steps=n_steps, controls=push).g[10, 0]

    result = jax.jit(jax.grad(lambda a: reached(a, 60)))(1.0)
    np.testing.assert_allclose(result, jax.jit(jax.grad(lambda a: reached(a, 10)))(1.0), rtol=1e-12)

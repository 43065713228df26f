"""Noise as controls: one path at all steps, strong and weak orders, noise on D, what is refused."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import geonh as gn
from geonh.ensembles.stores.store import StoreError
from geonh.groups import SE2, SO3, Translations

METRIC = [[1.1, 0.0, 0.36], [0.0, 1.2, 0.0], [0.36, 0.0, 1.2]]
D = gn.Distribution([[0.0, 0.0, 1.0]])
MATRICES = 0.7 * np.random.default_rng(1).normal(size=(2, 3, 3))
"""Fields of noise A_i ξ that do not commute."""
VELOCITY = [
    name
    for name, entry in gn.methods.items()
    if entry.make().guarantees.node == "velocity" and name not in ("variational", "feedback", "rk4-energy")
]
"""Methods that take noise; the three are for systems without constraints, or without forces."""


def additive(t, x, xi, u):
    return -0.4 * xi + 0.7 * u


def windy(t, x, xi, u):
    """Noise along axes at rest in space."""
    c, s = jnp.cos(x[0]), jnp.sin(x[0])
    return -0.4 * xi + 0.7 * jnp.stack([u[2], c * u[0] + s * u[1], c * u[1] - s * u[0]])


def single(t, x, xi, u):
    return -0.4 * xi + u[0] * (MATRICES[0] @ xi)


def mixing(t, x, xi, u):
    return -0.4 * xi + jnp.einsum("i,ijk,k->j", u, MATRICES, xi)


def of_joints(t, x, xi, u):
    """Noise in the joints of a snakeboard, and linear damping."""
    return -0.3 * xi + jnp.concatenate([jnp.zeros(3), 0.3 * u])


@functools.cache
def sleigh(forces):
    return gn.System(SE2(), metric=METRIC, distribution=D, forces=forces, name="sleigh in a bath")


@functools.cache
def suslov(forces):
    metric = [[1.0, 0.2, 0.3], [0.2, 1.5, 0.1], [0.3, 0.1, 2.0]]
    return gn.System(SO3(), metric=metric, distribution=D, forces=forces, name="Suslov in a bath")


@functools.cache
def snakeboard():
    board = gn.systems.controlled_snakeboard()
    metric, rows, action = board.metric, board.distribution, board.action
    return gn.System(
        board.group, metric=metric, distribution=rows, base=action, forces=of_joints, parameters=board.parameters
    )


def ends(system, size, method, xi0, levels, finest, members, **start):
    """(g, ξ) at t = 1 by steps 2⁻ʲ along the same paths, for each level j; shape=[members, …]."""
    noise = gn.Wiener(size, 2.0**-finest, seed=range(members))
    found = {}
    for j in [*levels, finest]:
        many = gn.solve_ensemble(system, method, xi0=xi0, dt=2.0**-j, n_steps=2**j, controls=noise, **start)
        assert many.success.all()
        found[j] = np.concatenate([many.g_vector[:, -1], many.xi[:, -1]], axis=1)
    return found


def strong_order(system, size, method, xi0, *, levels=range(4, 9), finest=12, members=100, **start):
    """Slope of the root of the mean square error at t = 1."""
    found = ends(system, size, method, xi0, levels, finest, members, **start)
    errors = [np.sqrt(np.mean(np.sum((found[j] - found[finest]) ** 2, axis=1))) for j in levels]
    return -np.polyfit(list(levels), np.log2(errors), 1)[0]


@pytest.mark.slow
def test_order_1_on_a_group_and_half_where_fields_of_noise_do_not_commute():
    assert abs(strong_order(suslov(additive), 3, "gauss4", [0.5, 0.8, 0.0]) - 1) < 0.1
    assert abs(strong_order(sleigh(mixing), 2, "rkmk4", [0.5, 0.8, 0.0], members=200) - 0.5) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gauss4", "rkmk4", "projected", "midpoint", "lobatto4", "commutator-free4"])
def test_strong_orders(method):
    xi0 = [0.5, 0.8, 0.0]
    for system, size in (
        (sleigh(additive), 3),
        (sleigh(windy), 3),
        (sleigh(single), 1),
        (suslov(additive), 3),
        (suslov(single), 1),
    ):
        assert abs(strong_order(system, size, method, xi0, members=400) - 1) < 0.1, system.forces
    for system in (sleigh(mixing), suslov(mixing)):
        assert abs(strong_order(system, 2, method, xi0, levels=range(5, 10), members=1000) - 0.5) < 0.1


@pytest.mark.slow
def test_order_1_on_the_snakeboard():
    board = snakeboard()
    g0 = ([0.0, 0.0, 0.0], [0.3, 0.2])
    xi0 = board.project(g0, np.full(5, 0.3))
    for method in ("gauss4", "rkmk4"):
        assert abs(strong_order(board, 2, method, xi0, g0=g0, members=400) - 1) < 0.1


def weak_errors(system, size, xi0, of, levels, finest, members):
    found = ends(system, size, "rkmk4", xi0, levels, finest, members)
    off = [of(found[j]) - of(found[finest]) for j in levels]
    return np.array([x.mean() for x in off]), np.array([x.std() for x in off]) / np.sqrt(members)


@pytest.mark.slow
@pytest.mark.parametrize(("forces", "size"), [(additive, 3), (mixing, 2)])
def test_weak_order_1(forces, size):
    """Of the mean speed, whose error is far larger than the standard error of its measurement."""
    levels = range(2, 6)
    errors, uncertain = weak_errors(sleigh(forces), size, [0.5, 0.8, 0.0], lambda end: end[:, 4], levels, 9, 200_000)
    assert (np.abs(errors) > 8 * uncertain).all()
    assert abs(-np.polyfit(list(levels), np.log2(np.abs(errors)), 1)[0] - 1) < 0.1


@pytest.mark.slow
def test_linear_noise_on_a_vector_space_is_that_of_stratonovich():
    """ξ' = Aξ∘dW has the solution exp(AW)ξ₀: of one step, as of many, for a method that is exact enough."""
    A = np.array([[0.2, -0.9], [0.7, 0.1]])
    system = gn.System(Translations(2), metric=np.eye(2), forces=lambda t, x, xi, u: u[0] * (A @ xi))
    noise = gn.Wiener(1, 0.01, seed=4)
    W = noise.increments(200).sum()
    for dt, n in ((0.01, 200), (0.04, 50)):
        run = gn.solve(system, "rkmk8", xi0=[1.0, 0.5], dt=dt, n_steps=n, controls=noise)
        np.testing.assert_allclose(run.xi[-1], expm(A * W) @ [1.0, 0.5], rtol=1e-9)


@pytest.mark.parametrize("method", VELOCITY)
@pytest.mark.quick("rkmk4")
def test_noise_stays_on_the_constraints_and_is_held_through_each_step(method):
    """Against gauss6 in steps of the same noise: what differs is the order of the method without noise."""
    system, noise = sleigh(windy), gn.Wiener(3, 0.01, seed=5)
    arguments = dict(xi0=[0.5, 0.8, 0.0], dt=0.01, n_steps=100, controls=noise)
    known = gn.solve(system, "gauss6", **arguments)
    run = gn.solve(system, method, **arguments)
    assert np.abs(run.constraint_residual).max() < 1e-13
    assert np.abs(run.xi - known.xi).max() < 0.05 * (1 if run.method.guarantees.order == 1 else 0.05)


@pytest.mark.slow
def test_increments_are_those_of_the_run_and_of_all_steps():
    noise = gn.Wiener(3, 0.02, seed=11)
    W = np.concatenate([np.zeros((1, 3)), noise.increments(12).cumsum(axis=0)])
    for first, count in ((0, 1), (3, 4), (5, 7)):
        chord = (W[first + count] - W[first]) / (count * 0.02)
        np.testing.assert_allclose(noise.mean(first * 0.02, count * 0.02), chord, rtol=1e-12)
        np.testing.assert_allclose(noise.mean((first + count) * 0.02, -count * 0.02), chord, rtol=1e-12)
    between = 0.25 * (W[4] - W[3]) + (W[6] - W[4]) + 0.5 * (W[7] - W[6])
    np.testing.assert_allclose(noise.mean(0.075, 0.055) * 0.055, between, rtol=1e-12)
    np.testing.assert_array_equal(noise.increments(3, first=5), noise.increments(8)[5:])
    np.testing.assert_array_equal(noise.increments(3, first=-4)[1], noise(-2.5 * 0.02) * 0.02)
    many = gn.Wiener(3, 0.02, seed=[4, 11]).increments(12)
    np.testing.assert_array_equal(many[1], noise.increments(12))
    assert abs(gn.Wiener(2, 0.02, seed=1).increments(20_000).var() / 0.02 - 1) < 4 * np.sqrt(2 / 40_000)


def test_a_run_is_cut_resumed_reversed_and_saved(tmp_path):
    system, noise = sleigh(additive), gn.Wiener(3, 0.01, seed=5)
    arguments = dict(dt=0.01, controls=noise)
    run = gn.solve(system, xi0=[0.5, 0.8, 0.0], n_steps=60, **arguments)
    half = gn.solve(system, xi0=[0.5, 0.8, 0.0], n_steps=30, **arguments)
    np.testing.assert_array_equal(gn.resume(half, 30).xi, run.xi)
    half.save(tmp_path / "half.nc")
    again = {"system": system, "method": half.method}
    np.testing.assert_array_equal(gn.resume(tmp_path / "half.nc", 30, controls=noise, **again).xi, run.xi)
    with pytest.raises(ValueError, match="controls"):
        gn.resume(tmp_path / "half.nc", 30, controls=gn.Wiener(3, 0.01, seed=6), **again)
    back = gn.solve(system, xi0=run.xi[-1], g0=run.g[-1], t0=0.6, n_steps=60, dt=-0.01, controls=noise)
    np.testing.assert_allclose(back.xi[-1], run.xi[0], atol=1e-12)
    np.testing.assert_allclose(back.g[-1], run.g[0], atol=1e-12)
    np.testing.assert_allclose(run(0.3).xi[0], run.xi[30], atol=1e-12)
    np.testing.assert_allclose(run(0.3 - 1e-9).xi[0], run.xi[30], atol=1e-6)


@pytest.mark.slow
def test_members_have_their_own_noise_or_one(tmp_path):
    system = sleigh(additive)
    arguments = dict(dt=0.01, n_steps=40, save_every=10)
    own = gn.Wiener(3, 0.01, seed=range(20))
    many = gn.solve_ensemble(system, xi0=[0.5, 0.8, 0.0], controls=own, observables=("xi", "multipliers"), **arguments)
    one = gn.solve(system, xi0=[0.5, 0.8, 0.0], controls=gn.Wiener(3, 0.01, seed=13), **arguments)
    np.testing.assert_array_equal(many.observables["xi"][13], one.xi)
    np.testing.assert_allclose(many.observables["multipliers"][13], one.multipliers, rtol=1e-12)
    same = gn.solve_ensemble(
        system, xi0=[[0.5, 0.8, 0.0], [0.5, 0.7, 0.0]], controls=gn.Wiener(3, 0.01, seed=13), **arguments
    )
    np.testing.assert_array_equal(same.xi[0], one.xi)
    crossed = gn.solve_ensemble(
        system, xi0=[[0.5, 0.8, 0.0], [0.5, 0.7, 0.0]], controls=own, combine="product", **arguments
    )
    assert len(crossed.xi) == 40
    sweep = gn.Sweep.of(system, xi0=[0.5, 0.8, 0.0], controls=own, **arguments)
    sweep.run(tmp_path / "store")
    np.testing.assert_array_equal(gn.open_store(tmp_path / "store").g.values[13], one.g)
    other = gn.Sweep.of(system, xi0=[0.5, 0.8, 0.0], controls=gn.Wiener(3, 0.01, seed=range(1, 21)), **arguments)
    with pytest.raises(StoreError, match="controls"):
        other.run(tmp_path / "store")


@pytest.mark.slow
def test_derivatives_along_a_path_and_traced_seeds():
    noise = gn.Wiener(3, 0.01, seed=5)

    def end(damping, seed):
        system = gn.System(
            SE2(),
            metric=METRIC,
            distribution=D,
            forces=lambda t, x, xi, u, p: -p["c"] * xi + 0.7 * u,
            parameters={"c": damping},
        )
        path = gn.Wiener(3, 0.01, seed=seed)
        return gn.integrate(system, "rkmk4", xi0=[0.5, 0.8, 0.0], dt=0.01, n_steps=50, controls=path).xi[-1, 0]

    with gn.float64():
        slope = jax.grad(end)(0.4, 5)
        np.testing.assert_allclose((end(0.4 + 1e-5, 5) - end(0.4 - 1e-5, 5)) / 2e-5, slope, rtol=1e-7)
        many = jax.vmap(lambda seed: end(0.4, seed))(jnp.arange(4, 7))
    run = gn.solve(sleigh(additive), "rkmk4", xi0=[0.5, 0.8, 0.0], dt=0.01, n_steps=50, controls=noise)
    np.testing.assert_allclose(many[1], run.xi[-1, 0], rtol=1e-13)


@pytest.mark.slow
def test_a_bouncing_ball_in_noise_keeps_its_path_through_bounces():
    """Against parabolas between the bounces, in each step of its own acceleration."""
    ball = gn.System(
        Translations(1), metric=[[1.0]], potential=lambda x: 9.81 * x[0], forces=lambda t, x, xi, u: 0.3 * u
    )
    ground = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="ground")
    bounce = gn.Transition("flies", ground, "flies", reset=lambda t, x, xi: -0.8 * xi)
    modes, noise = gn.Modes({"flies": ball}, [bounce]), gn.Wiener(1, 0.01, seed=3)
    run = gn.solve(modes, mode="flies", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=100, controls=noise)
    x, v = 1.0, 0.0
    for change in noise.increments(100)[:, 0]:
        a, left = -9.81 + 0.3 * change / 0.01, 0.01
        while x + v * left + a * left**2 / 2 < 0:
            hit = (-v - np.sqrt(v * v - 2 * a * x)) / a
            x, v, left = 0.0, -0.8 * (v + a * hit), left - hit
        x, v = x + v * left + a * left**2 / 2, v + a * left
    assert len(run.switches.t) == 1
    np.testing.assert_allclose([run.g[-1, 0], run.xi[-1, 0]], [x, v], atol=1e-12)


START = dict(xi0=[0.5, 0.8, 0.0], dt=0.01, n_steps=4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda W: gn.solve(sleigh(additive), gn.GNI(), controls=W, **START), "half of the noise"),
        (lambda W: gn.solve(sleigh(additive), xi0=[0.5, 0.8, 0.0], t_end=1, tolerance=1e-6, controls=W), "pass dt"),
        (lambda W: gn.solve(sleigh(lambda t, x, xi, u: u**2), controls=W, **START), "not linear in u"),
        (lambda W: gn.solve(sleigh(additive), controls=W, **START | {"dt": 0.015}), "dt = 0.015 is no multiple"),
        (lambda W: gn.solve(sleigh(additive), controls=W, t0=0.005, **START), "t0 = 0.005 is no multiple"),
        (lambda W: gn.solve_ensemble(sleigh(additive), controls=W, **START | {"dt": [0.01, 0.015]}), "dt = 0.015"),
        (lambda W: gn.solve(sleigh(additive), controls=gn.Wiener(3, 0.01, seed=[1, 2]), **START), "have 2 seeds"),
        (lambda W: gn.solve(sleigh(additive), controls=gn.Wiener(2, 0.01), **START), "shape"),
        (lambda W: gn.analysis.periodic_orbit(sleigh(additive), [0, 0, 0], [0, 1, 0], 1.0, controls=W), "is for runs"),
        (lambda W: gn.diagnostics.predicted_drift(sleigh(additive), controls=W, **START), "is for runs"),
        (lambda W: gn.Wiener(0, 0.01), "size"),
        (lambda W: gn.Wiener(1, 0.0), "dt"),
        (lambda W: gn.Wiener(1, [0.1, 0.2]), "dt"),
        (lambda W: W.increments(3, 0.5), "first must be an integer"),
        (lambda W: W.increments(3, 2**62), "first and n_steps must be below"),
        (lambda W: W([0.1, 0.2]), r"t of Wiener\.__call__ must be a number"),
        (lambda W: W(np.nan), r"t of Wiener\.__call__ must be finite"),
        (lambda W: W(jax.random.key(0)), r"t of Wiener\.__call__ must be real numbers, got a key"),
        (lambda W: W.mean(0.1, 0.0), r"h of Wiener\.mean must be a number, not zero"),
        (lambda W: gn.Wiener(1, 0.01, seed=jax.random.key(0)), "seed must be an integer, .* key of jax.random"),
        (lambda W: gn.Wiener(1, 0.01, seed=-1), "seed must be from 0"),
        (lambda W: gn.Wiener(1, 0.01, seed=2**70), "seed must be from 0"),
        (lambda W: gn.Wiener(1, 0.01, seed=0.5), "seed must be an integer"),
        (lambda W: gn.Wiener(1, 0.01, seed=[[1, 2]]), "seed must be an integer"),
        (lambda W: gn.Wiener(1, 0.01, seed=[[1, 2], 3]), "seed must be an integer"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(gn.Wiener(3, 0.01))


@pytest.mark.slow
def test_components_that_no_force_reads_are_told():
    """Not those of noise that vanishes at the start alone."""
    two = lambda t, x, xi, u: -xi + jnp.array([1.0, 0.5, 0.0]) * u[1] + xi * u[0]  # noqa: E731
    with pytest.warns(UserWarning, match=r"do not use u\[2\], .*Wiener\(2, dt\)"):
        gn.solve(sleigh(two), controls=gn.Wiener(3, 0.01), **START)
    with warnings.catch_warnings(action="error"):
        gn.solve(sleigh(two), controls=gn.Wiener(2, 0.01), **START | {"xi0": [0.0, 0.0, 0.0]})


def test_a_path_is_shown_with_its_seed():
    assert repr(gn.Wiener(3, 0.1, seed=5)) == "Wiener(3, 0.1, seed=5)"
    assert repr(gn.Wiener(1, 0.5, seed=[1, 2])) == "Wiener(1, 0.5, seed=[1, 2])"

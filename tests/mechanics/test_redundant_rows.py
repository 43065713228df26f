"""Redundant constraints: the motion is that of independent ones, multipliers are of least norm, faults have names."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SE2, Translations
from geonh.integrators import Result
from geonh.mechanics import accelerations
from geonh.mechanics.redundancy import Rank

G0 = (np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.0]))
MASS = np.array([[1.3, 0, 0.3, 0.4, 0], [0, 2, 0, 0, 0], [0.3, 0, 2, 0, 0], [0.4, 0, 0, 0.4, 0], [0, 0, 0, 0, 0.2]])


def _wheel(x, y, angle, size=1.0):
    """Form of a wheel at (x, y) of the cart that does not slide sideways."""
    across = jnp.stack([-jnp.sin(angle), jnp.cos(angle)])
    return size * jnp.stack([x * across[1] - y * across[0], *across, 0.0 * angle, 0.0 * angle])


def _wheels(x, p):
    """A fixed rear axle and a steered front axle, two wheels on each."""
    angle, none, half = x[0], 0.0 * x[0], 0.3
    along, across = half * jnp.cos(angle), half * jnp.sin(angle)
    return jnp.stack(
        [
            _wheel(none, none + half, none),
            _wheel(none, none - half, none, p["size"]),
            _wheel(p["length"] - across, along, angle),
            _wheel(p["length"] + across, -along, angle, 1 + 0.3 * jnp.cos(angle)),
        ]
    )


def cart(forms=_wheels, **options):
    return gn.System(
        [SE2(), Translations(2)],
        metric=MASS,
        potential=lambda x, p: 0.5 * (x[0] - 0.2) ** 2,
        distribution=gn.Distribution(forms),
        parameters={"length": 1.1, "size": 1.0},
        base="shape",
        name="cart",
        **options,
    )


TWO = cart(lambda x, p: _wheels(x, p)[::2])
FOUR = cart(rank=2)
XI0 = TWO.project(G0, [0.4, 1.0, 0.2, 0.3, 0.5])
RUN = {"g0": G0, "xi0": XI0, "dt": 0.01}


def least_norm(mu, M, force):
    """Multipliers of a constraint force whose parts are least in M⁻¹, by NumPy."""
    root = np.linalg.cholesky(np.linalg.inv(M))
    rows = np.asarray(mu) @ root
    sizes = np.linalg.norm(rows, axis=1)
    return np.linalg.lstsq((rows / sizes[:, None]).T, root.T @ force, rcond=1e-10)[0] / sizes


QUICK = ("variational", "shake", "gni", "gauss4", "rkmk4")
REFUSED = {
    "variational": "without nonholonomic constraints",
    "shake": "for vector spaces",
    "feedback": "gains are too large for dt",
}


@pytest.mark.quick("rkmk4")
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in gn.methods])
def test_four_wheels_move_as_two_with_every_method(name):
    if name in REFUSED:
        for system in (TWO, FOUR):
            with pytest.raises(ValueError, match=REFUSED[name]):
                gn.solve(system, name, **RUN, n_steps=25)
        return
    same_motion(name)


@pytest.mark.slow
def test_four_wheels_move_as_two_under_feedback():
    same_motion(gn.integrators.Feedback(1.0, "rk4"))


def same_motion(method):
    two, four = (gn.solve(system, method, **RUN, n_steps=25) for system in (TWO, FOUR))
    np.testing.assert_allclose(four.xi, two.xi, atol=1e-13)
    for there, here in zip(four.g, two.g, strict=True):
        np.testing.assert_allclose(there, here, atol=1e-13)
    held = np.abs(two.constraint_residual).max() + 1e-14
    assert four.multipliers.shape == (26, 4)
    assert np.abs(four.constraint_residual).max() < 10 * held


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rkmk5", "gauss4"])
def test_four_wheels_move_as_two_with_steps_that_a_tolerance_chooses(name):
    start = {"g0": G0, "xi0": XI0, "tolerance": 1e-6, "t_end": 2.0}
    two, four = (gn.solve(system, name, **start) for system in (TWO, FOUR))
    np.testing.assert_allclose(four.t, two.t, atol=1e-8)
    np.testing.assert_allclose(four.xi, two.xi, atol=1e-8)
    np.testing.assert_allclose(four(1.234).xi, two(1.234).xi, atol=1e-8)
    assert four.multipliers.shape == (len(four), 4)
    assert np.abs(four.constraint_residual).max() < 1e-13


@pytest.mark.parametrize("name", ["rkmk5", "gauss4"])
@pytest.mark.quick("rkmk5")
def test_a_rank_that_rises_ends_a_run_with_steps_that_a_tolerance_chooses(name):
    def rows(x):
        return jnp.stack([jnp.array([0.0, 1.0, 0.0]), jnp.stack([0.0 * x[0], 1.0, jnp.maximum(x[0] - 1.0, 0.0) ** 2])])

    system = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution(rows), rank=1)
    run = gn.solve(system, name, xi0=[1.0, 0.0, 0.5], tolerance=1e-6, t_end=3.0, throw=False)
    assert run.status is Result.RANK
    assert run.t[-1] < 1.5


@pytest.mark.slow
def test_redundancy_is_said_once_and_named():
    with pytest.warns(
        UserWarning, match=r"forms\[1\] follows from forms\[0\]; forms\[3\] follows from forms\[2\]"
    ) as warned:
        result = gn.solve(cart(), **RUN, n_steps=3)
    assert len(warned) == 1
    assert "System(rank=2)" in str(warned[0].message)
    assert result.system.rank == Rank(0, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = gn.solve(FOUR, **RUN, n_steps=3)
        again = gn.resume(result, 2)
    np.testing.assert_array_equal(known.xi, result.xi)
    assert len(again.t) == 6


def test_multipliers_are_of_least_norm():
    four, two = gn.solve(FOUR, **RUN, n_steps=20), gn.solve(TWO, **RUN, n_steps=20)
    for k in (0, 7, 20):
        with gn.float64():
            x = four.g[1][k]
            mu, half = _wheels(jnp.asarray(x), FOUR.parameters), TWO.annihilator(x)
        expected = least_norm(mu, MASS, np.asarray(half).T @ two.multipliers[k])
        np.testing.assert_allclose(four.multipliers[k], expected, atol=1e-13)
    gni = gn.solve(FOUR, "gni", **RUN, n_steps=5)
    assert gni.impulse_multipliers.shape == (6, 4)
    np.testing.assert_allclose(gni.impulse_multipliers[:, 0], gni.impulse_multipliers[:, 1], atol=1e-13)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.quick("1e-06")
def test_the_scale_of_a_row_does_not_matter(size):
    def rows(x, p):
        mu = _wheels(x, p)[::2]
        return jnp.concatenate([mu, size * mu[:1], mu[:1] + mu[1:] / size, mu[1:]])

    many = cart(rows, rank=2)
    result, expected = (gn.solve(system, **RUN, n_steps=30) for system in (many, TWO))
    np.testing.assert_allclose(result.xi, expected.xi, atol=1e-13)
    parts = result.multipliers[:, 2] * size - result.multipliers[:, 0]
    assert np.abs(parts).max() < 1e-12 * (1 + np.abs(result.multipliers).max())


@pytest.mark.slow
def test_constant_rows_given_three_times():
    form = [0.0, 0.0, 1.0]
    one, three = (
        gn.System(SE2(), metric=[[1.2, 0, 0.3], [0, 1, 0], [0.3, 0, 1]], distribution=gn.Distribution(rows), rank=1)
        for rows in ([form], [form, [0.0, 0.0, -2.0]])
    )
    result, expected = (gn.solve(s, xi0=[0.8, -0.5, 0.0], dt=0.02, n_steps=50) for s in (three, one))
    np.testing.assert_array_equal(result.xi, expected.xi)
    np.testing.assert_allclose(result.multipliers @ [1.0, -2.0], expected.multipliers[:, 0], atol=1e-14)
    np.testing.assert_allclose(result.multipliers[:, 0], -2 * result.multipliers[:, 1], atol=1e-14)


@pytest.mark.slow
def test_a_run_goes_on_where_the_rows_chosen_become_parallel():
    def rows(x):
        return jnp.stack([jnp.stack([jnp.cos(x[2]), jnp.sin(x[2]), 0 * x[2], 0.3 * x[2]]), *jnp.eye(4)[:2]])

    def plane(x):
        return jnp.concatenate([rows(x)[:1].at[:, 3].set(0.0), rows(x)[1:]])

    system = gn.System(Translations(4), metric=np.diag([1.0, 2, 3, 4]), distribution=gn.Distribution(plane), rank=2)
    run = gn.solve(system, xi0=[0.0, 0.0, 1.0, 0.5], dt=0.05, n_steps=200)  # past two right angles, three times
    np.testing.assert_allclose(run.g[-1], [0.0, 0.0, 10.0, 5.0], atol=1e-12)


@pytest.mark.slow
def test_projections():
    np.testing.assert_allclose(FOUR.project(G0, [0.4, 1.0, 0.2, 0.3, 0.5]), XI0, atol=1e-15)
    with pytest.warns(UserWarning, match="redundant"):
        np.testing.assert_allclose(cart().project(G0, [0.4, 1.0, 0.2, 0.3, 0.5]), XI0, atol=1e-15)
    x = G0[1]
    held = FOUR.holding(x)
    np.testing.assert_allclose(
        held.distribution.P(MASS, x, FOUR.parameters), TWO.distribution.P(MASS, x, TWO.parameters), atol=1e-14
    )
    np.testing.assert_allclose(FOUR.normal_momentum(x, np.ones(5)), TWO.normal_momentum(x, np.ones(5)), atol=1e-13)
    assert FOUR.check(at=G0).ok
    assert "4 constraint(s), rank of D 3" in str(FOUR.check(at=G0))


def test_accelerations_find_the_rank_themselves():
    with pytest.warns(UserWarning, match="redundant at g:"):
        rate, lam = accelerations(cart(), 0.0, G0, XI0)
    expected, own = accelerations(TWO, 0.0, G0, XI0)
    np.testing.assert_allclose(rate, expected, atol=1e-14)
    mu = TWO.annihilator(G0[1])
    np.testing.assert_allclose(_in_numpy(G0[1]).T @ lam, mu.T @ own, atol=1e-14)
    np.testing.assert_allclose(lam, least_norm(_in_numpy(G0[1]), MASS, mu.T @ own), atol=1e-14)


def _in_numpy(x):
    with gn.float64():
        return np.asarray(_wheels(jnp.asarray(x), FOUR.parameters))


@pytest.mark.slow
def test_linearisation_and_growth_vector():
    straight = [0.0, 1.0, 0.0, 0.0, 0.0]
    place = (np.zeros(3), np.zeros(2))
    four, two = (
        gn.analysis.linearise(
            gn.System(
                [SE2(), Translations(2)],
                metric=MASS,
                potential=lambda x: 0.5 * x[0] ** 2,
                distribution=s.distribution,
                parameters=s.parameters,
                base="shape",
                rank=2,
            ),
            place,
            straight,
        )
        for s in (FOUR, TWO)
    )
    np.testing.assert_allclose(np.sort_complex(four.eigenvalues), np.sort_complex(two.eigenvalues), atol=1e-9)
    assert gn.geometry.growth_vector(FOUR, G0) == gn.geometry.growth_vector(TWO, G0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_gradients(mode):
    """By the length and by the size of a redundant row, on which the motion does not depend."""

    def reached(values, system):
        changed = gn.mechanics.system.with_parameters(system, {"length": values[0], "size": values[1]})
        run = gn.integrate(changed, "rkmk4", xi0=changed.project(G0, XI0), g0=G0, dt=0.02, n_steps=20)
        return jnp.stack(
            [run.g[0][-1] @ jnp.array([1.0, 2.0, 3.0]), run.multipliers[-1, 0] + 2 * run.multipliers[-1, -1]]
        )

    with gn.float64():
        values, h = jnp.array([FOUR.parameters[name] for name in ("length", "size")]), 1e-5
        slopes = mode(reached)(values, FOUR)
        numbers = [(reached(values + e, FOUR) - reached(values - e, FOUR)) / (2 * h) for e in h * jnp.eye(2)]
        np.testing.assert_allclose(slopes, jnp.stack(numbers, axis=1), atol=2e-9)
        np.testing.assert_allclose(slopes[0], mode(reached)(values, TWO)[0], atol=1e-12)


@pytest.mark.slow
def test_ensembles_have_the_bits_of_single_runs():
    starts = np.linspace(0.5, 1.5, 5)[:, None] * XI0
    with pytest.warns(UserWarning, match="redundant"):
        many = gn.solve_ensemble(cart(), "gauss4", g0=G0, xi0=starts, dt=0.02, n_steps=20)
    for i in (0, 3):
        one = gn.solve(FOUR, "gauss4", g0=G0, xi0=starts[i], dt=0.02, n_steps=20)
        np.testing.assert_array_equal(many.xi[i, -1], one.xi[-1])
        np.testing.assert_array_equal(many.multipliers[i, -1], one.multipliers[-1])


def test_a_member_with_another_rank_is_refused():
    def rows(x, p):
        return jnp.stack([jnp.array([0.0, 0.0, 1.0, 0.0]), jnp.stack([p["a"], 0 * p["a"], 1 + 0 * p["a"], 0 * p["a"]])])

    system = gn.System(
        [SE2(), Translations(1)], metric=np.eye(4), distribution=gn.Distribution(rows), parameters={"a": 0.0}, rank=1
    )
    many = gn.solve_ensemble(
        system, xi0=[0.0, 1.0, 0.0, 0.0], dt=0.1, n_steps=3, parameters={"a": np.array([0.0, 0.2])}
    )
    assert many.status.tolist() == [0, Result.START]
    assert "more independent constraints" in many.message(1)


@pytest.mark.slow
def test_a_file_of_a_run_is_resumed(tmp_path):
    whole = gn.solve(FOUR, **RUN, n_steps=12)
    gn.solve(FOUR, **RUN, n_steps=5).save(tmp_path / "run.nc")
    for system in (FOUR, cart()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resumed = gn.resume(tmp_path / "run.nc", 7, system=system, method="gauss4")
        np.testing.assert_array_equal(resumed.xi, whole.xi)


# --- refusals ----------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_contradictory_right_sides_are_refused_by_name():
    def system(last, **options):
        forms = [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
        return gn.System(
            Translations(4),
            metric=np.eye(4),
            distribution=gn.AffineDistribution(forms, rhs=[0.1, 0.2, last]),
            **options,
        )

    xi0 = [1.0, 0.1, 0.2, 0.0]
    for options in ({}, {"rank": 2}):
        with pytest.raises(
            ValueError, match=r"contradict .*forms\[2\] follows from forms\[0\], forms\[1\].* 0\.3.* 0\.4"
        ):
            gn.solve(system(0.4, **options), xi0=xi0, dt=0.1, n_steps=1)
        with pytest.raises(ValueError, match="contradict"):
            system(0.4).project(None, xi0)
    with pytest.raises(ValueError, match=r"right-hand side 0\.3, and it is 0\.3000001"):
        gn.solve(system(0.3 + 1e-7), xi0=xi0, dt=0.1, n_steps=1)
    run = gn.solve(system(0.3, rank=2), xi0=xi0, dt=0.1, n_steps=4)
    np.testing.assert_allclose(run.xi[-1], xi0, atol=1e-15)


@pytest.mark.slow
def test_contradictory_positions_are_refused_by_name():
    def pendulum(radius, **options):
        return gn.System(
            Translations(3),
            metric=np.ones(3),
            holonomic=lambda x: jnp.stack([x @ x - 1.0, 2 * x @ x - 2 * radius]),
            name="pendulum",
            **options,
        )

    start = {"g0": [0.0, 0.0, 1.0], "xi0": [0.2, 0.0, 0.0], "dt": 0.1}
    for options in ({}, {"rank": 1}):
        with pytest.raises(ValueError, match=r"contradict|does not satisfy"):
            gn.solve(pendulum(1.5, **options), **start, n_steps=1)
        with pytest.raises(ValueError, match="contradict each other near g0"):
            pendulum(1.5, **options).project_position([0.1, 0.2, 1.0])
    with pytest.raises(ValueError, match=r"holonomic\[1\] depends on holonomic\[0\], and is -1 where these are zero"):
        gn.solve(pendulum(1.5), **start, n_steps=1)
    g, xi = pendulum(1.0, rank=1).project([0.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(g, [0.0, 0.6, 0.8], atol=1e-15)
    run = gn.solve(pendulum(1.0, rank=1), "projected", g0=g, xi0=xi, dt=0.05, n_steps=40)
    assert np.abs(run.holonomic_residual).max() < 1e-14


def test_a_wrong_rank_is_refused():
    with pytest.raises(
        ValueError, match=r"0 independent row\(s\) of holonomic= and 2 .* rank= says 0 and 3: forms\[1\]"
    ):
        gn.solve(cart(rank=3), **RUN, n_steps=1)
    for rank in ((1, 2), 0, -1, 1.5):
        with pytest.raises(ValueError, match="rank must be one number"):
            cart(rank=rank)
    with pytest.raises(ValueError, match="rank says that 5 rows"):
        gn.System(Translations(7), metric=np.eye(7), distribution=gn.Distribution(np.eye(7)[:2]), rank=5)
    with pytest.raises(ValueError, match="at most 2 are independent; of redundant ones, rank= says how many are"):
        gn.System(Translations(2), metric=np.eye(2), distribution=gn.Distribution([[1.0, 0.0]] * 3))


def test_a_singular_configuration_is_not_redundancy():
    def rows(x):
        return jnp.stack(
            [jnp.stack([1 + 0 * x[0], 0 * x[0], x[0], 0 * x[0]]), jnp.stack([1.0, 0 * x[0], 0 * x[0], 0 * x[0]])]
        )

    system = gn.System(Translations(4), metric=np.eye(4), distribution=gn.Distribution(lambda x: rows(x[1:])))
    with pytest.raises(ValueError, match=r"dependent at g0: .*though not about it: the configuration is singular"):
        gn.solve(system, xi0=[0.0, 1.0, 0.0, 0.0], dt=0.1, n_steps=1)
    nearly = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution([[1.0, 0, 0], [1.0, 1e-10, 0]]))
    with pytest.raises(ValueError, match="dependent at g0"):
        gn.solve(nearly, xi0=[0.0, 0.0, 1.0], dt=0.1, n_steps=1)


@pytest.mark.quick("True")
@pytest.mark.parametrize("rises", [True, False])
def test_a_rank_that_changes_ends_the_run(rises):
    def rows(x):
        s, zero, one = jnp.where(x[2] > 0.5, (x[2] - 0.5) ** 3, 0.0), 0 * x[2], 1 + 0 * x[2]
        if rises:
            return jnp.stack([jnp.stack([one, zero, zero, zero]), jnp.stack([one, s, zero, zero])])
        first, second = jnp.stack([one, zero, zero, zero]), jnp.stack([one, 0.5 - x[2], zero, zero])
        return jnp.stack([first, second, 2 * first])

    system = gn.System(Translations(4), metric=np.eye(4), distribution=gn.Distribution(rows), rank=1 if rises else 2)
    run = gn.solve(system, xi0=[0.0, 0.0, 1.0, 0.0], dt=0.03, n_steps=60, throw=False)
    assert run.status == Result.RANK
    assert 0.45 < run.t[-1] < 0.56


# --- any rows ----------------------------------------------------------------------------------------------
def _any_rows(x, p):
    return p["forms"] + jnp.einsum("ijk,k->ij", p["slopes"], jnp.sin(x))


def _more_rows(x, p):
    return jnp.concatenate([_any_rows(x, p), p["B"] @ _any_rows(x, p)])


def _right(x, p):
    return p["right"]


def _more_right(x, p):
    return jnp.concatenate([p["right"], p["B"] @ p["right"]])


def _mass(x, p):
    return p["M"]


def _spring(x, p):
    return 0.5 * x @ x


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1))
def test_combined_rows_appended_change_nothing(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(7, 7))
    data = {
        "forms": rng.normal(size=(2, 7)),
        "slopes": 0.5 * rng.normal(size=(2, 7, 7)),
        "B": rng.normal(size=(3, 2)) * 10.0 ** rng.integers(-3, 4, size=(3, 1)),
        "right": rng.normal(size=2) * rng.integers(0, 2),
        "M": root @ root.T + np.eye(7),
    }
    alone, many = (
        gn.System(
            Translations(7),
            metric=_mass,
            potential=_spring,
            distribution=gn.AffineDistribution(rows, rhs=right),
            parameters=data,
            rank=2,
        )
        for rows, right in ((_any_rows, _right), (_more_rows, _more_right))
    )
    g0 = rng.normal(size=7)
    xi0 = alone.project(g0, rng.normal(size=7))
    np.testing.assert_allclose(many.project(g0, xi0), xi0, atol=1e-11)
    result, expected = (gn.solve(s, "gauss4", g0=g0, xi0=xi0, dt=0.01, n_steps=10) for s in (many, alone))
    np.testing.assert_allclose(result.g, expected.g, atol=1e-11)
    mu, force = many.annihilator(g0), alone.annihilator(g0).T @ expected.multipliers[0]
    sizes = np.linalg.norm(mu, axis=1)
    least = least_norm(mu, data["M"], force)
    np.testing.assert_allclose(result.multipliers[0] * sizes, least * sizes, atol=1e-9 * np.abs(force).max())


# --- Bricard's mechanism -----------------------------------------------------------------------------------
def _joints(q):
    """Points of the joints, and the attitude behind the last, of rods of length 1 whose axes turn by right angles."""
    R, point, points = jnp.eye(3), jnp.zeros(3), [jnp.zeros(3)]
    for angle, sign in zip(q, (1, -1, 1, -1, 1), strict=True):
        c, s, zero = jnp.cos(angle), jnp.sin(angle), 0 * angle
        along, across = c * R[:, 0] + s * R[:, 1], c * R[:, 1] - s * R[:, 0]
        point = point + along
        points.append(point)
        R = jnp.stack([along, sign * R[:, 2], -sign * across], axis=1) + zero
    return R, points


def _closure(q):
    R, points = _joints(q)
    return jnp.concatenate([points[5] + jnp.array([1.0, 0.0, 0.0]), R[jnp.array([0, 2]), 2]])


def _rods(q, v, p):
    places, velocities = jax.jvp(lambda q: jnp.stack(_joints(q)[1]), (q,), (v,))
    ends = list(zip(places[:5], places[1:], velocities[:5], velocities[1:], strict=True))
    kinetic = sum((a @ a + a @ b + b @ b) / 6 for _, _, a, b in ends)
    return kinetic - sum(p["gravity"] * (x + y)[1] / 2 for x, y, _, _ in ends)


BRICARD = gn.System(
    Translations(5), lagrangian=_rods, holonomic=_closure, parameters={"gravity": 9.81}, name="Bricard", rank=4
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dt", "energy"), [("gauss4", 0.005, 1e-6), ("projected", 0.005, 0.05), ("rkmk4", 0.005, 1e-5)]
)
def test_bricard(name, dt, energy):
    """Five closure conditions of which four are independent: one degree of freedom. No energy is lost (IFToMM A04)."""
    run = gn.solve(BRICARD, name, g0=np.full(5, np.pi / 2), xi0=np.zeros(5), dt=dt, n_steps=round(10 / dt))
    assert np.ptp(run.energy) < energy  # of 49 J between the highest and the lowest place
    assert np.abs(run.holonomic_residual).max() < 1e-14
    assert np.abs(run.constraint_residual).max() < 1e-13
    np.testing.assert_allclose(run.g[:, ::2], run.g[:, :1] + np.zeros(3), atol=1e-12)  # threefold symmetry
    a, b = run.g[:, 0], run.g[:, 1]
    np.testing.assert_allclose(np.cos(a) + np.cos(b) + np.cos(a) * np.cos(b), 0.0, atol=1e-13)
    assert np.ptp(a) > 3.0


@pytest.mark.slow
def test_bricard_needs_its_rank_said_and_projects():
    with pytest.raises(ValueError, match="rank= says how many"):
        gn.System(Translations(5), lagrangian=_rods, holonomic=_closure, parameters={"gravity": 9.81})
    g, xi = BRICARD.project(np.pi / 2 + np.array([0.01, -0.02, 0.01, 0.0, 0.01]), np.ones(5))
    assert np.abs(_in_float64(_closure, g)).max() < 1e-14
    assert np.abs(BRICARD.constraint_residual(g, xi)).max() < 1e-14


def _in_float64(function, x):
    with gn.float64():
        return np.asarray(function(jnp.asarray(x)))


@pytest.mark.slow
def test_right_hand_sides_that_differ_by_rounding_do_not_contradict():
    """Beside a prescribed coordinate, whose rate is their scale."""
    system = gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1.0],
        holonomic=gn.time_dependent(lambda t, x: jnp.stack([x[0] - 0.3 * jnp.sin(2 * t), x[1] + 1e-17 * t, 2 * x[1]])),
        rank=2,
    )
    run = gn.solve(system, g0=[0.0, 0.0, 0.0], xi0=[0.6, 0.0, 1.0], dt=0.01, n_steps=3)
    np.testing.assert_allclose(run.g[-1], [0.3 * np.sin(0.06), 0.0, 0.03], rtol=0, atol=1e-12)

"""Contacts that slip under a normal force that is a multiplier: its place among the forms, where it vanishes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import geonh as gn
from geonh import rolling
from geonh.groups import Translations
from geonh.integrators import Result
from geonh.rolling import slipping

MASS, WEIGHT, MU = 2.0, 2.0 * 9.81, 0.5
BEGINS = 1.01e-7
"""Speed, m/s, with which a slip begins under the force that it had to overcome."""


def guided(order, n=3, guide=-4.0, **more):
    """A block that is pulled with 10t along x, held in y with its weight, in z with another force, as forms."""

    def force(t, x, xi, u):
        return jnp.stack([10 * t, -WEIGHT + 0 * t, guide + 0 * t, 10 * t][:n])

    return gn.System(
        Translations(n), metric=[MASS] * n, distribution=gn.Distribution(np.eye(n)[list(order)]), forces=force, **more
    )


@pytest.mark.quick("True-order2")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("as_function", [False, True])
def test_normal_forces_that_are_forms_keep_their_places(order, as_function):
    """In closed form: mv' = 10t − μN from F = μ_s N on."""
    place = order.index(1)
    normal = (lambda t, x, lam, p: lam[place]) if as_function else place
    modes = slipping(guided(order), {"block": (order.index(0), MU, normal)})
    run = gn.solve(modes, mode="grip", g0=[0.0] * 3, xi0=[0.0] * 3, dt=0.02, n_steps=100)
    begins = MU * WEIGHT / 10
    np.testing.assert_allclose(run.switches.t, [begins], atol=1e-12)
    assert run.xi[-1, 0] == pytest.approx((5 * (4 - begins**2) - MU * WEIGHT * (2 - begins)) / MASS, abs=BEGINS)


@pytest.mark.slow
def test_friction_of_the_system_keeps_its_normal_force_where_another_row_slips():
    own = gn.Friction(lambda t, x, xi: xi[:1], MU, normal=1)

    def force(t, x, xi, u):
        return jnp.stack([0 * t, -WEIGHT + 0 * t, -4.0 + 0 * t, 10 * t])

    system = gn.System(
        Translations(4),
        metric=[MASS] * 4,
        distribution=gn.Distribution(np.eye(4)[[3, 1, 2]]),
        forces=force,
        multiplier_forces=own,
    )
    run = gn.solve(
        slipping(system, {"clamp": (0, 5.0)}), mode="grip", g0=[0.0] * 4, xi0=[15.0, 0, 0, 0], dt=0.02, n_steps=100
    )
    assert run.mode[-1] == "clamp +"
    assert run.xi[-1, 0] == pytest.approx(15.0 - MU * 9.81 * 2.0, abs=1e-12)
    assert run.xi[-1, 3] == pytest.approx((5 * (4 - 0.25) - 5.0 * 1.5) / MASS, abs=1e-12)


@pytest.mark.slow
def test_two_blocks_slip_each_under_its_own_weight():
    def force(t, x, xi, u):
        return jnp.stack([10 * t, -WEIGHT + 0 * t, 6 * t, -WEIGHT / 2 + 0 * t])

    system = gn.System(
        Translations(4), metric=[MASS] * 4, distribution=gn.Distribution(np.eye(4)[[0, 2, 1, 3]]), forces=force
    )
    modes = slipping(system, {"a": (0, MU, 2), "b": (1, 0.3, 3)})
    run = gn.solve(modes, mode="grip", g0=[0.0] * 4, xi0=[0.0] * 4, dt=0.02, n_steps=100)
    begins = np.array([MU * WEIGHT / 10, 0.3 * WEIGHT / 2 / 6])
    np.testing.assert_allclose(run.switches.t, np.sort(begins), atol=1e-12)
    pulls, limits = np.array([10.0, 6.0]), np.array([MU * WEIGHT, 0.3 * WEIGHT / 2])
    expected = (pulls / 2 * (4 - begins**2) - limits * (2 - begins)) / MASS
    np.testing.assert_allclose(run.xi[-1, [0, 2]], expected, atol=1e-12)


def test_normal_forces_of_rows_that_slip_are_refused():
    for normal, words in (
        (0, "the multiplier of a row that may slip"),
        (lambda t, x, lam, p: lam[0] + lam[1], "the multiplier of a row that may slip"),
        (7, "one of 3 multipliers, got 7"),
    ):
        with pytest.raises(ValueError, match=words):
            slipping(guided((0, 1, 2)), {"block": (0, MU, normal)})
    with pytest.raises(ValueError, match="multiplier_forces is an empty list"):
        guided((0, 1, 2), multiplier_forces=[])


def lifted():
    """A block on the ground that is pulled along it with 3t, and up with a force that grows at a rate."""
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        distribution=gn.Distribution([[1.0, 0.0]]),
        holonomic=lambda x: x[1:],
        parameters={"up": 1.0},
        forces=lambda t, x, xi, u, p: jnp.stack([3 * t, -9.81 + p["up"] * t]),
        name="block",
    )
    return slipping(system, {"block": (0, (MU, 0.4), 0)})


PULLED = {"mode": "grip", "g0": [0.0, 0.0], "xi0": [0.0, 0.0], "dt": 0.02, "n_steps": 200}


@pytest.mark.slow
def test_a_normal_force_that_vanishes_ends_a_run_and_a_member_in_words():
    with pytest.raises(gn.IntegrationError, match="a normal force vanishes") as caught:
        gn.solve(lifted().with_parameters(up=10.0), **PULLED)
    assert caught.value.trajectory.t[-1] == pytest.approx(0.98)
    many = gn.solve_ensemble(lifted(), **PULLED, parameters={"up": np.array([1.0, 2.0, 10.0])})
    assert many.status.tolist() == [0, 0, Result.MODE]
    alone = gn.solve(lifted().with_parameters(up=2.0), **PULLED)
    np.testing.assert_array_equal(many[1].xi[-1], alone.xi[-1])


@pytest.mark.quick("change0-'block static friction' must be \\u2265 0, got -0.1")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block static friction": -0.1}, "'block static friction' must be ≥ 0, got -0.1"),
        ({"block kinetic friction": -0.1}, "'block kinetic friction' must be ≥ 0, got -0.1"),
        (
            {"block static friction": 0.3},
            "'block static friction' must be at least 'block kinetic friction', got 0.3 and 0.4",
        ),
    ],
)
def test_coefficients_that_are_none_are_named_and_end_a_member_alone(change, words):
    with pytest.raises(ValueError, match=words):
        gn.solve(lifted().with_parameters(**change), **PULLED)
    ((name, value),) = change.items()
    start = float(lifted()["grip"].parameters[name])
    many = gn.solve_ensemble(lifted(), **PULLED, parameters={name: np.array([start, value])})
    assert many.status.tolist() == [0, Result.START]
    assert words in many.message(1)


def test_a_load_below_zero_is_no_load():
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        multiplier_forces=gn.Friction(lambda t, x, xi: xi[:1], 0.1, load=lambda t, x, p: 0.5 - t),
    )
    with pytest.raises(gn.IntegrationError, match="is not finite; look at what forces"):
        gn.solve(system, g0=[0.0, 0.0], xi0=[1.0, 0.0], dt=0.02, n_steps=50)


@pytest.mark.slow
def test_a_slip_that_vanishes_within_a_short_part_of_a_step_ends():
    """A thrown ellipsoid that slips by 1e-6 m/s after many small rebounds: its slip is known to rounding at the end."""
    rng = np.random.default_rng(1)
    tilt, towards = rng.uniform(0, 0.4), rng.uniform(0, 6)
    up = np.array([np.sin(tilt) * np.cos(towards), np.sin(tilt) * np.sin(towards), np.cos(tilt)])
    points = rng.normal(size=(6, 3)) * [0.2, 0.3, 0.15]
    points -= points.mean(axis=0)
    inertia = sum((p @ p) * np.eye(3) - np.outer(p, p) for p in points) * 0.3
    mass = rng.uniform(0.5, 3)
    g0 = np.tile(np.eye(4), (10, 1, 1))
    g0[:, :3, :3] = Rotation.random(10, random_state=1).as_matrix()
    g0[:, :3, 3] = up * rng.uniform(0.5, 0.9, 10)[:, None]
    xi0 = rng.normal(size=(10, 6)) * [4, 4, 4, 1.5, 1.5, 1.0]
    friction = rng.uniform(0.0, 1.0, 10)
    static = friction * rng.choice([1.0, 1.2], 10)
    restitution, rolls, spins = (rng.uniform(0, most, 10) for most in (0.95, 0.06, 0.03))
    body = rolling(
        rolling.ellipsoid(0.4, 0.25, 0.3),
        inertia,
        mass,
        on=rolling.plane(up),
        friction=(static[4], friction[4]),
        restitution=restitution[4],
        rolling_resistance=rolls[4],
        spinning_friction=spins[4],
    )
    run = gn.solve(body, "gauss4", mode="free", g0=g0[4], xi0=xi0[4], dt=0.01, t_end=3.0)
    assert np.diff(run.energy).max() < 1e-6

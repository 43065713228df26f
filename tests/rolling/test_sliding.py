"""Rolling bodies with friction: they slide, roll, leave their surface and land."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import geonh as gn
from geonh import rolling
from geonh.integrators import Result
from geonh.rolling.forces import contact_velocity

G = 9.81


def thrown(n, method, mu=0.3, v=2.0):
    """Errors of a ball thrown without spin: instant at which it rolls, velocity and place at the end."""
    ball = rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=mu, name="thrown ball")
    g0, xi0 = rolling.start(ball, slip=[v, 0.0, 0.0])
    run = gn.solve(ball, method, mode="slide", g0=g0, xi0=xi0, dt=0.5 / n, n_steps=n)
    begins, distance = 2 * v / (7 * mu * G), 12 * v**2 / (49 * mu * G)
    velocity = run.g[-1, :3, :3] @ run.xi[-1, 3:]
    assert list(run.mode[[0, -1]]) == ["slide", "roll"]
    assert len(run.switches.t) == 1
    at_end = run.g[-1, 0, 3] - distance - 5 * v / 7 * (0.5 - begins)
    there = run.switches.g_vector[0, 3] - distance
    return np.abs([run.switches.t[0] - begins, velocity[0] - 5 * v / 7, there, at_end]), run, ball


@pytest.mark.slow
def test_a_thrown_ball_slides_then_rolls():
    errors, run, ball = thrown(100, "gauss4")
    assert errors.max() < 1e-10
    assert np.nanmax(np.abs(run.constraint_residual)) < 1e-13
    assert np.abs(rolling.contact_force(ball, run.g[-1], run.multipliers[-1]).force - [0, 0, G]).max() < 1e-12
    assert np.all(np.diff(run.energy) < 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "order", "numbers"), [("gauss4", 4, (10, 20, 40, 80)), ("gauss6", 6, (5, 8, 12, 16))]
)
def test_orders_across_the_switch(method, order, numbers):
    errors = np.array([thrown(n, method)[0] for n in numbers])
    slopes = [-np.polyfit(np.log(numbers), np.log(column), 1)[0] for column in errors.T]
    assert np.all(np.abs(np.array(slopes) - order) < 0.25), slopes


@pytest.mark.slow
def test_the_contact_force_is_that_of_the_multipliers():
    """Its wrench about the centre of mass, in body axes, is μᵀλ, on a surface with |∇ψ| ≠ 1."""
    body = rolling(
        rolling.ellipsoid(0.3, 0.2, 0.25).moved([0.01, 0.0, 0.02]),
        [0.02, 0.03, 0.04],
        1.3,
        on=lambda X: 3.0 * (X[2] - 0.2 * X[0] ** 2 - 0.1 * X[1] ** 2),
    )
    g0, xi0 = rolling.start(body, omega=[1.0, 0.5, 0.3], place=[0.1, 0.2, 0.2 * 0.01 + 0.1 * 0.04])
    run = gn.solve(body, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=20)
    g, lam = run.g[-1], run.multipliers[-1]
    made, R = rolling.contact_force(body, g, lam), g[:3, :3]
    arm = rolling.contact(body, g).arm
    wrench = np.concatenate([np.cross(arm, R.T @ made.force), R.T @ made.force])
    np.testing.assert_allclose(wrench, body.reaction(body.at(g), lam), atol=1e-11)
    assert made.force @ made.normal > 0


def test_the_contact_force_where_a_mode_has_fewer_multipliers_than_another():
    """Rows of ``multipliers`` of a run with modes end in nan there."""
    ball = rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3)
    g0, _ = rolling.start(ball, slip=[2.0, 0.0, 0.0])
    np.testing.assert_array_equal(rolling.contact_force(ball, g0, [5.0, np.nan, np.nan]).force, [0.0, 0.0, 5.0])
    with pytest.raises(ValueError, match="multipliers has no numbers: there is no contact there"):
        rolling.contact_force(ball, g0, [np.nan] * 3)
    with pytest.raises(ValueError, match=r"multipliers has entries that are not finite, the first at \[0\]"):
        rolling.contact_force(ball, g0, [np.nan, 1.0, 2.0])


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 1.2])
def test_a_ball_slips_and_leaves_a_sphere(mu):
    R, r, begin = 1.0, 0.1, 0.05
    ball = rolling(rolling.ball(r), [0.4 * r * r] * 3, 1.0, on=rolling.sphere(R, "outside"), friction=mu)
    g0, xi0 = rolling.start(ball, place=R * np.array([np.sin(begin), 0.0, np.cos(begin)]))
    run = gn.solve(ball, "gauss6", mode="roll", g0=g0, xi0=xi0, dt=0.0025, n_steps=700)
    assert [run.switches.names[i] for i in run.switches.target] == ["slide", "free"]
    x = run.switches.g_vector[0].reshape(4, 4)[:3, 3]
    slips = brentq(lambda a: 2 * np.sin(a) - mu * (17 * np.cos(a) - 10 * np.cos(begin)), begin, 1.5, xtol=1e-15)
    assert abs(np.arctan2(x[0], x[2]) - slips) < 1e-12
    assert np.nanmin(run.multipliers[:, 0]) > -1e-12
    assert np.all(np.diff(run.energy) < 1e-12)


@pytest.mark.slow
def test_a_ball_that_rolls_without_slip_leaves_at_ten_seventeenths():
    R, r, begin = 1.0, 0.1, 0.05
    ball = rolling(rolling.ball(r), [0.4 * r * r] * 3, 1.0, on=rolling.sphere(R, "outside"))
    g0, xi0 = rolling.start(ball, place=R * np.array([np.sin(begin), 0.0, np.cos(begin)]))
    lost = gn.Event(lambda t, g, xi, lam: lam[0], direction=-1, stop=True, name="lost")
    x = gn.solve(ball, "gauss6", g0=g0, xi0=xi0, dt=0.005, n_steps=700, events=lost).events["lost"].g[0, :3, 3]
    assert abs(x[2] / np.linalg.norm(x) - 10 / 17 * np.cos(begin)) < 1e-10


def tippe_top(ratio, spin=250.0, lean=0.1):
    r, m = 0.02, 0.02
    A = 0.4 * m * r * r
    top = rolling(rolling.ball(r).moved([0, 0, 0.15 * r]), [A, A, A / ratio], m, friction=0.3, name="tippe top")
    R = np.array([[np.cos(lean), 0, np.sin(lean)], [0, 1, 0], [-np.sin(lean), 0, np.cos(lean)]])
    omega = R.T @ [0.0, 0.0, spin]
    g0, _ = rolling.start(top, R, omega=omega)
    return top, *top.systems[1].project(g0, np.concatenate([omega, np.zeros(3)]))


def turned_over(xi0, R, spin=250.0):
    """Time at which the axis passes −0.98, by other equations: of a ball with equal moments, in space."""
    r, m, mu = 0.02, 0.02, 0.3
    a, inertia = 0.15 * r, 0.4 * m * r * r

    def rates(t, y):
        e, turning = y[:3], y[3:6]
        arm, along = a * e - [0, 0, r], np.cross(turning, e)
        slip = np.array([*y[6:8], -a * along[2]]) + np.cross(turning, arm)
        push = np.array([*(-mu * slip[:2] / np.linalg.norm(slip[:2])), 1.0])
        lifting = -a * np.cross(np.cross(arm, push) / inertia, e)[2]
        force = m * (G - a * np.cross(turning, along)[2]) / (1 - m * lifting) * push
        return np.concatenate([along, np.cross(arm, force) / inertia, force[:2] / m])

    over = lambda t, y: y[2] + 0.98  # noqa: E731
    over.terminal = True
    begin = np.concatenate([R[:, 2], [0, 0, spin], (R @ xi0[3:])[:2]])
    return solve_ivp(rates, (0, 3), begin, method="DOP853", rtol=1e-11, atol=1e-13, events=over).t_events[0][0]


@pytest.mark.slow
def test_a_tippe_top_turns_over():
    top, g0, xi0 = tippe_top(1.0)
    over = gn.Event(lambda t, g, xi, lam: g[2, 2] + 0.98, direction=-1, stop=True, name="over")
    run = gn.solve(top, "gauss4", mode="slide", g0=g0, xi0=xi0, dt=1e-4, n_steps=30_000, events=over)
    assert abs(run.events["over"].t[0] - turned_over(xi0, g0[:3, :3])) < 1e-6
    arms = np.array([rolling.contact(top, g).arm for g in run.g[::50]])
    jellett = np.einsum("ni,ij,nj->n", run.xi[::50, :3], top.systems[0].parameters["J"], arms)
    assert np.ptp(jellett) < 2e-12 * abs(jellett[0])
    assert np.abs(run.holonomic_residual).max() < 1e-15
    assert np.all(np.diff(run.energy) < 1e-14)
    top, g0, xi0 = tippe_top(0.8)  # A/C < 1 − a/r: it stays up
    run = gn.solve(top, "gauss4", mode="slide", g0=g0, xi0=xi0, dt=1e-4, n_steps=20_000)
    assert run.g[:, 2, 2].min() > 0.99


def random_inertia(rng):
    sums = rng.uniform(0.002, 0.006, 3)
    return np.diag(sums.sum() - sums)


def random_place(rng, height):
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    g = np.eye(4)
    g[:3, :3], g[:3, 3] = turn * np.sign(np.linalg.det(turn)), [0.0, 0.0, height]
    return g


@pytest.mark.slow
def test_impacts_lose_energy():
    """Random impacts: e is that of the normal velocities, the impulse is in the friction cone, on it if the contact
    slips, and no energy is gained."""
    body = rolling(
        rolling.ellipsoid(0.05, 0.06, 0.15), [0.004, 0.005, 0.006], 1.0, friction=(0.4, 0.3), restitution=0.5
    )
    rng = np.random.default_rng(3)
    e = 0.7
    with gn.float64():
        modes = body.with_parameters(restitution=e, J=random_inertia(rng), m=rng.uniform(0.5, 2.0))
        free, landed = modes.systems[2], modes.transitions[-1].reset

        def impact(g, xi):
            at, after = contact_velocity(0.0, g, xi, free.parameters), landed(0.0, g, xi)
            frame, M = jnp.concatenate([at.normal[None], at.tangents]), free.mass_matrix(free.at(g, 0.0))
            rows = frame @ at.jacobian
            W = rows @ jnp.linalg.solve(M, rows.T)
            lost = (xi @ M @ xi - after @ M @ after) / 2
            return rows @ xi, rows @ after, jnp.linalg.solve(W, rows @ (after - xi)), lost

        g = np.stack([random_place(rng, 0.1) for _ in range(300)])
        before, after, impulse, lost = jax.jit(jax.vmap(impact))(g, 3 * rng.normal(size=(300, 6)))
        lands = before[:, 0] < -1e-3
        before, after, impulse, lost = (np.asarray(a)[lands] for a in (before, after, impulse, lost))
        np.testing.assert_allclose(after[:, 0], -e * before[:, 0], atol=1e-12)
        ratio = np.linalg.norm(impulse[:, 1:], axis=1) / impulse[:, 0]
        slips = np.abs(ratio - 0.3) < 1e-9
        assert np.all(slips | (ratio <= 0.4 + 1e-9))
        assert 20 < slips.sum() < len(slips) - 5
        assert lost.min() > -1e-12


@pytest.mark.slow
def test_random_bodies_thrown():
    """204 bodies of six shapes: no run ends without a reason, no impact adds energy, and between impacts it rises by
    the errors of the steps alone; normal forces are not negative, and no gap is."""
    rng = np.random.default_rng(7)
    shapes = [
        rolling.ball(0.1),
        rolling.ball(0.1).moved([0.01, -0.015, 0.02]),
        rolling.ellipsoid(*rng.uniform(0.08, 0.14, 3)),
        rolling.ellipsoid(*rng.uniform(0.08, 0.14, 3)).moved(0.02 * rng.normal(size=3)),
        rolling.ellipsoid(0.12, 0.11, 0.05),
        rolling.ellipsoid(0.05, 0.06, 0.15),
    ]
    for shape in shapes:
        body = rolling(shape, [0.004, 0.005, 0.006], 1.0, friction=(0.4, 0.3), restitution=0.5)
        for i in range(34):
            mu = rng.uniform(0.03, 1.0)
            numbers = {"friction": mu, "static friction": mu * rng.choice([1.0, 1.2])}
            numbers |= {"restitution": rng.uniform(), "m": rng.uniform(0.5, 2.0), "J": random_inertia(rng)}
            modes = body.with_parameters(**numbers)
            start = {"g0": random_place(rng, 0.4), "xi0": rng.normal(size=6) * np.repeat([4.0, 1.5], 3)}
            run = gn.solve(modes, "gauss4", mode="free", **start, dt=0.001, n_steps=1000, throw=False)
            assert run.success, (i, run.message)
            s, M = run.switches, modes.systems[2].mass_matrix(np.eye(4))
            energy = [np.einsum("ki,ij,kj->k", xi, M, xi) / 2 for xi in (s.xi_before, s.xi_after)]
            of_impacts = s.source == modes.names.index("free")
            assert np.all((energy[1] - energy[0])[of_impacts] < 1e-12 * run.energy[0]), i
            assert np.all(np.diff(run.energy) < 1e-4 * run.energy[0]), (i, np.diff(run.energy).max())
            assert np.nanmin(run.multipliers[:, :1], initial=0.0) > -1e-9
            assert np.abs(np.nan_to_num(run.holonomic_residual)).max(initial=0.0) < 1e-12


@pytest.mark.slow
def test_a_slip_that_begins_where_the_force_reaches_the_cone():
    """Its speed grows with t² from there, while its direction turns: it begins and ends once, at instants of any dt."""
    axes = np.array([0.12, 0.15, 0.26])
    inertia = (np.sum(axes**2) - axes**2) / 5
    body = rolling(rolling.ellipsoid(*axes), inertia, 1.0, friction=0.4)
    g0, xi0 = rolling.start(body, omega=[2.0, 6.0, -3.0])
    runs = [
        gn.solve(body, "gauss4", mode="roll", g0=g0, xi0=xi0, dt=dt, n_steps=round(0.3 / dt))
        for dt in (0.01, 0.005, 0.0025, 0.00125)
    ]
    instants = np.array([run.switches.t for run in runs])
    modes = [runs[0].switches.names[i] for i in runs[0].switches.target]
    assert modes == ["slide", "roll", "slide"]
    errors = np.abs(instants[:-1] - instants[-1]).max(axis=1)
    assert np.all(errors < [2e-6, 1e-7, 1e-8])
    assert np.abs(runs[-1].xi[-1] - runs[-2].xi[-1]).max() < 1e-6
    assert np.diff(runs[-1].energy).max() < 1e-6


def dropped(height, **options):
    ball = rolling(rolling.ball(0.3), [0.036] * 3, 1.0, **{"friction": 0.3, "restitution": 0.5, **options}, name="ball")
    g0 = np.eye(4)
    g0[2, 3] = 0.3 + height
    return ball, {"mode": "free", "g0": g0, "xi0": [0.0, 1.0, 0.0, 1.0, 0.0, 0.0], "dt": 0.01, "n_steps": 60}


@pytest.mark.quick("energetic")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"restitution": 2.0}, "parameter 'restitution' must be between 0 and 1, got 2"),
        ({"restitution": -1.0}, "parameter 'restitution' must be between 0 and 1, got -1"),
        ({"friction": -0.5}, r"parameter 'friction' must be ≥ 0, got -0\.5"),
    ],
    ids=["energetic", "sticky", "pulling"],
)
def test_coefficients_that_are_none_are_refused_when_they_are_given_later(change, words):
    ball, start = dropped(0.2)
    with pytest.raises(ValueError, match=words):
        gn.solve(ball.with_parameters(**change), **start)
    members = gn.solve_ensemble(
        ball, **start, parameters={name: [value, 0.4] for name, value in change.items()}, save_every=1
    )
    assert list(members.success) == [False, True]


@pytest.mark.slow
def test_starts_below_the_surface_and_backwards_are_refused():
    ball, start = dropped(-0.05)
    with pytest.raises(ValueError, match=r"g0 has the body 0\.05 m below the surface"):
        gn.solve(ball, **start)
    above = np.array(start["g0"])
    above[2, 3] = 0.5
    members = gn.solve_ensemble(ball, **{**start, "g0": np.stack([start["g0"], above])})
    assert list(members.success) == [False, True]
    assert "below the surface" in members.message(0)
    with pytest.raises(ValueError, match=r"t_end must be later than t0 = 0, got -1: .* go forward in time"):
        gn.solve(ball, **{**start, "g0": above, "n_steps": None, "t_end": -1.0})
    with pytest.raises(ValueError, match=r"dt must be positive, got -0.01: .* go forward in time"):
        gn.solve(ball, **{**start, "g0": above, "dt": -0.01})


@pytest.mark.slow
def test_a_thick_coin_that_rocks_keeps_its_energy_while_it_rolls():
    """It rolls for 1e-5 s on its rim, nearly flat: steps of which parts lost energy lost a fifth of it there."""
    coin = rolling(
        rolling.disc(1.0, axis=(0, 0, 1), thickness=0.1), [0.25, 0.25, 0.5], 1.0, friction=0.3, restitution=0.0
    )
    g0, (c, s) = np.eye(4), (np.cos(1e-3), np.sin(1e-3))
    g0[1:3, 1:3], g0[2, 3] = [[c, -s], [s, c]], 0.4
    run = gn.solve(coin, mode="free", g0=g0, xi0=[0.0, 0.0, 0.0, 0.5, 0.0, 0.0], dt=0.01, n_steps=30, throw=False)
    rolls = (run.mode[:-1] == "roll") & (run.mode[1:] == "roll")
    assert rolls.any()
    assert np.abs(np.diff(run.energy)[rolls]).max() < 5e-3


@pytest.mark.parametrize(("tilt", "restitution"), [(0.0, 0.5), (0.0, 0.0), (1e-9, 0.0)])
@pytest.mark.quick("0.0-0.5")
def test_a_disc_that_lands_flat_ends_in_words(tilt, restitution):
    """It has no point of contact, or one that a rounding moves."""
    disc = rolling(rolling.disc(1.0, axis=(0, 0, 1)), [0.25, 0.25, 0.5], 1.0, friction=0.3, restitution=restitution)
    g0, (c, s) = np.eye(4), (np.cos(tilt), np.sin(tilt))
    g0[1:3, 1:3], g0[2, 3] = [[c, -s], [s, c]], 1.5
    xi0 = [0.0, 0.0, 0.0, 0.5, 0.0, 0.0]
    run = gn.solve(disc, "gauss4", mode="free", g0=g0, xi0=xi0, dt=0.01, n_steps=100, throw=False)
    assert run.status.failed
    assert not tilt or np.diff(run.energy).max() < 1e-6 * run.energy[0]
    assert tilt or (run.status is Result.RESET and "lands flat" in run.message)
    assert "step " in run.message


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.03, 0.01, 0.004, 0.001])
def test_a_disc_that_falls_flat_faster_than_the_steps(dt):
    """The step in which it does is made in parts: the energy does not rise, and the friction cone holds."""
    disc = rolling(rolling.disc(0.4, axis=(0, 0, 1), thickness=0.02), [0.04, 0.04, 0.08], 1.0, friction=0.2)
    g0 = np.eye(4)
    g0[:3, :3] = [[np.cos(0.27), 0, np.sin(0.27)], [0, 1, 0], [-np.sin(0.27), 0, np.cos(0.27)]]
    g0[2, 3] = 0.6
    start = {"mode": "free", "g0": g0, "xi0": [0.0, 0.0, 1.0, 0.5, 0.0, 0.0]}
    run = gn.solve(disc, **start, dt=dt, t_end=0.6)
    assert np.diff(run.energy).max() < 2e-3 * run.energy[0]
    rolls = run.multipliers[run.mode == "roll"]
    assert not len(rolls) or np.all(np.hypot(rolls[:, 1], rolls[:, 2]) < 0.2 * rolls[:, 0] + 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("thickness", [0.08, 0.02])
def test_discs_thrown_with_long_steps(thickness):
    """96 discs that fall on their rims and flat within a few steps: no energy is gained, and no force is outside the
    friction cone or negative."""
    disc = rolling(rolling.disc(0.3, thickness=thickness), [0.02, 0.02, 0.038], 1.0, friction=(0.5, 0.4))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mu = rng.uniform(0.05, 0.9)
        numbers = {"friction": mu, "static friction": 1.2 * mu, "restitution": rng.uniform(0.0, 0.8)}
        g0 = np.stack([random_place(rng, rng.uniform(0.5, 0.8)) for _ in range(8)])
        start = {"mode": "free", "g0": g0, "xi0": rng.normal(size=(8, 6)) * np.repeat([4.0, 1.0], 3)}
        many = gn.solve_ensemble(disc.with_parameters(**numbers), **start, dt=0.01, n_steps=200, save_every=1)
        assert many.success.all(), seed
        for run in many.runs:
            touches, rolls = run.mode != "free", run.mode == "roll"
            assert np.diff(run.energy).max() < 1e-3 * run.energy[0]  # a step may be made in several parts
            normal = run.multipliers[:, 0] if touches.any() else np.zeros(0)
            assert np.nanmin(normal, initial=0.0) > -1e-9
            if rolls.any():
                cone = np.hypot(*run.multipliers[rolls, 1:3].T) - 1.2 * mu * normal[rolls]
                assert cone.max() < 1e-8, seed


@pytest.mark.slow
def test_a_ball_that_is_pushed_by_controls_begins_and_ends_to_slide():
    """F = 8t at the centre: a ball of ⅖mr² rolls with a = 5F/7m as long as the contact force 2F/7 ≤ μmg."""
    push = lambda t, x, xi, u: jnp.concatenate([jnp.zeros(3), x[:3, :3].T @ jnp.append(u, jnp.zeros(2))])  # noqa: E731
    ball = rolling(rolling.ball(1.0), [0.4, 0.4, 0.4], 1.0, friction=0.3, forces=push)
    g0, xi0 = rolling.start(ball)
    run = gn.solve(ball, mode="roll", g0=g0, xi0=xi0, dt=0.01, n_steps=200, controls=lambda t: jnp.stack([8 * t]))
    assert [ball.names[i] for i in run.switches.target] == ["slide"]
    assert run.switches.t[0] == pytest.approx(3.5 * 0.3 * 9.81 / 8, abs=1e-12)
    assert run.xi[-1, 3:] @ run.xi[-1, 3:] > (5 / 7 * 4 * 2.0**2) ** 2


def test_what_is_refused():
    with pytest.raises(ValueError, match="restitution is that of a body with friction"):
        rolling(rolling.ball(1.0), [0.4] * 3, 1.0, restitution=0.5)
    with pytest.raises(ValueError, match="μ_s ≥ μ"):
        rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=(0.2, 0.3))
    with pytest.raises(ValueError, match="between 0 and 1"):
        rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3, restitution=1.5)
    with pytest.raises(ValueError, match="may spin"):
        rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3, spin=False)
    ball = rolling(rolling.ball(1.0), [0.4] * 3, 1.0)
    with pytest.raises(ValueError, match="rolls without sliding"):
        rolling.start(ball, slip=[1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="along the surface"):
        rolling.start(rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.1), slip=[1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="multipliers must be those of one node"):
        rolling.contact_force(ball, np.eye(4), np.ones(2))

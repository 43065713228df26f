"""Bodies that roll: against forms derived by hand, exact motions, invariants, and published numbers."""

import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import rolling
from geonh.analysis import linearise
from geonh.engine.compiled import computed
from geonh.mechanics import accelerations, reference_trajectory
from geonh.rolling import ball, contact, cylinder, disc, ellipsoid, plane, sphere, start, surface

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
import rolling_disc

J = np.array([0.02, 0.03, 0.04])
EGG = ellipsoid(0.3, 0.2, 0.15).moved([0.02, 0.01, -0.03])


def rotation(seed):
    with gn.float64():
        return np.asarray(gn.groups.SO3().exp(jnp.asarray(np.random.default_rng(seed).normal(size=3))))


def rates(system, g, xi):
    """ξ̇ at many states, with a first axis."""
    return np.asarray(jax.jit(jax.vmap(lambda g, xi: accelerations(system, 0.0, g, xi)[0]))(g, xi))


@functools.cache
def unit_disc():
    return rolling(disc(1.0, (0, 1, 0)), [0.25, 0.5, 0.25], 1.0, gravity=1.0)


@pytest.mark.slow
def test_the_disc_is_that_of_three_forms():
    system = unit_disc()
    starts = [start(system, rotation(seed), [0.1, 2.0, 0.3], place=[0.3, -0.2, 0.0]) for seed in range(3)]
    g, xi = map(np.stack, zip(*starts, strict=True))
    np.testing.assert_allclose(rates(system, g, xi), rates(rolling_disc.disc(), g, xi), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("spin", [0.3, 1 / 3**0.5, 1.0])
def test_critical_speed_of_the_disc(spin):
    """λ² = 4/5 − 12Ω²/5: stable above Ω = √(g/3r), where all eigenvalues are zero."""
    system = unit_disc()
    line = linearise(system, *start(system, np.eye(3), [0.0, spin, 0.0]))
    if abs(spin - 1 / 3**0.5) < 1e-12:
        assert len(line.eigenvalues) == 0
        return
    np.testing.assert_allclose(line.eigenvalues**2, 0.8 - 2.4 * spin**2, rtol=1e-12)


@pytest.mark.slow
def test_a_tilted_disc_on_a_circle_returns():
    """Le Saux, Leine, Glocker (2005), eqs. 5.10–5.12: a steady motion, back in its place after one period."""
    r, m, tilt = 0.05, 0.3048, np.deg2rad(5.0)
    system = rolling(disc(r, (0, 1, 0)), np.array([1, 2, 1]) * m * r**2 / 4, m)
    c, s = np.cos(tilt), np.sin(tilt)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    spin, yaw, period = np.array([0.0, 10.7364981632612, 0.0]), -1.0736498163261199, 5.852173782956319
    g0, xi0 = start(system, R, spin + yaw * R[2])
    turning = system.group.bracket(np.append(spin, np.zeros(3)), xi0)
    np.testing.assert_allclose(rates(system, g0[None], xi0[None])[0], -turning, atol=1e-12)
    g, _ = reference_trajectory(system, [0.0, period], xi0, g0)
    np.testing.assert_allclose(g[-1, :, [1, 3]], g0[:, [1, 3]].T, atol=1e-11)  # the axle and the centre


@pytest.mark.slow
def test_a_ball_in_an_upright_cylinder_goes_up_and_down():
    """z = −(5g/7ν²)(1 − cos νt), ν = √(2/7) times the rate about the axis: it does not fall down."""
    radius, wide = 0.2, 1.0
    system = rolling(ball(radius), 0.4 * radius**2 * np.ones(3), 1.0, on=cylinder(wide))
    g0, xi0 = start(system, rotation(1), rotation(1).T @ [0.0, 0.0, -8.0], place=[wide, 0.0, 0.0])
    v = g0[:3, :3] @ xi0[3:]
    nu = (2 / 7) ** 0.5 * v[1] / (wide - radius)
    times = np.linspace(0.0, 2 * np.pi / nu, 5)
    g, _ = reference_trajectory(system, times, xi0, g0)
    np.testing.assert_allclose(g[:, 2, 3], -5 * 9.81 / (7 * nu**2) * (1 - np.cos(nu * times)), atol=1e-8)


@pytest.mark.slow
def test_a_curved_surface_that_is_flat_is_the_plane():
    flat = rolling(EGG, J, 1.0)
    bent = rolling(EGG, J, 1.0, on=lambda X: jnp.exp(X[2]) - 1.0)
    g, xi = start(flat, rotation(0), [1.0, -2.0, 0.5], place=[0.3, 0.1, 0.0])
    rows = [jax.jit(lambda x, s=s: (s.holonomic_residual(x), s.annihilator(x)))(g) for s in (flat, bent)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), *rows)
    np.testing.assert_allclose(rates(bent, g[None], xi[None]), rates(flat, g[None], xi[None]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("on", "place"),
    [
        (plane((0.5, 0.0, 1.0)), [0.2, 0.3, -0.1]),
        pytest.param(sphere(1.0), [0.6, 0.0, -0.8], marks=pytest.mark.slow),
        pytest.param(cylinder(1.0, "x"), [0.3, 0.6, -0.8], marks=pytest.mark.slow),
        pytest.param(sphere(0.5, "outside"), [0.3, 0.0, 0.4], marks=pytest.mark.slow),
    ],
    ids=["incline", "sphere", "cylinder", "globe"],
)
def test_the_contact_is_at_rest_and_stays_on_the_surface(on, place):
    """The body's point at the contact has no velocity; so the motion keeps φ."""
    system = rolling(EGG, J, 1.0, on=on)
    g, xi = start(system, rotation(2), [1.0, -2.0, 0.5], place=place)
    touching = contact(system, g)
    np.testing.assert_allclose(touching.place, place, atol=1e-13)
    np.testing.assert_allclose(np.cross(xi[:3], touching.arm) + xi[3:], 0.0, atol=1e-13)
    h, group = 1e-5, system.group
    phi = jax.jit(lambda s: system.holonomic_residual(group.compose(g, group.exp(s * xi)))[0])
    assert abs(phi(h) - phi(-h)) / (2 * h) < 1e-9


@pytest.mark.slow
def test_moving_energy_on_a_turning_table():
    """E − Ω e·(RJω + x × mẋ) is kept, for any body; E itself is not."""
    rate = 0.7
    system = rolling(EGG, J, 1.0, surface_velocity=lambda X: rate * jnp.stack([-X[1], X[0], 0.0]))
    g, xi = start(system, rotation(3), [1.0, -2.0, 0.5], place=[0.3, 0.1, 0.0])

    def energies(g, xi):
        R, x = g[:3, :3], g[:3, 3]
        momentum = R @ (J * xi[:3]) + jnp.cross(x, R @ xi[3:])
        energy = system.energy(g, system.momentum(g, xi))
        return jnp.stack([energy, energy - rate * momentum[2]])

    def change(g, xi):
        moving = (system.group.left_tangent(g, xi), accelerations(system, 0.0, g, xi)[0])
        return jax.jvp(energies, (g, xi), moving)[1]

    E, moving = jax.jit(change)(g, xi)
    assert abs(E) > 1e-2
    assert abs(moving) < 1e-13


@pytest.mark.slow
def test_rubber_does_not_spin_and_a_table_in_time_takes_it_along():
    def table(t, X):
        return jnp.sin(t) * jnp.stack([-X[1], X[0], 0.0])

    system = rolling(EGG, J, 1.0, spin=False, surface_velocity=gn.time_dependent(table))
    with pytest.raises(ValueError, match="not allowed"):
        start(system, np.eye(3), [0.0, 0.0, 1.0])
    R = rotation(4)
    g0, xi0 = start(system, R, R.T @ [0.3, -1.0, np.sin(1.0)], place=[0.1, 0.2, 0.0], t0=1.0)
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=50, t0=1.0)
    spins = np.einsum("kij,kj->ki", run.g[:, :3, :3], run.xi[:, :3])[:, 2]
    np.testing.assert_allclose(spins, np.sin(run.t), atol=1e-13)
    assert np.abs(run.holonomic_residual).max() < 1e-15


@pytest.mark.slow
def test_the_default_method_keeps_contact_and_rolling():
    system = unit_disc()
    g0, xi0 = start(system, rotation(5), [0.1, 2.0, 0.3])
    run = gn.solve(system, g0=g0, xi0=xi0, dt=0.01, n_steps=200)
    assert np.abs(run.holonomic_residual).max() < 1e-14
    assert np.abs(run.constraint_residual).max() < 1e-13
    assert np.ptp(run.energy) < 2e-3 * run.energy[0]


@pytest.mark.slow
def test_friction_by_a_force_of_ones_own():
    """A moment against the turning takes the energy at the rate ω·M."""
    system = rolling(
        EGG, J, 1.0, forces=lambda t, x, xi, u, p: jnp.append(-p["c"] * xi[:3], jnp.zeros(3)), parameters={"c": 0.01}
    )
    g0, xi0 = start(system, rotation(6), [1.0, -2.0, 0.5])
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=100)
    lost = np.trapezoid(0.01 * np.sum(run.xi[:, :3] ** 2, axis=1), run.t)
    assert abs(run.energy[0] - run.energy[-1] - lost) < 1e-3 * lost


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"support": 0.1}, TypeError, "support must be a support such as"),
        ({"inertia": [1.0, 1.0]}, ValueError, r"three moments or a matrix \[3, 3\]"),
        ({"inertia": [1.0, 1.0, 3.0]}, ValueError, "of no body"),
        ({"inertia": [1.0, 1.0, -3.0]}, ValueError, "positive definite"),
        ({"mass": 0.0}, ValueError, "mass must be positive"),
        ({"on": 3.0}, TypeError, "must be a function ψ"),
        ({"parameters": {"m": 2.0}}, ValueError, "names of the body's own"),
    ],
)
def test_what_does_not_fit_is_named(changes, error, words):
    with pytest.raises(error, match=words):
        rolling(**{"support": ball(0.1), "inertia": [1.0, 1.0, 1.0], "mass": 1.0, **changes})


def test_starts_that_are_none():
    system = rolling(disc(1.0), [1.0, 1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="does not lie on the surface"):
        start(system, place=[0.0, 0.0, 0.1])
    with pytest.raises(ValueError, match="single point"):
        start(system)  # flat on the ground


def in_a_bowl(*axes):
    a, b, c = np.square(axes)
    return rolling(ellipsoid(*axes), np.array([b + c, c + a, a + b]) / 5, 1.0, on=sphere(1.0), name="egg in a bowl")


@pytest.mark.quick("long", "taller than the bowl")
@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ((0.9, 0.9, 0.3), r"egg in a bowl is not more curved than its surface at \[ 0\.  0\. -1\.\]"),
        ((0.2, 0.75, 0.2), "is not more curved"),  # along one tangent alone: 0.75² > 0.2
        ((0.2, 0.2, 1.2), r"elsewhere it reaches 0\.34\d m through its surface"),
    ],
    ids=["flat", "long", "taller than the bowl"],
)
def test_a_body_that_does_not_fit_into_a_hollow_is_refused(axes, words):
    system = in_a_bowl(*axes)
    with pytest.raises(ValueError, match=words):
        start(system, place=[0.0, 0.0, -1.0])
    if "curved" in words:
        g0 = np.eye(4)
        g0[2, 3] = axes[2] - 1.0
        with pytest.raises(ValueError, match="not finite"):
            gn.solve(system, "rk4", g0=g0, xi0=np.zeros(6), dt=0.01, n_steps=1)


@pytest.mark.slow
def test_a_run_stops_where_the_body_is_no_longer_more_curved():
    """It rolls in its plane of symmetry from its end, where b²/H < 1, towards its flat side, where b²/H > 1."""
    a, b, c = 0.5, 0.6, 0.3
    system = in_a_bowl(a, b, c)
    cos, sin = np.cos(np.pi / 2 - 0.2), np.sin(np.pi / 2 - 0.2)
    turned = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
    g0, xi0 = start(system, turned, [0.0, -1.0, 0.0], place=[0.0, 0.0, -1.0])
    run = gn.solve(system, "rk4", g0=g0, xi0=xi0, dt=0.005, n_steps=400, throw=False)
    assert run.status.failed
    assert "not finite" in run.message
    normals = np.array([g[:3, :3].T @ -contact(system, g).normal for g in run.g])
    least = 1 - b**2 / np.linalg.norm(normals * [a, b, c], axis=1)
    assert np.all(least > 0)
    assert least[-1] + 2 * (least[-1] - least[-2]) < 0  # two steps later


def trough(X, parameters):
    return X[2] - (X[0] ** 2 + 2 * X[1] ** 2) / 2


@pytest.mark.slow
@pytest.mark.parametrize(("radius", "leaps"), [(0.49, False), (0.501, True)])
def test_a_run_stops_where_the_contact_leaps_over_a_strip_that_is_more_curved(radius, leaps):
    """The trough's radius is 0.5 at its bottom and more beside it: a ball of 0.501 rests on both sides of a strip."""
    ball_in_it = rolling(ball(radius), [0.1, 0.1, 0.1], 1.0, on=trough, name="ball in a trough")
    place = np.array([0.05, 0.2, 0.0])
    g0, xi0 = start(ball_in_it, omega=[1.0, 0.3, 0.0], place=[*place[:2], -trough(place, None)])
    run = gn.solve(ball_in_it, "rkmk4", g0=g0, xi0=xi0, dt=0.005, n_steps=20, throw=False)
    assert run.status is (gn.integrators.Result.LEAP if leaps else gn.integrators.Result.SUCCESS)
    side = [contact(ball_in_it, g).place[1] for g in run.g]
    assert np.all(np.array(side) > 0) if leaps else side[-1] < 0
    assert not leaps or "contact leaps" in run.message


@pytest.mark.slow
def test_a_cigar_that_tips_over_in_a_bowl_touches_with_its_lower_end():
    """From the attitude at 0.366 s on, Newton's method alone goes to the other end, 0.17 m from the bowl."""
    axes = np.array([0.2, 0.2, 0.6])
    cigar = in_a_bowl(*axes)
    c, s = np.cos(0.3), np.sin(0.3)
    g0, xi0 = start(cigar, [[1, 0, 0], [0, c, -s], [0, s, c]], [0.3, 0.2, 0.1], place=[0.0, 0.0, -1.0])
    run = gn.solve(cigar, "rk4", g0=g0, xi0=xi0, dt=0.005, n_steps=400, throw=False)
    assert run.t[-1] > 0.4
    assert run.status.failed  # where its side, which is less curved than the bowl, would touch
    assert np.ptp(run.energy) < 1e-6
    assert max(abs(np.linalg.norm(contact(cigar, g).place) - 1) for g in run.g) < 1e-6
    directions = np.random.default_rng(0).normal(size=(50_000, 3))
    points = axes * directions / np.linalg.norm(directions, axis=1)[:, None]
    assert all(np.linalg.norm(points @ g[:3, :3].T + g[:3, 3], axis=1).max() < 1 + 1e-6 for g in run.g[::10])


@pytest.mark.slow
def test_a_ball_before_a_step_is_seen_to_reach_through_it():
    def level(x):
        return 0.2 * (1 + np.tanh((x - 1) / 0.05))

    up = rolling(ball(0.2), [0.016] * 3, 1.0, on=lambda X: X[2] - 0.2 * (1 + jnp.tanh((X[0] - 1) / 0.05)), name="ball")
    g0, xi0 = start(up, omega=[0.0, 5.0, 0.0], place=[0.0, 0.0, level(0.0)])
    through = gn.Event(lambda t, g, xi, lam: rolling.overlap(up, g, t) - 1e-3, name="through", stop=True)
    run = gn.solve(up, "rk4", g0=g0, xi0=xi0, dt=0.005, n_steps=400, events=through)
    assert run.status is gn.integrators.Result.EVENT
    x, _, z = run.events["through"].g[0][:3, 3]
    places = np.linspace(0.5, 1.5, 100_001)
    assert abs(0.2 - np.hypot(places - x, level(places) - z).min() - 1e-3) < 2e-4


# --- surfaces on which compiling takes long -------------------------------------------------------------------
@pytest.mark.slow
def test_the_default_method_on_a_curved_surface():
    system = rolling(EGG, J, 1.0, on=lambda X: X[2] - 0.3 * jnp.sin(X[0]) * jnp.cos(0.7 * X[1]))
    g0, xi0 = start(system, np.eye(3), [1.0, 2.0, 0.5])
    g, xi = reference_trajectory(system, [0.0, 0.6], xi0, g0)
    energies = [float(system.energy(a, system.momentum(a, b))) for a, b in zip(g, xi, strict=True)]
    assert abs(energies[1] - energies[0]) < 1e-11
    errors = []
    for n in (60, 120, 240):
        run = gn.solve(system, g0=g0, xi0=xi0, dt=0.6 / n, n_steps=n)
        assert np.abs(run.holonomic_residual).max() < 1e-15
        errors.append(np.abs(run.g[-1] - g[-1]).max())
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(np.abs(slopes - 4) < 0.1), slopes


@pytest.mark.slow
def test_rubber_on_a_curved_surface():
    """It does not spin about the normal of a bowl, and keeps its energy, to the order of the method."""
    system = rolling(EGG, J, 1.0, on=sphere(1.0), spin=False)
    R, normal = rotation(8), np.array([-0.6, 0.0, 0.8])
    turning = np.array([1.0, -2.0, 0.5])
    g0, xi0 = start(system, R, R.T @ (turning - normal * (normal @ turning)), place=[0.6, 0.0, -0.8])
    errors = []
    for n in (50, 100):
        run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=0.5 / n, n_steps=n)
        spins = [contact(system, g).normal @ g[:3, :3] @ xi[:3] for g, xi in zip(run.g, run.xi, strict=True)]
        np.testing.assert_allclose(spins, 0.0, atol=1e-13)
        errors.append(np.ptp(run.energy))
    assert errors[0] / errors[1] > 2**3.8
    assert errors[1] < 1e-3 * np.abs(run.energy).max()


@pytest.mark.slow
def test_a_ball_leaves_the_globe_that_it_rolls_down():
    """Where the force of the contact vanishes: at cos θ = 10/17 from rest, from the energy and N = mg cos θ − mv²/d."""
    r, d, turning = 0.2, 1.2, 2.0
    system = rolling(ball(r), 0.4 * r**2 * np.ones(3), 1.0, on=sphere(d - r, "outside"))
    g0, xi0 = start(system, omega=[0.0, turning, 0.0], place=[0.0, 0.0, d - r])
    height = d * 10 / 17 * (1 + 0.7 * (turning * r) ** 2 / (9.81 * d))
    off = gn.Event(lambda t, g, xi, lam: lam[0], direction=-1, stop=True, name="contact lost")
    errors = []
    for n in (200, 400):
        run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=2.0 / n, n_steps=n, events=off)
        assert run.multipliers[0, 0] > 0
        errors.append(abs(run.events["contact lost"].g[0, 2, 3] - height))
    assert errors[1] < 1e-7
    assert errors[0] / errors[1] > 2**3.8


# --- surfaces that move ---------------------------------------------------------------------------------------
A = np.array([0.7, -0.4, 1.3])
"""An acceleration, m/s²."""


def still_and_moving(psi):
    """A body on a surface at rest with the inertial force of a frame of acceleration A, and on one that has it."""

    def inertial(t, x, xi, u):
        return jnp.concatenate([jnp.zeros(3), -1.0 * x[:3, :3].T @ A])

    still = rolling(EGG, J, 1.0, on=psi, forces=inertial)
    moving = rolling(
        EGG,
        J,
        1.0,
        on=gn.time_dependent(lambda t, X: psi(X - A * t**2 / 2)),
        surface_velocity=gn.time_dependent(lambda t, X: A * t),
    )
    return still, moving


def floor(X):
    return jnp.exp(X[2]) - 1.0


def bowl(X):
    return (1.0 - X @ X) / 2


@pytest.mark.parametrize(("psi", "place"), [(floor, [0.3, 0.1, 0.0]), (bowl, [0.6, 0.0, -0.8])], ids=["floor", "bowl"])
@pytest.mark.slow
def test_a_surface_that_accelerates_is_one_at_rest_with_an_inertial_force(psi, place):
    """The accelerations in both frames, at a time when the surface is elsewhere and moves."""
    still, moving = still_and_moving(psi)
    t, R = 0.9, rotation(7)
    g, xi = start(still, R, [1.0, -2.0, 0.5], place=place)
    h, eta = start(moving, R, [1.0, -2.0, 0.5], place=place + A * t**2 / 2, t0=t)
    carried = R.T @ A * t
    np.testing.assert_allclose(h[:3, 3], g[:3, 3] + A * t**2 / 2, atol=1e-13)
    np.testing.assert_allclose(eta[3:], xi[3:] + carried, atol=1e-13)
    expected = rates(still, g[None], xi[None])[0] + np.append(np.zeros(3), R.T @ A - np.cross(xi[:3], carried))
    result = np.asarray(jax.jit(lambda t, g, xi: accelerations(moving, t, g, xi)[0])(t, h, eta))
    np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_methods_on_a_surface_that_accelerates():
    """The run in the frame that moves, against the reference in the other; φ and rolling at the nodes to rounding."""
    still, moving = still_and_moving(floor)
    R = rotation(7)
    g0, xi0 = start(still, R, [1.0, -2.0, 0.5], place=[0.3, 0.1, 0.0])
    end = reference_trajectory(still, [0.0, 0.8], xi0, g0)[0][-1]
    end = end + np.pad((A * 0.8**2 / 2)[:, None], ((0, 1), (3, 0)))
    for method, order in (("projected", 2), ("gauss4", 4)):
        errors = []
        for n in (40, 80, 160):
            run = gn.solve(moving, method, g0=g0, xi0=xi0, dt=0.8 / n, n_steps=n)
            assert np.abs(run.holonomic_residual).max() < 2e-15
            assert np.abs(run.constraint_residual).max() < 1e-13
            errors.append(np.abs(run.g[-1] - end).max())
        slopes = np.log2(np.divide(errors[:-1], errors[1:]))
        assert np.all(np.abs(slopes - order) < 0.15), slopes


def test_a_surface_may_rise_without_a_velocity_of_its_own():
    """A plane that rises carries what stands on it, though ``surface_velocity`` says nothing."""
    lift = rolling(ball(0.1), np.ones(3) * 0.004, 1.0, on=gn.time_dependent(lambda t, X: X[2] - jnp.sin(t)))
    _, xi = start(lift, np.eye(3), [0.0, 0.0, 2.0], place=[0.0, 0.0, np.sin(0.3)], t0=0.3)
    np.testing.assert_allclose(xi, [0.0, 0.0, 2.0, 0.0, 0.0, np.cos(0.3)], atol=1e-14)


WAVES = surface(lambda X: X[2] - 0.3 * jnp.sin(X[0]) * jnp.cos(0.7 * X[1]))
SMALL_EGG = ellipsoid(0.25, 0.2, 0.15).moved([0.03, 0.0, 0.01])


def along_a_line(derivative, s):
    """Of the normal at the contact and the height of an egg in a wavy valley, along a line of poses."""

    def of(s):
        R = gn.groups.SO3().exp(jnp.array([0.3, -0.2, 0.5]) + s * jnp.array([0.7, 0.4, -0.9]))
        x = jnp.array([0.2, 0.1, 0.35]) + s * jnp.array([0.3, -0.5, 0.2])
        return jnp.append(WAVES.outward(SMALL_EGG, R, x, {}), WAVES.height(SMALL_EGG, R, x, {}))

    for _ in range(derivative):
        of = jax.jacfwd(of)
    return of(s)


@pytest.mark.parametrize("derivative", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.quick("1")
def test_the_contact_is_differentiable_to_the_third_order(derivative):
    def value(s):
        return computed(along_a_line, derivative - 1, np.float64(s))

    h, exact = 1e-3, computed(along_a_line, derivative, np.float64(0.0))
    far, near = ((value(k * h) - value(-k * h)) / (2 * k * h) for k in (2, 1))
    np.testing.assert_allclose((4 * near - far) / 3, exact, atol=2e-8 * np.abs(exact).max())


def test_balls_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"the ball must fit into the cylinder, r < R, got 2\.0 and 1\.0"):
        gn.systems.sphere_in_cylinder(r=2.0, R=1.0)
    with pytest.raises(ValueError, match=r"within the ball, \|a\| < r, got 0\.4 and 0\.3"):
        gn.systems.routh_sphere(a=-0.4)


@pytest.mark.slow
def test_the_page_prints_the_time_that_it_tells(capsys):
    page = (Path(__file__).parents[2] / "docs" / "rolling.md").read_text()
    words, code = page.split("## Rattleback")[1].split("```python")[:2]
    exec(code.split("```")[0], {"gn": gn, "np": np})
    assert f"at {capsys.readouterr().out.split()[0]} s, as published" in words

"""Impacts of several contacts with friction: the laws on random bodies, closed forms, derivatives, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.mechanics import collision, impact


def touching(rng, k, floor):
    """Free rigid body in velocities (ω, v), and k contacts, on a floor or against planes in random directions."""
    inertia = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    moments = rng.uniform(0.3, 0.5, 3)
    M = np.zeros((6, 6))
    M[:3, :3], M[3:, 3:] = inertia @ np.diag(moments) @ inertia.T, rng.uniform(0.5, 2.0) * np.eye(3)
    rows = []
    for _ in range(k):
        x, y, z = rng.normal(size=3)
        arm = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        frame = np.eye(3)[[2, 0, 1]] if floor else np.linalg.qr(rng.normal(size=(3, 3)))[0]
        rows.append(frame @ np.concatenate([-arm, np.eye(3)], axis=1))
    return gn.System(Translations(6), metric=M, name="body"), M, np.stack(rows)


@pytest.mark.quick("False-1", "False-2")
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("floor", [True, False])
def test_laws(k, floor):
    """Contacts push, are approached neither at the end of the approach nor at that of the rebound, friction is in its
    cone and against the slip, and no energy is gained; with the friction there ξ_F is the least of a convex function.
    """
    rng = np.random.default_rng(10 * k + floor)
    slid = held_up = 0
    for _ in range(40):
        system, M, rows = touching(rng, k, floor)
        mu, e, xi = rng.uniform(0.0, 0.9, k), rng.uniform(0.0, 1.0, k), rng.normal(size=6)
        after = collision(system, np.zeros(6), xi, rows[:, 0], rows[:, 1:], friction=mu, restitution=e)
        N, tau = after.impulses[:, 0], after.impulses[:, 1:]
        np.testing.assert_allclose(M @ (after.xi - xi), np.tensordot(after.impulses, rows, 2), atol=1e-11)
        assert N.min() >= 0
        assert np.all(np.linalg.norm(tau, axis=1) <= mu * N * (1 + 1e-9) + 1e-12)
        assert after.xi @ M @ after.xi <= xi @ M @ xi + 1e-12
        away = rows[:, 0] @ after.xi
        assert away.min() > -1e-10
        if away.min() < 1e-9:  # one that the rebound of others would push together again
            held_up += 1
            continue
        # N(1 + e') of the whole, so that N of the approach follows from one number, the part of the rebound
        inverse, gains = np.linalg.inv(M), rows[:, 0] @ np.linalg.inv(M) @ rows[:, 0].T

        def split(s, e=e, N=N, rows=rows, after=after, inverse=inverse):
            first = N / (1 + s * e)
            return first, after.xi - inverse @ rows[:, 0].T @ (N - first)

        s = 1.0
        first, middle = split(s)
        if (e * first) @ gains @ (e * first) > (middle - xi) @ M @ (middle - xi) * (1 + 1e-9):
            low, high = 0.0, 1.0
            for _ in range(60):
                s = (low + high) / 2
                first, middle = split(s)
                exceeds = (s * e * first) @ gains @ (s * e * first) > (middle - xi) @ M @ (middle - xi)
                low, high = (low, s) if exceeds else (s, high)
        if s == 1.0:
            w = rows @ middle
            assert np.all(w[:, 0] > -1e-9)
            assert np.all(first * w[:, 0] < 1e-9)
            bounds = mu * N

            def cost(v, bounds=bounds, rows=rows, M=M, xi=xi):
                return (v - xi) @ M @ (v - xi) / 2 + bounds @ np.linalg.norm((rows @ v)[:, 1:], axis=1)

            for _ in range(20):
                other = middle + rng.choice([1e-3, 1e-1]) * rng.normal(size=6)
                if np.all(rows[:, 0] @ other >= 0):
                    assert cost(other) > cost(middle) - 1e-10
            slid += int((np.linalg.norm(w[:, 1:], axis=1) > 1e-9).sum())
    assert slid > 10
    assert held_up > 0 or k == 1


def test_without_friction_one_contact_is_an_impact_of_newtons_law():
    rng = np.random.default_rng(3)
    A, mu, row = rng.normal(size=(5, 5)), rng.normal(size=(2, 5)), rng.normal(size=5)
    system = gn.System(Translations(5), metric=A @ A.T + np.eye(5), distribution=gn.Distribution(mu))
    xi = system.project(None, rng.normal(size=5))
    row = -row * np.sign(row @ xi)
    after = collision(system, np.zeros(5), xi, [row], np.zeros((1, 1, 5)), friction=0.7, restitution=0.6)
    np.testing.assert_allclose(after.xi, impact(system, np.zeros(5), xi, row, restitution=0.6).xi, atol=1e-13)
    assert np.abs(mu @ after.xi).max() < 1e-13
    away = collision(system, np.zeros(5), -xi, [row], np.zeros((1, 1, 5)), friction=0.7, restitution=0.6)
    np.testing.assert_array_equal(away.xi, -xi)


@pytest.mark.slow
def test_contacts_that_nearly_depend_on_each_other():
    """Feet close to each other, balls of very different masses, and chains of balls: closed forms."""
    for d in (0.1, 0.01, 0.002):
        table = gn.System(Translations(3), metric=[1.0, 1.0, 0.3])
        rows = np.array([[[0, 1, -d / 2], [1, 0, 0]], [[0, 1, d], [1, 0, 0]]])
        flat = collision(table, [0.0] * 3, [0.0, -1.0, 0.0], rows[:, 0], rows[:, 1:], friction=0.0)
        np.testing.assert_allclose(flat.impulses[:, 0], [2 / 3, 1 / 3], atol=1e-10)
        np.testing.assert_allclose(flat.xi, 0.0, atol=1e-12)
    for r in (0.1, 0.001):  # a heavy ball falls on a light one on the floor
        balls = gn.System(Translations(2), metric=[r, 1.0])
        both = collision(balls, [0.0] * 2, [0.0, -1.0], [[1, 0], [-1, 1]], np.zeros((2, 1, 2)), friction=0.0)
        np.testing.assert_allclose(both.impulses[:, 0], [1.0, 1.0], atol=1e-12)
    n = 12
    chain = gn.System(Translations(n), metric=np.ones(n))
    normals = np.eye(n)[1:] - np.eye(n)[:-1]
    hit = collision(chain, [0.0] * n, np.eye(n)[0], normals, np.zeros((n - 1, 1, n)), friction=0.0)
    np.testing.assert_allclose(hit.xi, 1 / n, atol=1e-12)


def test_a_ball_that_is_pushed_against_a_wall_stays_there():
    balls = gn.System(Translations(2), metric=[1.0, 1.0])
    after = collision(
        balls, [0.0] * 2, [1.0, 0.0], [[-1, 1], [0, -1]], np.zeros((2, 1, 2)), friction=0.0, restitution=[1.0, 0.0]
    )
    np.testing.assert_allclose(after.xi, [-np.sqrt(0.5), 0.0], atol=1e-14)


@pytest.mark.slow
def test_traced_coefficients_that_are_none_give_nan():
    ball = gn.System(Translations(1), metric=[1.0])

    def after(e, mu):
        return collision(ball, [0.0], [-1.0], [[1.0]], np.zeros((1, 1, 1)), friction=mu, restitution=e).xi

    for e, mu in ((1.5, 0.0), (-0.1, 0.0), (0.5, -0.1)):
        assert np.isnan(jax.jit(after)(e, mu)).all()


@pytest.mark.parametrize("mu", [0.1, 0.9])
def test_a_ball_slips_or_sticks(mu):
    """Friction of the whole impulse (1 + e)m|v|, or what ends the slip, 2/7 of it."""
    ball = gn.System(Translations(3), metric=[2.0, 2.0, 0.4 * 2.0 * 0.3**2])  # along, up, angle; radius 0.3 m
    after = collision(ball, [0.0] * 3, [3.0, -2.0, 1.0], [[0, 1, 0]], [[[1, 0, 0.3]]], friction=mu, restitution=0.5)
    slip = 3.0 + 0.3
    expected = 2.0 * min(mu * 1.5 * 2.0, 2 / 7 * slip)
    np.testing.assert_allclose(after.impulses, [[2.0 * 1.5 * 2.0, -expected]], rtol=1e-12)
    np.testing.assert_allclose(after.xi[:2], [3.0 - expected / 2.0, 1.0], rtol=1e-12)


def test_a_block_that_rocks():
    """Housner, Bull. Seism. Soc. Am. 53 (1963) 403: the angular velocity falls to 1 − 3/2 sin²α of it."""
    for a, b in ((0.2, 1.0), (0.4, 1.0), (0.1, 0.5)):
        block = gn.System(Translations(3), metric=[1.0, 1.0, (a**2 + b**2) / 3])
        normals, tangents = [[0, 1, -a], [0, 1, a]], [[[1, 0, b]], [[1, 0, b]]]
        after = collision(block, [0.0] * 3, [b, -a, -1.0], normals, tangents, friction=0.6)
        assert abs(after.xi[2] + 1 - 1.5 * a**2 / (a**2 + b**2)) < 1e-13
        assert after.impulses[0, 0] == 0.0
        flat = collision(block, [0.0] * 3, [0.05, -1.0, 0.0], normals, tangents, friction=0.6)
        np.testing.assert_allclose(flat.xi, 0.0, atol=1e-12)  # four rows of three velocities


@pytest.mark.slow
@pytest.mark.parametrize("friction", [0.2, 2.0])
def test_derivatives(friction):
    """By velocity and coefficients, forwards and backwards, against central differences."""
    system, _, rows = touching(np.random.default_rng(5), 2, True)
    rows[:, 0, 2], rows[:, 1:, :2] = 0.0, [[0.0, 0.7], [-0.7, 0.0]]  # of points 0.7 m above
    rows[:, 0, :2] = [[0.2, -0.1], [-0.15, 0.1]]  # their y and −x, so that both press
    rows[:, 1:, 2] = [[-0.2, 0.1], [0.15, -0.1]]

    def speed(z):
        after = collision(
            system, jnp.zeros(6), z[:6], rows[:, 0], rows[:, 1:], friction=z[6:8], restitution=z[8], right=0.0
        )
        return jnp.sin(after.xi).sum()

    at = np.array([0.1, 0.2, -0.1, 1.0, 0.5, -2.0, friction, 1.1 * friction, 0.4])
    slopes = [(speed(at + h) - speed(at - h)) / 2e-6 for h in 1e-6 * np.eye(9)]
    np.testing.assert_allclose(jax.jit(jax.grad(speed))(at), slopes, atol=1e-8)
    np.testing.assert_allclose(jax.jacfwd(speed)(at), slopes, atol=1e-8)
    assert np.abs(slopes[6:8]).max() > 0.1 or friction > 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normals": [0.0, 1.0]}, r"normals must be of shape \[k, 2\]"),
        ({"tangents": [[1.0, 0.0]]}, r"tangents must be of shape \[1, 1 or 2, 2\]"),
        ({"friction": -0.1}, "friction must be ≥ 0"),
        ({"friction": [0.1, 0.2]}, r"friction must be a number, or of shape \[1\]"),
        ({"restitution": 1.5}, r"restitution must be in \[0, 1\]"),
        ({"right": [1.0]}, r"right must be a number, or of shape \[1, 2\]"),
        ({"xi": [np.nan, 0.0]}, "xi has entries that are not finite"),
    ],
)
def test_what_is_refused(change, words):
    point = gn.System(Translations(2), metric=[1.0, 1.0])
    given = {"xi": [1.0, -1.0], "normals": [[0.0, 1.0]], "tangents": [[[1.0, 0.0]]], "friction": 0.3}
    with pytest.raises(ValueError, match=words):
        collision(point, [0.0, 0.0], **{**given, **change})

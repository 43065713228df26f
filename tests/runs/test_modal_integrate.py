"""Derivatives of runs with modes through transitions, against exact ones and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import G, bouncing

import geonh as gn
from geonh import rolling
from geonh.groups import Translations
from geonh.integrators import Result


def bounced(h, v, e, gravity, dt, t0, method="rkmk4"):
    run = gn.integrate(
        bouncing().with_parameters(e=e, G=gravity),
        method,
        mode="flight",
        g0=jnp.stack([h]),
        xi0=jnp.stack([v]),
        dt=dt,
        t0=t0,
        n_steps=60,
        save_every=20,
    )
    return jnp.concatenate([run.g[-1], run.xi[-1], run.switch_t[:2], run.switch_xi[0], run.g[1] * run.xi[2]])


def exactly(h, v, e, gravity, dt, t0):
    """The same by the laws of fall, of a ball that hits the floor twice."""
    down = jnp.sqrt(v**2 + 2 * gravity * h)
    first, second = (v + down) / gravity, (v + down) / gravity + 2 * e * down / gravity
    up = e * e * down

    def at(t):
        free = (h + v * t - gravity * t**2 / 2, v - gravity * t)
        s = t - first
        once = (e * down * s - gravity * s**2 / 2, e * down - gravity * s)
        s = t - second
        twice = (up * s - gravity * s**2 / 2, up - gravity * s)
        return [jnp.where(t < first, a, jnp.where(t < second, b, c)) for a, b, c in zip(free, once, twice, strict=True)]

    end, place, velocity = at(60 * dt), at(20 * dt)[0], at(40 * dt)[1]
    return jnp.stack([*end, t0 + first, t0 + second, e * down, place * velocity])


AT = (1.0, 0.3, 0.8, G, 0.025, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gauss4", "gauss6", "rkmk4", "lobatto4"])
@pytest.mark.parametrize(("s", "dt"), [(0.6, 0.1), (0.3, 0.05), (0.7, 0.02)])
def test_derivatives_of_transitions_at_nodes(method, s, dt):
    """Up to rounding: the step after them is so short that the derivatives of implicit equations are lost."""
    free = gn.System(Translations(1), metric=[1.0], parameters={"s": s})
    wall = gn.Event(lambda t, x, xi, lam, p: x[0] - p["s"], direction=1)
    modes = gn.Modes({"a": free}, [gn.Transition("a", wall, "a", lambda t, x, xi: -0.5 * xi)])
    T = 1.5

    def end(v):
        given = {"g0": v[1:2], "xi0": v[2:3], "t0": v[3], "dt": dt, "n_steps": round(T / dt)}
        return gn.integrate(modes.with_parameters(s=v[0]), method, mode="a", **given).g[-1, 0]

    with gn.float64():
        slope = jax.grad(end)(jnp.array([s, 0.0, 1.0, 0.0]))
    np.testing.assert_allclose(slope, [1.5, -0.5, -0.5 * T, 0.0], atol=1e-8)


@pytest.mark.quick("rk4")
@pytest.mark.parametrize("method", ["rk4", "gauss4"])
def test_a_pendulum_struck_at_a_node(method):
    """A method that drifts off φ = 0 leaves the place at the transition where it is, in its derivatives too."""
    circle = lambda x: jnp.stack([x[0] ** 2 + x[1] ** 2 - 1.0])  # noqa: E731
    pendulum = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x: G * x[1], holonomic=circle)
    clock = gn.Event(lambda t, *_: t - 0.2, name="clock")
    modes = gn.Modes({"p": pendulum}, [gn.Transition("p", clock, "p", lambda t, x, xi: -0.8 * xi)])

    def end(factor):
        start = {"g0": [0.1, -(0.99**0.5)], "xi0": factor * jnp.array([2 * 0.99**0.5, 0.2])}
        return gn.integrate(modes, method, mode="p", **start, dt=0.01, n_steps=40).g[-1]

    with gn.float64():
        slope, h = jax.jacfwd(end)(1.0), 1e-5
        difference = (end(1.0 + h) - end(1.0 - h)) / (2 * h)
    np.testing.assert_allclose(slope, difference, atol=3e-9)


def test_a_bouncing_ball_has_the_derivatives_of_the_laws_of_fall():
    with gn.float64():
        at = tuple(map(jnp.asarray, AT))
        np.testing.assert_allclose(bounced(*at), exactly(*at), atol=1e-13)
        wanted = np.stack(jax.jacfwd(exactly, argnums=range(6))(*at)).T
        forward = np.stack(jax.jacfwd(bounced, argnums=range(6))(*at)).T
        np.testing.assert_allclose(forward, wanted, rtol=1e-12, atol=1e-11)
        backward = np.stack(jax.jit(jax.jacrev(bounced, argnums=range(6)))(*at)).T
        np.testing.assert_allclose(backward, wanted, rtol=1e-12, atol=1e-11)


@pytest.mark.slow
def test_values_are_those_of_solve_and_batches_those_of_members():
    given = {"mode": "flight", "dt": 0.025, "n_steps": 60}
    run = gn.solve(bouncing(), "rkmk4", g0=[1.0], xi0=[0.3], **given)
    with gn.float64():
        traced = gn.integrate(bouncing(), "rkmk4", g0=[1.0], xi0=[0.3], **given)
        on_grid = np.isin(run.t, traced.t) & (np.diff(run.t, prepend=-1.0) > 0)
        np.testing.assert_array_equal(traced.g, run.g[on_grid])
        np.testing.assert_array_equal(traced.xi, run.xi[on_grid])
        np.testing.assert_allclose(traced.energy, run.energy[on_grid], rtol=1e-14)
        np.testing.assert_array_equal(traced.switch_t[:2], run.switches.t)
        np.testing.assert_array_equal(traced.switch_xi[:2], run.switches.xi_after)
        assert traced.names == ("flight",)
        assert int(traced.n_switches) == len(run.switches.t)
        assert np.isnan(traced.switch_t[len(run.switches.t) :]).all()

        def end(v):
            return gn.integrate(bouncing(), "rkmk4", g0=[1.0], xi0=v[None], **given).g[-1, 0]

        v = jnp.array([0.3, 0.5])
        np.testing.assert_array_equal(jax.vmap(end)(v), [end(v[0]), end(v[1])])
        np.testing.assert_array_equal(jax.vmap(jax.grad(end))(v), [jax.grad(end)(v[0]), jax.grad(end)(v[1])])
        batch = jax.jit(jax.vmap(lambda v: gn.integrate(bouncing(), "rkmk4", g0=[1.0], xi0=v[None], **given)))(v)
    np.testing.assert_array_equal(batch.energy[0], traced.energy)  # read in JAX's single precision, too
    assert batch.energy.dtype == float
    assert repr(traced) == "TracedModes of flight: 61 nodes, as JAX arrays"
    assert repr(batch) == "TracedModes of flight: a batch of [2] runs, 61 nodes each, as JAX arrays"


@pytest.mark.slow
def test_a_relay_against_differences():
    """Two modes whose guards have no direction, with a potential that depends on time."""
    side = gn.Event(lambda t, x, xi, lam, p: x[0] - p["b"] * t, name="line")

    def of(stiffness):
        return gn.System(
            Translations(2),
            metric=[1.0, 2.0],
            potential=lambda x, p: p["c"] * stiffness * x[0] + jnp.cos(x[1] + x[0]),
            parameters={"b": 0.1, "c": 1.0},
        )

    modes = gn.Modes(
        {"left": of(-2.0), "right": of(3.0)},
        [gn.Transition("left", side, "right"), gn.Transition("right", side, "left")],
    )

    def end(at):
        run = gn.integrate(
            modes.with_parameters(b=at[0], c=at[1]),
            "gauss4",
            mode="left",
            g0=at[2:4],
            xi0=at[4:6],
            dt=0.05,
            n_steps=60,
        )
        return jnp.concatenate([run.g[-1], run.xi[-1], run.switch_t[:2]]), run.n_switches

    with gn.float64():
        at = jnp.array([0.1, 1.0, -0.6, 0.2, 0.4, 0.3])
        assert int(end(at)[1]) >= 2
        backward = jax.jacrev(lambda at: end(at)[0])(at)
        steps = 1e-5 * np.eye(6)
        by = np.stack([(end(at + d)[0] - end(at - d)[0]) / 2e-5 for d in steps], axis=1)
        np.testing.assert_allclose(backward, by, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
def test_a_ball_that_slides_then_rolls():
    """By friction and initial slip; x(T) = 12v²/(49μg) + 5v/7·(T − 2v/(7μg))."""
    ball = rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3, name="thrown ball")
    g0, still = rolling.start(ball)
    _, along = rolling.start(ball, slip=[1.0, 0.0, 0.0])

    def end(v, mu):
        modes = ball.with_parameters(friction=mu)
        run = gn.integrate(modes, "gauss4", mode="slide", g0=g0, xi0=still + v * (along - still), dt=0.005, n_steps=100)
        return jnp.stack([run.g[-1, 0, 3], run.xi[-1, 3], run.switch_t[0]])

    def exact(v, mu):
        begins = 2 * v / (7 * mu * G)
        return jnp.stack([12 * v**2 / (49 * mu * G) + 5 * v / 7 * (0.5 - begins), begins])

    with gn.float64():
        at = jnp.asarray(2.0), jnp.asarray(0.3)
        wanted = np.stack(jax.jacfwd(exact, argnums=(0, 1))(*at)).T
        for derivative in (jax.jacfwd, jax.jacrev):
            found = np.stack(derivative(end, argnums=(0, 1))(*at)).T
            np.testing.assert_allclose(found[[0, 2]], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
def test_a_ball_that_rebounds_until_it_rolls():
    """Sixteen flights, the last of 2e-7 s: derivatives by lengths of steps so short are of the explicit method."""
    ball = rolling(rolling.ball(0.7), [0.25] * 3, 1.2, friction=0.25, restitution=0.4)

    def end(p):
        g0, xi0 = jnp.eye(4).at[2, 3].set(0.7 + p[0]), jnp.stack([0.3, p[1], 0.2, p[2], 0.4, 0.0])
        run = gn.integrate(ball, "gauss4", mode="free", g0=g0, xi0=xi0, dt=0.01, n_steps=24, most_switches=20)
        return jnp.concatenate([run.g[-1, :3, 3], run.xi[-1]]), run.n_switches

    with gn.float64():
        at, h = jnp.array([0.05, 1.0, 0.8]), 1e-5
        assert int(end(at)[1]) == 16
        found = np.asarray(jax.jacfwd(lambda p: end(p)[0])(at))
        for k, way in enumerate(np.eye(3)):
            near, far = ((end(at + s * way)[0] - end(at - s * way)[0]) / (2 * s) for s in (h, 2 * h))
            np.testing.assert_allclose(found[:, k], (4 * near - far) / 3, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_what_is_refused():
    given = {"mode": "flight", "g0": [1.0], "xi0": [0.0], "dt": 0.02, "n_steps": 10}
    with gn.float64():
        with pytest.raises(ValueError, match=r"nodes are \(g, ξ\) alone"):
            gn.integrate(bouncing(), "gni", **given)
        with pytest.raises(ValueError, match="mode must be one of flight"):
            gn.integrate(bouncing(), **given | {"mode": None})
        with pytest.raises(ValueError, match="has no modes"):
            gn.integrate(bouncing().systems[0], **given)
        with pytest.raises(ValueError, match="tolerance= is not for runs with modes"):
            gn.integrate(bouncing(), tolerance=1e-6, **given)
        with pytest.raises(ValueError, match="save_every must divide"):
            gn.integrate(bouncing(), save_every=3, **given)
        zeno = gn.integrate(bouncing().with_parameters(e=0.3), **given | {"dt": 0.1})
        assert int(zeno.status[-1]) == Result.SWITCHES
        assert not bool(zeno.success)

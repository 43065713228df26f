"""First and second derivatives of accelerations and steps against differences, where short cuts are taken in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine import jacobian, mapped
from geonh.groups import Torus, Translations
from geonh.integrators import RKMK
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.mechanics.equations import accelerations_at
from geonh.rolling import knife_edge, planar, planar_body, trailer

RNG = np.random.default_rng(3)


def road_train(n):
    """Car that draws n trailers: more forms than unknown velocities, which are solved for by their momenta."""
    drawn = ()
    for i in range(n):
        drawn = (trailer(planar_body(0.5, 0.1, [knife_edge()], drawn), 1.0, hitch=(-0.3, 0.0), name=f"hitch{i}"),)
    wheels = [knife_edge(), knife_edge(1.2, steered="steer", inertia=0.1)]
    system = planar(planar_body(1.0, 0.2, wheels, drawn, centre=(0.5, 0.0)), name="road train")
    g = (0.1 * RNG.normal(size=3), 0.1 * RNG.normal(size=1 + n))
    return system, g, system.project(g, 0.5 * RNG.normal(size=4 + n))


def chain(n):
    """Pendulum of n links, whose mass matrix is computed column by column."""

    def lagrangian(x, xi):
        a, w = jnp.cumsum(x), jnp.cumsum(xi)
        v = jnp.stack([jnp.cumsum(-jnp.sin(a) * w), jnp.cumsum(jnp.cos(a) * w)])
        return 0.5 * jnp.sum(v * v) + 0.05 * jnp.sum(w * w) - 9.81 * jnp.sum(jnp.cumsum(jnp.sin(a)))

    return gn.System(Torus(n), lagrangian=lagrangian, name="chain"), 0.3 * RNG.normal(size=n), 0.5 * RNG.normal(size=n)


def in_cylinder():
    """Sphere on a surface, whose contact is found by Newton's method."""
    entry = gn.systems.catalogue["sphere-in-cylinder"]
    system = entry.system()
    start = entry.start(system)
    return system, start.g0, np.asarray(start.xi0)


SYSTEMS = {"train": lambda: road_train(5), "chain": lambda: chain(17), "cylinder": in_cylinder}


def difference(function, h, direction):
    """Derivative along a direction by central differences of order 4."""

    def central(h):
        return (np.asarray(function(h * direction)) - np.asarray(function(-h * direction))) / (2 * h)

    return (4 * central(h / 2) - central(h)) / 3


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS])
def test_of_accelerations(name):
    system, g, xi = SYSTEMS[name]()
    group, n = system.group, system.group.dim
    with gn.float64():
        g, xi = jax.tree.map(jnp.asarray, system.point(g)), jnp.asarray(xi)
        system = system.with_rank_at(g, 0.0)

        def both(z):
            x = system.at(group.compose(g, group.exp(z[:n])), 0.1)
            return jnp.concatenate(accelerations_at(system, 0.1, x, system.projected_velocity(x, xi + z[n:])))

        zero = jnp.zeros(2 * n)
        a, b = (jnp.asarray(RNG.normal(size=2 * n)) for _ in range(2))
        slope = jax.jit(lambda z: jax.jvp(both, (z,), (a,))[1])
        bending = jax.jit(lambda z: jax.jvp(lambda z: jax.jvp(both, (z,), (a,))[1], (z,), (b,))[1])(zero)
        for found, exact in ((slope(zero), difference(jax.jit(both), 1e-3, a)), (bending, difference(slope, 1e-3, b))):
            np.testing.assert_allclose(found, exact, atol=1e-7 * (1 + np.abs(exact).max()))


@pytest.mark.slow
def test_of_a_step_from_velocities_off_the_constraints():
    """Where a velocity is projected, the derivative is that of the projection, also across the constraints."""
    free, g, _ = chain(9)
    rows = RNG.normal(size=(7, 9))
    forms = gn.Distribution(lambda x: rows * (1 + 0.2 * jnp.sin(x)))  # many, so that momenta are solved for
    system = gn.System(free.group, lagrangian=free.lagrangian_function, distribution=forms)
    xi = system.project(g, RNG.normal(size=9))
    group, n, method = system.group, system.group.dim, RKMK(4)

    def step(system, z):
        here = group.compose(g, group.exp(z[:n]))
        p = system.momentum(system.at(here), xi + z[n:])
        clock = Clock(0.0, 0.1)
        warm = method.cold(system, clock, jnp.asarray(0), here, jnp.zeros(n))
        then = method.step(system, clock, State(jnp.asarray(0), here, p, p, (), warm, jnp.zeros((0, n)), 0))
        return jnp.concatenate([group.log(group.compose(group.inverse(here), then.g)), then.p_plus])

    J = mapped(lambda system, z: jacobian(lambda z: step(system, z), z), system, np.zeros((1, 2 * n)))[0]
    for _ in range(3):
        v = RNG.normal(size=2 * n)
        exact = difference(lambda z: mapped(step, system, z[None])[0], 1e-3, v)
        np.testing.assert_allclose(J @ v, exact, atol=1e-8 * np.abs(exact).max())


NONLINEAR = {
    "isokinetic": lambda x, xi: (xi @ xi - 1.0 - 0.1 * jnp.sin(x[0]))[None],
    "cone": lambda x, xi: (xi[2] ** 2 - 0.3 * (xi[0] ** 2 + xi[1] ** 2))[None],
    "two": lambda x, xi: jnp.stack([xi[0] * xi[2] + xi[1] ** 2 - 0.1, xi[0] - xi[1] * (1 + x[0])]),
}


SLOW = pytest.mark.slow


@pytest.mark.quick("0.5-isokinetic")
@pytest.mark.parametrize("name", ["isokinetic", "cone", pytest.param("two", marks=SLOW)])
@pytest.mark.parametrize("size", [pytest.param(0.01, marks=SLOW), 0.5, pytest.param(50.0, marks=SLOW)])
def test_of_the_projection_onto_nonlinear_constraints(name, size):
    """The nearest velocity, of any distance: stationary on the constraints, with its two derivatives."""
    forms, M = gn.VelocityConstraints(NONLINEAR[name]), np.array([1.0, 2.0, 1.5])
    system = gn.System(Translations(3), metric=M, distribution=forms)
    g, v = jnp.array([0.1, 0.2, 0.3]), size * RNG.normal(size=3)
    a, b = size * RNG.normal(size=(2, 3))
    with gn.float64():
        projected = jax.jit(lambda z: system.projected_velocity(system.at(g), v + z))
        slope = jax.jit(lambda z: jax.jvp(projected, (z,), (jnp.asarray(a),))[1])
        zero = jnp.zeros(3)
        near, (first, second) = projected(zero), jax.jvp(slope, (zero,), (jnp.asarray(b),))
        off, rows = NONLINEAR[name](g, near), jax.jacobian(lambda xi: NONLINEAR[name](g, xi))(near)
        np.testing.assert_allclose(off, 0.0, atol=1e-13 * (1 + size**2))
        multipliers = np.linalg.lstsq(rows.T, M * (near - v))[0]
        np.testing.assert_allclose(rows.T @ multipliers, M * (near - v), atol=1e-12 * size)
        for found, exact in (
            (first, difference(projected, 1e-3, a)),
            (second, difference(slope, 1e-3, b)),
        ):
            np.testing.assert_allclose(found, exact, atol=1e-6 * (size + np.abs(exact).max()))

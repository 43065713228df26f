"""Planar bodies on edges and wheels: against systems written by hand, and velocities of places by differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.mechanics import accelerations
from geonh.rolling import knife_edge, planar, planar_body, trailer, wheel


def test_the_sleigh():
    made = planar(planar_body(2.0, 0.7, [knife_edge()], centre=(0.3, 0.0)))
    known = gn.systems.chaplygin_sleigh(m=2.0, I=0.7, a=0.3)
    np.testing.assert_allclose(made.mass_matrix(()), known.mass_matrix(()), atol=1e-15)
    np.testing.assert_allclose(made.annihilator(()), known.annihilator(()), atol=1e-15)


def test_a_rolling_disk():
    made = planar(planar_body(1.0, 0.25, [wheel(1.0, 0.5, name="psi")]))
    known = gn.systems.vertical_disk()
    xi = np.array([0.3, 1.2, 0.0, 1.2])
    with gn.float64():
        x = made.at(made.group.identity())
        assert np.abs(made.constraint_residual(x, xi)).max() < 1e-15
        rates = [accelerations(s, 0.0, s.group.identity(), xi)[0] for s in (made, known)]
    np.testing.assert_allclose(*rates, atol=1e-15)


CAR = planar(
    planar_body(
        3.0,
        1.1,
        [wheel(0.2, 0.05, name="rear"), knife_edge(1.2, 0.1, 0.2, steered="steer", inertia=0.3)],
        [
            trailer(planar_body(1.0, 0.4, [knife_edge()], centre=(0.2, 0.1)), 0.8, (-0.3, 0.05), "first"),
            trailer(planar_body(1.5, 0.3, [knife_edge(0.1, 0.0, 0.1)]), 0.5, (-0.4, -0.2), "second"),
        ],
        centre=(0.4, 0.0),
    )
)


def places(g):
    """The frames (heading, x, y) of the three bodies, by hand."""
    theta, x, y = g[0]
    _, _, first, second = g[1]

    def turn(a):
        return jnp.stack([jnp.stack([jnp.cos(a), -jnp.sin(a)]), jnp.stack([jnp.sin(a), jnp.cos(a)])])

    at = jnp.stack([x, y])
    result = [(theta, at)]
    for hitch, length, angle in ((jnp.array([-0.3, 0.05]), 0.8, first), (jnp.array([-0.4, -0.2]), 0.5, second)):
        heading = theta + angle
        result.append((heading, at + turn(theta) @ hitch - turn(heading) @ jnp.array([length, 0.0])))
    return result, turn


@jax.jit
def by_places(g, xi):
    """What the wheels do not allow, and the energy, from the derivatives of the places of the car's parts."""
    g_dot = CAR.group.left_tangent(g, xi)

    def speed(function):
        return jax.jvp(function, (g,), (g_dot,))[1]

    def place(i, spot):
        return lambda g: (lambda f, turn: f[i][1] + turn(f[i][0]) @ jnp.asarray(spot))(*places(g))

    def heading(i):
        return lambda g: places(g)[0][i][0]

    def across(i, spot, angle):
        along = heading(i)(g) + angle
        return jnp.stack([-jnp.sin(along), jnp.cos(along)]) @ speed(place(i, spot))

    forward = jnp.stack([jnp.cos(g[0][0]), jnp.sin(g[0][0])])
    wanted = [
        across(0, [0.0, 0.0], 0.0),
        forward @ speed(place(0, [0.0, 0.0])) - 0.2 * g_dot[1][0],
        across(0, [1.2, 0.1], 0.2 + g[1][1]),
        across(1, [0.0, 0.0], 0.0),
        across(2, [0.1, 0.0], 0.1),
    ]
    energy = 0.5 * 0.05 * g_dot[1][0] ** 2 + 0.5 * 0.3 * (g_dot[0][0] + g_dot[1][1]) ** 2
    for i, (mass, inertia, centre) in enumerate(
        ((3.0, 1.1, [0.4, 0.0]), (1.0, 0.4, [0.2, 0.1]), (1.5, 0.3, [0.0, 0.0]))
    ):
        v = speed(place(i, centre))
        energy += 0.5 * mass * v @ v + 0.5 * inertia * speed(heading(i)) ** 2
    return jnp.stack(wanted), energy


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_car_with_two_trailers(seed):
    rng = np.random.default_rng(seed)
    g, xi = (jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=4))), jnp.asarray(rng.normal(size=7))
    wanted, energy = by_places(g, xi)
    x = CAR.at(g)
    np.testing.assert_allclose(CAR.annihilator(x) @ xi, wanted, atol=1e-13)
    np.testing.assert_allclose(CAR.lagrangian(x, xi), energy, rtol=1e-13)


def test_the_drawing_has_its_bodies_and_what_is_steered_where_they_are():
    rng = np.random.default_rng(3)
    g = rng.normal(size=3), rng.normal(size=4)
    seen = {body.name: body for body in CAR.draw(0.0, g, CAR.parameters)}
    assert list(seen) == ["body", "steered steer", "trailer first", "trailer second", "ground"]
    frames, _ = places(g)
    frames.insert(1, (g[0][0] + 0.2 + g[1][1], frames[0][1] + places(g)[1](g[0][0]) @ jnp.array([1.2, 0.1])))
    for body, (heading, place) in zip(seen.values(), frames, strict=False):
        np.testing.assert_allclose(body.at.x, [*place, 0.0], atol=1e-6, err_msg=body.name)
        np.testing.assert_allclose(body.at.R[:, 0], [np.cos(heading), np.sin(heading), 0.0], atol=1e-6)
    rear = [part for part in seen["body"].parts if len(part.vertices) == 66]
    assert len(rear) == 1  # a wheel of radius 0.2 on the ground
    np.testing.assert_allclose(np.ptp(rear[0].vertices, axis=0), [0.4, 0.06, 0.4])
    assert rear[0].vertices[:, 2].min() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_a_body_on_an_edge_alone_and_names_that_are_taken(angle):
    bodies = [planar_body(1.0, 0.1), planar_body(1.0, 0.1, [knife_edge(0.3, 0.1, angle)])]
    bodies += [planar_body(1.0, 0.1, [wheel(1.0, 0.1, name="body"), knife_edge(1.0, steered="ground", inertia=1.0)])]
    for body in bodies:
        system = planar(body)
        seen = gn.drawing.scene(gn.solve(system, "rk4", xi0=np.zeros(system.group.dim), dt=0.1, n_steps=1))
        assert seen.bodies[-1].is_ground
        assert seen.is_flat
    blade = planar(bodies[1]).draw(0.0, np.zeros(3), {"body": bodies[1]})[0].parts[-1]
    spots = blade.vertices[:, :2] - [0.3, 0.1]
    along, across = spots @ [np.cos(angle), np.sin(angle)], spots @ [-np.sin(angle), np.cos(angle)]
    np.testing.assert_allclose(np.ptp(across), 0.1 * np.ptp(along))


@pytest.mark.slow
def test_it_runs():
    """With Runge and Kutta's method, which compiles soonest."""
    names = CAR.group.point_names
    assert names[3:] == ("rear", "steer", "first", "second")
    xi0 = CAR.project(None, [0.0, 1.0, 0.0, 5.0, 0.0, 0.0, 0.0])
    run = gn.solve(CAR, "rk4", xi0=xi0, dt=0.01, n_steps=100)
    assert np.ptp(run.energy) < 1e-7 * run.energy[0]


def test_what_does_not_fit_is_named():
    body = planar_body(1.0, 1.0, [wheel(0.1, 0.1), wheel(0.1, 0.1, grips=False)])
    with pytest.raises(ValueError, match="angles need names"):
        planar(body)
    with pytest.raises(TypeError, match="PlanarBody"):
        planar(3.0)
    with pytest.raises(ValueError, match="inertia of what is steered"):
        knife_edge(steered="steer")


@pytest.mark.slow
def test_two_wheels_on_an_axle_grip_as_one():
    def robot(grips, **options):
        wheels = [wheel(0.1, 0.1, y=0.3, name="a"), wheel(0.1, 0.1, y=-0.3, name="b", grips=grips)]
        return planar(planar_body(1.0, 1.0, wheels, centre=(0.2, 0.1)), **options)

    run = {"xi0": robot(False).project(None, [0.3, 1.0, 0.2, 0.0, 0.0]), "dt": 0.05, "n_steps": 40}
    one, two = gn.solve(robot(False), **run), gn.solve(robot(True, rank=3), **run)
    np.testing.assert_array_equal(two.xi, one.xi)
    np.testing.assert_allclose(two.multipliers[:, 0], one.multipliers[:, 0] / 2, atol=1e-14)
    with pytest.warns(UserWarning, match=r"forms\[2\] follows from forms\[0\]"):
        gn.solve(robot(True), **run)


@pytest.mark.slow
def test_the_mass_matrix_by_composite_bodies_is_the_hessian_of_the_energy():
    assert CAR.check().ok  # compares them
    alone = gn.System(
        CAR.group,
        lagrangian=CAR.lagrangian_function,
        distribution=CAR.distribution,
        parameters=CAR.parameters,
        base="shape",
    )
    g0 = (np.zeros(3), np.linspace(-0.4, 0.5, CAR.group.dim - 3))
    xi0 = CAR.project(g0, np.linspace(0.5, 1.0, CAR.group.dim))
    result, expected = (gn.solve(s, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=50) for s in (CAR, alone))
    np.testing.assert_allclose(result.xi, expected.xi, atol=1e-12)

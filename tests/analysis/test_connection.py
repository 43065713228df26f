"""Connections, curvatures and gaits against closed forms and against the full equations with the shape driven."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.analysis import nonholonomic_connection
from geonh.groups import SE2, Product, Torus
from geonh.mechanics import accelerations

RADIUS, WIDTH = 0.3, 0.8


def robot():
    """Two wheels on one axle: u = r(ψ̇₁ + ψ̇₂)/2, ω = r(ψ̇₂ − ψ̇₁)/w, no side slip."""
    forms = [
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, -RADIUS / 2, -RADIUS / 2],
        [1.0, 0.0, 0.0, RADIUS / WIDTH, -RADIUS / WIDTH],
    ]
    return gn.System(
        Product((SE2(), Torus(2, ("left", "right")))),
        metric=[1.0, 2.0, 2.0, 0.1, 0.1],
        distribution=gn.Distribution(forms),
        base="point",
        name="robot",
    )


def test_the_robot_is_one_of_chaplygin():
    connection = nonholonomic_connection(robot())
    r, w = RADIUS, WIDTH
    A = connection.form([0.0, 0.0])
    np.testing.assert_allclose(A, -np.array([[-r / w, r / w], [r / 2, r / 2], [0.0, 0.0]]), atol=1e-14)
    np.testing.assert_allclose(connection.curvature([0.0, 0.0])[0, 1], [0.0, 0.0, r**2 / w], atol=1e-14)


@pytest.mark.slow
def test_small_loops_are_the_curvature():
    connection = nonholonomic_connection(board())
    centre = np.array([0.2, 0.5])
    B = connection.curvature(centre)[0, 1]
    chaplygin = nonholonomic_connection(robot())
    errors = []
    for size in (0.1, 0.05, 0.025):

        def loop(t, size=size):
            return size * jnp.stack([jnp.cos(2 * jnp.pi * t), jnp.sin(2 * jnp.pi * t)])

        made = chaplygin.displacement(loop, 1.0, n_steps=400)
        area = np.pi * size**2
        place = np.asarray(SE2().log(made.g[0])) / area
        errors.append(np.abs(place + chaplygin.curvature([0.0, 0.0])[0, 1]).max())
    assert errors[-1] < 0.02
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1, atol=0.15)
    # A(r) against finite differences
    e = 1e-6
    slopes = [(connection.form(centre + e * d) - connection.form(centre - e * d)) / (2 * e) for d in np.eye(2)]
    A = connection.form(centre)
    bracket = np.asarray(SE2().bracket(A[:, 0], A[:, 1]))
    np.testing.assert_allclose(B, slopes[0][:, 1] - slopes[1][:, 0] - bracket, atol=1e-8)


@pytest.mark.slow
def test_elroy_turns_by_his_beanie():
    connection = nonholonomic_connection(gn.systems.elroys_beanie(I1=1.0, I2=0.5))
    np.testing.assert_allclose(connection.form([0.7])[:, 0], [1 / 3, 0.0, 0.0], atol=1e-15)
    made = connection.displacement(lambda t: jnp.stack([jnp.sin(t)]), 1.0, n_steps=7)
    np.testing.assert_allclose(made.g[0], [-np.sin(1.0) / 3, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(made.g[1], [np.sin(1.0)])
    # with momentum: it is kept in space
    p = connection.displacement(lambda t: jnp.stack([t]), 0.5, n_steps=80, momentum=[0.4, 0.5, 0.3])
    spatial = SE2().Ad_star(SE2().inverse(p.g[0]), p.momentum)
    np.testing.assert_allclose(spatial, [0.4, 0.5, 0.3], atol=1e-9)


def board():
    """The snakeboard whose rotor's angle is relative to the board, as in Bloch and others 1996."""
    J, J0, m = 1.5, 0.5, 1.0
    metric = np.diag([J, m, m, J0, 0.5]) + J0 * (np.eye(5)[:, [0]] * np.eye(5)[3] + np.eye(5)[:, [3]] * np.eye(5)[0])

    def forms(x):
        c, s = 0.5 * jnp.cos(x[0]), jnp.sin(x[0])
        return [[c, s, -jnp.cos(x[0]), 0.0, 0.0], [-c, -s, -jnp.cos(x[0]), 0.0, 0.0]]

    return gn.System(
        Product((SE2(), Torus(2, ("psi", "phi")))),
        metric=metric,
        distribution=gn.Distribution(forms),
        parameters={"r": 0.5},
        base=("phi",),
        name="board",
    )


def racer_section(r, p):
    return [[jnp.sin(r[0]), p["d1"] * jnp.cos(r[0]) + p["d2"], 0.0]]


def board_section(r, p):
    return [[jnp.sin(r[1]), -p["r"] * jnp.cos(r[1]), 0.0]]


def racer_gait(t):
    return jnp.stack([0.8 + 0.3 * jnp.sin(2 * t)])


def board_gait(t):
    return jnp.stack([jnp.sin(t), 0.4 + 0.3 * jnp.sin(t)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "sections", "gait"),
    [
        (gn.systems.roller_racer(), racer_section, racer_gait),
        pytest.param(board(), board_section, board_gait, marks=pytest.mark.slow),
    ],
    ids=["roller racer", "snakeboard"],
)
def test_a_gait_against_the_full_equations_with_the_shape_driven(system, sections, gait):
    connection = nonholonomic_connection(system, sections=sections)
    n, k = system.group.dim, len(connection.shape)
    driven = gn.System(
        system.group,
        metric=system.metric,
        distribution=system.distribution,
        forces=lambda t, x, xi, u: u,
        parameters=system.parameters,
        base=system.action,
    )
    bend = jax.jit(jax.jacfwd(jax.jacfwd(gait)))

    @jax.jit
    def slope(g, xi, wanted):
        free = accelerations(driven, 0.0, g, xi, jnp.zeros(n))[0]
        each = jax.jacfwd(lambda u: accelerations(driven, 0.0, g, xi, u)[0])(jnp.zeros(n))[:, -k:]
        torque = jnp.linalg.solve(each[-k:], wanted - free[-k:])
        return jnp.concatenate([*system.group.left_tangent(g, xi), free + each @ torque])

    def right(t, y):
        return np.asarray(slope((y[:3], y[3 : 3 + k]), y[3 + k :], bend(t)))

    r, rate = (np.asarray(a) for a in jax.jvp(gait, (0.0,), (1.0,)))
    s = np.asarray(sections(r, {key: float(value) for key, value in system.parameters.items()}))
    with gn.float64():
        M = np.asarray(system.mass_matrix(system.action.at((jnp.zeros(3), jnp.asarray(r)))))
    p = np.array([0.3])
    moving = -connection.form(r) @ rate + s.T @ np.linalg.solve(s @ M[:3, :3] @ s.T, p)
    xi = np.concatenate([moving, rate])
    y = solve_ivp(right, (0, 2.0), np.concatenate([np.zeros(3), r, xi]), method="DOP853", rtol=1e-11, atol=1e-12)
    made = [connection.displacement(gait, 2.0, n_steps=steps, momentum=p) for steps in (8, 16, 32, 64)]
    errors = [np.abs(one.g[0] - y.y[:3, -1]).max() for one in made]
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 4, atol=0.2)
    assert errors[-1] < 1e-7


def test_what_has_no_connection_is_said():
    racer = gn.systems.roller_racer()
    with pytest.raises(ValueError, match=r"carries 1 momentum"):
        nonholonomic_connection(racer).displacement(racer_gait, 1.0)
    with pytest.raises(ValueError, match="on which the constraints vanish"):
        nonholonomic_connection(racer, sections=lambda r, p: [[1.0, 0.0, 0.0]])
    with pytest.raises(TypeError, match=r"sections takes \(r, parameters\)"):
        nonholonomic_connection(gn.systems.elroys_beanie(), sections=lambda r: jnp.eye(3))
    with pytest.raises(ValueError, match="shape must name"):
        nonholonomic_connection(racer, ["theta"])
    with pytest.raises(ValueError, match="must be shapes"):
        nonholonomic_connection(gn.systems.snakeboard_absolute())
    with pytest.raises(ValueError, match="do not determine"):
        nonholonomic_connection(gn.systems.roller_racer(d1=0.5, d2=0.5)).form([np.pi])


@pytest.mark.slow
def test_other_sections_of_a_system_without_constraints_give_other_momenta_of_one_motion():
    """p of the sections A is Ap, and the displacement the same."""
    beanie, A = gn.systems.elroys_beanie(), jnp.asarray([[1.0, 0.3, 0.0], [0.2, 1.5, -0.4], [0.0, 0.6, 0.8]])
    gait, p = (lambda t: jnp.stack([jnp.sin(t)])), np.array([0.3, -0.2, 0.5])
    own = nonholonomic_connection(beanie).displacement(gait, 1.0, n_steps=40, momentum=p)
    other = nonholonomic_connection(beanie, sections=lambda r, parameters: A)
    with_A = other.displacement(gait, 1.0, n_steps=40, momentum=A @ p)
    np.testing.assert_allclose(with_A.g[0], own.g[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(with_A.momentum, A @ own.momentum, rtol=0, atol=1e-12)

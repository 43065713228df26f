"""Closed loops and tracking of motions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_optimal import MASS, SLEIGH
from test_parking import robot
from test_transcription import BODY

import geonh as gn
from geonh import bodies
from geonh.control import closed_loop, optimal_control, tracking


def damped(t, g, xi):
    return -0.5 * xi[:2] + 0.1 * jnp.sin(t)


def written(system, law):
    """System with forces under a law of (t, ξ), as a user writes it."""
    return gn.System(
        system.group,
        metric=system.metric,
        lagrangian=system.lagrangian_function,
        distribution=system.distribution,
        holonomic=system.holonomic,
        potential=system.potential,
        parameters=system.parameters,
        base=system.action,
        forces=lambda t, x, xi, u: system.forces(t, x, xi, law(t, None, xi)),
    )


@pytest.mark.parametrize(
    ("method", "which"),
    [
        ("rkmk4", "angles"),
        pytest.param("gauss4", "angles", marks=pytest.mark.slow),
        pytest.param("projected", "group", marks=pytest.mark.slow),
    ],
)
def test_a_closed_loop_is_the_system_with_these_forces(method, which):
    """Of functions of the angles alone, and of functions of the time and the group."""
    if which == "angles":
        system = robot(0.8)
        options = {"xi0": system.project(None, [0.3, 1.0, 0.2, 0.1])}
    else:
        system = BODY
        g0, xi0 = system.project([0.2, 0.8, -0.5], [0.3, 1.0, 0.2], t0=0.0)
        options = {"g0": g0, "xi0": xi0}
    runs = [
        gn.solve(s, method, **options, dt=0.02, n_steps=40)
        for s in (closed_loop(system, damped), written(system, damped))
    ]
    for a, b in zip(*(jax.tree.leaves(run.g) for run in runs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(runs[0].xi, runs[1].xi, atol=1e-12)


@pytest.mark.parametrize("root", ["planar", "free"])
def test_a_law_on_a_reduced_tree(root):
    """Whose momentum and bias force are functions of its joints alone."""
    links = [
        bodies.Link("base", 3.0, (0.1, 0, 0.1), (0.02, 0.03, 0.04), "", bodies.Joint(root, "base")),
        bodies.Link("arm", 1.0, (0.2, 0, 0), (0.01, 0.01, 0.01), "base", bodies.Joint("revolute", "q", motor=True)),
    ]
    system = bodies.tree(links, gravity=(0, 0, 0))
    assert system.reduced
    g0, xi0 = bodies.start(system, {"q": 0.3}, {"q": 1.0})
    how = {"g0": g0, "xi0": xi0, "dt": 0.01, "n_steps": 20}
    run = gn.solve(closed_loop(system, lambda t, g, xi: -0.4 * xi[-1:]), **how)
    damped = bodies.tree([links[0], replace(links[1], joint=replace(links[1].joint, damping=0.4))], gravity=(0, 0, 0))
    np.testing.assert_allclose(run.xi, gn.solve(damped, **how).xi, atol=1e-13)


@pytest.mark.slow
def test_the_gains_of_a_mass_are_those_of_the_riccati_equation():
    """On a long horizon, q'' = u/2: k₁ = √(q₁/r), k₂ = √(q₂/r + 2k₁/b), b = 1/2; gains of sampled laws in the limit."""
    known = [np.sqrt(2.0), np.sqrt(2.0 + 4 * np.sqrt(2.0))]
    motions = [optimal_control(MASS, end=[0.0], n_controls=1, span=40.0, n_steps=K) for K in (400, 800, 1600)]
    gains = [tracking(motion, weights=[1.0, 1.0], effort=[0.5]).gains[0, 0] for motion in motions]
    off = [np.abs(one - known).max() for one in gains]
    assert abs(np.log2(off[1] / off[2]) - 1) < 0.1
    np.testing.assert_allclose(2 * gains[2] - gains[1], known, rtol=2e-3)


@pytest.mark.slow
def test_a_law_is_computed_in_double_precision_outside_of_runs():
    """From arrays or lists: u* and gains at a node, to rounding; errors name its argument."""
    motion = optimal_control(MASS, end=[1.0], n_controls=1, span=2.0, n_steps=8, guess=lambda t: (jnp.ones(1), [0.1]))
    law, k = tracking(motion), 3
    middle = (motion.t[k] + motion.t[k + 1]) / 2
    np.testing.assert_allclose(motion.control(middle), (motion.u[k] + motion.u[k + 1]) / 2, rtol=0, atol=1e-15)
    error = np.array([1e-3, -2e-3])
    u = law(motion.t[k], (motion.g[k] + error[:1]).tolist(), motion.xi[k] + error[1:])
    np.testing.assert_allclose(u, motion.u[k] - law.gains[k] @ error, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"xi of Tracking\.__call__ must have shape \[1\], got \[2\]"):
        law(0.0, motion.g[0], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"g of Tracking\.__call__ must be"):
        law(0.0, [0.0, 0.0], motion.xi[0])
    for name, arguments in {
        "t": (np.nan, [0.0], [0.0]),
        "g": (0.0, [np.nan], [0.0]),
        "xi": (0, [0.0], [-np.inf]),
    }.items():
        with pytest.raises(ValueError, match=rf"{name} of Tracking\.__call__ must be finite"):
            law(*arguments)
    with pytest.raises(ValueError, match=r"t must be a number, got an array of shape \[2\]"):
        motion.control([0.2, 0.5])
    with pytest.raises(ValueError, match="t must be finite"):
        motion.control([0.5, np.nan])


@pytest.mark.slow
def test_tracking_returns_to_a_motion():
    """From starts beside it, where the controls alone lead elsewhere; in ensembles too."""
    motion = optimal_control(SLEIGH, end=[1.2, 1.0, 1.5], n_controls=2, span=4.0, n_steps=40)
    law = tracking(motion, weights=[20.0] * 6, effort=[0.05, 0.05])
    held = closed_loop(SLEIGH, law)
    rng, u = np.random.default_rng(0), jnp.array([0.2, 1.0])
    starts = 0.1 * rng.normal(size=(8, 3))
    run = gn.solve_ensemble(held, "rkmk4", g0=starts, xi0=np.zeros((8, 3)), dt=0.02, n_steps=200)
    free = [
        gn.solve(SLEIGH, "rkmk4", g0=g, xi0=np.zeros(3), dt=0.02, n_steps=200, controls=motion.control).g[-1]
        for g in starts
    ]
    misses = np.abs(run.g[:, -1] - [1.2, 1.0, 1.5]).max(axis=1), np.abs(np.stack(free) - [1.2, 1.0, 1.5]).max(axis=1)
    assert np.all(misses[0] < 0.35 * misses[1])
    planned = gn.solve(SLEIGH, xi0=[0.0, 0.5, 0.0], dt=0.05, n_steps=200, controls=lambda t: 0.4 * jnp.sin(t) * u)
    law = tracking(planned, weights=[20.0] * 6, effort=[0.05, 0.05])
    held = closed_loop(SLEIGH, law)
    velocities = np.tile([0.0, 0.5, 0.0], (8, 1))
    run = gn.solve_ensemble(held, "rkmk4", g0=starts, xi0=velocities, dt=0.05, n_steps=200)
    assert np.abs(run.g[:, -1] - planned.g[-1]).max() < 2e-3 * np.abs(starts).max()
    off = []
    for K in (40, 80, 160):  # from the start itself: the reference is a cubic between nodes, of order 4
        motion = optimal_control(SLEIGH, end=[1.2, 1.0, 1.5], n_controls=2, span=4.0, n_steps=K, guess=motion)
        held = closed_loop(SLEIGH, tracking(motion, weights=[20.0] * 6, effort=[0.05, 0.05]))
        run = gn.solve(held, "rkmk4", xi0=np.zeros(3), dt=4.0 / K, n_steps=K)
        off.append(np.abs(run.g[-1] - [1.2, 1.0, 1.5]).max())
    assert off[0] < 2e-5
    assert off[2] < off[0] / 100


@pytest.mark.slow
def test_the_cost_to_go_is_that_of_small_errors():
    """δᵀP₀δ of the linear equations is the cost of the nonlinear closed loop, where errors and steps are small."""
    costs = []
    for K in (100, 200):
        motion = optimal_control(SLEIGH, end=[1.2, 1.0, 1.5], n_controls=2, span=4.0, n_steps=K)
        law = tracking(motion)
        eta = 0.002 * np.array([0.3, -0.5, 0.4])
        run = gn.solve(closed_loop(SLEIGH, law), "rkmk4", g0=eta, xi0=np.zeros(3), dt=motion.t[1], n_steps=K)
        group = SLEIGH.group
        off = [
            np.r_[group.log(group.compose(group.inverse(motion.g[k]), run.g[k])), run.xi[k] - motion.xi[k]]
            for k in range(K + 1)
        ]
        each = [a @ a + np.sum((law.gains[k] @ a) ** 2) for k, a in enumerate(off)]
        cost = np.trapezoid(each, motion.t) + off[-1] @ off[-1]
        error = np.r_[off[0][:3], np.zeros(3)]
        costs.append(cost / (error @ law.cost_to_go[0] @ error) - 1)
    assert abs(costs[1]) < 0.02
    assert abs(np.log2(costs[0] / costs[1]) - 1) < 0.2, costs


@pytest.mark.slow
def test_a_run_is_tracked_as_the_optimal_motion_it_is_of():
    """Gains of the run of an optimal motion; those of other runs of the nodes, by methods and at times of any kind."""
    options = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 8, "guess": lambda t: (jnp.ones(1), [0.1])}
    motion = optimal_control(MASS, **options)
    run = motion.trajectory()
    of_motion, of_run = (tracking(one, weights=[3.0, 1.0], effort=[0.5]) for one in (motion, run))
    np.testing.assert_allclose(of_run.gains, of_motion.gains, rtol=0, atol=1e-13)
    np.testing.assert_allclose(of_run.u, motion.u, rtol=0, atol=1e-15)
    by_gauss = gn.solve(MASS, "gauss4", xi0=[0.0], tolerance=1e-6, t_end=2.0, controls=motion.control)
    at_times = tracking(by_gauss(motion.t), weights=[3.0, 1.0], effort=[0.5])
    np.testing.assert_allclose(at_times.gains, of_motion.gains, rtol=0, atol=1e-6)
    at_nodes = gn.solve(MASS, "projected", xi0=[0.0], dt=0.125, n_steps=16, save_every=2, controls=np.ones((17, 1)))
    np.testing.assert_array_equal(tracking(at_nodes).u, np.ones((9, 1)))
    uneven = gn.solve(MASS, "gauss4", xi0=[0.0], dt=0.25, n_steps=9, save_every=2, controls=motion.control)
    for wrong, words in {
        "equally spaced": uneven,
        "at least three nodes": run.first(2),
        "with controls=": gn.solve(gn.systems.suslov(), xi0=[0.0, 0.0, 0.0], dt=0.1, n_steps=4),
    }.items():
        with pytest.raises(ValueError, match=wrong):
            tracking(words)


def test_laws_are_validated():
    with pytest.raises(TypeError, match=r"law takes \(t, g, xi\)"):
        closed_loop(MASS, lambda t: t)
    with pytest.raises(ValueError, match="no forces"):
        closed_loop(gn.systems.suslov(), damped)
    with pytest.raises(TypeError, match="closed_loop"):
        gn.solve(MASS, xi0=[0.0], dt=0.1, n_steps=2, controls=lambda t, g, xi: -g)
    motion = optimal_control(MASS, end=[1.0], n_controls=1, span=1.0, n_steps=4)
    with pytest.raises(ValueError, match=r"weights must have shape \[2\] or \[2, 2\]"):
        tracking(motion, weights=[1.0])
    with pytest.raises(TypeError, match="motion must be an OptimalControl, or a Trajectory, got 3"):
        tracking(3)
    with pytest.raises(ValueError, match="effort must be positive definite"):
        tracking(motion, effort=[0.0])

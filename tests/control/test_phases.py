"""Optimal motions from mode to mode: against closed forms, their runs, exact derivatives, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from test_transcription import BODY, a_problem, richardson

import geonh as gn
from geonh.control import optimal_control, tracking
from geonh.control.phases import Phase
from geonh.groups import Translations
from geonh.mechanics import multipliers


def pushed(mass):
    return gn.System(Translations(1), metric=[mass], forces=lambda t, x, xi, u: u, name=f"{mass:g} kg")


def effort(way, begin, end, span):
    """∫a² of the least effort of a unit mass, by its way and its velocities at both ends."""
    return 4 * (begin**2 + begin * end + end**2) / span - 12 * way * (begin + end) / span**2 + 12 * way**2 / span**3


LOADING = gn.Event(lambda t, x, xi, lam: x[0] - 1.0, name="loading")
CART = gn.Modes(
    {"light": pushed(1.0), "loaded": pushed(2.0)},
    [gn.Transition("light", LOADING, "loaded", reset=lambda t, x, xi: xi / 2)],
    name="cart",
)
TO_TWO = {"end": [2.0], "n_controls": 1, "phases": ["light", "loaded"], "tries": 1}


@pytest.mark.slow
def test_a_cart_that_is_loaded_on_its_way_is_driven_as_its_closed_form_with_order_3():
    """A load that rests is taken up at x = 1: the velocity is halved there, and the control jumps."""
    found = minimize(
        lambda z: effort(1.0, 0.0, z[1], z[0]) + 4 * effort(1.0, z[1] / 2, 0.0, 3.0 - z[0]),
        [1.5, 1.0],
        method="Nelder-Mead",
        options={"xatol": 1e-11, "fatol": 1e-14, "maxiter": 5000},
    )
    counts, errors = (6, 12, 24, 48), []
    for count in counts:
        drive = optimal_control(CART, span=[1.5, 1.5], n_steps=[count, count], **TO_TWO)
        errors.append(drive.cost - found.fun)
        assert drive.residual < 1e-12
    assert np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(-3.0, abs=0.1)
    np.testing.assert_allclose(drive.spans, [found.x[0], 3.0 - found.x[0]], atol=2e-6)
    np.testing.assert_allclose([drive.g[48, 0], 2 * drive.xi[48, 0]], [1.0, found.x[1]], atol=1e-5)
    assert drive.u[48, 0] < drive.u[47, 0] - 0.01
    light, loaded = drive.trajectory(), drive.trajectory(1)
    np.testing.assert_allclose(light.g, drive.g[:49], atol=1e-14)
    np.testing.assert_allclose(loaded.g, drive.g[48:], atol=1e-14)
    np.testing.assert_allclose(light.xi[-1], 2 * loaded.xi[0], atol=1e-14)
    t = drive.t[50] + 0.25 * (drive.t[51] - drive.t[50])
    np.testing.assert_allclose(drive.control(t), 0.75 * drive.u[50] + 0.25 * drive.u[51], atol=1e-14)
    assert drive.control(drive.t[48] - 1e-9) == drive.u[47]
    run = gn.solve(CART, "rkmk4", mode="light", g0=[0.0], xi0=[0.0], dt=0.01, n_steps=300, controls=drive.control)
    np.testing.assert_allclose(run.switches.t, drive.t[48], atol=1e-3)
    np.testing.assert_allclose(run.g[-1], 2.0, atol=1e-3)


MU, G, INERTIA, SPEED = 0.2, 9.81, 0.4, 2.0
SLIDES = gn.System(
    Translations(2),
    metric=[1.0, INERTIA],
    forces=lambda t, x, xi, u: MU * G * jnp.array([-1.0, 1.0]) + u * jnp.eye(2)[1],
)
ROLLS = gn.System(
    Translations(2),
    metric=[1.0, INERTIA],
    distribution=gn.Distribution([[1.0, -1.0]]),
    forces=lambda t, x, xi, u: u * jnp.eye(2)[1],
)
WHEEL = gn.Modes(
    {"slides": SLIDES, "rolls": ROLLS},
    [gn.Transition("slides", gn.Event(lambda t, x, xi, lam: xi[0] - xi[1], name="slip ends"), "rolls")],
    name="wheel",
)
THROWN = {
    "end": [1.6, 0.0],
    "xi_start": [SPEED, 0.0],
    "free": [ROLLS.group.velocity_names[1]],
    "n_controls": 1,
    "span": [0.5, 1.5],
    "phases": ["slides", "rolls"],
    "tries": 1,
}


def of_thrown(begin):
    """Cost of a wheel that slides for so long, and comes to rest at 1.6 m after 2 s."""
    speed, way = SPEED - MU * G * begin, SPEED * begin - MU * G * begin**2 / 2
    impulse = INERTIA * speed - MU * G * begin
    return impulse**2 / begin + (1 + INERTIA) ** 2 * effort(1.6 - way, speed, 0.0, 2.0 - begin)


@pytest.mark.parametrize(("method", "order"), [("rkmk4", 4), pytest.param("projected", 2, marks=pytest.mark.slow)])
def test_a_thrown_wheel_slides_and_rolls_to_its_place_as_its_closed_form(method, order):
    """All motions are polynomials of the time, which rkmk4 follows exactly."""
    found = minimize_scalar(of_thrown, bounds=(0.02, 1.0), method="bounded", options={"xatol": 1e-13})
    counts = (5, 10, 20, 40) if order == 2 else (5,)
    errors = []
    for count in counts:
        drive = optimal_control(WHEEL, **THROWN, n_steps=[count, count], method=method)
        errors.append(abs(drive.cost - found.fun))
        slip = drive.xi[:, 0] - drive.xi[:, 1]
        np.testing.assert_allclose(slip[count:], 0.0, atol=1e-13)
        assert (slip[:count] > 0.02).all()
    if order == 4:
        assert errors[0] < 1e-13
        assert drive.spans[0] == pytest.approx(found.x, abs=1e-7)
    else:
        assert np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(-2.0, abs=0.1)


@pytest.mark.slow
def test_bounds_of_one_phase_hold_there_alone_and_the_sum_of_durations_can_be_free():
    def grip(t, g, xi, u):
        return multipliers(ROLLS, t, g, xi, u)

    free = optimal_control(WHEEL, **THROWN, n_steps=[10, 20])
    lower = -0.75
    bound = optimal_control(WHEEL, **THROWN, n_steps=[10, 20], path={"rolls": (grip, lower, np.inf)})
    grips, free_grips = (
        np.array([float(grip(0.0, one.g[k], one.xi[k], one.u[k])[0]) for k in range(31)]) for one in (bound, free)
    )
    assert free_grips[10:].min() < lower - 0.03
    assert lower - 1e-7 < grips[10:].min() < lower + 1e-6
    assert bound.cost > free.cost + 1e-4
    quick = optimal_control(WHEEL, **THROWN, n_steps=[10, 20], free_span=True, cost=lambda t, g, u: 1.0 + u @ u)
    for change in (0.98, 1.02):
        spans = (change * np.sum(quick.spans) * np.array([0.22, 0.78])).tolist()
        held = optimal_control(WHEEL, **(THROWN | {"span": spans}), n_steps=[10, 20], cost=lambda t, g, u: 1.0 + u @ u)
        assert np.sum(held.spans) == pytest.approx(sum(spans), abs=1e-13)
        assert held.cost > quick.cost + 1e-5


def test_a_solution_is_a_guess_of_one_with_other_steps():
    coarse = optimal_control(CART, span=[1.5, 1.5], n_steps=[6, 8], **TO_TWO)
    fine = optimal_control(CART, span=[1.5, 1.5], n_steps=[24, 24], guess=coarse, **TO_TWO)
    assert abs(fine.cost - 4.0) < abs(coarse.cost - 4.0) / 20
    pairs = optimal_control(CART, span=coarse.spans, n_steps=[6, 8], guess=(coarse.g, coarse.u), **TO_TWO)
    function = optimal_control(CART, span=[1.5, 1.5], n_steps=[6, 8], guess=lambda t: ([2 * t / 3], [0.5]), **TO_TWO)
    assert pairs.cost == pytest.approx(coarse.cost, abs=1e-12)
    assert function.cost == pytest.approx(coarse.cost, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("free_span", [False, True])
def test_derivatives_across_transitions_are_exact(free_span):
    """Three phases of a body on a moving constraint, with a guard and a reset of everything."""
    other = BODY.with_parameters(a=0.15)
    guard = gn.Event(lambda t, g, xi, lam: t * xi[0] - lam[1] * g[2] + 0.3, name="guard")
    reset = gn.Transition("a", guard, "b", reset=lambda t, g, xi, p: xi * (1 + p["a"] * t * g[1]))
    onto = gn.Transition("b", guard, "a")
    phases = (Phase("a", BODY, 0.2, 3, reset), Phase("b", other, 0.3, 2, onto), Phase("a", BODY, 0.3, 2))
    problem, motion, rng = a_problem(gn.RKMK(4), n_steps=7, phases=phases, free_span=free_span)
    assert problem.n_shared == 2 + free_span
    z = np.where(problem.given, 0.0, rng.normal(size=problem.size))
    lam, y = (rng.normal(size=a.intervals * problem.n_steps + a.end) for a in problem.shapes[:2])
    at = problem.linearised(motion, lam, y, 0.7)

    def along(s):
        now = problem.values(motion, s * z)
        return np.concatenate([now.equations, now.inequalities, [now.cost]])

    first, second = richardson(along)
    found = np.concatenate([at.equations.along(z), at.inequalities.along(z), [at.gradient @ z]])
    np.testing.assert_allclose(found, first, rtol=1e-7, atol=1e-8 * np.abs(first).max())
    bend = sum(
        np.einsum("ki,kij,kj", z[columns], hessian, z[columns])
        for columns, hessian in zip(problem.columns, at.hessian, strict=True)
    )
    np.testing.assert_allclose(bend, np.concatenate([lam, y, [0.7]]) @ second, rtol=1e-5)
    moved = problem.values(problem.moved(motion, 0.1 * z))
    np.testing.assert_allclose(moved.equations, along(0.1)[: len(moved.equations)], atol=1e-12)


@pytest.mark.slow
def test_what_a_transition_does_not_do_is_told():
    """A guard or a reset that leads off the next constraints, another target, a reset of the point, a guard in vain."""
    ball = {"metric": [1.0, 1.0], "forces": lambda t, x, xi, u: u}
    free = gn.System(Translations(2), **ball)
    on_circle = gn.System(Translations(2), **ball, holonomic=lambda x: jnp.stack([x @ x - 1.0]))
    level = gn.System(Translations(2), **ball, distribution=gn.Distribution([[0.0, 1.0]]))
    half = gn.Event(lambda t, x, xi, lam: x[0] - 0.5, name="half")
    options = {"phases": ["a", "b"], "span": [0.5, 1.0], "n_steps": [4, 5], "n_controls": 2, "tries": 1}
    free_end = {"terminal": (lambda t, g, xi, u: g[:1], [0.8], [0.8]), "xi_start": [1.0, 0.4]}
    for modes, transition, more, kind, words in (
        (
            {"a": free, "b": on_circle},
            (half, "b"),
            {"start": [0.2, -0.2], "end": [0.0, -1.0]},
            ValueError,
            "off the const",
        ),
        ({"a": free, "b": level}, (half, "b", lambda t, x, xi: xi), free_end, ValueError, "off the constraints of 'b'"),
        ({"a": free, "b": level}, (half, lambda t, x, xi: "a"), free_end, ValueError, "leads to 'a', not to the next"),
        ({"a": free, "b": level}, (half, "b", lambda t, x, xi: (x, xi)), free_end, ValueError, r"gives \(g, xi\)"),
        (
            {"a": free, "b": free},
            (gn.Event(lambda t, x, xi, lam: x[0] ** 2 + 1.0, name="never"), "b"),
            {"end": [1.0, 0.0], "max_iterations": 60},
            RuntimeError,
            "not all constraints can be met|no convergence|diverge",
        ),
    ):
        with pytest.raises(kind, match=words):
            optimal_control(gn.Modes(modes, [gn.Transition("a", *transition)]), **(options | more))


@pytest.mark.slow
def test_phases_that_do_not_fit_are_refused():
    steps = {"n_steps": [4, 4]}
    for changes, kind, words in (
        ({"phases": None}, TypeError, "phases must be a list of modes in their order, of slides, rolls"),
        ({"phases": "slides"}, TypeError, "phases must be a list"),
        ({"phases": ["rolls", "slides"]}, ValueError, "no transition from 'rolls' to 'slides'"),
        ({"phases": ["slide", "rolls"]}, ValueError, "did you mean slides"),
        ({"span": 2.0}, TypeError, "span must be a list of 2 numbers"),
        ({"span": [1.0, -1.0]}, ValueError, r"span\[1\] must be positive"),
        ({"n_steps": [4, 1]}, ValueError, r"n_steps\[1\]"),
        ({"path": {"roll": (lambda t, g, xi, u: u, 0, 1)}}, ValueError, "path: 'roll' is no phase"),
        ({"via": (0.5, lambda t, g, xi, u: u, 0, 1)}, ValueError, "via= is a part of the span"),
    ):
        with pytest.raises(kind, match=words):
            optimal_control(WHEEL, **(THROWN | steps | changes))
    with pytest.raises(ValueError, match="phases= is for a system of Modes"):
        optimal_control(ROLLS, end=[1.0, 1.0], n_controls=1, span=1.0, n_steps=4, phases=["rolls"])
    drive = optimal_control(WHEEL, **(THROWN | steps))
    with pytest.raises(ValueError, match="phase must be below 2"):
        drive.trajectory(2)
    with pytest.raises(ValueError, match="without phases"):
        tracking(drive)
    with pytest.raises(RuntimeError, match="slides then rolls"):
        optimal_control(WHEEL, **(THROWN | steps | {"end": [-50.0, 0.0]}), bounds=(-1, 1), max_iterations=20)

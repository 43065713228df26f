"""Optimal controls against closed forms, finer grids and the continuous equations."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2, SE3, SO3, Product, Torus, Translations
from geonh.mechanics import reference_trajectory


def push(t, x, xi, u):
    return u


def thrust_and_torque(t, x, xi, u):
    return jnp.stack([u[1], u[0], 0.0 * u[0]])


SLEIGH = gn.System(
    SE2(),
    metric=[[1.04, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]],
    distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
    base="point",
    forces=thrust_and_torque,
    name="sleigh",
)
MASS = gn.System(Translations(1), metric=[2.0], base="point", forces=push, name="mass")


@pytest.mark.slow
def test_the_sleigh_turns_at_least_cost():
    turn = {"end": [1.2, 1.0, 1.5], "n_controls": 2, "span": 4.0, "method": "projected"}
    result = [optimal_control(SLEIGH, **turn, n_steps=K) for K in (10, 20, 40)]
    for one in result:
        assert one.residual < 1e-12
        assert one.optimality < 1e-12
        assert one.iterations <= 15
        run = one.trajectory()
        np.testing.assert_allclose(run.g, one.g, atol=1e-12)
        np.testing.assert_allclose(run.xi[-1], 0.0, atol=1e-12)
    J = [one.cost for one in result]
    assert abs((J[0] - J[1]) / (J[1] - J[2]) - 4) < 0.3  # of order 2
    assert abs(result[2].cost - 1.53682719817) < 1e-9  # also by other programs
    assert optimal_control(SLEIGH, **turn, n_steps=40, guess=result[2]).iterations == 0
    finer = optimal_control(SLEIGH, **turn, n_steps=40, guess=result[1])
    assert finer.iterations <= 6
    assert abs(finer.cost - J[2]) < 1e-10


@pytest.mark.slow
def test_an_end_at_rest_on_a_circle():
    """The nearest point of the circle, reached at the cost 12d²/T³ of rest to rest."""
    plane = gn.System(Translations(2), metric=[1.0, 1.0], forces=push)
    centre = jnp.array([2.0, 1.0])
    on_circle = (lambda t, g, xi, u: jnp.linalg.norm(g - centre), 1.0, 1.0)
    at_rest = (lambda t, g, xi, u: xi, 0.0, [0.0, 0.0])
    ends = {"n_controls": 2, "span": 1.0, "n_steps": 8}
    found = optimal_control(plane, **ends, terminal=[on_circle, at_rest])
    np.testing.assert_allclose(found.g[-1], np.array([2.0, 1.0]) * (1 - 1 / np.sqrt(5)), atol=1e-9)
    np.testing.assert_allclose(found.cost, 12 * (np.sqrt(5) - 1) ** 2, rtol=1e-9)
    both = [(lambda t, g, xi, u: g[0], 1.0, 1.0), (lambda t, g, xi, u: g[0], 2.0, 2.0)]
    with pytest.raises(RuntimeError, match=r"terminal\[1\] is off by 0.5"):
        optimal_control(plane, **ends, terminal=both)


@pytest.mark.slow
def test_the_continuous_sleigh_arrives_there_in_the_limit():
    turn = {"end": [1.2, 1.0, 1.5], "n_controls": 2, "span": 4.0, "method": "projected"}
    result = [optimal_control(SLEIGH, **turn, n_steps=K) for K in (20, 40, 80)]
    misses = []
    for one in result:

        def linear(t, one=one):
            return jnp.stack([jnp.interp(t, one.t, one.u[:, i]) for i in range(2)])

        g, _ = reference_trajectory(SLEIGH, one.t, np.zeros(3), controls=linear, rtol=1e-10, atol=1e-11)
        misses.append(np.abs(g[-1] - [1.2, 1.0, 1.5]).max())
    np.testing.assert_allclose(np.log2(np.array(misses[:-1]) / misses[1:]), 2, atol=0.1)


@pytest.mark.slow
def test_parallel_parking_leaves_the_saddle():
    parking = {"end": [0.0, 0.0, 1.0], "n_controls": 2, "span": 4.0, "n_steps": 40}
    result = optimal_control(SLEIGH, **parking, method="projected")
    assert abs(result.cost - 9.187497633) < 1e-6  # the symmetric way, a saddle, costs 12.76
    np.testing.assert_allclose(result.trajectory().g[-1], [0.0, 0.0, 1.0], atol=1e-11)


@pytest.mark.slow
def test_a_mass_from_rest_to_rest():
    # ∫u² dt least: u = 6md(T − 2t)/T³, J = 12m²d²/T³; it is linear in t, so RKMK(4) and Simpson's rule are exact
    exact = optimal_control(MASS, end=[1.5], n_controls=1, span=2.0, n_steps=4)
    assert abs(exact.cost - 12 * 4 * 1.5**2 / 8) < 1e-12
    errors = []
    for K in (10, 20, 40):
        result = optimal_control(MASS, end=[1.5], n_controls=1, span=2.0, n_steps=K, method="projected")
        errors.append(abs(result.cost - 12 * 4 * 1.5**2 / 8))
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2, atol=0.1)
    np.testing.assert_allclose(result.u[:, 0], 18 * (2 - 2 * result.t) / 8, atol=0.05)


def time_and_effort(t, g, u):
    return 1.0 + u @ u


@pytest.mark.slow
def test_the_span_is_found():
    # J(T) = T + 12m²d²/T³ is least at T⁴ = 36m²d²
    errors = []
    for K in (20, 40, 80):
        options = {"end": [0.5], "n_controls": 1, "span": 1.5, "free_span": True, "cost": time_and_effort}
        result = optimal_control(MASS, **options, n_steps=K, method="projected")
        errors.append(abs(result.t[-1] - 36**0.25))
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2, atol=0.1)


@pytest.mark.parametrize("solver", ["geonh", "ipopt"])
@pytest.mark.quick("ipopt")
def test_bounds_are_kept(solver):
    if solver == "ipopt":
        pytest.importorskip("ipyopt")
    # The costate is linear in t, so u = clip(c(1 − 2t/T)), with c from the distance.
    T, d, bound = 2.0, 1.0, 2.3
    result = optimal_control(MASS, end=[d], n_controls=1, span=T, n_steps=80, bounds=(-bound, bound), solver=solver)
    assert np.abs(result.u).max() <= bound
    assert np.sum(np.abs(result.u) > bound - 1e-7) >= 4  # an interior point
    free = optimal_control(MASS, end=[d], n_controls=1, span=T, n_steps=80)
    assert np.abs(free.u).max() > bound
    assert result.cost > free.cost
    t = np.linspace(0, T, 200_001)

    def control(c):
        return np.clip(c * (1 - 2 * t / T), -bound, bound)

    def reached(c):
        return np.trapezoid(control(c) * (T - t), t) / 2.0 - d

    c = brentq(reached, 1.0, 100.0)
    assert abs(result.cost - np.trapezoid(control(c) ** 2, t)) < 5e-3 * result.cost
    np.testing.assert_allclose(result.u[:, 0], np.interp(result.t, t, control(c)), atol=0.05)


@pytest.mark.slow
def test_a_body_turns_about_a_principal_axis():
    body = gn.System(SO3(), metric=[1.0, 2.0, 3.0], base="point", forces=push, name="body")
    end = np.asarray(SO3().exp(jnp.array([0.0, 1.2, 0.0])))
    result = optimal_control(body, end=end, n_controls=3, span=2.0, n_steps=40)
    assert abs(result.cost / (12 * 4 * 1.2**2 / 8) - 1) < 5e-3
    assert np.abs(result.u[:, [0, 2]]).max() < 1e-10


@pytest.mark.slow
def test_a_body_in_space_flies_to_a_pose():
    body = gn.System(SE3(), metric=[0.4, 0.5, 0.6, 1.0, 1.0, 1.0], base="point", forces=push, name="body")
    end = np.asarray(SE3().exp(jnp.array([0.5, 0.2, -0.3, 0.4, 0.5, 0.1])))
    flight = {"end": end, "n_controls": 6, "span": 2.0, "method": "projected"}
    result = [optimal_control(body, **flight, n_steps=K) for K in (10, 20, 40)]
    for one in result:
        np.testing.assert_allclose(one.trajectory().g, one.g, atol=1e-12)
    J = [one.cost for one in result]
    assert abs((J[0] - J[1]) / (J[1] - J[2]) - 4) < 0.2


RADIUS, WIDTH = 0.3, 0.8


def motors(t, x, xi, u):
    return jnp.concatenate([jnp.zeros(3), u - 0.02 * xi[3:]])


def robot():
    forms = [
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, -RADIUS / 2, -RADIUS / 2],
        [1.0, 0.0, 0.0, RADIUS / WIDTH, -RADIUS / WIDTH],
    ]
    return gn.System(
        Product((SE2(), Torus(2, ("left", "right")))),
        metric=[0.3, 2.0, 2.0, 0.05, 0.05],
        distribution=gn.Distribution(forms),
        base="point",
        forces=motors,
        name="robot",
    )


@pytest.mark.slow
def test_a_robot_swings_to_a_pose_whatever_its_wheels_do():
    end = (np.array([np.pi / 2, 1.0, 0.5]), np.zeros(2))
    wheels = ["left_dot", "right_dot"]
    costs = []
    for K in (20, 40, 80):
        options = {"end": end, "n_controls": 2, "span": 3.0, "free": wheels, "method": "projected"}
        result = optimal_control(robot(), **options, n_steps=K)
        run = result.trajectory()
        np.testing.assert_allclose(run.g[0][-1], end[0], atol=1e-10)
        np.testing.assert_allclose(run.g[1], result.g[1], atol=1e-10)  # with friction that depends on the velocity
        np.testing.assert_allclose(run.xi[-1], 0.0, atol=1e-10)
        costs.append(result.cost)
    assert abs((costs[0] - costs[1]) / (costs[1] - costs[2]) - 4) < 0.2


@pytest.mark.quick(
    "options5-lower, upper",
    "options6-lower must be below upper",
    "options7-terminal: lower must be below or, .* equal to upper",
    "options0-xi_start is off the constraints",
    "options11-cost takes",
)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"xi_start": [0.0, 0.0, 1.0]}, "xi_start is off the constraints"),
        ({"free": ["psi"]}, "are not velocity components"),
        ({"free": ["omgea"]}, "did you mean"),
        ({"span": 0.0}, "span must be positive"),
        ({"n_steps": 1}, "n_steps"),
        ({"bounds": 3.0}, "lower, upper"),
        ({"bounds": (1.0, -1.0)}, "lower must be below upper"),
        ({"terminal": (lambda t, g, xi, u: g[0], 2.0, 1.0)}, "terminal: lower must be below or, .* equal to upper"),
        ({"method": gn.GNI()}, "RKMK or SymmetricProjection"),
        ({"solver": "newton"}, "solver"),
        ({"guess": ([[0.0] * 3] * 2, [[0.0]] * 2)}, "guess must be"),
        ({"cost": lambda t: 0.0}, "cost takes"),
        ({"end": [0.0, 1.0]}, "end must"),
    ],
)
def test_bad_input_is_named(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        optimal_control(SLEIGH, **{"end": [1.2, 1.0, 1.5], "n_controls": 2, "span": 4.0, "n_steps": 10} | options)


ENDLESS: list = []
ENDLESS.append(ENDLESS)


@pytest.mark.quick(
    "options11-ValueError-max_iterations must be a positive integer",
    "options10-TypeError-guess must return \\\\(g, u\\\\)",
    "options6-ValueError-shapes \\\\[5, 1\\\\], \\\\[4, 1\\\\]",
    "options7-ValueError-guess must be points of R",
    "options8-ValueError-guess contains itself",
    "options5-RuntimeError-the cost decreases with the span without bound",
)
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"limits": {"x": (0.5, 2.0)}}, ValueError, "start, xi_start: x is 0 there, beyond its bounds"),
        ({"cost": lambda t, g, u: jnp.sqrt(u[0] - 100.0)}, ValueError, "not finite at the guess"),
        ({"terminal": (lambda t, g, xi, u: xi[0] / 0.0, 0.0, 1.0)}, ValueError, "terminal: not finite at the guess"),
        ({"end": None}, ValueError, "nothing is asked of the motion"),
        ({"cost": lambda t, g, u: -u @ u}, RuntimeError, "the cost decreases without bound"),
        ({"free_span": True}, RuntimeError, "the cost decreases with the span without bound"),
        ({"guess": (np.zeros((5, 1)), np.zeros((4, 1)))}, ValueError, "shapes \\[5, 1\\], \\[4, 1\\]"),
        ({"guess": (np.zeros((5, 2)), np.zeros((5, 1)))}, ValueError, "guess must be points of R"),
        ({"guess": lambda t: (ENDLESS, ENDLESS)}, ValueError, "guess contains itself"),
        ({"start": [ENDLESS]}, ValueError, "start contains itself"),
        ({"guess": lambda t: 0.0}, TypeError, r"guess must return \(g, u\)"),
        ({"max_iterations": -1}, ValueError, "max_iterations must be a positive integer"),
    ],
)
def test_what_has_no_least_cost_is_said(options, error, words):
    with pytest.raises(error, match=words):
        optimal_control(MASS, **{"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 8} | options)


@pytest.mark.slow
def test_bounds_on_one_side_alone_hold():
    """A thrust that cannot push back (a mass that drifts to its end) and one without bounds."""
    options = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 8}
    free = optimal_control(MASS, **options)
    for bounds in ((-np.inf, np.inf), (-100.0, np.inf), ([-np.inf], [100.0])):
        found = optimal_control(MASS, **options, bounds=bounds)
        assert abs(found.cost - free.cost) < 1e-6 * free.cost
    pushed = optimal_control(MASS, **options, xi_end="free", bounds=([0.0], np.inf), rates=(-np.inf, 0.5))
    assert pushed.u.min() >= 0.0
    assert np.diff(pushed.u[:, 0]).max() <= 0.5 * 2.0 / 8 + 1e-12


@pytest.mark.slow
def test_what_cannot_be_driven_is_said():
    with pytest.raises(ValueError, match="no forces"):
        optimal_control(gn.systems.suslov(), end=np.eye(3), n_controls=1, span=1.0, n_steps=5)
    stuck = gn.System(Translations(2), metric=np.eye(2), forces=lambda t, x, xi, u: jnp.stack([u[0], 0.0 * u[0]]))
    with pytest.raises(RuntimeError, match="no optimal control"):
        optimal_control(stuck, end=[1.0, 1.0], n_controls=1, span=1.0, n_steps=5)


@pytest.mark.slow
def test_ipopt_finds_the_same():
    pytest.importorskip("ipyopt")
    options = {"end": [0.0, 0.0, 1.0], "n_controls": 2, "span": 4.0, "n_steps": 20, "bounds": (-1.6, 1.6)}
    options |= {
        "limits": {"omega": (-1.5, 1.5)},
        "rates": (-8.0, 8.0),
        "guess": lambda t: (np.array([t, 0.3 * t, t / 4]), [0.0, 0.1]),
    }
    result, own = optimal_control(SLEIGH, **options, solver="ipopt"), optimal_control(SLEIGH, **options)
    assert abs(result.cost - own.cost) < 1e-9 * own.cost
    np.testing.assert_allclose(result.u, own.u, atol=1e-6)


def test_a_solution_is_a_guess_for_narrower_bounds():
    options = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 16}
    free = optimal_control(MASS, **options, bounds=(-9.0, 9.0), tries=1)
    bound = optimal_control(MASS, **options, bounds=(-2.3, 2.3), guess=free)
    assert np.abs(free.u).max() > 2.9
    assert np.abs(bound.u).max() <= 2.3


def test_without_ipopt_it_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"geonh\[ipopt\]"):
        optimal_control(MASS, end=[1.0], n_controls=1, span=1.0, n_steps=4, solver="ipopt")


def spring(t, x, xi, u):
    return jnp.stack([u[0] - jnp.sin(x[0]) - 0.3 * xi[0] ** 2])


def test_the_order_is_four():
    """A nonlinear pendulum, by differences of the cost, of T and of the motion at half time."""
    pendulum = gn.System(Translations(1), metric=[1.0], forces=spring, name="pendulum")
    options = {"end": [2.0], "n_controls": 1, "span": 3.0, "free_span": True}
    options["cost"] = lambda t, g, xi, u: 0.5 + (1 + g[0] ** 2) * u @ u + jnp.sin(t) * xi[0] ** 2
    result = [optimal_control(pendulum, **options, n_steps=K) for K in (16, 32, 64, 128, 256)]
    for of in (lambda r: r.cost, lambda r: r.t[-1], lambda r: r.g[len(r.u) // 2, 0], lambda r: r.xi[len(r.u) // 4, 0]):
        falls = np.abs(np.diff([of(one) for one in result]))
        slopes = np.log2(falls[:-1] / falls[1:])
        assert abs(slopes[-1] - 4) < 0.1, slopes


@pytest.mark.slow
def test_the_hamiltonian_vanishes_where_the_span_is_free():
    """H = c − λ·f, whose costates are the multipliers of the equations, where c does not depend on the state."""
    pendulum = gn.System(Translations(1), metric=[1.0], forces=spring, name="pendulum")
    options = {"end": [2.0], "n_controls": 1, "span": 3.0, "free_span": True, "cost": time_and_effort}
    errors = []
    for K in (32, 64, 128, 256):
        one = optimal_control(pendulum, **options, n_steps=K)
        p, r = one._iterate.equations[: 2 * K].reshape(-1, 2).T
        k = np.arange(1, K)
        q, v, u = one.g[k, 0], one.xi[k, 0], one.u[k, 0]
        hamiltonian = 1 + u**2 - p[k - 1] / one.t[1] * v - r[k - 1] * (u - np.sin(q) - 0.3 * v**2)
        errors.append(np.abs(hamiltonian)[K // 8 : -K // 8].max())
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 4, atol=0.1)

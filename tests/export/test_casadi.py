"""Functions of CasADi: values, Jacobians against differences, and a predictive controller by Ipopt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import needs_compiler

import geonh as gn
from geonh.systems import catalogue

casadi = pytest.importorskip("casadi", reason="CasADi is not installed")
pytestmark = needs_compiler


def cart():
    """A cart on a plane that does not slip sideways, with a thrust and a moment."""
    return gn.System(
        gn.groups.SE2(),
        metric=lambda x, p: jnp.array([p["I"], p["m"], p["m"]]),
        distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0]]),
        forces=lambda t, x, xi, u: jnp.array([u[1], u[0], 0.0]),
        parameters={"I": 0.5, "m": 2.0},
        base="point",
        name="cart",
    )


def functions(built, kind):
    library = next(file for file in built.files if "_casadi" in file.name and file.suffix != ".c")
    return casadi.external(f"casadi_robot_{kind}", str(library))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("casadi") / "robot"
    return gn.build(cart(), "gauss4", folder, target="casadi", xi0=[0.1, 1.0, 0.0], dt=0.1, controls=[0.0, 0.0])


def given(built):
    defaults = built.model.defaults
    x = np.concatenate([defaults["point"], defaults["velocity"]])
    return x, np.array([0.4, -0.3]), defaults["parameters"], defaults["times"]


def test_a_step_is_that_of_solve_and_rates_are_those_of_the_equations(built):
    x, u, p, times = given(built)
    after = np.asarray(functions(built, "next")(x, u, p, times)).ravel()
    system = cart()
    run = gn.solve(system, "gauss4", xi0=x[3:], g0=x[:3], dt=0.1, n_steps=1, controls=lambda t: jnp.array([0.4, -0.3]))
    np.testing.assert_array_equal(after, np.concatenate([run.g[-1], run.xi[-1]]))
    rates = np.asarray(functions(built, "rates")(x, u, p, times)).ravel()
    expected, _ = gn.mechanics.accelerations(system, 0.0, x[:3], x[3:], u)
    np.testing.assert_allclose(rates, [0.1, 1.0, 0.0, *expected], rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", ["next", "rates"])
def test_jacobians_are_those_of_differences(built, kind):
    function, arguments = functions(built, kind), given(built)
    blocks = function.jacobian()(*arguments, 0)
    h = 1e-6
    for i, (argument, block) in enumerate(zip(arguments, blocks, strict=True)):
        for j in range(len(argument)):
            ends = []
            for step in (h, -h):
                changed = [a.copy() for a in arguments]
                changed[i][j] += step
                ends.append(np.asarray(function(*changed)).ravel())
            difference = (ends[0] - ends[1]) / (2 * h)
            np.testing.assert_allclose(np.asarray(block)[:, j], difference, rtol=0, atol=2e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [("chaplygin-sphere", "rkmk4"), ("snakeboard", "gauss4")])
def test_jacobians_of_systems_of_the_catalogue(name, method, tmp_path):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    built = gn.build(system, method, tmp_path / "robot", target="casadi", xi0=start.xi0, g0=start.g0, dt=entry.dt)
    defaults = built.model.defaults
    x = np.concatenate([defaults["point"], defaults["velocity"]])
    arguments = [x, np.zeros(0), defaults["parameters"], defaults["times"]]
    function = functions(built, "next")
    by_x, _, by_p, _ = map(np.asarray, function.jacobian()(*arguments, 0))
    rng, h = np.random.default_rng(3), 1e-6
    n = len(system.group.velocity_names)
    # along the constraints, where the motion is
    along = np.asarray(system.project(start.g0, start.xi0 + rng.normal(size=n))) - np.asarray(start.xi0)
    ends = [
        np.asarray(function(x + s * np.concatenate([np.zeros(len(x) - n), along]), *arguments[1:])) for s in (h, -h)
    ]
    np.testing.assert_allclose(by_x[:, -n:] @ along, ((ends[0] - ends[1]) / (2 * h)).ravel(), rtol=0, atol=1e-8)
    p = arguments[2]
    for j in range(len(p)):
        ends = [np.asarray(function(x, [], p + s * np.eye(len(p))[j], arguments[3])).ravel() for s in (h, -h)]
        np.testing.assert_allclose(by_p[:, j], (ends[0] - ends[1]) / (2 * h), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_a_predictive_controller_reaches_its_goal(built):
    """Multiple shooting to a pose at rest, by Ipopt; the inputs it finds lead there in ``solve`` too."""
    _, _, p, times = given(built)
    step, n = functions(built, "next"), 25
    start, goal = np.zeros(6), np.array([np.pi / 2, 1.0, 1.0, 0.0, 0.0, 0.0])
    problem = casadi.Opti()
    X, U = problem.variable(6, n + 1), problem.variable(2, n)
    problem.minimize(casadi.sumsqr(U))
    problem.subject_to(X[:, 0] == start)
    for k in range(n):
        problem.subject_to(X[:5, k + 1] == step(X[:, k], U[:, k], p, times)[:5])
        problem.subject_to(X[5, k + 1] == 0)  # the constraint, which steps keep
    problem.subject_to(X[:5, n] == goal[:5])
    s = np.linspace(0, 1, n + 1)
    problem.set_initial(X, np.outer(goal, s) + np.outer([0, 0, 0, 0.5, 0.5, 0], s * (1 - s)))
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.hessian_approximation": "limited-memory"}
    problem.solver("ipopt", {**quiet, "ipopt.max_iter": 500})
    found = problem.solve().value(U)
    system, g, xi = cart(), None, [0.0, 0.0, 0.0]
    for u in found.T:
        held = jax.tree_util.Partial(lambda u, t: u, u)
        run = gn.solve(system, "gauss4", xi0=xi, g0=g, dt=0.1, n_steps=1, controls=held)
        g, xi = run.g[-1], run.xi[-1]
    np.testing.assert_allclose(np.concatenate([run.g[-1], run.xi[-1]]), goal, rtol=0, atol=1e-6)

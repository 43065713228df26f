"""The contract of a method: one written from nothing runs, composes, has an adjoint; residuals and refusals."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import GROUPS, forced, general, random_system, slope, start

import geonh as gn
from geonh.algebra.newton import Newton
from geonh.arguments.precision import float64
from geonh.diagnostics import adjoint_defect
from geonh.engine.compiled import computed
from geonh.groups import SO3, Translations
from geonh.integrators import DLA, Feedback, Result
from geonh.integrators.base import Clock, Equations, Guarantees, ImplicitIntegrator, Integrator, NextStep, no_inverse
from geonh.integrators.node import Outcome, Warm
from geonh.integrators.prediction import SMOOTH, continued, followed_by, repeated


class Euler(Integrator):
    """Explicit Euler on (g, ξ) with the exponential, projected: eight lines by the contract."""

    @property
    def guarantees(self):
        return Guarantees(order=1, reference="Euler 1768", implicit=False, constraint="nodes")

    def step(self, system, clock, state):
        x = system.action.at(state.g)
        xi = system.velocity(x, state.p_minus)
        rate = gn.mechanics.accelerations(system, clock.time(state.k), state.g, xi, clock.control(state.k))[0]
        g = system.group.compose(state.g, system.group.exp(clock.dt * xi))
        ahead = system.projected_velocity(system.action.at(g), xi + clock.dt * rate)
        p = system.momentum(system.action.at(g), ahead)
        return Outcome(g, p, p)


class Midpoint(ImplicitIntegrator):
    """The implicit midpoint rule in (q, ξ) on a vector space, its equations handed over."""

    newton: Newton = Newton()

    @property
    def guarantees(self):
        return Guarantees(order=2, reference="", symmetric=True, constraint="none", groups="vector spaces")

    def cold(self, system, clock, k, g, xi):
        return Warm(clock.dt * xi, no_inverse(xi.size))

    def equations(self, system, clock, state):
        h, xi = clock.dt, system.velocity(system.action.at(state.g), state.p_minus)

        def residual(z):
            middle = state.g + z / 2
            rate = gn.mechanics.accelerations(system, clock.time(state.k + 0.5), middle, z / h, clock.between(None))[0]
            return z - h * (xi + h / 2 * rate)

        return Equations(residual, state.warm.guess, 1e-14 * jnp.abs(h))

    def update(self, system, clock, state, z):
        g, xi = state.g + z, system.velocity(system.action.at(state.g), state.p_minus)
        p = system.momentum(system.action.at(g), 2 * z / clock.dt - xi)
        return Outcome(g, p, p, warm=Warm(z))


@pytest.mark.slow
def test_a_method_of_one_function_runs_and_has_an_adjoint():
    system = random_system("SO3")
    at = start(system, speed=0.5)
    assert abs(slope(system, Euler(), (640, 1280), **at) - 1) < 0.1
    assert adjoint_defect(system, Euler(), Euler(), dt=0.05, **at) > 1e-4
    assert adjoint_defect(system, Euler(), Euler().adjoint(), dt=0.05, **at) < 1e-12
    assert (Euler().adjoint() @ Euler()).order == 2


@pytest.mark.slow
def test_it_makes_a_symmetric_method_of_order_two_with_its_adjoint():
    system = random_system("SO3")
    assert abs(slope(system, Euler().adjoint() @ Euler(), (20, 40, 80), **start(system)) - 2) < 0.15


@pytest.mark.slow
def test_an_implicit_method_hands_over_its_equations():
    system = random_system("R3")
    assert abs(slope(system, Midpoint(), (20, 40, 80), **start(system)) - 2) < 0.1
    assert abs(slope(system, gn.compose(Midpoint(), "suzuki4"), (10, 15, 20), **start(system)) - 4) < 0.25
    assert adjoint_defect(system, Midpoint(), Midpoint(), dt=0.05, **start(system)) < 1e-13


def residual_and_status(tree, start):
    method, system, clock = tree
    state = method.first_node(system, clock, *start)
    return method.residual(system, clock, state), method.next_node(system, clock, state).status


@pytest.mark.parametrize(
    "method",
    [Midpoint(), gn.SymmetricProjection(), gn.Gauss(1), DLA()],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.quick("Midpoint")
def test_the_residual_of_a_message_is_that_of_the_equations(method):
    """At rounding where they are solved; at the size of the equation where Newton's method gets one correction."""
    system, clock = random_system("R3"), Clock(0.0, 0.05)
    at = start(system)
    for newton, low, high in ((Newton(), 0.0, 1e-13), (Newton(tol=1e-12, max_iterations=1), 1e-12, 1.0)):
        mine = jax.tree.map(lambda leaf: leaf, method)
        object.__setattr__(mine, "newton", newton)
        residual, status = computed(residual_and_status, (mine, system, clock), (at["g0"], at["xi0"]))
        assert low <= residual <= high
        assert (status == 0) == (newton.max_iterations > 1)


def test_only_a_method_that_holds_the_next_step_is_not_composed():
    for name, entry in gn.methods.items():
        method = entry.make()
        if method.holds is NextStep:
            with pytest.raises(ValueError, match="cannot be composed"):
                gn.compose(method, (0.5, 0.5))
        else:
            assert gn.compose(method, (0.5, 0.5)).order >= method.order, name


def test_what_is_no_method_is_refused():
    for wrong in (gn.GNI, 3, object()):
        with pytest.raises(TypeError, match="method must be an integrator"):
            gn.solve(random_system("R3"), wrong, xi0=np.zeros(3), dt=0.1, n_steps=1)


def test_the_retraction_taken_when_none_is_named():
    """Cayley where the group has it, else exp."""
    assert type(gn.GNI().tau(random_system("SO3"))).__name__ == "Cayley"
    assert type(gn.GNI().tau(random_system("SL2"))).__name__ in ("Cayley", "Exponential")
    assert not GROUPS["R3"].has_cayley or type(gn.GNI().tau(random_system("R3"))).__name__ == "Cayley"
    assert type(gn.GNI(retraction="exp").tau(random_system("SO3"))).__name__ == "Exponential"


@pytest.mark.parametrize("bad", [{"rule": "simpson"}, {"retraction": "log"}, {"start": "guess"}])
def test_wrong_words_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gn.GNI(**bad)


# --- forces and controls, for every method -------------------------------------------------------------------
NOT_FORCED = ("variational", "rk4-energy")  # for systems without constraints; for systems that keep their energy
QUICK = ("gni", "rattle", "shake", "rkmk4", "projected")


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in gn.methods if n not in NOT_FORCED],
)
@pytest.mark.quick("gni", "rkmk4")
def test_forces_and_controls_are_of_full_order(name):
    system = forced("R3" if name == "shake" else "SO3")
    controls = lambda t: jnp.stack([jnp.sin(t), 0.0 * t, jnp.cos(t)])  # noqa: E731
    xi0 = system.project(None, [0.4, -0.2, 0.3])
    options = {"xi0": xi0, "controls": controls}
    method = gn.methods[name].make()
    if name == "feedback":
        method = Feedback({"group": 1.0, "constraint": 1.0}, "rk4")  # the energy is not kept
    exact = gn.mechanics.reference_trajectory(system, [0.0, 1.0], xi0, controls=controls)[1][-1]
    steps = (8, 16) if method.order > 1 else (64, 128)  # of order 1, with a small error beside that of order 2
    errors = [np.abs(gn.solve(system, method, dt=1 / n, n_steps=n, **options).xi[-1] - exact).max() for n in steps]
    assert errors[1] < 1e-10 or 0.6 * 2**method.order < errors[0] / errors[1] < 2.5 * 2**method.order


def test_a_general_lagrangian_is_taken_or_refused_in_words():
    taken = set()
    for name, entry in gn.methods.items():
        try:
            entry.make().refuse(general())
        except ValueError as refusal:
            refused = str(refusal)
        else:
            refused = ""
            taken.add(name)
        assert not refused or re.search("Lagrangian|quadratic|constraints|vector spaces|energy", refused)
    assert {"projected", "gni", "dla", "lobatto4", "gauss4", "rkmk4", "rk4"} <= taken


@pytest.mark.slow
def test_a_turn_past_half_a_turn_stops_every_kind_of_step():
    """A body that is spun up."""
    system = gn.System(SO3(), metric=np.ones(3), base="point", forces=lambda t, x, xi, u: jnp.array([0.0, 0.0, 20.0]))
    for method in (
        gn.SymmetricProjection(retraction="exp"),
        gn.RKMK(4, "exp"),
        gn.compose(gn.RKMK(4, "exp"), (0.5, 0.5)),
    ):
        run = gn.solve(system, method, xi0=np.zeros(3), dt=0.2, n_steps=100, throw=False)
        assert run.status is Result.CHART
        assert Translations(3).dim < len(run)


@pytest.mark.quick("rkmk4-cayley", "rkmk4-exp")
@pytest.mark.parametrize("retraction", ["cayley", "exp"])
@pytest.mark.parametrize("method", [gn.RKMK, gn.Gauss], ids=["rkmk4", "gauss4"])
def test_no_step_of_less_than_half_a_turn_is_too_long(method, retraction):
    """A step by Cayley was, from 1.4 and 2.2 rad on: its chart's coordinate is 2 tan(a/2), and not the angle a."""
    system = gn.System(SO3(), metric=np.ones(3), base="point", forces=lambda t, x, xi, u: jnp.array([0.0, 0.0, 1.0]))
    run = gn.solve(system, method(retraction=retraction), xi0=np.zeros(3), dt=0.2, n_steps=100, throw=False)
    assert run.status is Result.CHART
    assert 0.95 * np.pi < 0.2 * run.xi[-1, 2] < np.pi + 0.2**2


@pytest.mark.parametrize("method", ["lobatto4", "dla", "gauss4", "projected"])
@pytest.mark.quick("gauss4")
def test_units_do_not_matter(method):
    """A sphere of other masses and lengths turns alike; its unknowns then differ by many orders of magnitude."""

    def turned(mass, length):
        J = mass * length**2 * np.array([0.4, 0.5, 0.6])
        system = gn.systems.chaplygin_sphere(m=mass, r=length, J=J, table_rate=0.0)
        xi0 = system.project(None, [0.0, 0.0, 0.5, 0.3, -0.4])
        return gn.solve(system, method, xi0=xi0, dt=0.05, n_steps=60).g[1]

    wanted = turned(1.0, 1.0)
    for mass, length in ((1e-9, 1e-6), (1e-9, 1.0), (1e9, 1.0), (1e9, 1e6)):
        np.testing.assert_allclose(turned(mass, length), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["midpoint", "gauss4", "discrete-gradient", "itoh-abe"])
@pytest.mark.quick("gauss4")
def test_what_a_stiff_damper_held_moves_when_it_lets_go(method):
    """x moves, z swings, y is held by 1e8 N s/m for a second, then pulled by 1e-7 N: its Jacobian falls by 1e6."""
    pull, end = 1e-7, 200.0

    def forces(t, x, xi, u):
        return jnp.stack([0 * t, pull - jnp.where(t < 1, 1e8, 0.0) * xi[1], -jnp.sin(x[2])])

    system = gn.System(Translations(3), metric=[1.0, 1.0, 1.0], forces=forces)
    run = gn.solve(system, method, xi0=[1.0, 0.0, 1.0], dt=0.01, n_steps=int(end / 0.01))
    np.testing.assert_allclose(run.g[-1, 1], pull * (end - 1) ** 2 / 2, rtol=1e-10)


def test_a_guess_follows_the_last_solutions():
    """Exact for a septic, or a quintic with less rounding; where that leads far away, and from nothing, the last."""
    most, first = max(map(len, SMOOTH)), SMOOTH[0]
    k = np.arange(most + 1.0)
    quintic = np.stack([1 + 1e-5 * (k - 2) ** 5, 2 - 1e-5 * k**4], axis=1)
    septic = quintic + 1e-7 * (k[:, None] - 2) ** 7
    with float64():
        for past in (quintic, septic):
            np.testing.assert_allclose(continued(jnp.asarray(past[:-1])), past[-1], rtol=1e-13)
        coarse = np.round(1 + 0.1 * k[:, None], 1) + 1e-15 * np.random.default_rng(0).choice([-1, 1], (most + 1, 1))
        by_first = sum(w * z for w, z in zip(first, coarse[most - len(first) : -1], strict=True))
        np.testing.assert_array_equal(continued(jnp.asarray(coarse[:-1])), by_first)
        swings = jnp.asarray(np.cos(np.pi * k[:-1]))[:, None]
        np.testing.assert_array_equal(continued(swings), swings[-1])
        np.testing.assert_array_equal(continued(repeated(swings[0])), swings[0])
        np.testing.assert_array_equal(continued(jnp.zeros((most, 2))), np.zeros(2))
        np.testing.assert_array_equal(followed_by(jnp.asarray(past[:-1]), jnp.asarray(past[-1])), past[1:])

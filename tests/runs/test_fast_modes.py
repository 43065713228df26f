"""The warning of a step that is too long for the fastest mode at the start: what it says, and where it is silent."""

import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.bodies import Joint, Link, tree
from geonh.groups import SE2, SO3, Product, Torus, Translations
from geonh.systems import catalogue

QUICK = ("suslov", "heavy-top", "controlled-snakeboard")


def pulled(q, p):
    return 0.5 * p["k"] * q[0] ** 2


def damped(t, x, xi, u, p):
    return jnp.stack([-p["c"] * xi[0], 0.0, 0.0])


def edge(q):
    return jnp.array([[0.0, -1.0, 1.0]]) + jnp.sin(q[1]) * jnp.array([[0.0, 0.0, 1.0]])


def spring(k=1.0, c=0.0):
    """Spring k and damper c along an axis of R³, with a knife edge's constraint that turns with the place."""
    return gn.System(
        Translations(3),
        metric=[2.0, 2.0, 2.0],
        potential=pulled,
        forces=damped,
        distribution=gn.Distribution(edge),
        parameters={"k": k, "c": c},
        name="spring",
    )


def said(system, xi0, dt, method=None, **more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gn.solve(system, method, xi0=xi0, dt=dt, n_steps=2, throw=False, **more)
    return [str(w.message) for w in caught if "fastest mode" in str(w.message)]


@pytest.mark.parametrize(
    "method", ["gauss4", "projected", "gni", "lobatto4", "rkmk4", "discrete-gradient", "dla", "rk4"]
)
@pytest.mark.parametrize("turn", [2.5, 40.0, 3000.0])
@pytest.mark.quick("3000.0-gni", "3000.0-rkmk4", "2.5-rkmk4", "2.5-gni")
def test_the_angle_is_that_of_the_spring(method, turn):
    k, dt = 8e4, turn / 200.0
    (text,) = said(spring(k), [1.0, 1.0, 1.0], dt, method)
    told = float(re.search(r"by ([\d.e+]+) rad a step", text)[1])
    assert told == pytest.approx(turn, rel=0.02)


@pytest.mark.parametrize("turn", [0.01, 1.0, 1.8])
def test_nothing_is_said_of_a_step_that_follows(turn):
    assert said(spring(8e4), [1.0, 1.0, 1.0], turn / 200.0) == []


def test_what_decays_too_fast_is_told_as_that():
    (text,) = said(spring(0.0, 1e4), [1.0, 1.0, 1.0], 1e-2)
    told = re.search(r"makes the fastest mode of spring decay by a factor of e\^([\d.]+) a step", text)
    assert float(told[1]) == pytest.approx(50.0, rel=0.02)
    (text,) = said(spring(-8e4), [1.0, 1.0, 1.0], 0.1)
    assert float(re.search(r"grow by a factor of e\^([\d.]+) a step", text)[1]) == pytest.approx(20.0, rel=0.02)


def springs(x, p):
    return 0.5 * jnp.sum(p["k"] * x * x)


@pytest.mark.parametrize("drift", [None, [0.0, 0.2, 0.0]])
@pytest.mark.parametrize("frame", [np.eye(3)[:1], np.eye(3)[:2], np.eye(5)[:2], np.eye(5)[:3]])
@pytest.mark.quick("frame0-drift1")
def test_frames_are_taken_for_what_they_span(frame, drift):
    """Along D a stiff spring counts, across it does not; a frame of one was once taken for a form."""
    n = frame.shape[1]
    if drift is None:
        distribution = gn.Distribution(frame=frame)
    else:
        distribution = gn.AffineDistribution(frame=frame, drift=np.pad(drift, (0, n - 3)))

    def told(k):
        system = gn.System(
            Translations(n),
            metric=np.ones(n),
            potential=springs,
            distribution=distribution,
            parameters={"k": k},
        )
        return said(system, system.project(None, 0.1 * np.eye(n)[0]), 0.1)

    (text,) = told(np.array([1e4] + [1.0] * (n - 1)))
    assert float(re.search(r"by ([\d.e+]+) rad a step", text)[1]) == pytest.approx(10.0, rel=0.02)
    assert told(np.array([1.0] * (n - 1) + [1e4])) == []


def test_nearly_parallel_forms_are_no_reason_to_stop():
    def rows(x):
        return jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1e-8]]) + x[1] * jnp.array([[0.0, 1.0, 0.0]])

    system = gn.System(
        Translations(3),
        metric=[1.0, 2, 3],
        potential=lambda x: 0.5 * x @ x,
        distribution=gn.Distribution(rows),
    )
    assert said(system, [-0.2, 0.4, 0.0], 0.02, g0=[0.1, 0.5, -0.2]) == []


def test_springs_across_the_constraint_do_not_count():
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        potential=lambda q: 0.5e6 * (q[0] - q[1]) ** 2,
        distribution=gn.Distribution(lambda q: jnp.array([[1.0, -1.0]])),
    )
    assert said(system, [1.0, 1.0], 0.1) == []


def test_angles_in_degrees_and_times_in_milliseconds():
    pendulum = gn.System(
        Product((SE2(), Torus(1))),
        metric=[1.0, 1.0, 1.0, 1.0],
        potential=lambda x: -9.81 * 180 / jnp.pi * jnp.cos(180 / jnp.pi * x[1][0]),
        name="pendulum",
    )
    (text,) = said(pendulum, [0.0, 0.0, 0.0, 1.0], 0.05)
    assert "turns the fastest mode of pendulum" in text
    assert "one set of units" in text


def test_relative_coordinates_of_a_chain_are_no_reason_to_warn():
    """Momenta of relative coordinates change faster with the place than the motion does."""
    links = [
        Link(
            f"l{i}",
            1.0,
            (0, 0, -0.5),
            (0.1, 0.12, 0.02),
            f"l{i - 1}" if i else "",
            Joint("spherical", place=(0, 0, -1)),
        )
        for i in range(6)
    ]
    assert said(tree(links), 0.5 * np.sin(np.arange(18) + 1.0), 0.005, "rkmk4") == []


@pytest.mark.slow
def test_long_steps_of_a_slow_system_are_silent():
    entry = catalogue["whipple-bicycle"]
    system = entry.system()
    start = entry.start(system)
    assert said(system, start.xi0, 5.0, g0=start.g0)


def test_it_is_said_once_for_the_same_system_step_and_parameters():
    system = spring(8e4)
    assert len(said(system, [1.0, 1.0, 1.0], 0.1234)) == 1
    assert said(system, [1.0, 1.0, 1.0], 0.1234) == []
    assert len(said(spring(9e4), [1.0, 1.0, 1.0], 0.1234)) == 1


def test_what_spins_freely_has_no_fast_mode():
    system = gn.System(SO3(), metric=[1.0, 1.0, 1.0])
    assert said(system, [0.0, 0.0, 2.9], 1.0) == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.quick("0")
def test_random_systems_by_their_linear_equations(seed):
    """At an equilibrium the told angle is that of ``analysis.linearise``."""
    rng = np.random.default_rng(seed)
    group = (Translations(4), SO3(), SE2(), Product((SE2(), Torus(1))))[seed % 4]
    n = group.dim
    B, mu = rng.normal(size=(n, n)), rng.normal(size=(1, n))
    root = rng.normal(size=(n, n))
    system = gn.System(
        group,
        metric=B @ B.T + n * np.eye(n),
        potential=lambda x: 50 * jnp.sum((root @ group.log(x)) ** 2),
        distribution=gn.Distribution(lambda x: jnp.asarray(mu) * (1 + 0 * jnp.sum(group.to_vector(x)))),
    )
    fastest = np.abs(gn.analysis.linearise(system, None, np.zeros(n)).eigenvalues).max()
    (text,) = said(system, np.zeros(n), 5.0 / fastest)
    assert float(re.search(r"by ([\d.e+]+) rad a step", text)[1]) == pytest.approx(5.0, rel=1e-2)


@pytest.mark.quick("suslov")
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in catalogue])
def test_the_catalogue_is_silent(name):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    assert said(system, start.xi0, entry.dt, g0=start.g0, controls=entry.controls) == []


def test_parameters_and_steps_that_differ_by_less_than_a_tenth_are_looked_at_once():
    """A scan of parameters looks at those that are new; smaller steps of the same system are new too."""
    assert said(spring(3e2), [1.0, 1.0, 1.0], 1e-2, "rkmk4") == []
    assert said(spring(3.1e2), [1.0, 1.0, 1.0], 1e-2, "rkmk4") == []
    assert len(said(spring(3e5), [1.0, 1.0, 1.0], 1e-2, "rkmk4")) == 1
    assert said(spring(3.1e5), [1.0, 1.0, 1.0], 1e-2, "rkmk4") == []
    assert len(said(spring(3e5), [1.0, 1.0, 1.0], 8e-3, "rkmk4")) == 1

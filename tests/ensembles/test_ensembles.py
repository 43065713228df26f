"""Ensembles: each member is its own run, failures are masked, input that does not fit is named."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine.compiled import EngineWarning
from geonh.ensembles import solving
from geonh.groups import SO3, Translations
from geonh.integrators.validity import Result
from geonh.systems import catalogue


def inertia(x, p):
    return jnp.diag(jnp.asarray(p["J"]))


def weight(x, p):
    return p["weight"] * x[2, 2]


def form(x):
    return [[0.2, x[0, 1], 1.0]]


def top(J=(1.0, 1.4, 2.0), m=0.5):
    return gn.System(
        SO3(),
        metric=inertia,
        potential=weight,
        distribution=gn.Distribution(form),
        parameters={"J": list(J), "weight": m},
    )


def starts(system, n, seed=0):
    rng = np.random.default_rng(seed)
    g0 = np.stack([np.asarray(system.group.exp(v)) for v in rng.normal(size=(n, 3))])
    return g0, np.stack([system.project(g, v) for g, v in zip(g0, rng.normal(size=(n, 3)), strict=True)])


@pytest.mark.parametrize("method", ["projected", "gni", "gauss4"])
@pytest.mark.filterwarnings("ignore::geonh.results.parasitic.AlternationWarning")
@pytest.mark.quick("gni")
def test_each_member_has_the_bits_of_its_own_run(method):
    system, n = top(), 11
    g0, xi0 = starts(system, n)
    rng = np.random.default_rng(3)
    parameters = {"J": 1 + rng.random((n, 3)), "weight": rng.random(n)}
    dt, t0 = 0.01 + 0.01 * rng.random(n), rng.random(n)
    runs = gn.solve_ensemble(
        system, method, g0=g0, xi0=xi0, parameters=parameters, dt=dt, t0=t0, n_steps=60, save_every=20, threads=2
    )
    assert runs.success.all()
    assert runs.g.shape == (n, 4, 3, 3)
    for i in range(n):
        own = top(parameters["J"][i], parameters["weight"][i])
        one = gn.solve(own, method, g0=g0[i], xi0=xi0[i], dt=dt[i], t0=t0[i], n_steps=60, save_every=20)
        np.testing.assert_array_equal(runs.g_vector[i], one.g_vector)
        np.testing.assert_array_equal(runs.p_minus[i], one.p_minus)
        np.testing.assert_array_equal(runs.t[i], one.t)
        np.testing.assert_array_equal(runs[i].p_plus, one.p_plus)
        for name in ("xi", "energy", "multipliers", "constraint_residual", "alternation"):
            np.testing.assert_allclose(getattr(runs, name)[i], getattr(one, name), rtol=0, atol=1e-14)


@pytest.mark.slow
def test_products():
    entry = catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    m, J = [1.0, 1.5], np.array([[0.5, 0.6, 0.8], [0.6, 0.6, 0.8], [0.7, 0.6, 0.8]])
    runs = gn.solve_ensemble(
        system,
        g0=start.g0,
        xi0=start.xi0,
        parameters={"m": m, "J": J, "r": 1.0},
        dt=0.02,
        n_steps=20,
        combine="product",
    )
    assert runs.batch.shape == {"m": 2, "J": 3}
    np.testing.assert_array_equal(runs.parameters["m"].reshape(2, 3), np.repeat(m, 3).reshape(2, 3))
    np.testing.assert_array_equal(runs.parameters["J"].reshape(2, 3, 3), np.stack([J, J]))
    one = gn.solve(entry.system(m=1.5, J=tuple(J[2])), g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=20, save_every=20)
    np.testing.assert_array_equal(runs.g_vector[5], one.g_vector)
    table = runs.to_xarray()
    assert table.g.dims == ("member", "time", "coordinate")
    assert table.sizes["member"] == 6
    np.testing.assert_array_equal(table.m, runs.parameters["m"])
    assert table.time.attrs["units"] == "s"


def escaping():
    """A particle whose force is nan beyond x = 1."""
    return gn.System(
        Translations(2),
        metric=np.eye(2),
        forces=lambda t, x, xi, u: jnp.where(x[0] > 1, jnp.nan, 0.0) * jnp.ones(2),
        distribution=gn.Distribution([[0.0, 1.0]]),
    )


def test_failures_are_masked_with_their_time_and_reason():
    system, speeds = escaping(), np.array([0.1, 3.0, 0.2, 0.5, -1.0])
    xi0 = np.stack([speeds, np.array([0.0, 0.0, 0.0, 1.0, 0.0])], axis=1)
    runs = gn.solve_ensemble(system, "rk4", xi0=xi0, dt=0.1, n_steps=20, save_every=1)
    np.testing.assert_array_equal(runs.success, [True, False, True, False, True])
    assert runs.status[1] == Result.NOT_FINITE
    assert runs.status[3] == Result.START
    assert "not finite at t = 0.3" in runs.message(1)
    assert "does not satisfy the constraints" in runs.message(3)
    assert np.isnan(runs.g_vector[1, 4:]).all()
    assert np.isfinite(runs.g_vector[1, :4]).all()
    assert np.isnan(runs.g_vector[3]).all()
    np.testing.assert_allclose(runs.g_vector[2, :, 0], 0.2 * runs.t[2], atol=1e-15)
    assert len(runs[1]) == 4
    with pytest.raises(ValueError, match="did not start"):
        runs[3]
    assert "member 1" in str(runs.to_xarray().reason.values[1])
    with pytest.raises(ValueError, match="no member has a valid start"):
        gn.solve_ensemble(system, "rk4", xi0=xi0[3:4], dt=0.1, n_steps=4)


@pytest.mark.slow
def test_what_the_engine_has_no_code_for_is_run_by_xla():
    system = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x: jnp.sum(jnp.linalg.svd(jnp.outer(x, x) + jnp.eye(2), compute_uv=False)),
    )
    xi0 = np.array([[0.1, 0.2], [0.3, -0.1]])
    with pytest.warns(EngineWarning):
        runs = gn.solve_ensemble(system, "rk4", g0=[0.4, 0.3], xi0=xi0, dt=0.1, n_steps=6, save_every=3)
    one = gn.solve(system, "rk4", g0=[0.4, 0.3], xi0=xi0[1], dt=0.1, n_steps=6, save_every=3)
    assert runs.engine == "XLA"
    np.testing.assert_array_equal(runs.g_vector[1], one.g_vector)


def test_progress_and_interrupts(monkeypatch):
    monkeypatch.setattr(solving, "FIRST", 8)
    monkeypatch.setattr(solving, "SECONDS", 0.0)
    system, warned = escaping(), []
    xi0 = np.stack([np.linspace(0, 0.1, 20), np.zeros(20)], axis=1)
    xi0[12, 1] = 1.0
    runs = gn.solve_ensemble(system, "rk4", xi0=xi0, dt=0.1, n_steps=4, progress=lambda *at: warned.append(at))
    assert warned == [(8, 20), (16, 20), (20, 20)]
    assert np.flatnonzero(runs.status).tolist() == [12]
    assert "member 12 did not start" in runs.message(12)
    assert runs.to_xarray().status.attrs["flag_meanings"].split()[runs.status[12]] == "start"

    def stop(done, total):
        raise KeyboardInterrupt

    runs = gn.solve_ensemble(system, "rk4", xi0=xi0, dt=0.1, n_steps=4, progress=stop)
    np.testing.assert_array_equal(runs.status[:8], 0)
    np.testing.assert_array_equal(runs.status[8:], Result.INTERRUPTED)
    assert np.isnan(runs.g_vector[8:, 1]).all()


JUNK = {
    "nothing differs": ({"xi0": [0.1, 0.0]}, "nothing differs"),
    "shape": ({"xi0": np.zeros((2, 3))}, r"xi0 must have shape \[2\]"),
    "g0": ({"g0": np.zeros((3, 3)), "xi0": [0.1, 0.0]}, r"g0 must have shape \[2\]"),
    "lengths": ({"dt": [0.1, 0.2, 0.3]}, "must have as many members .*combine='product'"),
    "dt": ({"dt": [0.1, 0.0]}, "member 1: the time does not advance"),
    "parameter": ({"parameters": {"mass": [1.0, 2.0]}}, "has no 'mass'"),
    "parameters": ({"parameters": [1.0, 2.0]}, "parameters must be a mapping"),
    "combine": ({"combine": "outer"}, "combine must be one of"),
    "save_every": ({"save_every": 3}, "save_every must divide"),
    "threads": ({"threads": 0}, "threads must be a positive integer"),
    "progress": ({"progress": 1.5}, "progress must be"),
    "precision": ({"xi0": np.zeros((2, 2), np.float32)}, "float32"),
    "steps": ({"n_steps": 10**18}, "n_steps must be"),
}


@pytest.mark.parametrize("name", JUNK)
def test_what_does_not_fit_is_named(name):
    change, text = JUNK[name]
    good = {"xi0": np.array([[0.1, 0.0], [0.2, 0.0]]), "dt": 0.1, "n_steps": 4}
    with pytest.raises((TypeError, ValueError), match=text):
        gn.solve_ensemble(escaping(), "rk4", **{**good, **change})


def test_an_endless_iterator_is_no_point_of_a_product():
    with pytest.raises(ValueError, match=r"g0 must be a point of SE\(2\) × T², .* got <itertools.cycle"):
        gn.solve_ensemble(gn.systems.snakeboard(), xi0=np.zeros((2, 5)), g0=itertools.cycle([0.1]), dt=0.1, n_steps=2)


@pytest.mark.parametrize(
    ("n_steps", "kept", "text"),
    [
        (10**12, {}, "nodes"),
        (10**12, {"observables": (), "statistics": [gn.ensembles.Quantiles("energy")]}, "statistics"),
        (4, {"events": gn.Event(lambda t, g, xi, lam: g[0], name="there"), "most_events": 10**12}, "events"),
    ],
)
def test_memory_is_looked_at_before_the_first_step(n_steps, kept, text):
    with pytest.raises(MemoryError, match=rf"{text} \d+.*raise save_every"):
        gn.solve_ensemble(escaping(), "rk4", xi0=np.zeros((2, 2)), dt=1e-3, n_steps=n_steps, save_every=1, **kept)


@pytest.mark.slow
def test_an_ensemble_says_how_its_members_ended():
    sleigh = gn.systems.chaplygin_sleigh()
    turned = gn.Event(lambda t, g, xi, lam: g[0] - 0.5, name="turned", stop=True)
    starts = np.array([[0.8, 0.5, 0.0], [0.01, 0.5, 0.0]])
    runs = gn.solve_ensemble(sleigh, xi0=starts, dt=0.01, n_steps=100, events=turned)
    assert repr(runs).endswith("; 1 stopped at an event")
    alone = gn.solve(sleigh, xi0=starts[0], dt=0.01, n_steps=100, events=turned)
    assert runs[0].message == alone.message
    assert runs.message(0) == f"member 0: stopped at an event, 'turned', at t = {alone.events['turned'].t[0]:.6g}"
    np.testing.assert_array_equal(runs[0].events["turned"].g, alone.events["turned"].g)
    assert len(runs[1].events["turned"].t) == 0
    assert repr(gn.solve_ensemble(sleigh, xi0=starts, dt=0.01, n_steps=10)).endswith("; all reached the end")


@pytest.mark.slow
def test_events_of_members_have_the_names_of_a_section():
    sleigh = gn.systems.chaplygin_sleigh()
    turned = gn.Event(lambda t, g, xi, lam: jnp.cos(8 * g[0]), name="turned")
    starts = np.array([[0.8, 0.5, 0.0], [0.01, 0.5, 0.0]])
    options = {"dt": 0.01, "n_steps": 100, "events": turned}
    passed = gn.solve_ensemble(sleigh, xi0=starts, most_events=2, **options).events["turned"]
    section = gn.solve(sleigh, xi0=starts[0], **options).events["turned"]
    assert len(section) == 2
    assert (passed.point_names, passed.velocity_names) == (section.point_names, section.velocity_names)
    np.testing.assert_array_equal(passed.g[0], section.g)
    for name in (*section.point_names, *section.velocity_names):
        np.testing.assert_array_equal(passed.values(name)[0], section.values(name))
    with pytest.raises(ValueError, match="name 'z' is none of"):
        passed.values("z")
    t = section.t[0]
    warned = f"Passed: an event in 1 of 2 members, 2 times, up to 2 kept of each, first at t = {t:.6g} to {t:.6g}"
    assert (len(passed), repr(passed)) == (2, warned)


@pytest.mark.slow
def test_members_are_projected_as_systems_project():
    """Off a circle whose normals turn on the way; a member without a circle does not start."""
    bead = gn.System(
        gn.groups.Translations(2),
        metric=[1.0, 3.0],
        holonomic=lambda x, p: jnp.array([x @ x - p["c"]]),
        parameters={"c": 1.0},
        name="bead",
    )
    c, g0, xi0 = np.array([0.9, 1.1, -1.0]), [0.6, 0.8], [0.3, 0.1]
    many = gn.solve_ensemble(
        bead, "rkmk4", g0=g0, xi0=xi0, parameters={"c": c}, project=True, dt=0.1, n_steps=1, save_every=1
    )
    assert many.status.tolist() == [0, 0, Result.START]
    for i in (0, 1):
        own = bead.with_parameters(c=c[i])
        g, xi = own.project(g0, xi0)
        np.testing.assert_array_equal(many.g[i, 0], g)
        run = gn.solve(own, "rkmk4", g0=g, xi0=xi, dt=0.1, n_steps=1)
        np.testing.assert_array_equal(many.g[i], run.g)
        np.testing.assert_array_equal(many.p_plus[i], run.p_plus)


@pytest.mark.slow
def test_a_parameter_may_be_a_network_with_functions_in_it():
    """A module of Equinox with activation functions is common to all members."""
    with gn.float64():
        net = eqx.nn.MLP(1, 1, 4, 1, key=jax.random.PRNGKey(0), dtype=float)

    def blade(x, p):
        angle = p["net"](x[:1])[0]
        return jnp.stack([-jnp.sin(angle), jnp.cos(angle)])[None]

    system = gn.System(Translations(2), metric=[1.0, 1.0], distribution=gn.Distribution(blade), parameters={"net": net})
    xi0 = np.array([system.project(None, [speed, 0.0]) for speed in (1.0, 2.0)])
    runs = gn.solve_ensemble(system, xi0=xi0, dt=0.01, n_steps=20)
    for i in range(2):
        np.testing.assert_array_equal(runs.g[i, -1], gn.solve(system, xi0=xi0[i], dt=0.01, n_steps=20).g[-1])

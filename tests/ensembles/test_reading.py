"""What is read of an ensemble on the way: observables, statistics, events, drawn members, controls of each."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.ensembles import Extrema, Histogram, Mean, Near, Quantiles, Sweep, solving, steps
from geonh.ensembles.draws import uniforms
from geonh.ensembles.statistics import KINDS, statistic_from_data
from geonh.groups import SO3, Translations
from geonh.integrators.validity import Result
from geonh.mechanics.system import FirstIntegral


def well(**more):
    """A particle in a well whose stiffness is a parameter, that moves on lines of constant slope."""
    return gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x, p: p["k"] * jnp.sum(x**2) / 2,
        distribution=gn.Distribution([[-0.5, 1.0]]),
        parameters={"k": 1.0},
        first_integrals={"slope": FirstIntegral(lambda g, xi, p, parameters: g[1] - 0.5 * g[0])},
        **more,
    )


def height(t, g, xi, lam, p):
    return p["k"] * g[1] ** 2 + t


STARTS = {
    "g0": np.stack([np.linspace(0.3, 1.0, 70), np.linspace(0.15, 0.5, 70)], axis=1),
    "xi0": np.zeros(2),
    "parameters": {"k": np.linspace(1.0, 4.0, 70)},
    "dt": 0.05,
}


def made(kind, edges=(0, 1, 2), **options):
    """A statistic of a kind."""
    return KINDS[kind]("x", *([edges] if kind == "Histogram" else []), **options)


def small_pieces(monkeypatch):
    monkeypatch.setattr(solving, "FIRST", 16)
    monkeypatch.setattr(solving, "SECONDS", 0.0)
    monkeypatch.setattr(steps, "PIECE", 3 * 8 * 7 * 16)


def test_observables_are_those_of_the_nodes(monkeypatch):
    system, run = well(), {"n_steps": 20, "save_every": 2}
    nodes = gn.solve_ensemble(system, "rk4", **STARTS, **run)
    wanted = {"energy": "energy", "slope": "slope", "xi": "xi", "height": height}
    small_pieces(monkeypatch)
    kept = gn.solve_ensemble(system, "rk4", **STARTS, **run, observables=wanted)
    np.testing.assert_array_equal(kept.energy, nodes.energy)
    np.testing.assert_array_equal(kept.xi, nodes.xi)
    np.testing.assert_array_equal(kept.kept["slope"], nodes.observables["integral:slope"])
    expected = nodes.parameters["k"][:, None] * nodes.g_vector[..., 1] ** 2 + nodes.t
    np.testing.assert_allclose(kept.kept["height"], expected, rtol=1e-15)
    assert set(kept.kept) == set(wanted)
    with pytest.raises(AttributeError, match="name g, p_plus, p_minus in observables="):
        _ = kept.g_vector
    table = kept.to_xarray()
    assert table.xi.dims == ("member", "time", "component")
    assert {"k", "reason", "time"} <= set(table.coords)


def test_statistics_are_those_of_all_values_whatever_the_pieces(monkeypatch):
    system, run = well(), {"n_steps": 24, "save_every": 2}
    nodes = gn.solve_ensemble(system, "rk4", **STARTS, **run)
    edges = np.linspace(0.1, 1.5, 9)
    wanted = [
        *(kind(of, over=over) for kind in (Mean, Extrema) for of in ("energy", "xi") for over in ("members", "time")),
        Quantiles("energy", (0.1, 0.5)),
        Histogram("energy", edges),
        Histogram(height, edges, over="time"),
    ]
    found = gn.solve_ensemble(system, "rk4", **STARTS, **run, observables=(), statistics=wanted).statistics
    small_pieces(monkeypatch)
    runs = gn.solve_ensemble(system, "rk4", **STARTS, **run, observables=(), statistics=wanted)
    again, table = runs.statistics, runs.to_xarray()
    for name in found:
        np.testing.assert_array_equal(found[name], again[name], err_msg=name)
    for name, values in (("energy", nodes.energy), ("xi", nodes.xi)):
        for axis, end in ((0, ""), (1, " over time")):
            np.testing.assert_allclose(found[f"{name}:mean{end}"], values.mean(axis=axis), rtol=0, atol=1e-14)
            np.testing.assert_allclose(found[f"{name}:std{end}"], values.std(axis=axis), rtol=1e-12, atol=1e-15)
            np.testing.assert_array_equal(found[f"{name}:min{end}"], values.min(axis=axis))
            np.testing.assert_array_equal(found[f"{name}:max{end}"], values.max(axis=axis))
    np.testing.assert_array_equal(found["energy:quantile"], np.quantile(nodes.energy, (0.1, 0.5), axis=0).T)
    counts = np.stack([np.histogram(values[values < edges[-1]], edges)[0] for values in nodes.energy.T])
    np.testing.assert_array_equal(found["energy:counts"], counts)
    np.testing.assert_array_equal(
        table["energy:quantile"].sel({"quantile of energy": 0.5}), np.median(nodes.energy, axis=0)
    )
    np.testing.assert_allclose(table["counts over time of height"], (edges[1:] + edges[:-1]) / 2)
    total = found["height:counts over time"].sum(axis=1) + found["height:below over time"]
    np.testing.assert_array_equal(total + found["height:above over time"], 13)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_statistics_of_parts_are_those_of_the_whole(n, m, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(1e6, 1.0, (n + m, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    edges = np.sort(rng.normal(1e6, 1.0, 5))
    for one in (*(made(kind, edges) for kind in KINDS), Quantiles("x", (0.3,)), Quantiles("x", sample=9)):
        statistic = statistic_from_data(one.as_data())
        whole = statistic.initial(0, n + m, 3, ())
        statistic.update(whole, values, 0, 0, 0)
        parts = []
        for start, part in ((0, values[:n]), (n, values[n:])):
            known = statistic.initial(start, len(part), 3, ())
            statistic.update(known, part[:, :2], start, 0, 0)
            statistic.update(known, part[:, 2:], start, 0, 2)
            parts.append(known)
        told, joined = statistic.results(whole), statistic.results(statistic.merge(*parts))
        for name in told:
            tolerance = 1e-9 if isinstance(one, Mean) else 0
            np.testing.assert_allclose(joined[name], told[name], rtol=tolerance, atol=tolerance, err_msg=name)
    exact = np.nanmean(values[:, 0] - 1e6) + 1e6 if np.isfinite(values[:, 0]).any() else np.nan
    whole = Mean("x").initial(0, n + m, 3, ())
    Mean("x").update(whole, values, 0, 0, 0)
    np.testing.assert_allclose(Mean("x").results(whole)["mean"][0], exact, rtol=1e-14)


def test_what_is_infinite_is_left_out_of_means_and_counted_at_the_ends():
    values = np.array([[-np.inf, 1.0, np.nan, 3.0, np.inf]])
    mean, counts = Mean("x", over="time"), Histogram("x", [0.0, 2.0], over="time")
    for statistic in (mean, counts):
        known = statistic.initial(0, 1, 5, ())
        for node in range(5):
            statistic.update(known, values[:, node : node + 1], 0, 0, node)
        found = statistic.results(known)
        for name, value in (
            {"mean": 2, "std": 1, "count": 2} if statistic is mean else {"below": 1, "above": 2}
        ).items():
            np.testing.assert_array_equal(found[name], [value])


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_those_of_the_states(kind):
    over = ("members",) if kind == "Quantiles" else ("members", "time")
    more = [Quantiles("x", sample=9)] if kind == "Quantiles" else []
    for statistic in (*(made(kind, over=one) for one in over), *more):
        for n, shape in ((5, ()), (40, () if isinstance(statistic, Histogram) else (3, 2))):
            state = statistic.initial(7, n, 11, shape)
            assert statistic.size(n, 11, shape) == sum(a.size for a in state.values())


def test_a_sample_has_the_quantiles_of_all_to_its_promised_error():
    values = np.random.default_rng(0).normal(size=(40_000, 1))
    statistic = Quantiles("x", (0.05, 0.5, 0.95), sample=4000)
    known = statistic.initial(0, len(values), 1, ())
    statistic.update(known, values, 0, 0, 0)
    below = (values < statistic.results(known)["quantile"]).mean(axis=0)
    error = np.abs(below - statistic.q) / np.sqrt(np.array(statistic.q) * (1 - np.array(statistic.q)) / 4000)
    assert error.max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("stop", [False, True])
def test_events_are_those_of_each_run(monkeypatch, stop):
    small_pieces(monkeypatch)
    events = [
        gn.Event(lambda t, g, xi, lam: g[0], direction=-1, name="down"),
        gn.Event(lambda t, g, xi, lam: g[1] + 0.1, stop=stop, name="low"),
    ]
    runs = gn.solve_ensemble(well(), "rk4", **STARTS, n_steps=120, save_every=40, events=events, most_events=2)
    for i in (0, 33, 69):
        own = gn.solve(
            gn.System(
                Translations(2),
                metric=np.eye(2),
                potential=lambda x, p: p["k"] * jnp.sum(x**2) / 2,
                distribution=gn.Distribution([[-0.5, 1.0]]),
                parameters={"k": STARTS["parameters"]["k"][i]},
            ),
            "rk4",
            g0=STARTS["g0"][i],
            xi0=STARTS["xi0"],
            dt=0.05,
            n_steps=120,
            events=events,
        )
        for name, passed in runs.events.items():
            section = own.events[name]
            assert passed.number[i] == len(section)
            n = min(len(section), 2)
            np.testing.assert_allclose(passed.t[i, :n], section.t[:n], rtol=0, atol=1e-12)
            np.testing.assert_allclose(passed.xi[i, :n], section.xi[:n], rtol=0, atol=1e-12)
            np.testing.assert_allclose(passed.multipliers[i, :n], section.multipliers[:n], rtol=0, atol=1e-11)
            assert np.isnan(passed.t[i, n:]).all()
        assert runs.n_steps[i] == own.k[-1]
        assert runs.status[i] == own.status
        assert runs.success[i]
    if stop:
        assert (runs.status == Result.EVENT).any()
        assert np.isnan(runs.g_vector[runs.status == Result.EVENT, -1]).all()


@pytest.mark.slow
def test_controls_of_each_member():
    system = gn.System(
        Translations(2), metric=np.eye(2), forces=lambda t, x, xi, u: u, distribution=gn.Distribution([[0.0, 1.0]])
    )
    u = np.random.default_rng(5).normal(size=(3, 31, 2))
    event = gn.Event(lambda t, g, xi, lam: g[0] - 0.1, name="there")
    runs = gn.solve_ensemble(
        system, "gni", xi0=[0.3, 0.0], dt=0.02, n_steps=30, controls=u, save_every=10, events=event
    )
    assert runs.batch.varied == ("controls",)
    for i in range(3):
        one = gn.solve(system, "gni", xi0=[0.3, 0.0], dt=0.02, n_steps=30, controls=u[i], save_every=10, events=event)
        np.testing.assert_array_equal(runs.g_vector[i], one.g_vector)
        np.testing.assert_allclose(runs.multipliers[i], one.multipliers, rtol=0, atol=1e-14)
        np.testing.assert_allclose(runs.events["there"].t[i, :1], one.events["there"].t[:1], atol=1e-13)
        np.testing.assert_array_equal(runs[i].p_plus, one.p_plus)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 3000), st.integers(1, 5))
def test_what_a_member_draws_depends_on_its_number_alone(start, size, width):
    whole = uniforms(7, "m", 0, start + size, width)
    np.testing.assert_array_equal(uniforms(7, "m", start, start + size, width), whole[start:])
    assert not np.array_equal(uniforms(8, "m", start, start + size, width), whole[start:])


def test_draws_have_their_distribution():
    u = uniforms(1, "m", 0, 20_000, 2)
    assert scipy.stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u.T)[0, 1]) < 0.03
    system = gn.System(
        SO3(),
        metric=lambda x, p: jnp.diag(jnp.asarray(p["J"])),
        distribution=gn.Distribution(lambda x: [[0.2, x[0, 1], 1.0]]),
        parameters={"J": [1.0, 1.4, 2.0]},
    )
    near = np.asarray(system.group.exp(np.array([0.1, 0.2, 0.3])))
    runs = gn.solve_ensemble(
        system,
        "rk4",
        g0=Near(near, scipy.stats.norm(0, 0.1)),
        xi0=scipy.stats.norm([1, 0, 0], 0.5),
        parameters={"J": scipy.stats.uniform([1, 1.4, 2], 0.3)},
        members=200,
        seed=3,
        project=True,
        dt=0.01,
        n_steps=2,
    )
    assert runs.success.all()
    assert np.abs(runs.constraint_residual[:, 0]).max() < 1e-13
    J = np.stack(runs.batch.members.parameters["J"], axis=1)
    assert scipy.stats.kstest((J - [1, 1.4, 2]).ravel() / 0.3, "uniform").pvalue > 1e-3
    gap = runs.g_vector[:, 0].reshape(-1, 3, 3) - near
    assert 0.02 < np.abs(gap).mean() < 0.2


JUNK = {
    "no such observable": ({"observables": ["speed"]}, "has no observable 'speed'"),
    "text": ({"observables": "energy"}, "observables must be names"),
    "arguments": ({"observables": {"h": lambda x: x}}, r"observables\['h'\] takes"),
    "statistic": ({"statistics": ["mean"]}, "statistics must be statistics such as Mean"),
    "members": ({"members": 4}, "give a distribution"),
    "how many": ({"parameters": {"k": scipy.stats.norm(1, 0.1)}}, "say how many members="),
    "shape": ({"xi0": scipy.stats.norm([1, 2, 3], 1), "members": 4}, "numbers of shape"),
    "together": ({"xi0": scipy.stats.multivariate_normal([0, 0]), "members": 4}, "with a ppf or icdf for each number"),
    "histogram": ({"statistics": [Histogram("xi", [0, 1])]}, "a histogram is of one"),
    "sparse observables": ({"observables": scipy.sparse.eye(2)}, "observables must be names"),
    "a view of statistics": ({"statistics": memoryview(np.eye(2))}, "statistics must be a list of statistics"),
    "sparse events": ({"events": scipy.sparse.eye(2)}, "events must be Event"),
    "steps that last": ({"n_steps": np.timedelta64(4, "s")}, "n_steps must be an integer"),
}


@pytest.mark.parametrize("name", JUNK)
def test_what_does_not_fit_is_named(name):
    change, text = JUNK[name]
    with pytest.raises((TypeError, ValueError), match=text):
        gn.solve_ensemble(well(), "rk4", **{**STARTS, "n_steps": 4, **change})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Mean(lambda t, g, xi, lam: t), "a function with a name"),
        (lambda: Mean("energy", over="space"), "over must be one of"),
        (lambda: Quantiles("energy", (1.5,)), "between 0 and 1"),
        (lambda: Quantiles("energy", over="time"), "over the members"),
        (lambda: Histogram("energy", [1, 0]), "increasing"),
    ],
)
def test_statistics_that_are_none(make, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make()


def named(name, function):
    function.__name__ = name
    return function


ONCE = {"xi0": np.array([[0.2, 0.1], [0.4, 0.2]]), "dt": 0.1, "n_steps": 2}
ENERGY = named("energy", lambda t, g, xi, lam: xi @ xi)
SPEED = named("speed", lambda t, g, xi, lam: 2 * xi @ xi)


@pytest.mark.parametrize(
    ("read", "words"),
    {
        "functions": ({"observables": {"speed": ENERGY}, "statistics": [Mean(SPEED)]}, "two things"),
        "an observable": ({"observables": ["energy"], "statistics": [Mean(ENERGY)]}, "two things"),
        "histograms": ({"statistics": [Histogram("energy", edges=[0, i]) for i in (1, 2)]}, "there twice"),
        "quantiles": ({"statistics": [Quantiles("energy", q=[q]) for q in (0.1, 0.9)]}, "there twice"),
        "status": ({"observables": {"status": SPEED}}, "'status' cannot be the name"),
        "a group of arrays": ({"observables": {"a/b": SPEED}}, "'a/b' cannot be the name"),
        "entries": ({"observables": {"v": lambda t, g, xi, lam: xi[7]}}, r"observables\['v'\] asks for index 7"),
    }.values(),
)
def test_one_name_is_one_thing_and_functions_read_what_is_there(read, words):
    with pytest.raises(ValueError, match=words):
        gn.solve_ensemble(well(), **ONCE, **read)


def driven(force):
    return gn.System(Translations(3), metric=np.eye(3), forces=force)


@pytest.mark.slow
def test_controls_of_as_many_members_as_nodes_are_told_apart_by_what_the_forces_take():
    xi0, u = np.eye(3), np.random.default_rng(4).normal(size=(3, 3))
    system = driven(lambda t, x, xi, u: u)
    runs = gn.solve_ensemble(system, xi0=xi0, dt=0.1, n_steps=2, save_every=1, controls=u)
    for i in range(3):
        np.testing.assert_array_equal(runs[i].xi, gn.solve(system, xi0=xi0[i], dt=0.1, n_steps=2, controls=u).xi)
    own = driven(lambda t, x, xi, u: jnp.stack([u, -u, u]))
    runs = gn.solve_ensemble(own, xi0=xi0, dt=0.1, n_steps=2, save_every=1, controls=u)
    np.testing.assert_array_equal(runs[1].xi, gn.solve(own, xi0=xi0[1], dt=0.1, n_steps=2, controls=u[1]).xi)
    with pytest.raises(ValueError, match="and the forces take both"):
        gn.solve_ensemble(driven(lambda t, x, xi, u: u * xi), xi0=xi0, dt=0.1, n_steps=2, controls=u)


def test_masked_controls_of_members_are_refused():
    u = np.ma.array(np.ones((2, 3)), mask=[[0, 0, 0], [0, 1, 0]])
    with pytest.raises(TypeError, match="controls is a masked array"):
        gn.solve_ensemble(driven(lambda t, x, xi, u: u * xi), xi0=np.eye(3)[:2], dt=0.1, n_steps=2, controls=u)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geonh.engine.compiled.EngineWarning")
def test_what_xla_runs_is_read_as_what_machine_code_runs(tmp_path):
    system = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x: jnp.sum(jnp.linalg.eigvalsh(jnp.outer(x, x))),  # |x|²
        distribution=gn.Distribution([[-0.5, 1.0]]),
    )
    run = {"g0": [0.3, 0.15], "dt": 0.05, "n_steps": 12, "save_every": 3}
    xi0 = np.array([[0.2, 0.1], [0.4, 0.2], [0.1, 0.2]])  # the last breaks the constraint
    runs = gn.solve_ensemble(system, "gni", xi0=xi0, **run)
    assert runs.engine == "XLA"
    native = gn.solve_ensemble(well(), "gni", xi0=xi0, parameters={"k": 2.0}, **run)
    wanted = ["energy", "xi", "p", "multipliers", "impulse_multipliers"]
    for name in wanted:
        np.testing.assert_allclose(getattr(runs, name), getattr(native, name), rtol=0, atol=1e-14, err_msg=name)
        assert np.isnan(getattr(runs, name)[2]).all()
    np.testing.assert_array_equal(runs.to_xarray().energy, runs.energy)
    asked = {"observables": wanted, "statistics": [Mean("energy")]}
    kept = Sweep.of(system, "gni", xi0=xi0, **run, **asked).run(tmp_path / "sweep.zarr")
    whole = gn.stream(system, "gni", store=tmp_path / "run.zarr", xi0=xi0[0], **run, observables=wanted)
    np.testing.assert_array_equal(kept.energy, runs.energy)
    np.testing.assert_array_equal(whole.energy, runs.energy[0])
    np.testing.assert_allclose(kept["energy:mean"], runs.energy[:2].mean(axis=0), rtol=1e-15)

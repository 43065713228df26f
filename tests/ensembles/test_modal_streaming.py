"""Runs with modes into a store: the bits of ``solve`` from wherever they were stopped, modes, transitions, events."""

import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import bouncing

import geonh as gn
from geonh import rolling
from geonh.ensembles import stream_run
from geonh.ensembles.stores import StoreError, StoreWarning
from geonh.groups import Translations

pytest.importorskip("zarr", reason="stores need zarr: pip install 'geonh[scale]'")
TOP = gn.Event(lambda t, x, xi, lam: xi[0], direction=-1, name="top")
BALL = {"mode": "flight", "g0": [1.0], "xi0": [0.3], "dt": 0.01, "events": TOP}


def ball(e=0.9):
    return bouncing().with_parameters(e=e)


@pytest.fixture
def small(monkeypatch):
    """Shards of twenty nodes of a ball, and fewer of others."""
    monkeypatch.setattr(stream_run, "SHARD", 8 * 5 * 20)


def on_grid(run, save_every=1):
    """Rows of a run at whole numbers of steps, the first of each number: those of transitions follow."""
    first = np.concatenate([[True], np.diff(run.k) > 0])
    return np.flatnonzero(first & (run.k % save_every == 0))


def stopped(modes, method, path, after, **given):
    """Begin a stream that is stopped after some steps."""
    with pytest.raises(ZeroDivisionError):
        gn.stream(modes, method, store=path, progress=lambda done, _: 1 / (done < after), **given)


@pytest.mark.quick("rkmk4-3")
@pytest.mark.parametrize(("method", "save_every"), [("gauss4", 1), ("rkmk4", 3)])
def test_a_stream_has_the_bits_of_solve_and_goes_on(small, tmp_path, method, save_every):
    path, given = tmp_path / "a.zarr", BALL | {"save_every": save_every}
    run = gn.solve(ball(), method, **given, n_steps=480)
    assert len(run.switches.t) > 5
    stopped(ball(), method, path, 150, **given, n_steps=300)
    with pytest.warns(StoreWarning, match="shards are missing"):
        assert len(gn.open_store(path)["switch_t"]) < len(run.switches.t)
    gn.stream(ball(), method, store=path, **given, n_steps=300)
    data, at = gn.stream(ball(), method, store=path, **given, n_steps=480), on_grid(run, save_every)
    np.testing.assert_array_equal(data["g"], run.g_vector[at])
    np.testing.assert_array_equal(data["p_plus"], run.p_plus[at])
    np.testing.assert_array_equal(data["time"], run.t[at])
    for name in ("k", "t", "source", "target", "g_vector", "xi_before", "xi_after"):
        np.testing.assert_array_equal(data[f"switch_{name}"], getattr(run.switches, name))
    assert data["switch_xi_after"].dims == ("switch", "component")
    np.testing.assert_array_equal(data["top:t"], run.events["top"].t)
    assert json.loads(data.attrs["modes"]) == ["flight"]


@functools.cache
def skidding():
    """A body that is held sideways up to a force, which varies: it grips and slips in turns."""
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([3 * jnp.sin(2 * t), 0.1]),
        first_integrals={"drift": gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: xi[1])},
        name="body on a rail",
    )
    return rolling.slipping(system, {"rail": (0, (1.5, 1.0))})


@pytest.mark.slow
def test_observables_of_all_modes_and_their_columns(small, tmp_path):
    given = {"mode": "grip", "g0": [0.0, 0.0], "xi0": [0.0, 0.2], "dt": 0.02, "n_steps": 200}
    wanted = {"multipliers": "multipliers", "energy": "energy", "drift": "drift", "of": lambda t, g, xi, lam: 2 * lam}
    run = gn.solve(skidding(), "gauss4", **given)
    assert len(run.switches.t) > 2
    data, at = gn.stream(skidding(), store=tmp_path / "a", observables=wanted, **given, method="gauss4"), on_grid(run)
    assert list(np.array(json.loads(data.attrs["modes"]))[data["mode"]]) == list(run.mode[at])
    np.testing.assert_array_equal(data["multipliers"], run.multipliers[at])
    assert np.isnan(data["multipliers"]).any()
    np.testing.assert_array_equal(data["energy"], run.energy[at])
    np.testing.assert_array_equal(data["drift"], run.integrals["drift"][at])
    np.testing.assert_array_equal(data["of"], 2 * run.multipliers[at])
    with pytest.raises(ValueError, match=r"no mode of .* has an observable 'heat'; there are .*energy"):
        gn.stream(skidding(), store=tmp_path / "b", observables=["heat"], **given)
    with pytest.raises(ValueError, match="observables: 'mode' is a variable of the dataset itself"):
        gn.stream(skidding(), store=tmp_path / "b", observables={"mode": lambda t, g, xi, lam: t}, **given)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_a_stream_in_which_no_mode_goes_on(small, tmp_path):
    """A normal force vanishes: the last node and its mode are kept, and a second call adds nothing."""
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        holonomic=lambda x: x[1:],
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([0.0, 2 * t - 1.0]),
        name="body that is lifted",
    )
    given = {"mode": "grip", "g0": [0.0, 0.0], "xi0": [0.0, 0.0], "dt": 0.013, "n_steps": 100, "save_every": 2}
    modes = rolling.slipping(system, {"foot": (0, 0.5, 0)})
    run = gn.solve(modes, "gauss4", **given, throw=False)
    assert run.status.name == "MODE"
    for _ in range(2):
        with pytest.warns(StoreWarning, match="no mode"):
            data = gn.stream(modes, "gauss4", store=tmp_path / "a", **given)
    assert data["n_steps"] == int(run.state.k)
    np.testing.assert_array_equal(data["p_plus:last"], run.state.p_plus)
    assert data["mode:last"] == 0
    n = len(on_grid(run, 2))
    assert (data["mode"][:n] == 0).all()
    assert (data["mode"][n:] == -1).all()


@pytest.mark.slow
def test_a_terminal_event_ends_a_stream_in_its_mode(small, tmp_path, recwarn):
    stop = gn.Event(lambda t, x, xi, lam: t - 2.003, name="end", stop=True)
    run = gn.solve(ball(), "gauss4", **BALL | {"events": [TOP, stop]}, n_steps=300)
    data = gn.stream(ball(), "gauss4", store=tmp_path / "a", **BALL | {"events": [TOP, stop]}, n_steps=300)
    np.testing.assert_array_equal(data["end:t"], run.events["end"].t)
    np.testing.assert_array_equal(data["top:t"], run.events["top"].t)
    np.testing.assert_array_equal(data["switch_t"], run.switches.t)
    assert np.isfinite(data["g"][:201]).all()
    assert np.isnan(data["g"][201:]).all()
    assert not [one for one in recwarn if one.category is StoreWarning]


@pytest.mark.slow
def test_mending_and_other_runs(small, tmp_path):
    path, whole = tmp_path / "a", gn.solve(ball(), "gauss4", **BALL, n_steps=100)
    gn.stream(ball(), "gauss4", store=path, **BALL, n_steps=100)
    file = path / "mode" / "c" / "2"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.warns(StoreWarning, match="shard 2 is computed again"):
        data = gn.stream(ball(), "gauss4", store=path, **BALL, n_steps=100)
    np.testing.assert_array_equal(data["g"], whole.g_vector[on_grid(whole)])
    with pytest.raises(StoreError, match=r"e: 0\.9 there, 0\.7 here"):
        gn.stream(ball(0.7), "gauss4", store=path, **BALL, n_steps=100)
    with pytest.raises(StoreError, match=r"dt: 0\.01 there, 0\.02 here"):
        gn.stream(ball(), "gauss4", store=path, **BALL | {"dt": 0.02}, n_steps=100)
    other = gn.Modes({"flight": ball()["flight"]}, ball().transitions, name="other")
    with pytest.raises(StoreError, match="modes: bouncing of flight there, other of flight here"):
        gn.stream(other, "gauss4", store=path, **BALL, n_steps=100)
    with pytest.raises(StoreError, match="of another configuration"):
        gn.stream(ball()["flight"], "gauss4", store=path, **{**BALL, "mode": None}, n_steps=100)
    with pytest.raises(ValueError, match="mode must be one of flight, got None"):
        gn.stream(ball(), store=path, **{**BALL, "mode": None}, n_steps=100)
    with pytest.raises(ValueError, match="have steps of one length"):
        gn.stream(ball(), store=path, **{**BALL, "dt": None}, t_end=1.0, tolerance=1e-6)
    with pytest.raises(ValueError, match="dt must be positive"):
        gn.stream(ball(), store=path, **{**BALL, "dt": -0.1}, n_steps=10)
    thrown = rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3)
    g0, xi0 = rolling.start(thrown, slip=[2.0, 0.0, 0.0])
    g0[2, 3] -= 0.5
    with pytest.raises(ValueError, match="below"):
        gn.stream(thrown, store=tmp_path / "b", mode="free", g0=g0, xi0=xi0, dt=0.01, n_steps=10)
    assert not (tmp_path / "b").exists()

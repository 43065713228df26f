"""Members whose steps a tolerance chooses."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.ensembles import Mean, Sweep
from geonh.groups import Translations
from geonh.integrators import Result

SLEIGH = gn.systems.chaplygin_sleigh()
STARTS = np.stack([np.linspace(0.1, 2.0, 5), np.full(5, -0.5), np.zeros(5)], axis=1)
TIMES = np.linspace(0.0, 20.0, 6)
EVENTS = [
    gn.Event(lambda t, g, xi, lam: xi[1] - 0.05, name="reversal"),
    gn.Event(lambda t, g, xi, lam: g[0] - 2.0, name="turned", stop=True),
]


def many(method=None, **options):
    return gn.solve_ensemble(
        SLEIGH, method, **{"xi0": STARTS, "tolerance": 1e-8, "t_eval": TIMES, "most_events": 3, **options}
    )


@pytest.mark.parametrize("method", [None, "gauss4"])
@pytest.mark.quick("gauss4")
def test_each_member_has_the_bits_and_steps_of_its_own_run(method):
    ensemble = many(method)
    assert ensemble.engine == "native"
    np.testing.assert_array_equal(ensemble.t, np.tile(TIMES, (5, 1)))
    assert len(set(ensemble.n_steps.tolist())) == 5
    for i, xi0 in enumerate(STARTS):
        run = gn.solve(SLEIGH, method, xi0=xi0, tolerance=1e-8, t_end=20.0)
        at = gn.solve(SLEIGH, method, xi0=xi0, tolerance=1e-8, t_eval=TIMES)
        assert ensemble.n_steps[i] == run.k[-1]
        np.testing.assert_array_equal(ensemble.g_vector[i], at.g_vector)
        np.testing.assert_array_equal(ensemble.energy[i], at.energy)
        np.testing.assert_array_equal(ensemble[i].t, TIMES)
        np.testing.assert_array_equal(ensemble[i].xi, at.xi)


@pytest.mark.slow
def test_events_are_those_of_single_runs_and_end_members():
    ensemble = many(events=EVENTS)
    for i, xi0 in enumerate(STARTS):
        run = gn.solve(SLEIGH, xi0=xi0, tolerance=1e-8, t_end=20.0, events=EVENTS)
        assert ensemble.status[i] == Result.EVENT
        assert ensemble.n_steps[i] == run.k[-1]
        for name in ("reversal", "turned"):
            np.testing.assert_array_equal(ensemble.events[name].t[i, : len(run.events[name].t)], run.events[name].t[:3])
        there = np.isfinite(ensemble.g_vector[i, :, 0])
        np.testing.assert_array_equal(there, run.events["turned"].t[0] >= TIMES)
        assert ensemble[i].t[-1] == run.t[-1]
        np.testing.assert_array_equal(ensemble[i].g[-1], run.g[-1])
        assert f"'turned', at t = {run.events['turned'].t[0]:.6g}" in ensemble.message(i)


@pytest.mark.slow
def test_a_member_that_fails_leaves_the_others_alone():
    def attraction(x):
        return -1 / jnp.sqrt(x[0] ** 2 + x[1] ** 2)

    planet = gn.System(Translations(2), metric=np.eye(2), potential=attraction)
    xi0 = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.8]])
    ensemble = gn.solve_ensemble(planet, g0=[1.0, 0.0], xi0=xi0, tolerance=1e-8, t_eval=[0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(ensemble.status, [Result.SUCCESS, Result.STEP, Result.SUCCESS])
    np.testing.assert_array_equal(np.isfinite(ensemble.g[1, :, 0]), [True, True, True, False, False])
    assert f"at t = {np.pi / np.sqrt(8):.5f}"[:14] in ensemble.message(1)
    alone = gn.solve(planet, g0=[1.0, 0.0], xi0=xi0[2], tolerance=1e-8, t_end=2.0)
    np.testing.assert_array_equal(ensemble.g[2, -1], alone.g[-1])


@pytest.mark.slow
def test_a_sweep_goes_to_a_store_and_back(tmp_path):
    sweep = Sweep.of(
        SLEIGH, xi0=STARTS, tolerance=1e-6, t_eval=TIMES, events=EVENTS[:1], statistics=[Mean("energy", over="members")]
    )
    assert "6 nodes each, t = 0 … 20 s" in repr(sweep)
    dataset, ensemble = sweep.run(tmp_path / "sweep"), sweep.solve()
    np.testing.assert_array_equal(dataset["time"], TIMES)
    np.testing.assert_array_equal(dataset["g"], ensemble.g_vector)
    np.testing.assert_array_equal(dataset["energy:mean"], ensemble.statistics["energy:mean"])
    loaded = sweep.load(tmp_path / "sweep", 1, 4)
    np.testing.assert_array_equal(loaded.t, ensemble.t[1:4])
    np.testing.assert_array_equal(loaded[2].g, ensemble[3].g)
    np.testing.assert_array_equal(ensemble.to_xarray()["time"], TIMES)
    other = Sweep.of(SLEIGH, xi0=STARTS, tolerance=1e-6, t_eval=TIMES[::2], events=EVENTS[:1])
    with pytest.raises(gn.ensembles.stores.StoreError, match="times: "):
        other.run(tmp_path / "sweep")


@pytest.mark.slow
def test_backwards_and_parameters():
    ensemble = gn.solve_ensemble(
        SLEIGH, xi0=STARTS[0], parameters={"a": [0.1, 0.2]}, tolerance=1e-8, t0=3.0, t_eval=[2.0, 1.0], t_end=0.0
    )
    np.testing.assert_array_equal(ensemble.t[0], [3.0, 2.0, 1.0, 0.0])
    one = gn.solve(gn.systems.chaplygin_sleigh(a=0.2), xi0=STARTS[0], tolerance=1e-8, t0=3.0, t_end=0.0)
    np.testing.assert_array_equal(ensemble.g[1, -1], one.g[-1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_steps": 10, "t_eval": None}, "each member's own: pass t_end, and t_eval"),
        ({"save_every": 2}, "each member's own: pass t_end, and t_eval"),
        ({"t_eval": [1.0, 0.5]}, "t_eval must increase"),
        ({"t_eval": [1.0, 30.0], "t_end": 20.0}, r"t_eval must lie in \[0, 20\]"),
        ({"tolerance": None, "dt": 0.1, "n_steps": 10}, "t_eval of many runs is for steps that a tolerance chooses"),
    ],
)
def test_contradictions_are_told(options, words):
    with pytest.raises(ValueError, match=words):
        many(**options)

"""Ensembles of systems with modes: bits of single runs, parameters in modes and transitions, labels, refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from bouncing import bouncing

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import Result

GIVEN = {"mode": "flight", "g0": [1.0], "dt": 0.02, "n_steps": 60, "save_every": 6}


def test_members_have_the_bits_of_single_runs():
    rng = np.random.default_rng(1)
    xi0, G, e = rng.normal(size=(7, 1)), rng.uniform(5.0, 15.0, 7), rng.uniform(0.5, 1.0, 7)
    top = gn.Event(lambda t, x, xi, lam: xi[0], direction=-1, name="top")
    many = gn.solve_ensemble(bouncing(), "gauss4", xi0=xi0, parameters={"G": G, "e": e}, events=top, threads=2, **GIVEN)
    assert many.success.all()
    assert set(many.n_switches) > {1}  # each member at its own times
    for i in range(7):
        modes = bouncing().with_parameters(G=G[i], e=e[i])
        run = gn.solve(modes, "gauss4", xi0=xi0[i], events=top, **GIVEN)
        for name in ("g_vector", "p_plus", "t", "mode"):
            np.testing.assert_array_equal(getattr(many[i], name), getattr(run, name))
        np.testing.assert_array_equal(many[i].switches.xi_after, run.switches.xi_after)
        np.testing.assert_array_equal(many[i].events["top"].t, run.events["top"].t)
        np.testing.assert_array_equal(many.switch_times[i, : len(run.switches.t)], run.switches.t)
        np.testing.assert_allclose(run.switches.xi_after, -e[i] * run.switches.xi_before, rtol=1e-15)
        on_grid = run.t == many.t[i][:, None]
        np.testing.assert_array_equal(many.g_vector[i], [run.g_vector[np.flatnonzero(row)[0]] for row in on_grid])
    assert many.energy.shape == (7, 11)
    np.testing.assert_array_equal(many.mode, np.full((7, 11), "flight"))


@pytest.mark.slow
def test_members_with_common_parameters_share_their_programs():
    xi0 = np.linspace(-1.0, 1.0, 5)[:, None]
    many = gn.solve_ensemble(bouncing(), "rkmk4", xi0=xi0, threads=1, **GIVEN)
    for i in (0, 4):
        run = gn.solve(bouncing(), "rkmk4", xi0=xi0[i], **GIVEN)
        np.testing.assert_array_equal(many[i].g_vector, run.g_vector)
    on = gn.resume(many[2], 30)
    np.testing.assert_array_equal(
        on.g_vector, gn.solve(bouncing(), "rkmk4", xi0=xi0[2], **GIVEN | {"n_steps": 90}).g_vector
    )


def test_observables_of_a_mode_that_some_members_are_never_in():
    """One member stays in flight, in which there is neither φ nor a multiplier."""
    fall = {"metric": [1.0, 1.0], "potential": lambda x: 9.81 * x[0]}
    lands = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="lands")
    modes = gn.Modes(
        {
            "flight": gn.System(Translations(2), **fall),
            "rest": gn.System(Translations(2), holonomic=lambda x: x[:1], **fall),
        },
        [gn.Transition("flight", lands, "rest")],
    )
    given = {"mode": "flight", "xi0": [0.0, 1.0], "dt": 0.02, "n_steps": 10, "save_every": 5}
    many = gn.solve_ensemble(modes, "rkmk4", g0=[[9.0, 0.0], [0.1, 0.0]], **given)
    assert many.holonomic_residual.shape == (2, 3, 1)
    assert np.isnan(many.holonomic_residual[0]).all()
    assert many.mode[1, -1] == "rest"
    np.testing.assert_allclose(many.multipliers[:, -1], [[np.nan], [9.81]], rtol=1e-12)
    np.testing.assert_allclose(many.holonomic_residual[1, -1], 0.0, atol=1e-14)
    np.testing.assert_allclose(many.energy[0], 9.81 * 9.0 + 0.5, rtol=1e-13)


def test_labels_and_draws():
    many = gn.solve_ensemble(
        bouncing(), xi0=[0.0], parameters={"e": scipy.stats.uniform(0.6, 0.3)}, members=4, seed=3, **GIVEN
    )
    data = many.to_xarray()
    assert data["mode"].dims == ("member", "time")
    assert data["e"].dims == ("member",)
    assert data.sizes["switch"] == many.n_switches.max()
    assert "4 runs of bouncing" in repr(many)
    assert many.message(1).startswith("member 1:")


def test_a_member_that_does_not_reach_the_end():
    """Impacts accumulate with e = 0.5, not with e = 1."""
    many = gn.solve_ensemble(bouncing(), xi0=[0.0], parameters={"e": [0.5, 1.0]}, **GIVEN | {"n_steps": 90})
    assert many.status.tolist() == [Result.SWITCHES, Result.SUCCESS]
    assert "accumulate" in many.message(0)
    assert np.isnan(many.g[0, -1, 0])
    assert many.mode[0, -1] == ""
    assert np.isfinite(many.g[1]).all()


def test_what_is_refused():
    starts = {"xi0": [[0.0], [1.0]]}
    with pytest.raises(ValueError, match="mode must be one of flight"):
        gn.solve_ensemble(bouncing(), **starts, **GIVEN | {"mode": "rest"})
    with pytest.raises(ValueError, match="observables= is not for runs with modes"):
        gn.solve_ensemble(bouncing(), observables=["energy"], **starts, **GIVEN)
    with pytest.raises(ValueError, match="has no modes"):
        gn.solve_ensemble(bouncing().systems[0], **starts, **GIVEN)
    with pytest.raises(ValueError, match="no mode of bouncing has a parameter 'mu'; there are G, e"):
        bouncing().with_parameters(mu=0.1)
    with pytest.raises(ValueError, match="member must be one of 2"):
        gn.solve_ensemble(bouncing(), **starts, **GIVEN | {"n_steps": 6}).message(2)
    with pytest.raises(TypeError, match="values must be a mapping of names to values, got range"):
        bouncing().with_values(range(3))

    def traced(e, solve, **xi0):
        solve(bouncing().with_parameters(e=e), **xi0, **GIVEN)

    for solve, xi0 in ((gn.solve, {"xi0": [0.0]}), (gn.solve_ensemble, starts)):
        with gn.float64(), pytest.raises(TypeError, match="system must not be traced"):
            jax.make_jaxpr(functools.partial(traced, solve=solve, **xi0))(0.9)
    with pytest.raises(ValueError, match="nothing differs"):
        gn.solve_ensemble(bouncing(), xi0=[0.0], **GIVEN)
    assert jnp.ndim(bouncing().with_parameters(e=0.3).transitions[0].reset.ball.parameters["e"]) == 0

"""Ensembles of systems with modes: bits of single runs, parameters in modes and transitions, labels, refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from bouncing import bouncing

import geonh as gn
from geonh import rolling
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def thrown(rng):
    """A ball thrown with slip, some along a line, some with spin about all axes, and some above the ground."""
    modes = rolling(rolling.ball(0.1), [0.4 * 0.01] * 3, 1.0, friction=0.3, restitution=0.5, name="thrown ball")
    g0 = rolling.start(modes, slip=[1.0, 0.0, 0.0])[0]
    spins = [np.zeros(3), rng.normal(size=3)]
    starts = [
        rolling.start(modes, slip=[*rng.uniform(0.5, 3.0, 1), 0.0, 0.0], omega=spins[i % 2])[1] for i in range(11)
    ]
    return modes, {"mode": "slide", "g0": g0, "xi0": np.stack(starts), "dt": 0.005, "n_steps": 60}


def of_other_coefficients(rng):
    """Balls thrown from above the ground, each with friction, restitution and mass of its own."""
    modes, given = thrown(rng)
    given |= {"g0": np.stack([given["g0"]] * 11), "mode": "free"}
    given["g0"][:, 2, 3] += rng.uniform(0.02, 0.2, 11)
    more = {"friction": rng.uniform(0.1, 0.5, 11), "restitution": rng.uniform(0.3, 0.7, 11), "m": rng.uniform(1, 2, 11)}
    return modes, given | {"parameters": more}


def falling(rng):
    """Balls that bounce, at several initial times and steps of their own."""
    more = {"g0": rng.uniform(0.5, 1.5, (11, 1)), "xi0": rng.normal(size=(11, 1))}
    times = {"t0": rng.normal(size=11), "dt": rng.uniform(0.01, 0.03, 11)}
    return bouncing(), {"mode": "flight", **more, **times, "n_steps": 60}


def up_from_the_floor(rng):
    """Balls that are thrown up from where the guard is zero, which has no direction."""
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: 9.81 * x[0])
    floor = gn.Event(lambda t, x, xi, lam: x[0], name="floor")
    modes = gn.Modes({"flight": ball}, [gn.Transition("flight", floor, "flight", lambda t, x, xi: -0.9 * xi)])
    return modes, {"mode": "flight", "g0": [0.0], "xi0": rng.uniform(0.5, 2.0, (11, 1)), "dt": 0.01, "n_steps": 60}


def of_odd_guards(rng):
    """A guard that is zero over a part of the motion, and beyond zero after it, and one that is nan in a part."""
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: 9.81 * x[0])
    depth = gn.Event(lambda t, x, xi, lam: jnp.maximum(-x[0], 0.0), direction=1, name="depth")
    root = gn.Event(lambda t, x, xi, lam: jnp.sqrt(x[0]) - 1.1, direction=1, name="root")
    modes = gn.Modes(
        {"flight": ball},
        [gn.Transition("flight", guard, "flight", lambda t, x, xi: -xi) for guard in (depth, root)],
    )
    return modes, {"mode": "flight", "g0": [1.2], "xi0": rng.uniform(-1.0, 2.0, (11, 1)), "dt": 0.01, "n_steps": 80}


def on_a_rail(rng):
    """Bodies that grip and slip under a force, from one mode to the other and back, or on through a slip of no sign."""
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([3 * jnp.sin(2 * t + x[1]), 0.1]),
        name="body on a rail",
    )
    start = {"g0": np.zeros(2), "xi0": np.stack([np.zeros(11), rng.normal(size=11)], axis=1)}
    return rolling.slipping(system, {"rail": (0, (1.5, 1.0))}), {"mode": "grip", **start, "dt": 0.02, "n_steps": 200}


def values_of(given, member):
    """Values of the parameters of a member, taken out of its arguments."""
    return {name: value[member] for name, value in given.pop("parameters", {}).items()}


@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
@pytest.mark.parametrize("case", [thrown, of_other_coefficients, falling, up_from_the_floor, of_odd_guards, on_a_rail])
@pytest.mark.filterwarnings("ignore:event 'root'")
@pytest.mark.parametrize("save_every", [1, 20])
@pytest.mark.quick("1-falling-gauss4")
def test_many_members_at_once_have_the_bits_of_single_runs(case, method, save_every):
    modes, given = case(np.random.default_rng(3))
    many = gn.solve_ensemble(modes, method, **given, save_every=save_every, threads=2)
    assert many.success.all()
    assert many.n_switches.sum() > 2
    for i in range(len(many)):
        own = {name: value[i] if name in many.batch.varied else value for name, value in given.items()}
        run = gn.solve(modes.with_values(values_of(own, i)), method, **own, save_every=save_every)
        for name in ("t", "k", "mode", "g_vector", "p_plus", "p_minus"):
            np.testing.assert_array_equal(getattr(many[i], name), getattr(run, name), err_msg=f"{name} of {i}")
        for name, value in run.switches._asdict().items():
            np.testing.assert_array_equal(getattr(many[i].switches, name), value, err_msg=f"{name} of {i}")
    if case is of_odd_guards:  # one of them is not a number at the end, where a run cannot begin
        return
    on = gn.resume(many[3], 20)
    own = {k: v[3] if k in many.batch.varied else v for k, v in given.items()} | {"n_steps": given["n_steps"] + 20}
    again = gn.solve(modes.with_values(values_of(own, 3)), method, **own, save_every=save_every)
    np.testing.assert_array_equal(on.g_vector, again.g_vector)


@pytest.mark.slow
def test_many_members_of_which_some_end_in_words():
    """Those whose body is lifted have no mode from there on; one that is not on the ground does not start."""
    system = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        holonomic=lambda x: x[1:],
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([0.0, 2 * t - 1.0 + x[0]]),
        name="body that is lifted",
    )
    modes = rolling.slipping(system, {"foot": (0, 0.5, 0)})
    g0 = np.stack([np.linspace(-3.0, 0.0, 10), np.zeros(10)], axis=1)
    g0[4, 1] = 0.1
    given = {"mode": "grip", "xi0": [0.0, 0.0], "dt": 0.01, "n_steps": 100}
    many = gn.solve_ensemble(modes, "gauss4", g0=g0, **given)
    assert set(many.faults) == {4}
    for i in set(range(10)) - {4}:
        run = gn.solve(modes, "gauss4", g0=g0[i], **given, throw=False)
        assert many.status[i] == run.status
        assert many.n_steps[i] == run.state.k
    assert set(many.status.tolist()) == {Result.SUCCESS, Result.START, Result.MODE}


@pytest.mark.parametrize("members", [5, 12])
def test_members_that_were_interrupted_say_so(members):
    calls = []

    def stops(done, total):
        calls.append(done)
        if len(calls) == 2:
            raise KeyboardInterrupt

    xi0 = np.linspace(-1.0, 1.0, members)[:, None]
    given = GIVEN | {"dt": np.linspace(0.01, 0.02, members)}
    many = gn.solve_ensemble(bouncing(), "gauss4", xi0=xi0, threads=1, progress=stops, **given)
    ended = many.status == Result.SUCCESS
    assert ended.sum() < members
    for i in range(members):
        assert (many.runs[i] is None) == (not ended[i])
        assert not ended[i] or np.isfinite(many.g_vector[i]).all()
        assert ("interrupted" in many.message(i)) == (not ended[i])


@pytest.mark.quick("10")
@pytest.mark.parametrize("members", [4, 10])
def test_members_that_cannot_be_run_say_why(members):
    """Resets of some lead off the constraint of the next mode, and a guard of one is nan where it begins."""
    straight = gn.Distribution([[0.0, 1.0]])
    gate = gn.Event(lambda t, x, xi, lam: x[0] - jnp.where(x[1] > 4.0, jnp.nan, 1.0), name="gate")
    modes = gn.Modes(
        {
            "free": gn.System(Translations(2), metric=[1.0, 1.0]),
            "rail": gn.System(Translations(2), metric=[1.0, 1.0], distribution=straight),
        },
        [gn.Transition("free", gate, "rail", reset=lambda t, x, xi: xi.at[1].set(jnp.where(x[1] > 0.5, 0.1, 0.0)))],
    )
    g0 = np.zeros((members, 2))
    g0[1, 1], g0[2, 1] = 1.0, 5.0
    many = gn.solve_ensemble(modes, "gauss4", mode="free", g0=g0, xi0=[1.0, 0.0], dt=0.1, n_steps=20)
    assert set(many.faults) == {1, 2}
    assert "leads off the constraints of 'rail'" in many.message(1)
    assert "not a number where the run begins" in many.message(2)
    with pytest.raises(ValueError, match="member 1 has no run: the reset of 'gate'"):
        many[1]
    assert many.success.sum() == members - 2
    assert np.isnan(many.xi[1]).all()
    np.testing.assert_allclose(many.switch_times[[0, 3]], 1.0, rtol=1e-13)
    with pytest.raises(ValueError, match="no member could be run; member 0 has no run: the reset"):
        gn.solve_ensemble(modes, "gauss4", mode="free", g0=g0[[1] * members], xi0=[1.0, 0.0], dt=0.1, n_steps=20)


@pytest.mark.quick("4")
@pytest.mark.parametrize("members", [4, 10])
def test_modes_may_have_other_values_of_a_parameter(members):
    """Each mode begins with its own mass, not with that of another."""

    def of(mass):
        more = {"metric": lambda x, p: p["m"] * jnp.eye(1), "potential": lambda x, p: 9.81 * p["m"] * x[0]}
        return gn.System(Translations(1), **more, parameters={"m": mass})

    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="floor")
    modes = gn.Modes({"light": of(1.0), "heavy": of(5.0)}, [gn.Transition("light", floor, "heavy")])
    given = {"mode": "light", "g0": [1.0], "dt": 0.05, "n_steps": 20, "save_every": 1}
    xi0 = np.linspace(1.0, 2.0, members)[:, None]
    many = gn.solve_ensemble(modes, "gauss4", xi0=xi0, **given)
    for i in range(members):
        np.testing.assert_array_equal(many[i].p_plus, gn.solve(modes, "gauss4", xi0=xi0[i], **given).p_plus)


@pytest.mark.quick("4")
@pytest.mark.parametrize("members", [4, 10])
def test_targets_that_fail_for_some_members(members):
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: 9.81 * x[0])
    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="floor")
    to = {1.0: "nowhere", 2.0: None}
    modes = gn.Modes(
        {"flight": ball},
        [
            gn.Transition(
                "flight", floor, lambda t, x, xi: to.get(round(float(xi[0]), 9), "flight"), lambda t, x, xi: -xi
            )
        ],
    )
    speeds = np.array([1.0, 2.0, *np.linspace(2.5, 3.0, members - 2)])
    height = 0.5
    xi0 = -np.sqrt(np.maximum(speeds**2 - 2 * 9.81 * height, 0.0))[:, None]
    g0 = np.where(xi0 == 0, speeds[:, None] ** 2 / 2 / 9.81, height)
    many = gn.solve_ensemble(modes, "gauss4", mode="flight", g0=g0, xi0=xi0, dt=0.01, n_steps=60)
    assert many.status[1] == Result.MODE
    assert set(many.faults) == {0}
    assert "the target of transition 'floor' must be one of flight, got 'nowhere'" in many.message(0)
    assert many.success[2:].all()


def test_no_member_of_many_starts():
    rail = gn.System(Translations(1), metric=[1.0], distribution=gn.Distribution([[1.0]]))
    with pytest.raises(ValueError, match="no member could be run; member 0 has no run: xi0 does not satisfy"):
        gn.solve_ensemble(gn.Modes({"a": rail}, []), "gauss4", mode="a", xi0=np.ones((9, 1)), dt=0.1, n_steps=2)

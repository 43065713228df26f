"""Multipliers, impulses, alternation: what a trajectory says of the constraint force, for every method."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SO3
from geonh.integrators.base import Clock, Problem
from geonh.integrators.validity import Result
from geonh.results.nodes import Node
from geonh.results.observables import observe
from geonh.results.parasitic import AlternationWarning
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh


def sleigh_force(system, xi):
    """λ = m(uω + aω̇) of the knife edge, with ω̇ = −(ma/(I + ma²))uω: the lateral force."""
    m, inertia, a = (float(system.parameters[name]) for name in ("m", "I", "a"))
    omega, u = xi[..., 0], xi[..., 1]
    return m * u * omega * (1 - m * a**2 / (inertia + m * a**2))


@pytest.mark.parametrize("name", gn.methods)
def test_the_multiplier_at_a_node_is_that_of_the_continuous_equations(name):
    """Whatever came in and went out: read from (g, ξ̃) alone, at a node of any method."""
    if name == "variational":
        pytest.skip("for systems without constraints")
    system, clock = chaplygin_sleigh(), Clock(0.0, 0.1)
    xi, jump = jnp.array([0.8, -0.5, 0.0]), jnp.array([0.01, -0.02, 0.3])
    p, g = system.momentum((), xi), jnp.array([0.3, 1.0, -2.0])
    result = observe(Problem(system, gn.methods[name].make(), clock), Node(3, g, p - jump / 2, p + jump / 2))
    np.testing.assert_allclose(result["multipliers"], [sleigh_force(system, xi)], rtol=1e-13)
    np.testing.assert_allclose(result["xi"], xi, rtol=1e-13, atol=1e-16)
    impulse = gn.methods[name].make().guarantees.node == "impulse"
    assert ("impulse_multipliers" in result) == ("alternating" in result) == impulse


@pytest.mark.parametrize("start", ["average", "multiplier"])
def test_the_impulse_of_gni_swings_about_the_force(start):
    """With λ₀ = 0 it is 0, 2λ, 0, 2λ, … at every step size; from the exact λ₀ it is near, and the mean of two is."""
    gaps = []
    for dt in (0.02, 0.01):
        run = gn.solve(chaplygin_sleigh(), gn.GNI(start=start), xi0=[0.8, -0.5, 0.0], dt=dt, n_steps=round(1 / dt))
        exact = sleigh_force(run.system, run.xi)
        np.testing.assert_allclose(run.multipliers[:, 0], exact, rtol=0, atol=1e-14)
        gap = run.impulse_multipliers[:, 0] - exact
        mean = (gap[:-2] + 2 * gap[1:-1] + gap[2:]) / 4
        gaps.append((np.abs(gap).max(), np.abs(mean).max()))
    if start == "average":
        assert min(worst for worst, _ in gaps) > 0.2 * np.abs(exact).max()
    else:
        assert gaps[0][0] < 0.01 * np.abs(exact).max()
    assert gaps[1][1] < 0.3 * gaps[0][1] < 1e-4


def test_the_impulse_is_the_jump_of_the_momentum():
    """p⁻ = p⁺ + h(f + μᵀλ) at every node, with a force and a control."""
    rng = np.random.default_rng(3)
    forms = lambda R: R[2][None] + 0.2  # noqa: E731
    system = gn.System(
        SO3(),
        metric=np.diag([1.0, 1.6, 2.1]),
        distribution=gn.Distribution(forms),
        forces=lambda t, R, xi, u: -0.2 * xi + u * R[0],
    )
    controls = jnp.sin
    run = gn.solve(
        system, gn.GNI(), xi0=system.project(None, rng.normal(size=3)), dt=0.05, n_steps=40, controls=controls
    )
    force = jax.vmap(lambda t, g, xi: system.force(t, g, xi, controls(t)))(run.t, run.g, run.xi)
    reaction = np.einsum("nmi,nm->ni", jax.vmap(forms)(run.g), run.impulse_multipliers)
    np.testing.assert_allclose(run.p_minus - run.p_plus, 0.05 * (force + reaction), rtol=0, atol=1e-13)
    exact = jax.vmap(lambda t, g, xi: gn.mechanics.multipliers(system, t, g, xi, controls(t)))(run.t, run.g, run.xi)
    np.testing.assert_allclose(run.multipliers, exact, rtol=0, atol=1e-12)
    assert np.abs(run.impulse_multipliers - exact).max() < 0.05 * np.abs(exact).max()


# --- the warning ---------------------------------------------------------------------------------------------
def test_a_run_that_stops_between_two_looks_is_warned_of(tmp_path):
    J = [[3.69114947, -0.90615279, -0.39005137], [-0.90615279, 1.19468469, -0.64587344]]
    J.append([-0.39005137, -0.64587344, 0.78869047])
    system = gn.System(gn.groups.SO3(), metric=J, distribution=gn.Distribution([[0.0, 0.0, 1.0]]), base="point")
    start = {"xi0": [1.29875425, -0.34911024, 0.0], "dt": 0.3, "n_steps": 75}
    with pytest.warns(AlternationWarning, match=r"reaches about 153 %"):
        run = gn.solve(system, gn.GNI(start="average"), throw=False, **start)
    assert run.status == Result.CHART
    assert run.spoiled_from == gn.Trajectory.load(run.save(tmp_path / "run.nc")).spoiled_from


def test_a_spoiled_run_is_warned_of_with_the_time_and_a_cure():
    """Suslov near its steady rotation: the part grows as e^t from 1e-8 on; before that nothing is said."""
    suslov, options = gn.systems.suslov(), {"xi0": [0.0, 1.0, 0.0], "dt": 0.05}
    with pytest.warns(AlternationWarning, match=r"from t = [\d.]+: .*SymmetricProjection") as caught:
        run = gn.solve(suslov, gn.GNI(), n_steps=800, **options)
    assert len([w for w in caught if issubclass(w.category, AlternationWarning)]) == 1
    since = run.spoiled_from
    assert f"t = {since:.4g}" in str(caught[0].message)
    assert run.alternation[run.t < since].max() <= 0.01 < run.alternation[run.t >= since].max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = gn.solve(suslov, gn.GNI(), n_steps=round(0.8 * since / 0.05), **options)
        assert short.spoiled_from is None
        sound = gn.solve(suslov, n_steps=800, **options)
    assert sound.spoiled_from is None
    assert np.abs(sound.energy / sound.energy[0] - 1).max() < 0.01


def measured(run):
    """Since when, by the alternation at every node."""
    large = run.alternation > 0.01
    return float(run.t[np.argmax(large)]) if large.any() else None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geonh.trajectory.AlternationWarning")
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-2.5, -0.5),
    st.sampled_from(["multiplier", "average"]),
    st.booleans(),
    st.sampled_from([1, 1, 3]),
)
def test_what_the_loop_doubts_is_all_that_alternates(seed, log_dt, start, uneven, stride):
    """Bodies of any inertia, alike everywhere or not, at short and at much too long steps."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    J, a = root @ root.T + 0.1 * np.eye(3), rng.normal(size=(1, 3))
    metric = (lambda R, parameters: parameters["J"] + jnp.diag(R[2] ** 2)) if uneven else J
    system = gn.System(SO3(), metric=metric, distribution=gn.Distribution(a), parameters={"J": J})
    options = {"dt": 10**log_dt, "n_steps": 300, "save_every": stride, "throw": False}
    run = gn.solve(system, gn.GNI(start=start), xi0=system.project(None, 3 * rng.normal(size=3)), **options)
    since = run.spoiled_from
    assert "observables" not in vars(run) or stride > 1
    assert since == measured(run)
    if since is None and len(run) > 1:
        assert np.sqrt(run.trail.worst / run.trail.largest) < 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geonh.trajectory.AlternationWarning")
def test_the_trail_goes_on_with_a_run(tmp_path):
    """In pieces as in one; a run from a file, or cut short, knows as much by what is measured."""
    suslov, options = gn.systems.suslov(), {"xi0": [0.0, 1.0, 0.0], "dt": 0.05}
    whole = gn.solve(suslov, gn.GNI(), n_steps=800, **options)
    half = gn.solve(suslov, gn.GNI(), n_steps=401, **options)
    joined = gn.resume(half, 399)
    for a, b in zip(whole.trail, joined.trail, strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.spoiled_from == joined.spoiled_from == measured(whole) > half.t[-1] * 0.5
    loaded = gn.resume(half.save(tmp_path / "half.nc"), 399, system=suslov, method="gni")
    assert loaded.trail is None
    assert loaded.spoiled_from == whole.spoiled_from
    short = whole.first(int(np.argmax(whole.t > whole.spoiled_from)))
    assert short.spoiled_from == measured(short)
    slow = gn.Event(lambda t, g, xi, lam: xi[1] - 0.5, name="slow")
    events = gn.solve(suslov, gn.GNI(), n_steps=800, events=slow, **options)
    np.testing.assert_array_equal(events.trail.worst, whole.trail.worst)
    two = [options["xi0"], [0.1, 1.0, 0.0]]
    several = gn.solve_ensemble(suslov, "gni", xi0=two, dt=0.05, n_steps=800, save_every=1)
    assert several[0].spoiled_from == whole.spoiled_from


@pytest.mark.slow
def test_a_run_that_fails_after_it_was_spoiled_says_so():
    """The torque ends at t = 2; a method without an alternating part says that and no more."""
    system = gn.System(
        SO3(),
        metric=[[1.0, 0.0, 0.2], [0.0, 1.5, 0.3], [0.2, 0.3, 2.0]],
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        base="point",
        forces=lambda t, x, xi, u: 0.01 * xi * jnp.sqrt(2.0 - t),
    )
    options = {"xi0": [2.0, 4.0, 0.0], "dt": 0.05, "n_steps": 100}
    with (
        pytest.warns(AlternationWarning),
        pytest.raises(gn.IntegrationError, match=r"; the run was spoiled before, from t = .*SymmetricProjection"),
    ):
        gn.solve(system, gn.GNI(start="average"), **options)
    with pytest.raises(gn.IntegrationError) as caught:
        gn.solve(system, **options)
    assert "spoiled" not in str(caught.value)

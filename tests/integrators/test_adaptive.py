"""Steps of variable length that a tolerance chooses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import Clock, Result, Variational, compose
from geonh.runs.start import as_start, first_node
from geonh.systems import rolling_bodies

SLEIGH = gn.systems.chaplygin_sleigh()
START = {"xi0": [0.8, -0.5, 0.0]}
CONTROLLED = gn.Adaptive(gn.RKMK(5), 1e-8)
METHODS = ["rkmk5", "rkmk8", "gauss4"]


def entry(name):
    found = gn.systems.catalogue[name]
    system = found.system()
    start = found.start(system)
    return system, {"xi0": start.xi0, "g0": start.g0, "controls": found.controls}, min(found.dt * found.n_steps, 20.0)


def apart(a, b):
    place, size = max(1, np.abs(a.g_vector[-1]).max()), 1 + np.abs(a.xi[-1]).max()
    return max(np.abs(a.g_vector[-1] - b.g_vector[-1]).max() / place, np.abs(a.xi[-1] - b.xi[-1]).max() / size)


def growth(system, start, t_end):
    """Factor by which a perturbation of the start grows over the run, at least 1."""
    exact, factors = gn.solve(system, **start, tolerance=1e-13, t_end=t_end), [1.0]
    for i in range(2):
        size = 1e-6 * (1 + np.abs(start["xi0"]).max())
        push = size * np.random.default_rng(i).normal(size=len(start["xi0"]))
        moved = system.project(start["g0"], start["xi0"] + push)
        g0, moved = (start["g0"], moved) if system.holonomic is None else moved
        other = gn.solve(system, **{**start, "g0": g0, "xi0": moved}, tolerance=1e-13, t_end=t_end)
        factors.append(apart(exact, other) / apart(exact.first(1), other.first(1)))
    return exact, max(factors)


def within_the_tolerance(name, tolerances, method=None):
    system, start, t_end = entry(name)
    exact, grown = growth(system, start, t_end)
    for tolerance in tolerances:
        run = gn.solve(system, method, **start, tolerance=tolerance, t_end=t_end)
        assert run.t[-1] == t_end
        assert apart(run, exact) < 10 * tolerance * grown
        assert np.abs(run.constraint_residual).max(initial=0.0) < 1e-11


@pytest.mark.parametrize(
    ("name", "method"),
    [("snakeboard", "rkmk5"), ("heavy-top", "rkmk5"), ("rolling-disc", "rkmk5"), ("suslov", "gauss4")],
)
@pytest.mark.quick("snakeboard-rkmk5")
def test_the_global_error_is_within_the_tolerance(name, method):
    within_the_tolerance(name, (1e-5, 1e-9), method)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", gn.systems.catalogue)
def test_the_global_error_is_within_the_tolerance_on_the_catalogue(name, method):
    smallest = () if method == "gauss4" else (1e-12,)  # of order 4, its many steps round to more than 1e-12
    within_the_tolerance(name, (1e-4, 1e-6, 1e-8, 1e-10, *smallest), method)


def solved(method="rkmk5", **options):
    return gn.solve(SLEIGH, method, **{**START, "tolerance": 1e-8, **options})


@pytest.fixture(scope="module", params=["rkmk5", pytest.param("rkmk8", marks=pytest.mark.slow), "gauss4"])
def method(request):
    return request.param


@pytest.fixture(scope="module")
def run(method):
    return solved(method, t_end=20.0)


def test_a_run_says_its_steps(run):
    assert "(the default for a tolerance)" in repr(gn.solve(SLEIGH, **START, tolerance=1e-8, t_end=1.0))
    assert f"{len(run)} nodes, t = 0 … 20 s, steps of 0.0" in repr(run)
    assert "np.float64" not in repr(run)
    assert run.t[0] == 0.0
    assert np.all(np.diff(run.t) > 0)
    assert np.ptp(np.diff(run.t)) > 0.04
    np.testing.assert_array_equal(run.k, np.arange(len(run)))


STIFFNESS, DRAG = 1.3, 0.4
DAMPED = gn.System(
    Translations(1),
    metric=[1.0],
    potential=lambda x: STIFFNESS * x[0] ** 2 / 2,
    forces=lambda t, x, xi, u: -DRAG * xi,
    name="damped oscillator",
)
REVERSIBLE = [name for name, entry in gn.methods.items() if entry.make().guarantees.steps == "reversible"]


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERSIBLE)
def test_forces_keep_the_global_error_within_the_tolerance(name):
    rate = np.sqrt(STIFFNESS - DRAG**2 / 4)
    for tolerance in (1e-4, 1e-6):
        given = {"g0": [1.0], "xi0": [0.0], "t_end": 3.0, "tolerance": tolerance}
        if name == "variational":
            with pytest.raises(ValueError, match="the nodes of Variational have impulses, half of each step beside"):
                gn.solve(DAMPED, name, **given)
            continue
        run = gn.solve(DAMPED, name, **given)
        decay = np.exp(-DRAG * run.t / 2)
        expected = decay * (np.cos(rate * run.t) + DRAG / 2 / rate * np.sin(rate * run.t))
        assert np.abs(run.g[:, 0] - expected).max() < 10 * tolerance


@pytest.mark.slow
def test_impulses_at_the_nodes_are_refused_with_a_tolerance():
    for method in (Variational(), compose(Variational(), "yoshida4")):
        with pytest.raises(
            ValueError, match="have impulses, half of each step beside them, which must be equally long"
        ):
            gn.solve(DAMPED, method, g0=[1.0], xi0=[0.0], t_end=1.0, tolerance=1e-4)
        swings = gn.System(Translations(2), metric=np.eye(2), holonomic=lambda x: jnp.stack([x @ x - 1.0]))
        with pytest.raises(ValueError, match="take SymmetricProjection"):
            gn.solve(swings, method, g0=[1.0, 0.0], xi0=[0.0, 1.0], t_end=1.0, tolerance=1e-4)
        free = gn.System(Translations(1), metric=[1.0], potential=lambda x: x[0] ** 2 / 2)
        run = gn.solve(free, method, g0=[1.0], xi0=[0.0], t_end=1.0, tolerance=1e-4)
        assert abs(run.g[-1, 0] - np.cos(1.0)) < 1e-3


@pytest.mark.quick("rkmk5")
def test_a_resumed_run_and_its_file_have_the_same_bits(run, method, tmp_path):
    seven = gn.Event(lambda t, g, xi, lam: t - 7.0, stop=True)
    part = solved(method, t_end=20.0, events=seven)
    assert 6.5 < part.t[-1] < 7.0
    np.testing.assert_array_equal(gn.resume(part, t_end=20.0, events=()).nodes.rows, run.nodes.rows)
    path = part.save(tmp_path / "part.nc")
    loaded = gn.Trajectory.load(path, system=SLEIGH)
    np.testing.assert_array_equal(loaded.t, part.t)
    np.testing.assert_array_equal(loaded.energy, part.energy)
    adaptive = gn.Adaptive(gn.methods[method].make(), 1e-8)
    more = gn.resume(path, t_end=20.0, system=SLEIGH, method=adaptive, events=())
    np.testing.assert_array_equal(more.nodes.rows, run.nodes.rows)
    np.testing.assert_array_equal(more.energy, run.energy)


@pytest.mark.quick("rkmk5")
def test_a_resumed_run_takes_its_shortened_step_again(run, method, tmp_path):
    longer = gn.resume(run, t_end=21.0)
    np.testing.assert_array_equal(longer.nodes.rows[: len(run) - 1], run.nodes.rows[:-1])
    assert 20.0 not in longer.t
    again = gn.resume(
        gn.resume(run.save(tmp_path / "run.nc"), t_end=20.5, system=SLEIGH, method=run.method), t_end=21.0
    )
    np.testing.assert_array_equal(again.nodes.rows, longer.nodes.rows)
    some = gn.resume(run, 5)
    np.testing.assert_array_equal(some.nodes.rows, gn.resume(run, t_end=40.0).nodes.rows[: len(some)])
    with pytest.raises(ValueError, match=r"leads away from t_end = 3"):
        gn.resume(run, t_end=3.0)


def test_saved_nodes_are_every_few_and_the_last(run, method):
    sparse = solved(method, t_end=20.0, save_every=10)
    np.testing.assert_array_equal(sparse.nodes.rows[:-1], run.nodes.rows[:-1:10])
    np.testing.assert_array_equal(sparse.nodes.rows[-1], run.nodes.rows[-1])


def test_the_number_of_steps_to_a_time_far_away_is_bounded():
    expected = []

    def progress(done, n_steps):
        expected.append(n_steps)
        raise KeyboardInterrupt

    assert solved(t_end=1e308, progress=progress).status is Result.INTERRUPTED
    assert expected == [2**53]


def test_backwards_in_time_it_returns(run, method):
    back = solved(method, xi0=run.xi[-1], g0=run.g[-1], t0=20.0, t_end=0.0)
    assert back.t[-1] == 0.0
    np.testing.assert_allclose(back.g[-1], np.zeros(3), atol=1e-7)


@pytest.mark.slow
def test_events_are_located_and_change_no_step(run, method):
    events = [
        gn.Event(lambda t, g, xi, lam: t - 1.234, name="time"),
        gn.Event(lambda t, g, xi, lam: t - 19.99, name="in the last step"),
        gn.Event(lambda t, g, xi, lam: xi[1], name="reversal"),
    ]
    seen = solved(method, t_end=20.0, events=events)
    np.testing.assert_array_equal(seen.nodes.rows, run.nodes.rows)
    np.testing.assert_allclose(seen.events["time"].t, 1.234, rtol=1e-13)
    np.testing.assert_allclose(seen.events["in the last step"].t, 19.99, rtol=1e-13)
    np.testing.assert_allclose(seen(seen.events["reversal"].t).xi[:, 1], 0.0, atol=1e-13)
    stop = gn.Event(lambda t, g, xi, lam: xi[1], name="reversal", stop=True)
    stopped = solved(method, t_end=20.0, events=stop)
    assert stopped.status is Result.EVENT
    np.testing.assert_array_equal(stopped.events["reversal"].t, seen.events["reversal"].t)


@pytest.mark.quick("gauss4")
def test_the_solution_between_the_nodes_is_as_accurate_as_they_are(run, method):
    times = np.linspace(0.0, 20.0, 57)
    exact = gn.solve(SLEIGH, "gauss6", **START, dt=0.005, t_eval=times)
    seen = solved(method, t_eval=times)
    np.testing.assert_array_equal(seen.t, times)
    assert np.abs(seen.g - exact.g).max() < 2e-8 * np.abs(exact.g).max()
    assert np.abs(seen.xi - exact.xi).max() < 1e-8
    np.testing.assert_array_equal(run(run.t).g, run.g)
    assert np.abs(seen.constraint_residual).max() < 1e-15


def slope_at_a_fixed_time(end):
    """Derivative of x at a time by the first angular velocity, by differences of fine runs."""
    h = 1e-4
    run = {w: gn.solve(SLEIGH, "gauss6", xi0=[w, -0.5, 0.0], dt=end / 400, n_steps=400) for w in (0.8 - h, 0.8 + h)}
    return (run[0.8 + h].g[-1, 1] - run[0.8 - h].g[-1, 1]) / (2 * h)


@pytest.mark.slow
def test_a_traced_run_has_the_same_bits_and_the_derivative_of_its_steps():
    def there(w):
        return gn.integrate(SLEIGH, CONTROLLED, xi0=jnp.array([w, -0.5, 0.0]), dt=0.01, n_steps=50)

    with gn.float64():
        traced, found = there(0.8), gn.solve(SLEIGH, CONTROLLED, **START, dt=0.01, n_steps=50)
        np.testing.assert_array_equal(traced.g, found.g)
        np.testing.assert_array_equal(traced.t, found.t)
        np.testing.assert_array_equal(traced.energy, found.energy)
        slope = jax.grad(lambda w: there(w).g[-1, 1])(0.8)
        forward = jax.jvp(lambda w: there(w).g[-1, 1], (0.8,), (1.0,))[1]
    np.testing.assert_allclose(slope, forward, rtol=1e-13)
    exact = slope_at_a_fixed_time(float(found.t[-1]))
    np.testing.assert_allclose(slope, exact, rtol=1e-6)


def test_the_first_step_and_the_longest_are_bounded():
    short = gn.solve(SLEIGH, **START, tolerance=1e-4, dt=1e-3, t_end=2.0)
    assert short.t[1] == 1e-3
    limited = gn.solve(SLEIGH, gn.Adaptive(gn.RKMK(5), 1e-4, max_step=0.05), **START, t_end=2.0)
    assert np.diff(limited.t).max() <= 0.05 + 1e-15
    assert len(limited) > 40


@pytest.mark.parametrize(("length", "speed"), [(1e-10, 1e2), (1e-10, 1e-6), (1.5e11, 3e4)])
@pytest.mark.parametrize("method", [gn.RKMK(8), gn.Gauss(2)])
@pytest.mark.quick("method0-1e-10-1e-06")
def test_units_may_be_those_of_molecules_and_planets(length, speed, method):
    """A harmonic oscillator in SI units, with sizes where numbers are small."""
    mass, rate = 1e-26, speed / length
    trap = gn.System(Translations(2), metric=mass * np.eye(2), potential=lambda x: mass * rate**2 / 2 * (x @ x))
    adaptive = gn.Adaptive(method, 1e-8, sizes=(min(length, 1.0), min(speed, 1.0)))
    run = gn.solve(trap, adaptive, g0=[length, 0.0], xi0=[0.0, speed], t_end=20 / rate)
    exact = length * np.array([np.cos(20.0), np.sin(20.0)])
    assert np.abs(run.g[-1] - exact).max() < 1e-6 * length
    assert len(run) < 3000
    with pytest.raises(ValueError, match="sizes must be positive"):
        gn.Adaptive(method, 1e-8, sizes=(1.0, 0.0))


@pytest.mark.parametrize(("method", "near"), [("rkmk5", 1e-12), ("rkmk8", 1e-12), ("gauss4", 2e-3)])
@pytest.mark.quick("rkmk5-1e-12", "rkmk8-1e-12")
def test_steps_shrink_where_the_wheels_of_the_snakeboard_meet(method, near):
    """At φ = π/2 the constraints are dependent; φ grows evenly."""
    board, phi, rate = gn.systems.snakeboard(), 1.2, 0.3
    g0 = np.zeros(3), np.array([0.0, phi])
    xi0 = board.project(g0, [-np.sin(phi), float(board.parameters["r"]) * np.cos(phi), 0.0, 0.3, rate])
    run = gn.solve(board, method, g0=g0, xi0=xi0, tolerance=1e-8, t_end=5.0, throw=False)
    assert abs(run.t[-1] - (np.pi / 2 - phi) / rate) < near
    assert run.status is (Result.RANK if method == "gauss4" else Result.STEP)
    assert ("the constraints became dependent" if method == "gauss4" else "the motion is singular") in run.message


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkmk8", "gauss4"])
def test_steps_shrink_as_eulers_disc_lies_down(method):
    """Moffatt's rate of the contact is √(4g/(r sin α)) at the inclination α."""
    disc, counts = gn.systems.eulers_disc(), []
    for alpha in (0.3, 0.03, 0.003):
        rate = np.sqrt(4 * 9.81 / 0.0375 * np.sin(alpha))
        g0, xi0 = rolling_bodies.start(disc, rolling_bodies._leaning(alpha), [0.0, rate, 0.0])
        run = gn.solve(disc, method, g0=g0, xi0=xi0, tolerance=1e-6, t_end=0.1)
        counts.append(len(run))
        assert np.abs(run.energy - run.energy[0]).max() < 1e-6 * abs(run.energy[0])
    ratios = np.divide(counts[1:], counts[:-1])
    assert np.all((ratios > 1.5) & (ratios < 6)), counts


@pytest.mark.slow
def test_steps_shrink_at_a_collision_and_the_run_ends_in_words():
    def attraction(x):
        return -1 / jnp.sqrt(x[0] ** 2 + x[1] ** 2)

    planet = gn.System(Translations(2), metric=np.eye(2), potential=attraction)
    fall = gn.solve(planet, g0=[1.0, 0.0], xi0=[0.0, 0.0], tolerance=1e-8, t_end=2.0, throw=False)
    assert fall.status is Result.STEP
    assert "the steps vanish" in fall.message
    np.testing.assert_allclose(fall.t[-1], np.pi / np.sqrt(8), atol=1e-6)  # time of the fall


# --- reversible steps ------------------------------------------------------------------------------------------

SOFTENING = 0.02


def softened(x):
    return -1 / jnp.sqrt(x @ x + SOFTENING**2)


PARTICLE = gn.System(
    Translations(3),
    metric=np.eye(3),
    potential=softened,
    distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]),
)
ORBIT = {"g0": [1.0, 0.0, 0.0], "xi0": [0.0, 0.3, 0.0]}
OSCILLATOR = gn.systems.contact_oscillator()


def time_scale(t, g, xi):
    return (g @ g + SOFTENING**2) ** 0.75


def drift(run):
    """Change of the energy along a line through it, and the largest deviation."""
    error = run.energy - run.energy[0]
    return abs(np.polyfit(run.t, error, 1)[0] * (run.t[-1] - run.t[0])), np.abs(error).max()


@pytest.mark.slow
def test_reversible_steps_keep_the_energy_of_a_close_encounter():
    run = gn.solve(PARTICLE, "gauss4", **ORBIT, tolerance=1e-3, t_end=400.0)
    lengths = np.diff(run.t)
    assert 6000 < len(run) < 9000
    assert lengths[:-1].max() > 100 * lengths[:-1].min()
    slope, error = drift(run)
    assert error < 5e-5  # of fixed steps 1e-4 with 80 000
    assert slope < 1.5e-5
    times = gn.solve(PARTICLE, "rkmk5", **ORBIT, tolerance=1e-4, t_end=400.0)
    assert drift(times)[0] > 3 * slope  # the controlled pair drifts


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gauss4", "midpoint", "lobatto4", "discrete-gradient", "suzuki4"])
def test_the_energy_does_not_drift_over_a_long_time(method):
    """A drift would be ten times as large at the end as after a tenth; a chaotic motion lets the energy wander."""
    start = gn.systems.catalogue["contact-oscillator"].start(OSCILLATOR)
    run = gn.solve(OSCILLATOR, method, g0=start.g0, xi0=start.xi0, tolerance=1.0, t_end=1e5, save_every=100)
    error, tenth = np.abs(run.energy - run.energy[0]), len(run) // 10
    assert error.max() < 5e-4
    assert error.max() < 1e-9 or error[-tenth:].max() < 3 * error[:tenth].max()


@pytest.mark.slow
def test_the_energy_of_close_encounters_does_not_drift_over_a_long_time():
    """By the known time scale: rare encounters are too close for the default."""
    run = gn.solve(PARTICLE, gn.Adaptive(gn.Gauss(2), 0.1, monitor=time_scale), **ORBIT, t_end=1e5, save_every=100)
    assert run.k[-1] < 3e6
    assert drift(run)[1] < 3e-4


@pytest.mark.slow
def test_a_monitor_may_be_given():
    adaptive = gn.Adaptive(gn.Gauss(2), 1e-3, monitor=time_scale)
    run = gn.solve(PARTICLE, adaptive, **ORBIT, t_end=100.0)
    nearest = np.argmin(np.linalg.norm(run.g, axis=1)[:-2])
    assert np.diff(run.t)[nearest] < 0.03 * np.diff(run.t)[:-1].max()
    assert drift(run)[1] < 1e-4
    with pytest.raises(TypeError, match=r"monitor takes \(t, g, xi\)"):
        gn.Adaptive(gn.Gauss(2), 1e-3, monitor=lambda t: t)
    with pytest.raises(ValueError, match="monitor is for reversible steps"):
        gn.Adaptive(gn.RKMK(5), 1e-3, monitor=lambda t, g, xi: 1.0)
    with pytest.raises(ValueError, match="max_step is for controlled steps"):
        gn.Adaptive(gn.Gauss(2), 1e-3, max_step=1.0)


@pytest.mark.slow
def test_a_monitor_that_is_no_time_scale_is_refused():
    start = {**START, "t_end": 1.0}
    with pytest.raises(ValueError, match="monitor asks for index 7"):
        gn.solve(SLEIGH, gn.Adaptive(gn.Gauss(2), 1e-3, monitor=lambda t, g, xi: 1.0 + g[7] ** 2), **start)
    with pytest.raises(ValueError, match=r"monitor must return a number, got shape \(3,\)"):
        gn.solve(SLEIGH, gn.Adaptive(gn.Gauss(2), 1e-3, monitor=lambda t, g, xi: xi), **start)
    run = gn.solve(SLEIGH, gn.Adaptive(gn.Gauss(2), 1e-3, monitor=lambda t, g, xi: xi[1]), **start, throw=False)
    assert run.status is Result.STEP
    assert "a monitor is not positive" in run.message


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stiffness", [0.0, 2.0])
@pytest.mark.quick("0.0-rkmk5")
def test_a_body_at_rest_stays_there(method, stiffness):
    body = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: stiffness * x @ x)
    run = gn.solve(body, method, xi0=[0.0, 0.0], tolerance=1e-6, t_end=20.0)
    assert run.t[-1] == 20.0
    np.testing.assert_array_equal(run.g, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [gn.Gauss(2), gn.SymmetricProjection(), gn.compose(gn.Gauss(1), "suzuki4")])
def test_node_and_density_return_to_rounding(inner):
    method = gn.Adaptive(inner, 1e-4)
    clock = Clock(np.float64(0.0), np.float64(0.01), None, np.float64(100.0))
    begin = as_start(PARTICLE, method, **{"xi0": ORBIT["xi0"], "g0": ORBIT["g0"]}, dt=0.01, t0=0.0, n_steps=1,
                       controls=None)  # fmt: skip
    first = first_node(PARTICLE, method, begin._replace(clock=clock)).state
    back_clock = clock._replace(dt=-clock.dt, end=None)
    with gn.float64():
        forward = jax.jit(lambda state: method.next_node(PARTICLE, clock, state))
        back = jax.jit(lambda state: method.next_node(PARTICLE, back_clock, state))
        states = [jax.tree.map(jnp.asarray, first)]
        for _ in range(150):
            states.append(forward(states[-1]))
        before, state = states[-2:]
        assert int(state.status) == 0
        state = state.reversed(method.reversed_memory(before, state))
        for expected in states[-2::-1]:
            state = back(state)
            assert abs(state.g - expected.g).max() < 1e-11
        weight, expected = state.memory.weight, states[0].memory.weight
    lengths = np.diff([float(s.memory.t) for s in states])
    assert lengths.max() > 1.2 * lengths.min()
    np.testing.assert_allclose(state.memory.t, 0.0, atol=1e-12)
    # density of the step before the first: the mirror image of the one after it, since the orbit begins at its apex
    np.testing.assert_allclose(weight, expected, rtol=1e-10)


@pytest.mark.slow
def test_the_derivative_of_reversible_steps_is_that_of_the_scheme():
    method = gn.Adaptive(gn.Gauss(2), 1e-8)

    def there(w):
        run = gn.integrate(SLEIGH, method, xi0=jnp.array([w, -0.5, 0.0]), dt=0.01, n_steps=60)
        return jnp.stack([run.g[-1, 1], run.t[-1]])

    with gn.float64():
        slope = jax.jacrev(there)(0.8)
        np.testing.assert_allclose(slope, jax.jacfwd(there)(0.8), rtol=1e-12)
        end = float(there(0.8)[1])
        assert abs(slope[1]) > 0.01  # the time of a node depends on the start
        run = gn.solve(SLEIGH, "gauss6", **START, dt=end / 400, n_steps=400)
        speed = run.xi[-1, 1] * np.cos(run.g[-1, 0]) - run.xi[-1, 2] * np.sin(run.g[-1, 0])
    np.testing.assert_allclose(slope[0] - speed * slope[1], slope_at_a_fixed_time(end), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("gni", {"tolerance": 1e-6, "t_end": 1.0}, "GNI has steps of one length: .* take RKMK"),
        (CONTROLLED, {"tolerance": 1e-6, "t_end": 1.0}, "has a tolerance of its own already"),
        (None, {"tolerance": -1.0, "t_end": 1.0}, "tolerance must be positive"),
        (None, {"tolerance": 1e-60, "t_end": 1.0}, "tolerance must be at least 1e-18"),
        ("gauss4", {"tolerance": 1e-60, "t_end": 1.0}, "tolerance must be at least 1e-18"),
        (None, {"tolerance": 1e-6, "n_steps": 10}, "n_steps of variable length need dt"),
        (None, {"tolerance": 1e-6, "t_end": 1.0, "dt": -0.1}, "dt = -0.1 leads away from t_end = 1"),
        (None, {"tolerance": 1e-6}, "are both missing"),
        (None, {"n_steps": 10}, "dt, the time step, is missing: pass it, or tolerance"),
        (None, {"tolerance": 1e-6, "t_eval": [0.1, 0.2], "t_end": 1.0, "save_every": 2}, "save_every=1"),
    ],
)
def test_contradictions_are_told(method, options, words):
    with pytest.raises(ValueError, match=words):
        gn.solve(SLEIGH, method, **START, **options)


def test_others_say_that_they_have_equal_steps():
    with pytest.raises(ValueError, match="here they are of one length, as of RKMK"):
        gn.analysis.lyapunov_exponents(SLEIGH, np.zeros(3), START["xi0"], dt=0.1, n_steps=10, method=CONTROLLED)
    with pytest.raises(ValueError, match="cannot be composed"):
        gn.compose(CONTROLLED, "yoshida4")
    with pytest.raises(TypeError, match="controls as a function of t, such as lambda"):
        gn.solve(
            gn.System(Translations(1), metric=np.eye(1), forces=lambda t, x, xi, u: u),
            gn.RKMK(5), xi0=[0.0], tolerance=1e-6, t_end=1.0, controls=np.zeros((3, 1)),
        )  # fmt: skip


# --- traced runs to an end ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "rkmk5", "gauss4"])
def test_a_traced_run_to_an_end_has_the_bits_of_solve_and_derivatives_at_that_time(method):
    def there(w, t_end, n=500):
        return gn.integrate(SLEIGH, method, xi0=jnp.stack([w, -0.5, 0.0]), tolerance=1e-8, t_end=t_end, n_steps=n)

    run = gn.solve(SLEIGH, method, **START, tolerance=1e-8, t_end=20.0)
    with gn.float64():
        traced = there(0.8, 20.0)
        np.testing.assert_array_equal(traced.g[: len(run)], run.g)
        np.testing.assert_array_equal(traced.t[: len(run)], run.t)
        np.testing.assert_array_equal(traced.t[len(run) :], 20.0)
        assert traced.success
        end = jax.jit(lambda w, t_end: there(w, t_end).g[-1])
        slope, speed = jax.jacrev(end, (0, 1))(0.8, 20.0)
        np.testing.assert_allclose(slope, jax.jacfwd(end)(0.8, 20.0), rtol=1e-12)
        differences = [(end(0.8 + d, 20.0) - end(0.8 - d, 20.0)) / (2 * d) for d in (2e-4, 1e-4)]
        np.testing.assert_allclose(slope, (4 * differences[1] - differences[0]) / 3, rtol=2e-6)
        cos, sin = np.cos(run.g[-1, 0]), np.sin(run.g[-1, 0])
        omega, v, w = run.xi[-1]
        np.testing.assert_allclose(speed, [omega, cos * v - sin * w, sin * v + cos * w], rtol=1e-6)
        short = there(0.8, 20.0, 5)
        assert Result(int(short.status[-1])) is Result.UNFINISHED
        assert not short.success
        batch = jax.vmap(lambda w: there(w, 5.0))(jnp.array([0.1, 0.8, 2.0]))
        assert len(set(batch.k[:, -1].tolist())) == 3
        np.testing.assert_array_equal(batch.g[1, -1], there(0.8, 5.0).g[-1])


def test_traced_runs_say_what_they_need():
    with gn.float64():
        with pytest.raises(ValueError, match="n_steps is missing: a traced run has a known number"):
            gn.integrate(SLEIGH, **START, tolerance=1e-6, t_end=1.0)
        with pytest.raises(ValueError, match=r"dt = -0.1 leads away"):
            gn.integrate(SLEIGH, **START, tolerance=1e-6, dt=-0.1, t_end=1.0, n_steps=10)
        with pytest.raises(ValueError, match="n_steps of variable length need dt"):
            gn.integrate(SLEIGH, **START, tolerance=1e-6, n_steps=10)

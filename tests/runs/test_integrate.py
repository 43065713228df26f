"""integrate: the bits of solve, and derivatives of runs against plain JAX, differences and linear motions."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.engine import backward, compiled, operations
from geonh.engine.native import machine
from geonh.groups import SE2, SO3, Translations
from geonh.integrators.validity import Result
from geonh.systems import catalogue


def metric(x, p):
    return [[1 + p["a"] ** 2, 0.0, p["a"]], [0.0, 1.0, 0.0], [p["a"], 0.0, 1.0]]


def push(t, x, xi, u):
    return jnp.stack([u[0], u[1] - 0.1 * xi[1], 0.0 * t])


BLADE = gn.Distribution([[0.0, 0.0, 1.0]])
DEFAULT = gn.SymmetricProjection()


def family(a, **options):
    """A sleigh whose offset is traced; its functions are always the same, so that nothing is compiled twice."""
    return gn.System(SE2(), metric=metric, distribution=BLADE, parameters={"a": a}, base="point", **options)


def heading(a, omega, n_steps=20, method=DEFAULT, **options):
    xi0 = jnp.stack([omega, -0.5, 0.0 * omega])
    return gn.integrate(family(a), method, xi0=xi0, dt=0.05, n_steps=n_steps, **options).g[-1, 0]


def of_catalogue(name, method, n_steps, **options):
    """Nodes of a run as a function of the numbers of the system, the start, dt and t0."""
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    real = {key: jnp.asarray(value) for key, value in system.parameters.items() if np.asarray(value).dtype.kind == "f"}

    def nodes(parameters, xi0, dt, t0):
        own = eqx.tree_at(lambda s: s.parameters, system, {**system.parameters, **parameters})
        return gn.integrate(
            own, method, g0=start.g0, xi0=xi0, dt=dt, t0=t0, n_steps=n_steps, controls=entry.controls, **options
        )

    return nodes, (real, jnp.asarray(start.xi0), jnp.asarray(entry.dt), jnp.asarray(0.0))


def score(nodes):
    """A number that all nodes enter, with weights that are not alike."""
    arrays = [*jax.tree.leaves(nodes.g), nodes.p_plus, nodes.p_minus]
    return sum(jnp.sum(jnp.sin(x) * jnp.cos(jnp.arange(x.size).reshape(x.shape))) for x in arrays)


def in_plain_jax(monkeypatch):
    def plain(self, arrays, x):
        return self.plain(list(map(jnp.asarray, arrays)), jnp.asarray(x))

    monkeypatch.setattr(operations.Operation, "__call__", plain)


def agree(result, wanted, tolerance):
    for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0.0)))


# --- values --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["projected", "gni", "rkmk4"])
@pytest.mark.quick("gni")
def test_the_bits_of_solve(method):
    name = "snakeboard"
    entry = catalogue[name]
    start = entry.start(entry.system())
    run = gn.solve(
        entry.system(),
        method,
        g0=start.g0,
        xi0=start.xi0,
        dt=entry.dt,
        n_steps=60,
        save_every=5,
        controls=entry.controls,
    )
    nodes, at = of_catalogue(name, method, 60, save_every=5)
    for result in (nodes(*at), jax.jit(nodes)(*at)):
        for mine, its in zip(result.g, run.g, strict=True):
            np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(result.p_minus, run.p_minus)
        np.testing.assert_array_equal(result.t, run.t)
        assert not result.status.any()
        assert result.observables.keys() == run.observables.keys()
        for word, values in run.observables.items():
            np.testing.assert_allclose(
                result.observables[word], values, rtol=0, atol=1e-14 * (1 + np.abs(values).max())
            )
        np.testing.assert_allclose(result.alternation, run.alternation, rtol=1e-12, atol=1e-14)
        for word in ("g_vector", "k", "xi", "energy", "multipliers", "impulse_multipliers", "constraint_residual"):
            np.testing.assert_allclose(getattr(result, word), getattr(run, word), rtol=1e-12, atol=1e-13)
        assert result.success
        assert len(result) == len(run)


@pytest.mark.slow
def test_observables_are_read_inside_of_traces_and_after_them():
    def run(a, w):
        return gn.integrate(family(a), "gni", xi0=jnp.stack([w, -0.5, 0.0 * w]), dt=0.05, n_steps=12, save_every=4)

    def last(a, w):
        nodes = run(a, w)
        return nodes.energy[-1] + nodes.xi[-1, 0] + nodes.alternation[-1]

    a, w = jnp.array([0.1, 0.2, 0.3]), jnp.array([0.4, 0.8])
    alone = [[run(x, y) for y in w] for x in a]
    together = jax.jit(jax.vmap(jax.vmap(run, (None, 0)), (0, None)))(a, w)
    assert (together.energy.shape, together.xi.shape, len(together)) == ((3, 2, 4), (3, 2, 4, 3), 4)
    for name in ("energy", "xi", "multipliers", "alternation", "g_vector", "constraint_residual"):
        wanted = [[getattr(one, name) for one in row] for row in alone]
        np.testing.assert_allclose(getattr(together, name), wanted, rtol=1e-14, atol=1e-15)
    assert together.success.all()
    assert together.success.shape == (3, 2)
    one = jax.tree.map(lambda x: x[1, 0], together)  # a member, as any pytree's
    np.testing.assert_array_equal(one.energy, alone[1][0].energy)
    first = alone[0][0]
    np.testing.assert_array_equal(jax.jit(lambda: first.energy)(), first.energy)  # nothing of the trace is kept
    assert first.energy is first.energy
    agree(jax.jacfwd(last)(0.2, 0.8), jax.grad(last)(0.2, 0.8), 1e-10)
    slope = (last(0.2 + 1e-5, 0.8) - last(0.2 - 1e-5, 0.8)) / 2e-5
    np.testing.assert_allclose(jax.grad(last)(0.2, 0.8), slope, rtol=1e-6)


def test_observables_may_be_asked_for_as_before():
    nodes = gn.integrate(family(0.2), "gni", xi0=[0.8, -0.5, 0.0], dt=0.05, n_steps=3, observables=True)
    np.testing.assert_array_equal(nodes.observables["energy"], nodes.energy)


@pytest.mark.slow
def test_members_have_the_bits_of_their_own_runs_and_failures_are_masked():
    omegas, offsets = jnp.array([0.2, 0.5, 0.8]), jnp.array([0.1, 0.2])
    together = jax.jit(jax.vmap(jax.vmap(heading, (None, 0)), (0, None)))(offsets, omegas)
    wanted = [
        [gn.solve(family(a), DEFAULT, xi0=[w, -0.5, 0], dt=0.05, n_steps=20).g[-1, 0] for w in omegas] for a in offsets
    ]
    np.testing.assert_array_equal(together, wanted)
    wall = gn.System(Translations(1), metric=np.eye(1), potential=lambda x: jnp.sqrt(1.0 - x[0]))

    def member(v, save_every):
        return gn.integrate(wall, gn.GNI(), xi0=v[None], dt=0.01, n_steps=200, save_every=save_every)

    every = jax.vmap(lambda v: member(v, 1))(jnp.array([-0.5, 1.0]))
    assert every.status[0, -1] == 0
    failed = np.flatnonzero(every.status[1])
    assert len(failed)
    assert np.all(np.isfinite(every.g))
    np.testing.assert_array_equal(every.g[1, failed], np.broadcast_to(every.g[1, failed[0] - 1], (len(failed), 1)))
    some = jax.vmap(lambda v: member(v, 100))(jnp.array([-0.5, 1.0]))  # the last good node need not be a saved one
    np.testing.assert_array_equal(some.g[:, 1:], every.g[:, 100::100])
    np.testing.assert_array_equal(some.status, every.status[:, ::100])


@pytest.mark.slow
def test_threads_of_xla_may_be_in_single_precision():
    """XLA calls the engine in threads of its own, where ``float64`` is not entered; so is this call."""
    at = jnp.asarray(0.2), jnp.asarray(0.8)
    compiled = jax.jit(jax.value_and_grad(heading)).lower(*at).compile()
    wanted = compiled(*at)
    with jax.enable_x64(False):
        result = compiled(*at)
    agree(result, wanted, 0)


@pytest.mark.slow
def test_other_lengths_compile_nothing(monkeypatch):
    jax.grad(heading)(0.2, 0.8, 20)
    monkeypatch.setattr(machine, "compiled", lambda *args: pytest.fail("written again"))
    jax.grad(heading)(0.3, 0.7, 33)


# --- derivatives ---------------------------------------------------------------------------------------------
EVERY = [
    (name, method)
    for name in (
        "suslov",
        "chaplygin-sphere",
        "snakeboard",
        "roller-racer",
        "heavy-top",
        "contact-oscillator-nonreversible",
    )
    for method in ("projected", "gni", "dla", "rattle", "lobatto4", "gauss4", "rkmk4", "discrete-gradient", "suzuki4")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), EVERY)
def test_derivatives_are_those_of_plain_jax(name, method, monkeypatch):
    nodes, at = of_catalogue(name, method, 12)
    if (name, method) == ("chaplygin-sphere", "discrete-gradient"):
        with pytest.raises(ValueError, match="its constraints are affine"):
            nodes(*at)
        return
    together = jax.jit(jax.value_and_grad(lambda *at: score(nodes(*at)), (0, 1, 2, 3)))
    forwards = jax.jit(jax.jacfwd(lambda xi0: score(nodes(at[0], xi0, *at[2:]))))
    result = together(*at), forwards(at[1])
    in_plain_jax(monkeypatch)
    wanted = jax.jit(jax.value_and_grad(lambda *at: score(nodes(*at)), (0, 1, 2, 3)))(*at)
    agree(result[0], wanted, 1e-9)
    agree(result[1], wanted[1][1], 1e-9)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.quick("reverse")
def test_derivatives_against_finite_differences(mode):
    differentiate = jax.jacfwd if mode == "forward" else jax.grad
    for argument in (0, 1):
        at = [jnp.asarray(0.2), jnp.asarray(0.8)]
        step = np.eye(2)[argument] * 1e-5
        run = jax.jit(heading)
        central = (run(at[0] + step[0], at[1] + step[1]) - run(at[0] - step[0], at[1] - step[1])) / 2e-5
        np.testing.assert_allclose(jax.jit(differentiate(heading, argument))(*at), central, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [2, 65, 130])
def test_derivatives_do_not_depend_on_what_is_kept(save_every, monkeypatch):
    n_steps = 260
    wanted = jax.value_and_grad(heading)(0.2, 0.8, n_steps)
    agree(jax.value_and_grad(heading)(0.2, 0.8, n_steps, save_every=save_every), wanted, 1e-13)
    monkeypatch.setattr(backward, "BLOCK", 7)  # runs are cut, and cut again
    agree(jax.value_and_grad(heading)(0.2, 0.8, n_steps, save_every=save_every), wanted, 1e-13)


@pytest.mark.slow
def test_derivatives_of_members_are_their_own():
    offsets = jnp.array([0.1, 0.2, 0.35, 0.4, 0.5])
    wanted = [jax.value_and_grad(heading)(a, 0.8) for a in offsets]
    agree(
        jax.jit(jax.vmap(jax.value_and_grad(heading), (0, None)))(offsets, 0.8),
        jax.tree.map(lambda *x: jnp.stack(x), *wanted),
        0,
    )
    total = jax.grad(lambda w: jax.vmap(heading, (0, None))(offsets, w).sum())(0.8)  # what members share is summed
    np.testing.assert_allclose(total, sum(jax.grad(heading, 1)(a, 0.8) for a in offsets), rtol=1e-14)
    saved = jax.vmap(jax.grad(lambda a: heading(a, 0.8, 130, save_every=65)))(offsets)
    np.testing.assert_allclose(saved, [jax.grad(heading)(a, 0.8, 130) for a in offsets], rtol=1e-13)


@pytest.mark.slow
def test_tangents_of_members_are_their_own():
    offsets, pushed = jnp.array([0.1, 0.2, 0.35]), lambda a, w: jax.jvp(heading, (a, w), (1.0, -0.5))
    together = jax.jit(jax.vmap(pushed, (0, None)))(offsets, 0.8)
    agree(together, jax.tree.map(lambda *x: jnp.stack(x), *(pushed(a, 0.8) for a in offsets)), 0)


def test_derivatives_are_those_of_the_variational_equation():
    """A pendulum: of the motion's end by its start and its length, in both modes, against y, Y in q̈ = −p sin q."""

    def rates(t, y):
        (q, v, p), Y = y[:3], y[3:].reshape(3, 3)
        A = np.array([[0.0, 1.0, 0.0], [-p * np.cos(q), 0.0, -np.sin(q)], [0.0, 0.0, 0.0]])
        return np.concatenate([[v, -p * np.sin(q), 0.0], (A @ Y).ravel()])

    at = np.array([0.7, 0.4, 1.3])
    begin = np.concatenate([at, np.eye(3).ravel()])
    wanted = solve_ivp(rates, (0, 5), begin, "DOP853", rtol=1e-13, atol=1e-13).y[3:, -1].reshape(3, 3)[:2]

    def end(y):
        system = gn.System(
            Translations(1), metric=np.eye(1), potential=lambda x, p: -p["k"] * jnp.cos(x[0]), parameters={"k": y[2]}
        )
        run = gn.integrate(system, gn.RKMK(6), g0=y[:1], xi0=y[1:2], dt=0.01, n_steps=500, save_every=100)
        return jnp.stack([run.g[-1, 0], run.p_minus[-1, 0]])

    for derivative in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(derivative(end))(jnp.asarray(at)), wanted, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_derivatives_by_controls_at_the_nodes():
    u = jnp.asarray(np.random.default_rng(1).normal(size=(13, 2)))

    def reached(u):
        return score(
            gn.integrate(family(0.2, forces=push), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.05, n_steps=12, controls=u)
        )

    result, h = jax.grad(reached)(u), 1e-4
    for along in np.random.default_rng(2).normal(size=(3, 13, 2)):
        near, far = (reached(u + k * h * along) - reached(u - k * h * along) for k in (1, 2))
        np.testing.assert_allclose(np.sum(result * along), (8 * near - far) / (12 * h), rtol=1e-9)


def test_derivatives_of_observables():
    def measured(a):
        xi0 = jnp.array([0.8, -0.5, 0.0])
        run = gn.integrate(family(a), DEFAULT, xi0=xi0, dt=0.05, n_steps=10, observables=True)
        seen = run.observables
        return jnp.sum(seen["energy"]) + jnp.sum(seen["multipliers"] ** 2) + jnp.sum(seen["xi"][-1])

    central = (measured(0.2 + 1e-5) - measured(0.2 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(measured)(0.2), central, atol=1e-8)


@pytest.mark.slow
def test_steps_that_fail_have_no_derivatives():
    """A particle thrown at a wall: before it the derivatives of free flight, after it those of the last node."""
    wall = gn.System(Translations(1), metric=np.eye(1), potential=lambda x: jnp.where(x[0] < 1, 0, jnp.sqrt(1 - x[0])))

    def position(v):
        return gn.integrate(wall, gn.GNI(), xi0=v[None], dt=0.1, n_steps=30).g[:, 0]

    status = gn.integrate(wall, gn.GNI(), xi0=[0.5], dt=0.1, n_steps=30).status
    last = np.flatnonzero(status == 0)[-1]
    assert 15 < last < 25
    wanted = 0.1 * np.minimum(np.arange(31), last)
    for result in (jax.jacrev(position), jax.jacfwd(position), lambda v: jax.vmap(jax.jacrev(position))(v[None])[0]):
        np.testing.assert_allclose(result(jnp.asarray(0.5)), wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.slow
def test_the_derivative_of_a_linear_motion_is_exact():
    """An oscillator by the leapfrog rule: the derivative of the run is the matrix power that it is."""
    n, h = 1000, 0.1
    oscillator = gn.System(Translations(1), metric=np.eye(1), potential=lambda x: 0.5 * x[0] ** 2)

    def end(start):
        run = gn.integrate(oscillator, gn.GNI(), g0=start[:1], xi0=start[1:], dt=h, n_steps=n)
        return jnp.stack([run.g[-1, 0], (run.p_plus + run.p_minus)[-1, 0] / 2])

    kick, drift = np.array([[1.0, 0.0], [-h / 2, 1.0]]), np.array([[1.0, h], [0.0, 1.0]])
    wanted = np.linalg.matrix_power(kick @ drift @ kick, n)
    for result in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(result(end)(jnp.array([0.3, 0.4])), wanted, atol=1e-11)


def end_from(xi0, method):
    system = gn.System(SO3(), metric=np.array([1.0, 2.0, 3.0]), base="point")
    run = gn.integrate(system, method, xi0=xi0, dt=0.1, n_steps=5)
    return jnp.sum(run.g[-1] ** 2 * np.arange(9).reshape(3, 3))


@pytest.mark.slow
def test_gradient_at_rest_is_finite():
    assert np.all(np.isfinite(jax.grad(end_from)(jnp.zeros(3), gn.GNI(retraction="exp"))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gni", "euler-ab"])
def test_gradient_where_nothing_alternates(name):
    """A sleigh that goes straight ahead: the size of the part that alternates is a root of zero."""
    system = catalogue["chaplygin-sleigh"].system()

    def energy(speed):
        xi0 = speed * jnp.array([0.0, 1.0, 0.0])
        return gn.integrate(system, name, xi0=xi0, dt=0.05, n_steps=10).energy[-1]

    assert abs(jax.grad(energy)(1.0) - 2 * energy(1.0)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("method", [gn.GNI(retraction="exp"), gn.SymmetricProjection()])
def test_second_derivatives(method):
    assert np.all(np.isfinite(jax.hessian(end_from)(jnp.zeros(3), method)))
    at, h = jnp.array([0.3, -0.2, 0.5]), 1e-5
    slope = jax.grad(end_from)
    central = jnp.stack([(slope(at + h * e, method) - slope(at - h * e, method)) / (2 * h) for e in np.eye(3)])
    for hessian in (jax.hessian, lambda f: jax.jacfwd(jax.jacfwd(f))):
        np.testing.assert_allclose(hessian(end_from)(at, method), central, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_a_program_for_an_accelerator_does_not_call_the_host():
    members = jax.jit(jax.vmap(jax.grad(lambda a, omega: heading(a, omega, method="gni")), (0, None)))
    program = jax.export.export(members, platforms=["cuda"])(jnp.zeros(3), 0.8).mlir_module()
    assert "stablehlo.while" in program
    assert "callback" not in program


def test_members_and_derivatives_on_an_accelerator():
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX sees no accelerator here")
    offsets = jnp.linspace(0.1, 0.5, 8)
    together = jax.jit(jax.vmap(jax.value_and_grad(heading), (0, None)))
    wanted = together(offsets, 0.8)
    with jax.default_device(device):
        result = together(jax.device_put(offsets, device), 0.8)
    assert result[0].devices() == {device}
    agree(jax.device_get(result), jax.device_get(wanted), 1e-11)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geonh.engine.compiled.EngineWarning")
def test_without_the_native_engine(monkeypatch):
    by_gni = functools.partial(heading, n_steps=5, method="gni")
    wanted = jax.value_and_grad(by_gni)(0.2, 0.8)
    monkeypatch.setattr(compiled.native, "available", lambda: False)
    caches = compiled.loop_of, compiled.map_of, compiled.lanes_of
    for made in caches:
        made.cache_clear()
    agree(jax.value_and_grad(by_gni)(0.2, 0.8), wanted, 1e-12)
    for made in caches:
        made.cache_clear()


@pytest.mark.parametrize("transformed", [jax.jit, jax.grad], ids=["jit", "grad"])
@pytest.mark.parametrize("what", ["potential", "controls"])
def test_a_function_that_closes_over_what_is_traced_is_refused_in_words(what, transformed):
    def reached(k):
        functions = {"potential": lambda x: k * x @ x, "forces": lambda t, x, xi, u: u * xi}
        own = {"potential": "potential", "controls": "forces"}[what]
        system = gn.System(Translations(1), metric=[1.0], **{own: functions[own]})
        controls = (lambda t: k * t) if what == "controls" else None
        return gn.integrate(system, gn.GNI(), xi0=[1.0], g0=[0.5], dt=0.1, n_steps=2, controls=controls).g[-1, 0]

    with gn.float64(), pytest.raises(TypeError, match="closes over a value that is being traced"):
        transformed(reached)(2.0)


def test_controls_with_a_value_that_is_traced():
    system = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: jnp.stack([u]))

    given = {"xi0": [0.3], "g0": [0.0], "dt": 0.1, "n_steps": 4}

    def reached(w):
        drive = jax.tree_util.Partial(lambda w, t: w * t, w)
        return gn.integrate(system, gn.GNI(), **given, controls=drive).g

    with gn.float64():
        result = jax.jit(reached)(2.0)
    np.testing.assert_array_equal(result, gn.solve(system, gn.GNI(), **given, controls=lambda t: 2.0 * t).g)


def test_no_members():
    with gn.float64():
        assert jax.vmap(jax.grad(lambda a: heading(a, 0.5)))(jnp.zeros(0)).shape == (0,)
        assert jax.jit(jax.vmap(jax.vmap(lambda a: heading(a, 0.5))))(jnp.zeros((2, 0))).shape[:2] == (2, 0)


@pytest.mark.quick("1.0")
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e6])
def test_a_place_in_a_trace_is_judged_in_any_unit(length):
    circle = gn.System(
        Translations(2),
        metric=np.eye(2),
        holonomic=lambda x, p: (x @ x - p["L"] ** 2)[None],
        parameters={"L": length},
    )

    @jax.jit
    def status(angle, off):
        way = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        options = {"g0": (1 + off) * length * way, "xi0": length * jnp.stack([-way[1], way[0]])}
        return gn.integrate(circle, **options, dt=0.01, n_steps=2).status[-1]

    for angle in np.linspace(0, 3, 7):
        assert int(status(angle, 0.0)) == 0
        assert int(status(angle, 1e-3)) == Result.START


@pytest.mark.slow
def test_a_start_in_a_trace_that_is_none_is_told():
    """Off the constraint by more than differences are; there no derivative flows."""
    sleigh = gn.systems.chaplygin_sleigh()

    def run(aside):
        return gn.integrate(sleigh, xi0=jnp.stack([0.8, -0.5, aside]), dt=0.01, n_steps=5)

    for aside, status in ((0.0, 0), (1e-6, 0), (0.3, int(Result.START))):
        nodes = jax.jit(run)(aside)
        np.testing.assert_array_equal(nodes.status, status)
        slope = jax.grad(lambda a: run(a).g[-1, 0])(aside)
        assert (float(slope) != 0.0) == (status == 0)
    members = jax.jit(jax.vmap(run))(jnp.array([0.3, 0.0]))
    np.testing.assert_array_equal(members.status[:, -1], [int(Result.START), 0])


def test_a_start_in_a_trace_off_its_group_or_past_half_a_turn_is_told():
    body = gn.System(SO3(), metric=np.array([1.0, 2.0, 3.0]))

    @jax.jit
    def status(size, dt):
        options = {"g0": size * jnp.eye(3), "xi0": np.array([0.1, 0.2, 2.0])}
        return gn.integrate(body, "rk4", dt=dt, n_steps=2, **options).status[-1]

    with gn.float64():
        result = [int(status(size, dt)) for size, dt in ((1.0, 1.5), (1 + 1e-7, 0.1), (1.01, 0.1), (1.0, 1.6))]
    assert result == [0, 0, Result.START, Result.START]


@pytest.mark.slow
def test_a_batch_has_its_base_points_and_says_how_many_runs_it_has():
    system = catalogue["veselova"].system()
    begin = catalogue["veselova"].start(system)

    def run(scale):
        return gn.integrate(system, g0=begin.g0, xi0=scale * np.asarray(begin.xi0), dt=0.01, n_steps=4)

    alone = gn.solve(system, g0=begin.g0, xi0=begin.xi0, dt=0.01, n_steps=4)
    with gn.float64():
        one, many = run(1.0), jax.vmap(jax.vmap(run))(jnp.array([[1.0, 0.5, 400.0]]))
        inside = jax.jit(lambda scale: run(scale).x)(1.0)
    for x in (one.x, inside, jax.tree.map(lambda a: a[0, 0], many.x)):
        jax.tree.map(np.testing.assert_array_equal, x, alone.x)
    assert repr(one).endswith(": 5 nodes, as JAX arrays, success")
    assert repr(many).endswith(": a batch of [1, 3] runs, 5 nodes each, as JAX arrays, 1 of 3 failed")

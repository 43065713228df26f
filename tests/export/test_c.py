"""The object code for C: the bits of ``solve``, in a program of C and of C++, from any number of runs at once."""

import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import COMPILER, CPP, Linked, needs_compiler

import geonh as gn
from geonh.integrators.validity import Result
from geonh.systems import catalogue

pytestmark = needs_compiler
FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
N = 50


def built_of(name, method, folder, **parameters):
    entry = catalogue[name]
    system = entry.system(**parameters)
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "controls": entry.controls}
    return gn.build(system, method, folder, **given), gn.solve(system, method, n_steps=N, **given)


def last(run):
    """What is observed at the last node of a run, in the order of the exported vectors, as far as it is common."""
    leaves = [np.ravel(leaf[-1]) for leaf in jax.tree.leaves(run.g)]
    return np.concatenate([run.t[-1:], *leaves, run.xi[-1], run.p[-1], run.energy[-1:], run.multipliers[-1]])


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("snakeboard", "gni"),
        ("chaplygin-sphere", None),
        ("suslov", "rkmk4"),
        ("controlled-snakeboard", "projected"),
    ],
)
@pytest.mark.quick("suslov-rkmk4")
def test_programs_in_c_and_in_cpp_print_the_bits_of_solve(name, method, tmp_path):
    built, run = built_of(name, method, tmp_path / "robot")
    for compiler, language, source in ((COMPILER, "-std=c99", "example.c"), (CPP, "-std=c++11", "example.cpp")):
        program = tmp_path / "example"
        command = [compiler, language, *FLAGS, str(built.folder / source), str(built.folder / "robot.o"), "-lm"]
        subprocess.run([*command, "-o", str(program)], check=True)
        printed = subprocess.run([str(program), str(N)], check=True, capture_output=True, text=True).stdout
        values, expected = np.array([float(line) for line in printed.split()]), last(run)
        assert np.array_equal(values[: len(expected)], expected)
        assert len(values) == len(built.model.observed)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue)
def test_every_system_of_the_catalogue_has_the_bits_of_solve(name, tmp_path):
    built, run = built_of(name, catalogue[name].method, tmp_path / "robot")
    linked = Linked(built)
    state = linked.started()
    assert linked.advance(built.model.defaults["parameters"], built.model.inputs, state, N) == 0
    values, expected = np.array(list(linked.observed(state).values())), last(run)
    assert np.array_equal(values[: len(expected)], expected)


@pytest.fixture(scope="module")
def sleigh(tmp_path_factory):
    return Linked(built_of("chaplygin-sleigh", "gauss4", tmp_path_factory.mktemp("sleigh") / "robot")[0])


def test_parameters_are_arguments(sleigh, tmp_path):
    entry = catalogue["chaplygin-sleigh"]
    system = entry.system(a=0.5, m=2.0)
    run = gn.solve(system, "gauss4", xi0=entry.start(system).xi0, dt=0.02, n_steps=N, t0=1.0)
    names = [quantity.name for quantity in sleigh.model.parameters]
    assert names == ["I", "a", "m"]
    parameters, times = np.array([1.0, 0.5, 2.0]), np.array([1.0, 0.02])
    state = sleigh.started(parameters=parameters, times=times)
    for _ in range(N):
        assert sleigh.advance(parameters, sleigh.model.inputs, state, 1) == 0
    observed = sleigh.observed(state, parameters=parameters)
    assert [observed[n] for n in ("t", "omega", "vx", "energy")] == [run.t[-1], *run.xi[-1][:2], run.energy[-1]]


def test_times_have_the_bits_of_a_run(sleigh):
    """A fused product and sum would differ from 0.2 + 9 · 0.03 in the last digit."""
    state = sleigh.started(times=np.array([0.2, 0.03]))
    for k in range(N):
        assert sleigh.observed(state)["t"] == 0.2 + k * 0.03
        sleigh.advance(sleigh.model.defaults["parameters"], sleigh.model.inputs, state, 1)


def test_runs_do_not_know_of_each_other(sleigh):
    parameters, inputs = sleigh.model.defaults["parameters"], sleigh.model.inputs
    alone, first, second = (sleigh.started() for _ in range(3))
    second = sleigh.started(velocity=np.array([0.1, 2.0, 0.0]))
    sleigh.advance(parameters, inputs, alone, N)
    for _ in range(N):
        sleigh.advance(parameters, inputs, first, 1)
        sleigh.advance(parameters, inputs, second, 1)
    assert np.array_equal(alone, first)
    assert not np.array_equal(first, second)


def test_a_start_off_the_constraints_is_refused_and_projected(sleigh):
    model, velocity = sleigh.model, np.array([0.3, 1.0, 0.7])
    given = model.defaults | {"velocity": velocity}
    assert sleigh.start(*given.values(), np.zeros(model.state_size)) == Result.START
    projected = np.zeros(len(model.point) + len(model.velocity))
    given.pop("inputs")
    assert sleigh.project(*given.values(), projected) == 0
    assert np.allclose(projected[-3:], model.system.project(None, velocity), rtol=0, atol=1e-15)
    sleigh.started(velocity=projected[-3:])


@pytest.mark.parametrize("times", [(np.nan, 0.01), (0.0, np.nan), (0.0, np.inf), (0.0, 0.0)])
def test_times_that_are_no_numbers_are_refused(sleigh, times):
    given = sleigh.model.defaults | {"times": np.array(times)}
    assert sleigh.start(*given.values(), np.zeros(sleigh.model.state_size)) == Result.START


def test_a_point_off_the_group_is_not_projected(tmp_path):
    system = gn.System(gn.groups.SO3(), metric=[1.0, 2.0, 3.0], name="body")
    linked = Linked(gn.build(system, "rkmk4", tmp_path / "robot", xi0=[0.1, 0.2, 0.3]))
    given = dict(linked.model.defaults)
    given.pop("inputs")
    projected = np.zeros(12)
    assert linked.project(*given.values(), projected) == 0
    given["point"] = 1.5 * given["point"]
    assert linked.project(*given.values(), projected) == Result.START


@pytest.mark.parametrize("method", ["rkmk4", "gauss4"])
def test_inputs_that_are_no_numbers_are_told(tmp_path, method):
    system = gn.System(gn.groups.Translations(1), metric=[2.0], forces=lambda t, x, xi, u: u, name="mass")
    linked = Linked(gn.build(system, method, tmp_path / "robot", xi0=[0.0], dt=0.1, controls=[1.0]))
    state, parameters = linked.started(), linked.model.defaults["parameters"]
    before = state.copy()
    assert linked.advance(parameters, np.array([np.nan]), state, 3) == Result.NOT_FINITE
    np.testing.assert_array_equal(state, before)
    assert linked.advance(parameters, np.array([1.0]), state, 3) == Result.SUCCESS


def test_a_step_that_fails_leaves_the_state_before_it(tmp_path):
    system = gn.System(
        gn.groups.Translations(1), metric=[1.0], potential=lambda x, p: jnp.log(x[0]) * p["c"], parameters={"c": 1.0}
    )
    given = {"xi0": [-1.0], "g0": [1.0], "dt": 0.1}
    run = gn.solve(system, "rkmk4", n_steps=100, throw=False, **given)
    linked = Linked(gn.build(system, "rkmk4", tmp_path / "robot", **given))
    parameters, inputs, state = linked.model.defaults["parameters"], linked.model.inputs, linked.started()
    assert run.status == Result.NOT_FINITE
    assert linked.advance(parameters, inputs, state, 100) == run.status
    assert linked.observed(state)["t"] == run.t[-1]
    before = state.copy()
    assert linked.advance(parameters, inputs, state, 1) == run.status
    assert np.array_equal(before, state)


@pytest.mark.slow
def test_controls_are_inputs_that_are_held(tmp_path):
    system = gn.System(
        gn.groups.SE2(),
        metric=[1.0, 1.0, 1.0],
        distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0]]),
        forces=lambda t, x, xi, u: jnp.array([u[0], u[1], 0.0]),
        base="point",
    )
    given = {"xi0": [0.1, 1.0, 0.0], "dt": 0.1}
    linked = Linked(gn.build(system, "gauss4", tmp_path / "robot", controls=[0.0, 0.0], **given))
    assert linked.model.inputs.tolist() == [0.0, 0.0]
    state, parameters = linked.started(), linked.model.defaults["parameters"]
    u = np.array([0.3, -0.2])
    assert linked.advance(parameters, u, state, N) == 0
    held = jax.tree_util.Partial(lambda u, t: u, u)
    run = gn.solve(system, "gauss4", controls=held, n_steps=N, **given)
    observed = linked.observed(state, inputs=u)
    assert [observed["omega"], observed["vx"]] == run.xi[-1, :2].tolist()


def changes(system, one, other):
    """Change from one observation to another, (η, δξ)."""
    group = system.group
    n = group.dim
    size = sum(int(np.prod(shape)) for shape in group.point_shapes)
    a, b = (np.array(list(o.values())) for o in (one, other))
    with gn.float64():
        g, h = (group.from_vector(o[1 : 1 + size]) for o in (a, b))
        eta = group.log(group.compose(group.inverse(g), h))
    return np.concatenate([eta, (b - a)[1 + size : 1 + size + n]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("chaplygin-sleigh", "gauss4"),
        ("chaplygin-sphere", "gauss4"),
        ("snakeboard", "projected"),
        ("rolling-ball", "rkmk4"),
    ],
)
def test_derivatives_of_a_step_are_those_of_differences(name, method, tmp_path):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    xi0 = np.asarray(start.xi0)
    built = gn.build(
        system, method, tmp_path / "robot", derivatives=True, xi0=xi0, g0=start.g0, dt=entry.dt, controls=entry.controls
    )
    assert "robot_linearise(" in (built.folder / "robot.h").read_text()
    linked, defaults, n = Linked(built), built.model.defaults, system.group.dim
    matrices = np.zeros((2 * n) * (2 * n + len(defaults["parameters"])))
    state = linked.started()
    assert linked.linearise(defaults["parameters"], defaults["inputs"], state, matrices) == 0
    A, P = matrices[: 4 * n * n].reshape(2 * n, 2 * n), matrices[4 * n * n :].reshape(2 * n, -1)

    def stepped(**given):
        state, parameters = linked.started(**given), given.get("parameters", defaults["parameters"])
        assert linked.advance(parameters, defaults["inputs"], state, 1) == 0
        return linked.observed(state, parameters=parameters)

    def difference(one, other, h=1e-6):
        return changes(system, stepped(**one), stepped(**other)) / (2 * h)

    rng, h = np.random.default_rng(2), 1e-6
    g0 = system.group.identity() if start.g0 is None else start.g0
    eta, along = rng.normal(size=n), system.project(g0, xi0 + rng.normal(size=n)) - xi0
    ends, velocities = [], []
    with gn.float64():
        for sign in (-h, h):
            g = jax.tree.map(np.asarray, system.group.compose(g0, system.group.exp(sign * eta)))
            velocities.append(np.asarray(system.project(g, xi0 + sign * along)))
            point = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)])
            ends.append({"point": point, "velocity": velocities[-1]})
    moved = np.concatenate([eta, (velocities[1] - velocities[0]) / (2 * h)])
    np.testing.assert_allclose(A @ moved, difference(*ends), rtol=0, atol=3e-8)
    for k, value in enumerate(np.eye(len(defaults["parameters"]))):
        ends = [{"parameters": defaults["parameters"] + sign * value} for sign in (-h, h)]
        np.testing.assert_allclose(P[:, k], difference(*ends), rtol=0, atol=3e-8)


@pytest.mark.quick("aarch64-unknown-linux-gnu--183")
@pytest.mark.parametrize(
    ("triple", "cpu", "machine"),
    [("aarch64-unknown-linux-gnu", "", 183), ("thumbv7em-none-eabihf", "cortex-m7", 40), ("riscv64", "", 243)],
)
def test_code_for_other_machines_is_of_these(triple, cpu, machine, tmp_path):
    entry = catalogue["chaplygin-sleigh"]
    built = gn.build(entry.system(), "gni", tmp_path / "robot", triple=triple, cpu=cpu)
    code = (tmp_path / "robot" / "robot.o").read_bytes()
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == machine
    assert f"for {triple}" in (built.folder / "robot.h").read_text()


def test_wrong_arguments_are_refused(tmp_path):
    system = catalogue["chaplygin-sleigh"].system()
    with pytest.raises(ValueError, match="LLVM has no target 'nowhere'"):
        gn.build(system, path=tmp_path / "robot", triple="nowhere")
    with pytest.raises(ValueError, match="whose code is that of target='ptx'"):
        gn.build(system, path=tmp_path / "robot", triple="nvptx64-nvidia-cuda")
    with pytest.raises(ValueError, match="an identifier such as robot, got 'my-robot'"):
        gn.build(system, path=tmp_path / "my-robot")
    with pytest.raises(ValueError, match="target must be one of"):
        gn.build(system, path=tmp_path / "robot", target="fortran")
    with pytest.raises(ValueError, match="derivatives goes with target='c'"):
        gn.build(system, path=tmp_path / "robot", target="wasm", derivatives=True)
    with pytest.raises(ValueError, match="steps of variable length are not exported"):
        gn.build(system, gn.Adaptive(gn.RKMK(5), 1e-6), tmp_path / "robot")
    unknown = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], potential=lambda x: jnp.fft.fft(x)[0].real)
    refused = pytest.raises(ValueError, match="it cannot be exported: the engine has no code for")
    with refused, pytest.warns(gn.engine.EngineWarning):
        gn.build(unknown, "rkmk4", tmp_path / "robot")


def named(parameters, **options):
    return gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], parameters=parameters, name="named", **options)


@needs_compiler
def test_names_in_the_header_are_distinct(tmp_path):
    built = gn.build(named({"k": 1.0, "k_1": 2.0, "kω": 3.0, "/*": 4.0}), "rkmk4", tmp_path / "robot", xi0=[1.0, 0.0])
    compiled = [COMPILER, "-Wall", "-Werror", "-o", "example", "example.c", "robot.o", "-lm"]
    subprocess.run(compiled, cwd=built.folder, check=True)
    for wrong in ({"a": {"b": 1.0}, "a.b": 2.0}, {"a": [1.0, 2.0], "a[0]": 3.0}, {"": 1.0}):
        with pytest.raises(ValueError, match="parameters of named need names of their own in the code, got"):
            gn.build(named(wrong), "rkmk4", tmp_path / "robot")


@pytest.mark.parametrize("name", ["energy", "x", "vx", "p_vx", "multipliers[0]", "free"])
def test_a_first_integral_has_a_place_of_its_own(name, tmp_path):
    integral = gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: 100.0 + xi[1])
    forms = gn.Distribution(forms=[[1.0, -1.0]])
    system = named({}, first_integrals={name: integral}, distribution=forms)
    linked = Linked(gn.build(system, "rkmk4", tmp_path / "robot", xi0=[1.0, 1.0]))
    names = [quantity.name for quantity in linked.model.observed]
    assert len(set(names)) == len(names)
    seen = linked.observed(linked.started())
    assert seen[name if name == "free" else f"integral:{name}"] == 101.0
    assert (seen["energy"], seen["x"], seen["vx"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("features", ["../x", "neon", "+", "+a,b", "+a, -b", "+\0"])
def test_features_that_would_end_the_process_are_refused(features, tmp_path):
    with pytest.raises(ValueError, match="features must be names with"):
        gn.build(gn.systems.chaplygin_sleigh(), "rkmk4", tmp_path / "robot", features=features)


@pytest.mark.parametrize("machine", [{"cpu": "nonexistent"}, {"features": "-64bit"}, {"triple": "bpf"}])
def test_machines_for_which_llvm_ends_the_process_are_refused(machine, tmp_path):
    with pytest.raises(ValueError, match=r"LLVM emits no code for triple = .*, cpu = .*, features = "):
        gn.build(gn.systems.chaplygin_sleigh(), "rkmk4", tmp_path / "robot", **machine)

"""WebAssembly in node: the bits of the same code without fused multiply-add, and the class of a run."""

import json
import shutil
import subprocess

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import pytest
from compiled import Linked, needs_compiler

import geonh as gn
from geonh.integrators.validity import Result
from geonh.systems import catalogue

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node here")
N = 200


def built_of(name, method, folder, **options):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "controls": entry.controls}
    return gn.build(system, method, folder, **given, **options), gn.solve(system, method, n_steps=N, **given)


def answers(built, code):
    """Result of JavaScript code in which ``Robot`` is the class of a model built in a folder robot."""
    program = f'import {{ Robot }} from "./robot.js";\nconsole.log(JSON.stringify((() => {{ {code} }})()));\n'
    (built.folder / "asked.mjs").write_text(program)
    ran = subprocess.run([NODE, "asked.mjs"], cwd=built.folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def check_bits(name, method, folder):
    built, run = built_of(name, method, folder / "robot", target="wasm")
    code = f"const r = new Robot().advance({N}); return [r.status, Array.from(r.observed())]"
    status, values = answers(built, code)
    assert status == 0
    linked = Linked(built_of(name, method, folder / "native" / "robot", features="-fma")[0])
    state, defaults = linked.started(), linked.model.defaults
    assert linked.advance(defaults["parameters"], defaults["inputs"], state, N) == 0
    assert values == list(linked.observed(state).values())
    places = [quantity.name for quantity in built.model.observed]
    energy = values[places.index("energy")]
    assert abs(energy - run.energy[-1]) < 1e-9 * (1 + abs(energy))


@needs_compiler
@pytest.mark.parametrize(
    ("name", "method"), [("snakeboard", "gni"), ("chaplygin-sphere", None), ("chaplygin-sleigh", "rkmk4")]
)
@pytest.mark.quick("chaplygin-sleigh-rkmk4")
def test_it_has_the_bits_of_native_code_without_fused_multiply_add(name, method, tmp_path):
    check_bits(name, method, tmp_path)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue)
def test_every_system_of_the_catalogue_has_these_bits(name, tmp_path):
    check_bits(name, catalogue[name].method, tmp_path)


@pytest.fixture(scope="module")
def sleigh(tmp_path_factory):
    return built_of("chaplygin-sleigh", "gni", tmp_path_factory.mktemp("wasm") / "robot", target="wasm")[0]


def test_parameters_have_names_and_are_those_of_a_run(sleigh):
    entry = catalogue["chaplygin-sleigh"]
    system = entry.system(a=0.5)
    run = gn.solve(system, "gni", xi0=entry.start(system).xi0, dt=0.005, n_steps=N, t0=2.0)
    code = f"const r = new Robot({{ a: 0.5 }}, {{ times: [2, 0.005] }}).advance({N}); return r.observe()"
    observed = answers(sleigh, code)
    expected = {"t": run.t, "omega": run.xi[:, 0], "theta": run.g[:, 0], "energy": run.energy}
    for name, values in expected.items():
        assert abs(observed[name] - values[-1]) < 1e-12, name
    code = "try { new Robot({ b: 1 }) } catch (error) { return error.message }"
    assert answers(sleigh, code) == "robot has no parameter b; it has I, a, m"


def test_runs_are_apart_and_begin_anew(sleigh):
    code = """
      const a = new Robot(), b = new Robot({ m: 3 });
      for (let i = 0; i < 50; i++) { a.advance(1); b.advance(2); }
      const alone = new Robot().advance(50);
      const same = a.observe().omega === alone.observe().omega && a.observe().omega !== b.observe().omega;
      return [same, b.start({ m: 1 }).advance(50).observe().omega === alone.observe().omega];
    """
    assert answers(sleigh, code) == [True, True]


def test_what_is_refused_changes_nothing(sleigh):
    code = """
      const run = new Robot(), told = [];
      const refused = [
        () => run.start({ a: 9, nope: 1 }), () => run.start({ a: 9 }, { point: [1, 2, 3], velocity: [1] }),
        () => run.start({ a: 9 }, { point: [1, 2, NaN] }), () => run.project([1, 2, 3], [1, NaN, 2]),
        () => run.advance(-1), () => run.advance(2 ** 60),
      ];
      for (const act of refused) try { act(); told.push(""); } catch (error) { told.push(error.message); }
      run.project([1, 2, 3], [4, 5, 6]);
      return [told, run.start().status, run.observe(), new Robot().observe()];
    """
    told, status, observed, expected = answers(sleigh, code)
    assert all(told)
    assert status == 0
    assert observed == expected


def test_a_start_off_the_constraints_is_told_and_projected(sleigh):
    code = """
      const run = new Robot({}, { velocity: [0.3, 1, 0.7] });
      const told = [run.status, run.message, run.advance(5).observe().t];
      const found = run.project([0, 0, 0], [0.3, 1, 0.7]);
      return [...told, found, run.start({}, { velocity: found.velocity }).advance(5).observe().t];
    """
    status, message, stayed, found, t = answers(sleigh, code)
    assert (status, message) == (Result.START, Result.START.message)
    assert stayed == 0.0
    system = catalogue["chaplygin-sleigh"].system()
    np.testing.assert_allclose(found["velocity"], system.project(None, [0.3, 1.0, 0.7]), rtol=0, atol=1e-14)
    assert found["status"] == 0
    assert t == pytest.approx(0.05)


def test_a_run_that_fails_tells_why(tmp_path):
    system = gn.System(gn.groups.Translations(1), metric=[1.0], potential=lambda x: jnp.log(x[0]))
    built = gn.build(system, "rkmk4", tmp_path / "robot", target="wasm", xi0=[-1.0], g0=[1.0], dt=0.1)
    code = "const r = new Robot().advance(100); return [r.status, r.message, r.observe().t]"
    status, message, t = answers(built, code)
    run = gn.solve(system, "rkmk4", xi0=[-1.0], g0=[1.0], dt=0.1, n_steps=100, throw=False)
    assert (status, message) == (run.status, run.status.message)
    assert t == pytest.approx(run.t[-1])
    assert answers(built, code.replace("100", "2 ** 32")) == [status, message, t]  # the engine counts in 32 bits


def test_what_javascript_has_not_is_refused(tmp_path):
    system = gn.System(
        gn.groups.Translations(1), metric=[1.0], potential=lambda x: jax.scipy.special.erf(x[0]), name="bump"
    )
    with pytest.raises(ValueError, match="cannot be exported for JavaScript, which has no erf"):
        gn.build(system, "rkmk4", tmp_path / "robot", target="wasm")

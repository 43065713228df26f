"""The compiler: the same bits at every level of optimisation, a path without fused multiply-add, and every method's
step against JAX."""

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest
from native_support import needs_compiler
from refusals import SLOW_ENOUGH, refused

import geonh as gn
from geonh.engine import native
from geonh.engine.compiled import mapped
from geonh.engine.native import machine
from geonh.integrators.base import Clock
from geonh.systems import catalogue

pytestmark = needs_compiler


def run(name, method, n_steps=50):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    return gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=n_steps, throw=False)


@pytest.fixture
def afresh(monkeypatch):
    """Nothing compiled before is taken, from memory or from disk."""
    from geonh.engine import compiled

    monkeypatch.setenv("GEONH_CACHE", "off")

    def forget():
        compiled.loop_of.cache_clear()
        compiled.map_of.cache_clear()
        machine.forget()

    yield forget
    forget()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("snakeboard", "gni"),
        ("chaplygin-sphere", "rkmk4"),
        ("chaplygin-sphere", "projected"),
        ("suslov", "lobatto4"),
    ],
)
def test_same_bits_at_every_level_of_optimisation(name, method, afresh, monkeypatch):
    monkeypatch.setattr(machine, "compiled", machine.Code)
    result = []
    for level in range(4):

        def optimise(module, target, lightly, level=level):
            options = llvm.create_pipeline_tuning_options(speed_level=level)
            builder = llvm.create_pass_builder(target, options)
            builder.getModulePassManager().run(module, builder)

        monkeypatch.setattr(machine, "_optimise", optimise)
        monkeypatch.setattr(machine, "effort", lambda text, quick, level=level: level)
        afresh()
        made = run(name, method)
        result.append(np.concatenate([made.g_vector, made.p_plus, made.p_minus], axis=1))
    monkeypatch.undo()
    monkeypatch.setenv("GEONH_CACHE", "off")
    monkeypatch.setattr(machine, "COMPILE_SECONDS", 0.0)  # quick code for the first piece only
    afresh()
    made = run(name, method)
    result.append(np.concatenate([made.g_vector, made.p_plus, made.p_minus], axis=1))
    for other in result[1:]:
        np.testing.assert_array_equal(other, result[0])


def test_only_calls_in_a_long_function_make_register_allocation_fast():
    call, rest = "  %x = call double @geonh_log(double %y)\n", "  %z = fadd double %y, %y\n"
    long, short = "define void @f() {\n" + rest * 10**5 + "}\n", "define void @g() {\n" + call * 100 + "}\n"
    assert machine.effort(long + short, quick=False) == 1
    assert machine.effort(short.replace(rest, "") + long.replace(rest, call, 100), quick=False) == 0
    assert machine.effort(short, quick=True) == 0


def test_code_in_long_use_is_compiled_well(afresh, monkeypatch):
    afresh()
    loop = native.Loop(lambda c, x: (c * x, jnp.int32(0)), lambda c, x: x[None], np.float64(0.5), np.float64(1.0))
    code, buffer = loop._program.code, np.empty((3, 1))
    quick = loop.run(0.999, 1.0, 3, 1000, buffer)
    assert code.version == 1
    monkeypatch.setattr(code, "_worth", 0.0)
    assert loop.run(0.999, 1.0, 3, 1000, buffer) == loop.run(0.999, 1.0, 3, 1000, buffer) == quick
    assert code.version == 2


@pytest.mark.parametrize("method", ["gni", pytest.param("projected", marks=pytest.mark.slow)])
def test_a_cpu_without_fused_multiply_add(method, afresh, monkeypatch):
    with_it = run("snakeboard", method)
    monkeypatch.setattr(machine, "fma", lambda: False)
    afresh()
    without = run("snakeboard", method)
    assert without.attributes["engine"] == "native"
    np.testing.assert_allclose(without.g_vector, with_it.g_vector, rtol=0, atol=1e-12)
    x = np.linspace(-40, 40, 301)
    for function in (jnp.sin, jnp.cos, jnp.arctan):
        got = native.Map(lambda params, x, f=function: f(x), (), x[0]).run((), x)
        np.testing.assert_allclose(got, function(x), rtol=0, atol=3e-16 * np.abs(function(x)).max() + 1e-16)


def _stepped(tree, state):
    system, method, clock = tree
    new = method.next_node(system, clock, state)
    return new.g, new.p_plus, new.p_minus, new.memory, new.status


@pytest.mark.slow
@pytest.mark.parametrize("method", list(gn.methods))
@pytest.mark.parametrize("name", catalogue)
def test_a_step_is_that_of_jax(name, method):
    """From nodes 5 and 10 of a run, to 1e-14 of the largest entry of each vector (a Newton solve ends by rounding).

    Of the bicycle Itoh and Abe's is known to less: with V + 1000 J in place of V the velocity differs by 6e-10, since
    differences of energies are divided by small increments. Where φ(g) = 0 is solved, places are known to their
    rounding, and impulses to that times M/h.
    """
    entry, made = catalogue[name], gn.methods[method].make()
    system = entry.system()
    start = entry.start(system)
    options = {"g0": start.g0, "xi0": start.xi0, "dt": entry.dt, "controls": entry.controls, "throw": False}
    if refused(system, method, made.guarantees) or (method == "feedback" and name not in SLOW_ENOUGH):
        with pytest.raises(ValueError, match=r"\w+"):
            gn.solve(system, made, n_steps=5, **options)
        return
    runs = [gn.solve(system, made, n_steps=n, **options) for n in (5, 10)]
    clock = Clock(np.float64(0.0), np.float64(entry.dt), entry.controls)
    x = system.at(system.point(start.g0), 0.0)
    impulse = np.abs(system.mass_matrix(x)).max() / entry.dt * (system.holonomic is not None)
    for trajectory in runs:
        tree, state = (system, made, clock), trajectory.state
        many = jax.tree.map(lambda a: np.asarray(a)[None], state)
        natively = jax.tree.map(lambda a: a[0], mapped(_stepped, tree, many))
        by_jax = jax.jit(lambda state, tree=tree: _stepped(tree, state))(state)
        for a, b in zip(jax.tree.leaves(natively), jax.tree.leaves(by_jax), strict=True):
            scale = np.abs(b).max(initial=0.0) if np.size(b) else 1.0
            known = 1e-10 if (name, method) == ("whipple-bicycle", "itoh-abe") else 1e-14
            rounding = np.finfo(float).eps * np.abs(trajectory.g_vector[-1]).max() * impulse
            np.testing.assert_allclose(a, b, rtol=0, atol=max(known * max(scale, 1.0), rounding))

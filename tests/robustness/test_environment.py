"""The same bits whatever the configuration of JAX around geonh, in threads and in other processes."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn

NAMES = ("chaplygin-sleigh", "heavy-top", "snakeboard")


def bits(name):
    """A run and what is read from it, in hexadecimal."""
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=50, controls=entry.controls)
    read = (run.g_vector, run.p_plus, run.p_minus, run.energy, run.constraint_residual, run.multipliers)
    return b"".join(np.ascontiguousarray(a).tobytes() for a in read).hex()


def bits_of_a_general_lagrangian():
    system = gn.System(gn.groups.Translations(3), lagrangian=lambda x, v: -jnp.sqrt(1 - v @ v) - 0.5 * x @ x)
    return gn.solve(system, g0=[0.3, 0, 0], xi0=[0.1, 0.2, 0.1], dt=0.05, n_steps=30).g_vector.tobytes().hex()


def all_bits():
    return [*map(bits, NAMES), bits_of_a_general_lagrangian()]


SCRIPT = "import sys; sys.path.insert(0, {folder!r}); {before}; import test_environment as t; {run}"
USED = "import jax, jax.numpy as jnp; jnp.ones(3).sum().block_until_ready()"
CONFIGURATIONS = {
    "as it is": ({}, "pass"),
    "without jit": ({"JAX_DISABLE_JIT": "1"}, "pass"),
    "strict promotion": ({"JAX_NUMPY_DTYPE_PROMOTION": "strict"}, "pass"),
    "strict ranks": ({"JAX_NUMPY_RANK_PROMOTION": "raise"}, "pass"),
    "debugging nans": ({"JAX_DEBUG_NANS": "1"}, "pass"),
    "64 bits": ({"JAX_ENABLE_X64": "1"}, "pass"),
    "64 bits, strict": ({"JAX_ENABLE_X64": "1", "JAX_NUMPY_DTYPE_PROMOTION": "strict"}, "pass"),
    "low precision": ({"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16"}, "pass"),
    "JAX before": ({}, USED),
}


def in_another_process(folder, cache, options, before, run):
    environment = {**os.environ, **options, "GEONH_CACHE": cache}
    command = [sys.executable, "-c", SCRIPT.format(folder=folder, before=before, run=run)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(("options", "before"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_configurations_of_jax(tmp_path, options, before):
    """Nothing kept on disk is used, so that all is traced and compiled under the configuration."""
    folder = os.path.dirname(__file__)
    result = in_another_process(folder, "off", options, before, "print(*t.all_bits())")
    assert result == all_bits()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"JAX_NUMPY_DTYPE_PROMOTION": "strict"}, {"JAX_ENABLE_X64": "1"}], ids=str)
def test_what_runs_through_jax(options):
    """``integrate`` and the methods of groups and systems, to the bits of the plain configuration."""
    folder = os.path.dirname(__file__)
    plain = in_another_process(folder, "off", {}, "pass", "print(*t.through_jax())")
    assert in_another_process(folder, "off", options, "pass", "print(*t.through_jax())") == plain


def through_jax():
    system = gn.systems.catalogue["suslov"].system()
    outside = [system.group.exp(np.array([0.1, 0.2, 0.3])), system.project(None, [0.1, 0.2, 0.3])]
    outside.append(system.distribution.P(np.eye(3), (), system.parameters))
    with gn.float64():
        run = gn.integrate(system, gn.SymmetricProjection(), xi0=outside[1], dt=0.05, n_steps=20)
        return [np.asarray(a).tobytes().hex() for a in (*outside, run.g, run.p_plus, run.p_minus)]


@pytest.mark.user_precision
def test_strict_promotion_in_this_process():
    """Set by the user, and as it was afterwards."""
    import jax

    plain = bits("chaplygin-sleigh")
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert bits("chaplygin-sleigh") == plain
        assert jax.config.jax_numpy_dtype_promotion == "strict"
        with pytest.raises(Exception, match="implicit dtype promotion"):
            jnp.ones(2) + np.arange(2)
    assert jnp.ones(3).dtype == np.float32


@pytest.mark.slow
def test_an_import_leaves_the_random_numbers_of_numpy():
    code = "import numpy as np; np.random.seed(3); {}print(np.random.random(3))"
    drawn = [
        subprocess.run([sys.executable, "-c", code.format(more)], capture_output=True, text=True, check=True).stdout
        for more in ("", "import geonh; geonh.System; ", "from geonh.groups import SE2; ", "import geonh.cli.runs; ")
    ]
    assert len(set(drawn)) == 1
    assert drawn[0] != ""


def test_threads():
    expected = bits("heavy-top")
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(bits, ["heavy-top"] * 8)) == {expected}


@pytest.mark.slow
def test_spawned_processes():
    expected = all_bits()
    with get_context("spawn").Pool(2) as pool:
        assert [*pool.map(bits, NAMES), pool.apply(bits_of_a_general_lagrangian)] == expected

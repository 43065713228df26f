"""Kernels for NVIDIA's GPUs: assembled where there is ``ptxas``, run where there is a GPU."""

import ctypes
import importlib.util
import json
import runpy
import shutil
import subprocess
from pathlib import Path

import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

import geonh as gn
from geonh.engine.native import gpu
from geonh.systems import catalogue

N = 100


def assembler():
    """Path of ``ptxas``: of the system, or of the wheel nvidia-cuda-nvcc."""
    nvidia = importlib.util.find_spec("nvidia")
    packages = () if nvidia is None else nvidia.submodule_search_locations
    found = [path for package in packages for path in Path(package).glob("*/bin/ptxas")]
    return shutil.which("ptxas") or next(map(str, found), None)


def has_gpu():
    try:
        cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


needs_ptxas = pytest.mark.skipif(assembler() is None, reason="there is no ptxas: pip install nvidia-cuda-nvcc-cu12")


def built_of(name, method, folder, **options):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "controls": entry.controls}
    return gn.build(system, method, folder / "robot", target="ptx", **given, **options)


@needs_ptxas
@pytest.mark.parametrize("name", catalogue)
@pytest.mark.quick("chaplygin-sleigh")
def test_kernels_of_every_system_are_assembled(name, tmp_path):
    built = built_of(name, "gauss4" if name == "chaplygin-sleigh" else catalogue[name].method, tmp_path)
    text = (tmp_path / "robot" / "robot.ptx").read_text()
    assert ".extern" not in text
    for function in ("start", "advance", "observe", "project"):
        assert f".entry robot_{function}_members(" in text
    assert "mul.rn.f64" in text
    assert "mul.f64" not in text  # which ptxas might fuse
    command = [assembler(), "-arch", "sm_80", str(built.files[0]), "-o", str(tmp_path / "robot.cubin")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    data = json.loads(built.files[1].read_text())
    assert data["sizes"]["state"] == built.model.state_size


@pytest.mark.skipif(not has_gpu(), reason="there is no GPU of NVIDIA here")
@pytest.mark.parametrize(("name", "method"), [("chaplygin-sphere", "gauss4"), ("snakeboard", "gni")])
def test_an_ensemble_on_a_gpu_is_that_of_solve_ensemble(name, method, tmp_path):
    built = built_of(name, method, tmp_path)
    model = built.model
    velocities = np.linspace(0.5, 1.5, 1000)[:, None] * model.xi
    observed, statuses = runpy.run_path(str(built.files[2]))["ensemble"](velocities, N)
    assert not statuses.any()
    runs = gn.solve_ensemble(
        model.system, method, g0=model.g, xi0=velocities, dt=float(model.times.dt), n_steps=N, controls=model.controls
    )
    names = [quantity.name for quantity in model.observed]
    first = names.index(model.velocity[0].name)
    np.testing.assert_array_equal(observed[:, first : first + model.xi.size], runs.xi[:, -1])


def test_a_kernel_has_a_member_in_each_thread():
    """The kernel's text on this machine, with numbers of threads in place of the GPU's registers."""
    text = gpu.kernels({"add": (3, False), "count": (2, True)}).replace("ptx_kernel ", "")
    for register in ("ctaid", "ntid", "tid"):
        declared = f"declare i32 @llvm.nvvm.read.ptx.sreg.{register}.x()"
        own = f"@{register} = global i32 0\n"
        own += f"define i32 @read.{register}() {{\n%v = load i32, ptr @{register}\nret i32 %v\n}}"
        text = text.replace(declared, own).replace(f"@llvm.nvvm.read.ptx.sreg.{register}.x()", f"@read.{register}()")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare"))
    text += """
define i32 @add(ptr %a, ptr %b, ptr %c) {
%x = load double, ptr %a
%y = load double, ptr %b
%z = fadd double %x, %y
store double %z, ptr %c
ret i32 7
}
define i32 @count(ptr %a, ptr %b, i32 %n) {
%x = load double, ptr %a
%k = sitofp i32 %n to double
%z = fmul double %x, %k
store double %z, ptr %b
ret i32 %n
}
"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()

    def register(name):
        return ctypes.c_int32.from_address(engine.get_global_value_address(name))

    members, a, b = 5, np.arange(10.0), np.array([100.0])
    c, statuses = np.zeros(15), np.zeros(members, np.int32)

    def launch(name, *arguments):
        values = [ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else x for x in arguments]
        types = [ctypes.c_void_p if isinstance(x, np.ndarray) else type(x) for x in arguments]
        kernel = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address(f"{name}_members"))
        register("ntid").value = 2
        for block in range(3):
            for thread in range(2):
                register("ctaid").value, register("tid").value = block, thread
                kernel(*values)

    long, integer = ctypes.c_int64, ctypes.c_int32
    launch("add", a, long(2), b, long(0), c, long(3), statuses, integer(members))
    np.testing.assert_array_equal(c[::3], a[::2] + 100)
    np.testing.assert_array_equal(np.delete(c, np.arange(0, 15, 3)), 0)
    np.testing.assert_array_equal(statuses, 7)
    launch("count", a, long(1), c, long(1), statuses, integer(members), integer(3))
    np.testing.assert_array_equal(c[:members], 3 * a[:members])
    np.testing.assert_array_equal(statuses, 3)


def test_machines_and_functions_that_a_gpu_has_not_are_named(tmp_path, monkeypatch):
    system = gn.System(gn.groups.Translations(1), metric=[1.0], potential=lambda x: jnp.exp(x[0]), name="slope")
    with pytest.raises(ValueError, match="cpu = 'sm_1'"):
        gn.build(system, "gauss4", tmp_path / "robot", target="ptx", cpu="sm_1", xi0=[1.0])
    with pytest.raises(ValueError, match="triple goes with target='c', not 'ptx'"):
        gn.build(system, "gauss4", tmp_path / "robot", target="ptx", triple="x86_64-unknown-linux-gnu", xi0=[1.0])
    monkeypatch.setattr(gpu, "LIBRARY", Path("none"))
    with pytest.raises(ValueError, match="no code for exp on a GPU without libdevice: pip install"):
        gn.build(system, "gauss4", tmp_path / "robot", target="ptx", xi0=[1.0])

"""Code for NVIDIA's GPUs: kernels in which each thread has a member of an ensemble, and functions of libdevice.

PTX is text, which the driver compiles for its GPU. Functions of the C library are those of libdevice, LLVM bitcode that
comes with CUDA's toolkit.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from geonh.engine.native.values import NotLowered

TRIPLE = "nvptx64-nvidia-cuda"
SUFFIX = "_members"
"""End of the names of kernels."""
LIBRARY = Path("nvvm", "libdevice", "libdevice.10.bc")
"""File of libdevice within a toolkit."""
BINARY = ("atan2", "copysign", "fmod", "hypot", "nextafter", "pow", "remainder")
"""C functions of two numbers."""
_MEMBER = """\
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define internal i32 @member() alwaysinline {
%block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
%width = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
%thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
%first = mul i32 %block, %width
%member = add i32 %first, %thread
ret i32 %member
}
"""


def kernels(functions: Mapping[str, tuple[int, bool]]) -> str:
    """Kernels ``name_members`` of functions, given with their numbers of vectors and True for loops.

    A kernel takes each vector of its function with its stride, the number of doubles from member to member, 0 where
    they share it; then the statuses of the members, their number, and that of the steps of a loop.
    """
    texts = [_MEMBER]
    for name, (vectors, is_loop) in functions.items():
        given = ", ".join(f"ptr %a{i}, i64 %s{i}" for i in range(vectors))
        own = ", ".join(f"ptr %p{i}" for i in range(vectors))
        places = "".join(
            f"%o{i} = mul i64 %i, %s{i}\n%p{i} = getelementptr double, ptr %a{i}, i64 %o{i}\n" for i in range(vectors)
        )
        steps = ", i32 %n" if is_loop else ""
        texts.append(
            f"declare i32 @{name}({', '.join(['ptr'] * vectors)}{', i32' if is_loop else ''})\n"
            f"define ptx_kernel void @{name}{SUFFIX}({given}, ptr %statuses, i32 %members{steps}) {{\n"
            "%member = call i32 @member()\n%is_one = icmp slt i32 %member, %members\n"
            "br i1 %is_one, label %one, label %end\none:\n%i = sext i32 %member to i64\n"
            f"{places}%status = call i32 @{name}({own}{steps})\n"
            "%place = getelementptr i32, ptr %statuses, i64 %i\nstore i32 %status, ptr %place\nbr label %end\n"
            "end:\nret void\n}\n"
        )
    return "".join(texts)


def c_functions(names: Sequence[str]) -> str:
    """Functions of the C library, by those of libdevice."""
    texts = []
    for name in names:
        n = 2 if name in BINARY else 1
        parameters, types = ", ".join(f"double %x{i}" for i in range(n)), ", ".join(["double"] * n)
        texts.append(
            f"declare double @__nv_{name}({types})\ndefine double @{name}({parameters}) {{\n"
            f"%y = call double @__nv_{name}({parameters})\nret double %y\n}}\n"
        )
    return "".join(texts)


def library(names: Sequence[str]) -> bytes:
    """Bitcode of libdevice, of a toolkit in CUDA_HOME or of a wheel; ``NotLowered`` where there is none."""
    nvidia = importlib.util.find_spec("nvidia")
    folders = [Path(where) for where in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if where]
    for package in () if nvidia is None else nvidia.submodule_search_locations or ():
        folders += sorted(Path(package).iterdir())
    for folder in (*folders, Path("/usr/local/cuda")):
        if (folder / LIBRARY).is_file():
            return (folder / LIBRARY).read_bytes()
    raise NotLowered(
        f"{', '.join(names)} on a GPU without libdevice: pip install nvidia-cuda-nvcc-cu12, or set CUDA_HOME"
    )

"""Machine code from LLVM's text, and who owns it.

Code belongs to a ``Code`` and is given back when that is. Programs with the same text share one, and the last few
stay even if nobody holds them, so that a second run of the same structure compiles nothing.

Constants and tables are loaded beside their code, so that instructions reach them by their distance.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import itertools
import platform
import sys
import threading
import weakref
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

from geonh.engine.interrupts import interruptible
from geonh.engine.native import cache
from geonh.engine.native.builder import PREFIX
from geonh.engine.native.values import NotLowered
from geonh.version import __version__

try:
    import llvmlite
    import llvmlite.binding as llvm
except ImportError:  # the caller takes another path
    llvm = None

OPTIMISED = 5000
"""Programs of more instructions always get a light pipeline instead of LLVM's first level."""
WORTH = 3e-5
"""Seconds for each instruction that a program runs before it is compiled well, which takes about as long."""
LARGE = 40_000
"""Instructions of a program of which each takes twice as long."""
CALLS = 10**6
"""Product of instructions and calls from which registers are allocated without much thought."""
KEPT = 64
"""Programs that stay although nobody holds them."""
LOADED = 500
"""Programs that one linker loads: of each it keeps some 8 kB, also when that is given back."""


@functools.cache
def available() -> bool:
    """Whether there is a compiler for this machine."""
    if llvm is None or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.Target.from_default_triple()
        return _library() is not None
    except RuntimeError:
        return False


@functools.cache
def cpu() -> tuple[str, str]:
    """Name and features of this machine's CPU, as LLVM knows them."""
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # not known on every platform
        features = ""
    return llvm.get_host_cpu_name(), features


@functools.cache
def fma() -> bool:
    """Whether the CPU multiplies and adds in one instruction."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    return available() and "+fma" in cpu()[1].split(",")


@functools.cache
def lanes() -> int:
    """Numbers in double precision in the widest vector of the CPU."""
    features = cpu()[1].split(",")
    return 8 if "+avx512f" in features else 4 if "+avx2" in features else 2


@functools.cache
def _library() -> Any:
    """C's library of elementary functions, the same one whatever else was imported."""
    name = ctypes.util.find_library("m")
    try:
        return ctypes.CDLL(name) if name else ctypes.CDLL(None)
    except OSError:
        return None


class Code:
    """Machine code of a program, made quickly; once it has been in use for long enough, also well.

    Both have the same bits (sums are fused before LLVM sees them), so one may take the place of the other at any call.

    Parameters
    ----------
    text : str
        LLVM's text.
    name : str
        Of the function to call.
    functions : sequence of str
        Names of C's functions that it calls, without their prefix.
    """

    def __init__(self, text: str, name: str, functions: tuple[str, ...]) -> None:
        self._name, self._functions = name, functions
        self._addresses: list[int] = []  # some thread may be running at any of them
        self._lock = threading.Lock()
        self._used, n = 0.0, text.count("\n")
        self._worth = WORTH * n * (1 + n / LARGE)
        found = cache.read(cache_key(text, quick=False))
        self._text = None if found else zlib.compress(text.encode(), 1)
        self._load(found or _object(text, quick=True))

    def _load(self, code: bytes) -> None:
        """Place an object file in memory."""
        number = next(_numbers)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(self._name)
        for function in self._functions:
            address = ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value
            library.import_symbol(PREFIX + function, address)
        loaded = library.link(_linker(number // LOADED), f"program{number}")
        finalizer = weakref.finalize(self, loaded.close)  # a linker lives as long as what it loaded
        finalizer.atexit = False  # the process gives it back anyway
        self._addresses.append(loaded[self._name])  # last: an interrupt before it loses code that nobody calls

    @property
    def version(self) -> int:
        """Changes when there is a better address."""
        return len(self._addresses)

    @property
    def address(self) -> int:
        """Of the function."""
        return self._addresses[-1]

    def used(self, seconds: float) -> None:
        """Count the time that it ran; compile it well when it ran for as long as that takes."""
        self._used += seconds
        if self._text is None or self._used < self._worth or not self._lock.acquire(blocking=False):
            return
        try:
            if self._text is not None:
                text = zlib.decompress(self._text).decode()
                self._load(interruptible(lambda: _object(text, quick=False)))
                self._text = None
        finally:
            self._lock.release()


_numbers = itertools.count()


@functools.lru_cache(maxsize=1)
def _linker(_: int) -> Any:
    return llvm.create_lljit_compiler(use_jit_link=True)


def _object(text: str, *, quick: bool) -> bytes:
    """An object file with the code of a text, compiled now or before."""
    key = cache_key(text, quick)
    found = cache.read(key)
    if found is None:
        name, features = cpu()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=name, features=features, opt=_effort(text, quick), reloc="pic", codemodel="small", jit=True
        )
        # A context of its own, freed after its module: the common one dies with the process under who still compiles.
        with llvm.create_context() as context, llvm.parse_assembly(text, context=context) as module:
            module.verify()  # an error here is a defect of this package; later it would end the process
            _optimise(module, machine, quick or text.count("\n") > OPTIMISED)
            found = machine.emit_object(module)
        cache.write(key, found)
    return found


@functools.cache
def _recipe() -> str:
    """Digest of this file, which says how a text becomes code."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def cache_key(text: str, quick: bool) -> str:
    """What a program's code depends on, as a digest."""
    parts = (
        text,
        str(quick),
        *cpu(),
        llvm.get_default_triple(),
        llvmlite.__version__,
        str(llvm.llvm_version_info),
        __version__,
        _recipe(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _effort(text: str, quick: bool) -> int:
    """Level of code generation: to keep many values in registers over many calls takes LLVM minutes."""
    return 0 if quick or text.count(f"call double @{PREFIX}") * text.count("\n") >= CALLS else 1


def _optimise(module: Any, machine: Any, lightly: bool) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    if not lightly:
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_aggressive_dce_pass()
    passes.run(module, builder)


_lock = threading.Lock()
_alive: weakref.WeakValueDictionary[bytes, Code] = weakref.WeakValueDictionary()
_recent: OrderedDict[bytes, Code] = OrderedDict()


def compiled(text: str, name: str, functions: tuple[str, ...]) -> Code:
    """The code of a program, made now or before."""
    if not available():
        raise NotLowered("this machine, for which llvmlite has no compiler")
    key = hashlib.sha256(text.encode()).digest()
    with _lock:
        code = _alive.get(key)
    if code is None:
        code = interruptible(lambda: Code(text, name, functions))
    with _lock:
        code = _alive.setdefault(key, code)
        _recent[key] = code
        _recent.move_to_end(key)
        while len(_recent) > KEPT:
            _recent.popitem(last=False)
    return code


def forget() -> None:
    """Let go of programs that nobody holds."""
    with _lock:
        _recent.clear()

"""Compilation of LLVM text to machine code, and ownership of the code.

Code belongs to a ``Code`` object and is freed with it. Programs with the same text share one, and the most recent ones
are kept even if unreferenced, so that a second run of the same structure compiles nothing.

Constants and tables are loaded next to their code, so that instructions address them relatively.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import itertools
import json
import platform
import re
import subprocess
import sys
import threading
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geonh.engine.interrupts import interruptible
from geonh.engine.native import cache, gpu
from geonh.engine.native.builder import PREFIX
from geonh.engine.native.values import NotLowered
from geonh.version import __version__

try:
    import llvmlite
    import llvmlite.binding as llvm
except ImportError:  # the caller falls back
    llvm = None

OPTIMISED = 5000
"""Number of instructions above which a program gets a light pass pipeline instead of LLVM's level 1."""
LIGHT = ("always_inliner", "sroa", "instruction_combine", "aggressive_dce")
"""That pipeline."""
UNUSED = ("global_dead_code_eliminate",)
"""Passes that drop functions of a library."""
QUICK = ("always_inliner",)
"""Passes of quick code: others take longer than the code generator saves."""
COMPILE_SECONDS = 3e-5
"""Run time in seconds, for each instruction, before a program is optimized, which takes about as long."""
LARGE = 40_000
"""Number of instructions of a program at which the time for each doubles."""
CALLS = 10**6
"""Product of instructions and calls in a function above which register allocation is fast instead of thorough."""
KEPT_PROGRAMS = 64
"""Number of unreferenced programs that are kept."""
KEPT_CODES = 500
"""Number of programs loaded by one linker, which keeps some 8 kB for each even when it is freed."""


@functools.cache
def available() -> bool:
    """True if there is a compiler for this machine."""
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
    """Name and features of this machine's CPU, from LLVM."""
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # not known on every platform
        features = ""
    return llvm.get_host_cpu_name(), features


@functools.cache
def fma() -> bool:
    """True if the CPU has fused multiply-add."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    return available() and "+fma" in cpu()[1].split(",")


@functools.cache
def lanes() -> int:
    """Number of doubles in the widest vector of the CPU."""
    features = cpu()[1].split(",")
    return 8 if "+avx512f" in features else 4 if "+avx2" in features else 2


@functools.cache
def _library() -> Any:
    """The C math library, always the same one whatever else was imported."""
    name = ctypes.util.find_library("m")
    try:
        return ctypes.CDLL(name) if name else ctypes.CDLL(None)
    except OSError:
        return None


class Code:
    """Machine code of a program, compiled fast at first; optimized once it has run for long enough.

    Both versions give the same bits (sums are fused before LLVM), so they may be exchanged at any call.

    Parameters
    ----------
    text : str
        LLVM text.
    name : str
        Name of the function to call.
    functions : sequence of str
        Names of C functions that it calls, without their prefix.

    Attributes
    ----------
    optimised : int
        Version from which the code is optimised.
    """

    optimised: int

    def __init__(self, text: str, name: str, functions: tuple[str, ...]) -> None:
        self._name, self._functions = name, functions
        self._addresses: list[int] = []  # a thread may be running at any of them
        self._lock = threading.Lock()
        self._used, n = 0.0, text.count("\n")
        self._worth = COMPILE_SECONDS * n * (1 + n / LARGE)
        try:
            self._begin(text)
        except RuntimeError:  # of the linker, for a file of the cache that is no object file
            for quick in (False, True):
                cache.remove(cache_key(text, quick))
            self._begin(text)

    def _begin(self, text: str) -> None:
        """Load the code of a text from the cache, or quick code."""
        cached = cache.read(cache_key(text, quick=False))
        self._text = None if cached else zlib.compress(text.encode(), 1)
        self.optimised = 1 if cached else 2
        self._load(cached or _object(text, quick=True))

    def _load(self, code: bytes) -> None:
        """Load an object file into memory."""
        number = next(_numbers)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(self._name)
        for function in self._functions:
            address = ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value
            library.import_symbol(PREFIX + function, address)
        loaded = library.link(_linker(number // KEPT_CODES), f"program{number}")
        finalizer = weakref.finalize(self, loaded.close)  # keeps the linker alive
        finalizer.atexit = False  # the process frees it anyway
        self._addresses.append(loaded[self._name])  # last: an interrupt before it discards unused code only

    @property
    def version(self) -> int:
        """Number that changes when there is a better address."""
        return len(self._addresses)

    @property
    def address(self) -> int:
        """Address of the function."""
        return self._addresses[-1]

    def used(self, seconds: float) -> None:
        """Add to the run time; optimize the program once that exceeds the cost of compilation."""
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
    """Compile a text to an object file, or read it from the cache."""
    key = cache_key(text, quick)
    code = cache.read(key)
    if code is None:
        name, features = cpu()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=name, features=features, opt=effort(text, quick), reloc="pic", codemodel="small", jit=True
        )
        # A separate context, freed after its module: the global one dies with the process while threads still compile.
        with llvm.create_context() as context, llvm.parse_assembly(text, context=context) as module:
            module.verify()  # an error here is a defect of this package; later it would end the process
            _optimise(module, machine, QUICK if quick else _passes(text))
            code = machine.emit_object(module)
        cache.write(key, code)
    return code


@functools.cache
def _recipe() -> str:
    """Digest of this file, which determines how a text is compiled."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def cache_key(text: str, quick: bool) -> str:
    """Cache key of a program's code: a digest of all that it depends on."""
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


def effort(text: str, quick: bool) -> int:
    """Code generation level: register allocation over many calls takes LLVM minutes."""
    functions = text.split("\ndefine ")
    return 0 if quick or any(f.count(f"call double @{PREFIX}") * f.count("\n") >= CALLS for f in functions) else 1


def _passes(text: str) -> Sequence[str]:
    """Passes of good code; none stands for LLVM's level 1."""
    return LIGHT if text.count("\n") > OPTIMISED else ()


def _optimise(module: Any, machine: Any, passes: Sequence[str]) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    if not passes:
        builder.getModulePassManager().run(module, builder)
        return
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def object_file(
    texts: Sequence[str],
    names: tuple[str, ...],
    triple: str,
    cpu: str,
    features: str,
    *,
    shared: tuple[str, ...] = (),
    library: bytes = b"",
) -> tuple[bytes, str]:
    """Object file of programs with these public functions, and its triple: by default of this machine.

    For a GPU it is a text in PTX. Programs may call ``shared`` functions of others, and those of a ``library``, which
    is LLVM bitcode.
    """
    level, longest = max(effort(text, quick=False) for text in texts), max(text.count("\n") for text in texts)
    if triple.startswith("wasm") and longest > OPTIMISED:
        level = 0  # browsers allocate registers themselves: code as quick, half as large again, in a third of the time
    machine = _machine_of(triple, cpu, features, level)
    with llvm.create_context() as context:
        modules = [llvm.parse_assembly(text, context=context) for text in texts]
        if library:
            modules.append(llvm.parse_bitcode(library, context=context))
        whole = modules[0]
        for module in modules[: len(texts)]:
            _hide(module, (*names, *shared))
        for module in modules[1:]:
            whole.link_in(module)
        with whole:
            _hide(whole, names)
            whole.triple, whole.data_layout = machine.triple, str(machine.target_data)
            whole.verify()
            if library:
                _optimise(whole, machine, UNUSED)
            _optimise(whole, machine, _passes(max(texts, key=lambda text: text.count("\n"))))
            is_text = triple == gpu.TRIPLE
            return machine.emit_assembly(whole).encode() if is_text else machine.emit_object(whole), machine.triple


def _hide(module: Any, names: tuple[str, ...]) -> None:
    """Make all functions internal but these."""
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"


@functools.cache
def fuses(triple: str, cpu: str, features: str) -> bool:
    """True if a processor has fused multiply-add in double precision: if LLVM needs no function of the C library."""
    if triple == gpu.TRIPLE:
        return True
    if not triple and not cpu:
        return fma() and "-fma" not in features.split(",")
    machine = _machine_of(triple, cpu, features, 1)
    text = (
        "declare double @llvm.fma.f64(double, double, double)\n"
        "define double @fused(double %a, double %b, double %c) {\n"
        "%d = call double @llvm.fma.f64(double %a, double %b, double %c)\nret double %d\n}\n"
    )
    with llvm.create_context() as context, llvm.parse_assembly(text, context=context) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        return re.search(rb"[\0\x03]_?fma(?![a-z0-9.])", machine.emit_object(module)) is None


def _machine_of(triple: str, cpu_name: str, features: str, effort: int) -> Any:
    """LLVM's description of a machine; ValueError if it has none."""
    if llvm is None:
        raise NotLowered("this machine, for which llvmlite has no compiler")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    named = bool(triple or cpu_name or features)
    if not triple and not cpu_name:
        cpu_name, own = cpu()
        features = ",".join(filter(None, (own, features)))
    triple = triple or llvm.get_default_triple()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ValueError(f"LLVM has no target {triple!r}: {error}") from None
    reloc = "pic" if any(word in triple for word in ("linux", "darwin", "macos", "windows", "bsd")) else "static"
    if named:
        _refuse_fatal(triple, cpu_name, features, reloc)
    machine = target.create_target_machine(
        cpu=cpu_name, features=features, opt=effort, reloc=reloc, codemodel="default"
    )
    if re.search("-P[1-9]", str(machine.target_data)):  # on which LLVM ends the process
        raise ValueError(
            f"triple = {triple!r} has functions in an address space of their own, for which there is no code"
        )
    return machine


_TRIAL = """
import json, sys
import llvmlite.binding as llvm
triple, cpu, features, reloc = json.load(sys.stdin)
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple(triple)
machine = target.create_target_machine(cpu=cpu, features=features, opt=0, reloc=reloc, codemodel="default")
text = "define double @f(double %x) { %a = alloca double store double %x, ptr %a %y = load double, ptr %a"
module = llvm.parse_assembly(text + " %z = fmul double %y, %x ret double %z }")
module.triple, module.data_layout = machine.triple, str(machine.target_data)
machine.emit_assembly(module) if triple.startswith("nvptx") else machine.emit_object(module)
"""


@functools.lru_cache(maxsize=64)
def _refuse_fatal(triple: str, cpu_name: str, features: str, reloc: str) -> None:
    """Raise ValueError for a machine for which LLVM emits no code; tried in another process, which it may end."""
    given = json.dumps([triple, cpu_name, features, reloc])
    done = subprocess.run([sys.executable, "-c", _TRIAL], input=given, capture_output=True, text=True, check=False)
    if done.returncode or "is not a recognized" in done.stderr:  # which LLVM would ignore
        words = (done.stderr.strip().splitlines() or ["no code"])[-1]
        last = features if len(features) <= 40 else f"…{features[-40:]}"  # those of this machine come first
        raise ValueError(
            f"LLVM emits no code for triple = {triple!r}, cpu = {cpu_name!r:.80}, features = {last!r}: {words}"
        )


_lock = threading.Lock()
_alive: weakref.WeakValueDictionary[bytes, Code] = weakref.WeakValueDictionary()
_recent: OrderedDict[bytes, Code] = OrderedDict()


def compiled(text: str, name: str, functions: tuple[str, ...]) -> Code:
    """Code of a program, compiled or reused."""
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
        while len(_recent) > KEPT_PROGRAMS:
            _recent.popitem(last=False)
    return code


def forget() -> None:
    """Release unreferenced programs."""
    with _lock:
        _recent.clear()

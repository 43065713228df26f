"""Programs of exported functions: arguments and results are vectors of doubles, and constants are part of the code.

A vector holds the arrays of a pytree one after another, integers and truth values as doubles. Constants are tables that
are loaded as the parameters of other programs are, so that the same operations are done with them, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.engine.native import gpu, machine
from geonh.engine.native.builder import PREFIX, Function
from geonh.engine.native.drivers import Arguments, trace
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.programs import ADVANCE, stepping_loop
from geonh.engine.native.values import STRAIGHT, Memory, Value, kind_of


class Target(NamedTuple):
    """Machine for which code is made.

    Attributes
    ----------
    triple : str
        LLVM's name of it, such as "aarch64-unknown-linux-gnu"; this machine when empty. "nvptx64-nvidia-cuda" is a GPU.
    cpu : str
        LLVM's name of its processor, such as "cortex-m7"; the plainest one of the triple when empty.
    features : str
        Features of the processor beyond its own, such as "+fma,-avx512f".
    """

    triple: str = ""
    cpu: str = ""
    features: str = ""


class Export(NamedTuple):
    """Function to be exported.

    Attributes
    ----------
    function : callable
        (tree, *arguments) -> (result, status), with status of type int32. Of a loop a step: result is the next value
        of the last argument.
    arguments : tuple of pytrees
        Examples.
    is_loop : bool
        True for a loop of the step, which takes the number of steps as a further argument, overwrites the last vector
        by the last good state, and returns the status of the step after it, or 0.
    is_differentiated : bool
        True if it differentiates, so that its trace has derivative rules.
    """

    function: Callable
    arguments: tuple[Any, ...]
    is_loop: bool = False
    is_differentiated: bool = False


class ObjectCode(NamedTuple):
    """Object code.

    Attributes
    ----------
    code : bytes
        Object file; of a GPU text in PTX, of kernels ``name_members``.
    externals : tuple of str
        C functions of doubles that it calls.
    stack : int
        Bytes of stack that a call may use, to a factor of 2; of WebAssembly an upper bound.
    results : dict of str to pytree
        Shapes of what each function returns.
    triple : str
        LLVM's name of the machine.
    """

    code: bytes
    externals: tuple[str, ...]
    stack: int
    results: dict[str, Any]
    triple: str


def exported(functions: dict[str, Export], arrays: Any, combine: Callable, target: Target) -> ObjectCode:
    """Object code of functions by name; ``combine`` makes their tree of its ``arrays``, which are constants.

    Raises
    ------
    NotLowered
        If a function has an operation without a lowering.
    ValueError
        If LLVM has no such target.
    """
    known, results, texts = Arguments(arrays), {}, []
    externals: dict[str, None] = {}
    constants, stack = known.arrays(arrays), 0
    fused = machine.fuses(target.triple, target.cpu, target.features)
    for name, export in functions.items():
        given = [Arguments(x) for x in export.arguments]
        once = not export.is_differentiated
        closed, shape = trace(_of_arrays(export.function, combine), known, *given, forward=once)
        types = [x.types for x in given]
        results[name] = shape[0]
        em = (_loop if export.is_loop else _function)(name, closed, constants, types, fma=fused)
        externals |= em.externals
        texts.append(_with_public_names(em.text))
        shares = machine.effort(texts[-1], quick=False) > 0 and not target.triple.startswith("wasm")
        stack = max(stack, em.frame if shares else em.stack)
    if target.triple == gpu.TRIPLE:
        sizes = {name: (len(e.arguments) + (not e.is_loop), e.is_loop) for name, e in functions.items()}
        names, c_names = tuple(name + gpu.SUFFIX for name in functions), tuple(externals)
        texts += [gpu.kernels(sizes), gpu.c_functions(c_names)]
        library = gpu.library(c_names) if c_names else b""
        code, triple = machine.object_file(texts, names, *target, shared=(*functions, *c_names), library=library)
        return ObjectCode(code, (), stack, results, triple)
    code, triple = machine.object_file(texts, tuple(functions), *target)
    return ObjectCode(code, tuple(externals), stack, results, triple)


def _of_arrays(function: Callable, combine: Callable) -> Callable:
    return lambda arrays, *arguments: function(combine(arrays), *arguments)


def _with_public_names(text: str) -> str:
    """Text that calls functions of the C library by their own names, of which LLVM is to assume nothing still."""
    return text.replace(f"@{PREFIX}", "@").replace("attributes #1 = { ", "attributes #1 = { nobuiltin ")


def _function(name: str, closed: Any, constants: list[np.ndarray], types: list[list[Any]], *, fma: bool) -> Emitter:
    """Program of ``i32 name(a0, …, result)``."""
    em = Emitter(fma=fma)
    arrays = _tables(em, constants)
    for i, each in enumerate(types):
        arrays += _arrays(em, f"%a{i}", each)
    *found, status = em.closed(closed, [em.entries(x) if x.size <= STRAIGHT else x for x in arrays])
    _write(em, "%result", closed.out_avals[:-1], found)
    em.line(f"ret i32 {em.operand(em.entries(status).item(), 'i32')}")
    _define(em, name, [*(f"%a{i}" for i in range(len(types))), "%result"], "")
    return em


def _loop(name: str, step: Any, constants: list[np.ndarray], types: list[list[Any]], *, fma: bool) -> Emitter:
    """Program of ``i32 name(a0, …, state, n)``, around ``advance``; the state is the last vector."""
    *inputs, state = types
    with float64():
        row = jax.make_jaxpr(lambda *leaves: jnp.zeros(0))(
            *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in step.in_avals)
        )
    em = stepping_loop(step, row, len(constants) + sum(map(len, inputs)), fma=fma)
    em.function = Function()
    arrays = _tables(em, constants)
    for i, each in enumerate(inputs):
        arrays += _arrays(em, f"%a{i}", each)
    home = _arrays(em, "%state", state)
    status, done = em.buffer((), "i32"), em.buffer((), "i64")
    em.store(0, status)
    em.store(0, done)
    before = (
        f"ptr {_pointers(em, arrays)}, ptr {_pointers(em, home)}, ptr {status.pointer}, ptr {done.pointer}, ptr null"
    )
    em.line("%wanted = sext i32 %n to i64")
    em.line(f"%steps = call i64 @{ADVANCE}({before}, i64 %wanted, i64 %wanted, i64 %wanted)")
    em.branch(em.emit("icmp slt i64 %steps, %wanted"), "failing", "end")
    em.begin("failing")  # the step that failed, for its status
    em.line(f"%none = call i64 @{ADVANCE}({before}, i64 1, i64 1, i64 1)")
    em.jump("end")
    em.begin("end")
    _write(em, "%state", [x for x in step.in_avals[len(arrays) :]], list(home))
    em.line(f"ret i32 {em.load(status, 0)}")
    _define(em, name, [*(f"%a{i}" for i in range(len(inputs))), "%state"], ", i32 %n")
    return em


def _tables(em: Emitter, constants: Sequence[np.ndarray]) -> list[Memory]:
    avals = [jax.core.ShapedArray(x.shape, x.dtype) for x in constants]
    return [em.table(x, kind_of(aval)) for x, aval in zip(constants, avals, strict=True)]


def _pointers(em: Emitter, arrays: Sequence[Memory]) -> str:
    """Table of addresses."""
    table = em.function.name()
    em.stored += 8 * len(arrays)
    em.function.allocas.append(f"{table} = alloca [{max(len(arrays), 1)} x ptr], align 8")
    for i, array in enumerate(arrays):
        place = em.emit(f"getelementptr inbounds ptr, ptr {table}, i64 {i}")
        em.line(f"store ptr {array.pointer}, ptr {place}")
    return table


def _places(em: Emitter, pointer: str, types: Sequence[Any]) -> list[Memory]:
    """Arrays of doubles, one after another in a vector."""
    places, at = [], 0
    for t in types:
        here = em.emit(f"getelementptr inbounds double, ptr {pointer}, i64 {at}") if at else pointer
        places.append(Memory(here, tuple(t.shape), "d", False, pointer))
        at += places[-1].size
    return places


def _arrays(em: Emitter, pointer: str, types: Sequence[Any]) -> list[Memory]:
    """Arrays of a vector, in their own types: those that are not doubles are converted, in buffers."""
    arrays = []
    for place, t in zip(_places(em, pointer, types), types, strict=True):
        kind = kind_of(t)
        array = place if kind == "d" else em.buffer(place.shape, kind)
        for i in range(0 if kind == "d" else place.size):
            double = em.load(place, i)
            if kind == "b":
                em.store(em.compare("ne", "d", double, 0.0), array, i)
            else:
                em.store(em.cast("fptoui" if kind[0] == "u" else "fptosi", double, "d", kind), array, i)
        arrays.append(array)
    return arrays


def _write(em: Emitter, pointer: str, types: Sequence[Any], values: Sequence[Value]) -> None:
    """Write arrays to a vector; those that stand there already are left."""
    for place, t, value in zip(_places(em, pointer, types), types, values, strict=True):
        kind = kind_of(t)
        if kind == "d":
            em.copy(place, value)
            continue
        with em.scope():
            for i, entry in enumerate(em.entries(value).ravel().tolist()):
                if isinstance(entry, str):
                    entry = em.cast("sitofp" if kind[0] == "i" else "uitofp", entry, kind, "d")
                em.store(entry if isinstance(entry, str) else float(entry), place, i)


def _define(em: Emitter, name: str, pointers: Sequence[str], more: str) -> None:
    parameters = ", ".join(f"ptr noalias {pointer}" for pointer in pointers)
    em.functions[f"@{name}"] = f"define i32 @{name}({parameters}{more}) #0 {{\n{em.function.body}\n}}"

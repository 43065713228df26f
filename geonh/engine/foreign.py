"""Short runs and evaluations as foreign functions of XLA, so that a compiled ``integrate`` calls no Python.

A call through Python takes some 0.2 ms, which is nothing beside a long run, and ten times a short one. A long run is
called through Python, since that can be interrupted. Like all native code a program is compiled fast at first, and
optimized once it has run for long enough; until then Python calls it, to see for how long.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax

from geonh.engine import native
from geonh.engine.compiled import PROGRAMS, Types, example
from geonh.engine.native import machine
from geonh.engine.native.drivers import Arguments, trace
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.handlers import HANDLER, handled_map
from geonh.engine.tracing import uncollected

SHORT = 5 * 10**7
"""Number of operations, those of all steps or nodes together, up to which a call is short: some 20 ms."""
LARGE = 10_000
"""Number of operations of a program above which it is called through Python, which takes no longer."""
STACK = 2**19 if sys.platform.startswith("linux") else 2**17
"""Bytes of stack that a program may use in threads of XLA, which have 8 MB on Linux, and 512 kB on macOS."""
_registered: dict[str, Target] = {}
"""Targets by name: XLA may call them as long as the process lives."""


def is_short(closed: Any, n: int) -> bool:
    """True if a jaxpr is small, and n evaluations of it are short."""
    size = Emitter().size(closed.jaxpr)
    return size <= LARGE and size * n <= SHORT


@functools.lru_cache(maxsize=PROGRAMS)
def target_of_map(function: Callable, operands: Types, batched: tuple[bool, ...]) -> str | None:
    """Name of the target for ``function((), operands)``, a list to a list, of one member, whose operands have these
    types, or None.

    Batched operands have the batch as leading axis, and if any have, so do all results.
    """
    every = example(operands)
    order = sorted(range(len(every)), key=lambda i: bool(batched) and batched[i])
    one, n_params = [every[i] for i in order], len(order) - sum(batched)

    def ordered(params: list, node: list) -> list:
        values = dict(zip(order, (*params, *node), strict=True))
        return function((), [values[i] for i in range(len(order))])

    closed, _ = trace(ordered, Arguments(one[:n_params]), Arguments(one[n_params:]))
    if not is_short(closed, 1):
        return None
    return target_of(lambda: handled_map(closed, order, n_params, fma=machine.fma()))


def target_of(write: Callable[[], Emitter]) -> str | None:
    """Name of the target for a program, None if it has no native code."""
    if not native.available():
        return None
    try:
        with uncollected():
            em = write()
    except native.NotLowered:
        return None
    text = em.text
    if em.stack >= STACK:
        return None
    name = f"geonh_{machine.cache_key(text, quick=False)[:32]}"
    if name not in _registered:
        target = Target(machine.compiled(text, HANDLER, tuple(em.externals)))
        try:
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(target.address), platform="cpu")
        except Exception:  # of another version of the interface
            return None
        _registered[name] = target
    return name


class Target:
    """Program that XLA calls: at first by Python, until its code is optimized."""

    def __init__(self, code: machine.Code) -> None:
        self._code, self.address = code, ctypes.c_void_p(code.address)
        self._best = ctypes.c_void_p.from_address(_HANDLER(code.address)(None))
        self._first, self._by_python = _HANDLER(self._best.value or 0), _HANDLER(self._call)
        if code.version < code.optimised:
            self._best.value = ctypes.cast(self._by_python, ctypes.c_void_p).value

    def _call(self, frame: int) -> int:
        """Call the first version of the code, and have it optimized if that is worth it."""
        begun = time.perf_counter()
        self._first(frame)
        try:
            self._code.used(time.perf_counter() - begun)
            if self._code.version >= self._code.optimised:
                self._best.value = self._code.address
        except KeyboardInterrupt:  # of the compiler; it would be lost here
            _thread.interrupt_main()
        return 0


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)

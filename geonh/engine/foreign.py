"""Short runs and evaluations as foreign functions of XLA, so that a compiled ``integrate`` calls no Python.

A call through Python takes some 0.2 ms, which is nothing beside a long run, and ten times a short one. A long run is
called through Python, since that can be interrupted. Like all native code a program is compiled fast at first, and
optimized once it has run for long enough; until then it calls Python to tell how much it has done.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax

from geonh.engine import native
from geonh.engine.compiled import PROGRAMS, Types, example
from geonh.engine.interrupts import AGAIN
from geonh.engine.native import machine
from geonh.engine.native.drivers import Arguments, optimised_stack, trace
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.handlers import HANDLER, SAFE_STACK, Places, handled_map
from geonh.engine.tracing import uncollected

SHORT = 5 * 10**7
"""Number of operations, those of all steps or nodes together, up to which a call is short: some 20 ms."""
LARGE = 60_000
"""Number of operations of a program above which it is called through Python, which takes hardly longer."""
INSTRUCTION_SECONDS = 4e-10
"""Time that an instruction of quick code takes, roughly."""
LARGEST_STACK = 2**24
"""Bytes of stack of a program above which it is called through Python."""
MOST = 1000
"""Number of targets at most, some 0.1 MB each: XLA may call them as long as the process lives."""
_lock = threading.Lock()
_registered: dict[str, Target] = {}
"""Targets by name."""


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
    """Name of the target for a program, None if it has no native code or there are too many."""
    if not native.available():
        return None
    try:
        with uncollected():
            em = write()
    except native.NotLowered:
        return None
    text, stack = em.text, em.stack
    if stack >= LARGEST_STACK or (stack >= SAFE_STACK and sys.platform == "win32"):
        return None
    name = f"geonh_{machine.cache_key(text, quick=False)[:32]}"
    with _lock:
        known, is_full = name in _registered, len(_registered) >= MOST
    if known or is_full:
        return name if known else None
    code = machine.compiled(text, HANDLER, tuple(em.externals))
    is_small = optimised_stack(em, text) < SAFE_STACK
    with _lock:
        if name not in _registered:  # by another thread
            target = Target(code, text.count("\n"), is_small=is_small)
            try:
                jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(target.address), platform="cpu")
            except Exception:  # of another version of the interface
                return None
            _registered[name] = target
            target.begin()  # an interrupt before it leaves nothing that calls an object which is gone
    return name


class Target:
    """Program that XLA calls. Until its code is optimized it tells Python after each call how much it has done.

    Parameters
    ----------
    code : Code
        Its code.
    size : int
        Number of its instructions.
    is_small : bool
        True if optimized code may run in any thread, whatever stack that has.
    """

    def __init__(self, code: machine.Code, size: int, *, is_small: bool) -> None:
        self._code, self._size, self._is_small = code, size, is_small
        self.address = ctypes.c_void_p(code.address)
        self._places = _places(code)
        self._tell = _TELL(self._used)  # kept: a thread may be about to call it

    def begin(self) -> None:
        """Take the best code, or tell Python of calls."""
        if self._code.version < self._code.optimised:
            self._places.told = ctypes.cast(self._tell, ctypes.c_void_p).value
        else:
            self._take_best()

    def _take_best(self) -> None:
        best = _places(self._code)
        self._places.called = best.handle if self._is_small else best.called

    def _used(self, done: int) -> None:
        """Have the code optimized if that is worth it; an exception that left this function would be lost."""
        try:
            self._code.used(INSTRUCTION_SECONDS * self._size * done)
            if self._code.version >= self._code.optimised:
                self._take_best()
                self._places.told = None
        except KeyboardInterrupt:
            again = threading.Timer(AGAIN, _thread.interrupt_main)
            again.daemon = True
            again.start()


def _places(code: machine.Code) -> Places:
    """Those of the best version of a code."""
    return Places.from_address(_HANDLER(code.address)(None))


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_TELL = ctypes.CFUNCTYPE(None, ctypes.c_int64)

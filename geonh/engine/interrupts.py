"""Long calls of compiled code that a user can interrupt, and interrupts that wait for the right moment."""

from __future__ import annotations

import _thread
import functools
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

resource: Any
try:
    import resource
except ImportError:  # on Windows
    resource = None

AGAIN = 0.1
"""Seconds after which an interrupt that nobody answered comes again."""
Args = ParamSpec("Args")
Out = TypeVar("Out")
PAGE = 2**16
"""Bytes, of which the size of a stack is a multiple."""
USUAL = 2**23
"""Bytes of a stack that compilers count on."""
_NAME = "geonh: compiled code"
_one_size = threading.Lock()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def stack_of_a_thread() -> int:
    """Bytes that the stack of a thread has, as far as one can tell: what the user chose, or the system allows."""
    with _one_size:
        chosen = threading.stack_size()  # which also forgets it
        threading.stack_size(chosen)
    sizes = [USUAL, chosen]
    if resource is not None:
        sizes.append(resource.getrlimit(resource.RLIMIT_STACK)[0])  # -1 if there is no limit
    return min(size for size in sizes if size > 0)


def interruptible(function: Callable[[], Out], *, if_noted: bool = False, stack: int = 0) -> Out:
    """Call a function that stays in compiled code for long, such as a compiler; Ctrl-C is heard meanwhile.

    It runs in a thread of its own, with a ``stack`` of at least so many bytes, which after a KeyboardInterrupt goes on
    to its end, its result lost: what it works on must be kept by the function. ``if_noted`` raises one also for
    a Ctrl-C that ``Interrupts`` only noted.
    """
    if not _in_main_thread() and not stack and stack_of_a_thread() >= USUAL // 8:
        return function()
    found: list[Out] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=_NAME, daemon=True)
    with _one_size:
        before = threading.stack_size()
        try:
            threading.stack_size(PAGE * (max(stack, before, USUAL) // PAGE + 1))
            thread.start()
        finally:
            threading.stack_size(before)
    while thread.is_alive():
        thread.join(0.05 if if_noted else None)
        if if_noted and _entered and _entered[-1].heard:
            raise KeyboardInterrupt
    if raised:
        raise raised[0]
    return found[0]


def busy() -> bool:
    """Whether a call that was interrupted still goes on."""
    return any(thread.name == _NAME for thread in threading.enumerate())


class Interrupts:
    """While it is entered, Ctrl-C is not lost, and comes at the right moment.

    It is only noted, in ``heard``; a second one raises KeyboardInterrupt. Or, if ``at_once``, it raises, and again
    until it is answered: an exception in a callback of the garbage collector is printed and gone. What is being
    imported meanwhile is imported to its end: some modules (those of MLIR) cannot be begun twice in a process.

    Where another program has its own answer to Ctrl-C, or in a thread, nothing is changed.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.heard = False
        self._at_once = at_once
        self._before: Any = None
        self._within: Any = None

    def __enter__(self) -> Interrupts:
        if _in_main_thread():
            _entered.append(self)
            self._within = sys._getframe(1)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._before = signal.signal(signal.SIGINT, interrupt)
        return self

    def __exit__(self, *_: Any) -> None:
        if self in _entered:
            _entered.remove(self)
        self._within = None
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def answer(self, frame: Any) -> None:
        """Note it, or raise: not where Python would print the exception and go on, nor in an import, but a moment
        later."""
        raises = self._at_once or self.heard
        later = raises and (_is_lost(frame) or _is_importing(frame, self._within))
        self.heard = True
        if self._at_once or later:
            timer = threading.Timer(AGAIN, self._remind)
            timer.daemon = True
            timer.start()
        if raises and not later:
            raise KeyboardInterrupt

    def _remind(self) -> None:
        if self in _entered:
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # wakes a call that waits
            else:
                _thread.interrupt_main()


def _is_lost(frame: Any) -> bool:
    """Whether an exception would be lost there: in a callback of the garbage collector, or of a weak reference, a
    ``__del__``, or a comparison, of which JAX makes another error."""
    callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        if frame.f_code in callbacks or frame.f_code.co_name in _LOSING or frame.f_code in _OF_WEAK_REFERENCES:
            return True
        frame = frame.f_back
    return False


def _is_importing(frame: Any, within: Any) -> bool:
    """Whether a module is being imported there, by what ``within`` called."""
    while frame is not None and frame is not within:
        if (frame.f_code.co_filename, frame.f_code.co_name) == _IMPORT:
            return True
        frame = frame.f_back
    return False


_IMPORT = "<frozen importlib._bootstrap>", "_find_and_load"
_WEAK: tuple[Any, ...] = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_OF_WEAK_REFERENCES = (*(kind()._remove.__code__ for kind in _WEAK), weakref.finalize.__call__.__code__)
_LOSING = ("__del__", "__eq__", "__hash__")
_entered: list[Interrupts] = []


def interrupt(number: int, frame: Any) -> None:
    """What Ctrl-C does: a signal handler, for other signals that are to do the same."""
    if not _entered:
        signal.default_int_handler(number, frame)
    _entered[-1].answer(frame)


def interrupted_at_once(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorate a function in which Ctrl-C raises KeyboardInterrupt for certain."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        with Interrupts(at_once=True):
            return function(*args, **kwargs)

    return wrapper

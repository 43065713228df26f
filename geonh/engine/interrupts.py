"""Interruptible calls of compiled code, and deferred handling of Ctrl-C."""

from __future__ import annotations

import _signal  # its functions take a fifth of the time of those of ``signal``, which look for names of handlers
import _thread
import ctypes
import functools
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from geonh.arguments.signatures import surplus_refused

resource: Any
try:
    import resource
except ImportError:  # on Windows
    resource = None

AGAIN = 0.1
"""Seconds after which an unhandled interrupt is raised again."""
Args = ParamSpec("Args")
Out = TypeVar("Out")
PAGE = 2**16
"""Granularity of stack sizes, in bytes."""
COMPILER_STACK = 2**23
"""Stack size that compilers rely on, in bytes."""
_NAME = "geonh: compiled code"
_stack_size_lock = threading.Lock()
_of_thread = threading.local()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def stack_of_thread() -> int:
    """Stack of the calling thread in bytes, up to ``COMPILER_STACK``, as far as known: its own, as set by the
    user, or the system's limit.
    """
    if not hasattr(_of_thread, "stack"):
        with _stack_size_lock:
            chosen = threading.stack_size()  # reading it also resets it
            threading.stack_size(chosen)
        sizes = [COMPILER_STACK, chosen, _stack_in_c()]
        if resource is not None:
            sizes.append(resource.getrlimit(resource.RLIMIT_STACK)[0])  # -1 if there is no limit
        _of_thread.stack = min(size for size in sizes if size > 0)
    return _of_thread.stack


def _stack_in_c() -> int:
    """Stack size of the calling thread, from the C library of Linux; 0 elsewhere."""
    if not sys.platform.startswith("linux"):
        return 0
    library, attributes, size = ctypes.CDLL(None), (ctypes.c_long * 32)(), ctypes.c_size_t(0)
    if not hasattr(library, "pthread_getattr_np"):
        return 0
    library.pthread_self.restype = ctypes.c_void_p
    if library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes):
        return 0
    library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


def interruptible(function: Callable[[], Out], *, if_recorded: bool = False, stack: int = 0) -> Out:
    """Call a function that stays in compiled code for long, such as a compiler, such that Ctrl-C interrupts it.

    The function runs in a separate thread, with a ``stack`` of at least so many bytes. After a KeyboardInterrupt the
    thread runs to its end and its result is discarded: the function must keep its operands alive. ``if_recorded``
    raises one also for a Ctrl-C that ``Interrupts`` only recorded.
    """
    if not _in_main_thread() and not stack and stack_of_thread() >= COMPILER_STACK // 8:
        return function()
    results: list[Out] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=_NAME, daemon=True)
    with _stack_size_lock:
        before = threading.stack_size()
        try:
            threading.stack_size(PAGE * (max(stack, before, COMPILER_STACK) // PAGE + 1))
            thread.start()
        finally:
            threading.stack_size(before)
    while thread.is_alive():
        thread.join(0.05 if if_recorded else None)
        if if_recorded and _active and _active[-1].requested:
            raise KeyboardInterrupt
    if raised:
        raise raised[0]
    return results[0]


def busy() -> bool:
    """True if an interrupted call is still running."""
    return any(thread.name == _NAME for thread in threading.enumerate())


class Interrupts:
    """Context manager in which Ctrl-C is not lost, and is handled at a safe time.

    It is only recorded, in ``requested``; a second one raises KeyboardInterrupt. With ``at_once`` it is raised
    immediately, and again until it is handled, since an exception in a callback of the garbage collector is printed
    and discarded.
    Imports in progress are completed: some modules (those of MLIR) cannot be imported twice in a process.

    If another SIGINT handler is installed, or outside of the main thread, nothing is changed.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.requested = False
        self._at_once = at_once
        self._before: Any = None
        self._frame: Any = None

    def __enter__(self) -> Interrupts:
        if _in_main_thread():
            _active.append(self)
            self._frame = sys._getframe(1)
            outermost = len(_active) == 1
            if outermost and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
                self._before = _signal.signal(_signal.SIGINT, interrupt)
        return self

    def __exit__(self, *_: Any) -> None:
        if self in _active:
            _active.remove(self)
        self._frame = None
        if self._before is not None:
            _signal.signal(_signal.SIGINT, self._before)

    def handle(self, frame: Any) -> None:
        """Record the signal, or raise; a moment later if the exception would be discarded here, or during an import."""
        raises = self._at_once or self.requested
        later = raises and (_is_lost(frame) or _is_importing(frame, self._frame))
        self.requested = True
        if self._at_once or later:
            timer = threading.Timer(AGAIN, self._signal_again)
            timer.daemon = True
            timer.start()
        if raises and not later:
            raise KeyboardInterrupt

    def _signal_again(self) -> None:
        if self in _active:
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # wakes a blocking call
            else:
                _thread.interrupt_main()


def _is_lost(frame: Any) -> bool:
    """True if an exception would be lost in this frame: in a callback of the garbage collector or of a weak reference,
    a ``__del__``, or a comparison, whose exceptions JAX replaces."""
    callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        if frame.f_code in callbacks or frame.f_code.co_name in _DISCARDING or frame.f_code in _OF_WEAK_REFERENCES:
            return True
        frame = frame.f_back
    return False


def _is_importing(frame: Any, within: Any) -> bool:
    """True if ``within`` called, directly or not, an import that is in progress in this frame."""
    while frame is not None and frame is not within:
        if (frame.f_code.co_filename, frame.f_code.co_name) == _IMPORT:
            return True
        frame = frame.f_back
    return False


_IMPORT = "<frozen importlib._bootstrap>", "_find_and_load"
_WEAK: tuple[Any, ...] = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_OF_WEAK_REFERENCES = (*(kind()._remove.__code__ for kind in _WEAK), weakref.finalize.__call__.__code__)
_DISCARDING = ("__del__", "__eq__", "__hash__")
_active: list[Interrupts] = []


def interrupt(number: int, frame: Any) -> None:
    """Handler of SIGINT (Ctrl-C), also for other signals that are to act like it."""
    if not _active:
        signal.default_int_handler(number, frame)
    _active[-1].handle(frame)


def interrupted_at_once(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorator for a public function in which Ctrl-C always raises KeyboardInterrupt; refuses surplus arguments."""
    refuse_surplus = surplus_refused(function)

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        refuse_surplus(args, kwargs)
        with Interrupts(at_once=True):
            return function(*args, **kwargs)

    return wrapper

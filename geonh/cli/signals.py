"""Ends of a command: Ctrl-C, and SIGTERM, which batch systems send, save results; the exit code tells which.

Before a command runs a model nothing is to be saved: it ends at once. Later the request is acknowledged at once; saving
may take longer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from geonh._leaving import CODES, INTERRUPTED, TERMINATED, Leave


def _leave_no_more() -> None:
    for number in CODES:
        handler = signal.getsignal(number)
        if isinstance(handler, Leave):
            signal.signal(number, handler.before)


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator for a command that runs models: what exists is saved when a signal ends it."""

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        from geonh.engine import Interrupts

        code = 0
        _leave_no_more()
        with Interrupts(at_once=True), Termination() as termination:
            try:
                command(**arguments)
            except KeyboardInterrupt:
                code = INTERRUPTED
            except typer.Exit as end:
                code = end.exit_code
        raise typer.Exit(TERMINATED if termination.asked else code)

    return wrapper


class Termination:
    """Context in which SIGTERM acts once like Ctrl-C; ``asked`` is True after it was received.

    Enter it inside ``Interrupts``, whose handler of Ctrl-C it takes over.
    """

    def __init__(self) -> None:
        self.asked = self._user_error = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Termination:
        from geonh.engine import interrupt

        self._interrupt = interrupt
        if threading.current_thread() is threading.main_thread():
            ours = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is interrupt else []
            for number in (signal.SIGTERM, *ours):
                self._before[number] = signal.signal(number, self._answer)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _answer(self, number: int, frame: Any) -> None:
        if not self._user_error:
            self._user_error = True
            with contextlib.suppress(OSError):
                os.write(2, b"geonh: stopping\n")  # a console may be busy
        if number != signal.SIGTERM or not self.asked:  # a second signal does not prevent saving
            self.asked |= number == signal.SIGTERM
            self._interrupt(number, frame)


def exit_with(code: int) -> NoReturn:
    """Exit immediately, even if a compiler thread that nothing waits for is still running."""
    engine = sys.modules.get("geonh.engine")
    if engine is not None and engine.busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)

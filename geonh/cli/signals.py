"""SIGTERM, by which a batch system ends a run, as Ctrl-C: what exists is saved, and the exit code tells which.

That it stops is said at once; saving may take longer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from geonh.engine import interrupts as waiting

INTERRUPTED, TERMINATED = 130, 143


class Termination:
    """While it is entered, SIGTERM does once what Ctrl-C does; ``asked`` says that it came.

    To be entered inside ``Interrupts``, whose answer to Ctrl-C it takes over.
    """

    def __init__(self) -> None:
        self.asked = self._told = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            ours = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is waiting.interrupt else []
            for number in (signal.SIGTERM, *ours):
                self._before[number] = signal.signal(number, self._answer)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _answer(self, number: int, frame: Any) -> None:
        if not self._told:
            self._told = True
            with contextlib.suppress(OSError):
                os.write(2, b"geonh: stopping\n")  # a console may be busy
        if number != signal.SIGTERM or not self.asked:  # a second one does not hinder saving
            self.asked |= number == signal.SIGTERM
            waiting.interrupt(number, frame)


def leave(code: int) -> NoReturn:
    """End the program now, even if a compiler that nobody waits for is still at work."""
    if waiting.busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)

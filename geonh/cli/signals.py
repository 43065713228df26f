"""SIGTERM, by which a batch system ends a run, as Ctrl-C: what exists is saved, and the exit code tells which."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, NoReturn

from geonh.numerics import waiting

INTERRUPTED, TERMINATED = 130, 143


class Termination:
    """While it is entered, SIGTERM does once what Ctrl-C does; ``asked`` says that it came."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._answer)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _answer(self, number: int, frame: Any) -> None:
        if not self.asked:  # a second one does not hinder saving
            self.asked = True
            waiting.interrupt(number, frame)


def leave(code: int) -> NoReturn:
    """End the program now, even if a compiler that nobody waits for is still at work."""
    if waiting.busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)

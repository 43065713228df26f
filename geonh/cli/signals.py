"""SIGTERM, sent by batch systems to end a run, handled like Ctrl-C: results are saved, and the exit code tells which.

The request is acknowledged at once; saving may take longer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from geonh.engine import busy, interrupt

INTERRUPTED, TERMINATED = 130, 143


class Termination:
    """Context in which SIGTERM acts once like Ctrl-C; ``asked`` is True after it was received.

    Enter it inside ``Interrupts``, whose handler of Ctrl-C it takes over.
    """

    def __init__(self) -> None:
        self.asked = self._user_error = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Termination:
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
            interrupt(number, frame)


def exit_with(code: int) -> NoReturn:
    """Exit immediately, even if a compiler thread that nothing waits for is still running."""
    if busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)

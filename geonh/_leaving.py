"""Ends of the command line before a command runs; imported first, and importing nothing that takes time."""

from __future__ import annotations

import os
import signal
from typing import Any

INTERRUPTED, TERMINATED = 130, 143
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class Leave:
    """Handler of a signal that ends the process with its exit code, and remembers the one before it."""

    def __init__(self, code: int, before: Any) -> None:
        self.code, self.before = code, before

    def __call__(self, number: int, frame: Any) -> None:
        os._exit(self.code)


def leave_at_once() -> None:
    """Let Ctrl-C and SIGTERM end the process without a traceback; a signal that is ignored stays ignored."""
    for number, code in CODES.items():
        before = signal.getsignal(number)
        if before in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, Leave(code, before))

"""The command ``geonh``, before geonh is imported: who ends it in these seconds gets the exit code and no traceback.

It stands beside the package because importing anything of the package imports all of it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Import the command line, and run it."""
    _open_closed()
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143}
    heard = {s: signal.getsignal(s) for s in codes}  # one that is ignored stays ignored
    answered = [s for s, answer in heard.items() if answer in (signal.SIG_DFL, signal.default_int_handler)]

    def leave(number: int, frame: Any) -> None:
        os._exit(codes[signal.Signals(number)])

    for s in answered:
        signal.signal(s, leave)
    from geonh.cli import app

    for s in answered:
        signal.signal(s, heard[s])
    try:
        app()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in codes.values():  # without the second that Python takes to leave
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


def _open_closed() -> None:
    """Standard streams that are closed, opened to nothing: else a file would get their number, and what libraries
    write to them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


if __name__ == "__main__":
    main()

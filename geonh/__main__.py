"""The command ``geonh``, and ``python -m geonh``."""

from __future__ import annotations

import os
import sys

from geonh._leaving import CODES, leave_at_once


def main() -> None:
    """Run the command line; who ends it before a model runs gets the exit code and no traceback."""
    _open_closed()
    leave_at_once()
    from geonh.cli import app

    try:
        app()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in CODES.values():  # without the second that Python takes to leave
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

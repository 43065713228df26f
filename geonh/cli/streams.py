"""Standard output and error that take whatever is written: a run is saved though nobody can read what it shows."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

UNSHOWN = 3
"""Exit code where all was done but standard output could not be written."""


class Sink(io.FileIO):
    """A stream of the system that fails once: the error is kept in ``failure``, and what comes after it is dropped."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def steady() -> Sink | None:
    """Put streams in place of ``sys.stdout`` and ``sys.stderr`` that raise no error: characters which their encoding
    has not are replaced, and what is written to a closed one is dropped. Another program's streams are left alone.

    Returns
    -------
    Sink or None
        What is below standard output, if it was replaced.
    """
    sys.stderr, _ = _steadied(sys.stderr, sys.__stderr__)
    sys.stdout, sink = _steadied(sys.stdout, sys.__stdout__)
    return sink


def _steadied(stream: Any, of_system: Any) -> tuple[Any, Sink | None]:
    if stream is None:  # it was closed when Python began
        return open(os.devnull, "w", encoding="utf-8"), None
    if stream is not of_system or (sys.platform == "win32" and stream.isatty()):
        return stream, None
    with contextlib.suppress(OSError):
        stream.flush()
    sink = Sink(stream.fileno(), "w", closefd=False)
    errors = "replace" if stream.errors in ("strict", "surrogateescape") else stream.errors
    buffer = io.BufferedWriter(sink)
    return io.TextIOWrapper(buffer, stream.encoding, errors, line_buffering=stream.line_buffering), sink


def failure_of(sink: Sink | None) -> OSError | None:
    """Why standard output could not be written; a reader that wanted no more, as ``head``, is no reason."""
    if sink is None:
        return None
    sys.stdout.flush()
    return None if isinstance(sink.failure, BrokenPipeError) else sink.failure

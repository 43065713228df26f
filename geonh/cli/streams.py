"""Standard output and error streams that never fail, so that a run is saved even if its output cannot be shown."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

UNSHOWN = 3
"""Exit code if everything succeeded except writing to standard output."""


class Sink(io.FileIO):
    """Raw output stream that fails once: the error is stored in ``failure``, and later output is dropped."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def robust_streams() -> Sink | None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that raise no errors: characters missing in their encoding
    are replaced, and output to a closed stream is dropped. Streams of another program are not replaced. Return the raw
    stream of standard output, if it was replaced.
    """
    sys.stderr, _ = _through_sink(sys.stderr, sys.__stderr__)
    sys.stdout, sink = _through_sink(sys.stdout, sys.__stdout__)
    return sink


def _through_sink(stream: Any, of_system: Any) -> tuple[Any, Sink | None]:
    if stream is None:  # closed when Python started
        return open(os.devnull, "w", encoding="utf-8"), None
    if stream is not of_system or (sys.platform == "win32" and stream.isatty()):
        return stream, None
    with contextlib.suppress(OSError):
        stream.flush()
    sink = Sink(stream.fileno(), "w", closefd=False)
    errors = "replace" if stream.errors in ("strict", "surrogateescape") else stream.errors
    buffer = io.BufferedWriter(sink)
    return io.TextIOWrapper(buffer, stream.encoding, errors, line_buffering=stream.line_buffering), sink


def write_failure(sink: Sink | None) -> OSError | None:
    """Error on writing to standard output, if any; a pipe closed by its reader, as by ``head``, is none."""
    if sink is None:
        return None
    sys.stdout.flush()
    return None if isinstance(sink.failure, BrokenPipeError) else sink.failure

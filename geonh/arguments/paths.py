"""Paths on this machine, and the error of files that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from geonh.arguments.validators import shortly


class FileError(ValueError):
    """Error of a file that is not a geonh trajectory, is damaged, or has content this geonh cannot read or write."""


def checked_path(path: str | os.PathLike, name: str = "path") -> Path:
    """Validate a path on this machine; FileError for a network address, or what is not a path."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise TypeError(f"{name} must be a path, text or pathlib.Path, got {shortly(path)}") from None
    if not isinstance(text, str) or "\0" in text or not text or not _can_be_encoded(text):
        raise FileError(f"{name}: {text!r} is not a path")
    if long := [part for part in Path(text).parts if len(part.encode()) > LONGEST]:
        raise FileError(
            f"{name}: {long[0][:40]}… is not a path: it has {len(long[0].encode())} bytes, a name at most {LONGEST}"
        )
    if "://" in text:
        raise FileError(f"{text} is a network address; geonh opens files on this machine only: fetch it first")
    return Path(text)


LONGEST = 255
"""Maximum length in bytes of a file or folder name on the file systems in use."""


def lock(file: Any) -> bool | None:
    """Lock a file exclusively until it is closed or the process ends; False if another process holds the lock, None
    where there are no locks.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _can_be_encoded(text: str) -> bool:
    """False for a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

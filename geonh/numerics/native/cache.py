"""Machine code on disk, so that another process compiles nothing.

One file for each program, named by a digest of its text, the CPU, and the versions of compiler and library. The folder
belongs to its user alone, and what is read must carry the digest with which it was written: else it is compiled again.
Files appear under their name when they are whole, so any number of processes may share the folder.

``GEONH_CACHE=off`` switches it off; ``GEONH_CACHE=path`` moves it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import stat
import sys
import tempfile
import time
from pathlib import Path

LARGEST = 200 * 2**20
"""Bytes of all files, about; beyond it those not used for longest go."""
SELDOM = 100
"""Looking at all files takes long when they are thousands: one of so many writes does."""
ABANDONED = 3600.0
"""Seconds after which a file that is still being written never will be."""
_SUFFIX, _TEMPORARY = ".code", ".tmp"
_MAGIC = b"geonh 1\n"


def folder() -> Path | None:
    """Where code is kept; None where it is switched off, or where others may write."""
    named = os.environ.get("GEONH_CACHE", "")
    if named.lower() in ("off", "0", "no", "false"):
        return None
    try:
        path = Path(named).expanduser() if named else _user_cache() / "geonh" / "code"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if _is_private(path) else None
    except (OSError, RuntimeError):  # read-only, or no home
        return None


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _is_private(path: Path) -> bool:
    if sys.platform == "win32":  # under the user's profile by default, which is the user's
        return True
    found = os.lstat(path)
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(key: str) -> bytes | None:
    """Code of a program, if it is there as it was written."""
    place = folder()
    if place is None:
        return None
    path = place / (key + _SUFFIX)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + 32
    code = content[head:]
    if content[:head] != _MAGIC + _digest(key, code):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was used now
    return code


def write(key: str, code: bytes) -> None:
    """Keep the code of a program, if that is possible."""
    place = folder()
    if place is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=place, suffix=_TEMPORARY)  # readable by its owner only
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(key, code) + code)
        os.replace(temporary, place / (key + _SUFFIX))
        if random.random() * SELDOM < 1:
            _shrink(place)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + code).digest()


def _shrink(place: Path) -> None:
    """Remove what was not used for longest until the rest fits; others may be removing too."""
    found = []
    for path in place.glob(f"*{_TEMPORARY}"):  # of a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()
    for path in place.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= LARGEST:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size

"""Persistent cache of machine code on disk, shared by processes.

One file for each program; its name, the cache key, is a digest of its text, the CPU, and the versions of compiler and
library. Folder and files belong to their user alone, and a file must carry a digest (HMAC) made with the folder's key,
a random number that is made once: otherwise it is compiled again. Files are renamed into place when complete, so any
number of processes may share the folder.

``GEONH_CACHE=off`` switches it off; ``GEONH_CACHE=path`` moves it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import random
import secrets
import stat
import sys
import tempfile
import time
from pathlib import Path

LARGEST = 200 * 2**20
"""Approximate maximum size of all files in bytes; the least recently used are removed. Larger files are not ours."""
SHRINK_EVERY = 100
"""Number of writes, on average, between scans of the folder, which are slow if there are thousands of files."""
ABANDONED_SECONDS = 3600.0
"""Age in seconds after which a temporary file counts as abandoned."""
_SUFFIX, _TEMPORARY, _KEY = ".code", ".tmp", "key"
_MAGIC = b"geonh 2\n"
_BYTES = 32
"""Length of the key, and of a digest."""
_READING = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))


def folder() -> Path | None:
    """Folder of the cache; None if it is switched off, or others may write to it."""
    named = os.environ.get("GEONH_CACHE", "")
    if named.lower() in ("off", "0", "no", "false"):
        return None
    try:
        path = Path(named).expanduser() if named else _user_cache() / "geonh" / "code"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(path)
        return path if stat.S_ISDIR(status.st_mode) and _is_private(status) else None
    except (OSError, RuntimeError):  # read-only, or no home
        return None


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _is_private(status: os.stat_result) -> bool:
    """True if only this user can write to it."""
    if sys.platform == "win32":  # under the user's profile by default, which is the user's
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _content(path: Path) -> bytes:
    """Read a file that only this user can write; OSError, with nothing read, for a link, a pipe or a file too large."""
    with open(path, "rb", opener=lambda name, _: os.open(name, _READING)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > LARGEST:
            raise OSError(f"{path} is none of ours")
        return file.read(status.st_size)


def _put(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by its owner only, replacing one of the same name."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=_TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def _secret(place: Path) -> bytes:
    """Key of a folder, created if there is no valid one.

    Of two keys created at the same time the last one stays; programs written with the other are compiled again.
    """
    path = place / _KEY
    with contextlib.suppress(OSError):
        if len(secret := _content(path)) == _BYTES:
            return secret
    _put(path, secrets.token_bytes(_BYTES))
    return _content(path)


def read(key: str) -> bytes | None:
    """Read the code of a program; None if it is missing or not as written."""
    place = folder()
    if place is None:
        return None
    path = place / (key + _SUFFIX)
    try:
        content = _content(path)
        head = len(_MAGIC) + _BYTES
        code = content[head:]
        if not hmac.compare_digest(content[:head], _MAGIC + _digest(place, key, code)):
            return None
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # mark as recently used
    return code


def write(key: str, code: bytes) -> None:
    """Store the code of a program, if possible."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        _put(place / (key + _SUFFIX), _MAGIC + _digest(place, key, code) + code)
        if random.random() * SHRINK_EVERY < 1:
            _shrink(place)


def remove(key: str) -> None:
    """Remove the code of a program, if it is there."""
    place = folder()
    if place is not None:
        with contextlib.suppress(OSError):
            (place / (key + _SUFFIX)).unlink()


def _digest(place: Path, key: str, code: bytes) -> bytes:
    return hmac.digest(_secret(place), key.encode() + b"\n" + code, "sha256")


def _shrink(place: Path) -> None:
    """Remove the least recently used files until the rest fits; other processes may be removing too."""
    entries = []
    for path in place.glob(f"*{_TEMPORARY}"):  # from a killed process
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > ABANDONED_SECONDS:
                path.unlink()
    for path in place.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            about = path.lstat()
            entries.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= LARGEST:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size

"""Files put in place as a whole, sealed with their digest, and locks that go with the process that holds them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def put_folder(folder: Path, path: Path) -> None:
    """Put a folder in place, unless another process did."""
    folder.chmod(0o755)
    try:
        os.rename(folder, path)
    except OSError:
        if not path.is_dir() or not any(path.iterdir()):
            raise


def locked(file: Any) -> bool:
    """Whether a lock could be taken; it goes with the process."""
    try:
        import fcntl
    except ImportError:  # without locks a shard may be computed twice, to the same bytes
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


LARGEST = 2**28
"""Bytes of a file that is read as a whole."""


def content_of(path: Path) -> bytes:
    """The bytes of a file; none of what is not there, is no file, as a pipe that waits for ever, or is too large."""
    return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST else b""


def digest_of(path: Path) -> str:
    """Digest of a file; "" of what is none."""
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def synced(path: Path) -> tuple[int, str]:
    """Size and digest of a file, once it is on the disk; (0, "") of one that is not there: Zarr writes no emptiness."""
    try:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        return 0, ""
    return path.stat().st_size, digest_of(path)


def remove_leftovers(path: Path) -> None:
    """Remove what a writer that died left of a file: only who has the claim writes it."""
    for left in (*path.parent.glob(f"{path.name}.*.partial"), *path.parent.glob(f".{path.name}.*")):
        left.unlink(missing_ok=True)


def put_file(path: Path, content: bytes) -> None:
    """Put a file in place as a whole."""
    handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(value: Mapping[str, Any]) -> bytes:
    digest = digest_of_text(json.dumps(value, sort_keys=True))
    return json.dumps({"content": value, "sha256": digest}, indent=1).encode()


def unsealed(content: bytes) -> dict[str, Any]:
    """What was sealed, or ValueError."""
    try:
        found = json.loads(content)
        if digest_of_text(json.dumps(found["content"], sort_keys=True)) != found["sha256"]:
            raise ValueError("digest")
        return found["content"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error

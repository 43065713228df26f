"""Atomic writes of files and folders, with checksums."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from geonh.results.replacing import temporary_folder


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Temporary folder that is moved to a path at the end, unless another process already made one there; those that
    killed processes left are removed.
    """
    with temporary_folder(path) as around:
        folder = around / "folder"
        folder.mkdir()
        yield folder
        folder.chmod(0o755)
        try:
            os.rename(folder, path)
        except OSError:
            if not path.is_dir() or not any(path.iterdir()):
                raise


LARGEST = 2**28
"""Maximum size of a file that is read as a whole, bytes."""


def content_of(path: Path) -> bytes:
    """Content of a file; empty if it is missing, not a regular file (a pipe would block), or too large."""
    return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST else b""


def digest_of(path: Path) -> str:
    """Digest of a file; "" if it is not a regular file."""
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flushed(path: Path) -> tuple[int, str]:
    """Flush a file to disk and return its size and digest; (0, "") if it is missing: Zarr writes no empty chunks."""
    try:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        return 0, ""
    return path.stat().st_size, digest_of(path)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of a writer that died; only the holder of the claim writes the file."""
    for left in (*path.parent.glob(f"{path.name}.*.partial"), *path.parent.glob(f".{path.name}.*")):
        left.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(value: Mapping[str, Any]) -> bytes:
    digest = digest_of_text(json.dumps(value, sort_keys=True))
    return json.dumps({"content": value, "sha256": digest}, indent=1).encode()


def unsealed(content: bytes) -> dict[str, Any]:
    """Content of sealed data, or ValueError if the checksum differs."""
    try:
        record = json.loads(content)
        if digest_of_text(json.dumps(record["content"], sort_keys=True)) != record["sha256"]:
            raise ValueError("digest")
        return record["content"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error

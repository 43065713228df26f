"""Files that are written beside their place, and replace what is there once they are whole."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from geonh.arguments.paths import lock


@contextlib.contextmanager
def replacing_atomically(path: Path) -> Iterator[Path]:
    """Temporary path that replaces ``path`` once it is completely written, and is removed on failure; OSError with its
    name if it cannot be written; the existing file is kept.
    """
    if path.exists() and not path.is_file():  # a device, which cannot be replaced
        yield path
        return
    with naming(path), temporary_folder(path) as folder:
        temporary = folder / f"file{path.suffix}"
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path.resolve())


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context in which errors of writing, such as of a full disk, have the name of ``path`` where they have none, or
    that of a temporary file beside it.
    """
    try:
        yield
    except OSError as error:
        name = error.filename
        if error.errno is not None and (name is None or str(name).startswith(_prefix(path))):
            error.filename = str(path)
        raise


def _prefix(path: Path) -> str:
    """Beginning of the names of temporary folders of a file."""
    return str(path.parent / f".{path.name[:100]}.")


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Create a private temporary folder beside a file, removed with its content on exit.

    Folders that killed processes left for the same file are removed too.
    """
    for left in path.parent.glob(f".{glob.escape(path.name[:100])}.????????.part"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    try:
        with open(folder / "lock", "wb") as file:
            lock(file)
            yield folder
    finally:
        for part in folder.iterdir():  # open still, where the NetCDF library failed to write it: its space is freed
            with contextlib.suppress(OSError):
                os.truncate(part, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """True if the process that created a temporary folder has ended."""
    try:
        with open(folder / "lock", "rb") as file:
            return lock(file) is True
    except OSError:
        return False

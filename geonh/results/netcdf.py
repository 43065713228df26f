"""NetCDF file handling: check destinations, write atomically, and read only files that are unmodified.

A file ends with a checksum of all its bytes, which NetCDF itself ignores, so that a changed byte is detected before the
NetCDF library opens the file. Nothing in this module depends on the content of a file.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from geonh.arguments.paths import FileError, checked_path, lock

if TYPE_CHECKING:
    import xarray as xr

SUFFIXES = (".nc", ".nc4", "")
"""Accepted file suffixes."""
_HDF5 = b"\x89HDF\r\n\x1a\n"
_SEAL = b"\ngeonh sha256 "
_SEALED = len(_SEAL) + 64 + 1
_OTHERWISE = {
    ".csv": "run.to_csv(...)",
    ".zarr": "run.to_xarray().to_zarr(...)",
    ".npz": "numpy.savez(..., t=run.t, g=run.g_vector, xi=run.xi)",
    ".npy": "numpy.save(..., run.g_vector)",
    ".parquet": "run.to_pandas().to_parquet(...)",
}


def check_destination(path: str | os.PathLike, name: str = "path") -> Path:
    """Return the path of a file to be written, checked as far as is possible without writing it.

    FileError for a suffix that is not NetCDF's, or an argument that is not a path; OSError if the folder is missing or
    not writable, or the name belongs to something that must not be replaced.
    """
    path = checked_path(path, name)
    if path.suffix not in SUFFIXES:
        way = _OTHERWISE.get(path.suffix.lower(), "run.to_csv(...)")
        raise FileError(
            f"{path} cannot be written: geonh saves NetCDF (.nc), not {path.suffix}. With another tool: {way}"
        )
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        kind = IsADirectoryError if stat.S_ISDIR(status.st_mode) else FileExistsError
        raise kind(f"{path} cannot be written: {'a folder' if kind is IsADirectoryError else 'a device'} has that name")
    if status is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is there and may not be changed")
    try:
        with _workplace(path):
            pass
    except OSError as error:
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error
    return path


def write(dataset: xr.Dataset, path: Path, *, keep: bool = True) -> None:
    """Write a file atomically, in double precision: an existing file is replaced once all of the new one is on disk.

    With ``keep=False`` do everything but that, and leave no file. OSError if the disk is full or the folder is gone; no
    temporary file remains.
    """
    encoding: dict = {name: {"_FillValue": None} for name in dataset.variables}
    with _workplace(path) as folder:
        temporary = folder / "file.nc"
        try:
            dataset.to_netcdf(temporary, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # how the NetCDF library reports a full disk
            free = shutil.disk_usage(folder).free
            raise OSError(f"{path} could not be written, with {free} bytes free there: {error}") from error
        with open(temporary, "r+b") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0, os.SEEK_END)
            file.write(_SEAL + digest.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if keep:
            os.replace(temporary, path)


@contextlib.contextmanager
def replacing_atomically(path: Path) -> Iterator[Path]:
    """Temporary path that replaces ``path`` once it is completely written, and is removed on failure; OSError if it
    cannot be written; the existing file is kept.
    """
    if path.exists() and not path.is_file():  # a device, which cannot be replaced
        yield path
        return
    with _workplace(path) as folder:
        temporary = folder / f"file{path.suffix}"
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path.resolve())


@contextlib.contextmanager
def _workplace(path: Path) -> Iterator[Path]:
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
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """True if the process that created a temporary folder has ended."""
    try:
        with open(folder / "lock", "rb") as file:
            return lock(file) is True
    except OSError:
        return False


@contextlib.contextmanager
def opened(path: str | os.PathLike) -> Iterator[Any]:
    """Open a file that is unchanged since ``write``, as a ``netCDF4.Dataset`` of plain arrays; FileError if it was not
    written by ``write``, or has changed since, and OSError if it cannot be read.
    """
    import netCDF4

    path = checked_path(path)
    _check_seal(path)
    try:
        dataset = netCDF4.Dataset(os.path.abspath(path), "r")
    except (OSError, RuntimeError) as error:
        raise FileError(f"{path} cannot be read as NetCDF: {error}") from error
    try:
        dataset.set_auto_maskandscale(False)
        yield dataset
    except (RuntimeError, AttributeError, IndexError) as error:  # raised by the library for malformed files
        raise FileError(f"{path} is damaged: {error}") from error
    finally:
        dataset.close()


def read_array(dataset: Any, name: str, kind: str, *, ndim: int | None = None) -> Any:
    """Read a variable as a NumPy array of kind ``"f"``, ``"i"`` or ``"U"``, after checking its type and size; FileError
    if it is missing, of another type, or larger than the file.
    """
    import numpy as np

    if name not in dataset.variables:
        refuse(dataset, f"it has no {name}")
    variable = dataset.variables[name]
    dtype = variable.dtype
    stored_kind = "U" if dtype is str else getattr(dtype, "kind", "?")
    if stored_kind != kind or (kind == "f" and dtype != np.float64):
        refuse(dataset, f"{name} is of type {dtype}")
    if ndim is not None and variable.ndim != ndim:
        refuse(dataset, f"{name} has {variable.ndim} dimensions, not {ndim}")
    size = int(np.prod([int(length) for length in variable.shape], dtype=object)) * (1 if kind == "U" else 8)
    if size > os.path.getsize(dataset.filepath()):
        refuse(dataset, f"{name} says that it is larger than the file, shape {variable.shape}")
    values = np.asarray(variable[...])
    return values.astype(object) if kind == "U" else values


def attribute(dataset: Any, name: str, kind: type) -> Any:
    """Read an attribute of a file as a ``str``, ``int`` or ``float``; FileError if it is missing or of another type."""
    import numpy as np

    value = dataset.getncattr(name) if name in dataset.ncattrs() else None
    fits = {str: str, int: np.integer, float: np.floating}[kind]
    if not isinstance(value, fits):
        refuse(dataset, f"its attribute {name} is {'missing' if value is None else f'{str(value)[:40]!r}'}")
    return kind(value)


def refuse(dataset: Any, what: str) -> NoReturn:
    """Raise the error for a file with unexpected content."""
    raise FileError(f"{dataset.filepath()} is not a whole trajectory of geonh: {what}")


def _check_seal(path: Path) -> None:
    """Raise FileError unless the checksum of a file matches its bytes."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would block forever
        advice = "; a store is read by geonh.open_store, and continued by running its stream or sweep again"
        raise FileError(f"{path} is not a file{advice if path.is_dir() else ''}")
    with open(path, "rb") as file:
        head = file.read(len(_HDF5))
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _SEALED, 0))
        seal = file.read()
        if not head:
            raise FileError(f"{path} is empty")
        if head[:3] == b"CDF":
            raise FileError(f"{path} is not a trajectory saved by geonh: it is another program's NetCDF file")
        if head != _HDF5 and not seal.startswith(_SEAL):
            raise FileError(f"{path} is not a trajectory saved by geonh: it is no NetCDF file")
        if not seal.startswith(_SEAL):
            raise FileError(_without_seal(path))
        file.seek(0)
        digest, left = hashlib.sha256(), size - _SEALED
        while left > 0:
            block = file.read(min(left, 2**20))
            digest.update(block)
            left -= len(block) or left
    if seal[len(_SEAL) :] != digest.hexdigest().encode() + b"\n":
        raise FileError(f"{path} is damaged: its bytes are not those that were written (their digest differs)")


def _without_seal(path: Path) -> str:
    """Error message for a NetCDF file that does not end with a checksum."""
    content = path.read_bytes()
    if len(content) < _declared_size(content):
        return f"{path} is cut short: of its {_declared_size(content)} bytes {len(content)} are there"
    if b"geonh_version" not in content:
        return f"{path} is not a trajectory saved by geonh: it is another program's NetCDF file"
    return (
        f"{path} is not as geonh wrote it: its digest is missing, so it was changed by another program, or "
        "written by a geonh before files had one"
    )


def _declared_size(content: bytes) -> int:
    """Size of an HDF5 file as declared in its header; 0 if it declares none."""
    place = {0: 40, 2: 28, 3: 28}.get(content[8] if len(content) > 48 else -1)
    return 0 if place is None else int.from_bytes(content[place : place + 8], "little")

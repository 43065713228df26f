"""NetCDF files as files: where one may be written, written whole or not at all, and read only as it was written.

A file ends with a digest of all its bytes, which NetCDF itself does not look at: so a byte that changed is found before
the NetCDF library is let near it. Nothing here knows what is in a file.
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

from geonh.arguments.paths import FileError, checked_path

if TYPE_CHECKING:
    import xarray as xr

SUFFIXES = (".nc", ".nc4", "")
"""What a file may be called."""
_HDF5 = b"\x89HDF\r\n\x1a\n"
_SEAL = b"\ngeonh sha256 "
_SEALED = len(_SEAL) + 64 + 1
_OTHERWISE = {
    ".csv": "run.to_pandas().to_csv(...)",
    ".zarr": "run.to_xarray().to_zarr(...)",
    ".npz": "numpy.savez(..., t=run.t, g=run.g_vector, xi=run.xi)",
    ".npy": "numpy.save(..., run.g_vector)",
    ".parquet": "run.to_pandas().to_parquet(...)",
}


def check_destination(path: str | os.PathLike, name: str = "path") -> Path:
    """A path that a file can be written to, as far as this can be known without writing it.

    Raises
    ------
    FileError
        For a suffix that is not NetCDF's, or what is no path.
    OSError
        If the folder is missing or closed, or something that must not be replaced has that name.
    """
    path = checked_path(path, name)
    if path.suffix not in SUFFIXES:
        way = _OTHERWISE.get(path.suffix.lower(), "run.to_pandas().to_csv(...)")
        raise FileError(
            f"{path} cannot be written: geonh saves NetCDF (.nc), not {path.suffix}. With another tool: {way}"
        )
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = IsADirectoryError if stat.S_ISDIR(found.st_mode) else FileExistsError
        raise kind(f"{path} cannot be written: {'a folder' if kind is IsADirectoryError else 'a device'} has that name")
    if found is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is there and may not be changed")
    try:
        with _workplace(path):
            pass
    except OSError as error:
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error
    return path


def write(dataset: xr.Dataset, path: Path, *, keep: bool = True) -> None:
    """Write a file as a whole: what was there stays until all of it is on the disk.

    Parameters
    ----------
    dataset : xarray.Dataset
        What is written, in double precision as it is.
    path : Path
        Where.
    keep : bool
        If not, everything is done but the last act, and nothing remains.

    Raises
    ------
    OSError
        If the disk is full or the folder is gone; nothing of the attempt remains.
    """
    encoding: dict = {name: {"_FillValue": None} for name in dataset.variables}
    with _workplace(path) as folder:
        made = folder / "file.nc"
        try:
            dataset.to_netcdf(made, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # so the NetCDF library says that a disk is full
            raise OSError(f"{path} could not be written: {error}") from error
        with open(made, "r+b") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0, os.SEEK_END)
            file.write(_SEAL + digest.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if keep:
            os.replace(made, path)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Where a file may be written that takes the place of another when it is whole, and leaves nothing if it fails.

    Raises
    ------
    OSError
        If it cannot be written; what was there stays.
    """
    if path.exists() and not path.is_file():  # a device, which is no file to replace
        yield path
        return
    with _workplace(path) as folder:
        made = folder / f"file{path.suffix}"
        yield made
        with open(made, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(made, path.resolve())


@contextlib.contextmanager
def _workplace(path: Path) -> Iterator[Path]:
    """A new folder beside a file, closed to others, which goes with all that is in it.

    Those of the same file that killed processes left go too.
    """
    for left in path.parent.glob(f".{glob.escape(path.name[:100])}.????????.part"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    try:
        with open(folder / "lock", "wb") as lock:
            _lock(lock)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lock(file: Any) -> bool:
    """Whether nobody else has a lock on a file, which this process has then; False where there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _is_abandoned(folder: Path) -> bool:
    """Whether the process that made a workplace is gone."""
    try:
        with open(folder / "lock", "rb") as lock:
            return _lock(lock)
    except OSError:
        return False


@contextlib.contextmanager
def opened(path: str | os.PathLike) -> Iterator[Any]:
    """A file that is as ``write`` left it, as a ``netCDF4.Dataset`` of plain arrays.

    Raises
    ------
    FileError
        If it is not such a file, or not any more.
    OSError
        If it cannot be read.
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
    except (RuntimeError, AttributeError, IndexError) as error:  # the library's words for what is not as it should be
        raise FileError(f"{path} is damaged: {error}") from error
    finally:
        dataset.close()


def read_array(dataset: Any, name: str, kind: str, *, ndim: int | None = None) -> Any:
    """A variable as a NumPy array of a kind, ``"f"``, ``"i"`` or ``"U"``, its type and size looked at before.

    Raises
    ------
    FileError
        If it is not there, of another type, or larger than the file.
    """
    import numpy as np

    if name not in dataset.variables:
        raise _strange(dataset, f"it has no {name}")
    variable = dataset.variables[name]
    dtype = variable.dtype
    found = "U" if dtype is str else getattr(dtype, "kind", "?")
    if found != kind or (kind == "f" and dtype != np.float64):
        raise _strange(dataset, f"{name} is of type {dtype}")
    if ndim is not None and variable.ndim != ndim:
        raise _strange(dataset, f"{name} has {variable.ndim} dimensions, not {ndim}")
    size = int(np.prod([int(length) for length in variable.shape], dtype=object)) * (1 if kind == "U" else 8)
    if size > os.path.getsize(dataset.filepath()):
        raise _strange(dataset, f"{name} says that it is larger than the file, shape {variable.shape}")
    values = np.asarray(variable[...])
    return values.astype(object) if kind == "U" else values


def attribute(dataset: Any, name: str, kind: type) -> Any:
    """An attribute of a file as a ``str``, ``int`` or ``float``.

    Raises
    ------
    FileError
        If it is not there, or of another type.
    """
    import numpy as np

    value = dataset.getncattr(name) if name in dataset.ncattrs() else None
    fits = {str: str, int: np.integer, float: np.floating}[kind]
    if not isinstance(value, fits):
        raise _strange(dataset, f"its attribute {name} is {'missing' if value is None else f'{str(value)[:40]!r}'}")
    return kind(value)


def _strange(dataset: Any, what: str) -> FileError:
    return FileError(f"{dataset.filepath()} is not a whole trajectory of geonh: {what}")


def strange(dataset: Any, what: str) -> NoReturn:
    """Say that a file is not what it should be."""
    raise _strange(dataset, what)


def _check_seal(path: Path) -> None:
    """Raise FileError unless the bytes of a file are those that were written."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever
        raise FileError(f"{path} is not a file")
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
    """What is said of a NetCDF file whose end is not ours."""
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
    """How long an HDF5 file says that it is, in its first bytes; 0 where it does not."""
    place = {0: 40, 2: 28, 3: 28}.get(content[8] if len(content) > 48 else -1)
    return 0 if place is None else int.from_bytes(content[place : place + 8], "little")

"""Formats of result files, by suffix: destinations are checked, files written atomically, and read if unmodified."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from geonh.arguments.paths import FileError, checked_path
from geonh.results import netcdf
from geonh.results.replacing import temporary_folder

if TYPE_CHECKING:
    import xarray as xr


class Format(NamedTuple):
    """Format of result files.

    Parameters
    ----------
    name : str
    write : callable
        ``write(dataset, path)`` writes all of a dataset to a new file: its attributes, and its variables with their
        dimensions, numbers in double precision and text, with a checksum by which ``opened`` detects a changed byte.
    opened : callable
        ``opened(path)`` is a context manager that yields the content with the interface of ``netCDF4.Dataset``, as far
        as ``results.files`` uses it: ``variables``, a dict of arrays with ``dtype`` (str for text), ``shape``, ``ndim``
        and ``[...]``, of scalars too; ``ncattrs()``, ``filepath()``, and ``getncattr(name)``, a str or NumPy number. It
        raises FileError for a file that ``write`` did not write, or that has changed since, and must not trust the
        sizes that a file declares.
    """

    name: str
    write: Callable[[xr.Dataset, Path], None]
    opened: Callable[[Path], AbstractContextManager[Any]]


_NETCDF = Format("NetCDF", netcdf.write, netcdf.opened)
FORMATS: dict[str, Format] = {".nc": _NETCDF, ".nc4": _NETCDF, "": _NETCDF}
"""Formats by suffix; the first is the default one."""
DEFAULT_SUFFIX = next(iter(FORMATS))
NAMES = " or ".join(
    f"{one} ({next(suffix for suffix in FORMATS if FORMATS[suffix].name == one)})"
    for one in dict.fromkeys(form.name for form in FORMATS.values())
)
"""Formats for messages: "NetCDF (.nc)"."""
OTHERWISE = {
    ".csv": "run.to_csv(...)",
    ".zarr": "run.to_xarray().to_zarr(...)",
    ".npz": "numpy.savez(..., t=run.t, g=run.g_vector, xi=run.xi)",
    ".npy": "numpy.save(..., run.g_vector)",
    ".parquet": "run.to_pandas().to_parquet(...)",
}
"""Ways to write files of other suffixes; one that gets a format leaves this table."""


def check_destination(path: str | os.PathLike, name: str = "path") -> Path:
    """Return the path of a file to be written, checked as far as is possible without writing it.

    FileError for a suffix that is not in ``FORMATS``, or an argument that is not a path; OSError if the folder is
    missing or not writable, or the name belongs to something that must not be replaced.
    """
    path = checked_path(path, name)
    if path.suffix not in FORMATS:
        way = OTHERWISE.get(path.suffix.lower(), "run.to_csv(...)")
        raise FileError(f"{path} cannot be written: geonh saves {NAMES}, not {path.suffix}. With another tool: {way}")
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
        with temporary_folder(path):
            pass
    except OSError as error:
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error
    return path


def write(dataset: xr.Dataset, path: Path, *, keep: bool = True) -> None:
    """Write a file atomically, in the format of its suffix: an existing file is replaced once all of the new one is on
    disk.

    With ``keep=False`` do everything but that, and leave no file. OSError if the disk is full or the folder is gone; no
    temporary file remains.
    """
    with temporary_folder(path) as folder:
        temporary = folder / f"file{path.suffix}"
        try:
            FORMATS[path.suffix].write(dataset, temporary)
        except RuntimeError as error:  # how the NetCDF library reports a full disk
            free = shutil.disk_usage(folder).free
            raise OSError(f"{path} could not be written, with {free} bytes free there: {error}") from error
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        if keep:
            os.replace(temporary, path)


def opened(path: str | os.PathLike) -> AbstractContextManager[Any]:
    """Open a file that is unchanged since ``write``, in the format of its suffix; in NetCDF for other suffixes.

    FileError if it was not written by ``write``, or has changed since, and OSError if it cannot be read.
    """
    path = checked_path(path)
    return FORMATS.get(path.suffix, _NETCDF).opened(path)


def read_array(dataset: Any, name: str, kind: str, *, ndim: int | None = None) -> Any:
    """Read a variable as a NumPy array of kind ``"f"``, ``"i"`` or ``"U"``, after checking its type; FileError if it is
    missing or of another type.
    """
    if name not in dataset.variables:
        refuse(dataset, f"it has no {name}")
    variable = dataset.variables[name]
    dtype = variable.dtype
    stored_kind = "U" if dtype is str else getattr(dtype, "kind", "?")
    if stored_kind != kind or (kind == "f" and dtype != np.float64):
        refuse(dataset, f"{name} is of type {dtype}")
    if ndim is not None and variable.ndim != ndim:
        refuse(dataset, f"{name} has {variable.ndim} dimensions, not {ndim}")
    values = np.asarray(variable[...])
    return values.astype(object) if kind == "U" else values


def attribute(dataset: Any, name: str, kind: type) -> Any:
    """Read an attribute of a file as a ``str``, ``int`` or ``float``; FileError if it is missing or of another type."""
    value = dataset.getncattr(name) if name in dataset.ncattrs() else None
    fits = {str: str, int: np.integer, float: np.floating}[kind]
    if not isinstance(value, fits):
        refuse(dataset, f"its attribute {name} is {'missing' if value is None else f'{str(value)[:40]!r}'}")
    return kind(value)


def refuse(dataset: Any, what: str) -> NoReturn:
    """Raise the error for a file with unexpected content."""
    raise FileError(f"{dataset.filepath()} is not a whole trajectory of geonh: {what}")

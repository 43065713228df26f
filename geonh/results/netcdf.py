"""NetCDF files that end with a checksum of all their bytes.

NetCDF itself ignores the checksum; by it a changed byte is detected before the NetCDF library opens the file. Nothing
in this module depends on the content of a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.paths import FileError

if TYPE_CHECKING:
    import xarray as xr

_HDF5 = b"\x89HDF\r\n\x1a\n"
_SEAL = b"\ngeonh sha256 "
_SEALED = len(_SEAL) + 64 + 1


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a file in double precision, with its checksum; RuntimeError if the disk is full."""
    encoding: dict = {name: {"_FillValue": None} for name in dataset.variables}
    dataset.to_netcdf(path, engine="netcdf4", encoding=encoding)
    with open(path, "r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(_SEAL + digest.encode() + b"\n")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file that is unchanged since ``write``, as a ``netCDF4.Dataset`` of plain arrays no larger than the file;
    FileError if it was not written by ``write``, or has changed since, and OSError if it cannot be read.
    """
    import netCDF4

    _check_seal(path)
    try:
        dataset = netCDF4.Dataset(os.path.abspath(path), "r")
    except (OSError, RuntimeError) as error:
        raise FileError(f"{path} cannot be read as NetCDF: {error}") from error
    try:
        dataset.set_auto_maskandscale(False)
        for name, variable in dataset.variables.items():
            size = int(np.prod([int(length) for length in variable.shape], dtype=object))
            if size * (1 if variable.dtype is str else 8) > os.path.getsize(path):
                raise FileError(
                    f"{path} is damaged: {name} says that it is larger than the file, shape {variable.shape}"
                )
        yield dataset
    except (RuntimeError, AttributeError, IndexError) as error:  # raised by the library for malformed files
        raise FileError(f"{path} is damaged: {error}") from error
    finally:
        dataset.close()


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

"""How arrays lie in a store: fields, and the files of Zarr's format 3 that describe them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHUNK = 2**20
"""Bytes that a reader of a part of a shard reads at least, about."""


class Field(NamedTuple):
    """An array of a store: what comes after its first axis, of which a shard has ``per`` entries.

    Attributes
    ----------
    shape : tuple of int
        Without the first axis.
    dtype : str
    dims : tuple of str
        Names of all axes.
    attributes : dict
    per : int
        Entries of a shard along the first axis.
    total : int
        Entries of all shards.
    fill : float or int
        What a shard that is not there reads as.
    """

    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    attributes: dict[str, Any]
    per: int
    total: int
    fill: Any


def lay_out(folder: Path, fields: Mapping[str, Field]) -> None:
    """A group of empty arrays."""
    zarr = zarr_module()
    group = zarr.create_group(folder, zarr_format=3)
    for name, field in fields.items():
        chunks, whole = _chunks(field)
        group.create_array(
            name,
            shape=(field.total, *field.shape),
            dtype=field.dtype,
            chunks=chunks,
            shards=None if chunks == whole else whole,
            compressors=[zarr.codecs.ZstdCodec(level=1), zarr.codecs.Crc32cCodec()],
            fill_value=field.fill,
            dimension_names=field.dims,
            attributes=field.attributes,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata is said to be young in format 3
        zarr.consolidate_metadata(folder)


def can_be_array(name: Any) -> bool:
    """Whether a folder in a store can have such a name."""
    return isinstance(name, str) and "/" not in name and bool(name) and not name.startswith(("zarr.json", "."))


def zarr_module() -> Any:
    """Zarr, or ImportError with what to install."""
    try:
        import zarr
        import zarr.codecs
    except ImportError as error:
        raise ImportError("stores need zarr: pip install 'geonh[scale]'") from error
    return zarr


def _chunks(field: Field) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of what is read at once and of a shard: whole numbers of one make the other."""
    rest = [max(n, 1) for n in field.shape]
    item = np.dtype(field.dtype).itemsize
    one = item * int(np.prod(rest[1:], dtype=int))
    along = min(rest[0], max(CHUNK // one, 1)) if rest else 1
    most = max(CHUNK // max(one * along, 1), 1)
    first = (
        max(n for n in range(1, field.per + 1) if field.per % n == 0 and n <= most) if field.per > most else field.per
    )
    if not rest:
        return (first,), (field.per,)
    return (first, along, *rest[1:]), (field.per, -(-rest[0] // along) * along, *rest[1:])

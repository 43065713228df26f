"""Array layout of a store: fields, and Zarr format 3 metadata files."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from geonh.arguments.file_data import COUNT, misfit

CHUNK = 2**20
"""Approximate minimum size of a read from a shard, bytes."""


class StoredArray(NamedTuple):
    """Array of a store: its shape without the first axis, names of all axes, entries along the first axis of one shard
    and of all, and fill value for missing shards.
    """

    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    attributes: dict[str, Any]
    per: int
    total: int
    fill: Any


def create_arrays(folder: Path, fields: Mapping[str, StoredArray]) -> None:
    """Create a group of empty arrays."""
    zarr = zarr_module()
    group = zarr.create_group(folder, zarr_format=3)
    for name, field in fields.items():
        chunks, shard = _chunks(field)
        group.create_array(
            name,
            shape=(field.total, *field.shape),
            dtype=field.dtype,
            chunks=chunks,
            shards=None if chunks == shard else shard,
            compressors=[zarr.codecs.ZstdCodec(level=1), zarr.codecs.Crc32cCodec()],
            fill_value=field.fill,
            dimension_names=field.dims,
            attributes=field.attributes,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr warns that consolidated metadata is not yet part of format 3
        zarr.consolidate_metadata(folder)


TYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
"""Data types of numbers in a store."""
ARRAY = {
    "zarr_format": (3,),
    "node_type": ("array",),
    "shape": [range(2**53)],
    "data_type": TYPES,
    "chunk_grid": {"name": ("regular",), "configuration": {"chunk_shape": [COUNT]}},
    "chunk_key_encoding": {"name": ("default",), "configuration": {"separator": ("/",)}},
    "dimension_names": [str],
    "attributes": dict,
}
"""Schema of Zarr's metadata of an array."""


def check_arrays(texts: Mapping[str, Any], names: Sequence[str], shards: int, shard: int) -> int:
    """Entries of all shards, of which the last need not be full, by the contents of all ``zarr.json`` files.

    ValueError if these do not describe arrays of these names as ``create_arrays`` writes them, naming the array and the
    fault; ``shards`` is the number of shards, ``shard`` the entries of one.
    """
    wrong = misfit(texts["zarr.json"], {"consolidated_metadata": {"metadata": {str: dict}}})
    if wrong:
        raise ValueError(wrong)
    together = texts["zarr.json"]["consolidated_metadata"]["metadata"]
    if together.keys() != {*names}:
        raise ValueError(f"the group has other arrays: {sorted(together)}")
    totals = {}
    for name in names:
        about = texts[f"{name}/zarr.json"]
        wrong = misfit(about, ARRAY) or _layout_fault(about)
        if not wrong and together[name] != about:
            wrong = "the metadata of the group differ"
        if wrong:
            raise ValueError(f"{name}: {wrong}")
        per, total = about["chunk_grid"]["configuration"]["chunk_shape"][0], about["shape"][0]
        if per != shard and (per, total) != (1, shards):
            raise ValueError(f"{name}: {total} entries, {per} in a shard, where {shards} shards have {shard} each")
        if per == shard:
            totals[name] = total
    if len({*totals.values()}) != 1 or not (shards - 1) * shard < min(totals.values()) <= shards * shard:
        raise ValueError(f"{shards} shards of {shard} entries are not those of arrays of length {totals}")
    return min(totals.values())


def _layout_fault(about: Mapping[str, Any]) -> str:
    """First difference between valid metadata of an array and those of ``create_arrays``; "" if there is none."""
    shape, shard_shape, names = (
        about["shape"],
        about["chunk_grid"]["configuration"]["chunk_shape"],
        about["dimension_names"],
    )
    if not shape or not len(shape) == len(shard_shape) == len(names):
        return f"shape {shape}, shards {shard_shape} and names {names} have not as many axes, or none"
    kind = np.dtype(about["data_type"])
    chunks, shard = _chunks(StoredArray(tuple(shape[1:]), kind.name, (), {}, shard_shape[0], shape[0], None))
    if shard != tuple(shard_shape):
        return f"its shards are of shape {shard_shape}, not {list(shard)}"
    order: dict[str, Any] = {"configuration": {"endian": ("little",)}} if kind.itemsize > 1 else {}
    plain, sum_ = {"name": ("bytes",), **order}, {"name": ("crc32c",)}
    codecs: list[Any] = [plain, {"name": ("zstd",)}, sum_]
    if chunks != shard:
        little = {"name": ("bytes",), "configuration": {"endian": ("little",)}}
        inner = {"chunk_shape": [(n,) for n in chunks], "codecs": codecs, "index_codecs": [little, sum_]}
        codecs = [{"name": ("sharding_indexed",), "configuration": {**inner, "index_location": ("end",)}}]
    wrong = misfit(about.get("codecs"), codecs, "codecs")
    return wrong or ("it has storage transformers" if about.get("storage_transformers") else "")


def can_be_array(name: Any) -> bool:
    """True if the name is valid for the folder of an array in a store."""
    return isinstance(name, str) and "/" not in name and bool(name) and not name.startswith(("zarr.json", "."))


def zarr_module() -> Any:
    """Import Zarr, or raise ImportError with installation instructions."""
    try:
        import zarr
        import zarr.codecs
    except ImportError as error:
        raise ImportError("stores need zarr: pip install 'geonh[scale]'") from error
    return zarr


def _chunks(field: StoredArray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Chunk and shard shapes; shard lengths are multiples of chunk lengths."""
    rest = [max(n, 1) for n in field.shape]
    item = np.dtype(field.dtype).itemsize
    one = item * int(np.prod(rest[1:], dtype=int))
    along = min(rest[0], max(CHUNK // one, 1)) if rest else 1
    most = max(CHUNK // max(one * along, 1), 1)
    first = max(n for n in range(1, most + 1) if field.per % n == 0) if field.per > most else field.per
    if not rest:
        return (first,), (field.per,)
    return (first, along, *rest[1:]), (field.per, -(-rest[0] // along) * along, *rest[1:])

"""Stores: arrays on disk written in shards, each once and by one writer, safe against interruption at any point.

A store is a folder in Zarr format 3, readable by any Zarr reader. Its arrays are split along their first axis; the
files of a shard are written one by one and then confirmed by a record, with the size and digest of each file, created
by a single rename. A shard without a valid record is missing. While a shard is being computed its writer holds a lock
that the operating system releases when the writer dies. The meaning of the arrays is not used here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from geonh.arguments.file_data import COUNT, misfit
from geonh.arguments.paths import FileError, checked_path, lock
from geonh.ensembles.stores.arrays import StoredArray, can_be_array, check_arrays, create_arrays, zarr_module
from geonh.ensembles.stores.disk import (
    content_of,
    digest_of,
    digest_of_text,
    flushed,
    new_folder,
    remove,
    remove_leftovers,
    sealed,
    unsealed,
    write_atomically,
)

if TYPE_CHECKING:
    import xarray as xr

OWN = ".geonh"
"""Folder of records and locks in a store."""
FORMAT = 1
MOST = 10**7
"""Maximum number of shards of a store."""


class StoreError(FileError):
    """A store is damaged, has another configuration, or cannot be written."""


class StoreWarning(UserWarning):
    """A store has missing shards, or the run in it failed."""


def _records_folder(folder: Path) -> Path:
    """Create the folder of records and locks of a new store."""
    for part in ("records", "locks"):
        (folder / OWN / part).mkdir(parents=True)
    return folder / OWN


class Store:
    """An existing store; StoreError if the folder is not one, or its metadata are damaged or inconsistent.

    Attributes
    ----------
    ABOUT, RECORD : dict
        Schemas of the store's metadata and of the record of a shard (see ``geonh.arguments.file_data``).
    entries : int
        Total number of entries along the first axis.
    fills : dict
        Data type and fill value for missing shards, by array.
    """

    ABOUT: ClassVar[dict[str, Any]] = {
        "shards": range(1, MOST + 1),
        "shard": COUNT,
        "arrays": [str],
        "metadata": {str: str},
        "files": {str: str},
    }
    RECORD: ClassVar[dict[str, Any]] = {"shard": range(MOST), "files": {str: [int, str]}}

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = checked_path(path)
        self.about: dict[str, Any] = {}
        self._arrays: dict[str, Any] = {}
        if not (self._own / "store.json").exists():
            raise StoreError(f"{path} {'is not a store of geonh' if self.path.exists() else 'does not exist'}")
        self._apply_journal()
        records = {f"{OWN}/{name}": digest for name, digest in self.about["files"].items()}
        for name, digest in {**self.about["metadata"], **records}.items():
            if digest_of(self.path / name) != digest:
                raise StoreError(f"{path} is damaged: {name} is not as it was written")
        with self.damage_on_error():
            texts = {name: json.loads(content_of(self.path / name)) for name in self.about["metadata"]}
            self.entries = check_arrays(texts, self.about["arrays"], self.shards, self.about["shard"])
            described = {name: texts[f"{name}/zarr.json"] for name in self.about["arrays"]}
            self.fills = {
                name: (metadata["data_type"], metadata.get("fill_value")) for name, metadata in described.items()
            }

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        fields: Mapping[str, StoredArray],
        shards: int,
        about: Mapping[str, Any],
        files: Mapping[str, Callable[[Path], Any]] | None = None,
    ) -> Store:
        """Create a store without any shard; if another process creates it first, return that one.

        ``about`` are metadata that JSON can represent, ``files`` functions that write additional files to a path.
        """
        path = checked_path(path)
        awkward = [name for name in fields if not can_be_array(name)]
        if awkward:
            raise StoreError(f"a store cannot have arrays named {awkward}: give them other names")
        if shards > MOST:
            raise StoreError(f"{path} would have {shards:,} shards, and {MOST:,} are most: make them larger")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_folder(path) as folder:
                create_arrays(folder, fields)
                records = _records_folder(folder)
                for name, write in (files or {}).items():
                    write(records / name)
                metadata = {str(p.relative_to(folder)): digest_of(p) for p in folder.rglob("zarr.json")}
                digests = {name: digest_of(records / name) for name in files or {}}
                description = {**about, "format": FORMAT, "shards": shards, "arrays": list(fields)}
                description |= {"metadata": metadata, "files": digests}
                write_atomically(records / "store.json", sealed(description))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        return cls(path)

    def empty_copy(self, path: str | os.PathLike) -> Store:
        """Create an empty store with the layout of this one."""
        path = Path(path)
        with new_folder(path) as folder:
            for name in self.about["metadata"]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.path / name, folder / name)
            records = _records_folder(folder)
            for file in self._own.iterdir():
                if file.is_file():
                    shutil.copyfile(file, records / file.name)
        return Store(path)

    def lengthen(self, total: int, shards: int) -> None:
        """Extend all arrays to one length along the first axis; a last shard that is not full is dropped.

        The new metadata are written to a journal before they replace the old, so that an interruption does no damage.
        """
        if self.array(self.about["arrays"][0]).shape[0] % self.about["shard"]:
            self.mark_missing(self.shards - 1)
        texts = {name: json.loads((self.path / name).read_text()) for name in self.about["metadata"]}
        for name in self.about["arrays"]:
            for about in (texts[f"{name}/zarr.json"], texts["zarr.json"]["consolidated_metadata"]["metadata"][name]):
                about["shape"][0] = total
        journal = {name: json.dumps(text) for name, text in texts.items()}
        write_atomically(self._own / "store.json", sealed({**self.about, "shards": shards, "journal": journal}))
        self._apply_journal()

    def _apply_journal(self) -> None:
        """Apply the metadata of the journal; StoreError if those of the store are damaged, or of a newer format."""
        try:
            about = unsealed(content_of(self._own / "store.json"))
            if about["format"] != FORMAT:
                raise StoreError(f"{self.path} is of format {about['format']}; this geonh reads {FORMAT}: update geonh")
            journal = about.pop("journal", {})
            wrong = misfit(journal, {str: str}, "journal") or misfit(about, self.ABOUT)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
            wrong = "it is not as it was written"
        except StoreError:
            raise
        except ValueError:
            wrong = "its digest is another"
        if not wrong:
            names, files = about["arrays"], {"zarr.json", *(f"{name}/zarr.json" for name in about["arrays"])}
            if not names or len({*names}) < len(names) or not all(map(can_be_array, (*names, *about["files"]))):
                wrong = "names that no array or file can have"
            elif files != {*about["metadata"]} or not files >= {*journal}:
                wrong = "its files are others than those of its arrays"
        if wrong:
            raise StoreError(f"{self.path} is damaged: {OWN}/store.json: {wrong}")
        for name, text in journal.items():
            write_atomically(self._within(name), text.encode())
            about["metadata"][name] = digest_of(self.path / name)
        if journal:
            write_atomically(self._own / "store.json", sealed(about))
        self.about, self._arrays = about, {}

    @property
    def _own(self) -> Path:
        return self.path / OWN

    @property
    def shards(self) -> int:
        return self.about["shards"]

    def file(self, name: str) -> Path:
        """Path of an additional file of the store."""
        return self._own / name

    def array(self, name: str) -> Any:
        """Open an array lazily."""
        if name not in self._arrays:
            with self.damage_on_error():
                self._arrays[name] = zarr_module().open_array(self.path / name, mode="r+")
        return self._arrays[name]

    @contextlib.contextmanager
    def damage_on_error(self) -> Iterator[None]:
        """Context in which errors on reading metadata are raised as damage of the store."""
        try:
            yield
        except (FileError, ImportError):
            raise
        except Exception as error:  # of any kind, since the content may be foreign
            if isinstance(error, OSError) and error.errno is not None:  # of the disk
                raise
            raise StoreError(f"{self.path} is damaged: its metadata cannot be read: {error}") from error

    def _within(self, name: str) -> Path:
        """Path of a store file to write; StoreError if a symbolic link leads out of the store."""
        path = self.path / name
        if not path.parent.resolve().is_relative_to(self.path.resolve()):
            raise StoreError(f"{self.path} is damaged: {name} leads out of it")
        return path

    @property
    def identity(self) -> str:
        """Digest of the configuration of the shards."""
        return digest_of_text(json.dumps([self.about.get("configuration"), self.about["shard"]], sort_keys=True))

    # --- shards ---------------------------------------------------------------------------------------------
    def _record(self, shard: int) -> Path:
        return self._own / "records" / f"{shard:08d}.json"

    def _chunk_file(self, name: str, shard: int) -> str:
        """File of an array for a shard."""
        return "/".join((name, "c", str(shard), *"0" * (self.array(name).ndim - 1)))

    def record(self, shard: int) -> dict[str, Any] | None:
        """Record of a finished shard, or None."""
        try:
            record = unsealed(content_of(self._record(shard)))
        except ValueError:
            return None
        if misfit(record, self._form_of_record()):
            return None
        return (
            record
            if {self._chunk_file(name, record["shard"]) for name in self.about["arrays"]} == {*record["files"]}
            else None
        )

    def _form_of_record(self) -> dict[str, Any]:
        return self.RECORD

    def _recorded(self) -> set[str]:
        """Names of all records, by listing their folder once regardless of the number of shards."""
        records = self._record(0).parent
        return {*os.listdir(records)} if records.is_dir() else set()

    def missing(self) -> list[int]:
        """Missing shards."""
        there = self._recorded()
        return [shard for shard in range(self.shards) if self._record(shard).name not in there]

    def faults(self, shards: Iterable[int] | None = None, *, deep: bool = False, of: str = "") -> dict[int, str]:
        """Faults of shards that have a record: by the size of their files, or with ``deep`` by their checksums, for
        arrays whose names begin with ``of``.
        """
        there = self._recorded()
        recorded = (i for i in (range(self.shards) if shards is None else shards) if self._record(i).name in there)
        return {shard: fault for shard in recorded if (fault := self._fault(shard, deep, of))}

    def _fault(self, shard: int, deep: bool, of: str) -> str:
        record = self.record(shard)
        if record is None:
            return "its record is damaged"
        if record["shard"] != shard:
            return f"its record is that of shard {record['shard']}"
        if record.get("of", self.identity) != self.identity:
            return "it is a shard of another store, of another configuration, which geonh merge would have refused"
        for name, (size, digest) in record["files"].items():
            path = self.path / name
            there = path.stat().st_size if path.exists() else 0
            if there != size:
                return f"{name} has {there} bytes in place of {size}"
            if deep and name.startswith(of) and digest_of(path) != digest:
                return f"{name} is not as it was written"
        return ""

    def mark_missing(self, shard: int) -> None:
        """Mark a shard as missing."""
        remove(self._record(shard))

    @contextlib.contextmanager
    def claim(self, shard: int) -> Iterator[bool]:
        """Lock a shard for the duration of the context; yields True if it is to be computed here.

        Yields False if another process is computing it, or it is finished.
        """
        place = self._within(f"{OWN}/locks/{shard:08d}")
        if place.exists() and not place.is_file():  # opening a pipe would wait for its reader
            raise StoreError(f"{place} is not a regular file: remove it")
        with open(place, "ab") as file:  # without locks a shard may be computed twice, with identical bytes
            ours = lock(file) is not False and not self._record(shard).exists()
            if ours:
                remove_leftovers(self._record(shard))
            try:
                yield ours
            finally:
                if ours:
                    place.unlink(missing_ok=True)  # another process that opened the lock before finds the record

    def write(self, shard: int, values: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Write a shard, and then its record; StoreError if the disk is full: the shard remains missing."""
        record = f"{OWN}/records/{self._record(shard).name}"
        try:
            files = {}
            for name, array in values.items():
                array_on_disk = self.array(name)
                per = (array_on_disk.shards or array_on_disk.chunks)[0]
                path = self._chunk_file(name, shard)
                remove_leftovers(self._within(path))
                remove(self.path / path)  # a damaged file, which Zarr would read to change a part of it
                array_on_disk[shard * per : shard * per + len(array)] = array
                files[path] = flushed(self.path / path)
            write_atomically(
                self._within(record), sealed({"shard": shard, "of": self.identity, "files": files, **facts})
            )
        except OSError as error:
            raise StoreError(
                f"{self.path}: shard {shard} could not be written ({error.strerror or error}); the "
                f"{self.shards - len(self.missing())} finished ones are sound: make room and run again"
            ) from error

    def copy_shard(self, other: Store, shard: int) -> None:
        """Copy a finished shard, with its record, from another store of the same configuration."""
        record = other.record(shard)
        assert record is not None
        for name in record["files"]:
            target = self._within(name)
            if record["files"][name][0]:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, (other.path / name).read_bytes())
        write_atomically(self._record(shard), other._record(shard).read_bytes())

    def opened(self) -> xr.Dataset:
        """Open the arrays lazily."""
        import xarray as xr

        with self.damage_on_error():
            # attributes are not decoded: names such as scale_factor would change the arrays
            return xr.open_zarr(self.path, consolidated=True, chunks=None, decode_cf=False)

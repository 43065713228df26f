"""Stores: arrays on disk, written in shards, independent of what the arrays mean."""

from geonh.ensembles.stores.arrays import StoredArray
from geonh.ensembles.stores.store import Store, StoreError, StoreWarning

__all__ = ["Store", "StoreError", "StoreWarning", "StoredArray"]

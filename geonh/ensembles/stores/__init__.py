"""Stores: arrays on disk, written in shards, independent of what the arrays mean."""

from geonh.ensembles.stores.arrays import Field
from geonh.ensembles.stores.store import Store, StoreError, StoreWarning

__all__ = ["Field", "Store", "StoreError", "StoreWarning"]

"""Stores: arrays on disk, written in shards. Nothing here knows what the arrays mean."""

from geonh.stores.arrays import Field
from geonh.stores.store import Store, StoreError, StoreWarning

__all__ = ["Field", "Store", "StoreError", "StoreWarning"]

"""The catalogue of classical systems: one file each, one function each, and an ``Entry`` with what is known of it."""

from __future__ import annotations

from importlib import import_module

from geonh.systems.entry import Entry, Start

_MODULES = (
    "nonholonomic_particle",
    "snakeboard",
    "chaplygin_sleigh",
    "elroys_beanie",
    "rolling_ball",
    "chaplygin_sphere",
    "suslov",
    "knife_edge",
    "vertical_disk",
    "roller_racer",
    "heisenberg",
    "nonholonomic_oscillator",
    "contact_oscillator",
    "veselova",
    "heavy_top",
)

catalogue: dict[str, Entry] = {}
"""Entries by name."""

for _module in _MODULES:
    _loaded = import_module(f"geonh.systems.{_module}")
    for _entry in getattr(_loaded, "ENTRIES", None) or (_loaded.ENTRY,):
        catalogue[_entry.name] = _entry
        globals()[_entry.build.__name__] = _entry.build

__all__ = ["Entry", "Start", "catalogue", *(entry.build.__name__ for entry in catalogue.values())]

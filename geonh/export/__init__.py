"""Export: a system and a method as code for C, browsers and other programs."""

from geonh.export.building import Built, build

__all__ = ["Built", "build"]

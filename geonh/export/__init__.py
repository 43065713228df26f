"""Export: a system and a method as code for C, browsers and other programs, and as a page in which it runs; a run for
Foxglove.
"""

from geonh.export.building import Built, build
from geonh.export.mcap import mcap
from geonh.export.pages import play

__all__ = ["Built", "build", "mcap", "play"]

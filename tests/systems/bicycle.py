"""The Whipple bicycle of the catalogue, under the names that the tests use."""

from geonh.systems.whipple_bicycle import start, upright, velocity
from geonh.systems.whipple_bicycle import whipple_bicycle as bicycle

__all__ = ["bicycle", "start", "upright", "velocity"]

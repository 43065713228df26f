"""Small linear systems, eliminations and Newton's method, as single operations of a trace."""

from geonh.algebra import lowerings  # noqa: F401 - the engine learns how they are written

"""Small linear systems, eliminations and Newton's method, as JAX primitives."""

from geonh.algebra import lowerings  # noqa: F401 - registers the lowerings with the engine

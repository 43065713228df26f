"""The native engine: the jaxpr of a step is lowered to LLVM instructions and compiled to one loop of machine code.

From a jaxpr of arrays to code: ``values`` (representation of values), ``builder`` (text of instructions, ``liveness``),
``arithmetic``, ``elementary`` and ``elementwise`` (operations on entries), ``moves``, ``products``, ``indexing`` and
``linalg`` (on arrays), ``loops`` and ``branches`` (control flow), ``emitter`` (equation by equation), ``programs`` (the
stepping loop around it), ``machine`` (LLVM, and ownership of code), ``drivers`` (interface). ``docs/engine.md``
describes design and costs.
"""

from geonh.engine.native import (  # noqa: F401 - register rules
    branches,
    derivatives,
    indexing,
    jacobian_columns,
    linalg,
    loops,
    moves,
    products,
)
from geonh.engine.native.drivers import Loop, Map
from geonh.engine.native.lanes import Lanes
from geonh.engine.native.machine import available
from geonh.engine.native.values import NotLowered

__all__ = ["Lanes", "Loop", "Map", "NotLowered", "available"]

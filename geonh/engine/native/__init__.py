"""The native engine: the jaxpr of a step, written as LLVM instructions, compiled to one loop of machine code.

From a jaxpr of arrays to code: ``values`` (how a value is held), ``builder`` (text of instructions), ``arithmetic``,
``elementary`` and ``elementwise`` (operations on entries), ``moves``, ``indexing`` and ``linalg`` (on arrays),
``control`` (loops and branches), ``emitter`` (equation by equation), ``programs`` (the stepping loop around it),
``machine`` (LLVM, and who owns the code), ``drivers`` (what others call). ``docs/engine.md`` says how it is meant and
what it costs.
"""

from geonh.engine.native import branches, derivatives, indexing, linalg, loops, moves  # noqa: F401 - register rules
from geonh.engine.native.drivers import Loop, Map
from geonh.engine.native.lanes import Lanes
from geonh.engine.native.machine import available
from geonh.engine.native.values import NotLowered

__all__ = ["Lanes", "Loop", "Map", "NotLowered", "available"]

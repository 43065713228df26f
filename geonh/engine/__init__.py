"""The engine: compilation of traced functions, of stepping loops, and of their derivatives, to machine code.

The rest of the library uses the names below, and two modules: ``lowering``, to register operations of its own, and
``internals``, JAX's names for the rules of primitives. ``docs/engine.md`` describes each.

- Programs: ``mapped``, ``computed``, ``prepared`` (functions), ``batch_of_one``, ``first_of_batch`` (their nodes);
  ``stepping``, ``batch_stepping`` (loops of a step, for one state and for a batch, of the types ``Stepping`` and
  ``BatchStepping``); ``is_array`` (what is a parameter of a program); ``Partition`` (arguments of several programs,
  taken apart once); ``EngineWarning``.
- Object code for C and other machines: ``exported``, of functions that are an ``Export`` each, for a ``Target``
  (``GPU`` is the triple of one); an ``ObjectCode``.
- Operations of JAX that run programs: ``Evaluation``, ``Steps``; ``Layout`` and ``Parts`` are their arguments.
  ``HostOperation`` is one by NumPy functions, which take ``Operands``.
- Traces: ``forward_only``, ``is_forward_only``, ``once``, ``traced_once``, ``call_traced``; ``depends``, ``is_affine``;
  ``jacobian``, ``differentiated_as``, ``constant_to_first_order``, ``Named`` (an operation of one's own).
- Calls outside of programs: ``Precise``, with ``as_numbers`` and ``as_given`` for its arguments, ``in_float64``,
  ``call_in_numpy``, ``in_numpy``, ``interpret``.
- Ctrl-C: ``Interrupts``, ``interrupted_at_once``, ``interrupt``, ``busy``.
"""

from geonh.engine.compiled import (
    BatchStepping,
    EngineWarning,
    Partition,
    Stepping,
    batch_of_one,
    batch_stepping,
    computed,
    first_of_batch,
    is_array,
    mapped,
    prepared,
    stepping,
)
from geonh.engine.dependence import depends, is_affine
from geonh.engine.evaluation import Evaluation, Layout, Parts
from geonh.engine.exports import GPU, Export, ObjectCode, Target, exported
from geonh.engine.interpreted import in_numpy, interpret
from geonh.engine.interrupts import Interrupts, busy, interrupt, interrupted_at_once
from geonh.engine.jacobians import SIDE_BY_SIDE, jacobian
from geonh.engine.named import Named, constant_to_first_order, differentiated_as
from geonh.engine.operations import HostOperation, Operands
from geonh.engine.outside import call_in_numpy
from geonh.engine.precise import Precise, as_given, as_numbers, in_float64
from geonh.engine.runs import Steps
from geonh.engine.tracing import call_traced, forward_only, is_forward_only, once, traced_once

__all__ = [
    "GPU",
    "SIDE_BY_SIDE",
    "BatchStepping",
    "EngineWarning",
    "Evaluation",
    "Export",
    "HostOperation",
    "Interrupts",
    "Layout",
    "Named",
    "ObjectCode",
    "Operands",
    "Partition",
    "Parts",
    "Precise",
    "Stepping",
    "Steps",
    "Target",
    "as_given",
    "as_numbers",
    "batch_of_one",
    "batch_stepping",
    "busy",
    "call_in_numpy",
    "call_traced",
    "computed",
    "constant_to_first_order",
    "depends",
    "differentiated_as",
    "exported",
    "first_of_batch",
    "forward_only",
    "in_float64",
    "in_numpy",
    "interpret",
    "interrupt",
    "interrupted_at_once",
    "is_affine",
    "is_array",
    "is_forward_only",
    "jacobian",
    "mapped",
    "once",
    "prepared",
    "stepping",
    "traced_once",
]

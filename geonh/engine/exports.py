"""Functions of a tree and of vectors as object code, for this machine or another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geonh.engine.compiled import is_array
from geonh.engine.internals import hashable_combine, hashable_partition
from geonh.engine.native import NotLowered
from geonh.engine.native.exported import Export, ObjectCode, Target
from geonh.engine.native.exported import exported as _exported
from geonh.engine.native.gpu import TRIPLE as GPU


def exported(functions: Mapping[str, Export], tree: Any, target: Target) -> ObjectCode:
    """Object code of functions by name, of a tree whose arrays become constants of the code.

    In the code, ``i32 name(const double *argument, …, double *result)`` returns the status and takes each argument, and
    gives the result, as a vector: the arrays of its pytree one after another. Nothing is allocated, nothing is kept
    between calls, and vectors may not overlap.

    Parameters
    ----------
    functions : mapping of str to Export
        Functions to export, traceable, by their names.
    tree : pytree
        Arrays and anything hashable.
    target : Target
        Where the code is to run.

    Returns
    -------
    ObjectCode

    Raises
    ------
    ValueError
        If LLVM has no such target, or a function has an operation for which the engine has no code, which is named.
    """
    arrays, static = hashable_partition(tree, is_array)
    try:
        return _exported(dict(functions), arrays, lambda arrays: hashable_combine(arrays, static), target)
    except NotLowered as reason:
        raise ValueError(f"it cannot be exported: the engine has no code for {reason}") from None


__all__ = ["GPU", "Export", "ObjectCode", "Target", "exported"]

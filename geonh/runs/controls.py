"""Controls of a run: conversion of user input, and tests that the forces of the system use them."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import depends
from geonh.geometry.field import check_arguments, evaluated
from geonh.groups.base import Point
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System


def as_controls(system: System, controls: Any, n_nodes: int) -> Any:
    """Return controls as a function of the time, or as at least ``n_nodes`` values at the nodes; TypeError or
    ValueError if they are neither, too few, or not used by the system.
    """
    if controls is None:
        return None
    if callable(controls):
        _refuse_law(controls)
        check_arguments(controls, "t", "controls")
    else:
        controls = as_float64(controls, "controls")
        if controls.ndim == 0:
            raise ValueError(f"controls must be a function of t, or its values at the nodes, got one number {controls}")
        if controls.shape[0] < n_nodes:
            raise ValueError(
                f"controls must have n_steps + 1 = {n_nodes} rows, one for each node, got {controls.shape[0]} "
                f"(shape {list(controls.shape)})"
            )
    if system.forces is None:
        raise ValueError(f"controls are given, but {system.name} has no forces that would use them")
    return controls


def _refuse_law(controls: Any) -> None:
    """Raise TypeError, saying where it goes, for a feedback law."""
    try:
        names = list(inspect.signature(controls).parameters)
    except (TypeError, ValueError):  # a builtin without one
        return
    if names[:3] == ["t", "g", "xi"]:
        raise TypeError(
            "controls are functions of t, or values at the nodes; a feedback law of (t, g, xi) makes a system: "
            "geonh.control.closed_loop(system, law)"
        )


def drive_of(system: Any, controls: Any, g: Point, xi: Any) -> Any:
    """Return controls as a function of the time, used by the forces of the system; or None."""
    if controls is not None and not callable(controls):
        raise TypeError(f"controls must be a function of t here, got {shortly(controls)}")
    inspect_forces(system, Clock(0.0, 1.0, as_controls(system, controls, 1)), g, xi)
    return controls


def inspect_forces(system: System, clock: Clock, g: Point, xi: Any) -> None:
    """Trace forces and controls once, and raise for invalid shapes, precision, indices, or missing controls."""
    if system.forces is None:
        return
    with float64():
        if callable(clock.controls):
            inspected("controls", jax.make_jaxpr(lambda t: evaluated("controls", clock.controls, t))(0.0))

        def force(t: Array, g: Point, xi: Array) -> Array:
            u = clock.between(t) if clock.controls is None or callable(clock.controls) else clock.control(0)
            return system.force(t, system.at(g, t), xi, u)

        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.float64), (g, xi))
        inspected("forces", jax.make_jaxpr(force)(0.0, *shapes))
        if clock.controls is None:
            return
        u = jax.eval_shape(clock.control, 0)
        if not depends(lambda u, g, xi: system.force(jnp.zeros(()), system.at(g, 0.0), xi, u), u, *shapes):
            raise ValueError(f"controls are given, but the forces of {system.name} do not use u: leave controls out")

"""Controls of a run: conversion of user input, and tests that the forces of the system use them."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64, is_traced
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import depends, is_affine, mapped
from geonh.geometry.field import check_arguments, evaluated
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.variable_steps import VariableSteps
from geonh.integrators.wiener import SAME, Wiener
from geonh.mechanics.system import System


def as_controls(system: System, controls: Any, n_nodes: int) -> Any:
    """Return controls as a function of the time, or as at least ``n_nodes`` values at the nodes; TypeError or
    ValueError if they are neither, too few, or not used by the system.
    """
    if controls is None:
        return None
    if isinstance(controls, Wiener):
        if np.ndim(controls.seed):
            raise ValueError(
                f"controls have {len(controls.seed)} seeds, one for each member of an ensemble: a single run has one"
            )
    elif callable(controls):
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


def refuse_random(controls: Any) -> None:
    """Raise TypeError for noise, where controls must be smooth functions of the time."""
    if isinstance(controls, Wiener):
        raise TypeError("controls must be a function of t here; noise is for runs, by solve, ensembles, integrate")


def refuse_noise(system: System, method: Integrator) -> None:
    """Raise ValueError, saying why, if noise in the forces of a system cannot be integrated by a method."""
    if isinstance(method, VariableSteps):
        raise ValueError("steps that a tolerance chooses are for smooth forces, not for noise: pass dt alone")
    if method.guarantees.node != "velocity":
        raise ValueError(
            f"{type(method).__name__} has half of the noise of a step at its nodes: use a method whose node is a "
            "velocity, such as Gauss, SymmetricProjection, RKMK or Lobatto"
        )
    if system.multiplier_forces is not None:
        raise ValueError(f"the forces of {system.name} depend on the multipliers, which are white noise here")


def refuse_off_grid(noise: Wiener, t0: Any, dt: Any) -> None:
    """Raise ValueError for times, numbers or arrays of them, whose steps are not whole intervals of the path."""
    if is_traced(noise, t0=t0, dt=dt):
        return
    for name, value, least, rounding in (("dt", dt, 1, 4 * np.finfo(float).eps), ("t0", t0, 0, SAME)):
        number = np.asarray(as_float64(value, name)) / np.min(noise.dt)
        off = np.abs(number - np.round(number)) > rounding * np.maximum(np.abs(number), 1)
        off |= np.round(np.abs(number)) < least
        if off.any():
            raise ValueError(
                f"{name} = {np.ravel(value)[np.argmax(np.ravel(off))].item()!r} is no multiple of the spacing "
                f"{np.min(noise.dt):g} of the noise, Wiener(size, dt)"
            )


def warn_of_unread(system: System, controls: Any, g: Point, xi: Any, stacklevel: int) -> None:
    """Warn of components of noise that change no force, at a known state and at random ones near it."""
    if not isinstance(controls, Wiener):
        return
    size = controls.size
    away = 0.3 * np.random.default_rng(0).normal(size=(3, 2, system.group.dim)) * np.array([0, 1, 1])[:, None, None]
    states = mapped(_moved, (system, g, np.asarray(xi)), away)
    forces = np.array([mapped(_forces, (system, u), states) for u in np.vstack([np.zeros(size), np.eye(size)])])
    unread = np.flatnonzero((forces[1:] == forces[0]).all(axis=(1, 2)))
    if 0 < len(unread) < size:
        warnings.warn(
            f"controls are noise of {size} components, of which the forces of {system.name} do not use "
            f"{', '.join(f'u[{i}]' for i in unread)}, at the start and near it: pass Wiener({size - len(unread)}, dt) "
            "if they read fewer",
            stacklevel=stacklevel,
        )


def _moved(tree: tuple, by: Array) -> tuple[Point, Array]:
    system, g, xi = tree
    return system.group.compose(g, system.group.exp(by[0])), xi + by[1]


def _forces(tree: tuple, state: tuple) -> Array:
    system, u = tree
    return system.force(jnp.zeros(()), system.at(state[0], 0.0), state[1], u)


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


def drive_of(system: Any, controls: Any, g: Point, xi: Any, method: Integrator | None = None) -> Any:
    """Return controls as a function of the time, used by the forces of the system; or None. With a method they may be
    noise, which it takes.
    """
    if controls is not None and not callable(controls):
        raise TypeError(f"controls must be a function of t here, got {shortly(controls)}")
    if method is None:
        refuse_random(controls)
    elif isinstance(controls, Wiener):
        refuse_noise(system, method)
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
        if isinstance(clock.controls, Wiener) and not is_affine(
            lambda u, g, xi: system.force(jnp.zeros(()), system.at(g, 0.0), xi, u), u, *shapes
        ):
            raise ValueError(f"controls are noise, but the forces of {system.name} are not linear in u")
        if not depends(lambda u, g, xi: system.force(jnp.zeros(()), system.at(g, 0.0), xi, u), u, *shapes):
            raise ValueError(f"controls are given, but the forces of {system.name} do not use u: leave controls out")

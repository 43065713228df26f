"""Initial guess of the search for an optimal control."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from geonh.arguments.validators import as_float64, shortly
from geonh.control.step_equations import moved, steps_of
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.engine import mapped
from geonh.groups.base import as_points


def initial_motion(problem: Transcription, guess: Any, span: float) -> DiscreteMotion:
    """Initial motion on φ = 0: the user's (points, controls), or a path along a one-parameter subgroup when None.

    Raises
    ------
    ValueError, TypeError
        For a guess that does not fit, or at which the cost is not finite.
    """
    steering, K, system = problem.steering, problem.n_steps, problem.system
    g0, g1, n_u = steering.start, steering.end, steering.n_controls
    if guess is None:
        points = jax.tree.map(lambda a, b: np.stack([a, b]), g0, g1)
        controls = np.zeros((2, n_u))
    else:
        if not isinstance(guess, list | tuple) or len(guess) != 2:
            raise TypeError(f"guess must be an OptimalControl, or (points, controls), got {shortly(guess)}")
        points, controls = as_points(system.group, guess[0], "guess"), as_float64(guess[1], "guess")
    count = len(controls) if controls.ndim else 0
    leaves = zip(jax.tree.leaves(points), system.group.point_shapes, strict=True)
    if count < 2 or controls.shape != (count, n_u) or any(a.shape != (count, *s) for a, s in leaves):
        raise ValueError(
            f"guess must be (points, controls), as many points as controls of shape [·, {n_u}], at least two; got "
            f"shapes {', '.join(str(list(a.shape)) for a in (*jax.tree.leaves(points), controls))}"
        )
    place = np.linspace(0.0, count - 1.0, K + 1)
    i = np.minimum(place.astype(int), count - 2)
    s = place - i
    low, high = (jax.tree.map(lambda a, at=at: a[at], points) for at in (i, i + 1))
    nodes = mapped(moved, system, (low, s[:, None] * steps_of(system, low, high)))
    for leaf, first, last in zip(*map(jax.tree.leaves, (nodes, g0, g1)), strict=True):
        leaf[0] = first
        if not steering.free:
            leaf[-1] = last
    u = (1 - s)[:, None] * controls[i] + s[:, None] * controls[i + 1]
    motion = problem.projected(DiscreteMotion(nodes, u, span))
    cost = problem.cost(motion)
    if not all(np.all(np.isfinite(part)) for part in (cost.value, cost.gradient, cost.hessian.data)):
        raise ValueError(
            f"cost or its derivatives are not finite at the guess (J = {cost.value:g}); give another guess"
        )
    return motion

"""The protocol of a one-step method, and the state that it carries from node to node."""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import Point
from geonh.mechanics.system import System
from geonh.numerics.precision import Precise

ArrayLike: TypeAlias = Any
"""A JAX array in a trace, a NumPy array outside."""


class Result(IntEnum):
    """How a run ended, or why it stopped."""

    SUCCESS = 0
    NEWTON = 1
    NOT_FINITE = 2
    RANK = 3
    CHART = 4
    INTERRUPTED = 5

    @property
    def message(self) -> str:
        """In words."""
        return {
            Result.SUCCESS: "reached the end",
            Result.NEWTON: "Newton's method did not converge; a smaller dt, or a look at the Lagrangian, is needed",
            Result.NOT_FINITE: "a value is not finite",
            Result.RANK: (
                "the constraints became dependent (their rank drops here), so the constraint force is not determined"
            ),
            Result.CHART: "the body turns by half a turn or more in one step, past the retraction's chart; lower dt",
            Result.INTERRUPTED: "interrupted",
        }[self]


class State(NamedTuple):
    """A node of a trajectory.

    ``k`` counts steps, so t_k = t0 + k·dt exactly; ``increment`` is the last ζ = τ⁻¹(g_{k−1}⁻¹g_k), the next guess;
    ``rows`` are the constraint rows at the node, kept for the rank test; ``status`` is a ``Result``.
    """

    k: ArrayLike
    g: Point
    p_plus: ArrayLike
    p_minus: ArrayLike
    increment: ArrayLike
    rows: ArrayLike
    status: ArrayLike


class Clock(NamedTuple):
    """Time and controls: t_k = t0 + k·dt, and u_k = ``controls(t_k)`` or ``controls[k]``."""

    t0: ArrayLike
    dt: ArrayLike
    controls: Any = None

    def time(self, k: ArrayLike) -> Array:
        """t_k in seconds."""
        return jnp.asarray(self.t0 + k * self.dt)

    def control(self, k: ArrayLike) -> Any:
        """u_k, or None."""
        if self.controls is None or callable(self.controls):
            return None if self.controls is None else self.controls(self.time(k))
        return jnp.asarray(self.controls)[k]


class Integrator(Precise):
    """A one-step method on M ⋊ G."""

    @abstractmethod
    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        """State at node 0 of a consistent start."""

    @abstractmethod
    def step(self, system: System, clock: Clock, state: State) -> State:
        """State at the next node: a pure function of a small state and of the system's parameters."""

    @abstractmethod
    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        """Largest residual of the implicit equations of the step from ``state`` to ``new``, for error messages."""

    def refuse(self, system: System) -> None:
        """Raise ValueError, saying why, if the method does not apply to the system."""

    @property
    def order(self) -> int:
        """Order of convergence."""
        raise NotImplementedError


def first_failure(*conditions: tuple[Array | bool, Result]) -> Array:
    """Status of the first condition that holds, else SUCCESS."""
    status = jnp.asarray(int(Result.SUCCESS), dtype=np.int32)
    for condition, result in reversed(conditions):
        status = jnp.where(condition, np.int32(result), status)
    return status

"""Nodes of a trajectory: their data, and the outcome of a step, from which the next node is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax import Array

from geonh._former_paths import former_names
from geonh.arguments.signatures import argument_type
from geonh.groups.base import ArrayLike, Point


class Warm(NamedTuple):
    """Warm start: only saves iterations, and may be discarded at any node. Initialised by ``cold``.

    Parameters
    ----------
    guess : array
        Data from which the method predicts its unknowns; of a method-dependent shape.
    inverse : array, shape=[r, r] or [0, 0]
        The transposed inverse Jacobian of r unknowns, which ``Newton.follow`` keeps.
    """

    guess: ArrayLike = np.zeros(0)
    inverse: ArrayLike = np.zeros((0, 0))


class NextStep(NamedTuple):
    """Memory of a method whose node determines the step that follows: DLA, SHAKE.

    Parameters
    ----------
    zeta : array, shape=[n]
        ζ_{k+1}, the increment of that step.
    """

    zeta: ArrayLike


class Pace(NamedTuple):
    """Memory of a method whose steps differ in length.

    Parameters
    ----------
    t : float
        Time of the node, seconds.
    h : float
        Length of the step that follows, or the first one tried.
    weight : float
        Quantity on which the next lengths depend: the step density ρ, or the error of the last step.
    constants : array
        Numbers that are the same at all nodes of a run.
    inner : NamedTuple or ()
        Memory of the method that makes the steps.
    """

    t: ArrayLike
    h: ArrayLike
    weight: ArrayLike
    constants: ArrayLike
    inner: Any


@argument_type
class State(NamedTuple):
    """Node of a trajectory.

    Attributes
    ----------
    k : int
        Step count, so t_k = t0 + k·dt exactly.
    g : point of the group
        Configuration.
    p_plus, p_minus : array, shape=[n]
        Incoming momentum p⁺ and outgoing p⁻; p̃ = ½(p⁺ + p⁻).
    memory : NamedTuple or ()
        Further data required by the method's equations, declared in its file.
    warm : Warm
        Warm start, which only saves iterations.
    rows : array, shape=[m, n]
        Constraint rows, orthonormalised in their order, for the rank test.
    status : int
        A ``Result``.
    """

    k: ArrayLike
    g: Point
    p_plus: ArrayLike
    p_minus: ArrayLike
    memory: Any
    warm: Any
    rows: ArrayLike
    status: ArrayLike

    @property
    def t(self) -> ArrayLike:
        """Time of the node, shape=[], where steps differ in length; else None, and it is t_k."""
        return self.memory.t if isinstance(self.memory, Pace) else None

    def reversed(self, memory: Any) -> State:
        """Time-reversed node, for −h: incoming and outgoing momenta swap. They keep their sign."""
        return self._replace(p_plus=self.p_minus, p_minus=self.p_plus, memory=memory)


class Outcome(NamedTuple):
    """Result of a step, from which ``State`` is constructed.

    Parameters
    ----------
    g : point of the group
        The next node.
    p_plus, p_minus : array, shape=[n]
        Incoming and outgoing momenta there.
    memory : NamedTuple or ()
        As for ``State``.
    warm : Warm
        As for ``State``.
    converged : bool
        True if the equations were solved.
    turn : float
        Angle, rad, by which the step turns a body.
    status : int
        Of substeps, already validated; 0 where there are none.
    xi : array, shape=[n], or None
        ξ̃, if the method computes it.
    """

    g: Point
    p_plus: Array
    p_minus: Array
    memory: Any = ()
    warm: Any = Warm()
    converged: ArrayLike = True
    turn: ArrayLike = 0.0
    status: ArrayLike = 0
    xi: Any = None


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)

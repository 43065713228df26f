r"""Direct transcription: the equations, inequalities and costs of all intervals of a motion, in blocks.

Unknown are w_k = (η_k, ξ_k, u_k) of the nodes k = 0 … K, the span T, and the parameters that are sought; (g₀, ξ₀) are
given, or of periodic motions common unknowns like T, since the end depends on them. An interval involves both its nodes
and common unknowns alone, so the Hessian of the Lagrangian is block tridiagonal but for these. All derivatives are
exact, from one native program for an interval and one for the end (``interval.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.validators import as_count
from geonh.control.conditions import Inequalities
from geonh.control.interval import (
    End,
    Equations,
    Interval,
    Node,
    Values,
    Weights,
    end_derivatives,
    end_values,
    geodesic,
    interval_derivatives,
    interval_values,
    moved,
)
from geonh.control.linearisation import Jacobian, Linearisation, Parts, gathered
from geonh.control.steering import SteeringProblem
from geonh.engine import prepared
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System


class DiscreteMotion(NamedTuple):
    """Nodes: points with an axis of length K + 1, ξ, shape=[K + 1, n], u, shape=[K + 1, n_u]; the span T, t₀, and
    the sought parameters' numbers θ."""

    g: Point
    xi: np.ndarray
    u: np.ndarray
    span: float
    t0: float
    theta: np.ndarray = np.zeros(0)


@dataclass(frozen=True)
class Transcription:
    """Discrete equations of an optimal control problem.

    Attributes
    ----------
    system, method : System, Integrator
    steering : SteeringProblem
    n_steps : int
        K.
    """

    system: System
    method: Integrator
    steering: SteeringProblem
    n_steps: int

    @classmethod
    def of(cls, system: System, method: Integrator, steering: SteeringProblem, n_steps: int) -> Transcription:
        """Transcription into n_steps steps, with the rank of the constraints at the start."""
        ranked, K = system.with_rank_at(steering.start, steering.t0), as_count(n_steps, "n_steps", 2)
        for rows in (steering.of_nodes, steering.node_equations):
            for name, place in zip(rows.names, rows.place * K, strict=True):
                if abs(place - np.rint(place)) > 1e-9 * K:
                    low, high = (f"{np.floor(place) + i:g}/{K}" for i in (0, 1))
                    raise ValueError(f"{name}: {place / K:g} of the span is no node of {K} steps; {low} and {high} are")
        return cls(ranked, method, steering, K)

    @property
    def width(self) -> int:
        """Number of unknowns of a node."""
        return 2 * self.system.group.dim + self.steering.n_controls

    @property
    def size(self) -> int:
        """Number of unknowns: of all nodes in their order, and common ones, with those that are given."""
        return (self.n_steps + 1) * self.width + self.n_shared + self._n_start

    @property
    def n_shared(self) -> int:
        """Number of common unknowns of all intervals: T, and the sought parameters' numbers."""
        return 1 + len(self.steering.theta)

    @property
    def _n_start(self) -> int:
        """Number of unknowns of the first state that are common ones."""
        return 0 if self.steering.start_is_given is None else 2 * self.system.group.dim

    @functools.cached_property
    def given(self) -> np.ndarray:
        """Mask of the unknowns that are given: the first state, unless it is among the common ones, and there some of
        its coordinates; and T unless it is free.
        """
        mask, place = np.zeros(self.size, bool), (self.n_steps + 1) * self.width
        mask[: 2 * self.system.group.dim] = True
        mask[place] = not self.steering.free_span
        if self.steering.start_is_given is not None:
            mask[place + self.n_shared :][: self.system.group.dim] = self.steering.start_is_given
        return mask

    @functools.cached_property
    def _given_columns(self) -> Parts:
        """Masks of the unknowns that are given, among those of each interval, shape=[K, N], and of the end."""
        return Parts(*(self.given[columns] for columns in self.columns))

    @functools.cached_property
    def bounds(self) -> Inequalities:
        """Bounds of all inequalities: of the intervals (first node, rates of controls), and of the end."""
        K, steering = self.n_steps, self.steering
        of_nodes, of_rates, of_end = steering.of_nodes, steering.of_rates, steering.of_end
        here, inner = of_nodes.at_nodes(K), of_nodes + of_rates
        every = Inequalities(inner.names * K, *(np.tile(part, K) for part in inner[1:]))
        mask = np.concatenate([here[:K], np.ones((K, len(of_rates.names)), bool)], axis=1)
        return every.where(mask.ravel()) + of_nodes.where(here[K]) + of_end

    @functools.cached_property
    def holds(self) -> np.ndarray:
        """1 for each equation of each node, 0 where it holds at another node alone, shape=[K + 1, q].

        Of periodic motions those of all nodes hold at the end, so that they are left out at the start.
        """
        holds = self.steering.node_equations.at_nodes(self.n_steps).astype(float)
        if self._n_start:
            holds[0] = 0.0
        return holds

    @functools.cached_property
    def shapes(self) -> Values:
        """Numbers of equations and inequalities of an interval, and of the end, as ``Parts``."""
        steering = self.steering
        of_nodes = len(steering.of_nodes.names)
        equations = Parts(2 * self.system.group.dim + self.holds.shape[1], len(self._end_names))
        inequalities = Parts(of_nodes + len(steering.of_rates.names), of_nodes + len(steering.of_end.names))
        return Values(equations, inequalities, None)

    def split(self, flat: np.ndarray, sizes: Parts) -> Parts:
        """Parts of a vector of equations or inequalities."""
        size = self.n_steps * sizes.intervals
        return Parts(flat[:size].reshape(self.n_steps, sizes.intervals), flat[size:][None])

    def name(self, row: int) -> str:
        """Name of an equation."""
        inner, of_motion = self.shapes.equations.intervals, 2 * self.system.group.dim
        step, place = divmod(row, inner)
        if step >= self.n_steps:
            return self._end_names[row - self.n_steps * inner]
        if place < of_motion:
            return f"the equations of motion of step {step}"
        return f"{self.steering.node_equations.names[place - of_motion]} at node {step}"

    @property
    def _end_names(self) -> tuple[str, ...]:
        """Names of the equations at the end."""
        conditions = self.steering.conditions
        rows = ("the point at the end",) * len(conditions.end_rows)
        rows += ("the velocity at the end",) * len(conditions.xi_rows) + self.steering.end_equations.names
        rows += ("the return to the first point",) * len(conditions.return_rows)
        rows += ("the return to the first velocity",) * len(conditions.xi_return_rows)
        return rows + tuple(f"{name} at the end" for name in self.steering.node_equations.names)

    @functools.cached_property
    def columns(self) -> Parts:
        """Columns of the unknowns of each interval, shape=[K, N], and of the end, shape=[1, m + 1]."""
        K, m = self.n_steps, self.width
        common = np.arange((K + 1) * m, self.size)
        shared = np.tile(common[: self.n_shared], (K, 1))
        inner = np.concatenate([m * np.arange(K)[:, None] + np.arange(2 * m), shared], axis=1)
        inner[0, : self._n_start] = common[self.n_shared :]
        return Parts(inner, np.concatenate([m * K + np.arange(m), common])[None])

    @functools.cached_property
    def _programs(self) -> dict[Callable, Callable]:
        of = Equations(self.system, self.method, self.steering.conditions, np.float64(self.n_steps))
        n, n_u, m = self.system.group.dim, self.steering.n_controls, self.width
        node = Node(self.steering.start, np.zeros(n), np.zeros(n_u))
        one = np.float64(1)
        holds, theta = self.holds[0], self.steering.theta
        interval, end = Interval(node, node, one, one, one, holds, theta), End(node, node, one, one, holds, theta)
        inner, last = (np.zeros(columns.shape[1]) for columns in self.columns)
        sizes = zip(self.shapes.equations, self.shapes.inequalities, strict=True)
        weights = [Weights(np.zeros(a), np.zeros(b), np.float64(1)) for a, b in sizes]
        return {
            interval_values: prepared(interval_values, of, (interval, inner)),
            end_values: prepared(end_values, of, (end, last)),
            interval_derivatives: prepared(interval_derivatives, of, (interval, inner, weights[0])),
            end_derivatives: prepared(end_derivatives, of, (end, last, weights[1])),
            moved: prepared(moved, self.system.group, (node, np.zeros(m))),
            geodesic: prepared(geodesic, self.system.group, (node.g, node.g, one)),
        }

    def data(self, motion: DiscreteMotion) -> Parts:
        """Data of the programs: ``Interval`` of all intervals, and ``End``."""
        K = self.n_steps
        first, second, last, start = (
            Node(jax.tree.map(lambda a, i=i: a[i], motion.g), motion.xi[i], motion.u[i])
            for i in (slice(0, K), slice(1, K + 1), slice(K, K + 1), slice(0, 1))
        )
        spans, t0, theta, holds = (
            np.full(K, motion.span),
            np.full(K, motion.t0),
            np.tile(motion.theta, (K, 1)),
            self.holds,
        )
        inner = Interval(first, second, spans, t0, np.arange(float(K)), holds[:K], theta)
        return Parts(inner, End(last, start, spans[:1], t0[:1], holds[K:], theta[:1]))

    def values(self, motion: DiscreteMotion, step: np.ndarray | None = None) -> Values:
        """Cost, and vectors of equations and inequalities, of a motion perturbed by a step, shape=[size]."""
        step = np.zeros(self.size) if step is None else step
        data, columns = self.data(motion), self.columns
        inner = self._programs[interval_values]((data.intervals, step[columns.intervals]))
        return _joined(inner, self._programs[end_values]((data.end, step[columns.end])))

    def linearised(
        self,
        motion: DiscreteMotion,
        equations: np.ndarray,
        inequalities: np.ndarray,
        cost: float,
        step: np.ndarray | None = None,
    ) -> Linearisation:
        """Derivatives by a step, there, with the Hessian of the Lagrangian cost·J + equations·e + inequalities·c."""
        step = np.zeros(self.size) if step is None else step
        data, shapes, columns = self.data(motion), self.shapes, self.columns
        split = zip(self.split(equations, shapes.equations), self.split(inequalities, shapes.inequalities), strict=True)
        inner, end = (Weights(e, c, np.full(len(e), cost)) for e, c in split)
        parts = Parts(
            self._programs[interval_derivatives]((data.intervals, step[columns.intervals], inner)),
            self._programs[end_derivatives]((data.end, step[columns.end], end)),
        )
        for part, given in zip(parts, self._given_columns, strict=True):
            rows, columns_of = given[:, :, None], given[:, None, :]
            for block, is_given in (
                (part.hessian, rows | columns_of),
                (part.equations, columns_of),
                (part.inequalities, columns_of),
                (part.cost, given),
            ):
                np.copyto(block, 0.0, where=is_given)
        return Linearisation(
            values=_joined(*(part.values for part in parts)),
            gradient=gathered(Parts(*(part.cost for part in parts)), columns, self.size),
            hessian=Parts(*(part.hessian for part in parts)),
            equations=Jacobian(Parts(*(part.equations for part in parts)), columns, self.size),
            inequalities=Jacobian(Parts(*(part.inequalities for part in parts)), columns, self.size),
        )

    def between(self, pairs: tuple) -> Point:
        """Points between pairs of points, parts s of the way: (low, high, s) with a leading axis."""
        return self._programs[geodesic](pairs)

    def transitions(self, motion: DiscreteMotion) -> np.ndarray:
        """Jacobians of the equations of motion of all intervals, shape=[K, 2n, N], by the first state too."""
        return self.unweighted(self.data(motion).intervals).equations[:, : 2 * self.system.group.dim]

    def unweighted(self, data: Any) -> Any:
        """Derivatives of intervals, without multipliers."""
        K, sizes = self.n_steps, (self.shapes.equations.intervals, self.shapes.inequalities.intervals)
        weights = Weights(*(np.zeros((K, size)) for size in sizes), np.zeros(K))
        return self._programs[interval_derivatives]((data, np.zeros(self.columns.intervals.shape), weights))

    def nodes_moved(self, nodes: Node, steps: np.ndarray) -> Node:
        """Nodes g exp(η), ξ + δξ, u + δu."""
        return self._programs[moved]((nodes, steps))

    def moved(self, motion: DiscreteMotion, step: np.ndarray) -> DiscreteMotion:
        """Motion with the nodes g_k exp(η_k), ξ_k + δξ_k, u_k + δu_k, the span T + δT, and other parameters."""
        place = (self.n_steps + 1) * self.width
        nodes, shared, start = np.split(step, [place, place + self.n_shared])
        nodes = nodes.reshape(self.n_steps + 1, self.width)
        if len(start):
            nodes = nodes.copy()
            nodes[0, : len(start)] = start
        node = self.nodes_moved(Node(motion.g, motion.xi, motion.u), nodes)
        theta = motion.theta + self.steering.conditions.theta_scale * shared[1:]
        return DiscreteMotion(*node, motion.span + float(shared[0]), motion.t0, theta)


def _joined(inner: Values, end: Values) -> Values:
    return Values(
        Parts(inner.equations, end.equations).flat(),
        Parts(inner.inequalities, end.inequalities).flat(),
        float(inner.cost.sum() + end.cost.sum()),
    )

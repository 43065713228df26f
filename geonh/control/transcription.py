r"""Direct transcription: the equations, inequalities and costs of all intervals of a motion, in blocks.

Unknown are w_k = (η_k, ξ_k, u_k) of the nodes k = 0 … K, the durations of the phases, and the parameters that are
sought; (g₀, ξ₀) are given, or of periodic motions common unknowns like the durations, since the end depends on them. An
interval involves both its nodes and common unknowns alone, so the Hessian of the Lagrangian is block tridiagonal but
for these. All derivatives are exact, from native programs for an interval of each phase, for its last one, which ends
in a transition, and for the end (``interval.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.control.conditions import Inequalities
from geonh.control.interval import (
    End,
    Equations,
    Interval,
    Joint,
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
from geonh.control.phases import Phase
from geonh.control.steering import SteeringProblem
from geonh.engine import prepared
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System

MODERATE, EXTREME = 0.125, 256.0
"""Change of the velocities in a step by a control in good units, and the factor beyond which other units are taken."""


class DiscreteMotion(NamedTuple):
    """Nodes: points with an axis of length K + 1, ξ, shape=[K + 1, n], u, shape=[K + 1, n_u]; the durations of the
    phases, shape=[P], t₀, and the sought parameters' numbers θ."""

    g: Point
    xi: np.ndarray
    u: np.ndarray
    spans: np.ndarray
    t0: float
    theta: np.ndarray = np.zeros(0)

    @property
    def span(self) -> float:
        """Duration, s."""
        return float(np.sum(self.spans))


@dataclass(frozen=True)
class Transcription:
    """Discrete equations of an optimal control problem.

    Attributes
    ----------
    phases : tuple of Phase
    method : Integrator
    steering : SteeringProblem
    units : float or ndarray, shape=[n_u]
        Units of the unknowns δu.
    """

    phases: tuple[Phase, ...]
    method: Integrator
    steering: SteeringProblem
    units: ArrayLike = 1.0

    @classmethod
    def of(cls, phases: tuple[Phase, ...], method: Integrator, steering: SteeringProblem) -> Transcription:
        """Transcription into the steps of the phases, with the rank of the constraints at the start."""
        ranked = tuple(
            phase._replace(system=phase.system.with_rank_at(steering.start, steering.t0)) for phase in phases
        )
        K = sum(phase.n_steps for phase in phases)
        for rows in (steering.of_nodes, steering.node_equations):
            for name, place in zip(rows.names, rows.place * K, strict=True):
                if abs(place - np.rint(place)) > 1e-9 * K:
                    low, high = (f"{np.floor(place) + i:g}/{K}" for i in (0, 1))
                    raise ValueError(f"{name}: {place / K:g} of the span is no node of {K} steps; {low} and {high} are")
        return cls(ranked, method, steering)

    def effects(self, motion: DiscreteMotion) -> np.ndarray:
        """Largest changes of the velocities in a step about a motion, by a unit of each control, shape=[n_u]."""
        n, m = 2 * self.system.group.dim, self.width
        E = np.abs(self.transitions(motion))
        return (E[:, :, n:m] + E[:, :, m + n : 2 * m]).max(axis=(0, 1))

    def in_units_of(self, motion: DiscreteMotion) -> Transcription:
        """The same, with units in which controls that hardly change the velocities about a motion, or much more than
        by themselves, as those of heavy bodies do in newtons, change them by ``MODERATE``: powers of two.
        """
        effects = self.effects(motion)
        is_extreme = (effects > 0) & ~((effects > MODERATE / EXTREME) & (effects < MODERATE * EXTREME))
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(is_extreme, np.exp2(np.rint(np.log2(MODERATE / effects))), 1.0)
        return replace(self, units=np.where(np.isfinite(units), units, 1.0))

    @functools.cached_property
    def _units(self) -> np.ndarray | None:
        """Units of all unknowns, shape=[size]; None where they are those of the system."""
        if np.all(np.asarray(self.units) == 1.0):
            return None
        of_controls = np.broadcast_to(np.asarray(self.units), self.steering.n_controls)
        of_node = np.concatenate([np.ones(2 * self.system.group.dim), of_controls])
        rest = np.ones(self.n_shared + self._n_start)
        return np.concatenate([np.tile(of_node, self.n_steps + 1), rest])

    def _in_system_units(self, step: np.ndarray) -> np.ndarray:
        return step if self._units is None else step * self._units

    @property
    def system(self) -> System:
        """System of the first phase."""
        return self.phases[0].system

    @property
    def title(self) -> str:
        """Name of the system, or of the phases."""
        return " then ".join(phase.name for phase in self.phases)

    @functools.cached_property
    def n_steps(self) -> int:
        """K, the number of steps of all phases."""
        return sum(phase.n_steps for phase in self.phases)

    @functools.cached_property
    def phase_of(self) -> np.ndarray:
        """Number of the phase of each node, shape=[K + 1]: of a node between two, the second."""
        counts = [phase.n_steps for phase in self.phases]
        return np.repeat(np.arange(len(counts)), [*counts[:-1], counts[-1] + 1])

    @functools.cached_property
    def step_of(self) -> np.ndarray:
        """Number of each interval in its phase, shape=[K]."""
        return np.concatenate([np.arange(phase.n_steps, dtype=float) for phase in self.phases])

    @functools.cached_property
    def ends_phase(self) -> np.ndarray:
        """1 for each interval that ends in a transition, 0 else, shape=[K]."""
        return np.diff(self.phase_of).astype(float)

    def times(self, spans: np.ndarray) -> np.ndarray:
        """Times of the nodes, by the durations of the phases, shape=[K + 1]."""
        begins = self.steering.t0 + np.concatenate([[0.0], np.cumsum(spans)])
        parts = [
            begin + span / phase.n_steps * np.arange(phase.n_steps)
            for begin, span, phase in zip(begins, spans, self.phases, strict=False)
        ]
        last = begins[-2] + spans[-1] / self.phases[-1].n_steps * self.phases[-1].n_steps
        return np.append(np.concatenate(parts), last)

    def places(self, spans: np.ndarray) -> np.ndarray:
        """Parts of the duration after which the nodes come, shape=[K + 1]."""
        if len(spans) == 1:
            return np.linspace(0.0, 1.0, self.n_steps + 1)
        return (self.times(spans) - self.steering.t0) / np.sum(spans)

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
        """Number of common unknowns of all intervals: of durations, and the sought parameters' numbers."""
        return self.steering.conditions.n_spans + len(self.steering.theta)

    @property
    def _n_start(self) -> int:
        """Number of unknowns of the first state that are common ones."""
        return 0 if self.steering.start_is_given is None else 2 * self.system.group.dim

    @functools.cached_property
    def given(self) -> np.ndarray:
        """Mask of the unknowns that are given: the first state, unless it is among the common ones, and there some of
        its coordinates; and the duration of a single phase unless it is free.
        """
        mask, place = np.zeros(self.size, bool), (self.n_steps + 1) * self.width
        mask[: 2 * self.system.group.dim] = True
        mask[place] = len(self.phases) == 1 and not self.steering.free_span
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
        here, inner = of_nodes.at_nodes(self.phase_of), of_nodes + of_rates
        every = Inequalities(inner.names * K, *(np.tile(part, K) for part in inner[1:]))
        mask = np.concatenate([here[:K], np.ones((K, len(of_rates.names)), bool)], axis=1)
        return every.where(mask.ravel()) + of_nodes.where(here[K]) + of_end

    @functools.cached_property
    def holds(self) -> np.ndarray:
        """1 for each equation of each node, 0 where it holds at another node alone, shape=[K + 1, q].

        Of periodic motions those of all nodes hold at the end, so that they are left out at the start.
        """
        holds = self.steering.node_equations.at_nodes(self.phase_of).astype(float)
        if self._n_start:
            holds[0] = 0.0
        return holds

    @functools.cached_property
    def shapes(self) -> Values:
        """Numbers of equations and inequalities of an interval, and of the end, as ``Parts``."""
        steering = self.steering
        of_nodes = len(steering.of_nodes.names)
        guards = len(self.phases) - 1
        equations = Parts(2 * self.system.group.dim + self.holds.shape[1] + min(1, guards), len(self._end_names))
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
            return f"the equation of motion at node {step}"
        if len(self.phases) > 1 and place == inner - 1:
            transition = self.phases[self.phase_of[step]].transition
            return f"the guard {'' if transition is None else transition.name!r} at node {step + 1}"
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
    def _programs(self) -> dict[Any, Callable]:
        """Programs by their functions; of intervals by function and equations, in the order of ``_stretches``."""
        n, n_u, m = self.system.group.dim, self.steering.n_controls, self.width
        node = Node(self.steering.start, np.zeros(n), np.zeros(n_u))
        one = np.float64(1)
        holds, theta, spans = self.holds[0], self.steering.theta, np.ones(len(self.phases))
        interval = Interval(node, node, spans, spans, spans, one, one, one, holds, theta)
        end = End(node, node, spans, one, holds, theta)
        inner, last = (np.zeros(columns.shape[1]) for columns in self.columns)
        sizes = zip(self.shapes.equations, self.shapes.inequalities, strict=True)
        weights = [Weights(np.zeros(a), np.zeros(b), np.float64(1)) for a, b in sizes]
        of_end = Equations(self.phases[-1].system, self.method, self.steering.conditions)
        programs: dict[Any, Callable] = {}
        for key, (_, of) in self._stretches.items():
            programs[interval_values, key] = prepared(interval_values, of, (interval, inner))
            programs[interval_derivatives, key] = prepared(interval_derivatives, of, (interval, inner, weights[0]))
        return programs | {
            end_values: prepared(end_values, of_end, (end, last)),
            end_derivatives: prepared(end_derivatives, of_end, (end, last, weights[1])),
            moved: prepared(moved, self.system.group, (node, np.zeros(m))),
            geodesic: prepared(geodesic, self.system.group, (node.g, node.g, one)),
        }

    @functools.cached_property
    def _stretches(self) -> dict[tuple[int, bool], tuple[slice, Equations]]:
        """Intervals that have a program, and its equations, by the number of the phase and whether it ends there."""
        found, begin = {}, 0
        for i, phase in enumerate(self.phases):
            of, end = Equations(phase.system, self.method, self.steering.conditions), begin + phase.n_steps
            last = end - (phase.transition is not None)
            found[i, False] = slice(begin, last), of
            if phase.transition is not None:
                joint = Joint(phase.transition, self.phases[i + 1].system)
                found[i, True] = slice(last, end), of._replace(joint=joint)
            begin = end
        return found

    def _of_intervals(self, function: Callable, data: tuple, *, joined: bool = True) -> Any:
        """Values of a program for all intervals; unless ``joined``, without the transitions."""
        found = []
        for (phase, is_last), (rows, _) in self._stretches.items():
            program = self._programs[function, (phase, is_last and joined)]
            found.append(program(jax.tree.map(lambda a, rows=rows: a[rows], data)))
        return found[0] if len(found) == 1 else jax.tree.map(lambda *parts: np.concatenate(parts), *found)

    def data(self, motion: DiscreteMotion) -> Parts:
        """Data of the programs: ``Interval`` of all intervals, and ``End``."""
        K, (P,) = self.n_steps, np.shape(motion.spans)
        first, second, last, start = (
            Node(jax.tree.map(lambda a, i=i: a[i], motion.g), motion.xi[i], motion.u[i])
            for i in (slice(0, K), slice(1, K + 1), slice(K, K + 1), slice(0, 1))
        )
        spans, theta = (np.tile(part, (K, 1)) for part in (motion.spans, motion.theta))
        t0, holds, phase = np.full(K, motion.t0), self.holds, self.phase_of[:K, None]
        before, here = ((np.arange(P) < phase).astype(float), (np.arange(P) == phase).astype(float))
        count = np.array([p.n_steps for p in self.phases], float)[phase[:, 0]]
        inner = Interval(first, second, spans, before, here, t0, self.step_of, count, holds[:K], theta)
        return Parts(inner, End(last, start, spans[:1], t0[:1], holds[K:], theta[:1]))

    def values(self, motion: DiscreteMotion, step: np.ndarray | None = None) -> Values:
        """Cost, and vectors of equations and inequalities, of a motion perturbed by a step, shape=[size]."""
        step = np.zeros(self.size) if step is None else self._in_system_units(step)
        data, columns = self.data(motion), self.columns
        inner = self._of_intervals(interval_values, (data.intervals, step[columns.intervals]))
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
        step = np.zeros(self.size) if step is None else self._in_system_units(step)
        data, shapes, columns = self.data(motion), self.shapes, self.columns
        split = zip(self.split(equations, shapes.equations), self.split(inequalities, shapes.inequalities), strict=True)
        inner, end = (Weights(e, c, np.full(len(e), cost)) for e, c in split)
        parts = Parts(
            self._of_intervals(interval_derivatives, (data.intervals, step[columns.intervals], inner)),
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
        if self._units is not None:
            for part, of in zip(parts, columns, strict=True):
                units = self._units[of]
                part.hessian[...] *= units[:, :, None] * units[:, None, :]
                for block in (part.equations, part.inequalities):
                    block[...] *= units[:, None, :]
                part.cost[...] *= units
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

    def unweighted(self, data: Any, *, joined: bool = True) -> Any:
        """Derivatives of intervals, without multipliers; unless ``joined``, without the transitions."""
        K, sizes = self.n_steps, (self.shapes.equations.intervals, self.shapes.inequalities.intervals)
        weights = Weights(*(np.zeros((K, size)) for size in sizes), np.zeros(K))
        at = (data, np.zeros(self.columns.intervals.shape), weights)
        return self._of_intervals(interval_derivatives, at, joined=joined)

    def nodes_moved(self, nodes: Node, steps: np.ndarray) -> Node:
        """Nodes g exp(η), ξ + δξ, u + δu."""
        return self._programs[moved]((nodes, steps))

    def moved(self, motion: DiscreteMotion, step: np.ndarray) -> DiscreteMotion:
        """Motion with the nodes g_k exp(η_k), ξ_k + δξ_k, u_k + δu_k, other durations, and other parameters."""
        place, step = (self.n_steps + 1) * self.width, self._in_system_units(step)
        nodes, shared, start = np.split(step, [place, place + self.n_shared])
        nodes = nodes.reshape(self.n_steps + 1, self.width)
        if len(start):
            nodes = nodes.copy()
            nodes[0, : len(start)] = start
        node = self.nodes_moved(Node(motion.g, motion.xi, motion.u), nodes)
        conditions = self.steering.conditions
        theta = motion.theta + conditions.theta_scale * shared[conditions.n_spans :]
        spans = motion.spans + conditions.of_spans @ shared[: conditions.n_spans]
        return DiscreteMotion(*node, spans, motion.t0, theta)


def _joined(inner: Values, end: Values) -> Values:
    return Values(
        Parts(inner.equations, end.equations).flat(),
        Parts(inner.inequalities, end.inequalities).flat(),
        float(inner.cost.sum() + end.cost.sum()),
    )

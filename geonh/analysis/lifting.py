"""Result of ``reduce``: a reduced system, and the motions of the original one over its runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.echelon import NEGLIGIBLE
from geonh.analysis.lift_checks import refuse_broken, refuse_tangent
from geonh.analysis.routh import Routh, refuse_power
from geonh.analysis.shapes import GAUSS, Shapes, ShapeState, magnus, products
from geonh.arguments.validators import as_float64
from geonh.engine import computed, mapped
from geonh.geometry.cosets import Cosets
from geonh.groups.base import Point
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.symmetry import refuse_asymmetric
from geonh.mechanics.system import System, with_parameters
from geonh.results.dense import step_times
from geonh.results.nodes import Nodes
from geonh.results.record import RunState, unflatten
from geonh.results.same_system import as_data, parameters_of_run
from geonh.results.trajectory import Trajectory

SETTLED = 1e-12
"""Change of the group part by halving the steps of its quadrature, relative to 1 and its size, that ends this."""
HALVINGS = 8
"""Maximum number of such halvings, of steps that a tolerance chose for the shapes alone."""


class ReducedState(NamedTuple):
    """Initial state of a reduced system.

    Attributes
    ----------
    g0 : point of the group
        Of the reduced system.
    xi0 : ndarray, shape=[r]
        Velocity.
    """

    g0: Point
    xi0: np.ndarray


@dataclass(frozen=True)
class Reduction:
    """Result of ``reduce``.

    Attributes
    ----------
    system : System
        The reduced system.
    original : System
        The system that was reduced.
    symmetry : ndarray, shape=[s, n]
        Rows that span the algebra of the subgroup H by which it was reduced.
    shapes : Shapes, Routh or None
        The original system over the shapes, where constraints or momenta were eliminated.
    """

    system: System
    original: System
    symmetry: np.ndarray
    shapes: Shapes | Routh | None = None

    def with_parameters(self, **changes: Any) -> Reduction:
        """The reduction with other values of some parameters, of both systems.

        Parameters
        ----------
        **changes : array_like or callable
            New values by name, of the same shapes.

        Returns
        -------
        Reduction

        Raises
        ------
        TypeError, ValueError
            As for ``System.with_parameters``; if the symmetries are none for these values.
        """
        return self._at(dict(self.system.with_parameters(**changes).parameters))

    def start(self, g0: Any, xi0: Any) -> ReducedState:
        """State of the reduced system at a state of the original one, with the parameters of this reduction.

        Parameters
        ----------
        g0 : point of the group, or None for the identity
        xi0 : array_like, shape=[n]
            Velocity, on the constraints.

        Returns
        -------
        ReducedState
            ``g0`` and ``xi0``, as arguments of ``solve``.

        Raises
        ------
        ValueError
            If a shape does not fit, or the velocity is not the lift of one of the reduced system.
        """
        g = self.original.point(g0)
        xi = as_float64(xi0, "xi0", (self.original.group.dim,))
        if self.shapes is None:
            return ReducedState(g, xi)
        s = computed(_shape_of, self._cosets, g)
        sigma, gap = computed(_shape_velocity, self.shapes, (s, xi))
        if not np.isfinite(gap):
            raise ValueError(f"the symmetries are not transverse to the constraints of {self.original.name} at g0")
        if not gap <= NEGLIGIBLE * (1 + np.abs(xi).max()):
            raise ValueError(self.shapes.refusal(g, xi, gap))
        return ReducedState(s, sigma)

    def lift(self, run: Trajectory, g0: Any = None) -> Trajectory:
        """Run of the original system over one of the reduced system.

        Parameters
        ----------
        run : Trajectory
            Run of ``system``, of any values of its parameters, which the lift has too.
        g0 : point of the group, optional
            Point of the original group over the first node; that whose part in H is trivial when left out.

        Returns
        -------
        Trajectory
            At the same nodes, with its events. On shapes its part in H has an error of order 6 in the steps of the run,
            about 1e-12 where a tolerance chose them, in addition to that of the run. It satisfies the constraints, and
            is read, plotted and saved, but not resumed.

        Raises
        ------
        TypeError, ValueError
            If ``run`` is no trajectory, one of another system or from a file; if ``g0`` is not over its first node; if
            the original accelerations at a node are others, as where a force breaks the symmetry there (between nodes
            this is not seen: save more of them); if symmetries become tangent to the constraints; on shapes, for runs
            at times of ``t_eval``.
        """
        own = self._at_parameters_of(run)
        if self.shapes is None:
            if g0 is not None and np.abs(self._vector(g0) - run.g_vector[0]).max() > NEGLIGIBLE:
                raise ValueError("g0 must be the first point of the run, which has the group part already")
            refuse_broken(own.system, own.original, None, run, run.g)
            named = {**run.attributes, "system": self.original.name}
            return replace(run.with_run(system=own.original, function_values=None), attributes=named, loaded={})
        return own._over(run, g0)

    def _over(self, run: Trajectory, g0: Any) -> Trajectory:
        """Run over one on the shapes, of the same parameters, with its events."""
        group, crossings, N = self.original.group, run.crossings, len(run)
        k, t, s, sigma = run.k, run.t, run.g, run.xi
        if crossings is not None:
            at = unflatten(crossings.g_vector, run.attributes["point_shapes"], run.attributes["point_is_tuple"])
            k, t, s, sigma = jax.tree.map(
                lambda *parts: np.concatenate(parts), (k, t, s, sigma), (crossings.k, crossings.t, at, crossings.xi)
            )
        h = self._group_part(run, g0, t[N:])
        g, p = mapped(_lifted, self.shapes, (h, s, sigma))
        if isinstance(self.shapes, Shapes):
            refuse_tangent(self.shapes, t, g)
        refuse_broken(self.system, self.original, self.shapes, run, jax.tree.map(lambda a: a[:N], g))
        attributes = {
            **run.attributes,
            "system": self.original.name,
            "group": str(group),
            "point_names": list(group.point_names),
            "velocity_names": list(group.velocity_names),
            "point_shapes": [list(shape) for shape in group.point_shapes],
            "point_is_tuple": isinstance(group.identity(), tuple),
            "units": dict(self.original.units),
            "method": f"lift of {run.attributes['method']}",
        }
        nodes = Nodes(k, np.asarray(mapped(_vector_of, group, g)), p, p, t)
        state = RunState(self.original, None, run.clock)
        lifted = replace(run, nodes=nodes.taken(np.s_[:N]), run=state, attributes=attributes, loaded={})
        if run.nodes.t is None:
            lifted = replace(lifted, nodes=lifted.nodes._replace(t=None))
        if crossings is None:
            return lifted
        there = replace(lifted, nodes=nodes.taken(np.s_[N:]))
        return lifted.with_run(
            crossings=crossings._replace(g_vector=there.g_vector, xi=there.xi, multipliers=there.multipliers)
        )

    def phase(self, run: Trajectory) -> Point:
        """Displacement k ∈ H by a run on shapes: where its shape returns, the original motion ends at k·g with g its
        start, whatever g over this shape.

        Parameters
        ----------
        run : Trajectory
            Run of ``system``.

        Returns
        -------
        point of the group

        Raises
        ------
        TypeError, ValueError
            As for ``lift``; if the reduced system is not one on shapes.
        """
        if self.shapes is None:
            raise ValueError("the runs of this reduction have the group part already: compare their ends")
        path = self._at_parameters_of(run)._group_part(run, None, np.zeros(0))
        return jax.tree.map(lambda a: a[-1], path)

    def __str__(self) -> str:
        what = "to its shapes" if self.shapes is not None else f"to the base {type(self.system.action).__name__}"
        return f"{self.original.name} reduced by {len(self.symmetry)} symmetries {what}: {self.system!r}"

    __repr__ = __str__

    @property
    def _cosets(self) -> Cosets:
        return Cosets(self.original.group, self.symmetry)

    def _vector(self, g: Any) -> np.ndarray:
        return np.asarray(computed(_vector_of, self.original.group, self.original.point(g)))

    def _at_parameters_of(self, run: Trajectory) -> Reduction:
        """The reduction with the parameters of a run of the reduced system; ValueError for one of another system."""
        return self._at(parameters_of_run(run, self.system))

    def _at(self, parameters: dict[str, Any]) -> Reduction:
        """The reduction with other parameters; ValueError where the symmetries are none for them."""
        own = {name: value for name, value in parameters.items() if name in self.original.parameters}
        original = with_parameters(self.original, own)
        if as_data(parameters) != as_data(self.system.parameters):
            refuse_asymmetric(original, self.symmetry)
            if isinstance(self.shapes, Routh):
                refuse_power(original, self.symmetry)
        shapes = None if self.shapes is None else self.shapes.with_parameters(parameters)
        return replace(self, system=with_parameters(self.system, parameters), original=original, shapes=shapes)

    def _group_part(self, run: Trajectory, g0: Any, times: np.ndarray) -> Point:
        """h at the nodes of a run, and at times within it, which are joined to those of its steps."""
        grid = step_times(run)
        group, first = self.original.group, jax.tree.map(lambda a: a[0], run.g)
        start = jax.tree.map(np.asarray, group.identity())
        if g0 is not None:
            g = self.original.point(g0)
            over = computed(_shape_of, self._cosets, g)
            gap = max(float(np.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, (over, first)), strict=True))
            if gap > NEGLIGIBLE:
                raise ValueError(f"g0 is over another shape than that at the beginning of the run, by {gap:.2g}")
            start = computed(_group_part_of, self.shapes, (g, first))
        wanted, sign = np.concatenate([run.t, times]), np.sign(run.dt)
        grid = sign * np.unique(sign * np.concatenate([grid, wanted]))
        path = self._path(run, grid, wanted)
        for _ in range(HALVINGS if isinstance(run.method, VariableSteps) else 0):
            grid, before = np.insert(grid, np.arange(1, len(grid)), (grid[1:] + grid[:-1]) / 2), path
            path = self._path(run, grid, wanted)
            pairs = list(zip(jax.tree.leaves(path), jax.tree.leaves(before), strict=True))
            if all(np.abs(a - b).max() <= SETTLED * (1 + np.abs(a).max()) for a, b in pairs):
                break
        return mapped(_moved, (group, start), path)

    def _path(self, run: Trajectory, grid: np.ndarray, wanted: np.ndarray) -> Point:
        """h from the identity at times that are among those of a grid, by a factor for each of its intervals."""
        group, sign = self.original.group, np.sign(run.dt)
        path = jax.tree.map(lambda a: np.asarray(a)[None], group.identity())
        if len(grid) > 1:
            lengths = np.diff(grid)
            inner = run((grid[:-1, None] + lengths[:, None] * GAUSS).ravel())
            eta = mapped(_turning, self.shapes, (inner.g, inner.xi)).reshape(len(lengths), 3, -1)
            after = computed(products, group, mapped(magnus, group, (lengths, eta)))
            path = jax.tree.map(lambda e, a: np.concatenate([e, a]), path, after)
        places = np.searchsorted(sign * grid, sign * wanted)
        return jax.tree.map(lambda a: a[places], path)


def _vector_of(group: Any, g: Point) -> Array:
    return group.to_vector(g)


def _shape_of(cosets: Cosets, g: Point) -> Point:
    return cosets.at(g)


def _shape_velocity(shapes: Shapes | Routh, state: tuple[Point, Array]) -> tuple[Array, Array]:
    """Part σ of ξ in Lie(S), along Lie(H), and the largest difference between ξ and the velocity over σ."""
    s, xi = state
    J = shapes.inclusion
    sigma = jnp.linalg.solve(jnp.concatenate([J, shapes.generators(s).T], axis=1), xi)[: J.shape[1]]
    return sigma, jnp.max(jnp.abs(shapes.velocity(s, sigma) - xi))


def _group_part_of(shapes: Shapes | Routh, ends: tuple[Point, Point]) -> Point:
    g, s = ends
    group = shapes.system.group
    return group.compose(g, group.inverse(shapes.representative(s)))


def _turning(shapes: Shapes | Routh, state: ShapeState) -> Array:
    return shapes.turning(*state)


def _moved(tree: tuple, h: Point) -> Point:
    group, start = tree
    return group.compose(start, h)


def _lifted(shapes: Shapes | Routh, node: tuple[Point, Point, Array]) -> tuple[Point, Array]:
    """Point of the group and momentum over a shape and its velocity."""
    h, s, sigma = node
    system = shapes.system
    g = system.group.compose(h, shapes.representative(s))
    return g, system.momentum(system.at(g), shapes.velocity(s, sigma))

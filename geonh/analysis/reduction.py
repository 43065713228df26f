"""Reduction of systems by symmetries: to a smaller base, or to the shapes of a Chaplygin system."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.echelon import NEGLIGIBLE, echelon, rank_of
from geonh.analysis.chaplygin import Chaplygin
from geonh.analysis.rebased import rebased
from geonh.analysis.shapes import (
    GAUSS,
    ShapeForces,
    ShapeIntegral,
    ShapeMetric,
    ShapePotential,
    Shapes,
    ShapeState,
    magnus,
    products,
)
from geonh.analysis.states import random_states
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_flag, as_float64, shortly
from geonh.engine import computed, mapped
from geonh.geometry.cosets import Cosets, Representative
from geonh.geometry.motions import dimensions
from geonh.groups.base import Point
from geonh.groups.translations import Torus, Translations
from geonh.mechanics.holonomic import refuse_holonomic
from geonh.mechanics.momentum import generators_or_default
from geonh.mechanics.symmetry import symmetries_with_forces
from geonh.mechanics.system import FirstIntegral, System
from geonh.results.nodes import Nodes
from geonh.results.record import RunState
from geonh.results.trajectory import Trajectory

PARALLEL = 1e-6
"""Least singular value of μXᵀ, of normalised rows, at which symmetries count as transverse to the constraints."""
STATES = 4
"""Number of random states at which affine parts and first integrals are tested."""


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
    shapes : Shapes or None
        Horizontal lift and gyroscopic forces, where constraints were eliminated.
    """

    system: System
    original: System
    symmetry: np.ndarray
    shapes: Shapes | None = None

    def start(self, g0: Any, xi0: Any) -> ReducedState:
        """State of the reduced system at a state of the original one.

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
            raise ValueError(
                f"xi0 breaks the constraints of {self.original.name} by {gap:.2g}; system.project gives one"
            )
        return ReducedState(s, sigma)

    def lift(self, run: Trajectory, g0: Any = None) -> Trajectory:
        """Run of the original system over one of the reduced system.

        Parameters
        ----------
        run : Trajectory
            Run of ``system``.
        g0 : point of the group, optional
            Point of the original group over the first node; that whose part in H is trivial when left out.

        Returns
        -------
        Trajectory
            At the same nodes. After elimination of constraints its part in H has an error of order 6 in the steps
            of the run, in addition to that of the run, and satisfies the constraints; it is read, plotted and saved,
            but not resumed.

        Raises
        ------
        TypeError, ValueError
            If ``run`` is no trajectory, or one of another system; if ``g0`` is not over its first node.
        """
        if not isinstance(run, Trajectory):
            raise TypeError(f"run must be a Trajectory, got {shortly(run)}")
        if run.attributes["system"] != self.system.name:
            raise ValueError(f"run must be of {self.system.name!r}, not of {run.attributes['system']!r}")
        if self.shapes is None:
            if g0 is not None and np.abs(self._vector(g0) - run.g_vector[0]).max() > NEGLIGIBLE:
                raise ValueError("g0 must be the first point of the run, which has the group part already")
            named = {**run.attributes, "system": self.original.name}
            return replace(run.with_run(system=self.original, function_values=None), attributes=named, loaded={})
        h = self._group_part(run, g0)
        g, p = mapped(_lifted, self.shapes, (h, run.g, run.xi))
        group = self.original.group
        nodes = Nodes(run.nodes.k, np.asarray(mapped(_vector_of, group, g)), p, p, run.nodes.t)
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
        return replace(run, nodes=nodes, run=RunState(self.original, None, run.clock), attributes=attributes, loaded={})

    def phase(self, run: Trajectory) -> Point:
        """Displacement k ∈ H by a run of the reduced system, after elimination of constraints: where its shape returns,
        the original motion ends at k·g with g its start, whatever g over this shape.

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
            As for ``lift``; if no constraints were eliminated.
        """
        if self.shapes is None:
            raise ValueError("the runs of this reduction have the group part already: compare their ends")
        self.lift(run)
        return jax.tree.map(lambda a: a[-1], self._group_part(run, None))

    def __str__(self) -> str:
        what = "to its shapes" if self.shapes is not None else f"to the base {type(self.system.action).__name__}"
        return f"{self.original.name} reduced by {len(self.symmetry)} symmetries {what}: {self.system!r}"

    __repr__ = __str__

    @property
    def _cosets(self) -> Cosets:
        return Cosets(self.original.group, self.symmetry)

    def _vector(self, g: Any) -> np.ndarray:
        return np.asarray(computed(_vector_of, self.original.group, self.original.point(g)))

    def _group_part(self, run: Trajectory, g0: Any) -> Point:
        """h at the nodes of a run."""
        assert self.shapes is not None
        group, first = self.original.group, jax.tree.map(lambda a: a[0], run.g)
        start = jax.tree.map(np.asarray, group.identity())
        if g0 is not None:
            g = self.original.point(g0)
            over = computed(_shape_of, self._cosets, g)
            gap = max(float(np.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, (over, first)), strict=True))
            if gap > NEGLIGIBLE:
                raise ValueError(f"g0 is over another shape than that at the beginning of the run, by {gap:.2g}")
            start = computed(_group_part_of, self.shapes, (g, first))
        if len(run) == 1:
            return jax.tree.map(lambda a: np.asarray(a)[None], start)
        steps = np.diff(run.k) if run.nodes.t is None else np.ones(len(run) - 1, int)
        lengths = np.repeat(np.diff(run.t) / steps, steps)
        begins = np.repeat(run.t[:-1], steps) + lengths * np.concatenate([np.arange(n) for n in steps])
        inner = run((begins[:, None] + lengths[:, None] * GAUSS).ravel())
        eta = mapped(_turning, self.shapes, (inner.g, inner.xi)).reshape(len(lengths), 3, -1)
        logarithms = mapped(magnus, group, (lengths, eta))
        after = jax.tree.map(lambda a: a[np.cumsum(steps) - 1], computed(products, group, logarithms))
        path = jax.tree.map(lambda a, e: np.concatenate([np.asarray(e)[None], a]), after, group.identity())
        return mapped(_moved, (group, start), path)


@validated
def reduce(system: System, symmetry: Any = None, *, eliminate: bool = False) -> Reduction:
    """Reduce a system by left translations that leave it invariant.

    By default the same system on the same group over a smaller base: its functions become ones of what the symmetries
    leave invariant, a point if this is nothing, coordinates, the vector Rᵀe where H has the rotations about the axis e.
    Runs are the same, group part included.

    With ``eliminate`` the system of the shapes of a Chaplygin system, without its constraints: g = D ⊕ span X, with as
    many symmetries as constraints. The shapes are a subgroup S with G = HS; the metric is that of horizontal
    velocities, and gyroscopic forces join those given. Its own symmetries are used for its base. ``Reduction.lift``
    reconstructs the part in H.

    Parameters
    ----------
    system : System
        It may not depend on the time, besides by its forces, nor have constraints nonlinear in the velocity.
    symmetry : array_like, shape=[s, n], optional
        Elements of the algebra of left translations, which span a subalgebra of symmetries. When left out all
        ``mechanics.symmetries``; with ``eliminate`` those of translations, rotations or factors of the group that are
        transverse, where these are most clearly so at the identity.
    eliminate : bool
        True to eliminate the constraints too.

    Returns
    -------
    Reduction
        ``system``, the reduced one, for all of the library; and ``lift``.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If there are no symmetries, or elements are none, or no subalgebra; if H is not generated by parts of it in each
        factor of the group, or contains screws; with ``eliminate``, where a condition for a Chaplygin system fails,
        naming it.

    Notes
    -----
    Symmetries combining several factors, as the rotation of a table with the ball on it, and right translations, are
    not used. The latter, symmetries of the material, are left translations of the opposite group: of a system written
    on ``groups.Opposite``, in spatial velocities. Forces that need controls are taken to be invariant. A horizontal
    symmetry gives no smaller system here: its momentum is a first integral (``analysis.first_integrals``). Digits are
    lost on the shapes where symmetries are nearly tangent to D.

    References
    ----------
    .. [Koiller1992] J. Koiller, "Reduction of some classical nonholonomic systems with symmetry", Archive for Rational
       Mechanics and Analysis 118 (1992), 113–148.
    .. [Bloch1996] A. M. Bloch, P. S. Krishnaprasad, J. E. Marsden, R. M. Murray, "Nonholonomic mechanical systems with
       symmetry", Archive for Rational Mechanics and Analysis 136 (1996), 21–99.
    """
    if system.is_timed or system.is_nonlinear:
        how = "depends on the time" if system.is_timed else "has constraints nonlinear in the velocity"
        raise ValueError(f"{system.name} {how}: reduce is for others")
    if system.multiplier_forces is not None and system.multiplier_forces.is_held:
        raise ValueError(f"{system.name} has friction that depends on where a step begins: reduce is for others")
    rows = _symmetries(system) if symmetry is None else _given(system, symmetry)
    if as_flag(eliminate, "eliminate"):
        return _to_shapes(system, rows, symmetry is None)
    return _over_smaller_base(system, rows, symmetry is not None)


def _symmetries(system: System) -> np.ndarray:
    rows = np.asarray(symmetries_with_forces(system))
    if not len(rows):
        raise ValueError(f"{system.name} has no symmetries that are left translations")
    return rows


def _given(system: System, symmetry: Any) -> np.ndarray:
    """Independent rows of symmetries that span a subalgebra."""
    n = system.group.dim
    rows = np.atleast_2d(as_float64(symmetry, "symmetry"))
    if rows.ndim != 2 or rows.shape[1] != n or rank_of(rows) != len(rows):
        raise ValueError(
            f"symmetry must be independent rows, shape [s, {n}] on {system.group}, got {list(np.shape(symmetry))}"
        )
    brackets = np.einsum("kij,ai,bj->abk", system.group.structure_constants, rows, rows).reshape(-1, n)
    if rank_of(np.concatenate([rows, brackets])) != len(rows):
        raise ValueError("symmetry must span a subalgebra: the brackets of its rows are not in their span")
    X = generators_or_default(system, None)
    if len(symmetries_with_forces(system, lambda g: jnp.asarray(rows) @ X(g))) != len(rows):
        raise ValueError(
            f"symmetry has elements that are not symmetries of {system.name}; mechanics.symmetries finds them"
        )
    return rows


def _over_smaller_base(system: System, rows: np.ndarray, wanted: bool) -> Reduction:
    cosets = Cosets(system.group, rows)
    if (wanted and len(cosets.algebra) < len(rows)) or not len(cosets.algebra):
        raise ValueError(
            f"of the {len(rows)} symmetries of {system.name} {len(rows) - len(cosets.algebra)} are screws, or combine "
            f"factors of {system.group}, whose cosets have no coordinates here"
        )
    action, representative = cosets.simplified()
    return Reduction(rebased(system, action, representative, f"{system.name} reduced"), system, cosets.algebra)


def _to_shapes(system: System, rows: np.ndarray, chosen: bool) -> Reduction:
    refuse_holonomic(system, "the elimination of constraints")
    if system.distribution is None:
        raise ValueError(f"{system.name} has no constraints to eliminate")
    if not system.is_quadratic:
        raise ValueError(f"elimination of constraints is for ℓ quadratic in ξ, unlike that of {system.name}")
    if system.multiplier_forces is not None:
        raise ValueError(f"{system.name} has forces of the multipliers, which elimination would have to keep")
    system = system.with_rank_at(None)
    e = jax.tree.map(np.asarray, system.group.identity())
    states = random_states(system, e, STATES, np.random.default_rng(0), near=0.1)
    found = mapped(_conditions, system, states.g)
    affine = np.abs(found.affine).max(initial=0.0)
    if affine:
        raise ValueError(f"{system.name} has affine constraints or terms of ℓ linear in ξ, of size {affine:.2g}")
    m = found.forms.shape[1]
    rows = _transverse_part(system, rows, found) if chosen else rows
    crossing = _least_crossing(rows, found) if len(rows) == m else 0.0
    if len(rows) != m or crossing < PARALLEL:
        what = f"{len(rows)} symmetries for {m} constraints" if len(rows) != m else f"they cross at {crossing:.2g}"
        raise ValueError(
            f"{system.name} is no Chaplygin system by these symmetries: as many are needed as there are constraints, "
            f"transverse to them, μXᵀ regular; there are {what}"
        )
    cosets = Cosets(system.group, rows)
    if len(cosets.algebra) < m:
        raise ValueError(f"symmetry has screws, or combines factors of {system.group}, which have no shapes here")
    S, inclusion = cosets.subgroup()
    if S is None:
        raise ValueError(f"{system.name} does not move: it has no shapes")
    shapes = Shapes(Chaplygin(system, cosets.algebra), Representative(cosets), inclusion)
    trial, reduced = (_system_of(shapes, S, alone) for alone in (True, False))
    own = np.asarray(symmetries_with_forces(trial))
    if len(own) and len(symmetries_with_forces(reduced)) == len(own):
        action, representative = Cosets(S, own).simplified()
        reduced = rebased(reduced, action, representative, reduced.name)
    return Reduction(reduced, system, cosets.algebra, shapes)


def _system_of(shapes: Shapes, S: Any, alone: bool) -> System:
    """System on the shapes, with gyroscopic forces alone or all."""
    system = shapes.chaplygin.system
    names = [*S.point_names, *S.velocity_names, "time", "energy"]
    return System(
        S,
        metric=ShapeMetric(shapes),
        potential=ShapePotential(shapes),
        forces=ShapeForces(shapes, alone),
        parameters=system.parameters,
        first_integrals={} if alone else _integrals(shapes),
        units={name: unit for name, unit in system.units if name in names},
        name=f"{system.name} reduced to shapes",
    )


def _integrals(shapes: Shapes) -> dict[str, FirstIntegral]:
    """First integrals that H leaves invariant."""
    system = shapes.chaplygin.system
    if not system.first_integrals:
        return {}
    rng = np.random.default_rng(1)
    states = random_states(system, jax.tree.map(np.asarray, system.group.identity()), STATES, rng)
    shift = rng.normal(size=(STATES, len(shapes.chaplygin.symmetry))) @ shapes.chaplygin.symmetry
    before, after = (mapped(_integral_values, system, (states.g, states.xi, k)) for k in (0 * shift, shift))
    return {
        name: FirstIntegral(ShapeIntegral(shapes, integral.function), integral.note, integral.momentum)
        for name, integral in system.first_integrals.items()
        if np.allclose(before[name], after[name], rtol=1e-9, atol=1e-9)
    }


class _Conditions(NamedTuple):
    """At a point: forms, shape=[m, n], generators of left translations, shape=[n, n], and the affine parts."""

    forms: Array
    generators: Array
    affine: Array


def _conditions(system: System, g: Point) -> _Conditions:
    x = system.at(g)
    held = system.holding(x)
    affine = jnp.concatenate([held.right_hand_side(x), system.momentum_at_rest(x)])
    return _Conditions(held.annihilator(x), generators_or_default(system, None)(g), affine)


def _least_crossing(rows: np.ndarray, found: _Conditions) -> float:
    """Least singular value of μXᵀ, of normalised rows: the largest over points."""
    mu, X = np.asarray(found.forms), rows @ np.asarray(found.generators)
    mu, X = (part / np.linalg.norm(part, axis=-1, keepdims=True) for part in (mu, X))
    return float(np.linalg.svd(mu @ np.swapaxes(X, 1, 2), compute_uv=False)[:, -1].max())


def _transverse_part(system: System, rows: np.ndarray, found: _Conditions) -> np.ndarray:
    """Of the symmetries the translations, rotations or factors, as many as constraints, that are most transverse."""
    n, m, begin = system.group.dim, found.forms.shape[1], 0
    choices: list[list[list[int]]] = []
    for factor in getattr(system.group, "factors", (system.group,)):
        places = list(range(begin, begin + factor.dim))
        if isinstance(factor, Translations | Torus):
            choices += [[[], [place]] for place in places]
        elif (parts := dimensions(factor)) is not None and parts.moves:
            choices.append([[], places[: parts.turns], places[parts.turns :], places])
        else:
            choices.append([[], places])
        begin += factor.dim
    best, largest = rows[:0], 0.0
    for combination in itertools.product(*choices):
        places = [place for part in combination for place in part]
        if len(places) != m or rank_of(np.concatenate([rows, np.eye(n)[places]])) != len(rows):
            continue
        value = _least_crossing(np.eye(n)[places], found)
        if value > largest + PARALLEL:
            best, largest = echelon(np.eye(n)[places]), value
    if not len(best):
        raise ValueError(
            f"{system.name} is no Chaplygin system by its {len(rows)} symmetries: no {m} of them, translations, "
            "rotations or factors of the group, are transverse to its constraints; symmetry= gives others"
        )
    return best


# --- evaluated at nodes ------------------------------------------------------------------------------------------


def _vector_of(group: Any, g: Point) -> Array:
    return group.to_vector(g)


def _shape_of(cosets: Cosets, g: Point) -> Point:
    return cosets.at(g)


def _shape_velocity(shapes: Shapes, state: tuple[Point, Array]) -> tuple[Array, Array]:
    """σ with Lσ = ξ, and the largest entry of Lσ − ξ."""
    s, xi = state
    X = shapes.chaplygin._generators(shapes.representative(s))
    sigma = jnp.linalg.solve(jnp.concatenate([shapes.inclusion, X.T], axis=1), xi)[: shapes.inclusion.shape[1]]
    return sigma, jnp.max(jnp.abs(shapes.lift(s) @ sigma - xi))


def _group_part_of(shapes: Shapes, ends: tuple[Point, Point]) -> Point:
    g, s = ends
    group = shapes.chaplygin.system.group
    return group.compose(g, group.inverse(shapes.representative(s)))


def _turning(shapes: Shapes, state: ShapeState) -> Array:
    return shapes.turning(*state)


def _moved(tree: tuple, h: Point) -> Point:
    group, start = tree
    return group.compose(start, h)


def _lifted(shapes: Shapes, node: tuple[Point, Point, Array]) -> tuple[Point, Array]:
    """Point of the group and momentum over a shape and its velocity."""
    h, s, sigma = node
    system = shapes.chaplygin.system
    g = system.group.compose(h, shapes.representative(s))
    return g, system.momentum(system.at(g), shapes.lift(s) @ sigma)


def _integral_values(system: System, node: tuple[Point, Array, Array]) -> dict[str, Array]:
    g, xi, eta = node
    moved = system.group.compose(system.group.exp(eta), g)
    return {name: jnp.asarray(integral.along(system, moved, xi)) for name, integral in system.first_integrals.items()}

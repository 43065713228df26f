r"""The action groupoid M ⋊ G and its algebroid M × g (mathematics.md §1).

G acts from the right on the base M, x·W. The groupoid has elements (x, W), source x, target x·W and product
(x, W)(x·W, V) = (x, WV); its algebroid is M × g with the constant bracket of g and the anchor
ρ_x(ξ) = d/dt x·exp(tξ) at t = 0. M is an orbit: the base point over the group element g is x = o·g for an origin o, so
a trajectory is a path in G alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, as_names, shortly
from geonh.engine import Precise, traced_once
from geonh.groups.base import LieGroup, Point, tree_add

BasePoint = Any


class Action(Precise):
    """Right action of a Lie group on a base manifold M, with an origin o: the action groupoid M ⋊ G and its algebroid.

    A *base point* is the argument of the system's functions, a pytree of arrays: of ``GroupBase`` a point of the group,
    of ``ShapeBase`` an array of shape=[k], of ``AdvectedVector`` one of shape=[N], of ``PointBase`` the empty tuple. An
    *arrow* is a pair (x, W) of a base point and a point of the group.

    A user-defined action implements ``at`` and ``act``; the rest follows.

    Attributes
    ----------
    group : LieGroup
        The group G that acts.

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``.
    """

    group: eqx.AbstractVar[LieGroup]

    @abstractmethod
    def at(self, g: Point) -> BasePoint:
        """Base point o·g over a point of the group."""

    @abstractmethod
    def act(self, x: BasePoint, W: Point) -> BasePoint:
        """Base point x·W, of a base point and a point of the group."""

    def __check_init__(self) -> None:
        as_lie_group(self.group)

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        if name in ("arrow", "first", "second") and not (isinstance(value, tuple | list) and len(value) == 2):
            raise TypeError(f"{called} must be a pair (base point, point of the group), got {shortly(value)}")
        return super()._argument(method, name, value, called)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.group}"

    def anchor(self, x: BasePoint, xi: Array) -> BasePoint:
        """Ambient tangent vector ρ_x(ξ) = d/dt x·exp(tξ) at t = 0, in the shapes of x; ``xi`` of shape=[n]."""
        e = jax.tree.map(jnp.asarray, self.group.identity())
        return jax.jvp(lambda W: self.act(x, W), (e,), (self.group.left_tangent(e, xi),))[1]

    def coanchor(self, function: Callable[[BasePoint], Array], x: BasePoint) -> Array:
        """ρ_xᵀ d(function)(x), shape=[n]: the derivative of a scalar along x·exp(η), as a covector in g*."""
        zero = jnp.zeros(self.group.dim)
        try:
            return jax.grad(lambda eta: function(tree_add(x, _anchor(self, x, eta))))(zero)
        except ValueError as error:
            if "Reverse-mode differentiation does not work" not in str(error):
                raise
            raise ValueError(
                "a function of the system has a loop of unknown length (while_loop, or fori_loop with traced bounds), "
                "which cannot be differentiated: use scan, or fori_loop with bounds that are numbers"
            ) from error

    # --- the groupoid --------------------------------------------------------------------------------------
    def source(self, arrow: tuple[BasePoint, Point]) -> BasePoint:
        """α(x, W) = x, a base point as of ``at``."""
        return arrow[0]

    def target(self, arrow: tuple[BasePoint, Point]) -> BasePoint:
        """β(x, W) = x·W, a base point as of ``at``."""
        return self.act(*arrow)

    def product(self, first: tuple[BasePoint, Point], second: tuple[BasePoint, Point]) -> tuple[BasePoint, Point]:
        """The arrow (x, W)(x·W, V) = (x, WV), a base point and a point of the group; composability of the arrows is not
        tested.
        """
        return first[0], self.group.compose(first[1], second[1])

    def inverse(self, arrow: tuple[BasePoint, Point]) -> tuple[BasePoint, Point]:
        """The arrow (x, W)⁻¹ = (x·W, W⁻¹), a base point and a point of the group."""
        return self.act(*arrow), self.group.inverse(arrow[1])

    # --- the algebroid -------------------------------------------------------------------------------------
    def bracket(self, X: Callable[[BasePoint], Array], Y: Callable[[BasePoint], Array]) -> Callable[[BasePoint], Array]:
        """Algebroid bracket of sections x ↦ X(x), shape=[n]: the section [[X, Y]] = [X, Y]_g + ρ_X·Y − ρ_Y·X."""

        def section(x: BasePoint) -> Array:
            value_X, value_Y = X(x), Y(x)
            along_X = jax.jvp(Y, (x,), (self.anchor(x, value_X),))[1]
            along_Y = jax.jvp(X, (x,), (self.anchor(x, value_Y),))[1]
            return self.group.bracket(value_X, value_Y) + along_X - along_Y

        return section


def as_lie_group(group: Any) -> LieGroup:
    """The argument ``group``; TypeError if it is no ``LieGroup``."""
    if not isinstance(group, LieGroup):
        raise TypeError(f"group must be a geonh LieGroup, got {shortly(group)}")
    return group


@traced_once
def _anchor(action: Action, x: BasePoint, xi: Array) -> BasePoint:
    return action.anchor(x, xi)


class PointBase(Action):
    """M is a point: everything is left-invariant. The base point is the empty tuple.

    Parameters
    ----------
    group : LieGroup
        The group.

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``.
    """

    group: LieGroup

    def __init__(self, group: LieGroup):
        self.group = as_lie_group(group)

    def at(self, g: Point) -> BasePoint:
        return ()

    def act(self, x: BasePoint, W: Point) -> BasePoint:
        return ()

    def anchor(self, x: BasePoint, xi: Array) -> BasePoint:
        return ()


class GroupBase(Action):
    """M = G under right multiplication: no invariance is assumed. The base point is the group element.

    Parameters
    ----------
    group : LieGroup
        The group.

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``.
    """

    group: LieGroup

    def __init__(self, group: LieGroup):
        self.group = as_lie_group(group)

    def at(self, g: Point) -> BasePoint:
        return g

    def act(self, x: BasePoint, W: Point) -> BasePoint:
        return self.group.compose(x, W)

    def anchor(self, x: BasePoint, xi: Array) -> BasePoint:
        return self.group.left_tangent(x, xi)


class ShapeBase(Action):
    """M is a shape space: some coordinates of additive factors (Rⁿ, Tⁿ), which G translates.

    Parameters
    ----------
    group : LieGroup
        The group.
    names : sequence of str, optional
        Names of the shape coordinates; all coordinates of all additive factors when left out. The base point is
        the vector of these coordinates, shape=[k].

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``, or ``names`` is not a list of texts.
    ValueError
        If there are none, or one is not the name of such a coordinate, or is repeated.
    """

    group: LieGroup
    names: tuple[str, ...] = eqx.field(static=True)
    point_indices: tuple[int, ...] = eqx.field(static=True)
    velocity_indices: tuple[int, ...] = eqx.field(static=True)

    @validated
    def __init__(self, group: LieGroup, names: Sequence[str] | None = None):
        additive = _additive_coordinates(group)
        if names is None:
            names = tuple(additive)
        if not names:
            known = f"; its coordinates are {list(additive)}" if additive else f"; {group} has none"
            raise ValueError(f"base of coordinates needs at least one, of a factor Rⁿ or Tⁿ{known}")
        unknown = [name for name in names if not isinstance(name, str) or name not in additive]
        if unknown:
            raise ValueError(f"base: {unknown} are not coordinates of additive factors; those are {list(additive)}")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"base: {repeated} are repeated in {list(names)}")
        self.group = group
        self.names = tuple(names)
        self.point_indices = tuple(additive[name][0] for name in names)
        self.velocity_indices = tuple(additive[name][1] for name in names)

    def at(self, g: Point) -> BasePoint:
        return self.group.to_vector(g)[..., np.array(self.point_indices)]

    def act(self, x: BasePoint, W: Point) -> BasePoint:
        return x + self.at(W)

    def anchor(self, x: BasePoint, xi: Array) -> BasePoint:
        return xi[..., np.array(self.velocity_indices)]


class AdvectedVector(Action):
    """M is the orbit of a fixed spatial vector in body coordinates, γ = R⁻¹v, with γ·W = W⁻¹γ (heavy top, Veselova).

    Parameters
    ----------
    group : LieGroup
        A group with a matrix representation, for instance SO(3).
    vector : array_like, shape=[N]
        The spatial vector v; the base point is γ, shape=[N].

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``, or ``vector`` is not numeric.
    """

    group: LieGroup
    vector: Any

    def __init__(self, group: LieGroup, vector: Any):
        self.group = group
        self.vector = as_float64(vector, "vector")

    def at(self, g: Point) -> BasePoint:
        return self.act(jnp.asarray(self.vector), g)

    def act(self, x: BasePoint, W: Point) -> BasePoint:
        matrix = self.group.to_matrix(self.group.inverse(W))
        return jnp.sum(matrix * x[..., None, :], axis=-1)


def _additive_coordinates(group: LieGroup) -> dict[str, tuple[int, int]]:
    """Map name → (index in the flattened point, index in ξ), for the factors Rⁿ and Tⁿ."""
    from geonh.groups.translations import Torus, Translations

    indices: dict[str, tuple[int, int]] = {}
    point = velocity = 0
    for factor in getattr(group, "factors", (group,)):
        size = len(factor.point_names)
        if isinstance(factor, Translations | Torus):
            for i in range(factor.dim):
                indices[group.point_names[point + i]] = (point + i, velocity + i)
        point, velocity = point + size, velocity + factor.dim
    return indices


def make_action(group: LieGroup, base: str | Sequence[str] | Action) -> Action:
    """Action named by ``base``: "group" (always valid), "point", "shape", names of shape coordinates, or an Action;
    ValueError or TypeError for any other word or object.
    """
    if isinstance(base, Action):
        return base
    if isinstance(base, str):
        if base == "group":
            return GroupBase(group)
        if base == "point":
            return PointBase(group)
        if base == "shape":
            return ShapeBase(group)
        raise ValueError(
            f"base must be 'group', 'point', 'shape', a list of coordinates or an Action, got {shortly(base)}"
        )
    if not isinstance(base, Sequence) or isinstance(base, bytes | memoryview):
        raise TypeError(
            f"base must be 'group', 'point', 'shape', a list of coordinates or an Action, got {shortly(base)}"
        )
    return ShapeBase(group, tuple(as_names(list(base), "base")))

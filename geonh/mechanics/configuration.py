"""Configurations of a system: points of its group and base, as arguments of its methods and as users give them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import has_tracers, is_traced
from geonh.arguments.validators import as_flag, as_float64, shortly
from geonh.engine import Precise, as_numbers, computed
from geonh.geometry.action import Action, GroupBase, ShapeBase
from geonh.geometry.field import Moment
from geonh.groups import SE2, SO3, LieGroup, Product
from geonh.groups.base import Point, as_point
from geonh.mechanics.soundness import OFF_GROUP, gap_of, group_fault


class ConfigurationSpace(Precise):
    """Group and action of a system: its points and base points, with a clock where a function depends on the time."""

    group: LieGroup
    action: Action
    name: str = eqx.field(static=True)

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        """Check the shapes of base points and vectors against the system's: the methods are those of a node."""
        if name == "x":
            return self._base_point(method, value, called)
        if name == "g" and method == "at":
            return self._node_point(value, called)
        if name == "point":
            return as_point(self.group, value, called)
        if name not in ("xi", "eta", "p", "reaction") or value is None:
            return super()._argument(method, name, value, called)
        value = as_numbers(value, called)
        if np.shape(value) != (self.group.dim,):
            raise ValueError(
                f"{called} must have shape [{self.group.dim}], got {list(np.shape(value))}; for many nodes use jax.vmap"
            )
        return value

    def _base_point(self, method: str, x: Any, called: str) -> Any:
        if isinstance(x, Moment):
            return x._replace(x=self._base_point(method, x.x, called))
        if isinstance(self.action, GroupBase):
            return self._node_point(x, called)
        if not isinstance(self.action, ShapeBase):
            return super()._argument(method, "x", x, called)
        x = as_numbers(x, called)
        if np.shape(x) != (len(self.action.names),):
            wanted = f"[{len(self.action.names)}], ({', '.join(self.action.names)})"
            raise ValueError(f"{called} must have shape {wanted}, got {list(np.shape(x))}; for many nodes use jax.vmap")
        return x

    def _node_point(self, x: Any, called: str) -> Any:
        x = as_point(self.group, x, called)
        leaves = jax.tree.leaves(x)
        if not isinstance(leaves[0], jax.core.Tracer) and any(
            np.shape(leaf) != shape for leaf, shape in zip(leaves, self.group.point_shapes, strict=True)
        ):
            raise ValueError(
                f"{called} must be a point of {self.group}, of shape "
                f"{', '.join(str(list(shape)) for shape in self.group.point_shapes)}, got {shortly(x)}; "
                "for many nodes use jax.vmap"
            )
        return x

    @property
    def is_timed(self) -> bool:
        """True if a function besides the forces depends on the time."""
        raise NotImplementedError

    def at(self, g: Point, t: Any = None) -> Any:
        """The base point over g at time t (s): (t, x) if a function depends on the time, else x alone, as of
        ``Action.at``.

        Raises
        ------
        ValueError
            If the system depends on the time, and ``t`` is left out.
        """
        time = t if t is None or has_tracers(t) else as_float64(t, "t", (), finite=False)
        if not self.is_timed:
            return self.action.at(g)
        if t is None:
            raise ValueError(f"{self.name} depends on the time explicitly; this is for systems that do not")
        return Moment(jnp.asarray(time, dtype=float), self.action.at(g))

    def act(self, x: Any, W: Point, dt: Any) -> Any:
        """Base point x·W after ``dt`` seconds, of a base point and a point of the group."""
        return Moment(x.t + dt, self.action.act(x.x, W)) if isinstance(x, Moment) else self.action.act(x, W)

    def anchor(self, x: Any, eta: Array) -> Any:
        """Tangent vector ρ_x η in the shapes of x, a virtual displacement at fixed time. ``eta`` of shape=[n]."""
        return (
            Moment(jnp.zeros(()), self.action.anchor(x.x, eta)) if isinstance(x, Moment) else self.action.anchor(x, eta)
        )

    def rate(self, x: Any, xi: Array) -> Any:
        """Velocity ẋ = ρ_x ξ in the shapes of x, along the motion, with the clock. ``xi`` of shape=[n]."""
        return self.anchor(x, xi)._replace(t=jnp.ones(())) if isinstance(x, Moment) else self.action.anchor(x, xi)

    def coanchor(self, function: Callable, x: Any) -> Array:
        """Covector ρ_xᵀ d(function)(x), shape=[n], at fixed time; of a scalar function of base points."""
        if isinstance(x, Moment):
            return self.action.coanchor(lambda y: function(Moment(x.t, y)), x.x)
        return self.action.coanchor(function, x)

    def point(self, g: Any, *, on_group: bool = True, name: str = "g0") -> Point:
        """Convert a user's input to a group element.

        Parameters
        ----------
        g : point of the group, nested lists, or None for the identity
            Input.
        on_group : bool
            True to require that it lies on the group to rounding.
        name : str
            Name of the argument in error messages.

        Returns
        -------
        point of the group
            As float64 arrays.

        Raises
        ------
        TypeError
            If it is not made of numbers.
        ValueError
            If it does not have the structure and shapes of a point of the group, or (unless ``on_group`` is false) does
            not lie on it.
        """
        identity, on_group = _identity_of(self.group), as_flag(on_group, "on_group")
        if g is None:
            return jax.tree.map(np.array, identity)
        structure, shapes = jax.tree.structure(identity), self.group.point_shapes
        expected = " × ".join(str(list(s)) for s in shapes)
        entries = list(g) if isinstance(identity, tuple) and isinstance(g, tuple | list) else [g]
        if len(entries) != len(shapes):
            kind = "a tuple of arrays of shapes" if isinstance(identity, tuple) else "an array of shape"
            raise ValueError(f"{name} must be a point of {self.group}, {kind} {expected}, got {shortly(g)}")
        factors = self.group.factors if isinstance(self.group, Product) else ()
        factors = factors if len(factors) == len(shapes) else (self.group,) * len(shapes)
        parts = [f"{name}[{i}]" for i in range(len(shapes))] if isinstance(identity, tuple) else [name]
        each = zip(entries, parts, shapes, factors, strict=True)
        leaves = [_entry(e, part, tuple(s), factor) for e, part, s, factor in each]
        point = jax.tree.unflatten(structure, leaves)
        if on_group and not is_traced(point):
            gap = float(computed(gap_of, self.group, point))
            if not gap <= OFF_GROUP:
                raise ValueError(group_fault(self, point, gap, name))
        return point

    def group_defect(self, point: Point) -> Array:
        """Largest distance of an entry of a point from the nearest group element, scalar."""
        return self.group.gap(point)


def _identity_of(group: LieGroup) -> Point:
    try:
        return _known_identity(group)
    except TypeError:  # unhashable: a matrix group with arrays
        return group.identity()


@functools.lru_cache
def _known_identity(group: LieGroup) -> Point:
    return group.identity()


def _entry(value: Any, name: str, shape: tuple[int, ...], group: Any) -> Array:
    """Array of a point of a group; error messages suggest the conversion that applies."""
    try:
        return as_float64(value, name, shape)
    except ValueError as error:
        given = None
        with contextlib.suppress(Exception):
            given = np.shape(value)
        hint = ""
        if isinstance(group, SO3) and given == (4,):
            hint = "; geonh.groups.quaternion_to_matrix(q) makes a rotation matrix of a quaternion (w, x, y, z)"
        if isinstance(group, SE2) and given == (3, 3):
            hint = "; SE(2) has (θ, x, y) here: group.from_matrix(matrix)"
        raise ValueError(f"{error}{hint}") from None

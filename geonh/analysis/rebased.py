"""A system over another base of the same group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx

from geonh.geometry.action import Action
from geonh.geometry.distribution import VelocityForms
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.mechanics.system import System, replaced


class Over(eqx.Module):
    """Base point of an action over a representative of another base point."""

    action: Action
    representative: Callable[[Any], Point]

    def __call__(self, x: Any) -> Any:
        return self.action.at(self.representative(x))


class _OfBase(eqx.Module):
    """Function whose first argument is a base point, taken at the one over another."""

    function: Callable
    over: Over

    def __call__(self, x: Any, *others: Any) -> Any:
        return self.function(self.over(x), *others)


class _OfTimeAndBase(eqx.Module):
    """Function whose second argument is a base point, taken at the one over another."""

    function: Callable
    over: Over

    def __call__(self, t: Any, x: Any, *others: Any) -> Any:
        return self.function(t, self.over(x), *others)


def rebased(system: System, action: Action, representative: Callable[[Any], Point], name: str) -> System:
    """The system with base points of another action, of which it is a function; none of its functions is timed."""
    over = Over(system.action, representative)

    def field(own: Any) -> Any:
        if not isinstance(own, Field) or own.function is None:
            return own
        if isinstance(own.function, VelocityForms):
            return replaced(own, function=VelocityForms(_OfBase(own.function.velocities, over), own.function.n))
        return replaced(own, function=_OfBase(own.function, over))

    def with_fields(owner: Any, *names: str) -> Any:
        if owner is None:
            return None
        return replaced(owner, **{name: field(getattr(owner, name)) for name in names if hasattr(owner, name)})

    def composed(function: Any, kind: type) -> Any:
        return None if function is None else kind(function, over)

    multiplier_forces = system.multiplier_forces
    if multiplier_forces is not None:
        function = _OfTimeAndBase(multiplier_forces.function, over)
        multiplier_forces = replaced(multiplier_forces, function=function)
    changes = {
        "action": action,
        "metric": with_fields(system.metric, "field"),
        "hessian": with_fields(system.hessian, "field"),
        "potential": field(system.potential),
        "lagrangian_function": composed(system.lagrangian_function, _OfBase),
        "distribution": with_fields(system.distribution, "forms", "frame", "rhs", "drift"),
        "holonomic": field(system.holonomic),
        "forces": composed(system.forces, _OfTimeAndBase),
        "multiplier_forces": multiplier_forces,
        "name": name,
    }
    plain = System.__new__(System)  # tests of a subclass between nodes are of its own base points
    for attribute in System.__dataclass_fields__:
        object.__setattr__(plain, attribute, changes.get(attribute, getattr(system, attribute)))
    return plain

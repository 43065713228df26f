"""Costs, bounds and functions that are asked of an optimal motion, validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from geonh.arguments.inspection import careful
from geonh.arguments.validators import as_constant, as_float64, close, shortly
from geonh.control.conditions import UNBOUNDED, Inequalities, UserFunction
from geonh.control.sought import Sought, refuse_unknown
from geonh.geometry.field import takes_parameters, tried
from geonh.mechanics.system import System


class Wanted(NamedTuple):
    """Arguments of ``optimal_control`` about costs and bounds."""

    cost: Callable | None = None
    terminal_cost: Callable | None = None
    bounds: Any = None
    rates: Any = None
    limits: Mapping[str, Any] | None = None
    path: Any = None
    terminal: Any = None
    via: Any = None
    design: Mapping[str, Any] | None = None


def effort(t: Any, g: Any, u: Any) -> Any:
    """Control effort u·u, the default cost."""
    return u @ u


def validated_cost(function: Callable, name: str, arguments: str, system: System, at: tuple) -> UserFunction:
    """Validated cost; raises if it reads a missing name or is not a scalar."""
    cost, shape = _function(function, name, arguments, system, at)
    if shape:
        raise ValueError(f"{name} must give one number, got an array of shape {shape}")
    return cost


def _function(function: Any, name: str, arguments: str, system: System, at: tuple) -> tuple[UserFunction, tuple]:
    """Validated function, and the shape of its value."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of ({arguments}), got {shortly(function)}")
    takes = takes_parameters(function, arguments, name)
    shape, by_data = tried(name, function, *at, *((system.parameters,) if takes else ()))
    return UserFunction(name, careful(function) if by_data else function, takes), shape


def bounded_functions(
    given: Any, name: str, system: System, at: tuple, *, has_place: bool = False
) -> tuple[tuple[UserFunction, ...], Inequalities]:
    """Bounded functions (c, lower, upper) of (t, g, ξ, u), one or a list of them, and their bounds, which may be equal;
    (place, c, lower, upper) if they have a place.
    """
    form = f"{'(s, c' if has_place else '(c'}, lower, upper)"
    if not isinstance(given, tuple | list | None):
        raise TypeError(f"{name} must be {form} or a list of such, got {shortly(given)}")
    several = list(given or ())
    if several and not isinstance(several[0], tuple | list):
        several = [given]
    functions, bounds = [], UNBOUNDED
    for i, one in enumerate(several):
        if not isinstance(one, tuple | list) or len(one) != 3 + has_place:
            raise TypeError(f"{name} must be {form} or a list of such, got {shortly(one)}")
        label = name if len(several) == 1 else f"{name}[{i}]"
        place = np.nan
        if has_place:
            place, *one = one
            place = float(as_constant(place, f"the part of the span of {label}"))
            if not 0 < place < 1:
                raise ValueError(
                    f"{label} must be at a part of the span between 0 and 1, got {place:g}; terminal= is at the end"
                )
        function, shape = _function(one[0], label, "t, g, xi, u", system, at)
        if len(shape) > 1:
            raise ValueError(f"{label} must give a number or a vector, got an array of shape {shape}")
        size = shape[0] if shape else 1
        functions.append(function)
        names = (label,) if not shape else tuple(f"{label}[{j}]" for j in range(size))
        bounds += bounds_of(one[1:], label, names, may_equal=True)._replace(place=np.full(size, place))
    return tuple(functions), bounds


def bounded_in_phases(
    given: Any, phases: Sequence[str], system: System, at: tuple
) -> tuple[tuple[UserFunction, ...], Inequalities]:
    """Bounded functions of ``path``, which may be given by the names of the phases at whose nodes they are bounded."""
    if not isinstance(given, Mapping):
        return bounded_functions(given, "path", system, at)
    if unknown := [name for name in given if name not in phases]:
        raise ValueError(f"path: {unknown[0]!r} is no phase, which are {list(phases)}{close(str(unknown[0]), phases)}")
    functions: tuple[UserFunction, ...] = ()
    every = UNBOUNDED
    for number, phase in enumerate(phases):
        if phase in given:
            own, bounds = bounded_functions(given[phase], f"path[{phase!r}]", system, at)
            functions += own
            every += bounds._replace(phase=np.full(len(bounds.names), float(number)))
    return functions, every


def bounded_components(
    system: System, limits: Any, bounds: Any, n_controls: int
) -> tuple[tuple[int, ...], Inequalities]:
    """Places of bounded components in (g as a vector, ξ, u), and their bounds."""
    names = [*system.group.point_names, *system.group.velocity_names]
    places, every = [], UNBOUNDED
    for name, pair in dict(limits or {}).items():
        if name not in names:
            raise ValueError(f"limits: {name!r} is no component, which are {names}{close(str(name), names)}")
        places.append(names.index(name))
        every += bounds_of(pair, f"limits[{name!r}]", (name,))
    if bounds is not None:
        of_controls = tuple(f"control {i}" for i in range(n_controls))
        places += [len(names) + i for i in range(n_controls)]
        every += bounds_of(bounds, "bounds", of_controls)
    return tuple(places), every


def sought_parameters(system: System, design: Any) -> tuple[Sought, Inequalities]:
    """Parameters of a system that are sought with a motion, and the bounds of their numbers."""
    if not isinstance(design, Mapping | None):
        raise TypeError(f"design must be a dict of (lower, upper) by names of parameters, got {shortly(design)}")
    refuse_unknown(system, design or (), "design")
    every = UNBOUNDED
    for name, pair in (design or {}).items():
        labels = Sought(system, (name,)).labels
        every += bounds_of(pair, f"design[{name!r}]", tuple(f"parameter {label}" for label in labels))
    return Sought(system, tuple(design or ())), every


def bounds_of(pair: Any, name: str, of: tuple[str, ...], *, may_equal: bool = False) -> Inequalities:
    """Validated bounds of the named values."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name} must be (lower, upper), got {shortly(pair)}")
    ends = [as_float64(b, name, finite=False) for b in pair]
    if invalid := [list(end.shape) for end in ends if end.shape not in ((), (len(of),))]:
        raise ValueError(f"{name} must be numbers, or of shape [{len(of)}], one for each value, got {invalid[0]}")
    lower, upper = (np.broadcast_to(end, (len(of),)) for end in ends)
    if not np.all((lower < upper) | (may_equal & (lower == upper) & np.isfinite(lower))):
        order, advice = "below", ""
        if may_equal:
            order = "below or, where both are finite, equal to"
        elif np.any(lower == upper):
            advice = "; what holds all the time is a constraint of the system"
        raise ValueError(f"{name}: lower must be {order} upper, got {lower} and {upper}{advice}")
    return Inequalities(of, lower, upper, *np.full((2, len(of)), np.nan))

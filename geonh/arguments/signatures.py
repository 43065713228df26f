"""Validation of arguments of public functions by the types in their signatures, with one error message for each type.

Arguments of an unknown type, or of a union of types, are validated by the function itself.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_flag, as_float64, as_names, is_whole, shortly

Args = ParamSpec("Args")
Out = TypeVar("Out")


def judged(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorator for a public function: arguments whose type contradicts the signature are refused by name.

    Single numbers of other types (of xarray, decimals, fractions, arrays without axes) become floats, so that the
    function can compute with them as it stands.

    Raises
    ------
    TypeError
        When called with an argument of another type.
    ValueError
        When called with a number that is not finite.
    """
    parameters = inspect.signature(function).parameters.values()
    judges = {p.name: (judge, p.default) for p in parameters if (judge := _judge_of(str(p.annotation)))}
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        def validated(name: str, value: Any) -> Any:
            judge, default = judges.get(name, (None, None))
            if judge is None or value is default:
                return value
            result = judge(value, name)
            return result if judge in (_number, _text, as_flag) else value

        given: Any = [validated(name, value) for name, value in zip(places, args, strict=False)] + [
            *args[len(places) :]
        ]
        named: Any = {name: validated(name, value) for name, value in kwargs.items()}
        return function(*given, **named)  # Python itself reports missing or surplus arguments

    return wrapper


def argument_type(kind: type) -> type:
    """Decorator for a class that signatures name: arguments are checked to be its instances."""
    _CLASSES[kind.__name__] = kind
    return kind


_CLASSES: dict[str, type] = {}


def _judge_of(annotation: str) -> Callable[[Any, str], Any] | None:
    """Validator of one type, possibly optional; None if unknown."""
    annotation = annotation.removesuffix(" | None")
    bare = annotation
    while (inner := re.sub(r"\[[^][]*\]", "", bare)) != bare:
        bare = inner
    return JUDGES.get(annotation) or JUDGES.get(bare)


def _instance(name: str, words: str) -> Callable[[Any, str], None]:
    """Validator of instances of an ``argument_type``; a class that was not imported yet has none."""

    def judge(value: Any, argument: str) -> None:
        if not isinstance(value, _CLASSES.get(name, ())):
            raise TypeError(f"{argument} must be {words}, got {shortly(value)}")

    return judge


def _each(judge_of_one: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    """Validator of the entries of a list or a mapping."""

    def judge(value: Any, argument: str) -> None:
        if not isinstance(value, list | tuple | Mapping):
            raise TypeError(f"{argument} must be a list or a mapping, got {shortly(value)}")
        for key in value if isinstance(value, Mapping) else range(len(value)):
            judge_of_one(value[key], f"{argument}[{key!r}]")

    return judge


def _function(value: Any, name: str) -> None:
    if not callable(value) and not isinstance(value, _CLASSES.get("TimeDependent", ())):
        raise TypeError(f"{name} must be a function, got {shortly(value)}")


def _whole(value: Any, name: str) -> None:
    if not is_whole(value):
        raise TypeError(f"{name} must be an integer, got {shortly(value)}")
    if abs(int(value)) >= 2**53:
        raise ValueError(f"{name} must be an integer below 2^53, got {shortly(value)}")


def _number(value: Any, name: str) -> Any:
    if is_traced(value):
        return value
    number = as_float64(value, name, ())
    return value if isinstance(value, int | float | np.number) else float(number)


def _array(value: Any, name: str) -> None:
    if not is_traced(value):
        as_float64(value, name)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shortly(value)}")
    return str(value)


def _mapping(value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {shortly(value)}")


def _sequence(value: Any, name: str) -> None:
    listed = hasattr(value, "__len__") and hasattr(value, "__getitem__") and getattr(value, "ndim", 1) != 0
    if isinstance(value, str | bytes | Mapping | type) or not listed:
        raise TypeError(f"{name} must be a list, got {shortly(value)}")


JUDGES: dict[str, Callable[[Any, str], Any]] = {
    "System": _instance("System", "a geonh System"),
    "LagrangianSystem": _instance("System", "a geonh System"),
    "Trajectory": _instance("Trajectory", "a geonh Trajectory"),
    "Integrator": _instance("Integrator", "an integrator such as geonh.GNI()"),
    "Ensemble": _instance("Ensemble", "an Ensemble, made by solve_ensemble"),
    "LieGroup": _instance("LieGroup", "a geonh LieGroup, such as geonh.groups.SE2()"),
    "Support": _instance("Support", "a support such as geonh.rolling.ball(1.0)"),
    "PlanarBody": _instance("PlanarBody", "a PlanarBody, made by planar_body or trailer"),
    "PeriodicOrbit": _instance("PeriodicOrbit", "one that periodic_orbit found"),
    "Sequence[Wheel]": _each(_instance("Wheel", "a Wheel, made by wheel or knife_edge")),
    "Sequence[PlanarBody]": _each(_instance("PlanarBody", "a PlanarBody, made by trailer")),
    "Sequence[Convergence]": _each(_instance("Convergence", "a result of convergence")),
    "Mapping[str, Section]": _each(_instance("Section", "a section of poincare_section")),
    "Mapping[str, Callable]": _each(_function),
    "Array": _array,
    "Callable": _function,
    "Generators": _function,
    "SymmetrySection": _function,
    "Mapping": _mapping,
    "Sequence": _sequence,
    "Sequence[str]": as_names,
    "str | os.PathLike": checked_path,
    "bool": as_flag,
    "int": _whole,
    "float": _number,
    "str": _text,
}
"""Validators of values other than None, by type annotation."""

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

from geonh.arguments.foreign import raise_named
from geonh.arguments.paths import checked_path
from geonh.arguments.precision import UNTRACEABLE, is_traced
from geonh.arguments.validators import as_flag, as_float64, as_names, as_text, close, entries, is_whole, shortly

Args = ParamSpec("Args")
Out = TypeVar("Out")


def validated(function: Callable[Args, Out]) -> Callable[Args, Out]:
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
    judges = {p.name: (judge, p.default) for p in parameters if (judge := judge_of(str(p.annotation)))}
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    refuse_surplus = surplus_refused(function)

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        def validated(name: str, value: Any) -> Any:
            judge, default = judges.get(name, (None, None))
            if judge is None or value is default:
                return value
            result = judge(value, name)
            return result if judge in (_number, as_text, as_flag) else value

        refuse_surplus(args, kwargs)
        given: Any = [validated(name, value) for name, value in zip(places, args, strict=False)] + [
            *args[len(places) :]
        ]
        named: Any = {name: validated(name, value) for name, value in kwargs.items()}
        try:
            return function(*given, **named)  # Python itself reports missing arguments
        except Exception as error:
            raise_named(error, function.__name__, places, args, kwargs)
            raise

    return wrapper


def named(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorator for a public function: surplus arguments are refused with what to write instead."""
    refuse_surplus, places = surplus_refused(function), list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        refuse_surplus(args, kwargs)
        try:
            return function(*args, **kwargs)
        except UNTRACEABLE as error:
            raise_named(error, function.__name__, places, args, kwargs)
            raise

    return wrapper


def surplus_refused(function: Callable) -> Callable[[tuple, Mapping[str, Any]], None]:
    """Function of (args, kwargs) that raises TypeError for arguments that a function has not, with what to write."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters]
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    kinds, called = {p.kind for p in parameters}, function.__qualname__.rpartition("<locals>.")[2]
    bound = "self" in names[:1] or "cls" in names[:1]

    def refuse(args: tuple, kwargs: Mapping[str, Any]) -> None:
        if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
            rest = ", ".join(f"{name}=…" for name in names[len(places) :][:3])
            by_place = ", ".join(places[bound:]) or "no argument"
            others = f"; the others by name: {rest}, …" if rest else f", got {len(args) - bound}"
            raise TypeError(f"{called}() takes {by_place} by position{others}")
        for name in kwargs if inspect.Parameter.VAR_KEYWORD not in kinds else ():
            if name not in names:
                raise TypeError(f"{called}() has no argument {name!r}{_advice(name, names)}")

    return refuse


def _advice(name: str, names: list[str]) -> str:
    """Advice on an argument that a function has not."""
    if "n_steps" in names:
        for words, advice in RUNS.items():
            if name in words.split() and (advice in names or " " in advice):
                return f": write {advice}=" if advice in names else f": {advice}"
    few = len(names) <= 6
    return close(name, names) or (f"; it has {', '.join(names)}" if few and names else "")


RUNS = {
    "h step stepsize step_size timestep time_step delta_t first_step dt0": "dt",
    "max_step dtmax": "it is an option of the method, Adaptive(RKMK(8), tolerance, max_step=…)",
    "stepsize_controller controller": "tolerance",
    "max_steps max_num_steps": "a run ends at t_end, however many steps lead there",
    "dense_output": "every run has it, as run(t)",
    "N n steps nsteps num_steps n_step number_of_steps": "n_steps",
    "integrator solver scheme": "method",
    "u control": "controls",
    "v0 u0 qdot0 xi velocity velocity0": "xi0",
    "g q0": "g0",
    "event": "events",
    "threads": "one run is computed by one thread; solve_ensemble and Sweep have threads=",
    "x0 y0 z0 initial state": "the start is g0, a point of the group, and xi0, the velocity g⁻¹ġ",
    "p0 momentum": "the start is g0 and xi0; system.velocity(system.at(g0), p0) is the velocity of a momentum",
    "parameters params args": (
        "parameters are those of the system, System(parameters=…); solve_ensemble takes some for each member"
    ),
    "store": "stream(…, store=…) writes one run to a store, Sweep.of(…).run(store) many; solve has checkpoint=",
    "checkpoint": "solve writes a file of the run so far; the stores of stream and Sweep are continued as they are",
    "event events": "events are located by solve, solve_ensemble and stream, not within a JAX transformation",
    "throw": "no error is raised when a run fails: see status",
    "progress": "within a JAX transformation there is no progress to show",
    "observables": "observables are computed from the nodes when they are read, such as run.energy",
    "statistics members seed project combine most_events": "this is an argument of solve_ensemble and Sweep.of",
    "rtol atol tol": "tolerance",
    "rtol atol tol tolerance": (
        "steps are of length dt; a smaller dt or a method of higher order is more accurate, and solve has tolerance="
    ),
    "t_span tspan t1 tf t_final T": "t_end",
    "saveat": "t_eval",
    "t_span tspan t_end t1 tf t_final T duration t_eval saveat": (
        "a run makes n_steps steps of length dt from t0 on, and saves each node, or every save_every-th"
    ),
}
"""Advice on arguments of other libraries, and of other runs, by their names: an argument, or a sentence."""


def argument_type(kind: type) -> type:
    """Decorator for a class that signatures name: arguments are checked to be instances of one of that name."""
    _CLASSES[kind.__name__] = (*_CLASSES.get(kind.__name__, ()), kind)
    return kind


_CLASSES: dict[str, tuple[type, ...]] = {}


def judge_of(annotation: str, judges: Mapping[str, Callable] | None = None) -> Callable[[Any, str], Any] | None:
    """Validator of one type, possibly optional, of ``JUDGES`` or others; None if unknown."""
    judges = JUDGES if judges is None else judges
    annotation = annotation.removesuffix(" | None")
    bare = annotation
    while (inner := re.sub(r"\[[^][]*\]", "", bare)) != bare:
        bare = inner
    return judges.get(annotation) or judges.get(bare)


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
    if is_traced(**{name: value}):
        return value
    number = as_float64(value, name, ())
    return value if isinstance(value, int | float | np.integer) else float(number)


def _array(value: Any, name: str) -> None:
    if not is_traced(**{name: value}):
        as_float64(value, name)


def _slice(value: Any, name: str) -> None:
    if not isinstance(value, slice) or not all(part is None or is_whole(part) for part in (value.start, value.stop)):
        raise TypeError(f"{name} must be a slice of nodes, such as slice(0, 10), got {shortly(value)}")


def _mapping(value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {shortly(value)}")


def _sequence(value: Any, name: str) -> None:
    listed = hasattr(value, "__len__") and hasattr(value, "__getitem__") and getattr(value, "ndim", 1) != 0
    listed = listed and entries(value) is not None
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | type) or not listed:
        raise TypeError(f"{name} must be a list, got {shortly(value)}")


OBJECTS: dict[str, Callable[[Any, str], None]] = {
    "System": _instance("System", "a geonh System"),
    "ConstrainedSystem": _instance("System", "a geonh System"),
    "Trajectory": _instance("Trajectory", "a geonh Trajectory"),
    "Integrator": _instance("Integrator", "an integrator such as geonh.GNI()"),
    "Ensemble": _instance("Ensemble", "an Ensemble, made by solve_ensemble"),
    "Clock": _instance("Clock", "a Clock of geonh.integrators"),
    "State": _instance("State", "a State of geonh.integrators"),
    "LieGroup": _instance("LieGroup", "a geonh LieGroup, such as geonh.groups.SE2()"),
    "Support": _instance("Support", "a support such as geonh.rolling.ball(1.0)"),
    "TreeSystem": _instance("TreeSystem", "a system of geonh.bodies.tree or from_file"),
    "PlanarBody": _instance("PlanarBody", "a PlanarBody, made by planar_body or trailer"),
    "PeriodicOrbit": _instance("PeriodicOrbit", "one that periodic_orbit found"),
    "Callable": _function,
}
"""Validators of objects and functions, by type annotation."""
JUDGES: dict[str, Callable[[Any, str], Any]] = {
    **OBJECTS,
    "Sequence[Wheel]": _each(_instance("Wheel", "a Wheel, made by wheel or knife_edge")),
    "Sequence[PlanarBody]": _each(_instance("PlanarBody", "a PlanarBody, made by trailer")),
    "Sequence[Convergence]": _each(_instance("Convergence", "a result of convergence")),
    "Mapping[str, Section]": _each(_instance("Section", "a section of poincare_section")),
    "Mapping[str, Callable]": _each(_function),
    "Array": _array,
    "Generators": _function,
    "SymmetrySection": _function,
    "Mapping": _mapping,
    "Sequence": _sequence,
    "slice": _slice,
    "Sequence[str]": as_names,
    "str | os.PathLike": checked_path,
    "bool": as_flag,
    "int": _whole,
    "float": _number,
    "str": as_text,
}
"""Validators of values other than None, by type annotation."""

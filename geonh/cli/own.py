"""User-defined systems, ``FILE.py:NAME``, used like those of the catalogue.

NAME is a ``System`` or ``Modes``, or a function that returns one, with keywords set by ``--set``. The file may also
define the start of a run, by variables of these names: ``xi0`` and ``g0`` (or functions of the system), ``mode``,
``dt``, ``n_steps``, ``method``, ``controls``.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import equinox as eqx
import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.validators import as_float64, close
from geonh.cli.console import message_of, refuse, value_text
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.modes import Modes
from geonh.systems import Entry
from geonh.systems.entry import Start


def is_user_file(word: str) -> bool:
    """True if the argument names a user's file rather than an entry of the catalogue."""
    return word.endswith(".py") or ".py:" in word


def user_entry(word: str) -> Entry:
    """Catalogue entry for ``FILE.py:NAME``; executes the file."""
    text, _, name = word.rpartition(":") if ".py:" in word else (word, "", "")
    try:
        path = checked_path(text).expanduser()
        exists = path.is_file()
    except (ValueError, RuntimeError, OSError) as error:
        refuse(f"{text!r}: {error}")
    if not exists:
        refuse(f"there is no file {text}")
    module = _run(path)
    systems = [key for key, value in vars(module).items() if _may_be_system(key, value, module)]
    if not name:
        refuse(f"which system of {text}? Write {text}:NAME" + (f" with one of {', '.join(systems)}" if systems else ""))
    definition = getattr(module, name, None)
    if not isinstance(definition, System | Modes) and not callable(definition):
        what = "is no System or Modes, and no function that returns one" if hasattr(module, name) else "is not there"
        refuse(f"{text}: {name} {what}{close(name, systems)}")
    if isinstance(definition, System | Modes):
        build = _rebuilding(definition)
    else:
        build = _checked_function(definition, name, path)
    kinds = str | Integrator | None
    return Entry(
        name=name,
        build=build,
        title=f"{name} of {path.name}",
        constraints="as in the file",
        conserved={},
        source=str(path),
        start=lambda system: Start(*(_value(module, key, system, path) for key in ("g0", "xi0"))),
        dt=_variable(module, path, "dt", 0.01, int | float, "a number like 0.01"),
        n_steps=_variable(module, path, "n_steps", 1000, int, "a number like 1000"),
        method=_variable(module, path, "method", None, kinds, "the name of a method or an integrator"),
        controls=getattr(module, "controls", None),
        mode=_variable(module, path, "mode", None, str | None, "the name of a mode"),
    )


def _run(path: Path) -> ModuleType:
    """Execute the file as a module, with its folder first on the import path, as ``python FILE.py`` does."""
    name = f"geonh_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        refuse(f"{path} cannot be run as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        _user_error(error, path)
    return module


def _user_error(error: BaseException, path: Path, more: str = "") -> NoReturn:
    """Report an error in a user's file, with its line."""
    line = error.lineno if isinstance(error, SyntaxError) else line_of_error(error, path)
    where = f"{path}, line {line}" if line else str(path)
    refuse(f"{where}: {type(error).__name__}: {message_of(error)}{more}")


def line_of_error(error: BaseException | None, path: Path) -> int | None:
    """Line of a file in which an error or its cause arose, the innermost; None if it did not pass through the file."""
    full, line = path.resolve(), None
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == full]
        line, error = lines[-1] if lines else line, error.__cause__
    return line


def _may_be_system(key: str, value: Any, module: ModuleType) -> bool:
    if isinstance(value, System | Modes):
        return True
    return inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")


def _rebuilding(system: System | Modes) -> Callable[..., Any]:
    """Function from the parameters of a system, or of modes, to it."""
    known = {key: value for one in systems_of(system) for key, value in one.parameters.items()}

    def build(**parameters: Any) -> System | Modes:
        if not parameters:
            return system
        new = {key: as_float64(value, f"--set {key}") for key, value in parameters.items()}
        for key, array in new.items():
            default = known[key]
            try:
                shape = np.asarray(default, np.float64).shape
            except (TypeError, ValueError):
                refuse(f"--set {key}=…: {key} is a {type(default).__name__}, not numbers: change it in the file")
            if array.shape != shape:
                refuse(f"--set {key}=…: {key} is of shape {list(shape)}, not {list(array.shape)}")
        if isinstance(system, Modes):
            return system.with_parameters(**new)
        new = {key: a.tolist() if isinstance(known[key], list) else a for key, a in new.items()}
        return eqx.tree_at(lambda s: s.parameters, system, {**system.parameters, **new})

    keywords = [
        inspect.Parameter(str(key), inspect.Parameter.KEYWORD_ONLY, default=value)
        for key, value in known.items()
        if str(key).isidentifier()
    ]
    build.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return build


def _checked_function(function: Callable, name: str, path: Path) -> Callable[..., Any]:
    """User's function, with a check that it returns a system."""
    named = inspect.signature(function).parameters.items()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    required = [key for key, p in named if p.default is p.empty and p.kind in kinds]

    @functools.wraps(function)
    def build(**parameters: Any) -> System | Modes:
        missing = [key for key in required if key not in parameters]
        if missing:
            options = " ".join(f"--set {key}=…" for key in missing)
            refuse(f"{path}: {name}() has no value for {', '.join(missing)}: give {options}")
        try:
            system = function(**parameters)
        except (Exception, SystemExit) as error:
            given = ", ".join(f"--set {key}={value_text(value)}" for key, value in parameters.items())
            _user_error(error, path, f" (in {name}(), with {given})" if given else f" (in {name}())")
        if not isinstance(system, System | Modes):
            refuse(f"{path}: {name}() returned {type(system).__name__}, not a System or Modes")
        return system

    return build


def systems_of(system: System | Modes) -> tuple[System, ...]:
    """The systems of modes, or the one."""
    return system.systems if isinstance(system, Modes) else (system,)


def _value(module: ModuleType, key: str, system: System | Modes, path: Path) -> Any:
    """Start of a user's file, checked for the system; None if there is none."""
    value = getattr(module, key, None)
    try:
        value = value(system) if callable(value) else value
        if value is None:
            return None
        first = systems_of(system)[0]
        return first.point(value) if key == "g0" else as_float64(value, key, (first.group.dim,))
    except (Exception, SystemExit) as error:
        _user_error(error, path, f" (in {key}())")


def _variable(module: ModuleType, path: Path, key: str, default: Any, kinds: Any, what: str) -> Any:
    """Variable of a user's file, of one of the given types."""
    value = getattr(module, key, default)
    if not isinstance(value, kinds) or isinstance(value, bool):
        refuse(f"{path}: {key} must be {what}, got {value!r}")
    return value

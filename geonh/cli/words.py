"""Parsing of command-line arguments; an invalid one ends the program with a line that states the valid ones."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from inspect import Parameter
from pathlib import Path
from typing import Any

import numpy as np

from geonh.arguments.paths import FileError, checked_path
from geonh.arguments.validators import close
from geonh.cli.console import refuse
from geonh.cli.options import RETRACTIONS, RULES
from geonh.cli.own import is_user_file, user_entry
from geonh.cli.robots import is_robot_file, robot_entry
from geonh.integrators.base import Integrator
from geonh.integrators.registry import DEFAULT, method_of, methods
from geonh.mechanics.system import System
from geonh.results.formats import DEFAULT_SUFFIX, FORMATS, NAMES, check_destination
from geonh.results.record import unflatten
from geonh.results.trajectory import Trajectory, describe
from geonh.systems import Entry, catalogue


def entry_of(name: str) -> Entry:
    """Catalogue entry of a name, ignoring underscores and case, of a user's own ``FILE.py:NAME`` or a robot's file."""
    if is_user_file(name):
        return user_entry(name)
    if is_robot_file(name):
        return robot_entry(name)
    entry = catalogue.get(name) or catalogue.get(name.lower().replace("_", "-"))
    if entry is None:
        refuse(f"no system {name!r} in the catalogue{close(name, catalogue) or '; geonh list names them all'}")
    return entry


def parameters_of(entry: Entry, assignments: Iterable[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key or not text.strip():
            refuse(f"--set takes NAME=VALUE, got {assignment!r}")
        if key not in entry.parameters:
            names = list(entry.parameters)
            hint = close(key, names) or (f"; it has {', '.join(names)}" if names else "; it has none")
            refuse(f"{entry.name} has no parameter {key!r}{hint}")
        if key in parameters:
            refuse(f"--set {key} is given twice")
        parameters[key] = _value(text.strip(), f"--set {key}=…: {key}", entry.defaults.get(key))
    return parameters


def _value(text: str, key: str, default: Any) -> Any:
    """Parse the value of a parameter, with the type of its default."""
    if isinstance(default, bool):
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        return words[text.lower()] if text.lower() in words else refuse(f"{key} must be true or false, got {text!r}")
    if isinstance(default, str):
        return text
    if ";" in text or text.replace(" ", "").startswith("[["):
        return matrix(text, key)
    if default is None or default is Parameter.empty:
        return floats(text, key, None) if "," in text else floats(text, key, 1)[0]
    if np.ndim(default) == 0:
        return floats(text, key, 1)[0]
    if np.ndim(default) == 2:  # row by row, as it is printed
        return tuple(map(tuple, np.reshape(floats(text, key, np.size(default)), np.shape(default)).tolist()))
    return tuple(floats(text, key, len(default)))


def matrix(text: str, name: str) -> tuple[tuple[float, ...], ...]:
    """Parse a matrix from "1,0;0,2" or "[[1,0],[0,2]]"."""
    rows = [tuple(floats(row, name, None)) for row in re.split(r";|\]\s*,\s*\[", text.strip("()[] "))]
    if len({len(row) for row in rows}) > 1:
        refuse(
            f"{name}: the rows of a matrix are of one length, got {', '.join(str(len(row)) for row in rows)}: {text}"
        )
    return tuple(rows)


def point(text: str, system: System) -> Any:
    """Parse a group element from its coordinates, in order."""
    group = system.group
    values = floats(text, f"--g0 ({', '.join(group.point_names)})", len(group.point_names))
    return unflatten(np.array(values), [list(s) for s in group.point_shapes], isinstance(group.identity(), tuple))


def floats(text: str, name: str, count: int | None) -> list[float]:
    values = []
    for part in text.strip("()[] ").split(","):
        try:
            values.append(float(part))
        except ValueError:
            refuse(f"{name} takes numbers separated by commas, got {part.strip()!r} in {text!r}")
    if count is not None and len(values) != count:
        refuse(f"{name} takes {count} number{'s' if count > 1 else ''}, got {len(values)}: {text}")
    return values


def integrator_of(name: str | Integrator | None, **options: str | None) -> Integrator | None:
    """Integrator for command-line options, or None for the default; a user's file may supply an instance."""
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(name, Integrator):
        for key in given:
            refuse(f"--{key} goes with --method NAME; the file has {describe(name)}")
        return name
    if name is None:
        if not given:
            return None
        name = DEFAULT
    for key, choices in (("rule", RULES), ("retraction", RETRACTIONS)):
        if key in given and name in methods:
            if key not in methods[name].options:
                refuse(f"--{key} is not for the method {name}")
            if given[key] not in choices:
                refuse(f"--{key} must be one of {', '.join(choices)}, got {given[key]!r}")
    try:
        return method_of(name, **given)
    except ValueError as error:
        refuse(f"{error} (geonh methods lists them)")


def destination(text: str, name: str) -> tuple[Path, Path]:
    """Paths of data file and figure from ``--out``: a file, or a folder, which is made."""
    path = path_of(text, "--out")
    is_file = path.suffix != "" and path.suffix in FORMATS
    if not is_file and path.suffix[1:].isalpha() and not text.endswith("/") and not path.is_dir():
        refuse(f"--out {text} is neither a file of {NAMES} nor a folder; for a folder of that name write {text}/")
    data = path if is_file else path / f"{name}{DEFAULT_SUFFIX}"
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"--out {text} cannot be written: {error.strerror or error}")
    return data, figure_beside(data)


def figure_beside(data: Path) -> Path:
    """Path of the figure beside a data file; both can be written there."""
    picture = data.with_suffix(".png")
    try:
        check_destination(data)
    except (OSError, FileError) as error:
        refuse(f"--out {getattr(error, 'strerror', None) or error}")
    if picture.is_dir():
        refuse(f"--out {data}: {picture} is a directory")
    return picture


def path_of(text: str, option: str) -> Path:
    """Path given by a user."""
    try:
        text.encode()
        path = checked_path(text).expanduser()
        os.fspath(path)
    except UnicodeEncodeError:
        refuse(f"{option} is not text")
    except (ValueError, RuntimeError) as error:
        refuse(f"{option} {text!r}: {error}")
    return path


def method_in(file: Trajectory) -> Integrator:
    """Method of a file, found among all methods and options that ``geonh run`` takes."""
    for method in methods.values():
        choices = {"rule": (None, *RULES), "retraction": (None, *RETRACTIONS)}
        options = [key for key in choices if key in method.options]
        for values in itertools.product(*(choices[key] for key in options)):
            integrator = method.make(
                **{k: value for k, value in zip(options, values, strict=True) if value is not None}
            )
            if describe(integrator) == file.attributes["method"]:
                return integrator
    refuse(f"the file was made by {file.attributes['method']}, which has no name here: go on from it with gn.resume")

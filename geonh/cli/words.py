"""What a user's words mean; a wrong one ends the program with a line that says what is right."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from geonh.cli.console import close, wrong
from geonh.integrators.base import Integrator
from geonh.integrators.registry import method_of, methods
from geonh.systems import Entry, catalogue

RULES = ("trapezoid", "midpoint", "left", "right")
RETRACTIONS = ("auto", "cayley", "exp")


def entry_of(name: str) -> Entry:
    """Entry of a name; underscores and capitals are forgiven."""
    found = catalogue.get(name) or catalogue.get(name.lower().replace("_", "-"))
    if found is None:
        wrong(f"no system {name!r} in the catalogue{close(name, catalogue) or '; geonh list names them all'}")
    return found


def parameters_of(entry: Entry, assignments: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key or not text.strip():
            wrong(f"--set takes NAME=VALUE, got {assignment!r}")
        if key not in entry.parameters:
            names = list(entry.parameters)
            hint = close(key, names) or (f"; it has {', '.join(names)}" if names else "; it has none")
            wrong(f"{entry.name} has no parameter {key!r}{hint}")
        if key in found:
            wrong(f"--set {key} is given twice")
        found[key] = _value(text.strip(), key, entry.defaults.get(key))
    return found


def _value(text: str, key: str, default: Any) -> Any:
    """A parameter's value, of the kind of its default."""
    if isinstance(default, bool):
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        return words[text.lower()] if text.lower() in words else wrong(f"{key} must be true or false, got {text!r}")
    if isinstance(default, str):
        return text
    if default is None:
        return floats(text, key, None) if "," in text else floats(text, key, 1)[0]
    if isinstance(default, int | float):
        return floats(text, key, 1)[0]
    return tuple(floats(text, key, len(default)))


def floats(text: str, name: str, count: int | None) -> list[float]:
    parts = [part.strip() for part in text.strip("()[] ").split(",")]
    try:
        values = [float(part) for part in parts]
    except ValueError:
        bad = next(part for part in parts if not _is_float(part))
        wrong(f"{name} takes numbers separated by commas, got {bad!r} in {text!r}")
    if count is not None and len(values) != count:
        wrong(f"{name} takes {count} number{'s' if count > 1 else ''}, got {len(values)}: {text}")
    return values


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def integrator_of(name: str, **options: str | None) -> Integrator:
    """The integrator that the words of a user mean."""
    given = {key: value for key, value in options.items() if value is not None}
    for key, words in (("rule", RULES), ("retraction", RETRACTIONS)):
        if key in given and name in methods:
            if key not in methods[name].options:
                wrong(f"--{key} is not for the method {name}")
            _known(key, given[key], words)
    try:
        return method_of(name, **given)
    except ValueError as error:
        wrong(f"{error} (geonh methods lists them)")


def _known(option: str, word: str, words: Iterable[str]) -> None:
    if word not in words:
        wrong(f"--{option} must be one of {', '.join(words)}, got {word!r}")


def destination(text: str, name: str) -> tuple[Path, Path]:
    """Data file and figure, in a directory that exists and can be written to."""
    path = Path(text).expanduser()
    data = path if path.suffix == ".nc" else path / f"{name}.nc"
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        probe = data.with_name(data.name + ".part")
        probe.touch()
        probe.unlink()
        if data.is_dir():
            wrong(f"--out {text}: {data} is a directory")
    except OSError as error:
        wrong(f"--out {text} cannot be written: {error.strerror or error}")
    return data, data.with_suffix(".png")

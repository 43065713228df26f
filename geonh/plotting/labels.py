"""Display names of components: symbols, units, and short descriptions of methods.

A trajectory from a file has names only, so all functions here work on names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from geonh._former_paths import former_names
from geonh.integrators.registry import methods
from geonh.results.trajectory import describe, with_reason
from geonh.units import known_units

GREEK = {
    "theta": r"\theta",
    "phi": r"\varphi",
    "psi": r"\psi",
    "omega": r"\omega",
    "alpha": r"\alpha",
    "beta": r"\beta",
    "gamma": r"\gamma",
    "delta": r"\delta",
    "chi": r"\chi",
}
UNICODE = dict(zip(GREEK, "θφψωαβγδχ", strict=True))
_LOW = str.maketrans("0123456789xyz", "₀₁₂₃₄₅₆₇₈₉ₓᵧ" + "z")
_NAME = re.compile(rf"^({'|'.join(GREEK)}|[vxyz])(?:([xyz]\d*)|_?(\d+)|_([A-Z]))?(_dot)?(?:_(\d+))?$")
_VARIABLE = re.compile(r"\w+\(method=(.*), sizes=.*, tolerance=([^,)]+)")
"""Method and tolerance of steps of variable length."""
_OPTIONS = re.compile(r"(retraction|newton)=\w+(\([^()]*\))?(, )?")
"""Options of a method's description that its name leaves open."""
_RULES = {
    "LeftRectangle": "left rectangle rule",
    "RightRectangle": "right rectangle rule",
    "Trapezoid": "trapezoid rule",
    "Midpoint": "midpoint rule",
    "UserDiscreteLagrangian": "a discrete Lagrangian of the user",
}


def symbol(name: str) -> str:
    """Symbol of a component in mathtext if its name is known, else the name."""
    match = _NAME.match(name)
    if not match:
        return name
    letter, axis, index, of, dot, factor = match.groups()
    text = GREEK.get(letter, letter)
    text = rf"\dot{{{text}}}" if dot else text
    subscript = "".join(part for part in (axis, index, of, factor and f"({factor})") if part)
    return f"${text}_{{{subscript}}}$" if subscript else f"${text}$"


def plain(name: str) -> str:
    """Symbol of a component in plain text if its name is known, else the name."""
    match = _NAME.match(name)
    if not match:
        return name
    letter, axis, index, of, dot, factor = match.groups()
    text = UNICODE.get(letter, letter) + ("\u0307" if dot else "")
    return text + "".join(part.translate(_LOW) for part in (axis, index, of and f"_{of}", factor) if part)


def component_units(
    point_names: Sequence[str], velocity_names: Sequence[str], declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Unit of each coordinate and velocity; "" if it has none."""
    known = known_units({"point_names": point_names, "velocity_names": velocity_names, "units": declared or {}})
    return {name: known.get(name, "") for name in (*velocity_names, *point_names)}


class Units(NamedTuple):
    """Units of a run in figures: time, lengths in space, energy, and constraint forces; "" if unknown."""

    time: str
    length: str
    energy: str
    force: str
    moment: str
    angular_momentum: str


def units_of(trajectory: Any) -> Units:
    """Declared units of a run, and those that follow from them; else SI units."""
    a = trajectory.attributes
    known, places = known_units(a), path_names(list(a["point_names"]))
    time, energy = known["time"], known["energy"]
    lengths = {known.get(name, "m") for name in places} or {"m"}
    length = lengths.pop() if len(lengths) == 1 else ""
    joules = energy == "J"
    force = "N" if joules and length == "m" else f"{energy}/{length}" if length else ""
    angular = "kg m²/s" if joules and time == "s" else f"{energy} {time}"
    return Units(time, length, energy, force, "N m" if joules else energy, angular)


def with_unit(name: str, unit: str) -> str:
    """Label with a unit, for instance "time (s)"."""
    return f"{name} ({unit})" if unit else name


def path_names(point_names: list[str]) -> list[str]:
    """Names of the coordinates of a point that moves in the plane or in space: x, y and optionally z; else none."""
    for prefix in dict.fromkeys(["", *(name[:-1] for name in point_names if name.endswith("_x"))]):
        names = [prefix + axis for axis in "xyz" if prefix + axis in point_names]
        if names[:2] == [prefix + "x", prefix + "y"]:
            return names
    return []


def method_in_words(trajectory: Any) -> str:
    """Method of a run, with the reason for it, as "gauss4 (the default)"."""
    a = trajectory.attributes
    return with_reason(named_method(str(a["method"])), a["method_reason"])


def named_method(text: str) -> str:
    """Method of a description by its name in ``geonh.methods``, as "gauss4" or "rkmk8, tolerance 1e-08"; else by its
    class and options, as "Composition, left rectangle rule".
    """
    tolerance = ""
    if variable := _VARIABLE.match(text):
        text, tolerance = variable.groups()
    name = _registered().get(_OPTIONS.sub("", text))
    words = [name or text.split("(")[0]]
    rule = re.search(r"rule=(\w+)", text)
    if rule and not name:
        words.append(_RULES.get(rule.group(1), rule.group(1)))
    retraction = re.search(r"retraction=(\w+)", text)
    if retraction and retraction.group(1) != "None":
        words.append({"Exponential": "exp"}.get(retraction.group(1), retraction.group(1)) + " retraction")
    stages = re.search(r"stages=(\d)", text)
    if stages and not name:
        words.insert(1, f"{stages.group(1)} stages")
    if tolerance:
        words.append(f"tolerance {tolerance}")
    return ", ".join(words)


@functools.cache
def _registered() -> dict[str, str]:
    """Names of methods by their descriptions, without what goes with any of them."""
    return {_OPTIONS.sub("", describe(method.make())): name for name, method in methods.items()}


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)

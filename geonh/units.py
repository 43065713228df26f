"""Units of the data of a trajectory, for labelled outputs: declared by the user, or derived from these.

Units are SI unless the user says otherwise: time is in seconds, energy in joules, an angle in radians, and a coordinate
x, y or z with a velocity vx, vy or vz, or v1, v2 or v3 on SE(3), in metres. A rate has the unit of its coordinate
divided by that of time, a momentum that of energy by that of its velocity. Others have none: nothing else is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def declared_units(units: Any, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Validate a user's units by name; TypeError or ValueError if they are not a mapping of text to text, or a name is
    unknown.
    """
    if units is None:
        return ()
    if not isinstance(units, Mapping) or not all(isinstance(text, str) for pair in units.items() for text in pair):
        raise TypeError(f"units must be a mapping such as {{'x': 'm'}}, got {units!r}")
    for name, unit in units.items():
        if not unit.isprintable():
            raise ValueError(f"units: that of {name!r} has characters that cannot be printed: {unit!r}")
    unknown = [name for name in units if name not in names]
    if unknown:
        raise ValueError(f"units: there is no {unknown[0]!r}; there are {', '.join(names)}")
    return tuple(units.items())


def known_units(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Unit of each name that has one: coordinates, velocities, "time", "energy", momenta as ``p_NAME``.

    The only source of units, of tables, files and figures alike.
    """
    declared, angles = attributes["units"], angle_names(attributes["point_names"], attributes["velocity_names"])
    units = {"time": "s", "energy": "J", **dict.fromkeys(angles, "rad")}
    moving = [name for name in attributes["velocity_names"] if _LENGTH.search(name) and name not in declared]
    units |= {place: "m" for place in map(_coordinate_of, moving) if place in attributes["point_names"]}
    units |= {name: unit for name, unit in declared.items() if name not in attributes["velocity_names"]}
    for name in attributes["velocity_names"]:
        unit = "rad" if _turns(name) else units.get(_coordinate_of(name), "")
        unit = declared.get(name, f"{unit}/{units['time']}" if unit else "")
        if unit:
            units[name] = unit
            units[f"p_{name}"] = f"{units['energy']}/({unit})"
    return units


def is_energy(observable: str) -> bool:
    """True if an observable of this name has the unit of energy."""
    return observable.startswith(("energy", "kinetic"))


def angle_names(point_names: Sequence[str], velocity_names: Sequence[str]) -> list[str]:
    """Names of the unwrapped angles among the coordinates of a point: of tori, and the θ of SO(2) and SE(2)."""
    turning = {_DOT.sub("", name) for name in velocity_names if _DOT.search(name)}
    return [name for name in point_names if name in turning or re.search(r"theta(_\d+)?$", name)]


_DOT = re.compile(r"_dot(?=(_\d+)?$)")
"""Suffix of the name of a rate on a torus, ``phi_dot``;"""
_V = re.compile(r"(^|(?<=_))v(?=[^_]+(_\d+)?$)")
"""prefix of one on a vector space, ``vx``; a product may add a prefix, and a number at the end."""
_LENGTH = re.compile(r"(^|_)v[xyz123](_\d+)?$")
"""Velocities of lengths,"""
_BODY = re.compile(r"(^|(?<=_))v([123])(?=(_\d+)?$)")
"""and those in the frame of a body, on SE(3)."""


def _coordinate_of(velocity: str) -> str:
    """Name of the coordinate of which a velocity would be the rate; of v1, v2 and v3 the one with the same unit."""
    velocity = _BODY.sub(lambda match: "v" + "xyz"[int(match[2]) - 1], velocity)
    return _DOT.sub("", velocity) if _DOT.search(velocity) else _V.sub("", velocity)


def _turns(velocity: str) -> bool:
    return any(re.fullmatch(r"omega\d?", part) for part in velocity.split("_"))

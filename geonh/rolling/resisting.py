r"""A body in contact that rolls, slides or is free, and whose surface resists rolling and spinning.

With the angular velocity ω relative to the surface, ω_n about its normal and ω_t along it, and the normal force λ_n,

    moment −ρλ_n ω_t/|ω_t|, or ω_t = 0 as long as the moment for that is |m_t| ≤ ρλ_n,
    moment −σλ_n sign ω_n,  or ω_n = 0 as long as |m_n| ≤ σλ_n,

beside friction of the slip: each of the three holds or moves, and is Coulomb's law of its rows. At impacts these
moments have no impulses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.validators import as_float64
from geonh.engine import computed
from geonh.geometry.field import Moment
from geonh.mechanics.system import System
from geonh.results.modes import Modes, Transition
from geonh.rolling.beginnings import BEGINNING
from geonh.rolling.contacts import touch
from geonh.rolling.forces import MODES, RESISTANCE, normal_force
from geonh.rolling.grip import SLIPS, Grip
from geonh.rolling.grips import modes_of
from geonh.rolling.landing import RESTING
from geonh.rolling.rows import tangents
from geonh.rolling.sliding import Landed, coefficients, lands, speeds

NAMES = {tuple(0 if what in held else SLIPS for what in ("slip", "turn", "spin")): name for name, held in MODES.items()}
"""Modes by what moves: slip, rolling, spin."""
ROWS = {"slip": (0, 1), "turn": (2, 3), "spin": (4,)}
"""Places of the rows that hold them, among those of a body at rest."""


def with_resistance(
    systems: Callable[..., System], friction: Any, restitution: float, resistance: Mapping[str, Any], name: str
) -> Modes:
    """Modes of a body; ``systems`` makes a System with its contact at rest, rolling or open, of given parameters, and
    ``resistance`` has arms ρ and σ by the names of their parameters.
    """
    more: dict[str, Any] = coefficients(friction, restitution)
    for key, arm in resistance.items():
        more[key] = float(as_float64(arm, key.replace(" ", "_"), ()))
        if not more[key] >= 0:
            raise ValueError(f"{key.replace(' ', '_')} must be an arm ≥ 0 in metres, got {arm}")
    coefficient = {"slip": "friction", **RESISTANCE}
    taken = [what for what, key in coefficient.items() if key in more]
    places = np.cumsum([0, *(len(ROWS[what]) for what in taken)])
    grips = {}
    for what, begin in zip(taken, places, strict=False):
        key, rows = coefficient[what], tuple(range(begin, begin + len(ROWS[what])))
        static = "static friction" if what == "slip" and "static friction" in more else key
        grips[what] = Grip(rows, static, key, normal_force, None if what == "spin" else _tangents)
    rest = systems("rest", more)
    assert rest.distribution is not None
    kept = [row for what in taken for row in ROWS[what]]
    rest = eqx.tree_at(lambda s: s.distribution, rest, rest.distribution.of_rows(np.eye(5)[kept]))

    def named(states: tuple[int, ...]) -> str:
        return NAMES[tuple(dict(zip(taken, states, strict=True)).get(what, SLIPS) for what in ROWS)]

    modes, transitions = modes_of(rest, grips, named, lambda _: "free")
    free, roll = systems("free", more), systems("roll", more)
    first = {"roll": modes["roll"], "slide": modes["slide"], "free": free}
    transitions.append(Transition("free", lands(roll), _Next(rest, roll, tuple(taken)), Landed(free, roll)))
    return Modes({**first, **modes}, transitions, name=name)


def _tangents(t: Any, x: Any, parameters: Any) -> Array:
    return tangents(touch(t, x, parameters).normal)


class _Next(eqx.Module):
    """Mode of a velocity after an impact: free if it leaves the surface, else by what moves."""

    rest: System
    roll: System
    taken: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Any) -> str:
        away, _ = computed(speeds, self.roll, (t, g, xi))
        if away > RESTING / 2:
            return "free"
        along = np.split(computed(_along, self.rest, (t, g, xi)), np.cumsum([len(ROWS[what]) for what in self.taken]))
        moves = {
            what: SLIPS * bool(np.linalg.norm(w) > BEGINNING / 2) for what, w in zip(self.taken, along, strict=False)
        }
        return NAMES[tuple(moves.get(what, SLIPS) for what in ROWS)]


def _along(rest: System, place: tuple) -> Array:
    t, g, xi = place
    assert rest.distribution is not None
    return rest.distribution.residual(xi, Moment(jnp.asarray(t, float), g), rest.parameters)

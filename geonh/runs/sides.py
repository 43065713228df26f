"""Sides of the zeros of guards without direction on which a motion is.

Such a guard counts as one with the direction from the side where the motion is. After a transition a wall is zero up to
rounding: where its rate changes its sign there, the motion stays on its side, and where not, it passes. A wall of
several modes may have a guard of its own in each: it is known again by its differential.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from geonh.results.events import Event
from geonh.runs.instant import Instant, is_same_instant, rates_of
from geonh.runs.mode_functions import Differentials, Place
from geonh.runs.mode_loop import TINY, ModeLoop

PARALLEL = 1e-9
"""Part of a differential across another one, relative to it, that is rounding."""
CURVED = 1e-3
"""Part of a value that is small by which guards of one wall may differ, which are functions of each other."""
TINIEST = float(np.finfo(float).tiny)


class Crossed(NamedTuple):
    """Guard whose zero was a transition.

    Attributes
    ----------
    loop : ModeLoop
        Loop of the mode before it.
    which : int
        Index of the guard.
    place : Place
        Place before it.
    side : float
        Sign of the guard where the motion was, 0 if it is not known.
    is_moved : bool
        True if the reset changed the place.
    resting : list of int
        Indices of guards that rested at zero.
    """

    loop: ModeLoop
    which: int
    place: Place
    side: float
    is_moved: bool
    resting: list[int]


class Sides:
    """Sides on which a run is, since its last whole step.

    Parameters
    ----------
    n : int
        Number of guards of the mode.

    Attributes
    ----------
    known : dict of int to float
        Signs of the guards of the mode without direction, by the identity of their functions; 0 if it rests at zero.
    there : dict of int to float
        Those of all modes left at the instant of the last transition.
    crossed : Crossed or None
        Guard of the last transition.
    struck : ndarray, shape=[guards]
        True for guards of the mode at the wall of the last transition.
    late : ndarray, shape=[guards]
        Bounds of their values if that transition was late, as in rebounds shorter than a part of a step.
    """

    def __init__(self, n: int = 0) -> None:
        self.known: dict[int, float] = {}
        self.there: dict[int, float] = {}
        self.crossed: Crossed | None = None
        self.struck, self.late = np.zeros(n, bool), np.zeros(n)

    def of(self, guards: Sequence[Event]) -> np.ndarray:
        """Signs of guards of the mode, nan of those with a direction, shape=[guards]."""
        return np.array([self.known.get(one, np.nan) for one in _functions(guards)])

    def cross(self, crossed: Crossed, following: Sequence[Event], overshoot: float) -> None:
        """Go from a zero of a guard to a mode with other guards; past that zero, by ``overshoot``, if it was late."""
        wall, functions = id(crossed.loop.guards[crossed.which].function), _functions(following)
        last = self.crossed
        if last is None or not is_same_instant(float(last.place.t), float(crossed.place.t), crossed.loop.step):
            self.there = {}
        self.there = {} if crossed.is_moved else self.there | self.known
        self.known = {one: side for one, side in self.there.items() if one in functions}
        self.crossed = crossed
        self.struck = np.array([one == wall for one in functions], bool)
        self.late = 2 * overshoot * self.struck

    def take(self, at: Instant, number: int = 0, since: float = np.inf) -> None:
        """Find the sides where a loop begins; its guards without direction count as directed from there.

        A value tells its side that is off zero by more than its rounding and a number of instants after a transition,
        if there was one. Else it is zero, and the side that is known is kept, or found from where the motion came, or
        leads to. Without a transition values are zero that are exactly, or up to rounding if they rest, or change by no
        more in the time ``since`` the last transition, or the beginning of the run.
        """
        loop, n = at.loop, len(at.loop.guards)
        both_ways, values = loop.crosses_both_ways[:n], at.values[:n]
        if not both_ways.any():
            return
        functions = _functions(loop.guards)
        near = both_ways & (np.abs(values) <= TINY)
        if number and near.any():
            bound = np.maximum(np.abs(at.change_within(number)[:n]), at.roundings[1][:n])
            near &= np.abs(values) <= np.maximum(bound, self.late)
        elif not number:
            for i in np.flatnonzero(near & (values != 0)):
                rounding, rate = at.roundings[0][i], abs(at.rates[i])
                rests = at.is_flat(i) and not rate > 0
                near[i] = abs(values[i]) <= rounding and (rests or rate * since <= 2 * rounding)
        came, wall, rested = self._came(at, near, both_ways & (self.struck | (np.abs(values) <= TINY)))
        self.late = np.where((wall != 0) & ~self.struck, 2 * np.abs(values), self.late)
        self.struck |= wall != 0
        near |= wall != 0
        for i in np.flatnonzero(both_ways):
            one = functions[i]
            before = self.known.get(one)
            if not near[i]:
                self.known[one] = float(np.sign(values[i]))
            elif wall[i]:
                is_simple = np.any(at.differentials.of_events[i])
                passes = came[i] * at.rates[i] > 0 if is_simple else at.leads(i) == -wall[i]
                self.known[one] = -wall[i] if passes else wall[i]
                self.there = {} if passes else self.there
            elif not before:
                self.known[one] = -came[i] or at.side(i)
                if self.known[one] and not came[i] and (before == 0 or rested[i]):
                    loop.notices.ambiguous(int(i), f"at t = {at.t:.6g}")
            loop.directions[i] = -self.known[one]
        loop.begin.values[:n][near] = 0.0

    def _came(self, at: Instant, near: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Signs of the rates at which guards of the place came to the last transition, signs of the sides from which if
        they are its wall, else 0, and whether they are one at which it rested; shape=[guards]. Guards that depend on
        the velocity, which a reset changes, are its wall where they are ``near``.
        """
        n = len(asked)
        if self.crossed is None or self.crossed.is_moved or not asked.any():
            return np.zeros(n), np.zeros(n), np.zeros(n, bool)
        before, which, place, side, _, resting = self.crossed
        entered = at.loop.differentials(place)
        rows, of_place = entered.of_events[:n], 1 + len(place.xi)
        of_velocity = np.any(rows[:, of_place:] != 0, axis=1)
        came = np.where(of_velocity, 0.0, _signs_of_rates(entered)[:n])
        own = entered if before is at.loop else before.differentials(place)
        wall, approach = own.of_events[which], _signs_of_rates(own)[which]
        factors, rested = _multiples(rows, wall), [_multiples(rows, own.of_events[i]) != 0 for i in resting]
        is_same = np.array(_functions(at.loop.guards)) == id(before.guards[which].function)
        factors[is_same] = 1.0
        there = near | (asked & ~of_velocity)
        if np.any(others := there & ~near & ~is_same & (factors != 0)):
            there &= ~others | _are_multiples(at.loop.rounded(place), before.rounded(place), which, factors)
        signs = np.where(there, np.sign(factors), 0.0)
        came = np.where(signs == 0, came, approach * signs)
        return came, (side or -approach) * signs, np.any([*rested, np.zeros(n, bool)], axis=0)


def _signs_of_rates(at: Differentials) -> np.ndarray:
    """Signs of the rates of guards, 0 where they are not known, as of a slip that vanishes, shape=[events]."""
    return np.nan_to_num(np.sign(rates_of(at)))


def _multiples(rows: np.ndarray, wall: np.ndarray) -> np.ndarray:
    """Factors by which differentials are multiples of one, else 0, shape=[guards]."""
    factors = rows @ wall / max(wall @ wall, TINIEST)
    across = np.linalg.norm(rows - np.outer(factors, wall), axis=1)
    return np.where(across <= PARALLEL * np.linalg.norm(rows, axis=1), factors, 0.0)


def _are_multiples(
    rounded: tuple[np.ndarray, np.ndarray], of_wall: tuple[np.ndarray, np.ndarray], which: int, factors: np.ndarray
) -> np.ndarray:
    """True for guards of a mode whose values are these multiples of that of a guard of another, up to their roundings,
    shape=[guards]: both are one wall, from which the place is off by rounding, not two behind each other.
    """
    (values, roundings), (value, rounding) = rounded, (part[which] for part in of_wall)
    bound = roundings + np.abs(factors) * (rounding + CURVED * np.abs(value))
    return np.abs(values - factors * value) <= bound


def _functions(guards: Sequence[Event]) -> list[int]:
    """Identities of the functions of guards."""
    return [id(guard.function) for guard in guards]

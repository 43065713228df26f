"""Sides of the zeros of guards without direction on which a motion is.

Such a guard counts as one with the direction from the side where the motion is. After a transition, where the guard is
zero up to rounding, its rate tells the side; where rebounds become so short that rounding hides the rate, it is the one
where the motion was before, as of a wall, which may have a guard of its own in each mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geonh.results.events import Event
from geonh.runs.instant import Instant
from geonh.runs.mode_loop import TINY


class Sides:
    """Sides on which a run is, since its last whole step, by the functions of its guards.

    Parameters
    ----------
    n : int
        Number of guards of the mode.

    Attributes
    ----------
    known : dict of int to float
        Signs of the guards of the mode without direction, by the identity of their functions; 0 if it rests at zero.
    earlier : dict of int to float
        Last signs of those of other modes.
    walls : dict of int to set of int
        For functions whose zeros were transitions the functions of guards that are the same wall: of other modes, and
        the only one that was zero after such a transition.
    wall : set of int
        The functions of the wall of the last transition.
    struck : ndarray, shape=[guards]
        True for guards of the mode at that wall.
    late : ndarray, shape=[guards]
        Bounds of their values if that transition was late, as in rebounds shorter than a part of a step.
    """

    def __init__(self, n: int = 0) -> None:
        self.known: dict[int, float] = {}
        self.earlier: dict[int, float] = {}
        self.walls: dict[int, set[int]] = {}
        self.wall: set[int] = set()
        self.struck, self.late = np.zeros(n, bool), np.zeros(n)

    def cross(self, guard: Event, following: Sequence[Event], overshoot: float) -> None:
        """Go from a zero of a guard to a mode with other guards; past that zero, by ``overshoot``, if it was late."""
        wall, functions = id(guard.function), _functions(following)
        self.earlier |= self.known
        self.known = {one: side for one, side in self.known.items() if one in functions}
        self.wall = self.walls.setdefault(wall, {wall})
        self.struck = np.array([one in self.wall for one in functions], bool)
        bounds = [2 * overshoot if one == wall else TINY * (overshoot > 0) for one in functions]
        self.late = np.where(self.struck, bounds, 0.0)

    def take(self, at: Instant, number: int = 0) -> None:
        """Find the sides where a loop begins; its guards without direction count as directed from there.

        A value tells its side that is off zero by more than its rounding and a number of instants after a transition,
        if there was one. Else it is zero, and the side is kept, if it is known, or the motion leads to it. Without a
        transition values are zero that are exactly, or that rest there up to rounding.
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
        for i in np.flatnonzero(near & (values != 0)) if not number else ():
            near[i] = abs(values[i]) <= at.roundings[0][i] and at.is_flat(i)
        unknown = [functions[i] for i in np.flatnonzero(near) if functions[i] not in self.known]
        if len(unknown) == 1 and not self.struck.any():
            self.wall.update(unknown)
        for i in np.flatnonzero(both_ways):
            one = functions[i]
            before = self.known.get(one)
            if not near[i]:
                self.known[one] = float(np.sign(values[i]))
            elif self.struck[i] or not before:
                self.known[one] = at.side(i, before or self.earlier.get(one, 0.0))
                if before == 0 and self.known[one] and not self.struck[i]:
                    loop.notices.ambiguous(int(i), f"at t = {at.t:.6g}")
            loop.directions[i] = -self.known[one]
        loop.begin.values[:n][near] = 0.0


def _functions(guards: Sequence[Event]) -> list[int]:
    """Identities of the functions of guards."""
    return [id(guard.function) for guard in guards]

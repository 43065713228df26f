r"""The instant at which a loop begins: values of its guards and events there, and where the motion leads.

Where a mode begins, the guard that led to it is zero up to rounding, and others may be: rounding does not decide then
what happens, but the rate of the guard along the motion and, where that vanishes, its values a little later.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from geonh.runs.locating import SAME_INSTANT
from geonh.runs.mode_functions import Differentials, Place
from geonh.runs.mode_loop import ModeLoop

SOON = 1e-6
"""Part of a whole step after which the values are looked at again."""
LATER = 1e-6, 1e-4, 1e-2
"""Parts of a whole step after one of which the values show where a motion leads whose rate vanishes."""
INSTANT = 5 * SAME_INSTANT
"""Part of a whole step within which events and transitions are at one instant."""
SAME = 4 * float(np.finfo(float).eps)
"""Relative distance of two times that are the same, up to rounding."""
CLEAR = 5
"""Rounding of ``Instant.change``, relative to that of the values."""
CANCELLED = 1e-13
"""Rate of a guard, relative to the terms of which it is the sum, that is a rounding."""


class Instant:
    """Beginning of a loop.

    Parameters
    ----------
    loop : ModeLoop
        A loop at its beginning.
    xi_before : ndarray or None, shape=[n]
        Velocity before the transition that led there, if there was one.
    """

    def __init__(self, loop: ModeLoop, xi_before: np.ndarray | None) -> None:
        self.loop, self.xi_before = loop, xi_before
        self.t = beginning(loop)
        self.values = loop.begin.values.copy()

    @cached_property
    def soon(self) -> np.ndarray:
        """Values half as long as ``SOON`` and as long after it, shape=[2, events]."""
        return self._after(SOON / 2, SOON)

    @cached_property
    def change(self) -> np.ndarray:
        """Change of the values within ``SOON`` at their rates: without what is of second order, shape=[events]."""
        half, whole = self.soon - self.values
        return 4 * half - whole

    def change_within(self, number: int) -> np.ndarray:
        """Change of the values within a number of instants, at their rates, shape=[events]."""
        return self.change * (instants(self.t, self.loop.step, number) / SOON)

    @cached_property
    def roundings(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the rounding of the values at this place, and at one that was located."""
        velocities = [xi for xi in (self.here.xi, self.xi_before) if xi is not None]
        return self.loop.roundings(self.here), self.loop.roundings(self.here, velocities)

    def is_zero(self, i: int) -> bool:
        """True if a value is zero up to the rounding of a place that was located."""
        return bool(abs(self.values[i]) <= self.roundings[1][i])

    def is_flat(self, i: int) -> bool:
        """True if a value stays the same for a short time, up to rounding."""
        return bool(abs(self.soon[1, i] - self.values[i]) <= self.roundings[0][i])

    def leads(self, i: int) -> float:
        """Sign of a value a little later, where it exceeds the rounding; 0 if it rests at zero."""
        for value in self._after(*LATER)[:, i]:
            if abs(value) > self.roundings[1][i]:
                return float(np.sign(value))
        return 0.0

    @cached_property
    def here(self) -> Place:
        """Place where the loop begins."""
        return Place(np.float64(self.t), self.loop.begin.state.g, self.loop.begin.xi)

    @cached_property
    def differentials(self) -> Differentials:
        """Differentials of the values, and the motion's."""
        return self.loop.differentials(self.here)

    @cached_property
    def rates(self) -> np.ndarray:
        """Rates of the values, 0 where these are roundings, shape=[events]."""
        return rates_of(self.differentials)

    def side(self, i: int) -> float:
        """Sign of a value, now zero, to which its rate leads, or where that is a rounding its values a little later."""
        if np.isnan(self.rates[i]):  # of a slip that vanishes
            clear = abs(self.change[i]) > CLEAR * self.roundings[0][i]
            return float(np.sign(self.change[i])) if clear else self.leads(i)
        return float(np.sign(self.rates[i])) or self.leads(i)

    def opens(self, i: int) -> bool:
        """True if the value of a guard that has a rate of its own is zero by rounding, and leaves zero against its
        direction.
        """
        if not self.loop.has_rate[i] or abs(self.values[i]) > self.loop.guard_roundings[i]:
            return False
        guard: Any = self.loop.guards[i]
        begin = self.loop.begin
        return bool(guard.function.rate(self.t, begin.state.g, begin.xi) * guard.direction < 0)

    def _after(self, *parts: float) -> np.ndarray:
        """Values some parts of a whole step later, shape=[parts, events]; the steps of the loop may be so short that
        values change in them by rounding alone.
        """
        whole = self.loop.step / abs(float(self.loop.clock.dt))
        return self.loop.values_after(self.loop.begin.state, np.array(parts) * whole)


def rates_of(at: Differentials) -> np.ndarray:
    """Rates of events, 0 where these are roundings, shape=[events]."""
    terms = at.of_events * at.of_motion
    rates = terms.sum(axis=1)
    return np.where(np.abs(rates) <= CANCELLED * np.abs(terms).sum(axis=1), 0.0, rates)


def beginning(loop: ModeLoop) -> float:
    """Time at which a loop begins."""
    return float(loop.clock.t0 + int(loop.begin.state.k) * loop.clock.dt)


def instants(t: float, step: float, number: int) -> float:
    """Part of a whole step that is a number of instants, longer by rounding at late times."""
    return number * (INSTANT + SAME * abs(t / step))


def is_same_instant(t: float, other: float, dt: float) -> bool:
    """True if two times of a run with steps dt are one instant, up to the accuracy with which zeros are located."""
    return bool(abs(other - t) <= INSTANT * abs(dt)) or is_same(t, other, dt)


def is_same(t: float, other: float, dt: float) -> bool:
    """True if two times of a run with steps dt are the same, up to rounding."""
    return bool(abs(other - t) <= SAME * max(abs(t), abs(other), abs(dt)))

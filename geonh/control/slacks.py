"""Bounds of the slacks of inequalities, l ≤ s ≤ h, with the barrier and the lengths of steps that stay inside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SlackBounds(NamedTuple):
    """l and h, of the shape of the slacks, infinite where there is none."""

    lower: np.ndarray
    upper: np.ndarray

    def without(self, fixed: np.ndarray) -> SlackBounds:
        """The same bounds, but none where the mask is True."""
        return SlackBounds(np.where(fixed, -np.inf, self.lower), np.where(fixed, np.inf, self.upper))

    def distances(self, slacks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """s − l and h − s."""
        return slacks - self.lower, self.upper - slacks

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """Amounts by which values violate the bounds."""
        return np.maximum(np.maximum(self.lower - values, values - self.upper), 0.0)

    def interior(self, values: np.ndarray, margin: float = 1e-2) -> np.ndarray:
        """Slacks near values of the inequalities, inside of their bounds."""
        width = self.upper - self.lower
        low, high = (np.minimum(margin * np.maximum(1, np.abs(b)), margin * width) for b in (self.lower, self.upper))
        low, high = (np.where(np.isfinite(b), gap, 0.0) for b, gap in ((self.lower, low), (self.upper, high)))
        return np.clip(values, self.lower + low, self.upper - high)

    def barrier(self, slacks: np.ndarray) -> float:
        """−Σlog(s − l) − Σlog(h − s)."""
        both = np.concatenate(self.distances(slacks))
        both = both[np.isfinite(both)]
        return -float(np.log(both).sum()) if (both > 0).all() else np.inf

    def longest(self, slacks: np.ndarray, step: np.ndarray, keep: float) -> float:
        """Longest step that keeps a part of the distances to the bounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.concatenate([(self.lower - slacks) / step, (self.upper - slacks) / step])
        ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
        return min(1.0, keep * ratios.min(initial=np.inf))

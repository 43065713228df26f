"""Times of nodes as a lazy xarray coordinate that takes no memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import xarray as xr
from xarray.indexes import RangeIndex
from xarray.indexes.range_index import RangeCoordinateTransform


def times(t0: float, dt: float, k: range) -> xr.Coordinates:
    """Times t0 + k·dt of the nodes with numbers k, along "time", bitwise equal to those of a ``Trajectory``."""
    return xr.Coordinates.from_xindex(RangeIndex(_Times(t0, dt, k, "time", "time")))


class _Times(RangeCoordinateTransform):
    def __init__(self, t0: float, dt: float, k: range, coord_name: Hashable, dim: str) -> None:
        stop = k.start + len(k) * k.step
        super().__init__(t0 + k.start * dt, t0 + stop * dt, len(k), coord_name, dim)
        self.of = t0, dt, k

    def forward(self, dim_positions: dict[str, Any]) -> dict[Hashable, Any]:
        t0, dt, k = self.of
        return {self.coord_name: t0 + (k.start + k.step * dim_positions[self.dim]) * dt}

    def slice(self, sl: slice) -> _Times:
        t0, dt, k = self.of
        return _Times(t0, dt, k[sl], self.coord_name, self.dim)

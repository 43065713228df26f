"""Figure that notebooks display as the value of a cell, like a pyplot figure; imported with matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Picture(Figure):
    """Matplotlib figure without global state, which a notebook therefore displays once, as the value of a cell."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()

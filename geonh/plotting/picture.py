"""A figure that notebooks show where it is the value of a cell, as they do one of pyplot; imported with matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Picture(Figure):
    """A figure of matplotlib that no global state knows of, so that a notebook shows it once: as the value of a cell.

    Parameters
    ----------
    **options : keyword arguments
        As of ``matplotlib.figure.Figure``.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()

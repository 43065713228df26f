"""``Part`` of a body: triangles and lines, of one type for all shapes, so that renderers need not distinguish them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly


@dataclass(frozen=True)
class Part:
    """Part of a body: triangles and lines.

    Attributes
    ----------
    vertices : ndarray, shape=[k, 3]
        Vertices, metres, in the body's axes.
    faces : ndarray of int, shape=[f, 3]
        Triangles, as indices of vertices.
    dark : ndarray of bool, shape=[f]
        Triangles in the darker of the body's two shades.
    lines : tuple of ndarray, shape=[j, 3] each
        Polylines on the part, metres.
    smooth : bool
        True if the surface is round rather than faceted.
    colour : str
        "#rrggbb"; "" for that of the body.
    unbounded : bool
        True for a surface that bodies move on: a ground of radius one, or a surface ψ = 0, to be fitted to the motion.
    psi : callable or None
        ψ of such a surface, of X of shape=[3], in ``jax.numpy``.
    """

    vertices: np.ndarray
    faces: np.ndarray
    dark: np.ndarray
    lines: tuple[np.ndarray, ...] = ()
    smooth: bool = False
    colour: str = ""
    unbounded: bool = False
    psi: Callable[[Any], Any] | None = None

    @property
    def is_closed(self) -> bool:
        """True if the triangles enclose the part and are counterclockwise from outside: those behind are never seen."""
        places = np.unique(np.round(self.vertices, 12), axis=0, return_inverse=True)[1].ravel()
        edges = places[self.faces[:, [0, 1, 1, 2, 2, 0]]].reshape(-1, 2)
        there, back = edges @ [len(places), 1], edges @ [1, len(places)]
        corners = self.vertices[self.faces]
        volume = np.sum(corners[:, 0] * np.cross(corners[:, 1], corners[:, 2]))
        return bool(volume >= 0) and np.array_equal(np.sort(there), np.sort(back))

    @validated
    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Part:
        """Part shifted in its body by (x, y, z), metres; TypeError or ValueError if these are not numbers."""
        by = np.array([as_float64(value, name, ()) for name, value in (("x", x), ("y", y), ("z", z))])
        return self._mapped(lambda points: points + by)

    def _mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Part:
        """Part with all points, shape=[k, 3], moved by a function."""
        return replace(self, vertices=function(self.vertices), lines=tuple(map(function, self.lines)))

    def painted(self, colour: str) -> Part:
        """Part with its own colour, "#rrggbb"."""
        return replace(self, colour=as_colour(colour, "colour"))


def as_colour(value: Any, name: str) -> str:
    """Validate a colour "#rrggbb", or "" for that of a palette."""
    if not isinstance(value, str) or not re.fullmatch("(#[0-9a-fA-F]{6})?", value):
        raise ValueError(f"{name} must be text such as '#0072B2', got {shortly(value)}")
    return value

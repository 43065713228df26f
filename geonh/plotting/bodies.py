"""Bodies of a scene drawn with matplotlib: from above if the motion stays in the plane, else in three dimensions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from geonh.drawing import Moving, Part, Scene

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

THIN = 0.25
"""Fraction of the longest axis below which an axis has no ticks, which would overlap."""
LABEL_AWAY, TICK_AWAY = 30.0, 9.0
"""Distances of labels and ticks from their axis in a cube; matplotlib uses 21 + labelpad and 8 + tick pad."""
LIGHT = np.array([-0.4, -0.5, 0.8]) / np.linalg.norm([-0.4, -0.5, 0.8])


def draw_body(axes: Axes, body: Moving, i: int, flat: bool, alpha: float = 1.0) -> list[Artist]:
    """Draw one body at its i-th time, from above on two-dimensional axes if ``flat``; return the artists added."""
    artists: list[Artist] = []
    for part in sorted(body.parts, key=lambda part: part.vertices[:, 2].max(initial=-np.inf)):
        colour = part.colour or body.colour
        artists += (_from_above if flat else _in_space)(axes, body, part, i, colour, alpha)
    return artists


def draw_scene(axes: Axes, scene: Scene, i: int, flat: bool, alpha: float = 1.0) -> list[Artist]:
    """Draw all bodies but the ground at the i-th time, the lower ones first."""
    bodies = [body for body in scene.bodies if not body.is_ground]
    return [
        a for body in sorted(bodies, key=lambda body: _height(body, i)) for a in draw_body(axes, body, i, flat, alpha)
    ]


def body_size(scene: Scene) -> float:
    """Largest extension of a solid body, metres; 0 if there is none."""
    solid = [part for body in scene.bodies if body.is_solid for part in body.parts if len(part.faces)]
    return max((float(np.ptp(part.vertices, axis=0).max()) for part in solid if part.psi is None), default=0.0)


def magnified(scene: Scene, factor: float) -> Scene:
    """Bodies enlarged about the place of the first one, on the height on which all stand; the ground stays."""
    first, floor = scene.traces[0], scene.extent[0][2]
    about = np.column_stack([first.x[:, :2], np.full(len(first.x), floor)])

    def enlarged(body: Moving) -> Moving:
        if body.is_ground:
            return body
        parts = tuple(part._mapped(lambda points: factor * points) for part in body.parts)
        trace = None if body.trace is None else factor * body.trace
        return replace(body, parts=parts, trace=trace, x=about + factor * (body.x - about))

    return replace(scene, bodies=tuple(map(enlarged, scene.bodies)))


def set_limits(axes: Axes, scene: Scene, flat: bool) -> None:
    """Set equal aspect, and limits that contain everything that moves."""
    low, high = scene.extent
    pad = 0.03 * np.max(high - low) or 0.5
    axes.set_xlim(low[0] - pad, high[0] + pad)
    axes.set_ylim(low[1] - pad, high[1] + pad)
    if not flat:
        from matplotlib.ticker import MaxNLocator, NullLocator

        axes.set_zlim(low[2] - pad, high[2] + pad)
        shares = (high - low + 2 * pad) / np.max(high - low + 2 * pad)
        axes.set_box_aspect(tuple(shares), zoom=1.2)  # an array would be modified in place
        for axis, share in zip((axes.xaxis, axes.yaxis, axes.zaxis), shares, strict=True):
            axis.set_major_locator(MaxNLocator(round(5 * share)) if share > THIN else NullLocator())
            beside = np.sqrt((1 - share**2 / (shares @ shares)) * 1.5)  # unit of matplotlib's distances
            axis.labelpad = LABEL_AWAY / beside - 21
            axis.set_tick_params(pad=TICK_AWAY / beside - 8)
    else:
        axes.set_aspect("equal", adjustable="box")


def fill_place(axes: Axes) -> None:
    """Enlarge a three-dimensional axes to fill its place in the figure, including its labels."""
    from mpl_toolkits.mplot3d.proj3d import proj_transform

    figure, frame = axes.get_figure(), (axes.xaxis, axes.yaxis, axes.zaxis)
    for axis in frame:
        axis.set_in_layout(False)  # the place must not depend on the content
    limits = np.array([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
    corners = np.array(list(itertools.product(*limits)))
    figure.get_layout_engine().execute(figure)
    axes.apply_aspect()
    low, high = figure.transFigure.transform(axes.get_position(original=True).get_points())
    middle, zoom = (low + high) / 2, 1.0
    for _ in range(3):  # labels keep their size
        axes.set_box_aspect(np.ptp(limits, axis=1), zoom=zoom)
        axes.M = axes.get_proj()
        corners_on_screen = axes.transData.transform(np.column_stack(proj_transform(*corners.T, axes.M)[:2]))
        words = [axis.get_tightbbox() for axis in frame]
        points = np.concatenate([corners_on_screen, *(box.get_points() for box in words if box is not None)])
        zoom *= 0.98 * float(np.min((high - middle) / np.abs(points - middle).max(axis=0)))
    axes.set_box_aspect(np.ptp(limits, axis=1), zoom=zoom)


def _height(body: Moving, i: int) -> float:
    return max((float(body.points(p.vertices, i)[:, 2].max(initial=-np.inf)) for p in body.parts), default=-np.inf)


def shades(colour: str, dark: np.ndarray) -> np.ndarray:
    """Colours of faces, shape=[f, 3]."""
    from matplotlib.colors import to_rgb

    base = np.array(to_rgb(colour))
    light = 0.5 + 0.5 * base if np.any(dark) else 0.25 + 0.75 * base
    return np.where(dark[:, None], 0.8 * base, light)


def _from_above(axes: Axes, body: Moving, part: Part, i: int, colour: str, alpha: float) -> list[Artist]:
    from matplotlib.collections import LineCollection, PolyCollection

    artists: list[Artist] = []
    if len(part.faces):
        corners = body.points(part.vertices, i)[part.faces]
        order = np.argsort(corners[:, :, 2].max(axis=1))
        faces = PolyCollection(corners[order][:, :, :2], lw=0.3, alpha=alpha, zorder=2)
        faces.set_facecolor(shades(colour, part.dark)[order])
        faces.set_edgecolor("face")
        artists.append(axes.add_collection(faces, autolim=False))
    if part.lines:
        ink = colour if not len(part.faces) else "0.2"
        lines = [body.points(points, i)[:, :2] for points in part.lines]
        drawn = LineCollection(lines, colors=ink, lw=0.4 if body.is_ground else 0.7, alpha=alpha, zorder=2)
        artists.append(axes.add_collection(drawn, autolim=False))
    return artists


def _in_space(axes: Axes, body: Moving, part: Part, i: int, colour: str, alpha: float) -> list[Artist]:
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    artists: list[Artist] = []
    if len(part.faces) and (body.is_curved or not body.is_ground):
        corners = body.points(part.vertices, i)[part.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        lit = normals @ LIGHT / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
        tints = np.clip(shades(colour, part.dark) * (0.78 + 0.3 * lit)[:, None], 0, 1)
        drawn = Poly3DCollection(corners, facecolors=tints, lw=0, alpha=0.3 * alpha if body.is_curved else alpha)
        artists.append(axes.add_collection3d(drawn, autolim=False))
    if part.lines and (body.is_curved or not (part.smooth and len(part.faces))):
        ink = colour if not len(part.faces) else "0.25"
        lines = [body.points(points, i) for points in part.lines]
        width = 0.4 if body.is_ground else 0.6 if len(part.faces) else 1.0
        artists.append(axes.add_collection3d(Line3DCollection(lines, colors=ink, lw=width, alpha=alpha), autolim=False))
    return artists

"""Evaluation of a drawing along a run: the bodies, and their poses at each time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.arguments.precision import TracedError, float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.drawing.bodies import Pose
from geonh.drawing.level import fitted
from geonh.drawing.part import Part
from geonh.drawing.picture import NoDrawingError, Picture, precise
from geonh.engine import mapped

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
"""Okabe and Ito's colour-blind safe palette, assigned to bodies in turn."""


@dataclass(frozen=True, eq=False)
class Moving:
    """Body along a run.

    Attributes
    ----------
    name : str
        As in ``Body``.
    parts : tuple of Part
        Shape of the body.
    trace : ndarray, shape=[3], or None
        Point of the body, in its own axes, whose path is drawn.
    colour : str
        "#rrggbb"; never empty.
    R : ndarray, shape=[N, 3, 3]
        Its axes, as columns.
    x : ndarray, shape=[N, 3]
        Its origin, metres.
    """

    name: str
    parts: tuple[Part, ...]
    trace: np.ndarray | None
    colour: str
    R: np.ndarray
    x: np.ndarray

    def points(self, body_points: np.ndarray, i: Any = slice(None)) -> np.ndarray:
        """Points of the body, shape=[k, 3], in space at the i-th times, shape=[..., k, 3]; all metres."""
        return body_points @ np.swapaxes(self.R[i], -1, -2) + self.x[i][..., None, :]

    @property
    def path(self) -> np.ndarray:
        """Path of its trace point (of its origin if it has none), shape=[N, 3], metres."""
        return self.points(np.zeros((1, 3)) if self.trace is None else self.trace[None])[:, 0]

    @property
    def is_ground(self) -> bool:
        """True if it is the surface that the others move on."""
        return any(part.unbounded for part in self.parts)

    @property
    def is_curved(self) -> bool:
        """True if it is a surface ψ = 0 that the others move on."""
        return any(part.psi is not None for part in self.parts)

    @property
    def is_solid(self) -> bool:
        """True if it is solid, rather than ground or a marker made of lines."""
        return not self.is_ground and any(len(part.faces) for part in self.parts)


@dataclass(frozen=True, eq=False)
class Scene:
    """Bodies of a run in space.

    Attributes
    ----------
    t : ndarray, shape=[N]
        Times, seconds.
    bodies : tuple of Moving
        Bodies and markers along the run.
    """

    t: np.ndarray
    bodies: tuple[Moving, ...]

    @property
    def traces(self) -> list[Moving]:
        """Bodies with a trace; by default the first solid one."""
        declared = [body for body in self.bodies if body.trace is not None]
        return declared or [body for body in self.bodies if body.is_solid][:1]

    @property
    def extent(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner of the box around all that moves, and surfaces near it, shape=[3] each, metres."""
        points = [body.path for body in self.traces or self.bodies]
        for body in self.bodies:
            corners = _box(body)
            if len(corners) and (body.is_curved or not body.is_ground):
                points.append(body.points(corners).reshape(-1, 3))
        if not points:
            return -np.ones(3), np.ones(3)
        return np.min([f.min(axis=0) for f in points], axis=0), np.max([f.max(axis=0) for f in points], axis=0)

    @property
    def is_flat(self) -> bool:
        """True if the motion stays in the horizontal plane, so that it can be drawn from above."""
        if any(body.is_curved for body in self.bodies):
            return False
        turning = all(np.allclose(b.R[:, 2], [0, 0, 1]) and np.ptp(b.x[:, 2]) == 0 for b in self.bodies)
        return turning and all(np.ptp(b.path[:, 2]) < 1e-12 for b in self.traces)


@validated
def scene(trajectory: Trajectory, nodes: Any = None) -> Scene:
    """Evaluate the drawing of a trajectory's system along its nodes.

    Parameters
    ----------
    trajectory : Trajectory
        Run with its system; for a file, pass it to ``load(path, system=)``, or it is taken from the catalogue.
    nodes : array_like of int, shape=[K], optional
        Indices of nodes; all by default.

    Returns
    -------
    Scene

    Raises
    ------
    TypeError
        If the drawing returns no bodies, or an argument is of another type.
    ValueError
        If the system is unknown, or has neither a drawing nor a space that implies one (``NoDrawingError``),
        or a node is invalid.
    """
    system = system_of(trajectory)
    nodes = chosen_nodes(trajectory, nodes)
    t, g = trajectory.t[nodes], jax.tree.map(lambda a: a[nodes], trajectory.g)
    picture = Picture(system)
    with float64():
        try:
            bodies = picture.still(t[0], jax.tree.map(lambda a: a[0], g))
            poses = mapped(_poses, picture, (t, g))
        except (TracedError, jax.errors.TracerArrayConversionError) as error:
            raise TypeError(
                f"draw of {system.name!r} gives a body whose parts depend on g, or uses NumPy on it: the shape of a "
                "body is fixed, what moves it is its pose, at=, written in jax.numpy"
            ) from error
    if len(poses) != len(bodies):
        raise ValueError(f"draw of {system.name!r} must give the same bodies at all g")
    colours = iter(PALETTE * (len(bodies) // len(PALETTE) + 1))
    moving = []
    for body, pose in zip(bodies, poses, strict=True):
        unpainted = not body.colour and not any(part.unbounded for part in body.parts)
        colour = next(colours) if unpainted else body.colour or "#999999"
        R, x = _in_space(pose, len(nodes), f"draw of {system.name!r}: the pose of body {body.name!r}")
        moving.append(Moving(body.name, body.parts, body.trace, colour, R, x))
    drawn = Scene(t, tuple(moving))
    return Scene(t, tuple(_sized(body, drawn) if body.is_ground else body for body in moving))


def chosen_nodes(trajectory: Trajectory, nodes: Any) -> np.ndarray:
    """Validate requested indices of nodes of the trajectory; all of them for None."""
    if nodes is None:
        return np.arange(len(trajectory))
    numbers = as_float64(nodes, "nodes")
    N = len(trajectory)
    if (
        numbers.ndim != 1
        or not len(numbers)
        or np.any((numbers != np.floor(numbers)) | (numbers < -N) | (numbers >= N))
    ):
        raise ValueError(f"nodes must be places of nodes, below {N}, got {shortly(nodes)}")
    return numbers.astype(np.int64)


def _sized(body: Moving, drawn: Scene) -> Moving:
    """Fit a ground, or a surface, to the extent of the motion on it."""
    low, high = drawn.extent
    if not body.is_curved:
        return _as_wide(body, low, high)
    solid = [np.ptp(_box(other), axis=0).max() for other in drawn.bodies if other.is_solid]
    size = max(solid, default=0.2 * np.max(high - low))
    wide = np.maximum(high - low + size, min(np.max(high - low) / 2, 6 * size))
    low, high = (low + high - wide) / 2, (low + high + wide) / 2
    return replace(body, parts=tuple(fitted(part, low, high) for part in body.parts))


def _as_wide(body: Moving, low: np.ndarray, high: np.ndarray) -> Moving:
    """Fit a ground to the extent of the motion: about its centre, or about its own origin if it turns or moves."""
    still = np.ptp(body.R, axis=0).max() == 0 and np.ptp(body.x, axis=0).max() == 0
    middle = (low + high) / 2 * [1, 1, 0] if still and np.all(body.R[0] == np.eye(3)) else np.zeros(3)
    round_table = 1.05 * max(np.hypot(*corner) for corner in itertools.product(*zip(low[:2], high[:2], strict=True)))
    width = 0.6 * np.max(high[:2] - low[:2]) if still else round_table
    return replace(body, parts=tuple(part._mapped(lambda points: width * points).moved(*middle) for part in body.parts))


def system_of(trajectory: Any) -> Any:
    """System of a trajectory, rebuilt from the catalogue if it came from a file; ValueError if it is not in the
    catalogue.
    """
    if trajectory.system is not None:
        return trajectory.system
    from geonh.systems import catalogue  # would be a circular import

    a = trajectory.attributes
    entry = catalogue.get(a["catalogue"])
    numbers = {} if entry is None else {n for n, value in entry.defaults.items() if not isinstance(value, str)}
    if entry is None or not numbers <= a["parameters"].keys():  # files have no numbers for shapes
        raise NoDrawingError(
            f"to draw a file of {a['system']!r}, its system is needed: Trajectory.load(path, system=...)"
        )
    return entry.system(**entry.known(a["parameters"]))


def _in_space(pose: Any, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """R and x of a body at n times, or an error."""
    R, x = map(np.asarray, pose)
    if R.shape != (n, 3, 3) or x.shape != (n, 3) or R.dtype.kind + x.dtype.kind != "ff":
        details = ", ".join(f"{p} of shape {list(a.shape[1:])} and {a.dtype.name}" for p, a in (("R", R), ("x", x)))
        raise ValueError(f"{name} must be real, R of shape [3, 3] and x of shape [3], got {details}")
    if not np.all(np.isfinite(R)) or not np.all(np.isfinite(x)):
        raise ValueError(f"{name} is not finite at some g")
    return R.astype(np.float64), x.astype(np.float64)


def _poses(picture: Picture, node: tuple) -> list[Pose]:
    return [precise(body.at) for body in picture.bodies(*node)]


def _box(body: Moving) -> np.ndarray:
    """Corners of the bounding box of a body's parts, in its axes, shape=[8, 3], or none."""
    points = [c for part in body.parts for c in (part.vertices, *part.lines) if len(c)]
    if not points:
        return np.zeros((0, 3))
    every = np.concatenate(points)
    return np.array(list(itertools.product(*zip(every.min(axis=0), every.max(axis=0), strict=True))))

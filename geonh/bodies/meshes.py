"""Meshes of robots' files: read by trimesh, and with few triangles.

Vertices in one cell of a cubic grid become one vertex, their mean; triangles that collapse are left out (Rossignac,
Borrel, *Multi-resolution 3D approximations for rendering complex scenes* (1993)).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from geonh.bodies.shapes import Mesh

FACES = 1000
"""Largest number of triangles of a mesh that is kept."""
LARGEST = 50_000_000
"""Largest size of a file of a mesh, bytes."""
SUFFIXES = {".stl": "stl", ".dae": "dae", ".obj": "obj", ".ply": "ply", ".off": "off", ".glb": "glb"}
"""Formats of meshes, by the suffixes of their files."""


def coarse(vertices: np.ndarray, faces: np.ndarray, most: int = FACES) -> Mesh:
    """Mesh with at most ``most`` triangles, from vertices, shape=[k, 3], and faces, shape=[f, 3]."""
    cells = 64.0
    while len(faces) > most:
        low, size = vertices.min(axis=0), np.ptp(vertices, axis=0).max() or 1.0
        key = np.floor((vertices - low) / size * cells).astype(np.int64) @ [1, 1 << 20, 1 << 40]
        _, cell = np.unique(key, return_inverse=True)
        weights = np.bincount(cell)
        means = np.stack([np.bincount(cell, column) / weights for column in vertices.T], axis=1)
        triangles = cell[faces]
        triangles = triangles[np.all(triangles != np.roll(triangles, 1, axis=1), axis=1)]
        triangles = triangles[np.unique(np.sort(triangles, axis=1), axis=0, return_index=True)[1]]
        if len(triangles) <= most or cells < 2:
            vertices, faces = means, triangles[:most]
        cells *= 0.8
    used, renumbered = np.unique(faces, return_inverse=True)
    return Mesh(vertices[used], renumbered.reshape(-1, 3))


def located(name: str, folder: Path) -> Path | None:
    """File of a mesh by its name in a robot's file, in a folder; None if there is none.

    ``package://NAME/…`` is looked for beside the folders above, and in those of ROS_PACKAGE_PATH. No file has a name
    that is too long for one.
    """
    scheme, _, rest = name.rpartition("://")
    if scheme == "file":
        ways = [Path(rest)]
    elif scheme in ("package", "model"):
        package, _, inner = rest.partition("/")
        above = [folder, *folder.parents]
        ways = [place / rest for place in above] + [place / inner for place in above if place.name == package]
        ways += [Path(place) / rest for place in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if place]
    else:
        ways = [folder / name]
    return next((way for way in ways if os.path.isfile(way)), None) if not scheme or ways else None


def loaded(path: Path, scale: Any = (1.0, 1.0, 1.0)) -> Mesh | str:
    """Coarse mesh of a file, its axes scaled; or the reason why it cannot be had."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        return f"is of another format than {', '.join(SUFFIXES)}"
    if path.stat().st_size > LARGEST:
        return f"has more than {LARGEST} bytes"
    import trimesh

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mesh: Any = trimesh.load(path, file_type=kind, force="mesh", process=False)
            vertices = np.asarray(mesh.vertices, dtype=np.float64) * np.asarray(scale)
            faces = np.asarray(mesh.faces, dtype=np.int64)
    except Exception as error:  # whatever a reader of a damaged file raises
        return f"cannot be read: {type(error).__name__}"
    if not len(faces) or not np.all(np.isfinite(vertices)):
        return "has no triangles"
    return coarse(vertices, faces)

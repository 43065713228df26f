"""Self-contained HTML file of runs: page, style, script, three.js, and data."""

from __future__ import annotations

import base64
import errno
import functools
import hashlib
import html
import json
import os
import re
import zlib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from geonh.arguments.paths import checked_path
from geonh.arguments.validators import as_count, as_flag, as_names, shortly
from geonh.plotting.labels import method_in_words
from geonh.results.replacing import replacing_atomically
from geonh.results.trajectory import Trajectory
from geonh.viewer.packing import packed

MAX_FRAMES = 10_001


def as_page_path(path: Any) -> Path:
    """Validate the path of a page; FileNotFoundError if its folder is not there."""
    path = checked_path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html or .htm, got {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return path


class Page:
    """Page of the viewer; Jupyter displays it, ``save`` writes it.

    Attributes
    ----------
    html : str
        Complete page, without external resources.
    path : pathlib.Path or None
        Path of the last file written, if any.
    """

    def __init__(self, html: str):
        self.html = html
        self.path: Path | None = None

    def save(self, path: str | os.PathLike) -> Path:
        """Write the page; an existing file is replaced.

        Parameters
        ----------
        path : str or path
            A name that ends in ``.html`` or ``.htm``.

        Returns
        -------
        pathlib.Path
            Path of the file.

        Raises
        ------
        ValueError
            For another suffix.
        OSError
            If it cannot be written.
        """
        path = as_page_path(path)
        with replacing_atomically(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8")
        self.path = path
        return path

    def __repr__(self) -> str:
        where = f"in {self.path}" if self.path else "save(path) writes it"
        return f"Page, {len(self.html) / 1e6:.2f} MB; {where}"

    def _repr_html_(self) -> str:
        """Page in a sandboxed frame."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="geonh viewer" sandbox="allow-scripts" '
            'style="width:100%;height:560px;border:0" allowfullscreen></iframe>'
        )


def view(
    *trajectories: Any,
    path: str | os.PathLike | None = None,
    names: Sequence[str] | None = None,
    side_by_side: bool = False,
    max_frames: int = MAX_FRAMES,
) -> Page:
    """Show runs in one self-contained HTML page: bodies in three dimensions, traces, arrows, and conserved quantities.

    Parameters
    ----------
    *trajectories : Trajectory
        One or more runs; several are overlaid, or shown side by side.
    path : path, optional
        Output file, a name that ends in ``.html`` or ``.htm``.
    names : sequence of str, optional
        Labels of the runs; by default their methods.
    side_by_side : bool
        If True, several runs are first shown side by side; the page can switch.
    max_frames : int
        Maximum number of frames of a run, evenly spaced; the viewer interpolates between them.

    Returns
    -------
    Page
        Page that Jupyter displays.

    Raises
    ------
    ValueError
        If there is no run, ``names`` does not fit, or a system cannot be drawn (see ``geonh.drawing.scene``).
    """
    if not trajectories:
        raise ValueError("view takes at least one trajectory")
    for trajectory in trajectories:
        if not isinstance(trajectory, Trajectory):
            raise TypeError(f"view takes trajectories, got {shortly(trajectory)}")
    if names is None:
        names = _distinct([method_in_words(trajectory) for trajectory in trajectories])
    if len(as_names(names, "names")) != len(trajectories):
        raise ValueError(f"names must have one entry for each of the {len(trajectories)} runs, got {shortly(names)}")
    header, data = packed(trajectories, names, as_count(max_frames, "max_frames", 2))
    header["sideBySide"] = as_flag(side_by_side, "side_by_side")
    files = resources.files("geonh.viewer")
    page = Page(page_text(header, data, files / "viewer.html", scripts=[files / "viewer.js"]))
    if path is not None:
        page.save(path)
    return page


def page_text(
    header: dict[str, Any],
    data: bytes,
    body: Traversable,
    *,
    scripts: Sequence[Traversable],
    styles: Sequence[Traversable] = (),
    kind: str = "run",
) -> str:
    """HTML of a page: the shell and the scripts of all pages, with those of one; ``kind`` is its class for styles."""
    files = resources.files("geonh.viewer")
    shared = (files / "scene.js", files / "curves.js", files / "view.js")
    style, script = (
        "\n".join(file.read_text(encoding="utf-8") for file in several)
        for several in ((files / "viewer.css", *styles), (*shared, *scripts))
    )
    parts = {
        "policy": policy(style, script),
        "title": html.escape(f"{header['title']} – geonh"),
        "kind": kind,
        "style": style,
        "body": body.read_text(encoding="utf-8"),
        "header": json.dumps(header, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        "data": compressed(data),
        "three": three(),
        "licence": (files / "three-LICENSE.txt").read_text(encoding="utf-8"),
        "script": script,
    }
    text = (files / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def policy(style: str, script: str) -> str:
    """Content security policy: the page runs its script, and three.js created from its own text; nothing external."""
    allowed = {
        "default-src": "'none'",
        "script-src": f"{_hash(script)} 'unsafe-eval'",
        "style-src": _hash(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{what} {where}" for what, where in allowed.items())


def _hash(text: str) -> str:
    """Hash by which a browser identifies the text between two tags, including line ends."""
    digest = hashlib.sha256(f"\n{text}\n".encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@functools.cache
def three() -> str:
    """three.js, compressed."""
    return compressed(resources.files("geonh.viewer").joinpath("three.min.js").read_bytes())


def compressed(data: bytes) -> str:
    """Bytes by deflate, in base64."""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def _distinct(names: list[str]) -> list[str]:
    """Make names distinct by appending a number to repeated ones."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]

"""Viewer: runs in one HTML file that opens from disk, without a network.

``view`` packs bodies, poses, arrows and curves of conserved quantities; ``viewer.js`` displays them, with three.js
inside the file. The packed data are compressed: poses are float32 and 16-bit quaternions.
"""

from geonh.viewer.page import Page, view

__all__ = ["Page", "view"]

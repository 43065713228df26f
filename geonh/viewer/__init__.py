"""The viewer: runs in one HTML file that opens from disk, without a network.

``view`` packs bodies, poses, arrows and the curves of what is kept; ``viewer.js`` shows them, with three.js inside the
file. What is packed is compressed: poses are float32 and 16-bit quaternions.
"""

from geonh.viewer.page import Page, view

__all__ = ["Page", "view"]

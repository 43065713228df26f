"""Parts of bodies: which of them are closed, and the triangles that they are made of."""

from dataclasses import replace

import numpy as np
import pytest

import geonh as gn
from geonh.drawing import ball, box, cylinder, prism

SHAPES = [box(1.0, 2.0, 3.0), cylinder(0.5, 0.1, "y"), ball([1.0, 0.5, 0.2]), prism([[0, 0], [1, 0], [0, 1]], 0.2)]


@pytest.mark.parametrize("part", SHAPES)
def test_a_part_is_closed_if_no_triangle_lacks_and_none_is_turned(part):
    assert part.is_closed
    assert part.moved(1.0, -2.0, 0.5).is_closed
    assert not replace(part, faces=part.faces[1:]).is_closed
    assert not replace(part, faces=part.faces[:, ::-1]).is_closed
    turned = np.vstack([part.faces[:1, ::-1], part.faces[1:]])
    assert not replace(part, faces=turned).is_closed


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [gn.drawing.mesh, gn.bodies.Mesh])
@pytest.mark.parametrize(
    ("faces", "words"),
    [
        (1e308, r"faces \[f, 3\]"),
        ([[0, 1, 1e300]], "indices of the 3 vertices"),
        ([[0, 1, 3]], "indices of the 3 vertices"),
        ([[0, 1, 1.5]], "faces must be integers"),
        ([[0, 1, np.nan]], "faces has entries that are not finite"),
    ],
)
def test_triangles_are_indices_of_vertices(make, faces, words):
    with pytest.raises(ValueError, match=words):
        make([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], faces)

"""Lie groups: one module each, their protocol (``base``), and the bridge to geomstats (``as_group``)."""

from geonh.groups.base import LieGroup, Point
from geonh.groups.geomstats_bridge import as_group
from geonh.groups.heisenberg import Heisenberg
from geonh.groups.matrix_group import MatrixGroup
from geonh.groups.opposite import Opposite
from geonh.groups.product import Product
from geonh.groups.retraction import Cayley, Exponential, Retraction, make_retraction
from geonh.groups.se2 import SE2
from geonh.groups.se3 import SE3
from geonh.groups.so2 import SO2
from geonh.groups.so3 import SO3, matrix_to_quaternion, quaternion_to_matrix
from geonh.groups.translations import Torus, Translations

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "Cayley",
    "Exponential",
    "Heisenberg",
    "LieGroup",
    "MatrixGroup",
    "Opposite",
    "Point",
    "Product",
    "Retraction",
    "Torus",
    "Translations",
    "as_group",
    "make_retraction",
    "matrix_to_quaternion",
    "quaternion_to_matrix",
]

"""Conversion of geomstats manifolds, or lists of them, to groups; geomstats is imported only for its own objects."""

from __future__ import annotations

from typing import Any

from geonh.arguments.precision import has_tracers
from geonh.groups.base import LieGroup
from geonh.groups.heisenberg import Heisenberg
from geonh.groups.matrix_group import MatrixGroup
from geonh.groups.product import Product
from geonh.groups.se2 import SE2
from geonh.groups.se3 import SE3
from geonh.groups.so2 import SO2
from geonh.groups.so3 import SO3
from geonh.groups.translations import Torus, Translations

ACCEPTED = (
    "a geonh LieGroup, a geomstats Euclidean, SpecialOrthogonal, SpecialEuclidean, Hypersphere(1), HeisenbergVectors, "
    "MatrixLieGroup or ProductManifold, or a list of these (which is a product)"
)


def as_group(space: Any) -> LieGroup:
    """Group of a configuration space.

    Parameters
    ----------
    space : LieGroup, geomstats manifold, or list or tuple of these
        SO(2), SO(3), SE(2) and SE(3) are accepted with either ``point_type``; the points that ``to_geomstats`` gives
        are matrices.

    Returns
    -------
    LieGroup
        ``space`` itself where it is a ``LieGroup``; a ``Product`` for a list, a tuple or a ``ProductManifold``.

    Raises
    ------
    TypeError
        For any other input, naming it and the accepted types.
    """
    if isinstance(space, LieGroup):
        return space
    if isinstance(space, list | tuple):
        has_tracers(space=space)  # refuses a list that contains itself
        if not space:
            raise TypeError(f"an empty {type(space).__name__} is no configuration space; give {ACCEPTED}")
        return Product([as_group(factor) for factor in space])
    if type(space).__module__.split(".")[0] == "geomstats" or any(
        base.__module__.split(".")[0] == "geomstats" for base in type(space).__mro__
    ):
        group = _from_manifold(space)
        if group is not None:
            return group
    raise TypeError(f"{_describe(space)} is no configuration space known to geonh; give {ACCEPTED}")


def _from_manifold(space: Any) -> LieGroup | None:
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.heisenberg import HeisenbergVectors
    from geomstats.geometry.hypersphere import Hypersphere
    from geomstats.geometry.lie_group import MatrixLieGroup
    from geomstats.geometry.product_manifold import ProductManifold
    from geomstats.geometry.special_euclidean import _SpecialEuclideanMatrices, _SpecialEuclideanVectors
    from geomstats.geometry.special_orthogonal import _SpecialOrthogonalMatrices, _SpecialOrthogonalVectors

    if isinstance(space, Euclidean):
        return Translations(space.dim)
    if isinstance(space, HeisenbergVectors):
        return Heisenberg()
    if isinstance(space, Hypersphere):
        return Torus(1) if space.dim == 1 else None
    if isinstance(space, _SpecialOrthogonalMatrices | _SpecialOrthogonalVectors) and space.n in (2, 3):
        return SO2() if space.n == 2 else SO3()
    if isinstance(space, _SpecialEuclideanMatrices | _SpecialEuclideanVectors) and space.n in (2, 3):
        return SE2() if space.n == 2 else SE3()
    if isinstance(space, ProductManifold):
        return _from_product(space)
    if isinstance(space, MatrixLieGroup) and space.lie_algebra is not None:
        return MatrixGroup(space)
    return None


def _from_product(space: Any) -> Product:
    """Keep ``point_ndim`` where the factors' points can be stacked."""
    factors = [as_group(factor) for factor in space.factors]
    stacked = (
        space.point_ndim > 1
        and not any(isinstance(f, Product) for f in factors)
        and all(tuple(f.space().shape) == tuple(s.shape) for f, s in zip(factors, space.factors, strict=True))
    )
    return Product(factors, point_ndim=space.point_ndim if stacked else 1)


def _describe(space: Any) -> str:
    if isinstance(space, type):
        return f"the class {space.__name__} (not an instance of it)"
    dim = getattr(space, "dim", None)
    return (
        f"{type(space).__name__} of dimension {dim}" if isinstance(dim, int) else f"{space!r} ({type(space).__name__})"
    )

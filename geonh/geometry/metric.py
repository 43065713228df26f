r"""Bundle metrics on the algebroid M × g: the kinetic energy ½⟨ξ, ξ⟩_x = ½ ξᵀM(x)ξ.

The matrix M is in the algebra basis of the group, so it may couple the factors of a product and depend on the base
point; duals are coordinate transposes.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import solve_spd
from geonh.engine import Precise
from geonh.geometry.field import Field

MOST = 2**12
"""Largest dimension of a constant metric: a long vector given by mistake would become a matrix."""


class BundleMetric(Precise):
    """Inner product on each fibre of M × g.

    Parameters
    ----------
    matrix : array_like, shape=[n, n] or [n], or callable
        Symmetric positive definite matrix (a vector is its diagonal), or a function of the base point, or of the
        base point and the parameters, that returns one.

    Raises
    ------
    ValueError
        If a constant matrix is not square, not symmetric or not positive definite, or has more than 4096 rows.
    """

    field: Field

    def __init__(self, matrix: Any):
        field = Field(matrix, "metric")
        if field.is_constant and isinstance(field.constant, np.ndarray):
            if max(field.constant.shape, default=0) > MOST:
                raise ValueError(f"metric is for at most {MOST} velocities, got shape {field.constant.shape}")
            constant = np.diag(field.constant) if field.constant.ndim == 1 else field.constant
            if constant.ndim != 2 or constant.shape[0] != constant.shape[1] or not constant.size:
                raise ValueError(f"metric must be a square matrix or its diagonal, got shape {constant.shape}")
            if not np.allclose(constant, constant.T, rtol=1e-12, atol=1e-12 * np.abs(constant).max()):
                raise ValueError(f"metric must be symmetric, got\n{constant}")
            smallest = np.linalg.eigvalsh(constant)[0]
            if smallest <= 0:
                raise ValueError(f"metric must be positive definite; its smallest eigenvalue is {smallest:.3g}")
            field = Field(constant, "metric")
        self.field = field

    def matrix(self, x: Any, parameters: Any = None) -> Array:
        """M(x), shape=[n, n], of a base point."""
        value = self.field(x, parameters)
        return jnp.diag(value) if jnp.ndim(value) == 1 else value

    def inner(self, xi: Array, eta: Array, x: Any = (), parameters: Any = None) -> Array:
        """⟨ξ, η⟩_x, a scalar, joules for twice the kinetic energy; ``xi`` and ``eta`` of shape=[n]."""
        return xi @ self.matrix(x, parameters) @ eta

    def flat(self, xi: Array, x: Any = (), parameters: Any = None) -> Array:
        """Momentum Mξ, shape=[n], of a velocity of shape=[n]."""
        return self.matrix(x, parameters) @ xi

    def sharp(self, p: Array, x: Any = (), parameters: Any = None) -> Array:
        """Velocity M⁻¹p, shape=[n], of a momentum of shape=[n]."""
        return solve_spd(self.matrix(x, parameters), p)

"""Groups in exponential coordinates: exp, log and, but for SO(2), the Cayley map are the identity map on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array

from geonh.groups.base import LieGroup


class ExponentialCoordinates(LieGroup):
    """Group in exponential coordinates, shape=[..., n], in which g⁻¹ = −g."""

    def identity(self) -> Any:
        return np.zeros(self.dim)

    def inverse(self, g: Array) -> Array:
        return -g

    def exp(self, xi: Array) -> Array:
        return xi

    def log(self, g: Array) -> Array:
        return g

    def cay(self, xi: Array) -> Array:
        return xi

    def cay_inv(self, g: Array) -> Array:
        return g

"""Interpolation between two nodes by a curve on the group that has their velocities at its ends."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from geonh.groups.base import LieGroup, Point


def between(group: LieGroup, node: tuple) -> tuple[Point, Array]:
    """Point (g, ξ) at the fraction s of the curve from (g, ξ) before to (g, ξ) after, of duration ``span``."""
    before, after, span, s = node
    return curve(group, before, after, span)(s)


def curve(group: LieGroup, before: tuple, after: tuple, span: Array) -> Callable[[Array], tuple[Point, Array]]:
    """Curve s → (g, ξ) from (g, ξ) before to (g, ξ) after, of duration ``span``: cubic in the logarithm."""
    zeta = group.log(group.compose(group.inverse(before[0]), after[0]))
    leaving, arriving = span * before[1], span * group.dexp_inv(-zeta) @ after[1]

    def chart(s: Array) -> Array:
        return s * (1 - s) ** 2 * leaving + s**2 * (3 - 2 * s) * zeta + s**2 * (s - 1) * arriving

    def at(s: Array) -> tuple[Point, Array]:
        q, rate = jax.jvp(chart, (s,), (jnp.ones_like(s),))
        return group.compose(before[0], group.exp(q)), group.dexp(-q) @ rate / span

    return at

r"""Coefficient functions of the closed forms, as functions of x = θ², and small arrays written by their entries.

    A = sin θ/θ            B = (1 − cos θ)/θ²            C = (θ − sin θ)/θ³
    D = (1 − (θ/2) cot(θ/2))/θ²
    E = (θ − sin θ − θ³/6)/θ⁵                            F = (1 − θ²/2 − cos θ)/θ⁴

Below a threshold the power series in x is used, above it the closed form; neither branch is evaluated where it
or a derivative is singular (the "double where"), and no square root is differentiated at zero. Thresholds are high and
series long, since (θ − sin θ − θ³/6)/θ⁵ and its derivatives lose digits long before θ is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array

_TERMS = 11


def _even_series(start: int, sign: float = 1.0) -> tuple[float, ...]:
    """Coefficients ±(−1)ᵏ/(start + 2k)! of xᵏ."""
    return tuple(sign * (-1) ** k / math.factorial(start + 2 * k) for k in range(_TERMS))


def _zeta(s: int) -> float:
    """Riemann's ζ(s) for even s ≥ 2."""
    known = {2: math.pi**2 / 6, 4: math.pi**4 / 90, 6: math.pi**6 / 945, 8: math.pi**8 / 9450}
    return known[s] if s in known else sum(n**-s for n in range(60, 0, -1))


_SERIES_A = _even_series(1)
_SERIES_B = _even_series(2)
_SERIES_C = _even_series(3)
_SERIES_E = _even_series(5, -1.0)
_SERIES_F = _even_series(4, -1.0)
# |B₂ₖ|/(2k)! = 2 ζ(2k)/(2π)²ᵏ
_SERIES_D = tuple(2 * _zeta(2 * k) / (2 * math.pi) ** (2 * k) for k in range(1, 19))
# asin(√s)/√s
_SERIES_ASIN = tuple(math.factorial(2 * k) / (4**k * math.factorial(k) ** 2 * (2 * k + 1)) for k in range(14))


def horner(coefficients: Sequence[float], x: Array) -> Array:
    """Polynomial with the lowest coefficient first."""
    value = coefficients[-1] + 0.0 * x
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def _piecewise(x: Array, threshold: float, series: Sequence[float], closed: Callable[[Array, Array], Array]) -> Array:
    """Series where x < threshold, else ``closed(θ, x)``."""
    small = x < threshold
    far = jnp.where(small, 1.0, x)
    return jnp.where(small, horner(series, jnp.where(small, x, 0.0)), closed(jnp.sqrt(far), far))


def A(x: Array) -> Array:
    """sin θ/θ of x = θ²."""
    return _piecewise(x, 1.0, _SERIES_A[:9], lambda t, x: jnp.sin(t) / t)


def B(x: Array) -> Array:
    """(1 − cos θ)/θ² of x = θ²."""
    return _piecewise(x, 1.0, _SERIES_B[:9], lambda t, x: (1.0 - jnp.cos(t)) / x)


def C(x: Array) -> Array:
    """(θ − sin θ)/θ³ of x = θ²."""
    return _piecewise(x, 1.0, _SERIES_C[:9], lambda t, x: (t - jnp.sin(t)) / (t * x))


def D(x: Array) -> Array:
    """(1 − (θ/2) cot(θ/2))/θ² of x = θ²; infinite at θ = 2π."""
    return _piecewise(x, 4.0, _SERIES_D, lambda t, x: (1.0 - 0.5 * t * jnp.cos(0.5 * t) / jnp.sin(0.5 * t)) / x)


def E(x: Array) -> Array:
    """(θ − sin θ − θ³/6)/θ⁵ of x = θ²."""
    return _piecewise(x, 4.0, _SERIES_E, lambda t, x: (t - jnp.sin(t) - t * x / 6.0) / (t * x * x))


def F(x: Array) -> Array:
    """(1 − θ²/2 − cos θ)/θ⁴ of x = θ²."""
    return _piecewise(x, 4.0, _SERIES_F, lambda t, x: (1.0 - 0.5 * x - jnp.cos(t)) / (x * x))


def angle_over_sine(s: Array, c: Array) -> Array:
    """atan2(√s, c)/√s, for s = sin², c = cos ≥ 0 of the same angle."""
    small = s < 0.05
    far = jnp.where(small, 0.5, s)
    sine = jnp.sqrt(far)
    return jnp.where(small, horner(_SERIES_ASIN, jnp.where(small, s, 0.0)), jnp.arctan2(sine, c) / sine)


def safe_sqrt(x: Array) -> Array:
    """√x with the derivative 0 at 0."""
    positive = x > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def vector(*entries: Array) -> Array:
    """Vector of scalars of broadcastable shapes, shape=[..., n]."""
    return jnp.stack(jnp.broadcast_arrays(*entries), axis=-1)


def matrix(rows: Sequence[Sequence[Array | float]]) -> Array:
    """Matrix of scalars of broadcastable shapes, shape=[..., m, n]."""
    entries = jnp.broadcast_arrays(*[entry for row in rows for entry in row])
    flat = jnp.stack(entries, axis=-1)
    return flat.reshape(*flat.shape[:-1], len(rows), len(rows[0]))


def matmul(a: Array, b: Array) -> Array:
    """Product of small matrices as multiplications and a sum, which fuse in a compiled loop."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def matvec(a: Array, v: Array) -> Array:
    """Small matrix times vector."""
    return jnp.sum(a * v[..., None, :], axis=-1)


def hat(w: Array) -> Array:
    """ω̂ with ω̂ v = ω × v, shape=[..., 3, 3]."""
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    zero = jnp.zeros_like(x)
    return matrix([[zero, -z, y], [z, zero, -x], [-y, x, zero]])


def vee_skew(m: Array) -> Array:
    """(m − mᵀ)^∨: twice the vector of the skew part, shape=[..., 3]."""
    return vector(
        m[..., 2, 1] - m[..., 1, 2],
        m[..., 0, 2] - m[..., 2, 0],
        m[..., 1, 0] - m[..., 0, 1],
    )


def cross(a: Array, b: Array) -> Array:
    """a × b, shape=[..., 3]."""
    (a1, a2, a3), (b1, b2, b3) = (jnp.split(x, 3, axis=-1) for x in (a, b))
    return jnp.concatenate([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis=-1)


def transpose(m: Array) -> Array:
    """Transpose of the last two axes."""
    return jnp.swapaxes(m, -1, -2)

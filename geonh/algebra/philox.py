"""Random numbers as functions of a seed and an index: normal numbers of the counter-based generator Philox4x32-10.

There is no state: number i of a seed is computed wherever it is needed, by any member of an ensemble, in any order.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", *SC '11*, §3.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
"""Increments of the key from round to round."""
WORD = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[Array, ...]:
    """Four random words of 32 bits, from a counter of four and a key of two; words are the lower halves of uint64."""
    a, b, c, d = counter
    for number in range(ROUNDS):
        k, m = ((word + np.uint64(number * step % 2**32)) & WORD for word, step in zip(key, WEYL, strict=True))
        p, q = np.uint64(MULTIPLIERS[0]) * a, np.uint64(MULTIPLIERS[1]) * c
        a, b, c, d = (q >> HALF) ^ b ^ k, q & WORD, (p >> HALF) ^ d ^ m, p & WORD
    return a, b, c, d


def normals(seed: Array, index: Array, size: int) -> Array:
    """Independent standard normal numbers, shape=[size], of a seed and an index, single integers of 64 bits.

    By the transformation of Box and Muller of uniform numbers with 52 bits: at most 8.5 in size.
    """
    pairs = jnp.arange((size + 1) // 2, dtype=jnp.uint64)
    i, s = (jnp.reshape(n, ()).astype(jnp.uint64) for n in (index, seed))
    zero = jnp.zeros_like(pairs)
    words = philox((zero + (i & WORD), zero + (i >> HALF), pairs, zero), (s & WORD, s >> HALF))
    radius = jnp.sqrt(-2 * jnp.log(_uniform(*words[:2])))
    angle = 2 * np.pi * _uniform(*words[2:])
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=-1).reshape(-1)[:size]


def _uniform(high: Array, low: Array) -> Array:
    """Number in (0, 1) of two words."""
    bits = (high << np.uint64(20)) | (low >> np.uint64(12))
    return (bits.astype(jnp.float64) + 0.5) * 2.0**-52

"""Random numbers of a counter: published values, distribution, independence."""

import jax
import numpy as np
from scipy import stats

from geonh.algebra.philox import normals, philox
from geonh.arguments.precision import float64
from geonh.engine import mapped

PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counters, keys and words of Philox4x32-10 in the files of Random123."""


def _five(seed, index):
    return normals(seed, index, 5)


def _drawn(seed, index):
    return mapped(_five, np.int64(seed), index)


def test_published_words():
    with float64():
        for counter, key, words in PUBLISHED:
            assert tuple(map(int, philox(tuple(map(np.uint64, counter)), tuple(map(np.uint64, key))))) == words


def test_they_are_normal_and_independent():
    z = _drawn(7, np.arange(40_000))
    assert z.shape == (40_000, 5)
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 4 / np.sqrt(40_000)
    assert np.abs(np.corrcoef(z.T) - np.eye(5)).max() < 4 / np.sqrt(40_000)
    others = _drawn(8, np.arange(40_000))
    assert abs(np.corrcoef(z[:, 0], others[:, 0])[0, 1]) < 4 / np.sqrt(40_000)
    assert np.abs(np.corrcoef(z[:, 0] ** 2, others[:, 0] ** 2)[0, 1]) < 4 / np.sqrt(40_000)


def test_numbers_of_far_and_negative_indices_differ_and_are_those_of_jax():
    far = np.array([0, 1, -1, 2**32, 2**32 + 1, 2**62, -(2**62)])
    for seed in (0, 1, 2**32, 2**63 - 1):
        z = _drawn(seed, far)
        assert len(np.unique(z)) == z.size
        with float64():
            plain = jax.vmap(lambda i, seed=seed: normals(np.int64(seed), i, 5))(far)
        np.testing.assert_allclose(z, plain, rtol=1e-13)

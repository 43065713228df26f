"""Random starts and parameters: each value depends only on the seed, a name and the index of the member.

They come from Philox, a counter-based generator (Salmon, Moraes, Dror, Shaw, SC11 (2011) 16). The uniform numbers of a
member have a position in the sequence given by its index, and are mapped by the inverse distribution function. They do
not depend on the number of workers or members, nor on the order of computation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from geonh.arguments.validators import refuse_infinite, shortly
from geonh.engine import mapped
from geonh.mechanics.system import System

BLOCK = 1024
"""Number of members whose values are generated together."""


@dataclass(frozen=True)
class Near:
    """Random group elements near a given one: g·exp(η) with η drawn; an argument for ``g0`` of ``solve_ensemble``.

    Parameters
    ----------
    g : point of the group
        Centre.
    spread : distribution
        Distribution of η, shape=[n]; frozen, of ``scipy.stats``, such as ``scipy.stats.norm(0, 0.1)``.

    Raises
    ------
    TypeError
        If ``spread`` is no distribution.
    ValueError
        If ``g`` is not finite.
    """

    g: Any
    spread: Any

    def __post_init__(self) -> None:
        refuse_infinite(self.g, "g")
        _inverse(self.spread, "spread")


def is_drawn(value: Any) -> bool:
    """True for a distribution, or a ``Near``."""
    return isinstance(value, Near) or any(hasattr(value, name) for name in ("ppf", "icdf", "rvs"))


def uniforms(seed: int, name: str, start: int, stop: int, width: int) -> np.ndarray:
    """Uniform numbers in (0, 1) for members ``start`` to ``stop``, shape=[members, width]."""
    key = np.frombuffer(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:16], np.uint64)
    first, last = start // BLOCK, -(-stop // BLOCK)
    blocks = [
        np.random.Philox(key=key, counter=[0, 0, block, 0]).random_raw(BLOCK * width) for block in range(first, last)
    ]
    raw = np.concatenate(blocks).reshape(-1, width)[start - first * BLOCK : stop - first * BLOCK]
    return ((raw >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53


def drawn(value: Any, system: System, one: Any, seed: int, name: str, start: int, stop: int) -> Any:
    """Sample a distribution for some members; the result is like ``one`` with a first axis of members. Raises TypeError
    or ValueError if the distribution does not give numbers of that shape.
    """
    if name == "g0":
        spread = value.spread if isinstance(value, Near) else value
        about = value.g if isinstance(value, Near) else one
        eta = _numbers(spread, (system.group.dim,), seed, name, start, stop)
        return mapped(_moved, (system.group,), (jax.tree.map(lambda a: np.repeat(a[None], len(eta), 0), about), eta))
    if isinstance(value, Near):
        raise TypeError(f"{name} is no point of the group: give a distribution, such as scipy.stats.norm(0, 1)")
    shape = np.shape(np.asarray(one))
    values = _numbers(value, shape, seed, name, start, stop)
    return _as_lists(values, one)


def _numbers(distribution: Any, shape: tuple[int, ...], seed: int, name: str, start: int, stop: int) -> np.ndarray:
    inverse = _inverse(distribution, name)
    width = int(np.prod(shape, dtype=int))
    u = uniforms(seed, name, start, stop, width).reshape(-1, *shape)
    try:
        values = np.asarray(inverse(u), float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: the distribution does not give numbers of shape {list(shape)}: {error}") from error
    if values.shape != u.shape or not np.all(np.isfinite(values)):
        raise ValueError(f"{name}: the distribution does not give finite numbers of shape {list(shape)}")
    return values


def _inverse(distribution: Any, name: str) -> Callable:
    """Inverse of the distribution function. Raises TypeError, by name, if there is none."""
    inverse = getattr(distribution, "ppf", None) or getattr(distribution, "icdf", None)
    if inverse is None or isinstance(distribution, type):
        raise TypeError(
            f"{name} must be a distribution with a ppf or icdf for each number, such as scipy.stats.norm(0, 0.1), got "
            f"{shortly(distribution)}"
        )
    return inverse


def _moved(tree: tuple, node: tuple) -> Any:
    (group,), (g, eta) = tree, node
    return group.compose(g, group.exp(eta))


def _as_lists(values: np.ndarray, one: Any) -> Any:
    """Convert values to lists if ``one`` is a list."""
    if not isinstance(one, list | tuple):
        return values
    return type(one)(_as_lists(values[:, i], entry) for i, entry in enumerate(one))

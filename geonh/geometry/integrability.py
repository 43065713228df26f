"""Iterated brackets of a distribution: the growth vector, and the integrability test of Frobenius."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.action import Action
from geonh.geometry.distribution import Distribution
from geonh.numerics.precision import in_float64

Section = Callable[[Any], Array]


def local_frame(distribution: Distribution, x: Any, dim: int, parameters: Any = None) -> list[Section]:
    """Sections of D that are a basis of it at x: constant vectors projected onto D."""
    identity = jnp.eye(dim)
    at_x = np.asarray(distribution.P(identity, x, parameters))
    rank = round(float(np.trace(at_x)))
    basis = np.linalg.svd(at_x)[0][:, :rank].T

    def section(row: np.ndarray) -> Section:
        return lambda y: distribution.P(identity, y, parameters) @ row

    return [section(row) for row in basis]


@in_float64
def growth_vector(
    distribution: Distribution, action: Action, x: Any, parameters: Any = None, *, tol: float = 1e-9
) -> tuple[int, ...]:
    """Dimensions of D ⊂ D + [D, D] ⊂ … at x, until they stop growing.

    Parameters
    ----------
    distribution : Distribution
        D; of an affine distribution, the linear one it is modelled on.
    action : Action
        The action groupoid whose algebroid bracket is iterated.
    x : base point
        Where.
    tol : float
        Singular values below ``tol`` times the largest count as zero.

    Returns
    -------
    tuple of int
        For instance (2, 3) for a contact distribution; of length one if D is integrable.
    """
    frame = local_frame(distribution, x, action.group.dim, parameters)
    sections, newest = list(frame), list(frame)
    growth = [len(frame)]
    while growth[-1] < action.group.dim:
        newest = [action.bracket(X, Y) for X in frame for Y in newest]
        sections += newest
        values = np.stack([np.asarray(X(x)) for X in sections])
        singular = np.linalg.svd(values, compute_uv=False)
        rank = int(np.sum(singular > tol * singular[0]))
        if rank == growth[-1]:
            break
        growth.append(rank)
    return tuple(growth)


def is_integrable(distribution: Distribution, action: Action, x: Any, parameters: Any = None) -> bool:
    """Whether [D, D] ⊂ D at x (Frobenius): whether the constraints are, there, holonomic."""
    return len(growth_vector(distribution, action, x, parameters)) == 1

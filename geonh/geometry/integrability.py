r"""Iterated brackets of a distribution: the growth vector, and the integrability test of Frobenius.

Around a group element g₀ the sections of D are vector fields on G, in the coordinates g₀·exp(η)

    F_a(η) = ψ(ad_η) X_a(g₀·exp(η)),   ψ(z) = z/(1 − e⁻ᶻ),

and the algebroid's bracket is that of vector fields. To bracket k times at η = 0 one needs their Taylor polynomials of
degree k alone. Those of the forms or of the frame come from derivatives along lines (Taylor-mode differentiation of
the user's functions, compiled); the rest is arithmetic of polynomials, without nested derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import comb, factorial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from jax.experimental.jet import jet

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_part, shortly
from geonh.engine import mapped
from geonh.geometry.distribution import rank_fault
from geonh.geometry.polynomials import Polynomials, polynomials

DEGREES = (2, 4, 7)
"""Degrees of the Taylor polynomials, tried in turn: up to 3, 5 and 8 steps."""
LARGEST = 2000
"""Maximum number of monomials of one degree."""
NEARBY = 0.1
"""Distance, in canonical coordinates, of the nearby point used to detect singular points."""


class GrowthVector(tuple[int, ...]):
    """Growth vector: dimensions of D ⊂ D + [D, D] ⊂ …, a tuple with the data of its computation.

    Attributes
    ----------
    point : point of the group
        Base point of the computation.
    tolerance : float
        Relative size below which a part of a bracket counts as zero.
    complete : bool
        True if the sequence has ended; if not, it was truncated, and points nearby have a greater rank.
    """

    point: Any
    tolerance: float
    complete: bool

    def __str__(self) -> str:
        end = "" if self.complete else f", truncated after {len(self)} steps"
        return f"({', '.join(map(str, self))}) at g0 = {_written(self.point)}, tolerance {self.tolerance:g}{end}"


@dataclass(frozen=True, eq=False)
class Integrability:
    """Result of the Frobenius test at a point; its truth value is ``holds``.

    Attributes
    ----------
    holds : bool
    point : point of the group
    tolerance : float
    largest : float
        The largest part of a bracket [X, Y] outside D, relative to the size of X and Y around there.
    """

    holds: bool
    point: Any
    tolerance: float
    largest: float

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = "integrable" if self.holds else "not integrable"
        return (
            f"{verdict} at g0 = {_written(self.point)}: the largest part of a bracket outside D is {self.largest:.2g}, "
            f"tolerance {self.tolerance:g}"
        )

    __repr__ = __str__


@validated
def growth_vector(
    system: Any,
    g0: Any = None,
    *,
    tol: float = 1e-9,
    progress: Callable[[int, int], None] | None = None,
) -> GrowthVector:
    """Growth vector: dimensions of D ⊂ D + [D, D] ⊂ D + [D, D] + [D, [D, D]] ⊂ … at a point, until they stop growing.

    Parameters
    ----------
    system : System
        With constraints; of an affine distribution its linear part is used.
    g0 : point of the group, optional
        Base point; the identity when left out.
    tol : float
        Tolerance for zero, relative to the size of the fields around the point.
    progress : callable, optional
        ``progress(steps, dimension)``, called during long computations.

    Returns
    -------
    GrowthVector
        For instance (2, 3) for a contact distribution; of length one if D is integrable. At a singular point a
        dimension may repeat.

    Raises
    ------
    TypeError
        If ``system`` is not a system, or has no constraints.
    ValueError
        If ``g0`` is not a point of the group, the constraints are dependent there, or ``tol`` is not in (0, 1).

    Notes
    -----
    The sequence has ended when it reaches the dimension at which it stops at a point nearby.
    """
    system, point = system_parts(system, g0)
    group = system.group
    tol = as_part(tol, "tol")
    rng = np.random.default_rng(1)
    with float64():
        nearby = group.compose(point, group.exp(jnp.asarray(NEARBY * rng.normal(size=group.dim))))
    dimensions, complete = [0], False
    for degree in DEGREES:
        if comb(group.dim + degree - 1, degree) > LARGEST:
            break
        dimensions = filtration(system, point, degree, tol).dimensions
        around = filtration(system, nearby, degree, tol).dimensions
        if progress is not None:
            progress(len(dimensions), dimensions[-1])
        stops = next((b for a, b in pairwise(around) if a == b), None)
        final = group.dim if group.dim in around else stops
        complete = final is not None and dimensions[-1] == final
        if complete:
            break
    growth = GrowthVector(dimensions[: dimensions.index(dimensions[-1]) + 1])
    growth.point, growth.tolerance, growth.complete = point, tol, complete
    return growth


class Filtration(NamedTuple):
    """Dimensions of D ⊂ D + [D, D] ⊂ … at a point, and the largest part of a first bracket outside D."""

    dimensions: list[int]
    largest: float


@validated
def is_integrable(system: Any, g0: Any = None, *, tol: float = 1e-9) -> Integrability:
    """Frobenius test of [D, D] ⊂ D at a point: true if the constraints are holonomic there.

    Parameters
    ----------
    system : System
        With constraints; of an affine distribution its linear part is used.
    g0 : point of the group, optional
        Base point; the identity when left out.
    tol : float
        Tolerance for zero, relative to the size of the fields around the point.

    Returns
    -------
    Integrability
        True or false, with the point and the tolerance, which its text contains.

    Raises
    ------
    TypeError
        If ``system`` is not a system, or has no constraints.
    ValueError
        If ``g0`` is not a point of the group, the constraints are dependent there, or ``tol`` is not in (0, 1).
    """
    system, point = system_parts(system, g0)
    tol = as_part(tol, "tol")
    flag = filtration(system, point, 1, tol)
    return Integrability(flag.dimensions[0] == flag.dimensions[-1], point, tol, flag.largest)


def system_parts(system: Any, g0: Any) -> tuple[Any, Any]:
    """The system with independent rows, and the point; TypeError or ValueError if there is no such thing."""
    if not (hasattr(system, "distribution") and hasattr(system, "action")):
        raise TypeError(f"a System is needed (and a point g0 of its group), got {shortly(system)}")
    if system.distribution is None:
        raise TypeError(f"{system.name} has no constraints: its distribution is the whole tangent bundle")
    with float64():
        point = system.point(g0)
        system = system.with_rank_at(point)
        system = system.holding(system.action.at(point))
        fault = rank_fault(system.name, np.asarray(system.rows(system.action.at(point))), "at g0")
    if fault:
        raise ValueError(fault)
    return system, point


def filtration(system: Any, point: Any, degree: int, tol: float) -> Filtration:
    """Filtration by brackets at a point, of 1, …, degree + 1 steps."""
    algebra = polynomials(system.group.dim, degree)
    frame = [field / np.abs(field).max() for field in _fields(system, point, algebra)]
    basis = np.linalg.qr(np.stack([field[:, 0] for field in frame]).T)[0]
    ranks, newest, largest = [basis.shape[1]], frame, 0.0
    for step in range(degree):
        newest = _independent([algebra.bracket(X, Y, degree - 1 - step) for X in frame for Y in newest], tol)
        values = np.stack([field[:, 0] for field in newest]) if newest else np.zeros((0, len(basis)))
        outside = values - values @ basis @ basis.T
        _, sizes, directions = np.linalg.svd(outside, full_matrices=False)
        largest = max(largest, sizes.max(initial=0.0)) if step == 0 else largest
        basis = np.linalg.qr(np.concatenate([basis, directions[sizes > tol].T], axis=1))[0]
        ranks.append(basis.shape[1])
        if ranks[-1] == system.group.dim:
            break
    return Filtration(ranks, float(largest))


def _fields(system: Any, point: Any, algebra: Polynomials) -> np.ndarray:
    """Frame of D around a point as polynomial vector fields, shape=[r, n, N]."""
    degree = int(algebra.degrees[-1])
    with float64():
        x = jax.tree.map(np.asarray, system.action.at(point))
    rows = algebra.fitted(lambda lines: mapped(_along, _Expansion(system, x, degree), lines))
    if system.distribution.forms is None:
        sections = rows
    else:
        m = len(rows)
        vectors = np.linalg.svd(rows[..., 0])[2]  # first the rows' span at the point, then its annihilator
        across, along = (np.einsum("ijn,kj->ikn", rows, part) for part in (vectors[:m], vectors[m:]))
        Z = algebra.solve(across, along)
        sections = -np.einsum("man,mj->ajn", Z, vectors[:m])
        sections[..., 0] += vectors[m:]
    return algebra.matrix_product(sections, np.swapaxes(_psi(system.group, algebra, degree), 0, 1))


class _Expansion(NamedTuple):
    """Taylor expansion of the rows of a distribution about a base point, up to a degree."""

    system: Any
    x: Any
    degree: int


def _along(expansion: _Expansion, line: Array) -> Array:
    """Derivatives of orders 0, …, degree of the forms or of the frame along x·exp(t·line), shape=[degree + 1, k, n]."""
    system, x, degree = expansion
    distribution, action = system.distribution, system.action
    if system.is_nonlinear:
        distribution.annihilator(x)  # which says why there is no distribution
    field = distribution.frame if distribution.forms is None else distribution.forms

    def rows(t: Array) -> Array:
        return field(action.act(x, system.group.exp(t * line)), system.parameters)

    value, higher = jet(rows, (jnp.zeros(()),), ([jnp.ones(())] + [jnp.zeros(())] * (degree - 1),))
    return jnp.stack([value, *higher])


def _psi(group: Any, algebra: Polynomials, degree: int) -> np.ndarray:
    """ψ(ad_η) = Σ B_k (ad_η)ᵏ/k! with B₁ = ½, shape=[n, n, N]: the velocity of η is ψ(ad_η)ξ."""
    n = group.dim
    ad = np.zeros((n, n, len(algebra.degrees)))
    for i in range(n):
        ad[:, :, 1 + i] = group.structure_constants[:, i, :]
    total, power = np.zeros_like(ad), np.zeros_like(ad)
    power[..., 0] = total[..., 0] = np.eye(n)
    numbers = _BERNOULLI[: degree + 1]
    for k in range(1, degree + 1):
        power = algebra.matrix_product(ad, power)
        total = total + numbers[k] / factorial(k) * power
    return total


_BERNOULLI = (1.0, 1 / 2, 1 / 6, 0.0, -1 / 30, 0.0, 1 / 42, 0.0)


def _independent(fields: list[np.ndarray], tol: float) -> list[np.ndarray]:
    """Maximal linearly independent subset of the fields, normalised to size one; sizes below ``tol`` are rounding."""
    if not fields:
        return []
    matrix = np.stack([field.ravel() for field in fields], axis=1)
    _, upper, order = scipy.linalg.qr(matrix, mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(upper)) > tol))
    return [fields[i] / np.abs(fields[i]).max() for i in order[:rank]]


def _written(point: Any) -> str:
    return ", ".join(np.array2string(np.asarray(leaf), precision=6, separator=", ") for leaf in jax.tree.leaves(point))

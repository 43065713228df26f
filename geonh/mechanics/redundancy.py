r"""Redundant constraints: rows that depend on others everywhere along a motion.

A cart on four wheels has four forms of which two are independent, Bricard's mechanism six closure conditions with five
independent derivatives. The velocities that satisfy the rows, and so the projectors and the motion, are those of any
maximal independent subset. A system that knows its ``rank`` therefore computes with independent rows alone: those of
``chosen``, by elimination with pivots relative to the rows' own sizes, at the beginning of each step, and the same
ones throughout the step (``holding``). A subset fixed for a whole run would not do: of three rows that span a plane
the two chosen may become parallel, where the third would serve.

The constraint force μᵀλ is determined, its parts λ_iμ_i are not. Of all multipliers of the force,
``least_norm_multipliers`` returns those with the least sum of the squares of these parts in M⁻¹,

    Σ_i λ_i² (μM⁻¹μᵀ)_ii,     μᵀλ given,

which do not depend on the scale of the rows. The number of independent rows is constant along a run: a rank that drops
or rises ends it, and rows that contradict each other are refused at the start.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.elimination import BY_ROWS
from geonh.algebra.linear import orthonormal_forms, solve_spd
from geonh.arguments.precision import float64
from geonh.engine import computed
from geonh.geometry.distribution import DEPENDENT, rank_fault

PIVOT_RATIO = 0.1
"""A row is chosen before later ones if its independent part, relative to its size, is at least this fraction of the
largest."""
RISE = 1e-6
"""Independent part of a row outside of the choice, relative to its size, at which the rank has risen."""
UNDETERMINED = (
    "multiplier_forces need independent ones, as the multipliers of redundant ones are not determined; leave those out"
)
REMAINDER = 1e-12
"""Relative size of a dependent row's remainder that is rounding; of φ it is that of the point's distance."""
CONSISTENT = 1e-9
"""Largest residual of a consistent constraint."""
DISPLACEMENTS = (1e-2, 1e-4)
"""Lengths of the displacements along the constraints at which the rank is compared."""


class Rank(NamedTuple):
    """Numbers of independent rows: of φ, and of the forms beside them."""

    positions: int
    forms: int

    @property
    def total(self) -> int:
        return self.positions + self.forms


class Choice(NamedTuple):
    """Independent rows at a point.

    Attributes
    ----------
    positions : Array, shape=[k', k]
        Matrix of zeros and ones that selects them among the rows of φ.
    forms : Array, shape=[m', m]
        The same among the forms.
    excess : Array, shape=[]
        Largest part of the other rows, relative to their sizes, or of their right-hand sides, that does not follow.
    """

    positions: Array
    forms: Array
    excess: Array


def chosen(system: Any, x: Any) -> Choice:
    """Choose independent rows at a base point, of a system with a ``rank``."""
    rank, k = system.rank, len(system.holonomic_residual(x))
    augmented = jnp.concatenate([system.annihilator(x), system.right_hand_side(x)[:, None]], axis=1)
    rows, excess = _pivoted(lax.stop_gradient(augmented), k, rank)
    return Choice(rows[: rank.positions, :k], rows[rank.positions :, k:], excess)


def _pivoted(augmented: Array, k: int, rank: Rank) -> tuple[Array, Array]:
    """Selection of independent rows of [μ | b], and the ``excess`` of the others; first of the k rows of φ."""
    m, n = augmented.shape[0], augmented.shape[1] - 1
    sizes = jnp.sum(augmented[:, :n] ** 2, axis=1)
    inverses = jnp.where(sizes > 0, 1 / sizes, 0.0)
    largest = jnp.max(augmented[:, n] ** 2 * inverses)
    of_positions = np.arange(m) < k

    def eliminate(i: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, rows = carry
        allowed = jnp.where(i < rank.positions, of_positions, ~of_positions)
        independent = jnp.where(allowed, jnp.sum(left[:, :n] ** 2, axis=1) * inverses, -1.0)
        pivot = jnp.arange(m) == jnp.argmax(independent >= PIVOT_RATIO**2 * jnp.max(independent))
        row = jnp.where(pivot, 1.0, 0.0) @ left
        along = left[:, :n] @ row[:n] * (1 / (row[:n] @ row[:n]))
        left = jnp.where(pivot[:, None], 0.0, left - jnp.outer(along, row))
        return left, rows.at[i].set(jnp.where(pivot, 1.0, 0.0))

    left, rows = augmented, jnp.zeros((rank.total, m))
    if m < BY_ROWS:
        for i in range(rank.total):
            left, rows = eliminate(i, (left, rows))
    else:
        left, rows = lax.fori_loop(0, rank.total, eliminate, (left, rows))
    squares = jnp.sum(left[:, :n] ** 2, axis=1) * inverses
    inconsistency = left[:, n] ** 2 * inverses / jnp.where(largest > 0, largest, 1.0)
    return rows, jnp.sqrt(jnp.max(jnp.maximum(squares, inconsistency)))


def holding(system: Any, x: Any) -> Any:
    """System with the rows alone that are chosen at a base point; itself if all of its rows are independent."""
    if system.rank is None:
        return system
    choice, held = chosen(system, x), with_rank(system, None)
    if system.holonomic is not None:
        held = eqx.tree_at(lambda s: s.holonomic, held, system.holonomic.of_rows(choice.positions))
    if system.distribution is None:
        return held
    D = None if system.rank.forms == 0 else system.distribution.of_rows(choice.forms)
    return eqx.tree_at(lambda s: s.distribution, held, D)


def excess(system: Any, x: Any) -> Array:
    """``excess`` of the rows that are not chosen at a base point, scalar; zero if all are independent."""
    return jnp.zeros(()) if system.rank is None else chosen(system, x).excess


def least_norm_multipliers(system: Any, x: Any, M: Array, lam: Array) -> Array:
    """Multipliers of all rows, shape=[m], of least norm, from those of the rows chosen, shape=[r], at a base point."""
    if system.rank is None:
        return lam
    held, mu = system.holding(x), system.annihilator(x)
    lifts = orthonormal_forms(M, held.annihilator(x), held.right_hand_side(x)).lifts
    B = mu @ lifts.T  # μ = BN, so that the sizes of the rows in M⁻¹ are those of the rows of B
    squares = jnp.sum(B**2, axis=1)
    sizes = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))  # a row that vanishes somewhere has no multiplier there
    B = B / sizes[:, None]
    return B @ solve_spd(B.T @ B, lifts @ held.reaction(x, lam)) / sizes


# --- at the start ------------------------------------------------------------------------------------------
class Dependence(NamedTuple):
    """Rank of rows at a point, the rows chosen, the remainders of the others relative to their sizes, and, for each of
    these, its coefficients in the rows chosen, shape=[m − r, r]."""

    rank: Rank
    kept: np.ndarray
    others: np.ndarray
    remainders: np.ndarray
    coefficients: np.ndarray


def dependence(rows: np.ndarray, k: int) -> Dependence:
    """Analyse rows, shape=[m, n], the first k those of φ, by the elimination of ``chosen``."""
    rows, m = np.asarray(rows), len(rows)
    sizes = np.linalg.norm(rows, axis=1)
    left = rows / sizes[:, None]
    kept: list[int] = []
    counts: list[int] = []
    for first, last in ((0, k), (k, m)):
        before = len(kept)
        while first < last:
            independent = np.linalg.norm(left[first:last], axis=1)
            if independent.max() <= DEPENDENT:
                break
            pivot = first + int(np.argmax(independent >= PIVOT_RATIO * independent.max()))
            unit = left[pivot] / np.linalg.norm(left[pivot])
            left = left - np.outer(left @ unit, unit)
            left[pivot] = 0.0
            kept.append(pivot)
        counts.append(len(kept) - before)
    others = np.setdiff1d(np.arange(m), kept)
    coefficients = np.linalg.lstsq(rows[kept].T, rows[others].T, rcond=None)[0].T
    return Dependence(Rank(*counts), np.array(kept, int), others, np.linalg.norm(left[others], axis=1), coefficients)


def with_known_rank(system: Any, t: Any, g: Any, rows: np.ndarray, where: str = "at g0") -> Any:
    """System with the number of its independent rows at a point, where the rows, shape=[m, n], are given; itself if all
    are independent, or the metric is no metric there, which other checks report.

    Raises
    ------
    ValueError
        If rows are dependent at the point only, contradict others, or are as many as ``rank`` does not say.

    Warns
    -----
    UserWarning
        If rows depend on others, naming them, unless the system was constructed with its ``rank``.
    """
    if system.is_nonlinear or not _may_depend(system, rows):
        return system
    place = computed(_place, system, (g, np.float64(t)))
    if system.rank is not None and np.abs(place.phi).max(initial=0.0) > CONSISTENT:
        return system  # where φ ≠ 0 the rank may be another
    names = [f"holonomic[{i}]" for i in range(len(place.phi))]
    names += [f"forms[{i}]" for i in range(len(rows) - len(names))]
    relations = dependence(rows, len(place.phi))
    if system.rank is not None and system.rank != relations.rank:
        raise ValueError(_wrong_rank(system, relations, names, where))
    if not len(relations.others) or not np.all(np.linalg.eigvalsh(place.M) > 0):
        return system
    ranked = with_rank(system, relations.rank)
    fault = _contradiction(system, relations, place, names, where)
    if not fault and system.multiplier_forces is not None:
        fault = f"constraints of {system.name} are redundant {where}: {UNDETERMINED}"
    if not fault and system.rank is None:
        fault = _singularity(ranked, t, g, relations, place, where)
    if fault:
        raise ValueError(fault)
    if system.rank is None:
        warnings.warn(_warning(system, relations, names, where), stacklevel=6)
    return ranked


def with_rank_near(system: Any, t: Any, g: Any) -> Any:
    """``with_known_rank``, where rows are not known yet; off φ = 0 the number of independent rows is a first guess."""
    if system.rank is not None or not _has_many_rows(system):
        return system
    place = computed(_place, system, (g, np.float64(t)))
    if np.abs(place.phi).max(initial=0.0) <= CONSISTENT:
        return with_known_rank(system, t, g, place.rows)
    may_depend = _may_depend(system, place.rows)
    return with_rank(system, dependence(place.rows, len(place.phi)).rank) if may_depend else system


def _has_many_rows(system: Any) -> bool:
    """True if the system has two rows or more, of φ and of forms."""
    if not system.is_constrained or system.is_nonlinear or _is_of_frame(system):
        return False
    with float64():
        rows = eqx.filter_eval_shape(lambda s: s.annihilator(s.at(s.group.identity(), 0.0)), system)
    return len(rows) > 1


def _is_of_frame(system: Any) -> bool:
    return system.distribution is not None and not system.is_nonlinear and system.distribution.forms is None


def _may_depend(system: Any, rows: np.ndarray) -> bool:
    """True unless the rows, shape=[m, n], are independent, or no rows of forms."""
    if _is_of_frame(system) or len(rows) < 2:
        return False
    if not np.all(np.isfinite(rows)) or not np.all(np.linalg.norm(rows, axis=1) > 0):
        return False
    return system.rank is not None or bool(rank_fault(system.name, rows, ""))


class _Place(NamedTuple):
    """Mass matrix, rows, right-hand sides and φ at a point."""

    M: Any
    rows: Any
    right: Any
    phi: Any


def _place(system: Any, node: tuple) -> _Place:
    x = system.at(*node)
    return _Place(system.mass_matrix(x), system.annihilator(x), system.right_hand_side(x), system.holonomic_residual(x))


def _sources(relations: Dependence, names: list[str], i: int) -> str:
    """The rows chosen that a dependent row consists of, in words."""
    weights = relations.coefficients[i]
    used = np.flatnonzero(np.abs(weights) > CONSISTENT * np.abs(weights).max(initial=0.0))
    return ", ".join(names[j] for j in sorted(relations.kept[used]))


def _followers(relations: Dependence, names: list[str]) -> list[str]:
    """Sentences that name the dependent rows, and the rows from which they follow."""
    return [f"{names[j]} follows from {_sources(relations, names, i)}" for i, j in enumerate(relations.others)]


def _contradiction(system: Any, relations: Dependence, place: _Place, names: list[str], where: str) -> str:
    """Description of dependent rows whose right-hand sides, or whose φ, do not follow from the others'; "" if none."""
    for i, j in enumerate(relations.others):
        weights = relations.coefficients[i]
        wanted, scale = weights @ place.right[relations.kept], np.abs(weights) @ np.abs(place.right[relations.kept])
        if abs(place.right[j] - wanted) > CONSISTENT * max(abs(place.right[j]) + scale, np.abs(place.right).max()):
            return (
                f"the constraints of {system.name} contradict each other {where}: {names[j]} follows from "
                f"{_sources(relations, names, i)}, which make its right-hand side {wanted:.12g}, and it is "
                f"{place.right[j]:.12g}"
            )
    phi = np.abs(place.phi)
    kept = relations.kept[: relations.rank.positions]
    if phi[kept].max(initial=0.0) <= CONSISTENT:
        for i, j in enumerate(relations.others):
            if j < len(phi) and phi[j] > CONSISTENT:
                return (
                    f"the constraints of {system.name} contradict each other {where}: {names[j]} depends on "
                    f"{_sources(relations, names, i)}, and is {place.phi[j]:.6g} where these are zero"
                )
    return ""


def _singularity(ranked: Any, t: Any, g: Any, relations: Dependence, place: _Place, where: str) -> str:
    """Description of rows that are dependent at a point, but not about it on the constraints; "" if there are none."""
    on = np.abs(place.phi).max(initial=0.0) <= CONSISTENT
    rounding = DEPENDENT if len(place.phi) else REMAINDER
    if np.all(relations.remainders <= rounding) and (
        not on or all(_has_same_dependence(ranked, t, g, relations, v) for v in _directions(ranked))
    ):
        return ""
    return (
        f"the constraints of {ranked.name} are dependent {where}: rows {place.rows.tolist()}, though not about it: the "
        "configuration is singular, and the constraint force is not determined; start elsewhere"
    )


def _directions(system: Any) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, system.group.dim))


def _has_same_dependence(ranked: Any, t: Any, g: Any, relations: Dependence, direction: np.ndarray) -> bool:
    """True if the same rows depend on the others after a small displacement along the constraints."""
    for length in DISPLACEMENTS:
        there = computed(_moved, ranked, (g, np.float64(t), length * direction))
        try:
            there = ranked.project_position(there, t)
        except ValueError:
            continue
        place = computed(_place, with_rank(ranked, None), (there, np.float64(t)))
        other = dependence(place.rows, len(place.phi))
        return other.rank == relations.rank and not _contradiction(ranked, other, place, [""] * len(place.rows), "")
    return False


def _moved(system: Any, node: tuple) -> Any:
    g, t, direction = node
    held = holding(system, system.at(g, t))
    x = held.at(g, t)
    along = held.projected_velocity(x, direction) - held.projected_velocity(x, jnp.zeros_like(direction))
    return held.group.compose(g, held.group.exp(along))


def _warning(system: Any, relations: Dependence, names: list[str], where: str) -> str:
    follow = "; ".join(_followers(relations, names))
    rank = relations.rank
    both = system.holonomic is not None and system.distribution is not None
    warned = f"({rank.positions}, {rank.forms})" if both else f"{rank.total}"
    return (
        f"constraints of {system.name} are redundant {where}: {follow}. The motion is that of the others, and the "
        f"multipliers are those of least norm; System(rank={warned}) says so and needs no warning"
    )


def _wrong_rank(system: Any, relations: Dependence, names: list[str], where: str) -> str:
    follow = _followers(relations, names)
    return (
        f"{system.name} has {relations.rank.positions} independent row(s) of holonomic= and {relations.rank.forms} of "
        f"the distribution beside them {where}, where rank= says {system.rank.positions} and {system.rank.forms}"
        f"{': ' if follow else ''}{'; '.join(follow)}"
    )


def with_rank(system: Any, rank: Rank | None) -> Any:
    """Copy of a system with another ``rank``; the system itself for its own."""
    if rank == system.rank:
        return system
    leaves, structure = jax.tree.flatten(system)
    copy = jax.tree.unflatten(structure, leaves)
    object.__setattr__(copy, "rank", rank)
    return copy

"""Validity checks of a metric, of constraints, of initial conditions; each returns a description, "" if valid.

Shared by ``solve`` and ``integrate`` for a start, ``project`` for a point, ``check`` for many.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.engine import computed, traced_once
from geonh.geometry.distribution import least_singular_value, rank_fault
from geonh.mechanics.holonomic import ON_HOLONOMIC, residual_scale
from geonh.mechanics.redundancy import excess, with_known_rank

OFF_GROUP = 1e-9
"""Largest distance of an admissible point from its group."""
OFF_CONSTRAINT = 1e-9
"""Largest admissible residual of the constraints, relative to 1 + |ξ|."""
EXCESS = 1e-8
"""Largest part of redundant rows, relative to their sizes, that does not follow from the others."""
OTHER_VELOCITY = 1e-5
"""Largest admissible defect, relative to |ξ|, of the inverse Legendre transform of the momentum of a velocity."""
SINGLE = 1e-5
"""Defect below which float32 rounding is the probable cause."""


class Facts(NamedTuple):
    """Quantities that decide whether a start is valid: distance off the group, ℓ, mass matrix, forms, rows that must be
    independent (forms or frame), the ``excess`` of the others, φ, residual of the normalised forms, velocity of the
    momentum, turn in a step."""

    gap: Array
    level: Array
    M: Array
    forms: Array
    rows: Array
    excess: Array
    phi: Array
    residual: Array
    again: Array
    turn: Array


@traced_once
def facts(system: Any, t: Any, g: Any, xi: Array, dt: Any) -> Facts:
    """Evaluate the facts of a start."""
    x = system.at(g, t)
    linear = system.linear_at(xi)
    forms = linear.annihilator(x)
    sizes = jnp.sqrt(jnp.sum(forms**2, axis=1))
    return Facts(
        system.group_defect(g),
        system.lagrangian(x, xi),
        system.mass_matrix(x, xi),
        forms,
        linear.holding(x).rows(x),
        excess(system, x),
        system.holonomic_residual(x),
        system.constraint_residual(x, xi) / jnp.where(sizes > 0, sizes, 1.0),
        xi if system.is_quadratic else system.velocity(x, system.momentum(x, xi)),
        jnp.asarray(system.group.turn(dt * xi), float),
    )


NEARLY_PARALLEL = 1e-5
"""Least singular value of unit rows below which five digits of sixteen are lost, which is reported."""


def digits_lost(system: Any, rows: np.ndarray) -> str:
    """Description of the digits lost by nearly parallel constraint rows at a start, shape=[m, n]; "" if few."""
    if len(rows) < 2:
        return ""
    least = least_singular_value(rows)
    if least >= NEARLY_PARALLEL:
        return ""
    return (
        f"the constraints of {system.name} are nearly parallel at g0: as unit rows they have the singular value "
        f"{least:.1g}, which costs about {-np.log10(least):.0f} of 16 digits; other rows of the same span cost none"
    )


def is_start(system: Any, t: Any, g: Any, xi: Array, dt: Any) -> Array:
    """True if a traced start, with a velocity of shape=[n], is on the group and the constraints and recovered from its
    momentum, to the accuracy of differences or single precision, and turns by less than π in a step; a bool, shape=[].
    """
    facts_at_start, size = facts(system, t, g, xi, dt), jnp.max(jnp.abs(xi))
    on = (
        (facts_at_start.gap <= SINGLE)
        & (facts_at_start.excess <= SINGLE)
        & (facts_at_start.turn < jnp.pi)
        & jnp.all(jnp.abs(facts_at_start.residual) <= SINGLE * (1.0 + size))
    )
    if system.holonomic is not None:
        scale = residual_scale(g, system.holonomic_rows(system.at(g, t)))
        on &= jnp.all(jnp.abs(facts_at_start.phi) <= SINGLE * scale)
    return on & jnp.all(jnp.abs(facts_at_start.again - xi) <= OTHER_VELOCITY * size)


def gap_of(group: Any, point: Any) -> Array:
    """Distance of a point off its group, in the signature of ``computed`` and ``mapped``."""
    return group.gap(point)


def sound_at(system: Any, t: float, g: Any, where: str) -> Any:
    """System with the number of its independent rows, as of ``with_known_rank``; ValueError for a fault of the metric
    or the constraints at a point.
    """
    M, rows = computed(_place, system, (np.float64(t), g))
    fault = metric_fault(system, M, where)
    known = system if fault else with_known_rank(system, t, g, rows, where)
    if fault := fault or (rank_fault(system.name, rows, where) if known.rank is None else ""):
        raise ValueError(fault)
    return known


def place_fault(system: Any, t: float, g: Any, where: str) -> str:
    """Description of a fault of the metric or the constraints at a point; "" if there is none."""
    try:
        sound_at(system, t, g, where)
    except ValueError as error:
        return str(error)
    return ""


def _place(system: Any, node: tuple) -> tuple[Array, Array]:
    x = system.at(node[1], node[0])
    return system.mass_matrix(x), system.rows(x)


def start_fault(system: Any, t: float, g: Any, xi: np.ndarray, dt: float, facts: Facts) -> str:
    """Description of a fault of a start."""
    if not facts.gap <= OFF_GROUP:
        return group_fault(system, g, float(facts.gap))
    fault = metric_fault(system, facts.M, "at g0") or rank_fault(system.name, facts.rows, "at g0")
    if fault:
        return fault
    if not facts.excess <= EXCESS:
        return f"{system.name} has more independent constraints at g0 than it has elsewhere, or rank= says"
    if not np.abs(facts.phi).max(initial=0.0) <= ON_HOLONOMIC:
        return (
            f"g0 does not satisfy the holonomic constraints of {system.name}: φ = {facts.phi}; "
            "g0, xi0 = system.project(g0, xi0) gives a place near that does, and a velocity there"
        )
    if not np.isfinite(facts.level):
        what = "potential" if system.potential is not None else "Lagrangian"
        return f"the {what} of {system.name} is not finite at g0 and xi0: the Lagrangian there is {facts.level:g}"
    worst, scale = np.abs(facts.residual).max(initial=0.0), 1.0 + np.abs(xi).max()
    if not worst <= OFF_CONSTRAINT * scale:
        hint = (_single_precision_note(xi) or _single_precision_note(g)) if worst < SINGLE * scale else ""
        pair = "" if system.holonomic is None else "g0, xi0 = "
        return (
            f"xi0 does not satisfy the constraints of {system.name} at g0: its forms, as unit vectors, have "
            f"residual {facts.residual}{hint}; "
            f"{pair}system.project(g0, xi0) gives the nearest velocity that does"
        )
    if not np.abs(facts.again - xi).max() <= OTHER_VELOCITY * np.abs(xi).max():
        return (
            f"xi0 = {xi} is not what its momentum determines for {system.name}: {facts.again} is. From ξ = 0 to where "
            "the system moves, the Lagrangian must be finite and its Hessian in ξ positive definite, well so"
        )
    if facts.turn >= np.pi:
        return f"xi0 turns the body by {facts.turn:.3g} rad in one step of dt = {dt:g}: past half a turn; lower dt"
    return ""


GROWN = 1e50
"""Velocity above which overflow is the probable fault."""


def no_numbers(system: Any, clock: Any, node: Any) -> list[str]:
    """Descriptions of the functions of a system that are not finite at a node, and of velocities close to overflow."""
    *values, size = computed(_values, (system, clock), (node.k, node.g, node.p_minus))
    what = "potential" if system.metric is not None else "Lagrangian"
    names = ("the metric", "the forms", f"the {what}", "the forces", "the metric", f"the {what}")
    unknown = [not np.isfinite(value).all() for value in values]
    parts = [name for name, no in zip(names[:4], unknown, strict=False) if no]
    slopes = [f"the derivative of {n} by the place" for n, no in zip(names[4:], unknown[4:], strict=True) if no]
    parts += [slope for slope in slopes if not any(part in slope for part in parts)]
    reasons = [f"{' and '.join(parts)} had no finite value"] if parts else []
    return [*reasons, f"the velocities had grown to {size:.0e}"] if size > GROWN else reasons


def _values(tree: tuple, node: tuple) -> tuple[Array, ...]:
    (system, clock), (k, g, p) = tree, node
    t = clock.time(k)
    x = system.at(g, t)
    xi = jnp.nan_to_num(system.velocity(x, p))
    size = jnp.max(jnp.abs(xi))
    slow = xi / (1.0 + size)  # so that an overflow of the kinetic energy is not taken for a fault of functions

    def level(x: Any) -> Array:
        return system.potential_energy(x) if system.metric is not None else system.lagrangian(x, slow)

    def kinetic(x: Any) -> Array:
        return slow @ system.mass_matrix(x, slow) @ slow if system.metric is not None else jnp.zeros(())

    force = system.force(t, x, xi, clock.control(k))
    slopes = system.coanchor(kinetic, x), system.coanchor(level, x)
    return system.mass_matrix(x, slow), system.linear_at(xi).rows(x), level(x), force, *slopes, size


def clearly_sound(xi: np.ndarray, facts: Facts) -> np.ndarray:
    """Mask of starts that need no check by ``start_fault``, shape=[N]; velocities and facts have a first axis of N."""
    rows, scale = facts.rows, 1.0 + np.abs(xi).max(axis=1)

    def largest(values: Any) -> np.ndarray:
        return np.abs(values).reshape(len(xi), -1).max(axis=1, initial=0.0)

    with np.errstate(all="ignore"):
        numbers = np.isfinite(facts.level) & np.isfinite(facts.M).all((1, 2)) & np.isfinite(rows).all((1, 2))
        sizes = np.linalg.norm(rows, axis=2, keepdims=True)
        near = (facts.excess <= EXCESS) & (facts.gap <= OFF_GROUP)
        near &= (largest(facts.phi) <= ON_HOLONOMIC) & (facts.turn < np.pi)
        near &= largest(facts.residual) <= OFF_CONSTRAINT * scale
        near &= largest(facts.again - xi) <= OTHER_VELOCITY * np.abs(xi).max(axis=1)
        M = np.where(numbers[:, None, None], facts.M, np.eye(facts.M.shape[1]))
        units = np.where(numbers[:, None, None] & (sizes > 0), rows / sizes, 0.0)
        proper = largest(M - np.swapaxes(M, 1, 2)) <= 1e-12 * largest(M)
        proper &= np.linalg.eigvalsh(M)[:, 0] > 0
        if rows.shape[1]:
            proper &= ((sizes > 1e-6) & (sizes < 1e6)).all((1, 2))
            proper &= np.linalg.svd(units, compute_uv=False)[:, -1] > 1e-6
    return numbers & near & proper


def group_fault(system: Any, g: Any, gap: float, name: str = "g0") -> str:
    """Error message for a point at that distance off the group."""
    if not np.isfinite(gap):
        return f"{name} does not lie on {system.group}, and is near no point of it"
    hint = _single_precision_note(g) if gap < SINGLE else ""
    return (
        f"{name} does not lie on {system.group}: it is {gap:.2g} away{hint}; system.group.project({name}) gives the "
        "nearest point that does"
    )


def metric_fault(system: Any, M: Any, where: str) -> str:
    """Description of a fault of a mass matrix, shape=[n, n]."""
    M = np.ascontiguousarray(M, np.float64)
    if _is_metric(M.tobytes(), len(M)):
        return ""
    kind = "metric" if system.given_metric is not None else "Hessian of the Lagrangian in ξ"
    named = f"the {kind} of {system.name} {where}"
    if not np.all(np.isfinite(M)):
        return f"{named} is not finite: {M.tolist()}"
    gaps = np.abs(M - M.T)
    if gaps.max(initial=0.0) > 1e-10 * np.abs(M).max(initial=0.0):
        i, j = np.unravel_index(np.argmax(gaps), gaps.shape)
        return f"{named} is not symmetric: entry [{i}, {j}] is {M[i, j]:.6g}, entry [{j}, {i}] is {M[j, i]:.6g}"
    values = np.linalg.eigvalsh(M)
    if -values[0] <= 1e-12 * values[-1]:
        return (
            f"{named} is degenerate, with eigenvalues {values}: some velocity has no inertia, so the momentum does not "
            "determine it; leave that coordinate out, or give it an inertia"
        )
    return f"{named} is not positive definite: its least eigenvalue is {values[0]:.3g}"


@functools.lru_cache
def _is_metric(data: bytes, n: int) -> bool:
    """True if a matrix, shape=[n, n], is symmetric and positive definite.

    It is known of the last ones, since many systems have a constant metric.
    """
    M = np.frombuffer(data).reshape(n, n)
    if not np.all(np.isfinite(M)) or np.abs(M - M.T).max(initial=0.0) > 1e-10 * np.abs(M).max(initial=0.0):
        return False
    return bool(np.linalg.eigvalsh(M)[0] > 0)


def _single_precision_note(*values: Any) -> str:
    """Hint for an error message if all of these slightly wrong numbers are exact in float32; "" if not."""
    arrays = [np.asarray(leaf, float) for leaf in jax.tree.leaves(values)]
    if not all(np.array_equal(a, a.astype(np.float32)) for a in arrays):
        return ""
    return (
        "; all its numbers are exact in float32, so it seems computed in single precision: compute it inside "
        "`with geonh.float64():`, or in NumPy"
    )

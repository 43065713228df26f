"""Systems of shapes: of Chaplygin systems without their constraints, of others at momenta of horizontal symmetries."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.echelon import NEGLIGIBLE, echelon, rank_of
from geonh.analysis.chaplygin import PARALLEL, Chaplygin
from geonh.analysis.lifting import Reduction
from geonh.analysis.rebased import rebased
from geonh.analysis.routh import (
    MOMENTUM,
    Routh,
    RouthDrift,
    RouthForces,
    RouthForms,
    RouthFunction,
    RouthMetric,
    refuse_power,
)
from geonh.analysis.shapes import ShapeForces, ShapeIntegral, ShapeMetric, ShapePotential, Shapes
from geonh.analysis.states import random_states
from geonh.arguments.validators import as_float64
from geonh.engine import mapped
from geonh.geometry.cosets import Cosets, Representative
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.motions import dimensions
from geonh.groups.base import Point
from geonh.groups.translations import Torus, Translations
from geonh.mechanics.holonomic import refuse_holonomic
from geonh.mechanics.momentum import generators_or_default
from geonh.mechanics.symmetry import horizontal_symmetries, symmetries_among, symmetries_with_forces
from geonh.mechanics.system import FirstIntegral, System, with_parameters

NEARBY = 0.1
"""Relative change of the parameters for which symmetries of a reduced system must hold too."""
STATES = 4
"""Number of random states at which affine parts and first integrals are tested."""


def to_shapes(system: System, rows: np.ndarray, chosen: bool) -> Reduction:
    """Reduction to the shapes of a Chaplygin system, by as many of the symmetries as needed, or all if given."""
    refuse_holonomic(system, "the elimination of constraints")
    if system.distribution is None:
        raise ValueError(f"{system.name} has no constraints to eliminate")
    if not system.is_quadratic:
        raise ValueError(f"elimination of constraints is for ℓ quadratic in ξ, unlike that of {system.name}")
    if system.multiplier_forces is not None:
        raise ValueError(f"{system.name} has forces of the multipliers, which elimination would have to keep")
    system = system.with_rank_at(None)
    e = jax.tree.map(np.asarray, system.group.identity())
    states = random_states(system, e, STATES, np.random.default_rng(0), near=0.1)
    found = mapped(_conditions, system, states.g)
    affine = np.abs(found.affine).max(initial=0.0)
    if affine:
        raise ValueError(f"{system.name} has affine constraints or terms of ℓ linear in ξ, of size {affine:.2g}")
    m = found.forms.shape[1]
    rows = _transverse_part(system, rows, found) if chosen else rows
    crossing = _least_crossing(rows, found) if len(rows) == m else 0.0
    if len(rows) != m or crossing < PARALLEL:
        what = f"{len(rows)} symmetries for {m} constraints" if len(rows) != m else f"they cross at {crossing:.2g}"
        raise ValueError(
            f"{system.name} is no Chaplygin system by these symmetries: as many are needed as there are constraints, "
            f"transverse to them, μXᵀ regular; there are {what}"
        )
    cosets, S, inclusion = _shapes_of(system, rows)
    shapes = Shapes(Chaplygin(system, cosets.algebra), Representative(cosets), inclusion)
    trial, reduced = (_system_of(shapes, S, alone) for alone in (True, False))
    own = _own_symmetries(trial)
    reduced = _over_own_base(reduced, own if len(_own_symmetries(reduced)) == len(own) else own[:0])
    return Reduction(reduced, system, cosets.algebra, shapes)


def _shapes_of(system: System, rows: np.ndarray) -> tuple[Cosets, Any, np.ndarray]:
    """Cosets of the symmetries, the subgroup S, and Lie(S) ⊂ g."""
    cosets = Cosets(system.group, rows)
    if len(cosets.algebra) < len(rows):
        raise ValueError(f"symmetry has screws, or combines factors of {system.group}, which have no shapes here")
    S, inclusion = cosets.subgroup()
    if S is None:
        raise ValueError(f"{system.name} does not move: it has no shapes")
    return cosets, S, inclusion


def _own_symmetries(reduced: System) -> np.ndarray:
    """Symmetries of a reduced system for its parameters and for others near them."""
    rows = np.asarray(symmetries_with_forces(reduced))
    if not len(rows) or not reduced.parameters:
        return rows
    rng = np.random.default_rng(2)

    def other(leaf: Any) -> Any:
        return leaf if callable(leaf) else leaf + NEARBY * (1 + np.abs(leaf)) * rng.uniform(0.5, 1.0, np.shape(leaf))

    beside = with_parameters(reduced, jax.tree.map(other, dict(reduced.parameters)))
    try:
        return symmetries_among(beside, rows)
    except ValueError:  # not finite for these
        return rows[:0]


def _over_own_base(reduced: System, own: np.ndarray) -> System:
    """A reduced system over the base of its own symmetries."""
    if not len(own):
        return reduced
    action, representative = Cosets(reduced.group, own).simplified()
    return rebased(reduced, action, representative, reduced.name)


def at_momentum(system: System, rows: np.ndarray, chosen: bool, momentum: Any) -> Reduction:
    """Routh reduction."""
    refuse_holonomic(system, "reduction at a momentum")
    for unlike, what in (
        (not system.is_quadratic, "ℓ that is not quadratic in ξ"),
        (system.multiplier_forces is not None, "forces of the multipliers"),
        (MOMENTUM in system.parameters, f"a parameter {MOMENTUM!r} already"),
    ):
        if unlike:
            raise ValueError(f"{system.name} has {what}: reduction at a momentum is for others")
    if chosen:
        rows = np.asarray(horizontal_symmetries(system))
        if len(rows):
            rows = echelon(symmetries_among(system, rows))
    if not len(rows):
        raise ValueError(f"{system.name} has no symmetries that are horizontal, tangent to its constraints")
    if np.abs(np.einsum("kij,ai,bj->kab", system.group.structure_constants, rows, rows)).max() > NEGLIGIBLE:
        raise ValueError(f"the symmetries {rows.tolist()} do not commute: give symmetry=, some that do")
    refuse_power(system, rows)
    cosets, S, inclusion = _shapes_of(system, rows)
    c = as_float64(momentum, "momentum", () if np.ndim(momentum) == 0 and len(rows) == 1 else (len(rows),))
    routh = Routh(system, rows, c.reshape(-1), Representative(cosets), inclusion)
    held = None
    if system.distribution is not None:
        forms = RouthForms(routh)
        held = AffineDistribution(forms, RouthDrift(routh)) if system.is_affine else Distribution(forms)
    reduced = System(
        S,
        metric=RouthMetric(routh),
        lagrangian=RouthFunction(routh),
        distribution=held,
        forces=None if system.forces is None else RouthForces(routh),
        parameters={**system.parameters, MOMENTUM: c},
        first_integrals=_integrals(routh),
        units=_units(system, S),
        name=f"{system.name} reduced at a momentum",
    )
    return Reduction(_over_own_base(reduced, _own_symmetries(reduced)), system, rows, routh)


def _system_of(shapes: Shapes, S: Any, alone: bool) -> System:
    """System on the shapes, with gyroscopic forces alone or all."""
    system = shapes.chaplygin.system
    return System(
        S,
        metric=ShapeMetric(shapes),
        potential=ShapePotential(shapes),
        forces=ShapeForces(shapes, alone),
        parameters=system.parameters,
        first_integrals={} if alone else _integrals(shapes),
        units=_units(system, S),
        name=f"{system.name} reduced to shapes",
    )


def _units(system: System, S: Any) -> dict[str, str]:
    """Units of a system for the names that it has on S."""
    names = [*S.point_names, *S.velocity_names, "time", "energy"]
    return {name: unit for name, unit in system.units if name in names}


def _integrals(shapes: Shapes | Routh) -> dict[str, FirstIntegral]:
    """First integrals that H leaves invariant."""
    system, symmetry = shapes.system, np.asarray(shapes.symmetry)
    if not system.first_integrals:
        return {}
    rng = np.random.default_rng(1)
    states = random_states(system, jax.tree.map(np.asarray, system.group.identity()), STATES, rng)
    shift = rng.normal(size=(STATES, len(symmetry))) @ symmetry
    before, after = (mapped(_integral_values, system, (states.g, states.xi, k)) for k in (0 * shift, shift))
    return {
        name: FirstIntegral(ShapeIntegral(shapes, integral.function), integral.note, integral.momentum)
        for name, integral in system.first_integrals.items()
        if np.allclose(before[name], after[name], rtol=1e-9, atol=1e-9)
    }


class _Conditions(NamedTuple):
    """At a point: forms, shape=[m, n], generators of left translations, shape=[n, n], and the affine parts."""

    forms: Array
    generators: Array
    affine: Array


def _conditions(system: System, g: Point) -> _Conditions:
    x = system.at(g)
    held = system.holding(x)
    affine = jnp.concatenate([held.right_hand_side(x), system.momentum_at_rest(x)])
    return _Conditions(held.annihilator(x), generators_or_default(system, None)(g), affine)


def _least_crossing(rows: np.ndarray, found: _Conditions) -> float:
    """Least singular value of μXᵀ, of normalised rows: the largest over points."""
    mu, X = np.asarray(found.forms), rows @ np.asarray(found.generators)
    mu, X = (part / np.linalg.norm(part, axis=-1, keepdims=True) for part in (mu, X))
    return float(np.linalg.svd(mu @ np.swapaxes(X, 1, 2), compute_uv=False)[:, -1].max())


def _transverse_part(system: System, rows: np.ndarray, found: _Conditions) -> np.ndarray:
    """Translations, rotations or factors among the symmetries, as many as constraints, that are most transverse."""
    n, m, begin = system.group.dim, found.forms.shape[1], 0
    choices: list[list[list[int]]] = []
    for factor in getattr(system.group, "factors", (system.group,)):
        places = list(range(begin, begin + factor.dim))
        if isinstance(factor, Translations | Torus):
            choices += [[[], [place]] for place in places]
        elif (parts := dimensions(factor)) is not None and parts.moves:
            choices.append([[], places[: parts.turns], places[parts.turns :], places])
        else:
            choices.append([[], places])
        begin += factor.dim
    best, largest = rows[:0], 0.0
    for combination in itertools.product(*choices):
        places = [place for part in combination for place in part]
        if len(places) != m or rank_of(np.concatenate([rows, np.eye(n)[places]])) != len(rows):
            continue
        value = _least_crossing(np.eye(n)[places], found)
        if value > largest + PARALLEL:
            best, largest = echelon(np.eye(n)[places]), value
    if not len(best):
        raise ValueError(
            f"{system.name} is no Chaplygin system by its {len(rows)} symmetries: no {m} of them, translations, "
            "rotations or factors of the group, are transverse to its constraints; symmetry= gives others"
        )
    return best


def _integral_values(system: System, node: tuple[Point, Array, Array]) -> dict[str, Array]:
    g, xi, eta = node
    moved = system.group.compose(system.group.exp(eta), g)
    return {name: jnp.asarray(integral.along(system, moved, xi)) for name, integral in system.first_integrals.items()}

r"""Hamiltonisation of Chaplygin systems; the notation and its source are those of ``chaplygin.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.chaplygin import Chaplygin, conditions
from geonh.analysis.multiplier import TINY, Hamiltonisation
from geonh.analysis.new_time import Multiplier
from geonh.analysis.states import IDENTITY, random_states, require_scalars
from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import mapped
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.mechanics.holonomic import refuse_holonomic
from geonh.mechanics.momentum import Generators, generators_or_default
from geonh.mechanics.symmetry import derivative_along, symmetries
from geonh.mechanics.system import System


@validated
def hamiltonise(
    system: System,
    symmetry: Any = None,
    candidates: Mapping[str, Callable] | None = None,
    *,
    generators: Generators | None = None,
    g: Any = None,
    n_states: int = 20,
    seed: int = 0,
) -> Hamiltonisation:
    """Test whether a Chaplygin system is Hamiltonian after a change of time, and fit the multiplier.

    Parameters
    ----------
    system : System
        Linear constraints, kinetic and potential energy, no forces.
    symmetry : array_like, shape=[m, k], optional
        Elements of an algebra that leave the system invariant, transverse to the m independent constraints; all of
        ``mechanics.symmetries`` when left out.
    candidates : mapping of str to callable, optional
        φⱼ(x) or φⱼ(x, parameters) → scalar, of the base point, in ``jax.numpy``: φ is fitted as Σ cⱼφⱼ.
    generators : callable, optional
        g ↦ X(g), shape=[k, n], of the action of this algebra; left translations when left out.
    g : point of the group, or None for the identity
        Centre of the random points, where the symmetries are transverse.
    n_states : int
        Number of random points.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    Hamiltonisation

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for systems of another kind, elements that are not symmetries or as many as
        the constraints, or functions that are not finite.

    Notes
    -----
    A negative answer is about Chaplygin's multiplier on these shapes. Other Hamiltonian structures may exist, or one
    after a further reduction, as for the Chaplygin sphere. If a density is invariant, ``integrators.VolumePreserving``
    keeps it in the time τ.

    References
    ----------
    .. [GarciaNaranjo2020] L. C. García-Naranjo, J. C. Marrero, "The geometry of nonholonomic Chaplygin systems
       revisited", Nonlinearity 33 (2020), 1297–1341.
    """
    refuse_holonomic(system, "Hamiltonisation")
    point = system.point(g, name="g")
    system = system.with_rank_at(point)
    _refuse(system)
    fields = tuple(Field(function, f"candidate {name!r}") for name, function in dict(candidates or {}).items())
    require_scalars(fields, system.at(point), system.parameters)
    chaplygin = Chaplygin(system, _transverse(system, symmetry, generators, point), generators)
    points = random_states(
        system, point, as_count(n_states, "n_states"), np.random.default_rng(as_count(seed, "seed", 0))
    ).g
    found = mapped(conditions, chaplygin, points)
    least = np.linalg.svd(np.nan_to_num(found.crossing), compute_uv=False)[:, -1]
    if not all(np.all(np.isfinite(part)) for part in found) or least.max() < IDENTITY:
        raise ValueError(f"the symmetries of {system.name} are not transverse to its constraints near g, or not finite")
    if np.any(found.affine):
        raise ValueError(
            f"Hamiltonisation is for constraints and ℓ without terms of other degrees, unlike {system.name}"
        )
    defect = float(np.max(found.defect / (found.size + TINY)))
    turning = float(np.max(found.turning / (found.slope + TINY)))
    closed = turning < IDENTITY
    exists = closed and defect < IDENTITY
    multiplier = _fitted(system, fields, points, found.form) if closed else None
    coefficients = () if multiplier is None else map(float, multiplier.coefficients)
    return Hamiltonisation(
        exists=exists,
        has_measure=closed,
        shape_dimension=system.group.dim - len(chaplygin.symmetry),
        defect=defect,
        turning=turning,
        coefficients=dict(zip(candidates or {}, coefficients, strict=False)),
        chaplygin=chaplygin,
        multiplier=multiplier,
        centre=point,
    )


def _refuse(system: System) -> None:
    if system.distribution is None:
        raise ValueError(f"{system.name} has no constraints: it is Hamiltonian")
    if system.is_nonlinear or system.is_timed or not system.is_quadratic:
        raise ValueError(f"Hamiltonisation is for ℓ = ½ξᵀM(x)ξ − V(x) and constraints μ(x)ξ = 0, unlike {system.name}")
    if system.forces is not None or system.multiplier_forces is not None:
        raise ValueError(f"Hamiltonisation is for systems without forces besides a potential; {system.name} has some")


def _transverse(system: System, symmetry: Any, generators: Generators | None, point: Point) -> Any:
    """Symmetries, as many as there are constraints, shape=[m, k]; ValueError if they are none."""
    x = system.at(point)
    m = len(system.holding(x).annihilator(x))
    if symmetry is None:
        rows: Any = np.asarray(symmetries(system, generators=generators))
        if len(rows) != m:
            raise ValueError(
                f"{system.name} has {len(rows)} symmetries of this kind and {m} constraints: give symmetry=, "
                f"{m} elements of the algebra that are symmetries"
            )
        return rows
    X = generators_or_default(system, generators)
    with float64():
        k = len(X(point))
    rows = np.atleast_2d(as_float64(symmetry, "symmetry"))
    if rows.shape != (m, k):
        raise ValueError(
            f"symmetry must have shape [{m}, {k}], a row for each constraint, got {list(np.shape(symmetry))}"
        )
    if len(symmetries(system, generators=lambda g: rows @ X(g))) != m:
        raise ValueError(
            f"symmetry has elements that are not symmetries of {system.name}; mechanics.symmetries finds them"
        )
    return rows


def _fitted(system: System, fields: tuple[Field, ...], points: Point, form: np.ndarray) -> Multiplier | None:
    """Multiplier with dφ of the given values, shape=[N, n], or None if it is not in the span of the fields."""
    size, c = np.abs(form).max(), np.zeros(len(fields))
    if fields:
        slopes = mapped(_slopes, (system, fields), points).reshape(-1, len(fields))
        if not np.all(np.isfinite(slopes)):
            raise ValueError(f"candidates for {system.name} are not finite at all points near g")
        c = np.linalg.lstsq(slopes, form.ravel(), rcond=1e-10)[0]
        size = np.abs(slopes @ c - form.ravel()).max()
    return Multiplier(fields, c) if size < IDENTITY * np.abs(form).max() + TINY else None


def _slopes(tree: tuple, g: Point) -> Array:
    """D_{e_i}φⱼ, shape=[n, J]."""
    system, fields = tree

    def values(g: Point) -> Array:
        return jnp.stack([jnp.reshape(field(system.at(g), system.parameters), ()) for field in fields])

    slopes = jax.vmap(lambda Y: derivative_along(system, values, g, Y))(jnp.eye(system.group.dim))
    return jnp.where(jnp.isfinite(values(g)), slopes, jnp.nan)  # log of a negative number has a finite derivative

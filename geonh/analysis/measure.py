r"""Invariant measures: the divergence of the constrained equations, and invariant densities.

The volume on the constraints is the kinetic one, of the metric on the group, √det M times left Haar, and of velocities
in D(x). In the frame E(x) of D, orthonormal for M, ξ = Y(x) + Eᵀv, and the divergence of ġ = gξ, v̇ = … is

    div X = −tr ad_ξ + Σ ∂ξᵢ/∂ηᵢ + ½ρ_ξ(log det M) + Σ ∂v̇ₐ/∂vₐ,

which does not depend on the frame. Without constraints it vanishes (Liouville). Phase volumes grow by
exp ∫div; the alternation of GNI, RATTLE and SHAKE grows as fast as they shrink. N times the volume is invariant if
X(log N) + div X = 0; a density on the base, N(x), is sought among exp Σ cⱼφⱼ(x), by least squares at random states:
if it exists the equations hold to rounding.

Sources: Kozlov, *Invariant measures of the Euler–Poincaré equations* (1988); Fedorov, García-Naranjo, Marrero (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import gram_schmidt, solve_spd
from geonh.analysis.motions import value_of_controls
from geonh.analysis.states import IDENTITY, random_states, require_scalars
from geonh.analysis.subspaces import kernel
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import batch_of_one, mapped
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.mechanics.equations import accelerations
from geonh.mechanics.system import System


@dataclass(frozen=True)
class InvariantMeasure:
    """A density N(x) = exp Σ cⱼφⱼ(x), tested at random states.

    Attributes
    ----------
    coefficients : dict of str to float
        cⱼ of each candidate.
    residual : float
        Largest |X(log N) + div X|, 1/s.
    divergence : float
        Largest |div X| at the same states, 1/s: 0 if the volume itself is invariant.
    exists : bool
        True if the residual is zero to rounding, relative to the sizes of its parts.
    """

    coefficients: dict[str, float]
    residual: float
    divergence: float
    exists: bool

    def __str__(self) -> str:
        density = " ".join(f"{c:+.10g} {name}" for name, c in self.coefficients.items())
        conclusion = (
            f"log N = {density or '0'}" if self.exists else f"no invariant density found (best: {density or '0'})"
        )
        return f"{conclusion}; residual {self.residual:.2g} of a divergence up to {self.divergence:.3g} 1/s"

    __repr__ = __str__


@validated
def divergence(system: System, g: Any, xi: Any, *, t: float = 0.0, controls: Any = None) -> float:
    """Divergence of the constrained equations at a state, 1/s, with respect to the kinetic volume.

    Parameters
    ----------
    system : System
    g : point of the group, or None for the identity
        Configuration.
    xi : array_like, shape=[n]
        Velocity; it is projected onto the constraints.
    t : float
        Time in seconds, for forces.
    controls : array_like, optional
        Value of the controls, of the shape that the forces take.

    Returns
    -------
    float
        1/s; negative where the phase space contracts.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if a shape does not fit.
    """
    _refuse(system)
    point = system.point(g, name="g")
    system = system.with_rank_at(point)
    velocity = np.asarray(system.project(point, as_float64(xi, "xi", (system.group.dim,))))
    nodes = batch_of_one((point, velocity))
    u = value_of_controls(system, controls, t, point, velocity)
    return float(_divergences(system, nodes, as_float64(t, "t", ()), u)[0])


@validated
def invariant_measure(
    system: System,
    candidates: Mapping[str, Callable] | None = None,
    *,
    g: Any = None,
    controls: Any = None,
    n_states: int = 40,
    seed: int = 0,
) -> InvariantMeasure:
    """Test for an invariant measure, with a density fitted among candidates.

    Parameters
    ----------
    system : System
        The system, without forces that depend on time.
    candidates : mapping of str to callable, optional
        φⱼ(x) or φⱼ(x, parameters) → scalar, of the base point, in ``jax.numpy``. Without any, the volume itself is
        tested.
    g : point of the group, optional
        Centre of the random states; the identity when left out.
    controls : array_like, optional
        Value of the controls, of the shape that the forces take.
    n_states : int
        Number of random states.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    InvariantMeasure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for fewer states than candidates, or functions that are not finite.

    Notes
    -----
    If no density is found, there is none in the span of the candidates; others may exist.
    """
    _refuse(system)
    candidates = dict(candidates or {})
    n_states = as_count(n_states, "n_states")
    if n_states <= len(candidates):
        raise ValueError(f"n_states must exceed the number of candidates, {len(candidates)}, got {n_states}")
    fields = [Field(function, f"candidate {name!r}") for name, function in candidates.items()]
    require_scalars(fields, system.at(system.group.identity(), 0.0), system.parameters)
    rng = np.random.default_rng(as_count(seed, "seed", 0))
    point = system.point(g, name="g")
    system = system.with_rank_at(point)
    states = random_states(system, point, n_states, rng)[1:]
    u = value_of_controls(system, controls, 0.0, point, np.zeros(system.group.dim))
    divergences = _divergences(system, states, np.zeros(()), u)
    rates = mapped(_rates, (system, fields), states) if fields else np.zeros((n_states, 0))
    if not np.all(np.isfinite(divergences)) or not np.all(np.isfinite(rates)):
        raise ValueError(f"the equations of {system.name} or the candidates are not finite near g")
    c = np.linalg.lstsq(rates, -divergences, rcond=1e-10)[0]
    residual, largest = np.abs(rates @ c + divergences).max(), np.abs(divergences).max()
    size = 1.0 + largest + (np.abs(rates) @ np.abs(c)).max()
    coefficients = dict(zip(candidates, map(float, c), strict=True))
    return InvariantMeasure(coefficients, float(residual), float(largest), bool(residual < IDENTITY * size))


def _refuse(system: System) -> None:
    if system.holonomic is not None or system.is_timed:
        what = "holonomic constraints" if system.holonomic is not None else "functions that depend on the time"
        raise ValueError(f"{system.name} has {what}: divergences and invariant measures are not defined for it here")


def _rates(tree: tuple, node: tuple) -> Array:
    """Derivatives X(φⱼ) = dφⱼ·ρ_x(ξ) of all candidates along the motion."""
    system, fields = tree
    g, xi = node
    x = system.at(g)

    def values(x: Any) -> Array:
        return jnp.stack([jnp.reshape(field(x, system.parameters), ()) for field in fields])

    value, rate = jax.jvp(values, (x,), (system.anchor(x, xi),))
    return jnp.where(jnp.isfinite(value), rate, jnp.nan)  # log of a negative number has a finite derivative


def _divergences(system: System, states: tuple, t: Any, u: Any) -> np.ndarray:
    """div X at many states, shape=[N]."""
    rows = mapped(_rows, system, states)
    n, count = system.group.dim, len(states[1])
    bases = np.stack([kernel(mu, float(np.linalg.norm(mu)) or 1.0).T for mu in rows])
    same = jax.tree.map(lambda a: np.broadcast_to(a, (count, *np.shape(a))), (t, u))
    assert bases.shape[2] == n
    return np.asarray(mapped(_divergence, system, _ForcedState(*states, bases, *same)))


def _rows(system: System, node: tuple) -> Array:
    return system.annihilator(system.at(node[0]))


class _ForcedState(NamedTuple):
    """State, a basis of the velocities that the constraints allow, in rows, time, and controls."""

    g: Point
    xi: Array
    basis: Array
    t: Array
    u: Any


def _divergence(system: System, node: _ForcedState) -> Array:
    g, xi, basis, t, u = node
    group = system.group

    def frame(x: Any) -> Array:
        """An M-orthonormal frame of D(x) that varies smoothly."""
        M = system.mass_matrix(x)
        if system.distribution is None:
            return gram_schmidt(basis, M)
        return gram_schmidt(basis @ system.holding(x).distribution.P(M, x, system.parameters).T, M)

    def drift(x: Any) -> Array:
        return system.projected_velocity(x, jnp.zeros(group.dim))

    def coordinates(g: Point, xi: Array) -> Array:
        x = system.at(g)
        return frame(x) @ system.mass_matrix(x) @ (xi - drift(x))

    v0 = coordinates(g, xi)

    def velocity(z: Array) -> Array:
        x = system.at(group.compose(g, group.exp(z[: group.dim])))
        return drift(x) + frame(x).T @ z[group.dim :]

    def rate(v: Array) -> Array:
        x = system.at(g)
        xi = drift(x) + frame(x).T @ v
        a = accelerations(system, t, g, xi, u)[0]
        return jax.jvp(coordinates, (g, xi), (group.left_tangent(g, xi), a))[1]

    z0 = jnp.concatenate([jnp.zeros(group.dim), v0])
    x = system.at(g)
    M, grows = jax.jvp(system.mass_matrix, (x,), (system.anchor(x, xi),))
    along = jnp.trace(jax.jacfwd(velocity)(z0)[:, : group.dim]) + jnp.trace(solve_spd(M, grows)) / 2
    return along + jnp.trace(jax.jacfwd(rate)(v0)) - jnp.trace(group.ad(xi))

r"""Steady motions by minimum-norm Gauss–Newton steps on the conditions of ``equations``.

The unknowns are η in g·exp(η), ξ and the coefficients of σ among the material symmetries. The conditions

    a + ad_σξ = 0,   r = 0,   D_g(a, r)·(ξ − σ) = 0

have families of solutions (other places, speeds, spins), so a step is the minimum-norm solution of the linear
conditions: the motion found is near the guess in the directions that the conditions leave free.

Where the conditions are quadratic about their solutions (the sleigh's u̇ = aω² about ω = 0) such steps shrink the free
directions as well, down to rest: fix these then, by ``free`` or by conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.equations import coordinate_names, equations, material_symmetries
from geonh.analysis.motions import generators, given_motions, single
from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_part
from geonh.engine import mapped
from geonh.geometry.field import check_arguments, tried
from geonh.geometry.field import evaluated as value_of
from geonh.groups.base import Point
from geonh.mechanics.soundness import place_fault
from geonh.mechanics.system import System

SETTLED = 1e-14
"""Step length, relative to ξ, at which the iteration stops; at a double root the residual vanishes long before."""
HALVINGS = 12
"""Maximum number of halvings of a step that increases the residual."""


class SteadyMotion(NamedTuple):
    """A steady motion g(t) = s(t) g₀ e^{σt} with ξ = Ad_{e^{−σt}}ξ₀.

    Attributes
    ----------
    g : point of the group
        g₀.
    xi : ndarray, shape=[n]
        ξ₀.
    sigma : ndarray, shape=[n]
        σ, the rotation about a material symmetry; zero where ξ is constant.
    residual : float
        Largest entry of the conditions.
    iterations : int
        Newton steps.
    """

    g: Point
    xi: np.ndarray
    sigma: np.ndarray
    residual: float
    iterations: int


@validated
def steady_motion(
    system: System,
    g: Any,
    xi: Any,
    *,
    t: float = 0.0,
    controls: Any = None,
    free: Sequence[str] | None = None,
    conditions: Callable | None = None,
    spins: Any = None,
    tol: float = 1e-11,
    max_iterations: int = 50,
) -> SteadyMotion:
    """Find a steady motion near a guess.

    Parameters
    ----------
    system : System
    g : point of the group, or None for the identity
        Guess of the configuration.
    xi : array_like, shape=[n]
        Guess of the velocity; it need not satisfy the constraints.
    t : float
        Time in seconds, for forces.
    controls : array_like, shape=[n_u], optional
        Value of the controls along the motion, of the shape that the forces take.
    free : sequence of str, optional
        Coordinates that may change, named as the ``coordinates`` of a ``Linearisation``; all when left out. The
        others keep the values of the guess.
    conditions : callable, optional
        c(g, ξ, parameters) → array, further conditions c = 0 in ``jax.numpy``: a height, a speed. A function of module
        level whose numbers are parameters compiles once.
    spins : array_like, shape=[k, n], optional
        Generators of the material symmetries about which the motion may rotate; found when left out.
    tol : float
        Tolerance on the conditions, relative to their derivatives.
    max_iterations : int
        Maximum number of steps.

    Returns
    -------
    SteadyMotion

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for an unknown coordinate name.
    RuntimeError
        If the iteration does not converge, with the residual and the last iterate.

    Notes
    -----
    A solution of the conditions stays one. Its linear equations may change along it all the same (a
    snakeboard that stands while its wheels turn); then ``linearise`` rejects it.
    """
    max_iterations = as_count(max_iterations, "max_iterations")
    tol = as_part(tol, "tol")
    motions = given_motions(system, [(g, xi)], controls, t)
    g, xi, u = single(motions.g), motions.xi[0], motions.u
    system = system.with_rank_at(g, t)
    if conditions is not None:
        check_arguments(conditions, "g, xi, parameters", "conditions")
        tried("conditions", conditions, g, xi, system.parameters)
    group, n = system.group, system.group.dim
    coordinates = coordinate_names(system)
    unknown = [name for name in free or () if name not in coordinates]
    if unknown:
        raise ValueError(f"free: {unknown} are not among {list(coordinates)}")
    moving = [i for i, name in enumerate(coordinates) if free is None or name in free]
    material = generators(system, spins)
    if material is None:
        material = material_symmetries(system, t, g, u)
    directions = np.eye(2 * n + len(material))[[*moving, *range(2 * n, 2 * n + len(material))]]
    if not len(directions):
        raise ValueError("free is empty: nothing may change")
    iterate = _Unknowns(g, xi, np.zeros(len(material)))

    def equations_at(at: _Unknowns) -> tuple[np.ndarray, np.ndarray]:
        """Conditions, and their derivatives by all that is free."""
        same = jax.tree.map(lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), (np.float64(t), *at, u))
        value, slope = mapped(_conditions, (system, conditions, material), _Direction(*same, directions))
        return np.asarray(value)[0], np.asarray(slope).T

    def moved(at: _Unknowns, step: np.ndarray) -> _Unknowns:
        with float64():
            there = group.project(group.compose(at.g, group.exp(jnp.asarray(step[:n]))))
        return _Unknowns(jax.tree.map(np.asarray, there), at.xi + step[n : 2 * n], at.turning + step[2 * n :])

    value, slope = equations_at(iterate)
    iteration = -1
    while (iteration := iteration + 1) <= max_iterations:
        g, xi = iterate.g, iterate.xi
        if not np.all(np.isfinite(value)) or not np.all(np.isfinite(slope)):
            fault = place_fault(system, t, g, "there") or f"the equations are not finite at xi = {xi}"
            raise RuntimeError(f"no steady motion of {system.name} found: {fault}")
        step = np.linalg.lstsq(slope, -value, rcond=1e-11)[0] @ directions
        solved = float(np.abs(value).max()) <= tol * (1.0 + float(np.linalg.norm(slope)))
        if solved and np.linalg.norm(step) <= SETTLED * (1.0 + float(np.linalg.norm(xi))):
            break
        for halvings in range(HALVINGS):
            trial = moved(iterate, 0.5**halvings * step)
            new, new_slope = equations_at(trial)
            if np.linalg.norm(new) < np.linalg.norm(value):
                break
        else:
            break
        iterate, value, slope = trial, new, new_slope
    g, xi = iterate.g, iterate.xi
    if solved:
        return SteadyMotion(g, xi, iterate.turning @ material, float(np.abs(value).max()), iteration)
    raise RuntimeError(
        f"no steady motion of {system.name} found near the guess: {_worst_residual(system, value)} after {iteration} "
        f"steps, at g = {np.array2string(_vector(system, g), precision=4)}, xi = {np.array2string(xi, precision=4)}"
        + ("" if free is None else "; more coordinates may have to be free")
    )


class _Unknowns(NamedTuple):
    """Motion, and the coefficients of σ among the material symmetries."""

    g: Point
    xi: np.ndarray
    turning: np.ndarray


class _Direction(NamedTuple):
    """Time, unknowns and controls, and a direction of (η, ξ, coefficients of σ)."""

    t: Array
    g: Point
    xi: Array
    turning: Array
    u: Any
    direction: Array


def _conditions(tree: tuple, node: _Direction) -> tuple[Array, Array]:
    """Conditions and their derivative in a direction."""
    system, conditions, material = tree
    t, g, xi, turning, u, direction = node
    group, n = system.group, system.group.dim

    def residual(g: Point, xi: Array, turning: Array) -> Array:
        sigma = turning @ material if len(material) else jnp.zeros(n)
        value, slope = jax.jvp(lambda g: equations(system, t, g, xi, u), (g,), (group.left_tangent(g, xi - sigma),))
        residuals = [value[:n] + group.bracket(sigma, xi), value[n:], slope]
        if conditions is not None:
            residuals.append(jnp.ravel(value_of("conditions", conditions, g, xi, system.parameters)))
        return jnp.concatenate([part for part in residuals if part.size])

    rate = group.left_tangent(g, direction[:n])
    return jax.jvp(residual, (g, xi, turning), (rate, direction[n : 2 * n], direction[2 * n :]))


def _worst_residual(system: System, value: np.ndarray) -> str:
    n, names = system.group.dim, system.group.velocity_names
    i = int(np.argmax(np.abs(value)))
    what = f"{names[i]} still changes by" if i < n else "a constraint, or a change of the conditions, is off by"
    return f"{what} {value[i]:.3g}"


def _vector(system: System, g: Point) -> np.ndarray:
    with float64():
        return np.asarray(system.group.to_vector(g))

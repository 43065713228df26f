"""Long-time diagnostics: energy drift, alternation of multipliers, Poincaré sections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_float64, one_of
from geonh.engine import mapped
from geonh.geometry.field import check_arguments, evaluated
from geonh.results.events import Section
from geonh.results.interpolation import between
from geonh.results.zeros import crossed, root

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory


@dataclass(frozen=True)
class Drift:
    """Linear drift of a quantity along a run, with bounds.

    Attributes
    ----------
    slope : float
        Slope of the least-squares line, unit/s.
    error : float
        Standard error of the slope, from ten blocks of the run, whose scatter accounts for correlations.
    bound : float
        Largest deviation from the value at the start.
    """

    slope: float
    error: float
    bound: float

    @property
    def drifts(self) -> bool:
        """True if the slope differs from zero by more than four standard errors."""
        return abs(self.slope) > 4 * self.error

    def __str__(self) -> str:
        return f"slope {self.slope:.2e} ± {self.error:.1e} per second, largest deviation {self.bound:.2e}"


def drift(t: Any, values: Any) -> Drift:
    """Drift of a quantity, for instance ``drift(traj.t, traj.energy)``.

    Parameters
    ----------
    t, values : array_like, shape=[N]
        Times, which increase, in seconds, and values; N at least 30.

    Returns
    -------
    Drift
        ``slope``, ``error`` and ``bound``; ``drifts`` is True if the slope is significant.

    Raises
    ------
    TypeError, ValueError
        If they are not numbers; if the shapes do not fit, or the times do not increase.
    """
    t, values = as_float64(t, "t"), as_float64(values, "values")
    if t.ndim != 1 or t.shape != values.shape or len(t) < 30:
        raise ValueError(f"t and values must have one shape [N] with N ≥ 30, got {t.shape} and {values.shape}")
    if not np.all(np.diff(t) > 0):
        raise ValueError("t must increase")
    blocks = np.array_split(np.arange(len(t)), 10)
    times = np.array([t[b].mean() for b in blocks])
    means = np.array([values[b].mean() for b in blocks])
    span = times[-1] - times[0]
    times = (times - times.mean()) / span
    slope, offset = np.polyfit(times, means, 1)
    scatter = means - (slope * times + offset)
    error = np.sqrt(np.sum(scatter**2) / (len(times) - 2) / np.sum(times**2))
    return Drift(float(slope / span), float(error / span), float(np.abs(values - values[0]).max()))


@judged
def alternation(trajectory: Trajectory) -> np.ndarray:
    r"""Size of the part of p⁻ that changes sign from node to node, relative to the largest momentum.

    ‖(h/2) μᵀ(λ_k − λ(t_k))‖ / max‖p̃‖ in the kinetic norm, with λ_k of the method and λ of the continuous equations.
    In a run of GNI, RATTLE or SHAKE it grows as fast as the constrained flow contracts the phase space, whatever the
    step (mathematics.md §6); a run where it is not small against 1 is unreliable. It is zero for all other methods, and
    without constraints. The same as ``trajectory.alternation``.

    Parameters
    ----------
    trajectory : Trajectory
        With its system.

    Returns
    -------
    ndarray, shape=[N]
        At its N nodes.

    Raises
    ------
    TypeError
        If it is not a trajectory.
    ValueError
        If it was loaded without its system, and the file does not contain it.
    """
    return trajectory.alternation


@judged
def poincare_section(
    trajectory: Trajectory, surface: Callable[[Any, np.ndarray], Any], *, direction: int = 1
) -> Section:
    """Poincaré section, the crossings of surface(g, ξ) = 0.

    Parameters
    ----------
    trajectory : Trajectory
        With its system.
    surface : callable
        s(g, ξ), scalar, in jax.numpy; for instance ``lambda g, xi: g[1]``.
    direction : int
        1 for crossings with s increasing, −1 decreasing, 0 both.

    Returns
    -------
    Section
        Each crossing is the root of s along the trajectory's interpolation on the group: its time and place have errors
        O(Δ⁴) beside the method's own, its velocity O(Δ³). ``solve(..., events=)`` locates them by its method instead.

    Raises
    ------
    ValueError
        For a direction other than −1, 0, 1, or a surface that is not scalar, or reads a missing name.
    TypeError
        For a surface that is not a function of (g, ξ) in jax.numpy.
    """
    direction = one_of(direction, "direction", (-1, 0, 1))
    surface = _inspected(surface, trajectory)
    nodes = jax.tree.map(np.asarray, (trajectory.g, trajectory.xi))
    s = mapped(_surface, surface, nodes)
    if not np.all(np.isfinite(s)):
        raise ValueError(f"surface(g, ξ) is not finite at t = {trajectory.t[np.argmin(np.isfinite(s))]:g} s")
    i = np.flatnonzero(crossed(s[:-1], s[1:], direction))
    names = tuple(trajectory.attributes["point_names"]), tuple(trajectory.attributes["velocity_names"])
    if not len(i):
        g, xi = jax.tree.map(lambda a: a[:0], nodes)
        return Section(np.zeros(0), g, xi, trajectory.g_vector[:0], *names)
    span = np.diff(trajectory.t)[i]
    ends = (jax.tree.map(lambda a: a[i], nodes), jax.tree.map(lambda a: a[i + 1], nodes))
    part, g, xi, vector = mapped(_crossing, (trajectory.bound_system.group, surface), (*ends, span))
    return Section(trajectory.t[i] + part * span, g, xi, vector, *names)


def _surface(surface: Callable, node: tuple) -> Any:
    return jnp.asarray(surface(*node), float)


def _crossing(tree: tuple, node: tuple) -> tuple:
    """Crossing of a surface between two nodes: fraction of the step, g, ξ, and g as a vector."""
    group, surface = tree

    def at(s: Array) -> tuple[Array, tuple]:
        g, xi = between(group, (*node, s))
        return _surface(surface, (g, xi)), (s, g, xi, group.to_vector(g))

    return root(at, _surface(surface, node[0]))


def _inspected(surface: Any, trajectory: Trajectory) -> Callable[[Any, Any], Any]:
    """Surface as a scalar function, or an error that says why it is none."""
    check_arguments(surface, "g, xi", "surface")

    def function(g: Any, xi: Any) -> Any:
        value = evaluated("surface", surface, g, xi)
        if value.shape != ():
            raise ValueError(f"surface(g, ξ) must be one number, got an array of shape {value.shape}")
        return value

    with float64():
        node = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], np.float64), (trajectory.g, trajectory.xi))
        return careful(surface) if inspected("surface", jax.make_jaxpr(function)(*node)) else surface

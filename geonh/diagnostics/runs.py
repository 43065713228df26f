"""Long-time diagnostics: energy drift, alternation of multipliers, Poincaré sections."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, one_of
from geonh.engine import mapped, prepared
from geonh.geometry.field import check_arguments, evaluated
from geonh.results.events import Section
from geonh.results.interpolation import curve
from geonh.results.zeros import PLACES, root, suspected
from geonh.runs.locating import EventWarning, Located, Search, located_zeros

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


@validated
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


@validated
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


@validated
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
        All sign changes of s along the trajectory's interpolation on the group, in the order of time, located as the
        events of ``solve``: times and places have errors O(Δ⁴) beside the method's own, velocities O(Δ³).
        ``solve(..., events=)`` locates them by its method instead. A jump over zero, at a pole or where an angle is
        wrapped, is none, and issues an ``EventWarning``.

    Raises
    ------
    ValueError
        For a direction other than −1, 0, 1, or a surface that is not scalar, or reads a missing name.
    TypeError
        For a surface that is not a function of (g, ξ) in jax.numpy.
    """
    direction = one_of(direction, "direction", (-1, 0, 1))
    surface = _as_scalar_surface(surface, trajectory)
    nodes = jax.tree.map(np.asarray, (trajectory.g, trajectory.xi))
    s = mapped(_surface, surface, nodes)
    if not np.all(np.isfinite(s)):
        raise ValueError(f"surface(g, ξ) is not finite at t = {trajectory.t[np.argmin(np.isfinite(s))]:g} s")
    names = tuple(trajectory.attributes["point_names"]), tuple(trajectory.attributes["velocity_names"])
    group, steps = trajectory.bound_system.group, _steps(trajectory, nodes)
    ends = np.stack([s[:-1], s[1:]], axis=1)
    suspects = mapped(_may_cross, (group, surface, np.array([direction])), (steps, ends)) if len(ends) else np.zeros(0)
    i = np.flatnonzero(suspects)
    if not len(i):
        g, xi = jax.tree.map(lambda a: a[:0], nodes)
        return Section(np.zeros(0), g, xi, trajectory.g_vector[:0], *names)
    here = jax.tree.map(lambda a: a[i], steps)
    # a zero at the end of a step has the sign that follows it: in the next step, or beyond the last
    last = i == len(ends) - 1
    after = jax.tree.map(lambda a: a[np.where(last, i, i + 1)], steps)._replace(offset=1.0 * last)
    one = Search(jax.tree.map(lambda a: a[0], here), np.int64(0), *np.zeros(3))
    locate = prepared(_located, (group, surface), one)
    zeros = located_zeros(locate, here, after, np.zeros(len(i), np.int64), ends[i], np.full(len(i), direction))
    order = np.lexsort([np.sign(here.span[zeros.row]) * zeros.t, zeros.row])
    jumps = order[zeros.jumped[order]]
    if len(jumps):
        where = f"t = {zeros.t[jumps[0]]:.6g}"
        words = f"surface(g, ξ) jumps over zero at {where}: poles and jumps are not reported as crossings"
        warnings.warn(words, EventWarning, stacklevel=3)
    order = order[~zeros.jumped[order]]
    with float64():
        g = jax.tree.map(np.asarray, group.from_vector(zeros.g_vector[order]))
    return Section(zeros.t[order], g, zeros.xi[order], zeros.g_vector[order], *names)


class _Steps(NamedTuple):
    """Steps between saved nodes (g, ξ), from the time t, of length ``span``, entered at the fraction ``offset``."""

    before: tuple
    after: tuple
    t: Any
    span: Any
    offset: Any


def _steps(trajectory: Trajectory, nodes: tuple) -> _Steps:
    before, after = jax.tree.map(lambda a: a[:-1], nodes), jax.tree.map(lambda a: a[1:], nodes)
    t = np.asarray(trajectory.t)
    return _Steps(before, after, t[:-1], np.diff(t), np.zeros(len(t) - 1))


def _surface(surface: Callable, node: tuple) -> Any:
    return jnp.asarray(surface(*node), float)


def _may_cross(tree: tuple, node: tuple) -> Array:
    """True if the interpolation may cross the surface in a step."""
    (group, surface, directions), (step, ends) = tree, node
    place = curve(group, step.before, step.after, step.span)
    inner = lax.map(lambda s: _surface(surface, place(s)), jnp.asarray(PLACES[1:-1]))
    return suspected(jnp.concatenate([ends[:1], inner, ends[1:]])[:, None], directions)[0]


def _located(tree: tuple, search: Search) -> Located:
    """Crossing of a surface in an interval of a step, as ``geonh.runs.locating.located`` finds events."""
    (group, surface), step = tree, search.node
    place = curve(group, step.before, step.after, step.span)

    def at(s: Array) -> tuple[Array, Located]:
        g, xi = place(step.offset + s)
        value, t = _surface(surface, (g, xi)), step.t + (step.offset + s) * step.span
        return value, Located(value, s, t, group.to_vector(g), xi, jnp.zeros(0))

    return root(at, search.at_a, 4e-16 * jnp.abs(step.t / step.span), (search.a, search.b))


def _as_scalar_surface(surface: Any, trajectory: Trajectory) -> Callable[[Any, Any], Any]:
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

"""What a long run shows: the drift of its energy, the alternation of its multipliers, its Poincaré sections."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy

from geonh.geometry.field import evaluated
from geonh.numerics.inspection import careful, inspected
from geonh.numerics.precision import as_float64, float64, one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geonh.trajectory import Trajectory


@dataclass(frozen=True)
class Drift:
    """A quantity along a run, as a line with something around it.

    Attributes
    ----------
    slope : float
        Of the least-squares line, unit/s.
    error : float
        Standard error of the slope, from ten blocks of the run, whose scatter knows of correlations.
    bound : float
        Largest deviation from the value at the start.
    """

    slope: float
    error: float
    bound: float

    @property
    def drifts(self) -> bool:
        """Whether the slope differs from zero by more than four standard errors."""
        return abs(self.slope) > 4 * self.error

    def __str__(self) -> str:
        return f"slope {self.slope:.2e} ± {self.error:.1e} per second, largest deviation {self.bound:.2e}"


def drift(t: Any, values: Any) -> Drift:
    """Drift of a quantity, for instance ``drift(traj.t, traj.energy)``.

    Parameters
    ----------
    t, values : array_like, shape=[N]
        Times and values; N at least 30.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    t, values = as_float64(t, "t"), as_float64(values, "values")
    if t.ndim != 1 or t.shape != values.shape or len(t) < 30:
        raise ValueError(f"t and values must have one shape [N] with N ≥ 30, got {t.shape} and {values.shape}")
    if not np.all(np.diff(t) > 0):
        raise ValueError("t must increase")
    blocks = np.array_split(np.arange(len(t)), 10)
    times = np.array([t[b].mean() for b in blocks])
    means = np.array([values[b].mean() for b in blocks])
    slope, offset = np.polyfit(times, means, 1)
    scatter = means - (slope * times + offset)
    spread = np.sum((times - times.mean()) ** 2)
    error = np.sqrt(np.sum(scatter**2) / (len(times) - 2) / spread)
    return Drift(float(slope), float(error), float(np.abs(values - values[0]).max()))


def alternation(trajectory: Trajectory) -> np.ndarray:
    r"""Size of the part of p⁻ that changes sign from node to node, relative to the largest momentum, shape=[N].

    ‖(h/2) μᵀ(λ_k − λ(t_k))‖ / max‖p̃‖ in the kinetic norm, with λ_k of the method and λ of the continuous equations.
    In a run of GNI, RATTLE or SHAKE it grows as fast as the constrained flow contracts the phase space, whatever the
    step (mathematics.md §6); what is not small against 1 has spoiled the run. It is zero for all other methods, and
    without constraints. The same as ``trajectory.alternation``.
    """
    return trajectory.alternation


@dataclass(frozen=True)
class Section:
    """Crossings of a surface by a trajectory, located between the nodes.

    Attributes
    ----------
    t : ndarray, shape=[K]
        Times of the crossings.
    g : point, leading axis K
        Group elements.
    xi : ndarray, shape=[K, n]
        Velocities.
    point_names, velocity_names : tuple of str
        Names of the coordinates of ``g`` as a vector, and of ξ.
    """

    t: np.ndarray
    g: Any
    xi: np.ndarray
    g_vector: np.ndarray
    point_names: tuple[str, ...]
    velocity_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.t)

    def values(self, name: str) -> np.ndarray:
        """Coordinate or velocity of a name, shape=[K].

        Raises
        ------
        KeyError
            For a name that is none.
        """
        if name in self.point_names:
            return self.g_vector[:, self.point_names.index(name)]
        if name in self.velocity_names:
            return self.xi[:, self.velocity_names.index(name)]
        raise KeyError(f"{name!r} is none of {[*self.point_names, *self.velocity_names]}")

    def plot(self, horizontal: str, vertical: str) -> Figure:
        """The section in two of its coordinates."""
        import matplotlib.pyplot as plt

        from geonh.plotting.labels import symbol

        figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
        axes.plot(self.values(horizontal), self.values(vertical), ".", ms=3)
        axes.set(xlabel=symbol(horizontal), ylabel=symbol(vertical), title=f"Poincaré section, {len(self)} crossings")
        axes.grid(alpha=0.3)
        return figure


def poincare_section(
    trajectory: Trajectory, surface: Callable[[Any, np.ndarray], Any], *, direction: int = 1
) -> Section:
    """Crossings of surface(g, ξ) = 0.

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
        O(Δ⁴) beside the method's own, its velocity O(Δ³).

    Raises
    ------
    ValueError
        For a direction other than −1, 0, 1, or a surface that is not scalar, or reads what is not there.
    TypeError
        For a surface that is no function of (g, ξ) in jax.numpy.
    """
    one_of(direction, "direction", (-1, 0, 1))
    function = _inspected(surface, trajectory)
    with float64():
        s = np.asarray(jax.jit(jax.vmap(function))(trajectory.g, trajectory.xi))
    if not np.all(np.isfinite(s)):
        raise ValueError(f"surface(g, ξ) is not finite at t = {trajectory.t[np.argmin(np.isfinite(s))]:g} s")
    up, down = (s[:-1] < 0) & (s[1:] >= 0), (s[:-1] > 0) & (s[1:] <= 0)
    crossing = up if direction == 1 else down if direction == -1 else up | down
    times = []
    for i in np.flatnonzero(crossing):
        ends = (float(trajectory.t[i]), float(trajectory.t[i + 1]))

        def along(t: float) -> float:
            g, xi = trajectory.interpolate([t])
            with float64():
                return float(function(jax.tree.map(lambda a: a[0], g), xi[0]))

        times.append(
            ends[1] if s[i + 1] == 0 else scipy.optimize.brentq(along, *ends, xtol=1e-13 * max(1.0, abs(ends[1])))
        )
    t = np.array(times)
    names = tuple(trajectory.attributes["point_names"]), tuple(trajectory.attributes["velocity_names"])
    g, xi = trajectory.interpolate(t) if len(t) else (trajectory.g, trajectory.xi)
    with float64():
        vector = np.asarray(jax.vmap(trajectory._bound.group.to_vector)(g)) if len(t) else trajectory.g_vector[:0]
    if not len(t):
        g, xi = jax.tree.map(lambda a: a[:0], g), xi[:0]
    return Section(t, g, xi, vector, *names)


def _inspected(surface: Any, trajectory: Trajectory) -> Callable[[Any, Any], Any]:
    """The surface as a function whose value is one number, or an error that says why it is none."""
    if not callable(surface):
        raise TypeError(f"surface must be a function of (g, xi), got {surface!r}")
    try:
        inspect.signature(surface).bind(None, None)
    except TypeError as error:
        raise TypeError(f"surface takes (g, xi); yours takes {inspect.signature(surface)}") from error
    except ValueError:  # a builtin without a signature
        pass

    def function(g: Any, xi: Any) -> Any:
        value = evaluated("surface", surface, g, xi)
        if value.shape != ():
            raise ValueError(f"surface(g, ξ) must be one number, got an array of shape {value.shape}")
        return value

    with float64():
        node = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], np.float64), (trajectory.g, trajectory.xi))
        return careful(function) if inspected("surface", jax.make_jaxpr(function)(*node)) else function

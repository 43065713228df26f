"""Stability of steady motions over two parameters, with plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.analysis.families import MotionFamily
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, as_names, shortly
from geonh.mechanics.system import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StabilityMap:
    """Growth of small disturbances over two parameters.

    Attributes
    ----------
    first, second : ndarray, shape=[N₁] and [N₂]
        The parameters.
    growth : ndarray, shape=[N₁, N₂]
        Largest real part of the eigenvalues, 1/s; −∞ where no state is left after removing neighbouring steady motions.
    frequency : ndarray, shape=[N₁, N₂]
        |Im| of that eigenvalue, rad/s: zero where the perturbation grows or decays without oscillation.
    parameters : tuple of str
        Names of the two.
    """

    first: np.ndarray
    second: np.ndarray
    growth: np.ndarray
    frequency: np.ndarray
    parameters: tuple[str, str]

    @validated
    def stable(self, tol: float = 0.0) -> np.ndarray:
        """True where no perturbation grows faster than ``tol``, 1/s; shape=[N₁, N₂], of bool.

        Raises
        ------
        TypeError, ValueError
            If ``tol`` is not a number.
        """
        return self.growth <= tol

    def plot(self, labels: tuple[str, str] | None = None) -> Figure:
        """Plot the growth over both parameters, with its zero contour.

        Parameters
        ----------
        labels : tuple of str, optional
            Of the two axes; the parameters' names when left out.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        TypeError, ValueError
            If ``labels`` are not two names.
        """
        from geonh.plotting.figures import empty_figure

        written = self.parameters if labels is None else as_names(labels, "labels")
        if len(written) != 2:
            raise ValueError(f"labels must be two names, got {shortly(labels)}")
        figure = empty_figure((6.0, 4.5))
        axes = figure.add_subplot()
        growth = np.where(np.isfinite(self.growth), self.growth, np.nan).T
        largest = float(np.nanmax(np.abs(growth), initial=0.0)) or 1.0
        shown = axes.pcolormesh(
            self.first, self.second, growth, cmap="RdBu_r", vmin=-largest, vmax=largest, shading="nearest"
        )
        if np.nanmin(growth) < 0 < np.nanmax(growth):
            axes.contour(self.first, self.second, growth, levels=[0.0], colors="black")
        first, second = written
        axes.set(xlabel=first, ylabel=second)
        figure.colorbar(shown, label="growth, 1/s")
        return figure


@validated
def stability_map(
    system: System,
    first: Any,
    second: Any,
    motion: Callable[[float, float], tuple[Any, Any]] | tuple[Any, Any],
    *,
    parameters: tuple[str | None, str | None] = (None, None),
    t: float = 0.0,
    controls: Any = None,
    spins: Any = None,
    symmetries: Any = None,
    tol: float = 1e-8,
) -> StabilityMap:
    """Growth of perturbations of a steady motion over two parameters, all in one compiled call.

    Parameters
    ----------
    system : System
    first, second : array_like, shape=[N₁] and [N₂]
        Values of the two.
    motion : callable or (g, xi)
        (a, b) → (g, ξ), the steady motion there; or one that is the same everywhere.
    parameters : tuple of str or None
        Names of the scalar entries of ``system.parameters`` that take the values; None for one, such as a speed, that
        only the motion depends on.
    t : float
        As in ``linearise``.
    controls : array_like, optional
        As in ``linearise``: the value of the controls, of the shape that the forces take.
    spins : array_like, shape=[k, n], optional
        As in ``linearise``; when left out, those of the first pair are used.
    symmetries : array_like, shape=[s, n], optional
        As in ``linearise``.
    tol : float
        As in ``linearise``.

    Returns
    -------
    StabilityMap

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        As ``linearise``, naming the values; or for a parameter that the system does not have.

    Examples
    --------
    >>> import geonh as gn
    >>> sleigh = gn.systems.chaplygin_sleigh()
    >>> found = gn.analysis.stability_map(
    ...     sleigh, [-1.0, 1.0], [0.1, 0.2], lambda u, a: (None, [0.0, u, 0.0]), parameters=(None, "a")
    ... )
    """
    axes = [as_float64(values, name) for name, values in (("first", first), ("second", second))]
    for name, values in zip(("first", "second"), axes, strict=True):
        if values.ndim != 1 or not len(values):
            raise ValueError(f"{name} must be of shape [N] with N ≥ 1, got {list(values.shape)}")
    if not isinstance(parameters, tuple | list) or len(parameters) != 2:
        raise TypeError(f"parameters must be two names, or None in place of one, got {shortly(parameters)}")
    as_names([name for name in parameters if name is not None], "parameters")
    motions = MotionFamily(system, motion, tuple(parameters), t, controls, spins, symmetries, tol)
    linear = motions.linearised(np.array([(a, b) for a in axes[0] for b in axes[1]]))
    fastest = [one.eigenvalues[0] if len(one.eigenvalues) else complex(-np.inf, 0.0) for one in linear]
    roots = np.array(fastest).reshape(len(axes[0]), len(axes[1]))
    return StabilityMap(axes[0], axes[1], roots.real, np.abs(roots.imag), (motions.labels[0], motions.labels[1]))

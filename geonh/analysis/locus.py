"""Root locus: eigenvalues over a parameter, their branches and crossings, with plots."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from geonh.analysis.families import MotionFamily
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.mechanics.system import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


AXIS = 1e-9
"""Real part, relative to the largest eigenvalue, below which it counts as zero."""
XTOL, RTOL = 1e-13, 1e-14
"""Tolerances of Brent's method for the value at a crossing."""


class Crossing(NamedTuple):
    """Parameter value at which eigenvalues cross the imaginary axis, or arrive at it and leave it.

    Attributes
    ----------
    value : float
        The parameter.
    eigenvalue : complex
        The one on the axis there, 1/s; of a pair that with Im ≥ 0.
    kind : {"zero", "Hopf", "collision"}
        A real one passes through zero; a pair crosses at ±iω; or eigenvalues on the axis collide, at zero or at ±iω,
        after which one grows and one decays, as in conservative systems.
    """

    value: float
    eigenvalue: complex
    kind: str


@dataclass(frozen=True)
class RootLocus:
    """Eigenvalues of linear equations over a parameter.

    Attributes
    ----------
    values : ndarray, shape=[N]
        The parameter.
    eigenvalues : ndarray, shape=[N, d]
        Complex, 1/s; a column is a branch, continued from value to value. Where the family of neighbouring steady
        motions is larger than at most values, the eigenvalues that are zero for it are entered as 0.
    states : tuple of str
        States of the equations.
    parameter : str
        Name of the parameter.
    """

    values: np.ndarray
    eigenvalues: np.ndarray
    states: tuple[str, ...]
    parameter: str
    _eigenvalues_at: Callable[[float], np.ndarray] = field(repr=False)

    @property
    def growth(self) -> np.ndarray:
        """Largest real part, shape=[N], 1/s: negative where small perturbations decay."""
        return self.eigenvalues.real.max(axis=1)

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import root_locus_card

        return root_locus_card(self)

    def crossings(self) -> list[Crossing]:
        """Candidate bifurcations: a real part changes sign, or eigenvalues meet on the imaginary axis and leave it.

        Returns
        -------
        list of Crossing
            By value, refined to rounding. Of several collisions between neighbouring values one is found, and one that
            is undone before the next value is not detected.
        """
        real = self.eigenvalues.real
        signs = np.where(np.abs(real) > self._axis, np.sign(real), 0.0)
        roots = []
        for b in range(signs.shape[1]):
            for i, j in itertools.pairwise(np.flatnonzero(signs[:, b])):
                if signs[i, b] != signs[j, b] and not _collides(signs, b, i, j):
                    signs[i + 1 : j, b] = signs[i, b]  # on the axis by coincidence
                    root = self._crossing(self.values[[i, j]], self.eigenvalues[[i, j], b])
                    roots += [root] if root.eigenvalue.imag >= 0 else []
        for i, (before, after) in enumerate(itertools.pairwise(signs)):
            if {-1.0, 1.0} <= set(after[before == 0]):
                roots.append(self._collision(*self.values[[i, i + 1]]))
            elif {-1.0, 1.0} <= set(before[after == 0]):
                roots.append(self._collision(*self.values[[i + 1, i]]))
        return sorted(roots, key=lambda crossing: crossing.value)

    @property
    def _axis(self) -> float:
        return AXIS * float(np.abs(self.eigenvalues).max(initial=0.0))

    def _crossing(self, ends: np.ndarray, roots: np.ndarray) -> Crossing:
        """Locate the crossing of a branch between two values, at which its eigenvalues are ``roots``."""

        def branch(value: float) -> complex:
            share = (value - ends[0]) / (ends[1] - ends[0])
            near = (1 - share) * roots[0] + share * roots[1]
            here = self._eigenvalues_at(value)
            return complex(here[np.argmin(np.abs(here - near))])

        value = scipy.optimize.brentq(lambda value: branch(value).real, *ends, xtol=XTOL, rtol=RTOL)
        root = branch(value)
        return Crossing(float(value), root, "zero" if abs(root.imag) <= self._axis else "Hopf")

    def _collision(self, on: float, off: float) -> Crossing:
        """Locate a collision between a value with eigenvalues on the axis and one without, by bisection: near it they
        vary like a square root.
        """

        def moving(roots: np.ndarray) -> int:  # where a pair meets at zero it may be taken out, as a family of motions
            return int(np.sum(np.abs(roots.real) > self._axis))

        count, beyond = moving(self._eigenvalues_at(on)), self._eigenvalues_at(off)
        while abs(off - on) > XTOL + RTOL * abs(on):
            here = self._eigenvalues_at(middle := (on + off) / 2)
            if moving(here) == count:
                on = middle
            else:
                off, beyond = middle, here
        leaving = min(beyond[np.abs(beyond.real) > self._axis], key=lambda root: abs(root.real))
        return Crossing(float(on), 1j * abs(leaving.imag), "collision")

    @validated
    def plot(self, label: str | None = None) -> Figure:
        """Real parts (solid) and imaginary parts ≥ 0 (dashed) over the parameter, stable ranges shaded.

        Parameters
        ----------
        label : str, optional
            Label of the parameter axis; its name when left out.

        Returns
        -------
        matplotlib.figure.Figure
            ``figure.savefig(path)`` writes it; no display is needed.

        Raises
        ------
        TypeError
            If ``label`` is no text.
        """
        from geonh.plotting.figures import empty_figure

        figure = empty_figure((7.0, 4.5))
        axes = figure.add_subplot()
        stable = self.growth < 0
        axes.axhline(0.0, color="0.5", linewidth=0.8)
        for i, branch in enumerate(self.eigenvalues.T):
            colour = f"C{i}"
            axes.plot(self.values, branch.real, color=colour, label="real part" if i == 0 else None)
            turning = np.where(branch.imag > 0, branch.imag, np.nan)
            if np.any(np.isfinite(turning)):
                axes.plot(self.values, turning, "--", color=colour, linewidth=1.2)
        axes.plot([], [], "--", color="0.3", label="imaginary part")
        if np.any(stable):
            low, high = axes.get_ylim()
            axes.fill_between(
                self.values, low, high, where=list(stable), color="0.9", zorder=0, label="stable", linewidth=0
            )
            axes.set_ylim(low, high)
        axes.set_xlabel(self.parameter if label is None else label)
        axes.set_ylabel("eigenvalues, 1/s")
        axes.legend()
        return figure


@validated
def root_locus(
    system: System,
    values: Any,
    motion: Callable[[float], tuple[Any, Any]] | tuple[Any, Any],
    *,
    parameter: str | None = None,
    t: float = 0.0,
    controls: Any = None,
    spins: Any = None,
    symmetries: Any = None,
    tol: float = 1e-8,
) -> RootLocus:
    """Eigenvalues about a steady motion over its speed, or over a parameter of the system.

    Parameters
    ----------
    system : System
    values : array_like, shape=[N]
        Values of the parameter, in the order in which branches are followed.
    motion : callable or (g, xi)
        value → (g, ξ), the steady motion there; or one that is the same for all values.
    parameter : str, optional
        Name of the scalar entry of ``system.parameters`` that takes the value; if None, only the motion depends on it.
    t : float
        As in ``linearise``.
    controls : array_like, optional
        As in ``linearise``: the value of the controls, of the shape that the forces take.
    spins : array_like, shape=[k, n], optional
        As in ``linearise``; when left out, found at the first value that needs them.
    symmetries : array_like, shape=[s, n], optional
        As in ``linearise``.
    tol : float
        As in ``linearise``.

    Returns
    -------
    RootLocus

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        As ``linearise``, naming the value; or for a parameter that the system does not have.
    """
    points = as_float64(values, "values")
    if points.ndim != 1 or not len(points):
        raise ValueError(f"values must be of shape [N] with N ≥ 1, got {points.shape}")
    motions = MotionFamily(system, motion, (parameter,), t, controls, spins, symmetries, tol)
    linear = motions.linearised(points[:, None])
    usual = Counter(one.family for one in linear).most_common(1)[0][0]
    for i, one in enumerate(linear):
        if one.family != usual and _contains(one.family, usual):  # an eigenvalue of the usual family is zero here
            linear[i] = motions.linearised(points[i : i + 1, None], usual)[0]
    d = max(len(one.eigenvalues) for one in linear)
    roots = np.stack([np.pad(one.eigenvalues, (0, d - len(one.eigenvalues))) for one in linear])
    widest = next(one for one in linear if len(one.eigenvalues) == d)
    return RootLocus(
        points,
        _branches(points, roots),
        widest.states,
        motions.labels[0],
        lambda value: motions.linearised(np.array([[value]]), usual)[0].eigenvalues,
    )


def _collides(signs: np.ndarray, b: int, i: int, j: int) -> bool:
    """True if branch b, on the axis between its i-th and j-th values, came there with another from the other side."""
    return j - i > 2 and bool(np.any((signs[i] == -signs[i, b]) & (signs[i + 1] == 0)))


def _contains(family: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(family) >= len(other) and all(k >= j for k, j in zip(family, other, strict=False))


def _branches(values: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Sort eigenvalues into branches: each next root is the nearest to the linear extrapolation of its branch."""
    branches = roots.copy()
    for i in range(1, len(roots)):
        ahead = branches[i - 1]
        if i > 1 and values[i - 1] != values[i - 2]:
            step = (values[i] - values[i - 1]) / (values[i - 1] - values[i - 2])
            ahead = ahead + step * (branches[i - 1] - branches[i - 2])
        distances = np.abs(ahead[:, None] - roots[i][None])
        branches[i] = roots[i][scipy.optimize.linear_sum_assignment(distances)[1]]
    return branches

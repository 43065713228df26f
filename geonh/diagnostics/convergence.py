"""Measured order of convergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.diagnostics.reference import reference_trajectory
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import as_method, stepping_method
from geonh.mechanics.system import System
from geonh.runs.solve import solve

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


AT_ROUNDING = 1e-12
"""Error, relative to 1 + the size of the quantity, attributed to the reference solution."""


@argument_type
@dataclass(frozen=True)
class Convergence:
    """Global errors at the end of a run, for several step sizes or tolerances.

    Attributes
    ----------
    dt : ndarray, shape=[K]
        Step sizes, seconds; the mean ones where tolerances chose them.
    position_error, velocity_error : ndarray, shape=[K]
        Largest error of an entry of g, and of ξ, at the end.
    declared : int
        Declared order of the method; 1 for tolerances.
    label : str
        Names of system and method.
    floor : float
        Errors below this are attributed to the reference solution and rounding.
    tolerance : ndarray, shape=[K], or None
        Tolerances that chose the steps.
    """

    dt: np.ndarray
    position_error: np.ndarray
    velocity_error: np.ndarray
    declared: int
    label: str
    floor: float = 0.0
    tolerance: np.ndarray | None = None

    @property
    def scale(self) -> np.ndarray:
        """Variable of the fit, shape=[K]: the step sizes, or the tolerances."""
        return self.dt if self.tolerance is None else self.tolerance

    @property
    def error(self) -> np.ndarray:
        """The larger of the position and velocity errors, shape=[K]."""
        return np.maximum(self.position_error, self.velocity_error)

    @property
    def order(self) -> float:
        """Slope of the least-squares fit of log error against log dt, or log tolerance, above the floor.

        nan of a single error.
        """
        above = self.error > self.floor
        if sum(above) < 2:
            return np.nan
        return float(np.polyfit(np.log(self.scale[above]), np.log(self.error[above]), 1)[0])

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row for each step size or tolerance, and the order between it and the preceding one."""
        import pandas as pd

        error = np.where(self.error > self.floor, self.error, np.nan)
        between = np.diff(np.log(error)) / np.diff(np.log(self.scale))
        means = {} if self.tolerance is None else {"mean dt": self.dt}
        return pd.DataFrame(
            {
                **means,
                "error of g": self.position_error,
                "error of ξ": self.velocity_error,
                "order": np.concatenate([[np.nan], between]),
            },
            index=pd.Index(self.scale, name="dt" if self.tolerance is None else "tolerance"),
        )

    def __str__(self) -> str:
        below = int(np.sum(self.error <= self.floor))
        remedy = "take longer steps" if self.tolerance is None else "take larger tolerances"
        note = f" ({below} errors at rounding left out; {remedy})" if below else ""
        words = "order {:.2f}, declared {}" if self.tolerance is None else "slope {:.2f} in the tolerance, expected {}"
        return f"{self.label}: measured {words.format(self.order, self.declared)}{note}\n{self.table}"

    def plot(self) -> Figure:
        """Plot the error against the step size or the tolerance, with a line of the declared slope."""
        from geonh.plotting.figures import empty_figure

        figure = empty_figure((5.5, 4.2))
        axes = figure.subplots()
        axes.loglog(self.scale, self.position_error, "o-", label="$g$")
        axes.loglog(self.scale, self.velocity_error, "s--", label=r"$\xi$")
        below = np.min([self.position_error[0], self.velocity_error[0]]) / 3  # beside the curves, not on them
        line = below * (self.scale / self.scale[0]) ** self.declared
        axes.loglog(self.scale, line, color="0.5", ls=":", label=f"slope {self.declared}")
        axes.set_xticks(self.scale, [f"{h:.3g}" for h in self.scale])
        axes.xaxis.minorticks_off()
        axes.set(
            xlabel="dt (s)" if self.tolerance is None else "tolerance",
            ylabel="largest error at the end",
            title=f"{self.label}\norder {self.order:.2f}",
        )
        axes.grid(alpha=0.3)
        axes.legend()
        return figure


@validated
def convergence(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    span: float = 1.0,
    steps: Sequence[int] = (40, 80, 160, 320),
    controls: Any = None,
    tolerances: Sequence[float] | None = None,
) -> Convergence:
    """Measure the order of a method on a system, or how its errors follow a tolerance, against a reference solution of
    relative tolerance 1e-12.

    Parameters
    ----------
    system : System
    method : Integrator or str, optional
        The method, or its name in ``methods``; the default of ``solve`` when left out.
    xi0 : array_like, shape=[n]
        Initial velocity, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    span : float
        Length of the runs, seconds.
    steps : sequence of int
        Numbers of steps, increasing.
    controls : callable, optional
        u(t) in ``jax.numpy``.
    tolerances : sequence of float, optional
        Tolerances that choose the steps, as in ``solve``, decreasing, in place of ``steps``.

    Returns
    -------
    Convergence
        Errors at the end for each step or tolerance, the slope fitted to them, and ``plot``.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        With fewer than two numbers of steps, or without a span; or if the start or the method does not suit the system.
    IntegrationError
        If a run stops early.
    """
    counts = np.array([as_count(n, "steps") for n in steps])
    if counts.size < 2 or np.any(np.diff(counts) <= 0):
        raise ValueError(f"steps must be two or more increasing whole numbers of steps, got {steps}")
    if not span > 0:
        raise ValueError(f"span must be a positive number of seconds, got {span}")
    sizes: list[dict[str, Any]]
    if tolerances is None:
        chosen = as_method(method, controls)
        sizes = [{"dt": span / n, "n_steps": int(n)} for n in counts]
    else:
        wanted = as_float64(tolerances, "tolerances")
        if wanted.ndim != 1 or len(wanted) < 2 or np.any(np.diff(wanted) >= 0) or not wanted[-1] > 0:
            raise ValueError(f"tolerances must be two or more decreasing positive numbers, got {shortly(tolerances)}")
        chosen = stepping_method(method, float(wanted[0]), controls).method
        sizes = [{"tolerance": float(tolerance), "t_end": float(span)} for tolerance in wanted]
    refuse(chosen, system)
    # before the reference, which takes as long as a far too long span lasts
    runs = [solve(system, method, xi0=xi0, g0=g0, **size, save_every=2**40, controls=controls) for size in sizes]
    g, xi = reference_trajectory(system, [0.0, span], xi0, g0, controls=controls)
    with float64():
        end = np.asarray(system.group.to_vector(g))[-1]
    found = []
    for run in runs:
        errors = np.abs(run.g_vector[-1] - end).max(), np.abs(run.xi[-1] - xi[-1]).max()
        found.append((span / run.k[-1], *errors))
    label = f"{system.name}, {type(chosen).__name__}"
    floor = AT_ROUNDING * (1.0 + max(np.abs(end).max(), np.abs(xi[-1]).max()))
    dt, positions, velocities = np.array(found).T
    if tolerances is None:
        return Convergence(dt, positions, velocities, chosen.order, label, floor)
    return Convergence(dt, positions, velocities, 1, label, floor, wanted)

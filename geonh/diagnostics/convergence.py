"""Measured order of convergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, judged
from geonh.arguments.validators import as_count
from geonh.diagnostics.reference import reference_trajectory
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import as_method
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
    """Global errors at the end of a run, for several step sizes.

    Attributes
    ----------
    dt : ndarray, shape=[K]
        Step sizes, seconds.
    position_error, velocity_error : ndarray, shape=[K]
        Largest error of an entry of g, and of ξ, at the end.
    declared : int
        Declared order of the method.
    label : str
        Names of system and method.
    floor : float
        Errors below this are attributed to the reference solution and rounding.
    """

    dt: np.ndarray
    position_error: np.ndarray
    velocity_error: np.ndarray
    declared: int
    label: str
    floor: float = 0.0

    @property
    def error(self) -> np.ndarray:
        """The larger of the position and velocity errors, shape=[K]."""
        return np.maximum(self.position_error, self.velocity_error)

    @property
    def order(self) -> float:
        """Slope of the least-squares fit of log error against log dt, above the floor; nan of a single error."""
        above = self.error > self.floor
        return float(np.polyfit(np.log(self.dt[above]), np.log(self.error[above]), 1)[0]) if sum(above) > 1 else np.nan

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row for each step size, and the order between it and the preceding one."""
        import pandas as pd

        error = np.where(self.error > self.floor, self.error, np.nan)
        between = np.diff(np.log(error)) / np.diff(np.log(self.dt))
        return pd.DataFrame(
            {
                "error of g": self.position_error,
                "error of ξ": self.velocity_error,
                "order": np.concatenate([[np.nan], between]),
            },
            index=pd.Index(self.dt, name="dt"),
        )

    def __str__(self) -> str:
        below = int(np.sum(self.error <= self.floor))
        note = f" ({below} errors at rounding left out; take longer steps)" if below else ""
        return f"{self.label}: measured order {self.order:.2f}, declared {self.declared}{note}\n{self.table}"

    def plot(self) -> Figure:
        """Plot the error against the step size, with a line of the declared order."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
        axes.loglog(self.dt, self.position_error, "o-", label="$g$")
        axes.loglog(self.dt, self.velocity_error, "s--", label=r"$\xi$")
        below = np.min([self.position_error[0], self.velocity_error[0]]) / 3  # beside the curves, not on them
        line = below * (self.dt / self.dt[0]) ** self.declared
        axes.loglog(self.dt, line, color="0.5", ls=":", label=f"slope {self.declared}")
        axes.set_xticks(self.dt, [f"{h:.3g}" for h in self.dt])
        axes.xaxis.minorticks_off()
        axes.set(xlabel="dt (s)", ylabel="largest error at the end", title=f"{self.label}\norder {self.order:.2f}")
        axes.grid(alpha=0.3)
        axes.legend()
        return figure


@judged
def convergence(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    span: float = 1.0,
    steps: Sequence[int] = (40, 80, 160, 320),
    controls: Any = None,
) -> Convergence:
    """Measure the order of a method on a system, against a reference solution of relative tolerance 1e-12.

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

    Returns
    -------
    Convergence
        Errors at the end for each step, the order fitted to them, and ``plot``.

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
    method = as_method(method, controls)
    refuse(method, system)
    g, xi = reference_trajectory(system, [0.0, span], xi0, g0, controls=controls)
    with float64():
        end = np.asarray(system.group.to_vector(g))[-1]
    positions, velocities = [], []
    for n in counts:
        run = solve(system, method, xi0=xi0, g0=g0, dt=span / n, n_steps=int(n), save_every=int(n), controls=controls)
        positions.append(np.abs(run.g_vector[-1] - end).max())
        velocities.append(np.abs(run.xi[-1] - xi[-1]).max())
    label = f"{system.name}, {type(method).__name__}"
    floor = AT_ROUNDING * (1.0 + max(np.abs(end).max(), np.abs(xi[-1]).max()))
    return Convergence(span / counts, np.array(positions), np.array(velocities), method.order, label, floor)

"""``Trajectory``: the labelled result of a run.

It stores the nodes (k, g, p⁺, p⁻) and computes the rest (velocities, multipliers, energies, residuals, first
integrals) once, on demand. All arrays are NumPy float64 with time on the leading axis.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_constant, shortly
from geonh.engine import computed, mapped
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.registry import methods
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.multiplier_forces import determinant
from geonh.mechanics.soundness import no_numbers
from geonh.mechanics.system import System
from geonh.results import files, tables
from geonh.results.dense import as_times, end_of, evaluated, refuse_outside
from geonh.results.interpolation import between
from geonh.results.modes import Modes
from geonh.results.nodes import Nodes
from geonh.results.parasitic import AlternationWarning as AlternationWarning  # public location
from geonh.results.parasitic import spoiled_from, what_alternates
from geonh.results.record import Record, RunState
from geonh.results.replacing import replacing_atomically
from geonh.results.same_system import differences, refuse_changes, refuse_other_modes

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from geonh.viewer import Page


@argument_type
@dataclass(frozen=True, eq=False)
class Trajectory(Record):
    """Trajectory of a system, returned by ``solve``, ``resume`` and ``Trajectory.load``.

    All arrays are NumPy float64, with the N saved nodes along the first axis.

    Attributes
    ----------
    t : ndarray, shape=[N]
        Times of the nodes, seconds.
    g : point of the group, with a leading axis of length N
        Group path: an array of shape=[N, 3] on SE(2), (θ, x, y); [N, 3, 3] on SO(3); [N, 4, 4] on SE(3); [N, n] on Rⁿ
        and Tⁿ; the tuple of the factors' arrays on a product.
    g_vector : ndarray, shape=[N, size]
        The same, the entries of a point flattened, in the order of ``group.point_names``.
    x : base point, with a leading axis of length N
        Base path x = o·g, seen by the system's functions. As g with ``base="group"``, shape=[N, k] with coordinates.
    xi : ndarray, shape=[N, n]
        Velocities ξ at the nodes, of the average momentum.
    p, p_plus, p_minus : ndarray, shape=[N, n]
        Average, incoming and outgoing momenta.
    multipliers : ndarray, shape=[N, m]
        λ of the constraint force μᵀλ at the nodes: that of the continuous equations at (t, g, ξ, u).
    impulse_multipliers : ndarray, shape=[N, m]
        λ of the impulse that a method gives at a node, p⁻ = p⁺ + h(f + μᵀλ): GNI, RATTLE, SHAKE; else ``multipliers``.
    alternation : ndarray, shape=[N]
        Size of the part of p⁻ that alternates in sign from node to node, relative to the largest momentum: the run is
        unreliable unless it is small against 1. Zero for methods without such a part.
    energy, energy_minus : ndarray, shape=[N]
        Energy at p̃ and at p⁻, joules.
    constraint_residual : ndarray, shape=[N, m]
        μ(x)ξ − b(x), those of the holonomic constraints first.
    holonomic_residual : ndarray, shape=[N, k]
        φ(x); k = 0 without holonomic constraints.
    integrals : dict of str to ndarray, shape=[N, …]
        The system's first integrals along the path.
    events : dict of str to Section
        Locations of each event: times, group elements, velocities, multipliers.
    status : Result
        SUCCESS, or the reason for stopping; also as a bool, ``success``, and as text, ``message``.
    k : ndarray of int, shape=[N]
        Step numbers of the nodes; t = t0 + k·dt.
    mode : ndarray of str, shape=[N]
        Name of the mode of each node, for a system with ``Modes``; at a transition there are two nodes, before and
        after it.
    switches : Switches or None
        Transitions between modes: times, modes, velocities before and after.
    dt, t0 : float
        Time step and initial time, seconds.
    save_every : int
        Number of steps between saved nodes.
    system, method : System or None, Integrator or None
        The system and the method used; None after loading from a file without them.
    attributes : dict of str
        Metadata of the run, stored in files: names, group, method and the reason for it where none was named,
        parameters, units, version, and ``"changes"``.
    nodes, run, loaded : Nodes, RunState, dict
        Stored data: the nodes; what ``resume`` takes, whose fields are attributes too (``state``, ``clock``, …); and
        observables of the first nodes, from a file.
    """

    # --- reading -------------------------------------------------------------------------------------------
    @cached_property
    def message(self) -> str:
        """Description of how the run ended, with step, time and residual of a failure."""
        if self.status is Result.EVENT and self.crossings is not None:
            name, t = self.crossings.names[self.crossings.which[-1]], self.crossings.t[-1]
            return f"{self.attributes['system']}: {self.status.message}, {name!r}, at t = {t:.6g}"
        if self.status in (Result.SUCCESS, Result.INTERRUPTED):
            return f"{self.attributes['system']}: {self.status.message} at t = {self.t[-1]:.6g}"
        if self.state is None:
            return f"{self.attributes['system']}: {self.status.message} after its last node, t = {self.t[-1]:.6g}"
        step = int(self.state.k) + 1
        t = self.t0 + step * self.dt if self.state.t is None else float(self.state.t)
        mode = "" if self.nodes.mode is None else f" in mode {str(self.mode[-1])!r}"
        text = f"{self.attributes['system']}{mode}: step {step}, t = {t:.6g}: {self._fault}"
        if self.spoiled_from is not None:
            text += f"; the run was spoiled before, {what_alternates(self, self.spoiled_from)}"
        return text

    @property
    def _last_problem(self) -> Problem | None:
        """Problem of the last step, in its mode; None if it is not known, as after a transition in the step."""
        if self.system is None or self.method is None or self.clock is None or self.state is None:
            return None
        if self.modes is None or self.switches is None:
            return self.problem
        if len(self.switches.k) and self.switches.k[-1] >= self.state.k:
            return None
        return self.problem._replace(system=self.modes.systems[int(self.attributes["state_mode"])])

    @property
    def _fault(self) -> str:
        """Description of the failure of the last step."""
        message, no_number, reasons = self.status.message, self.status is Result.NOT_FINITE, []
        problem = self._last_problem
        if problem is not None and self.state is not None:
            if self.status is Result.NEWTON:
                residual = float(computed(_residual, problem, self.state))
                no_number = not np.isfinite(residual)
                if not residual < 1e-12:  # of methods whose step is not one equation it says nothing
                    message += f" (residual of the implicit step {residual:.2g})"
            reasons = no_numbers(problem.system, problem.clock, self.state) if no_number else []
            if self.status is Result.PAINLEVE:
                here = float(computed(_determinant, problem.system, (self.t[-1], self.state.g, self.state.p_minus)))
                message += f" (their determinant, 1 without these forces, is {here:.3g} at the last node)"
        if self.status is Result.SWITCHES and self.switches is not None and len(self.switches.t):
            source, target = (self.switches.names[which[-1]] for which in (self.switches.source, self.switches.target))
            message += f" (the last was from {source!r} to {target!r})"
        if reasons:
            return f"before it {', and '.join(reasons)}"
        if no_number:
            return (
                f"{Result.NOT_FINITE.message}; look at what forces, forms, metric and potential give there, and at "
                "whether a body is still more curved than the surface on which it rolls"
            )
        return message

    @cached_property
    def spoiled_from(self) -> float | None:
        """First time at which ``alternation`` exceeds one per cent, or None."""
        return spoiled_from(self)

    def __repr__(self) -> str:
        a, since = self.attributes, self.spoiled_from
        spoiled = "" if since is None else f", SPOILED by alternation from t = {since:.4g} s"
        return (
            f"Trajectory of {a['system']} on {a['group']} by {with_reason(a['method'], a['method_reason'])}: "
            f"{len(self)} nodes, t = {self.t[0]:g} … {self.t[-1]:g} s, {steps_of(self)}, "
            f"{self.status.name.lower()}{spoiled}"
        )

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import trajectory_card

        return trajectory_card(self)

    def __call__(self, times: Any) -> Trajectory:
        """Solution at any times, by steps of the method from the last saved node before each.

        It has the order of the method at its nodes, and preserves there what the method preserves: constraints hold to
        rounding where they do at the nodes. ``interpolate`` is faster, and less accurate.

        Parameters
        ----------
        times : array_like, shape=[] or [M]
            Seconds, in the order of the run: within its span, or up to the event at which it stopped.

        Returns
        -------
        Trajectory
            Nodes at these times, to be read, plotted and saved, but not to be resumed; p⁺ = p⁻ is the average momentum.

        Raises
        ------
        TypeError
            If ``times`` are not numbers.
        ValueError
            For times out of order or outside the span, or a trajectory without the system and the method of its run.
        """
        if self.nodes.t is not None and self.nodes.mode is None and not isinstance(self.method, VariableSteps):
            raise ValueError("these are the nodes at given times of a run already: call the run itself")
        if self.system is None or self.method is None or self.clock is None:
            raise ValueError(
                "traj(t) makes steps of the method, which a file does not hold, nor a lift, nor runs that were joined: "
                "use traj.interpolate(t)"
            )
        times = as_times(times, "times", self.t[0], end_of(self))
        run = replace(self.run, state=None, function_values=None, trail=None)
        return replace(self, nodes=evaluated(self, times), run=run, loaded={})

    def interpolate(self, times: Any) -> tuple[Point, np.ndarray]:
        r"""Dense output along the group: g(t) = g_k exp(q(t)), q cubic, with the velocities of the nodes at both ends.

        ξ(t) is the velocity of that curve. Its error is O(Δ⁴) in g and O(Δ³) in ξ, Δ the time between saved nodes, in
        addition to that of the method; between nodes, constraints and energy hold to that accuracy only.

        Parameters
        ----------
        times : array_like, shape=[M]
            Seconds, within the trajectory's time span.

        Returns
        -------
        g : point of the group, with a leading axis of length M
            Group elements.
        xi : ndarray, shape=[M, n]
            Velocities.

        Raises
        ------
        TypeError
            If ``times`` are not numbers.
        ValueError
            For times outside the span, or a trajectory from a file without its system.
        """
        times = np.atleast_1d(as_constant(times, "times", None))
        if times.ndim > 1:
            raise ValueError(f"times must have shape [N], got {list(times.shape)}")
        refuse_outside(times, "times", self.t[0], self.t[-1])
        sign = np.sign(self.dt)
        i = np.clip(np.searchsorted(sign * self.t, sign * times, side="right") - 1, 0, max(len(self) - 2, 0))
        j = np.minimum(i + 1, len(self) - 1)
        span = np.where(j > i, self.t[j] - self.t[i], 1.0)
        ends = [jax.tree.map(lambda a, at=at: a[at], (self.g, self.xi)) for at in (i, j)]
        if not len(times):
            return ends[0]
        return mapped(between, self.bound_system.group, (*ends, span, (times - self.t[i]) / span))

    # --- export --------------------------------------------------------------------------------------------
    def to_geomstats(self) -> np.ndarray:
        """Convert the group path to points of ``system.space``, shape=[N, *space.shape].

        Raises NotImplementedError for a group without a geomstats manifold.
        """
        return self.bound_system.group.to_geomstats(self.g)

    def to_xarray(self) -> xr.Dataset:
        """Convert to an ``xarray.Dataset`` of all arrays, labelled by time and component names, with units where
        known.
        """
        return tables.dataset(self, self.message)

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a ``DataFrame``: one row per node, one column per named component.

        Units, where known, are in ``attrs["units"]`` by column.
        """
        return tables.frame(self)

    def to_csv(self, path: str | os.PathLike) -> Path:
        """Write the table of ``to_pandas`` as text, all digits of it; an existing file is replaced atomically.

        Parameters
        ----------
        path : str or path
            Output file, for instance ``run.csv``.

        Returns
        -------
        pathlib.Path

        Raises
        ------
        FileError
            If it is not a path.
        OSError
            If the file cannot be written; the existing file is kept.
        """
        path = checked_path(path)
        with replacing_atomically(path) as temporary:
            self.to_pandas().to_csv(temporary)
        return path

    def save(self, path: str | os.PathLike) -> Path:
        """Write a file with all data and the state to resume from; an existing file is replaced atomically.

        Parameters
        ----------
        path : str or path
            A name with the suffix of a format in ``results.formats``: ``.nc``, NetCDF; for other formats use
            ``to_pandas`` and ``to_xarray``.

        Returns
        -------
        pathlib.Path
            Path of the file.

        Raises
        ------
        FileError
            For a suffix of another format, or data that a file cannot hold.
        OSError
            If it cannot be written; the existing file is kept.
        """
        return files.save(self, self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | os.PathLike, *, system: System | Modes | None = None) -> Trajectory:
        """Read a file that ``save`` wrote; nothing in it is executed.

        Parameters
        ----------
        path : str or path
            The file.
        system : System or Modes, optional
            System of the run to attach, for interpolation and pictures, or of the first of joined runs; all saved
            arrays can be read without it.

        Returns
        -------
        Trajectory

        Raises
        ------
        FileError
            If the file is not a geonh trajectory, is damaged, or was written by a newer geonh.
        TypeError
            If ``system`` is not a System, or not the Modes of a run with modes.
        ValueError
            If the system is not the one of the run.
        """
        fields = files.read(path)
        nodes = Nodes(*(fields.pop(name) for name in Nodes._fields))
        run = RunState(**{name: fields.pop(name) for name in ("state", "function_values", "crossings", "switches")})
        trajectory = cls(nodes, run, **fields)
        if system is None:
            return trajectory
        driven = trajectory.attributes["controls"]
        clock = None if driven else Clock(np.float64(trajectory.t0), np.float64(trajectory.dt))
        if isinstance(system, Modes):
            refuse_other_modes(trajectory, trajectory.function_values, system, clock)
            return trajectory.with_run(system=system.systems[0], modes=system)
        if not isinstance(system, System):
            raise TypeError(f"system must be a geonh System, got {shortly(system)}")
        if trajectory.nodes.mode is not None and trajectory.state is not None:
            raise TypeError(f"system must be the Modes of the run, got {shortly(system)}")
        refuse_changes(trajectory, differences(trajectory, trajectory.function_values, system, clock), False)
        return trajectory.with_run(system=system)

    def plot(self, **options: Any) -> Any:
        """Plot the path, the velocities and the errors of the invariants.

        Options, result and errors are those of ``geonh.plotting.plot_trajectory``.
        """
        from geonh.plotting import plot_trajectory

        return plot_trajectory(self, **options)

    def animate(self, path: str | os.PathLike, **options: Any) -> Path:
        """Write an MP4 or GIF animation of the moving bodies to ``path``, and return the path.

        Options and errors are those of ``geonh.plotting.animate``.
        """
        from geonh.plotting import animate

        return animate(self, path, **options)

    def view(self, *others: Trajectory, **options: Any) -> Page:
        """Create an HTML page with a 3D viewer of this run and others; see ``geonh.viewer.view``.

        ``run.view(path="run.html")`` writes it; Jupyter displays the returned page. Options and errors are those of
        ``geonh.viewer.view``.
        """
        from geonh.viewer import view

        return view(self, *others, **options)


def _determinant(system: System, node: tuple) -> Any:
    t, g, p = node
    x = system.at(g, t)
    return determinant(system, t, x, system.velocity(x, p))


def steps_of(trajectory: Record, unit: str = "s") -> str:
    """Description of the steps of a run: their length, or the shortest and the longest."""
    if trajectory.nodes.t is None or trajectory.nodes.mode is not None:
        return f"dt = {with_reason(f'{trajectory.dt:g} {unit}', trajectory.attributes['dt_reason'])}"
    steps = np.diff(trajectory.k)
    if not len(steps) or np.any(steps == 0):  # times at which the solution is wanted
        return "steps of variable length"
    lengths = np.abs(np.diff(trajectory.t)) / steps
    return f"steps of {lengths.min():.3g} to {lengths.max():.3g} {unit}"


def with_reason(method: str, reason: str) -> str:
    """Description of a method, after its name in ``methods`` if it has one; with the reason for it in parentheses."""
    name = _names().get(method)
    return (f"{name}, " if name else "") + method + (f" ({reason})" if reason else "")


@functools.cache
def _names() -> dict[str, str]:
    """Names of the methods, by their descriptions."""
    return {describe(method.make()): name for name, method in methods.items()}


def describe(method: Integrator) -> str:
    """One-line description of a method: its class and its options."""
    try:
        return _described(method)
    except TypeError:  # unhashable, since it holds arrays
        return _described.__wrapped__(method)


@functools.lru_cache
def _described(method: Integrator) -> str:
    text = eqx.tree_pformat(method, width=10**6, short_arrays=False)
    text = re.sub(r"np\.float64\(([^)]*)\)", r"\1", text)
    return re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"\s+", " ", text))


def _residual(problem: Problem, state: State) -> Any:
    """Largest residual of the equations of the step that starts from a state."""
    return problem.method.residual(problem.system, problem.clock, state)

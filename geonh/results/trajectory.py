"""``Trajectory``: the labelled result of a run.

It keeps the nodes (k, g, p⁺, p⁻) and computes the rest (velocities, multipliers, energies, residuals, first
integrals) once, when asked. All arrays are NumPy float64 with time on the leading axis.
"""

from __future__ import annotations

import functools
import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_float64
from geonh.engine.compiled import computed, mapped
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.node import Clock, Result, State
from geonh.mechanics.soundness import no_numbers
from geonh.mechanics.system import System
from geonh.results import files, tables
from geonh.results.events import Crossings, Event, Section, between
from geonh.results.observables import Observed, observe
from geonh.results.parasitic import AlternationWarning, Trail, new_trail, spoiled_from, what_alternates
from geonh.results.same_system import (
    Known,
    as_data,
    differences,
    different_events,
    known_of,
    refuse_another_space,
    refuse_changes,
)
from geonh.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from geonh.viewer import Page


@argument_type
@dataclass(frozen=True, eq=False)
class Trajectory(Observed):
    """A trajectory of a system: what ``solve``, ``resume`` and ``Trajectory.load`` return.

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
        Base path x = o·g: what the system's functions see. As g with ``base="group"``, shape=[N, k] with coordinates.
    xi : ndarray, shape=[N, n]
        Velocities ξ at the nodes, of the average momentum.
    p, p_plus, p_minus : ndarray, shape=[N, n]
        Average, incoming and outgoing momenta.
    multipliers : ndarray, shape=[N, m]
        λ of the constraint force μᵀλ at the nodes: that of the continuous equations at (t, g, ξ, u).
    impulse_multipliers : ndarray, shape=[N, m]
        λ of the impulse that a method gives at a node, p⁻ = p⁺ + h(f + μᵀλ): GNI, RATTLE, SHAKE; else ``multipliers``.
    alternation : ndarray, shape=[N]
        Size of the part of p⁻ that alternates in sign from node to node, relative to the largest momentum: what is not
        small against 1 has spoiled the run. Zero for methods that have no such part.
    energy, energy_minus : ndarray, shape=[N]
        Energy at p̃ and at p⁻, joules.
    constraint_residual : ndarray, shape=[N, m]
        μ(x)ξ − b(x), those of the holonomic constraints first.
    holonomic_residual : ndarray, shape=[N, k]
        φ(x); k = 0 without holonomic constraints.
    integrals : dict of str to ndarray, shape=[N, …]
        The system's first integrals along the path.
    events : dict of str to Section
        Of each event that was looked for, where it happened: times, group elements, velocities, multipliers.
    status : Result
        SUCCESS, or why the run stopped; ``success`` and ``message`` say it as a truth value and in words.
    k : ndarray of int, shape=[N]
        Numbers of the nodes; t = t0 + k·dt.
    dt, t0 : float
        Time step and initial time, seconds.
    save_every : int
        Every so many nodes were kept.
    system, method : System or None, Integrator or None
        What was solved, and by which method; None after loading from a file without them.
    attributes : dict of str
        What files tell of the run: names, group, method and the reason for it where none was named, parameters, units,
        version, and ``"changes"``.
    clock, state : Clock or None, State or None
        Time step with controls, and the last node: what ``resume`` goes on from.
    loaded, known, watched, crossings, trail : dict, Known, tuple, Crossings, Trail
        What is known of nodes from a file, of the file's system, of events and of what alternates: for ``resume`` and
        ``save``.
    """

    k: np.ndarray
    g_vector: np.ndarray
    p_plus: np.ndarray
    p_minus: np.ndarray
    dt: float
    t0: float
    save_every: int
    status: Result
    system: System | None = None
    method: Integrator | None = None
    clock: Clock | None = None
    state: State | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, np.ndarray] = field(default_factory=dict)
    """Observables of the first nodes, which came from a file, or before a change; the others are computed."""
    known: Known | None = None
    """What a file knows of its system's functions."""
    watched: tuple[Event, ...] = ()
    """The events that are looked for when it is gone on with."""
    crossings: Crossings | None = None
    """All events so far."""
    trail: Trail | None = None
    """What the loop saw that may alternate, of all nodes."""

    # --- making --------------------------------------------------------------------------------------------
    @classmethod
    def begin(
        cls, system: System, method: Integrator, clock: Clock, state: State, save_every: int, reason: str = ""
    ) -> Trajectory:
        """For loops: a trajectory of one node, which they extend; users get theirs from ``solve``."""
        group = system.group
        attributes = {
            **_facts(system, clock),
            "method": describe(method),
            "method_reason": reason,
            "group": str(group),
            "point_names": list(group.point_names),
            "velocity_names": list(group.velocity_names),
            "point_shapes": [list(s) for s in group.point_shapes],
            "point_is_tuple": isinstance(state.g, tuple),
            "units": dict(system.units),
            "engine": "",
            "changes": [],
            "geonh_version": __version__,
        }
        return cls(
            k=np.zeros(1, dtype=np.int64),
            g_vector=np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.g)])[None],
            p_plus=np.asarray(state.p_plus)[None],
            p_minus=np.asarray(state.p_minus)[None],
            dt=float(clock.dt),
            t0=float(clock.t0),
            save_every=int(save_every),
            status=Result.SUCCESS,
            system=system,
            method=method,
            clock=clock,
            state=state,
            attributes=attributes,
            trail=new_trail(system, method),
        )

    @property
    def rows(self) -> np.ndarray:
        """(k, g, p⁺, p⁻) of each node, shape=[N, 1 + size + 2n]."""
        parts = (self.k[:, None], self.g_vector, self.p_plus, self.p_minus)
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def with_rows(self, rows: list[np.ndarray], state: State, status: Result, trail: Trail | None = None) -> Trajectory:
        """For loops: with all nodes, as ``rows`` of shape=[j, columns] one after another, the state after them, and the
        trail where there is one.
        """
        n_g, n = self.g_vector.shape[1], self.p_plus.shape[1]
        whole = rows[0] if len(rows) == 1 else np.concatenate(rows)
        _, g_vector, p_plus, p_minus = np.split(whole, [1, 1 + n_g, 1 + n_g + n], axis=1)
        begin = int(whole[0, 0]) // self.save_every
        k = np.arange(begin * self.save_every, (begin + len(whole)) * self.save_every, self.save_every)
        k[[0, -1]] = whole[[0, -1], 0]  # they may lie between two others
        return replace(
            self,
            k=k,
            g_vector=g_vector,
            p_plus=p_plus,
            p_minus=p_minus,
            state=state,
            status=status,
            known=None,
            trail=trail,
        )

    def looking_for(
        self, events: tuple[Event, ...], before: Trajectory | None = None, allow_changes: Any = False
    ) -> Trajectory:
        """For ``resume``: to go on from with events; those of them after the last state are forgotten, and found again.

        Raises
        ------
        ValueError
            For an event that is another one than that of its name ``before``, and is not allowed to be.
        """
        assert self.state is not None
        found = different_events(before, self._bound, events) if before is not None else {}
        if found:
            refuse_changes(self, found, allow_changes)
            return self._noted(found).looking_for(events)
        known = self.crossings
        if known is None and events:
            system, t = self._bound, np.float64(self.t0)
            with float64():
                m = jax.eval_shape(lambda g: system.annihilator(system.at(g, t)), self.state.g).shape[0]
            known = Crossings.none((), self.g_vector.shape[1], self.p_plus.shape[1], m)
        known = known and known.going_on(int(self.state.k), [event.name for event in events])
        return replace(self, watched=events, crossings=known)

    def on_grid(self, engine: str) -> Trajectory:
        """For loops: to go on from by an engine, without a last node that a longer run would not save."""
        made = replace(self, attributes={**self.attributes, "engine": engine})
        if len(self) < 2 or self.k[-1] % self.save_every == 0:
            return made
        return replace(made.first(len(self) - 1), trail=self.trail)

    def first(self, n: int) -> Trajectory:
        """The first ``n`` nodes only: a trajectory to look at, of the same run."""
        cut = {name: getattr(self, name)[:n] for name in ("k", "g_vector", "p_plus", "p_minus")}
        loaded = {name: values[:n] for name, values in self.loaded.items()}
        return replace(self, loaded=loaded, known=None, trail=None, **cut)

    def settled(self) -> Trajectory:
        """For loops: with what is read from its nodes kept, so that a longer one reads only what comes after."""
        return replace(self, loaded=self.observables)

    def bind(
        self,
        system: System | None,
        method: Integrator | None,
        controls: Any = None,
        allow_changes: bool | str | Iterable[str] = False,
    ) -> Trajectory:
        """For ``resume``: attach what a file does not hold.

        Parameters
        ----------
        system, method : System or None, Integrator or None
            Those of the run; the trajectory's own for None.
        controls : callable or array_like, shape=[n_steps + 1, …], optional
            As in ``solve``; the trajectory's own when left out.
        allow_changes : bool, str or sequence of str
            As in ``resume``.

        Returns
        -------
        Trajectory

        Raises
        ------
        TypeError
            If ``system`` is no System, or ``method`` no Integrator.
        ValueError
            Naming what is missing, or is not as it was.
        """
        if system is not None and not isinstance(system, System):
            raise TypeError(f"system must be a geonh System, got {system!r}")
        if method is not None and not isinstance(method, Integrator):
            raise TypeError(f"method must be an integrator such as GNI() or the name of one, got {method!r}")
        system, method = system or self.system, method or self.method
        if system is None or method is None:
            missing = "system=" if system is None else "method="
            raise ValueError(f"to go on from a file, {missing} is needed too: a file holds data only")
        if self.state is None:
            raise ValueError(
                "this trajectory has no state to go on from, as a member of an ensemble has none: begin another with "
                "solve, at the g, xi and t of its last node"
            )
        refuse_another_space(self, system)
        if describe(method) != self.attributes["method"]:
            raise ValueError(f"the trajectory was made by {self.attributes['method']}, not by {describe(method)}")
        if controls is None and self.clock is not None:
            controls = self.clock.controls
        clock = Clock(np.float64(self.t0), np.float64(self.dt), controls)
        found = self._changes(system, clock)
        refuse_changes(self, found, allow_changes)
        state = self.state._replace(g=system.point(self.state.g, on_group=False))  # how far off it is, is the method's
        if isinstance(state.memory, files.Leaves):
            made = jax.eval_shape(lambda: method.first_node(system, clock, state.g, jnp.zeros(system.group.dim)))
            memory, warm = state.memory.like(made.memory), state.warm.like(made.warm, speed_only=True)
            state = state._replace(memory=memory, warm=warm)
            if state.rows.shape != made.rows.shape:
                raise ValueError(f"the file has {len(state.rows)} constraint rows, the system {len(made.rows)}")
        bound = replace(self, system=system, method=method, clock=clock, state=state)
        return bound._changed(self, found) if found else bound

    def _changes(self, system: System, clock: Clock) -> dict[str, str]:
        """How system and controls differ from those of the run so far."""
        if system is self.system and self.clock is not None and _same(clock.controls, self.clock.controls):
            return {}
        if clock.controls is None and self.attributes["controls"]:
            return {"controls": f"{self.attributes['controls']} there, none here: pass controls="}
        known = self.known
        if known is None and self.system is not None and self.clock is not None:
            known = known_of(self, self.system, self.clock)
        return differences(self, known, system, clock)

    def _changed(self, before: Trajectory, found: dict[str, str]) -> Trajectory:
        """After a change that the user allowed: what was read from the nodes stays, and the file will tell.

        Raises
        ------
        ValueError
            If the last node does not satisfy the constraints any more.
        """
        assert self.system is not None
        assert self.clock is not None
        x = self.system.at(jax.tree.map(lambda a: a[-1], self.g), self.t[-1])
        xi = self.system.velocity(x, (self.p_plus[-1] + self.p_minus[-1]) / 2)
        residual = np.abs(np.append(self.system.constraint_residual(x, xi), self.system.holonomic_residual(x)))
        own = np.abs(np.append(before.constraint_residual[-1], before.holonomic_residual[-1])).max(initial=0.0)
        if not np.all(residual <= own + 1e-9 * (1 + np.abs(xi).max())):
            raise ValueError(
                f"with these changes the last node does not satisfy the constraints: residual {residual.max():.2g}; "
                "begin a new run from it: solve(system, g0=..., xi0=system.project(g0, run.xi[-1]), t0=run.t[-1], ...)"
            )
        attributes = {**self.attributes, **_facts(self.system, self.clock)}
        return replace(self, attributes=attributes, loaded=before.observables, known=None)._noted(found)

    def _noted(self, found: dict[str, str]) -> Trajectory:
        """With what changes at the last node told among the attributes."""
        k = int(self.k[-1])
        change = {"step": k, "t": self.t0 + k * self.dt, "what": found}
        return replace(self, attributes={**self.attributes, "changes": [*self.attributes["changes"], change]})

    # --- reading -------------------------------------------------------------------------------------------
    @property
    def success(self) -> bool:
        """Whether the run reached its end, or an event that stops it."""
        return self.status in (Result.SUCCESS, Result.EVENT)

    @cached_property
    def message(self) -> str:
        """How the run ended, in words, with step, time and residual of a failure."""
        if self.status is Result.EVENT and self.crossings is not None:
            name, t = self.crossings.names[self.crossings.which[-1]], self.crossings.t[-1]
            return f"{self.attributes['system']}: {self.status.message}, {name!r}, at t = {t:.6g}"
        if self.status in (Result.SUCCESS, Result.INTERRUPTED) or self.state is None:
            return f"{self.attributes['system']}: {self.status.message} at t = {self.t[-1]:.6g}"
        step = int(self.state.k) + 1
        text = f"{self.attributes['system']}: step {step}, t = {self.t0 + step * self.dt:.6g}: {self._fault}"
        if self.spoiled_from is not None:
            text += f"; the run was spoiled before, {what_alternates(self, self.spoiled_from)}"
        return text

    @property
    def _fault(self) -> str:
        """What the step that failed came upon."""
        said, no_number, found = self.status.message, self.status is Result.NOT_FINITE, []
        if self.system is not None and self.method is not None and self.clock is not None and self.state is not None:
            if self.status is Result.NEWTON:
                residual = float(computed(_residual, (self.system, self.method, self.clock), self.state))
                no_number = not np.isfinite(residual)
                said += f" (residual of the implicit step {residual:.2g})"
            found = no_numbers(self.system, self.clock, self.state) if no_number else []
        if found:
            return f"before it {', and '.join(found)}"
        if no_number:
            return Result.NOT_FINITE.message + "; look at what forces, forms, metric and potential give there"
        return said

    @cached_property
    def spoiled_from(self) -> float | None:
        """The time from which ``alternation`` exceeds one per cent, or None."""
        return spoiled_from(self)

    def warn_if_spoiled(self) -> None:
        """For loops: warn, once, if a part of the momentum alternates.

        Warns
        -----
        AlternationWarning
            With the time from which, how much, and what to take instead.
        """
        if self.spoiled_from is None:
            return
        text = f"{self.attributes['system']} by {self.attributes['method']}: "
        warnings.warn(text + what_alternates(self, self.spoiled_from), AlternationWarning, stacklevel=5)

    @property
    def t(self) -> np.ndarray:
        return self.t0 + self.k * self.dt

    @cached_property
    def g(self) -> Point:
        leaves, start = [], 0
        for shape in self.attributes["point_shapes"]:
            size = int(np.prod(shape))
            leaves.append(self.g_vector[:, start : start + size].reshape(-1, *shape))
            start += size
        return tuple(leaves) if self.attributes["point_is_tuple"] else leaves[0]

    @cached_property
    def x(self) -> Any:
        with float64():
            return jax.tree.map(np.asarray, jax.vmap(self._bound.action.at)(self.g))

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """What is read from the nodes, by name: "xi", "p", "energy", …, arrays of shape=[N, …] as the attributes
        say.
        """
        n = len(self.loaded["xi"]) if self.loaded else 0
        return self.loaded if n == len(self) else self._joined(self.read(slice(n, None)))

    def read(self, these: slice) -> dict[str, np.ndarray]:
        """``observe`` at some of the nodes, arrays of shape=[nodes, …], nothing of it kept."""
        nodes = jax.tree.map(lambda a: a[these], (self.k, self.g, self.p_plus, self.p_minus))
        impulse = self.method is not None and self.method.guarantees.node == "impulse"  # else one program serves all
        return mapped(_observe, (self._bound, self.method if impulse else None, self.clock), nodes)

    def _joined(self, after: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What is known of the first nodes, and of those after them."""
        before = self.loaded
        if not before:
            return after
        alike = before.keys() == after.keys() and all(before[n].shape[1:] == after[n].shape[1:] for n in before)
        if not alike and not self.attributes["changes"]:
            return self.read(slice(None))
        unknown = {n: np.full((len(before["xi"]), *values.shape[1:]), np.nan) for n, values in after.items()}
        fits = {n: n in before and before[n].shape[1:] == values.shape[1:] for n, values in after.items()}
        found = {n: np.concatenate([before[n] if fits[n] else unknown[n], values]) for n, values in after.items()}
        for n in before.keys() - after.keys():  # what only the system before a change had
            later = np.full((len(after["xi"]), *before[n].shape[1:]), np.nan)
            found[n] = np.concatenate([before[n], later])
        return found

    @property
    def _bound(self) -> System:
        if self.system is None:
            raise ValueError("this trajectory came from a file without its system; load it with system=")
        return self.system

    @cached_property
    def events(self) -> dict[str, Section]:
        a, found, sections = self.attributes, self.crossings, {}
        for i, name in enumerate(found.names if found else ()):
            assert found is not None
            of = found.taken(found.which == i)
            g = files.unflatten(of.g_vector, a["point_shapes"], a["point_is_tuple"])
            names = tuple(a["point_names"]), tuple(a["velocity_names"])
            sections[name] = Section(of.t, g, of.xi, of.g_vector, *names, of.multipliers)
        return sections

    def __len__(self) -> int:
        return len(self.k)

    def __repr__(self) -> str:
        a, since = self.attributes, self.spoiled_from
        reason = f" ({a['method_reason']})" if a["method_reason"] else ""
        spoiled = "" if since is None else f", SPOILED by alternation from t = {since:.4g} s"
        return (
            f"Trajectory of {a['system']} on {a['group']} by {a['method']}{reason}: {len(self)} nodes, "
            f"t = {self.t[0]:g} … {self.t[-1]:g} s, dt = {self.dt:g}, {self.status.name.lower()}{spoiled}"
        )

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import trajectory_card

        return trajectory_card(self)

    def interpolate(self, times: Any) -> tuple[Point, np.ndarray]:
        r"""Between nodes along the group: g(t) = g_k exp(q(t)), q cubic, with the velocities of the nodes at both ends.

        ξ(t) is the velocity of that curve. Its error is O(Δ⁴) in g and O(Δ³) in ξ, Δ the time between saved nodes,
        beside the method's own; what a node keeps to rounding (constraint, energy) is kept so far in between.

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
            If ``times`` are no numbers.
        ValueError
            For times outside the span, or a trajectory from a file without its system.
        """
        times = np.atleast_1d(as_float64(times, "times"))
        if times.ndim > 1:
            raise ValueError(f"times must have shape [N], got {list(times.shape)}")
        low, high = sorted((self.t[0], self.t[-1]))
        if np.any((times < low - 1e-12 * (1 + abs(low))) | (times > high + 1e-12 * (1 + abs(high)))):
            raise ValueError(f"times must lie in [{low:g}, {high:g}], got {times.min():g} to {times.max():g}")
        sign = np.sign(self.dt)
        i = np.clip(np.searchsorted(sign * self.t, sign * times, side="right") - 1, 0, max(len(self) - 2, 0))
        j = np.minimum(i + 1, len(self) - 1)
        span = np.where(j > i, self.t[j] - self.t[i], 1.0)
        ends = [jax.tree.map(lambda a, at=at: a[at], (self.g, self.xi)) for at in (i, j)]
        if not len(times):
            return ends[0]
        return mapped(between, self._bound.group, (*ends, span, (times - self.t[i]) / span))

    # --- leaving -------------------------------------------------------------------------------------------
    def to_geomstats(self) -> np.ndarray:
        """The group path as points of ``system.space``, shape=[N, *space.shape].

        Raises NotImplementedError for a group without a geomstats manifold.
        """
        return self._bound.group.to_geomstats(self.g)

    def to_xarray(self) -> xr.Dataset:
        """An ``xarray.Dataset`` of all arrays, labelled by time and component names, with units where they are
        known.
        """
        return tables.dataset(self)

    def to_pandas(self) -> pd.DataFrame:
        """A ``DataFrame``: one row per node, one column per named component.

        Units, where known, are in ``attrs["units"]`` by column.
        """
        return tables.frame(self)

    def save(self, path: str | os.PathLike) -> Path:
        """Write a NetCDF file with everything, the state to resume from included; replaces the file as a whole.

        Parameters
        ----------
        path : str or path
            A name that ends in ``.nc``; other formats are ``to_pandas`` and ``to_xarray``'s.

        Returns
        -------
        pathlib.Path
            Where it was written.

        Raises
        ------
        FileError
            For a suffix of another format, or what a file cannot hold.
        OSError
            If it cannot be written; what was there stays.
        """
        return files.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike, *, system: System | None = None) -> Trajectory:
        """Read a file that ``save`` wrote; nothing in it is executed.

        Parameters
        ----------
        path : str or path
            The file.
        system : System, optional
            Attach the system of the run, to interpolate; all saved arrays can be read without.

        Returns
        -------
        Trajectory

        Raises
        ------
        FileError
            If the file is not a geonh trajectory, is damaged, or was written by a newer geonh.
        TypeError
            If ``system`` is no System.
        ValueError
            If the system is not the one that the run was made with.
        """
        trajectory = cls(**files.read(path))
        if system is None:
            return trajectory
        if not isinstance(system, System):
            raise TypeError(f"system must be a geonh System, got {system!r}")
        driven = trajectory.attributes["controls"]
        clock = None if driven else Clock(np.float64(trajectory.t0), np.float64(trajectory.dt))
        refuse_changes(trajectory, differences(trajectory, trajectory.known, system, clock), False)
        return replace(trajectory, system=system)

    def plot(self, **options: Any) -> Any:
        """Figure of the path, the velocities and the invariants' errors.

        Options, result and errors are those of ``geonh.plotting.plot_trajectory``.
        """
        from geonh.plotting import plot_trajectory

        return plot_trajectory(self, **options)

    def animate(self, path: str | os.PathLike, **options: Any) -> Path:
        """Write an MP4 or GIF of the moving bodies to ``path``, and give the path.

        Options and errors are those of ``geonh.plotting.animate``.
        """
        from geonh.plotting import animate

        return animate(self, path, **options)

    def view(self, *others: Trajectory, **options: Any) -> Page:
        """HTML page with a viewer in three dimensions, of this run and others; see ``geonh.viewer.view``.

        ``run.view(path="run.html")`` writes it; Jupyter shows what is returned. Options and errors are those of
        ``geonh.viewer.view``.
        """
        from geonh.viewer import view

        return view(self, *others, **options)


def describe(method: Integrator) -> str:
    """A method in one line: its class and its options."""
    try:
        return _described(method)
    except TypeError:  # it holds arrays, so it has no hash
        return _described.__wrapped__(method)


@functools.lru_cache
def _described(method: Integrator) -> str:
    text = eqx.tree_pformat(method, width=10**6, short_arrays=False)
    return re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"\s+", " ", text))


def _same(a: Any, b: Any) -> bool:
    """Whether controls are the same function, or the same numbers."""
    return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b))


def _facts(system: System, clock: Clock) -> dict[str, Any]:
    """What a run tells of its system and of what drives it."""
    from geonh.systems import catalogue

    controls = clock.controls
    driven = "" if controls is None else "a function" if callable(controls) else f"{len(controls)} values"
    return {
        "system": system.name,
        "catalogue": next((e.name for e in catalogue.values() if e.describes(system)), ""),
        "parameters": as_data(system.parameters),
        "controls": driven,
    }


def _observe(tree: tuple, node: tuple) -> dict[str, Any]:
    """``observe`` at one node."""
    return observe(*tree, *node)


def _residual(tree: tuple, state: State) -> Any:
    """Largest residual of the equations of the step from a state."""
    system, method, clock = tree
    return method.residual(system, clock, state)

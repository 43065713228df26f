"""``ModalEnsemble``: labelled results of many runs of a system with modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.signatures import argument_type
from geonh.ensembles.batch import Batch
from geonh.ensembles.events import points
from geonh.ensembles.labels import STATUS, attributes_of, dims_of, how_ended
from geonh.integrators.base import Integrator
from geonh.integrators.validity import Result
from geonh.results.modes import Modes
from geonh.results.observables import Observed
from geonh.results.trajectory import Trajectory, describe, with_reason
from geonh.runs.modal_record import rows_at
from geonh.runs.modal_run import ModalRun
from geonh.version import __version__

if TYPE_CHECKING:
    import xarray as xr


class MembersOnDemand(Sequence["Trajectory | None"]):
    """Trajectories of members, each made of its run when it is first asked for; None of those that have none.

    Parameters
    ----------
    runs : sequence of ModalRun or None
    trajectory : callable
        Trajectory of a run, and of the number of its member.
    """

    def __init__(self, runs: Sequence[ModalRun | None], trajectory: Callable[[ModalRun, int], Trajectory]) -> None:
        self.runs, self._trajectory = runs, trajectory
        self._made: dict[int, Trajectory] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        run = self.runs[i]
        if run is not None and i not in self._made:
            self._made[i] = self._trajectory(run, i)
        return self._made.get(i)


@argument_type
@dataclass(frozen=True, eq=False)
class ModalEnsemble(Observed):
    """Runs of one system with modes, with the members along the first axis of every array and nodes along the second.

    Returned by ``solve_ensemble`` for ``Modes``. Arrays have the nodes k of the run alone, at the same steps for all
    members; ``ensemble[i]`` is member i as a ``Trajectory``, with the nodes at its transitions.

    Attributes
    ----------
    modes, method, method_reason : Modes, Integrator, str
        Common to all members; why the method if none was named.
    batch : Batch
        Initial data of each member.
    k : ndarray of int, shape=[N]
        Step numbers of the saved nodes.
    runs : sequence of Trajectory or None
        Members; None of those that could not be run, or were interrupted.
    t : ndarray, shape=[members, N]
        Times of the nodes, seconds.
    g, g_vector : point of the group, ndarray, with leading axes [members, N]
        Group elements, and flattened; nan after a member has stopped.
    p_plus, p_minus, xi, p : ndarray, shape=[members, N, n]
        Momenta and velocities.
    mode : ndarray of str, shape=[members, N]
        Mode of each node, that before a transition at its instant; "" after a member has stopped.
    energy, multipliers, … : ndarray, shape=[members, N, …]
        As in ``Trajectory``: nan where a mode has fewer multipliers than another.
    n_switches : ndarray of int, shape=[members]
        Number of transitions; ``ensemble[i].switches`` has them.
    switch_times : ndarray, shape=[members, most]
        Times of the transitions, nan where there were fewer.
    status, n_steps, success : ndarray, shape=[members]
        ``Result`` of each member, its good steps, and True if it reached the end or an event that stops it.
    parameters : dict of str to ndarray, shape=[members, …]
        Parameters that differ between members, and "t0", "dt" where they do.
    faults : dict of int to str
        Reasons why members could not be run.
    """

    modes: Modes
    method: Integrator
    method_reason: str
    batch: Batch
    k: np.ndarray
    runs: MembersOnDemand = field(repr=False)
    faults: dict[int, str]

    def __len__(self) -> int:
        return self.batch.size

    def __getitem__(self, member: int) -> Trajectory:
        """Member as a ``Trajectory``, which ``resume`` takes."""
        i = self.batch.number_of(member, IndexError)
        run = self.runs[i]
        if run is None:
            raise ValueError(self.message(i))
        return run

    @cached_property
    def _rows(self) -> list[np.ndarray]:
        """Rows of the nodes of ``k`` in each run, as far as it came."""
        return [np.zeros(0, np.int64) if run is None else rows_at(run.nodes, self.k) for run in self.runs]

    def _gathered(self, values: Callable[[Trajectory], np.ndarray]) -> np.ndarray:
        """Values at the nodes of all members, shape=[members, N, …], nan where there is none."""
        found = [None if run is None else values(run) for run in self.runs]
        shapes = [value.shape[1:] for value in found if value is not None]
        if not shapes:
            raise ValueError("no member has ended: the ensemble was interrupted before")
        whole = np.full((len(self), len(self.k), *np.max(np.array(shapes, int), axis=0)), np.nan)
        for i, (value, rows) in enumerate(zip(found, self._rows, strict=True)):
            if value is not None:
                where: Any = (i, np.arange(len(rows)), *(slice(0, size) for size in value.shape[1:]))
                whole[where] = value[rows]
        return whole

    @property
    def t(self) -> np.ndarray:
        return self.batch.members.t0[:, None] + self.k * self.batch.members.dt[:, None]

    @cached_property
    def g_vector(self) -> np.ndarray:
        return self._gathered(lambda run: run.g_vector)

    @cached_property
    def g(self) -> Any:
        return points(self.modes.systems[0].group, self.g_vector)

    @cached_property
    def p_plus(self) -> np.ndarray:
        return self._gathered(lambda run: run.p_plus)

    @cached_property
    def p_minus(self) -> np.ndarray:
        return self._gathered(lambda run: run.p_minus)

    @cached_property
    def mode(self) -> np.ndarray:
        names = np.full((len(self), len(self.k)), "", dtype=np.array(self.modes.names).dtype)
        for i, (run, rows) in enumerate(zip(self.runs, self._rows, strict=True)):
            if run is not None:
                names[i, : len(rows)] = run.mode[rows]
        return names

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """Arrays of shape=[members, N, …] by name: the observables of ``Trajectory``, nan where a member has none."""
        shapes = {name: value.shape for run in self.runs if run is not None for name, value in run.observables.items()}
        return {name: self._gathered(_named(name, shape)) for name, shape in shapes.items()}

    @property
    def status(self) -> np.ndarray:
        stopped = [Result.START if i in self.faults else Result.INTERRUPTED for i in range(len(self))]
        return np.array([int(s if run is None else run.status) for run, s in zip(self.runs.runs, stopped, strict=True)])

    @property
    def success(self) -> np.ndarray:
        return np.isin(self.status, (Result.SUCCESS, Result.EVENT))

    @property
    def n_steps(self) -> np.ndarray:
        return np.array([0 if run is None else int(run.state.k) for run in self.runs.runs])

    @property
    def n_switches(self) -> np.ndarray:
        return np.array([0 if run is None else len(run.switches) for run in self.runs.runs])

    @property
    def switch_times(self) -> np.ndarray:
        times = np.full((len(self), int(self.n_switches.max(initial=0))), np.nan)
        for i, run in enumerate(self.runs.runs):
            if run is not None:
                times[i, : len(run.switches)] = [switch.t for switch in run.switches]
        return times

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return self.batch.varied_numbers

    def message(self, member: int) -> str:
        """Description of how a member ended.

        Raises
        ------
        ValueError
            If there is no such member.
        """
        i = self.batch.number_of(member, ValueError)
        if i in self.faults:
            return f"member {i} has no run: {self.faults[i]}"
        run = self.runs[i]
        return f"member {i}: {'was not begun: interrupted' if run is None else run.message}"

    def __repr__(self) -> str:
        n = self.n_switches
        return (
            f"ModalEnsemble of {len(self)} runs of {self.modes.name} by "
            f"{with_reason(describe(self.method), self.method_reason)}: {len(self.k)} nodes and "
            f"{n.min()} to {n.max()} transitions each; differing in {', '.join(self.batch.varied)}; "
            f"{how_ended(self.status)}"
        )

    def to_xarray(self) -> xr.Dataset:
        """Convert to an ``xarray.Dataset`` of all arrays, labelled by member, time and component names.

        Parameters that differ are coordinates along members. If ``dt`` or ``t0`` differ, the nodes are indexed by
        "step", and the times are a variable.
        """
        import xarray as xr

        group, same = self.modes.systems[0].group, not {"dt", "t0"} & set(self.batch.varied)
        nodes = "time" if same else "step"
        arrays = {"g": self.g_vector, "p_plus": self.p_plus, "p_minus": self.p_minus, **self.observables}
        data: dict[str, tuple] = {
            name: (dims_of(name, value, nodes), value, attributes_of(name)) for name, value in arrays.items()
        }
        data["mode"] = (("member", nodes), self.mode, {"long_name": "mode"})
        data["status"] = (("member",), self.status, STATUS)
        data["n_steps"] = (("member",), self.n_steps, {"long_name": "good steps"})
        data["n_switches"] = (("member",), self.n_switches, {"long_name": "number of transitions"})
        data["switch_times"] = (("member", "switch"), self.switch_times, {"long_name": "times of the transitions"})
        if not same:
            data["t"] = (("member", "step"), self.t, {"units": "s"})
        labels = {}
        for name, values in self.parameters.items():
            labels[name] = f"parameter {name}" if name in data else name
            data[labels[name]] = (("member", *(f"{name} axis {i}" for i in range(values.ndim - 1))), values, {})
        coordinates: dict[str, Any] = {
            "member": np.arange(len(self)),
            "reason": ("member", [self.message(i) if status else "" for i, status in enumerate(self.status)]),
            nodes: (nodes, self.t[0], {"units": "s"}) if same else self.k,
            "coordinate": list(group.point_names),
            "component": list(group.velocity_names),
        }
        about = {"system": self.modes.name, "method": describe(self.method), "group": str(group)}
        dataset = xr.Dataset(data, coordinates, {**about, "geonh_version": __version__})
        return dataset.set_coords(list(labels.values()))


def _named(name: str, shape: tuple[int, ...]) -> Callable[[Trajectory], np.ndarray]:
    """Observable of a run, which it lacks where it was in none of the modes that have it: nan then."""
    return lambda run: run.observables.get(name, np.full((len(run), *shape[1:]), np.nan))

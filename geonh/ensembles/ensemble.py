"""``Ensemble``: labelled results of many runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_names, entries
from geonh.engine import computed
from geonh.ensembles.batch import Batch, Member, Shared
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.events import OCCURRENCE, Passed, points
from geonh.ensembles.labels import STATUS, at_the_last, attributes_of, dims_of, how_ended, labelled, results_of
from geonh.ensembles.progress import member_start
from geonh.ensembles.reading import NODES, TAKEN, read_all
from geonh.integrators.base import Integrator
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.results.events import Crossings
from geonh.results.nodes import Nodes
from geonh.results.observables import Observed
from geonh.results.tables import units_of_axes
from geonh.results.trajectory import Trajectory, describe, with_reason
from geonh.runs.continuation import extended, new_trajectory, on_grid
from geonh.units import is_energy, known_units
from geonh.version import __version__

if TYPE_CHECKING:
    import xarray as xr

    from geonh.ensembles.solving import Solved
    from geonh.ensembles.statistics import Statistic


@argument_type
@dataclass(frozen=True, eq=False)
class Ensemble(Observed):
    """Runs of one system, with the members along the first axis of every array and their nodes along the second.

    Returned by ``solve_ensemble`` and ``Sweep.solve``. ``ensemble[i]`` is member i as a ``Trajectory``.

    Attributes
    ----------
    t : ndarray, shape=[members, N]
        Times of the nodes, seconds.
    kept : dict of str to ndarray, shape=[members, N, …]
        Requested observables; the nodes "g", "p_plus", "p_minus" by default.
    last : dict of str to ndarray, shape=[members, …]
        The same at the last good node of each member, of step number ``n_steps``: between saved nodes, where the member
        stopped early. nan for members that did not start, or were interrupted. With its time "t" where members have
        steps of their own.
    g : point of the group, with leading axes [members, N]
        Group elements; [members, N, 3] on SE(2), a tuple of arrays on a product.
    g_vector : ndarray, shape=[members, N, size]
        The same, flattened.
    p_plus, p_minus : ndarray, shape=[members, N, n]
        Incoming and outgoing momenta.
    xi, p : ndarray, shape=[members, N, n]
        Velocities and average momenta. These and the following are as in ``Trajectory``; from saved nodes they are
        computed on demand.
    energy, energy_minus, alternation : ndarray, shape=[members, N]
        Energy at p̃ and at p⁻, joules; and the alternating part of p⁻.
    multipliers, impulse_multipliers, constraint_residual : ndarray, shape=[members, N, m]
        λ of the constraint force and of the impulse; μξ − b.
    holonomic_residual : ndarray, shape=[members, N, k]
        φ; k = 0 without holonomic constraints.
    integrals : dict of str to ndarray, shape=[members, N, …]
        First integrals.
    events : dict of str to Passed
        First occurrences of each event in each member.
    statistics : dict of str to ndarray, shape=[N, …] or [members, …]
        Results of the statistics: "energy:mean" at each saved node, "energy:mean over time" of each member.
    gathered : tuple of Statistic
        The statistics themselves.
    status : ndarray of int, shape=[members]
        ``Result`` of each member; its entries are nan after it stopped.
    n_steps : ndarray of int, shape=[members]
        Good steps of each member.
    parameters : dict of str to ndarray, shape=[members, …]
        Parameters that differ between members, and "t0", "dt" where they do.
    system, method, controls : System, Integrator, callable or array
        Common to all members; controls that differ are in ``batch``, None here. An array has shape=[n_steps + 1, …].
    batch : Batch
        Initial data of each member.
    k : ndarray of int, shape=[N]
        Step numbers of the saved nodes; 0, 1, … where members have steps of their own.
    faults : dict of int to str
        Reasons why members did not start.
    engine : str
        Engine that computed the members.
    method_reason : str
        Reason for the method if none was named, as in ``default_method``; else "".
    times : ndarray, shape=[N], or None
        Times of the saved nodes where members have steps of their own.
    """

    system: System
    method: Integrator
    controls: Any
    batch: Batch
    k: np.ndarray
    kept: dict[str, np.ndarray]
    last: dict[str, np.ndarray]
    events: dict[str, Passed]
    statistics: dict[str, np.ndarray]
    gathered: tuple[Statistic, ...]
    status: np.ndarray
    n_steps: np.ndarray
    faults: dict[int, str]
    engine: str
    method_reason: str = ""
    times: np.ndarray | None = None

    @classmethod
    def of(cls, sweep: Configuration, solved: Solved) -> Ensemble:
        """Create an ensemble from the solved members of a sweep."""
        return cls(
            system=sweep.system,
            method=sweep.method,
            controls=sweep.controls,
            batch=solved.batch,
            k=np.arange(sweep.n_steps // sweep.save_every + 1) * sweep.save_every,
            kept=solved.kept,
            last=solved.last,
            events=solved.events,
            statistics=results_of(sweep.statistics, solved.statistics) if solved.statistics else {},
            gathered=sweep.statistics,
            status=solved.status,
            n_steps=solved.n_steps,
            faults=solved.faults,
            engine=solved.engine,
            method_reason=sweep.method_reason,
            times=sweep.times,
        )

    def __len__(self) -> int:
        return self.batch.size

    @property
    def t(self) -> np.ndarray:
        members = self.batch.members
        if self.times is not None:
            return np.broadcast_to(self.times, (len(self), len(self.times)))
        return members.t0[:, None] + self.k * members.dt[:, None]

    @property
    def success(self) -> np.ndarray:
        """True for members that reached the end, or an event that stops them, shape=[members]."""
        return np.isin(self.status, (Result.SUCCESS, Result.EVENT))

    def message(self, member: int) -> str:
        """Description of how a member ended.

        Raises
        ------
        ValueError
            If there is no such member.
        """
        i = self.batch.number_of(member, ValueError)
        if i in self.faults:
            return f"member {i} did not start: {self.faults[i]}"
        members = self.batch.members
        t = members.t0[i] + self.n_steps[i] * members.dt[i] if self.times is None else self.last["t"][i]
        what, crossings = Result(int(self.status[i])).message, self._crossings(i)
        if self.status[i] == Result.EVENT and crossings is not None:
            what, t = f"{what}, {crossings.names[crossings.which[-1]]!r},", crossings.t[-1]
        return f"member {i}: {what} at t = {t:.6g}"

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return self.batch.varied_numbers

    @property
    def _shared(self) -> Shared:
        return Shared(self.system, self.method, self.controls, end=None if self.times is None else self.times[-1])

    @property
    def has_nodes(self) -> bool:
        return all(name in self.kept for name in NODES)

    def _node(self, name: str) -> np.ndarray:
        if name not in self.kept:
            raise AttributeError(
                f"this ensemble kept {', '.join(self.kept) or 'nothing of its nodes'}: to keep the nodes name "
                f"{', '.join(NODES)} in observables= too, or leave it out"
            )
        return self.kept[name]

    @property
    def g_vector(self) -> np.ndarray:
        return self._node("g")

    @property
    def p_plus(self) -> np.ndarray:
        return self._node("p_plus")

    @property
    def p_minus(self) -> np.ndarray:
        return self._node("p_minus")

    @cached_property
    def g(self) -> Any:
        return points(self.system.group, self.g_vector)

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """Arrays of shape=[members, N, …] by name: the kept observables, and those that ``Trajectory`` computes from
        the nodes.
        """
        stored = {name: values for name, values in self.kept.items() if name not in NODES}
        if not self.has_nodes:
            return stored
        size = len(self)
        k = np.where(np.isnan(self.g_vector[..., 0]), np.nan, np.broadcast_to(self.k, (size, len(self.k))))
        nodes = Nodes(k, self.g_vector, self.p_plus, self.p_minus, None if self.times is None else self.t)
        return read_all(self._shared, self.batch.members, nodes) | stored

    def __getitem__(self, member: int) -> Trajectory:
        """Member as a ``Trajectory`` up to its last good node; to continue it, start a ``solve`` there."""
        i = self.batch.number_of(member, IndexError)
        n = int(np.isfinite(self.g_vector[i, :, 0]).sum())
        if not n:
            raise ValueError(self.message(i))
        one = jax.tree.map(lambda a: a[i], self.batch.members)
        begun, first = first_trajectory(self._shared, one, int(self.k[1]), self.method_reason)
        t = None if self.times is None else self.times[1:n]
        after = Nodes(self.k[1:n], self.g_vector[i, 1:n], self.p_plus[i, 1:n], self.p_minus[i, 1:n], t)
        trajectory = on_grid(begun, self.engine)
        rows = [trajectory.nodes.rows, after.rows]
        if self.times is None:
            k, later, t = self.n_steps[i], self.n_steps[i] > self.k[n - 1], None
        else:
            k, t = self.k[n - 1] + 1, self.last["t"][i]
            later = np.sign(one.dt) * (t - self.times[n - 1]) > 0
        if later and np.isfinite(self.last["g"][i, 0]):
            rows.append(Nodes(k, *(self.last[name][i] for name in NODES), t).taken(None).rows)
        trajectory = extended(trajectory, rows, first, Result(int(self.status[i])))
        return trajectory.with_run(state=None, crossings=self._crossings(i))

    def _crossings(self, i: int) -> Crossings | None:
        """First events of a member, in the order of time; None if none were asked for."""
        if not self.events:
            return None
        t0, dt = self.batch.members.t0[i], self.batch.members.dt[i]
        counts = [min(int(passed.number[i]), passed.t.shape[1]) for passed in self.events.values()]
        t, *others = (
            np.concatenate(
                [getattr(passed, name)[i, :n] for passed, n in zip(self.events.values(), counts, strict=True)]
            )
            for name in OCCURRENCE
        )
        which = np.repeat(np.arange(len(counts)), counts)
        if self.times is None:
            k = np.floor((t - t0) / dt).astype(np.int64)
        else:
            k = np.searchsorted(np.sign(dt) * self.times, np.sign(dt) * t, side="right") - 1
        crossings = Crossings(tuple(self.events), which, k, t, *others)
        return crossings.taken(np.argsort(np.sign(dt) * t, kind="stable"))

    def __repr__(self) -> str:
        varied = ", ".join(self.batch.varied)
        return (
            f"Ensemble of {len(self)} runs of {self.system.name} by "
            f"{with_reason(describe(self.method), self.method_reason)}: {len(self.k)} nodes each; "
            f"differing in {varied}; {how_ended(self.status)}"
        )

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import ensemble_card

        return ensemble_card(self)

    def variables(self, others: Iterable[str] = ()) -> dict[str, tuple]:
        """Observables, outcomes and varied parameters of members for stores, by name: (axes, values, attributes).

        A parameter is labelled "parameter …" if its name is taken, also by one of ``others``; TypeError if these are
        no names.
        """
        others = as_names(entries(others), "others")
        units = self.units
        nodes = "time" if self.same_times else "step"
        variables: dict[str, tuple] = {
            name: (dims_of(name, values, nodes), values, attributes_of(name)) for name, values in self.kept.items()
        }
        variables["status"] = (("member",), self.status, STATUS)
        variables["n_steps"] = (("member",), self.n_steps, {"long_name": "good steps"})
        for name, values in self.last.items():
            member, _, *axes = variables[name][0] if name != "t" else ("member", nodes)
            variables[f"{name}:last"] = ((member, *axes), values, at_the_last(name))
        for name, passed in self.events.items():
            for what, value in passed.data.items():
                label = f"{name}:{what}"
                variables[label] = (
                    dims_of(label, value, f"event of {name}")[: value.ndim],
                    value,
                    attributes_of(label),
                )
        if not self.same_times:
            variables["t"] = (("member", "step"), self.t, {"units": units["time"]})
        for name, values in self.parameters.items():
            label = f"parameter {name}" if name in {*variables, *others, *TAKEN} else name
            variables[label] = (("member", *(f"{name} axis {i}" for i in range(values.ndim - 1))), values, {})
        return variables

    @property
    def same_times(self) -> bool:
        return not {"dt", "t0"} & set(self.batch.varied)

    def to_xarray(self) -> xr.Dataset:
        """Convert to an ``xarray.Dataset`` of all arrays, labelled by member, time and component names.

        Parameters that differ are coordinates along members. If ``dt`` or ``t0`` differ, the nodes are indexed by
        "step", and the times are a variable.
        """
        import xarray as xr

        group, units = self.system.group, self.units
        nodes = "time" if self.same_times else "step"
        data = self.variables(self.observables)
        for key, value in self.observables.items():
            unit = {"units": units["energy"]} if is_energy(key) else {}
            data[key] = (dims_of(key, value, nodes), value, {**attributes_of(key), **unit})
        data |= labelled(self.gathered, self.statistics, nodes)
        coordinates: dict[str, Any] = {
            "member": np.arange(len(self)),
            "reason": ("member", [self.message(i) if self.status[i] else "" for i in range(len(self))]),
            nodes: (nodes, self.t[0], {"units": units["time"]}) if self.same_times else self.k,
        }
        dims = {dim for variable in data.values() for dim in variable[0]}
        names = {"coordinate": list(group.point_names), "component": list(group.velocity_names)}
        coordinates |= {dim: values for dim, values in names.items() if dim in dims}
        of_axes = units_of_axes(group.point_names, group.velocity_names, units)
        coordinates |= {name: along for name, along in of_axes.items() if along[0] in dims}
        times = {"dt": self.batch.members.dt, "t0": self.batch.members.t0}
        once = {name: float(values[0]) for name, values in times.items() if name not in self.batch.varied}
        dataset = xr.Dataset(data, coordinates, {**self.attributes, **once, "geonh_version": __version__})
        return dataset.set_coords(
            [f"parameter {name}" if f"parameter {name}" in data else name for name in self.parameters]
        )

    @property
    def units(self) -> dict[str, str]:
        """Units by name, as far as they follow from the system's ``units`` and names."""
        group = self.system.group
        names = {"point_names": list(group.point_names), "velocity_names": list(group.velocity_names)}
        return known_units({"units": dict(self.system.units), **names})

    @property
    def attributes(self) -> dict[str, str]:
        """Metadata of the ensemble, as text."""
        return {
            "system": self.system.name,
            "method": describe(self.method),
            "method_reason": self.method_reason,
            "group": str(self.system.group),
            "engine": self.engine,
        }


def first_trajectory(shared: Shared, member: Member, save_every: int, reason: str) -> tuple[Trajectory, State]:
    """First node of a member, as a ``Trajectory`` of its system, and its state."""
    state, _ = computed(member_start, shared, member)
    problem = shared.problem(member)
    clock = problem.clock._replace(t0=np.float64(problem.clock.t0), dt=np.float64(problem.clock.dt))
    with float64():
        return new_trajectory(problem._replace(clock=clock), state, save_every, reason), state

"""``Ensemble``: the labelled result of many runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.ensembles.batch import Batch, Member, with_parameters
from geonh.integrators.base import Integrator
from geonh.integrators.node import Clock, Result
from geonh.mechanics.system import System
from geonh.numerics.compiled import mapped
from geonh.numerics.precision import float64, shortly
from geonh.observables import Observed, observe
from geonh.trajectory import Trajectory, describe
from geonh.units import known_units

if TYPE_CHECKING:
    import xarray as xr

_AXES = {"xi": "component", "p": "component", "holonomic_residual": "holonomic constraint"}


@dataclass(frozen=True, eq=False)
class Ensemble(Observed):
    """Runs of one system, with the members along the first axis of every array and their nodes along the second.

    Attributes
    ----------
    t : ndarray, shape=[members, N]
        Times of the nodes, seconds.
    g : point, leading axes of lengths members and N
        Group elements; ``g_vector`` has them flattened, shape=[members, N, size].
    p_plus, p_minus : ndarray, shape=[members, N, n]
        Incoming and outgoing momenta.
    xi, p, energy, multipliers, constraint_residual, alternation, integrals
        As of ``Trajectory``, computed when asked for.
    status : ndarray of int, shape=[members]
        ``Result`` of each member; from a failure on all its entries are nan.
    n_steps : ndarray of int, shape=[members]
        Good steps of each member.
    parameters : dict of str to ndarray
        Those that differ between members, and "t0", "dt" where they do.
    """

    system: System
    method: Integrator
    controls: Any
    batch: Batch
    k: np.ndarray
    g_vector: np.ndarray
    p_plus: np.ndarray
    p_minus: np.ndarray
    status: np.ndarray
    n_steps: np.ndarray
    faults: dict[int, str]
    engine: str

    @classmethod
    def made(
        cls,
        system: System,
        method: Integrator,
        controls: Any,
        batch: Batch,
        rows: np.ndarray,
        status: np.ndarray,
        counts: np.ndarray,
        stride: int,
        faults: dict[int, str],
        engine: str,
    ) -> Ensemble:
        """From rows (k, g, p⁺, p⁻), shape=[members, N, width]."""
        n = system.group.dim
        k = np.arange(rows.shape[1]) * stride
        _, g, p_plus, p_minus = np.split(rows, [1, rows.shape[2] - 2 * n, rows.shape[2] - n], axis=2)
        return cls(system, method, controls, batch, k, g, p_plus, p_minus, status, counts, faults, engine)

    def __len__(self) -> int:
        return self.batch.size

    @property
    def t(self) -> np.ndarray:
        members = self.batch.members
        return members.t0[:, None] + self.k * members.dt[:, None]

    @property
    def success(self) -> np.ndarray:
        """Which members reached the end, shape=[members]."""
        return self.status == Result.SUCCESS

    def message(self, member: int) -> str:
        """How a member ended, in words."""
        whole = isinstance(member, int | np.integer) and not isinstance(member, bool)
        if not whole or not -len(self) <= member < len(self):
            raise ValueError(f"member must be one of {len(self)}, from 0 on, got {shortly(member)}")
        i = range(len(self))[member]
        if i in self.faults:
            return f"member {i} did not start: {self.faults[i]}"
        t = self.batch.members.t0[i] + self.n_steps[i] * self.batch.members.dt[i]
        return f"member {i}: {Result(int(self.status[i])).message} at t = {t:.6g}"

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        members = self.batch.members
        known = {**members.parameters, "t0": members.t0, "dt": members.dt}
        return {name: known[name] for name in self.batch.varied if name in known}

    @cached_property
    def g(self) -> Any:
        group = self.system.group
        flat = mapped(_from_vector, group, self.g_vector.reshape(-1, self.g_vector.shape[2]))
        return jax.tree.map(lambda a: a.reshape(*self.g_vector.shape[:2], *a.shape[1:]), flat)

    @cached_property
    def observables(self) -> dict[str, np.ndarray]:
        """What ``Trajectory`` reads from its nodes, for all members; nan where there is no node."""
        size, nodes = self.g_vector.shape[:2]

        def many(a: Any) -> np.ndarray:
            return np.repeat(np.asarray(a), nodes, axis=0)

        flat = [a.reshape(size * nodes, -1) for a in (self.g_vector, self.p_plus, self.p_minus)]
        tree = (self.system, self.method, self.controls)
        found = mapped(_observed, tree, (jax.tree.map(many, self.batch.members), np.tile(self.k, size), *flat))
        empty = np.isnan(flat[0][:, 0])
        for value in found.values():
            value[empty] = np.nan
        return {name: value.reshape(size, nodes, *value.shape[1:]) for name, value in found.items()}

    def __getitem__(self, member: int) -> Trajectory:
        """A member as a ``Trajectory``, up to its last saved node; it is gone on with by a ``solve`` from there."""
        i = range(len(self))[member]
        member_of = jax.tree.map(lambda a: a[i], self.batch.members)
        n = int(np.isfinite(self.g_vector[i, :, 0]).sum())
        if not n:
            raise ValueError(self.message(i))
        system = with_parameters(self.system, member_of.parameters)
        clock = Clock(np.float64(member_of.t0), np.float64(member_of.dt), self.controls)
        with float64():
            first = self.method.first_node(system, clock, member_of.g, member_of.xi)
            begun = Trajectory.begin(system, self.method, clock, first, max(int(self.k[-1]) // (len(self.k) - 1), 1))
        rows = [np.concatenate([a[i, 1:n] for a in (self._k_column, self.g_vector, self.p_plus, self.p_minus)], axis=1)]
        return replace(begun.on_grid(self.engine).extended(rows, first, Result(int(self.status[i]))), state=None)

    @property
    def _k_column(self) -> np.ndarray:
        return np.broadcast_to(self.k[:, None].astype(float), (*self.g_vector.shape[:2], 1))

    def __repr__(self) -> str:
        failed = int((~self.success).sum())
        ended = "all reached the end" if not failed else f"{failed} did not reach the end"
        varied = ", ".join(self.batch.varied)
        return (
            f"Ensemble of {len(self)} runs of {self.system.name} by {describe(self.method)}: {len(self.k)} nodes each; "
            f"differing in {varied}; {ended}"
        )

    def to_xarray(self) -> xr.Dataset:
        """All arrays, labelled by member, time and component names; parameters that differ are coordinates of members.

        Where ``dt`` or ``t0`` differ the nodes are counted by "step", and the times are a variable.
        """
        import xarray as xr

        group, units = self.system.group, known_units(_unit_facts(self.system))
        same = not {"dt", "t0"} & set(self.batch.varied)
        nodes = "time" if same else "step"
        data: dict[str, Any] = {
            "g": (("member", nodes, "coordinate"), self.g_vector, {"long_name": "group element, flattened"}),
            "p_plus": (("member", nodes, "component"), self.p_plus, {"long_name": "incoming momentum"}),
            "p_minus": (("member", nodes, "component"), self.p_minus, {"long_name": "outgoing momentum"}),
            "status": (("member",), self.status, {"long_name": "0, or why the member stopped"}),
            "n_steps": (("member",), self.n_steps, {"long_name": "good steps"}),
        }
        for key, value in self.observables.items():
            axes = [_AXES.get(key, "constraint")] if value.ndim == 3 and not key.startswith("integral:") else []
            axes = axes or [f"{key.removeprefix('integral:')} axis {i}" for i in range(value.ndim - 2)]
            unit = {"units": units["energy"]} if key.startswith(("energy", "kinetic")) else {}
            data[key] = (("member", nodes, *axes), value, {"long_name": key.replace("_", " "), **unit})
        coordinates: dict[str, Any] = {
            "member": np.arange(len(self)),
            "coordinate": list(group.point_names),
            "component": list(group.velocity_names),
            "reason": ("member", [self.message(i) if self.status[i] else "" for i in range(len(self))]),
        }
        if same:
            coordinates["time"] = ("time", self.t[0], {"units": units["time"]})
        else:
            coordinates["step"] = self.k
            data["t"] = (("member", "step"), self.t, {"units": units["time"]})
        for name, values in self.parameters.items():
            coordinates[name] = (("member", *(f"{name} axis {i}" for i in range(values.ndim - 1))), values)
        told = {"system": self.system.name, "method": describe(self.method), "group": str(group), "engine": self.engine}
        return xr.Dataset(data, coordinates, told)


def _unit_facts(system: System) -> dict[str, Any]:
    group = system.group
    return {
        "units": dict(system.units),
        "point_names": list(group.point_names),
        "velocity_names": list(group.velocity_names),
    }


def _from_vector(group: Any, vector: Any) -> Any:
    return group.from_vector(vector)


def _observed(tree: tuple, node: tuple) -> dict[str, Any]:
    (system, method, controls), (member, k, vector, p_plus, p_minus) = tree, node
    system, clock = with_parameters(system, member.parameters), Clock(member.t0, member.dt, controls)
    return observe(system, method, clock, k, system.group.from_vector(vector), p_plus, p_minus)


__all__ = ["Ensemble", "Member"]

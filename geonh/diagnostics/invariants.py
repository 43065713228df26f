"""Invariants of a run and their errors: for the summary table of a run and the plot of its errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.integrators.registry import methods
from geonh.systems import catalogue

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory


ZERO = 1e-12
"""Largest initial size of a quantity that counts as zero, up to rounding."""
JUMP = 1e-9
"""Change of the energy at a transition, relative to it, of one that does not keep it."""


@dataclass(frozen=True)
class Quantity:
    """Quantity monitored along a run.

    Attributes
    ----------
    name : str
        Name of the quantity.
    start, end : ndarray
        Value at the first and at the last node; scalar or shape=[k].
    error : ndarray, shape=[N]
        Largest change of a component since the start (for the constraints: the residual itself).
    scale : float
        Largest size of the quantity along the run; 1 for the constraints, and for quantities that start at zero.
    note : str
        Known facts on its conservation; "" if there are none.
    conserved : bool
        False if the motion is known not to conserve it.
    """

    name: str
    start: np.ndarray
    end: np.ndarray
    error: np.ndarray
    scale: float
    note: str
    conserved: bool

    @property
    def relative(self) -> np.ndarray:
        """``error`` divided by ``scale``, shape=[N]."""
        return self.error / self.scale


@validated
def invariants(trajectory: Trajectory) -> list[Quantity]:
    """Energy at p⁻ and at p̃, each first integral, and the constraint residual of a trajectory.

    Parameters
    ----------
    trajectory : Trajectory
        The run, computed or loaded.

    Returns
    -------
    list of Quantity

    Raises
    ------
    TypeError
        If it is not a trajectory.
    ValueError
        If it was loaded from a file that lacks the data needed.
    """
    known, method = catalogue_entry(trajectory), trajectory.attributes["method"].split("(")[0]
    notes = {name: of_method(note, method) for name, note in known.conserved.items()} if known is not None else {}
    energy_note, energy_kept = notes.get("energy", ""), "energy" in notes
    if known is None:
        modes = trajectory.modes
        ways = [_what_moves_the_energy(s) for s in ([trajectory.system] if modes is None else modes.systems)]
        energy_note, energy_kept = next((way for way in ways if not way[1]), ways[0])
        if energy_kept and _transitions_move(trajectory.t, trajectory.energy):
            energy_note, energy_kept = "not kept: transitions change it", False
    elif not energy_kept:
        energy_note = "not kept by this system"
    elif trajectory.attributes["controls"]:
        energy_note, energy_kept = "not kept: the controls do work", False
    quantities = [
        _quantity("energy at p⁻", trajectory.energy_minus, energy_note, energy_kept),
        _quantity("energy at p̃", trajectory.energy, "" if energy_kept else energy_note, energy_kept),
    ]
    if np.array_equal(trajectory.energy_minus, trajectory.energy):
        quantities = [replace(quantities[0], name="energy")]
    for name, values in trajectory.integrals.items():
        quantities.append(_quantity(name, values, _note_of(trajectory, name, notes), True))
    residual = trajectory.constraint_residual
    if residual.shape[1]:
        absent = np.isnan(residual) & (trajectory.nodes.mode is not None)  # rows of other modes
        size = np.where(absent, 0.0, np.abs(residual)).max(axis=1)
        quantities.append(
            Quantity("constraint residual", size[0], size[-1], size, 1.0, _constraint_note(trajectory), True)
        )
    return quantities


def of_method(note: str, method: str) -> str:
    """Part of a note of the catalogue that applies to the motion and to one method.

    A note is clauses between semicolons; one that begins "GNI: " or "GNI and Variational: ", with those after it
    that name no method, applies to these methods alone.
    """
    clauses, mine = [], True
    for clause in note.split("; "):
        names, colon, rest = clause.partition(": ")
        if colon and all(name in methods_named() for name in names.split(" and ")):
            mine, clause = method in names.split(" and "), rest
        if mine:
            clauses.append(clause)
    return "; ".join(clauses)


@functools.cache
def methods_named() -> frozenset[str]:
    """Names of the classes of methods, as used in notes."""
    return frozenset(type(method.make()).__name__ for method in methods.values())


def _constraint_note(trajectory: Any) -> str:
    if trajectory.method is None:
        return ""
    return {
        "nodes": "kept to rounding by the method",
        "step": "kept in the method's own discrete form, not at the nodes",
        "none": "not kept by the method",
    }[trajectory.method.guarantees.constraint]


def catalogue_entry(trajectory: Any) -> Any:
    """Catalogue entry from which the trajectory's system was built, or None."""
    return catalogue.get(trajectory.attributes.get("catalogue", ""))


def _quantity(name: str, values: np.ndarray, note: str, conserved: bool) -> Quantity:
    rows = values.reshape(len(values), -1)
    error = np.abs(rows - rows[0]).max(axis=1)
    scale = float(np.abs(rows).max()) if np.abs(rows[0]).max() > ZERO else 1.0
    return Quantity(name, values[0], values[-1], error, scale, note, conserved)


def _transitions_move(t: np.ndarray, energy: np.ndarray) -> bool:
    """True if the energy, J, changes between two nodes at one time, as at an impact."""
    jumps = np.abs(np.diff(energy))[np.diff(t) == 0]
    return bool(jumps.max(initial=0.0) > JUMP * np.abs(energy).max(initial=0.0))


def _what_moves_the_energy(system: Any) -> tuple[str, bool]:
    """Note on energy conservation, and True if nothing is known to change the energy."""
    if system is not None and (system.forces is not None or system.multiplier_forces is not None):
        return "not kept: forces do work", False
    if system is not None and system.is_nonlinear:
        return "kept where ξ·∂c/∂ξ = 0 on the constraints, as of homogeneous ones", False
    if system is not None and system.is_affine:
        return "not kept in general: affine constraints do work", False
    return "", True


def _note_of(trajectory: Any, name: str, notes: dict[str, str]) -> str:
    if name in notes:
        return notes[name]
    system = trajectory.system
    return system.first_integrals[name].note if system is not None and name in system.first_integrals else ""

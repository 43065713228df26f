"""System, parameters, start, method and steps that the words of a command name."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.cli.words import entry_of, floats, integrator_of, parameters_of, point
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.trajectory import Trajectory
from geonh.systems import Entry
from geonh.systems.entry import Start


@dataclass(frozen=True)
class Chosen:
    """System of the catalogue, of a user's or of a robot's file, with the settings of a run.

    Parameters
    ----------
    entry : Entry
    integrator : Integrator or None
        None for the default of the system.
    parameters : dict
        Those of ``--set``.
    dt, n_steps : float, int
        Those of the options, else of the entry.
    """

    entry: Entry
    integrator: Integrator | None
    parameters: dict[str, Any]
    dt: float
    n_steps: int

    @functools.cached_property
    def system(self) -> Any:
        """The System or Modes; its function is called here."""
        return self.entry.system(**self.parameters)

    @property
    def first(self) -> System:
        """The system, or that of the mode in which a run begins."""
        if isinstance(self.system, System):
            return self.system
        begins = self.entry.mode
        return self.system.systems[self.system.names.index(begins) if begins in self.system.names else 0]

    @functools.cached_property
    def start(self) -> Start:
        """Initial conditions of the entry; those of a user's file may be None."""
        return self.entry.start(self.system)

    @property
    def begin(self) -> dict[str, Any]:
        """Arguments of ``solve`` for the start, the time step and the controls; a vector of controls is held."""
        from geonh.export.programs import as_function

        controls: Any = self.entry.controls
        if not callable(controls) and np.ndim(controls) == 1:
            controls = as_function(np.asarray(controls))
        return {"xi0": self.start.xi0, "g0": self.start.g0, "dt": self.dt, "controls": controls}

    def begin_at(self, xi0: str | None, g0: str | None) -> dict[str, Any]:
        """``begin`` with the velocity and the point of the command line, where they are given."""
        velocity = {} if xi0 is None else {"xi0": floats(xi0, "--xi0", len(self.first.group.velocity_names))}
        place = {} if g0 is None else {"g0": point(g0, self.first)}
        return self.begin | velocity | place

    def system_of(self, file: Trajectory) -> Any:
        """System with the parameters of a file, but for those of ``--set``; Modes with these alone."""
        if not isinstance(self.system, System):
            return self.system
        return self.entry.system(**{**self.entry.known(file.attributes["parameters"]), **self.parameters})


def chosen(
    name: str,
    assignments: Iterable[str] | None = None,
    *,
    method: str | None = None,
    rule: str | None = None,
    retraction: str | None = None,
    dt: float | None = None,
    steps: int | None = None,
) -> Chosen:
    """Look up what the words name; those that name nothing end the program."""
    entry = entry_of(name)
    integrator = integrator_of(entry.method if method is None else method, rule=rule, retraction=retraction)
    return Chosen(
        entry,
        integrator,
        parameters_of(entry, assignments or []),
        entry.dt if dt is None else dt,
        entry.n_steps if steps is None else steps,
    )

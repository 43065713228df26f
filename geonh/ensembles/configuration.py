"""Configuration of an ensemble: a system, a method, members, and the observables to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.ensembles.batch import MemberRecipe, Shared
from geonh.ensembles.reading import Observable
from geonh.ensembles.statistics import Statistic
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.events import Event
from geonh.results.modes import Modes


@dataclass(frozen=True, eq=False, repr=False)
class Configuration:
    """Configuration of many runs, as data; ``Sweep``, which runs it, documents the attributes."""

    system: System
    method: Integrator
    controls: Any
    members: MemberRecipe
    n_steps: int
    save_every: int
    observables: tuple[Observable, ...]
    statistics: tuple[Statistic, ...]
    events: tuple[Event, ...]
    most_events: int
    method_reason: str = ""
    times: np.ndarray | None = None
    modes: Modes | None = None
    mode: str = ""

    @property
    def shared(self) -> Shared:
        """Data common to all members, without events: only ``MemberEvents`` looks for them."""
        end = None if self.times is None else self.times[-1]
        return Shared(self.system, self.method, self.controls, end=end)

    @property
    def reading(self) -> tuple[Observable, ...]:
        """Observables to compute at the nodes: those to keep, and the arguments of the statistics."""
        return tuple({one.name: one for one in (*(s.observable for s in self.statistics), *self.observables)}.values())

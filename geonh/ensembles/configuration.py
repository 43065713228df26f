"""What an ensemble is of: a system, a method, members, and what is kept of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from geonh.ensembles.batch import Members, Shared
from geonh.ensembles.reading import Wanted
from geonh.ensembles.statistics import Statistic
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.events import Event


@dataclass(frozen=True, eq=False, repr=False)
class Configuration:
    """A configuration of many runs, as data.

    Attributes
    ----------
    system, method, controls : System, Integrator, callable or array
        What is the same for all members. An array has shape=[n_steps + 1, …].
    members : Members
        What each begins with, as a recipe that draws any range of them.
    n_steps, save_every : int
        Number of steps, and every so many nodes are kept.
    observables : tuple of Wanted
        What is kept of the saved nodes.
    statistics : tuple of Statistic
        What is gathered on the way.
    events : tuple of Event
        What is located between nodes.
    most_events : int
        So many of each event and member are kept.
    """

    system: System
    method: Integrator
    controls: Any
    members: Members
    n_steps: int
    save_every: int
    observables: tuple[Wanted, ...]
    statistics: tuple[Statistic, ...]
    events: tuple[Event, ...]
    most_events: int

    @property
    def shared(self) -> Shared:
        """What the members have in common."""
        return Shared(self.system, self.method, self.controls, self.events)

    @property
    def reading(self) -> tuple[Wanted, ...]:
        """What is read from the nodes: what is kept, and what the statistics are of."""
        return tuple({one.name: one for one in (*(s.wanted for s in self.statistics), *self.observables)}.values())

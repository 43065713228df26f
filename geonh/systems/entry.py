"""What the catalogue knows of a system besides its equations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_float64
from geonh.groups.base import Point
from geonh.mechanics.system import System


class Start(NamedTuple):
    """A consistent start.

    Parameters
    ----------
    g0 : point of the group, or None for the identity
        Initial group element.
    xi0 : ndarray, shape=[n]
        Initial velocity, on the constraints at g0.
    """

    g0: Any
    xi0: np.ndarray


@dataclass(frozen=True, repr=False)
class Entry:
    """A system of the catalogue.

    Parameters
    ----------
    name : str
        Name on the command line.
    build : callable
        ``build(**parameters)`` → System; its keyword defaults are those of the source.
    title : str
        One line.
    parameters : mapping of str to str
        Unit and meaning of each keyword of ``build``.
    constraints : str
        The constraints, as an equation; "none" if there are none.
    conserved : mapping of str to str
        What the motion keeps, as clauses: what it is, then "GNI: …" or "GNI and Variational: …" with what these methods
        keep of it.
    source : str
        Paper, with section or equation numbers.
    start : callable
        ``start(system)`` → Start, the default initial condition.
    dt, n_steps : float, int
        A run worth looking at.
    method : str, optional
        The method of the source, where the run stays sound by it; when left out, the default of ``solve``.
    controls : callable, optional
        u(t), where the system is driven.
    exact : callable, optional
        ``exact(system, start, t)`` → (g, xi) with leading time axis: the solution, where it is known in closed form;
        g is None where only the velocities are.
    notes : str
        What else is worth knowing of it; none when empty.
    known_as : str
        Name in the literature; the title when empty.
    """

    name: str
    build: Callable[..., System]
    title: str
    parameters: Mapping[str, str]
    constraints: str
    conserved: Mapping[str, str]
    source: str
    start: Callable[[System], Start]
    dt: float = 0.01
    n_steps: int = 1000
    method: str | None = None
    controls: Callable | None = None
    exact: Callable[[System, Start, np.ndarray], tuple[Point | None, np.ndarray]] | None = None
    notes: str = field(default="")
    known_as: str = field(default="")

    @property
    def heading(self) -> str:
        """The name by which the literature knows it, or the title, to stand alone."""
        return self.known_as or self.title[:1].upper() + self.title[1:]

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the parameters."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()}

    def describes(self, system: System) -> bool:
        """Whether a system was built by this entry: of its name, and with functions of its file."""
        if system.name != self.name:
            return False
        functions = (leaf for leaf in (*jax.tree.leaves(system), system.draw) if callable(leaf))
        return any(f.__module__ == self.build.__module__ for f in functions)

    def system(self, **parameters: Any) -> System:
        """Build the system with some of the parameters that ``build`` takes; the others have their defaults.

        Parameters
        ----------
        **parameters : keyword arguments
            Values by the names in ``parameters``.

        Returns
        -------
        System

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If there is no such parameter, naming those there are; or what ``build`` refuses.
        """
        unknown = [name for name in parameters if name not in self.parameters]
        if unknown:
            raise ValueError(f"{self.name} has no parameter {', '.join(unknown)}; it has {', '.join(self.parameters)}")
        return self.build(**parameters)

    def __repr__(self) -> str:
        return f"Entry {self.name!r}: {self.title}"


class Catalogue(dict[str, Entry]):
    """Entries by name, shown with their titles."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:34}{entry.title}" for name, entry in self.items())

    def name_of(self, system: System) -> str:
        """Name of the entry that built a system, or ""."""
        return next((entry.name for entry in self.values() if entry.describes(system)), "")

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import table

        return table(("system", "what it is"), ((name, entry.title) for name, entry in self.items()))


def positive(**values: Any) -> dict[str, np.ndarray]:
    """Parameters as float64 arrays; TypeError or ValueError naming the one that is no number, or not positive.

    Of one that is traced nothing more is known.
    """
    arrays = {name: as_float64(value, name) for name, value in values.items()}
    for name, array in arrays.items():
        if not is_traced(array) and not (np.all(np.isfinite(array)) and np.all(array > 0)):
            raise ValueError(f"{name} must be positive, got {values[name]}")
    return arrays

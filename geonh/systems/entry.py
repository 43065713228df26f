"""Catalogue entries: metadata of a system."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_positive
from geonh.groups.base import Point
from geonh.mechanics.system import System


class Start(NamedTuple):
    """Consistent initial conditions.

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
    """Catalogue entry of a system.

    Parameters
    ----------
    name : str
        Name on the command line.
    build : callable
        ``build(**parameters)`` → System; its keyword defaults are those of the source.
    title : str
        One-line description.
    constraints : str
        The constraints, as an equation; "none" if there are none.
    conserved : mapping of str to str
        Conserved quantities, as clauses: the quantity, then "GNI: …" or "GNI and Variational: …" with its conservation
        by these methods.
    source : str
        Paper, with section or equation numbers.
    start : callable
        ``start(system)`` → Start, the default initial condition.
    dt, n_steps : float, int
        A run worth looking at.
    method : str, optional
        Method of the source, if its run stays reliable; when left out, the default of ``solve``.
    controls : callable, optional
        u(t), if the system is driven.
    exact : callable, optional
        ``exact(system, start, t)`` → (g, xi) with leading time axis: exact solution, if known in closed form;
        g is None if only the velocities are.
    notes : str
        Further remarks; none when empty.
    known_as : str
        Name in the literature; the title when empty.
    mode : str, optional
        Mode to begin in, where ``build`` returns Modes.
    parameters : mapping of str to str, optional
        Unit and meaning of each keyword of ``build``; those of its docstring when left out.
    """

    name: str
    build: Callable[..., System]
    title: str
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
    mode: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.parameters:
            object.__setattr__(self, "parameters", _meanings(self.build))

    @property
    def heading(self) -> str:
        """Name of the system in the literature, or the title, as a heading."""
        return self.known_as or self.title[:1].upper() + self.title[1:]

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the parameters."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()}

    def describes(self, system: System) -> bool:
        """True if a system was built by this entry: it has its name, and functions of its file."""
        if system.name != self.name:
            return False
        here = self.build.__module__
        if getattr(system.draw, "__module__", "") == here:
            return True
        return any(leaf.__module__ == here for leaf in jax.tree.leaves(system) if callable(leaf))

    def system(self, **parameters: Any) -> System:
        """Build the system with the given parameters of ``build``; the others have their defaults.

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
            If a value is not a number.
        ValueError
            If there is no such parameter, with those there are; or if ``build`` raises it.
        """
        unknown = [name for name in parameters if name not in self.parameters]
        if unknown:
            raise ValueError(f"{self.name} has no parameter {', '.join(unknown)}; it has {', '.join(self.parameters)}")
        return self.build(**parameters)

    def known(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for ``system`` among the parameters that a file has saved: those with a value."""
        return {key: value for key, value in saved.items() if key in self.parameters and value is not None}

    def __repr__(self) -> str:
        return f"Entry {self.name!r}: {self.title}"


class Catalogue(dict[str, Entry]):
    """Entries by name, displayed with their titles."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:34}{entry.title}" for name, entry in self.items())

    @validated
    def name_of(self, system: System) -> str:
        """Name of the entry that built a system, or "".

        Raises
        ------
        TypeError
            If ``system`` is no System.
        """
        entry = self.get(system.name)
        return system.name if entry is not None and entry.describes(system) else ""

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import table

        return table(("system", "what it is"), ((name, entry.title) for name, entry in self.items()))


def quadrature(rate: Callable[[float], Any], t: np.ndarray, start: Any) -> np.ndarray:
    """Values at the times t, shape=[N, ...], of the function with a given rate and value at 0, to about 1e-13."""
    value, here, values = start, 0.0, []
    for s in t:
        value, here = value + scipy.integrate.quad_vec(rate, here, s, epsabs=1e-13, epsrel=1e-13)[0], s
        values.append(value)
    return np.stack(values)


def _meanings(build: Callable) -> dict[str, str]:
    """Meaning of each keyword of a function by its docstring, "" where there is none.

    Where the meaning of several keywords has as many parts between semicolons, each has its own.
    """
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    meanings = {name: "" for name, p in inspect.signature(build).parameters.items() if p.kind in kinds}
    entries = re.findall(r"^(\w+(?:, \w+)*) : .*\n((?: {4}.*\n?)+)", inspect.getdoc(build) or "", re.M)
    for names, text in entries:
        keys, meaning = names.split(", "), " ".join(text.split()).rstrip(".")
        parts = meaning.split("; ")
        each = [part[:1].upper() + part[1:] for part in parts] if len(parts) == len(keys) else [meaning] * len(keys)
        meanings |= {key: part for key, part in zip(keys, each, strict=True) if key in meanings}
    return meanings


def positive(**values: Any) -> dict[str, np.ndarray]:
    """Parameters as float64 arrays, validated by ``as_positive``."""
    return {name: as_positive(value, name) for name, value in values.items()}

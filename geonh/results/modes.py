r"""Modes: a system that is one of several at a time, on one group, and the transitions between them.

In each mode the motion is that of a ``System``: with a contact that rolls, slides, or is open. A transition leaves a
mode where its guard, an ``Event``, crosses zero; a reset gives the velocity after it, as an impact does; and the motion
goes on in the next mode. Integrators and systems know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_count, entries, shortly
from geonh.geometry.field import check_arguments, takes_parameters
from geonh.mechanics.own_values import with_values
from geonh.mechanics.system import System
from geonh.results.events import Event

RESET = "t, g, xi"


class Transition(eqx.Module):
    """Transition out of a mode, where its guard crosses zero.

    Parameters
    ----------
    source : str
        Mode that it leaves.
    guard : Event
        Function of (t, g, ξ, λ) whose zero is the instant of the transition, in the guard's direction; one with a
        direction that is past zero when the mode begins, or leads past it from there, is an instant transition, and one
        without a direction that is zero there is not crossed, unless it was reached at this instant in the same mode,
        as the second wall of a corner. ``stop`` is without effect.
    target : str or callable
        The next mode, or a function of (t, g, ξ⁺) that returns its name, called with NumPy arrays; or None where no
        mode goes on from there: the run ends before this step, with ``Result.MODE``. It should depend on these alone:
        what it changes elsewhere, as a counter, is not restored by ``resume``.
    reset : callable, optional
        ξ⁺, or (g⁺, ξ⁺), as a function of (t, g, ξ) or (t, g, ξ, parameters), in ``jax.numpy``, parameters those of the
        source; it must satisfy the constraints of the next mode. When left out, velocity and configuration are put on
        these, the velocity by the projection in the kinetic metric: rows that begin to hold do so without restitution.

    Raises
    ------
    TypeError
        If an argument is of another type.
    """

    source: str = eqx.field(static=True)
    guard: Event
    target: str | Callable
    reset: Callable | None

    def __init__(self, source: str, guard: Event, target: str | Callable, reset: Callable | None = None):
        self.source, self.guard, self.target, self.reset = source, guard, target, reset
        if not isinstance(self.source, str):
            raise TypeError(f"source must be the name of a mode, got {shortly(self.source)}")
        if not isinstance(self.guard, Event):
            raise TypeError(f"guard must be an Event(function, ...), got {shortly(self.guard)}")
        if not isinstance(self.target, str):
            check_arguments(self.target, RESET, "target")
        if self.reset is not None:
            takes_parameters(self.reset, RESET, "reset")

    @property
    def name(self) -> str:
        """Name of the guard, or of source and target where it has none."""
        if self.guard.name != "event":
            return self.guard.name
        return f"{self.source} to {self.target}" if isinstance(self.target, str) else f"{self.source} ends"


@argument_type
class Modes:
    """System that is one of several at a time; ``solve`` takes it in place of a system, with ``mode=`` to begin in.

    Parameters
    ----------
    modes : mapping of str to System
        The modes by name, on one group.
    transitions : iterable of Transition
        In the order in which those at the same instant are taken: the first of them alone.
    name : str
        Name in tables and files.
    rows : mapping of str to sequence of int, optional
        Of modes whose constraints are some of those of a larger system: the places of their multipliers among all, so
        that each has a column of its own in ``run.multipliers``; when left out, those of a mode are the first columns.

    Attributes
    ----------
    names : tuple of str
        Names of the modes.
    systems : tuple of System
        The modes.
    transitions : tuple of Transition

    ``modes[name]`` is the system of a mode; ``for name in modes`` and ``len(modes)`` are those of the names.

    Raises
    ------
    TypeError, ValueError
        If the modes are not systems on one group, or a transition names no mode; if two guards of a mode have one name.

    Examples
    --------
    >>> import geonh as gn, jax.numpy as jnp
    >>> ball = gn.System(gn.groups.Translations(1), metric=[1.0], potential=lambda x: 9.81 * x[0], name="ball")
    >>> floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1)
    >>> bouncing = gn.Modes({"flight": ball}, [gn.Transition("flight", floor, "flight", lambda t, x, xi: -xi)])
    >>> run = gn.solve(bouncing, mode="flight", g0=[1.0], xi0=[0.0], dt=0.01, n_steps=200)
    """

    def __init__(
        self,
        modes: Mapping[str, System],
        transitions: Iterable[Transition],
        *,
        name: str = "modes",
        rows: Mapping[str, Sequence[int]] | None = None,
    ):
        if not isinstance(modes, Mapping) or not modes:
            raise TypeError(f"modes must be a mapping of names to systems, got {shortly(modes)}")
        wrong = [key for key, system in modes.items() if not (isinstance(key, str) and isinstance(system, System))]
        if wrong:
            raise TypeError(f"modes must map names to systems, got {shortly(modes[wrong[0]])} for {wrong[0]!r}")
        given = [transitions] if isinstance(transitions, Transition) else entries(transitions)
        if given is None or not all(isinstance(one, Transition) for one in given):
            raise TypeError(f"transitions must be Transition(source, guard, target), got {shortly(transitions)}")
        self.name, self.names, self.systems = name, tuple(modes), tuple(modes.values())
        self.transitions = tuple(given)
        self.rows = _rows(modes, rows)
        first = self.systems[0]
        for key, system in modes.items():
            if str(system.group) != str(first.group) or system.group.point_names != first.group.point_names:
                raise ValueError(f"the modes are on one group: {key!r} is on {system.group}, not on {first.group}")
        for one in self.transitions:
            for role, which in (("source", one.source), ("target", one.target)):
                if isinstance(which, str):
                    self.index(which, role)
        for mode in self.names:
            names = [one.name for one in self.transitions if one.source == mode]
            if len(set(names)) < len(names):
                raise ValueError(f"the guards of {mode!r} must have different names, got {names}: Event(..., name=...)")

    def __repr__(self) -> str:
        return f"Modes {self.name!r} on {self.systems[0].group}: {', '.join(self.names)}"

    def index(self, name: Any, role: str = "mode") -> int:
        """Index of a mode.

        Raises
        ------
        ValueError
            If there is none of this name.
        """
        if not isinstance(name, str) or name not in self.names:
            raise ValueError(f"{role} must be one of {', '.join(self.names)}, got {shortly(name)}")
        return self.names.index(name)

    def __getitem__(self, name: str) -> System:
        return self.systems[self.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def n_rows(self) -> int:
        """Number of columns of multipliers."""
        if self.rows is not None:
            return 1 + max((place for places in self.rows.values() for place in places), default=-1)
        return max(_count_of_rows(system) for system in self.systems)

    def faults(self, every: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Faults of the coefficients of friction and impacts, for each of several values of some parameters; "" if
        there is none.

        Looked for in the friction of each mode, and in guards and resets with a method ``fault(parameters)``.
        """
        parameters = {name: self[name].parameters for name in self.names}
        forces = [(name, self[name].multiplier_forces) for name in self.names]
        parts = [(name, part) for name, of in forces if of is not None for part in getattr(of.function, "parts", ())]
        parts += [(one.source, part) for one in self.transitions for part in (one.guard.function, one.reset)]
        checks = [(parameters[name], part) for name, part in parts if hasattr(type(part), "fault")]
        for values in every:
            yield next(filter(None, (part.fault({**own, **values}) for own, part in checks)), "")

    def with_values(self, values: Mapping[str, Any]) -> Modes:
        """Modes with other values of parameters, in all systems that have them: of modes, resets, guards, targets."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a mapping of names to values, got {shortly(values)}")
        if not values:
            return self
        systems, transitions = with_values((self.systems, self.transitions), values)
        return Modes(dict(zip(self.names, systems, strict=True)), transitions, name=self.name, rows=self.rows)

    def with_parameters(self, **changes: Any) -> Modes:
        """Return the modes with other values of some parameters, in all systems that have them: those of the modes,
        and those that resets, guards and targets made of equinox modules hold, as of ``rolling``.

        Parameters
        ----------
        **changes : array_like or callable
            New values by name, of the same shapes; they may be traced.

        Returns
        -------
        Modes

        Raises
        ------
        TypeError
            If a value is not of numbers, where the parameter is.
        ValueError
            If no mode has a parameter of that name, or a value has another shape.
        """
        values: dict[str, Any] = {}
        for system in self.systems:
            own = {name: value for name, value in changes.items() if name in system.parameters}
            values |= {name: system.with_parameters(**own).parameters[name] for name in own}
        for name in changes:
            if name not in values:
                known = sorted({str(name) for system in self.systems for name in system.parameters})
                raise ValueError(
                    f"no mode of {self.name} has a parameter {name!r}; there are {', '.join(known) or 'none'}"
                )
        return self.with_values(values)

    @validated
    def leaving(self, mode: int) -> tuple[Transition, ...]:
        """Transitions that leave a mode of that index, in their order."""
        if not 0 <= mode < len(self.names):
            raise ValueError(f"mode must be an index below {len(self.names)}, got {mode}")
        return tuple(one for one in self.transitions if one.source == self.names[mode])

    def guards(self, mode: int) -> tuple[Event, ...]:
        """Guards of a mode, as events that stop."""
        return tuple(_stopping(one.guard, one.name) for one in self.leaving(mode))


def refuse_mode(system: Any, mode: Any) -> None:
    """Raise ValueError for the name of a mode, given with a system that has none."""
    if mode is not None and isinstance(system, System):
        raise ValueError(f"mode= is for a system of Modes, and {system.name} has no modes")


def _stopping(event: Event, name: str) -> Event:
    """Event of that name that stops a run."""
    leaves, structure = jax.tree.flatten(event)
    copy = jax.tree.unflatten(structure, leaves)
    object.__setattr__(copy, "stop", True)
    object.__setattr__(copy, "name", name)
    return copy


class Switches(NamedTuple):
    """Transitions of a run in the order of time, arrays of shape=[K, …].

    Attributes
    ----------
    names : tuple of str
        Names of the modes.
    k : ndarray of int, shape=[K]
        Step in which the transition lies, between nodes k and k + 1.
    t : ndarray, shape=[K]
        Times, seconds.
    source, target : ndarray of int, shape=[K]
        Modes before and after, as indices in ``names``.
    g_vector : ndarray, shape=[K, size]
        Configurations, flattened.
    xi_before, xi_after : ndarray, shape=[K, n]
        Velocities before and after.
    """

    names: tuple[str, ...]
    k: np.ndarray
    t: np.ndarray
    source: np.ndarray
    target: np.ndarray
    g_vector: np.ndarray
    xi_before: np.ndarray
    xi_after: np.ndarray

    @classmethod
    def none(cls, names: Iterable[str], size: int, n: int) -> Switches:
        """No transitions, of points with ``size`` entries and velocities of dimension n."""
        counts = np.zeros(0, np.int64)
        return cls(
            tuple(names), counts, np.zeros(0), counts, counts, np.zeros((0, size)), np.zeros((0, n)), np.zeros((0, n))
        )

    def joined(self, after: Switches) -> Switches:
        """Append later transitions between the same modes."""
        return Switches(self.names, *(np.concatenate(pair) for pair in zip(self[1:], after[1:], strict=True)))

    def first(self, n: int) -> Switches:
        """The first n transitions."""
        return Switches(self.names, *(part[:n] for part in self[1:]))

    def before(self, k: int) -> Switches:
        """The transitions in the steps before node k."""
        return self.first(int(np.sum(self.k < k)))


def _rows(modes: Mapping[str, System], rows: Any) -> dict[str, tuple[int, ...]] | None:
    """Validated places of the multipliers of the modes among those of a run."""
    if rows is None:
        return None
    if not isinstance(rows, Mapping) or rows.keys() != modes.keys():
        raise ValueError(f"rows must be a mapping with the names of all modes, {', '.join(modes)}, got {shortly(rows)}")
    found = {}
    for name, places in rows.items():
        found[name] = tuple(as_count(place, f"rows[{name!r}]", 0) for place in places)
        size = _count_of_rows(modes[name])
        if len(set(found[name])) != len(found[name]) or len(found[name]) != size:
            raise ValueError(f"rows[{name!r}] must be {size} different places, those of its multipliers, got {places}")
    return found


def _count_of_rows(system: System) -> int:
    """Number of constraints of a system."""
    with float64():
        x, xi = system.at(system.group.identity(), 0.0), jnp.zeros(system.group.dim)
        return jax.eval_shape(lambda: system.constraint_residual(x, xi)).shape[0]


def placed(values: np.ndarray, modes: Modes, mode: int) -> np.ndarray:
    """Values of the multipliers of a mode, shape=[N, m], in the columns of the modes; nan in those of others."""
    if modes.rows is None:
        return values
    places = list(modes.rows[modes.names[mode]])
    whole = np.full((len(values), modes.n_rows), np.nan)
    whole[:, places] = values
    return whole


def padded(
    parts: list[dict[str, np.ndarray]],
    places: list[np.ndarray],
    n: int,
    columns: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """Observables of n nodes from those of some of them, by name, at their places, with at least so many ``columns``;
    nan where a mode has none.
    """
    joined: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        shapes = [part[name].shape[1:] for part in parts if name in part]
        shape = shapes[0] if len({len(s) for s in shapes}) > 1 else tuple(np.max(np.array(shapes), axis=0, initial=0))
        shape = (max(shape[0], columns[name]),) if name in columns else shape
        whole = np.full((n, *map(int, shape)), np.nan)
        for part, place in zip(parts, places, strict=True):
            if name in part and len(part[name].shape[1:]) == len(shape):
                where: Any = (place, *(slice(0, size) for size in part[name].shape[1:]))
                whole[where] = part[name]
        joined[name] = whole
    return joined

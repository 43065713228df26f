"""Events: sign changes of a function of (t, g, ξ, λ) along a motion, and the record of those located in a run.

``solve`` locates them by partial steps of its own method (``runs/event_loop.py``), ``poincare_section`` by the
interpolation between saved nodes, both as in ``zeros.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_count, as_flag, entries, is_whole, one_of, shortly
from geonh.engine import Partition, computed
from geonh.geometry.field import evaluated, takes_parameters
from geonh.groups.base import Point
from geonh.integrators.clock import Clock
from geonh.mechanics.equations import multipliers
from geonh.mechanics.system import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _plain(number: Any) -> Any:
    """Convert a NumPy integer to an int, so that it does not enter the name of a compiled program."""
    return int(number) if is_whole(number) else number


class Event(eqx.Module):
    """Event at a sign change of a function of the motion.

    Parameters
    ----------
    function : callable
        s(t, g, ξ, λ) or s(t, g, ξ, λ, parameters) → scalar, in ``jax.numpy``: of the time in seconds, the group
        element, the velocity of shape=[n] and the multipliers of the constraint force, shape=[m]. A contact is lost
        where its multiplier changes its sign: ``lambda t, g, xi, lam: lam[0]``.
    direction : int
        1 for increasing s, −1 for decreasing s, 0 for both.
    stop : bool
        If True, the run ends at the event.
    name : str
        Label in ``traj.events`` and in files.

    Notes
    -----
    Every sign change within a step is located, in the order of time; the first of an event with ``stop`` ends the run.
    A zero without a sign change is no event. A jump over zero, at a pole or where an angle is wrapped, is none either,
    and issues an ``EventWarning``; nor is one by the reset of a ``Transition``. A motion that begins on s = 0 leaves it
    without an event.

    Raises
    ------
    TypeError
        If ``function`` does not take these arguments, or ``stop`` or ``name`` are of another type.
    ValueError
        If ``direction`` is not −1, 0 or 1.
    """

    function: Callable
    direction: int = eqx.field(static=True)
    stop: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)

    sampled_near_zero: ClassVar[bool] = False
    """True if steps are sampled only where the values at nodes show that zero is near."""

    def __init__(self, function: Callable, direction: int = 0, stop: bool = False, name: str = "event"):
        self.function, self.direction, self.stop, self.name = function, _plain(direction), stop, name
        if not callable(self.function):
            raise TypeError(f"an event's function takes (t, g, xi, lam), got {self.function!r}")
        one_of(self.direction, "direction", (-1, 0, 1))
        as_flag(self.stop, "stop")
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"the name of an event must be text, got {self.name!r}")
        if not self.name.isprintable():  # an isolated surrogate, which no file can hold, is not
            raise ValueError(f"the name of an event must be text that can be printed, got {self.name!r}")
        takes_parameters(self.function, "t, g, xi, lam", f"event {self.name!r}")

    def value(self, system: System, t: Array, g: Point, xi: Array, u: Any) -> Array:
        """Evaluate s at a point of the motion, a scalar: t (s), a point of the group, ``xi`` of shape=[n] and the
        controls u there.
        """
        return self.value_with(system, t, g, xi, multipliers(system, t, g, xi, u))

    def value_with(self, system: System, t: Array, g: Point, xi: Array, lam: Array) -> Array:
        """Evaluate s with given multipliers, a scalar; ``xi`` of shape=[n], ``lam`` of shape=[m].

        Raises
        ------
        ValueError
            If ``function`` does not return a single number.
        """
        what = f"event {self.name!r}"
        more = (system.parameters,) if takes_parameters(self.function, "t, g, xi, lam", what) else ()
        value = evaluated(what, self.function, t, g, xi, lam, *more)
        if value.shape != ():
            raise ValueError(f"{what} must give one number, got an array of shape {value.shape}")
        return value


class ContactEvent(Event):
    """Event of a law of contact, whose function changes within a step as it does from node to node."""

    sampled_near_zero: ClassVar[bool] = True


class SlipEnds(ContactEvent):
    """Event at the instant at which the slip of a system with ``Friction`` vanishes: there its speed passes zero.

    Parameters
    ----------
    stop : bool
        If True, the run ends at the event.
    name : str
        Label in ``traj.events`` and in files.
    which : int
        Number of the friction, where the system has several.
    """

    which: int = eqx.field(static=True)

    least: ClassVar[float] = 1e-11
    """Speed, relative to 1 m/s and the velocity, below which a slip that decreases has vanished."""

    def __init__(self, stop: bool = True, name: str = "slip ends", *, which: int = 0):
        super().__init__(_no_slip, -1, stop, name)
        self.which = as_count(which, "which", least=0)

    def value_with(self, system: System, t: Array, g: Point, xi: Array, lam: Array) -> Array:
        frictions = () if system.multiplier_forces is None else getattr(system.multiplier_forces.function, "parts", ())
        if not frictions:
            raise ValueError(f"event {self.name!r} is for systems whose multiplier_forces are a Friction")
        if self.which >= len(frictions):
            raise ValueError(f"which must be the number of one of {len(frictions)} frictions, got {self.which}")
        return frictions[self.which].speed(t, system.action.at(g), xi, system.parameters)


@runtime_checkable
class WithRate(Protocol):
    """Function of an event whose rate along a motion is known: at values up to ``rounding`` that tells its sign."""

    rounding: ClassVar[float]

    def rate(self, t: Any, g: Any, xi: Any) -> float:
        """Derivative by the time at a point of a motion."""


def _no_slip(t: Any, g: Any, xi: Any, lam: Any) -> Any:
    """Function of ``SlipEnds``, in place of which the slip speed of its system stands."""
    return jnp.ones(())


def as_events(events: Any, system: System, clock: Clock) -> tuple[Event, ...]:
    """Validate the events given by a user, tracing each once on the system with the controls at its start; TypeError or
    ValueError for non-events, repeated names, and functions that cannot be evaluated.
    """
    if events is None or (isinstance(events, tuple | list) and not events):
        return ()
    validated = [events] if isinstance(events, Event) else entries(events)
    if (
        validated is None
        or isinstance(events, Mapping | np.ndarray)
        or not all(isinstance(event, Event) for event in validated)
    ):
        raise TypeError(f"events must be Event(function, ...) or a list of them, got {shortly(events)}")
    names = [event.name for event in validated]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"events must have different names, {twice} are more than one: Event(..., name=...)")
    with float64():
        u = clock.control(0)
        for i, event in enumerate(validated):
            if _needs_care(_OnSystem(event, system, u)):
                validated[i] = _careful_event(event)
    return tuple(validated)


def careful_guards(guards: Iterable[Event], system: System) -> tuple[Event, ...]:
    """Guards of a mode, ``careful`` where an index depends on data; ValueError or TypeError as of ``inspected``. Their
    functions are traced alone, with any multipliers; those of this library are not.
    """
    return tuple(
        _careful_event(guard) if _is_users(guard.function) and _reads_by_data(_OnSystem(guard, system)) else guard
        for guard in guards
    )


def _careful_event(event: Event) -> Event:
    return eqx.tree_at(lambda e: e.function, event, careful(event.function))


def _is_users(function: Callable) -> bool:
    return not isinstance(function, eqx.Module) and not str(getattr(function, "__module__", "")).startswith("geonh.")


class _OnSystem:
    """Event on a system with a value of its controls; equal to others that are traced as it is."""

    def __init__(self, *given: Any) -> None:
        self.given, parts = given, Partition.of(given)
        self._key = parts.static, parts.captured, parts.types

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OnSystem) and self._key == other._key


@functools.lru_cache
def _needs_care(on_system: _OnSystem) -> bool:
    """``inspected`` of the trace of an event."""
    event, system, u = on_system.given
    with float64():
        g = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.float64), system.group.identity())
        xi = jax.ShapeDtypeStruct((system.group.dim,), np.float64)
        jaxpr = jax.make_jaxpr(lambda t, g, xi: event.value(system, t, g, xi, u))(0.0, g, xi)
        return inspected(f"event {event.name!r}", jaxpr)


@functools.lru_cache
def _reads_by_data(on_system: _OnSystem) -> bool:
    """``inspected`` of the trace of a guard's function."""
    guard, system = on_system.given
    with float64():
        g = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.float64), system.group.identity())
        xi = jax.ShapeDtypeStruct((system.group.dim,), np.float64)
        lam = jax.eval_shape(lambda g, xi: system.constraint_residual(system.at(g, 0.0), xi), g, xi)
        jaxpr = jax.make_jaxpr(lambda t, g, xi, lam: guard.value_with(system, t, g, xi, lam))(0.0, g, xi, lam)
        return inspected(f"event {guard.name!r}", jaxpr)


def _no_multipliers(system: System, here: tuple[Point, Array]) -> Array:
    """Zeros, as many as the multipliers."""
    g, t = here
    return jnp.zeros_like(system.constraint_residual(system.at(g, t), jnp.zeros(system.group.dim)))


class Crossings(NamedTuple):
    """All events of a run, in the order of time, arrays of shape=[K, …]: of each its index in the names of the
    monitored events, the step that contains it, between nodes k and k + 1, and the motion there.
    """

    names: tuple[str, ...]
    which: np.ndarray
    k: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray
    multipliers: np.ndarray

    @classmethod
    def none_of(cls, events: Iterable[Event], system: System, g: Point, t: float) -> Crossings:
        """Empty record for events along the motions of a system through a point."""
        with float64():
            m = len(computed(_no_multipliers, system, (g, np.float64(t))))
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(g))
        return cls.none([event.name for event in events], size, system.group.dim, m)

    @classmethod
    def none(cls, names: Iterable[str], n_point: int, n: int, m: int) -> Crossings:
        """Empty record for events of these names."""
        counts = np.zeros(0, np.int64)
        return cls(
            tuple(names), counts, counts, np.zeros(0), np.zeros((0, n_point)), np.zeros((0, n)), np.zeros((0, m))
        )

    def taken(self, which: np.ndarray) -> Crossings:
        """Select some of the events."""
        return Crossings(self.names, *(part[which] for part in self[1:]))

    def joined(self, after: Crossings) -> Crossings:
        """Append later events, whose names are known."""
        if not len(self.t):  # from a file, which does not store the number of multipliers
            return after._replace(names=self.names)
        return Crossings(self.names, *(np.concatenate(pair) for pair in zip(self[1:], after[1:], strict=True)))

    def to_keep(self, k: int, names: Iterable[str]) -> Crossings:
        """Events to keep when resuming from node k with events of these names, which are located again from there."""
        names = tuple(names)
        again = np.isin(self.which, [i for i, name in enumerate(self.names) if name in names]) & (self.k >= k)
        return self.taken(~again)._replace(names=tuple(dict.fromkeys((*self.names, *names))))


def joined_crossings(found: Sequence[Crossings], names: Sequence[str], size: int, n: int) -> Crossings:
    """Events of these names in pieces of a run, of points with ``size`` entries and velocities of dimension n; nan for
    the multipliers that a piece has not.
    """
    names, m = tuple(names), max((c.multipliers.shape[1] for c in found), default=0)
    joined = Crossings.none(names, size, n, m)
    for c in found:
        lam = np.full((len(c.t), m), np.nan)
        lam[:, : c.multipliers.shape[1]] = c.multipliers
        which = np.array([names.index(c.names[i]) for i in c.which], np.int64)
        joined = joined.joined(c._replace(names=names, which=which, multipliers=lam))
    return joined


class Labelled:
    """Places where events occur, with their names: the common part of a section and of the events of members."""

    g_vector: np.ndarray
    xi: np.ndarray
    point_names: tuple[str, ...]
    velocity_names: tuple[str, ...]

    @validated
    def values(self, name: str) -> np.ndarray:
        """Coordinate or velocity of the given name, of the shape of ``t``.

        Raises
        ------
        TypeError
            If ``name`` is not a str.
        ValueError
            For an unknown name.
        """
        if name in self.point_names:
            return self.g_vector[..., self.point_names.index(name)]
        if name in self.velocity_names:
            return self.xi[..., self.velocity_names.index(name)]
        raise ValueError(f"name {name!r} is none of {[*self.point_names, *self.velocity_names]}")


@argument_type
@dataclass(frozen=True)
class Section(Labelled):
    """Crossings of a surface by a trajectory, located between the nodes.

    Attributes
    ----------
    t : ndarray, shape=[K]
        Times of the crossings, seconds.
    g : point of the group, with a leading axis of length K
        Group elements.
    xi : ndarray, shape=[K, n]
        Velocities.
    g_vector : ndarray, shape=[K, size]
        The group elements, flattened.
    point_names, velocity_names : tuple of str
        Names of the entries of ``g_vector``, and of ξ.
    multipliers : ndarray, shape=[K, m], or None
        λ at the crossings, for an event of ``solve``.
    """

    t: np.ndarray
    g: Any
    xi: np.ndarray
    g_vector: np.ndarray
    point_names: tuple[str, ...]
    velocity_names: tuple[str, ...]
    multipliers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.t)

    @validated
    def plot(self, horizontal: str, vertical: str) -> Figure:
        """Plot the section in two of its coordinates.

        Parameters
        ----------
        horizontal, vertical : str
            Names of coordinates or velocities.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        TypeError, ValueError
            As of ``values``.
        """
        from geonh.plotting.figures import empty_figure
        from geonh.plotting.labels import symbol

        figure = empty_figure((5.0, 4.5))
        axes = figure.subplots()
        axes.plot(self.values(horizontal), self.values(vertical), ".", ms=3)
        axes.set(xlabel=symbol(horizontal), ylabel=symbol(vertical), title=f"Poincaré section, {len(self)} crossings")
        axes.grid(alpha=0.3)
        return figure

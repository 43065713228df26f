r"""Events: sign changes of a function of (t, g, ξ, λ) along a motion, and their location.

Between two nodes the motion is a curve on the group, s ∈ [0, 1]. Five samples along it determine a polynomial, which
has no more zeros than its Bernstein coefficients have sign changes, and as many up to an even number (Descartes): no
sign change means no zero, one means one zero. With more, the interval is bisected until the zeros are isolated. Each
bracket is then reduced by the ITP method (Oliveira, Takahashi, *ACM TOMS* 47 (2021) 5), which needs as few evaluations
as the secant method and at most one more than bisection. ``solve`` evaluates the curve by partial steps of its own
method (``watching.py``); ``poincare_section`` uses the interpolation between saved nodes, and its sign changes from
node to node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.signatures import argument_type, judged
from geonh.arguments.validators import as_flag, entries, one_of, shortly
from geonh.geometry.field import evaluated, takes_parameters
from geonh.groups.base import LieGroup, Point
from geonh.mechanics.equations import multipliers
from geonh.mechanics.system import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCE = 1e-13
"""Tolerance of a root in s, relative to the step."""
NEAREST = 2.0**-16
"""Fraction of a step below which zeros are not resolved."""
MOST = 128
"""Maximum number of intervals of a step that are bisected at once."""
SMALL = 1e-3
"""A sign change is a jump if the function next to it exceeds this fraction of its variation around it."""
LEAST = 1e-300
"""Replacement for a zero, with the sign that follows it."""
PLACES = np.linspace(0.0, 1.0, 5)
"""Sample points in an interval."""
BERNSTEIN = np.linalg.inv([[comb(4, i) * s**i * (1 - s) ** (4 - i) for i in range(5)] for s in PLACES])
"""Bernstein coefficients on [0, 1] of the polynomial with given values at ``PLACES``."""


def _plain(number: Any) -> Any:
    """Convert a NumPy integer to an int, so that it does not enter the name of a compiled program."""
    return int(number) if isinstance(number, np.integer) else number


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
    and issues an ``EventWarning``. A motion that begins on s = 0 leaves it without an event.

    Raises
    ------
    TypeError
        If ``function`` does not take these arguments, or ``stop`` or ``name`` are of another type.
    ValueError
        If ``direction`` is not −1, 0 or 1.
    """

    function: Callable
    direction: int = eqx.field(static=True, default=0, converter=_plain)
    stop: bool = eqx.field(static=True, default=False)
    name: str = eqx.field(static=True, default="event")

    def __check_init__(self) -> None:
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


def made_events(events: Any, system: System, u: Any) -> tuple[Event, ...]:
    """Validate the events given by a user, tracing each once on the system; TypeError or ValueError for non-events,
    repeated names, and functions that cannot be evaluated; u is a value of the controls.
    """
    found = [events] if isinstance(events, Event) else entries(events)
    if (
        found is None
        or isinstance(events, Mapping | np.ndarray)
        or not all(isinstance(event, Event) for event in found)
    ):
        raise TypeError(f"events must be Event(function, ...) or a list of them, got {shortly(events)}")
    names = [event.name for event in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"events must have different names, {twice} are more than one: Event(..., name=...)")
    with float64():
        g = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.float64), system.group.identity())
        xi = jax.ShapeDtypeStruct((system.group.dim,), np.float64)
        for i, event in enumerate(found):
            made = jax.make_jaxpr(lambda t, g, xi, event=event: event.value(system, t, g, xi, u))(0.0, g, xi)
            if inspected(f"event {event.name!r}", made):
                found[i] = eqx.tree_at(lambda e: e.function, event, careful(event.function))
    return tuple(found)


def crossed(before: Any, after: Any, direction: Any) -> Any:
    """True where values change sign from one node to the next, elementwise: from nonzero onto zero or past it."""
    up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    return (up & (direction >= 0)) | (down & (direction <= 0))


def suspected(values: Array, directions: Array) -> Array:
    """True where functions may have zeros of the wanted directions in a step, shape=[events], by their values at the
    ``PLACES``, shape=[5, events]; False where one is zero over the whole step, or nan at one of its ends.
    """
    begin, end = values[0], values[-1]
    coefficients = jnp.concatenate([begin[None], jnp.asarray(BERNSTEIN[1:-1]) @ values, end[None]])
    positive, negative = coefficients > 0, coefficients < 0
    one = jnp.all(positive | negative, axis=0) & (jnp.sum(positive[1:] != positive[:-1], axis=0) == 1)
    none = jnp.all(positive, axis=0) | jnp.all(negative, axis=0) | jnp.all(values == 0, axis=0)
    unwanted = one & ~crossed(begin, end, directions)
    return ~(none | unwanted | jnp.isnan(begin) | jnp.isnan(end))


def brackets(sample: Callable[[np.ndarray, np.ndarray], np.ndarray], ends: np.ndarray) -> tuple[np.ndarray, ...]:
    """Bracket the sign changes of functions in steps: (row, a, b, at_a, at_b), shape=[K] each, are the index of the
    function, an interval with one sign change, and the values at its ends.

    ``sample(row, s)`` evaluates the functions of these rows at the fractions s of their steps, all of shape=[N];
    ``ends``, shape=[rows, 2], are values at both ends of the steps, where a zero is one that stays zero.
    """
    row, a, width, new = np.arange(len(ends)), np.zeros(len(ends)), 1.0, [1, 2, 3]
    values = np.full((len(ends), 5), np.nan)
    values[:, 0], values[:, 4] = ends[:, 0], np.where(ends[:, 1] == 0, -LEAST * np.sign(ends[:, 0]), ends[:, 1])
    found = []
    while len(row):
        places = a[:, None] + width * PLACES
        values[:, new] = sample(np.repeat(row, len(new)), places[:, new].ravel()).reshape(-1, len(new))
        for i in reversed(range(4)) if np.any(values == 0) else ():
            values[:, i] = np.where(values[:, i] == 0, np.copysign(LEAST, values[:, i + 1]), values[:, i])
        finite = np.isfinite(values)
        changes = np.diff(np.where(finite, values, 0.0) @ BERNSTEIN.T > 0, axis=1).sum(axis=1)
        many = ~finite.all(axis=1) | (changes > 1)
        apart = many & (width > NEAREST) & (np.bincount(row[many], minlength=len(ends))[row] <= MOST)
        # for one sign change the two samples around it, for several unresolved ones the ends of the interval
        begin = np.where(many, 0, np.argmax(np.diff(values > 0, axis=1), axis=1))
        end, each = np.where(many, 4, begin + 1), np.arange(len(row))
        at_a, at_b = values[each, begin], values[each, end]
        there = ~apart & (at_a * np.sign(at_b) < 0)
        interval = row, places[each, begin], places[each, end], at_a, at_b
        found.append(tuple(part[there] for part in interval))
        halves = np.full((int(apart.sum()), 2, 5), np.nan)
        halves[:, 0, ::2], halves[:, 1, ::2] = values[apart, :3], values[apart, 2:]
        row, a, width, new = np.repeat(row[apart], 2), places[apart][:, [0, 2]].ravel(), width / 2, [1, 3]
        values = halves.reshape(-1, 5)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def root(
    function: Callable[[Array], tuple[Array, Any]],
    begin: Array,
    rounding: Array | float = 0.0,
    interval: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
) -> Any:
    """Auxiliary output of a function s → (value, more), a scalar and a pytree, at its sign change in (a, b].

    It is located by the ITP method, from a nonzero value ``begin`` at a, to the rounding error of s; if a = b, the
    function is evaluated there. Without a sign change it is the output at b. Points with a non-finite value are
    skipped, and the search continues beyond them; nan if no value is finite.
    """
    start, stop = (jnp.asarray(end, float) for end in interval)
    sign, half, whole = -jnp.sign(begin), TOLERANCE / 2 + rounding, stop - start
    bound = jnp.ceil(jnp.log2(jnp.maximum(whole / (2 * half), 1.0))) + 1.0

    def narrow(carry: Any) -> Any:
        (a, at_a), (b, at_b), j, known = carry
        middle, width = (a + b) / 2, b - a
        reach = jnp.maximum(half * 2.0 ** (bound - j) - width / 2, 0.0)
        secant = (at_b * a - at_a * b) / (at_b - at_a)
        gap = jnp.abs(middle - secant)
        shift = jnp.maximum(0.2 * width**2 / whole, half)
        inwards = jnp.where(shift <= gap, secant + jnp.sign(middle - secant) * shift, middle)
        inwards = jnp.clip(inwards, middle - reach, middle + reach)
        s = jnp.where(j == 0.0, stop, inwards)
        value, more = function(s)
        value = sign * value
        past = value >= 0
        kept = ~jnp.isfinite(value) | ((value < 0) & (at_b == 0))  # the first zero, where it stays one
        known = jax.tree.map(lambda new, old: jnp.where(kept, old, new), more, known)
        left = (jnp.where(past, a, s), jnp.where(value < 0, value, at_a))
        right = (jnp.where(past, s, b), jnp.where(past, value, at_b))
        return left, right, j + 1.0, known

    def unfinished(carry: Any) -> Array:
        (a, _), (b, _), j, _ = carry
        return (j == 0.0) | ((b - a > 2 * half) & (j < bound + 4.0))

    nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(function, start)[1])
    first: Any = (start, sign * begin), (stop, jnp.ones(())), jnp.zeros(()), nothing
    return lax.while_loop(unfinished, narrow, first)[3]


def between(group: LieGroup, node: tuple) -> tuple[Point, Array]:
    """Point (g, ξ) at the fraction s of the curve from (g, ξ) before to (g, ξ) after, of duration ``span``."""
    before, after, span, s = node
    return curve(group, before, after, span)(s)


def curve(group: LieGroup, before: tuple, after: tuple, span: Array) -> Callable[[Array], tuple[Point, Array]]:
    """Curve s → (g, ξ) from (g, ξ) before to (g, ξ) after, of duration ``span``: cubic in the logarithm."""
    zeta = group.log(group.compose(group.inverse(before[0]), after[0]))
    leaving, arriving = span * before[1], span * group.dexp_inv(-zeta) @ after[1]

    def chart(s: Array) -> Array:
        return s * (1 - s) ** 2 * leaving + s**2 * (3 - 2 * s) * zeta + s**2 * (s - 1) * arriving

    def at(s: Array) -> tuple[Point, Array]:
        q, rate = jax.jvp(chart, (s,), (jnp.ones_like(s),))
        return group.compose(before[0], group.exp(q)), group.dexp(-q) @ rate / span

    return at


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

    def going_on(self, k: int, names: Iterable[str]) -> Crossings:
        """Events to keep when resuming from node k with events of these names, which are located again from there."""
        names = tuple(names)
        again = np.isin(self.which, [i for i, name in enumerate(self.names) if name in names]) & (self.k >= k)
        return self.taken(~again)._replace(names=tuple(dict.fromkeys((*self.names, *names))))


@argument_type
@dataclass(frozen=True)
class Section:
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

    @judged
    def values(self, name: str) -> np.ndarray:
        """Coordinate or velocity of the given name, shape=[K].

        Raises
        ------
        TypeError
            If ``name`` is not a str.
        ValueError
            For an unknown name.
        """
        if name in self.point_names:
            return self.g_vector[:, self.point_names.index(name)]
        if name in self.velocity_names:
            return self.xi[:, self.velocity_names.index(name)]
        raise ValueError(f"name {name!r} is none of {[*self.point_names, *self.velocity_names]}")

    @judged
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
        import matplotlib.pyplot as plt

        from geonh.plotting.labels import symbol

        figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
        axes.plot(self.values(horizontal), self.values(vertical), ".", ms=3)
        axes.set(xlabel=symbol(horizontal), ylabel=symbol(vertical), title=f"Poincaré section, {len(self)} crossings")
        axes.grid(alpha=0.3)
        return figure

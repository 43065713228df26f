"""Running statistics: updated batch by batch, with bounded state, and mergeable.

Each is taken at every saved node over the members, or for every member over its nodes. nan values (of a member that
failed) are ignored. Results do not depend on the batches, bitwise; merged statistics of parts agree to rounding, and
counts, extrema and quantiles exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from typing import Any, ClassVar

import numpy as np

from geonh.arguments.validators import as_constant, as_count, one_of
from geonh.ensembles.reading import Observable, requested_observables

SAMPLE = 4096
"""Default number of members sampled for quantiles, if there are more."""


@dataclass(frozen=True)
class Statistic(ABC):
    """Base class of statistics of an observable, given by name, or of a named function of (t, g, ξ, λ).

    Its subclasses are passed to ``solve_ensemble(..., statistics=[...])``; those in ``KINDS`` can be stored. The state
    of a statistic is a dict of arrays: with first axis [nodes] over members, or [members] over time, then the shape of
    the observable. A subclass implements ``initial``, ``update``, ``merge_members`` and ``results``.

    Parameters
    ----------
    of : str or callable
        Name of an observable, such as "energy", or a function with a name, in ``jax.numpy``.
    over : {"members", "time"}
        At each saved node over the members, or for each member over its saved nodes.

    Raises
    ------
    TypeError
        If ``of`` is neither a str nor a function with a name.
    ValueError
        If ``over`` is anything else.
    """

    of: str | Callable
    over: str = field(default="members", kw_only=True)

    def __post_init__(self) -> None:
        one_of(self.over, "over", ("members", "time"))
        if not isinstance(self.of, str) and getattr(self.of, "__name__", "<lambda>") == "<lambda>":
            raise TypeError(f"a statistic is of an observable's name, or of a function with a name, got {self.of!r}")

    @property
    def observable(self) -> Observable:
        name = str(self.of) if isinstance(self.of, str) else self.of.__name__
        return requested_observables({name: name if isinstance(self.of, str) else self.of}, "statistics")[0]

    def labelled(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results for a given state, arrays of shape=[nodes or members, …], by label."""
        return {self.label(what): values for what, values in self.results(state).items()}

    def label(self, what: str) -> str:
        """Label of a result: "energy:mean", "energy:mean over time"."""
        return f"{self.observable.name}:{what}{' over time' if self.over == 'time' else ''}"

    @property
    def axis(self) -> tuple[str, np.ndarray, dict[str, Any]] | None:
        """Result with an additional axis, coordinates of that axis, shape=[places], and their attributes; or None."""
        return None

    def as_data(self) -> dict[str, Any]:
        """JSON data from which ``statistic_from_data`` restores the statistic; TypeError for a class unknown to it."""
        if KINDS.get(type(self).__name__) is not type(self):
            raise TypeError(
                f"a store cannot restore the statistic {type(self).__name__}, only {', '.join(KINDS)}: keep an "
                "observable instead, or compute it without a store"
            )
        return {"kind": type(self).__name__, **vars(self), "of": self.observable.name}

    @abstractmethod
    def initial(self, start: int, members: int, nodes: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Initial state.

        Parameters
        ----------
        start : int
            Index, in the whole ensemble, of the first of the members of this state.
        members, nodes : int
            Numbers of members and of saved nodes.
        shape : tuple of int
            Shape of the observable.

        Returns
        -------
        dict of str to ndarray, shape=[nodes or members, …]
        """

    def size(self, members: int, nodes: int, shape: tuple[int, ...]) -> int:
        """Number of values in the state, for the memory check."""
        entries = nodes if self.over == "members" else members
        return entries * sum(a.size for a in self.initial(0, 1, 1, shape).values())

    @abstractmethod
    def update(self, state: dict[str, np.ndarray], values: np.ndarray, start: int, member: int, node: int) -> None:
        """Update the state in place with the values of some members at some nodes; each value comes once.

        Parameters
        ----------
        state : dict of str to ndarray, shape=[nodes or members, …]
        values : ndarray, shape=[members, nodes, …]
            Values of the observable; nan for members that ended before.
        start : int
            As in ``initial``.
        member, node : int
            Indices, in the state, of the first member and the first node of ``values``.
        """

    def merge(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Merge the states of two parts of the members, the second after the first; arrays of shape=[nodes or
        members, …].
        """
        if self.over == "time":
            return {name: np.concatenate([a[name], b[name]]) for name in a}
        return self.merge_members(a, b)

    @abstractmethod
    def merge_members(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Merge the states of two parts of the members in a statistic over the members, arrays of shape=[nodes, …]."""

    @abstractmethod
    def results(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results by name, arrays of shape=[nodes or members, …]."""

    def reduced_first(self, values: np.ndarray, member: int, node: int) -> tuple[slice, np.ndarray]:
        """Slice of the state that ``values`` of ``update``, shape=[members, nodes, …], belong to, and the values with
        the reduced axis first.
        """
        if self.over == "members":
            return slice(node, node + values.shape[1]), values
        return slice(member, member + values.shape[0]), np.moveaxis(values, 1, 0)


class Mean(Statistic):
    """Mean and standard deviation: "mean", "std" and "count", of the shape of the observable for each node or member.

    Sums of x − c and of its square, c the first value, are accumulated in a fixed order, whatever the batches; infinite
    values are ignored, and "count" is the number of values used. Parts are
    merged by the formula of Chan, Golub and LeVeque (*The American Statistician* 37 (1983) 242). A statistic of higher
    moments is a subclass with the names of more sums in ``sums``, and its own ``results``.

    Parameters
    ----------
    of : str or callable
        Name of an observable, or a function with a name.
    over : {"members", "time"}
        At each saved node over the members, or for each member over its saved nodes.

    Raises
    ------
    TypeError, ValueError
        As in ``Statistic``.
    """

    sums: ClassVar[tuple[str, ...]] = ("s", "q")
    """Names of the sums of (x − c)ᵏ, k = 1, 2, …, in the state."""

    def initial(self, start: int, members: int, nodes: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        full = (nodes if self.over == "members" else members, *shape)
        return {
            "n": np.zeros(full, np.int64),
            "c": np.full(full, np.nan),
            **{name: np.zeros(full) for name in self.sums},
        }

    def update(self, state: dict[str, np.ndarray], values: np.ndarray, start: int, member: int, node: int) -> None:
        at, values = self.reduced_first(values, member, node)
        good = np.isfinite(values)
        first = np.take_along_axis(np.where(good, values, np.nan), np.argmax(good, axis=0)[None], axis=0)[0]
        c = state["c"][at] = np.where(np.isnan(state["c"][at]), first, state["c"][at])
        off = np.where(good, values - c, 0.0)
        state["n"][at] += good.sum(axis=0)
        for name, power in zip(self.sums, accumulate(repeat(off, len(self.sums)), np.multiply), strict=True):
            state[name][at] = np.add.accumulate(np.concatenate([state[name][at][None], power]), axis=0)[-1]

    def merge_members(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        c = np.where(np.isnan(a["c"]), b["c"], a["c"])
        shift = np.where(b["n"] > 0, b["c"] - c, 0.0)
        moments = [b["n"], *(b[name] for name in self.sums)]
        merged = {"n": a["n"] + b["n"], "c": c}
        for k, name in enumerate(self.sums, 1):  # Σ (x − c + shift)ᵏ
            terms = [math.comb(k, j) * shift ** (k - j) * moments[j] for j in range(k)]
            merged[name] = a[name] + sum(reversed(terms), start=b[name])
        return merged

    def results(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        n = np.where(state["n"] > 0, state["n"], 1)
        with np.errstate(over="ignore", invalid="ignore"):  # of members that blow up the spread is no number
            spread = np.maximum(state["q"] - state["s"] ** 2 / n, 0.0) / n
        empty = state["n"] <= 0
        return {
            "mean": np.where(empty, np.nan, state["c"] + state["s"] / n),
            "std": np.where(empty, np.nan, np.sqrt(spread)),
            "count": state["n"],
        }


class Extrema(Statistic):
    """Minimum and maximum, "min" and "max", of the shape of the observable for each node or member.

    Parameters
    ----------
    of : str or callable
        Name of an observable, or a function with a name.
    over : {"members", "time"}
        At each saved node over the members, or for each member over its saved nodes.

    Raises
    ------
    TypeError, ValueError
        As in ``Statistic``.
    """

    def initial(self, start: int, members: int, nodes: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        full = (nodes if self.over == "members" else members, *shape)
        return {"min": np.full(full, np.nan), "max": np.full(full, np.nan)}

    def update(self, state: dict[str, np.ndarray], values: np.ndarray, start: int, member: int, node: int) -> None:
        at, values = self.reduced_first(values, member, node)
        state["min"][at] = np.fmin(state["min"][at], np.fmin.reduce(values, axis=0))
        state["max"][at] = np.fmax(state["max"][at], np.fmax.reduce(values, axis=0))

    def merge_members(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"min": np.fmin(a["min"], b["min"]), "max": np.fmax(a["max"], b["max"])}

    def results(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return state


@dataclass(frozen=True)
class Quantiles(Statistic):
    """Quantiles over the members, exact up to ``sample`` of them: "quantile", shape=[nodes, len(q), …].

    From more members ``sample`` are selected, those with the smallest hash of their index; the fraction of all members
    below a quantile then differs from q by √(q(1 − q)/sample), a standard deviation.

    Parameters
    ----------
    of : str or callable
        Name of an observable, or a function with a name.
    q : sequence of float
        Between 0 and 1.
    sample : int
        Number of members to sample.
    over : {"members"}
        For quantiles over time use a ``Histogram``.

    Raises
    ------
    TypeError
        If ``of`` is neither a str nor a function with a name, or ``q`` are not numbers.
    ValueError
        If ``q`` are not in [0, 1], ``sample`` is not a positive integer, or ``over`` is anything else.
    """

    q: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    sample: int = SAMPLE

    def __post_init__(self) -> None:
        super().__post_init__()
        q = as_constant(self.q, "q", None)
        if q.ndim != 1 or not np.all((q >= 0) & (q <= 1)):
            raise ValueError(f"q must be numbers between 0 and 1, got {self.q!r}")
        object.__setattr__(self, "q", tuple(q.tolist()))
        object.__setattr__(self, "sample", as_count(self.sample, "sample"))
        if self.over != "members":
            raise ValueError("quantiles are taken over the members; over time take a Histogram")

    @property
    def axis(self) -> tuple[str, np.ndarray, dict[str, Any]]:
        return "quantile", np.array(self.q), {}

    def initial(self, start: int, members: int, nodes: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        numbers = np.arange(start, start + members)
        numbers = np.sort(numbers[np.argsort(_hash(numbers), kind="stable")[: self.sample]])
        return {"numbers": numbers, "values": np.full((len(numbers), nodes, *shape), np.nan)}

    def size(self, members: int, nodes: int, shape: tuple[int, ...]) -> int:
        return min(self.sample, members) * (1 + nodes * int(np.prod(shape, dtype=int)))

    def update(self, state: dict[str, np.ndarray], values: np.ndarray, start: int, member: int, node: int) -> None:
        low, high = np.searchsorted(state["numbers"], [start + member, start + member + len(values)])
        taken = state["numbers"][low:high] - start - member
        state["values"][low:high, node : node + values.shape[1]] = values[taken]

    def merge_members(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        numbers, values = (np.concatenate([a[name], b[name]]) for name in ("numbers", "values"))
        taken = np.sort(np.argsort(_hash(numbers), kind="stable")[: self.sample])
        return {"numbers": numbers[taken], "values": values[taken]}

    def results(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nodes that no member reached
            return {"quantile": np.moveaxis(np.nanquantile(state["values"], self.q, axis=0), 0, 1)}


@dataclass(frozen=True)
class Histogram(Statistic):
    """Number of values in each bin, [edge, next edge): "counts", shape=[nodes or members, bins]; "below" and
    "above".

    Parameters
    ----------
    of : str or callable
        Name of a scalar observable, or a function with a name.
    edges : array_like, shape=[bins + 1]
        Increasing bin edges.
    over : {"members", "time"}
        At each saved node over the members, or for each member over its saved nodes.

    Raises
    ------
    TypeError, ValueError
        As in ``Statistic``; if ``edges`` are not two or more increasing numbers.
    """

    edges: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = as_constant(self.edges, "edges", None)
        if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0):
            raise ValueError(f"edges must be two or more increasing numbers, got {self.edges!r}")
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    @property
    def axis(self) -> tuple[str, np.ndarray, dict[str, Any]]:
        edges = np.array(self.edges)
        return "counts", (edges[:-1] + edges[1:]) / 2, {"long_name": "middles of bins", "edges": edges}

    def initial(self, start: int, members: int, nodes: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        if shape:
            raise ValueError(
                f"{self.observable.name} has shape {list(shape)}; a histogram is of one number: give a function"
            )
        return {"n": np.zeros((nodes if self.over == "members" else members, len(self.edges) + 1), np.int64)}

    def update(self, state: dict[str, np.ndarray], values: np.ndarray, start: int, member: int, node: int) -> None:
        at, values = self.reduced_first(values, member, node)
        bins = state["n"].shape[1]
        places = np.searchsorted(self.edges, values, side="right") + bins * np.arange(values.shape[1])
        counts = np.bincount(places[~np.isnan(values)], minlength=bins * values.shape[1])
        state["n"][at] += counts.reshape(-1, bins)

    def merge_members(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"n": a["n"] + b["n"]}

    def results(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"counts": state["n"][:, 1:-1], "below": state["n"][:, 0], "above": state["n"][:, -1]}


KINDS: dict[str, type[Statistic]] = {kind.__name__: kind for kind in (Mean, Extrema, Quantiles, Histogram)}
"""Statistics that a store can restore, by name."""


def statistic_from_data(data: Mapping[str, Any]) -> Statistic:
    """Restore a statistic from ``as_data``; it can be merged and evaluated, but not updated."""
    return KINDS[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})


def _hash(numbers: np.ndarray) -> np.ndarray:
    """Hash of integers: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def refuse_clashes(observables: Iterable[Observable], statistics: Iterable[Statistic]) -> None:
    """Raise if one name denotes two functions, or results of two statistics."""
    functions: dict[str, Any] = {}
    labels = set()
    for one in (*(s.observable for s in statistics), *observables):
        if functions.setdefault(one.name, one.function) != one.function:
            raise ValueError(f"observables and statistics: {one.name!r} stands for two things: rename one function")
    for s in statistics:
        label = f"{type(s).__name__} of {s.observable.name!r} over {s.over}"
        if label in labels:
            raise ValueError(f"statistics: {label} is there twice, and both would have one name: leave one out")
        labels.add(label)

"""Specification of an optimal motion: ends, cost, bounds and inequalities, validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.subspaces import kernel
from geonh.arguments.inspection import careful
from geonh.arguments.precision import has_tracers
from geonh.arguments.validators import as_constant, as_count, as_float64, close, shortly
from geonh.engine import computed
from geonh.geometry.field import argument_names, evaluated, takes_parameters, tried
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces

SHORTEST, LONGEST = 1e-2, 1e3
"""Bounds of a free span, relative to its guess."""


class UserFunction(NamedTuple):
    """A function of the user's; ``takes_parameters`` is True if those of the system are its last argument."""

    name: str
    function: Callable
    takes_parameters: bool

    def at(self, system: System, *arguments: Any) -> Array:
        """Value of the function."""
        more = (system.parameters,) if self.takes_parameters else ()
        return evaluated(self.name, self.function, *arguments, *more)


class Inequalities(NamedTuple):
    """lower ≤ c ≤ upper for values c of the given names, arrays of one shape."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray

    def __add__(self, other: Inequalities) -> Inequalities:  # type: ignore[override]
        lower, upper = (np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))
        return Inequalities(self.names + other.names, lower, upper)

    def of(self, rows: np.ndarray) -> Inequalities:
        """Those where the mask is True."""
        names = tuple(name for name, wanted in zip(self.names, rows, strict=True) if wanted)
        return Inequalities(names, self.lower[rows], self.upper[rows])


UNBOUNDED = Inequalities((), np.zeros(0), np.zeros(0))
"""No bounds."""


class Conditions(NamedTuple):
    """Conditions at the nodes and at the end, as a part of programs.

    ``components`` are places of bounded components in (g as a vector, ξ, u); ``path`` and ``terminal`` functions
    c(t, g, ξ, u) that are bounded at nodes and at the end, ``terminal_cost`` one that is added to the cost;
    ``end_rows`` and ``xi_rows`` the rows of the conditions on g_end⁻¹g and on ξ − ξ_end; ``terminal_rows`` the places
    of values of ``terminal`` that are to equal ``terminal_values``; ``n_rates`` the number of controls whose rates are
    bounded.
    """

    cost: UserFunction
    cost_takes_xi: bool
    terminal_cost: UserFunction | None
    path: tuple[UserFunction, ...]
    terminal: tuple[UserFunction, ...]
    terminal_rows: tuple[int, ...]
    components: tuple[int, ...]
    n_rates: int
    end: Point
    xi_end: ArrayLike
    end_rows: ArrayLike
    xi_rows: ArrayLike
    terminal_values: ArrayLike
    span: ArrayLike

    def running_cost(self, system: System, t: Array, node: Any) -> Array:
        """Integrand of the cost at a node."""
        at = (node.xi, node.u) if self.cost_takes_xi else (node.u,)
        return self.cost.at(system, t, node.g, *at)

    def at_node(self, system: System, t: Array, node: Any) -> Array:
        """Values that are bounded at a node."""
        every = jnp.concatenate([system.group.to_vector(node.g), node.xi, node.u])
        components = [every[i][None] for i in self.components]
        return jnp.concatenate([jnp.zeros(0), *components, *self._of(self.path, system, t, node)])

    def at_end(self, system: System, t: Array, node: Any) -> Array:
        """Values that are bounded at the end alone."""
        values = self._at_end(system, t, node)
        return jnp.delete(values, np.array(self.terminal_rows, int), assume_unique_indices=True)

    def _at_end(self, system: System, t: Array, node: Any) -> Array:
        return jnp.concatenate([jnp.zeros(0), *self._of(self.terminal, system, t, node)])

    def _of(self, functions: tuple[UserFunction, ...], system: System, t: Array, node: Any) -> list[Array]:
        return [jnp.atleast_1d(c.at(system, t, node.g, node.xi, node.u)) for c in functions]

    def gap(self, system: System, t: Array, node: Any) -> Array:
        """Residual of the conditions at the end, shape=[q]."""
        group = system.group
        eta = group.log(group.compose(group.inverse(self.end), node.g))
        off = self._at_end(system, t, node)[np.array(self.terminal_rows, int)] - self.terminal_values
        return jnp.concatenate([self.end_rows @ eta, self.xi_rows @ (node.xi - self.xi_end), off])

    def end_cost(self, system: System, t: Array, node: Any) -> Array:
        """Cost of the end."""
        return jnp.zeros(()) if self.terminal_cost is None else self.terminal_cost.at(system, t, node.g, node.xi)


class Ends(NamedTuple):
    """Arguments of ``optimal_control`` about the states at the ends."""

    start: Any
    xi_start: Any
    end: Any
    xi_end: Any
    free: Sequence[str] = ()


class Wanted(NamedTuple):
    """Arguments of ``optimal_control`` about costs and bounds."""

    cost: Callable | None
    terminal_cost: Callable | None
    bounds: Any
    rates: Any
    limits: Mapping[str, Any] | None
    path: Any
    terminal: Any


class SteeringProblem(NamedTuple):
    """A motion from (g₀, ξ₀) at t₀ in the span T, which is free or given, under n_controls, at the least cost.

    ``of_nodes``, ``of_rates`` and ``of_end`` are the bounds of the values of the conditions, ``end_equations`` the
    names of those whose value at the end is given; ``end`` is None where no point is given.
    """

    start: Point
    xi_start: np.ndarray
    end: Point | None
    t0: float
    span: float
    free_span: bool
    n_controls: int
    conditions: Conditions
    of_nodes: Inequalities
    of_rates: Inequalities
    of_end: Inequalities
    end_equations: tuple[str, ...]


def steering_problem(
    system: System,
    method: Integrator,
    ends: Ends,
    wanted: Wanted,
    *,
    n_controls: int,
    span: float,
    free_span: bool = False,
    t0: float = 0.0,
) -> SteeringProblem:
    """Validate the arguments of ``optimal_control``; ValueError or TypeError for an invalid argument, naming it."""
    refuse(method, system)
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces= that use controls")
    if (
        ends.end is None
        and (ends.xi_end is None or isinstance(ends.xi_end, str))
        and all(part is None for part in wanted)
    ):
        raise ValueError("nothing is asked of the motion, and u = 0 is best: give end, terminal or a cost")
    t0, span = float(as_constant(t0, "t0")), as_duration(span, "span")
    states = _states(system, ends, t0, span)
    g0, xi0 = states.start, states.xi_start
    n_u = as_count(n_controls, "n_controls")
    inspect_forces(system, Clock(t0, 1.0, np.zeros((2, n_u))), g0, xi0)
    node = (0.0, g0, xi0, np.zeros(n_u))
    at_nodes, paths = _functions(wanted.path, "path", system, node)
    at_end, terminals = _functions(wanted.terminal, "terminal", system, node, may_equal=True)
    equal = terminals.lower == terminals.upper
    places, of_components = _components(system, wanted.limits, wanted.bounds, n_u)
    rate_names = tuple(f"rate of control {i}" for i in range(n_u))
    of_rates = UNBOUNDED if wanted.rates is None else _bounds(wanted.rates, "rates", rate_names)
    of_nodes = of_components + paths
    of_span = Inequalities(("the span",), *(np.array([a]) for a in ((SHORTEST, LONGEST) if free_span else (0.0, 2.0))))
    cost = effort if wanted.cost is None else wanted.cost
    takes_xi = callable(cost) and argument_names(cost, 3)[2] == "xi"
    arguments, at = ("t, g, xi, u", node) if takes_xi else ("t, g, u", (*node[:2], node[3]))
    ending = wanted.terminal_cost
    conditions = Conditions(
        cost=_cost(cost, "cost", arguments, system, at),
        cost_takes_xi=takes_xi,
        terminal_cost=None if ending is None else _cost(ending, "terminal_cost", "t, g, xi", system, node[:3]),
        path=at_nodes,
        terminal=at_end,
        terminal_rows=tuple(np.flatnonzero(equal).tolist()),
        components=places,
        n_rates=len(of_rates.names),
        end=g0 if states.end is None else states.end,
        xi_end=states.xi_end,
        end_rows=states.end_rows,
        xi_rows=states.xi_rows,
        terminal_values=terminals.lower[equal],
        span=np.float64(span),
    )
    of_end = of_nodes + terminals.of(~equal) + of_span
    equations = terminals.of(equal).names
    return SteeringProblem(
        g0, xi0, states.end, t0, span, free_span, n_u, conditions, of_nodes, of_rates, of_end, equations
    )


def as_duration(value: Any, name: str) -> float:
    """Validate a duration, whose square is a number; ValueError or TypeError otherwise."""
    span = float(as_constant(value, name))
    if not 1e-150 < span < 1e150:
        raise ValueError(f"{name} must be positive, between 1e-150 and 1e150, got {span}")
    return span


class States(NamedTuple):
    """Validated states at the ends, and the rows of the conditions on g_end⁻¹g and ξ − ξ_end."""

    start: Point
    xi_start: np.ndarray
    end: Point | None
    xi_end: np.ndarray
    end_rows: np.ndarray
    xi_rows: np.ndarray


def _states(system: System, ends: Ends, t0: float, span: float) -> States:
    """Validated states at the ends, on the constraints."""
    n, names, free, xi_end = system.group.dim, system.group.velocity_names, ends.free, ends.xi_end
    if unknown := [name for name in free if name not in names]:
        near = close(str(unknown[0]), names)
        raise ValueError(f"free: {unknown} are not velocity components, which are {list(names)}{near}")
    if len(set(free)) < len(free):
        raise ValueError(f"free: {list(free)} has a repeated name")
    has_tracers(start=ends.start, end=ends.end)  # refuses a list that contains itself
    g0, g1 = system.point(ends.start, name="start"), None if ends.end is None else system.point(ends.end, name="end")
    xi0 = np.zeros(n) if ends.xi_start is None else as_float64(ends.xi_start, "xi_start", (n,))
    is_free = isinstance(xi_end, str) and xi_end == "free"
    xi1 = np.zeros(n) if xi_end is None or is_free else as_float64(xi_end, "xi_end", (n,))
    _refuse_off_constraints(system, "start", g0, xi0, t0)
    if g1 is None:
        if xi_end is not None and not is_free:
            raise ValueError("xi_end is given without an end: bound velocities with terminal=(c, lower, upper)")
        return States(g0, xi0, g1, xi1, np.zeros((0, n)), np.zeros((0, n)))
    rows = _refuse_off_constraints(system, "end", g1, None if is_free else xi1, t0 + span)
    given = np.delete(np.eye(n), [names.index(name) for name in free], axis=0)
    xi_rows = np.zeros((0, n)) if is_free else orthogonal_complement(rows.mu)
    return States(g0, xi0, g1, xi1, _tangent_rows(given, rows.G), xi_rows)


class ConstraintRows(NamedTuple):
    """Constraints at a configuration: rows μ of all of them, and rows G of φ."""

    mu: ArrayLike
    G: ArrayLike


def _refuse_off_constraints(system: System, name: str, g: Point, xi: np.ndarray | None, t: float) -> ConstraintRows:
    """Constraint rows at a state; ValueError if it is off the constraints. Without a velocity only φ is checked."""
    velocity = np.zeros(system.group.dim) if xi is None else xi
    phi, gap, rows = computed(_residuals_and_rows, system, (g, velocity, np.float64(t)))
    if np.abs(phi).max(initial=0.0) > 1e-9:
        raise ValueError(
            f"{name} does not satisfy the holonomic constraints of {system.name}: φ = {phi}; "
            "system.project_position(…) gives a point near it that does"
        )
    if xi is not None and np.abs(gap).max(initial=0.0) > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(
            f"xi_{name} is off the constraints of {system.name} by {np.abs(gap).max():.2g}; "
            "system.project(…) gives a velocity near it that satisfies them"
        )
    return rows


def _residuals_and_rows(system: System, node: tuple) -> tuple[Array, Array, ConstraintRows]:
    """Residuals φ and μξ − b at a state, and the rows of the constraints there."""
    g, xi, t = node
    x = system.at(g, t)
    G, mu = system.holonomic_rows(x), system.annihilator(x)
    return system.holonomic_residual(x), system.constraint_residual(x, xi), ConstraintRows(mu, G)


def orthogonal_complement(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis, in rows, of the orthogonal complement of given rows, shape=[n − rank, n]."""
    return kernel(rows, float(np.linalg.norm(rows)) or 1.0).T


def _tangent_rows(given: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Independent conditions on η at the end, on its given components, as far as φ = 0 does not imply them."""
    tangent = orthogonal_complement(G)
    T = given @ tangent.T @ tangent
    T = T[np.linalg.norm(T, axis=1) > 1e-9]
    return np.linalg.svd(T)[2][: np.linalg.matrix_rank(T)] if len(T) else T


def effort(t: Any, g: Any, u: Any) -> Any:
    """Control effort u·u, the default cost."""
    return u @ u


def _cost(function: Callable, name: str, arguments: str, system: System, at: tuple) -> UserFunction:
    """Validated cost; raises if it reads a missing name or is not a scalar."""
    cost, shape = _function(function, name, arguments, system, at)
    if shape:
        raise ValueError(f"{name} must give one number, got an array of shape {shape}")
    return cost


def _function(function: Any, name: str, arguments: str, system: System, at: tuple) -> tuple[UserFunction, tuple]:
    """Validated function, and the shape of its value."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of ({arguments}), got {shortly(function)}")
    takes = takes_parameters(function, arguments, name)
    shape, by_data = tried(name, function, *at, *((system.parameters,) if takes else ()))
    return UserFunction(name, careful(function) if by_data else function, takes), shape


def _functions(
    given: Any, name: str, system: System, at: tuple, *, may_equal: bool = False
) -> tuple[tuple[UserFunction, ...], Inequalities]:
    """Bounded functions (c, lower, upper) of (t, g, ξ, u), one or a list of them, and their bounds, which may be equal
    if ``may_equal``.
    """
    if not isinstance(given, tuple | list | None):
        raise TypeError(f"{name} must be (c, lower, upper) or a list of such, got {shortly(given)}")
    several = [given] if given and callable(given[0]) else list(given or ())
    functions, bounds = [], UNBOUNDED
    for i, one in enumerate(several):
        if not isinstance(one, tuple | list) or len(one) != 3:
            raise TypeError(f"{name} must be (c, lower, upper) or a list of such, got {shortly(one)}")
        label = name if len(several) == 1 else f"{name}[{i}]"
        function, shape = _function(one[0], label, "t, g, xi, u", system, at)
        if len(shape) > 1:
            raise ValueError(f"{label} must give a number or a vector, got an array of shape {shape}")
        size = shape[0] if shape else 1
        functions.append(function)
        names = (label,) if not shape else tuple(f"{label}[{j}]" for j in range(size))
        bounds += _bounds(one[1:], label, names, may_equal=may_equal)
    return tuple(functions), bounds


def _components(system: System, limits: Any, bounds: Any, n_controls: int) -> tuple[tuple[int, ...], Inequalities]:
    """Places of bounded components in (g as a vector, ξ, u), and their bounds."""
    names = [*system.group.point_names, *system.group.velocity_names]
    places, every = [], UNBOUNDED
    for name, pair in dict(limits or {}).items():
        if name not in names:
            raise ValueError(f"limits: {name!r} is no component, which are {names}{close(str(name), names)}")
        places.append(names.index(name))
        every += _bounds(pair, f"limits[{name!r}]", (name,))
    if bounds is not None:
        of_controls = tuple(f"control {i}" for i in range(n_controls))
        places += [len(names) + i for i in range(n_controls)]
        every += _bounds(bounds, "bounds", of_controls)
    return tuple(places), every


def _bounds(pair: Any, name: str, of: tuple[str, ...], *, may_equal: bool = False) -> Inequalities:
    """Validated bounds of the named values."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name} must be (lower, upper), got {shortly(pair)}")
    ends = [np.asarray(b, float) if np.ndim(b) == 0 and not isinstance(b, str) else as_float64(b, name) for b in pair]
    if invalid := [list(end.shape) for end in ends if end.shape not in ((), (len(of),))]:
        raise ValueError(f"{name} must be numbers, or of shape [{len(of)}], one for each value, got {invalid[0]}")
    lower, upper = (np.broadcast_to(end, (len(of),)) for end in ends)
    if not np.all((lower < upper) | (may_equal & (lower == upper) & np.isfinite(lower))):
        order, advice = "below", ""
        if may_equal:
            order = "below or, where both are finite, equal to"
        elif np.any(lower == upper):
            advice = "; what holds all the time is a constraint of the system"
        raise ValueError(f"{name}: lower must be {order} upper, got {lower} and {upper}{advice}")
    return Inequalities(of, lower, upper)

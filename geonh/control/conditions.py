"""Conditions of an optimal motion at its nodes and its end, as a part of programs: costs, bounds and equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.field import evaluated
from geonh.groups.base import ArrayLike, LieGroup, Point
from geonh.mechanics.system import System


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
    """lower ≤ c ≤ upper for values c of the given names, arrays of one shape.

    Those of nodes hold at the node after the part ``place`` of the span, between 0 and 1, at those of the phase with
    the number ``phase``, or at all, where these are nan.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    place: np.ndarray
    phase: np.ndarray

    def __add__(self, other: Inequalities) -> Inequalities:  # type: ignore[override]
        return Inequalities(self.names + other.names, *map(np.concatenate, zip(self[1:], other[1:], strict=True)))

    def of(self, rows: np.ndarray) -> Inequalities:
        """Those where the mask is True."""
        names = tuple(name for name, wanted in zip(self.names, rows, strict=True) if wanted)
        return Inequalities(names, *(part[rows] for part in self[1:]))

    def where(self, mask: np.ndarray) -> Inequalities:
        """The same rows, unbounded where the mask is False."""
        return self._replace(lower=np.where(mask, self.lower, -np.inf), upper=np.where(mask, self.upper, np.inf))

    def at_nodes(self, phases: np.ndarray) -> np.ndarray:
        """Mask of the nodes at which each holds, shape=[K + 1, rows], by the number of the phase of each node."""
        here = np.arange(len(phases))[:, None] == np.rint(self.place * (len(phases) - 1))
        return (here | np.isnan(self.place)) & ((phases[:, None] == self.phase) | np.isnan(self.phase))


UNBOUNDED = Inequalities((), *(np.zeros(0),) * 4)
"""No bounds."""


class Conditions(NamedTuple):
    """Conditions at the nodes and at the end, as a part of programs.

    ``components`` are places of bounded components in (g as a vector, ξ, u); ``path`` and ``terminal`` functions
    c(t, g, ξ, u) that are bounded at nodes and at the end, ``terminal_cost`` one that is added to the cost;
    ``end_rows`` and ``xi_rows`` the rows of the conditions on g_end⁻¹g and on ξ − ξ_end; ``path_rows`` and
    ``terminal_rows`` the places of values of ``path`` and ``terminal`` that are to equal ``path_values`` and
    ``terminal_values``; ``return_rows`` and ``xi_return_rows`` those of conditions on g₀⁻¹g_K and ξ_K − ξ₀ of a
    periodic motion; ``n_rates`` the number of controls whose rates are bounded; ``sought`` the names of parameters that
    are unknown, with steps in units of ``theta_scale``; ``spans`` the durations of the phases before they are found,
    shape=[P], which change by ``of_spans``, shape=[P, n_spans], times what is unknown of them.
    """

    cost: UserFunction
    cost_takes_xi: bool
    terminal_cost: UserFunction | None
    path: tuple[UserFunction, ...]
    terminal: tuple[UserFunction, ...]
    path_rows: tuple[int, ...]
    terminal_rows: tuple[int, ...]
    components: tuple[int, ...]
    n_rates: int
    sought: tuple[str, ...]
    end: Point
    xi_end: ArrayLike
    end_rows: ArrayLike
    xi_rows: ArrayLike
    return_rows: ArrayLike
    xi_return_rows: ArrayLike
    path_values: ArrayLike
    terminal_values: ArrayLike
    spans: ArrayLike
    of_spans: ArrayLike
    theta_scale: ArrayLike

    @property
    def n_spans(self) -> int:
        """Number of unknowns of the durations; one, which is given, of a single one that is."""
        return self.of_spans.shape[1]

    def running_cost(self, system: System, t: Array, node: Any) -> Array:
        """Integrand of the cost at a node."""
        at = (node.xi, node.u) if self.cost_takes_xi else (node.u,)
        return self.cost.at(system, t, node.g, *at)

    def at_node(self, system: System, t: Array, node: Any) -> Array:
        """Values that are bounded at a node."""
        every = jnp.concatenate([system.group.to_vector(node.g), node.xi, node.u])
        components = [every[i][None] for i in self.components]
        bounded = _without(self._of(self.path, system, t, node), self.path_rows)
        return jnp.concatenate([jnp.zeros(0), *components, bounded])

    def node_gap(self, system: System, t: Array, node: Any) -> Array:
        """Residual of the equations at a node, shape=[q]."""
        return self._of(self.path, system, t, node)[np.array(self.path_rows, int)] - self.path_values

    def at_end(self, system: System, t: Array, node: Any) -> Array:
        """Values that are bounded at the end alone."""
        return _without(self._of(self.terminal, system, t, node), self.terminal_rows)

    def _of(self, functions: tuple[UserFunction, ...], system: System, t: Array, node: Any) -> Array:
        values = [jnp.atleast_1d(c.at(system, t, node.g, node.xi, node.u)) for c in functions]
        return jnp.concatenate([jnp.zeros(0), *values])

    def gap(self, system: System, t: Array, node: Any) -> Array:
        """Residual of the conditions at the end, shape=[q]."""
        group = system.group
        eta = group.log(group.compose(group.inverse(self.end), node.g))
        values = self._of(self.terminal, system, t, node)
        off = values[np.array(self.terminal_rows, int)] - self.terminal_values
        return jnp.concatenate([self.end_rows @ eta, self.xi_rows @ (node.xi - self.xi_end), off])

    def return_gap(self, group: LieGroup, first: Any, last: Any) -> Array:
        """Residual of the conditions of a periodic motion on its first and last node."""
        eta = group.log(group.compose(group.inverse(first.g), last.g))
        return jnp.concatenate([self.return_rows @ eta, self.xi_return_rows @ (last.xi - first.xi)])

    def end_cost(self, system: System, t: Array, node: Any) -> Array:
        """Cost of the end."""
        return jnp.zeros(()) if self.terminal_cost is None else self.terminal_cost.at(system, t, node.g, node.xi)


def _without(values: Array, rows: tuple[int, ...]) -> Array:
    """Values but those at the given places."""
    return jnp.delete(values, np.array(rows, int), assume_unique_indices=True)

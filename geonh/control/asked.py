"""Boundary conditions and cost of an optimal control problem, validated, for transcription and shooting alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.analysis.subspaces import kernel
from geonh.arguments.inspection import careful
from geonh.arguments.validators import as_count, as_float64, close
from geonh.engine.compiled import computed
from geonh.geometry.field import takes_parameters, tried
from geonh.groups.base import Point
from geonh.integrators.base import refuse
from geonh.integrators.node import Clock
from geonh.mechanics.system import System
from geonh.runs.start import inspect_forces


class Asked(NamedTuple):
    """Problem data: a motion from (g₀, ξ₀) at t₀ to g₁, and to ξ₁ unless it is free, in the span T, at the least ∫c dt.

    ``free`` are the components of η by which the end g₁exp(η) may vary, and ``mu``, ``G``, ``rising`` the rows of all
    constraints, those of φ, and ∂_tφ there.
    """

    start: Point
    xi_start: np.ndarray
    end: Point
    xi_end: np.ndarray
    open_end: bool
    t0: float
    span: float
    free: tuple[int, ...]
    n_controls: int
    cost: Callable
    cost_takes_parameters: bool
    mu: np.ndarray
    G: np.ndarray
    rising: np.ndarray

    @property
    def allowed(self) -> np.ndarray:
        """Orthonormal basis, in rows, of the velocities that the constraints allow at the end: ξ₁ is given on these."""
        return across(self.mu)[: 0 if self.open_end else None]


def asked(
    system: System,
    method: Any,
    *,
    end: Any,
    n_controls: int,
    span: float,
    start: Any,
    xi_start: Any,
    xi_end: Any,
    free: Sequence[str],
    cost: Callable | None,
    t0: float,
) -> Asked:
    """Validate the arguments of ``optimal_control``.

    Raises
    ------
    ValueError, TypeError
        For an invalid argument, naming it.
    """
    refuse(method, system)
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces that controls could act by")
    n, names = system.group.dim, system.group.velocity_names
    t0, span = float(as_float64(t0, "t0", ())), float(as_float64(span, "span", ()))
    if not span > 0:
        raise ValueError(f"span must be positive, got {span}")
    if unknown := [name for name in free if name not in names]:
        near = close(str(unknown[0]), names)
        raise ValueError(
            f"free: {unknown} are not among the velocities {list(names)}, whose coordinates it frees{near}"
        )
    if len(set(free)) < len(free):
        raise ValueError(f"free: {list(free)} has a name twice")
    g0, g1 = system.point(start, name="start"), system.point(end, name="end")
    xi0 = np.zeros(n) if xi_start is None else as_float64(xi_start, "xi_start", (n,))
    is_open = isinstance(xi_end, str) and xi_end == "free"
    xi1 = np.zeros(n) if xi_end is None or is_open else as_float64(xi_end, "xi_end", (n,))
    _refuse_off(system, "start", g0, xi0, t0)
    mu, G, rising = _refuse_off(system, "end", g1, None if is_open else xi1, t0 + span)
    n_controls = as_count(n_controls, "n_controls")
    inspect_forces(system, Clock(t0, 1.0, np.zeros((2, n_controls))), g0, xi0)
    return Asked(
        g0,
        xi0,
        g1,
        xi1,
        is_open,
        t0,
        span,
        tuple(names.index(name) for name in free),
        n_controls,
        *_made_cost(cost, system, n_controls),
        mu,
        G,
        rising,
    )


def _refuse_off(system: System, name: str, g: Point, xi: np.ndarray | None, t: float) -> tuple:
    """Constraint rows at a state; ValueError if it is off the constraints. Without a velocity only φ is checked."""
    velocity = np.zeros(system.group.dim) if xi is None else xi
    phi, gap, *rows = computed(_rows, system, (g, velocity, np.float64(t)))
    if np.abs(phi).max(initial=0.0) > 1e-9:
        raise ValueError(
            f"{name} does not satisfy the holonomic constraints of {system.name}: φ = {phi}; "
            "system.project_position(…) gives a point near it that does"
        )
    if xi is not None and np.abs(gap).max(initial=0.0) > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(
            f"xi_{name} is off the constraints of {system.name} by {np.abs(gap).max():.2g}; "
            "system.project(…) gives a velocity near it that is not"
        )
    return tuple(rows)


def _rows(system: System, node: tuple) -> tuple[Array, ...]:
    """Residuals φ and μξ − b at a state; μ, G and ∂_tφ there."""
    g, xi, t = node
    x = system.at(g, t)
    phi, at_rest = system.holonomic_residual(x), system.constraint_residual(x, 0.0 * xi)
    G = system.holonomic_rows(x)
    return phi, system.constraint_residual(x, xi), system.annihilator(x), G, at_rest[: len(phi)]


def across(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis, in rows, of the orthogonal complement of given rows, shape=[n − rank, n]."""
    return kernel(rows, float(np.linalg.norm(rows)) or 1.0).T


def effort(t: Any, g: Any, u: Any) -> Any:
    """Control effort u·u, the default cost."""
    return u @ u


def _made_cost(cost: Callable | None, system: System, n_controls: int) -> tuple[Callable, bool]:
    """Cost function, and True if it takes the parameters; raises if it reads a missing name or is not a scalar."""
    price = effort if cost is None else cost
    takes = takes_parameters(price, "t, g, u", "cost")
    more = (system.parameters,) if takes else ()
    shape, by_data = tried("cost", price, 0.0, system.point(None), np.zeros(n_controls), *more)
    if shape:
        raise ValueError(f"cost must give one number, got an array of shape {shape}")
    return careful(price) if by_data else price, takes


def limits_of(bounds: Any, n_controls: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of the controls, shape=[n_u] each."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise TypeError(f"bounds must be (lower, upper), got {bounds!r}")
    limits = [as_float64(b, "bounds") for b in bounds]
    if odd := [list(limit.shape) for limit in limits if limit.shape not in ((), (n_controls,))]:
        raise ValueError(f"bounds must be numbers, or of shape [{n_controls}], one for each control, got {odd[0]}")
    lower, upper = (np.broadcast_to(limit, (n_controls,)) for limit in limits)
    if not np.all(lower < upper):
        raise ValueError(f"bounds: lower must be below upper, got {lower} and {upper}")
    return lower, upper

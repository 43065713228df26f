"""``solve``: run a one-step method over many steps, in compiled loops, and label the result.

The loop is compiled once for a system's structure and a method; parameters, step size and the number of steps are
arguments, so none of them compiles anything again. ``integrate`` is the pure core, for use under a user's own ``jit``,
``grad`` and ``vmap``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.node import Clock, State
from geonh.integrators.registry import method_of
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.lagrangian import OFF_GROUP
from geonh.mechanics.system import System
from geonh.netcdf import check_destination
from geonh.numerics.compiled import mapped
from geonh.numerics.precision import as_float64, float64, is_traced, require_float64
from geonh.numerics.waiting import interrupted_at_once
from geonh.running import IntegrationError, advance
from geonh.trajectory import Trajectory

__all__ = ["IntegrationError", "Nodes", "integrate", "resume", "solve"]


class Nodes(NamedTuple):
    """What the pure core returns, with a leading time axis of length n_steps + 1.

    ``status`` is 0 while all is well; from a failure on, the entries repeat the last good node and ``status`` holds
    the ``Result``.
    """

    t: Array
    g: Point
    p_plus: Array
    p_minus: Array
    status: Array


def integrate(
    system: System,
    method: Integrator,
    *,
    xi0: Any,
    g0: Any = None,
    dt: Any,
    n_steps: int,
    t0: Any = 0.0,
    controls: Any = None,
) -> Nodes:
    """The pure core of ``solve``: traceable, differentiable in both modes, and made for ``vmap``.

    Parameters are those of ``solve``. The start is taken as it is: its consistency cannot be checked in a trace.

    Returns
    -------
    Nodes
        JAX arrays.

    Raises
    ------
    RuntimeError
        When traced in single precision.
    """
    require_float64("integrate")
    refuse(method, system)
    clock = Clock(jnp.asarray(t0, float), jnp.asarray(dt, float), controls)
    g = jax.tree.map(lambda a: jnp.asarray(a, float), system.group.identity() if g0 is None else g0)
    first = method.first_node(system, clock, g, jnp.asarray(xi0, float))

    def advance(state: State, _: None) -> tuple[State, State]:
        new = method.next_node(system, clock, state)
        going = state.status == 0
        failed = jnp.where(going, new.status, state.status)
        state = _choose(going & (new.status == 0), new, state)._replace(status=failed)
        return state, state

    _, rest = lax.scan(advance, first, None, length=n_steps)
    path = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rest)
    return Nodes(clock.time(jnp.arange(n_steps + 1)), path.g, path.p_plus, path.p_minus, path.status)


@interrupted_at_once
def solve(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float,
    n_steps: int,
    t0: float = 0.0,
    controls: Any = None,
    save_every: int = 1,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Trajectory:
    """Integrate a system.

    Parameters
    ----------
    system : System
        What moves.
    method : Integrator or str, optional
        One-step method, or its name in ``geonh methods``; ``SymmetricProjection()`` when left out.
    xi0 : array_like, shape=[n]
        Initial velocity ξ = g⁻¹ġ; it must satisfy the constraints at g0 (``system.project`` helps).
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards.
    n_steps : int
        Number of steps.
    t0 : float
        Initial time; t_k = t0 + k·dt.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        u(t) in jax.numpy, or its values at the nodes.
    save_every : int
        Keep every so many nodes.
    throw : bool
        Raise on failure; otherwise ``success``, ``status`` and ``message`` of the result tell.
    progress : bool or callable
        Show a progress bar (on a terminal, in a notebook), or call ``progress(steps_done, n_steps)`` after each chunk.
    checkpoint : path, optional
        Save what exists there, at most once a minute, and at the end; ``resume`` goes on from it to the same bits.

    Returns
    -------
    Trajectory
        NumPy float64 arrays, labelled.

    Raises
    ------
    ValueError, TypeError
        For input that does not fit, an inconsistent start included (with its residual).
    IntegrationError
        If a step fails: with step, time, cause, and the trajectory up to there in ``.trajectory``.
    """
    if method is None or isinstance(method, str):
        method = SymmetricProjection() if method is None else method_of(method)
    if is_traced(xi0, g0, dt, t0, system):
        raise TypeError("solve returns NumPy arrays and cannot be traced; under jit, grad or vmap use geonh.integrate")
    _check_counts(n_steps, save_every)
    if checkpoint is not None:
        check_destination(checkpoint)
    refuse(method, system)
    step = float(as_float64(dt, "dt", ()))
    if step == 0:
        raise ValueError("dt must not be zero")
    start = as_float64(t0, "t0", ())
    xi = as_float64(xi0, "xi0", (system.group.dim,))
    controls = _controls(controls, n_steps)
    if start + step == start:
        raise ValueError(f"time stands still: t0 + dt = t0 in float64 with t0 = {start:g} and dt = {step:g}")
    clock = Clock(start, np.float64(step), controls)
    g = system.point(g0, on_group=False)
    with float64():
        method.refuse_start(system, step, g, jnp.asarray(xi))
    node = jax.tree.map(lambda a: np.asarray(a)[None], (g, xi))
    found = jax.tree.map(lambda a: a[0], mapped(_first, (system, method, clock), node))
    _check_start(system, xi, step, found[1])
    with float64():
        trajectory = Trajectory.begin(system, method, clock, found[0], save_every)
    return advance(trajectory, n_steps, throw, progress, checkpoint)


@interrupted_at_once
def resume(
    trajectory: Trajectory | str | os.PathLike,
    n_steps: int,
    *,
    system: System | None = None,
    method: Integrator | str | None = None,
    controls: Any = None,
    allow_changes: bool | str | Iterable[str] = False,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Trajectory:
    """Go on from the last step of a trajectory (or of its file), to the same bits as one run.

    Parameters
    ----------
    trajectory : Trajectory or path
        What exists.
    n_steps : int
        Further steps.
    system, method, controls : optional
        Needed after loading from a file, which holds data only. They must be those of the run: name, parameters and
        what the functions compute are compared. Controls in an array are those of the whole run, from its first node.
    allow_changes : bool, str or sequence of str
        Go on with a system that is another one: in everything (True), or in what is named of "name", "parameters",
        "base", "metric", "lagrangian", "potential", "forms", "rhs", "forces", "controls". What was read from the nodes
        so far stays as it is, and ``attributes["changes"]`` tells of the change, in the file too.
    throw, progress, checkpoint
        As in ``solve``.

    Returns
    -------
    Trajectory
        Old and new nodes together.

    Raises
    ------
    ValueError
        If something is not as it was, naming it; ``FileError``, one of these, if the file cannot be gone on from.
    """
    if checkpoint is not None:
        check_destination(checkpoint)
    if not isinstance(trajectory, Trajectory):
        trajectory = Trajectory.load(trajectory)
    _check_counts(n_steps, trajectory.save_every)
    if trajectory.state is not None:
        total = int(trajectory.state.k) + n_steps
        _check_counts(total, trajectory.save_every)
        kept = trajectory.clock.controls if trajectory.clock is not None else None
        controls = _controls(kept if controls is None else controls, total)
    with float64():
        trajectory = trajectory.bind(
            system, method_of(method) if isinstance(method, str) else method, controls, allow_changes
        )
    return advance(trajectory, n_steps, throw, progress, checkpoint)


def _controls(controls: Any, n_steps: int) -> Any:
    """Controls as a function, or as the float64 values at all nodes of the run, or ValueError."""
    if controls is None or callable(controls):
        return controls
    values = as_float64(controls, "controls")
    if values.ndim == 0 or values.shape[0] < n_steps + 1:
        got = f"{values.shape[0]}" if values.ndim else "a number"
        raise ValueError(
            f"controls must have n_steps + 1 = {n_steps + 1} rows, one for each node from the first on, got {got}"
        )
    return values


def _check_counts(n_steps: int, save_every: int) -> None:
    for name, value in (("n_steps", n_steps), ("save_every", save_every)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value < 2**53:
            raise ValueError(f"{name} must be a positive integer below 2^53, got {str(value)[:40]}")


class Facts(NamedTuple):
    """What a start is judged by: distance off the group, mass matrix, constraint rows and residual, turn in a step."""

    gap: Array
    M: Array
    rows: Array
    residual: Array
    turn: Array


def _first(tree: tuple, node: tuple) -> tuple[State, Facts]:
    """Node 0, and the facts of the start."""
    (system, method, clock), (g, xi) = tree, node
    x = system.action.at(g)
    facts = Facts(
        system.group_defect(g),
        system.mass_matrix(x, xi),
        system.rows(x),
        system.constraint_residual(x, xi),
        jnp.asarray(system.group.turn(clock.dt * xi), float),
    )
    return method.first_node(system, clock, g, xi), facts


def _check_start(system: System, xi: np.ndarray, dt: float, facts: Facts) -> None:
    """Raise unless the metric is one and the start satisfies the constraints and the chart, in words."""
    M, rows, residual = facts.M, facts.rows, facts.residual
    if not facts.gap <= OFF_GROUP:
        raise ValueError(system.off_group(float(facts.gap)))
    kind = "metric" if system.metric is not None else "Hessian of the Lagrangian in ξ"
    if not np.allclose(M, M.T, rtol=1e-10, atol=1e-12 * np.abs(M).max()):
        raise ValueError(f"the {kind} of {system.name} at g0 is not symmetric:\n{M}")
    smallest = np.linalg.eigvalsh(M)[0] if np.all(np.isfinite(M)) else np.nan
    if not smallest > 0:
        raise ValueError(
            f"the {kind} of {system.name} at g0 is not positive definite: its least eigenvalue is {smallest:.3g}"
        )
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(rows) and not (np.all(sizes > 0) and np.linalg.svd(rows / sizes, compute_uv=False)[-1] > 1e-9):
        raise ValueError(f"the constraints of {system.name} are dependent at g0; their rows there are\n{rows}")
    scale = 1.0 + np.abs(xi).max()
    if residual.size and not np.abs(residual).max() <= 1e-9 * scale:
        raise ValueError(
            f"xi0 does not satisfy the constraints of {system.name} at g0: residual {residual}; "
            "system.project(g0, xi0) gives the nearest velocity that does"
        )
    if facts.turn >= np.pi:
        raise ValueError(
            f"xi0 turns the body by {facts.turn:.2f} rad in one step of dt = {dt}: past half a turn; lower dt"
        )


def _choose(condition: Array, first: Any, second: Any) -> Any:
    """Entries of ``first`` where the condition holds, else of ``second``."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)

"""``integrate``: runs inside a user's own ``jit``, ``grad`` and ``vmap``, in machine code with their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64, require_float64
from geonh.arguments.signatures import named
from geonh.arguments.validators import as_count, as_flag
from geonh.engine import Layout, Parts, Steps
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock, NodalControls
from geonh.integrators.node import State, Warm
from geonh.integrators.registry import stepping_method
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps, is_at
from geonh.mechanics.soundness import is_start
from geonh.mechanics.system import System
from geonh.results.modes import Modes, refuse_mode
from geonh.results.nodes import Node
from geonh.results.traced import TracedTrajectory
from geonh.results.traced_modes import TracedModes
from geonh.runs.modal_integrate import integrate_modes
from geonh.runs.start import as_span, as_start, as_traced_span, known_sound

__all__ = ["TracedTrajectory", "integrate"]

SHORT = 64
"""Largest spacing of saved nodes, in steps, for which all nodes are kept for the derivatives."""


@named
def integrate(
    system: System | Modes,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: Any = None,
    n_steps: int | None = None,
    t_end: Any = None,
    t0: Any = 0.0,
    controls: Any = None,
    save_every: int = 1,
    tolerance: Any = None,
    mode: str | None = None,
    observables: bool = False,
    most_switches: int = 8,
) -> TracedTrajectory | TracedModes:
    """``solve`` for use under ``jit``, ``grad`` and ``vmap``: traceable, and differentiable in both modes.

    It runs the same machine code, with bitwise equal results, and so do its derivatives: forward mode with the steps,
    reverse mode from the saved nodes, recomputing the steps between them, so that ``save_every`` bounds the memory. A
    batch (``vmap``) runs on SIMD lanes and threads. Second derivatives, and devices other than a CPU, use XLA; second
    derivatives need forward mode (``jax.hessian``): JAX does not differentiate Newton's loop in reverse mode twice.

    Arguments are validated as by ``solve``; for traced ones only the shapes, and the consistency of a start up to 1e-5,
    reported by ``status``. Any of the system's arrays, the start, dt, t0 and the controls may be traced. Functions
    must not close over traced values: these are passed as parameters, and controls that need them are
    ``jax.tree_util.Partial(function, value)``, a function of (value, t).

    Parameters
    ----------
    system : System or Modes
        System to integrate; or one that is of several modes at a time, with derivatives through the transitions.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n]
        Initial velocity ξ = g⁻¹ġ, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards. With a tolerance as for ``solve``.
    n_steps : int
        Number of steps; static under ``jit``; left out where ``t_end`` is given. With a tolerance and ``t_end`` it is
        the largest number: after the end the nodes repeat the last one.
    t_end : float, optional
        Time of the last node, as for ``solve``, where dt and t0 are not traced; with a tolerance they may be.
    t0 : float
        Initial time in seconds; t_k = t0 + k·dt.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        u(t) in jax.numpy, or its values at the nodes.
    save_every : int
        Number of steps between saved nodes, at most ``n_steps``; static under ``jit``.
    tolerance : float, optional
        As for ``solve``.
    mode : str, optional
        Mode in which a run of ``Modes`` begins.
    observables : bool
        Without effect, and accepted for one release: observables are computed when they are read.
    most_switches : int
        Number of transitions of a run of ``Modes`` in the result; static under ``jit``. All are made.

    Returns
    -------
    TracedTrajectory, or TracedModes for Modes
        JAX arrays with a leading axis of length N = n_steps // save_every + 1, under the names of ``Trajectory``: t, g,
        xi, p, energy, multipliers, …; what is not a part of the nodes is computed when it is read. status is 0 on
        success; after a failure the entries repeat the last good node and status holds the ``Result``. No derivative
        flows through a failed step, so those of the nodes before it are correct.

    Raises
    ------
    RuntimeError
        If JAX is in single precision: call it within ``with geonh.float64():``.
    ValueError, TypeError
        For invalid input, including an inconsistent start that is not traced.
    MemoryError
        If the nodes would take most of the machine's memory.

    Examples
    --------
    >>> import jax
    >>> import geonh as gn
    >>> def reached(a):
    ...     sleigh = gn.systems.chaplygin_sleigh(a=a)
    ...     return gn.integrate(sleigh, gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=100).g[-1, 0]
    >>> with gn.float64():
    ...     slope = jax.grad(reached)(0.2)
    """
    require_float64("integrate")
    as_flag(observables, "observables")
    if isinstance(system, Modes):
        if tolerance is not None:
            raise ValueError("tolerance= is not for runs with modes, whose steps are of one length")
        return integrate_modes(
            system,
            method,
            mode,
            xi0=xi0,
            g0=g0,
            dt=dt,
            n_steps=n_steps,
            t_end=t_end,
            t0=t0,
            controls=controls,
            save_every=save_every,
            most_switches=most_switches,
        )
    refuse_mode(system, mode)
    method = stepping_method(method, tolerance, controls).method
    varies, save_every = isinstance(method, VariableSteps), as_count(save_every, "save_every")
    dt, n_steps, _, end = (as_traced_span if varies else as_span)(dt, n_steps, t_end, t0)
    if save_every > n_steps:
        raise ValueError(
            f"save_every must be at most n_steps = {n_steps}, got {save_every}: only the start would be kept"
        )
    with float64():
        start = as_start(system, method, xi0, g0, dt, t0, 1 if varies else n_steps, controls)
        system = known_sound(system, method, start)
        clock = Clock(jnp.asarray(start.clock.t0), jnp.asarray(start.clock.dt), start.clock.controls)
        clock = clock if end is None else clock._replace(end=jnp.asarray(end))
        rows = None if clock.controls is None or callable(clock.controls) else jnp.asarray(clock.controls)
        problem = Problem(system, method, clock if rows is None else clock._replace(controls=None))
        begin = jax.tree.map(jnp.asarray, (start.g, start.xi))
        layouts = _layouts(Parts.of(_with_first_controls(problem, rows))[1], Layout.of(begin))
        arrays, parts = Parts.of(problem)
        stride = 1 if save_every <= SHORT else save_every
        given = arrays if rows is None else [*arrays, rows]
        n_nodes, sizes = n_steps // stride, (layouts.node.size + 1, layouts.inverses.size)
        refuse_too_much(
            f"{n_nodes} nodes", {"nodes": (n_nodes + 1) * sizes[0]}, "pass fewer steps, or raise save_every"
        )
        run = Steps(_FirstNode(layouts), _StepOfVectors(layouts), parts, n_nodes, stride, *sizes, rows is not None)
        nodes = run(given, layouts.start.flat(begin))[:: save_every // stride]
        states, status = layouts.node.tree(nodes[:, :-1]), nodes[:, -1].astype(jnp.int32)
        if end is not None:
            unfinished = (status[-1] == 0) & ~is_at(states.t[-1], clock.end)
            status = status.at[-1].set(jnp.where(unfinished, np.int32(Result.UNFINISHED), status[-1]))
        return TracedTrajectory.of(
            problem, clock.node_time(states.k), Node.of(states), status, None if rows is None else rows[states.k]
        )


class _Layouts(NamedTuple):
    """Layouts as vectors: of the start (g, ξ), of a node, and of the kept inverses, which only save iterations."""

    start: Layout
    node: Layout
    inverses: Layout


@functools.lru_cache(maxsize=128)
def _layouts(parts: Parts, start: Layout) -> _Layouts:
    """Layouts of a problem, from its static part at the start."""
    vector = jax.ShapeDtypeStruct((start.size,), jnp.float64)
    shapes = jax.eval_shape(
        lambda arrays, x: _split_inverses(_initial_state(parts.tree(arrays), start.tree(x))), parts.shapes, vector
    )
    return _Layouts(start, *map(Layout.of, shapes))


@dataclass(frozen=True)
class _FirstNode:
    """Node 0 as a vector, with its status appended, from (g, ξ) as a vector; ``controls`` are those there."""

    layouts: _Layouts

    def __call__(self, problem: Problem, start: Array, controls: Array | None) -> Array:
        state = _initial_state(_with_controls(problem, controls, 0), self.layouts.start.tree(start))
        return jnp.append(self.layouts.node.flat(_split_inverses(state)[0]), state.status.astype(start.dtype))


@dataclass(frozen=True)
class _StepOfVectors:
    """Step between nodes as vectors, for ``Steps``; ``controls`` are those at both."""

    layouts: _Layouts

    def __call__(
        self, problem: Problem, node: Array, inverses: Array, controls: Array | None
    ) -> tuple[Array, Array, Array]:
        state, kept_inverses = self.layouts.node.tree(node), iter(self.layouts.inverses.tree(inverses))
        state = state._replace(warm=_warm(lambda warm: warm._replace(inverse=next(kept_inverses)), state.warm))
        system, method, clock, _ = _with_controls(problem, controls, state.k)
        advance = method.next_node if clock.end is None else method.next_within
        state = advance(system, clock, state)
        bare, new_inverses = _split_inverses(state)
        return self.layouts.node.flat(bare), self.layouts.inverses.flat(new_inverses), state.status


def _split_inverses(state: State) -> tuple[State, list[Any]]:
    """Separate a state, with status reset and irrelevant derivatives stopped, from the inverses of its warm start."""
    inverses: list[Any] = []

    def without(warm: Warm) -> Warm:
        inverses.append(lax.stop_gradient(warm.inverse))
        return warm._replace(inverse=np.zeros(0))

    warm, rows = lax.stop_gradient((_warm(without, state.warm), state.rows))
    return state._replace(warm=warm, rows=rows, status=jnp.zeros_like(state.status)), inverses


def _warm(change: Callable[[Warm], Warm], warm: Any) -> Any:
    """Apply ``change`` to the warm start of a method, or of each part of a composition."""
    return jax.tree.map(change, warm, is_leaf=lambda part: isinstance(part, Warm))


def _with_controls(problem: Problem, controls: Array | None, k: Any) -> Problem:
    """Problem with the controls from node k on, if they are given at the nodes."""
    if controls is None:
        return problem
    return problem._replace(clock=problem.clock._replace(controls=NodalControls(controls, k)))


def _with_first_controls(problem: Problem, rows: Array | None) -> Problem:
    """Problem with the controls of node 0 only, if they are given at the nodes."""
    return _with_controls(problem, rows if rows is None else rows[:1], jnp.asarray(0))


def _initial_state(problem: Problem, start: tuple[Point, Array]) -> State:
    """Node 0 from (g, ξ), with a status for an inconsistent start."""
    system, clock, (g, xi) = problem.system, problem.clock, start
    state = problem.method.first_node(system, clock, g, xi)
    sound = is_start(system, clock.time(0), g, xi, problem.method.first_length(clock, xi))
    return state._replace(status=jnp.where((state.status == 0) & ~sound, np.int32(Result.START), state.status))

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

from geonh.arguments.precision import float64, require_float64
from geonh.arguments.validators import as_count, as_flag
from geonh.engine import Evaluation, Layout, Parts, Steps
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.node import Clock, Near, Result, State, Warm
from geonh.integrators.registry import made_method
from geonh.mechanics.soundness import is_start
from geonh.mechanics.system import System
from geonh.results.observables import alternation, observe
from geonh.runs.start import made_start, refuse_unsound

__all__ = ["Nodes", "integrate"]

SHORT = 64
"""Largest spacing of saved nodes, in steps, for which all nodes are kept for the derivatives."""


class Nodes(NamedTuple):
    """Result of ``integrate``: JAX arrays with a leading axis of length N = n_steps // save_every + 1.

    Attributes
    ----------
    t : array, shape=[N]
        Times, seconds.
    g : point of the group, with a leading axis of length N
        Group elements.
    p_plus, p_minus : array, shape=[N, n]
        Incoming and outgoing momenta.
    status : array of int, shape=[N]
        0 on success; after a failure the entries repeat the last good node and ``status`` holds the ``Result``:
        ``Result.START`` at all nodes for an inconsistent traced start.
    observables : dict of str to array, shape=[N, …]
        Observables of a ``Trajectory`` by name, if requested.
    """

    t: Array
    g: Point
    p_plus: Array
    p_minus: Array
    status: Array
    observables: dict[str, Array]

    @property
    def alternation(self) -> Array:
        """Alternating part as in a ``Trajectory``, if observables were requested, shape=[N]."""
        if "alternating" not in self.observables:
            return jnp.zeros(self.observables["energy"].shape)
        return alternation(self.observables["alternating"], self.observables["kinetic"])


def integrate(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: Any,
    n_steps: int,
    t0: Any = 0.0,
    controls: Any = None,
    save_every: int = 1,
    observables: bool = False,
) -> Nodes:
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
    system : System
        System to integrate.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n]
        Initial velocity ξ = g⁻¹ġ, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards.
    n_steps : int
        Number of steps; static under ``jit``.
    t0 : float
        Initial time in seconds; t_k = t0 + k·dt.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        u(t) in jax.numpy, or its values at the nodes.
    save_every : int
        Number of steps between saved nodes, at most ``n_steps``; static under ``jit``.
    observables : bool
        Also compute the observables of a trajectory: "xi", "p", "energy", "multipliers", … at every saved node.

    Returns
    -------
    Nodes
        JAX arrays t, g, p_plus, p_minus and status with a leading axis of length N = n_steps // save_every + 1, and the
        observables by name. status is 0 on success; after a failure the entries repeat the last good node and status
        holds the ``Result``. No derivative flows through a failed step, so those of the nodes before it are correct.

    Raises
    ------
    RuntimeError
        If JAX is in single precision: call it within ``with geonh.float64():``.
    ValueError, TypeError
        For invalid input, including an inconsistent start that is not traced.

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
    method = made_method(method, controls)
    save_every, n_steps = as_count(save_every, "save_every"), as_count(n_steps, "n_steps")
    if save_every > n_steps:
        raise ValueError(
            f"save_every must be at most n_steps = {n_steps}, got {save_every}: only the start would be kept"
        )
    as_flag(observables, "observables")
    with float64():
        start = made_start(system, method, xi0, g0, dt, t0, n_steps, controls)
        refuse_unsound(system, method, start)
        clock = Clock(jnp.asarray(start.clock.t0), jnp.asarray(start.clock.dt), start.clock.controls)
        begin = Layout.of(jax.tree.map(jnp.asarray, (start.g, start.xi)))
        controls = [] if clock.controls is None or callable(clock.controls) else [jnp.asarray(clock.controls)]
        problem = Problem(system, method, clock._replace(controls=None) if controls else clock)
        kinds, quick = _layouts(Parts.of(problem._replace(clock=_seeing(clock, *controls)))[1], begin)
        arrays, parts = Parts.of(problem)
        stride = 1 if save_every <= SHORT else save_every
        functions = _First(begin, kinds), _Step(kinds, quick)
        run = Steps(*functions, parts, n_steps // stride, stride, kinds.size + 1, quick.size, bool(controls))
        nodes = run([*arrays, *controls], begin.flat((start.g, start.xi)))[:: save_every // stride]
        states, status = kinds.tree(nodes[:, :-1]), nodes[:, -1].astype(jnp.int32)
        found = _observed(problem, kinds, nodes[:, :-1], states.k, controls) if observables else {}
        return Nodes(
            _times(clock, save_every * jnp.arange(len(nodes))), states.g, states.p_plus, states.p_minus, status, found
        )


def _times(clock: Clock, k: Array) -> Array:
    """Times t_k with the bits of ``Clock.time``: XLA would fuse a product and the sum that follows it."""
    elapsed = k * clock.dt
    return clock.t0 + jnp.where(jnp.isnan(elapsed), clock.dt, elapsed)


@dataclass(frozen=True)
class _First:
    """Node 0 as a vector, with its status appended, from (g, ξ) as a vector."""

    begin: Layout
    kinds: Layout

    def __call__(self, problem: Problem, start: Array, near: Any) -> Array:
        state = _begun(problem._replace(clock=_near(problem.clock, near, 0)), self.begin.tree(start))
        return jnp.append(self.kinds.flat(_parted(state)[0]), state.status.astype(start.dtype))


@dataclass(frozen=True)
class _Step:
    """Step between nodes as vectors, for ``Steps``."""

    kinds: Layout
    quick: Layout

    def __call__(self, problem: Problem, node: Array, quick: Array, near: Any) -> tuple[Array, Array, Array]:
        state = self.kinds.tree(node)
        inverses = iter(self.quick.tree(quick))
        state = state._replace(warm=_warm(lambda warm: warm._replace(inverse=next(inverses)), state.warm))
        state = problem.method.next_node(problem.system, _near(problem.clock, near, state.k), state)
        bare, inverses = _parted(state)
        return self.kinds.flat(bare), self.quick.flat(inverses), state.status


@dataclass(frozen=True)
class _Observe:
    """Observables of a node, as vectors."""

    kinds: Layout

    def __call__(self, problem: Problem, node: Array) -> Array:
        found = _observe(problem, self.kinds.tree(node))
        return Layout.of(found).flat(found)


def _parted(state: State) -> tuple[State, list[Any]]:
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


def _near(clock: Clock, near: Any, k: Any) -> Clock:
    """Clock with the controls that a step uses, if they are given at the nodes."""
    return clock if near is None else clock._replace(controls=Near(near, k))


def _begun(problem: Problem, start: Any) -> State:
    system, clock, (g, xi) = problem.system, problem.clock, start
    state = problem.method.first_node(system, clock, g, xi)
    sound = is_start(system, clock.time(0), g, xi, clock.dt)
    return state._replace(status=jnp.where((state.status == 0) & ~sound, np.int32(Result.START), state.status))


def _observe(problem: Problem, state: State) -> dict[str, Any]:
    return observe(problem, state.k, state.g, state.p_plus, state.p_minus)


def _observed(problem: Problem, kinds: Layout, nodes: Array, k: Array, controls: list[Array]) -> dict[str, Array]:
    """Observables of all nodes, each with its own controls."""
    own = [Near(rows[k][:, None], k) for rows in controls]
    arrays, parts = Parts.of(problem._replace(clock=_seeing(problem.clock, *controls)))
    arrays[len(arrays) - 2 * len(own) :] = jax.tree.leaves(own)
    seen = _seen(parts, kinds)
    evaluate = Evaluation(_Observe(kinds), parts, seen.size)
    axes = [None] * (len(arrays) - 2 * len(own)) + [0, 0] * len(own)
    return seen.tree(jax.vmap(evaluate, (axes, 0))(arrays, nodes))


def _seeing(clock: Clock, *controls: Array) -> Clock:
    """Clock with nodal controls at node 0 only, if there are any."""
    return clock._replace(controls=Near(controls[0][:1], jnp.asarray(0))) if controls else clock


@functools.lru_cache(maxsize=128)
def _layouts(parts: Parts, begin: Layout) -> tuple[Layout, Layout]:
    """Layouts of the nodes, and of the auxiliary data that only saves iterations."""
    shapes = jax.eval_shape(
        lambda arrays, x: _parted(_begun(parts.tree(arrays), begin.tree(x))), *_examples(parts, begin)
    )
    return Layout.of(shapes[0]), Layout.of(shapes[1])


@functools.lru_cache(maxsize=128)
def _seen(parts: Parts, kinds: Layout) -> Layout:
    """Layout of the observables."""
    shapes = jax.eval_shape(lambda arrays, x: _observe(parts.tree(arrays), kinds.tree(x)), *_examples(parts, kinds))
    return Layout.of(shapes)


def _examples(parts: Parts, of: Layout) -> tuple[Any, Any]:
    return parts.shapes, jax.ShapeDtypeStruct((of.size,), jnp.float64)

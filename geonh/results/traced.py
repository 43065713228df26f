"""``TracedTrajectory``: nodes of a run as JAX arrays, whose observables are computed when they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64, is_traced
from geonh.engine import Evaluation, Layout, Parts
from geonh.groups.base import Point
from geonh.integrators.base import Problem
from geonh.integrators.clock import NodalControls
from geonh.integrators.validity import Result
from geonh.results.nodes import Node
from geonh.results.observables import Observed, observe

_ARRAYS = ("t", "k", "g", "p_plus", "p_minus", "status", "controls", "arrays")


@functools.partial(jax.tree_util.register_dataclass, data_fields=_ARRAYS, meta_fields=("parts", "timed"))
@dataclass(frozen=True, eq=False, repr=False)
class TracedTrajectory(Observed):
    """Result of ``integrate``: JAX arrays with a leading axis of length N = n_steps // save_every + 1.

    A pytree, so that it may be the result of a function under ``jit`` and ``vmap``; a batch has its axes first. The
    observables are those of ``Trajectory``, under the same names. They are computed when they are read, inside of a
    trace or outside, and have derivatives.

    Attributes
    ----------
    t : array, shape=[N]
        Times, seconds; after a failure, that of the last good node.
    k : array of int, shape=[N]
        Step numbers of the nodes; after a failure, that of the last good node.
    g : point of the group, with a leading axis of length N
        Group elements.
    g_vector : array, shape=[N, size]
        The same, flattened.
    x : base point, with a leading axis of length N
        Base points.
    p_plus, p_minus : array, shape=[N, n]
        Incoming and outgoing momenta.
    status : array of int, shape=[N]
        0 on success; after a failure the entries repeat the last good node and ``status`` holds the ``Result``:
        ``Result.START`` at all nodes for an inconsistent traced start.
    success : array of bool, shape=[]
        True if the run reached its end.
    xi, p : array, shape=[N, n]
        Velocities and average momenta.
    energy, energy_minus, alternation : array, shape=[N]
        Energy at p̃ and at p⁻, joules; and the alternating part of p⁻.
    multipliers, impulse_multipliers, constraint_residual : array, shape=[N, m]
        λ of the constraint force and of the impulse; μξ − b.
    holonomic_residual : array, shape=[N, k]
        φ; k = 0 without holonomic constraints.
    integrals : dict of str to array, shape=[N, …]
        First integrals.
    observables : dict of str to array, shape=[N, …]
        All of them, by name, computed together; each of the others is computed alone.
    controls, arrays, parts, timed : array or None, list of array, Parts, bool
        Controls at the nodes, if they were given there, and the problem, and whether steps differ in length: for the
        observables.
    """

    t: Array
    k: Array
    g: Point
    p_plus: Array
    p_minus: Array
    status: Array
    controls: Array | None
    arrays: list[Array]
    parts: Parts
    timed: bool = False

    @classmethod
    def of(cls, problem: Problem, t: Array, node: Node, status: Array, controls: Array | None) -> TracedTrajectory:
        """Create from nodes, with a leading axis, of a problem, and controls there if they were given at the nodes."""
        impulse = problem.method.guarantees.node == "impulse"  # else one program for all methods
        arrays, parts = Parts.of(problem if impulse else problem._replace(method=None))
        timed = node.t is not None
        t = node.t if timed else t
        return cls(t, node.k, node.g, node.p_plus, node.p_minus, status, controls, arrays, parts, timed)

    @property
    def g_vector(self) -> Array:
        shape = self.status.shape
        return jnp.concatenate([leaf.reshape(*shape, -1) for leaf in jax.tree.leaves(self.g)], axis=-1)

    @property
    def success(self) -> Array:
        return self.status[..., -1] == 0

    @property
    def observables(self) -> dict[str, Any]:  # type: ignore[override]
        observables: dict[str, Any] | None = self.__dict__.get("_observables")
        if observables is None:
            observables = self._read(_observed)
            if not is_traced(observables):
                object.__setattr__(self, "_observables", observables)
        return observables

    def _observable(self, name: str) -> Any:
        """One of the observables, computed alone: its program and its derivatives are shorter than those of all."""
        known: dict[str, Any] = self.__dict__.get("_observables") or self.__dict__.setdefault("_single", {})
        if name in known:
            return known[name]
        value = self._read(functools.partial(_observed, names=(name,)))[name]
        if not is_traced(value):
            known[name] = value
        return value

    @property
    def x(self) -> Any:
        return self._read(_base_points)

    def _read(self, function: Callable[[TracedTrajectory], Any]) -> Any:
        """Value of a function of a run without batch axes, for each run of the batch."""
        for _ in self.status.shape[:-1]:
            function = jax.vmap(function)
        with float64():
            return function(self)

    def __len__(self) -> int:
        return self.status.shape[-1]

    def __repr__(self) -> str:
        batch, name = self.status.shape[:-1], self.parts.tree(self.arrays).system.name
        many = f"a batch of {list(batch)} runs, {len(self)} nodes each" if batch else f"{len(self)} nodes"
        if is_traced(self.status):
            return f"TracedTrajectory of {name}: {many}, traced"
        status = np.asarray(self.status)[..., -1]
        failed = f"{int((status != 0).sum())} of {status.size} failed" if batch else Result(int(status)).name.lower()
        return f"TracedTrajectory of {name}: {many}, as JAX arrays, {failed}"


def _base_points(run: TracedTrajectory) -> Any:
    """Base points of all nodes of a run without batch axes."""
    return jax.vmap(run.parts.tree(run.arrays).system.action.at)(run.g)


def _observed(run: TracedTrajectory, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Observables of all nodes of a run without batch axes, all or those of some names."""
    nodes = Node(run.k, run.g, run.p_plus, run.p_minus, run.t if run.timed else None), run.controls
    layout = Layout.of(jax.eval_shape(lambda: jax.tree.map(lambda a: a[0], nodes)))
    function = _Observe(layout, names)
    observed = _layout(run.parts, function)
    evaluate = Evaluation(function, run.parts, observed.size)
    return observed.tree(jax.vmap(evaluate, (None, 0))(run.arrays, jax.vmap(layout.flat)(nodes)))


@dataclass(frozen=True)
class _Observe:
    """Observables of a node, all or those of some names, as a vector, from the node and the controls there as one."""

    layout: Layout
    names: tuple[str, ...] | None

    def named(self, problem: Problem, vector: Array) -> dict[str, Any]:
        node, u = self.layout.tree(vector)
        clock = problem.clock if u is None else problem.clock._replace(controls=NodalControls(u[None], node.k))
        return observe(problem._replace(clock=clock), node, self.names)

    def __call__(self, problem: Problem, vector: Array) -> Array:
        observables = self.named(problem, vector)
        return Layout.of(observables).flat(observables)


@functools.lru_cache(maxsize=128)
def _layout(parts: Parts, function: _Observe) -> Layout:
    """Layout of the observables."""
    vector = jax.ShapeDtypeStruct((function.layout.size,), jnp.float64)
    shapes = jax.eval_shape(lambda arrays, x: function.named(parts.tree(arrays), x), parts.shapes, vector)
    return Layout.of(shapes)

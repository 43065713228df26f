r"""Feedback: closed loops of any law u(t, g, ξ), and the time-varying linear-quadratic regulator about a motion.

About a motion (g_k, ξ_k, u_k) the error is (log(g_k⁻¹g), ξ − ξ_k), with velocities on D, to which steps lead. With the
exact derivatives of the equations of the intervals, E⁻w_k + E⁺w_{k+1} = 0,

    δ_{k+1} = A_kδ_k + B_kδu_k,   A = −(E⁺_x)⁻¹E⁻_x,   B = −(E⁺_x)⁻¹(E⁻_u + E⁺_u),

for a change of the controls that is constant in a step; the gains minimise Σ h(δᵀQδ + δuᵀRδu) + δ_KᵀQ_Kδ_K.

Source: Anderson, Moore, *Optimal Control: Linear Quadratic Methods* (1990), §2.4; on groups, Saccon, Hauser, Aguiar,
*IEEE Trans. Autom. Control* 58 (2013) 2230.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, refuse_infinite, shortly
from geonh.control.ends import Ends
from geonh.control.guess import interpolated
from geonh.control.interval import Node, between
from geonh.control.optimal import OptimalControl
from geonh.control.phases import as_phases
from geonh.control.steering import default_method, steering_problem
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.control.wanted import Wanted
from geonh.control.wanted import effort as u_squared
from geonh.engine import Precise, as_numbers
from geonh.geometry.action import Action, GroupBase
from geonh.geometry.field import Field, check_arguments, evaluated, tried
from geonh.groups.base import LieGroup, Point, as_point
from geonh.integrators.wiener import Wiener
from geonh.mechanics.system import System, replaced
from geonh.results.trajectory import Trajectory

HOPELESS = 1e20
"""Cost of an error, relative to its weights all along the motion, from which no control is taken to return."""


class _Above(eqx.Module):
    """A user's function of base points, as a function of points of the group, its argument ``place``."""

    function: Callable
    action: Action
    place: int = eqx.field(static=True)

    def __call__(self, *arguments: Any) -> Any:
        x = self.action.at(arguments[self.place])
        return self.function(*arguments[: self.place], x, *arguments[self.place + 1 :])


class _Driven(eqx.Module):
    """Forces under a feedback law."""

    forces: Callable
    law: Callable

    def __call__(self, t: Any, g: Any, xi: Any, _: Any, *parameters: Any) -> Any:
        return self.forces(t, g, xi, evaluated("law", self.law, t, g, xi), *parameters)


@validated
def closed_loop(system: System, law: Callable) -> System:
    """System whose controls are a feedback law, for ``solve``, ``integrate``, ensembles, analysis and exports.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    law : callable
        u(t, g, ξ), traceable, such as ``tracking`` returns.

    Returns
    -------
    System
        With functions of the whole group, since a law depends on the point: otherwise the same.

    Raises
    ------
    TypeError, ValueError
        If the law takes other arguments, or returns a value that the forces do not take; if the system has no forces.

    Examples
    --------
    >>> import geonh as gn
    >>> from geonh.control import closed_loop
    >>> board = gn.systems.controlled_snakeboard()
    >>> held = closed_loop(board, lambda t, g, xi: -2.0 * g[1] - xi[3:])
    >>> run = gn.solve(held, "rkmk4", g0=([0.0, 0.0, 0.0], [0.3, 0.2]), xi0=[0.0] * 5, dt=0.01, n_steps=1000)
    """
    check_arguments(law, "t, g, xi", "law")
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces= that use controls")
    g, xi = system.group.identity(), np.zeros(system.group.dim)
    shape, _ = tried("law", law, 0.0, g, xi)
    more = (system.parameters,) if system.forces_take_parameters else ()
    try:
        with float64():
            jax.eval_shape(system.forces, jnp.zeros(()), system.action.at(g), xi, jnp.zeros(shape), *more)
    except Exception as error:
        raise ValueError(
            f"law returns a value of shape {list(shape)}, which the forces do not take: {error}"
        ) from error
    return _on_the_group(system, system.forces, law)


def _on_the_group(system: System, forces: Callable, law: Callable) -> System:
    """The same system with the group as its base, and forces under a law."""
    action = system.action
    if isinstance(action, GroupBase):
        return replaced(system, forces=_Driven(forces, law))

    def field(leaf: Any) -> Any:
        if not isinstance(leaf, Field) or leaf.function is None:
            return leaf
        return replaced(leaf, function=_Above(leaf.function, action, int(leaf.timed)))

    above = jax.tree.map(field, system, is_leaf=lambda leaf: isinstance(leaf, Field))
    driven = _Driven(_Above(forces, action, 1), law)
    changes: dict[str, Any] = {"action": GroupBase(system.group), "forces": driven}
    if system.lagrangian_function is not None:
        changes["lagrangian_function"] = _Above(system.lagrangian_function, action, int(system.lagrangian_is_timed))
    if system.multiplier_forces is not None:
        function = _Above(system.multiplier_forces.function, action, 1)
        changes["multiplier_forces"] = replaced(system.multiplier_forces, function=function)
    return replaced(above, **changes)


class Tracking(Precise):
    """Feedback law u(t, g, ξ) = u*(t) − K(t)(log(g*(t)⁻¹g), ξ − ξ*(t)) about a motion, cubic between its nodes.

    Attributes
    ----------
    group : LieGroup
        Group of the system.
    t : ndarray, shape=[K + 1]
        Times of the nodes, s.
    g : point of the group, with a leading axis of length K + 1
        Nodes.
    xi, u : ndarray, shape=[K + 1, n] and [K + 1, n_u]
        Velocities and controls at the nodes.
    gains : ndarray, shape=[K + 1, n_u, 2n]
        Gains K.
    cost_to_go : ndarray, shape=[K + 1, 2n, 2n]
        Matrices P of the least cost δᵀPδ from an error on.
    """

    group: LieGroup
    t: np.ndarray
    g: Point
    xi: np.ndarray
    u: np.ndarray
    gains: np.ndarray
    cost_to_go: np.ndarray

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        value = as_point(self.group, value, called) if name == "g" else as_numbers(value, called)
        refuse_infinite(value, called)
        if name == "g":
            return value
        shape = (self.group.dim,) if name == "xi" else ()
        if np.shape(value) != shape:
            raise ValueError(
                f"{called} must have shape {list(shape)}, got {list(np.shape(value))}; for many nodes use jax.vmap"
            )
        return value

    def __call__(self, t: Any, g: Any, xi: Any) -> Array:
        group, count = self.group, len(self.u)
        place = jnp.clip((t - self.t[0]) / (self.t[-1] - self.t[0]) * (count - 1), 0.0, count - 1.0)
        i = jnp.minimum(jnp.floor(place).astype(int), count - 2)
        nodes = Node(self.g, self.xi, self.u)
        low, high = (jax.tree.map(lambda a, j=j: jnp.asarray(a)[j], nodes) for j in (i, i + 1))
        here = between(group, low, high, self.t[1] - self.t[0], place - i)
        error = jnp.concatenate([group.log(group.compose(group.inverse(here.g), g)), xi - here.xi])
        return here.u - interpolated(t, self.t, self.gains) @ error


@validated
def tracking(
    motion: OptimalControl | Trajectory, *, weights: Any = None, effort: Any = None, end_weights: Any = None
) -> Tracking:
    """Time-varying linear-quadratic regulator that holds a system near a motion.

    Parameters
    ----------
    motion : OptimalControl or Trajectory
        Motion to be tracked: an optimal one, or a run with ``controls`` whose nodes are equally spaced.
    weights, end_weights : array_like, shape=[2n] or [2n, 2n], optional
        Q, and Q_K at the end, of errors (log(g*⁻¹g), ξ − ξ*): a matrix or its diagonal; one and Q when left out.
    effort : array_like, shape=[n_u] or [n_u, n_u], optional
        R, of changes of the controls; one when left out.

    Returns
    -------
    Tracking
        To be passed to ``closed_loop``.

    Raises
    ------
    TypeError, ValueError
        If the motion is of another type, or a run without controls or system, or with steps of several lengths; if a
        matrix has another shape, or R is not positive definite.

    References
    ----------
    .. [Saccon2013] A. Saccon, J. Hauser, A. P. Aguiar, "Optimal control on Lie groups: the projection operator
       approach", IEEE Trans. Autom. Control 58 (2013), 2230–2245.
    """
    problem, nodes = _of_run(motion) if isinstance(motion, Trajectory) else _of_optimal(motion)
    n, n_u, K = problem.system.group.dim, problem.steering.n_controls, problem.n_steps
    Q = _weights(weights, "weights", 2 * n)
    R = _weights(effort, "effort", n_u)
    if not np.linalg.eigvalsh(R)[0] > 0:
        raise ValueError(f"effort must be positive definite, got {shortly(effort)}")
    P = Q if end_weights is None else _weights(end_weights, "end_weights", 2 * n)
    E = problem.transitions(nodes)
    m, x = problem.width, 2 * n
    h = nodes.span / K
    gains, costs = [], [P]
    for k, e in reversed(list(enumerate(E))):
        A, B = np.split(
            -np.linalg.solve(e[:, m : m + x], np.hstack([e[:, :x], e[:, x:m] + e[:, m + x : 2 * m]])), [x], 1
        )
        gains.append(np.linalg.solve(h * R + B.T @ costs[-1] @ B, B.T @ costs[-1] @ A))
        closed = A - B @ gains[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            costs.append(h * (Q + gains[-1].T @ R @ gains[-1]) + closed.T @ costs[-1] @ closed)
        if not np.abs(costs[-1]).max() < HOPELESS * (np.abs(P).max() + K * h * np.abs(Q).max()):
            raise ValueError(
                f"motion has an unstable direction that the controls do not change: the least cost of an error grows "
                f"beyond all bounds backwards from its end, at t = {nodes.t0 + k * h:.4g} s; track a shorter motion"
            )
    K_all = np.stack([*gains[::-1], gains[0]])
    times = problem.times(nodes.spans)
    return Tracking(problem.system.group, times, nodes.g, nodes.xi, nodes.u, K_all, np.stack(costs[::-1]))


def _of_optimal(motion: Any) -> tuple[Transcription, DiscreteMotion]:
    """Equations of the steps of an optimal motion, and its nodes."""
    if not isinstance(motion, OptimalControl):
        raise TypeError(f"motion must be an OptimalControl, or a Trajectory, got {shortly(motion)}")
    if len(motion._problem.phases) > 1:
        raise ValueError("motion must be of one system, without phases: the regulator does not switch modes")
    return motion._problem, motion._iterate.motion


def _of_run(run: Trajectory) -> tuple[Transcription, DiscreteMotion]:
    """Equations of steps between the nodes of a run, and these nodes with their controls."""
    if run.modes is not None:
        raise ValueError("motion must be of one system, without modes: the regulator does not switch them")
    if run.system is None or run.clock is None or run.clock.controls is None or isinstance(run.clock.controls, Wiener):
        raise ValueError("motion must be a run that solve made here, with controls=, about which the regulator acts")
    steps, controls = np.diff(run.t), run.clock.controls
    if len(steps) and steps[0] < 0:
        raise ValueError("motion must run forwards: the regulator acts from its start to its end")
    if len(steps) < 2 or not np.allclose(steps, steps.mean(), rtol=1e-9, atol=0.0):
        advice = "take run(np.linspace(run.t[0], run.t[-1], K + 1))" if callable(controls) else "save_every=1"
        raise ValueError(f"motion must have at least three nodes, equally spaced: {advice}")
    at = run.k if run.nodes.t is None else run.t
    with float64():
        u = np.asarray(jax.vmap(run.clock.control if run.nodes.t is None else run.clock.between)(jnp.asarray(at)))
    if u.ndim != 2:
        raise ValueError(f"motion must have controls that are a vector, got those of shape {list(u.shape[1:])}")
    phases = as_phases(run.system, None, run.t[-1] - run.t[0], len(steps))
    method = default_method(run.system)
    ends, wanted = Ends(jax.tree.map(lambda a: a[0], run.g), run.xi[0], None, None), Wanted(cost=u_squared)
    problem = steering_problem(phases, method, ends, wanted, n_controls=u.shape[1], t0=run.t[0])
    spans = np.array([phases[0].span])
    return Transcription.of(phases, method, problem), DiscreteMotion(run.g, run.xi, u, spans, run.t[0])


def _weights(given: Any, name: str, size: int) -> np.ndarray:
    weights = np.ones(size) if given is None else as_float64(given, name)
    if weights.shape not in ((size,), (size, size)):
        raise ValueError(f"{name} must have shape [{size}] or [{size}, {size}], got {list(weights.shape)}")
    return semidefinite(np.diag(weights) if weights.ndim == 1 else weights, name)


def semidefinite(matrix: np.ndarray, name: str) -> np.ndarray:
    """Symmetric matrix, shape=[n, n]; ValueError if it is not one up to rounding, or not positive semidefinite."""
    size = np.abs(matrix).max(initial=0.0)
    if not np.abs(matrix - matrix.T).max(initial=0.0) <= 1e-9 * size:
        raise ValueError(f"{name} must be symmetric, got {shortly(matrix)}")
    symmetric = (matrix + matrix.T) / 2
    if not np.linalg.eigvalsh(symmetric)[0] >= -1e-12 * size:
        raise ValueError(f"{name} must be positive semidefinite, got {shortly(matrix)}")
    return symmetric

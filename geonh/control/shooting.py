r"""Optimal control by single shooting: the controls alone are unknown, and the motion follows from them.

u(t) is linear between knots. A motion from (g₀, ξ₀) under it by any method, in K steps, has a cost and an end,

    J(u) = hΣw_k c(t_k, g_k, u(t_k)),   r(u) = (T log(g₁⁻¹g_K), D(ξ_K − ξ₁)),

with rows T tangent to φ = 0, and D to the constraints, at the given end. SLSQP, trust-constr or Ipopt minimises J
under r = 0 and the bounds, with derivatives that are exact through all steps of the method. There are fewer
unknowns than by transcription, and methods of any order are allowed; but the end depends on the first control through
the whole motion, so transcription is better for an unstable or long one. Where the solver does not converge from the
guess, it restarts from controls that reach the end.

Source: Betts, *Practical Methods for Optimal Control Using Nonlinear Programming* (2010), §3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array, lax

from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_count, as_float64
from geonh.control.asked import Asked, across, asked, limits_of
from geonh.control.programmes import Programme, least, require
from geonh.engine.compiled import mapped
from geonh.geometry.field import evaluated
from geonh.integrators.base import Integrator
from geonh.integrators.node import Clock
from geonh.integrators.registry import made_method
from geonh.integrators.runge_kutta import RKMK
from geonh.mechanics.system import System
from geonh.results.trajectory import Trajectory
from geonh.runs.solve import solve

FAR = 1e10
REACHED = 1e-7
"""Tolerance on the terminal residual, relative to 1 + |ξ|."""
BENDS = 4
"""Maximum number of perturbed guesses;"""
BENT = 0.3
"""displacement of the end by each, to first order, in radians or metres."""


@dataclass(frozen=True)
class Shot:
    """Optimal motion under controls that are piecewise linear between knots.

    Attributes
    ----------
    knots : ndarray, shape=[J]
        Times of the knots, s.
    u : ndarray, shape=[J, n_u]
        Controls at the knots.
    cost : float
        J.
    miss : float
        Largest entry of the terminal residual.
    iterations : int
        Of the solver.
    """

    knots: np.ndarray
    u: np.ndarray
    cost: float
    miss: float
    iterations: int
    _tree: tuple = field(repr=False)

    def __str__(self) -> str:
        span = self.knots[-1] - self.knots[0]
        return (
            f"{self._tree[0].name}: cost {self.cost:.10g} in {span:.6g} s, {len(self.knots)} knots; the end is missed "
            f"by {self.miss:.1e}; {self.iterations} iterations"
        )

    __repr__ = __str__

    def trajectory(self) -> Trajectory:
        """Trajectory of ``solve`` under these controls."""
        system, method, start, n_steps = self._tree[:4]
        knots, u = self.knots, self.u
        return solve(
            system,
            method,
            g0=start[0],
            xi0=start[1],
            t0=knots[0],
            dt=(knots[-1] - knots[0]) / int(n_steps),
            n_steps=int(n_steps),
            controls=lambda t: _between(t, knots, u),
        )


@judged
def shooting_control(
    system: System,
    *,
    end: Any,
    n_controls: int,
    span: float,
    n_steps: int,
    n_knots: int | None = None,
    start: Any = None,
    xi_start: Any = None,
    xi_end: Any = None,
    free: Sequence[str] = (),
    cost: Callable | None = None,
    bounds: tuple[Any, Any] | None = None,
    guess: Any = None,
    method: Integrator | str | None = None,
    solver: str = "slsqp",
    t0: float = 0.0,
    max_iterations: int = 200,
) -> Shot:
    """Controls, linear between knots, that steer a system from one state to another at minimal cost.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    end : point of the group
        Final configuration.
    n_controls, n_steps : int
        Numbers of controls, and of steps.
    span, t0 : float
        Duration, and initial time, s.
    n_knots : int, optional
        Number J of knots, evenly spread; every fourth node when left out.
    start : point of the group, optional
        Initial configuration; the identity when left out.
    xi_start, xi_end : array_like, shape=[n], optional
        Velocities at the ends, as for ``optimal_control``.
    free : sequence of str, optional
        Velocity components whose coordinates need not match those of ``end``.
    cost : callable, optional
        c(t, g, u) or c(t, g, u, parameters) → scalar, as for ``optimal_control``.
    bounds : (lower, upper), optional
        Bounds of the controls, numbers or of shape=[n_u]; imposed at the knots, and so between them.
    guess : array_like or Shot, optional
        Controls at equally spaced times, shape=[…, n_u]; zero when left out.
    method : Integrator or str, optional
        Any method whose controls are a function of time; ``RKMK(4)`` by default.
    solver : str
        As for ``optimal_control``.
    max_iterations : int
        Maximum number of the solver's iterations.

    Returns
    -------
    Shot

    Raises
    ------
    ValueError, TypeError
        For invalid input.
    RuntimeError
        If the end is not reached, or a motion fails during the iteration.
    """
    method = made_method(RKMK() if method is None else method)
    require(solver)
    what = asked(
        system,
        method,
        end=end,
        n_controls=n_controls,
        span=span,
        start=start,
        xi_start=xi_start,
        xi_end=xi_end,
        free=free,
        cost=cost,
        t0=t0,
    )
    n_u, K = what.n_controls, as_count(n_steps, "n_steps", 2)
    J = as_count(max(2, K // 4 + 1) if n_knots is None else n_knots, "n_knots", 2)
    if J > K + 1:
        raise ValueError(f"n_knots must be at most n_steps + 1 = {K + 1}, got {J}: the cost is seen at the nodes only")
    max_iterations = as_count(max_iterations, "max_iterations")
    tree = (
        system,
        method,
        (what.start, what.xi_start),
        np.int64(K),
        what.cost,
        what.cost_takes_parameters,
        np.array([what.t0, what.span]),
        (what.end, what.xi_end, _places(what), what.allowed),
    )
    given = np.zeros((2, n_u)) if guess is None else guess.u if isinstance(guess, Shot) else as_float64(guess, "guess")
    if given.ndim != 2 or given.shape[1] != n_u or len(given) < 2:
        raise ValueError(f"guess must be controls of shape [·, {n_u}], got {list(given.shape)}")
    at = np.linspace(0, 1, J)
    u0 = np.stack([np.interp(at, np.linspace(0, 1, len(given)), column) for column in given.T], axis=1)
    found, missed, iterations = _least(tree, u0, bounds, solver, max_iterations)
    value = _shots(tree, found)[0]
    if not np.isfinite(value[0]):
        raise RuntimeError(f"{system.name}: the cost of the motion found is no finite number, {value[0]}: look at cost")
    return Shot(what.t0 + what.span * at, found, float(value[0]), missed, iterations, tree)


def _places(what: Asked) -> np.ndarray:
    """Rows T of the terminal conditions on positions, tangent to φ = 0, as many as there are independent conditions."""
    n, tangent = what.mu.shape[1], across(what.G)
    held = np.delete(np.eye(n), what.free, axis=0)
    T = held @ tangent.T @ tangent
    T = T[np.linalg.norm(T, axis=1) > 1e-9]
    if not len(T):
        return T
    return np.linalg.svd(T)[2][: np.linalg.matrix_rank(T)]


def _least(tree: tuple, u0: np.ndarray, bounds: Any, solver: str, max_iterations: int) -> tuple[np.ndarray, float, int]:
    """Controls of minimal cost, the largest entry of the terminal residual, and the number of iterations."""
    shape = u0.shape
    kept: dict[bytes, tuple[np.ndarray, np.ndarray, int]] = {}

    def all_of(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        key = z.tobytes()
        if key not in kept:
            kept.clear()
            value, slope, status = _shots(tree, z.reshape(shape))
            # A trial that cannot be integrated is given a cost so large that the solver rejects it.
            kept[key] = np.nan_to_num(value, nan=FAR), np.nan_to_num(slope), status
        return kept[key]

    first, _, status = all_of(u0.ravel())
    if status:
        raise RuntimeError(f"the motion of {tree[0].name} under the guess fails; a shorter span, or more steps, may do")
    scale = max(abs(float(first[0])), 1.0)
    low, high = (-np.inf, np.inf) if bounds is None else limits_of(bounds, shape[1])
    programme = Programme(
        lambda z: all_of(z)[0][0] / scale,
        lambda z: all_of(z)[1][0] / scale,
        lambda z: all_of(z)[0][1:],
        lambda z: scipy.sparse.csr_matrix(all_of(z)[1][1:]),
        *(np.broadcast_to(limit, shape).ravel() for limit in (low, high)),
    )
    iterations, near = 0, REACHED * (1 + np.abs(tree[2][1]).max())
    for begun in (False, True):
        begin = _reaching(programme, u0, near) if begun else u0.ravel()
        z, more = least(programme, begin, solver, max_iterations)
        iterations += more
        value, _, status = all_of(z)
        missed = float(np.abs(value[1:]).max(initial=0.0))
        if not status and missed <= near:
            break
    else:
        raise RuntimeError(
            f"no controls of {tree[0].name} found that reach the end: after {iterations} iterations it is missed by "
            f"{missed:.2g}; another guess, more knots or optimal_control may do"
        )
    return z.reshape(shape), missed, iterations


def _reaching(programme: Programme, u0: np.ndarray, near: float) -> np.ndarray:
    """Controls near a guess that reach the end, from the guess or perturbations of it, as far as some are found.

    By the Levenberg–Marquardt method, for the derivative may be rank deficient: from rest, sideways.
    """
    random, waves = np.random.default_rng(0), np.sin(np.pi * np.outer(np.linspace(0, 1, len(u0)), [0.5, 1.5, 2.5]))
    begin, slope = u0.ravel(), programme.jacobian(u0.ravel())
    for _ in range(BENDS + 1):
        found = scipy.optimize.least_squares(
            programme.equations,
            np.clip(begin, programme.low, programme.high),
            lambda z: programme.jacobian(z).toarray(),
            bounds=(programme.low, programme.high),
            xtol=1e-12,
            gtol=1e-12,
        )
        if np.abs(found.fun).max(initial=0.0) <= near:
            break
        way = (waves @ random.normal(size=(3, u0.shape[1]))).ravel()
        begin = u0.ravel() + BENT * way / max(np.linalg.norm(slope @ way), 1e-3 * np.linalg.norm(way))
    return found.x


def _shots(tree: tuple, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """(J, r), their derivative by all controls, shapes [1 + q] and [1 + q, J·n_u], and the status of the motion."""
    directions = np.eye(u.size).reshape(-1, *u.shape)
    (value, status), slope = mapped(_directional, tree, (np.broadcast_to(u, directions.shape), directions))
    return value[0], np.asarray(slope).T, int(status[0])


def _directional(tree: tuple, node: tuple) -> tuple[tuple, Array]:
    u, direction = node
    zero = jnp.zeros(())
    (value, status), (slope, _) = jax.jvp(lambda s: _shot(tree, u + s * direction), (zero,), (zero + 1.0,))
    return (value, status), slope


def _shot(tree: tuple, u: Array) -> tuple[Array, Array]:
    """(J, r) and the status of a motion."""
    system, method, (g0, xi0), K, price, takes, (t0, span), (g1, xi1, T, D) = tree
    h, knots, more = span / K, t0 + span * np.linspace(0, 1, len(u)), (system.parameters,) if takes else ()
    clock = Clock(t0, h, lambda t: _between(t, knots, u))

    def paid(state: Any) -> Array:
        t = clock.time(state.k)
        return h * evaluated("cost", price, t, state.g, clock.between(t), *more)

    def advance(_: Array, carry: tuple) -> tuple:
        state, total, status = carry
        new = method.next_node(system, clock, state)
        return new, total + paid(new), jnp.where(status == 0, new.status, status)

    state = method.first_node(system, clock, g0, xi0)
    state, total, status = lax.fori_loop(0, K, advance, (state, paid(state) / 2, state.status))
    xi = system.velocity(system.at(state.g, t0 + span), (state.p_plus + state.p_minus) / 2)
    apart = system.group.log(system.group.compose(system.group.inverse(g1), state.g))
    return jnp.concatenate([(total - paid(state) / 2)[None], T @ apart, D @ (xi - xi1)]), status


def _between(t: Any, knots: Any, u: Any) -> Array:
    """u(t), linear between the knots."""
    place = (t - knots[0]) / (knots[-1] - knots[0]) * (len(knots) - 1)
    hats = jnp.clip(1 - jnp.abs(place - np.arange(len(knots))), 0.0, 1.0)
    return hats @ u

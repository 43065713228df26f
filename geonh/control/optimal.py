r"""Optimal control: motions of least cost between given states.

The discrete problem, min J(z) under c(z) = 0, is solved by Newton's method on its KKT equations,

    [[∇²(J + λᵀc), cᵀ'], [c', 0]] (δz, δλ) = −(∇J + c'ᵀλ, c),

sparse, with exact second derivatives, about nodes that move along: g_k ← g_k exp(η_k). λ begins by least squares, and
a step is halved until the residual falls. A guess that is too far is first brought onto c = 0 by shortest steps, and if
that does not do, or with bounds, SLSQP or trust-constr goes before; controls that are at their bounds stay there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from geonh.analysis.subspaces import kernel
from geonh.control.transcription import SOLVERS, Motion, Transcription, limits_of, made_cost
from geonh.groups.base import Point
from geonh.integrators.base import refuse
from geonh.integrators.node import Clock
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.numerics.judging import judged
from geonh.numerics.precision import as_count, as_float64, float64, one_of, shortly
from geonh.solve import solve
from geonh.start import inspect_forces
from geonh.trajectory import Trajectory

HALVINGS = 12
"""A step of Newton's method is halved at most so often."""
EXCHANGES = 20
"""Controls are put to their bounds, or let off, so often at most."""
SADDLES = 6
"""So many saddles are left at most."""
SETTLED = 1e-9
"""A residual of the KKT equations below this, relative to their terms, is zero."""


@dataclass(frozen=True)
class OptimalControl:
    """A motion of least cost.

    Attributes
    ----------
    t : ndarray, shape=[K + 1]
        Times of the nodes, s.
    g : point, leading axis K + 1
        Nodes.
    u : ndarray, shape=[K + 1, n_u]
        Controls at the nodes.
    cost : float
        J.
    residual : float
        Largest entry of the discrete equations, m/s.
    optimality : float
        Largest entry of ∇J + c'ᵀλ, relative to ∇J, among what is free and not at a bound.
    curvature : float
        Least eigenvalue of the second derivative of the cost among neighbours that satisfy the equations: negative at a
        saddle, where Newton's method may end too; else the cost is least among neighbours.
    iterations : int
        Newton's steps; those of SciPy's solver before them are in ``before``.
    before : int
    multipliers : ndarray
        λ of the discrete equations: a warm start.
    """

    t: np.ndarray
    g: Point
    u: np.ndarray
    cost: float
    residual: float
    optimality: float
    curvature: float
    iterations: int
    before: int
    multipliers: np.ndarray
    _problem: Transcription = field(repr=False)

    def __str__(self) -> str:
        return (
            f"{self._problem.system.name}: cost {self.cost:.10g} in {self.t[-1] - self.t[0]:.6g} s, {len(self.t) - 1} "
            f"steps; residual {self.residual:.1e}, optimality {self.optimality:.1e}, {self.iterations} Newton steps"
            + (f" after {self.before} of SciPy's solver" if self.before else "")
        )

    __repr__ = __str__

    def trajectory(self) -> Trajectory:
        """The run of ``solve`` under these controls: the same nodes, with everything that is read from them."""
        p, first = self._problem, jax.tree.map(lambda a: a[0], self.g)
        return solve(
            p.system,
            p.method,
            g0=first,
            xi0=p.xi_start,
            t0=p.t0,
            dt=(self.t[-1] - self.t[0]) / p.n_steps,
            n_steps=p.n_steps,
            controls=self.u,
        )


@judged
def optimal_control(
    system: System,
    *,
    end: Any,
    n_controls: int,
    span: float,
    n_steps: int,
    start: Any = None,
    xi_start: Any = None,
    xi_end: Any = None,
    free: Sequence[str] = (),
    free_span: bool = False,
    cost: Callable | None = None,
    bounds: tuple[Any, Any] | None = None,
    guess: OptimalControl | tuple[Any, Any] | None = None,
    method: SymmetricProjection | None = None,
    solver: str = "slsqp",
    t0: float = 0.0,
    max_iterations: int = 40,
) -> OptimalControl:
    """The controls that bring a system from one state to another at the least cost.

    Parameters
    ----------
    system : System
        With forces(t, x, ξ, u) that use the controls.
    end : point of the group
        Where to.
    n_controls : int
        Number of controls.
    span : float
        How long it lasts, s; a guess if ``free_span``.
    n_steps : int
        K steps; the solution is a run of the method with as many.
    start : point, optional
        Where from; the identity when left out.
    xi_start, xi_end : array_like, shape=[n], optional
        Velocities at the ends, on the constraints; at rest when left out. ``xi_end="free"`` leaves the last one open.
    free : sequence of str, optional
        Velocity components whose coordinates need not be those of ``end``: wheel angles.
    free_span : bool
        Whether the span is to be found too.
    cost : callable, optional
        c(t, g, u) or c(t, g, u, parameters) → scalar, of which J = ∫c dt by the trapezoidal rule; u·u when left out.
    bounds : (lower, upper), optional
        Of the controls, numbers or of shape=[n_u].
    guess : OptimalControl or (points, controls), optional
        A warm start, of any number of steps; nodes with a leading axis K + 1 and controls of shape=[K + 1, n_u]. When
        left out, the shortest way along the group, without controls.
    method : SymmetricProjection, optional
        With other options than its own.
    solver : str
        What goes before Newton's method with bounds, or from a guess that is too far: "slsqp", or "trust-constr",
        SciPy's interior point method, slower with few unknowns, and sparse.
    t0 : float
        When it begins.
    max_iterations : int
        Bound on Newton's steps.

    Returns
    -------
    OptimalControl

    Raises
    ------
    ValueError, TypeError
        For input that does not fit.
    RuntimeError
        If no solution is found: residual and optimality of the last iterate.

    Notes
    -----
    A saddle is left along its direction of negative curvature. The cost found is least among neighbours; that no other
    way is cheaper, nobody knows: try other guesses.
    """
    one_of(solver, "solver", SOLVERS)
    problem = _problem(system, end, n_controls, n_steps, start, xi_start, xi_end, free, free_span, cost, method, t0)
    motion, lam = _guess(problem, system.point(start), system.point(end, name="end"), span, guess)
    limits = None if bounds is None else limits_of(bounds, n_controls)
    held, before = np.zeros(problem.size, bool), 0
    if limits is not None:
        motion, before = _minimised(problem, motion, limits, solver)
        made, held = _within(problem, motion, limits, max_iterations)
    else:
        made = _newton(problem, motion, lam, held, max_iterations)
        if not _solved(made):
            made = _newton(problem, _restored(problem, motion), None, held, max_iterations)
        if not _solved(made):
            motion, before = _minimised(problem, motion, None, solver)
            made = _newton(problem, motion, None, held, max_iterations)
    curvature, made = _descended(problem, made, held, max_iterations) if _solved(made) else (np.nan, made)
    motion, lam, price, residual, optimality, iterations = made
    if not _solved(made):
        raise RuntimeError(
            f"no optimal control of {system.name} found: after {iterations} steps the equations are off by "
            f"{residual:.2g}, the optimality by {optimality:.2g}; another guess, or more steps, may do"
        )
    t = t0 + motion.span / n_steps * np.arange(n_steps + 1)
    return OptimalControl(
        t, motion.g, motion.u, price, residual, optimality, curvature, iterations, before, lam, problem
    )


def _problem(
    system: System,
    end: Any,
    n_controls: int,
    n_steps: int,
    start: Any,
    xi_start: Any,
    xi_end: Any,
    free: Sequence[str],
    free_span: bool,
    cost: Any,
    method: Any,
    t0: float,
) -> Transcription:
    """The problem, tested."""
    method = SymmetricProjection() if method is None else method
    if not isinstance(method, SymmetricProjection):
        raise TypeError(f"method must be a SymmetricProjection, got {type(method).__name__}")
    refuse(method, system)
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces that controls could act by")
    if system.holonomic is not None or system.is_timed:
        why = "holonomic constraints" if system.holonomic is not None else "functions of the time"
        raise ValueError(
            f"{system.name} has {why}: it is not transcribed; write it in coordinates without, or take shooting_control"
        )
    n, names = system.group.dim, system.group.velocity_names
    as_count(n_controls, "n_controls")
    as_count(n_steps, "n_steps", 2)
    unknown = [name for name in free if name not in names]
    if unknown:
        raise ValueError(f"free: {unknown} are not among the velocities {list(names)}")
    g0, g1 = system.point(start, name="start"), system.point(end, name="end")
    at: list[np.ndarray | None] = []
    for name, g, xi in (("xi_start", g0, xi_start), ("xi_end", g1, xi_end)):
        open_end = name == "xi_end" and isinstance(xi, str) and xi == "free"
        value = np.zeros(n) if xi is None or open_end else as_float64(xi, name, (n,))
        with float64():
            gap = float(jnp.max(jnp.abs(system.constraint_residual(system.at(g), jnp.asarray(value))), initial=0.0))
        if gap > 1e-9 * (1 + np.abs(value).max()) and not open_end:
            raise ValueError(f"{name} is off the constraints of {system.name} by {gap:.2g}")
        at.append(None if open_end else value)
    with float64():
        mu = np.asarray(system.annihilator(system.at(g1)))
    rows = kernel(mu, float(np.linalg.norm(mu)) or 1.0).T if at[1] is not None else np.zeros((0, n))
    inspect_forces(system, Clock(0.0, 1.0, np.zeros((2, n_controls))), g0, np.zeros(n))
    price, takes = made_cost(cost, system, n_controls)
    return Transcription(
        system=system,
        method=method,
        xi_start=np.zeros(n) if at[0] is None else at[0],
        arrival=rows,
        arriving=rows @ (np.zeros(n) if at[1] is None else at[1]),
        free=tuple(names.index(name) for name in free),
        free_span=bool(free_span),
        cost=price,
        cost_takes_parameters=takes,
        t0=float(as_float64(t0, "t0", ())),
        n_steps=n_steps,
        n_controls=n_controls,
    )


def _guess(problem: Transcription, g0: Point, g1: Point, span: float, guess: Any) -> tuple[Motion, np.ndarray | None]:
    """A motion to begin with, and its multipliers where they are known."""
    K, group, n_u = problem.n_steps, problem.system.group, problem.n_controls
    span = float(as_float64(span, "span", ()))
    if not span > 0:
        raise ValueError(f"span must be positive, got {span}")
    lam = None
    if guess is None:
        points = jax.tree.map(lambda a, b: np.stack([a, b]), g0, g1)
        controls = np.zeros((2, n_u))
    elif isinstance(guess, OptimalControl):
        points, controls = guess.g, guess.u
        span = float(guess.t[-1] - guess.t[0]) if problem.free_span else span
        lam = guess.multipliers if len(guess.t) == K + 1 else None
    else:
        if not isinstance(guess, list | tuple) or len(guess) != 2:
            raise TypeError(f"guess must be an OptimalControl, or (points, controls), got {shortly(guess)}")
        points, controls = guess
        controls = as_float64(controls, "guess")
        points = jax.tree.map(lambda a: as_float64(a, "guess"), points)
    count = len(controls)
    if controls.shape != (count, n_u) or any(len(a) != count for a in jax.tree.leaves(points)) or count < 2:
        raise ValueError(f"guess must be (points, controls) with as many points as controls of shape [·, {n_u}]")
    place = np.linspace(0.0, count - 1.0, K + 1)
    i = np.minimum(place.astype(int), count - 2)
    s = place - i
    with float64():
        low, high = (jax.tree.map(lambda a, at=at: jnp.asarray(a)[at], points) for at in (i, i + 1))
        step = group.log(group.compose(group.inverse(low), high))
        nodes = jax.tree.map(np.array, group.compose(low, group.exp(s[:, None] * step)))
    for leaf, first, last in zip(*map(jax.tree.leaves, (nodes, g0, g1)), strict=True):
        leaf[0] = first
        if not problem.free:
            leaf[-1] = last
    u = (1 - s)[:, None] * controls[i] + s[:, None] * controls[i + 1]
    size = K * group.dim + len(problem.arrival)
    return Motion(nodes, u, span), lam if lam is not None and len(lam) == size else None


def _newton(
    problem: Transcription, motion: Motion, lam: np.ndarray | None, held: np.ndarray, max_iterations: int
) -> tuple[Motion, np.ndarray, float, float, float, int]:
    """Newton's method on the KKT equations in what is not held."""
    own = np.flatnonzero(~held)

    def parts(motion: Motion) -> tuple:
        c, A = problem.jacobian(motion)
        price, slope, bend = problem.price(motion)
        return c, A[:, own], price, slope[own], bend[own][:, own]

    def left(made: tuple, lam: np.ndarray) -> tuple[np.ndarray, float, float]:
        c, A, _, slope, _ = made
        rest = slope + A.T @ lam
        size = 1e-12 + np.abs(slope).max(initial=0.0) + abs(A.T).dot(np.abs(lam)).max(initial=0.0)
        return np.concatenate([rest, c]), float(np.abs(c).max()), float(np.abs(rest).max(initial=0.0) / size)

    made = parts(motion)
    if lam is None:
        lam = scipy.sparse.linalg.lsmr(made[1].T, -made[3], atol=1e-12, btol=1e-12)[0]
    rest, residual, optimality = left(made, lam)
    scale = 1.0 + float(np.abs(problem.xi_start).max()) + _speed(problem, motion)
    iteration = 0
    while iteration < max_iterations and not (residual < SETTLED * 1e-3 * scale and optimality < SETTLED):
        _, A, _, _, bend = made
        H = bend + problem.bending(motion, lam)[own][:, own]
        kkt = scipy.sparse.bmat([[H, A.T], [A, None]], format="csc")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", scipy.sparse.linalg.MatrixRankWarning)
                step = scipy.sparse.linalg.spsolve(kkt, -rest)
        except (RuntimeError, scipy.sparse.linalg.MatrixRankWarning):
            break
        if not np.all(np.isfinite(step)):
            break
        whole = np.zeros(problem.size)
        for halved in range(HALVINGS):
            part = 0.5**halved
            whole[own] = part * step[: len(own)]
            trial, new_lam = problem.moved(motion, whole), lam + part * step[len(own) :]
            if trial.span <= 0:
                continue
            new = parts(trial)
            found = left(new, new_lam)
            if np.all(np.isfinite(found[0])) and np.linalg.norm(found[0]) < np.linalg.norm(rest):
                break
        else:
            break
        iteration += 1
        motion, lam, made, (rest, residual, optimality) = trial, new_lam, new, found
    return motion, lam, made[2], residual / scale, optimality, iteration


def _descended(problem: Transcription, made: tuple, held: np.ndarray, max_iterations: int) -> tuple[float, tuple]:
    """From saddles down: the least curvature, and the solution where it is not negative, as far as one is found."""
    own = np.flatnonzero(~held)
    for _ in range(SADDLES):
        motion, lam, price = made[:3]
        A = problem.jacobian(motion)[1][:, own]
        H = (problem.price(motion)[2] + problem.bending(motion, lam))[own][:, own]
        values, vectors = scipy.linalg.eigh((basis := scipy.linalg.null_space(A.toarray())).T @ (H @ basis))
        if not len(values):
            return 0.0, made
        if values[0] >= -1e-9 * np.abs(values).max():
            break
        way, lower = np.zeros(problem.size), []
        way[own] = basis @ vectors[:, 0]
        for part in (0.3, -0.3, 1.0, -1.0):
            aside = problem.moved(motion, part * way / np.abs(way).max())
            if held.any() or aside.span <= 0:
                continue
            found = _newton(problem, _restored(problem, aside), None, held, max_iterations)
            if _solved(found) and found[2] < price - 1e-9 * abs(price):
                lower.append(found)
        if not lower:
            break
        made = min(lower, key=lambda found: found[2])
    return float(values[0]), made


def _restored(problem: Transcription, motion: Motion) -> Motion:
    """A motion nearby that satisfies the discrete equations, by shortest steps."""
    for _ in range(30):
        c, A = problem.jacobian(motion)
        kkt = scipy.sparse.bmat([[scipy.sparse.identity(problem.size), A.T], [A, None]], format="csc")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.sparse.linalg.MatrixRankWarning)
            step = scipy.sparse.linalg.spsolve(kkt, np.concatenate([np.zeros(problem.size), -c]))[: problem.size]
        if not np.all(np.isfinite(step)):
            return motion
        for halved in range(HALVINGS):
            trial = problem.moved(motion, 0.5**halved * step)
            if trial.span > 0 and np.linalg.norm(problem.equations(trial)) < np.linalg.norm(c):
                break
        else:
            return motion
        motion = trial
        if np.abs(step).max() < 1e-6:
            return motion
    return motion


def _speed(problem: Transcription, motion: Motion) -> float:
    with float64():
        group = problem.system.group
        low, high = (jax.tree.map(lambda a, part=part: a[part], motion.g) for part in (slice(0, -1), slice(1, None)))
        steps = group.log(group.compose(group.inverse(low), high))
    return float(np.abs(steps).max() * problem.n_steps / motion.span)


def _solved(made: tuple) -> bool:
    return made[3] < SETTLED and made[4] < 1e3 * SETTLED


def _minimised(problem: Transcription, motion: Motion, limits: Any, solver: str) -> tuple[Motion, int]:
    """SciPy's minimum about the nodes of a guess; no error if it does not end, since Newton's method tells."""
    eta, u, span = problem.columns
    low, high = np.full(problem.size, -np.inf), np.full(problem.size, np.inf)
    if limits is not None:
        low[u], high[u] = limits[0] - motion.u, limits[1] - motion.u
    if span >= 0:
        low[span] = -0.9 * motion.span
    scale = max(abs(problem.price(motion)[0]), 1.0)

    def chart(z: np.ndarray) -> Any:
        """The derivative of perturbations at z by those about the guess, block by block."""
        padded = np.append(z, 0.0)[eta]
        with float64():
            blocks = np.asarray(problem.system.group.dexp(jnp.asarray(-padded)))
        rows = np.broadcast_to(eta[:, :, None], blocks.shape)
        columns = np.broadcast_to(eta[:, None, :], blocks.shape)
        kept = (rows >= 0) & (columns >= 0)
        rest = np.setdiff1d(np.arange(problem.size), eta)
        data = np.concatenate([blocks[kept], np.ones(len(rest))])
        at = (np.concatenate([rows[kept], rest]), np.concatenate([columns[kept], rest]))
        return scipy.sparse.csr_matrix((data, at), (problem.size, problem.size))

    def slope(z: np.ndarray) -> Any:
        found = problem.jacobian(problem.moved(motion, z))[1] @ chart(z)
        return found.toarray() if solver == "slsqp" else found

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta_grad")  # of trust-constr, where something is linear
        found = scipy.optimize.minimize(
            lambda z: problem.price(problem.moved(motion, z))[0] / scale,
            np.clip(np.zeros(problem.size), low, high),
            jac=lambda z: chart(z).T @ problem.price(problem.moved(motion, z))[1] / scale,
            bounds=scipy.optimize.Bounds(low, high),
            constraints={
                "type": "eq",
                "fun": lambda z: problem.equations(problem.moved(motion, z)),
                "jac": slope,
            },
            method=solver,
            options={"maxiter": 200, **SOLVERS[solver]},
        )
    return problem.moved(motion, found.x), int(found.nit)


def _within(
    problem: Transcription, motion: Motion, limits: tuple[np.ndarray, np.ndarray], max_iterations: int
) -> tuple[tuple, np.ndarray]:
    """Newton's method with the controls that are at a bound held there, until none wants to leave it, nor to cross."""
    columns = problem.columns[1]
    near = np.where(np.isfinite(limits[1] - limits[0]), 1e-7 * (limits[1] - limits[0]), 1e-9)
    low, high = motion.u <= limits[0] + near, motion.u >= limits[1] - near
    for _ in range(EXCHANGES):
        motion = motion._replace(u=np.where(low, limits[0], np.where(high, limits[1], motion.u)))
        held = np.zeros(problem.size, bool)
        held[columns[low | high]] = True
        made = _newton(problem, motion, None, held, max_iterations)
        motion, lam = made[:2]
        pull = (problem.price(motion)[1] + problem.jacobian(motion)[1].T @ lam)[columns]
        rounding = SETTLED * (1.0 + np.abs(pull).max())
        stay_low, stay_high = low & (pull > -rounding), high & (pull < rounding)
        new_low, new_high = stay_low | (motion.u < limits[0] - near), stay_high | (motion.u > limits[1] + near)
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return made, held
        low, high = new_low, new_high
    raise RuntimeError(f"no optimal control of {problem.system.name} within the bounds found; another guess may do")

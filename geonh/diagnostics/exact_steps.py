r"""Exact discrete steps: the exponential map of the constrained motion, its inverse, and the exact discrete Lagrangian.

The motion of length h from (x, ξ), ξ ∈ D(x), ends at x·W: W = exp_h(x, ξ). These W are the exact discrete constraint at
x, a submanifold of the dimension of D(x) in the group (all of it near the identity, without constraints), on which

    l_d(x, W) = ∫₀ʰ ℓ dt

along the motion is the exact discrete Lagrangian. With the variation η of the motion, a field along it that begins at
zero, δl_d = ⟨p₁, η₁⟩ − ∫₀ʰ λ·μη dt. So without constraints its Legendre transforms are the momenta at both ends, and
the motion solves the discrete Euler–Lagrange equations of l_d. With them the reactions do work on variations, which do
not lie in D: the motion is that of l_d with the discrete forces ∫λ·μη dt, which l_d alone does not determine.

Sources: McLachlan, Perlmutter, *Integrators for nonholonomic mechanical systems*, J. Nonlinear Sci. 16 (2006); Anahory
Simoes, Marrero, Martín de Diego, *Exact discrete Lagrangian mechanics for nonholonomic mechanics*, Numer. Math. 151
(2022); without constraints: Marsden, West, Acta Numerica 10 (2001), §1.6.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_float64
from geonh.engine import computed, mapped
from geonh.groups.base import Point
from geonh.integrators.runge_kutta import RKMK
from geonh.mechanics.holonomic import refuse_holonomic
from geonh.mechanics.system import System
from geonh.runs.loop import IntegrationError
from geonh.runs.solve import solve

NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
"""Gauss's quadrature in each step."""
STEPS = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of steps of order 8, tried until the result does not change."""
RESOLVED = 1e-8
"""Such a change below which the motion is resolved, so that an error is of rounding where it falls no more."""
ROUNDING = 5e-15
"""Change relative to 1 and the size of the result at which it has converged."""
DIFFERENCE = 1e-4
"""Step of the central differences of the exponential, relative to 1 and the size of the velocity."""
ITERATIONS = 30
"""Largest number of iterations of the inverse."""
ON_CONSTRAINT = 1e-10
"""Distance of W from the exact discrete constraint, relative to 1 and its size, that counts as zero."""


class ExactStep(NamedTuple):
    """Motion of a given length.

    Attributes
    ----------
    W : point of the group
        Increment g₀⁻¹g₁.
    xi0, xi1 : ndarray, shape=[n]
        Velocities at both ends.
    lagrangian : float
        l_d = ∫₀ʰ ℓ dt, joule seconds.
    error : float
        Estimated error of these, by the change at the last halving of steps, relative to 1 and their size.
    """

    W: Point
    xi0: np.ndarray
    xi1: np.ndarray
    lagrangian: float
    error: float


@validated
def exact_step(system: System, *, xi0: Any, g0: Any = None, dt: float, t0: float = 0.0) -> ExactStep:
    """Exponential map of the constrained motion, with the exact discrete Lagrangian, to rounding.

    Parameters
    ----------
    system : System
        Without constraints on positions; forces take no controls, ``control.closed_loop`` has them as a law.
    xi0 : array_like, shape=[n]
        Velocity, on the constraints at g0.
    g0 : point of the group, optional
        Configuration; the identity when left out.
    dt : float
        Length h, s, negative for a motion back in time; so short that 128 steps of order 8 resolve the motion.
    t0 : float
        Time, s.

    Returns
    -------
    ExactStep

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, a shape does not fit, or the state is off the constraints; for constraints on
        positions; if 128 steps do not resolve the motion.
    IntegrationError
        If the motion fails.

    References
    ----------
    .. [McLachlan2006] R. McLachlan, M. Perlmutter, "Integrators for nonholonomic mechanical systems", Journal of
       Nonlinear Science 16 (2006), 283–328.
    .. [AnahorySimoes2022] A. Anahory Simoes, J. C. Marrero, D. Martín de Diego, "Exact discrete Lagrangian mechanics
       for nonholonomic mechanics", Numerische Mathematik 151 (2022), 49–98.
    """
    refuse_holonomic(system, "an exact discrete step")
    h = float(as_constant(dt, "dt"))
    before, change = None, np.inf
    for n_steps in _counts(system, xi0, h):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of steps too long, which the comparison tells
                found = _motion(system, xi0, g0, h, t0, n_steps)
        except IntegrationError:
            if n_steps == STEPS[-1]:
                raise
            before, change = None, np.inf
            continue
        flat = np.concatenate([*map(np.ravel, _entries(found[0])), *found[1:]])
        if before is not None:
            new = float(np.max(np.abs(flat - before) / (1 + np.abs(flat))))
            if new <= ROUNDING or RESOLVED > new > 0.5 * change:  # rounding, or no more to gain
                change = min(new, change)
                break
            change = new
        before = flat
    if not change < RESOLVED:
        raise ValueError(
            f"dt = {h:g} is too long for {system.name}: the motion still changes by {change:.2g} between "
            f"{STEPS[-2]} and {STEPS[-1]} steps; lower dt"
        )
    return ExactStep(found[0], found[1], found[2], float(found[3][0]), change)


@validated
def exact_discrete_lagrangian(system: System, W: Any, *, g0: Any = None, dt: float, t0: float = 0.0) -> ExactStep:
    """Exact discrete Lagrangian at an increment: the motion from g₀ to g₀W in the time h, by the inverse of
    ``exact_step``.

    The solution of the boundary value problem is the one near ξ = log(W)/h, for h and W that are not too large.

    Parameters
    ----------
    system : System
        Without constraints on positions, and with linear or affine ones.
    W : point of the group
        Increment, on the exact discrete constraint at g0.
    g0 : point of the group, optional
        As for ``exact_step``.
    dt, t0 : float
        As for ``exact_step``.

    Returns
    -------
    ExactStep

    Raises
    ------
    TypeError, ValueError
        As for ``exact_step``; if W is not on the exact discrete constraint, with its distance, or the iteration does
        not converge.

    References
    ----------
    .. [AnahorySimoes2022] A. Anahory Simoes, J. C. Marrero, D. Martín de Diego, "Exact discrete Lagrangian mechanics
       for nonholonomic mechanics", Numerische Mathematik 151 (2022), 49–98.
    """
    refuse_holonomic(system, "an exact discrete step")
    if W is None:
        raise TypeError(f"W must be a point of {system.group}, got None")
    if system.is_nonlinear:
        raise ValueError(f"{system.name} has constraints nonlinear in the velocity, for which this is not implemented")
    group, h = system.group, float(as_constant(dt, "dt"))
    g, W = system.point(g0), system.point(W, name="W")
    if h == 0:
        raise ValueError("dt must not be zero")
    guess = np.asarray(computed(_logarithm, group, W)) / h
    xi = np.asarray(system.project(g, guess, t0))
    known = system.with_rank_at(g, t0)
    rows = np.asarray(computed(_rows, known, (g, np.float64(t0))))
    along = np.linalg.svd(rows)[2][len(rows) :] if len(rows) else np.eye(group.dim)

    def missed(xi: np.ndarray) -> tuple[ExactStep, np.ndarray]:
        step = exact_step(system, xi0=xi, g0=g, dt=h, t0=t0)
        return step, np.asarray(computed(_missing, group, (W, step.W)))

    small = DIFFERENCE * (1 + np.abs(xi).max())
    slopes = [(missed(xi + small * row)[1] - missed(xi - small * row)[1]) / (2 * small) for row in along]
    step, miss = missed(xi)
    size, best = np.inf, (step, miss)
    for _ in range(ITERATIONS):
        change = np.linalg.lstsq(np.stack(slopes, axis=1), miss, rcond=None)[0] @ along
        if not np.abs(change).max() < 0.9 * size:  # rounding, or divergence
            break
        size, best = float(np.abs(change).max()), (step, miss)
        step, miss = missed(xi := xi - change)
    step, miss = best
    scale = 1 + abs(h) * np.abs(step.xi0).max()
    if not size < ON_CONSTRAINT * scale / abs(h):
        raise ValueError(f"no motion of {system.name} from g0 to g0·W in dt = {h:g} was found: take a nearer W")
    if np.abs(miss).max() > ON_CONSTRAINT * scale:
        raise ValueError(
            f"W is not on the exact discrete constraint of {system.name} at g0: the nearest motion of length "
            f"dt = {h:g} misses it by {np.abs(miss).max():.2g}"
        )
    return step


def _counts(system: System, xi0: Any, h: float) -> list[int]:
    """Numbers of steps in which ξ₀ turns the body by less than a radian each."""
    turn = abs(h) * float(system.group.turn(as_float64(xi0, "xi0", (system.group.dim,))))
    counts = [n for n in STEPS if turn < n]
    if len(counts) < 2:
        raise ValueError(f"dt = {h:g} is too long for {system.name}: xi0 turns the body by {turn:.3g} rad; lower dt")
    return counts


def _motion(
    system: System, xi0: Any, g0: Any, dt: float, t0: float, n_steps: int
) -> tuple[Point, np.ndarray, np.ndarray, np.ndarray]:
    """W, velocities at both ends, and l_d, shape=[1], by steps of order 8."""
    run = solve(system, RKMK(8), xi0=xi0, g0=g0, dt=dt / n_steps, n_steps=n_steps, t0=t0)
    middles, half = (run.t[:-1] + run.t[1:]) / 2, np.diff(run.t) / 2
    inner = run((middles[:, None] + half[:, None] * NODES).ravel())
    values = np.asarray(mapped(_lagrangian, system, (inner.t, inner.g, inner.xi))).reshape(n_steps, -1)
    first, last = ([a[i] for a in _entries(run.g)] for i in (0, -1))
    ends = (tuple(first), tuple(last)) if isinstance(run.g, tuple) else (first[0], last[0])
    W = computed(_increment, system.group, ends)
    return W, run.xi[0], run.xi[-1], np.array([half @ (values @ WEIGHTS)])


def _entries(g: Point) -> tuple:
    return g if isinstance(g, tuple) else (g,)


def _lagrangian(system: System, node: tuple) -> Array:
    t, g, xi = node
    return system.lagrangian(system.at(g, t), xi)


def _increment(group: Any, ends: tuple[Point, Point]) -> Point:
    return group.compose(group.inverse(ends[0]), ends[1])


def _logarithm(group: Any, W: Point) -> Array:
    return group.log(W)


def _missing(group: Any, pair: tuple[Point, Point]) -> Array:
    """log(W⁻¹V), shape=[n]."""
    return group.log(_increment(group, pair))


def _rows(system: System, node: tuple) -> Array:
    """Rows of the constraints, shape=[m, n]."""
    g, t = node
    x = system.at(g, t)
    return jnp.asarray(system.holding(x).annihilator(x))

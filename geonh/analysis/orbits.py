r"""Periodic orbits by shooting: found, followed in a parameter, and their Floquet multipliers.

An orbit is periodic up to the symmetries that the system's base knows: x(T) = x(0) and ξ(T) = ξ(0), while
g(T) = s·g(0) with s in the group (a wobbling body has turned, a gait has moved). Unknown are the place g₀exp(η), the
velocity, and the period T; each step of Newton's method is the shortest one that solves the linear conditions, so what
is free (the place on the orbit, symmetric copies, a family of orbits) stays as it was guessed.

An orbit of a reversible system is symmetric if it meets twice the set Fix of states that the reversal leaves as they
are: then only half of it is shot, from Fix to Fix (Lamb, Roberts, *Physica D* 112 (1998) 1).

Over one period a perturbation (η, δ) in the linear constraints becomes 𝓜(η, δ), in the frame that moves with the body,
so that the turning s does not matter. The eigenvalues of 𝓜 are the Floquet multipliers. Those that are 1 on any orbit
of the kind (shift along it, symmetries, neighbours in a family) are peeled off as the zeros of 𝓜 − 1, by kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.flow import Shooting, Shot, shot
from geonh.analysis.subspaces import peeled, span
from geonh.geometry.field import check_arguments, evaluated, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.node import Result
from geonh.integrators.runge_kutta import RKMK, Gauss
from geonh.mechanics.system import System
from geonh.numerics.judging import judged
from geonh.numerics.precision import as_count, as_float64, as_part, float64, shortly
from geonh.start import made_drive

FREE = 1e-8
"""Directions whose singular values are below this, relative, are free: the shift along an orbit, a family."""
HALVINGS = 10
"""A step that makes the conditions worse is halved at most so often."""


@dataclass(frozen=True)
class PeriodicOrbit:
    """A periodic orbit.

    Attributes
    ----------
    g, xi : point of the group, ndarray of shape=[n]
        Where it begins.
    period : float
        T, s.
    displacement : point of the group
        s = g(T)g(0)⁻¹: how the body has moved after a period.
    multipliers : ndarray, shape=[q − trivial ones]
        Floquet multipliers on the linear constraints, complex, by decreasing modulus, without those taken out as 1.
    trivial : tuple of int
        Jordan blocks at 1 of a length ≥ 1, 2, … that were taken out.
    monodromy : ndarray, shape=[q, q]
        𝓜 in an orthonormal basis of the perturbations that satisfy the linear constraints; its columns are ``tangent``.
    tangent : ndarray, shape=[2n, q]
        That basis, of perturbations (η, δ).
    residual : float
        Largest entry of the conditions.
    iterations : int
        Newton's steps.
    parameter, value : str, float
        What it was followed in, and where; "" and nan if it was not.
    """

    g: Point
    xi: np.ndarray
    period: float
    displacement: Point
    multipliers: np.ndarray
    trivial: tuple[int, ...]
    monodromy: np.ndarray
    tangent: np.ndarray
    residual: float
    iterations: int
    parameter: str = ""
    value: float = float("nan")
    _shooting: Any = field(default=None, repr=False, compare=False)

    @property
    def stable(self) -> bool:
        """Whether no multiplier exceeds 1 in modulus (by more than 1e-6)."""
        return bool(np.all(np.abs(self.multipliers) <= 1 + 1e-6))

    def __str__(self) -> str:
        roots = ", ".join(f"{m.real:.6g}{m.imag:+.6g}i" if m.imag else f"{m.real:.6g}" for m in self.multipliers)
        where = f", {self.parameter} = {self.value:.6g}" if self.parameter else ""
        return f"period {self.period:.9g} s{where}, multipliers {roots or 'all 1'}"

    __repr__ = __str__


@judged
def periodic_orbit(
    system: System,
    g: Any,
    xi: Any,
    period: float,
    *,
    returns: Callable | None = None,
    fixed: Callable | None = None,
    conditions: Callable | None = None,
    method: Integrator | None = None,
    n_steps: int = 200,
    t0: float = 0.0,
    controls: Callable | None = None,
    tol: float = 1e-11,
    max_iterations: int = 30,
) -> PeriodicOrbit:
    """Find a periodic orbit near a guess.

    Parameters
    ----------
    system : System
        The system.
    g : point of the group, or None for the identity
        Guess of the beginning.
    xi : array_like, shape=[n]
        Guess of the velocity there; it is projected onto the constraints.
    period : float
        Guess of the period, s.
    returns : callable, optional
        r(g₀, ξ₀, g_T, ξ_T) → array, what must vanish after a period, in ``jax.numpy``. When left out, x(T) − x(0) and
        ξ(T) − ξ(0): periodic up to the symmetries of the base. An angle of the base that makes a turn needs its own.
    fixed : callable, optional
        c(g, ξ) → array that vanishes on the states that a reversal of the system leaves as they are: then the orbit is
        symmetric, and shot over half its period.
    conditions : callable, optional
        c(g, ξ, T, parameters) → array of further conditions c = 0: an energy, an amplitude, a period.
    method : Integrator, optional
        Whose orbit it is, one whose node is a velocity; ``RKMK(6)`` when left out, ``Gauss(3)`` with holonomic
        constraints.
    n_steps : int
        Steps to a period; even for a symmetric orbit.
    t0, controls : float, callable
        Where the time begins and u(t). Of equations that depend on time T must be pinned by ``conditions``.
    tol : float
        Bound on the conditions, relative to their derivatives.
    max_iterations : int
        Bound on the steps.

    Returns
    -------
    PeriodicOrbit

    Raises
    ------
    ValueError, TypeError
        For input that does not fit.
    RuntimeError
        If none is found: what is left, after how many steps.

    Notes
    -----
    Derivatives are exact, by forward mode through the method's steps. A function of module level whose numbers are
    parameters compiles once.
    """
    shooting, g, xi = _shooting(system, g, xi, returns, fixed, conditions, method, n_steps, t0, controls, "")
    parts = 1 if fixed is None else 2
    begin = np.concatenate([np.zeros(2 * system.group.dim), [as_float64(period, "period", ()) / parts, 0.0]])
    if not begin[-2]:
        raise ValueError(f"period must not be zero, got {period}")
    found = _newton(shooting, (g, xi), begin, np.zeros((0, len(begin))), tol, max_iterations)
    return _orbit(*found, shooting, parts)


@judged
def continue_orbit(
    system: System,
    orbit: PeriodicOrbit,
    parameter: str,
    *,
    step: float,
    n_orbits: int,
    limits: tuple[float, float] = (-np.inf, np.inf),
    tol: float = 1e-11,
) -> list[PeriodicOrbit]:
    """Follow a periodic orbit in a parameter of the system, through folds too.

    Parameters
    ----------
    system : System
        The system of the orbit, with the value of the parameter at which it was found.
    orbit : PeriodicOrbit
        The first one.
    parameter : str
        Name of a scalar among ``system.parameters``.
    step : float
        Length of a step along the curve of (η, δ, T, parameter), made shorter where Newton's method fails and longer
        where it is quick; its sign is the way in which the parameter goes at first.
    n_orbits : int
        How many to find.
    limits : (float, float)
        Values of the parameter that end the curve.
    tol : float
        As of ``periodic_orbit``.

    Returns
    -------
    list of PeriodicOrbit
        The first one and those after it, each with its ``value``.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        For a parameter that is none.
    RuntimeError
        If not even short steps succeed; the orbits so far are in ``.orbits``.

    Notes
    -----
    The predictor is tangent to the curve, the corrector the shortest step: pseudo-arclength continuation (Keller 1977)
    in the form of Gauss and Newton, which takes the curve of orbits whatever else is free.
    """
    if parameter not in system.parameters or np.shape(system.parameters[parameter]) != ():
        raise ValueError(f"parameter must be a number among {list(system.parameters)}, got {parameter!r}")
    as_count(n_orbits, "n_orbits")
    if not as_float64(step, "step", ()):
        raise ValueError("step must not be zero")
    known = isinstance(limits, list | tuple | np.ndarray) and len(limits) == 2
    if not known or not all(isinstance(v, int | float | np.number) for v in limits) or not limits[0] <= limits[1]:
        raise ValueError(f"limits must be two values of the parameter, the lower first, got {shortly(limits)}")
    shooting = orbit._shooting._replace(system=system, parameter=parameter)
    parts, value = orbit._shooting.returns.parts, float(system.parameters[parameter])
    n = system.group.dim
    begin = np.concatenate([np.zeros(2 * n), [orbit.period / parts, value]])
    place, z, made, _ = _newton(shooting, (orbit.g, orbit.xi), begin, np.eye(2 * n + 2)[-1:], tol, 30)
    orbits = [_orbit(place, z, made, 0, shooting, parts)]
    tangent, length = np.sign(step) * np.eye(2 * n + 2)[-1], abs(as_float64(step, "step", ()))
    shortest = length / 2**HALVINGS
    while len(orbits) < n_orbits and limits[0] <= orbits[-1].value <= limits[1]:
        new_tangent = _tangent(made.slope, tangent)
        try:
            guess = np.concatenate([np.zeros(2 * n), z[2 * n :]]) + length * new_tangent
            found = _newton(shooting, place, guess, new_tangent[None], tol, 8)
        except RuntimeError as error:
            length /= 2
            if length < shortest:
                error.orbits = orbits  # type: ignore[attr-defined]
                error.add_note("geonh: the orbits found so far are in the error's .orbits")
                raise
            continue
        place, z, made, iterations = found
        tangent, length = new_tangent, length * (1.3 if iterations < 5 else 1.0)
        length = min(length, abs(step))
        orbits.append(_orbit(place, z, made, iterations, shooting, parts))
    return orbits


class _Returns:
    """What must vanish at the end: hashable by what it is made of, so that it compiles once."""

    def __init__(self, function: Callable | None, fixed: Callable | None) -> None:
        self.function, self.fixed = function, fixed
        self.parts = 1 if fixed is None else 2

    def __hash__(self) -> int:
        return hash((self.function, self.fixed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Returns) and (self.function, self.fixed) == (other.function, other.fixed)

    def __call__(self, system: System, g: Point, xi: Array, after: Point, xi_after: Array) -> Array:
        if self.fixed is not None:
            both = [evaluated("fixed", self.fixed, g, xi), evaluated("fixed", self.fixed, after, xi_after)]
        elif self.function is not None:
            both = [evaluated("returns", self.function, g, xi, after, xi_after)]
        else:
            both = [jax.tree.map(jnp.subtract, system.action.at(after), system.action.at(g)), xi_after - xi]
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(jnp.asarray(a, float)) for a in jax.tree.leaves(both))])


def _shooting(
    system: System,
    g: Any,
    xi: Any,
    returns: Any,
    fixed: Any,
    conditions: Any,
    method: Any,
    n_steps: int,
    t0: float,
    controls: Any,
    parameter: str,
) -> tuple[Shooting, Point, np.ndarray]:
    """What is shot, tested, and the guess."""
    if method is None:
        method = RKMK(6) if system.holonomic is None else Gauss(3)
    refuse(method, system)
    if method.guarantees.node != "velocity":
        raise ValueError(
            f"method must be one whose node is a velocity, such as RKMK(6) or Gauss(2), not {type(method).__name__}"
        )
    if returns is not None and fixed is not None:
        raise TypeError("give returns= or fixed=, not both")
    for name, value in (("returns", returns), ("fixed", fixed), ("conditions", conditions)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, got {value!r}")
    _inspect(system, returns, fixed, conditions)
    parts = 1 if fixed is None else 2
    if as_count(n_steps, "n_steps") % parts:
        raise ValueError(f"n_steps must be even for a symmetric orbit, got {n_steps}")
    t0 = as_float64(t0, "t0", ())
    place = system.project_position(system.point(g, on_group=False, name="g"), t0)
    found = system.project(place, as_float64(xi, "xi", (system.group.dim,)), t0)
    start = place, np.asarray(found if system.holonomic is None else found[1])
    controls = made_drive(system, controls, *start)
    count = np.int64(n_steps // parts)
    made = Shooting(system, method, controls, t0, count, _Returns(returns, fixed), conditions, parameter)
    return made, *start


def _inspect(system: System, returns: Any, fixed: Any, conditions: Any) -> None:
    """Trace the user's functions once and raise for what they must not do."""
    with float64():
        g = jax.tree.map(np.asarray, system.group.identity())
        xi = np.zeros(system.group.dim)
        given = (
            ("returns", returns, "g0, xi0, g1, xi1", (g, xi, g, xi)),
            ("fixed", fixed, "g, xi", (g, xi)),
            ("conditions", conditions, "g, xi, T, parameters", (g, xi, np.float64(1.0), system.parameters)),
        )
        for name, function, words, arguments in given:
            if function is not None:
                check_arguments(function, words, name)
                shape, by_data = tried(name, function, *arguments)
                if by_data:
                    raise ValueError(
                        f"{name} reads an array at an index that depends on data, in which it has no slope"
                    )
                if 0 in shape:
                    raise ValueError(f"{name} gives no number at all")


def _newton(
    shooting: Shooting, place: tuple, z: np.ndarray, orthogonal: np.ndarray, tol: float, max_iterations: int
) -> tuple[tuple[Point, np.ndarray], np.ndarray, Shot, int]:
    """Place (g, ξ), z = (0, 0, T, a) and derivatives at a solution, from (g₀exp(η), ξ₀ + δ, T, a) as a guess.

    Steps are orthogonal to given directions, and leave the parameter alone where there is none.
    """
    system, n = shooting.system, shooting.system.group.dim
    as_count(max_iterations, "max_iterations")
    tol = as_part(tol, "tol")
    held = orthogonal if shooting.parameter else np.eye(2 * n + 2)[-1:]

    def at(place: tuple, z: np.ndarray) -> tuple[tuple, np.ndarray, Shot]:
        with float64():
            g = system.group.project(system.group.compose(place[0], system.group.exp(jnp.asarray(z[:n]))))
        g, xi = jax.tree.map(np.asarray, g), place[1] + z[n : 2 * n]
        made = shot(shooting, g, xi, float(z[2 * n]), float(z[2 * n + 1]))
        rest = np.concatenate([np.zeros(2 * n), z[2 * n :]])
        return (jax.tree.map(np.asarray, made.start[0]), np.asarray(made.start[1])), rest, made

    place, z, made = at(place, z)
    for iteration in range(max_iterations + 1):
        if made.status or not np.all(np.isfinite(made.slope)):
            raise RuntimeError(f"the motion of {system.name} ends on the way: {_why(made)}")
        size = float(np.abs(made.residual).max(initial=0.0))
        if size <= tol * (1.0 + float(np.linalg.norm(made.slope))):
            return place, z, made, iteration
        rows = np.concatenate([made.slope, held * np.linalg.norm(made.slope)])
        right = np.concatenate([-made.residual, np.zeros(len(held))])
        step = np.linalg.lstsq(rows, right, rcond=FREE)[0]
        for halved in range(HALVINGS):
            trial = at(place, z + 0.5**halved * step)
            fine = trial[2].status == 0 and np.all(np.isfinite(trial[2].slope))
            if fine and np.linalg.norm(trial[2].residual) < np.linalg.norm(made.residual):
                break
        else:
            break
        place, z, made = trial
    raise RuntimeError(
        f"no periodic orbit of {system.name} found near the guess: the conditions are off by {size:.3g} after "
        f"{iteration} steps, at period {z[2 * n] * shooting.returns.parts:.6g} s"
    )


def _why(made: Shot) -> str:
    return Result(made.status).message if made.status else "its derivatives are not finite"


def _tangent(slope: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The unit vector nearest to the last tangent in which the conditions do not change."""
    _, values, rows = np.linalg.svd(slope)
    free = rows[int(np.sum(values > FREE * values[0])) :]
    tangent = free.T @ (free @ before)
    return tangent / np.linalg.norm(tangent)


def _orbit(place: tuple, z: np.ndarray, made: Shot, iterations: int, shooting: Shooting, parts: int) -> PeriodicOrbit:
    """The orbit, shot once more over the whole period for its multipliers where only half of it was."""
    system, n = shooting.system, shooting.system.group.dim
    whole, period = made, float(z[2 * n]) * parts
    if parts == 2:
        double = shooting._replace(n_steps=np.int64(2 * shooting.n_steps))
        whole = shot(double, *place, period, float(z[-1]))
    T = span(whole.start_slope[:, : 2 * n])
    monodromy = T.T @ whole.end_slope[:, : 2 * n] @ np.linalg.pinv(whole.start_slope[:, : 2 * n], rcond=1e-10) @ T
    trivial, basis = peeled(monodromy - np.eye(len(monodromy)))
    rest = np.linalg.svd(basis.T)[2][basis.shape[1] :] if basis.shape[1] else np.eye(len(monodromy))
    found = np.linalg.eigvals(rest @ monodromy @ rest.T) if len(rest) else np.zeros(0)
    found = found[np.argsort(-np.abs(found), kind="stable")].astype(complex)
    with float64():
        group = system.group
        displacement = jax.tree.map(np.asarray, group.compose(whole.end[0], group.inverse(place[0])))
    return PeriodicOrbit(
        *place,
        period,
        displacement,
        found,
        trivial,
        monodromy,
        T,
        float(np.abs(made.residual).max(initial=0.0)),
        iterations,
        shooting.parameter,
        float(z[-1]) if shooting.parameter else float("nan"),
        shooting,
    )


__all__: Sequence[str] = ["PeriodicOrbit", "continue_orbit", "periodic_orbit"]

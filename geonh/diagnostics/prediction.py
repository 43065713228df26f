r"""Changes of energy and first integrals that a method will cause, and the growth of alternating momenta, before a run.

With the modified field f̃ of the method and the field f of the equations, a quantity I changes along the method's nodes
by ∫(dI·f̃ − dI·f) dt more than along the motion; to leading order in h the integral is along the motion itself. Along a
reversible orbit it vanishes for a reversible method (Modin, Verdier, Numer. Math. 145 (2020)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, one_of
from geonh.diagnostics.modified import Start, advanced, at_one_state, modified_fields, motion_rates, with_fixed_steps
from geonh.engine import mapped
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.registry import as_method
from geonh.integrators.runge_kutta import Gauss
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.runs.controls import refuse_random
from geonh.runs.solve import solve
from geonh.runs.start import as_start


@dataclass(frozen=True)
class PredictedDrift:
    """Changes of energy and first integrals that a method will cause along a motion; returned by ``predicted_drift``.

    Attributes
    ----------
    t : ndarray, shape=[S]
        Times, seconds.
    changes : mapping of str to ndarray, shape=[S, …]
        Changes since the start that the method causes, to leading order in h, of ``energy``, ``energy_minus`` (at p⁻)
        and each first integral. The energy at p̃ is left out where a part of p⁻ alternates: it depends on that part.
    errors : mapping of str to float
        Estimated errors of the quadrature, by every second time.
    growth : ndarray, shape=[S]
        Largest factor by which an alternating part of p⁻ grows up to each time; 1 for methods without such a part.
    """

    t: np.ndarray
    changes: Mapping[str, np.ndarray]
    errors: Mapping[str, float]
    growth: np.ndarray

    @validated
    def slope(self, name: str = "energy") -> np.ndarray:
        """Mean change per second of a quantity, by least squares, shape=[…]; ValueError for an unknown name."""
        one_of(name, "name", self.changes)
        values = self.changes[name].reshape(len(self.t), -1)
        fit = np.polyfit(self.t - self.t[0], values, 1)[0]
        return fit.reshape(self.changes[name].shape[1:])

    def __str__(self) -> str:
        lines = [
            f"{name}: change of up to {np.abs(change).max():.2e} ± {self.errors[name]:.0e} in {np.ptp(self.t):g} s, "
            f"slope {np.abs(self.slope(name)).max():.1e} per second"
            for name, change in self.changes.items()
        ]
        if self.growth.max() > 1:
            lines.append(f"alternating part of p⁻: grows by a factor of up to {self.growth.max():.2g}")
        return "\n".join(lines)


@validated
def predicted_drift(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float,
    n_steps: int,
    t0: float = 0.0,
    controls: Any = None,
    samples: int = 200,
) -> PredictedDrift:
    """Change of energy and first integrals that a method will cause in a run, before it is made: ∫dE·f̃ dt.

    The integral is along the motion, computed by ``Gauss(3)`` with the same steps.

    Parameters
    ----------
    system : System
    method : Integrator or str, optional
        The method, or its name in ``methods``; the default of ``solve`` when left out.
    xi0 : array_like, shape=[n]
        Velocity at the start, on the constraints at g0.
    g0 : point of the group, optional
        The start; the identity when left out.
    dt : float
        Step, s.
    n_steps : int
        Number of steps of the run.
    t0 : float
        Initial time, s.
    controls : callable, optional
        u(t) in ``jax.numpy``.
    samples : int
        Number of intervals of the quadrature, at most ``n_steps``.

    Returns
    -------
    PredictedDrift

    Raises
    ------
    TypeError, ValueError
        As ``modified_field``; for fewer than four steps or samples.
    IntegrationError
        If the motion cannot be computed up to the end.
    """
    refuse_random(controls)
    chosen = with_fixed_steps(as_method(method, controls))
    n_steps, samples = as_count(n_steps, "n_steps"), as_count(samples, "samples")
    if min(n_steps, samples) < 4:
        raise ValueError(f"n_steps and samples must be at least 4, got {n_steps} and {samples}")
    every = max(n_steps // samples, 1)
    run = solve(
        system,
        Gauss(3),
        xi0=xi0,
        g0=g0,
        dt=dt,
        n_steps=n_steps - n_steps % every,
        t0=t0,
        controls=controls,
        save_every=every,
    )
    problem = Problem(run.bound_system, chosen, Clock(np.float64(t0), np.float64(dt), controls))
    states = jax.tree.map(np.asarray, Start(run.t, run.g, run.xi))
    of_motion = mapped(motion_rates, problem, states)[1]
    defects = {name: rate - of_motion[name] for name, rate in modified_fields(problem, states).rates.items()}
    alternates = _alternates(chosen, system)
    if alternates:
        del defects["energy"]
    changes = {name: _integral(run.t, rate) for name, rate in defects.items()}
    errors = {
        name: float(np.abs(changes[name][::2] - _integral(run.t[::2], rate[::2])).max())
        for name, rate in defects.items()
    }
    growth = _growth(run.t, _alternation_generators(problem, states)) if alternates else np.ones(len(run.t))
    return PredictedDrift(np.asarray(run.t), changes, errors, growth)


@validated
def alternation_rates(
    system: System, method: Integrator | str, *, xi0: Any, g0: Any = None, dt: float, t0: float = 0.0
) -> np.ndarray:
    """Growth rates of the part of p⁻ that alternates in sign, at a state: log of the eigenvalues of the two-step map.

    The sum of their real parts tends to the rate at which the motion contracts the phase space as dt → 0
    (mathematics.md §6).

    Parameters
    ----------
    system : System
    method : Integrator or str
        A method whose node is an impulse, such as ``GNI``.
    xi0 : array_like, shape=[n]
        Velocity, on the constraints at g0.
    g0 : point of the group, optional
        Configuration; the identity when left out.
    dt : float
        Step, s.
    t0 : float
        Time, s.

    Returns
    -------
    ndarray of complex, shape=[m]
        1/s, by decreasing real part; of m independent forms. None for a method without such a part.

    Raises
    ------
    TypeError, ValueError
        As ``modified_field``.
    """
    chosen = with_fixed_steps(as_method(method))
    if not _alternates(chosen, system):
        return np.zeros(0, complex)
    problem, states = at_one_state(system, chosen, as_start(system, chosen, xi0, g0, dt, t0, 1, None))
    rates = np.linalg.eigvals(_alternation_generators(problem, states)[0])
    return rates[np.argsort(-rates.real)]


def _alternates(method: Integrator, system: System) -> bool:
    """True if a part of the method's p⁻ alternates in sign on the system."""
    return method.guarantees.node == "impulse" and system.distribution is not None


def _integral(t: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Integral of a function of time from its values, up to each time, by a cubic spline."""
    return scipy.interpolate.CubicSpline(t, rates).antiderivative()(t)


def _alternation_generators(problem: Problem, states: Start) -> np.ndarray:
    """Matrices A of ċ = A c for the alternating part c of p⁻ at many states, shape=[S, m, m].

    In covectors of the constraints that are orthonormal for M⁻¹.
    """
    matrices, status = mapped(_after_two_steps, problem, states)
    if np.any(status):
        raise ValueError(f"dt = {float(problem.clock.dt):g}: {Result(int(status.max())).message}")
    return np.stack([scipy.linalg.logm(matrix) for matrix in matrices]) / (2 * float(problem.clock.dt))


def _growth(t: np.ndarray, generators: np.ndarray) -> np.ndarray:
    """Norm of the fundamental matrix of ċ = A(t)c at each time, by the exponential midpoint rule, shape=[S]."""
    product, norms = np.eye(generators.shape[1]), [1.0]
    for span, before, after in zip(np.diff(t), generators, generators[1:], strict=False):
        product = scipy.linalg.expm(span * (before + after) / 2) @ product
        norms.append(float(np.linalg.norm(product, 2)))
    return np.array(norms)


def _after_two_steps(problem: Problem, start: Start) -> tuple[Array, Array]:
    """Derivative of the alternating part of p⁻ after two steps by that before, shape=[m, m], and the status."""
    system, method, clock = problem.system, problem.method, problem.clock.starting(start.t)
    first = method.first_node(system, clock, start.g, start.xi)
    rows = system.split_forms(system.at(first.g, clock.time(0)))[1].rows

    def after(c: Array) -> tuple[Array, Array]:
        push = rows.T @ c
        pushed = first._replace(p_plus=first.p_plus - push, p_minus=first.p_minus + push)
        end = advanced(Problem(system, method, clock), pushed, 2)
        lifts = system.split_forms(system.at(end.g, clock.time(2)))[1].lifts
        return lifts @ (end.p_minus - end.p_plus) / 2, end.status

    return jax.jacfwd(after, has_aux=True)(jnp.zeros(len(rows)))

r"""Baselines for comparison: explicit Runge–Kutta methods in ambient coordinates.

The constrained equations (mathematics.md §2) with the multiplier eliminated are an ODE for (g, ξ), g as the entries
of a point (rotation matrices 3×3). Fixed steps of the classical method of order 4 or of Dormand and Prince's of
order 5; then, optionally, g is projected onto the group, ξ onto the constraint (M-orthogonally), and ξ scaled to the
initial energy (Hairer, Lubich, Wanner 2006, §IV.4); with ξ, g is projected onto holonomic constraints as well. Or
Baumgarte's stabilisation, μξ̇ + μ̇ξ − ḃ = −γ(μξ − b) (Comput. Methods Appl. Mech. Eng. 1 (1972)).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.arguments.validators import as_constant, one_of
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Guarantees, Integrator, Outcome, State
from geonh.integrators.tableaux import EXPLICIT, explicit_step
from geonh.mechanics.equations import accelerations
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System

SCHEMES = {name: EXPLICIT[name] for name in ("rk4", "dormand-prince")}
PROJECTIONS = ("none", "constraint", "energy")


class Target(NamedTuple):
    """Memory of the projection onto the energy: the energy at the start, joules."""

    energy: Array


class RungeKutta(Integrator):
    """Explicit Runge–Kutta method on the constrained equations: a baseline.

    Parameters
    ----------
    scheme : str
        "rk4" or "dormand-prince" (fixed steps).
    project : str
        "none", "constraint" (point projected onto the group, velocity onto the constraint) or "energy" (that, and the
        velocity scaled to the initial energy).
    baumgarte : float
        Rate γ, 1/s, at which a constraint violation decays, for dt > 0; γ·dt must be below the scheme's limit of
        stability, 2.78 or 3.3.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these.

    References
    ----------
    .. [Hairer1993] E. Hairer, S. P. Nørsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd ed.,
       Springer (1993); §II.1, §II.5.
    .. [Dormand1980] J. R. Dormand, P. J. Prince, "A family of embedded Runge–Kutta formulae", Journal of
       Computational and Applied Mathematics 6 (1980), 19–26.
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       §IV.4 on projection.
    .. [Baumgarte1972] J. Baumgarte, "Stabilization of constraints and integrals of motion in dynamical systems",
       Computer Methods in Applied Mechanics and Engineering 1 (1972), 1–16.
    """

    scheme: str = eqx.field(static=True)
    project: str = eqx.field(static=True)
    baumgarte: float = eqx.field(static=True)
    holds = Target
    holds_constants = True

    def __init__(self, scheme: str = "rk4", project: str = "none", baumgarte: float = 0.0):
        scheme = one_of(scheme, "scheme", SCHEMES)
        project = one_of(project, "project", PROJECTIONS)
        if not 0 <= as_constant(baumgarte, "baumgarte") < float("inf"):
            raise ValueError(f"baumgarte must be a rate ≥ 0 in 1/s, got {baumgarte}")
        self.scheme, self.project, self.baumgarte = scheme, project, float(baumgarte)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=SCHEMES[self.scheme][1],
            implicit=False,
            constraint="none" if self.project == "none" else "nodes",
            energy="projected" if self.project == "energy" else "never",
            affine=self.project != "energy",
            multiplier_forces=self.project != "energy",
            nonlinear=self.project != "energy",
            reference="Hairer, Nørsett, Wanner 1993, §II.1, II.5; Baumgarte 1972",
        )

    def refuse(self, system: System) -> None:
        steady = not (system.is_affine or system.is_timed)
        if self.project == "energy" and not (steady and system.is_quadratic and system.forces is None):
            raise ValueError(
                f"the energy of {system.name} cannot be restored by scaling ξ: that needs ℓ = ½ξᵀMξ − V(x), linear "
                "constraints, no forces and nothing that depends on the time; use project='constraint'"
            )

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        if self.baumgarte and dt < 0:
            raise ValueError(f"Baumgarte's term repels backwards in time: dt must be > 0, got {dt}, or baumgarte=0")
        limit = SCHEMES[self.scheme][2]
        if self.baumgarte * dt > limit:
            raise ValueError(
                f"Baumgarte's term with baumgarte = {self.baumgarte:g} is too fast for dt = {dt:g}: {self.scheme} is "
                f"stable for dt·baumgarte < {limit:g}; lower baumgarte or dt below {limit / self.baumgarte:.2g}"
            )

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        return (dt > 0) & (self.baumgarte * dt <= SCHEMES[self.scheme][2]) if self.baumgarte else True

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        outcome, x = super().init(system, clock, g0, xi0), system.at(g0, clock.time(0))
        return (
            outcome._replace(memory=Target(system.energy(x, outcome.p_minus))) if self.project == "energy" else outcome
        )

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        group = system.group
        start = group.to_vector(state.g)
        xi0 = system.velocity(system.at(state.g, clock.time(state.k)), state.p_minus)

        def slope(c: float, at: Array) -> Array:
            t = clock.time(state.k + c)
            return self._slope(system, t, at[: start.size], at[start.size :], clock.between(t))

        end = explicit_step(slope, SCHEMES[self.scheme][0], clock.dt, jnp.concatenate([start, xi0]))
        g, xi, t, converged = (
            group.from_vector(end[: start.size]),
            end[start.size :],
            clock.time(state.k + 1),
            jnp.asarray(True),
        )
        if self.project != "none":
            g, converged = onto(system, group.project(g), t)
            xi = system.projected_velocity(system.at(g, t), xi)
        x = system.at(g, t)
        if self.project == "energy":
            kinetic = 0.5 * xi @ system.mass_matrix(x) @ xi
            wanted = state.memory.energy - system.potential_energy(x)
            moves = kinetic > 0
            xi = xi * jnp.sqrt(jnp.where(moves, wanted / jnp.where(moves, kinetic, 1.0), 1.0))
        p = system.momentum(x, xi)
        return Outcome(g, p, p, state.memory, converged=converged, xi=xi)

    def _slope(self, system: System, t: Array, position: Array, xi: Array, u: object) -> Array:
        g = system.group.from_vector(position)
        rate = accelerations(system, t, g, xi, u)[0]
        if self.baumgarte:
            rate = rate - self.baumgarte * (xi - system.projected_velocity(system.at(g, t), xi))
        return jnp.concatenate([system.group.to_vector(system.group.left_tangent(g, xi)), rate])

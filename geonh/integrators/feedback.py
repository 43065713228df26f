r"""Feedback integrators: the extended system off the constraint, and its attraction back, by any ODE solver.

Off the constraint the system is continued to the whole of G × g* (mathematics.md §4). With forms μ(x), e = M⁻¹μᵀ,
C = (μM⁻¹μᵀ)⁻¹ and c = μM⁻¹p = ⟨p, e⟩, the extended Hamiltonian and its vector field are

    h̃(x, p) = ½⟨p, M⁻¹p⟩ + V(x) − ½cᵀCc,
    ġ = g η,   η = ∂h̃/∂p,   ṗ = ad*_η p − ρ*∂_x h̃ + f + μᵀCλ̃,   λ̃ = {h̃, c}:  ċ = 0,

for which h̃ (without forces) and c are first integrals everywhere; T*Q, T*G and T*G × T*X are the cases M = G = Rⁿ, M a
point, and M the shape. Subtracting ∇V of a function

    V = k₀ defect(g) + (k₁/2)(cᵀc + φᵀφ) + (k₂/2)(h̃ − h̃₀)² + Σ(k_i/2)|I_i − I_i0|²

of first integrals leaves the motion on V = 0 as it is and attracts to it, the rotations as matrices near the group too
(defect = ¼‖RᵀR − 1‖²). Holonomic constraints φ are first integrals of the extended system, as η satisfies Gη = 0. The
forms are made orthonormal, as in the paper, or taken as they are (its Remark 2.4).

The theory asks that V⁻¹([0, c]) be compact and hold no other critical points of V (often not so: positions are
unbounded), and the solver must be stable: for Euler's, kh‖∇I‖² < 2. The latter is checked at each node.

Source: Chang, Perlmutter, *Feedback integrators for nonholonomic mechanical systems*, J. Nonlinear Sci. 29 (2019),
eqs. 6, 10, 17, 24, 28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import orthonormal_forms, pivots, saddle
from geonh.arguments.validators import as_constant, as_flag, shortly
from geonh.engine import SIDE_BY_SIDE, batch_of_one, jacobian, mapped
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Guarantees, Integrator, Outcome, State
from geonh.integrators.tableaux import EXPLICIT, explicit_step
from geonh.integrators.validity import Result
from geonh.mechanics.system import System

ROUNDING = 1e-9
"""Relative tolerance of the traced limit, so that what ``refuse_start`` admits is admitted there."""
BUILT_IN = ("group", "constraint", "energy")


class Targets(NamedTuple):
    """Memory of the feedback: the first integrals at the start, in one vector."""

    values: Array


class Feedback(Integrator):
    """Feedback integrator.

    Parameters
    ----------
    gains : float or mapping
        k for "group", "constraint" and "energy" together, or a gain for each of these names and of the system's
        first integrals; names not listed have none. 1/(unit of the integral)² s⁻¹.
    solver : str or diffrax.AbstractSolver
        "euler", "rk4", "dormand-prince", or a solver of diffrax, stepped with fixed dt.
    orthonormal : bool
        True to orthonormalise the forms first, as in the paper; if not, they are taken as given (Remark 2.4).

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit, and a dt too long for the
        gains.

    References
    ----------
    .. [Chang2019] D. E. Chang, M. Perlmutter, "Feedback integrators for nonholonomic mechanical systems", Journal
       of Nonlinear Science 29 (2019), 1165–1204; eqs. 6, 10, 17, 24, 28.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    gains: tuple[float, ...] = eqx.field(static=True)
    solver: Any = eqx.field(static=True)
    orthonormal: bool = eqx.field(static=True)
    holds = Targets
    holds_constants = True

    def __init__(
        self, gains: float | Mapping[str, float] = 100.0, solver: Any = "euler", *, orthonormal: bool = True
    ) -> None:
        if isinstance(solver, str) and solver not in EXPLICIT:
            raise ValueError(f"solver must be one of {list(EXPLICIT)} or a solver of diffrax, got {shortly(solver)}")
        if not isinstance(solver, str) and not hasattr(solver, "term_structure"):
            raise TypeError(f"solver must be one of {list(EXPLICIT)} or a solver of diffrax, got {shortly(solver)}")
        chosen = dict(gains) if isinstance(gains, Mapping) else dict.fromkeys(BUILT_IN, gains)
        for name, gain in chosen.items():
            if not as_constant(gain, f"gains of {name!r}") >= 0:
                raise ValueError(f"gains of {name!r} must be numbers ≥ 0, got {shortly(gain)}")
        self.names, self.gains = tuple(chosen), tuple(float(k) for k in chosen.values())
        self.solver, self.orthonormal = solver, as_flag(orthonormal, "orthonormal")

    @property
    def guarantees(self) -> Guarantees:
        order = EXPLICIT[self.solver][1] if isinstance(self.solver, str) else int(self.solver.order(None) or 1)
        return Guarantees(
            order=order,
            implicit=False,
            constraint="none",
            affine=False,
            reference="Chang, Perlmutter 2019, eqs. 6, 10, 17, 24, 28",
        )

    def refuse(self, system: System) -> None:
        if not system.is_quadratic:
            raise ValueError(f"Feedback is for ℓ = ½ξᵀMξ − V(x); {system.name} has a general Lagrangian")
        if system.is_affine:
            raise ValueError(f"Feedback is for linear constraints; those of {system.name} are affine: use GNI or Gauss")
        if system.is_timed:
            raise ValueError(f"Feedback is for systems that do not depend on the time; {system.name} does: use Gauss")
        unknown = [name for name in self.names if name not in (*BUILT_IN, *system.first_integrals)]
        if unknown:
            known = [*BUILT_IN, *system.first_integrals]
            raise ValueError(f"{system.name} has no first integral {unknown[0]!r} to feed back; it has {known}")
        if system.forces is not None and self._gain("energy"):
            raise ValueError(f"the energy of {system.name} is not kept (it has forces): leave 'energy' out of gains")

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        """Raise ValueError if dt times the fastest rate of the feedback exceeds the stability limit, or dt < 0.

        g0 is a point of the group, xi0 of shape=[n].
        """
        if dt < 0:
            raise ValueError(f"Feedback attracts forwards in time only, and repels backwards: dt must be > 0, got {dt}")
        if not isinstance(self.solver, str):
            return
        stiffness, limit = self.stiffness(system, g0, xi0), EXPLICIT[self.solver][2]
        if abs(dt) * stiffness > limit:
            raise ValueError(
                f"the gains are too large for dt = {dt:g}: the feedback acts at up to {stiffness:.3g} 1/s here, and "
                f"{self.solver} is stable for dt·rate < {limit:g}; lower the gains or dt below {limit / stiffness:.2g}"
            )

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        """True if dt > 0 and dt·λ ≤ limit for every eigenvalue λ of ∇²V: limit·1 − dt·∇²V has positive pivots."""
        return (dt > 0) & self._is_stable(system, dt, self._start(system, g0, xi0))

    def stiffness(self, system: System, g0: Point, xi0: Array) -> float:
        """Fastest rate of attraction at a start on the constraints, 1/s: the spectral radius of ∇²V; xi0, shape=[n]."""
        node = batch_of_one((g0, xi0))
        return float(np.linalg.eigvalsh(mapped(_hessian_at, (self, system), node)[0]).max())

    def _is_stable(self, system: System, dt: Array, z: Array, excess: float = 1.0) -> Array | bool:
        """True if dt·λ ≤ excess·limit at z for every eigenvalue λ of ∇²V; of a solver of diffrax no limit is known."""
        if not isinstance(self.solver, str):
            return True
        hessian = lax.stop_gradient(_hessian(self, system, z))
        limit = (excess + ROUNDING) * EXPLICIT[self.solver][2]
        return jnp.all(pivots(limit * jnp.eye(len(hessian)) - dt * hessian) > 0)

    # --- the extended system -------------------------------------------------------------------------------
    def forms(self, system: System, x: Any) -> Array:
        """Forms μ(x), orthonormalised for M⁻¹ if ``orthonormal``, shape=[m, n]."""
        mu = system.holding(x).annihilator(x)
        return orthonormal_forms(system.mass_matrix(x), mu, jnp.zeros(len(mu))).rows if self.orthonormal else mu

    def constraint_momenta(self, system: System, x: Any, p: Array) -> Array:
        """Constraint momenta c = μM⁻¹(p − π₀), shape=[m], of a momentum of shape=[n]."""
        return self.forms(system, x) @ system.velocity(x, p)

    def hamiltonian(self, system: System, x: Any, p: Array) -> Array:
        """h̃(x, p), joules, a scalar: the energy of the velocity's part along the constraint; p of shape=[n]."""
        kinetic = p - system.momentum_at_rest(x)
        tangent = saddle(system.mass_matrix(x), mu := self.forms(system, x), kinetic, jnp.zeros(len(mu)))[0]
        return 0.5 * kinetic @ tangent + system.potential_energy(x)

    def field(self, system: System, t: Array, z: Array, u: Any = None) -> Array:
        """Extended vector field at z = (g as a vector, p), shape=[size + n], as z."""
        group, action = system.group, system.action
        g, p = self._split(system, z)
        x = action.at(g)
        eta = jax.grad(lambda p: self.hamiltonian(system, x, p))(p)
        rate = group.ad_star(eta, p) - action.coanchor(lambda x: self.hamiltonian(system, x, p), x)
        rate = rate + system.force(t, x, eta, u)
        mu, moving = self.forms(system, x), (action.anchor(x, eta), rate)
        turning = jax.jvp(lambda x, p: self.constraint_momenta(system, x, p), (x, p), moving)[1]
        rate = rate + mu.T @ saddle(system.mass_matrix(x), mu, jnp.zeros_like(rate), -turning)[1]
        return jnp.concatenate([group.to_vector(group.left_tangent(g, eta)), rate])

    # --- the feedback --------------------------------------------------------------------------------------
    def lyapunov(self, system: System, z: Array, targets: Array) -> Array:
        """V at z = (g as a vector, p), shape=[size + n], a scalar; ``targets`` are the first integrals at the start."""
        group, (g, _) = self._gain("group"), self._split(system, z)
        value = group * system.group.defect(g) if group else jnp.zeros(())
        return value + 0.5 * jnp.sum(self._defects(system, z, targets) ** 2)

    def _defects(self, system: System, z: Array, targets: Array) -> Array:
        """Terms of V = ½Σ(·)² without the group part: c, φ and the integrals, times roots of their gains."""
        defects = [np.sqrt(self._weights(system)) * (self._integrals(system, z) - targets)]
        if self._gain("constraint"):
            g, p = self._split(system, z)
            x, root = system.action.at(g), np.sqrt(self._gain("constraint"))
            defects += [root * self.constraint_momenta(system, x, p), root * system.holonomic_residual(x)]
        return jnp.concatenate(defects)

    def _integrals(self, system: System, z: Array) -> Array:
        """Vector of h̃ and the chosen first integrals."""
        g, p = self._split(system, z)
        x = system.action.at(g)
        integrals = [self.hamiltonian(system, x, p)[None]] if self._gain("energy") else []
        for name in self.names:
            if name not in BUILT_IN:
                function = system.first_integrals[name].function
                value = function(g, system.velocity(x, p), p, system.parameters)
                integrals.append(jnp.ravel(jnp.asarray(value, dtype=float)))
        return jnp.concatenate([*integrals, jnp.zeros(0)])

    def _weights(self, system: System) -> np.ndarray:
        """Gain of each entry of ``_integrals``."""
        weights = [self._gain("energy")] if self._gain("energy") else []
        e, zero = system.group.identity(), jnp.zeros(system.group.dim)
        for name in self.names:
            if name not in BUILT_IN:
                value = jax.eval_shape(system.first_integrals[name].function, e, zero, zero, system.parameters)
                weights += [self._gain(name)] * int(np.prod(value.shape))
        return np.array(weights)

    def _gain(self, name: str) -> float:
        return dict(zip(self.names, self.gains, strict=True)).get(name, 0.0)

    def _split(self, system: System, z: Array) -> tuple[Point, Array]:
        n = system.group.dim
        return system.group.from_vector(z[:-n]), z[-n:]

    def _start(self, system: System, g0: Point, xi0: Array) -> Array:
        return jnp.concatenate([system.group.to_vector(g0), system.momentum(system.action.at(g0), xi0)])

    # --- stepping ------------------------------------------------------------------------------------------
    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        targets = Targets(self._integrals(system, self._start(system, g0, xi0)))
        return super().init(system, clock, g0, xi0)._replace(memory=targets)

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        z = jnp.concatenate([system.group.to_vector(state.g), state.p_minus])
        stable = self._is_stable(system, clock.dt, z, EXCESS)

        def slope(c: Any, z: Array) -> Array:
            t = clock.time(state.k + c)
            attraction = jax.grad(lambda z: self.lyapunov(system, z, state.memory.values))(z)
            return self.field(system, t, z, clock.between(t)) - attraction

        if isinstance(self.solver, str):
            z = explicit_step(slope, EXPLICIT[self.solver][0], clock.dt, z)
        else:
            z = _diffrax_step(self.solver, slope, clock.dt, z)
        g, p = self._split(system, z)
        return Outcome(g, p, p, state.memory, status=jnp.where(stable, 0, np.int32(Result.GAINS)))


def _hessian_at(tree: tuple, node: tuple) -> Array:
    """``_hessian`` of a method and a system at a start."""
    method, system = tree
    return _hessian(method, system, method._start(system, *node))


def _hessian(method: Feedback, system: System, z: Array) -> Array:
    """Hessian ∇²V at z, where the defects are zero: from their first derivatives, and the group part."""
    targets = method._integrals(system, z)
    slopes = jacobian(lambda z: method._defects(system, z, targets), z, together=SIDE_BY_SIDE)
    hessian, gain, size = slopes.T @ slopes, method._gain("group"), len(z) - system.group.dim
    if not gain:
        return hessian
    curved = jax.hessian(lambda g: system.group.defect(system.group.from_vector(g)))(z[:size])
    return hessian.at[:size, :size].add(gain * curved)


def _diffrax_step(solver: Any, slope: Any, h: Array, z: Array) -> Array:
    """One step of a diffrax solver, in units of the step."""
    import diffrax

    terms = diffrax.ODETerm(lambda c, z, _: h * slope(c, z))
    state = solver.init(terms, 0.0, 1.0, z, None)
    return solver.step(terms, 0.0, 1.0, z, None, state, made_jump=False)[0]


EXCESS = 1.1
"""Factor of the stability limit at which a run ends: a brief excess below it is harmless."""

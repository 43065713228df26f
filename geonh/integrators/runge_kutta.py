r"""Runge–Kutta methods on G × Rʳ in quasi-velocities: Munthe-Kaas, commutator-free, and Gauss.

**Runge–Kutta–Munthe-Kaas** (Munthe-Kaas 1999, and with any retraction Iserles et al., *Lie-group methods*, Acta
Numerica 9 (2000), §4): with g = g_k τ(σ) the reconstruction ġ = gξ becomes σ̇ = dτ_{−σ}⁻¹ ξ, and the classical
method of order p is applied to (σ, y). dτ⁻¹ is in closed form, so nothing is truncated.

**Commutator-free, order 4** (Celledoni, Marthinsen, Owren, *Commutator-free Lie group methods*, FGCS 19 (2003)): with
K_i = hξ(stage i), written for left trivialisation,

    g₂ = g exp(½K₁), g₃ = g exp(½K₂), g₄ = g₂ exp(K₃ − ½K₁),
    g' = g exp((3K₁ + 2K₂ + 2K₃ − K₄)/12) exp((−K₁ + 2K₂ + 2K₃ + 3K₄)/12).

**Gauss**, s stages, order 2s, symmetric: the collocation method in the chart σ ↦ cτ(σ) centred in the middle of the
step,

    g_k = cτ(−δ),   g_{k+1} = cτ(δ),   σ_i = −δ + hΣ_j a_ij σ̇_j,   δ = (h/2)Σ_j b_j σ̇_j,   c = g_k τ(δ),
    ξ_i = dτ_{−σ_i}σ̇_i = ξ_k + hΣ_j a_ij ẇ_j,   ξ_{k+1} = ξ_k + hΣ_j b_j ẇ_j     modulo the normals of D at c,

with ẇ = ξ̇ and the constraint at the stages, solved for the hσ̇_j, which determine ξ_j and hẇ = a⁻¹(ξ_i − ξ_k).
Centred so, the equations are symmetric and independent of the steps before, so the energy error of a reversible
system stays bounded. With one stage it is the implicit midpoint rule g_{k+1} = g_k τ(hξ/2)², which may be
composed to any even order.

Holonomic constraints φ = 0 are kept by projection. The explicit methods project at the end of the step, along the
normals there, and then project the velocity. Gauss's projection is symmetric: the step leads from g_kτ(s) to
g_{k+1}τ(s)⁻¹, with the same shift s, normal to φ = 0 in the centre c, so that φ(g_{k+1}) = 0 (Hairer, Lubich, Wanner
2006, §V.4.1). Velocities need no shift, since they are defined modulo the normals at c.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from geonh.algebra.constrained import has_small_null_space, shifted
from geonh.algebra.linear import apart
from geonh.algebra.newton import Newton, make_newton, near_identity
from geonh.arguments.validators import one_of
from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import (
    Clock,
    Equations,
    Guarantees,
    ImplicitIntegrator,
    Integrator,
    Outcome,
    RetractingIntegrator,
    State,
    Warm,
)
from geonh.integrators.hamel import velocity_node
from geonh.integrators.prediction import continued, followed_by, repeated
from geonh.integrators.tableaux import (
    BUTCHER6,
    DORMAND_PRINCE,
    DORMAND_PRINCE_8,
    EMBEDDED,
    GAUSS,
    RK4,
    estimated,
    weighted_slopes,
)
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.holonomic import onto, rounding_of_places, shift_left
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.quasi_velocities import Normals, normals, normals_of, parted, rates, restored
from geonh.mechanics.system import System

FEW_FORMS = 6
"""Number of forms up to which residuals along them, in Gauss's equations, are not orthogonalized first: a kept inverse
Jacobian makes up for their lengths and angles."""
FEW_STAGES, FEW_VELOCITIES = 7, 5
"""Numbers of stages and of velocities beyond which the stages are in a loop, so that the program is shorter; those of
the classical method always are."""
TABLEAUX = {4: RK4, 5: DORMAND_PRINCE, 6: BUTCHER6, 8: DORMAND_PRINCE_8}


class RKMK(RetractingIntegrator):
    """Runge–Kutta–Munthe-Kaas in quasi-velocities, explicit.

    Parameters
    ----------
    order : int
        4 (classical, four stages), 6 (Butcher, seven stages), 5 or 8 (Dormand and Prince, six and twelve stages; with
        their embedded methods they control the error, ``Adaptive(RKMK(8), tolerance)``).
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".

    Raises
    ------
    ValueError
        If an argument is not one of these.

    References
    ----------
    .. [MuntheKaas1999] H. Munthe-Kaas, "High order Runge–Kutta methods on manifolds", Applied Numerical Mathematics
       29 (1999), 115–127.
    .. [Iserles2000] A. Iserles, H. Z. Munthe-Kaas, S. P. Nørsett, A. Zanna, "Lie-group methods", Acta Numerica 9
       (2000), 215–365; §4.
    .. [Dormand1980] J. R. Dormand, P. J. Prince, "A family of embedded Runge–Kutta formulae", Journal of Computational
       and Applied Mathematics 6 (1980), 19–26; the tableau of order 5.
    .. [Hairer1993] E. Hairer, S. P. Nørsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd edition,
       Springer (1993); §II.10, the tableau of order 8, DOP853.
    .. [Butcher1964] J. C. Butcher, "On Runge–Kutta processes of high order", Journal of the Australian Mathematical
       Society 4 (1964), 179–194; the tableau of order 6.
    """

    stages_order: int = eqx.field(static=True)
    retraction: Retraction | None

    def __init__(self, order: int = 4, retraction: str | Retraction = "auto"):
        order = one_of(order, "order", TABLEAUX)
        self.stages_order, self.retraction = order, make_retraction(retraction)

    @property
    def guarantees(self) -> Guarantees:
        reference = "Munthe-Kaas 1999; Iserles, Munthe-Kaas, Nørsett, Zanna 2000, §4"
        embedded = EMBEDDED[self.stages_order].order if self.stages_order in EMBEDDED else 0
        return explicit(self.stages_order, reference, embedded)

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        return self._step(system, clock, state, TABLEAUX[self.stages_order][0], ())[0]

    def estimate(self, system: System, clock: Clock, state: State) -> tuple[Outcome, Array]:
        """Step, and the difference of the embedded solution from it, in σ and in ξ: shape=[2n]."""
        embedded, n = EMBEDDED[self.stages_order], system.group.dim
        made, errors = self._step(system, clock, state, embedded.a, embedded.weights)
        return made, jnp.concatenate([estimated([error[i : i + n] for error in errors]) for i in (0, n)])

    def _step(
        self, system: System, clock: Clock, state: State, a: np.ndarray, weights: Sequence[np.ndarray]
    ) -> tuple[Outcome, list[Array]]:
        """Step, and the sums of the slopes (σ̇, ẇ, ξ) with some weights, shape=[3n] each; rows of a are the stages."""
        tau, group, h, n = self.tau(system), system.group, clock.dt, system.group.dim
        x, end = system.at(state.g, clock.time(state.k)), clock.time(state.k + 1)
        w = system.velocity_along(x, state.p_minus)
        N = normals(system.linear_at(w), x)

        def slope(c: Any, change: Array) -> Array:
            sigma, begins = change[:n], isinstance(c, float) and c == 0
            stage, t = x if begins else system.act(x, tau(group, sigma), c * h), clock.time(state.k + c)
            xi, rate = rates(system, t, stage, w + change[n : 2 * n], N, clock.between(t))
            return jnp.concatenate([xi if begins else tau.dtau_inv(group, -sigma) @ xi, rate, xi])

        weights, loop = [TABLEAUX[self.stages_order][1], *weights], len(a) > FEW_STAGES and n > FEW_VELOCITIES
        sums, *errors = weighted_slopes(slope, a, weights, 3 * n, h, loop=loop)
        sigma, change, turned = jnp.split(sums, 3)
        g, converged = onto(system, group.compose(state.g, tau(group, sigma)), end)
        y = system.at(g, end)
        xi = restored(system, y, w + change, N)
        return velocity_node(system, y, g, xi, group.turn(turned), converged=converged), errors


class CommutatorFree(Integrator):
    """Commutator-free Lie group method of order 4 in quasi-velocities, explicit.

    References
    ----------
    .. [Celledoni2003] E. Celledoni, A. Marthinsen, B. Owren, "Commutator-free Lie group methods", Future Generation
       Computer Systems 19 (2003), 341–352; table 1.
    """

    @property
    def guarantees(self) -> Guarantees:
        return explicit(4, "Celledoni, Marthinsen, Owren 2003, table 1")

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        group, h, end = system.group, clock.dt, clock.time(state.k + 1)
        x = system.at(state.g, clock.time(state.k))
        w = system.velocity_along(x, state.p_minus)
        N = normals(system.linear_at(w), x)

        def slope(c: float, x: Any, w: Array) -> tuple[Array, Array]:
            t = clock.time(state.k + c)
            xi, rate = rates(system, t, x, w, N, clock.between(t))
            return h * xi, h * rate

        K1, L1 = slope(0, x, w)
        x2 = system.act(x, group.exp(K1 / 2), h / 2)
        K2, L2 = slope(0.5, x2, w + L1 / 2)
        K3, L3 = slope(0.5, system.act(x, group.exp(K2 / 2), h / 2), w + L2 / 2)
        K4, L4 = slope(1, system.act(x2, group.exp(K3 - K1 / 2), h / 2), w + L3)
        first, second = (3 * K1 + 2 * K2 + 2 * K3 - K4) / 12, (-K1 + 2 * K2 + 2 * K3 + 3 * K4) / 12
        turn = group.turn(first) + group.turn(second)
        g, converged = onto(system, group.compose(group.compose(state.g, group.exp(first)), group.exp(second)), end)
        y = system.at(g, end)
        xi = restored(system, y, w + (L1 + 2 * L2 + 2 * L3 + L4) / 6, N)
        return velocity_node(system, y, g, xi, turn, converged=converged)


class Gauss(ImplicitIntegrator, RetractingIntegrator):
    """Gauss collocation in quasi-velocities, symmetric.

    Parameters
    ----------
    stages : int
        1 (implicit midpoint), 2 or 3; the order is twice as much.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solve.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these.

    References
    ----------
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       §II.1.3.
    .. [Zanna2001] A. Zanna, K. Engø, H. Z. Munthe-Kaas, "Adjoint and selfadjoint Lie-group methods", BIT 41 (2001),
       395–421; symmetric on groups.
    """

    stages: int = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton

    def __init__(self, stages: int = 2, retraction: str | Retraction = "auto", *, newton: Newton | None = None):
        stages = one_of(stages, "stages", GAUSS)
        self.stages, self.retraction, self.newton = stages, make_retraction(retraction), make_newton(newton)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 * self.stages,
            symmetric=True,
            multiplier_forces=True,
            nonlinear=True,
            reference="Hairer, Lubich, Wanner 2006, §II.1.3; symmetric on groups: Zanna, Engø, Munthe-Kaas 2001",
        )

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        shift = jnp.zeros(0 if system.holonomic is None else xi.size)
        forces = system.multiplier_forces
        xis = jnp.tile(xi, (self.stages, 1)) if forces is None else self._predicted(system, forces, clock, k, g, xi)
        z = jnp.concatenate([shift, clock.dt * xis.ravel()])
        return Warm(repeated(z), near_identity(z.size))

    def _predicted(
        self, system: System, forces: MultiplierForces, clock: Clock, k: Array, g: Point, xi: Array
    ) -> Array:
        """σ̇ at the stages from the start alone, to O(h²): by Heun's rule with forces whose direction stays that at the
        start. A slip that has just begun is less than the change of ξ in a step, and Newton's iteration needs its
        direction; across it friction is taken implicitly.
        """
        tau, h, c = self.tau(system), clock.dt, np.sum(GAUSS[self.stages][0], axis=1)
        x = system.at(g, clock.time(k))
        frozen = forces.frozen_at(clock.time(k), x, xi, system.parameters)
        system = eqx.tree_at(lambda s: s.multiplier_forces, system, frozen)
        mobility = system.mobility_at(clock.time(k), x, xi)

        def place(c: ArrayLike, before: Array) -> Any:
            return system.act(x, tau(system.group, c * h * (xi + c * h * before / 2)), c * h)

        def rates(c: ArrayLike, before: Array) -> tuple[Array, Array]:
            y, v = place(c, before), xi + c * h * before
            return accelerations_at(system, clock.time(k + c), y, v, clock.between(clock.time(k + c)))

        first, lam = rates(0.0, jnp.zeros_like(xi))

        def velocity(c: ArrayLike) -> Array:
            v = xi + h * c * (first + rates(c, first)[0]) / 2
            return frozen.settled(clock.time(k + c), place(c, first), v, lam, system.parameters, c * h, mobility)

        xis = self._at_stages(velocity, c)
        return 2 * xis - self._chart(system, h, h * xis)[2]

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        a, b = GAUSS[self.stages]
        tau, group, h, c = self.tau(system), system.group, clock.dt, np.sum(a, axis=1)
        x = system.at(state.g, clock.time(state.k))
        xi = system.velocity_along(x, state.p_minus)

        def mismatch(z: Array) -> Array:
            shift, K = self._shift_and_slopes(system, z)
            delta, sigma, xis = self._chart(system, h, K)
            half = tau(group, delta)
            centre = system.act(x if shift is None else system.act(x, tau(group, shift), 0.0), half, h / 2)
            linear = system.linear_at(delta * (2 / h))
            forms = linear.annihilator(centre)
            few = not has_small_null_space(*forms.shape)
            N, residual_lifts = self._normals(linear, centre, forms) if few else (None, None)

            def stage(s: Array, xi: Array, c: ArrayLike) -> tuple[Array, Array]:
                """Acceleration ξ̇, and the residual of ξ in D, along its normals at c where forms are few."""
                t = clock.time(state.k + c)
                x = centre if len(b) == 1 else system.act(centre, tau(group, s), (c - 0.5) * h)
                rate = accelerations_at(system, t, x, xi, clock.between(t))[0]
                residual = system.constraint_residual(x, xi)
                return rate, residual if residual_lifts is None else residual_lifts.T @ residual

            rates, off = self._at_stages(stage, sigma, xis, c)
            changes = xis - xi - h * a @ rates
            if N is None:
                missing = h * jnp.concatenate([shifted(forms, forms, *both) for both in zip(changes, off, strict=True)])
            else:
                missing = h * (parted(N, changes.T)[0].T + off).ravel()
            if shift is None:
                return missing
            phi = system.holonomic_residual(system.act(system.act(centre, half, h / 2), tau(group, shift), 0.0))
            return jnp.concatenate([shift_left(system, centre, shift, phi), missing])

        return Equations(mismatch, continued(state.warm.guess), 1e-14 * jnp.abs(h), rounding_of_places(system, state.g))

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        a, b = GAUSS[self.stages]
        tau, group, g, t = self.tau(system), system.group, state.g, clock.time(state.k)
        xi = system.velocity_along(system.at(g, t), state.p_minus)
        shift, K = self._shift_and_slopes(system, z)
        delta, _, xis = self._chart(system, clock.dt, K)
        half, changes = tau(group, delta), jnp.asarray(np.linalg.inv(a)) @ (xis - xi)
        g = g if shift is None else group.compose(g, tau(group, shift))
        N = normals(system.linear_at(delta * (2 / clock.dt)), system.act(system.at(g, t), half, clock.dt / 2))
        g = group.compose(group.compose(g, half), half)
        g = g if shift is None else group.compose(g, tau(group, shift))
        y = system.at(g, clock.time(state.k + 1))
        xi = restored(system, y, xi + b @ changes, N)
        past = followed_by(state.warm.guess, z)
        return velocity_node(system, y, g, xi, 2 * tau.angle(group, delta), guess=past)

    def _shift_and_slopes(self, system: System, z: Array) -> tuple[Array | None, Array]:
        """Shift s, None without holonomic constraints, and the hσ̇."""
        n = system.group.dim
        return (None, z) if system.holonomic is None else (z[:n], z[n:])

    def _normals(self, system: System, x: Any, forms: Array) -> tuple[Normals, Array]:
        """Normals at x, of orthogonal forms, and those for residuals of the given forms, shape=[m, n]: with these the
        equations' Jacobian is near 1.
        """
        if len(forms) <= FEW_FORMS:
            N = normals(system, x)
            return N, N.lifts
        forms, combined = apart(forms, jnp.eye(len(forms)))
        N = normals_of(forms)
        return N, combined.T @ N.lifts

    def _at_stages(self, function: Callable, *columns: Any) -> Any:
        """Evaluate at every stage in a loop, so that the program is as short as that of one stage."""
        if self.stages > 1:
            return lax.map(lambda at: function(*at), tuple(map(jnp.asarray, columns)))
        return jax.tree.map(lambda one: one[None], function(*(column[0] for column in columns)))

    def _chart(self, system: System, h: Array, z: Array) -> tuple[Array, Array, Array]:
        """δ, and the σ and ξ of the stages, from the unknowns hσ̇."""
        a, b = GAUSS[self.stages]
        tau, K = self.tau(system), z.reshape(len(b), -1)
        delta = jnp.asarray(b / 2) @ K
        sigma = jnp.asarray(a) @ K - delta
        if len(b) == 1:
            return delta, sigma, K * (1 / h)
        return delta, sigma, self._at_stages(lambda s, K: tau.dtau(system.group, -s) @ K * (1 / h), sigma, K)


@functools.cache
def explicit(order: int, reference: str, embedded: int = 0) -> Guarantees:
    """Guarantees of an explicit method in quasi-velocities, with an embedded one of that order, if any."""
    return Guarantees(
        order=order, implicit=False, multiplier_forces=True, nonlinear=True, reference=reference, embedded=embedded
    )

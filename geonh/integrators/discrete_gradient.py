r"""Energy-preserving methods: discrete gradients on the almost-Poisson form in quasi-velocities.

In momenta π modulo the constraint forces the energy is H(x, π), and (``geonh.mechanics.quasi_velocities``, of which P,
the projection onto D(x̄), and the forces that do no work, S)

    ζ = hPw,   π_{k+1} = π_k + hP(S(x̄, π̄)w − η),   g_{k+1} = g_k τ(ζ/2)²,      (η, w) = D̄H,

with a discrete gradient D̄H on D*: ⟨η, ζ⟩ + ⟨π_{k+1} − π_k, w⟩ = H_{k+1} − H_k. By the equations the left-hand side is
h(⟨η, w⟩ + ⟨Sw, w⟩ − ⟨η, w⟩) = 0 for w in D(x̄), so the energy is kept, for any metric, potential and linear constraint,
and any x̄. The discrete gradients, where ∂_xH is ρ*∂H in g*, are

    gonzalez    ∂H(x̄, π̄) + (H_{k+1} − H_k − ⟨∂_xH, ζ⟩ − ⟨π_{k+1} − π_k, w⟩)(Mζ, 0)/⟨Mζ, ζ⟩   symmetric, order 2
    average     ∫ (dτ_{−sζ}ᵀ∂_xH, ∂_πH)(x̄·τ(sζ), π̄ + s(π_{k+1} − π_k)) ds over |s| < ½,      symmetric, order 2
                by Gauss quadrature with five nodes (the average vector field): so the energy is kept to O(h¹⁰), and to
                rounding where the integrand is a polynomial up to degree 9, M and μ constant
    itoh-abe    quotients of differences of H, one coordinate of ζ changed after the other, then π;   order 1
                in π, in which H is quadratic, that is the derivative in the middle

with x̄ = x_k·τ(ζ/2), π̄ = ½(π_k + π_{k+1}) in the first two, so they are symmetric. In Gonzalez's, and
in that of φ below, the rounding of V over ⟨Mζ, ζ⟩ would dominate the quotient where ζ is small: there
V_{k+1} − V_k is ∫⟨dτ_{−sζ}ᵀ∂V, ζ⟩ ds, by as many nodes as make it exact. Itoh–Abe's has
x̄ = x_k, π̄ = π_k, and moves by coordinates of the second kind, g_{k+1} = g_k τ(ζ₁e₁)…τ(ζ_ne_n); its
``method.adjoint() @ method`` is of order 2. Order 4 by ``compose(method, "suzuki4")``.

Holonomic constraints φ = 0 are kept likewise: in μ at x̄, from which P and the normals are computed, the rows G of
φ are replaced by a discrete gradient of φ, G̃ζ = φ(y) − φ(x), Gonzalez's or Itoh–Abe's. Then w in the kernel of these
rows implies φ_{k+1} = φ_k, and the energy balance is unchanged, since it uses only ⟨Sw, w⟩ = 0 and Pᵀw = w.
Energy, φ and the constraint at the nodes are kept at once.

The unknown is ζ. Where w is the velocity of one momentum it determines that momentum, and with it π_{k+1}; the
average has the change of π as another unknown.

Sources: Gonzalez, *Time integration and discrete Hamiltonian systems*, J. Nonlinear Sci. 6 (1996); for φ: Gonzalez,
*Mechanical systems subject to holonomic constraints*, Physica D 132 (1999); Itoh, Abe 1988;
Quispel, McLaren 2008; on Lie groups: Celledoni, Eidnes, Owren, Ringholm, *Energy-preserving methods on Riemannian
manifolds*, Math. Comp. 89 (2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.corrections import TINY
from geonh.algebra.linear import apart, saddle
from geonh.algebra.newton import Newton, make_newton
from geonh.arguments.validators import one_of
from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import (
    Clock,
    Equations,
    Guarantees,
    ImplicitIntegrator,
    Outcome,
    RetractingIntegrator,
    State,
    Warm,
    no_inverse,
)
from geonh.integrators.hamel import velocity_node
from geonh.integrators.prediction import continued, followed_by, repeated
from geonh.mechanics.holonomic import rounding_of_places
from geonh.mechanics.quasi_velocities import (
    Normals,
    energy_slope,
    gyroscopic_force,
    normals,
    normals_of,
    parted,
    reduced_energy,
    reduced_momentum,
    restored,
    velocity_of_momentum,
)
from geonh.mechanics.system import System

GRADIENTS = ("gonzalez", "average", "itoh-abe")
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_FOUR, _WEIGHTS_OF_FOUR = np.polynomial.legendre.leggauss(4)
_MEAN_AND_BEND = (np.polynomial.legendre.legvander(_FOUR, 3) * [0.5, 0.0, 2.5, 3.5]).T[[0, 2, 3]] * _WEIGHTS_OF_FOUR
"""Legendre coefficients c₀, c₂ and c₃ of a function from its values at the four nodes."""
_EPS = float(np.finfo(float).eps)
_SMALL = 1e-3
"""Increment below which a difference quotient loses digits, and the mean of the derivative at five nodes is used."""


RESTING = 1e-200
"""Least ⟨Mζ, ζ⟩/h, joule seconds, at which a step changes an energy representable in floating point."""


class _StepQuantities(NamedTuple):
    """Quantities of a step from its unknowns z: ζ, x̄, the normals N there, the rows' residual before it (φ, rounding,
    removed so that it does not accumulate), w, p̄ and its κ, π_k and its change."""

    zeta: Array
    middle: Any
    N: Normals
    before: Array
    w: Array
    momentum: Array
    kappa: Array
    start: Array
    change: Array


class DiscreteGradient(ImplicitIntegrator, RetractingIntegrator):
    """Energy-preserving integrator.

    Parameters
    ----------
    gradient : str
        "gonzalez", "average" (average vector field) or "itoh-abe".
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solve.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [Gonzalez1996] O. Gonzalez, "Time integration and discrete Hamiltonian systems", Journal of Nonlinear Science
       6 (1996), 449–467.
    .. [Itoh1988] T. Itoh, K. Abe, "Hamiltonian-conserving discrete canonical equations based on variational
       difference quotients", Journal of Computational Physics 76 (1988), 85–102.
    .. [Celledoni2020] E. Celledoni, S. Eidnes, B. Owren, T. Ringholm, "Energy-preserving methods on Riemannian
       manifolds", Mathematics of Computation 89 (2020), 699–716.
    """

    gradient: str = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton

    def __init__(
        self, gradient: str = "gonzalez", retraction: str | Retraction = "auto", *, newton: Newton | None = None
    ):
        gradient = one_of(gradient, "gradient", GRADIENTS)
        self.gradient, self.retraction, self.newton = gradient, make_retraction(retraction), make_newton(newton)

    @property
    def guarantees(self) -> Guarantees:
        symmetric = self.gradient != "itoh-abe"
        return Guarantees(
            order=2 if symmetric else 1,
            symmetric=symmetric,
            energy="quadrature" if self.gradient == "average" else "always",
            affine=False,
            reference="Gonzalez 1996; Celledoni, Eidnes, Owren, Ringholm 2020",
        )

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if not system.is_quadratic:
            raise ValueError(f"DiscreteGradient is for ℓ quadratic in ξ; that of {system.name} is not")
        if system.is_affine:
            raise ValueError(f"the energy of {system.name} is not kept: its constraints are affine; use Gauss or GNI")
        if system.is_timed:
            raise ValueError(f"the energy of {system.name} is not kept: it depends on the time; use Gauss")

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        n, wide = xi.size, self.gradient == "average"
        z = jnp.concatenate([clock.dt * xi, jnp.zeros(wide * n)])
        return Warm(repeated(z), no_inverse(z.size))

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        h, x = clock.dt, system.action.at(state.g)
        p, t = state.p_minus, clock.time(state.k + 0.5)
        velocity = system.velocity(x, p)
        kinetic = (p - system.momentum_at_rest(x)) @ velocity / 2
        energy = kinetic if self.gradient == "gonzalez" else kinetic + system.potential_energy(x)

        def mismatch(z: Array) -> Array:
            step = self._step(system, h, x, p, z)
            middle, N = step.middle, step.N
            slope, w = self._gradient(system, x, energy, step)
            force = gyroscopic_force(system, middle, step.momentum, w, step.kappa)
            force = force + system.force(t, middle, w, clock.between(t)) - slope
            missing = parted(N, step.change - h * force)[0]
            if self.gradient == "average":
                off = step.zeta - h * w + N.lifts.T @ step.before
                return jnp.concatenate([off, missing + N.forms.T @ (N.lifts @ step.change)])
            return h * saddle(system.mass_matrix(middle), N.forms, missing / 2, N.forms @ w + step.before / h)[0]

        # Where a motion reverses, w is small, and known to the rounding of the velocities at the nodes.
        floor = jnp.abs(h) * (1e-14 + self.newton.tol * jnp.max(jnp.abs(velocity)))
        return Equations(mismatch, continued(state.warm.guess), floor, rounding_of_places(system, state.g))

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        x = system.action.at(state.g)
        step = self._step(system, clock.dt, x, state.p_minus, z)
        g = system.group.compose(state.g, self._increment(system, step.zeta))
        y = system.action.at(g)
        ahead = velocity_of_momentum(system, y, step.start + step.change)
        past = followed_by(state.warm.guess, z)
        return velocity_node(system, y, g, ahead, system.group.turn(step.zeta), guess=past)

    def _step(self, system: System, h: Array, x: Any, p: Array, z: Array) -> _StepQuantities:
        n, action = system.group.dim, system.action
        zeta, w = z[:n], z[:n] / h
        if self.gradient == "itoh-abe":
            N, before = self._normals(system, h, x, x, zeta)
            start, kappa = reduced_momentum(system, x, p, N)
            ahead = action.act(x, self._increment(system, zeta))
            after = reduced_momentum(system, ahead, system.momentum(ahead, restored(system, ahead, w, N)), N)[0]
            return _StepQuantities(zeta, x, N, before, w, p, kappa, start, 2 * (after - start))
        middle = action.act(x, self.tau(system)(system.group, zeta / 2))
        N, before = self._normals(system, h, x, middle, zeta)
        start = reduced_momentum(system, x, p, N)[0]
        if self.gradient == "average":
            change = z[n:]
            momentum = system.momentum(middle, velocity_of_momentum(system, middle, start + change / 2))
            return _StepQuantities(zeta, middle, N, before, w, momentum, N.lifts @ momentum, start, change)
        momentum = system.momentum(middle, w)
        pi, kappa = parted(N, momentum)
        return _StepQuantities(zeta, middle, N, before, w, momentum, kappa, start, 2 * (pi - start))

    def _normals(self, system: System, h: Array, x: Any, middle: Any, zeta: Array) -> tuple[Normals, Array]:
        """Normals at x̄, with a discrete gradient of φ from x over ζ in place of its derivative, and φ(x) with
        them; all combined as the rows of ``constraint_apart`` at x̄ are.
        """
        if system.holonomic is None:
            N = normals(system, middle)
            return N, jnp.zeros(len(N.forms))
        phi, mu = system.holonomic_residual, system.annihilator(middle)
        if self.gradient == "itoh-abe":
            G = self._quotients(system, lambda W: phi(system.action.act(x, W)), phi(x), zeta).T
        else:
            G = system.holonomic_rows(middle)
            ahead = system.action.act(x, self._increment(system, zeta))
            missing = self._growth(system, phi, (x, ahead), zeta) - G @ zeta
            G = G + jnp.outer(missing, _unit_change(system, middle, zeta / h, zeta))
        rows, before = jnp.concatenate([G, mu[len(G) :]]), jnp.zeros(len(mu)).at[: len(G)].set(phi(x))
        _, beside = apart(mu, jnp.concatenate([rows, before[:, None]], axis=1))
        return normals_of(beside[:, :-1]), beside[:, -1]

    def _increment(self, system: System, zeta: Array) -> Point:
        """Increment W with g_{k+1} = g_k W."""
        tau, group = self.tau(system), system.group
        if self.gradient != "itoh-abe":
            half = tau(group, zeta / 2)
            return group.compose(half, half)
        W = group.identity()
        for part in jnp.diag(zeta):
            W = group.compose(W, tau(group, part))
        return W

    def _gradient(self, system: System, x: Any, energy: Array, step: _StepQuantities) -> tuple[Array, Array]:
        """Discrete gradient D̄H = (η, w), both of shape=[n], from the node x with that energy."""
        zeta, middle, N, w = step.zeta, step.middle, step.N, step.w
        tau, action, group = self.tau(system), system.action, system.group
        if self.gradient == "itoh-abe":

            def H(W: Point) -> Array:
                return reduced_energy(system, action.act(x, W), step.start)

            return self._quotients(system, H, energy, zeta), w
        if self.gradient == "average":

            def weighted(at: tuple[Array, Array]) -> tuple[Array, Array]:
                s, weight = at
                between = action.act(middle, tau(group, s * zeta))
                xi = velocity_of_momentum(system, between, step.start + (0.5 + s) * step.change)
                kappa = reduced_momentum(system, between, system.momentum(between, xi), N)[1]
                slope = energy_slope(system, between, xi, kappa) @ tau.dtau(group, -s * zeta)
                return weight * slope, weight * parted(N, xi)[0]

            slopes, ws = lax.map(weighted, (jnp.asarray(_NODES / 2), jnp.asarray(_WEIGHTS / 2)))
            return jnp.sum(slopes, axis=0), jnp.sum(ws, axis=0)
        slope = energy_slope(system, middle, w, step.kappa)
        ahead = action.act(x, self._increment(system, zeta))
        after = step.start + step.change
        kinetic = (after - system.momentum_at_rest(ahead)) @ velocity_of_momentum(system, ahead, after) / 2 - energy
        potential = self._growth(system, system.potential_energy, (x, ahead), zeta)
        missing = kinetic - step.change @ w + potential - slope @ zeta
        return slope + missing * _unit_change(system, middle, w, zeta), w

    def _growth(self, system: System, f: Callable[[Any], Array], ends: tuple[Any, Any], zeta: Array) -> Array:
        """Difference f(y) − f(x) for y = x·τ(ζ/2)², of the shape of f: to its own rounding, not that of f, for small ζ.

        Computed as the mean of ∂f = (d/ds) f(x̄·τ(sζ)) by four Gauss nodes, where its error is below the rounding of f.
        The error is that of ∂f's term of degree 8: where the terms fall by a constant factor, at most a fifteenth of
        |∂f|(|c₂/∂f|⁴ + |c₃/∂f|^{8/3}), by Legendre's coefficients c_k of ∂f.
        """
        tau, action, group = self.tau(system), system.action, system.group
        (x, y), middle = ends, action.act(ends[0], tau(group, zeta / 2))

        def rate(s: Array) -> Array:
            return jax.jvp(lambda s: f(action.act(middle, tau(group, s * zeta))), (s,), (jnp.ones(()),))[1]

        rates = lax.map(rate, jnp.asarray(_FOUR / 2))
        mean, c2, c3 = jnp.tensordot(jnp.asarray(_MEAN_AND_BEND), rates, axes=1)
        begin, end, size = f(x), lax.stop_gradient(f(y)), jnp.max(jnp.abs(rates), axis=0) + TINY
        rounding = 15 * _EPS * (jnp.abs(begin) + jnp.abs(end) + size)
        exact = (c2 / size) ** 12 + jnp.abs(c3 / size) ** 8 <= (rounding / size) ** 3
        return lax.cond(jnp.all(exact), lambda: mean, lambda: f(y) - begin)

    def _quotients(self, system: System, H: Callable[[Point], Array], begin: Array, zeta: Array) -> Array:
        """Itoh–Abe difference quotients in ζ of H(W), which is ``begin`` at W = 1: shape=[n, ...].

        Over a short increment, the Gauss mean of the derivative.
        """
        tau, group = self.tau(system), system.group

        def quotient(before: tuple[Point, Array], at: tuple[Array, Array]) -> tuple[tuple[Point, Array], Array]:
            (W, value), (direction, length) = before, at

            def moved(length: Array) -> Point:
                return group.compose(W, tau(group, length * direction))

            def slope(length: Array) -> Array:
                return jax.jvp(lambda s: H(moved(s)), (length,), (jnp.ones(()),))[1]

            def mean() -> Array:
                slopes = lax.map(slope, length * (0.5 + jnp.asarray(_NODES / 2)))
                return jnp.tensordot(jnp.asarray(_WEIGHTS / 2), slopes, axes=1)

            after = moved(length)
            new = H(after)
            return (after, new), lax.cond(jnp.abs(length) < _SMALL, mean, lambda: (new - value) / length)

        start = jax.tree.map(jnp.asarray, group.identity())
        return lax.scan(quotient, (start, begin), (jnp.eye(group.dim), zeta))[1]


def _unit_change(system: System, x: Any, w: Array, zeta: Array) -> Array:
    """Covector Mw/⟨Mw, ζ⟩, shape=[n]: of minimum norm among those whose value on ζ is 1; 0 at rest."""
    kinetic = system.mass_matrix(x) @ w
    size = kinetic @ zeta
    resting = jnp.abs(size) < RESTING
    return jnp.where(resting, 0.0, 1 / jnp.where(resting, 1.0, size)) * kinetic

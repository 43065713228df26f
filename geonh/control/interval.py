r"""The equations of one interval of a transcription and of its end, with derivatives of the first and second order.

Unknown at a node are (η, ξ, u): the point is g exp(η), the velocity ξ and the controls u; and common to all intervals
the durations T_p of the phases, h = T_p/K_p, and numbers θ of the system's parameters that are sought. Of periodic
motions (η, ξ) of the first node are common too: the end depends on them. A step of a method from (g_k, ξ_k) under u_k,
u_{k+1} arrives at Φ, and the 2n equations of motion of the interval are

    explicit methods:     log(Φ_g⁻¹g_{k+1})/h = 0,   ξ_{k+1} − Φ_ξ = 0;
    symmetric projection: F⁻(x_k, ζ_k) − p̃_k − (h/2)f_k − N(x_k)ᵀU_kᵀκ₁ = 0, by h,   ξ_{k+1} − Φ_ξ(ζ_k) = 0,

with ζ_k = τ⁻¹(g_k⁻¹g_{k+1}), so that no momentum and no multiplier is unknown and nothing is iterated. Constraints on
the velocity hold since Φ_ξ satisfies them. Where a phase ends, the reset of Φ_ξ, or its projection onto the constraints
of the next mode, stands in place of Φ_ξ, and the guard of the transition vanishes at (g_{k+1}, Φ_ξ); controls, which
jump there, are held in the last interval of a phase, u_{k+1} = u_k, which costs h³. The cost of an interval is
(h/6)(c_k + 4c_{k+½} + c_{k+1}) for methods of order above 2, with the middle of the cubic through both ends in the
algebra, and (h/2)(c_k + c_{k+1}) else.

The Lagrangian σf + λᵀe + yᵀi of a cost f, equations e and inequalities i is differentiated backwards, and its gradient
with (e, i, f) forwards: one program gives the Hessian of the Lagrangian and all Jacobians, exactly.

Source: Betts, *Practical Methods for Optimal Control and Estimation Using Nonlinear Programming* (2010), ch. 4; with
the equations of ``SymmetricProjection``, Leyendecker et al., *Optim. Control Appl. Meth.* 31 (2010) 505.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geonh.control.conditions import Conditions
from geonh.control.sought import Sought
from geonh.engine import SIDE_BY_SIDE, jacobian
from geonh.groups.base import ArrayLike, LieGroup, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.results.modes import Transition
from geonh.runs.mode_functions import Place, left_by


class Node(NamedTuple):
    """Point, velocity, shape=[n], and controls, shape=[n_u], at a node."""

    g: Point
    xi: ArrayLike
    u: ArrayLike


class Interval(NamedTuple):
    """Interval between two nodes.

    Attributes
    ----------
    begin, end : Node
    spans : array_like, shape=[P]
        Durations of all phases, s.
    before, here : array_like, shape=[P]
        1 for each phase before that of the interval, and for that phase; 0 else.
    t0 : float
        Time of the first node, s.
    k, count : float
        Number of the interval in its phase, and that of all there.
    holds : array_like, shape=[q]
        1 for each equation of nodes that holds at the first node, 0 else.
    theta : array_like
        θ.
    """

    begin: Node
    end: Node
    spans: ArrayLike
    before: ArrayLike
    here: ArrayLike
    t0: ArrayLike
    k: ArrayLike
    count: ArrayLike
    holds: ArrayLike
    theta: ArrayLike


class End(NamedTuple):
    """The last node and the first, durations of the phases, t₀, 1 for each equation of nodes that holds at the last, 0
    else, and θ."""

    node: Node
    first: Node
    spans: ArrayLike
    t0: ArrayLike
    holds: ArrayLike
    theta: ArrayLike


class Weights(NamedTuple):
    """Multipliers of the equations and of the inequalities, and the weight of the cost."""

    equations: ArrayLike
    inequalities: ArrayLike
    cost: ArrayLike


class Joint(NamedTuple):
    """Transition at the end of a phase, and the system of the next mode."""

    transition: Transition
    target: System


class Equations(NamedTuple):
    """Data that the equations of the intervals of a phase and of the end have in common; ``joint`` is that of the last
    interval of a phase, if another one follows."""

    system: System
    method: Integrator
    conditions: Conditions
    joint: Joint | None = None

    def at(self, theta: Array, step: Array) -> Equations:
        """The same with the sought parameters after a step from θ."""
        sought = Sought(self.system, self.conditions.sought)
        return self._replace(system=sought.at(theta + self.conditions.theta_scale * step))


class Values(NamedTuple):
    """Residuals of the equations, values of the inequalities' functions, and the cost."""

    equations: ArrayLike
    inequalities: ArrayLike
    cost: ArrayLike


class Derivatives(NamedTuple):
    """Values, the Hessian of the Lagrangian, shape=[N, N], and the Jacobians of equations, inequalities and cost."""

    values: Values
    hessian: ArrayLike
    equations: ArrayLike
    inequalities: ArrayLike
    cost: ArrayLike


def interval_values(of: Equations, data: tuple[Interval, Array]) -> Values:
    """Values of an interval perturbed by z, (η, δξ, δu) of both ends, δT and δθ."""
    interval, z = data
    n_spans = of.conditions.n_spans
    size = (len(z) - n_spans - len(interval.theta)) // 2
    begin, end = _moved(of, interval.begin, z[:size]), _moved(of, interval.end, z[size : 2 * size])
    if of.joint is not None:
        end = end._replace(u=begin.u)
    spans = interval.spans + of.conditions.of_spans @ z[2 * size : 2 * size + n_spans]
    h = interval.here @ spans / interval.count
    t = interval.t0 + interval.before @ spans + interval.k * h
    of = of.at(interval.theta, z[2 * size + n_spans :])
    rates = (end.u - begin.u) / h
    inequalities = [of.conditions.at_node(of.system, t, begin), rates[: of.conditions.n_rates]]
    off, xi = _step(of, t, h, begin, end)
    before, after, guard = _transition(of, t + h, end, xi)
    cost = _running_cost(of, t, h, begin, before)
    gap = interval.holds * of.conditions.node_gap(of.system, t, begin)
    equations = [off, end.xi - after, gap, guard[: len(spans) - 1]]
    return Values(jnp.concatenate(equations), jnp.concatenate(inequalities), cost)


def end_values(of: Equations, data: tuple[End, Array]) -> Values:
    """Values of the end perturbed by z, (η, δξ, δu), δT, δθ, and (η, δξ) of the first node where that is unknown."""
    end, z = data
    conditions, m = of.conditions, len(end.node.u) + 2 * of.system.group.dim
    of_theta = slice(m + conditions.n_spans, m + conditions.n_spans + len(end.theta))
    spans = end.spans + conditions.of_spans @ z[m : of_theta.start]
    node, first, t = _moved(of, end.node, z[:m]), end.first, end.t0 + jnp.sum(spans)
    if len(z) > of_theta.stop:
        first = _moved(of, first, jnp.concatenate([z[of_theta.stop :], jnp.zeros(len(first.u))]))
    of = of.at(end.theta, z[of_theta])
    inequalities = [
        conditions.at_node(of.system, t, node),
        conditions.at_end(of.system, t, node),
        spans / conditions.spans,
        (end.theta + conditions.theta_scale * z[of_theta]) / conditions.theta_scale,
    ]
    equations = [
        conditions.gap(of.system, t, node),
        conditions.return_gap(of.system.group, first, node),
        end.holds * conditions.node_gap(of.system, t, node),
    ]
    cost = conditions.end_cost(of.system, t, node)
    return Values(jnp.concatenate(equations), jnp.concatenate(inequalities), cost)


def interval_derivatives(of: Equations, data: tuple[Interval, Array, Weights]) -> Derivatives:
    """Derivatives of ``interval_values`` by z."""
    interval, z, weights = data
    return _derivatives(lambda z: interval_values(of, (interval, z)), z, weights)


def end_derivatives(of: Equations, data: tuple[End, Array, Weights]) -> Derivatives:
    """Derivatives of ``end_values`` by z."""
    end, z, weights = data
    return _derivatives(lambda z: end_values(of, (end, z)), z, weights)


def moved(group: Any, data: tuple[Node, Array]) -> Node:
    """Node moved by z = (η, δξ, δu)."""
    node, z = data
    n = len(node.xi)
    g = group.project(group.compose(node.g, group.exp(z[:n])))
    return Node(g, node.xi + z[n : 2 * n], node.u + z[2 * n :])


def geodesic(group: Any, data: tuple[Point, Point, Array]) -> Point:
    """Point a part s of the way from one to another."""
    low, high, s = data
    way = relative(group, (low, high))
    return group.project(group.compose(low, group.exp(s * way)))


def relative(group: Any, pair: tuple[Point, Point]) -> Array:
    """log(g⁻¹g') of a pair of points."""
    low, high = pair
    return group.log(group.compose(group.inverse(low), high))


def _moved(of: Equations, node: Node, z: Array) -> Node:
    group, n = of.system.group, len(node.xi)
    return Node(group.compose(node.g, group.exp(z[:n])), node.xi + z[n : 2 * n], node.u + z[2 * n :])


def _derivatives(values: Callable[[Array], Values], at: Array, weights: Weights) -> Derivatives:
    size, here = len(at), jax.eval_shape(values, at)
    n_e, n_i = here.equations.shape[0], here.inequalities.shape[0]  # type: ignore[union-attr]

    def together(z: Array) -> Array:
        now, back = jax.vjp(values, z)
        slope = back(Values(*weights))[0]
        return jnp.concatenate([slope, now.equations, now.inequalities, now.cost[None]])

    J = jacobian(together, at, together=SIDE_BY_SIDE)
    return Derivatives(
        values(at), J[:size], J[size : size + n_e], J[size + n_e : size + n_e + n_i], J[size + n_e + n_i]
    )


def _step(of: Equations, t: Array, h: Array, begin: Node, end: Node) -> tuple[Array, Array]:
    """Residuals of the equations for the second point, shape=[n], in metres or radians per second, and Φ_ξ."""
    system, method, group, n = of.system, of.method, of.system.group, len(begin.xi)
    system = system.holding(system.at(begin.g, t))
    p, nothing = system.momentum(system.at(begin.g, t), begin.xi), jnp.zeros(n)
    warm = method.cold(system, Clock(t, h), jnp.asarray(0), begin.g, nothing)
    state = State(jnp.asarray(0), begin.g, p, p, (), warm, jnp.zeros((0, n)), 0)
    if isinstance(method, SymmetricProjection):
        clock = Clock(t, h, jnp.stack([begin.u, end.u]))
        zeta = method.tau(system).inverse(group, group.compose(group.inverse(begin.g), end.g))
        off = method.equations(system, clock, state).residual(zeta)
        p_end = method.flow(system, clock, state, zeta)[1].momentum
    else:
        clock = Clock(t, h, lambda s: begin.u + (s - t) / h * (end.u - begin.u))
        outcome = method.step(system, clock, state)
        off, p_end = group.log(group.compose(group.inverse(outcome.g), end.g)), outcome.p_plus
    return off / h, system.velocity(system.at(end.g, t + h), p_end)


def _transition(of: Equations, t: Array, end: Node, xi: Array) -> tuple[Node, Array, Array]:
    """Second node before a transition, if there is one, the velocity that follows on ξ, and the guard, shape=[1]."""
    if of.joint is None:
        return end, xi, jnp.zeros(1)
    (transition, target), before = of.joint, end._replace(xi=xi)
    guard = transition.guard.value(of.system, t, end.g, xi, end.u)
    xi = left_by((of.system, transition.reset, end.u[None]), Place(t, end.g, xi)).xi
    after = target.projected_velocity(target.at(end.g, t), xi) if transition.reset is None else xi
    return before, after, guard[None]


def _running_cost(of: Equations, t: Array, h: Array, begin: Node, end: Node) -> Array:
    def c(t: Array, node: Node) -> Array:
        return of.conditions.running_cost(of.system, t, node)

    ends = c(t, begin) + c(t + h, end)
    if of.method.guarantees.order <= 2:
        return h / 2 * ends
    middle = between(of.system.group, begin, end, h, 0.5)
    return h / 6 * (ends + 4 * c(t + h / 2, middle))


def between(group: LieGroup, begin: Node, end: Node, h: Any, s: Any) -> Node:
    """State a part s of the interval on: the cubic in the algebra through both ends with their velocities."""
    zeta = group.log(group.compose(group.inverse(begin.g), end.g))
    first, last = h * begin.xi, h * (group.dexp_inv(-zeta) @ end.xi)  # slopes of log(g_k⁻¹g)
    eta = s * first + s**2 * (3 * zeta - 2 * first - last) + s**3 * (first + last - 2 * zeta)
    rate = first + 2 * s * (3 * zeta - 2 * first - last) + 3 * s**2 * (first + last - 2 * zeta)
    return Node(group.compose(begin.g, group.exp(eta)), group.dexp(-eta) @ rate / h, begin.u + s * (end.u - begin.u))

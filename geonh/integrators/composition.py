r"""Compositions of one-step methods: Φ_{c_s h} ∘ … ∘ Φ_{c_1 h}.

A symmetric method of order 2 composed with Σcᵢ = 1, Σcᵢ³ = 0 and a palindromic sequence has order 4 (Yoshida 1990;
Suzuki 1990); the seven- and nine-stage sequences give order 6 (Yoshida 1990, solution A; Kahan, Li 1997; Hairer,
Lubich, Wanner, *Geometric Numerical Integration*, §V.3.2). ``a @ b`` is a_{h/2} ∘ b_{h/2}: of order 2 if a is the
adjoint of b.

Each substep has its own warm start, from the same substep of the last steps. Between substeps of different
length the impulse at a node of GNI or RATTLE, h(f + μᵀλ), is scaled with the length. A part of it alternates from node
to node, so beyond order 2 composing them has no guarantee; methods whose node is a velocity gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh._former_paths import former_names
from geonh.arguments.validators import as_constant, as_count, as_float64, shortly
from geonh.groups.base import Point
from geonh.integrators.adjoint import refuse_memory
from geonh.integrators.base import (
    Clock,
    Guarantees,
    Integrator,
    NextStep,
    Outcome,
    State,
    require_method,
)
from geonh.integrators.node import Pace
from geonh.mechanics.system import System

_CUBE_ROOT = 2.0 ** (1 / 3)
_Y = (0.78451361047755726382, 0.23557321335935813368, -1.17767998417887100695)
_K = (0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981, 0.08221359629355080023)

COEFFICIENTS: dict[str, tuple[float, ...]] = {
    "yoshida4": (1 / (2 - _CUBE_ROOT), -_CUBE_ROOT / (2 - _CUBE_ROOT), 1 / (2 - _CUBE_ROOT)),
    "suzuki4": (*[1 / (4 - 4 ** (1 / 3))] * 2, 1 - 4 / (4 - 4 ** (1 / 3)), *[1 / (4 - 4 ** (1 / 3))] * 2),
    "yoshida6": (*_Y, 1 - 2 * sum(_Y), *_Y[::-1]),
    "kahan-li6": (*_K, 1 - 2 * sum(_K), *_K[::-1]),
}
"""Coefficients by name; the digit is the order of the composition of a symmetric method of order 2."""


class Composition(Integrator):
    """Composition of methods, each over its fraction of the step.

    Constructed by ``a @ b`` and ``compose``.

    Attributes
    ----------
    members : tuple of Integrator
        The distinct methods.
    sequence : tuple of int
        For each substep, the index of its method.
    fractions : tuple of float
        For each substep, its fraction of the step; they sum to one.
    composed_order : int
        The order.

    Raises
    ------
    TypeError, ValueError
        If ``members`` is not a tuple of methods, or ``fractions`` are not numbers, one for each substep.

    References
    ----------
    .. [Yoshida1990] H. Yoshida, "Construction of higher order symplectic integrators", Physics Letters A 150
       (1990), 262–268.
    .. [Suzuki1990] M. Suzuki, "Fractal decomposition of exponential operators with applications to many-body
       theories and Monte Carlo simulations", Physics Letters A 146 (1990), 319–323.
    .. [Kahan1997] W. Kahan, R.-C. Li, "Composition constants for raising the orders of unconventional schemes for
       ordinary differential equations", Mathematics of Computation 66 (1997), 1089–1099.
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       §II.4, §V.3.2.
    """

    members: tuple[Integrator, ...]
    sequence: tuple[int, ...] = eqx.field(static=True)
    fractions: tuple[float, ...] = eqx.field(static=True)
    composed_order: int = eqx.field(static=True)

    def __init__(
        self,
        members: tuple[Integrator, ...],
        sequence: tuple[int, ...],
        fractions: tuple[float, ...],
        composed_order: int,
    ):
        for given, name, words in ((members, "members", "methods"), (sequence, "sequence", "indices of members")):
            if not isinstance(given, tuple):
                raise TypeError(f"{name} must be a tuple of {words}, got {shortly(given)}")
        for member in members:
            require_method(member, "members")
        as_float64(fractions, "fractions", (len(sequence),))
        self.members, self.sequence, self.fractions = members, sequence, fractions
        self.composed_order = as_count(composed_order, "composed_order")

    @property
    def parts(self) -> tuple[Integrator, ...]:
        """Method of each substep."""
        return tuple(self.members[i] for i in self.sequence)

    @property
    def guarantees(self) -> Guarantees:
        kinds = [member.guarantees for member in self.members]

        def common(values: list[Any], otherwise: Any) -> Any:
            return values[0] if len(set(values)) == 1 else otherwise

        return Guarantees(
            order=self.composed_order,
            symmetric=self._is_symmetric(),
            implicit=any(kind.implicit for kind in kinds),
            constraint=common([kind.constraint for kind in kinds], "none"),
            energy=common([kind.energy for kind in kinds], "never"),
            momentum=common([kind.momentum for kind in kinds], "none"),
            node=common([kind.node for kind in kinds], "impulse"),
            affine=all(kind.affine for kind in kinds),
            multiplier_forces=all(kind.multiplier_forces for kind in kinds),
            nonlinear=all(kind.nonlinear for kind in kinds),
            groups="any" if all(kind.groups == "any" for kind in kinds) else "vector spaces",
            reference="Yoshida 1990; Suzuki 1990; Hairer, Lubich, Wanner 2006, §II.4, §V.3.2",
        )

    def adjoint(self) -> Integrator:
        if self._is_symmetric():
            return self
        members = tuple(member.adjoint() for member in self.members)
        return Composition(members, self.sequence[::-1], self.fractions[::-1], self.composed_order)

    def has_impulses(self, system: System) -> bool:
        return any(member.has_impulses(system) for member in self.members)

    def refuse(self, system: System) -> None:
        for member in self.members:
            member.refuse(system)

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        for member in self.members:
            member.refuse_start(system, dt * max(map(abs, self.fractions)), g0, xi0)

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        within: Array | bool = True
        for member in self.members:
            one = member.within_limits(system, dt * max(map(abs, self.fractions)), g0, xi0)
            within = one if within is True else within & one
        return within

    @property
    def limits_starts(self) -> bool:
        return any(member.limits_starts for member in self.members)

    def impulse_step(self, clock: Clock) -> Array:
        return self.parts[0].impulse_step(clock._replace(dt=self.fractions[0] * clock.dt))

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        inner = clock.part(0, 0.0, self.fractions[0])
        outcomes = [member.init(system, inner, g0, xi0) for member in self.members]
        return outcomes[0]._replace(memory=tuple(one.memory for one in outcomes))

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Any:
        """One ``Warm`` start for each substep, ``xi`` of shape=[n]; stacked if there is a single method."""
        zero = jnp.asarray(0)
        warm_starts = [
            part.cold(system, clock.part(k, 0.0, fraction), zero, g, xi)
            for part, fraction in zip(self.parts, self.fractions, strict=True)
        ]
        return jax.tree.map(lambda *a: jnp.stack(a), *warm_starts) if len(self.members) == 1 else tuple(warm_starts)

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        """Largest residual, a scalar, of the substep that fails, or of the last."""
        inner, residual = self._substep_node(state), jnp.zeros(())
        for i, part in enumerate(self.parts):
            at = clock.part(state.k, sum(self.fractions[:i]), self.fractions[i])
            mine, fine = self._substep_start(inner, state, i), inner.status == 0
            residual = jnp.where(fine, part.residual(system, at, mine), residual)
            new = part.next_node(system, at, mine)
            inner = new._replace(k=inner.k, status=jnp.where(fine, new.status, inner.status))
        return residual

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        fractions = np.array(self.fractions)
        done, ratios = np.cumsum(fractions) - fractions, np.roll(fractions, -1) / fractions

        def substep(which: int, state: State, memory: Any, warm: Any, at: tuple[Array, ...]) -> tuple[State, Any, Any]:
            """Node after a substep, its impulse rescaled for the next; the method's memory and warm start."""
            fraction, done, ratio = at
            inner = clock.part(k, done, fraction)
            new = self.members[which].next_node(system, inner, state._replace(memory=memory, warm=warm))
            middle, half = (new.p_plus + new.p_minus) / 2, ratio * (new.p_minus - new.p_plus) / 2
            status = jnp.where(state.status == 0, new.status, state.status)
            entering = state._replace(
                g=new.g, p_plus=middle - half, p_minus=middle + half, rows=new.rows, status=status
            )
            return entering, new.memory, new.warm

        k, inner, memory = state.k, self._substep_node(state), list(state.memory)
        if len(self.members) == 1:
            # One program for all the substeps: composed nine times, it is compiled once.
            def one(carry: tuple, column: tuple) -> tuple[tuple, Any]:
                inner, memory, warm = substep(0, *carry, column[0], column[1])
                return (inner, memory), warm

            columns = (state.warm, tuple(map(jnp.asarray, (fractions, done, ratios))))
            (inner, memory[0]), warm = lax.scan(one, (inner, memory[0]), columns)
        else:
            warm_starts = []
            for i, which in enumerate(self.sequence):
                at = tuple(map(jnp.asarray, (fractions[i], done[i], ratios[i])))
                inner, memory[which], new_warm = substep(which, inner, memory[which], state.warm[i], at)
                warm_starts.append(new_warm)
            warm = tuple(warm_starts)
        return Outcome(inner.g, inner.p_plus, inner.p_minus, tuple(memory), warm, status=inner.status)

    def _substep_node(self, state: State) -> State:
        """Node as seen by the substeps: each has its own step count, memory and warm start."""
        return state._replace(k=jnp.zeros_like(state.k), memory=(), warm=(), status=jnp.asarray(state.status, np.int32))

    def _substep_start(self, inner: State, state: State, i: int) -> State:
        """Initial node of substep i of a step from ``state``."""
        one = len(self.members) == 1
        warm = jax.tree.map(lambda a: a[i], state.warm) if one else state.warm[i]
        return inner._replace(memory=state.memory[self.sequence[i]], warm=warm)

    def _is_symmetric(self) -> bool:
        mirrored = zip(self.parts, self.fractions, reversed(self.parts), reversed(self.fractions), strict=True)
        return all(np.isclose(c, d, rtol=1e-15) and same(a, b.adjoint()) for a, c, b, d in mirrored)


def compose(method: Integrator, coefficients: str | Sequence[float], order: int | None = None) -> Composition:
    """Compose a method with itself.

    Source: Yoshida (1990), Suzuki (1990), Kahan, Li (1997); Hairer, Lubich, Wanner (2006), §II.4 and §V.3.2.

    Parameters
    ----------
    method : Integrator
        One-step method.
    coefficients : str or sequence of float
        "yoshida4", "suzuki4", "yoshida6", "kahan-li6", or fractions of the step that sum to one.
    order : int, optional
        Order of user-defined coefficients; when left out, it follows from Σcᵢ^{p+1} = 0 and symmetry. An order r
        requires Σcᵢ^k = 0 for all k from p + 1 to r, the odd ones where the method is symmetric.

    Returns
    -------
    Composition

    Raises
    ------
    ValueError, TypeError
        For an unknown name, or fractions that do not sum to one or vanish, an order that they do not have, or an
        invalid method.
    """
    require_method(method, "a method")
    if method.holds in (NextStep, Pace):
        raise ValueError(f"{type(method).__name__} keeps the next step in its node, so it cannot be composed")
    if order is not None:
        order = as_count(order, "order")
    if isinstance(coefficients, str):
        if coefficients not in COEFFICIENTS:
            raise ValueError(
                f"coefficients must be one of {list(COEFFICIENTS)} or numbers, got {shortly(coefficients)}"
            )
        fractions = COEFFICIENTS[coefficients]
        if order is None and method.guarantees.symmetric and method.order == 2 and method.guarantees.node == "velocity":
            order = int(coefficients[-1])
    else:
        given = as_constant(coefficients, "coefficients", None)
        if given.ndim != 1:
            raise ValueError(f"coefficients must be a list of fractions, shape [s], got shape {list(given.shape)}")
        fractions = tuple(map(float, given))
    if not abs(sum(fractions) - 1) <= 1e-12 or any(c == 0 for c in fractions):
        raise ValueError(f"coefficients must sum to one and none may vanish, got {fractions}")
    if order is None:
        order = _order(method, fractions)
    for k in range(method.order + 1, order + 1):
        if (k % 2 or not method.guarantees.symmetric) and not abs(_powers(fractions, k)) <= 1e-12:
            raise ValueError(
                f"these coefficients do not give order {order} to {type(method).__name__}, of order {method.order}: "
                f"the sum of their powers {k} is {_powers(fractions, k):.3g}, not zero"
            )
    return Composition((method,), (0,) * len(fractions), fractions, order)


def same(a: Integrator, b: Integrator) -> bool:
    """True if two methods are the same."""
    return repr(a) == repr(b)


def pair(a: Integrator, b: Integrator) -> Composition:
    """``a @ b``, a ∘ b at half steps: b over half a step, then a over the other half."""
    for method in (a, b):
        require_method(method, "a method")
        refuse_memory(method, "cannot be composed with another method")
    if a.guarantees.node != b.guarantees.node:
        kinds = " and ".join(f"that of {type(m).__name__} is {m.guarantees.node!r}" for m in (a, b))
        raise ValueError(f"composed methods must have the same kind of node; {kinds}")
    order = max(2, min(a.order, b.order)) if same(a, b.adjoint()) else min(a.order, b.order)
    return Composition((b, a), (0, 1), (0.5, 0.5), order)


Integrator.__matmul__ = pair


def _powers(fractions: tuple[float, ...], k: int) -> float:
    """Sum Σcᵏ, which may overflow."""
    with np.errstate(all="ignore"):
        return sum(np.float64(c) ** k for c in fractions)


def _order(method: Integrator, fractions: tuple[float, ...]) -> int:
    p = method.order
    if method.guarantees.node != "velocity" or not abs(_powers(fractions, p + 1)) <= 1e-12:
        return p
    palindromic = np.allclose(fractions, fractions[::-1], rtol=1e-14)
    return p + 2 if palindromic and method.guarantees.symmetric and p % 2 == 0 else p + 1


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)

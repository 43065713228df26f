r"""Compositions of one-step methods: Φ_{c_s h} ∘ … ∘ Φ_{c_1 h}, and adjoints Φ*_h = Φ_{−h}⁻¹.

A symmetric method of order 2 composed with Σcᵢ = 1, Σcᵢ³ = 0 and a palindromic sequence has order 4 (Yoshida 1990;
Suzuki 1990); the seven- and nine-stage sequences give order 6 (Yoshida 1990, solution A; Kahan, Li 1997; Hairer,
Lubich, Wanner, *Geometric Numerical Integration*, §V.3.2). ``a @ b`` is a_{h/2} ∘ b_{h/2}: of order 2 if a is the
adjoint of b.

Each substep begins Newton's iteration from what the same substep found in the last steps. Between substeps of different
length a method whose momentum jumps at the node hands over (p̃, λ): its outgoing momentum is p̃ plus half the impulse,
and the impulse is scaled with the length. Its multipliers alternate from node to node, so beyond order 2 nothing is
gained by composing it; the methods in quasi-velocities gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Guarantees, Integrator, State
from geonh.mechanics.system import System
from geonh.numerics.newton import Newton, no_inverse

_CUBE_ROOT = 2.0 ** (1 / 3)
_Y = (0.78451361047755726382, 0.23557321335935813368, -1.17767998417887100695)
_K = (0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981, 0.08221359629355080023)

COEFFICIENTS: dict[str, tuple[float, ...]] = {
    "yoshida4": (1 / (2 - _CUBE_ROOT), -_CUBE_ROOT / (2 - _CUBE_ROOT), 1 / (2 - _CUBE_ROOT)),
    "suzuki4": (*[1 / (4 - 4 ** (1 / 3))] * 2, 1 - 4 / (4 - 4 ** (1 / 3)), *[1 / (4 - 4 ** (1 / 3))] * 2),
    "yoshida6": (*_Y, 1 - 2 * sum(_Y), *_Y[::-1]),
    "kahan-li6": (*_K, 1 - 2 * sum(_K), *_K[::-1]),
}
"""Sequences by name; the digit is the order that they give to a symmetric method of order 2."""


class Composition(Integrator):
    """Methods one after the other, each over its fraction of the step.

    Made by ``a @ b`` and ``compose``.
    """

    members: tuple[Integrator, ...]
    sequence: tuple[int, ...] = eqx.field(static=True)
    fractions: tuple[float, ...] = eqx.field(static=True)
    composed_order: int = eqx.field(static=True)

    @property
    def parts(self) -> tuple[Integrator, ...]:
        """The method of each substep."""
        return tuple(self.members[i] for i in self.sequence)

    @property
    def guarantees(self) -> Guarantees:
        kinds = [member.guarantees for member in self.members]

        def common(values: list[str], otherwise: str) -> str:
            return values[0] if len(set(values)) == 1 else otherwise

        return Guarantees(
            order=self.composed_order,
            symmetric=self._is_symmetric(),
            implicit=any(kind.implicit for kind in kinds),
            constraint=common([kind.constraint for kind in kinds], "none"),
            energy=common([kind.energy for kind in kinds], "never"),
            momentum=common([kind.momentum for kind in kinds], "none"),
            affine=all(kind.affine for kind in kinds),
            groups="any" if all(kind.groups == "any" for kind in kinds) else "vector spaces",
            reference="Yoshida 1990; Suzuki 1990; Hairer, Lubich, Wanner 2006, §II.4, §V.3.2",
        )

    @property
    def jumps(self) -> bool:  # type: ignore[override]
        return self.parts[-1].jumps

    def adjoint(self) -> Integrator:
        if self._is_symmetric():
            return self
        members = tuple(member.adjoint() for member in self.members)
        return Composition(members, self.sequence[::-1], self.fractions[::-1], self.composed_order)

    def refuse(self, system: System) -> None:
        for member in self.members:
            member.refuse(system)

    def multipliers(self, system: System, clock: Clock, k: Array, g: Point, p_plus: Array, p_minus: Array) -> Array:
        inner = clock.part(k, 0.0, self.fractions[0])  # the impulse at a node is kept for the next substep
        return self.parts[-1].multipliers(system, inner, jnp.asarray(0), g, p_plus, p_minus)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        inner = clock.part(0, 0.0, self.fractions[0])
        state = self.parts[0].init(system, inner, g0, xi0)
        for part in self.members[1:]:
            other = jax.eval_shape(lambda part=part: part.init(system, inner, g0, xi0))  # type: ignore[misc]
            if any(getattr(other, n).shape != getattr(state, n).shape for n in ("increment", "rows", "inverse")):
                raise ValueError(f"{type(part).__name__} and {type(self.parts[0]).__name__} keep different states")
        lengths = np.array(self.fractions) / self.fractions[0]
        return state._replace(increment=jnp.stack([length * state.increment for length in lengths]))

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        inner = clock.part(state.k, 0.0, self.fractions[0])
        start = state._replace(k=jnp.asarray(0), increment=state.increment[0])
        return self.parts[0].residual(system, inner, start, new._replace(increment=new.increment[0]))

    def step(self, system: System, clock: Clock, state: State) -> State:
        k, increments = state.k, state.increment
        fractions = np.array(self.fractions)
        done, ratios = np.cumsum(fractions) - fractions, np.roll(fractions, -1) / fractions

        def substep(part: Integrator, state: State, at: tuple[Array, ...]) -> tuple[State, Array]:
            fraction, done, ratio, increment = at
            start = state._replace(k=jnp.zeros_like(k), increment=increment)
            new = part.step(system, clock.part(k, done, fraction), start)
            status = jnp.where(state.status == 0, new.status, state.status)
            return part.stretched(new, ratio)._replace(k=k, status=status, increment=jnp.zeros(0)), new.increment

        at = tuple(map(jnp.asarray, (fractions, done, ratios, increments)))
        state = state._replace(k=jnp.asarray(k), status=jnp.asarray(state.status), increment=jnp.zeros(0))
        if len(self.members) == 1:
            # One program for all the substeps: composed nine times, it is compiled once.
            state, increments = lax.scan(partial(substep, self.members[0]), state, at)
        else:
            made = []
            for i, part in enumerate(self.parts):
                state, increment = substep(part, state, tuple(entry[i] for entry in at))
                made.append(increment)
            increments = jnp.stack(made)
        return state._replace(k=k + 1, increment=increments)

    def stretched(self, state: State, ratio: Array | float) -> State:
        return self.parts[0].stretched(state, ratio)

    def _is_symmetric(self) -> bool:
        mirrored = zip(self.parts, self.fractions, reversed(self.parts), reversed(self.fractions), strict=True)
        return all(np.isclose(c, d, rtol=1e-15) and same(a, b.adjoint()) for a, c, b, d in mirrored)


class Adjoint(Integrator):
    """Φ*_h = Φ_{−h}⁻¹ of a method in velocities at the nodes, by Newton's method on Φ_{−h}(g₁, p₁) = (g₀, p₀).

    Made by ``method.adjoint()``.

    Raises
    ------
    ValueError
        If the state holds more than g and a velocity: the next increment, or multipliers.
    """

    method: Integrator
    newton: Newton

    def __check_init__(self) -> None:
        _require_one_step(self.method)

    @property
    def guarantees(self) -> Guarantees:
        of = self.method.guarantees
        return Guarantees(
            of.order, False, True, of.constraint, of.energy, "none", of.affine, of.groups, "Hairer et al. 2006, §II.3"
        )

    def adjoint(self) -> Integrator:
        return self.method

    def refuse(self, system: System) -> None:
        self.method.refuse(system)
        if self.method.guarantees.energy == "projected":
            raise ValueError(f"{type(self.method).__name__} puts the energy back; that has no inverse, so no adjoint")

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        return self.method.init(system, clock, g0, xi0)

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        n = system.group.dim
        zeta = system.group.log(system.group.compose(system.group.inverse(state.g), new.g))
        return jnp.max(jnp.abs(self._mismatch(system, clock, state)(jnp.concatenate([zeta, new.p_minus[:n]]))))

    def step(self, system: System, clock: Clock, state: State) -> State:
        group, n = system.group, system.group.dim
        ahead = self.method.step(system, clock, state)
        zeta = group.log(group.compose(group.inverse(state.g), ahead.g))
        guess = jnp.concatenate([zeta, ahead.p_minus])
        root, solved, _ = self.newton.follow(self._mismatch(system, clock, state), guess, no_inverse(guess.size))
        p = root[n:]
        g = group.compose(state.g, group.exp(root[:n]))
        status = jnp.where(solved, ahead.status, jnp.int32(1))
        return ahead._replace(k=state.k + 1, g=g, p_plus=p, p_minus=p, status=status)

    def _mismatch(self, system: System, clock: Clock, state: State):  # type: ignore[no-untyped-def]
        group, n = system.group, system.group.dim
        back = clock.part(state.k, 1.0, -1.0)

        def mismatch(z: Array) -> Array:
            g, p = group.compose(state.g, group.exp(z[:n])), z[n:]
            there = self.method.step(system, back, state._replace(k=jnp.asarray(0), g=g, p_plus=p, p_minus=p))
            missed = group.log(group.compose(group.inverse(state.g), there.g))
            normal = system.normal_momentum(system.action.at(g), p)
            return jnp.concatenate([missed, there.p_minus - state.p_minus + normal])

        return mismatch


def compose(method: Integrator, coefficients: str | Sequence[float], order: int | None = None) -> Composition:
    """Compose a method with itself.

    Parameters
    ----------
    method : Integrator
        One-step method.
    coefficients : str or sequence of float
        "yoshida4", "suzuki4", "yoshida6", "kahan-li6", or fractions of the step that sum to one.
    order : int, optional
        Order of a sequence of one's own; when left out, what follows from Σcᵢ^{p+1} = 0 and symmetry.

    Returns
    -------
    Composition

    Raises
    ------
    ValueError
        For an unknown name, or fractions that do not sum to one or vanish.
    """
    _require_one_step(method)
    if isinstance(coefficients, str):
        if coefficients not in COEFFICIENTS:
            raise ValueError(f"coefficients must be one of {list(COEFFICIENTS)} or numbers, got {coefficients!r}")
        fractions = COEFFICIENTS[coefficients]
        if order is None and method.guarantees.symmetric and method.order == 2 and not method.jumps:
            order = int(coefficients[-1])
    else:
        fractions = tuple(float(c) for c in coefficients)
    if abs(sum(fractions) - 1) > 1e-12 or any(c == 0 for c in fractions):
        raise ValueError(f"coefficients must sum to one and none may vanish, got {fractions}")
    if order is None:
        order = _order(method, fractions)
    return Composition((method,), (0,) * len(fractions), fractions, order)


def _require_one_step(method: Integrator) -> None:
    if method.looks_ahead:
        name = type(method).__name__
        raise ValueError(f"{name} holds more than a velocity in its state: it cannot be composed and has no adjoint")


def same(a: Integrator, b: Integrator) -> bool:
    """Whether two methods are the same."""
    return repr(a) == repr(b)


def pair(a: Integrator, b: Integrator) -> Composition:
    """a ∘ b at half steps: b first."""
    _require_one_step(a)
    _require_one_step(b)
    order = max(2, min(a.order, b.order)) if same(a, b.adjoint()) else min(a.order, b.order)
    return Composition((b, a), (0, 1), (0.5, 0.5), order)


def _order(method: Integrator, fractions: tuple[float, ...]) -> int:
    p = method.order
    if method.jumps or abs(sum(c ** (p + 1) for c in fractions)) > 1e-12:
        return p
    palindromic = np.allclose(fractions, fractions[::-1], rtol=1e-14)
    return p + 2 if palindromic and method.guarantees.symmetric and p % 2 == 0 else p + 1

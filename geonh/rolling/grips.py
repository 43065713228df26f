r"""Contacts that hold up to a force: the modes of a system in which each of them holds or slips.

A grip is one row among the forms or two, which give way together beyond F_s, or μ_s times a normal force; ``slipping``
says by which equations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.distribution import AffineDistribution
from geonh.geometry.field import Moment
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.friction import Friction, Frictions, limits_fault
from geonh.mechanics.impacts import struck
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.system import System, replaced
from geonh.results.events import ContactEvent, SlipEnds
from geonh.results.modes import Transition
from geonh.rolling.beginnings import beginning
from geonh.rolling.grip import FREE, HOLDS, SLIPS, Grip
from geonh.rolling.landing import AfterLanding, Gap, Landing

GRIP = "grip"
"""Name of the mode in which all rows hold."""
SLACK = 1e-12
"""Velocity against its sign, m/s, at which a slip ends: more than the rounding of one that begins."""


def modes_of(
    system: System, grips: Mapping[str, Grip], named: Callable[[tuple[int, ...]], str], lifted: Callable[[str], Any]
) -> tuple[dict[str, System], list[Transition]]:
    """Modes of a system in which all grips hold, by name, and the transitions between them.

    Parameters
    ----------
    system : System
    grips : mapping of str to Grip
    named : callable
        Name of the mode in which the grips have these states.
    lifted : callable
        Target, of the name of a grip, where the normal force of one vanishes that has no restitution.
    """
    (held, count), every = sizes(system), _combinations(grips)
    modes = {named(states): _reduced(system, grips, states, held, count, named(states)) for states in every}
    transitions: list[Transition] = []
    all_of_them, lifting = tuple(grips.values()), tuple(law for law in grips.values() if law.lifts)
    names = tuple(map(named, every))
    for states in every:
        pressed: list[Any] = []
        mode, places = named(states), _places(grips, states, held, count)
        both = zip(all_of_them, states, strict=True)
        bare = named(tuple(FREE if law.lifts else law.states[1] if law.normal is None else s for law, s in both))
        for i, (name, law) in enumerate(grips.items()):

            def to(state: int, i: int = i, states: tuple[int, ...] = states) -> str:
                return named((*states[:i], state, *states[i + 1 :]))

            if states[i] == FREE:
                lands = ContactEvent(Gap(system, law.normal), direction=-1, name=f"{name} lands")
                after = AfterLanding(system, all_of_them, states, names)
                transitions.append(Transition(mode, lands, after, Landing(modes[bare], system, lifting)))
                continue
            which = states[:i].count(SLIPS)
            friction = law.friction(system).among(places, held + count)
            if law.normal is not None and law.normal not in pressed:
                pressed.append(law.normal)
                lifts = ContactEvent(_Normal(friction, system), direction=-1, name=f"{name} lifts")
                transitions.append(Transition(mode, lifts, to(FREE) if law.lifts else lifted(name)))
            if states[i] == SLIPS:
                transitions.append(Transition(mode, SlipEnds(name=f"{name} grips", which=which), to(0)))
            elif states[i]:
                ends = ContactEvent(_Slip(system, law.rows[0], states[i]), direction=-1, name=f"{name} grips")
                transitions.append(Transition(mode, ends, to(0)))
            elif SLIPS in law.states:
                at = tuple(places.index(held + row) for row in law.rows)
                margin = _CircleMargin(law.static, law.kinetic, at, friction, system)
                begins = ContactEvent(margin, direction=-1, name=f"{name} slips")
                reset = _Begins(modes[mode], modes[to(SLIPS)], which, at, system, law.rows, law.frame)
                transitions.append(Transition(mode, begins, to(SLIPS), reset))
            else:
                for sign in (1, -1):
                    one = _RowMargin(law.static, law.kinetic, places.index(held + law.rows[0]), sign)
                    begins = ContactEvent(one, direction=-1, name=f"{name} slips {'+' if sign > 0 else '−'}")
                    transitions.append(Transition(mode, begins, to(sign)))
    return modes, transitions


def rows_of(system: System, grips: Mapping[str, Grip], named: Callable[[tuple[int, ...]], str]) -> dict[str, list[int]]:
    """Places of the multipliers of each mode of ``modes_of`` among those of the system."""
    held, count = sizes(system)
    return {named(states): _places(grips, states, held, count) for states in _combinations(grips)}


def named_by(grips: Mapping[str, Grip]) -> Callable[[tuple[int, ...]], str]:
    """Names of modes by those of the grips that slip, with a sign where they have one."""
    words = {1: "+", -1: "−", SLIPS: "slips", FREE: "free"}

    def named(states: tuple[int, ...]) -> str:
        slips = [f"{name} {words[state]}" for name, state in zip(grips, states, strict=True) if state]
        return " and ".join(slips) or GRIP

    return named


def _combinations(grips: Mapping[str, Grip]) -> list[tuple[int, ...]]:
    """States of all grips, in all modes."""
    return list(itertools.product(*(law.states for law in grips.values())))


def sizes(system: System) -> tuple[int, int]:
    """Numbers of holonomic rows and of forms."""
    x = system.at(system.group.identity(), 0.0)
    held = jax.eval_shape(lambda: system.holonomic_rows(x)).shape[0]
    return held, jax.eval_shape(lambda: system.annihilator(x)).shape[0] - held


def _places(grips: Mapping[str, Grip], states: tuple[int, ...], held: int, count: int) -> list[int]:
    """Places of the rows that hold, of positions and then of forms, among those of the whole system."""
    both = list(zip(grips.values(), states, strict=True))
    gone = [held + row for law, state in both if state for row in law.rows]
    gone += [law.normal for law, state in both if state == FREE]
    return [place for place in range(held + count) if place not in gone]


def _reduced(
    system: System, grips: Mapping[str, Grip], states: tuple[int, ...], held: int, count: int, mode: str
) -> System:
    """The system with some of its constraints alone, and the forces of those that slip."""
    slips = [(law, state) for law, state in zip(grips.values(), states, strict=True) if state not in (HOLDS, FREE)]
    name = f"{system.name}, {mode}"
    if not any(states):
        return replaced(system, name=name)
    assert system.distribution is not None
    places = _places(grips, states, held, count)
    kept = [place - held for place in places if place >= held]
    changes: dict[str, Any] = {"distribution": system.distribution.of_rows(np.eye(count)[kept]) if kept else None}
    if FREE in states:
        assert system.holonomic is not None
        heights = [place for place in places if place < held]
        changes["holonomic"] = system.holonomic.of_rows(jnp.eye(held)[jnp.array(heights)]) if heights else None
    if along := [(law.rows[0], state, law.kinetic) for law, state in slips if state != SLIPS]:
        forces = _Rubbing(system.distribution, system.forces, system.forces_take_parameters, along)
        changes |= {"forces": forces, "forces_take_parameters": True}
    own = () if system.multiplier_forces is None else system.multiplier_forces.function.parts
    if frictions := [*(law.friction(system) for law, state in slips if state == SLIPS), *own]:
        every = Frictions([one.among(places, held + count) for one in frictions])
        changes["multiplier_forces"] = MultiplierForces(every)
    return replaced(system, **changes, name=name)


class _Rubbing(eqx.Module):
    """Forces of a system, and those of rows that slip."""

    distribution: Any
    forces: Callable | None
    takes: bool = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    signs: tuple[int, ...] = eqx.field(static=True)
    sizes: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, distribution: Any, forces: Any, takes: bool, slips: list) -> None:
        self.distribution, self.forces, self.takes = distribution, forces, takes
        self.rows, self.signs, self.sizes = zip(*slips, strict=True)

    @property
    def only_takes(self) -> bool:
        """True if these forces take energy, as those on what does not move by itself, and there are no others."""
        return self.forces is None and not isinstance(self.distribution, AffineDistribution)

    def __call__(self, t: Any, x: Any, xi: Array, u: Any, parameters: Any) -> Array:
        rows = self.distribution.annihilator(Moment(jnp.asarray(t, float), x), parameters)
        size = jnp.stack([jnp.asarray(parameters[name]) for name in self.sizes])
        rubbing = -(np.array(self.signs) * jnp.where(size >= 0, size, jnp.nan)) @ rows[jnp.array(self.rows)]
        if self.forces is None:
            return rubbing
        more = (parameters,) if self.takes else ()
        return jnp.asarray(self.forces(t, x, xi, u, *more)) + rubbing


class _Margin(eqx.Module):
    """Guard of a grip, whose limits are parameters of these names."""

    static: str = eqx.field(static=True)
    kinetic: str = eqx.field(static=True)

    def fault(self, parameters: Any) -> str:
        """Fault of the limits, as far as they are known; "" if there is none."""
        return limits_fault(parameters, self.static, self.kinetic)


class _RowMargin(_Margin):
    """Force that is left until a row slips with this sign: the force along it is then of the other sign."""

    place: int = eqx.field(static=True)
    sign: int = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        return parameters[self.static] + self.sign * lam[self.place]


class _CircleMargin(_Margin):
    """Force that is left until rows slip, F_s − |λ|, of which some places among the multipliers are λ."""

    places: tuple[int, ...] = eqx.field(static=True)
    friction: Friction
    system: System

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        force = lam[jnp.array(self.places)]
        most = parameters[self.static] * _pressed(self, t, g, lam, parameters)
        return most - jnp.sqrt(force @ force + np.finfo(float).tiny)


class _Normal(eqx.Module):
    """Normal force of a contact, as a guard."""

    friction: Friction
    system: System

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        return _pressed(self, t, g, lam, parameters)


def _pressed(guard: _CircleMargin | _Normal, t: Any, g: Any, lam: Array, parameters: Any) -> Array:
    return guard.friction.normal_force(t, guard.system.action.at(g), lam, parameters)


class _Begins(eqx.Module):
    """Velocity with which rows begin to slip, while the others go on as they are."""

    holds: System
    slides: System
    which: int = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    whole: System
    rows: tuple[int, ...] = eqx.field(static=True)
    frame: Callable | None
    u: Any = None

    def driven_by(self, u: Any) -> _Begins:
        """The same under controls."""
        return replaced(self, u=u)

    def __call__(self, t: Array, g: Any, xi: Array) -> Array:
        x, of_rows, D = self.holds.at(g, t), jnp.array(self.rows), self.whole.distribution
        assert D is not None
        at, parameters = Moment(jnp.asarray(t, float), x.x if isinstance(x, Moment) else x), self.holds.parameters
        lam = accelerations_at(self.holds, t, x, xi, self.u)[1][jnp.array(self.places)]
        basis = jnp.eye(len(self.rows)) if self.frame is None else self.frame(at.t, at.x, parameters)
        slip = beginning(self.slides, self.which, t, x, xi, lam, basis, self.u) * (1 + jnp.max(jnp.abs(xi)))
        rows = D.annihilator(at, parameters)[of_rows]
        still = rows @ xi - D.residual(xi, at, parameters)[of_rows]
        return struck(self.slides, x, xi, rows, still + slip).xi


class _Slip(eqx.Module):
    """Velocity along a row that slips, with its sign, and what it may be less than zero."""

    system: System
    row: int = eqx.field(static=True)
    sign: int = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array) -> Array:
        assert self.system.distribution is not None
        x = self.system.at(g, t)
        return self.sign * self.system.distribution.residual(xi, x, self.system.parameters)[self.row] + SLACK

r"""Constraints that hold up to a force: knife edges, wheels and contacts that slip, and grip again.

A row μ_i ξ = b_i of a system holds as long as its multiplier, the force along it, is |λ_i| ≤ F_s, and beyond that gives
way to the velocity w = μ_i ξ − b_i, against the force F along it:

    grip    w = 0           as long as |λ_i| ≤ F_s
    slip    −sign(w) F μ_i  as long as w keeps its sign, F ≤ F_s.

Each sign of w is a mode of its own, so that forces are smooth within a mode. Where w vanishes the row holds again, if
|λ_i| ≤ F_s there, and gives way to the other side at once if not. This is Coulomb's law for a known normal force.

Two rows of one contact, as of a wheel that is held sideways and driven, give way together, with w of shape=[2]:

    grip    w = 0           as long as |λ| ≤ F_s
    slips   −F μᵀw/|w|      until w vanishes.

Where the normal force N is a multiplier too, as of a block whose height is held, F_s = μ_s N and F = μN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, close, shortly
from geonh.geometry.field import Moment
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.friction import Friction, Frictions
from geonh.mechanics.impacts import struck
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.system import System, replaced
from geonh.results.events import Event, SlipEnds
from geonh.results.modes import Modes, Transition
from geonh.rolling.beginnings import beginning

GRIP = "grip"
"""Name of the mode in which all rows hold."""
MOST = 4
"""Maximum number of rows that give way: 3ᵏ modes."""
SLACK = 1e-12
"""Velocity against its sign, m/s, at which a slip ends: more than the rounding of one that begins."""


class _Grip(NamedTuple):
    """One row among the forms or two, names of the parameters that are F_s and F, or μ_s and μ of a normal force."""

    rows: tuple[int, ...]
    static: str
    kinetic: str
    normal: Any = None

    @property
    def states(self) -> tuple[int, ...]:
        """0 where it holds, signs of a slip along one row under a known force, 2 of other slips."""
        return (0, 1, -1) if len(self.rows) == 1 and self.normal is None else (0, 2)

    def friction(self, system: System) -> Friction:
        """Friction of the slip along its rows in a system."""
        # of a known force the parameter is the force itself, the coefficient of a load of 1
        pressed = {"load": 1.0} if self.normal is None else {"normal": self.normal}
        return Friction(_SlipOf(system, self.rows), self.kinetic, **pressed)


@validated
def slipping(system: System, grips: Mapping[str, Any]) -> Modes:
    """Modes of a system whose constraints hold up to a force, and slip beyond it.

    Parameters
    ----------
    system : System
        With a distribution given by forms.
    grips : mapping of str to (int or pair of int, float or str or pair of these)
        By a name of each contact that may give way: the place of its row among the forms, or of two orthogonal rows of
        one wheel; and the largest force along it, in newtons where rows are in metres, as a number or the name of a
        parameter; or two, (static, kinetic), at which it gives way and with which it slips. Other rows hold always.
        Numbers become parameters of the modes: "front force", or "front static force" and "front kinetic force". With
        a third entry, the ``normal`` of a ``Friction``, coefficients of that normal force, "front friction" or "front
        static friction" and "front kinetic friction".

    Returns
    -------
    Modes
        "grip", and for rows that slip their names with the sign of their velocity, such as "rear + and front −" or
        "front −"; of two rows, or with a normal force, "front slips". Begin in the one that fits the start: in "grip" with a velocity on all
        constraints. In another one whose sign is not that of the velocity, the row holds at once.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the system has no forms or redundant ones, there is no such row or parameter, a force is negative, or more
        than four contacts may give way.

    Examples
    --------
    >>> import geonh as gn, jax.numpy as jnp
    >>> block = gn.System(
    ...     gn.groups.Translations(2),
    ...     metric=[2.0, 1.0],
    ...     distribution=gn.Distribution([[1.0, 0.0]]),
    ...     forces=lambda t, x, xi, u: jnp.stack([3.0 * t, 0.0 * t]),
    ... )
    >>> pulled = gn.rolling.slipping(block, {"block": (0, 6.0)})
    >>> run = gn.solve(pulled, mode="grip", g0=[0.0, 0.0], xi0=[0.0, 0.0], dt=0.1, n_steps=30)
    >>> bool(abs(run.switches.t[0] - 2.0) < 1e-12)
    True

    References
    ----------
    .. [Ruina1998] A. Ruina, "Nonholonomic stability aspects of piecewise holonomic systems", Rep. Math. Phys. 42
       (1998), 91–100.
    """
    D = system.distribution
    if D is None or D.forms is None:
        raise ValueError(f"{system.name} has no distribution given by forms, whose rows could give way")
    if system.rank is not None:
        raise ValueError(
            f"the constraints of {system.name} are redundant (rank=), so that no force along them is known"
        )
    if system.multiplier_forces is not None and not system.multiplier_forces.loads:
        raise ValueError(f"multiplier_forces of {system.name} must be Friction, beside which contacts may slip")
    if not isinstance(grips, Mapping) or not grips:
        raise TypeError(f"grips must be a mapping such as {{'front': (0, 20.0)}}, got {shortly(grips)}")
    if len(grips) > MOST:
        raise ValueError(f"grips: at most {MOST} contacts may give way, 3ᵏ modes of k, got {len(grips)}")
    x = system.at(system.group.identity(), 0.0)
    held = jax.eval_shape(lambda: system.holonomic_rows(x)).shape[0]
    count = jax.eval_shape(lambda: system.annihilator(x)).shape[0] - held
    laws: dict[str, _Grip] = {}
    more: dict[str, Any] = {}
    for name, given in grips.items():
        laws[name], numbers = _law(system, name, given, count)
        more |= numbers
    system = replaced(system, parameters={**system.parameters, **more})
    rows = [row for law in laws.values() for row in law.rows]
    if len(set(rows)) < len(rows):
        raise ValueError(f"grips: a row has two names, { ({name: law.rows for name, law in laws.items()}) }")
    states = list(itertools.product(*(law.states for law in laws.values())))
    modes = {_named(laws, slips): _reduced(system, laws, slips, count) for slips in states}
    if len(modes) < len(states):
        raise ValueError(f"grips: the names {list(laws)} make equal names of modes: take shorter ones")
    transitions = []
    for slips in states:
        mode, places = _named(laws, slips), _kept(laws, slips, count)
        for i, (name, law) in enumerate(laws.items()):

            def to(state: int, i: int = i, slips: tuple[int, ...] = slips) -> str:
                return _named(laws, (*slips[:i], state, *slips[i + 1 :]))

            if law.normal is not None:
                lifts = Event(_Normal(law.friction(system)), direction=-1, name=f"{name} lifts")
                transitions.append(Transition(mode, lifts, _Lifted(name)))
            if slips[i] == 2:
                which = slips[:i].count(2)
                transitions.append(Transition(mode, SlipEnds(name=f"{name} grips", which=which), to(0)))
            elif slips[i]:
                ends = Event(_Slip(system, law.rows[0], slips[i]), direction=-1, name=f"{name} grips")
                transitions.append(Transition(mode, ends, to(0)))
            elif 2 in law.states:
                at = tuple(held + places.index(row) for row in law.rows)
                margin = _CircleMargin(at, law.static, law.friction(system))
                begins = Event(margin, direction=-1, name=f"{name} slips")
                which = slips[:i].count(2)
                reset = _Begins(modes[mode], modes[to(2)], which, margin.places, system, law.rows)
                transitions.append(Transition(mode, begins, to(2), reset))
            else:
                for sign in (1, -1):
                    one = _Margin(held + places.index(law.rows[0]), sign, law.static)
                    begins = Event(one, direction=-1, name=f"{name} slips {'+' if sign > 0 else '−'}")
                    transitions.append(Transition(mode, begins, to(sign)))
    return Modes(modes, transitions, name=system.name)


def _law(system: System, name: Any, given: Any, count: int) -> tuple[_Grip, dict[str, Any]]:
    """Validated row and forces, and parameters for those that are numbers."""
    if not isinstance(name, str) or not name or name == GRIP:
        raise ValueError(f"grips: names must be text other than {GRIP!r}, got {shortly(name)}")
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(
            f"grips[{name!r}] must be (row, force), or (row, coefficient, normal force), got {shortly(given)}"
        )
    (place, forces), normal = given[:2], given[2] if len(given) > 2 else None
    rows = tuple(place) if isinstance(place, tuple | list) else (place,)
    if len(rows) not in (1, 2):
        raise TypeError(f"grips[{name!r}]: the place must be that of a row, or of two, got {shortly(place)}")
    for row in rows:
        if as_count(row, f"the row of {name}", 0) >= count:
            raise ValueError(f"grips[{name!r}]: {system.name} has {count} forms, and none of number {row}")
    both = tuple(forces) if isinstance(forces, tuple | list) else (forces, forces)
    if len(both) != 2:
        raise TypeError(f"grips[{name!r}]: the force must be a number or two, (static, kinetic), got {shortly(forces)}")
    for force in both:
        if isinstance(force, str) and force not in system.parameters:
            hint = close(force, system.parameters)
            raise ValueError(f"grips[{name!r}]: {system.name} has no parameter {force!r}{hint}")
    static, kinetic = (f if isinstance(f, str) else as_float64(f, f"the force of {name}", ()) for f in both)
    sizes = [float(np.asarray(system.parameters[f])) if isinstance(f, str) else float(f) for f in (static, kinetic)]
    if not sizes[0] >= sizes[1] >= 0:
        raise ValueError(f"grips[{name!r}]: forces must be F ≥ 0, or (F_s, F) with F_s ≥ F ≥ 0, got {shortly(forces)}")
    what = "force" if normal is None else "friction"
    words = (f"static {what}", f"kinetic {what}") if isinstance(forces, tuple | list) else (what, what)
    names = [f if isinstance(f, str) else f"{name} {word}" for f, word in zip((static, kinetic), words, strict=True)]
    numbers = {key: f for key, f in zip(names, (static, kinetic), strict=True) if not isinstance(f, str)}
    if taken := [key for key in numbers if key in system.parameters]:
        raise ValueError(f"grips[{name!r}]: {system.name} has a parameter {taken[0]!r} already: take another name")
    law = _Grip(tuple(map(int, rows)), *names, normal)
    law.friction(system)  # which names what it does not take
    return law, numbers


def _named(laws: Mapping[str, _Grip], states: tuple[int, ...]) -> str:
    """Name of the mode in which contacts hold, 0, or slip, with a sign or 2."""
    words = {1: "+", -1: "−", 2: "slips"}
    slips = [f"{name} {words[state]}" for name, state in zip(laws, states, strict=True) if state]
    return " and ".join(slips) or GRIP


def _kept(laws: Mapping[str, _Grip], states: tuple[int, ...], count: int) -> list[int]:
    """Places of the forms that hold."""
    gone = [row for law, state in zip(laws.values(), states, strict=True) if state for row in law.rows]
    return [row for row in range(count) if row not in gone]


def _reduced(system: System, laws: Mapping[str, _Grip], states: tuple[int, ...], count: int) -> System:
    """The system with some of its forms alone, and the forces of those that slip."""
    slips = [(law, state) for law, state in zip(laws.values(), states, strict=True) if state]
    name = f"{system.name}, {_named(laws, states)}"
    if not slips:
        return replaced(system, name=name)
    assert system.distribution is not None
    kept = _kept(laws, states, count)
    changes: dict[str, Any] = {"distribution": system.distribution.of_rows(np.eye(count)[kept]) if kept else None}
    if along := [(law.rows[0], state, law.kinetic) for law, state in slips if state != 2]:
        forces = _Rubbing(system.distribution, system.forces, system.forces_take_parameters, along)
        changes |= {"forces": forces, "forces_take_parameters": True}
    if circles := [law.friction(system) for law, state in slips if state == 2]:
        own = () if system.multiplier_forces is None else system.multiplier_forces.function.parts
        changes["multiplier_forces"] = MultiplierForces(Frictions([*circles, *own]))
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

    def __call__(self, t: Any, x: Any, xi: Array, u: Any, parameters: Any) -> Array:
        rows = self.distribution.annihilator(Moment(jnp.asarray(t, float), x), parameters)
        size = jnp.stack([sign * parameters[name] for sign, name in zip(self.signs, self.sizes, strict=True)])
        rubbing = -size @ rows[jnp.array(self.rows)]
        if self.forces is None:
            return rubbing
        more = (parameters,) if self.takes else ()
        return jnp.asarray(self.forces(t, x, xi, u, *more)) + rubbing


class _Margin(eqx.Module):
    """Force that is left until a row slips with this sign: the force along it is then of the other sign."""

    place: int = eqx.field(static=True)
    sign: int = eqx.field(static=True)
    size: str = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        return parameters[self.size] + self.sign * lam[self.place]


class _CircleMargin(eqx.Module):
    """Force that is left until rows slip, F_s − |λ|, of which some places among the multipliers are λ."""

    places: tuple[int, ...] = eqx.field(static=True)
    size: str = eqx.field(static=True)
    friction: Friction

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        force = lam[jnp.array(self.places)]
        return parameters[self.size] * _pressed(self.friction, t, g, lam, parameters) - jnp.sqrt(
            force @ force + np.finfo(float).tiny
        )


class _Normal(eqx.Module):
    """Normal force of a contact, as a guard."""

    friction: Friction

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        return _pressed(self.friction, t, g, lam, parameters)


def _pressed(friction: Friction, t: Any, g: Any, lam: Array, parameters: Any) -> Array:
    x = friction.slip.system.at(g, t)  # type: ignore[attr-defined]
    return friction.normal_force(t, x.x if isinstance(x, Moment) else x, lam, parameters)


class _Lifted(eqx.Module):
    """Target where the normal force of a contact vanishes: there is no mode for that."""

    name: str = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Any) -> str:
        raise ValueError(
            f"the normal force of {self.name!r} vanishes at t = {float(t):g}: it would pull from there on. End the run "
            "before, by t_end or an event, or take modes of your own with one for a contact that is open"
        )


class _SlipOf(eqx.Module):
    """Velocity along two rows, m/s, shape=[2], of the system in which they are."""

    system: System
    rows: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, t: Any, x: Any, xi: Array, parameters: Any) -> Array:
        D = self.system.distribution
        assert D is not None
        return D.residual(xi, Moment(jnp.asarray(t, float), x), parameters)[jnp.array(self.rows)]


class _Begins(eqx.Module):
    """Velocity with which two rows begin to slip, while the others go on as they are."""

    holds: System
    slides: System
    which: int = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    whole: System
    rows: tuple[int, ...] = eqx.field(static=True)
    u: Any = None

    def driven_by(self, u: Any) -> _Begins:
        """The same under controls."""
        return replaced(self, u=u)

    def __call__(self, t: Array, g: Any, xi: Array) -> Array:
        x, of_rows, D = self.holds.at(g, t), jnp.array(self.rows), self.whole.distribution
        assert D is not None
        lam = accelerations_at(self.holds, t, x, xi, self.u)[1][jnp.array(self.places)]
        basis = jnp.eye(len(self.rows))
        slip = beginning(self.slides, self.which, t, x, xi, lam, basis, self.u) * (1 + jnp.max(jnp.abs(xi)))
        at, parameters = Moment(jnp.asarray(t, float), x.x if isinstance(x, Moment) else x), self.holds.parameters
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

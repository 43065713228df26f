r"""Constraints that hold up to a force: knife edges, wheels and contacts that slip, and grip again.

A row μ_i ξ = b_i of a system holds as long as its multiplier, the force along it, is |λ_i| ≤ F_s, and beyond that gives
way to the velocity w = μ_i ξ − b_i, against the force F along it:

    grip    w = 0           as long as |λ_i| ≤ F_s
    slip    −sign(w) F μ_i  as long as w keeps its sign, F ≤ F_s.

Each sign of w is a mode of its own, so that forces are smooth within a mode. Where w vanishes the row holds again, if
|λ_i| ≤ F_s there, and gives way to the other side at once if not. This is Coulomb's law for a known normal force, each
row by itself: of a wheel that is held sideways and driven, it bounds the two forces one by one.
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
from geonh.mechanics.system import System, replaced
from geonh.results.events import Event
from geonh.results.modes import Modes, Transition

GRIP = "grip"
"""Name of the mode in which all rows hold."""
MOST = 4
"""Maximum number of rows that give way: 3ᵏ modes."""
SLACK = 1e-12
"""Velocity against its sign, m/s, at which a slip ends: more than the rounding of one that begins."""


class _Grip(NamedTuple):
    """A row among the forms, and names of the parameters that are F_s and F."""

    row: int
    static: str
    kinetic: str


@validated
def slipping(system: System, grips: Mapping[str, Any]) -> Modes:
    """Modes of a system whose constraints hold up to a force, and slip beyond it.

    Parameters
    ----------
    system : System
        With a distribution given by forms.
    grips : mapping of str to (int, float or str or pair of these)
        By a name of each row that may give way: its place among the forms, and the largest force along it, in newtons
        where rows are in metres, as a number or the name of a parameter; or two, (static, kinetic), at which it gives
        way and with which it slips. Other rows hold always. Numbers become parameters of the modes: "front force", or
        "front static force" and "front kinetic force".

    Returns
    -------
    Modes
        "grip", and for rows that slip their names with the sign of their velocity, such as "rear + and front −" or
        "front −". Begin in the one that fits the start: in "grip" with a velocity on all constraints. In another one
        whose sign is not that of the velocity, the row holds at once.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the system has no forms or redundant ones, there is no such row or parameter, a force is negative, or more
        than four rows may give way.

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
    if not isinstance(grips, Mapping) or not grips:
        raise TypeError(f"grips must be a mapping such as {{'front': (0, 20.0)}}, got {shortly(grips)}")
    if len(grips) > MOST:
        raise ValueError(f"grips: at most {MOST} rows may give way, 3ᵏ modes of k rows, got {len(grips)}")
    x = system.at(system.group.identity(), 0.0)
    held = jax.eval_shape(lambda: system.holonomic_rows(x)).shape[0]
    count = jax.eval_shape(lambda: system.annihilator(x)).shape[0] - held
    laws: dict[str, _Grip] = {}
    more: dict[str, Any] = {}
    for name, given in grips.items():
        laws[name], numbers = _law(system, name, given, count)
        more |= numbers
    system = replaced(system, parameters={**system.parameters, **more})
    if len({law.row for law in laws.values()}) < len(laws):
        raise ValueError(f"grips: a row has two names, { ({name: law.row for name, law in laws.items()}) }")
    modes, transitions = {}, []
    for signs in itertools.product((0, 1, -1), repeat=len(laws)):
        mode = _named(laws, signs)
        gone = [law.row for law, sign in zip(laws.values(), signs, strict=True) if sign]
        kept = [row for row in range(count) if row not in gone]
        modes[mode] = _reduced(system, mode, kept, list(zip(laws.values(), signs, strict=True)), count)
        for i, (name, law) in enumerate(laws.items()):

            def to(sign: int, i: int = i, signs: tuple[int, ...] = signs) -> str:
                return _named(laws, (*signs[:i], sign, *signs[i + 1 :]))

            if signs[i]:
                ends = Event(_Slip(system, law.row, signs[i]), direction=-1, name=f"{name} grips")
                transitions.append(Transition(mode, ends, to(0)))
                continue
            for sign in (1, -1):
                margin = _Margin(held + kept.index(law.row), sign, law.static)
                begins = Event(margin, direction=-1, name=f"{name} slips {'+' if sign > 0 else '−'}")
                transitions.append(Transition(mode, begins, to(sign)))
    if len(modes) < 3 ** len(laws):
        raise ValueError(f"grips: the names {list(laws)} make equal names of modes: take shorter ones")
    return Modes(modes, transitions, name=system.name)


def _law(system: System, name: Any, given: Any, count: int) -> tuple[_Grip, dict[str, Any]]:
    """Validated row and forces, and parameters for those that are numbers."""
    if not isinstance(name, str) or not name or name == GRIP:
        raise ValueError(f"grips: names must be text other than {GRIP!r}, got {shortly(name)}")
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"grips[{name!r}] must be (row, force), got {shortly(given)}")
    row, forces = given
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
    words = ("static force", "kinetic force") if isinstance(forces, tuple | list) else ("force", "force")
    names = [f if isinstance(f, str) else f"{name} {word}" for f, word in zip((static, kinetic), words, strict=True)]
    numbers = {key: f for key, f in zip(names, (static, kinetic), strict=True) if not isinstance(f, str)}
    if taken := [key for key in numbers if key in system.parameters]:
        raise ValueError(f"grips[{name!r}]: {system.name} has a parameter {taken[0]!r} already: take another name")
    return _Grip(int(row), *names), numbers


def _named(laws: Mapping[str, _Grip], signs: tuple[int, ...]) -> str:
    """Name of the mode with these signs of the slips, 0 for rows that hold."""
    slips = [f"{name} {'+' if sign > 0 else '−'}" for name, sign in zip(laws, signs, strict=True) if sign]
    return " and ".join(slips) or GRIP


def _reduced(system: System, mode: str, kept: list[int], laws: list[tuple[_Grip, int]], count: int) -> System:
    """The system with some of its forms alone, and the forces of those that slip."""
    slips = [(law.row, sign, law.kinetic) for law, sign in laws if sign]
    if not slips:
        return replaced(system, name=f"{system.name}, {mode}")
    assert system.distribution is not None
    D = system.distribution.of_rows(np.eye(count)[kept]) if kept else None
    return replaced(
        system,
        distribution=D,
        forces=_Rubbing(system.distribution, system.forces, system.forces_take_parameters, slips),
        forces_take_parameters=True,
        name=f"{system.name}, {mode}",
    )


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


class _Slip(eqx.Module):
    """Velocity along a row that slips, with its sign, and what it may be less than zero."""

    system: System
    row: int = eqx.field(static=True)
    sign: int = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Array, lam: Array) -> Array:
        assert self.system.distribution is not None
        x = self.system.at(g, t)
        return self.sign * self.system.distribution.residual(xi, x, self.system.parameters)[self.row] + SLACK

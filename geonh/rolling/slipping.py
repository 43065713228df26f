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

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, close, shortly
from geonh.engine import in_float64
from geonh.mechanics.system import System, replaced
from geonh.results.modes import Modes
from geonh.rolling.grip import Grip
from geonh.rolling.grips import GRIP, modes_of, named_by, rows_of, sizes

MOST = 4
"""Maximum number of contacts that give way: 3ᵏ modes."""


@validated
@in_float64
def slipping(system: System, grips: Mapping[str, Any], *, restitution: Any = None) -> Modes:
    """Modes of a system whose constraints hold up to a force, and slip beyond it.

    Parameters
    ----------
    system : System
        With a distribution given by forms.
    grips : mapping of str to (int or pair of int or str, float or str or pair of these)
        By a name of each contact that may give way: the place of its row among the forms, or of two orthogonal rows of
        one wheel, or the name of a contact of ``geonh.bodies``, or of a row of these; and the largest force along it,
        in newtons where rows are in metres, as a number or the name of a parameter; or two, (static, kinetic), at which
        it gives way and with which it slips. Other rows hold always. Numbers become parameters of the modes: "front
        force", or "front static force" and "front kinetic force". With a third entry, the ``normal`` of a ``Friction``,
        or the name of a contact whose height is held, coefficients of that normal force, "front friction" or "front
        static friction" and "front kinetic friction".
    restitution : float, or mapping of str to float or str, optional
        e between 0 and 1 of contacts that lift off where their normal force vanishes, and land: of all, or by name, as
        a number or the name of a parameter. Their normal forces are those of heights, above zero where they are open,
        with rows in metres. A number becomes the parameter "front restitution". Without it a run ends there. Grips of a
        known force have no impulse; others, of which the normal force is no height, hold or slip through impacts as
        they do.

    Returns
    -------
    Modes
        "grip", and for rows that slip their names with the sign of their velocity, such as "rear + and front −" or
        "front −"; of two rows, or with a normal force, "front slips"; "front free" of one that has lifted. Begin in the
        one that fits the start: in "grip" with a velocity on all constraints. In another one whose sign is not that of
        the velocity, the row holds at once.

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
    held, count = sizes(system)
    laws: dict[str, Grip] = {}
    more: dict[str, Any] = {}
    for name, given in grips.items():
        laws[name], numbers = _law(system, name, given, count)
        more |= numbers
    for name, e in _restitutions(system, laws, restitution, held).items():
        key = e if isinstance(e, str) else f"{name} restitution"
        laws[name] = laws[name]._replace(restitution=key)
        more |= {} if isinstance(e, str) else {key: e}
    system = replaced(system, parameters={**system.parameters, **more})
    rows = [row for law in laws.values() for row in law.rows]
    if len(set(rows)) < len(rows):
        raise ValueError(f"grips: a row has two names, { ({name: law.rows for name, law in laws.items()}) }")
    _refuse_lost_normals(system, laws, held, count)
    modes, transitions = modes_of(system, laws, named_by(laws), lambda _: _no_mode)
    places = rows_of(system, laws, named_by(laws))
    if len(modes) < np.prod([len(law.states) for law in laws.values()]):
        raise ValueError(f"grips: the names {list(laws)} make equal names of modes: take shorter ones")
    return Modes(modes, transitions, name=system.name, rows=places)


def _law(system: System, name: Any, given: Any, count: int) -> tuple[Grip, dict[str, Any]]:
    """Validated row and forces, and parameters for those that are numbers."""
    if not isinstance(name, str) or not name or name == GRIP:
        raise ValueError(f"grips: names must be text other than {GRIP!r}, got {shortly(name)}")
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(
            f"grips[{name!r}] must be (row, force), or (row, coefficient, normal force), got {shortly(given)}"
        )
    (place, forces), normal = given[:2], given[2] if len(given) > 2 else None
    if isinstance(place, str):
        place = _named(system, name, place, count)
    if isinstance(normal, str):
        normal = _height(system, name, normal)
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
    normal = normal if normal is None or callable(normal) else as_count(normal, f"the normal force of {name}", 0)
    law = Grip(tuple(map(int, rows)), names[0], names[1], normal)
    law.friction(system)  # which names what it does not take
    return law, numbers


def _restitutions(system: System, laws: Mapping[str, Grip], restitution: Any, held: int) -> dict[str, float | str]:
    """Restitution, or the name of its parameter, of the contacts that may lift, by their names."""
    if restitution is None:
        return {}
    of_each = restitution if isinstance(restitution, Mapping) else dict.fromkeys(laws, restitution)
    if unknown := [name for name in of_each if name not in laws]:
        hint = close(unknown[0], laws) if isinstance(unknown[0], str) else ""
        raise ValueError(f"restitution: {shortly(unknown[0])} is none of the grips{hint}")
    found: dict[str, float | str] = {}
    for name, e in of_each.items():
        normal = laws[name].normal
        if callable(normal) or normal is None or normal >= held:
            raise ValueError(
                f"restitution: {name!r} cannot lift, as its normal force is not the multiplier of a height: one of the "
                f"{held} holonomic rows of {system.name}, by its place or the name of a contact"
            )
        if any(law.normal == normal for other, law in laws.items() if other != name):
            raise ValueError(f"restitution: the height of {name!r} is that of another grip too: make them one")
        if not isinstance(e, str):
            e = float(as_float64(e, f"the restitution of {name}", ()))
            if not 0 <= e <= 1:
                raise ValueError(f"restitution of {name!r} must be between 0 and 1, got {e:g}")
            if f"{name} restitution" in system.parameters:
                raise ValueError(f"restitution: {system.name} has a parameter '{name} restitution' already")
        elif e not in system.parameters:
            raise ValueError(f"restitution: {system.name} has no parameter {e!r}{close(e, system.parameters)}")
        found[name] = e
    for name, law in laws.items():
        if found and name not in found and not callable(law.normal) and law.normal is not None and law.normal < held:
            raise ValueError(
                f"restitution: give that of {name!r} too (0 for none), whose normal force is that of a height: it "
                "takes part in the impacts of the others"
            )
    return found


def _named(system: System, name: str, place: str, count: int) -> tuple[int, ...]:
    """Places among the forms of a row, or of all rows of a contact, by its name."""
    every = list(getattr(system, "row_names", ()))[-count:]
    rows = tuple(i for i, row in enumerate(every) if row == place or f" {place!r} " in row)
    if not rows:
        raise ValueError(f"grips[{name!r}]: no row of {system.name} is that of {place!r}; there are: {_listed(every)}")
    return rows


def _height(system: System, name: str, contact: str) -> int:
    """Place among the multipliers of the height of a contact, by its name."""
    every = list(getattr(system, "row_names", ()))
    if (height := f"height of contact {contact!r}") not in every:
        raise ValueError(
            f"grips[{name!r}]: no multiplier of {system.name} is the normal force of {contact!r}, as the height of a "
            f"contact is not held by a row; there are: {_listed(every)}. Give the largest force, not a coefficient"
        )
    return every.index(height)


def _listed(names: list[str]) -> str:
    return "; ".join(names) or "no names"


def _refuse_lost_normals(system: System, laws: Mapping[str, Grip], held: int, count: int) -> None:
    """Raise ValueError for a normal force that is the multiplier of a row which may slip, or of none."""
    g, start = system.group.identity(), jnp.zeros(())
    size = held + count
    slips = np.zeros(size, bool)
    slips[[held + row for law in laws.values() for row in law.rows]] = True
    lifts = {law.normal for law in laws.values() if law.lifts}
    slips[list(lifts)] = True
    own = () if system.multiplier_forces is None else system.multiplier_forces.function.parts
    normals = {f"grips[{name!r}]": law.friction(system) for name, law in laws.items() if law.normal not in lifts}
    normals |= {f"multiplier_forces of {system.name}": one for one in own}
    for what, friction in normals.items():
        if (friction.reads(start, system.action.at(g), size, system.parameters) & slips).any():
            raise ValueError(
                f"{what}: the normal force is the multiplier of a row that may slip or lift; take one that holds"
            )


def _no_mode(t: Any, g: Any, xi: Any) -> None:
    """Target where the normal force of a contact vanishes: there is no mode for that."""

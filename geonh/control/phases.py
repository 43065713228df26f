"""Phases of an optimal motion: stretches of steps in one mode each, and the transitions between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.validators import as_constant, as_count, close, shortly
from geonh.control.ends import residuals_and_rows
from geonh.engine import computed
from geonh.geometry.field import takes_parameters
from geonh.mechanics.system import System
from geonh.results.modes import RESET, Modes, Transition

ON = 1e-8
"""Residual of the constraints, relative to 1 and the velocity, of a motion that is on them."""
SHORTEST_DURATION, LONGEST_DURATION = 1e-150, 1e150
"""Bounds of a duration whose square is a number, s."""


class Phase(NamedTuple):
    """Steps in one mode.

    Attributes
    ----------
    name : str
        Of the mode.
    system : System
    span : float
        Duration before it is found, s.
    n_steps : int
    transition : Transition or None
        That to the next phase, at its end; None of the last phase.
    """

    name: str
    system: System
    span: float
    n_steps: int
    transition: Transition | None = None


def as_phases(system: Any, names: Sequence[str] | None, span: Any, n_steps: Any) -> tuple[Phase, ...]:
    """Phases of a motion: one of a system, and those with the given names of ``Modes``, which have a span and a number
    of steps each; ValueError or TypeError for invalid ones, naming the argument.
    """
    if isinstance(system, System):
        if names is not None:
            raise ValueError(f"phases= is for a system of Modes, and {system.name} has no modes")
        return (Phase(system.name, system, as_duration(span, "span"), as_count(n_steps, "n_steps", 2)),)
    if not isinstance(system, Modes):
        raise TypeError(f"system must be a System, or Modes, got {shortly(system)}")
    known = ", ".join(system.names)
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise TypeError(f"phases must be a list of modes in their order, of {known}, got {shortly(names)}")
    if unknown := [name for name in names if name not in system.names]:
        hint = close(str(unknown[0]), system.names)
        raise ValueError(f"phases: {system.name} has no mode {shortly(unknown[0])}, it has {known}{hint}")
    for name, value in (("span", span), ("n_steps", n_steps)):
        if not isinstance(value, Sequence | np.ndarray) or len(value) != len(names):
            raise TypeError(f"{name} must be a list of {len(names)} numbers, one for each phase, got {shortly(value)}")
    return tuple(
        Phase(
            name,
            system.systems[system.index(name)],
            as_duration(span[i], f"span[{i}]"),
            as_count(n_steps[i], f"n_steps[{i}]", 2),
            _transition(system, name, names[i + 1]) if i + 1 < len(names) else None,
        )
        for i, name in enumerate(names)
    )


def _transition(modes: Modes, source: str, target: str) -> Transition:
    """The transition from one mode to another; ValueError if there is none, or there are several."""
    leaving = modes.leaving(modes.index(source))
    found = [one for one in leaving if one.target == target or callable(one.target)]
    if len(found) != 1:
        there = ", ".join(one.name for one in found or leaving) or "none"
        number = "no transition" if not found else "several transitions"
        raise ValueError(f"phases: {modes.name} has {number} from {source!r} to {target!r}; there are: {there}")
    if found[0].reset is not None and _moves_the_point(modes.systems[modes.index(source)], found[0].reset):
        raise ValueError(f"phases: the reset of {found[0].name!r} gives (g, xi): here resets give velocities alone")
    return found[0]


def _moves_the_point(system: System, reset: Callable) -> bool:
    """True if a reset gives (g, ξ) rather than ξ."""
    more = (system.parameters,) if takes_parameters(reset, RESET, "reset") else ()
    with float64():
        value = jax.eval_shape(reset, 0.0, system.group.identity(), jnp.zeros(system.group.dim), *more)
    return isinstance(value, tuple) and len(value) == 2


def refuse_other_landings(phases: Sequence[Phase], motion: Any, times: np.ndarray) -> None:
    """Raise ValueError where a motion is off the constraints of a mode as it enters it, or a target is another mode."""
    k = 0
    for phase, following in itertools.pairwise(phases):
        k += phase.n_steps
        g, xi, t = jax.tree.map(lambda a, k=k: a[k], motion.g), motion.xi[k], times[k]
        transition = phase.transition
        assert transition is not None
        phi, gap, _ = computed(residuals_and_rows, following.system, (g, xi, np.float64(t)))
        off = np.abs(np.append(phi, gap)).max(initial=0.0)
        if not off <= ON * (1 + np.abs(xi).max()):
            raise ValueError(
                f"the transition {transition.name!r} leads off the constraints of {following.name!r}, by {off:.2g}: "
                "its guard must imply those on the point, and its reset satisfy those on the velocity"
            )
        target = transition.target if isinstance(transition.target, str) else transition.target(t, g, xi)
        if target != following.name:
            raise ValueError(
                f"the transition {transition.name!r} of the motion that was found leads to {target!r}, not to the next "
                f"of the phases, {following.name!r}"
            )


def as_duration(value: Any, name: str) -> float:
    """Validate a duration, whose square is a number; ValueError or TypeError otherwise."""
    span = float(as_constant(value, name))
    if not SHORTEST_DURATION < span < LONGEST_DURATION:
        raise ValueError(f"{name} must be positive, between 1e-150 and 1e150, got {span}")
    return span

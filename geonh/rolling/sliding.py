r"""A body in contact that rolls, slides or is free: three systems, and what leads from one to another.

With the velocity w = R(v + ω×ρ) − u of the body's point of contact relative to the surface, w = Jξ − u, and the contact
force λ_n ν + λ_t,

    roll    φ = 0, w_t = 0      as long as |λ_t| ≤ μ_s λ_n
    slide   φ = 0               λ_t = −μ λ_n w_t/|w_t|, as long as λ_n > 0
    free                        as long as φ > 0.

At an impact w_n⁺ = −e w_n⁻. With the impulses P_I after which w_n = 0, along the normal, and P_II after which w = 0,

    P = (1 + e)P_I + κ(P_II − P_I),

κ = 1 if that is within the friction cone, and else 0 < κ < 1 so that it is on it (Chatterjee and Ruina's law, with no
tangential restitution). P_II − P_I is orthogonal to P_I in the metric of impulses, so that the energy changes by
½(e² − 1)|P_I|² + ½κ(κ − 2)|P_II − P_I|² ≤ 0; with Newton's restitution and w_t⁺ = 0 it may rise. A rebound slower than
``RESTING`` is none: then the body stays in contact. Where the slip vanishes the body rolls if the force for that
is within the friction cone; if not, it slides on. The direction d in which a slip begins is that of its own
acceleration, found by iteration; with one coefficient of friction it is the one against λ_t.

Source: M. Antali, G. Stépán, *Nonsmooth analysis of three-dimensional slipping and rolling in the presence of dry
friction*, Nonlinear Dynamics 97 (2019); A. Chatterjee, A. Ruina, *A new algebraic rigid-body collision law based on
impulse space considerations*, J. Appl. Mech. 65 (1998) 939.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import batch_of_one, mapped
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.friction import Friction, limits_fault
from geonh.mechanics.impacts import struck
from geonh.mechanics.own_values import OfOwn, Own
from geonh.mechanics.system import System, replaced
from geonh.results.events import ContactEvent, SlipEnds
from geonh.results.modes import Modes, Transition
from geonh.rolling.beginnings import BEGINNING, beginning
from geonh.rolling.forces import contact_velocity, normal_force, slip
from geonh.rolling.landing import RESTING, SLACK, Gap, unless_flat

CLOSE = 1e-9
"""Margin of the friction cone, relative to the normal force, that counts as within it."""


def with_friction(systems: Callable[..., System], friction: Any, restitution: float, name: str) -> Modes:
    """Modes of a body; ``systems`` makes a System with its contact rolling, sliding or none, of given parameters."""
    more = coefficients(friction, restitution)
    roll = systems("roll", more)
    slide = systems("slide", more, multiplier_forces=Friction(slip, "friction", normal=normal_force))
    free = systems("free", more)
    transitions = [
        Transition("roll", ContactEvent(_lifts, direction=-1, name="lifts"), "free"),
        Transition(
            "roll", ContactEvent(_inside_cone, direction=-1, name="slips"), "slide", _Settled(roll, slide, False)
        ),
        Transition("slide", ContactEvent(_lifts, direction=-1, name="lifts"), "free"),
        Transition("slide", SlipEnds(name="slip ends"), _Next(roll), _Settled(roll, slide)),
        Transition("free", lands(roll), _Next(roll), Landed(free, roll, slide)),
    ]
    return Modes({"roll": roll, "slide": slide, "free": free}, transitions, name=name)


def coefficients(friction: Any, restitution: float) -> dict[str, float]:
    """Parameters of a body with friction; ValueError for coefficients that are none."""
    is_pair = isinstance(friction, tuple | list)
    if is_pair and len(friction) != 2:
        raise ValueError(f"friction must be a number, or two, (μ_s, μ), got {shortly(friction)}")
    both = friction if is_pair else (friction, friction)
    static, kinetic = (float(as_float64(value, "friction", ())) for value in both)
    if not static >= kinetic >= 0:
        raise ValueError(f"friction must be μ ≥ 0, or (μ_s, μ) with μ_s ≥ μ ≥ 0, got {shortly(friction)}")
    if not 0 <= restitution <= 1:
        raise ValueError(f"restitution must be between 0 and 1, got {restitution}")
    return {"friction": kinetic, "restitution": restitution} | ({"static friction": static} if is_pair else {})


def lands(roll: System) -> ContactEvent:
    """Guard at which a free body meets its surface."""
    return ContactEvent(Gap(roll), direction=-1, name="lands")


# --- guards --------------------------------------------------------------------------------------------------
def _lifts(t: Array, g: Array, xi: Array, lam: Array) -> Array:
    return lam[0]


def _inside_cone(t: Array, g: Array, xi: Array, lam: Array, parameters: Any) -> Array:
    """Margin of the friction cone, N: μ_s λ_n − |λ_t|."""
    return _margin(t, g, lam, parameters)


def _margin(t: Array, g: Any, lam: Array, parameters: Any) -> Array:
    tangential = jnp.sqrt(jnp.sum(lam[1:3] ** 2) + np.finfo(float).tiny)
    return _static(parameters) * normal_force(t, g, lam, parameters) - tangential


def _static(parameters: Any) -> Any:
    """Coefficient μ_s, which is μ where one was given."""
    return parameters.get("static friction", parameters["friction"])


# --- resets --------------------------------------------------------------------------------------------------
class _Settled(eqx.Module):
    """Velocity after a slip has ended: rolling, if it ``may_roll`` and the friction cone admits that, or a slip that
    begins.
    """

    roll: System
    slide: System
    may_roll: bool = eqx.field(static=True, default=True)
    u: Any = None

    def driven_by(self, u: Any) -> _Settled:
        """The same under controls."""
        return replaced(self, u=u)

    def __call__(self, t: Array, g: Array, xi: Array) -> Array:
        roll, x = self.roll, self.roll.at(g, t)
        resting = roll.projected_velocity(x, xi)
        lam = accelerations_at(roll, t, x, resting, self.u)[1]
        rolls = self.may_roll & (_margin(t, g, lam, roll.parameters) >= -CLOSE * jnp.abs(lam[0]))

        def begins() -> Array:
            tangents = contact_velocity(t, g, xi, roll.parameters).tangents
            begun = beginning(self.slide, 0, t, x, resting, lam[1:3], tangents, self.u)
            slip = begun * (1 + jnp.max(jnp.abs(xi)))
            rows, right = roll.annihilator(x), roll.right_hand_side(x)
            return struck(_free(self.slide), x, resting, rows, right.at[1:3].add(slip)).xi

        return lax.cond(rolls, lambda: resting, begins)  # the other one has no derivative where there is no force


class Landed(eqx.Module):
    """Velocity after an impact with the surface, by Chatterjee and Ruina's law; nan of a body that lands flat.

    Of one that stays without slip, with what ``slide`` does it: a slip that begins, where the friction cone demands
    that. Without ``slide`` the slip is zero, and the guards of the next mode decide.
    """

    free: System
    roll: System
    slide: System | None = None
    u: Any = None

    def fault(self, p: Any) -> str:
        """Fault of parameters, as far as they are known; "" if there is none."""
        if not is_traced(p["restitution"]) and not 0 <= p["restitution"] <= 1:
            return f"parameter 'restitution' must be between 0 and 1, got {p['restitution']:g}"
        return limits_fault(p, "static friction" if "static friction" in p else "friction", "friction")

    def driven_by(self, u: Any) -> Landed:
        """The same under controls."""
        return replaced(self, u=u)

    def __call__(self, t: Array, g: Array, xi: Array) -> Array:
        parameters, x = self.roll.parameters, self.free.at(g, t)
        at = contact_velocity(t, g, xi, parameters)
        frame = jnp.concatenate([at.normal[None], at.tangents])
        rows = frame @ at.jacobian
        still = rows @ xi - frame @ at.relative
        approach = at.normal @ at.relative
        rebounds = -parameters["restitution"] * approach > RESTING
        sound = (parameters["restitution"] >= 0) & (parameters["restitution"] <= 1) & (parameters["friction"] >= 0)
        e = jnp.where(sound, jnp.where(rebounds, parameters["restitution"], 0.0), jnp.nan)
        smooth, sticking = (struck(self.free, x, xi, rows[:n], still[:n]) for n in (1, 3))
        normal, more = (1 + e) * smooth.impulses[0], sticking.impulses[0] - smooth.impulses[0]
        size = jnp.sqrt(sticking.impulses[1:] @ sticking.impulses[1:])
        sticks = size <= _static(parameters) * (normal + more)

        def slips() -> Array:
            # a flight below rounding may end while the body still rises
            friction = jnp.where(approach < 0, parameters["friction"], 0.0)
            least = jnp.maximum(size - friction * more, friction * normal)  # κ ≤ 1, were μ_s < μ too
            kappa = friction * normal / jnp.where(least > 0, least, 1.0)
            return xi + (1 + e) * (smooth.xi - xi) + kappa * (sticking.xi - smooth.xi)

        def stuck() -> Array:
            slide = self.slide
            if slide is None:
                return jnp.where(rebounds, sticking.xi + e * (smooth.xi - xi), sticking.xi)
            return lax.cond(
                rebounds,
                lambda: sticking.xi + e * (smooth.xi - xi),
                lambda: _Settled(self.roll, slide, u=self.u)(t, g, sticking.xi),
            )

        after = lax.cond(sticks, stuck, slips)
        lift = jnp.where(approach < 0, SLACK / approach, 0.0) * (xi - smooth.xi)
        moved = contact_velocity(t, self.free.group.compose(g, self.free.group.exp(lift)), after, parameters)
        return unless_flat(after, moved.relative - contact_velocity(t, g, after, parameters).relative)


class _Next(eqx.Module):
    """Mode of a velocity after a reset: free if it leaves the surface, sliding if it slips."""

    roll: System

    def __call__(self, t: Any, g: Any, xi: Any) -> str:
        return self.of_many(Own({}, batch_of_one((t, g, xi))))[0]

    def of_many(self, places: Own) -> list[str]:
        """Modes of many, with a first axis."""
        away, speed = mapped(OfOwn(speeds), self.roll, places)
        names = np.where(away > RESTING / 2, "free", np.where(speed > BEGINNING / 2, "slide", "roll"))
        return names.tolist()


def speeds(roll: System, place: tuple) -> tuple[Array, Array]:
    """Velocity away from the surface, and slip speed, of a body at (t, g, ξ)."""
    t, g, xi = place
    at = contact_velocity(t, g, xi, roll.parameters)
    tangential = at.tangents @ at.relative
    return at.normal @ at.relative, jnp.sqrt(tangential @ tangential)


def _free(system: System) -> System:
    """System without its constraints and their forces."""

    def kept(s: System) -> tuple:
        return s.holonomic, s.distribution, s.multiplier_forces

    return eqx.tree_at(kept, system, (None, None, None), is_leaf=lambda leaf: leaf is None)

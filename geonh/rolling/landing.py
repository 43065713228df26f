r"""Contacts that lift and land: the gap that ends a flight, and the impact with which it does.

A contact that is free lands where its gap φ vanishes. All contacts that are closed then take part in the impact, by the
law of ``mechanics.collision``; those that separate are free after it, of the others those whose slip is not zero slide.
A rebound slower than ``RESTING`` is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import solve
from geonh.arguments.precision import is_traced
from geonh.engine import batch_of_one, computed, mapped
from geonh.mechanics.collisions import Contacts, changes, collided
from geonh.mechanics.own_values import OfOwn, Own
from geonh.mechanics.system import System
from geonh.rolling.beginnings import BEGINNING
from geonh.rolling.grip import FREE, HOLDS, SLIPS, Grip

RESTING = 1e-6
"""Speed of a rebound, m/s, below which there is none."""
SLACK = 1e-13
"""Penetration, in metres, at which a body lands: more than rounding, so that one that has just left does not."""
BELOW = 1e-9
"""Depth below the surface, m, at which a free body may begin, as one that just lands; gap at which one touches it."""
OFF = 1e-6
"""Largest change of velocities at a contact that is a point, relative to 1 + |ξ|, as it is moved onto the surface."""


class Gap(eqx.Module):
    """Height of a contact above its surface, φ, as a guard; a body lands at φ = −``SLACK``, and leaves from there.

    Parameters
    ----------
    closed : System
        System in which the height is held.
    row : int
        Place of the height among its holonomic rows.
    """

    closed: System
    row: int = eqx.field(static=True, default=0)
    rounding: ClassVar[float] = SLACK / 2
    """Largest distance from zero, m, that is due to rounding."""

    def __call__(self, t: Array, g: Array, xi: Array, lam: Array) -> Array:
        return self._height((t, g)) + SLACK

    def start_faults(self, starts: Own) -> list[str]:
        """Faults of free contacts that begin at (t, g), with a first axis; "" of those that have none."""
        heights = mapped(OfOwn(Gap._height), self, starts).tolist()
        return ["" if h > -BELOW else f"g0 has the body {-h:.3g} m below the surface: raise it" for h in heights]

    def rate(self, t: Any, g: Any, xi: Any) -> float:
        """Velocity with which the contact opens, φ̇."""
        return float(computed(Gap._opening, self, (np.asarray(t, float), g, xi)))

    def _opening(self, place: tuple) -> Array:
        t, g, xi = place
        x = self.closed.at(g, t)
        return self.closed.annihilator(x)[self.row] @ xi - self.closed.right_hand_side(x)[self.row]

    def _height(self, place: tuple) -> Array:
        t, g = place
        return self.closed.holonomic_residual(self.closed.at(g, t))[self.row]


class Touching(NamedTuple):
    """Contacts at an instant.

    Attributes
    ----------
    rows : array, shape=[k, 1 + d, n]
        Rows along the normals and of the slips; zero where there are none.
    right : array, shape=[k, 1 + d]
        Velocities of what is touched, along these.
    heights : array, shape=[k]
        Gaps, in metres; infinite of contacts without a height.
    """

    rows: Array
    right: Array
    heights: Array

    @property
    def touches(self) -> Array:
        """False for contacts that are open, and for those without a height, shape=[k]."""
        return self.heights <= BELOW

    def velocities(self, xi: Array) -> Array:
        """Velocities along the rows, shape=[k, 1 + d]."""
        return self.rows @ xi - self.right


def touching(closed: System, grips: Sequence[Grip], t: Any, g: Any) -> Touching:
    """Contacts at (t, g), of a system in which all of them hold."""
    x = closed.at(g, t)
    phi, rows, right = closed.holonomic_residual(x), closed.annihilator(x), closed.right_hand_side(x)
    rows = jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
    right = jnp.append(right, 0.0)
    size = max(len(grip.rows) for grip in grips)
    none = len(right) - 1
    of_each = [
        [grip.normal if grip.lifts else none, *(len(phi) + row for row in grip.rows), *[none] * (size - len(grip.rows))]
        for grip in grips
    ]
    heights = jnp.stack([phi[grip.normal] if grip.lifts else jnp.asarray(np.inf) for grip in grips])
    places = jnp.array(of_each)
    return Touching(rows[places], right[places], heights)


class Landing(eqx.Module):
    """Point and velocity after an impact of all contacts that are closed; those that stay so are put on their surfaces,
    the others where they would land. The velocity is nan of a body that lands flat, whose contact such a small motion
    carries elsewhere.

    Parameters
    ----------
    bare : System
        The system without those that may lift, and those of a known force, which has no impulse.
    closed : System
        The system with all of them.
    grips : tuple of Grip
        Those that may lift.
    """

    bare: System
    closed: System
    grips: tuple[Grip, ...] = eqx.field(static=True)

    def fault(self, parameters: Any) -> str:
        """Fault of the restitution, as far as it is known; "" if there is none."""
        for name in self._names[0]:
            e = parameters[name]
            if not is_traced(e) and not 0 <= e <= 1:
                return f"parameter {name!r} must be between 0 and 1, got {e:g}"
        return ""

    def __call__(self, t: Array, g: Any, xi: Array) -> tuple[Any, Array]:
        near = self._touching(t, g)
        g = self._moved(t, g, xi, near, -near.heights)
        x, at, parameters = self.bare.at(g, t), self._touching(t, g), self.closed.parameters
        rows = jnp.where(at.touches[:, None, None], at.rows, 0.0)
        right = jnp.where(at.touches[:, None], at.right, 0.0)
        approach = jnp.max(right[:, 0] - rows[:, 0] @ xi)
        e, mu = (jnp.stack([jnp.asarray(parameters[name], float) for name in names]) for names in self._names)
        e = jnp.where(jnp.abs(e) * approach > RESTING, e, 0.0)
        after = collided(self.bare, x, xi, Contacts(rows[:, 0], rows[:, 1:], right, mu, e)).xi
        holds = kept(rows @ after - right, after)
        after = self._held(x, after, rows.reshape(-1, xi.size), right.ravel(), holds.ravel())
        changes = near.velocities(after) - at.velocities(after)
        after = unless_flat(after, jnp.where(near.touches[:, None] & at.touches[:, None], changes, 0.0))
        return self._moved(t, g, after, at, jnp.where(holds[:, 0], 0.0, -SLACK)), after

    def _touching(self, t: Any, g: Any) -> Touching:
        return touching(self.closed, self.grips, t, g)

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        """Names of the parameters that are restitution and friction of each contact."""
        return [str(grip.restitution) for grip in self.grips], [grip.kinetic for grip in self.grips]

    def _moved(self, t: Array, g: Any, xi: Array, at: Touching, up: Array) -> Any:
        """Point at which the contacts that touch are that much higher, shape=[k], by a step in the kinetic metric."""
        group, x = self.bare.group, self.bare.at(g, t)
        return group.compose(g, group.exp(self._change(x, xi, at.rows[:, 0], at.touches, up)))

    def _held(self, x: Any, xi: Array, rows: Array, right: Array, holds: Array) -> Array:
        """Velocity on those rows that hold, to rounding."""
        return xi - self._change(x, xi, rows, holds & jnp.any(rows != 0, axis=1), rows @ xi - right)

    def _change(self, x: Any, xi: Array, rows: Array, some: Array, by: Array) -> Array:
        """Change of the velocity, by impulses along some of the rows, by which the velocities along these change."""
        lifts = changes(self.bare, x, xi, rows)
        response = jnp.where(some[:, None] & some, rows @ lifts.T, 0.0) + jnp.diag(jnp.where(some, 0.0, 1.0))
        return solve(response, jnp.where(some, by, 0.0)) @ lifts


def unless_flat(xi: Array, changes: Array) -> Array:
    """Velocity after an impact, or nan if velocities at the contact change as it is moved onto the surface, which it is
    but for ``SLACK``: so they do at the contact of a body that lies flat.
    """
    return jnp.where(jnp.max(jnp.abs(changes)) <= OFF * (1 + jnp.max(jnp.abs(xi))), xi, jnp.nan)


def kept(velocities: Array, xi: Array) -> Array:
    """True for the rows of contacts that hold after an impact, shape=[k, 1 + d] as their velocities."""
    stays = velocities[:, :1] <= RESTING / 2
    slip, slow = velocities[:, 1:], BEGINNING / 2 * (1 + jnp.max(jnp.abs(xi)))
    sticks = stays & (jnp.sum(slip**2, axis=1, keepdims=True) <= slow**2)
    return jnp.concatenate([stays, jnp.broadcast_to(sticks, slip.shape)], axis=1)


class AfterLanding(eqx.Module):
    """Name of the mode of a velocity after an impact.

    Parameters
    ----------
    closed : System
    grips : tuple of Grip
        All of them.
    states : tuple of int
        Their states before it.
    names : tuple of str
        Names of the modes, in the order of the products of the states.
    """

    closed: System
    grips: tuple[Grip, ...] = eqx.field(static=True)
    states: tuple[int, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, t: Any, g: Any, xi: Any) -> str:
        return self.of_many(Own({}, batch_of_one((t, g, xi))))[0]

    def of_many(self, places: Own) -> list[str]:
        """Names of many, with a first axis."""
        every = list(itertools.product(*(grip.states for grip in self.grips)))
        found = mapped(OfOwn(AfterLanding._state), self, places).tolist()
        return [self.names[every.index(tuple(states))] for states in found]

    def _state(self, place: tuple) -> Array:
        """States of all contacts after the impact, shape=[k]."""
        t, g, xi = place
        at = touching(self.closed, self.grips, t, g)
        velocities = at.velocities(xi)
        holds = kept(velocities, xi)
        after = []
        for i, (grip, state) in enumerate(zip(self.grips, self.states, strict=True)):
            if grip.lifts:
                closed = jnp.where(holds[i, 1], HOLDS, SLIPS)
                after.append(jnp.where(at.touches[i] & holds[i, 0], closed, FREE))
            elif grip.normal is None:  # a known force has no impulse: a slip may begin, or turn round
                slips = jnp.where(velocities[i, 1] < 0, -1, 1) if SLIPS not in grip.states else SLIPS
                after.append(jnp.where(holds[i, 1], HOLDS, slips))
            else:
                after.append(jnp.asarray(state))
        return jnp.stack(after)

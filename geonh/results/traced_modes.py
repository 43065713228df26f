"""``TracedModes``: the result of ``integrate`` for a system with modes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.groups.base import Point
from geonh.mechanics.system import System


class TracedModes(eqx.Module):
    """Result of ``integrate`` for a system with modes: JAX arrays at the N = n_steps // save_every + 1 nodes.

    Attributes
    ----------
    t : array, shape=[N]
        Times, seconds; after a failure, that of the last good node.
    g : point of the group, with a leading axis of length N
        Group elements.
    xi : array, shape=[N, n]
        Velocities.
    mode : array of int, shape=[N]
        Index of the mode of each node in ``names``, that before a transition at its instant.
    status : array of int, shape=[N]
        0 on success; after a failure the entries repeat the last good node and ``status`` holds the ``Result``.
    n_switches : array of int, shape=[]
        Number of transitions.
    switch_t : array, shape=[most_switches]
        Times of the first transitions, with their derivatives; nan where there were fewer, as the following.
    switch_g : point of the group, with a leading axis of length most_switches
        Configurations after them.
    switch_xi : array, shape=[most_switches, n]
        Velocities after them.
    names : tuple of str
        Names of the modes.
    systems : tuple of System
        The modes.
    """

    t: Array
    g: Point
    xi: Array
    mode: Array
    status: Array
    n_switches: Array
    switch_t: Array
    switch_g: Point
    switch_xi: Array
    names: tuple[str, ...] = eqx.field(static=True)
    systems: tuple[System, ...]

    @property
    def success(self) -> Array:
        """True if the run reached its end, shape=[]."""
        return self.status[..., -1] == 0

    @property
    def energy(self) -> Array:
        """Energy at the nodes, joules, shape=[N]."""

        def at(t: Array, g: Point, xi: Array, mode: Array) -> Array:
            x = [system.at(g, t) for system in self.systems]
            pairs = zip(self.systems, x, strict=True)
            return jnp.stack([system.energy(x, system.momentum(x, xi)) for system, x in pairs])[mode]

        return jax.vmap(at)(self.t, self.g, self.xi, self.mode)

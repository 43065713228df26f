"""``TracedModes``: the result of ``integrate`` for a system with modes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.arguments.precision import float64, is_traced
from geonh.engine import Parts
from geonh.groups.base import Point


class TracedModes(eqx.Module):
    """Result of ``integrate`` for a system with modes: JAX arrays at the N = n_steps // save_every + 1 nodes.

    A pytree, as ``TracedTrajectory``; a batch of ``vmap`` has its axes first.

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
    arrays, parts : list of array, Parts
        The systems of the modes, for the energy.
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
    arrays: list[Array]
    names: tuple[str, ...] = eqx.field(static=True)
    parts: Parts = eqx.field(static=True)

    def __repr__(self) -> str:
        batch, n = list(self.status.shape[:-1]), self.status.shape[-1]
        many = f"a batch of {batch} runs, {n} nodes each" if batch else f"{n} nodes"
        return f"TracedModes of {', '.join(self.names)}: {many}, {'traced' if is_traced(self.t) else 'as JAX arrays'}"

    @property
    def success(self) -> Array:
        """True if the run reached its end, shape=[]."""
        return self.status[..., -1] == 0

    @property
    def energy(self) -> Array:
        """Energy at the nodes, joules, shape=[N]."""

        def of_run(run: TracedModes) -> Array:
            systems = run.parts.tree(run.arrays)

            def at(t: Array, g: Point, xi: Array, mode: Array) -> Array:
                pairs = zip(systems, [system.at(g, t) for system in systems], strict=True)
                return jnp.stack([system.energy(x, system.momentum(x, xi)) for system, x in pairs])[mode]

            return jax.vmap(at)(run.t, run.g, run.xi, run.mode)

        for _ in self.status.shape[:-1]:
            of_run = jax.vmap(of_run)
        with float64():
            return of_run(self)

r"""Result of ``hamiltonise``: multipliers, systems and runs in the new time; notation of ``chaplygin.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.chaplygin import Chaplygin
from geonh.analysis.new_time import GyroscopicForces, HamiltonianMetric, Multiplier, Potential
from geonh.analysis.states import IDENTITY
from geonh.engine import computed, mapped
from geonh.groups.base import Point
from geonh.mechanics.system import System
from geonh.results.dense import step_times
from geonh.results.same_system import as_data, parameters_of_run
from geonh.results.trajectory import Trajectory

TINY = 1e-12
"""Size of tensors that count as zero, and accuracy of φ."""
NODES = (16, 32, 64, 128, 256, 512)
"""Numbers of Gauss nodes on the path to a point, tried until φ does not change."""


class OriginalMotion(NamedTuple):
    """Motion of the constrained system, from a run in the time τ.

    Attributes
    ----------
    t : ndarray, shape=[N]
        Times from the run's start, s.
    g : point of the group, with a leading axis of length N
    xi : ndarray, shape=[N, n]
        Velocities.
    """

    t: np.ndarray
    g: Point
    xi: np.ndarray


@dataclass(frozen=True)
class Hamiltonisation:
    """Result of ``hamiltonise``.

    Attributes
    ----------
    exists : bool
        True if there is a multiplier e^φ: with dτ = e^φ dt the reduced system is Hamiltonian.
    has_measure : bool
        True if e^{(r−1)φ} times the volume of shapes and their momenta is invariant, r = ``shape_dimension``: dφ, from
        the trace of the gyroscopic tensor, is closed. Without, no density of the position is invariant.
    shape_dimension : int
        r = n − m, dimension of the space of shapes.
    defect : float
        Largest deviation of the gyroscopic tensor from that of a multiplier, relative to its size.
    turning : float
        Largest exterior derivative of dφ, relative to its size.
    coefficients : dict of str to float
        φ in the candidates given, if it is in their span; else empty.
    chaplygin : Chaplygin
        The system with its symmetries, and its gyroscopic tensor.
    multiplier : Multiplier or None
        φ as a function of the base point, if it is in the span of the candidates.
    centre : point of the group
        Centre of the random points.
    """

    exists: bool
    has_measure: bool
    shape_dimension: int
    defect: float
    turning: float
    coefficients: dict[str, float]
    chaplygin: Chaplygin
    multiplier: Multiplier | None
    centre: Point

    def phi(self, g: Any) -> float:
        """φ(g) less its value at the centre of the random states, by integration of dφ along an exponential.

        Parameters
        ----------
        g : point of the group

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If dφ is not closed, or the integral does not converge: the symmetries are not transverse on the way.
        """
        if not self.has_measure:
            raise ValueError(f"{self.chaplygin.system.name} has no φ: its differential would not be closed")
        group = self.chaplygin.system.group
        g = self.chaplygin.system.point(g, name="g")
        way = np.asarray(computed(_way, group, (self.centre, g)))
        before = np.inf
        for count in NODES:
            nodes, weights = np.polynomial.legendre.leggauss(count)
            at = (nodes + 1)[:, None] / 2 * way
            centre = jax.tree.map(lambda a, count=count: np.repeat(np.asarray(a)[None], count, axis=0), self.centre)
            value = float(weights @ (mapped(_form_at, self.chaplygin, (centre, at)) @ way)) / 2
            if abs(value - before) <= TINY * max(1.0, abs(value)):
                return value
            before = value
        raise ValueError("φ does not converge along the way to g: the symmetries are not transverse to D on it")

    def system(self) -> System:
        """System in the time τ, without constraints, on the same group; Hamiltonian if ``exists``.

        Where the momentum of the symmetries vanishes its motion satisfies the constraints, and methods without
        constraints that keep momenta keep these. If there is no multiplier, but an invariant density, it has gyroscopic
        forces, and ``VolumePreserving`` keeps the volume.

        Returns
        -------
        System

        Raises
        ------
        ValueError
            If there is no invariant density of the position, or φ is not in the span of the candidates.
        """
        original = self.chaplygin.system
        metric = HamiltonianMetric(self.chaplygin, self._known())
        return System(
            original.group,
            metric=metric,
            potential=Potential(original),
            forces=None if self.exists else GyroscopicForces(metric, self.chaplygin.complement(self.centre)),
            parameters=original.parameters,
            draw=original.draw,
            name=self._name_in_new_time,
        )

    @property
    def _name_in_new_time(self) -> str:
        return f"{self.chaplygin.system.name} in the time τ"

    def _known(self) -> Multiplier:
        name = self.chaplygin.system.name
        if not self.has_measure:
            raise ValueError(f"{name} has no system in the time τ: there is no multiplier, and no invariant density")
        if self.multiplier is None:
            raise ValueError(
                f"{name} has no system in the time τ here: φ is not in the span of the candidates; "
                f"hamiltonise(…, candidates={{name: φⱼ}}) takes others"
            )
        return self.multiplier

    def scaled_velocity(self, g: Any, xi: Any) -> np.ndarray:
        """Velocity e^{−φ}ξ in the time τ, shape=[n], at a state of the constrained system: initial value of a run.

        Parameters
        ----------
        g : point of the group, or None for the identity
        xi : array_like, shape=[n]
            It is projected onto the constraints.

        Returns
        -------
        ndarray, shape=[n]
        """
        system = self.chaplygin.system
        point = system.point(g, name="g")
        velocity = np.asarray(system.project(point, xi))
        return velocity * computed(_slowness, (system, self._known()), point)

    def original(self, run: Trajectory) -> OriginalMotion:
        """Motion of the constrained system from a run of ``system``.

        Parameters
        ----------
        run : Trajectory
            Its times are τ.

        Returns
        -------
        OriginalMotion
            At the run's nodes; t = ∫e^{−φ}dτ by Gauss's quadrature in each step, of order 6, from 0.

        Raises
        ------
        TypeError, ValueError
            If ``run`` is no trajectory, or one of another system or from a file; if φ is not in the span of the
            candidates; if the run has other parameters than the system had, nodes at ``t_eval``, or a start that
            breaks the constraints.
        """
        known = self._known()
        own = self.chaplygin.system
        if as_data(parameters_of_run(run, self.system())) != as_data(own.parameters):
            raise ValueError(f"run has other parameters than {own.name} had: hamiltonise it with these")
        times = step_times(run)
        h, (places, weights) = np.diff(times), np.polynomial.legendre.leggauss(3)
        inner = run((times[:-1, None] + h[:, None] * (places + 1) / 2).ravel()) if len(h) else run
        slowness = mapped(_slowness, (own, known), inner.g)
        spent = np.concatenate([[0.0], np.cumsum(h / 2 * (slowness[: 3 * len(h)].reshape(-1, 3) @ weights))])
        at_nodes = np.searchsorted(np.sign(run.dt) * times, np.sign(run.dt) * run.t)
        xi = run.xi / mapped(_slowness, (own, known), run.g)[:, None]
        first = jax.tree.map(lambda a: a[0], (run.g, xi))
        off = np.abs(computed(_off_constraints, own, first)).max()
        if not off <= IDENTITY * (1 + np.abs(first[1]).max()):
            raise ValueError(
                f"the start of run breaks the constraints of {own.name} by {off:.2g}: begin at scaled_velocity(g, xi)"
            )
        return OriginalMotion(spent[at_nodes], run.g, xi)

    def __str__(self) -> str:
        name, r = self.chaplygin.system.name, self.shape_dimension
        phi = " ".join(f"{c:+.10g} {word}" for word, c in self.coefficients.items())
        density = f"; φ = {phi}" if phi else ""
        if self.exists:
            return f"{name}: Hamiltonian in the time τ, dτ = e^φ dt, on {r} shapes{density}"
        if self.has_measure:
            return (
                f"{name}: not Hamiltonian by a multiplier: its gyroscopic tensor on {r} shapes is not of this kind "
                f"({self.defect:.2g} of its size); e^({r - 1}φ) is an invariant density{density}"
            )
        return (
            f"{name}: not Hamiltonian by a multiplier, and no density of the position is invariant: dφ, from its "
            f"gyroscopic tensor on {r} shapes, would not be closed ({self.turning:.2g} of its size)"
        )

    __repr__ = __str__


def _way(group: Any, ends: tuple[Point, Point]) -> Array:
    return group.log(group.compose(group.inverse(ends[0]), ends[1]))


def _form_at(chaplygin: Chaplygin, node: tuple) -> Array:
    (centre, eta), group = node, chaplygin.system.group
    return chaplygin.form(group.compose(centre, group.exp(eta)))


def _slowness(tree: tuple[System, Multiplier], g: Point) -> Array:
    """e^{−φ}."""
    system, multiplier = tree
    return jnp.exp(-multiplier(system.at(g), system.parameters))


def _off_constraints(system: System, node: tuple[Point, Array]) -> Array:
    g, xi = node
    return system.constraint_residual(system.at(g), xi)

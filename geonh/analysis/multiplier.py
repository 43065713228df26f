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
from geonh.engine import computed, mapped
from geonh.groups.base import Point
from geonh.mechanics.symmetry import derivative_along
from geonh.mechanics.system import System
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
        return velocity * computed(_slowness, (system, self._known()), (point, velocity))[0]

    def original(self, run: Trajectory) -> OriginalMotion:
        """Motion of the constrained system from a run of ``system``.

        Parameters
        ----------
        run : Trajectory
            Its times are τ.

        Returns
        -------
        OriginalMotion
            At the run's nodes; t = ∫e^{−φ}dτ by Hermite's quadrature between them, of order 4, from 0.

        Raises
        ------
        TypeError, ValueError
            If ``run`` is no trajectory, or one of another system or from a file; if φ is not in the span of the
            candidates; if the run has other parameters than the system had.
        """
        known = self._known()
        own = self.chaplygin.system
        if as_data(parameters_of_run(run, self.system())) != as_data(own.parameters):
            raise ValueError(f"run has other parameters than {own.name} had: hamiltonise it with these")
        slowness, rates = mapped(_slowness, (own, known), (run.g, run.xi))
        h = np.diff(run.t)
        steps = h * (slowness[1:] + slowness[:-1]) / 2 + h**2 * (rates[:-1] - rates[1:]) / 12
        return OriginalMotion(np.concatenate([[0.0], np.cumsum(steps)]), run.g, run.xi / slowness[:, None])

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


def _slowness(tree: tuple, node: tuple) -> tuple[Array, Array]:
    """e^{−φ} and its derivative along the motion."""
    (system, multiplier), (g, xi) = tree, node

    def value(g: Point) -> Array:
        return jnp.exp(-multiplier(system.at(g), system.parameters))

    return value(g), derivative_along(system, value, g, xi)

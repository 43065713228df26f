"""The discrete nonholonomic momentum equation along a run."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.signatures import validated
from geonh.engine import in_float64
from geonh.groups.base import Point
from geonh.mechanics.momentum import Generators, SymmetrySection, element_of, generators_or_default, untraced
from geonh.mechanics.system import System
from geonh.results.same_system import refuse_another_space
from geonh.results.trajectory import Trajectory


@validated
@in_float64
def momentum_equation_residual(
    system: System, trajectory: Trajectory, section: SymmetrySection, *, generators: Generators | None = None
) -> Array:
    r"""Residual of the discrete nonholonomic momentum equation along a run.

    With J_k = ⟨p⁺_k, X(g_k)ᵀη_k⟩ and η_k = η(g_k),

        J_{k+1} − J_k − ⟨p⁺_{k+1}, X(g_{k+1})ᵀ(η_{k+1} − η_k)⟩,

    which is zero to rounding under GNI if every constant η is a symmetry of ℓ (so that l_d is invariant) and
    the section lies in g^D. The constraints need no symmetry, and may be affine.

    Source: Ferraro, Iglesias & Martín de Diego, Nonlinearity 21 (2008), Theorem 3.

    Parameters
    ----------
    system : System
        The system, without external forces.
    trajectory : Trajectory
        With every step stored (``save_every=1``).
    section : callable
        As in ``nonholonomic_momentum``: g ↦ η(g), shape=[k].
    generators : callable, optional
        As in ``momentum_map``: g ↦ X(g), shape=[k, n].

    Returns
    -------
    array, shape=[N − 1]
        For a trajectory of N nodes; joule seconds times the unit of η.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if steps are missing from the trajectory, or if there are external forces.
    """
    refuse_another_space(trajectory, system)
    if np.any(np.diff(trajectory.k) != 1):
        raise ValueError("the momentum equation relates consecutive steps: run with save_every=1")
    if system.forces is not None:
        raise ValueError(f"the momentum equation of Theorem 3 has no external forces; {system.name} has some")
    return untraced(_balance, (system, section, generators), trajectory.g, trajectory.p_plus)


def _balance(what: tuple, g: Point, p: Array) -> Array:
    system, section, generators = what
    X = generators_or_default(system, generators)
    eta = system.group.batched(lambda g: element_of(X(g), section, g, "section"), g)
    momenta = jnp.einsum("kn,kan->ka", p, system.group.batched(X, g))
    J = jnp.sum(momenta * eta, axis=1)
    return J[1:] - J[:-1] - jnp.sum(momenta[1:] * (eta[1:] - eta[:-1]), axis=1)

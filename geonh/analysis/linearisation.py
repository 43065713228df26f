r"""Linear equations about a steady motion, without reduction by hand.

With the notation of ``equations``, perturbations (η, δ) of g = g₀exp(η), ξ = ξ₀ + δ obey

    η̇ = δ − ad_{ξ₀−σ}η,   δ̇ = D_g a·η + (D_ξa + ad_σ)δ,   D_g r·η + μδ = 0,

a matrix 𝒜 that maps the tangent space T of {r = 0} into itself. Two invariant subspaces of T are factored out: the
symmetry directions (η, 0), in which nothing changes, and the rest of the generalised kernel, the neighbouring steady
motions (another speed, another spin). What remains are the linear equations usually derived by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.analysis.equations import coordinate_names
from geonh.analysis.motions import (
    FURTHER,
    VerifiedMotion,
    generators,
    given_motions,
    rows_of_algebra,
    verified_motions,
)
from geonh.analysis.subspaces import complement, invariant_kernel, kernel, leading, span, staircase
from geonh.arguments.signatures import validated
from geonh.groups.base import Point
from geonh.mechanics.system import System

INVARIANT = 1e-7
"""Largest defect of invariance, relative to the equations, of a tangent space or a symmetry."""


@dataclass(frozen=True)
class Linearisation:
    """Linear equations ż = Az of a system about a steady motion.

    Attributes
    ----------
    A : ndarray, shape=[d, d]
        The matrix, 1/s (and in the units of the states).
    states : tuple of str
        Names of the d entries of z: displacements, named as the coordinate if it is an angle or an additive coordinate
        (``delta``), else ``eta_`` with the velocity's name, the component of log(g₀⁻¹g); and changes of ξ, named as
        velocities.
    eigenvalues : ndarray, shape=[d]
        Eigenvalues of A, complex, by decreasing real part; 1/s.
    modes : ndarray, shape=[2n, d]
        For each eigenvalue the eigenvector (η, δ), largest entry 1, including the symmetry directions.
    coordinates : tuple of str
        Names of the 2n rows of ``modes``.
    symmetries : ndarray, shape=[2n, s]
        Orthonormal perturbations in which nothing changes.
    family : tuple of int
        Numbers (k₁, k₂, …) of Jordan blocks at zero with length ≥ i that were factored out: k₁ directions in which
        neighbouring motions are steady too. Empty where there are none, or they were kept.
    full : ndarray, shape=[2n, 2n]
        𝒜 on all (η, δ); meaningful on the columns of ``tangent``.
    tangent : ndarray, shape=[2n, q]
        Orthonormal perturbations that satisfy the linear constraints.
    embedding : ndarray, shape=[2n, d]
        The perturbation (η, δ) of a state z, up to symmetries and family: ``embedding @ z``.
    g, xi, sigma : point of the group, ndarray of shape=[n], ndarray of shape=[n]
        The motion g(t) = s(t) g₀ e^{σt}.
    """

    A: np.ndarray
    states: tuple[str, ...]
    eigenvalues: np.ndarray
    modes: np.ndarray
    coordinates: tuple[str, ...]
    symmetries: np.ndarray
    family: tuple[int, ...]
    full: np.ndarray
    tangent: np.ndarray
    embedding: np.ndarray
    g: Point
    xi: np.ndarray
    sigma: np.ndarray

    @property
    def growth(self) -> float:
        """Largest real part of an eigenvalue, 1/s: negative where small perturbations decay; −∞ without states."""
        return float(self.eigenvalues.real.max(initial=-np.inf))

    def __str__(self) -> str:
        roots = ", ".join(f"{v.real:.6g}{v.imag:+.6g}i" if v.imag else f"{v.real:.6g}" for v in self.eigenvalues)
        return f"z = ({', '.join(self.states)}), eigenvalues {roots} 1/s"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import linearisation_card

        return linearisation_card(self)


@validated
def linearise(
    system: System,
    g: Any,
    xi: Any,
    *,
    t: float = 0.0,
    controls: Any = None,
    spins: Any = None,
    symmetries: Any = None,
    states: Sequence[str] | None = None,
    keep_family: bool = False,
    tol: float = 1e-8,
) -> Linearisation:
    """Linear equations of a system about an equilibrium or a steady motion.

    Parameters
    ----------
    system : System
    g : point of the group, or None for the identity
        Configuration of the motion.
    xi : array_like, shape=[n]
        Its velocity, which satisfies the constraints.
    t : float
        Time in seconds, for forces that depend on it; on a steady motion they must not.
    controls : array_like, shape=[n_u], optional
        Value of the controls along the motion, of the shape that the forces take.
    spins : array_like, shape=[k, n], optional
        Generators of the material symmetries about which the motion may rotate; found when left out.
    symmetries : array_like, shape=[s, n], optional
        Displacements η to be factored out; found when left out. None are ignored with ``np.zeros((0, n))``.
    states : sequence of str, optional
        Names of the states; chosen among ``coordinates`` when left out, displacements first.
    keep_family : bool
        True to keep the zero eigenvalues of neighbouring steady motions in A.
    tol : float
        Tolerance on steadiness: residual of the equations relative to their linear part.

    Returns
    -------
    Linearisation

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the start is off the constraint, the motion is not steady, the equations depend on time, given symmetries are
        invalid, or given states do not parametrise the perturbations.

    Notes
    -----
    Derivatives are exact (automatic). The linearisation of constrained systems by hand is in Meijaard and others,
    Proc. R. Soc. A 463 (2007), and Neimark, Fufaev, *Dynamics of nonholonomic systems*, ch. VI.
    """
    motions = given_motions(system, [(g, xi)], controls, t)
    (motion,) = verified_motions(system, [system.parameters], t, motions, generators(system, spins), tol, [""])
    return reduced(system, motion, symmetries, states, () if keep_family else None)


def reduced(
    system: System,
    motion: VerifiedMotion,
    symmetries: Any = None,
    states: Sequence[str] | None = None,
    family: tuple[int, ...] | None = None,
    label: str = "",
) -> Linearisation:
    """Linear equations from the derivatives, by linear algebra alone; arguments and errors as for ``linearise``.

    ``family`` is the number of zeros to factor out, if known, and ``label`` the prefix of error messages.
    """
    n, here, further = system.group.dim, motion.derivatives, motion.further
    by_g, by_xi = here.by_g, here.by_xi
    ad_sigma, ad_rest = here.ad(motion.sigma), here.ad(motion.xi - motion.sigma)
    full = np.block([[-ad_rest, np.eye(n)], [by_g[:n], by_xi[:n] + ad_sigma]])
    size = float(np.linalg.norm(full, 2) + np.linalg.norm(by_g[n:]) + np.linalg.norm(by_xi[n:]))
    T = kernel(np.concatenate([by_g[n:], by_xi[n:]], axis=1), size)
    change = np.concatenate([further.by_g - by_g, further.by_xi - by_xi], axis=1) @ T
    unsteady = f"{label}this is no steady motion of {system.name}: its linear equations change along it"
    if np.abs(change).max(initial=0.0) > INVARIANT * size:
        raise ValueError(f"{unsteady}, by {np.abs(change).max():.2g} of {size:.2g} within {FURTHER} radians or metres")
    _refuse_variant(full, T, size, unsteady)
    if symmetries is None:
        S = invariant_kernel(by_g, ad_rest, size)
    else:
        S = span(rows_of_algebra(system, symmetries, "symmetries").T)
    S = np.concatenate([S, np.zeros_like(S)])
    if motion.spins is not None and len(motion.spins) and symmetries is None:
        columns = motion.spins.T
        S = span(np.concatenate([S, np.concatenate([columns, here.ad(motion.xi) @ columns])], axis=1))  # (σ, −ad_σξ)
    outside = float(np.linalg.norm(S - T @ (T.T @ S))) if S.size else 0.0
    if outside > INVARIANT:
        raise ValueError(f"{label}the given symmetries leave the constraints of {system.name}: by {outside:.2g}")
    _refuse_variant(full, S, size, f"{label}the given symmetries are not symmetries of {system.name} at this motion")

    W = complement(T, S)
    dims, zeros = staircase(W.T @ full @ W, family)
    removed = np.concatenate([S, W @ zeros], axis=1)
    etas, deltas = range(n), range(n, 2 * n)
    fixed = leading(S, etas, deltas)
    beside = removed @ kernel(removed[fixed], 1.0) if fixed else removed
    fixed += leading(beside, deltas, etas)
    gauged = T @ kernel(T[fixed], 1.0) if fixed else T
    coordinates = coordinate_names(system)
    rows = leading(gauged, etas, deltas) if states is None else _rows_of_states(states, coordinates, gauged)
    L = gauged @ np.linalg.inv(gauged[rows])
    d, basis = len(rows), np.concatenate([L, removed], axis=1)
    blocks = np.linalg.lstsq(basis, full @ basis, rcond=None)[0]
    A, coupling, inner = blocks[:d, :d], blocks[d:, :d], blocks[d:, d:]
    values, vectors = np.linalg.eig(A)
    order = np.lexsort((-values.imag, -values.real))
    values, vectors = values[order].astype(complex), vectors[:, order]
    modes = L @ vectors.astype(complex)
    for i, value in enumerate(values):
        response = np.linalg.lstsq(value * np.eye(len(inner)) - inner, coupling @ vectors[:, i], rcond=1e-10)[0]
        modes[:, i] += removed @ response
        modes[:, i] /= modes[np.argmax(np.abs(modes[:, i])), i]
    return Linearisation(
        A=A,
        states=tuple(coordinates[i] for i in rows),
        eigenvalues=values,
        modes=modes,
        coordinates=coordinates,
        symmetries=S,
        family=dims,
        full=full,
        tangent=T,
        embedding=L,
        g=motion.g,
        xi=motion.xi,
        sigma=motion.sigma,
    )


def _refuse_variant(full: np.ndarray, space: np.ndarray, size: float, fault: str) -> None:
    """Raise ValueError with a fault if a space is not mapped into itself."""
    moved = full @ space
    gap = float(np.linalg.norm(moved - space @ (space.T @ moved))) if space.size else 0.0
    if gap > INVARIANT * size:
        raise ValueError(f"{fault}: by {gap:.2g}, of {size:.2g}")


def _rows_of_states(states: Sequence[str], coordinates: tuple[str, ...], gauged: np.ndarray) -> list[int]:
    """Indices of the rows of the states that a user names."""
    unknown = [name for name in states if name not in coordinates]
    if unknown:
        raise ValueError(f"states: {unknown} are not among {list(coordinates)}")
    rows, d = [coordinates.index(name) for name in states], gauged.shape[1]
    if len(rows) != d or np.linalg.matrix_rank(gauged[rows], tol=1e-6) < d:
        usual = [coordinates[i] for i in leading(gauged, range(len(gauged) // 2), range(len(gauged) // 2, len(gauged)))]
        raise ValueError(f"states must be {d} independent coordinates, such as {usual}; got {list(states)}")
    return rows

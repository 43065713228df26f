r"""First integrals linear and quadratic in the velocity, by linear algebra at random states.

Candidates are products b(g) v_i v_j of functions b of a basis and of components v of the momentum p, of the spatial
momentum π = Ad*_{g⁻¹}p and of the velocity ξ, as far as these are independent on the constraints, with b = 1 and v = 1
among them. A combination F = Σ cF_k is a first integral if Σ cḞ_k = 0 at all states on the constraints, with exact
derivatives along the constrained equations: c is in the kernel of a matrix with a row for each random state. It is
computed for values that are orthonormal at these states, so its singular values are rates, in 1/s, and taken modulo
constants, the energy and products of integrals of lower degree. The results are tested at states that were not used.

An integral linear in ξ is ⟨p, Z(g)⟩ + f(g) with one field Z in D. It is the momentum of a horizontal symmetry if the
lift of Z to velocities leaves ℓ invariant (Noether); a gauge momentum if it does so on D alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import solve_spd
from geonh.analysis.candidates import (
    DEPENDENT,
    SPARE,
    Names,
    Polynomial,
    Samples,
    Search,
    candidates,
    sampled,
    variables,
)
from geonh.analysis.motions import value_of_controls
from geonh.analysis.states import IDENTITY, States, random_states, require_scalars
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count
from geonh.engine import mapped
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.symmetry import across, change_of_lagrangian
from geonh.mechanics.system import System

GAP = 1e3
"""Least ratio of the smallest rate that is not zero to those that are."""
MOST = 1500
"""Largest number of candidates."""
DEGREES = ("position", "linear", "quadratic")
"""Names of integrals by their degree in the velocity."""


@dataclass(frozen=True)
class FoundIntegrals(Mapping):
    """First integrals found by ``first_integrals``: a mapping of names to ``FirstIntegral``.

    Attributes
    ----------
    integrals : dict of str to FirstIntegral
        By names such as "linear 1"; the formula of each is its ``note``, in components p, π (spatial), ξ by the
        velocities' names.
    kinds : dict of str to str
        Of the linear ones: "symmetry" (momentum of a horizontal symmetry) or "gauge momentum"; "" of others, as with
        gyroscopic terms or forces.
    residuals : dict of str to float
        Largest |dF/dt| at states not used in the search, 1/s, where F has mean square 1 there; accelerations much
        larger than most count as they.
    zero : float
        Largest rate that was taken for zero, 1/s.
    nonzero : float
        Smallest rate of change, 1/s, of a candidate combination that was not taken for one: with ``zero`` the gap of
        the rank decision; infinite if all combinations are first integrals.
    n_candidates : int
        Number of independent candidates.
    keeps_energy : bool
        True if the energy is a first integral; it is not listed.
    name : str
        Name of the system.
    """

    integrals: dict[str, FirstIntegral]
    kinds: dict[str, str]
    residuals: dict[str, float]
    zero: float
    nonzero: float
    n_candidates: int
    keeps_energy: bool
    name: str

    def __getitem__(self, name: str) -> FirstIntegral:
        return self.integrals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.integrals)

    def __len__(self) -> int:
        return len(self.integrals)

    def __str__(self) -> str:
        energy = "besides the energy" if self.keeps_energy else "(the energy is none)"
        lines = [f"{self.name}: {len(self) or 'no'} first integral{'' if len(self) == 1 else 's'} {energy}"]
        for name, integral in self.integrals.items():
            kind = f" ({self.kinds[name]})" if self.kinds[name] else ""
            lines.append(f"  {name}{kind}: {integral.note}; |dF/dt| < {self.residuals[name]:.2g} 1/s")
        lines.append(
            f"  {self.n_candidates} independent candidates; rates of combinations: zero up to {self.zero:.2g}, others "
            f"from {self.nonzero:.2g} 1/s"
        )
        return "\n".join(lines)

    __repr__ = __str__


@validated
def first_integrals(
    system: System,
    basis: Mapping[str, Callable] | None = None,
    *,
    degree: int = 2,
    g: Any = None,
    controls: Any = None,
    seed: int = 0,
) -> FoundIntegrals:
    """Search for first integrals that are polynomials in the velocity, besides the energy.

    Parameters
    ----------
    system : System
        The system; functions that depend on the time are evaluated at random times.
    basis : mapping of str to callable, optional
        Coefficients besides constants: b(g) or b(g, parameters) → scalar, of the configuration, in ``jax.numpy``.
    degree : int
        Largest degree in the velocity: 1 or 2.
    g : point of the group, or None for the identity
        Centre of the random states.
    controls : array_like, optional
        Value of the controls, of the shape that the forces take.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    FoundIntegrals
        Independent modulo constants, the energy and products of each other; ``system.with_first_integrals(found)`` has
        them in its runs.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for functions that are not finite, or no clear gap between rates that are
        zero and others.

    Notes
    -----
    Candidates are constants and the given functions, times 1, components of p, of the spatial momentum π = Ad*_{g⁻¹}p
    and of ξ, and products of two of these. That an integral is not found means that there is none in their span.

    References
    ----------
    .. [Bates1996] L. Bates, H. Graumann, C. MacDonnell, "Examples of gauge conservation laws in nonholonomic systems",
       Reports on Mathematical Physics 37 (1996), 295–308.
    .. [Fasso2008] F. Fassò, A. Giacobbe, N. Sansonetto, "Gauge conservation laws and the momentum equation in
       nonholonomic mechanics", Reports on Mathematical Physics 62 (2008), 345–367.
    """
    if degree not in (1, 2):
        raise ValueError(f"degree must be 1 or 2, got {degree}")
    fields = tuple(Field(function, f"basis function {name!r}") for name, function in dict(basis or {}).items())
    point = system.point(g, name="g")
    if system.holonomic is not None:
        point = system.project_position(point)
    system = system.with_rank_at(point)
    require_scalars(fields, point, system.parameters)
    rng = np.random.default_rng(as_count(seed, "seed", 0))
    u = value_of_controls(system, controls, 0.0, point, np.zeros(system.group.dim))

    def samples(count: int) -> Samples:
        return sampled(system, fields, random_states(system, point, count, rng, t=rng.uniform(size=count)), u)

    names = Names(("", *(basis or {})), ("", *variables(system)))
    terms = candidates(samples(SPARE + len(names.basis) + len(names.variables)), degree)
    if len(terms) > MOST:
        raise ValueError(
            f"{len(terms)} candidates for {system.name}, of {len(fields) + 1} functions times momenta and velocities, "
            f"are more than {MOST}: give degree=1, or a smaller basis"
        )
    search = Search(samples(SPARE + len(terms)), terms)
    for order in range(degree + 1):
        search.extend(order)
    states = random_states(system, point, SPARE, rng)
    return _tested(system, fields, names, search, samples(SPARE), states, rng.normal(size=states.xi.shape))


def _tested(
    system: System, basis: tuple[Field, ...], names: Names, search: Search, fresh: Samples, on_D: States, xi: np.ndarray
) -> FoundIntegrals:
    """Named integrals, tested at fresh samples; their kinds at states on D and with other velocities ξ."""
    integrals, kinds, residuals, counts = {}, {}, {}, [0, 0, 0]
    values, rates = fresh.values(search.terms), fresh.rates(search.terms)
    for degree, c in search.found:
        sizes = np.abs(c) * np.linalg.norm(search.values, axis=0)
        used = np.flatnonzero(sizes > DEPENDENT * sizes.max())
        counts[degree] += 1
        name = f"{DEGREES[degree]} {counts[degree]}"
        terms, coefficients = [search.terms[i] for i in used], c[used] / c[used[0]]
        function = Polynomial(system.group, basis, coefficients, tuple(terms))
        integrals[name] = FirstIntegral(function, names.formula(coefficients, terms))
        size = np.sqrt(np.mean((values[:, used] @ coefficients) ** 2))
        residuals[name] = float(np.abs(rates[:, used] @ coefficients).max() / size)
        kinds[name] = _kind(system, integrals[name], on_D._replace(xi=xi), on_D) if degree == 1 else ""
        if not max(residuals[name], search.zero) * GAP < search.nonzero:
            raise ValueError(
                f"no clear gap between combinations that are first integrals of {system.name} and others: |dF/dt| = "
                f"{residuals[name]:.2g} 1/s against {search.nonzero:.2g}; choose g where the motion is slower, or a "
                "smaller basis"
            )
    return FoundIntegrals(
        integrals=integrals,
        kinds=kinds,
        residuals=residuals,
        zero=search.zero,
        nonzero=search.nonzero,
        n_candidates=len(search.terms),
        keeps_energy=search.energy is not None,
        name=system.name,
    )


def _kind(system: System, integral: FirstIntegral, apart: States, on_D: States) -> str:
    """Kind of an integral linear in ξ, by the change of ℓ along its field Z at states apart from D and on it."""
    if system.is_timed or system.is_nonlinear or not system.is_quadratic:
        return ""
    for kind, states in (("symmetry", apart), ("gauge momentum", on_D)):
        changes, sizes = mapped(_change_along_field, (system, integral), (states.g, states.xi))
        if np.abs(changes).max() < IDENTITY * sizes.max():
            return kind
    return ""


def _change_along_field(tree: tuple, node: tuple) -> tuple[Array, Array]:
    system, integral = tree
    g, xi = node

    def field_of(g: Point) -> Array:
        x = system.at(g)
        M = system.mass_matrix(x)
        slope = jax.grad(lambda xi: integral.function(g, xi, system.momentum(x, xi), system.parameters))(0 * xi)
        Z = solve_spd(M, slope)
        return (Z - across(system, M, x) @ Z if system.is_constrained else Z)[None]

    Z, speed = field_of(g)[0], system.lagrangian(system.at(g), xi)
    return change_of_lagrangian(system, field_of, g, xi)[0, 0], jnp.abs(speed) * jnp.sqrt(1 + Z @ Z)

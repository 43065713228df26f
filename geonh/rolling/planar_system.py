"""Systems of planar bodies on knife edges and wheels, with steering, rolling angles and trailers, on SE(2) × Tᵏ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jax import Array

from geonh.arguments.signatures import validated
from geonh.geometry.distribution import Distribution, VelocityForms
from geonh.geometry.field import Field
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System
from geonh.rolling.composite import mass_matrix
from geonh.rolling.part_velocities import kinetic_energy, velocities_of_parts
from geonh.rolling.planar_drawing import drawing
from geonh.rolling.wheels import PlanarBody, chain, coordinate_names


@validated
def planar(
    body: PlanarBody,
    *,
    potential: Callable | None = None,
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    name: str = "planar body",
    rank: int | None = None,
) -> System:
    """System of a planar body with its wheels and trailers.

    Parameters
    ----------
    body : PlanarBody
        The first of the chain.
    potential : callable, optional
        V(x) or V(x, parameters), joules, x the vector of the k angles, shape=[k].
    forces : callable, optional
        f(t, x, ξ, u) as of ``System``.
    parameters : mapping, optional
        Further numbers; "body" is reserved.
    first_integrals : mapping of str to FirstIntegral, optional
        As for ``System``.
    draw : callable, optional
        As for ``System``; when left out, each body with its wheels, edges and centre of mass, best seen from above:
        steering turns them, rolling is not shown.
    name : str
        Name in tables and files.
    rank : int, optional
        Number of independent constraints, if some are redundant; as for ``System``.

    Returns
    -------
    System
        On SE(2) × Tᵏ, ξ = (ω, u, v, rates of the angles) in the frame of the first body; reduced by SE(2).

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If two angles have the same name, ``parameters`` have "body", or ``body`` is a trailer; else as of ``System``.
    """
    if body.name:
        raise ValueError("body must be the first of a chain, made by planar_body, not a trailer")
    names = tuple(coordinate_names(body))
    if len(set(names)) < len(names):
        raise ValueError(f"angles need names of their own, got {list(names)}: name= of wheel and trailer, steered=")
    if "body" in (parameters or {}):
        raise ValueError("parameters: 'body' is the body's own; take another name")
    space = Product((SE2(), Torus(len(names), names))) if names else SE2()
    standing = any(part.wheels for part in chain(body))
    return System(
        space,
        lagrangian=_Lagrangian(None if potential is None else Field(potential, "potential")),
        metric=mass_matrix,
        distribution=Distribution(forms=VelocityForms(_constraints, 3 + len(names))) if standing else None,
        forces=forces,
        parameters={"body": body, **(parameters or {})},
        base="shape" if names else "point",
        first_integrals=first_integrals,
        draw=drawing if draw is None else draw,
        name=name,
        rank=rank,
    )


class _Lagrangian(eqx.Module):
    """Kinetic energy of a planar body, its wheels and trailers, less a potential: velocities body by body."""

    potential: Field | None

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        kinetic = kinetic_energy(x, xi, parameters["body"])
        return kinetic if self.potential is None else kinetic - self.potential(x, parameters)


def _constraints(x: Any, xi: Array, parameters: Any) -> list[Array] | Array:
    return velocities_of_parts(x, xi, parameters["body"]).constraints

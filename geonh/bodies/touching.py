r"""Convex shapes of links that roll on surfaces, by their support functions, as ``geonh.rolling`` has them.

With the pose (R, p) of the link, the centre c of the figure, the outward normal n of the body at the contact and
ρ = ∇H(n), the rows are φ = ψ(X), X = p + R(c + ρ), and, with two tangents T(ν) of the surface there,

    T(ν) R (v + ω × (c + ρ)) = 0,      (Rᵀν)·ω = 0 without spinning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from jax import Array

from geonh.arguments.validators import as_constant, as_flag, as_text, shortly
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.motion import State, hat, number
from geonh.bodies.values import set_fields
from geonh.rolling.rows import tangents
from geonh.rolling.supports import Support
from geonh.rolling.surfaces import Surface, plane


@dataclass(frozen=True, eq=False)
class Rolling:
    """Convex body on a link that rolls on a surface without slipping.

    Parameters
    ----------
    link : str
        Link that it is fixed to.
    support : Support
        Its shape in the link's axes, about ``centre``: ``geonh.rolling.ball``, ``disc``, ``ellipsoid``, ….
    on : Surface
        ``geonh.rolling.plane()`` by default, or ``cylinder``, ``sphere``, ``surface``.
    centre : array_like, shape=[3]
        Centre of the figure in the link's frame, m.
    spin : bool
        True if it may spin about the surface's normal.
    name : str
        Its name; that of the link when left out.

    Raises
    ------
    TypeError, ValueError
        For invalid arguments; for a surface that depends on the time.
    """

    link: str
    support: Support
    on: Surface = field(default_factory=plane)
    centre: Any = (0.0, 0.0, 0.0)
    spin: bool = True
    name: str = ""

    sizes: ClassVar[tuple[str, ...]] = ("centre",)

    def __post_init__(self) -> None:
        for text in ("link", "name"):
            as_text(getattr(self, text), f"{text} of a rolling body")
        if not isinstance(self.support, Support):
            raise TypeError(f"support of link {self.link!r} must be made by geonh.rolling, got {shortly(self.support)}")
        if not isinstance(self.on, Surface):
            raise TypeError(
                f"on of link {self.link!r} must be a Surface, as geonh.rolling.surface(f) makes of a function, got "
                f"{shortly(self.on)}"
            )
        if self.on.timed:
            raise ValueError(f"on of link {self.link!r}: surfaces that depend on the time are those of geonh.rolling")
        centre = as_constant(self.centre, f"centre of the contact of link {self.link!r}", (3,))
        set_fields(self, centre=centre, name=self.name or self.link, spin=as_flag(self.spin, "spin"))

    @property
    def bare(self) -> Touching:
        """The contact without shapes, which are parameters of the system."""
        return Touching(self.link, self.centre, self.spin, self.name)

    @property
    def shapes(self) -> dict[str, Any]:
        """Body and surface, as parameters of the system."""
        return {f"{self.name}.support": self.support, f"{self.name}.on": self.on}


@dataclass(frozen=True)
class Touching:
    """Contact of ``Rolling`` without its shapes."""

    link: str
    centre: Any
    spin: bool
    name: str

    sizes: ClassVar[tuple[str, ...]] = ("centre",)

    @property
    def row_names(self) -> list[str]:
        """Names of the rows of velocities."""
        rows = ["in the first direction", "in the second direction", *([] if self.spin else ["about the normal"])]
        return [f"contact {self.name!r} {row}" for row in rows]

    def height(self, tree: Tree, at: Any, parameters: Any) -> Array:
        """ψ at the contact, of a link with the pose (R, p)."""
        support, on = parameters[f"{self.name}.support"], parameters[f"{self.name}.on"]
        centre = at.p + at.R @ number(tree, self, "centre", parameters)
        return on.height(support, at.R, centre, parameters)

    def velocities(self, tree: Tree, at: State, parameters: Any) -> list[Array]:
        """Velocities that vanish, m/s and rad/s."""
        support, on = parameters[f"{self.name}.support"], parameters[f"{self.name}.on"]
        c = number(tree, self, "centre", parameters)
        centre = at.p + at.R @ c
        arm = support.point(on.outward(support, at.R, centre, parameters))
        normal = on.normal(centre + at.R @ arm, parameters)
        sliding = at.R @ (at.v - hat(c + arm) @ at.omega)
        rows = [tangent @ sliding for tangent in tangents(normal)]
        return rows if self.spin else [*rows, normal @ (at.R @ at.omega)]

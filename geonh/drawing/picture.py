"""Drawing of a system at a node: the user's, or the one implied by the system's space."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import TracedError, is_traced
from geonh.arguments.validators import shortly
from geonh.drawing.bodies import Body, Pose, planar, shifted
from geonh.drawing.shapes import axes, ball, cylinder, ground, prism
from geonh.engine import interpret
from geonh.groups import SE2, SE3, SO3, LieGroup, Opposite, Translations
from geonh.groups.product import Product


class NoDrawingError(ValueError):
    """A system has no drawing, nor one implied by its space; a ValueError."""


class Picture:
    """Drawing of a system, or that implied by its space, with the parameter values: hashable, for compiled programs;
    ValueError if there is neither.
    """

    def __init__(self, system: Any):
        self.name, self.parameters = system.name, jax.tree.map(_number, system.parameters)
        self.draw = system.draw or _implied(system.group)
        if self.draw is None:
            raise NoDrawingError(
                f"{system.name!r} on {system.group} has no drawing, and its space implies none: System(..., draw=) "
                "takes a function of (t, g, parameters) that returns bodies; see geonh.drawing"
            )
        leaves, structure = jax.tree.flatten(self.parameters)
        self._key = (system.draw or system.group, structure, tuple(map(_content, leaves)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def bodies(self, t: Any, g: Any) -> list[Body]:
        """Bodies at (t, g)."""
        try:
            bodies = self.draw(t, g, self.parameters)
        except (TracedError, jax.errors.JAXTypeError):  # reported where it is traced
            raise
        except Exception as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"draw of {self.name!r} could not be evaluated: {type(error).__name__}: {error}") from error
        if not isinstance(bodies, Sequence) or not bodies or not all(isinstance(body, Body) for body in bodies):
            raise TypeError(f"draw of {self.name!r} must return a list of geonh.drawing.Body, got {shortly(bodies)}")
        if len({body.name for body in bodies}) < len(bodies):
            raise ValueError(f"draw of {self.name!r} gives two bodies of one name: {[body.name for body in bodies]}")
        return list(bodies)

    def still(self, t: Any, g: Any) -> list[Body]:
        """Bodies at (t, g) without their poses: traced, so that no operation is compiled separately."""
        bodies: list[Body] = []

        def poses(*node: Any) -> list[Any]:
            bodies.extend(self.bodies(*node))
            return [(tuple(body.at), body.trace) for body in bodies]

        traced, shapes = jax.make_jaxpr(poses, return_shape=True)(t, g)
        with contextlib.suppress(TypeError):  # single precision is sufficient for drawing
            inspected(f"draw of {self.name!r}", traced)
        numbers = jax.tree.unflatten(jax.tree.structure(shapes), interpret(traced, jax.tree.leaves((t, g))))
        for body, (_, trace) in zip(bodies, numbers, strict=True):
            body.trace = trace  # as numbers, even if written in jax.numpy
        return bodies


def _number(leaf: Any) -> Any:
    return leaf if callable(leaf) else np.asarray(leaf)


def _content(leaf: Any) -> Any:
    """Comparable content of a parameter."""
    return leaf if callable(leaf) else (leaf.shape, leaf.dtype.str, leaf.tobytes())


def precise(pose: Pose) -> Pose:
    """Convert a pose to float64, even if it was created outside of it."""
    return Pose(*(jnp.asarray(a if is_traced(a) else np.asarray(a, np.float64)) for a in pose))


def _implied(group: LieGroup) -> Any:
    """Drawing implied by a group's factors: a wedge for SE(2), axes for a rotation, a ball for a point; or None."""
    factors = group.factors if isinstance(group, Product) else (group,)
    single = not isinstance(group, Product)
    plain = [f.group if isinstance(f, Opposite) else f for f in factors]
    points = [i for i, f in enumerate(plain) if isinstance(f, Translations) and f.dim in (2, 3)]
    kinds = (SE2, SE3, SO3)
    drawn = [i for i, f in enumerate(plain) if isinstance(f, kinds)]
    if not drawn and not points:
        return None

    def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
        parts = (g,) if single else g
        bodies, at = [], points[0] if points and len(drawn) == 1 and isinstance(plain[drawn[0]], SO3) else None
        for i in drawn:
            name = str(factors[i]) if len(drawn) == 1 else f"body {i + 1}"
            if isinstance(plain[i], SE2):
                theta, x, y = parts[i]
                bodies.append(Body(name, WEDGE, at=planar(theta, x, y), trace=[0, 0, 0]))
            elif isinstance(plain[i], SE3):
                at_g = Pose(parts[i][:3, :3], parts[i][:3, 3])
                bodies.append(Body(name, [BRICK, *axes(0.6)], at=at_g, trace=[0, 0, 0]))
            else:
                x = jnp.zeros(3) if at is None else jnp.zeros(3).at[: plain[at].dim].set(parts[at])
                bodies.append(Body(name, [BRICK, *axes(0.6)], at=Pose(parts[i], x), trace=[0, 0, 0] if at else None))
        for i in points:
            if i != at:
                place = shifted(*parts[i])
                bodies.append(Body(f"point {i + 1}" if len(points) > 1 else "point", DOT, at=place, trace=[0, 0, 0]))
        if any(isinstance(plain[i], SE2) for i in drawn):
            bodies.append(Body("ground", ground()))
        return bodies

    return draw


WEDGE = prism([[-0.1, -0.1], [0.25, 0.0], [-0.1, 0.1]], 0.05).moved(z=0.025)
BRICK = cylinder(0.25, 0.1)
DOT = ball(0.05, 12)

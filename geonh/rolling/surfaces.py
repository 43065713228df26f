r"""Surfaces to roll on, ψ(X) = 0 with the free side ψ > 0, and their contact with a convex body.

The contact's outward normal n on the body, in body axes, satisfies

    n + Rᵀν(x + R∇H(n)) = 0,   ν = ∇ψ/|∇ψ|.

On a plane it is −Rᵀe in closed form, and on cylinders and spheres −Rᵀν at the centre of a ball. Elsewhere Newton's
method is used, n ← n − J⁻¹(…), J = 1 + Rᵀ Dν R∇²H, without derivatives; long steps, which may lead to another end of a
body, are changed so that they lower ψ. Then come q more steps with them, J held: each makes derivatives exact to one
order more. Accelerations need one order of n, their linear equations two, and their derivatives three. The height
ψ(x + R∇H(n)) is stationary at n, so there one step makes derivatives exact to order 3.

Inside a hollow the body must be more curved than the surface, else it would penetrate it about the contact: on
tangents the eigenvalues of J, those of 1 − (curvature of the surface)·(radius of the body), must be positive. Where
they are not there is no contact, and n is nan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import det, solve
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, as_positive, one_of, shortly
from geonh.engine import Precise, traced_once
from geonh.geometry.field import Field, Moment, TimeDependent
from geonh.rolling.supports import Support, _unit

ITERATIONS = 12
"""Maximum number of Newton steps to the contact, without derivatives;"""
TOUCHING = 1e-13
"""step length below which it has converged."""
LONG = 0.1
"""Step length, rad, above which it may be shortened or turned round,"""
FRACTIONS = np.outer(0.5 ** np.arange(6), [1.0, -1.0]).ravel()
"""to the one of these fractions that leads lowest."""


class Surface(Precise):
    """Surface ψ = 0, ψ > 0 on the free side; returned by ``plane``, ``cylinder``, ``sphere`` and ``surface``.

    Below, X and x are points of shape=[3], metres, or a ``Moment`` (t, X) where ψ depends on the time.
    """

    @property
    def as_plane(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Unit normal, shape=[3], and level of a plane; None for another surface."""
        return None

    @property
    def timed(self) -> bool:
        """True if ψ depends on the time."""
        return False

    @property
    def clears_always(self) -> bool:
        """True if every convex body is more curved than the surface."""
        return False

    @abstractmethod
    def value(self, X: Any, parameters: Any) -> Array:
        """Value ψ(X), a scalar, at a point of shape=[3]."""

    def normal(self, X: Any, parameters: Any) -> Array:
        """Unit normal ν = ∇ψ/|∇ψ|, shape=[3], towards the free side."""
        slope = jax.grad(lambda arm: self.value(_shifted(X, arm), parameters))(jnp.zeros(3))
        return slope / jnp.sqrt(slope @ slope)

    def height(self, support: Support, R: Array, x: Any, parameters: Any) -> Array:
        """Constraint φ, a scalar: ψ at the contact of a body with attitude R, shape=[3, 3], and centre of mass x."""
        arm = R @ support.point(self.outward(support, R, x, parameters, 2))
        return self.value(_shifted(x, arm), parameters)

    def outward(self, support: Support, R: Array, x: Any, parameters: Any, order: int = 3) -> Array:
        """Outward normal n of the body at the contact, in body axes, shape=[3], with derivatives up to ``order``; R of
        shape=[3, 3], centre of mass x."""
        given = (self, support, R, x, parameters)
        still, *held = jax.tree.map(lambda a: lax.stop_gradient(a) if eqx.is_inexact_array(a) else a, given)
        n, inverse = still._contact_normal(*held)
        for _ in range(order):
            n = n - inverse @ self._missing(n, support, R, x, parameters)
        return n

    def clears(self, support: Support, n: Array, R: Array, x: Any, parameters: Any) -> Array:
        """True if a body is more curved than the surface at its contact with outward normal n, shape=[3]."""
        return _is_more_curved(jax.jacfwd(lambda n: self._missing(n, support, R, x, parameters))(n))

    def _missing(self, n: Array, support: Support, R: Array, x: Any, parameters: Any) -> Array:
        arm = R @ support.point(n)
        return n + R.T @ self.normal(_shifted(x, arm), parameters)

    @traced_once
    def _contact_normal(self, support: Support, R: Array, x: Any, parameters: Any) -> tuple[Array, Array]:
        """Normal n by Newton's method, and the inverse J⁻¹ there."""

        def missing(n: Array) -> Array:
            return self._missing(n, support, R, x, parameters)

        def unit(n: Array) -> Array:
            return n / jnp.sqrt(n @ n)

        def step(n: Array) -> Array:
            return -solve(jax.jacfwd(missing)(n), missing(n))

        def height(n: Array) -> Array:
            return self.value(_shifted(x, R @ support.point(n)), parameters)

        def lower(n: Array, change: Array) -> Array:
            """Lowest of the points along Newton's step, against it, and where the surface's normal at n leads."""

            def compared(lowest: tuple, change: Array) -> tuple:
                point = unit(n + change)
                here = height(point)
                is_lower = here < lowest[0]
                return (jnp.where(is_lower, here, lowest[0]), jnp.where(is_lower, point, lowest[1])), None

            short = change / jnp.maximum(1.0, jnp.sqrt(change @ change))
            changes = jnp.concatenate([jnp.asarray(FRACTIONS)[:, None] * short, -missing(n)[None]])
            return lax.scan(compared, (height(n), unit(n + change)), changes)[0][1]

        def far(iteration: tuple) -> Array:
            return (iteration[0] < ITERATIONS) & (iteration[2] @ iteration[2] > TOUCHING**2)

        def improve(iteration: tuple) -> tuple:
            n, change = iteration[1:]
            n = lax.cond(change @ change > LONG**2, lower, lambda n, change: unit(n + change), n, change)
            return iteration[0] + 1, n, step(n)

        begin = -R.T @ self.normal(x, parameters)
        n = lax.while_loop(far, improve, (0, begin, step(begin)))[1]
        J = jax.jacfwd(missing)(n)
        return jnp.where(_is_more_curved(J), n, jnp.nan), solve(J, jnp.eye(3))


def _is_more_curved(J: Array) -> Array:
    """True if the two eigenvalues of J on tangents, which are real, are positive; Jn = n is the third."""
    return (det(J) > 0) & (jnp.trace(J) > 1)


def _without_time(X: Any) -> Array:
    """X without the time."""
    return X.x if isinstance(X, Moment) else X


def _shifted(X: Any, arm: Array) -> Any:
    """X + arm at the same time."""
    return Moment(X.t, X.x + arm) if isinstance(X, Moment) else X + arm


class _Plane(Surface):
    up: Any
    level: Any

    def value(self, X: Any, parameters: Any) -> Array:
        return self.up @ _without_time(X) - self.level

    def normal(self, X: Any, parameters: Any) -> Array:
        return jnp.asarray(self.up)

    @property
    def as_plane(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.up), np.asarray(self.level)

    @property
    def clears_always(self) -> bool:
        return True

    def height(self, support: Support, R: Array, x: Any, parameters: Any) -> Array:
        return self.value(x, parameters) - support(-(self.up @ R))  # so that its derivative needs ∇H only

    def outward(self, support: Support, R: Array, x: Any, parameters: Any, order: int = 3) -> Array:
        return -(self.up @ R)


class _Level(Surface):
    field: Field

    @property
    def timed(self) -> bool:
        return self.field.timed

    def value(self, X: Any, parameters: Any) -> Array:
        value = self.field(X, parameters)
        if value.shape != ():
            raise ValueError(f"psi must give one number ψ(X), got an array of shape {list(value.shape)}")
        return value


class _Round(Surface):
    """A cylinder or a sphere: ψ = ±(r² − |X⊥|²)/2r."""

    radius: Any
    across: Any
    sign: float = eqx.field(static=True)

    @property
    def clears_always(self) -> bool:
        return self.sign < 0

    def value(self, X: Any, parameters: Any) -> Array:
        place = self.across * _without_time(X)
        return self.sign * (self.radius**2 - place @ place) / (2 * self.radius)

    def outward(self, support: Support, R: Array, x: Any, parameters: Any, order: int = 3) -> Array:
        if support.as_ball is None:
            return super().outward(support, R, x, parameters, order)
        centre, radius = support.as_ball
        n = -R.T @ self.normal(_shifted(x, R @ centre), parameters)
        return n if self.clears_always else jnp.where(radius < self.radius, n, jnp.nan)


@validated
def plane(normal: Any = (0.0, 0.0, 1.0), level: float = 0.0) -> Surface:
    """Plane e·X = level with the unit normal e; the body is on the side of e.

    The default is z = 0; an incline of angle α along x is ``plane((sin α, 0, cos α))``.

    Parameters
    ----------
    normal : array_like, shape=[3]
        Direction of e, of any length.
    level : float
        Distance from the origin along e, m.

    Returns
    -------
    Surface

    Raises
    ------
    TypeError, ValueError
        If they are not numbers; if ``normal`` is zero or of another shape.
    """
    return _Plane(_unit(normal, "normal"), as_float64(level, "level", ()))


@validated
def cylinder(radius: float, axis: str = "z", side: str = "inside") -> Surface:
    """Cylinder about an axis of space through the origin.

    Parameters
    ----------
    radius : float
        Radius, m.
    axis : {"z", "x", "y"}
        Axis of the cylinder in space.
    side : {"inside", "outside"}
        Side of the surface on which the body is.

    Returns
    -------
    Surface

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if ``radius`` is not positive, or a word is unknown.
    """
    one_of(axis, "axis", ("x", "y", "z"))
    return _Round(as_positive(radius, "radius", ()), 1.0 - np.eye(3)["xyz".index(axis)], _sign(side))


@validated
def sphere(radius: float, side: str = "inside") -> Surface:
    """Sphere about the origin.

    Parameters
    ----------
    radius : float
        Radius, m.
    side : {"inside", "outside"}
        Side of the surface on which the body is.

    Returns
    -------
    Surface

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if ``radius`` is not positive, or ``side`` is an unknown word.
    """
    return _Round(as_positive(radius, "radius", ()), np.ones(3), _sign(side))


def surface(psi: Callable | TimeDependent) -> Surface:
    """User-defined surface ψ(X) = 0, ψ > 0 on the free side, |∇ψ| not near 0.

    Parameters
    ----------
    psi : callable
        ψ(X) or ψ(X, parameters), X of shape=[3] in metres; of the time too with ``geonh.time_dependent``.

    Returns
    -------
    Surface

    Raises
    ------
    TypeError
        If ``psi`` is not a function of X.
    """
    if not (callable(psi) or isinstance(psi, TimeDependent)):
        raise TypeError(f"psi must be a function ψ(X), zero on the surface, got {shortly(psi)}")
    return _Level(Field(psi, "on"))


def _sign(side: str) -> float:
    one_of(side, "side", ("inside", "outside"))
    return 1.0 if side == "inside" else -1.0

r"""Convex bodies by their support functions: H(n) = max n·ρ over the body, in body axes, from the centre of mass.

H is extended from unit vectors by homogeneity, H(sn) = sH(n). The point of the boundary with outward normal n is

    ρ = ∇H(n),

which determines the shape. Minkowski sums of bodies are sums of support functions; a body whose figure has
its centre at o from the centre of mass has H(n) + o·n.

Source: Schneider, *Convex Bodies: The Brunn–Minkowski Theory* (2014), §1.7.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import solve
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_constant, as_float64, as_positive
from geonh.engine import Precise
from geonh.geometry.field import evaluated

ITERATIONS = 20
"""Number of Newton steps to the point of an implicit surface, without derivatives;"""
DIFFERENTIABLE = 3
"""and with: q of them make derivatives exact to order 2^q − 1."""


@argument_type
class Support(Precise):
    """Convex body by its support function H: ``support(n)`` is H(n) in metres, n of shape=[3]; ``a + b`` is the
    Minkowski sum.
    """

    @abstractmethod
    def __call__(self, n: Array) -> Array:
        """Value H(n), metres; n of shape=[3], of any length."""

    def point(self, n: Array) -> Array:
        """Boundary point ρ = ∇H(n), shape=[3], m, with outward normal n, shape=[3]."""
        return jax.grad(self.__call__)(n)

    @property
    def as_ball(self) -> tuple[Any, Any] | None:
        """Centre, shape=[3], and radius of a ball; None for another body."""
        return None

    def __add__(self, other: Support) -> Support:
        if not isinstance(other, Support):
            return NotImplemented
        return _Sum(self, other)

    def rounded(self, radius: float) -> Support:
        """Parallel body: all points within ``radius`` metres of the body.

        Raises ValueError if ``radius`` is not positive.
        """
        return self + ball(radius)

    def moved(self, offset: Any) -> Support:
        """Translated body with its centre at ``offset``, shape=[3], from the centre of mass, metres.

        Raises ValueError if ``offset`` has another shape.
        """
        return _Moved(self, as_float64(offset, "offset", (3,)))


class _Sum(Support):
    first: Support
    second: Support

    def __call__(self, n: Array) -> Array:
        return self.first(n) + self.second(n)

    @property
    def as_ball(self) -> tuple[Any, Any] | None:
        first, second = self.first.as_ball, self.second.as_ball
        return None if first is None or second is None else (first[0] + second[0], first[1] + second[1])


class _Moved(Support):
    figure: Support
    offset: Any

    def __call__(self, n: Array) -> Array:
        return self.figure(n) + self.offset @ n

    @property
    def as_ball(self) -> tuple[Any, Any] | None:
        figure = self.figure.as_ball
        return None if figure is None else (figure[0] + self.offset, figure[1])


class _Ball(Support):
    radius: Any

    def __call__(self, n: Array) -> Array:
        return self.radius * jnp.sqrt(n @ n)

    @property
    def as_ball(self) -> tuple[Any, Any]:
        return np.zeros(3), self.radius


class _Ellipsoid(Support):
    axes: Any

    def __call__(self, n: Array) -> Array:
        scaled = self.axes * n
        return jnp.sqrt(scaled @ scaled)


class _Disc(Support):
    radius: Any
    axis: Any

    def __call__(self, n: Array) -> Array:
        across = n - (self.axis @ n) * self.axis
        return self.radius * jnp.sqrt(across @ across)


class _Function(Support):
    function: Callable

    def __call__(self, n: Array) -> Array:
        return evaluated("support", self.function, n)


class _Implicit(Support):
    function: Callable
    size: Any

    def __call__(self, n: Array) -> Array:
        def newton(state: Array, unit: Array) -> Array:
            """One Newton step for ∇F(ρ) = ςn, F(ρ) = 0."""
            rho, scale = state[:3], state[3]
            value, slope = jax.value_and_grad(self._value)(rho)
            matrix = jnp.block([[jax.hessian(self._value)(rho), -unit[:, None]], [slope[None], jnp.zeros((1, 1))]])
            return state - solve(matrix, jnp.append(slope - scale * unit, value))

        unit = n / jnp.sqrt(n @ n)
        held = lax.stop_gradient(unit)
        slope = jax.grad(self._value)(self.size * held)
        state = jnp.append(self.size * held, jnp.sqrt(slope @ slope))
        state = lax.stop_gradient(lax.fori_loop(0, ITERATIONS, lambda _, s: newton(s, held), state))
        for _ in range(DIFFERENTIABLE):
            state = newton(state, unit)
        return n @ state[:3]

    def _value(self, rho: Array) -> Array:
        return evaluated("implicit", self.function, rho)


@validated
def ball(radius: float) -> Support:
    """A ball about the centre of mass.

    Parameters
    ----------
    radius : float
        Radius, m.

    Returns
    -------
    Support

    Raises
    ------
    TypeError
        If ``radius`` is not a number.
    ValueError
        If it is not positive.
    """
    return _Ball(as_positive(radius, "radius", ()))


@validated
def ellipsoid(a: float, b: float, c: float) -> Support:
    """An ellipsoid about the centre of mass, with its axes along the body's.

    Parameters
    ----------
    a, b, c : float
        Semi-axes, m.

    Returns
    -------
    Support

    Raises
    ------
    TypeError, ValueError
        If they are not numbers, or one is not positive.
    """
    return _Ellipsoid(as_positive([a, b, c], "semi-axes", (3,)))


@validated
def disc(radius: float, axis: Any = (0.0, 0.0, 1.0), thickness: float = 0.0) -> Support:
    """A disc, flat or with its rim rounded to a thickness; it may not lie flat, where its contact is not a point.

    Parameters
    ----------
    radius : float
        Radius of the circle, metres; with a thickness, to the outermost points.
    axis : array_like, shape=[3]
        Axis of the disc, in body axes.
    thickness : float
        Thickness of the plate, metres, below twice the radius.

    Returns
    -------
    Support

    Raises
    ------
    TypeError
        If an argument is not a number.
    ValueError
        If ``radius`` is not positive, ``thickness`` not in [0, 2·radius), or ``axis`` zero or of another shape.
    """
    radius = float(as_constant(radius, "radius", positive=True))
    half = float(as_constant(thickness, "thickness")) / 2
    if not 0 <= half < radius:
        raise ValueError(f"thickness must lie in [0, 2·radius) = [0, {2 * radius}), got {thickness}")
    flat = _Disc(np.float64(radius - half), _unit(axis))
    return flat.rounded(half) if half else flat


@validated
def torus(radius: float, tube: float, axis: Any = (0.0, 0.0, 1.0)) -> Support:
    """The convex hull of a torus: a circle about the centre of mass, with a tube about it.

    Parameters
    ----------
    radius : float
        Radius of the circle, m.
    tube : float
        Radius of the tube, m.
    axis : array_like, shape=[3]
        Axis of the circle, in body axes, of any length.

    Returns
    -------
    Support

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number; if ``radius`` or ``tube`` is not positive, or ``axis`` zero or of another shape.
    """
    return _Disc(as_positive(radius, "radius", ()), _unit(axis)).rounded(as_positive(tube, "tube", ()))


@validated
def support(function: Callable) -> Support:
    """User-defined convex body, by its support function.

    Parameters
    ----------
    function : callable
        H(n), m, in ``jax.numpy``, of n, shape=[3], of any length: H(sn) = sH(n) for s > 0.

    Returns
    -------
    Support

    Raises
    ------
    TypeError
        If ``function`` is not callable, or does not return a number.
    ValueError
        If H is not homogeneous of degree one, or not convex.
    """
    as_support = _Function(function)
    for n in np.random.default_rng(0).normal(size=(3, 3)):
        once, twice = (as_float64(as_support(s * n), "what support gives", (), finite=False) for s in (1.0, 2.0))
        if not abs(twice - 2 * once) <= 1e-5 * abs(once):
            raise ValueError(
                f"support must be homogeneous, H(2n) = 2H(n): at n = {n} it is {once:.6g}, at twice that {twice:.6g}; "
                "write it for unit vectors as |n| H(n/|n|)"
            )
    for a, b in np.random.default_rng(1).normal(size=(20, 2, 3)):
        parts, both = float(as_support(a)) + float(as_support(b)), float(as_support(a + b))
        if both > parts + 1e-9 * abs(parts):
            raise ValueError(
                f"support must be convex, H(a + b) ≤ H(a) + H(b): at a = {a}, b = {b} there is {both:.6g} > {parts:.6g}"
            )
    return as_support


@validated
def implicit(function: Callable, size: float) -> Support:
    """Convex body F(ρ) < 0 of a convex F, written in ``jax.numpy``.

    Parameters
    ----------
    function : callable
        F(ρ), scalar, ρ of shape=[3] in metres from the centre of mass.
    size : float
        Approximate radius of the body, metres, the initial guess of Newton's method.

    Returns
    -------
    Support

    Raises
    ------
    TypeError
        If ``function`` is not callable, or ``size`` not a number.
    ValueError
        If ``size`` is not positive.
    """
    return _Implicit(function, as_positive(size, "size", ()))


def _unit(axis: Any, name: str = "axis") -> Any:
    vector = as_float64(axis, name, (3,))
    largest = np.abs(vector).max()
    if not largest > 0:
        raise ValueError(f"{name} must not be zero, got {axis}")
    vector = vector / largest  # so that its square does not overflow
    return vector / np.linalg.norm(vector)

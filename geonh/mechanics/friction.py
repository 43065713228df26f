r"""Coulomb's friction of a contact that slides, as forces that depend on the multiplier of its normal constraint.

With the slip velocity v(t, x, ξ), affine in ξ, J = ∂v/∂ξ, and the normal force λ_n, or a load that is known,

    f = −μ λ_n Jᵀd,   d = v/|v|.

At v = 0 the direction d is not defined, and the motion ends there or goes on in another mode. So that a step may lead
past that instant, which is then located, d is continued through zero: within a step it is v/|v| with the sign that
makes its angle with the direction at the beginning of the step acute. Along a motion that reaches v = 0, whose
direction has a limit, that is smooth.

In three dimensions the direction approaches its limit by a power of |v|: it turns as much while the slip falls from
1e-3 to 1e-4 as from 1e-2 to 1e-3, so that shorter steps of one length turn no less. Where steps can be parted, they
are until they turn little.

Source: M. Antali, G. Stépán, *Nonsmooth analysis of three-dimensional slipping and rolling in the presence of dry
friction*, Nonlinear Dynamics 97 (2019); the limit directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.geometry.field import evaluated, takes_parameters

ARGUMENTS = "t, x, xi"
ALONG = 0.86
"""Least cosine of the angle by which the line of the slip may turn within a step."""
FALLS = 0.5
"""Part of the slip speed below which it is about to vanish at the end of a step."""
CLOSELY = 0.9995
"""The same cosine where the slip is about to vanish, and steps can be parted."""


@argument_type
class Friction(eqx.Module):
    """Friction of a contact that slides; given to a system as ``multiplier_forces``.

    Parameters
    ----------
    slip : callable
        v(t, x, ξ) or v(t, x, ξ, parameters) → shape=[k], k = 1, 2 or 3: the velocity of the body's point of contact
        relative to what it touches, m/s, affine in ξ and tangential.
    coefficient : float, str or callable
        μ ≥ 0, the name of the parameter that holds it, or a function of the slip speed in m/s and the parameters.
    normal : int or callable
        Index of the multiplier of the normal constraint, if its rows are in metres, so that this is the normal force in
        newtons, positive where the bodies press on each other; or the normal force as a function of (t, x, λ,
        parameters), linear in λ.
    load : float, str or callable, optional
        The normal force where it is known, in place of ``normal``: in newtons, the name of the parameter that holds it,
        or a function of (t, x, parameters).

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these.

    References
    ----------
    .. [Antali2019] M. Antali, G. Stépán, "Nonsmooth analysis of three-dimensional slipping and rolling in the presence
       of dry friction", Nonlinear Dynamics 97 (2019), 1799–1817.
    """

    slip: Callable
    coefficient: Any
    normal: Any
    load: Any
    slip_takes_parameters: bool = eqx.field(static=True)
    direction: Any
    """Direction of the slip at the beginning of a step, shape=[k]; None outside of steps."""
    begins: bool = eqx.field(static=True)
    """True where the slip begins in that direction, which then is its own."""
    is_parted: bool = eqx.field(static=True)
    """True in runs that part a step in which the slip turns too far."""

    def __init__(self, slip: Callable, coefficient: Any, *, normal: int | Callable = 0, load: Any = None):
        if not (callable(coefficient) or isinstance(coefficient, str)):
            coefficient = as_float64(coefficient, "coefficient of friction", ())
            if not is_traced(coefficient) and not coefficient >= 0:
                raise ValueError(f"coefficient of friction must be a number ≥ 0, got {shortly(coefficient)}")
        if not callable(slip):
            raise TypeError(f"slip must be a function of ({ARGUMENTS}), got {shortly(slip)}")
        coefficient = str(coefficient) if isinstance(coefficient, str) else coefficient  # NumPy's text is an array
        self.slip, self.coefficient, self.direction = slip, coefficient, None
        self.begins = self.is_parted = False
        self.normal = normal if callable(normal) else as_count(normal, "normal", least=0)
        if not (load is None or callable(load) or isinstance(load, str)):
            load = as_float64(load, "load", ())
            if not is_traced(load) and not load >= 0:
                raise ValueError(f"load must be a normal force ≥ 0 in newtons, got {shortly(load)}")
        if load is not None and (callable(normal) or normal != 0):
            raise ValueError("give normal, or load where the normal force is known, not both")
        self.load = str(load) if isinstance(load, str) else load
        self.slip_takes_parameters = takes_parameters(slip, ARGUMENTS, "slip")

    def fault(self, parameters: Any) -> str:
        """Fault of the parameters, as far as they are known; "" if there is none."""
        names = (name for name in (self.coefficient, self.load) if isinstance(name, str))
        return next(filter(None, (below_zero(parameters, name) for name in names)), "")

    @property
    def parts(self) -> tuple[Friction, ...]:
        """Itself, as of ``Frictions``."""
        return (self,)

    def with_part(self, which: int, friction: Friction) -> Friction:
        """Another one in its place, as of ``Frictions``."""
        return friction

    def velocity(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array:
        """Slip velocity v, shape=[k], m/s."""
        extra = (parameters,) if self.slip_takes_parameters else ()
        return jnp.atleast_1d(evaluated("slip", self.slip, t, x, xi, *extra))

    def speed(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array:
        """Slip speed |v|, m/s, a scalar; within a step negative once it has passed zero."""
        v = self.velocity(t, x, xi, parameters)
        return self._sign(v) * jnp.sqrt(v @ v)

    def at_slip(self, direction: Array, *, begins: bool = False) -> Friction:
        """The friction in a step that begins with a slip of that direction, shape=[k]; at the instant at which the slip
        ``begins``, of a direction of length one.
        """
        return self._with(direction=direction, begins=begins)

    def parted(self) -> Friction:
        """The friction in a run that parts a step in which the slip turns too far."""
        return self._with(is_parted=True)

    def _with(self, **fields: Any) -> Friction:
        leaves, structure = jax.tree.flatten(self)
        copy = jax.tree.unflatten(structure, leaves)
        for name, value in fields.items():
            object.__setattr__(copy, name, value)
        return copy

    def normal_force(self, t: Array, x: Any, lam: Any, parameters: Any) -> Array:
        """Normal force, N, a scalar: the load where it is known, else of multipliers of shape=[m]; ValueError if there
        is none of that index.
        """
        if callable(self.load):
            load = evaluated("load", self.load, t, x, parameters)
            return jnp.where(load >= 0, load, jnp.nan)
        if self.load is not None:
            return _parameter("load", self.load, parameters) if isinstance(self.load, str) else jnp.asarray(self.load)
        if callable(self.normal):
            return evaluated("normal", self.normal, t, x, lam, parameters)
        if self.normal >= len(lam):
            raise ValueError(f"normal must be the index of one of {len(lam)} multipliers, got {self.normal}")
        return lam[self.normal]

    def among(self, places: Sequence[int], size: int) -> Friction:
        """The friction in a system that has only some of ``size`` multipliers, those at these places."""
        if self.load is not None or list(places) == list(range(len(places))):
            return self
        if callable(self.normal):
            return self._with(normal=_Among(self.normal, tuple(places), size))
        return self._with(normal=places.index(self.normal))

    def reads(self, t: Array, x: Any, size: int, parameters: Any) -> np.ndarray:
        """True for each of ``size`` multipliers on which the normal force depends at a point, shape=[size]."""
        if self.load is not None:
            return np.zeros(size, bool)
        slope = jax.jacobian(lambda lam: self.normal_force(t, x, lam, parameters))(jnp.zeros(size))
        return np.nan_to_num(slope) != 0

    def held_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> Friction:
        """The friction within a step that begins at (t, x, ξ), ``xi`` of shape=[n]; itself where that is known, as in
        substeps.
        """
        if self.direction is not None:
            return self
        return self.at_slip(self.velocity(t, x, xi, parameters))

    def frozen_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> Friction:
        """The friction in the direction of the slip at (t, x, ξ), ``xi`` of shape=[n], wherever it is evaluated."""
        v = self.velocity(t, x, xi, parameters)
        speed = jnp.sqrt(v @ v)
        return self.at_slip(v / jnp.where(speed > 0, speed, 1.0), begins=True)

    def settled(
        self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any, span: Any, mobility: Callable[[Array], Array]
    ) -> Array:
        """Predicted velocity after a time ``span`` of friction, shape=[n], from one by friction in a frozen direction.

        A small slip across that direction vanishes fast, at the rate μλ_n/|v| per mass. That is a linearly implicit
        step; ``mobility`` gives accelerations of forces.
        """
        v, back = jax.vjp(lambda xi: self.velocity(t, x, xi, parameters), xi)
        along = v @ self.direction
        across = v - along * self.direction
        size = jnp.sqrt(across @ across)
        change = mobility(back(across / jnp.where(size > 0, size, 1.0))[0])
        rate = jax.jvp(lambda xi: self.velocity(t, x, xi, parameters), (xi,), (change,))[1] @ across
        stiff = jnp.abs(span * self.pressure(t, x, along, lam, parameters)) * rate
        part = stiff / jnp.where(stiff > 0, stiff + size * jnp.abs(along), 1.0)
        return xi - part * size**2 / jnp.where(rate > 0, rate, 1.0) * change

    def pressure(self, t: Array, x: Any, speed: Array, lam: Array, parameters: Any) -> Array:
        """Force of friction μλ_n at a slip speed, N, a scalar."""
        return self.of_speed(speed, parameters) * self.normal_force(t, x, lam, parameters)

    def keeps_direction(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array | bool:
        """False where the slip at (t, x, ξ), ``xi`` of shape=[n], has turned too far since the step began, a scalar."""
        if self.direction is None:
            return True
        v, before = self.velocity(t, x, xi, parameters), self.direction
        along, least = v @ before, jnp.asarray(ALONG)
        if self.is_parted and not self.begins:
            vanishes = (along < 0) | (v @ v < FALLS**2 * (before @ before))
            least = jnp.where(vanishes, CLOSELY, ALONG)
        keeps = along**2 >= least**2 * (v @ v) * (before @ before)
        if isinstance(self.coefficient, str):  # without friction the direction has no effect
            keeps = keeps | (_parameter("coefficient", self.coefficient, parameters) == 0)
        return keeps

    def turning_rate(
        self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any, mobility: Callable[[Array], Array]
    ) -> Array:
        """Rate at which a small slip across its direction vanishes, 1/s, a scalar, to a factor of 2; zero of a slip
        along one direction, and in runs that do not part steps. ``mobility`` gives accelerations of forces.
        """
        v, back = jax.vjp(lambda xi: self.velocity(t, x, xi, parameters), xi)
        if v.size < 2 or not self.is_parted:
            return jnp.zeros(())
        changes = jax.vmap(lambda e: mobility(back(e)[0]))(jnp.eye(v.size))
        along = jax.vmap(lambda c: jax.jvp(lambda xi: self.velocity(t, x, xi, parameters), (xi,), (c,))[1])(changes)
        square = v @ v
        pressure = self.pressure(t, x, jnp.sqrt(square), lam, parameters)
        return jnp.abs(pressure) * jnp.sqrt(jnp.sum(along**2) / jnp.where(square > 0, square, np.inf))

    def of_speed(self, speed: Array, parameters: Any) -> Array:
        """Coefficient μ at a slip speed, m/s, a scalar, nan where it is negative; ValueError if no parameter has its
        name.
        """
        if isinstance(self.coefficient, str):
            mu = _parameter("coefficient", self.coefficient, parameters)
        elif callable(self.coefficient):
            mu = evaluated("coefficient", self.coefficient, speed, parameters)
        else:
            return jnp.asarray(self.coefficient)
        return jnp.where(mu >= 0, mu, jnp.nan)

    def __call__(self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        """The forces that depend on the multipliers, shape=[n]: none under a load that is known."""
        return jnp.zeros_like(xi) if self.load is not None else self._force(t, x, xi, lam, parameters)

    def loaded(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array:
        """The forces under a load that is known, shape=[n]; zero without one."""
        return jnp.zeros_like(xi) if self.load is None else self._force(t, x, xi, None, parameters)

    def _force(self, t: Array, x: Any, xi: Array, lam: Any, parameters: Any) -> Array:
        v, back = jax.vjp(lambda xi: self.velocity(t, x, xi, parameters), xi)
        speed = jnp.zeros(()) if self.begins else jnp.sqrt(v @ v)
        along = self.direction if self.begins else self._sign(v) * v * (1 / speed)
        return -self.pressure(t, x, speed, lam, parameters) * back(along)[0]

    def _sign(self, v: Array) -> Any:
        return 1.0 if self.direction is None else jnp.where(v @ self.direction < 0, -1.0, 1.0)


class Frictions(eqx.Module):
    """Friction of several contacts that slide at once.

    Parameters
    ----------
    parts : sequence of Friction

    Raises
    ------
    TypeError
        If one is no ``Friction``.
    """

    parts: tuple[Friction, ...]

    def __init__(self, parts: Sequence[Friction]):
        for one in parts:
            if not isinstance(one, Friction):
                raise TypeError(f"multiplier_forces must be a function, a Friction or several, got {shortly(one)}")
        if not parts:
            raise ValueError("multiplier_forces is an empty list: leave it out, or give a function or Friction")
        self.parts = tuple(parts)

    def with_part(self, which: int, friction: Friction) -> Frictions:
        """Several with another one in place of one, by its number."""
        return Frictions([friction if i == which else one for i, one in enumerate(self.parts)])

    def _each(self, change: Callable[[Friction], Friction]) -> Frictions:
        return Frictions([change(one) for one in self.parts])

    def held_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> Frictions:
        """The frictions within a step that begins at (t, x, ξ)."""
        return self._each(lambda one: one.held_at(t, x, xi, parameters))

    def frozen_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> Frictions:
        """The frictions in the directions of their slips at (t, x, ξ), wherever they are evaluated."""
        return self._each(lambda one: one.frozen_at(t, x, xi, parameters))

    def parted(self) -> Frictions:
        """The frictions in a run that parts a step in which a slip turns too far."""
        return self._each(lambda one: one.parted())

    def keeps_direction(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array:
        """False where one of the slips has turned too far since the step began, a scalar."""
        return jnp.all(jnp.stack([jnp.asarray(one.keeps_direction(t, x, xi, parameters)) for one in self.parts]))

    def __call__(self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        """The forces that depend on the multipliers, shape=[n]."""
        return sum((one(t, x, xi, lam, parameters) for one in self.parts), jnp.zeros_like(xi))

    def loaded(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array:
        """The forces under loads that are known, shape=[n]."""
        return sum((one.loaded(t, x, xi, parameters) for one in self.parts), jnp.zeros_like(xi))


class _Among(eqx.Module):
    """Normal force, linear in multipliers of which a system has only some."""

    normal: Callable
    places: tuple[int, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __call__(self, t: Array, x: Any, lam: Array, parameters: Any) -> Array:
        return self.normal(t, x, jnp.zeros(self.size).at[jnp.array(self.places)].set(lam), parameters)


def below_zero(parameters: Any, name: str) -> str:
    """Fault of a parameter that is known, and negative; "" otherwise."""
    value = (parameters or {}).get(name, 0.0)
    if is_traced(value) or np.all(np.asarray(value) >= 0):
        return ""
    return f"parameter {name!r} must be ≥ 0, got {shortly(np.asarray(value).tolist())}"


def limits_fault(parameters: Any, static: str, kinetic: str) -> str:
    """Fault of the limits of a contact that holds and that slips, parameters of these names; "" if there is none."""
    if fault := below_zero(parameters, kinetic) or below_zero(parameters, static):
        return fault
    most, least = (parameters[name] for name in (static, kinetic))
    if is_traced((most, least)) or np.all(np.asarray(most) >= np.asarray(least)):
        return ""
    return f"parameter {static!r} must be at least {kinetic!r}, got {most:g} and {least:g}"


def _parameter(what: str, name: str, parameters: Any) -> Array:
    """A parameter by its name; ValueError if there is none."""
    if name not in (parameters or {}):
        known = ", ".join(map(str, parameters or {})) or "none"
        raise ValueError(f"{what} must name a parameter, got {name!r}; there are: {known}")
    return jnp.asarray(parameters[name])

r"""Forces that depend on the multipliers of the constraints, as friction does (mathematics.md §8).

    Mξ̇ − (μᵀ + C(t, x, ξ))λ = …,   μξ̇ = …

has a unique solution where μM⁻¹(μᵀ + C) is regular. Along a path from C = 0 its determinant is positive at first;
where it vanishes no motion exists, or there are two: Painlevé's paradox, at which a run ends. Friction under loads
that are known depends on no multiplier: C = 0, and it joins the other forces.

Sources: F. Génot, B. Brogliato, *New results on Painlevé paradoxes*, European Journal of Mechanics A/Solids 18 (1999).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.algebra.linear import saddle_determinant
from geonh.geometry.field import Moment, evaluated, takes_parameters

ARGUMENTS = "t, x, xi, lam"


class MultiplierForces(eqx.Module):
    """Forces C(t, x, ξ)λ, given by a function that is linear in λ.

    Parameters
    ----------
    function : callable
        f(t, x, ξ, λ) or f(t, x, ξ, λ, parameters) → covector, shape=[n].
    """

    function: Any
    takes_parameters: bool = eqx.field(static=True)

    def __init__(self, function: Callable):
        self.function = function
        self.takes_parameters = takes_parameters(function, ARGUMENTS, "multiplier_forces")

    def value(self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any) -> Array:
        """Covector Cλ, shape=[n], of multipliers of shape=[m]; ``xi`` of shape=[n]. Raises ValueError or TypeError if
        the user's function returns another shape, or cannot be evaluated.
        """
        extra = (parameters,) if self.takes_parameters else ()
        value = evaluated("multiplier_forces", self.function, t, _point(x), xi, lam, *extra)
        if value.shape != xi.shape:
            raise ValueError(f"multiplier_forces must give a covector of shape {xi.shape}, got shape {value.shape}")
        return value

    def fault(self, parameters: Any) -> str:
        """Fault of the parameters of ``Friction``, as far as they are known; "" if there is none."""
        return next(filter(None, (one.fault(parameters) for one in getattr(self.function, "parts", ()))), "")

    @property
    def loads(self) -> tuple[bool, ...]:
        """Flags of the ``Friction`` whose load is known; empty of other functions."""
        return tuple(one.load is not None for one in getattr(self.function, "parts", ()))

    def loaded(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array | None:
        """Covector, shape=[n], of friction under loads that are known; None if there is none."""
        return self.function.loaded(t, _point(x), xi, parameters) if any(self.loads) else None

    @property
    def is_held(self) -> bool:
        """True if the function distinguishes where a step begins, by a method ``held_at``, as ``Friction``."""
        return hasattr(self.function, "held_at")

    def held_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> MultiplierForces:
        """The forces within a step that begins at (t, x, ξ), of a function that ``is_held``; else themselves."""
        return self._changed(lambda function: function.held_at(t, _point(x), xi, parameters))

    def frozen_at(self, t: Array, x: Any, xi: Array, parameters: Any) -> MultiplierForces:
        """Forces that keep their direction at (t, x, ξ), by which a step is predicted; themselves if they have none."""
        return self._changed(lambda function: function.frozen_at(t, _point(x), xi, parameters))

    def settled(
        self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any, span: Any, mobility: Callable[[Array], Array]
    ) -> Array:
        """Predicted velocity, shape=[n], with slips ``settled`` one after the other; itself of other functions."""
        for one in getattr(self.function, "parts", ()):
            xi = one.settled(t, _point(x), xi, lam, parameters, span, mobility)
        return xi

    def parted(self) -> MultiplierForces:
        """The forces in a run that parts steps, of a function that ``is_held``; else themselves."""
        return self._changed(lambda function: function.parted())

    def changed(self, which: int, friction: Any) -> MultiplierForces:
        """The forces with another ``Friction`` in place of one of them, by its number."""
        return self._changed(lambda function: function.with_part(which, friction))

    def _changed(self, change: Callable) -> MultiplierForces:
        return eqx.tree_at(lambda forces: forces.function, self, change(self.function)) if self.is_held else self

    def keeps_direction(self, t: Array, x: Any, xi: Array, parameters: Any) -> Array | bool:
        """True if forces that know where a step began still have about its direction, or the opposite one."""
        return self.function.keeps_direction(t, _point(x), xi, parameters)

    def turning_rate(
        self, t: Array, x: Any, xi: Array, lam: Array, parameters: Any, mobility: Callable[[Array], Array]
    ) -> Array:
        """Largest ``turning_rate`` of the slips, 1/s, a scalar."""
        rates = [one.turning_rate(t, _point(x), xi, lam, parameters, mobility) for one in self.function.parts]
        return jnp.max(jnp.stack(rates))

    @property
    def is_parted(self) -> bool:
        """True in runs that part a step in which a slip turns too far."""
        return any(one.is_parted for one in getattr(self.function, "parts", ()))

    def columns(self, t: Array, x: Any, xi: Array, like: Array, parameters: Any) -> Array | None:
        """C, shape=[n, m], where there are as many multipliers as entries of ``like``, shape=[m]; None if C = 0."""
        if self.loads and all(self.loads):
            return None
        return jax.vmap(lambda lam: self.value(t, x, xi, lam, parameters))(jnp.eye(len(like))).T


def _point(x: Any) -> Any:
    return x.x if isinstance(x, Moment) else x


def determinant(system: Any, t: Array, x: Any, xi: Array) -> Array:
    """det μM⁻¹(μᵀ + C) relative to C = 0, scalar: not positive where no motion exists, or two do; 1 without C."""
    system = system.linear_at(xi)
    columns = system.multiplier_columns(t, x, xi)
    if columns is None:
        return jnp.ones(())
    return saddle_determinant(system.mass_matrix(x, xi), system.annihilator(x), columns)

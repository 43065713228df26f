"""First integrals of a system, as declared by its author."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jax import Array

from geonh.arguments.validators import as_text, shortly
from geonh.groups.base import Point


class FirstIntegral(eqx.Module):
    """First integral of the continuous motion.

    Parameters
    ----------
    function : callable
        ``function(g, xi, p, parameters)`` → scalar or array, in ``jax.numpy``, of a point of the group, the velocity
        and the momentum, both of shape=[n].
    note : str
        Notes on its conservation, for ``geonh show`` and the docs (for instance "roundoff under GNI").
    momentum : str
        Momentum at a node used as p: "average" p̃ (with ξ̃) or "minus", the outgoing p⁻. ``System`` raises ValueError
        for other words.

    Raises
    ------
    TypeError
        If ``note`` or ``momentum`` is not text.
    """

    function: Callable
    note: str = eqx.field(static=True)
    momentum: str = eqx.field(static=True)

    def __init__(self, function: Callable, note: str = "", momentum: str = "average"):
        self.function = function
        self.note, self.momentum = (
            as_text(note, "note of a first integral"),
            as_text(momentum, "momentum of a first integral"),
        )

    def along(self, system: Any, g: Point, xi: Array, t: Any = None) -> Any:
        """Value on the continuous motion, p = ∂ℓ/∂ξ, a scalar or array as of ``function``; xi of shape=[n]."""
        return self.function(g, xi, system.momentum(system.at(g, t), xi), system.parameters)


def require_integrals(integrals: Mapping[str, Any]) -> None:
    """Raise TypeError if a mapping is not one of names to first integrals."""
    for key, integral in integrals.items():
        if not isinstance(key, str) or not isinstance(integral, FirstIntegral):
            raise TypeError(
                f"first_integrals must map names to FirstIntegral(function), got {shortly(key)}: {shortly(integral)}"
            )

"""A quantity over the base: a constant, or a function of the base point (and of the system's parameters).

Every ingredient a user gives (metric, forms, drift, potential, …) becomes a ``Field``, so that the rest of the library
sees one signature, ``field(x, parameters)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.numerics.precision import Precise, as_float64
from geonh.numerics.tracing import called


def takes_parameters(function: Callable, n_arguments: int, name: str) -> bool:
    """Whether a user's function takes the system's parameters after its ``n_arguments`` own arguments.

    Raises
    ------
    TypeError
        If it takes neither ``n_arguments`` nor one more positional argument.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    for extra in (0, 1):
        try:
            signature.bind(*[None] * (n_arguments + extra))
        except TypeError:
            continue
        return bool(extra)
    raise TypeError(
        f"{name} must be a function of {n_arguments} argument(s), or of {n_arguments + 1} with the parameters last; "
        f"its signature is {signature}"
    )


class Field(Precise):
    """A constant or a function of ``(x)`` or ``(x, parameters)``, written in jax.numpy.

    Parameters
    ----------
    value : array_like, callable or Field
        The constant, or the function.
    name : str
        What error messages call it.
    """

    constant: Any
    function: Callable | None
    with_parameters: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, value: Any, name: str):
        if isinstance(value, Field):
            self.constant, self.function = value.constant, value.function
            self.with_parameters, self.name = value.with_parameters, value.name
            return
        self.name = name
        if callable(value):
            self.constant, self.function = None, value
            self.with_parameters = takes_parameters(value, 1, name)
        else:
            self.constant, self.function = as_float64(value, name), None
            self.with_parameters = False

    @property
    def is_constant(self) -> bool:
        """Whether the quantity is the same at every base point, whatever the parameters."""
        return self.function is None

    def __call__(self, x: Any, parameters: Any = None) -> Array:
        """Value at the base point ``x``."""
        if self.function is None:
            return jnp.asarray(self.constant)
        return evaluated(self.name, self.function, x, *((parameters,) if self.with_parameters else ()))


def evaluated(name: str, function: Callable, *args: Any) -> Array:
    """What a user's function returns, as an array; nested lists of scalars are let pass.

    Raises
    ------
    TypeError
        If it uses NumPy where it must use ``jax.numpy``, or returns nothing, or what is not real.
    """
    try:
        value = called(function, *args)
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"{name} calls NumPy on a traced value: write it with jax.numpy (jnp.sin for np.sin)"
        ) from error
    except (jax.errors.TracerBoolConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            f"{name} asks for the number in a traced value (if, while, float, int): use jnp.where or jax.lax.cond"
        ) from error
    return _as_array(value, name)


def _as_array(value: Any, name: str) -> Array:
    if value is None:
        raise TypeError(f"{name} returned None; it must return its value")
    if isinstance(value, list | tuple):
        return jnp.stack([_as_array(entry, name) for entry in value])
    if jnp.iscomplexobj(value):
        raise TypeError(f"{name} returned complex numbers; it must be real")
    return jnp.asarray(value, dtype=float)

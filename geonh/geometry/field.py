"""Functions over the base: constants, or functions of the base point (and of the system's parameters).

Every ingredient of a system (metric, forms, drift, potential, …) becomes a ``Field``, with the common
signature ``field(x, parameters)``. One that depends on the time is marked by ``time_dependent``; where a
system has any, its base points contain the time, as a ``Moment``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.foreign import described, error_text
from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.purity import ChangingError, HalfPrecisionError
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_float64, is_rounded, shortly
from geonh.engine import Precise, call_traced

DEEPEST = 16
"""Depth of nested lists, at most, that a function may return."""
ENDLESS = "returned a list that contains itself, or is nested too deeply"


class Moment(NamedTuple):
    """Base point with the time, an additional coordinate of the base."""

    t: Any
    x: Any


@argument_type
class TimeDependent(NamedTuple):
    """Function that takes the time first; returned by ``time_dependent``."""

    function: Callable


def time_dependent(function: Callable) -> TimeDependent:
    """Mark a function of a system as time-dependent: it takes the time in seconds before its other arguments.

    Parameters
    ----------
    function : callable
        f(t, x) or f(t, x, parameters), for ``metric``, ``potential``, ``holonomic``, and the ``forms``, ``frame``,
        ``rhs`` and ``drift`` of a distribution; ℓ(t, x, ξ) or ℓ(t, x, ξ, parameters) for ``lagrangian``. A function
        not marked remains one of x. (``forces`` take the time anyway.)

    Returns
    -------
    TimeDependent
        Marked function, to be passed in place of the original.

    Examples
    --------
    >>> import geonh as gn
    >>> potential = gn.time_dependent(lambda t, x: 0.5 * (1 + 0.3 * jnp.sin(t)) * x @ x)
    >>> system = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], potential=potential)

    Raises
    ------
    TypeError
        If ``function`` is not callable.
    """
    if not callable(function):
        raise TypeError(f"time_dependent marks a function of (t, x), got {shortly(function)}")
    return TimeDependent(function)


def arguments(x: Any, timed: bool, name: str) -> tuple:
    """Arguments of a function from a base point: (t, x) if it is marked, else (x,)."""
    if isinstance(x, Moment):
        return tuple(x) if timed else (x.x,)
    if timed:
        raise ValueError(f"{name} depends on the time, which is not known here: a base point is system.at(g, t)")
    return (x,)


def takes_parameters(function: Callable, arguments: str, name: str) -> bool:
    """True if a user's function takes the system's parameters after its ``arguments``, such as "x" or "t, x, xi, u";
    TypeError if it is no function, takes neither these nor one more positional argument, in another order, or names the
    time where there is none.
    """
    expected = arguments.split(", ")
    message = f"{name} takes ({arguments}) or ({arguments}, parameters)"
    if not callable(function):
        raise TypeError(f"{message}, got {shortly(function)}")
    _refuse_unhashable(function, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    first = next(iter(signature.parameters), "")
    for extra in (0, 1):
        try:
            signature.bind(*[None] * (len(expected) + extra))
        except TypeError:
            continue
        if extra and expected[0] != "t" and first in ("t", "time"):
            raise TypeError(f"{message}, not the time; yours takes {signature}: mark it with geonh.time_dependent(...)")
        _refuse_order(signature, expected, message)
        return bool(extra)
    raise TypeError(f"{message}; yours takes {signature}")


def _refuse_unhashable(function: Callable, name: str) -> None:
    if not any(leaf is function for leaf in jax.tree.leaves(function)):
        return  # a pytree, whose arrays are arguments of programs
    try:
        hash(function)
    except TypeError as error:
        raise TypeError(
            f"{name} must be hashable, since compiled programs are cached by it, and this {type(function).__name__} is "
            "not: give a function, with its numbers as parameters=, or a frozen dataclass of numbers"
        ) from error


def check_arguments(function: Callable, arguments: str, name: str) -> None:
    """Raise TypeError, with the name, unless a user's function takes its ``arguments``, such as "g, xi"."""
    message = f"{name} takes ({arguments})"
    if not callable(function):
        raise TypeError(f"{message}, got {shortly(function)}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without one
        return
    try:
        signature.bind(*[None] * len(arguments.split(", ")))
    except TypeError as error:
        raise TypeError(f"{message}; yours takes {signature}") from error
    _refuse_order(signature, arguments.split(", "), message)


def _refuse_order(signature: inspect.Signature, expected: list[str], message: str) -> None:
    """Raise TypeError with the message if an argument has the name of another position."""
    for place, argument in enumerate(signature.parameters):
        if argument in expected and expected.index(argument) != place:
            raise TypeError(f"{message}, in this order; yours takes {signature}")
        if expected[-1] == "u" and place == len(expected) - 1 and argument in ("p", "params", "parameters"):
            raise TypeError(f"{message}: controls come before parameters, used or not; yours takes {signature}")


class Field(Precise):
    """A constant or a function of ``(x)`` or ``(x, parameters)``, written in jax.numpy.

    Parameters
    ----------
    value : array_like, callable, TimeDependent or Field
        The constant, or the function.
    name : str
        Name used in error messages.
    """

    constant: Any
    function: Callable | None
    takes_parameters: bool = eqx.field(static=True)
    timed: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    rows: Any
    """Matrix of zeros and ones that selects the rows of the value in use, shape=[r, k]; None for all."""

    def __init__(self, value: Any, name: str):
        if isinstance(value, Field):
            self.constant, self.function, self.rows = value.constant, value.function, value.rows
            self.takes_parameters, self.timed, self.name = value.takes_parameters, value.timed, value.name
            return
        self.name, self.timed, self.rows = name, isinstance(value, TimeDependent), None
        if isinstance(value, TimeDependent):
            value = value.function
        if callable(value):
            self.constant, self.function = None, value
            self.takes_parameters = takes_parameters(value, "t, x" if self.timed else "x", name)
        else:
            self.constant, self.function = as_float64(value, name), None
            self.takes_parameters = False

    @property
    def is_constant(self) -> bool:
        """True if the quantity is the same at every base point, whatever the parameters."""
        return self.function is None

    def __call__(self, x: Any, parameters: Any = None) -> Array:
        """Value at the base point ``x``."""
        if self.function is None:
            return self.part(jnp.asarray(self.constant))
        extra = (parameters,) if self.takes_parameters else ()
        return self.part(evaluated(self.name, self.function, *arguments(x, self.timed, self.name), *extra))

    def part(self, value: Array) -> Array:
        """Rows in use of a value of the function."""
        return value if self.rows is None else self.rows @ value

    def of_rows(self, rows: Array) -> Field:
        """The field with some of its rows alone, selected by a matrix of zeros and ones of shape=[r, k]."""
        rows = rows if self.rows is None else rows @ self.rows
        return eqx.tree_at(lambda field: field.rows, self, rows, is_leaf=lambda leaf: leaf is None)


def evaluated(name: str, function: Callable, *args: Any) -> Array:
    """Evaluate a user's function and convert its value to an array; nested lists of scalars are accepted. Raises
    TypeError if it uses NumPy where it must use ``jax.numpy``, or returns nothing or a value that is not real;
    ValueError if it fails otherwise; the original error is the cause.
    """
    return as_array(called(name, function, *args), name)


def called(name: str, function: Callable, *args: Any) -> Any:
    """Value of a user's function as it is; errors as for ``evaluated``."""
    try:
        return call_traced(function, *args)
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"{name} calls NumPy on a traced value: write it with jax.numpy (jnp.sin for np.sin)"
        ) from error
    except jax.errors.TracerIntegerConversionError as error:
        raise TypeError(
            f"{name} asks for the integer in a traced value (range, an index of a list): use jax.lax.fori_loop, or "
            "index an array of jax.numpy"
        ) from error
    except (jax.errors.TracerBoolConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            f"{name} asks for the number in a traced value (if, while, float, int): use jnp.where or jax.lax.cond"
        ) from error
    except HalfPrecisionError as error:
        raise TypeError(f"{name} {error}") from None
    except ChangingError as error:
        raise ValueError(f"{name} {error}") from None
    except SystemError as error:  # of JAX's pytrees
        raise ValueError(f"{name} {ENDLESS}") from error
    except Exception as error:
        given = ", ".join(map("{} = {}".format, argument_names(function, len(args)), map(described, args)))
        raise ValueError(f"{name} could not be evaluated, given {given}: {error_text(error)}") from error


def guarded(name: str, function: Callable, *args: Any) -> Array:
    """Evaluate a function that nothing has inspected before, as ``evaluated``: ValueError for an index out of range,
    and nan for one that depends on data; TypeError for single precision.
    """
    if inspected(name, jax.make_jaxpr(partial(evaluated, name, function))(*args)):
        function = careful(function)
    return evaluated(name, function, *args)


def tried(name: str, function: Callable, *args: Any) -> tuple[tuple[int, ...], bool]:
    """Trace a user's function once: shape of its value, and True if it reads at a data-dependent index; TypeError or
    ValueError as for ``evaluated`` and ``inspected``.
    """
    with float64():
        jaxpr = jax.make_jaxpr(partial(evaluated, name, function))(*args)
    return jaxpr.out_avals[0].shape, inspected(name, jaxpr)


def argument_names(function: Callable, n: int) -> list[str]:
    """Names of the first n arguments in the definition of a function."""
    try:
        named = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        named = []
    return (named + [f"argument {i + 1}" for i in range(len(named), n)])[:n]


def as_array(value: Any, name: str) -> Array:
    """Convert the value of a user's function; TypeError or ValueError, with its name, if it is not of real numbers."""
    if value is None:
        raise TypeError(f"{name} returned None; it must return its value")
    if isinstance(value, list | tuple):
        if name.count("[") > DEEPEST:
            raise ValueError(f"{name.partition('[')[0]} {ENDLESS}")
        entries = [as_array(entry, f"{name}[{i}]") for i, entry in enumerate(value)]
        shapes = [entry.shape for entry in entries]
        if not entries or len(set(shapes)) > 1:
            raise ValueError(f"{name} returned a list of entries of different shapes {shapes}")
        return jnp.stack(entries)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} returned a masked array; fill the masked entries first")
    known = hasattr(value, "dtype") and not isinstance(value, type)
    if known and is_rounded(value.dtype):
        raise TypeError(f"{name} returned {value.dtype.name}; it must compute in float64")
    kind = np.dtype(value.dtype).kind if known else np.asarray(value).dtype.kind
    if kind not in "fiu":
        what = {"c": "complex numbers", "b": "truth values", "U": "text"}.get(kind, f"a {type(value).__name__}")
        raise TypeError(f"{name} returned {what}; it must return real numbers, in jax.numpy arrays or lists")
    return jnp.asarray(value, dtype=float)

"""``Precise``: base class of objects whose public methods always compute in double precision."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from types import MethodType
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.foreign import raise_named
from geonh.arguments.precision import (
    float64,
    has_tracers,
    is_float64,
    require_float64,
)
from geonh.arguments.signatures import OBJECTS, judge_of
from geonh.arguments.validators import as_float64, refuse_kinds, refuse_single
from geonh.engine.outside import call_in_numpy

_FLOAT64 = np.dtype(np.float64)
UNNAMED = "an argument"
Args = ParamSpec("Args")
Out = TypeVar("Out")


def _to_numpy(leaf: Any) -> Any:
    """Convert a JAX array that is not traced to a NumPy array."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not has_tracers(leaf) else leaf


def _call_in_float64(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call in double precision and return NumPy arrays; single-precision arguments are refused."""
    _refuse_arguments(function, args, kwargs)
    with float64():
        return jax.tree.map(_to_numpy, function(*args, **kwargs))


@functools.cache
def _parameters(function: Callable) -> list[str]:
    """Names of the arguments of a public function."""
    return list(inspect.signature(function).parameters)


def _refuse_arguments(function: Callable, args: tuple, kwargs: dict) -> None:
    """Raise TypeError, naming the argument, for one in single precision, or not of numbers.

    A method that takes the ``name`` of its argument validates it itself.
    """
    parameters = _parameters(function)
    if "name" in parameters:
        return
    for i, (key, value) in enumerate([*((None, a) for a in args), *kwargs.items()]):
        for leaf in jax.tree.leaves(value):
            if type(leaf) is float or (type(leaf) is np.ndarray and leaf.dtype is _FLOAT64):
                continue
            label = key or next(iter(parameters[i : i + 1]), UNNAMED)
            name = f"{label} of {_qualified_name(function, args)}"
            refuse_single(leaf, name)
            if label != "self":
                refuse_kinds(leaf, name)


def _qualified_name(function: Callable, args: tuple) -> str:
    """Name of a function in messages, that of a method with the class of its object."""
    of = args and isinstance(args[0], Precise)
    return f"{type(args[0]).__name__}.{function.__name__}" if of else function.__qualname__


def in_float64(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorator for a public function: computes in double precision and returns NumPy arrays, unless it is traced."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        if has_tracers(**dict(zip(_parameters(function), args, strict=False)), **kwargs):
            require_float64(function.__qualname__)
            with float64():
                return function(*args, **kwargs)
        return _call_in_float64(function, args, kwargs)

    return wrapper


@jax.tree_util.register_pytree_node_class
class BoundMethod:
    """Public method bound to an object, as a pytree: the object's parameters are its leaves."""

    __slots__ = ("__func__", "__self__", "__weakref__")

    def __init__(self, function: Callable, of: Any) -> None:
        self.__func__, self.__self__ = function, of

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__func__.__doc__

    @property
    def __wrapped__(self) -> MethodType:
        return MethodType(self.__func__, self.__self__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundMethod) and self.__wrapped__ == other.__wrapped__

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> tuple:
        return BoundMethod, (self.__func__, self.__self__)

    def tree_flatten(self) -> tuple[tuple[Any], Callable]:
        return (self.__self__,), self.__func__

    @classmethod
    def tree_unflatten(cls, function: Callable, of: tuple[Any]) -> BoundMethod:
        return cls(function, *of)


class _PublicMethod:
    """Descriptor of a public method: a ``BoundMethod`` of an instance, the plain function of the class."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __get__(self, of: Any, kind: type | None = None) -> Callable:
        return self._function if of is None else BoundMethod(self._function, of)


class Precise(eqx.Module):
    """Base class of mathematical objects whose public methods always compute in double precision.

    Lists of numbers become arrays. With 64-bit types enabled in JAX, a method then runs directly. Otherwise it runs
    inside ``float64()``, returns NumPy arrays, and refuses single-precision input and traces. Subclasses, a user's too,
    need no changes for this.
    """

    # ``BoundMethod`` replaces equinox's bound methods. With equinox's own access, written in Python, reading a field
    # takes 0.6 in place of 0.06 µs, and a call of ``momentum`` of the snakeboard 295 in place of 222.
    __getattribute__ = object.__getattribute__

    def __check_init__(self) -> None:
        """Set the fields that have a default of the class in the instance: the structure of a module with exactly five
        that are not set changes as it is flattened and put together, and its programs would be compiled twice.
        """
        for field in dataclasses.fields(self):
            if field.name not in vars(self):
                object.__setattr__(self, field.name, getattr(self, field.name))

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        """Hook for subclasses: an argument of a public method as it computes with it, or an error, where it is
        ``called`` by its name and the method's.
        """
        return as_given(value, called)

    def _check_together(self, method: str, arguments: Iterable[tuple[str, Any]]) -> None:
        """Hook for subclasses: raise an error for arguments, pairs (name, value), that do not fit each other."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
                setattr(cls, name, _PublicMethod(_validating(name, method)))


def as_numbers(value: Any, name: str) -> Any:
    """Array of real numbers as float64, unless it is one of JAX, a tracer, or a single number.

    Lists, labelled arrays (xarray, pandas), integers, which would wrap, and arrays of another byte order are converted;
    errors are those of ``as_float64``.
    """
    kind = type(value)
    if (kind is np.ndarray and value.dtype is _FLOAT64) or isinstance(value, int | float | jax.Array):
        return value
    if isinstance(value, list | tuple) and has_tracers(value):
        return jnp.asarray(value, dtype=float)
    alone = isinstance(value, np.generic | np.ndarray) and value.shape == ()
    if alone and value.dtype.kind in "fiu" and value.dtype.itemsize <= _FLOAT64.itemsize:
        return value
    return as_float64(value, name, finite=False)


def as_given(value: Any, name: str) -> Any:
    """Argument of which nothing is known: arrays, lists and tuples of numbers as in ``as_numbers``, all else as it is.

    A tuple of arrays, such as a point of a product, remains one.
    """
    kind = type(value)
    if kind is tuple and any(hasattr(part, "shape") for part in value):
        return tuple(as_given(part, name) for part in value)
    labelled = hasattr(value, "__array__") and not isinstance(value, np.generic)
    labelled |= isinstance(value, memoryview | deque)
    if labelled or (kind is tuple and value and all(type(x) in (int, float) for x in value)):
        return as_numbers(value, name)
    if kind is list and not has_tracers(value):
        try:
            numbers = np.asarray(value)
        except ValueError:
            return value
        return as_numbers(value, name) if numbers.dtype.kind in "fiu" else value
    return as_numbers(value, name) if kind is list else value


def _validating(name: str, method: Callable) -> Callable:
    signed = list(inspect.signature(method).parameters.values())[1:]
    arrays = {p.name for p in signed if p.annotation in ("Array", "np.ndarray", jax.Array)}
    judges = {p.name: (judge, p.default) for p in signed if (judge := judge_of(str(p.annotation), OBJECTS))}
    places = [p.name for p in signed if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    itself = "name" in places  # it validates its argument
    directly = itself or inspect.signature(method).return_annotation == "None"

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_float64():

            def validated(label: str, value: Any) -> Any:
                if itself:
                    return value
                called = f"{label} of {type(self).__name__}.{name}"
                judge, default = judges.get(label, (None, None))
                if judge and value is not default:
                    judge(value, called)
                known = label if label in places else UNNAMED  # a name of the user's, as of a parameter
                return self._argument(name, known, as_numbers(value, called) if label in arrays else value, called)

            labels = (*places, *(UNNAMED,) * len(args))
            args = tuple(validated(label, value) for label, value in zip(labels, args, strict=False))
            kwargs = {label: validated(label, value) for label, value in kwargs.items()}
            named = [(label, value) for label, value in kwargs.items() if label in places]
            self._check_together(name, chain(zip(labels, args, strict=False), named))
            try:
                return method(self, *args, **kwargs) if directly else call_in_numpy(method, (self, *args), kwargs)
            except Exception as error:
                raise_named(error, f"{type(self).__name__.lstrip('_')}.{name}", places, args, kwargs)
                raise
        if has_tracers(**dict(zip(places, args, strict=False)), **kwargs):
            require_float64(method.__qualname__)
        return _call_in_float64(wrapper, (self, *args), kwargs)

    return wrapper

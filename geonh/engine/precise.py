"""``Precise``: base class of objects whose public methods always compute in double precision."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64, has_tracers, is_float64, require_float64
from geonh.arguments.validators import as_float64, refuse_kinds, refuse_single
from geonh.engine.outside import call_in_numpy

_FLOAT64 = np.dtype(np.float64)
Args = ParamSpec("Args")
Out = TypeVar("Out")


def _outside(leaf: Any) -> Any:
    """Convert a JAX array that is not traced to a NumPy array."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not has_tracers(leaf) else leaf


def _inside_and_out(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call in double precision and return NumPy arrays; single-precision arguments are refused."""
    _refuse_arguments(function, args, kwargs)
    with float64():
        return jax.tree.map(_outside, function(*args, **kwargs))


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
            label = key or next(iter(parameters[i : i + 1]), "an argument")
            name = f"{label} of {function.__qualname__}"
            refuse_single(leaf, name)
            refuse_kinds(leaf, name)


def in_float64(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorator for a public function: computes in double precision and returns NumPy arrays, unless it is traced."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        if has_tracers(args, kwargs):
            require_float64(function.__qualname__)
            with float64():
                return function(*args, **kwargs)
        return _inside_and_out(function, args, kwargs)

    return wrapper


@jax.tree_util.register_pytree_node_class
class Method:
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
        return isinstance(other, Method) and self.__wrapped__ == other.__wrapped__

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> tuple:
        return Method, (self.__func__, self.__self__)

    def tree_flatten(self) -> tuple[tuple[Any], Callable]:
        return (self.__self__,), self.__func__

    @classmethod
    def tree_unflatten(cls, function: Callable, of: tuple[Any]) -> Method:
        return cls(function, *of)


class _Public:
    """Descriptor of a public method: a ``Method`` of an instance, the plain function of the class."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __get__(self, of: Any, kind: type | None = None) -> Callable:
        return self._function if of is None else Method(self._function, of)


class Precise(eqx.Module):
    """Base class of mathematical objects whose public methods always compute in double precision.

    Lists of numbers become arrays. With 64-bit types enabled in JAX, a method then runs directly. Otherwise it runs
    inside ``float64()``, returns NumPy arrays, and refuses single-precision input and traces. Subclasses, a user's too,
    need no changes for this.
    """

    # ``Method`` replaces equinox's bound methods. With equinox's own access, written in Python, reading a field takes
    # 0.6 in place of 0.06 µs, and a call of ``momentum`` of the snakeboard 295 in place of 222.
    __getattribute__ = object.__getattribute__

    def _inspect(self, of: str, named: Iterable[tuple[str, Any]]) -> None:
        """Hook for subclasses: validate the arguments of a public method, by name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
                setattr(cls, name, _Public(_guarded(name, method)))


def _in_float64(value: Any, name: str) -> Any:
    """Convert an integer array, which would wrap, one of another byte order, or a labelled one (xarray, pandas) to
    float64; also within a tuple (a point of a product). TypeError, with the name, for arrays of other objects.
    """
    if isinstance(value, np.ndarray):
        if value.dtype is not _FLOAT64 and value.shape:
            kind = value.dtype.kind
            if kind in "Ob":
                return as_float64(value, name, finite=False)
            return value.astype(np.float64) if kind in "iu" or (kind == "f" and not value.dtype.isnative) else value
    elif type(value) is tuple:
        if any(isinstance(part, np.ndarray) for part in value):
            return tuple(_in_float64(part, name) for part in value)
    elif hasattr(value, "__array__") and not isinstance(value, jax.Array | np.generic | jax.ShapeDtypeStruct):
        return as_float64(np.asarray(value), name, finite=False)
    return value


def _as_numbers(value: Any) -> Any:
    """Convert a list or tuple of real numbers to a float64 array; other lists are validated by the method."""
    numbers = type(value) is tuple and value and all(type(x) in (int, float) for x in value)  # points are not
    if not (numbers or isinstance(value, list)):
        return value
    if has_tracers(value):
        return jnp.asarray(value, dtype=float)
    try:
        array = np.asarray(value)
    except ValueError:
        return value
    return jnp.asarray(array, dtype=float) if array.dtype.kind in "fiu" else value


def _guarded(name: str, method: Callable) -> Callable:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_float64():
            of = method.__qualname__
            names = (*_parameters(method)[1 : len(args) + 1], *("an argument",) * len(args))
            args = tuple(
                _as_numbers(_in_float64(value, f"{label} of {of}")) for value, label in zip(args, names, strict=False)
            )
            kwargs = {label: _in_float64(value, f"{label} of {of}") for label, value in kwargs.items()}
            self._inspect(name, (*zip(names, args, strict=False), *kwargs.items()))
            return call_in_numpy(method, (self, *args), kwargs)
        if has_tracers(args, kwargs):
            require_float64(method.__qualname__)
        return _inside_and_out(wrapper, (self, *args), kwargs)

    return wrapper

"""Double precision without touching anybody's JAX configuration.

Everything in geonh is float64. Public entry points run inside ``float64()`` and hand NumPy arrays out; code under a
user's own ``jit``, ``grad`` or ``vmap`` needs a trace in double precision, and ``require_float64`` says so.
"""

from __future__ import annotations

import datetime
import decimal
import difflib
import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geonh.numerics.outside import evaluated, trace_was_asked

Args = ParamSpec("Args")
Out = TypeVar("Out")


@contextmanager
def float64() -> Iterator[None]:
    """Context in which JAX computes in double precision, and numbers of all types mix as they do in NumPy.

    Thread-local, and undone on exit: ``with gn.float64(): ...``.

    Returns
    -------
    context manager
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _is_float64() -> bool:
    """Whether JAX is configured as ``float64`` configures it."""
    config: Any = jax.config
    return (
        config.jax_enable_x64
        and config.jax_numpy_dtype_promotion == "standard"
        and config.jax_numpy_rank_promotion == "allow"
    )


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is being traced by a JAX transformation; who asks judges numbers where they are known."""
    found = _has_tracers(trees)
    if found:
        trace_was_asked()
    return found


def _has_tracers(*trees: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def require_float64(name: str) -> None:
    """Raise unless JAX is tracing in double precision.

    Raises
    ------
    RuntimeError
        Inside a trace made without 64-bit types, where float32 would be silent.
    """
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} is traced in single precision; enclose your jit, grad or vmap call in `with geonh.float64():` "
            'or call jax.config.update("jax_enable_x64", True) first'
        )


def as_float64(value: Any, name: str, shape: tuple[int, ...] | None = None, *, finite: bool = True) -> Any:
    """Convert input to float64; traced values stay traced. Where it need not be ``finite``, nan and inf are let pass.

    Raises
    ------
    TypeError
        If the value is in single precision already, or not of real numbers: nothing is cast in silence.
    ValueError
        If it has not the given shape, or is not finite and must be.
    """
    for leaf in jax.tree.leaves(value):
        _refuse_single(leaf, name)
    if is_traced(value):
        require_float64(name)
        array = _traced(value, name)
    else:
        array = _converted(value, name)
        if finite and not np.all(np.isfinite(array)):
            where = np.argwhere(~np.isfinite(array))[0].tolist()
            what = f"has entries that are not finite, the first at {where}: {shortly(array.tolist())}"
            raise ValueError(f"{name} {what if array.ndim else f'must be finite, got {array}'}")
    if shape is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")
    return array


def _are_arrays(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, np.ndarray) for part in value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; a truth value is none, nor a duration, which NumPy counts among integers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def entries(value: Any) -> list | None:
    """The entries of a list or another iterable, but of text; or None."""
    try:
        return None if isinstance(value, str | bytes) else list(value)
    except Exception:  # of others that are iterable in name only: a sparse matrix, a view of two axes
        return None


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least ``least``, as an int.

    Raises
    ------
    ValueError
        If it is none (a truth value is none), or not below 2^53.
    """
    whole = is_whole(value)
    if not whole or not least <= value < 2**53:
        kind = "a positive integer" if least == 1 else f"an integer, at least {least}"
        known = "; under jit it must be static" if is_traced(value) else ""
        bound = " below 2^53" if whole and value >= 2**53 else ""
        raise ValueError(f"{name} must be {kind}{bound}, got {shortly(value)}{known}")
    return int(value)


def as_part(value: Any, name: str) -> float:
    """A number in (0, 1), such as a relative tolerance.

    Raises
    ------
    TypeError, ValueError
        If it is none.
    """
    number = float(as_float64(value, name, ()))
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie in (0, 1), got {shortly(value)}")
    return number


def as_flag(value: Any, name: str) -> bool:
    """A truth value.

    Raises
    ------
    TypeError
        If it is none.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shortly(value)}")
    return bool(value)


def as_names(value: Any, name: str) -> list[str]:
    """A list of texts.

    Raises
    ------
    TypeError
        If it is none; a single text is none.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise TypeError(f"{name} must be a list of names, got {shortly(value)}")
    return list(value)


def one_of(value: Any, name: str, choices: Iterable) -> Any:
    """The value, if it is one of the choices.

    Raises
    ------
    ValueError
        If it is none; a truth value is no number.
    """
    known = list(choices)
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in known:
        raise ValueError(f"{name} must be one of {known}, got {shortly(value)}")
    return value


def single_precision_note(*values: Any) -> str:
    """What to say of numbers that are slightly wrong, if all of them are exact in float32: "" if not."""
    arrays = [np.asarray(leaf, float) for leaf in jax.tree.leaves(values)]
    if not all(np.array_equal(a, a.astype(np.float32)) for a in arrays):
        return ""
    return (
        "; all its numbers are exact in float32, so it seems computed in single precision: compute it inside "
        "`with geonh.float64():`, or in NumPy"
    )


_KINDS = {"c": "complex numbers", "M": "dates", "m": "durations", "U": "text", "S": "text", "b": "truth values"}


def _converted(value: Any, name: str) -> np.ndarray:
    """A float64 array of what is not traced."""
    leaves = jax.tree.leaves(value, is_leaf=lambda leaf: leaf is None) if isinstance(value, list | tuple) else [value]
    for made in {type(leaf) for leaf in leaves}:
        if issubclass(made, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
        if issubclass(made, bool | np.bool_ | bytearray):  # which NumPy takes for numbers, beside some
            words = "text" if issubclass(made, bytearray) else "truth values"
            raise TypeError(f"{name} must be real numbers, got {words}: {shortly(value)}")
        if hasattr(made, "to_value") or hasattr(made, "to_base_units"):  # of Astropy, of Pint
            raise TypeError(f"{name} has a unit, {shortly(value)}: give the numbers, in the units of the system (SI)")
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of unequal lengths
        how = "; np.concatenate makes one array of several" if _are_arrays(value) else ""
        raise ValueError(f"{name} is a nested list of unequal lengths: {shortly(value)}{how}") from error
    except TypeError as error:  # keys of random numbers, what cannot be copied to this machine
        raise TypeError(f"{name} must be numeric, got {shortly(value)}") from error
    _refuse_single(array, name)  # of what is no array before: a tensor, a buffer
    kind = str(array.dtype.kind)
    if kind == "O":
        kind = next((_kind(entry) for entry in array.flat if _kind(entry)), "")
    if kind in _KINDS:
        raise TypeError(f"{name} must be real numbers, got {_KINDS[kind]}: {shortly(value)}")
    try:
        if kind == "V":
            raise TypeError("records")
        converted = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be numeric, got {shortly(value)}") from error
    with np.errstate(invalid="ignore"):
        if kind in ("i", "u") and not np.array_equal(converted.astype(array.dtype), array):
            raise TypeError(f"{name} has integers beyond 2^53 that float64 does not hold: {shortly(value)}")
    return converted


def _kind(entry: Any) -> str:
    """The letter of NumPy for what an entry of an array of objects is, "V" if it is no number; "" for real numbers."""
    if isinstance(entry, bool | np.bool_):
        return "b"
    if isinstance(entry, np.generic | np.ndarray) and entry.shape == ():
        return entry.dtype.kind if entry.dtype.kind in _KINDS else ""
    if isinstance(entry, numbers.Real | decimal.Decimal) or getattr(entry, "shape", None) == ():
        return ""
    return {
        str: "U",
        bytes: "S",
        complex: "c",
        datetime.datetime: "M",
        datetime.date: "M",
        datetime.timedelta: "m",
    }.get(type(entry), "V")


def _traced(value: Any, name: str) -> Any:
    """A float64 array of what is traced, wholly or in part."""
    array = jnp.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got {_KINDS.get(array.dtype.kind, array.dtype.name)}")
    return array.astype(float)


def shortly(value: Any) -> str:
    """What a value looks like, in one line or so; a user's own may not be able to say."""
    try:
        text = str(value)[:40] if isinstance(value, int) else repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) < 80 else f"{text[:77]}…"


def close(word: str, words: Iterable[str]) -> str:
    """ "; did you mean …?" or nothing."""
    pool = list(words)
    found = difflib.get_close_matches(word.lower(), pool, n=3, cutoff=0.5)
    found = found or [w for w in pool if len(word) > 2 and word.lower() in w][:3]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _refuse_single(value: Any, name: str) -> None:
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and np.issubdtype(dtype, np.inexact) and dtype.itemsize < 8:
        raise TypeError(
            f"{name} is {dtype.name}, its digits are lost already; pass Python floats or NumPy float64 "
            "arrays (JAX makes float32 arrays unless 64-bit types are enabled)"
        )


def _refuse_kinds(value: Any, name: str) -> None:
    """Raise TypeError for an array that is masked, or of other than numbers and truth values."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in _KINDS and kind != "b":
        raise TypeError(f"{name} must be real numbers, got {_KINDS[kind]}: {shortly(value)}")


def _outside(leaf: Any) -> Any:
    """A NumPy array in place of a JAX array that is not being traced."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not _has_tracers(leaf) else leaf


def _inside_and_out(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call in double precision with NumPy arrays out, single-precision arguments refused."""
    _refuse_arguments(function, args, kwargs)
    with float64():
        return jax.tree.map(_outside, function(*args, **kwargs))


@functools.cache
def _parameters(function: Callable) -> list[str]:
    """Names of a public function's arguments."""
    return list(inspect.signature(function).parameters)


def _refuse_arguments(function: Callable, args: tuple, kwargs: dict) -> None:
    """Raise TypeError, naming the argument, for one in single precision, or not of numbers.

    A method that takes the ``name`` of its argument judges it itself.
    """
    parameters = _parameters(function)
    if "name" in parameters:
        return
    for i, (key, value) in enumerate([*((None, a) for a in args), *kwargs.items()]):
        for leaf in jax.tree.leaves(value):
            label = key or next(iter(parameters[i : i + 1]), "an argument")
            name = f"{label} of {function.__qualname__}"
            _refuse_single(leaf, name)
            _refuse_kinds(leaf, name)


def in_float64(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorate a public function: double precision inside, NumPy arrays out, unless it is being traced."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        if _has_tracers(args, kwargs):
            require_float64(function.__qualname__)
            with float64():
                return function(*args, **kwargs)
        return _inside_and_out(function, args, kwargs)

    return wrapper


@jax.tree_util.register_pytree_node_class
class Method:
    """A public method of a mathematical object, as a pytree of the object: its parameters are leaves."""

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
    """What a class has for a ``Method``: of the class it is the function itself."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __get__(self, of: Any, kind: type | None = None) -> Callable:
        return self._function if of is None else Method(self._function, of)


class Precise(eqx.Module):
    """A mathematical object whose public methods compute in double precision wherever they are called.

    Lists of numbers become arrays. Where JAX has 64-bit types, a method then runs as it is. Elsewhere it runs inside
    ``float64()``, gives NumPy arrays, and refuses single-precision input and traces. Subclasses, a user's too, need
    do nothing for it.
    """

    __getattribute__ = object.__getattribute__  # what equinox's is for, ``Method`` does in a tenth of the time

    def _inspect(self, of: str, named: Iterable[tuple[str, Any]]) -> None:
        """For subclasses: refuse what a public method is given, by the names of its arguments."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
                setattr(cls, name, _Public(_guarded(name, method)))


def _listed(value: Any) -> Any:
    """An array in place of a list or tuple of real numbers; any other list is for the method to judge."""
    numbers = type(value) is tuple and value and all(type(x) in (int, float) for x in value)  # as no point is
    if not (numbers or isinstance(value, list)):
        return value
    if _has_tracers(value):
        return jnp.asarray(value, dtype=float)
    try:
        array = np.asarray(value)
    except ValueError:
        return value
    return jnp.asarray(array, dtype=float) if array.dtype.kind in "fiu" else value


def _guarded(name: str, method: Callable) -> Callable:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_float64():
            args = tuple(map(_listed, args))
            self._inspect(name, (*zip(_parameters(method)[1:], args, strict=False), *kwargs.items()))
            return evaluated(method, (self, *args), kwargs)
        if _has_tracers(args, kwargs):
            require_float64(method.__qualname__)
        return _inside_and_out(wrapper, (self, *args), kwargs)

    return wrapper

"""Checks of a user's traced function for errors that JAX does not report: indices out of range, float32.

JAX clamps such indices, or drops the accesses. The jaxpr is evaluated abstractly, with the values of constant integers
propagated; loops of known length are unrolled (up to ``TURNS`` iterations), so that an index that counts is known too.
A function with a data-dependent index is made ``careful``: out of range its value is nan, and the step fails.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np

from geonh.arguments.jaxprs import called_jaxpr, evaluate
from geonh.arguments.precision import float64
from geonh.arguments.purity import refuse_changing
from geonh.arguments.validators import is_rounded

TURNS = 50
"""Maximum number of loop iterations unrolled."""


def inspected(name: str, closed: Any) -> bool:
    """Raise for a traced function that indexes out of range, or loses precision.

    Returns
    -------
    bool
        True if it has an array index that depends on data, so that it cannot be checked here.

    Raises
    ------
    ValueError
        If a constant index is out of range for its array.
    TypeError
        If it computes in single precision.
    """
    inspection = _Inspection()
    try:
        inspection.walk(closed, [None] * len(closed.jaxpr.invars))
    except _InspectionError as error:
        raise error.kind(f"{name} {error}") from None
    return inspection.reads_by_data


def careful(function: Callable) -> Callable:
    """Return the function with bounds checks: nan, with all derivatives, if a data-dependent index is out of range."""
    return function if isinstance(function, _Careful) else _Careful(function)


class _Careful(eqx.Module):
    """Bounds-checked function; equal for equal functions, so that identical systems share compiled programs."""

    function: Callable

    @property
    def __wrapped__(self) -> Callable:
        return self.function

    def __call__(self, *args: Any) -> Any:
        refuse_changing(self.function, args)
        try:
            closed, inspection = jax.make_jaxpr(self.function)(*args), _Inspection()
        except TypeError:
            return self.function(*args)  # it fails here too, or returns a non-number, which the caller refuses
        with contextlib.suppress(_InspectionError):  # the error is raised where the function is inspected
            inspection.walk(closed, [None] * len(closed.jaxpr.invars))
        if not inspection.reads_by_data:
            return self.function(*args)
        from jax.experimental import checkify

        error, value = checkify.checkify(self.function, errors=checkify.index_checks)(*args)
        outside = [leaf for leaf in jax.tree.leaves(error) if leaf.dtype == bool]
        return jax.tree.map(lambda a: a * jnp.where(jnp.any(jnp.stack(outside)), jnp.nan, 1.0), value)


class _InspectionError(Exception):
    """Error found in a trace, with the type of exception to raise for it."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _Inspection:
    """Abstract evaluation of a jaxpr with known constants."""

    reads_by_data = False

    def walk(self, closed: Any, inputs: list) -> list:
        """Values of the outputs of a jaxpr as far as they are known (else None), from those of its inputs."""
        n = len(getattr(closed, "jaxpr", closed).invars)
        inputs = [*inputs, *[None] * n][:n]
        return evaluate(closed, inputs, self._outputs, _concrete)

    def _outputs(self, eqn: Any, given: list) -> list:
        """Known outputs of an equation: small integers, and the outputs of nested jaxprs."""
        self._test(eqn, given)
        unknown, name = [None] * len(eqn.outvars), eqn.primitive.name
        if name == "scan":
            return self._scan(eqn.params, given, unknown)
        if name == "cond":
            for branch in eqn.params["branches"]:
                self.walk(branch, given[1:])
            return unknown
        if name == "while":
            self.walk(eqn.params["body_jaxpr"], given[eqn.params["cond_nconsts"] :][: eqn.params["body_nconsts"]])
            return unknown
        inner = called_jaxpr(eqn.params)
        if inner is not None:
            outputs = self.walk(inner, given)
            return outputs if len(outputs) == len(unknown) else unknown
        if all(v is not None for v in given) and all(_is_small_integer(out.aval) for out in eqn.outvars):
            results = functools.cache(functools.partial(_known_outputs, eqn, given))
            return [_Later(results, i) for i in range(len(eqn.outvars))]
        return unknown

    def _scan(self, params: dict, given: list, unknown: list) -> list:
        """Unrolled loop; of its outputs only the last carry is known."""
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        consts, carry, rows = given[:n_consts], given[n_consts:][:n_carry], given[n_consts + n_carry :]
        turns = range(params["length"])[:: -1 if params["reverse"] else 1]
        for i in turns[:TURNS]:
            turn = [None if row is None else _now(row)[i] for row in rows]
            carry = self.walk(params["jaxpr"], [*consts, *carry, *turn])[:n_carry]
        if len(turns) <= TURNS:
            return [*carry, *unknown[n_carry:]]
        self.walk(params["jaxpr"], [*consts, *[None] * (n_carry + len(rows))])
        return unknown

    def _test(self, eqn: Any, given: list) -> None:
        """Raise for a constant index out of range, and for single precision."""
        for atom in (*eqn.invars, *eqn.outvars):
            dtype: Any = getattr(atom.aval, "dtype", None)
            if is_rounded(dtype):
                raise _InspectionError(
                    TypeError,
                    f"computes with {dtype.name} data; a JAX array made outside geonh is float32 unless 64-bit types "
                    "are enabled: write its numbers as NumPy arrays or Python floats, or pass parameters=",
                )
            if isinstance(atom, jex.core.Literal) and (short := _single(atom.val)):
                raise _InspectionError(
                    TypeError,
                    f"computes with float32 data, {float(atom.val)!r} for {short}, whose digits are lost already: "
                    "write its numbers as Python floats, or pass parameters=",
                )
        name = eqn.primitive.name
        array: Any = eqn.invars[0].aval if eqn.invars else None
        if name == "dynamic_slice":
            self._compare(array.shape, range(array.ndim), given[1:], eqn.params["slice_sizes"])
        elif name == "dynamic_update_slice":
            self._compare(array.shape, range(array.ndim), given[2:], eqn.invars[1].aval.shape)
        elif (name == "gather" or name.startswith("scatter")) and given[1] is None:
            self.reads_by_data |= eqn.params["mode"] != jax.lax.GatherScatterMode.CLIP  # clamping was asked for
        elif name == "gather" or name.startswith("scatter"):
            numbers = eqn.params["dimension_numbers"]
            axes = getattr(numbers, "start_index_map", None) or numbers.scatter_dims_to_operand_dims
            sizes = eqn.params.get("slice_sizes", [1] * array.ndim)
            self._compare(array.shape, axes, np.moveaxis(np.asarray(_now(given[1])), -1, 0), sizes)

    def _compare(self, shape: tuple[int, ...], axes: Any, starts: Any, sizes: Any) -> None:
        for axis, start in zip(axes, starts, strict=False):
            if start is None:
                self.reads_by_data = True
                continue
            first, length = np.ravel(np.asarray(_now(start))), shape[axis]
            outside = first[(first < 0) | (first > length - sizes[axis])]
            if outside.size:
                index = int(outside[0])  # a negative index was counted from the end
                index = index - length if index < 0 else index + sizes[axis] - 1
                raise _InspectionError(
                    ValueError,
                    f"asks for index {index} on axis {axis} of an array of shape {shape}; JAX would read another "
                    "entry, or none, in silence",
                )


def _single(value: Any) -> str:
    """Decimal number of which a float64 scalar is the float32 rounding, as JAX makes it silently; "" for others.

    Numbers with 16 binary digits or fewer, as dyadic fractions have, pass; others have 24 by chance once in 2^29.
    """
    if (
        np.shape(value) != ()
        or getattr(value, "dtype", None) != np.float64
        or not abs(value) < float(np.finfo("f4").max)
    ):
        return ""
    single = np.float32(value)
    few = int(np.frexp(single)[0] * 2**24) % 2**8 == 0  # at most 16 of 24 binary digits
    return "" if few or float(single) != value or float(str(single)) == value else str(single)


class _Later(NamedTuple):
    """Known value, computed lazily when an index needs it."""

    results: Callable[[], Sequence[Any]]
    position: int


def _now(value: Any) -> Any:
    return value.results()[value.position] if isinstance(value, _Later) else value


def _known_outputs(eqn: Any, given: list) -> list:
    """Outputs of an equation for known inputs."""
    with float64(), jax.ensure_compile_time_eval():  # as in the trace
        results = eqn.primitive.bind(*map(_now, given), **eqn.params)
    return list(results) if eqn.primitive.multiple_results else [results]


def _is_small_integer(aval: Any) -> bool:
    return getattr(getattr(aval, "dtype", None), "kind", "O") in "iub" and aval.size <= 1000  # random keys have no kind


def _concrete(value: Any) -> Any:
    return None if isinstance(value, jax.core.Tracer) else value

"""Native code as JAX operations, for use under ``jit``, ``grad`` and ``vmap``.

An operation y = f(arrays, x) is three primitives: its value; its tangent, linear in the tangents of arrays and x; and
the transpose of that, the cotangents. Each calls a native program. On other platforms than a CPU, without a lowering,
and in higher derivatives the fallback is JAX on ``plain``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Primitive

from geonh.engine.internals import ShapedArray, ad, batching, mlir

VALUE, TANGENT, COTANGENT = "value", "tangent", "cotangent"


class Foreign(NamedTuple):
    """Part of an operation without a call of Python.

    Attributes
    ----------
    call : callable
        Function of the operands to a list of results, which calls targets of XLA (``foreign_call``).
    is_tried : bool
        True if Python is called where its last result has nan.
    """

    call: Callable[..., list[Any]]
    is_tried: bool = False


@dataclass(frozen=True)
class Operation:
    """y = f(arrays, x), of any arrays and a vector x, in double precision; equal if the programs are equal."""

    def plain(self, arrays: list[Any], x: Array) -> Array:
        """Evaluate y in JAX."""
        raise NotImplementedError

    def shape(self, x: Any) -> tuple[int, ...]:
        """Shape of y."""
        raise NotImplementedError

    def native(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        """NumPy function that calls native code for a part of this operation, or None without a lowering.

        It takes the operands of the part, whose shapes for one member are given, and returns a list of its results.
        Batched operands have the batch as leading axis, and if any are, so do all results.
        """
        raise NotImplementedError

    def foreign(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...], n: int) -> Foreign | None:
        """Call without Python for a part of this operation, of a batch of n, if there is one; operands as for
        ``native``.
        """
        return None

    def __call__(self, arrays: Sequence[Any], x: Any) -> Array:
        """Evaluate y; traceable."""
        operands = (*map(jnp.asarray, arrays), jnp.asarray(x))
        return _primitives[VALUE].bind(*operands, part=Transformed(VALUE, self), batched=())[0]


@dataclass(frozen=True)
class Transformed:
    """Value of an operation, its tangent or its cotangents; ``active`` marks the arrays that are differentiated.

    The value takes (*arrays, x); the tangent (*arrays, x, y, *tangents of the active arrays, tangent of x); the
    cotangents (*arrays, x, y, cotangent of y), and return those of the active arrays and of x.
    """

    kind: str
    of: Operation
    active: tuple[bool, ...] = ()

    def __call__(self, *operands: Any) -> list[Any]:
        given = self.named(operands)
        if self.kind == VALUE:
            return [self.of.plain(given.arrays, given.x)]

        def function(moving: list, x: Array) -> Array:
            return self.of.plain(with_active(given.arrays, moving, self.active), x)

        at = active_values(given.arrays, self.active), given.x
        if self.kind == TANGENT:
            return [jax.jvp(function, at, (given.tangents, given.x_dot))[1]]
        moving, x = jax.vjp(function, *at)[1](given.y_bar)
        return [*moving, x]

    def result_shapes(self, given: Operands) -> list[tuple[int, ...]]:
        """Shapes of its results for one member, from those of the operands."""
        active = active_values(given.arrays, self.active) if self.kind == COTANGENT else []
        return [a.shape for a in (*active, given.x)] if self.kind == COTANGENT else [self.of.shape(given.x)]

    def named(self, operands: Sequence[Any]) -> Operands:
        """Operands of this part, or a value for each of them, by name."""
        if self.kind == VALUE:
            *arrays, x = operands
            return Operands(arrays, x)
        n = len(self.active)
        arrays, (x, y, *tangents, last) = list(operands[:n]), operands[n:]
        if self.kind == TANGENT:
            return Operands(arrays, x, y, tangents, x_dot=last)
        return Operands(arrays, x, y, y_bar=last)


class Operands(NamedTuple):
    """Operands of a part of an operation y = f(arrays, x); those that a part does not have are None or empty.

    Attributes
    ----------
    arrays, x, y
        Arguments and value.
    tangents, x_dot
        Tangents of the active arrays and of x.
    y_bar
        Cotangent of y.
    """

    arrays: list[Any]
    x: Any
    y: Any = None
    tangents: Sequence[Any] = ()
    x_dot: Any = None
    y_bar: Any = None

    def flat(self) -> list[Any]:
        """Operands in the order in which a part takes them."""
        last = [value for value in (self.x_dot, self.y_bar) if value is not None]
        return [*self.arrays, self.x, *([] if self.y is None else [self.y]), *self.tangents, *last]


@dataclass(frozen=True)
class HostOperation(Operation):
    """Operation whose value and derivatives are NumPy functions of one member, which may run programs; on a CPU alone,
    without second derivatives.
    """

    def value(self, given: Operands) -> np.ndarray:
        """Evaluate y."""
        raise NotImplementedError

    def tangent(self, given: Operands, active: tuple[bool, ...]) -> np.ndarray:
        """Tangent of y, by those of the active arrays and of x."""
        raise NotImplementedError

    def cotangents(self, given: Operands, active: tuple[bool, ...]) -> list[np.ndarray]:
        """Cotangents of the active arrays, and last of x, by that of y."""
        raise NotImplementedError

    def native(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> Callable:
        def one(*values: np.ndarray) -> list[np.ndarray]:
            given = part.named(values)
            if part.kind == VALUE:
                return [self.value(given)]
            return [self.tangent(given, part.active)] if part.kind == TANGENT else self.cotangents(given, part.active)

        def call(*values: np.ndarray) -> list[np.ndarray]:
            n = members(values, batched)
            if n is None:
                return one(*values)
            each = [one(*(v[i] if many else v for v, many in zip(values, batched, strict=True))) for i in range(n)]
            return [np.stack(results) for results in zip(*each, strict=True)]

        return call


def active_values(values: Sequence[Any], active: tuple[bool, ...]) -> list[Any]:
    """Values of the active arrays."""
    return [value for value, moves in zip(values, active, strict=True) if moves]


def with_active(arrays: Sequence[Any], moving: Sequence[Any], active: tuple[bool, ...]) -> list[Any]:
    """Insert the active arrays among all arrays."""
    left = iter(moving)
    return [next(left) if moves else array for array, moves in zip(arrays, active, strict=True)]


def members(operands: Sequence[Any], batched: tuple[bool, ...]) -> int | None:
    """Batch size, None if nothing is batched."""
    return next((x.shape[0] for x, many in zip(operands, batched, strict=True) if many), None) if batched else None


def _in_jax(part: Transformed, batched: tuple[bool, ...]) -> Callable:
    return jax.vmap(part, [0 if many else None for many in batched]) if any(batched) else part


def _of_one_member(operands: Sequence[Any], batched: tuple[bool, ...]) -> list[Any]:
    """Shapes of the operands without the batch axis."""
    flags = batched or (False,) * len(operands)
    return [jax.ShapeDtypeStruct(x.shape[many:], x.dtype) for x, many in zip(operands, flags, strict=True)]


def _shapes(*operands: Any, part: Transformed, batched: tuple[bool, ...]) -> list[ShapedArray]:
    lead = (members(operands, batched),) if any(batched) else ()
    shapes = part.result_shapes(part.named(_of_one_member(operands, batched)))
    return [ShapedArray((*lead, *shape), np.dtype(np.float64)) for shape in shapes]


def _empty_results(*operands: Any, part: Transformed, batched: tuple[bool, ...]) -> list[Any]:
    """Results for an empty batch."""
    return [jnp.zeros(x.shape) for x in _shapes(*operands, part=part, batched=batched)]


def _implementation(*operands: Any, part: Transformed, batched: tuple[bool, ...]) -> list[Any]:
    """Evaluation outside of a trace."""
    if members(operands, batched) == 0:
        return _empty_results(*operands, part=part, batched=batched)
    program = part.of.native(part, _of_one_member(operands, batched), batched)
    if program is None:
        return jax.jit(_in_jax(part, batched))(*operands)
    return [jnp.asarray(x) for x in program(*map(np.asarray, operands))]


def _cpu_lowering(*operands: Any, part: Transformed, batched: tuple[bool, ...]) -> list[Any]:
    """Lowering within an XLA program on a CPU."""
    if members(operands, batched) == 0:
        return _empty_results(*operands, part=part, batched=batched)
    shapes = _shapes(*operands, part=part, batched=batched)
    one, n = _of_one_member(operands, batched), members(operands, batched)
    if (found := part.of.foreign(part, one, batched, 1 if n is None else n)) is not None:
        results = found.call(*operands)
        if not found.is_tried:
            return results
        later = _when_called(lambda: part.of.native(part, one, batched))
        failed = jnp.isnan(results[-1]).any()
        return lax.cond(failed, lambda: _by_python(later, operands, shapes), lambda: results)
    program = part.of.native(part, one, batched)
    if program is None:
        return _in_jax(part, batched)(*operands)
    return _by_python(program, operands, shapes)


def _when_called(make: Callable[[], Callable | None]) -> Callable:
    """Program that is made when it is first called."""
    made = functools.cache(make)
    return lambda *values: made()(*values)  # type: ignore[misc]


def _by_python(program: Callable, operands: Sequence[Any], shapes: Sequence[ShapedArray]) -> list[Any]:
    """Results of a NumPy function within an XLA program."""
    kinds = [(x.dtype, x.shape) for x in operands]
    halves = [ShapedArray((*x.shape, 2), np.dtype(np.uint32)) for x in shapes]

    def call(*values: Any) -> list[np.ndarray]:
        results = program(
            *(np.asarray(x).view(dtype).reshape(shape) for x, (dtype, shape) in zip(values, kinds, strict=True))
        )
        return [np.asarray(x, order="C")[..., None].view(np.uint32) for x in results]

    results = _host_call.bind(*map(_halves, operands), call=call, shapes=tuple(halves))
    return [lax.bitcast_convert_type(x, np.float64) for x in results]


def _host_call_lowering(ctx: Any, *operands: Any, call: Callable, shapes: tuple) -> Sequence[Any]:
    """Call of a NumPy function within an XLA program.

    ``jax.pure_callback`` makes JAX arrays of all operands, which takes ten times as long as the call; it is left to
    programs of several devices.
    """
    axes = ctx.module_context.axis_context
    if not isinstance(axes, mlir.ShardingContext) or axes.num_devices != 1:
        return mlir.lower_fun(lambda *values: jax.pure_callback(call, shapes, *values))(ctx, *operands)
    given = ctx, call, None, operands, ctx.avals_in, ctx.avals_out
    return mlir.emit_python_callback(*given, has_side_effect=False)[0]


def _halves(x: Any) -> Any:
    """View 64-bit numbers as pairs of 32 bits: the callback thread of XLA may have JAX in single precision."""
    return lax.bitcast_convert_type(x, np.uint32) if x.dtype.itemsize == 8 else x


def _batching_rule(args: tuple, dims: tuple, *, part: Transformed, batched: tuple[bool, ...]) -> tuple:
    new = tuple(d is not None for d in dims)
    moved = [jnp.moveaxis(x, d, 0) if many else x for x, d, many in zip(args, dims, new, strict=True)]
    primitive = _primitives[part.kind]
    if not any(batched):
        results = primitive.bind(*moved, part=part, batched=new)
        return results, [0] * len(results)
    # nested batches are flattened to one
    outer = next(x.shape[0] for x, many in zip(moved, new, strict=True) if many)
    inner = next(x.shape[many] for x, many, old in zip(moved, new, batched, strict=True) if old)
    flat = []
    for x, many, old in zip(moved, new, batched, strict=True):
        if many or old:
            shape = x.shape[many + old :]
            x = x.reshape(outer if many else 1, inner if old else 1, *shape)
            x = jnp.broadcast_to(x, (outer, inner, *shape)).reshape(outer * inner, *shape)
        flat.append(x)
    results = primitive.bind(*flat, part=part, batched=tuple(map(bool.__or__, new, batched)))
    return [x.reshape(outer, inner, *x.shape[1:]) for x in results], [0] * len(results)


def _jvp_of_value(primals: tuple, tangents: tuple, *, part: Transformed, batched: tuple[bool, ...]) -> tuple:
    """JVP rule of a value."""
    (y,) = _primitives[VALUE].bind(*primals, part=part, batched=batched)
    *arrays, x = (jnp.asarray(t) if isinstance(t, float) else t for t in tangents)  # as ``jax.jvp`` was given it
    active = tuple(not isinstance(t, ad.Zero) and t.dtype != jax.dtypes.float0 for t in arrays)
    if not any(active) and isinstance(x, ad.Zero):
        return [y], [ad.Zero(jax.typeof(y))]
    flags = batched and (*batched, any(batched), *active_values(batched[:-1], active), batched[-1])
    active_tangents = (*active_values(arrays, active), ad.instantiate_zeros(x))
    return [y], _primitives[TANGENT].bind(
        *primals, y, *active_tangents, part=Transformed(TANGENT, part.of, active), batched=flags
    )


def _jvp_of_derivative(primals: tuple, tangents: tuple, *, part: Transformed, batched: tuple[bool, ...]) -> tuple:
    """JVP rule of a derivative."""
    return jax.jvp(_in_jax(part, batched), primals, tuple(map(ad.instantiate_zeros, tangents)))


def _transpose(given: list, *operands: Any, part: Transformed, batched: tuple[bool, ...]) -> list:
    """Transpose rule: cotangents of a tangent's operands."""
    n = len(part.active) + 2  # arrays, x and y, which are primal values
    if isinstance(given[0], ad.Zero):
        return [None] * len(operands)
    flags = batched and (*batched[:n], any(batched))
    cotangents = _primitives[COTANGENT].bind(
        *operands[:n], given[0], part=Transformed(COTANGENT, part.of, part.active), batched=flags
    )
    if batched:
        cotangents = [x if many else x.sum(0) for x, many in zip(cotangents, batched[n:], strict=True)]
    wanted = map(ad.is_undefined_primal, operands[n:])
    return [None] * n + [x if is_wanted else None for x, is_wanted in zip(cotangents, wanted, strict=True)]


_host_call = Primitive("geonh_host_call")
_host_call.multiple_results = True
_host_call.def_abstract_eval(lambda *_, call, shapes: list(shapes))
mlir.register_lowering(_host_call, _host_call_lowering, platform="cpu")

_foreign_call = Primitive("geonh_foreign_call")
_foreign_call.multiple_results = True
_foreign_call.def_abstract_eval(lambda *_, target, shapes: list(shapes))
mlir.register_lowering(
    _foreign_call, lambda ctx, *operands, target, shapes: jax.ffi.ffi_lowering(target)(ctx, *operands), platform="cpu"
)


def foreign_call(target: str, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Results of a target of XLA, of these shapes, in double precision."""
    results = tuple(ShapedArray(shape, np.dtype(np.float64)) for shape in shapes)
    return _foreign_call.bind(*operands, target=target, shapes=results)


def _primitive(kind: str) -> Primitive:
    primitive = Primitive(f"geonh_{kind}")
    primitive.multiple_results = True
    primitive.def_impl(_implementation)
    primitive.def_abstract_eval(_shapes)
    batching.primitive_batchers[primitive] = _batching_rule
    ad.primitive_jvps[primitive] = _jvp_of_value if kind == VALUE else _jvp_of_derivative
    mlir.register_lowering(primitive, mlir.lower_fun(lambda *args, part, batched: _in_jax(part, batched)(*args)))
    mlir.register_lowering(primitive, mlir.lower_fun(_cpu_lowering), platform="cpu")
    return primitive


_primitives = {kind: _primitive(kind) for kind in (VALUE, TANGENT, COTANGENT)}
ad.primitive_transposes[_primitives[TANGENT]] = _transpose

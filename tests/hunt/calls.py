"""Calls of public functions with one or two arguments replaced by wrong or odd ones.

``python tests/hunt/calls.py --seeds 0 30000 --seconds 1500``; a seed always makes the same call. It goes on from
tests/robustness/public_calls.py, which has a right call of every public name.
"""

import contextlib
import decimal
import fractions
import functools
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse

sys.path.insert(0, str(Path(__file__).parents[1] / "robustness"))
from hunting import hunt
from public_calls import CALLS
from test_public_calls import JUNK, LEFT_OUT, named, names_an_argument, precision_of, right_call

LIMIT = 20
"""Seconds a call may take."""
INTERNAL = re.compile(
    r"tracer|jaxpr|XLA|StableHLO|MLIR|LLVM|llvmlite|lax\.|ufunc|dtype\('O'\)|pytree|PyTreeDef|broadcast|__array|"
    r"unhashable|object has no attribute|not subscriptable|unsupported operand|cannot reshape|index out of bounds|"
    r"safecast|inhomogeneous|jax\.Array|ShapedArray|DynamicJaxprTracer|while_loop|scan got|dot_general|concatenate"
)
"""Words of what is below, which mean nothing to a user."""


class Slow(BaseException):
    """A call took longer than it may."""


class Own(np.ndarray):
    """A subclass of arrays."""


class Liar:
    """Says that it is an array, and fails."""

    shape, dtype, ndim = (3,), np.dtype(float), 1

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise RuntimeError("no array")


MORE = {
    "Fraction": fractions.Fraction(1, 3),
    "Decimal": decimal.Decimal("0.1"),
    "Fractions": [fractions.Fraction(1, 3)] * 3,
    "Decimals": np.array([decimal.Decimal(1)] * 3),
    "Series": pd.Series([1.0, 2.0, 3.0]),
    "DataFrame": pd.DataFrame(np.eye(3)),
    "Index": pd.Index([1.0, 2.0, 3.0]),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "Timestamp": pd.Timestamp("2020-01-01"),
    "0-d": np.array(0.3),
    "0-d int": np.array(3),
    "0-d text": np.array("a"),
    "subclass": np.ones(3).view(Own),
    "matrix": np.asmatrix(np.eye(3)),
    "csr array": scipy.sparse.csr_array(np.eye(3)),
    "-0.0": -0.0,
    "1e-320": 1e-320,
    "-1e308": -1e308,
    "-inf": -np.inf,
    "float16": np.float16(0.5),
    "longdouble": np.longdouble(0.5),
    "int8": np.int8(3),
    "bool array": np.array([True, False, True]),
    "record": np.zeros(3, [("a", float)]),
    "big-endian": np.array([1.0, 2.0, 3.0], ">f8"),
    "bytearray": bytearray(b"abc"),
    "surrogate": "\ud800",
    "long text": "a" * 5000,
    "path with nul": "a\0.nc",
    "dict keys": {"a": 1}.keys(),
    "generator of floats": lambda: (float(i) for i in range(3)),
    "partial": functools.partial(lambda a, b: a, 1),
    "function of nine": lambda a, b, c, d, e, f, g, h, i: a,
    "keywords only": lambda *, a: a,
    "function to nan": lambda *a: jnp.nan,
    "function to nans": lambda *a: jnp.full(3, jnp.nan),
    "function to complex": lambda *a: jnp.ones(3) * 1j,
    "function to float32": lambda *a: jnp.ones(3, jnp.float32),
    "function to a list of lists": lambda *a: [[1.0, 2.0], [1.0]],
    "function to a function": lambda *a: lambda: 1,
    "function that raises KeyError": lambda *a: {}["a"],
    "function that exits": lambda *a: (_ for _ in ()).throw(StopIteration()),
    "liar": Liar(),
    "tracer class": jax.core.Tracer,
    "lambda of kwargs": lambda **k: 1,
    "Ellipsis list": [...],
    "nested": [[[[1.0]]]],
    "huge list": [1e200] * 3,
    "tiny": [1e-200] * 3,
    "type": np.float64,
    "PathLike": Path("there") / "is" / "none.nc",
    "recursive": None,  # made below
}
MORE["recursive"] = []
MORE["recursive"].append(MORE["recursive"])
ALL = {**JUNK, **MORE}
FRESH = {"generator": lambda: iter([1]), "generator of floats": MORE["generator of floats"]}
HEAVY = {
    *("analysis.hamiltonise", "analysis.reduce", "mechanics.reduce", "analysis.continue_orbit", "control.mpc"),
    *("control.optimal_control", "control.tracking", "control.estimate", "diagnostics.modified_field"),
    *("diagnostics.predicted_drift", "diagnostics.exact_step", "diagnostics.exact_discrete_lagrangian"),
    *(
        "run.animate",
        "plotting.animate",
        "run.view",
        "viewer.view",
        "analysis.first_integrals",
        "geometry.growth_vector",
    ),
    *("analysis.periodic_orbit", "control.kalman_filter", "analysis.invariant_measure", "export.play", "system.check"),
}
"""Calls that take long, which are made less often."""


def sized(value: Any) -> bool:
    """True for what is made of numbers."""
    if isinstance(value, bool | str | bytes | dict) or value is None or callable(value):
        return False
    try:
        a = np.asarray(value)
    except Exception:
        return False
    return a.dtype.kind in "iuf"


def equal_ways(value: Any) -> dict[str, Any]:
    """The same numbers, in other containers, which must not change a result or be refused."""
    a = np.asarray(value)
    if a.ndim == 0:
        # counts are integers, of Python or NumPy
        return (
            {"NumPy scalar": a[()]} if a.dtype.kind in "iu" else {"0-d array": np.array(value), "NumPy scalar": a[()]}
        )
    wide = np.repeat(a, 2, axis=-1)[..., ::2]
    return {
        "list": a.tolist(),
        "tuple": tuple(a.tolist()),
        "Fortran": np.asfortranarray(a),
        "strided": wide,
        "reversed twice": a[::-1].copy()[::-1],
        "big-endian": a.astype(a.dtype.newbyteorder(">")),
        "read-only": frozen(a),
        "subclass": a.view(Own),
    }


def frozen(a: np.ndarray) -> np.ndarray:
    """A copy that cannot be written."""
    b = a.copy()
    b.flags.writeable = False
    return b


def mutations(value: Any) -> dict[str, Any]:
    """Numbers that are wrong, or odd, from right ones."""
    a = np.asarray(value)
    f = a.astype(float)
    out = {
        "all nan": np.full_like(f, np.nan),
        "float32": f.astype(np.float32),
        "complex": f + 0j,
        "complex with a part": f + 1j,
        "negative": -f,
        "1e200": np.full_like(f, 1e200),
        "1e-200": np.full_like(f, 1e-200),
        "one axis more": f[None],
        "objects": f.astype(object),
        "texts": f.astype(str),
        "bools": f.astype(bool),
        "masked": np.ma.masked_array(f, mask=np.ones(f.shape, bool)),
        "float16": f.astype(np.float16),
        "integers beyond": np.full(f.shape, 2**62),
        "Decimals": np.vectorize(decimal.Decimal, otypes=[object])(f),
    }
    if f.size and f.ndim:
        flat = f.ravel().copy()
        flat[0] = np.nan
        out["one nan"] = flat.reshape(f.shape)
        flat = flat.copy()
        flat[-1] = -np.inf
        out["one inf"] = flat.reshape(f.shape)
        out |= {
            "one entry less": f[..., :-1],
            "one entry more": np.concatenate([f, f[..., -1:]], axis=-1),
            "first only": f[:1],
            "empty": f[:0],
            "flat": f.ravel(),
            "transposed": f.T,
            "Series": pd.Series(list(f.ravel())),
            "generator": lambda: (x for x in f.tolist()),
            "set": set(f.ravel().tolist()),
            "dict": dict(enumerate(f.ravel().tolist())),
        }
    return out


def numbers(made: Any, depth: int = 0) -> list[np.ndarray]:
    """The arrays of a result."""
    if made is None or depth > 4 or isinstance(made, str | bytes | bool):
        return []
    if isinstance(made, int | float | complex | np.number):
        return [a] if (a := np.asarray(made)).dtype.kind in "iufc" else []
    if isinstance(made, np.ndarray | jax.Array):
        if isinstance(made, jax.core.Tracer):
            return []
        a = np.asarray(made)
        return [a] if a.dtype.kind in "iufc" else []
    if hasattr(made, "nodes") and hasattr(made, "xi"):
        with contextlib.suppress(Exception):
            return [np.asarray(made.g_vector), np.asarray(made.xi)]
    if isinstance(made, list | tuple):
        return [a for part in made for a in numbers(part, depth + 1)]
    if isinstance(made, dict):
        return [a for part in made.values() for a in numbers(part, depth + 1)]
    return []


def traced(made: Callable, value: Any, how: str) -> Any:
    """Call with a tracer in place of a value."""
    with gn_float64():
        a = jnp.asarray(np.asarray(value, float))
        if how == "jit":
            return jax.jit(lambda v: first_of(made(v)))(a)
        if how == "vmap":
            return jax.vmap(lambda v: first_of(made(v)))(jnp.stack([a, a]))
        return jax.jacfwd(lambda v: first_of(made(v)))(a)


def first_of(made: Any) -> Any:
    """What a transformed function may return."""
    if hasattr(made, "xi"):
        return made.xi
    leaves = [leaf for leaf in jax.tree.leaves(made) if isinstance(leaf, jax.Array | np.ndarray | float)]
    return leaves[0] if leaves else jnp.zeros(())


def gn_float64() -> Any:
    """Double precision."""
    import geonh as gn

    return gn.float64()


NAMES = list(CALLS)
CALLABLE = [name for name in NAMES if CALLS[name]]


@functools.cache
def right_result(name: str) -> list[np.ndarray] | None:
    """Numbers of the right call."""
    positional, given = right_call(name)
    try:
        with warnings.catch_warnings(), precision_of(name):
            warnings.simplefilter("ignore")
            return numbers(named(name)(*positional, **given))
    except Exception:
        return None
    finally:
        plt.close("all")


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """True for the same numbers, in whatever containers."""
    x, y = (np.concatenate([np.ravel(part) for part in parts] or [np.zeros(0)]) for parts in (a, b))
    return np.array_equal(x, y, equal_nan=True)


def ours(error: BaseException) -> bool:
    """True if geonh itself raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    frames = [f for f in frames if "_src/traceback_util" not in f.filename]
    last = frames[-1]
    return "/geonh/" in Path(last.filename).as_posix() and (last.line or "").startswith(
        ("raise", ")", 'f"', '"', "message")
    )


def case(seed: int) -> Iterator[str]:
    """Findings of one call."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(CALLABLE))
    while name in HEAVY and rng.random() < 0.85:
        name = str(rng.choice(CALLABLE))
    positional, given = right_call(name)
    arguments = [*(["*"] if positional else []), *given]
    chosen = list(rng.choice(arguments, size=min(len(arguments), 1 if rng.random() < 0.6 else 2), replace=False))
    labels, equal, trace = [], True, None
    for argument in map(str, chosen):
        right = positional[0] if argument == "*" else given[argument]
        kind = rng.random()
        if sized(right) and np.size(right) and kind < 0.6:
            if kind < 0.15:
                ways = equal_ways(right)
                label = str(rng.choice(list(ways)))
                junk, label = ways[label], f"same as {label}"
            elif kind < 0.22 and len(chosen) == 1:
                trace, junk, label = str(rng.choice(["jit", "vmap", "jacfwd"])), right, "tracer"
            else:
                ways, equal = mutations(right), False
                label = str(rng.choice(list(ways)))
                junk = ways[label]
                junk = junk() if callable(junk) else junk
        else:
            label, equal = str(rng.choice(list(ALL))), False
            junk = FRESH[label]() if label in FRESH else ALL[label]
            if label in LEFT_OUT.get((name, argument), ()) or (argument == "progress" and callable(junk)):
                return
        labels.append(f"{argument}={label}")
        if argument == "*":
            positional = [junk]
        else:
            given[argument] = junk
    yield from outcome(name, positional, given, labels, equal, trace, str(chosen[0]))


def outcome(
    name: str, positional: list, given: dict, labels: list[str], equal: bool, trace: str | None, first: str
) -> Iterator[str]:
    """What is wrong with the answer."""
    words = f"{name}({', '.join(labels)}{', ' + trace if trace else ''})"
    before = right_result(name) if equal and not trace else None
    result, seen, error = None, [], None

    def call(value: Any = None) -> Any:
        if not trace:
            return named(name)(*positional, **given)
        if first == "*":
            return named(name)(value, **given)
        return named(name)(*positional, **{**given, first: value})

    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings(record=True) as seen, precision_of(name):
            warnings.simplefilter("always")
            value = (positional[0] if first == "*" else given[first]) if trace else None
            result = traced(call, value, trace) if trace else call()
    except Slow:
        yield f"hangs: {words}"
        return
    except (ValueError, TypeError, RuntimeError, MemoryError, NotImplementedError) as raised:
        error = raised
    except OSError:
        yield "~OSError"
        return
    except Exception as raised:
        last = traceback.extract_tb(raised.__traceback__)[-1]
        yield f"{type(raised).__name__}: {str(raised)[:200]} ({Path(last.filename).name}:{last.lineno}) {words}"
        return
    finally:
        signal.alarm(0)
        plt.close("all")
    lines = {}
    for w in seen:
        if w.category in (
            RuntimeWarning,
            DeprecationWarning,
            FutureWarning,
            np.exceptions.ComplexWarning,
        ) or INTERNAL.search(str(w.message)):
            text = f"warning {w.category.__name__}: {str(w.message)[:150]} ({Path(w.filename).name}:{w.lineno})"
            if "is treated as a leaf in PyTree" in text:
                lines["~"] = "~warning of JAX: a generator is treated as a leaf"
                continue
            lines[text] = f"{text} {words}"
    yield from lines.values()
    if error is None:
        yield "~accepted"
        if equal and not trace and before is not None and not same(before, numbers(result)):
            yield f"other numbers than of the right call: {words}"
        if not equal and not all(np.isfinite(a).all() for a in numbers(result)):
            if name.startswith("drawing."):  # a pose that is not finite is not drawn
                yield "~accepted by drawing, not finite"
            else:
                yield f"accepted, not finite: {words}"
        return
    if equal and not trace:
        yield f"refused what is right: {type(error).__name__}: {str(error)[:200]} {words}"
        return
    text = str(error)
    if not ours(error):
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        where = f"{Path(last.filename).name}:{last.lineno} {last.line}"
        yield f"not ours: {type(error).__name__}: {' '.join(text[:200].split())} ({where}) {words}"
    elif INTERNAL.search(text):
        yield f"of internals: {type(error).__name__}: {text[:250]} {words}"
    elif (
        isinstance(error, ValueError | TypeError)
        and not names_an_argument(name, text)
        and " does not exist" not in text
    ):
        yield f"does not name it: {type(error).__name__}: {text[:200]} {words}"
    else:
        yield "~refused"


def late(*_: Any) -> None:
    """Of the alarm."""
    raise Slow


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, late)
    os.chdir(tempfile.mkdtemp())
    hunt(case, __doc__)

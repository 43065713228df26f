r"""``from_sympy``: convert a mechanical model of ``sympy.physics.mechanics`` to a ``System``.

On coordinates q in Rⁿ or Tⁿ the velocity is ξ = q̇. A Lagrangian is taken as it is, and so are constraints φ(q) = 0.
Kane's equations have speeds u with q̇ = Ku + k, so u = S(q̇ − k), S = K⁻¹; of the model without its constraints SymPy
gives Mᵤ and f in Mᵤu̇ = f, and with the same virtual power

    metric M = SᵀMᵤS,   F = Sᵀ(f − Mᵤu̇₀) + D_q(Mq̇)q̇ − ½∂_q(q̇ᵀMq̇),   u̇₀ = D_q(S(q̇ − k))q̇,

where F are the loads, and the difference of Kane's from Lagrange's equations if the bodies' velocities are not the
derivatives of their positions (a disc whose contact point is not a coordinate). The velocity constraints become forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import TimeDependent, time_dependent
from geonh.groups import LieGroup, Product, Torus, Translations
from geonh.interop.expressions import (
    Equations,
    Symbols,
    from_kane,
    from_lagrange,
    from_lagrangian,
    kinematics,
    listed,
)
from geonh.mechanics.system import System


@validated
def from_sympy(
    model: Any,
    coordinates: Sequence | None = None,
    *,
    parameters: Mapping[Any, Any] | None = None,
    constraints: Iterable = (),
    forces: Any = None,
    potential: Any = None,
    controls: Sequence = (),
    angles: Sequence = (),
    name: str = "sympy",
) -> System:
    """Convert a model of SymPy to a ``System``, with ξ = q̇.

    Parameters
    ----------
    model : expression, LagrangesMethod, KanesMethod or sympy.physics.mechanics.System
        A Lagrangian L(q, q̇) in ``dynamicsymbols``, or a model with its bodies, loads and velocity constraints. A
        KanesMethod need not have formed its equations; it must contain its bodies and loads.
    coordinates : sequence of dynamicsymbols, optional
        q, for a Lagrangian; a model has its own.
    parameters : mapping of Symbol or str to number
        Values of all constants of the model. They are the system's parameters, by name.
    constraints : iterable of expressions, optional
        Constraints of a Lagrangian: a(q)·q̇ − b(q) = 0, or without velocities φ(q) = 0. All may depend on the time.
    forces : mapping of coordinate to expression, or sequence of expressions, optional
        Generalised forces Q(t, q, q̇, controls) of a Lagrangian.
    potential : expression, optional
        For Kane's model: V(q) whose forces −∂V/∂q are among the loads. It enters the energy; the other loads remain
        forces. Without it the energy is the kinetic one alone.
    controls : sequence of dynamicsymbols, optional
        Functions of time in the forces that the user supplies: u in ``solve(..., controls=...)``, in this order.
    angles : sequence of dynamicsymbols or str, optional
        Coordinates that are angles, on tori. The others are Rⁿ.
    name : str
        Name of the system.

    Returns
    -------
    System
        Its coordinates are named as those of the model, in the same order; the base are those that the equations depend
        on. Initial velocities of a KanesMethod come from ``velocity_of``.

    Raises
    ------
    ImportError
        If SymPy is not installed.
    TypeError
        For a model of another kind, or arguments that do not apply to it.
    ValueError
        For unsupported models: auxiliary speeds, a Lagrangian or constraint that depends on controls,
        constraints not linear in q̇, symbols without a value.

    Notes
    -----
    Source of Kane's equations: Kane, Levinson, *Dynamics: Theory and Applications* (1985), ch. 6.
    """
    kind = _kind(model)
    if kind == "expression":
        if coordinates is None:
            raise TypeError("coordinates= is needed with a Lagrangian: the dynamicsymbols q(t), in order")
        equations = from_lagrangian(model, coordinates, constraints, forces)
    else:
        if coordinates is not None or listed("constraints", constraints) or forces is not None:
            raise TypeError(f"coordinates=, constraints= and forces= go with a Lagrangian; a {kind} has its own")
        equations = from_kane(model, potential) if kind == "KanesMethod" else from_lagrange(model)
    if potential is not None and kind != "KanesMethod":
        raise TypeError("potential= goes with a KanesMethod; a Lagrangian contains its own")
    return _system(equations, parameters or {}, listed("controls", controls), listed("angles", angles), name)


@validated
def velocity_of(model: Any, system: System, q: Any, u: Any) -> np.ndarray:
    """Velocity ξ = q̇ from the speeds of a KanesMethod.

    Parameters
    ----------
    model : KanesMethod
        The model from which the system was converted.
    system : System
        With its parameters.
    q : array_like, shape=[..., n]
        Coordinates, in the order of ``model.q``.
    u : array_like, shape=[..., n]
        All speeds, independent and dependent ones, in the order of ``model.u``.

    Returns
    -------
    ndarray, shape=[..., n]
        ξ, which satisfies the constraints if u does.

    Raises
    ------
    TypeError
        If the model is not a KanesMethod, or an argument is of another type.
    ValueError
        If a shape does not fit.
    """
    K, k = _kinematics(model, system, q)
    return np.einsum("...ij,...j->...i", K, _row_each(u, "u", k)) + k


@validated
def speeds_of(model: Any, system: System, q: Any, xi: Any) -> np.ndarray:
    """Speeds of a KanesMethod from ξ = q̇; the inverse of ``velocity_of``.

    Parameters
    ----------
    model : KanesMethod
        The model from which the system was converted.
    system : System
        With its parameters.
    q, xi : array_like, shape=[..., n]
        Coordinates in the order of ``model.q``, and their rates.

    Returns
    -------
    ndarray, shape=[..., n]
        u, in the order of ``model.u``.

    Raises
    ------
    TypeError, ValueError
        As for ``velocity_of``.
    """
    K, k = _kinematics(model, system, q)
    return np.linalg.solve(K, (_row_each(xi, "xi", k) - k)[..., None])[..., 0]


def _row_each(values: Any, name: str, k: np.ndarray) -> np.ndarray:
    rows = as_float64(values, name)
    if rows.shape[-1:] != k.shape[-1:]:
        raise ValueError(f"{name} must be of shape [..., {k.shape[-1]}], got {list(rows.shape)}")
    return rows


def _kinematics(model: Any, system: System, q: Any) -> tuple[np.ndarray, np.ndarray]:
    if _kind(model) != "KanesMethod":
        raise TypeError(f"speeds that are not q̇ are those of a KanesMethod, got a {_kind(model)}")
    import sympy

    symbols = Symbols(list(model.q))
    K, k = kinematics(model, symbols)
    named = {p: str(p) for p in (K.free_symbols | k.free_symbols) - set(symbols.q)}
    function = sympy.lambdify([symbols.q, *named], [*K, *k], "numpy", cse=True)
    q = as_float64(q, "q")
    n = len(symbols.q)
    if q.shape[-1:] != (n,):
        raise ValueError(f"q must be of shape [..., {n}], got {list(q.shape)}")
    values = function(np.moveaxis(q, -1, 0), *[float(system.parameters[p]) for p in named.values()])
    flat = np.stack([np.broadcast_to(v, q.shape[:-1]) for v in values], axis=-1)
    return flat[..., : n * n].reshape(*q.shape[:-1], n, n), flat[..., n * n :]


def _kind(model: Any) -> str:
    """Class name of a model of SymPy, a ``System`` counting as its method; "expression" for an expression."""
    try:
        import sympy
        from sympy.physics import mechanics
    except ImportError as error:
        raise ImportError("from_sympy needs SymPy: pip install 'geonh[sympy]'") from error
    for kind in (mechanics.KanesMethod, mechanics.LagrangesMethod):
        if isinstance(model, kind):
            return kind.__name__
    if isinstance(model, sympy.Expr):
        return "expression"
    hint = "; of a System take its eom_method after form_eoms()" if type(model).__name__ == "System" else ""
    raise TypeError(
        f"model must be a Lagrangian in dynamicsymbols, a LagrangesMethod or a KanesMethod, got {type(model).__name__}"
        + hint
    )


def _system(equations: Equations, parameters: Mapping, controls: list, angles: Sequence, name: str) -> System:
    """System of equations in plain symbols, with functions of ``jax.numpy``."""
    import sympy

    symbols, inputs = equations.symbols, [sympy.Dummy(str(c)) for c in controls]
    for c in controls:
        if getattr(c, "args", ()) != (symbols.time,):
            raise TypeError(f"controls must be dynamicsymbols such as F(t), got {shortly(c)}")
    idle = [c for i, c in enumerate(controls) if c in controls[:i] or not equations.forces.has(c)]
    if idle:
        raise ValueError(f"controls: {idle[0]} is named twice, or forces do not contain it")
    forces = equations.forces.xreplace(dict(zip(controls, inputs, strict=True)))
    rows = sympy.Matrix([*equations.holonomic, *equations.forms, *equations.right])
    for what, expression in (("Lagrangian", equations.lagrangian), ("constraints", rows)):
        _refuse_functions(what, expression, "; only forces may contain controls")
    _refuse_functions("forces", forces, ": name what is given in controls=")
    free = equations.lagrangian.free_symbols | rows.free_symbols | forces.free_symbols

    constants = _values(free - {symbols.t, *symbols.q, *symbols.v, *inputs}, parameters)
    names = [str(q).removesuffix(f"({symbols.time})") for q in symbols.coordinates]
    base = [i for i, q in enumerate(symbols.q) if q in free]
    x, p = [symbols.q[i] for i in base], list(constants)
    labels = [str(c) for c in p]

    def function(expression: Any, *before: Any) -> Callable:
        try:
            return sympy.lambdify([*before, x, p], expression, "jax", cse=True)
        except NotImplementedError as error:
            raise ValueError(f"SymPy cannot write this for JAX: {expression}; {str(error).splitlines()[0]}") from error

    def field(expression: Any) -> Any:
        expression = sympy.Matrix(expression) if isinstance(expression, list) else expression
        if symbols.t not in expression.free_symbols:
            compiled = function(expression)
            return lambda x, parameters: jnp.asarray(compiled(x, [parameters[n] for n in labels]))
        timed = function(expression, symbols.t)
        return time_dependent(lambda t, x, parameters: jnp.asarray(timed(t, x, [parameters[n] for n in labels])))

    options: dict[str, Any] = {}
    if equations.metric is None:
        lagrangian_of, timed = (
            function(equations.lagrangian, symbols.t, symbols.v),
            symbols.t in equations.lagrangian.free_symbols,
        )

        def lagrangian(t: Any, x: Any, xi: Any, parameters: Any) -> Any:
            return lagrangian_of(t, xi, x, [parameters[n] for n in labels])

        options["lagrangian"] = (
            time_dependent(lagrangian) if timed else lambda x, xi, parameters: lagrangian(0.0, x, xi, parameters)
        )
    else:
        options["metric"] = field(equations.metric)
        if not equations.potential.is_zero:
            options["potential"] = field(equations.potential)
    if len(equations.holonomic):
        options["holonomic"] = _column(field(equations.holonomic))
    if len(equations.right):
        forms = field(equations.forms)
        affine = any(not b.is_zero for b in equations.right)
        right = _column(field(equations.right)) if affine else None
        options["distribution"] = AffineDistribution(forms, right) if affine else Distribution(forms)
    if any(not f.is_zero for f in forces):
        loads = function(list(forces), symbols.t, symbols.v, inputs)

        def applied(t: Any, x: Any, xi: Any, u: Any, parameters: Any) -> Any:
            values = [] if not inputs else list(jnp.atleast_1d(u) if hasattr(u, "ndim") else u)
            if len(values) != len(inputs):
                raise ValueError(f"controls have {len(values)} entries, the model has {len(inputs)}: {controls}")
            return loads(t, xi, values, x, [parameters[n] for n in labels])

        options["forces"] = applied
    return System(
        _space(names, [str(a).removesuffix(f"({symbols.time})") for a in angles]),
        parameters=dict(zip(labels, constants.values(), strict=True)),
        base=[names[i] for i in base] or "point",
        name=name,
        **options,
    )


def _column(field: Any) -> Any:
    """Wrap a function that returns a column into one that returns a vector."""
    if isinstance(field, TimeDependent):
        return time_dependent(lambda t, x, parameters: jnp.ravel(field.function(t, x, parameters)))
    return lambda x, parameters: jnp.ravel(field(x, parameters))


def _refuse_functions(what: str, expression: Any, why: str) -> None:
    """Raise ValueError for functions of time that are neither coordinates nor speeds."""
    from sympy.core.function import AppliedUndef

    unknown = sorted(map(str, expression.atoms(AppliedUndef)))
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)} depend on time and are no coordinates{why}")


def _values(constants: set, parameters: Mapping) -> dict:
    """Map each constant of the model to its value."""
    for what, keys in (("the equations contain", constants), ("parameters has", parameters)):
        names = list(map(str, keys))
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"{what} {twice[0]!r} twice: symbols of one name that SymPy tells apart; rename one")
    named = {str(c): c for c in sorted(constants, key=str)}
    given = {str(key): value for key, value in parameters.items()}
    missing, unknown = [n for n in named if n not in given], [n for n in given if n not in named]
    if missing:
        raise ValueError(f"parameters: no value for {', '.join(missing)}; the equations contain {', '.join(named)}")
    if unknown:
        raise ValueError(
            f"parameters: the equations do not contain {', '.join(unknown)}, but {', '.join(named) or 'none'}"
        )
    return {c: as_float64(given[n], f"parameters[{n}]", ()) for n, c in named.items()}


def _space(names: list[str], angles: list[str]) -> LieGroup:
    """Configuration space: Rⁿ, Tⁿ or their product in the order of the coordinates."""
    unknown = [a for a in angles if a not in names]
    if unknown:
        raise ValueError(f"angles: {unknown} are not among the coordinates {names}")
    runs: list[tuple[bool, list[str]]] = []
    for name in names:
        turns = name in angles
        if not runs or runs[-1][0] != turns:
            runs.append((turns, []))
        runs[-1][1].append(name)
    factors = [(Torus if turns else Translations)(len(part), tuple(part)) for turns, part in runs]
    return factors[0] if len(factors) == 1 else Product(tuple(factors))

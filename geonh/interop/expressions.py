"""Equations of a model of SymPy in plain symbols for q, q̇ and t, for ``from_sympy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from geonh.arguments.validators import entries, shortly

DIGITS = 150
ZERO = 1e-100
"""Magnitude at random points, at this many digits, below which an expression counts as zero."""


def listed(name: str, value: Any) -> list:
    """List of expressions from the user's input, or TypeError: text is rejected, for SymPy would evaluate it."""
    import sympy

    single = isinstance(value, Mapping | sympy.Expr | sympy.logic.boolalg.Boolean)
    found = None if single else entries(value)
    if found is None:
        raise TypeError(f"{name} must be a list, got {shortly(value)}")
    return found


def _expressions(name: str, value: Any) -> list:
    """List of expressions, equations as their difference, or TypeError."""
    import sympy

    expressions = []
    for entry in listed(name, value):
        entry = entry.lhs - entry.rhs if isinstance(entry, sympy.Equality) else entry
        if not isinstance(entry, sympy.Expr | int | float) or isinstance(entry, bool):
            raise TypeError(f"{name} must be expressions of SymPy, got {shortly(entry)}")
        expressions.append(sympy.sympify(entry))
    return expressions


class Symbols:
    """Plain symbols for coordinates and velocities: ``q``, ``v`` and ``t`` for q(t), q̇(t) and the time."""

    def __init__(self, coordinates: Sequence) -> None:
        import sympy
        from sympy.physics.vector import dynamicsymbols

        self.coordinates, self.time = listed("coordinates", coordinates), dynamicsymbols._t
        for q in self.coordinates:
            if not isinstance(q, sympy.Expr) or q.args != (self.time,):
                raise TypeError(f"coordinates must be dynamicsymbols such as q(t), got {shortly(q)}")
        if not self.coordinates or len(set(self.coordinates)) < len(self.coordinates):
            raise ValueError(f"coordinates must be different ones, at least one, got {self.coordinates}")
        self.t = sympy.Dummy("t", real=True)
        self.q = [sympy.Dummy(q.func.__name__, real=True) for q in self.coordinates]
        self.v = [sympy.Dummy(f"{q.func.__name__}_dot", real=True) for q in self.coordinates]

    def plain(self, expression: Any) -> Any:
        """Replace q(t), q̇(t) and t in an expression or matrix; it must not contain q̈."""
        from sympy import Derivative

        rates = {q.diff(self.time): v for q, v in zip(self.coordinates, self.v, strict=True)}
        plain = expression.xreplace(rates).xreplace(dict(zip(self.coordinates, self.q, strict=True)))
        if plain.atoms(Derivative):
            left = ", ".join(sorted(map(str, plain.atoms(Derivative))))
            raise ValueError(f"the model contains the derivatives {left}, which are no velocities of its coordinates")
        return _without_time(plain, self.time, self.t)


class Equations(NamedTuple):
    """ℓ(q, q̇), with M and V where it is ½q̇ᵀMq̇ − V (else None); forces; φ; forms μ and b in μq̇ = b. In plain symbols."""

    symbols: Symbols
    lagrangian: Any
    metric: Any
    potential: Any
    forces: Any
    holonomic: Any
    forms: Any
    right: Any


def from_lagrangian(lagrangian: Any, coordinates: Sequence, constraints: Iterable, forces: Any) -> Equations:
    """Equations of a Lagrangian, generalised forces and velocity constraints."""
    import sympy

    symbols = Symbols(coordinates)
    n = len(symbols.q)
    if isinstance(forces, Mapping):
        unknown = [str(key) for key in forces if key not in symbols.coordinates]
        if unknown:
            raise ValueError(f"forces: {', '.join(unknown)} are not among the coordinates {symbols.coordinates}")
        forces = [forces.get(q, 0) for q in symbols.coordinates]
    loads = sympy.zeros(n, 1) if forces is None else sympy.Matrix(_expressions("forces", forces))
    if loads.shape != (n, 1):
        raise ValueError(f"forces must be {n} expressions, one for each coordinate, got {len(loads)}")
    rows = sympy.Matrix(_expressions("constraints", constraints))
    return _with_metric(
        symbols, symbols.plain(lagrangian), symbols.plain(loads), _split_rows(symbols, symbols.plain(rows))
    )


def from_lagrange(model: Any) -> Equations:
    """Equations of a LagrangesMethod."""
    frame, rates = model.inertial, list(model.u)
    loads = _loads(model)
    forces = [sum(place.diff(rate, frame, var_in_dcm=False).dot(load) for place, load in loads) for rate in rates]
    velocity = list(model.coneqs)[len(model._hol_coneqs) :]  # after the derivatives of the configuration constraints
    return from_lagrangian(model._L[0], list(model.q), [*model._hol_coneqs, *velocity], forces)


def from_kane(model: Any, potential: Any) -> Equations:
    """Equations of a KanesMethod with q̇ in place of its speeds."""
    import sympy
    from sympy.physics.mechanics import KanesMethod

    if len(model._uaux):
        raise ValueError(
            f"the auxiliary speeds {list(model._uaux)} have no motion: leave them out; traj.multipliers gives forces"
        )
    if not model.bodies:
        raise ValueError(
            "the KanesMethod has no bodies: pass bodies= and forcelist= to it, or call kanes_equations first"
        )
    symbols, q, u = Symbols(list(model.q)), list(model.q), list(model.u)
    if len(u) != len(q):
        raise ValueError(f"the model has {len(q)} coordinates and {len(u)} speeds: give a speed for each coordinate")
    kinematic = [rate - value for rate, value in model.kindiffdict().items()]
    free = KanesMethod(model._inertial, q_ind=q, u_ind=u, kd_eqs=kinematic)
    free.kanes_equations(model.bodies, model.loads or None)

    K, k = kinematics(model, symbols)
    S, v = K.inv(), sympy.Matrix(symbols.v)
    speeds = S * (v - k)
    rates = {q.diff(symbols.time): value for q, value in model.kindiffdict().items()}

    def in_velocities(expression: Any) -> Any:
        return symbols.plain(expression.xreplace(rates)).xreplace(dict(zip(u, speeds, strict=True)))

    mass, forcing = in_velocities(free.mass_matrix), in_velocities(free.forcing)
    metric = S.T * mass * S
    forces = S.T * (forcing - mass * (speeds.jacobian(symbols.q) * v))
    forces += (metric * v).jacobian(symbols.q) * v - (v.T * metric * v).jacobian(symbols.q).T / 2
    V = symbols.plain(sympy.sympify(potential or 0))
    forces += sympy.Matrix([V]).jacobian(symbols.q).T
    velocity = model._k_nh * sympy.Matrix(u) + model._f_nh if len(model._f_nh) else []
    rows = _split_rows(symbols, in_velocities(sympy.Matrix([*model._f_h, *velocity])))
    lagrangian = (v.T * metric * v)[0] / 2 - V
    return Equations(symbols, lagrangian, metric, V, _nonzero(forces), *rows)


def kinematics(model: Any, symbols: Symbols) -> tuple[Any, Any]:
    """Matrices K and k of q̇ = K(q)u + k(q) of a KanesMethod."""
    import sympy

    rates, u = model.kindiffdict(), list(model.u)
    right = sympy.Matrix([rates[q.diff(symbols.time)] for q in symbols.coordinates])
    K, minus = sympy.linear_eq_to_matrix(list(right), u)
    return symbols.plain(K), symbols.plain(-minus)


def _with_metric(symbols: Symbols, lagrangian: Any, forces: Any, constraints: tuple) -> Equations:
    """Equations with M and V, if the Lagrangian is ½q̇ᵀMq̇ − V."""
    import sympy

    rest, v = dict.fromkeys(symbols.v, sympy.S.Zero), sympy.Matrix(symbols.v)
    metric, potential = sympy.hessian(lagrangian, symbols.v).xreplace(rest), -lagrangian.xreplace(rest)
    gyroscopic = lagrangian - (v.T * metric * v)[0] / 2 + potential
    metric = metric if vanishes(gyroscopic) else None
    return Equations(symbols, lagrangian, metric, potential, _nonzero(forces), *constraints)


def _split_rows(symbols: Symbols, rows: Any) -> tuple[Any, Any, Any]:
    """Split into φ of constraints without velocities, and μ, b of those μ(q)q̇ − b(q) = 0 not implied by φ = 0."""
    import sympy

    n, rest = len(symbols.v), dict.fromkeys(symbols.v, sympy.S.Zero)
    velocity = []
    holonomic = sympy.zeros(0, 1)
    for i, row in enumerate(rows):
        slopes = sympy.Matrix([row]).jacobian(symbols.v)
        if not vanishes(sympy.hessian(row, symbols.v)):
            raise ValueError(f"constraint {i + 1} is not linear in the velocities: {row} = 0")
        if all(vanishes(entry) for entry in slopes):
            holonomic = holonomic.col_join(sympy.Matrix([row.xreplace(rest)]))
        else:
            velocity.append((slopes, -row.xreplace(rest)))
    of_holonomic = holonomic.jacobian(symbols.q) if len(holonomic) else sympy.zeros(0, n)
    forms, right = sympy.zeros(0, n), sympy.zeros(0, 1)
    for slopes, value in velocity:
        if not len(holonomic) or _rank(of_holonomic.col_join(forms).col_join(slopes)) > len(holonomic) + len(right):
            forms, right = forms.col_join(slopes), right.col_join(sympy.Matrix([value]))
    return holonomic, forms, _nonzero(right)


def _rank(rows: Any) -> int:
    """Rank of a matrix at a generic point."""
    import mpmath
    import sympy

    symbols = list(rows.free_symbols)
    with mpmath.workdps(DIGITS):
        at = [mpmath.frac(mpmath.sqrt(2 + 3 * i)) + 0.2 for i in range(len(symbols))]
        values = mpmath.svd_r(sympy.lambdify([symbols], rows, "mpmath")(at), compute_uv=False)
        return sum(1 for value in values if value > ZERO * values[0])


def vanishes(expression: Any) -> bool:
    """True if an expression or matrix vanishes identically, tested at generic points with many digits.

    Non-analytic functions (a maximum, a sign) may vanish there and not elsewhere: they count as independent symbols.
    """
    import mpmath
    import sympy
    from sympy.core.function import AppliedUndef

    entries = [e for e in sympy.flatten([expression]) if not e.is_zero]
    kinked: tuple = (sympy.Piecewise, sympy.Max, sympy.Min, sympy.Abs, sympy.sign, sympy.Heaviside, sympy.DiracDelta)
    kinked += (sympy.floor, sympy.ceiling, sympy.frac, sympy.Mod, sympy.re, sympy.im, sympy.arg, sympy.conjugate)
    functions = set().union(*(e.atoms(AppliedUndef, *kinked) for e in entries))
    dummies = {f: sympy.Dummy() for f in functions}
    entries = [e.xreplace(dummies) for e in entries]
    symbols = list(set().union(*(e.free_symbols for e in entries)))
    function = sympy.lambdify([symbols], entries, "mpmath", cse=True)
    with mpmath.workdps(DIGITS):
        for seed, scale in enumerate((1, -3, 8)):  # of variables; constants are positive
            scales = [scale if isinstance(s, sympy.Dummy) else 1 for s in symbols]
            roots = [mpmath.sqrt(2 + 3 * i + len(symbols) * seed) for i in range(len(symbols))]
            at = [factor * (mpmath.frac(root) + 0.2) for factor, root in zip(scales, roots, strict=True)]
            if not all(abs(value) < ZERO for value in function(at)):
                return False
    return True


def _nonzero(column: Any) -> Any:
    """Column with entries that vanish identically replaced by zero."""
    import sympy

    return sympy.Matrix([sympy.S.Zero if vanishes(entry) else entry for entry in column])


def _loads(model: Any) -> list[tuple[Any, Any]]:
    """(velocity, force) and (angular velocity, torque) of each load of a model."""
    from sympy.physics.mechanics import Force, ReferenceFrame, Torque

    loads, frame = [], model.inertial
    for load in model.loads or []:
        place, vector = (load.location, load.vector) if isinstance(load, Force | Torque) else load
        loads.append((place.ang_vel_in(frame) if isinstance(place, ReferenceFrame) else place.vel(frame), vector))
    return loads


def _without_time(expression: Any, time: Any, plain: Any) -> Any:
    """Replace the time where it stands alone, not in f(t)."""
    import sympy
    from sympy.core.function import AppliedUndef

    dummies = {f: sympy.Dummy() for f in expression.atoms(AppliedUndef)}
    back = {dummy: f for f, dummy in dummies.items()}
    return expression.xreplace(dummies).xreplace({time: plain}).xreplace(back)

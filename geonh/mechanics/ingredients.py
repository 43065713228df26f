"""Validation of the ingredients of a ``System``: shapes, indices and numbers of rows, from a trace of each function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64
from geonh.arguments.validators import one_of
from geonh.engine import forward_only, in_numpy, is_affine
from geonh.geometry.field import Moment, check_arguments, evaluated
from geonh.geometry.velocity_constraints import VelocityConstraints
from geonh.groups.base import LieGroup
from geonh.mechanics.redundancy import UNDETERMINED

LONGEST = 80
"""Maximum number of bytes of the name of a first integral."""


def check_ingredients(system: Any) -> list[str]:
    """Evaluate every ingredient once at the identity, abstractly, and raise an error for a wrong shape; the names of
    those that read at a data-dependent index.
    """
    n = system.group.dim
    x = jax.eval_shape(lambda: system.at(system.group.identity(), 0.0))
    vector = jax.ShapeDtypeStruct((n,), np.float64)
    by_data: list[str] = []

    def expect(name: str, function: Callable, args: tuple, *shapes: tuple[int | None, ...]) -> Any:
        with float64(), forward_only():  # the traces of users' functions are reused by compiled programs
            try:
                closed = jax.make_jaxpr(function)(*args)
            except (TypeError, ValueError) as error:
                absent = "; with base='point' x is ()" if x == () else ""
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{error}{absent}") from error.__cause__
        by_data.extend([name] if inspected(name, closed) else [])
        got = closed.out_avals[0].shape
        if not any(len(got) == len(s) and all(b in (None, a) for a, b in zip(got, s, strict=True)) for s in shapes):
            wanted = " or ".join(str(["k" if b is None else b for b in s]).replace("'", "") for s in shapes)
            rows = "; one row each: [[…], …]" if shapes[0] == (None, n) else ""
            raise ValueError(
                f"{name} must give shape {wanted} on {system.group} (dimension {n}), got {list(got)}{rows}"
            )
        return got

    with float64():
        x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, np.float64), x)
    if system.metric is not None:
        metric, potential = system.metric, system.potential
        expect("metric", lambda x: metric.field(x, system.parameters), (x,), (n, n), (n,))
        if potential is not None:
            expect("potential", lambda x: potential(x, system.parameters), (x,), ())
    else:
        expect("lagrangian", system.lagrangian, (x, vector), ())
    if system.hessian is not None:
        hessian = system.hessian
        expect("metric", lambda x: hessian.field(x, system.parameters), (x,), (n, n), (n,))
    k = 0
    if system.holonomic is not None:
        k = expect("holonomic", system.holonomic_residual, (x,), (None,))[0]
        independent = k if system.rank is None else system.rank.positions
        if independent >= n or k == 0:
            raise ValueError(
                f"holonomic has {independent} entries on a group of dimension {n}; at least 1, at most {n - 1}"
                + ("" if system.rank is not None else "; of redundant ones, rank= says how many are independent")
            )
        _check_rank(system, "holonomic", independent, k)
        k = independent
    if system.distribution is not None:
        _check_distribution(system, expect, x, n, k)
    _check_multiplier_forces(system, x, vector)
    check_integrals(system)
    return by_data


def _check_distribution(system: Any, expect: Callable, x: Any, n: int, k: int) -> None:
    D = system.distribution
    assert D is not None
    if isinstance(D, VelocityConstraints):
        _check_velocity_constraints(system, D, expect, x, n, k)
        return
    name = "forms" if D.forms is not None else "frame"
    m = expect(name, lambda x: D.degeneracy_rows(x, system.parameters), (x,), (None, n))[0]
    independent = m if system.rank is None else system.rank.forms
    most = n if name == "forms" else n - 1  # with as many forms the motion is prescribed, and λ are the forces for it
    if independent + k > most or m == 0:
        left = (
            f"at most {n} are independent; of redundant ones, rank= says how many are"
            if name == "forms" and m
            else "leave out a distribution of everything"
        )
        beside = f" beside {k} holonomic constraint(s)" if k else ""
        raise ValueError(f"{name} has {independent} rows{beside} on a group of dimension {n}; {left}")
    _check_rank(system, name, independent, m)
    if getattr(D, "rhs", None) is not None:
        expect("rhs", lambda x: D.rhs(x, system.parameters), (x,), (m,))  # type: ignore[attr-defined]
    if getattr(D, "drift", None) is not None:
        expect("drift", lambda x: D.drift(x, system.parameters), (x,), (n,))  # type: ignore[attr-defined]


def _check_velocity_constraints(system: Any, D: VelocityConstraints, expect: Callable, x: Any, n: int, k: int) -> None:
    v = jax.ShapeDtypeStruct((n,), np.float64)
    if system.rank is not None:
        raise ValueError("rank= is for linear and affine constraints; leave redundant ones of velocity= out")
    m = expect("velocity", lambda x, xi: D.residual(xi, x, system.parameters), (x, v), (None,))[0]
    if m + k >= n or m == 0:
        beside = f" beside {k} holonomic constraint(s)" if k else ""
        raise ValueError(f"velocity has {m} entries{beside} on a group of dimension {n}; leave at least one to move")


def _check_rank(system: Any, name: str, independent: int, given: int) -> None:
    if independent > given:
        raise ValueError(f"rank says that {independent} rows of {name} are independent; it has {given}")


def _check_multiplier_forces(system: Any, x: Any, xi: Any) -> None:
    """Raise ValueError for forces of multipliers that do not exist, are not determined, or not linear in them."""
    if system.multiplier_forces is None:
        return
    forces = system.multiplier_forces
    if not system.is_constrained and not (forces.loads and all(forces.loads)):
        raise ValueError("multiplier_forces depend on the multipliers of constraints, and there are none")
    if system.rank is not None:
        raise ValueError(f"rank= says that constraints are redundant: {UNDETERMINED}")
    with float64():
        lam = jax.eval_shape(system.constraint_residual, x, xi)
        t, at = jax.ShapeDtypeStruct((), np.float64), x.x if isinstance(x, Moment) else x

        def value(lam: Any, t: Any, at: Any, xi: Any) -> Any:
            return forces.value(t, at, xi, lam, system.parameters)

        inspected("multiplier_forces", jax.make_jaxpr(value)(lam, t, at, xi))
        jax.eval_shape(lambda t, at, xi: forces.loaded(t, at, xi, system.parameters), t, at, xi)
        some = system.action.at(system.group.identity()), np.linspace(0.5, 1.0, system.group.dim)
        without = in_numpy(value, np.zeros(lam.shape), np.zeros(()), *some)(np.zeros(lam.shape), np.zeros(()), *some)
        if not is_affine(value, lam, t, at, xi) or np.any(np.nan_to_num(without)):
            raise ValueError(
                "multiplier_forces must be linear in lam; other forces go into forces=, and for one that depends "
                "on |lam|, as friction of a two-sided contact does, take a system for each sign"
            )


def check_integrals(system: Any) -> None:
    """Raise for a first integral that is invalid, of other coordinates, or cannot be evaluated at the identity."""
    vector = jax.ShapeDtypeStruct((system.group.dim,), np.float64)
    for key, integral in system.first_integrals.items():
        name = f"first integral {key!r}"
        if len(key.encode(errors="replace")) > LONGEST:  # it becomes the name of a variable in a file
            raise ValueError(f"the name of a first integral has more than {LONGEST} bytes: {key[:40]!r}…")
        one_of(integral.momentum, f"momentum of {name}", ("average", "minus"))
        check_arguments(integral.function, "g, xi, p, parameters", f"the function of {name}")
        group = getattr(integral.function, "group", system.group)
        if isinstance(group, LieGroup) and _coordinates(group) != _coordinates(system.group):
            raise ValueError(
                f"{name} is one of a system on {_coordinates(group)}, and {system.name} is on "
                f"{_coordinates(system.group)}"
            )
        function = partial(evaluated, name, integral.function)
        with float64():
            g = jax.tree.map(np.asarray, system.group.identity())
            inspected(name, jax.make_jaxpr(function)(g, vector, vector, system.parameters))


def _coordinates(group: LieGroup) -> str:
    """Name of a group and of its coordinates and velocities."""
    return f"{group} ({', '.join(group.point_names)}; {', '.join(group.velocity_names)})"

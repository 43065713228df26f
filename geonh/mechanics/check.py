"""``system.check()``: what is wrong with a system, in words, before a long run says it in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.mechanics.equations import accelerations
from geonh.mechanics.lagrangian import LagrangianSystem
from geonh.numerics.precision import float64


@dataclass(frozen=True)
class Report:
    """Findings of ``check_system``: empty if all is well."""

    system: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"{self.system}: " + ("no problem found" if self.ok else f"{len(self.problems)} problem(s)")
        lines = [head, *(f"  problem: {p}" for p in self.problems), *(f"  {n}" for n in self.notes)]
        return "\n".join(lines)

    __repr__ = __str__


def check_system(system: LagrangianSystem, *, n_samples: int = 20, seed: int = 0, scale: float = 1.0) -> Report:
    """Test a system at random group elements and velocities.

    Checks that the mass matrix is symmetric and positive definite, that the constraints are independent, that all
    values and their first and second derivatives are finite (at the identity and at rest too), and that the first
    integrals are constant along the equations of motion.

    Parameters
    ----------
    system : LagrangianSystem
        The system.
    n_samples : int
        Number of random points.
    seed : int
        Of the random points.
    scale : float
        Size of the random algebra elements whose exponentials are the points.

    Returns
    -------
    Report
        ``report.ok``, ``report.problems``; printing it says everything.
    """
    rng = np.random.default_rng(seed)
    n, group = system.group.dim, system.group
    problems: list[str] = []
    with float64():
        etas = np.concatenate([np.zeros((1, n)), scale * rng.normal(size=(n_samples, n))])
        velocities = np.concatenate([np.zeros((1, n)), rng.normal(size=(n_samples, n))])
        points = [jax.tree.map(np.asarray, group.exp(jnp.asarray(eta))) for eta in etas]
        evaluate = jax.jit(lambda g, v: _evaluate(system, g, v))
        found = [jax.tree.map(np.asarray, evaluate(g, v)) for g, v in zip(points, velocities, strict=True)]

        def report(text: str, index: int) -> None:
            where = "the identity, at rest" if index == 0 else f"random point {index} of {n_samples} (seed {seed})"
            problems.append(f"{text} (at {where})")

        for test in (_test_mass, _test_rank, _test_finite, _test_integrals):
            for i, values in enumerate(found):
                text = test(values)
                if text:
                    report(text, i)
                    break
    m = found[0]["mu"].shape[0]
    notes = (f"{group}, dimension {n}, {m} constraint(s), rank of D {n - m}",)
    return Report(system.name, tuple(problems), notes)


def _evaluate(system: LagrangianSystem, g: Any, v: Any) -> dict[str, Any]:
    """Everything the tests look at, at one point."""
    x, zero_time = system.action.at(g), jnp.zeros(())
    xi = system.projected_velocity(x, v)
    p = system.momentum(x, xi)

    def lagrangian(eta: Any, xi: Any) -> Any:
        moved = jax.tree.map(jnp.add, x, system.action.anchor(x, eta))
        return system.lagrangian(moved, xi)

    out = {
        "M": system.mass_matrix(x, xi),
        "lagrangian": lagrangian(jnp.zeros_like(v), xi),
        "first derivatives": jax.grad(lagrangian, (0, 1))(jnp.zeros_like(v), xi),
        "second derivatives": jax.hessian(lagrangian, (0, 1))(jnp.zeros_like(v), xi),
    }
    out["mu"], out["rows"] = system.annihilator(x), system.rows(x)
    xi_dot, lam = (
        accelerations(system, zero_time, g, xi) if system.forces is None else (jnp.zeros_like(v), jnp.zeros(0))
    )
    out["accelerations"], out["multipliers"] = xi_dot, lam
    if system.forces is None:
        g_dot = system.group.left_tangent(g, xi)
        for name, integral in system.first_integrals.items():

            def value(g: Any, xi: Any, integral: Any = integral) -> Any:
                momentum = system.momentum(system.action.at(g), xi)
                return jnp.asarray(integral.function(g, xi, momentum, system.parameters))

            size, rate = jax.jvp(value, (g, xi), (g_dot, xi_dot))
            out[f"integral:{name}"] = rate / (1.0 + jnp.max(jnp.abs(size)) + p @ p)
    return out


def _test_mass(values: dict[str, Any]) -> str:
    M = values["M"]
    if not np.allclose(M, M.T, atol=1e-10 * (1 + np.abs(M).max())):
        return "the mass matrix is not symmetric"
    smallest = np.linalg.eigvalsh(M)[0] if np.all(np.isfinite(M)) else np.nan
    return (
        "" if smallest > 0 else f"the mass matrix is not positive definite: its smallest eigenvalue is {smallest:.3g}"
    )


def _test_rank(values: dict[str, Any]) -> str:
    if not values["rows"].size or not np.all(np.isfinite(values["rows"])):
        return ""
    rows = values["rows"]
    rank = np.linalg.matrix_rank(rows, tol=1e-9 * max(1.0, np.abs(rows).max()))
    return "" if rank == rows.shape[0] else f"the constraints are dependent: {rows.shape[0]} rows of rank {rank}"


def _test_finite(values: dict[str, Any]) -> str:
    for name, value in values.items():
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(value)):
            return f"{'the forms' if name == 'mu' else name}: not finite"
    return ""


def _test_integrals(values: dict[str, Any]) -> str:
    for name, rate in values.items():
        if name.startswith("integral:") and not np.max(np.abs(rate)) < 1e-9:
            label, size = name.removeprefix("integral:"), np.max(np.abs(rate))
            return f"first integral {label!r} changes along the motion, at rate {size:.2g}"
    return ""

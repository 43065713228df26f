"""Consistency checks of a system, ``system.check()``: find faults before a long run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.engine import in_numpy
from geonh.geometry.distribution import rank_fault
from geonh.geometry.field import evaluated
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.equations import accelerations
from geonh.mechanics.holonomic import ON_HOLONOMIC
from geonh.mechanics.soundness import metric_fault

SAME = 1e-10
"""Largest difference of a metric from the Hessian of its Lagrangian, relative to its largest entry."""


@dataclass(frozen=True)
class Report:
    """Problems and notes of ``check_system``; no problems if all is well."""

    system: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"{self.system}: " + ("no problem found" if self.ok else f"{len(self.problems)} problem(s)")
        lines = [head, *(f"  problem: {p}" for p in self.problems), *(f"  {n}" for n in self.notes)]
        return "\n".join(lines)

    __repr__ = __str__


@validated
def check_system(
    system: ConstrainedSystem,
    *,
    at: Any = None,
    controls: Any = None,
    n_samples: int = 20,
    seed: int = 0,
    scale: float = 1.0,
) -> Report:
    """Test a system at points and velocities.

    Checks that the mass matrix is symmetric and positive definite, that the constraints are independent, that all
    values, forces and controls among them, and their first and second derivatives are finite (at rest too), and that
    the first integrals are constant along the equations of motion.

    Parameters
    ----------
    system : System
    at : point of the group, or list of them, optional
        Test points (at rest too), with random ones around them within ``scale``. A fault at a given point is a problem.
        When left out, around the identity; a value that is not finite there is then taken as outside the domain,
        and noted.
    controls : callable or array_like, shape=[N, …], optional
        As in ``solve``: u at times between 0 and 1 s, or at the first nodes.
    n_samples : int
        Number of random points; 0 for the given ones alone.
    seed : int
        Seed of the random points.
    scale : float
        Size of the random algebra elements whose exponentials displace the points.

    Returns
    -------
    Report
        ``report.ok``, ``report.problems``; print it for details.

    Raises
    ------
    ValueError, TypeError
        If a point in ``at`` is not in the group, an option is invalid, or controls are given that nothing uses.
    """
    n_samples, seed = as_count(n_samples, "n_samples", 0), as_count(seed, "seed", 0)
    if not as_float64(scale, "scale", ()) > 0:
        raise ValueError(f"scale must be > 0, got {scale}; n_samples=0 looks at the named points alone")
    samples = _samples(system, at, n_samples, seed, float(scale))
    force, note = _force_of(system, controls)
    with contextlib.suppress(ValueError):  # what is wrong with the rank is among the problems
        system = system.with_rank_at(samples[0].g, samples[0].t)
    with float64():
        evaluate = in_numpy(lambda t, g, v: _evaluate(system, force, t, g, v), *samples[0][:3])
        values_at = [evaluate(s.t, s.g, s.v) for s in samples]
    given = at is not None
    inside = [i for i, values in enumerate(values_at) if given or _is_inside(values)]
    problems = []
    for test in (_test_mass, _test_hessian, _test_rank, _test_finite, _test_integrals):
        problems += [text for i in inside if (text := test(system, values_at[i], f"at {samples[i].where}"))][:1]
    m, n = values_at[0]["mu"].shape[0], system.group.dim
    rank = n - (m if system.rank is None else system.rank.total)
    notes = [f"{system.group}, dimension {n}, {m} constraint(s), rank of D {rank}"]
    if len(inside) < len(values_at):
        outside = next(s.where for i, s in enumerate(samples) if i not in inside)
        off = "" if system.holonomic is None else ", or dependent off φ = 0"
        notes.append(
            f"not finite{off}, so taken as outside the problem: {len(values_at) - len(inside)} of {len(values_at)} "
            f"points, first {outside}; at= says where to look"
        )
    if not inside:
        too = "" if controls is None else ", the forces by these controls too,"
        problems.append(f"no point was found where all{too} is finite; pass at= a point of the problem")
    return Report(system.name, tuple(problems), (*notes, *note))


class _Sample(NamedTuple):
    """Time, group element and velocity of a test point, and its description."""

    t: Any
    g: Any
    v: Any
    where: str


def _samples(system: ConstrainedSystem, at: Any, n_samples: int, seed: int, scale: float) -> list[_Sample]:
    """Given points, at rest and in motion, and random ones around them."""
    group, rng = system.group, np.random.default_rng(seed)
    centres = [system.point(at)] if at is None else _points(system, at)
    names = ["the identity"] if at is None else ["the point of at="]
    if len(centres) > 1:
        names = [f"point {i} of at=" for i in range(len(centres))]
    zero = np.zeros(group.dim)
    samples = [_Sample(0.0, g, zero, f"{name}, at rest") for g, name in zip(centres, names, strict=True)]
    if at is not None:
        samples += [_Sample(0.0, g, rng.normal(size=group.dim), n) for g, n in zip(centres, names, strict=True)]
    with float64():
        for i in range(n_samples):
            eta, v = scale * rng.normal(size=group.dim), rng.normal(size=group.dim)
            moved = group.compose(centres[i % len(centres)], group.exp(jnp.asarray(eta)))
            where = f"random point {i + 1} of {n_samples} (seed {seed})"
            samples.append(_Sample(rng.uniform(), jax.tree.map(np.asarray, moved), v, where))
    return samples


def _points(system: ConstrainedSystem, at: Any) -> list:
    """Parse one point, or a list of them: of tuples on a product, elsewhere an array with one axis more."""
    shapes = system.group.point_shapes
    if isinstance(system.group.identity(), tuple):
        several = isinstance(at, list) and bool(at) and isinstance(at[0], tuple)
    else:
        several = (isinstance(at, list | tuple) or (isinstance(at, np.ndarray) and at.ndim > 0)) and len(at) > 0
        several = several and np.ndim(at[0]) == len(shapes[0])
    return [system.point(g, name=f"at[{i}]") for i, g in enumerate(at)] if several else [system.point(at, name="at")]


def _force_of(system: ConstrainedSystem, controls: Any) -> tuple[Callable, tuple[str, ...]]:
    """Force f(t, x, ξ), zero if it needs controls and none are given; and notes."""
    if controls is not None and system.forces is None:
        raise ValueError(f"controls are given, but {system.name} has no forces that would use them")
    if controls is not None and not callable(controls):
        rows = as_float64(controls, "controls")
        if not rows.ndim or not len(rows):
            raise ValueError(f"controls must be a function of t, or its values at the nodes, got {shortly(controls)}")
        controls = lambda t: jnp.asarray(rows)[(t * (len(rows) - 1)).astype(int)]  # noqa: E731

    def force(t: Any, x: Any, xi: Any) -> Any:
        return system.force(t, x, xi, None if controls is None else evaluated("controls", controls, t))

    with float64():
        g = system.group.identity()
        try:
            jax.eval_shape(lambda: force(jnp.zeros(()), system.at(g, 0.0), jnp.zeros(system.group.dim)))
        except (TypeError, ValueError) as error:
            if controls is not None or "no controls" not in str(error):
                raise
            note = "forces were not tested: they use u; pass controls="
            return lambda t, x, xi: jnp.zeros(system.group.dim), (note,)
    return force, ()


def _evaluate(system: ConstrainedSystem, force: Callable, t: Any, g: Any, v: Any) -> dict[str, Any]:
    """Evaluate all tested quantities at one point."""
    x = system.at(g, t)
    xi = system.projected_velocity(x, v)
    p = system.momentum(x, xi)

    def lagrangian(eta: Any, xi: Any) -> Any:
        moved = jax.tree.map(jnp.add, x, system.anchor(x, eta))
        return system.lagrangian(moved, xi)

    out = {
        "M": system.mass_matrix(x, v),
        "lagrangian": lagrangian(jnp.zeros_like(v), v),
        "forces": force(t, x, v),
        "first derivatives": jax.grad(lagrangian, (0, 1))(jnp.zeros_like(v), xi),
        "second derivatives": jax.hessian(lagrangian, (0, 1))(jnp.zeros_like(v), xi),
    }
    if system.hessian is not None:
        out["Hessian"] = jax.hessian(lambda xi: system.lagrangian(x, xi))(xi)
    if not system.is_quadratic:
        out["velocity of the momentum"] = system.velocity(x, p)
    out["phi"] = system.holonomic_residual(x)
    linear = system.linear_at(xi)
    out["mu"], out["rows"] = linear.annihilator(x), linear.holding(x).rows(x)
    if system.forces is None:
        xi_dot, out["multipliers"] = accelerations(system, t, g, xi)
        out["accelerations"] = xi_dot
        g_dot = system.group.left_tangent(g, xi)
        for name, integral in system.first_integrals.items():

            def value(g: Any, xi: Any, integral: Any = integral) -> Any:
                return jnp.asarray(integral.along(system, g, xi))

            size, rate = jax.jvp(value, (g, xi), (g_dot, xi_dot))
            out[f"integral:{name}"] = rate / (1.0 + jnp.max(jnp.abs(size)) + p @ p)
    return out


def _is_inside(values: dict[str, Any]) -> bool:
    """True if the user's functions are finite, and dependent rows, if any, occur on φ = 0."""
    if not all(np.all(np.isfinite(values[name])) for name in ("M", "lagrangian", "forces", "rows")):
        return False
    off = np.abs(values["phi"]).max(initial=0.0) > ON_HOLONOMIC
    return not (off and rank_fault("", values["rows"], ""))


def _test_mass(system: ConstrainedSystem, values: dict[str, Any], where: str) -> str:
    return metric_fault(system, values["M"], where)


def _test_hessian(system: ConstrainedSystem, values: dict[str, Any], where: str) -> str:
    M, H = values["M"], values.get("Hessian", values["M"])
    off = np.abs(M - H)
    if not np.all(np.isfinite(off)) or off.max() <= SAME * np.abs(H).max():
        return ""
    i, j = np.unravel_index(np.argmax(off), off.shape)
    names = system.group.velocity_names
    return (
        f"metric= is not the Hessian of lagrangian= in ξ {where}: entry [{i}, {j}], of {names[i]} and {names[j]}, is "
        f"{M[i, j]:.9g}, and the second derivative is {H[i, j]:.9g}"
    )


def _test_rank(system: ConstrainedSystem, values: dict[str, Any], where: str) -> str:
    return rank_fault(system.name, values["rows"], where)


def _test_finite(system: ConstrainedSystem, values: dict[str, Any], where: str) -> str:
    if _test_mass(system, values, where) or _test_rank(system, values, where):
        return ""  # reported already
    for name in sorted(values, key=lambda name: name not in ("lagrangian", "forces")):  # causes before consequences
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(values[name])):
            return f"{'the forms' if name == 'mu' else name}: not finite {where}"
    return ""


def _test_integrals(system: ConstrainedSystem, values: dict[str, Any], where: str) -> str:
    for name, rate in values.items():
        if name.startswith("integral:") and not np.max(np.abs(rate)) < 1e-9:
            label, size = name.removeprefix("integral:"), np.max(np.abs(rate))
            return f"first integral {label!r} changes along the motion, at rate {size:.2g} {where}"
    return ""

"""Random equilibria and states: eigenvalues, divergences and derivatives against equations that geonh has no part in.

``python tests/hunt/analyses.py --seeds 0 300 --seconds 600``; a seed always makes the same case.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import scipy.linalg
from hunting import hunt
from systems import Case, away

import geonh as gn

STEP = 4e-3
WEIGHTS = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
"""Of central differences of order 8."""


def slope(f: Callable[[float], Any]) -> Any:
    """Derivative of f at 0."""
    return sum(w * (f(k * STEP) - f(-k * STEP)) for k, w in enumerate(WEIGHTS, 1)) / STEP


class Still(Case):
    """A system that may rest at its start: its potential is stationary there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.timed, self.pushed, self.control_kind, self.k = set(), False, "none", 0
        if self.kind not in ("free", "forms", "constant forms"):
            self.kind = "forms" if self.m else "free"
        self.phi_of, self.C = self.phi_of[:0], self.C[:, : self.m]
        self.across = self.across and self.m > 0
        self.has_forces = self.drag
        self.weights = self.rng.normal(size=(3, self.space.size))
        self.rest = self.features(self.v0, np)

    def potential_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Squares of what vanishes at the start, with both signs."""
        f = self.weights @ (self.features(v, xp) - self.rest)
        return self.p(p)["c"][0] * (f[0] ** 2 + 0.7 * f[1] ** 2) - 0.4 * f[2] ** 2


def case(seed: int) -> Iterator[str]:
    """Findings of a seed."""
    made = Still(np.random.default_rng(seed), seed)
    words = (
        f"{made.space_name}, {made.kind}, m={made.m}, metric {made.metric_kind}, base {made.base}, drag {made.drag}, "
        f"lagrangian {made.lagrangian} linear {made.linear_of is not None} "
        f"quartic {made.quartic > 0} across {made.across}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            system, motion = made.system(), made.motion()
            yield from eigenvalues(made, system, motion, words)
            yield from divergence(made, system, motion, words)
            yield from integrals(made, system, words)
        except Exception as error:
            yield f"{type(error).__name__}: {str(error)[:250]} [{words}]"


def eigenvalues(made: Still, system: gn.System, motion: Any, words: str) -> Iterator[str]:
    """Of the linear equations about rest."""
    n, v0, zero = made.space.dim, made.v0, np.zeros(made.space.dim)

    def rate(v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        return motion.accelerations(0.0, v, xi)[0]

    if np.abs(rate(v0, zero)).max() > 1e-10:
        yield "~no rest"
        return
    ours = gn.analysis.linearise(system, made.g0, zero)
    by_place = np.stack([slope(lambda h, e=e: rate(v0 + h * made.space.rate(v0, e), zero)) for e in np.eye(n)], 1)
    by_speed = np.stack([slope(lambda h, e=e: rate(v0, h * e)) for e in np.eye(n)], 1)
    allowed = scipy.linalg.null_space(made.forms_at(0.0, v0, None, np)) if made.m else np.eye(n)
    r = allowed.shape[1]
    A = np.block([[np.zeros((n, n)), allowed], [allowed.T @ by_place, allowed.T @ by_speed @ allowed]])
    theirs = np.linalg.eigvals(A)
    # zeros stand for symmetries and for families, of which ours leaves out some; roots next to them are in doubt
    big = 1e-3 * (1 + np.abs(A).max())
    a, b = (np.sort_complex(np.round(e[np.abs(e) > big], 12)) for e in (ours.eigenvalues, theirs))
    yield "~equilibria"
    if len(a) != len(b):
        yield f"eigenvalues {np.round(a, 5)} for {np.round(b, 5)} [{words}]"
        return
    for x in a:
        if len(b) and not np.abs(b - x).min() < 1e-5 * (1 + abs(x)) * (1 + np.abs(A).max()):
            yield f"eigenvalue {x} is none of {b} (r = {r}) [{words}]"


def divergence(made: Still, system: gn.System, motion: Any, words: str) -> Iterator[str]:
    """Of the flow on D, by orthonormal frames of it."""
    if made.quartic > 0:
        return
    space, v0 = made.space, made.v0
    n = space.dim
    xi = made.admissible(v0, made.speed, None, np)
    begin = scipy.linalg.null_space(made.forms_at(0.0, v0, None, np)) if made.m else np.eye(n)

    def frame(v: np.ndarray) -> np.ndarray:
        M = made.metric_at(0.0, v, None, np)
        N = begin
        if made.m:
            mu = made.forms_at(0.0, v, None, np)
            N = N - mu.T @ np.linalg.solve(mu @ mu.T, mu @ N)
        values, Q = np.linalg.eigh(N.T @ M @ N)
        return N @ (Q / np.sqrt(values)) @ Q.T

    E = frame(v0)
    s = E.T @ made.metric_at(0.0, v0, None, np) @ xi

    def rate(s: np.ndarray) -> np.ndarray:
        xi = E @ s
        turning = slope(lambda h: frame(v0 + h * space.rate(v0, xi))) @ s
        return E.T @ made.metric_at(0.0, v0, None, np) @ (motion.accelerations(0.0, v0, xi)[0] - turning)

    total = sum(slope(lambda h, i=i: frame(v0 + h * space.rate(v0, np.eye(n)[i])) @ s)[i] for i in range(n))
    total += 0.5 * slope(lambda h: np.linalg.slogdet(made.metric_at(0.0, v0 + h * space.rate(v0, xi), None, np))[1])
    total += sum(slope(lambda h, a=a: rate(s + h * np.eye(len(s))[a]))[a] for a in range(len(s)))
    try:
        ours = gn.analysis.divergence(system, made.g0, xi)
    except (ValueError, TypeError) as error:
        yield f"~divergence refused: {str(error)[:80]}"
        return
    yield "~divergences"
    if not abs(ours - total) < 1e-6 * (1 + abs(total)):
        yield f"divergence {ours} for {total} [{words}]"


def integrals(made: Still, system: gn.System, words: str) -> Iterator[str]:
    """Energies and momenta of the system at a state; spatial velocities."""
    xi = made.admissible(made.v0, made.speed, None, np)
    motion = made.motion()
    run = gn.solve(system, "rkmk8", g0=made.g0, xi0=xi, dt=0.02, n_steps=4)
    i = 3
    energy = run.xi[i] @ motion.momentum(0, run.g_vector[i], run.xi[i]) - motion.lagrangian(
        0, run.g_vector[i], run.xi[i]
    )
    if not away(run.energy[i], energy) < 1e-12 * (1 + abs(energy)):
        yield f"energy {run.energy[i]} for {energy} [{words}]"
    if not away(run.p[i], motion.momentum(0, run.g_vector[i], run.xi[i])) < 1e-12 * (1 + np.abs(run.p).max()):
        yield f"p {run.p[i]} [{words}]"
    if made.base != "group" or made.across or made.lagrangian:
        return
    try:
        spatial = gn.mechanics.in_spatial_velocities(system)
    except (ValueError, TypeError) as error:
        yield f"~spatial refused: {str(error)[:80]}"
        return
    with gn.float64():
        turned = np.asarray(made.group.Ad(made.g0) @ xi)
    other = gn.solve(spatial, "rkmk8", g0=made.g0, xi0=turned, dt=0.02, n_steps=4)
    off = max(away(a, b) for a, b in zip(jax.tree.leaves(other.g), jax.tree.leaves(run.g), strict=True))
    yield "~spatial"
    if not off < 1e-9:
        yield f"in_spatial_velocities: the motion is {off:.3g} off [{words}]"


if __name__ == "__main__":
    hunt(case, __doc__)

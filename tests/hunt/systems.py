"""Random systems, whose runs, derivatives and forces are compared with equations that geonh has no part in.

``python tests/hunt/systems.py --seeds 0 1000 --seconds 1500``; a seed always makes the same case. With ``--draws 20``
the numbers of each case are parameters, and are drawn twenty times: as many systems with one compilation.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import reference as ref
from hunting import hunt

import geonh as gn
from geonh.groups import SE2, SE3, SO2, SO3, Heisenberg, MatrixGroup, Opposite, Product, Torus, Translations

FACTORS: dict[str, tuple[Callable, Callable]] = {
    "R1": (lambda: Translations(1), lambda: ref.vectors(1)),
    "R2": (lambda: Translations(2), lambda: ref.vectors(2)),
    "R3": (lambda: Translations(3), lambda: ref.vectors(3)),
    "R4": (lambda: Translations(4), lambda: ref.vectors(4)),
    "R5": (lambda: Translations(5), lambda: ref.vectors(5)),
    "T1": (lambda: Torus(1), lambda: ref.vectors(1)),
    "T2": (lambda: Torus(2), lambda: ref.vectors(2)),
    "SO2": (SO2, lambda: ref.vectors(1)),
    "SO3": (SO3, lambda: ref.matrices(ref.ROTATIONS)),
    "SE2": (SE2, ref.plane),
    "SE3": (SE3, lambda: ref.matrices(ref.MOTIONS)),
    "Heis": (Heisenberg, ref.heisenberg),
    "SO3op": (lambda: Opposite(SO3()), lambda: ref.matrices(ref.ROTATIONS, left=False)),
    "SE2op": (lambda: Opposite(SE2()), lambda: ref.plane(left=False)),
    "SL2": (lambda: MatrixGroup(ref.SL2), lambda: ref.matrices(ref.SL2)),
}
SPACES = (
    *("R2", "R3", "R3", "R4", "R5", "SO3", "SO3", "SE2", "SE2", "SE3", "Heis", "SO3op", "SE2op", "SL2"),
    *(
        "R2 SO3",
        "R1 SO3",
        "SE2 T2",
        "SE2 T1",
        "SE2 SO2",
        "R2 T1",
        "Heis T1",
        "SO3 T1",
        "R3 SO3op",
        "SE2op R1",
        "SO3 SO3",
    ),
)
BASES = {"R": "x", "T": "theta", "S": "theta"}
STEPS = {1: 40, 2: 16, 4: 8, 5: 6, 6: 5, 8: 4}
LIMIT = 1e-7
"""Error of a derivative, relative to its size and one, above which it is a finding."""


class Functions:
    """The functions of a random system, of the entries of a point, for NumPy and for JAX; what geonh looks through."""

    def number(self, name: str, p: Any) -> Any:
        """A number of the parameters, or its own."""
        return p[name] if p is not None and name in p else getattr(self, name)

    def flat(self, g: Any, xp: Any) -> Any:
        """Entries of a point."""
        parts = g if isinstance(g, tuple) else (g,)
        return xp.concatenate([xp.reshape(xp.asarray(part), -1) for part in parts])

    def flat_path(self, g: Any) -> np.ndarray:
        """Entries of the points of a path."""
        parts = g if isinstance(g, tuple) else (g,)
        return np.concatenate([np.reshape(np.asarray(p), (len(p), -1)) for p in parts], axis=1)

    def entries(self, x: Any) -> Any:
        """Entries of a base point of geonh, zeros where it has none."""
        if self.base == "point":
            return jnp.zeros(len(self.phase))
        if self.base == "group":
            return self.flat(x, jnp)
        return jnp.zeros(len(self.phase)).at[np.flatnonzero(self.seen)].set(x)

    def features(self, v: Any, xp: Any, t: Any = 0.0, p: Any = None) -> Any:
        """Bounded functions of the entries, which move with the time where t is given."""
        return xp.cos(self.seen * v + self.number("phase", p) + 0.7 * t)

    def p(self, given: Any) -> Any:
        """Parameters: those given, or the system's own numbers."""
        return given if given is not None else self.parameters

    def metric_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Kinetic metric."""
        if self.metric_kind != "point":
            return self.M * (1.0 if xp is np else xp.ones(()))
        f = self.features(v, xp, t if "metric" in self.timed else 0.0, p)
        return self.number("M", p) + self.p(p)["k"] * xp.tensordot(f, xp.asarray(self.number("S", p)), 1)

    def potential_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Potential."""
        along = self.number("v_of", p) @ self.features(v, xp, t if "potential" in self.timed else 0.0, p)
        return self.p(p)["c"][0] * along + 0.3 * along**2

    def forms_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Forms."""
        if "constant" in self.kind:
            return xp.asarray(self.mu)
        f = self.features(v, xp, t if "forms" in self.timed else 0.0, p)
        return self.number("mu", p) + self.p(p)["c"][1] * xp.tensordot(xp.asarray(self.number("B", p)), f, 1)

    def right_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Right side."""
        if "affine" not in self.kind and self.kind != "nonlinear":
            return xp.zeros(self.m)
        if "constant" in self.kind:
            return xp.asarray(self.b)
        f = self.features(v, xp, t if "right" in self.timed else 0.0, p)
        return self.p(p)["k"] * (self.number("b", p) + self.number("b_of", p) @ f)

    def phi_at(self, t: Any, v: Any, p: Any, xp: Any) -> Any:
        """Constraints on positions, zero at the start."""
        f = self.features(v, xp, t if "phi" in self.timed else 0.0, p)
        return self.number("phi_of", p) @ f - self.number("level", p)

    def c_at(self, t: Any, v: Any, xi: Any, p: Any, xp: Any) -> Any:
        """Constraints on velocities."""
        value = self.forms_at(t, v, p, xp) @ xi - self.right_at(t, v, p, xp)
        return value + 0.5 * (xp.asarray(self.Q) @ xi) @ xi if self.kind == "nonlinear" else value

    def control(self, t: Any, xp: Any) -> Any:
        """u(t)."""
        return self.U[0] + self.U[1] * xp.sin(self.rate * t) + self.U[2] * xp.cos(2 * t)

    def force(self, t: Any, v: Any, xi: Any, u: Any, p: Any, xp: Any) -> Any:
        """Forces."""
        value = 0.0 * xi
        if self.drag:
            value = value - 0.3 * self.p(p)["k"] * xi - 0.05 * (xi @ xi) * xi
        if self.pushed:
            value = value + (self.number("F", p) @ self.features(v, xp, p=p)) * xp.cos(self.rate * t)
        if u is not None and self.control_kind != "none":
            value = value + self.p(p)["c"][1] * (self.number("G", p) @ xp.reshape(u, -1))
        return value

    def across_at(self, t: Any, v: Any, xi: Any, p: Any, xp: Any) -> Any:
        """Forces of the multipliers, per multiplier."""
        return self.number("C", p) * (1.0 + 0.3 * xp.sin(t + xi[0]))


@dataclasses.dataclass
class Case(Functions):
    """A random system: its functions for NumPy and for JAX, and what is asked of it."""

    rng: np.random.Generator
    seed: int
    drawn: bool = False
    """Its numbers are parameters, which can be drawn again."""

    def __post_init__(self) -> None:
        rng = self.rng
        self.space_name = str(rng.choice(SPACES))
        names = self.space_name.split()
        made = [FACTORS[n][0]() for n in names]
        self.group = made[0] if len(made) == 1 else Product(tuple(made))
        self.space = ref.Space([FACTORS[n][1]() for n in names])
        n, size = self.space.dim, self.space.size
        self.parameters = {"k": float(rng.uniform(0.7, 1.3)), "c": rng.uniform(0.7, 1.3, 2)}
        self.takes = bool(rng.random() < 0.7) or self.drawn
        self.timed = {w for w in ("potential", "forms", "right", "phi", "metric") if rng.random() < 0.12}
        self.base, self.seen = self._base()
        self.rate = float(rng.uniform(0.5, 2.0))
        kinds = ["free", "forms", "constant forms", "affine", "affine constant", "phi", "phi and forms", "nonlinear"]
        self.kind = str(rng.choice(kinds, p=[0.15, 0.25, 0.15, 0.15, 0.08, 0.08, 0.06, 0.08]))
        if n < 3 and self.kind == "phi and forms":
            self.kind = "phi"
        if "phi" in self.kind and self.base == "point":
            self.kind = "free"  # φ sees no point
        self.m = 0 if self.kind in ("free", "phi") else int(rng.integers(1, max(2, min(4, n - 1))))
        self.k = 1 if "phi" in self.kind else 0
        self.phase = rng.uniform(0, 6, size)
        self.metric_kind = str(rng.choice(["constant", "diagonal", "point", "bi-invariant"], p=[0.3, 0.1, 0.5, 0.1]))
        if self.metric_kind != "point":
            self.timed -= {"metric"}
        A = rng.normal(size=(n, n))
        self.M = A @ A.T / n + np.eye(n)
        if self.metric_kind == "diagonal":
            self.M = np.diag(np.diag(self.M))
        if self.metric_kind == "bi-invariant":
            self.M = float(rng.uniform(0.5, 2)) * np.eye(n)
        S = rng.normal(size=(size, n, n))
        self.S = 0.15 / np.sqrt(size) * (S + S.transpose(0, 2, 1)) / np.sqrt(n)
        self.linear_of = 0.4 * rng.normal(size=(n, size)) if rng.random() < 0.12 else None
        self.quartic = float(0.1 * rng.random()) if rng.random() < 0.1 else 0.0
        self.lagrangian = self.linear_of is not None or self.quartic > 0 or rng.random() < 0.1
        self.v_of = rng.normal(size=size) * (rng.random() < 0.85)
        if self.metric_kind == "bi-invariant":
            self.v_of = 0.0 * self.v_of
        self.mu = rng.normal(size=(self.m, n))
        self.B = 0.3 * rng.normal(size=(self.m, n, size)) / np.sqrt(size)
        self.b = rng.normal(size=self.m)
        self.b_of = 0.3 * rng.normal(size=(self.m, size))
        self.Q = 0.1 * rng.normal(size=(self.m, n, n))
        self.Q = self.Q + self.Q.transpose(0, 2, 1)
        self.phi_of = rng.normal(size=(self.k, size))
        self.drag = rng.random() < 0.35
        self.pushed = rng.random() < 0.3
        self.F = 0.5 * rng.normal(size=(n, size))
        self.C = 0.1 * rng.normal(size=(n, self.m + self.k))
        self.across = self.m + self.k > 0 and rng.random() < 0.06
        self.control_shape = [(1,), (2,), (3,), (2, 1)][rng.integers(4)]
        self.control_kind = "none" if rng.random() < 0.7 else str(rng.choice(["function", "values"]))
        count = int(np.prod(self.control_shape))
        self.U = rng.normal(size=(3, *self.control_shape))
        self.G = rng.normal(size=(n, count))
        self.has_forces = self.drag or self.pushed or self.control_kind != "none"
        if self.control_kind == "values" and (self.kind == "nonlinear" or self.across):
            self.control_kind = "function"  # no method takes both
        self.t0 = 0.0 if rng.random() < 0.5 else float(rng.uniform(-3, 3))
        self.span = float(rng.uniform(0.3, 0.8)) * (-1 if rng.random() < 0.2 else 1)
        with gn.float64():
            self.g0 = jax.tree.map(np.asarray, self.group.exp(jnp.asarray(rng.normal(size=n))))
        self.v0 = self.flat(self.g0, np)
        self.speed = rng.normal(size=n)
        self.level = self.level_at_start()
        self.compiled: dict[Any, Callable] = {}
        if self.drawn:
            self.parameters |= self.numbers()

    def numbers(self) -> dict[str, np.ndarray]:
        """Those of its numbers that its functions take from the parameters."""
        names = ["phase", "v_of", "b_of", "B", "F", "C", "G", "phi_of", "level"]
        names += ["mu", "b"] if "constant" not in self.kind else []
        names += ["S", "M"] if self.metric_kind == "point" else []
        return {name: getattr(self, name) for name in names if np.size(getattr(self, name))}

    def redraw(self, rng: np.random.Generator) -> None:
        """Other numbers of the same sizes, and another start, for the same program."""
        n, size = self.space.dim, self.space.size
        self.parameters = {"k": float(rng.uniform(0.7, 1.3)), "c": rng.uniform(0.7, 1.3, 2)}
        self.phase = rng.uniform(0, 6, size)
        for name in ("v_of", "b_of", "B", "F", "C", "G", "phi_of", "mu", "b", "S"):
            if name in self.numbers():
                # another turn and another size of the numbers as they are, so that they stay as large
                old = getattr(self, name)
                new = old[..., rng.permutation(old.shape[-1])] if name != "S" else old[rng.permutation(size)]
                setattr(
                    self, name, new * rng.uniform(0.7, 1.3) * rng.choice([-1.0, 1.0], old.shape if name != "S" else ())
                )
        if "M" in self.numbers():
            A = rng.normal(size=(n, n))
            self.M = A @ A.T / n + np.eye(n)
        if self.control_kind == "values":  # a function of the time belongs to the program
            self.U = rng.normal(size=self.U.shape)
        self.t0, self.span = float(rng.uniform(-3, 3)), self.span * float(rng.uniform(0.8, 1.2))
        with gn.float64():
            self.g0 = jax.tree.map(np.asarray, self.group.exp(jnp.asarray(rng.normal(size=n))))
        self.v0 = self.flat(self.g0, np)
        self.speed = rng.normal(size=n)
        self.level = self.level_at_start()
        self.parameters |= self.numbers()

    def level_at_start(self) -> np.ndarray:
        """Value at the start of what the constraints on positions keep."""
        return self.phi_of @ self.features(self.v0, np, self.t0 if "phi" in self.timed else 0.0)

    def _base(self) -> tuple[Any, np.ndarray]:
        """Argument ``base``, and which entries of a point the functions see."""
        names, rng = self.space_name.split(), self.rng
        r, size = rng.random(), self.space.size
        if r < 0.08:
            return "point", np.zeros(size)
        if r < 0.25:
            at, seen, chosen = 0, np.zeros(size), []
            for name, s in zip(names, self.space.sizes, strict=True):
                if name[0] in "RT":  # additive: their coordinates may be a base
                    seen[at : at + s] = 1.0
                    chosen += list(self.group.point_names[at : at + s])
                at += s
            if chosen:
                return tuple(chosen), seen
        return "group", np.ones(size)

    # --- in geonh ------------------------------------------------------------------------------------------
    def system(self) -> gn.System:
        """The system as a user writes it."""
        group, full = self.group, self
        self = object.__new__(Functions)  # what the functions capture, which geonh looks through, without the rest
        kept = {
            key: value for key, value in vars(full).items() if key not in ("rng", "group", "space", "g0", "compiled")
        }
        vars(self).update(kept)
        takes, of = self.takes, self.entries

        def field(f: Callable, timed: bool) -> Any:
            if timed and takes:
                return gn.time_dependent(lambda t, x, p: f(t, of(x), p, jnp))
            if timed:
                return gn.time_dependent(lambda t, x: f(t, of(x), None, jnp))
            return (lambda x, p: f(0.0, of(x), p, jnp)) if takes else (lambda x: f(0.0, of(x), None, jnp))

        given: dict[str, Any] = {"base": self.base, "parameters": self.parameters if takes else None}
        metric: Any = field(self.metric_at, "metric" in self.timed) if self.metric_kind == "point" else self.M
        if self.metric_kind == "diagonal":
            metric = np.diag(self.M)
        if self.lagrangian:
            timed = bool(self.timed & {"metric", "potential"})

            def lagrangian(t: Any, x: Any, xi: Any, p: Any) -> Any:
                v = of(x)
                value = 0.5 * xi @ self.metric_at(t, v, p, jnp) @ xi - self.potential_at(t, v, p, jnp)
                if self.linear_of is not None:
                    value = value + (self.linear_of @ self.features(v, jnp, p=p)) @ xi
                return value + 0.25 * self.quartic * (xi @ xi) ** 2

            if timed:
                given["lagrangian"] = gn.time_dependent(
                    (lambda t, x, xi, p: lagrangian(t, x, xi, p))
                    if takes
                    else lambda t, x, xi: lagrangian(t, x, xi, None)
                )
            else:
                given["lagrangian"] = (
                    (lambda x, xi, p: lagrangian(0.0, x, xi, p))
                    if takes
                    else lambda x, xi: lagrangian(0.0, x, xi, None)
                )
        else:
            given |= {"metric": metric, "potential": field(self.potential_at, "potential" in self.timed)}
        forms = self.mu if "constant" in self.kind else field(self.forms_at, "forms" in self.timed)
        if self.kind == "nonlinear":
            timed = bool(self.timed & {"forms", "right"})
            c = self.c_at
            velocity: Any = (
                (lambda x, xi, p: c(0.0, of(x), xi, p, jnp)) if takes else lambda x, xi: c(0.0, of(x), xi, None, jnp)
            )
            if timed:
                velocity = gn.time_dependent(
                    (lambda t, x, xi, p: c(t, of(x), xi, p, jnp))
                    if takes
                    else lambda t, x, xi: c(t, of(x), xi, None, jnp)
                )
            given["distribution"] = gn.VelocityConstraints(velocity)
        elif "affine" in self.kind:
            right = self.b if "constant" in self.kind else field(self.right_at, "right" in self.timed)
            given["distribution"] = gn.AffineDistribution(forms, right)
        elif self.m:
            given["distribution"] = gn.Distribution(forms)
        if self.k:
            given["holonomic"] = field(self.phi_at, "phi" in self.timed)
        if self.has_forces:
            given["forces"] = (
                (lambda t, x, xi, u, p: self.force(t, of(x), xi, u, p, jnp))
                if takes
                else lambda t, x, xi, u: self.force(t, of(x), xi, u, None, jnp)
            )
        if self.across:
            given["multiplier_forces"] = (
                (lambda t, x, xi, lam, p: self.across_at(t, of(x), xi, p, jnp) @ lam)
                if takes
                else lambda t, x, xi, lam: self.across_at(t, of(x), xi, None, jnp) @ lam
            )
        return gn.System(group, name=f"case {self.seed}", **given)

    def motion(self, drive: Callable | None = None) -> ref.Motion:
        """The same, for the reference."""
        drive = drive or (lambda t: self.control(t, np))

        def rows(t: Any, v: Any, xi: Any) -> Any:
            mu = self.forms_at(t, v, None, np)
            return mu + self.Q @ xi if self.kind == "nonlinear" else mu

        return ref.Motion(
            self.space,
            lambda t, v: self.metric_at(t, v, None, np),
            None if self.linear_of is None else lambda t, v: self.linear_of @ self.features(v, np),
            self.quartic,
            lambda t, v: self.potential_at(t, v, None, np),
            (lambda t, v, xi: self.force(t, v, xi, drive(t), None, np)) if self.has_forces else None,
            (lambda t, v: self.phi_at(t, v, None, np)) if self.k else None,
            (lambda t, v, xi: self.c_at(t, v, xi, None, np)) if self.m else None,
            rows if self.m else None,
            (lambda t, v, xi: self.across_at(t, v, xi, None, np)) if self.across else None,
        )

    def admissible(self, v: Any, speed: Any, p: Any, xp: Any, t: Any = None) -> Any:
        """The velocity on linear and affine constraints that is next to a given one, differentiable."""
        t = self.t0 if t is None else t
        mu, b = self.forms_at(t, v, p, xp), self.right_at(t, v, p, xp)
        if self.k:
            rows = self.space.gradient(lambda t, v: self.phi_at(t, v, None, np), self.t0, self.v0)
            ahead = self.space.along(lambda t, v: self.phi_at(t, v, None, np), self.t0, self.v0, 0 * self.speed, 1.0)
            mu, b = xp.concatenate([xp.asarray(rows), mu]), xp.concatenate([xp.asarray(-ahead), b])
        if self.kind == "nonlinear" and xp is np:
            xi = np.array(speed)
            for _ in range(50):
                N = self.forms_at(t, v, p, np) + self.Q @ xi
                xi = xi - N.T @ np.linalg.solve(N @ N.T, self.c_at(t, v, xi, p, np))
            return xi
        return speed - mu.T @ xp.linalg.solve(mu @ mu.T, mu @ speed - b) if len(mu) else speed

    def method(self) -> tuple[str, Any]:
        """A random method that fits, with random options."""
        rng = self.rng
        while True:
            name = str(rng.choice(list(gn.methods)))
            entry = gn.methods[name]
            options = {}
            if "retraction" in entry.options and rng.random() < 0.6:
                options["retraction"] = str(rng.choice(["exp", "cayley"]))
            if "rule" in entry.options and rng.random() < 0.5:
                options["rule"] = str(rng.choice(["left", "right", "trapezoid", "midpoint"]))
            try:
                made = gn.integrators.Feedback(1.0, "rk4") if name == "feedback" else entry.make(**options)
            except ValueError:
                continue
            says = made.guarantees
            fits = (
                (says.affine or "affine" not in self.kind)
                and (says.nonlinear or self.kind != "nonlinear")
                and (says.multiplier_forces or not self.across)
                and (name != "variational" or self.kind in ("free", "phi"))
                and (name != "shake" or set(self.space_name) <= set("RT 12345"))
            )
            if self.control_kind == "values" and name not in NODAL:
                fits = False
            if fits:
                return f"{name} {options or ''}", made


NODAL = ("projected", "gni", "variational", "euler-a", "euler-b", "shake", "rattle", "dla", "pontryagin")


def away(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, inf where one is not finite."""
    d = np.abs(np.asarray(a) - np.asarray(b)).max(initial=0.0)
    return float(d) if np.isfinite(d) else np.inf


def case(seed: int, draws: int = 1) -> Iterator[str]:
    """Findings of a seed; a line that begins with ``~`` counts something else."""
    made = Case(np.random.default_rng(seed), seed, drawn=draws > 1)
    name, method = made.method()
    try:
        system = made.system()
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:300]} [{described(made, name)}]"
        return
    for draw in range(draws):
        rng = np.random.default_rng([seed, 1, draw] if draw else [seed, 1])
        if draw:
            made.redraw(np.random.default_rng([seed, 2, draw]))
        words = f"draw {draw}, {described(made, name)}" if draw else described(made, name)
        yield "~systems"
        try:
            yield from checks(
                made, rng, method, system.with_parameters(**made.parameters) if draw else system, name, words
            )
        except Refused as error:
            yield f"~refused: {error}"
            return
        except FloatingPointError:
            yield "~no motion by the reference"
        except gn.IntegrationError as error:
            if "the metric is not symmetric and positive definite" not in str(error):
                yield f"IntegrationError: {str(error)[:300]} [{words}]"
            yield "~indefinite on the way"
        except Exception as error:
            yield f"{type(error).__name__}: {str(error)[:300]} [{words}]"


def described(made: Case, name: str) -> str:
    """A case in a line."""
    return (
        f"{made.space_name}, {made.kind}, m={made.m}, metric {made.metric_kind}, base {made.base}, timed "
        f"{sorted(made.timed)}, controls {made.control_kind}{made.control_shape}, lagrangian {made.lagrangian} "
        f"linear {made.linear_of is not None} quartic {made.quartic > 0}, across {made.across}, takes {made.takes}, "
        f"t0 {made.t0:.3g}, span {made.span:.3g}, {name}"
    )


class Refused(Exception):
    """geonh says that it does not take the case."""


def checks(
    made: Case, rng: np.random.Generator, method: Any, system: gn.System, name: str, words: str
) -> Iterator[str]:
    """Each comparison of a case."""
    says, motion = method.guarantees, made.motion()
    v0 = made.v0
    xi0 = made.admissible(v0, made.speed, None, np)
    start = {"g0": made.g0, "xi0": xi0, "t0": made.t0}
    pieces = STEPS[says.order] * (2 if "feedback" in name else 1)

    of_time = made.compiled.setdefault("controls", lambda t: made.control(t, jnp))  # one, which is compiled once

    def drive(n: int) -> dict:
        if made.control_kind == "none":
            return {}
        if made.control_kind == "function":
            return {"controls": of_time}
        return {"controls": np.array([made.control(made.t0 + made.span * k / n, np) for k in range(n + 1)])}

    def solved(n: int, who: Any = system, **changes: Any) -> Any:
        given = start | {"dt": made.span / n, "n_steps": n} | drive(n) | changes
        return gn.solve(who, method, **given)

    try:
        runs = [solved(pieces)]
    except gn.IntegrationError as error:
        yield f"~failed: {str(error)[:120]}"
        pieces *= 8
        runs = [solved(pieces)]
    except (ValueError, TypeError) as error:
        raise Refused(f"{name.split()[0]}: {str(error)[:110]}") from None
    v1, xi1 = motion.run(made.t0, v0, xi0, made.t0 + made.span)
    size = 1 + np.abs(v1).max() + np.abs(xi1).max()

    def error_of(run: Any) -> float:
        return max(away(run.g_vector[-1], v1), away(run.xi[-1], xi1)) / size

    runs += [solved(2 * pieces), solved(4 * pieces)]
    errors = [error_of(run) for run in runs]
    n = 4 * pieces
    floor = 3e-11
    while errors[-1] > floor and np.log2(errors[-2] / errors[-1]) < says.order - 0.4 and n < 64 * pieces:
        n *= 2
        errors.append(error_of(solved(n)))
    if not errors[-1] <= floor and not np.log2(errors[-2] / errors[-1]) > says.order - 0.4:
        yield f"order {says.order}: errors {' '.join(f'{e:.2g}' for e in errors)} [{words}]"

    run = runs[0]
    # --- constraints, energy, multipliers at the nodes -----------------------------------------------------
    scale = 1 + np.abs(run.xi).max() ** (2 if made.kind == "nonlinear" else 1)
    residual = np.abs(run.constraint_residual).max(initial=0.0)
    if says.constraint == "nodes" and not residual < 3e-14 * scale * (1 + np.abs(made.mu).max(initial=0)):
        yield f"constraint residual {residual:.3g} [{words}]"
    if made.k and says.constraint != "none" and not np.abs(run.holonomic_residual).max() < 1e-13 * scale:
        yield f"holonomic residual {np.abs(run.holonomic_residual).max():.3g} [{words}]"
    free = not made.has_forces and not made.timed and "affine" not in made.kind and made.kind != "nonlinear"
    free = free and not made.across
    if free and says.energy in ("always", "projected"):
        drift = np.ptp(run.energy)
        if not drift < 1e-12 * (1 + np.abs(run.energy).max()):
            yield f"energy drifts by {drift:.3g} [{words}]"
    compact = set(made.space_name.split()) <= {"R1", "R2", "R3", "R4", "R5", "T1", "T2", "SO2", "SO3", "SO3op"}
    if free and says.energy == "bi-invariant" and made.metric_kind == "bi-invariant" and compact and not made.k:
        plain = made.linear_of is None and made.quartic == 0
        energy = run.energy_minus if says.node == "impulse" else run.energy
        if plain and not np.ptp(energy) < 1e-12 * (1 + np.abs(energy).max()):
            yield f"bi-invariant energy drifts by {np.ptp(energy):.3g} [{words}]"
    for i in (0, len(run) // 2, len(run) - 1):
        v, xi, t = run.g_vector[i], run.xi[i], run.t[i]
        if says.constraint != "nodes" and i:
            continue
        rate, lam = motion.accelerations(t, v, xi)
        g = jax.tree.map(lambda a, i=i: a[i], run.g)
        u = None if made.control_kind == "none" else made.control(t, np)
        ours = gn.mechanics.accelerations(system, t, g, xi, u)
        near = 1e-9 * (1 + np.abs(lam).max(initial=0) + np.abs(rate).max())
        if not max(away(ours[0], rate), away(ours[1], lam)) < near:
            yield f"accelerations {ours} for {rate, lam} [{words}]"
        if not away(run.multipliers[i], lam) < near:
            yield f"multipliers at node {i}: {run.multipliers[i]} for {lam} [{words}]"
        energy = xi @ motion.momentum(t, v, xi) - motion.lagrangian(t, v, xi)
        if not away(run.energy[i], energy) < 1e-12 * (1 + abs(energy)):
            yield f"energy at node {i}: {run.energy[i]} for {energy} [{words}]"

    # --- tolerance -----------------------------------------------------------------------------------------
    steps = "rkmk8" in name or "rkmk5" in name or says.symmetric
    some = 0.25 if made.drawn else 1.0  # many draws are for what one program does with other numbers
    if rng.random() < 0.12 * some and made.control_kind != "values" and steps:
        tolerance = float(rng.choice([1e-4, 1e-6, 1e-8]))
        given = start | drive(1) | {"t_end": made.t0 + made.span, "tolerance": tolerance}
        try:
            chosen = gn.solve(system, method, **given)
        except (ValueError, TypeError) as error:
            yield f"~refused tolerance: {name.split()[0]}: {str(error)[:90]}"
        else:
            yield "~tolerances"
            if not error_of(chosen) < 30 * tolerance:
                yield f"tolerance {tolerance}: error {error_of(chosen):.3g} [{words}]"

    # --- integrate, ensembles ------------------------------------------------------------------------------
    every = int(rng.choice([1, 1, 2]))
    given = start | {"dt": made.span / pieces, "n_steps": pieces} | drive(pieces)
    with gn.float64():
        traced = gn.integrate(system, method, save_every=every, **given)
        same = away(made.flat_path(traced.g), run.g_vector[::every][: len(traced.t)]) if pieces % every == 0 else 0.0
        if pieces % every == 0 and max(same, away(traced.xi, run.xi[::every])) > 0:
            yield f"integrate is not solve: {same:.3g}, {away(traced.xi, run.xi[::every]):.3g} [{words}]"
    if rng.random() < 0.4 * some and not made.k:
        speeds = made.speed + 0.1 * rng.normal(size=(3, made.space.dim))
        ks = made.parameters["k"] + 0.05 * rng.normal(size=3)
        plist = [made.parameters | ({"k": k} if made.takes else {}) for k in ks]
        starts = np.array([made.admissible(v0, s, p, np) for s, p in zip(speeds, plist, strict=True)])
        more = {"parameters": {"k": ks}} if made.takes else {}
        batch = gn.solve_ensemble(system, method, save_every=1, **(given | {"xi0": starts} | more))
        yield "~ensembles"
        for i in range(3):
            who = system.with_parameters(k=ks[i]) if made.takes else system
            single = solved(pieces, who, xi0=starts[i])
            for what in ("xi", "g_vector", "energy", "multipliers", "p_plus", "p_minus", "constraint_residual"):
                d = away(getattr(batch[i], what), getattr(single, what))
                if not d <= 0:
                    yield f"member {i} of an ensemble: {what} differs by {d:.3g} [{words}]"

    # --- derivatives ---------------------------------------------------------------------------------------
    if made.kind != "nonlinear" and made.drawn:
        yield "~gradients"
        yield from slope_of_a_draw(made, rng, method, system, drive, pieces, words)
    elif made.kind != "nonlinear" and rng.random() < 0.35:
        yield "~gradients"
        yield from slopes(made, rng, method, system, drive, pieces, words)


def slope_of_a_draw(
    made: Case, rng: np.random.Generator, method: Any, system: gn.System, drive: Callable, pieces: int, words: str
) -> Iterator[str]:
    """The derivative of a function of the end, along a random direction of all numbers, against differences.

    One program of ``integrate`` serves all draws of a case: in reverse mode for even seeds, forward for odd ones. With
    constraints on positions the numbers of the constraints stay, and the start moves along them.
    """
    n, nodal = made.space.dim, made.control_kind == "values"
    held = {"phase", "phi_of", "level", "mu", "B", "c"} if made.k else set()
    xi0 = made.admissible(made.v0, made.speed, None, np)
    moved: dict[str, Any] = {"p": {key: v for key, v in made.parameters.items() if key not in held}}
    moved |= {"dt": made.span / pieces, "speed": made.speed}
    fixed: dict[str, Any] = {"p": {key: v for key, v in made.parameters.items() if key in held}, "g0": made.g0}
    if made.k:
        other = made.admissible(made.v0, made.speed + rng.normal(size=n), None, np)
        fixed |= {"t0": made.t0, "xi0": xi0, "along": other - xi0}
        moved["speed"] = 0.0
    else:
        moved |= {"place": np.zeros(n), "t0": made.t0}
    if nodal:
        moved |= drive(pieces)
    controls = {} if nodal else drive(pieces)
    weights = (rng.normal(size=made.space.size), rng.normal(size=n), 0.1 * rng.normal(size=made.m + made.k))

    def value(moved: dict, fixed: dict, weights: tuple, xp: Any) -> Any:
        p, g0 = moved["p"] | fixed["p"], fixed["g0"]
        t0 = fixed["t0"] if made.k else moved["t0"]
        if made.k:
            start = fixed["xi0"] + moved["speed"] * fixed["along"]
        else:
            g0 = made.group.compose(g0, made.group.exp(jnp.asarray(moved["place"])))
            g0 = jax.tree.map(np.asarray, g0) if xp is np else g0
            start = made.admissible(made.flat(g0, xp), moved["speed"], p, xp, t0)
        given = {"g0": g0, "xi0": start, "t0": t0, "dt": moved["dt"], "n_steps": pieces, **controls}
        if nodal:
            given["controls"] = moved["controls"]
        run = (gn.solve if xp is np else gn.integrate)(system.with_parameters(**p), method, **given)
        ends = made.flat(jax.tree.map(lambda a: a[-1], run.g), xp), run.xi[-1], run.multipliers[-1]
        return sum(w @ end for w, end in zip(weights[: 2 if nodal else 3], ends, strict=False))

    def along(moved: dict, direction: dict, fixed: dict, weights: tuple) -> Any:
        if made.seed % 2:
            return jax.jvp(lambda moved: value(moved, fixed, weights, jnp), (moved,), (direction,))
        end, slope = jax.value_and_grad(value)(moved, fixed, weights, jnp)
        return end, sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(direction), strict=True))

    moved = jax.tree.map(np.asarray, moved)
    direction = jax.tree.map(lambda a: rng.normal(size=a.shape) / np.sqrt(1 + a.size), moved)
    direction["dt"] = 0.3 * moved["dt"] * direction["dt"]
    for key in direction["p"].keys() & {"M", "S"}:
        direction["p"][key] = 0.5 * (direction["p"][key] + np.swapaxes(direction["p"][key], -1, -2))
    with gn.float64():
        program = made.compiled.setdefault(pieces, jax.jit(along))
        got, slope = (float(v) for v in program(moved, direction, fixed, weights))

    def beside(s: float) -> float:
        there = jax.tree.map(lambda a, e: a + s * e, moved, direction)
        there |= {key: float(there[key]) for key in ("dt", "t0") if key in there}
        with gn.float64():
            return float(value(there, fixed, weights, np))

    want = beside(0.0)
    if not abs(got - want) <= 1e-13 * (1 + abs(want)):
        yield f"value of integrate {got} for {want} of solve [{words}]"
    for size in (1e-3, 1e-5, 1e-7):  # narrower ones where a motion is steep
        wide, narrow = (
            (8 * (beside(h) - beside(-h)) - (beside(2 * h) - beside(-2 * h))) / (12 * h) for h in (size, size / 2)
        )
        if abs(slope - narrow) <= LIMIT * (1 + abs(slope)) + 5 * abs(wide - narrow):
            return
    yield f"slope {slope} for {narrow} ± {abs(wide - narrow):.1g} [{words}]"


def slopes(
    made: Case, rng: np.random.Generator, method: Any, system: Any, drive: Callable, pieces: int, words: str
) -> Iterator[str]:
    """Derivatives of a function of the end by ``integrate``, against differences of ``solve``."""
    n, size = made.space.dim, made.space.size
    w_g, w_xi, w_lam = rng.normal(size=size), rng.normal(size=n), 0.1 * rng.normal(size=made.m + made.k)
    if made.control_kind == "values":
        w_lam = 0.0 * w_lam
    e_weight = float(rng.choice([0.0, 0.3]))
    spaced = bool(rng.random() < 0.25) and made.control_kind != "values"  # nodes that are not kept are made again
    pieces = 70 if spaced else pieces
    given: dict[str, Any] = {"n_steps": pieces, "save_every": 70 if spaced else int(rng.choice([1, pieces]))}
    by = {"speed": made.speed, "dt": np.asarray(made.span / pieces)}
    if made.takes:
        by |= {"k": np.asarray(made.parameters["k"]), "c": np.asarray(made.parameters["c"])}
    if not made.k:
        by |= {"place": np.zeros(n), "t0": np.asarray(made.t0)}
    controls = drive(pieces)
    if made.control_kind == "values":
        by["controls"] = controls["controls"]
        controls = {}
    given |= controls

    def arguments(at: dict, xp: Any) -> tuple[Any, dict]:
        p = {"k": at["k"], "c": at["c"]} if made.takes else None
        who = system.with_parameters(**p) if made.takes else system
        t0 = at.get("t0", made.t0)
        g0 = made.group.compose(made.g0, made.group.exp(jnp.asarray(at["place"]))) if "place" in at else made.g0
        g0 = jax.tree.map(np.asarray, g0) if xp is np else g0
        xi0 = made.admissible(made.flat(g0, xp), at["speed"], p, xp, t0)
        rest = {"controls": at["controls"]} if "controls" in at else {}
        return who, {"g0": g0, "xi0": xi0, "dt": at["dt"], "t0": t0, **given, **rest}

    def value(run: Any, xp: Any) -> Any:
        g = jax.tree.map(lambda a: a[-1], run.g)
        out = w_g @ made.flat(g, xp) + w_xi @ run.xi[-1]
        if e_weight:
            out = out + e_weight * run.energy[-1]
        return out + w_lam @ run.multipliers[-1] if w_lam.any() else out

    def traced(at: dict) -> Any:
        who, rest = arguments(at, jnp)
        return value(gn.integrate(who, method, **rest), jnp)

    def plain(at: dict) -> float:
        with gn.float64():
            who, rest = arguments(at, np)
        rest |= {"dt": float(rest["dt"]), "t0": float(rest["t0"])}
        return float(value(gn.solve(who, method, **rest), np))

    mode = str(rng.choice(["grad", "jit grad", "jacfwd"]))
    with gn.float64():
        at = jax.tree.map(jnp.asarray, by)
        derivative = {"grad": jax.grad, "jit grad": lambda f: jax.jit(jax.grad(f)), "jacfwd": jax.jacfwd}[mode](traced)
        found = jax.tree.map(np.asarray, derivative(at))
        got = float(traced(at))
    want = plain(by)
    if not abs(got - want) <= 1e-13 * (1 + abs(want)):
        yield f"value of integrate {got} for {want} of solve [{words}]"
    for key, base in by.items():
        # along each entry, or along a random direction where there are many
        directions = np.eye(base.size) if base.size <= 2 else rng.normal(size=(2, base.size))
        for d in directions:
            e = d.reshape(base.shape)

            def moved(s: float, key: str = key, e: np.ndarray = e) -> float:
                return plain(by | {key: by[key] + s * e})

            estimates = []
            for h in (1e-3, 5e-4) if key != "dt" else (1e-3 * abs(by["dt"]), 5e-4 * abs(by["dt"])):
                estimates.append((8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h))
            slope = float(np.sum(found[key] * e))
            doubt = abs(estimates[0] - estimates[1])
            if not abs(slope - estimates[1]) <= LIMIT * (1 + abs(slope)) + 5 * doubt:
                yield f"{mode} by {key}: {slope} for {estimates[1]} ± {doubt:.1g} [{words}]"


def count(seed: int, draws: int) -> Iterator[str]:
    """A case without the warnings of what it does."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield from case(seed, draws)
    yield from sorted({f"~warning {w.category.__name__}: {str(w.message)[:60]}" for w in seen})


if __name__ == "__main__":
    hunt(count, __doc__, draws=1)

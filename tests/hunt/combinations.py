"""Features together that should not change numbers: the bits of a run with and without them.

``python tests/hunt/combinations.py --seeds 0 500 --seconds 1500``; a seed always makes the same case, but for the
moment at which a process is killed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "export"))
from bouncing import bouncing
from compiled import Linked
from hunting import hunt
from systems import NODAL, Case, Refused, away

import geonh as gn
from geonh.systems import catalogue

PATHS = ("t", "g_vector", "xi", "p_plus", "p_minus")
READ = (
    *PATHS,
    "multipliers",
    "impulse_multipliers",
    "energy",
    "energy_minus",
    "constraint_residual",
    "k",
    "alternation",
)


class Base:
    """A run: a random system, or one of the catalogue, with a method and a start."""

    def __init__(self, seed: int):
        rng = self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.controls: Any = None
        if rng.random() < 0.6:
            made = Case(rng, seed)
            self.name, self.method = made.method()
            self.system = made.system()
            self.parameters = {"k": 0.1} if made.takes else {}
            if made.kind != "nonlinear":
                self.admissible = lambda speed, p: made.admissible(made.v0, speed, p, np)
            xi0 = made.admissible(made.v0, made.speed, None, np)
            self.g0, self.xi0, self.t0, self.n = made.g0, xi0, made.t0, int(rng.integers(8, 20))
            self.dt = made.span / self.n
            if made.control_kind != "none":
                self.controls = lambda t: made.control(t, jnp)
            self.made: Case | None = made
            self.autonomous = not made.timed and not made.pushed and self.controls is None and not made.across
            self.words = f"{made.space_name} {made.kind} {made.metric_kind} base {made.base} {sorted(made.timed)}"
        else:
            name = str(rng.choice(list(catalogue)))
            entry = catalogue[name]
            self.system, self.made = entry.system(), None
            begin = entry.start(self.system)
            with gn.float64():
                one = self.system.group.exp(jnp.zeros(self.system.group.dim))
            identity = one if begin.g0 is None else begin.g0
            self.g0, self.xi0, self.t0 = jax.tree.map(np.asarray, identity), begin.xi0, float(rng.choice([0.0, 0.7]))
            self.dt, self.n, self.controls = entry.dt, int(rng.integers(8, 20)), entry.controls
            self.name = str(
                rng.choice(["gauss4", "rkmk4", "projected", "gni", "gauss6", "lobatto4", "rkmk8", "midpoint"])
            )
            self.method = gn.methods[self.name].make()
            self.parameters, self.autonomous, self.words = {}, False, name
        if self.controls is not None and self.name.split()[0] in NODAL and rng.random() < 0.6:
            u = self.controls
            with gn.float64():
                self.controls = np.array([np.asarray(u(self.t0 + self.dt * k)) for k in range(3 * self.n + 1)])
        self.words += f", {self.name}, controls {type(self.controls).__name__}, t0 {self.t0:.3g}, dt {self.dt:.3g}"

    @property
    def start(self) -> dict[str, Any]:
        """Arguments of a run but for its length."""
        given = {"g0": self.g0, "xi0": self.xi0, "t0": self.t0, "dt": self.dt}
        return given if self.controls is None else given | {"controls": self.controls}

    def run(self, n: int | None = None, **changes: Any) -> gn.Trajectory:
        """By ``solve``."""
        return gn.solve(self.system, self.method, **({"n_steps": n or self.n} | self.start | changes))


def differ(a: Any, b: Any, names: tuple[str, ...] = PATHS, within: float = 0.0) -> Iterator[str]:
    """Names in which two results differ, with the largest difference."""
    for name in names:
        x, y = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        if x.shape != y.shape:
            yield f"{name} has shape {x.shape}, not {y.shape}"
        elif not np.array_equal(x, y, equal_nan=True) and not away(x, y) <= within * (1 + np.abs(y).max(initial=0)):
            yield f"{name} differs by {away(x, y):.3g}"


def some_event(run: gn.Trajectory, rng: np.random.Generator, stop: bool = False) -> gn.Event:
    """An event that a run meets in its middle, most likely."""
    i = int(rng.integers(run.xi.shape[1]))
    level = float(np.median(run.xi[:, i])) + 1e-3
    kinds = [lambda t, g, xi, lam: xi[i] - level, lambda t, g, xi, lam, p: xi[i] - level + 0.0 * t]
    return gn.Event(kinds[int(rng.integers(2))], stop=stop, name="middle")


# --- features: each yields what is wrong ------------------------------------------------------------------------
def saved(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """A file holds what was written, and a run goes on from it."""
    whole = base.run(2 * base.n)
    events = some_event(whole, base.rng) if base.rng.random() < 0.5 else ()
    half = base.run(events=events)
    path = half.save(folder / "a.nc")
    back = gn.Trajectory.load(path, system=base.system if base.rng.random() < 0.5 else None)
    yield from differ(back, half, READ)
    if events:
        for name in ("t", "g", "xi", "multipliers"):
            x, y = (jax.tree.leaves(getattr(r.events["middle"], name)) for r in (back, half))
            if not all(np.array_equal(a, b) for a, b in zip(x, y, strict=True)):
                yield f"events: {name} differs"
    on = gn.resume(path, base.n, system=base.system, method=base.method, controls=base.controls, events=events)
    yield from (f"from the file: {line}" for line in differ(on, whole, READ))
    yield from differ(gn.resume(half, base.n), whole, READ)
    if events:
        again = base.run(2 * base.n, events=events)
        if not np.array_equal(again.events["middle"].t, on.events["middle"].t):
            yield f"events of the run that went on: {on.events['middle'].t} for {again.events['middle'].t}"
    for other in (half.to_xarray(), back.to_xarray()):
        if not np.array_equal(other["xi"].values, half.xi):
            yield "to_xarray: xi differs"


def damaged(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Files that are cut or edited are refused, or read as they were."""
    path = run.save(folder / "b.nc")
    whole = path.read_bytes()
    for _ in range(6):
        data, kind = bytearray(whole), str(base.rng.choice(["cut", "flip", "zeros", "grown"]))
        at = int(base.rng.integers(len(data)))
        if kind == "cut":
            data = data[:at]
        elif kind == "flip":
            data[at] ^= 1 << int(base.rng.integers(8))
        elif kind == "zeros":
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        else:
            data += b"\0" * 100
        path.write_bytes(data)
        try:
            back = gn.Trajectory.load(path)
        except (ValueError, OSError) as error:
            if "geonh" not in type(error).__module__ and type(error) not in (ValueError, OSError, FileNotFoundError):
                yield f"{kind} at {at}: {type(error).__name__}: {error}"
        except Exception as error:
            yield f"{kind} at {at} of {len(whole)}: {type(error).__name__}: {str(error)[:150]}"
        else:
            yield from (
                f"{kind} at {at} of {len(whole)} is read without an error: {line}" for line in differ(back, run)
            )
    path.write_bytes(whole)
    import netCDF4

    with netCDF4.Dataset(path, "a") as file:  # a number that another program changed
        name = str(base.rng.choice([n for n, v in file.variables.items() if v.dtype == np.float64 and v.size > 1]))
        flat = file.variables[name][...]
        flat[(0,) * flat.ndim] += 1e-3
        file.variables[name][...] = flat
    try:
        back = gn.Trajectory.load(path)
    except ValueError:
        pass
    else:
        yield from (f"{name} was edited, and is read without an error: {line}" for line in differ(back, run, READ))


def every(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Saved nodes are those of the run; progress and looks at observables change nothing."""
    k = int(base.rng.integers(2, 5))
    rare = base.run(save_every=k, progress=lambda done, total: None, throw=False, checkpoint=folder / "c.nc")
    if not set(range(0, base.n + 1, k)) <= set(rare.k.tolist()):
        yield f"save_every={k}: nodes {rare.k}"
    for name in PATHS:
        if not np.array_equal(getattr(rare, name), getattr(run, name)[rare.k]):
            yield f"save_every={k}: {name} differs by {away(getattr(rare, name), getattr(run, name)[rare.k]):.3g}"
    yield from differ(gn.resume(folder / "c.nc", base.n, **with_system(base)), gn.resume(rare, base.n), READ)


def with_system(base: Base) -> dict[str, Any]:
    """What a file does not hold."""
    return {"system": base.system, "method": base.method, "controls": base.controls}


def times(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """The end given as a time, nodes as times, and times between."""
    end = float(run.t[-1])
    if base.controls is None or callable(base.controls):
        timed = gn.solve(base.system, base.method, **base.start, t_end=end)
        if len(timed) == len(run):
            yield from differ(timed, run, within=1e-12)
        else:
            yield f"t_end={end!r} makes {len(timed) - 1} steps, not {base.n}"
    seen = run(run.t)
    yield from (f"run(t): {line}" for line in differ(seen, run, ("t", "g_vector", "xi")))
    some = np.sort(base.rng.uniform(*sorted((run.t[0], run.t[-1])), 5))[:: int(np.sign(base.dt))]
    given = base.run(t_eval=some)
    yield from (
        f"t_eval: {line}" for line in differ(given, run(some), ("t", "g_vector", "xi", "energy", "multipliers"))
    )
    kept = gn.Trajectory.load(given.save(folder / "d.nc"))
    yield from (f"saved t_eval: {line}" for line in differ(kept, given, ("t", "g_vector", "xi", "energy")))
    near = run.interpolate(some)
    h = abs(base.dt)
    off = max(away(a, b) for a, b in zip(jax.tree.leaves(near[0]), jax.tree.leaves(given.g), strict=True))
    if not off < 50 * h**3 * (1 + np.abs(run.xi).max()) ** 3:
        yield f"interpolate is off by {off:.3g}"


def shifted(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Of an autonomous system, another initial time."""
    if not base.autonomous:
        return
    other = base.run(t0=base.t0 + float(base.rng.choice([1.0, -7.25, 0.1])))
    yield from differ(other, run, ("g_vector", "xi", "p_plus"), within=0.0)


def back(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """A symmetric method goes back to where it began."""
    says = base.method.guarantees
    if not says.symmetric or says.node != "velocity" or base.controls is not None or says.constraint == "none":
        return
    g = jax.tree.map(lambda a: a[-1], run.g)
    way = gn.solve(base.system, base.method, g0=g, xi0=run.xi[-1], t0=run.t[-1], dt=-base.dt, n_steps=base.n)
    off = max(away(way.g_vector[-1], run.g_vector[0]), away(way.xi[-1], run.xi[0]))
    if not off < 1e-9 * (1 + np.abs(run.xi).max()):
        yield f"the way back ends {off:.3g} from the start"


def events(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Events change no node; one that stops ends the run before it."""
    event = some_event(run, base.rng)
    seen = base.run(events=[event, gn.Event(lambda t, g, xi, lam: t - base.t0 - 2.5 * base.dt, name="time")])
    yield from differ(seen, run, READ)
    at = seen.events["time"].t
    if len(at) != 1 or not away(at, base.t0 + 2.5 * base.dt) < 1e-10:
        yield f"an event at the time {base.t0 + 2.5 * base.dt} is found at {at}"
    t = seen.events["middle"].t
    stop = gn.Event(event.function, stop=True, name="middle")
    short = base.run(events=stop)
    n = len(short)
    if len(t):
        sign = np.sign(base.dt)
        n_before = int(np.sum(sign * (run.t - t[0]) <= 0))
        if n not in (n_before, n_before - 1) or not np.array_equal(short.events["middle"].t, t[:1]):
            yield f"stopped at {short.events['middle'].t} after {n} nodes; the events are at {t}"
    elif n != len(run):
        yield f"stopped at {short.events['middle'].t}, where no event was"
    yield from (f"stopped: {d}" for d in differ_first(short, run, n))


def differ_first(a: Any, b: Any, n: int) -> Iterator[str]:
    """As ``differ``, of the first nodes."""
    for name in PATHS:
        if not np.array_equal(getattr(a, name), getattr(b, name)[:n]):
            yield f"{name} differs by {away(getattr(a, name), getattr(b, name)[:n]):.3g}"


def traced(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Under jit and vmap."""
    given = {k: v for k, v in base.start.items() if k not in ("xi0", "dt")}
    with gn.float64():

        def end(xi0: Any, dt: Any) -> tuple:
            made = gn.integrate(base.system, base.method, xi0=xi0, dt=dt, n_steps=base.n, **given)
            return made.xi, made.t, made.energy, made.multipliers, jax.tree.leaves(made.g), made.status

        xi, t, energy, lam, _, status = jax.jit(end)(jnp.asarray(base.xi0), base.dt)
        many = jax.vmap(end, in_axes=(0, None))(jnp.stack([jnp.asarray(base.xi0)] * 3), base.dt)
    for name, value in {"xi": xi, "t": t}.items():
        if not np.array_equal(value, getattr(run, name)):
            yield f"jit: {name} differs by {away(value, getattr(run, name)):.3g}"
    for name, value in {"energy": energy, "multipliers": lam}.items():
        if not away(value, getattr(run, name)) <= 1e-12 * (1 + np.abs(getattr(run, name)).max(initial=0)):
            yield f"jit: {name} differs by {away(value, getattr(run, name)):.3g}"
    if np.asarray(status).any():
        yield f"jit: status {status}"
    for j in range(3):
        if not np.array_equal(many[0][j], run.xi):
            yield f"vmap: member {j} differs by {away(many[0][j], run.xi):.3g}"


def together(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Ensembles, by threads, in a store and streamed."""
    rng = base.rng
    n = int(rng.integers(2, 6))
    given = base.start | {"n_steps": base.n}
    varied: dict[str, Any] = {"dt": base.dt * rng.uniform(0.8, 1.0, n)}
    if callable(base.controls) or base.controls is None:
        if rng.random() < 0.5:
            varied = {"t0": base.t0 + (rng.uniform(0, 1, n) if base.autonomous else np.zeros(n))}
        if rng.random() < 0.3:
            varied |= {"xi0": np.array([base.xi0] * n)}
    elif rng.random() < 0.5:
        varied = {"controls": np.stack([base.controls * (1 - 0.1 * i) for i in range(n)])}
    event = some_event(run, rng, stop=bool(rng.random() < 0.3)) if rng.random() < 0.4 else ()
    step = int(rng.choice([k for k in range(1, base.n + 1) if base.n % k == 0]))
    common = given | varied | {"events": event, "save_every": step}
    many = gn.solve_ensemble(base.system, base.method, threads=2, **common)
    one = gn.solve_ensemble(base.system, base.method, threads=1, **common)
    for i in range(n):
        single = gn.solve(
            base.system,
            base.method,
            throw=False,
            **(given | {k: v[i] for k, v in varied.items()}),
            events=event,
            save_every=step,
        )
        yield from (f"member {i} of {list(varied)}: {line}" for line in differ(many[i], single, READ))
        if not np.array_equal(many.energy[i], one.energy[i], equal_nan=True):
            yield f"member {i}: threads change its energy"
        if event and not np.array_equal(many[i].events["middle"].t, single.events["middle"].t[:1]):
            yield f"member {i}: events {many[i].events['middle'].t} for {single.events['middle'].t}"
    if rng.random() < 0.6:
        observed = {"energy": "energy", "own": lambda t, g, xi, lam: 2.0 * xi, "xi": "xi"}
        sweep = gn.Sweep.of(base.system, base.method, **common, observables=observed)
        with sweep.run(folder / "s.zarr", shard=2) as data:
            for i in range(n):
                if not np.array_equal(data.energy.values[i], many.energy[i], equal_nan=True):
                    yield f"store: energy of member {i} differs"
                if not np.array_equal(data.own.values[i], 2 * many.xi[i], equal_nan=True):
                    yield f"store: observable of member {i} differs"


def streamed(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """A run in a store, in two parts."""
    store = {"store": folder / "t.zarr", "save_every": int(base.rng.choice([1, 2]))}
    if isinstance(base.controls, np.ndarray):
        return
    for n in (base.n, 2 * base.n):
        n -= n % store["save_every"]
        data = gn.stream(base.system, base.method, **base.start, **store, n_steps=n)
    whole = base.run(n, save_every=store["save_every"])
    for name, value in {"g": whole.g_vector, "p_plus": whole.p_plus, "p_minus": whole.p_minus}.items():
        if not np.array_equal(data[name].values, value):
            yield f"stream: {name} differs by {away(data[name].values, value):.3g}"
    if not np.array_equal(data.time.values, whole.t):
        yield "stream: time differs"
    data.close()
    files = sorted(
        p for p in (folder / "t.zarr").rglob("*") if p.is_file() and p.stat().st_size and "lock" not in p.name
    )
    path = files[int(base.rng.integers(len(files)))]
    whole_file = bytearray(path.read_bytes())
    at = int(base.rng.integers(len(whole_file)))
    whole_file[at] ^= 1 << int(base.rng.integers(8))
    path.write_bytes(whole_file)
    try:
        with gn.open_store(folder / "t.zarr") as data:
            for name, value in {"g": whole.g_vector, "p_plus": whole.p_plus, "p_minus": whole.p_minus}.items():
                got = data[name].values
                if not np.array_equal(got, value) and not np.isnan(got[got != value]).all():
                    yield f"a bit of {path.relative_to(folder)} was changed, and {name} is read without an error"
    except (ValueError, OSError, RuntimeError):
        pass
    except Exception as error:
        yield f"a bit of {path.relative_to(folder)}, byte {at}: {type(error).__name__}: {str(error)[:150]}"


def tolerance(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Steps that a tolerance chooses."""
    if isinstance(base.controls, np.ndarray) or base.method.guarantees.node != "velocity":
        return
    says = base.method.guarantees
    if not (says.embedded or says.symmetric) or says.order < 4:
        return
    given = {k: v for k, v in base.start.items() if k != "dt"} | {"tolerance": 1e-6}
    end = base.t0 + base.n * base.dt
    whole = gn.solve(base.system, base.method, **given, t_end=end)
    if whole.t[-1] != end:
        yield f"tolerance: ends at {whole.t[-1]!r}, not {end!r}"
    kept = gn.Trajectory.load(whole.save(folder / "e.nc"))
    yield from (f"tolerance, file: {line}" for line in differ(kept, whole, READ))
    at = whole(np.linspace(base.t0, end, 4))
    given_times = gn.solve(base.system, base.method, **given, t_eval=np.linspace(base.t0, end, 4))
    yield from (f"tolerance, t_eval: {line}" for line in differ(given_times, at, ("t", "g_vector", "xi")))
    many = gn.solve_ensemble(base.system, base.method, **(given | {"xi0": np.array([base.xi0] * 2)}), t_end=end)
    yield from (f"tolerance, ensemble: {line}" for line in differ_ends(many[1], whole))
    with gn.float64():
        traced = gn.integrate(base.system, base.method, **given, t_end=end, n_steps=len(whole) + 5)
    if not np.array_equal(np.asarray(traced.xi)[: len(whole)], whole.xi):
        yield f"tolerance, integrate: xi differs by {away(np.asarray(traced.xi)[: len(whole)], whole.xi):.3g}"
    fine = base.run(16 * base.n, dt=base.dt / 16)
    size = 1 + np.abs(fine.xi).max()
    if says.order >= 4 and not away(fine.xi[-1], whole.xi[-1]) < 1e-3 * size:
        yield f"tolerance 1e-6: {away(fine.xi[-1], whole.xi[-1]):.3g} from a run of small steps"


def differ_ends(a: Any, b: Any) -> Iterator[str]:
    """As ``differ``, of first and last nodes."""
    for name in PATHS:
        for i in (0, -1):
            if not np.array_equal(getattr(a, name)[i], getattr(b, name)[i]):
                yield f"{name} differs by {away(getattr(a, name)[i], getattr(b, name)[i]):.3g}"


def parameters(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Parameters changed, and a system made with them; traced ones too."""
    if not base.parameters or base.made is None or base.made.kind == "nonlinear":
        return
    new = {"k": base.made.parameters["k"] * 1.1, "c": base.made.parameters["c"] * 0.9}
    made = base.made
    xi0 = base.admissible(made.speed, new)
    changed = gn.solve(base.system.with_parameters(**new), base.method, **(base.start | {"xi0": xi0}), n_steps=base.n)
    old, made.parameters = made.parameters, new
    fresh = gn.solve(made.system(), base.method, **(base.start | {"xi0": xi0}), n_steps=base.n)
    takes, made.takes = made.takes, False
    plain = gn.solve(made.system(), base.method, **(base.start | {"xi0": xi0}), n_steps=base.n)
    made.parameters, made.takes = old, takes
    yield from (f"with_parameters: {line}" for line in differ(changed, fresh, READ))
    yield from (f"numbers for parameters: {line}" for line in differ(plain, fresh, within=1e-9))
    many = gn.solve_ensemble(
        base.system,
        base.method,
        **(base.start | {"xi0": xi0}),
        n_steps=base.n,
        parameters={k: np.array([v, v]) for k, v in new.items()},
    )
    yield from (f"parameters of a member: {line}" for line in differ_ends(many[1], fresh))
    with gn.float64():

        def end(p: dict) -> Any:
            return gn.integrate(
                base.system.with_parameters(**p), base.method, **(base.start | {"xi0": xi0}), n_steps=base.n
            ).xi

        xi = jax.jit(end)(new)
    if not np.array_equal(xi, fresh.xi):
        yield f"traced parameters: xi differs by {away(xi, fresh.xi):.3g}"


def exported(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Code for C."""
    if isinstance(base.controls, np.ndarray):
        return
    changes: dict[str, Any] = {}
    system, xi0 = base.system, base.xi0
    if base.parameters and base.made is not None and base.made.kind != "nonlinear":
        new = {"k": base.made.parameters["k"] * 1.1, "c": base.made.parameters["c"] * 0.9}
        system, xi0 = system.with_parameters(**new), base.admissible(base.made.speed, new)
        by_name = {"k": new["k"], "c[0]": new["c"][0], "c[1]": new["c"][1]}
    given = {key: value for key, value in base.start.items()}
    built = gn.build(base.system, base.method, folder / "robot", target="c", **given)
    linked = Linked(built)
    model = built.model
    if system is not base.system:
        names = [quantity.name for quantity in model.parameters]
        changes = {
            "parameters": np.array([by_name[n] if n in by_name else by_name[n.replace("_", "[") + "]"] for n in names])
        }
        changes["velocity"] = np.asarray(xi0, float)
    state = linked.started(**changes)
    p = changes.get("parameters", model.defaults["parameters"])
    status = linked.advance(p, model.inputs, state, base.n)
    one = gn.solve(system, base.method, **(given | {"xi0": xi0}), n_steps=base.n)
    if status:
        yield f"C: status {status}"
    values = np.array(list(linked.observed(state, **{k: v for k, v in changes.items() if k == "parameters"}).values()))
    leaves = [np.ravel(leaf[-1]) for leaf in jax.tree.leaves(one.g)]
    want = np.concatenate([one.t[-1:], *leaves, one.xi[-1], one.p[-1], one.energy[-1:], one.multipliers[-1]])
    if not np.array_equal(values[: len(want)], want):
        off = np.flatnonzero(values[: len(want)] != want)
        yield f"C: {[model.observed[i].name for i in off]} differ by {away(values[: len(want)], want):.3g}"


def killed(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """A process that is killed as it streams; the run goes on from what is there."""
    if isinstance(base.controls, np.ndarray) or base.rng.random() > 0.3:
        return
    n, store = 60_000, folder / "k.zarr"
    command = [sys.executable, __file__, "--stream", str(base.seed), str(n), str(store)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin = time.monotonic()
    while not store.exists() and process.poll() is None and time.monotonic() - begin < 60:
        time.sleep(0.05)
    time.sleep(float(base.rng.uniform(0, 0.6)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    yield "~killed"
    try:
        data = stream_of(base, n, store)
    except gn.IntegrationError:
        return
    whole = base.run(n, dt=base.dt / 200, save_every=20, throw=False)
    kept = whole.k % 20 == 0  # a run that fails has its last node besides
    got, want = data["g"].values[: kept.sum()], whole.g_vector[kept]
    if not np.array_equal(got, want):
        yield f"after a kill: g differs by {away(got, want):.3g}"


def stream_of(base: Base, n: int, store: Any) -> Any:
    """The run of ``killed``."""
    from geonh.ensembles import stream_run

    stream_run.SHARD = 50_000
    small = base.start | {"dt": base.dt / 200}
    return gn.stream(base.system, base.method, **small, n_steps=n, save_every=20, store=store)


def modes(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """A bouncing ball, with everything."""
    rng = base.rng
    ball = bouncing().with_parameters(e=float(rng.uniform(0.75, 0.95)), G=float(rng.uniform(5, 12)))
    name = str(rng.choice(["gauss4", "rkmk4", "gauss6", "midpoint", "rkmk8", "lobatto4"]))
    given = {
        "mode": "flight",
        "g0": [1.0],
        "xi0": [float(rng.normal())],
        "dt": float(rng.uniform(0.01, 0.025)),
        "t0": float(rng.normal()),
    }
    k = int(rng.choice([1, 2, 5]))
    whole = gn.solve(ball, name, **given, n_steps=80)
    rare = gn.solve(ball, name, **given, n_steps=80, save_every=k)
    half = gn.solve(ball, name, **given, n_steps=40)
    names = ("t", "g_vector", "xi", "p_plus", "mode", "energy")
    yield from (f"modes, resumed: {line}" for line in mode_differ(gn.resume(half, 40), whole, names))
    path = half.save(folder / "m.nc")
    yield from (f"modes, file: {line}" for line in mode_differ(gn.Trajectory.load(path), half, names))
    on = gn.resume(path, 40, system=ball, method=name)
    yield from (f"modes, resumed from a file: {line}" for line in mode_differ(on, whole, names))
    if not np.array_equal(on.switches.t, whole.switches.t):
        yield "modes: switches differ"
    if not np.array_equal(rare.switches.t, whole.switches.t) or not np.array_equal(rare.xi[-1], whole.xi[-1]):
        yield f"modes: save_every={k} changes the run"
    many = gn.solve_ensemble(ball, name, **(given | {"xi0": np.array([given["xi0"]] * 2)}), n_steps=80, save_every=k)
    if not np.array_equal(many[1].switches.t, whole.switches.t) or not np.array_equal(many[1].xi[-1], whole.xi[-1]):
        yield "modes: a member of an ensemble differs"
    with gn.float64():
        inside = jax.jit(lambda v: gn.integrate(ball, name, **(given | {"xi0": v}), n_steps=80).xi)(
            jnp.asarray(given["xi0"])
        )
    grid = [
        int(np.flatnonzero(np.isclose(whole.t, given["t0"] + i * given["dt"], rtol=0, atol=1e-12))[-1])
        for i in range(81)
    ]
    if away(inside, whole.xi[grid]) != 0.0:
        yield f"modes: integrate differs by {away(inside, whole.xi[grid]):.3g}"
    some = np.sort(rng.uniform(whole.t[0], whole.t[-1], 6))
    yield from (
        f"modes, t_eval: {line}"
        for line in mode_differ(gn.solve(ball, name, **given, n_steps=80, t_eval=some), whole(some), names[:3])
    )


def mode_differ(a: Any, b: Any, names: tuple[str, ...]) -> Iterator[str]:
    """As ``differ``, for texts too."""
    for name in names:
        if not np.array_equal(getattr(a, name), getattr(b, name)):
            yield f"{name} differs"


def adjoined(base: Base, run: gn.Trajectory, folder: Path) -> Iterator[str]:
    """Numbers as other types."""
    given = base.start | {"dt": np.float64(base.dt), "t0": np.array(base.t0), "xi0": list(map(float, base.xi0))}
    yield from differ(gn.solve(base.system, base.method, **given, n_steps=np.int64(base.n)), run, READ)
    if base.made is not None and callable(base.controls):
        u = base.made
        values = np.array([u.control(base.t0 + base.dt * k, np) for k in range(base.n + 1)])
        if base.name.split()[0] in NODAL:
            nodal = gn.solve(base.system, base.method, **(base.start | {"controls": values}), n_steps=base.n)
            yield from (f"controls as values: {line}" for line in differ(nodal, run, within=1e-10))


FEATURES: tuple[Callable, ...] = (
    *(saved, damaged, every, times, shifted, back, events, traced, together, streamed, tolerance, parameters, exported),
    *(killed, modes, adjoined),
)


def case(seed: int) -> Iterator[str]:
    """Two or three features of a seed."""
    try:
        base = Base(seed)
    except np.linalg.LinAlgError:
        yield "~no start"  # nonlinear constraints without one near
        return
    folder = Path(tempfile.mkdtemp())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = base.run()
        except (gn.IntegrationError, ValueError, Refused) as error:
            yield f"~no run: {str(error)[:60]}"
            return
        chosen = base.rng.choice(len(FEATURES), size=int(base.rng.integers(2, 4)), replace=False)
        for feature in (FEATURES[i] for i in chosen):
            place = folder / feature.__name__
            place.mkdir()
            yield f"~{feature.__name__}"
            try:
                for line in feature(base, run, place):
                    yield line if line.startswith("~") else f"{feature.__name__}: {line} [{base.words}]"
            except gn.IntegrationError as error:  # a longer run than the first, whose motion ends in finite time
                yield f"~failed: {str(error)[:60]}"
            except Exception as error:
                yield f"{feature.__name__}: {type(error).__name__}: {str(error)[:250]} [{base.words}]"
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stream"]:
        os.chdir(tempfile.gettempdir())
        stream_of(Base(int(sys.argv[2])), int(sys.argv[3]), sys.argv[4])
    else:
        hunt(case, __doc__)

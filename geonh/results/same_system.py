"""Comparison of a system with the one that a run was made with, before the run is resumed.

A file holds no functions. It holds their values at a few nodes of the run and a digest of their traces, and the values
of the parameters. The functions are compared with the parameters of the run, so that a change of a parameter can be
distinguished from a change of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.validators import shortly
from geonh.engine import first_of_batch, mapped
from geonh.geometry.field import called, takes_parameters
from geonh.groups.base import Point
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System, with_parameters
from geonh.results.digests import SAME, digest, trace_of
from geonh.results.events import Event
from geonh.results.modes import RESET, Modes, Transition
from geonh.results.record import FunctionValues, Record
from geonh.version import __version__

INTEGRAL = "integral:"
"""Prefix of the name of a first integral."""
EVENT = "event:"
"""Prefix of the name of an event."""
GUARD = "guard "
"""Prefix of the name of a guard."""
RESET_OF = "reset of "
"""Prefix of the name of a reset."""
TARGET = "index of the target of "
"""Prefix of the name of the target of a transition."""
NODES = 5
"""Number of nodes of a run that are compared."""
ROWS = "rows "
"""Prefix of the digest of array controls, which covers the rows up to the last node."""
DIRECTION = "direction "
"""Prefix of the digest of an event, followed by its direction."""
OTHERWISE = "written otherwise, though with the same values at the nodes that were compared"
KINDS = "values at the nodes", "a function of t"
CHANGES = (
    *("name", "parameters", "base", "metric", "lagrangian", "potential", "holonomic", "forms", "rhs", "forces"),
    *("multiplier_forces", "controls", "first_integrals", "events"),
)
"""Names of the changes that ``resume`` can allow."""


def function_values(
    trajectory: Record, system: System | Modes, clock: Clock | None, nodes: np.ndarray | None = None
) -> FunctionValues:
    """Values and traces of the functions of a system, or of modes, at nodes of a trajectory; by default at a few nodes.

    Without a clock, everything that depends on controls is left out.
    """
    if nodes is None:
        nodes = np.unique(np.linspace(0, len(trajectory) - 1, NODES).astype(np.int64))
    traces = {"geonh": __version__, "jax": jax.__version__}
    if not isinstance(system, Modes):
        of_system = _values_of_system(trajectory, system, clock, nodes)
        return FunctionValues(nodes, of_system.values, traces | of_system.traces)
    parts = {}
    for mode, (name, one) in enumerate(zip(system.names, system.systems, strict=True)):
        of_mode = _values_of_system(trajectory, one, clock, nodes)
        of_transitions = _values_of_transitions(trajectory, system, mode, nodes)
        parts[name] = FunctionValues(
            nodes, of_mode.values | of_transitions.values, of_mode.traces | of_transitions.traces
        )
    of_modes = _of_modes(parts, nodes)
    return of_modes._replace(traces=traces | of_modes.traces)


def _values_of_system(trajectory: Record, system: System, clock: Clock | None, nodes: np.ndarray) -> FunctionValues:
    """Values and traces of the functions of one system, with those of the events that the run looked for."""
    at = jax.tree.map(lambda a: a[nodes], (trajectory.k, trajectory.t, trajectory.g, trajectory.xi))
    values = mapped(_values, (system, clock), at)
    node = first_of_batch(at)
    rows, traces = None, {}
    if clock is not None and clock.controls is not None and not callable(clock.controls):
        rows = np.asarray(clock.controls)[: int(trajectory.k[-1]) + 1]
        clock = clock._replace(controls=np.zeros_like(rows[:1]))  # the number of further rows does not matter
    with float64():
        for name in values:
            traces[name] = trace_of(lambda node, name=name: _vector(_functions((system, clock), node)[name]()), node)
    events = events_of(trajectory, system, trajectory.watched, nodes)
    if rows is not None:
        traces["controls"] = ROWS + digest("", [rows])
    return FunctionValues(nodes, {**values, **events.values}, {**traces, **events.traces})


def _values_of_transitions(trajectory: Record, modes: Modes, mode: int, nodes: np.ndarray) -> FunctionValues:
    """Values and traces of guards and resets of the transitions that leave a mode, and indices of their targets.

    Functions of this library follow from the systems: their names alone are compared.
    """
    system, leaving = modes.systems[mode], modes.leaving(mode)
    at = jax.tree.map(lambda a: a[nodes], (trajectory.t, trajectory.g, trajectory.xi))
    guards = [guard for guard in modes.guards(mode) if not _name_in_library(guard.function)]
    _, values, traces = events_of(trajectory, system, tuple(guards), nodes, prefix=GUARD)
    for one in leaving:
        functions = {
            GUARD + one.name: one.guard.function,
            RESET_OF + one.name: one.reset,
            TARGET + one.name: one.target,
        }
        for label, function in functions.items():
            if name := _name_in_library(function):
                values[label], traces[label] = np.zeros((len(nodes), 0)), name
        if one.reset is not None and RESET_OF + one.name not in traces:
            values[RESET_OF + one.name] = mapped(_reset_values, (system, one.reset), at)
            with float64():
                reset = partial(_reset_values, (system, one.reset))
                traces[RESET_OF + one.name] = trace_of(reset, first_of_batch(at))
        if TARGET + one.name not in traces:
            targets = [
                _target(modes, one, *jax.tree.map(lambda a, i=i: np.asarray(a[i]), at)) for i in range(len(nodes))
            ]
            values[TARGET + one.name], traces[TARGET + one.name] = np.array(targets, np.float64)[:, None], ""
    return FunctionValues(nodes, values, traces)


def _name_in_library(function: Any) -> str:
    """Name of a function, or of the class of a callable, of this library; "" of a user's."""
    module = str(getattr(function, "__module__", ""))
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}.{name}" if module.startswith("geonh.") else ""


def events_of(
    trajectory: Record, system: System, events: tuple[Event, ...], nodes: np.ndarray, prefix: str = EVENT
) -> FunctionValues:
    """Values and traces of the functions of events, with all multipliers equal to one."""
    if not events:
        return FunctionValues(nodes, {}, {})
    at = jax.tree.map(lambda a: a[nodes], (trajectory.t, trajectory.g, trajectory.xi))
    values_at_nodes = mapped(_event_values, (system, events), at)
    node = first_of_batch(at)
    with float64():
        event_traces = [trace_of(lambda node, e=e: _event_values((system, (e,)), node), node) for e in events]
    traces = [f"{DIRECTION}{event.direction} {trace}" for event, trace in zip(events, event_traces, strict=True)]
    names = [prefix + event.name for event in events]
    values = {name: np.asarray(values_at_nodes)[:, i : i + 1] for i, name in enumerate(names)}
    return FunctionValues(nodes, values, dict(zip(names, traces, strict=True)))


def _reset_values(tree: tuple[System, Callable], node: tuple) -> jax.Array:
    """Values of a reset, as a vector."""
    (system, reset), (t, g, xi) = tree, node
    more = (system.parameters,) if takes_parameters(reset, RESET, "reset") else ()
    return _vector(called("reset", reset, t, g, xi, *more))


def _target(modes: Modes, transition: Transition, t: np.ndarray, g: Point, xi: np.ndarray) -> float:
    """Index of the mode that a transition leads to from a point of the run; nan where its function has no value."""
    if isinstance(transition.target, str):
        return modes.index(transition.target)
    try:
        return modes.index(transition.target(t, g, xi))
    except Exception:  # a user's function, which need not be defined where the transition does not occur
        return np.nan


def _event_values(tree: tuple, node: tuple) -> jax.Array:
    (system, events), (t, g, xi) = tree, node
    lam = jnp.ones(len(system.constraint_residual(system.at(g, t), xi)))
    return jnp.stack([event.value_with(system, t, g, xi, lam) for event in events])


def _functions(tree: tuple, node: tuple) -> dict[str, Callable[[], Any]]:
    """User-supplied functions evaluated at one node, by the names of the arguments of ``System``."""
    (system, clock), (k, t, g, xi) = tree, node

    def at(g: Any) -> Any:
        return system.at(g, t)

    functions: dict[str, Callable[[], Any]] = {"base": lambda: at(g), "group": lambda: system.group.left_tangent(g, xi)}
    if system.given_metric is not None:
        functions["metric"] = lambda: system.mass_matrix(at(g))
    if system.metric is None:
        functions["lagrangian"] = lambda: system.lagrangian(at(g), xi)
    if system.potential is not None:
        functions["potential"] = lambda: system.potential_energy(at(g))
    if system.holonomic is not None:
        functions["holonomic"] = lambda: (system.holonomic_residual(at(g)), system.holonomic_rows(at(g)))
    if system.distribution is not None:
        functions["forms"] = lambda: system.linear_at(xi).distribution.annihilator(at(g), system.parameters)
    if system.is_affine or system.is_nonlinear:
        functions["rhs"] = lambda: system.linear_at(xi).right_hand_side(at(g))
    if clock is not None and clock.controls is not None:
        functions["controls"] = lambda: clock.control(k)
    if clock is not None and system.forces is not None:
        functions["forces"] = lambda: system.force(clock.time(k), at(g), xi, clock.control(k))
    if system.multiplier_forces is not None:
        forces = system.multiplier_forces
        functions["multiplier_forces"] = lambda: [
            jnp.nan_to_num(part)
            for part in (
                system.linear_at(xi).multiplier_columns(t, at(g), xi),
                forces.loaded(t, at(g), xi, system.parameters),
            )
            if part is not None
        ]
    for name, integral in system.first_integrals.items():
        functions[INTEGRAL + name] = partial(integral.along, system, g, xi, t)
    return functions


def _values(tree: tuple, node: tuple) -> dict[str, Any]:
    """Values of these functions at one node, as vectors."""
    return {name: _vector(function()) for name, function in _functions(tree, node).items()}


def _vector(tree: Any) -> jax.Array:
    leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    leaves = [part for a in leaves for part in ((a.real, a.imag) if jnp.iscomplexobj(a) else (a.astype(float),))]
    return jnp.concatenate([jnp.zeros(0), *leaves])


def parameters_of(modes: Modes) -> dict[str, Any]:
    """Parameters of the systems of modes by their names, as a run has them."""
    return {name: as_data(system.parameters) for name, system in zip(modes.names, modes.systems, strict=True)}


def refuse_other_modes(trajectory: Record, known: FunctionValues | None, modes: Any, clock: Clock | None) -> None:
    """Raise TypeError for no ``Modes``, ValueError for others than those of a run."""
    if not isinstance(modes, Modes):
        raise TypeError(f"system must be the Modes of the run, got {shortly(modes)}")
    if changes := differences_of_modes(trajectory, known, modes, clock):
        details = "\n".join(f"  {changed}: {words}" for changed, words in changes.items())
        name = trajectory.attributes["system"]
        hint = (
            "begin another run from its last node to go on with them: solve(modes, mode=run.mode[-1], g0=..., xi0=...)"
            if trajectory.state is not None
            else f"of runs that were joined, the system of the first is attached: one of the name {name!r}"
        )
        raise ValueError(f"these are not the modes of the run of {name}:\n{details}\n{hint}")


def differences_of_modes(
    trajectory: Record, known: FunctionValues | None, modes: Modes, clock: Clock | None
) -> dict[str, str]:
    """Differences between modes and those of a trajectory, by name: of their names, parameters, or functions.

    Without a clock, forces and controls are not compared; without known values, no functions are. ValueError for
    another space.
    """
    a = trajectory.attributes
    theirs, ours = [a["system"], list(a.get("modes", ()))], [modes.name, list(modes.names)]
    if theirs != ours:
        there, here = (f"{name} of {', '.join(names)}" for name, names in (theirs, ours))
        return {"modes": f"{there} there, {here} here"}
    known_there, known_here = a["parameters"], parameters_of(modes)
    if known_there != known_here:
        return {"parameters": "; ".join(_unequal("", known_there, known_here))}
    refuse_another_space(trajectory, modes.systems[0])
    if known is None:
        return {}
    return _different_functions(known, function_values(trajectory, modes, clock, known.nodes), clock)


def _different_functions(known: FunctionValues, here: FunctionValues, clock: Clock | None) -> dict[str, str]:
    """Differences between functions by name, without events, and without forces and controls if there is no clock."""
    same_tools, changes = _same_versions(known), {}
    for name in dict.fromkeys((*known.values, *here.values)):
        own = name.rpartition(": ")[2]
        if own.startswith(EVENT) or (clock is None and own in ("forces", "controls")):
            continue
        if words := _difference(known, here, name, same_tools):
            changes[name] = words
    return changes


def refuse_another_space(trajectory: Record, system: System) -> None:
    """Raise ValueError unless a system has the group of a trajectory."""
    a, group = trajectory.attributes, system.group
    names = ("point_names", "velocity_names", "point_shapes")
    ours = as_data([str(group), *(getattr(group, name) for name in names), isinstance(group.identity(), tuple)])
    theirs = as_data([a["group"], *(a[name] for name in names), a["point_is_tuple"]])
    if theirs != ours:
        more = "" if theirs[0] != ours[0] else f", with coordinates {theirs[1:]} there and {ours[1:]} here"
        raise ValueError(f"the trajectory is of {a['group']}, the system of {group}{more}")


def differences(
    trajectory: Record, known: FunctionValues | None, system: System, clock: Clock | None
) -> dict[str, str]:
    """Differences between a system and that of a trajectory: name of the argument → description; empty if none.

    Without a clock, forces and controls are not compared; without known values, no functions are.

    ValueError for another space, or another number of constraints, which make it impossible to resume.
    """
    refuse_another_space(trajectory, system)
    a, changes = trajectory.attributes, {}
    if system.name != a["system"]:
        changes["name"] = f"{a['system']!r} there, {system.name!r} here"
    theirs, ours = a["parameters"], as_data(system.parameters)
    if theirs != ours:
        changes["parameters"] = "; ".join(_unequal("", theirs, ours))
    if known is None:
        return changes
    here = function_values(trajectory, _with_data(system, theirs), clock, known.nodes)
    m_there, m_here = (_count(x.values, system.group.dim) for x in (known, here))
    if m_there != m_here:
        raise ValueError(
            f"the run has {m_there} constraint(s), {system.name} has {m_here}: begin a new run from its last node, "
            "solve(system, g0=..., xi0=system.project(g0, run.xi[-1]), ...)"
        )
    for name, words in _different_functions(known, here, clock).items():
        if name.startswith(INTEGRAL):
            earlier = [changes["first_integrals"]] if "first_integrals" in changes else []
            changes["first_integrals"] = "; ".join([*earlier, f"{name.removeprefix(INTEGRAL)} {words}"])
        else:
            changes["base" if name == "group" else name] = words
    if changes.get("forces") == OTHERWISE and KINDS[1] in changes.get("controls", ""):
        del changes["forces"]  # they were traced with controls of another kind
    return changes


def parameters_of_run(run: Any, system: System) -> dict[str, Any]:
    """Parameters of a run of a system, with any values of them.

    TypeError for no run; ValueError for one of another system, or one whose system is not known.
    """
    if not isinstance(run, Record):
        raise TypeError(f"run must be a Trajectory, got {shortly(run)}")
    if run.attributes["system"] != system.name:
        raise ValueError(f"run must be of {system.name!r}, not of {run.attributes['system']!r}")
    if run.system is None or run.method is None or run.clock is None:
        raise ValueError("run must be one that solve made here, not a lift, nor one from a file, which holds no system")
    changes = differences(run, function_values(run, run.system, None), system, None)
    changes.pop("parameters", None)
    if changes:
        what = "; ".join(f"{name}: {words}" for name, words in changes.items())
        raise ValueError(f"run must be of the system {system.name!r} that was made here, not of another: {what}")
    return dict(run.system.parameters)


def different_events(trajectory: Record, system: System | Modes, events: tuple[Event, ...]) -> dict[str, str]:
    """Differences between events and the events of the same names in a trajectory, as ``differences`` returns them; of
    modes as the first of them that distinguishes an event evaluates it.
    """
    known, theirs = trajectory.function_values, trajectory.modes or trajectory.system
    if known is None and theirs is not None:
        known = _events_in(trajectory, theirs, trajectory.watched, np.arange(min(len(trajectory), NODES)))
    if known is None or not events:
        return {}
    if isinstance(system, System):
        system = _with_data(system, trajectory.attributes["parameters"])
    here, same_versions = _events_in(trajectory, system, events, known.nodes), _same_versions(known)
    changed: dict[str, str] = {}
    for name in here.values:
        if name in known.values and (words := _difference(known, here, name, same_versions)):
            changed.setdefault(name.partition(EVENT)[2], words)
    details = "; ".join(f"{name} {words}" for name, words in changed.items())
    return {"events": details} if details else {}


def _events_in(
    trajectory: Record, system: System | Modes, events: tuple[Event, ...], nodes: np.ndarray
) -> FunctionValues:
    """``events_of`` a system, or of each mode, named after it as in ``function_values``."""
    if isinstance(system, System):
        return events_of(trajectory, system, events, nodes)
    pairs = zip(system.names, system.systems, strict=True)
    return _of_modes({name: events_of(trajectory, one, events, nodes) for name, one in pairs}, nodes)


def _of_modes(parts: dict[str, FunctionValues], nodes: np.ndarray) -> FunctionValues:
    """Values and traces of the functions of modes, named after them: "rolls: forces"."""
    values, traces = (
        {f"{mode}: {name}": one for mode, part in parts.items() for name, one in getattr(part, field).items()}
        for field in ("values", "traces")
    )
    return FunctionValues(nodes, values, traces)


def _same_versions(known: FunctionValues) -> bool:
    """True if the traces were made with the installed versions of geonh and JAX, or in this process."""
    ours = {"geonh": __version__, "jax": jax.__version__}
    return all(known.traces.get(tool, version) == version for tool, version in ours.items())


def _count(values: dict[str, np.ndarray], n: int) -> int:
    """Number of constraints, from the sizes of μ and of φ with its derivative."""
    sizes = {name: values[name].shape[1] if name in values else 0 for name in ("forms", "holonomic")}
    return sizes["forms"] // n + sizes["holonomic"] // (n + 1)


def _difference(there: FunctionValues, here: FunctionValues, name: str, same_tools: bool) -> str:
    if name not in here.values or name not in there.values:
        return "given there, not here" if name in there.values else "given here, not there"
    a, b = there.values[name], here.values[name]
    if a.shape != b.shape:
        return f"{a.shape[1]} numbers there, {b.shape[1]} here"
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    if not np.all(apart <= SAME * np.max(np.abs(a), where=np.isfinite(a), initial=1e-290)):
        i = np.unravel_index(np.argmax(np.where(np.isnan(apart), np.inf, apart)), apart.shape)
        return f"{a[i]:.6g} there, {b[i]:.6g} here, at node {there.nodes[i[0]]}"
    traces = there.traces.get(name, ""), here.traces[name]
    rows = [trace.startswith(ROWS) for trace in traces]
    if name == "controls" and rows[0] != rows[1]:
        return " there, ".join(KINDS if rows[0] else KINDS[::-1]) + " here"
    if traces[0] != traces[1] and all(rows):
        return "other values in rows that the run went by, though the same at the nodes that were compared"
    if all(trace.startswith(DIRECTION) for trace in traces):
        ways = [trace.split()[1] for trace in traces]
        if ways[0] != ways[1]:
            return f"{DIRECTION}{ways[0]} there, {ways[1]} here"
    if same_tools and traces[0] != traces[1]:
        return OTHERWISE
    return ""


def refuse_changes(trajectory: Record, changes: dict[str, str], allowed: bool | str | Iterable[str]) -> None:
    """Raise ValueError for differences that are not allowed, naming each and the option that allows it."""
    if not isinstance(allowed, bool | str | list | tuple | set | frozenset):
        raise TypeError(f"allow_changes must be True, False, or names of {', '.join(CHANGES)}, got {shortly(allowed)}")
    names = [] if isinstance(allowed, bool) else [allowed] if isinstance(allowed, str) else list(allowed)
    unknown = [name for name in names if name not in CHANGES]
    if unknown:
        raise ValueError(f"allow_changes: {unknown} can not be allowed; True or names of {', '.join(CHANGES)}")
    refused = [name for name in changes if allowed is not True and name not in names]
    if refused:
        a = trajectory.attributes
        details = "\n".join(f"  {name}: {words}" for name, words in changes.items() if name in refused)
        raise ValueError(
            f"this is not what the run of {a['system']} was made with:\n{details}\n"
            f"resume(..., allow_changes={sorted({*refused, *names})}) goes on with it, and the file will say so; "
            "loaded without system=, the file is read as it is"
        )


def _with_data(system: System, data: Any) -> System:
    """Replace the parameters of a system by others of the same structure; unchanged if the structures differ."""
    try:
        parameters = _from_data(system.parameters, data)
    except (KeyError, ValueError, TypeError):
        return system
    return with_parameters(system, parameters)


def as_data(parameters: Any) -> Any:
    """Convert parameters to JSON data: numbers, lists and objects; null for a function."""
    if type(parameters) is np.ndarray:
        return parameters.tolist()
    if isinstance(parameters, dict):
        return {str(key): as_data(value) for key, value in parameters.items()}
    if isinstance(parameters, list | tuple):
        return [as_data(value) for value in parameters]
    if jax.tree_util.all_leaves([parameters]):
        return None if callable(parameters) else np.asarray(parameters).tolist()
    return {jax.tree_util.keystr(path): as_data(leaf) for path, leaf in _with_paths(parameters)}


def _with_paths(tree: Any) -> list:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _from_data(parameters: Any, data: Any) -> Any:
    """``parameters`` with the numbers of ``data``, the output of ``as_data`` for the same structure, or an error."""
    if isinstance(parameters, dict):
        return {key: _from_data(value, data[str(key)]) for key, value in parameters.items()}
    if isinstance(parameters, list | tuple) and type(parameters) in (list, tuple):
        return type(parameters)(_from_data(p, d) for p, d in zip(parameters, data, strict=True))
    if callable(parameters):
        return parameters
    if jax.tree_util.all_leaves([parameters]):
        array = np.asarray(data, np.float64)
        return array if array.shape == np.shape(parameters) else np.reshape(array, np.shape(parameters))
    leaves = [_from_data(leaf, data[jax.tree_util.keystr(path)]) for path, leaf in _with_paths(parameters)]
    return jax.tree.unflatten(jax.tree.structure(parameters), leaves)


def _unequal(name: str, there: Any, here: Any) -> list[str]:
    """Descriptions of the parameters that differ."""
    if not (isinstance(there, dict) and isinstance(here, dict)):
        return [] if there == here else [f"{name} = {shortly(there)} there, {shortly(here)} here"]
    differing = []
    for key in dict.fromkeys((*there, *here)):
        label = f"{name}.{key}" if name else key
        if key not in there or key not in here:
            differing.append(f"{label} only {'there' if key in there else 'here'}")
        else:
            differing += _unequal(label, there[key], here[key])
    return differing

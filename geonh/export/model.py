"""A system and a method as functions of vectors: what is exported, whatever the target.

``Model`` has the functions, their sizes, names and units. Vectors: the system's parameters, its controls, a point of
the group, a velocity, the state of a run (with its time and step), what is observed at a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.precision import float64, refuse_traced
from geonh.arguments.validators import as_float64
from geonh.engine import Export, ObjectCode, Target, exported, forward_only, is_array
from geonh.export import programs
from geonh.export.programs import Held, Run, Times
from geonh.integrators.base import Integrator
from geonh.integrators.registry import stepping_method
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.system import System
from geonh.runs.start import as_start, first_node
from geonh.units import is_energy, known_units


class Quantity(NamedTuple):
    """Number of a vector.

    Attributes
    ----------
    name : str
        As in the tables of a run.
    unit : str
        "" if it has none.
    """

    name: str
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Model:
    """System and method, with the start of a run by default.

    Attributes
    ----------
    system : System
        Its rows are independent, or their rank is known.
    method : Integrator
    controls : ndarray, shape=[…], callable or None
        Inputs, with their values by default, which are held through a step; or a function of t, in the code.
    times : Times
        Of the run by default.
    g : point of the group
    xi : ndarray, shape=[n]
        Start by default.
    run : Run
        State of a run at this start.
    meanings : mapping of str to str
        Descriptions of parameters by name.
    """

    system: System
    method: Integrator
    controls: Any
    times: Times
    g: Any
    xi: np.ndarray
    run: Run
    meanings: Mapping[str, str]

    @classmethod
    def of(
        cls,
        system: System,
        method: Integrator | str | None = None,
        *,
        xi0: Any = None,
        g0: Any = None,
        dt: float = 0.01,
        t0: float = 0.0,
        controls: Any = None,
        meanings: Mapping[str, str] | None = None,
    ) -> Model:
        """Validated model; arguments and errors are those of ``build``, ``meanings`` describes parameters by name."""
        refuse_traced("its value becomes a part of the code", xi0=xi0, g0=g0, dt=dt, t0=t0, controls=controls)
        if controls is not None and not callable(controls):
            controls = as_float64(controls, "controls")
        held = programs.as_function(controls)
        method, _ = stepping_method(method, None, held)
        if isinstance(method, VariableSteps):
            raise ValueError("steps of variable length are not exported: pass a method with steps of one length")
        xi0, g0 = default_start(system, xi0, g0, t0)
        start = as_start(system, method, xi0, g0, dt, t0, 1, held)
        first = first_node(system, method, start)
        g = jax.tree.map(lambda a: np.asarray(a, np.float64), start.g)
        times = Times(np.asarray(start.clock.t0, np.float64), np.asarray(start.clock.dt, np.float64))
        run = Run(*times, first.state._replace(status=np.zeros_like(first.state.status)))
        xi = np.asarray(start.xi, np.float64)
        model = cls(first.problem.system, method, controls, times, g, xi, run, meanings or {})
        names = [quantity.name for quantity in model.parameters]
        if wrong := [name for name in names if not name or names.count(name) > 1]:
            raise ValueError(f"parameters of {system.name} need names of their own in the code, got {wrong[0]!r}")
        return model

    # --- what it is made of --------------------------------------------------------------------------------
    @cached_property
    def parameter_values(self) -> np.ndarray:
        """Values by default, shape=[P]."""
        return _flat(self._numbers)

    @cached_property
    def parameters(self) -> list[Quantity]:
        """Names of the parameters, with indices in square brackets; as unit a description, if there is one."""
        names = []
        for path, leaf in jax.tree_util.tree_flatten_with_path(self._numbers)[0]:
            key = ".".join(re.sub(r"^\['(.*)'\]$|^\.", r"\1", str(part)) for part in path).replace(".[", "[")
            for index in np.ndindex(np.shape(leaf)):
                place = f"[{','.join(map(str, index))}]" if index else ""
                names.append(Quantity(key + place, self.meanings.get(key, "")))
        return names

    @cached_property
    def inputs(self) -> np.ndarray:
        """Values of the controls that are inputs by default, shape=[U]; none where there are no such."""
        return np.zeros(0) if self.controls is None or callable(self.controls) else self.controls.ravel()

    @cached_property
    def defaults(self) -> dict[str, np.ndarray]:
        """Vectors of values by default, in the order of the arguments of a start."""
        return {
            "parameters": self.parameter_values,
            "inputs": self.inputs,
            "times": np.array(self.times),
            "point": _flat(self.g),
            "velocity": self.xi,
        }

    @property
    def point(self) -> list[Quantity]:
        """Coordinates of a point of the group, as of ``group.to_vector``."""
        return self._named(self.system.group.point_names)

    @property
    def velocity(self) -> list[Quantity]:
        return self._named(self.system.group.velocity_names)

    @cached_property
    def observed(self) -> list[Quantity]:
        """Quantities observed at a node, in their order."""
        return list(self._observed())

    @cached_property
    def state_size(self) -> int:
        """Number of doubles of the state of a run."""
        return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self.run))

    def _observed(self) -> Iterator[Quantity]:
        units, names = self._units, self.system.group.velocity_names
        taken = {"t", *self.system.group.point_names, *names, *(f"p_{name}" for name in names), *self._observation}
        yield Quantity("t", units["time"])
        yield from self.point
        for key in programs.ordered(self._observation):
            value = self._observation[key]
            if key == "xi":
                yield from self.velocity
            elif key == "p":
                yield from (Quantity(f"p_{name}", units.get(f"p_{name}", "")) for name in names)
            else:
                label = key.removeprefix("integral:")
                name = key if label.partition("[")[0] in taken else label
                unit = units["energy"] if is_energy(key) else units.get(label, "")
                for i in np.ndindex(np.shape(value)):
                    yield Quantity(name + (f"[{','.join(map(str, i))}]" if i else ""), unit)

    @cached_property
    def _numbers(self) -> Any:
        return eqx.filter(self.system.parameters, is_array)

    @cached_property
    def _units(self) -> dict[str, str]:
        group = self.system.group
        names = {"point_names": list(group.point_names), "velocity_names": list(group.velocity_names)}
        return known_units({**names, "units": dict(self.system.units)})

    def _named(self, names: Any) -> list[Quantity]:
        return [Quantity(name, self._units.get(name, "")) for name in names]

    @property
    def controls_of_time(self) -> Any:
        """Controls of a run with inputs by default, as ``solve`` takes them."""
        return programs.as_function(self.controls)

    @cached_property
    def tree(self) -> Held:
        """Constants of the code; the numbers of parameters and inputs are replaced there."""
        return Held(self.system, self.method, self.controls)

    @cached_property
    def arguments(self) -> tuple[Any, Any]:
        """Parameters and inputs, which most functions begin with."""
        return self._numbers, () if not len(self.inputs) else self.controls

    @cached_property
    def _observation(self) -> dict[str, jax.ShapeDtypeStruct]:
        with float64(), forward_only():
            return jax.eval_shape(partial(programs.observables, self.tree), *self.arguments, self.run)

    # --- functions -----------------------------------------------------------------------------------------
    def functions(self, name: str) -> dict[str, Export]:
        """Exported functions, by their names in the code.

        ``step`` and ``advance`` take (parameters, inputs, state), ``start`` (parameters, inputs, times, g, ξ),
        ``observe`` (parameters, inputs, state), ``project`` (parameters, times, g, ξ).
        """
        both, run = self.arguments, self.run
        return {
            f"{name}_start": Export(programs.start, (*both, self.times, self.g, self.xi)),
            f"{name}_advance": Export(programs.step, (*both, run), is_loop=True),
            f"{name}_observe": Export(programs.observed, (*both, run)),
            f"{name}_project": Export(programs.projected, (both[0], self.times, self.g, self.xi)),
        }

    def compiled(self, name: str, target: Target, **more: Export) -> ObjectCode:
        """Object code of the functions, and of ``more`` of them by their last names."""
        with float64():
            every = self.functions(name) | {f"{name}_{key}": export for key, export in more.items()}
            return exported(every, self.tree, target)


def default_start(system: System, xi0: Any, g0: Any, t0: float = 0.0) -> tuple[Any, Any]:
    """Velocity and point of a start: where there is no velocity, the nearest to zero on the constraints."""
    if xi0 is not None or not isinstance(system, System):
        return xi0, g0
    found = system.project(g0, np.zeros(system.group.dim), t0)
    return (found, g0) if system.holonomic is None else (found[1], found[0])


def identifiers(names: Sequence[str]) -> list[str]:
    """Distinct identifiers, of letters, digits and underscores, for names."""
    made: dict[str, None] = {}
    for name in names:
        word = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "n"
        each, count = word, 0
        while each in made:
            count += 1
            each = f"{word}_{count}"
        made[each] = None
    return list(made)


def _flat(tree: Any) -> np.ndarray:
    """Numbers of a pytree one after another."""
    return np.concatenate([*(np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)), np.zeros(0)])

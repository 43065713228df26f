"""``System``: a mechanical system as specified by the user."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.inspection import careful
from geonh.arguments.precision import float64, has_tracers, is_traced
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_constant, as_float64, close, shortly
from geonh.engine import is_affine
from geonh.geometry.action import Action, make_action
from geonh.geometry.distribution import Distribution
from geonh.geometry.field import Field, TimeDependent, takes_parameters
from geonh.geometry.metric import BundleMetric
from geonh.groups import as_group
from geonh.mechanics.check import Report, check_system
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.first_integral import FirstIntegral, require_integrals
from geonh.mechanics.friction import Friction, Frictions
from geonh.mechanics.ingredients import check_ingredients, check_integrals
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.redundancy import Rank
from geonh.units import declared_units

RESERVED = ("time", "energy", "energy_minus", "kinetic", "alternating", "alternation", "step")
"""Reserved names: columns of every table."""


@argument_type
class System(ConstrainedSystem):
    """A Lagrangian system with (affine) nonholonomic constraints and forces on a Lie group or a product.

    Its equations are those of Lagrange and d'Alembert in left trivialisation, ξ = g⁻¹ġ (mathematics.md §2).

    Parameters
    ----------
    space : LieGroup, geomstats manifold, or list of these
        The configuration space. A list is a product.
    metric : array_like, callable or BundleMetric, optional
        Kinetic energy matrix M in the algebra basis, shape=[n, n] (or its diagonal), constant or function of the base.
    lagrangian : callable, optional
        ℓ(x, ξ) or ℓ(x, ξ, parameters), hyperregular, instead of ``potential``. If it is quadratic in ξ (its traced
        Hessian does not use ξ) it is treated so, its linear part as a gyroscopic term. Beside it ``metric`` is its
        Hessian in ξ, where that is cheaper to write than to differentiate; ``check`` compares them.
    distribution : Distribution, AffineDistribution or VelocityConstraints, optional
        Velocity constraints; none when left out.
    holonomic : callable, optional
        Position constraints φ(x) or φ(x, parameters) → shape=[k], with φ = 0 on the admissible set. The rows of
        their derivatives join those of the distribution, which must be given by ``forms`` then.
    potential : callable, optional
        V(x) or V(x, parameters), joules.
    forces : callable, optional
        f(t, x, ξ, u) or f(t, x, ξ, u, parameters) → covector in g*, shape=[n]; u is the value of the controls.
    multiplier_forces : callable or sequence of Friction, optional
        f(t, x, ξ, λ) or f(t, x, ξ, λ, parameters) → covector, shape=[n], linear in the multipliers λ, shape=[m]: forces
        besides μᵀλ that the constraints exert, as friction, −μ_f λ₀ Jᵀv/|v| for a contact that slides with v = Jξ. For
        methods whose ``guarantees.multiplier_forces`` is true; at a start, or a node, where the equations have no
        unique solution the run ends with ``Result.PAINLEVE``. A ``Friction``, or a list of them.
    parameters : mapping, optional
        Parameters shared by the functions; leaves of a pytree, so a sweep over them needs no recompilation.
    base : str, sequence of str or Action
        Dependence of the functions: "group" (the default, always valid): x is the group element; "point": constant,
        x = (); "shape" or names of coordinates: these coordinates, x of shape=[k]; or an Action.
    first_integrals : mapping of str to FirstIntegral, optional
        Conserved quantities besides the energy.
    draw : callable, optional
        draw(t, g, parameters) → list of ``geonh.drawing.Body``, for figures, animations and the viewer. When left
        out, a space of planar or spatial poses, attitudes or points implies one.
    name : str
        Name of the system in tables and files.
    rank : int or (int, int), optional
        Number of independent constraints, if some follow from the others everywhere, as on a cart with four wheels:
        of ``holonomic``, or of the forms of ``distribution``; with both, of ``holonomic``, and of the forms beside
        them. When left out it is found at the start of a run, with a warning that names the redundant rows; needed if
        the start is traced. The multipliers are those of least norm (``geonh.mechanics.redundancy``).
    units : mapping of str to str, optional
        Units for labelled outputs, such as {"x": "m"}: of coordinates, velocities, first integrals, "time" and
        "energy". By default time is in s, energy in J, angles in rad, and quantities without a unit by these have none.

    Attributes
    ----------
    group : LieGroup
        Configuration group, of dimension n; see ``LieGroup`` for the format of its points.
    action : Action
        Action that defines the base point, according to ``base``.
    parameters : dict
        As given, numbers as float64 arrays; leaves of a pytree.

    Raises
    ------
    TypeError, ValueError
        For invalid input, naming the argument, its shape and the shape expected.

    Notes
    -----
    Functions take base points and return values in ``jax.numpy``; all derivatives are automatic. Functions that also
    depend on the time, f(t, x), are marked: ``time_dependent(f)``.
    """

    def __init__(
        self,
        space: Any,
        *,
        metric: Any = None,
        lagrangian: Callable | None = None,
        distribution: Distribution | None = None,
        holonomic: Callable | None = None,
        potential: Callable | None = None,
        forces: Callable | None = None,
        multiplier_forces: Callable | Sequence[Friction] | None = None,
        parameters: Mapping[str, Any] | None = None,
        base: str | Sequence[str] | Action = "group",
        first_integrals: Mapping[str, FirstIntegral] | None = None,
        draw: Callable | None = None,
        name: str = "system",
        units: Mapping[str, str] | None = None,
        rank: int | tuple[int, int] | None = None,
    ):
        self.group = as_group(space)
        self.action = make_action(self.group, base)
        if metric is None and lagrangian is None:
            raise TypeError(
                "System takes either metric= (with potential=) or lagrangian=, which may have its Hessian as metric="
            )
        if lagrangian is not None and potential is not None:
            raise TypeError("potential= goes with metric=; put it into lagrangian= instead")
        pressed: Any = (
            Frictions(multiplier_forces) if isinstance(multiplier_forces, tuple | list) else multiplier_forces
        )
        given = (
            ("forces", forces, "t, x, xi, u"),
            ("multiplier_forces", pressed, "t, x, xi, lam"),
            ("lagrangian", lagrangian, "x, xi"),
            ("holonomic", holonomic, "x"),
            ("draw", draw, "t, g, parameters"),
        )
        for argument, value, takes in given:
            if isinstance(value, TimeDependent) and takes.startswith("t"):
                raise TypeError(f"{argument} takes the time as it is, ({takes}): leave time_dependent(...) out")
            if value is not None and not (callable(value) or isinstance(value, TimeDependent)):
                raise TypeError(f"{argument} must be a function of ({takes}), got {shortly(value)}")
        for argument, mapping in (("parameters", parameters), ("first_integrals", first_integrals)):
            if mapping is not None and not isinstance(mapping, Mapping):
                raise TypeError(f"{argument} must be a mapping such as {{'name': …}}, got {shortly(mapping)}")
        require_integrals(first_integrals or {})
        if not isinstance(name, str):
            raise TypeError(f"name must be text, got {shortly(name)}")
        if not name.isprintable():  # half of a surrogate pair is not, and cannot be stored in a file
            raise ValueError(f"name must be text that can be printed, got {shortly(name)}")
        if distribution is not None and not isinstance(distribution, Distribution):
            raise TypeError(
                f"distribution must be a Distribution or an AffineDistribution, got {type(distribution).__name__}; "
                "write Distribution(forms=...)"
            )
        framed = distribution is not None and distribution.frame is not None
        if holonomic is not None and framed:
            raise TypeError(
                "holonomic= goes with a distribution given by forms=, not by frame=: its rows join the forms, and a "
                "frame would have to be tangent to φ = 0 as well; write Distribution(forms)"
            )
        metric = metric if metric is None or isinstance(metric, BundleMetric) else BundleMetric(metric)
        self.metric, self.hessian = (metric, None) if lagrangian is None else (None, metric)
        self.potential = None if potential is None else Field(potential, "potential")
        self.lagrangian_is_timed = isinstance(lagrangian, TimeDependent)
        lagrangian = lagrangian.function if isinstance(lagrangian, TimeDependent) else lagrangian
        self.lagrangian_function = lagrangian
        self.lagrangian_takes_parameters = lagrangian is not None and takes_parameters(
            lagrangian, "t, x, xi" if self.lagrangian_is_timed else "x, xi", "lagrangian"
        )
        self.distribution = distribution
        self.holonomic = None if holonomic is None else Field(holonomic, "holonomic")
        self.forces = forces
        self.forces_take_parameters = forces is not None and takes_parameters(forces, "t, x, xi, u", "forces")
        self.multiplier_forces = None if pressed is None else MultiplierForces(pressed)
        has_tracers(parameters=parameters)  # refuses keys without an order, and what contains itself
        self.parameters = _float64_leaves(parameters or {})
        self.first_integrals = dict(first_integrals or {})
        self.draw = draw
        self.name = name
        self.rank = self._declared_rank(rank)
        self.units = declared_units(units, self._names())
        self.is_quadratic = True
        if not is_traced(self):
            self._make_careful(check_ingredients(self))
        self.is_quadratic = lagrangian is None or self._is_quadratic()
        if self.hessian is not None and not self.is_quadratic:
            raise ValueError(
                "metric= beside lagrangian= is its Hessian in ξ, and goes with a Lagrangian quadratic in ξ"
            )

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import system_card

        return system_card(self)

    @property
    def space(self) -> Any:
        """Configuration space as a geomstats manifold, with the kinetic energy as its metric if it is quadratic.

        Raises NotImplementedError for a group without a geomstats manifold.
        """
        space = self.group.space()
        if self.metric is not None or (self.is_quadratic and not self.is_timed):
            from geonh.mechanics.kinetic_metric import KineticMetric  # which imports geomstats

            space.equip_with_metric(KineticMetric, system=self)
        return space

    def check(self, **options: Any) -> Report:
        """Test the system at points and velocities; options, result and errors of ``geonh.mechanics.check_system``.

        Parameters
        ----------
        **options : keyword arguments
            ``at``, ``controls``, ``n_samples``, ``seed``, ``scale``.

        Returns
        -------
        Report
            ``report.ok``, ``report.problems``; print it for details.
        """
        return check_system(self, **options)

    def with_parameters(self, **changes: Any) -> System:
        """Return the system with other values of some parameters, without a new trace or compilation of its runs.

        Parameters
        ----------
        **changes : array_like or callable
            New values by the names in ``parameters``, of the same shapes.

        Returns
        -------
        System

        Raises
        ------
        TypeError
            If a value is not of numbers, where the parameter is.
        ValueError
            If there is no parameter of that name, or a value has another shape, or is one for which the forces of
            the system are not defined, such as a negative temperature of ``geonh.mechanics.thermal_contacts``.
        """
        names = list(self.parameters)
        for name in changes:
            if name not in names:
                known = f"; it has {', '.join(map(str, names))}" if names else "; it has none"
                raise ValueError(f"{self.name} has no parameter {name!r}{close(name, names) or known}")
        new = _float64_leaves(changes)
        for name, value in new.items():
            before, after = (jax.tree.map(np.shape, v) for v in (self.parameters[name], value))
            if before != after:
                raise ValueError(f"{name} of {self.name} must have shape {before}, got {after}")
        refuse_parameters(self.forces, new)
        return with_parameters(self, new)

    def with_first_integrals(self, integrals: Mapping[str, FirstIntegral]) -> System:
        """Return the system with further first integrals, which its runs evaluate.

        Parameters
        ----------
        integrals : mapping of str to FirstIntegral
            Names and integrals, such as ``geonh.analysis.first_integrals`` finds; those of the same name are replaced.

        Returns
        -------
        System

        Raises
        ------
        TypeError, ValueError
            If it is not a mapping of names to first integrals, or they are of a system with other coordinates.
        """
        if not isinstance(integrals, Mapping):
            raise TypeError(f"integrals must be a mapping such as {{'name': …}}, got {shortly(integrals)}")
        require_integrals(integrals)
        system = eqx.tree_at(lambda s: s.first_integrals, self, {**self.first_integrals, **integrals})
        if not is_traced(system):
            check_integrals(system)
        return system

    def play(self, path: Any = None, methods: Any = None, **options: Any) -> Any:
        """Make a page in which the system runs, with sliders: options, result and errors of ``geonh.export.play``.

        Parameters
        ----------
        path : path, optional
            Output file, a name that ends in ``.html`` or ``.htm``.
        methods : Integrator, str, or sequence of these, optional
            Methods to choose from.
        **options : keyword arguments
            ``xi0``, ``g0``, ``dt``, ``controls``, ``n_steps``.

        Returns
        -------
        Page
            Jupyter displays it.
        """
        from geonh.export import play  # which stands above

        return play(self, path, methods, **options)

    def _declared_rank(self, rank: Any) -> Rank | None:
        if rank is None:
            return None
        kinds = [self.holonomic is not None, self.distribution is not None and self.distribution.forms is not None]
        given = np.atleast_1d(as_constant(rank, "rank", None))
        if given.shape != (sum(kinds),) or np.any(given != np.round(given)) or np.any(given < (1, 0)[: len(given)]):
            wanted = {0: "nothing: there are no rows", 1: "one number of rows", 2: "(rows of holonomic, forms)"}
            raise ValueError(f"rank must be {wanted[sum(kinds)]} for this system, got {shortly(rank)}")
        numbers = iter(given.astype(int).tolist())
        return Rank(*(next(numbers) if kind else 0 for kind in kinds))

    def _names(self) -> list[str]:
        """Names that may have a unit; ValueError for a coordinate whose name clashes with another or with a column."""
        of_group = [*self.group.point_names, *self.group.velocity_names]
        for name in of_group:
            if of_group.count(name) > 1 or name in RESERVED:
                raise ValueError(
                    f"the name {name!r} is used twice: coordinates ({', '.join(self.group.point_names)}), velocities "
                    f"({', '.join(self.group.velocity_names)}) and {', '.join(RESERVED)} must differ"
                )
        return [*of_group, *self.first_integrals, "time", "energy"]

    def _is_quadratic(self) -> bool:
        """True if ∂ℓ/∂ξ is affine in ξ, according to its trace at an abstract point."""
        with float64():
            x = jax.eval_shape(lambda: self.at(self.group.identity(), 0.0))
            v = jax.ShapeDtypeStruct((self.group.dim,), np.float64)
            return is_affine(lambda v, x: jax.grad(lambda v: self.lagrangian(x, v))(v), v, x)

    def _make_careful(self, names: list[str]) -> None:
        """Make the named functions, and the forces, return nan where a data-dependent index is out of range."""

        def careful_field(owner: Any, where: Callable) -> Any:
            return eqx.tree_at(where, owner, careful(where(owner)))

        if self.forces is not None:  # too little is known of them here
            self.forces = careful(self.forces)
        if self.multiplier_forces is not None and not self.multiplier_forces.is_held:
            self.multiplier_forces = careful_field(self.multiplier_forces, lambda forces: forces.function)
        for name in names:
            if name == "lagrangian":
                self.lagrangian_function = careful_field(self.lagrangian_function, lambda function: function)
            elif name == "metric":
                owner = "metric" if self.hessian is None else "hessian"
                setattr(self, owner, careful_field(getattr(self, owner), lambda metric: metric.field.function))
            elif name in ("potential", "holonomic"):
                setattr(self, name, careful_field(getattr(self, name), lambda field: field.function))
            else:  # a field of the distribution
                self.distribution = careful_field(self.distribution, lambda D, name=name: getattr(D, name).function)


def _float64_leaves(parameters: Any) -> Any:
    """Convert the numbers of a pytree to float64 arrays, and leave the rest unchanged."""

    def convert(path: tuple, leaf: Any) -> Any:
        return leaf if callable(leaf) else as_float64(leaf, f"parameters{jax.tree_util.keystr(path)}")

    return jax.tree_util.tree_map_with_path(convert, dict(parameters))


def with_parameters(system: System, changes: Mapping[str, Any]) -> System:
    """System with some of its parameters replaced."""
    if not changes:
        return system
    return eqx.tree_at(lambda s: s.parameters, system, {**system.parameters, **changes})


def refuse_parameters(forces: Any, parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for new values of parameters for which forces are not, by their method of this name."""
    refuse = getattr(forces, "refuse_parameters", None)
    if refuse is not None:
        refuse(parameters)


def replaced(module: Any, **changes: Any) -> Any:
    """Copy of a module with other attributes."""
    new = copy.copy(module)
    for name, value in changes.items():
        object.__setattr__(new, name, value)
    return new

"""``System``: a mechanical system as specified by the user, with the shapes of its ingredients checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64, has_tracers, is_traced
from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_constant, as_float64, close, one_of, shortly
from geonh.engine import forward_only, in_numpy, is_affine
from geonh.geometry.action import Action, make_action
from geonh.geometry.distribution import Distribution
from geonh.geometry.field import Field, Moment, TimeDependent, check_arguments, evaluated, takes_parameters
from geonh.geometry.metric import BundleMetric
from geonh.geometry.velocity_constraints import VelocityConstraints
from geonh.groups import as_group
from geonh.mechanics.check import Report, check_system
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.first_integral import FirstIntegral, require_integrals
from geonh.mechanics.multiplier_forces import MultiplierForces
from geonh.mechanics.redundancy import UNDETERMINED, Rank
from geonh.units import declared_units

LONGEST = 80
"""Maximum number of bytes of the name of a first integral."""
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
    multiplier_forces : callable, optional
        f(t, x, ξ, λ) or f(t, x, ξ, λ, parameters) → covector, shape=[n], linear in the multipliers λ, shape=[m]: forces
        besides μᵀλ that the constraints exert, as friction, −μ_f λ₀ Jᵀv/|v| for a contact that slides with v = Jξ. For
        methods whose ``guarantees.multiplier_forces`` is true; at a start, or a node, where the equations have no
        unique solution the run ends with ``Result.PAINLEVE``.
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
        multiplier_forces: Callable | None = None,
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
        given = (
            ("forces", forces, "t, x, xi, u"),
            ("multiplier_forces", multiplier_forces, "t, x, xi, lam"),
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
        self.multiplier_forces = None if multiplier_forces is None else MultiplierForces(multiplier_forces)
        has_tracers(parameters=parameters)  # refuses keys without an order, and what contains itself
        self.parameters = _float64_leaves(parameters or {})
        self.first_integrals = dict(first_integrals or {})
        self.draw = draw
        self.name = name
        self.rank = self._declared_rank(rank)
        self.units = declared_units(units, self._names())
        self.is_quadratic = True
        if not is_traced(self):
            self._check_shapes()
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
            If there is no parameter of that name, or a value has another shape.
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
        return with_parameters(self, new)

    def play(self, path: Any = None, methods: Any = None, **options: Any) -> Any:
        """Make a page in which the system runs, with sliders: options, result and errors of ``geonh.export.play``.

        Parameters
        ----------
        path : path, optional
            Output file, a name that ends in ``.html``.
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

    def _check_shapes(self) -> None:
        """Evaluate every ingredient once at the identity, abstractly, and raise an error for a wrong shape."""
        n = self.group.dim
        x = jax.eval_shape(lambda: self.at(self.group.identity(), 0.0))
        vector = jax.ShapeDtypeStruct((n,), np.float64)
        by_data = []

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
                    f"{name} must give shape {wanted} on {self.group} (dimension {n}), got {list(got)}{rows}"
                )
            return got

        with float64():
            x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, np.float64), x)
        if self.metric is not None:
            metric, potential = self.metric, self.potential
            expect("metric", lambda x: metric.field(x, self.parameters), (x,), (n, n), (n,))
            if potential is not None:
                expect("potential", lambda x: potential(x, self.parameters), (x,), ())
        else:
            expect("lagrangian", self.lagrangian, (x, vector), ())
        if self.hessian is not None:
            hessian = self.hessian
            expect("metric", lambda x: hessian.field(x, self.parameters), (x,), (n, n), (n,))
        k = 0
        if self.holonomic is not None:
            k = expect("holonomic", self.holonomic_residual, (x,), (None,))[0]
            independent = k if self.rank is None else self.rank.positions
            if independent >= n or k == 0:
                raise ValueError(
                    f"holonomic has {independent} entries on a group of dimension {n}; at least 1, at most {n - 1}"
                    + ("" if self.rank is not None else "; of redundant ones, rank= says how many are independent")
                )
            self._check_rank("holonomic", independent, k)
            k = independent
        if self.distribution is not None:
            self._check_distribution(expect, x, n, k)
        self._check_multiplier_forces(x, vector)
        self._check_integrals()
        self._make_careful(by_data)

    def _check_multiplier_forces(self, x: Any, xi: Any) -> None:
        """Raise ValueError for forces of multipliers that do not exist, are not determined, or not linear in them."""
        if self.multiplier_forces is None:
            return
        if not self.is_constrained:
            raise ValueError("multiplier_forces depend on the multipliers of constraints, and there are none")
        if self.rank is not None:
            raise ValueError(f"rank= says that constraints are redundant: {UNDETERMINED}")
        forces = self.multiplier_forces
        with float64():
            lam = jax.eval_shape(self.constraint_residual, x, xi)
            t, at = jax.ShapeDtypeStruct((), np.float64), x.x if isinstance(x, Moment) else x

            def value(lam: Any, t: Any, at: Any, xi: Any) -> Any:
                return forces.value(t, at, xi, lam, self.parameters)

            inspected("multiplier_forces", jax.make_jaxpr(value)(lam, t, at, xi))
            some = self.action.at(self.group.identity()), np.linspace(0.5, 1.0, self.group.dim)
            without = in_numpy(value, np.zeros(lam.shape), np.zeros(()), *some)(
                np.zeros(lam.shape), np.zeros(()), *some
            )
            if not is_affine(value, lam, t, at, xi) or np.any(np.nan_to_num(without)):
                raise ValueError(
                    "multiplier_forces must be linear in lam; other forces go into forces=, and for one that depends "
                    "on |lam|, as friction of a two-sided contact does, take a system for each sign"
                )

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

    def _check_integrals(self) -> None:
        """Raise for a first integral that is invalid, or cannot be evaluated at the identity."""
        vector = jax.ShapeDtypeStruct((self.group.dim,), np.float64)
        for key, integral in self.first_integrals.items():
            name = f"first integral {key!r}"
            if len(key.encode(errors="replace")) > LONGEST:  # it becomes the name of a variable in a file
                raise ValueError(f"the name of a first integral has more than {LONGEST} bytes: {key[:40]!r}…")
            one_of(integral.momentum, f"momentum of {name}", ("average", "minus"))
            check_arguments(integral.function, "g, xi, p, parameters", f"the function of {name}")
            function = partial(evaluated, name, integral.function)
            with float64():
                g = jax.tree.map(np.asarray, self.group.identity())
                inspected(name, jax.make_jaxpr(function)(g, vector, vector, self.parameters))

    def _check_distribution(self, expect: Callable, x: Any, n: int, k: int) -> None:
        D = self.distribution
        assert D is not None
        if isinstance(D, VelocityConstraints):
            self._check_velocity_constraints(D, expect, x, n, k)
            return
        name = "forms" if D.forms is not None else "frame"
        m = expect(name, lambda x: D.degeneracy_rows(x, self.parameters), (x,), (None, n))[0]
        independent = m if self.rank is None else self.rank.forms
        if independent + k >= n or m == 0:
            left = (
                "nothing would be left to move; of redundant ones, rank= says how many are independent"
                if name == "forms" and m
                else "leave out a distribution of everything"
            )
            beside = f" beside {k} holonomic constraint(s)" if k else ""
            raise ValueError(f"{name} has {independent} rows{beside} on a group of dimension {n}; {left}")
        self._check_rank(name, independent, m)
        if getattr(D, "rhs", None) is not None:
            expect("rhs", lambda x: D.rhs(x, self.parameters), (x,), (m,))  # type: ignore[attr-defined]
        if getattr(D, "drift", None) is not None:
            expect("drift", lambda x: D.drift(x, self.parameters), (x,), (n,))  # type: ignore[attr-defined]

    def _check_velocity_constraints(self, D: VelocityConstraints, expect: Callable, x: Any, n: int, k: int) -> None:
        v = jax.ShapeDtypeStruct((n,), np.float64)
        if self.rank is not None:
            raise ValueError("rank= is for linear and affine constraints; leave redundant ones of velocity= out")
        m = expect("velocity", lambda x, xi: D.residual(xi, x, self.parameters), (x, v), (None,))[0]
        if m + k >= n or m == 0:
            beside = f" beside {k} holonomic constraint(s)" if k else ""
            raise ValueError(
                f"velocity has {m} entries{beside} on a group of dimension {n}; leave at least one to move"
            )

    def _check_rank(self, name: str, independent: int, given: int) -> None:
        if independent > given:
            raise ValueError(f"rank says that {independent} rows of {name} are independent; it has {given}")


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

"""``System``: a mechanical system as a user writes it, its ingredients tested as far as their shapes go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from geonh.geometry.action import Action, make_action
from geonh.geometry.distribution import Distribution
from geonh.geometry.field import Field, evaluated, takes_parameters
from geonh.geometry.metric import BundleMetric
from geonh.groups import as_group
from geonh.mechanics.check import Report, check_system
from geonh.mechanics.lagrangian import FirstIntegral, LagrangianSystem
from geonh.numerics.dependence import depends
from geonh.numerics.inspection import inspected
from geonh.numerics.precision import as_float64, float64, is_traced

LONGEST = 80
"""Bytes of the name of a first integral."""


class System(LagrangianSystem):
    """A Lagrangian system with (affine) nonholonomic constraints and forces on a Lie group or a product.

    Parameters
    ----------
    space : LieGroup, geomstats manifold, or list of these
        The configuration space. A list is a product.
    metric : array_like, callable or BundleMetric, optional
        Kinetic energy matrix M in the algebra basis, shape=[n, n] (or its diagonal), constant or function of the base.
    lagrangian : callable, optional
        ℓ(x, ξ) or ℓ(x, ξ, parameters), hyperregular, instead of ``metric`` and ``potential``. Where it is quadratic in
        ξ (seen in its trace: the Hessian does not use ξ) it is treated so, its linear part as a gyroscopic term.
    distribution : Distribution or AffineDistribution, optional
        The constraints; none when left out.
    potential : callable, optional
        V(x) or V(x, parameters), joules.
    forces : callable, optional
        f(t, x, ξ, u) or f(t, x, ξ, u, parameters) → covector in g*, shape=[n]; u is the value of the controls.
    parameters : mapping, optional
        Numbers that the functions share; leaves of a pytree, so a sweep over them needs no recompilation.
    base : str, sequence of str or Action
        What the functions depend on: "group" (the default, always right): x is the group element; "point": nothing,
        x = (); "shape" or names of coordinates: these coordinates, x of shape=[k]; or an Action.
    first_integrals : mapping of str to FirstIntegral, optional
        Quantities that the motion keeps besides the energy.
    draw : callable, optional
        draw(t, g, parameters) → list of ``geonh.drawing.Body``: what it looks like in figures, animations and the
        viewer. Where it is left out, a space of planar or spatial poses, attitudes or points implies one.
    name : str
        What tables and files call it.

    Raises
    ------
    TypeError, ValueError
        For input that does not fit, naming the argument, its shape and the shape expected.

    Notes
    -----
    Functions get base points and return values in ``jax.numpy``; all derivatives are taken automatically.
    """

    def __init__(
        self,
        space: Any,
        *,
        metric: Any = None,
        lagrangian: Callable | None = None,
        distribution: Distribution | None = None,
        potential: Callable | None = None,
        forces: Callable | None = None,
        parameters: Mapping[str, Any] | None = None,
        base: str | Sequence[str] | Action = "group",
        first_integrals: Mapping[str, FirstIntegral] | None = None,
        draw: Callable | None = None,
        name: str = "system",
    ):
        self.group = as_group(space)
        self.action = make_action(self.group, base)
        if (metric is None) == (lagrangian is None):
            raise TypeError("System takes either metric= (with potential=) or lagrangian=")
        if lagrangian is not None and potential is not None:
            raise TypeError("potential= goes with metric=; put it into lagrangian= instead")
        given = (
            ("forces", forces, "t, x, xi, u"),
            ("lagrangian", lagrangian, "x, xi"),
            ("draw", draw, "t, g, parameters"),
        )
        for argument, value, takes in given:
            if value is not None and not callable(value):
                raise TypeError(f"{argument} must be a function of ({takes}), got {value!r}")
        for argument, mapping in (("parameters", parameters), ("first_integrals", first_integrals)):
            if mapping is not None and not isinstance(mapping, Mapping):
                raise TypeError(f"{argument} must be a mapping such as {{'name': …}}, got {mapping!r}")
        if not isinstance(name, str):
            raise TypeError(f"name must be text, got {name!r}")
        if distribution is not None and not isinstance(distribution, Distribution):
            raise TypeError(
                f"distribution must be a Distribution or an AffineDistribution, got {type(distribution).__name__}; "
                "write Distribution(forms=...)"
            )
        self.metric = metric if metric is None or isinstance(metric, BundleMetric) else BundleMetric(metric)
        self.potential = None if potential is None else Field(potential, "potential")
        self.lagrangian_function = lagrangian
        self.lagrangian_takes_parameters = lagrangian is not None and takes_parameters(
            lagrangian, "x, xi", "lagrangian"
        )
        self.distribution = distribution
        self.forces = forces
        self.forces_take_parameters = forces is not None and takes_parameters(forces, "t, x, xi, u", "forces")
        self.parameters = _float64_leaves(parameters or {})
        self.first_integrals = dict(first_integrals or {})
        self.draw = draw
        self.name = name
        self.is_quadratic = True
        if not is_traced(self):
            self._check_shapes()
        self.is_quadratic = lagrangian is None or self._is_quadratic()

    def _repr_html_(self) -> str:
        from geonh.cards import system_card

        return system_card(self)

    @property
    def space(self) -> Any:
        """The configuration space as a geomstats manifold, with the kinetic energy as its metric when there is one."""
        space = self.group.space()
        if self.metric is not None:
            from geonh.mechanics.kinetic_metric import KineticMetric  # which imports geomstats

            space.equip_with_metric(KineticMetric, system=self)
        return space

    def check(self, **options: Any) -> Report:
        """Test the system where ``at`` says, or around the identity; see ``geonh.mechanics.check.check_system``."""
        return check_system(self, **options)

    def _is_quadratic(self) -> bool:
        """Whether the traced Hessian of ℓ in ξ does not use ξ, at a point of shapes alone."""
        with float64():
            x = jax.eval_shape(lambda: self.action.at(self.group.identity()))
            v = jax.ShapeDtypeStruct((self.group.dim,), np.float64)
            return not depends(lambda v, x: jax.hessian(lambda v: self.lagrangian(x, v))(v), v, x)

    def _check_shapes(self) -> None:
        """Evaluate every ingredient once at the identity, without computing, and say what does not fit."""
        n = self.group.dim
        x = jax.eval_shape(lambda: self.action.at(self.group.identity()))
        vector = jax.ShapeDtypeStruct((n,), np.float64)

        def expect(name: str, function: Callable, args: tuple, *shapes: tuple[int | None, ...]) -> Any:
            with float64():
                try:
                    closed = jax.make_jaxpr(function)(*args)
                except (TypeError, ValueError) as error:
                    absent = "; with base='point' x is ()" if x == () else ""
                    kind = TypeError if isinstance(error, TypeError) else ValueError
                    raise kind(f"{error}{absent}") from error.__cause__
            inspected(name, closed)
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
        if self.distribution is not None:
            self._check_distribution(expect, x, n)
        self._check_integrals()

    def _check_integrals(self) -> None:
        """Say which first integral is none, or cannot be evaluated at the identity."""
        vector = jax.ShapeDtypeStruct((self.group.dim,), np.float64)
        for key, integral in self.first_integrals.items():
            name = f"first integral {key!r}"
            if not isinstance(key, str) or not isinstance(integral, FirstIntegral):
                raise TypeError(f"first_integrals must map names to FirstIntegral(function), got {key!r}: {integral!r}")
            if len(key.encode(errors="replace")) > LONGEST:  # it names a variable of a file
                raise ValueError(f"the name of a first integral has more than {LONGEST} bytes: {key[:40]!r}…")
            if integral.momentum not in ("average", "minus"):
                raise ValueError(f"momentum of {name} must be 'average' or 'minus', got {integral.momentum!r}")
            function = partial(evaluated, name, integral.function)
            with float64():
                g = jax.tree.map(np.asarray, self.group.identity())
                inspected(name, jax.make_jaxpr(function)(g, vector, vector, self.parameters))

    def _check_distribution(self, expect: Callable, x: Any, n: int) -> None:
        D = self.distribution
        assert D is not None
        name = "forms" if D.forms is not None else "frame"
        m = expect(name, lambda x: D.degeneracy_rows(x, self.parameters), (x,), (None, n))[0]
        if m >= n or m == 0:
            left = (
                "nothing would be left to move" if name == "forms" and m else "leave out a distribution of everything"
            )
            raise ValueError(f"{name} has {m} rows on a group of dimension {n}; {left}")
        if getattr(D, "rhs", None) is not None:
            expect("rhs", lambda x: D.rhs(x, self.parameters), (x,), (m,))  # type: ignore[attr-defined]
        if getattr(D, "drift", None) is not None:
            expect("drift", lambda x: D.drift(x, self.parameters), (x,), (n,))  # type: ignore[attr-defined]


def _float64_leaves(parameters: Any) -> Any:
    """Numbers of a pytree as float64 arrays, the rest as it is."""

    def convert(leaf: Any) -> Any:
        return leaf if callable(leaf) else as_float64(leaf, "parameters")

    return jax.tree.map(convert, dict(parameters))

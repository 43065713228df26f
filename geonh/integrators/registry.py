"""Registry of the methods with their guarantees: the source of ``geonh methods`` and of the tests of the guarantees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from geonh.arguments.signatures import validated
from geonh.arguments.validators import close
from geonh.integrators.adaptive import Adaptive
from geonh.integrators.base import Integrator, require_method
from geonh.integrators.baselines import RungeKutta
from geonh.integrators.composition import compose
from geonh.integrators.discrete_gradient import DiscreteGradient
from geonh.integrators.dla import DLA
from geonh.integrators.feedback import Feedback
from geonh.integrators.gni import GNI, Variational
from geonh.integrators.lobatto import Lobatto
from geonh.integrators.pontryagin import Pontryagin
from geonh.integrators.rattle import RATTLE, SHAKE
from geonh.integrators.runge_kutta import RKMK, CommutatorFree, Gauss
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.integrators.symplectic_euler import EulerA, EulerAB, EulerB
from geonh.integrators.variable_steps import VariableSteps, refuse_variable_steps


class Method(NamedTuple):
    """Registry entry: constructor of a method, and a one-line summary."""

    make: Callable[..., Integrator]
    title: str

    @property
    def options(self) -> tuple[str, ...]:
        """Options ``rule`` and ``retraction`` that ``make`` accepts."""
        return tuple(name for name in ("rule", "retraction") if name in inspect.signature(self.make).parameters)


def _midpoint(coefficients: str) -> Callable[..., Integrator]:
    return lambda retraction="auto": compose(Gauss(1, retraction), coefficients)


class Methods(dict[str, Method]):
    """Methods by name, displayed in notebooks with their guarantees."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:20}{method.title}" for name, method in self.items())

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import methods_card

        return methods_card(self)


_ALL = {
    "projected": Method(SymmetricProjection, "symmetric projection of the variational integrator"),
    "gni": Method(GNI, "geometric nonholonomic integrator"),
    "variational": Method(Variational, "variational integrator, without constraints"),
    "euler-a": Method(EulerA, "GNI with the left rectangle rule"),
    "euler-b": Method(EulerB, "GNI with the right rectangle rule"),
    "euler-ab": Method(EulerAB, "Euler A, then Euler B, at half steps"),
    "rattle": Method(RATTLE, "nonholonomic RATTLE, reduced on groups"),
    "shake": Method(SHAKE, "nonholonomic SHAKE"),
    "dla": Method(DLA, "discrete Lagrange–d'Alembert, midpoint constraint"),
    "dla-left": Method(
        lambda retraction="auto": DLA("left", "left", retraction), "discrete Lagrange–d'Alembert, one-sided constraint"
    ),
    "pontryagin": Method(
        lambda retraction="auto": Pontryagin(0.5, retraction), "reduced d'Alembert–Pontryagin, midpoint"
    ),
    "lobatto2": Method(lambda retraction="auto": Lobatto(2, retraction), "nonholonomic Lobatto IIIA–IIIB, 2 stages"),
    "lobatto4": Method(lambda retraction="auto": Lobatto(3, retraction), "nonholonomic Lobatto IIIA–IIIB, 3 stages"),
    "lobatto6": Method(lambda retraction="auto": Lobatto(4, retraction), "nonholonomic Lobatto IIIA–IIIB, 4 stages"),
    "midpoint": Method(lambda retraction="auto": Gauss(1, retraction), "implicit midpoint in quasi-velocities"),
    "gauss4": Method(
        lambda retraction="auto": Gauss(2, retraction), "Gauss collocation in quasi-velocities, 2 stages: the default"
    ),
    "gauss6": Method(lambda retraction="auto": Gauss(3, retraction), "Gauss collocation in quasi-velocities, 3 stages"),
    "yoshida4": Method(_midpoint("yoshida4"), "implicit midpoint composed three times"),
    "suzuki4": Method(_midpoint("suzuki4"), "implicit midpoint composed five times"),
    "kahan-li6": Method(_midpoint("kahan-li6"), "implicit midpoint composed nine times"),
    "rkmk4": Method(lambda retraction="auto": RKMK(4, retraction), "Runge–Kutta–Munthe-Kaas in quasi-velocities"),
    "rkmk5": Method(
        lambda retraction="auto": RKMK(5, retraction), "Runge–Kutta–Munthe-Kaas with an embedded error estimate"
    ),
    "rkmk6": Method(lambda retraction="auto": RKMK(6, retraction), "Runge–Kutta–Munthe-Kaas in quasi-velocities"),
    "rkmk8": Method(
        lambda retraction="auto": RKMK(8, retraction), "Runge–Kutta–Munthe-Kaas with an embedded error estimate"
    ),
    "commutator-free4": Method(CommutatorFree, "commutator-free Lie group method in quasi-velocities"),
    "discrete-gradient": Method(
        lambda retraction="auto": DiscreteGradient("gonzalez", retraction), "energy-preserving, Gonzalez"
    ),
    "average-vector-field": Method(lambda: DiscreteGradient("average"), "energy-preserving, averaged gradient"),
    "itoh-abe": Method(lambda: DiscreteGradient("itoh-abe"), "energy-preserving, without derivatives of V"),
    "discrete-gradient4": Method(
        lambda retraction="auto": compose(DiscreteGradient("gonzalez", retraction), "suzuki4"),
        "energy-preserving, composed five times",
    ),
    "feedback": Method(lambda: Feedback(100.0, "rk4"), "feedback integrator, gains 100, RK4"),
    "rk4": Method(RungeKutta, "baseline: classical Runge–Kutta"),
    "dormand-prince": Method(lambda: RungeKutta("dormand-prince"), "baseline: Dormand–Prince, fixed steps"),
    "rk4-projected": Method(lambda: RungeKutta("rk4", "constraint"), "baseline: RK4, projected on the constraint"),
    "rk4-energy": Method(lambda: RungeKutta("rk4", "energy"), "baseline: RK4, projected on constraint and energy"),
    "baumgarte": Method(lambda: RungeKutta("rk4", "none", 5.0), "baseline: RK4 with Baumgarte's stabilisation, γ = 5"),
}
methods = Methods(_ALL)
"""Methods by name. ``methods[name].make()`` returns the integrator, with its ``guarantees``."""


DEFAULT = "gauss4"
"""Name of the default method, but for controls that are values at the nodes."""
DEFAULT_FOR_TOLERANCE = "rkmk8"
"""Name of the method whose steps a tolerance chooses by default."""


class Default(NamedTuple):
    """Default method of a run, and the reason for it."""

    method: Integrator
    reason: str


def default_method(controls: Any = None) -> Default:
    """Default method: ``Gauss(2)``, or ``SymmetricProjection()`` for controls that are values at the nodes.

    The choice depends on no number, so it is the same for all parameters, starts and steps of a system.
    """
    return _default(controls is None or callable(controls))


@functools.cache
def _default(between_nodes: bool) -> Default:
    if between_nodes:
        return Default(methods[DEFAULT].make(), "the default")
    return Default(SymmetricProjection(), "the default for controls at the nodes")


def chosen_method(method: Integrator | str | None, controls: Any = None) -> Default:
    """Convert a user's input to a method: an instance, a name, or None for the default for these controls, with the
    reason for that; "" for a method that is named."""
    if method is None:
        return default_method(controls)
    if isinstance(method, str):
        return Default(_made(methods[method]) if method in methods else method_of(method), "")
    require_method(method)
    return Default(method, "")


def stepping_method(method: Integrator | str | None, tolerance: Any, controls: Any = None) -> Default:
    """Convert a user's input to a method, as ``chosen_method``, with steps that a tolerance chooses if one is given."""
    if tolerance is None:
        chosen = chosen_method(method, controls)
    elif method is None or (isinstance(method, str) and method in methods):
        name = DEFAULT_FOR_TOLERANCE if method is None else method
        make = _with_tolerance if type(tolerance) is float else _with_tolerance.__wrapped__
        chosen = Default(make(methods[name], tolerance), "" if method else "the default for a tolerance")
    else:
        chosen = Default(Adaptive(chosen_method(method, controls).method, tolerance), "")
    if isinstance(chosen.method, VariableSteps) and controls is not None and not callable(controls):
        raise TypeError(
            "controls are values at nodes, and nodes are not known before a tolerance chooses the steps: pass controls "
            "as a function of t, such as lambda t: jax.numpy.interp(t, times, values)"
        )
    return chosen


def as_method(method: Integrator | str | None, controls: Any = None) -> Integrator:
    """Convert a user's input to a method with steps of one length, as ``chosen_method``, without the reason."""
    made = chosen_method(method, controls).method
    refuse_variable_steps(made)
    return made


@validated
def method_of(word: str, **options: Any) -> Integrator:
    """Method of a given name in ``methods``.

    Parameters
    ----------
    word : str
        One of ``geonh methods``, such as "gni".
    **options : keyword arguments
        Options of its constructor, such as ``rule`` and ``retraction``.

    Returns
    -------
    Integrator

    Raises
    ------
    TypeError
        If ``word`` is not text, or the method does not have that option.
    ValueError
        For an unknown name, with similar ones.
    """
    if word not in methods:
        hint = close(word, methods) or f"; methods are {', '.join(methods)}"
        raise ValueError(f"no method {word!r}{hint}")
    return methods[word].make(**options) if options else _made(methods[word])


@functools.cache
def _made(method: Method) -> Integrator:
    """Method without options, made once: methods are immutable."""
    return method.make()


@functools.lru_cache
def _with_tolerance(method: Method, tolerance: float) -> Integrator:
    return Adaptive(_made(method), tolerance)

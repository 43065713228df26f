"""``Adaptive``: steps of variable length that a tolerance chooses, of the kind that suits the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geonh.integrators.base import Integrator, require_method
from geonh.integrators.error_control import ErrorControlled
from geonh.integrators.reversible_steps import ReversibleSteps
from geonh.integrators.variable_steps import VariableSteps


def Adaptive(
    method: Integrator,
    tolerance: float,
    *,
    max_step: float | None = None,
    monitor: Callable | None = None,
    sizes: Any = (1.0, 1.0),
) -> VariableSteps:
    """Return a method whose steps a tolerance chooses.

    Its time and step are memory of its nodes, and what the method guarantees at nodes holds at its nodes.

    Parameters
    ----------
    method : Integrator
        Method that makes the steps, whose ``guarantees.steps`` is "controlled", as of ``RKMK(8)`` and ``RKMK(5)``, or
        "reversible", as of ``Gauss(2)``.
    tolerance : float
        Size of errors, of g relative to 1 or its largest entry, of ξ relative to 1 + |ξ|: controlled, forty times the
        largest error of a step; reversible, the sum of the errors of all steps, estimated at the start.
    max_step : float, optional
        Largest length of a controlled step, seconds.
    monitor : callable, optional
        Local time scale σ(t, g, ξ) > 0 of reversible steps, in ``jax.numpy``, in seconds up to a constant factor; by
        default the time in which the motion covers a fixed arc length in phase space.
    sizes : array_like, shape=[2]
        Sizes of g and of ξ in place of these ones, where numbers are small, as of molecules in SI units.

    Returns
    -------
    ErrorControlled or ReversibleSteps

    Examples
    --------
    >>> import geonh as gn
    >>> method = gn.Adaptive(gn.RKMK(8), 1e-8)
    >>> traj = gn.solve(gn.systems.suslov(), method, xi0=[0.0, 1.0, 0.0], t_end=20.0)

    Raises
    ------
    TypeError
        If ``method`` is not a method, or an argument is not a number.
    ValueError
        If the method has steps of one length only, a number is not positive, or an option is for the other kind.
    """
    require_method(method)
    if isinstance(method, VariableSteps):
        raise ValueError(f"{type(method).__name__} has a tolerance of its own already")
    kind = method.guarantees.steps
    if kind == "fixed":
        raise ValueError(
            f"method {type(method).__name__} has steps of one length: it has no embedded error estimate, and is not "
            "symmetric with a velocity as its node; take RKMK(8) or Gauss(2)"
        )
    if kind == "controlled":
        if monitor is not None:
            raise ValueError("monitor is for reversible steps, as of Gauss(2): those of RKMK follow its error")
        return ErrorControlled(method, tolerance, max_step=np.inf if max_step is None else max_step, sizes=sizes)
    if max_step is not None:
        raise ValueError("max_step is for controlled steps, as of RKMK(8): a bound would not be reversible")
    return ReversibleSteps(method, tolerance, monitor=monitor, sizes=sizes)

"""``Adaptive``: steps of variable length that a tolerance chooses, of the kind that suits the method."""

from __future__ import annotations

from typing import Any

from geonh.integrators.base import Integrator, require_method
from geonh.integrators.error_control import ErrorControlled
from geonh.integrators.variable_steps import VariableSteps


def Adaptive(method: Integrator, tolerance: float, **options: Any) -> VariableSteps:
    """Return a method whose steps a tolerance chooses.

    Its time and step are memory of its nodes, and what the method guarantees at nodes holds at its nodes.

    Parameters
    ----------
    method : Integrator
        Method that makes the steps, whose ``guarantees.steps`` is "controlled": ``RKMK(5)``.
    tolerance : float
        Largest error of a step: of g in the units of its logarithm, of ξ relative to 1 + |ξ|.
    **options : keyword arguments
        ``max_step``, the largest length of a step, seconds.

    Returns
    -------
    ErrorControlled

    Examples
    --------
    >>> import geonh as gn
    >>> method = gn.Adaptive(gn.RKMK(5), 1e-8)
    >>> traj = gn.solve(gn.systems.suslov(), method, xi0=[0.0, 1.0, 0.0], t_end=20.0)

    Raises
    ------
    TypeError
        If ``method`` is not a method, or an argument is not a number.
    ValueError
        If the method has steps of one length only, or a number is not positive.
    """
    require_method(method)
    if isinstance(method, VariableSteps):
        raise ValueError(f"{type(method).__name__} has a tolerance of its own already")
    if method.guarantees.steps != "controlled":
        raise ValueError(f"{type(method).__name__} has no embedded error estimate, which chooses steps: take RKMK(5)")
    return ErrorControlled(method, tolerance, **options)

r"""The Euler A and B methods of the geometric nonholonomic integrator, and their composition at half steps.

On a vector space with ℓ = ½q̇ᵀMq̇ − V, GNI with l_d = hℓ(q, ζ/h) (Euler A) and with l_d = hℓ(q + ζ, ζ/h) (Euler B)
are the nonholonomic symplectic Euler methods (Ferraro, Iglesias, Martín de Diego 2008, §5; 2015, §5). Both are of
order 1 and each is the adjoint of the other, A*_h = B_h; B_{h/2} ∘ A_{h/2} is of order 2. It is not RATTLE, whose
discrete Lagrangian is the trapezoid rule at the nodes only: here the reflection is applied at the half step too.
"""

from __future__ import annotations

from geonh.algebra.newton import Newton
from geonh.groups.retraction import Retraction
from geonh.integrators.composition import Composition, pair
from geonh.integrators.gni import GNI


def EulerA(retraction: str | Retraction = "auto", *, newton: Newton | None = None) -> GNI:
    """GNI with the left rectangle rule; order 1.

    Parameters
    ----------
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Returns
    -------
    GNI

    Raises
    ------
    TypeError, ValueError
        As for ``GNI``.

    References
    ----------
    .. [Ferraro2008] S. Ferraro, D. Iglesias, D. Martín de Diego, "Momentum and energy preserving integrators for
       nonholonomic dynamics", Nonlinearity 21 (2008), 1911–1928; §5.
    .. [Ferraro2015] S. Ferraro, F. Jiménez, D. Martín de Diego, "New developments on the geometric nonholonomic
       integrator", Nonlinearity 28 (2015), 871–900; §5.
    """
    return GNI("left", retraction, newton=newton)  # type: ignore[arg-type]


def EulerB(retraction: str | Retraction = "auto", *, newton: Newton | None = None) -> GNI:
    """GNI with the right rectangle rule, the adjoint of Euler A; order 1.

    Parameters
    ----------
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Returns
    -------
    GNI

    Raises
    ------
    TypeError, ValueError
        As for ``GNI``.

    References
    ----------
    .. [Ferraro2008] S. Ferraro, D. Iglesias, D. Martín de Diego, "Momentum and energy preserving integrators for
       nonholonomic dynamics", Nonlinearity 21 (2008), 1911–1928; §5.
    .. [Ferraro2015] S. Ferraro, F. Jiménez, D. Martín de Diego, "New developments on the geometric nonholonomic
       integrator", Nonlinearity 28 (2015), 871–900; §5.
    """
    return GNI("right", retraction, newton=newton)  # type: ignore[arg-type]


def EulerAB(retraction: str | Retraction = "auto", *, newton: Newton | None = None) -> Composition:
    """Euler A over half a step, then Euler B over the other half; order 2, symmetric.

    Parameters
    ----------
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Returns
    -------
    Composition

    Raises
    ------
    TypeError, ValueError
        As for ``GNI``.

    References
    ----------
    .. [Ferraro2008] S. Ferraro, D. Iglesias, D. Martín de Diego, "Momentum and energy preserving integrators for
       nonholonomic dynamics", Nonlinearity 21 (2008), 1911–1928; §5.
    .. [Ferraro2015] S. Ferraro, F. Jiménez, D. Martín de Diego, "New developments on the geometric nonholonomic
       integrator", Nonlinearity 28 (2015), 871–900; §5.
    """
    return pair(EulerB(retraction, newton=newton), EulerA(retraction, newton=newton))

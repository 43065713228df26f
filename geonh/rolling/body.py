r"""A convex body that rolls on a surface without sliding, on SE(3), from its support function.

With attitude R, centre of mass x, the outward normal n of the body at the contact (body axes), ρ = ∇H(n), X = x + Rρ
the contact, ν the surface's normal there and T(ν) two tangents of length one,

    φ = ψ(X)                               (contact: on a plane e·X = c it is e·x − H(−Rᵀe) − c)
    T(ν)R(v + ω×ρ) = T(ν)u(t, X)           (no sliding; u is the velocity of the surface's material)
    (Rᵀν)·ω = ½ν·curl u                    (no spinning, if asked)
    ℓ = ½ω·Jω + ½m|v|² − mg x₃

Two tangential forms and φ, never three forms: the third follows from φ, and the rank would fall.

Source: Borisov, Mamaev, *Rolling of a rigid body on a plane and sphere*, Regul. Chaotic Dyn. 7 (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, as_positive
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import Field, Moment, TimeDependent, time_dependent
from geonh.groups import SE3
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System
from geonh.rolling import rows
from geonh.rolling.body_drawing import drawing
from geonh.rolling.contacts import touch
from geonh.rolling.resisting import with_resistance
from geonh.rolling.sliding import with_friction
from geonh.rolling.supports import Support
from geonh.rolling.surfaces import Surface, plane, surface

BETWEEN = np.arange(1, 8) / 8
"""Fractions of a step at which a contact between its nodes is examined."""
TAKEN = (
    *("support", "on", "surface velocity", "J", "m", "g", "spin"),
    *("static friction", "friction", "restitution", "rolling resistance", "spinning friction"),
)


class RollingBody(System):
    """System of a body that rolls; returned by ``rolling``."""

    if TYPE_CHECKING:  # fields hold what the constructor of ``System`` makes of its arguments

        def __init__(self, space: Any, **options: Any): ...

    def joins(self, x: Any, y: Any) -> Array | bool:
        """False if the body could not touch the surface between its contacts at x and y, over which it leaps.

        In a motion it touches at all places in between, and so is more curved than the surface at each of them.
        """
        parameters = self.parameters
        surface, support = parameters["on"], parameters["support"]
        if surface.clears_always:
            return True
        t, g, h = (x.t, x.x, y.x) if isinstance(x, Moment) else (0.0, x, y)
        begin, end = touch(t, g, parameters).place, touch(y.t if isinstance(y, Moment) else 0.0, h, parameters).place
        turn = self.group.log(self.group.compose(self.group.inverse(g), h))

        def clears(s: Array) -> Array:
            R = self.group.compose(g, self.group.exp(s * turn))[:3, :3]
            time = t + s * (y.t - t) if isinstance(y, Moment) else 0.0
            X = Moment(time, begin + s * (end - begin))
            n = -(surface.normal(X, parameters) @ R)
            return surface.clears(support, n, R, X._replace(x=X.x - R @ support.point(n)), parameters)

        return jnp.all(lax.map(clears, jnp.asarray(BETWEEN)))


@validated
def rolling(
    support: Support,
    inertia: Any,
    mass: float,
    *,
    on: Surface | Callable | TimeDependent | None = None,
    surface_velocity: Callable | TimeDependent | None = None,
    spin: bool = True,
    gravity: float = 9.81,
    friction: float | tuple[float, float] | None = None,
    restitution: float = 0.0,
    rolling_resistance: float | None = None,
    spinning_friction: float | None = None,
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    name: str = "rolling body",
) -> Any:
    """System of a body that rolls on a surface without sliding; or, with friction, that rolls, slides or is free.

    Parameters
    ----------
    support : Support
        Its shape: ``ball``, ``ellipsoid``, ``disc``, ``torus``, sums and rounded ones of these, ``support`` or
        ``implicit``; from the centre of mass, in body axes.
    inertia : array_like, shape=[3] or [3, 3]
        Moments of inertia about the centre of mass in body axes, kg m².
    mass : float
        kg.
    on : Surface or callable, optional
        ``plane``, ``cylinder``, ``sphere``, or ψ(X), zero on the surface and positive on the free side; z = 0 when left
        out.
    surface_velocity : callable, optional
        u(X) → shape=[3], the velocity in m/s of the surface's material at the point X, or u(X, parameters); of (t, X)
        with ``geonh.time_dependent``. At rest when left out. Only its tangential part is used: the normal velocity of
        the surface is that of ψ(t, X).
    spin : bool
        True if it may spin about the surface's normal; False for rubber rolling.
    gravity : float
        m/s², downwards along z.
    friction : float or (float, float), optional
        Coefficient of Coulomb's friction μ, or (μ_s, μ): that for rolling, and that for sliding. The body rolls while
        the contact force is in the friction cone, slides outside, leaves the surface where the normal force vanishes,
        and lands with an impact. When left out it rolls, whatever the force. Its parameter is "friction", of two
        coefficients μ_s is "static friction".
    restitution : float
        Ratio e of the normal velocities after and before an impact, between 0 and 1, of a body with friction, by
        Chatterjee's and Ruina's law: the energy never rises.
    rolling_resistance, spinning_friction : float, optional
        Arms ρ and σ in metres, of a body with friction: the surface resists rolling by the moment ρλ_n against the part
        of the angular velocity along the surface, relative to it, and spinning by σλ_n against that about its normal.
        Where one of these vanishes it stays zero as long as the moment for that is less.
    forces : callable, optional
        f(t, x, ξ, u) as of ``System``: other resistance, drag, motors; ``contact`` helps.
    parameters : mapping, optional
        Further numbers, for the functions given here. Those of the body are included as "m", "J" and "g".
    first_integrals : mapping of str to FirstIntegral, optional
        As for ``System``.
    draw : callable, optional
        As for ``System``; the body and the path of its contact when left out.
    name : str
        Name in tables and files.

    Returns
    -------
    System or Modes
        On SE(3), ξ = (ω, v) in body axes; with friction the modes "roll", "slide" and "free", with resistance also
        "roll without spin" and "slide without spin", and without rolling "spin", "rest", "skid and spin" and "skid".

    Raises
    ------
    TypeError, ValueError
        For an invalid argument, naming it.

    Examples
    --------
    >>> import geonh as gn
    >>> coin = gn.rolling(gn.rolling.disc(0.01), [2.5e-7, 2.5e-7, 5e-7], 0.01)
    """
    J = as_float64(inertia, "inertia")
    if J.shape not in ((3,), (3, 3)):
        raise ValueError(f"inertia must be three moments or a matrix [3, 3], got shape {list(J.shape)}")
    J = np.diag(J) if J.ndim == 1 else J
    moments = np.linalg.eigvalsh(J)
    if not np.allclose(J, J.T, rtol=1e-12, atol=0) or not moments[0] > 0:
        raise ValueError(f"inertia must be symmetric and positive definite, got\n{J}")
    if moments[2] > (1 + 1e-9) * (moments[0] + moments[1]):
        raise ValueError(f"inertia is of no body: of its moments {moments} one exceeds the sum of the others")
    on = plane() if on is None else on if isinstance(on, Surface) else surface(on)
    clash = [key for key in parameters or {} if key in TAKEN]
    if clash:
        raise ValueError(f"parameters: {clash} are names of the body's own; take others")
    numbers = {
        "support": support,
        "on": on,
        "J": J,
        "m": as_positive(mass, "mass", ()),
        "g": gravity,
        **(parameters or {}),
    }
    moving = None if surface_velocity is None else Field(surface_velocity, "surface_velocity")
    if moving is not None:
        numbers["surface velocity"] = moving
    at_time = on.timed or (moving is not None and moving.timed)

    def distribution(kind: str) -> Distribution:
        forms, rhs = rows.CONSTRAINTS[kind]
        if moving is None:
            return Distribution(forms=_chosen(on.timed, *forms))
        return AffineDistribution(forms=_chosen(on.timed, *forms), rhs=_chosen(at_time, *rhs))

    common: dict[str, Any] = {
        "metric": rows.metric,
        "potential": rows.potential,
        "forces": forces,
        "first_integrals": first_integrals,
        "draw": drawing if draw is None else draw,
    }
    touching: dict[str, Any] = {"holonomic": _chosen(on.timed, rows.height, rows.height_in_time)}

    def made(mode: str, more: Mapping[str, Any], **options: Any) -> System:
        kept = {} if mode == "free" else touching
        if mode in ("roll", "rest"):
            kinds = {"roll": "rolling" if spin else "rubber rolling", "rest": "rest"}
            kept = {**touching, "distribution": distribution(kinds[mode])}
        kind = System if mode == "free" else RollingBody
        return kind(SE3(), **common, **kept, **options, parameters={**numbers, **more}, name=name)

    resistance = {"rolling resistance": rolling_resistance, "spinning friction": spinning_friction}
    resistance = {name: arm for name, arm in resistance.items() if arm is not None}
    if friction is None:
        if restitution:
            raise ValueError("restitution is that of a body with friction=, which may leave its surface and land")
        if resistance:
            given = " and ".join(f"{name.replace(' ', '_')}=" for name in resistance)
            raise ValueError(f"{given} is that of a body with friction=")
        return made("roll", {})
    if not spin or on.timed:
        raise ValueError("friction= is for bodies that may spin, on surfaces whose shape does not depend on the time")
    if resistance:
        return with_resistance(made, friction, restitution, resistance, name)
    return with_friction(made, friction, restitution, name)


def _chosen(timed: bool, still: Callable, in_time: Callable) -> Any:
    return time_dependent(in_time) if timed else still

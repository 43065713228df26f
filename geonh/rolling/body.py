r"""A convex body that rolls on a surface without sliding, on SE(3), from its support function.

With attitude R, centre of mass x, the outward normal n of the body at the contact (body axes), ρ = ∇H(n), X = x + Rρ
the contact, ν the surface's normal there and T(ν) two tangents of length one,

    φ = ψ(X)                               (contact: on a plane e·X = c it is e·x − H(−Rᵀe) − c)
    T(ν)R(v + ω×ρ) = T(ν)u(t, X)           (no sliding; u is the velocity of the surface's material)
    (Rᵀν)·ω = ½ν·curl u                    (no spinning, if asked)
    ℓ = ½ω·Jω + ½m|v|² − mg x₃

Two tangential forms and φ, never three forms: the third follows from φ, and the rank would fall.

Sources: Borisov, Mamaev, *Rolling of a rigid body on a plane and sphere*, Regul. Chaotic Dyn. 7 (2002); tangents: Duff
and others, *Building an orthonormal basis, revisited*, J. Comput. Graph. Tech. 6 (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.precision import float64, is_traced
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_float64, as_positive, shortly
from geonh.drawing import Body, Pose, along, ground, line, shifted
from geonh.drawing import surface as boundary
from geonh.drawing.level import level
from geonh.engine import computed, in_float64, in_numpy, traced_once
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import Field, Moment, TimeDependent, time_dependent
from geonh.groups import SE3
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System
from geonh.rolling.supports import Support
from geonh.rolling.surfaces import Surface, plane, surface

BETWEEN = np.arange(1, 8) / 8
"""Fractions of a step at which a contact between its nodes is examined."""
DEEP = 1e-9
"""Largest accepted penetration of a body into its surface, relative to its size."""
_TURN, _UP = np.pi * (1 + 5**0.5) * np.arange(1000), 1 - (2 * np.arange(1000) + 1) / 1000
DIRECTIONS = np.stack([np.sqrt(1 - _UP**2) * np.cos(_TURN), np.sqrt(1 - _UP**2) * np.sin(_TURN), _UP], axis=1)
"""Unit vectors, evenly distributed on a Fibonacci spiral."""
TAKEN = ("support", "on", "surface velocity", "J", "m", "g", "spin")


class Contact(NamedTuple):
    """Contact of a body with its surface.

    Attributes
    ----------
    place : array, shape=[3]
        The point X in space, m.
    normal : array, shape=[3]
        The surface's unit normal ν in space, towards the body.
    arm : array, shape=[3]
        ρ, from the centre of mass to X, in body axes, m.
    """

    place: Array
    normal: Array
    arm: Array


class RollingBody(System):
    """System of a body that rolls; returned by ``rolling``."""

    if TYPE_CHECKING:  # fields hold what the constructor of ``System`` makes of its arguments

        def __init__(self, space: Any, **options: Any): ...

    def joins(self, x: Any, y: Any) -> Array | bool:
        """False if the body could not touch the surface between its contacts at x and y, over which it leaps.

        In a motion it touches at all places in between, and so is more curved than the surface at each of them.
        """
        p = self.parameters
        if p["on"].clears_always:
            return True
        t, g, h = (x.t, x.x, y.x) if isinstance(x, Moment) else (0.0, x, y)
        begin, end = _touch(t, g, p).place, _touch(y.t if isinstance(y, Moment) else 0.0, h, p).place
        turn = self.group.log(self.group.compose(self.group.inverse(g), h))

        def clears(s: Array) -> Array:
            R = self.group.compose(g, self.group.exp(s * turn))[:3, :3]
            time = t + s * (y.t - t) if isinstance(y, Moment) else 0.0
            X = Moment(time, begin + s * (end - begin))
            n = -(p["on"].normal(X, p) @ R)
            return p["on"].clears(p["support"], n, R, X._replace(x=X.x - R @ p["support"].point(n)), p)

        return jnp.all(lax.map(clears, jnp.asarray(BETWEEN)))


@judged
def rolling(
    support: Support,
    inertia: Any,
    mass: float,
    *,
    on: Surface | Callable | TimeDependent | None = None,
    surface_velocity: Callable | TimeDependent | None = None,
    spin: bool = True,
    gravity: float = 9.81,
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    name: str = "rolling body",
) -> System:
    """System of a body that rolls on a surface without sliding.

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
    forces : callable, optional
        f(t, x, ξ, u) as of ``System``: rolling friction, drag, motors; ``contact`` helps.
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
    System
        On SE(3), ξ = (ω, v) in body axes.

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
    forms = _chosen(on.timed, *((_forms, _forms_in_time) if spin else (_rubber_forms, _rubber_forms_in_time)))
    if moving is None:
        distribution = Distribution(forms=forms)
    else:
        rhs = _chosen(at_time, *((_rhs, _rhs_in_time) if spin else (_rubber_rhs, _rubber_rhs_in_time)))
        distribution = AffineDistribution(forms=forms, rhs=rhs)
    return RollingBody(
        SE3(),
        metric=_metric,
        potential=_potential,
        holonomic=_chosen(on.timed, _height, _height_in_time),
        distribution=distribution,
        forces=forces,
        parameters=numbers,
        first_integrals=first_integrals,
        draw=drawing if draw is None else draw,
        name=name,
    )


@judged
@in_float64
def contact(system: System | Mapping, g: Any, t: float = 0.0) -> Contact:
    """Contact point of a body of ``rolling``, actual or prospective; traceable, for forces and drawings.

    Parameters
    ----------
    system : System or mapping
        System of ``rolling``; or its parameters, as passed to ``forces``.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    t : float
        Time, s.

    Returns
    -------
    Contact
        ``place``, ``normal`` and ``arm``, arrays of shape=[3].

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, or ``g`` or ``t`` are not numbers of that shape.
    """
    parameters, node = _as_placement(system, g, t)
    return _touch(*node, parameters) if is_traced((parameters, node)) else computed(_touched, parameters, node)


@judged
def start(
    system: System, rotation: Any = None, omega: Any = (0.0, 0.0, 0.0), *, place: Any = (0.0, 0.0, 0.0), t0: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Consistent initial conditions of a body with given attitude and angular velocity, in contact at a given point.

    Parameters
    ----------
    system : System
        System of ``rolling``.
    rotation : array_like, shape=[3, 3], optional
        R, from body to space; the identity when left out.
    omega : array_like, shape=[3]
        Angular velocity in body axes, rad/s.
    place : array_like, shape=[3]
        Contact point, on the surface, metres.
    t0 : float
        Time, s.

    Returns
    -------
    g0 : ndarray, shape=[4, 4]
        Configuration of the body.
    xi0 : ndarray, shape=[6]
        Its velocity (ω, v) in body axes.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the place is not on the surface, the body would spin though ``spin`` is False, or it would not fit: it is not
        more curved than the surface there, or penetrates it elsewhere, as ``overlap`` measures.
    """
    _refuse_another(system.parameters, system)
    R = np.eye(3) if rotation is None else as_float64(rotation, "rotation", (3, 3))
    turning, X = as_float64(omega, "omega", (3,)), as_float64(place, "place", (3,))
    t0 = as_float64(t0, "t0", ())
    level, arm, g, xi, off, clears, deep = computed(_started, system, (np.float64(t0), X, R, turning))
    if abs(level) > 1e-9:
        raise ValueError(f"place {X} does not lie on the surface of {system.name}: ψ = {level:.3g} there")
    if not np.all(np.isfinite(arm)):
        raise ValueError(f"{system.name} does not touch in a single point with that attitude")
    if not clears:
        raise ValueError(
            f"{system.name} is not more curved than its surface at {X} with that attitude, so it cannot touch there: "
            "it would sink in about the contact; a smaller or rounder body, or another attitude, fits into the hollow"
        )
    system.point(g, name="rotation")
    if deep > DEEP * (1 + np.abs(g[:3, 3] - X).max()):
        raise ValueError(
            f"{system.name} touches at {X} with that attitude, but elsewhere it reaches {deep:.3g} m through its "
            "surface; overlap tells it of any place"
        )
    if np.abs(off).max() > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(f"omega = {turning} is not allowed to {system.name}: residual {off}")
    return g, xi


@judged
@in_float64
def overlap(system: System | Mapping, g: Any, t: float = 0.0) -> Array:
    """Penetration depth of a body into its surface, m, negative if there is none; traceable, for events.

    It is sampled at the points with normals in 1000 directions: penetration between them, up to about a thousandth of
    the size of the body, is not detected, nor is a bump under a flat side.

    Parameters
    ----------
    system : System or mapping
        System of ``rolling``; or its parameters.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    t : float
        Time, s.

    Returns
    -------
    array, shape=[]
        Maximum of −ψ/|∇ψ|.

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, or ``g`` or ``t`` are not numbers of that shape.
    """
    parameters, node = _as_placement(system, g, t)
    if is_traced(*node, parameters):
        return _overlap(*node, parameters)
    return computed(_overlapped, parameters, node)


def _overlapped(parameters: Any, node: tuple) -> Array:
    return _overlap(*node, parameters)


@traced_once
def _overlap(t: Any, g: Any, parameters: Any) -> Array:
    R, centre = g[:3, :3], g[:3, 3]

    def depth(n: Array) -> Array:
        X = centre + R @ parameters["support"].point(n)
        level, slope = jax.value_and_grad(lambda y: parameters["on"].value(Moment(t, y), parameters))(X)
        return -level / jnp.sqrt(slope @ slope)

    depths = jax.vmap(depth)(jnp.asarray(DIRECTIONS))
    return jnp.max(jnp.where(jnp.isnan(depths), -jnp.inf, depths))


def _as_placement(system: Any, g: Any, t: Any) -> tuple[Mapping[str, Any], tuple[Any, Any]]:
    """Parameters of a system of ``rolling``, or those given in its place, and (t, g) as float64 arrays."""
    parameters = system if isinstance(system, Mapping) else getattr(system, "parameters", {})
    _refuse_another(parameters, system)
    return parameters, (as_float64(t, "t", ()), as_float64(g, "g", (4, 4)))


def _refuse_another(parameters: Any, system: Any) -> None:
    kinds = {"on": Surface, "support": Support}
    if not isinstance(parameters, Mapping) or not all(isinstance(parameters.get(k), kinds[k]) for k in kinds):
        raise TypeError(f"system must be one that geonh.rolling made, or its parameters; got {shortly(system)}")


def _started(system: System, node: tuple) -> tuple[Array, ...]:
    """ψ at the contact point, the arm, the initial state, its constraint residual, True if the body is more
    curved than its surface, and the penetration depth.
    """
    (t, X, R, turning), parameters = node, system.parameters
    here = Moment(t, X)
    arm = parameters["support"].point(-(parameters["on"].normal(here, parameters) @ R))
    xi = jnp.concatenate([turning, R.T @ _surface_velocity(here, parameters) - jnp.cross(turning, arm)])
    g = jnp.concatenate([jnp.concatenate([R, (X - R @ arm)[:, None]], axis=1), jnp.eye(4)[3:]])
    level, off = parameters["on"].value(here, parameters), system.constraint_residual(system.at(g, t), xi)
    clears = parameters["on"].clears(
        parameters["support"], -(parameters["on"].normal(here, parameters) @ R), R, Moment(t, X - R @ arm), parameters
    )
    return level, arm, g, xi, off, clears, _overlap(t, g, parameters)


# --- the functions of the system -----------------------------------------------------------------------------
@in_float64
def drawing(t: Any, g: Any, p: Any) -> list[Body]:
    """Draw the body by its support function, the path of its contact, and the surface on which it rolls.

    For a surface that moves with the time, its tangent plane at the contact.

    Default ``draw=`` of ``rolling``.

    Parameters
    ----------
    t : float
        Time, s.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    p : mapping
        The system's parameters.

    Returns
    -------
    list of Body
        As ``System(draw=)`` takes them.

    Raises
    ------
    TypeError
        If ``p`` are not the parameters of a system made by ``rolling``.
    ValueError
        If ``g`` has another shape.
    """
    _refuse_another(p, p)
    g = as_float64(g, "g", (4, 4))

    def point(n: Array) -> Array:
        """Boundary point with an outer normal; on a flat side, with a single normal, the midpoint of two rim points."""
        aside, at = jnp.array([3e-7, 5e-7, 7e-7]), p["support"].point
        return jnp.where(jnp.isfinite(at(n)), at(n), (at(n + aside) + at(n - aside)) / 2)

    with float64():  # the poles of the mesh where it is flat, as on a disc
        ends = ~np.isfinite(in_numpy(jax.vmap(p["support"].point), np.eye(3))(np.eye(3))).all(axis=1)
    axis = "xyz"[int(np.argmax(ends))] if ends.any() else "z"
    body, touching = boundary(point, axis=axis), _touch(as_float64(t, "t", ()), jnp.asarray(g), p)
    bodies = [
        Body("body", body, at=Pose(g[:3, :3], g[:3, 3])),
        Body("contact", at=shifted(*touching.place), trace=[0, 0, 0]),
    ]
    if (flat := p["on"].as_plane) is not None:
        up, distance = flat
        return [*bodies, Body("plane", ground(), at=along(up, distance * up, axis="z"))]
    if p["on"].timed:
        half, lines = np.abs(body.vertices).max(), np.linspace(-1, 1, 9)
        grid = [line(half * np.array(ends)) for a in lines for ends in ([[a, -1], [a, 1]], [[-1, a], [1, a]])]
        return [*bodies, Body("tangent plane", grid, at=along(touching.normal, touching.place, "z"), colour="#999999")]
    return [*bodies, Body("surface", level(lambda X: p["on"].value(Moment(0.0, X), p)), colour="#999999")]


def _metric(x: Any, parameters: Any) -> Array:
    none = jnp.zeros((3, 3))
    return jnp.block([[parameters["J"], none], [none, parameters["m"] * jnp.eye(3)]])


def _potential(x: Any, parameters: Any) -> Array:
    return parameters["m"] * parameters["g"] * x[2, 3]


@traced_once
def _touch(t: Any, x: Any, parameters: Any) -> Contact:
    R, centre = x[:3, :3], x[:3, 3]
    n = parameters["on"].outward(parameters["support"], R, Moment(t, centre), parameters)
    arm = parameters["support"].point(n)
    place = centre + R @ arm
    return Contact(place, parameters["on"].normal(Moment(t, place), parameters), arm)


def _touched(parameters: Any, node: tuple) -> Contact:
    return _touch(*node, parameters)


def _height_in_time(t: Any, x: Any, parameters: Any) -> Array:
    return parameters["on"].height(parameters["support"], x[:3, :3], Moment(t, x[:3, 3]), parameters)[None]


def _forms_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = _touch(t, x, parameters)
    a, b, c = touching.arm
    turning = jnp.array([[0.0, c, -b], [-c, 0.0, a], [b, -a, 0.0]])  # ω ↦ ω × ρ
    return _tangents(touching.normal) @ x[:3, :3] @ jnp.concatenate([turning, jnp.eye(3)], axis=1)


def _rubber_forms_in_time(t: Any, x: Any, parameters: Any) -> Array:
    row = jnp.concatenate([_touch(t, x, parameters).normal @ x[:3, :3], jnp.zeros(3)])
    return jnp.concatenate([_forms_in_time(t, x, parameters), row[None]])


def _rhs_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = _touch(t, x, parameters)
    return _tangents(touching.normal) @ _material_velocity(Moment(t, touching.place), parameters)


def _rubber_rhs_in_time(t: Any, x: Any, parameters: Any) -> Array:
    touching = _touch(t, x, parameters)
    D = jax.jacfwd(lambda X: _material_velocity(Moment(t, X), parameters))(touching.place)
    curl = jnp.stack([D[2, 1] - D[1, 2], D[0, 2] - D[2, 0], D[1, 0] - D[0, 1]])
    return jnp.append(_rhs_in_time(t, x, parameters), touching.normal @ curl / 2)


def _material_velocity(X: Moment, parameters: Any) -> Array:
    """Velocity u(t, X), zero where the surface is at rest."""
    velocity = parameters["surface velocity"](X, parameters) if "surface velocity" in parameters else jnp.zeros(3)
    if velocity.shape != (3,):
        raise ValueError(f"surface_velocity must give shape [3], got {list(velocity.shape)}")
    return velocity


def _surface_velocity(X: Moment, parameters: Any) -> Array:
    """Velocity, shape=[3], of a point in rolling contact at X: u along the surface, −∂_tψ/|∇ψ| across it."""
    nu, u = parameters["on"].normal(X, parameters), _material_velocity(X, parameters)
    rising = jax.grad(lambda t: parameters["on"].value(Moment(t, X.x), parameters))(X.t)
    slope = jax.grad(lambda y: parameters["on"].value(Moment(X.t, y), parameters))(X.x)
    return u - (nu @ u + rising / jnp.sqrt(slope @ slope)) * nu


def _tangents(nu: Array) -> Array:
    """Two orthonormal tangents, as rows; they jump where ν₃ changes sign, which does not affect any method."""
    s = jnp.where(nu[2] < 0, -1.0, 1.0)
    a = -1 / (s + nu[2])
    x, y = nu[0], nu[1]
    return jnp.stack([jnp.stack([1 + s * x * x * a, s * x * y * a, -s * x]), jnp.stack([x * y * a, s + y * y * a, -y])])


def _chosen(timed: bool, still: Callable, in_time: Callable) -> Any:
    return time_dependent(in_time) if timed else still


def _height(x: Any, parameters: Any) -> Array:
    return _height_in_time(0.0, x, parameters)


def _forms(x: Any, parameters: Any) -> Array:
    return _forms_in_time(0.0, x, parameters)


def _rubber_forms(x: Any, parameters: Any) -> Array:
    return _rubber_forms_in_time(0.0, x, parameters)


def _rhs(x: Any, parameters: Any) -> Array:
    return _rhs_in_time(0.0, x, parameters)


def _rubber_rhs(x: Any, parameters: Any) -> Array:
    return _rubber_rhs_in_time(0.0, x, parameters)

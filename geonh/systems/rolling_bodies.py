r"""Bodies that roll on a plane or in a cylinder: disc, Euler's disc, rattleback, Routh's sphere, ball in a cylinder.

All are ``geonh.rolling`` of a support function: on SE(3), with the contact as a constraint on positions and two forms
along the surface, ξ = (ω, v) in body axes. Kept besides the energy:

- Routh's sphere, a ball whose centre of mass lies on an axis of symmetry: Jellett's integral Jω·ρ, since the force of
  the contact has no moment about ρ, and Jω·(ω×e₃) = 0; and Routh's, ω₃²(I₁I₃ + mρ·Jρ);
- the ball in an upright cylinder: the spin about the vertical e₃·w, w = Rω, and so the rate of revolution about the
  axis; and w·x, since the spin about the normal, of which the contact force has no moment, changes by that rate times
  ż/r. So its height oscillates as −(5g/7ν²)(1 − cos νt), with ν = √(2/7) times the rate of revolution, without falling.

Sources: Le Saux, Leine, Glocker, J. Nonlinear Sci. 15 (2005) (disc); Moffatt, Nature 404 (2000) (Euler's disc); Kane,
Levinson, Int. J. Non-Linear Mech. 17 (1982) (rattleback and its parameters); Routh, *Advanced rigid dynamics* (1905),
§243, §246 (sphere, cylinder); Chaplygin, *On a motion of a heavy body of revolution on a horizontal plane* (1897).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_float64
from geonh.drawing import Body
from geonh.mechanics.system import FirstIntegral, System
from geonh.rolling import ball, contact, cylinder, disc, drawing, ellipsoid, rolling, start
from geonh.systems.entry import Entry, Start, positive


def _less(low: Any, high: Any, words: str) -> None:
    if not is_traced((low, high)) and not low < high:
        raise ValueError(f"{words}, got {float(low)} and {float(high)}")


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the body and the path of its contact: a function of this module, by which an entry knows its systems."""
    return drawing(t, g, parameters)


def _jellett(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[:3] @ contact(parameters, g).arm


def _routh(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    arm, J = contact(parameters, g).arm, parameters["J"]
    return xi[2] ** 2 * (J[0, 0] * J[2, 2] + parameters["m"] * arm @ J @ arm)


def _vertical_spin(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return g[2, :3] @ xi[:3]


def _spin_along_the_place(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return g[:3, 3] @ g[:3, :3] @ xi[:3]


@validated
def rolling_disc(m: float = 1.0, r: float = 1.0, g: float = 9.81) -> System:
    """A thin uniform disc on the plane z = 0, its axle along the body's second axis.

    Parameters
    ----------
    m, r, g : float
        Mass, kg; radius, m; gravity, m/s².

    Returns
    -------
    System
        With ξ = (ω, v): angular velocity, rad/s, and velocity of the centre of mass, m/s, in body axes.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    given = positive(m=m, r=r, g=g)
    inertia = np.array([1.0, 2.0, 1.0]) * given["m"] * given["r"] * given["r"] / 4
    return rolling(disc(r, (0, 1, 0)), inertia, m, gravity=g, draw=draw, name="rolling-disc")


@validated
def eulers_disc(m: float = 0.44, r: float = 0.0375, thickness: float = 0.013, g: float = 9.81) -> System:
    """Euler's disc: a heavy disc with a round rim, nearly flat.

    Parameters
    ----------
    m, r, thickness, g : float
        Mass, kg; radius, m; thickness of the plate, m; gravity, m/s².

    Returns
    -------
    System
        With ξ = (ω, v): angular velocity, rad/s, and velocity of the centre of mass, m/s, in body axes.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    positive(m=m, r=r, thickness=thickness, g=g)
    across = m * r * r / 4 + m * thickness * thickness / 12
    inertia = [across, across, m * r * r / 2]
    return rolling(disc(r, (0, 0, 1), thickness), inertia, m, gravity=g, draw=draw, name="eulers-disc")


@validated
def rattleback(
    axes: Any = (0.2, 0.03, 0.02),
    h: float = 0.01,
    m: float = 1.0,
    moments: Any = (2e-4, 1.6e-3, 1.7e-3),
    D: float = -2e-5,
    g: float = 9.81,
) -> System:
    """Kane and Levinson's rattleback: an ellipsoid whose principal axes of inertia are turned about the vertical one.

    Parameters
    ----------
    axes : array_like, shape=[3]
        Semi-axes of the ellipsoid, m.
    h : float
        Height of its centre above the centre of mass, m.
    m : float
        Mass, kg.
    moments : array_like, shape=[3]
        Moments A, B, C about the axes, kg m².
    D : float
        Entry (1, 2) of the inertia matrix, kg m²; it couples the two rockings.
    g : float
        Gravity, m/s².

    Returns
    -------
    System
        With ξ = (ω, v): angular velocity, rad/s, and velocity of the centre of mass, m/s, in body axes.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If one of ``axes``, ``m`` and ``g`` is not positive, the inertia is not positive definite, or a shape does not
        fit.
    """
    positive(m=m, g=g)
    inertia = np.diag(as_constant(moments, "moments", (3,)))
    inertia[0, 1] = inertia[1, 0] = as_constant(D, "D")
    figure = ellipsoid(*as_float64(axes, "axes", (3,))).moved([0.0, 0.0, as_float64(h, "h", ())])
    return rolling(figure, inertia, m, gravity=g, draw=draw, name="rattleback")


@validated
def routh_sphere(
    m: float = 1.0, r: float = 0.3, a: float = 0.05, I1: float = 0.03, I3: float = 0.036, g: float = 9.81
) -> System:
    """Routh's sphere, Chaplygin's top: a ball whose centre of mass lies off its centre, on an axis of symmetry.

    Parameters
    ----------
    m, r : float
        Mass, kg; radius, m.
    a : float
        Height of the ball's centre above the centre of mass along the axis, m.
    I1, I3 : float
        Moment of inertia about the centre of mass across the axis, kg m²; that along it, kg m².
    g : float
        Gravity, m/s².

    Returns
    -------
    System
        With ξ = (ω, v): angular velocity, rad/s, and velocity of the centre of mass, m/s, in body axes.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If one except ``a`` is not positive, ``a`` is not within the ball, or the inertia is of no body.
    """
    positive(m=m, r=r, I1=I1, I3=I3, g=g)
    _less(abs(as_float64(a, "a", ())), r, "the centre of mass must be within the ball, |a| < r")
    integrals = {
        "jellett": FirstIntegral(_jellett, "Jω·ρ; SymmetricProjection: O(h²), no drift"),
        "routh": FirstIntegral(_routh, "ω₃²(I₁I₃ + mρ·Jρ); SymmetricProjection: O(h²), no drift"),
    }
    return rolling(
        ball(r).moved([0.0, 0.0, as_float64(a, "a", ())]),
        [I1, I1, I3],
        m,
        gravity=g,
        first_integrals=integrals,
        draw=draw,
        name="routh-sphere",
    )


@validated
def sphere_in_cylinder(m: float = 1.0, r: float = 0.2, R: float = 1.0, g: float = 9.81) -> System:
    """A homogeneous ball in an upright cylinder.

    Parameters
    ----------
    m, r, R, g : float
        Mass, kg; radius of the ball, m; radius of the cylinder, m; gravity, m/s².

    Returns
    -------
    System
        With ξ = (ω, v): angular velocity, rad/s, and velocity of the centre of mass, m/s, in body axes.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not positive, or the ball does not fit into the cylinder.
    """
    positive(m=m, r=r, R=R, g=g)
    _less(r, R, "the ball must fit into the cylinder, r < R")
    integrals = {
        "vertical spin": FirstIntegral(_vertical_spin, "e₃·w; SymmetricProjection: O(h²), no drift"),
        "spin along x": FirstIntegral(_spin_along_the_place, "w·x; SymmetricProjection: O(h²), no drift"),
    }
    return rolling(
        ball(r),
        0.4 * m * r * r * np.ones(3),
        m,
        on=cylinder(R),
        gravity=g,
        first_integrals=integrals,
        draw=draw,
        name="sphere-in-cylinder",
    )


def _leaning(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _disc_start(system: System) -> Start:
    return Start(*start(system, _leaning(0.3), [0.1, 4.0, 0.5]))


def _euler_start(system: System) -> Start:
    """Initial conditions nearly flat, with Moffatt's rate of the contact point: Ω² sin α = 4g/r."""
    alpha = 0.3
    rate = np.sqrt(4 * 9.81 / 0.0375 / np.sin(alpha)) * np.sin(alpha)
    return Start(*start(system, _leaning(alpha), [0.0, rate, 0.0]))


def _rattleback_start(system: System) -> Start:
    """Start of Kane and Levinson's figures: half a degree about either axis, 5 rad/s against the preferred sense."""
    tilt = np.deg2rad(0.5)
    c, s = np.cos(tilt), np.sin(tilt)
    pitched = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    return Start(*start(system, _leaning(tilt) @ pitched, [0.0, 0.0, -5.0]))


def _routh_start(system: System) -> Start:
    return Start(*start(system, _leaning(0.6), [1.0, 0.5, 8.0]))


def _cylinder_start(system: System) -> Start:
    wide = float(system.parameters["on"].radius)
    return Start(*start(system, None, [0.0, 0.0, -8.0], place=[wide, 0.0, 0.0]))


_FORMS = "no sliding: T(v + ω×ρ) = 0 along the surface, and ψ = 0 at the contact"

ENTRIES = (
    Entry(
        name="rolling-disc",
        build=rolling_disc,
        title="thin disc that rolls, leans and falls",
        known_as="Rolling disc",
        constraints=_FORMS,
        conserved={"energy": "SymmetricProjection: O(h²)"},
        source="Le Saux, Leine, Glocker 2005",
        start=_disc_start,
        dt=0.01,
        n_steps=500,
    ),
    Entry(
        name="eulers-disc",
        build=eulers_disc,
        title="heavy disc that whirls nearly flat",
        known_as="Euler's disc",
        constraints=_FORMS,
        conserved={"energy": "SymmetricProjection: O(h²)"},
        source="Moffatt 2000",
        start=_euler_start,
        dt=0.001,
        n_steps=1000,
    ),
    Entry(
        name="rattleback",
        build=rattleback,
        title="ellipsoid that reverses its spin",
        known_as="Rattleback",
        constraints=_FORMS,
        conserved={"energy": "SymmetricProjection: O(h²)"},
        source="Kane, Levinson 1982",
        start=_rattleback_start,
        dt=0.001,
        n_steps=3000,
    ),
    Entry(
        name="routh-sphere",
        build=routh_sphere,
        title="ball with its centre of mass off its centre, on an axis",
        known_as="Routh sphere",
        constraints=_FORMS,
        conserved={
            "jellett": "Jω·ρ; SymmetricProjection: O(h²)",
            "routh": "ω₃²(I₁I₃ + mρ·Jρ); SymmetricProjection: O(h²)",
            "energy": "SymmetricProjection: O(h²)",
        },
        source="Routh 1905, §243; Chaplygin 1897",
        start=_routh_start,
        dt=0.005,
        n_steps=1000,
    ),
    Entry(
        name="sphere-in-cylinder",
        build=sphere_in_cylinder,
        title="ball in an upright cylinder, which does not fall",
        known_as="Sphere in a cylinder",
        constraints=_FORMS,
        conserved={
            "vertical spin": "e₃·w, w = Rω; SymmetricProjection: O(h²)",
            "spin along x": "w·x, x the centre; SymmetricProjection: O(h²)",
            "energy": "SymmetricProjection: O(h²)",
        },
        source="Routh 1905, §246",
        start=_cylinder_start,
        dt=0.0025,
        n_steps=2000,
        method="gauss4",  # it spins up to 110 rad/s
    ),
)

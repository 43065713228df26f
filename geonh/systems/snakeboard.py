r"""The snakeboard: a board on two steerable wheel axles, with a rotor (the rider) on top.

(x, y) is the board's centre and centre of mass, θ its heading; the axles, at distance r behind and before the centre,
turn by φ and −φ; the rotor's angle is ψ. As the papers have it,

    L = ½m(ẋ² + ẏ²) + ½(J + 2J₁)θ̇² + ½J₀ψ̇² + J₁φ̇²,

and the wheels do not slide sideways:

    ẋ sin(θ+φ) − ẏ cos(θ+φ) + rθ̇ cos φ = 0,   ẋ sin(θ−φ) − ẏ cos(θ−φ) − rθ̇ cos φ = 0      (angles relative to the board)
    −ẋ sin φ + ẏ cos φ − rθ̇ cos(θ−φ) = 0,   −ẋ sin(2θ−φ) + ẏ cos(2θ−φ) + rθ̇ cos(θ−φ) = 0   (rear angle absolute).

At φ = ±π/2 (relative) the two constraints become dependent, and a run stops there. The driven board has the torque u₀
on the rotor with its reaction −u₀ on the board, and u₁ on the axles.

Source: Ferraro, Iglesias, Martín de Diego (2008), example 2, and its first version (2007) for the absolute angle.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import shortly
from geonh.drawing import Body, Pose, box, cylinder, ground, planar
from geonh.geometry.distribution import Distribution
from geonh.groups import SE2, Product, Torus, Translations
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive


def _metric(x: Any, parameters: Any) -> Any:
    return jnp.stack(
        [
            parameters["J"] + 2 * parameters["J1"],
            parameters["m"],
            parameters["m"],
            parameters["J0"],
            2 * parameters["J1"],
        ]
    )


def _metric_abelian(x: Any, parameters: Any) -> Any:
    return jnp.stack(
        [
            parameters["m"],
            parameters["m"],
            parameters["J"] + 2 * parameters["J1"],
            parameters["J0"],
            2 * parameters["J1"],
        ]
    )


def _wheels(phi: Any, r: Any) -> list:
    """Constraints in the body frame, ξ = (ω, v_x, v_y, ψ̇, φ̇), for the axle angle φ relative to the board."""
    s, c = jnp.sin(phi), jnp.cos(phi)
    return [[r * c, s, -c, 0.0, 0.0], [-r * c, -s, -c, 0.0, 0.0]]


def _forms(x: Any, parameters: Any) -> list:
    return _wheels(x[0], parameters["r"])


def _forms_absolute(x: Any, parameters: Any) -> list:
    (theta, _, _), (_, phi) = x
    return _wheels(phi - theta, parameters["r"])


def _forms_abelian(x: Any, parameters: Any) -> list:
    theta, phi = x
    front, back, arm = theta + phi, theta - phi, parameters["r"] * jnp.cos(phi)
    return [[jnp.sin(front), -jnp.cos(front), arm, 0.0, 0.0], [jnp.sin(back), -jnp.cos(back), -arm, 0.0, 0.0]]


def _torques(t: Any, x: Any, xi: Any, u: Any) -> Any:
    return jnp.stack([-u[0], 0.0 * u[0], 0.0 * u[0], u[0], u[1]])


def _rotor(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[3]


def _axles(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return p[4]


_CYCLIC = {
    "rotor momentum": FirstIntegral(_rotor, "momentum map of a horizontal symmetry: rounding"),
    "axle momentum": FirstIntegral(_axles, "φ does not enter ℓ and ∂_φ lies in D: rounding"),
}


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw board, two steered axles with their wheels, and the rider as a rotor on top."""
    (theta, x, y), (psi, phi) = g
    return _board(planar(theta, x, y), psi, phi, parameters)


def draw_absolute(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the board with the rear angle from the x axis."""
    (theta, x, y), (psi, phi) = g
    return _board(planar(theta, x, y), psi, phi - theta, parameters)


def draw_abelian(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw the board on R²×T³."""
    (x, y), (theta, psi, phi) = g
    return _board(planar(theta, x, y), psi, phi, parameters)


def _board(here: Pose, psi: Any, phi: Any, parameters: Any) -> list[Body]:
    r = float(parameters["r"])
    wheels = [cylinder(0.1 * r, 0.05 * r, "y").moved(0, side * 0.3 * r, 0.1 * r) for side in (1, -1)]
    axle = [cylinder(0.02 * r, 0.6 * r, "y").moved(z=0.1 * r), box(0.4 * r, 0.3 * r, 0.05 * r).moved(z=0.22 * r)]
    rotor = [cylinder(0.06 * r, 0.5 * r).moved(z=0.25 * r), box(1.0 * r, 0.12 * r, 0.12 * r).moved(z=0.5 * r)]
    return [
        Body("board", box(1.7 * r, 0.18 * r, 0.05 * r).moved(z=0.2 * r), at=here, trace=[0, 0, 0]),
        Body("rear axle", [*axle, *wheels], at=here @ planar(phi, -r)),
        Body("front axle", [*axle, *wheels], at=here @ planar(-phi, r)),
        Body("rotor", rotor, at=here @ planar(psi, 0.0, 0.0, 0.2 * r)),
        Body("ground", ground()),
    ]


@validated
def snakeboard(
    m: float = 1.0, J: float = 1.0, J0: float = 0.5, J1: float = 0.25, r: float = 0.5, structure: str = "SE(2)"
) -> System:
    """Snakeboard with wheel angles relative to the board.

    Parameters
    ----------
    m : float
        Total mass, kg.
    J, J0, J1 : float
        Moment of inertia of the board, kg m²; that of the rotor, kg m²; that of one axle, kg m².
    r : float
        Centre to axle, m.
    structure : str
        Group structure of the configuration space: "SE(2)" for SE(2)×T², base φ, or "abelian" for R²×T³, base (θ, φ),
        whose metric is bi-invariant, so that GNI keeps the energy at p⁻ (Ferraro, Iglesias &
        Martín de Diego 2008, example 2).

    Returns
    -------
    System
        With ξ = (ω, vx, vy, ψ̇, φ̇): body velocity of the board, rates of the rotor and of the wheel angle; if
        "abelian", (ẋ, ẏ, θ̇, ψ̇, φ̇).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number; if one is not positive, or ``structure`` is an unknown word.
    """
    parameters = positive(m=m, J=J, J0=J0, J1=J1, r=r)
    base: tuple[str, ...]
    if structure == "SE(2)":
        group, metric, forms, base = Product((SE2(), Torus(2, ("psi", "phi")))), _metric, _forms, ("phi",)
        picture = draw
    elif structure == "abelian":
        group = Product((Translations(2), Torus(3, ("theta", "psi", "phi"))))
        metric, forms, base = _metric_abelian, _forms_abelian, ("theta", "phi")
        picture = draw_abelian
    else:
        raise ValueError(f"structure must be 'SE(2)' or 'abelian', got {shortly(structure)}")
    return System(
        group,
        metric=metric,
        distribution=Distribution(forms=forms),
        parameters=parameters,
        base=base,
        first_integrals=_CYCLIC,
        draw=picture,
        name="snakeboard",
    )


@validated
def snakeboard_absolute(m: float = 1.0, J: float = 1.0, J0: float = 0.5, J1: float = 0.25, r: float = 0.5) -> System:
    """Snakeboard with the rear wheel angle measured from the x axis.

    Parameters
    ----------
    m : float
        Total mass, kg.
    J, J0, J1 : float
        Moment of inertia of the board, kg m²; that of the rotor, kg m²; that of one axle, kg m².
    r : float
        Centre to axle, m.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, ψ̇, φ̇): body velocity of the board, rates of the rotor and of the rear wheels.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((SE2(), Torus(2, ("psi", "phi")))),
        metric=_metric,
        distribution=Distribution(forms=_forms_absolute),
        parameters=positive(m=m, J=J, J0=J0, J1=J1, r=r),
        first_integrals=_CYCLIC,
        draw=draw_absolute,
        name="snakeboard-absolute",
    )


@validated
def controlled_snakeboard(m: float = 1.0, J: float = 1.0, J0: float = 0.5, J1: float = 0.25, r: float = 0.5) -> System:
    """Snakeboard driven by u = (torque on the rotor, torque on the axles), N m, shape=[2].

    Parameters
    ----------
    m : float
        Total mass, kg.
    J, J0, J1 : float
        Moment of inertia of the board, kg m²; that of the rotor, kg m²; that of one axle, kg m².
    r : float
        Centre to axle, m.

    Returns
    -------
    System
        With ξ = (ω, vx, vy, ψ̇, φ̇): body velocity of the board, rates of the rotor and of the wheel angle. Controls
        have shape=[2].

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number, or not positive.
    """
    return System(
        Product((SE2(), Torus(2, ("psi", "phi")))),
        metric=_metric,
        distribution=Distribution(forms=_forms),
        forces=_torques,
        parameters=positive(m=m, J=J, J0=J0, J1=J1, r=r),
        base=("phi",),
        draw=draw,
        name="controlled-snakeboard",
    )


def sinusoidal_torques(t: Any) -> Any:
    """Opposite torques on rotor and axles, same phase and frequency (2008 paper, fig. 4): u of shape=[2], N m."""
    return jnp.stack([0.5 * jnp.cos(2.0 * t), -0.5 * jnp.cos(2.0 * t)])


def _start(system: System) -> Start:
    g0 = (np.zeros(3), np.array([0.0, 0.3]))
    return Start(g0, system.project(g0, np.array([0.2, 1.0, 0.0, 0.7, 0.1])))


_CONSERVED = {
    "energy": "GNI: at p⁻ to rounding, on SE(2)×T² and on R²×T³; SymmetricProjection: to rounding",
    "rotor momentum": "GNI and SymmetricProjection: to rounding",
    "axle momentum": "GNI and SymmetricProjection: to rounding",
}
_SOURCE = "Ferraro, Iglesias, Martín de Diego 2008, example 2"

ENTRIES = (
    Entry(
        name="snakeboard",
        build=snakeboard,
        title="snakeboard, wheel angles relative to the board",
        known_as="Snakeboard",
        constraints="ẋ sin(θ±φ) − ẏ cos(θ±φ) ± rθ̇ cos φ = 0",
        conserved=_CONSERVED,
        source=_SOURCE,
        start=_start,
        dt=0.02,
        n_steps=500,
        method="gni",
    ),
    Entry(
        name="snakeboard-absolute",
        build=snakeboard_absolute,
        title="snakeboard, rear wheel angle from the x axis",
        known_as="Snakeboard, absolute angles",
        constraints="−ẋ sin φ + ẏ cos φ − rθ̇ cos(θ−φ) = 0 and −ẋ sin(2θ−φ) + ẏ cos(2θ−φ) + rθ̇ cos(θ−φ) = 0",
        conserved=_CONSERVED,
        source="Ferraro, Iglesias, Martín de Diego 2007 (first version), example 2",
        start=_start,
        dt=0.01,
        n_steps=150,
        method="gni",
    ),
    Entry(
        name="controlled-snakeboard",
        build=controlled_snakeboard,
        title="snakeboard driven from rest by opposite torques on rotor and axles",
        known_as="Controlled snakeboard",
        constraints="ẋ sin(θ±φ) − ẏ cos(θ±φ) ± rθ̇ cos φ = 0",
        conserved={},
        source="Ferraro, Iglesias, Martín de Diego 2008, figure 4",
        start=lambda system: Start((np.zeros(3), np.zeros(2)), np.zeros(5)),
        dt=0.02,
        n_steps=1000,
        method="gni",
        controls=sinusoidal_torques,
    ),
)

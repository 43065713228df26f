r"""The heavy top: a rigid body about a fixed point under gravity. No constraint.

On SO(3) with ℓ = ½ΩᵀJΩ − m g l γ·χ, γ = Rᵀe₃ the vertical seen from the body, χ the unit vector to the centre of mass:
the action groupoid S² ⋊ SO(3),

    Ṗ = P×Ω + m g l γ×χ,   γ̇ = γ×Ω,   P = JΩ.

Figure: gravity acts along the vertical and so has no moment about it: L_z = γ·P is kept, with the energy. For
Lagrange's top, J = (A, A, C) with χ along the third axis, it has none about that axis either: L₃ = P·χ is kept too.
Then the tip's height u = γ·χ nutates between two of the roots u₁ ≤ u₂ ≤ 1 ≤ u₃ of a cubic,

    u̇² = (2(E − L₃²/2C − m g l u)(1 − u²) − (L_z − L₃u)²/A)/A,
    u = u₁ + (u₂ − u₁) sn²(κ(t − t₀) | k²),   κ² = m g l (u₃ − u₁)/(2A),   k² = (u₂ − u₁)/(u₃ − u₁),

while it precesses and spins by φ̇ = (L_z − L₃u)/(A(1 − u²)), ψ̇ = L₃/C − φ̇u, with R = R_z(φ)R_x(arccos u)R_z(ψ).

Source: Marrero, Martín de Diego, Martínez (2006), heavy top as an action groupoid; Bobenko, Suris (1999), discrete
Lagrange top; Whittaker, Analytical dynamics, §71.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.drawing import Body, Pose, along, axes, cylinder
from geonh.geometry.action import AdvectedVector
from geonh.groups import SO3
from geonh.mechanics.system import FirstIntegral, System
from geonh.systems.entry import Entry, Start, positive, quadrature


def _metric(x: Any, parameters: Any) -> Any:
    return parameters["J"]


def _potential(x: Any, parameters: Any) -> Any:
    return parameters["mgl"] * jnp.sum(x * parameters["chi"])


def _vertical(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return jnp.sum(g[2] * p)


def _axial(g: Any, xi: Any, p: Any, parameters: Any) -> Any:
    return jnp.sum(parameters["chi"] * p)


def draw(t: Any, g: Any, parameters: Any) -> list[Body]:
    """Draw a stem of one metre from the fixed point along χ, and a disc about its end, whose centre leaves a trace."""
    stem = along(parameters["chi"], np.zeros(3), axis="z")
    disc = cylinder(0.5, 0.1).moved(z=1.0)
    top = Body("top", [cylinder(0.04, 1.0).moved(z=0.5), disc], at=Pose(g @ stem.R, jnp.zeros(3)), trace=[0, 0, 1])
    return [top, Body("body axes", axes(0.6), at=Pose(g, jnp.zeros(3)))]


@validated
def heavy_top(J: Any = (1.0, 1.0, 0.5), mgl: float = 1.0, chi: Any = (0.0, 0.0, 1.0)) -> System:
    """Heavy top on SO(3), base γ ∈ S².

    Parameters
    ----------
    J : array_like, shape=[3]
        Principal moments about the fixed point, kg m².
    mgl : float
        Mass times gravity times distance to the centre of mass, N m.
    chi : array_like, shape=[3]
        Direction of the centre of mass in the body, of any length.

    Returns
    -------
    System
        With ξ = Ω, the body angular velocity. If it is Lagrange's top, "axial momentum" is among its first integrals.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If one of ``J`` and ``mgl`` is not positive, ``chi`` is zero, or a shape does not fit.
    """
    group, axis = SO3(), as_float64(chi, "chi")
    if axis.shape != (3,) or not np.any(axis) or not np.all(np.isfinite(axis)):
        raise ValueError(f"chi must be a vector of 3 entries, not all zero, got {chi}")
    if as_float64(J, "J").shape != (3,):
        raise ValueError(f"J must be three principal moments, got {J}")
    parameters = {**positive(J=J, mgl=mgl), "chi": axis / np.linalg.norm(axis)}
    integrals = {"vertical momentum": FirstIntegral(_vertical, "L_z = γ·P: rounding")}
    if symmetry_axes(parameters["J"], parameters["chi"]) is not None:
        integrals["axial momentum"] = FirstIntegral(_axial, "L₃ = P·χ, Lagrange's top: rounding")
    return System(
        group,
        metric=_metric,
        potential=_potential,
        parameters=parameters,
        base=AdvectedVector(group, (0.0, 0.0, 1.0)),
        first_integrals=integrals,
        draw=draw,
        name="heavy-top",
    )


def symmetry_axes(J: np.ndarray, chi: np.ndarray) -> np.ndarray | None:
    """Rotation with χ as third column that makes J = (A, A, C), shape=[3, 3]; None if it is not Lagrange's top."""
    i = int(np.argmax(np.abs(chi)))
    j, k = (i + 1) % 3, (i + 2) % 3
    if np.any(chi[[j, k]] != 0.0) or J[j] != J[k]:
        return None
    e = np.eye(3)
    return np.stack([e[j], np.sign(chi[i]) * e[k], chi], axis=1)


def exact(system: System, start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact solution of Lagrange's top: nutation in closed form, precession and spin by quadrature; t of shape=[N];
    ValueError if it is not Lagrange's top, or starts upright or hanging, where the angles are not defined.
    """
    J, chi, mgl = (np.asarray(system.parameters[name]) for name in ("J", "chi", "mgl"))
    axes = symmetry_axes(J, chi)
    if axes is None:
        raise ValueError("the closed form needs Lagrange's top: χ along a principal axis, the other two moments equal")
    A, _, C = np.abs(J @ axes)
    R0 = (np.eye(3) if start.g0 is None else np.asarray(start.g0)) @ axes
    omega = axes.T @ np.asarray(start.xi0)
    u0, slope0 = R0[2, 2], R0[2, 0] * omega[1] - R0[2, 1] * omega[0]
    if 1 - abs(u0) < 1e-12:
        raise ValueError("the closed form in angles needs a start that is neither upright nor hanging")
    Lz, L3 = R0[2] @ (omega * [A, A, C]), C * omega[2]
    energy = 0.5 * A * (omega[0] ** 2 + omega[1] ** 2) + mgl * u0
    cubic = np.array([2 * mgl / A, -2 * energy / A - (L3 / A) ** 2, -2 * (mgl - Lz * L3 / A) / A, 0.0])
    cubic[3] = 2 * energy / A - (Lz / A) ** 2
    u3 = np.max(np.roots(cubic).real)
    middle = 0.5 * (-cubic[1] / cubic[0] - u3)
    half = np.sqrt((u0 - middle) ** 2 + slope0**2 / (cubic[0] * (u3 - u0)))  # exact also where u₁ = u₂ nearly
    u1, u2 = middle - half, middle + half
    k2, kappa = (u2 - u1) / (u3 - u1), np.sqrt(mgl * (u3 - u1) / (2 * A))
    ratio = 0.0 if u2 == u1 else np.clip((u0 - u1) / (u2 - u1), 0.0, 1.0)
    phase0 = np.copysign(scipy.special.ellipkinc(np.arcsin(np.sqrt(ratio)), k2), slope0)

    def nutation(s: Any) -> tuple[Any, Any]:
        sn, cn, dn, _ = scipy.special.ellipj(kappa * np.asarray(s) + phase0, k2)
        return u1 + (u2 - u1) * sn**2, 2 * kappa * (u2 - u1) * sn * cn * dn

    def rates(s: Any) -> np.ndarray:
        u = nutation(s)[0]
        precession = (Lz - L3 * u) / (A * (1 - u**2))
        return np.stack([precession, L3 / C - precession * u], axis=-1)

    angles = np.array([np.arctan2(R0[0, 2], -R0[1, 2]), np.arctan2(R0[2, 0], R0[2, 1])])
    phi, psi = quadrature(rates, t, angles).T
    u, slope = nutation(t)
    sine, precession = np.sqrt(1 - u**2), rates(t)[:, 0]
    nod = -slope / sine
    xi = [precession * sine * np.sin(psi) + nod * np.cos(psi), precession * sine * np.cos(psi) - nod * np.sin(psi)]
    R = scipy.spatial.transform.Rotation.from_euler("ZXZ", np.stack([phi, np.arccos(u), psi], axis=1)).as_matrix()
    return R @ axes.T, np.stack([*xi, np.full_like(u, L3 / C)], axis=1) @ axes.T


def _start(system: System) -> Start:
    c, s = np.cos(0.5), np.sin(0.5)
    return Start(np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]), np.array([0.1, 0.2, 4.0]))


ENTRY = Entry(
    name="heavy-top",
    build=heavy_top,
    title="rigid body about a fixed point under gravity",
    known_as="Heavy top",
    constraints="none",
    conserved={
        "vertical momentum": "γ·P; GNI and Variational and SymmetricProjection: to rounding",
        "axial momentum": "P·χ of Lagrange's top; GNI and Variational and SymmetricProjection: to rounding",
        "energy": "GNI and Variational and SymmetricProjection: O(h²), no drift",
    },
    source="Marrero, Martín de Diego, Martínez 2006; Bobenko, Suris 1999",
    start=_start,
    dt=0.02,
    n_steps=1000,
    exact=exact,
)

"""A thin disc that rolls on the plane z = 0, on SE(3): three forms, gravity, the axle along the body's second axis."""

import jax.numpy as jnp
import numpy as np

import geonh as gn


def _contact(R, r):
    """From the centre to the lowest point of the rim, body axes."""
    down = -R[2] * np.array([1.0, 0.0, 1.0])
    return r * down / jnp.sqrt(down @ down)


def _forms(x, p):
    R, (a, b, c) = x[:3, :3], _contact(x[:3, :3], p["r"])
    turning = jnp.array([[0.0, c, -b], [-c, 0.0, a], [b, -a, 0.0]])  # ω ↦ ω × contact
    return R @ jnp.concatenate([turning, jnp.eye(3)], axis=1)


def _metric(x, p):
    diameter = p["m"] * p["r"] ** 2 / 4
    return jnp.stack([diameter, 2 * diameter, diameter, p["m"], p["m"], p["m"]])


def disc(m=1.0, r=1.0, g=1.0):
    return gn.System(
        gn.groups.SE3(),
        metric=_metric,
        potential=lambda x, p: p["m"] * p["g"] * x[2, 3],
        distribution=gn.Distribution(_forms),
        parameters={"m": m, "r": r, "g": g},
        name="rolling disc",
    )


def gap(g, xi, parameters):
    """Height of the lowest point above the ground."""
    return g[2, 3] + (g[:3, :3] @ _contact(g[:3, :3], parameters["r"]))[2]


def standing(system, lean=0.0):
    """The disc over the origin, leaning by an angle about the direction in which it rolls."""
    c, s = np.cos(lean), np.sin(lean)
    g = np.eye(4)
    g[:3, :3] = [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]
    g[2, 3] = float(system.parameters["r"]) * c
    return g


def rolling(system, g, omega):
    """ξ of the body angular velocity ω."""
    with gn.float64():
        forms = np.asarray(system.annihilator(system.point(g)))
    return np.concatenate([omega, np.linalg.solve(forms[:, 3:], -forms[:, :3] @ omega)])

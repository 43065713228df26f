"""A cart on two driven wheels with a sprung mast: a tree of bodies whose wheels roll exactly, and the mass of its load.

Links, joints and wheels are data; the system is on SE(2) × T³, reduced by SE(2). The mass of the ball on the mast is a
parameter: how far the cart is driven depends on it, and by what derivative.
"""

import jax
import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh import bodies
from geonh.bodies import Joint, Link, Shape, Wheel

RADIUS, TRACK = 0.1, 0.4


def wheel(side, y):
    """A wheel of the cart, on a joint with a motor."""
    return Link(
        side,
        0.2,
        inertia=(5e-4, 1e-3, 5e-4),
        parent="cart",
        joint=Joint("continuous", f"{side}_wheel", (0, 1, 0), (0, y, RADIUS), motor=True),
    )


cart = bodies.tree(
    [
        Link(
            "cart",
            3.0,
            (0.05, 0, 0.12),
            (0.02, 0.04, 0.05),
            joint=Joint("planar", "pose"),
            shapes=(Shape("box", (0.5, 0.3, 0.08), (0.05, 0, 0.14)),),
        ),
        wheel("left", TRACK / 2),
        wheel("right", -TRACK / 2),
        Link(
            "mast",
            0.3,
            (0, 0, 0.2),
            (4e-3, 4e-3, 1e-4),
            "cart",
            Joint("revolute", "tilt", (0, 1, 0), (0.05, 0, 0.18), stiffness=5.0, damping=0.02),
            shapes=(Shape("cylinder", (0.015, 0.4), (0, 0, 0.2)),),
        ),
        Link(
            "ball",
            0.3,
            inertia=(3e-4, 3e-4, 3e-4),
            parent="mast",
            joint=Joint("fixed", "top", place=(0, 0, 0.4)),
            shapes=(Shape("ball", (0.05,)),),
        ),
    ],
    contacts=[Wheel("left", RADIUS), Wheel("right", RADIUS, grips=False)],
    varied=["ball.mass"],
    name="cart with a mast",
)


def torques(t):
    """Torques of the two motors."""
    return 0.05 * jnp.stack([1.0 + 0.5 * jnp.sin(t), 1.0 - 0.5 * jnp.sin(t)])


def way(mass):
    """Forward velocity after a second, m/s."""
    changed = gn.mechanics.system.with_parameters(cart, {"ball.mass": mass})
    return gn.integrate(changed, "rkmk4", xi0=np.zeros(6), dt=0.01, n_steps=100, controls=torques).xi[-1][1]


def main():
    g0, xi0 = bodies.start(cart, {"tilt": 0.3}, {"pose": [0.5, 0.2, 0.0]})
    run = gn.solve(cart, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=5000, save_every=10, controls=torques)
    print(run)
    print("velocity at the contacts, at most", np.abs(run.constraint_residual).max())
    print("the ball ends at", bodies.poses(cart, [part[-1] for part in run.g])["ball"][1].round(4))
    with jax.enable_x64(True):
        print("forward velocity and its derivative by the ball's mass", *jax.value_and_grad(way)(0.3))


if __name__ == "__main__":
    main()

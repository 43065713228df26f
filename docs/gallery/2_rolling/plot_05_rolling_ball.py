"""
Ball on a rotating table: orbits over 20 000 steps
==================================================

Martín de Diego 2008 (slides): a ball on a rotating table from (0.99, 1) to (1, 0.99), h = 0.01, 20 000 steps. The
contact point of the exact motion, of the discrete Lagrange–d'Alembert method on the Atiyah groupoid (slides) and of GNI
moves on a circle, each with its own frequency; that of explicit Euler spirals out. The slides do not give masses and
rate; these are chosen here.

The discrete Lagrangian of the slides has the term + I/(2h)² tr W; the kinetic energy of the rotation is approximated by
− I/(2h²) tr W.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.groups import SO3, Opposite, Product, Translations
from geonh.integrators import DLA, DiscreteConstraint

m, r, inertia, rate, h, n = 1.0, 1.0, 0.4, 1.0, 0.01, 20_000
E1, E2 = (np.array(e, float) for e in ([[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]]))


def discrete_lagrangian(x, W, h):
    """Times h, as always here; up to a constant."""
    step, turn = W
    return m * step @ step / (2 * h) - inertia / (2 * h) * jnp.trace(turn)


def discrete_constraint(x, W, h):
    step, turn = W
    middle = x + step / 2
    across = step[0] + r / 2 * jnp.trace(turn @ E2), step[1] - r / 2 * jnp.trace(turn @ E1)
    return jnp.stack([across[0] / h + rate * middle[1], across[1] / h - rate * middle[0]])


ball = gn.System(
    Product((Translations(2), Opposite(SO3()))),
    metric=np.diag([m, m, inertia, inertia, inertia]),
    distribution=gn.AffineDistribution(
        np.array([[1.0, 0, 0, -r, 0], [0, 1.0, r, 0, 0]]), rhs=lambda x: rate * jnp.stack([-x[1], x[0]])
    ),
    base=Translations(2).point_names,
    name="ball",
)
z0, v0 = np.array([0.99, 1.0]), np.array([1.0, -1.0])  # one step of it leads to (1, 0.99)
xi0 = [*v0, (rate * z0[0] - v0[1]) / r, (v0[0] + rate * z0[1]) / r, 0.2]
methods = {
    "the scheme of the slides": DLA(discrete_lagrangian, DiscreteConstraint(discrete_constraint, symmetric=True)),
    "GNI": gn.GNI(),
}
paths = {
    name: gn.solve(ball, method, g0=(z0, np.eye(3)), xi0=xi0, dt=h, n_steps=n).g[0] @ np.array([1.0, 1j])
    for name, method in methods.items()
}
nu = inertia * rate / (inertia + m * r**2)
start, velocity = z0 @ np.array([1.0, 1j]), v0 @ np.array([1.0, 1j])
centre = start + 1j * velocity / nu
turned = {"the scheme of the slides": 2 * np.arctan(h * nu / 2), "GNI": np.arcsin(h * nu)}  # in one step
for name, path in paths.items():
    print(
        f"{name}: first step {abs(path[1] - (1 + 0.99j)):.1e} from (1, 0.99), distance from the centre kept to", end=" "
    )
    own = centre if name == "GNI" else path[0] - (path[1] - path[0]) / (np.exp(1j * turned[name]) - 1)
    print(f"{np.ptp(np.abs(path - own)):.1e}")
    assert np.ptp(np.abs(path - own)) < 1e-3  # a circle, for all 20 000 steps
    angle = np.unwrap(np.angle(path - own))
    np.testing.assert_allclose((angle[-1] - angle[0]) / n, turned[name], rtol=1e-6)

euler = np.empty(n + 1, dtype=complex)
euler[0], v = start, velocity
for k in range(n):
    euler[k + 1], v = euler[k] + h * v, v * (1 + 1j * nu * h)
assert np.ptp(np.abs(euler - centre)) > 0.1

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained", sharex=True, sharey=True)
colours = ("#009E73", "#0072B2", "#D55E00")
for ax, (name, path), colour in zip(axes, (paths | {"explicit Euler": euler}).items(), colours, strict=True):
    ax.plot(path.real, path.imag, lw=0.6, color=colour)
    ax.set(title=f"{name}, 200 s", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")

# %%
# Run it here
# -----------
#
# .. live:: rolling-ball

"""Rolling bodies from support functions: a coin, an egg on a slope, a ball in a bowl."""

import numpy as np

import geonh as gn
from geonh import rolling

lean = 0.3
R = np.array([[1, 0, 0], [0, np.cos(lean), -np.sin(lean)], [0, np.sin(lean), np.cos(lean)]])
coin = rolling(rolling.disc(1.0, axis=(0, 1, 0)), [0.25, 0.5, 0.25], 1.0, gravity=1.0, name="coin")
egg = rolling(
    rolling.ellipsoid(0.3, 0.2, 0.2).moved([0.03, 0.0, 0.0]),
    [0.02, 0.03, 0.03],
    1.0,
    on=rolling.plane((0.2, 0.0, 1.0)),
    name="egg on a slope",
)
bowl = rolling(rolling.ball(0.1), 0.004 * np.ones(3), 1.0, on=rolling.sphere(1.0), name="ball in a bowl")
starts = (
    (coin, rolling.start(coin, R, [0.0, 2.0, 0.3])),
    (egg, rolling.start(egg, R, [1.0, 2.0, 0.0])),
    (bowl, rolling.start(bowl, None, [5.0, 0.0, 0.0], place=[0.0, 0.6, -0.8])),
)
for system, (g0, xi0) in starts:
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=200)
    rolled = run.xi[-1, 3:] + np.cross(run.xi[-1, :3], rolling.contact(system, run.g[-1]).arm)
    height = np.abs(run.holonomic_residual).max()
    print(f"{system.name}: contact to {height:.1e} m, sliding {np.abs(rolled).max():.1e} m/s")

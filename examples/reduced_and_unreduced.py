"""Reduced and unreduced systems, body and spatial velocities.

A homogeneous ball on a rotating table, with body angular velocity on R²×SO(3), and with spatial angular velocity on
R²×SO(3)ᵒᵖ, where the base is the position alone. The Suslov problem with a point and with the whole group as base.
"""

import numpy as np

import geonh as gn
from geonh.groups import SO3

body = gn.systems.chaplygin_sphere(J=(0.4, 0.4, 0.4), table_rate=1.0)
spatial = gn.systems.rolling_ball(I=0.4, table_rate=1.0)
start = gn.systems.catalogue["chaplygin-sphere"].start(body)
xi_spatial = np.concatenate([start.xi0[:2], start.g0[1] @ start.xi0[2:]])
left = gn.solve(body, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=500)
right = gn.solve(spatial, g0=start.g0, xi0=xi_spatial, dt=0.02, n_steps=500)
print("ball, body against spatial velocities: ", abs(left.g[0] - right.g[0]).max())

J = [[1.0, 0.0, 0.3], [0.0, 1.5, 0.2], [0.3, 0.2, 2.0]]
runs = []
for base in ("point", "group"):
    suslov = gn.System(SO3(), metric=J, distribution=gn.Distribution([[0.0, 0.0, 1.0]]), base=base)
    runs.append(gn.solve(suslov, xi0=[0.5, 1.0, 0.0], dt=0.02, n_steps=500))
print("Suslov, reduced against unreduced:     ", abs(runs[0].g - runs[1].g).max())

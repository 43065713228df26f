"""Import of a SymPy model: a knife edge on an inclined plane, compared with the exact solution.

From rest, with the angular velocity w, the contact point moves along a cycloid, x = (g sin α/2w²) sin² wt. Needs SymPy:
pip install 'geonh[sympy]'.
"""

import numpy as np
import sympy as sp
from sympy.physics.mechanics import dynamicsymbols

import geonh as gn
from geonh.interop import from_sympy

x, y, phi = dynamicsymbols("x y phi")
m, J, g, alpha = sp.symbols("m J g alpha")
L = m * (x.diff() ** 2 + y.diff() ** 2) / 2 + J * phi.diff() ** 2 / 2 + m * g * sp.sin(alpha) * x
edge = x.diff() * sp.sin(phi) - y.diff() * sp.cos(phi)
skate = from_sympy(
    L,
    [x, y, phi],
    constraints=[edge],
    parameters={m: 1.0, J: 1.0, g: 9.81, alpha: np.pi / 6},
    angles=[phi],
    name="skate",
)
w = 2.0
run = gn.solve(skate, xi0=[0.0, 0.0, w], dt=0.005, n_steps=1000)
exact = 9.81 * 0.5 / (2 * w**2) * np.sin(w * run.t) ** 2
print(skate)
print(f"largest error of x: {abs(run.g[0][:, 0] - exact).max():.1e} m")
print(f"energy kept to {abs(run.energy - run.energy[0]).max():.1e} J")
assert abs(run.g[0][:, 0] - exact).max() < 1e-4

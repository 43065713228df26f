"""Event detection: a particle slides down a sphere until it loses contact, and falls."""

import numpy as np

import geonh as gn
from geonh.groups import Translations

GRAVITY = 9.81


def height(x):
    return GRAVITY * x[2]


def normal(x):
    return [[x[0], x[1], x[2]]]


def contact(t, g, xi, multipliers):
    return multipliers[0]


def ground(t, g, xi, multipliers):
    return g[2] + 1.0


on_sphere = gn.System(Translations(3), metric=np.eye(3), potential=height, distribution=gn.Distribution(normal))
in_air = gn.System(Translations(3), metric=np.eye(3), potential=height)

lost = gn.Event(contact, direction=-1, stop=True, name="contact lost")
slide = gn.solve(on_sphere, g0=[0.0, 0.0, 1.0], xi0=[0.4, 0.3, 0.0], dt=0.002, n_steps=2000, events=lost)
at = slide.events["contact lost"]
print(slide.message)
print(f"height {at.g[0, 2]:.6f} m, exactly {(2 + 0.25 / GRAVITY) / 3:.6f} m")

landing = gn.Event(ground, direction=-1, stop=True, name="landing")
fall = gn.solve(in_air, g0=at.g[0], xi0=at.xi[0], t0=at.t[0], dt=0.002, n_steps=2000, events=landing)
down = fall.events["landing"]
speed, drop = at.xi[0, 2], at.g[0, 2] + 1.0
exact = at.t[0] + (speed + np.sqrt(speed**2 + 2 * GRAVITY * drop)) / GRAVITY
print(f"lands at t = {down.t[0]:.9f} s, exactly {exact:.9f} s")
assert abs(down.t[0] - exact) < 1e-9
assert abs(at.g[0, 2] - (2 + 0.25 / GRAVITY) / 3) < 1e-4

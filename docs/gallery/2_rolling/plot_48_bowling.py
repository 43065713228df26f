"""
Bowling ball: the hook
======================

The first 12 m of a bowling lane are oiled: the ball slides straight ahead, and hardly loses any of its spin. Where the oil ends friction
is five times as large, the spin about an axis along the lane pushes the ball sideways, and where the slip vanishes it rolls on in a
straight line, into the pins at an angle. Two runs with different friction are one by ``gn.join``; under a constant coefficient the
slip of a homogeneous ball keeps its direction and vanishes after t = 2w/(7μg), w being its speed, so that the path is a parabola.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling

radius, mass, gravity = 0.108, 6.8, 9.81
ball = rolling(
    rolling.ball(radius), [0.4 * mass * radius**2] * 3, mass, friction=0.04, restitution=0.3, name="bowling ball"
)
oil_ends = gn.Event(lambda t, g, xi, lam: g[0, 3] - 12.0, stop=True, name="oil ends")
pins = gn.Event(lambda t, g, xi, lam: g[0, 3] - 18.29, stop=True, name="pins")

slip = [8.0 - radius * 15.0, -0.2 - radius * 25.0, 0.0]  # of a centre at (8, −0.2) m/s
g0, xi0 = rolling.start(ball, omega=[-25.0, 15.0, 0.0], slip=slip)
on_oil = gn.solve(ball, "gauss6", mode="slide", g0=g0, xi0=xi0, dt=0.005, t_end=4.0, events=[oil_ends])
end = on_oil.events["oil ends"]
dry = ball.with_parameters(friction=0.2)
on_wood = gn.solve(
    dry, "gauss6", mode="slide", g0=end.g[0], xi0=end.xi[0], t0=end.t[0], dt=0.005, t_end=5.0, events=[pins]
)
throw = gn.join(on_oil, on_wood)

R = throw.g[:, :3, :3]
x, y = throw.g[:, 0, 3], throw.g[:, 1, 3]
velocity, spin = (np.einsum("nij,nj->ni", R, throw.xi[:, part]) for part in (slice(3, 6), slice(0, 3)))
slips = velocity[:, :2] + radius * np.stack([-spin[:, 1], spin[:, 0]], axis=1)

n = len(on_oil)
rolls = on_wood.switches.t[0]
speed = np.linalg.norm(slips[n])  # where the oil ends
assert abs(rolls - end.t[0] - 2 * speed / (7 * 0.2 * gravity)) < 1e-8
expected = 0.5 * 0.2 * gravity * (rolls - end.t[0]) ** 2 * np.abs(slips[n, 1]) / speed
print(f"rolls after {rolls - end.t[0]:.4f} s on the wood, where it has been pushed aside by {100 * expected:.1f} cm")
angle = np.degrees(np.arctan2(velocity[-1, 1], velocity[-1, 0]))
print(f"{angle:.2f} degrees to the lane at the pins")

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
axes[0].axvspan(0, 12, color="0.93", label="oil")
axes[0].plot(x, 100 * y, lw=1.5)
after = throw.t > rolls
axes[0].plot(x[after], 100 * y[after], lw=3, label="rolls")
axes[0].set(xlabel="along the lane (m)", ylabel="across (cm)", xlim=(0, 18.29))
axes[0].legend(loc="upper left")
axes[1].axvspan(0, end.t[0], color="0.93")
axes[1].plot(throw.t, np.linalg.norm(slips, axis=1), label="slip")
axes[1].plot(throw.t, np.linalg.norm(velocity, axis=1), label="speed")
axes[1].plot(throw.t, radius * np.linalg.norm(spin, axis=1), label="r × spin")
axes[1].set(xlabel="time (s)", ylabel="m/s", ylim=(0, None))
axes[1].legend(loc="lower left")

"""Optimal control: parallel parking of a snakeboard from a gait, by shooting, then by direct transcription.

The initial guess is the 2:3 gait of rotor and axles, which drifts sideways. Shooting satisfies the boundary conditions;
its solution is the guess of the transcription.
"""

import jax
import numpy as np

import geonh as gn
from geonh.control import optimal_control, shooting_control

board = gn.systems.controlled_snakeboard()
gap = ([0.0, 0.0, 0.2], [0.0, 0.0])  # 0.2 m to the left, axles straight; the rotor angle is free
turn = 2 * np.pi * np.linspace(0, 1, 25)
gait = 0.4 * np.stack([np.sin(2 * turn), np.sin(3 * turn)], axis=1)
task = {"end": gap, "n_controls": 2, "span": 6.0, "free": ["psi_dot"]}

shot = shooting_control(board, **task, n_steps=120, n_knots=25, guess=gait)
print(shot)
run = shot.trajectory()
nodes = np.arange(0, 121, 3)
controls = np.stack([np.interp(run.t[nodes], shot.knots, column) for column in shot.u.T], axis=1)
best = optimal_control(board, **task, n_steps=40, guess=(jax.tree.map(lambda a: np.asarray(a)[nodes], run.g), controls))
print(best)
end = best.trajectory()
print("pose at the end:", end.g[0][-1].round(9), "largest angle of the axles:", np.abs(end.g[1][:, 1]).max().round(2))

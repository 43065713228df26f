"""Optimal control: parallel parking of a snakeboard, without a guess, on finer grids and within bounds."""

import numpy as np

import geonh as gn
from geonh.control import optimal_control

board = gn.systems.controlled_snakeboard()
gap = ([0.0, 0.0, 0.2], [0.0, 0.0])  # 0.2 m to the left, axles straight; the rotor angle is free
task = {"end": gap, "n_controls": 2, "span": 6.0, "free": ["psi_dot"]}

best = optimal_control(board, **task, n_steps=40)
print(best)
print(fine := optimal_control(board, **task, n_steps=80, guess=best))
end = fine.trajectory()
print("pose at the end:", end.g[0][-1].round(9), "largest angle of the axles:", np.abs(end.g[1][:, 1]).max().round(2))

within = optimal_control(board, **task, n_steps=40, guess=best, bounds=(-1.2, 1.2), limits={"phi": (-0.6, 0.6)})
print(within)
print("largest torque:", np.abs(within.u).max().round(6), "largest angle:", np.abs(within.g[1][:, 1]).max().round(6))

"""Adapter for MuJoCo: the body as a geom in contact with a plane, rolling as friction that is large enough.

MuJoCo has no ideal rolling: contact is regularised, a damped spring in effect, and so is friction. Taken are elliptic
cones, RK4, ``impratio`` 100 against slow slip, and of contacts with a time constant of 2 steps, 10 steps or the 0.02 s
by default those with the least error: 2 steps where the body rolls, 10 where it slides.

``python with_mujoco.py PROBLEM [STEP]`` prints a submission, for the problems of one body on a table.
"""

from __future__ import annotations

import argparse
import json
import time

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation
from score import Problem, read_problem

PROBLEMS = ("rattleback", "rolling-disc", "sliding-ball")
NO_SLIP = 10.0
"""Coefficient of friction where a problem rolls."""
SCENE = """
<mujoco>
  <option timestep="{step}" gravity="0 0 {gravity}" integrator="RK4" cone="elliptic" impratio="100"
    tolerance="1e-12"/>
  <worldbody>
    <geom name="table" type="plane" size="0 0 1" friction="{friction} 0 0" condim="3"
      solref="{stiff} 1" solimp="0.99 0.9999 0.0001"/>
    <body name="body">
      <freejoint/>
      <inertial pos="0 0 0" mass="{mass}" fullinertia="{inertia}"/>
      <geom type="{shape}" size="{size}" pos="{centre}" zaxis="{axis}" friction="{friction} 0 0" condim="3"
        solref="{stiff} 1" solimp="0.99 0.9999 0.0001"/>
    </body>
  </worldbody>
</mujoco>
"""


def body_of(problem: Problem) -> dict:
    """Mass, moments and products of inertia, shape and friction of a problem's body."""
    p = problem.parameters
    if problem.name == "rolling-disc":
        moments = p["m"] * p["r"] ** 2 / 4 * np.array([1.0, 2.0, 1.0, 0.0, 0.0, 0.0])
        shape = {"shape": "cylinder", "size": [p["r"], 1e-5], "axis": [0, 1, 0], "centre": [0, 0, 0]}
        return {"mass": p["m"], "inertia": moments, "friction": NO_SLIP, **shape}
    if problem.name == "rattleback":
        shape = {"shape": "ellipsoid", "size": p["axes"], "axis": [0, 0, 1], "centre": [0, 0, p["h"]]}
        return {"mass": p["m"], "inertia": [*p["moments"], p["D"], 0.0, 0.0], "friction": NO_SLIP, **shape}
    moments = 0.4 * p["m"] * p["R"] ** 2 * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    shape = {"shape": "sphere", "size": [p["R"]], "axis": [0, 0, 1], "centre": [0, 0, 0]}
    return {"mass": p["m"], "inertia": moments, "friction": p["mu"], **shape}


def run(problem: Problem, step: float = 1e-4) -> dict:
    """Submission for a problem, with a time step in seconds."""
    words = body_of(problem)
    texts = {key: " ".join(map(repr, np.ravel(value).tolist())) for key, value in words.items() if key != "shape"}
    given = {
        "step": step,
        "stiff": (10 if problem.name == "sliding-ball" else 2) * step,
        "gravity": -problem.parameters["g"],
        "shape": words["shape"],
    }
    model = mujoco.MjModel.from_xml_string(SCENE.format(**texts, **given))
    data, start, is_ball = mujoco.MjData(model), problem.start, words["shape"] == "sphere"
    place = [*start["place"], problem.parameters["R"]] if is_ball else start["place"]
    turned = Rotation.identity() if is_ball else Rotation.from_matrix(start["rotation"].reshape(3, 3))
    data.qpos = [*place, *turned.as_quat(scalar_first=True)]
    data.qvel = [*start["velocity"], *([0.0] if is_ball else []), *start["omega"]]
    states, steps, begin, t_roll = [], 0, time.process_time(), None
    for t in problem.times:
        while steps < round(t / step):
            mujoco.mj_step(model, data)
            steps += 1
            if is_ball and t_roll is None:
                spin = turned_of(data) @ data.qvel[3:]
                slip = data.qvel[:2] - problem.parameters["R"] * np.array([spin[1], -spin[0]])
                t_roll = steps * step if np.linalg.norm(slip) < 1e-2 else None
        states.append(state_of(data, is_ball))
    return {
        "problem": problem.name,
        "code": f"MuJoCo {mujoco.__version__}",
        "method": f"RK4, dt = {step:g}",
        "work": {"seconds": time.process_time() - begin, "steps": steps},
        "times": problem.times.tolist(),
        "values": {name: [state[name] for state in states] for name in start},
        **({"events": {"t_roll": t_roll}} if t_roll is not None else {}),
    }


def turned_of(data: mujoco.MjData) -> np.ndarray:
    """Rotation from the body to space, shape=[3, 3]."""
    return Rotation.from_quat(data.qpos[3:], scalar_first=True).as_matrix()


def state_of(data: mujoco.MjData, is_ball: bool) -> dict[str, list[float]]:
    """Quantities of a problem."""
    R = turned_of(data)
    if is_ball:
        omega = R @ data.qvel[3:]
        return {"place": data.qpos[:2].tolist(), "velocity": data.qvel[:2].tolist(), "omega": omega.tolist()}
    values = {"place": data.qpos[:3], "rotation": R.ravel(), "omega": data.qvel[3:], "velocity": data.qvel[:3]}
    return {name: np.array(value).tolist() for name, value in values.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=PROBLEMS, metavar="PROBLEM", help=", ".join(PROBLEMS))
    parser.add_argument("step", type=float, nargs="?", default=1e-4, help="time step in seconds (1e-4)")
    words = parser.parse_args()
    if not 0 < words.step <= 0.1:
        parser.error(f"step must be between 0 and 0.1, got {words.step:g}")
    print(json.dumps(run(read_problem(words.problem), words.step), indent=1))

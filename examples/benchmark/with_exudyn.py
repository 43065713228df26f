"""Adapter for Exudyn: a rigid body in Euler parameters on its joint of a rolling disc, by the generalised α method.

``python with_exudyn.py rolling-disc [STEP]`` prints a submission; of the other problems Exudyn has no joints.
"""

from __future__ import annotations

import argparse
import json
import time

import exudyn as exu
import exudyn.itemInterface as items
import numpy as np
from exudyn.utilities import RigidBodyInertia
from score import Problem, read_problem

PROBLEMS = ("rolling-disc",)
OUTPUTS = {
    "place": exu.OutputVariableType.Position,
    "rotation": exu.OutputVariableType.RotationMatrix,
    "omega": exu.OutputVariableType.AngularVelocityLocal,
    "velocity": exu.OutputVariableType.Velocity,
}
"""Outputs of Exudyn by the quantities of the problem."""


def run(problem: Problem, step: float = 1e-3) -> dict:
    """Submission for the problem, with a time step in seconds that divides the times asked."""
    p, start = problem.parameters, problem.start
    system = exu.SystemContainer().AddSystem()
    R = start["rotation"].reshape(3, 3)
    body = system.CreateRigidBody(
        inertia=RigidBodyInertia(p["m"], p["m"] * p["r"] ** 2 / 4 * np.diag([1.0, 2.0, 1.0])),
        referencePosition=start["place"].tolist(),
        referenceRotationMatrix=R,
        initialVelocity=start["velocity"].tolist(),
        initialAngularVelocity=(R @ start["omega"]).tolist(),
        gravity=[0.0, 0.0, -p["g"]],
        nodeType=exu.NodeType.RotationEulerParameters,
    )
    ground = system.AddObject(items.ObjectGround())
    markers = [system.AddMarker(items.MarkerBodyRigid(bodyNumber=number)) for number in (ground, body)]
    system.AddObject(items.ObjectJointRollingDisc(markerNumbers=markers, discRadius=p["r"], discAxis=[0, 1, 0]))
    sensors = {
        name: system.AddSensor(items.SensorBody(bodyNumber=body, storeInternal=True, outputVariableType=output))
        for name, output in OUTPUTS.items()
    }
    system.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.endTime = float(problem.times[-1])
    settings.timeIntegration.numberOfSteps = round(problem.times[-1] / step)
    settings.timeIntegration.generalizedAlpha.spectralRadius = 1.0  # no numerical damping
    settings.timeIntegration.newton.relativeTolerance = 1e-12
    settings.timeIntegration.newton.absoluteTolerance = 1e-13
    settings.timeIntegration.verboseMode = 0
    settings.solution.sensors.writePeriod = float(problem.times[0])
    settings.solution.file.write = False
    begin = time.process_time()
    system.SolveDynamic(settings)
    seconds = time.process_time() - begin
    stored = {name: system.GetSensorStoredData(number) for name, number in sensors.items()}
    rows = [int(np.argmin(np.abs(stored["place"][:, 0] - t))) for t in problem.times]
    return {
        "problem": problem.name,
        "code": f"Exudyn {exu.__version__}",
        "method": f"generalised α, dt = {step:g}",
        "work": {"seconds": seconds, "steps": round(problem.times[-1] / step)},
        "times": problem.times.tolist(),
        "values": {name: stored[name][rows, 1:].tolist() for name in start},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=PROBLEMS, metavar="PROBLEM", help=", ".join(PROBLEMS))
    parser.add_argument("step", type=float, nargs="?", default=1e-3, help="time step in seconds (1e-3)")
    words = parser.parse_args()
    if not 0 < words.step <= 0.1:
        parser.error(f"step must be between 0 and 0.1, got {words.step:g}")
    print(json.dumps(run(read_problem(words.problem), words.step), indent=1))

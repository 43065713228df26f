"""Explicit Runge–Kutta methods in ambient coordinates: what projections put back, and what they cannot."""

import numpy as np
import pytest
from random_systems import forced, random_system, start

import geonh as gn


def defect(run):
    with gn.float64():
        return float(np.max(run.system.group.defect(run.g[-1])))


def test_what_is_projected_is_kept_and_nothing_else():
    system = random_system("SO3")
    runs = {
        project: gn.solve(system, gn.RungeKutta(project=project), dt=0.04, n_steps=100, save_every=100, **start(system))
        for project in ("none", "constraint", "energy")
    }
    residual = {name: np.abs(run.constraint_residual[-1]).max() for name, run in runs.items()}
    energy = {name: abs(run.energy[-1] - run.energy[0]) for name, run in runs.items()}
    assert residual["none"] > 1e-8 > 1e-13 > max(residual["constraint"], residual["energy"])
    assert energy["energy"] < 1e-12 < 1e-8 < min(energy["none"], energy["constraint"])
    assert defect(runs["none"]) > 1e-16 > 1e-28 > max(defect(runs["constraint"]), defect(runs["energy"]))


def test_baumgarte_brings_a_violation_back():
    system = random_system("SO3")
    ends = [
        np.abs(
            gn.solve(system, gn.RungeKutta(baumgarte=rate), dt=0.05, n_steps=400, **start(system)).constraint_residual[
                -1
            ]
        ).max()
        for rate in (0.0, 10.0)
    ]
    assert ends[1] < 0.1 * ends[0]


def test_an_energy_that_is_not_kept_is_not_put_back():
    with pytest.raises(ValueError, match="no forces"):
        gn.solve(forced(), gn.methods["rk4-energy"].make(), xi0=[0.0, 0.0, 0.0], dt=0.01, n_steps=5)
    affine = random_system("SO3", affine=True)
    with pytest.raises(ValueError, match="linear constraints"):
        gn.solve(affine, gn.RungeKutta(project="energy"), dt=0.01, n_steps=5, **start(affine))


@pytest.mark.parametrize("wrong", [{"scheme": "rk5"}, {"project": "both"}, {"baumgarte": -1.0}, {"baumgarte": np.nan}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        gn.RungeKutta(**wrong)

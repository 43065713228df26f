"""Trajectories in files: what is gone on from, to the same bits, and what is refused."""

import numpy as np
import pytest

import geonh as gn
from geonh.integrators import DLA, Lobatto, RungeKutta
from geonh.results import netcdf
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh

START = {"xi0": [0.8, -0.5, 0.0], "dt": 0.02}
METHODS = {
    "memory": DLA(),
    "warm stacks": gn.Gauss(2),
    "three warm stacks": Lobatto(2),
    "composition": gn.compose(gn.SymmetricProjection(), "suzuki4"),
    "a target": RungeKutta(project="energy"),
    "a composition of two": gn.RKMK(4).adjoint() @ gn.RKMK(4),
    "impulse": gn.GNI(),
}
QUICK = ("memory", "warm stacks", "composition", "impulse")


@pytest.mark.quick("impulse")
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in METHODS])
def test_a_run_goes_on_from_a_file_to_the_same_bits(name, tmp_path):
    sleigh, method = chaplygin_sleigh(), METHODS[name]
    whole = gn.solve(sleigh, method, n_steps=40, **START)
    path = gn.solve(sleigh, method, n_steps=13, **START).save(tmp_path / "run.nc")
    back = gn.resume(path, 27, system=sleigh, method=method)
    for label in ("g_vector", "p_plus", "p_minus"):
        np.testing.assert_array_equal(getattr(back, label), getattr(whole, label))


def test_a_file_without_the_warm_start_is_refused_in_words(tmp_path):
    import xarray as xr

    sleigh = chaplygin_sleigh()
    path = gn.solve(sleigh, gn.Gauss(2), n_steps=5, **START).save(tmp_path / "run.nc")
    with xr.open_dataset(path) as data:
        warm = [name for name in data.data_vars if str(name).startswith("state_warm")]
        assert len(warm) == 2
        netcdf.write(data.load().drop_vars(warm[0]), tmp_path / "cut.nc")
    with pytest.raises(ValueError, match="warm in the file is not what this method and system keep"):
        gn.resume(tmp_path / "cut.nc", 5, system=sleigh, method=gn.Gauss(2))


def test_a_file_with_the_warm_start_of_another_version_goes_on(tmp_path):
    """It kept fewer guesses: the run goes on without, and ends at the same nodes to rounding."""
    import xarray as xr

    sleigh = chaplygin_sleigh()
    whole = gn.solve(sleigh, gn.Gauss(2), n_steps=40, **START)
    path = gn.solve(sleigh, gn.Gauss(2), n_steps=20, **START).save(tmp_path / "run.nc")
    with xr.open_dataset(path) as data:
        kept = data["state_warm.guess"]
        other = xr.DataArray(kept.values[:2], dims=("two", kept.dims[1]))
        netcdf.write(data.load().drop_vars("state_warm.guess").assign({"state_warm.guess": other}), tmp_path / "old.nc")
    back = gn.resume(tmp_path / "old.nc", 20, system=sleigh, method=gn.Gauss(2))
    np.testing.assert_allclose(back.g_vector, whole.g_vector, rtol=0, atol=1e-13)


def test_something_else_is_no_trajectory(tmp_path):
    import xarray as xr

    xr.Dataset({"x": ("t", np.zeros(2))}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ValueError, match="not a trajectory saved by geonh"):
        gn.Trajectory.load(tmp_path / "other.nc")

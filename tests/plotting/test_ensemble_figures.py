"""Figures of ensembles: they draw what the arrays say."""

import numpy as np
import pytest

import geonh as gn
from geonh.ensembles import Quantiles
from geonh.plotting import plot_basins, plot_fan, plot_histogram


@pytest.fixture(scope="module")
def runs():
    system = gn.System(gn.groups.Translations(2), metric=np.eye(2), distribution=gn.Distribution([[0.0, 1.0]]))
    g0 = np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 3)), axis=-1).reshape(-1, 2)
    xi0 = np.stack([np.linspace(0, 2, 12), np.zeros(12)], axis=1)
    wanted = Quantiles("xi", (0.1, 0.5, 0.9))
    return gn.solve_ensemble(
        system, "rk4", g0=g0, xi0=xi0, dt=0.1, n_steps=4, save_every=1, statistics=[wanted], observables=None
    )


def test_fans(runs):
    line = plot_fan(runs, "energy").axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), np.median(runs.energy, axis=0))
    line = plot_fan(runs, "xi", component=0).axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), np.median(runs.xi[..., 0], axis=0))
    with pytest.raises(ValueError, match="say component="):
        plot_fan(runs, "xi")
    skew = gn.solve_ensemble(
        runs.system,
        "rk4",
        xi0=[1.0, 0.0],
        dt=[0.1, 0.2, 0.3],
        n_steps=2,
        save_every=1,
        statistics=[Quantiles("g", (0.5, 0))],
    )
    axes = plot_fan(skew, "g", component=0).axes[0]
    assert axes.get_xlabel() == "step"
    np.testing.assert_allclose(axes.lines[0].get_data(), [[0, 1, 2], [0, 0.2, 0.4]])
    with pytest.raises(ValueError, match="has no 'speed'"):
        plot_fan(runs, "speed")


def test_histograms(runs):
    bars = plot_histogram(runs, "energy", bins=5).axes[0].patches
    np.testing.assert_array_equal([b.get_height() for b in bars], np.histogram(runs.energy[:, -1], 5)[0])
    for bins in ([1.0, 0.5], [1.0], np.eye(2)):
        with pytest.raises(ValueError, match="bins must be a number of bins, or two or more increasing edges"):
            plot_histogram(runs, "energy", bins=bins)


def test_basins_of_a_grid_and_of_points(runs):
    x, y = runs.system.group.point_names
    mesh = plot_basins(runs, runs.energy[:, -1], x, y).axes[0].collections[0]
    np.testing.assert_allclose(mesh.get_array(), runs.energy[:, -1].reshape(3, 4))
    points = plot_basins(runs, runs.energy[:, -1], runs.system.group.velocity_names[0], y).axes[0].collections[0]
    assert len(points.get_offsets()) == 12
    points = plot_basins(runs, runs.energy[:, -1], runs.system.group.velocity_names[0], "dt").axes[0].collections[0]
    assert len(points.get_offsets()) == 12
    with pytest.raises(ValueError, match="one for each member"):
        plot_basins(runs, [1.0], x, y)
    with pytest.raises(ValueError, match="no number of each member"):
        plot_basins(runs, runs.energy[:, -1], "mass", y)

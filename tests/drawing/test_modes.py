"""Modes of a run in pictures: colours, intervals, timeline of figures, data of the viewer."""

import functools

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import geonh as gn
from geonh.drawing import ball
from geonh.drawing.modes import in_mode_colour, mode_colours, modes_at, stretches
from geonh.drawing.momenta import momenta
from geonh.drawing.scene import PALETTE
from geonh.groups import Translations
from geonh.viewer.packing import packed

matplotlib.use("Agg")


def draw(t, g, parameters):
    return [gn.drawing.Body("ball", [ball(0.1)], at=gn.drawing.Pose(jnp.eye(3), g))]


@functools.cache
def run():
    """A ball that falls through a level below which it has another potential."""
    given = {"metric": np.eye(3), "draw": draw}
    above = gn.System(Translations(3), potential=lambda x: 9.81 * x[2], name="above", **given)
    below = gn.System(Translations(3), potential=lambda x: -9.81 * x[2], name="below", **given)
    level = gn.Event(lambda t, x, xi, lam: x[2], name="level")
    modes = gn.Modes(
        {"above": above, "below": below},
        [gn.Transition("above", level, "below"), gn.Transition("below", level, "above")],
        name="through a level",
    )
    return gn.solve(modes, "rkmk4", mode="above", g0=[0.0, 0.0, 0.1], xi0=[1.0, 0.0, 0.0], dt=0.01, n_steps=60)


@pytest.mark.slow
def test_modes_in_time():
    parts = stretches(run())
    assert [part.mode for part in parts][:3] == [0, 1, 0]
    assert parts[0].end == parts[1].begin == run().switches.t[0]
    assert parts[-1].end == run().t[-1]
    at = modes_at(run(), np.array([0.0, run().switches.t[0] - 1e-9, run().switches.t[0], run().t[-1]]))
    assert at.tolist() == [0, 0, 1, run().nodes.mode[-1]]
    assert mode_colours(run()) == {"above": PALETTE[0], "below": PALETTE[1]}


def test_figures_and_pages_of_a_run_with_modes():
    figure = run().plot()
    timeline = figure.axes[-1]
    assert timeline.get_ylabel() == "mode"
    assert [text.get_text() for text in timeline.get_legend().get_texts()] == ["above", "below"]
    drawn = gn.drawing.scene(run(), np.arange(len(run())))
    k = int(np.flatnonzero(run().mode == "below")[3])
    assert {body.colour for body in in_mode_colour(drawn, run(), k).bodies if not body.is_ground} == {PALETTE[1]}
    header, _ = packed([run()], ["run"], 100)
    modes = header["runs"][0]["modes"]
    assert modes["names"] == ["above", "below"]
    assert modes["at"]["n"] == len(run())
    assert len(modes["spans"]) == len(stretches(run()))
    one = gn.solve(run().modes.systems[0], "rkmk4", g0=[0.0, 0.0, 0.1], xi0=[1.0, 0.0, 0.0], dt=0.01, n_steps=5)
    assert packed([one], ["run"], 100)[0]["runs"][0]["modes"] is None


@pytest.mark.slow
def test_the_force_of_each_mode_is_that_of_its_own_constraints(tmp_path):
    """A ball in a plane that drops to a line, in a field of force (1, 2, 3): what holds it is the opposite of that."""
    given = {"metric": np.eye(3), "draw": draw, "potential": lambda x: -x @ jnp.array([1.0, 2.0, 3.0])}
    plane = gn.System(Translations(3), distribution=gn.Distribution([[0.0, 0.0, 1.0]]), name="plane", **given)
    line = gn.System(Translations(3), distribution=gn.Distribution([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), **given)
    edge = gn.Event(lambda t, x, xi, lam: x[0] - 0.1, direction=1, name="edge")
    one = gn.Modes({"plane": plane, "line": line}, [gn.Transition("plane", edge, "line")], name="held")
    other = gn.Modes({"line": line, "plane": plane}, [gn.Transition("plane", edge, "line")], name="held")
    for modes in (one, other):
        made = gn.solve(modes, "rkmk4", mode="plane", g0=[0.0] * 3, xi0=[1.0, 0.0, 0.0], dt=0.02, n_steps=8)
        expected = np.where((made.mode == "plane")[:, None], [0.0, 0.0, -3.0], [0.0, -2.0, -3.0])
        assert set(made.mode) == {"plane", "line"}
        np.testing.assert_allclose(momenta(made).force, expected, atol=1e-12)
        np.testing.assert_array_equal(momenta(made, [5]).force, momenta(made).force[[5]])
    read = gn.Trajectory.load(made.save(tmp_path / "run.nc"), system=other)
    np.testing.assert_array_equal(momenta(read).force, momenta(made).force)
    with pytest.raises(ValueError, match="not the modes of the run of held"):
        gn.Trajectory.load(tmp_path / "run.nc", system=one)
    joined = gn.join(
        *(gn.solve(line, "rkmk4", xi0=[1.0, 0, 0], dt=0.1, n_steps=1, t0=0.1 * k, g0=[0, 0, 0]) for k in (0, 1))
    )
    assert np.isnan(momenta(joined).force[2:]).all()  # whose system a joined run has not
    np.testing.assert_allclose(momenta(joined).force[:2], [[0.0, -2.0, -3.0]] * 2, atol=1e-12)

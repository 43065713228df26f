"""Figures of one question, and animations: what they show is what the run has; wrong words say so."""

import matplotlib
import numpy as np
import pytest

import geonh as gn
from geonh import plotting
from geonh.diagnostics import convergence, poincare_section
from geonh.plotting.animation import _Planes
from geonh.systems import catalogue

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def sleigh():
    start = catalogue["chaplygin-sleigh"].start(None)
    return gn.solve(gn.systems.chaplygin_sleigh(), gn.GNI(), xi0=start.xi0, dt=0.05, n_steps=200)


@pytest.fixture(scope="module")
def oscillator():
    entry = catalogue["nonholonomic-oscillator"]
    start = entry.start(entry.system())
    return gn.solve(entry.system(), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=1000)


def pixels(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(int)


def near(picture, colour, within=40):
    """How many pixels have about a colour."""
    wanted = np.array(matplotlib.colors.to_rgb(colour)) * 255
    return int(np.sum(np.abs(picture - wanted).max(axis=2) < within))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_each_figure_shows_the_numbers_of_the_run(sleigh, oscillator):
    figure = plotting.plot_invariants(sleigh)
    figure.canvas.draw()
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), sleigh.energy)
    low, high = figure.axes[1].get_ylim()
    assert (high - low) / low > 1e-3  # the rounding of a constant is not magnified
    figure = plotting.plot_multipliers(sleigh)
    impulse, own = figure.axes[0].lines
    np.testing.assert_array_equal(own.get_ydata(), sleigh.multipliers[:, 0])
    np.testing.assert_array_equal(impulse.get_ydata(), sleigh.impulse_multipliers[:, 0])
    figure = plotting.plot_phase(oscillator, "x", "z")
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xdata(), oscillator.g[:, 0])
    np.testing.assert_array_equal(
        plotting.plot_phase(oscillator, "t", "energy").axes[0].lines[0].get_ydata(), oscillator.energy
    )


def test_sections_of_several_runs(oscillator):
    section = poincare_section(oscillator, lambda g, xi: g[1])
    figure = plotting.plot_poincare({"default": section, "again": section}, "x", "z")
    lines = figure.axes[0].lines
    np.testing.assert_array_equal(lines[1].get_ydata(), section.values("z"))
    assert lines[0].get_label() == f"default, {len(section)} crossings"
    none = poincare_section(oscillator, lambda g, xi: 1.0 + 0 * g[1])
    with pytest.raises(ValueError, match="no run crosses"):
        plotting.plot_poincare({"none": none}, "x", "z")
    with pytest.raises(ValueError, match=r"no component 'w' .* there are x, y, z, vx"):
        plotting.plot_phase(oscillator, "x", "w")


def test_orders_of_several_methods_in_one_figure():
    system = gn.systems.chaplygin_sleigh()
    result = [convergence(system, m, xi0=[0.8, -0.5, 0.0], steps=(20, 40)) for m in (gn.GNI("left"), gn.RKMK(4))]
    figure = plotting.plot_convergence(result)
    lines = figure.axes[0].lines
    np.testing.assert_array_equal(lines[0].get_ydata(), result[0].error)
    assert f"order {result[1].order:.2f}" in lines[1].get_label()


@pytest.mark.slow
def test_the_picture_has_the_body_where_it_is(sleigh):
    """Image comparison by what must be there: the bodies' colours, and the same picture for the same run."""
    figure = sleigh.plot()
    first = pixels(figure)
    assert near(first, "#0072B2", 90) > 3000  # the body, from above
    assert near(first, "#D55E00") > 300  # the path of the blade
    np.testing.assert_array_equal(first, pixels(sleigh.plot()))
    box = figure.axes[0].get_window_extent()
    (x0, x1), (y0, y1) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    np.testing.assert_allclose(box.width / (x1 - x0), box.height / (y1 - y0), rtol=1e-3)  # lengths are lengths


@pytest.mark.slow
def test_animations(sleigh, tmp_path):
    from PIL import Image

    warned = []
    path = sleigh.animate(
        tmp_path / "a.gif", fps=5, speed=5, dpi=40, progress=lambda done, of: warned.append((done, of))
    )
    with Image.open(path) as picture:
        assert picture.n_frames == 11
        frames = []
        for i in (0, 10):
            picture.seek(i)
            frames.append(np.asarray(picture.convert("RGB")).astype(int))
    assert warned[-1] == (11, 11)
    assert np.mean(np.abs(frames[0] - frames[1]).max(axis=2) > 60) > 0.005
    for wrong, words in (({"fps": 0}, "fps must be positive"), ({"trail": -1.0}, "trail must be positive")):
        with pytest.raises(ValueError, match=words):
            sleigh.animate(tmp_path / "a.gif", **wrong)
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4"):
        sleigh.animate(tmp_path / "a.avi")
    with pytest.raises(ValueError, match="nothing to animate"):
        sleigh.first(1).animate(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="no constraints"):
        plotting.plot_multipliers(gn.solve(gn.systems.heavy_top(), xi0=[0.1, 0.2, 3.0], dt=0.02, n_steps=2))


def test_animations_are_as_large_as_asked_and_follow_small_bodies(tmp_path):
    from PIL import Image

    from geonh.drawing import scene
    from geonh.plotting.bodies import body_size
    from geonh.plotting.stage import FAR, Stage, followed

    entry = gn.systems.catalogue["chaplygin-sleigh"]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=600)
    with Image.open(run.animate(tmp_path / "a.gif", fps=2, speed=15, size=(320, 200))) as picture:
        assert picture.size == (320, 200)
    with Image.open(run.first(3).animate(tmp_path / "b.gif", fps=2, speed=1, dpi=20)) as picture:
        assert picture.size == (256, 144)
    with pytest.raises(ValueError, match="size must be"):
        run.animate(tmp_path / "a.gif", size=(320,))
    drawn = scene(run)
    assert np.max(np.subtract(*drawn.extent[::-1])) > FAR * body_size(drawn)
    assert followed(drawn) is drawn.traces[0]
    assert followed(scene(run.first(20))) is None
    stage = Stage(run, drawn, None, (6.4, 3.6), 100.0)
    for i in (0, 600):  # the body is in the middle, and large
        frame = stage.pixels(i)
        assert frame.shape == (360, 640, 4)
        body = np.argwhere(np.abs(frame[..., :3].astype(int) - [64, 149, 197]).max(axis=2) < 40)
        assert len(body) > 1500
        assert np.abs(body.mean(axis=0) - [190, 320]).max() < 60


def test_lines_hidden_by_their_own_faces_are_left_out():
    """A box and a wheel from above: each line lies on two faces, and what is left out would have been covered."""
    from geonh.drawing import Moving, box, cylinder
    from geonh.plotting.pieces import pieces_of

    seen = {}
    for name, part in (("box", box(2.0, 1.0, 0.5)), ("wheel", cylinder(1.0, 0.2, axis="y"))):
        body = Moving(name, (part,), None, "#0072B2", np.eye(3)[None], np.zeros((1, 3)))
        pieces = pieces_of([body], (), True)
        assert np.all(pieces.touched < len(pieces.faces))
        if name == "box":
            assert np.all(pieces.touched[:, 0] != pieces.touched[:, 1])
        everything = pieces._replace(touched=np.full_like(pieces.touched, len(pieces.faces)))
        frames = []
        for shown in (pieces, everything):
            corners, colours = shown.triangles(0, 0, lambda p: (100 + 40 * p[:, :2], p[:, 2]), 100.0)
            frames.append((len(corners), rendered(corners, colours)))
        (few, frame), (many, whole) = frames
        assert few < many
        assert np.mean(np.abs(frame - whole).max(axis=2) > 60) < 2e-3
        seen[name] = np.mean(frame.min(axis=2) < 200)
    assert seen["box"] > 0.05
    assert seen["wheel"] > 0.01


def rendered(corners, colours):
    """Picture of triangles, 200 × 200 pixels."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.transforms import IdentityTransform

    renderer = RendererAgg(200, 200, 100)
    white = np.array([[[0, 0], [400, 0], [0, 400.0]]])
    for places, tints in ((white, np.ones((1, 3, 4))), (corners, np.repeat(colours[:, None], 3, axis=1))):
        renderer.draw_gouraud_triangles(renderer.new_gc(), places, tints, IdentityTransform())
    return np.asarray(renderer.buffer_rgba())[:, :, :3].astype(int)


def test_a_table_that_turns_is_seen_to_turn():
    from geonh.drawing import scene
    from geonh.plotting.stage import Stage

    entry = catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=100)
    stage = Stage(run, scene(run), None, (6.4, 3.6), 100.0)
    first, later = (stage.pixels(i)[..., :3].astype(int).copy() for i in (0, 4))
    apart = np.abs(first - later).max(axis=2)
    assert np.mean(apart[:150, 320:] > 20) > 0.005  # far from the ball there are spokes alone


@pytest.mark.parametrize(("code", "words"), [(0, "No space left"), (3, "ended with code 3")])
def test_an_mp4_that_ffmpeg_could_not_write_is_no_file(sleigh, tmp_path, monkeypatch, code, words):
    """On a full disk ffmpeg prints an error, leaves a file without an index, and may end with code 0."""
    from matplotlib.animation import writers

    program = tmp_path / "ffmpeg"
    said = "" if code else "echo 'No space left on device' >&2;"
    program.write_text(f'#!/bin/sh\ncat >/dev/null; for last; do :; done; echo x >"$last"; {said} exit {code}\n')
    program.chmod(0o755)
    monkeypatch.setitem(matplotlib.rcParams, "animation.ffmpeg_path", str(program))
    monkeypatch.setattr(writers, "is_available", lambda name: True)
    with pytest.raises(OSError, match=words):
        sleigh.animate(tmp_path / "a.mp4", fps=5, speed=10, dpi=20, trail=1.0)
    assert not (tmp_path / "a.mp4").exists()


def test_mp4_needs_ffmpeg_and_says_so(sleigh, tmp_path, monkeypatch):
    from matplotlib.animation import writers

    if writers.is_available("ffmpeg"):
        path = sleigh.animate(tmp_path / "a.mp4", fps=5, speed=10, dpi=40, trail=1.0)
        assert path.read_bytes()[4:8] == b"ftyp"
    monkeypatch.setattr(writers, "is_available", lambda name: False)
    with pytest.raises(RuntimeError, match="MP4 needs ffmpeg"):
        sleigh.animate(tmp_path / "b.mp4")


def test_planes_of_changing_frames_are_those_of_the_last_one():
    """Y, U, V of BT.601, by their definition; of squares that do not change they are kept."""
    rng = np.random.default_rng(0)
    frame, planes = rng.integers(0, 256, (6, 8, 4), dtype=np.uint8), _Planes(6, 8)
    for rows, columns in ((slice(0, 6), slice(0, 8)), (slice(1, 2), slice(3, 6)), (slice(5, 6), slice(7, 8))):
        frame[rows, columns] = rng.integers(0, 256, frame[rows, columns].shape)
        planes.update(frame)
        r, g, b = np.moveaxis(frame[..., :3] / 255.0, -1, 0)
        y = 16 + 65.481 * r + 128.553 * g + 24.966 * b
        square = lambda a: a.reshape(3, 2, 4, 2).mean(axis=(1, 3))  # noqa: E731
        u = square(128 - 37.797 * r - 74.203 * g + 112 * b)
        v = square(128 + 112 * r - 93.786 * g - 18.214 * b)
        exact = np.concatenate([np.ravel(y), np.ravel(u), np.ravel(v)])
        assert np.abs(planes.values - exact).max() <= 0.5 + 1e-4

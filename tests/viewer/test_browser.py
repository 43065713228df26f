"""The viewer in a real browser: headless Chromium, from disk, without a network. Screenshots go to $GEONH_SCREENSHOTS.

Skipped, with the reason, where there is no Playwright or no Chromium: ``pip install playwright`` and the distribution's
``chromium``; GEONH_CHROMIUM names another one.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from chromium import launched

import geonh as gn
from geonh.drawing import momenta, scene
from geonh.systems import catalogue
from geonh.viewer import view


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture
def opened(browser, tmp_path):
    """A page of the viewer, opened; in the end nothing may have been asked of the network, or said on the console."""
    said, asked, contexts = [], [], []

    def open_page(page_of_runs, width=1000, height=700, **options):
        path = page_of_runs.save(tmp_path / "view.html")
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("window.geonhViewer && window.geonhViewer.ready", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def run(name, n, method=None, **parameters):
    entry = catalogue[name]
    system = entry.system(**parameters)
    start = entry.start(system)
    return gn.solve(system, method, xi0=start.xi0, g0=start.g0, dt=entry.dt, n_steps=n, controls=entry.controls)


def pixels(page, name=""):
    from PIL import Image

    folder = os.environ.get("GEONH_SCREENSHOTS")
    page.wait_for_timeout(150)  # two frames of a slow renderer
    data = page.locator("#scene").screenshot()
    if folder and name:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def differ(a, b):
    return np.mean(np.abs(a - b).max(axis=2) > 30)


def test_bodies_stand_where_the_data_says_and_pixels_follow(opened):
    made = run("snakeboard", 300)
    page = opened(view(made))
    seen, pictures = scene(made), []
    for i in (0, 100, 300):
        page.evaluate(f"geonhViewer.setTime({made.t[i]})")
        for body in seen.bodies[:-1]:
            at = page.evaluate("([name]) => geonhViewer.position(name)", [body.name])
            np.testing.assert_allclose(at, body.x[i], rtol=0, atol=1e-5)
            point = page.evaluate("([name]) => geonhViewer.position(name, 0, [1, 0, 0])", [body.name])
            np.testing.assert_allclose(point, body.x[i] + body.R[i][:, 0], rtol=0, atol=2e-4)
        pictures.append(pixels(page, f"snakeboard-{i}"))
    assert all(len(np.unique(picture.reshape(-1, 3), axis=0)) > 100 for picture in pictures)  # bodies, in light
    assert differ(pictures[0], pictures[1]) > 0.005
    assert differ(pictures[1], pictures[2]) > 0.005
    halfway = (made.t[100] + made.t[101]) / 2
    page.evaluate(f"geonhViewer.setTime({halfway})")
    between = (seen.bodies[0].x[100] + seen.bodies[0].x[101]) / 2
    np.testing.assert_allclose(page.evaluate("geonhViewer.position('board')"), between, atol=1e-5)


def test_it_plays_scrubs_and_obeys_keys(opened):
    made = run("chaplygin-sphere", 100)
    page = opened(view(made))

    def state(name):
        return page.evaluate(f"geonhViewer.state.{name}")

    page.get_by_role("button", name="Play").click()
    page.wait_for_function("geonhViewer.state.time > 0.1")
    page.get_by_role("button", name="Pause").click()
    stopped = state("time")
    page.wait_for_timeout(100)
    assert state("time") == stopped
    scrub = page.get_by_role("slider", name="Time")
    scrub.fill(str(made.t[50]))
    assert abs(state("time") - made.t[50]) < 1e-9
    page.locator("body").click(position={"x": 5, "y": 5})
    for key, moved in (("ArrowRight", 51), ("ArrowLeft", 50), ("Shift+ArrowRight", 60), ("Home", 0), ("End", 100)):
        page.keyboard.press(key)
        assert abs(state("time") - made.t[moved]) < 1e-6
    before = pixels(page)
    for key, name, expected in (
        ("l", "loop", False),
        ("]", "speed", 2),
        ("c", "camera", "follow"),
        ("t", "traces", False),
        ("f", "force", False),
        ("m", "momentum", True),
        ("d", "dark", True),
    ):
        page.keyboard.press(key)
        assert state(name) == expected
    after = pixels(page, "sphere-follow-dark")
    assert before.mean() > 200 > 80 > after.mean()
    assert differ(before, after) > 0.5
    page.keyboard.press(" ")  # at the end: begins again, and does not loop
    page.wait_for_function("geonhViewer.state.playing && geonhViewer.state.time < 1")
    page.wait_for_function("!geonhViewer.state.playing")
    assert abs(state("time") - made.t[-1]) < 1e-9
    figure = page.locator("#plots canvas").first  # a click on a curve moves the cursor
    box = figure.bounding_box()
    figure.click(position={"x": (56 + box["width"] - 6) / 2, "y": 20})
    assert abs(state("time") - made.t[50]) < 0.05


@pytest.mark.slow
def test_several_runs_stand_side_by_side_or_overlaid(opened):
    runs = [run("chaplygin-sleigh", 200, gn.GNI()), run("chaplygin-sleigh", 300, gn.RKMK(4))]
    page = opened(view(*runs, names=["GNI", "RKMK"]))
    dashes = page.evaluate("[...document.querySelectorAll('#plots figure:first-child line')].map((l) => l.outerHTML)")
    assert len(set(dashes)) == len(dashes) == 4  # energy of RKMK, and of GNI at p⁻ and p̃; the constraint of both is one
    overlaid = pixels(page)
    page.get_by_role("button", name="Side by side").click()
    assert differ(overlaid, pixels(page, "sleigh-side-by-side")) > 0.005
    for i, made in enumerate(runs):
        page.evaluate("geonhViewer.setTime(1.5)")
        at = page.evaluate(f"geonhViewer.position('body', {i})")
        np.testing.assert_allclose(at[:2], made.g[150, 1:], atol=1e-5)
    page.evaluate("geonhViewer.setTime(3)")  # the shorter run stays at its end
    np.testing.assert_allclose(page.evaluate("geonhViewer.position('body', 0)")[:2], runs[0].g[-1, 1:], atol=1e-5)


@pytest.mark.slow
def test_every_control_has_a_name_and_a_phone_shows_them_all(opened):
    page = opened(view(run("suslov", 50)), width=390, height=844, is_mobile=True, has_touch=True)
    for control in page.locator("button:visible, select:visible, input:visible").all():
        name = control.get_attribute("aria-label")
        assert name
        box = control.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["y"] + box["height"] <= 844
        assert box["height"] >= 30
    page.get_by_role("button", name="Keys").tap()
    assert page.locator("#keys").is_visible()
    pixels(page, "suslov-phone")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(catalogue))
def test_every_system_is_shown(name, opened):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    made = gn.solve(system, xi0=start.xi0, g0=start.g0, dt=entry.dt, n_steps=200, controls=entry.controls, throw=False)
    page = opened(view(made))
    page.evaluate(f"geonhViewer.setTime({made.t[-1] * 0.7}); geonhViewer.set('momentum', true)")
    picture = pixels(page, name)
    assert np.mean(np.abs(picture - picture[0, -1]).max(axis=2) > 30) > 0.002
    arrows = momenta(made)
    assert all(np.all(np.isfinite(a)) for a in arrows)

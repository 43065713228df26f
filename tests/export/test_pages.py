"""Live pages: in headless Chromium, from disk, without a network. Screenshots go to $GEONH_SCREENSHOTS."""

import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import jax.numpy as jnp
import numpy as np
import pytest
from chromium import launched
from PIL import Image

import geonh as gn
from geonh.drawing.picture import NoDrawingError
from geonh.export import play
from geonh.systems import catalogue


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages of systems, made once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page_of(name, methods=None):
        if (name, methods) not in made:
            path = folder / f"{name}-{len(made)}.html"
            made[name, methods] = play(catalogue[name].system(), path, methods).path
        return made[name, methods]

    return page_of


@pytest.fixture
def opened(browser):
    """A page, opened; in the end nothing may have been asked of the network, or said on the console."""
    said, asked, contexts = [], [], []

    def open_page(path, width=1100, height=750, link=""):
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + link)
        page.wait_for_function("window.geonhPlay && window.geonhPlay.ready", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def picture(page, name):
    folder = os.environ.get("GEONH_SCREENSHOTS")
    page.wait_for_timeout(150)
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def observed(page, side=0):
    """What is observed now, by name."""
    code = (
        "([k]) => Object.fromEntries(geonhPlay.header.models[0].data.observed.map("
        "({ name }, i) => [name, geonhPlay.runs[k].row[i]]))"
    )
    return page.evaluate(code, [side])


def check_numbers(page, name, method, n):
    """Compare a page with ``solve`` after n steps."""
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(
        system, method, xi0=start.xi0, g0=start.g0, dt=entry.dt, n_steps=n, controls=entry.controls, throw=False
    )
    page.evaluate(f"geonhPlay.advance({n * entry.dt})")
    now = observed(page)
    assert now["t"] == pytest.approx(run.t[-1], abs=1e-12)
    for i, velocity in enumerate(system.group.velocity_names):
        assert now[velocity] == pytest.approx(run.xi[-1, i], rel=1e-10, abs=1e-10)
    body = gn.drawing.scene(run).bodies[0]
    pose = page.evaluate("Array.from(geonhPlay.runs[0].bodies[0].matrix.elements)")
    expected = np.block([[body.R[-1], body.x[-1][:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
    np.testing.assert_allclose(np.reshape(pose, (4, 4)).T, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["chaplygin-sleigh", "rolling-ball"])
@pytest.mark.quick("chaplygin-sleigh")
def test_the_page_has_the_numbers_of_solve_and_a_frame_is_the_reference(opened, files, name, tmp_path):
    method = "gni" if name == "chaplygin-sleigh" else "gauss4"
    page = opened(files(name, (method, "rkmk4")))
    check_numbers(page, name, method, 200)
    page.wait_for_timeout(150)
    path = tmp_path / "frame.png"
    page.locator("#scene").screenshot(path=str(path))
    frame, reference = (small(where) for where in (path, Path(__file__).parent / "reference" / f"{name}.png"))
    assert np.abs(frame - reference).max() < 40  # of 255, after blurring: a body that is elsewhere changes more
    assert np.abs(frame - reference).mean() < 2


def small(path):
    """Picture of 48 × 32 pixels, each the mean of a part of it."""
    return np.asarray(Image.open(path).convert("RGB").resize((48, 32), Image.Resampling.BOX), float)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue)
def test_every_system_of_the_catalogue_runs_in_its_page(opened, files, name):
    page = opened(files(name))
    check_numbers(page, name, None, 50)
    page.evaluate("geonhPlay.reset(); geonhPlay.setPlaying(true)")
    page.wait_for_function("geonhPlay.frames > 20 && geonhPlay.runs[0].time > 0", timeout=60_000)
    picture(page, f"play-{name}")


def test_settings_are_those_of_a_run_and_the_start_is_on_the_constraints(opened, files):
    entry = catalogue["chaplygin-sleigh"]
    page = opened(files("chaplygin-sleigh", ("gni", "rkmk4")))
    page.get_by_role("spinbutton", name="a: Distance from the knife edge to the centre of mass, m, as a number").fill(
        "0.5"
    )
    page.keyboard.press("Tab")
    page.get_by_role("slider", name="omega: rad/s").fill("0.9")
    across = page.get_by_role("spinbutton", name="vy: m/s, as a number")
    across.fill("0.4")
    page.keyboard.press("Enter")
    assert across.input_value() == "0"  # which the constraint determines
    system = entry.system(a=0.5)
    xi0 = [0.9, *entry.start(system).xi0[1:]]
    np.testing.assert_allclose(page.evaluate("geonhPlay.runs[0].start.velocity"), xi0, rtol=0, atol=1e-14)
    page.evaluate("geonhPlay.advance(1)")
    run = gn.solve(system, "gni", xi0=xi0, dt=0.01, n_steps=100)
    assert observed(page)["omega"] == pytest.approx(run.xi[-1, 0], abs=1e-12)
    assert observed(page)["energy"] == pytest.approx(run.energy[-1], abs=1e-12)
    picture(page, "play-settings")


def test_a_number_of_the_start_is_taken_and_taken_back(opened, tmp_path):
    """vx = 2 vy: either is chosen, and the other follows; steps that are not positive are refused."""
    along = gn.Distribution(lambda x: np.array([[1.0, -2.0]]))
    system = gn.System(gn.groups.Translations(2), metric=[2.0, 1.0], distribution=along, name="cart")
    page = opened(play(system, tmp_path / "cart.html", "gauss4", xi0=[0.2, 0.1], dt=0.1, n_steps=20).path)
    box = page.get_by_role("spinbutton", name=re.compile("^vx.*as a number"))
    for number, velocity in (("3", [3.0, 1.5]), ("-1e6", [-1e6, -5e5]), ("0.2", [0.2, 0.1])):
        box.fill(number)
        page.keyboard.press("Enter")
        start = page.evaluate("geonhPlay.runs[0].start.velocity")
        np.testing.assert_allclose(start, velocity, rtol=1e-14, atol=1e-9)
        assert float(box.input_value()) == float(number)
    step = page.get_by_role("spinbutton", name="step: s, as a number")
    for number in ("0", "-0.01", ""):
        step.fill(number)
        page.keyboard.press("Enter")
        assert step.input_value() == "0.1"


def test_controls_change_while_it_runs(opened, tmp_path):
    system = gn.System(
        gn.groups.Translations(2), metric=[2.0, 1.0], forces=lambda t, x, xi, u: jnp.stack([u[0], 0.0]), name="cart"
    )
    page = opened(
        play(system, tmp_path / "cart.html", "gauss4", xi0=[0.0, 0.0], controls=[1.0], dt=0.1, n_steps=20).path
    )
    page.evaluate("geonhPlay.advance(1)")
    page.get_by_role("slider", name="u[0]: held").fill("-1")
    page.evaluate("geonhPlay.advance(3)")
    assert observed(page)["vx"] == pytest.approx(0.5 - 1.0, abs=1e-12)
    assert observed(page)["t"] == pytest.approx(3)


def test_a_push_is_that_of_a_free_body_projected_on_the_constraints(opened, files):
    system = catalogue["chaplygin-sleigh"].system()
    page = opened(files("chaplygin-sleigh", ("gni", "rkmk4")))
    page.evaluate("geonhPlay.advance(0.5)")
    before = observed(page)
    at, change = np.array([before["x"] + 0.2, before["y"] - 0.1, 0.0]), np.array([0.3, 0.5, 0.0])
    assert page.evaluate("([at, v]) => geonhPlay.runs[0].push(0, at, v)", [at.tolist(), change.tolist()]) == 0
    after = observed(page)
    assert after["t"] == before["t"]
    # The impulse, a covector in the frame of the body, by which the free point gains the arrow's length.
    direction, c, s = change[:2] / np.linalg.norm(change), np.cos(before["theta"]), np.sin(before["theta"])
    arm, ahead, aside = at[:2] - [before["x"], before["y"]], np.array([c, s]), np.array([-s, c])
    covector = [arm[0] * direction[1] - arm[1] * direction[0], direction @ ahead, direction @ aside]
    free = np.linalg.solve(np.asarray(system.mass_matrix(())), covector)
    xi = np.array([before[n] for n in ("omega", "vx", "vy")])
    expected = system.project(None, xi + np.linalg.norm(change) / (covector @ free) * free)
    np.testing.assert_allclose([after[n] for n in ("omega", "vx", "vy")], expected, rtol=0, atol=1e-12)
    page.evaluate("geonhPlay.advance(1)")
    assert observed(page)["t"] == pytest.approx(1.0)


def test_two_runs_links_and_tables(opened, files):
    path = files("chaplygin-sleigh", ("gni", "rkmk4"))
    page = opened(path)
    page.get_by_role("button", name="second run").click()
    assert page.evaluate("geonhPlay.runs.map((run) => run.settings.method)") == [0, 1]
    page.get_by_role("radio", name="run B").click()
    page.get_by_role("slider", name="m: Mass, kg").fill("2")
    page.evaluate("geonhPlay.advance(0.3)")
    picture(page, "play-two")
    apart = observed(page)["energy"], observed(page, 1)["energy"]
    assert apart[0] != apart[1]
    table = page.evaluate("geonhPlay.csv()").splitlines()
    assert table[0].startswith('run,"t (s)","theta (rad)","x (m)","y (m)"')
    assert [line[0] for line in table[1:]] == ["A"] * 31 + ["B"] * 31  # each step
    link = page.evaluate("geonhPlay.link()")
    again = opened(path, link=link)
    assert again.evaluate("geonhPlay.runs.map((run) => run.settings.parameters.m)") == [1, 2]
    again.evaluate("geonhPlay.advance(0.3)")
    assert (observed(again)["energy"], observed(again, 1)["energy"]) == apart


@pytest.mark.slow
def test_damaged_links_begin_with_the_values_by_default(opened, files):
    path = files("chaplygin-sleigh", ("gni", "rkmk4"))
    damages = ({"method": 7, "dt": -1}, {"method": "length", "dt": "0.1"}, None, 5, {"point": "abc", "parameters": 1})
    for damage in damages:
        broken = opened(path, link="#" + quote(json.dumps({"runs": [damage]})))
        assert broken.evaluate("geonhPlay.runs.map((run) => [run.settings.method, run.settings.dt])") == [[0, 0.01]]
        assert "The link does not give method, dt" in broken.evaluate("document.body.innerText")
    broken = opened(path, link="#%7B%22runs")
    assert "The link cannot be read" in broken.evaluate("document.body.innerText")
    broken.evaluate("geonhPlay.reset()")
    assert "settings by default" in broken.evaluate("document.body.innerText")
    broken.evaluate("geonhPlay.change(0, { dt: 0.02 })")
    assert "settings by default" not in broken.evaluate("document.body.innerText")


def test_it_works_at_the_width_of_a_phone_and_by_keyboard(opened, files):
    page = opened(files("chaplygin-sleigh", ("gni", "rkmk4")), width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press(" ")
    page.wait_for_function("geonhPlay.runs[0].time > 0.1", timeout=60_000)
    page.keyboard.press(" ")
    stopped = page.evaluate("geonhPlay.runs[0].time")
    page.wait_for_timeout(100)
    assert page.evaluate("geonhPlay.runs[0].time") == stopped
    page.keyboard.press(".")
    assert page.evaluate("geonhPlay.runs[0].time") == pytest.approx(stopped + 0.01)
    energy = observed(page)["energy"]
    page.keyboard.press("p")
    assert observed(page)["energy"] != energy
    page.keyboard.press("s")
    assert page.evaluate("geonhPlay.runs.length") == 2
    page.keyboard.press("r")
    assert page.evaluate("geonhPlay.runs[0].time") == 0
    picture(page, "play-phone")


def test_a_body_is_pushed_with_the_mouse(opened, files):
    page = opened(files("chaplygin-sleigh", ("gni", "rkmk4")))
    before = observed(page)
    box = page.locator("#scene").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y - 20, steps=4)
    picture(page, "play-push")
    page.mouse.up()
    assert observed(page)["energy"] != before["energy"]
    assert abs(observed(page)["vy"]) < 1e-14


@pytest.mark.slow
def test_a_run_that_stops_says_why(opened, tmp_path):
    system = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], potential=lambda x: jnp.log(x[0]), name="well")
    page = opened(play(system, tmp_path / "well.html", "rkmk4", xi0=[-1.0, 0.0], g0=[1.0, 0.0], n_steps=20).path)
    page.evaluate("geonhPlay.advance(5)")
    assert "stopped at t = " in page.locator("#warning").inner_text()
    assert "not finite" in page.locator("#warning").inner_text()


@pytest.mark.slow
def test_a_page_loads_nothing_and_allows_nothing_else(files):
    text = files("chaplygin-sleigh", ("gni", "rkmk4")).read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not any(word in text for word in ('src="http', 'href="http', "import(", "fetch("))
    assert "{{" not in text.split('<script type="text/plain" id="data">')[0]


@pytest.mark.slow
def test_small_numbers_quotes_and_new_links(opened, tmp_path):
    """A parameter of 1e-19 is not shown as 0; a link opened in the page's own tab is taken; a table has its quotes."""
    integral = gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: xi[1])
    system = gn.System(
        gn.groups.Translations(2), metric=[1.0, 1.0], parameters={"q": 1.6e-19}, first_integrals={'L"z': integral}
    )
    path = play(system, tmp_path / "page.html", "rkmk4", xi0=[1.0, 0.0], n_steps=20).path
    page = opened(path)
    box = page.get_by_role("spinbutton", name="q, as a number")
    assert float(box.input_value()) == 1.6e-19
    box.fill("3.2e-19")
    box.press("Enter")
    assert float(box.input_value()) == page.evaluate("geonhPlay.runs[0].settings.parameters.q") == 3.2e-19
    assert '"L""z"' in page.evaluate("geonhPlay.csv()").splitlines()[0]
    page.evaluate("geonhPlay.change(0, { dt: 0.05 })")
    link = page.evaluate("geonhPlay.link()")
    other = opened(path)
    with other.expect_navigation(wait_until="load"):
        other.evaluate("(link) => { location.hash = link; }", link)
    other.wait_for_function("window.geonhPlay && window.geonhPlay.ready", timeout=60_000)
    assert other.evaluate("geonhPlay.runs[0].settings.dt") == 0.05
    with pytest.raises(ValueError, match=r"dt must be > 0, got -0.1: a page runs forwards"):
        play(system, xi0=[1.0, 0.0], dt=-0.1)


def test_a_system_without_a_drawing_is_refused():
    system = gn.System(gn.groups.SO2(), metric=[1.0])
    with pytest.raises(NoDrawingError, match="has no drawing, and its space implies none"):
        system.play(xi0=[1.0])
    with pytest.raises(TypeError, match="system must be a geonh System"):
        play("sleigh")

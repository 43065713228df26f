"""The pictures of the README, made anew: ``python docs/images/make.py`` (the screenshot needs Playwright and Chromium)."""

import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import geonh as gn

HERE = Path(__file__).parent


def run(name, n, **parameters):
    """A run of the catalogue by the default method."""
    entry = gn.systems.catalogue[name]
    system = entry.system(**parameters)
    start = entry.start(system)
    return gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=n, controls=entry.controls)


run("controlled-snakeboard", 700).animate(HERE / "snakeboard.gif", fps=12, speed=2, dpi=55, size=(352, 396))

ball = run("chaplygin-sphere", 2000)
ball.plot().savefig(HERE / "chaplygin-sphere.png", dpi=90)
page = ball.view(path=HERE / "viewer.html")
with sync_playwright() as started:
    flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
    browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
    tab = browser.new_page(viewport={"width": 1200, "height": 720})
    tab.goto((HERE / "viewer.html").as_uri())
    tab.wait_for_function("window.geonhViewer && window.geonhViewer.ready")
    tab.evaluate(f"geonhViewer.setTime({float(np.round(0.55 * ball.t[-1], 2))})")
    tab.wait_for_timeout(1000)
    tab.screenshot(path=HERE / "viewer.png")
    browser.close()
(HERE / "viewer.html").unlink()

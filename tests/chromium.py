"""Headless Chromium for the tests of pages; they are skipped, with the reason, where there is none."""

import contextlib
import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]


@contextlib.contextmanager
def launched():
    """A browser; GEONH_CHROMIUM names another one than the distribution's."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested with Playwright, not installed")
    path = os.environ.get("GEONH_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("pages are tested in Chromium, and none is installed")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()

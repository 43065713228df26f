"""Live pages of the catalogue's systems, and the directive that shows one.

They are made in a process of their own while Sphinx runs the gallery: ``python docs/_ext/live.py FOLDER``.
"""

import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

FOLDER = Path(__file__).parents[1] / "_static" / "systems"
RUNS = os.environ.get("GEONH_PAGES", "runs") == "runs"


def name_of(system):
    """File name of a system's live page."""
    return f"{system}-live.html"


class Live(Directive):
    """The live page of a system of the catalogue, in a frame; nothing where pages have no runs."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        if not RUNS:
            return []
        system = self.arguments[0]
        up = "../" * self.state.document.settings.env.docname.count("/")
        source = f"{up}_static/systems/{name_of(system)}"
        text = (
            f'<iframe class="viewer" loading="lazy" src="{source}" title="{system}, running"></iframe>'
            f'<p class="live"><a href="{source}">The same, as a page of its own</a>: the integrator runs in the browser. '
            "Change a number, push a body, compare two runs.</p>"
        )
        return [nodes.raw("", text, format="html")]


def start(app):
    """Begin to make the pages."""
    if RUNS:
        app.live_pages = subprocess.Popen([sys.executable, __file__, str(FOLDER)])


def wait(app, env):
    """Wait for them, before files are copied; a failure ends the build."""
    if RUNS and app.live_pages.wait():
        raise RuntimeError("the live pages could not be made")


def make(folder):
    """Make a page for each system, with the method of its figure."""
    from pages import shown_by

    from geonh.systems import catalogue

    folder.mkdir(parents=True, exist_ok=True)
    for entry in catalogue.values():
        entry.system().play(folder / name_of(entry.name), shown_by(entry))


if __name__ == "__main__":
    make(Path(sys.argv[1]))

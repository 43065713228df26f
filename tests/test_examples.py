"""Every example runs, every Python block of the docs and the README in order, and every doctest."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import matplotlib
import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITH_DOCTESTS = sorted(p for p in (ROOT / "geonh").rglob("*.py") if ">>> " in p.read_text(encoding="utf-8"))
LONG = {"control", "switching", "analysis", "rolling", "a_snakeboard_parks", "robot_with_trailers"}
"""Pages and examples that take 10 s and more."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def each(paths):
    """Parameters of a test for each of these files, slow for long ones."""
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in LONG)) for p in paths]


@pytest.fixture
def a_folder(tmp_path, monkeypatch):
    """Where a user stands who tries the code: in a folder of their own, and no window opens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["script.py"])
    with matplotlib.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


def run(code, path):
    made = ModuleType("__main__")
    made.__file__ = str(path)
    exec(compile(code, str(path), "exec"), vars(made))


@pytest.mark.user_precision
@pytest.mark.parametrize("script", each(EXAMPLES))
def test_example(script, a_folder, capsys):
    run(script.read_text(encoding="utf-8"), script)
    assert capsys.readouterr().out.strip()


@pytest.mark.user_precision
@pytest.mark.parametrize("page", each(PAGES))
def test_code_of_a_page(page, a_folder):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    run("\n".join(blocks), page)


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_example_in_a_process_of_its_own(script, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"} | {"MPLBACKEND": "Agg"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("file", WITH_DOCTESTS, ids=lambda p: p.stem)
def test_doctests(file):
    module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0

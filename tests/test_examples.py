"""Every example runs as a script, every Python block of the docs and the README in order, and every doctest."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITH_DOCTESTS = sorted(p for p in (ROOT / "geonh").rglob("*.py") if ">>> " in p.read_text(encoding="utf-8"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(arguments, folder):
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"} | {"MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_example(script, tmp_path):
    assert run([str(script)], tmp_path).strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_code_of_a_page(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    if blocks:
        run(["-c", "\n".join(blocks)], tmp_path)


@pytest.mark.parametrize("file", WITH_DOCTESTS, ids=lambda p: p.stem)
def test_doctests(file):
    module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0

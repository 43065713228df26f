"""The table that ``geonh list``, ``show`` and ``methods`` print from is that of the systems and methods.

``python tests/cli/test_described.py`` renews it.
"""

import json
import subprocess
import sys
from pathlib import Path

import geonh
from geonh.cli.described import tables

FILE = Path(geonh.__file__).parent / "cli" / "tables.json"


def test_the_table_is_that_of_the_catalogue():
    assert json.loads(FILE.read_text(encoding="utf-8")) == tables(), f"renew it: python {__file__}"


def test_help_and_lists_import_no_jax():
    code = "import sys; from geonh.cli import app; app({!r}, standalone_mode=False); assert 'jax' not in sys.modules"
    for words in (
        ["--help"],
        ["run", "--help"],
        ["sweep", "--help"],
        ["list"],
        ["show", "suslov"],
        ["methods"],
        ["methods", "gni"],
    ):
        subprocess.run([sys.executable, "-c", code.format(words)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    FILE.write_text(json.dumps(tables(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

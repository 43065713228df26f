"""Damaged robots' files: 100 of either kind are read, or refused in words that name what is wrong."""

import random
import re
import warnings

import pytest
import test_files
import test_mjcf

from geonh import bodies

pytest.importorskip("yourdfpy")
pytest.importorskip("mujoco")

WORDS = ("nan", "inf", "-1", "0", "1e308", "", "x", "1 2", "1 2 3 4 5", '"', "base", "-1e-30", "1e400", "0x10", "\x00")
TOLD = r"line \d+|'[\w :]+'|is not XML|at its top|declares|no joint moves"


def damaged(text, draws):
    """A text with a value replaced, an attribute or element left out or twice, or a part cut out."""
    attributes = list(re.finditer(r'(\w+)="([^"]*)"', text))
    elements = list(re.finditer(r"<(\w+)[^<>]*?/>", text))
    one, other, element = draws.choice(attributes), draws.choice(attributes), draws.choice(elements)
    start = draws.randrange(len(text))
    ways = [
        (one.start(2), one.end(2), draws.choice(WORDS)),
        (one.start(2), one.end(2), other.group(2)),
        (one.start(), one.end(), ""),
        (element.start(), element.end(), ""),
        (element.start(), element.end(), element.group() * 2),
        (start, start + draws.randrange(1, 200), ""),
    ]
    begin, end, new = draws.choice(ways)
    return text[:begin] + new + text[end:]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "name"), [(test_files.ROBOT, "damaged.urdf"), (test_mjcf.MODEL, "damaged.xml")])
def test_damaged_files_are_told_in_words(tmp_path, text, name):
    refused = 0
    for seed in range(100):
        path, told = tmp_path / name, None
        path.write_text(damaged(text, random.Random(seed)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                bodies.from_file(path)
        except ValueError as error:
            told, refused = str(error), refused + 1
        assert told is None or re.search(TOLD, told), told
    assert 30 < refused < 95

"""The interface of the engine is the one that its page describes."""

from pathlib import Path

from geonh import engine

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"


def test_every_name_of_the_interface_is_described():
    section = PAGE.read_text(encoding="utf-8").split("## Interface")[1].split("\n## ")[0]
    assert [name for name in engine.__all__ if f"`{name}" not in section] == []

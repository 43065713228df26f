"""Robots' files on the command line."""

import pytest
from test_files import ROBOT, written
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app

pytest.importorskip("yourdfpy", reason="robots are read by yourdfpy: pip install 'geonh[robots]'")


def geonh(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.slow
def test_a_robot_runs_and_is_viewed(tmp_path):
    path = written(tmp_path)
    wheels = ["--set", "root=planar", "--set", "left=0.1", "--set", "right=0.1"]
    said = geonh("run", path, *wheels, "--steps", 5, "--no-figure", "--out", tmp_path / "rover.nc")
    assert said.exit_code == 0, said.output
    run = gn.Trajectory.load(tmp_path / "rover.nc")
    assert run.attributes["velocity_names"][:3] == ["base_omega", "base_vx", "base_vy"]
    said = geonh("show", path)
    assert "left_wheel" in said.stdout
    assert "mesh" in said.stdout
    said = geonh("view", path, *wheels, "--out", tmp_path / "rover.html")
    assert said.exit_code == 0, said.output
    assert "base" in (tmp_path / "rover.html").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "none=1"], "has no parameter 'none'"),
        (["--set", "root=flying"], "root must be one of"),
        (["--set", "base=0.1"], "needs axis="),
    ],
)
def test_wrong_words_are_told(tmp_path, words, told):
    said = geonh("run", written(tmp_path), *words)
    assert said.exit_code == 2
    assert told in said.output


def test_damaged_files_are_told(tmp_path):
    said = geonh("run", written(tmp_path, ROBOT, ("</robot>", "")))
    assert said.exit_code == 2
    assert "is not XML" in said.output
    assert geonh("run", tmp_path / "none.urdf").exit_code == 2

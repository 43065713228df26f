"""``geonh build`` and ``geonh play`` as a user types them."""

import pytest
from typer.testing import CliRunner

from geonh.cli import app

pytestmark = pytest.mark.user_precision


def geonh(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_build_writes_what_it_names(tmp_path):
    said = geonh("build", "chaplygin-sleigh", "--set", "a=0.5", "--dt", "0.02", "--out", tmp_path / "robot")
    assert said.exit_code == 0, said.stderr
    files = [tmp_path / "robot" / name for name in ("robot.o", "robot.h", "example.c", "example.cpp")]
    assert all(str(file) in said.stdout.replace("\n", "") and file.exists() for file in files)
    header = files[1].read_text()
    assert "static const double robot_parameters[] = {1.0, 0.5, 1.0};" in header
    assert "static const double robot_times[] = {0.0, 0.02};" in header


def test_a_start_is_that_of_the_command_line(tmp_path):
    words = ("--xi0", "0.5,1.25,0", "--g0", "0,2,3", "--out", tmp_path / "robot")
    said = geonh("build", "chaplygin-sleigh", "--method", "rkmk4", *words)
    assert said.exit_code == 0, said.stderr
    header = (tmp_path / "robot" / "robot.h").read_text()
    assert "robot_velocity[] = {0.5, 1.25, 0.0};" in header
    assert "robot_point[] = {0.0, 2.0, 3.0};" in header


def test_controls_of_a_file_are_named(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import geonh as gn\n"
        "mass = gn.System(gn.groups.Translations(1), metric=[1.0], forces=lambda t, x, xi, u: u[:1])\n"
    )
    said = geonh("build", f"{tmp_path / 'mine.py'}:mass", "--out", tmp_path / "robot")
    assert said.exit_code == 2
    assert "the file needs a variable controls, a function of t or values" in said.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("build", "sleigh"), "no system 'sleigh'"),
        (("build", "suslov", "--target", "fortran"), "target must be one of"),
        (("build", "suslov", "--out", "my-robot"), "an identifier such as robot, got 'my-robot'"),
        (("build", "suslov", "--triple", "nowhere"), "LLVM has no target 'nowhere'"),
        (("build", "suslov", "--target", "wasm", "--triple", "riscv64"), "triple goes with target='c'"),
        (("play", "suslov", "--out", "suslov.txt"), "path must end in .html"),
        (("play", "suslov", "--method", "gauss9"), "gauss9"),
        (("play", "suslov", "--dt", "-1"), "dt must be > 0, got -1.0: a page runs forwards"),
        (("build", "suslov", "--xi0", "1,2"), "--xi0 takes 3 numbers, got 2"),
        (("build", "suslov", "--out", "a" * 300), "it has 300 bytes, a name at most 255"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = geonh(*words)
    assert said.exit_code == 2
    assert told in said.stderr
    assert said.stderr.count("\n") == 1


@pytest.mark.slow
def test_play_makes_a_page_of_a_users_own_system(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import geonh as gn\n"
        "robot = gn.System(gn.groups.SE2(), metric=[1.0, 2.0, 2.0], base='point',\n"
        "                  distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0]]))\n"
        "xi0 = [0.3, 1.0, 0.0]\n"
    )
    said = geonh("play", f"{tmp_path / 'mine.py'}:robot", "--method", "gni", "--out", tmp_path / "page.html")
    assert said.exit_code == 0, said.stderr
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"method": "gni"' in text

"""The command line as a user types it: every result readable, every wrong word an exit code 2 and one line."""

import re

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app

pytestmark = pytest.mark.user_precision


def geonh(*words):
    return CliRunner().invoke(app, list(words))


def test_help_names_the_commands():
    said = geonh("--help")
    assert said.exit_code == 0
    for command in ("list", "show", "run"):
        assert command in said.stdout


def test_list_names_every_system():
    said = geonh("list")
    assert said.exit_code == 0
    for name in gn.systems.catalogue:
        assert name in said.stdout


def test_methods_lists_every_method_and_tells_of_one():
    said = geonh("methods")
    assert said.exit_code == 0
    for name in gn.methods:
        assert name in said.stdout
    assert "Munthe-Kaas 1999" in geonh("methods", "rkmk4").stdout


@pytest.mark.parametrize("method", ["rkmk4", "discrete-gradient", "rattle", "lobatto4"])
@pytest.mark.quick("rattle", "lobatto4")
def test_run_takes_every_method(method, tmp_path):
    words = ["run", "suslov", "--method", method, "--steps", "20", "--no-figure", "--out", str(tmp_path)]
    said = geonh(*words)
    assert said.exit_code == 0, said.output
    assert len(gn.Trajectory.load(tmp_path / "suslov.nc").t) == 21


@pytest.mark.parametrize("name", gn.systems.catalogue)
def test_show_tells_space_constraints_parameters_and_first_integrals(name):
    entry = gn.systems.catalogue[name]
    said = geonh("show", name)
    assert said.exit_code == 0, said.output
    for word in ("space", "constraints", "start ξ0", "conserved", *entry.parameters):
        assert word in said.stdout


@pytest.mark.slow
def test_run_prints_the_invariants_and_saves_file_and_figure(tmp_path):
    said = geonh("run", "chaplygin-sphere", "--steps", "50", "--set", "J=0.4,0.6,0.9", "--out", str(tmp_path))
    assert said.exit_code == 0, said.output
    for word in ("50 steps", "J = 0.4,0.6,0.9", "energy at p̃", "K", "moving energy", "constraint residual"):
        assert word in said.stdout
    trajectory = gn.Trajectory.load(tmp_path / "chaplygin-sphere.nc")
    assert trajectory.t.shape == (51,)
    assert trajectory.attributes["parameters"]["J"] == [0.4, 0.6, 0.9]
    assert (tmp_path / "chaplygin-sphere.png").stat().st_size > 10_000


@pytest.mark.slow
def test_check_predicts_the_changes_of_invariants():
    result = geonh("check", "chaplygin-sleigh", "--method", "rkmk4", "--dt", "0.1", "--steps", "400")
    assert result.exit_code == 0
    assert re.search(r"energy +2\.0\de-10", result.output)
    assert "lower dt" in geonh("check", "chaplygin-sleigh", "--dt", "5", "--steps", "10").output


@pytest.mark.slow
def test_every_option_of_run_arrives(tmp_path):
    file = tmp_path / "a" / "mine.nc"
    words = "--method gni --rule midpoint --retraction exp --dt 0.05 --steps 40 --t0 2 --save-every 10 --no-figure"
    said = geonh("run", "Suslov", *words.split(), "--xi0=0.3,0.1,0", "--out", str(file))
    assert said.exit_code == 0, said.output
    trajectory = gn.Trajectory.load(file)
    assert np.allclose(trajectory.t, 2 + 0.5 * np.arange(5))
    assert np.allclose(trajectory.xi[0], [0.3, 0.1, 0])
    assert "Midpoint" in trajectory.attributes["method"]
    assert "Exponential" in trajectory.attributes["method"]
    assert not file.with_suffix(".png").exists()
    system = gn.systems.catalogue["suslov"].system()
    again = gn.solve(system, gn.GNI("midpoint", "exp"), xi0=[0.3, 0.1, 0], dt=0.05, n_steps=40, t0=2, save_every=10)
    assert np.array_equal(again.xi, trajectory.xi)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("runn suslov", "No such command 'runn'. Did you mean 'run'?"),
        ("show sulsov", "no system 'sulsov' in the catalogue; did you mean suslov"),
        ("run nothing", "no system 'nothing'"),
        ("run suslov --metod gni", "No such option"),
        ("run suslov --method gnii", "no method 'gnii'; did you mean gni"),
        ("methods nothing", "no method 'nothing'; methods are projected, gni"),
        ("run suslov --method rkmk4 --rule left", "--rule is not for the method rkmk4"),
        ("run suslov --method gni --rule middle", "--rule must be one of trapezoid"),
        ("run suslov --retraction log", "--retraction must be one of auto"),
        ("run suslov --dt fast", "Invalid value for '--dt'"),
        ("run suslov --dt 0", "dt must not be zero"),
        ("run suslov --steps 0", "--steps must be a positive integer, got 0"),
        ("run suslov --steps 1.5", "Invalid value for '--steps'"),
        ("run suslov --save-every -1", "--save-every must be a positive integer"),
        ("run suslov --steps 100000000", "keep fewer with --save-every"),
        ("run chaplygin-sphere --set J=0.5,0.6", "J takes 3 numbers, got 2"),
        ("run chaplygin-sphere --set J=a,b,c", "J takes numbers separated by commas, got 'a'"),
        ("run chaplygin-sphere --set j2=1", "chaplygin-sphere has no parameter 'j2'"),
        ("run chaplygin-sphere --set J", "--set takes NAME=VALUE, got 'J'"),
        ("run chaplygin-sphere --set m=1 --set m=2", "--set m is given twice"),
        ("run chaplygin-sphere --set m=-1", "m"),
        ("run suslov --xi0=1,2", "--xi0 takes 3 numbers, got 2"),
        ("run suslov --xi0=1,2,3", "the nearest velocity that does: --xi0="),
        ("run suslov --method variational", "constraint"),
    ],
)
def test_a_wrong_word_is_told_in_one_line(words, answer, tmp_path):
    said = geonh(*words.split(), *(["--out", str(tmp_path)] if words.startswith("run ") else []))
    assert said.exit_code == 2
    assert answer in " ".join(said.output.split())
    assert "Traceback" not in said.output
    assert not list(tmp_path.glob("*.nc"))


def test_the_nearest_start_that_is_offered_works(tmp_path):
    said = geonh("run", "suslov", "--xi0=1,2,3", "--steps", "5", "--no-figure", "--out", str(tmp_path))
    offered = next(word for word in said.output.split() if word.startswith("--xi0="))
    assert geonh("run", "suslov", offered, "--steps", "5", "--no-figure", "--out", str(tmp_path)).exit_code == 0


@pytest.mark.slow
def test_a_run_that_stops_early_saves_what_exists(tmp_path):
    said = geonh("run", "snakeboard", "--steps", "2000", "--xi0=0,0,0,0,3", "--no-figure", "--out", str(tmp_path))
    assert said.exit_code == 1
    assert "stopped early: snakeboard: step 22, t = 0.44: the constraints became dependent" in said.output
    assert len(gn.Trajectory.load(tmp_path / "snakeboard.nc").t) == 22


def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("")
    said = geonh("run", "suslov", "--steps", "5", "--out", str(occupied / "deeper"))
    assert said.exit_code == 2
    assert "cannot be written" in said.output


@pytest.mark.slow
def test_run_warns_of_multipliers_that_alternate(tmp_path):
    words = ("run", "suslov", "--method", "gni", "--dt", "0.05", "--out", str(tmp_path), "--no-figure")
    assert "the multipliers alternate: from t = " in geonh(*words, "--steps", "2000").output
    assert "alternate" not in geonh(*words, "--steps", "200").output
    assert "alternate" not in geonh("run", "suslov", *words[4:], "--steps", "2000").output


@pytest.mark.slow
def test_a_file_is_written_as_csv_and_mcap(tmp_path):
    pytest.importorskip("mcap", reason="MCAP files need the extra: pip install '.[mcap]'")
    geonh("run", "suslov", "--steps", "5", "--no-figure", "--out", str(tmp_path))
    for name in ("run.csv", "run.mcap"):
        said = geonh("export", str(tmp_path / "suslov.nc"), "--out", str(tmp_path / name))
        assert said.exit_code == 0, said.output
    table = pandas.read_csv(tmp_path / "run.csv", index_col="time")
    made = gn.Trajectory.load(tmp_path / "suslov.nc").to_pandas()
    assert list(table.columns) == list(made.columns)
    assert np.array_equal(table.to_numpy(), made.to_numpy())
    assert (tmp_path / "run.mcap").read_bytes().startswith(b"\x89MCAP")
    said = geonh("export", str(tmp_path / "suslov.nc"), "--out", str(tmp_path / "run.txt"))
    assert said.exit_code == 2
    assert "written as .csv or .mcap" in said.output


def test_parameters_of_a_run_that_is_viewed_must_be_its_own(tmp_path):
    file = str(tmp_path / "suslov.nc")
    assert geonh("run", "suslov", "--steps", "5", "--no-figure", "--out", file).exit_code == 0
    said = geonh("view", file, "--system", "suslov", "--set", "J=1,0,0;0,2,0;0,0,2.5")
    assert said.exit_code == 2
    assert "is not what the run of suslov was made with: parameters: J" in " ".join(said.output.split())


@pytest.mark.slow
def test_a_vector_of_controls_of_a_file_is_held_in_runs(tmp_path):
    (tmp_path / "cart.py").write_text(
        "import geonh as gn\n"
        "cart = gn.System(gn.groups.Translations(1), metric=[2.0], forces=lambda t, x, xi, u: u)\n"
        "controls, xi0, g0, n_steps = [3.0], [0.0], [0.0], 50\n"
    )
    word = f"{tmp_path / 'cart.py'}:cart"
    said = geonh("run", word, "--no-figure", "--out", str(tmp_path / "run.nc"))
    assert said.exit_code == 0, said.output
    said = geonh("resume", str(tmp_path / "run.nc"), "--steps", "50", "--system", word, "--no-figure")
    assert said.exit_code == 0, said.output
    run = gn.Trajectory.load(tmp_path / "run.nc")
    np.testing.assert_allclose(run.xi[:, 0], 1.5 * run.t, atol=1e-12)
    assert run.t[-1] == pytest.approx(1.0)


@pytest.mark.slow
def test_modes_of_a_file_are_run_and_resumed(tmp_path):
    (tmp_path / "ball.py").write_text(
        "import geonh as gn\n"
        "from geonh.groups import Translations\n"
        "one = gn.System(Translations(1), metric=[1.0], potential=lambda x, p: p['g'] * x[0], parameters={'g': 9.81})\n"
        "floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name='floor')\n"
        "ball = gn.Modes({'flight': one}, [gn.Transition('flight', floor, 'flight', lambda t, x, xi: -xi)])\n"
        "g0, xi0, n_steps = [1.0], [0.0], 100\n"
        "mode = 'flight'\n"
    )
    word, file = f"{tmp_path / 'ball.py'}:ball", str(tmp_path / "run.nc")
    said = geonh("run", word, "--no-figure", "--out", file, "--set", "g=2.0")
    assert said.exit_code == 0, said.output
    assert "begins in flight; transitions: flight from t = 1" in said.output
    said = geonh("resume", file, "--steps", "100", "--system", word, "--no-figure", "--set", "g=2.0")
    assert said.exit_code == 0, said.output
    run = gn.Trajectory.load(file)
    np.testing.assert_allclose(run.g[-1], 1.0, atol=1e-12)
    assert "parameters" in geonh("info", file).output
    assert "dimension 1" in geonh("show", word).output
    said = geonh("build", word, "--out", str(tmp_path / "robot"))
    assert said.exit_code == 2
    assert "system must be a geonh System, got Modes" in said.output

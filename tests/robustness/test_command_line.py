"""The command line under any words: an exit code and a line, never a traceback; and a user's own system."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app
from geonh.engine.interrupts import Interrupts

pytestmark = pytest.mark.user_precision

OWN = """
import jax.numpy as jnp
import numpy as np
import geonh as gn
from geonh.groups import SE2
from beside import offset

def sleigh(a=offset, m=1.0):
    metric = [[1 + m * a**2, 0, m * a], [0, m, 0], [m * a, 0, m]]
    forms = gn.Distribution([[0.0, 0.0, 1.0]])
    return gn.System(SE2(), metric=metric, distribution=forms, base="point", parameters={"a": a, "m": m}, name="mine")

def metric(x, p):
    return jnp.diag(p["J"])

ready = gn.System(gn.groups.SO3(), metric=metric, base="point", parameters={"J": np.arange(1.0, 4.0)}, name="body")
broken = lambda: undefined
number = 5
xi0 = [0.8, -0.5, 0.0]
dt, n_steps, method = 0.02, 30, "gni"
"""


BODY = "import geonh as gn\nbody = gn.System(gn.groups.SO3(), metric=[1.,2,3])\n"


DRIVEN = """import geonh as gn
def force(*args): return push(*args)
def body(): return gn.System(gn.groups.SO3(), metric=[1.,2,3], forces=lambda t, x, v, u: force(t, x, v, u))
xi0 = [1.0, 0, 0]
"""


def geonh(*words):
    said = CliRunner().invoke(app, list(words))
    assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
    return said


@pytest.fixture
def own(tmp_path):
    (tmp_path / "beside.py").write_text("offset = 0.2\n")
    (tmp_path / "own.py").write_text(OWN)
    yield str(tmp_path / "own.py")
    sys.modules.pop("beside", None)


def test_bare_geonh_prints_help_and_no_error():
    said = geonh()
    assert said.exit_code == 0
    assert "error" not in said.output
    for command in ("list", "show", "run", "resume", "info", "methods"):
        assert command in said.output


@pytest.mark.slow
def test_a_users_own_system_runs_as_one_of_the_catalogue(own, tmp_path):
    said = geonh("run", f"{own}:sleigh", "--set", "a=0.3", "--out", str(tmp_path))
    assert said.exit_code == 0, said.output
    for word in ("mine on SE(2)", "a = 0.3, m = 1", "30 steps", "method: gni", "energy at p⁻", "constraint residual"):
        assert word in said.output
    assert (tmp_path / "sleigh.png").exists()
    run = gn.Trajectory.load(tmp_path / "sleigh.nc")
    from geonh.systems.chaplygin_sleigh import chaplygin_sleigh

    same = gn.solve(chaplygin_sleigh(a=0.3), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.02, n_steps=30)
    np.testing.assert_allclose(run.g, same.g, atol=1e-12)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "none: geonh run takes --xi0"),
        ("g0 = 'abc'", "g0 must be real numbers, got text"),
        ("g0 = [1.0, 2.0]", "g0 must have shape (3,), got (2,)"),
        ("xi0 = lambda system: [1.0, 2.0]", "xi0 must have shape (3,), got (2,)"),
        ("xi0 = [1.0, 2.0, 3.0]", "omega = 1, vx = 2, vy = 3"),
    ],
)
def test_a_users_own_start_is_shown_or_named(tmp_path, line, words):
    path = tmp_path / "own.py"
    path.write_text(f"import geonh as gn\nbody = gn.System(gn.groups.SE2(), metric=[1.0, 2, 3])\n{line}\n")
    said = geonh("show", f"{path}:body")
    assert words in " ".join(said.output.split())
    assert said.exit_code == (2 if "must" in words else 0)


def test_a_system_that_is_ready_takes_its_parameters_and_a_start_by_options(own, tmp_path):
    words = ["--set", "J=3,2,1", "--xi0=1,0.1,0", "--g0=0,-1,0,1,0,0,0,0,1", "--method", "projected", "--no-figure"]
    said = geonh("run", f"{own}:ready", *words, "--out", str(tmp_path))
    assert said.exit_code == 0, said.output
    run = gn.Trajectory.load(tmp_path / "ready.nc")
    assert run.attributes["parameters"]["J"] == [3.0, 2.0, 1.0]
    np.testing.assert_array_equal(run.g[0], [[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(run.xi[0], [1, 0.1, 0])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (":slegh", "slegh is not there; did you mean sleigh?"),
        ("", "which system of"),
        (":number", "number is no System or Modes, and no function"),
        (":broken", "line 17: NameError: name 'undefined' is not defined"),
        (":sleigh --set b=1", "sleigh has no parameter 'b'"),
        (":sleigh --set a=1,2", "--set a=…: a takes 1 number, got 2"),
        (":ready --set J=1,2", "--set J=…: J takes 3 numbers, got 2"),
        (":sleigh --g0=1,2", "--g0 (theta, x, y) takes 3 numbers, got 2"),
        (":ready --g0=1,0,0,0,1,0,0,0,1.01", "the nearest point that does: --g0="),
        (":sleigh --set a=x", "--set a=…: a takes numbers separated by commas, got 'x'"),
        (":ready --set J=1,0;0,1", "--set J=…: J is of shape [3], not [2, 2]"),
        (":ready --g0=0,0,0,0,0,0,0,0,1e300", "give another --g0"),
        (":sleigh --method=", "no method ''"),
        (":sleigh --xi0=1,2,3", "the nearest velocity that does: --xi0="),
    ],
)
def test_a_wrong_word_about_an_own_system_is_told_in_a_line(own, tmp_path, words, answer):
    said = geonh("run", *(own + words).split(), "--out", str(tmp_path))
    assert said.exit_code == 2
    assert answer in " ".join(said.output.split())
    assert not list(tmp_path.glob("*.nc"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import nothing_of_that_name\n", "line 1: ModuleNotFoundError"),
        ("x = 1\nx +\n", "line 2: SyntaxError"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("import geonh as gn\nbody = gn.System(gn.groups.SO3())\n", "line 2: TypeError: System takes either metric="),
        ("def body():\n    return 5\n", "body() returned int, not a System"),
        ("def body(a):\n    return 5\n", "body() has no value for a: give --set a=…"),
        ("import sys\ndef body():\n    sys.exit(0)\n", "line 3: SystemExit: 0 (in body())"),
        ("def body():\n    return len(5)\n", "line 2: TypeError: object of type 'int' has no len"),
        (f"{BODY}def xi0(system):\n    raise SystemExit\n", "line 4: SystemExit: (in xi0())"),
        (f"{BODY}class Mute(ValueError):\n    __str__ = None\ndef xi0(system):\n    raise Mute\n", "line 6: Mute: (it"),
        ("import geonh as gn\nbody = gn.System(gn.groups.SO3(), metric=[1.,2,3])\n", "has no start: give --xi0"),
        ("import geonh as gn\nbody = gn.System(gn.groups.SO3(), metric=[1.,2,3])\ndt = 'a'\n", "dt must be a number"),
        (f"{DRIVEN}def push(t, x, v, u):\n    return [1, 2, 3][7]\n", "line 6: forces could not be evaluated"),
        (f"{DRIVEN}def push(t, x, v, u):\n    raise RuntimeError('no')\n", "line 6: forces could not be evaluated"),
        (f"{DRIVEN}def push(t, x, v, u):\n    return later(v)\n", "line 6: forces could not be evaluated"),
        (f"{DRIVEN}def push(t, x, v, u):\n    return v if v[0] > 0 else -v\n", "line 6: forces asks for the number"),
        (f"{DRIVEN}def push(t, x, v, u):\n    return u + v\ncontrols = lambda t: oops\n", "line 7: controls could"),
    ],
)
def test_what_is_wrong_in_a_users_file_is_told_with_its_line(tmp_path, text, answer):
    (tmp_path / "own.py").write_text(text)
    said = geonh("run", f"{tmp_path}/own.py:body", "--out", str(tmp_path / "out"))
    assert said.exit_code == 2
    assert answer in " ".join(said.output.split())


@pytest.mark.slow
def test_a_matrix_by_rows(tmp_path):
    J = "1,0.1,0;0.1,2,0;0,0,2.5"
    for text in (J, "[[1,0.1,0],[0.1,2,0],[0,0,2.5]]"):
        words = ["--set", f"J={text}", "--steps", "5", "--no-figure", "--out", str(tmp_path)]
        said = geonh("run", "chaplygin-sphere", *words)
        assert said.exit_code == 0, said.output
        run = gn.Trajectory.load(tmp_path / "chaplygin-sphere.nc")
        assert run.attributes["parameters"]["J"] == [[1, 0.1, 0], [0.1, 2, 0], [0, 0, 2.5]]
    for text, answer in (("1,0;0", "rows of a matrix are of one length"), ("1,0;0,1", "J must be 3 principal moments")):
        said = geonh("run", "chaplygin-sphere", "--set", f"J={text}", "--out", str(tmp_path))
        assert said.exit_code == 2
        assert answer in " ".join(said.output.split())


def test_resume_goes_on_to_the_same_bits_and_info_tells(tmp_path):
    words = ("--set", "J=0.4,0.6,0.9", "--no-figure")
    whole, part = str(tmp_path / "whole.nc"), str(tmp_path / "part.nc")
    assert geonh("run", "chaplygin-sphere", "--steps", "60", *words, "--out", whole).exit_code == 0
    assert geonh("run", "chaplygin-sphere", "--steps", "40", *words, "--out", part, "--checkpoint").exit_code == 0
    said = geonh("resume", part, "--steps", "20", "--no-figure")
    assert said.exit_code == 0, said.output
    a, b = gn.Trajectory.load(whole), gn.Trajectory.load(part)
    np.testing.assert_array_equal(a.g_vector, b.g_vector)
    np.testing.assert_array_equal(a.energy, b.energy)
    said = geonh("info", part)
    for word in (
        "chaplygin-sphere on R² × SO(3)",
        "J = 0.4,0.6,0.9",
        "60 steps",
        "GNI(",
        "success",
        "resume",
    ):
        assert word in said.output
    said = geonh("resume", part, "--steps", "5", "--set", "m=2", "--no-figure")
    assert said.exit_code == 2
    assert "parameters: m = 1.0 there, 2.0 here" in said.output
    assert "geonh resume --allow-changes goes on with it" in " ".join(said.output.split())
    said = geonh("resume", part, "--steps", "5", "--set", "m=2", "--no-figure", "--allow-changes")
    assert said.exit_code == 2
    assert "begin a new run, with geonh run" in " ".join(said.output.split())


@pytest.mark.slow
def test_resume_goes_on_with_other_parameters_where_it_is_allowed(tmp_path):
    file = str(tmp_path / "top.nc")
    assert geonh("run", "heavy-top", "--steps", "5", "--no-figure", "--out", file).exit_code == 0
    said = geonh("resume", file, "--steps", "5", "--set", "mgl=2.5", "--no-figure", "--allow-changes")
    assert said.exit_code == 0, said.output
    assert gn.Trajectory.load(file).attributes["parameters"]["mgl"] == 2.5


def test_a_place_that_cannot_be_written_is_said_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.nc")
    said = geonh("run", "suslov", "--steps", "3", "--out", str(tmp_path / "fifo.nc"))
    assert said.exit_code == 2
    assert said.output.count("cannot be written") == said.output.count("fifo.nc") == 1


def test_resume_of_an_own_system_says_where_it_must_be_named(own, tmp_path):
    file = str(tmp_path / "sleigh.nc")
    assert geonh("run", f"{own}:sleigh", "--set", "a=0.3", "--no-figure", "--out", file).exit_code == 0
    said = geonh("resume", file, "--steps", "5")
    assert said.exit_code == 2
    assert "say where it is, --system FILE.py:NAME" in " ".join(said.output.split())
    said = geonh("resume", file, "--steps", "5", "--system", f"{own}:sleigh", "--no-figure")
    assert said.exit_code == 0, said.output
    assert len(gn.Trajectory.load(file)) == 36


WORDS = ["list", "show", "run", "resume", "info", "methods", "suslov", "--steps", "--dt", "--out", "--set", "--xi0"]
ODD = [
    "a\0b",
    "~nouser",
    "~nouser/x.nc",
    str(10**30),
    "1" * 5000,
    "-1",
    "nan",
    "1e999",
    "",
    " ",
    "\ud800",
    "x" * 5000,
    "J=nan,1,1",
    "J=1e999,1,1",
    "J=;;",
    "=",
    "[",
    "/dev/null",
    "/proc/x.nc",
    "http://host/a.nc",
    "a.csv",
    "x.py:y",
    ".py:",
    "a\0.py:b",
    "~nouser/x.py:b",
    "\ud800.py:x",
    "[red]",
    "[/]",
]


def any_words(words, tmp_path):
    if words[:1] in (["run"], ["resume"]):
        words = [*words, "--no-figure"]
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        said = geonh(*words)
    finally:
        os.chdir(here)
    assert said.exit_code in (0, 1, 2)
    assert "Traceback" not in said.output


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from([*WORDS, *ODD]), max_size=5))
@example(["run", "suslov", "--out", "a\0b"])
@example(["run", "suslov", "--out", "~nouser"])
@example(["run", "suslov", "--steps", str(10**30)])
@example(["run", "suslov", "--steps", "1" * 5000])
@example(["run", "suslov", "--steps", "5", "--save-every", str(10**30)])
@example(["run", "suslov", "--steps", str(10**25), "--save-every", str(10**20)])
@example(["run", "suslov", "--out", "\ud800"])
@example(["run", "suslov", "--out", "a.csv"])
@example(["run", "suslov", "--g0", "[[1", "--steps", "5"])
@example(["run", "\ud800"])
@example(["show", "\ud800[/]"])
@example(["info", "a\0b"])
@example(["info", "~nouser/x.nc"])
@example(["info", "http://host/a.nc"])
@example(["info", "/dev/null"])
@example(["resume", "missing.nc", "--steps", "5"])
@example(["run", "a\0.py:b"])
@example(["run", "~nouser/x.py:b"])
def test_no_word_makes_a_traceback(tmp_path, words):
    any_words(words, tmp_path)


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    command=st.sampled_from(["show", "run suslov --steps 3", "run chaplygin-sphere --steps 3", "resume", "info"]),
    words=st.lists(st.sampled_from([*WORDS, *ODD]) | st.text(max_size=8), max_size=4),
)
def test_no_words_at_all_make_a_traceback(tmp_path, command, words):
    any_words([*command.split(), *words], tmp_path)


@pytest.mark.parametrize(
    ("number", "code", "seconds"),
    [
        (signal.SIGINT, 130, 0.6),
        *(
            pytest.param(number, code, seconds, marks=pytest.mark.slow)
            for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130))
            for seconds in (0.3, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 6.0)
        ),
    ],
)
def test_a_signal_ends_it_with_its_code_and_an_answer_at_once(tmp_path, number, code, seconds):
    """Silently while it imports; later it says that it stops before it saves what exists."""
    words = ["run", "suslov", "--steps", "100000000000", "--save-every", "10000", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "geonh", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(number)
    began = time.monotonic()
    first = process.stderr.readline()
    assert time.monotonic() - began < 0.5
    assert first in ("", "geonh: stopping\n")
    rest = process.communicate(timeout=30)[1]
    assert process.returncode == code, rest
    assert "Traceback" not in rest
    assert "ignored" not in rest


@pytest.mark.parametrize("module", ["geonh.cli", "typer", "rich"])
def test_a_ctrl_c_while_the_command_line_is_imported_ends_it_silently(module):
    code = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["geonh", "list"]
from geonh.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.slow
def test_a_ctrl_c_in_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch):
    """There Python prints an exception and goes on; it comes a moment later."""
    printed, sent, slept = [], [], []

    def callback(phase, _):
        if not sent:
            sent.append(phase)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    def collect():
        with Interrupts(at_once=True):
            gc.collect()
            time.sleep(30)
            slept.append(1)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(KeyboardInterrupt):
            collect()
    finally:
        gc.callbacks.remove(callback)
    assert sent
    assert not slept
    assert not printed


def test_a_ctrl_c_in_a_callback_of_a_weak_reference_is_not_lost(monkeypatch):
    """Such callbacks run wherever an object dies."""

    class Key:
        pass

    def interrupted(reference, of):
        os.kill(os.getpid(), signal.SIGINT)

    printed, kept = [], weakref.WeakKeyDictionary()
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    kept._pending_removals, key = [], Key()
    kept[key] = 1
    kept._iterating = {1}  # so that the callback takes this way, through a list that interrupts
    kept._pending_removals = type("Interrupting", (list,), {"append": interrupted})()

    def dies():
        nonlocal key
        with Interrupts(at_once=True):
            del key
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        dies()
    assert not printed


def test_a_ctrl_c_in_a_finalizer_is_not_lost_and_in_a_comparison_no_other_error(monkeypatch):
    class Object:
        def __eq__(self, other):
            self.interrupted()
            return True

        def interrupted(self=None):
            os.kill(os.getpid(), signal.SIGINT)

    printed, done = [], []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    def finalizes():
        with Interrupts(at_once=True):
            weakref.finalize(Object(), Object.interrupted)
            done.append("finalized")
            time.sleep(5)

    def compares():
        with Interrupts(at_once=True):
            done.append(Object() == Object())
            time.sleep(5)

    for case in (finalizes, compares):
        with pytest.raises(KeyboardInterrupt):
            case()
    assert done == ["finalized", True]
    assert not printed


def test_a_ctrl_c_lets_an_import_come_to_its_end(tmp_path, monkeypatch):
    """Modules of MLIR that are half imported cannot be imported again; JAX imports them at the first operation."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "begun_once.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n")

    def imports():
        with Interrupts(at_once=True):
            import begun_once

            assert begun_once.whole
            time.sleep(5)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        imports()
    assert time.monotonic() - began < 2
    assert sys.modules.pop("begun_once").whole


def test_a_ctrl_c_is_answered_in_a_module_that_runs_on_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "runs_long.py").write_text(
        "import os, signal, time\nfrom geonh.engine.interrupts import Interrupts\n"
        "with Interrupts(at_once=True):\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(5)\n"
    )
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        import runs_long  # noqa: F401
    assert time.monotonic() - began < 2


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "geonh", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"geonh {gn.__version__}\n"


RUN = "run veselova --steps 20 --out ."  # its report has characters that cp1252 has not
PLACES = {
    "cp1252": ("PYTHONIOENCODING=cp1252 ", "", 0, ""),
    "ascii": ("PYTHONIOENCODING=ascii ", "", 0, ""),
    "closed": ("", " >&-", 0, ""),
    "both closed": ("", " >&- 2>&-", 0, ""),
    "all closed": ("", " <&- >&- 2>&-", 0, ""),
    "full": ("", " >/dev/full", 3, "error: standard output could not be written: No space left on device"),
    "read only": ("", " 1</dev/null", 3, "error: standard output could not be written: Bad file descriptor"),
    "both full": ("", " >/dev/full 2>/dev/full", 3, ""),
    "no reader": ("", " | true; exit ${PIPESTATUS[0]}", 0, ""),
}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_saved_wherever_its_words_go(tmp_path, place):
    before, after, code, warned = PLACES[place]
    command = f"{before}{sys.executable} -m geonh {RUN}{after}"
    root = str(Path(gn.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, encoding="latin-1", env=environment
    )
    assert (done.returncode, done.stderr.strip()) == (code, warned)
    assert {path.name for path in tmp_path.iterdir()} == {"veselova.nc", "veselova.png"}
    assert gn.Trajectory.load(tmp_path / "veselova.nc").k[-1] == 20
    if before:
        assert "?" in done.stdout
        assert "saved veselova.png" in done.stdout


def test_a_table_that_cannot_be_shown_ends_in_a_line():
    command = [sys.executable, "-m", "geonh", "list"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "error: standard output could not be written: No space left on device\n"

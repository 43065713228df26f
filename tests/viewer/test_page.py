"""Pages of the viewer, read without a browser: self-contained, small, and what they say of wrong words."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest

import geonh as gn
from geonh.drawing import scene
from geonh.groups import SE2
from geonh.systems import catalogue
from geonh.viewer import view


@pytest.fixture(scope="module")
def ball():
    entry = catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    return gn.solve(system, xi0=start.xi0, g0=start.g0, dt=0.004, n_steps=10_000)


def unpacked(page):
    """Header of a page, and a function that reads an array of it."""
    texts = dict(re.findall(r'<script type="[^"]*" id="(\w+)">(.*?)</script>', page.html, flags=re.S))
    data = zlib.decompress(base64.b64decode(texts["data"]))
    return json.loads(texts["header"]), lambda a: np.frombuffer(data, "<" + a["kind"], a["n"], a["at"])


@pytest.mark.slow
def test_ten_thousand_frames_are_small_and_exact(ball, tmp_path):
    page = ball.view(path=tmp_path / "ball.html")
    assert (tmp_path / "ball.html").stat().st_size < 1.5e6
    header, read = unpacked(page)
    (made,) = header["runs"]
    bodies, seen = {b["name"]: b for b in made["bodies"]}, scene(ball)
    np.testing.assert_allclose(read(bodies["contact"]["x"]).reshape(-1, 3), seen.bodies[1].x, rtol=1e-6, atol=1e-6)
    q = read(bodies["ball"]["q"]).reshape(-1, 4) / 32767
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1.0, atol=1e-4)
    assert np.linalg.norm(np.diff(q, axis=0), axis=1).max() < 0.05  # no jump from q to −q, which slerp would show
    assert read(made["t"])[-1] == np.float32(ball.t[-1])
    force = made["arrows"][0]
    vectors = read(force["values"]).reshape(-1, 3) * force["of"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1).max(), force["max"], rtol=1e-3)


def test_nothing_outside_is_named_and_words_cannot_break_out(ball):
    page = view(ball, ball, names=["</script><b>one", "{{data}}"], max_frames=50)
    assert not re.search(r"""\b(src|href)=(?!"data:)""", page.html.split('id="three"')[0])
    header, _ = unpacked(page)
    assert [run["name"] for run in header["runs"]] == ["</script><b>one", "{{data}}"]
    assert "<b>one" not in page.html
    assert "iframe" in page._repr_html_()
    assert 'srcdoc="&lt;!DOCTYPE' in page._repr_html_()
    assert "The MIT License" in page.html


def test_runs_that_stopped_went_backwards_or_are_one_node(ball):
    stopped = replace(ball.first(5), status=gn.integrators.Result.NEWTON)
    header, _ = unpacked(stopped.view())
    assert header["runs"][0]["warning"].startswith("stopped at t = 0.016 s: ")
    back = gn.solve(ball.system, xi0=ball.xi[0], g0=tuple(part[0] for part in ball.g), dt=-0.004, n_steps=20)
    header, read = unpacked(back.view())
    assert np.all(np.diff(read(header["runs"][0]["t"])) > 0)
    assert header["runs"][0]["t0"] == back.t[-1]
    assert unpacked(ball.first(1).view())[0]["runs"][0]["t"]["n"] == 1


def test_a_page_says_what_it_may_do_and_its_script_is_what_it_says(ball):
    html = view(ball).html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy


@pytest.mark.slow
def test_a_page_that_cannot_be_written_leaves_the_one_before(ball, tmp_path):
    page, path = view(ball), tmp_path / "a.html"
    path.write_text("before")
    code = (
        "import resource, sys, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from geonh.viewer import Page\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: Page('x' * 100_000).save(sys.argv[1])\n"
        "except OSError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 7
    assert path.read_text() == "before"
    left = tmp_path / ".a.html.12345678.part"
    left.mkdir()
    (left / "lock").touch()
    page.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert path.read_text(encoding="utf-8") == page.html


def test_wrong_words(ball, tmp_path):
    with pytest.raises(ValueError, match="at least one"):
        view()
    with pytest.raises(ValueError, match="one entry for each of the 1 runs"):
        view(ball, names=["a", "b"])
    with pytest.raises(ValueError, match="max_frames"):
        view(ball, max_frames=1)
    with pytest.raises(ValueError, match=r"must end in \.html"):
        view(ball, path=tmp_path / "x.mp4", max_frames=5)


@pytest.mark.slow
def test_on_the_command_line(tmp_path, ball):
    from typer.testing import CliRunner

    from geonh.cli import app

    path = ball.first(20).save(tmp_path / "ball.nc")
    call = CliRunner().invoke
    done = call(app, ["view", str(path), str(path), "--side-by-side"])
    assert done.exit_code == 0, done.output
    assert len(unpacked(gn.viewer.Page((tmp_path / "ball.html").read_text()))[0]["runs"]) == 2
    own = gn.solve(gn.System(SE2(), metric=np.eye(3), base="point", name="own"), xi0=[1.0, 0.5, 0.0], dt=0.1, n_steps=3)
    path = own.save(tmp_path / "own.nc")
    assert call(app, ["view", str(path)]).exit_code == 2
    (tmp_path / "own.py").write_text(
        'import geonh as gn\nown = gn.System(gn.groups.SE2(), metric=[1.0, 1.0, 1.0], base="point", name="own")\n'
    )
    word = f"{tmp_path / 'own.py'}:own"
    done = call(app, ["view", str(path), "--system", word, "--out", str(tmp_path / "o.html")])
    assert done.exit_code == 0, done.output
    assert call(app, ["view", str(path), "--system", word, "--out", str(tmp_path / "o.png")]).exit_code == 2

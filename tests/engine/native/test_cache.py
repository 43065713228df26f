"""Machine code on disk: same bits, and nothing taken that was not written so."""

import hashlib
import os
import stat
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from native_support import needs_compiler, random

from geonh.engine import native
from geonh.engine.native import cache, machine

pytestmark = needs_compiler
X = random(0, 5, 3)


def program(c=0.37):
    return native.Map(lambda p, x: jnp.sin(x) @ jnp.exp(c * x) + jnp.sum(x), (), np.ones(3))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty cache, on disk and in memory."""
    monkeypatch.setenv("GEONH_CACHE", str(tmp_path / "code"))
    machine.forget()
    yield tmp_path / "code"
    machine.forget()


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(module, *_):
        raise AssertionError("compiled")

    return lambda: monkeypatch.setattr(machine, "_optimise", refuse)


def test_same_bits_without_compiling(place, no_compiler):
    first = program().run((), X)
    assert {path.suffix for path in place.iterdir()} == {".code", ""}
    machine.forget()
    no_compiler()
    np.testing.assert_array_equal(program().run((), X), first)
    with pytest.raises(AssertionError, match="compiled"):
        program(0.38)


@pytest.mark.parametrize("spoil", ["bit", "cut", "empty", "other"])
def test_what_is_damaged_is_compiled_again(place, spoil):
    first = program().run((), X)
    (path,) = place.glob("*.code")
    good = path.read_bytes()
    if spoil == "other":  # the code of another program under this one's name
        program(0.38)
        (other,) = (p for p in place.glob("*.code") if p != path)
        bad = other.read_bytes()
    else:
        bad = {"bit": good[:-9] + bytes([good[-9] ^ 4]) + good[-8:], "cut": good[: len(good) // 2], "empty": b""}[spoil]
    path.write_bytes(bad)
    machine.forget()
    np.testing.assert_array_equal(program().run((), X), first)
    assert path.read_bytes() == good


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _sparse(path):
    os.truncate(path, 50 * 2**30)


def _linked(path):
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def _unkeyed(path):
    """The digest that anybody can compute."""
    content = path.read_bytes()
    path.write_bytes(content[:8] + hashlib.sha256(path.stem.encode() + b"\n" + content[40:]).digest() + content[40:])


FOREIGN = {
    "writable": lambda path: path.chmod(0o666),
    "pipe": _pipe,
    "sparse": _sparse,
    "link": _linked,
    "unkeyed": _unkeyed,
    "another key": lambda path: (path.parent / "key").write_bytes(bytes(32)),
    "short key": lambda path: (path.parent / "key").write_bytes(b"0"),
    "known key": lambda path: (path.parent / "key").chmod(0o666),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
@pytest.mark.parametrize("how", FOREIGN)
def test_what_others_could_have_written_is_not_read_and_is_replaced(place, how):
    cache.write("a", b"code")
    assert cache.read("a") == b"code"
    FOREIGN[how](place / "a.code")
    began = time.perf_counter()
    assert cache.read("a") is None
    assert time.perf_counter() - began < 1.0
    cache.write("a", b"code")
    assert cache.read("a") == b"code"
    for path in place.iterdir():
        result = path.lstat()
        assert stat.S_ISREG(result.st_mode)
        assert stat.S_IMODE(result.st_mode) == 0o600
        assert result.st_size < 100


@pytest.mark.parametrize("body", [b"", b"rubbish" * 50, bytes(5000), b"\x7fELF" + bytes(60)])
def test_what_is_sealed_and_no_object_file_is_compiled_again(place, body):
    first = program().run((), X)
    for path in place.glob("*.code"):
        path.write_bytes(cache._MAGIC + cache._digest(place, path.stem, body) + body)
    machine.forget()
    np.testing.assert_array_equal(program().run((), X), first)


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_not_read(place):
    cache.write("a", b"code")
    os.chown(place / "a.code", 65534, 65534)
    assert cache.read("a") is None


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_a_folder_that_is_closed_is_read_all_the_same(place):
    cache.write("a", b"code")
    place.chmod(0o500)
    assert cache.read("a") == b"code"
    place.chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_folder_is_of_its_owner_alone(place):
    program()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in place.iterdir())
    place.chmod(0o770)
    assert cache.folder() is None
    place.chmod(0o700)
    link = place.parent / "link"
    link.symlink_to(place)
    os.environ["GEONH_CACHE"] = str(link)
    assert cache.folder() is None


@pytest.mark.skipif(sys.platform == "win32", reason="no such owners")
def test_folder_of_another_user(place, monkeypatch):
    assert cache.folder() == place
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.folder() is None


def test_off(place, monkeypatch):
    monkeypatch.setenv("GEONH_CACHE", "off")
    program()
    assert not place.exists()


def test_folder_that_cannot_be(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GEONH_CACHE", str(tmp_path / "file" / "code"))
    machine.forget()
    program(0.39).run((), X)


def test_size_is_bounded(place, monkeypatch):
    monkeypatch.setattr(cache, "LARGEST", 2500)
    monkeypatch.setattr(cache, "SHRINK_EVERY", 1)
    for i in range(6):
        cache.write(str(i), bytes(1000))
    assert {path.stem for path in place.glob("*.code")} <= {"4", "5"}
    assert cache.read("5") == bytes(1000)


def test_what_a_killed_process_leaves_goes_and_what_is_being_written_stays(place, monkeypatch):
    monkeypatch.setattr(cache, "SHRINK_EVERY", 1)
    cache.write("0", bytes(10))
    for name, age in (("old.tmp", 2 * cache.ABANDONED_SECONDS), ("new.tmp", 0.0)):
        (place / name).write_bytes(bytes(10))
        os.utime(place / name, (time.time() - age,) * 2)
    cache.write("1", bytes(10))
    assert {path.name for path in place.iterdir()} == {"0.code", "1.code", "new.tmp", "key"}


@pytest.mark.slow
def test_two_processes(place):
    code = (
        "import numpy as np, jax.numpy as jnp\n"
        "from geonh.engine.native import Map\n"
        "for c in range(8):\n"
        "    f = Map(lambda p, x: jnp.sin(x) * (c + 0.5), (), np.float64(0))\n"
        "    assert np.array_equal(f.run((), np.ones(2)), np.full(2, f.run((), np.ones(1))[0]))\n"
        "    print(f.run((), np.ones(1))[0].hex())\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    texts = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert texts[0] == texts[1] != b""
    assert len(list(place.glob("*.code"))) == 8

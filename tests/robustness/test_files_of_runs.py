"""Files: what is wrong or damaged is said, as one kind of error, and nothing else happens."""

import json
import os
import random
import re
import stat

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.cli.report import show_file
from geonh.mechanics import FirstIntegral
from geonh.results import formats, netcdf
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LONG = settings(QUICK, max_examples=5000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    run = gn.solve(chaplygin_sleigh(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=20)
    return run.save(tmp_path_factory.mktemp("good") / "run.nc")


def refused(path):
    """Whether a file is refused as it should be, and what is said."""
    with pytest.raises(gn.FileError) as warned:
        gn.Trajectory.load(path)
    assert isinstance(warned.value, ValueError)
    assert path.name in str(warned.value)
    return str(warned.value)


# --- a full disk ---------------------------------------------------------------------------------------------


@pytest.fixture
def full():
    """A limit of 2048 bytes for each file, as on a disk that becomes full."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def written(function, path):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
        try:
            function(path)
        except OSError as error:
            return error
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        raise AssertionError

    return written


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed on Linux")
def test_a_full_disk_is_said_with_the_name_of_the_file_and_nothing_stays(path, full, tmp_path):
    """Also no deleted file that the NetCDF library holds open, which would keep its space."""
    run = gn.Trajectory.load(path)
    writers = {"a.csv": run.to_csv, "a.html": lambda to: gn.viewer.view(run, path=to), "a.nc": run.save}
    for name, write in writers.items():
        error = full(write, tmp_path / name)
        assert str(tmp_path / name) in str(error)
        assert list(tmp_path.iterdir()) == []
    held = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    sizes = [os.stat(file).st_size for file in held if os.path.lexists(file) and ".part/" in os.readlink(file)]
    assert sum(sizes) == 0
    with pytest.raises(OSError, match=f"No such file.*{tmp_path}/missing/a.html"):
        gn.viewer.view(run, path=tmp_path / "missing" / "a.html")


# --- damaged -------------------------------------------------------------------------------------------------


def flip(path, tmp_path, place, bit):
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    damaged = tmp_path / "damaged.nc"
    damaged.write_bytes(content)
    refused(damaged)


@QUICK
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(path, tmp_path, place, bit):
    flip(path, tmp_path, place, bit)


@pytest.mark.slow
@LONG
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(path, tmp_path, place, bit):
    flip(path, tmp_path, place, bit)


@QUICK
@given(kept=st.floats(0, 1, exclude_max=True), more=st.binary(max_size=200))
def test_a_file_cut_short_or_with_other_bytes_after_it_is_refused(path, tmp_path, kept, more):
    content, damaged = path.read_bytes(), tmp_path / "damaged.nc"
    other = content[: int(kept * len(content))] + more
    assume(other != content)  # as where the last byte is cut off and comes back
    damaged.write_bytes(other)
    refused(damaged)


def test_a_file_cut_short_says_so(path, tmp_path):
    for part in (0.1, 0.5, 0.9):
        (tmp_path / "cut.nc").write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
        assert "is cut short: of its" in refused(tmp_path / "cut.nc")
    (tmp_path / "cut.nc").write_bytes(path.read_bytes()[:-1])
    assert "its digest is missing" in refused(tmp_path / "cut.nc")


@QUICK
@given(content=st.binary(max_size=300), head=st.sampled_from([b"", b"CDF\x01", b"CDF\x05", b"\x89HDF\r\n\x1a\n"]))
def test_any_bytes_are_refused(tmp_path, content, head):
    (tmp_path / "any.nc").write_bytes(head + content)
    refused(tmp_path / "any.nc")


# --- of others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT"])
def test_the_file_of_another_program_is_said_to_be_one(tmp_path, form):
    xr.Dataset({"x": ("t", np.zeros(2))}).to_netcdf(tmp_path / "other.nc", format=form)
    assert "another program's NetCDF file" in refused(tmp_path / "other.nc")


def test_what_is_no_netcdf_at_all(tmp_path):
    (tmp_path / "a.nc").write_text("t,x\n0,1\n")
    assert "is no NetCDF file" in refused(tmp_path / "a.nc")
    (tmp_path / "b.nc").write_bytes(b"")
    assert "is empty" in refused(tmp_path / "b.nc")
    (tmp_path / "c.nc").mkdir()
    assert "is not a file; a store is read by geonh.open_store" in refused(tmp_path / "c.nc")
    os.mkfifo(tmp_path / "d.nc")
    assert "is not a file" in refused(tmp_path / "d.nc")
    with pytest.raises(FileNotFoundError):
        gn.Trajectory.load(tmp_path / "missing.nc")


@pytest.mark.parametrize("address", ["http://host/run.nc", "https://host/run.nc", "s3://bucket/run.nc", "file:///a.nc"])
def test_no_network_address_is_opened(address, monkeypatch):
    monkeypatch.setattr(netCDF4, "Dataset", None)
    with pytest.raises(gn.FileError, match="network address; geonh opens files on this machine only"):
        gn.Trajectory.load(address)
    with pytest.raises(gn.FileError, match="network address"):
        gn.resume(address, 5)


# --- crafted: sealed as ours, with other contents ------------------------------------------------------------


def crafted(path, tmp_path, change):
    """A file with its digest right, of which something is not as it should be."""
    with xr.open_dataset(path, decode_times=False) as opened:
        data = opened.load()
    data = change(data)
    netcdf.write(data, tmp_path / "crafted.nc")
    return tmp_path / "crafted.nc"


def with_attributes(**changes):
    return lambda data: data.assign_attrs(changes)


def without(name):
    return lambda data: data.drop_vars(name)


def with_values(name, change):
    def apply(data):
        data[name] = change(data[name])
        return data

    return apply


CRAFTED = {
    "newer": (with_attributes(format=99), "was written by geonh .* in format 99; .* update geonh"),
    "no format": (lambda d: d.drop_attrs(deep=False), "another program's NetCDF file"),
    "status": (with_attributes(status="FINE"), "its status 'FINE' is unknown"),
    "dt of text": (with_attributes(dt="0.01"), "its attribute dt is '0.01'"),
    "dt zero": (with_attributes(dt=0.0), "dt, t0, save_every"),
    "save_every": (with_attributes(save_every=0), "dt, t0, save_every"),
    "parameters": (with_attributes(parameters="{"), "its parameters are unreadable"),
    "parameters that are none": (with_attributes(parameters="[1]"), r"parameters is \[1\]"),
    "changes that are none": (with_attributes(changes='[{"step": 1}]'), r"changes\[0\]: t is missing"),
    "units that are none": (with_attributes(units='{"x": 1}'), "units.x is 1"),
    "deep parameters": (with_attributes(parameters="[" * 10**5), "its parameters are unreadable"),
    "shapes": (with_attributes(point_shapes="[[4]]"), "point_shapes .* are not those of 3 coordinates"),
    "huge shapes": (with_attributes(point_shapes="[[99999999999]]"), "point_shapes"),
    "no g": (without("g"), "it has no g"),
    "no xi": (without("xi"), "xi is missing"),
    "text for numbers": (with_values("p_plus", lambda v: v.astype(str)), "p_plus is of type"),
    "single precision": (with_values("g", lambda v: v.astype("f4")), "g is of type float32"),
    "a shape": (
        lambda d: d.drop_vars("energy").assign(energy=(("time", "two"), np.zeros((21, 2)))),
        "energy is missing or of another shape",
    ),
    "not finite": (with_values("g", lambda v: v * np.nan), "not finite"),
    "backwards": (lambda d: d.assign(step=("time", d.step.values[::-1].copy())), "not one after another"),
    "state": (with_values("state_k", lambda v: v * 0), "the state to go on from is not one"),
    "state shape": (lambda d: d.drop_vars("state_g").assign(state_g=("w", np.zeros(7))), "the state to go on from"),
    "residual": (
        lambda d: d.drop_vars("constraint_residual").assign(constraint_residual=(("time", "w"), np.zeros((21, 3)))),
        "multipliers, impulse_multipliers, constraint_residual are of different shapes",
    ),
    "known": (with_values("known_nodes", lambda v: v + 10**6), "at nodes that it has not"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused_in_words(path, tmp_path, name):
    change, words = CRAFTED[name]
    with pytest.raises(gn.FileError, match=words):
        gn.Trajectory.load(crafted(path, tmp_path, change))


def seal(path):
    """Put a digest at the end, as ``netcdf.write`` does."""
    import hashlib

    content = path.read_bytes()
    path.write_bytes(content + netcdf._SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n")


def test_a_variable_larger_than_its_file_is_not_read(path, tmp_path):
    """Sparse: it says 80 TB, of which nothing is on the disk."""
    with xr.open_dataset(path, decode_times=False) as opened:
        opened.load().drop_vars("g").to_netcdf(tmp_path / "bomb.nc", encoding={})
    with netCDF4.Dataset(tmp_path / "bomb.nc", "a") as data:
        data.createDimension("wide", 10**13 // 21)
        data.createVariable("g", "f8", ("time", "wide"), chunksizes=(1, 10), zlib=True)
    seal(tmp_path / "bomb.nc")
    assert "g says that it is larger than the file" in refused(tmp_path / "bomb.nc")


def test_a_variable_that_is_not_known_is_left_alone(path, tmp_path):
    def add(data):
        data["note"] = ("words", np.array(["a", "b"], dtype=object))
        data["other"] = ("wide", np.zeros(5, np.float32))
        return data

    back = gn.Trajectory.load(crafted(path, tmp_path, add))
    np.testing.assert_array_equal(back.g_vector, gn.Trajectory.load(path).g_vector)
    assert "note" not in back.observables


@pytest.mark.slow
@settings(QUICK, max_examples=300)
@given(data=st.data())
def test_whatever_is_changed_in_a_file_it_is_read_or_refused(path, tmp_path, data):
    """Attributes and variables exchanged for others: a FileError, or a trajectory of finite nodes."""
    names = data.draw(st.sampled_from(["attribute", "drop", "shape", "kind"]))

    def change(content):
        if names == "attribute":
            values = st.one_of(st.integers(-5, 2**40), st.floats(), st.text("abc[]{}0", max_size=5))
            return content.assign_attrs({data.draw(st.sampled_from(sorted(content.attrs))): data.draw(values)})
        name = data.draw(st.sampled_from(sorted(map(str, content.data_vars))))
        if names == "drop":
            return content.drop_vars(name)
        values = content[name].values
        values = values[..., None] if names == "shape" else values.astype(data.draw(st.sampled_from(["f4", "i4", str])))
        return content.drop_vars(name).assign({name: (tuple(f"{name}_{i}" for i in range(values.ndim)), values)})

    try:
        back = gn.Trajectory.load(crafted(path, tmp_path, change))
        sleigh, method = chaplygin_sleigh(), gn.SymmetricProjection()
        gn.resume(back, 3, system=sleigh, method=method, allow_changes=True, throw=False)
        repr(back)
    except ValueError:
        return
    assert np.all(np.isfinite(back.g_vector))


BAD = ["[]", "[1]", "5", "null", '"x"', "{}", "{", "", "x", -1, 0, 3, 10**9, 1.5, np.nan, [1, 2]]


def edits(data):
    """All attributes and variables of a file, each exchanged for what it should not be."""
    for name in data.attrs:
        yield from ((f"{name} = {bad!r}", with_attributes(**{name: bad})) for bad in BAD)
    for name in map(str, data.variables):
        yield f"without {name}", without(name)
        numbers = data[name].dtype.kind in "fi"
        for kind in ("f4", "i4", "i8", ">f8", str) if numbers else ():
            yield f"{name} as {kind}", with_values(name, lambda v, kind=kind: v.astype(kind))


@pytest.mark.parametrize("value", ["[1]", "5", "null", '"x"'])
def test_parameters_that_are_no_mapping_are_refused(path, tmp_path, value):
    with pytest.raises(gn.FileError, match="parameters"):
        gn.Trajectory.load(crafted(path, tmp_path, with_attributes(parameters=value)))


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_whatever_is_edited_a_file_is_refused_or_reads_the_same(path, tmp_path, count):
    """Some edits of all, the same each time; or all of them."""
    good, refusals = gn.Trajectory.load(path), 0
    with xr.open_dataset(path, decode_times=False) as opened:
        cases = list(edits(opened.load()))
    cases = random.Random(1).sample(cases, count or len(cases))
    for warned, change in cases:
        try:
            result = gn.Trajectory.load(crafted(path, tmp_path, change))
            repr(result)
            show_file(result, path)
        except gn.FileError:
            refusals += 1
            continue
        for name in ("g_vector", "p_plus", "p_minus", "xi", "energy", "constraint_residual", "k"):
            np.testing.assert_array_equal(getattr(result, name), getattr(good, name), err_msg=f"{warned}: {name}")
    assert refusals > len(cases) // 3


# --- writing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "way"), [*formats.OTHERWISE.items(), (".unknown", "run.to_csv(...)")])
def test_a_suffix_of_another_format_is_refused_with_the_way(path, tmp_path, suffix, way):
    run = gn.Trajectory.load(path)
    with pytest.raises(gn.FileError, match=rf"saves {re.escape(formats.NAMES)}, not \{suffix}.*{re.escape(way)}"):
        run.save(tmp_path / f"run{suffix}")
    assert not os.listdir(tmp_path)


def test_a_link_is_not_followed_and_nothing_else_is_touched(path, tmp_path):
    other = tmp_path / "precious"
    other.write_text("mine")
    for name in ("run.nc", "run.nc.part", ".run.nc.part"):
        (tmp_path / name).symlink_to(other)
    gn.Trajectory.load(path).save(tmp_path / "run.nc")
    assert other.read_text() == "mine"
    assert not (tmp_path / "run.nc").is_symlink()
    assert sorted(os.listdir(tmp_path)) == [".run.nc.part", "precious", "run.nc", "run.nc.part"]
    assert stat.S_IMODE((tmp_path / "run.nc").stat().st_mode) == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_device_is_not_replaced(path):
    for device in ("/dev/null", "/dev/full"):
        with pytest.raises(OSError, match="cannot be written: a device has that name"):
            gn.Trajectory.load(path).save(device)
        assert stat.S_ISCHR(os.stat(device).st_mode)


def test_saved_again_without_its_system_a_file_is_the_same(path, tmp_path):
    again = gn.Trajectory.load(gn.Trajectory.load(path).save(tmp_path / "again.nc"))
    run = gn.resume(again, 10, system=chaplygin_sleigh(), method=gn.Gauss(2))
    assert len(run) == 31


NAMES = ["a/b", "100 %", "tail ", "é", "e\u0301", "\u039b\u2080", "tab\there", "x" * 70, "energy", "xi"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.quick("xi")
def test_integrals_of_any_name_and_shape_are_saved(tmp_path, name):
    integrals = {
        name: FirstIntegral(lambda g, xi, p, parameters: xi[0]),
        f"{name[:60]} as a matrix": FirstIntegral(lambda g, xi, p, parameters: np.ones((2, 3)) * xi[0]),
    }
    system = gn.System(gn.groups.SO3(), metric=np.ones(3), base="point", first_integrals=integrals)
    run = gn.solve(system, xi0=[1.0, 0.0, 0.0], dt=0.1, n_steps=3)
    back = gn.Trajectory.load(run.save(tmp_path / "run.nc"))
    assert back.integrals.keys() == run.integrals.keys()
    for label, values in run.integrals.items():
        np.testing.assert_array_equal(back.integrals[label], values)
    assert run.to_pandas().shape[0] == 4


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda g, xi, p, parameters: xi[0] + 1j, "first integral 'odd' returned complex numbers"),
        (lambda g, xi, p, parameters: xi["a"], "first integral 'odd' could not be evaluated"),
    ],
)
def test_an_integral_that_cannot_be_saved_is_refused_when_the_system_is_made(function, words):
    for name, of, said in (("odd", function, words), ("odd" * 30, lambda g, xi, p, parameters: xi[0], "80 bytes")):
        with pytest.raises((TypeError, ValueError), match=said):
            gn.System(gn.groups.SO3(), metric=np.ones(3), base="point", first_integrals={name: FirstIntegral(of)})


def test_parameters_of_any_kind_are_saved_and_compared(tmp_path):
    from typing import NamedTuple

    class Pair(NamedTuple):
        a: float
        b: float

    def system(last):
        parameters = {"a b": {1: 2.0}, "list": [1.0, {"x": 3.0}], "pair": Pair(1.0, last), "many": np.arange(20_000.0)}
        return gn.System(gn.groups.SO3(), metric=np.ones(3), base="point", parameters=parameters)

    run = gn.solve(system(2.0), xi0=[1.0, 0.0, 0.0], dt=0.1, n_steps=3)
    path = run.save(tmp_path / "run.nc")
    assert json.dumps(gn.Trajectory.load(path).attributes["parameters"]) == json.dumps(run.attributes["parameters"])
    assert len(gn.resume(path, 3, system=system(2.0), method=run.method)) == 7
    with pytest.raises(ValueError, match="parameters: pair"):
        gn.resume(path, 3, system=system(3.0), method=run.method)

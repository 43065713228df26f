"""Stores whose metadata others wrote, sealed as ours are: each is refused as damaged, or reads to the same numbers."""

import copy
import json
import random
import shutil
import time

import numpy as np
import pytest
from sweeping import sweep, system
from typer.testing import CliRunner

import geonh as gn
from geonh.cli import app
from geonh.ensembles.stores import Store, StoreError
from geonh.ensembles.stores.disk import digest_of, sealed, unsealed

pytest.importorskip("zarr", reason="stores need zarr: pip install 'geonh[scale]'")
GONE = object()
BAD = [GONE, None, True, -1, 0, 1, 3, 10**9, 2**70, 1.5, float("nan"), "", "x", "../x", "big", "float32", [], [0], {}]
OWN = ".geonh/store.json"
RECORD = ".geonh/records/00000000.json"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of members, and one of a run, each with a shard that is missing."""
    folder = tmp_path_factory.mktemp("stores")
    made = sweep(7, 8, observables=["g", "energy"])
    made.run(folder / "ensemble", shard=3, only=(0, 2))
    gn.stream(system(1.0), store=folder / "run", xi0=[0.2, 0.1], dt=0.05, n_steps=6, observables=["g", "energy"])
    return folder


def numbers(path):
    data = gn.open_store(path)
    return {str(name): np.asarray(variable.values) for name, variable in data.variables.items()}


def leaves(value, path=()):
    """Paths of all that is in some JSON: of what holds others too."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from leaves(entry, (*path, key))


def put(value, path, bad):
    for key in path[:-1]:
        value = value[key]
    if bad is not GONE:
        value[path[-1]] = bad
    else:
        del value[path[-1]]


class Forger:
    """Edits a copy of a store: every file that is not as it was gets a digest that is right."""

    def __init__(self, path):
        self.path = path
        self.about = unsealed((path / OWN).read_bytes())
        self.texts = {name: json.loads((path / name).read_text()) for name in self.about["metadata"]}
        self.record = unsealed((path / RECORD).read_bytes())

    def cases(self):
        """What to edit, where, and whether the group's copy of an array's metadata is edited alike."""
        for path in leaves(self.about):
            if path[0] not in ("metadata", "files") or len(path) == 1:
                yield OWN, path, False
        for path in leaves(self.record):
            yield RECORD, path, False
        for name, text in self.texts.items():
            for path in leaves(text):
                yield name, path, False
                if name != "zarr.json":
                    yield name, path, True

    def forge(self, name, path, both, bad):
        about, texts, record = copy.deepcopy((self.about, self.texts, self.record))
        put({OWN: about, RECORD: record, **texts}[name], path, bad)
        if both:
            put(texts["zarr.json"]["consolidated_metadata"]["metadata"][name.removesuffix("/zarr.json")], path, bad)
        (self.path / RECORD).write_bytes(sealed(record))
        for file, text in texts.items():
            (self.path / file).write_text(json.dumps(text))
            if isinstance(about.get("metadata"), dict):
                about["metadata"][file] = digest_of(self.path / file)
        (self.path / OWN).write_bytes(sealed(about))


def judge(forger, good, cases):
    """Number of refusals; what is accepted has the same numbers."""
    refused = 0
    for case in cases:
        forger.forge(*case)
        try:
            result = numbers(forger.path)
        except StoreError:
            refused += 1
            continue
        assert result.keys() == good.keys(), case
        for name, values in good.items():
            np.testing.assert_array_equal(result[name], values, err_msg=f"{case}: {name}")
    return refused


@pytest.mark.filterwarnings("ignore::geonh.ensembles.stores.StoreWarning")
@pytest.mark.parametrize("what", ["ensemble", "run"])
@pytest.mark.parametrize("count", [25, None])
@pytest.mark.quick("25-run")
def test_whatever_is_edited_a_store_is_refused_or_reads_the_same(stores, tmp_path, what, count):
    path = shutil.copytree(stores / what, tmp_path / what)
    good, forger = numbers(path), Forger(path)
    cases = [(*case, bad) for case in forger.cases() for bad in BAD]
    if count is not None:
        cases = random.Random(3).sample(cases, count)
    assert judge(forger, good, cases) > len(cases) // 2


FORGED = {
    "shards": (OWN, ("shards",), False, 10**9, r"store.json: shards is 1000000000"),
    "big": ("energy/zarr.json", ("codecs", 0, "configuration", "endian"), True, "big", "endian is 'big'"),
    "no entries": (OWN, ("shard",), False, 0, "shard is 0"),
    "save_every": (
        OWN,
        ("configuration", "save_every"),
        False,
        4,
        "shard of another store, of another configuration|save_every: 4 there, 2 here",
    ),
    "outside": (OWN, ("files", "../../precious"), False, "", "names that no array or file can have"),
    "fill": ("energy/zarr.json", ("fill_value",), True, 0.0, "what is missing of energy reads as 0.0"),
    "type": ("status/zarr.json", ("data_type",), True, "float64", "what is missing of status reads as 5, not NaN"),
    "members": (OWN, ("configuration", "members"), False, 6, "it has 6 members, and arrays of 7"),
    "no mapping": (OWN, ("configuration",), False, [], r"configuration is \[\]"),
}


@pytest.mark.quick("no entries", "no mapping", "outside", "shards", "big")
@pytest.mark.filterwarnings("ignore::geonh.ensembles.stores.StoreWarning")
@pytest.mark.parametrize("name", FORGED)
def test_what_is_wrong_with_a_forged_store_is_told_at_once(stores, tmp_path, name):
    path = shutil.copytree(stores / "ensemble", tmp_path / "a")
    *edit, words = FORGED[name]
    Forger(path).forge(*edit)
    began = time.perf_counter()
    for act in (gn.open_store, sweep(7, 8, observables=["g", "energy"]).run):
        with pytest.raises(gn.FileError, match=words):
            act(path)
    for command in ("info", "resume"):
        said = CliRunner().invoke(app, [command, str(path)])
        assert isinstance(said.exception, SystemExit)
        assert said.exit_code == 2
    assert time.perf_counter() - began < 20.0


@pytest.mark.filterwarnings("ignore::geonh.ensembles.stores.StoreWarning")
def test_a_folder_that_is_no_group_is_told(stores, tmp_path):
    path = shutil.copytree(stores / "ensemble", tmp_path / "a")
    Forger(path).forge("zarr.json", ("node_type",), False, "x")
    with pytest.raises(StoreError, match="is damaged: its metadata cannot be read"):
        gn.open_store(path)


@pytest.mark.parametrize("events", [None, 5, "x", [1], [[]], [[5]]])
def test_events_of_a_forged_run_are_told(stores, tmp_path, events):
    path = shutil.copytree(stores / "run", tmp_path / "a")
    Forger(path).forge(OWN, ("configuration", "events"), False, events)
    with pytest.raises(StoreError, match=r"configuration.events is"):
        gn.open_store(path)


@pytest.mark.parametrize("words", ["{}", '{"name": 5}', '{"name": "suslov", "vary": 3}', "[]", "5"])
def test_words_of_a_user_that_nobody_said(stores, tmp_path, words):
    path = shutil.copytree(stores / "ensemble", tmp_path / "a")
    Forger(path).forge(OWN, ("note",), False, words)
    said = CliRunner().invoke(app, ["resume", str(path)])
    assert isinstance(said.exception, SystemExit)
    assert said.exit_code == 2
    assert "error:" in said.output


@pytest.mark.filterwarnings("ignore::geonh.ensembles.stores.StoreWarning")
@pytest.mark.parametrize("where", ["energy/c", "energy", ".geonh/records", ".geonh/locks"])
def test_nothing_is_written_through_a_link_that_leads_out_of_a_store(stores, tmp_path, where):
    path, outside = shutil.copytree(stores / "ensemble", tmp_path / "a"), tmp_path / "outside"
    (path / where).rename(outside)
    (path / where).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    with pytest.raises(StoreError, match="leads out of it"):
        sweep(7, 8, observables=["g", "energy"]).run(path)
    assert sorted(outside.rglob("*")) == before


def test_attributes_are_words_and_no_numbers(stores, tmp_path):
    """Such as xarray would decode: of a store that any reader opens, but for geonh's own."""
    path = shutil.copytree(stores / "run", tmp_path / "a")
    good = numbers(path)
    for key, value in (("scale_factor", 2.0), ("add_offset", 0.3), ("units", "days since 2000-01-01")):
        Forger(path).forge("energy/zarr.json", ("attributes", key), True, value)
        np.testing.assert_array_equal(numbers(path)["energy"], good["energy"])


def test_a_store_of_more_shards_than_can_be_is_not_made(tmp_path):
    with pytest.raises(StoreError, match="10,000,001 shards"):
        Store.create(tmp_path / "a", {}, 10**7 + 1, {})
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    near = gn.Event(lambda t, g, xi, lam: g[0] - 0.33, name="near", stop=True)
    options = {"g0": [0.3, 0.15], "xi0": [0.2, 0.1], "dt": 0.05, "n_steps": 100, "save_every": 20, "events": near}
    path = tmp_path_factory.mktemp("ended") / "a.zarr"
    gn.stream(system(1.0), "rk4", store=path, **options)
    return path, options


@pytest.mark.parametrize(
    ("place", "bad"),
    [
        (("state", 1, 2), "|O"),
        (("state", 1, 0), ">f8"),
        (("state", 2, 1), [7]),
        (("state",), []),
        (("last", "g", 2), "x"),
        (("last", "g"), 3),
        (("last", "what"), ["<f8", [], "AAAAAAAA8D8="]),
    ],
)
def test_the_state_of_a_run_that_ended_is_refused_if_it_is_none(ended, tmp_path, place, bad):
    kept, options = ended
    path = shutil.copytree(kept, tmp_path / "a.zarr")
    record = unsealed((path / RECORD).read_bytes())
    put(record, place, bad)
    (path / RECORD).write_bytes(sealed(record))
    with pytest.raises(StoreError, match="is damaged"):
        gn.stream(system(1.0), "rk4", store=path, **options)

"""Every public name with junk in each argument in turn: it works, or geonh says which argument is wrong, and why."""

import contextlib
import os
import re
import traceback
import warnings
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from public_calls import BODY, CALLS, RUN

import geonh as gn

pytestmark = pytest.mark.user_precision

JUNK = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "2.5": 2.5,
    "10**400": 10**400,
    "1e308": 1e308,
    "nan": np.nan,
    "inf": np.inf,
    "1j": 1j,
    "text": "junk",
    "empty text": "",
    "nul": "\0",
    "bytes": b"a",
    "[]": [],
    "[1.0]": [1.0],
    "ragged": [[1.0], [1.0, 2.0]],
    "[None]": [None],
    "['a']": ["a"],
    "{}": {},
    "{'a': 1}": {"a": 1},
    "{1: 2}": {1: 2},
    "set": {1.0},
    "range": range(3),
    "zeros(0)": np.zeros(0),
    "zeros((2, 2, 2))": np.zeros((2, 2, 2)),
    "nans": np.full(3, np.nan),
    "float32": np.ones(3, np.float32),
    "jax float32": jnp.ones(3, jnp.float32),
    "complex": np.ones(3, complex),
    "texts": np.array(["a", "b", "c"]),
    "objects": np.array([object()]),
    "masked": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "dates": np.array([1, 2, 3], "datetime64[s]"),
    "uint64": np.uint64(2**63),
    "function of nothing": lambda: 1,
    "function to None": lambda *a: None,
    "function to text": lambda *a: "a",
    "function that raises": lambda *a: 1 / 0,
    "len": len,
    "class": int,
    "object": object(),
    "exception": ValueError("x"),
    "module": gn,
    "os": os,
    "method": gn.GNI(),
    "class of methods": gn.GNI,
    "system": BODY,
    "trajectory": RUN,
    "group": gn.groups.SO3(),
    "generator": iter([1]),
    "slice": slice(1),
    "...": ...,
}


def named(name):
    made = gn
    for part in name.split("."):
        made = getattr(made, part)
    return made


SAID = {"matrix": "metric", "psi": "on", "function": "support|event", "at": "it|constraint", "forms": "forms?"}
"""What else messages call an argument."""


def names_an_argument(name, text):
    words = [word for key in CALLS[name] for word in (key, SAID.get(key, key))]
    return "*" in CALLS[name] or re.search(rf"\b({'|'.join(words)})\b", text)


def attack(name, argument, junk):
    """What is wrong with the answer of a public name to junk in one argument; "" where nothing is."""
    given = {key: value() if key == "orbit" else value for key, value in CALLS[name].items()}
    given[argument] = junk
    positional = [given.pop("*")] if "*" in given else []
    try:
        precise = gn.float64() if name == "integrate" else contextlib.nullcontext()
        with warnings.catch_warnings(), precise:
            warnings.simplefilter("ignore")
            named(name)(*positional, **given)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        if isinstance(error, OSError):
            return ""
        last = traceback.extract_tb(error.__traceback__)[-1]
        if "/geonh/" not in Path(last.filename).as_posix() or not (last.line or "").startswith(("raise", ")")):
            return f"not ours: {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} {last.line})"
        if isinstance(error, ValueError | TypeError) and not names_an_argument(name, str(error)):
            return f"does not name it: {type(error).__name__}: {error}"
    except Exception as error:
        last = [x for x in traceback.extract_tb(error.__traceback__) if "/geonh/" in x.filename][-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} {last.line})"
    finally:
        plt.close("all")
    return ""


ARGUMENTS = [(name, argument) for name, call in CALLS.items() if call for argument in call]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_junk_in_any_argument_is_refused_by_its_name(name, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = {label: attack(name, argument, junk) for label, junk in JUNK.items()}
    assert not {label: said for label, said in wrong.items() if said}

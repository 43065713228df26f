"""Modules under the paths of version 0.2: found for one release, with a warning; nothing of the library uses them."""

import importlib
import subprocess
import sys

import pytest

import geonh as gn
from geonh import _former_paths


@pytest.mark.parametrize("old", [name for name, places in _former_paths._PATHS.items() if places])
def test_a_former_module_has_the_names_of_the_new_ones(old):
    sys.modules.pop(f"geonh.{old}", None) if old not in ("solve", "integrate") else None
    if old in ("solve", "integrate"):
        module = importlib.import_module(f"geonh.{old}")
    else:
        with pytest.warns(DeprecationWarning, match=rf"geonh\.{old} is now geonh\."):
            module = importlib.import_module(f"geonh.{old}")
    for place in _former_paths._PATHS[old]:
        new = importlib.import_module(f"geonh.{place}")
        names = [name for name in vars(new) if not name.startswith("_")]
        assert all(getattr(module, name) is getattr(new, name) for name in names)


@pytest.mark.parametrize("module", _former_paths._NAMES)
def test_a_name_that_left_a_module_is_the_new_one(module):
    old = importlib.import_module(f"geonh.{module}")
    for name, place in _former_paths._NAMES[module].items():
        with pytest.warns(DeprecationWarning, match=rf"{name} is now geonh\.{place}\.{name}"):
            found = getattr(old, name)
        assert found is getattr(importlib.import_module(f"geonh.{place}"), name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = old.nothing


def test_functions_of_the_package_are_not_hidden_by_former_modules():

    assert gn.solve is importlib.import_module("geonh.runs.solve").solve
    assert callable(gn.integrate)


@pytest.mark.slow
def test_nothing_in_the_library_uses_a_former_path():
    code = (
        "import pkgutil, importlib, geonh\n"
        "for module in pkgutil.walk_packages(geonh.__path__, 'geonh.'):\n"
        "    if '__main__' not in module.name: importlib.import_module(module.name)\n"
        "from geonh import *\n"
    )
    subprocess.run([sys.executable, "-W", "error:geonh:DeprecationWarning", "-c", code], check=True)

"""Names of the package, which are imported when they are read."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import geonh as gn


def test_type_checkers_know_the_names_and_their_modules():
    tree = ast.parse(Path(gn.__file__).read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    found = {alias.name: node.module for node in checked.body for alias in node.names}
    packages = {name for name, module in found.items() if module == "geonh"}
    assert packages == set(gn._PACKAGES)
    assert {k: v for k, v in found.items() if k not in packages} == {k: f"geonh.{v}" for k, v in gn._MODULES.items()}
    assert set(gn.__all__) <= {*found, "__version__"}


def test_all_names_are_there():
    for name in gn.__all__:
        assert getattr(gn, name) is getattr(gn, name)
    assert set(gn.__all__) <= set(dir(gn))
    assert pickle.loads(pickle.dumps(gn.solve)) is gn.solve
    with pytest.raises(AttributeError, match=r"it is geonh\.groups\.SE2"):
        gn.SE2  # noqa: B018


@pytest.mark.parametrize(
    "words",
    ["import geonh", "import geonh, pickle; dir(geonh); geonh.__version__", "import geonh.version, geonh.cli"],
)
def test_importing_the_package_imports_no_jax(words):
    subprocess.run([sys.executable, "-c", f"{words}; import sys; assert 'jax' not in sys.modules"], check=True)


@pytest.mark.parametrize(
    "words",
    [
        "from geonh.mechanics.system import System",
        "import geonh.groups.so3; geonh.solve",
        "from geonh.integrators import *",
        "from geonh import trajectory; trajectory.Trajectory",
        "import geonh.solve; geonh.solve.__call__; from geonh.solve import IntegrationError",
    ],
)
@pytest.mark.quick("import geonh.solve; geonh.solve.__call__; from geonh.solve import IntegrationError")
def test_a_module_may_be_imported_first(words):
    subprocess.run([sys.executable, "-W", "error:geonh:DeprecationWarning", "-c", words], check=True)

"""Import of the modules: without garbage collection, and with NumPy's random numbers as they were."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Context for imports: without garbage collection, a fifth of their time; with NumPy's random numbers as they were,
    of which JAX draws when it is imported.
    """
    numbers: Any = sys.modules.get("numpy")  # not imported yet, it has no seed to keep
    collects, frozen, state = gc.isenabled(), gc.get_freeze_count(), numbers and numbers.random.get_state()
    gc.disable()
    try:
        yield
    finally:
        if numbers:
            numbers.random.set_state(state)
        if collects:
            if not frozen:  # so that the first collection does not look through what stays
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with _undisturbed():
            super().exec_module(module)


class _Modules(MetaPathFinder):
    """Finds the modules of geonh, however they are imported, as the other finders do."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("geonh."):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install() -> None:
    """Let modules of geonh be imported so."""
    if not any(isinstance(finder, _Modules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Modules())

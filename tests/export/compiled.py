"""Exported code in this process: linked by the system's compiler, called through ctypes."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CPP = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None or CPP is None, reason="there is no compiler of C and C++ here")


class Linked:
    """Functions of an object file by their last names: ``linked.start(parameters, …)`` returns the status."""

    def __init__(self, built):
        name = built.folder.name
        shared = built.folder / f"{name}.so"
        link = [COMPILER, "-shared", "-o", str(shared), str(built.folder / f"{name}.o"), "-lm"]
        subprocess.run(link, check=True, capture_output=True)
        self._library, self._name, self.model = ctypes.CDLL(str(shared)), name, built.model

    def __getattr__(self, function):
        called = getattr(self._library, f"{self._name}_{function}")

        def call(*arguments):
            return called(*(ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments))

        return call

    def started(self, **changes):
        """State at the start by default, or with other parameters, inputs, times, point or velocity."""
        state, given = np.zeros(self.model.state_size), self.model.defaults | changes
        assert self.start(*given.values(), state) == 0
        return state

    def observed(self, state, **changes):
        """What is observed, by name."""
        given, values = self.model.defaults | changes, np.zeros(len(self.model.observed))
        assert self.observe(given["parameters"], given["inputs"], state, values) == 0
        return {quantity.name: value for quantity, value in zip(self.model.observed, values, strict=True)}

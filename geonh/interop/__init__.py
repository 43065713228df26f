"""Models that exist elsewhere, brought over: from SymPy (``pip install geonh[sympy]``)."""

from geonh.interop.sympy_models import from_sympy, speeds_of, velocity_of

__all__ = ["from_sympy", "speeds_of", "velocity_of"]

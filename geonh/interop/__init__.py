"""Import of models from other libraries: SymPy (``pip install geonh[sympy]``)."""

from geonh.interop.sympy_models import from_sympy, speeds_of, velocity_of

__all__ = ["from_sympy", "speeds_of", "velocity_of"]

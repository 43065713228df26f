"""The groups of the tests in this folder."""

import numpy as np
from geomstats.geometry.general_linear import GeneralLinear
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

from geonh.groups import SE2, SE3, SO2, SO3, Heisenberg, MatrixGroup, Opposite, Product, Torus, Translations

SL2 = np.array([[[0.0, 1], [0, 0]], [[0, 0], [2, 0]], [[1, 1], [0, -1]]])  # not orthonormal


def special_linear_basis(n: int) -> np.ndarray:
    """Basis of sl(n), shape=[n² − 1, n, n]."""
    unit = np.eye(n)
    off = [np.outer(unit[i], unit[j]) for i in range(n) for j in range(n) if i != j]
    return np.array([*off, *(np.diag(unit[i] - unit[i + 1]) for i in range(n - 1))])


def su2_basis() -> np.ndarray:
    """Basis −iσ/2 of su(2) as real 4×4 matrices."""
    sigma = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    return np.array([np.block([[m.real, -m.imag], [m.imag, m.real]]) for m in -0.5j * sigma])


CLOSED_FORMS = {
    "R2": Translations(2),
    "T3": Torus(3),
    "SO2": SO2(),
    "SO3": SO3(),
    "SE2": SE2(),
    "SE3": SE3(),
    "Heisenberg": Heisenberg(),
}
COMPOSED = {
    "SE2xT2": Product([SE2(), Torus(2)]),
    "R2xSO3": Product([Translations(2), SO3()]),
    "SE2op": Opposite(SE2()),
}
SLOW = {
    "SO3xSE3": Product([SO3(), SE3()]),
    "R2xSO3op": Product([Translations(2), Opposite(SO3())]),
    "(SE2xS1)op": Opposite(Product([SE2(), Torus(1)])),
    "SE3op": Opposite(SE3()),
}
MATRIX = {"SL2": MatrixGroup(SL2, name="SL(2)")}
LARGE_MATRIX = {
    "SU2": MatrixGroup(su2_basis(), name="SU(2)"),
    "SO4": MatrixGroup(SpecialOrthogonal(4)),
    "GL2": MatrixGroup(GeneralLinear(2, positive_det=True)),
    "SL3": MatrixGroup(special_linear_basis(3), name="SL(3)"),
}

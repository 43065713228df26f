"""Matrix groups given by a geomstats group or a basis."""

import jax
import numpy as np
import pytest
import scipy.linalg
from catalogue import LARGE_MATRIX, MATRIX, SL2, special_linear_basis, su2_basis
from geomstats.geometry.general_linear import GeneralLinear
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

from geonh.groups import SE2, SE3, SO2, SO3, Heisenberg, MatrixGroup, Product, Torus, Translations

rng = np.random.default_rng(4)


@pytest.mark.quick("SL(3)")
@pytest.mark.parametrize("group", [*MATRIX.values(), *LARGE_MATRIX.values()], ids=str)
def test_exp_and_log_against_scipy(group):
    xi = 0.7 * rng.normal(size=(20, group.dim))
    X = np.asarray(group.hat(xi))
    exp = np.stack([scipy.linalg.expm(x) for x in X])
    np.testing.assert_allclose(group.exp(xi), exp, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(jax.jit(group.log)(exp), xi, atol=1e-12)
    np.testing.assert_allclose(group.vee(X), xi, atol=1e-14)
    angle = np.abs(np.linalg.eigvals(X).imag).max(-1)
    assert (np.asarray(group.turn(xi)) >= angle * (1 - 1e-12)).all()


@pytest.mark.parametrize(("basis", "expected"), [
    (SL2, True),
    (special_linear_basis(3), False),
    (su2_basis(), True),
    (np.asarray(GeneralLinear(2).lie_algebra.basis), True),
    (np.asarray(SpecialOrthogonal(4).lie_algebra.basis), True),
])  # fmt: skip
def test_cayley_is_found_out(basis, expected):
    group = MatrixGroup(basis)
    assert group.has_cayley is expected
    if not expected:
        with pytest.raises(NotImplementedError, match="the Cayley map leaves"):
            group.cay(np.zeros(group.dim))


def test_rotations_agree_with_the_closed_forms():
    group, closed = MatrixGroup(SpecialOrthogonal(3)), SO3()
    xi = rng.normal(size=(5, 3))
    for name in ("exp", "cay", "dexp", "dexp_inv", "dcay", "dcay_inv", "ad", "turn"):
        np.testing.assert_allclose(getattr(group, name)(xi), getattr(closed, name)(xi), atol=1e-13, err_msg=name)
    assert str(group) == "SO(3)"


def test_heisenberg_by_its_basis():
    """[e₁, e₂] = e₃ with strictly upper triangular matrices."""
    unit = np.eye(3)
    basis = np.array([np.outer(unit[0], unit[1]), np.outer(unit[1], unit[2]), np.outer(unit[0], unit[2])])
    np.testing.assert_allclose(MatrixGroup(basis).structure_constants, Heisenberg().structure_constants, atol=1e-15)


def test_project():
    so4 = LARGE_MATRIX["SO4"]
    g = np.asarray(so4.exp(rng.normal(size=6)))
    noisy = so4.project(g + 1e-5 * rng.normal(size=(4, 4)))
    np.testing.assert_allclose(noisy @ noisy.T, np.eye(4), atol=1e-15)
    sl3 = LARGE_MATRIX["SL3"]
    noisy = sl3.project(sl3.exp(0.3 * rng.normal(size=8)) * 1.01)
    np.testing.assert_allclose(np.linalg.det(noisy), 1.0, rtol=1e-14)


def test_names():
    group = MatrixGroup(SL2, names=("e", "f", "h"), name="SL(2)")
    assert group.velocity_names == ("e", "f", "h")
    assert group.point_names == ("g11", "g12", "g21", "g22")
    assert str(MatrixGroup(GeneralLinear(2, positive_det=True))) == "GL⁺(2)"
    assert str(MatrixGroup(SL2)) == "matrix group of dimension 3 in GL(2)"
    assert MatrixGroup(SpecialOrthogonal(4)) == MatrixGroup(SpecialOrthogonal(4))
    assert MatrixGroup(SpecialOrthogonal(4)) != MatrixGroup(np.asarray(SpecialOrthogonal(4).lie_algebra.basis))


def test_no_geomstats_counterpart():
    with pytest.raises(NotImplementedError, match="no geomstats counterpart"):
        MatrixGroup(SL2).space()


@pytest.mark.parametrize(("basis", "error", "message"), [
    (SL2[:2], ValueError, "not closed under the bracket"),
    (np.concatenate([SL2, SL2[:1]]), ValueError, "linearly dependent"),
    (SL2[0], ValueError, r"of shape \[n, N, N\], got \[2, 2\]"),
    (1j * SL2, TypeError, "complex; write x"),
    ("SL(2)", TypeError, "geomstats matrix Lie group or a basis"),
])  # fmt: skip
def test_bad_input(basis, error, message):
    with pytest.raises(error, match=message):
        MatrixGroup(basis)


def test_bad_names():
    with pytest.raises(ValueError, match="names must have 3 entries"):
        MatrixGroup(SL2, names=("e",))


@pytest.mark.parametrize(
    "group", [SO3(), SE3(), SO2(), SE2(), Torus(2), Translations(3), Heisenberg(), Product((SE2(), SO3()))], ids=str
)
def test_what_is_no_matrix_of_a_group_is_refused(group):
    g = group.exp(0.3 * np.ones(group.dim))
    matrix = np.asarray(group.to_matrix(g))
    np.testing.assert_allclose(group.to_vector(group.from_matrix(matrix)), group.to_vector(g), atol=1e-14)
    for wrong in (np.zeros_like(matrix), matrix + 1.0):
        with pytest.raises(ValueError, match=r"^matrix.* must be"):
            group.from_matrix(wrong)
    with pytest.raises(TypeError, match="must be real numbers, got text"):
        group.from_matrix("abc")
    with pytest.raises(ValueError, match="must have shape"):
        group.from_vector(np.ones(99))

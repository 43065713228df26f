r"""Any real matrix Lie group, through a basis E₁ … E_n of its algebra: ξ̂ = Σ ξ_i E_i and its inverse ^∨.

    Ad_g η = (g η̂ g⁻¹)^∨                 ad from the structure constants ([E_i, E_j])^∨
    exp by scaling and squaring          dexp = φ₁(ad)
    log = 2⁴ · 2 artanh((X − 1)(X + 1)⁻¹) of X = g^(1/16), square roots by Denman & Beavers, artanh by its series
    cay = (1 − ½ξ̂)⁻¹(1 + ½ξ̂)              cay⁻¹ = 2 (g − 1)(g + 1)⁻¹
    dcay η = ((1 − ½ξ̂)⁻¹ η̂ (1 + ½ξ̂)⁻¹)^∨    dcay⁻¹ η = ((1 − ½ξ̂) η̂ (1 + ½ξ̂))^∨

The Cayley map stays in the group for quadratic groups (O(n), Sp(2n), SL(2)) and for algebras closed under products
(GL, triangular matrices), not for SL(3): this is tested on construction.
Higham, Functions of Matrices (SIAM 2008), chapters 6, 10, 11.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.algebra.exponential import exp_and_phi1
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.groups.base import LieGroup
from geonh.groups.coefficients import matmul, safe_sqrt, transpose

_ROOTS = 4
_NEWTON_STEPS = 16
_ARTANH_TERMS = 13

Nested = tuple[tuple[tuple[float, ...], ...], ...]


class _Space:
    """Geomstats space compared by value, so that groups of equal spaces are equal."""

    def __init__(self, space: Any):
        self.space = space
        plain = {k: v for k, v in vars(space).items() if isinstance(v, bool | int | float | str)}
        self.key = (type(space), tuple(sorted(plain.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Space) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class MatrixGroup(LieGroup):
    """Matrix Lie group with a given basis of its algebra. Points are matrices, shape=[..., N, N].

    Parameters
    ----------
    space : geomstats MatrixLieGroup, or array_like, shape=[n, N, N]
        The group, or a basis of its algebra: linearly independent real matrices closed under the bracket. It need not
        be orthonormal. Complex groups are given by real matrices of twice the size.
    names : sequence of str, optional
        Names of the n components of a velocity; ``xi1 … xin`` when left out.
    name : str, optional
        Name of the group.

    Raises
    ------
    TypeError
        If ``space`` is neither, or the basis is complex.
    ValueError
        If the matrices are not a basis of a Lie algebra, or ``names`` is invalid.

    Notes
    -----
    ``log`` is principal, and not defined where g has an eigenvalue on the negative real axis (a half turn); its
    accuracy falls off before that, and for eigenvalues far from the unit circle. ``project`` restores orthogonal groups
    and SL(N); on other groups it does nothing. ``turn`` bounds the imaginary parts of the eigenvalues of ξ̂ from
    above: exact on 3×3 skew matrices, at most 5 % too large on 4×4 ones.
    """

    basis_entries: Nested = eqx.field(static=True)
    wrapped: _Space | None = eqx.field(static=True)
    name: str = eqx.field(static=True)
    orthogonal: bool = eqx.field(static=True)
    unimodular: bool = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    point_names: tuple[str, ...] = eqx.field(static=True)
    velocity_names: tuple[str, ...] = eqx.field(static=True)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    has_cayley: bool = eqx.field(static=True)

    @validated
    def __init__(self, space: Any, names: Sequence[str] | None = None, *, name: str | None = None):
        algebra = getattr(space, "lie_algebra", None)
        is_manifold = hasattr(space, "belongs")
        if is_manifold and (algebra is None or not hasattr(algebra, "basis")):
            raise TypeError(f"{type(space).__name__} has no lie_algebra with a basis; give the basis, shape=[n, N, N]")
        try:
            basis = np.asarray(space if algebra is None else algebra.basis)
        except ValueError as error:
            raise ValueError(f"space is a nested list of unequal lengths: {shortly(space)}") from error
        _check_basis(basis)
        basis = as_float64(space if algebra is None else basis, "space")
        n, N, _ = basis.shape
        self.basis_entries = tuple(tuple(tuple(float(x) for x in row) for row in matrix) for matrix in basis)
        self.wrapped = _Space(space) if is_manifold else None
        self.name = name or (_manifold_name(space) if is_manifold else f"matrix group of dimension {n} in GL({N})")
        self.orthogonal = bool(np.allclose(basis, -np.swapaxes(basis, 1, 2), rtol=0, atol=1e-12))
        self.unimodular = n == N * N - 1 and bool(np.allclose(np.trace(basis, axis1=1, axis2=2), 0, atol=1e-12))
        self.dim = n
        if names is not None and len(names) != n:
            raise ValueError(f"names must have {n} entries, got {shortly(names)}")
        self.velocity_names = tuple(names) if names is not None else tuple(f"xi{i + 1}" for i in range(n))
        separator = "_" if N > 9 else ""
        self.point_names = tuple(f"g{i + 1}{separator}{j + 1}" for i in range(N) for j in range(N))
        self.point_shapes = ((N, N),)
        self.has_cayley = _cayley_stays(basis, _dual(self.basis_entries))

    def __str__(self) -> str:
        return self.name

    # --- algebra -------------------------------------------------------------------------------------------
    @property
    def basis(self) -> np.ndarray:
        """Basis of the algebra, shape=[n, N, N]."""
        return _basis(self.basis_entries)

    def hat(self, xi: Array) -> Array:
        """ξ̂ = Σ ξ_i E_i, shape=[..., N, N], of ``xi``, shape=[..., n]."""
        return jnp.sum(xi[..., :, None, None] * self.basis, axis=-3)

    def vee(self, matrix: Array) -> Array:
        """Components, shape=[..., n], of a matrix, shape=[..., N, N]; of its projection if it is not in the algebra."""
        return jnp.sum(matrix[..., None, :, :] * _dual(self.basis_entries), axis=(-2, -1))

    @property
    def structure_constants(self) -> np.ndarray:
        return _structure(self.basis_entries)

    def _columns(self, left: Array, right: Array) -> Array:
        """Matrix of η ↦ (left η̂ right)^∨, shape=[..., n, n]."""
        images = matmul(matmul(left[..., None, :, :], jnp.asarray(self.basis)), right[..., None, :, :])
        return transpose(self.vee(images))

    def _half(self, xi: Array, sign: float) -> Array:
        return jnp.eye(self.point_shapes[0][0]) + (0.5 * sign) * self.hat(xi)

    # --- the group -----------------------------------------------------------------------------------------
    def identity(self) -> Any:
        return np.eye(self.point_shapes[0][0])

    def compose(self, g: Array, h: Array) -> Array:
        return matmul(g, h)

    def inverse(self, g: Array) -> Array:
        return transpose(g) if self.orthogonal else jnp.linalg.inv(g)

    def exp(self, xi: Array) -> Array:
        return exp_and_phi1(self.hat(xi))[0]

    def log(self, g: Array) -> Array:
        return self.vee(_logm(g))

    def cay(self, xi: Array) -> Array:
        self._require_cayley()
        return jnp.linalg.solve(self._half(xi, -1.0), self._half(xi, 1.0))

    def cay_inv(self, g: Array) -> Array:
        self._require_cayley()
        one = jnp.eye(g.shape[-1])
        return self.vee(2.0 * jnp.linalg.solve(g + one, g - one))

    def dcay(self, xi: Array) -> Array:
        self._require_cayley()
        return self._columns(jnp.linalg.inv(self._half(xi, -1.0)), jnp.linalg.inv(self._half(xi, 1.0)))

    def dcay_inv(self, xi: Array) -> Array:
        self._require_cayley()
        return self._columns(self._half(xi, -1.0), self._half(xi, 1.0))

    def _require_cayley(self) -> None:
        if not self.has_cayley:
            raise NotImplementedError(f"the Cayley map leaves {self}; use the exponential retraction")

    def Ad(self, g: Array) -> Array:
        return self._columns(g, self.inverse(g))

    def left_tangent(self, g: Array, xi: Array) -> Array:
        return matmul(g, self.hat(xi))

    def project(self, g: Array) -> Array:
        if self.orthogonal:
            g = g * jnp.where(jnp.linalg.det(g) > 0.0, 1.0, jnp.nan)[..., None, None]
            for _ in range(2):
                g = 0.5 * (g + transpose(jnp.linalg.inv(g)))
        elif self.unimodular:
            g = g / (jnp.linalg.det(g) ** (1.0 / g.shape[-1]))[..., None, None]
        return g

    def gap(self, g: Array) -> Array:
        """Violation by g of the invariants of the group, scalar, relative to the entries of g where these are large.

        exp(ξ̂) lies in the span of the products of the E_i, keeps each B with EᵀB + BE = 0, gᵀBg = B, and each C with
        EC + CEᵀ = 0, gCgᵀ = C; its determinant is one if all E_i are traceless, and never zero.
        """
        size = 1.0 + jnp.max(jnp.abs(g))
        outside, preserved, preserved_by_transpose = map(jnp.asarray, _preserved(self.basis_entries))
        moved = matmul(transpose(g), matmul(preserved, g)), matmul(g, matmul(preserved_by_transpose, transpose(g)))
        distances = [jnp.abs(outside @ g.reshape(-1)) / size]
        distances += [
            jnp.abs(a - b).reshape(-1) / size**2
            for a, b in zip(moved, (preserved, preserved_by_transpose), strict=True)
        ]
        det = jnp.linalg.det(g)
        if np.abs(np.trace(self.basis, axis1=1, axis2=2)).max() < 1e-12:
            distances.append(jnp.abs(det - 1.0)[None] / size ** g.shape[-1])
        gap = jnp.maximum(super().gap(g), jnp.max(jnp.concatenate(distances), initial=0.0))
        return jnp.where(jnp.abs(det) > 0.0, gap, jnp.nan)

    def turn(self, xi: Array) -> Array:
        skew = self.hat(xi)
        skew = 0.5 * (skew - transpose(skew))
        square = jnp.sum(skew * skew, axis=(-2, -1))
        scale = safe_sqrt(square)
        unit = skew / jnp.where(scale > 0.0, scale, 1.0)[..., None, None]
        power = matmul(unit, transpose(unit))
        for _ in range(3):
            power = matmul(power, power)
        trace = jnp.trace(power, axis1=-2, axis2=-1)
        return scale * (0.5 * jnp.where(scale > 0.0, trace, 1.0)) ** (1.0 / 16.0)

    def to_matrix(self, g: Array) -> Array:
        return g

    def from_matrix(self, matrix: Array) -> Array:
        return matrix

    # --- geomstats -----------------------------------------------------------------------------------------
    def space(self) -> Any:
        if self.wrapped is None:
            raise NotImplementedError(f"{self} was given by a basis and has no geomstats counterpart")
        return self.wrapped.space


# --- precomputed from the basis ------------------------------------------------------------------------------
@functools.lru_cache(maxsize=64)
def _basis(entries: Nested) -> np.ndarray:
    return np.array(entries)


@functools.lru_cache(maxsize=64)
def _dual(entries: Nested) -> np.ndarray:
    """Matrices F_i with Σ F_i ∘ E_j = δ_ij, shape=[n, N, N]."""
    basis = np.array(entries)
    return np.linalg.pinv(basis.reshape(len(basis), -1)).T.reshape(basis.shape)


@functools.lru_cache(maxsize=64)
def _structure(entries: Nested) -> np.ndarray:
    products = np.einsum("iab,jbc->ijac", np.array(entries), np.array(entries))
    return np.einsum("kac,ijac->kij", _dual(entries), products - np.swapaxes(products, 0, 1))


@functools.lru_cache(maxsize=64)
def _preserved(entries: Nested) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Complement of the span of all products of the E_i, shape=[·, N²]; the forms preserved by g and gᵀ, [·, N, N]."""
    basis = np.array(entries)
    n, N, _ = basis.shape
    span = np.eye(N).reshape(1, -1)
    while True:
        products = np.einsum("iab,jbc->ijac", basis, span.reshape(-1, N, N)).reshape(-1, N * N)
        wider = scipy.linalg.orth(np.concatenate([span, products / np.abs(products).max()]).T, rcond=1e-10).T
        if len(wider) == len(span):
            break
        span = wider
    one = np.eye(N)

    def forms(E: np.ndarray) -> np.ndarray:
        """Null space of B ↦ EᵀB + BE for all E."""
        maps = np.einsum("iba,cd->iacbd", E, one) + np.einsum("idc,ab->iacbd", E, one)
        return scipy.linalg.null_space(maps.reshape(n * N * N, N * N), rcond=1e-10).T.reshape(-1, N, N)

    return scipy.linalg.null_space(span, rcond=1e-10).T, forms(basis), forms(np.swapaxes(basis, 1, 2))


def _check_basis(basis: np.ndarray) -> None:
    if np.iscomplexobj(basis):
        raise TypeError("the basis is complex; write x + iy as the real matrix [[x, -y], [y, x]] of twice the size")
    if not np.issubdtype(basis.dtype, np.number) or basis.dtype.kind == "m":
        raise TypeError(f"MatrixGroup takes a geomstats matrix Lie group or a basis, got an array of {basis.dtype}")
    if basis.ndim != 3 or basis.shape[1] != basis.shape[2] or 0 in basis.shape:
        raise ValueError(
            f"space must be a geomstats matrix Lie group or a basis of shape [n, N, N], got {list(basis.shape)}"
        )
    flat = basis.reshape(len(basis), -1).astype(np.float64)
    if not np.all(np.isfinite(flat)):
        raise ValueError(f"the basis has entries that are not finite: {shortly(basis)}")
    if np.linalg.matrix_rank(flat) < len(flat):
        raise ValueError("the matrices of the basis are linearly dependent")
    products = np.einsum("iab,jbc->ijac", basis, basis)
    brackets = (products - np.swapaxes(products, 0, 1)).reshape(-1, flat.shape[1])
    residual = np.abs(brackets - brackets @ np.linalg.pinv(flat) @ flat).max()
    if residual > 1e-10 * max(1.0, np.abs(brackets).max()):
        raise ValueError(
            f"the span of the basis is not closed under the bracket: a bracket leaves it by {residual:.3g}"
        )


def _cayley_stays(basis: np.ndarray, dual: np.ndarray) -> bool:
    """True if (1 − X)⁻¹ E (1 + X)⁻¹ stays in the algebra: then the path cay(tX) stays in the group."""
    rng = np.random.default_rng(0)
    one = np.eye(basis.shape[1])
    for _ in range(4):
        X = np.einsum("i,iab->ab", rng.normal(size=len(basis)), basis)
        X *= 0.4 / np.linalg.norm(X)
        image = np.linalg.inv(one - X) @ basis @ np.linalg.inv(one + X)
        inside = np.einsum("kac,iac,kbd->ibd", dual, image, basis)
        if np.abs(image - inside).max() > 1e-10 * np.abs(image).max():
            return False
    return True


def _manifold_name(space: Any) -> str:
    short = {"SpecialOrthogonal": "SO", "SpecialEuclidean": "SE", "GeneralLinear": "GL"}
    label = type(space).__name__.lstrip("_").removesuffix("Matrices")
    label = short.get(label, label) + ("⁺" if getattr(space, "positive_det", False) else "")
    return f"{label}({getattr(space, 'n', space.dim)})"


# --- the logarithm -----------------------------------------------------------------------------------------
def _sqrtm(X: Array) -> Array:
    """Principal square root, by a fixed number of Denman–Beavers steps (differentiable in both modes)."""

    def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        Y, Z = carry
        return (0.5 * (Y + jnp.linalg.inv(Z)), 0.5 * (Z + jnp.linalg.inv(Y))), None

    one = jnp.broadcast_to(jnp.eye(X.shape[-1], dtype=X.dtype), X.shape)
    return jax.lax.scan(step, (X, one), None, length=_NEWTON_STEPS)[0][0]


def _logm(g: Array) -> Array:
    """Principal logarithm over leading axes."""
    X, _ = jax.lax.scan(lambda X, _: (_sqrtm(X), None), g, None, length=_ROOTS)
    one = jnp.eye(g.shape[-1])
    Z = jnp.linalg.solve(X + one, X - one)
    square = matmul(Z, Z)
    series = one / (2 * _ARTANH_TERMS - 1)
    for k in range(_ARTANH_TERMS - 2, -1, -1):
        series = one / (2 * k + 1) + matmul(square, series)
    return 2.0 ** (_ROOTS + 1) * matmul(Z, series)

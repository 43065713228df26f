r"""Distributions: the subbundles of M × g that nonholonomic constraints define, linear and affine.

A distribution D is given by annihilating forms, μ(x)ξ = 0 with μ of shape=[m, n], or by a spanning frame, rows X_a(x)
of shape=[r, n]. An affine distribution is μ(x)ξ = b(x), or D translated by a section Y (mathematics.md §2). For a
bundle metric M the orthogonal projectors are

    Q = M⁻¹μᵀ(μM⁻¹μᵀ)⁻¹μ,   P = 1 − Q,   Q* = Qᵀ,   P* = Pᵀ,

or P = Fᵀ(F M Fᵀ)⁻¹F M from a frame. ``normal_momentum`` is Q*(p − Π) with Π = MY, the only quantity that the
geometric nonholonomic integrator reflects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import combinations
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import apart, det, gram_schmidt, saddle, saddle_inverses, solve
from geonh.engine import SIDE_BY_SIDE, Precise, as_numbers, jacobian
from geonh.geometry.field import Field, arguments

DEPENDENT = 1e-9
"""Least singular value of rows of length one at or below which they count as dependent."""
MANY = 16
"""Least dimension of a group for which the columns of forms are computed in a loop."""
SIZES = 1e75
"""Bound on the size of rows, and on its reciprocal, within which their squares are accurate in float64."""


class VelocityForms(eqx.Module):
    """Forms given by the velocities that they stand for, linear in ξ: a function of a base point and parameters.

    Parameters
    ----------
    velocities : callable
        ``velocities(x, xi, parameters)`` → list or array of m velocities, for ξ of shape=[n], or of
        shape=[n, k] for k at once.
    n : int
        Dimension of the group.
    """

    velocities: Callable
    n: int = eqx.field(static=True)

    def __call__(self, x: Any, parameters: Any) -> Array:
        """The forms, shape=[m, n]."""
        if self.n < MANY:
            return self.of(x, jnp.eye(self.n), parameters)
        return jacobian(lambda xi: self.of(x, xi, parameters), jnp.zeros(self.n), together=SIDE_BY_SIDE)

    def of(self, x: Any, xi: Array, parameters: Any) -> Array:
        """μ(x)ξ, shape=[m], of a velocity of shape=[n]."""
        velocities = self.velocities(x, xi, parameters)
        return velocities if isinstance(velocities, jax.Array) else jnp.stack(velocities)


class Distribution(Precise):
    """A linear distribution D ⊂ M × g.

    Parameters
    ----------
    forms : array_like, shape=[m, n], or callable
        Annihilating one-forms, constant or a function of the base point (and parameters).
    frame : array_like, shape=[r, n], or callable
        A spanning frame, instead of ``forms``.

    Raises
    ------
    TypeError
        If not exactly one of ``forms`` and ``frame`` is given.
    ValueError
        If constant forms or frames are not of shape=[k, n], or frames not of full rank.
    """

    forms: Field | None
    frame: Field | None

    def __init__(self, forms: Any = None, *, frame: Any = None):
        if (forms is None) == (frame is None):
            raise TypeError(f"{type(self).__name__} takes either forms= or frame=")
        self.forms = None if forms is None else _rows(forms, "forms")
        self.frame = None if frame is None else _rows(frame, "frame")

    def __repr__(self) -> str:
        kinds = {
            "forms": self.forms,
            "frame": self.frame,
            "rhs": getattr(self, "rhs", None),
            "drift": getattr(self, "drift", None),
        }
        described = [
            f"{name}={f'of shape {list(np.shape(field.constant))}' if field.function is None else 'a function'}"
            for name, field in kinds.items()
            if field is not None
        ]
        return f"{type(self).__name__}({', '.join(described)})"

    def _argument(self, method: str, name: str, value: Any, called: str) -> Any:
        value = super()._argument(method, name, value, called)
        if name == "M" and (np.ndim(value) != 2 or np.shape(value)[0] != np.shape(value)[1]):
            raise ValueError(f"{called} must have shape [n, n], got {list(np.shape(value))}")
        return value

    # --- constraints ---------------------------------------------------------------------------------------
    def annihilator(self, x: Any, parameters: Any = None) -> Array:
        """Annihilating forms μ(x), shape=[m, n]; of a frame, its minors (m = 1) or a local completion (m > 1)."""
        if self.forms is not None:
            return self.forms(x, parameters)
        return _annihilator_of(self._frame(x, parameters))

    def right_hand_side(self, x: Any, parameters: Any = None) -> Array:
        """b(x) in μ(x)ξ = b(x), shape=[m]; zero for a linear distribution."""
        return jnp.zeros(eqx.filter_eval_shape(self.annihilator, x, parameters).shape[0])

    def residual(self, xi: Array, x: Any, parameters: Any = None) -> Array:
        """μ(x)ξ − b(x), shape=[m], of a velocity of shape=[n]."""
        if self.forms is not None and isinstance(self.forms.function, VelocityForms):
            (place,) = arguments(x, False, "forms")
            return self.forms.part(self.forms.function.of(place, xi, parameters)) - self.right_hand_side(x, parameters)
        rows = self.annihilator(x, parameters)
        _refuse_shape("xi", xi, rows.shape[1:])
        return rows @ xi - self.right_hand_side(x, parameters)

    def degeneracy_rows(self, x: Any, parameters: Any = None) -> Array:
        """Rows whose rank must stay full: the forms, shape=[m, n], or the frame, shape=[r, n]."""
        return self.forms(x, parameters) if self.forms is not None else self._frame(x, parameters)

    def of_rows(self, rows: Any) -> Distribution:
        """The distribution of some of its forms alone, selected by a matrix of zeros and ones, shape=[r, m]."""
        assert self.forms is not None
        D = eqx.tree_at(lambda D: D.forms, self, self.forms.of_rows(rows))
        rhs = getattr(self, "rhs", None)
        return D if rhs is None else eqx.tree_at(lambda D: D.rhs, D, rhs.of_rows(rows))

    # --- projectors ----------------------------------------------------------------------------------------
    def normal_momentum(self, M: Array, p: Array, x: Any, parameters: Any = None) -> Array:
        """Q*(p − Π), shape=[n]: the part of a momentum normal to the (affine) constraint; M of shape=[n, n], p
        of [n].
        """
        if self.forms is not None:
            mu = self.forms(x, parameters)
            _refuse_shape("M", M, mu.shape[1:] * 2)
            _refuse_shape("p", p, mu.shape[1:])
            return -mu.T @ saddle(M, mu, p, self.right_hand_side(x, parameters))[1]
        p = p - M @ self.drift_section(M, x, parameters)
        return p - self.P_star(M, x, parameters) @ p

    def drift_section(self, M: Array, x: Any, parameters: Any = None) -> Array:
        """A section Y(x) of the affine distribution, shape=[n]: the M-smallest one, so Y ∈ D^⊥; zero if linear."""
        return jnp.zeros(M.shape[0])

    def Q(self, M: Array, x: Any, parameters: Any = None) -> Array:
        """M-orthogonal projector onto D^⊥, Q = M⁻¹μᵀ(μM⁻¹μᵀ)⁻¹μ, shape=[n, n]; M of shape=[n, n]."""
        return jnp.eye(M.shape[0]) - self.P(M, x, parameters)

    def P(self, M: Array, x: Any, parameters: Any = None) -> Array:
        """M-orthogonal projector onto D, P = 1 − Q, shape=[n, n]; M of shape=[n, n]."""
        if self.forms is not None:
            mu = _apart(self.forms(x, parameters))
            _refuse_shape("M", M, mu.shape[1:] * 2)
            _, raised, schur = saddle_inverses(M, mu)
            return jnp.eye(M.shape[0]) - raised @ schur @ mu
        frame = _apart(self._frame(x, parameters))
        _refuse_shape("M", M, frame.shape[1:] * 2)
        lowered = frame @ M
        return frame.T @ solve(lowered @ frame.T, lowered)

    def Q_star(self, M: Array, x: Any, parameters: Any = None) -> Array:
        """Dual projector Q* = Qᵀ, shape=[n, n]."""
        return self.Q(M, x, parameters).T

    def P_star(self, M: Array, x: Any, parameters: Any = None) -> Array:
        """Dual projector P* = Pᵀ, shape=[n, n]."""
        return self.P(M, x, parameters).T

    # --- frames --------------------------------------------------------------------------------------------
    def adapted_frame(self, M: Array, x: Any, parameters: Any = None, *, reference: Any = None) -> Array:
        """Quasi-velocity frame, orthonormal for M: first rows span D, last rows D^⊥.

        Parameters
        ----------
        M : array, shape=[n, n]
            The metric at x.
        x : base point
            Base point.
        parameters : optional
            The system's parameters, where the forms or the frame take them.
        reference : array_like, shape=[r, n], optional
            Rows whose projection spans D: the frame is smooth in x near there. By default a basis of D at
            x, with which the frame is not smooth in x.

        Returns
        -------
        array, shape=[n, n]
            The frame's vectors as rows.
        """
        P = self.P(M, x, parameters)
        rows = _basis_of_projector(P) if reference is None else as_numbers(reference, "reference")
        _refuse_shape("reference", rows, (len(rows), len(P)))
        tangent = rows @ P.T
        normal = solve(M, self.annihilator(x, parameters).T).T
        return gram_schmidt(jnp.concatenate([tangent, normal]), M)

    def _frame(self, x: Any, parameters: Any) -> Array:
        assert self.frame is not None
        return self.frame(x, parameters)


class AffineDistribution(Distribution):
    """An affine distribution μ(x)ξ = b(x), modelled on D = ker μ.

    Parameters
    ----------
    forms : array_like, shape=[m, n], or callable
        Annihilating one-forms μ, as for ``Distribution``.
    rhs : array_like, shape=[m], or callable, optional
        b; only with ``forms``.
    frame : array_like, shape=[r, n], or callable
        A frame that spans D, instead of ``forms``.
    drift : array_like, shape=[n], or callable, optional
        Any section Y of the affine bundle, instead of ``rhs``: μY = b.

    Raises
    ------
    TypeError
        If not exactly one of ``forms`` and ``frame`` is given, or of ``rhs`` and ``drift``; or ``rhs`` with ``frame``.
    ValueError
        If constant forms or frames are not of shape=[k, n], or frames not of full rank.
    """

    rhs: Field | None
    drift: Field | None

    def __init__(self, forms: Any = None, rhs: Any = None, *, frame: Any = None, drift: Any = None):
        super().__init__(forms, frame=frame)
        if (rhs is None) == (drift is None):
            raise TypeError("AffineDistribution takes either rhs= or drift=; without either use Distribution")
        if rhs is not None and frame is not None:
            raise TypeError("rhs= needs forms=; with frame= give the affine part as drift=")
        self.rhs = None if rhs is None else Field(rhs, "rhs")
        self.drift = None if drift is None else Field(drift, "drift")

    def right_hand_side(self, x: Any, parameters: Any = None) -> Array:
        if self.rhs is not None:
            return self.rhs(x, parameters)
        assert self.drift is not None
        return self.annihilator(x, parameters) @ self.drift(x, parameters)

    def drift_section(self, M: Array, x: Any, parameters: Any = None) -> Array:
        if self.drift is not None:
            return self.Q(M, x, parameters) @ self.drift(x, parameters)
        mu = self.annihilator(x, parameters)
        _refuse_shape("M", M, mu.shape[1:] * 2)
        return saddle(M, mu, jnp.zeros(M.shape[0]), self.right_hand_side(x, parameters))[0]


def rank_fault(name: str, rows: Any, where: str) -> str:
    """Description of a fault of constraint rows, of forms or of a frame, at a point; "" if there is none."""
    if not len(rows) or least_singular_value(rows) > DEPENDENT:
        return ""
    if not np.all(np.isfinite(rows)):
        return f"the constraints of {name} {where} are not finite: rows {rows.tolist()}"
    largest = np.abs(rows).max(axis=1)
    if np.any((largest > 0) & ((largest < 1 / SIZES) | (largest > SIZES))):
        return (
            f"the constraints of {name} {where} have rows of size {largest}, whose squares are not numbers of float64: "
            "divide each row by its size"
        )
    return (
        f"the constraints of {name} {where} are dependent: rows {rows.tolist()}; the configuration is singular, the "
        "constraint force is not determined: start elsewhere"
    )


def least_singular_value(rows: Any) -> float:
    """Least singular value of unit rows along these, shape=[m, n]; 0 for rows whose squares are not numbers of float64,
    or that are zero. Those of the last rows are kept, since the constraints of many systems are constant.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    return _least_singular_value(rows.tobytes(), rows.shape)


@functools.lru_cache
def _least_singular_value(data: bytes, shape: tuple[int, int]) -> float:
    rows = np.frombuffer(data).reshape(shape)
    largest = np.abs(rows).max(axis=1)
    if not np.all((largest >= 1 / SIZES) & (largest <= SIZES)):
        return 0.0
    return float(np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), compute_uv=False)[-1])


def _rows(value: Any, name: str) -> Field:
    field = Field(value, name)
    if field.is_constant and isinstance(field.constant, np.ndarray):
        rows = np.atleast_2d(field.constant)
        if rows.ndim != 2 or not rows.size:
            raise ValueError(f"{name} must be of shape [k, n], one row each, got {field.constant.shape}")
        if name == "frame" and np.linalg.matrix_rank(rows) < rows.shape[0]:
            raise ValueError(f"{name} must be linearly independent; these {rows.shape[0]} rows are not:\n{rows}")
        field = Field(rows, name)
    return field


def _refuse_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if np.shape(value) != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {list(np.shape(value))}")


def _apart(rows: Array) -> Array:
    """Orthogonalise rows, keeping their span, as in ``apart``."""
    return apart(rows, jnp.zeros((len(rows), 0)))[0]


def _annihilator_of(frame: Array) -> Array:
    """Forms that annihilate the rows of a frame of shape=[r, n]; smooth in the frame where it has full rank (m = 1)."""
    r, n = frame.shape
    if n - r == 1:
        columns = [np.delete(np.arange(n), i) for i in range(n)]
        minors = [(-1.0) ** i * det(frame[:, columns_left]) for i, columns_left in enumerate(columns)]
        return jnp.stack(minors)[None, :]
    frame = _apart(frame)
    onto = frame.T @ solve(frame @ frame.T, frame)
    candidates = jnp.eye(n) - onto
    rows = np.array(list(combinations(range(n), n - r)))
    volume = jnp.stack([det(candidates[c][:, c]) for c in rows])
    return candidates[jnp.asarray(rows)[jnp.argmax(volume)]]


def _basis_of_projector(P: Array) -> Array:
    """Rows that span the range of a projector, by the singular value decomposition."""
    if not np.all(np.isfinite(P)):
        raise ValueError("M must be invertible, and the constraints independent: the projector onto D is not finite")
    rank = round(float(jnp.trace(P)))
    return jnp.linalg.svd(P)[0][:, :rank].T

"""Values of frozen dataclasses: vectors and matrices as nested tuples, compared and hashed by value."""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.arguments.validators import as_constant, shortly

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]
ONE: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def as_rotation(value: Any, name: str) -> np.ndarray:
    """Rotation matrix, or ValueError; rounding is removed."""
    R = as_constant(value, name, (3, 3))
    if np.abs(R.T @ R - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0:
        raise ValueError(f"{name} must be a rotation matrix, got\n{R}")
    U, _, V = np.linalg.svd(R)
    return R if np.abs(R.T @ R - np.eye(3)).max() < 1e-15 else U @ V


def set_fields(owner: Any, **values: Any) -> None:
    """Set attributes of a frozen dataclass, arrays as nested tuples."""
    for name, value in values.items():
        object.__setattr__(owner, name, plain(value))


def plain(value: Any) -> Any:
    """Arrays and lists as nested tuples of numbers."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, list) else value


def as_unit(value: Any, name: str) -> np.ndarray:
    """Vector of length one, shape=[3], or ValueError; the rounding of numbers in files is removed."""
    vector = as_constant(value, name, (3,))
    length = float(np.linalg.norm(vector))
    if abs(length - 1) > 1e-3:
        raise ValueError(f"{name} must have length one, got {shortly(value)}, of length {length:.6g}")
    return vector / length

"""Tests of a tree when it is built: inertias, joints without inertia; and configurations drawn at random."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from geonh.arguments.precision import is_traced
from geonh.arguments.validators import as_float64
from geonh.bodies import motion
from geonh.bodies.composite import mass_matrix
from geonh.bodies.kinematic_tree import Tree
from geonh.groups import Product

NEAR = 1e-9
"""Negative moment of inertia, relative to the largest, that counts as rounding of the numbers in files."""
TINY = 1e-20
"""Inertia, kg m², at or below which moments count as zero;"""
SMALL = 1e-14
"""inertia about a joint, relative to the greatest of a tree, at or below which it counts as none."""

SIGNS = {"radius": "positive"} | dict.fromkeys(("mass", "stiffness", "damping", "armature"), "not negative")
"""Signs of numbers."""


def samples(plan: Tree, count: int = 3) -> list[Any]:
    """Configurations drawn at random, of NumPy."""
    draws, configurations = np.random.default_rng(5), []
    for _ in range(count):
        parts: list[np.ndarray] = []
        for joints in plan.factor_joints:
            turn = np.linalg.qr(draws.normal(size=(3, 3)))[0]
            turn = turn * np.sign(np.linalg.det(turn))
            if joints[0].kind == "free":
                parts.append(np.block([[turn, draws.normal(size=(3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]]))
            else:
                parts.append(
                    turn if joints[0].kind == "spherical" else draws.uniform(-1, 1, sum(j.dim for j in joints))
                )
        configurations.append(tuple(parts) if isinstance(plan.group, Product) else parts[0])
    return configurations


def check_inertias(plan: Tree, parameters: Any) -> None:
    """Raise ValueError for a moving body whose inertia is indefinite, and warn of links that are of no body."""
    laid = motion.bodies(plan, parameters)
    for body, (m, h, inertia) in zip(laid.bodies, motion.inertias(plan, laid, parameters), strict=True):
        moments = np.linalg.eigvalsh(inertia - motion.shifted(m, h / m) if m > 0 else inertia)
        if moments[0] < -NEAR * np.abs(inertia).max():
            parts = [name for name, place in laid.places.items() if laid.bodies[place.body] is body]
            raise ValueError(
                f"joint {body.joint.name!r} carries a body of indefinite inertia, with principal moments {moments}: "
                f"inertia of its links {parts} must be positive semidefinite"
            )
    odd = []
    for link in plan.links:
        moments = np.linalg.eigvalsh(np.asarray(link.inertia))
        if moments[0] < -TINY or moments[2] > (1 + 1e-6) * (moments[0] + moments[1]) + TINY:
            odd.append(f"{link.name!r} {moments}")
    if odd:
        warnings.warn(
            "the inertia of some links is of no body: of the principal moments one is negative or exceeds the sum of "
            f"the others: {', '.join(odd)}",
            stacklevel=of_caller(),
        )


def of_caller() -> int:
    """The ``stacklevel`` of a warning that names the line, outside of the library, that called it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("geonh."):
        frame, level = frame.f_back, level + 1
    return level


def refuse_signs(changes: Mapping[str, Any], varied: Sequence[str]) -> None:
    """Raise ValueError for new values of numbers of a tree, which are varied, that links and contacts refuse."""
    for name in set(changes).intersection(varied):
        sign, value = SIGNS.get(name.rpartition(".")[2]), changes[name]
        if sign is not None and not is_traced(value):
            least = np.min(as_float64(value, name))
            if least < 0 or (sign == "positive" and least == 0):
                raise ValueError(f"{name} must be {sign}, got {value}")


def refuse_weightless(plan: Tree, parameters: Any) -> None:
    """Raise ValueError for a joint that moves nothing with inertia."""
    largest = np.max([np.diag(mass_matrix(plan, g, parameters, False)) for g in samples(plan)], axis=0)
    for joint in plan.free:
        inertias = largest[plan.velocity_slices[joint.name]]
        if not inertias.min() > SMALL * largest.max():
            link = next(link.name for link in plan.links if link.joint.name == joint.name)
            raise ValueError(
                f"joint {joint.name!r} has no inertia beyond it: link {link!r} and what it carries need mass, inertia "
                "about that axis, or the joint an armature"
            )

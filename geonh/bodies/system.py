"""Systems of trees of bodies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import argument_type, judged
from geonh.arguments.validators import as_float64, shortly
from geonh.bodies import motion
from geonh.bodies.contacts import Contact, Heights, Rows, resolved
from geonh.bodies.links import NEAR, Link, _plain
from geonh.bodies.plan import Tree, numbers, ordered, refuse_unknown
from geonh.geometry.distribution import Distribution, VelocityForms
from geonh.geometry.field import takes_parameters
from geonh.groups import Product
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System

TINY = 1e-20
"""Inertia, kg m², at or below which moments count as zero;"""
SMALL = 1e-14
"""inertia about a joint, relative to the greatest of a tree, at or below which it counts as none."""


@argument_type
class TreeSystem(System):
    """System of a tree of bodies; returned by ``tree`` and ``from_file``.

    Parameters
    ----------
    tree : Tree
        Its links and joints, parents first.
    contacts : tuple of Wheel or Blade
        Its contacts.
    reduced : bool
        True if its functions take the vector of the scalar coordinates, not the point of the group.
    **options : Any
        Arguments of ``System``.
    """

    tree: Tree = eqx.field(static=True)
    contacts: tuple[Contact, ...] = eqx.field(static=True)
    reduced: bool = eqx.field(static=True)

    def __init__(self, tree: Tree, contacts: tuple[Contact, ...], reduced: bool, **options: Any):
        self.tree, self.contacts, self.reduced = tree, contacts, reduced
        super().__init__(tree.group, **options)


@dataclass(frozen=True)
class _Lagrangian:
    tree: Tree
    reduced: bool

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        return motion.energy(self.tree, x, xi, parameters, self.reduced)


@dataclass(frozen=True)
class _MassMatrix:
    tree: Tree
    reduced: bool

    def __call__(self, x: Any, parameters: Any) -> Array:
        return motion.mass_matrix(self.tree, x, parameters, self.reduced)


@dataclass(frozen=True)
class _Forces:
    """Dampers, motors, and the user's forces."""

    tree: Tree
    own: Callable | None
    own_takes_parameters: bool

    def __call__(self, t: Any, x: Any, xi: Array, u: Any, parameters: Any) -> Array:
        total, used = jnp.zeros(self.tree.dim), 0
        for joint in self.tree.joints.values():
            slot = self.tree.slots[joint.name]
            if motion.has(self.tree, joint, "damping"):
                factor = 1.0 if joint.mimic is None else joint.mimic.factor
                loss = motion.number(self.tree, joint, "damping", parameters) * factor**2
                total = total.at[slot].add(-loss * xi[slot])
            if joint.motor and u is not None:
                torques = u[used : used + joint.dim]
                if torques.shape != (joint.dim,):
                    raise ValueError(f"controls must have an entry for each of the motors {list(self.tree.motors)}")
                total, used = total.at[slot].add(torques), used + joint.dim
        if self.own is not None:
            total = total + self.own(t, x, xi, u, *((parameters,) if self.own_takes_parameters else ()))
        return total


@judged
def tree(
    links: Sequence,
    *,
    gravity: Any = (0.0, 0.0, -9.81),
    contacts: Sequence = (),
    varied: Sequence[str] = (),
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    rank: int | tuple[int, int] | None = None,
    name: str = "tree of bodies",
) -> TreeSystem:
    """System of rigid bodies that joints connect in a tree.

    Parameters
    ----------
    links : sequence of Link
        In any order; the order of velocities is that of the joints of the links, parents first.
    gravity : array_like, shape=[3]
        Acceleration, m/s².
    contacts : sequence of Wheel or Blade
        What rolls or glides on the plane z = 0. Contacts whose height varies are held on it by holonomic constraints;
        the height of others, as on a planar joint, is not used.
    varied : sequence of str
        Numbers that become parameters of the system, for sweeps, gradients and estimation: "arm.mass", "arm.centre",
        "arm.inertia" of a link; "elbow.place", "elbow.stiffness", "elbow.rest", "elbow.damping", "elbow.armature",
        "elbow.pitch" of a joint; "wheel.radius", "wheel.centre" of a contact.
    forces : callable, optional
        f(t, x, ξ, u) or f(t, x, ξ, u, parameters) → covector, shape=[n], besides dampers and motors; of u the first
        entries are the torques of the motors.
    parameters : mapping, optional
        Further numbers.
    first_integrals : mapping of str to FirstIntegral, optional
        As for ``System``.
    draw : callable, optional
        As for ``System``; by default the shapes of the links, or rods between joints where a tree has none.
    rank : int or (int, int), optional
        As for ``System``; found at random configurations where no contact is held on the plane, as on a planar root.
    name : str
        Name in tables and files.

    Returns
    -------
    TreeSystem
        On the product of the joints' groups. If nothing depends on the pose of a planar or free root, its functions
        take the vector of the other coordinates (``base="shape"``).

    Raises
    ------
    TypeError, ValueError
        For links that are no tree, with the names of links and joints: an unknown parent, a cycle, two roots, names
        used twice, a joint without any inertia beyond it, or that carries one that is not positive semidefinite; else
        as of ``System``.

    Warns
    -----
    UserWarning
        If the inertia of a link is of no body: of its principal moments one exceeds the sum of the others.
    """
    for link in links:
        if not isinstance(link, Link):
            raise TypeError(f"links must be a list of Link, got {shortly(link)}")
    pull = as_float64(gravity, "gravity", (3,))
    plan = ordered(list(links), _plain(pull), tuple(varied))
    touching = resolved(contacts, plan)
    owners = numbers(plan.links)
    for contact in touching:
        owners.setdefault(contact.name, {}).update({key: getattr(contact, key) for key in contact.sizes})
    refuse_unknown(varied, owners)
    named = {key: owners[key.rpartition(".")[0]][key.rpartition(".")[2]] for key in varied}
    given = {key: as_float64(value, key) for key, value in named.items()}
    clash = [key for key in parameters or {} if key in given]
    if clash:
        raise ValueError(f"parameters: {clash} are among varied=; take other names")
    _check_inertias(plan, given)
    _refuse_weightless(plan, given)
    reduced = _is_reducible(plan, pull, touching)
    held = () if reduced else _lifting(plan, touching, given)
    pushed = forces is not None or any(j.motor or motion.has(plan, j, "damping") for j in plan.joints.values())
    takes = forces is not None and takes_parameters(forces, "t, x, xi, u", "forces")
    if draw is None:
        from geonh.bodies.drawing import Drawing

        draw = Drawing(plan, touching)
    return TreeSystem(
        plan,
        touching,
        reduced,
        lagrangian=_Lagrangian(plan, reduced),
        metric=_MassMatrix(plan, reduced),
        distribution=Distribution(forms=VelocityForms(Rows(plan, touching, reduced), plan.dim)) if touching else None,
        holonomic=Heights(plan, held) if held else None,
        forces=_Forces(plan, forces, takes) if pushed else None,
        parameters={**given, **(parameters or {})},
        rank=_independent(plan, touching, reduced, given) if touching and not held and rank is None else rank,
        base=("shape" if plan.dim > plan.free[0].dim else "point") if reduced else "group",
        first_integrals=first_integrals,
        draw=draw,
        name=name,
        units=plan.units,
    )


def _is_reducible(plan: Tree, gravity: np.ndarray, contacts: Sequence[Contact]) -> bool:
    """True if nothing depends on the pose of the root, and all other joints are scalar."""
    root, *others = plan.free
    if any(joint.dim > 1 for joint in others) or plan.links[0].joint.name != root.name:
        return False
    if root.kind == "free":
        return not np.any(gravity) and not contacts
    if root.kind != "planar":
        return False
    normal = np.asarray(root.rotation) @ np.asarray(root.axis)
    level = np.abs(np.cross(normal, gravity)).max() <= 1e-14 * np.abs(gravity).max(initial=0.0)
    return bool(level) and (not contacts or bool(np.abs(normal[:2]).max() <= 1e-14))


def _samples(plan: Tree, count: int = 3) -> list[Any]:
    """Configurations drawn at random, of NumPy."""
    draws, found = np.random.default_rng(5), []
    for _ in range(count):
        parts: list[np.ndarray] = []
        for run in plan.runs:
            turn = np.linalg.qr(draws.normal(size=(3, 3)))[0]
            turn = turn * np.sign(np.linalg.det(turn))
            if run[0].kind == "free":
                parts.append(np.block([[turn, draws.normal(size=(3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]]))
            else:
                parts.append(turn if run[0].kind == "spherical" else draws.uniform(-1, 1, sum(j.dim for j in run)))
        found.append(tuple(parts) if isinstance(plan.group, Product) else parts[0])
    return found


def _lifting(plan: Tree, contacts: tuple[Contact, ...], parameters: Any) -> tuple[Contact, ...]:
    """Contacts whose height depends on the configuration."""
    if not contacts:
        return ()
    heights = np.array([Heights(plan, contacts)(g, parameters) for g in _samples(plan)])
    spread = np.ptp(heights, axis=0)
    return tuple(c for c, size in zip(contacts, spread, strict=True) if size > 1e-9 * (1 + np.abs(heights).max()))


def _independent(plan: Tree, contacts: tuple[Contact, ...], reduced: bool, parameters: Any) -> int:
    """Number of independent rows of the contacts at random configurations."""
    rows, draws, every = Rows(plan, contacts, reduced), np.random.default_rng(6), np.eye(plan.dim)
    scalar = sum(joint.dim == 1 for joint in plan.free)
    at: list[Any] = [draws.uniform(-1, 1, scalar) for _ in range(3)] if reduced else _samples(plan)
    found = [np.array(rows(x, every, parameters)) for x in at]  # type: ignore[arg-type]
    return max(int(np.linalg.matrix_rank(matrix, tol=1e-9)) for matrix in found)


def _check_inertias(plan: Tree, parameters: Any) -> None:
    """Raise ValueError for a moving body whose inertia is indefinite, and warn of links that are of no body."""
    laid = motion.bodies(plan, parameters)
    for body, (m, h, inertia) in zip(laid.bodies, laid.inertias, strict=True):
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
            stacklevel=4,
        )


def _refuse_weightless(plan: Tree, parameters: Any) -> None:
    """Raise ValueError for a joint that moves nothing with inertia."""
    largest = np.max([np.diag(motion.mass_matrix(plan, g, parameters, False)) for g in _samples(plan)], axis=0)
    for joint in plan.free:
        own = largest[plan.slots[joint.name]]
        if not own.min() > SMALL * largest.max():
            link = next(link.name for link in plan.links if link.joint.name == joint.name)
            raise ValueError(
                f"joint {joint.name!r} has no inertia beyond it: link {link!r} and what it carries need mass, inertia "
                "about that axis, or the joint an armature"
            )


@judged
def poses(system: TreeSystem, g: Any) -> dict[str, tuple[Any, Any]]:
    """Pose of each link in space.

    Parameters
    ----------
    system : TreeSystem
        System of ``tree`` or ``from_file``.
    g : point of the group
        A configuration; it may be traced.

    Returns
    -------
    dict of str to (array, array)
        Rotation, shape=[3, 3], and origin, shape=[3], of each link.

    Raises
    ------
    TypeError, ValueError
        If ``g`` is no configuration of the system.
    """
    if is_traced((g, system.parameters)):
        return motion.poses(system.tree, g, system.parameters)
    found = motion.poses(system.tree, jax.tree.map(np.asarray, system.point(g, name="g")), system.parameters)
    return {link: (np.asarray(R), np.asarray(p)) for link, (R, p) in found.items()}

"""Systems of trees of bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.purity import Pure
from geonh.arguments.signatures import argument_type, validated
from geonh.arguments.validators import as_constant, shortly
from geonh.bodies import dynamics, motion
from geonh.bodies.composite import mass_matrix
from geonh.bodies.contacts import Blade, Wheel, with_axles
from geonh.bodies.kinematic_tree import Tree, VariedNumbers, ordered
from geonh.bodies.links import Link, Spring
from geonh.bodies.loops import Loop, damping_force, elastic_energy, is_elastic, refuse_strangers
from geonh.bodies.loops import resolved as with_defaults
from geonh.bodies.ranks import analysed, best_of
from geonh.bodies.reports import report
from geonh.bodies.rows import Held, Seated, Velocities
from geonh.bodies.soundness import check_inertias, refuse_signs, refuse_weightless
from geonh.bodies.touching import Rolling
from geonh.bodies.values import plain
from geonh.geometry.action import GroupBase
from geonh.geometry.distribution import Distribution, VelocityForms
from geonh.geometry.field import arguments, check_arguments, evaluated, takes_parameters, time_dependent
from geonh.mechanics.check import Report
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.redundancy import Dependence
from geonh.mechanics.system import System


@argument_type
class TreeSystem(System):
    """System of a tree of bodies; returned by ``tree`` and ``from_file``.

    Parameters
    ----------
    tree : Tree
        Its links and joints, parents first.
    forms : Velocities or None
        Velocities at its contacts that vanish.
    held : Held or None
        Heights of contacts, loops and prescribed joints.
    reduced : bool
        True if its functions take the vector of the scalar coordinates, not the point of the group.
    **options : Any
        Arguments of ``System``.
    """

    tree: Tree = eqx.field(static=True)
    forms: Velocities | None = eqx.field(static=True)
    held: Held | None = eqx.field(static=True)
    reduced: bool = eqx.field(static=True)

    def __init__(self, tree: Tree, forms: Velocities | None, held: Held | None, reduced: bool, **options: Any):
        self.tree, self.forms, self.held, self.reduced = tree, forms, held, reduced
        super().__init__(tree.group, **options)

    @property
    def contacts(self) -> tuple[Seated, ...]:
        """Contacts of its links."""
        return () if self.forms is None else self.forms.contacts

    @property
    def row_names(self) -> list[str]:
        """Names of the rows of its constraints, in the order of the multipliers."""
        return [name for part in (self.held, self.forms) if part is not None for name in part.names]

    def momentum(self, x: Any, xi: Array) -> Array:
        """p = ∂ℓ/∂ξ, shape=[n]."""
        return self._evaluated("momentum", dynamics.momentum, x, xi)

    def momentum_at_rest(self, x: Any) -> Array:
        """0, shape=[n]."""
        return jnp.zeros(self.group.dim)

    def bias_force(self, x: Any, xi: Array) -> Array:
        """Bias force of the bodies, in O(n), and of their springs."""
        bias = self._evaluated("bias force", dynamics.bias_force, x, xi)
        if not is_elastic(self.tree):
            return bias
        return bias + self.coanchor(lambda x: self._evaluated("elastic energy", elastic_energy, x), x)

    def _evaluated(self, name: str, function: Callable, x: Any, *more: Any) -> Array:
        """Value of a function (tree, x, …, parameters, reduced), traced once."""
        at, reduced = arguments(x, False, name), self.reduced and not isinstance(self.action, GroupBase)
        return evaluated(name, _OfTree(function, self.tree, reduced), *at, *more, self.parameters)

    def _is_quadratic(self) -> bool:
        """True: the kinetic energy of bodies is quadratic in the velocities."""
        return True

    def with_parameters(self, **changes: Any) -> System:
        """Return the system with other values of some parameters, as ``System.with_parameters`` does.

        Raises
        ------
        TypeError, ValueError
            As of it, and for a radius that is not positive, a negative mass, stiffness, damping or armature.
        """
        refuse_signs(changes, self.tree.varied)
        return super().with_parameters(**changes)

    def check(self, *, at: Any = None, xi0: Any = None, **options: Any) -> Report:
        """Test the system as ``System.check`` does, and tell of redundant contacts and violated limits.

        Parameters
        ----------
        at : point of the group, optional
            A start, at which contacts and loops must be closed, and limits of joints are compared; where left out, a
            configuration with its contacts and loops closed, near the identity.
        xi0 : array_like, shape=[n], optional
            Velocity of the start, at which nothing may slip, and which is compared with the limits of speed.
        **options : keyword arguments
            ``controls``, ``n_samples``, ``seed``, ``scale`` of ``System.check``.

        Returns
        -------
        Report
            ``report.ok``, ``report.problems``; print it for details.

        Raises
        ------
        TypeError, ValueError
            For an invalid argument.
        """
        return report(self, at, xi0, super().check, options)


@dataclass(frozen=True)
class _Lagrangian(Pure):
    tree: Tree
    reduced: bool

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        of_bodies = motion.energy(self.tree, x, xi, parameters, self.reduced)
        return of_bodies - elastic_energy(self.tree, x, parameters, self.reduced)


@dataclass(frozen=True)
class _MassMatrix(Pure):
    tree: Tree
    reduced: bool

    def __call__(self, x: Any, parameters: Any) -> Array:
        return mass_matrix(self.tree, x, parameters, self.reduced)


@dataclass(frozen=True)
class _OfTree(Pure):
    """Function (tree, …, reduced) of the library as one of what stands between."""

    function: Callable
    tree: Tree
    reduced: bool

    def __call__(self, *arguments: Any) -> Array:
        return self.function(self.tree, *arguments, self.reduced)


@dataclass(frozen=True)
class _Forces:
    """Dampers, motors, and the user's forces."""

    tree: Tree
    reduced: bool
    user_forces: Callable | None
    user_takes_parameters: bool

    def __call__(self, t: Any, x: Any, xi: Array, u: Any, parameters: Any) -> Array:
        total, used = jnp.zeros(self.tree.dim), 0
        for joint in self.tree.joints.values():
            slot = self.tree.velocity_slices[joint.name]
            if motion.has(self.tree, joint, "damping"):
                factor = 1.0 if joint.mimic is None else joint.mimic.factor
                loss = motion.number(self.tree, joint, "damping", parameters) * factor**2
                total = total.at[slot].add(-loss * xi[slot])
            if joint.motor and u is not None:
                torques = u[used : used + joint.dim]
                if torques.shape != (joint.dim,):
                    raise ValueError(f"controls must have an entry for each of the motors {list(self.tree.motors)}")
                total, used = total.at[slot].add(torques), used + joint.dim
        if any(motion.has(self.tree, spring, "damping") for spring in self.tree.springs):
            total = total + damping_force(self.tree, x, xi, parameters, self.reduced)
        if self.user_forces is None and u is not None and jnp.shape(u) != (used,):
            names = list(self.tree.motors)
            raise ValueError(f"controls must have shape ({used},), an entry for each of the motors {names}")
        if self.user_forces is not None:
            total = total + self.user_forces(t, x, xi, u, *((parameters,) if self.user_takes_parameters else ()))
        return total


@validated
def tree(
    links: Sequence,
    *,
    gravity: Any = (0.0, 0.0, -9.81),
    contacts: Sequence = (),
    loops: Sequence = (),
    springs: Sequence = (),
    prescribed: Mapping[str, Callable] | None = None,
    varied: Sequence[str] | Mapping[str, Callable] = (),
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
    contacts : sequence of Wheel, Blade or Rolling
        Wheels and blades on the plane z = 0, convex bodies that roll on surfaces. Contacts whose height varies are held
        by holonomic constraints; the height of others, as on a planar joint, is not used, nor is one that varies only
        since axes lean by less than 1e-4 rad.
    loops : sequence of Loop
        Joints that close loops, held by holonomic constraints.
    springs : sequence of Spring
        Springs and dampers between points of links.
    prescribed : mapping of str to callable, optional
        Coordinates of joints as functions of the time, in ``jax.numpy``, held by holonomic constraints.
    varied : sequence of str, or mapping of str to callable
        Numbers that become parameters of the system, for sweeps, gradients and estimation: "arm.mass", "arm.centre",
        "arm.inertia" of a link; "elbow.place", "elbow.rotation", "elbow.stiffness", "elbow.rest", "elbow.damping",
        "elbow.armature", "elbow.pitch" of a joint; "wheel.radius", "wheel.centre" of a contact; numbers of springs and
        loops. Or functions of ``parameters``, by these names.
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
        As for ``System``; by default that at random configurations with contacts and loops closed.
    name : str
        Name in tables and files.

    Returns
    -------
    TreeSystem
        On the product of the joints' groups. If nothing depends on the pose of a planar or free root, and all other
        joints have one coordinate, its functions take the vector of these (``base="shape"``).

    Raises
    ------
    TypeError, ValueError
        For links that are no tree, with the names of links and joints: an unknown parent, a cycle, two roots, names
        used twice, a joint without any inertia beyond it, or that carries one that is not positive semidefinite; for a
        row of a loop that does not change and is not zero, and a wheel whose axle nothing moves; else as of ``System``.

    Warns
    -----
    UserWarning
        If the inertia of a link is of no body: of its principal moments one exceeds the sum of the others. If the
        height of a contact depends on one joint alone, which then cannot move.
    """
    kinds: dict[str, tuple[Sequence, tuple[type, ...]]] = {
        "links": (links, (Link,)),
        "contacts": (contacts, (Wheel, Blade, Rolling)),
        "loops": (loops, (Loop,)),
        "springs": (springs, (Spring,)),
    }
    for argument, (given, classes) in kinds.items():
        for entry in given:
            if not isinstance(entry, classes):
                named = " or ".join(kind.__name__ for kind in classes)
                raise TypeError(f"{argument} must be a list of {named}, got {shortly(entry)}")
    pull = as_constant(gravity, "gravity", (3,))
    numbers = VariedNumbers.of(varied, parameters or {}, [*links, *contacts, *loops, *springs])
    plan = ordered(numbers.applied(links), plain(pull), numbers.varied, numbers.functions)
    plan = replace(plan, springs=tuple(numbers.applied(springs)))
    for spring in plan.springs:
        refuse_strangers(spring, plan, f"spring {spring.name!r}")
    closing = with_defaults(numbers.applied(loops), plan)
    touching = with_axles(numbers.applied(contacts), plan)
    shapes = {key: value for c in contacts if isinstance(c, Rolling) for key, value in c.shapes.items()}
    every = {**numbers.parameters, **shapes}
    nominal = replace(plan, varied=(), functions=())
    check_inertias(nominal, {})
    refuse_weightless(nominal, {})
    courses = _courses(prescribed or {}, plan)
    reduced = _is_reducible(plan, pull, touching, contacts, closing)
    forms = Velocities(plan, touching, reduced) if touching else None
    held: Held | None = None
    if touching or closing or courses:
        whole = Held(plan, touching, closing, courses, False)
        kept, dependences = analysed(plan, whole, forms and replace(forms, reduced=False), every)
        held = replace(whole, reduced=reduced).only(kept)
        rank = _rank(best_of(dependences), forms, held) if rank is None else rank
    pushed = forces is not None or any(j.motor or motion.has(plan, j, "damping") for j in plan.joints.values())
    pushed = pushed or any(motion.has(plan, spring, "damping") for spring in plan.springs)
    takes = forces is not None and takes_parameters(forces, "t, x, xi, u", "forces")
    if draw is None:
        from geonh.bodies.drawing import Drawing

        draw = Drawing(plan, touching)
    return TreeSystem(
        plan,
        forms,
        held,
        reduced,
        lagrangian=_Lagrangian(plan, reduced),
        metric=_MassMatrix(plan, reduced),
        distribution=Distribution(forms=VelocityForms(forms, plan.dim)) if forms else None,
        holonomic=time_dependent(held.in_time) if held and courses else held,
        forces=_Forces(plan, reduced, forces, takes) if pushed else None,
        parameters=every,
        rank=rank,
        base=("shape" if plan.dim > plan.free[0].dim else "point") if reduced else "group",
        first_integrals=first_integrals,
        draw=draw,
        name=name,
        units=plan.units,
    )


def _courses(prescribed: Mapping[str, Callable], plan: Tree) -> tuple[tuple[str, Callable], ...]:
    """Prescribed joints with their functions of the time."""
    scalar = [joint.name for joint in plan.free if joint.dim == 1]
    for name, course in prescribed.items():
        if name not in scalar:
            raise ValueError(f"prescribed: {name!r} is no joint with one coordinate of its own; those are {scalar}")
        check_arguments(course, "t", f"prescribed[{name!r}]")
    return tuple(prescribed.items())


def _is_reducible(
    plan: Tree, gravity: np.ndarray, touching: Sequence, contacts: Sequence, loops: Sequence[Loop]
) -> bool:
    """True if nothing depends on the pose of the root, and all other joints are scalar."""
    root, *others = plan.free
    if any(joint.dim > 1 for joint in others) or plan.links[0].joint.name != root.name:
        return False
    partners = [spring.other for spring in plan.springs] + [loop.other for loop in loops]
    if not all(partners):
        return False
    if root.kind == "free":
        return not np.any(gravity) and not touching
    if root.kind != "planar":
        return False
    normal = np.asarray(root.rotation) @ np.asarray(root.axis)
    level = np.abs(np.cross(normal, gravity)).max() <= 1e-14 * np.abs(gravity).max(initial=0.0)
    floors = [contact.on.as_plane for contact in contacts if isinstance(contact, Rolling)]
    flat = all(floor is not None and np.abs(floor[0][:2]).max() <= 1e-14 for floor in floors)
    return bool(level) and flat and (not touching or bool(np.abs(normal[:2]).max() <= 1e-14))


def _rank(dependence: Dependence | None, forms: Velocities | None, held: Held | None) -> Any:
    """Numbers of independent rows, as ``System(rank=)`` takes them; None if all are, or it was not found."""
    if dependence is None or not len(dependence.others):
        return None
    counts = [count for count, part in zip(dependence.rank, (held, forms), strict=True) if part is not None]
    return counts[0] if len(counts) == 1 else tuple(counts)


@validated
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
    at = g if is_traced((g, system.parameters)) else jax.tree.map(np.asarray, system.point(g, name="g"))
    poses = motion.poses(system.tree, at, system.parameters)
    return {link: (R, p) if at is g else (np.asarray(R), np.asarray(p)) for link, (R, p) in poses.items() if link}

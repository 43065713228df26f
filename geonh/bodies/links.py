"""Links, joints and springs of a tree of bodies: frozen dataclasses of numbers, compared and hashed by value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from geonh.arguments.validators import as_constant, as_flag, as_text, one_of, shortly
from geonh.bodies.shapes import ONE, Shape
from geonh.bodies.values import as_rotation, as_unit, set_fields

KINDS = {
    "fixed": 0,
    "revolute": 1,
    "continuous": 1,
    "prismatic": 1,
    "screw": 1,
    "spherical": 3,
    "planar": 3,
    "free": 6,
}
"""Number of velocities of each kind of joint."""
NEAR = 1e-9
"""Relative tolerance of unit lengths, orthogonality and symmetry of what is given; files have rounded numbers."""
SIZES = {"mass": (), "centre": (3,), "inertia": (3, 3)}
"""Numbers of a link, with their shapes;"""
JOINT_SIZES = {
    "place": (3,),
    "rotation": (3, 3),
    "pitch": (),
    "stiffness": (),
    "rest": (),
    "damping": (),
    "armature": (),
}
"""numbers of a joint that may be parameters."""


@dataclass(frozen=True)
class Mimic:
    """Coordinate of a joint as an affine function of another's: q = factor · q_joint + offset.

    Parameters
    ----------
    joint : str
        Name of the other joint.
    factor : float
    offset : float
        rad or m.

    Raises
    ------
    TypeError, ValueError
        If they are not a name and two numbers.
    """

    joint: str
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        joint = as_text(self.joint, "joint of a mimic")
        factor = as_constant(self.factor, f"factor of a mimic of {joint!r}")
        set_fields(self, joint=joint, factor=factor, offset=as_constant(self.offset, f"offset of a mimic of {joint!r}"))


@dataclass(frozen=True)
class Joint:
    """Joint between a link and its parent, on the group of its relative motions.

    The frame of the link coincides, where the joint's coordinates are zero, with the frame given by ``place`` and
    ``rotation`` in the parent. Velocities are those of the link relative to the parent, in the link's axes.

    Parameters
    ----------
    kind : {"fixed", "revolute", "continuous", "prismatic", "screw", "spherical", "planar", "free"}
        A turn about ``axis`` (rad, unwrapped; "continuous" is "revolute" without limits), a displacement along it (m),
        both, SO(3), SE(2) in the plane normal to ``axis``, or SE(3). In that plane x is nearest to the coordinate axis
        that is least along ``axis``, which for the axis z is x, and y = axis × x.
    name : str
        Name of its coordinates in all results; that of the link when left out.
    axis : array_like, shape=[3]
        Unit vector in the link's axes.
    place : array_like, shape=[3]
        Origin of the joint in the parent's frame, m.
    rotation : array_like, shape=[3, 3]
        Axes of the joint, as columns, in the parent's frame.
    pitch : float
        Displacement of a screw, m/rad.
    stiffness, rest : float
        Spring ½ stiffness (q − rest)² of a joint with one coordinate.
    damping : float
        Torque −damping · ξ.
    armature : float
        Inertia ½ armature · ξ² of its motor, referred to the joint.
    motor : bool
        True if a control is its torque or force.
    mimic : Mimic, optional
        If given, the joint follows another one and has no velocity of its own.
    lower, upper, speed, effort, friction : float, optional
        Limits of position, velocity and torque, and dry friction: data, which the motion does not use.

    Raises
    ------
    TypeError, ValueError
        For invalid numbers, naming the joint.
    """

    kind: str = "fixed"
    name: str = ""
    axis: Any = (0.0, 0.0, 1.0)
    place: Any = (0.0, 0.0, 0.0)
    rotation: Any = ONE
    pitch: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    damping: float = 0.0
    armature: float = 0.0
    motor: bool = False
    mimic: Mimic | None = None
    lower: float | None = None
    upper: float | None = None
    speed: float | None = None
    effort: float | None = None
    friction: float | None = None

    def __post_init__(self) -> None:
        called = f"of joint {as_text(self.name, 'name of a joint')!r}"
        one_of(self.kind, f"kind {called}", tuple(KINDS))
        axis = as_unit(self.axis, f"axis {called}")
        place = as_constant(self.place, f"place {called}", (3,))
        scalar = [name for name, shape in JOINT_SIZES.items() if not shape]
        numbers = {name: as_constant(getattr(self, name), f"{name} {called}", ()) for name in scalar}
        for name in ("stiffness", "damping", "armature"):
            if numbers[name] < 0:
                raise ValueError(f"{name} {called} must not be negative, got {getattr(self, name)}")
        for name in ("lower", "upper", "speed", "effort", "friction"):
            if getattr(self, name) is not None:
                numbers[name] = as_constant(getattr(self, name), f"{name} {called}", finite=False)
                if np.isnan(numbers[name]):
                    raise ValueError(f"{name} {called} must be a number, got nan")
        if not isinstance(self.mimic, Mimic | None):
            raise TypeError(f"mimic {called} must be a Mimic, got {shortly(self.mimic)}")
        numbers["motor"] = as_flag(self.motor, f"motor {called}")
        rotation = as_rotation(self.rotation, f"rotation {called}")
        set_fields(self, axis=axis, place=place, rotation=rotation, **numbers)
        self._refuse(called)

    def _refuse(self, called: str) -> None:
        if self.kind != "screw" and self.pitch:
            raise ValueError(f"pitch {called} is that of a screw, and it is {self.kind}")
        if self.dim != 1 and (self.stiffness or self.rest or self.mimic):
            raise ValueError(
                f"stiffness, rest and mimic {called} need a joint with one coordinate, and it is {self.kind}"
            )
        if self.dim == 0 and (self.damping or self.armature or self.motor):
            raise ValueError(f"damping, armature and motor {called} need a joint that moves, and it is fixed")
        if self.mimic and self.motor:
            raise ValueError(f"mimic {called} must be that of a joint without a motor")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"limits {called}: lower {self.lower} exceeds upper {self.upper}")

    @property
    def dim(self) -> int:
        """Number of velocities of its relative motion."""
        return KINDS[self.kind]


@dataclass(frozen=True)
class Link:
    """Rigid body of a tree, with the joint to its parent.

    Parameters
    ----------
    name : str
        Its name.
    mass : float
        Mass, kg; may be zero for a link that carries others.
    centre : array_like, shape=[3]
        Centre of mass in the link's frame, m.
    inertia : array_like, shape=[3] or [3, 3]
        Moments of inertia, or their matrix, about the centre of mass in the link's axes, kg m².
    parent : str
        Name of the link that carries it; empty for the one that is carried by space.
    joint : Joint
        Joint to the parent, or to space.
    shapes : tuple of Shape
        Its shape in drawings.

    Raises
    ------
    TypeError, ValueError
        For invalid numbers, naming the link, such as a negative mass or an inertia that is not symmetric.
    """

    name: str
    mass: float = 0.0
    centre: Any = (0.0, 0.0, 0.0)
    inertia: Any = (0.0, 0.0, 0.0)
    parent: str = ""
    joint: Joint = Joint()
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        if not as_text(self.name, "name of a link"):
            raise ValueError("name of a link must not be empty")
        called = f"of link {self.name!r}"
        if not isinstance(self.joint, Joint):
            raise TypeError(f"joint {called} must be a Joint, got {shortly(self.joint)}")
        as_text(self.parent, f"parent {called}")
        if not isinstance(self.shapes, list | tuple) or not all(isinstance(shape, Shape) for shape in self.shapes):
            raise TypeError(f"shapes {called} must be a tuple of Shape, got {shortly(self.shapes)}")
        mass = as_constant(self.mass, f"mass {called}", ())
        if mass < 0:
            raise ValueError(f"mass {called} must not be negative, got {self.mass}")
        inertia = as_constant(self.inertia, f"inertia {called}", None)
        if inertia.shape not in ((3,), (3, 3)):
            raise ValueError(f"inertia {called} must be three moments or a matrix [3, 3], got {list(inertia.shape)}")
        inertia = np.diag(inertia) if inertia.ndim == 1 else inertia
        if np.abs(inertia - inertia.T).max() > NEAR * np.abs(inertia).max():
            raise ValueError(f"inertia {called} must be symmetric, got\n{inertia}")
        centre = as_constant(self.centre, f"centre {called}", (3,))
        set_fields(self, mass=mass, centre=centre, inertia=(inertia + inertia.T) / 2, shapes=tuple(self.shapes))
        if not self.joint.name:
            set_fields(self, joint=replace(self.joint, name=self.name))


@dataclass(frozen=True)
class Spring:
    """Spring and damper between points of two links, along the line that connects them.

    Parameters
    ----------
    link, other : str
        Links that it connects; space where ``other`` is empty.
    stiffness : float
        N/m.
    rest : float
        Length without force, m.
    damping : float
        Force per rate of the length, N s/m.
    place, other_place : array_like, shape=[3]
        Its ends in the frames of link and other, m.
    name : str
        Its name; that of both links when left out.

    Raises
    ------
    TypeError, ValueError
        For invalid numbers.
    """

    link: str
    other: str = ""
    stiffness: float = 0.0
    rest: float = 0.0
    damping: float = 0.0
    place: Any = (0.0, 0.0, 0.0)
    other_place: Any = (0.0, 0.0, 0.0)
    name: str = ""

    sizes: ClassVar[tuple[str, ...]] = ("stiffness", "rest", "damping", "place", "other_place")

    def __post_init__(self) -> None:
        for text in ("link", "other", "name"):
            as_text(getattr(self, text), f"{text} of a spring")
        called = f"of the spring from {self.link!r} to {self.other!r}"
        shapes = {name: (3,) if name.endswith("place") else () for name in self.sizes}
        numbers = {name: as_constant(getattr(self, name), f"{name} {called}", shapes[name]) for name in self.sizes}
        for name in ("stiffness", "rest", "damping"):
            if numbers[name] < 0:
                raise ValueError(f"{name} {called} must not be negative, got {getattr(self, name)}")
        set_fields(self, **numbers, name=self.name or f"spring {self.link} to {self.other or 'space'}")

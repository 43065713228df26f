"""Robots from MJCF files: compiled by mujoco, then links and joints from the numbers of the compiled model.

A body with several joints becomes a chain of links without mass, "body:joint", and the body fixed to the last of them.
Coordinates are those of MuJoCo, but the pose of a free body is relative to that in the file. Equalities between bodies
become loops, held exactly; those between joints, where they are affine, joints that follow.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geonh.bodies.links import Joint, Link, Mimic
from geonh.bodies.loops import Loop
from geonh.bodies.meshes import coarse
from geonh.bodies.motion import displaced
from geonh.bodies.robot import Robot
from geonh.bodies.shapes import Mesh, Shape

MOST = 1e8
"""Largest product of the counts and sizes in a file, nested ones included."""
COUNTS = ("count", "nrow", "ncol", "width", "height")
"""Attributes that multiply what a file declares."""
KINDS = {0: "free", 1: "spherical", 2: "prismatic", 3: "revolute"}
"""Kinds of joints by the numbers of mjtJoint."""
DEEPEST = 20
"""Largest depth of files that include others."""


def robot(top: Any, path: Path, meshes: bool) -> Robot:
    """Contents of an MJCF file, from the element at its top."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("MJCF files are read by mujoco: pip install 'geonh[robots]'") from error
    _refuse_bombs(top, path, 0)
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ValueError(f"{path} is no model: {' '.join(str(error).split())}") from error
    return _Reader(mujoco, model, path, meshes).robot(top)


def _refuse_bombs(top: Any, path: Path, depth: int) -> None:
    """Raise ValueError for a file whose repetitions or sizes would fill the memory."""
    from lxml import etree

    if depth > DEEPEST:
        raise ValueError(f"{path}: files include one another more than {DEEPEST} deep")

    def size(element: Any) -> float:
        repetitions = 1.0
        for name in COUNTS:
            for word in (element.get(name) or "").split():
                repetitions *= max(float(word), 1.0) if word.replace(".", "", 1).isdigit() else 1.0
        inner = sum(size(child) for child in element.iterchildren("*"))
        return repetitions * max(inner, 1.0)

    for element in top.iterchildren("*"):
        if size(element) > MOST:
            raise ValueError(
                f"{path}, line {element.sourceline}: <{element.tag}> declares more than {MOST:g} things by its counts "
                "and sizes; it is no robot"
            )
    for element in top.iter("include"):
        inner = path.parent / element.get("file", "")
        if os.path.isfile(inner) and inner.stat().st_size < MOST:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
            try:
                _refuse_bombs(etree.parse(str(inner), parser).getroot(), path, depth + 1)
            except etree.XMLSyntaxError as error:
                raise ValueError(f"{inner}, included by {path}, is not XML: {error}") from error


class _Reader:
    """Links, joints and loops of a compiled model."""

    def __init__(self, mujoco: Any, model: Any, path: Path, meshes: bool):
        self.mujoco, self.model, self.path, self.meshes = mujoco, model, path, meshes
        self.left: Counter[str] = Counter()
        kinds = mujoco.mjtObj
        self.bodies = ["", *(self._name(kinds.mjOBJ_BODY, i, "body") for i in range(1, model.nbody))]
        self.joints = [self._name(kinds.mjOBJ_JOINT, i, "joint") for i in range(model.njnt)]

    def _name(self, kind: Any, i: int, word: str) -> str:
        return self.mujoco.mj_id2name(self.model, kind, i) or f"{word}{i}"

    def _acts(self, what: str) -> bool:
        """True unless the file switches gravity, springs or dampers off."""
        return not self.model.opt.disableflags & int(getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{what}"))

    def robot(self, top: Any) -> Robot:
        """Contents of the model."""
        model = self.model
        if model.nbody == 1:
            raise ValueError(f"{self.path}: there is no body in <worldbody>")
        roots = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
        world = [] if len(roots) == 1 else [Link("world", joint=Joint("fixed", "world"), shapes=self._shapes(0))]
        if len(roots) == 1:
            self.left["shape of the world"] += int(model.body_geomnum[0])
        links = [*world, *(link for i in range(1, model.nbody) for link in self._links(i, "world" if world else ""))]
        links, loops = self._with_equalities(links)
        self._count_unused(top)
        left = tuple(f"{count} × {what}" for what, count in sorted(self.left.items()) if count)
        joint = int(self.mujoco.mjtTrn.mjTRN_JOINT)
        driving = [i for i in range(model.nactuator) if model.actuator_trntype[i] == joint]
        driven = dict.fromkeys(self.joints[model.actuator_trnid[i, 0]] for i in driving)
        moving = {link.joint.name for link in links if link.joint.dim and link.joint.mimic is None}
        gravity = tuple(float(g) if self._acts("GRAVITY") else 0.0 for g in model.opt.gravity)
        name = top.get("model", "") or self.path.stem
        return Robot(name, tuple(links), left, tuple(loops), tuple(j for j in driven if j in moving), gravity)  # type: ignore[arg-type]

    def _links(self, i: int, world: str) -> list[Link]:
        """Links of a body: one for each joint, and itself."""
        model, name = self.model, self.bodies[i]
        try:
            place, R = np.array(model.body_pos[i]), _matrix(model.body_quat[i])
            parent = self.bodies[model.body_parentid[i]] or world
            turn = _matrix(model.body_iquat[i])
            inertial: dict[str, Any] = {
                "mass": model.body_mass[i],
                "centre": model.body_ipos[i],
                "inertia": turn @ np.diag(model.body_inertia[i]) @ turn.T,
                "shapes": self._shapes(i),
            }
            joints = range(model.body_jntadr[i], model.body_jntadr[i] + model.body_jntnum[i])
            if not joints:
                held = Joint("fixed", f"{name} fixed", place=place, rotation=R)
                return [Link(name, parent=parent, joint=held, **inertial)]
            if len(joints) == 1 and not np.any(model.jnt_pos[joints[0]]):
                return [Link(name, parent=parent, joint=self._joint(joints[0], place, R), **inertial)]
            carriers: list[Link] = []
            at = np.zeros(3)
            for j in joints:
                anchor = np.array(model.jnt_pos[j])
                where = place + R @ anchor if not carriers else anchor - at
                joint = self._joint(j, where, R if not carriers else np.eye(3))
                carriers.append(Link(f"{name}:{joint.name}", parent=parent, joint=joint))
                parent = carriers[-1].name
                at = anchor
            return [*carriers, Link(name, parent=parent, joint=Joint("fixed", f"{name} fixed", place=-at), **inertial)]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: body {name!r}: {error}") from error

    def _joint(self, j: int, place: np.ndarray, R: np.ndarray) -> Joint:
        model, kind, name = self.model, KINDS[int(self.model.jnt_type[j])], self.joints[j]
        d = model.jnt_dofadr[j]
        numbers: dict[str, Any] = {"damping": model.dof_damping[d], "armature": model.dof_armature[d]}
        if not self._acts("DAMPER"):
            self.left["damping that is switched off"] += bool(numbers.pop("damping"))
        several = slice(d, d + (6 if kind == "free" else 3 if kind == "spherical" else 1))
        for what in ("damping", "armature"):
            if np.ptp(getattr(model, f"dof_{what}")[several]):
                raise ValueError(f"joint {name!r} has {what} that differs between its directions")
        self.left["dry friction of a joint"] += bool(np.any(model.dof_frictionloss[several]))
        for what in ("jnt_stiffnesspoly", "dof_dampingpoly"):
            if hasattr(model, what) and np.any(getattr(model, what)[j if what.startswith("jnt") else d]):
                self.left["nonlinear spring or damper of a joint"] += 1
        if kind in ("free", "spherical"):
            self.left[f"spring of a {kind} joint"] += bool(model.jnt_stiffness[j])
            return Joint(kind, name, place=place, rotation=R, **numbers)
        q = model.jnt_qposadr[j]
        if model.jnt_limited[j]:
            numbers |= {"lower": model.jnt_range[j, 0], "upper": model.jnt_range[j, 1]}
        if model.jnt_actfrclimited[j]:
            numbers["effort"] = np.abs(model.jnt_actfrcrange[j]).max()
        if np.any(model.dof_frictionloss[d]):
            numbers["friction"] = model.dof_frictionloss[d]
        if not self._acts("SPRING"):
            self.left["spring that is switched off"] += bool(model.jnt_stiffness[j])
        elif model.jnt_stiffness[j]:
            numbers |= {"stiffness": model.jnt_stiffness[j], "rest": model.qpos_spring[q]}
        joint = Joint(kind, name, model.jnt_axis[j], place, R, **numbers)
        if model.qpos0[q]:
            turned, moved = displaced(joint, -float(model.qpos0[q]))
            joint = replace(joint, place=moved, rotation=turned)
        return joint

    def _shapes(self, i: int) -> tuple[Shape, ...]:
        shapes = []
        for k in range(self.model.body_geomadr[i], self.model.body_geomadr[i] + self.model.body_geomnum[i]):
            if self.model.geom_group[k] < 3 and (shape := self._shape(k)) is not None:
                shapes.append(shape)
        return tuple(shapes)

    def _shape(self, k: int) -> Shape | None:
        model, kinds = self.model, self.mujoco.mjtGeom
        place, R = model.geom_pos[k], _matrix(model.geom_quat[k])
        paint = model.geom_rgba[k] if model.geom_matid[k] < 0 else model.mat_rgba[model.geom_matid[k]]
        if paint[3] == 0:
            return None
        colour = "#" + "".join(f"{round(255 * min(max(float(c), 0.0), 1.0)):02x}" for c in paint[:3])
        r, half, third = map(float, model.geom_size[k])
        sizes = {
            int(kinds.mjGEOM_SPHERE): ("ball", (r,)),
            int(kinds.mjGEOM_CAPSULE): ("capsule", (r, 2 * half)),
            int(kinds.mjGEOM_CYLINDER): ("cylinder", (r, 2 * half)),
            int(kinds.mjGEOM_ELLIPSOID): ("ellipsoid", (r, half, third)),
            int(kinds.mjGEOM_BOX): ("box", (2 * r, 2 * half, 2 * third)),
        }
        kind = int(model.geom_type[k])
        if kind in sizes:
            return Shape(*sizes[kind], place, R, colour)
        if kind == int(kinds.mjGEOM_MESH) and self.meshes:
            return Shape("mesh", (), place, R, colour, self._mesh(int(model.geom_dataid[k])))
        self.left["shape that is a " + kinds(kind).name.removeprefix("mjGEOM_").lower()] += 1
        return None

    def _mesh(self, m: int) -> Mesh:
        model = self.model
        first, face = model.mesh_vertadr[m], model.mesh_faceadr[m]
        vertices = np.array(model.mesh_vert[first : first + model.mesh_vertnum[m]], dtype=np.float64)
        return coarse(vertices, np.array(model.mesh_face[face : face + model.mesh_facenum[m]], dtype=np.int64))

    def _with_equalities(self, links: list[Link]) -> tuple[list[Link], list[Loop]]:
        """Links with joints that follow, and loops."""
        model, kinds, loops = self.model, self.mujoco.mjtEq, []
        for e in range(model.neq):
            kind, data, one, other = model.eq_type[e], model.eq_data[e], model.eq_obj1id[e], model.eq_obj2id[e]
            of_bodies = model.eq_objtype[e] == int(self.mujoco.mjtObj.mjOBJ_BODY)
            name = self._name(self.mujoco.mjtObj.mjOBJ_EQUALITY, e, "equality")
            if not model.eq_active0[e]:
                self.left["equality that is not active"] += 1
            elif kind == int(kinds.mjEQ_CONNECT) and of_bodies:
                loops.append(self._loop(one, other, "spherical", data[:3], data[3:6], None, name))
            elif kind == int(kinds.mjEQ_WELD) and of_bodies:
                loops.append(self._loop(one, other, "fixed", data[3:6], data[:3], _matrix(data[6:10]), name))
            elif kind == int(kinds.mjEQ_JOINT) and not np.any(data[2:5]) and other >= 0:
                self._follow(links, int(one), int(other), data)
            else:
                self.left[f"equality of type {kinds(int(kind)).name.removeprefix('mjEQ_').lower()}"] += 1
        return links, loops

    def _loop(self, one: int, other: int, kind: str, here: Any, there: Any, R: Any, name: str) -> Loop:
        links = self.bodies[one], self.bodies[other]
        if not links[0]:  # the world is the other
            links, here, there, R = links[::-1], there, here, None if R is None else R.T
        return Loop(*links, kind, np.array(here), np.array(there), rotation=R, name=name)  # type: ignore[arg-type]

    def _follow(self, links: list[Link], one: int, other: int, data: np.ndarray) -> None:
        at = {link.joint.name: k for k, link in enumerate(links)}
        k, rest = at[self.joints[one]], self.model.qpos0
        following, leading = rest[self.model.jnt_qposadr[one]], rest[self.model.jnt_qposadr[other]]
        mimic = Mimic(self.joints[other], float(data[1]), float(following + data[0] - data[1] * leading))
        if links[k].joint.mimic is not None or links[at[self.joints[other]]].joint.mimic is not None:
            raise ValueError(f"{self.path}: joint {self.joints[one]!r} follows several joints, or one that follows")
        links[k] = replace(links[k], joint=replace(links[k].joint, mimic=mimic))

    def _count_unused(self, top: Any) -> None:
        model = self.model
        many = {
            "tendon": model.ntendon,
            "flexible body": model.nflex,
            "skin": model.nskin,
            "actuator (motors= makes controls of joints)": model.nactuator,
            "sensor": model.nsensor,
            "keyframe": model.nkey,
            "pair of shapes in contact": model.npair,
            "shape that may be in contact": int(np.sum((model.geom_contype > 0) | (model.geom_conaffinity > 0))),
            "body without gravity": int(np.sum(model.body_gravcomp != 0)),
            "body that is moved from outside": model.nmocap,
            "plugin": model.nplugin,
            "resistance of a fluid": int(bool(model.opt.density or model.opt.viscosity)),
        }
        self.left.update({what: int(count) for what, count in many.items()})
        if any(math.isfinite(a) and a for a in getattr(model, "actuator_armature", ())):
            self.left["armature of an actuator"] += 1


def _matrix(quaternion: Any) -> np.ndarray:
    """Rotation matrix of a quaternion, scalar first."""
    w, *v = np.asarray(quaternion, dtype=np.float64) / np.linalg.norm(quaternion)
    x, y, z = v
    turned = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(turned)

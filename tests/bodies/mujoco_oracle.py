"""Mass matrix, forces and accelerations of an MJCF model by MuJoCo, in the order of the joints of a tree."""

import mujoco
import numpy as np

from geonh.groups import Product


def rotation(quaternion):
    found = np.zeros(9)
    mujoco.mju_quat2Mat(found, np.asarray(quaternion) / np.linalg.norm(quaternion))
    return found.reshape(3, 3)


def quaternion(R):
    found = np.zeros(4)
    mujoco.mju_mat2Quat(found, np.ascontiguousarray(R).ravel())
    return found


def reference(path, tree, seed=1):
    """Configuration x, velocity ξ, M, bias less passive forces, and accelerations ξ̇ at random.

    Contacts, limits, equalities, dry friction, tendons and actuators are switched off.
    """
    model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    for bit in (off.mjDSBL_CONSTRAINT, off.mjDSBL_ACTUATION, off.mjDSBL_CONTACT, off.mjDSBL_EQUALITY):
        model.opt.disableflags |= int(bit)
    model.opt.density = model.opt.viscosity = 0.0
    model.body_gravcomp[:] = 0.0
    for name in ("stiffness", "damping", "armature"):
        if model.ntendon:
            getattr(model, f"tendon_{name}")[:] = 0.0
    for name in ("jnt_stiffnesspoly", "dof_dampingpoly", "tendon_stiffnesspoly", "tendon_dampingpoly"):
        if hasattr(model, name):
            getattr(model, name)[:] = 0.0
    model.jnt_stiffness[model.jnt_type < 2] = 0.0
    data, draws = mujoco.MjData(model), np.random.default_rng(seed)
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, i) or f"joint{i}" for i in range(model.njnt)]
    index = {name: i for i, name in enumerate(names)}
    q, columns, own = data.qpos, np.zeros((model.nv, tree.dim)), {}
    for joint in tree.free:
        i, slot = index[joint.name], tree.velocity_slices[joint.name]
        k, d = model.jnt_qposadr[i], model.jnt_dofadr[i]
        if joint.dim == 1:
            q[k] = own[joint.name] = draws.uniform(-1, 1)
            columns[d, slot] = 1.0
            continue
        turn = np.linalg.qr(draws.normal(size=(3, 3)))[0]
        turn = turn * np.sign(np.linalg.det(turn))
        if joint.dim == 3:
            own[joint.name] = turn
            q[k : k + 4] = quaternion(turn)
            columns[d : d + 3, slot] = np.eye(3)
            continue
        place = draws.normal(size=3)
        own[joint.name] = np.block([[turn, place[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
        R0 = np.array(joint.rotation)
        q[k : k + 3], q[k + 3 : k + 7] = np.array(joint.place) + R0 @ place, quaternion(R0 @ turn)
        columns[d + 3 : d + 6, slot.start : slot.start + 3] = np.eye(3)
        columns[d : d + 3, slot.start + 3 : slot.stop] = rotation(q[k + 3 : k + 7])
    xi = draws.normal(size=tree.dim)
    data.qvel[:] = columns @ xi
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    xi_dot = data.qacc.copy()
    for joint in tree.free:
        if joint.kind == "free":  # MuJoCo's is the velocity of the origin in space, p' = Rv, so p'' = R(v' + ω × v)
            slot, d = tree.velocity_slices[joint.name], model.jnt_dofadr[index[joint.name]]
            omega, v = xi[slot][:3], xi[slot][3:]
            k = model.jnt_qposadr[index[joint.name]]
            R = rotation(q[k + 3 : k + 7])
            xi_dot[d : d + 3] -= R @ np.cross(omega, v)
    accelerations = np.linalg.lstsq(columns, xi_dot, rcond=None)[0]
    parts = tuple(
        np.array([own[joint.name] for joint in run]) if run[0].dim == 1 else own[run[0].name]
        for run in tree.factor_joints
    )
    x = parts if isinstance(tree.group, Product) else parts[0]
    return x, xi, columns.T @ M @ columns, accelerations

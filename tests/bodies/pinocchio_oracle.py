"""Mass matrix and bias of a robot by Pinocchio, in the order of the joints of a tree."""

import numpy as np
import pinocchio as pin

from geonh.groups import Product


def reference(path, tree, free, seed=1):
    """Configuration x, velocity ξ, M and bias (torques of no acceleration) at random; joints that follow eliminated."""
    model = pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer()) if free else pin.buildModelFromUrdf(path)
    data, draws = model.createData(), np.random.default_rng(seed)
    index = {model.names[i]: i for i in range(1, model.njoints)}
    if free:
        index["base"] = index.pop("root_joint")
    q, own, columns = pin.neutral(model), {}, np.zeros((model.nv, tree.dim))
    for joint in tree.free:
        i, slot = index[joint.name], tree.velocity_slices[joint.name]
        if joint.dim == 1:
            own[joint.name] = draws.uniform(-1, 1)
            columns[model.idx_vs[i], slot] = 1.0
            continue
        turn = np.linalg.qr(draws.normal(size=(3, 3)))[0]
        turn, place = turn * np.sign(np.linalg.det(turn)), draws.normal(size=3)
        own[joint.name] = np.block([[turn, place[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
        k = model.idx_vs[i]
        columns[[k + 3, k + 4, k + 5, k, k + 1, k + 2], slot] = np.eye(6)
        q[model.idx_qs[i] : model.idx_qs[i] + 7] = np.r_[place, pin.Quaternion(turn).coeffs()]
    for joint in tree.joints.values():
        if joint.dim > 1:
            continue
        i, value = index[joint.name], own.get(joint.name)
        if joint.mimic is not None:
            value = joint.mimic.factor * own[joint.mimic.joint] + joint.mimic.offset
            columns[model.idx_vs[i], tree.velocity_slices[joint.name]] = joint.mimic.factor
        k = model.idx_qs[i]
        q[k : k + model.nqs[i]] = [value] if model.nqs[i] == 1 else [np.cos(value), np.sin(value)]
    xi = draws.normal(size=tree.dim)
    M = pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    bias = pin.nonLinearEffects(model, data, q, columns @ xi)
    parts = tuple(
        np.array([own[joint.name] for joint in run]) if run[0].dim == 1 else own[run[0].name]
        for run in tree.factor_joints
    )
    x = parts if isinstance(tree.group, Product) else parts[0]
    return x, xi, columns.T @ M @ columns, columns.T @ bias

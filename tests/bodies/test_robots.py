"""Robots' files against Pinocchio: mass matrices, torques and accelerations (pip install pin example-robot-data)."""

import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import jax
import numpy as np
import pytest

from geonh import bodies
from geonh.bodies import motion


def robots():
    """Files of the package example-robot-data; None stands for its absence."""
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        return [None]
    return sorted(Path(file.locate()).resolve() for file in files if file.suffix == ".urdf")


def bias(system, x, xi):
    """Torques at zero acceleration, ṗ − ad*p − ρ*∂ℓ/∂x, shape=[n]."""
    rate = system.rate(x, xi)
    pdot = jax.jvp(lambda y: system.momentum(y, xi), (x,), (rate,))[1]
    p = system.momentum(x, xi)
    return pdot - system.group.ad_star(xi, p) - system.coanchor(lambda y: system.lagrangian(y, xi), x)


def off(one, other):
    """Largest difference, relative to the largest entry."""
    return np.abs(np.asarray(one) - other).max() / max(np.abs(other).max(), 1e-300)


@pytest.mark.slow
@pytest.mark.parametrize("path", robots(), ids=lambda path: "" if path is None else f"{path.parts[-3]}/{path.stem}")
@pytest.mark.parametrize("root", ["fixed", "free"])
def test_a_robot_is_that_of_pinocchio(path, root):
    pytest.importorskip("yourdfpy")
    pytest.importorskip("pinocchio", reason="the oracle is Pinocchio: pip install pin example-robot-data")
    if path is None:
        pytest.skip("there are no robots: pip install pin example-robot-data")
    from pinocchio_oracle import reference

    if path.name == "ur3.urdf":
        pytest.skip("no URDF file: it is a macro without a name, which Pinocchio does not read either")
    links = bodies.read(path).links
    if path.name == "alex_psyonic_hands.urdf":  # its fingers mimic joints that do not exist
        links = [replace(link, joint=replace(link.joint, mimic=None)) for link in links]
    if root == "free" or not any(link.joint.dim for link in links):
        links = [link if link.parent else replace(link, joint=bodies.Joint("free", "base")) for link in links]
        root = "free"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
        system = bodies.tree(links)
    x, xi, M, torques = reference(str(path), system.tree, root == "free")
    with jax.enable_x64(True):
        assert off(motion.mass_matrix(system.tree, x, {}, False), M) < 1e-12
        if system.group.dim < 12:
            assert off(system.mass_matrix(x), M) < 1e-12
        got = np.asarray(bias(system, x, xi))
    assert np.abs(got - torques).max() <= 1e-12 * max(np.abs(torques).max(), np.abs(M).max())
    accelerations = np.linalg.solve(M, -torques)
    mine = np.linalg.solve(np.asarray(motion.mass_matrix(system.tree, x, {}, False)), -got)
    assert off(mine, accelerations) < 1e-12 * max(1.0, 1e-2 * np.linalg.cond(M))

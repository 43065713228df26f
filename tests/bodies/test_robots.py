"""Robots' files against Pinocchio: mass matrices, torques and accelerations (pip install pin example-robot-data)."""

import json
import warnings
from dataclasses import fields, is_dataclass, replace
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import bodies
from geonh.bodies import composite, kinematic_tree, motion
from geonh.groups import Product


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


REFUSED = {"romeo": "no inertia beyond it", "romeo_laas_small": "indefinite inertia"}
"""Files with a massless finger, and with negative moments of inertia: M has no inverse, or is not positive definite."""


def unchecked(links):
    """System of links that a tree refuses."""
    tree = kinematic_tree.ordered(list(links), (0.0, 0.0, -9.81), ())
    return tree, gn.System(tree.group, lagrangian=lambda x, xi: motion.energy(tree, x, xi, {}, False))


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
    if path.stem in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[path.stem]):
            bodies.tree(links)
        tree, system = unchecked(links)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
            system = bodies.tree(links)
        tree = system.tree
    x, xi, M, torques = reference(str(path), tree, root == "free")
    with jax.enable_x64(True):
        mine = composite.mass_matrix(tree, x, {}, False)
        assert off(mine, M) < 1e-12
        if system.group.dim < 12:
            assert off(system.mass_matrix(x), M) < 1e-12
        got = np.asarray(bias(system, x, xi))
    assert np.abs(got - torques).max() <= 1e-12 * max(np.abs(torques).max(), np.abs(M).max())
    if path.stem not in REFUSED:
        accelerations = np.linalg.solve(M, -torques)
        assert off(np.linalg.solve(mine, -got), accelerations) < 1e-12 * max(1.0, 1e-2 * np.linalg.cond(M))


def from_json(name):
    """Links of a robot, with configuration, velocity, M and bias of Pinocchio, from tests/bodies/reference."""
    data = json.loads((Path(__file__).parent / "reference" / f"{name}.json").read_text())
    links = []
    for link in data["links"]:
        joint = link.pop("joint")
        mimic = joint.pop("mimic", None)
        joint = bodies.Joint(**joint, mimic=None if mimic is None else bodies.Mimic(**mimic))
        links.append(bodies.Link(**link, joint=joint))
    return links, data


@pytest.mark.filterwarnings("ignore:the inertia of some links")
@pytest.mark.parametrize("name", ["ur5", "panda", "hyq", "tiago"])
@pytest.mark.quick("ur5")
def test_robots_are_those_of_pinocchio(name):
    links, data = from_json(name)
    system = bodies.tree(links)
    parts = tuple(np.array(part) for part in data["x"])
    x, xi = parts if isinstance(system.group, Product) else parts[0], np.array(data["xi"])
    with jax.enable_x64(True):
        M = composite.mass_matrix(system.tree, x, {}, False)
        assert off(M, np.array(data["M"])) < 1e-12
        torques = np.asarray(bias(system, x, xi))
    assert off(torques, np.array(data["bias"])) < 1e-12


@pytest.mark.slow
def test_the_wheels_of_a_tiago_roll_exactly():
    """10⁵ steps on two driven wheels, the arm folded: the contacts do not move, and without torques energy is kept."""
    links, _ = from_json("tiago")
    root = bodies.Joint("planar", "base")
    still = [
        replace(link, joint=replace(link.joint, kind="fixed", damping=0.0, friction=None, mimic=None))
        if link.joint.dim and "wheel" not in link.name
        else link
        for link in links
    ]
    driven = [replace(x, joint=replace(x.joint, motor=True, damping=0.0)) if "wheel" in x.name else x for x in still]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tiago = bodies.tree(
            [link if link.parent else replace(link, joint=root) for link in driven],
            contacts=[bodies.Wheel("wheel_left_link", 0.0985), bodies.Wheel("wheel_right_link", 0.0985, grips=False)],
        )
    assert (tiago.group.dim, tiago.reduced) == (5, True)
    g0, xi0 = bodies.start(tiago, velocities={"base": [0.5, 0.6, 0.0]})
    how = {"g0": g0, "xi0": xi0, "dt": 1e-3, "n_steps": 100_000, "save_every": 10}
    turn = lambda t: 3.0 * jnp.stack([jnp.cos(0.5 * t), -jnp.cos(0.5 * t)])  # noqa: E731
    run = gn.solve(tiago, "rkmk4", controls=turn, **how)
    assert np.abs(run.constraint_residual).max() < 1e-14
    free = gn.solve(tiago, "rkmk4", **how)
    assert np.abs(free.constraint_residual).max() < 1e-14
    assert np.ptp(free.energy - free.energy[0]) < 1e-10 * 46 * 0.6**2


STEERED = {
    "pr2": ("caster_rotation", 0.0792, ("fl_caster_l_wheel_link", "bl_caster_l_wheel_link")),
    "centauro": ("ankle_yaw", 0.078, ("wheel_1", "wheel_3")),
}
"""Names of the joints that steer, radius of the wheels, and those that bear what is across where few do."""


def frames(links):
    """Places and rotations of links where all coordinates are zero, by name; parents come first."""
    found = {}
    for link in links:
        p, R = found.get(link.parent, (np.zeros(3), np.eye(3)))
        found[link.name] = p + R @ np.asarray(link.joint.place), R @ np.asarray(link.joint.rotation)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("all_grip", [False, True])
@pytest.mark.parametrize("name", STEERED)
def test_robots_on_steered_wheels(name, all_grip):
    """10⁵ steps with a given curvature of the path on the eight wheels of the PR2's casters, which the file has welded,
    and the four of Centauro's legs: the contacts do not move, redundant where all wheels grip.
    """
    pytest.importorskip("yourdfpy")
    path = next((path for path in robots() if path is not None and path.stem == name), None)
    if path is None:
        pytest.skip("needs example-robot-data")
    steers, radius, bearing = STEERED[name]

    def carried(link):
        if not link.parent:
            return replace(link, joint=bodies.Joint("planar", "base"))
        turns = steers in link.joint.name or ("wheel" in link.name and link.joint.name.startswith(("f", "b", "j_")))
        own = {"lower": None, "upper": None, "damping": 0.0, "friction": None, "mimic": None}
        return replace(link, joint=replace(link.joint, kind="continuous" if turns else "fixed", **own))

    curvature = lambda t: 1.2 * jnp.sin(0.7 * t)  # noqa: E731

    def steered(place, up):
        return lambda t: up * jnp.arctan2(curvature(t) * place[0], 1 - curvature(t) * place[1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        links = [carried(link) for link in bodies.read(path, meshes=False).links]
        at = frames(links)
        turning = {link.name: link.joint for link in links if link.joint.kind == "continuous"}
        prescribed = {
            joint.name: steered(at[link][0], np.sign(at[link][1][2] @ np.asarray(joint.axis)))
            for link, joint in turning.items()
            if steers in joint.name
        }
        wheels = [
            bodies.Wheel(link, radius, grips=all_grip or link in bearing)
            for link, joint in turning.items()
            if joint.name not in prescribed
        ]
        robot = bodies.tree(links, contacts=wheels, prescribed=prescribed, name=name)
    assert len(wheels) == {"pr2": 8, "centauro": 4}[name]
    g0, xi0 = bodies.start(robot, velocities={"base": [0.0, 0.4, 0.0]})
    run = gn.solve(robot, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=100_000, save_every=10)
    assert np.abs(run.constraint_residual).max() < 1e-14
    np.testing.assert_allclose(run.xi[:, 0], curvature(run.t) * run.xi[:, 1], atol=1e-12)
    assert np.ptp(run.g[0][:, 1]) > 10.0


def renew():
    """Write tests/bodies/reference: python tests/bodies/test_robots.py, with pin, example-robot-data and yourdfpy."""
    from pinocchio_oracle import reference

    files = {path.stem: path for path in robots()}
    wanted = {"ur5": "ur5_robot", "panda": "panda", "hyq": "hyq_no_sensors", "tiago": "tiago_no_hand"}
    for name, stem in wanted.items():
        links, free = bodies.read(files[stem]).links, name == "hyq"
        if free:
            links = [link if link.parent else replace(link, joint=bodies.Joint("free", "base")) for link in links]
        tree = kinematic_tree.ordered(list(links), (0.0, 0.0, -9.81), ())
        x, xi, M, torques = reference(str(files[stem]), tree, free)
        x = x if isinstance(tree.group, Product) else (x,)
        told = [{k: v for k, v in _told(link).items() if k != "shapes"} for link in tree.links]
        numbers = {"x": [part.tolist() for part in x], "xi": xi.tolist(), "M": M.tolist(), "bias": torques.tolist()}
        place = Path(__file__).parent / "reference" / f"{name}.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps({"links": told, **numbers}, separators=(",", ":")) + "\n")


def _told(owner):
    """Entries of a dataclass that are not those by default."""
    found = {}
    for field in fields(owner):
        value = getattr(owner, field.name)
        if value != field.default:
            found[field.name] = _told(value) if is_dataclass(value) else value
    return found


if __name__ == "__main__":
    renew()

"""MJCF files: what is read, MuJoCo as oracle, and damaged files."""

import warnings
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from test_robots import bias, off

import geonh as gn
from geonh import bodies
from geonh.bodies import composite

pytest.importorskip("mujoco", reason="MJCF files are read by mujoco: pip install 'geonh[robots]'")
pytest.importorskip("lxml")
from mujoco_oracle import reference

MODEL = """<mujoco model="crane">
  <compiler angle="radian"/>
  <option gravity="0.1 0.2 -9.8"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body name="base" pos="0.1 0 0.5" euler="0.1 0.2 0.3">
      <freejoint name="pose"/>
      <inertial pos="0.1 0 0.05" mass="3" diaginertia="0.05 0.03 0.04" quat="0.9 0.1 0.2 0.3"/>
      <geom type="box" size="0.2 0.1 0.05" rgba="1 0 0 1"/>
      <body name="tower" pos="0 0 0.2">
        <joint name="slew" axis="0 0 1" pos="0.05 0 0" ref="0.3" damping="0.2" armature="0.01" limited="true"
               range="-2 2"/>
        <joint name="lift" type="slide" axis="0 1 1" stiffness="40" springref="0.1" frictionloss="0.5"/>
        <geom type="capsule" size="0.05 0.3" pos="0 0 0.3"/>
        <body name="hook" pos="0.4 0 0.6">
          <joint name="ball" type="ball" pos="0 0 0.1" damping="0.05"/>
          <geom type="ellipsoid" size="0.1 0.05 0.08" pos="0 0 -0.1"/>
          <body name="tip" pos="0 0 -0.3"><geom type="cylinder" size="0.02 0.1"/></body>
        </body>
        <body name="pulley" pos="-0.3 0 0">
          <joint name="turn" axis="1 0 0" actuatorfrcrange="-3 3" actuatorfrclimited="true"/>
          <geom size="0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="turn" joint2="slew" polycoef="0.2 -1.5 0 0 0"/>
    <connect body1="tip" body2="world" anchor="0 0 -0.1"/>
  </equality>
  <tendon><fixed name="cable"><joint joint="lift" coef="1"/></fixed></tendon>
  <actuator><motor joint="slew" gear="10"/></actuator>
</mujoco>
"""


def written(folder, *changes, text=MODEL):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "crane.xml"
    path.write_text(text)
    return path


def apart(path, **more):
    """System of a file without its loops, joints that follow, and contacts."""
    robot = bodies.read(path, meshes=False)
    links = [replace(link, joint=replace(link.joint, mimic=None)) for link in robot.links]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of inertias that are of no body
        return bodies.tree(links, gravity=robot.gravity, **more)


def assert_that_of_mujoco(path):
    system = apart(path)
    tree = system.tree
    x, xi, M, accelerations = reference(path, tree)
    y = x
    if system.reduced:
        at = tree.coordinates(x, False)
        y = np.array([at[joint.name] for joint in tree.free if joint.dim == 1])
    with jax.enable_x64(True):
        mine = np.asarray(composite.mass_matrix(tree, x, {}, False))
        force = 0.0 if system.forces is None else np.asarray(system.force(0.0, y, xi, None))
        got = np.linalg.solve(mine, force - np.asarray(bias(system, y, xi)))
    assert off(mine, M) < 1e-14
    assert off(got, accelerations) < 1e-10


def test_a_model_is_that_of_mujoco(tmp_path):
    assert_that_of_mujoco(written(tmp_path))


def test_a_file_becomes_links_joints_and_loops(tmp_path):
    robot = bodies.read(written(tmp_path))
    assert (robot.name, robot.gravity, robot.motors) == ("crane", (0.1, 0.2, -9.8), ("slew",))
    names = [link.name for link in robot.links]
    assert names == ["base", "tower:slew", "tower:lift", "tower", "hook:ball", "hook", "tip", "pulley"]
    joints = {link.joint.name: link.joint for link in robot.links}
    assert joints["pose"].kind == "free"
    assert (joints["slew"].lower, joints["slew"].upper, joints["slew"].armature) == (-2.0, 2.0, 0.01)
    assert (joints["lift"].stiffness, joints["lift"].rest, joints["lift"].friction) == (40.0, 0.1, 0.5)
    follows = joints["turn"].mimic
    assert (follows.joint, follows.factor) == ("slew", -1.5)
    assert follows.offset == pytest.approx(0.2 + 1.5 * 0.3)
    assert joints["turn"].effort == 3.0
    (loop,) = robot.loops
    assert (loop.link, loop.other, loop.kind, loop.place) == ("tip", "", "spherical", (0.0, 0.0, -0.1))
    assert [shape.kind for link in robot.links for shape in link.shapes] == [
        "box", "capsule", "ellipsoid", "cylinder", "ball"
    ]  # fmt: skip
    told = "; ".join(robot.left_out)
    for what in (
        "1 × tendon",
        "1 × actuator",
        "1 × dry friction",
        "1 × shape of the world",
        "shape that may be",
    ):
        assert what in told


@pytest.mark.slow
def test_a_file_has_loops(tmp_path):
    """In the model's own configuration the loop is closed."""
    system = bodies.from_file(written(tmp_path))
    g0, _ = bodies.start(system, {"slew": 0.3}, {"lift": 0.1})
    np.testing.assert_allclose(g0[0], np.eye(4), atol=1e-12)
    assert len(system.row_names) == 3


@pytest.mark.slow
def test_a_pendulum_of_a_file_swings_on_its_loop(tmp_path):
    """The tip is held at its place in space."""
    system = bodies.from_file(written(tmp_path))
    g0, xi0 = bodies.start(system, {"slew": 0.3}, {"lift": 0.1})
    system.check(at=g0)
    held = bodies.poses(system, g0)["tip"]
    run = gn.solve(system, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=20)
    at = bodies.poses(system, tuple(part[-1] for part in run.g))["tip"]
    np.testing.assert_allclose(at[1] + at[0] @ [0, 0, -0.1], held[1] + held[0] @ [0, 0, -0.1], atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('mass="3"', 'mass="-3"'), r"no model.*line 6"),
        (('diaginertia="0.05', 'diaginertia="0.5'), "no model.*inertia"),
        (('joint="slew" gear', 'joint="none" gear'), "no model.*none"),
        (('axis="0 0 1"', 'axis="0 0 0"'), "no model.*slew"),
        (('<joint name="lift"', '<joint name="slew"'), "no model.*slew"),
        (("</worldbody>", ""), "is not XML"),
        (('size="0.1"/>\n        </body>', 'size="many"/>\n        </body>'), "no model.*line 22"),
        (('type="ball"', 'type="bull"'), "no model.*line 16"),
        (('<geom size="0.1"/>', '<geom type="mesh" mesh="none"/>'), "no model.*none"),
        (('<geom size="0.1"/>', ""), "no model.*pulley|no model.*mass"),
        (('<geom type="plane" size="5 5 0.1"/>', '<replicate count="100000"><replicate count="100000">'
          '<geom size="1"/></replicate></replicate>'), "line 4: <worldbody> declares more than"),
        (("<mujoco", '<!DOCTYPE m [<!ENTITY a "aa">]><mujoco'), "declares entities"),
        (("<worldbody>", '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset><worldbody>'),
         "declares more than"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_by_name_and_line(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        bodies.from_file(written(tmp_path, change))


@pytest.mark.slow
def test_root_is_that_of_the_file(tmp_path):
    fixed = bodies.from_file(written(tmp_path), root="fixed", loops=[])
    assert "pose" not in fixed.group.point_names
    carried = MODEL.replace('<freejoint name="pose"/>', '<joint name="slide" type="slide"/>')
    with pytest.raises(ValueError, match="leave root= out"):
        bodies.from_file(written(tmp_path, text=carried), root="free")


def models():
    """Files of the packages gymnasium and dm-control; None stands for their absence."""
    from importlib import metadata

    found = []
    for package, part in (("gymnasium", "envs/mujoco/assets"), ("dm-control", "dm_control/suite/")):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        found += [Path(file.locate()) for file in files if part in str(file) and file.suffix == ".xml"]
    return sorted(found) or [None]


WITHOUT = {"lqr": "no body", "common": "no body", "dog": "opening file", "materials": "", "skybox": "", "visual": ""}
"""Files without bodies of their own, and one whose assets are not in the package."""


@pytest.mark.slow
@pytest.mark.parametrize("path", models(), ids=lambda path: "" if path is None else f"{path.parts[-2]}/{path.stem}")
def test_models_are_those_of_mujoco(path):
    if path is None:
        pytest.skip("there are no models: pip install --no-deps gymnasium dm-control")
    if path.stem in WITHOUT:
        with pytest.raises(ValueError, match=WITHOUT[path.stem]):
            bodies.read(path, meshes=False)
        return
    assert_that_of_mujoco(path)

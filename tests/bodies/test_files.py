"""Robots from URDF files: what is read, what is listed, and damaged files."""

import numpy as np
import pytest

import geonh as gn
from geonh import bodies

pytest.importorskip("yourdfpy", reason="robots are read by yourdfpy: pip install 'geonh[robots]'")

ROBOT = """<?xml version="1.0"?>
<robot name="rover">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base">
    <inertial><origin xyz="0.1 0 0.05"/><mass value="3"/>
      <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial>
    <visual><geometry><box size="0.4 0.3 0.1"/></geometry><material name="m"><color rgba="1 0 0 1"/></material></visual>
    <visual><geometry><mesh filename="package://none/base.stl"/></geometry></visual>
    <collision><geometry><box size="0.4 0.3 0.1"/></geometry></collision>
  </link>
  <link name="left">
    <inertial><mass value="0.2"/><inertia ixx="2e-4" ixy="0" ixz="0" iyy="2e-4" iyz="0" izz="4e-4"/></inertial>
    <visual><geometry><cylinder radius="0.1" length="0.03"/></geometry></visual>
  </link>
  <link name="right">
    <inertial><mass value="0.2"/><inertia ixx="2e-4" ixy="0" ixz="0" iyy="2e-4" iyz="0" izz="4e-4"/></inertial>
  </link>
  <link name="mast">
    <inertial><origin xyz="0 0 0.2" rpy="0 0.3 0"/><mass value="0.5"/>
      <inertia ixx="0.01" ixy="0.001" ixz="0" iyy="0.01" iyz="0" izz="0.002"/></inertial>
  </link>
  <link name="tip"/>
  <joint name="left_wheel" type="continuous">
    <parent link="base"/><child link="left"/><origin xyz="0 0.2 0.1" rpy="-1.5707963267948966 0 0"/><axis xyz="0 0 1"/>
    <limit effort="6" velocity="10"/>
  </joint>
  <joint name="right_wheel" type="continuous">
    <parent link="base"/><child link="right"/><origin xyz="0 -0.2 0.1" rpy="-1.5707963267948966 0 0"/>
    <axis xyz="0 0 1"/>
  </joint>
  <joint name="tilt" type="revolute">
    <parent link="base"/><child link="mast"/><origin xyz="0.1 0 0.1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/><dynamics damping="0.3" friction="0.1"/>
  </joint>
  <joint name="top" type="fixed"><parent link="mast"/><child link="tip"/><origin xyz="0 0 0.4"/></joint>
  <gazebo reference="base"/>
</robot>
"""


def written(folder, text=ROBOT, *changes):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "rover.urdf"
    path.write_text(text)
    return path


def test_a_joint_that_is_fixed_keeps_its_axis(tmp_path):
    turned = written(tmp_path, ROBOT, ('xyz="0 0 0.4"/></joint>', 'xyz="0 0 0.4"/><axis xyz="0 1 0"/></joint>'))
    assert bodies.read(turned).links[-1].joint.axis == (0.0, 1.0, 0.0)
    none = written(tmp_path, ROBOT, ('xyz="0 0 0.4"/></joint>', 'xyz="0 0 0.4"/><axis xyz="0 0 0"/></joint>'))
    assert bodies.read(none).links[-1].joint.kind == "fixed"


def test_a_file_becomes_links_and_joints(tmp_path):
    robot = bodies.read(written(tmp_path))
    base, left, _, mast, tip = robot.links
    assert (robot.name, base.parent, left.parent, tip.joint.kind) == ("rover", "", "base", "fixed")
    assert base.shapes[0] == bodies.Shape("box", (0.4, 0.3, 0.1), colour="#ff0000")
    assert (mast.joint.lower, mast.joint.upper, mast.joint.effort, mast.joint.speed) == (-1.0, 1.0, 5.0, 2.0)
    assert (mast.joint.damping, mast.joint.friction) == (0.3, 0.1)
    assert str(robot).splitlines()[2].split() == f"left {left.mass:.4g} kg continuous 'left_wheel' on 'base'".split()
    c, s = np.cos(0.3), np.sin(0.3)
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    given = np.array([[0.01, 0.001, 0], [0.001, 0.01, 0], [0, 0, 0.002]])
    np.testing.assert_allclose(mast.inertia, R @ given @ R.T, atol=1e-17)
    np.testing.assert_allclose(np.array(left.joint.rotation) @ [0, 0, 1], [0, 1, 0], atol=1e-15)
    assert robot.left_out == (
        "1 × <collision> of a link",
        "1 × <gazebo>",
        "1 × dry friction of a joint",
        "1 × mesh package://none/base.stl, which is not there",
    )


def test_a_mesh_of_a_name_that_no_file_can_have_is_not_there(tmp_path):
    path = written(tmp_path)
    path.write_text(path.read_text().replace("package://none/base.stl", 5000 * "x"))
    assert bodies.read(path).left_out[-1].endswith("x, which is not there")


@pytest.mark.slow
def test_a_robot_drives_from_its_file(tmp_path):
    rover = bodies.from_file(
        written(tmp_path),
        root="planar",
        wheels={"left": 0.1, "right": bodies.Wheel("right", 0.1, grips=False)},
        motors=["left_wheel", "right_wheel"],
    )
    assert rover.name == "rover"
    assert rover.tree.motors == ("left_wheel", "right_wheel")
    g0, xi0 = bodies.start(rover, velocities={"base": [0.5, 0.3, 0.0]})
    run = gn.solve(rover, "rkmk4", g0=g0, xi0=xi0, dt=1e-3, n_steps=200, controls=lambda t: np.array([0.1, 0.2]))
    assert np.abs(run.constraint_residual).max() < 1e-14
    locked = bodies.from_file(written(tmp_path), locked={"tilt": 0.4, "left_wheel": 0.0})
    assert locked.group.point_names == ("right_wheel",)
    free = bodies.from_file(written(tmp_path))
    names = list(free.group.point_names)
    at = np.array([0.4 if name == "tilt" else 0.0 for name in names])
    np.testing.assert_allclose(
        bodies.poses(locked, np.zeros(1))["tip"][1], bodies.poses(free, at)["tip"][1], atol=1e-15
    )


INERTIA = 'ixx="2e-4" ixy="0" ixz="0" iyy="2e-4" iyz="0" izz="4e-4"'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('<robot name="rover">', "<robot name=>"), "is not XML"),
        (("</robot>", ""), "is not XML"),
        (('<robot name="rover">', '<model name="rover">'), "is not XML"),
        (('<link name="tip"/>', "<link/>"), "a link has no name"),
        (('<child link="left"/>', ""), "joint 'left_wheel' has no <child link=…>"),
        (('<child link="left"/>', '<child link="none"/>'), "joint 'left_wheel' is on 'none'"),
        (('<child link="left"/>', '<child link="right"/>'), "carries 'right', as does joint"),
        (('type="continuous"', 'type="rolling"'), "joint 'left_wheel' is of type 'rolling'"),
        (('xyz="0 0 1"', 'xyz="0 0 2"'), "axis of joint 'left_wheel' must have length one"),
        (('xyz="0 0 1"', 'xyz="0 0 one"'), "joint 'left_wheel' cannot be read"),
        (('xyz="0 0.2 0.1"', 'xyz="0 nan 0.1"'), "joint 'left_wheel': origin has entries that are not finite"),
        (('xyz="0 0.2 0.1"', 'xyz="0 0.2"'), "joint 'left_wheel'"),
        (('<mass value="0.2"/>', '<mass value="-1"/>'), "mass of link 'left' must not be negative"),
        (('<mass value="0.2"/>', ""), "link 'left' has no <mass value=…>"),
        (('<mass value="0.2"/>', '<mass value="much"/>'), "link 'left' cannot be read"),
        (('ixx="2e-4" ', ""), "link 'left' has no <inertia ixx=…>"),
        ((INERTIA, INERTIA.replace("4e-4", "-1")), "joint 'left_wheel' carries a body of indefinite inertia"),
        (('lower="-1" upper="1"', 'lower="2" upper="1"'), "joint 'tilt': limits of joint 'tilt'"),
        (('<parent link="mast"/>', '<parent link="tip"/>'), "in a cycle: 'tip' → 'tip'"),
        (('<parent link="base"/><child link="mast"/>', '<parent link="tip"/><child link="mast"/>'), "in a cycle"),
        (('name="right_wheel"', 'name="left_wheel"'), "two joints have the name 'left_wheel'"),
        (('name="right"', 'name="left"'), "link"),
        (('<axis xyz="0 1 0"/>', '<axis xyz="0 1 0"/><mimic joint="none"/>'), "joint 'tilt' mimics 'none'"),
        (('<box size="0.4 0.3 0.1"/>', '<box size="0.4 -0.3 0.1"/>'), "size of a box must be positive"),
        (('<robot name="rover">', '<!DOCTYPE r [<!ENTITY a "aa">]><robot name="rover">'), "declares entities"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        bodies.from_file(written(tmp_path, ROBOT, change))


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(gn.FileError, match="cannot be read"):
        bodies.read(tmp_path / "none.urdf")
    (tmp_path / "other.urdf").write_text("<model/>")
    with pytest.raises(gn.FileError, match="not <robot> or <mujoco>"):
        bodies.read(tmp_path / "other.urdf")
    with pytest.raises(ValueError, match=r"motors: \['none'\]"):
        bodies.from_file(written(tmp_path), motors=["none"])
    with pytest.raises(ValueError, match=r"locked: \['none'\]"):
        bodies.from_file(written(tmp_path), locked=["none"])

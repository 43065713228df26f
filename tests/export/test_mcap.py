"""Runs as MCAP files, read back by the reader of the package mcap."""

import json

import numpy as np
import pytest

import geonh as gn

reader = pytest.importorskip("mcap.reader", reason="MCAP files need the extra: pip install '.[mcap]'")


def messages(path):
    with open(path, "rb") as stream:
        found = reader.make_reader(stream)
        return [
            (schema.name, message.log_time, json.loads(message.data)) for schema, _, message in found.iter_messages()
        ]


@pytest.mark.slow
def test_a_file_has_the_columns_of_the_table_the_poses_and_the_shapes(tmp_path):
    entry = gn.systems.catalogue["chaplygin-sphere"]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=20, t0=3.0)
    found = messages(gn.export.mcap(run, tmp_path / "ball.mcap"))
    states = [(t, data) for name, t, data in found if name == "geonh.State"]
    frames = [data["transforms"] for name, _, data in found if name == "foxglove.FrameTransforms"]
    (scene,) = [data["entities"] for name, _, data in found if name == "foxglove.SceneUpdate"]
    table = run.to_pandas()
    assert [t for t, _ in states] == [round(2e7 * i) for i in range(21)]
    for i, (_, data) in enumerate(states):
        assert data == {name: v for name, v in table.iloc[i].items() if np.isfinite(v)}
    drawn = gn.drawing.scene(run)
    assert [entity["id"] for entity in scene] == [body.name for body in drawn.bodies]
    for body, *transforms in zip(drawn.bodies, *frames, strict=True):
        for i, transform in enumerate(transforms):
            q, x = (list(transform[key].values()) for key in ("rotation", "translation"))
            assert transform["child_frame_id"] == body.name
            np.testing.assert_allclose(x, body.x[i], atol=1e-15)
            np.testing.assert_allclose(gn.groups.quaternion_to_matrix(q, scalar_first=False), body.R[i], atol=1e-12)
    faces = sum(len(triangle["indices"]) for entity in scene for triangle in entity["triangles"])
    assert faces == 3 * sum(len(p.faces) for b in drawn.bodies for p in b.parts if b.is_curved or not b.is_ground)


def test_what_is_no_run_or_no_name_is_refused(tmp_path):
    run = gn.solve(gn.systems.suslov(), xi0=[0.3, 0.1, 0.0], dt=0.1, n_steps=3)
    with pytest.raises(gn.FileError, match=r"must end in \.mcap"):
        gn.export.mcap(run, tmp_path / "run.bag")
    with pytest.raises(TypeError, match="must be a Trajectory"):
        gn.export.mcap(1.0, tmp_path / "run.mcap")

"""Drawings: parts, poses, bodies along runs, and the arrows that covectors are in space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammainc

import geonh as gn
from geonh import rolling
from geonh.drawing import (
    Body,
    Pose,
    along,
    ball,
    box,
    cylinder,
    ground,
    line,
    link,
    momenta,
    planar,
    prism,
    scene,
    shifted,
    surface,
    turned,
)
from geonh.groups import SE2, SE3, SO3, Product, Torus, Translations
from geonh.systems import catalogue


def run(name, n=60, **options):
    entry = catalogue[name]
    system = entry.system(**options)
    start = entry.start(system)
    return gn.solve(system, xi0=start.xi0, g0=start.g0, dt=entry.dt, n_steps=n, controls=entry.controls)


def volume(part):
    """By the divergence theorem: right only if every triangle is there and faces outwards."""
    a, b, c = np.moveaxis(part.vertices[part.faces], 1, 0)
    return np.einsum("ni,ni->", a, np.cross(b, c)) / 6


@pytest.mark.parametrize(
    ("part", "expected", "rtol"),
    [
        (box(1.0, 2.0, 3.0), 6.0, 1e-14),
        (ball(0.5, 48), np.pi / 6, 5e-3),
        (ball([1.0, 2.0, 0.5], 48), 4 / 3 * np.pi, 5e-3),
        (surface(lambda n: 0.5 * n + jnp.array([3.0, 0, 0]), 48), np.pi / 6, 5e-3),
        (cylinder(0.5, 2.0, "x", 128), np.pi / 2, 1e-3),
        (cylinder(0.5, 2.0, "y", 128).moved(1.0, 2.0, 3.0), np.pi / 2, 1e-3),
        (prism([[0, 0], [2, 0], [2, 1], [0, 1]], 0.5), 1.0, 1e-14),
    ],
)
def test_solids_are_closed_and_face_outwards(part, expected, rtol):
    np.testing.assert_allclose(volume(part), expected, rtol=rtol)
    edges = np.sort(part.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert np.all(np.unique(edges, axis=0, return_counts=True)[1] <= 2)


def test_a_cylinder_lies_along_its_axis():
    for i, axis in enumerate("xyz"):
        np.testing.assert_allclose(np.ptp(cylinder(0.5, 3.0, axis).vertices, axis=0)[i], 3.0)


def test_poses():
    point = np.array([0.3, -0.2, 0.5])
    board = planar(0.4, 1.0, 2.0)
    wheel = board @ planar(0.1, 0.5)
    np.testing.assert_allclose(wheel.R, planar(0.5).R, atol=1e-14)
    np.testing.assert_allclose(wheel.x, board.R @ np.array([0.5, 0, 0]) + board.x, atol=1e-14)
    for i, axis in enumerate("xyz"):
        R = np.asarray(turned(axis, 0.3).R)
        np.testing.assert_allclose(R[i], np.eye(3)[i], atol=1e-15)
        np.testing.assert_allclose(np.cross(np.eye(3)[i], point), (R - R.T) @ point / (2 * np.sin(0.3)), atol=1e-14)
        pose = along(point, [1.0, 0, 0], axis)
        np.testing.assert_allclose(pose.R[:, i], point / np.linalg.norm(point), atol=1e-14)
        np.testing.assert_allclose(np.linalg.det(pose.R), 1.0)
        np.testing.assert_allclose(pose.R.T @ pose.R, np.eye(3), atol=1e-14)
    for b in (point, -point, [0, 0, 1.0], [0, 0, -1.0], [1.0, 1, 1]):
        string = link([1.0, 1, 1], b)
        np.testing.assert_allclose(string.R[:, 0] + string.x, b, atol=1e-14)


@pytest.mark.slow
def test_bodies_stand_where_the_run_says():
    made = run("snakeboard-absolute")
    seen = scene(made)
    (theta, x, y), (psi, phi) = made.g[0].T, made.g[1].T
    board, rear, _, rotor, _ = seen.bodies
    np.testing.assert_allclose(board.x[:, :2], np.stack([x, y], 1), atol=1e-14)
    axle = 0.5 * np.stack([np.cos(theta), np.sin(theta)], 1)
    np.testing.assert_allclose(rear.x[:, :2], board.x[:, :2] - axle, atol=1e-14)
    np.testing.assert_allclose(np.arctan2(rear.R[:, 1, 0], rear.R[:, 0, 0]), phi, atol=1e-13)
    np.testing.assert_allclose(rotor.R[:, 0, 0], np.cos(theta + psi), atol=1e-14)
    np.testing.assert_allclose(board.path, board.x)
    assert seen.is_flat
    few = scene(made, [0, 30])
    np.testing.assert_array_equal(few.bodies[0].x, board.x[[0, 30]])


@pytest.mark.parametrize("name", ["snakeboard", "snakeboard-absolute"])
def test_the_drawn_axles_of_the_snakeboard_do_not_slide_sideways(name):
    made = run(name)
    for axle in scene(made).bodies[1:3]:
        velocity = np.gradient(axle.x, made.t, axis=0, edge_order=2)
        sideways = np.einsum("ki,ki->k", velocity, axle.R[:, :, 1])
        assert np.abs(sideways).max() < 1e-3 * np.abs(velocity).max()


@pytest.mark.slow
def test_the_table_turns_at_its_rate():
    made = run("chaplygin-sphere", table_rate=0.7)
    table = scene(made).bodies[2]
    np.testing.assert_allclose(np.unwrap(np.arctan2(table.R[:, 1, 0], table.R[:, 0, 0])), 0.7 * made.t, atol=1e-13)


def test_momenta_are_what_they_are_called():
    """Force = mass × acceleration in space; angular momentum, moment and the first integrals against closed forms."""
    made = run("chaplygin-sleigh", 400)
    arrows, w = momenta(made), made.xi[:, 0]
    theta, u = made.g[:, 0], made.xi[:, 1]
    centre = u[:, None] * np.stack([np.cos(theta), np.sin(theta)], 1)
    centre += 0.2 * w[:, None] * np.stack([-np.sin(theta), np.cos(theta)], 1)
    acceleration = np.gradient(centre, made.dt, axis=0, edge_order=2)[1:-1]
    np.testing.assert_allclose(arrows.force[1:-1, :2], acceleration, atol=1e-4)  # the mass is 1
    np.testing.assert_allclose(arrows.angular[:, 2], 1.04 * w, atol=1e-13)  # about the blade
    np.testing.assert_allclose(arrows.about[:, :2], made.g[:, 1:], atol=1e-14)
    absolute = run("snakeboard-absolute")  # whose rear angle turns with the picture
    np.testing.assert_allclose(momenta(absolute).angular[:, 2], absolute.p[:, 0] + absolute.p[:, 4], atol=1e-13)


@pytest.mark.slow
def test_bodies_that_a_space_implies_have_no_momenta_but_multipliers():
    """A place relative to the body, of mass 1, held along x: as a place in space it would turn about the origin."""
    system = gn.System(
        Product([SE2(), Translations(2)]),
        metric=np.eye(5),
        distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0, 0.5, 0.2]]),
        base="point",
        name="own",
    )
    made = gn.solve(system, xi0=system.project(None, [0.3, 0.2, 0.1, 0.4, 0.5]), dt=0.05, n_steps=10)
    arrows = momenta(made)
    assert not any(map(np.any, (arrows.force, arrows.moment, arrows.angular)))
    assert np.abs(made.multipliers).max() > 1e-3
    assert any("multiplier" in axes.get_ylabel() for axes in made.plot().axes)


@pytest.mark.parametrize("name", ["chaplygin-sphere", pytest.param("rolling-ball", marks=pytest.mark.slow)])
def test_the_ball_is_held_at_its_contact(name):
    made = run(name)
    arrows, contact = momenta(made), np.array([0, 0, 1.0])
    about_contact = arrows.angular + np.cross(contact, np.column_stack([made.xi[:, :2], np.zeros(len(made))]))
    np.testing.assert_allclose(about_contact, made.integrals["K"], atol=1e-13)
    np.testing.assert_allclose(arrows.moment, np.cross(-contact, arrows.force), atol=1e-13)


@pytest.mark.slow
def test_momenta_of_the_other_spaces():
    made = run("heavy-top")
    np.testing.assert_allclose(momenta(made).angular, np.einsum("nij,nj->ni", made.g, made.p), atol=1e-13)
    for name in ("elroys-beanie", "snakeboard"):  # SE(2) and joints: the angular momentum of all bodies
        made = run(name)
        np.testing.assert_allclose(momenta(made).angular[:, 2], made.p[:, 0], atol=1e-13)
    made = run("nonholonomic-particle")
    np.testing.assert_allclose(momenta(made).angular, np.cross(made.g, made.p), atol=1e-12)  # about the origin


@pytest.mark.quick("space0", "space3")
@pytest.mark.parametrize(
    "space", [SE2(), SE3(), SO3(), Translations(3), [Translations(2), SO3()], [SE2(), SE2()], [SO3(), Torus(1)]]
)
def test_a_space_of_bodies_implies_a_drawing(space):
    group = Product(space) if isinstance(space, list) else space
    system = gn.System(group, metric=np.eye(group.dim), base="point", name="own")
    seen = scene(gn.solve(system, xi0=np.linspace(0.1, 0.5, group.dim), dt=0.1, n_steps=5))
    assert any(body.is_solid for body in seen.bodies)
    assert all(np.all(np.isfinite(corner)) for corner in seen.extent)
    assert any(np.ptp(body.R, axis=0).max() + np.ptp(body.x, axis=0).max() > 0.01 for body in seen.bodies)


def test_a_rolling_body_is_its_support_function_and_leaves_its_contact():
    disc = rolling.rolling(rolling.disc(0.5), np.diag([0.0625, 0.0625, 0.125]), 1.0, name="disc")
    with gn.float64():
        g = rolling.start(disc, turned("x", 1.2).R, (0.3, 0.2, 4.0))[0]
        body, contact, plane = disc.draw(0.0, g, disc.parameters)
    (part,) = body.parts
    radii = np.linalg.norm(part.vertices, axis=1)
    np.testing.assert_allclose(
        radii[1:-1][radii[1:-1] > 1e-12].max(), 0.5
    )  # a flat disc: rim, and middles of its faces
    assert np.abs(part.vertices[:, 2]).max() < 1e-12
    assert radii.min() < 1e-12
    lowest = (part.vertices @ np.asarray(body.at.R).T + body.at.x)[:, 2].min()
    np.testing.assert_allclose(lowest, contact.at.x[2], atol=5e-3)
    np.testing.assert_allclose(contact.at.x, [0, 0, 0], atol=1e-12)
    assert plane.parts[0].unbounded


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.user_precision
def test_drawings_of_marks_alone_or_of_nothing_that_moves():
    for bodies in ([Body("a", ground())], [Body("a", line([[0, 0], [1, 1]]))], [Body("a", at=shifted(1.0, 2.0))]):
        system = gn.System(SE2(), metric=np.ones(3), base="point", draw=lambda t, g, p, b=bodies: b, name="own")
        made = gn.solve(system, xi0=[1.0, 0.5, 0.2], dt=0.1, n_steps=3)
        low, high = scene(made).extent
        assert np.all(high >= low)
        np.testing.assert_array_equal(np.concatenate(momenta(made)), 0)
        made.plot()
        made.view()


@pytest.mark.slow
def test_what_cannot_be_drawn_says_so(tmp_path):
    def own(draw, group=None):
        group = group or SE2()
        system = gn.System(group, metric=np.ones(group.dim), base="point", draw=draw, name="own")
        return gn.solve(system, xi0=np.ones(group.dim), dt=0.1, n_steps=2)

    with pytest.raises(TypeError, match="draw must be a function of"):
        own("a picture")
    with pytest.raises(ValueError, match="has no drawing"):
        scene(own(None, Torus(2)))
    with pytest.raises(TypeError, match="must return a list"):
        scene(own(lambda t, g, p: None))
    with pytest.raises(TypeError, match="parts depend on g"):
        scene(own(lambda t, g, p: [Body("a", box(1 + g[0] ** 2, 1, 1))]))
    with pytest.raises(ValueError, match="two bodies of one name"):
        scene(own(lambda t, g, p: [Body("a"), Body("a")]))
    with pytest.raises(TypeError, match="at of body 'a' must be a Pose"):
        Body("a", at=[0, 0, 0])
    with pytest.raises(TypeError, match="parts of body 'a'"):
        Body("a", "box")
    for make in (lambda: box(1, 0, 1), lambda: ball(-1), lambda: cylinder(1, np.nan)):
        with pytest.raises(ValueError, match=r"must be (positive|finite)"):
            make()
    with pytest.raises(ValueError, match="axis must be"):
        cylinder(1, 1, "w")
    with pytest.raises(ValueError, match="outline must be"):
        prism([[0, 0], [1, 1]], 1)
    with pytest.raises(ValueError, match="points must be"):
        line([0, 1])
    path = own(None).save(tmp_path / "own.nc")
    with pytest.raises(ValueError, match=r"Trajectory\.load\(path, system"):
        scene(gn.Trajectory.load(path))


def test_a_file_of_the_catalogue_is_drawn_with_its_parameters(tmp_path):
    made = run("chaplygin-sphere", r=0.5)
    again = gn.Trajectory.load(made.save(tmp_path / "ball.nc"))
    np.testing.assert_array_equal(scene(again).bodies[0].x, scene(made).bodies[0].x)
    np.testing.assert_array_equal(momenta(again).force, momenta(made).force)


def test_a_drawing_changes_nothing_of_a_run():
    def system(**more):
        return gn.System(SE2(), metric=[1.0, 2.0, 3.0], base="point", name="own", **more)

    plain = gn.solve(system(), xi0=[1.0, 0.5, 0.2], dt=0.1, n_steps=5)
    drawn = gn.solve(
        system(draw=lambda t, g, p: [Body("a", ground()), Body("b", ball(1), at=shifted(*g[1:]))]),
        xi0=[1.0, 0.5, 0.2],
        dt=0.1,
        n_steps=5,
    )
    np.testing.assert_array_equal(plain.g, drawn.g)
    assert isinstance(drawn.system.draw(0.0, jnp.zeros(3), {})[1].at, Pose)


def test_a_disc_about_any_axis_is_round():
    """Of all its triangles the area is twice that of the circle, whichever way the axis points."""
    from geonh.rolling import disc

    for name, e in zip("xyz", np.eye(3), strict=True):
        part = surface(lambda n, e=e: disc(0.5, e).point(n), axis=name)
        a, b, c = (part.vertices[part.faces[:, i]] for i in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
        assert abs(area / (2 * np.pi * 0.25) - 1) < 0.01


SURFACES = {
    "cylinder": (lambda: rolling.cylinder(1.0), [1.0, 0, 0]),
    "bowl": (lambda: rolling.sphere(1.0), [0, 0, -1.0]),
    "waves": (lambda: lambda X: X[2] - 0.15 * jnp.sin(2 * X[0]) * jnp.cos(2 * X[1]), [0, 0, 0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_the_surface_a_body_rolls_on_is_drawn_about_its_path(name):
    make, place = SURFACES[name]
    ball = rolling.rolling(rolling.ball(0.2), [0.016] * 3, 1.0, on=make(), name=name)
    g, xi = rolling.start(ball, None, (1.0, 3.0, 2.0), place=place)
    seen = scene(gn.solve(ball, "rkmk4", g0=g, xi0=xi, dt=0.01, n_steps=40))
    body, contact, surface = seen.bodies
    (part,) = surface.parts
    assert surface.is_ground and surface.is_curved and not surface.is_solid and not seen.is_flat  # noqa: PT018
    psi, slope = jax.vmap(part.psi), jax.vmap(jax.grad(part.psi))
    with gn.float64():
        assert np.abs(psi(part.vertices)).max() < 1e-6  # of halvings, not of chords
        ends = part.vertices[part.faces]
        facing = np.einsum("fi,fi->f", np.cross(ends[:, 1] - ends[:, 0], ends[:, 2] - ends[:, 0]), slope(ends[:, 0]))
        assert np.all(facing > 0)  # towards the body
        assert np.abs(psi(np.concatenate(part.lines))).max() < 1e-6
    sides = np.sort(part.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert np.all(np.unique(sides, axis=0, return_counts=True)[1] <= 2)
    length = np.linalg.norm(part.vertices[sides[:, 0]] - part.vertices[sides[:, 1]], axis=1).max()
    for X in contact.path:  # the path lies on what is drawn
        assert np.linalg.norm(part.vertices - X, axis=1).min() < length
    for low, outer in zip(seen.extent, (np.minimum, np.maximum), strict=True):
        np.testing.assert_array_equal(low, outer.reduce([low, *part.vertices, *body.path]))


@pytest.mark.slow
def test_a_surface_that_is_not_there_and_one_that_moves():
    from geonh.drawing.level import fitted, level

    assert not len(fitted(level(lambda X: 1.0 + X @ X), -np.ones(3), np.ones(3)).faces)
    half = fitted(level(lambda X: jnp.sqrt(X[0]) - 0.5), -np.ones(3), np.ones(3))  # not a number where X₁ < 0
    np.testing.assert_allclose(half.vertices[:, 0], 0.25, atol=1e-6)
    rising = gn.time_dependent(lambda t, X: X[2] - 0.1 * t)
    ball = rolling.rolling(rolling.ball(0.2), [0.016] * 3, 1.0, on=rising, name="lift")
    g, xi = rolling.start(ball, None, (0.0, 1.0, 0.0))
    tangent = scene(gn.solve(ball, "rkmk4", g0=g, xi0=xi, dt=0.05, n_steps=10)).bodies[2]
    np.testing.assert_allclose(tangent.x[:, 2], 0.1 * np.arange(11) * 0.05, atol=1e-9)


@pytest.mark.slow
def test_a_trace_and_a_surface_may_be_written_in_jax():
    def draw(t, g, p):
        part = surface(lambda n: n * (1 + jnp.sort(n)[0] ** 2 + 0 * gammainc(1.0, n[1] ** 2)), 6)
        return [Body("a", part, at=shifted(*g), trace=jnp.stack([p["L"], 0.0, 0.0]))]

    system = gn.System(Translations(3), metric=np.eye(3), draw=draw, parameters={"L": 0.3})
    run = gn.solve(system, xi0=[1.0, 0.0, 0.0], dt=0.1, n_steps=2)
    (body,) = scene(run).bodies
    np.testing.assert_array_equal(body.path[:, 0], run.g[:, 0] + 0.3)
    normals = body.parts[0].vertices / np.linalg.norm(body.parts[0].vertices, axis=1)[:, None]
    np.testing.assert_allclose(body.parts[0].vertices, normals * (1 + normals.min(axis=1) ** 2)[:, None], atol=1e-12)

"""Runs of reduced and unreduced systems; what is refused; the library on reduced systems."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import linearise, nonholonomic_connection, periodic_orbit, reduce, steady_motion
from geonh.analysis.rebased import rebased
from geonh.control import closed_loop
from geonh.geometry.action import GroupBase, PointBase, ShapeBase
from geonh.geometry.cosets import Cosets, Representative
from geonh.groups import SE2, SE3, SO3, Heisenberg, Opposite, Product, Torus, Translations
from geonh.mechanics import symmetries

WITH_SYMMETRY = [
    *("nonholonomic-particle", "snakeboard", "snakeboard-absolute", "controlled-snakeboard", "chaplygin-sleigh"),
    *("elroys-beanie", "rolling-ball", "suslov", "knife-edge", "vertical-disk", "roller-racer", "heisenberg"),
    *("heisenberg-group", "veselova", "heavy-top", "rolling-disc", "eulers-disc", "rattleback", "routh-sphere"),
    *("sphere-in-cylinder", "two-wheeled-robot", "robot-with-trailers", "spherical-robot", "whipple-bicycle"),
]
CHAPLYGIN = {
    "nonholonomic-particle": {},
    "vertical-disk": {},
    "rolling-ball": {"table_rate": 0.0},
    "chaplygin-sphere": {"table_rate": 0.0},
    "knife-edge": {},
    "heisenberg": {},
    "two-wheeled-robot": {},
    "spherical-robot": {},
    "snakeboard": {},
}


def same(g):
    return g


def unreduced(system):
    """The system with the whole group as its base."""
    return rebased(system, GroupBase(system.group), same, "unreduced")


def difference(run, other):
    return max(np.abs(run.g_vector - other.g_vector).max(), np.abs(run.xi - other.xi).max())


@pytest.mark.parametrize("name", WITH_SYMMETRY)
@pytest.mark.quick("heavy-top")
def test_a_run_does_not_depend_on_the_base(name):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    whole = unreduced(system)
    start = entry.start(system)
    options = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "n_steps": 100, "controls": entry.controls}
    reduction = reduce(whole)
    assert not isinstance(reduction.system.action, GroupBase)
    run = gn.solve(reduction.system, "gauss6", **options)
    exact = gn.solve(whole, "gauss6", **options)
    assert difference(run, exact) < 1e-12
    assert difference(reduction.lift(run), exact) < 1e-12


def test_every_system_with_a_symmetry_is_tested():
    tested = {*WITH_SYMMETRY, "chaplygin-sphere"}
    others = set(gn.systems.catalogue) - tested
    assert others == {
        *("nonholonomic-oscillator", "contact-oscillator", "contact-oscillator-nonreversible", "double-pendulum"),
    }
    for name in ("nonholonomic-oscillator", "contact-oscillator", "contact-oscillator-nonreversible"):
        assert not len(symmetries(gn.systems.catalogue[name].system()))


@pytest.mark.parametrize("name", CHAPLYGIN)
@pytest.mark.quick("nonholonomic-particle")
def test_the_lift_from_shapes_is_the_motion(name):
    entry = gn.systems.catalogue[name]
    system = entry.system(**CHAPLYGIN[name])
    g, xi = entry.start(system)
    reduction = reduce(system, eliminate=True)
    assert not reduction.system.is_constrained
    assert reduction.system.group.dim == system.group.dim - len(system.annihilator(system.at(system.point(g), 0.0)))
    below = reduction.start(g, xi)
    options = {"dt": min(entry.dt, 0.02), "n_steps": 100, "controls": entry.controls}
    run = gn.solve(reduction.system, "gauss6", g0=below.g0, xi0=below.xi0, **options)
    exact = gn.solve(system, "gauss6", g0=g, xi0=xi, **options)
    lifted = reduction.lift(run, g)
    assert difference(lifted, exact) < 1e-12
    assert np.abs(lifted.constraint_residual).max() < 1e-12
    np.testing.assert_allclose(lifted.energy, exact.energy, atol=1e-12 * (1 + np.abs(exact.energy).max()))
    for integral, values in run.integrals.items():
        np.testing.assert_allclose(values, exact.integrals[integral], atol=1e-12, err_msg=integral)


def of_rotation(x):
    return x[0, :3] + 0.3 * x[1, :3]


def about_a_point(x):
    c, s = jnp.cos(x[0]), jnp.sin(x[0])
    return jnp.stack([c * (x[1] - 0.8) + s * (x[2] - 0.3), -s * (x[1] - 0.8) + c * (x[2] - 0.3)])


RANDOM = {
    "a group over a plane": (Product((SE2(), Translations(2))), np.eye(5)[:3], lambda x: x[1]),
    "translations of SE(2)": (
        Product((SE2(), Torus(1))),
        np.eye(4)[1:3],
        lambda x: jnp.concatenate([x[0][:1], x[1]]),
    ),
    "translations of SE(3)": (SE3(), np.eye(6)[3:], of_rotation),
    "rotations about a point": (SE2(), np.array([[1.0, 0.3, -0.8]]), about_a_point),
    "a direction of space": (
        Translations(4),
        np.array([[1.0, 2.0, 0.0, 0.0]]),
        lambda x: jnp.stack([2 * x[0] - x[1], x[2], x[3]]),
    ),
    "an opposite group": (Product((SO3(), Opposite(SO3()))), np.eye(6)[:3], lambda x: x[1][:, 1]),
    "the Heisenberg group": (Product((Heisenberg(), Torus(2))), np.eye(5)[:3], lambda x: x[1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", RANDOM)
def test_random_chaplygin_systems(name, seed):
    # metric, forms, potential and forces that depend on the shape, by features of it
    group, symmetry, shape = RANDOM[name]
    rng, n = np.random.default_rng(seed), group.dim
    forms = 2 * symmetry + rng.normal(size=symmetry.shape)  # clearly transverse: digits are lost otherwise
    varying = 0.3 * rng.normal(size=symmetry.shape)
    root, turned, weights = rng.normal(size=(n, n)), 0.2 * rng.normal(size=(n, n)), rng.normal(size=(2, 4))

    def features(x):
        s = shape(x)
        return jnp.sin(weights[0, : len(s)] @ s), jnp.cos(weights[1, : len(s)] @ s)

    def rows(x):
        a, b = features(x)
        return forms + a * varying + 0.2 * b * varying[:, ::-1]

    def metric(x):
        A = root + turned * features(x)[1]
        return A @ A.T + jnp.eye(n)

    def potential(x):
        a, b = features(x)
        return a + 0.5 * a * b

    def forces(t, x, xi, u):
        a, b = features(x)
        return 0.1 * jnp.cos(t) * a * jnp.ones(n) - 0.05 * xi + 0.1 * b

    system = gn.System(group, metric=metric, distribution=gn.Distribution(rows), potential=potential, forces=forces)
    reduction = reduce(system, symmetry, eliminate=True)
    with gn.float64():
        g = _as_numpy(group.exp(jnp.asarray(0.2 * rng.normal(size=n))))
    xi = np.asarray(system.project(g, 0.5 * rng.normal(size=n)))
    below = reduction.start(g, xi)
    run = gn.solve(reduction.system, "gauss6", g0=below.g0, xi0=below.xi0, dt=0.005, n_steps=60)
    exact = gn.solve(system, "gauss6", g0=g, xi0=xi, dt=0.005, n_steps=60)
    assert difference(reduction.lift(run, g), exact) < 1e-12


def _as_numpy(g):
    return tuple(np.asarray(part) for part in g) if isinstance(g, tuple) else np.asarray(g)


@functools.cache
def disk():
    """A disk with a moment of inertia that is not symmetric: forces, and a potential of the angles."""

    def forces(t, x, xi, u):
        return jnp.stack([0.1 * jnp.cos(t), 0.2, 0.0, 0.3 * jnp.sin(x[0]) - 0.05 * xi[3]])

    return gn.System(
        Product((SE2(), Torus(1, ("psi",)))),
        metric=[[0.3, 0.05, 0.0, 0.1], [0.05, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.2], [0.1, 0.0, 0.2, 0.5]],
        distribution=gn.Distribution([[0.0, 1.0, 0.0, -0.7], [0.2, 0.0, 1.0, 0.0]]),
        potential=lambda x, p: p["k"] * jnp.cos(x[0]),
        forces=forces,
        parameters={"k": 0.4},
        base=("psi",),
        name="disk",
    )


@pytest.mark.slow
def test_forces_are_pulled_back_and_parameters_stay():
    system = disk().with_parameters(k=0.9)
    reduction = reduce(disk(), eliminate=True)
    assert reduction.system.action.names == ("psi",)
    g, xi = (np.array([0.3, 1.0, -2.0]), np.array([0.4])), system.project(None, [0.8, 0.0, 0.0, 1.0])
    below = reduction.start(g, xi)
    below = {"g0": below.g0, "xi0": below.xi0, "dt": 0.02, "n_steps": 40}
    changed = reduction.system.with_parameters(k=0.9)
    exact = gn.solve(system, "gauss6", g0=g, xi0=xi, dt=0.02, n_steps=40)
    for save_every in (1, 8):
        lifted = reduction.lift(gn.solve(changed, "gauss6", **below, save_every=save_every), g)
        assert np.abs(lifted.g_vector - exact.g_vector[::save_every]).max() < 1e-12
        assert np.abs(lifted.xi - exact.xi[::save_every]).max() < 1e-12


def carried(**parameters):
    """A particle with ż = ayẋ on a spring."""
    return gn.System(
        Translations(3),
        metric=[1.0, 2.0, 0.5],
        distribution=gn.Distribution(lambda x, p: jnp.stack([-p["a"] * x[1], 0.0, 1.0])[None]),
        potential=lambda x, p: 0.5 * p["k"] * x[0] ** 2,
        parameters={"a": 1.3, "k": 1.0, **parameters},
        base=("x", "y"),
        name="carried",
    )


@pytest.mark.slow
def test_a_lift_has_the_parameters_of_its_run():
    system = carried()
    other = system.with_parameters(a=0.4, k=3.0)
    reduction, g0 = reduce(system, eliminate=True), np.array([0.5, 0.2, 1.0])
    xi0 = other.project(g0, [0.3, 0.7, 0.0])
    below = reduction.system.with_parameters(a=0.4, k=3.0)
    run = gn.solve(below, "gauss6", g0=g0[:2], xi0=xi0[:2], dt=0.02, n_steps=20)
    exact = gn.solve(other, "gauss6", g0=g0, xi0=xi0, dt=0.02, n_steps=20)
    lifted = reduction.lift(run, g0)
    assert difference(lifted, exact) < 1e-12
    np.testing.assert_allclose(lifted.energy, exact.energy, atol=1e-12)
    at_times = gn.solve(below, "gauss6", g0=g0[:2], xi0=xi0[:2], dt=0.02, n_steps=20, t_eval=[0.0, 0.13])
    with pytest.raises(ValueError, match="not those of t_eval"):
        reduction.lift(at_times, g0)
    np.testing.assert_allclose(reduction.phase(run)[2], exact.g[-1, 2] - g0[2], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [1, 4])
def test_a_lift_has_the_events_of_its_run(save_every):
    system, g0 = carried(), np.array([0.5, 0.2, 1.0])
    reduction, xi0 = reduce(system, eliminate=True), system.project(g0, [-0.9, 0.7, 0.0])
    states = {"shapes": {"g0": g0[:2], "xi0": xi0[:2]}, "all": {"g0": g0, "xi0": xi0}}
    for stop in (False, True):
        events = [
            gn.Event(lambda t, g, xi, lam: g[0], name="middle", stop=stop),
            gn.Event(lambda t, g, xi, lam: g[1] - 0.5, name="line"),
        ]
        options = {"method": "gauss6", "dt": 0.02, "n_steps": 50, "events": events, "save_every": save_every}
        run, exact = (
            gn.solve(own, **options, **states[name]) for own, name in ((reduction.system, "shapes"), (system, "all"))
        )
        lifted = reduction.lift(run, g0)
        assert lifted.message == exact.message
        np.testing.assert_allclose(lifted.g_vector, exact.g_vector, atol=1e-12)
        assert [len(exact.events[name].t) for name in ("middle", "line")] == [1, 1]
        for name, section in exact.events.items():
            for field in ("t", "g", "xi", "multipliers"):
                np.testing.assert_allclose(
                    getattr(lifted.events[name], field), getattr(section, field), atol=1e-11, err_msg=field
                )


@pytest.mark.slow
def test_a_reduction_with_other_parameters():
    """Its start is that of these; symmetries that end with them are named, also where a run is lifted."""
    tilted = gn.System(
        Translations(3),
        metric=[1.0, 2.0, 0.5],
        distribution=gn.Distribution(lambda x, p: jnp.stack([-p["a"] * x[1], 0.0, 1.0])[None]),
        potential=lambda x, p: p["tilt"] * x[2],
        parameters={"a": 1.3, "tilt": 0.0},
        name="tilted",
    )
    reduction = reduce(tilted, [0.0, 0.0, 1.0], eliminate=True)
    g0, other = np.array([0.5, 0.2, 1.0]), reduction.with_parameters(a=0.4)
    xi0 = other.original.project(g0, [0.3, 0.7, 0.0])
    np.testing.assert_allclose(other.start(g0, xi0).xi0, xi0[:2], atol=1e-15)
    with pytest.raises(ValueError, match=r"breaks the constraints of tilted by 0\.05"):
        reduction.start(g0, xi0)
    with pytest.raises(ValueError, match="symmetry has elements that are not symmetries of tilted"):
        reduction.with_parameters(tilt=0.1)
    run = gn.solve(reduction.system.with_parameters(tilt=0.1), xi0=[0.3, 0.7], dt=0.01, n_steps=2)
    with pytest.raises(ValueError, match="symmetry has elements that are not symmetries of tilted"):
        reduction.lift(run)
    with pytest.raises(ValueError, match="no parameter 'tild'; did you mean"):
        reduction.with_parameters(tild=0.1)
    with pytest.raises(ValueError, match="no state to go on from"):
        gn.resume(reduction.lift(gn.solve(reduction.system, xi0=[0.3, 0.7], dt=0.01, n_steps=2)), n_steps=1)


def of_height(x, p):
    return p["k"] * x[2, 2]


@pytest.mark.slow
def test_a_lift_to_the_whole_group_has_the_parameters_of_its_run(tmp_path):
    def top(*moments):
        return gn.System(SO3(), metric=moments, potential=of_height, parameters={"k": 1.0}, name="top")

    reduction = reduce(top(1.0, 2.0, 3.0))
    options = {"xi0": [0.1, 0.2, 2.0], "dt": 0.02, "n_steps": 3}
    run = gn.solve(reduction.system.with_parameters(k=3.0), "rkmk4", **options)
    np.testing.assert_allclose(reduction.lift(run).energy, run.energy, atol=1e-14)
    run.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="nor one from a file"):
        reduction.lift(gn.Trajectory.load(tmp_path / "run.nc"))
    with pytest.raises(ValueError, match="not of another: metric: 3 there, 5 here"):
        reduce(top(1.0, 2.0, 5.0)).lift(run)


@pytest.mark.slow
def test_the_error_of_the_lift_is_of_order_six():
    reduction = reduce(gn.systems.chaplygin_sphere(table_rate=0.0), eliminate=True)
    state = {"g0": np.asarray(SO3().exp([0.3, -0.2, 0.5])), "xi0": [2.0, -1.0, 1.5]}
    ends = [
        reduction.lift(gn.solve(reduction.system, "gauss6", **state, dt=1.6 / n, n_steps=n)).g_vector[-1]
        for n in (8, 16, 32, 64, 256)
    ]
    errors = np.array([np.abs(end - ends[-1]).max() for end in ends[:-1]])
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 6.0, atol=0.35)
    assert abs(np.polyfit(np.log([1.0, 0.5, 0.25, 0.125]), np.log(errors), 1)[0] - 6.0) < 0.2


@functools.cache
def particle():
    """A particle with ż = yẋ in a harmonic potential, light in the direction z, reduced to (x, y)."""
    system = gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1e-9],
        distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]),
        potential=lambda x: 0.5 * (x[0] ** 2 + x[1] ** 2),
        base=("x", "y"),
        name="particle",
    )
    return reduce(system, eliminate=True)


@pytest.mark.slow
def test_the_phase_of_a_loop_is_that_of_the_connection():
    reduction = particle()  # a loop of shapes moves z by ∮ y dx
    run = gn.solve(reduction.system, "gauss6", g0=[1.0, 0.0], xi0=[0.0, 0.5], dt=2 * np.pi / 200, n_steps=200)
    np.testing.assert_allclose(run.g[-1], [1.0, 0.0], atol=1e-7)
    phase = reduction.phase(run)
    np.testing.assert_allclose(phase, [0.0, 0.0, -np.pi * 0.5], atol=1e-7)
    lifted = reduction.lift(run, [1.0, 0.0, 0.3])
    np.testing.assert_allclose(lifted.g[-1] - lifted.g[0], phase, atol=1e-7)


@pytest.mark.parametrize(
    ("group", "algebra", "size"),
    [
        (SO3(), [[0.3, 0.4, -0.5]], 1),
        (Opposite(SO3()), [[0.0, 1.0, 0.2]], 1),
        (SE2(), [[0.0, 0.6, 0.8]], 1),
        (SE2(), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 2),
        (SE2(), [[1.0, 0.3, -0.2]], 1),
        (SE3(), [[0.0, 0.0, 1.0, 0.3, -0.7, 0.0]], 1),
        (SE3(), [[0.0, 0.0, 1.0, 0.0, 0.0, 0.4]], 0),
        (SE3(), [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0], *np.eye(6)[3:5]], 3),
        (SE3(), [[0.0, 0.0, 1.0, 0.3, 0.0, 0.4], *np.eye(6)[3:]], 4),
        (SE3(), [[0.0, 0.0, 1.0, 0.0, 0.0, 0.4], *np.eye(6)[3:5]], 2),
        (SE3(), np.eye(6)[:3], 3),
        (SE3(), np.eye(6)[3:5], 2),
        (Translations(3), [[1.0, 2.0, 0.0]], 1),
        (Heisenberg(), [[0.0, 0.0, 1.0]], 0),
        (
            Product((SE2(), Torus(2))),
            [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]],
            2,
        ),
    ],
)
def test_cosets(group, algebra, size):
    rng = np.random.default_rng(0)
    with gn.float64():
        cosets = Cosets(group, np.array(algebra))
        assert len(cosets.algebra) == size
        g, W, V = (group.exp(jnp.asarray(rng.normal(size=group.dim))) for _ in range(3))
        h = group.exp(jnp.asarray(rng.normal(size=size) @ cosets.algebra))
        flat = lambda x: np.concatenate([np.ravel(leaf) for leaf in _leaves(x)])  # noqa: E731
        x = cosets.at(g)
        np.testing.assert_allclose(flat(cosets.at(group.compose(h, g))), flat(x), atol=1e-13)
        np.testing.assert_allclose(flat(cosets.at(Representative(cosets)(x))), flat(x), atol=1e-13)
        np.testing.assert_allclose(flat(cosets.act(x, W)), flat(cosets.at(group.compose(g, W))), atol=1e-13)
        both = cosets.act(cosets.act(x, W), V)
        np.testing.assert_allclose(flat(both), flat(cosets.act(x, group.compose(W, V))), atol=1e-13)
        moved = group.compose(Representative(cosets)(x), group.inverse(g))  # an element of H
        stays = flat(cosets.at(group.compose(moved, W))) - flat(cosets.at(W))
        np.testing.assert_allclose(stays, 0.0, atol=1e-13)


def _leaves(x):
    return [x] if not isinstance(x, tuple) else [leaf for entry in x for leaf in _leaves(entry)]


@pytest.mark.slow
def test_what_the_base_becomes():
    def base(system, *symmetry):
        return reduce(system, *symmetry).system.action

    assert isinstance(base(unreduced(gn.systems.suslov())), PointBase)
    assert base(unreduced(gn.systems.roller_racer())).names == ("phi",)
    knife = base(unreduced(gn.systems.knife_edge()))
    assert isinstance(knife, ShapeBase)
    assert knife.names == ("x", "phi")
    assert nonholonomic_connection(reduce(unreduced(gn.systems.elroys_beanie())).system).shape == ("psi",)
    top = reduce(unreduced(gn.systems.heavy_top())).system
    R = np.asarray(SO3().exp([0.4, 0.2, -0.3]))
    np.testing.assert_allclose(top.at(R), R[2], atol=1e-15)


def pushed_by_one(t, x, xi, u):
    return jnp.concatenate([u, jnp.zeros(1)]) * jnp.sin(x[0])


def pushed_by_two(t, x, xi, u):
    return jnp.stack([u[0] * jnp.sin(x[0]), u[1]])


def pushed_by_a_number(t, x, xi, u):
    return jnp.stack([u * jnp.sin(x[0]), 0.0])


@pytest.mark.slow
def test_a_lift_where_symmetries_are_tangent_to_the_constraints_is_refused():
    particle = gn.System(
        Translations(3), metric=[1.0, 1.0, 1.0], distribution=gn.Distribution(lambda x: [[-x[0], 0.0, 1.0]]), base=["y"]
    )
    reduction = reduce(particle, [1.0, 0.0, 0.0], eliminate=True)
    run = gn.solve(reduction.system, "rkmk4", g0=[1e-7, 0.0], xi0=[0.0, 1e-9], dt=1e-3, n_steps=2)
    with pytest.raises(ValueError, match="the symmetries are tangent to the constraints of"):
        reduction.lift(run)


@pytest.mark.quick("options0-walled reduced")
@pytest.mark.parametrize(("options", "name"), [({}, "walled reduced"), ({"eliminate": True}, "to shapes")])
def test_a_lift_is_refused_where_a_force_breaks_the_symmetry(options, name):
    """A wall at x = 3, which random states about the identity do not meet; before it the lift is the motion."""

    def wall(t, q, xi, u):
        return jnp.stack([-100 * jnp.maximum(q[0] - 3.0, 0.0) ** 3, 0.0, 0.0])

    forms = gn.Distribution(lambda q: [[-q[1], 0.0, 1.0]])
    walled = gn.System(Translations(3), metric=[1.0, 1.0, 1.0], distribution=forms, forces=wall, name="walled")
    reduction, start = reduce(walled, **options), {"g0": [0.0, 0.5, 0.0], "xi0": [1.0, 0.3, 0.5]}
    state = reduction.start(**start)
    run = gn.solve(reduction.system, "gauss6", g0=state.g0, xi0=state.xi0, dt=0.05, n_steps=120)
    with pytest.raises(ValueError, match=rf"walled has other accelerations than .*{name}"):
        reduction.lift(run)
    before = gn.solve(reduction.system, "gauss6", g0=state.g0, xi0=state.xi0, dt=0.05, n_steps=40)
    lifted, own = reduction.lift(before, start["g0"]), gn.solve(walled, "gauss6", **start, dt=0.05, n_steps=40)
    assert own.g[-1, 0] < 3
    np.testing.assert_allclose(lifted.g, own.g, atol=1e-9)


@pytest.mark.slow
def test_forces_of_controls_are_compared_at_the_times_of_nodes():
    """Of a run whose steps a tolerance chose: a wall switched on late is seen, one switched off early is not."""

    def wall(t, q, xi, u):
        return jnp.stack([-jnp.maximum(q[0] - 5.0, 0.0) * u])

    walled = gn.System(Translations(1), metric=[1.0], forces=wall, name="walled")
    reduction, options = reduce(walled), {"xi0": [1.0], "t_end": 10.0, "tolerance": 1e-9}
    late = gn.solve(reduction.system, controls=lambda t: jnp.where(t > 4.0, 1.0, 0.0), **options)
    with pytest.raises(ValueError, match="walled has other accelerations"):
        reduction.lift(late)
    early = gn.solve(reduction.system, controls=lambda t: jnp.where(t < 2.0, 1.0, 0.0), **options)
    np.testing.assert_allclose(reduction.lift(early).g[-1], 10.0, rtol=1e-12)


@pytest.mark.slow
def test_a_lift_through_tangent_symmetries_is_refused():
    """The axles of a snakeboard pass the straight position between two nodes."""
    board = closed_loop(gn.systems.controlled_snakeboard(), lambda t, g, xi: -2.0 * g[1] - xi[3:])
    g0 = ([0.0] * 3, [0.3, 0.2])
    reduction, xi0 = reduce(board, eliminate=True), board.project(g0, [0.1, 0.2, 0.0, 0.3, 0.1])
    state = reduction.start(g0, xi0)
    run = gn.solve(reduction.system, "rkmk4", g0=state.g0, xi0=state.xi0, dt=0.01, n_steps=150)
    with pytest.raises(ValueError, match="or in the step from there, the symmetries are tangent"):
        reduction.lift(run)
    early = gn.solve(reduction.system, "gauss6", g0=state.g0, xi0=state.xi0, dt=0.01, n_steps=60)
    own = gn.solve(board, "gauss6", g0=g0, xi0=xi0, dt=0.01, n_steps=60)
    np.testing.assert_allclose(reduction.lift(early, g0).g_vector, own.g_vector, atol=1e-11)


@pytest.mark.slow
def test_what_is_refused():
    veselova, sphere = gn.systems.veselova(), gn.systems.chaplygin_sphere(table_rate=0.0)
    with pytest.raises(ValueError, match="not symmetries of veselova"):
        reduce(veselova, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"shape \[s, 3\]"):
        reduce(veselova, [1.0, 0.0])
    with pytest.raises(ValueError, match="subalgebra"):
        reduce(gn.systems.suslov(), np.eye(3)[:2])
    with pytest.raises(ValueError, match="no 1 of them"):
        reduce(veselova, eliminate=True)
    with pytest.raises(ValueError, match="one element in each coset"):
        reduce(veselova, [0.0, 0.0, 1.0], eliminate=True)
    with pytest.raises(ValueError, match="1 symmetries for 2 constraints"):
        reduce(sphere, [1.0, 0.0, 0.0, 0.0, 0.0], eliminate=True)
    with pytest.raises(ValueError, match="no constraints to eliminate"):
        reduce(gn.systems.heavy_top(), eliminate=True)
    with pytest.raises(ValueError, match="affine constraints"):
        reduce(gn.systems.rolling_ball(), eliminate=True)
    with pytest.raises(ValueError, match="combine factors"):
        reduce(gn.systems.snakeboard_absolute(), [1.0, 0.0, 0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no symmetries"):
        reduce(gn.systems.contact_oscillator())
    for pushed in (pushed_by_one, pushed_by_two, pushed_by_a_number):
        driven = gn.System(Translations(2), metric=[1.0, 1.0], forces=pushed, name="driven")
        assert reduce(driven).system.action.names == ("x",)
        with pytest.raises(ValueError, match="not symmetries of driven and its forces"):
            reduce(driven, [1.0, 0.0])
    reduction = reduce(gn.systems.nonholonomic_particle(), eliminate=True)
    with pytest.raises(ValueError, match="breaks the constraints"):
        reduction.start([0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    run = gn.solve(reduction.system, "gauss6", xi0=[1.0, 0.5], dt=0.1, n_steps=2)
    with pytest.raises(ValueError, match="another shape"):
        reduction.lift(run, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="must be of"):
        reduction.lift(reduction.lift(run))
    with pytest.raises(TypeError, match="Trajectory"):
        reduction.lift(1.0)


@functools.cache
def sleigh_like():
    """Sphere reduced to SO(3) over γ."""
    return reduce(gn.systems.chaplygin_sphere(J=(0.5, 0.6, 0.8), table_rate=0.0), eliminate=True)


@pytest.mark.slow
def test_stability_of_the_reduced_sphere(tmp_path):
    system, spin, k = sleigh_like().system, 2.0, 1.0
    motion = steady_motion(system, None, [0.0, 0.0, spin])
    found = np.sort_complex(linearise(system, motion.g, motion.xi, keep_family=True).eigenvalues)
    # δ(ω₁, ω₂, γ₁, γ₂) of K̇ = K×ω, γ̇ = γ×ω, K = Jω + mr²(ω − γ(γ·ω)), at γ = e₃, ω = Ωe₃
    A, B, C = 0.5, 0.6, 0.8
    mass = np.array([[A + k, 0, -k * spin, 0], [0, B + k, 0, -k * spin], [0, 0, 1, 0], [0, 0, 0, 1]])
    right = np.zeros((4, 4))
    right[0] = spin * mass[1] - [0, C * spin, 0, 0]
    right[1] = [C * spin, 0, 0, 0] - spin * mass[0]
    right[2], right[3] = [0, -1, 0, spin], [1, 0, -spin, 0]
    expected = np.linalg.eigvals(np.linalg.solve(mass, right))
    swinging = found[np.abs(found) > 1e-6]
    assert len(swinging) == 2
    for value in swinging:
        assert np.abs(expected - value).min() < 1e-9
    built = gn.export.build(system, "rkmk4", tmp_path / "sphere", xi0=[0.1, 0.2, spin], dt=0.05)
    assert built is not None


@pytest.mark.slow
def test_orbits_and_control_of_reduced_systems():
    reduction = reduce(gn.systems.two_wheeled_robot(), eliminate=True)
    plan = gn.control.optimal_control(
        reduction.system, start=[0.0, 0.0], end=[1.0, 2.0], xi_end=[0.0, 0.0], n_controls=2, span=1.0, n_steps=20
    )
    lifted = reduction.lift(plan.trajectory())
    np.testing.assert_allclose(lifted.g[1][-1], [1.0, 2.0], atol=1e-8)
    assert np.abs(lifted.constraint_residual).max() < 1e-10
    assert np.ptp(lifted.integrals["heading"]) < plan.error  # of the steps of RKMK(4)
    orbit = periodic_orbit(particle().system, [1.0, 0.0], [0.0, 0.5], 6.2, tol=1e-9)
    assert abs(orbit.period - 2 * np.pi) < 1e-7

"""Contacts of any system that lift and land: against impacts, exact flights, the modes of rolling bodies, and laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import geonh as gn
from geonh import rolling
from geonh.bodies import Joint, Link, Rolling, Wheel, tree
from geonh.groups import Translations
from geonh.integrators import Result
from geonh.rolling import slipping

GRAVITY = 9.81
LENGTH, INERTIA = 0.5, 0.1


def foot(x, at=-LENGTH):
    return jnp.stack([x[0] - at * jnp.sin(x[2]), x[1] + at * jnp.cos(x[2])])


def rod(ends=(-LENGTH,), mass=1.0):
    """Rod in a vertical plane, its ends on the ground: x, height, angle."""
    return gn.System(
        Translations(3),
        metric=[mass, mass, INERTIA],
        potential=lambda x: mass * GRAVITY * x[1],
        holonomic=lambda x: jnp.stack([foot(x, at)[1] for at in ends]),
        distribution=gn.Distribution(
            forms=lambda x: jnp.stack([jnp.stack([1.0, 0.0, -at * jnp.cos(x[2])]) for at in ends])
        ),
        name="rod",
    )


def ball(radius=0.2, mass=1.0):
    """Ball that stays in a vertical plane, as a system on R³."""
    return gn.System(
        Translations(3),
        metric=[mass, mass, 0.4 * mass * radius**2],
        potential=lambda x: mass * GRAVITY * x[1],
        holonomic=lambda x: jnp.stack([x[1] - radius]),
        distribution=gn.Distribution([[1.0, 0.0, -radius]]),  # forward is a positive angle
        name="ball",
    )


def targets(run):
    return [run.switches.names[i] for i in run.switches.target]


def test_landing_is_the_collision_of_that_contact():
    system = rod()
    modes = slipping(system, {"foot": (0, 0.4, 0)}, restitution=0.5)
    run = gn.solve(modes, "rkmk4", mode="foot free", g0=[0.0, 1.0, 0.3], xi0=[0.5, 0.0, 1.0], dt=0.002, n_steps=400)
    assert run.status == Result.SUCCESS
    assert targets(run) == ["foot free"]
    t = run.switches.t[0]
    exact = np.array([0.5 * t, 1.0 - GRAVITY * t**2 / 2, 0.3 + t])  # a flight
    assert abs(exact[1] - LENGTH * np.cos(exact[2])) < 1e-11
    contact = np.stack([[0.0, 1.0, LENGTH * np.sin(exact[2])], [1.0, 0.0, LENGTH * np.cos(exact[2])]])
    free = gn.System(Translations(3), metric=[1.0, 1.0, INERTIA])
    after = gn.mechanics.collision(
        free, exact, [0.5, -GRAVITY * t, 1.0], contact[:1], contact[None, 1:], friction=0.4, restitution=0.5
    )
    np.testing.assert_allclose(run.switches.xi_after[0], after.xi, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("spin", "friction"), [(0.0, 0.3), (-12.0, 0.3), (25.0, (0.5, 0.2)), (8.0, 0.05)])
def test_thrown_ball_agrees_with_the_one_that_rolls(spin, friction):
    radius, e, height = 0.2, 0.6, 0.5
    modes = slipping(ball(radius), {"ball": (0, friction, 0)}, restitution=e)
    how = dict(dt=0.0025, n_steps=1000)
    run = gn.solve(modes, "gauss6", mode="ball free", g0=[0.0, height, 0.0], xi0=[2.0, 1.0, spin], **how)
    other = rolling(rolling.ball(radius), [0.4 * radius**2] * 3, 1.0, friction=friction, restitution=e)
    # x along the first axis; a turn by +θ of the ball is one about the second axis by −θ where forward is +θ
    place = np.eye(4)
    place[2, 3] = height
    start = {"g0": place, "xi0": [0.0, -spin, 0.0, 2.0, 0.0, 1.0]}
    body = gn.solve(other, "gauss6", mode="free", **start, **how)
    assert run.status == body.status == Result.SUCCESS
    words = {"grip": "roll", "ball slips": "slide", "ball free": "free"}
    n = len(run.switches.t) - 1  # where the last rebounds are, one may still slide for 1e-9 s
    assert [words[name] for name in targets(run)][:n] == targets(body)[:n]
    np.testing.assert_allclose(run.switches.t[:n], body.switches.t[:n], atol=1e-9)
    assert targets(run)[-1] == "grip"
    assert targets(body)[-1] == "roll"


WHEEL, BASE = 0.3, 1.0


def scooter():
    """Body on two wheels in a vertical plane: rear axle, pitch, angles of the wheels."""
    mass, inertia, wheel, of_wheel = 8.0, 1.5, 1.0, 0.05
    ahead, up = 0.4, 0.3

    def axle(x, at):
        return jnp.stack([x[0] + at * jnp.cos(x[2]), x[1] + at * jnp.sin(x[2])])

    def rolls(x, i, at):
        return jnp.stack([1.0, 0.0, -at * jnp.sin(x[2]), *[WHEEL if i == j else 0.0 for j in (0, 1)]])

    def lagrangian(x, xi):
        def centre(x):
            return axle(x, ahead) + up * jnp.stack([-jnp.sin(x[2]), jnp.cos(x[2])])

        energy = inertia * xi[2] ** 2 / 2 + of_wheel * (xi[3] ** 2 + xi[4] ** 2) / 2
        for place, m in ((centre, mass), (lambda x: axle(x, 0.0), wheel), (lambda x: axle(x, BASE), wheel)):
            at, v = jax.jvp(place, (x,), (xi,))
            energy += m * (v @ v / 2 - GRAVITY * at[1])
        return energy

    return gn.System(
        Translations(5),
        lagrangian=lagrangian,
        holonomic=lambda x: jnp.stack([axle(x, 0.0)[1], axle(x, BASE)[1]]) - WHEEL,
        distribution=gn.Distribution(forms=lambda x: jnp.stack([rolls(x, 0, 0.0), rolls(x, 1, BASE)])),
        name="scooter",
    )


@pytest.mark.slow
def test_random_falls_on_two_wheels():
    """No run ends without a reason, no gap is negative, no contact pulls, friction is bounded, energy never rises."""
    rng, system = np.random.default_rng(7), scooter()
    grips = {"rear": (0, 0.5, 0), "front": (1, 0.5, 1)}
    modes = slipping(system, grips, restitution=0.5)
    n_switches = 0
    for _ in range(40):
        mu, e = rng.uniform(0.05, 1.2, 2), rng.uniform(0.0, 0.9, 2)
        names = {f"{name} friction": x for name, x in zip(grips, mu, strict=True)}
        names |= {f"{name} restitution": x for name, x in zip(grips, e, strict=True)}
        start = {
            "g0": [0.0, 1.5 * WHEEL + rng.uniform(0.2, 0.5), rng.uniform(-0.3, 0.3), 0.0, 0.0],
            "xi0": rng.normal(size=5) * [3.0, 1.0, 0.7, 10.0, 10.0],
        }
        one = modes.with_parameters(**names)
        run = gn.solve(one, "rkmk4", mode="rear free and front free", **start, dt=0.001, n_steps=800, throw=False)
        assert run.status == Result.SUCCESS, (run.status, run.t[-1])
        n_switches += len(run.switches.t)
        with jax.enable_x64(True):
            gaps = np.array(jax.vmap(lambda x: system.holonomic_residual(system.at(x, 0.0)))(jnp.asarray(run.g)))
        assert gaps.min() > -1e-12
        normal, force = run.multipliers[:, :2], run.multipliers[:, 2:]
        assert np.nanmin(normal, initial=0.0) > -1e-6
        held = np.isfinite(force) & np.isfinite(normal)
        assert np.all((np.abs(force) - mu * normal)[held] < 1e-6)
        assert np.diff(run.energy).max() < 1e-7 * run.energy[0]
    assert n_switches > 400


@pytest.mark.slow
def test_impact_of_one_wheel_while_the_other_rolls():
    """The wheel that rolls takes part in the impact; what separates is free after it."""
    system = scooter()
    modes = slipping(system, {"rear": (0, 0.9, 0), "front": (1, 0.9, 1)}, restitution={"rear": 0.0, "front": 0.3})
    lifted = 0.2
    g0 = np.array([0.0, WHEEL, lifted, 0.0, 0.0])
    run = gn.solve(modes, "rkmk4", mode="front free", g0=g0, xi0=[0.0] * 5, dt=0.002, n_steps=130)
    assert len(run.switches.t) > 0
    bare = modes["rear free and front free"]
    g, before = run.switches.g_vector[0], run.switches.xi_before[0]
    assert abs(g[2]) < 1e-12
    rows = np.array([[[0, 1, at, 0, 0], [1, 0, 0, *(WHEEL * np.eye(2)[i])]] for i, at in ((0, 0.0), (1, BASE))])
    hit = gn.mechanics.collision(
        bare, g, before, rows[:, 0], rows[:, 1:], friction=0.9, restitution=np.array([0.0, 0.3])
    )
    np.testing.assert_allclose(run.switches.xi_after[0], hit.xi, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"restitution": 1.5}, "between 0 and 1"),
        ({"restitution": {"foto": 0.5}}, "did you mean foot"),
        ({"restitution": "bounce"}, "no parameter 'bounce'"),
        ({"restitution": {1: 0.5}}, "1 is none of the grips"),
        ({"restitution": 0.5, "grips": {"foot": (0, 3.0)}}, "not the multiplier of a height"),
    ],
)
def test_bad_restitution_is_refused(more, words):
    with pytest.raises(ValueError, match=words):
        slipping(rod(), **{"grips": {"foot": (0, 0.4, 0)}, **more})


def test_start_below_the_ground_is_refused():
    modes = slipping(rod(), {"foot": (0, 0.4, 0)}, restitution=0.5)
    with pytest.raises(ValueError, match="below the surface: raise it"):
        gn.solve(modes, mode="foot free", g0=[0.0, 0.3, 0.0], xi0=[0.0] * 3, dt=0.01, n_steps=10)
    worse = modes.with_parameters(**{"foot restitution": 2.0})
    with pytest.raises(ValueError, match="'foot restitution' must be between 0 and 1"):
        gn.solve(worse, mode="foot free", g0=[0.0, 1.0, 0.0], xi0=[0.0] * 3, dt=0.01, n_steps=10)


@pytest.mark.slow
def test_resumed_run_has_the_same_bits(tmp_path):
    modes = slipping(rod(), {"foot": (0, 0.4, 0)}, restitution=0.5)
    start = {"mode": "foot free", "g0": [0.0, 1.0, 0.3], "xi0": [0.5, 0.0, 1.0]}
    whole = gn.solve(modes, "rkmk4", **start, dt=0.01, n_steps=90)
    gn.solve(modes, "rkmk4", **start, dt=0.01, n_steps=30).save(tmp_path / "run.nc")
    again = slipping(rod(), {"foot": (0, 0.4, 0)}, restitution=0.5)
    later = gn.resume(tmp_path / "run.nc", n_steps=60, system=again, method="rkmk4")
    assert len(whole.switches.t) > 0
    for name in ("g", "xi", "multipliers"):
        np.testing.assert_array_equal(getattr(later, name), getattr(whole, name))
    np.testing.assert_array_equal(later.switches.xi_after, whole.switches.xi_after)


@pytest.mark.slow
def test_derivatives_through_a_landing_against_differences():
    modes = slipping(rod(), {"foot": (0, 0.4, 0)}, restitution=0.5)

    def end(values):
        one = modes.with_parameters(**{"foot restitution": values[0], "foot friction": values[1]})
        start = {"g0": jnp.stack([0.0, 1.0, values[2]]), "xi0": jnp.array([0.5, 0.0, 1.0])}
        run = gn.integrate(one, "rkmk4", mode="foot free", **start, dt=0.01, n_steps=45)
        return run.xi[-1]

    with jax.enable_x64(True):
        at = jnp.array([0.5, 0.2, 0.3])
        slopes = jax.jacfwd(end)(at)
        for i, h in enumerate(1e-5 * np.eye(3)):
            np.testing.assert_allclose(slopes[:, i], (end(at + h) - end(at - h)) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_columns_of_multipliers_are_those_of_the_whole_system():
    modes = slipping(scooter(), {"rear": (0, 0.3, 0), "front": (1, 0.3, 1)}, restitution=0.5)
    assert modes.rows["rear free"] == (1, 3)
    assert modes.rows["front slips"] == (0, 1, 2)
    run = gn.solve(
        modes,
        mode="front free",
        g0=[0.0, WHEEL, 0.2, 0.0, 0.0],
        xi0=[1.0, 0.0, 0.0, *[-1 / WHEEL] * 2],
        dt=0.01,
        n_steps=2,
    )
    assert run.multipliers.shape[1] == 4
    assert np.isnan(run.multipliers[:, [1, 3]]).all()
    assert np.isfinite(run.multipliers[:, [0, 2]]).all()
    assert (run.multipliers[:, 0] > 0).all()


@pytest.mark.slow
def test_a_known_force_has_no_impulse():
    """A mass that is held to a foot by a bounded force goes on as the foot lands, by hand."""
    stack = gn.System(
        Translations(3),  # foot along, its height, height of the mass
        metric=[1.0, 1.0, 1.0],
        potential=lambda x: GRAVITY * (x[1] + x[2]),
        holonomic=lambda x: x[1:2],
        distribution=gn.Distribution([[1.0, 0.0, 0.0], [0.0, -1.0, 1.0]]),
        name="stack",
    )
    modes = slipping(stack, {"foot": (0, 0.3, 0), "rail": (1, 2.0)}, restitution={"foot": 0.5})
    run = gn.solve(modes, "rkmk4", mode="foot free", g0=[0.0, 1.0, 2.0], xi0=[0.0] * 3, dt=0.01, n_steps=60)
    fall = np.sqrt(2 * GRAVITY)
    assert targets(run)[0] == "foot free and rail −"
    np.testing.assert_allclose(run.switches.xi_after[0], [0.0, 0.5 * fall, -fall], atol=1e-9)


def test_contacts_with_heights_all_have_a_restitution():
    with pytest.raises(ValueError, match="give that of 'rear' too"):
        slipping(scooter(), {"rear": (0, 0.3, 0), "front": (1, 0.3, 1)}, restitution={"front": 0.3})


@pytest.mark.slow
@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_a_link_that_lands_flat_ends_in_words(restitution):
    disc = Link("disc", 1.0, inertia=(0.25, 0.25, 0.5), joint=Joint("free", "pose"))
    contact = Rolling("disc", rolling.disc(1.0, axis=(0, 0, 1)))
    modes = slipping(tree([disc], contacts=[contact]), {"rim": ("disc", 0.3, "disc")}, restitution=restitution)
    g0 = (np.eye(4),)
    g0[0][2, 3] = 1.5
    given = {"g0": g0, "xi0": [0.0, 0.0, 0.0, 0.5, 0.0, 0.0], "dt": 0.01, "n_steps": 100}
    run = gn.solve(modes, "gauss4", mode=modes.names[-1], throw=False, **given)
    assert run.status is Result.RESET
    assert "lands flat" in run.message


@pytest.mark.slow
def test_random_falls_of_a_bicycle_on_a_free_root():
    """Wheels of a tree, tilted in all directions, to where they lie almost flat: rebounds accumulate beside a slip."""

    def wheel(name, ahead):
        joint = Joint("continuous", name, axis=(0, 1, 0), place=(ahead, 0, 0))
        return Link(name, 1.0, (0, 0, 0), (0.03, 0.05, 0.03), "frame", joint)

    frame = Link("frame", 8.0, (0.1, 0.0, 0.1), (0.4, 0.9, 0.8), "", Joint("free", "pose"))
    links = [frame, wheel("rear", -0.4), wheel("front", 0.5)]
    bicycle = tree(links, contacts=[Wheel("rear", WHEEL), Wheel("front", WHEEL)], name="bicycle")
    mu, e = np.array([0.6, 0.5]), {"rear": 0.4, "front": 0.3}
    modes = slipping(bicycle, {name: (name, m, name) for name, m in zip(e, mu, strict=True)}, restitution=e)
    gaps_of = jax.jit(jax.vmap(lambda g: bicycle.holonomic_residual(bicycle.at(g, 0.0))))
    n_switches = 0
    for seed in range(48):
        rng = np.random.default_rng(seed)
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_euler("xyz", rng.normal(size=3) * [0.2, 0.15, 1.0]).as_matrix()
        pose[2, 3] = 0.7
        omega, v = rng.normal(size=3) * 0.5, rng.normal(size=3) * [2.0, 0.7, 0.3]
        start = {"g0": (pose, *bicycle.group.identity()[1:]), "xi0": [*omega, *v, *(rng.normal(size=2) * 5)]}
        run = gn.solve(modes, "gauss4", mode="rear free and front free", **start, dt=0.002, n_steps=400, throw=False)
        assert run.status == Result.SUCCESS, (seed, run.message)
        n_switches += len(run.switches.t)
        with jax.enable_x64(True):
            assert np.array(gaps_of(run.g)).min() > -1e-12, seed
        normal, force = run.multipliers[:, :2], run.multipliers[:, 2:].reshape(-1, 2, 2)
        assert np.nanmin(normal, initial=0.0) > -1e-6, seed
        lasts = np.diff(run.t, append=np.inf) > 0  # a mode that is left at once has a node beyond its limits
        held = np.isfinite(force[..., 0]) & np.isfinite(normal) & lasts[:, None]
        assert np.all((np.linalg.norm(force, axis=2) - mu * normal)[held] < 1e-6), seed
        assert np.diff(run.energy).max() < 3e-6 * run.energy[0], seed  # steps past a wheel that lies almost flat
    assert n_switches > 2000

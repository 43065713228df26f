"""Two rows that give way together: closed forms with order 4, a driven car by an own loop, controls, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.groups import Translations
from geonh.rolling import knife_edge, planar, planar_body, slipping, wheel

MASS, LIMIT = 2.0, 6.0
REST = {"g0": [0.0, 0.0, 0.0], "xi0": [0.0, 0.0, 0.5]}


def block(limit=LIMIT):
    system = gn.System(
        Translations(3),  # two directions, and a rotor
        metric=[MASS, MASS, 1.0],
        distribution=gn.Distribution(np.eye(3)[:2]),
        forces=lambda t, x, xi, u: jnp.append(u, 0.0),
        name="block",
    )
    return slipping(system, {"block": ((0, 1), limit)})


@pytest.mark.slow
def test_a_block_slips_in_the_direction_in_which_it_is_pulled():
    """From F = 3t beyond the limit on, mv' = 3t − F: in closed form."""
    run = gn.solve(block(), mode="grip", **REST, dt=0.1, n_steps=30, controls=lambda t: 3 * t * jnp.array([0.6, 0.8]))
    assert list(run.mode[[0, -1]]) == ["grip", "block slips"]
    assert abs(run.switches.t[0] - 2.0) < 1e-12
    np.testing.assert_allclose(run.xi[-1], np.r_[3 / 2 / MASS * np.array([0.6, 0.8]), 0.5], atol=3e-7)
    two = gn.solve(
        block((LIMIT, 0.8 * LIMIT)),
        mode="grip",
        **REST,
        dt=0.1,
        n_steps=30,
        controls=lambda t: 3 * t * jnp.array([0.6, 0.8]),
    )
    np.testing.assert_allclose(two.xi[-1, :2], (3 / 2 + 0.2 * LIMIT) / MASS * np.array([0.6, 0.8]), atol=1e-9)


@pytest.mark.quick("0.07-rkmk4")
@pytest.mark.parametrize("method", ["rk4", "rkmk4", "rkmk8", "commutator-free4"])
@pytest.mark.parametrize("dt", [0.07, 0.0175])
def test_explicit_methods_follow_a_slip_that_begins(method, dt):
    """Friction turns a slow slip faster than their steps can follow; the motion is straight."""
    pull = {"controls": lambda t: 3 * t * jnp.array([0.6, 0.8])}
    run = gn.solve(block(), method, mode="grip", **REST, dt=dt, t_end=4.0, **pull)
    np.testing.assert_allclose(run.xi[-1], [1.8, 2.4, 0.5], atol=1e-6)


@pytest.mark.slow
def test_derivatives_of_explicit_methods_through_a_slip_that_begins():
    """v(4) = 3 e of unit length by hand: its derivative by the force at which it slips is −e."""

    def end(force):
        modes = block().with_parameters(**{"block force": force})
        pull = {"controls": lambda t: 3 * t * jnp.array([0.6, 0.8])}
        run = gn.integrate(
            modes, "rkmk4", mode="grip", g0=jnp.zeros(3), xi0=jnp.array([0.0, 0.0, 0.5]), dt=0.04, n_steps=100, **pull
        )
        return run.xi[-1]

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jacfwd(end)(LIMIT), [-0.6, -0.8, 0.0], atol=1e-6)


@pytest.mark.slow
def test_a_block_that_is_pulled_across_turns_as_on_a_slope_of_its_angle_of_friction_with_order_4():
    """|v| + v·e is constant where the pull e has the size of the friction."""
    counts, errors = (20, 40, 80, 160), []
    for n in counts:
        pull = {"controls": lambda t: LIMIT * jnp.array([1.0, 0.0])}
        run = gn.solve(block(), mode="block slips", g0=[0.0] * 3, xi0=[0.0, 1.0, 0.5], dt=2.0 / n, n_steps=n, **pull)
        errors.append(np.ptp(np.linalg.norm(run.xi[:, :2], axis=1) + run.xi[:, 0]))
    assert np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(-4.0, abs=0.1)
    np.testing.assert_allclose(run.xi[-1, :2], [0.5, 0.0], atol=0.01)


LENGTH, INERTIA, ANGLE, RADIUS, SPIN = 1.2, 0.4, 0.2, 0.3, 0.05
LIMITS = (9.0, 8.0), (8.0, 7.0)


def car():
    wheels = [wheel(RADIUS, SPIN, name="rear"), wheel(RADIUS, SPIN, LENGTH, angle=ANGLE, name="front")]
    return planar(
        planar_body(2.0, INERTIA, wheels, centre=(0.5, 0.1)),
        forces=lambda t, x, xi, u: jnp.concatenate([jnp.zeros(3), u, jnp.zeros(1)]),
        name="car",
    )


def car_by_an_own_loop(span, size, rate):
    """End (θ, x, y, ξ) of the car and its transitions by SciPy: Newton's equations and an event loop."""
    m, a, b = 2.0, 0.5, 0.1
    M = np.zeros((5, 5))
    M[:3, :3] = [[INERTIA + m * (a * a + b * b), -m * b, m * a], [-m * b, m, 0.0], [m * a, 0.0, m]]
    M[3, 3] = M[4, 4] = SPIN
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    rear = np.array([[0, 0, 1, 0, 0], [0, 1, 0, -RADIUS, 0]], float)
    front = np.array([[c * LENGTH, -s, c, 0, 0], [s * LENGTH, c, s, 0, -RADIUS]])
    rows = rear, front

    def rates(t, y, slips):
        xi = y[3:]
        p = M @ xi
        push = np.array([p[1] * xi[2] - p[2] * xi[1], p[2] * xi[0], -p[1] * xi[0], size * np.sin(rate * t), 0.0])
        for row, slip, (_, kinetic) in zip(rows, slips, LIMITS, strict=True):
            if slip:
                w = row @ xi
                push = push - kinetic * row.T @ w / np.linalg.norm(w)
        held = np.concatenate([np.zeros((0, 5)), *(row for row, slip in zip(rows, slips, strict=True) if not slip)])
        k = len(held)
        found = np.linalg.solve(np.block([[M, -held.T], [held, np.zeros((k, k))]]), np.r_[push, np.zeros(k)])
        cos, sin = np.cos(y[0]), np.sin(y[0])
        lam, rest = [None, None], found[5:]
        for i in (0, 1):
            if not slips[i]:
                lam[i], rest = rest[:2], rest[2:]
        return np.r_[xi[0], cos * xi[1] - sin * xi[2], sin * xi[1] + cos * xi[2], found[:5]], lam

    def impulse(y, rows, after):
        """Velocity with which rows have given values, by the least kinetic energy."""
        inverse = np.linalg.solve(M, rows.T)
        y[3:] += inverse @ np.linalg.solve(rows @ inverse, after - rows @ y[3:])

    def event(i, slips):
        def value(t, y):
            if slips[i]:
                return np.linalg.norm(rows[i] @ y[3:]) - 1e-9
            return LIMITS[i][0] - np.linalg.norm(rates(t, y, slips)[1][i])

        value.terminal, value.direction = True, -1
        return value

    t, y, slips, passed = 0.0, np.zeros(8), (False, False), []
    while True:
        events = [event(0, slips), event(1, slips)]
        options = {"rtol": 1e-11, "atol": 1e-12, "events": events, "max_step": 0.02}
        ran = solve_ivp(lambda t, y, slips=slips: rates(t, y, slips)[0], (t, span), y, "DOP853", **options)
        t, y = ran.t[-1], ran.y[:, -1].copy()
        if ran.status == 0:
            return y, passed
        i = next(i for i in (0, 1) if len(ran.t_events[i]))
        lam = rates(t, y, slips)[1][i]
        slips = tuple(not slip if j == i else slip for j, slip in enumerate(slips))
        held = [row for row, slip in zip(rows, slips, strict=True) if not slip]
        if slips[i]:  # begins against the force that held it
            held.append(rows[i])
            after = np.r_[np.zeros(2 * (len(held) - 1)), -1e-8 * lam / np.linalg.norm(lam)]
        else:
            after = np.zeros(2 * len(held))
        impulse(y, np.concatenate(held), after)
        passed.append((t, slips))


@pytest.mark.slow
def test_a_driven_car_skids_with_each_wheel_and_both_as_by_an_own_loop():
    modes = slipping(car(), {"rear": ((0, 1), LIMITS[0]), "front": ((2, 3), LIMITS[1])})
    assert modes.names == ("grip", "front slips", "rear slips", "rear slips and front slips")
    start = {"mode": "grip", "g0": modes.systems[0].group.identity(), "xi0": np.zeros(5), "dt": 0.01, "n_steps": 400}
    seen = set()
    for size, rate in ((5.0, 1.3), (4.0, 2.0)):
        end, passed = car_by_an_own_loop(4.0, size, rate)
        torque = jax.tree_util.Partial(lambda size, rate, t: jnp.stack([size * jnp.sin(rate * t)]), size, rate)
        run = gn.solve(modes, "gauss6", **start, controls=torque)
        reached = [modes.names[i] for i in run.switches.target]
        assert reached == [modes.names[2 * slips[0] + slips[1]] for _, slips in passed]
        np.testing.assert_allclose(run.switches.t, [t for t, _ in passed], atol=1e-6)
        np.testing.assert_allclose(np.r_[run.g_vector[-1, :3], run.xi[-1]], end, atol=1e-5)
        seen |= set(reached)
    assert seen == {"grip", "rear slips", "rear slips and front slips"}


@pytest.mark.slow
def test_derivatives_of_a_block_that_begins_to_slip_and_stops():
    def way(force, limit):
        nodes = gn.integrate(
            block().with_parameters(**{"block force": limit}),
            mode="grip",
            **REST,
            dt=0.05,
            n_steps=80,
            controls=jax.tree_util.Partial(lambda force, t: force * jnp.sin(t) * jnp.array([0.6, 0.8]), force),
        )
        return nodes.g[-1, 0]

    with gn.float64():
        slope = jax.jit(jax.grad(way, (0, 1)))(9.0, LIMIT)
        for i in range(2):
            sides = [float(way(*(v + s * (j == i) for j, v in enumerate((9.0, LIMIT))))) for s in (1e-4, -1e-4)]
            assert float(slope[i]) == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=1e-5)


@pytest.mark.slow
def test_a_wheel_that_begins_to_spin_goes_on_in_the_direction_of_its_force():
    """From a slip of 1e-7 m/s, whose direction turns fast under unequal masses, with any step."""
    body = planar_body(2.0, 0.4, [wheel(0.3, 0.05), knife_edge(1.2, angle=0.2)], centre=(0.5, 0.1))
    modes = slipping(
        planar(body, forces=lambda t, x, xi, u: jnp.concatenate([jnp.zeros(3), u]), name="car"),
        {"rear": ((0, 1), 9.0)},
    )
    start = {"mode": "grip", "g0": modes.systems[0].group.identity(), "xi0": np.zeros(4)}
    for dt in (0.02, 0.01, 0.005):  # of which two found no way on, when the prediction had other controls
        run = gn.solve(modes, **start, dt=dt, t_end=4.0, controls=lambda t: 4 * jnp.sin(2 * jnp.stack([t])))
        assert [modes.names[i] for i in run.switches.target] == ["rear slips", "grip", "rear slips"]
        np.testing.assert_allclose(run.switches.t, [0.5156601, 3.0797981, 3.6202374], atol=2e-6)


@pytest.mark.slow
def test_a_mode_of_several_frictions_of_known_load():
    """A plate on two pads, without constraints: a force and a moment against those of the sums over the pads."""
    pads, loads = np.array([[0.4, 0.1], [-0.3, 0.2]]), (5.0, 3.0)

    def velocity(pad):
        return lambda t, x, xi: jnp.stack([xi[1] - pad[1] * xi[0], xi[2] + pad[0] * xi[0]])

    plate = gn.System(
        gn.groups.SE2(),
        metric=[0.2, 1.5, 1.5],
        base="point",
        multiplier_forces=[gn.Friction(velocity(p), "mu", load=load) for p, load in zip(pads, loads, strict=True)],
        parameters={"mu": 0.3},
    )
    xi = np.array([0.7, 1.0, -0.4])
    push = np.zeros(3)
    for pad, load in zip(pads, loads, strict=True):
        J = np.array([[-pad[1], 1.0, 0.0], [pad[0], 0.0, 1.0]])
        push -= 0.3 * load * J.T @ (J @ xi) / np.linalg.norm(J @ xi)
    bracket = 1.5 * xi[0] * np.array([0.0, xi[2], -xi[1]])
    rate, lam = gn.mechanics.accelerations(plate, 0.0, np.zeros(3), xi)
    np.testing.assert_allclose(rate, (push + bracket) / [0.2, 1.5, 1.5], atol=1e-14)
    assert lam.shape == (0,)
    ends = [gn.SlipEnds(name=f"pad {i}", which=i) for i in range(2)]
    run = gn.solve(plate, g0=np.zeros(3), xi0=xi, dt=0.002, n_steps=2000, events=ends)
    assert 0.0 < run.t[-1] < 4.0
    assert np.all(np.diff(run.energy) < 0)


@pytest.mark.slow
def test_what_is_refused():
    with pytest.raises(ValueError, match="a row has two names"):
        slipping(car(), {"rear": ((0, 1), 2.0), "front": (1, 2.0)})
    with pytest.raises(ValueError, match="a row has two names"):
        slipping(car(), {"rear": ((0, 0), 2.0)})
    with pytest.raises(ValueError, match=r"grips\['rear'\]: car has 4 forms, and none of number 7"):
        slipping(car(), {"rear": ((0, 7), 2.0)})
    with pytest.raises(TypeError, match="the place must be that of a row, or of two"):
        slipping(car(), {"rear": ((0, 1, 2), 2.0)})
    with pytest.raises(ValueError, match="not both"):
        gn.Friction(lambda t, x, xi: xi[:1], 0.3, normal=1, load=2.0)
    with pytest.raises(ValueError, match="load must be a normal force ≥ 0"):
        gn.Friction(lambda t, x, xi: xi[:1], 0.3, load=-1.0)
    rubs = gn.Friction(lambda t, x, xi: xi[:1], 0.3, load="weight")
    with pytest.raises(ValueError, match="load must name a parameter, got 'weight'"):
        gn.System(Translations(2), metric=[1.0, 1.0], multiplier_forces=rubs)
    with pytest.raises(TypeError, match="multiplier_forces must be a function, a Friction or several"):
        gn.System(Translations(2), metric=[1.0, 1.0], multiplier_forces=[lambda t, x, xi, lam: xi])
    rubs = gn.Friction(lambda t, x, xi: xi[:1], 0.3, load=2.0)
    slides = gn.System(Translations(2), metric=[1.0, 1.0], multiplier_forces=rubs)
    with pytest.raises(ValueError, match="which must be the number of one of 1 frictions, got 1"):
        gn.solve(slides, g0=[0.0, 0.0], xi0=[1.0, 0.0], dt=0.1, n_steps=2, events=gn.SlipEnds(which=1))
    edge = planar(planar_body(1.0, 0.3, [knife_edge()]), name="sleigh")
    with pytest.raises(ValueError, match="sleigh has 1 forms"):
        slipping(edge, {"edge": ((0, 1), 2.0)})

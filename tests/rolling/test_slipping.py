"""Rows that hold up to a force: closed forms with order 4, an independent car, energy, parameters, bad input."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import geonh as gn
from geonh.groups import Translations
from geonh.rolling import knife_edge, planar, planar_body, slipping

PULL, RATE, STATIC, KINETIC, MASS = 5.0, 2.0, 3.0, 2.0, 1.5


def pulled(parameters=None):
    return gn.System(
        Translations(2),
        metric=[MASS, 1.0],
        distribution=gn.Distribution([[1.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([PULL * jnp.sin(RATE * t), 0.0 * t]),
        parameters=parameters,
        name="block",
    )


def first_zero(f, start, step=1e-3):
    """The first sign change of a function after a time."""
    end = start + step
    while f(start + 1e-9) * f(end) > 0:
        end += step
    return brentq(f, end - step, end, xtol=1e-15) if end - step > start else brentq(f, start + 1e-9, end, xtol=1e-15)


def closed_form(span):
    """Way of a block that is pulled by PULL sin(RATE t), and the times at which it slips and sticks."""
    t, way, times = 0.0, 0.0, []
    while True:
        load = lambda s: abs(PULL * np.sin(RATE * s)) - STATIC  # noqa: E731
        begin = t if load(t) > 0 else first_zero(load, t)
        if begin > span:
            return way, times
        sign, c, s = np.sign(np.sin(RATE * begin)), np.cos(RATE * begin), np.sin(RATE * begin)

        def speed(x, begin=begin, sign=sign, c=c):
            return (PULL / RATE * (c - np.cos(RATE * x)) - sign * KINETIC * (x - begin)) / MASS

        def moved(x, begin=begin, sign=sign, c=c, s=s):
            pulled = PULL / RATE * (c * (x - begin) - (np.sin(RATE * x) - s) / RATE)
            return (pulled - sign * KINETIC * (x - begin) ** 2 / 2) / MASS

        t = first_zero(speed, begin)
        times.append(begin)
        if t > span:
            return way + moved(span), times
        way += moved(t)
        times.append(t)


def test_a_block_sticks_and_slips_as_its_closed_form_with_order_4():
    modes, (way, times) = slipping(pulled(), {"block": (0, (STATIC, KINETIC))}), closed_form(10.0)
    assert modes.names == ("grip", "block +", "block −")
    counts, errors = (50, 100, 200, 400), []
    for count in counts:
        run = gn.solve(modes, "gauss4", mode="grip", g0=[0.0, 0.0], xi0=[0.0, 1.0], dt=10.0 / count, n_steps=count)
        assert len(run.switches.t) == len(times) == 13
        errors.append(max(abs(run.g[-1, 0] - way), np.abs(run.switches.t - times).max()))
    assert np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(-4.0, abs=0.1)
    assert errors[-1] < 1e-8
    visited = [run.switches.names[i] for i in run.switches.target[:4]]
    assert visited == ["block +", "grip", "block −", "grip"]
    held = np.asarray(run.mode) == "grip"
    np.testing.assert_allclose(run.xi[held, 0], 0.0, atol=1e-15)


LENGTH, INERTIA, ANGLE, THRUST = 1.2, 0.25, 0.3, 12.0
GRIPS = {"rear": (0, 9.0), "front": (1, (4.0, 3.5))}
CAR = planar(
    planar_body(2.0, INERTIA, [knife_edge(), knife_edge(LENGTH, angle=ANGLE)], centre=(0.5, 0.0)),
    forces=lambda t, x, xi, u: jnp.stack([0.0 * t, THRUST * jnp.cos(t), 0.0 * t]),
    name="car",
)


def car_by_an_own_loop(span):
    """End (θ, x, y, ω, u, v) of the car, and its transitions, by SciPy: Newton's equations and an event loop."""
    M = np.array([[INERTIA + 2.0 * 0.25, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 2.0]])
    rows = np.array([[0.0, 0.0, 1.0], [np.cos(ANGLE) * LENGTH, -np.sin(ANGLE), np.cos(ANGLE)]])
    limits = ((9.0, 9.0), (4.0, 3.5))

    def rates(t, y, signs):
        theta, xi = y[0], y[3:]
        push = np.array([0.0, THRUST * np.cos(t), 0.0])
        p = M @ xi
        push = push + np.array([p[1] * xi[2] - p[2] * xi[1], p[2] * xi[0], -p[1] * xi[0]])  # ad*ξ p
        for row, sign, (_, kinetic) in zip(rows, signs, limits, strict=True):
            push = push - sign * kinetic * row
        held = rows[[i for i in (0, 1) if not signs[i]]]
        k = len(held)
        saddle = np.block([[M, -held.T], [held, np.zeros((k, k))]])
        found = np.linalg.solve(saddle, np.r_[push, np.zeros(k)])
        c, s = np.cos(theta), np.sin(theta)
        lam = np.zeros(2)
        lam[[i for i in (0, 1) if not signs[i]]] = found[3:]
        return np.r_[xi[0], c * xi[1] - s * xi[2], s * xi[1] + c * xi[2], found[:3]], lam

    t, y, signs, passed = 0.0, np.r_[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 0], []
    while True:
        events, what = [], []
        for i in (0, 1):
            for new in (0,) if signs[i] else (1, -1):

                def event(t, y, i=i, new=new, now=tuple(signs)):
                    if now[i]:
                        return now[i] * rows[i] @ y[3:]
                    return limits[i][0] + new * rates(t, y, now)[1][i]

                event.terminal, event.direction = True, -1
                events.append(event)
                what.append((i, new))
        past = [k for k, e in enumerate(events) if what[k][1] and e(t, y) < 0]
        if not past:
            now = tuple(signs)
            ran = solve_ivp(
                lambda t, y, now=now: rates(t, y, now)[0], (t, span), y, "DOP853", rtol=1e-12, atol=1e-13, events=events
            )
            t, y = ran.t[-1], ran.y[:, -1]
            if ran.status == 0:
                return y, passed
            past = [k for k, found in enumerate(ran.t_events) if len(found)]
        i, new = what[past[0]]
        signs[i] = new
        passed.append((t, tuple(signs)))
        held = rows[[j for j in (0, 1) if not signs[j]]]
        if len(held):
            y[3:] -= np.linalg.solve(M, held.T @ np.linalg.solve(held @ np.linalg.solve(M, held.T), held @ y[3:]))


@pytest.mark.slow
def test_a_car_understeers_as_by_an_own_loop():
    modes = slipping(CAR, GRIPS)
    assert len(modes.names) == 9
    assert modes.names[:3] == ("grip", "front +", "front −")
    end, passed = car_by_an_own_loop(6.0)
    run = gn.solve(modes, "gauss6", mode="grip", g0=[0.0, 0.0, 0.0], xi0=[0.0, 0.0, 0.0], dt=0.02, n_steps=300)
    assert len(passed) >= 4
    np.testing.assert_allclose(run.switches.t, [t for t, _ in passed], atol=1e-9)
    np.testing.assert_allclose(np.r_[run.g[-1], run.xi[-1]], end, atol=5e-9)
    visited = [modes.names[i] for i in run.switches.target]
    assert visited == ["front −", "grip", "front −", "rear − and front −", "front −"]


@pytest.mark.slow
def test_friction_takes_energy_and_no_force_exceeds_its_limit():
    rng, modes_seen = np.random.default_rng(4), set()
    for _ in range(12):
        edges = [knife_edge(*rng.normal(size=2), angle=rng.normal()) for _ in range(2)]
        body = planar(planar_body(1.0, 0.3, edges, centre=tuple(rng.normal(size=2))), name="body")
        limits = rng.uniform(0.1, 2.0, size=2)
        modes = slipping(body, {"a": (0, limits[0]), "b": (1, (1.3 * limits[1], limits[1]))})
        speeds = modes.systems[0].project([0.0] * 3, 3 * rng.normal(size=3))
        run = gn.solve(modes, mode="grip", g0=[0.0] * 3, xi0=speeds, dt=0.01, n_steps=400)
        assert np.diff(run.energy).max() < 1e-10 * run.energy[0]
        modes_seen |= set(run.mode)
        at = np.flatnonzero((np.asarray(run.mode) == "grip") & (run.t > 0))  # the start may be beyond the limits
        for k in at[:: max(1, len(at) // 5)]:
            lam = np.asarray(gn.mechanics.multipliers(modes.systems[0], run.t[k], run.g[k], run.xi[k]))
            assert (np.abs(lam) < np.array([limits[0], 1.3 * limits[1]]) + 1e-9).all()
    assert len(modes_seen) > 4


@pytest.mark.slow
def test_limits_are_parameters_where_they_are_named():
    modes = slipping(pulled({"limit": 4.0}), {"block": (0, "limit")})
    start = {"mode": "grip", "g0": [0.0, 0.0], "xi0": [0.0, 1.0], "dt": 0.05, "n_steps": 20}
    for limit in (4.0, 3.0, 6.0):
        run = gn.solve(modes.with_parameters(limit=limit), **start)
        expected = [np.arcsin(limit / PULL) / RATE] if limit < PULL else []
        np.testing.assert_allclose(run.switches.t[:1], expected, atol=1e-8)


@pytest.mark.slow
def test_constraints_on_positions_stay(tmp_path):
    """A bead on a rod that is held by friction along it: x is held, y = 0 by φ; and the file holds the same."""
    bead = gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1.0],
        holonomic=lambda x: jnp.stack([x[1]]),
        distribution=gn.Distribution([[1.0, 0.0, 0.0]]),
        forces=lambda t, x, xi, u: jnp.stack([2.0 * t, -1.0 + 0.0 * t, 0.0 * t]),
        name="bead",
    )
    modes = slipping(bead, {"bead": (0, 1.0)})
    run = gn.solve(modes, "gauss4", mode="grip", g0=[0.0] * 3, xi0=[0.0] * 3, dt=0.1, n_steps=20)
    assert run.switches.t[0] == pytest.approx(0.5, abs=1e-12)
    t = 2.0 - 0.5
    np.testing.assert_allclose(run.g[-1], [t**3 / 3, 0.0, 0.0], atol=1e-12)  # ẍ = 2t − 1
    run.save(tmp_path / "run.nc")
    loaded = gn.Trajectory.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.xi, run.xi)
    gn.resume(loaded, 5, system=modes, method=gn.Gauss(2))
    assert "bead force" in modes.systems[0].parameters
    with pytest.raises(ValueError, match="bead force = "):
        gn.resume(loaded, 5, system=slipping(bead, {"bead": (0, 1.1)}), method=gn.Gauss(2))


@pytest.mark.parametrize(
    ("grips", "words"),
    [
        ({}, "grips must be a mapping"),
        ([1], "grips must be a mapping"),
        ({"a": 1.0}, r"grips\['a'\] must be \(row, force\)"),
        ({"a": (2, 1.0)}, "has 2 forms, and none of number 2"),
        ({"a": (0, -1.0)}, "F ≥ 0"),
        ({"a": (0, (1.0, 2.0))}, "F_s ≥ F ≥ 0"),
        ({"a": (0, 1.0), "b": (0, 2.0)}, "a row has two names"),
        ({"a": (0, "mu")}, "has no parameter 'mu'"),
        ({"grip": (0, 1.0)}, "names must be text other than 'grip'"),
        ({str(i): (0, 1.0) for i in range(5)}, "at most 4 contacts"),
    ],
)
def test_bad_input_is_named(grips, words):
    with pytest.raises((TypeError, ValueError), match=words):
        slipping(CAR, grips)


def test_names_of_modes_must_be_distinct():
    body = gn.System(Translations(4), metric=[1.0] * 4, distribution=gn.Distribution(np.eye(4)[:3]))
    with pytest.raises(ValueError, match="make equal names of modes"):
        slipping(body, {"a": (0, 1.0), "b": (1, 1.0), "a + and b": (2, 1.0)})


def test_systems_without_forms_are_refused():
    free = gn.System(Translations(1), metric=[1.0], name="free")
    with pytest.raises(ValueError, match="free has no distribution given by forms"):
        slipping(free, {"a": (0, 1.0)})
    twice = gn.System(Translations(2), metric=[1.0, 1.0], distribution=gn.Distribution([[1.0, 0.0]] * 2), rank=1)
    with pytest.raises(ValueError, match="redundant"):
        slipping(twice, {"a": (0, 1.0)})

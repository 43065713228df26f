"""Runs joined by hand, and the first nodes of runs with modes."""

import functools

import numpy as np
import pytest
from bouncing import G, particle, rebounding

import geonh as gn
from geonh.groups import SE2, Translations
from geonh.integrators import Result


@pytest.mark.slow
def test_runs_joined_by_hand(tmp_path):
    """A bead slides off a circle, where the constraint force vanishes, and falls: two runs, joined to one."""
    common = {"metric": np.eye(2), "potential": lambda x: G * x[1]}
    bead = gn.System(
        Translations(2), distribution=gn.Distribution(lambda x: [[x[0], x[1]]]), name="bead on a circle", **common
    )
    lost = gn.Event(lambda t, g, xi, lam: lam[0], direction=-1, stop=True, name="contact lost")
    slide = gn.solve(bead, "gauss4", g0=[0.0, 1.0], xi0=[0.3, 0.0], dt=0.005, n_steps=2000, events=lost)
    at = slide.events["contact lost"]
    free = gn.System(Translations(2), name="free bead", **common)
    fall = gn.solve(free, "gauss4", g0=at.g[0], xi0=at.xi[0], t0=at.t[0], dt=0.01, n_steps=20)
    run = gn.join(slide, fall)
    assert len(run) == len(slide) + len(fall) + 1  # the first one's node at the event
    assert list(run.mode[[0, -1]]) == ["bead on a circle", "free bead"]
    assert np.flatnonzero(np.diff(run.t) == 0) == len(slide)
    np.testing.assert_array_equal(run.g[len(slide)], run.g[len(slide) + 1])
    assert np.ptp(run.energy) < 1e-8
    assert run.multipliers.shape == (len(run), 1)
    loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
    np.testing.assert_array_equal(loaded.mode, run.mode)
    np.testing.assert_array_equal(loaded.energy, run.energy)
    with pytest.raises(ValueError, match="a piece ends at"):
        gn.join(fall, slide)
    with pytest.raises(TypeError, match="join takes"):
        gn.join(slide, 3)
    with pytest.raises(ValueError, match="runs that were joined have none"):
        gn.resume(run, 5)


def test_runs_with_modes_joined(tmp_path):
    """A ball that bounces, flies on by hand and bounces again: transitions of the pieces, and the joints between."""
    modes = rebounding()
    ball = modes["flight"]
    options = {"dt": 1e-2, "method": "gauss4"}
    first = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], n_steps=60, **options)
    fly = gn.solve(ball, g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], n_steps=5, **options)
    last = gn.solve(modes, mode="flight", g0=fly.g[-1], xi0=fly.xi[-1], t0=fly.t[-1], n_steps=100, **options)
    run, again = gn.join(first, fly, last), gn.join(gn.join(first, fly), last)
    whole = gn.solve(modes, mode="flight", g0=[1.0], xi0=[0.0], n_steps=165, **options)
    np.testing.assert_allclose(run.g[-1], whole.g[-1], atol=1e-13)
    np.testing.assert_array_equal(again.nodes.mode, run.nodes.mode)
    assert run.mode[0] == "flight (1)"
    assert run.mode[-1] == "flight (2)"
    switches, n = run.switches, len(first.switches.t)
    assert n > 0
    np.testing.assert_array_equal(np.diff(switches.t) > 0, True)
    np.testing.assert_allclose(np.delete(switches.t, [n, n + 1]), whole.switches.t, atol=1e-14)
    np.testing.assert_array_equal(switches.source, [0] * n + [0, 1] + [2] * len(last.switches.t))
    np.testing.assert_array_equal(switches.target, [0] * n + [1, 2] + [2] * len(last.switches.t))
    k = first.k[-1], first.k[-1] + fly.k[-1]
    np.testing.assert_array_equal(switches.k, [*first.switches.k, *k, *(last.switches.k + k[1])])
    path = run.save(tmp_path / "joined.nc")
    loaded = gn.Trajectory.load(path, system=ball)
    for name, part in run.switches._asdict().items():
        np.testing.assert_array_equal(getattr(loaded.switches, name), part)
    for ours, theirs in zip(loaded.interpolate(run.t), run.interpolate(run.t), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="the system of the first is attached: one of the name 'particle'"):
        gn.Trajectory.load(path, system=modes)


def test_the_first_nodes_have_their_transitions():
    """Each transition has a node before and one after it, and comes with the latter."""
    run = gn.solve(rebounding(), mode="flight", g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=300, method="gauss4")
    jumps = np.flatnonzero((np.diff(run.xi[:, 0]) > 0) & (np.diff(run.t) == 0)) + 1
    assert len(jumps) == len(run.switches.t) == 3
    for n in range(1, len(run) + 1):
        first = run.first(n)
        assert len(first.switches.t) == np.sum(jumps < n)
        assert len(first) == n
    with pytest.raises(ValueError, match="the first nodes of a run"):
        gn.resume(run.first(7), 5)


def test_the_first_nodes_of_a_run_that_stopped(tmp_path):
    events = [
        gn.Event(lambda t, x, xi, lam: xi[0], name="top"),
        gn.Event(lambda t, *_: t - 1.1, stop=True, name="clock"),
    ]
    for system, mode in ((rebounding(), {"mode": "flight"}), (particle(), {})):
        run = gn.solve(system, g0=[1.0], xi0=[0.0], dt=1e-2, n_steps=300, method="gauss4", events=events, **mode)
        assert run.status is Result.EVENT
        first = run.first(60)
        assert "reached the end" in first.message
        np.testing.assert_array_equal(gn.Trajectory.load(first.save(tmp_path / "first.nc")).t, first.t)
        fly = gn.solve(particle(), g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], dt=1e-2, n_steps=5)
        assert np.all(np.diff(gn.join(first, fly).t) >= 0)


def test_joined_runs_have_the_events_of_all_and_names_of_their_own(tmp_path):
    top = gn.Event(lambda t, x, xi, lam: xi[0], name="top")
    given = {"mode": "flight", "dt": 1e-2, "n_steps": 100, "method": "gauss4", "events": top}
    a = gn.solve(rebounding(), g0=[1.0], xi0=[0.0], **given)
    b = gn.solve(rebounding(), g0=a.g[-1], xi0=a.xi[-1], t0=a.t[-1], **given)
    pieces = [a, b]
    for _ in range(4):
        at = pieces[-1]
        pieces.append(gn.solve(particle(), g0=at.g[-1], xi0=at.xi[-1], t0=at.t[-1], dt=1e-2, n_steps=5))
    run = functools.reduce(gn.join, pieces)
    flights, particles = [f"flight ({i})" for i in (1, 2)], [f"particle ({i})" for i in (1, 2, 3, 4)]
    assert sorted(run.switches.names) == sorted(flights + particles)
    assert gn.join(*pieces).switches.names == (*flights, *particles)
    loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
    for joined in (run, loaded):
        np.testing.assert_array_equal(joined.events["top"].t, [*a.events["top"].t, *b.events["top"].t])


def test_pieces_by_methods_with_impulses_and_without_are_joined(tmp_path):
    """A sleigh whose blade lifts off and comes down again."""
    held = gn.systems.chaplygin_sleigh()
    loose = gn.System(SE2(), metric=held.metric, parameters=held.parameters, name="loose")
    first = gn.solve(held, "gauss4", xi0=[0.8, 0.5, 0.0], dt=0.01, n_steps=5)
    for method, other in (("gni", "gauss4"), ("gauss4", "gni")):
        fly = gn.solve(loose, method, g0=first.g[-1], xi0=first.xi[-1], t0=first.t[-1], dt=0.01, n_steps=5)
        xi = held.project(fly.g[-1], fly.xi[-1])
        last = gn.solve(held, other, g0=fly.g[-1], xi0=xi, t0=fly.t[-1], dt=0.01, n_steps=5)
        run = gn.join(first, fly, last)
        loaded = gn.Trajectory.load(run.save(tmp_path / "joined.nc"))
        np.testing.assert_array_equal(loaded.multipliers, run.multipliers)
        assert np.isnan(run.multipliers[6:12]).all()


@pytest.mark.slow
def test_between_the_last_node_and_the_joint():
    """Where the velocity jumps there, the motion before it is that of the first piece."""
    ball = gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0], name="ball")
    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, stop=True, name="floor")
    for method in ("gauss4", "gni"):
        fall = gn.solve(ball, method, g0=[1.0], xi0=[0.0], dt=0.05, n_steps=100, events=floor)
        hit = fall.events["floor"]
        back = gn.solve(ball, method, g0=hit.g[0], xi0=-hit.xi[0], t0=hit.t[0], dt=0.04, n_steps=3)
        run = gn.join(fall, back)
        t = np.array([0.2, hit.t[0] - 0.02, hit.t[0] - 1e-6])
        assert np.abs(run.interpolate(t)[0][:, 0] - (1 - G * t**2 / 2)).max() < (1e-12 if method == "gauss4" else 1e-3)
        assert abs(run.g[len(fall), 0]) < 1e-12
        np.testing.assert_allclose(run.xi[len(fall) : len(fall) + 2, 0], [hit.xi[0, 0], -hit.xi[0, 0]], rtol=1e-12)

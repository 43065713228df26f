"""Numbers of other types than float64: computed with as what they are, never wrapped or misread."""

import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2, SO3, Product, Translations

SLEIGH = gn.systems.chaplygin_sleigh()
XI = np.array([0.8, -0.5, 0.0])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, ">f8", ">i4"])
def test_arrays_of_other_types_are_as_those_of_float64(kind):
    numbers = np.array([100, 20, 3]).astype(kind)
    for of in (SO3().exp, SE2().inverse, Translations(3).inverse):
        np.testing.assert_array_equal(of(numbers), of(numbers.astype(float)))
    for of in (SO3().bracket, SE2().compose, Translations(3).compose, SO3().ad_star):
        np.testing.assert_array_equal(of(numbers, numbers), of(numbers.astype(float), numbers.astype(float)))
    both = Product((Translations(3), SE2()))
    np.testing.assert_array_equal(both.compose((numbers, numbers), (numbers, numbers))[0], 2.0 * numbers.astype(float))
    system = gn.System(
        Translations(3),
        metric=lambda x: np.eye(3) * (1 + x @ x),
        distribution=gn.Distribution(lambda x: np.eye(3)[:1] + 0 * x),
    )
    g, xi = numbers, np.ones(3).astype(kind)
    for of in (system.momentum, system.constraint_residual, system.energy, system.lagrangian):
        np.testing.assert_array_equal(of(g, xi), of(g.astype(float), xi.astype(float)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64])
def test_counts_of_numpy_are_counts(kind, tmp_path):
    first = gn.solve(SLEIGH, "rkmk4", xi0=XI, dt=0.01, n_steps=kind(100), save_every=kind(7))
    whole = gn.resume(first, kind(100))
    same = gn.solve(SLEIGH, "rkmk4", xi0=XI, dt=0.01, n_steps=200, save_every=7)
    np.testing.assert_array_equal(whole.g_vector, same.g_vector)
    event = gn.Event(lambda t, g, xi, lam: xi[1] + 0.4, direction=kind(1))
    assert len(gn.solve(SLEIGH, "rkmk4", xi0=XI, dt=0.01, n_steps=kind(120), events=event).events) == 1
    sweep = gn.Sweep.of(SLEIGH, "rkmk4", xi0=np.tile(XI, (3, 1)), dt=0.01, n_steps=kind(100), save_every=kind(50))
    np.testing.assert_array_equal(sweep.run(tmp_path / "store", shard=kind(2))["g"].shape, (3, 3, 3))
    stream = gn.stream(
        SLEIGH, "rkmk4", store=tmp_path / "stream", xi0=XI, dt=0.01, n_steps=kind(100), save_every=kind(5)
    )
    assert stream.sizes["time"] == 21


def test_too_many_members_are_refused_before_they_are_drawn():
    from scipy.stats import norm

    with pytest.raises(MemoryError, match="members' starts and parameters"):
        gn.solve_ensemble(SLEIGH, xi0=XI, t0=norm(), dt=0.01, n_steps=2, members=2**40)
    with pytest.raises((MemoryError, ValueError)):
        gn.solve_ensemble(SLEIGH, xi0=XI, parameters={"a": norm(0.2, 0.01)}, dt=0.01, n_steps=2, members=2**40)


def test_names_that_no_file_can_have_are_refused():
    run = gn.solve(SLEIGH, "rkmk4", xi0=XI, dt=0.01, n_steps=2)
    for name in ("q\udc80.nc", "x" * 300 + ".nc"):
        with pytest.raises(gn.FileError, match="is not a path"):
            run.save(name)
        with pytest.raises(gn.FileError, match="is not a path"):
            gn.Trajectory.load(name)
        with pytest.raises(gn.FileError, match="is not a path"):
            gn.open_store(name)
    for wrong in (0, -1, True):
        with pytest.raises(ValueError, match="n must be a positive integer"):
            run.first(wrong)

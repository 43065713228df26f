"""Estimates against an independent least-squares fit, exact formulas and the scatter of repeated experiments."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import geonh as gn
from geonh.control import estimate
from geonh.groups import SE2, Translations


def metric(x, p):
    return [[p["I"] + p["a"] ** 2, 0.0, p["a"]], [0.0, 1.0, 0.0], [p["a"], 0.0, 1.0]]


def family(a, I):  # noqa: E741
    return gn.System(
        SE2(),
        metric=metric,
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        parameters={"a": a, "I": I},
        base="point",
        name="sleigh",
    )


def place(g, xi):
    return g[1:]


AT = np.arange(10, 401, 10)
START = [0.8, 0.5, 0.0]
RUN = gn.solve(family(0.3, 1.2), xi0=START, dt=0.02, n_steps=400)
TRUE = RUN.g[AT, 1:]


def noisy(seed, sigma=0.01):
    return TRUE + sigma * np.random.default_rng(seed).normal(size=TRUE.shape)


@pytest.mark.slow
def test_parameters_and_errors_are_those_of_an_independent_fit():
    data = noisy(1)
    result = estimate(family(0.2, 1.0), ["a", "I"], data, AT, place, xi0=START, dt=0.02)

    def rest(theta):
        run = gn.solve(family(*theta), xi0=START, dt=0.02, n_steps=400)
        return np.ravel(run.g[AT, 1:] - data)

    fit = least_squares(rest, [0.2, 1.0], jac="3-point", xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(list(result.values.values()), fit.x, rtol=1e-9)
    sigma = np.sqrt(fit.fun @ fit.fun / (fit.fun.size - 2))
    assert abs(result.sigma / sigma - 1) < 1e-9
    covariance = sigma**2 * np.linalg.inv(fit.jac.T @ fit.jac)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-4)
    for name, true in (("a", 0.3), ("I", 1.2)):
        assert abs(result.values[name] - true) < 4 * result.errors[name]
    assert float(result.system.parameters["a"]) == result.values["a"]
    assert "±" in str(result)


def test_without_noise_they_are_exact():
    result = estimate(family(0.2, 1.0), ["a", "I"], TRUE, AT, place, xi0=START, dt=0.02, sigma=0.01)
    np.testing.assert_allclose(list(result.values.values()), [0.3, 1.2], rtol=1e-9)
    assert np.abs(result.residuals).max() < 1e-10


def fall(x, p):
    return p["g"] * x[0]


def height(g, xi):
    return g


def test_a_fall_from_an_unknown_start_is_a_parabola_through_the_points():
    body = gn.System(Translations(1), metric=[1.0], potential=fall, parameters={"g": 5.0})
    at = np.arange(0, 101, 5)
    t = 0.01 * at
    data = (1.0 + 2.0 * t - 9.81 * t**2 / 2 + 0.01 * np.random.default_rng(7).normal(size=t.size))[:, None]
    result = estimate(body, "g", data, at, height, g0=[0.0], xi0=[0.0], dt=0.01, free_start=True)
    (a, b, c), covariance = np.polyfit(t, data[:, 0], 2, cov="unscaled")
    sigma = np.sqrt(np.sum((data[:, 0] - np.polyval([a, b, c], t)) ** 2) / (t.size - 3))
    assert abs(result.values["g"] + 2 * a) < 1e-9
    np.testing.assert_allclose([result.g[0], result.xi[0]], [c, b], atol=1e-9)
    assert abs(result.errors["g"] / (2 * sigma * np.sqrt(covariance[0, 0])) - 1) < 1e-8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": ["b"]}, r"sleigh has no parameter 'b', it has \['I', 'a'\]"),
        ({"names": ["a", "a"]}, "each once"),
        ({"at": AT[::-1]}, "increase"),
        ({"at": AT[:-1]}, "shape"),
        ({"data": TRUE[:, :1]}, "1 columns, observe gives 2"),
        ({"data": TRUE * np.inf}, "nan where there is no observation, got inf"),
        ({"data": np.full_like(TRUE, np.nan)}, "0 observations do not determine 1 parameters"),
        ({"observe": lambda g: g}, "observe takes"),
        ({"prior": 1.0}, "prior= needs sigma="),
        ({"observe": lambda g, xi: jnp.sqrt(g[1:] - 100.0)}, "observe is not finite along the motion"),
        ({"at": AT + 0.5}, "at must be integers, the numbers of nodes, got 10.5"),
        ({"prior": {"I": 1.0}, "sigma": 0.1}, "prior: 'I' is not among names"),
        ({"prior": {"a": 0.0}, "sigma": 0.1}, "prior of a must be positive"),
        ({"data": np.stack([TRUE] * 3), "xi0": [START] * 2}, r"xi0 must have shape \[3\], or \[3, 3\] for 3 motions"),
        (
            {"data": np.stack([TRUE] * 2), "g0": np.zeros((4, 3))},
            r"g0 must have shape \[3\], or \[2, 3\] for 2 motions",
        ),
    ],
)
def test_bad_input_is_named(changes, words):
    given = {"names": ["a"], "data": TRUE, "at": AT, "observe": place, "xi0": START, "dt": 0.02} | changes
    with pytest.raises((ValueError, TypeError), match=words):
        estimate(family(0.2, 1.0), **given)


def test_several_motions_add_what_they_tell():
    """Of data without noise JᵀJ is the sum of those of all motions, each from its own start."""
    starts, places = [[0.8, 0.5, 0.0], [-0.3, 0.9, 0.0]], [[0.0, 0.0, 0.0], [2.0, 1.0, -1.0]]
    options = {"xi0": starts, "g0": places, "dt": 0.02}
    each = [{"xi0": xi, "g0": g, "dt": 0.02} for xi, g in zip(starts, places, strict=True)]
    data = [gn.solve(family(0.3, 1.2), "gauss4", **one, n_steps=400).g[AT, 1:] for one in each]
    both = estimate(family(0.2, 1.0), ["a", "I"], data, AT, place, **options, sigma=0.01)
    alone = [
        estimate(family(0.2, 1.0), ["a", "I"], seen, AT, place, **one, sigma=0.01)
        for seen, one in zip(data, each, strict=True)
    ]
    np.testing.assert_allclose(list(both.values.values()), [0.3, 1.2], rtol=1e-9)
    information = sum(np.linalg.inv(fit.covariance) for fit in alone)
    np.testing.assert_allclose(np.linalg.inv(both.covariance), information, rtol=1e-6)
    assert both.residuals.shape == (2, len(AT), 2)
    np.testing.assert_array_equal(both.g, places)
    np.testing.assert_allclose(both.xi, starts, atol=1e-15)


def test_starts_of_several_motions_are_those_of_each_alone():
    """Where all parameters are known but one that the motions share, by a prior that is next to certain."""
    at, truth = np.arange(0, 101, 5), [([1.0], [2.0]), ([-3.0], [0.5]), ([0.0], [4.0])]
    body = gn.System(Translations(1), metric=[1.0], potential=fall, parameters={"g": 9.81})
    t, rng = 0.01 * at, np.random.default_rng(3)
    data = np.array([g + xi * t[:, None] - 9.81 * t[:, None] ** 2 / 2 for g, xi in map(np.array, truth)])
    data += 0.01 * rng.normal(size=data.shape)
    options = {"dt": 0.01, "free_start": True, "sigma": 0.01, "prior": 1e-9}
    both = estimate(body, "g", data, at, height, g0=[[0.0]] * 3, xi0=[[0.0]] * 3, **options)
    for i in range(3):
        slope, level = np.polyfit(t, data[i, :, 0] + 9.81 * t**2 / 2, 1)
        np.testing.assert_allclose([both.g[i, 0], both.xi[i, 0]], [level, slope], atol=1e-7)


@pytest.mark.slow
def test_missing_observations_are_left_out():
    data = noisy(2)
    gaps = data.copy()
    gaps[5:9] = np.nan
    kept = np.r_[:5, 9 : len(AT)]
    options = {"xi0": START, "dt": 0.02}
    result = estimate(family(0.2, 1.0), ["a", "I"], gaps, AT, place, **options)
    other = estimate(family(0.2, 1.0), ["a", "I"], data[kept], AT[kept], place, **options)
    np.testing.assert_allclose(result.covariance, other.covariance, rtol=1e-9)
    np.testing.assert_allclose(list(result.values.values()), list(other.values.values()), rtol=1e-9)
    assert np.isnan(result.residuals[5:9]).all()


def test_a_guess_may_be_zero():
    t = 0.01 * np.arange(5, 51, 5)
    body = gn.System(Translations(1), metric=[1.0], potential=fall, parameters={"g": 0.0})
    result = estimate(body, "g", -9.81 * t[:, None] ** 2 / 2, np.arange(5, 51, 5), height, xi0=[0.0], dt=0.01)
    assert abs(result.values["g"] - 9.81) < 1e-9


def test_a_prior_is_weighed_against_the_data():
    """Of a height that is linear in g both are known in closed form."""
    at, sigma, width = np.arange(5, 51, 5), 0.05, 0.4
    t = 0.01 * at
    data = (-9.81 * t**2 / 2 + sigma * np.random.default_rng(4).normal(size=t.size))[:, None]
    body = gn.System(Translations(1), metric=[1.0], potential=fall, parameters={"g": 9.0})
    result = estimate(body, "g", data, at, height, xi0=[0.0], dt=0.01, sigma=sigma, prior={"g": width})
    a = -(t**2) / 2
    precision = a @ a / sigma**2 + 1 / width**2
    assert abs(result.values["g"] - (a @ data[:, 0] / sigma**2 + 9.0 / width**2) / precision) < 1e-9
    assert abs(result.errors["g"] * np.sqrt(precision) - 1) < 1e-9


def damped(c, unused=0.0):
    drag = {"potential": lambda x: x @ x / 2, "forces": lambda t, x, xi, u, p: -p["c"] * xi}
    return gn.System(Translations(1), metric=[1.0], **drag, parameters={"c": c, "unused": unused}, name="damped")


@pytest.mark.quick("1e-09")
@pytest.mark.parametrize("unused", [0.0, 1e-9, 1.0, 1e9])
def test_a_parameter_may_vanish_or_be_known_by_its_prior_alone(unused):
    at, options = np.arange(1, 51), {"xi0": [1.0], "dt": 0.1}
    data = gn.solve(damped(0.0), "gauss4", **options, n_steps=50).g[at]
    assert abs(estimate(damped(0.05, unused), "c", data, at, height, **options).values["c"]) < 1e-13
    for width in (1e-12, 1.0, 1e12):
        known = {"sigma": 1e-3, "prior": {"unused": width}}
        result = estimate(damped(0.05, unused), ["c", "unused"], data, at, height, **options, **known)
        assert abs(result.values["c"]) < 1e-10
        assert abs(result.values["unused"] - unused) <= 1e-6 * width + 1e-15 * abs(unused)
        assert abs(result.errors["unused"] / width - 1) < 1e-6


@pytest.mark.quick("-0.4")
@pytest.mark.parametrize("guess", [1.5, -0.4])
def test_no_step_ascends(guess):
    """With a noise that is said to be far too large all steps are small beside the errors."""
    at, options = np.arange(1, 51), {"xi0": [1.0], "dt": 0.1}
    data = gn.solve(damped(0.3), "gauss4", **options, n_steps=50).g[at]
    result = estimate(damped(guess), "c", data, at, height, sigma=1e6, **options)
    before = gn.solve(damped(guess), "gauss4", **options, n_steps=50).g[at] - data
    assert np.sum(result.residuals**2) < np.sum(before**2)


def springs(K):
    pull = {"metric": np.eye(2), "potential": lambda x, p: x @ p["K"] @ x / 2}
    return gn.System(Translations(2), **pull, parameters={"K": np.array(K)}, name="springs")


@pytest.mark.slow
def test_arrays_are_estimated_entry_by_entry():
    """Only the symmetric part of K moves the body: the rest is as before, or refused without a prior."""
    K, at = np.array([[3.0, 1.0], [1.0, 2.0]]), np.arange(5, 101, 5)
    start = {"g0": [1.0, 0.4], "xi0": [0.0, 0.3], "dt": 0.02}
    data = gn.solve(springs(K), "gauss4", **start, n_steps=100).g[at]
    guess = [[2.5, 1.3], [0.9, 2.4]]
    with pytest.raises(ValueError, match=r"do not identify K\[0, 1\] and K\[1, 0\] separately"):
        estimate(springs(guess), "K", data, at, height, **start)
    result = estimate(springs(guess), "K", data, at, height, **start, sigma=1e-6, prior=1.0)
    assert result.values["K"].shape == result.errors["K"].shape == (2, 2)
    assert result.covariance.shape == (4, 4)
    np.testing.assert_allclose(result.values["K"], K + np.array([[0.0, 0.2], [-0.2, 0.0]]), atol=1e-5)
    np.testing.assert_allclose(result.errors["K"][0, 1], np.sqrt(0.5), rtol=1e-4)
    assert result.system.parameters["K"] is result.values["K"]


@pytest.mark.slow
def test_each_motion_may_have_its_own_controls():
    cart = gn.System(
        Translations(1),
        metric=lambda x, p: [[p["m"]]],
        forces=lambda t, x, xi, u: u,
        parameters={"m": 2.0},
        name="cart",
    )
    push, at = np.random.default_rng(5).normal(size=(2, 41, 1)), np.arange(4, 41, 4)
    heavy = cart.with_parameters(m=3.0)
    options = {"xi0": [0.0], "dt": 0.05, "method": "gni"}
    data = [gn.solve(heavy, n_steps=40, controls=u, **options).g[at] for u in push]
    result = estimate(cart, "m", data, at, height, controls=push, **options)
    assert abs(result.values["m"] - 3.0) < 1e-9
    with pytest.raises(ValueError, match="controls have a first axis of 2, but there are 3 motions"):
        estimate(cart, "m", [*data, data[0]], at, height, controls=push, **options)


def test_what_the_data_do_not_tell_is_said():
    body = gn.System(
        Translations(1),
        metric=lambda x, p: [p["m"]],
        potential=lambda x, p: p["m"] * 9.81 * x[0],
        parameters={"m": 1.0},
    )
    with pytest.raises(ValueError, match=r"identify m separately|do not depend on \['m'\]"):
        estimate(body, "m", np.zeros((3, 1)), [1, 2, 3], height, xi0=[1.0], dt=0.1)


def edge(x, p):
    return jnp.asarray([[p["a"], -jnp.sin(p["angle"]), jnp.cos(p["angle"])]])


def pose(g, xi):
    return g


def blade(angle, offset=0.3):
    """A sleigh whose blade is turned by an angle and lies off the centre: parameters of the form and of the metric."""
    return gn.System(
        SE2(),
        metric=[1.2, 1.0, 1.0],
        distribution=gn.Distribution(edge),
        parameters={"angle": angle, "a": offset},
        name="blade",
    )


BLADE_START = np.asarray(blade(0.4).project(None, [0.8, 0.5, 0.1]))
BLADE_RUN = gn.solve(blade(0.4), xi0=BLADE_START, dt=0.02, n_steps=200)
BLADE_AT = np.arange(0, 201, 10)


@pytest.mark.quick("False-0.3", "False-0.41", "False-0.5", "True-0.3", "True-0.41", "True-0.5", "True-0.6")
@pytest.mark.parametrize("guess", [0.6, 0.5, 0.41, 0.3])
@pytest.mark.parametrize("free_start", [False, True])
def test_parameters_of_forms_do_not_depend_on_their_guess(guess, free_start):
    """Without noise they are exact: the start is projected anew for each trial, not from the trial before."""
    data = BLADE_RUN.g[BLADE_AT]
    result = estimate(blade(guess), "angle", data, BLADE_AT, pose, xi0=BLADE_START, dt=0.02, free_start=free_start)
    assert abs(result.values["angle"] - 0.4) < 1e-9


def sleigh_seen(data, **options):
    return estimate(family(0.2, 1.0), ["a", "I"], data, AT, place, xi0=START, dt=0.02, **options)


def blade_seen(data, **options):
    return estimate(blade(0.5, 0.35), ["angle", "a"], data, BLADE_AT, pose, xi0=BLADE_START, dt=0.02, **options)


EXPERIMENTS = {
    "sleigh": (sleigh_seen, TRUE, {"a": 0.3, "I": 1.2}, {}),
    "forms": (blade_seen, BLADE_RUN.g[BLADE_AT], {"angle": 0.4, "a": 0.3}, {"sigma": 0.01}),
    "forms and start": (blade_seen, BLADE_RUN.g[BLADE_AT], {"angle": 0.4, "a": 0.3}, {"free_start": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    """Of 95 % intervals from 200 data sets 190 ± 3.1 hold the true value; and the pulls have mean 0 and deviation 1."""
    fitted, data, truth, options = EXPERIMENTS[name]
    pulls = []
    for seed in range(200):
        noise = 0.01 * np.random.default_rng(seed).normal(size=data.shape)
        found = fitted(data + noise, **options)
        pulls.append([(found.values[key] - value) / found.errors[key] for key, value in truth.items()])
    pulls = np.array(pulls)
    inside = (np.abs(pulls) < 1.96).sum(axis=0)
    print(name, dict(zip(truth, inside, strict=True)))
    assert np.all(np.abs(inside - 190) <= 11)  # 3.5 standard deviations
    assert np.all(np.abs(pulls.mean(axis=0)) < 4 / np.sqrt(200))
    assert np.all(np.abs(pulls.std(axis=0) - 1) < 4 / np.sqrt(400))


@pytest.mark.slow
def test_starts_across_the_constraints_are_left_alone():
    """Derivatives by velocities that the wheels forbid are rounding: no step of any size is taken along them."""
    board = gn.systems.controlled_snakeboard()
    options = {"g0": ([0.0] * 3, [0.0, 0.3]), "dt": 0.05}
    options["controls"] = lambda t: 0.3 * jnp.stack([jnp.sin(2 * t), -jnp.sin(3 * t)])
    xi0 = board.project(options["g0"], [0.0, 0.0, 0.0, 0.5, 0.4])
    at, pushed = np.arange(6, 61, 6), gn.solve(board, "gauss4", xi0=xi0, n_steps=60, **options)
    data = np.concatenate([np.asarray(part)[at] for part in pushed.g], axis=1)
    data = data + 1e-4 * np.random.default_rng(1).normal(size=data.shape)
    guess = board.with_parameters(r=0.45, J0=0.4)
    result = estimate(
        guess, ["r", "J0"], data, at, lambda g, xi: jnp.concatenate(g), xi0=xi0, free_start=True, **options
    )
    assert result.iterations < 10
    for name, truth in (("r", 0.5), ("J0", 0.5)):
        assert abs(result.values[name] - truth) < 4 * result.errors[name]


def test_a_wrong_minimum_is_said():
    """An oscillation of 20 s with ω = 2: near ω = 2.5 it is one period ahead, and the sum of squares has a minimum."""
    at = np.arange(4, 401, 4)
    data = np.cos(2.0 * 0.05 * at)[:, None] + 0.02 * np.random.default_rng(0).normal(size=(100, 1))

    def fitted(k):
        spring = gn.System(
            Translations(1), metric=[[1.0]], potential=lambda x, p: p["k"] * x @ x / 2, parameters={"k": k}
        )
        return estimate(spring, "k", data, at, lambda g, xi: g, g0=[1.0], xi0=[0.0], dt=0.05)

    with pytest.warns(UserWarning, match="residuals are not noise"):
        assert abs(fitted(6.2).values["k"] - 4) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fitted(4.1)
    assert abs(fit.values["k"] - 4) < 3 * fit.errors["k"]


def bent(b, c):
    return gn.System(
        Translations(3),
        metric=np.diag([1.0, 1.1, 2.0]),
        potential=lambda q: q @ q / 2 + 0.2 * q[0] ** 3,
        distribution=gn.Distribution(lambda q, p: [[-(p["b"] * q[1] + p["c"] * jnp.sin(q[0])), 0.0, 1.0]]),
        parameters={"b": b, "c": c},
    )


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-9, 1e-12])
def test_a_fit_to_data_with_almost_no_noise_converges(noise):
    """Steps cannot become smaller than the rounding of the observations makes them."""
    at, g0, options = np.arange(0, 201, 5), [0.3, 0.7, -0.2], {"dt": 0.02, "method": "gauss6"}
    xi0 = bent(0.8, 0.5).project(g0, [0.6, -0.4, 0.0])
    data = gn.solve(bent(0.8, 0.5), g0=g0, xi0=xi0, n_steps=200, **options).g[at][:, [0, 2]]
    data = data + noise * np.random.default_rng(1).normal(size=data.shape)
    for guess in ((1.0, 0.7), (0.5, 0.2), (1.3, 0.9), (0.6, 0.4)):
        result = estimate(
            bent(*guess), ["b", "c"], data, at, lambda g, xi: g[jnp.array([0, 2])], g0=g0, xi0=xi0, **options
        )
        assert max(abs(result.values["b"] - 0.8), abs(result.values["c"] - 0.5)) < 10 * noise


@pytest.mark.slow
def test_a_module_is_estimated_leaf_by_leaf():
    """A force that is linear in the place, by an Equinox layer in a dict."""

    def body(layer):
        pull = {"metric": [1.0], "forces": lambda t, x, xi, u, p: -p["net"]["layer"](x)}
        return gn.System(Translations(1), **pull, parameters={"net": {"layer": layer}}, name="body on a spring")

    def linear(weight, bias):
        with gn.float64():
            layer = eqx.nn.Linear(1, 1, key=jax.random.key(0))
            values = jnp.array([[weight]]), jnp.array([bias])
            return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, values)

    at, options = np.arange(5, 101, 5), {"g0": [1.0], "xi0": [0.0], "dt": 0.02}
    data = gn.solve(body(linear(3.0, 0.5)), "gauss4", **options, n_steps=100).g[at]
    result = estimate(body(linear(2.5, 0.2)), "net", data, at, height, **options)
    np.testing.assert_allclose(result.values["net"]["layer"].weight, [[3.0]], rtol=1e-9)
    np.testing.assert_allclose(result.values["net"]["layer"].bias, [0.5], rtol=1e-9)
    assert result.covariance.shape == (2, 2)
    assert str(result).startswith("net (2 numbers) (noise")


def network(seed, width=8):
    with gn.float64():
        return eqx.nn.MLP(1, 1, width, 1, activation=jnp.tanh, key=jax.random.PRNGKey(seed))


def turned(angle):
    """A skate on the plane whose blade is turned by an angle that depends on the place."""

    def row(q, p):
        heading = q[0] + angle(q[1], p)
        return jnp.stack([jnp.zeros_like(heading), -jnp.sin(heading), jnp.cos(heading)])[None]

    return {"metric": [0.5, 1.0, 1.0], "distribution": gn.Distribution(row), "name": "turned skate"}


def weighed(mass):
    """A particle on a line in a known field, whose mass depends on the place."""
    field = {"potential": lambda q: q @ q / 2 + 0.1 * jnp.sum(q**4), "name": "weighed particle"}
    return {"metric": lambda q, p: mass(q[0], p)[None, None], **field}


LEARNED = {
    "form": (
        turned(lambda x, p: 0.4 * jnp.sin(1.5 * x)),
        turned(lambda x, p: p["net"](x[None])[0]),
        lambda net, x: net(x[None])[0] - 0.4 * jnp.sin(1.5 * x),
    ),
    "metric": (
        weighed(lambda x, p: 1 + 0.5 * jnp.cos(2 * x)),
        weighed(lambda x, p: jnp.exp(p["net"](x[None])[0])),
        lambda net, x: jnp.exp(net(x[None])[0]) - 1 - 0.5 * jnp.cos(2 * x),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(LEARNED))
def test_a_network_is_learned_from_noisy_motions(name, seed):
    """25 weights of an angle of the form, or of the metric: residuals are noise, and the function is that sought."""
    true, model, off = LEARNED[name]
    random, sigma = np.random.default_rng(seed), 1e-3
    dim = 3 if name == "form" else 1
    starts = {"g0": random.uniform(-1, 1, (8, dim)), "xi0": random.normal(size=(8, dim)), "dt": 0.05}
    truth = gn.System(Translations(dim), **true)
    runs = gn.solve_ensemble(truth, "gauss4", **starts, project=True, n_steps=40, save_every=1)
    data = runs.g[:, 1:] + sigma * random.normal(size=(8, 40, dim))
    guess = gn.System(Translations(dim), **model, parameters={"net": network(seed)})
    options = starts | {"xi0": runs.xi[:, 0]}
    fit = estimate(guess, "net", data, np.arange(1, 41), pose, **options, sigma=sigma, prior=1.0)
    residuals = fit.residuals / sigma
    assert abs(np.mean(residuals**2) - 1) < 5 * np.sqrt(2 / residuals.size)
    places = np.quantile(data[..., 1 if name == "form" else 0], np.linspace(0.05, 0.95, 15))
    error = np.array([float(off(fit.values["net"], x)) for x in places])
    print(name, seed, fit.iterations, np.abs(error).max())
    assert np.abs(error).max() < 5e-3
    with pytest.raises(RuntimeError, match=r"did not converge in 3 iterations; the last step is .* standard") as caught:
        estimate(guess, "net", data, np.arange(1, 41), pose, **options, sigma=sigma, prior=1.0, max_iterations=3)
    assert caught.value.estimate.iterations == 3
    assert np.sum(caught.value.estimate.residuals**2) > np.sum(fit.residuals**2)

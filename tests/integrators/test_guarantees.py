"""Every entry of the table of methods, proved or refuted."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import random_system, spd, start, system_for

import geonh as gn
from geonh.diagnostics import convergence, reversibility_defect
from geonh.engine.tracing import forward_only
from geonh.groups import SO3
from geonh.integrators import Feedback
from geonh.integrators.base import Clock
from geonh.runs.start import as_start, first_node
from geonh.systems import catalogue

NAMES = list(gn.methods)
STEPS = {
    1: (320, 640, 1280, 2560),
    2: (40, 80, 160, 320),
    4: (16, 24, 32, 48),
    5: (32, 48, 64, 96),
    6: (8, 12, 16, 24),
    8: (16, 20, 24, 28),
}
DT = 0.04
QUICK = ("projected", "gni", "shake", "dla", "rkmk4", "rk4-energy")
ONE_OF_EACH = ("gauss4", "lobatto4", "discrete-gradient", "variational")


def but_slow(slow):
    """Every method, those marked that take long."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in NAMES]


def steps_of(name):
    """Numbers of steps between the leading error and rounding."""
    return (96, 128, 192, 256) if name == "dormand-prince" else STEPS[method(name).guarantees.order]


def speed(name):
    """Of the start: small leading errors show in a fast motion only."""
    return {"dormand-prince": 10.0, "rkmk8": 6.0}.get(name, 2.0)


def above(order):
    """Measured order above the declared one; of order 8 the leading error is not alone before that is rounding."""
    return 0.1 if order < 8 else 1.0


@functools.cache
def method(name):
    # The feedback of gain 100 is too fast for the steps that the other methods take.
    return Feedback(1.0, "rk4") if name == "feedback" else gn.methods[name].make()


@pytest.mark.parametrize("name", but_slow(set(NAMES) - {*QUICK, *ONE_OF_EACH}))
def test_order_constraint_and_energy(name):
    """On one random system, whose metric, potential and constraints depend on the point."""
    system, promised = system_for(name), method(name).guarantees
    steps = np.array(steps_of(name)) * (8 if name == "feedback" else 1)  # its attraction is to be resolved
    measured = convergence(system, method(name), steps=steps, **start(system, speed=speed(name)))
    assert measured.declared == promised.order
    assert -0.1 <= measured.order - promised.order <= above(promised.order), str(measured)

    trajectory = gn.solve(system, method(name), dt=4 * DT if promised.order == 8 else DT, n_steps=50, **start(system))
    residual = np.abs(trajectory.constraint_residual).max(initial=0.0)
    assert np.all(np.isfinite(trajectory.constraint_residual))
    assert residual < 1e-14 if promised.constraint == "nodes" else residual > 1e-12
    if promised.constraint == "step":
        assert discrete_residual(system, method(name), trajectory) < 1e-12
    if promised.energy in ("always", "quadrature", "projected"):
        substeps = 50 * len(getattr(method(name), "parts", [name]))
        assert np.ptp(trajectory.energy) < 2 * substeps * np.spacing(trajectory.energy[0])  # roundings in each
    else:
        assert min(np.ptp(trajectory.energy), np.ptp(trajectory.energy_minus)) > 2e-12


def discrete_residual(system, dla, trajectory):
    """Largest φ(x_k, W_k): the constraint of the discrete principle."""
    group, tau = system.group, dla.tau(system)

    def phi(g, h):
        W = group.compose(group.inverse(g), h)
        return dla.constraint(system, tau, DT, system.action.at(g), tau.inverse(group, W))

    return np.abs(jax.vmap(phi)(trajectory.g[:-1], trajectory.g[1:])).max()


@pytest.mark.parametrize("name", but_slow(set(NAMES) - set(QUICK)))
def test_symmetry(name):
    """A symmetric method retraces its steps with the velocity reversed; one that is not misses its start."""
    system, promised = system_for(name), method(name).guarantees
    dt = DT if promised.symmetric else {6: 2 * DT, 8: 4 * DT}.get(promised.order, DT)  # so that its tiny error is seen
    defect = float(reversibility_defect(system, method(name), dt=dt, n_steps=20, **start(system)))
    assert np.isfinite(defect)
    if method(name).guarantees.symmetric and method(name).guarantees.node == "velocity":  # the way back begins anew
        there = gn.solve(system, method(name), dt=DT, n_steps=20, **start(system))
        back = gn.solve(system, method(name), dt=DT, n_steps=20, g0=there.g[-1], xi0=-there.xi[-1])
        defect += np.abs(np.concatenate([back.g_vector[-1] - there.g_vector[0], back.xi[-1] + there.xi[0]])).max()
    if method(name).guarantees.symmetric:
        assert defect < 2e-12
    else:
        assert defect > 1e-11


@pytest.mark.parametrize("name", but_slow(set(NAMES) - set(QUICK)))
def test_a_warm_start_is_speed_only(name):
    """Dropped at every seventh node it leaves the run as it is; memory, dropped, would not."""
    system = system_for(name)
    whole = gn.solve(system, method(name), dt=DT, n_steps=21, **start(system))
    parts = gn.solve(system, method(name), dt=DT, n_steps=7, **start(system))
    for _ in range(2):
        state, clock = parts.state, parts.clock
        xi = system.velocity(system.action.at(state.g), (state.p_plus + state.p_minus) / 2)
        cold = method(name).cold(system, clock, state.k, state.g, xi)
        assert jax.tree.structure(cold) == jax.tree.structure(state.warm)
        parts = gn.resume(parts.with_run(state=state._replace(warm=jax.tree.map(np.asarray, cold))), 7)
    for label in ("g_vector", "p_plus", "p_minus"):
        np.testing.assert_allclose(getattr(parts, label), getattr(whole, label), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_affine_constraints_are_taken_at_full_order_or_refused(name):
    if name == "variational":
        pytest.skip("for systems without constraints")
    system, order = system_for(name, affine=True), method(name).guarantees.order
    if not method(name).guarantees.affine:
        with pytest.raises(ValueError, match=r"affine|ℓ = ½ξᵀMξ"):
            gn.solve(system, method(name), dt=DT, n_steps=5, **start(system))
        return
    measured = convergence(system, method(name), steps=steps_of(name), **start(system, speed=speed(name)))
    assert order - 0.1 <= measured.order <= order + max(0.2, above(order)), str(measured)


def operations(program):
    """Names of the operations of a program, those of the programs within it among them."""
    for eqn in program.eqns:
        yield eqn.primitive.name
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from operations(inner)


@pytest.mark.parametrize("name", NAMES)
def test_explicit_or_implicit(name):
    """An implicit step iterates until its equations are solved; an explicit one has a fixed number of operations."""
    system = system_for(name)
    clock = Clock(0.0, DT)
    at = start(system)
    state = jax.eval_shape(lambda g, xi: method(name).first_node(system, clock, g, xi), at["g0"], at["xi0"])
    with forward_only():
        program = jax.make_jaxpr(lambda state: method(name).next_node(system, clock, state))(state)
    assert ("while" in operations(program.jaxpr)) == method(name).guarantees.implicit


@pytest.mark.parametrize("name", [n for n in NAMES if method(n).guarantees.energy == "bi-invariant"])
@pytest.mark.quick("gni", "euler-a", "shake")
def test_energy_at_p_minus_for_a_bi_invariant_lagrangian(name):
    """Theorem 1: any distribution, here one that turns with the body's position."""
    rng = np.random.default_rng(0)
    a, B = rng.normal(size=(1, 3)), 0.2 * rng.normal(size=(1, 3, 9))
    if method(name).guarantees.groups == "any":
        forms = lambda x: a + jnp.tensordot(B, jnp.ravel(x), 1)  # noqa: E731
        system = gn.System(SO3(), metric=1.7 * np.eye(3), distribution=gn.Distribution(forms))
    else:
        forms = lambda x: a + jnp.cos(x)  # noqa: E731
        system = gn.System(random_system("R3").group, metric=spd(rng, 3), distribution=gn.Distribution(forms))
    if name == "variational":
        system = gn.System(SO3(), metric=1.7 * np.eye(3))
    trajectory = gn.solve(system, method(name), dt=DT, n_steps=200, **start(system))
    assert np.ptp(trajectory.energy_minus) < 1e-12
    if method(name).guarantees.node == "velocity":
        assert np.ptp(trajectory.energy) < 1e-12


def momentum_change(name, dt):
    """Change of a nonholonomic momentum of a horizontal symmetry, over 200 steps."""
    if method(name).guarantees.groups != "any":
        entry = catalogue["nonholonomic-particle"]
        system, what = entry.system(), "p_y"
    elif name == "variational":
        entry = catalogue["heavy-top"]
        system, what = entry.system(), "vertical momentum"
    else:
        entry = catalogue["veselova"]
        system, what = entry.system(), "horizontal momentum"
    begin = entry.start(system)
    trajectory = gn.solve(system, method(name), dt=dt, n_steps=200, g0=begin.g0, xi0=begin.xi0)
    integral = trajectory.integrals[what]
    return np.abs(integral - integral[0]).max()


@pytest.mark.parametrize("name", [n for n in NAMES if method(n).guarantees.momentum == "horizontal"])
@pytest.mark.quick("gni", "projected", "dla", "euler-a")
def test_momentum_of_a_horizontal_symmetry_is_kept(name):
    assert momentum_change(name, DT) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if method(n).guarantees.momentum == "none"])
def test_momentum_of_a_horizontal_symmetry_is_not_kept(name):
    assert momentum_change(name, 4 * DT) > 1e-12  # a long step: of order 6, a short one changes it by rounding only


@pytest.mark.parametrize("name", [n for n in NAMES if method(n).guarantees.embedded])
@pytest.mark.quick("rkmk5")
def test_embedded_error_estimates_have_their_order(name):
    system, sizes = system_for(name), []
    for dt in (0.02, 0.01):
        begin = as_start(system, method(name), **start(system), dt=dt, t0=0.0, n_steps=1, controls=None)
        state = first_node(system, method(name), begin).state
        with gn.float64():
            sizes.append(jnp.linalg.norm(method(name).estimate(system, begin.clock, state)[1]))
    assert abs(np.log2(sizes[0] / sizes[1]) - (method(name).guarantees.embedded + 1)) < 0.2


@pytest.mark.parametrize("name", [n for n in NAMES if method(n).guarantees.groups != "any"])
def test_methods_of_vector_spaces_refuse_groups(name):
    system = random_system("SO3", constant_metric=True)
    with pytest.raises(ValueError, match="vector spaces"):
        gn.solve(system, method(name), dt=DT, n_steps=5, **start(system))

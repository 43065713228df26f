"""Results of the papers, as numbers.

2008: Ferraro, Iglesias, Martín de Diego, Nonlinearity 21; feedback: Chang, Perlmutter, J. Nonlinear Sci. 29 (2019);
slides: AIMS conference 2008, discrete nonholonomic Lagrangian systems on Lie groupoids.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.diagnostics import poincare_section
from geonh.groups import SO3, Opposite, Product, Translations
from geonh.integrators import DLA, DiscreteConstraint, Feedback
from geonh.systems import catalogue


def entry(name, **parameters):
    result = catalogue[name]
    system = result.system(**parameters)
    return system, result.start(system), result


def test_particle_energy_of_gni_against_dla():
    """2008, figure 2: GNI keeps the energy, DLA lets it oscillate."""
    system, _, _ = entry("nonholonomic-particle")
    options = {"g0": [0.0, 1.0, 0.0], "xi0": [1.0, 0.3, 1.0], "dt": 0.05, "n_steps": 2000}
    gni = gn.solve(system, gn.GNI("left", start="average"), **options)
    dla = gn.solve(system, DLA("left", "trapezoid"), **options)
    assert np.ptp(gni.energy_minus) < 1e-12
    assert np.ptp(dla.energy_minus) > 1e-6


def sleigh_in_coordinates():
    """2008, example 3, on R² × S¹ with the metric of the coordinates."""
    m, inertia, a = 1.0, 1.0, 0.2

    def metric(q):
        s, c = jnp.sin(q[0]), jnp.cos(q[0])
        rows = [[inertia + m * a * a, -m * a * s, m * a * c], [-m * a * s, m, 0.0], [m * a * c, 0.0, m]]
        return jnp.array(rows)

    forms = lambda q: jnp.stack([jnp.zeros(()), jnp.sin(q[0]), -jnp.cos(q[0])])[None]  # noqa: E731
    return gn.System(Translations(3), metric=metric, distribution=gn.Distribution(forms))


@pytest.mark.slow
def test_sleigh_errors_of_gni_and_dla_and_of_the_one_sided_constraint():
    """2008, figure 6 and the remark after it: alike, and one to two orders worse with a one-sided constraint."""
    system, h, n = sleigh_in_coordinates(), 0.2, 50
    xi0 = [0.8, -0.5, 0.0]
    exact = gn.mechanics.reference_trajectory(system, h * np.arange(n + 1), xi0)[0]

    def error(method):
        return np.linalg.norm(gn.solve(system, method, xi0=xi0, dt=h, n_steps=n).g - exact, axis=1).max()

    gni, dla, one_sided = (
        error(gn.GNI("midpoint", start="average")),
        error(DLA()),
        error(DLA("midpoint", "left")),
    )
    assert 1 / 5 < gni / dla < 5
    assert 10 < one_sided / dla < 100


@pytest.mark.slow
def test_suslov_by_feedback_with_euler_steps():
    """Feedback, figures 1 and 2: h = 10⁻³, all gains 100, from Π = (0, 1, 1) over 10 s."""
    system, start, result = entry("suslov")
    run = gn.solve(system, Feedback(100.0, "euler"), xi0=start.xi0, dt=1e-3, n_steps=10_000)
    exact = result.exact(system, start, run.t)[1] @ np.array([[1.0, 0, 0], [0, 1, 1], [0, 1, 2]])
    assert np.abs(run.p - exact).max() < 1e-3
    R = run.g
    assert np.linalg.norm(np.einsum("kji,kjl->kil", R, R) - np.eye(3), axis=(1, 2)).max() < 1e-4
    assert np.abs(run.constraint_residual).max() < 1e-5
    assert np.ptp(run.energy) < 1e-4
    plain = gn.solve(system, Feedback(0.0, "euler"), xi0=start.xi0, dt=1e-3, n_steps=10_000)
    assert np.ptp(plain.energy) > 5 * np.ptp(run.energy)  # what the feedback is for


@pytest.mark.slow
def test_knife_edge_by_feedback_over_200_seconds():
    """Feedback, figures 3 to 5: h = 10⁻³, all gains 1000; the exact solution is the corrected one of the catalogue."""
    system, start, result = entry("knife-edge")
    method = Feedback({"constraint": 1000.0, "spin": 1000.0, "energy": 1000.0}, "euler")
    run = gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=1e-3, n_steps=200_000, save_every=100)
    with gn.float64():
        exact = np.asarray(system.group.to_vector(result.exact(system, start, run.t)[0]))
    assert np.abs(run.g_vector - exact).max() < 0.2
    assert np.abs(run.constraint_residual).max() < 2e-3
    assert np.abs(run.integrals["spin"] - run.integrals["spin"][0]).max() < 1e-4
    assert np.ptp(run.energy) < 2e-3


def test_oscillator_by_explicit_dla_is_the_scheme_of_the_paper():
    """Feedback, eqs. 84, 85: l_d = hL(q₀, (q₁ − q₀)/h) and the constraint at the left point."""
    system, _, _ = entry("nonholonomic-oscillator")
    h, n = 1e-2, 500
    run = gn.solve(system, DLA("left", "left"), g0=[1.0, 1.0, 1.0], xi0=[0.0, 0.0, 0.0], dt=h, n_steps=n)
    before, q, path = run.g[0], run.g[1], [run.g[0], run.g[1]]
    for _ in range(n - 1):
        A = np.array([1.0, 0.0, q[1]])
        lam = A @ ((1 - h**2) * q - before) / (h**2 * (1 + q[1] ** 2))
        before, q = q, 2 * q - before - h**2 * q - h**2 * lam * A
        path.append(q)
    assert np.abs(run.g - path).max() < 1e-11


FROM_REST = {"g0": [1.0, 1.0, 1.0], "xi0": [0.0, 0.0, 0.0]}
ATTRACTED = Feedback({"energy": 500.0, "H_y": 300.0, "constraint": 300.0}, "euler")


@pytest.mark.slow
def test_oscillator_first_integrals_of_feedback_and_dla_over_200_seconds():
    """Feedback, figure 6: h = 10⁻³, gains 500, 300, 300, from rest at (1, 1, 1)."""
    system, _, _ = entry("nonholonomic-oscillator")
    options = {**FROM_REST, "dt": 1e-3, "n_steps": 200_000, "save_every": 100}
    feedback, dla = (
        gn.solve(system, ATTRACTED, **options),
        gn.solve(system, DLA("left", "left"), **options),
    )

    def errors(run):
        H_y = run.integrals["H_y"]
        return np.ptp(run.energy), np.ptp(H_y), np.abs(run.constraint_residual).max()

    of_feedback, of_dla = errors(feedback), errors(dla)
    assert np.max(of_feedback) < 5e-3
    assert of_dla[0] > 10 * of_feedback[0]  # "poor at preserving the energy"
    assert of_dla[1] < 5e-3


def test_oscillator_poincare_sections_over_400_seconds():
    """Feedback, figure 7: y(t) = cos t, so a crossing of y = 0 with ẏ > 0 each 2π; "both produce similar results"."""
    system, _, _ = entry("nonholonomic-oscillator")

    def section(method, dt, save_every=1):
        options = {"dt": dt, "n_steps": round(400 / dt), "save_every": save_every}
        result = poincare_section(gn.solve(system, method, **FROM_REST, **options), lambda g, xi: g[1])
        assert len(result) == 63
        assert np.abs(result.values("y")).max() < 1e-11
        assert np.abs(np.diff(result.t) - 2 * np.pi).max() < 1e-3
        return np.stack([result.values("x"), result.values("z"), result.xi[:, 2]])

    exact = section(gn.Gauss(3), 0.02)
    gni, feedback = section(gn.GNI(start="average"), 0.01), section(ATTRACTED, 1e-3, 10)
    dla = section(DLA("left", "left"), 1e-3, 10)
    assert np.abs(gni - exact).max() < 2e-3
    assert np.abs(feedback - exact).max() < 0.1
    assert np.abs(dla - exact).max() < 0.1
    # H − H_y is a quadratic form in (x, z, ż), ẋ = −yż = 0 there: the points lie on an ellipsoid; DLA's leave it.
    off = [np.ptp(np.sum(points**2, axis=0)) for points in (gni, feedback, dla)]
    assert np.max(off[:2]) < 1e-3
    assert off[2] > 10 * off[1]


@pytest.mark.slow
def test_rolling_ball_orbit_of_the_slides():
    """Slides: DLA on the Atiyah groupoid with the trace constraint, h = 0.01, from (0.99, 1), (1, 0.99), 20 000 steps.

    The contact point then turns by tan(φ/2) = hν/2 in each step: a circle, where a standard method spirals.
    """
    m, r, inertia, rate, h, n = 1.0, 1.0, 0.4, 0.5, 0.01, 20_000
    E = [np.array(e, float) for e in ([[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]])]

    def discrete_lagrangian(x, W, h):
        step, turn = W
        return m * step @ step / (2 * h) - inertia / (2 * h) * jnp.trace(turn)

    def constraint(x, W, h):
        step, turn = W
        middle = x + step / 2
        first = step[0] + r / 2 * jnp.trace(turn @ E[1])
        second = step[1] - r / 2 * jnp.trace(turn @ E[0])
        return jnp.stack([first / h + rate * middle[1], second / h - rate * middle[0]])

    forms = np.array([[1.0, 0, 0, -r, 0], [0, 1.0, r, 0, 0]])
    system = gn.System(
        Product((Translations(2), Opposite(SO3()))),
        metric=np.diag([m, m, inertia, inertia, inertia]),
        distribution=gn.AffineDistribution(forms, rhs=lambda x: rate * jnp.stack([-x[1], x[0]])),
        base=("x1", "x2") if "x1" in Translations(2).point_names else Translations(2).point_names,
    )
    method = DLA(discrete_lagrangian, DiscreteConstraint(constraint, symmetric=True))
    z0, z1 = np.array([0.99, 1.0]), np.array([1.0, 0.99])

    def run(v, n):
        w = np.array([(rate * z0[0] - v[1]) / r, (v[0] + rate * z0[1]) / r, 0.2])
        return gn.solve(system, method, g0=(z0, np.eye(3)), xi0=[*v, *w], dt=h, n_steps=n).g[0]

    base, e1, e2 = (run(np.array(v), 1)[1] for v in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0]))
    v0 = np.linalg.solve(np.array([e1 - base, e2 - base]).T, z1 - base)  # the velocity that leads to z₁, nearly
    path = run(v0, n) @ np.array([1.0, 1j])
    assert abs(path[1] - (1 + 0.99j)) < 1e-6
    angle = 2 * np.arctan(h * inertia * rate / (inertia + m * r**2) / 2)
    steps = np.diff(path)
    assert np.abs(steps[1:] / steps[:-1] - np.exp(1j * angle)).max() < 1e-9
    centre = path[0] - steps[0] / (np.exp(1j * angle) - 1)
    assert np.ptp(np.abs(path - centre)) < 1e-7


def test_controlled_snakeboard_moves_forward_from_rest():
    """2008, figure 4: opposite torques on the axles and the rider, in phase: snake-like motion of increasing speed."""
    system, start, result = entry("controlled-snakeboard")
    assert np.allclose(start.xi0, 0)
    begin = {"g0": start.g0, "xi0": start.xi0, "controls": result.controls}
    run = gn.solve(system, gn.GNI(start="average"), dt=result.dt, n_steps=result.n_steps, **begin)
    finer = gn.solve(system, gn.GNI(start="average"), dt=result.dt / 2, n_steps=2 * result.n_steps, **begin)
    v = run.xi[:, list(system.group.velocity_names).index("vx")]
    thirds = np.array_split(np.abs(v), 3)
    assert thirds[0].max() < thirds[1].max() < thirds[2].max()
    times = [0.0, run.t[-1]]
    g, _ = gn.mechanics.reference_trajectory(system, times, start.xi0, start.g0, controls=result.controls)
    with gn.float64():
        end = np.asarray(system.group.to_vector(g))[-1]
    coarse, fine = (np.abs(r.g_vector[-1] - end).max() for r in (run, finer))
    assert fine < 1e-2
    assert 3.5 < coarse / fine < 4.5


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("vertical-disk", "roller-racer", "heisenberg")]


@pytest.mark.parametrize("name", [pytest.param("chaplygin-sleigh", marks=pytest.mark.slow), *SLOW])
def test_the_other_systems_by_feedback(name):
    """Feedback, §3.3 to 3.6: attracted to the constraint and the energy level from a start on it, Euler, h = 10⁻³."""
    system, start, _ = entry(name)
    begin = {"g0": start.g0, "xi0": start.xi0, "dt": 1e-3, "n_steps": 10_000, "save_every": 10}
    run = gn.solve(system, Feedback({"constraint": 100.0, "energy": 100.0}, "euler"), **begin)
    assert np.abs(run.constraint_residual).max() < 1e-4
    assert np.ptp(run.energy) < 1e-4
    exact = gn.mechanics.reference_trajectory(system, run.t, start.xi0, start.g0)[1]
    assert np.abs(run.xi - exact).max() < 1e-2

"""Random systems on which every method is tried: metric, potential and constraints all depend on the point.

Systems are kept, so that tests of one file share the compiled programs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

import geonh as gn
from geonh.engine.compiled import computed
from geonh.groups import SE2, SE3, SO3, Heisenberg, MatrixGroup, Opposite, Product, Torus, Translations

SL2 = np.array([[[0.0, 1], [0, 0]], [[0, 0], [2, 0]], [[1, 1], [0, -1]]])
GROUPS = {
    "R3": Translations(3),
    "R4": Translations(4),
    "SO3": SO3(),
    "SE2xT1": Product((SE2(), Torus(1))),
    "R2xSO3": Product((Translations(2), SO3())),
    "HeisxSE2": Product((Heisenberg(), SE2())),
    "SE3": SE3(),
    "Heisenberg": Heisenberg(),
    "SE2op": Opposite(SE2()),
    "SL2": MatrixGroup(SL2, name="SL(2)"),
    "SO4": MatrixGroup(SpecialOrthogonal(4)),
}
OPTIONS = {"dt": 0.03, "n_steps": 60}


def spd(rng, n):
    a = rng.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@functools.cache
def random_system(group, *, affine=False, constant_metric=False, constrained=True, m=1, mixed=False, seed=3):
    """A system whose ingredients are random trigonometric functions of the entries of the group element.

    ``mixed``: the same constraints, written with forms multiplied by an invertible matrix that depends on the point.
    """
    group = GROUPS[group]
    rng = np.random.default_rng(seed)
    n, k = group.dim, len(group.point_names)
    M, A = spd(rng, n), 0.1 * rng.normal(size=(n, n, k))
    mu, B = rng.normal(size=(m, n)), 0.3 * rng.normal(size=(m, n, k))
    c, b, C = 2 * rng.normal(size=k), rng.normal(size=m), 0.3 * rng.normal(size=(m, k))
    mixing = rng.normal(size=(m, m, k))

    def features(x):
        return jnp.cos(group.to_vector(x))

    def metric(x):
        S = jnp.tensordot(A, features(x), 1)
        return M + S + S.T

    def mixer(x):
        S = jnp.tensordot(mixing, jnp.sin(group.to_vector(x)), 1)
        return jax.scipy.linalg.expm(S - S.T) @ (jnp.eye(m) + 0.1 * S @ S.T) if mixed else jnp.eye(m)

    def forms(x):
        return mixer(x) @ (mu + jnp.tensordot(B, features(x), 1))

    def right(x):
        return mixer(x) @ (b + C @ features(x))

    distribution = gn.AffineDistribution(forms, right) if affine else gn.Distribution(forms)
    return gn.System(
        group,
        metric=M if constant_metric else metric,
        potential=lambda x: c @ features(x),
        distribution=distribution if constrained else None,
        name="random",
    )


@functools.cache
def forced(group="SO3", m=1):
    """Forces that depend on time and velocity, controls, a constant metric."""
    rng = np.random.default_rng(1)
    n = GROUPS[group].dim
    forms = [[0.3, -0.5, 1.0], [1.0, 0.4, -0.2]][:m] if n == 3 else rng.normal(size=(m, n))
    return gn.System(
        GROUPS[group],
        metric=spd(rng, n),
        distribution=gn.Distribution(forms),
        forces=lambda t, x, xi, u: -0.2 * xi - 0.05 * xi * jnp.sum(xi**2) + u,
    )


def controls(t):
    """Of ``forced`` in three dimensions."""
    return jnp.stack([jnp.sin(t), 0.0 * t, jnp.cos(t)])


@functools.cache
def general(affine=True):
    """ℓ neither quadratic nor even in ξ, forces of time, place and velocity, and a constraint, on SO(3)."""
    rng = np.random.default_rng(6)
    M = spd(rng, 3)

    def lagrangian(R, xi):
        return 0.5 * xi @ M @ xi + 0.05 * (xi @ xi) ** 2 + R[0, 1] * xi[1] - jnp.cos(R[1, 2])

    forms, right = (lambda R: R[2][None] + 0.3), (lambda R: 0.4 * R[0, :1])
    return gn.System(
        SO3(),
        lagrangian=lagrangian,
        distribution=gn.AffineDistribution(forms, right) if affine else gn.Distribution(forms),
        forces=lambda t, R, xi, u: -0.3 * xi + jnp.cos(2 * t) * R[1],
        name="general",
    )


def start(system, seed=4, speed=2.0):
    """A random consistent start."""
    rng = np.random.default_rng(seed)
    with gn.float64():
        g0 = jax.tree.map(np.asarray, system.group.exp(jnp.asarray(rng.normal(size=system.group.dim))))
    return {"g0": g0, "xi0": system.project(g0, speed * rng.normal(size=system.group.dim))}


def system_for(name, affine=False):
    """The random system that fits the hypotheses of a method."""
    group = "SO3" if gn.methods[name].make().guarantees.groups == "any" else "R3"
    return random_system(
        group, affine=affine, constant_metric=name in ("rattle", "shake"), constrained=name != "variational"
    )


@functools.cache
def contracting(group="HeisxSE2", m=2, seed=0):
    """A left-invariant system whose flow keeps no volume, with a start: what spoils a momentum that alternates."""
    rng = np.random.default_rng(seed)
    n = GROUPS[group].dim
    system = gn.System(
        GROUPS[group],
        metric=spd(rng, n) / n,
        distribution=gn.Distribution(rng.normal(size=(m, n))),
        base="point",
        name="contracting",
    )
    return system, {"xi0": system.project(None, rng.normal(size=n))}


def same_run(a, b, tolerance=1e-12):
    """Two trajectories agree at every node, in numbers."""
    assert np.all(np.isfinite(a.p_minus))
    for left, right in ((a.g_vector, b.g_vector), (a.p_plus, b.p_plus), (a.p_minus, b.p_minus)):
        np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)


def end_errors(system, method, steps, *, g0=None, xi0, span=1.0, controls=None):
    """Errors of (g, ξ) at the end, for numbers of steps, against the reference solution."""
    g, xi = gn.mechanics.reference_trajectory(system, [0, span], xi0, g0, controls=controls)
    with gn.float64():
        end = np.concatenate([np.asarray(system.group.to_vector(g))[-1], xi[-1]])
    result = []
    for n in steps:
        run = gn.solve(
            system, method, g0=g0, xi0=xi0, dt=span / n, n_steps=int(n), controls=controls, save_every=int(n)
        )
        result.append(np.abs(np.concatenate([run.g_vector[-1], run.xi[-1]]) - end).max())
    return np.array(result)


def slope(system, method, steps=(40, 80, 160, 320), **options):
    """Measured order of (g, ξ) at the end."""
    return -np.polyfit(np.log(steps), np.log(end_errors(system, method, steps, **options)), 1)[0]


def next_node(system, method, clock, state):
    """The node after ``state``, as a run computes it."""
    return computed(_next_node, (system, method, clock), state)


def _next_node(tree, state):
    system, method, clock = tree
    return method.next_node(system, clock, state)

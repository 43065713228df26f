"""Random smooth functions of a vector and a number, in which arrays of all ranks meet, and systems made of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import geonh as gn
from geonh.algebra.linear import solve, solve_spd
from geonh.groups import SE2, SO3, Product, Torus, Translations

GROUPS = {
    "R3": Translations(3),
    "SO3": SO3(),
    "SE2": SE2(),
    "SE2xT1": Product((SE2(), Torus(1))),
}
INGREDIENTS = ("metric", "potential", "forms", "rhs", "forces", "lagrangian")


@jax.custom_jvp
def with_a_rule(x):
    return jnp.sin(x)


with_a_rule.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), jnp.cos(primals[0]) * tangents[0]))


def _vector(a):
    """Three numbers made of all entries."""
    flat = jnp.ravel(a)
    return jnp.stack([jnp.sum(flat[i::3]) for i in range(3)]) if flat.size >= 3 else jnp.sum(flat) * jnp.ones(3)


def _matrix(a):
    return jnp.outer(jnp.tanh(_vector(a)), jnp.array([1.0, -0.5, 0.3])) + 2 * jnp.eye(3)


def _scan(a, b):
    last, rows = lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), _vector(a), jnp.stack([_vector(b), jnp.ones(3)] * 2))
    return last + jnp.sum(rows, axis=0)


UNARY = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "exp": lambda a: jnp.exp(-a * a),
    "sqrt": lambda a: jnp.sqrt(1 + a * a),
    "log1p": lambda a: jnp.log1p(a * a),
    "square": jnp.square,
    "cube": lambda a: a**3,
    "power": lambda a: (1.5 + jnp.sin(a)) ** 1.3,
    "arctan": jnp.arctan,
    "logistic": jax.nn.sigmoid,
    "product of rows": lambda a: jnp.prod(jnp.tanh(jnp.outer(_vector(a), np.array([0.5, 1.5]))), axis=1),
    "by columns": lambda a: jnp.ravel(jnp.outer(_vector(a), np.array([1.0, -2.0])), order="F"),
    "norm along an axis": lambda a: jnp.linalg.norm(jnp.outer(_vector(a), np.array([1.0, 0.5])) + 3.0, axis=0),
    "lower triangle": lambda a: jnp.tril(jnp.outer(_vector(a), _vector(a)[:2])),
    "strides": lambda a: jnp.outer(_vector(a), np.array([1.0, 2.0, 3.0]))[::-2, ::2],
    "softmax": lambda a: jax.nn.softmax(jnp.ravel(a)),
    "logsumexp": lambda a: jax.nn.logsumexp(jnp.ravel(a)),
    "cumsum": lambda a: jnp.cumsum(jnp.ravel(a)),
    "cumprod": lambda a: jnp.cumprod(jnp.tanh(jnp.ravel(a))),
    "sum": jnp.sum,
    "mean": jnp.mean,
    "product": lambda a: jnp.prod(jnp.cos(a)),
    "norm": lambda a: jnp.sqrt(0.1 + jnp.sum(a * a)),
    "flip": lambda a: jnp.flip(jnp.ravel(a)),
    "roll": lambda a: jnp.roll(jnp.ravel(a), 1),
    "tile": lambda a: jnp.tile(jnp.atleast_1d(a), 2),
    "columns": lambda a: _vector(a)[:, None] + jnp.zeros((3, 2)),
    "transposed": lambda a: jnp.atleast_2d(a).T,
    "pad": lambda a: jnp.pad(jnp.ravel(a), (1, 2), constant_values=0.5),
    "gather": lambda a: jnp.ravel(a)[np.array([0, -1, 0])],
    "scatter": lambda a: jnp.zeros(4).at[np.array([0, 2, 2])].add(_vector(a)),
    "set": lambda a: jnp.ones(4).at[1].set(jnp.sum(a)),
    "rule": with_a_rule,
    "jitted": jax.jit(lambda a: jnp.cos(a) * 0.5),
    "checkpoint": jax.checkpoint(lambda a: jnp.sin(a) * a),
    "grad": lambda a: jax.grad(lambda v: jnp.sum(jnp.sin(v) * v))(a),
    "jvp": lambda a: jax.jvp(lambda v: jnp.cos(v) * v, (a,), (jnp.ones_like(a),))[1],
    "batched": lambda a: jax.vmap(lambda v: jnp.sin(v) + v)(jnp.ravel(a)),
    "power of a loop": lambda a: lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) + 0.1 * i, a),
    "determinant": lambda a: jnp.linalg.det(_matrix(a)),
    "inverse": lambda a: jnp.linalg.inv(_matrix(a)),
    "polynomial": lambda a: jnp.polyval(jnp.array([0.1, -0.3, 0.2]), a),
    "stop": lambda a: lax.stop_gradient(jnp.ones_like(a)) * a,
    "clip": lambda a: jnp.clip(a, -50.0, 50.0),
}
BINARY = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": lambda a, b: a / (1 + b * b),
    "atan2": lambda a, b: jnp.arctan2(a, 2 + b * b),
    "hypot": lambda a, b: jnp.sqrt(1 + a * a + b * b),
    "where": lambda a, b: jnp.where(np.arange(3) > 1, _vector(a), jnp.sum(b)),
    "choice": lambda a, b: jnp.where(jnp.sum(b) > 1e3, a, 2 * jnp.sin(a)),
    "branch": lambda a, b: lax.cond(jnp.sum(b) > 1e3, lambda: _vector(a), lambda: _vector(b) * _vector(a)),
    "switch": lambda a, b: lax.switch(1, [lambda v: v, jnp.sin, jnp.cos], _vector(a)) + jnp.sum(b),
    "outer": lambda a, b: jnp.outer(_vector(a), _vector(b)),
    "dot": lambda a, b: _vector(a) @ _vector(b),
    "product with a matrix": lambda a, b: _matrix(a) @ _vector(b),
    "cross": lambda a, b: jnp.cross(_vector(a), _vector(b)),
    "einsum": lambda a, b: jnp.einsum("ij,j,k->ik", _matrix(a), _vector(b), jnp.ones(2)),
    "concatenate": lambda a, b: jnp.concatenate([jnp.ravel(a), jnp.ravel(b)]),
    "stack": lambda a, b: jnp.stack([_vector(a), _vector(b)]),
    "solve": lambda a, b: solve(_matrix(a), _vector(b)),
    "solve of NumPy": lambda a, b: jnp.linalg.solve(_matrix(a), _vector(b)),
    "spd": lambda a, b: solve_spd(_matrix(a) @ _matrix(a).T, _vector(b)),
    "scan": _scan,
    "dynamic slice": lambda a, b: lax.dynamic_slice(jnp.ravel(jnp.outer(_vector(a), _vector(b))), (2,), (4,)),
    "kron": lambda a, b: jnp.kron(_vector(a), _vector(b)[:2]),
    "triangular": lambda a, b: jax.scipy.linalg.solve_triangular(_matrix(a), _vector(b), lower=True),
}


def random_function(rng, parts=8):
    """f(x, k), smooth, between −1 and 1, of shape=[n] and a number; and the names of its operations."""
    table, offset = rng.normal(size=(2, 3)), float(rng.normal())
    plan, n = [], 5
    for _ in range(parts):
        names = UNARY if rng.random() < 0.45 else BINARY
        plan.append((str(rng.choice(list(names))), *(int(i) for i in rng.integers(0, n, 2))))
        n += 1
    used = rng.integers(5, n, 2)

    def function(x, k):
        pool = [x, jnp.asarray(k), jnp.asarray(table), jnp.sum(x * x), jnp.asarray(offset)]
        for name, i, j in plan:
            a, b = pool[i], pool[j]
            if name in BINARY:
                a, b = (a, b) if _fit(a, b) else (jnp.sum(a), b)
                value = BINARY[name](a, b)
            else:
                value = UNARY[name](a)
            pool.append(value if value.size <= 24 else jnp.ravel(value)[:24])
        total = sum(jnp.sum(jnp.tanh(0.3 * pool[i])) / (1 + np.sqrt(pool[i].size)) for i in (-1, *used))
        return jnp.tanh(total + 0.5 * jnp.sin(jnp.sum(x)) * k)

    return function, [step[0] for step in plan]


def _fit(a, b):
    try:
        np.broadcast_shapes(jnp.shape(a), jnp.shape(b))
    except ValueError:
        return False
    return True


def random_system(rng, group):
    """A random system as ``made(k)``, of one parameter; one of its ingredients is a random function. And its story."""
    n = group.dim
    rich = str(rng.choice(INGREDIENTS))
    function, operations = random_function(rng, parts=6)
    u, forms, masses = 0.4 * rng.normal(size=n), rng.normal(size=(1, n)), rng.uniform(1.0, 2.0, n)
    constrained = rich in ("forms", "rhs") or rng.random() < 0.5

    def varied(name, x, k, *xi):
        """The random function where the ingredient is the rich one, else 0."""
        if name != rich:
            return 0.0
        return function(jnp.concatenate([*(jnp.ravel(leaf) for leaf in jax.tree.leaves(x)), *xi]), k)

    def metric(x, p):
        return jnp.diag(masses + 0.2 * varied("metric", x, p["k"])) + varied("metric", x, p["k"]) * jnp.outer(u, u) / 4

    def lagrangian(x, xi, p):
        return 0.5 * p["k"] * xi @ metric(x, p) @ xi + 0.05 * varied("lagrangian", x, p["k"], xi) * xi[0] ** 2

    def rows(x):  # not of the parameter, so that one start suits all its values
        return forms + varied("forms", x, 0.7) * u

    energy = {"metric": metric, "potential": lambda x, p: varied("potential", x, p["k"])}
    distribution = gn.Distribution(rows)
    if rich == "rhs":
        distribution = gn.AffineDistribution(rows, lambda x: 0.2 * jnp.reshape(varied("rhs", x, 0.7), 1))

    def made(k):
        return gn.System(
            group,
            **({"lagrangian": lagrangian} if rich == "lagrangian" else energy),
            distribution=distribution if constrained else None,
            forces=lambda t, x, xi, u, p: 0.4 * varied("forces", x, p["k"], xi) * masses - 0.1 * p["k"] * xi,
            parameters={"k": k},
            name="random",
        )

    return made, f"{rich} of {operations}"

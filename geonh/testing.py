r"""Axiom checks for user-defined groups: ``check_group``.

Every closed form is compared with its definition: the group law with itself, Ad and the bracket with conjugation, the
tangents of exp and cay with the derivatives of these maps (mathematics.md §3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count
from geonh.engine import computed, mapped
from geonh.groups.base import LieGroup, Point

__all__ = ["check_group"]

_STEP = 1e-5
_FINITE_DIFFERENCE = 1e-8
"""Accuracy of central differences with the step above on maps of order one."""


@validated
def check_group(
    group: LieGroup, *, n_samples: int = 20, seed: int = 0, tol: float = 1e-9, half_turn: bool = True
) -> None:
    """Check the axioms of a Lie group and every map of the protocol on random elements.

    Parameters
    ----------
    group : LieGroup
        The group.
    n_samples : int
        Number of random elements, at least 2.
    seed : int
        Seed of the samples.
    tol : float
        Largest deviation, relative to 1 + size. Central differences get at least 1e-8.
    half_turn : bool
        True if ``log`` must be accurate near, and finite with its derivatives at, a half turn in a direction in
        which ``turn`` is not zero. A logarithm by a series, as that of ``MatrixGroup``, is not.

    Raises
    ------
    TypeError
        If an argument is of another type.
    AssertionError
        Saying which axiom fails, at which sample and by how much.
    ValueError
        If ``n_samples`` or ``tol`` is invalid.
    """
    n_samples = as_count(n_samples, "n_samples", 2)
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol:g}")
    rng = np.random.default_rng(as_count(seed, "seed", 0))
    with float64():
        check = _Check(group, 0.5 * rng.normal(size=(6, n_samples, group.dim)), tol)
        check.shapes()
        check.group_law()
        check.adjoint()
        check.algebra()
        check.retraction("exp", group.exp, group.dexp, group.dexp_inv)
        if group.has_cayley:
            check.cayley()
            check.retraction("cay", group.cay, group.dcay, group.dcay_inv)
        check.points()
        check.leading_axes()
        check.half_turns(half_turn)
        check.derivatives(half_turn)
        check.geomstats()


def _leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _deviation(a: Any, b: Any) -> np.ndarray:
    """Largest difference along the first axis, relative to 1 + size; shape=[n_samples]."""
    worst: Any = 0.0
    for x, y in zip(_leaves(a), _leaves(b), strict=True):
        x, y = np.broadcast_arrays(x, y)
        flat_x, flat_y = x.reshape(len(x), -1), y.reshape(len(y), -1)
        deviation = np.abs(flat_x - flat_y).max(-1) / (1.0 + np.abs(flat_y).max(-1))
        worst = np.maximum(worst, deviation)
    return worst


def _transpose(matrices: Any) -> np.ndarray:
    return np.swapaxes(np.asarray(matrices), -1, -2)


def _apply(matrices: Any, vectors: Any) -> np.ndarray:
    return np.einsum("...ij,...j->...i", np.asarray(matrices), np.asarray(vectors))


def _method(tree: tuple, arguments: tuple) -> Any:
    group, name = tree
    return getattr(group, name)(*arguments)


def _on_sample(tree: tuple, arguments: tuple) -> Any:
    return tree[0](*arguments)


def _derivatives(functions: tuple[Callable, ...], node: tuple[Array, Array]) -> tuple[Array, Array]:
    """True if first and second derivatives at ξ are finite, and the deviation of forward from reverse mode along η."""
    xi, eta = node

    def weighted(xi: Array) -> Array:
        leaves = jax.tree.leaves([function(xi) for function in functions])
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
        return jnp.sum(np.cos(1.0 + np.arange(flat.size)) * flat)

    (value, gradient), (first, curvature) = jax.jvp(jax.value_and_grad(weighted), (xi,), (eta,))
    finite = jnp.isfinite(value) & jnp.isfinite(first)
    finite &= jnp.all(jnp.isfinite(gradient)) & jnp.all(jnp.isfinite(curvature))
    return finite, jnp.abs(gradient @ eta - first) / (1.0 + jnp.max(jnp.abs(gradient)))


def _everything(group: LieGroup, node: tuple[Array, Array, Array]) -> dict[str, Any]:
    """Values of all methods for ξ and η, batched or not, and one more η."""
    xi, eta, eta0 = node
    g, h, h0 = group.exp(xi), group.exp(eta), group.exp(eta0)
    results = {name: getattr(group, name)(xi) for name in ("ad", "dexp", "dexp_inv", "turn")}
    results |= {name: getattr(group, name)(g) for name in ("log", "inverse", "Ad", "to_vector")}
    if group.has_cayley:
        results |= {name: getattr(group, name)(xi) for name in ("cay", "dcay", "dcay_inv")}
        results["cay_inv"] = group.cay_inv(g)
    results["compose"] = group.compose(g, h)
    results["compose (with one element)"] = group.compose(g, h0)
    results["left_tangent"] = group.left_tangent(g, eta)
    results["left_tangent (with one velocity)"] = group.left_tangent(g, eta0)
    return results


class _Check:
    """Checks of one group on one set of samples. Each method of the group is compiled once."""

    def __init__(self, group: LieGroup, samples: np.ndarray, tol: float):
        self.group = group
        self.tol = tol
        self.samples = samples
        self.xi, self.eta, self.p = samples[0], samples[1], samples[2]
        self.n = samples.shape[1]

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the group on all samples, compiled for one."""
        return mapped(_method, (self.group, name), arguments)

    def each(self, function: Callable, *arguments: Any) -> Any:
        """Map a function of single samples over all of them."""
        return mapped(_on_sample, (function,), arguments)

    def require(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise AssertionError(f"{self.group}: {sentence}")

    def small(self, sentence: str, deviations: Any, tol: float | None = None, at: np.ndarray | None = None) -> None:
        tol = self.tol if tol is None else tol
        deviations = np.atleast_1d(deviations)
        at = self.xi if at is None else at
        bad = ~(deviations <= tol)
        if bad.any():
            i = int(np.argmax(np.where(np.isnan(deviations), np.inf, deviations)))
            raise AssertionError(
                f"{self.group}: {sentence} fails by {deviations[i]:.3g} at sample {i} (tolerance {tol:.1e}; "
                f"{int(bad.sum())} of {len(bad)} samples fail); there xi = {np.array2string(at[i], precision=6)}"
            )

    def same(self, sentence: str, a: Any, b: Any) -> None:
        self.small(sentence, _deviation(a, b))

    def differences(self, sentence: str, a: Any, b: Any) -> None:
        """Compare with ``b`` from central differences."""
        self.small(f"{sentence} (central differences)", _deviation(a, b), max(self.tol, _FINITE_DIFFERENCE))

    @property
    def e(self) -> Point:
        """Identity, repeated n times."""
        return jax.tree.map(lambda a: np.broadcast_to(a, (self.n, *np.shape(a))).copy(), self.group.identity())

    @property
    def one(self) -> np.ndarray:
        return np.broadcast_to(np.eye(self.group.dim), (self.n, self.group.dim, self.group.dim))

    def mul(self, g: Point, h: Point) -> Point:
        return self.call("compose", g, h)

    def elements(self) -> list[Point]:
        s = self.samples
        return [self.mul(self.call("exp", s[i]), self.call("exp", s[i + 1])) for i in (0, 2, 4)]

    # --- shapes and types ------------------------------------------------------------------------------------
    def shapes(self) -> None:
        group, n = self.group, self.group.dim
        shapes = tuple(tuple(s) for s in group.point_shapes)
        point = jax.eval_shape(group.exp, self.xi[0])
        identity = group.identity()
        for name, value in (("exp", point), ("identity", identity)):
            got = tuple(np.shape(leaf) for leaf in jax.tree.leaves(value))
            self.require(got == shapes, f"{name} gives arrays of shapes {got}, point_shapes says {shapes}")
        same = bool(jax.tree.structure(identity) == jax.tree.structure(point))  # type: ignore[operator]
        self.require(same, "identity and exp give points of different structure")
        length = sum(int(np.prod(shape)) for shape in shapes)
        for name, expected in (("velocity_names", n), ("point_names", length)):
            names = getattr(group, name)
            self.require(len(names) == expected, f"{name} has {len(names)} entries, not {expected}")
            self.require(len(set(names)) == len(names), f"a name occurs twice in {name}: {names}")

        for batch in ((), (2, 3)):
            xi = jax.ShapeDtypeStruct((*batch, n), np.float64)
            g = jax.tree.map(lambda a, b=batch: jax.ShapeDtypeStruct((*b, *a.shape), np.float64), point)
            wanted: dict[str, tuple[tuple, Any]] = {
                "exp": ((xi,), g),
                "log": ((g,), xi),
                "compose": ((g, g), g),
                "inverse": ((g,), g),
                "project": ((g,), g),
                "left_tangent": ((g, xi), g),
                "Ad_star": ((g, xi), xi),
                "ad_star": ((xi, xi), xi),
                "bracket": ((xi, xi), xi),
                "turn": ((xi,), jax.ShapeDtypeStruct(batch, np.float64)),
                "to_vector": ((g,), jax.ShapeDtypeStruct((*batch, length), np.float64)),
            }
            matrix = jax.ShapeDtypeStruct((*batch, n, n), np.float64)
            cayley = ("dcay", "dcay_inv") if group.has_cayley else ()
            wanted |= {name: ((xi,), matrix) for name in ("ad", "dexp", "dexp_inv", *cayley)}
            wanted["Ad"] = ((g,), matrix)
            if group.has_cayley:
                wanted |= {"cay": ((xi,), g), "cay_inv": ((g,), xi), "dcay_inv_star": ((xi, xi), xi)}
            for name, (arguments, expected) in wanted.items():
                value = jax.eval_shape(getattr(group, name), *arguments)
                result_shapes = [leaf.shape for leaf in jax.tree.leaves(value)]
                want = [leaf.shape for leaf in jax.tree.leaves(expected)]
                self.require(
                    result_shapes == want, f"{name} over leading axes {batch} has shapes {result_shapes}, not {want}"
                )
                types = {str(leaf.dtype) for leaf in jax.tree.leaves(value)}
                self.require(types == {"float64"}, f"{name} gives {sorted(types)}, not float64")

    # --- the group law ---------------------------------------------------------------------------------------
    def group_law(self) -> None:
        g, h, k = self.elements()
        mul, xi = self.mul, self.xi
        inverse = self.call("inverse", g)
        self.same("associativity (g h) k = g (h k)", mul(mul(g, h), k), mul(g, mul(h, k)))
        self.same("left identity e g = g", mul(self.e, g), g)
        self.same("right identity g e = g", mul(g, self.e), g)
        self.same("inverse g g⁻¹ = e", mul(g, inverse), self.e)
        self.same("inverse g⁻¹ g = e", mul(inverse, g), self.e)
        exp = self.call("exp", xi)
        self.same("exp(0) = e", self.call("exp", 0.0 * xi), self.e)
        self.same("exp(−ξ) = exp(ξ)⁻¹", self.call("exp", -xi), self.call("inverse", exp))
        self.same("exp(ξ) exp(ξ/2) = exp(3ξ/2)", mul(exp, self.call("exp", 0.5 * xi)), self.call("exp", 1.5 * xi))
        self.same("log(exp(ξ)) = ξ", self.call("log", exp), xi)
        self.same("exp(log(g)) = g", self.call("exp", self.call("log", g)), g)

    def adjoint(self) -> None:
        group, xi, eta, p = self.group, self.xi, self.eta, self.p
        g, h, _ = self.elements()
        zero = jnp.zeros(group.dim)

        def conjugate(g: Point, eta: Array) -> Array:
            return group.log(group.compose(group.compose(g, group.exp(eta)), group.inverse(g)))

        def commutator(g: Point, xi: Array, eta: Array) -> tuple[Array, Array]:
            """Ad_g η, and d/dt Ad_exp(tξ) η at t = 0, by automatic differentiation of conjugation alone."""
            adjoint = lambda g: jax.jvp(lambda eta: conjugate(g, eta), (zero,), (eta,))[1]  # noqa: E731
            return adjoint(g), jax.jvp(lambda xi: adjoint(group.exp(xi)), (zero,), (xi,))[1]

        Ad, ad = self.call("Ad", g), self.call("ad", xi)
        true_Ad, true_bracket = self.each(commutator, g, xi, eta)
        self.same("Ad_g η = d/dt log(g exp(tη) g⁻¹)", _apply(Ad, eta), true_Ad)
        steps = [self.call("log", self._conjugated(g, s * _STEP * eta)) for s in (1.0, -1.0)]
        self.differences("Ad_g η = d/dt log(g exp(tη) g⁻¹)", _apply(Ad, eta), (steps[0] - steps[1]) / (2 * _STEP))
        self.same("Ad homomorphism Ad_gh = Ad_g Ad_h", self.call("Ad", self.mul(g, h)), Ad @ self.call("Ad", h))
        self.same("Ad_g⁻¹ Ad_g = 1", self.call("Ad", self.call("inverse", g)) @ Ad, self.one)
        self.same("Ad*_g p = Ad_gᵀ p", self.call("Ad_star", g, p), _apply(_transpose(Ad), p))
        self.same("ad_ξ η = d/dt Ad_exp(tξ) η", _apply(ad, eta), true_bracket)
        self.same("bracket [ξ, η] = ad_ξ η", self.call("bracket", xi, eta), _apply(ad, eta))
        self.same("ad*_ξ p = ad_ξᵀ p", self.call("ad_star", xi, p), _apply(_transpose(ad), p))
        expected = np.stack([scipy.linalg.expm(a) for a in ad])
        self.same("Ad_exp(ξ) = expm(ad_ξ)", self.call("Ad", self.call("exp", xi)), expected)

    def _conjugated(self, g: Point, eta: np.ndarray) -> Point:
        return self.mul(self.mul(g, self.call("exp", eta)), self.call("inverse", g))

    def algebra(self) -> None:
        c = np.asarray(self.group.structure_constants)
        ad = self.call("ad", self.xi)
        self.same("ad_ξ = structure constants", ad, np.einsum("kij,ni->nkj", c, self.xi))
        antisymmetry = np.abs(c + np.swapaxes(c, 1, 2)).max()
        self.require(antisymmetry <= self.tol, f"antisymmetry of the bracket fails by {antisymmetry:.3g}")
        nested = np.einsum("lim,mjk->lijk", c, c)  # [e_i, [e_j, e_k]]
        cyclic = nested + np.transpose(nested, (0, 3, 1, 2)) + np.transpose(nested, (0, 2, 3, 1))
        jacobi = np.abs(cyclic).max()
        self.require(jacobi <= self.tol, f"the Jacobi identity fails by {jacobi:.3g}")

    # --- retractions -----------------------------------------------------------------------------------------
    def cayley(self) -> None:
        xi = self.xi
        cay, W = self.call("cay", xi), self.call("exp", xi)
        self.same("cay(0) = e", self.call("cay", 0.0 * xi), self.e)
        self.same("cay(−ξ) = cay(ξ)⁻¹", self.call("cay", -xi), self.call("inverse", cay))
        self.same("cay_inv(cay(ξ)) = ξ", self.call("cay_inv", cay), xi)
        self.same("cay(cay_inv(g)) = g", self.call("cay", self.call("cay_inv", W)), W)
        pulled = _apply(_transpose(self.call("dcay_inv", xi)), self.p)
        self.same("dcay_inv_star_ξ p = dcay_inv_ξᵀ p", self.call("dcay_inv_star", xi, self.p), pulled)

    def retraction(self, name: str, tau: Callable, dtau: Callable, dtau_inv: Callable) -> None:
        """Compare dτ with the derivative of τ, dτ⁻¹ with dτ, and both with Ad."""
        group, xi, eta = self.group, self.xi, self.eta

        def tangent(xi: Array, eta: Array) -> Array:
            base = group.inverse(tau(xi))
            moved = lambda delta: group.log(group.compose(tau(xi + delta), base))  # noqa: E731
            return jax.jvp(moved, (jnp.zeros(group.dim),), (eta,))[1]

        law = f"d{name}_ξ η = D{name}(ξ)η · {name}(ξ)⁻¹"
        d, d_inv = self.call(f"d{name}", xi), self.call(f"d{name}_inv", xi)
        self.same(law, _apply(d, eta), self.each(tangent, xi, eta))
        base = self.call("inverse", self.call(name, xi))
        steps = [self.call("log", self.mul(self.call(name, xi + s * _STEP * eta), base)) for s in (1.0, -1.0)]
        self.differences(law, _apply(d, eta), (steps[0] - steps[1]) / (2 * _STEP))
        self.same(f"d{name}_inv d{name} = 1", d_inv @ d, self.one)
        self.same(f"d{name} = 1 at zero", self.call(f"d{name}", 0.0 * xi), self.one)
        self.same(f"d{name}_inv = 1 at zero", self.call(f"d{name}_inv", 0.0 * xi), self.one)
        left = d @ self.call(f"d{name}_inv", -xi)
        self.same(f"Ad_{name}(ζ) = d{name}_ζ d{name}_inv_(−ζ)", self.call("Ad", self.call(name, xi)), left)

    # --- points ----------------------------------------------------------------------------------------------
    def points(self) -> None:
        group, eta = self.group, self.eta
        g, h, _ = self.elements()
        tangent = self.call("left_tangent", g, eta)

        def velocity(g: Point, eta: Array) -> Point:
            return jax.jvp(lambda t: group.compose(g, group.exp(t * eta)), (0.0,), (1.0,))[1]

        law = "left_tangent(g, ξ) = d/dt g exp(tξ)"
        self.same(law, tangent, self.each(velocity, g, eta))
        ends = [self.mul(g, self.call("exp", s * _STEP * eta)) for s in (1.0, -1.0)]
        self.differences(law, tangent, jax.tree.map(lambda a, b: (a - b) / (2 * _STEP), *ends))
        self.same("project(g) = g on the group", self.call("project", g), g)
        self.same("from_vector(to_vector(g)) = g", self.call("from_vector", self.call("to_vector", g)), g)
        if self.has_matrix():
            matrix = self.call("to_matrix", g)
            product = matrix @ self.call("to_matrix", h)
            self.same("to_matrix(g h) = to_matrix(g) to_matrix(h)", self.call("to_matrix", self.mul(g, h)), product)
            again = self.call("to_matrix", self.call("from_matrix", matrix))
            self.same("to_matrix(from_matrix(M)) = M", again, matrix)
            near = self.call("exp", 0.1 * eta)
            again = self.call("from_matrix", self.call("to_matrix", near))
            self.same("from_matrix(to_matrix(g)) = g", again, near)

    def has_matrix(self) -> bool:
        try:
            jax.eval_shape(self.group.to_matrix, self.group.identity())
        except NotImplementedError:
            return False
        return True

    def leading_axes(self) -> None:
        """Compare each method on a batch with single calls, and products of a batch with one element."""
        xi, eta = self.xi[:2], self.eta[:2]
        together = computed(_everything, self.group, (xi, eta, eta[0]))
        single = mapped(_everything, self.group, (xi, eta, eta[[0, 0]]))
        for i in range(2):
            for name, value in together.items():
                first, alone = (jax.tree.map(lambda a, i=i: a[i][None], stacked) for stacked in (value, single[name]))
                deviation = float(_deviation(first, alone)[0])
                sentence = f"{name} on a batch differs from single calls by {deviation:.3g} at sample {i}"
                self.require(deviation <= self.tol, sentence)

    # --- singularities of closed forms --------------------------------------------------------------------------
    def rotating(self) -> np.ndarray:
        """Velocities whose exponential is a rotation by exactly π, along the axes and in random directions."""
        directions = np.concatenate([np.eye(self.group.dim), self.xi[:3]])
        turns = self.call("turn", directions)
        rotating = turns > 0.3 * np.linalg.norm(directions, axis=-1)
        return directions[rotating] * (np.pi / turns[rotating])[:, None]

    def half_turns(self, half_turn: bool) -> None:
        pi = self.rotating()
        if not half_turn or not len(pi):
            return
        near = np.concatenate([pi * (1.0 - s) for s in (1e-12, 1e-9, 1e-6, 1e-3)])
        error = np.abs(self.call("log", self.call("exp", near)) - near).max(-1)
        self.small("log(exp(ξ)) = ξ just before a half turn", error, at=near)
        g = self.call("exp", pi)
        again = self.call("exp", self.call("log", g))
        self.small("exp(log(g)) = g at a half turn", _deviation(again, g), at=pi)

    def derivatives(self, half_turn: bool) -> None:
        """Check first and second derivatives: finite at zero and a half turn, the same in forward and reverse mode."""
        group = self.group
        tiny = np.stack([scale * self.xi[0] + 0.0 for scale in (0.0, 1e-3, 1e-6, 1e-9, 1e-160)])
        at, pi = np.concatenate([tiny, self.xi[:2]]), self.rotating()
        maps: dict[str, Callable[[Array], Any]] = {
            "exp": group.exp,
            "Ad∘exp": lambda xi: group.Ad(group.exp(xi)),
            "left_tangent": lambda xi: group.left_tangent(group.exp(xi), xi),
            "dexp": group.dexp,
            "dexp_inv": group.dexp_inv,
        }
        if group.has_cayley:
            maps |= {"cay": group.cay, "dcay_inv": group.dcay_inv}
        log = {"log∘exp": lambda xi: group.log(group.exp(xi))}
        if half_turn:
            self._differentiate(maps | log, np.concatenate([at, pi]))
        else:
            self._differentiate(maps, np.concatenate([at, pi]))
            self._differentiate(log, at)

    def _differentiate(self, maps: dict[str, Callable], at: np.ndarray) -> None:
        nodes = at, np.resize(self.eta, at.shape)
        finite, mismatch = mapped(_derivatives, tuple(maps.values()), nodes)
        if finite.all() and (mismatch <= self.tol).all():
            return
        for name, function in maps.items():  # name the failing map
            finite, mismatch = mapped(_derivatives, (function,), nodes)
            for xi, good in zip(at, finite, strict=True):
                self.require(
                    bool(good),
                    f"{name} or one of its first and second derivatives is not finite at xi = {xi}, of norm "
                    f"{np.linalg.norm(xi):.6g}",
                )
            self.small(f"agreement of forward and reverse derivatives of {name}", mismatch, at=at)

    # --- geomstats -------------------------------------------------------------------------------------------
    def geomstats(self) -> None:
        group = self.group
        try:
            space = group.space()
        except NotImplementedError:
            return
        g = self.elements()[0]
        converted = group.to_geomstats(g)
        kind = type(converted).__name__
        self.require(isinstance(converted, np.ndarray), f"to_geomstats gives {kind}, not a NumPy array")
        shape = (self.n, *space.shape)
        self.require(converted.shape == shape, f"to_geomstats gives shape {converted.shape}, not {shape}")
        outside = np.flatnonzero(~np.asarray(space.belongs(converted)))
        self.require(not len(outside), f"space().belongs(to_geomstats(g)) is False at samples {outside}")
        back = group.to_geomstats(group.from_geomstats(converted))
        self.same("to_geomstats(from_geomstats(point)) = point", back, converted)
        single = group.to_geomstats(jax.tree.map(lambda a: a[0], g))
        shape = tuple(space.shape)
        self.require(single.shape == shape, f"to_geomstats of one point has shape {single.shape}, not {shape}")

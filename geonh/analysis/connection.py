r"""The nonholonomic connection of a system with symmetry, and the geometric phase of a gait.

The configurations are a group G times shapes r, of which alone metric and forms depend. With ξ = g⁻¹ġ, forms
μ = [μ_g, μ_r], M in the blocks of (ξ, ṙ), and rows s(r) that span ker μ_g, as many as d = n_g − m,

    g⁻¹ġ = −A(r)ṙ + sᵀ(sM_gg sᵀ)⁻¹p,   A(r) = [μ_g; sM_gg]⁻¹[μ_r; sM_gr],
    p = sP,  P = M_gg ξ + M_gr ṙ,      ṗ_a = ⟨P, [ξ, s_a] + ∂_r s_a·ṙ⟩

d = 0 is Chaplygin's case: the shape alone determines the motion. Without constraints (s = 1) A is the mechanical
connection and p the momentum. In between p evolves. A does not depend on the choice of the rows of s, p does.

The curvature B_ij = ∂_iA_j − ∂_jA_i − [A_i, A_j] is the displacement of a small loop, log g = −area·B + O(ε³). A gait
moves the body by a product of exponentials, of order 4 in the step: with α = −Aṙ + … at the two Gauss points of a step,
log of a factor is ½h(α₁ + α₂) + (√3/12)h²[α₁, α₂].

Sources: Bloch, Krishnaprasad, Marsden, Murray, *Arch. Rational Mech. Anal.* 136 (1996) 21; Magnus series: Iserles,
Nørsett (1999).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import saddle, solve
from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.engine import Precise, computed
from geonh.geometry.action import PointBase, ShapeBase, _additive_coordinates
from geonh.geometry.distribution import DEPENDENT
from geonh.geometry.field import check_arguments, evaluated, guarded
from geonh.groups.base import ArrayLike, Point
from geonh.mechanics.holonomic import refuse_holonomic
from geonh.mechanics.system import System

GAUSS = (0.5 - 3**0.5 / 6, 0.5 + 3**0.5 / 6)


class Displacement(NamedTuple):
    """Geometric phase of a gait, for a body that starts at the identity.

    Attributes
    ----------
    g : point of the group
        Final configuration; its shape coordinates are the change of shape.
    momentum : ndarray, shape=[d]
        p at the end.
    """

    g: Point
    momentum: np.ndarray


class Blocks(NamedTuple):
    """Blocks of the metric and of the forms at a shape, in (ξ, ṙ)."""

    M_gg: Array
    M_gr: Array
    mu_g: Array
    mu_r: Array


class Connection(Precise):
    """Nonholonomic connection of a system over its shape space; returned by ``nonholonomic_connection``.

    Attributes
    ----------
    system : System
    sections : callable or None
        s(r, parameters), shape=[d, n_g].
    shape : tuple of str
        Names of the k shape coordinates r.
    places : tuple of int
        Their indices in ξ.
    """

    system: System
    sections: Callable | None
    shape: tuple[str, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def form(self, r: Any) -> np.ndarray:
        """Connection form A(r), shape=[n_g, k], of shape coordinates r, shape=[k]: g⁻¹ġ = −A(r)ṙ for zero momentum."""
        return self._at_shape(_form, r)

    def curvature(self, r: Any) -> np.ndarray:
        """Curvature B(r), shape=[k, k, n_g]: a small loop of area a from r_i to r_j moves the body by −a·B[i, j]."""
        return self._at_shape(_curvature, r)

    def displacement(
        self, gait: Callable, span: float, *, n_steps: int = 200, momentum: Any = None, t0: float = 0.0
    ) -> Displacement:
        """Displacement of the body by a gait r(t).

        Parameters
        ----------
        gait : callable
            r(t) → shape=[k], in ``jax.numpy``.
        span : float
            Duration, s.
        n_steps : int
            Number of steps; the error is of order 4 in their length.
        momentum : array_like, shape=[d], optional
            Initial p; zero when left out. It needs ``sections``.
        t0 : float
            Initial time, s.

        Returns
        -------
        Displacement

        Raises
        ------
        ValueError
            If p evolves and there are no sections, or a value is not finite: the path passes a shape at which the
            forms do not determine the motion.
        """
        d = self.group_dimension - self._forms
        if d and self.sections is None and self.system.is_constrained:
            raise ValueError(
                f"{self.system.name} carries {d} momentum component(s) along: nonholonomic_connection(..., sections=s) "
                "with rows s(r) that span the velocities which the constraints allow at a fixed shape"
            )
        with float64():
            trace = jax.make_jaxpr(lambda t: evaluated("gait", gait, t))(0.0)
        inspected("gait", trace)
        if trace.out_avals[0].size != len(self.shape):
            got = list(trace.out_avals[0].shape)
            raise ValueError(f"gait must give shape [{len(self.shape)}], {', '.join(self.shape)}, got {got}")
        start = np.zeros(d) if momentum is None else as_float64(momentum, "momentum", (d,))
        count = np.int64(as_count(n_steps, "n_steps"))
        times = _Times(as_float64(t0, "t0", ()), as_float64(span, "span", ()), count)
        end = computed(_displaced, (self, gait), (times, start))
        if not all(np.all(np.isfinite(a)) for a in jax.tree.leaves(end)):
            raise ValueError(f"the gait leads {self.system.name} to a shape at which its motion is not determined")
        return Displacement(*end)

    @property
    def _forms(self) -> int:
        """m."""
        with float64():
            x = self._base_point(jnp.zeros(len(self.shape)))
            return int(self.system.holding(x).annihilator(x).shape[0])

    @property
    def group_dimension(self) -> int:
        """Dimension n_g of the group without the shape factor."""
        return self.system.group.dim - len(self.shape)

    def _at_shape(self, function: Callable, r: Any) -> np.ndarray:
        r = as_float64(r, "r", (len(self.shape),))
        value, rows = computed(_with_rows, (self, function), r)
        least = np.linalg.svd(rows, compute_uv=False)[-1] if rows.size else 1.0
        if not np.all(np.isfinite(value)) or not least > DEPENDENT:
            raise ValueError(f"at the shape r = {r} the constraints of {self.system.name} do not determine its motion")
        return value

    # --- traced ----------------------------------------------------------------------------------------------
    def _base_point(self, r: Any) -> Any:
        action = self.system.action
        if isinstance(action, PointBase):
            return ()
        assert isinstance(action, ShapeBase)
        return jnp.stack([r[self.shape.index(name)] for name in action.names])

    def _blocks(self, r: Array) -> Blocks:
        of_group, of_shape = self._group_places, np.array(self.places)
        x = self._base_point(r)
        M, mu = self.system.mass_matrix(x), self.system.holding(x).annihilator(x)
        return Blocks(M[of_group][:, of_group], M[of_group][:, of_shape], mu[:, of_group], mu[:, of_shape])

    @property
    def _group_places(self) -> np.ndarray:
        """Indices in ξ of the group without the shape factor."""
        return np.array([i for i in range(self.system.group.dim) if i not in self.places])

    def _sections(self, r: Array) -> Array:
        """s(r), shape=[d, n_g]; where none are given, the identity without constraints, none with them."""
        n = self.group_dimension
        if self.sections is None:
            return jnp.zeros((0, n)) if self.system.is_constrained else jnp.eye(n)
        rows = guarded("sections", self.sections, r, self.system.parameters)
        if rows.shape[-1:] != (n,):
            raise ValueError(f"sections must give rows of shape [d, {n}], got {list(rows.shape)}")
        return rows.reshape(-1, n)

    def _bracket(self, a: Array, b: Array) -> Array:
        of_group = self._group_places
        c = self.system.group.structure_constants[np.ix_(of_group, of_group, of_group)]
        return jnp.einsum("kij,i,j->k", c, a, b)


@validated
def nonholonomic_connection(
    system: System, shape: Sequence[str] | None = None, *, sections: Callable | None = None
) -> Connection:
    """Nonholonomic connection of a system whose metric and forms depend on shapes alone.

    Forces are left out: those on the shape drive it, and others, such as friction on the body, would change p.

    Parameters
    ----------
    system : System
        On a product of a group and additive factors, with base "shape", names of shape coordinates, or "point".
    shape : sequence of str, optional
        Names of the shape coordinates; all of the additive factors when left out.
    sections : callable, optional
        s(r, parameters) → shape=[d, n_g], smooth rows that span the velocities allowed by the constraints at fixed
        shape, if any (d = n_g − m > 0): the rolling direction of a wheeled body. When left out, those of the algebra's
        basis if there are no constraints.

    Returns
    -------
    Connection

    Raises
    ------
    ValueError, TypeError
        If the base is more than shapes, or a name is unknown.
    """
    additive = _additive_coordinates(system.group)
    names = tuple(additive) if shape is None else tuple(shape)
    unknown = [name for name in names if name not in additive]
    if unknown or not names or len(names) >= system.group.dim:
        raise ValueError(
            f"shape must name some of the coordinates {list(additive)} of additive factors, but not all of the group; "
            f"got {list(names)}"
        )
    refuse_holonomic(system, "the connection")
    if not isinstance(system.action, PointBase | ShapeBase):
        raise ValueError(
            f"the base of {system.name} must be shapes (base='shape', names, 'point'), so that the group is a symmetry"
        )
    beyond = [n for n in getattr(system.action, "names", ()) if n not in names]
    if beyond:
        raise ValueError(f"{system.name} depends on {beyond}, which are not among the shape {list(names)}")
    if system.is_timed:
        raise ValueError(f"{system.name} depends on the time: it has no connection here")
    if system.is_affine:
        raise ValueError(
            f"{system.name} has affine constraints: it moves at a fixed shape too, which a connection does not describe"
        )
    if sections is not None and not callable(sections):
        raise TypeError(f"sections must be a function of (r, parameters), got {shortly(sections)}")
    if sections is not None:
        check_arguments(sections, "r, parameters", "sections")
    places = tuple(additive[name][1] for name in names)
    system = system.with_rank_at(None)
    connection = Connection(system, sections, names, places)
    _check_sections(connection)
    return connection


def _check_sections(connection: Connection) -> None:
    """Raise ValueError if sections do not span the kernel of μ_g, tested at a generic shape."""
    if connection.sections is None:
        return
    with float64():
        r = jnp.asarray(0.3 + 0.1 * np.arange(len(connection.shape)))
        s, mu = np.asarray(connection._sections(r)), np.asarray(connection._blocks(r).mu_g)
    d = connection.group_dimension - len(mu)
    gap = float(np.abs(mu @ s.T).max(initial=0.0)) if s.shape == (d, connection.group_dimension) else np.inf
    if gap > 1e-9 * (1 + float(np.abs(s).max(initial=0.0))):
        raise ValueError(
            f"sections must give {d} row(s) of length {connection.group_dimension} on which the constraints vanish; "
            f"got shape {list(s.shape)}, off by {gap:.2g}"
        )


def _with_rows(tree: tuple, r: Array) -> tuple[Array, Array]:
    """A function of the shape, and μ_g of forms normalised to the length 1 together with μ_r."""
    connection, function = tree
    blocks = connection._blocks(r)
    length = jnp.sqrt(jnp.sum(blocks.mu_g**2, axis=1) + jnp.sum(blocks.mu_r**2, axis=1))
    return function(connection, r), blocks.mu_g / length[:, None]


def _form(connection: Connection, r: Array) -> Array:
    """A(r): for each ṙ_j the motion of least kinetic energy, or the unique one, that the constraints allow."""
    M_gg, M_gr, mu_g, mu_r = connection._blocks(r)
    if len(mu_g) == connection.group_dimension:
        return solve(mu_g.T @ mu_g, mu_g.T @ mu_r)  # without pivoting: positive definite
    return jnp.stack(
        [saddle(M_gg, mu_g, column, right)[0] for column, right in zip(M_gr.T, mu_r.T, strict=True)], axis=1
    )


def _curvature(connection: Connection, r: Array) -> Array:
    A, slope = _form(connection, r), jax.jacfwd(lambda r: _form(connection, r))(r)
    k = len(connection.shape)
    rows = [
        [slope[:, j, i] - slope[:, i, j] - connection._bracket(A[:, i], A[:, j]) for j in range(k)] for i in range(k)
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


class _Times(NamedTuple):
    """Initial time, duration, and number of steps of a gait."""

    t0: ArrayLike
    span: ArrayLike
    n_steps: ArrayLike


class _Body(NamedTuple):
    """Configuration of the body, and its momentum."""

    g: Point
    p: Array


def _displaced(tree: tuple[Connection, Callable], node: tuple[_Times, Array]) -> _Body:
    """Displacement of the body by a gait, from its momentum p at the start."""
    (connection, gait), ((t0, span, n_steps), p_start) = tree, node
    group, h = connection.system.group, span / n_steps

    def shape(t: Array) -> tuple[Array, Array]:
        """Return r and ṙ."""
        r, rate = jax.jvp(lambda t: evaluated("gait", gait, t), (t,), (jnp.ones_like(t),))
        return jnp.reshape(r, (-1,)), jnp.reshape(rate, (-1,))

    def velocity(t: Array, p: Array) -> tuple[Array, Array]:
        """Return ξ and ṗ."""
        r, rate = shape(t)
        s, slope = jax.jvp(connection._sections, (r,), (rate,))
        blocks = connection._blocks(r)
        xi = -_form(connection, r) @ rate
        if not len(p):
            return xi, p
        xi = xi + s.T @ solve(s @ blocks.M_gg @ s.T, p)
        P = blocks.M_gg @ xi + blocks.M_gr @ rate
        turned = jnp.stack([connection._bracket(xi, row) for row in s])
        return xi, (turned + slope) @ P

    def runge_kutta(t: Array, p: Array, h: Array) -> Array:
        """One step of length h of the classical Runge–Kutta method for p."""
        k1 = velocity(t, p)[1]
        k2 = velocity(t + h / 2, p + h / 2 * k1)[1]
        k3 = velocity(t + h / 2, p + h / 2 * k2)[1]
        k4 = velocity(t + h, p + h * k3)[1]
        return p + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def step(k: Array, before: _Body) -> _Body:
        g, p = before
        t = t0 + k * h
        c1, c2 = GAUSS
        if len(p_start):
            first = runge_kutta(t, p, c1 * h)
            second = runge_kutta(t + c1 * h, first, (c2 - c1) * h)
            p = runge_kutta(t + c2 * h, second, (1 - c2) * h)
        else:
            first = second = p
        a, b = velocity(t + c1 * h, first)[0], velocity(t + c2 * h, second)[0]
        omega = h / 2 * (a + b) + 3**0.5 / 12 * h**2 * connection._bracket(a, b)  # of the Magnus series
        eta = jnp.zeros(group.dim).at[connection._group_places].set(omega)
        return _Body(group.compose(g, group.exp(eta)), p)

    identity = jax.tree.map(jnp.asarray, group.identity())
    g, p = lax.fori_loop(0, n_steps, step, _Body(identity, p_start))
    eta = jnp.zeros(group.dim).at[np.array(connection.places)].set(shape(t0 + span)[0] - shape(t0)[0])
    return _Body(group.compose(g, group.exp(eta)), p)

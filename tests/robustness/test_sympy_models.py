"""Models of SymPy that are wrong, and expressions that are zero only where one looks."""

import numpy as np
import pytest

sp = pytest.importorskip("sympy")
import jax.numpy as jnp  # noqa: E402
from sympy.physics.mechanics import dynamicsymbols  # noqa: E402

import geonh as gn  # noqa: E402
from geonh.groups import Translations  # noqa: E402
from geonh.interop import from_sympy  # noqa: E402

x, y, F = dynamicsymbols("x y F")
vx, vy = x.diff(), y.diff()
m = sp.Symbol("m")
FREE = m * (vx**2 + vy**2) / 2
AT = {"g0": [8.0, 0.0], "xi0": [0.5, 0.0], "dt": 0.05, "n_steps": 20}


def made(lagrangian=FREE, **options):
    return from_sympy(lagrangian, [x, y], **({"parameters": {m: 1.0}} | options))


@pytest.mark.parametrize("scale", [1.0, 1e-30])
@pytest.mark.quick("1e-30")
def test_a_force_that_acts_elsewhere_or_has_a_small_unit_is_not_left_out(scale):
    spring = made(forces={x: -sp.Float(scale) * F * sp.Max(x - 5, 0)}, controls=[F])
    run = gn.solve(spring, **AT, controls=lambda t: 1.0 / scale)
    same = gn.System(Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u: jnp.array([-(x[0] - 5), 0.0]))
    np.testing.assert_allclose(run.g, gn.solve(same, **AT).g, atol=1e-13)


@pytest.mark.slow
def test_a_gyroscopic_term_that_acts_elsewhere_is_not_left_out():
    run = gn.solve(made(FREE + sp.Max(x - 5, 0) * vy), **AT)
    same = gn.System(Translations(2), lagrangian=lambda x, xi: xi @ xi / 2 + jnp.maximum(x[0] - 5, 0) * xi[1])
    np.testing.assert_allclose(run.g, gn.solve(same, **AT).g, atol=1e-13)


def test_a_constraint_that_is_not_linear_elsewhere_is_refused():
    with pytest.raises(ValueError, match="not linear in the velocities"):
        made(constraints=[vy + sp.Max(x - 5, 0) * vx**2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lagrangian": FREE - sp.I * x}, "complex"),
        ({"lagrangian": FREE - sp.Symbol("m", positive=True) * x}, "'m' twice"),
        ({"parameters": {m: 1.0, "m": 2.0}}, "'m' twice"),
        ({"parameters": [1.0]}, "parameters must be a mapping"),
        ({"constraints": vx}, "constraints must be a list"),
        ({"constraints": ["vx"]}, "constraints must be expressions"),
        ({"forces": "ab"}, "forces must be a list"),
        ({"forces": {x: None}}, "forces must be expressions"),
        ({"controls": F}, "controls must be a list"),
        ({"controls": [F]}, "forces do not contain it"),
        ({"forces": {x: F}, "controls": [F, F]}, "named twice"),
        ({"angles": "x"}, "angles must be a list"),
    ],
)
def test_what_is_wrong_is_told(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        made(**options)

"""Arguments of methods of groups and systems, and starts of ensembles, that are not what was expected."""

import collections
import decimal
import inspect
import itertools

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import geonh as gn
from geonh import control, drawing, groups, integrators, rolling, systems
from geonh.arguments.validators import as_float64
from geonh.groups import SE2, SO3, Product, Torus, Translations

XI = np.array([0.3, 1.0, -0.2])


DRIVEN = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: u)


class Unlisted:
    """A list in name only."""

    def __len__(self):
        raise RuntimeError("it has no length")

    def __getitem__(self, i):
        raise RuntimeError("it has no entries")


SAME = {
    "pandas": pd.Series(XI),
    "xarray": xr.DataArray(XI),
    "objects": XI.astype(object),
    "another byte order": XI.astype(">f8"),
    "long doubles": XI.astype(np.longdouble),
    "a view of memory": memoryview(XI),
    "a list": XI.tolist(),
    "a tuple": tuple(XI.tolist()),
    "a list of scalars": list(XI.astype(">f8")),
    "decimals": [decimal.Decimal(x) for x in XI.tolist()],
    "a deque": collections.deque(XI.tolist()),
}


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_the_same_numbers_in_any_form_give_the_same_bits(same):
    sleigh, product = systems.chaplygin_sleigh(), Product((SE2(), Translations(3)))
    for method, others in (
        (SE2().exp, {}),
        (SE2().dcay_inv_star, {"p": XI}),
        (SE2().from_xytheta, {}),
        (SE2().from_vector, {}),
        (sleigh.constraint_residual, {"x": XI}),
        (sleigh.velocity, {"x": XI}),
        (sleigh.distribution.residual, {"x": XI, "parameters": sleigh.parameters}),
    ):
        name, *_ = (label for label in inspect.signature(method).parameters if label not in others)
        np.testing.assert_array_equal(method(**{name: same}, **others), method(**{name: XI}, **others))
    np.testing.assert_array_equal(sleigh.energy(same, same), sleigh.energy(XI, XI))
    jax.tree.map(
        np.testing.assert_array_equal, product.inverse((same, [1, 2, 3])), product.inverse((XI, XI * 0 + [1, 2, 3]))
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SO3().cay(np.array([1.0, None, "x"], dtype=object)), "xi of SO3.cay must be numeric"),
        (lambda: SE2().inverse(np.array([True, False, True])), "g of SE2.inverse must be real numbers"),
        (lambda: SE2().from_geomstats("abc"), "must be real numbers, got text"),
        (lambda: SE2().exp(xi=scipy.sparse.eye(3)), "xi of SE2.exp must be numeric"),
        (lambda: SE2().exp(xr.Dataset({"a": 1.0})), "xi of SE2.exp must be numeric"),
        (lambda: SE2().gap(np.ma.array([1.0, 2.0, 3.0])), "g of SE2.gap is a masked array"),
        (lambda: SO3().from_geomstats(2.0 * np.eye(3)), "point of SO3.from_geomstats must be a point of geomstats'"),
        (lambda: Torus(1).from_geomstats([0.0, 2.0]), "point of Torus.from_geomstats must be a point of geomstats'"),
        (lambda: gn.Distribution([[0.0, 0.0, 1.0]]).P(np.eye(2), ()), r"M must have shape \[3, 3\], got \[2, 2\]"),
        (
            lambda: gn.Distribution([[0.0, 0.0, 1.0]]).P(1.0, ()),
            r"M of Distribution.P must have shape \[n, n\], got \[\]",
        ),
        (lambda: SE2().ad_star(np.ones((2, 3)), np.ones((3, 3))), r"SE2.ad_star do not fit: xi \[2\], p \[3\]"),
        (lambda: SO3().gap(np.stack([np.eye(3)] * 2)), "g of SO3.gap must be one point, without leading axes"),
        (lambda: SE2().from_xytheta([1.0, 2.0]), r"pose must have shape \[..., 3\], got \[2\]"),
        (lambda: systems.suslov().reaction((), 1.0), r"lam must have shape \[1\], got \[\]"),
        (
            lambda: systems.snakeboard().potential_energy(np.ones(5)),
            r"x of System.potential_energy must have shape \[1\]",
        ),
        (lambda: rolling.drawing(0.0, np.eye(4), {"on": 1.0, "support": rolling.ball(1.0)}), "system must be one that"),
        (lambda: systems.suslov().group_defect("e"), "point of System.group_defect must be real numbers"),
        (lambda: gn.System(SE2(), metric=np.ones(3), parameters={"k": "a"}), r"parameters\['k'\] must be real numbers"),
        (
            lambda: gn.diagnostics.symplecticity_defect(systems.heavy_top(), np.ones(3), xi0=XI, dt=0.1),
            "method must be",
        ),
        (lambda: integrators.Feedback(solver=gn.GNI()), "solver must be one of"),
        (lambda: integrators.DLA(constraint=integrators.DiscreteConstraint(len, symmetric="no")), "symmetric must be"),
        (lambda: drawing.box(1.0, 1.0, 1.0).painted(np.eye(3)), "colour must be text such as"),
        (lambda: SE2().from_geomstats(np.zeros(3)), r"must have shape \[..., 3, 3\], got \[3\]"),
        (lambda: Product((SO3(), Torus(1))).from_geomstats(1.0), r"must have shape \[..., 11\]"),
        (lambda: systems.chaplygin_sleigh().at("abc", 0.0), "g of System.at must be real numbers, got text"),
        (lambda: systems.chaplygin_sleigh().check(at=np.array(2.0)), "at must have shape"),
        (lambda: systems.chaplygin_sleigh().point(np.zeros(3), on_group="yes"), "on_group must be True or False"),
        (lambda: systems.spherical_robot(m=[2, 1]), "m must have shape"),
        (lambda: integrators.RATTLE(start=np.eye(3)), "start must be"),
        (lambda: drawing.axes("long"), "length must be real numbers"),
        (lambda: SO3().from_matrix(np.eye(4)), r"must have shape \[..., 3, 3\] on SO\(3\), got \[4, 4\]"),
        (lambda: Product((SE2(), SO3())).from_matrix(np.eye(7)), r"must have shape \[..., 6, 6\]"),
        (lambda: groups.MatrixGroup([np.diag([1.0, -1.0])]).vee(np.ones((1, 1))), r"must have shape \[..., 2, 2\]"),
        (lambda: gn.GNI().refuse(np.eye(3)), "system of GNI.refuse must be a geonh System"),
        (lambda: gn.Gauss().residual(systems.suslov(), 0.1, None), "clock of Gauss.residual must be a Clock"),
        (lambda: integrators.Adjoint(None, "gni"), "method must be an integrator"),
        (lambda: groups.Exponential().angle("SO3", XI), "group of Exponential.angle must be a geonh LieGroup"),
        (lambda: SE2().batched(None, XI, ndims=(1,)), "function of SE2.batched must be a function"),
        (lambda: SE2().batched(len, XI, ndims=(1, 1)), "ndims must be a tuple of 1"),
        (lambda: systems.suslov().coanchor(1.0, ()), "function of System.coanchor must be a function"),
        (lambda: systems.suslov().action.target(1.0), "must be a pair"),
        (lambda: drawing.shifted(1.0) @ np.eye(3), "a Pose is composed with another Pose"),
        (lambda: systems.catalogue.name_of(np), "system must be a geonh System"),
        (lambda: systems.suslov().at(np.eye(3), "noon"), "t must be real numbers, got text"),
        (lambda: integrators.DiscreteConstraint(0.5, symmetric=3), "symmetric must be True or False"),
        (lambda: gn.solve(systems.suslov(), 3.0, xi0=XI), "method must be an integrator"),
        (lambda: groups.MatrixGroup(-1.0), r"space must be a geomstats matrix Lie group or a basis .* got \[\]"),
        (
            lambda: gn.solve_ensemble(
                systems.suslov(),
                xi0=[[0.3, 0.1, 0.0]],
                dt=0.1,
                n_steps=1,
                statistics=itertools.repeat(gn.ensembles.Mean("xi")),
            ),
            "statistics must be",
        ),
        (lambda: gn.bodies.tree(memoryview(np.ones((2, 2)))), "links must be a list"),
        (lambda: gn.bodies.tree([], contacts=range(10**13)), "contacts must be a list"),
        (lambda: gn.bodies.tree(Unlisted()), "links must be a list"),
        (
            lambda: gn.mechanics.accelerations(DRIVEN, 0.0, [0.0], [0.0], [[1.0], [1.0, 2.0]]),
            "u is a nested list of unequal lengths",
        ),
        (lambda: SE2().dexp({1: 2.0, "a": 3.0}), "xi of SE2.dexp|xi must have keys of one type"),
        (
            lambda: gn.solve(systems.suslov(), tolerance=1e-5, t_end=1.0, xi0=[0.0, 1e308, 0.0]),
            "not finite at g0 and xi0",
        ),
        (lambda: as_float64(np.broadcast_to(1.0, 10**10), "dt", ()), r"dt must have shape \(\)"),
    ],
)
def test_what_is_no_argument_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_numbers_of_other_kinds_are_numbers():
    assert systems.rolling_disc(r=decimal.Decimal("0.1")).parameters
    assert len(drawing.axes(decimal.Decimal("0.1"))) == 3
    assert systems.eulers_disc(m=decimal.Decimal(2), thickness=xr.DataArray(0.01)).parameters["m"] == 2.0
    with gn.float64():
        mass = jax.numpy.asarray(1.1)
    assert systems.eulers_disc(m=mass).parameters["m"] == 1.1


def test_a_list_that_contains_itself_is_named():
    endless: list = []
    endless.append(endless)
    sleigh = systems.suslov()
    driven = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: u)
    for words, call in {
        "an argument": SO3().cay,
        "J": systems.heavy_top,
        "xi0": lambda x: gn.solve(sleigh, xi0=x, dt=0.1, n_steps=1),
        "x": lambda x: gn.rolling.wheel(0.1, 0.1, x=x),
        "parameters": lambda x: gn.System(Translations(1), metric=[1.0], parameters={"k": x}),
        "coefficient of friction": lambda x: gn.Friction(lambda t, x, xi: xi, x),
        "space": lambda x: gn.System(x, metric=[1.0]),
        "controls returned a list that": lambda x: gn.solve(driven, xi0=[0.0], dt=0.1, n_steps=1, controls=lambda t: x),
    }.items():
        with pytest.raises(ValueError, match=rf"^{words} contains itself"):
            call(endless)
    with pytest.raises(TypeError, match=r"^note of a first integral must be text"):
        gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: xi[0], endless)
    with pytest.raises(ValueError, match=r"^J must have keys of one type"):
        systems.heavy_top({1: 2.0, "a": 3.0})


def test_what_must_be_known_is_not_traced():
    rotor = systems.suslov()
    driven = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: u)
    run = gn.solve(rotor, xi0=[0.1, 0.2, 0.0], dt=0.1, n_steps=3)
    for words, call in {
        "tolerance is traced": lambda x: gn.Adaptive(gn.RKMK(5), x),
        "radius of disc must not be traced": lambda x: gn.rolling.disc(x),
        "gains of 'group' is traced": integrators.Feedback,
        "baumgarte is traced": lambda x: integrators.RungeKutta(baumgarte=x),
        "I1 of routh_sphere must not be traced": lambda x: systems.routh_sphere(I1=x),
        "g of linearise must not be traced": lambda x: gn.analysis.linearise(rotor, x * np.eye(3), [0.1, 0.2, 0.0]),
        "end of optimal_control must not be traced": lambda x: control.optimal_control(
            driven, end=[x], n_controls=1, span=1.0, n_steps=2
        ),
        "g of SO3.to_geomstats must not be traced": lambda x: SO3().to_geomstats(x * np.eye(3)),
        "t of drift must not be traced": lambda x: gn.diagnostics.drift(x + np.arange(40.0), np.arange(40.0)),
        "times is traced": run,
        "t_end must not be traced: solve returns": lambda x: gn.solve(
            systems.suslov(), xi0=[0.1, 0.2, 0.0], dt=0.1, t_end=x
        ),
        "dt must not be traced: NumPy": lambda x: gn.solve_ensemble(
            systems.suslov(), xi0=[0.1, 0.2, 0.0], dt=x, n_steps=1
        ),
    }.items():
        with gn.float64(), pytest.raises(TypeError, match=f"^{words}"):
            jax.make_jaxpr(call)(0.1)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_directions_and_quaternions_may_be_of_any_size(size):
    direction, q = np.array([1.0, 2.0, -2.0]), np.array([1.0, 2.0, 3.0, 4.0])
    R = drawing.along(size * direction, axis="y").R
    np.testing.assert_allclose(R, drawing.along(direction, axis="y").R, atol=1e-15)
    np.testing.assert_allclose(R[:, 1], direction / 3, atol=1e-15)
    made = groups.quaternion_to_matrix(size * q, scalar_first=True)
    np.testing.assert_allclose(made, groups.quaternion_to_matrix(q, scalar_first=True), atol=1e-15)


def test_an_array_that_jax_does_not_take_is_told_so():
    weights = np.array([1.0, 2.0, 3.0], ">f8")
    with pytest.raises(ValueError, match=r"potential .* an array that JAX does not take, of another byte order"):
        gn.System(SE2(), metric=np.ones(3), potential=lambda g: weights @ g)


def test_a_step_whose_square_is_no_number_fails_by_itself():
    system = gn.System(Translations(1), metric=[1.0], forces=lambda t, x, xi, u: u)
    with pytest.raises(gn.IntegrationError):
        gn.solve(system, xi0=[0.0], dt=1e200, n_steps=2, controls=np.ones((3, 1)))


def test_a_span_whose_square_is_no_number_is_refused():
    with pytest.raises(ValueError, match="span must be positive"):
        control.optimal_control(systems.controlled_snakeboard(), xi_end=[0.0] * 5, n_controls=2, span=2e-310, n_steps=6)


@pytest.mark.quick("feedback-0.025", "baumgarte--0.05")
@pytest.mark.parametrize(("method", "dt"), [("baumgarte", -0.05), ("feedback", -0.001), ("feedback", 0.025)])
def test_members_that_their_method_cannot_start_do_not_run(method, dt):
    system, xi0 = systems.chaplygin_sleigh(), [0.8, -0.5, 0.0]
    with pytest.raises(ValueError, match="dt") as refused:
        gn.solve(system, method, xi0=xi0, dt=dt, n_steps=20)
    runs = gn.solve_ensemble(system, method, xi0=xi0, dt=np.array([dt, 0.001]), n_steps=20)
    assert runs.success.tolist() == [False, True]
    assert str(refused.value) in runs.message(0)


@pytest.mark.slow
def test_times_of_a_compiled_run_have_the_bits_of_solve():
    system, xi0 = systems.chaplygin_sleigh(), np.array([0.8, -0.5, 0.0])
    with gn.float64():
        times = jax.jit(lambda t0, dt: gn.integrate(system, "midpoint", xi0=xi0, t0=t0, dt=dt, n_steps=60).t)
        for t0, dt in np.random.default_rng(0).uniform(0.005, 0.05, (10, 2)):
            run = gn.solve(system, "midpoint", xi0=xi0, t0=t0, dt=dt, n_steps=60, save_every=1)
            np.testing.assert_array_equal(times(t0, dt), run.t)


def test_nodes_of_integrate_that_take_all_memory_are_refused():
    with gn.float64(), pytest.raises(MemoryError, match=r"\d+ nodes take .* GiB .*: pass fewer steps"):
        gn.integrate(systems.suslov(), "rkmk4", xi0=[0.3, 0.1, 0.0], dt=0.1, n_steps=10**11)

"""Public methods outside of a trace: computed in NumPy from one trace. ``native/`` holds ``interpret`` against XLA."""

import dataclasses
import enum
import functools
import threading
from fractions import Fraction
from types import CellType, FunctionType, ModuleType, SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.arguments.precision import is_traced
from geonh.engine import outside
from geonh.engine.interpreted import in_numpy
from geonh.engine.precise import Precise
from geonh.groups import SE3, SO3, Product, Translations
from geonh.mechanics.equations import _accelerations, accelerations
from geonh.systems import catalogue


class Counted(Precise):
    """Methods that count how often they are run."""

    scale: np.ndarray
    runs: list = eqx.field(static=True)

    def twice(self, x, shift=0.0):
        self.runs.append("twice")
        return {"sum": self.scale * (x + shift), "parts": (jnp.sin(x), x[::-1])}

    def branching(self, x):
        self.runs.append("branching")
        return self.scale * x if x[0] > 0 else -x

    def judging(self, x):
        self.runs.append("judging")
        if not is_traced(x) and np.any(np.asarray(x) > 9):
            raise ValueError(f"x is too large: {x}")
        return self.scale * x

    def applied(self, function, x):
        self.runs.append("applied")
        return function(self.scale * x)

    def described(self, x):
        self.runs.append("described")
        return f"{x[0]:.1f}"

    def wrong(self, x):
        return self.scale * jnp.reshape(x, (7,))

    def __hash__(self):
        return 0


class Runs(list):
    """Counted, and hashable as what is static must be."""

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


def counted():
    return Counted(np.asarray(3.0), Runs())


def test_one_trace_serves_all_calls_of_a_structure():
    of, x = counted(), np.array([1.0, 2.0])
    for k in range(3):
        result = of.twice(x + k, shift=0.5)
        np.testing.assert_allclose(result["sum"], 3 * (x + k + 0.5), rtol=1e-15)
        np.testing.assert_allclose(result["parts"][0], np.sin(x + k), rtol=1e-15)
        np.testing.assert_array_equal(result["parts"][1], (x + k)[::-1])
    other = Counted(np.asarray(-1.0), of.runs)
    np.testing.assert_allclose(other.twice(x)["sum"], -x)
    assert len(of.runs) == 4  # with and without shift, each looked at twice; another scale is another number
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(result))


def test_what_must_see_its_numbers_runs_as_it_is():
    of, x = counted(), np.array([1.0, 2.0])
    for sign in (1, -1, 1):
        np.testing.assert_allclose(of.branching(sign * x), 3 * x if sign > 0 else x)
    np.testing.assert_allclose(of.judging(x), 3 * x)
    with pytest.raises(ValueError, match=r"too large: \[10. 20.\]"):
        of.judging(10 * x)
    assert of.described(x) == "1.0"
    shift = 1.0
    for shift in (1.0, 2.0):
        np.testing.assert_allclose(of.applied(lambda y: y + shift, x), 3 * x + shift)  # noqa: B023
    with pytest.raises(ValueError, match="cannot reshape array of size 2"):
        of.wrong(x)


def test_in_a_trace_a_method_is_traced():
    of, x = counted(), np.array([1.0, 2.0])
    of.twice(x)
    inside = jax.jit(lambda y: of.twice(x)["sum"] + y)
    np.testing.assert_allclose(inside(x), 4 * x)
    np.testing.assert_allclose(jax.jacfwd(lambda y: of.twice(y)["sum"])(x), 3 * np.eye(2))
    np.testing.assert_allclose(
        jax.vmap(lambda y: of.twice(y)["sum"] + of.twice(x)["sum"])(np.stack([x, x])), [6 * x] * 2
    )
    scale = jax.grad(lambda scale: jnp.sum(Counted(scale, of.runs).twice(x)["sum"]))(2.0)
    assert scale == 3.0


def test_threads_trace_each_for_itself():
    of, result = counted(), []

    def run(k):
        with gn.float64():
            result.append((k, np.asarray(of.twice(np.full(k + 1, float(k)))["sum"])))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 8
    for k, y in result:
        np.testing.assert_array_equal(y, np.full(k + 1, 3.0 * k))


@pytest.mark.user_precision
def test_numpy_comes_out_where_jax_has_no_doubles():
    result = counted().twice(np.array([1.0, 2.0]) / 3)["sum"]
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, [1.0, 2.0])
    with pytest.raises(TypeError, match=r"x of Counted\.twice is float32"):
        counted().twice(np.ones(2, np.float32))


@pytest.mark.user_precision
def test_first_calls_compile_nothing(monkeypatch):
    compiled = []
    from jax._src import compiler

    plain = compiler.compile_or_get_cached
    monkeypatch.setattr(compiler, "compile_or_get_cached", lambda *a, **k: (compiled.append(a), plain(*a, **k))[1])
    group = Product((SO3(), Translations(2)))
    g = group.exp([0.1, 0.2, 0.3, 1.0, 2.0])
    group.log(group.compose(g, group.inverse(g)))
    group.Ad(g), group.dexp([0.1, 0.2, 0.3, 1.0, 2.0]), group.cay([0.1, 0.2, 0.3, 1.0, 2.0])
    SE3().log(SE3().exp(np.arange(6.0) / 9))
    for name in ("snakeboard", "chaplygin-sphere", "rolling-disc"):
        system = catalogue[name].system()
        start = catalogue[name].start(system)
        x = system.at(start.g0)
        p = system.momentum(x, start.xi0)
        np.testing.assert_allclose(system.velocity(x, p), start.xi0, atol=1e-13)
        system.energy(x, p), system.constraint_residual(x, start.xi0), system.orthonormal_forms(x)
        accelerations(system, 0.0, start.g0, start.xi0)
    assert not compiled


@pytest.mark.parametrize("name", ["snakeboard", "chaplygin-sphere", "veselova"])
@pytest.mark.quick("veselova")
def test_methods_of_systems_agree_with_xla(name):
    system = catalogue[name].system()
    start = catalogue[name].start(system)
    xi = np.asarray(start.xi0) + 1e-3
    g = system.point(start.g0)

    def all_of(system, g, xi):
        x = system.at(g)
        p = system.momentum(x, xi)
        forms = system.orthonormal_forms(x)
        return p, system.velocity(x, p), system.energy(x, p), forms, accelerations(system, 0.0, g, xi)

    by_xla = eqx.filter_jit(all_of)(system, g, xi)
    for a, b in zip(jax.tree.leaves(all_of(system, g, xi)), jax.tree.leaves(by_xla), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * np.max(np.abs(b), initial=1e-3))


@pytest.mark.quick("snakeboard")
@pytest.mark.parametrize("name", ["snakeboard", "whipple-bicycle"])
def test_accelerations_are_computed_from_a_kept_trace(name, monkeypatch):
    system = catalogue[name].system()
    start = catalogue[name].start(system)
    at = system, 0.0, system.point(start.g0), np.asarray(start.xi0), None
    monkeypatch.setattr(
        outside, "_copied_if_shared", lambda *_: pytest.fail("the method ran as it is, operation by operation")
    )
    result = outside.call_in_numpy(_accelerations, at, {})
    monkeypatch.undo()
    np.testing.assert_array_equal(result[0], accelerations(*at)[0])


@pytest.mark.slow
def test_traces_that_are_kept_are_bounded():
    for n in range(2 * outside.CALLS):
        Translations(n + 1).inverse(np.ones(n + 1))
    assert outside._traced.cache_info().currsize <= outside.CALLS


def around(x):
    return K * x[0] * FACTORS[1]


K, FACTORS = 1.0, np.array([1.0, 1.0])


def test_what_a_function_reads_around_it_is_looked_at(monkeypatch):
    system, x = gn.System(Translations(2), metric=np.eye(2), potential=around), np.array([1.0, 2.0])
    assert system.potential_energy(x) == 1.0
    monkeypatch.setitem(globals(), "K", 5.0)
    assert system.potential_energy(x) == 5.0
    FACTORS[1] = 2.0
    assert system.potential_energy(x) == 10.0
    assert gn.solve(system, xi0=[0.0, 0.0], g0=x, dt=0.1, n_steps=1).energy[0] == 10.0
    FACTORS[1] = 1.0
    assert gn.solve(system, xi0=[0.0, 0.0], g0=x, dt=0.1, n_steps=1).energy[0] == 5.0
    inner = 3.0
    system = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: inner * x[0])
    assert system.potential_energy(x) == 3.0
    inner = 4.0
    assert system.potential_energy(x) == 4.0


def helper(x, *, offset=0.0):
    return 2.0 * x[0] + offset


def another(x):
    return 4.0 * x[0]


def mixed(x, *, skew=np.ones(100), offset=0.0):
    return 2.0 * x[0] + offset + 0.0 * skew[0]


def made(k):
    """A function of another module, as a factory there makes it."""
    inner = FunctionType((lambda x: k * x[0]).__code__, {}, closure=(CellType(k),))
    inner.__name__ = "inner"
    return inner


class Spring:
    rest = 2.0

    def __init__(self):
        self.k = 2.0

    def __call__(self, x):
        return self.k * x[0]

    def energy(self, x):
        return self.k * x[0]


class Law:
    """What its methods call and hold is looked at too."""

    scale = 2.0

    def __init__(self):
        self.inner = SimpleNamespace(k=2.0)

    def slope(self):
        return self.inner.k

    def energy(self, x):
        return self.slope() * x[0]

    @staticmethod
    def of(x):
        return Law.scale * x[0]


def stiffness(law):
    return law.inner.k


class Kind(enum.Enum):
    SOFT = 2.0
    HARD = 7.0


class Bare:
    k = 2.0

    def __mul__(self, x):
        return SLOPE * x


BARE, SLOPE, OUTER = Bare(), 2.0, ModuleType("outer")
OUTER.inner = ModuleType("inner")
OUTER.inner.k, OUTER.inner.inner = 2.0, OUTER
SOFT, HARD = SimpleNamespace(k=2.0), SimpleNamespace(k=7.0)
SPRINGS = [SOFT, HARD, SOFT]
LAW, PASSED, KIND, FRACTION = Law(), Law(), Kind.SOFT, Fraction(2)
MADE = made(2.0)
BY_NAME = {"spring": {"k": 2.0, "of": ["steel", 1.0]}}
OBJECT, SPRING = SimpleNamespace(k=2.0), Spring()
LONG = np.full(1000, 2.0)
HUGE = np.full(20_000, 2.0)
ELSEWHERE = ModuleType("elsewhere")
exec("k = 2.0\ndef energy(x): return k * x[0]", ELSEWHERE.__dict__)
PARTIAL = functools.partial(lambda k, x: k[0] * x[0], [2.0])
defaults = 2.0
PAIR = (1.0, 2.0)
with jax.enable_x64(True):
    TRACED = jnp.asarray(3.0)


class Entries:
    """A list or an array, as monkeypatch takes a dict."""

    def __init__(self, of):
        self.of = of

    def get(self, place, default):
        return self.of[place]

    def __setitem__(self, place, value):
        self.of[place] = value


CHANGES = [
    (lambda x: helper(x), lambda patch: patch.setitem(globals(), "helper", another), (2.0, 4.0)),
    (lambda x: helper(x), lambda patch: patch.setitem(helper.__kwdefaults__, "offset", 3.0), (2.0, 5.0)),
    (lambda x: PAIR[1] * x[0], lambda patch: patch.setitem(globals(), "PAIR", (1.0, 7.0)), (2.0, 7.0)),
    (lambda x: TRACED * x[0], lambda patch: patch.setitem(globals(), "TRACED", jnp.asarray(6.0)), (3.0, 6.0)),
    (lambda x: mixed(x), lambda patch: patch.setitem(mixed.__kwdefaults__, "offset", 3.0), (2.0, 5.0)),
    (lambda x: MADE(x), lambda patch: patch.setitem(globals(), "MADE", made(5.0)), (2.0, 5.0)),
    (lambda x: defaults * x[0], lambda patch: patch.setitem(globals(), "defaults", 7.0), (2.0, 7.0)),
    (lambda x: BY_NAME["spring"]["k"] * x[0], lambda patch: patch.setitem(BY_NAME["spring"], "k", 7.0), (2.0, 7.0)),
    (lambda x: OBJECT.k * x[0], lambda patch: patch.setattr(OBJECT, "k", 7.0), (2.0, 7.0)),
    (lambda x: Spring.rest * x[0], lambda patch: patch.setattr(Spring, "rest", 7.0), (2.0, 7.0)),
    (lambda x: SPRING.energy(x), lambda patch: patch.setattr(SPRING, "k", 7.0), (2.0, 7.0)),
    (SPRING.energy, lambda patch: patch.setattr(SPRING, "k", 7.0), (2.0, 7.0)),
    (SPRING, lambda patch: patch.setattr(SPRING, "k", 7.0), (2.0, 7.0)),
    (LAW.energy, lambda patch: patch.setattr(LAW.inner, "k", 7.0), (2.0, 7.0)),
    (lambda x: BARE.k * x[0], lambda patch: patch.setattr(Bare, "k", 7.0), (2.0, 7.0)),
    (lambda x: BARE * x[0], lambda patch: patch.setitem(globals(), "SLOPE", 7.0), (2.0, 7.0)),
    (lambda x: SPRINGS[2].k * x[0], lambda patch: patch.setitem(Entries(SPRINGS), 2, HARD), (2.0, 7.0)),
    (lambda x: OUTER.inner.k * x[0], lambda patch: patch.setattr(OUTER.inner, "k", 7.0), (2.0, 7.0)),
    (lambda x: stiffness(PASSED) * x[0], lambda patch: patch.setattr(PASSED.inner, "k", 7.0), (2.0, 7.0)),
    (lambda x: Law.of(x), lambda patch: patch.setattr(Law, "scale", 7.0), (2.0, 7.0)),
    (lambda x: KIND.value * x[0], lambda patch: patch.setitem(globals(), "KIND", Kind.HARD), (2.0, 7.0)),
    (lambda x: float(FRACTION) * x[0], lambda patch: patch.setitem(globals(), "FRACTION", Fraction(7)), (2.0, 7.0)),
    (PARTIAL, lambda patch: patch.setitem(Entries(PARTIAL.args[0]), 0, 7.0), (2.0, 7.0)),
    (lambda x: LONG[500] * x[0], lambda patch: patch.setitem(Entries(LONG), 500, 7.0), (2.0, 7.0)),
    (lambda x: HUGE[500] * x[0], lambda patch: patch.setitem(globals(), "HUGE", 3.5 * HUGE), (2.0, 7.0)),
    (lambda x: ELSEWHERE.k * x[0], lambda patch: patch.setattr(ELSEWHERE, "k", 7.0), (2.0, 7.0)),
    (lambda x: ELSEWHERE.energy(x), lambda patch: patch.setattr(ELSEWHERE, "k", 7.0), (2.0, 7.0)),
]
NAMES = [
    *("function", "defaults", "tuple", "array", "mixed", "of another module", "name", "dict", "attribute"),
    *("of a class", "method", "bound", "callable", "method of a method", "bare", "operator"),
    *("another in a list", "module of a module", "passed on", "static", "enum", "rebound"),
    *("partial", "long", "huge", "of a module", "global of a module"),
]


@pytest.mark.parametrize(("potential", "change", "result"), CHANGES, ids=NAMES)
def test_what_a_function_reads_is_seen(potential, change, result, monkeypatch):
    def energy(system):
        return system.potential_energy(np.array([1.0, 2.0]))

    one, other = (gn.System(Translations(2), metric=np.eye(2), potential=potential) for _ in range(2))
    assert energy(one) == energy(other) == result[0]
    change(monkeypatch)
    assert energy(one) == energy(other) == result[1]


@pytest.mark.parametrize(("potential", "change", "result"), CHANGES, ids=NAMES)
@pytest.mark.quick("bound")
def test_functions_and_what_else_a_function_reads(potential, change, result, monkeypatch):
    """By methods, runs, gradients of runs and ensembles alike, of the system of before and of a new one."""

    def system():
        return gn.System(Translations(2), metric=np.eye(2), potential=potential)

    def energies(system):
        of = {"g0": np.array([1.0, 2.0]), "dt": 0.1, "n_steps": 1}
        return [
            system.potential_energy(of["g0"]),
            gn.solve(system, xi0=[0.0, 0.0], **of).energy[0],
            gn.integrate(system, xi0=[0.0, 0.0], **of, observables=True).observables["energy"][0],
            gn.solve_ensemble(system, xi0=np.zeros((2, 2)), **of).energy[1, 0],
        ]

    one = system()
    assert energies(one) == [result[0]] * 4
    change(monkeypatch)
    assert energies(one) == energies(system()) == [result[1]] * 4


class Shy:
    """It does not let itself be looked at."""

    @property
    def __dict__(self):
        raise RuntimeError

    def __getattr__(self, name):
        raise RuntimeError


SHY, ENDLESS, HUGE_NUMBER = Shy(), [1.0], 10**5000
ENDLESS.append(ENDLESS)


def test_what_cannot_be_looked_at_is_no_fault():
    system = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x: (len(ENDLESS) if SHY is not None and HUGE_NUMBER > 0 else 0.0) * x[0],
    )
    assert system.potential_energy(np.array([1.0, 0.0])) == 2.0


@dataclasses.dataclass(frozen=True)
class Slope:
    k: object

    def __call__(self, x):
        return (2.0 if self.k is True else 3.0 if type(self.k) is int else np.arctan2(self.k, -1.0)) * x[0]


class Changing:
    k = 2.0

    def __call__(self, x):
        return self.k * x[0]


def test_functions_that_are_equal_or_change_are_told_apart():
    def value(potential):
        return float(gn.System(Translations(2), metric=np.eye(2), potential=potential).potential_energy(np.ones(2)))

    assert [value(Slope(k)) for k in (True, 1, 0.0, -0.0)] == [2.0, 3.0, np.pi, -np.pi]
    changing = Changing()
    assert value(changing) == 2.0
    changing.k = 9.0
    assert value(changing) == 9.0


def test_results_are_nobody_elses():
    whole = np.zeros(136, np.uint8)
    begin = -whole.ctypes.data % 64  # JAX takes memory that is aligned as it is
    entries = whole[begin : begin + 72].view(float)
    entries[:] = np.eye(3).ravel()
    R = SO3().from_vector(entries)
    entries[:] = 7
    np.testing.assert_array_equal(R, np.eye(3))
    moved = Translations(3).compose(np.ones(3), np.ones(3))
    moved += 1  # without JAX, an array as any other
    np.testing.assert_array_equal(moved, np.full(3, 3.0))


@pytest.mark.parametrize("group", [Translations(3), gn.groups.Torus(3), gn.groups.Heisenberg()], ids=str)
def test_what_needs_no_computation_is_copied(group):
    given = np.array([0.1, 0.2, 0.3])
    for method in (group.exp, group.log, group.project):
        result = method(given)
        assert not np.shares_memory(np.asarray(result), given)
    place, numbers = Product([Translations(1), group]).exp(np.append(0.5, given)), np.append(0.5, given)
    parts = Product([Translations(1), group]).exp(numbers)
    numbers[:] = 7.0
    jax.tree.map(np.testing.assert_array_equal, parts, place)


def test_arrays_of_other_things_are_refused_as_ever():
    masked = np.ma.array(np.eye(3), mask=np.eye(3))
    with pytest.raises(TypeError, match=r"g of SO3\.log is a masked array"):
        SO3().log(masked)
    np.testing.assert_array_equal(Translations(3).log(np.arange(3.0).astype(">f8")), np.arange(3.0))


def test_rules_at_the_edges():
    def same(function, *args):
        by_xla = jax.jit(function, compiler_options={"xla_cpu_use_fusion_emitters": True})(*args)
        result = in_numpy(function, *args)(*args)
        np.testing.assert_array_equal(result, by_xla)
        assert result.dtype == by_xla.dtype

    same(lambda x: jax.lax.dynamic_update_slice(jnp.sin(x), x, ()), np.asarray(0.5))
    same(lambda x: jax.lax.cumsum(x), np.array([100, 100], np.int8))
    same(lambda x: jax.lax.reduce_max(x, (0,)), np.zeros((0, 3), bool))
    same(lambda x: 1 / jnp.sign(x), np.array([-0.0, 0.0, 2.0]))
    halves = np.array([0.49999999999999994, 0.5, -0.5, 1.5, -2.5, 2.0**52 + 1])
    same(lambda x: jax.lax.round(x, jax.lax.RoundingMethod.AWAY_FROM_ZERO), halves)
    same(lambda x: jnp.real(1 / (1j * x + 1)), np.array([0.5, 2.0]))
    hundreds = np.full((4, 4), 100, np.int8)
    same(lambda x: jnp.matmul(x, x, preferred_element_type=jnp.int32), hundreds)
    same(lambda x: x.at[1].apply(lambda y: 3 * y * y), np.array([1.0, 2.0, 3.0]))
    same(lambda x: x.at[jnp.array([0, 2])].apply(jnp.abs), np.array([-1.0, -2.0, -3.0]))

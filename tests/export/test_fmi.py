"""Functional mock-up units, validated and run by FMPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import needs_compiler

import geonh as gn
from geonh.systems import catalogue

fmpy = pytest.importorskip("fmpy", reason="FMPy is not installed")
validate_fmu = pytest.importorskip("fmpy.validation").validate_fmu
pytestmark = needs_compiler
N = 100


def unit(version, folder, name="chaplygin-sleigh", **options):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    built = gn.build(
        system, "gauss4", folder / "robot", target=f"fmi{version}", xi0=start.xi0, g0=start.g0, dt=entry.dt, **options
    )
    return built, system, start


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.quick("3")
def test_a_unit_is_valid_and_has_the_bits_of_solve(version, tmp_path):
    built, system, start = unit(version, tmp_path)
    (file,) = built.files
    assert validate_fmu(str(file)) == []
    names = ["omega", "vx", "theta", "x", "energy", "constraint_residual[0]"]
    found = fmpy.simulate_fmu(str(file), stop_time=N * 0.01, step_size=0.01, output_interval=0.01, output=names)
    run = gn.solve(system, "gauss4", xi0=start.xi0, dt=0.01, n_steps=N)
    assert len(found) == N + 1
    for name, values in (("omega", run.xi[:, 0]), ("vx", run.xi[:, 1]), ("theta", run.g[:, 0]), ("energy", run.energy)):
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.quick("3")
def test_parameters_and_the_start_are_set_by_name(version, tmp_path):
    built, _, start = unit(version, tmp_path)
    values = {"a": 0.5, "step": 0.005, "start.theta": 0.3, "start.vx": 1.0}
    found = fmpy.simulate_fmu(
        str(built.files[0]), stop_time=0.5, output_interval=0.05, start_values=values, output=["omega", "theta"]
    )
    system = catalogue["chaplygin-sleigh"].system(a=0.5)
    xi0 = np.array([start.xi0[0], 1.0, 0.0])
    run = gn.solve(system, "gauss4", xi0=xi0, g0=[0.3, 0.0, 0.0], dt=0.005, n_steps=N)
    assert found["omega"][-1] == run.xi[-1, 0]
    assert found["theta"][-1] == run.g[-1, 0]


def test_the_start_follows_a_parameter_of_the_constraints(tmp_path):
    """vx = c vy: with another c alone the start by default is projected; one that is given is refused."""
    rolling = gn.Distribution(forms=lambda x, p: jnp.stack([1.0, -p["c"]])[None])
    system = gn.System(
        gn.groups.Translations(2), metric=[2.0, 1.0], distribution=rolling, parameters={"c": 2.0}, name="cart"
    )
    path = gn.build(system, "rkmk4", tmp_path / "robot", target="fmi3", xi0=[0.2, 0.1], dt=0.1).files[0]
    how = {"stop_time": 1.0, "output_interval": 0.1, "output": ["vx", "vy"]}
    found = fmpy.simulate_fmu(str(path), start_values={"c": 3.0}, **how)
    expected = system.with_parameters(c=3.0).project(None, [0.2, 0.1])
    np.testing.assert_allclose([found[name][-1] for name in how["output"]], expected, rtol=0, atol=1e-15)
    with pytest.raises(fmpy.fmi1.FMICallException):
        fmpy.simulate_fmu(str(path), start_values={"c": 3.0, "start.vx": 0.2}, **how)


def test_inputs_have_units_and_are_held(tmp_path):
    system = gn.System(
        gn.groups.Translations(1), metric=[2.0], forces=lambda t, x, xi, u: u, name="mass", units={"x": "m"}
    )
    built = gn.build(system, "rkmk4", tmp_path / "robot", target="fmi3", xi0=[0.0], dt=0.1, controls=[1.0])
    description = fmpy.read_model_description(str(built.files[0]))
    units = {variable.name: variable.unit for variable in description.modelVariables}
    assert (units["x"], units["energy"], units["step"]) == ("m", "J", "s")
    signal = np.array([(0.0, 1.0), (1.0, 1.0), (1.0, -3.0), (2.0, -3.0)], dtype=[("time", float), ("u[0]", float)])
    velocity = next(v.name for v in description.modelVariables if v.name in system.group.velocity_names)
    found = fmpy.simulate_fmu(
        str(built.files[0]), stop_time=2.0, step_size=0.1, output_interval=0.1, input=signal, output=[velocity]
    )
    held = jax.tree_util.Partial(lambda u, t: u, np.array([1.0]))
    first = gn.solve(system, "rkmk4", xi0=[0.0], dt=0.1, n_steps=10, controls=held)
    assert found[velocity][10] == first.xi[-1, 0]
    assert found[velocity][-1] == pytest.approx(0.5 - 1.5, abs=1e-12)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.quick("3")
def test_what_fails_is_told(version, tmp_path):
    built, _, _ = unit(version, tmp_path)
    said = []
    options = {"logger": lambda *words: said.append(str(words)), "debug_logging": True} if version == 2 else {}
    with pytest.raises(fmpy.fmi1.FMICallException):
        fmpy.simulate_fmu(str(built.files[0]), stop_time=1.0, start_values={"start.vy": 0.5}, **options)
    with pytest.raises(fmpy.fmi1.FMICallException):
        fmpy.simulate_fmu(str(built.files[0]), stop_time=1.0, output_interval=0.015, **options)


@pytest.fixture
def instance(tmp_path):
    """A unit of version 3.0 in this process, in its initialization."""
    built, _, _ = unit(3, tmp_path)
    description = fmpy.read_model_description(str(built.files[0]))
    folder = fmpy.extract(str(built.files[0]), tmp_path / "unit")
    made = fmpy.instantiate_fmu(str(folder), description, "CoSimulation")
    made.enterInitializationMode()
    places = {variable.name: variable.valueReference for variable in description.modelVariables}
    yield made, lambda name: made.getFloat64([places[name]])[0], lambda name, x: made.setFloat64([places[name]], [x])
    made.terminate()
    made.freeInstance()


def test_steps_that_are_no_number_of_the_methods_are_refused(instance):
    made, get, _ = instance
    made.exitInitializationMode()
    for length in (np.nan, np.inf, 0.0, -0.01, 0.01 * (1e5 + 0.09), 0.01 * 2.0**60):
        with pytest.raises(fmpy.fmi1.FMICallException):
            made.doStep(currentCommunicationPoint=0.0, communicationStepSize=length)
    assert get("time") == 0.0
    made.doStep(currentCommunicationPoint=0.0, communicationStepSize=0.1 + 1e-12)
    assert get("time") == pytest.approx(0.1)


def test_looking_at_an_output_changes_nothing(tmp_path):
    """The start by default is projected for the last parameters, from where it was."""
    rolling = gn.Distribution(forms=lambda x, p: jnp.stack([1.0, -p["c"]])[None])
    system = gn.System(
        gn.groups.Translations(2), metric=[2.0, 1.0], distribution=rolling, parameters={"c": 2.0}, name="cart"
    )
    path = gn.build(system, "rkmk4", tmp_path / "robot", target="fmi3", xi0=[0.2, 0.1], dt=0.1).files[0]
    description = fmpy.read_model_description(str(path))
    places = {variable.name: variable.valueReference for variable in description.modelVariables}
    folder, seen = fmpy.extract(str(path), tmp_path / "unit"), []
    for looks in (False, True):
        made = fmpy.instantiate_fmu(str(folder), description, "CoSimulation")
        made.enterInitializationMode()
        for c in (7.0, -3.0):
            made.setFloat64([places["c"]], [c])
            if looks:
                made.getFloat64([places["energy"]])
        made.exitInitializationMode()
        seen.append(list(made.getFloat64([places[name] for name in ("vx", "vy", "start.vx", "start.vy")])))
        made.terminate()
        made.freeInstance()
    assert seen[0] == seen[1]
    expected = system.with_parameters(c=-3.0).project(None, [0.2, 0.1])
    np.testing.assert_allclose(seen[0], [*expected, *expected], rtol=0, atol=1e-15)


@pytest.mark.parametrize("more", [{}, {"α": 0.1}])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.quick("3-more0")
def test_names_are_distinct_and_legal_whatever_the_parameters_are_called(version, more, tmp_path):
    names = {"x": 1.0, "step": 1.0, "energy": 0.5, "a b": 0.2, "it's": 0.3, "list": [0.1, [0.2]], **more}
    system = gn.System(
        gn.groups.Translations(2),
        metric=[1.0, 1.0],
        potential=lambda x, p: 0.5 * p["x"] * x @ x,
        parameters=names,
        name="named",
    )
    built = gn.build(system, "rkmk4", tmp_path / "robot", target=f"fmi{version}", xi0=[0.0, 0.0], g0=[1.0, 0.0], dt=0.1)
    (file,) = built.files
    assert validate_fmu(str(file)) == []
    found = fmpy.simulate_fmu(str(file), stop_time=1.0, start_values={"parameters.x": 4.0}, output=["x"])
    assert found["x"][-1] == pytest.approx(np.cos(2.0), abs=1e-3)

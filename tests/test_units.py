"""Names and units of components, in tables and files."""

import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2, SO3, Torus, Translations
from geonh.plotting.labels import component_units
from geonh.systems import catalogue

GROUP = [Torus(2, names=("pitch", "roll")), SE2(), Translations(1, names=("s",)), SO3()]


def run(**options):
    system = gn.System(GROUP, metric=np.eye(9), base="point", **options)
    return gn.solve(system, xi0=0.1 * np.ones(9), dt=0.1, n_steps=2)


@pytest.mark.slow
def test_angles_have_units_and_the_rest_those_that_are_declared(tmp_path):
    made = run(units={"x": "km", "s": "mm"})
    made.save(tmp_path / "run.nc")
    for trajectory in (made, gn.Trajectory.load(tmp_path / "run.nc")):
        table = trajectory.to_xarray()
        assert list(table.coordinate.values[:6]) == ["pitch", "roll", "theta", "x", "y", "s"]
        assert list(table.coordinate_units.values[:7]) == ["rad", "rad", "rad", "km", "m", "mm", ""]
        assert list(table.component_units.values) == [*["rad/s"] * 3, "km/s", "m/s", "mm/s", *["rad/s"] * 3]
        assert list(table.momentum_units.values[2:5]) == ["J/(rad/s)", "J/(km/s)", "J/(m/s)"]
        assert (table.time.units, table.energy.units) == ("s", "J")
        units = trajectory.to_pandas().attrs["units"]
        assert [units[name] for name in ("time", "pitch_dot", "p_plus_vx", "energy_minus")] == [
            "s",
            "rad/s",
            "J/(km/s)",
            "J",
        ]
        assert units["y"] == "m"
        assert "R11" not in units


def test_time_and_energy_in_other_units():
    units = run(units={"time": "ms", "energy": "mJ", "roll": "deg", "vx": "m/s"}).to_pandas().attrs["units"]
    assert units["time"] == "ms"
    assert units["pitch_dot"] == "rad/ms"
    assert units["p_minus_roll_dot"] == "mJ/(deg/ms)"
    assert units["vx"] == "m/s"


@pytest.mark.parametrize(
    ("units", "error", "words"),
    [
        ({"q": "m"}, ValueError, "units: there is no 'q'; there are pitch, roll, theta"),
        ("m", TypeError, "units must be a mapping"),
        ({"x": 3}, TypeError, "units must be a mapping"),
    ],
)
def test_units_of_nothing(units, error, words):
    with pytest.raises(error, match=words):
        run(units=units)


def test_names_on_products_keep_their_units():
    system = gn.System([Torus(1), Torus(1)], metric=np.eye(2))
    units = gn.solve(system, xi0=[0.1, 0.2], dt=0.1, n_steps=2).to_pandas().attrs["units"]
    assert (units["phi_2"], units["phi_dot_2"]) == ("rad", "rad/s")


@pytest.mark.parametrize("names", ["ab", (1, 2), ("x", "x"), ("", "a"), (None, "a"), ("a",)])
@pytest.mark.parametrize("group", [Torus, Translations])
def test_names_are_texts_that_differ(group, names):
    with pytest.raises((TypeError, ValueError), match="names"):
        group(2, names=names)


def test_no_column_of_a_table_hides_another():
    integral = gn.mechanics.FirstIntegral(lambda g, xi, p, parameters: 7 * p[0])
    names = ("energy", "x", "vx", "other")
    system = gn.System(Translations(2), metric=np.eye(2), first_integrals=dict.fromkeys(names, integral))
    table = gn.solve(system, xi0=[0.1, 0.2], dt=0.1, n_steps=2).to_pandas()
    assert table["energy"].iloc[0] == pytest.approx(0.025)
    for name in ("integral:energy", "integral:x", "integral:vx", "other"):
        assert table[name].iloc[0] == pytest.approx(0.7)
    with pytest.raises(ValueError, match="the name 'energy' is used twice"):
        gn.System(Torus(2, names=("energy", "b")), metric=np.eye(2))
    with pytest.raises(ValueError, match="the name 'x_dot' is used twice"):
        gn.System(Torus(2, names=("x", "x_dot")), metric=np.eye(2))


@pytest.mark.parametrize("name", ["chaplygin-sleigh", "double-pendulum", "nonholonomic-particle", "rattleback"])
@pytest.mark.quick("chaplygin-sleigh", "double-pendulum")
def test_tables_and_figures_have_the_same_units(name):
    """Metres where the system declares nothing else, also of the frame of a body on SE(3)."""
    system = catalogue[name].system()
    begin = catalogue[name].start(system)
    run = gn.solve(
        system, g0=begin.g0, xi0=begin.xi0, dt=catalogue[name].dt, n_steps=1, controls=catalogue[name].controls
    )
    table, group = run.to_xarray(), system.group
    shown = component_units(group.point_names, group.velocity_names, dict(system.units))
    for axis, names in (("coordinate", group.point_names), ("component", group.velocity_names)):
        assert list(table[f"{axis}_units"].values) == [shown[name] for name in names]
    assert {shown[name] for name in shown if name in ("x", "y", "z")} <= {"m"}
    assert {shown[name] for name in shown if name in ("vx", "vy", "vz", "v1", "v2", "v3")} <= {"m/s"}

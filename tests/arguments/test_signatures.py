"""Arguments that a function has not are refused with what to write instead."""

import inspect

import pytest

import geonh as gn
from geonh.arguments.signatures import RUNS, validated
from geonh.ensembles import Sweep

RUN = {"xi0": [0.8, -0.5, 0.0], "dt": 0.01, "n_steps": 3}
CALLS = {
    "solve": (gn.solve, {}),
    "integrate": (gn.integrate, {}),
    "solve_ensemble": (gn.solve_ensemble, {}),
    "Sweep.of": (Sweep.of, {}),
    "stream": (gn.stream, {"store": "unused"}),
}


@pytest.mark.quick("solve")
@pytest.mark.parametrize("name", CALLS)
def test_a_run_says_what_to_write_for_an_argument_that_it_has_not(name):
    run, more = CALLS[name]
    names = inspect.signature(run).parameters
    for words in RUNS:
        for word in set(words.split()) - set(names):
            with pytest.raises(TypeError, match=rf"^{name}\(\) has no argument '{word}'[:;] \S+") as refused:
                run(gn.systems.chaplygin_sleigh(), **RUN, **more, **{word: 1})
            warned = str(refused.value).partition("write ")[2].removesuffix("=")
            assert not warned or warned in names
    with pytest.raises(TypeError, match=r"no argument 'save_evry'; did you mean save_every\?"):
        run(gn.systems.chaplygin_sleigh(), **RUN, **more, save_evry=1)
    with pytest.raises(TypeError, match=rf"^{name}\(\) takes system, method by position; the others by name: xi0=…"):
        run(gn.systems.chaplygin_sleigh(), "rk4", RUN["xi0"], **more)


def test_what_python_accepts_is_accepted():
    @validated
    def many(a, *others, b: int = 1, **options):
        return a, others, b, options

    assert many(1, 2, 3, c=4) == (1, (2, 3), 1, {"c": 4})
    with pytest.raises(TypeError, match=r"^chaplygin_sleigh\(\) has no argument 'mass'; it has m, I, a$"):
        gn.systems.chaplygin_sleigh(mass=1.0)
    with pytest.raises(TypeError, match=r"resume\(\) has no argument 'n_step': write n_steps="):
        gn.resume("unused.nc", n_step=3)


def test_classes_of_one_name_do_not_replace_each_other():
    """There are wheels of planar bodies, and of systems of bodies."""
    import geonh.bodies

    assert geonh.bodies.Wheel is not gn.rolling.Wheel
    assert gn.systems.two_wheeled_robot().group.dim > 0
    with pytest.raises(TypeError, match=r"wheels\[0\] must be a Wheel, made by wheel or knife_edge, got 3"):
        gn.rolling.planar_body(1.0, 1.0, wheels=[3])

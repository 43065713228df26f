"""The benchmark of ``examples/benchmark``: adapters, closed forms, scores, and submissions that are refused."""

import copy
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "benchmark"
sys.path.insert(0, str(FOLDER))

import physics  # noqa: E402
import reference  # noqa: E402
import score  # noqa: E402
import with_geonh  # noqa: E402
import with_sympy  # noqa: E402

import geonh as gn  # noqa: E402

NAMES = score.problem_names()
LONGER = {"bicycle", "rolling-disc", "sliding-ball", "tippe-top", "wheelset"}
"""Problems whose programs take seconds to make."""
RAW = {name: json.loads((FOLDER / "problems" / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES}


def submitted(name="sleigh"):
    """The reference itself as a submission."""
    data = copy.deepcopy(RAW[name])
    head = {"problem": name, "code": "reference", "method": "exact", "work": {"seconds": 1.0}, "times": data["times"]}
    return {**head, "values": data["reference"], "events": data["events"]}


def solved(result):
    """Values of a submission as arrays."""
    return {name: np.array(value) for name, value in result["values"].items()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.quick("sleigh", "contact-oscillator-field", "contact-oscillator")
def test_geonh_is_right_to_the_stated_accuracy(name):
    result = score.score(with_geonh.run(score.read_problem(name)))
    assert max(result.error.values()) <= result.accuracy
    assert max(result.invariants.values()) <= 10 * result.accuracy
    assert result.constraint <= 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.quick("sliding-ball", "snakeboard")
def test_sympy_is_right_to_the_stated_accuracy(name):
    result = score.score(with_sympy.run(score.read_problem(name), with_sympy.TIGHT))
    assert max(result.error.values()) <= result.accuracy
    assert max(result.invariants.values()) <= 10 * result.accuracy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step", "error"), [("rolling-disc", 1e-4, 0.05), ("sliding-ball", 1e-4, 0.01), ("rattleback", 1e-5, 1.0)]
)
def test_mujoco_is_near(name, step, error):
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    import with_mujoco

    problem = score.read_problem(name)
    result = score.score(with_mujoco.run(problem, step))
    assert max(result.error.values()) < error
    assert max(result.error.values()) > 1e-3  # contact is regularised: if not, the page is to be changed


@pytest.mark.slow
def test_exudyn_converges_with_order_2():
    pytest.importorskip("exudyn", reason="Exudyn is not installed")
    import with_exudyn

    problem = score.read_problem("rolling-disc")
    steps = np.array([2e-3, 1e-3, 5e-4, 2.5e-4])
    errors = [max(score.score(with_exudyn.run(problem, step)).error.values()) for step in steps]
    assert abs(np.polyfit(np.log(steps), np.log(errors), 1)[0] - 2) < 0.1


@pytest.mark.parametrize("name", NAMES)
def test_start_and_reference_meet_the_constraints(name):
    problem = score.read_problem(name)
    judge = physics.JUDGES[name]
    at_start = judge(problem.parameters, problem.start)
    assert np.abs(at_start.residuals).max(initial=0.0) < 1e-14
    result = score.score(submitted(name))
    assert max(result.error.values()) == 0.0
    assert result.constraint < 1e3 * problem.accuracy
    nodes = [{key: x[k] for key, x in problem.reference.items()} for k in range(len(problem.times))]
    kept = [judge(problem.parameters, node) for node in nodes]
    dissipative = {"sliding-ball", "tippe-top", "turning-table"}
    for key, value in at_start.invariants.items():
        if key != "energy" or name not in dissipative:
            found = [judged.invariants[key] for judged in kept]
            np.testing.assert_allclose(found, value, rtol=30 * problem.accuracy)


@pytest.mark.parametrize("name", NAMES)
def test_page_and_json_agree(name):
    assert (FOLDER / "problems" / f"{name}.md").read_text(encoding="utf-8") == reference.page(name)
    assert f"(problems/{name}.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(RAW[name]["agreement"]) == {*RAW[name]["reference"], *RAW[name]["events"]}
    assert max(RAW[name]["agreement"].values()) <= RAW[name]["accuracy"]


def test_the_sleigh_in_closed_form():
    problem = score.read_problem("sleigh")
    m, inertia, a = (problem.parameters[key] for key in ("m", "I", "a"))
    total, u0, spin = inertia + m * a**2, -np.linalg.norm(problem.start["velocity"]), problem.start["spin"][0]
    energy = 0.5 * m * u0**2 + 0.5 * total * spin**2
    U, W, k = np.sqrt(2 * energy / m), np.sqrt(2 * energy / total), a * np.sqrt(2 * energy * m) / total
    phase = k * problem.times + np.arctanh(u0 / U)
    turned = problem.reference["heading"][:, 0]
    forward = np.stack([np.cos(turned), np.sin(turned)], axis=1) * U * np.tanh(phase)[:, None]
    np.testing.assert_allclose(problem.reference["spin"][:, 0], W / np.cosh(phase), rtol=0, atol=1e-12)
    np.testing.assert_allclose(problem.reference["velocity"], forward, rtol=0, atol=1e-12)


def test_suslovs_problem_in_closed_form():
    problem = score.read_problem("suslov")
    J, omega = np.array(problem.parameters["J"]), problem.start["omega"][:2]
    moments, axes = np.linalg.eigh(J[:2, :2])
    first, energy = axes.T @ omega, 0.5 * omega @ J[:2, :2] @ omega
    pull, scale = axes.T @ J[:2, 2] / np.sqrt(moments), np.sqrt(2 * energy / moments)
    centre = np.arctan2(pull[1], pull[0])
    rate = np.sqrt(2 * energy / moments.prod()) * np.linalg.norm(pull)
    offset = np.arctan2(first[1] / scale[1], first[0] / scale[0]) - centre
    phase = np.linalg.det(axes) * rate * problem.times + np.arctanh(np.sin(offset))
    angle = centre + np.arctan2(np.tanh(phase), np.sign(np.cos(offset)) / np.cosh(phase))
    exact = (scale * np.stack([np.cos(angle), np.sin(angle)], axis=1)) @ axes.T
    np.testing.assert_allclose(problem.reference["omega"][:, :2], exact, rtol=0, atol=1e-11)


def test_the_ball_in_closed_form():
    problem = score.read_problem("sliding-ball")
    p, v0 = problem.parameters, problem.start["velocity"]
    spin = problem.start["omega"]
    slip = v0 + p["R"] * np.array([-spin[1], spin[0]])
    rolls = 2 * np.linalg.norm(slip) / (7 * p["mu"] * p["g"])
    assert problem.events["t_roll"] == pytest.approx(rolls, rel=1e-14)
    slides = np.minimum(problem.times, rolls)[:, None]
    pull = p["mu"] * p["g"] * slip / np.linalg.norm(slip)
    after = (problem.times[:, None] - slides) * (v0 - 2 / 7 * slip)
    np.testing.assert_allclose(problem.reference["velocity"], v0 - pull * slides, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        problem.reference["place"], v0 * slides - pull * slides**2 / 2 + after, rtol=0, atol=1e-13
    )


def test_the_turning_table_against_values_found_elsewhere():
    values = json.loads((Path(__file__).parent / "systems" / "reference.json").read_text())["inhomogeneous_turning"]
    end = {name: value[-1] for name, value in score.read_problem("turning-table").reference.items()}
    for name, key in (("place", "x"), ("velocity", "v"), ("omega", "W")):
        np.testing.assert_allclose(end[name], values[key], rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_wheelset_snakes_with_klingels_wavelength():
    """From the middle of the track, turned by a small angle ψ: it is there again after half a wavelength, up to ψ²."""
    problem, angle = score.read_problem("wheelset"), 1e-3
    p = problem.parameters
    turn = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    half, rate = np.pi * np.sqrt(p["r"] * p["s"] / p["gamma"]), 6.0

    def state(z):
        rest = dict.fromkeys(("omega", "velocity"), np.zeros(3))
        return {"place": np.array([0.0, 0.0, z]), "rotation": turn.ravel(), **rest}

    z = p["r"]
    for _ in range(20):
        gap, further = (physics.wheelset(p, state(height)).residuals[0] for height in (z, z + 1e-6))
        z -= gap * 1e-6 / (further - gap)
    tilted = {**state(z), "omega": turn.T @ [0.0, 0.0, 1.0]}
    reach = [physics.wheelset(p, tilted).residuals[2 + 3 * k : 5 + 3 * k] for k in range(2)]  # e₃ × d
    contacts = [np.array([slip[1], -slip[0], -z]) for slip in reach]
    spin = contacts[0] - contacts[1]
    spin *= rate / np.linalg.norm(spin)
    start = {**state(z), "omega": turn.T @ spin, "velocity": -np.cross(spin, contacts[0])}
    case = with_geonh.wheelset(problem._replace(start=start))
    run = gn.solve(case.system, "gauss6", g0=case.g0, xi0=case.xi0, dt=0.005, t_end=1.2 * half / (rate * p["r"]))
    x, y = run.g[:, 0, 3], run.g[:, 1, 3]
    k = np.flatnonzero((y[1:-1] > 0) & (y[2:] <= 0))[0] + 1
    back = x[k] + y[k] / (y[k] - y[k + 1]) * (x[k + 1] - x[k])
    assert back == pytest.approx(half, rel=1e-5)
    heading = angle * (1 - p["gamma"] * p["r"] / p["s"])  # across the line of contacts, which the axle's turn shifts
    assert y.max() == pytest.approx(heading * half / np.pi, rel=1e-4)


def test_a_lower_order_scores_worse():
    problem = score.read_problem("sleigh")
    fine, coarse = (score.score(with_geonh.run(problem, "gni", steps)) for steps in (400, 200))
    ratios = [coarse.error[name] / fine.error[name] for name in fine.error]
    np.testing.assert_allclose(ratios, 4.0, rtol=0.05)
    assert coarse.work["steps"] == 1000
    assert coarse.constraint > 0
    assert min(coarse.error.values()) > coarse.accuracy


def test_errors_are_relative_to_the_greatest_size():
    given = submitted()
    greatest = np.abs(given["values"]["place"]).max()
    given["values"]["place"][2][1] += 1e-3
    result = score.score(given)
    assert result.error["place"] == pytest.approx(1e-3 / greatest, rel=1e-9)
    assert result.error["spin"] == 0.0
    assert "error 1.6e-04" in score.line(given, result)
    assert "≤ 1e-12" in score.line(submitted(), score.score(submitted()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("work"), "missing: work"),
        (lambda s: s.update(problem="slegh"), "problem must be one of bicycle, .* got 'slegh'"),
        (lambda s: s.update(method=3), "method must be text, got 3"),
        (lambda s: s.update(work={}), "work must have one or more of seconds, steps, evaluations"),
        (lambda s: s.update(work={"hours": 1}), "work must have one or more of seconds"),
        (lambda s: s.update(work={"steps": 0}), "work.steps must be positive, got 0"),
        (lambda s: s.update(work={"steps": True}), "work.steps must be numbers"),
        (lambda s: s.update(work={"steps": 0.5}), "work.steps must be an integer, got 0.5"),
        (lambda s: s.update(vaules={}), "a submission has problem, .*, events, and nothing else, got vaules"),
        (lambda s: s.update(events={"t": 1.0}), "events must have no entry and nothing else, got t"),
        (lambda s: s.update(times=[1.0, 2.0]), r"times must have shape \[5\], got \[2\]"),
        (lambda s: s.update(times=[1, 2, 3, 4, 5]), r"times must be those of sleigh, \[2.0, 4.0"),
        (lambda s: s.update(values=[]), "values must have place, heading, velocity, spin and nothing else"),
        (lambda s: s["values"].pop("spin"), "values must have place, heading, velocity, spin and nothing else, got"),
        (lambda s: s["values"].update(place=[[1.0]] * 5), r"values.place must have shape \[5, 2\], got \[5, 1\]"),
        (lambda s: s["values"]["place"][0].pop(), r"values.place must have shape \[5, 2\], got rows of unequal"),
        (lambda s: s["values"]["spin"].__setitem__(0, [None]), "values.spin must be numbers"),
        (lambda s: s["values"]["spin"].__setitem__(0, ["1"]), "values.spin must be numbers"),
        (lambda s: s["values"]["spin"].__setitem__(0, [True]), "values.spin must be numbers"),
        (lambda s: s["values"]["spin"].__setitem__(0, [float("nan")]), "values.spin must be finite"),
    ],
)
def test_malformed_submissions_are_refused_in_words(change, message):
    given = submitted()
    change(given)
    with pytest.raises(ValueError, match=message):
        score.score(given)


@pytest.mark.parametrize("events", [None, {}, {"t_roll": "0.47"}, {"t_roll": [0.47]}])
def test_an_event_that_is_asked_must_be_given(events):
    with pytest.raises(ValueError, match="events"):
        score.score({**submitted("sliding-ball"), "events": events})


@pytest.mark.parametrize("given", [[], 3, "sleigh", None])
def test_a_submission_is_an_object(given):
    with pytest.raises(ValueError, match="must be a JSON object"):
        score.score(given)


def test_a_misspelt_method_is_refused_in_words(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["with_geonh.py", "sleigh", "gaus4"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(FOLDER / "with_geonh.py"), run_name="__main__")
    assert left.value.code == 2
    assert "no method 'gaus4'; did you mean gauss4" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_scores_files_and_refuses_in_words_without_geonh(tmp_path):
    """The example of the README is scored; the command imports neither geonh nor JAX."""
    example = re.search(r"```json\n(.*?)```", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.S)[1]
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(example)
    bad.write_text("{")
    code = "import runpy, sys; sys.argv = sys.argv[1:]\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
    code += "finally: assert not {'geonh', 'jax', 'sympy'} & set(sys.modules)"
    command = [sys.executable, "-c", code, str(FOLDER / "score.py"), str(good), str(bad)]
    environment = {"PYTHONPATH": str(FOLDER), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 1
    assert done.stdout.startswith("sleigh: my code 1.0, RK4, dt = 0.01: error")
    assert "bad.json is not JSON" in done.stderr
    assert "Traceback" not in done.stderr

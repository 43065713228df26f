"""Scores of submissions: error, invariants, constraints and work, in NumPy alone.

``python score.py SUBMISSION.json …`` prints one line for each. The format of a submission is in README.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from physics import JUDGES

PROBLEMS = Path(__file__).parent / "problems"
WORK = ("seconds", "steps", "evaluations")


class Problem(NamedTuple):
    """Parameters, start, times and reference of a problem; the arrays are by the names of its quantities."""

    name: str
    parameters: dict[str, Any]
    start: dict[str, np.ndarray]
    times: np.ndarray
    events: dict[str, float]
    reference: dict[str, np.ndarray]
    accuracy: float


class Score(NamedTuple):
    """Score of a submission.

    Attributes
    ----------
    error : dict of str to float
        Greatest error of each quantity and event, relative to the greatest size of its reference.
    invariants : dict of str to float
        Greatest deviation of each invariant from that of the reference, relative to the latter's greatest size.
    constraint : float
        Greatest residual of the constraints, in SI units.
    work : dict of str to float
        As submitted.
    accuracy : float
        Accuracy of the reference: errors below it are not told apart.
    """

    error: dict[str, float]
    invariants: dict[str, float]
    constraint: float
    work: dict[str, float]
    accuracy: float


def problem_names() -> list[str]:
    """Names of all problems."""
    return sorted(path.stem for path in PROBLEMS.glob("*.json"))


def read_problem(name: str) -> Problem:
    """Read a problem.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if name not in problem_names():
        raise ValueError(f"problem must be one of {', '.join(problem_names())}, got {name!r}")
    data = json.loads((PROBLEMS / f"{name}.json").read_text(encoding="utf-8"))
    start = {key: np.array(value, float) for key, value in data["start"].items()}
    reference = {key: np.array(value, float) for key, value in data["reference"].items()}
    times = np.array(data["times"], float)
    return Problem(name, data["parameters"], start, times, data["events"], reference, data["accuracy"])


def score(submission: Any) -> Score:
    """Score a submission as read from its file.

    Raises
    ------
    ValueError
        If it has not the format of README.md; the message says where.
    """
    problem = _checked(submission)
    values = {name: np.array(submission["values"][name], float) for name in problem.start}
    error = {}
    for name, expected in problem.reference.items():
        size = max(np.abs(expected).max(), np.abs(problem.start[name]).max())
        error[name] = float(np.abs(values[name] - expected).max() / size)
    for name, expected in problem.events.items():
        error[name] = abs(submission["events"][name] - expected) / abs(expected)
    judge = JUDGES[problem.name]
    invariants: dict[str, list] = {}
    constraint = 0.0
    reference = [judge(problem.parameters, problem.start)]
    for k in range(len(problem.times)):
        got = judge(problem.parameters, {name: value[k] for name, value in values.items()})
        reference.append(judge(problem.parameters, {name: value[k] for name, value in problem.reference.items()}))
        constraint = max(constraint, *np.abs(got.residuals), 0.0)
        for name, value in got.invariants.items():
            invariants.setdefault(name, []).append(abs(value - reference[-1].invariants[name]))
    sizes = {name: max(abs(r.invariants[name]) for r in reference) for name in invariants}
    deviations = {name: float(max(found) / sizes[name]) for name, found in invariants.items()}
    return Score(error, deviations, float(constraint), dict(submission["work"]), problem.accuracy)


def _checked(submission: Any) -> Problem:
    """Return the problem of a submission, whose format is checked."""
    if not isinstance(submission, dict):
        raise ValueError(f"a submission must be a JSON object, got {type(submission).__name__}")
    wanted = ("problem", "code", "method", "work", "times", "values")
    if missing := [key for key in wanted if key not in submission]:
        raise ValueError(f"a submission must have {', '.join(wanted)}; missing: {', '.join(missing)}")
    if surplus := [key for key in submission if key not in (*wanted, "events")]:
        raise ValueError(f"a submission has {', '.join(wanted)}, events, and nothing else, got {', '.join(surplus)}")
    for key in ("problem", "code", "method"):
        if not isinstance(submission[key], str) or not submission[key]:
            raise ValueError(f"{key} must be text, got {submission[key]!r}")
    problem = read_problem(submission["problem"])
    _check_work(submission["work"])
    times = _numbers(submission["times"], "times", problem.times.shape)
    if np.abs(times - problem.times).max() > 1e-12 * problem.times[-1]:
        raise ValueError(f"times must be those of {problem.name}, {problem.times.tolist()}, got {times.tolist()}")
    _check_names(submission["values"], problem.start, "values")
    for name, start in problem.start.items():
        _numbers(submission["values"][name], f"values.{name}", (len(times), len(start)))
    if problem.events or "events" in submission:
        _check_names(submission.get("events"), problem.events, "events")
        for name in problem.events:
            _numbers(submission["events"][name], f"events.{name}", ())
    return problem


def _check_work(work: Any) -> None:
    if not isinstance(work, dict) or not work or not set(work) <= set(WORK):
        raise ValueError(f"work must have one or more of {', '.join(WORK)} and nothing else, got {work!r}")
    for name, value in work.items():
        if _numbers(value, f"work.{name}", ()) <= 0:
            raise ValueError(f"work.{name} must be positive, got {value}")
        if name != "seconds" and value % 1:
            raise ValueError(f"work.{name} must be an integer, got {value}")


def _check_names(given: Any, wanted: dict, where: str) -> None:
    if not isinstance(given, dict) or set(given) != set(wanted):
        got = ", ".join(given) if isinstance(given, dict) else repr(given)
        raise ValueError(f"{where} must have {', '.join(wanted) or 'no entry'} and nothing else, got {got}")


def _numbers(given: Any, where: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return finite numbers of that shape; true and false, texts and null are no numbers."""
    try:
        found = np.array(given)
    except ValueError:
        raise ValueError(f"{where} must have shape {list(shape)}, got rows of unequal length") from None
    if found.dtype.kind not in "iuf" or any(isinstance(x, bool) for x in np.array(given, object).flat):
        raise ValueError(f"{where} must be numbers of shape {list(shape)}, got {str(given)[:60]}")
    if found.shape != shape:
        raise ValueError(f"{where} must have shape {list(shape)}, got {list(found.shape)}")
    if not np.all(np.isfinite(found)):
        raise ValueError(f"{where} must be finite, got {str(given)[:60]}")
    return found


def read_submission(path: str | Path) -> Any:
    """Read a submission's file.

    Raises
    ------
    ValueError
        If it is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def line(submission: dict, result: Score) -> str:
    """One line of the table."""
    worst = max(result.error.values())
    error = f"{worst:.1e}" if worst > result.accuracy else f"≤ {result.accuracy:.0e}"
    kept = ", ".join(f"{name} {value:.1e}" for name, value in result.invariants.items())
    work = ", ".join(f"{value:.4g} {name}" for name, value in result.work.items())
    head = f"{submission['problem']}: {submission['code']}, {submission['method']}"
    return f"{head}: error {error}; {kept}; constraint {result.constraint:.1e}; {work}"


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: python score.py SUBMISSION.json …")
    faulty = False
    for path in sys.argv[1:]:
        try:
            submitted = read_submission(path)
            print(line(submitted, score(submitted)))
        except (OSError, ValueError) as problem:
            faulty = True
            print(f"{path}: {problem}", file=sys.stderr)
    sys.exit(faulty)

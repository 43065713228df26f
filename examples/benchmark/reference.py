"""Reference values of the problems by two derivations, and the tables of the pages.

``python reference.py PROBLEM …`` solves the problems, all when none is named, by the adapter of SymPy and SciPy at a
tight tolerance and by that of geonh at half of its step, and writes the values of the first with the agreement of both;
``python reference.py --pages`` renews the tables alone. Parameters, start and times of the JSON are the definition.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from score import PROBLEMS, Problem, problem_names

LEAST = 1e-12
"""Least accuracy stated: rounding errors differ from machine to machine."""

MARK = "<!-- What follows is written from the JSON file by reference.py. -->\n"


def defined(data: dict) -> Problem:
    """Problem without its reference."""
    start = {name: np.array(value, float) for name, value in data["start"].items()}
    return Problem(data["name"], data["parameters"], start, np.array(data["times"]), data["events"], {}, 0.0)


def renewed(data: dict, first: dict, second: dict) -> dict:
    """Definition with the values of the first submission, rounded below the agreement of both."""
    agreement, sizes = {}, {}
    for name, start in data["start"].items():
        a, b = np.array(first["values"][name]), np.array(second["values"][name])
        sizes[name] = max(np.abs(a).max(), np.abs(start).max())
        agreement[name] = float(np.abs(a - b).max() / sizes[name])
    for name, value in first.get("events", {}).items():
        agreement[name] = abs(value - second["events"][name]) / abs(value)
    accuracy = 10.0 ** np.ceil(np.log10(max(LEAST, *agreement.values())))
    reference = {}
    for name, size in sizes.items():
        digits = int(np.ceil(-np.log10(accuracy * size))) + 2
        reference[name] = (np.round(first["values"][name], digits) + 0.0).tolist()
    return {
        **{key: data[key] for key in ("name", "parameters", "start", "times")},
        "events": first.get("events", {}),
        "reference": reference,
        "agreement": {name: float(f"{value:.1e}") for name, value in agreement.items()},
        "accuracy": float(f"{accuracy:.0e}"),
    }


def text(data: dict) -> str:
    """JSON with one line for each parameter, quantity and row."""
    lines = []
    for key, value in data.items():
        if isinstance(value, dict) and value:
            inner = []
            for name, item in value.items():
                rows = item if isinstance(item, list) and item and isinstance(item[0], list) else None
                body = json.dumps(item) if rows is None else _rows(rows)
                inner.append(f"    {json.dumps(name)}: {body}")
            lines.append(f"  {json.dumps(key)}: {{\n" + ",\n".join(inner) + "\n  }")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(rows: list) -> str:
    return "[\n" + ",\n".join(f"      {json.dumps(row)}" for row in rows) + "\n    ]"


def tables(data: dict) -> str:
    """Parameters, start, times and reference as Markdown."""
    lines = ["## Numbers", "", "| parameter | value |", "|---|---|"]
    lines += [f"| `{name}` | {json.dumps(value)} |" for name, value in data["parameters"].items()]
    lines += ["", "| start | value |", "|---|---|"]
    lines += [f"| `{name}` | {json.dumps(value)} |" for name, value in data["start"].items()]
    lines += ["", f"Times asked: {', '.join(f'{t:g}' for t in data['times'])} s.", "", "## Reference", ""]
    size = f"{data['accuracy']:.0e}"
    lines += [f"Right to {size} of the greatest size of each quantity; all times are in the JSON file.", ""]
    lines += [f"| quantity | at {data['times'][-1]:g} s | agreement of both derivations |", "|---|---|---|"]
    for name, value in data["reference"].items():
        lines.append(f"| `{name}` | {json.dumps(value[-1])} | {data['agreement'][name]:.1e} |")
    for name, value in data["events"].items():
        lines.append(f"| `{name}`, s | {value!r} | {data['agreement'][name]:.1e} |")
    return "\n".join(lines) + "\n"


def page(name: str) -> str:
    """Page of a problem: its text as it stands, and the tables anew."""
    written = (PROBLEMS / f"{name}.md").read_text(encoding="utf-8")
    if MARK not in written:
        raise ValueError(f"{name}.md must have the line {MARK.strip()!r}, below which the tables are written")
    data = json.loads((PROBLEMS / f"{name}.json").read_text(encoding="utf-8"))
    return written.split(MARK)[0] + MARK + "\n" + tables(data)


def _solve(name: str) -> None:
    import with_geonh
    import with_sympy

    path = PROBLEMS / f"{name}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    problem = defined(data)
    first = with_sympy.run(problem, with_sympy.TIGHT)
    second = with_geonh.run(problem, "gauss6", 2 * with_geonh.CASES[name](problem).steps)
    data = renewed(data, first, second)
    path.write_text(text(data), encoding="utf-8")
    print(name, data["accuracy"], data["agreement"])


if __name__ == "__main__":
    if sys.argv[1:] != ["--pages"]:
        for name in sys.argv[1:] or problem_names():
            _solve(name)
    for name in problem_names():
        Path(PROBLEMS / f"{name}.md").write_text(page(name), encoding="utf-8")

"""Write the durations of the quick tests to ``durations.json``: of each directory, and of the slowest tests.

``python tests/durations.py`` runs them in two processes, as CI does; arguments go to pytest, as in ``python
tests/durations.py tests/groups``, which then prints the result instead. Fixtures count towards the first test that uses
them. CPU seconds include subprocesses, and vary less than wall-clock seconds where others share the machine: the load
is that before the tests.
"""

import datetime
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOWEST = 60
STARTED = pytest.StashKey[tuple[float, float]]()


def now():
    return time.perf_counter(), sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[STARTED] = now()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    try:
        return (yield)
    finally:
        item.user_properties.append(("seconds", [b - a for a, b in zip(item.stash[STARTED], now(), strict=True)]))


class Reports:
    """Plugin that collects the durations measured by the workers."""

    def __init__(self):
        self.of_tests = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.of_tests[report.nodeid] = dict(report.user_properties)["seconds"]


def summary(of_tests, seconds, load):
    directories = defaultdict(lambda: [0, 0.0, 0.0])
    for name, taken in of_tests.items():
        place = directories["/".join(name.split("::")[0].split("/")[:2])]
        place[:] = [total + one for total, one in zip(place, (1, *taken), strict=True)]
    slowest = sorted(of_tests.items(), key=lambda test: -test[1][1])[:SLOWEST]
    return {
        "machine": f"{os.cpu_count()} cores",
        "load": round(load, 1),
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds, 1),
        "columns": ["tests", "wall-clock seconds", "CPU seconds"],
        "total": rounded([sum(column) for column in zip(*directories.values(), strict=True)]),
        "directories": {name: rounded(directories[name]) for name in sorted(directories)},
        "slowest": {name: rounded(taken) for name, taken in slowest},
    }


def rounded(numbers):
    return [number if isinstance(number, int) else round(number, 1) for number in numbers]


def main(arguments):
    reports, began, load = Reports(), time.perf_counter(), os.getloadavg()[0]
    code = pytest.main(["-p", "durations", *(arguments or ["-n", "2"])], plugins=[reports])
    result = summary(reports.of_tests, time.perf_counter() - began, load)
    result = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if arguments:
        print(result)
    else:
        (HERE / "durations.json").write_text(result, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))  # of the workers too
    sys.exit(main(sys.argv[1:]))

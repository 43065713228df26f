"""Write what the quick tests take to ``durations.json``: seconds of each directory, and of the slowest tests.

``python tests/durations.py`` runs them in one process; arguments go to pytest, as in ``python tests/durations.py
tests/groups``, which then prints and writes nothing. Seconds of the processors are those of the process and of the
processes that it started, and vary less than seconds of the clock where others share the machine.
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


class Durations:
    """A plugin of pytest that measures each test, with the fixtures that it is the first to ask for."""

    def __init__(self):
        self.of_tests = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        clock, processors = time.perf_counter(), sum(os.times()[:4])
        result = yield
        taken = time.perf_counter() - clock, sum(os.times()[:4]) - processors
        self.of_tests[item.nodeid] = taken
        if taken[0] > 2:
            print(f"\n{taken[0]:7.1f} s of the clock, {taken[1]:7.1f} s of the processors: {item.nodeid}", flush=True)
        return result

    def summary(self):
        directories = defaultdict(lambda: [0, 0.0, 0.0])
        for name, (clock, processors) in self.of_tests.items():
            place = name.split("::")[0].split("/")
            of_place = directories["/".join(place[:2])]
            of_place[0] += 1
            of_place[1] += clock
            of_place[2] += processors
        slowest = sorted(self.of_tests.items(), key=lambda test: -test[1][1])[:SLOWEST]
        totals = [sum(column) for column in zip(*directories.values(), strict=True)]
        return {
            "machine": "2 cores",
            "date": datetime.date.today().isoformat(),
            "columns": ["tests", "seconds of the clock", "seconds of the processors"],
            "total": rounded(totals),
            "directories": {name: rounded(directories[name]) for name in sorted(directories)},
            "slowest": {name: rounded(taken) for name, taken in slowest},
        }


def rounded(numbers):
    return [number if isinstance(number, int) else round(number, 1) for number in numbers]


def main(arguments):
    durations = Durations()
    code = pytest.main(["-p", "no:xdist", "-s", *arguments], plugins=[durations])
    summary = durations.summary()
    if arguments:
        print(json.dumps(summary, indent=1))
    else:
        (HERE / "durations.json").write_text(json.dumps(summary, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

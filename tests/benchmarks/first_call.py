"""Seconds of a first call in this process, printed as JSON: ``first_call.py SYSTEM METHOD [STEPS]``.

SYSTEM is of the catalogue, or the bicycle of the tests; with STEPS also the ns of a step, from runs of that length.
"""

import json
import sys
import time
import warnings
from pathlib import Path

BEGIN = time.perf_counter()
import geonh as gn  # noqa: E402  (timed)

IMPORTED = time.perf_counter()
LONG = 4.0
"""Seconds after which a program is compiled well."""


def seconds(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def main(name, method, *steps):
    if name == "bicycle":
        sys.path.insert(0, str(Path(__file__).parents[1] / "systems"))
        import bicycle

        system = bicycle.bicycle()
        (g0, xi0), dt, controls = bicycle.start(system), 0.002, None
    else:
        entry = gn.systems.catalogue[name]
        system = entry.system()
        start = entry.start(system)
        g0, xi0, dt, controls = start.g0, start.xi0, entry.dt / 10, entry.controls
    made = gn.methods[method].make()

    def solve(n):
        return gn.solve(system, made, g0=g0, xi0=xi0, dt=dt, n_steps=n, controls=controls)

    ready = time.perf_counter()
    try:
        first = solve(50)
    except (ValueError, TypeError) as error:
        raise SystemExit(f"refused: {error}") from error
    called = time.perf_counter()
    first.energy, first.constraint_residual  # noqa: B018  (computed when asked for)
    seen = time.perf_counter()
    result = {
        "import": IMPORTED - BEGIN,
        "system": ready - IMPORTED,
        "first": called - ready,
        "observables": seen - called,
    }
    if steps:
        n, begin = int(steps[0]), time.perf_counter()
        while time.perf_counter() - begin < LONG:
            solve(n)
        rounds = [(seconds(solve, n), seconds(solve, 50)) for _ in range(5)]
        result["step"] = (min(long for long, _ in rounds) - min(short for _, short in rounds)) / (n - 50) * 1e9
    print(json.dumps(result))


warnings.simplefilter("ignore")
main(*sys.argv[1:])

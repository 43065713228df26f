"""What the hunts share: seeds and seconds on the command line, a line for each finding, and the count."""

import argparse
import collections
import functools
import sys
import time
import traceback
from collections.abc import Callable, Iterable


def hunt(case: Callable[..., Iterable[str]], about: str | None, **options: int) -> None:
    """Try the cases of seeds, as long as there is time.

    Parameters
    ----------
    case : callable
        Gives the findings of a seed as lines; those that begin with ``~`` are counted only.
    about : str
        Shown by ``--help``.
    **options : int
        Further options of the command line, with their defaults, passed to ``case``.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 100), metavar=("FIRST", "END"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--verbose", action="store_true", help="a line for each seed, with its time")
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    case = functools.partial(case, **{name: getattr(given, name) for name in options})
    begin, cases, findings, others = time.monotonic(), 0, 0, collections.Counter()
    for seed in range(*given.seeds):
        if time.monotonic() - begin > given.seconds:
            break
        at = time.monotonic()
        for line in guarded(case, seed):
            if line.startswith("~"):
                others[line[1:]] += 1
                continue
            findings += 1
            print(f"seed {seed}: {line}", flush=True)
        cases += 1
        if given.verbose:
            print(f"  ({seed}: {time.monotonic() - at:.1f} s)", file=sys.stderr, flush=True)
    for words, number in sorted(others.items()):
        print(f"{number:6} {words}")
    print(f"{cases} cases, {findings} findings, {time.monotonic() - begin:.0f} s", flush=True)


def guarded(case: Callable[[int], Iterable[str]], seed: int) -> Iterable[str]:
    """The findings of a seed, and an error of the hunt itself as one."""
    try:
        yield from case(seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        yield f"the hunt fails: {type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"

"""The choice among solutions from one guess after another: how many are enough, and which is the best."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from geonh.control.guess import TRIES
from geonh.control.interior_point import Outcome
from geonh.control.resolution import RESOLVED, steps_error
from geonh.control.transcription import Transcription

SOLUTIONS = 5
"""Number of solutions that are compared where nothing is said."""
AGREEMENT = 3
"""Number of solutions of the least cost that are enough."""
SAME = 1e-4
"""Relative difference of costs that are taken to be equal."""


class Found(NamedTuple):
    """A solution, and the error of its steps."""

    outcome: Outcome
    error: float


class Search(NamedTuple):
    """The best solution, the number of guesses that were tried, and the costs of all solutions it was chosen from."""

    best: Found
    tried: int
    costs: tuple[float, ...]


def best_of(problem: Transcription, outcomes: Iterator[Outcome], wanted: int | None, *, is_given: bool) -> Search:
    """Cheapest of a number of solutions that the steps resolve, or else of those that they do not, with a warning.

    Parameters
    ----------
    problem : Transcription
    outcomes : iterator of Outcome
        From one guess after another.
    wanted : int or None
        Number of solutions; by default those that are enough to trust the best.
    is_given : bool
        True if the first guess is the user's: its solution is enough by default.

    Raises
    ------
    RuntimeError
        If no guess leads to a solution.
    """
    name = problem.title
    found: list[Found] = []
    last, tried = None, 0
    for tried, last in enumerate(islice(outcomes, (wanted or 0) + TRIES), 1):  # noqa: B007
        if last.solved:
            found.append(Found(last, steps_error(problem, last.iterate.motion)))
        resolved = [one for one in found if one.error <= RESOLVED]
        if last.is_unbounded or (found if is_given and wanted is None else _suffice(resolved, wanted)):
            break
    if not found:
        assert last is not None
        raise RuntimeError(f"no optimal control of {name} found: {last.reason}; {tried} guesses were tried")
    chosen = sorted(resolved or found, key=lambda one: one.outcome.cost)
    best = chosen[0]
    if best.error > RESOLVED:
        warnings.warn(
            f"the motion of {name} may exist only by the errors of its steps: from steps of half the length it differs "
            f"by {best.error:.2g} of its largest velocity; take more steps (n_steps={problem.n_steps}), or bounds=",
            UserWarning,
            stacklevel=4,
        )
    return Search(best, tried, tuple(one.outcome.cost for one in chosen))


def _suffice(found: list[Found], wanted: int | None) -> bool:
    """True if there are as many solutions as are wanted, or where that is left open, enough to trust the best."""
    costs = np.array([one.outcome.cost for one in found])
    if wanted is not None:
        return len(costs) >= wanted
    same = costs - costs.min(initial=np.inf) <= SAME * np.abs(costs)
    return len(costs) >= SOLUTIONS or int(same.sum()) >= AGREEMENT

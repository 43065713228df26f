r"""Estimate of the error that the steps of an optimal motion make: of solutions that exist only by too long steps.

An optimum uses whatever lowers its cost, the errors of its steps included: where a step of a strong control breaks a
conservation law by its error, a discrete motion may reach what no motion reaches. So each step is compared with two
steps of half its length, from the same node under the same controls, linear between the nodes,

    η_k = log(g_{k+1}⁻¹g'),   δξ_k = ξ' − ξ_{k+1},   error = Σ_k max(|η_k|/(VT), |δξ_k|/V),   V = max_k |ξ_k|,

in the maximum norm. At rest all of these are rounding: V is at least a way of ``AT_REST``, relative to 1 or the largest
entry of g, in the time T. The sum does not grow with the instability of a motion, as the end of a run under its
controls would.

Source: step doubling, Hairer, Nørsett, Wanner, *Solving Ordinary Differential Equations I* (1993), §II.4.
"""

from __future__ import annotations

import jax
import numpy as np

from geonh.control.interval import Interval, Node, relative
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.engine import mapped

RESOLVED = 0.05
"""Error above which a motion is taken for an artefact of its steps."""

HALF_STEP_ITERATIONS = 6
"""Iterations of Newton's method for a step of half the length."""

AT_REST = 1e-9
"""Way of a motion, relative to 1 or the largest entry of g, below which it is at rest."""


def steps_error(problem: Transcription, motion: DiscreteMotion) -> float:
    """Sum over the steps of their errors, relative to the largest velocity V and the way VT; infinite where steps of
    half the length fail."""
    size = max(1.0, *(float(np.abs(a).max(initial=0.0)) for a in jax.tree.leaves(motion.g)))
    speed = max(float(np.abs(motion.xi).max()), AT_REST * size / motion.span)
    last, end = problem.data(motion).intervals.end, halved(problem, motion)
    of_points = np.abs(mapped(relative, problem.system.group, (last.g, end.g))).max(axis=1)
    of_velocities = np.abs(end.xi - last.xi).max(axis=1)
    error = float(np.maximum(of_points / motion.span, of_velocities).sum()) / speed
    return error if np.isfinite(error) else np.inf


def halved(problem: Transcription, motion: DiscreteMotion) -> Node:
    """Ends of all intervals by two steps of half the length, each from the first node, under the same controls."""
    data = problem.data(motion).intervals
    begin, end, half, held = data.begin, data.end, 2 * data.count, problem.ends_phase[:, None]
    end = end._replace(u=end.u + held * (begin.u - end.u))
    middle = problem.between((begin.g, end.g, np.full(problem.n_steps, 0.5)))
    guess = Node(middle, (begin.xi + end.xi) / 2, (begin.u + end.u) / 2)
    first = _stepped(problem, data._replace(end=guess, count=half, k=2 * data.k), joined=False)
    return _stepped(problem, data._replace(begin=first, count=half, k=2 * data.k + 1))


def _stepped(problem: Transcription, data: Interval, *, joined: bool = True) -> Node:
    """Ends of steps from the first nodes of intervals, by Newton's method from the second ones."""
    m, n_states = problem.width, 2 * problem.system.group.dim
    for _ in range(HALF_STEP_ITERATIONS):
        found = problem.unweighted(data, joined=joined)
        step = np.zeros((problem.n_steps, m))
        slope, off = found.equations[:, :n_states, m : m + n_states], found.values.equations[:, :n_states]
        try:
            step[:, :n_states] = -np.linalg.solve(slope, off[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            step[:] = np.nan
        data = data._replace(end=problem.nodes_moved(data.end, step))
        if not np.abs(step).max() > 1e-10:
            break
    return data.end

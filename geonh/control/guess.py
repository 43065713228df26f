"""Guesses of a motion: given ones, and those that are tried where none is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64, has_tracers
from geonh.arguments.validators import as_float64, shortly
from geonh.control.interval import relative
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.engine import computed, mapped
from geonh.groups.base import LieGroup, Point, as_points
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.results.trajectory import Trajectory
from geonh.runs.solve import solve

TRIES = 12
"""Maximum number of guesses where none is given."""
AMPLITUDES, WEAKER = (16.0, 4.0, 64.0), 8
"""Amplitudes of waves of the controls in turn, in units of those that lead about to the end; and how often they are
halved where steps fail."""
WAVE = 0.6
"""Standard deviation of the slow waves of perturbed guesses, in radians or metres."""


def interpolated_motion(
    problem: Transcription, motion: DiscreteMotion, spans: np.ndarray, places: np.ndarray | None = None
) -> DiscreteMotion:
    """Motion with the nodes of the problem, from one of any number of steps, at its ``places`` or else equally spaced
    ones, with the given start and end.
    """
    steering, group = problem.steering, problem.system.group
    parts = problem.places(spans)
    at = (len(motion.u) - 1.0) * parts if places is None else np.interp(parts, places, np.arange(len(places)))
    made = resampled(problem, motion, at)
    start = steering.start
    if steering.start_is_given is None:
        made.xi[0] = steering.xi_start
    else:
        first = jax.tree.map(lambda a: a[0], made.g)
        start = computed(_with_given, group, (start, first, steering.start_is_given.astype(float)))
    for leaf, first in zip(jax.tree.leaves(made.g), jax.tree.leaves(start), strict=True):
        leaf[0] = first
    theta = motion.theta if motion.theta.shape == steering.theta.shape else steering.theta
    return made._replace(spans=spans, t0=steering.t0, theta=theta)


def _with_given(group: LieGroup, points: tuple[Point, Point, Array]) -> Point:
    """Point at the place of a second one, but for coordinates that are given, those of the first."""
    start, other, given = points
    return group.compose(start, group.exp((1 - given) * relative(group, (start, other))))


def resampled(problem: Transcription, motion: DiscreteMotion, places: np.ndarray) -> DiscreteMotion:
    """Motion at places among its nodes, by geodesics."""
    i = np.minimum(places.astype(int), len(motion.u) - 2)
    s = places - i
    low, high = (jax.tree.map(lambda a, at=at: np.asarray(a)[at], motion.g) for at in (i, i + 1))
    g = problem.between((low, high, s))
    xi, u = ((1 - s)[:, None] * a[i] + s[:, None] * a[i + 1] for a in (motion.xi, motion.u))
    return motion._replace(g=g, xi=xi, u=u)


def given_motion(problem: Transcription, guess: Any, spans: np.ndarray) -> DiscreteMotion:
    """Motion of a user's guess: a ``Trajectory``, a function of the time, or (points, controls); ValueError or
    TypeError for a guess that does not fit.
    """
    steering, system = problem.steering, problem.system
    group, n_u = system.group, steering.n_controls
    if isinstance(guess, Trajectory):
        nodes = jax.tree.map(np.asarray, guess.g)
        shapes = tuple(a.shape[1:] for a in jax.tree.leaves(nodes))
        if shapes != group.point_shapes:
            raise ValueError(
                f"guess must be a trajectory on {group}, with points of {group.point_shapes}, got {shapes}"
            )
        still = np.zeros((len(guess.xi), n_u))
        return interpolated_motion(problem, DiscreteMotion(nodes, np.asarray(guess.xi), still, spans, 0.0), spans)
    if callable(guess):
        times = problem.times(spans)
        try:
            with float64():
                pairs = [guess(float(t)) for t in times]
        except Exception as error:
            raise TypeError(f"guess, a function of t, raised {type(error).__name__}: {error}") from error
        has_tracers(guess=pairs)  # refuses a list that contains itself
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise TypeError(f"guess must return (g, u), got {shortly(pairs[0])}")
        points, controls = zip(*((system.point(g, name="guess"), u) for g, u in pairs), strict=True)
        guess = jax.tree.map(lambda *a: np.stack([np.asarray(b, float) for b in a]), *points), np.stack(controls)
    if not isinstance(guess, list | tuple) or len(guess) != 2:
        raise TypeError(
            "guess must be an OptimalControl, a Trajectory, a function of t, or (points, controls), got "
            f"{shortly(guess)}"
        )
    points, controls = as_points(group, guess[0], "guess"), as_float64(guess[1], "guess")
    count = len(controls) if controls.ndim else 0
    leaves = zip(jax.tree.leaves(points), group.point_shapes, strict=True)
    if count < 2 or controls.shape != (count, n_u) or any(a.shape != (count, *s) for a, s in leaves):
        raise ValueError(
            f"guess must be (points, controls), as many points as controls of shape [·, {n_u}], at least two; got "
            f"shapes {', '.join(str(list(a.shape)) for a in (*jax.tree.leaves(points), controls))}"
        )
    low, high = (jax.tree.map(lambda a, i=i: a[i], points) for i in (slice(0, -1), slice(1, None)))
    is_whole = count == problem.n_steps + 1
    places = problem.places(spans) if is_whole else np.linspace(0.0, 1.0, count)
    speeds = mapped(relative, group, (low, high)) / (np.diff(places) * np.sum(spans))[:, None]
    xi = np.concatenate([speeds[:1], (speeds[:-1] + speeds[1:]) / 2, speeds[-1:]])
    return interpolated_motion(problem, DiscreteMotion(points, xi, controls, spans, 0.0), spans, places)


def motions(problem: Transcription) -> Iterator[DiscreteMotion]:
    """Endless guesses: the path along a one-parameter subgroup, at rest; and slow waves about it, of a periodic motion
    of its period and half of it.
    """
    steering, K, m = problem.steering, problem.n_steps, problem.width
    start, end, n = steering.start, steering.start if steering.end is None else steering.end, problem.system.group.dim
    ends = jax.tree.map(lambda a, b: np.stack([a, b]), start, end)
    spans, nothing = steering.spans, np.zeros((2, steering.n_controls))
    line = interpolated_motion(
        problem, DiscreteMotion(ends, np.tile(steering.xi_start, (2, 1)), nothing, spans, 0.0), spans
    )
    yield line
    phase = np.pi * np.linspace(0, 1, K + 1)[:, None]
    waves = np.sin(phase * [1, 2, 3]) / [1, 2, 3]
    if steering.start_is_given is not None:
        waves = np.concatenate([np.sin(2 * phase), 1 - np.cos(2 * phase), np.sin(4 * phase) / 2], axis=1)
    random, step = np.random.default_rng(0), np.zeros(problem.size)
    while True:
        nodes = step[: (K + 1) * m].reshape(K + 1, m)
        nodes[:, :n] = waves @ random.normal(scale=WAVE, size=(3, n))
        yield problem.moved(line, step)


def driven_motions(problem: Transcription) -> Iterator[DiscreteMotion]:
    """Guesses of a motion in one mode from a given start: under slow waves of the controls. They find motions where few
    controls move many coordinates, as one torque turns a body.
    """
    line, steering, K = next(motions(problem)), problem.steering, problem.n_steps
    first, last = (jax.tree.map(lambda a, i=i: a[i], line.g) for i in (0, -1))
    way = 1 + np.abs(computed(relative, problem.system.group, (first, last))).max()
    effects = K / 4 * problem.effects(line)  # of a unit on the velocities, in a quarter of the time
    units = np.where(effects > 0, way / steering.span / np.where(effects > 0, effects, 1.0), 0.0)
    waves = np.sin(np.pi * np.linspace(0, 1, K + 1)[:, None] * [1, 2, 3]) / [1, 2, 3]
    random = np.random.default_rng(0)
    for amplitude in TRIES * AMPLITUDES:
        controls = amplitude * units * (waves @ random.normal(size=(3, steering.n_controls)))
        if (motion := _driven(problem, controls)) is not None:
            yield motion


def _driven(problem: Transcription, controls: np.ndarray) -> DiscreteMotion | None:
    """Motion from the start under controls at the nodes, weaker ones if steps fail; None if all do."""
    steering, K, spans = problem.steering, problem.n_steps, problem.steering.spans
    times = steering.t0 + steering.span / K * np.arange(K + 1)
    for _ in range(WEAKER):
        at_nodes = isinstance(problem.method, SymmetricProjection)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a guess
            run = solve(
                problem.system,
                problem.method,
                g0=steering.start,
                xi0=steering.xi_start,
                t0=steering.t0,
                dt=steering.span / K,
                n_steps=K,
                controls=controls if at_nodes else jax.tree_util.Partial(_at_time, times, controls),
                throw=False,
            )
        if run.success:
            return interpolated_motion(problem, DiscreteMotion(run.g, run.xi, controls, spans, 0.0), spans)
        controls = controls / 2
    return None


def _at_time(times: Array, controls: Array, t: Array) -> Array:
    return interpolated(t, times, controls)


def interpolated(t: Any, knots: Any, u: Any) -> Any:
    """u(t), linear between equally spaced knots, constant beyond them."""
    place = jnp.clip((t - knots[0]) / (knots[-1] - knots[0]) * (len(knots) - 1), 0.0, len(knots) - 1.0)
    i = jnp.minimum(jnp.floor(place).astype(int), len(knots) - 2)
    u = jnp.asarray(u)
    return u[i] + (place - i) * (u[i + 1] - u[i])

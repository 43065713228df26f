"""
Constraints learned from tracks
===============================

Nobody tells the program how a skate or a snakeboard rolls: it sees sixteen noisy tracks of each. The forms are unknown
functions of an angle, here trigonometric polynomials. Velocities, as differences of the tracks, annul the right form: the
least singular vector of the products of features and velocities is a first guess. ``estimate`` then fits the polynomials
to all positions, through all steps, and says how certain they are. The learned systems are systems like all others; motions of
the skate that were held out are predicted for ten times as long as the tracks last.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.control import estimate
from geonh.groups import Translations

NOISE, STEP, NODES, TRACKS = 1e-3, 0.05, 40, 16
random = np.random.default_rng(0)


def features(angle, of=jnp):
    """1, cos, sin."""
    return of.stack([of.ones_like(angle), of.cos(angle), of.sin(angle)])


def tracks(system, points, velocities):
    """Noisy points of motions from several starts, shape=[tracks, nodes, ·], without the starts."""
    runs = gn.solve_ensemble(system, "gauss4", g0=points, xi0=velocities, dt=STEP, n_steps=NODES, save_every=1)
    seen = np.concatenate(runs.g if isinstance(runs.g, tuple) else [runs.g], axis=2)[:, 1:]
    return seen + NOISE * random.normal(size=seen.shape)


def annulled(angles, rates):
    """Coefficients of the row whose product with the rates is least, shape=[components, 3], and all singular values."""
    products = np.einsum("fk,kn->knf", features(angles, np), rates).reshape(len(rates), -1)
    _, singular, right = np.linalg.svd(products, full_matrices=False)
    return right[-1].reshape(rates.shape[1], 3), singular


# %%
# A skate
# -------
# Of the motion in (θ, x, y) the kinetic energy is known, and that one row with coefficients in 1, cos θ, sin θ vanishes.


def inertia(q, p):
    sine, cosine = 0.3 * jnp.sin(q[0]), 0.3 * jnp.cos(q[0])
    return jnp.stack([jnp.stack([1.29, -sine, cosine]), jnp.stack([-sine, 1.0, 0.0]), jnp.stack([cosine, 0.0, 1.0])])


def row(q, p):
    return (p["C"] @ features(q[0]))[None]


def skate(C):
    forms = gn.Distribution(row)
    return gn.System(Translations(3), metric=inertia, distribution=forms, parameters={"C": C}, name="skate")


TRUE = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def starts(number):
    headings, turns, speeds = random.uniform(-3, 3, number), random.normal(size=number), random.normal(size=number)
    zero = np.zeros(number)
    places = np.stack([headings, zero, zero], axis=1)
    return places, np.stack([turns, speeds * np.cos(headings), speeds * np.sin(headings)], axis=1)


def angle_between(C, heading):
    """Angle between the learned row and the true one, rad."""
    rows = [np.einsum("nf,fk->kn", c, features(heading, np)) for c in (C, TRUE)]
    learned, true = (r / np.linalg.norm(r, axis=1, keepdims=True) for r in rows)
    return np.linalg.norm(np.cross(learned, true), axis=1)


g0, xi0 = starts(TRACKS)
data = tracks(skate(TRUE), g0, xi0)
rates = (data[:, 2:] - data[:, :-2]) / (2 * STEP)
guess, singular = annulled(data[:, 1:-1, 0].ravel(), rates.reshape(-1, 3))
print("least singular values:", singular[-3:])
options = {"g0": g0, "xi0": xi0, "dt": STEP, "sigma": NOISE, "prior": 1.0}
fit = estimate(skate(guess), "C", data, np.arange(1, NODES + 1), lambda g, xi: g, **options)
headings = np.linspace(-np.pi, np.pi, 200)
before, after = (angle_between(C, headings) for C in (guess, fit.values["C"]))
print(f"angle to the true form: {before.max():.1e} rad at first, {after.max():.1e} after the fit")
assert after.max() < min(before.max(), 1e-3)


# %%
# A snakeboard
# ------------
# The rows are in the frame of the board, with coefficients in 1, cos φ, sin φ of the angle φ of the axles. A constant row comes out
# first: the board does not move sideways. The other one is between turning and going forward, and depends on φ.

board = gn.systems.snakeboard()


def rows(x, p):
    turn, forward = p["B"] @ features(x[0])
    return jnp.stack([jnp.concatenate([p["A"], jnp.zeros(2)]), jnp.stack([turn, forward, 0.0, 0.0, 0.0])])


def learned(A, B):
    known = {"metric": [1.5, 1.0, 1.0, 0.5, 0.5], "base": ["phi"]}
    forms = gn.Distribution(rows)
    return gn.System(board.group, **known, distribution=forms, parameters={"A": A, "B": B}, name="learned snakeboard")


def riding(number):
    """Starts with the axles turned, shape=[tracks, …]: wheels and rotor move on, and the board with them."""
    angles, rates = random.uniform(-1.2, 1.2, number), random.normal(size=(3, number))
    zero = np.zeros(number)
    forward = rates[0] * np.cos(angles)
    turning = -2 * rates[0] * np.sin(angles)
    poses = np.zeros((number, 3)), np.stack([zero, angles], axis=1)
    return poses, np.stack([turning, forward, zero, rates[1], 0.1 * rates[2]], axis=1)


poses, velocities = riding(TRACKS)
data = tracks(board, poses, velocities)
turned = (data[:, 2:, 0] - data[:, :-2, 0]) / (2 * STEP)
heading, angle = data[:, 1:-1, 0], data[:, 1:-1, 4]
moved = (data[:, 2:, 1:3] - data[:, :-2, 1:3]) / (2 * STEP)
forward = np.cos(heading) * moved[..., 0] + np.sin(heading) * moved[..., 1]
sideways = -np.sin(heading) * moved[..., 0] + np.cos(heading) * moved[..., 1]
rates = np.stack([turned, forward, sideways], axis=-1).reshape(-1, 3)
A = np.linalg.svd(rates, full_matrices=False)[2][-1]
B, singular = annulled(angle.ravel(), rates[:, :2])
print("constant row:", A, "least singular values of the other:", singular[-2:])
options = {"g0": poses, "xi0": velocities, "dt": STEP, "sigma": NOISE, "prior": 1.0}
at = np.arange(1, NODES + 1)
ride = estimate(learned(A, B), ["A", "B"], data, at, lambda g, xi: jnp.concatenate(g), **options)
turn, forward = ride.values["B"]
print("coefficients of ω and v in 1, cos φ, sin φ:", turn / forward[2], forward / forward[2])

# %%
# Held out
# --------
# New starts, projected onto the learned constraints; the skates run for 20 s, ten times as long as the tracks.


def held_out(truth, model, points, velocities, steps):
    """Distance between places of true and learned motions at all nodes, shape=[runs, nodes], and the places."""
    places = []
    for system in (truth, model):
        start = {"g0": points, "xi0": velocities, "project": True}
        runs = gn.solve_ensemble(system, "gauss4", **start, dt=STEP, n_steps=steps, save_every=1)
        g = runs.g[0] if isinstance(runs.g, tuple) else runs.g
        places.append(np.asarray(g)[..., 1:3])
    return np.linalg.norm(places[0] - places[1], axis=-1), places


fresh = starts(8)
distance, places = held_out(skate(TRUE), fit.system, *fresh, 400)
distance_first, _ = held_out(skate(TRUE), skate(guess), *fresh, 400)
distance_board, places_board = held_out(board, ride.system, *riding(8), 60)
size = np.abs(places[0]).max()
print(
    f"skates: {distance[:, -1].max():.1e} m of {size:.0f} m after 20 s; boards: {distance_board.max():.1e} m after 3 s"
)
assert distance[:, -1].max() < 5e-3 * size
assert distance_board.max() < 0.05

# %%
figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
shown = axes[0, 0]
shown.semilogy(np.degrees(headings), np.degrees(before), color="#999999", label="from differences of the tracks")
shown.semilogy(np.degrees(headings), np.degrees(after), color="#0072B2", label="from the fit")
shown.set(xlabel="heading of the skate (degrees)", ylabel="angle to the true constraint (degrees)")
shown = axes[0, 1]
for run, (true, learned_places) in enumerate(zip(*places, strict=True)):
    shown.plot(*true.T, color="#0072B2", label="held-out skates" if run == 0 else None)
    shown.plot(*learned_places.T, "--", color="#D55E00", label="predicted" if run == 0 else None)
shown.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
shown = axes[1, 0]
steer = np.linspace(-1.2, 1.2, 100)
ratio = -(forward @ features(steer, np)) / (turn @ features(steer, np))
shown.plot(np.degrees(steer), -np.tan(steer) / 0.5, color="#0072B2", label="true, −tan φ / r")
shown.plot(np.degrees(steer), ratio, "--", color="#D55E00", label="learned")
shown.set(xlabel="angle φ of the board's axles (degrees)", ylabel="turning per metre (rad/m)")
shown = axes[1, 1]
time = STEP * np.arange(401)
shown.semilogy(time[1:], distance_first[:, 1:].max(axis=0), color="#999999", label="skates, from differences")
shown.semilogy(time[1:], distance[:, 1:].max(axis=0), color="#0072B2", label="skates, from the fit")
shown.semilogy(time[1:61], distance_board[:, 1:].max(axis=0), color="#009E73", label="boards, from the fit")
shown.set(xlabel="t (s)", ylabel="greatest error of held-out places (m)")
for ax in axes.flat:
    ax.legend()

"""A call of every public name that is right: what the attack on all of them starts from."""

import inspect
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import sympy
from geomstats.geometry.special_orthogonal import SpecialOrthogonal
from sympy.physics import mechanics

import geonh as gn
from geonh.groups import SE2, SO3, Translations

SLEIGH = gn.systems.chaplygin_sleigh()
XI = [0.8, -0.5, 0.0]
RUN = gn.solve(SLEIGH, xi0=XI, dt=0.02, n_steps=6)
FREE = gn.System(Translations(2), metric=[1.0, 1.0], potential=lambda x, p: 0.5 * p["k"] * x @ x, parameters={"k": 1.0})
DRIVEN = gn.System(Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u: u)
BODY = gn.System(SO3(), metric=[1.0, 2.0, 3.0])
BALL = gn.rolling.rolling(gn.rolling.ball(0.5), np.diag([0.1, 0.1, 0.1]), 1.0)
ARM = gn.bodies.tree(
    [gn.bodies.Link("arm", 1.0, (0, 0, -0.5), (0.1, 0.1, 0.1), joint=gn.bodies.Joint("revolute", "q"))]
)
SECTION_OF_G = lambda g: jnp.array([0.0, 1.0, 0.0])  # noqa: E731
BOARD = gn.systems.snakeboard()
P = [0.8, -0.5, 0.0]
G = [0.0, 0.0, 0.0]
START = {"xi0": XI, "dt": 0.02}
LINE = gn.rolling.planar_body(1.0, 0.2, [gn.rolling.knife_edge()])
PART = gn.drawing.box(1.0, 1.0, 1.0)
SECTION = gn.diagnostics.poincare_section(RUN, lambda g, xi: g[0] - 0.01)
FINE = gn.diagnostics.convergence(SLEIGH, gn.GNI(), xi0=XI, span=0.2, steps=(2, 4))
MANY = gn.solve_ensemble(SLEIGH, "gni", xi0=[XI, XI], parameters={"a": [0.2, 0.3], "m": [1.0, 2.0]}, dt=0.02, n_steps=3)
SWEEP = gn.Sweep.of(SLEIGH, "gni", xi0=[XI, XI], dt=0.02, n_steps=3)
RHO = Translations(3)


class Made:
    """What is made when it is needed."""

    def __init__(self, make):
        self.make = make


def orbit():
    return gn.analysis.periodic_orbit(FREE, [1.0, 0.0], [0.0, 0.5], 6.28, method=gn.Gauss(2), n_steps=40)


def steered():
    return gn.control.optimal_control(DRIVEN, start=[0.0, 0.0], end=[1.0, 0.0], n_controls=2, span=1.0, n_steps=4)


def observe(g, xi):
    return g


def fresh(name):
    """A path where nothing is."""
    shutil.rmtree(name, ignore_errors=True)
    return name


def stored():
    if not Path("there.zarr").exists():
        SWEEP.run("there.zarr")
    return "there.zarr"


q, u, k = *mechanics.dynamicsymbols("q u"), sympy.Symbol("k")


def kane():
    frame, point = mechanics.ReferenceFrame("N"), mechanics.Point("P")
    point.set_vel(frame, u * frame.x)
    mass, load = mechanics.Particle("mass", point, 1), (point, -k * q * frame.x)
    model = mechanics.KanesMethod(frame, [q], [u], kd_eqs=[q.diff() - u], bodies=[mass], forcelist=[load])
    model.kanes_equations()
    return model


KANE = kane()
OSCILLATOR = gn.interop.from_sympy(KANE, parameters={k: 1.0})
THINGS = {
    "run": RUN,
    "system": SLEIGH,
    "section": SECTION,
    "many": MANY,
    "sweep": SWEEP,
    "part": PART,
    "support": gn.rolling.ball(1.0),
    "connection": gn.analysis.nonholonomic_connection(gn.systems.elroys_beanie()),
    "event": gn.Event(lambda t, g, xi, lam: g[0]),
}
"""What methods are called of."""

CALLS = {
    "GNI": {"rule": "trapezoid", "retraction": "auto", "newton": None, "start": "multiplier"},
    "RKMK": {"order": 4, "retraction": "auto"},
    "Wiener": {"size": 2, "dt": 0.02, "seed": 3},
    "Adaptive": {"method": gn.Gauss(2), "tolerance": 1e-4, "monitor": lambda t, g, xi: 1.0 + xi @ xi},
    "AffineDistribution": {"forms": [[0.0, 0.0, 1.0]], "rhs": [1.0]},
    "Distribution": {"forms": [[0.0, 0.0, 1.0]]},
    "Event": {"function": lambda t, g, xi, lam: g[0], "direction": 0, "stop": False, "name": "event"},
    "SlipEnds": {"stop": True, "name": "slip ends"},
    "VelocityConstraints": {"velocity": lambda x, xi: [xi @ xi - 1.0]},
    "Gauss": {"stages": 2, "retraction": "auto", "newton": None},
    "SymmetricProjection": {"rule": "trapezoid", "retraction": "auto", "newton": None},
    "System": {
        "space": Translations(2),
        "metric": [1.0, 1.0],
        "lagrangian": None,
        "distribution": None,
        "holonomic": None,
        "potential": None,
        "forces": None,
        "parameters": None,
        "base": "group",
        "first_integrals": None,
        "draw": None,
        "name": "system",
        "units": None,
    },
    "compose": {"method": gn.Gauss(1), "coefficients": "yoshida4", "order": None},
    "integrate": {"system": SLEIGH, "method": gn.GNI(), **START, "g0": G, "n_steps": 3, "t0": 0.0, "controls": None},
    "resume": {
        "trajectory": RUN,
        "n_steps": 2,
        "system": None,
        "method": None,
        "controls": None,
        "events": None,
        "allow_changes": False,
        "throw": True,
        "progress": False,
        "checkpoint": None,
    },
    "solve": {
        "system": SLEIGH,
        "method": "gni",
        **START,
        "g0": G,
        "n_steps": 3,
        "t0": 0.0,
        "controls": None,
        "events": (),
        "save_every": 1,
        "throw": True,
        "progress": False,
        "checkpoint": None,
    },
    "solve_ensemble": {
        "system": SLEIGH,
        "method": "gni",
        "xi0": [XI, XI],
        "dt": 0.02,
        "g0": G,
        "parameters": None,
        "n_steps": 3,
        "t0": 0.0,
        "controls": None,
        "combine": "zip",
        "save_every": None,
        "threads": 1,
        "progress": False,
    },
    "Sweep.of": {
        "system": SLEIGH,
        "method": "gni",
        "xi0": [XI, XI],
        "g0": G,
        "parameters": None,
        "dt": 0.02,
        "n_steps": 3,
        "t0": 0.0,
        "controls": None,
        "combine": "zip",
        "members": None,
        "seed": 0,
        "project": False,
        "save_every": None,
        "observables": None,
        "statistics": (),
        "events": (),
        "most_events": 1,
    },
    "sweep.run": {
        "store": Made(lambda: fresh("sweep.zarr")),
        "shard": None,
        "only": None,
        "executor": None,
        "threads": 1,
        "progress": False,
        "note": "",
    },
    "open_store": {"path": Made(stored)},
    "stream": {
        "system": SLEIGH,
        "method": "gni",
        "store": Made(lambda: fresh("stream.zarr")),
        "xi0": XI,
        "g0": G,
        "dt": 0.02,
        "n_steps": 4,
        "t0": 0.0,
        "controls": None,
        "save_every": 1,
        "observables": None,
        "progress": False,
    },
    "ensembles.merge": {"target": Made(stored), "sources": Made(lambda: [stored()])},
    "ensembles.Extrema": {"of": "energy", "over": "members"},
    "ensembles.Histogram": {"of": "energy", "edges": [0.0, 1.0], "over": "members"},
    "ensembles.Mean": {"of": "energy", "over": "members"},
    "ensembles.Near": {"g": G, "spread": 0.1},
    "ensembles.Quantiles": {"of": "energy", "q": (0.5,), "sample": 64, "over": "members"},
    "plotting.plot_basins": {"ensemble": MANY, "values": [0, 1], "x": "a", "y": "m", "label": "", "show": False},
    "plotting.plot_fan": {"ensemble": MANY, "name": "energy", "component": None, "show": False},
    "plotting.plot_histogram": {
        "ensemble": MANY,
        "name": "energy",
        "component": None,
        "node": -1,
        "bins": 5,
        "show": False,
    },
    "time_dependent": {"function": lambda t, x: x},
    "Trajectory.load": {"path": Made(lambda: RUN.save("run.nc")), "system": None},
    "run.animate": {"path": "run.gif"},
    "run.interpolate": {"times": [0.01, 0.02]},
    "run.plot": {"show": False},
    "run.save": {"path": "run.nc"},
    "run.view": {"path": None, "names": None},
    "many.message": {"member": 0},
    "system.check": {"at": None, "controls": None, "n_samples": 2, "seed": 0, "scale": 1.0},
    "system.point": {"g": G},
    "system.project": {"g0": G, "xi0": XI, "t0": None},
    "system.project_position": {"g0": G, "t0": None},
    "section.values": {"name": "x"},
    "section.plot": {"horizontal": "x", "vertical": "y"},
    "part.moved": {"x": 0.0, "y": 0.0, "z": 0.0},
    "part.painted": {"colour": "#000000"},
    "support.moved": {"offset": [0.0, 0.0, 0.1]},
    "support.rounded": {"radius": 0.1},
    "connection.form": {"r": [0.1]},
    "connection.curvature": {"r": [0.1]},
    "connection.displacement": {
        "gait": lambda t: jnp.stack([jnp.sin(t)]),
        "span": 1.0,
        "n_steps": 3,
        "momentum": None,
        "t0": 0.0,
    },
    # --- analysis
    "analysis.linearise": {
        "system": SLEIGH,
        "g": G,
        "xi": [0.0, 1.0, 0.0],
        "t": 0.0,
        "controls": None,
        "spins": None,
        "symmetries": None,
        "states": None,
        "keep_family": False,
        "tol": 1e-8,
    },
    "analysis.steady_motion": {
        "system": SLEIGH,
        "g": G,
        "xi": [0.0, 1.0, 0.0],
        "t": 0.0,
        "controls": None,
        "free": ["omega", "vx"],
        "conditions": None,
        "spins": np.zeros((0, 3)),
        "tol": 1e-8,
        "max_iterations": 3,
    },
    "analysis.root_locus": {
        "system": SLEIGH,
        "values": [0.2, 0.3],
        "motion": (G, [0.0, 1.0, 0.0]),
        "parameter": "a",
        "t": 0.0,
        "controls": None,
        "spins": None,
        "symmetries": None,
        "tol": 1e-8,
    },
    "analysis.stability_map": {
        "system": SLEIGH,
        "first": [0.2, 0.3],
        "second": [1.0, 2.0],
        "motion": (G, [0.0, 1.0, 0.0]),
        "parameters": ("a", "m"),
        "t": 0.0,
        "controls": None,
        "spins": None,
        "symmetries": None,
        "tol": 1e-8,
    },
    "analysis.divergence": {"system": SLEIGH, "g": G, "xi": XI, "t": 0.0, "controls": None},
    "analysis.first_integrals": {
        "system": SLEIGH,
        "basis": None,
        "degree": 1,
        "g": None,
        "controls": None,
        "seed": 0,
    },
    "analysis.hamiltonise": {
        "system": gn.systems.veselova(),
        "symmetry": [0.0, 0.0, 1.0],
        "candidates": None,
        "generators": None,
        "g": None,
        "n_states": 4,
        "seed": 0,
    },
    "analysis.reduce": {"system": gn.systems.nonholonomic_particle(), "symmetry": [0.0, 0.0, 1.0], "eliminate": False},
    "mechanics.in_spatial_velocities": {"system": gn.systems.suslov()},
    "mechanics.reduce": {"system": gn.systems.nonholonomic_particle(), "symmetry": [0.0, 0.0, 1.0], "eliminate": False},
    "analysis.invariant_measure": {"system": BODY, "candidates": None, "g": None, "n_states": 4, "seed": 0},
    "analysis.lyapunov_exponents": {
        "system": FREE,
        "g": None,
        "xi": [1.0, 0.0],
        "dt": 0.1,
        "n_steps": 4,
        "count": 1,
        "every": 2,
        "n_saved": 2,
        "method": None,
        "controls": None,
    },
    "analysis.nonholonomic_connection": {"system": BOARD, "shape": None, "sections": None},
    "analysis.periodic_orbit": {
        "system": FREE,
        "g": [1.0, 0.0],
        "xi": [0.0, 0.5],
        "period": 6.28,
        "returns": None,
        "fixed": None,
        "conditions": None,
        "method": gn.Gauss(2),
        "n_steps": 40,
        "t0": 0.0,
        "controls": None,
        "tol": 1e-8,
        "max_iterations": 5,
    },
    "analysis.continue_orbit": {
        "system": FREE,
        "orbit": Made(orbit),
        "parameter": "k",
        "step": 0.01,
        "n_orbits": 1,
        "limits": (0.5, 2.0),
        "tol": 1e-8,
    },
    # --- control
    "control.estimate": {
        "system": FREE,
        "names": ["k"],
        "data": [[1.0, 0.0], [0.98, 0.01]],
        "at": [0, 2],
        "observe": observe,
        "g0": [1.0, 0.0],
        "xi0": [0.0, 0.0],
        "dt": 0.1,
        "free_start": False,
        "sigma": 0.01,
        "prior": 1.0,
        "controls": None,
        "t0": 0.0,
        "method": None,
        "tol": 1e-3,
        "max_iterations": 1,
    },
    "control.kalman_filter": {
        "system": FREE,
        "observe": observe,
        "g0": [1.0, 0.0],
        "xi0": [0.0, 0.0],
        "errors": 0.1,
        "sigma": 0.01,
        "disturbance": 0.1,
        "dt": 0.1,
        "n_controls": 0,
        "t0": 0.0,
        "method": None,
        "iterations": 2,
    },
    "control.optimal_control": {
        "system": DRIVEN,
        "end": [1.0, 0.0],
        "n_controls": 2,
        "span": 1.0,
        "n_steps": 4,
        "start": [0.0, 0.0],
        "xi_start": None,
        "xi_end": None,
        "free": (),
        "free_span": False,
        "cost": None,
        "terminal_cost": None,
        "bounds": None,
        "rates": None,
        "limits": None,
        "path": None,
        "via": None,
        "terminal": None,
        "periodic": None,
        "design": None,
        "guess": None,
        "tries": 1,
        "method": None,
        "solver": "geonh",
        "t0": 0.0,
        "max_iterations": 10,
    },
    "control.mpc": {
        "system": DRIVEN,
        "n_controls": 2,
        "horizon": 1.0,
        "n_steps": 4,
        "cost": None,
        "terminal_cost": None,
        "end": None,
        "xi_end": None,
        "bounds": None,
        "rates": None,
        "limits": None,
        "path": None,
        "terminal": None,
        "method": None,
        "iterations": 1,
        "barrier": 1e-4,
    },
    "control.closed_loop": {"system": DRIVEN, "law": lambda t, g, xi: -xi},
    "control.tracking": {"motion": Made(steered), "weights": None, "effort": None, "end_weights": None},
    # --- diagnostics
    "diagnostics.adjoint_defect": {
        "system": SLEIGH,
        "method": gn.Gauss(1),
        "other": gn.Gauss(1),
        **START,
        "g0": G,
    },
    "diagnostics.alternation": {"trajectory": RUN},
    "diagnostics.contraction_rate": {"system": SLEIGH, "method": gn.GNI(), **START, "g0": G},
    "diagnostics.exact_step": {"system": SLEIGH, "xi0": XI, "g0": G, "dt": 0.1, "t0": 0.0},
    "diagnostics.exact_discrete_lagrangian": {"system": FREE, "W": [0.1, 0.2], "g0": [0.0, 0.0], "dt": 0.1, "t0": 0.0},
    "diagnostics.modified_field": {"system": SLEIGH, "method": gn.GNI(), **START, "g0": G, "t0": 0.0, "controls": None},
    "diagnostics.predicted_drift": {
        "system": SLEIGH,
        "method": gn.RKMK(4),
        **START,
        "g0": G,
        "n_steps": 8,
        "t0": 0.0,
        "controls": None,
        "samples": 4,
    },
    "diagnostics.alternation_rates": {"system": SLEIGH, "method": gn.GNI(), **START, "g0": G, "t0": 0.0},
    "diagnostics.convergence": {
        "system": SLEIGH,
        "method": gn.GNI(),
        "xi0": XI,
        "g0": G,
        "span": 0.2,
        "steps": (2, 4),
        "controls": None,
    },
    "diagnostics.drift": {"t": np.arange(40.0), "values": np.sin(np.arange(40.0))},
    "diagnostics.poincare_section": {"trajectory": RUN, "surface": lambda g, xi: g[0] - 0.01, "direction": 1},
    "diagnostics.reversibility_defect": {
        "system": SLEIGH,
        "method": gn.Gauss(1),
        **START,
        "g0": G,
        "n_steps": 2,
    },
    "diagnostics.symplecticity_defect": {
        "system": FREE,
        "method": gn.Gauss(1),
        "xi0": [1.0, 0.0],
        "g0": [0.0, 0.0],
        "dt": 0.1,
    },
    # --- drawing
    "drawing.Body": {"name": "a", "parts": [PART], "at": gn.drawing.shifted(), "trace": None, "colour": ""},
    "drawing.along": {"direction": [1.0, 0.0, 0.0], "x": [0.0, 0.0, 0.0], "axis": "x"},
    "drawing.axes": {"length": 1.0},
    "drawing.ball": {"radius": 1.0, "resolution": 8},
    "drawing.box": {"length": 1.0, "width": 1.0, "height": 1.0},
    "drawing.cylinder": {"radius": 1.0, "length": 1.0, "axis": "z", "resolution": 8},
    "drawing.ground": {"turns": False},
    "drawing.line": {"points": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]},
    "drawing.link": {"a": [0.0, 0.0, 0.0], "b": [1.0, 0.0, 0.0]},
    "drawing.mesh": {"vertices": np.eye(3), "faces": [[0, 1, 2]]},
    "drawing.momenta": {"trajectory": RUN, "nodes": None},
    "drawing.planar": {"theta": 0.1, "x": 0.0, "y": 0.0, "z": 0.0},
    "drawing.prism": {"outline": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "height": 1.0},
    "drawing.scene": {"trajectory": RUN, "nodes": None},
    "drawing.shifted": {"x": 0.0, "y": 0.0, "z": 0.0},
    "drawing.surface": {"point": lambda n: n, "resolution": 8},
    "drawing.turned": {"axis": "x", "angle": 0.1},
    # --- geometry
    "geometry.AdvectedVector": {"group": SO3(), "vector": [0.0, 0.0, 1.0]},
    "geometry.BundleMetric": {"matrix": np.eye(2)},
    "geometry.GroupBase": {"group": SO3()},
    "geometry.PointBase": {"group": SO3()},
    "geometry.ShapeBase": {"group": Translations(2), "names": ["x"]},
    "geometry.growth_vector": {"system": SLEIGH, "g0": G, "tol": 1e-9, "progress": None},
    "geometry.is_integrable": {"system": SLEIGH, "g0": G, "tol": 1e-9},
    # --- groups
    "groups.SE2": {},
    "groups.SE3": {},
    "groups.SO2": {},
    "groups.SO3": {},
    "groups.Cayley": {},
    "groups.Exponential": {},
    "groups.Heisenberg": {},
    "groups.MatrixGroup": {"space": SpecialOrthogonal(2, equip=False), "names": None, "name": None},
    "groups.Opposite": {"group": SO3()},
    "groups.Product": {"factors": [SO3(), Translations(2)], "names": None, "point_ndim": 1},
    "groups.Torus": {"dim": 1, "names": None},
    "groups.Translations": {"dim": 1, "names": None},
    "groups.as_group": {"space": SO3()},
    "groups.make_retraction": {"retraction": "exp"},
    "groups.matrix_to_quaternion": {"R": np.eye(3), "scalar_first": True},
    "groups.quaternion_to_matrix": {"q": [1.0, 0.0, 0.0, 0.0], "scalar_first": True},
    # --- integrators
    "integrators.DLA": {"rule": "midpoint", "constraint": "midpoint", "retraction": "auto", "newton": None},
    "integrators.RATTLE": {"retraction": "auto", "newton": None, "start": "multiplier"},
    "integrators.SHAKE": {"newton": None, "start": "multiplier"},
    "integrators.CommutatorFree": {},
    "integrators.DiscreteConstraint": {"at": "midpoint", "symmetric": False},
    "integrators.DiscreteGradient": {"gradient": "gonzalez", "retraction": "auto", "newton": None},
    "integrators.EulerA": {"retraction": "auto", "newton": None},
    "integrators.EulerB": {"retraction": "auto", "newton": None},
    "integrators.EulerAB": {"retraction": "auto", "newton": None},
    "integrators.Feedback": {"gains": 1.0, "solver": "euler", "orthonormal": True},
    "integrators.Lobatto": {"stages": 2, "retraction": "auto", "newton": None},
    "integrators.Newton": {"tol": 1e-9, "max_iterations": 30},
    "integrators.Pontryagin": {"alpha": 0.5, "retraction": "auto", "newton": None},
    "integrators.RungeKutta": {"scheme": "rk4", "project": "none", "baumgarte": 0.0},
    "integrators.LeftRectangle": {},
    "integrators.RightRectangle": {},
    "integrators.Midpoint": {},
    "integrators.Trapezoid": {},
    "integrators.UserDiscreteLagrangian": {"function": lambda x, W, h: jnp.sum(W**2), "symmetric": True},
    "integrators.Variational": {"rule": "trapezoid", "retraction": "auto", "newton": None},
    "integrators.VolumePreserving": {"rule": "trapezoid", "retraction": "auto", "newton": None},
    "integrators.method_of": {"word": "gni"},
    "integrators.no_inverse": {"n": 2, "cheap": False},
    # --- interop
    "interop.from_sympy": {
        "model": (q.diff() ** 2 - k * q**2) / 2,
        "coordinates": [q],
        "parameters": {k: 1.0},
        "constraints": (),
        "forces": None,
        "potential": None,
        "controls": (),
        "angles": (),
        "name": "sympy",
    },
    "interop.speeds_of": {"model": KANE, "system": OSCILLATOR, "q": [0.1], "xi": [0.2]},
    "interop.velocity_of": {"model": KANE, "system": OSCILLATOR, "q": [0.1], "u": [0.2]},
    # --- mechanics
    "mechanics.FirstIntegral": {"function": lambda g, xi, p, q: xi[0], "note": "", "momentum": "average"},
    "mechanics.accelerations": {"system": SLEIGH, "t": 0.0, "g": G, "xi": XI, "u": None},
    "mechanics.multipliers": {"system": SLEIGH, "t": 0.0, "g": G, "xi": XI, "u": None},
    "mechanics.impact": {
        "system": SLEIGH,
        "g": G,
        "xi": XI,
        "rows": [[0.0, 1.0, 0.0]],
        "restitution": 0.5,
        "right": 0.0,
        "t": 0.0,
    },
    "mechanics.collision": {
        "system": SLEIGH,
        "g": G,
        "xi": XI,
        "normals": [[1.0, 0.0, 0.0]],
        "tangents": [[[0.0, 1.0, 0.0]]],
        "friction": 0.3,
        "restitution": 0.5,
        "right": 0.0,
        "t": 0.0,
    },
    "mechanics.check_system": {
        "system": SLEIGH,
        "at": None,
        "controls": None,
        "n_samples": 2,
        "seed": 0,
        "scale": 1.0,
    },
    "mechanics.generator": {"group": SE2(), "g": G, "eta": XI},
    "mechanics.ito": {"system": DRIVEN},
    "mechanics.thermal_contacts": {"system": SLEIGH, "kT": 0.1},
    "mechanics.horizontal_symmetries": {
        "system": SLEIGH,
        "generators": None,
        "samples": 4,
        "seed": 0,
        "tol": 1e-9,
    },
    "mechanics.symmetries": {"system": SLEIGH, "generators": None, "samples": 4, "seed": 0, "tol": 1e-9},
    "mechanics.horizontality": {"system": SLEIGH, "g": G, "section": SECTION_OF_G, "generators": None},
    "mechanics.momentum_equation_residual": {
        "system": SLEIGH,
        "trajectory": RUN,
        "section": SECTION_OF_G,
        "generators": None,
    },
    "mechanics.momentum_map": {"system": SLEIGH, "g": G, "p": P, "eta": [0.0, 1.0, 0.0], "generators": None},
    "mechanics.moving_energy": {"system": SLEIGH, "g": G, "p": P, "section": SECTION_OF_G, "generators": None},
    "mechanics.nonholonomic_momentum": {
        "system": SLEIGH,
        "g": G,
        "p": P,
        "section": SECTION_OF_G,
        "generators": None,
    },
    "mechanics.reference_trajectory": {
        "system": SLEIGH,
        "times": [0.0, 0.1],
        "xi0": XI,
        "g0": G,
        "controls": None,
        "rtol": 1e-9,
        "atol": 1e-9,
    },
    "mechanics.spatial_momentum": {"group": SE2(), "g": G, "p": P},
    # --- plotting
    "plotting.animate": {
        "trajectory": RUN,
        "path": "run.gif",
        "fps": 25.0,
        "speed": 1.0,
        "dpi": 20.0,
        "trail": None,
        "progress": False,
    },
    "plotting.invariants": {"trajectory": RUN},
    "plotting.plot_convergence": {"results": [FINE], "show": False},
    "plotting.plot_invariants": {"trajectory": RUN, "show": False},
    "plotting.plot_multipliers": {"trajectory": RUN, "show": False},
    "plotting.plot_phase": {"trajectory": RUN, "x": "x", "y": "y", "show": False},
    "plotting.plot_poincare": {"sections": {"a": SECTION}, "x": "x", "y": "y", "show": False},
    "plotting.plot_trajectory": {"trajectory": RUN, "show": False},
    # --- bodies
    "bodies.Mesh": {"vertices": np.eye(3), "faces": [[0, 1, 2]]},
    "bodies.poses": {"system": ARM, "g": [0.1]},
    "bodies.start": {"system": ARM, "positions": None, "velocities": None},
    "bodies.tree": {
        "links": ARM.tree.links,
        "gravity": (0.0, 0.0, -9.81),
        "contacts": (),
        "varied": (),
        "forces": None,
        "parameters": None,
        "first_integrals": None,
        "draw": None,
        "rank": None,
        "name": "arm",
    },
    # --- rolling
    "rolling.ball": {"radius": 1.0},
    "rolling.contact": {"system": BALL, "g": np.eye(4), "t": 0.0},
    "rolling.overlap": {"system": BALL, "g": np.eye(4), "t": 0.0},
    "rolling.cylinder": {"radius": 1.0, "axis": "z", "side": "inside"},
    "rolling.disc": {"radius": 1.0, "axis": (0.0, 0.0, 1.0), "thickness": 0.0},
    "rolling.drawing": {"t": 0.0, "g": np.eye(4), "parameters": BALL.parameters},
    "rolling.ellipsoid": {"a": 1.0, "b": 1.0, "c": 2.0},
    "rolling.implicit": {"function": lambda X: X @ X - 1.0, "size": 1.0},
    "rolling.knife_edge": {"x": 0.0, "y": 0.0, "angle": 0.0, "steered": "", "inertia": 0.0},
    "rolling.planar": {
        "body": LINE,
        "potential": None,
        "forces": None,
        "parameters": None,
        "first_integrals": None,
        "draw": None,
        "name": "planar body",
    },
    "rolling.planar_body": {"mass": 1.0, "inertia": 1.0, "wheels": [], "trailers": [], "centre": (0.0, 0.0)},
    "rolling.plane": {"normal": (0.0, 0.0, 1.0), "level": 0.0},
    "rolling.rolling": {
        "support": gn.rolling.ball(1.0),
        "inertia": np.eye(3),
        "mass": 1.0,
        "on": None,
        "surface_velocity": None,
        "spin": True,
        "gravity": 9.81,
        "forces": None,
        "parameters": None,
        "first_integrals": None,
        "draw": None,
        "name": "rolling body",
    },
    "rolling.sphere": {"radius": 3.0, "side": "inside"},
    "rolling.start": {"system": BALL, "rotation": None, "omega": [0.0, 1.0, 0.0], "place": [0.0, 0.0, 0.0], "t0": 0.0},
    "rolling.support": {"function": lambda n: jnp.sqrt(n @ n)},
    "rolling.surface": {"psi": lambda X: X[2]},
    "rolling.torus": {"radius": 1.0, "tube": 0.1, "axis": (0.0, 0.0, 1.0)},
    "rolling.trailer": {"body": LINE, "length": 1.0, "hitch": (0.0, 0.0), "name": "theta"},
    "rolling.wheel": {
        "radius": 1.0,
        "inertia": 1.0,
        "x": 0.0,
        "y": 0.0,
        "angle": 0.0,
        "name": "chi",
        "steered": "",
        "steering_inertia": 0.0,
        "grips": True,
    },
    # --- testing, viewer
    "testing.check_group": {"group": SE2(), "n_samples": 2, "seed": 0, "tol": 1e-9, "half_turn": True},
    "viewer.view": {"*": RUN, "path": None, "names": None, "side_by_side": False, "max_frames": 10},
}
CALLS |= {
    f"systems.{name}": {p.name: p.default for p in inspect.signature(getattr(gn.systems, name)).parameters.values()}
    for name in gn.systems.__all__
    if inspect.isfunction(getattr(gn.systems, name))
}
ROOMS = (
    *("analysis", "bodies", "control", "diagnostics", "drawing", "ensembles", "geometry", "groups", "integrators"),
    *("interop", "mechanics", "plotting", "rolling", "systems", "testing", "viewer"),
)
RESULTS = """
Ensemble FileError IntegrationError Trajectory float64 Connection Displacement InvariantMeasure Linearisation
KalmanFilter LyapunovSpectrum PeriodicOrbit RootLocus StabilityMap SteadyMotion Estimate OptimalControl Tracking
Convergence Drift Section Momenta Moving NoDrawingError Part Pose Scene Action LieGroup Point Retraction Adjoint Clock
Composition DiscreteLagrangian Equations Guarantees ImplicitIntegrator Integrator NextStep Outcome Result
RetractingIntegrator State Warm Quantity Contact Crossing PlanarBody Support Surface Wheel Entry Blade Joint Link
Mimic Robot Shape TreeSystem from_file read Start Page Passed Statistic Sweep ContactForce Impact FoundIntegrals
Hamiltonisation ModalEnsemble ModelPredictiveControl ModifiedField OriginalMotion PredictedDrift
Collision ReducedState Reduction ExactStep
"""
"""What geonh gives, and what a user's own classes begin from: nobody calls them."""
ELSEWHERE = """
Friction Loop Modes Rolling Spring Transition build contact_force join slipping
"""
"""Names whose wrong arguments are tested in the tests of their packages."""

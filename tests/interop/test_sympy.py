"""Models of SymPy's documentation as systems: their accelerations are those of SymPy's own matrices."""

import jax
import numpy as np
import pytest

sp = pytest.importorskip("sympy")
from sympy.physics import mechanics as me  # noqa: E402

import geonh as gn  # noqa: E402
from geonh.interop import from_sympy, speeds_of, velocity_of  # noqa: E402
from geonh.mechanics import accelerations  # noqa: E402

r, m, g, k, c, M, ell = sp.symbols("r m g k c M ell", positive=True)
VALUES = {r: 1.3, m: 2.1, g: 9.81}


def disc(places):
    """The rolling disc of SymPy's documentation by Kane's method; with two coordinates of its centre, and rolling as
    two velocity constraints, if ``places``."""
    q1, q2, q3, q4, q5 = q = me.dynamicsymbols("q1:6")
    u1, u2, u3, u4, u5 = u = me.dynamicsymbols("u1:6")
    N = me.ReferenceFrame("N")
    Y = N.orientnew("Y", "Axis", [q1, N.z])
    L = Y.orientnew("L", "Axis", [q2, Y.x])
    R = L.orientnew("R", "Axis", [q3, L.y])
    turning = R.ang_vel_in(N)
    R.set_ang_vel(N, u1 * L.x + u2 * L.y + u3 * L.z)
    kinematic = [(R.ang_vel_in(N) - turning).dot(v) for v in L]
    contact = me.Point("C")
    contact.set_vel(N, 0)
    if places:
        O = me.Point("O")  # noqa: E741
        O.set_vel(N, 0)
        centre = O.locatenew("D", q4 * N.x + q5 * N.y + r * sp.cos(q2) * N.z)
        velocity = u4 * N.x + u5 * N.y - r * sp.sin(q2) * u1 * N.z
        centre.set_vel(N, velocity)
        rolling = (velocity + R.ang_vel_in(N).cross(-r * L.z)).express(N)
        constraints = [rolling.dot(N.x), rolling.dot(N.y)]
        kinematic += [q4.diff() - u4, q5.diff() - u5]
    else:
        centre = contact.locatenew("D", r * L.z)
        centre.v2pt_theory(contact, N, R)
    inertia = me.inertia(L, m / 4 * r**2, m / 2 * r**2, m / 4 * r**2)
    body = me.RigidBody("B", centre, R, m, (inertia, centre))
    loads = [(centre, -m * g * Y.z)]
    more = {"u_dependent": u[3:], "velocity_constraints": constraints} if places else {}
    n = 5 if places else 3
    model = me.KanesMethod(N, q_ind=q[:n], u_ind=u[:3], kd_eqs=kinematic, **more)
    model.kanes_equations([body], loads)
    return model


def lagrange_disc():
    """The same disc by Lagrange's equations with multipliers."""
    q1, q2, q3, x, y = q = me.dynamicsymbols("q1:4 x y")
    N = me.ReferenceFrame("N")
    Y = N.orientnew("Y", "Axis", [q1, N.z])
    L = Y.orientnew("L", "Axis", [q2, Y.x])
    R = L.orientnew("R", "Axis", [q3, L.y])
    O = me.Point("O")  # noqa: E741
    O.set_vel(N, 0)
    centre = O.locatenew("D", x * N.x + y * N.y + r * sp.cos(q2) * N.z)
    centre.set_vel(N, centre.pos_from(O).dt(N))
    inertia = me.inertia(L, m / 4 * r**2, m / 2 * r**2, m / 4 * r**2)
    body = me.RigidBody("B", centre, R, m, (inertia, centre))
    body.potential_energy = m * g * r * sp.cos(q2)
    rolling = (centre.vel(N) + R.ang_vel_in(N).cross(-r * L.z)).express(N)
    constraints = [rolling.dot(N.x), rolling.dot(N.y)]
    return me.LagrangesMethod(me.Lagrangian(N, body), q, nonhol_coneqs=constraints, bodies=[body], frame=N)


def rates_of(system):
    """The accelerations as one compiled function."""
    return jax.jit(lambda point, xi, u: accelerations(system, 0.0, point, xi, u)[0])


def numbers(model, values, *expressions):
    return sp.lambdify([list(model.q), list(model.u)], [e.subs(values) for e in expressions], "numpy", cse=True)


def kane_gap(model, values, system, seed, n_states=5):
    """Largest difference of the accelerations, relative, at random states on the constraint."""
    rates = model.kindiffdict()
    drift = sp.Matrix([rates[q.diff()] for q in model.q])
    K = drift.jacobian(model.u)
    turning = (drift.diff(me.dynamicsymbols._t) - K * sp.Matrix(model.u).diff(me.dynamicsymbols._t)).subs(rates)
    rows = model._k_nh if len(model._f_nh) else sp.zeros(0, len(model.u))
    own = numbers(model, values, model.mass_matrix, model.forcing.subs(rates), K, turning, rows)
    rng, worst, rate = np.random.default_rng(seed), 0.0, rates_of(system)
    for _ in range(n_states):
        q, u = 0.5 * rng.normal(size=(2, len(model.q)))
        A = np.atleast_2d(own(q, u)[4])
        u = u - np.linalg.pinv(A) @ (A @ u) if A.size else u
        mass, forcing, kinematic, bent, _ = map(np.asarray, own(q, u))
        expected = kinematic @ np.linalg.solve(mass, forcing[:, 0]) + bent[:, 0]
        xi = velocity_of(model, system, q, u)
        np.testing.assert_allclose(speeds_of(model, system, q, xi), u, atol=1e-13)
        point = q if not system.group.point_shapes[1:] else (q[:3], q[3:])
        result = rate(point, xi, None)
        worst = max(worst, np.abs(result - expected).max() / np.abs(expected).max())
    return worst


def lagrange_gap(model, values, system, seed, u=None, controls=()):
    rng, worst, rate = np.random.default_rng(seed), 0.0, rates_of(system)
    n = len(model.q)
    fixed = values | dict(zip(controls, () if u is None else u, strict=True))
    rows = model.coneqs.jacobian(model.u) if len(model.coneqs) else sp.zeros(0, n)
    own = numbers(model, fixed, model.mass_matrix_full, model.forcing_full, rows)
    for _ in range(5):
        q, v = 0.7 * rng.normal(size=(2, n))
        A = np.asarray(own(q, v)[2]).reshape(-1, n)
        v = v - np.linalg.pinv(A) @ (A @ v) if A.size else v
        mass, forcing, _ = map(np.asarray, own(q, v))
        expected = np.linalg.solve(mass, forcing[:, 0])[n : 2 * n]
        result = rate(q, v, None if u is None else np.array(u))
        worst = max(worst, np.abs(result - expected).max() / np.abs(expected).max())
    return worst


@pytest.mark.slow
def test_the_rolling_disc_of_kane_whose_contact_is_no_coordinate():
    model = disc(places=False)
    q = model.q
    system = from_sympy(model, parameters=VALUES, potential=m * g * r * sp.cos(q[1]), angles=q, name="disc")
    assert str(system.group) == "T³"
    assert system.group.point_names == ("q1", "q2", "q3")
    assert kane_gap(model, VALUES, system, 0) < 1e-12
    # the forces that remain do no work
    xi = velocity_of(model, system, [0.1, 0.3, 0.0], [0.2, 3.0, 0.5])
    run = gn.solve(system, gn.Gauss(2), g0=[0.1, 0.3, 0.0], xi0=xi, dt=0.005, n_steps=200)
    assert np.abs(run.energy / run.energy[0] - 1).max() < 1e-8


@pytest.mark.slow
def test_the_disc_with_dependent_speeds_and_by_lagrange_are_one():
    kane, lagrange = disc(places=True), lagrange_disc()
    lagrange.form_lagranges_equations()
    one = from_sympy(kane, parameters=VALUES, potential=m * g * r * sp.cos(kane.q[1]), angles=["q1", "q2", "q3"])
    other = from_sympy(lagrange, parameters={"r": 1.3, "m": 2.1, "g": 9.81})
    assert one.forces is None  # its velocities are derivatives of its places: the loads are −∂V, nothing is left
    assert kane_gap(kane, VALUES, one, 1) < 1e-12
    assert lagrange_gap(lagrange, VALUES, other, 1) < 1e-12
    start, speeds = np.array([0.2, 0.4, 0.1, 0.5, -0.3]), np.array([0.3, -0.2, 1.1, 0.0, 0.0])
    xi = other.project(start, velocity_of(kane, one, start, speeds))
    a = gn.solve(one, g0=(start[:3], start[3:]), xi0=xi, dt=0.01, n_steps=50)
    b = gn.solve(other, g0=start, xi0=xi, dt=0.01, n_steps=50)
    np.testing.assert_allclose(a.g_vector, b.g_vector, atol=1e-12)
    assert np.abs(a.constraint_residual).max() < 1e-12


@pytest.mark.slow
def test_a_pendulum_on_a_cart_with_a_motor_and_damping():
    x, theta, motor = me.dynamicsymbols("x theta F")
    v, w = x.diff(), theta.diff()
    T = M * v**2 / 2 + m * ((v + ell * w * sp.cos(theta)) ** 2 + (ell * w * sp.sin(theta)) ** 2) / 2
    L = T + m * g * ell * sp.cos(theta) - k * x**2 / 2
    N, P = me.ReferenceFrame("N"), me.Point("P")
    P.set_vel(N, v * N.x)
    values = VALUES | {M: 1.7, ell: 0.8, k: 3.0, c: 0.4}
    values.pop(r)
    model = me.LagrangesMethod(L, [x, theta], forcelist=[(P, (motor - c * v) * N.x)], frame=N)
    model.form_lagranges_equations()
    system = from_sympy(model, parameters=values, controls=[motor], angles=[theta])
    assert str(system.group) == "R × S¹"
    by_hand = from_sympy(L, [x, theta], forces={x: motor - c * v}, parameters=values, controls=[motor])
    assert lagrange_gap(model, values, by_hand, 2, [0.7], [motor]) < 1e-12
    options = {"xi0": [0.1, 0.2], "dt": 0.01, "n_steps": 100, "controls": lambda t: np.array([0.5]) * t}
    a = gn.solve(system, gn.Gauss(2), g0=([0.1], [0.3]), **options)
    b = gn.solve(by_hand, gn.Gauss(2), g0=[0.1, 0.3], **options)
    np.testing.assert_allclose(a.g_vector, b.g_vector, atol=1e-13)
    balance = np.diff(a.energy).sum() - np.trapezoid((0.5 * a.t - 0.4 * a.xi[:, 0]) * a.xi[:, 0], a.t)
    assert abs(balance) < 1e-5  # O(dt²)


@pytest.mark.slow
def test_gyroscopic_terms_and_affine_constraints():
    x, y, _ = q = me.dynamicsymbols("x y z")
    B, s = sp.symbols("B s")
    u, v, w = (a.diff() for a in q)
    L = (u**2 + v**2 + 2 * w**2) / 2 + B * (x * v - y * u) - x**2 * y**2
    values = {B: 0.7, s: 0.3}
    model = me.LagrangesMethod(L, q, nonhol_coneqs=[w - y * u - s])
    model.form_lagranges_equations()
    system = from_sympy(L, q, constraints=[sp.Eq(w, y * u + s)], parameters=values)
    assert system.is_affine
    assert system.is_quadratic
    rng, rate = np.random.default_rng(5), rates_of(system)
    own = numbers(model, values, model.mass_matrix_full, model.forcing_full)
    for _ in range(4):
        at, xi = rng.normal(size=(2, 3))
        xi[2] = at[1] * xi[0] + 0.3
        mass, forcing = map(np.asarray, own(at, xi))
        np.testing.assert_allclose(
            rate(at, xi, None), np.linalg.solve(mass, forcing[:, 0])[3:6], rtol=1e-12, atol=1e-13
        )
    assert gn.solve(system, xi0=[0.1, 0.2, 0.3], dt=0.01, n_steps=10).success


def test_only_what_the_equations_contain_is_the_base():
    x, y = me.dynamicsymbols("x y")
    system = from_sympy(m * (x.diff() ** 2 + y.diff() ** 2) / 2 - m * g * y, [x, y], parameters={"m": 1.0, "g": 9.81})
    assert system.action.names == ("y",)
    free = from_sympy(m * x.diff() ** 2 / 2, [x], parameters={m: 2.0})
    assert type(free.action).__name__ == "PointBase"


x, y = me.dynamicsymbols("x y")
FREE = m * (x.diff() ** 2 + y.diff() ** 2) / 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parameters": {}}, "no value for m"),
        ({"parameters": {m: 1.0, g: 1.0}}, "do not contain g"),
        ({"constraints": [x.diff() ** 2 - y.diff()]}, "not linear in the velocities"),
        ({"constraints": [x.diff() - me.dynamicsymbols("F") * y.diff()]}, "constraints: F.*only forces may contain"),
        ({"forces": {x: me.dynamicsymbols("F")}}, r"F\(t\).*name what is given in controls="),
        ({"forces": [x]}, "2 expressions"),
        ({"forces": {me.dynamicsymbols("z"): x}}, "not among the coordinates"),
        ({"angles": ["z"]}, "not among the coordinates"),
        ({"coordinates": [x]}, r"derivatives Derivative\(y\(t\), t\)"),
        ({"coordinates": None}, "coordinates= is needed"),
        ({"coordinates": [m]}, "dynamicsymbols"),
        ({"potential": x}, "goes with a KanesMethod"),
    ],
)
def test_what_cannot_be_brought_over_is_said(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        from_sympy(FREE, **{"coordinates": [x, y], "parameters": {m: 1.0}} | options)


def test_models_that_cannot_be_brought_over():
    with pytest.raises(TypeError, match="got ReferenceFrame"):
        from_sympy(me.ReferenceFrame("N"))
    u = me.dynamicsymbols("u")
    unknown = me.KanesMethod(me.ReferenceFrame("N"), q_ind=[x], u_ind=[u], kd_eqs=[x.diff() - u])
    with pytest.raises(ValueError, match="has no bodies"):
        from_sympy(unknown)
    with pytest.raises(TypeError, match="go with a Lagrangian"):
        from_sympy(unknown, coordinates=[x])


@pytest.mark.slow
def test_configuration_constraints_and_time():
    t = me.dynamicsymbols._t
    L = m * (x.diff() ** 2 + y.diff() ** 2) / 2 - m * g * y + sp.sin(t) * x
    model = me.LagrangesMethod(L, [x, y], hol_coneqs=[x**2 + y**2 - 1])
    model.form_lagranges_equations()
    values = {m: 1.7, g: 9.81}
    system = from_sympy(model, parameters=values)
    assert system.is_timed
    own = sp.lambdify(
        [list(model.q), list(model.u), t], [model.mass_matrix_full.subs(values), model.forcing_full.subs(values)]
    )
    rng = np.random.default_rng(2)
    for _ in range(4):
        at, xi = system.project(*rng.normal(size=(2, 2)), 0.4)
        mass, forcing = map(np.asarray, own(at, xi, 0.4))
        expected = np.linalg.solve(mass, forcing[:, 0])[2:4]
        np.testing.assert_allclose(accelerations(system, 0.4, at, xi)[0], expected, rtol=1e-12, atol=1e-12)
    run = gn.solve(system, g0=at, xi0=xi, t0=0.4, dt=0.01, n_steps=50)
    assert np.abs(run.holonomic_residual).max() < 1e-14


@pytest.mark.slow
def test_a_pendulum_of_kane_with_more_coordinates_than_it_needs():
    # The nonminimal pendulum of SymPy's documentation: the constraint and its derivative are both given.
    q1, q2, u1, u2 = me.dynamicsymbols("q1 q2 u1 u2")
    N = me.ReferenceFrame("N")
    A = N.orientnew("A", "axis", [sp.atan(q2 / q1), N.z])
    pin = me.Point("O")
    pin.set_vel(N, 0)
    P = pin.locatenew("P", q1 * N.x + q2 * N.y)
    P.set_vel(N, P.pos_from(pin).dt(N).subs({q1.diff(): u1, q2.diff(): u2}))
    bob = me.Particle("bob", P, m)
    length = sp.Matrix([q1**2 + q2**2 - ell**2])
    moving = sp.Matrix([P.vel(N).express(A).dot(A.x)])
    model = me.KanesMethod(
        N,
        q_ind=[q2],
        q_dependent=[q1],
        u_ind=[u2],
        u_dependent=[u1],
        kd_eqs=[q1.diff() - u1, q2.diff() - u2],
        configuration_constraints=length,
        velocity_constraints=moving,
    )
    model.kanes_equations([bob], [(P, m * g * N.x)])
    system = from_sympy(model, parameters={m: 1.0, g: 9.81, ell: 0.8}, potential=-m * g * q1)
    assert system.holonomic is not None
    assert system.distribution is None
    assert system.forces is None
    start, speed = system.project([0.3, 0.7], [0.2, 0.1])  # (q2, q1)
    run = gn.solve(system, gn.Gauss(2), g0=start, xi0=speed, dt=0.01, n_steps=100)
    angle = np.arctan2(run.g[:, 0], run.g[:, 1])
    bend = (angle[2:] - 2 * angle[1:-1] + angle[:-2]) / 1e-4
    np.testing.assert_allclose(bend, -9.81 / 0.8 * np.sin(angle[1:-1]), atol=5e-3)
    assert np.abs(np.hypot(*run.g.T) - 0.8).max() < 1e-13

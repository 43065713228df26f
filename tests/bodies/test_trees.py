"""Trees of bodies: joints against independent equations, conservation, orders, gradients, and trees that are none."""

from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh import bodies
from geonh.bodies import Joint, Link, Mimic, Shape, Spring, composite
from geonh.groups import SO3, Product
from geonh.mechanics.lagrangian import LagrangianSystem

INERTIA = (0.1, 0.12, 0.02)
KINDS = ["revolute", "continuous", "prismatic", "screw", "spherical", "planar", "free"]
UNIT = np.array([2.0, -1.0, 2.0]) / 3


def turned(angles):
    a, b = angles
    ca, sa, cb, sb = np.cos(a), np.sin(a), np.cos(b), np.sin(b)
    return np.array([[ca, -sa, 0], [sa, ca, 0], [0, 0, 1]]) @ np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])


def arm(kind, **more):
    """A link on a joint of a kind, between two revolute ones, at odd places."""
    pitch = {"pitch": 0.3} if kind == "screw" else {}
    body = np.array([[0.2, 0.03, -0.01], [0.03, 0.15, 0.02], [-0.01, 0.02, 0.1]])
    return [
        Link("hand", 0.5, (0.1, 0.2, -0.1), body / 2, "arm", Joint("revolute", "wrist", (0, 1, 0), (0.2, 0.0, 0.5))),
        Link("post", 1.5, (0.0, 0.1, 0.2), body, "", Joint("revolute", "foot", (0, 0, 1), (0, 0, 0.1))),
        Link(
            "arm",
            1.0,
            (0.3, -0.1, 0.2),
            body,
            "post",
            Joint(kind, "middle", UNIT, (0.1, 0.3, 0.4), turned((0.4, -0.7)), **pitch),
        ),
    ]


def kinetic(system, g, xi):
    """Σ ½m|ċ|² + ½ω·Iω of the motion g exp(tξ) by differences of the poses, without twists."""
    group, h = system.group, 1e-3

    def at(t):
        return bodies.poses(system, group.compose(g, group.exp(t * xi)))

    places = [at(s * h) for s in (-2, -1, 1, 2)]
    total = 0.0
    for link in system.tree.links:
        R = [place[link.name][0] for place in places]
        c = [R @ np.array(link.centre) + x for R, x in (place[link.name] for place in places)]
        v, turning = ((a[0] - a[3] + 8 * (a[2] - a[1])) / (12 * h) for a in (c, R))
        W = at(0.0)[link.name][0].T @ turning
        omega = np.array([W[2, 1], W[0, 2], W[1, 0]])
        total += 0.5 * link.mass * v @ v + 0.5 * omega @ np.array(link.inertia) @ omega
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick("spherical", "screw")
def test_kinetic_energy_is_that_of_the_moving_poses(kind):
    system = bodies.tree(arm(kind), gravity=(0, 0, 0))
    draws = np.random.default_rng(3)
    xi = draws.normal(size=system.group.dim)
    with jax.enable_x64(True):
        g = jax.tree.map(np.asarray, system.group.exp(0.5 * draws.normal(size=system.group.dim)))
        M = np.asarray(composite.mass_matrix(system.tree, g, {}, False))
        assert float(system.lagrangian(g, xi)) == pytest.approx(0.5 * xi @ M @ xi, rel=1e-13)
        np.testing.assert_allclose(system.mass_matrix(g), M, atol=1e-13)
        assert kinetic(system, g, xi) == pytest.approx(0.5 * xi @ M @ xi, rel=1e-9)


def against_the_lagrangian(system, seed):
    """Compare momentum and bias force of a tree with derivatives of its Lagrangian at a random state."""
    draws = np.random.default_rng(seed)
    n = system.group.dim
    with jax.enable_x64(True):
        g, xi = system.group.exp(jnp.asarray(draws.normal(size=n))), jnp.asarray(draws.normal(size=n))
        x = system.at(g, 0.3)
        p = jax.grad(lambda v: system.lagrangian(x, v))(xi)
        np.testing.assert_allclose(system.momentum(x, xi), p, atol=1e-13 * np.abs(p).max())
        bias = LagrangianSystem.bias_force(system, x, xi)
        np.testing.assert_allclose(system.bias_force(x, xi), bias, atol=1e-13 * np.abs(bias).max())
        assert np.abs(bias).max() > 1e-3


@pytest.mark.parametrize("armature", [0.0, 0.7])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick("free-0.7", "planar-0.7", "screw-0.0")
def test_recursions_are_derivatives_of_the_lagrangian(kind, armature):
    links = [replace(link, joint=replace(link.joint, armature=armature)) for link in arm(kind)]
    for seed in range(4):
        against_the_lagrangian(bodies.tree(links), seed)


def test_recursions_with_springs_followers_and_parameters():
    hand, post, middle = arm("screw")
    sprung = replace(middle.joint, stiffness=3.0, rest=0.2, armature=0.4)
    follower = replace(hand.joint, mimic=Mimic("middle", -1.7, 0.3), stiffness=2.0, armature=0.3)
    links = [post, replace(middle, joint=sprung), replace(hand, joint=follower)]
    spring = Spring("hand", "", place=(0.1, 0.2, 0.3), other_place=(1.0, 0.0, 0.5), stiffness=5.0, rest=0.4)
    varied = ["arm.mass", "hand.centre", "hand.inertia", "middle.pitch", "middle.place", "middle.armature"]
    for numbers in ((), varied):
        against_the_lagrangian(bodies.tree(links, springs=[spring], varied=numbers), 5)


@pytest.mark.parametrize("root", ["free", "planar"])
def test_recursions_of_trees_reduced_by_their_pose(root):
    hand, post, middle = arm("revolute")
    base = Joint(root, "base", (0, 0, 1), armature=0.2)
    links = [replace(post, joint=base), middle, hand]
    system = bodies.tree(links, gravity=(0, 0, 0) if root == "free" else (0, 0, -9.81))
    assert system.reduced
    against_the_lagrangian(system, 6)


@pytest.mark.parametrize("kind", ["screw", "spherical", "planar", "free"])
@pytest.mark.quick("planar")
def test_energy_and_momentum_are_conserved(kind):
    links = arm(kind)
    system = bodies.tree(links)
    xi0 = 0.5 * np.cos(np.arange(system.group.dim) + 1.0)
    run = gn.solve(system, "rkmk4", xi0=xi0, dt=0.005, n_steps=100)
    assert np.ptp(run.energy) < 1e-6 * np.abs(run.energy).max()
    p = run.p_minus[:, 0]  # about the vertical axis of the post
    np.testing.assert_allclose(p, p[0], atol=1e-8)


@pytest.mark.slow
def test_a_chain_on_ball_joints_is_that_of_a_lagrangian_by_hand():
    length, n = 0.4, 3

    def lagrangian(x, xi):
        v, height, total = jnp.zeros(3), 0.0, 0.0
        arm = jnp.array([0.0, 0.0, -length])
        for i, R in enumerate(x):
            omega = xi[3 * i : 3 * i + 3]  # in the chain each attitude is in space
            end = v + R @ jnp.cross(omega, arm)
            centre, z = 0.5 * (v + end), height + 0.5 * (R @ arm)[2]
            total = total + 0.5 * centre @ centre + 0.5 * omega @ (jnp.array(INERTIA) * omega) - 9.81 * z
            v, height = end, height + (R @ arm)[2]
        return total

    by_hand = gn.System(Product((SO3(),) * n), lagrangian=lagrangian)
    names = [f"rod{i}" for i in range(n)]
    joint = [Joint("spherical", place=(0, 0, -length if i else 0.0)) for i in range(n)]
    system = bodies.tree(
        [Link(names[i], 1.0, (0, 0, -length / 2), INERTIA, names[i - 1] if i else "", joint[i]) for i in range(n)]
    )
    omega = 0.5 * np.sin(np.arange(3 * n) + 1.0).reshape(n, 3)
    relative = np.vstack([omega[:1], np.diff(omega, axis=0)])  # all attitudes are the identity
    one = gn.solve(by_hand, "rkmk6", xi0=omega.ravel(), dt=0.0025, n_steps=80)
    other = gn.solve(system, "rkmk6", xi0=relative.ravel(), dt=0.0025, n_steps=80)
    np.testing.assert_allclose(other.energy, one.energy, atol=1e-11)
    last = bodies.poses(system, tuple(part[-1] for part in other.g))
    for i, name in enumerate(names):
        np.testing.assert_allclose(last[name][0], one.g[i][-1], atol=1e-9)


def double_pendulum(**more):
    one, other = (Joint("revolute", name, (0, 1, 0), (0, 0, z)) for name, z in (("a", 0.0), ("b", -1.0)))
    return bodies.tree(
        [
            Link("upper", 1.2, (0, 0, -0.5), (0.1, 0.1, 0.1), "", one),
            Link("lower", 0.7, (0, 0, -0.6), (0.05,) * 3, "upper", other),
        ],
        **more,
    )


@pytest.mark.slow
def test_a_double_pendulum_is_that_of_its_angles():
    def lagrangian(x, xi):
        a, b = x[0], x[0] + x[1]
        first, second = xi[0], xi[0] + xi[1]
        kinetic = 0.5 * (1.2 * 0.25 + 0.1 + 0.7) * first**2 + 0.5 * (0.7 * 0.36 + 0.05) * second**2
        kinetic += 0.7 * 0.6 * first * second * jnp.cos(a - b)
        return kinetic + 9.81 * (1.2 * 0.5 * jnp.cos(a) + 0.7 * (jnp.cos(a) + 0.6 * jnp.cos(b)))

    by_hand = gn.System(gn.groups.Torus(2, ("a", "b")), lagrangian=lagrangian)
    system = double_pendulum()
    begin = {"g0": [0.4, -1.0], "xi0": [1.0, 2.0], "dt": 0.01, "n_steps": 100}
    one, other = gn.solve(by_hand, "gauss4", **begin), gn.solve(system, "gauss4", **begin)
    np.testing.assert_allclose(other.g, one.g, atol=1e-11)
    assert list(other.to_pandas().columns)[:4] == ["a", "b", "a_dot", "b_dot"]


@pytest.mark.slow
def test_methods_keep_their_orders():
    system = bodies.tree(arm("spherical"))
    xi0 = np.cos(np.arange(5) + 1.0)
    fine = gn.solve(system, "rkmk6", xi0=xi0, dt=0.005, n_steps=80).xi[-1]
    errors = [np.abs(gn.solve(system, "rkmk4", xi0=xi0, dt=0.4 / n, n_steps=n).xi[-1] - fine).max() for n in (20, 40)]
    assert 3.7 < np.log2(errors[0] / errors[1]) < 4.4


VARIED = ["lower.mass", "lower.centre", "b.place", "a.damping"]


def test_numbers_of_links_are_parameters():
    assert set(double_pendulum(varied=VARIED).parameters) == set(VARIED)


@pytest.mark.slow
def test_runs_are_differentiated_by_numbers_of_links():
    system = double_pendulum(varied=VARIED)

    def end(mass, z):
        changed = gn.mechanics.system.with_parameters(
            system, {"lower.mass": mass, "b.place": jnp.stack([0.0 * z, 0.0 * z, z])}
        )
        return gn.integrate(changed, "rkmk4", xi0=[1.0, 2.0], dt=0.01, n_steps=20).xi[-1][0]

    with jax.enable_x64(True):
        got = jax.grad(end, (0, 1))(0.7, -1.0)
        h = 1e-5
        np.testing.assert_allclose(got[0], (end(0.7 + h, -1.0) - end(0.7 - h, -1.0)) / (2 * h), rtol=1e-7)
        np.testing.assert_allclose(got[1], (end(0.7, h - 1.0) - end(0.7, -h - 1.0)) / (2 * h), rtol=1e-7)


@pytest.mark.slow
def test_springs_dampers_motors_and_mimics():
    spring = Joint("prismatic", "x", (1, 0, 0), stiffness=4.0, rest=0.5, damping=0.2, armature=1.0, motor=True)
    follower = Joint("prismatic", "y", (1, 0, 0), mimic=Mimic("x", -2.0, 0.1))
    system = bodies.tree([Link("cart", 1.0, joint=spring), Link("load", 3.0, parent="cart", joint=follower)])
    assert system.group.dim == 1  # ẍ(1 + 1 + 3·(1 − 2)²) = u − 4(x − 1/2) − ẋ/5
    assert float(system.mass_matrix(np.zeros(1))[0, 0]) == pytest.approx(5.0)
    run = gn.solve(system, "rkmk4", xi0=[0.0], dt=0.01, n_steps=200, controls=lambda t: jnp.ones(1))
    c, w = 0.02, np.sqrt(0.8 - 0.02**2)
    t = run.t
    exact = 0.75 * (1 - np.exp(-c * t) * (np.cos(w * t) + c / w * np.sin(w * t)))
    np.testing.assert_allclose(run.g[:, 0], exact, atol=1e-9)
    assert gn.solve(system, "rkmk4", xi0=[0.0], dt=0.01, n_steps=2).g.shape == (
        3,
        1,
    )  # without controls motors are idle


def test_fixed_links_are_part_of_what_carries_them():
    whole = bodies.tree([Link("a", 3.0, (0, 0.2, 0), (0.3, 0.2, 0.3), joint=Joint("revolute", "q", (1, 0, 0)))])
    # the same body of two: each has its own centre, axes and inertia
    turn = turned((0.3, 0.5))
    half = np.diag([0.15, 0.1, 0.15])
    parts = bodies.tree(
        [
            Link("a", 1.5, (0, 0.2, 0), half, joint=Joint("revolute", "q", (1, 0, 0))),
            Link(
                "b",
                1.5,
                turn.T @ [-1.0, 0.2, 0.0],
                turn.T @ half @ turn,
                "a",
                Joint("fixed", place=(1.0, 0, 0), rotation=turn),
            ),
        ]
    )
    with jax.enable_x64(True):
        for x in (np.array([0.3]), np.array([2.0])):
            xi = np.array([1.3])
            assert float(parts.lagrangian(x, xi)) == pytest.approx(float(whole.lagrangian(x, xi)), rel=1e-14)


@pytest.mark.slow
def test_a_tree_on_the_plane_is_reduced():
    base = Link("base", 5.0, (0.1, 0, 0.2), (1, 1, 1), "", Joint("planar", "base"))
    pendulum = Link("rod", 1.0, (0, 0, 0.3), (0.1, 0.1, 0.1), "base", Joint("revolute", "q", (0, 1, 0)))
    system = bodies.tree([base, pendulum])
    assert system.reduced
    assert system.group.velocity_names == ("base_omega", "base_vx", "base_vy", "q_dot")
    run = gn.solve(system, "rkmk4", xi0=[0.3, 1.0, 0.2, 0.5], dt=0.01, n_steps=50)
    assert np.ptp(run.energy) < 1e-8
    assert not bodies.tree([base, pendulum], gravity=(1.0, 0, -9.0)).reduced


ROD = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0)}
TURN = Joint("revolute", "q")


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (lambda: [Link("a", **ROD, parent="b", joint=TURN)], "link 'a': its parent 'b'"),
        (lambda: [Link("a", **ROD, parent="b"), Link("b", **ROD, parent="a")], "in a cycle: 'a' → 'b' → 'a'"),
        (lambda: [Link("a", **ROD), Link("b", **ROD)], r"\['a', 'b'\] all have no parent"),
        (lambda: [Link("a", **ROD), Link("a", **ROD, parent="a")], "two links have the name 'a'"),
        (lambda: [Link("a", **ROD, joint=TURN), Link("b", **ROD, parent="a", joint=TURN)], "joints have the name 'q'"),
        (lambda: [Link("a", mass=-1.0)], "mass of link 'a' must not be negative"),
        (lambda: [Link("a", 1.0, inertia=(1.0, -0.5, 1.0), joint=TURN)], "joint 'q' carries a body of indefinite"),
        (lambda: [Link("a", 1.0, inertia=np.eye(3) + np.eye(3, k=1), joint=TURN)], "inertia of link 'a' must be symm"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", (0, 0, 2)))], "axis of joint 'q' must have length one"),
        (lambda: [Link("a", 1.0, joint=TURN)], "joint 'q' has no inertia beyond it: link 'a'"),
        (lambda: [Link("a", **ROD)], "no joint moves"),
        (lambda: [Link("a", **ROD, joint=Joint("turning", "q"))], "kind of joint 'q' must be one of"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", mimic=Mimic("p")))], "joint 'q' mimics 'p'"),
        (lambda: [Link("a", **ROD, joint=Joint("spherical", "q", stiffness=1.0))], "need a joint with one coordinate"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", lower=1.0, upper=0.0))], "lower 1.0 exceeds upper 0.0"),
        (lambda: ["a"], "links must be a list of Link"),
        (lambda: [Link("a", **ROD, shapes=Shape("ball", (0.1,)))], "shapes of link 'a' must be a tuple of Shape"),
        (lambda: [Link("", **ROD)], "name of a link must not be empty"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", 3))], "name of a joint must be text, got 3"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", motor="no"))], "motor of joint 'q' must be True or"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", mimic="p"))], "mimic of joint 'q' must be a Mimic"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", upper=np.nan))], "upper of joint 'q' must be a number"),
        (lambda: [Link("a", **ROD, joint=Joint("revolute", "q", upper={1: 2, "a": 3}))], "upper of joint 'q' must hav"),
        (lambda: Mimic(["p"]), "joint of a mimic must be text"),
        (lambda: Mimic("p", "2"), "factor of a mimic of 'p' must be real numbers"),
        (lambda: Mimic("p", 2.0, np.ones(3)), r"offset of a mimic of 'p' must have shape \(\)"),
        (lambda: Shape("ball", (0.1,), colour="red"), "colour must be text such as '#0072B2'"),
        (lambda: Shape("ball", (0.1,), colour=7), "colour must be text"),
        (lambda: Shape("box", (0.1, 0.2, 0.0)), "size of a box must be positive"),
        (lambda: jax.make_jaxpr(lambda m: Link("a", m) and 0.0)(1.0), "mass of link 'a' is traced"),
    ],
)
def test_what_is_no_tree_is_refused_by_name(links, words):
    with pytest.raises((ValueError, TypeError), match=words):
        bodies.tree(links())


def test_names_of_parameters_are_judged():
    for varied, words in (
        (np.ones(3, bool), "varied must be a list of names"),
        (["lower.mass", 3], "varied must be a list of names"),
        ({"lower.mass": 2.0}, r"varied\['lower.mass'\] must be a function"),
    ):
        with pytest.raises(TypeError, match=words):
            double_pendulum(varied=varied)


def test_numbers_of_a_mimic_may_be_of_any_kind():
    other = Mimic("lower", Fraction(1, 2), np.array(0.25, ">f8"))
    assert other == Mimic("lower", 0.5, 0.25)
    assert hash(other) == hash(Mimic("lower", 0.5, 0.25))


def test_inertias_of_no_body_are_told():
    with pytest.warns(UserWarning, match=r"of no body.*'a' \["):
        bodies.tree([Link("a", 1.0, inertia=(1.0, 1.0, 3.0), joint=TURN)])


@pytest.mark.parametrize("name", ["lower", "none.mass", "lower.radius"])
def test_unknown_parameters_are_refused(name):
    with pytest.raises(ValueError, match="varied"):
        double_pendulum(varied=[name])


def test_numbers_that_change_from_trace_to_trace_are_refused():
    draws = np.random.default_rng(0)
    link = Link("rod", 1.0, (0, 0, -1), (1, 1, 1), "", Joint("revolute", "q", (1, 0, 0)))
    varied = {"rod.mass": lambda parameters: parameters["mass"] + draws.normal()}
    with pytest.raises(ValueError, match=r"varied\['rod.mass'\] gives another result each time"):
        bodies.tree([link], varied=varied, parameters={"mass": 1.0})

"""Public benchmarks of multibody dynamics as trees of bodies."""

import jax.numpy as jnp
import numpy as np

from geonh.bodies import Joint, Link, Loop, Spring, tree

SQUEEZER = dict(
    m1=0.04325, m2=0.00365, m3=0.02373, m4=0.00706, m5=0.07050, m6=0.00706, m7=0.05498,
    i1=2.194e-6, i2=4.410e-7, i3=5.255e-6, i4=5.667e-7, i5=1.169e-5, i6=5.667e-7, i7=1.912e-5,
    xa=-0.06934, ya=-0.00227, xb=-0.03635, yb=0.03273, xc=0.014, yc=0.072, c0=4530.0, l0=0.07785,
    d=0.028, da=0.0115, e=0.02, ea=0.01421, rr=0.007, ra=0.00092, ss=0.035, sa=0.01874, sb=0.01043, sc=0.018, sd=0.02,
    ta=0.02308, tb=0.00916, u=0.04, ua=0.01228, ub=0.00449, zf=0.02, zt=0.04, fa=0.01421, mom=0.033,
)  # fmt: skip
"""Numbers of Hairer, Wanner, Solving Ordinary Differential Equations II (1996), §VII.7."""
SQUEEZER_START = {
    "beta": -0.0617138900142764496358948458001,
    "theta": 0.0,
    "gamma": 0.455279819163070380255912382449,
    "phi": 0.222668390165885884674473185609,
    "delta": 0.487364979543842550225598953530,
    "omega": -0.222668390165885884674473185609,
    "epsilon": 1.23054744454982119249735015568,
}
SQUEEZER_END = {
    "beta": 0.1581077119629904e2,
    "theta": -0.1575637105984298e2,
    "gamma": 0.4082224013073101e-1,
    "phi": -0.5347301163226948,
    "delta": 0.5244099658805304,
    "omega": 0.5347301163226948,
    "epsilon": 0.1048080741042263e1,
}
"""At t = 0.03 s; Mazzia, Magherini, Test Set for Initial Value Problem Solvers (2008), made with PSIDE."""


def squeezer():
    """Andrews' squeezing mechanism: seven bodies, three loops, one spring."""
    p = SQUEEZER

    def body(k, name, centre, parent, place):
        joint = Joint("revolute", name, place=(*place, 0.0))
        return Link(f"K{k}", p[f"m{k}"], (*centre, 0.0), (p[f"i{k}"],) * 3, parent, joint)

    links = [
        Link("frame"),
        body(1, "beta", (p["ra"], 0.0), "frame", (0.0, 0.0)),
        body(2, "theta", (-p["da"], 0.0), "K1", (p["rr"], 0.0)),
        body(3, "gamma", (p["sb"], -p["sa"]), "frame", (p["xb"], p["yb"])),
        body(5, "delta", (p["ta"], p["tb"]), "frame", (p["xa"], p["ya"])),
        body(4, "phi", (0.0, p["ea"] - p["e"]), "K5", (p["zt"], 0.0)),
        body(7, "epsilon", (-p["ub"], -p["ua"]), "frame", (p["xa"], p["ya"])),
        body(6, "omega", (p["zf"] - p["fa"], 0.0), "K7", (0.0, -p["u"])),
    ]
    end = (-p["d"], 0.0, 0.0)
    others = {"K3": (0.0, -p["ss"], 0.0), "K4": (0.0, -p["e"], 0.0), "K6": (p["zf"], 0.0, 0.0)}
    ends = {"place": (p["sd"], -p["sc"], 0.0), "other_place": (p["xc"], p["yc"], 0.0)}
    return tree(
        links,
        gravity=(0.0, 0.0, 0.0),
        loops=[Loop("K2", other, "spherical", end, place) for other, place in others.items()],
        springs=[Spring("K3", "", p["c0"], p["l0"], **ends)],
        forces=lambda t, x, xi, u: jnp.zeros(7).at[0].set(p["mom"]),
        name="squeezing mechanism",
    )


CAR_AXIS_END = ((0.4934557842755629e-1, 0.4969894602303324), (0.1041742524885400e1, 0.3739110272652214))
"""Wheels at t = 3 s, ibid."""


def car_axis():
    """Two wheels on springs on a base that turns by arcsin(0.1 sin 10t); the left one moves across the base."""
    m = 10.0 * 1e-4 / 2
    links = [
        Link("base", inertia=(1.0, 1.0, 1.0), joint=Joint("revolute", "theta")),
        Link("left", m, parent="base", joint=Joint("prismatic", "l", (0, 1, 0))),
        Link("right", m, (1, 0, 0), parent="left", joint=Joint("revolute", "phi")),
    ]
    ends = {"place": (1, 0, 0), "other_place": (1, 0, 0)}
    return tree(
        links,
        gravity=(0, -1, 0),
        springs=[Spring("left", "base", 1.0, 0.5), Spring("right", "base", 1.0, 0.5, **ends)],
        prescribed={"theta": lambda t: jnp.arcsin(0.1 * jnp.sin(10 * t))},
        name="car axis",
    )


def four_bars(windows=2):
    """N-four-bar mechanism: links of 1 m and 1 kg, N windows; all loops are singular where they are flat."""
    links, loops = [Link("frame")], []
    for i in range(windows + 1):
        joint = Joint("revolute", f"q{i}", place=(i, 0, 0))
        links.append(Link(f"post{i}", 1.0, (0, 0.5, 0), (1 / 12, 0, 1 / 12), "frame", joint))
    for i in range(windows):
        joint = Joint("revolute", f"b{i}", place=(0, 1, 0))
        links.append(Link(f"bar{i}", 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12), f"post{i}", joint))
        loops.append(Loop(f"bar{i}", f"post{i + 1}", "spherical", (1, 0, 0), (0, 1, 0)))
    return tree(links, gravity=(0, -9.81, 0), loops=loops, name="four-bars")


def bricard():
    """Bricard's mechanism: five rods of 1 m and 1 kg with square cross section, six hinges, one row redundant."""
    along, across = 0.1**2 / 6, 1 / 12 + 0.1**2 / 12
    links, parent, place, turn = [Link("frame")], "frame", (0, 0, 0), np.eye(3)
    for i, sign in enumerate((1, -1, 1, -1, 1)):
        joint = Joint("revolute", f"q{i + 1}", place=place, rotation=turn)
        links.append(Link(f"rod{i + 1}", 1.0, (0.5, 0, 0), (along, across, across), parent, joint))
        parent, place = f"rod{i + 1}", (1, 0, 0)
        turn = np.array([[1.0, 0, 0], [0, 0, -sign], [0, sign, 0]])  # the next axis is across the rod
    closing = Loop("rod5", "frame", "revolute", (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 1, 0))
    return tree(links, gravity=(0, -9.81, 0), loops=[closing], name="Bricard")


def governor():
    """Stiff flyball governor: a turning shaft, a slider, and two rods that springs with dampers hold at it."""
    shaft = 3000 * 0.01**2
    rod = (shaft * 2 * 0.01**2 / 12, shaft * (1 + 0.01**2) / 12, shaft * (1 + 0.01**2) / 12)
    links = [Link("shaft", shaft, (0, 0, 0.5), rod[::-1], "", Joint("revolute", "angle"))]
    links.append(Link("slider", 3.0, (0, 0, 0), (0.005,) * 3, "shaft", Joint("prismatic", "s")))
    springs = []
    for side, name in ((1, "a"), (-1, "b")):
        joint = Joint("revolute", name, (0, side, 0), (0.0, 0.0, 1.0))
        axis = (side * 0.5, 0, 0)
        links.append(Link(f"rod {name}", shaft, axis, rod, "shaft", joint))
        links.append(Link(f"ball {name}", 5.0, parent=f"rod {name}", joint=Joint(place=(side, 0, 0))))
        springs.append(Spring(f"rod {name}", "slider", 8e5, 0.5, 4e4, (side * 0.5, 0, 0)))
    return tree(links, springs=springs, name="governor")

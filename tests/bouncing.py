"""A bouncing ball whose reset holds the system, for tests of systems with modes."""

import functools

import equinox as eqx

import geonh as gn
from geonh.groups import Translations

G = 9.81


class Bounce(eqx.Module):
    """Newton's law with the restitution of a system that the reset holds."""

    ball: gn.System

    def __call__(self, t, x, xi):
        return -self.ball.parameters["e"] * xi


@functools.cache
def bouncing():
    ball = gn.System(
        Translations(1),
        metric=[1.0],
        potential=lambda x, p: p["G"] * x[0],
        parameters={"G": G, "e": 0.8},
        name="ball",
    )
    floor = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="floor")
    return gn.Modes({"flight": ball}, [gn.Transition("flight", floor, "flight", Bounce(ball))], name="bouncing")

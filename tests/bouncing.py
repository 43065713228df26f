"""Bodies that bounce and surfaces that they meet, for tests of systems with modes."""

import functools
from dataclasses import replace

import equinox as eqx

import geonh as gn
from geonh.groups import Translations

G = 9.81
FLOOR = gn.Event(lambda t, x, xi, lam: x[0], direction=-1, name="floor")


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
    return gn.Modes({"flight": ball}, [gn.Transition("flight", FLOOR, "flight", Bounce(ball))], name="bouncing")


@functools.cache
def particle():
    return gn.System(Translations(1), metric=[1.0], potential=lambda x: G * x[0], name="particle")


def rebounding(e=1.0, target="flight", modes=None, direction=-1):
    reset, floor = lambda t, x, xi: -e * xi, replace(FLOOR, direction=direction)
    return gn.Modes(
        {"flight": particle(), **(modes or {})}, [gn.Transition("flight", floor, target, reset)], name="ball"
    )


@functools.cache
def free():
    return gn.System(Translations(1), metric=[1.0], name="free")


def surface(s, direction=1, name="surface"):
    return gn.Event(lambda t, x, xi, lam: x[0] - s, direction=direction, name=name)

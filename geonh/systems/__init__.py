"""Catalogue of classical systems: one module and function each, with an ``Entry`` of metadata."""

from __future__ import annotations

from geonh.runs.continuation import recognisers
from geonh.systems.chaplygin_sleigh import ENTRY as _chaplygin_sleigh
from geonh.systems.chaplygin_sleigh import chaplygin_sleigh
from geonh.systems.chaplygin_sphere import ENTRY as _chaplygin_sphere
from geonh.systems.chaplygin_sphere import chaplygin_sphere
from geonh.systems.contact_oscillator import ENTRIES as _contact_oscillator
from geonh.systems.contact_oscillator import contact_oscillator, contact_oscillator_nonreversible
from geonh.systems.double_pendulum import ENTRY as _double_pendulum
from geonh.systems.double_pendulum import double_pendulum
from geonh.systems.elroys_beanie import ENTRY as _elroys_beanie
from geonh.systems.elroys_beanie import elroys_beanie
from geonh.systems.entry import Catalogue, Entry, Start
from geonh.systems.heavy_top import ENTRY as _heavy_top
from geonh.systems.heavy_top import heavy_top
from geonh.systems.heisenberg import ENTRIES as _heisenberg
from geonh.systems.heisenberg import heisenberg, heisenberg_group
from geonh.systems.knife_edge import ENTRY as _knife_edge
from geonh.systems.knife_edge import knife_edge
from geonh.systems.nonholonomic_oscillator import ENTRY as _nonholonomic_oscillator
from geonh.systems.nonholonomic_oscillator import nonholonomic_oscillator
from geonh.systems.nonholonomic_particle import ENTRY as _nonholonomic_particle
from geonh.systems.nonholonomic_particle import nonholonomic_particle
from geonh.systems.roller_racer import ENTRY as _roller_racer
from geonh.systems.roller_racer import roller_racer
from geonh.systems.rolling_ball import ENTRY as _rolling_ball
from geonh.systems.rolling_ball import rolling_ball
from geonh.systems.rolling_bodies import ENTRIES as _rolling_bodies
from geonh.systems.rolling_bodies import eulers_disc, rattleback, rolling_disc, routh_sphere, sphere_in_cylinder
from geonh.systems.snakeboard import ENTRIES as _snakeboard
from geonh.systems.snakeboard import controlled_snakeboard, snakeboard, snakeboard_absolute
from geonh.systems.spherical_robot import ENTRY as _spherical_robot
from geonh.systems.spherical_robot import spherical_robot
from geonh.systems.suslov import ENTRY as _suslov
from geonh.systems.suslov import suslov
from geonh.systems.vertical_disk import ENTRY as _vertical_disk
from geonh.systems.vertical_disk import vertical_disk
from geonh.systems.veselova import ENTRY as _veselova
from geonh.systems.veselova import veselova
from geonh.systems.wheeled_robots import ENTRIES as _wheeled_robots
from geonh.systems.wheeled_robots import robot_with_trailers, two_wheeled_robot
from geonh.systems.whipple_bicycle import ENTRY as _whipple_bicycle
from geonh.systems.whipple_bicycle import whipple_bicycle

catalogue = Catalogue(
    {
        entry.name: entry
        for entry in (
            _nonholonomic_particle,
            *_snakeboard,
            _chaplygin_sleigh,
            _elroys_beanie,
            _rolling_ball,
            _chaplygin_sphere,
            _suslov,
            _knife_edge,
            _vertical_disk,
            _roller_racer,
            *_heisenberg,
            _nonholonomic_oscillator,
            *_contact_oscillator,
            _veselova,
            _heavy_top,
            _double_pendulum,
            *_rolling_bodies,
            *_wheeled_robots,
            _spherical_robot,
            _whipple_bicycle,
        )
    }
)
"""Catalogue entries by name."""
recognisers.append(catalogue.name_of)

__all__ = [
    "Entry",
    "Start",
    "catalogue",
    "chaplygin_sleigh",
    "chaplygin_sphere",
    "contact_oscillator",
    "contact_oscillator_nonreversible",
    "controlled_snakeboard",
    "double_pendulum",
    "elroys_beanie",
    "eulers_disc",
    "heavy_top",
    "heisenberg",
    "heisenberg_group",
    "knife_edge",
    "nonholonomic_oscillator",
    "nonholonomic_particle",
    "rattleback",
    "robot_with_trailers",
    "roller_racer",
    "rolling_ball",
    "rolling_disc",
    "routh_sphere",
    "snakeboard",
    "snakeboard_absolute",
    "sphere_in_cylinder",
    "spherical_robot",
    "suslov",
    "two_wheeled_robot",
    "vertical_disk",
    "veselova",
    "whipple_bicycle",
]

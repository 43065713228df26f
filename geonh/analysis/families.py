"""Families of steady motions over values of parameters, with their linear equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.analysis.linearisation import Linearisation, reduced
from geonh.analysis.motions import generators, given_motions, motion_at, verified_motions
from geonh.mechanics.system import System


@dataclass
class MotionFamily:
    """Steady motions over values: ``motion`` is a function from these to (g, ξ), or one for all; ``names`` are scalar
    parameters that take them, None for one that only the motion depends on; the rest is as for ``linearise``.
    """

    system: System
    motion: Any
    names: tuple[str | None, ...]
    t: float
    controls: Any
    spins: Any
    symmetries: Any
    tol: float

    def __post_init__(self) -> None:
        known = [name for name, value in self.system.parameters.items() if np.shape(value) == ()]
        for name in self.names:
            if name is not None and name not in known:
                raise ValueError(f"parameter {name!r} is not a number among those of {self.system.name}: {known}")
        if None in self.names and not callable(self.motion):
            raise ValueError("nothing depends on the values of no parameter: motion must be a function of the values")
        self.spins = generators(self.system, self.spins)

    @property
    def labels(self) -> list[str]:
        """Names of the values."""
        return [name or "value" for name in self.names]

    def linearised(self, values: np.ndarray, family: tuple[int, ...] | None = None) -> list[Linearisation]:
        """Linear equations at values, shape=[N, names]; the material symmetries found there serve for later ones."""
        system, motions, changed, labels = self.system, [], [], []
        for row in values:
            motions.append(motion_at(self.motion, *map(float, row)))
            changed.append(system.parameters | {name: v for name, v in zip(self.names, row, strict=True) if name})
            labels.append(f"at {', '.join(f'{n} = {v:.6g}' for n, v in zip(self.labels, row, strict=True))}: ")
        given = given_motions(system, motions, self.controls, self.t)
        verified = verified_motions(system, changed, self.t, given, self.spins, self.tol, labels)
        self.spins = verified[-1].spins
        return [
            reduced(system, one, self.symmetries, family=family, label=label)
            for one, label in zip(verified, labels, strict=True)
        ]

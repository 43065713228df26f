"""Which systems a method is not for, as data: what is refused beyond it, or taken, is a fault."""

import numpy as np

SLOW_ENOUGH = {"chaplygin-sleigh", "elroys-beanie", "roller-racer"}
"""Systems of the catalogue for whose own steps a feedback with gains of 100 is slow enough."""


def refused(system, name, promised):
    """Whether a method is not for a system, by what its guarantees promise, with any step."""
    points = [system.group.exp(0.3 * np.random.default_rng(i).normal(size=system.group.dim)) for i in range(2)]
    first, second = (system.mass_matrix(system.at(g)) for g in points)
    metric_varies = not np.allclose(first, second, rtol=1e-12)
    not_for = {
        "variational": system.distribution is not None,
        "rk4-energy": system.is_affine or system.forces is not None,
        "rattle": metric_varies,
        "shake": metric_varies,
    }
    vector_spaces_only = promised.groups == "vector spaces" and np.any(system.group.structure_constants)
    return not_for.get(name, False) or vector_spaces_only or (system.is_affine and not promised.affine)

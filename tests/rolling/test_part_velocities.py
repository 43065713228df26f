import jax
import numpy as np
import pytest

from geonh.arguments.precision import float64
from geonh.rolling import knife_edge, part_velocities, planar_body, trailer, wheel


def drawing(n, wheels):
    """Body that draws n trailers of other numbers, with wheels from ``wheels(i)``."""
    body = planar_body(1.0, 0.3, wheels(n), centre=(0.1, 0.05))
    for i in reversed(range(n)):
        drawn = trailer(body, 1.0 + 0.1 * i, hitch=(-0.3, 0.02 * i), name=f"a{i}")
        body = planar_body(1.0 + 0.2 * i, 0.3, wheels(i), [drawn], centre=(0.05, -0.02))
    return body


def blades(i):
    return [knife_edge(0.1 * i, 0.05, 0.1)]


def driven(i):
    steered = knife_edge(0.2, 0.1, 0.3, steered=f"s{i}", inertia=0.1)
    return [wheel(0.1 + 0.01 * i, 0.02, 0.1, 0.3, name=f"r{i}"), steered]


def after_a_blade(i):
    """Wheels of all kinds, but for those of the first body."""
    return driven(i) if i else blades(i)


@pytest.mark.quick("blades-3")
@pytest.mark.parametrize(("wheels", "k"), [(blades, 3), (after_a_blade, 9)])
def test_a_row_in_a_loop_is_the_row_body_by_body(monkeypatch, wheels, k):
    body, rng = drawing(3, wheels), np.random.default_rng(3)
    x, xi = rng.normal(size=k), rng.normal(size=3 + k)

    def found(many):
        monkeypatch.setattr(part_velocities, "MANY", many)
        with float64():
            energy = jax.jit(lambda x, xi: part_velocities.kinetic_energy(x, xi, body))
            rows = jax.jit(
                lambda x, xi: jax.numpy.stack(list(part_velocities.velocities_of_parts(x, xi, body).constraints))
            )
            slopes = jax.jit(jax.grad(lambda x, xi: part_velocities.kinetic_energy(x, xi, body), (0, 1)))(x, xi)
            return np.concatenate([np.atleast_1d(energy(x, xi)), rows(x, xi), *slopes])

    one_by_one, in_a_loop = found(100), found(4)
    np.testing.assert_allclose(in_a_loop, one_by_one, rtol=1e-13, atol=1e-14)


def test_trailers_of_several_kinds_are_no_row():
    assert part_velocities.row_of_trailers(drawing(2, lambda i: blades(i) * i)) is None
    assert part_velocities.row_of_trailers(drawing(2, blades)).mass.shape == (2,)
